/*
 * Guesses of a model's own layer that predicts further ahead, and snapshots with checkpoints, on a small model with recurrent layers
 * that `ffi/tests/c_programs.rs` writes. Whatever is guessed, the text is that of decoding token by token. Mistakes are answered
 * with a status, and change nothing.
 *
 * usage: predict MODEL
 */
#define _DEFAULT_SOURCE /* for posix_memalign */
#include <stddef.h>

#include "support.h"

#define TOKENS 60

static const uint32_t PROMPT[12] = {1, 5, 9, 7, 30, 5, 9, 8, 12, 6, 20, 11};

static const gleed_model *model, *predictor;
static uint32_t text[TOKENS];

/* Four rows with logits, so three guesses. */
static const gleed_config config = {sizeof config, 2, 128, 8, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 4, 16};
static const gleed_config of_layer = {sizeof of_layer, 2, 128, 8, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0};

static void models(void)
{
    gleed_model_info info = {sizeof info, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, "", ""};
    const gleed_model *none = NULL;
    size_t size, align;
    uint8_t *memory;
    DO(gleed_model_size(&size, &align, &error));
    CHECK(size <= 1024);
    memory = aligned(size, align);
    EXPECT(GLEED_E_MEMORY_TOO_SMALL, gleed_model_predictor(model, memory, size - 1, &predictor, &error));
    CHECK(error.needed == size && error.given == size - 1);
    DO(gleed_model_predictor(model, memory, size, &predictor, &error));
    DO(gleed_model_describe(model, &info, &error));
    CHECK(info.layers == 3);
    DO(gleed_model_describe(predictor, &info, &error));
    CHECK(info.layers == 1 && info.vocab == 40);
    memory = aligned(size, align);
    EXPECT(GLEED_E_MODEL_KEY_MISSING, gleed_model_predictor(predictor, memory, size, &none, &error));
    CHECK(none == NULL);
}

/* The most probable tokens, one after the other. */
static void plain(void)
{
    gleed_engine *engine = start_engine(model, &config);
    const float *logits = NULL;
    size_t len = 0, count;
    gleed_seq seq;
    DO(gleed_seq_open(engine, &seq, &error));
    DO(gleed_prefill(engine, seq, PROMPT, COUNT(PROMPT), &logits, &len, &error));
    for (count = 0; count < TOKENS; count++) {
        DO(gleed_argmax(logits, len, &text[count], &error));
        DO(gleed_decode_step(engine, seq, text[count], &logits, &len, &error));
    }
    free(engine);
}

/* A sequence whose next tokens a layer guesses. */
struct guessed {
    gleed_engine *engine, *layer;
    gleed_guesses *guesses;
    gleed_seq seq, layer_seq;
    gleed_metrics metrics;
    size_t yields;
};

static void begin(struct guessed *it)
{
    const float *logits = NULL;
    size_t len = 0;
    uint32_t token;
    memset(it, 0, sizeof *it);
    it->metrics.struct_size = sizeof it->metrics;
    it->engine = start_engine(model, &config);
    it->layer = start_engine(predictor, &of_layer);
    DO(gleed_seq_open(it->engine, &it->seq, &error));
    it->guesses = start_guesses(it->engine, it->seq, 3, 0);
    DO(gleed_guesses_layer(it->guesses, it->layer, &it->layer_seq, &error));
    DO(gleed_guesses_prefill(it->guesses, it->engine, it->layer, PROMPT, COUNT(PROMPT), &logits, &len, &error));
    DO(gleed_argmax(logits, len, &token, &error));
    CHECK(token == text[0]);
}

/* Goes on with the text until `count` tokens are chosen. Every call with the layer has `budget`. */
static size_t go_on(struct guessed *it, size_t done, size_t count, const gleed_budget *budget)
{
    const float *logits = NULL;
    size_t len = 0, guessed = 0;
    uint32_t token;
    while (done < count) {
        gleed_status status;
        while ((status = gleed_guesses_queue_layer(it->guesses, it->engine, it->layer, text[done - 1], NULL, 0, budget,
                                                   &guessed, &error)) == GLEED_YIELDED)
            it->yields++;
        CHECK(status == GLEED_OK && guessed <= 3);
        EXPECT(GLEED_READY, gleed_step(it->engine, NULL, &error));
        while (done < count && gleed_guesses_logits(it->guesses, it->engine, &logits, &len, &error) == GLEED_OK) {
            DO(gleed_argmax(logits, len, &token, &error));
            CHECK(token == text[done]);
            done++;
            DO(gleed_guesses_take(it->guesses, it->engine, token, &error));
        }
        DO(gleed_guesses_end(it->guesses, it->engine, 0, &error));
    }
    DO(gleed_engine_metrics(it->engine, &it->metrics, &error));
    return done;
}

static void end(struct guessed *it)
{
    free(it->guesses);
    free(it->layer);
    free(it->engine);
}

/* The same text and the same guesses with any budget. */
static void texts(void)
{
    gleed_budget budget = {sizeof budget, 0, 1, 0, NULL, NULL, NULL};
    struct guessed whole, units;
    begin(&whole);
    go_on(&whole, 1, TOKENS, NULL);
    CHECK(whole.yields == 0 && whole.metrics.guesses_proposed > 0);
    begin(&units);
    go_on(&units, 1, TOKENS, &budget);
    CHECK(units.yields > 10 && units.metrics.guesses_proposed == whole.metrics.guesses_proposed);
    CHECK(units.metrics.guesses_accepted == whole.metrics.guesses_accepted);
    CHECK(contents(units.engine, units.seq) == contents(whole.engine, whole.seq));
    end(&whole);
    end(&units);
}

/* All other functions that take tokens refuse the engine of a layer, too. */
static void refused(struct guessed *it)
{
    const size_t length = 3;
    const float *logits = NULL;
    size_t len = 0, guessed = 7;
    float values[64];
    gleed_seq seq;
    gleed_guesses *guesses;
    uint32_t used = 0;
    DO(gleed_seq_open(it->layer, &seq, &error));
    guesses = start_guesses(it->layer, seq, 1, 0);
    DO(gleed_model_embedding(predictor, GLEED_POOLING_LAST, &used, &len, &error));
    CHECK(len <= COUNT(values));
    EXPECT(GLEED_E_VALUE, gleed_embed(it->layer, seq, PROMPT, 3, GLEED_POOLING_LAST, values, len, &error));
    EXPECT(GLEED_E_VALUE, gleed_log_probs(it->layer, seq, PROMPT, 3, values, 2, &error));
    EXPECT(GLEED_E_VALUE, gleed_decode_step(it->layer, seq, 1, &logits, &len, &error));
    EXPECT(GLEED_E_VALUE, gleed_prefill_at(it->layer, seq, 0, PROMPT, 3, &logits, &len, &error));
    EXPECT(GLEED_E_VALUE, gleed_prefill_prompt(it->layer, seq, PROMPT, 3, &logits, &len, &error));
    EXPECT(GLEED_E_VALUE, gleed_queue_at(it->layer, seq, 0, PROMPT, 3, GLEED_LOGITS_LAST, &error));
    EXPECT(GLEED_E_VALUE, gleed_guesses_queue(guesses, it->layer, 1, NULL, 0, &guessed, &error));
    CHECK(guessed == 7);
    DO(gleed_seq_close(it->layer, seq, &error));
    EXPECT(GLEED_E_VALUE, gleed_embed_texts(it->layer, PROMPT, 3, &length, 1, GLEED_POOLING_LAST, values, len, &error));
    free(guesses);
}

static void mistakes(void)
{
    const uint32_t many[32] = {0};
    const uint32_t wrong = 40;
    uint32_t flag = 1;
    gleed_budget budget = {sizeof budget, 0, 0, 0, NULL, NULL, NULL};
    const float *logits = NULL;
    size_t len = 0, guessed = 7, done;
    uint64_t before;
    gleed_guesses *without;
    gleed_seq other, second, third;
    struct guessed it;
    begin(&it);
    /* A flag that is set. */
    before = contents(it.engine, it.seq);
    budget.cancel = &flag;
    EXPECT(GLEED_STOPPED, gleed_guesses_queue_layer(it.guesses, it.engine, it.layer, text[0], NULL, 0, &budget, &guessed, &error));
    CHECK(contents(it.engine, it.seq) == before && guessed == 7);
    budget.cancel = NULL;
    budget.reserved = 1;
    done = go_on(&it, 1, 10, NULL);
    before = contents(it.engine, it.seq);
    without = start_guesses(it.engine, it.seq, 3, 0);
#define QUEUE(guesses, layer, token, ids, count, budget) \
    gleed_guesses_queue_layer(guesses, it.engine, layer, token, ids, count, budget, &guessed, &error)
    /* No layer, and that of nobody. */
    EXPECT(GLEED_E_VALUE, QUEUE(without, it.layer, text[done - 1], NULL, 0, NULL));
    EXPECT(GLEED_E_VALUE, gleed_guesses_see(without, it.engine, it.layer, &error));
    EXPECT(GLEED_E_VALUE, gleed_guesses_prefill(without, it.engine, it.layer, PROMPT, 3, &logits, &len, &error));
    EXPECT(GLEED_E_VALUE, gleed_guesses_layer(without, it.engine, &other, &error));
    EXPECT(GLEED_E_REENTRANT, QUEUE(it.guesses, it.engine, text[done - 1], NULL, 0, NULL));
    /* The layer takes tokens from its guesses only. */
    EXPECT(GLEED_E_VALUE, gleed_prefill(it.layer, it.layer_seq, PROMPT, 3, &logits, &len, &error));
    EXPECT(GLEED_E_VALUE, gleed_queue(it.layer, it.layer_seq, PROMPT, 3, GLEED_LOGITS_LAST, &error));
    refused(&it);
    /* Wrong numbers. */
    EXPECT(GLEED_E_LIMIT, QUEUE(it.guesses, it.layer, text[done - 1], many, 32, NULL));
    EXPECT(GLEED_E_VALUE, QUEUE(it.guesses, it.layer, text[done - 1], NULL, 0, &budget));
    EXPECT(GLEED_E_TOKEN, QUEUE(it.guesses, it.layer, 40, NULL, 0, NULL));
    EXPECT(GLEED_E_TOKEN, gleed_guesses_prefill(it.guesses, it.engine, it.layer, &wrong, 1, &logits, &len, &error));
    EXPECT(GLEED_E_CONTEXT, gleed_guesses_prefill(it.guesses, it.engine, it.layer, PROMPT, 1000, &logits, &len, &error));
    CHECK(contents(it.engine, it.seq) == before && guessed == 7);
    done = go_on(&it, done, 20, NULL);
    /* Twice without an end, and more sequences than there are. */
    DO(QUEUE(it.guesses, it.layer, text[done - 1], NULL, 0, NULL));
    EXPECT(GLEED_E_BUSY, QUEUE(it.guesses, it.layer, text[done - 1], NULL, 0, NULL));
    DO(gleed_guesses_end(it.guesses, it.engine, 0, &error));
    DO(gleed_guesses_layer(without, it.layer, &second, &error));
    EXPECT(GLEED_FULL, gleed_guesses_layer(without, it.layer, &third, &error));
    /* The program empties the layer's sequence, lets the engine compute another one, and closes it at last. */
    DO(gleed_reset(it.layer, it.layer_seq, &error));
    done = go_on(&it, done, 30, NULL);
    DO(gleed_seq_open(it.engine, &other, &error));
    DO(gleed_prefill(it.engine, other, PROMPT, 8, &logits, &len, &error));
    DO(gleed_guesses_see(it.guesses, it.engine, it.layer, &error));
    done = go_on(&it, done, 40, NULL);
    DO(gleed_seq_close(it.layer, it.layer_seq, &error));
    before = contents(it.engine, it.seq);
    EXPECT(GLEED_E_SEQUENCE, QUEUE(it.guesses, it.layer, text[done - 1], NULL, 0, NULL));
    EXPECT(GLEED_E_SEQUENCE, gleed_guesses_see(it.guesses, it.engine, it.layer, &error));
    EXPECT(GLEED_E_SEQUENCE, gleed_guesses_prefill(it.guesses, it.engine, it.layer, PROMPT, 3, &logits, &len, &error));
    CHECK(contents(it.engine, it.seq) == before);
    /* Its guesses go on in a new sequence, or without the layer. */
    DO(gleed_guesses_layer(it.guesses, it.layer, &it.layer_seq, &error));
    done = go_on(&it, done, 50, NULL);
    DO(gleed_guesses_queue(it.guesses, it.engine, text[done - 1], NULL, 0, &guessed, &error));
    DO(gleed_guesses_end(it.guesses, it.engine, 0, &error));
    free(without);
    end(&it);
#undef QUEUE
}

/* A rewind to 20 of 40 tokens computes nothing again where checkpoints were saved, and 20 tokens where not. */
static void checkpoints(void)
{
    gleed_snapshot_options options = {sizeof options, 0, NULL, 0, 0, 0};
    gleed_plan_info plan = {sizeof plan, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    gleed_engine *engine = start_engine(model, &config), *reader;
    const float *logits = NULL;
    size_t len = 0, without = 0, with = 0, computed = 0, place;
    uint8_t *bytes;
    uint64_t before;
    gleed_seq seq, restored;
    DO(gleed_plan_describe(model, &config, &plan, &error));
    CHECK(plan.state_bytes > 0);
    DO(gleed_seq_open(engine, &seq, &error));
    DO(gleed_prefill(engine, seq, text, 16, &logits, &len, &error));
    DO(gleed_prefill(engine, seq, text + 16, 4, &logits, &len, &error));
    DO(gleed_checkpoint(engine, seq, &error));
    DO(gleed_prefill(engine, seq, text + 20, 20, &logits, &len, &error));
    DO(gleed_computed_at(engine, seq, 20, &computed, &error));
    CHECK(computed == 20);
    /* A program of an earlier header has a struct without these fields. */
    options.checkpoints = 77;
    options.struct_size = (uint32_t)offsetof(gleed_snapshot_options, checkpoints);
    DO(gleed_snapshot_size(engine, seq, &options, &without, &error));
    DO(gleed_snapshot_size(engine, seq, NULL, &with, &error));
    CHECK(with == without);
    options.struct_size = sizeof options;
    options.checkpoints = 1;
    options.reserved = 1;
    EXPECT(GLEED_E_VALUE, gleed_snapshot_size(engine, seq, &options, &with, &error));
    options.reserved = 0;
    DO(gleed_snapshot_size(engine, seq, &options, &with, &error));
    CHECK(with == without + plan.state_bytes + 12);
    /* More than there are. */
    options.checkpoints = UINT32_MAX;
    DO(gleed_snapshot_size(engine, seq, &options, &with, &error));
    CHECK(with > without + plan.state_bytes + 12 && with <= without + 16 * (plan.state_bytes + 12));
    bytes = aligned(with, 8);
    EXPECT(GLEED_E_SNAPSHOT_BUFFER, gleed_snapshot(engine, seq, &options, bytes, with - 1, &len, &error));
    DO(gleed_snapshot(engine, seq, &options, bytes, with, &len, &error));
    CHECK(len == with);

    reader = start_engine(model, &config);
    DO(gleed_restore(reader, NULL, bytes, with, &restored, &error));
    CHECK(contents(reader, restored) == contents(engine, seq));
    DO(gleed_computed_at(reader, restored, 20, &computed, &error));
    CHECK(computed == 20);
    before = contents(reader, restored);
    /* Every part of it is checked. */
    for (place = 0; place < with; place += 97) {
        bytes[place] ^= 4;
        CHECK(gleed_restore(reader, NULL, bytes, with, &seq, &error) < 0);
        bytes[place] ^= 4;
    }
    CHECK(contents(reader, restored) == before);
    DO(gleed_seq_close(reader, restored, &error));
    DO(gleed_seq_open(engine, &seq, &error));
    DO(gleed_prefill(engine, seq, text, 40, &logits, &len, &error));
    DO(gleed_snapshot(engine, seq, NULL, bytes, with, &len, &error));
    DO(gleed_restore(reader, NULL, bytes, len, &restored, &error));
    DO(gleed_computed_at(reader, restored, 20, &computed, &error));
    CHECK(computed < 20);
    free(bytes);
    free(reader);
    free(engine);
}

int main(int argc, char **argv)
{
    const uint8_t *bytes;
    size_t len;
    CHECK(argc == 2);
    bytes = read_file(argv[1], &len);
    model = open_model(bytes, len);
    models();
    plain();
    texts();
    mistakes();
    checkpoints();
    printf("every text was the model's own\n");
    return 0;
}
