/*
 * Right calls of everything that no other C program of the tests does.
 *
 * usage: features MODEL
 */
#define _DEFAULT_SOURCE /* for posix_memalign */
#include <math.h>
#include <pthread.h>

#include "support.h"

/* "Once upon a time", and tokens that make the prompt longer. */
static const uint32_t PROMPT[40] = {1,   414, 435, 261, 385, 952, 384, 281, 261, 378, 428, 509, 387, 945,
                                    320, 511, 270, 414, 435, 261, 385, 952, 384, 281, 261, 378, 428, 509,
                                    387, 945, 320, 511, 270, 414, 435, 261, 385, 952, 384, 281};

static const gleed_model *model;

static uint64_t logits_hash(gleed_engine *engine, gleed_seq seq, const uint32_t *tokens, size_t count)
{
    const float *logits = NULL;
    size_t len = 0;
    DO(gleed_prefill(engine, seq, tokens, count, &logits, &len, &error));
    return fnv(START, logits, len * sizeof *logits);
}

static void plans_and_models(void)
{
    const gleed_config config = {.struct_size = sizeof config, .sequences = 3, .context = 100, .level = GLEED_LEVEL_SCALAR};
    gleed_model_info info = {.struct_size = sizeof info};
    gleed_plan_info plan = {.struct_size = sizeof plan};
    gleed_section section = {.struct_size = sizeof section};
    gleed_config earlier = {.struct_size = offsetof(gleed_config, adapters), .adapters = 9};
    uint64_t end = 0;
    size_t size, align;
    uint32_t i;
    DO(gleed_model_describe(model, &info, &error));
    CHECK(strcmp(info.architecture, "llama") == 0 && info.vocab > 950 && info.layers > 0 && info.fingerprint != 0);
    DO(gleed_plan(model, &config, &size, &align, &error));
    DO(gleed_plan_describe(model, &config, &plan, &error));
    CHECK(plan.bytes == size && plan.align == align && plan.units_per_token > 10 && plan.level == GLEED_LEVEL_SCALAR);
    CHECK(plan.sequences == 3 && plan.context == 100 && plan.kv_blocks == 21 && plan.rows == 256 && plan.workers == 1);
    CHECK(plan.kv_bytes == plan.kv_blocks * 16 * plan.kv_bytes_per_token);
    CHECK(plan.kv_bytes_per_token == (uint64_t)info.layers * info.kv_heads * info.head_dim * 2 * 2);
    CHECK(plan.adapters == 0 && plan.adapter_rank == 64);
    CHECK(plan.checkpoints == 0 && plan.checkpoint_every == 0 && plan.state_bytes == 0);
    /* A program with a header that had no adapters yet. */
    plan.struct_size = offsetof(gleed_plan_info, adapters);
    plan.adapters = 77;
    DO(gleed_plan_describe(model, &earlier, &plan, &error));
    CHECK(plan.adapters == 77 && plan.sequences == 1 && plan.level > 0);
    plan.struct_size = sizeof plan;
    DO(gleed_plan_describe(model, &config, &plan, &error));
    for (i = 0; i < plan.sections; i++) {
        DO(gleed_plan_section(model, &config, i, &section, &error));
        CHECK(section.offset >= end && strlen(section.name) > 0);
        end = section.offset + section.bytes;
    }
    CHECK(end <= plan.bytes && plan.bytes - end < align);
    EXPECT(GLEED_E_VALUE, gleed_plan_section(model, &config, plan.sections, &section, &error));
}

static void metadata(const uint8_t *file, size_t file_len)
{
    const char *text = NULL;
    size_t len = 0;
    DO(gleed_model_string(model, "general.name", 12, &text, &len, &error));
    CHECK(len == 16 && memcmp(text, "Gleed Tales 2.6M", len) == 0);
    CHECK((const uint8_t *)text > file && (const uint8_t *)text < file + file_len);
    EXPECT(GLEED_E_MODEL_KEY_MISSING, gleed_model_string(model, "general.nam", 11, &text, &len, &error));
    EXPECT(GLEED_E_MODEL_KEY_MISSING, gleed_model_string(model, "general.\xff", 9, &text, &len, &error));
    EXPECT(GLEED_E_MODEL_KEY_MISSING, gleed_model_string(model, NULL, 0, &text, &len, &error));
    EXPECT(GLEED_E_MODEL_KEY_VALUE, gleed_model_string(model, "llama.block_count", 17, &text, &len, &error));
}

static void selftests(void)
{
    uint32_t *memory = aligned(GLEED_SELFTEST_BYTES, 64);
    uint32_t level, levels = 0;
    const uint32_t amx = gleed_allow_amx();
    for (level = GLEED_LEVEL_BEST; level <= GLEED_LEVEL_AMX; level++) {
        gleed_status status = gleed_selftest(level, memory, GLEED_SELFTEST_BYTES, &error);
        CHECK(status == GLEED_OK || status == GLEED_E_VALUE);
        CHECK(level != GLEED_LEVEL_AMX || (status == GLEED_OK) == (amx == 1));
        levels += status == GLEED_OK;
    }
    CHECK(levels >= 2);
    EXPECT(GLEED_E_MEMORY_TOO_SMALL, gleed_selftest(GLEED_LEVEL_SCALAR, memory, 1000, &error));
    CHECK(error.needed > 1000 && error.needed <= GLEED_SELFTEST_BYTES);
}

static void keys_and_values(void)
{
    const gleed_config config = {.struct_size = sizeof config, .sequences = 3, .context = 64};
    gleed_engine *engine = start_engine(model, &config);
    gleed_model_info info = {.struct_size = sizeof info};
    gleed_seq from, to;
    uint64_t expected;
    uint32_t layer;
    size_t width, len, count = 0, position[2];
    float *keys, *values, *twice;
    const float *logits = NULL;
    gleed_seq both[2];
    DO(gleed_model_describe(model, &info, &error));
    DO(gleed_seq_open(engine, &from, &error));
    DO(gleed_seq_open(engine, &to, &error));
    logits_hash(engine, from, PROMPT, 20);
    width = info.kv_heads * info.head_dim;
    len = 20 * width;
    CHECK((keys = malloc(len * sizeof *keys)) != NULL && (values = malloc(len * sizeof *values)) != NULL);
    EXPECT(GLEED_E_SHAPE, gleed_materialize(engine, from, 0, keys, values, len - 1, &error));
    EXPECT(GLEED_E_LAYER, gleed_materialize(engine, from, info.layers, keys, values, len, &error));
    EXPECT(GLEED_E_VALUE, gleed_materialize(engine, from, 0, keys, keys + 1, len, &error));
    /* 19 rows are imported at once, the last one alone. */
    for (layer = 0; layer < info.layers; layer++) {
        DO(gleed_materialize(engine, from, layer, keys, values, len, &error));
        DO(gleed_set_prefill(engine, to, layer, keys, values, len - width, &error));
    }
    /* Two sequences get the same tokens. One has tokens already, which are replaced. */
    CHECK((twice = malloc(2 * len * sizeof *twice)) != NULL);
    DO(gleed_seq_open(engine, &both[1], &error));
    both[0] = to;
    for (layer = 0; layer < info.layers; layer++) {
        DO(gleed_materialize(engine, from, layer, keys, values, len, &error));
        memcpy(twice, keys, len * sizeof *keys);
        memcpy(twice + len, keys, len * sizeof *keys);
        EXPECT(GLEED_E_SHAPE, gleed_set_prefill_batch(engine, both, 2, layer, twice, twice, 2 * len - 1, &error));
        DO(gleed_set_prefill_batch(engine, both, 2, layer, twice, twice, 2 * len, &error));
    }
    for (layer = 0; layer < info.layers; layer++) {
        DO(gleed_materialize(engine, from, layer, keys, values, len, &error));
        DO(gleed_set_prefill(engine, to, layer, keys, values, len - width, &error));
        DO(gleed_set_prefill(engine, both[1], layer, keys, values, width, &error));
    }
    /* 18 more rows in one call, from the position where the first row ends. */
    position[0] = 2;
    EXPECT(GLEED_E_POSITION, gleed_append_rows(engine, &both[1], position, 1, 0, keys, values, width, &error));
    CHECK(error.needed == 1 && error.given == 2);
    position[0] = 19;
    position[1] = 1;
    EXPECT(GLEED_E_VALUE, gleed_append_rows(engine, both, position, 4, 0, keys, values, 4 * width, &error));
    CHECK(error.needed == 3 && error.given == 4);
    both[0] = both[1];
    EXPECT(GLEED_E_VALUE, gleed_set_prefill_batch(engine, both, 2, 0, keys, values, 2 * width, &error));
    for (layer = 0; layer < info.layers; layer++) {
        DO(gleed_materialize(engine, from, layer, keys, values, len, &error));
        DO(gleed_append_rows(engine, &both[1], &position[1], 1, layer, keys + width, values + width, 18 * width, &error));
    }
    for (layer = 0; layer < info.layers; layer++) {
        DO(gleed_materialize(engine, from, layer, keys, values, len, &error));
        DO(gleed_push_row(engine, to, layer, keys + len - width, values + len - width, width, &error));
    }
    expected = logits_hash(engine, from, PROMPT + 20, 1);
    CHECK(logits_hash(engine, to, PROMPT + 20, 1) == expected);
    DO(gleed_rewind(engine, to, 19, &error));
    EXPECT(GLEED_E_POSITION, gleed_prefill_at(engine, to, 20, PROMPT + 20, 1, &logits, &count, &error));
    CHECK(error.needed == 19 && error.given == 20 && logits == NULL);
    EXPECT(GLEED_E_POSITION, gleed_queue_at(engine, to, 18, PROMPT + 20, 1, GLEED_LOGITS_LAST, &error));
    CHECK(error.needed == 19 && error.given == 18);
    /* Both sequences have the same 19 tokens. */
    DO(gleed_prefill_at(engine, to, 19, PROMPT + 20, 1, &logits, &count, &error));
    expected = fnv(START, logits, count * sizeof *logits);
    DO(gleed_queue_at(engine, both[1], 19, PROMPT + 20, 1, GLEED_LOGITS_LAST, &error));
    EXPECT(GLEED_E_BUSY, gleed_queue_at(engine, both[1], 20, PROMPT, 1, GLEED_LOGITS_LAST, &error));
    EXPECT(GLEED_READY, gleed_step(engine, NULL, &error));
    DO(gleed_logits(engine, both[1], &logits, &count, &error));
    CHECK(fnv(START, logits, count * sizeof *logits) == expected);
}

static int32_t only_this(void *ctx, gleed_seq seq, const gleed_seq_info *info)
{
    CHECK(info->struct_size == sizeof *info && info->tokens > 0 && info->own_blocks > 0);
    return seq == *(const gleed_seq *)ctx;
}

/* Ranks blocks in the reverse of the order in which the library would choose. */
static uint64_t last_block_first(void *ctx, const gleed_block_info *block)
{
    CHECK(block->struct_size == sizeof *block && !block->is_cached && block->tokens == NULL && block->group == 0);
    *(unsigned *)ctx += 1;
    return UINT32_MAX - block->block;
}

static uint64_t last_tokens_first(void *ctx, const gleed_block_info *block)
{
    CHECK(block->is_cached && block->tokens[0] == PROMPT[block->position]);
    *(unsigned *)ctx += 1;
    return 1000 - block->position;
}

static uint64_t longest_first(void *ctx, gleed_seq seq, const gleed_seq_info *info)
{
    CHECK(ctx != NULL && seq != 0 && info->own_blocks + info->shared_blocks > 0);
    return 1000 - info->tokens;
}

static uint64_t nobody_closes(void *ctx, gleed_seq seq, const gleed_seq_info *info)
{
    CHECK(ctx != NULL && seq != 0 && info->struct_size == sizeof *info);
    return GLEED_RANK_NEVER;
}

static void policies(void)
{
    const gleed_config config = {
        .struct_size = sizeof config, .sequences = 3, .context = 64, .kv_blocks = 5, .prefix_cache = 1};
    unsigned asked = 0;
    gleed_cache_policy policy = {.struct_size = sizeof policy,
                                 .close = nobody_closes,
                                 .evict = last_tokens_first,
                                 .hand_out = last_block_first,
                                 .ctx = &asked};
    gleed_engine *engine = start_engine(model, &config);
    gleed_seq a, b, c;
    size_t count = 0;
    uint64_t expected;
    DO(gleed_seq_open(engine, &a, &error));
    expected = logits_hash(engine, a, PROMPT, 40);
    DO(gleed_seq_close(engine, a, &error));
    policy.reserved = 1;
    EXPECT(GLEED_E_VALUE, gleed_set_cache_policy(engine, &policy, &error));
    policy.reserved = 0;
    DO(gleed_set_cache_policy(engine, &policy, &error));
    DO(gleed_seq_open(engine, &a, &error));
    DO(gleed_seq_open(engine, &b, &error));
    DO(gleed_seq_open(engine, &c, &error));
    /* Other blocks are used, and the bits are the same. */
    CHECK(logits_hash(engine, a, PROMPT, 40) == expected && asked >= 3);
    logits_hash(engine, b, PROMPT + 1, 20);
    EXPECT(GLEED_FULL, gleed_make_room(engine, c, 17, NULL, NULL, &count, &error));
    policy.close = longest_first;
    DO(gleed_set_cache_policy(engine, &policy, &error));
    DO(gleed_make_room(engine, c, 17, NULL, NULL, &count, &error));
    CHECK(count == 1);
    EXPECT(GLEED_E_SEQUENCE, gleed_reset(engine, a, &error));
    /* One block is free, and the end of the cached prompt is evicted before its beginning. */
    asked = 0;
    logits_hash(engine, c, PROMPT + 2, 17);
    CHECK(asked == 3);
    DO(gleed_seq_open(engine, &a, &error));
    DO(gleed_reuse(engine, a, PROMPT, 40, &count, &error));
    CHECK(count == 16);
    DO(gleed_set_cache_policy(engine, NULL, &error));
    DO(gleed_seq_close(engine, b, &error));
    asked = 0;
    logits_hash(engine, a, PROMPT + 16, 4);
    CHECK(asked == 0);
}

static void prefixes(void)
{
    const gleed_config config = {
        .struct_size = sizeof config, .sequences = 3, .context = 64, .kv_blocks = 5, .prefix_cache = 1};
    gleed_engine *engine = start_engine(model, &config);
    gleed_engine_info info = {.struct_size = sizeof info};
    gleed_seq a, b, c;
    const float *logits = NULL;
    size_t count = 0, len = 0;
    uint64_t expected;
    DO(gleed_seq_open(engine, &a, &error));
    expected = logits_hash(engine, a, PROMPT, 40);
    DO(gleed_pin(engine, PROMPT, 40, &count, &error));
    CHECK(count == 32);
    DO(gleed_seq_close(engine, a, &error));
    DO(gleed_engine_describe(engine, &info, &error));
    CHECK(info.blocks == 5 && info.blocks_used == 2 && info.blocks_pinned == 2 && info.sequences == 0);
    CHECK(info.blocks_high_water == 3 && info.kv_bytes == 5 * (info.kv_bytes_used / 2));
    DO(gleed_seq_open(engine, &a, &error));
    DO(gleed_seq_open(engine, &b, &error));
    DO(gleed_seq_open(engine, &c, &error));
    DO(gleed_reuse(engine, a, PROMPT, 40, &count, &error));
    CHECK(count == 32);
    CHECK(logits_hash(engine, a, PROMPT + 32, 8) == expected);
    DO(gleed_prefill_prompt(engine, b, PROMPT, 40, &logits, &len, &error));
    CHECK(fnv(START, logits, len * sizeof *logits) == expected);
    DO(gleed_engine_describe(engine, &info, &error));
    CHECK(info.prefix_lookups == 2 && info.prefix_hits == 2 && info.prefix_hit_tokens == 64);
    /* One block is free. 32 tokens need another one, which can come from a sequence that is closed. */
    EXPECT(GLEED_FULL, gleed_make_room(engine, c, 32, only_this, &c, &count, &error));
    DO(gleed_make_room(engine, c, 32, only_this, &a, &count, &error));
    CHECK(count == 1);
    EXPECT(GLEED_E_SEQUENCE, gleed_reset(engine, a, &error));
    DO(gleed_unpin(engine, PROMPT, 32, &count, &error));
    CHECK(count == 32);
    DO(gleed_unpin(engine, PROMPT, 32, &count, &error));
    CHECK(count == 0);
}

struct buffer {
    uint8_t bytes[1 << 20];
    size_t len, read;
};

static int32_t take(void *ctx, const uint8_t *bytes, size_t len)
{
    struct buffer *buffer = ctx;
    CHECK(len <= sizeof buffer->bytes - buffer->len);
    memcpy(buffer->bytes + buffer->len, bytes, len);
    buffer->len += len;
    return 0;
}

static size_t give(void *ctx, uint8_t *bytes, size_t len)
{
    struct buffer *buffer = ctx;
    if (len > buffer->len - buffer->read)
        len = buffer->len - buffer->read;
    memcpy(bytes, buffer->bytes + buffer->read, len);
    buffer->read += len;
    return len;
}

static void snapshots(void)
{
    static struct buffer buffer;
    const gleed_config config = {.struct_size = sizeof config, .sequences = 4, .context = 64};
    gleed_engine *engine = start_engine(model, &config);
    const uint8_t state[3] = {7, 8, 9};
    gleed_snapshot_options options = {.struct_size = sizeof options, .base = 16, .state = state, .state_len = 3};
    gleed_snapshot_info info = {.struct_size = sizeof info};
    gleed_seq whole, base, restored;
    uint64_t written = 0;
    size_t size, computed = 0;
    DO(gleed_seq_open(engine, &whole, &error));
    logits_hash(engine, whole, PROMPT, 40);
    /* This model has no recurrent layers, so a rewind to any length computes nothing again. */
    DO(gleed_checkpoint(engine, whole, &error));
    DO(gleed_computed_at(engine, whole, 20, &computed, &error));
    CHECK(computed == 20);
    DO(gleed_fork(engine, whole, 20, &base, &error));
    DO(gleed_snapshot_size(engine, whole, &options, &size, &error));
    DO(gleed_snapshot_write(engine, whole, &options, take, &buffer, &written, &error));
    CHECK(written == size && buffer.len == size);
    DO(gleed_snapshot_describe(buffer.bytes, buffer.len, &info, &error));
    CHECK(info.tokens == 40 && info.base == 16 && info.bytes == size && info.state_len == 3 && info.state[2] == 9);
    EXPECT(GLEED_E_SNAPSHOT_BASE, gleed_restore(engine, NULL, buffer.bytes, buffer.len, &restored, &error));
    memset(info.state, 0, sizeof info.state);
    DO(gleed_snapshot_read(engine, &base, give, &buffer, &restored, &info, &error));
    CHECK(info.tokens == 40 && info.state[0] == 7 && info.state[3] == 0);
    CHECK(contents(engine, restored) == contents(engine, whole));
    options.state_len = 257;
    EXPECT(GLEED_E_VALUE, gleed_snapshot_size(engine, whole, &options, &size, &error));
    options.state_len = 3;
    options.base = 17;
    EXPECT(GLEED_E_SNAPSHOT_BASE, gleed_snapshot_size(engine, whole, &options, &size, &error));
}

struct thread {
    gleed_body body;
    void *arg;
    uint32_t index;
};

static void *call_body(void *arg)
{
    const struct thread *thread = arg;
    thread->body(thread->arg, thread->index);
    return NULL;
}

/* Runs the body on a thread for each index, which is not fast. */
static void on_threads(void *ctx, uint32_t n, gleed_body body, void *arg)
{
    pthread_t handles[8];
    struct thread threads[8];
    uint32_t i;
    CHECK(n >= 1 && n <= 3);
    ++*(unsigned *)ctx;
    for (i = 0; i < n; i++) {
        threads[i].body = body;
        threads[i].arg = arg;
        threads[i].index = i;
        CHECK(pthread_create(&handles[i], NULL, call_body, &threads[i]) == 0);
    }
    for (i = 0; i < n; i++)
        pthread_join(handles[i], NULL);
}

static void nobody(void *ctx, uint32_t n, gleed_body body, void *arg)
{
    (void)ctx;
    (void)n;
    (void)body;
    (void)arg;
}

static void executors(void)
{
    const gleed_config config = {.struct_size = sizeof config, .sequences = 2, .context = 64, .workers = 3};
    unsigned calls = 0;
    gleed_executor executor = {.struct_size = sizeof executor, .parallel_for = on_threads, .ctx = &calls};
    gleed_engine *engine = start_engine(model, &config);
    const float *logits = NULL;
    size_t len = 0;
    uint64_t alone, kept;
    gleed_seq seq;
    DO(gleed_seq_open(engine, &seq, &error));
    alone = logits_hash(engine, seq, PROMPT, 5);
    DO(gleed_reset(engine, seq, &error));
    DO(gleed_set_executor(engine, &executor, &error));
    CHECK(logits_hash(engine, seq, PROMPT, 5) == alone && calls > 0);
    /* An executor that does nothing is noticed, and no token is lost. */
    kept = contents(engine, seq);
    executor.parallel_for = nobody;
    DO(gleed_set_executor(engine, &executor, &error));
    EXPECT(GLEED_E_INTERNAL, gleed_decode_step(engine, seq, 5, &logits, &len, &error));
    CHECK(contents(engine, seq) == kept);
    executor.parallel_for = NULL;
    EXPECT(GLEED_E_NULL, gleed_set_executor(engine, &executor, &error));
    DO(gleed_set_executor(engine, NULL, &error));
    logits_hash(engine, seq, PROMPT, 1);
}

/* A clock that advances by a tick each time it is read. */
static uint64_t ticking(void *ctx)
{
    return ++*(uint64_t *)ctx;
}

/* Computes the most probable tokens after PROMPT with guesses, and token by token: they must be the same. */
static void guesses(void)
{
    const gleed_config config = {.struct_size = sizeof config, .sequences = 2, .context = 256, .rows = 8, .logit_rows = 8};
    gleed_engine *engine = start_engine(model, &config);
    gleed_metrics metrics = {.struct_size = sizeof metrics};
    const float *logits = NULL;
    uint32_t text[160], token, wrong[31];
    size_t len = 0, count, guessed = 0, batches = 0, size, align, i;
    gleed_guesses *table;
    gleed_seq plain, seq;
    void *memory;
    DO(gleed_seq_open(engine, &plain, &error));
    DO(gleed_prefill(engine, plain, PROMPT, 20, &logits, &len, &error));
    for (count = 0; count < COUNT(text); count++) {
        DO(gleed_argmax(logits, len, &text[count], &error));
        DO(gleed_decode_step(engine, plain, text[count], &logits, &len, &error));
    }
    DO(gleed_seq_open(engine, &seq, &error));
    EXPECT(GLEED_E_LIMIT, gleed_guesses_plan(0, 100, &size, &align, &error));
    EXPECT(GLEED_E_LIMIT, gleed_guesses_plan(32, 100, &size, &align, &error));
    CHECK(error.needed == 31 && error.given == 32);
    DO(gleed_guesses_plan(7, 100, &size, &align, &error));
    memory = aligned(size, align);
    EXPECT(GLEED_E_SEQUENCE, gleed_guesses_init(engine, 77, 7, 100, memory, size, &table, &error));
    EXPECT(GLEED_E_MEMORY_TOO_SMALL, gleed_guesses_init(engine, seq, 7, 100, memory, size - 1, &table, &error));
    CHECK(error.needed == size && error.given == size - 1);
    DO(gleed_guesses_init(engine, seq, 7, 100, memory, size, &table, &error));

    DO(gleed_prefill(engine, seq, PROMPT, 20, &logits, &len, &error));
    DO(gleed_argmax(logits, len, &token, &error));
    CHECK(token == text[0]);
    for (count = 1; count < 150; batches++) {
        /* The program's own guesses: right ones, wrong ones, ids that are no tokens, or none. Then the table guesses. */
        const uint32_t *ids = batches % 4 == 0 ? text + count : batches % 4 == 1 ? wrong : NULL;
        for (i = 0; i < COUNT(wrong); i++)
            wrong[i] = i < 3 ? text[count + i] : batches % 8 == 1 ? 5 : UINT32_MAX;
        EXPECT(GLEED_E_NO_LOGITS, gleed_guesses_logits(table, engine, &logits, &len, &error));
        EXPECT(GLEED_E_NO_LOGITS, gleed_guesses_take(table, engine, token, &error));
        EXPECT(GLEED_E_LIMIT, gleed_guesses_queue(table, engine, token, wrong, 32, &guessed, &error));
        EXPECT(GLEED_E_TOKEN, gleed_guesses_queue(table, engine, UINT32_MAX, NULL, 0, &guessed, &error));
        DO(gleed_guesses_queue(table, engine, token, ids, ids == NULL ? 0 : 5, &guessed, &error));
        CHECK(guessed <= 7);
        EXPECT(GLEED_E_BUSY, gleed_guesses_queue(table, engine, token, NULL, 0, &guessed, &error));
        EXPECT(GLEED_E_NO_LOGITS, gleed_guesses_logits(table, engine, &logits, &len, &error));
        EXPECT(GLEED_READY, gleed_step(engine, NULL, &error));
        while (count < 150 && gleed_guesses_logits(table, engine, &logits, &len, &error) == GLEED_OK) {
            DO(gleed_argmax(logits, len, &token, &error));
            CHECK(token == text[count]);
            count++;
            DO(gleed_guesses_take(table, engine, token, &error));
        }
        DO(gleed_guesses_end(table, engine, 0, &error));
        DO(gleed_guesses_end(table, engine, 5, &error));
    }
    DO(gleed_engine_metrics(engine, &metrics, &error));
    CHECK(metrics.guesses_accepted > 40 && metrics.guesses_proposed > metrics.guesses_accepted && batches < 110);
    CHECK(1 + batches + metrics.guesses_accepted >= 150);
    DO(gleed_seq_close(engine, seq, &error));
    EXPECT(GLEED_E_SEQUENCE, gleed_guesses_queue(table, engine, token, NULL, 0, &guessed, &error));
    EXPECT(GLEED_E_SEQUENCE, gleed_guesses_end(table, engine, 0, &error));
}

static void figures(void)
{
    const gleed_config config = {.struct_size = sizeof config, .sequences = 2, .context = 64, .rows = 8, .prefix_cache = 1};
    gleed_engine *engine = start_engine(model, &config);
    gleed_metrics metrics = {.struct_size = sizeof metrics};
    gleed_budget budget = {.struct_size = sizeof budget, .units = 1};
    const float *logits = NULL;
    size_t len = 0, reused = 0;
    uint64_t time = 0, late = 0;
    uint32_t flag = 0, yields = 0;
    gleed_seq seq, fork, again;
    gleed_status status;
    DO(gleed_engine_metrics(engine, &metrics, &error));
    CHECK(metrics.struct_size == sizeof metrics && metrics.prefill.count == 0 && metrics.steps == 0);
    DO(gleed_set_clock(engine, ticking, &time, &error));
    DO(gleed_seq_open(engine, &seq, &error));
    DO(gleed_prefill(engine, seq, PROMPT, 20, &logits, &len, &error));
    DO(gleed_decode_step(engine, seq, 5, &logits, &len, &error));
    DO(gleed_decode_step(engine, seq, 6, &logits, &len, &error));
    DO(gleed_engine_metrics(engine, &metrics, &error));
    CHECK(metrics.prefill.count == 3 && metrics.prefill.rows == 20 && metrics.decode.count == 2 && metrics.decode_tokens == 2);
    /* The clock is read when a step begins, and when a pass ends. */
    CHECK(metrics.prefill.times.count == 3 && metrics.prefill.times.sum == 3 && metrics.decode.times.max == 1);
    CHECK(metrics.decode.p50 == 1 && metrics.decode.p99 == 1 && metrics.decode.times.min == 1);
    CHECK(metrics.first_token.count == 1 && metrics.first_token.sum == 4 && time == 1 + 4 + 4 && metrics.steps == 3);
    DO(gleed_fork(engine, seq, 18, &fork, &error));
    DO(gleed_seq_close(engine, fork, &error));
    DO(gleed_seq_open(engine, &again, &error));
    DO(gleed_reuse(engine, again, PROMPT, 20, &reused, &error));
    DO(gleed_engine_metrics(engine, &metrics, &error));
    CHECK(reused == 16 && metrics.saved_prefix == 16 && metrics.saved_fork == 18 && metrics.saved_checkpoint == 0);
    CHECK(metrics.blocks_used == 2 && metrics.blocks_high_water == 2 && metrics.slots_high_water == 0);

    /* Steps that the budget ends: by units, by a clock that is late, by a flag. */
    DO(gleed_set_clock(engine, NULL, NULL, &error));
    DO(gleed_engine_reset_metrics(engine, &error));
    time = 0;
    DO(gleed_queue(engine, seq, PROMPT, 8, GLEED_LOGITS_LAST, &error));
    EXPECT(GLEED_YIELDED, gleed_step(engine, &budget, &error));
    budget.units = 0;
    budget.deadline = 2;
    budget.clock = ticking;
    budget.clock_ctx = &late;
    EXPECT(GLEED_YIELDED, gleed_step(engine, &budget, &error));
    DO(gleed_engine_metrics(engine, &metrics, &error));
    CHECK(metrics.yields == 2 && metrics.overshoot.count == 1 && metrics.overshoot.sum == 1 && late == 3 && time == 0);
    budget.clock = NULL;
    budget.cancel = &flag;
    budget.units = 20;
    while ((status = gleed_step(engine, &budget, &error)) == GLEED_YIELDED)
        yields++;
    CHECK(status == GLEED_READY && yields > 10);
    DO(gleed_engine_metrics(engine, &metrics, &error));
    CHECK(metrics.yields == 2 + yields && metrics.prefill.count == 1 && metrics.prefill.times.count == 0);
    CHECK(metrics.overshoot.count == 1 && metrics.first_token.count == 0 && metrics.dropped == 0);
}

static void windows_and_results(void)
{
    const gleed_config config = {.struct_size = sizeof config, .context = 32, .rows = 8, .logit_rows = 8,
                                 .window_sinks = 4, .window_last = 12};
    gleed_engine *engine = start_engine(model, &config);
    gleed_seq_info info = {.struct_size = sizeof info};
    const float *logits = NULL;
    uint32_t position = 0;
    size_t len = 0, i, rows = 0;
    gleed_seq seq, owner;
    gleed_status status;
    DO(gleed_seq_open(engine, &seq, &error));
    /* The sequence becomes longer than the context: with a window there is no end. */
    for (i = 0; i < 5; i++)
        logits_hash(engine, seq, PROMPT, 40);
    DO(gleed_seq_describe(engine, seq, &info, &error));
    CHECK(info.tokens == 200 && info.own_blocks <= 4);
    EXPECT(GLEED_E_WINDOW, gleed_rewind(engine, seq, 100, &error));
    DO(gleed_reset(engine, seq, &error));
    DO(gleed_queue(engine, seq, PROMPT, 8, GLEED_LOGITS_ALL, &error));
    DO(gleed_seq_describe(engine, seq, &info, &error));
    CHECK(info.queued == 8 && info.is_busy == 1 && info.tokens == 0);
    while ((status = gleed_step(engine, NULL, &error)) == GLEED_READY)
        for (i = 0; gleed_result(engine, i, &owner, &position, &logits, &len, &error) == GLEED_OK; i++, rows++)
            CHECK(owner == seq && position == rows);
    CHECK(status == GLEED_OK && rows == 8);
}

static void turns(void)
{
    const gleed_tokenizer *tokenizer = start_tokenizer(model);
    gleed_turns_info info = {.struct_size = sizeof info};
    gleed_message messages[2] = {{.role = GLEED_ROLE_SYSTEM, .text = "Be brief.", .text_len = 9},
                                 {.role = GLEED_ROLE_USER, .text = "Hi</s>", .text_len = 6}};
    uint32_t scratch[4000], ids[64], again[64], format = 0, number, formats, stop = 7, eos = 0;
    size_t count = 0, first = 0, second = 0, i;
    DO(gleed_turns_find(model, tokenizer, &format, &error));
    CHECK(format == GLEED_NO_TURNS);
    DO(gleed_turns_named("zebra", 5, &format, &error));
    CHECK(format == GLEED_NO_TURNS);
    EXPECT(GLEED_E_VALUE, gleed_turns_describe(format, &info, &error));
    CHECK(error.given == GLEED_NO_TURNS && error.needed > 50);
    formats = (uint32_t)error.needed + 1;
    for (i = 0; gleed_turns_describe((uint32_t)i, &info, &error) == GLEED_OK; i++) {
        DO(gleed_turns_named(info.name, strlen(info.name), &format, &error));
        CHECK(format == i);
    }
    CHECK(i == formats);
    DO(gleed_turns_named("zephyr", 6, &number, &error));
    DO(gleed_vocab_find(tokenizer, "</s>", 4, &eos, &error));

    /* Calls without room say how much is needed. */
    EXPECT(GLEED_E_SCRATCH_TOO_SMALL, gleed_turns_encode(tokenizer, number, GLEED_AFTER_NOTHING, messages, 2,
                                                         GLEED_TURNS_REPLY, NULL, 0, NULL, 0, &count, &error));
    EXPECT(GLEED_E_OUTPUT_TOO_SMALL, gleed_turns_encode(tokenizer, number, GLEED_AFTER_NOTHING, messages, 2,
                                                        GLEED_TURNS_REPLY, scratch, 4000, NULL, 0, &count, &error));
    CHECK(count == 0 && error.needed > 20 && error.needed <= 64);
    first = (size_t)error.needed;
    EXPECT(GLEED_E_OUTPUT_TOO_SMALL, gleed_turns_encode(tokenizer, number, GLEED_AFTER_NOTHING, messages, 2,
                                                        GLEED_TURNS_REPLY, scratch, 4000, ids, first - 1, &count,
                                                        &error));
    DO(gleed_turns_encode(tokenizer, number, GLEED_AFTER_NOTHING, messages, 2, GLEED_TURNS_REPLY, scratch, 4000, ids,
                          first, &count, &error));
    CHECK(count == first);
    /* The format ends two turns with the token. The token's name in a message stays text. */
    for (i = 0, second = 0; i < count; i++)
        second += ids[i] == eos;
    CHECK(second == 2);
    /* Messages are encoded one by one. If a turn ends with a token of the format, the tokens are the same. */
    DO(gleed_turns_encode(tokenizer, number, GLEED_AFTER_NOTHING, messages, 1, 0, scratch, 4000, again, 64, &first,
                          &error));
    DO(gleed_turns_encode(tokenizer, number, GLEED_ROLE_SYSTEM, messages + 1, 1, 0, scratch, 4000, again + first,
                          64 - first, &second, &error));
    CHECK(first < count && first + second < count && memcmp(ids, again, (first - 1) * sizeof *ids) == 0);
    /* The token that closes the model's turn comes first. */
    DO(gleed_turns_encode(tokenizer, number, GLEED_AFTER_REPLY, messages + 1, 1, 0, scratch, 4000, again, 64, &first,
                          &error));
    CHECK(again[0] == eos && first > second);
    DO(gleed_turns_encode(tokenizer, number, GLEED_AFTER_NOTHING, messages, 2, GLEED_TURNS_REPLY | GLEED_TURNS_ADD_BOS,
                          scratch, 4000, again, 64, &first, &error));
    CHECK(first == count + 1 && memcmp(again + 1, ids, count * sizeof *ids) == 0);
    DO(gleed_turns_encode(tokenizer, number, GLEED_AFTER_REPLY, NULL, 0, GLEED_TURNS_REPLY | GLEED_TURNS_ADD_BOS,
                          scratch, 4000, NULL, 0, &first, &error));
    CHECK(first == 0);

    DO(gleed_turns_is_stop(tokenizer, number, eos, &stop, &error));
    CHECK(stop == 1);
    DO(gleed_turns_is_stop(tokenizer, number, 5, &stop, &error));
    CHECK(stop == 0);
    EXPECT(GLEED_E_TOKEN, gleed_turns_is_stop(tokenizer, number, 1u << 30, &stop, &error));
    EXPECT(GLEED_E_VALUE, gleed_turns_is_stop(tokenizer, formats, 5, &stop, &error));

#define ENCODE(format, after, flags) \
    gleed_turns_encode(tokenizer, format, after, messages, 2, flags, scratch, 4000, again, 64, &first, &error)
    first = 77;
    EXPECT(GLEED_E_VALUE, ENCODE(formats, GLEED_AFTER_NOTHING, 0));
    EXPECT(GLEED_E_VALUE, ENCODE(number, 5, 0));
    CHECK(error.needed == GLEED_AFTER_REPLY && error.given == 5);
    EXPECT(GLEED_E_VALUE, ENCODE(number, GLEED_AFTER_NOTHING, 4));
    messages[1].role = GLEED_AFTER_REPLY;
    EXPECT(GLEED_E_VALUE, ENCODE(number, GLEED_AFTER_NOTHING, 0));
    CHECK(error.at == 1 && error.needed == GLEED_ROLE_ASSISTANT && error.given == GLEED_AFTER_REPLY);
    messages[1].role = 0;
    EXPECT(GLEED_E_VALUE, ENCODE(number, GLEED_AFTER_NOTHING, 0));
    messages[1].role = GLEED_ROLE_USER;
    messages[1].reserved = 1;
    EXPECT(GLEED_E_VALUE, ENCODE(number, GLEED_AFTER_NOTHING, 0));
    messages[1].reserved = 0;
    messages[1].text = NULL;
    EXPECT(GLEED_E_NULL, ENCODE(number, GLEED_AFTER_NOTHING, 0));
    CHECK(error.at == 1);
    messages[1].text = "ab\xff";
    messages[1].text_len = 3;
    EXPECT(GLEED_E_TEXT, ENCODE(number, GLEED_AFTER_NOTHING, 0));
    CHECK(error.at == 2);
    messages[1].text_len = SIZE_MAX;
    EXPECT(GLEED_E_LENGTH, ENCODE(number, GLEED_AFTER_NOTHING, 0));
    messages[1].text_len = 0;
    CHECK(first == 77);
    DO(ENCODE(number, GLEED_AFTER_NOTHING, 0));
#undef ENCODE
}

static void parts(const uint8_t *file, size_t file_len)
{
    const gleed_model *split = NULL, *other = NULL;
    gleed_part part[2] = {{file, file_len}, {file, file_len}};
    size_t size = 0, align = 0, one = 0;
    gleed_model_info info = {.struct_size = sizeof info};
    uint64_t fingerprint;
    void *memory;
    EXPECT(GLEED_E_MEMORY_TOO_LARGE, gleed_model_split_size(SIZE_MAX, &size, &align, &error));
    DO(gleed_model_split_size(1, &one, &align, &error));
    DO(gleed_model_split_size(2, &size, &align, &error));
    CHECK(one < size && size < 2000);
    memory = aligned(size, align);
    EXPECT(GLEED_E_MEMORY_TOO_SMALL, gleed_model_open_split(part, 1, memory, one - 1, &split, &error));
    DO(gleed_model_open_split(part, 1, memory, one, &split, &error));
    DO(gleed_model_describe(model, &info, &error));
    fingerprint = info.fingerprint;
    DO(gleed_model_describe(split, &info, &error));
    CHECK(info.fingerprint == fingerprint && info.file_bytes == file_len);
    /* After a refused call the model in the memory is as before, until the memory is written to. */
    part[1].bytes = NULL;
    EXPECT(GLEED_E_NULL, gleed_model_open_split(part, 2, memory, size, &other, &error));
    part[1].len = 0;
    EXPECT(GLEED_E_MEMORY_TOO_SMALL, gleed_model_open_split(part, 2, memory, size - 1, &other, &error));
    DO(gleed_model_describe(split, &info, &error));
    EXPECT(GLEED_E_FILE_PARTS, gleed_model_open_split(part, 2, memory, size, &other, &error));
    CHECK(error.needed == 1 && error.given == 2 && other == NULL);
    EXPECT(GLEED_E_OBJECT, gleed_model_describe(split, &info, &error));
    EXPECT(GLEED_E_FILE_PARTS, gleed_model_open_split(NULL, 0, memory, size, &other, &error));
    part[0].len = file_len - 1;
    EXPECT(GLEED_E_FILE_TRUNCATED, gleed_model_open_split(part, 1, memory, size, &other, &error));
}

static void adapters(void)
{
    const gleed_config config = {
        .struct_size = sizeof config, .sequences = 3, .context = 64, .adapters = 2, .adapter_rank = 8};
    gleed_engine *engine = start_engine(model, &config);
    gleed_adapter_info info = {.struct_size = sizeof info};
    gleed_plan_info plan = {.struct_size = sizeof plan};
    const gleed_adapter *one, *other;
    const uint8_t *bytes;
    uint64_t alone, adapted;
    uint32_t first = 9, second = 9;
    gleed_seq seq, fork;
    float scale = 9;
    size_t len;
    bytes = make_adapter(8, 4, &len);
    one = open_adapter(model, bytes, len);
    bytes = make_adapter(8, 8, &len);
    other = open_adapter(model, bytes, len);
    DO(gleed_adapter_describe(one, &info, &error));
    DO(gleed_plan_describe(model, &config, &plan, &error));
    CHECK(info.rank == 8 && plan.adapters == 2 && plan.adapter_rank == 8);
    DO(gleed_seq_open(engine, &seq, &error));
    alone = logits_hash(engine, seq, PROMPT, 20);
    EXPECT(GLEED_E_ADAPTER, gleed_seq_set_adapter(engine, seq, 0, 1, &error));
    DO(gleed_engine_load_adapter(engine, one, &first, &error));
    DO(gleed_engine_load_adapter(engine, other, &second, &error));
    CHECK(first == 0 && second == 1);
    DO(gleed_reset(engine, seq, &error));
    CHECK(logits_hash(engine, seq, PROMPT, 20) == alone);
    /* An adapter that adds twice as much, with half the scale, gives the same. */
    DO(gleed_reset(engine, seq, &error));
    DO(gleed_seq_set_adapter(engine, seq, first, 1, &error));
    adapted = logits_hash(engine, seq, PROMPT, 20);
    CHECK(adapted != alone);
    DO(gleed_fork(engine, seq, 0, &fork, &error));
    DO(gleed_seq_adapter(engine, fork, first, &scale, &error));
    CHECK(scale == 1);
    DO(gleed_seq_set_adapter(engine, fork, first, 0, &error));
    DO(gleed_seq_set_adapter(engine, fork, second, 0.5f, &error));
    CHECK(logits_hash(engine, fork, PROMPT, 20) == adapted);
    DO(gleed_seq_set_adapter(engine, fork, second, 0, &error));
    DO(gleed_reset(engine, fork, &error));
    CHECK(logits_hash(engine, fork, PROMPT, 20) == alone);
}

/* Embeds two texts in one call: the prompt and its first half. */
static void many_texts(gleed_engine *engine, const float *mean, const float *last)
{
    uint32_t ids[30], used = 9;
    size_t lengths[2] = {20, 10}, len = 0;
    float values[2 * 256];
    gleed_seq seq;
    memcpy(ids, PROMPT, 20 * sizeof ids[0]);
    memcpy(ids + 20, PROMPT, 10 * sizeof ids[0]);
    DO(gleed_model_embedding(model, GLEED_POOLING_MODEL, &used, &len, &error));
    CHECK(used == GLEED_POOLING_MEAN && len == 256);
    EXPECT(GLEED_E_VALUE, gleed_model_embedding(model, GLEED_POOLING_RANK, &used, &len, &error));
    DO(gleed_embed_texts(engine, ids, 30, lengths, 2, GLEED_POOLING_MODEL, values, 512, &error));
    CHECK(memcmp(values, mean, 256 * sizeof values[0]) == 0);
    DO(gleed_embed_texts(engine, ids, 30, lengths, 2, GLEED_POOLING_LAST, values, 512, &error));
    {
        /* The index of a wrong id in the second text counts from the first id of all texts. */
        const uint32_t right = ids[29];
        ids[29] = UINT32_MAX;
        EXPECT(GLEED_E_TOKEN, gleed_embed_texts(engine, ids, 30, lengths, 2, GLEED_POOLING_LAST, values, 512, &error));
        CHECK(error.at == 29);
        ids[29] = right;
    }
    CHECK(memcmp(values, last, 256 * sizeof values[0]) == 0);
    EXPECT(GLEED_E_SHAPE, gleed_embed_texts(engine, ids, 30, lengths, 2, GLEED_POOLING_LAST, values, 511, &error));
    CHECK(error.needed == 512 && error.given == 511);
    EXPECT(GLEED_E_SHAPE, gleed_embed_texts(engine, ids, 30, lengths, SIZE_MAX / 99, GLEED_POOLING_LAST, values, 512, &error));
    EXPECT(GLEED_E_VALUE, gleed_embed_texts(engine, ids, 29, lengths, 2, GLEED_POOLING_LAST, values, 512, &error));
    CHECK(error.needed == 30 && error.given == 29);
    EXPECT(GLEED_E_VALUE, gleed_embed_texts(engine, ids, 30, lengths, 2, GLEED_POOLING_RANK, values, 512, &error));
    EXPECT(GLEED_E_VALUE, gleed_embed_texts(engine, ids, 30, lengths, 2, 5, values, 512, &error));
    lengths[1] = 65;
    EXPECT(GLEED_E_CONTEXT, gleed_embed_texts(engine, ids, 85, lengths, 2, GLEED_POOLING_LAST, values, 512, &error));
    lengths[1] = 0;
    EXPECT(GLEED_E_EMPTY, gleed_embed_texts(engine, ids, 20, lengths, 2, GLEED_POOLING_LAST, values, 512, &error));
    lengths[1] = 10;
    ids[25] = 5000;
    EXPECT(GLEED_E_TOKEN, gleed_embed_texts(engine, ids, 30, lengths, 2, GLEED_POOLING_LAST, values, 512, &error));
    ids[25] = 1;
    DO(gleed_seq_open(engine, &seq, &error));
    EXPECT(GLEED_FULL, gleed_embed_texts(engine, ids, 30, lengths, 2, GLEED_POOLING_LAST, values, 512, &error));
    DO(gleed_seq_close(engine, seq, &error));
}

static void texts_in_numbers(void)
{
    const gleed_config config = {
        .struct_size = sizeof config, .sequences = 2, .context = 64, .rows = 8, .logit_rows = 4};
    gleed_engine *engine = start_engine(model, &config);
    gleed_model_info info = {.struct_size = sizeof info};
    float mean[256], last[256], sum[256], log_probs[19], all = 0;
    const float *hidden = NULL, *logits = NULL;
    uint32_t position = 0, rows = 0, token = 0;
    size_t len = 0, i, k;
    gleed_seq seq, owner = 0;
    DO(gleed_model_describe(model, &info, &error));
    CHECK(info.hidden == 256);
    DO(gleed_seq_open(engine, &seq, &error));
    DO(gleed_embed(engine, seq, PROMPT, 20, GLEED_POOLING_MEAN, mean, 256, &error));
    DO(gleed_reset(engine, seq, &error));
    DO(gleed_embed(engine, seq, PROMPT, 20, GLEED_POOLING_LAST, last, 256, &error));
    DO(gleed_reset(engine, seq, &error));

    /* The same, row by row. */
    memset(sum, 0, sizeof sum);
    DO(gleed_queue(engine, seq, PROMPT, 20, GLEED_LOGITS_HIDDEN, &error));
    while (gleed_step(engine, NULL, &error) == GLEED_READY)
        for (i = 0; gleed_hidden(engine, i, &owner, &position, &hidden, &len, &error) == GLEED_OK; i++, rows++) {
            CHECK(owner == seq && position == rows && len == 256);
            for (k = 0; k < len; k++)
                sum[k] += hidden[k];
        }
    for (k = 0; k < 256; k++)
        CHECK(sum[k] / 20 == mean[k] && hidden[k] == last[k]);
    CHECK(rows == 20);
    many_texts(engine, mean, last);
    EXPECT(GLEED_E_NO_LOGITS, gleed_logits(engine, seq, &logits, &len, &error));
    DO(gleed_queue(engine, seq, PROMPT + 20, 3, GLEED_LOGITS_LAST_HIDDEN, &error));
    EXPECT(GLEED_READY, gleed_step(engine, NULL, &error));
    EXPECT(GLEED_E_NO_LOGITS, gleed_hidden(engine, 1, &owner, &position, &hidden, &len, &error));
    CHECK(error.needed == 1 && error.given == 1);
    DO(gleed_hidden(engine, 0, &owner, &position, &hidden, &len, &error));
    CHECK(position == 22);

    /* The prompt ends with tokens that the model itself would choose. */
    DO(gleed_reset(engine, seq, &error));
    DO(gleed_log_probs(engine, seq, PROMPT, 14, log_probs, 13, &error));
    for (i = 0; i < 13; i++)
        CHECK(log_probs[i] <= 0);
    for (i = 5; i < 13; i++)
        all += log_probs[i];
    CHECK(all > -20 && all < 0);
    DO(gleed_decode_step(engine, seq, PROMPT[14], &logits, &len, &error));
    DO(gleed_argmax(logits, len, &token, &error));
    DO(gleed_log_probs(engine, seq, &token, 1, NULL, 0, &error));
}

static void tokens_again(void)
{
    const gleed_config config = {.struct_size = sizeof config, .context = 32, .rows = 8, .window_last = 16};
    gleed_engine *engine = start_engine(model, NULL), *window = start_engine(model, &config);
    uint32_t ids[40] = {0};
    gleed_seq seq;
    size_t i;
    DO(gleed_seq_open(engine, &seq, &error));
    logits_hash(engine, seq, PROMPT, 40);
    DO(gleed_seq_tokens(engine, seq, 0, ids, 40, &error));
    CHECK(memcmp(ids, PROMPT, sizeof ids) == 0);
    DO(gleed_seq_tokens(engine, seq, 17, ids, 3, &error));
    CHECK(memcmp(ids, PROMPT + 17, 3 * sizeof *ids) == 0);
    DO(gleed_seq_tokens(engine, seq, 40, NULL, 0, &error));
    EXPECT(GLEED_E_VALUE, gleed_seq_tokens(engine, seq, 1, ids, 40, &error));
    CHECK(error.needed == 40 && error.given == 41);
    EXPECT(GLEED_E_VALUE, gleed_seq_tokens(engine, seq, SIZE_MAX, ids, 2, &error));

    /* Tokens that have left a window are gone. The error says where the window begins. */
    DO(gleed_seq_open(window, &seq, &error));
    for (i = 0; i < 3; i++)
        logits_hash(window, seq, PROMPT, 40);
    EXPECT(GLEED_E_WINDOW, gleed_seq_tokens(window, seq, 0, ids, 40, &error));
    CHECK(error.given == 0 && error.needed >= 80 && error.needed <= 104);
    i = (size_t)error.needed;
    EXPECT(GLEED_E_WINDOW, gleed_seq_tokens(window, seq, i - 1, ids, 2, &error));
    DO(gleed_seq_tokens(window, seq, i, ids, 120 - i, &error));
    CHECK(memcmp(ids, PROMPT + i - 80, (120 - i) * sizeof *ids) == 0);
}

/* Biases a text by its tokens: " Lily" is one token, "Lilyy" several, of which the last is banned behind the others. */
static void biases_of_texts(void)
{
    const gleed_tokenizer *tokenizer = start_tokenizer(model);
    gleed_sampler *sampler = start_sampler(NULL);
    static float logits[4096];
    uint32_t scratch[2000], ids[8], token = 0, i;
    uint64_t pad[4096];
    gleed_vocab_info info = {.struct_size = sizeof info};
    size_t count = 9, found = 0, len;
    DO(gleed_tokenizer_describe(tokenizer, &info, &error));
    len = info.tokens;
    CHECK(len <= COUNT(logits));
    EXPECT(GLEED_E_SCRATCH_TOO_SMALL,
           gleed_sampler_bias_text(sampler, tokenizer, " Lily", 5, -INFINITY, scratch, 3, &found, &error));
    CHECK(error.needed > 3 && error.needed <= COUNT(scratch) && found == 0);
    DO(gleed_sampler_bias_text(sampler, tokenizer, " Lily", 5, 2, scratch, 2000, &found, &error));
    CHECK(found == 1);
    DO(gleed_sample(sampler, logits, len, pad, len, &token, NULL, &error));
    CHECK(token == 387);
    DO(gleed_encode(tokenizer, "Lilyy", 5, GLEED_ENCODE_CONTINUES, scratch, 2000, ids, 8, &count, &error));
    CHECK(count > 1);
    DO(gleed_sampler_set_biases(sampler, NULL, 0, &error));
    DO(gleed_sampler_bias_text(sampler, tokenizer, "Lilyy", 5, -INFINITY, scratch, 2000, &found, &error));
    CHECK(found == 1);
    logits[ids[count - 1]] = 5;
    DO(gleed_sample(sampler, logits, len, pad, len, &token, NULL, &error));
    CHECK(token == ids[count - 1]);
    for (i = 0; i + 1 < count; i++)
        DO(gleed_sampler_accept(sampler, ids[i], &error));
    DO(gleed_sample(sampler, logits, len, pad, len, &token, NULL, &error));
    CHECK(token != ids[count - 1]);
    EXPECT(GLEED_E_VALUE, gleed_sampler_bias_text(sampler, tokenizer, "a", 1, INFINITY, scratch, 2000, &found, &error));
    EXPECT(GLEED_E_TEXT, gleed_sampler_bias_text(sampler, tokenizer, "\xff", 1, 1, scratch, 2000, &found, &error));
    CHECK(found == 1);
}

static void samplers(void)
{
    const gleed_sampler_params params = {
        .struct_size = sizeof params, .temperature = 0.8f, .top_k = 40, .top_p = 0.9f, .repetition_penalty = 1.1f, .seed = 42};
    const gleed_config config = {.struct_size = sizeof config, .context = 64};
    gleed_engine *engine = start_engine(model, &config);
    gleed_sampler *a = start_sampler(&params), *b = start_sampler(&params);
    gleed_bias bias = {0, 0};
    const float *logits = NULL;
    uint64_t scratch[4096], state;
    uint32_t token = 0, other = 0;
    float probability = 0;
    size_t len = 0, i;
    gleed_seq seq;
    DO(gleed_seq_open(engine, &seq, &error));
    DO(gleed_prefill(engine, seq, PROMPT, 5, &logits, &len, &error));
    CHECK(len <= COUNT(scratch));
    EXPECT(GLEED_E_SCRATCH_TOO_SMALL, gleed_sample(a, logits, len, scratch, len - 1, &token, NULL, &error));
    for (i = 0; i < 20; i++) {
        /* The second sampler gets the state of the first one each time. */
        DO(gleed_sampler_state(a, &state, &error));
        DO(gleed_sampler_set_state(b, state, &error));
        DO(gleed_sample(a, logits, len, scratch, len, &token, &probability, &error));
        DO(gleed_sample(b, logits, len, scratch, len, &other, NULL, &error));
        CHECK(token == other && probability > 0 && probability <= 1);
        DO(gleed_sampler_accept(a, token, &error));
        DO(gleed_sampler_accept(b, token, &error));
        DO(gleed_decode_step(engine, seq, token, &logits, &len, &error));
    }
    DO(gleed_argmax(logits, len, &token, &error));
    bias.token = token;
    bias.bias = -1000;
    a = start_sampler(NULL);
    DO(gleed_sampler_set_biases(a, &bias, 1, &error));
    DO(gleed_sample(a, logits, len, scratch, len, &other, NULL, &error));
    CHECK(other != token);
    biases_of_texts();
}

static void text(void)
{
    const gleed_tokenizer *tokenizer = start_tokenizer(model);
    const char *story = "Once upon a time, there was a dog.";
    gleed_vocab_info info = {.struct_size = sizeof info};
    gleed_detokenizer *detokenizer = NULL;
    uint32_t scratch[2000], ids[64], kind = 9, is_end = 9;
    size_t count = 0, written = 0, size, align, i, len = 0;
    char out[256];
    DO(gleed_tokenizer_describe(tokenizer, &info, &error));
    CHECK(info.bos == 1 && info.eos == 2 && info.tokens > 950 && info.max_text > 0 && info.max_text < 200);
    DO(gleed_encode(tokenizer, story, strlen(story), GLEED_ENCODE_ADD_SPECIAL, scratch, 2000, ids, 64, &count, &error));
    CHECK(count > 5 && ids[0] == info.bos && ids[1] == PROMPT[1]);
    DO(gleed_encode(tokenizer, story, strlen(story), GLEED_ENCODE_EXACT, scratch, 2000, ids + 1, 63, &written, &error));
    CHECK(written == count - 1);
    DO(gleed_unspelled(tokenizer, story, strlen(story), GLEED_ENCODE_EXACT, scratch, 2000, &written, &error));
    CHECK(written == 0);
    DO(gleed_token_kind(tokenizer, info.eos, &kind, &is_end, &error));
    CHECK(kind == GLEED_TOKEN_CONTROL && is_end == 1);
    DO(gleed_token_kind(tokenizer, 414, &kind, &is_end, &error));
    CHECK(kind == GLEED_TOKEN_NORMAL && is_end == 0);
    EXPECT(GLEED_E_TOKEN, gleed_token_kind(tokenizer, info.tokens, &kind, &is_end, &error));
    DO(gleed_vocab_find(tokenizer, "</s>", 4, &kind, &error));
    CHECK(kind == info.eos);
    DO(gleed_vocab_find(tokenizer, "\xe2\x96\x81Lily", 7, &kind, &error));
    CHECK(kind == 387);
    DO(gleed_vocab_find(tokenizer, "no such token", 13, &kind, &error));
    CHECK(kind == GLEED_NO_TOKEN);
    DO(gleed_vocab_find(tokenizer, NULL, 0, &kind, &error));
    CHECK(kind == GLEED_NO_TOKEN);
    DO(gleed_detokenizer_size(&size, &align, &error));
    DO(gleed_detokenizer_init(tokenizer, 0, aligned(size, align), size, &detokenizer, &error));
    EXPECT(GLEED_E_TOKEN, gleed_detokenize(detokenizer, tokenizer, info.tokens, out, sizeof out, &written, &error));
    EXPECT(GLEED_E_OUTPUT_TOO_SMALL, gleed_detokenize(detokenizer, tokenizer, ids[1], out, 0, &written, &error));
    for (i = 0; i < count; i++) {
        DO(gleed_detokenize(detokenizer, tokenizer, ids[i], out + len, sizeof out - len, &written, &error));
        len += written;
    }
    DO(gleed_detokenizer_finish(detokenizer, out + len, sizeof out - len, &written, &error));
    CHECK(written == 0 && len == strlen(story) && memcmp(out, story, len) == 0);
}

int main(int argc, char **argv)
{
    const uint8_t *bytes;
    size_t len;
    CHECK(argc == 2);
    bytes = read_file(argv[1], &len);
    model = open_model(bytes, len);
    plans_and_models();
    metadata(bytes, len);
    parts(bytes, len);
    selftests();
    keys_and_values();
    prefixes();
    policies();
    snapshots();
    executors();
    guesses();
    figures();
    windows_and_results();
    adapters();
    texts_in_numbers();
    tokens_again();
    samplers();
    text();
    turns();
    printf("all of it works\n");
    return 0;
}
