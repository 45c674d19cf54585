/*
 * A model in flash, an engine in static memory, and no C library. The program generates a few tokens and compares them
 * with those of every other machine.
 */
#include "board.h"
#include "gleed.h"

#define COUNT 12

/* "Once upon a time", and its continuation: "there was a little girl named Lily." */
static const uint32_t prompt[] = {1, 414, 435, 261, 385};
static const uint32_t expected[COUNT] = {952, 384, 281, 261, 378, 428, 509, 387, 945, 320, 511, 270};

static uint64_t model_memory[128];
GLEED_ALIGNED(64) static uint8_t arena[320 << 10];

static gleed_error error = {sizeof error, 0, 0, 0, 0, ""};

static uint32_t most_likely(const float *logits, size_t len)
{
    size_t best = 0, i;
    for (i = 1; i < len; i++)
        if (logits[i] > logits[best])
            best = i;
    return (uint32_t)best;
}

static gleed_status generate(void)
{
    gleed_config config = {0};
    const gleed_model *model;
    gleed_engine *engine;
    gleed_seq seq;
    gleed_status status;
    const float *logits;
    size_t size, align, len;
    uint32_t start, token, instructions = 0, same = 0, i;

    config.struct_size = sizeof config;
    config.context = 96;
    config.rows = 8;
    status = gleed_model_open(model_bytes, (size_t)(model_end - model_bytes), model_memory, sizeof model_memory, &model, &error);
    if (status == GLEED_OK)
        status = gleed_plan(model, &config, &size, &align, &error);
    if (status == GLEED_OK)
        status = gleed_engine_init(model, &config, arena, sizeof arena, &engine, &error);
    if (status == GLEED_OK)
        status = gleed_seq_open(engine, &seq, &error);
    if (status == GLEED_OK)
        status = gleed_prefill(engine, seq, prompt, sizeof prompt / sizeof *prompt, &logits, &len, &error);
    for (i = 0; status == GLEED_OK && i < COUNT; i++) {
        token = most_likely(logits, len);
        board_print_number(token);
        board_print(i + 1 < COUNT ? " " : "\n");
        same += token == expected[i];
        start = board_clock();
        status = gleed_decode_step(engine, seq, token, &logits, &len, &error);
        instructions += board_instructions(start) / COUNT;
    }
    if (status != GLEED_OK)
        return status;
    board_print("Gleed ");
    board_print(gleed_version());
    board_print(": code ");
    board_print_number((uint32_t)board_code());
    board_print(" bytes, arena ");
    board_print_number((uint32_t)size);
    board_print(" bytes, stack ");
    board_print_number((uint32_t)board_stack_used());
    board_print(" bytes, ");
    board_print_number(instructions);
    board_print(" instructions per token\n");
    return same == COUNT ? GLEED_OK : GLEED_E_INTERNAL;
}

int main(void)
{
    gleed_status status = generate();
    if (status == GLEED_OK)
        return 0;
    board_print("FAILED: ");
    board_print(gleed_status_text(status));
    board_print(": ");
    board_print(error.text);
    board_print("\n");
    return 1;
}
