/*
 * Mistakes that programs make, each of which kills or silently corrupts some inference library. Here every one is
 * answered with a status, changes nothing, and leaves the process alive. The tests of gleed-ffi build and run this
 * with sanitizers; by hand:
 *
 *     cargo build --release -p gleed-ffi --example gleed_hosted
 *     cc -std=c99 -g -fsanitize=address,undefined -I include tests/mistakes/mistakes.c \
 *         target/release/examples/libgleed_hosted.a -lpthread -ldl -lm -o mistakes
 *     ./mistakes examples/assets/gleed-tales-q8_0.gguf
 */
#define _DEFAULT_SOURCE /* for mmap and posix_memalign */
#include <sys/mman.h>
#include <unistd.h>

#include "support.h"

/* "Once upon a time", and tokens that make it longer. */
static const uint32_t PROMPT[40] = {1,   414, 435, 261, 385, 952, 384, 281, 261, 378, 428, 509, 387, 945,
                                    320, 511, 270, 414, 435, 261, 385, 952, 384, 281, 261, 378, 428, 509,
                                    387, 945, 320, 511, 270, 414, 435, 261, 385, 952, 384, 281};

static const uint8_t *file;
static size_t file_len;
static const gleed_model *model;

/*
 * A copy of `len` bytes that ends where a page begins that must not be touched: the library is not compiled with
 * sanitizers, but whatever reads past the end does not survive this.
 */
static const uint8_t *at_an_edge(const uint8_t *bytes, size_t len)
{
    static uint8_t *edge;
    static size_t room;
    if (len > room || edge == NULL) {
        size_t page = (size_t)sysconf(_SC_PAGESIZE);
        uint8_t *start;
        if (edge != NULL)
            munmap(edge - room, room + page);
        room = (len / page + 1) * page;
        start = mmap(NULL, room + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(start != MAP_FAILED);
        edge = start + room;
        CHECK(mprotect(edge, page, PROT_NONE) == 0);
    }
    memcpy(edge - len, bytes, len);
    return edge - len;
}

/* What must be the same before and after a mistake: engine and sequences. */
static gleed_engine *engine;
static gleed_seq seqs[2];
static uint64_t before;

static void begin(const gleed_config *config, size_t tokens)
{
    const float *logits = NULL;
    size_t len = 0;
    engine = start_engine(model, config);
    DO(gleed_seq_open(engine, &seqs[0], &error));
    DO(gleed_seq_open(engine, &seqs[1], &error));
    DO(gleed_prefill(engine, seqs[0], PROMPT, tokens, &logits, &len, &error));
    before = state_of(engine, seqs, 2);
}

static void unchanged(int line)
{
    if (state_of(engine, seqs, 2) != before) {
        fprintf(stderr, "%s:%d: something has changed\n", __FILE__, line);
        exit(1);
    }
}

#define MISTAKE(status, call) \
    do {                      \
        EXPECT(status, call); \
        unchanged(__LINE__);  \
    } while (0)

static const gleed_config SMALL = {sizeof(gleed_config), 3, 64, 8, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};

static void batch_larger_than_planned(void)
{
    uint32_t many[100];
    const float *logits = NULL;
    size_t len = 0, i;
    for (i = 0; i < COUNT(many); i++)
        many[i] = 5;
    begin(&SMALL, 40);
    MISTAKE(GLEED_E_CONTEXT, gleed_prefill(engine, seqs[1], many, 100, &logits, &len, &error));
    MISTAKE(GLEED_E_CONTEXT, gleed_queue(engine, seqs[0], many, 25, GLEED_LOGITS_ALL, &error));
    MISTAKE(GLEED_E_CONTEXT, gleed_can_extend(engine, seqs[0], SIZE_MAX, &error));
    CHECK(logits == NULL && len == 0);
    /* More than `rows` is no mistake: the engine cuts it itself. */
    DO(gleed_prefill(engine, seqs[1], many, 30, &logits, &len, &error));
}

static void sampling_before_logits(void)
{
    gleed_engine *fresh = start_engine(model, &SMALL);
    gleed_sampler *sampler = start_sampler(NULL);
    const float *logits = NULL;
    uint64_t scratch[4];
    uint32_t token = 77;
    gleed_seq seq, owner = 0;
    size_t len = 0;
    DO(gleed_seq_open(fresh, &seq, &error));
    EXPECT(GLEED_E_NO_LOGITS, gleed_logits(fresh, seq, &logits, &len, &error));
    EXPECT(GLEED_E_NO_LOGITS, gleed_result(fresh, 0, &owner, &token, &logits, &len, &error));
    EXPECT(GLEED_E_NO_LOGITS, gleed_sample(sampler, logits, len, scratch, 4, &token, NULL, &error));
    EXPECT(GLEED_E_NO_LOGITS, gleed_argmax(logits, len, &token, &error));
    EXPECT(GLEED_E_NULL, gleed_argmax(logits, 8, &token, &error));
    /* While a batch is in progress there are none either. */
    DO(gleed_queue(fresh, seq, PROMPT, 5, GLEED_LOGITS_LAST, &error));
    EXPECT(GLEED_E_NO_LOGITS, gleed_logits(fresh, seq, &logits, &len, &error));
    CHECK(token == 77 && len == 0 && logits == NULL && owner == 0);
}

static void forks(void)
{
    const gleed_seq wrong[] = {0, 7, 99, 0x10000, 0xffff0000u, UINT32_MAX};
    gleed_seq fork = 5, full;
    const float *logits = NULL;
    size_t len = 0, i, computed = 0;
    uint64_t alone;
    begin(&SMALL, 40);
    for (i = 0; i < COUNT(wrong); i++)
        if (wrong[i] != seqs[0] && wrong[i] != seqs[1])
            MISTAKE(GLEED_E_SEQUENCE, gleed_fork(engine, wrong[i], 3, &fork, &error));
    MISTAKE(GLEED_E_KEEP, gleed_fork(engine, seqs[0], 41, &fork, &error));
    MISTAKE(GLEED_E_KEEP, gleed_fork(engine, seqs[0], SIZE_MAX, &fork, &error));
    MISTAKE(GLEED_E_KEEP, gleed_rewind(engine, seqs[0], 41, &error));
    MISTAKE(GLEED_E_KEEP, gleed_computed_at(engine, seqs[0], 41, &computed, &error));
    CHECK(fork == 5);

    /* A partial fork, even within a block, is no mistake: it goes on as if it had been computed alone. */
    DO(gleed_prefill(engine, seqs[1], PROMPT, 21, &logits, &len, &error));
    alone = fnv(START, logits, len * sizeof *logits);
    DO(gleed_fork(engine, seqs[0], 20, &fork, &error));
    DO(gleed_decode_step(engine, fork, PROMPT[20], &logits, &len, &error));
    CHECK(fnv(START, logits, len * sizeof *logits) == alone);
    before = state_of(engine, seqs, 2);
    MISTAKE(GLEED_FULL, gleed_fork(engine, seqs[0], 20, &full, &error));
}

static void bad_enums_and_strings(void)
{
    gleed_config config = SMALL;
    const gleed_tokenizer *tokenizer = start_tokenizer(model);
    gleed_sampler_params params = {sizeof params, 0, 0.5f, 0, 0, 0, 0, 0, 0, 0, 0};
    uint64_t memory[512];
    gleed_sampler *sampler = NULL;
    gleed_message message = {GLEED_ROLE_USER, 0, "Hello", 5};
    const gleed_model *other = NULL;
    uint32_t scratch[2000], ids[16];
    size_t size = 7, align = 7, count = 7;
    memset(ids, 0xa5, sizeof ids);
    begin(&SMALL, 40);
    config.kv_kind = 3;
    MISTAKE(GLEED_E_VALUE, gleed_plan(model, &config, &size, &align, &error));
    config = SMALL;
    config.kv_type = 77;
    MISTAKE(GLEED_E_VALUE, gleed_plan(model, &config, &size, &align, &error));
    config = SMALL;
    config.level = 99;
    MISTAKE(GLEED_E_VALUE, gleed_plan(model, &config, &size, &align, &error));
    config = SMALL;
    config.prefix_cache = 2;
    MISTAKE(GLEED_E_VALUE, gleed_plan(model, &config, &size, &align, &error));
    config = SMALL;
    config.workers = 5000;
    MISTAKE(GLEED_E_LIMIT, gleed_plan(model, &config, &size, &align, &error));
    config = SMALL;
    config.logit_rows = 9;
    MISTAKE(GLEED_E_LIMIT, gleed_plan(model, &config, &size, &align, &error));
    config = SMALL;
    config.window_sinks = 4;
    MISTAKE(GLEED_E_LIMIT, gleed_plan(model, &config, &size, &align, &error));
    MISTAKE(GLEED_E_VALUE, gleed_selftest(1000, memory, sizeof memory, &error));
    MISTAKE(GLEED_E_VALUE, gleed_queue(engine, seqs[0], PROMPT, 1, 4, &error));
    MISTAKE(GLEED_E_VALUE, gleed_encode(tokenizer, "a", 1, 16, scratch, 2000, ids, 16, &count, &error));
    MISTAKE(GLEED_E_TEXT, gleed_encode(tokenizer, "ab\xff", 3, 0, scratch, 2000, ids, 16, &count, &error));
    CHECK(error.at == 2);
    MISTAKE(GLEED_E_TEXT, gleed_encode(tokenizer, "\xe2\x82", 2, 0, scratch, 2000, ids, 16, &count, &error));
    MISTAKE(GLEED_E_SCRATCH_TOO_SMALL, gleed_encode(tokenizer, "word", 4, 0, scratch, 0, ids, 16, &count, &error));
    MISTAKE(GLEED_E_OUTPUT_TOO_SMALL, gleed_encode(tokenizer, "a b c d", 7, 0, scratch, 2000, ids, 1, &count, &error));
    CHECK(error.needed > 1 && error.given == 1);
    MISTAKE(GLEED_E_VALUE, gleed_turns_encode(tokenizer, GLEED_NO_TURNS, 0, &message, 1, 0, scratch, 2000, ids, 16, &count,
                                              &error));
    MISTAKE(GLEED_E_OUTPUT_TOO_SMALL, gleed_turns_encode(tokenizer, 0, 0, &message, 1, 0, scratch, 2000, ids, 1, &count,
                                                         &error));
    message.role = GLEED_AFTER_REPLY;
    MISTAKE(GLEED_E_VALUE, gleed_turns_encode(tokenizer, 0, 0, &message, 1, 0, scratch, 2000, ids, 16, &count, &error));
    MISTAKE(GLEED_E_FILE_PARTS, gleed_model_open_split(NULL, 0, memory, sizeof memory, &other, &error));
    params.temperature = -1;
    MISTAKE(GLEED_E_VALUE, gleed_sampler_init(&params, memory, sizeof memory, &sampler, &error));
    memset(&params.temperature, 0xff, sizeof params.temperature);
    MISTAKE(GLEED_E_VALUE, gleed_sampler_init(&params, memory, sizeof memory, &sampler, &error));
    params.temperature = 1;
    params.top_p = 1.5f;
    MISTAKE(GLEED_E_VALUE, gleed_sampler_init(&params, memory, sizeof memory, &sampler, &error));
    params.top_p = 0;
    params.penalty_window = 257;
    MISTAKE(GLEED_E_VALUE, gleed_sampler_init(&params, memory, sizeof memory, &sampler, &error));
    CHECK(size == 7 && align == 7 && count == 7 && ids[0] == 0xa5a5a5a5u && sampler == NULL);
}

static void decode_on_a_full_pool(void)
{
    /* Two sequences of 32 tokens, and blocks for one. */
    const gleed_config config = {sizeof config, 2, 32, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    const float *logits = NULL;
    size_t len = 0, closed = 9;
    begin(&config, 32);
    MISTAKE(GLEED_FULL, gleed_decode_step(engine, seqs[1], 5, &logits, &len, &error));
    CHECK(error.needed == 1 && error.given == 0);
    MISTAKE(GLEED_FULL, gleed_queue(engine, seqs[1], PROMPT, 3, GLEED_LOGITS_LAST, &error));
    MISTAKE(GLEED_FULL, gleed_can_extend(engine, seqs[1], 1, &error));
    MISTAKE(GLEED_E_CONTEXT, gleed_decode_step(engine, seqs[0], 5, &logits, &len, &error));
    CHECK(logits == NULL && len == 0);
    /* And with room the work goes on. */
    DO(gleed_make_room(engine, seqs[1], 1, NULL, NULL, &closed, &error));
    CHECK(closed == 1);
    DO(gleed_decode_step(engine, seqs[1], 5, &logits, &len, &error));
}

static void empty_and_impossible_tokens(void)
{
    gleed_model_info info = {sizeof info, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, "", ""};
    const float *logits = NULL;
    size_t len = 0;
    uint32_t tokens[3] = {1, 2, 3};
    DO(gleed_model_describe(model, &info, &error));
    begin(&SMALL, 40);
    MISTAKE(GLEED_E_EMPTY, gleed_prefill(engine, seqs[1], tokens, 0, &logits, &len, &error));
    MISTAKE(GLEED_E_EMPTY, gleed_prefill(engine, seqs[1], NULL, 0, &logits, &len, &error));
    MISTAKE(GLEED_E_EMPTY, gleed_prefill_prompt(engine, seqs[1], NULL, 0, &logits, &len, &error));
    MISTAKE(GLEED_E_EMPTY, gleed_queue(engine, seqs[1], NULL, 0, GLEED_LOGITS_LAST, &error));
    tokens[2] = info.vocab;
    MISTAKE(GLEED_E_TOKEN, gleed_prefill(engine, seqs[1], tokens, 3, &logits, &len, &error));
    CHECK(error.at == 2 && error.needed == info.vocab && error.given == info.vocab);
    tokens[2] = UINT32_MAX;
    MISTAKE(GLEED_E_TOKEN, gleed_queue(engine, seqs[0], tokens, 3, GLEED_LOGITS_LAST, &error));
    MISTAKE(GLEED_E_TOKEN, gleed_decode_step(engine, seqs[0], (uint32_t)-1, &logits, &len, &error));
    CHECK(logits == NULL && len == 0);
}

static void use_after_close(void)
{
    gleed_seq_info info = {sizeof info, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    const float *logits = NULL;
    float numbers[4] = {0, 0, 0, 0};
    size_t len = 0, closed;
    uint8_t bytes[16];
    uint32_t id = 0;
    gleed_seq gone, fork;
    begin(&SMALL, 40);
    DO(gleed_seq_open(engine, &gone, &error));
    DO(gleed_seq_close(engine, gone, &error));
    unchanged(__LINE__);
    MISTAKE(GLEED_E_SEQUENCE, gleed_seq_close(engine, gone, &error));
    MISTAKE(GLEED_E_SEQUENCE, gleed_reset(engine, gone, &error));
    MISTAKE(GLEED_E_SEQUENCE, gleed_rewind(engine, gone, 0, &error));
    MISTAKE(GLEED_E_SEQUENCE, gleed_checkpoint(engine, gone, &error));
    MISTAKE(GLEED_E_SEQUENCE, gleed_fork(engine, gone, 0, &fork, &error));
    MISTAKE(GLEED_E_SEQUENCE, gleed_seq_describe(engine, gone, &info, &error));
    MISTAKE(GLEED_E_SEQUENCE, gleed_can_extend(engine, gone, 1, &error));
    MISTAKE(GLEED_E_SEQUENCE, gleed_prefill(engine, gone, PROMPT, 2, &logits, &len, &error));
    MISTAKE(GLEED_E_SEQUENCE, gleed_prefill_prompt(engine, gone, PROMPT, 2, &logits, &len, &error));
    MISTAKE(GLEED_E_SEQUENCE, gleed_decode_step(engine, gone, 2, &logits, &len, &error));
    MISTAKE(GLEED_E_SEQUENCE, gleed_queue(engine, gone, PROMPT, 2, GLEED_LOGITS_LAST, &error));
    MISTAKE(GLEED_E_SEQUENCE, gleed_cancel(engine, gone, &error));
    MISTAKE(GLEED_E_SEQUENCE, gleed_logits(engine, gone, &logits, &len, &error));
    MISTAKE(GLEED_E_SEQUENCE, gleed_reuse(engine, gone, PROMPT, 2, &len, &error));
    MISTAKE(GLEED_E_SEQUENCE, gleed_make_room(engine, gone, 2, NULL, NULL, &closed, &error));
    MISTAKE(GLEED_E_SEQUENCE, gleed_snapshot_size(engine, gone, NULL, &len, &error));
    MISTAKE(GLEED_E_SEQUENCE, gleed_snapshot(engine, gone, NULL, bytes, sizeof bytes, &len, &error));
    MISTAKE(GLEED_E_SEQUENCE, gleed_log_probs(engine, gone, PROMPT, 2, numbers, 1, &error));
    MISTAKE(GLEED_E_SEQUENCE, gleed_seq_tokens(engine, gone, 0, &id, 1, &error));
    MISTAKE(GLEED_E_SEQUENCE, gleed_seq_adapter(engine, gone, 0, numbers, &error));
    MISTAKE(GLEED_E_SEQUENCE, gleed_materialize(engine, gone, 0, numbers, numbers + 2, 2, &error));
    MISTAKE(GLEED_E_SEQUENCE, gleed_set_prefill(engine, gone, 0, numbers, numbers + 2, 2, &error));
    MISTAKE(GLEED_E_SEQUENCE, gleed_push_row(engine, gone, 0, numbers, numbers + 2, 2, &error));
    MISTAKE(GLEED_E_SEQUENCE, gleed_set_prefill_batch(engine, &gone, 1, 0, numbers, numbers + 2, 2, &error));
    MISTAKE(GLEED_E_SEQUENCE, gleed_append_rows(engine, &gone, &len, 1, 0, numbers, numbers + 2, 2, &error));
    MISTAKE(GLEED_E_SEQUENCE, gleed_prefill_at(engine, gone, 0, &id, 1, &logits, &len, &error));
    MISTAKE(GLEED_E_SEQUENCE, gleed_queue_at(engine, gone, 0, &id, 1, GLEED_LOGITS_LAST, &error));
    CHECK(logits == NULL && len == 0);
}

/* The model with another base of rotations: of the same sizes, and yet another model. */
static const gleed_model *similar_model(void)
{
    static const char key[] = "llama.rope.freq_base";
    const float base = 12345;
    uint8_t *bytes = malloc(file_len);
    size_t i = 0;
    CHECK(bytes != NULL);
    memcpy(bytes, file, file_len);
    while (memcmp(bytes + i, key, sizeof key - 1) != 0)
        CHECK(++i < file_len / 2);
    memcpy(bytes + i + sizeof key - 1 + 4, &base, sizeof base);
    return open_model(bytes, file_len);
}

static void adapters_and_results(void)
{
    gleed_config config = SMALL;
    const gleed_adapter *small, *large, *similar, *none = NULL;
    const uint8_t *small_file, *large_file;
    const float *hidden = NULL;
    float values[256], scale = 7;
    uint32_t number = 7, position = 7;
    size_t small_len, large_len, len = 7, size, align, cut;
    gleed_seq owner = 7;
    void *memory;
    small_file = make_adapter(4, 1, &small_len);
    large_file = make_adapter(5, 1, &large_len);
    small = open_adapter(model, small_file, small_len);
    large = open_adapter(model, large_file, large_len);
    similar = open_adapter(similar_model(), small_file, small_len);
    begin(&SMALL, 40);
    MISTAKE(GLEED_E_ADAPTER_ROOM, gleed_engine_load_adapter(engine, small, &number, &error));
    CHECK(error.at == 0 && error.needed == 4);
    config.adapters = 9;
    MISTAKE(GLEED_E_LIMIT, gleed_plan(model, &config, &size, &align, &error));
    config.adapters = 1;
    config.adapter_rank = 1025;
    MISTAKE(GLEED_E_LIMIT, gleed_plan(model, &config, &size, &align, &error));
    config.adapter_rank = 4;
    begin(&config, 40);
    MISTAKE(GLEED_E_ADAPTER_ROOM, gleed_engine_load_adapter(engine, large, &number, &error));
    CHECK(error.at == 1 && error.needed == 5 && error.given == 4);
    MISTAKE(GLEED_E_ADAPTER, gleed_seq_set_adapter(engine, seqs[0], 0, 1, &error));
    MISTAKE(GLEED_E_ADAPTER, gleed_seq_adapter(engine, seqs[0], 0, &scale, &error));
    MISTAKE(GLEED_E_VALUE, gleed_engine_load_adapter(engine, similar, &number, &error));
    CHECK(number == 7 && scale == 7);
    DO(gleed_engine_load_adapter(engine, small, &number, &error));
    unchanged(__LINE__);
    MISTAKE(GLEED_E_ADAPTER_ROOM, gleed_engine_load_adapter(engine, small, &number, &error));
    MISTAKE(GLEED_E_ADAPTER, gleed_seq_set_adapter(engine, seqs[0], 1, 1, &error));
    MISTAKE(GLEED_E_ADAPTER, gleed_seq_set_adapter(engine, seqs[0], UINT32_MAX, 1, &error));
    memset(&scale, 0xff, sizeof scale);
    MISTAKE(GLEED_E_VALUE, gleed_seq_set_adapter(engine, seqs[0], 0, scale, &error));
    MISTAKE(GLEED_E_SEQUENCE, gleed_seq_set_adapter(engine, 0xffff0000u, 0, 1, &error));
    DO(gleed_seq_adapter(engine, seqs[0], 0, &scale, &error));
    CHECK(scale == 0);

    /* A model, and what is left of an adapter's file, are no adapters. */
    DO(gleed_adapter_size(&size, &align, &error));
    CHECK((memory = calloc(1, size + align)) != NULL && align <= 16);
    EXPECT(GLEED_E_MODEL_KEY_UNSUPPORTED, gleed_adapter_open(model, file, file_len, memory, size, &none, &error));
    for (cut = 0; cut < small_len; cut++)
        CHECK(gleed_adapter_open(model, at_an_edge(small_file, cut), cut, memory, size, &none, &error) <= GLEED_E_FILE);
    CHECK(none == NULL && *(uint64_t *)memory == 0);
    free(memory);

    /* Results of the wrong length, and none. */
    MISTAKE(GLEED_E_SHAPE, gleed_embed(engine, seqs[1], PROMPT, 3, GLEED_POOLING_MEAN, values, 255, &error));
    CHECK(error.needed == 256 && error.given == 255);
    MISTAKE(GLEED_E_VALUE, gleed_embed(engine, seqs[1], PROMPT, 3, 5, values, 256, &error));
    MISTAKE(GLEED_E_EMPTY, gleed_embed(engine, seqs[1], NULL, 0, GLEED_POOLING_LAST, values, 256, &error));
    MISTAKE(GLEED_E_CONTEXT, gleed_embed(engine, seqs[0], PROMPT, 25, GLEED_POOLING_LAST, values, 256, &error));
    MISTAKE(GLEED_E_SHAPE, gleed_log_probs(engine, seqs[1], PROMPT, 3, values, 3, &error));
    MISTAKE(GLEED_E_EMPTY, gleed_log_probs(engine, seqs[1], NULL, 0, NULL, 0, &error));
    MISTAKE(GLEED_E_NO_LOGITS, gleed_hidden(engine, 0, &owner, &position, &hidden, &len, &error));
    MISTAKE(GLEED_E_NO_LOGITS, gleed_hidden(engine, SIZE_MAX, &owner, &position, &hidden, &len, &error));
    CHECK(owner == 7 && position == 7 && hidden == NULL && len == 7);
    DO(gleed_queue(engine, seqs[1], PROMPT, 3, GLEED_LOGITS_HIDDEN, &error));
    EXPECT(GLEED_E_BUSY, gleed_engine_load_adapter(engine, small, &number, &error));
    EXPECT(GLEED_E_BUSY, gleed_seq_set_adapter(engine, seqs[1], 0, 1, &error));
    EXPECT(GLEED_E_BUSY, gleed_embed(engine, seqs[0], PROMPT, 3, GLEED_POOLING_MEAN, values, 256, &error));
}

/* Bytes that come in pieces. */
struct stream {
    const uint8_t *bytes;
    size_t left;
};

static size_t pieces(void *ctx, uint8_t *bytes, size_t len)
{
    struct stream *stream = ctx;
    size_t count = len < 37 ? len : 37;
    if (count > stream->left)
        count = stream->left;
    memcpy(bytes, stream->bytes, count);
    stream->bytes += count;
    stream->left -= count;
    return count;
}

static size_t fails(void *ctx, uint8_t *bytes, size_t len)
{
    (void)ctx;
    (void)bytes;
    (void)len;
    return SIZE_MAX;
}

static int32_t refuses(void *ctx, const uint8_t *bytes, size_t len)
{
    (void)ctx;
    (void)bytes;
    (void)len;
    return 1;
}

static void damaged_snapshots(void)
{
    size_t size = 0, cut, bit, bits, step;
    uint8_t *bytes, *damaged;
    uint64_t written = 0;
    gleed_seq restored = 99;
    begin(&SMALL, 40);
    DO(gleed_snapshot_size(engine, seqs[0], NULL, &size, &error));
    CHECK((bytes = malloc(size)) != NULL && (damaged = malloc(size)) != NULL);
    MISTAKE(GLEED_E_SNAPSHOT_BUFFER, gleed_snapshot(engine, seqs[0], NULL, bytes, size - 1, &cut, &error));
    CHECK(error.needed == size && error.given == size - 1);
    MISTAKE(GLEED_E_SNAPSHOT_HOST, gleed_snapshot_write(engine, seqs[0], NULL, refuses, NULL, &written, &error));
    MISTAKE(GLEED_E_SNAPSHOT_HOST, gleed_snapshot_read(engine, NULL, fails, NULL, &restored, NULL, &error));
    DO(gleed_snapshot(engine, seqs[0], NULL, bytes, size, &cut, &error));

    step = size / 500 + 1;
    for (cut = 0; cut < size; cut += cut < 200 ? 1 : step) {
        const uint8_t *part = at_an_edge(bytes, cut);
        struct stream stream = {part, cut};
        EXPECT(GLEED_E_SNAPSHOT_TRUNCATED, gleed_restore(engine, NULL, part, cut, &restored, &error));
        EXPECT(GLEED_E_SNAPSHOT_TRUNCATED, gleed_snapshot_read(engine, NULL, pieces, &stream, &restored, NULL, &error));
    }
    unchanged(__LINE__);

    bits = size * 8;
    step = bits / 1500 + 1;
    for (bit = 0; bit < bits; bit += bit < 1000 ? 1 : step) {
        gleed_status status;
        memcpy(damaged, bytes, size);
        damaged[bit / 8] ^= (uint8_t)(1u << bit % 8);
        status = gleed_restore(engine, NULL, damaged, size, &restored, &error);
        CHECK(status <= GLEED_E_SNAPSHOT && status >= GLEED_E_SNAPSHOT_HOST);
    }
    unchanged(__LINE__);
    CHECK(restored == 99 && written == 0);
    DO(gleed_restore(engine, NULL, bytes, size, &restored, &error));
    CHECK(contents(engine, restored) == contents(engine, seqs[0]));
    free(bytes);
    free(damaged);
}

static void truncated_models(void)
{
    const gleed_model *none = NULL;
    size_t size, align, i, cut;
    uint64_t *memory;
    DO(gleed_model_size(&size, &align, &error));
    CHECK((memory = calloc(1, size + align)) != NULL && align <= 16);
    for (i = 0; i < 1000; i++) {
        /* The first half of them among the metadata, where lengths and counts are. */
        cut = i < 500 ? i * 61 : (size_t)((double)(file_len - 1) * (double)(i - 499) / 500.0);
        CHECK(cut < file_len);
        CHECK(gleed_model_open(at_an_edge(file, cut), cut, memory, size, &none, &error) <= GLEED_E_FILE);
        CHECK(error.status <= GLEED_E_FILE && error.text[0] != 0);
    }
    CHECK(none == NULL && memory[0] == 0);
    free(memory);
}

/* Sets a flag at its nth call. */
struct alarm {
    uint64_t calls, at;
    uint32_t flag;
};

static uint64_t ring(void *ctx)
{
    struct alarm *alarm = ctx;
    if (++alarm->calls >= alarm->at)
        alarm->flag = 1;
    return 0;
}

static void cancel_at_every_unit(void)
{
    gleed_budget budget = {sizeof budget, 0, 0, 0, NULL, NULL, NULL};
    struct alarm alarm = {0, 0, 0};
    const float *logits = NULL;
    gleed_status status;
    uint64_t expected, units;
    size_t len = 0;
    begin(&SMALL, 20);
    DO(gleed_decode_step(engine, seqs[0], 5, &logits, &len, &error));
    expected = fnv(START, logits, len * sizeof *logits);

    /* Dropped after so many units: the sequence is what it was, and gives the same logits in the end. */
    for (units = 0;; units++) {
        uint64_t kept;
        DO(gleed_rewind(engine, seqs[0], 20, &error));
        kept = contents(engine, seqs[0]);
        DO(gleed_queue(engine, seqs[0], PROMPT, 1, GLEED_LOGITS_LAST, &error));
        EXPECT(GLEED_E_BUSY, gleed_decode_step(engine, seqs[0], 5, &logits, &len, &error));
        EXPECT(GLEED_E_BUSY, gleed_rewind(engine, seqs[0], 3, &error));
        EXPECT(GLEED_E_BUSY, gleed_seq_close(engine, seqs[0], &error));
        if (units > 0) {
            budget.units = units;
            status = gleed_step(engine, &budget, &error);
            CHECK(status == GLEED_YIELDED || status == GLEED_READY);
            if (status == GLEED_READY)
                break;
        }
        DO(gleed_cancel(engine, seqs[0], &error));
        CHECK(contents(engine, seqs[0]) == kept);
        if (units % 16 == 0) {
            DO(gleed_decode_step(engine, seqs[0], 5, &logits, &len, &error));
            CHECK(fnv(START, logits, len * sizeof *logits) == expected);
        }
    }
    CHECK(units > 10);

    /* Stopped by the flag after so many units, and gone on: nothing is lost. */
    budget.units = 0;
    budget.deadline = UINT64_MAX;
    budget.clock = ring;
    budget.clock_ctx = &alarm;
    budget.cancel = &alarm.flag;
    for (alarm.at = 1; alarm.at < units; alarm.at += 7) {
        const uint32_t token = 5;
        DO(gleed_rewind(engine, seqs[0], 20, &error));
        DO(gleed_queue(engine, seqs[0], &token, 1, GLEED_LOGITS_LAST, &error));
        alarm.calls = 0;
        alarm.flag = 0;
        EXPECT(GLEED_STOPPED, gleed_step(engine, &budget, &error));
        EXPECT(GLEED_STOPPED, gleed_step(engine, &budget, &error));
        EXPECT(GLEED_READY, gleed_step(engine, NULL, &error));
        EXPECT(GLEED_OK, gleed_step(engine, &budget, &error));
        DO(gleed_logits(engine, seqs[0], &logits, &len, &error));
        CHECK(fnv(START, logits, len * sizeof *logits) == expected);
    }
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    file = read_file(argv[1], &file_len);
    model = open_model(file, file_len);
    batch_larger_than_planned();
    sampling_before_logits();
    forks();
    bad_enums_and_strings();
    decode_on_a_full_pool();
    empty_and_impossible_tokens();
    use_after_close();
    adapters_and_results();
    damaged_snapshots();
    truncated_models();
    cancel_at_every_unit();
    printf("every mistake was answered\n");
    return 0;
}
