/*
 * Conversations: three turns with the demo model, a reply that is written again, an edit, a branch, a saved one that goes on, and
 * one that outgrows its context. Each step prints the position, the new tokens and the reply, for a comparison with the Rust API.
 * Then the mistakes that programs make with them.
 *
 * usage: conversation MODEL
 */
#define _POSIX_C_SOURCE 200112L /* for posix_memalign */
#include "support.h"

#define REPLY 12

static const gleed_model *model;
static const gleed_tokenizer *tokenizer;
static gleed_engine *engine;
static gleed_desk *desk;
static gleed_script script = {sizeof script, 0, 0, 0, NULL, 0, NULL, 0};

static gleed_entry entries[64];
static size_t count;

static gleed_update update = {sizeof update, 0, NULL, 0, 0, 0};

static gleed_entry said(uint32_t role, const char *text)
{
    gleed_entry entry = {0, 0, NULL, 0, NULL, 0, NULL, 0};
    entry.role = role;
    entry.text = text;
    entry.text_len = strlen(text);
    return entry;
}

static void user(const char *text) { entries[count++] = said(GLEED_ROLE_USER, text); }

static gleed_seq seq_of(const gleed_conversation *talk)
{
    gleed_seq seq = 0;
    DO(gleed_conversation_seq(talk, &seq, &error));
    return seq;
}

/* The text of a reply. Nobody frees it. */
static const char *text_of(const uint32_t *tokens, size_t len)
{
    gleed_detokenizer *detokenizer = NULL;
    size_t size, align, written = 0, at = 0, i;
    char *text = calloc(1, 1000);
    CHECK(text != NULL);
    DO(gleed_detokenizer_size(&size, &align, &error));
    DO(gleed_detokenizer_init(tokenizer, GLEED_DECODE_CONTINUES, aligned(size, align), size, &detokenizer, &error));
    for (i = 0; i < len; i++, at += written)
        DO(gleed_detokenize(detokenizer, tokenizer, tokens[i], text + at, 999 - at, &written, &error));
    DO(gleed_detokenizer_finish(detokenizer, text + at, 999 - at, &written, &error));
    return text;
}

/* The model replies to what is new, and the reply becomes an entry. */
static void reply(const gleed_conversation *talk)
{
    const gleed_seq seq = seq_of(talk);
    const float *logits = NULL;
    uint32_t tokens[REPLY];
    size_t len = 0, i;
    printf("%u:", (unsigned)update.position);
    for (i = 0; i < update.tokens_len; i++)
        printf(" %u", (unsigned)update.tokens[i]);
    printf(" |");
    DO(gleed_prefill(engine, seq, update.tokens, update.tokens_len, &logits, &len, &error));
    for (i = 0; i < REPLY; i++) {
        DO(gleed_argmax(logits, len, &tokens[i], &error));
        printf(" %u", (unsigned)tokens[i]);
        DO(gleed_decode_step(engine, seq, tokens[i], &logits, &len, &error));
    }
    printf(" | %u %u\n", (unsigned)(update.left_out_len > 0 ? update.left_out : 0), (unsigned)update.left_out_len);
    entries[count++] = said(GLEED_ROLE_ASSISTANT, text_of(tokens, REPLY));
}

static void turn(gleed_conversation *talk, const gleed_keep *keep)
{
    DO(gleed_conversation_update(talk, engine, tokenizer, desk, entries, count, &script, keep, &update, &error));
    reply(talk);
}

static gleed_conversation *start(void)
{
    gleed_seq seq;
    DO(gleed_seq_open(engine, &seq, &error));
    count = 0;
    return start_conversation(engine, seq, NULL);
}

static gleed_conversation *fork_of(const gleed_conversation *talk)
{
    gleed_conversation *fork = NULL;
    size_t size, align;
    void *memory;
    DO(gleed_conversation_plan(engine, &size, &align, NULL, &error));
    memory = aligned(size, align);
    EXPECT(GLEED_E_MEMORY_TOO_SMALL, gleed_conversation_fork(talk, engine, memory, size - 1, &fork, &error));
    CHECK(error.needed == size && error.given == size - 1 && fork == NULL);
    DO(gleed_conversation_fork(talk, engine, memory, size, &fork, &error));
    CHECK(seq_of(fork) != seq_of(talk));
    return fork;
}

/* Saved, closed, damaged in many places, and loaded with its entries. */
static gleed_conversation *reload(gleed_conversation *talk)
{
    gleed_conversation *loaded = NULL;
    size_t size = 0, written = 0, align, memory_len, found = 7, i;
    gleed_entry again[64];
    void *memory;
    uint8_t *bytes;
    DO(gleed_conversation_saved_size(talk, engine, desk, entries, count, &size, &error));
    CHECK((bytes = malloc(size)) != NULL);
    EXPECT(GLEED_E_SNAPSHOT_BUFFER, gleed_conversation_save(talk, engine, desk, entries, count, bytes, size - 1, &written, &error));
    CHECK(error.needed == size && error.given == size - 1 && written == 0);
    DO(gleed_conversation_save(talk, engine, desk, entries, count, bytes, size, &written, &error));
    CHECK(written == size);
    DO(gleed_seq_close(engine, seq_of(talk), &error));
    EXPECT(GLEED_E_SEQUENCE, gleed_conversation_update(talk, engine, tokenizer, desk, entries, count, &script, NULL, &update, &error));
    EXPECT(GLEED_E_SEQUENCE, gleed_conversation_saved_size(talk, engine, desk, entries, count, &size, &error));

    DO(gleed_conversation_plan(engine, &memory_len, &align, NULL, &error));
    memory = aligned(memory_len, align);
    EXPECT(GLEED_E_MEMORY_TOO_SMALL, gleed_conversation_load(engine, bytes, size, NULL, memory, memory_len - 1, &loaded, &error));
    for (i = 0; i < size; i += i < 100 ? 1 : 997) {
        bytes[i] ^= 4;
        CHECK(gleed_conversation_load(engine, bytes, size, NULL, memory, memory_len, &loaded, &error) <= GLEED_E_SNAPSHOT);
        bytes[i] ^= 4;
        CHECK(gleed_conversation_load(engine, bytes, i, NULL, memory, memory_len, &loaded, &error) <= GLEED_E_SNAPSHOT);
        CHECK(loaded == NULL);
    }
    EXPECT(GLEED_E_SNAPSHOT_MAGIC, gleed_conversation_saved_entries(bytes, 7, entries, COUNT(entries), &found, &error));
    bytes[8]++;
    EXPECT(GLEED_E_SNAPSHOT_VERSION, gleed_conversation_saved_entries(bytes, size, entries, COUNT(entries), &found, &error));
    bytes[8]--;
    DO(gleed_conversation_load(engine, bytes, size, NULL, memory, memory_len, &loaded, &error));
    EXPECT(GLEED_E_OUTPUT_TOO_SMALL, gleed_conversation_saved_entries(bytes, size, NULL, 0, &found, &error));
    CHECK(error.needed == count && error.given == 0 && found == 7);
    DO(gleed_conversation_saved_entries(bytes, size, again, COUNT(again), &found, &error));
    CHECK(found == count);
    for (i = 0; i < count; i++) {
        CHECK(again[i].role == entries[i].role && again[i].text_len == entries[i].text_len);
        CHECK(memcmp(again[i].text, entries[i].text, entries[i].text_len) == 0);
        entries[i] = again[i];
    }
    return loaded;
}

static void three_turns(void)
{
    gleed_conversation *talk = start(), *fork;
    size_t before;
    user("Tell me of a dog.");
    turn(talk, NULL);
    user("And then?");
    turn(talk, NULL);
    user("Who was it?");
    turn(talk, NULL);
    /* The reply again. */
    count--;
    turn(talk, NULL);
    CHECK(update.tokens_len == 1);
    /* The second message in other words. */
    count = 3;
    entries[2] = said(GLEED_ROLE_USER, "Tell me of a cat.");
    turn(talk, NULL);
    fork = fork_of(talk);
    before = count;
    user("Was it a big cat?");
    turn(fork, NULL);
    count = before;
    user("Where is it now?");
    turn(talk, NULL);
    CHECK(contents(engine, seq_of(fork)) != contents(engine, seq_of(talk)));
    DO(gleed_seq_close(engine, seq_of(fork), &error));
    talk = reload(talk);
    user("Good night.");
    turn(talk, NULL);
    CHECK(update.tokens_len < 40);
    DO(gleed_seq_close(engine, seq_of(talk), &error));
}

static int calls;
static gleed_conversation *talking;

static int32_t summary(void *ctx, size_t first, size_t left_out, gleed_message *message)
{
    gleed_seq seq = 0;
    CHECK(ctx == &calls && left_out > 0 && first + left_out < count && entries[first].role == GLEED_ROLE_USER);
    EXPECT(GLEED_E_REENTRANT, gleed_conversation_seq(talking, &seq, &error));
    EXPECT(GLEED_E_REENTRANT, gleed_conversation_update(talking, engine, tokenizer, desk, entries, 1, &script, NULL, &update, &error));
    EXPECT(GLEED_E_REENTRANT, gleed_seq_open(engine, &seq, &error));
    calls++;
    message->role = GLEED_ROLE_USER;
    message->text = "Some time passed.";
    message->text_len = strlen(message->text);
    return 1;
}

static int32_t bad_summary(void *ctx, size_t first, size_t left_out, gleed_message *message)
{
    (void)ctx;
    (void)first;
    (void)left_out;
    message->role = GLEED_ROLE_USER;
    message->text = "Some\xff";
    message->text_len = 5;
    return 1;
}

static void full_context(void)
{
    const gleed_keep keep = {sizeof keep, 40, 1, 1, 140, 0, summary, &calls};
    const gleed_keep bad = {sizeof bad, 40, 1, 1, 140, 0, bad_summary, NULL};
    gleed_conversation *talk = talking = start();
    uint64_t before;
    int i, left_out = 0;
    for (i = 0; i < 12; i++) {
        user("Once upon a time there was a little girl. What did she do?");
        before = contents(engine, seq_of(talk));
        if (left_out == 0 && gleed_conversation_update(talk, engine, tokenizer, desk, entries, count, &script, NULL, &update,
                                                       &error) == GLEED_E_CONTEXT) {
            CHECK(error.needed == 300 && error.given > 300);
            EXPECT(GLEED_E_TEXT, gleed_conversation_update(talk, engine, tokenizer, desk, entries, count, &script, &bad, &update,
                                                           &error));
            CHECK(error.at == 4 && contents(engine, seq_of(talk)) == before);
            left_out = 1;
        }
        turn(talk, &keep);
    }
    CHECK(left_out == 1 && calls > 0 && update.left_out == 2 && update.left_out_len > 2);
    DO(gleed_seq_close(engine, seq_of(talk), &error));
}

/* A list with the result of a tool, in an engine with more room. */
static void tools(void)
{
    const gleed_config config = {sizeof config, 1, 1000, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    const char *list = "[{\"name\": \"roll\", \"parameters\": {\"type\": \"object\", \"properties\": {}}}]";
    gleed_engine *large = start_engine(model, &config);
    gleed_script with = {sizeof with, 0, GLEED_THINK_NO, 0, list, strlen(list), "hermes", 6};
    gleed_entry result = {GLEED_ROLE_TOOL, 0, "6", 1, "roll", 4, "a1", 2};
    gleed_conversation *talk;
    gleed_seq seq;
    size_t i;
    DO(gleed_turns_named("chatml", 6, &with.format, &error));
    DO(gleed_seq_open(large, &seq, &error));
    talk = start_conversation(large, seq, NULL);
    count = 0;
    user("Hi.");
    entries[count++] = said(GLEED_ROLE_ASSISTANT, "<tool_call>\n{\"name\": \"roll\", \"arguments\": {}}\n</tool_call>");
    entries[count++] = result;
    DO(gleed_conversation_update(talk, large, tokenizer, desk, entries, count, &with, NULL, &update, &error));
    for (i = 0; i < update.tokens_len; i++)
        printf(" %u", (unsigned)update.tokens[i]);
    printf("\n");
    /* The sequence is not one of the other engine. */
    EXPECT(GLEED_E_SEQUENCE, gleed_conversation_update(talk, engine, tokenizer, desk, entries, count, &with, NULL, &update, &error));
}

static void wrong(gleed_conversation *talk, gleed_status expected, const gleed_entry *list, size_t len, const gleed_script *how,
                  const gleed_keep *keep)
{
    const uint64_t before = contents(engine, seq_of(talk));
    gleed_update fresh = {sizeof fresh, 7, NULL, 7, 7, 7};
    EXPECT(expected, gleed_conversation_update(talk, engine, tokenizer, desk, list, len, how, keep, &fresh, &error));
    CHECK(fresh.position == 7 && fresh.tokens == NULL && fresh.tokens_len == 7 && fresh.left_out == 7 && fresh.left_out_len == 7);
    CHECK(contents(engine, seq_of(talk)) == before);
}

static void mistakes(void)
{
    const char *tools = "[{\"name\": \"roll\", \"parameters\": {\"type\": \"object\", \"properties\": {}}}]";
    const gleed_desk_limits small = {sizeof small, 0, 200, 30, 4, 2}, huge = {sizeof huge, UINT32_MAX, UINT32_MAX, UINT32_MAX, 1, 1};
    const gleed_conversation_limits odd = {sizeof odd, 0, 0, 1}, two = {sizeof two, 2, 9, 0};
    const gleed_entry hi = said(GLEED_ROLE_USER, "Hi.");
    const gleed_script scripts[] = {{sizeof script, 9999, 0, 0, NULL, 0, NULL, 0}, {sizeof script, 0, 3, 0, NULL, 0, NULL, 0},
                                    {sizeof script, 0, 0, 4, NULL, 0, NULL, 0}};
    gleed_keep keep = {sizeof keep, 0, 0, 0, 0, 1, NULL, NULL};
    gleed_conversation *talk = start(), *none = NULL;
    gleed_desk *all = desk, *nothing = NULL;
    gleed_script other = script;
    gleed_entry list[3], result = {GLEED_ROLE_TOOL, 0, "6", 1, "roll", 4, NULL, 0};
    size_t size = 7, align = 7, larger, i;
    static char text[20000];
    void *memory;

    DO(gleed_conversation_update(talk, engine, tokenizer, desk, &hi, 1, &script, NULL, &update, &error));
    /* Entries. */
    for (i = 0; i < 3; i++)
        list[i] = hi;
    list[1].role = GLEED_AFTER_REPLY;
    wrong(talk, GLEED_E_VALUE, list, 3, &script, NULL);
    CHECK(error.at == 1 && error.given == GLEED_AFTER_REPLY);
    list[1] = hi;
    list[2].reserved = 1;
    wrong(talk, GLEED_E_VALUE, list, 3, &script, NULL);
    CHECK(error.at == 2);
    list[2] = hi;
    list[2].name_len = 1;
    wrong(talk, GLEED_E_VALUE, list, 3, &script, NULL);
    list[2] = hi;
    list[2].text = NULL;
    wrong(talk, GLEED_E_NULL, list, 3, &script, NULL);
    CHECK(error.at == 2);
    list[2].text = "Hi\xff";
    wrong(talk, GLEED_E_TEXT, list, 3, &script, NULL);
    CHECK(error.at == 2);
    list[2].text_len = (size_t)1 << 29;
    wrong(talk, GLEED_E_TEXT_TOO_LONG, list, 3, &script, NULL);
    list[2] = result;
    wrong(talk, GLEED_E_VALUE, list, 3, &script, NULL);
    CHECK(error.at == 2);
    wrong(talk, GLEED_E_SCRATCH_TOO_SMALL, list, 257, &script, NULL);
    CHECK(error.needed == 257 && error.given == 256);
    memset(text, 'a', sizeof text);
    list[2] = hi;
    list[2].text = text;
    list[2].text_len = sizeof text;
    wrong(talk, GLEED_E_SCRATCH_TOO_SMALL, list, 3, &script, NULL);
    CHECK(error.given == 16384);
    /* One word that the desk takes, and the context does not. */
    list[2].text_len = 2000;
    wrong(talk, GLEED_E_CONTEXT, list, 3, &script, NULL);
    other.format = GLEED_NO_TURNS;
    other.flags = GLEED_SCRIPT_NO_BOS;
    wrong(talk, GLEED_E_EMPTY, NULL, 0, &other, NULL);
    /* Scripts. */
    for (i = 0; i < COUNT(scripts); i++)
        wrong(talk, GLEED_E_VALUE, &hi, 1, &scripts[i], NULL);
    other = script;
    other.tools_len = 2;
    wrong(talk, GLEED_E_NULL, &hi, 1, &other, NULL);
    other.tools = "[1]";
    other.tools_len = 3;
    wrong(talk, GLEED_E_VALUE, &hi, 1, &other, NULL);
    DO(gleed_turns_named("chatml", 6, &other.format, &error));
    other.tool_format = "hermes";
    other.tool_format_len = 6;
    wrong(talk, GLEED_E_TOOLS, &hi, 1, &other, NULL);
    wrong(talk, GLEED_E_VALUE, &hi, 1, &script, &keep);

    /* Tools, and their results. */
    other.tools = tools;
    other.tools_len = strlen(tools);
    list[1] = said(GLEED_ROLE_ASSISTANT, "<tool_call>\n{\"name\": \"roll\", \"arguments\": {}}\n</tool_call>");
    list[2] = result;
    other.tool_format = "none";
    other.tool_format_len = 4;
    wrong(talk, GLEED_E_VALUE, list, 3, &other, NULL);
    other.tool_format = "hermes";
    other.tool_format_len = 6;
    wrong(talk, GLEED_E_CONTEXT, list, 3, &other, NULL);

    /* Desks and conversations that are too small. */
    EXPECT(GLEED_E_VALUE, gleed_conversation_plan(engine, &size, &align, &odd, &error));
    DO(gleed_conversation_plan(engine, &size, &align, &two, &error));
    DO(gleed_conversation_plan(engine, &larger, &align, NULL, &error));
    CHECK(size < larger);
    memory = aligned(larger, align);
    EXPECT(GLEED_E_MEMORY_TOO_SMALL, gleed_conversation_init(engine, seq_of(talk), &two, memory, size - 1, &none, &error));
    CHECK(error.needed == size && error.given == size - 1);
    EXPECT(GLEED_E_SEQUENCE, gleed_conversation_init(engine, 0, &two, memory, size, &none, &error));
    EXPECT(GLEED_E_SNAPSHOT_MAGIC, gleed_conversation_load(engine, memory, 0, NULL, memory, larger, &none, &error));
    CHECK(none == NULL);
    EXPECT(sizeof(size_t) > 4 ? GLEED_OK : GLEED_E_MEMORY_TOO_LARGE, gleed_desk_plan(tokenizer, &size, &align, &huge, &error));
    DO(gleed_desk_plan(tokenizer, &size, &align, &small, &error));
    EXPECT(GLEED_E_MEMORY_TOO_SMALL, gleed_desk_init(tokenizer, &small, aligned(size, align), size - 1, &nothing, &error));
    CHECK(error.needed == size && error.given == size - 1 && nothing == NULL);
    desk = start_desk(tokenizer, &small);
    list[1] = list[2] = hi;
    wrong(talk, GLEED_E_SCRATCH_TOO_SMALL, list, 3, &script, NULL);
    CHECK(error.needed == 3 && error.given == 2);
    list[1].text = text;
    list[1].text_len = 60;
    EXPECT(GLEED_E_SCRATCH_TOO_SMALL,
           gleed_conversation_update(talk, engine, tokenizer, desk, list, 2, &script, NULL, &update, &error));
    CHECK(strstr(error.text, "`word`") != NULL);
    list[1] = hi;
    EXPECT(GLEED_E_SCRATCH_TOO_SMALL, gleed_conversation_saved_size(talk, engine, desk, list, 3, &size, &error));
    DO(gleed_conversation_update(talk, engine, tokenizer, desk, list, 2, &script, NULL, &update, &error));
    desk = all;

    /* Work that is not finished. */
    DO(gleed_queue(engine, seq_of(talk), update.tokens, update.tokens_len, GLEED_LOGITS_LAST, &error));
    EXPECT(GLEED_E_BUSY, gleed_conversation_update(talk, engine, tokenizer, desk, list, 1, &script, NULL, &update, &error));
    EXPECT(GLEED_E_BUSY, gleed_conversation_saved_size(talk, engine, desk, list, 1, &size, &error));
    EXPECT(GLEED_READY, gleed_step(engine, NULL, &error));
    DO(gleed_conversation_update(talk, engine, tokenizer, desk, list, 1, &script, NULL, &update, &error));
}

int main(int argc, char **argv)
{
    const gleed_config config = {sizeof config, 3, 300, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    const uint8_t *bytes;
    size_t len;
    CHECK(argc == 2);
    bytes = read_file(argv[1], &len);
    model = open_model(bytes, len);
    tokenizer = start_tokenizer(model);
    engine = start_engine(model, &config);
    desk = start_desk(tokenizer, NULL);
    DO(gleed_turns_named("vicuna", 6, &script.format, &error));
    three_turns();
    full_context();
    tools();
    mistakes();
    printf("every mistake was answered\n");
    return 0;
}
