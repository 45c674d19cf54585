/* Compiled with the first header: must go on to run with every later library of the same ABI version. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gleed-1.h"

#define DO(call)                                                                  \
    do {                                                                          \
        if ((call) != GLEED_OK) {                                                 \
            fprintf(stderr, "%d: %d: %s\n", __LINE__, error.status, error.text);  \
            exit(1);                                                              \
        }                                                                         \
    } while (0)

int main(int argc, char **argv)
{
    static uint64_t model_memory[128];
    const gleed_config config = {sizeof config, 2, 64, 4, GLEED_KV_PAGED, GLEED_KV_F16, 0};
    const uint32_t prompt[5] = {1, 414, 435, 261, 385};
    gleed_error error = {sizeof error, 0, 0, 0, 0, ""};
    const gleed_model *model = NULL;
    gleed_engine *engine = NULL;
    const float *logits = NULL;
    size_t size, align, len = 0, i;
    gleed_seq seq;
    uint8_t *bytes;
    char *memory;
    FILE *file;
    int count;

    if (argc != 2 || gleed_abi_version() != GLEED_ABI_VERSION || (file = fopen(argv[1], "rb")) == NULL)
        return 1;
    bytes = malloc(1u << 23);
    len = fread(bytes, 1, 1u << 23, file);
    fclose(file);
    DO(gleed_model_size(&size, &align, &error));
    if (size > sizeof model_memory)
        return 2;
    DO(gleed_model_open(bytes, len, model_memory, sizeof model_memory, &model, &error));
    DO(gleed_plan(model, &config, &size, &align, &error));
    memory = malloc(size + align);
    memory += (align - (uintptr_t)memory % align) % align;
    DO(gleed_engine_init(model, &config, memory, size, &engine, &error));
    DO(gleed_seq_open(engine, &seq, &error));
    DO(gleed_prefill(engine, seq, prompt, 5, &logits, &len, &error));
    for (count = 0; count < 8; count++) {
        uint32_t best = 0;
        for (i = 1; i < len; i++)
            if (logits[i] > logits[best])
                best = (uint32_t)i;
        printf("%s%u", count ? " " : "", (unsigned)best);
        DO(gleed_decode_step(engine, seq, best, &logits, &len, &error));
    }
    printf("\n");
    DO(gleed_reset(engine, seq, &error));
    DO(gleed_seq_close(engine, seq, &error));
    return 0;
}
