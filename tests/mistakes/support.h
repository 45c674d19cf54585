/* What the C tests have in common: checks, memory, and a number that says whether anything has changed. */
#ifndef SUPPORT_H
#define SUPPORT_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gleed.h"

#define CHECK(condition)                                                    \
    do {                                                                    \
        if (!(condition)) {                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            exit(1);                                                        \
        }                                                                   \
    } while (0)

/* A call that must have this status; the error struct must say the same where it is no success. */
#define EXPECT(expected, call)                                                                             \
    do {                                                                                                   \
        gleed_status got_;                                                                                 \
        memset(error.text, 0, sizeof error.text);                                                          \
        error.status = 12345;                                                                              \
        got_ = (call);                                                                                     \
        if (got_ != (expected) || ((got_ < 0 || got_ == GLEED_FULL) && error.status != 12345 && error.status != got_)) { \
            fprintf(stderr, "%s:%d: %s: %d instead of %d (%s)\n", __FILE__, __LINE__, #call, (int)got_,    \
                    (int)(expected), error.text);                                                          \
            exit(1);                                                                                       \
        }                                                                                                  \
    } while (0)

#define DO(call) EXPECT(GLEED_OK, call)

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* One for each thread, where there can be several. */
#if defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
#define PER_THREAD static _Thread_local
#else
#define PER_THREAD static
#endif

PER_THREAD gleed_error error = {sizeof error, 0, 0, 0, 0, ""};

static inline uint8_t *read_file(const char *path, size_t *len)
{
    FILE *file = fopen(path, "rb");
    uint8_t *bytes;
    long end = 0;
    CHECK(file && fseek(file, 0, SEEK_END) == 0 && (end = ftell(file)) > 0 && fseek(file, 0, SEEK_SET) == 0);
    *len = (size_t)end;
    CHECK((bytes = malloc(*len)) != NULL && fread(bytes, 1, *len, file) == *len);
    fclose(file);
    return bytes;
}

/* Memory at a multiple of `align`, exactly as long as asked for, so that sanitizers see what comes after it. */
static inline void *aligned(size_t size, size_t align)
{
    void *memory = NULL;
    CHECK(posix_memalign(&memory, align > sizeof(void *) ? align : sizeof(void *), size) == 0);
    return memory;
}

static inline const gleed_model *open_model(const uint8_t *bytes, size_t len)
{
    const gleed_model *model = NULL;
    size_t size, align;
    DO(gleed_model_size(&size, &align, &error));
    DO(gleed_model_open(bytes, len, aligned(size, align), size, &model, &error));
    return model;
}

static inline gleed_engine *start_engine(const gleed_model *model, const gleed_config *config)
{
    gleed_engine *engine = NULL;
    size_t size, align;
    void *memory;
    DO(gleed_plan(model, config, &size, &align, &error));
    memory = aligned(size, align);
    memset(memory, 0xa5, size);
    DO(gleed_engine_init(model, config, memory, size, &engine, &error));
    return engine;
}

static inline const gleed_tokenizer *start_tokenizer(const gleed_model *model)
{
    const gleed_tokenizer *tokenizer = NULL;
    size_t size, align;
    DO(gleed_tokenizer_size(model, &size, &align, &error));
    DO(gleed_tokenizer_init(model, aligned(size, align), size, &tokenizer, &error));
    return tokenizer;
}

static inline gleed_sampler *start_sampler(const gleed_sampler_params *params)
{
    gleed_sampler *sampler = NULL;
    size_t size, align;
    DO(gleed_sampler_size(&size, &align, &error));
    DO(gleed_sampler_init(params, aligned(size, align), size, &sampler, &error));
    return sampler;
}

/* A grammar, with as much scratch as it takes. */
static inline const gleed_grammar *start_grammar(const char *text, const gleed_grammar_options *options)
{
    const gleed_grammar *grammar = NULL;
    uint32_t *scratch = NULL;
    size_t size = 0, align = 1, words = 0;
    gleed_status status;
    while ((status = gleed_grammar_plan(text, strlen(text), scratch, words, &size, &align, options, &error)) ==
           GLEED_E_SCRATCH_TOO_SMALL) {
        CHECK(error.needed > words && error.given == words);
        words = (size_t)error.needed;
        free(scratch);
        CHECK((scratch = malloc(words * sizeof *scratch)) != NULL);
    }
    CHECK(status == GLEED_OK);
    DO(gleed_grammar_init(text, strlen(text), scratch, words, options, aligned(size, align), size, &grammar, &error));
    free(scratch);
    return grammar;
}

static inline const gleed_trie *start_trie(const gleed_tokenizer *tokenizer)
{
    const gleed_trie *trie = NULL;
    uint32_t *scratch;
    size_t size = 0, align = 1, words;
    EXPECT(GLEED_E_SCRATCH_TOO_SMALL, gleed_trie_plan(tokenizer, NULL, 0, &size, &align, &error));
    words = (size_t)error.needed;
    CHECK((scratch = malloc(words * sizeof *scratch)) != NULL);
    DO(gleed_trie_plan(tokenizer, scratch, words, &size, &align, &error));
    DO(gleed_trie_init(tokenizer, scratch, words, aligned(size, align), size, &trie, &error));
    free(scratch);
    return trie;
}

static inline gleed_matcher *start_matcher(const gleed_grammar *grammar, const gleed_matcher_limits *limits)
{
    gleed_matcher *matcher = NULL;
    size_t size, align;
    DO(gleed_matcher_plan(&size, &align, limits, &error));
    DO(gleed_matcher_init(grammar, limits, aligned(size, align), size, &matcher, &error));
    return matcher;
}

static inline gleed_grammar_build *start_grammar_build(const char *text, uint32_t *scratch, size_t len)
{
    gleed_grammar_build *build = NULL;
    size_t size, align;
    DO(gleed_grammar_build_size(&size, &align, &error));
    DO(gleed_grammar_build_init(text, strlen(text), scratch, len, NULL, aligned(size, align), size, &build, &error));
    return build;
}

static inline gleed_trie_build *start_build(const gleed_tokenizer *tokenizer, uint32_t *scratch, size_t len)
{
    gleed_trie_build *build = NULL;
    size_t size, align;
    DO(gleed_trie_build_size(&size, &align, &error));
    DO(gleed_trie_build_init(tokenizer, scratch, len, aligned(size, align), size, &build, &error));
    return build;
}

static inline gleed_writing *start_writing(const gleed_engine *engine, gleed_seq seq, const gleed_grammar *grammar,
                                           const gleed_matcher_limits *limits)
{
    gleed_writing *writing = NULL;
    size_t size, align;
    DO(gleed_writing_plan(&size, &align, limits, &error));
    DO(gleed_writing_init(engine, seq, grammar, limits, aligned(size, align), size, &writing, &error));
    return writing;
}

static inline gleed_stops *start_stops(const gleed_string *strings, size_t count)
{
    gleed_stops *stops = NULL;
    size_t size, align;
    DO(gleed_stops_size(&size, &align, &error));
    DO(gleed_stops_init(strings, count, aligned(size, align), size, &stops, &error));
    return stops;
}

static inline gleed_calls *start_calls(const char *format, uint32_t flags, const char *tools)
{
    gleed_calls *calls = NULL;
    size_t size, align;
    uint32_t number;
    DO(gleed_calls_named(format, strlen(format), &number, &error));
    DO(gleed_calls_size(&size, &align, &error));
    DO(gleed_calls_init(number, flags, tools, strlen(tools), aligned(size, align), size, &calls, &error));
    return calls;
}

static inline gleed_desk *start_desk(const gleed_tokenizer *tokenizer, const gleed_desk_limits *limits)
{
    gleed_desk *desk = NULL;
    size_t size, align;
    DO(gleed_desk_plan(tokenizer, &size, &align, limits, &error));
    DO(gleed_desk_init(tokenizer, limits, aligned(size, align), size, &desk, &error));
    return desk;
}

static inline gleed_guesses *start_guesses(const gleed_engine *engine, gleed_seq seq, uint32_t most, uint32_t places)
{
    gleed_guesses *guesses = NULL;
    size_t size, align;
    DO(gleed_guesses_plan(most, places, &size, &align, &error));
    DO(gleed_guesses_init(engine, seq, most, places, aligned(size, align), size, &guesses, &error));
    return guesses;
}

static inline gleed_conversation *start_conversation(const gleed_engine *engine, gleed_seq seq,
                                                     const gleed_conversation_limits *limits)
{
    gleed_conversation *conversation = NULL;
    size_t size, align;
    DO(gleed_conversation_plan(engine, &size, &align, limits, &error));
    DO(gleed_conversation_init(engine, seq, limits, aligned(size, align), size, &conversation, &error));
    return conversation;
}

/* Bytes that grow, of a GGUF file. */
struct writer {
    uint8_t bytes[1 << 15];
    size_t len;
};

static inline void put(struct writer *writer, const void *bytes, size_t len)
{
    CHECK(len <= sizeof writer->bytes - writer->len);
    memcpy(writer->bytes + writer->len, bytes, len);
    writer->len += len;
}

static inline void put_u32(struct writer *writer, uint32_t number) { put(writer, &number, sizeof number); }
static inline void put_u64(struct writer *writer, uint64_t number) { put(writer, &number, sizeof number); }

static inline void put_string(struct writer *writer, const char *string)
{
    put_u64(writer, strlen(string));
    put(writer, string, strlen(string));
}

static inline void put_key(struct writer *writer, const char *key, const char *value)
{
    put_string(writer, key);
    put_u32(writer, 8);
    put_string(writer, value);
}

static inline void put_matrix(struct writer *writer, const char *name, uint32_t cols, uint32_t rows, uint64_t offset)
{
    put_string(writer, name);
    put_u32(writer, 2);
    put_u64(writer, cols);
    put_u64(writer, rows);
    put_u32(writer, 0); /* F32 */
    put_u64(writer, offset);
}

/* The file of a LoRA adapter for one matrix of the story model, [256, 256]. */
static inline const uint8_t *make_adapter(uint32_t rank, float alpha, size_t *len)
{
    struct writer *writer = calloc(1, sizeof *writer);
    uint32_t i;
    CHECK(writer != NULL);
    put(writer, "GGUF", 4);
    put_u32(writer, 3);
    put_u64(writer, 2);
    put_u64(writer, 4);
    put_key(writer, "general.type", "adapter");
    put_key(writer, "adapter.type", "lora");
    put_key(writer, "general.architecture", "llama");
    put_string(writer, "adapter.lora.alpha");
    put_u32(writer, 6);
    put(writer, &alpha, sizeof alpha);
    put_matrix(writer, "blk.0.attn_q.weight.lora_a", 256, rank, 0);
    put_matrix(writer, "blk.0.attn_q.weight.lora_b", rank, 256, (uint64_t)rank * 256 * sizeof(float));
    writer->len = (writer->len + 31) / 32 * 32;
    for (i = 0; i < 2 * rank * 256; i++) {
        float value = (float)(i * 7 % 13) / 13 - 0.4f;
        put(writer, &value, sizeof value);
    }
    *len = writer->len;
    return writer->bytes;
}

static inline const gleed_adapter *open_adapter(const gleed_model *model, const uint8_t *bytes, size_t len)
{
    const gleed_adapter *adapter = NULL;
    size_t size, align;
    DO(gleed_adapter_size(&size, &align, &error));
    DO(gleed_adapter_open(model, bytes, len, aligned(size, align), size, &adapter, &error));
    return adapter;
}

/* FNV-1a of 64 bits (Fowler, Noll, Vo). */
static inline uint64_t fnv(uint64_t hash, const void *bytes, size_t len)
{
    const uint8_t *byte = bytes;
    size_t i;
    for (i = 0; i < len; i++)
        hash = (hash ^ byte[i]) * 1099511628211u;
    return hash;
}

static const uint64_t START = 14695981039346656037u;

/* A sequence's tokens, keys and values. */
static inline uint64_t contents(const gleed_engine *engine, gleed_seq seq)
{
    size_t size = 0, written = 0;
    uint8_t *bytes;
    uint64_t hash;
    DO(gleed_snapshot_size(engine, seq, NULL, &size, &error));
    CHECK((bytes = malloc(size)) != NULL);
    DO(gleed_snapshot(engine, seq, NULL, bytes, size, &written, &error));
    CHECK(written == size);
    hash = fnv(START, bytes, size);
    free(bytes);
    return hash;
}

/* An engine's numbers, the logits it shows, and the contents of these sequences. */
static inline uint64_t state_of(const gleed_engine *engine, const gleed_seq *seqs, size_t count)
{
    gleed_engine_info info;
    uint64_t hash;
    size_t i;
    memset(&info, 0, sizeof info);
    info.struct_size = sizeof info;
    DO(gleed_engine_describe(engine, &info, &error));
    info.blocks_high_water = 0;
    info.kv_bytes_high_water = 0;
    hash = fnv(START, &info, sizeof info);
    for (i = 0; i < info.results; i++) {
        const float *logits = NULL;
        size_t len = 0;
        gleed_seq seq = 0;
        uint32_t position = 0;
        DO(gleed_result(engine, i, &seq, &position, &logits, &len, &error));
        hash = fnv(fnv(hash, &seq, sizeof seq), logits, len * sizeof *logits);
    }
    for (i = 0; i < count; i++) {
        uint64_t part = contents(engine, seqs[i]);
        hash = fnv(hash, &part, sizeof part);
    }
    return hash;
}

#endif
