/*
 * Texts under a grammar: four that the model writes under a schema, with everything that can be done to a matcher; stop strings
 * and calls of tools; and the mistakes that programs make with them.
 *
 * usage: structured MODEL
 */
#define _POSIX_C_SOURCE 200112L /* for posix_memalign */
#include "support.h"

static const char *SCHEMA = "{\"type\":\"object\",\"properties\":{\"mood\":{\"enum\":[\"calm\",\"angry\",\"sad\"]},"
                            "\"line\":{\"type\":\"string\",\"maxLength\":60},\"gold\":{\"type\":\"integer\",\"minimum\":0,"
                            "\"maximum\":20}},\"required\":[\"mood\",\"line\",\"gold\"],\"additionalProperties\":false}";

static const gleed_model *model;
static const gleed_tokenizer *tokenizer;
static const gleed_trie *trie;
static uint32_t *mask, *mask_again;
static size_t mask_len;

/* A hash of a matcher's snapshot. */
static uint64_t hash_of(const gleed_matcher *matcher)
{
    uint8_t bytes[4096];
    size_t size = 0, written = 0;
    DO(gleed_matcher_snapshot_size(matcher, &size, &error));
    CHECK(size <= sizeof bytes);
    EXPECT(GLEED_E_SNAPSHOT_BUFFER, gleed_matcher_snapshot(matcher, bytes, size - 1, &written, &error));
    CHECK(error.needed == size && error.given == size - 1);
    DO(gleed_matcher_snapshot(matcher, bytes, size, &written, &error));
    CHECK(written == size);
    return fnv(START, bytes, size);
}

/* The mask in steps must be that at once; and that of a copy, and of the state after tokens were taken back. */
static void make_mask(gleed_matcher *matcher, void *memory, size_t size)
{
    gleed_matcher *fork = NULL;
    gleed_status status;
    DO(gleed_matcher_mask(matcher, trie, 0, GLEED_MASK_ENDS, mask, mask_len, &error));
    do {
        status = gleed_matcher_mask(matcher, trie, 1, GLEED_MASK_ENDS, mask_again, mask_len, &error);
    } while (status == GLEED_YIELDED);
    CHECK(status == GLEED_OK && memcmp(mask, mask_again, mask_len * sizeof *mask) == 0);
    DO(gleed_matcher_fork(matcher, memory, size, &fork, &error));
    CHECK(hash_of(fork) == hash_of(matcher));
    DO(gleed_matcher_mask(fork, trie, 0, GLEED_MASK_ENDS, mask_again, mask_len, &error));
    CHECK(memcmp(mask, mask_again, mask_len * sizeof *mask) == 0);
}

/* An answer of the model. */
static void answer(const gleed_grammar *grammar, uint64_t seed)
{
    const gleed_config config = {sizeof config, 1, 256, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    const gleed_sampler_params params = {sizeof params, 0, 1, 0, 0, 0, 0, 0, 0, 0, seed};
    const char *prompt = "Once upon a time";
    gleed_engine *engine = start_engine(model, &config);
    gleed_sampler *sampler = start_sampler(&params);
    gleed_matcher *matcher = start_matcher(grammar, NULL);
    gleed_detokenizer *detokenizer = NULL;
    uint32_t scratch[2000], ids[32], token = 0, kind, is_end = 0, accepted = 0;
    uint64_t hash, *pad = NULL;
    const float *logits = NULL;
    char text[512];
    size_t count = 0, len = 0, size, align, written = 0, text_len = 0, kept = 0, i;
    void *memory;
    gleed_seq seq;
    DO(gleed_matcher_plan(&size, &align, NULL, &error));
    memory = aligned(size, align);
    DO(gleed_detokenizer_size(&written, &align, &error));
    DO(gleed_detokenizer_init(tokenizer, GLEED_DECODE_CONTINUES, aligned(written, align), written, &detokenizer, &error));
    DO(gleed_encode(tokenizer, prompt, strlen(prompt), GLEED_ENCODE_ADD_SPECIAL, scratch, 2000, ids, 32, &count, &error));
    DO(gleed_seq_open(engine, &seq, &error));
    DO(gleed_prefill(engine, seq, ids, count, &logits, &len, &error));
    CHECK((pad = malloc(len * sizeof *pad)) != NULL);
    for (i = 0; i < 200; i++) {
        make_mask(matcher, memory, size);
        DO(gleed_sample_masked(sampler, logits, len, mask, mask_len, pad, len, &token, NULL, &error));
        CHECK(mask[token / 32] >> (token % 32) & 1);
        DO(gleed_token_kind(tokenizer, token, &kind, &is_end, &error));
        if (is_end)
            break;
        hash = hash_of(matcher);
        DO(gleed_matcher_accept(matcher, tokenizer, token, &accepted, &error));
        CHECK(accepted == 1 && hash_of(matcher) != hash);
        DO(gleed_matcher_rewindable(matcher, &kept, &error));
        CHECK(kept > 0);
        DO(gleed_matcher_rewind(matcher, 1, &error));
        CHECK(hash_of(matcher) == hash);
        DO(gleed_matcher_accept(matcher, tokenizer, token, &accepted, &error));
        DO(gleed_detokenize(detokenizer, tokenizer, token, text + text_len, sizeof text - text_len, &written, &error));
        text_len += written;
        DO(gleed_decode_step(engine, seq, token, &logits, &len, &error));
    }
    DO(gleed_matcher_is_end(matcher, &is_end, &error));
    CHECK(is_end == 1);
    printf("%.*s\n", (int)text_len, text);
    free(pad);
}

static void grammars(void)
{
    const gleed_grammar_options regex = {sizeof regex, GLEED_GRAMMAR_REGEX, 0, 0, 0, 0, NULL, 0, 0, 0, 0, 0, NULL, 0, NULL};
    const gleed_grammar_options gbnf = {sizeof gbnf, GLEED_GRAMMAR_GBNF, 0, 0, 0, 0, NULL, 0, 0, 0, 0, 0, NULL, 0, NULL};
    const gleed_grammar_options closing = {sizeof closing, GLEED_GRAMMAR_REGEX, 0, GLEED_GRAMMAR_CLOSE, 0, 0, NULL, 0, 0, 0, 0, 0, NULL, 0, NULL};
    const gleed_grammar_options ignoring = {sizeof ignoring, 0, 0, 0, 0, 0, " not  if ", 9, 0, 0, 0, 0, NULL, 0, NULL};
    const gleed_grammar_options wrong[] = {{sizeof wrong[0], 4, 0, 0, 0, 0, NULL, 0, 0, 0, 0, 0, NULL, 0, NULL}, {sizeof wrong[0], 0, 4, 0, 0, 0, NULL, 0, 0, 0, 0, 0, NULL, 0, NULL},
                                           {sizeof wrong[0], 0, 0, 16, 0, 0, NULL, 0, 0, 0, 0, 0, NULL, 0, NULL}, {sizeof wrong[0], 0, 0, 0, 0, 1, NULL, 0, 0, 0, 0, 0, NULL, 0, NULL}};
    const gleed_matcher_limits small = {sizeof small, 8, 16, 4, 10, 0}, odd = {sizeof odd, 0, 0, 0, 0, 1};
    static uint32_t scratch[1 << 19];
    gleed_matcher *matcher, *other, *deep;
    uint8_t bytes[1024], again[1024];
    char forced[16];
    size_t size = 0, align = 1, taken = 9, written = 0, other_len = 0, i;
    uint32_t accepted = 9, is_end = 0, ids[4];
    uint64_t before;

    EXPECT(GLEED_E_GRAMMAR_UNSUPPORTED, gleed_grammar_plan("{\"not\":{}}", 10, scratch, 1 << 19, &size, &align, NULL, &error));
    CHECK(error.at == 1 && strstr(error.text, "not") != NULL && size == 0);
    EXPECT(GLEED_E_GRAMMAR, gleed_grammar_plan("{", 1, scratch, 1 << 19, &size, &align, NULL, &error));
    EXPECT(GLEED_E_GRAMMAR_VALUE, gleed_grammar_plan("{\"enum\":[]}", 11, scratch, 1 << 19, &size, &align, NULL, &error));
    EXPECT(GLEED_E_GRAMMAR_EMPTY, gleed_grammar_plan("false", 5, scratch, 1 << 19, &size, &align, NULL, &error));
    EXPECT(GLEED_E_GRAMMAR_RECURSION, gleed_grammar_plan("root ::= root \"a\" | \"b\"", 23, scratch, 1 << 19, &size, &align, &gbnf, &error));
    EXPECT(GLEED_E_GRAMMAR_STATES, gleed_grammar_plan("{\"multipleOf\":1234567}", 22, scratch, 1 << 19, &size, &align, NULL, &error));
    DO(gleed_grammar_plan("{\"not\":{}}", 10, scratch, 1 << 19, &size, &align, &ignoring, &error));
    for (i = 0; i < COUNT(wrong); i++)
        EXPECT(GLEED_E_VALUE, gleed_grammar_plan("{}", 2, scratch, 1 << 19, &size, &align, &wrong[i], &error));
    EXPECT(GLEED_E_VALUE, gleed_matcher_plan(&size, &align, &odd, &error));

    matcher = start_matcher(start_grammar("(yes|no)!", &regex), NULL);
    other = start_matcher(start_grammar("root ::= (\"(\" root \")\")?", &gbnf), NULL);
    DO(gleed_matcher_accept_text(matcher, "yes?", 4, &taken, &error));
    CHECK(taken == 3);
    before = hash_of(matcher);
    DO(gleed_matcher_forced(matcher, forced, sizeof forced, &written, &error));
    CHECK(written == 1 && forced[0] == '!' && hash_of(matcher) == before);
    DO(gleed_matcher_accept(matcher, tokenizer, 414, &accepted, &error));
    CHECK(accepted == 0 && hash_of(matcher) == before);
    EXPECT(GLEED_E_SCRATCH_TOO_SMALL, gleed_matcher_forced_tokens(matcher, tokenizer, trie, scratch, 9, ids, 4, &taken, &error));
    i = error.needed;
    CHECK(error.given == 9 && i < 1 << 19 && taken == 3 && hash_of(matcher) == before);
    DO(gleed_matcher_forced_tokens(matcher, tokenizer, trie, scratch, i, ids, 4, &taken, &error));
    CHECK(taken == 1 && hash_of(matcher) == before);
    EXPECT(GLEED_E_NOT_REWINDABLE, gleed_matcher_rewind(matcher, 1, &error));
    CHECK(error.needed == 0 && error.given == 1);
    EXPECT(GLEED_E_SHAPE, gleed_matcher_mask(matcher, trie, 0, 0, mask, mask_len - 1, &error));
    EXPECT(GLEED_E_VALUE, gleed_matcher_mask(matcher, trie, 0, 2, mask, mask_len, &error));

    /* Snapshots: of another grammar, damaged, too deep. */
    DO(gleed_matcher_snapshot(matcher, bytes, sizeof bytes, &written, &error));
    DO(gleed_matcher_accept_text(other, "(((((((", 7, &taken, &error));
    DO(gleed_matcher_snapshot(other, again, sizeof again, &other_len, &error));
    EXPECT(GLEED_E_SNAPSHOT_GRAMMAR, gleed_matcher_restore(other, bytes, written, &error));
    for (i = 0; i < written; i++) {
        bytes[i] ^= 4;
        EXPECT(i < 8 ? GLEED_E_SNAPSHOT_MAGIC : i < 12 ? GLEED_E_SNAPSHOT_VERSION : GLEED_E_SNAPSHOT,
               gleed_matcher_restore(matcher, bytes, written, &error));
        bytes[i] ^= 4;
        EXPECT(i < 8 ? GLEED_E_SNAPSHOT_MAGIC : GLEED_E_SNAPSHOT, gleed_matcher_restore(matcher, bytes, i, &error));
        CHECK(hash_of(matcher) == before);
    }
    DO(gleed_matcher_reset(matcher, &error));
    CHECK(hash_of(matcher) != before);
    DO(gleed_matcher_restore(matcher, bytes, written, &error));
    CHECK(hash_of(matcher) == before);
    deep = start_matcher(start_grammar("root ::= (\"(\" root \")\")?", &gbnf), &small);
    EXPECT(GLEED_E_NESTED, gleed_matcher_restore(deep, again, other_len, &error));
    EXPECT(GLEED_E_NESTED, gleed_matcher_accept_text(deep, "(((((((", 7, &taken, &error));
    CHECK(error.needed == 4);

    /* A text that ends in time. */
    EXPECT(GLEED_E_VALUE, gleed_matcher_mask_within(matcher, trie, 9, 0, 0, mask, mask_len, &error));
    matcher = start_matcher(start_grammar("[a-z]{3,99}!", &closing), NULL);
    for (i = 9; i > 0; i--) {
        DO(gleed_matcher_mask_within(matcher, trie, i, 0, 0, mask, mask_len, &error));
        for (ids[0] = 0; !(mask[ids[0] / 32] >> (ids[0] % 32) & 1);)
            ids[0]++;
        DO(gleed_matcher_accept(matcher, tokenizer, ids[0], &accepted, &error));
        DO(gleed_matcher_is_end(matcher, &is_end, &error));
        if (is_end)
            break;
    }
    CHECK(is_end == 1);

    /* The vocabulary has no token for a byte that must follow. */
    matcher = start_matcher(start_grammar("root ::= <[9999]>", &gbnf), NULL);
    EXPECT(GLEED_E_NO_TOKEN, gleed_matcher_mask(matcher, trie, 0, 0, mask, mask_len, &error));
}

/* A trie that is made in pieces gives the masks of one that is made at once. */
static void pieces(const gleed_grammar *grammar)
{
    static uint32_t scratch[1 << 17];
    gleed_trie_build *build = start_build(tokenizer, scratch, COUNT(scratch));
    gleed_matcher *matcher = start_matcher(grammar, NULL);
    const gleed_trie *made = NULL;
    size_t size = 0, align = 0, steps = 0;
    void *memory;
    EXPECT(GLEED_E_BUSY, gleed_trie_build_plan(build, &size, &align, &error));
    EXPECT(GLEED_E_BUSY, gleed_trie_build_finish(build, &made, &error));
    while (gleed_trie_build_step(build, 1, &error) == GLEED_YIELDED)
        steps++;
    DO(gleed_trie_build_plan(build, &size, &align, &error));
    memory = aligned(size, align);
    EXPECT(GLEED_E_MEMORY_TOO_SMALL, gleed_trie_build_place(build, memory, size - 1, &error));
    DO(gleed_trie_build_place(build, memory, size, &error));
    EXPECT(GLEED_E_BUSY, gleed_trie_build_place(build, memory, size, &error));
    EXPECT(GLEED_E_BUSY, gleed_trie_build_finish(build, &made, &error));
    while (gleed_trie_build_step(build, 1, &error) == GLEED_YIELDED)
        steps++;
    CHECK(steps > 3 && made == NULL);
    DO(gleed_trie_build_finish(build, &made, &error));
    EXPECT(GLEED_E_BUSY, gleed_trie_build_finish(build, &made, &error));
    DO(gleed_matcher_mask(matcher, trie, 0, GLEED_MASK_ENDS, mask, mask_len, &error));
    DO(gleed_matcher_mask(matcher, made, 0, GLEED_MASK_ENDS, mask_again, mask_len, &error));
    CHECK(memcmp(mask, mask_again, mask_len * sizeof *mask) == 0);
    EXPECT(GLEED_E_SCRATCH_TOO_SMALL, gleed_trie_build_step(start_build(tokenizer, scratch, 4700), 0, &error));
}

/* A grammar that is made in pieces is the one that is made at once. */
static void grammar_in_pieces(void)
{
    static uint32_t scratch[1 << 19];
    const char *schema = "{\"properties\":{\"name\":{\"pattern\":\"^[a-z]{1,200}x\"},\"age\":{\"type\":\"integer\"}}}";
    gleed_grammar_build *build = start_grammar_build(schema, scratch, COUNT(scratch));
    const gleed_grammar *made = NULL, *whole = start_grammar(schema, NULL);
    size_t size = 0, align = 0, needed = 0, steps = 0;
    void *memory;
    EXPECT(GLEED_E_BUSY, gleed_grammar_build_plan(build, &size, &align, &error));
    EXPECT(GLEED_E_BUSY, gleed_grammar_build_finish(build, &made, &error));
    while (gleed_grammar_build_step(build, 1, &error) == GLEED_YIELDED)
        steps++;
    DO(gleed_grammar_build_plan(build, &size, &align, &error));
    memory = aligned(size, align);
    EXPECT(GLEED_E_MEMORY_TOO_SMALL, gleed_grammar_build_place(build, memory, size - 1, &error));
    DO(gleed_grammar_build_place(build, memory, size, &error));
    EXPECT(GLEED_E_BUSY, gleed_grammar_build_place(build, memory, size, &error));
    EXPECT(GLEED_E_BUSY, gleed_grammar_build_finish(build, &made, &error));
    while (gleed_grammar_build_step(build, 1, &error) == GLEED_YIELDED)
        steps++;
    CHECK(steps > 3 && made == NULL);
    DO(gleed_grammar_build_finish(build, &made, &error));
    EXPECT(GLEED_E_BUSY, gleed_grammar_build_finish(build, &made, &error));
    DO(gleed_matcher_mask(start_matcher(whole, NULL), trie, 0, 0, mask, mask_len, &error));
    DO(gleed_matcher_mask(start_matcher(made, NULL), trie, 0, 0, mask_again, mask_len, &error));
    CHECK(memcmp(mask, mask_again, mask_len * sizeof *mask) == 0);
    /* What is refused is refused again. */
    build = start_grammar_build("{\"not\":{}}", scratch, COUNT(scratch));
    EXPECT(GLEED_E_GRAMMAR_UNSUPPORTED, gleed_grammar_build_step(build, 0, &error));
    EXPECT(GLEED_E_GRAMMAR_UNSUPPORTED, gleed_grammar_build_step(build, 0, &error));
    EXPECT(GLEED_E_BUSY, gleed_grammar_build_plan(build, &needed, &align, &error));
    build = start_grammar_build(schema, scratch, 100);
    EXPECT(GLEED_E_SCRATCH_TOO_SMALL, gleed_grammar_build_step(build, 0, &error));
}

static gleed_writing_info described(gleed_writing *writing)
{
    gleed_writing_info info = {sizeof info, 0, 0, 0, 0, 0, 0};
    DO(gleed_writing_describe(writing, &info, &error));
    return info;
}

/* The mask of a writing, which must be that of a matcher that has taken the same tokens. */
static void same_mask(gleed_writing *writing, const gleed_grammar *grammar, const uint32_t *tokens, size_t count)
{
    gleed_matcher *matcher = start_matcher(grammar, NULL);
    uint32_t accepted = 0;
    size_t i, bytes = 0;
    for (i = 0; i < count; i++) {
        DO(gleed_matcher_accept(matcher, tokenizer, tokens[i], &accepted, &error));
        CHECK(accepted == 1);
    }
    DO(gleed_matcher_mask(matcher, trie, 0, GLEED_MASK_ENDS, mask, mask_len, &error));
    DO(gleed_writing_mask(writing, trie, GLEED_NO_END, 0, GLEED_MASK_ENDS, mask_again, mask_len, &error));
    CHECK(memcmp(mask, mask_again, mask_len * sizeof *mask) == 0);
    DO(gleed_matcher_bytes_to_end(matcher, &bytes, &error));
    CHECK(described(writing).bytes_to_end == bytes);
    DO(gleed_matcher_mask_within(matcher, trie, 12, 0, 0, mask, mask_len, &error));
    DO(gleed_writing_mask(writing, trie, 12, 0, 0, mask_again, mask_len, &error));
    CHECK(memcmp(mask, mask_again, mask_len * sizeof *mask) == 0);
}

/* A sequence and its matcher go together through fork, rewind and a snapshot. */
static void writings(void)
{
    const gleed_config config = {sizeof config, 3, 64, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    const gleed_grammar_options options = {sizeof options, GLEED_GRAMMAR_REGEX, 0, GLEED_GRAMMAR_CLOSE, 0, 0, NULL, 0, 0, 0, 0, 0, NULL, 0, NULL};
    const gleed_grammar_options plain = {sizeof plain, GLEED_GRAMMAR_REGEX, 0, 0, 0, 0, NULL, 0, 0, 0, 0, 0, NULL, 0, NULL};
    const gleed_grammar *grammar = start_grammar("[a-z]{8,30}(, yes|, no)!", &options);
    const gleed_grammar *other = start_grammar("[0-9]*", &plain);
    const gleed_matcher_limits none_kept = {sizeof none_kept, 0, 0, 0, 1, 0};
    const uint32_t prompt[5] = {1, 414, 435, 261, 385};
    const char *text = "abcdefgh, ";
    static uint32_t scratch[1 << 14], tokens[32], forced[8];
    gleed_engine *engine = start_engine(model, &config);
    gleed_writing *writing, *fork = NULL, *again = NULL;
    gleed_snapshot_options saved = {sizeof saved, 0, NULL, 0, 0, 0};
    gleed_snapshot_info snapshot_info;
    const float *logits = NULL;
    uint8_t state[16], *bytes;
    uint32_t accepted = 9;
    size_t count = 0, len = 0, size, align, written = 0, i;
    gleed_seq seq;
    void *memory;
    DO(gleed_seq_open(engine, &seq, &error));
    DO(gleed_prefill(engine, seq, prompt, 5, &logits, &len, &error));
    writing = start_writing(engine, seq, grammar, &none_kept);
    CHECK(described(writing).begin == 5 && described(writing).end == 5 && described(writing).seq == seq);
    CHECK(described(start_writing(engine, seq, other, NULL)).bytes_to_end == GLEED_NO_END);
    CHECK(described(start_writing(engine, seq, other, NULL)).is_end == 1 && described(writing).is_end == 0);
    DO(gleed_encode(tokenizer, text, strlen(text), GLEED_ENCODE_CONTINUES, scratch, 1 << 14, tokens, 32, &count, &error));
    CHECK(count > 4);
    for (i = 0; i < count; i++) {
        same_mask(writing, grammar, tokens, i);
        DO(gleed_writing_accept(writing, tokenizer, tokens[i], &accepted, &error));
        CHECK(accepted == 1);
        DO(gleed_decode_step(engine, seq, tokens[i], &logits, &len, &error));
    }
    DO(gleed_writing_accept(writing, tokenizer, 414, &accepted, &error));
    CHECK(accepted == 0 && described(writing).end == 5 + count);
    DO(gleed_writing_forced_tokens(writing, tokenizer, trie, scratch, 1 << 14, forced, 8, &written, &error));
    CHECK(written == 0);

    /* A copy with two tokens less; then the first one goes back to where the copy is. */
    DO(gleed_writing_plan(&size, &align, &none_kept, &error));
    memory = aligned(size, align);
    EXPECT(GLEED_E_MEMORY_TOO_SMALL,
           gleed_writing_fork(writing, engine, tokenizer, 3 + count, memory, size - 1, &fork, &error));
    EXPECT(GLEED_E_NOT_REWINDABLE, gleed_writing_fork(writing, engine, tokenizer, 4, memory, size, &fork, &error));
    CHECK(error.needed == 5 && error.given == 4 && fork == NULL);
    DO(gleed_writing_fork(writing, engine, tokenizer, 3 + count, memory, size, &fork, &error));
    CHECK(described(fork).end == 3 + count && described(fork).seq != seq);
    same_mask(fork, grammar, tokens, count - 2);
    same_mask(writing, grammar, tokens, count);
    EXPECT(GLEED_E_NOT_REWINDABLE, gleed_writing_rewind(writing, engine, tokenizer, 2, &error));
    DO(gleed_writing_rewind(writing, engine, tokenizer, 3 + count, &error));
    same_mask(writing, grammar, tokens, count - 2);

    /* The sequence goes on by itself. */
    DO(gleed_decode_step(engine, seq, tokens[count - 2], &logits, &len, &error));
    DO(gleed_writing_follow(writing, engine, tokenizer, &error));
    same_mask(writing, grammar, tokens, count - 1);
    DO(gleed_decode_step(engine, seq, 414, &logits, &len, &error));
    EXPECT(GLEED_E_NOT_ALLOWED, gleed_writing_follow(writing, engine, tokenizer, &error));
    CHECK(error.at == 4 + count && error.given == 414);
    DO(gleed_rewind(engine, seq, 4 + count, &error));
    DO(gleed_writing_follow(writing, engine, tokenizer, &error));
    same_mask(writing, grammar, tokens, count - 1);

    /* Saved with the sequence, and gone on with. */
    EXPECT(GLEED_E_SNAPSHOT_BUFFER, gleed_writing_state(writing, state, 15, &written, &error));
    DO(gleed_writing_state(writing, state, sizeof state, &written, &error));
    CHECK(written == 16);
    saved.state = state;
    saved.state_len = written;
    DO(gleed_snapshot_size(engine, seq, &saved, &size, &error));
    CHECK((bytes = malloc(size)) != NULL);
    DO(gleed_snapshot(engine, seq, &saved, bytes, size, &written, &error));
    memset(&snapshot_info, 0, sizeof snapshot_info);
    snapshot_info.struct_size = sizeof snapshot_info;
    DO(gleed_snapshot_describe(bytes, size, &snapshot_info, &error));
    DO(gleed_restore(engine, NULL, bytes, size, &seq, &error));
    DO(gleed_writing_plan(&size, &align, NULL, &error));
    memory = aligned(size, align);
    EXPECT(GLEED_E_SNAPSHOT_GRAMMAR, gleed_writing_resume(engine, tokenizer, seq, other, snapshot_info.state,
                                                          snapshot_info.state_len, NULL, memory, size, &again, &error));
    EXPECT(GLEED_E_SEQUENCE, gleed_writing_resume(engine, tokenizer, 0, grammar, snapshot_info.state, snapshot_info.state_len,
                                                  NULL, memory, size, &again, &error));
    CHECK(again == NULL);
    DO(gleed_writing_resume(engine, tokenizer, seq, grammar, snapshot_info.state, snapshot_info.state_len, NULL, memory, size,
                            &again, &error));
    CHECK(described(again).begin == 5 && described(again).end == 4 + count);
    same_mask(again, grammar, tokens, count - 1);
    free(bytes);
}

/* What calls a turn format goes with. */
static void call_formats(void)
{
    uint32_t format = 0, calls = 9, thoughts = 9, hermes = 9;
    DO(gleed_turns_named("qwen3", 5, &format, &error));
    DO(gleed_turns_calls(model, format, &calls, &thoughts, &error));
    DO(gleed_calls_named("hermes", 6, &hermes, &error));
    CHECK(calls == hermes && thoughts == GLEED_THOUGHTS_THINK);
    DO(gleed_turns_named("vicuna", 6, &format, &error));
    DO(gleed_turns_calls(model, format, &calls, &thoughts, &error));
    CHECK(calls == GLEED_NO_CALLS && thoughts == 0);
}

static void sampling(void)
{
    const float logits[40] = {3, 2, 1};
    uint32_t some[2] = {6, 0}, token = 9;
    uint64_t pad[40];
    gleed_sampler *sampler = start_sampler(NULL);
    DO(gleed_sample_masked(sampler, logits, 40, some, 2, pad, 40, &token, NULL, &error));
    CHECK(token == 1);
    EXPECT(GLEED_E_SHAPE, gleed_sample_masked(sampler, logits, 40, some, 1, pad, 40, &token, NULL, &error));
    some[0] = 0;
    EXPECT(GLEED_E_NO_TOKEN, gleed_sample_masked(sampler, logits, 40, some, 2, pad, 40, &token, NULL, &error));
    CHECK(token == 1);
}

static void stop_strings(void)
{
    const gleed_string strings[2] = {{"\n\nUser:", 7}, {"END", 3}}, empty = {"", 0}, broken = {"\xff", 1};
    gleed_shown shown = {sizeof shown, 0, NULL, 0, 0};
    gleed_stops *stops = start_stops(strings, 2);
    gleed_stops *none = NULL;
    const char *held = NULL;
    size_t held_len = 9;
    uint64_t memory[128];
    DO(gleed_stops_push(stops, "Hi\n", 3, &shown, &error));
    CHECK(shown.stop == GLEED_NO_STOP && shown.held_len == 0 && shown.text_len == 2);
    DO(gleed_stops_push(stops, "you\n\nUs", 7, &shown, &error));
    CHECK(shown.held_len == 1 && shown.held[0] == '\n' && shown.text_len == 3);
    DO(gleed_stops_push(stops, "er: no", 6, &shown, &error));
    CHECK(shown.stop == 0 && shown.held_len == 0 && shown.text_len == 0);
    DO(gleed_stops_finish(stops, &held, &held_len, &error));
    CHECK(held_len == 0);
    DO(gleed_stops_push(stops, "the EN", 6, &shown, &error));
    DO(gleed_stops_finish(stops, &held, &held_len, &error));
    CHECK(shown.text_len == 4 && held_len == 2 && memcmp(held, "EN", 2) == 0);
    EXPECT(GLEED_E_TEXT, gleed_stops_push(stops, "\xff", 1, &shown, &error));
    EXPECT(GLEED_E_VALUE, gleed_stops_init(&empty, 1, memory, sizeof memory, &none, &error));
    EXPECT(GLEED_E_TEXT, gleed_stops_init(&broken, 1, memory, sizeof memory, &none, &error));
    EXPECT(GLEED_E_VALUE, gleed_stops_init(strings, 17, memory, sizeof memory, &none, &error));
    CHECK(none == NULL);
}

static void tool_calls(void)
{
    const char *tools = "[{\"name\":\"roll\",\"parameters\":{\"type\":\"object\",\"properties\":{\"sides\":{\"type\":\"integer\"}},"
                        "\"required\":[\"sides\"]}}]";
    const char *text = "<think>six</think>\n\nI roll.\n<tool_call>\n{\"name\": \"roll\", \"arguments\": {\"sides\": 6}}\n"
                       "</tool_call>\n<tool_call>\n{\"name\": \"roll\", \"arguments\": {}}\n</tool_call>\n<tool_call>\n"
                       "{\"name\": \"fly\", \"arguments\": {}}\n</tool_call>";
    const char *python = "<|tool_call_start|>[roll(sides=6)]<|tool_call_end|>";
    gleed_calls *calls = start_calls("hermes", GLEED_THOUGHTS_THINK, tools);
    gleed_calls *lfm = start_calls("lfm2", 0, ""), *none = NULL;
    gleed_calls_part part = {sizeof part, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    uint32_t format = 0;
    size_t len = strlen(text);
    char json[32];
    uint64_t memory[64];
    DO(gleed_calls_next(calls, text, 25, 0, NULL, 0, &part, &error));
    CHECK(part.kind == GLEED_PART_THOUGHT && part.at == 7 && part.len == 3);
    DO(gleed_calls_next(calls, text, len, 1, NULL, 0, &part, &error));
    CHECK(part.kind == GLEED_PART_TEXT && memcmp(text + part.at, "I roll.\n", part.len) == 0);
    EXPECT(GLEED_E_OUTPUT_TOO_SMALL, gleed_calls_next(calls, text, len, 1, json, 5, &part, &error));
    CHECK(error.needed == 12 && error.given == 5 && part.kind == GLEED_PART_TEXT);
    DO(gleed_calls_next(calls, text, len, 1, json, sizeof json, &part, &error));
    CHECK(part.kind == GLEED_PART_CALL && part.wrong == GLEED_CALL_RIGHT && part.id_len == 0);
    CHECK(part.name_len == 4 && memcmp(text + part.name_at, "roll", 4) == 0);
    CHECK(part.json_len == 12 && memcmp(json, "{\"sides\": 6}", 12) == 0);
    CHECK(part.arguments_len == 12 && memcmp(text + part.arguments_at, json, 12) == 0);
    DO(gleed_calls_next(calls, text, len, 1, json, sizeof json, &part, &error));
    CHECK(part.kind == GLEED_PART_CALL && part.wrong == GLEED_CALL_MISSING);
    DO(gleed_calls_next(calls, text, len, 1, json, sizeof json, &part, &error));
    CHECK(part.kind == GLEED_PART_WRONG && part.wrong == GLEED_CALL_UNKNOWN_TOOL && part.wrong_at > 100);
    do {
        DO(gleed_calls_next(calls, text, len, 1, json, sizeof json, &part, &error));
    } while (part.kind == GLEED_PART_TEXT);
    CHECK(part.kind == GLEED_PART_NONE);

    DO(gleed_calls_next(lfm, python, strlen(python), 1, json, sizeof json, &part, &error));
    CHECK(part.kind == GLEED_PART_CALL && part.json_len > 0 && json[0] == '{' && strstr(json, "sides") != NULL);
    DO(gleed_calls_named("no such", 7, &format, &error));
    CHECK(format == GLEED_NO_CALLS);
    DO(gleed_calls_init(format, 0, NULL, 0, memory, sizeof memory, &none, &error));
    EXPECT(GLEED_E_VALUE, gleed_calls_init(99, 0, NULL, 0, memory, sizeof memory, &none, &error));
    EXPECT(GLEED_E_VALUE, gleed_calls_init(0, 3, NULL, 0, memory, sizeof memory, &none, &error));
    EXPECT(GLEED_E_TOOLS, gleed_calls_init(0, 0, "[1]", 3, memory, sizeof memory, &none, &error));
    CHECK(error.at == 1);
}

/* A plan that is refused changes nothing. */
static void refused(gleed_status status, const char *tools, const gleed_grammar_options *options)
{
    static uint32_t scratch[1 << 17];
    size_t size = 7, align = 7;
    const gleed_grammar *grammar = NULL;
    EXPECT(status, gleed_grammar_plan(tools, strlen(tools), scratch, 1 << 17, &size, &align, options, &error));
    CHECK(size == 7 && align == 7);
    EXPECT(status, gleed_grammar_init(tools, strlen(tools), scratch, 1 << 17, options, scratch, 0, &grammar, &error));
    CHECK(grammar == NULL);
}

/* Grammars of replies that call tools. */
static void tool_grammars(void)
{
    const char *tools = "[{\"name\":\"roll\",\"parameters\":{\"type\":\"object\",\"properties\":{\"sides\":{\"type\":\"integer\"}},"
                        "\"required\":[\"sides\"]}},{\"type\":\"function\",\"function\":{\"name\":\"now\"}}]";
    const char *call = "\n{\"name\": \"roll\", \"arguments\": {\"sides\": 6}}\n</tool_call>";
    static uint32_t scratch[1 << 17];
    gleed_grammar_options right = {sizeof right, GLEED_GRAMMAR_TOOLS, GLEED_WHITESPACE_SPACED, 0, 0, 0, NULL, 0, 0, 0, 0, 0, NULL, 0, NULL};
    gleed_grammar_options wrong;
    const gleed_grammar *grammar = NULL, *copy;
    const gleed_tokenizer *copied_tokenizer;
    gleed_matcher *matcher = NULL;
    size_t size = 0, align = 0, tokenizer_size = 0, taken = 0, needed;
    uint32_t is_end = 9;
    void *memory, *moved;
    DO(gleed_calls_named("hermes", 6, &right.calls, &error));

    /* Numbers that mean nothing; what belongs to tools, in a schema. */
    wrong = right;
    wrong.choice = 3;
    refused(GLEED_E_VALUE, tools, &wrong);
    CHECK(error.needed == GLEED_CHOICE_NAMED && error.given == 3);
    wrong.choice = UINT32_MAX;
    refused(GLEED_E_VALUE, tools, &wrong);
    wrong = right;
    wrong.calls = 9999;
    refused(GLEED_E_VALUE, tools, &wrong);
    wrong.calls = GLEED_NO_CALLS;
    refused(GLEED_E_VALUE, tools, &wrong);
    wrong = right;
    wrong.thoughts = 99;
    refused(GLEED_E_VALUE, tools, &wrong);
    wrong = right;
    wrong.call_flags = 2;
    refused(GLEED_E_VALUE, tools, &wrong);
    wrong = right;
    wrong.kind = GLEED_GRAMMAR_SCHEMA;
    wrong.choice = GLEED_CHOICE_REQUIRED;
    refused(GLEED_E_VALUE, "{}", &wrong);

    /* Names. */
    wrong = right;
    wrong.choice = GLEED_CHOICE_NAMED;
    refused(GLEED_E_GRAMMAR_VALUE, tools, &wrong);
    wrong.tool = "rol";
    wrong.tool_len = 3;
    refused(GLEED_E_GRAMMAR_VALUE, tools, &wrong);
    CHECK(strstr(error.text, "tool_choice") != NULL);
    wrong.tool = "roll\xff";
    wrong.tool_len = 5;
    refused(GLEED_E_TEXT, tools, &wrong);
    wrong.tool = NULL;
    refused(GLEED_E_NULL, tools, &wrong);
    wrong.tool = "now";
    wrong.tool_len = 3;
    DO(gleed_grammar_plan(tools, strlen(tools), scratch, 1 << 17, &size, &align, &wrong, &error));

    /* Lists that are none. */
    refused(GLEED_E_GRAMMAR, "", &right);
    refused(GLEED_E_GRAMMAR, "[", &right);
    refused(GLEED_E_GRAMMAR, "{}", &right);
    refused(GLEED_E_GRAMMAR, "[1]", &right);
    CHECK(error.at == 1);
    refused(GLEED_E_GRAMMAR, "[{\"name\":\"a\"},{\"name\":\"a\"}]", &right);
    CHECK(error.at > 10);
    refused(GLEED_E_GRAMMAR, "[{\"name\":\"\xff\"}]", &right);
    refused(GLEED_E_GRAMMAR_EMPTY, "[]", &right);
    refused(GLEED_E_GRAMMAR_EMPTY, "[{\"name\":\"a\",\"parameters\":{\"type\":\"array\"}}]", &right);
    refused(GLEED_E_GRAMMAR_UNSUPPORTED, "[{\"name\":\"a\",\"parameters\":{\"properties\":{\"b\":{\"not\":{}}}}}]", &right);
    CHECK(strstr(error.text, "not") != NULL && error.at > 30);
    EXPECT(GLEED_E_NULL, gleed_grammar_plan(NULL, 5, scratch, 1 << 17, &size, &align, &right, &error));

    /* A tokenizer at another place. */
    wrong = right;
    DO(gleed_tokenizer_size(model, &tokenizer_size, &align, &error));
    copied_tokenizer = memcpy(aligned(tokenizer_size, align), tokenizer, tokenizer_size);
    wrong.tokenizer = copied_tokenizer;
    refused(GLEED_E_OBJECT, tools, &wrong);
    right.tokenizer = tokenizer;

    /* Scratch and memory that are too small, and a grammar at another place. */
    EXPECT(GLEED_E_SCRATCH_TOO_SMALL, gleed_grammar_plan(tools, strlen(tools), NULL, 0, &size, &align, &right, &error));
    CHECK(error.needed > 1000 && error.given == 0);
    needed = (size_t)error.needed;
    CHECK(needed <= 1 << 20);
    right.choice = GLEED_CHOICE_REQUIRED;
    DO(gleed_grammar_plan(tools, strlen(tools), scratch, 1 << 17, &size, &align, &right, &error));
    memory = aligned(size + align, align);
    EXPECT(GLEED_E_MEMORY_TOO_SMALL,
           gleed_grammar_init(tools, strlen(tools), scratch, 1 << 17, &right, memory, size - 1, &grammar, &error));
    CHECK(error.needed == size && error.given == size - 1 && grammar == NULL);
    EXPECT(GLEED_E_MEMORY_MISALIGNED,
           gleed_grammar_init(tools, strlen(tools), scratch, 1 << 17, &right, (char *)memory + 4, size, &grammar, &error));
    DO(gleed_grammar_init(tools, strlen(tools), scratch, 1 << 17, &right, memory, size, &grammar, &error));
    moved = aligned(size, align);
    copy = memcpy(moved, memory, size);
    DO(gleed_matcher_plan(&needed, &align, NULL, &error));
    memory = aligned(needed, align);
    EXPECT(GLEED_E_OBJECT, gleed_matcher_init(copy, NULL, memory, needed, &matcher, &error));
    CHECK(matcher == NULL);
    DO(gleed_matcher_init(grammar, NULL, memory, needed, &matcher, &error));
    DO(gleed_matcher_accept_text(matcher, "No.", 3, &taken, &error));
    CHECK(taken == 0);
    DO(gleed_matcher_accept_text(matcher, "<tool_call>", 11, &taken, &error));
    CHECK(taken == 11);
    DO(gleed_matcher_accept_text(matcher, call, strlen(call), &taken, &error));
    DO(gleed_matcher_is_end(matcher, &is_end, &error));
    CHECK(taken == strlen(call) && is_end == 1);
}

int main(int argc, char **argv)
{
    const gleed_grammar_options options = {sizeof options, GLEED_GRAMMAR_SCHEMA, GLEED_WHITESPACE_COMPACT, 0, 0, 0, NULL, 0, 0, 0, 0, 0, NULL, 0, NULL};
    const gleed_grammar *grammar;
    const uint8_t *bytes;
    size_t len;
    uint64_t seed;
    CHECK(argc == 2);
    bytes = read_file(argv[1], &len);
    model = open_model(bytes, len);
    tokenizer = start_tokenizer(model);
    trie = start_trie(tokenizer);
    DO(gleed_trie_mask_len(trie, &mask_len, &error));
    CHECK((mask = malloc(mask_len * sizeof *mask)) != NULL && (mask_again = malloc(mask_len * sizeof *mask)) != NULL);
    grammar = start_grammar(SCHEMA, &options);
    for (seed = 1; seed <= 4; seed++)
        answer(grammar, seed);
    grammars();
    pieces(grammar);
    grammar_in_pieces();
    writings();
    call_formats();
    sampling();
    stop_strings();
    tool_calls();
    tool_grammars();
    printf("every text followed its grammar\n");
    return 0;
}
