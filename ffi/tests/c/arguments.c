/*
 * Calls every function with wrong arguments. `ffi/tests/c_programs.rs` makes these calls from the header, with one or two
 * wrong arguments each, and inserts them. All of them must be refused and change nothing. Then the functions that may run
 * on several threads at the same time do so.
 *
 * usage: arguments MODEL
 */
#define _DEFAULT_SOURCE /* for posix_memalign */
#include <pthread.h>

#include "support.h"

static const uint32_t PROMPT[5] = {1, 414, 435, 261, 385};

static const uint8_t *file;
static size_t file_len;
static const uint8_t *adapter_file;
static size_t adapter_len;
static const gleed_model *some_gleed_model;
static const gleed_adapter *some_gleed_adapter;
static gleed_engine *some_gleed_engine;
static gleed_engine *some_gleed_layer;
static const gleed_tokenizer *some_gleed_tokenizer;
static gleed_detokenizer *some_gleed_detokenizer;
static gleed_sampler *some_gleed_sampler;
static const gleed_grammar *some_gleed_grammar;
static const gleed_trie *some_gleed_trie;
static gleed_matcher *some_gleed_matcher;
static gleed_trie_build *some_gleed_trie_build;
static gleed_grammar_build *some_gleed_grammar_build;
static gleed_writing *some_gleed_writing;
static gleed_stops *some_gleed_stops;
static gleed_calls *some_gleed_calls;
static gleed_guesses *some_gleed_guesses;
static gleed_desk *some_gleed_desk;
static gleed_conversation *some_gleed_conversation;
static gleed_seq seqs[1];
static uint64_t before;

/* Copies of the objects, at other places. */
static const void *moved_gleed_model;
static const void *moved_gleed_adapter;
static const void *moved_gleed_engine;
static const void *moved_gleed_tokenizer;
static const void *moved_gleed_detokenizer;
static const void *moved_gleed_sampler;
static const void *moved_gleed_grammar;
static const void *moved_gleed_trie;
static const void *moved_gleed_matcher;
static const void *moved_gleed_trie_build;
static const void *moved_gleed_grammar_build;
static const void *moved_gleed_writing;
static const void *moved_gleed_stops;
static const void *moved_gleed_calls;
static const void *moved_gleed_guesses;
static const void *moved_gleed_desk;
static const void *moved_gleed_conversation;

/* Scratch that is large enough, whose contents mean nothing. */
static uint32_t large[1 << 19];

/* The results that the calls could write to: all of them must stay as they are. */
static struct outputs {
    size_t size;
    uint32_t id;
    uint64_t number;
    float probability;
    const float *logits;
    const gleed_model *model;
    const gleed_adapter *adapter;
    const char *string;
    gleed_engine *engine;
    const gleed_tokenizer *tokenizer;
    gleed_detokenizer *detokenizer;
    gleed_sampler *sampler;
    const gleed_grammar *grammar;
    const gleed_trie *trie;
    gleed_matcher *matcher;
    gleed_trie_build *build;
    gleed_grammar_build *making;
    gleed_writing *writing;
    gleed_stops *stops;
    gleed_calls *calls;
    gleed_guesses *guesses;
    gleed_desk *desk;
    gleed_conversation *conversation;
    gleed_entry entry;
    uint32_t ids[8];
    uint8_t bytes[8];
    char text[8];
    float keys[8];
    _Alignas(64) uint64_t memory[64];
} outputs, outputs_before;

static const uint64_t zeros[2] = {0, 0};

static const void *moved(const void *object, size_t size, size_t align)
{
    return memcpy(aligned(size, align), object, size);
}

/* Returns a struct of which only struct_size is set. */
static void *sized(uint32_t size)
{
    static uint64_t bytes[160];
    memset(bytes, 0, sizeof bytes);
    memcpy(bytes, &size, sizeof size);
    return bytes;
}

/* Returns such a struct in other memory, for calls with two of them. */
static void *sized_again(uint32_t size)
{
    static uint64_t bytes[160];
    memset(bytes, 0, sizeof bytes);
    memcpy(bytes, &size, sizeof size);
    return bytes;
}

/* Returns a struct of a later version, with a field set that this version does not know. */
static void *longer(uint32_t known)
{
    char *bytes = sized(known + 8);
    bytes[known + 5] = 1;
    return bytes;
}

static int32_t sink(void *ctx, const uint8_t *bytes, size_t len)
{
    (void)ctx;
    (void)bytes;
    (void)len;
    return 0;
}

static size_t source(void *ctx, uint8_t *bytes, size_t len)
{
    (void)ctx;
    (void)bytes;
    (void)len;
    return 0;
}

static void for_all(void *ctx, uint32_t n, gleed_body body, void *arg)
{
    uint32_t i;
    (void)ctx;
    for (i = 0; i < n; i++)
        body(arg, i);
}

static int line;

#define REFUSED(expected, call)                                                                                \
    do {                                                                                                       \
        line++;                                                                                                \
        {                                                                                                      \
            gleed_status got_ = (call);                                                                        \
            if (got_ != (expected)) {                                                                          \
                fprintf(stderr, "call %d: %s: %d instead of %s: %s\n", line, #call, (int)got_, #expected,      \
                        error.text);                                                                           \
                failures++;                                                                                    \
            }                                                                                                  \
            if (memcmp(&outputs, &outputs_before, sizeof outputs) != 0) {                                      \
                fprintf(stderr, "call %d: %s: has written\n", line, #call);                                    \
                exit(1);                                                                                       \
            }                                                                                                  \
        }                                                                                                      \
    } while (0)

static int failures;

static void wrong_arguments(void)
{
    gleed_config config = {sizeof config, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    gleed_plan_info plan_info = {sizeof plan_info, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    gleed_section section = {sizeof section, 0, 0, 0, ""};
    gleed_model_info model_info = {sizeof model_info, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, "", ""};
    gleed_adapter_info adapter_info = {sizeof adapter_info, 0};
    gleed_engine_info engine_info;
    gleed_metrics metrics;
    gleed_seq_info seq_info = {sizeof seq_info, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    gleed_executor executor = {sizeof executor, 0, for_all, NULL};
    gleed_cache_policy policy = {sizeof policy, 0, NULL, NULL, NULL, NULL};
    gleed_budget budget = {sizeof budget, 0, 1, 0, NULL, NULL, NULL};
    gleed_snapshot_options options = {sizeof options, 0, NULL, 0, 0, 0};
    gleed_snapshot_info snapshot_info;
    gleed_sampler_params params = {sizeof params, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    gleed_vocab_info vocab_info = {sizeof vocab_info, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    gleed_turns_info turns_info = {sizeof turns_info, 0, ""};
    gleed_message message = {GLEED_ROLE_USER, 0, "a", 1};
    gleed_part part = {file, file_len};
    gleed_bias bias = {5, 1.0f};
    gleed_grammar_options grammar_options = {sizeof grammar_options, 0, 0, 0, 0, 0, NULL, 0, 0, 0, 0, 0, NULL, 0, NULL};
    gleed_matcher_limits limits = {sizeof limits, 0, 0, 0, 0, 0};
    gleed_writing_info writing_info = {sizeof writing_info, 0, 0, 0, 0, 0, 0};
    gleed_shown shown = {sizeof shown, 0, NULL, 0, 0};
    gleed_calls_part calls_part = {sizeof calls_part, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    gleed_string string = {"a", 1};
    gleed_entry entry = {GLEED_ROLE_USER, 0, "a", 1, NULL, 0, NULL, 0};
    gleed_desk_limits desk_limits = {sizeof desk_limits, 0, 0, 0, 0, 0};
    gleed_conversation_limits conversation_limits = {sizeof conversation_limits, 0, 0, 0};
    gleed_script script = {sizeof script, GLEED_NO_TURNS, 0, 0, NULL, 0, NULL, 0};
    gleed_keep keep = {sizeof keep, 0, 0, 0, 0, 0, NULL, NULL};
    gleed_update update = {sizeof update, 0, NULL, 0, 0, 0};
    float in_logits[4] = {1, 2, 3, 4};
    gleed_seq const_seq = seqs[0];

    const gleed_model *a_const_gleed_model_p = some_gleed_model;
    const gleed_adapter *a_const_gleed_adapter_p = some_gleed_adapter;
    gleed_engine *a_gleed_engine_p = some_gleed_engine;
    const gleed_engine *a_const_gleed_engine_p = some_gleed_engine;
    const gleed_tokenizer *a_const_gleed_tokenizer_p = some_gleed_tokenizer;
    gleed_detokenizer *a_gleed_detokenizer_p = some_gleed_detokenizer;
    gleed_sampler *a_gleed_sampler_p = some_gleed_sampler;
    const gleed_sampler *a_const_gleed_sampler_p = some_gleed_sampler;
    gleed_matcher *a_gleed_matcher_p = some_gleed_matcher;
    const gleed_matcher *a_const_gleed_matcher_p = some_gleed_matcher;
    const gleed_grammar *a_const_gleed_grammar_p = some_gleed_grammar;
    const gleed_trie *a_const_gleed_trie_p = some_gleed_trie;
    gleed_trie_build *a_gleed_trie_build_p = some_gleed_trie_build;
    const gleed_trie_build *a_const_gleed_trie_build_p = some_gleed_trie_build;
    gleed_trie_build **a_gleed_trie_build_pp = &outputs.build;
    gleed_grammar_build *a_gleed_grammar_build_p = some_gleed_grammar_build;
    const gleed_grammar_build *a_const_gleed_grammar_build_p = some_gleed_grammar_build;
    gleed_grammar_build **a_gleed_grammar_build_pp = &outputs.making;
    gleed_writing *a_gleed_writing_p = some_gleed_writing;
    const gleed_writing *a_const_gleed_writing_p = some_gleed_writing;
    gleed_writing_info *a_gleed_writing_info_p = &writing_info;
    gleed_writing **a_gleed_writing_pp = &outputs.writing;
    gleed_stops *a_gleed_stops_p = some_gleed_stops;
    gleed_calls *a_gleed_calls_p = some_gleed_calls;
    gleed_guesses *a_gleed_guesses_p = some_gleed_guesses;
    const gleed_guesses *a_const_gleed_guesses_p = some_gleed_guesses;
    gleed_desk *a_gleed_desk_p = some_gleed_desk;
    gleed_conversation *a_gleed_conversation_p = some_gleed_conversation;
    const gleed_conversation *a_const_gleed_conversation_p = some_gleed_conversation;
    const gleed_entry *a_const_gleed_entry_p = &entry;
    gleed_entry *a_gleed_entry_p = &outputs.entry;
    const gleed_desk_limits *a_const_gleed_desk_limits_p = &desk_limits;
    const gleed_conversation_limits *a_const_gleed_conversation_limits_p = &conversation_limits;
    const gleed_script *a_const_gleed_script_p = &script;
    const gleed_keep *a_const_gleed_keep_p = &keep;
    gleed_update *a_gleed_update_p = &update;
    gleed_guesses **a_gleed_guesses_pp = &outputs.guesses;
    gleed_desk **a_gleed_desk_pp = &outputs.desk;
    gleed_conversation **a_gleed_conversation_pp = &outputs.conversation;
    const gleed_grammar_options *a_const_gleed_grammar_options_p = &grammar_options;
    const gleed_matcher_limits *a_const_gleed_matcher_limits_p = &limits;
    gleed_shown *a_gleed_shown_p = &shown;
    gleed_calls_part *a_gleed_calls_part_p = &calls_part;
    const gleed_string *a_const_gleed_string_p = &string;
    const gleed_grammar **a_const_gleed_grammar_pp = &outputs.grammar;
    const gleed_trie **a_const_gleed_trie_pp = &outputs.trie;
    gleed_matcher **a_gleed_matcher_pp = &outputs.matcher;
    gleed_stops **a_gleed_stops_pp = &outputs.stops;
    gleed_calls **a_gleed_calls_pp = &outputs.calls;
    char *a_char_p = outputs.text;
    const gleed_config *a_const_gleed_config_p = &config;
    gleed_plan_info *a_gleed_plan_info_p = &plan_info;
    gleed_section *a_gleed_section_p = &section;
    gleed_model_info *a_gleed_model_info_p = &model_info;
    gleed_adapter_info *a_gleed_adapter_info_p = &adapter_info;
    gleed_engine_info *a_gleed_engine_info_p = &engine_info;
    gleed_metrics *a_gleed_metrics_p = &metrics;
    gleed_seq_info *a_gleed_seq_info_p = &seq_info;
    const gleed_executor *a_const_gleed_executor_p = &executor;
    const gleed_cache_policy *a_const_gleed_cache_policy_p = &policy;
    const gleed_budget *a_const_gleed_budget_p = &budget;
    const gleed_snapshot_options *a_const_gleed_snapshot_options_p = &options;
    gleed_snapshot_info *a_gleed_snapshot_info_p = &snapshot_info;
    const gleed_sampler_params *a_const_gleed_sampler_params_p = &params;
    gleed_vocab_info *a_gleed_vocab_info_p = &vocab_info;
    gleed_turns_info *a_gleed_turns_info_p = &turns_info;
    const gleed_message *a_const_gleed_message_p = &message;
    const gleed_part *a_const_gleed_part_p = &part;
    const gleed_bias *a_const_gleed_bias_p = &bias;
    const gleed_seq *a_const_gleed_seq_p = &const_seq;
    gleed_seq a_gleed_seq = seqs[0];
    gleed_seq *a_gleed_seq_p = &outputs.id;
    size_t *a_size_t_p = &outputs.size;
    const size_t one = 1, *a_const_size_t_p = &one;
    uint32_t *a_uint32_t_p = &outputs.id;
    uint64_t *a_uint64_t_p = &outputs.number;
    float *a_float_p = outputs.keys;
    const float **a_const_float_pp = &outputs.logits;
    const gleed_model **a_const_gleed_model_pp = &outputs.model;
    const gleed_adapter **a_const_gleed_adapter_pp = &outputs.adapter;
    const char **a_const_char_pp = &outputs.string;
    gleed_engine **a_gleed_engine_pp = &outputs.engine;
    const gleed_tokenizer **a_const_gleed_tokenizer_pp = &outputs.tokenizer;
    gleed_detokenizer **a_gleed_detokenizer_pp = &outputs.detokenizer;
    gleed_sampler **a_gleed_sampler_pp = &outputs.sampler;
    const uint32_t *a_const_uint32_t_p = PROMPT;
    const uint8_t *a_const_uint8_t_p = file;
    uint8_t *a_uint8_t_p = outputs.bytes;
    const char *a_const_char_p = "a";
    char *out_text = outputs.text;
    uint32_t *ids = outputs.ids;
    gleed_sink a_gleed_sink = sink;
    gleed_source a_gleed_source = source;
    gleed_consent a_gleed_consent = NULL;
    gleed_clock a_gleed_clock = NULL;
    void *a_void_p = outputs.memory;

    memset(&engine_info, 0, sizeof engine_info);
    engine_info.struct_size = sizeof engine_info;
    memset(&metrics, 0, sizeof metrics);
    metrics.struct_size = sizeof metrics;
    memset(&snapshot_info, 0, sizeof snapshot_info);
    snapshot_info.struct_size = sizeof snapshot_info;
    memset(&outputs, 0xa5, sizeof outputs);
    memcpy(&outputs_before, &outputs, sizeof outputs);

/* CALLS */
    CHECK(failures == 0);
}

/* The work of a thread: computes a hash from objects that all threads share. */
static void *look(void *arg)
{
    uint64_t *result = arg;
    gleed_model_info info = {sizeof info, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, "", ""};
    gleed_config config = {sizeof config, 1, 32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    uint32_t scratch[2000], ids[32];
    const float *logits = NULL;
    gleed_engine *engine;
    gleed_seq seq;
    size_t count = 0, len = 0;
    uint64_t hash = START;
    int round;
    for (round = 0; round < 20; round++) {
        uint64_t part = state_of(some_gleed_engine, seqs, 1);
        DO(gleed_model_describe(some_gleed_model, &info, &error));
        DO(gleed_encode(some_gleed_tokenizer, "Once upon a time", 16, GLEED_ENCODE_ADD_SPECIAL, scratch, 2000, ids, 32,
                        &count, &error));
        hash = fnv(fnv(fnv(hash, &part, sizeof part), &info, sizeof info), ids, count * sizeof *ids);
    }
    /* Each thread has an engine of its own over the same model. */
    engine = start_engine(some_gleed_model, &config);
    DO(gleed_seq_open(engine, &seq, &error));
    DO(gleed_prefill(engine, seq, ids, count, &logits, &len, &error));
    *result = fnv(hash, logits, len * sizeof *logits);
    return NULL;
}

static void threads(void)
{
    pthread_t thread[4];
    uint64_t results[4];
    int i;
    for (i = 0; i < 4; i++)
        CHECK(pthread_create(&thread[i], NULL, look, &results[i]) == 0);
    for (i = 0; i < 4; i++)
        CHECK(pthread_join(thread[i], NULL) == 0 && results[i] == results[0]);
}

int main(int argc, char **argv)
{
    const float *logits = NULL;
    const gleed_string stop = {"stop", 4};
    size_t size, align, len = 0;
    CHECK(argc == 2);
    file = read_file(argv[1], &file_len);
    some_gleed_model = open_model(file, file_len);
    adapter_file = make_adapter(2, 1, &adapter_len);
    DO(gleed_model_size(&size, &align, &error));
    moved_gleed_model = moved(some_gleed_model, size, align);
    some_gleed_adapter = open_adapter(some_gleed_model, adapter_file, adapter_len);
    DO(gleed_adapter_size(&size, &align, &error));
    moved_gleed_adapter = moved(some_gleed_adapter, size, align);
    some_gleed_engine = start_engine(some_gleed_model, NULL);
    some_gleed_layer = start_engine(some_gleed_model, NULL);
    some_gleed_tokenizer = start_tokenizer(some_gleed_model);
    DO(gleed_tokenizer_size(some_gleed_model, &size, &align, &error));
    moved_gleed_tokenizer = moved(some_gleed_tokenizer, size, align);
    some_gleed_sampler = start_sampler(NULL);
    DO(gleed_sampler_size(&size, &align, &error));
    moved_gleed_sampler = moved(some_gleed_sampler, size, align);
    DO(gleed_detokenizer_size(&size, &align, &error));
    DO(gleed_detokenizer_init(some_gleed_tokenizer, 0, aligned(size, align), size, &some_gleed_detokenizer, &error));
    moved_gleed_detokenizer = moved(some_gleed_detokenizer, size, align);
    some_gleed_grammar = start_grammar("{}", NULL);
    some_gleed_trie = start_trie(some_gleed_tokenizer);
    some_gleed_matcher = start_matcher(some_gleed_grammar, NULL);
    some_gleed_stops = start_stops(&stop, 1);
    some_gleed_calls = start_calls("hermes", 0, "[]");
    some_gleed_desk = start_desk(some_gleed_tokenizer, NULL);
    /* Copies of the heads suffice: only the head of a moved object is read. */
    moved_gleed_grammar = moved(some_gleed_grammar, 64, 64);
    moved_gleed_trie = moved(some_gleed_trie, 64, 64);
    moved_gleed_matcher = moved(some_gleed_matcher, 64, 64);
    moved_gleed_stops = moved(some_gleed_stops, 64, 64);
    moved_gleed_calls = moved(some_gleed_calls, 32, 64);
    moved_gleed_desk = moved(some_gleed_desk, 64, 64);
    DO(gleed_seq_open(some_gleed_engine, &seqs[0], &error));
    DO(gleed_prefill(some_gleed_engine, seqs[0], PROMPT, 5, &logits, &len, &error));
    some_gleed_conversation = start_conversation(some_gleed_engine, seqs[0], NULL);
    some_gleed_guesses = start_guesses(some_gleed_engine, seqs[0], 4, 100);
    moved_gleed_guesses = moved(some_gleed_guesses, 64, 64);
    moved_gleed_conversation = moved(some_gleed_conversation, 64, 64);
    DO(gleed_plan(some_gleed_model, NULL, &size, &align, &error));
    moved_gleed_engine = moved(some_gleed_engine, size, align);
    some_gleed_trie_build = start_build(some_gleed_tokenizer, large, sizeof large / sizeof *large);
    moved_gleed_trie_build = moved(some_gleed_trie_build, 64, 64);
    some_gleed_grammar_build = start_grammar_build("{}", large, sizeof large / sizeof *large);
    moved_gleed_grammar_build = moved(some_gleed_grammar_build, 64, 64);
    some_gleed_writing = start_writing(some_gleed_engine, seqs[0], some_gleed_grammar, NULL);
    moved_gleed_writing = moved(some_gleed_writing, 64, 64);
    before = state_of(some_gleed_engine, seqs, 1);
    wrong_arguments();
    CHECK(state_of(some_gleed_engine, seqs, 1) == before);
    threads();
    CHECK(state_of(some_gleed_engine, seqs, 1) == before);
    printf("refused, and nothing has changed\n");
    return 0;
}
