/*
 * A story in budgeted steps: story.h. It takes the most probable token each time, so every machine tells the same
 * story.
 */
#define _POSIX_C_SOURCE 200112L
#include "story.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(_WIN32)
#include <windows.h>
#else
#include <time.h>
#endif

#include "gleed.h"

#define CONTEXT 256
#define SCRATCH 8192
/* Largest text of one step, in bytes. A frame with more time gets more text. */
#define MAX_TEXT 4096

/* The indices of the library's objects in `memory`. */
enum { MODEL, TOKENIZER, DETOKENIZER, ENGINE, OBJECTS };

struct story {
    uint8_t *file;
    void *memory[OBJECTS];
    const gleed_model *model;
    const gleed_tokenizer *tokenizer;
    gleed_detokenizer *detokenizer;
    gleed_engine *engine;
    gleed_seq seq;
    uint32_t max_text; /* largest number of bytes of a token */
    int is_told;       /* a story is in progress */
    char text[MAX_TEXT];
    char why[320];
    gleed_error error;
};

static uint64_t microseconds(void *ctx)
{
#if defined(_WIN32)
    LARGE_INTEGER now, frequency;
    (void)ctx;
    QueryPerformanceCounter(&now);
    QueryPerformanceFrequency(&frequency);
    return (uint64_t)((double)now.QuadPart * 1e6 / (double)frequency.QuadPart);
#else
    struct timespec now;
    (void)ctx;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u;
#endif
}

static const char *said(struct story *story, gleed_status status)
{
    snprintf(story->why, sizeof story->why, "%s: %s", gleed_status_text(status), story->error.text);
    return story->why;
}

/* Returns memory of this size and alignment for an object. */
static void *memory(struct story *story, int object, size_t size, size_t align)
{
    char *bytes;
    free(story->memory[object]);
    bytes = story->memory[object] = malloc(size + align);
    return bytes == NULL ? NULL : bytes + (align - (uintptr_t)bytes % align) % align;
}

static size_t read_file(struct story *story, const char *path)
{
    FILE *file = fopen(path, "rb");
    size_t len = 0;
    long end;
    if (file == NULL)
        return 0;
    if (fseek(file, 0, SEEK_END) == 0 && (end = ftell(file)) > 0 && fseek(file, 0, SEEK_SET) == 0 &&
        (story->file = malloc((size_t)end)) != NULL)
        len = fread(story->file, 1, (size_t)end, file);
    fclose(file);
    return len;
}

static void forget(struct story *story)
{
    int object;
    for (object = 0; object < OBJECTS; object++) {
        free(story->memory[object]);
        story->memory[object] = NULL;
    }
    free(story->file);
    story->file = NULL;
    story->engine = NULL;
    story->is_told = 0;
}

struct story *story_new(void)
{
    struct story *story = calloc(1, sizeof *story);
    if (story != NULL)
        story->error.struct_size = sizeof story->error;
    return story;
}

void story_free(struct story *story)
{
    if (story == NULL)
        return;
    forget(story);
    free(story);
}

static gleed_status open_all(struct story *story, size_t len)
{
    const gleed_config config = {.struct_size = sizeof config, .context = CONTEXT, .rows = 16};
    gleed_vocab_info vocab = {.struct_size = sizeof vocab};
    gleed_error *error = &story->error;
    size_t size, align;
    gleed_status status = gleed_model_size(&size, &align, error);
    if (status == GLEED_OK)
        status = gleed_model_open(story->file, len, memory(story, MODEL, size, align), size, &story->model, error);
    if (status == GLEED_OK)
        status = gleed_tokenizer_size(story->model, &size, &align, error);
    if (status == GLEED_OK)
        status = gleed_tokenizer_init(story->model, memory(story, TOKENIZER, size, align), size, &story->tokenizer, error);
    if (status == GLEED_OK)
        status = gleed_tokenizer_describe(story->tokenizer, &vocab, error);
    if (status == GLEED_OK)
        status = gleed_detokenizer_size(&size, &align, error);
    if (status == GLEED_OK)
        status = gleed_detokenizer_init(story->tokenizer, GLEED_DECODE_CONTINUES, memory(story, DETOKENIZER, size, align), size,
                                        &story->detokenizer, error);
    if (status == GLEED_OK)
        status = gleed_plan(story->model, &config, &size, &align, error);
    if (status == GLEED_OK)
        status = gleed_engine_init(story->model, &config, memory(story, ENGINE, size, align), size, &story->engine, error);
    story->max_text = vocab.max_text;
    return status == GLEED_OK ? gleed_seq_open(story->engine, &story->seq, error) : status;
}

const char *story_open(struct story *story, const char *path)
{
    gleed_status status;
    size_t len;
    forget(story);
    len = read_file(story, path);
    if (len == 0) {
        snprintf(story->why, sizeof story->why, "%s cannot be read", path);
    } else if ((status = open_all(story, len)) != GLEED_OK) {
        said(story, status);
    } else if (story->max_text > MAX_TEXT) {
        snprintf(story->why, sizeof story->why, "a token has up to %u bytes, %d fit", (unsigned)story->max_text, MAX_TEXT);
    } else {
        return NULL;
    }
    forget(story);
    return story->why;
}

const char *story_begin(struct story *story, const char *prompt, size_t prompt_len)
{
    uint32_t tokens[CONTEXT], scratch[SCRATCH];
    size_t count, rest;
    gleed_status status;
    if (story->engine == NULL)
        return "no model is open";
    status = gleed_encode(story->tokenizer, prompt, prompt_len, GLEED_ENCODE_ADD_SPECIAL, scratch, SCRATCH, tokens, CONTEXT, &count,
                          &story->error);
    if (status != GLEED_OK)
        return said(story, status);
    story->is_told = 0;
    status = gleed_cancel(story->engine, story->seq, &story->error);
    if (status == GLEED_OK)
        status = gleed_reset(story->engine, story->seq, &story->error);
    /* Drops the unfinished character of the last story. */
    if (status == GLEED_OK)
        status = gleed_detokenizer_finish(story->detokenizer, story->text, MAX_TEXT, &rest, &story->error);
    if (status == GLEED_OK)
        status = gleed_queue(story->engine, story->seq, tokens, count, GLEED_LOGITS_LAST, &story->error);
    story->is_told = status == GLEED_OK;
    return status == GLEED_OK ? NULL : said(story, status);
}

/* Chooses a token and puts its text after `len` bytes. Queues the token, unless it ends the story. */
static gleed_status choose(struct story *story, size_t *len)
{
    gleed_seq_info info = {.struct_size = sizeof info};
    gleed_error *error = &story->error;
    const float *logits;
    size_t vocab, more;
    uint32_t token, kind, is_end;
    gleed_status status = gleed_logits(story->engine, story->seq, &logits, &vocab, error);
    if (status == GLEED_OK)
        status = gleed_argmax(logits, vocab, &token, error);
    if (status == GLEED_OK)
        status = gleed_token_kind(story->tokenizer, token, &kind, &is_end, error);
    if (status == GLEED_OK)
        status = gleed_seq_describe(story->engine, story->seq, &info, error);
    if (status != GLEED_OK)
        return status;
    if (is_end || info.tokens == CONTEXT) {
        story->is_told = 0;
        status = gleed_detokenizer_finish(story->detokenizer, story->text + *len, MAX_TEXT - *len, &more, error);
    } else {
        status = gleed_detokenize(story->detokenizer, story->tokenizer, token, story->text + *len, MAX_TEXT - *len, &more, error);
        if (status == GLEED_OK)
            status = gleed_queue(story->engine, story->seq, &token, 1, GLEED_LOGITS_LAST, error);
    }
    if (status == GLEED_OK)
        *len += more;
    return status;
}

const char *story_step(struct story *story, double milliseconds, const char **text, size_t *len)
{
    gleed_budget budget = {.struct_size = sizeof budget, .clock = microseconds};
    gleed_status status = GLEED_READY;
    *text = story->text;
    *len = 0;
    budget.deadline = microseconds(NULL) + (uint64_t)(milliseconds * 1000);
    /* A step that begins too late still computes one unit, so a story comes to its end. */
    do {
        if (!story->is_told || *len + story->max_text > MAX_TEXT)
            return NULL;
        status = gleed_step(story->engine, &budget, &story->error);
        if (status == GLEED_READY)
            status = choose(story, len) == GLEED_OK ? GLEED_READY : story->error.status;
    } while (status == GLEED_READY && microseconds(NULL) < budget.deadline);
    if (status >= 0)
        return NULL;
    story->is_told = 0;
    return said(story, status);
}

int story_is_done(const struct story *story)
{
    return !story->is_told;
}
