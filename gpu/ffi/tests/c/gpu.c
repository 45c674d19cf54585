/*
 * Calls every function of gleed_gpu.h, rightly and wrongly, with a GPU that may be a driver that computes on the CPU.
 *
 * usage: gpu MODEL OTHER RECURRENT...
 * OTHER is a model that needs other kernels. Each RECURRENT is a model with recurrent layers. Ends with status 77, and the
 * reason, where there is no GPU at all.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gleed_gpu.h"

#define CHECK(condition)                                                                                                \
    do {                                                                                                                \
        if (!(condition)) {                                                                                             \
            fprintf(stderr, "%s:%d: %s (last error %d: %s)\n", __FILE__, __LINE__, #condition, error.status, error.text); \
            exit(1);                                                                                                    \
        }                                                                                                               \
    } while (0)

/* A call that must succeed; `error` has the details. */
#define DO(call) CHECK((call) == GLEED_OK)

static gleed_error error = {sizeof error, 0, 0, 0, 0, ""};
static uint64_t model_memory[128], other_memory[128];

static uint8_t *read_file(const char *path, size_t *len)
{
    FILE *file = fopen(path, "rb");
    uint8_t *bytes;
    long end;
    CHECK(file && fseek(file, 0, SEEK_END) == 0 && (end = ftell(file)) > 0 && fseek(file, 0, SEEK_SET) == 0);
    *len = (size_t)end;
    CHECK((bytes = malloc(*len)) != NULL && fread(bytes, 1, *len, file) == *len);
    fclose(file);
    return bytes;
}

static void *aligned(size_t size, size_t align)
{
    char *memory = malloc(size + align);
    CHECK(memory != NULL);
    memset(memory, 0xa5, size + align);
    return memory + (align - (uintptr_t)memory % align) % align;
}

/* Describes all GPUs, the first one in `first`. Returns their number. */
static size_t adapters(gleed_gpu_info *first)
{
    gleed_gpu_info info = {sizeof info, 0, 0, 0, 0, 0, "", ""};
    size_t count = 0;
    while (gleed_gpu_adapter(count, &info, &error) == GLEED_OK) {
        CHECK(info.struct_size == sizeof info && info.name[0] != 0 && info.tested == 0 && info.buffer_bytes == 0);
        printf("adapter %u: %s; %s\n", (unsigned)count, info.name, info.driver);
        if (count++ == 0)
            *first = info;
    }
    CHECK(error.status == GLEED_E_VALUE && error.needed == count && error.given == count);
    CHECK(gleed_gpu_adapter(0, NULL, &error) == GLEED_E_NULL);
    return count;
}

static void wrong_choices(const gleed_gpu_info *there)
{
    gleed_gpu_choice choice = {sizeof choice, 7, 1, 0, 0};
    gleed_gpu *gpu = NULL;
    CHECK(gleed_gpu_open(&choice, NULL, &error) == GLEED_E_NULL);
    CHECK(gleed_gpu_open(&choice, &gpu, &error) == GLEED_E_VALUE && error.needed == 3 && error.given == 7);
    CHECK(strstr(error.text, "1 vulkan, 2 metal, 3 dx12") != NULL);
    choice.backend = there->backend == GLEED_GPU_METAL ? GLEED_GPU_VULKAN : GLEED_GPU_METAL;
    CHECK(gleed_gpu_open(&choice, &gpu, &error) == GLEED_E_GPU_ADAPTER);
    CHECK(strstr(error.text, "there are: ") != NULL);
    choice.backend = GLEED_GPU_ANY;
    choice.software = 2;
    CHECK(gleed_gpu_open(&choice, &gpu, &error) == GLEED_E_VALUE && error.given == 2);
    choice.struct_size = sizeof choice - 1;
    CHECK(gleed_gpu_open(&choice, &gpu, &error) == GLEED_E_STRUCT_SIZE);
    if (there->software) {
        CHECK(gleed_gpu_open(NULL, &gpu, &error) == GLEED_E_GPU_ADAPTER);
    }
    CHECK(gpu == NULL);
}

/* Returns a GPU that passed the short test, by the number of the whole test before. */
static gleed_gpu *open_gpu(void)
{
    gleed_gpu_choice choice = {sizeof choice, GLEED_GPU_ANY, 1, 120000, 0};
    gleed_gpu_info info = {sizeof info, 0, 0, 0, 0, 0, "", ""};
    gleed_gpu *gpu = NULL, *other = NULL;
    DO(gleed_gpu_open(&choice, &gpu, &error));
    CHECK(gleed_gpu_describe(gpu, NULL, &error) == GLEED_E_NULL);
    CHECK(gleed_gpu_describe(NULL, &info, &error) == GLEED_E_NULL);
    CHECK(gleed_gpu_describe((const gleed_gpu *)model_memory, &info, &error) == GLEED_E_OBJECT);
    DO(gleed_gpu_describe(gpu, &info, &error));
    CHECK(info.tested != 0 && info.buffer_bytes >= 1 << 27);
    choice.tested = info.tested;
    DO(gleed_gpu_open(&choice, &other, &error));
    CHECK(gleed_gpu_close(NULL, &error) == GLEED_E_NULL);
    DO(gleed_gpu_close(gpu, &error));
    return other;
}

static void plans(const gleed_gpu *gpu, const gleed_model *model, const gleed_config *config)
{
    gleed_gpu_plan_info plan = {sizeof plan, 0, 0, 0, 0, 0};
    gleed_gpu_buffer buffer = {sizeof buffer, 0, 0, ""};
    gleed_config wrong = *config;
    uint64_t bytes = 0;
    size_t index;
    DO(gleed_gpu_plan(gpu, model, config, &plan, &error));
    for (index = 0; index < plan.buffers; index++) {
        DO(gleed_gpu_plan_buffer(gpu, model, config, index, &buffer, &error));
        CHECK(buffer.name[0] != 0 && buffer.bytes > 0);
        bytes += buffer.bytes;
    }
    CHECK(bytes == plan.device_bytes && plan.dispatches > 0);
    CHECK(gleed_gpu_plan_buffer(gpu, model, config, index, &buffer, &error) == GLEED_E_VALUE && error.given == index);
    CHECK(gleed_gpu_plan(NULL, model, config, &plan, &error) == GLEED_E_NULL);
    CHECK(gleed_gpu_plan(gpu, NULL, config, &plan, &error) == GLEED_E_NULL);
    CHECK(gleed_gpu_plan(gpu, (const gleed_model *)gpu, config, &plan, &error) == GLEED_E_OBJECT);
    CHECK(gleed_gpu_plan((const gleed_gpu *)model, model, config, &plan, &error) == GLEED_E_OBJECT);
    wrong.kv_kind = GLEED_KV_BASIC;
    CHECK(gleed_gpu_plan(gpu, model, &wrong, &plan, &error) == GLEED_E_GPU_UNSUPPORTED);
    CHECK(strstr(error.text, "another kind than paged") != NULL);
}

static uint32_t vocab_of(const gleed_model *model)
{
    gleed_model_info info;
    memset(&info, 0, sizeof info);
    info.struct_size = sizeof info;
    DO(gleed_model_describe(model, &info, &error));
    return info.vocab;
}

static gleed_engine *on_cpu(const gleed_model *model, const gleed_config *config)
{
    gleed_engine *engine = NULL;
    size_t size, align;
    DO(gleed_plan(model, config, &size, &align, &error));
    DO(gleed_engine_init(model, config, aligned(size, align), size, &engine, &error));
    return engine;
}

static gleed_engine *on_gpu(gleed_gpu *gpu, const gleed_model *model, const gleed_config *config, gleed_gpu_model **held)
{
    gleed_gpu_plan_info plan = {sizeof plan, 0, 0, 0, 0, 0};
    gleed_engine *engine = NULL;
    size_t size;
    char *memory;
    DO(gleed_gpu_plan(gpu, model, config, &plan, &error));
    size = (size_t)plan.bytes;
    memory = aligned(size, plan.align);
    CHECK(gleed_gpu_engine_init(NULL, model, config, memory, size, &engine, held, &error) == GLEED_E_NULL);
    CHECK(gleed_gpu_engine_init(gpu, NULL, config, memory, size, &engine, held, &error) == GLEED_E_NULL);
    CHECK(gleed_gpu_engine_init(gpu, model, config, NULL, size, &engine, held, &error) == GLEED_E_NULL);
    CHECK(gleed_gpu_engine_init(gpu, model, config, memory, size, NULL, held, &error) == GLEED_E_NULL);
    CHECK(gleed_gpu_engine_init(gpu, model, config, memory, size, &engine, NULL, &error) == GLEED_E_NULL);
    CHECK(gleed_gpu_engine_init(gpu, model, config, memory, size - 1, &engine, held, &error) == GLEED_E_MEMORY_TOO_SMALL);
    CHECK(error.needed == size && error.given == size - 1);
    CHECK(gleed_gpu_engine_init(gpu, model, config, memory + 1, size, &engine, held, &error) == GLEED_E_MEMORY_MISALIGNED);
    CHECK(engine == NULL && *held == NULL && (unsigned char)memory[0] == 0xa5 && (unsigned char)memory[size - 1] == 0xa5);
    DO(gleed_gpu_engine_init(gpu, model, config, memory, size, &engine, held, &error));
    return engine;
}

/* Opens a GPU for one model and configuration only, and closes it. */
static void open_for(const gleed_model *model, const gleed_model *other, const gleed_config *config, const gleed_gpu *all)
{
    gleed_gpu_choice choice = {sizeof choice, GLEED_GPU_ANY, 1, 120000, 0};
    gleed_gpu_info info = {sizeof info, 0, 0, 0, 0, 0, "", ""}, whole = info, again = info;
    gleed_config wrong = *config;
    gleed_gpu *gpu = NULL;
    gleed_gpu_model *held = NULL;
    gleed_engine *engine = NULL;
    CHECK(gleed_gpu_open_for(&choice, NULL, config, &gpu, &error) == GLEED_E_NULL);
    CHECK(gleed_gpu_open_for(&choice, (const gleed_model *)all, config, &gpu, &error) == GLEED_E_OBJECT);
    wrong.kv_kind = GLEED_KV_BASIC;
    CHECK(gleed_gpu_open_for(&choice, model, &wrong, &gpu, &error) == GLEED_E_GPU_UNSUPPORTED && gpu == NULL);
    DO(gleed_gpu_open_for(&choice, model, config, &gpu, &error));
    DO(gleed_gpu_describe(all, &whole, &error));
    DO(gleed_gpu_describe(gpu, &info, &error));
    CHECK(info.tested != 0 && info.tested != whole.tested);
    CHECK(gleed_gpu_engine_init(gpu, other, config, aligned(64, 64), 64, &engine, &held, &error) == GLEED_E_GPU_UNSUPPORTED);
    CHECK(strstr(error.text, "lacks kernels") != NULL && engine == NULL && held == NULL);
    on_gpu(gpu, model, config, &held);
    DO(gleed_gpu_model_close(held, &error));
    DO(gleed_gpu_close(gpu, &error));
    choice.tested = info.tested;
    DO(gleed_gpu_open_for(&choice, model, config, &gpu, &error));
    DO(gleed_gpu_describe(gpu, &again, &error));
    CHECK(again.tested == info.tested);
    DO(gleed_gpu_close(gpu, &error));
}

static const uint32_t PROMPT[] = {1, 414, 435, 261, 385};

/* Draws ten tokens with a sampler. Returns the state of its generator. */
static uint64_t draw(gleed_engine *engine, gleed_seq seq, uint32_t token, uint32_t *ids)
{
    gleed_sampler_params params;
    gleed_sampler *sampler = NULL;
    size_t size, align;
    uint64_t state;
    memset(&params, 0, sizeof params);
    params.struct_size = sizeof params;
    params.temperature = 0.9f;
    params.top_k = 50;
    params.top_p = 0.95f;
    params.seed = 7;
    DO(gleed_sampler_size(&size, &align, &error));
    DO(gleed_sampler_init(&params, aligned(size, align), size, &sampler, &error));
    DO(gleed_gpu_decode_sampled(engine, seq, token, sampler, ids, 10, &error));
    DO(gleed_sampler_state(sampler, &state, &error));
    return state;
}

/*
 * Checks that the sequences of two engines have equal snapshots with so many checkpoints, and that each engine goes on from the
 * snapshot of the other one. If `keep` is not 0, the restored sequences keep so many tokens, whose state is in a checkpoint.
 */
static void exchange(gleed_engine *const engines[2], const gleed_seq seqs[2], uint32_t checkpoints, size_t keep)
{
    gleed_snapshot_options options = {sizeof options, 0, NULL, 0, checkpoints, 0};
    const float *logits[2];
    uint8_t *saved[2];
    size_t len[2], bytes[2], computed, i;
    gleed_seq restored;
    for (i = 0; i < 2; i++) {
        DO(gleed_snapshot_size(engines[i], seqs[i], &options, &bytes[i], &error));
        CHECK((saved[i] = malloc(bytes[i])) != NULL);
        DO(gleed_snapshot(engines[i], seqs[i], &options, saved[i], bytes[i], &len[i], &error));
    }
    CHECK(bytes[0] == bytes[1] && memcmp(saved[0], saved[1], bytes[0]) == 0);
    for (i = 0; i < 2; i++) {
        DO(gleed_restore(engines[i], NULL, saved[1 - i], bytes[0], &restored, &error));
        if (keep != 0) {
            DO(gleed_computed_at(engines[i], restored, keep, &computed, &error));
            CHECK(computed == keep);
            DO(gleed_rewind(engines[i], restored, keep, &error));
        }
        DO(gleed_decode_step(engines[i], restored, 7, &logits[i], &len[i], &error));
        DO(gleed_seq_close(engines[i], restored, &error));
    }
    CHECK(len[0] == len[1] && memcmp(logits[0], logits[1], len[0] * sizeof(float)) == 0);
    free(saved[0]);
    free(saved[1]);
}

/* Checks that two engines give the same logits, ids and snapshots: of a prompt, tokens by their logits, tokens of one call. */
static void same(gleed_engine *const engines[2], uint32_t vocab, gleed_seq seqs[2])
{
    const float *logits[2];
    uint32_t prompt[5], ids[2][40];
    size_t len[2], step, i;
    uint64_t states[2];
    for (i = 0; i < 5; i++)
        prompt[i] = PROMPT[i] % vocab;
    for (i = 0; i < 2; i++) {
        DO(gleed_seq_open(engines[i], &seqs[i], &error));
        DO(gleed_prefill(engines[i], seqs[i], prompt, 5, &logits[i], &len[i], &error));
    }
    for (step = 0; step < 4; step++) {
        CHECK(len[0] == len[1] && memcmp(logits[0], logits[1], len[0] * sizeof(float)) == 0);
        for (i = 0; i < 2; i++)
            DO(gleed_decode_step(engines[i], seqs[i], (uint32_t)(300 + step) % vocab, &logits[i], &len[i], &error));
    }
    for (i = 0; i < 2; i++) {
        DO(gleed_gpu_decode_greedy(engines[i], seqs[i], 261 % vocab, ids[i], 30, &error));
        states[i] = draw(engines[i], seqs[i], ids[i][29], ids[i] + 30);
    }
    CHECK(states[0] == states[1] && memcmp(ids[0], ids[1], sizeof ids[0]) == 0);
    exchange(engines, seqs, 0, 0);
}

static void wrong_calls(gleed_engine *engine, gleed_seq seq, const gleed_gpu_model *held)
{
    gleed_gpu_use use = {sizeof use, 7, 0, 0, ""};
    uint32_t ids[4] = {9, 9, 9, 9};
    gleed_seq copy = 77;
    CHECK(gleed_gpu_decode_greedy(NULL, seq, 1, ids, 4, &error) == GLEED_E_NULL);
    CHECK(gleed_gpu_decode_greedy(engine, seq, 1, NULL, 4, &error) == GLEED_E_NULL);
    CHECK(gleed_gpu_decode_greedy(engine, seq, 1, ids, 0, &error) == GLEED_E_EMPTY);
    CHECK(gleed_gpu_decode_greedy(engine, seq, 1, ids, SIZE_MAX / 64, &error) == GLEED_E_CONTEXT);
    CHECK(gleed_gpu_decode_greedy(engine, seq, UINT32_MAX, ids, 4, &error) == GLEED_E_TOKEN);
    CHECK(gleed_gpu_decode_greedy(engine, seq + 5, 1, ids, 4, &error) == GLEED_E_SEQUENCE);
    CHECK(gleed_gpu_decode_sampled(engine, seq, 1, NULL, ids, 4, &error) == GLEED_E_NULL);
    CHECK(gleed_gpu_decode_sampled(engine, seq, 1, (gleed_sampler *)engine, ids, 4, &error) == GLEED_E_OBJECT);
    CHECK(ids[0] == 9 && ids[3] == 9);
    CHECK(gleed_gpu_replay(engine, engine, seq, &copy, &error) == GLEED_E_REENTRANT && copy == 77);
    CHECK(gleed_gpu_replay(engine, NULL, seq, &copy, &error) == GLEED_E_NULL);
    CHECK(gleed_gpu_model_describe(NULL, &use, &error) == GLEED_E_NULL);
    CHECK(gleed_gpu_model_describe((const gleed_gpu_model *)engine, &use, &error) == GLEED_E_OBJECT);
    DO(gleed_gpu_model_describe(held, &use, &error));
    CHECK(use.is_lost == 0 && use.submits > 0 && use.encoding_ns > 0 && use.reason[0] == 0);
}

/* Closes the device, and goes on with the sequence on the CPU. */
static void lost(gleed_engine *here, gleed_engine *there, const gleed_seq seqs[2], gleed_gpu_model *held)
{
    gleed_gpu_use use = {sizeof use, 7, 0, 0, ""};
    const float *logits[2];
    size_t len[2];
    gleed_status status;
    gleed_seq copy;
    CHECK(gleed_gpu_model_close(NULL, &error) == GLEED_E_NULL);
    DO(gleed_gpu_model_close(held, &error));
    DO(gleed_gpu_model_close(held, &error));
    DO(gleed_gpu_model_describe(held, &use, &error));
    CHECK(use.is_lost == 1);
    CHECK(gleed_decode_step(there, seqs[1], 5, &logits[1], &len[1], &error) == GLEED_E_DEVICE_LOST);
    CHECK(strcmp(gleed_status_text(GLEED_E_DEVICE_LOST), "the device is lost, and keys and values with it") == 0);
    DO(gleed_gpu_replay(here, there, seqs[1], &copy, &error));
    while ((status = gleed_step(here, NULL, &error)) == GLEED_READY || status == GLEED_YIELDED)
        continue;
    CHECK(status == GLEED_OK);
    DO(gleed_decode_step(here, copy, 5, &logits[1], &len[1], &error));
    DO(gleed_logits(here, copy, &logits[1], &len[1], &error));
    {
        float *kept = malloc(len[1] * sizeof(float));
        CHECK(kept != NULL);
        memcpy(kept, logits[1], len[1] * sizeof(float));
        DO(gleed_decode_step(here, seqs[0], 5, &logits[0], &len[0], &error));
        CHECK(len[0] == len[1] && memcmp(kept, logits[0], len[0] * sizeof(float)) == 0);
        free(kept);
    }
}

/* Runs a model with recurrent layers on both sides, with a checkpoint of their state, and loses the GPU. */
static void states(gleed_gpu *gpu, const char *path, const gleed_config *limits)
{
    static uint64_t memory[128];
    gleed_config config = *limits;
    gleed_seq_info seq;
    gleed_gpu_model *held = NULL;
    gleed_engine *engines[2];
    gleed_seq seqs[2];
    const gleed_model *model = NULL;
    const float *logits;
    size_t len, i;
    uint8_t *bytes = read_file(path, &len);
    DO(gleed_model_open(bytes, len, memory, sizeof memory, &model, &error));
    config.checkpoints = 6;
    engines[0] = on_cpu(model, &config);
    engines[1] = on_gpu(gpu, model, &config, &held);
    same(engines, vocab_of(model), seqs);
    memset(&seq, 0, sizeof seq);
    seq.struct_size = sizeof seq;
    for (i = 0; i < 2; i++) {
        DO(gleed_seq_describe(engines[i], seqs[i], &seq, &error));
        DO(gleed_checkpoint(engines[i], seqs[i], &error));
        DO(gleed_decode_step(engines[i], seqs[i], 9, &logits, &len, &error));
    }
    exchange(engines, seqs, 2, seq.tokens);
    lost(engines[0], engines[1], seqs, held);
    free(bytes);
}

int main(int argc, char **argv)
{
    gleed_config config = {0};
    gleed_gpu_info first = {sizeof first, 0, 0, 0, 0, 0, "", ""};
    const gleed_model *model = NULL, *other = NULL;
    gleed_engine *engines[2];
    gleed_gpu_model *held = NULL;
    gleed_seq seqs[2];
    gleed_gpu *gpu;
    uint8_t *bytes;
    size_t len;
    int i;
    CHECK(argc >= 3);
    bytes = read_file(argv[1], &len);
    if (adapters(&first) == 0) {
        fprintf(stderr, "there is no GPU\n");
        return 77;
    }
    wrong_choices(&first);
    DO(gleed_model_open(bytes, len, model_memory, sizeof model_memory, &model, &error));
    bytes = read_file(argv[2], &len);
    DO(gleed_model_open(bytes, len, other_memory, sizeof other_memory, &other, &error));
    gpu = open_gpu();
    config.struct_size = sizeof config;
    config.sequences = 3;
    config.context = 128;
    config.rows = 16;
    plans(gpu, model, &config);
    open_for(model, other, &config, gpu);
    for (i = 3; i < argc; i++)
        states(gpu, argv[i], &config);
    engines[0] = on_cpu(model, &config);
    engines[1] = on_gpu(gpu, model, &config, &held);
    same(engines, vocab_of(model), seqs);
    wrong_calls(engines[1], seqs[1], held);
    CHECK(gleed_gpu_close(gpu, &error) == GLEED_E_GPU_IN_USE && error.given == 1);
    lost(engines[0], engines[1], seqs, held);
    DO(gleed_gpu_close(gpu, &error));
    puts("one hash");
    return 0;
}
