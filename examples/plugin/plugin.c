/*
 * A plugin that tells stories in the time that audio leaves it: a quarter of each buffer's. It allocates when it is
 * created and activated, and never while it processes.
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

static const char PROMPT[] = "Once upon a time";

struct plugin {
    uint8_t *file;
    /* Each object, and the memory that malloc gave for it. */
    void *memory[5];
    const gleed_model *model;
    const gleed_tokenizer *tokenizer;
    gleed_detokenizer *detokenizer;
    gleed_sampler *sampler;
    gleed_engine *engine;
    gleed_seq seq;
    uint32_t prompt[MAX_PROMPT];
    size_t prompt_len, told;
    int has_logits;
    size_t vocab; /* how many logits there are, and elements of scratch */
    uint64_t *scratch;
    char *text;
    size_t text_len;
    double frames_per_second;
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

/* Written to, so that the system has no pages left to find while audio runs. */
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
    /* Room for the prompt, too. */
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

static int activate(void *ctx, double frames_per_second, char *why, size_t why_len)
{
    const gleed_config config = {.struct_size = sizeof config, .context = CONTEXT, .rows = 16};
    const gleed_sampler_params params = {.struct_size = sizeof params, .temperature = 0.6f, .min_p = 0.05f, .seed = 1};
    struct plugin *plugin = ctx;
    size_t size, align;
    gleed_status status = gleed_plan(plugin->model, &config, &size, &align, &plugin->error);
    plugin->frames_per_second = frames_per_second;
    plugin->told = 0;
    plugin->has_logits = 0;
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

/* A new story: the event is its beginning. */
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

/* Chooses the next token; the event is the text that it completes. */
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
    plugin->told++;
    return status == GLEED_OK ? 1 : -1;
}

static int process(void *ctx, uint32_t frames, struct plugin_event *event)
{
    struct plugin *plugin = ctx;
    gleed_budget budget = {.struct_size = sizeof budget, .clock = nanoseconds};
    gleed_status status;
    int result = 0;
    budget.deadline = nanoseconds(NULL) + (uint64_t)(SHARE * 1e9 * frames / plugin->frames_per_second);
    /* With a large vocabulary choosing takes long, so it is the first thing in a call and not the last. */
    if (plugin->told == 0)
        result = begin(plugin, event);
    else if (plugin->has_logits)
        result = go_on(plugin, event);
    if (result < 0)
        return result;
    status = gleed_step(plugin->engine, &budget, NULL);
    plugin->has_logits = status == GLEED_READY;
    return status < 0 ? -1 : result;
}

#if defined(_WIN32)
__declspec(dllexport)
#elif defined(__GNUC__)
__attribute__((visibility("default")))
#endif
const struct plugin_api plugin_api = {PLUGIN_VERSION, create, activate, process, destroy};
