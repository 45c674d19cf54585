/*
 * Saves a text while it is being generated, and goes on with it in another engine, which gives the same text. Then
 * reads damaged copies of the file, which are refused and change nothing.
 *
 * usage: snapshot MODEL.gguf FILE
 */
#include "host.h"

#define USAGE "usage: snapshot MODEL.gguf FILE\n"
#define BEFORE 16
#define AFTER 24

/* The writer of a text: an engine with one sequence in use, and a sampler. */
struct writer {
    const gleed_tokenizer *tokenizer;
    size_t vocab; /* number of logits, and of elements of scratch */
    uint64_t *scratch;
    gleed_engine *engine;
    gleed_seq seq;
    gleed_sampler *sampler;
    uint32_t next; /* the last chosen token, which the sequence does not have yet */
};

/* The host's bytes in the snapshot. */
struct state {
    uint64_t generator;
    uint32_t next;
    uint32_t unused;
};

static struct writer start(const gleed_model *model, const gleed_tokenizer *tokenizer)
{
    const gleed_config config = {.struct_size = sizeof config, .sequences = 2, .context = 128};
    const gleed_sampler_params params = {.struct_size = sizeof params, .temperature = 0.8f, .min_p = 0.05f, .seed = 7};
    gleed_model_info info = {.struct_size = sizeof info};
    struct writer writer = {.tokenizer = tokenizer};
    check(gleed_model_describe(model, &info, &error), "model");
    writer.vocab = info.vocab;
    writer.scratch = memory(writer.vocab * sizeof *writer.scratch, sizeof *writer.scratch);
    writer.engine = start_engine(model, &config);
    start_sampler(&writer.sampler, &params);
    return writer;
}

static void choose(struct writer *writer, const float *logits)
{
    check(gleed_sample(writer->sampler, logits, writer->vocab, writer->scratch, writer->vocab, &writer->next, NULL, &error),
          "sample");
}

static void begin(struct writer *writer, const char *prompt)
{
    uint32_t scratch[2000], ids[64];
    const float *logits;
    size_t count, vocab;
    check(gleed_encode(writer->tokenizer, prompt, strlen(prompt), GLEED_ENCODE_ADD_SPECIAL, scratch, 2000, ids, 64, &count,
                       &error), "encode");
    check(gleed_seq_open(writer->engine, &writer->seq, &error), "sequence");
    check(gleed_prefill(writer->engine, writer->seq, ids, count, &logits, &vocab, &error), "prefill");
    choose(writer, logits);
}

/* Goes on for `count` tokens, and stores them in `ids`. */
static void go_on(struct writer *writer, size_t count, uint32_t *ids)
{
    const float *logits;
    size_t vocab;
    for (; count > 0; count--) {
        *ids++ = writer->next;
        check(gleed_decode_step(writer->engine, writer->seq, writer->next, &logits, &vocab, &error), "decode");
        choose(writer, logits);
    }
}

static void print_text(const struct writer *writer, const char *title, const uint32_t *ids, size_t count)
{
    gleed_detokenizer *detokenizer = NULL;
    char text[1024];
    size_t len;
    start_detokenizer(&detokenizer, writer->tokenizer);
    printf("%s", title);
    for (; count > 0; count--) {
        check(gleed_detokenize(detokenizer, writer->tokenizer, *ids++, text, sizeof text, &len, &error), "text");
        fwrite(text, 1, len, stdout);
    }
    check(gleed_detokenizer_finish(detokenizer, text, sizeof text, &len, &error), "text");
    printf("%.*s\n", (int)len, text);
}

/* ---- Writing and reading --------------------------------------------------------------------------------------- */

static uint64_t save(const struct writer *writer, const char *path)
{
    struct state state = {.next = writer->next};
    const gleed_snapshot_options options = {
        .struct_size = sizeof options, .state = (const uint8_t *)&state, .state_len = sizeof state};
    uint64_t written = 0;
    FILE *file = fopen(path, "wb");
    if (file == NULL) {
        perror(path);
        exit(1);
    }
    check(gleed_sampler_state(writer->sampler, &state.generator, &error), "sampler");
    check(gleed_snapshot_write(writer->engine, writer->seq, &options, write_to_file, file, &written, &error), path);
    if (fclose(file) != 0) {
        perror(path);
        exit(1);
    }
    return written;
}

/* A damaged copy of a file: cut after `cut` bytes, and with one bit flipped in byte `flip`. */
struct copy {
    FILE *file;
    uint64_t at, cut, flip;
};

#define NOWHERE UINT64_MAX

static size_t read_copy(void *ctx, uint8_t *bytes, size_t len)
{
    struct copy *copy = ctx;
    size_t got;
    if (len > copy->cut - copy->at)
        len = (size_t)(copy->cut - copy->at);
    got = read_from_file(copy->file, bytes, len);
    if (got == SIZE_MAX)
        return got;
    if (copy->flip - copy->at < got)
        bytes[copy->flip - copy->at] ^= 4;
    copy->at += got;
    return got;
}

/* Reads a copy. The writer changes only if the result is GLEED_OK. */
static gleed_status load(struct writer *writer, const char *path, uint64_t cut, uint64_t flip)
{
    gleed_snapshot_info info = {.struct_size = sizeof info};
    struct copy copy = {.file = fopen(path, "rb"), .cut = cut, .flip = flip};
    struct state state;
    gleed_status status;
    gleed_seq seq;
    if (copy.file == NULL) {
        perror(path);
        exit(1);
    }
    status = gleed_snapshot_read(writer->engine, NULL, read_copy, &copy, &seq, &info, &error);
    fclose(copy.file);
    if (status != GLEED_OK)
        return status;
    memcpy(&state, info.state, sizeof state);
    check(gleed_sampler_set_state(writer->sampler, state.generator, &error), "sampler");
    writer->next = state.next;
    writer->seq = seq;
    return GLEED_OK;
}

/*
 * ---- Checks that nothing has changed
 * ---------------------------------------------------------------------------------
 */

/* FNV-1a (Fowler, Noll, Vo). A snapshot can be written anywhere, here into a hash. */
static int32_t add_to_hash(void *ctx, const uint8_t *bytes, size_t len)
{
    uint64_t *hash = ctx;
    for (; len > 0; len--)
        *hash = (*hash ^ *bytes++) * 1099511628211u;
    return 0;
}

/* The state of an engine: its sequence, and the numbers of sequences and blocks in use. */
static uint64_t state_of(const struct writer *writer)
{
    gleed_engine_info info = {.struct_size = sizeof info};
    uint64_t hash = 14695981039346656037u, written;
    check(gleed_engine_describe(writer->engine, &info, &error), "engine");
    check(gleed_snapshot_write(writer->engine, writer->seq, NULL, add_to_hash, &hash, &written, &error), "hash");
    add_to_hash(&hash, (const uint8_t *)&info.sequences, sizeof info.sequences);
    add_to_hash(&hash, (const uint8_t *)&info.blocks_used, sizeof info.blocks_used);
    return hash;
}

/* Reads damaged copies. Returns how many were not refused, or changed something. */
static int damaged_copies(struct writer *writer, const char *path, uint64_t bytes)
{
    const struct {
        const char *what;
        uint64_t cut, flip;
    } damages[] = {
        {"empty", 0, NOWHERE},
        {"cut in the header", 40, NOWHERE},
        {"cut in the middle", bytes / 2, NOWHERE},
        {"last byte missing", bytes - 1, NOWHERE},
        {"a bit of the magic number flipped", NOWHERE, 3},
        {"a bit of the header flipped", NOWHERE, 72},
        {"a bit of the keys flipped", NOWHERE, bytes / 3},
        {"a bit of the values flipped", NOWHERE, bytes / 2},
        {"a bit of the last checksum flipped", NOWHERE, bytes - 1},
    };
    int wrong = 0;
    size_t i;
    for (i = 0; i < sizeof damages / sizeof *damages; i++) {
        const uint64_t before = state_of(writer);
        const gleed_status status = load(writer, path, damages[i].cut, damages[i].flip);
        const int is_right = status < 0 && state_of(writer) == before;
        printf("%-36s %d (%s), %s\n", damages[i].what, (int)status, reason(status),
               is_right ? "nothing has changed" : "WRONG");
        wrong += !is_right;
    }
    return wrong;
}

int main(int argc, char **argv)
{
    uint32_t ids[BEFORE + AFTER], restored[AFTER];
    const gleed_tokenizer *tokenizer;
    const gleed_model *model;
    struct writer first, second;
    uint64_t bytes;
    int is_same, wrong;

    if (argc == 2 && strcmp(argv[1], "--help") == 0) {
        fputs(USAGE, stdout);
        return flushed(0);
    }
    if (argc != 3 || argv[1][0] == '-') {
        fputs(USAGE, stderr);
        return 2;
    }
    model = open_model(argv[1]);
    tokenizer = start_tokenizer(model);
    first = start(model, tokenizer);
    begin(&first, "Once upon a time");
    go_on(&first, BEFORE, ids);
    bytes = save(&first, argv[2]);
    go_on(&first, AFTER, ids + BEFORE);

    second = start(model, tokenizer);
    check(load(&second, argv[2], NOWHERE, NOWHERE), argv[2]);
    wrong = damaged_copies(&second, argv[2], bytes);
    go_on(&second, AFTER, restored);
    is_same = memcmp(ids + BEFORE, restored, sizeof restored) == 0;
    print_text(&first, "\nsaved after: Once upon a time", ids, BEFORE);
    print_text(&first, "goes on:     ", ids + BEFORE, AFTER);
    print_text(&second, "restored:    ", restored, AFTER);
    printf("%lu bytes; the text is %s\n", (unsigned long)bytes, is_same ? "the same" : "ANOTHER ONE");
    return flushed(is_same && wrong == 0 ? 0 : 1);
}
