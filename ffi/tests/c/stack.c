/*
 * Measures how much stack the calls take: each call runs on a thread whose stack was painted before.
 *
 * usage: stack MODEL
 * Prints a line for each group of calls. Fails if a call takes more than gleed.h promises.
 */
#define _DEFAULT_SOURCE
#include <pthread.h>

#include "support.h"

#define STACK (1u << 20)
#define PROMISED (32u << 10)

static const uint32_t PROMPT[40] = {1,   414, 435, 261, 385, 952, 384, 281, 261, 378, 428, 509, 387, 945,
                                    320, 511, 270, 414, 435, 261, 385, 952, 384, 281, 261, 378, 428, 509,
                                    387, 945, 320, 511, 270, 414, 435, 261, 385, 952, 384, 281};

static const uint8_t *file;
static size_t file_len, size, align, count;
static void *memory;
static const gleed_model *model;
static gleed_engine *engine;
static const gleed_tokenizer *tokenizer;
static gleed_detokenizer *detokenizer;
static gleed_sampler *sampler;
static gleed_seq seq, other;
static const float *logits;
static size_t logits_len;
static uint8_t bytes[1 << 20];
static uint32_t scratch[4096], ids[256];
static uint64_t pad[4096];
static char text[256];
static float values[256];
static const char *string;
static const uint8_t *adapter_file;
static size_t adapter_len;
static const gleed_adapter *adapter;
static gleed_status status;

static void nothing(void) { status = gleed_abi_version() == GLEED_ABI_VERSION ? GLEED_OK : -1; }
static void do_open(void) { status = gleed_model_open(file, file_len, memory, size, &model, NULL); }
static void do_open_split(void)
{
    const gleed_part part = {file, file_len};
    status = gleed_model_open_split(&part, 1, memory, size, &model, NULL);
}
static void do_refuse(void)
{
    static gleed_error details = {sizeof details, 0, 0, 0, 0, ""};
    status = gleed_model_open(file, file_len - 1, memory, size, &model, &details) == GLEED_E_FILE_TRUNCATED ? GLEED_OK : -1;
}
static void do_describe(void)
{
    static gleed_model_info info = {.struct_size = sizeof info};
    status = gleed_model_describe(model, &info, NULL);
}
static void do_plan(void) { status = gleed_plan(model, NULL, &size, &align, NULL); }
static void do_init(void) { status = gleed_engine_init(model, NULL, memory, size, &engine, NULL); }
static void do_seq(void) { status = gleed_seq_open(engine, &seq, NULL); }
static void do_prefill(void) { status = gleed_prefill(engine, seq, PROMPT, 40, &logits, &logits_len, NULL); }
static void do_decode(void) { status = gleed_decode_step(engine, seq, 5, &logits, &logits_len, NULL); }
static void do_snapshot(void) { status = gleed_snapshot(engine, seq, NULL, bytes, sizeof bytes, &count, NULL); }
static void do_embed(void) { status = gleed_embed(engine, seq, PROMPT, 40, GLEED_POOLING_MEAN, values, 256, NULL); }
static void do_embed_texts(void)
{
    static const size_t length = 40;
    status = gleed_embed_texts(engine, PROMPT, 40, &length, 1, GLEED_POOLING_MEAN, values, 256, NULL);
}
static void do_log_probs(void) { status = gleed_log_probs(engine, seq, PROMPT, 40, values, 39, NULL); }
static void do_tokens(void) { status = gleed_seq_tokens(engine, seq, 0, ids, 40, NULL); }
static void do_adapter(void)
{
    status = gleed_adapter_open(model, adapter_file, adapter_len, pad, sizeof pad, &adapter, NULL);
}
static void do_load(void)
{
    status = gleed_engine_load_adapter(engine, adapter, ids, NULL) == GLEED_E_ADAPTER_ROOM ? GLEED_OK : -1;
}
static void do_find(void) { status = gleed_vocab_find(tokenizer, "</s>", 4, ids, NULL); }
static void do_string(void) { status = gleed_model_string(model, "general.name", 12, &string, &count, NULL); }
static void do_close(void) { status = gleed_seq_close(engine, seq, NULL); }
static void do_restore(void) { status = gleed_restore(engine, NULL, bytes, count, &other, NULL); }
static void do_tokenizer_size(void) { status = gleed_tokenizer_size(model, &size, &align, NULL); }
static void do_tokenizer(void) { status = gleed_tokenizer_init(model, memory, size, &tokenizer, NULL); }
static void do_encode(void)
{
    status = gleed_encode(tokenizer, "Once upon a time", 16, 0, scratch, 4096, ids, 64, &count, NULL);
}
static void do_turns(void)
{
    const gleed_message message = {GLEED_ROLE_USER, 0, "Once upon a time", 16};
    status = gleed_turns_encode(tokenizer, 1, 0, &message, 1, GLEED_TURNS_REPLY, scratch, 4096, ids, 256, &count, NULL);
}
static gleed_desk *desk;
static gleed_conversation *talk;
static gleed_update update = {.struct_size = sizeof update};
static const gleed_entry entry = {.role = GLEED_ROLE_USER, .text = "Once upon a time", .text_len = 16};
static uint8_t saved[1 << 16];
static void do_desk(void) { status = gleed_desk_init(tokenizer, NULL, memory, size, &desk, NULL); }
static void do_conversation(void) { status = gleed_conversation_init(engine, seq, NULL, memory, size, &talk, NULL); }
static void do_update(void)
{
    static const gleed_script script = {.struct_size = sizeof script, .format = 1};
    static const gleed_keep keep = {.struct_size = sizeof keep, .last = 1};
    status = gleed_conversation_update(talk, engine, tokenizer, desk, &entry, 1, &script, &keep, &update, NULL);
}
static void do_save(void)
{
    status = gleed_conversation_save(talk, engine, desk, &entry, 1, saved, sizeof saved, &count, NULL);
}
static void do_conversation_load(void)
{
    status = gleed_conversation_load(engine, saved, count, NULL, memory, size, &talk, NULL);
}
static void do_detokenizer(void) { status = gleed_detokenizer_init(tokenizer, 0, pad, 256, &detokenizer, NULL); }
static void do_detokenize(void) { status = gleed_detokenize(detokenizer, tokenizer, 414, text, 256, &count, NULL); }
static void do_sampler(void)
{
    static const gleed_sampler_params params = {.struct_size = sizeof params, .temperature = 1, .top_k = 9, .top_p = 0.9f};
    status = gleed_sampler_init(&params, memory, size, &sampler, NULL);
}
static void do_sample(void) { status = gleed_sample(sampler, logits, logits_len, pad, 4096, ids, NULL, NULL); }
static void do_selftest(void) { status = gleed_selftest(0, memory, GLEED_SELFTEST_BYTES, NULL); }

static const gleed_grammar_options *options;
static char grammar_text[8192];
static uint32_t room[1 << 20];
static const gleed_grammar *grammar;
static const gleed_trie *trie;
static gleed_matcher *matcher;
static uint32_t mask[64];
static void do_grammar_plan(void)
{
    status = gleed_grammar_plan(grammar_text, strlen(grammar_text), room, 1 << 20, &size, &align, options, NULL);
}
static void do_grammar(void)
{
    status = gleed_grammar_init(grammar_text, strlen(grammar_text), room, 1 << 20, options, memory, 1 << 20, &grammar, NULL);
}
static void do_trie(void) { status = gleed_trie_init(tokenizer, room, 1 << 20, memory, 1 << 20, &trie, NULL); }
static void do_matcher(void) { status = gleed_matcher_init(grammar, NULL, memory, 1 << 20, &matcher, NULL); }
static void do_mask(void) { status = gleed_matcher_mask(matcher, trie, 0, 0, mask, (count + 31) / 32, NULL); }
static void do_forced_tokens(void)
{
    status = gleed_matcher_forced_tokens(matcher, tokenizer, trie, room, 1 << 20, ids, 8, &size, NULL);
}
static void do_accept(void) { status = gleed_matcher_accept(matcher, tokenizer, 414, ids, NULL); }
static void do_rewind(void) { status = gleed_matcher_rewind(matcher, 0, NULL); }
static void do_matcher_snapshot(void) { status = gleed_matcher_snapshot(matcher, bytes, sizeof bytes, &count, NULL); }
static void do_matcher_restore(void) { status = gleed_matcher_restore(matcher, bytes, count, NULL); }
static void do_calls(void)
{
    static gleed_calls_part part = {.struct_size = sizeof part};
    static const char *reply = "{\"name\": \"f\", \"parameters\": {\"a\": [1, {\"b\": null}]}}";
    gleed_calls *calls = start_calls("llama3", 0, "");
    status = gleed_calls_next(calls, reply, strlen(reply), 1, text, sizeof text, &part, NULL);
}

/* Writes `open` to grammar_text, `times` times, then `inner`, then `close` as often. */
static void nest(int times, const char *open, const char *inner, const char *close)
{
    int i;
    grammar_text[0] = 0;
    for (i = 0; i < times; i++)
        strcat(grammar_text, open);
    strcat(grammar_text, inner);
    for (i = 0; i < times; i++)
        strcat(grammar_text, close);
}

static void *run(void *arg)
{
    void (*call)(void);
    memcpy(&call, arg, sizeof call);
    call();
    return NULL;
}

static size_t depth(void (*call)(void))
{
    static uint8_t *stack;
    pthread_attr_t attributes;
    pthread_t thread;
    size_t untouched = 0;
    if (stack == NULL)
        stack = aligned(STACK, 4096);
    memset(stack, 0xa5, STACK);
    CHECK(pthread_attr_init(&attributes) == 0 && pthread_attr_setstack(&attributes, stack, STACK) == 0);
    CHECK(pthread_create(&thread, &attributes, run, &call) == 0 && pthread_join(thread, NULL) == 0);
    CHECK(status == GLEED_OK);
    while (untouched < STACK && stack[untouched] == 0xa5)
        untouched++;
    return STACK - untouched;
}

static size_t base;

static void measure(const char *name, void (*call)(void))
{
    size_t used = depth(call) - base;
    printf("%-24s %6lu\n", name, (unsigned long)used);
    CHECK(used <= PROMISED);
}

/* Writes a GBNF rule with `times` groups nested in each other to grammar_text. */
static void nest_rule(int times, const char *open, const char *close)
{
    nest(times, open, "\"a\"", close);
    memmove(grammar_text + 9, grammar_text, strlen(grammar_text) + 1);
    memcpy(grammar_text, "root ::= ", 9);
}

/* Measures grammars that are nested as deeply as is allowed, and an ordinary one. */
static void grammars(void)
{
    static const gleed_grammar_options regex = {.struct_size = sizeof regex, .kind = GLEED_GRAMMAR_REGEX};
    static const gleed_grammar_options gbnf = {.struct_size = sizeof gbnf, .kind = GLEED_GRAMMAR_GBNF};
    memory = aligned(1 << 20, 64);
    options = &regex;
    nest(100, "(", "a", ")");
    measure("gleed_grammar_plan, (((", do_grammar_plan);
    nest(100, "a(b|", "c", ")*d");
    measure("  with alternatives", do_grammar_plan);
    options = &gbnf;
    nest_rule(100, "(", ")");
    measure("  GBNF", do_grammar_plan);
    nest_rule(100, "\"a\" (\"b\" | ", ")* [c]");
    measure("  with alternatives", do_grammar_plan);
    measure("gleed_grammar_init", do_grammar);
    memory = aligned(1 << 20, 64);
    options = NULL;
    nest(126, "{\"properties\":{\"a\":", "true", "}}");
    measure("  nested schema", do_grammar_plan);
    nest(120, "{\"properties\":{\"a\":", "{\"$anchor\":\"x\",\"properties\":{\"b\":{\"$ref\":\"#x\"}}}", "}}");
    measure("  with an anchor", do_grammar_plan);
    nest(60, "{\"allOf\":[", "{\"type\":\"string\"}", "]}");
    measure("  with allOf", do_grammar_plan);
    nest(60, "{\"anyOf\":[{\"type\":\"null\"},", "{\"type\":\"string\"}", "]}");
    measure("  with anyOf", do_grammar_plan);
    nest(0, "", "{\"properties\":{\"a\":{\"type\":\"string\",\"pattern\":\"^a+$\"},\"b\":{\"enum\":[1,2]}},\"required\":[\"a\"]}", "");
    measure("gleed_grammar_plan", do_grammar_plan);
    measure("gleed_grammar_init", do_grammar);
    memory = aligned(1 << 20, 64);
    measure("gleed_trie_init", do_trie);
    memory = aligned(1 << 20, 64);
    measure("gleed_matcher_init", do_matcher);
    DO(gleed_trie_mask_len(trie, &count, &error));
    count *= 32;
    measure("gleed_matcher_mask", do_mask);
    measure("gleed_matcher_forced_tokens", do_forced_tokens);
    measure("gleed_matcher_accept", do_accept);
    measure("gleed_matcher_rewind", do_rewind);
    measure("gleed_matcher_snapshot", do_matcher_snapshot);
    measure("gleed_matcher_restore", do_matcher_restore);
    measure("gleed_calls_next", do_calls);
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    file = read_file(argv[1], &file_len);
    depth(nothing);
    base = depth(nothing);
    DO(gleed_model_split_size(1, &size, &align, &error));
    memory = aligned(size, align);
    measure("gleed_model_open_split", do_open_split);
    measure("gleed_model_open", do_open);
    measure("  refused, with details", do_refuse);
    measure("gleed_model_describe", do_describe);
    measure("gleed_model_string", do_string);
    adapter_file = make_adapter(4, 1, &adapter_len);
    measure("gleed_adapter_open", do_adapter);
    measure("gleed_plan", do_plan);
    memory = aligned(size, align);
    measure("gleed_engine_init", do_init);
    measure("gleed_seq_open", do_seq);
    measure("gleed_prefill", do_prefill);
    measure("gleed_decode_step", do_decode);
    measure("gleed_embed", do_embed);
    measure("gleed_log_probs", do_log_probs);
    measure("gleed_seq_tokens", do_tokens);
    measure("gleed_engine_load_adapter", do_load);
    measure("gleed_snapshot", do_snapshot);
    measure("gleed_seq_close", do_close);
    measure("gleed_embed_texts", do_embed_texts);
    measure("gleed_restore", do_restore);
    measure("gleed_tokenizer_size", do_tokenizer_size);
    memory = aligned(size, align);
    measure("gleed_tokenizer_init", do_tokenizer);
    measure("gleed_encode", do_encode);
    measure("gleed_vocab_find", do_find);
    measure("gleed_turns_encode", do_turns);
    DO(gleed_desk_plan(tokenizer, &size, &align, NULL, &error));
    memory = aligned(size, align);
    measure("gleed_desk_init", do_desk);
    DO(gleed_conversation_plan(engine, &size, &align, NULL, &error));
    memory = aligned(size, align);
    DO(gleed_seq_close(engine, other, &error));
    DO(gleed_seq_open(engine, &seq, &error));
    measure("gleed_conversation_init", do_conversation);
    measure("gleed_conversation_update", do_update);
    measure("gleed_conversation_save", do_save);
    DO(gleed_seq_close(engine, seq, &error));
    memory = aligned(size, align);
    measure("gleed_conversation_load", do_conversation_load);
    measure("gleed_detokenizer_init", do_detokenizer);
    measure("gleed_detokenize", do_detokenize);
    DO(gleed_sampler_size(&size, &align, &error));
    memory = aligned(size, align);
    measure("gleed_sampler_init", do_sampler);
    measure("gleed_sample", do_sample);
    memory = aligned(GLEED_SELFTEST_BYTES, 64);
    measure("gleed_selftest", do_selftest);
    grammars();
    return 0;
}
