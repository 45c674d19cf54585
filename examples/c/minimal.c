/*
 * Continues a text without malloc: the file and all memory of Gleed lie in two static arrays.
 *
 * usage: minimal MODEL.gguf [TEXT [TOKENS]]
 *
 * The sizes are for the demo model and similar ones. For a larger model the program prints the sizes that it needs. If
 * the model is part of the program, or in flash, the array for the file is not needed: gleed_model_open takes bytes at
 * any address.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gleed.h"

#ifndef MODEL_BYTES
#define MODEL_BYTES 4000000
#endif
#ifndef ARENA_BYTES
#define ARENA_BYTES 2000000
#endif
#define CONTEXT 256

static uint8_t model_bytes[MODEL_BYTES];
static uint8_t arena[ARENA_BYTES];
static size_t arena_used;

static gleed_error error = {.struct_size = sizeof error};

static void check(gleed_status status)
{
    if (status == GLEED_OK)
        return;
    fprintf(stderr, "minimal: %s\n", error.text[0] != '\0' ? error.text : gleed_status_text(status));
    exit(1);
}

/* Returns the next part of the arena, at a multiple of `align`. */
static void *carve(size_t size, size_t align)
{
    uintptr_t end = (uintptr_t)arena + arena_used;
    size_t start = arena_used + (align - end % align) % align;
    if (start > sizeof arena || size > sizeof arena - start) {
        fprintf(stderr, "minimal: the arena needs %zu bytes or more, it has %zu: compile with -DARENA_BYTES=...\n",
                start + size, sizeof arena);
        exit(1);
    }
    arena_used = start + size;
    return arena + start;
}

static size_t read_model(const char *path)
{
    FILE *file = fopen(path, "rb");
    size_t len;
    if (file == NULL) {
        perror(path);
        exit(1);
    }
    len = fread(model_bytes, 1, sizeof model_bytes, file);
    if (ferror(file) || fgetc(file) != EOF) {
        fprintf(stderr, "%s: cannot be read, or has more than %zu bytes: compile with -DMODEL_BYTES=...\n", path,
                sizeof model_bytes);
        exit(1);
    }
    fclose(file);
    return len;
}

/* For every object, first its size is asked for, then memory is taken, then the object is made in it. */
static const gleed_model *open_model(const char *path)
{
    const gleed_model *model;
    size_t size, align, len = read_model(path);
    check(gleed_model_size(&size, &align, &error));
    check(gleed_model_open(model_bytes, len, carve(size, align), size, &model, &error));
    return model;
}

static gleed_engine *start_engine(const gleed_model *model)
{
    const gleed_config config = {.struct_size = sizeof config, .context = CONTEXT, .rows = 16};
    gleed_engine *engine;
    size_t size, align;
    check(gleed_plan(model, &config, &size, &align, &error));
    check(gleed_engine_init(model, &config, carve(size, align), size, &engine, &error));
    return engine;
}

static const gleed_tokenizer *start_tokenizer(const gleed_model *model)
{
    const gleed_tokenizer *tokenizer;
    size_t size, align;
    check(gleed_tokenizer_size(model, &size, &align, &error));
    check(gleed_tokenizer_init(model, carve(size, align), size, &tokenizer, &error));
    return tokenizer;
}

static gleed_detokenizer *start_detokenizer(const gleed_tokenizer *tokenizer)
{
    gleed_detokenizer *detokenizer;
    size_t size, align;
    check(gleed_detokenizer_size(&size, &align, &error));
    check(gleed_detokenizer_init(tokenizer, GLEED_DECODE_CONTINUES, carve(size, align), size, &detokenizer, &error));
    return detokenizer;
}

static void generate(const gleed_model *model, const char *prompt, size_t tokens)
{
    static uint32_t scratch[2000], ids[CONTEXT];
    static char text[1024];
    const gleed_tokenizer *tokenizer = start_tokenizer(model);
    gleed_detokenizer *detokenizer = start_detokenizer(tokenizer);
    gleed_engine *engine = start_engine(model);
    const float *logits;
    size_t count, vocab, len;
    uint32_t token, kind, is_end;
    gleed_seq seq;

    check(gleed_encode(tokenizer, prompt, strlen(prompt), GLEED_ENCODE_ADD_SPECIAL, scratch, 2000, ids, CONTEXT, &count,
                       &error));
    check(gleed_seq_open(engine, &seq, &error));
    check(gleed_can_extend(engine, seq, count + tokens, &error));
    check(gleed_prefill(engine, seq, ids, count, &logits, &vocab, &error));
    fputs(prompt, stdout);
    for (; tokens > 0; tokens--) {
        check(gleed_argmax(logits, vocab, &token, &error));
        check(gleed_token_kind(tokenizer, token, &kind, &is_end, &error));
        if (is_end)
            break;
        check(gleed_detokenize(detokenizer, tokenizer, token, text, sizeof text, &len, &error));
        fwrite(text, 1, len, stdout);
        fflush(stdout);
        check(gleed_decode_step(engine, seq, token, &logits, &vocab, &error));
    }
    check(gleed_detokenizer_finish(detokenizer, text, sizeof text, &len, &error));
    fwrite(text, 1, len, stdout);
    putchar('\n');
}

static void usage(FILE *to)
{
    fprintf(to, "usage: minimal MODEL.gguf [TEXT [TOKENS]], TOKENS from 1 to %d\n", CONTEXT);
}

/* Output may still be buffered, and the disk may be full. */
static int flushed(int result)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return result;
    perror("minimal: standard output");
    return 1;
}

int main(int argc, char **argv)
{
    const char *prompt = argc > 2 ? argv[2] : "Once upon a time";
    char *end = "";
    unsigned long tokens = argc > 3 ? strtoul(argv[3], &end, 10) : 40;
    if (argc == 2 && strcmp(argv[1], "--help") == 0) {
        usage(stdout);
        return flushed(0);
    }
    if (argc < 2 || argc > 4 || argv[1][0] == '-' || *end != '\0' || tokens == 0 || tokens > CONTEXT) {
        usage(stderr);
        return 2;
    }
    generate(open_model(argv[1]), prompt, tokens);
    return flushed(0);
}
