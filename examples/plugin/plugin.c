/*
 * A plugin that tells stories while audio runs: in a quarter of each buffer's time, or at a pace that is the same on every
 * machine. It allocates when it is created and activated, and never while it processes.
 */
#define _POSIX_C_SOURCE 200112L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "gleed.h"
#include "plugin.h"

#define SHARE 0.25
#define CONTEXT 256
#define MAX_PROMPT 64
/* Largest number of tokens of one character. */
#define MAX_SPELLING 4

static const char PROMPT[] = "Once upon a time";

struct plugin {
    uint8_t *file;
    /* The memory that malloc returned for each object. */
    void *memory[5];
    const gleed_model *model;
    const gleed_tokenizer *tokenizer;
    gleed_detokenizer *detokenizer;
    gleed_sampler *sampler;
    gleed_engine *engine;
    gleed_seq seq;
    uint32_t prompt[MAX_PROMPT];
    size_t prompt_len, told; /* told: tokens of the story, including the prompt; 0 if no story has begun */
    uint32_t last;           /* the last token of the story, if it was chosen */
    int has_logits;
    size_t vocab; /* number of logits, and of elements of scratch */
    uint64_t *scratch;
    char *text;
    size_t text_len;
    double frames_per_second;
    double units_per_frame, units; /* if units_per_frame is 0, the clock ends a step */
    gleed_error error;
};

static uint64_t nanoseconds(void *ctx)
{
    struct timespec time;
    (void)ctx;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

/* ---- Memory and files: only before audio runs ----------------------------------------------------------- */

/* The memory is written to, so that the system need not provide pages while audio runs. */
static void *memory(struct plugin *plugin, int slot, size_t size, size_t align)
{
    char *bytes;
    free(plugin->memory[slot]);
    bytes = plugin->memory[slot] = malloc(size + align);
    if (bytes == NULL)
        return NULL;
    memset(bytes, 0, size + align);
    return bytes + (align - (uintptr_t)bytes % align) % align;
}

static size_t read_file(struct plugin *plugin, const char *path)
{
    FILE *file = fopen(path, "rb");
    size_t len = 0;
    long end;
    if (file == NULL)
        return 0;
    if (fseek(file, 0, SEEK_END) == 0 && (end = ftell(file)) > 0 && fseek(file, 0, SEEK_SET) == 0 &&
        (plugin->file = malloc((size_t)end)) != NULL)
        len = fread(plugin->file, 1, (size_t)end, file);
    fclose(file);
    return len;
}

static int failed(const struct plugin *plugin, gleed_status status, char *why, size_t why_len)
{
    if (status == GLEED_OK)
        return 0;
    snprintf(why, why_len, "%s", plugin->error.text[0] != '\0' ? plugin->error.text : gleed_status_text(status));
    return -1;
}

static void destroy(void *ctx)
{
    struct plugin *plugin = ctx;
    size_t i;
    if (plugin == NULL)
        return;
    for (i = 0; i < sizeof plugin->memory / sizeof *plugin->memory; i++)
        free(plugin->memory[i]);
    free(plugin->scratch);
    free(plugin->text);
    free(plugin->file);
    free(plugin);
}

static gleed_status open_all(struct plugin *plugin, size_t len)
{
    gleed_model_info info = {.struct_size = sizeof info};
    gleed_vocab_info vocab = {.struct_size = sizeof vocab};
    uint32_t scratch[1000];
    size_t size, align;
    gleed_status status = gleed_model_size(&size, &align, &plugin->error);
    if (status == GLEED_OK)
        status = gleed_model_open(plugin->file, len, memory(plugin, 0, size, align), size, &plugin->model, &plugin->error);
    if (status == GLEED_OK)
        status = gleed_model_describe(plugin->model, &info, &plugin->error);
    if (status == GLEED_OK)
        status = gleed_tokenizer_size(plugin->model, &size, &align, &plugin->error);
    if (status == GLEED_OK)
        status = gleed_tokenizer_init(plugin->model, memory(plugin, 1, size, align), size, &plugin->tokenizer,
                                      &plugin->error);
    if (status == GLEED_OK)
        status = gleed_encode(plugin->tokenizer, PROMPT, sizeof PROMPT - 1, GLEED_ENCODE_ADD_SPECIAL, scratch, 1000,
                              plugin->prompt, MAX_PROMPT, &plugin->prompt_len, &plugin->error);
    if (status == GLEED_OK)
        status = gleed_tokenizer_describe(plugin->tokenizer, &vocab, &plugin->error);
    plugin->vocab = info.vocab;
    /* The text of an event may contain the prompt, too. */
    plugin->text_len = vocab.max_text + sizeof PROMPT;
    return status;
}

static void *create(const char *path, char *why, size_t why_len)
{
    struct plugin *plugin = calloc(1, sizeof *plugin);
    size_t len = plugin != NULL ? read_file(plugin, path) : 0;
    if (len == 0) {
        snprintf(why, why_len, "%s cannot be read", path);
    } else {
        plugin->error.struct_size = sizeof plugin->error;
        if (failed(plugin, open_all(plugin, len), why, why_len) == 0) {
            plugin->scratch = calloc(plugin->vocab, sizeof *plugin->scratch);
            plugin->text = calloc(plugin->text_len, 1);
            if (plugin->scratch != NULL && plugin->text != NULL)
                return plugin;
            snprintf(why, why_len, "out of memory");
        }
    }
    destroy(plugin);
    return NULL;
}

static int activate(void *ctx, double frames_per_second, double tokens_per_second, char *why, size_t why_len)
{
    /* The second sequence is for a loaded story. */
    const gleed_config config = {.struct_size = sizeof config, .sequences = 2, .context = CONTEXT, .rows = 16};
    gleed_plan_info plan = {.struct_size = sizeof plan};
    const gleed_sampler_params params = {.struct_size = sizeof params, .temperature = 0.6f, .min_p = 0.05f, .seed = 1};
    struct plugin *plugin = ctx;
    size_t size, align;
    gleed_status status = gleed_plan_describe(plugin->model, &config, &plan, &plugin->error);
    plugin->frames_per_second = frames_per_second;
    plugin->units_per_frame = tokens_per_second * (double)plan.units_per_token / frames_per_second;
    plugin->units = 0;
    plugin->told = 0;
    plugin->has_logits = 0;
    if (status == GLEED_OK)
        status = gleed_plan(plugin->model, &config, &size, &align, &plugin->error);
    if (status == GLEED_OK)
        status = gleed_engine_init(plugin->model, &config, memory(plugin, 2, size, align), size, &plugin->engine,
                                   &plugin->error);
    if (status == GLEED_OK)
        status = gleed_seq_open(plugin->engine, &plugin->seq, &plugin->error);
    if (status == GLEED_OK)
        status = gleed_sampler_size(&size, &align, &plugin->error);
    if (status == GLEED_OK)
        status = gleed_sampler_init(&params, memory(plugin, 3, size, align), size, &plugin->sampler, &plugin->error);
    if (status == GLEED_OK)
        status = gleed_detokenizer_size(&size, &align, &plugin->error);
    if (status == GLEED_OK)
        status = gleed_detokenizer_init(plugin->tokenizer, GLEED_DECODE_CONTINUES, memory(plugin, 4, size, align), size,
                                        &plugin->detokenizer, &plugin->error);
    return failed(plugin, status, why, why_len);
}

/* ---- Audio runs: no memory, no files, no locks ----------------------------------------------------------- */

/* Begins a new story. The event is its beginning. */
static int begin(struct plugin *plugin, struct plugin_event *event)
{
    size_t len = 0, start = plugin->told > 0;
    gleed_status status = gleed_detokenizer_finish(plugin->detokenizer, plugin->text, plugin->text_len, &len, NULL);
    if (status == GLEED_OK)
        status = gleed_reset(plugin->engine, plugin->seq, NULL);
    if (status == GLEED_OK)
        status = gleed_queue(plugin->engine, plugin->seq, plugin->prompt, plugin->prompt_len, GLEED_LOGITS_LAST, NULL);
    if (status != GLEED_OK)
        return -1;
    if (start)
        plugin->text[len++] = '\n';
    memcpy(plugin->text + len, PROMPT, sizeof PROMPT - 1);
    event->text = plugin->text;
    event->len = len + sizeof PROMPT - 1;
    plugin->told = plugin->prompt_len;
    return 1;
}

/* Chooses the next token. The event is the text that it completes. */
static int go_on(struct plugin *plugin, struct plugin_event *event)
{
    const float *logits;
    size_t len;
    uint32_t token, kind, is_end;
    gleed_status status = gleed_logits(plugin->engine, plugin->seq, &logits, &len, NULL);
    if (status == GLEED_OK)
        status = gleed_sample(plugin->sampler, logits, len, plugin->scratch, plugin->vocab, &token, NULL, NULL);
    if (status == GLEED_OK)
        status = gleed_token_kind(plugin->tokenizer, token, &kind, &is_end, NULL);
    if (status != GLEED_OK)
        return -1;
    if (is_end || plugin->told == CONTEXT)
        return begin(plugin, event);
    status = gleed_detokenize(plugin->detokenizer, plugin->tokenizer, token, plugin->text, plugin->text_len, &event->len,
                              NULL);
    if (status == GLEED_OK)
        status = gleed_queue(plugin->engine, plugin->seq, &token, 1, GLEED_LOGITS_LAST, NULL);
    event->text = plugin->text;
    plugin->last = token;
    plugin->told++;
    return status == GLEED_OK ? 1 : -1;
}

/* Returns 0 if the budget is less than one unit. The fraction of a unit counts for the next buffer. */
static int has_budget(struct plugin *plugin, uint32_t frames, gleed_budget *budget)
{
    if (plugin->units_per_frame > 0) {
        plugin->units += plugin->units_per_frame * frames;
        budget->units = (uint64_t)plugin->units;
        plugin->units -= (double)budget->units;
        return budget->units > 0;
    }
    budget->clock = nanoseconds;
    budget->deadline = nanoseconds(NULL) + (uint64_t)(SHARE * 1e9 * frames / plugin->frames_per_second);
    return 1;
}

static int process(void *ctx, uint32_t frames, struct plugin_event *event)
{
    struct plugin *plugin = ctx;
    gleed_budget budget = {.struct_size = sizeof budget};
    gleed_status status;
    int result = 0;
    /* With a large vocabulary the choice takes long, so it comes first in a call and not last. */
    if (plugin->told == 0)
        result = begin(plugin, event);
    else if (plugin->has_logits)
        result = go_on(plugin, event);
    plugin->has_logits = 0;
    if (result < 0)
        return result;
    if (!has_budget(plugin, frames, &budget))
        return result;
    status = gleed_step(plugin->engine, &budget, NULL);
    plugin->has_logits = status == GLEED_READY;
    return status < 0 ? -1 : result;
}

/* ---- Saved stories: on another thread, but not at the same time ------------------------------------------- */

/* Queues the tokens of the story after the first `have`. */
static gleed_status queue_rest(struct plugin *plugin, gleed_seq seq, size_t told, const uint32_t *last, size_t have)
{
    if (told > plugin->prompt_len)
        return gleed_queue(plugin->engine, seq, last, 1, GLEED_LOGITS_LAST, NULL);
    return gleed_queue(plugin->engine, seq, plugin->prompt + have, plugin->prompt_len - have, GLEED_LOGITS_LAST, NULL);
}

/*
 * Takes back tokens that are not computed, and the last token, because its logits are not saved. *have receives the number of
 * tokens that stay.
 */
static gleed_status pause(struct plugin *plugin, size_t *have)
{
    gleed_seq_info info = {.struct_size = sizeof info};
    gleed_status status = gleed_cancel(plugin->engine, plugin->seq, NULL);
    if (status == GLEED_OK)
        status = gleed_seq_describe(plugin->engine, plugin->seq, &info, NULL);
    *have = info.tokens < plugin->told ? info.tokens : plugin->told - 1;
    if (status == GLEED_OK)
        status = gleed_rewind(plugin->engine, plugin->seq, *have, NULL);
    plugin->has_logits = 0;
    return status;
}

/* The host's bytes in the snapshot of a story. */
struct beside {
    uint64_t sampler;
    uint32_t told, last;
};

static size_t save(void *ctx, uint8_t *bytes, size_t len)
{
    struct plugin *plugin = ctx;
    struct beside beside = {0, (uint32_t)plugin->told, plugin->last};
    gleed_snapshot_options options = {.struct_size = sizeof options, .state_len = sizeof beside};
    gleed_status status, queued;
    size_t have = 0, size = 0;
    if (plugin->told == 0)
        return 0;
    status = pause(plugin, &have);
    if (status != GLEED_OK)
        return SIZE_MAX;
    if (have > 0) {
        status = gleed_sampler_state(plugin->sampler, &beside.sampler, NULL);
        options.state = (const uint8_t *)&beside;
        if (status == GLEED_OK)
            status = bytes == NULL ? gleed_snapshot_size(plugin->engine, plugin->seq, &options, &size, NULL)
                                   : gleed_snapshot(plugin->engine, plugin->seq, &options, bytes, len, &size, NULL);
    }
    queued = queue_rest(plugin, plugin->seq, plugin->told, &plugin->last, have);
    return status == GLEED_OK && queued == GLEED_OK ? size : SIZE_MAX;
}

/* Gives the last tokens to the detokenizer again. Their text was told before, but they may end within a character. */
static gleed_status read_again(struct plugin *plugin, gleed_seq seq, size_t have)
{
    uint32_t tokens[MAX_SPELLING];
    size_t first = have > plugin->prompt_len + MAX_SPELLING ? have - MAX_SPELLING : plugin->prompt_len, count, i, len;
    gleed_status status = gleed_detokenizer_finish(plugin->detokenizer, plugin->text, plugin->text_len, &len, NULL);
    count = have > first ? have - first : 0;
    if (status == GLEED_OK && count > 0)
        status = gleed_seq_tokens(plugin->engine, seq, first, tokens, count, NULL);
    for (i = 0; i < count && status == GLEED_OK; i++)
        status = gleed_detokenize(plugin->detokenizer, plugin->tokenizer, tokens[i], plugin->text, plugin->text_len, &len, NULL);
    if (status == GLEED_OK && plugin->told > plugin->prompt_len)
        status = gleed_detokenize(plugin->detokenizer, plugin->tokenizer, plugin->last, plugin->text, plugin->text_len, &len, NULL);
    return status;
}

static int load(void *ctx, const uint8_t *bytes, size_t len)
{
    struct plugin *plugin = ctx;
    gleed_snapshot_info info = {.struct_size = sizeof info};
    struct beside beside;
    gleed_seq seq;
    size_t wanted;
    if (len == 0) {
        plugin->told = 0;
        plugin->has_logits = 0;
        return gleed_cancel(plugin->engine, plugin->seq, NULL) == GLEED_OK ? 0 : -1;
    }
    if (gleed_snapshot_describe(bytes, len, &info, NULL) != GLEED_OK || info.state_len != sizeof beside)
        return -1;
    memcpy(&beside, info.state, sizeof beside);
    /* The bytes come from a file, so their numbers are not trusted. */
    wanted = beside.told > plugin->prompt_len ? beside.told - 1 : info.tokens;
    if (beside.told < plugin->prompt_len || beside.told > CONTEXT || info.tokens != wanted || info.tokens >= beside.told)
        return -1;
    if (gleed_restore(plugin->engine, NULL, bytes, len, &seq, NULL) != GLEED_OK)
        return -1;
    if (queue_rest(plugin, seq, beside.told, &beside.last, info.tokens) != GLEED_OK) {
        gleed_seq_close(plugin->engine, seq, NULL);
        return -1;
    }
    gleed_cancel(plugin->engine, plugin->seq, NULL);
    gleed_seq_close(plugin->engine, plugin->seq, NULL);
    plugin->seq = seq;
    plugin->told = beside.told;
    plugin->last = beside.last;
    plugin->has_logits = 0;
    gleed_sampler_set_state(plugin->sampler, beside.sampler, NULL);
    return read_again(plugin, seq, info.tokens) == GLEED_OK ? 0 : -1;
}

#if defined(_WIN32)
__declspec(dllexport)
#elif defined(__GNUC__)
__attribute__((visibility("default")))
#endif
const struct plugin_api plugin_api = {PLUGIN_VERSION, create, activate, process, save, load, destroy};
