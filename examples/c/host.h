/*
 * Code that programs with a heap and files need around Gleed: memory, a model from a file, and messages. Objects live as
 * long as the program. Their memory is freed at its end.
 */
#ifndef HOST_H
#define HOST_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gleed.h"

static gleed_error error = {.struct_size = sizeof error};

/* Returns the error text of the last call, which had this status. */
static inline const char *reason(gleed_status status)
{
    return error.status == status && error.text[0] != '\0' ? error.text : gleed_status_text(status);
}

/* Ends the program with a message if a call has failed. `what` names the subject of the call. */
static inline void check(gleed_status status, const char *what)
{
    if (status == GLEED_OK)
        return;
    fprintf(stderr, "%s: %s\n", what, reason(status));
    exit(1);
}

/* Returns the exit code of the program. Output may still be buffered, and the disk may be full. */
static inline int flushed(int result)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return result;
    perror("standard output");
    return 1;
}

struct block {
    struct block *next;
};

static struct block *blocks;

static inline void give_memory_back(void)
{
    while (blocks != NULL) {
        struct block *block = blocks;
        blocks = block->next;
        free(block);
    }
}

static inline void *memory(size_t size, size_t align)
{
    struct block *block = size < SIZE_MAX - align - sizeof *block ? malloc(sizeof *block + size + align) : NULL;
    char *bytes;
    if (block == NULL || (blocks == NULL && atexit(give_memory_back) != 0)) {
        fprintf(stderr, "out of memory: %zu bytes\n", size);
        exit(1);
    }
    block->next = blocks;
    blocks = block;
    bytes = (char *)(block + 1);
    return bytes + (align - (uintptr_t)bytes % align) % align;
}

static inline uint8_t *read_file(const char *path, size_t *len)
{
    FILE *file = fopen(path, "rb");
    uint8_t *bytes = NULL;
    long end = -1;
    if (file != NULL && fseek(file, 0, SEEK_END) == 0 && (end = ftell(file)) >= 0 && fseek(file, 0, SEEK_SET) == 0)
        bytes = memory((size_t)end, 1);
    if (bytes == NULL || fread(bytes, 1, (size_t)end, file) != (size_t)end) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        exit(1);
    }
    fclose(file);
    *len = (size_t)end;
    return bytes;
}

/*
 * Opens the model in a file, or in all parts of a split file, of which `path` names the first: NAME-00001-of-00003.gguf.
 */
static inline const gleed_model *open_model(const char *path)
{
    enum { ENDING = sizeof "-00001-of-00003.gguf" - 1 };
    const gleed_model *model;
    size_t size, align, length = strlen(path);
    unsigned count = 1, part, number, digit;
    gleed_part *parts;
    char *name = strcpy(memory(length + 1, 1), path), *ending = length < ENDING ? name : name + length - ENDING;
    int is_split = sscanf(ending, "-00001-of-%5u.gguf", &count) == 1 && count > 0;
    if (!is_split)
        count = 1;
    parts = memory(count * sizeof *parts, sizeof(void *));
    for (part = 0; part < count; part++) {
        for (digit = 5, number = part + 1; is_split && digit > 0; digit--, number /= 10)
            ending[digit] = (char)('0' + number % 10);
        parts[part].bytes = read_file(name, &parts[part].len);
    }
    check(gleed_model_split_size(count, &size, &align, &error), path);
    check(gleed_model_open_split(parts, count, memory(size, align), size, &model, &error), path);
    return model;
}

static inline gleed_engine *start_engine(const gleed_model *model, const gleed_config *config)
{
    gleed_engine *engine;
    size_t size, align;
    check(gleed_plan(model, config, &size, &align, &error), "engine");
    check(gleed_engine_init(model, config, memory(size, align), size, &engine, &error), "engine");
    return engine;
}

static inline const gleed_tokenizer *start_tokenizer(const gleed_model *model)
{
    const gleed_tokenizer *tokenizer;
    size_t size, align;
    check(gleed_tokenizer_size(model, &size, &align, &error), "tokenizer");
    check(gleed_tokenizer_init(model, memory(size, align), size, &tokenizer, &error), "tokenizer");
    return tokenizer;
}

/* Starts a sampler. A NULL sampler gets memory. An existing one starts again in its memory. */
static inline void start_sampler(gleed_sampler **sampler, const gleed_sampler_params *params)
{
    size_t size, align;
    check(gleed_sampler_size(&size, &align, &error), "sampler");
    check(gleed_sampler_init(params, *sampler != NULL ? (void *)*sampler : memory(size, align), size, sampler, &error),
          "sampler");
}

static inline void start_detokenizer(gleed_detokenizer **detokenizer, const gleed_tokenizer *tokenizer)
{
    size_t size, align;
    void *at = *detokenizer;
    check(gleed_detokenizer_size(&size, &align, &error), "detokenizer");
    check(gleed_detokenizer_init(tokenizer, GLEED_DECODE_CONTINUES, at != NULL ? at : memory(size, align), size,
                                 detokenizer, &error), "detokenizer");
}

/* Callbacks for snapshots in files. The context is a FILE. */
static inline int32_t write_to_file(void *file, const uint8_t *bytes, size_t len)
{
    return fwrite(bytes, 1, len, file) == len ? 0 : -1;
}

static inline size_t read_from_file(void *file, uint8_t *bytes, size_t len)
{
    size_t got = fread(bytes, 1, len, file);
    return ferror((FILE *)file) ? SIZE_MAX : got;
}

#endif
