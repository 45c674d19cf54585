/*
 * Prints how much memory a model needs, and generates a few tokens.
 *
 * usage: describe MODEL.gguf
 */
#include <stdio.h>
#include <stdlib.h>

#include "gleed.h"

/* The tokens of "Once upon a time" in the demo model. */
static const uint32_t prompt[] = {1, 414, 435, 261, 385};

static gleed_error error = {sizeof error, 0, 0, 0, 0, ""};

static void *read_file(const char *path, size_t *len)
{
    FILE *file = fopen(path, "rb");
    void *bytes = NULL;
    long end;
    if (file != NULL && fseek(file, 0, SEEK_END) == 0 && (end = ftell(file)) > 0 && fseek(file, 0, SEEK_SET) == 0) {
        *len = (size_t)end;
        bytes = malloc(*len);
        if (bytes != NULL && fread(bytes, 1, *len, file) != *len)
            *len = 0;
    }
    if (file != NULL)
        fclose(file);
    return bytes;
}

static void *aligned(void *memory, size_t align)
{
    return memory == NULL ? NULL : (char *)memory + (align - (uintptr_t)memory % align) % align;
}

static gleed_status describe(const void *bytes, size_t len)
{
    gleed_config config = {0};
    const gleed_model *model;
    gleed_engine *engine;
    gleed_seq seq;
    gleed_status status;
    const float *logits;
    size_t size, align, vocab, best, i;
    int count;

    config.struct_size = sizeof config;
    config.context = 64;
    config.rows = 8;
    if ((status = gleed_model_size(&size, &align, &error)) != GLEED_OK)
        return status;
    status = gleed_model_open(bytes, len, aligned(malloc(size + align), align), size, &model, &error);
    if (status != GLEED_OK || (status = gleed_plan(model, &config, &size, &align, &error)) != GLEED_OK)
        return status;
    printf("Gleed %s: %zu bytes for a sequence of 64 tokens\n", gleed_version(), size);
    status = gleed_engine_init(model, &config, aligned(malloc(size + align), align), size, &engine, &error);
    if (status != GLEED_OK || (status = gleed_seq_open(engine, &seq, &error)) != GLEED_OK)
        return status;
    status = gleed_prefill(engine, seq, prompt, sizeof prompt / sizeof *prompt, &logits, &vocab, &error);
    printf("generates");
    for (count = 0; count < 8 && status == GLEED_OK; count++) {
        for (best = 0, i = 1; i < vocab; i++)
            if (logits[i] > logits[best])
                best = i;
        printf(" %zu", best);
        status = gleed_decode_step(engine, seq, (uint32_t)best, &logits, &vocab, &error);
    }
    printf("\n");
    return status;
}

int main(int argc, char **argv)
{
    size_t len = 0;
    void *bytes = argc == 2 ? read_file(argv[1], &len) : NULL;
    gleed_status status;
    if (bytes == NULL || len == 0) {
        fprintf(stderr, "usage: describe MODEL.gguf\n");
        return 2;
    }
    status = describe(bytes, len);
    if (status != GLEED_OK)
        fprintf(stderr, "%s: %s\n", gleed_status_text(status), error.text);
    return status == GLEED_OK ? 0 : 1;
}
