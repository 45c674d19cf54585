/*
 * Links the library into an ordinary program and calls every function, correctly and wrongly.
 *
 * usage: smoke MODEL COUNT TOKEN... Prints COUNT tokens after the TOKENs, the most likely one each time.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gleed.h"

#define CHECK(condition)                                                      \
    do {                                                                      \
        if (!(condition)) {                                                   \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);   \
            exit(1);                                                          \
        }                                                                     \
    } while (0)

/* A call that must succeed; `error` has the details. */
#define DO(call)                                                                            \
    do {                                                                                    \
        if ((call) != GLEED_OK) {                                                           \
            fprintf(stderr, "%s:%d: %d: %s\n", __FILE__, __LINE__, error.status, error.text); \
            exit(1);                                                                        \
        }                                                                                   \
    } while (0)

static gleed_error error = {sizeof error, 0, 0, 0, 0, ""};

/* A model object is small, so a C program can have it in static memory. */
static uint64_t model_memory[128];

static uint8_t *read_file(const char *path, size_t *len)
{
    FILE *file = fopen(path, "rb");
    uint8_t *bytes;
    long end;
    CHECK(file && fseek(file, 0, SEEK_END) == 0 && (end = ftell(file)) > 0 && fseek(file, 0, SEEK_SET) == 0);
    *len = (size_t)end;
    /* One byte more, so that the file begins at an odd address: the library needs no alignment. */
    CHECK((bytes = malloc(*len + 1)) != NULL && fread(bytes + 1, 1, *len, file) == *len);
    fclose(file);
    return bytes + 1;
}

static void *aligned(void *memory, size_t align)
{
    return (char *)memory + (align - (uintptr_t)memory % align) % align;
}

static const gleed_model *open_model(const uint8_t *bytes, size_t len)
{
    const gleed_model *model = NULL;
    size_t size, align;
    DO(gleed_model_size(&size, &align, &error));
    CHECK(size <= sizeof model_memory && align <= sizeof model_memory[0]);
    DO(gleed_model_open(bytes, len, model_memory, sizeof model_memory, &model, &error));
    return model;
}

static gleed_engine *start_engine(const gleed_model *model, const gleed_config *config)
{
    gleed_engine *engine = NULL;
    size_t size, align;
    void *memory;
    DO(gleed_plan(model, config, &size, &align, &error));
    CHECK((memory = malloc(size + align)) != NULL);
    memset(memory, 0xa5, size + align);
    DO(gleed_engine_init(model, config, aligned(memory, align), size, &engine, &error));
    return engine;
}

static uint32_t most_likely(const float *logits, size_t len)
{
    size_t best = 0, i;
    for (i = 1; i < len; i++)
        if (logits[i] > logits[best])
            best = i;
    return (uint32_t)best;
}

static void generate(gleed_engine *engine, const uint32_t *prompt, size_t prompt_len, int count, uint32_t *ids)
{
    const float *logits;
    size_t len;
    gleed_seq seq;
    int i;
    DO(gleed_seq_open(engine, &seq, &error));
    DO(gleed_prefill(engine, seq, prompt, prompt_len, &logits, &len, &error));
    for (i = 0; i < count; i++) {
        ids[i] = most_likely(logits, len);
        DO(gleed_decode_step(engine, seq, ids[i], &logits, &len, &error));
    }
    DO(gleed_seq_close(engine, seq, &error));
}

static void versions(void)
{
    CHECK(gleed_abi_version() == GLEED_ABI_VERSION);
    CHECK(gleed_arithmetic_version() >= 1);
    CHECK(strchr(gleed_version(), '.') != NULL);
    CHECK(strcmp(gleed_status_text(GLEED_OK), "done") == 0);
    CHECK(strlen(gleed_status_text(-12345)) > 0);
}

static void misuse_of_models(const uint8_t *bytes, size_t len)
{
    uint64_t memory[128] = {0};
    uint8_t *broken = malloc(len);
    const gleed_model *model = NULL;
    gleed_error small = {sizeof small - 1, 0, 0, 0, 0, ""};
    size_t size = 77, align, cut;

    CHECK(gleed_model_size(NULL, &align, &error) == GLEED_E_NULL);
    CHECK(gleed_model_size(&size, &align, &small) == GLEED_E_STRUCT_SIZE && size == 77);
    CHECK(gleed_model_size(&size, &size, NULL) == GLEED_OK);
    CHECK(gleed_model_size(&size, &align, NULL) == GLEED_OK);

    CHECK(gleed_model_open(NULL, len, memory, sizeof memory, &model, &error) == GLEED_E_NULL);
    CHECK(gleed_model_open(bytes, SIZE_MAX, memory, sizeof memory, &model, &error) == GLEED_E_LENGTH);
    CHECK(gleed_model_open(bytes, len, NULL, sizeof memory, &model, &error) == GLEED_E_NULL);
    CHECK(gleed_model_open(bytes, len, memory, sizeof memory, NULL, &error) == GLEED_E_NULL);
    CHECK(gleed_model_open(bytes, len, memory, size - 1, &model, &error) == GLEED_E_MEMORY_TOO_SMALL);
    CHECK(error.status == GLEED_E_MEMORY_TOO_SMALL && error.needed == size && error.given == size - 1);
    CHECK(gleed_model_open(bytes, len, (char *)memory + 1, size, &model, &error) == GLEED_E_MEMORY_MISALIGNED);
    CHECK(gleed_model_open(bytes, 0, memory, sizeof memory, &model, &error) == GLEED_E_FILE_MAGIC);
    CHECK(gleed_model_open(bytes + 4, len - 4, memory, sizeof memory, &model, NULL) == GLEED_E_FILE_MAGIC);
    for (cut = 8; cut < len; cut += len / 97)
        CHECK(gleed_model_open(bytes, cut, memory, sizeof memory, &model, &error) <= GLEED_E_FILE);
    CHECK(gleed_model_open(bytes, len - 1, memory, sizeof memory, &model, &error) == GLEED_E_FILE_TRUNCATED);
    CHECK(error.given == len - 1 && error.needed > len - 1 && strstr(error.text, "tensor \"") != NULL);
    /* Changes a letter of the first key, which begins at byte 32. */
    CHECK(broken != NULL);
    memcpy(broken, bytes, len);
    broken[34] ^= 0x20;
    CHECK(gleed_model_open(broken, len, memory, sizeof memory, &model, &error) == GLEED_E_MODEL_KEY_MISSING);
    CHECK(strstr(error.text, "general.architecture") != NULL);
    free(broken);

    CHECK(model == NULL && memory[0] == 0);
}

static void misuse_of_plans(const gleed_model *model)
{
    gleed_config config = {0};
    struct {
        gleed_config known;
        uint32_t unknown;
    } newer = {{0}, 0};
    size_t size = 0, plain = 0, align = 0;
    uint64_t nothing[2] = {0};

    CHECK(gleed_plan(NULL, NULL, &size, &align, &error) == GLEED_E_NULL);
    CHECK(gleed_plan((const gleed_model *)(const void *)nothing, NULL, &size, &align, &error) == GLEED_E_OBJECT);
    CHECK(gleed_plan((const gleed_model *)(const void *)((const char *)model + 1), NULL, &size, &align, &error) ==
          GLEED_E_ALIGNMENT);
    CHECK(gleed_plan(model, &config, &size, &align, &error) == GLEED_E_STRUCT_SIZE);
    config.struct_size = sizeof config;
    config.kv_kind = 3;
    CHECK(gleed_plan(model, &config, &size, &align, &error) == GLEED_E_VALUE && error.given == 3);
    config.kv_kind = GLEED_KV_PAGED;
    config.kv_type = 9;
    CHECK(gleed_plan(model, &config, &size, &align, &error) == GLEED_E_VALUE && error.needed == 3);
    config.kv_type = GLEED_KV_TYPES(GLEED_KV_F16, 4);
    CHECK(gleed_plan(model, &config, &size, &align, &error) == GLEED_E_VALUE && error.given == 0x500);
    config.kv_type = GLEED_KV_F16;
    config.rows = 1u << 20;
    CHECK(gleed_plan(model, &config, &size, &align, &error) == GLEED_E_LIMIT && error.given == 1u << 20);
    CHECK(strstr(error.text, "rows") != NULL);
    config.rows = 0;
    config.sequences = 65536;
    config.context = 0x7fffffff;
    CHECK(gleed_plan(model, &config, &size, &align, &error) < 0);
    CHECK(size == 0 && align == 0);

    CHECK(gleed_plan(model, NULL, &plain, &align, &error) == GLEED_OK && plain > 0 && align > 0);
    newer.known.struct_size = sizeof newer;
    CHECK(gleed_plan(model, &newer.known, &size, &align, &error) == GLEED_OK && size == plain);
    newer.unknown = 1;
    CHECK(gleed_plan(model, &newer.known, &size, &align, &error) == GLEED_E_STRUCT_SIZE);
}

static void misuse_of_engines(const gleed_model *model)
{
    /* Two sequences of 32 tokens, but blocks for only one of them. */
    const gleed_config config = {
        .struct_size = sizeof config, .sequences = 2, .context = 32, .kv_type = GLEED_KV_F32, .kv_blocks = 2};
    gleed_engine *engine, *other = NULL;
    const float *logits = NULL, *kept;
    const uint32_t ids[33] = {1, 2, 3};
    gleed_seq a = 0, b = 0, c = 7;
    size_t size, align, len = 0;
    float first;

    engine = start_engine(model, &config);
    CHECK(gleed_plan(model, &config, &size, &align, &error) == GLEED_OK);
    CHECK(gleed_engine_init(model, &config, NULL, size, &other, &error) == GLEED_E_NULL);
    CHECK(gleed_engine_init(model, &config, engine, size - 1, &other, &error) == GLEED_E_MEMORY_TOO_SMALL);
    CHECK(error.needed == size && error.given == size - 1);
    CHECK(gleed_engine_init(model, &config, (char *)engine + 8, size, &other, &error) == GLEED_E_MEMORY_MISALIGNED);
    CHECK(error.needed == align && error.given == 8);
    CHECK(gleed_engine_init((const gleed_model *)(const void *)engine, &config, engine, size, &other, &error) ==
          GLEED_E_OBJECT);
    CHECK(other == NULL);

    DO(gleed_seq_open(engine, &a, &error));
    DO(gleed_seq_open(engine, &b, &error));
    CHECK(gleed_seq_open(engine, &c, &error) == GLEED_FULL && c == 7 && error.status == GLEED_FULL);
    CHECK(gleed_seq_open((gleed_engine *)(void *)model_memory, &c, &error) == GLEED_E_OBJECT);
    CHECK(gleed_seq_open(engine, NULL, &error) == GLEED_E_NULL);

    CHECK(gleed_prefill(engine, a, NULL, 3, &logits, &len, &error) == GLEED_E_NULL);
    CHECK(gleed_prefill(engine, a, NULL, 0, &logits, &len, &error) == GLEED_E_EMPTY);
    CHECK(gleed_prefill(engine, a, (const uint32_t *)(const void *)((const char *)ids + 1), 2, &logits, &len, &error) ==
          GLEED_E_ALIGNMENT);
    CHECK(gleed_prefill(engine, a, ids, SIZE_MAX / 2, &logits, &len, &error) == GLEED_E_LENGTH);
    CHECK(gleed_prefill(engine, a, ids, 33, &logits, &len, &error) == GLEED_E_CONTEXT);
    CHECK(error.needed == 32 && error.given == 33);
    CHECK(gleed_prefill(engine, a, ids, 3, NULL, &len, &error) == GLEED_E_NULL);
    CHECK(gleed_decode_step(engine, a, UINT32_MAX, &logits, &len, &error) == GLEED_E_TOKEN);
    CHECK(gleed_decode_step(engine, 0, 1, &logits, &len, &error) == GLEED_E_SEQUENCE);
    CHECK(logits == NULL && len == 0);

    /* Calls that fail leave the logits and the sequence unchanged. */
    DO(gleed_prefill(engine, a, ids, 32, &logits, &len, &error));
    first = logits[0];
    kept = logits;
    CHECK(gleed_decode_step(engine, b, 1, &logits, &len, &error) == GLEED_FULL && error.given == 0);
    CHECK(gleed_decode_step(engine, a, 1, &logits, &len, &error) == GLEED_E_CONTEXT);
    CHECK(logits == kept && logits[0] == first);
    DO(gleed_reset(engine, a, &error));
    DO(gleed_prefill(engine, b, ids, 32, &logits, &len, &error));
    CHECK(logits[0] == first);

    DO(gleed_seq_close(engine, b, &error));
    CHECK(gleed_seq_close(engine, b, &error) == GLEED_E_SEQUENCE && error.given == b);
    CHECK(gleed_reset(engine, b, NULL) == GLEED_E_SEQUENCE);
    DO(gleed_seq_open(engine, &c, &error));
    CHECK(c != b);
    CHECK(gleed_decode_step(engine, b, 1, &logits, &len, &error) == GLEED_E_SEQUENCE);
    CHECK(gleed_seq_close(NULL, a, &error) == GLEED_E_NULL);
    CHECK(gleed_reset(NULL, a, &error) == GLEED_E_NULL);
}

int main(int argc, char **argv)
{
    const gleed_config kinds[] = {
        {.struct_size = sizeof(gleed_config)},
        {.struct_size = sizeof(gleed_config), .sequences = 3, .context = 256, .rows = 1, .kv_kind = GLEED_KV_BASIC},
        {.struct_size = sizeof(gleed_config), .sequences = 1, .rows = 7, .kv_kind = GLEED_KV_OFF},
    };
    uint32_t tokens[64], ids[3][64];
    const gleed_model *model;
    const uint8_t *bytes;
    size_t len, i, prompt_len;
    int count, id;

    CHECK(argc > 3 && argc - 3 <= 64);
    CHECK((count = atoi(argv[2])) > 0 && count <= 64);
    prompt_len = (size_t)argc - 3;
    for (i = 0; i < prompt_len; i++)
        tokens[i] = (uint32_t)strtoul(argv[i + 3], NULL, 10);

    versions();
    bytes = read_file(argv[1], &len);
    misuse_of_models(bytes, len);
    model = open_model(bytes, len);
    misuse_of_plans(model);
    misuse_of_engines(model);
    for (i = 0; i < 3; i++) {
        generate(start_engine(model, &kinds[i]), tokens, prompt_len, count, ids[i]);
        CHECK(memcmp(ids[i], ids[0], (size_t)count * sizeof ids[0][0]) == 0);
    }
    for (id = 0; id < count; id++)
        printf("%s%u", id ? " " : "", (unsigned)ids[0][id]);
    printf("\n");
    return 0;
}
