/*
 * A conversation in the terminal. Each line is a turn. Lines that start with '/' are commands.
 *
 * usage: chat MODEL.gguf [OPTIONS]; chat --help lists them
 *
 * Replies go to standard output, everything else to standard error.
 */
#include <signal.h>

#include "host.h"

#define USAGE                                                                               \
    "usage: chat MODEL.gguf [OPTIONS]\n"                                                    \
    "  --format NAME     how turns are written, \"chatml\" for example; none: the model\n"       \
    "                    continues your text [default: as the model's file says]\n"       \
    "  --system TEXT     what the model is told before the conversation\n"                  \
    "  --context N       tokens of a conversation [default: the model's, at most 4096]\n"   \
    "  --tokens N        the most tokens of a reply [default: 256]\n"                       \
    "  --temperature T   0 takes the most probable token each time [default: 0.7]\n"        \
    "  --top-k K         draw from the K most probable tokens [default: 0, all]\n"          \
    "  --top-p P         draw from those that together have probability P [default: 1]\n"   \
    "  --min-p P         draw from those at least P times as probable as the first\n"       \
    "                    [default: 0.05]\n"                                                 \
    "  --penalty X       divides the logits of repeated tokens [default: 1]\n"              \
    "  --seed S          starts the random numbers [default: 0]\n"
#define COMMANDS                                                                            \
    "/reset        start over\n"                                                            \
    "/save FILE    write the conversation to a file\n"                                      \
    "/load FILE    go on with the one in a file\n"                                          \
    "/quit         or the end of the input; Ctrl-C ends a reply\n"

/* Number of last tokens that the penalties count: as many as a snapshot has room for, besides the generator. */
#define RECENT 62
#define MAX_LINE 4096

/* The host's bytes in a snapshot: the state of the sampler. */
struct memory_of_sampler {
    uint64_t generator;
    uint32_t recent[RECENT]; /* in the order of the text; GLEED_NO_TOKEN if there are fewer */
};

struct chat {
    const gleed_tokenizer *tokenizer;
    gleed_vocab_info vocab;
    gleed_detokenizer *detokenizer;
    gleed_engine *engine;
    gleed_seq seq;
    gleed_sampler *sampler;
    gleed_sampler_params params;
    uint32_t recent[RECENT];
    const char *system;
    const char *wanted; /* the name of a format, or NULL */
    uint32_t format;    /* if it is GLEED_NO_TURNS, the model continues the text */
    uint32_t adds_bos;  /* GLEED_TURNS_ADD_BOS if the file has no chat template, which would write BOS */
    unsigned long max_tokens;
    size_t context;
    uint32_t *ids; /* the tokens of the turn: `context` elements, `count` in use */
    size_t count;
    uint32_t *words; /* scratch for encoding: `words_len` elements, which grows when a text needs more */
    size_t words_len;
    char *text; /* the text that a token completes: vocab.max_text bytes */
    uint64_t *scratch; /* one element for each logit */
};

/* ---- Tokens of a turn --------------------------------------------------------------------------------- */

/* If a call needs more scratch, takes it and returns 1. */
static int has_grown(struct chat *chat, gleed_status status)
{
    if (status != GLEED_E_SCRATCH_TOO_SMALL)
        return 0;
    chat->words_len = (size_t)error.needed;
    chat->words = memory(chat->words_len * sizeof *chat->words, sizeof *chat->words);
    return 1;
}

/* Appends a plain text to the turn. */
static gleed_status append(struct chat *chat, const char *text)
{
    gleed_status status;
    size_t count = 0;
    do
        status = gleed_encode(chat->tokenizer, text, strlen(text), 0, chat->words, chat->words_len,
                              chat->ids + chat->count, chat->context - chat->count, &count, &error);
    while (has_grown(chat, status));
    chat->count += count;
    return status;
}

/*
 * Encodes the user's turn, up to the beginning of the reply. All turns but the first also close the reply before them.
 * Tokens that the sequence has are not encoded or computed again.
 */
static gleed_status encode_turn(struct chat *chat, int is_first, const char *line)
{
    const gleed_message messages[2] = {{GLEED_ROLE_SYSTEM, 0, chat->system, chat->system ? strlen(chat->system) : 0},
                                       {GLEED_ROLE_USER, 0, line, strlen(line)}};
    const size_t skip = is_first && chat->system != NULL ? 0 : 1;
    const uint32_t after = is_first ? GLEED_AFTER_NOTHING : GLEED_AFTER_REPLY;
    gleed_status status = GLEED_OK;
    chat->count = 0;
    if (chat->format == GLEED_NO_TURNS) {
        if (is_first && chat->vocab.adds_bos && chat->vocab.bos != GLEED_NO_TOKEN)
            chat->ids[chat->count++] = chat->vocab.bos;
        if (skip == 0)
            status = append(chat, chat->system);
        return status == GLEED_OK ? append(chat, line) : status;
    }
    do
        status = gleed_turns_encode(chat->tokenizer, chat->format, after, messages + skip, 2 - skip,
                                    GLEED_TURNS_REPLY | chat->adds_bos, chat->words, chat->words_len, chat->ids,
                                    chat->context, &chat->count, &error);
    while (has_grown(chat, status));
    return status;
}

static int ends_reply(struct chat *chat, uint32_t token)
{
    uint32_t kind, is_end;
    if (chat->format == GLEED_NO_TURNS)
        check(gleed_token_kind(chat->tokenizer, token, &kind, &is_end, &error), "token");
    else
        check(gleed_turns_is_stop(chat->tokenizer, chat->format, token, &is_end, &error), "token");
    return is_end != 0;
}

/* ---- The sampler and what it remembers ----------------------------------------------------------------- */

static void accept(struct chat *chat, uint32_t token)
{
    memmove(chat->recent, chat->recent + 1, sizeof chat->recent - sizeof *chat->recent);
    chat->recent[RECENT - 1] = token;
    check(gleed_sampler_accept(chat->sampler, token, &error), "sampler");
}

static void forget(struct chat *chat)
{
    memset(chat->recent, 0xff, sizeof chat->recent);
    start_sampler(&chat->sampler, &chat->params);
}

/* ---- Replies ------------------------------------------------------------------------------------------ */

/* The cancel flag of a step. An interrupt writes it. */
static uint32_t interrupted;

static void on_interrupt(int signal_number)
{
    *(volatile uint32_t *)&interrupted = 1;
    (void)signal_number;
}

/* Appends tokens. Returns GLEED_OK, or GLEED_STOPPED if Ctrl-C was pressed. */
static gleed_status advance(struct chat *chat, const uint32_t *ids, size_t count)
{
    const gleed_budget budget = {.struct_size = sizeof budget, .cancel = &interrupted};
    gleed_status status = gleed_queue(chat->engine, chat->seq, ids, count, GLEED_LOGITS_LAST, &error);
    if (status != GLEED_OK)
        return status;
    /* One sequence has one row of logits, so one step computes everything. */
    status = gleed_step(chat->engine, &budget, &error);
    if (status == GLEED_STOPPED)
        check(gleed_cancel(chat->engine, chat->seq, &error), "cancel");
    return status == GLEED_READY ? GLEED_OK : status;
}

/* Appends the turn. If it is not finished, takes it back. */
static gleed_status listen(struct chat *chat, size_t tokens_before)
{
    gleed_status status = advance(chat, chat->ids, chat->count);
    size_t i;
    if (status != GLEED_OK)
        check(gleed_rewind(chat->engine, chat->seq, tokens_before, &error), "rewind");
    for (i = 0; i < chat->count && status == GLEED_OK; i++)
        accept(chat, chat->ids[i]);
    return status;
}

/* Prints a reply while it is generated. */
static gleed_status speak(struct chat *chat)
{
    gleed_status status = GLEED_OK;
    const float *logits;
    size_t len, vocab;
    unsigned long tokens;
    uint32_t token;
    for (tokens = 0; tokens < chat->max_tokens && status == GLEED_OK; tokens++) {
        check(gleed_logits(chat->engine, chat->seq, &logits, &vocab, &error), "logits");
        status = gleed_sample(chat->sampler, logits, vocab, chat->scratch, vocab, &token, NULL, &error);
        if (status != GLEED_OK || ends_reply(chat, token))
            return status;
        check(gleed_detokenize(chat->detokenizer, chat->tokenizer, token, chat->text, chat->vocab.max_text, &len, &error),
              "text");
        fwrite(chat->text, 1, len, stdout);
        fflush(stdout);
        accept(chat, token);
        status = advance(chat, &token, 1);
    }
    return status;
}

static void reply(struct chat *chat, const char *line)
{
    gleed_seq_info info = {.struct_size = sizeof info};
    gleed_status status;
    size_t len;
    char rest[3];
    check(gleed_seq_describe(chat->engine, chat->seq, &info, &error), "sequence");
    status = encode_turn(chat, info.tokens == 0, line);
    if (status == GLEED_OK)
        status = gleed_can_extend(chat->engine, chat->seq, chat->count + 1, &error);
    if (status == GLEED_E_CONTEXT || status == GLEED_E_OUTPUT_TOO_SMALL)
        fprintf(stderr, "error: no room for this turn: the conversation has %u of %lu tokens (/reset starts over)\n",
                (unsigned)info.tokens, (unsigned long)chat->context);
    else if (status != GLEED_OK)
        fprintf(stderr, "error: %s\n", reason(status));
    if (status != GLEED_OK)
        return;
    interrupted = 0;
    start_detokenizer(&chat->detokenizer, chat->tokenizer);
    signal(SIGINT, on_interrupt);
    status = listen(chat, info.tokens);
    if (status == GLEED_OK)
        status = speak(chat);
    signal(SIGINT, SIG_DFL);
    check(gleed_detokenizer_finish(chat->detokenizer, rest, sizeof rest, &len, &error), "text");
    fwrite(rest, 1, len, stdout);
    putchar('\n');
    fflush(stdout);
    if (status == GLEED_E_CONTEXT)
        fprintf(stderr, "[the context of %lu tokens is full: /reset starts over]\n", (unsigned long)chat->context);
    else if (status != GLEED_OK)
        fprintf(stderr, "[%s]\n", reason(status));
}

/* ---- Commands ----------------------------------------------------------------------------------------- */

static void reset(struct chat *chat)
{
    check(gleed_reset(chat->engine, chat->seq, &error), "reset");
    forget(chat);
    fprintf(stderr, "[a new conversation]\n");
}

static void save(struct chat *chat, const char *path)
{
    struct memory_of_sampler remembered;
    gleed_snapshot_options options = {
        .struct_size = sizeof options, .state = (const uint8_t *)&remembered, .state_len = sizeof remembered};
    gleed_status status;
    uint64_t written = 0;
    FILE *file = fopen(path, "wb");
    if (file == NULL) {
        fprintf(stderr, "error: %s: %s\n", path, strerror(errno));
        return;
    }
    check(gleed_sampler_state(chat->sampler, &remembered.generator, &error), "sampler");
    memcpy(remembered.recent, chat->recent, sizeof remembered.recent);
    status = gleed_snapshot_write(chat->engine, chat->seq, &options, write_to_file, file, &written, &error);
    if (fclose(file) != 0 && status == GLEED_OK)
        fprintf(stderr, "error: %s: %s\n", path, strerror(errno));
    else if (status != GLEED_OK)
        fprintf(stderr, "error: %s: %s\n", path, reason(status));
    else
        fprintf(stderr, "[%lu bytes saved]\n", (unsigned long)written);
}

/* Closes the old conversation after the new one is open, so the engine has two sequences. */
static void load(struct chat *chat, const char *path)
{
    struct memory_of_sampler remembered;
    gleed_snapshot_info info = {.struct_size = sizeof info};
    gleed_status status;
    gleed_seq seq;
    size_t i;
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        fprintf(stderr, "error: %s: %s\n", path, strerror(errno));
        return;
    }
    status = gleed_snapshot_read(chat->engine, NULL, read_from_file, file, &seq, &info, &error);
    fclose(file);
    if (status != GLEED_OK) {
        fprintf(stderr, "error: %s: %s\n", path, reason(status));
        return;
    }
    check(gleed_seq_close(chat->engine, chat->seq, &error), "close");
    chat->seq = seq;
    forget(chat);
    if (info.state_len == sizeof remembered) {
        memcpy(&remembered, info.state, sizeof remembered);
        for (i = 0; i < RECENT; i++)
            if (remembered.recent[i] < chat->vocab.tokens)
                accept(chat, remembered.recent[i]);
        check(gleed_sampler_set_state(chat->sampler, remembered.generator, &error), "sampler");
    }
    fprintf(stderr, "[%u tokens loaded]\n", (unsigned)info.tokens);
}

/* Runs a command. Returns 0 at the end of the conversation. */
static int command(struct chat *chat, char *line)
{
    char *argument = line + strcspn(line, " ");
    if (*argument != '\0')
        *argument++ = '\0';
    if (strcmp(line, "/quit") == 0)
        return 0;
    if (strcmp(line, "/reset") == 0)
        reset(chat);
    else if ((strcmp(line, "/save") == 0 || strcmp(line, "/load") == 0) && *argument == '\0')
        fprintf(stderr, "error: %s: a file's name is missing\n", line);
    else if (strcmp(line, "/save") == 0)
        save(chat, argument);
    else if (strcmp(line, "/load") == 0)
        load(chat, argument);
    else
        fprintf(stderr, strcmp(line, "/help") == 0 ? COMMANDS : "error: no such command; /help lists them\n");
    return 1;
}

static void converse(struct chat *chat)
{
    static char line[MAX_LINE];
    int goes_on = 1;
    while (goes_on) {
        size_t len;
        fprintf(stderr, "> ");
        if (fgets(line, sizeof line, stdin) == NULL)
            break;
        len = strcspn(line, "\r\n");
        if (line[len] == '\0' && len + 1 == sizeof line) {
            int c;
            while ((c = getchar()) != EOF && c != '\n') {
            }
            fprintf(stderr, "error: a line has at most %d bytes\n", MAX_LINE - 2);
            continue;
        }
        line[len] = '\0';
        if (line[0] == '/')
            goes_on = command(chat, line);
        else if (len > 0)
            reply(chat, line);
    }
}

/* ---- Start -------------------------------------------------------------------------------------------- */

static void wrong_usage(const char *what, const char *which)
{
    fprintf(stderr, "chat: %s %s\n" USAGE, what, which);
    exit(2);
}

static double number(const char *option, const char *text, double most)
{
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end != '\0' || !(value >= 0 && value <= most)) {
        fprintf(stderr, "chat: %s takes a number from 0 to %.0f, not %s\n", option, most, text);
        exit(2);
    }
    return value;
}

static const char *options(struct chat *chat, gleed_config *config, int argc, char **argv)
{
    const char *model = NULL;
    int i;
    chat->max_tokens = 256;
    chat->params = (gleed_sampler_params){
        .struct_size = sizeof chat->params, .temperature = 0.7f, .min_p = 0.05f, .penalty_window = RECENT};
    for (i = 1; i < argc; i++) {
        const char *option = argv[i], *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (strcmp(option, "--help") == 0) {
            fputs(USAGE "\n" COMMANDS, stdout);
            exit(flushed(0));
        }
        if (option[0] != '-' && model == NULL) {
            model = option;
            continue;
        }
        if (option[0] != '-')
            wrong_usage("one model is enough, not also", option);
        if (value == NULL)
            wrong_usage("a value is missing, or no such option:", option);
        if (strcmp(option, "--format") == 0)
            chat->wanted = value;
        else if (strcmp(option, "--system") == 0)
            chat->system = value;
        else if (strcmp(option, "--context") == 0)
            config->context = (uint32_t)number(option, value, UINT32_MAX);
        else if (strcmp(option, "--tokens") == 0)
            chat->max_tokens = (unsigned long)number(option, value, 1e9);
        else if (strcmp(option, "--temperature") == 0)
            chat->params.temperature = (float)number(option, value, 100);
        else if (strcmp(option, "--top-k") == 0)
            chat->params.top_k = (uint32_t)number(option, value, UINT32_MAX);
        else if (strcmp(option, "--top-p") == 0)
            chat->params.top_p = (float)number(option, value, 1);
        else if (strcmp(option, "--min-p") == 0)
            chat->params.min_p = (float)number(option, value, 1);
        else if (strcmp(option, "--penalty") == 0)
            chat->params.repetition_penalty = (float)number(option, value, 100);
        else if (strcmp(option, "--seed") == 0)
            chat->params.seed = (uint64_t)number(option, value, 9007199254740992.0);
        else
            wrong_usage("no such option:", option);
        i++;
    }
    if (model == NULL)
        wrong_usage("a model is", "missing");
    return model;
}

static void unknown_format(const char *name)
{
    gleed_turns_info info = {.struct_size = sizeof info};
    uint32_t format;
    fprintf(stderr, "chat: no turn format is called %s; known are none", name);
    for (format = 0; gleed_turns_describe(format, &info, &error) == GLEED_OK; format++)
        fprintf(stderr, ", %s", info.name);
    fputc('\n', stderr);
    exit(2);
}

/* Finds the wanted format, or the format of the model's file. */
static const char *choose_format(struct chat *chat, const gleed_model *model)
{
    static gleed_turns_info info = {.struct_size = sizeof info};
    const char *template;
    size_t len;
    gleed_status status = gleed_model_string(model, "tokenizer.chat_template", 23, &template, &len, &error);
    chat->format = GLEED_NO_TURNS;
    chat->adds_bos = chat->wanted != NULL || status != GLEED_OK ? GLEED_TURNS_ADD_BOS : 0;
    if (chat->wanted == NULL)
        check(gleed_turns_find(model, chat->tokenizer, &chat->format, &error), "turn format");
    else if (strcmp(chat->wanted, "none") != 0)
        check(gleed_turns_named(chat->wanted, strlen(chat->wanted), &chat->format, &error), "turn format");
    if (chat->format != GLEED_NO_TURNS) {
        check(gleed_turns_describe(chat->format, &info, &error), "turn format");
        return info.name;
    }
    if (chat->wanted != NULL && strcmp(chat->wanted, "none") != 0)
        unknown_format(chat->wanted);
    if (chat->wanted == NULL)
        fprintf(stderr, "the model's file %s; --format NAME chooses one\n",
                status == GLEED_OK ? "has a chat template that is none of the known ones"
                                   : "does not say how turns are written");
    return "none, the model continues your text";
}

int main(int argc, char **argv)
{
    static struct chat chat;
    gleed_config config = {.struct_size = sizeof config, .sequences = 2};
    gleed_plan_info plan = {.struct_size = sizeof plan};
    gleed_model_info info = {.struct_size = sizeof info};
    const char *path = options(&chat, &config, argc, argv), *format;
    const gleed_model *model = open_model(path);

    check(gleed_model_describe(model, &info, &error), path);
    check(gleed_plan_describe(model, &config, &plan, &error), "engine");
    chat.engine = start_engine(model, &config);
    chat.tokenizer = start_tokenizer(model);
    chat.vocab.struct_size = sizeof chat.vocab;
    check(gleed_tokenizer_describe(chat.tokenizer, &chat.vocab, &error), path);
    chat.context = plan.context;
    chat.ids = memory(chat.context * sizeof *chat.ids, sizeof *chat.ids);
    chat.words_len = 4000;
    chat.words = memory(chat.words_len * sizeof *chat.words, sizeof *chat.words);
    chat.text = memory(chat.vocab.max_text, 1);
    chat.scratch = memory(info.vocab * sizeof *chat.scratch, sizeof *chat.scratch);
    check(gleed_seq_open(chat.engine, &chat.seq, &error), "sequence");
    format = choose_format(&chat, model);
    forget(&chat);
    fprintf(stderr, "%s, context %lu, turn format: %s; /help lists the commands\n", path, (unsigned long)chat.context,
            format);
    converse(&chat);
    return flushed(0);
}
