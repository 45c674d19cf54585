/*
 * Objects at the wrong place or time: copied somewhere else, and used from inside of a call that has not returned. Each use
 * is answered with a status and changes nothing, and the call that was disturbed ends as if it had not been.
 *
 * usage: objects MODEL
 */
#define _DEFAULT_SOURCE /* for posix_memalign */
#include "support.h"

static const uint32_t PROMPT[20] = {1,   414, 435, 261, 385, 952, 384, 281, 261, 378,
                                    428, 509, 387, 945, 320, 511, 270, 414, 435, 261};

static const gleed_model *model;
static gleed_engine *engine;
static gleed_seq seqs[3];

/* ---- Copies ------------------------------------------------------------------------------------------- */

/* The bytes of an object at another place. */
static void *moved(const void *object, size_t size, size_t align)
{
    return memcpy(aligned(size, align), object, size);
}

static void moved_readers(void)
{
    gleed_model_info info = {sizeof info, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, "", ""};
    gleed_adapter_info adapter_info = {sizeof adapter_info, 0};
    gleed_vocab_info vocab_info = {sizeof vocab_info, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    size_t size, align, len, count = 7;
    const uint8_t *file = make_adapter(4, 1, &len);
    const gleed_adapter *adapter = open_adapter(model, file, len), *copied_adapter;
    const gleed_tokenizer *tokenizer = start_tokenizer(model), *copied_tokenizer;
    const gleed_model *copied_model;
    uint32_t scratch[200], ids[8], token = 7, end = 7;
    DO(gleed_model_size(&size, &align, &error));
    copied_model = moved(model, size, align);
    EXPECT(GLEED_E_OBJECT, gleed_model_describe(copied_model, &info, &error));
    CHECK(error.needed == (uint64_t)(uintptr_t)model && error.given == (uint64_t)(uintptr_t)copied_model);
    EXPECT(GLEED_E_OBJECT, gleed_plan(copied_model, NULL, &size, &align, &error));
    EXPECT(GLEED_E_OBJECT, gleed_tokenizer_size(copied_model, &size, &align, &error));
    DO(gleed_adapter_size(&size, &align, &error));
    copied_adapter = moved(adapter, size, align);
    EXPECT(GLEED_E_OBJECT, gleed_adapter_describe(copied_adapter, &adapter_info, &error));
    EXPECT(GLEED_E_OBJECT, gleed_engine_load_adapter(engine, copied_adapter, &token, &error));
    DO(gleed_tokenizer_size(model, &size, &align, &error));
    copied_tokenizer = moved(tokenizer, size, align);
    EXPECT(GLEED_E_OBJECT, gleed_encode(copied_tokenizer, "Once", 4, 0, scratch, 200, ids, 8, &count, &error));
    EXPECT(GLEED_E_OBJECT, gleed_vocab_find(copied_tokenizer, "a", 1, &token, &error));
    EXPECT(GLEED_E_OBJECT, gleed_token_kind(copied_tokenizer, 5, &token, &end, &error));
    CHECK(info.layers == 0 && adapter_info.rank == 0 && count == 7 && token == 7 && end == 7);
    DO(gleed_model_describe(model, &info, &error));
    DO(gleed_adapter_describe(adapter, &adapter_info, &error));
    DO(gleed_tokenizer_describe(tokenizer, &vocab_info, &error));
    DO(gleed_encode(tokenizer, "Once upon a time", 16, 0, scratch, 200, ids, 8, &count, &error));
    CHECK(info.layers > 0 && adapter_info.rank == 4 && vocab_info.tokens == info.vocab && ids[0] == PROMPT[1]);
}

static void moved_streams(void)
{
    const gleed_tokenizer *tokenizer = start_tokenizer(model);
    const float logits[4] = {1, 4, 2, 3};
    gleed_sampler *sampler = start_sampler(NULL), *copied_sampler;
    gleed_detokenizer *detokenizer = NULL, *copied_detokenizer;
    uint64_t scratch[4], state = 7;
    uint32_t token = 7;
    char text[64];
    size_t size, align, written = 7;
    DO(gleed_sampler_size(&size, &align, &error));
    copied_sampler = moved(sampler, size, align);
    EXPECT(GLEED_E_OBJECT, gleed_sample(copied_sampler, logits, 4, scratch, 4, &token, NULL, &error));
    EXPECT(GLEED_E_OBJECT, gleed_sampler_accept(copied_sampler, 3, &error));
    EXPECT(GLEED_E_OBJECT, gleed_sampler_state(copied_sampler, &state, &error));
    CHECK(token == 7 && state == 7);
    DO(gleed_sample(sampler, logits, 4, scratch, 4, &token, NULL, &error));
    CHECK(token == 1);
    DO(gleed_detokenizer_size(&size, &align, &error));
    DO(gleed_detokenizer_init(tokenizer, 0, aligned(size, align), size, &detokenizer, &error));
    copied_detokenizer = moved(detokenizer, size, align);
    EXPECT(GLEED_E_OBJECT, gleed_detokenize(copied_detokenizer, tokenizer, 414, text, 64, &written, &error));
    EXPECT(GLEED_E_OBJECT, gleed_detokenizer_finish(copied_detokenizer, text, 64, &written, &error));
    CHECK(written == 7);
    DO(gleed_detokenize(detokenizer, tokenizer, 414, text, 64, &written, &error));
    CHECK(written == 4 && memcmp(text, "Once", 4) == 0);
}

static void moved_engine(const gleed_config *config)
{
    gleed_engine_info info;
    gleed_metrics metrics;
    const float *logits = NULL;
    gleed_seq seq = 7;
    gleed_engine *copied;
    size_t size, align, len = 7;
    uint64_t before = state_of(engine, seqs, 2);
    memset(&info, 0, sizeof info);
    info.struct_size = sizeof info;
    memset(&metrics, 0, sizeof metrics);
    metrics.struct_size = sizeof metrics;
    DO(gleed_plan(model, config, &size, &align, &error));
    copied = moved(engine, size, align);
    EXPECT(GLEED_E_OBJECT, gleed_seq_open(copied, &seq, &error));
    EXPECT(GLEED_E_OBJECT, gleed_prefill(copied, seqs[1], PROMPT, 3, &logits, &len, &error));
    EXPECT(GLEED_E_OBJECT, gleed_decode_step(copied, seqs[0], 5, &logits, &len, &error));
    EXPECT(GLEED_E_OBJECT, gleed_queue(copied, seqs[1], PROMPT, 3, GLEED_LOGITS_LAST, &error));
    EXPECT(GLEED_E_OBJECT, gleed_step(copied, NULL, &error));
    EXPECT(GLEED_E_OBJECT, gleed_seq_close(copied, seqs[0], &error));
    EXPECT(GLEED_E_OBJECT, gleed_engine_describe(copied, &info, &error));
    EXPECT(GLEED_E_OBJECT, gleed_engine_metrics(copied, &metrics, &error));
    EXPECT(GLEED_E_OBJECT, gleed_engine_reset_metrics(copied, &error));
    EXPECT(GLEED_E_OBJECT, gleed_set_clock(copied, NULL, NULL, &error));
    EXPECT(GLEED_E_OBJECT, gleed_snapshot_size(copied, seqs[0], NULL, &len, &error));
    EXPECT(GLEED_E_OBJECT, gleed_set_executor(copied, NULL, &error));
    CHECK(seq == 7 && logits == NULL && len == 7 && state_of(engine, seqs, 2) == before);
    DO(gleed_decode_step(engine, seqs[0], 5, &logits, &len, &error));
    DO(gleed_rewind(engine, seqs[0], 19, &error));
    DO(gleed_decode_step(engine, seqs[0], PROMPT[19], &logits, &len, &error));
    /* Bytes that come back to their place are the object again. */
    memcpy(copied, engine, size);
    memset(engine, 0, sizeof(uint64_t));
    EXPECT(GLEED_E_OBJECT, gleed_step(engine, NULL, &error));
    memcpy(engine, copied, size);
    CHECK(state_of(engine, seqs, 2) == before);
}

/* ---- Calls from inside of calls ------------------------------------------------------------------------- */

static unsigned asked;

/* Every call that changes the engine, from inside of one. */
static void change(void)
{
    const gleed_executor executor = {sizeof executor, 0, NULL, NULL};
    const float *logits = NULL;
    const float rows[4] = {0, 0, 0, 0};
    float values[256];
    gleed_seq seq = 7;
    uint32_t position = 7;
    size_t len = 7;
    asked++;
    EXPECT(GLEED_E_REENTRANT, gleed_step(engine, NULL, &error));
    EXPECT(GLEED_E_REENTRANT, gleed_queue(engine, seqs[1], PROMPT, 3, GLEED_LOGITS_LAST, &error));
    EXPECT(GLEED_E_REENTRANT, gleed_cancel(engine, seqs[0], &error));
    EXPECT(GLEED_E_REENTRANT, gleed_prefill(engine, seqs[1], PROMPT, 3, &logits, &len, &error));
    EXPECT(GLEED_E_REENTRANT, gleed_prefill_prompt(engine, seqs[1], PROMPT, 3, &logits, &len, &error));
    EXPECT(GLEED_E_REENTRANT, gleed_decode_step(engine, seqs[1], 3, &logits, &len, &error));
    EXPECT(GLEED_E_REENTRANT, gleed_embed(engine, seqs[1], PROMPT, 3, GLEED_POOLING_LAST, values, 256, &error));
    EXPECT(GLEED_E_REENTRANT, gleed_log_probs(engine, seqs[1], PROMPT, 3, values, 2, &error));
    EXPECT(GLEED_E_REENTRANT, gleed_hidden(engine, 0, &seq, &position, &logits, &len, &error));
    EXPECT(GLEED_E_REENTRANT, gleed_seq_open(engine, &seq, &error));
    EXPECT(GLEED_E_REENTRANT, gleed_seq_close(engine, seqs[1], &error));
    EXPECT(GLEED_E_REENTRANT, gleed_reset(engine, seqs[1], &error));
    EXPECT(GLEED_E_REENTRANT, gleed_rewind(engine, seqs[1], 0, &error));
    EXPECT(GLEED_E_REENTRANT, gleed_fork(engine, seqs[1], 0, &seq, &error));
    EXPECT(GLEED_E_REENTRANT, gleed_reuse(engine, seqs[1], PROMPT, 3, &len, &error));
    EXPECT(GLEED_E_REENTRANT, gleed_pin(engine, PROMPT, 3, &len, &error));
    EXPECT(GLEED_E_REENTRANT, gleed_unpin(engine, PROMPT, 3, &len, &error));
    EXPECT(GLEED_E_REENTRANT, gleed_make_room(engine, seqs[1], 3, NULL, NULL, &len, &error));
    EXPECT(GLEED_E_REENTRANT, gleed_restore(engine, NULL, (const uint8_t *)"GLDS", 4, &seq, &error));
    EXPECT(GLEED_E_REENTRANT, gleed_set_executor(engine, &executor, &error));
    EXPECT(GLEED_E_REENTRANT, gleed_set_executor(engine, NULL, &error));
    EXPECT(GLEED_E_REENTRANT, gleed_set_clock(engine, NULL, NULL, &error));
    EXPECT(GLEED_E_REENTRANT, gleed_engine_reset_metrics(engine, &error));
    EXPECT(GLEED_E_REENTRANT, gleed_set_cache_policy(engine, NULL, &error));
    EXPECT(GLEED_E_REENTRANT, gleed_set_prefill(engine, seqs[1], 0, rows, rows, 4, &error));
    EXPECT(GLEED_E_REENTRANT, gleed_push_row(engine, seqs[1], 0, rows, rows, 4, &error));
    EXPECT(GLEED_E_REENTRANT, gleed_set_prefill_batch(engine, &seqs[1], 1, 0, rows, rows, 4, &error));
    EXPECT(GLEED_E_REENTRANT, gleed_append_rows(engine, &seqs[1], &len, 1, 0, rows, rows, 4, &error));
    EXPECT(GLEED_E_REENTRANT, gleed_prefill_at(engine, seqs[1], 0, PROMPT, 3, &logits, &len, &error));
    EXPECT(GLEED_E_REENTRANT, gleed_queue_at(engine, seqs[1], 0, PROMPT, 3, GLEED_LOGITS_LAST, &error));
    EXPECT(GLEED_E_REENTRANT, gleed_seq_set_adapter(engine, seqs[1], 0, 1, &error));
    CHECK(seq == 7 && position == 7 && len == 7 && logits == NULL);
}

/* Those that only look, where another call changes it. */
static void look(void)
{
    gleed_seq_info info = {sizeof info, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    const float *logits = NULL;
    uint32_t id = 7;
    size_t len = 7;
    change();
    EXPECT(GLEED_E_REENTRANT, gleed_seq_describe(engine, seqs[0], &info, &error));
    EXPECT(GLEED_E_REENTRANT, gleed_logits(engine, seqs[0], &logits, &len, &error));
    EXPECT(GLEED_E_REENTRANT, gleed_can_extend(engine, seqs[0], 1, &error));
    EXPECT(GLEED_E_REENTRANT, gleed_seq_tokens(engine, seqs[0], 0, &id, 1, &error));
    EXPECT(GLEED_E_REENTRANT, gleed_snapshot_size(engine, seqs[0], NULL, &len, &error));
    CHECK(info.tokens == 0 && len == 7 && id == 7 && logits == NULL);
}

static uint64_t clock_that_asks(void *ctx)
{
    if ((*(unsigned *)ctx)++ % 16 == 0)
        look();
    return 0;
}

static void loop_that_asks(void *ctx, uint32_t n, gleed_body body, void *arg)
{
    uint32_t i;
    if ((*(unsigned *)ctx)++ % 16 == 0)
        look();
    for (i = 0; i < n; i++)
        body(arg, i);
}

static int32_t consent_that_asks(void *ctx, gleed_seq seq, const gleed_seq_info *info)
{
    (void)ctx;
    (void)info;
    look();
    return seq != seqs[0];
}

static int32_t sink_that_asks(void *ctx, const uint8_t *bytes, size_t len)
{
    gleed_seq_info info = {sizeof info, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    uint64_t *hash = ctx;
    *hash = fnv(*hash, bytes, len);
    change();
    /* A call that only looks does not disturb one that only looks. */
    DO(gleed_seq_describe(engine, seqs[0], &info, &error));
    CHECK(info.tokens == 20);
    return 0;
}

struct stream {
    const uint8_t *bytes;
    size_t left;
};

static size_t source_that_asks(void *ctx, uint8_t *bytes, size_t len)
{
    struct stream *stream = ctx;
    size_t count = len < stream->left ? len : stream->left;
    look();
    memcpy(bytes, stream->bytes, count);
    stream->bytes += count;
    stream->left -= count;
    return count;
}

static uint64_t next_logits(const gleed_budget *budget)
{
    const float *logits = NULL;
    const uint32_t token = 5;
    size_t len = 0;
    uint64_t hash;
    DO(gleed_queue(engine, seqs[0], &token, 1, GLEED_LOGITS_LAST, &error));
    EXPECT(GLEED_READY, gleed_step(engine, budget, &error));
    DO(gleed_logits(engine, seqs[0], &logits, &len, &error));
    hash = fnv(START, logits, len * sizeof *logits);
    DO(gleed_rewind(engine, seqs[0], 20, &error));
    return hash;
}

static void calls_from_callbacks(void)
{
    unsigned count = 0;
    gleed_budget budget = {sizeof budget, 0, 0, UINT64_MAX, clock_that_asks, NULL, NULL};
    const gleed_executor executor = {sizeof executor, 0, loop_that_asks, NULL};
    gleed_executor loop = executor;
    uint64_t expected = next_logits(NULL), hash = START, written = 0;
    uint8_t *bytes;
    struct stream stream;
    gleed_seq restored = 7;
    size_t size = 0, closed = 7;
    budget.clock_ctx = &count;
    CHECK(next_logits(&budget) == expected && asked > 0);

    asked = 0;
    count = 0;
    DO(gleed_set_clock(engine, clock_that_asks, &count, &error));
    CHECK(next_logits(NULL) == expected && asked > 0);
    DO(gleed_set_clock(engine, NULL, NULL, &error));

    asked = 0;
    loop.ctx = &count;
    DO(gleed_set_executor(engine, &loop, &error));
    CHECK(next_logits(NULL) == expected && asked > 0);
    DO(gleed_set_executor(engine, NULL, &error));

    asked = 0;
    DO(gleed_snapshot_size(engine, seqs[0], NULL, &size, &error));
    CHECK((bytes = malloc(size)) != NULL);
    DO(gleed_snapshot(engine, seqs[0], NULL, bytes, size, &size, &error));
    DO(gleed_snapshot_write(engine, seqs[0], NULL, sink_that_asks, &hash, &written, &error));
    CHECK(asked > 0 && written == size && hash == fnv(START, bytes, size));

    asked = 0;
    stream.bytes = bytes;
    stream.left = size;
    DO(gleed_snapshot_read(engine, NULL, source_that_asks, &stream, &restored, NULL, &error));
    CHECK(asked > 0 && contents(engine, restored) == contents(engine, seqs[0]));
    seqs[2] = restored;
    CHECK(next_logits(NULL) == expected && asked > 0);

    /* Blocks for one more sequence are there only without the restored one. */
    asked = 0;
    EXPECT(GLEED_FULL, gleed_can_extend(engine, seqs[1], 64, &error));
    DO(gleed_make_room(engine, seqs[1], 64, consent_that_asks, NULL, &closed, &error));
    CHECK(asked > 0 && closed == 1);
    EXPECT(GLEED_E_SEQUENCE, gleed_seq_close(engine, seqs[2], &error));
    CHECK(next_logits(NULL) == expected);
    free(bytes);
}

/* No handle is 0, also after its place has had more sequences than there are numbers for them. */
static void handles(void)
{
    gleed_config config = {sizeof config, 1, 32, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    gleed_engine *other = start_engine(model, &config);
    gleed_seq first = 0, seq = 0;
    uint32_t i;
    DO(gleed_seq_open(other, &first, &error));
    CHECK(first != 0);
    seq = first;
    for (i = 0; i < 65534; i++) {
        DO(gleed_seq_close(other, seq, &error));
        DO(gleed_seq_open(other, &seq, &error));
        CHECK(seq != 0 && seq != first);
    }
    EXPECT(GLEED_E_SEQUENCE, gleed_reset(other, 0, &error));
    DO(gleed_seq_close(other, seq, &error));
    DO(gleed_seq_open(other, &seq, &error));
    CHECK(seq == first);
}

int main(int argc, char **argv)
{
    gleed_config config = {sizeof config, 3, 64, 8, 0, 0, 6, 0, 0, 0, 0, 1, 0, 1, 4, 0, 0};
    const float *logits = NULL;
    const uint8_t *file;
    size_t file_len, len = 0;
    CHECK(argc == 2);
    file = read_file(argv[1], &file_len);
    model = open_model(file, file_len);
    engine = start_engine(model, &config);
    DO(gleed_seq_open(engine, &seqs[0], &error));
    DO(gleed_seq_open(engine, &seqs[1], &error));
    DO(gleed_prefill(engine, seqs[0], PROMPT, 20, &logits, &len, &error));
    moved_readers();
    moved_streams();
    moved_engine(&config);
    calls_from_callbacks();
    handles();
    printf("every object was where and when it was used\n");
    return 0;
}
