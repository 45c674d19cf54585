// Uses gleed.hpp without exceptions and run-time types: text in, text out; forks; a restore.
//
// usage: wrapper MODEL
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>
#if __cplusplus > 201703L
#include <span>
#endif

#include "gleed.h"

// Whether the wrapper's calls of gleed_writing_describe go to the library. If not, they are refused.
static bool describes = true;

static gleed_status describe(gleed_writing *writing, gleed_writing_info *info, gleed_error *error) {
    return describes ? gleed_writing_describe(writing, info, error) : GLEED_E_INTERNAL;
}
#define gleed_writing_describe describe
#include "gleed.hpp"

#define CHECK(condition)                                                            \
    do {                                                                            \
        if (!(condition)) {                                                         \
            std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);    \
            std::exit(1);                                                           \
        }                                                                           \
    } while (0)

// Counts the blocks that the wrapper has allocated. A block may have at most `most` bytes.
static std::size_t most = SIZE_MAX, blocks = 0;

void *operator new(std::size_t size, std::align_val_t align, const std::nothrow_t &) noexcept {
    if (size > most) return nullptr;
    blocks++;
    const auto least = static_cast<std::size_t>(align) < 64 ? 64 : static_cast<std::size_t>(align);
    return std::aligned_alloc(least, (size + least - 1) / least * least);
}
void operator delete(void *block, std::align_val_t) noexcept {
    if (block != nullptr) blocks--;
    std::free(block);
}

static std::vector<std::uint8_t> read_file(const char *path) {
    std::vector<std::uint8_t> bytes;
    std::FILE *file = std::fopen(path, "rb");
    CHECK(file != nullptr && std::fseek(file, 0, SEEK_END) == 0);
    bytes.resize(static_cast<std::size_t>(std::ftell(file)));
    std::rewind(file);
    CHECK(std::fread(bytes.data(), 1, bytes.size(), file) == bytes.size());
    std::fclose(file);
    return bytes;
}

static_assert(!std::is_copy_constructible_v<gleed::Engine> && std::is_nothrow_move_constructible_v<gleed::Engine>);
static_assert(!std::is_copy_constructible_v<gleed::Sequence> && std::is_nothrow_move_constructible_v<gleed::Sequence>);

// A kept view cannot be made from a temporary object, but can be made from a temporary view.
using KeptBytes = gleed::Kept<const std::uint8_t>;
using KeptText = gleed::Kept<const char>;
static_assert(!std::is_convertible_v<std::vector<std::uint8_t>, KeptBytes> && !std::is_convertible_v<std::string, KeptText>);
static_assert(std::is_convertible_v<std::vector<std::uint8_t> &, KeptBytes>);
static_assert(std::is_convertible_v<const std::vector<std::uint8_t> &, KeptBytes>);
static_assert(std::is_convertible_v<gleed::Bytes, KeptBytes> && std::is_convertible_v<std::string_view, KeptText>);
static_assert(std::is_convertible_v<const char (&)[3], KeptText> && std::is_convertible_v<std::vector<char>, gleed::Span<const char>>);
#if __cplusplus > 201703L
static_assert(std::is_convertible_v<std::span<const std::uint8_t>, KeptBytes>);
#endif
static_assert(std::is_same_v<decltype(std::declval<gleed::Result<gleed::Model>>().value()), gleed::Model>);

// The views of texts end before their terminating 0. Views of buffers have their whole length.
static void literals(const gleed::Model &model, const gleed::Tokenizer &tokenizer) {
    using Text = gleed::Span<const char>;
    char buffer[8] = "Hi";
    const char full[2] = {'H', 'i'};
    CHECK(Text("Hi").size() == 2 && Text("").size() == 0 && Text(buffer).size() == 2 && Text(full).size() == 2);
    CHECK(gleed::Span<char>(buffer).size() == 8 && Text(gleed::Span<char>(buffer)).size() == 8);
    CHECK(Text(std::string_view("H\0i", 3)).size() == 3 && Text(std::string("H\0i", 3)).size() == 3 && Text("H\0i", 3).size() == 3);
    const std::uint32_t zeros[4] = {};
    const std::uint8_t bytes[4] = {};
    CHECK(gleed::Tokens(zeros).size() == 4 && gleed::Bytes(bytes).size() == 4);
    static_assert(Text("Hi").size() == 2);

    std::uint32_t scratch[2000], ids[8], other[8];
    CHECK(gleed::Turns::named("chatml").value() && !gleed::Turns::named("chat").value());
    CHECK(tokenizer.find("</s>").value() == tokenizer.info().value().eos);
    CHECK(model.string("general.architecture").value().size() == 5);
    CHECK(tokenizer.encode("Hi", 0, scratch, ids).value() == tokenizer.encode(std::string_view("Hi"), 0, scratch, other).value());
    CHECK(tokenizer.encode(buffer, 0, scratch, ids).value() == tokenizer.encode("Hi", 0, scratch, other).value());
    auto regex = gleed::make<gleed_grammar_options>();
    regex.kind = GLEED_GRAMMAR_REGEX;
    const auto grammar = gleed::Grammar::compile("a+", regex);
    auto matcher = gleed::Matcher::start(grammar.value());
    CHECK(matcher.value().accept("aaab").value() == 3 && matcher.value().is_end().value());
    CHECK(gleed::message(GLEED_ROLE_USER, "Hi").text_len == 2 && gleed::entry(GLEED_ROLE_USER, "Hi").text_len == 2);

    auto calls = gleed::Calls::start("hermes", 0, "");
    const char reply[] = "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>";
    CHECK(calls.value().next(reply, true, buffer).value().kind == GLEED_PART_CALL);
    const auto none = gleed::Calls::start("hermess", 0, "");
    CHECK(none.status().code() == GLEED_E_VALUE && none.status().error().status == GLEED_E_VALUE);
    CHECK(gleed::Calls::start("", 0, ""));
}

// A status describes its own call only.
static void statuses(const gleed::Tokenizer &tokenizer) {
    const std::string ok = gleed_status_text(GLEED_OK);
    const auto tells_of = [&](const gleed::Status &status) {
        return status.ok() && status.error().status == GLEED_OK && status.error().needed == 0 && status.text() == ok;
    };
    // Both calls begin with a scratch that is too small.
    CHECK(tells_of(gleed::Grammar::compile("{}", gleed::make<gleed_grammar_options>()).status()));
    CHECK(tells_of(gleed::TokenTrie::make(tokenizer).status()) && tells_of(gleed::Status()));
    gleed::Status status;
    status = gleed_turns_named(nullptr, 1, nullptr, status.details());
    CHECK(status.code() == GLEED_E_NULL && status.error().status == GLEED_E_NULL && status.text() != ok);
    CHECK(status.error().text[0] != 0);
    status = GLEED_E_SHAPE;
    CHECK(status.failed() && status.error().status == GLEED_E_SHAPE && status.text() == std::string(gleed_status_text(GLEED_E_SHAPE)));
    status = GLEED_YIELDED;
    CHECK(!status.failed() && status.error().status == GLEED_YIELDED && status.text() == std::string(gleed_status_text(GLEED_YIELDED)));
    status = GLEED_OK;
    CHECK(tells_of(status));
}

// A build whose scratch cannot grow fails, and fails again in each later call.
static void scratch_that_runs_out() {
    std::string schema = "{\"allOf\":[";
    for (char name = 'a'; name < 'k'; name++) {
        const std::string property = std::string("{\"properties\":{\"") + name + "\":{\"type\":\"";
        schema += std::string(name == 'a' ? "" : ",") + "{\"anyOf\":[" + property + "string\"}}}," + property + "integer\"}}}]}";
    }
    schema += "]}";
    const auto options = gleed::make<gleed_grammar_options>();
    const std::size_t before = blocks;
    {
        auto build = gleed::GrammarBuild::begin(schema, options);
        CHECK(build);
        most = sizeof(std::uint32_t) * ((std::size_t(1) << 18) + 64 * schema.size());
        gleed::Status status;
        do status = build.value().step(64);
        while (status.code() == GLEED_YIELDED);
        CHECK(status.code() == GLEED_E_SCRATCH_TOO_SMALL && status.error().needed * sizeof(std::uint32_t) > most);
        const auto compiled = gleed::Grammar::compile(schema, options);
        CHECK(compiled.status().code() == GLEED_E_SCRATCH_TOO_SMALL);
        most = SIZE_MAX;
        CHECK(build.value().step(64).code() == GLEED_E_SCRATCH_TOO_SMALL && !build.value().finish());
        // With more memory the same text compiles, in a second scratch.
        build = gleed::GrammarBuild::begin(schema, options);
        do status = build.value().step(64);
        while (status.code() == GLEED_YIELDED);
        CHECK(status && build.value().finish());
        // Without any memory, every call fails.
        most = 0;
        CHECK(gleed::GrammarBuild::begin(schema, options).status().failed());
        CHECK(gleed::Grammar::compile("{}", options).status().code() == GLEED_E_SCRATCH_TOO_SMALL);
        most = SIZE_MAX;
    }
    CHECK(blocks == before);
}

// Moves an object there and back. A moved-from object is NULL, and nothing is freed or copied.
template <class T>
static bool moves(T &object) {
    const std::size_t before = blocks;
    const auto *pointer = object.get();
    T other = std::move(object);
    bool is_right = object.get() == nullptr && other.get() == pointer && blocks == before;
    object = std::move(other);
    is_right = is_right && other.get() == nullptr;
    T &same = object;
    object = std::move(same);
    return is_right && object.get() == pointer && pointer != nullptr && blocks == before;
}

// A moved-from object is refused, and an object that is assigned to is freed at once.
static void objects(const gleed::Bytes file) {
    const std::size_t before = blocks;
    {
        auto opened = gleed::Model::open(file);
        gleed::Model model = std::move(opened).value();
        CHECK(moves(model) && opened.value().info().status().code() == GLEED_E_NULL);
        const auto &lasts = gleed::Model::open(file).value();
        CHECK(lasts.info().value().layers == model.info().value().layers);
        gleed::Tokenizer tokenizer = gleed::Tokenizer::start(model).value();
        CHECK(moves(tokenizer));

        auto config = gleed::make<gleed_config>();
        config.sequences = 3;
        config.context = 64;
        config.logit_rows = 4;
        gleed::Engine engine = gleed::Engine::start(model, config).value();
        CHECK(moves(engine));
        {
            gleed::Engine other = gleed::Engine::start(model, config).value();
            gleed::Engine third = gleed::Engine::start(model, config).value();
            const auto *pointer = third.get();
            const std::size_t both = blocks;
            other = std::move(third);
            CHECK(blocks == both - 1 && other.get() == pointer && third.open().status().code() == GLEED_E_NULL);
            CHECK(other.open());
            { const gleed::Engine ends = std::move(other); }
            CHECK(blocks == both - 2 && other.open().status().code() == GLEED_E_NULL);
        }

        // A sequence is closed if another one is assigned to it.
        gleed::Sequence sequence = engine.open().value(), second = engine.open().value();
        const gleed_seq handle = second.handle();
        sequence = std::move(second);
        CHECK(engine.info().value().sequences == 1 && sequence.handle() == handle && second.handle() == 0);
        CHECK(second.decode(1).status().code() == GLEED_E_NULL && sequence.decode(1));
        gleed::Sequence &same = sequence;
        sequence = std::move(same);
        CHECK(sequence.decode(1) && engine.open().value_or(gleed::Sequence()).handle() != 0);
        std::swap(sequence, second);
        CHECK(second.decode(1) && engine.info().value().sequences == 1);

        gleed::Guesses guesses = gleed::Guesses::start(engine, second, 3, 64).value();
        gleed::Sampler sampler = gleed::Sampler::start(gleed::make<gleed_sampler_params>()).value();
        gleed::Desk desk = gleed::Desk::start(tokenizer).value();
        CHECK(moves(guesses) && moves(sampler) && moves(desk));
        { const gleed::Sampler ends = std::move(sampler); }
        CHECK(sampler.accept(1).code() == GLEED_E_NULL);
        gleed::Detokenizer detokenizer = gleed::Detokenizer::start(tokenizer).value();
        char text[64];
        { gleed::Detokenizer ends = std::move(detokenizer); CHECK(ends.push(1, text)); }
        CHECK(detokenizer.push(1, text).status().code() == GLEED_E_NULL);

        // A conversation closes its sequence, also if it cannot start.
        gleed::Conversation talk = gleed::Conversation::start(engine, engine.open().value()).value();
        gleed::Conversation other = gleed::Conversation::start(engine, engine.open().value()).value();
        CHECK(moves(talk) && engine.info().value().sequences == 3);
        const std::size_t talks = blocks;
        talk = std::move(other);
        CHECK(blocks == talks - 1 && engine.info().value().sequences == 2 && other.fork(engine).status().code() == GLEED_E_NULL);
        auto limits = gleed::make<gleed_conversation_limits>();
        limits.reserved = 1;
        const auto failed = gleed::Conversation::start(engine, engine.open().value(), &limits);
        CHECK(failed.status().code() == GLEED_E_VALUE && engine.info().value().sequences == 2);
        const auto small = gleed::Conversation::start(engine, engine.open().value(), gleed::Memory());
        CHECK(small.status().failed() && engine.info().value().sequences == 2);

        auto options = gleed::make<gleed_grammar_options>();
        gleed::GrammarBuild build = gleed::GrammarBuild::begin("{}", options).value();
        { gleed::GrammarBuild goes_on = std::move(build); CHECK(!goes_on.step(1).failed()); }
        CHECK(build.step(1).code() == GLEED_E_NULL && build.finish().status().code() == GLEED_E_NULL);
        gleed::TokenTrieBuild tables = gleed::TokenTrieBuild::begin(tokenizer).value();
        { gleed::TokenTrieBuild goes_on = std::move(tables); CHECK(!goes_on.step(1).failed()); }
        CHECK(tables.step(1).code() == GLEED_E_NULL && tables.finish().status().code() == GLEED_E_NULL);
        gleed::Grammar grammar = gleed::Grammar::compile("{}", options).value();
        gleed::TokenTrie trie = gleed::TokenTrie::make(tokenizer).value();
        CHECK(moves(grammar) && moves(trie));
        gleed::Matcher matcher = gleed::Matcher::start(grammar).value();
        gleed::Writing writing = gleed::Writing::start(engine, second, grammar).value();
        const gleed_string strings[] = {{"END", 3}};
        gleed::Stops stops = gleed::Stops::start(strings).value();
        gleed::Calls calls = gleed::Calls::start("hermes", 0, "").value();
        CHECK(moves(matcher) && moves(writing) && moves(stops) && moves(calls));
        { const gleed::Matcher ends = std::move(matcher); }
        CHECK(matcher.fork().status().code() == GLEED_E_NULL && matcher.is_end().status().code() == GLEED_E_NULL);
    }
    CHECK(blocks == before);
}

static bool accepts(gleed::Bytes) { return true; }
static std::size_t ends(gleed::Span<std::uint8_t>) { return 0; }
static bool consents(gleed_seq, const gleed_seq_info &) { return true; }
static std::uint64_t now = 0;
static std::uint64_t clock_of_the_host() { return ++now; }

// Functions and const objects can be callbacks, too, and can be removed.
static void callables(const gleed::Model &model) {
    auto config = gleed::make<gleed_config>();
    config.context = 64;
    config.workers = 2;
    gleed::Engine engine = gleed::Engine::start(model, config).value();
    gleed::Sequence sequence = engine.open().value();
    static unsigned loops = 0;
    const auto pool = [](std::uint32_t n, auto call) {
        loops++;
        for (std::uint32_t i = 0; i < n; i++) call(i);
    };
    const auto clock = [] { return ++now; };
    CHECK(engine.run_on(pool) && engine.measure_by(clock) && sequence.decode(1) && loops > 0 && now > 0);
    CHECK(engine.measure_by(clock_of_the_host));
    now = 0;
    CHECK(sequence.decode(1) && now > 0);
    CHECK(engine.set_executor(nullptr) && engine.measure_by(nullptr));
    loops = 0, now = 0;
    CHECK(sequence.decode(1) && loops == 0 && now == 0);
    CHECK(sequence.write_snapshot(accepts).value() == sequence.snapshot_size().value());
    CHECK(engine.read_snapshot(ends).status().code() == GLEED_E_SNAPSHOT_TRUNCATED);
    CHECK(engine.make_room(sequence, 1, consents).value() == 0);

    std::vector<std::uint8_t> snapshot(sequence.snapshot_size().value());
    CHECK(sequence.snapshot(snapshot) && gleed::snapshot_info(snapshot).value().tokens == 3);
    CHECK(gleed::snapshot_info({}).status().failed());
    const auto plan = model.plan(config).value();
    CHECK(plan.sections > 0 && model.section(config, 0).value().offset == 0);
    CHECK(model.section(config, plan.sections).status().code() == GLEED_E_VALUE);
    CHECK(gleed::selftest() && gleed::selftest(GLEED_LEVEL_SCALAR));
    CHECK(gleed::selftest(GLEED_LEVEL_SCALAR, gleed::Memory()).failed());
    CHECK(gleed::abi_version() == GLEED_ABI_VERSION && gleed::version()[0] != 0 && gleed::arithmetic_version() > 0);
    gleed::allow_amx();
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    const auto file = read_file(argv[1]);
    auto model = gleed::Model::open(file);
    CHECK(model);
    auto config = gleed::make<gleed_config>();
    config.sequences = 3;
    config.context = 64;
    config.workers = 2;
    CHECK(model.value().plan(config).value().units_per_token > 0);
    auto started = gleed::Engine::start(model.value(), config);
    CHECK(started);
    gleed::Engine engine = std::move(started).value();
    unsigned loops = 0;
    auto loop = [&loops](std::uint32_t n, auto call) {
        loops++;
        for (std::uint32_t i = n; i-- > 0;) call(i);
    };
    CHECK(engine.run_on(loop));
    std::uint64_t ticks = 0;
    auto clock = [&ticks] { return ++ticks; };
    CHECK(engine.measure_by(clock));

    auto tokenizer = gleed::Tokenizer::start(model.value());
    CHECK(tokenizer);
    std::uint32_t scratch[2000], ids[32];
    const auto count = tokenizer.value().encode(std::string_view("Once upon a time"), GLEED_ENCODE_ADD_SPECIAL, scratch, ids);
    CHECK(count);
    auto seq = engine.open();
    CHECK(seq);
    auto logits = seq.value().prefill(gleed::Tokens(ids, count.value()));
    CHECK(logits && loops > 0);

    auto fork = seq.value().fork(count.value());
    CHECK(fork);
    std::vector<std::uint8_t> snapshot(seq.value().snapshot_size().value());
    CHECK(seq.value().snapshot(snapshot));
    auto restored = engine.restore(snapshot);
    CHECK(restored);
    auto none = engine.open();
    CHECK(!none && none.status().code() == GLEED_FULL && std::strlen(none.status().text()) > 0);

    auto detokenizer = gleed::Detokenizer::start(tokenizer.value(), GLEED_DECODE_CONTINUES);
    auto sampler = gleed::Sampler::start(gleed::make<gleed_sampler_params>());
    CHECK(detokenizer && sampler);
    std::vector<std::uint64_t> pad(logits.value().size());
    char text[64];
    for (int i = 0; i < 12; i++) {
        const auto token = sampler.value().sample(logits.value(), pad);
        CHECK(token && token.value() == gleed::argmax(logits.value()).value());
        const auto piece = detokenizer.value().push(token.value(), text);
        CHECK(piece);
        std::fwrite(piece.value().data(), 1, piece.value().size(), stdout);
        // The three sequences go on together, in steps, with the same logits.
        const std::uint32_t next[] = {token.value()};
        CHECK(seq.value().queue(next) && fork.value().queue(next) && restored.value().queue(next));
        std::size_t rows = 0;
        for (;;) {
            const auto step = engine.step(7);
            CHECK(!step.failed());
            if (step.code() == GLEED_READY) {
                engine.each_result([&](gleed_seq, std::uint32_t, gleed::Logits row) {
                    rows++;
                    CHECK(row.size() == pad.size());
                });
            }
            if (step.ok()) break;
        }
        CHECK(rows == 3);
        // A batch has one row of logits, so only the row of the last batch is left.
        const auto last = restored.value().logits();
        const auto first = seq.value().logits();
        CHECK(last.ok() || first.ok() || fork.value().logits().ok());
        CHECK(seq.value().rewind(count.value() + static_cast<std::size_t>(i)));
        logits = seq.value().decode(token.value());
        CHECK(logits);
    }
    std::printf("\n");
    const auto metrics = engine.metrics().value();
    CHECK(ticks > 0 && metrics.decode.count > 0 && metrics.decode.times.count == metrics.decode.count);
    CHECK(engine.reset_metrics() && engine.metrics().value().decode.count == 0);
    gleed::Sequence moved = std::move(fork).value();
    CHECK(engine.info().value().sequences == 3);
    { gleed::Sequence ends = std::move(moved); }
    CHECK(engine.info().value().sequences == 2);

    const auto shape = model.value().info().value();
    const auto length = seq.value().info().value().tokens;
    std::vector<float> keys(length * shape.kv_heads * shape.head_dim), values(keys.size());
    CHECK(seq.value().materialize(0, keys, values) && keys != values);
    CHECK(seq.value().materialize(0, keys, gleed::Span<float>(values.data(), 1)).code() == GLEED_E_SHAPE);

    // A callback that refuses ends the snapshot. A const callback can be called, too.
    CHECK(seq.value().write_snapshot([](gleed::Bytes) { return false; }).status().code() == GLEED_E_SNAPSHOT_HOST);
    const auto nothing = [](gleed::Span<std::uint8_t>) { return std::size_t(0); };
    CHECK(engine.read_snapshot(nothing).status().code() == GLEED_E_SNAPSHOT_TRUNCATED);

    // From inside of a call the engine refuses changes, but allows calls that only read.
    int reentrant = 0;
    const auto asks = [&](gleed::Bytes) {
        reentrant += seq.value().rewind(0).code() == GLEED_E_REENTRANT && engine.step().code() == GLEED_E_REENTRANT;
        return seq.value().info().ok();
    };
    CHECK(seq.value().write_snapshot(asks) && reentrant > 0);

    // Another sequence is idle, but its memory is not needed.
    const auto any = [](gleed_seq, const gleed_seq_info &info) { return info.tokens > 0; };
    const auto closed = engine.make_room(seq.value(), 1, any);
    CHECK(closed && closed.value() == 0);

    // Embeddings and log-probabilities of texts, and the tokens of the sequence.
    CHECK(seq.value().reset());
    std::vector<float> embedding(shape.hidden), probable(count.value() - 1);
    CHECK(seq.value().embed(gleed::Tokens(ids, count.value()), GLEED_POOLING_LAST, embedding));
    const std::size_t lengths[] = {count.value()};
    std::vector<float> texts(shape.hidden);
    CHECK(engine.embed_texts(gleed::Tokens(ids, count.value()), gleed::Span<const std::size_t>(lengths, 1),
                             GLEED_POOLING_LAST, texts));
    CHECK(texts == embedding && model.value().embedding_len().value() == shape.hidden);
    std::vector<std::uint32_t> again(count.value());
    CHECK(seq.value().tokens(0, again) && again[0] == ids[0] && again.back() == ids[count.value() - 1]);
    CHECK(seq.value().reset() && seq.value().log_probs(gleed::Tokens(ids, count.value()), probable) && probable[0] < 0);
    CHECK(seq.value().reset() && seq.value().queue(gleed::Tokens(ids, count.value()), GLEED_LOGITS_LAST_HIDDEN));
    CHECK(engine.step().code() == GLEED_READY && engine.step());
    const auto hidden = engine.hidden(0);
    CHECK(hidden && hidden.value().hidden[0] == embedding[0] && !engine.hidden(1));
    CHECK(model.value().string(std::string_view("general.architecture")).value().size() == 5);
    CHECK(tokenizer.value().find(std::string_view("</s>")).value() == tokenizer.value().info().value().eos);

    // The whole file as its only part, and a conversation.
    const gleed_part parts[] = {{file.data(), file.size()}};
    const auto split = gleed::Model::open_split(parts);
    CHECK(split && split.value().info().value().fingerprint == shape.fingerprint);
    CHECK(gleed::Model::open_split(gleed::Span<const gleed_part>()).status().code() == GLEED_E_FILE_PARTS);
    CHECK(!gleed::Turns::find(split.value(), tokenizer.value()).value() && !gleed::Turns());
    const auto turns = gleed::Turns::named(std::string_view("zephyr")).value();
    CHECK(turns && std::strcmp(turns.info().value().name, "zephyr") == 0 && turns.info().value().writes_bos == 0);
    const gleed_message messages[] = {gleed::message(GLEED_ROLE_USER, std::string_view("Hi"))};
    std::uint32_t room[4000];
    CHECK(turns.encode(tokenizer.value(), GLEED_AFTER_NOTHING, messages, GLEED_TURNS_REPLY, room, ids));
    CHECK(turns.is_stop(tokenizer.value(), tokenizer.value().info().value().eos).value());
    CHECK(!turns.is_stop(tokenizer.value(), 5).value());

    // A conversation of two turns, a copy of it, and a saved one that goes on.
    config.context = 200;
    auto larger = gleed::Engine::start(model.value(), config);
    auto desk = gleed::Desk::start(tokenizer.value());
    CHECK(larger && desk);
    gleed::Engine &host = larger.value();
    auto talk = gleed::Conversation::start(host, host.open().value());
    CHECK(talk);
    auto script = gleed::make<gleed_script>();
    script.format = turns.format();
    std::vector<gleed_entry> entries{gleed::entry(GLEED_ROLE_USER, std::string_view("Hi"))};
    auto fresh = talk.value().update(host, tokenizer.value(), desk.value(), entries, script);
    CHECK(fresh && fresh.value().position == 0 && fresh.value().left_out_len == 0);
    CHECK(talk.value().sequence().prefill(gleed::Tokens(fresh.value().tokens, fresh.value().tokens_len)));
    CHECK(talk.value().sequence().decode(414));
    entries.push_back(gleed::entry(GLEED_ROLE_ASSISTANT, std::string_view("Once")));
    entries.push_back(gleed::entry(GLEED_ROLE_USER, std::string_view("And?")));
    auto branch = talk.value().fork(host);
    CHECK(branch && branch.value().sequence().handle() != talk.value().sequence().handle());
    std::vector<std::uint8_t> saved(talk.value().saved_size(host, desk.value(), entries).value());
    CHECK(talk.value().save(host, desk.value(), entries, saved).value() == saved.size());
    auto loaded = gleed::Conversation::load(host, saved);
    gleed_entry read[4];
    CHECK(loaded && gleed::Conversation::saved_entries(saved, read).value() == 3 && read[1].text_len == 4);
    CHECK(gleed::Conversation::saved_entries(saved, {}).status().code() == GLEED_E_OUTPUT_TOO_SMALL);
    for (gleed::Conversation *one : {&talk.value(), &branch.value(), &loaded.value()}) {
        fresh = one->update(host, tokenizer.value(), desk.value(), entries, script);
        CHECK(fresh && fresh.value().position == one->sequence().info().value().tokens && fresh.value().position > 1);
    }
    { gleed::Conversation ends = std::move(branch).value(); }
    CHECK(host.info().value().sequences == 2);

    // Guessed tokens, while the program chooses in its own way.
    config.logit_rows = 4;
    auto checking = gleed::Engine::start(model.value(), config);
    auto story = checking.value().open();
    auto guesses = gleed::Guesses::start(checking.value(), story.value(), 3, 64);
    CHECK(guesses && gleed::Guesses::start(checking.value(), story.value(), 0, 64).status().code() == GLEED_E_LIMIT);
    const std::uint32_t known[] = {435, 261};
    CHECK(story.value().prefill(known));
    CHECK(guesses.value().queue(checking.value(), 414, known).value() > 0);
    CHECK(guesses.value().logits(checking.value()).status().code() == GLEED_E_NO_LOGITS);
    CHECK(checking.value().step().code() == GLEED_READY);
    CHECK(guesses.value().logits(checking.value()).value().size() == 1024);
    CHECK(guesses.value().take(checking.value(), 435) && guesses.value().take(checking.value(), 5));
    CHECK(guesses.value().take(checking.value(), 5).code() == GLEED_E_NO_LOGITS);
    CHECK(guesses.value().end(checking.value(), 10) && story.value().info().value().tokens == 4);

    // A layer that predicts further ahead, which this model does not have.
    CHECK(model.value().predictor().status().code() == GLEED_E_MODEL_KEY_MISSING);
    auto layer = gleed::Engine::start(model.value(), config);
    CHECK(guesses.value().with_layer(layer.value()).status().code() == GLEED_E_VALUE);
    CHECK(guesses.value().prefill(checking.value(), layer.value(), known).status().code() == GLEED_E_VALUE);
    CHECK(guesses.value().see(checking.value(), layer.value()).code() == GLEED_E_VALUE);
    CHECK(guesses.value().queue(checking.value(), layer.value(), 414).status().code() == GLEED_E_VALUE);

    // A text under a grammar, in steps, with a copy, a token taken back, and a snapshot.
    auto regex = gleed::make<gleed_grammar_options>();
    regex.kind = GLEED_GRAMMAR_REGEX;
    const auto grammar = gleed::Grammar::compile(std::string_view("(Lily|Tom) (ran|sat)\\."), regex);
    CHECK(grammar && !gleed::Grammar::compile(std::string_view("("), regex));
    const auto trie = gleed::TokenTrie::make(tokenizer.value());
    CHECK(trie);
    auto matcher = gleed::Matcher::start(grammar.value());
    CHECK(matcher && !matcher.value().is_end().value() && !matcher.value().is_free().value());
    std::vector<std::uint32_t> mask(trie.value().mask_len().value());
    auto chooser = gleed::Sampler::start(gleed::make<gleed_sampler_params>());
    logits = seq.value().reset() ? seq.value().prefill(gleed::Tokens(ids, count.value())) : logits;
    CHECK(logits);
    std::size_t steps = 0;
    for (; !matcher.value().is_end().value(); steps++) {
        while (matcher.value().mask(trie.value(), mask, 1).code() == GLEED_YIELDED) {}
        const auto token = gleed::sample_masked(chooser.value(), logits.value(), mask, pad);
        CHECK(token && matcher.value().accept(tokenizer.value(), token.value()).value());
        CHECK(matcher.value().rewindable().value() > 0 && matcher.value().rewind(1));
        std::vector<std::uint8_t> state(matcher.value().snapshot_size().value());
        CHECK(matcher.value().snapshot(state));
        auto copy = matcher.value().fork();
        CHECK(copy && copy.value().accept(tokenizer.value(), token.value()).value() && matcher.value().restore(state));
        matcher = std::move(copy);
        logits = seq.value().decode(token.value());
        CHECK(logits);
    }
    CHECK(steps > 2 && matcher.value().reset() && matcher.value().accept(std::string_view("Lily r")).value() == 6);
    char forced[8];
    CHECK(matcher.value().forced(forced).value() == 3 && std::memcmp(forced, "an.", 3) == 0);

    // A grammar that is compiled in units.
    gleed_grammar_options schema{};
    schema.struct_size = sizeof schema;
    auto making = gleed::GrammarBuild::begin(std::string_view("{\"enum\":[\"yes\",\"no\"]}"), schema);
    CHECK(making && !making.value().finish());
    while (making.value().step(1).code() == GLEED_YIELDED) {}
    const auto finished = making.value().finish();
    CHECK(finished && finished.value().get() != nullptr && !making.value().finish());

    // The tables, made in units.
    auto build = gleed::TokenTrieBuild::begin(tokenizer.value());
    CHECK(build && !build.value().finish());
    while (build.value().step(2).code() == GLEED_YIELDED) {}
    const auto made = build.value().finish();
    CHECK(made && made.value().mask_len().value() == trie.value().mask_len().value());

    // A text under a grammar together with its sequence: a copy, tokens taken back, and a text that goes on after a
    // snapshot.
    logits = seq.value().reset() ? seq.value().prefill(gleed::Tokens(ids, count.value())) : logits;
    auto writing = gleed::Writing::start(engine, seq.value(), grammar.value());
    CHECK(writing && writing.value().mask(trie.value(), mask));
    const auto first = gleed::sample_masked(chooser.value(), logits.value(), mask, pad);
    CHECK(writing.value().accept(tokenizer.value(), first.value()).value() && seq.value().decode(first.value()));
    gleed::Sequence forked;
    // A fork that fails opens no sequence, and writes none.
    const auto open = engine.info().value().sequences;
    describes = false;
    const auto failed = writing.value().fork(engine, tokenizer.value(), count.value() + 1, &forked);
    describes = true;
    CHECK(failed.status().code() == GLEED_E_INTERNAL && engine.info().value().sequences == open);
    CHECK(forked.info().status().code() == GLEED_E_NULL);
    auto copied = writing.value().fork(engine, tokenizer.value(), count.value() + 1, &forked);
    CHECK(copied && copied.value().info().value().seq == forked.handle());
    CHECK(writing.value().rewind(engine, tokenizer.value(), count.value()) && writing.value().follow(engine, tokenizer.value()));
    CHECK(writing.value().info().value().end == count.value() && writing.value().info().value().bytes_to_end == GLEED_NO_END);
    std::uint8_t kept[16];
    CHECK(copied.value().state(kept).value() == 16);
    auto resumed = gleed::Writing::resume(engine, tokenizer.value(), forked, grammar.value(), kept);
    CHECK(resumed && resumed.value().info().value().end == count.value() + 1);
    std::vector<std::uint32_t> much(1 << 16);
    CHECK(resumed.value().forced(tokenizer.value(), trie.value(), much, gleed::Span<std::uint32_t>()).value() == 0);
    CHECK(gleed::bias_text(chooser.value(), tokenizer.value(), std::string_view(" Lily"), -9, much).value() == 1);
    CHECK(matcher.value().bytes_to_end().status().code() == GLEED_E_VALUE);
    std::uint32_t thoughts = 9;
    const auto turns_of = gleed::Turns::named(std::string_view("qwen3"));
    CHECK(gleed::calls_of(model.value(), turns_of.value(), &thoughts).value() != GLEED_NO_CALLS);
    CHECK(thoughts == GLEED_THOUGHTS_THINK);

    const gleed_string strings[] = {{"END", 3}};
    auto stops = gleed::Stops::start(strings);
    CHECK(stops && stops.value().push(std::string_view("the EN")).value().text_len == 4);
    CHECK(stops.value().finish().value().size() == 2);
    auto calls = gleed::Calls::start(std::string_view("llama3"), 0, std::string_view());
    const std::string_view reply = "{\"name\": \"f\", \"parameters\": {}}";
    CHECK(calls && calls.value().next(reply, true, forced).value().kind == GLEED_PART_CALL);

    // The model's file is no adapter, and the engine is planned without adapters.
    CHECK(gleed::Adapter::open(model.value(), file).status().code() == GLEED_E_MODEL_KEY_UNSUPPORTED);
    CHECK(engine.load_adapter(gleed::Adapter()).status().code() == GLEED_E_NULL);
    CHECK(seq.value().reset());
    CHECK(seq.value().set_adapter(0, 1).code() == GLEED_E_ADAPTER && !seq.value().adapter(0));
    CHECK(seq.value().reset());
    logits = seq.value().prefill(gleed::Tokens(ids, count.value()));
    CHECK(logits);

    auto params = gleed::make<gleed_sampler_params>();
    params.temperature = 1;
    auto one = gleed::Sampler::start(params), other = gleed::Sampler::start(params);
    CHECK(one.value().sample(logits.value(), pad));
    CHECK(other.value().set_state(one.value().state().value()));
    CHECK(one.value().sample(logits.value(), pad).value() == other.value().sample(logits.value(), pad).value());

    literals(model.value(), tokenizer.value());
    statuses(tokenizer.value());
    scratch_that_runs_out();
    objects(file);
    callables(model.value());
    return 0;
}
