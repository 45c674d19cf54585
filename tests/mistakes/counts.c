/*
 * Counts that lie: a short array, and a length of 4 billion. What an engine, a tokenizer or a sampler can never take is
 * refused by its number before any of it is read. Each array ends where a page begins that must not be touched.
 *
 * usage: counts MODEL
 */
#define _DEFAULT_SOURCE /* for mmap and posix_memalign */
#include <sys/mman.h>
#include <unistd.h>

#include "support.h"

#define CONTEXT 64
#define LENGTH 40

static const gleed_model *model;
static gleed_engine *engine;
static gleed_seq seqs[2]; /* one of LENGTH tokens, an empty one */
static uint64_t before;

/* A copy at the end of a page: whatever reads past it does not survive. */
static const void *at_an_edge(const void *bytes, size_t len)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uint8_t *start = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(start != MAP_FAILED && len <= page);
    CHECK(mprotect(start + page, page, PROT_NONE) == 0);
    memcpy(start + page - len, bytes, len);
    return start + page - len;
}

static void begin(const gleed_config *config)
{
    uint32_t tokens[LENGTH];
    const float *logits = NULL;
    size_t len = 0, i;
    for (i = 0; i < LENGTH; i++)
        tokens[i] = (uint32_t)i + 3;
    engine = start_engine(model, config);
    DO(gleed_seq_open(engine, &seqs[0], &error));
    DO(gleed_seq_open(engine, &seqs[1], &error));
    DO(gleed_prefill(engine, seqs[0], tokens, LENGTH, &logits, &len, &error));
}

/* The kind off has no snapshots to compare: its numbers and logits do. */
static size_t compared;

#define REFUSED(status, most, count, call)                          \
    do {                                                             \
        EXPECT(status, call);                                        \
        CHECK(error.needed == (most) && error.given == (count));     \
        CHECK(state_of(engine, seqs, compared) == before);           \
    } while (0)

static const size_t WRONG[] = {CONTEXT + 1, 1000, UINT32_MAX - 1, UINT32_MAX};

/* Every call that takes tokens, on an engine with a context of CONTEXT. */
static void tokens_past_the_context(uint32_t kind, uint32_t prefix_cache)
{
    gleed_config config = {sizeof config, 2, CONTEXT, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    const uint32_t three[3] = {1, 414, 435};
    const uint32_t *tokens = at_an_edge(three, sizeof three);
    const float *logits = NULL;
    float values[256];
    size_t len = 7, i, used;
    config.kv_kind = kind;
    config.prefix_cache = prefix_cache;
    begin(&config);
    compared = kind == GLEED_KV_OFF ? 0 : 2;
    before = state_of(engine, seqs, compared);
    for (i = 0; i < COUNT(WRONG); i++) {
        size_t count = WRONG[i];
        int s;
        for (s = 0; s < 2; s++) {
            used = s == 0 ? LENGTH + count : count;
            REFUSED(GLEED_E_CONTEXT, CONTEXT, used, gleed_prefill(engine, seqs[s], tokens, count, &logits, &len, &error));
            REFUSED(GLEED_E_CONTEXT, CONTEXT, used, gleed_queue(engine, seqs[s], tokens, count, GLEED_LOGITS_ALL, &error));
            REFUSED(GLEED_E_CONTEXT, CONTEXT, used,
                     gleed_embed(engine, seqs[s], tokens, count, GLEED_POOLING_MEAN, values, 256, &error));
            REFUSED(GLEED_E_CONTEXT, CONTEXT, used,
                     gleed_log_probs(engine, seqs[s], tokens, count, values, count - 1, &error));
        }
        REFUSED(GLEED_E_CONTEXT, CONTEXT, count, gleed_prefill_prompt(engine, seqs[1], tokens, count, &logits, &len, &error));
        REFUSED(GLEED_E_POSITION, 0, LENGTH, gleed_prefill_prompt(engine, seqs[0], tokens, count, &logits, &len, &error));
        REFUSED(GLEED_E_CONTEXT, CONTEXT, count, gleed_reuse(engine, seqs[1], tokens, count, &len, &error));
        REFUSED(GLEED_E_CONTEXT, CONTEXT, count, gleed_pin(engine, tokens, count, &len, &error));
        REFUSED(GLEED_E_CONTEXT, CONTEXT, count, gleed_unpin(engine, tokens, count, &len, &error));
    }
    CHECK(logits == NULL && len == 7);
    /* What fits exactly is taken. */
    {
        uint32_t whole[CONTEXT];
        for (i = 0; i < CONTEXT; i++)
            whole[i] = (uint32_t)i + 3;
        DO(gleed_prefill(engine, seqs[0], whole, CONTEXT - LENGTH, &logits, &len, &error));
        DO(gleed_prefill_prompt(engine, seqs[1], whole, CONTEXT, &logits, &len, &error));
        DO(gleed_pin(engine, whole, CONTEXT, &len, &error));
        DO(gleed_unpin(engine, whole, CONTEXT, &len, &error));
        DO(gleed_reset(engine, seqs[1], &error));
        DO(gleed_reuse(engine, seqs[1], whole, CONTEXT, &len, &error));
    }
}

/* With a window sequences go on without end: only what passes 32 bits, or the window's blocks at a time, is too much. */
static void tokens_past_a_window(void)
{
    gleed_config config = {sizeof config, 2, CONTEXT, 8, 0, 0, 0, 0, 0, 32, 0, 0, 0, 0, 0, 0, 0};
    uint32_t many[300];
    const uint32_t *tokens;
    const float *logits = NULL;
    float values[256];
    size_t len = 7, i;
    for (i = 0; i < COUNT(many); i++)
        many[i] = (uint32_t)i % 200 + 3;
    tokens = at_an_edge(many, 3 * sizeof *many);
    begin(&config);
    before = state_of(engine, seqs, 2);
    compared = 2;
    REFUSED(GLEED_E_CONTEXT, UINT32_MAX, (uint64_t)UINT32_MAX + LENGTH,
             gleed_prefill(engine, seqs[0], tokens, UINT32_MAX, &logits, &len, &error));
    REFUSED(GLEED_E_CONTEXT, UINT32_MAX, (uint64_t)UINT32_MAX + 1,
             gleed_prefill(engine, seqs[1], tokens, (size_t)UINT32_MAX + 1, &logits, &len, &error));
    REFUSED(GLEED_E_CONTEXT, UINT32_MAX, (uint64_t)UINT32_MAX + LENGTH,
             gleed_embed(engine, seqs[0], tokens, UINT32_MAX, GLEED_POOLING_MEAN, values, 256, &error));
    REFUSED(GLEED_E_CONTEXT, UINT32_MAX, (uint64_t)UINT32_MAX + LENGTH,
             gleed_log_probs(engine, seqs[0], tokens, UINT32_MAX, values, UINT32_MAX - 1, &error));
    REFUSED(GLEED_E_CONTEXT, UINT32_MAX, (uint64_t)UINT32_MAX + 1,
             gleed_prefill_prompt(engine, seqs[1], tokens, (size_t)UINT32_MAX + 1, &logits, &len, &error));
    EXPECT(GLEED_E_TOO_MANY, gleed_queue(engine, seqs[1], tokens, UINT32_MAX, GLEED_LOGITS_LAST, &error));
    CHECK(error.given == UINT32_MAX && error.needed < 1000);
    EXPECT(GLEED_E_TOO_MANY, gleed_queue(engine, seqs[1], tokens, 1000, GLEED_LOGITS_LAST, &error));
    CHECK(logits == NULL && len == 7 && state_of(engine, seqs, 2) == before);
    /* More than the context at a time is no mistake here. */
    DO(gleed_prefill(engine, seqs[1], many, COUNT(many), &logits, &len, &error));
}

/* More tokens than the pool has blocks for are refused without a look at them, too. */
static void tokens_past_the_pool(void)
{
    const gleed_config config = {sizeof config, 2, 1000, 8, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    const uint32_t three[3] = {1, 414, 435};
    const uint32_t *tokens = at_an_edge(three, sizeof three);
    const float *logits = NULL;
    size_t len = 7;
    begin(&config);
    before = state_of(engine, seqs, 2);
    EXPECT(GLEED_FULL, gleed_prefill(engine, seqs[1], tokens, 900, &logits, &len, &error));
    EXPECT(GLEED_FULL, gleed_queue(engine, seqs[1], tokens, 900, GLEED_LOGITS_LAST, &error));
    CHECK(state_of(engine, seqs, 2) == before);
}

static void other_arrays(void)
{
    const gleed_config config = {sizeof config, 2, CONTEXT, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    const gleed_tokenizer *tokenizer = start_tokenizer(model);
    gleed_sampler *sampler = start_sampler(NULL);
    const gleed_bias one = {5, 1.0f};
    const gleed_bias *biases = at_an_edge(&one, sizeof one);
    const char *text = at_an_edge("ab", 2);
    const gleed_message said = {GLEED_ROLE_USER, 0, text, (size_t)1 << 28 | 1};
    const gleed_message *messages = at_an_edge(&said, sizeof said);
    const gleed_part part = {(const uint8_t *)text, 2};
    const gleed_part *parts = at_an_edge(&part, sizeof part);
    const float *rows;
    const gleed_model *none = NULL;
    uint32_t scratch[64], ids[8], token = 7;
    uint64_t memory[64], words[4];
    const char *found = NULL;
    float zeros[4] = {0, 0, 0, 0};
    size_t count = 7, size, align;
    gleed_model_info info = {sizeof info, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, "", ""};
    gleed_snapshot_options options = {sizeof options, 0, (const uint8_t *)text, UINT32_MAX, 0, 0};
    begin(&config);
    before = state_of(engine, seqs, 2);
    compared = 2;
    REFUSED(GLEED_E_VALUE, 64, UINT32_MAX, gleed_sampler_set_biases(sampler, biases, UINT32_MAX, &error));
    REFUSED(GLEED_E_VALUE, 64, 65, gleed_sampler_set_biases(sampler, biases, 65, &error));
    REFUSED(GLEED_E_TEXT_TOO_LONG, 1 << 28, UINT32_MAX,
             gleed_encode(tokenizer, text, UINT32_MAX, 0, scratch, 64, ids, 8, &count, &error));
    REFUSED(GLEED_E_TEXT_TOO_LONG, 1 << 28, said.text_len,
             gleed_turns_encode(tokenizer, 0, 0, messages, 1, 0, scratch, 64, ids, 8, &count, &error));
    CHECK(error.at == 0);
    REFUSED(GLEED_E_TEXT_TOO_LONG, 1 << 28, UINT32_MAX,
             gleed_turns_encode(tokenizer, 0, 0, messages, UINT32_MAX, 0, scratch, 64, ids, 8, &count, &error));
    DO(gleed_vocab_find(tokenizer, text, UINT32_MAX, &token, &error));
    CHECK(token == GLEED_NO_TOKEN);
    token = 7;
    DO(gleed_turns_named(text, UINT32_MAX, &token, &error));
    CHECK(token == GLEED_NO_TURNS);
    EXPECT(GLEED_E_MODEL_KEY_MISSING, gleed_model_string(model, text, UINT32_MAX, &found, &count, &error));
    DO(gleed_model_split_size(UINT32_MAX, &size, &align, &error));
    REFUSED(GLEED_E_MEMORY_TOO_SMALL, size, sizeof memory,
             gleed_model_open_split(parts, UINT32_MAX, memory, sizeof memory, &none, &error));
    /* The scratch says how many logits there can be. */
    REFUSED(GLEED_E_SCRATCH_TOO_SMALL, UINT32_MAX, 4,
             gleed_sample(sampler, at_an_edge(zeros, sizeof zeros), UINT32_MAX, words, 4, &token, NULL, &error));
    REFUSED(GLEED_E_VALUE, 256, UINT32_MAX, gleed_snapshot_size(engine, seqs[0], &options, &size, &error));
    EXPECT(GLEED_E_VALUE, gleed_seq_tokens(engine, seqs[0], 0, ids, UINT32_MAX, &error));
    /* Keys and values: a multiple of a row, more of them than the context. */
    DO(gleed_model_describe(model, &info, &error));
    count = (size_t)info.kv_heads * info.head_dim;
    rows = at_an_edge(zeros, sizeof zeros);
    REFUSED(GLEED_E_CONTEXT, CONTEXT, 1 << 24, gleed_set_prefill(engine, seqs[1], 0, rows, rows, count << 24, &error));
    EXPECT(GLEED_E_SHAPE, gleed_push_row(engine, seqs[1], 0, rows, rows, count << 24, &error));
    REFUSED(GLEED_E_CONTEXT, CONTEXT, 1 << 24,
             gleed_set_prefill_batch(engine, &seqs[1], 1, 0, rows, rows, count << 24, &error));
    size = 0;
    REFUSED(GLEED_E_CONTEXT, CONTEXT, 1 << 24,
             gleed_append_rows(engine, &seqs[1], &size, 1, 0, rows, rows, count << 24, &error));
    /* More sequences than the engine has. */
    EXPECT(GLEED_E_VALUE, gleed_set_prefill_batch(engine, at_an_edge(zeros, sizeof zeros), 1 << 24, 0, rows, rows, 0, &error));
    EXPECT(GLEED_E_VALUE, gleed_append_rows(engine, at_an_edge(zeros, sizeof zeros), at_an_edge(zeros, sizeof zeros),
                                            1 << 24, 0, rows, rows, 0, &error));
    CHECK(none == NULL && found == NULL && token == GLEED_NO_TURNS && state_of(engine, seqs, 2) == before);
}

int main(int argc, char **argv)
{
    size_t file_len;
    const uint8_t *file;
    CHECK(argc == 2);
    file = read_file(argv[1], &file_len);
    model = open_model(file, file_len);
    tokens_past_the_context(GLEED_KV_PAGED, 0);
    tokens_past_the_context(GLEED_KV_PAGED, 1);
    tokens_past_the_context(GLEED_KV_BASIC, 0);
    tokens_past_the_context(GLEED_KV_OFF, 0);
    tokens_past_a_window();
    tokens_past_the_pool();
    other_arrays();
    printf("every count was refused before anything was read\n");
    return 0;
}
