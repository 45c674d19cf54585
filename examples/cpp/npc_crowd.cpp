// A crowd in a game: characters that share the memory of one world, and talk while the game draws its frames.
//
// usage: npc_crowd MODEL.gguf [OPTIONS]; npc_crowd --help lists them
//
// Every character is a fork of one sequence, so the world's tokens are computed and stored once. In each frame the engine
// gets a few milliseconds, on the game's own threads. In the middle of the run all characters are saved, and go on in a new
// engine. The program prints the cost of all this, and ends with exit code 1 if saving or the number of threads changes any
// text.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "gleed.hpp"
#include "job_system.hpp"

namespace {

constexpr std::string_view WORLD =
    "Once upon a time, there was a small town by the sea. In the town there was a big park with a tall tree, and a little "
    "shop with red and yellow toys. The sun was warm and the birds sang. Every day the children came to play and the old "
    "people sat on the bench and told stories. One day, a big ship came to the town. Everyone wanted to see it.";
constexpr std::string_view NAMES[] = {"Lily", "Tom", "Mia", "Ben", "Anna", "Max", "Sue", "Sam"};
constexpr std::string_view MOODS[] = {"happy", "sad", "brave", "shy", "angry", "tired", "kind", "silly"};

constexpr std::size_t BLOCK = 16; // tokens that are shared or copied together

std::uint64_t now() {
    const auto since = std::chrono::steady_clock::now().time_since_epoch();
    return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(since).count());
}

// ---- Errors -------------------------------------------------------------------------------------------

[[noreturn]] void fail(const char *what, const char *why) {
    std::fprintf(stderr, "npc_crowd: %s: %s\n", what, why);
    std::exit(1);
}

void must(const gleed::Status &status, const char *what) {
    if (!status) fail(what, status.text());
}

template <class T>
T must(gleed::Result<T> result, const char *what) {
    must(result.status(), what);
    return std::move(result).value();
}

// ---- Options ------------------------------------------------------------------------------------------

constexpr const char *USAGE =
    "usage: npc_crowd MODEL.gguf [OPTIONS]\n"
    "  --characters N   how many there are [default: 64]\n"
    "  --tokens N       the most tokens that each says [default: 24]\n"
    "  --workers N      threads of the game [default: as many as the machine has, at least 2]\n"
    "  --ms T           milliseconds of each frame for the engine [default: 2]\n"
    "  --real-time      wait for the next frame, 60 in a second\n";

struct Options {
    const char *model = nullptr;
    std::size_t characters = 64, tokens = 24;
    unsigned workers = std::max(2u, std::thread::hardware_concurrency());
    double ms = 2;
    bool real_time = false;
};

[[noreturn]] void wrong_usage(const char *what, const char *which) {
    std::fprintf(stderr, "npc_crowd: %s %s\n%s", what, which, USAGE);
    std::exit(2);
}

double number(const char *option, const char *text, double least, double most) {
    char *end = nullptr;
    const double value = std::strtod(text, &end);
    if (end != text && *end == '\0' && value >= least && value <= most) return value;
    std::fprintf(stderr, "npc_crowd: %s takes a number from %g to %g, not %s\n", option, least, most, text);
    std::exit(2);
}

Options parse(int argc, char **argv) {
    Options options;
    for (int i = 1; i < argc; i++) {
        const std::string_view option = argv[i];
        const auto value = [&](double least, double most) {
            if (i + 1 >= argc) wrong_usage("no value for", argv[i]);
            i++;
            return number(argv[i - 1], argv[i], least, most);
        };
        if (option == "--help") {
            std::fputs(USAGE, stdout);
            std::exit(0);
        } else if (option == "--characters") {
            options.characters = static_cast<std::size_t>(value(1, 1000));
        } else if (option == "--tokens") {
            options.tokens = static_cast<std::size_t>(value(2, 1000));
        } else if (option == "--workers") {
            options.workers = static_cast<unsigned>(value(1, 64));
        } else if (option == "--ms") {
            options.ms = value(0, 1000);
        } else if (option == "--real-time") {
            options.real_time = true;
        } else if (option.substr(0, 1) == "-" || options.model != nullptr) {
            wrong_usage("no such option:", argv[i]);
        } else {
            options.model = argv[i];
        }
    }
    if (options.model == nullptr) wrong_usage("a model is", "missing");
    return options;
}

// ---- The game's text ----------------------------------------------------------------------------------

// The parts that all runs share: the model, and the tokens of its prompts.
struct Game {
    explicit Game(const Options &options)
        : options(options),
          file(read_file(options.model)),
          model(must(gleed::Model::open(file), options.model)),
          tokenizer(must(gleed::Tokenizer::start(model), options.model)),
          vocab(must(tokenizer.info(), options.model)),
          world(encode(WORLD, GLEED_ENCODE_ADD_SPECIAL)) {
        for (std::size_t i = 0; i < options.characters; i++) {
            const std::string name(NAMES[i % std::size(NAMES)]);
            const std::string mood(MOODS[i / std::size(NAMES) % std::size(MOODS)]);
            personas.push_back(encode(name + " was very " + mood + ". " + name + " said, \"", 0));
        }
    }

    // Returns the largest number of tokens that a character has after the world's tokens.
    std::size_t most_own() const {
        std::size_t most = 0;
        for (const auto &persona : personas) most = std::max(most, persona.size());
        return most + options.tokens;
    }

    std::string text(gleed::Tokens ids) const {
        auto stream = must(gleed::Detokenizer::start(tokenizer, GLEED_DECODE_CONTINUES), "text");
        std::vector<char> buffer(std::max(vocab.max_text, 3u));
        std::string text;
        for (const auto id : ids) {
            const auto piece = must(stream.push(id, buffer), "text");
            text.append(piece.data(), piece.size());
        }
        const auto rest = must(stream.finish(buffer), "text");
        return text.append(rest.data(), rest.size());
    }

    const Options &options;
    const std::vector<std::uint8_t> file;
    const gleed::Model model;
    const gleed::Tokenizer tokenizer;
    const gleed_vocab_info vocab;
    const std::vector<std::uint32_t> world;
    std::vector<std::vector<std::uint32_t>> personas;

private:
    static std::vector<std::uint8_t> read_file(const char *path) {
        std::unique_ptr<std::FILE, int (*)(std::FILE *)> file(std::fopen(path, "rb"), std::fclose);
        std::vector<std::uint8_t> bytes;
        long end = -1;
        if (file && std::fseek(file.get(), 0, SEEK_END) == 0) end = std::ftell(file.get());
        if (end >= 0) bytes.resize(static_cast<std::size_t>(end));
        if (end < 0 || std::fseek(file.get(), 0, SEEK_SET) != 0 ||
            std::fread(bytes.data(), 1, bytes.size(), file.get()) != bytes.size())
            fail(path, "cannot be read");
        return bytes;
    }

    std::vector<std::uint32_t> encode(std::string_view text, std::uint32_t flags) const {
        std::vector<std::uint32_t> scratch(2000), ids(text.size() + 2);
        ids.resize(must(tokenizer.encode(text, flags, scratch, ids), "prompt"));
        return ids;
    }
};

// ---- Saved games --------------------------------------------------------------------------------------

class SavedGame {
public:
    template <class T>
    void put(const T &value) {
        static_assert(std::is_trivially_copyable_v<T>);
        append(gleed::Bytes(reinterpret_cast<const std::uint8_t *>(&value), sizeof value));
    }
    template <class T>
    T get() {
        static_assert(std::is_trivially_copyable_v<T>);
        T value{};
        read(gleed::Span<std::uint8_t>(reinterpret_cast<std::uint8_t *>(&value), sizeof value));
        return value;
    }
    bool append(gleed::Bytes bytes) {
        bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
        return true;
    }
    std::size_t read(gleed::Span<std::uint8_t> out) {
        const auto count = std::min(out.size(), bytes_.size() - at_);
        std::copy_n(bytes_.begin() + static_cast<std::ptrdiff_t>(at_), count, out.begin());
        at_ += count;
        return count;
    }
    std::size_t size() const { return bytes_.size(); }

private:
    std::vector<std::uint8_t> bytes_;
    std::size_t at_ = 0;
};

// Writes a snapshot after its length, so that more can follow.
void put_sequence(SavedGame &saved, const gleed::Sequence &sequence, const gleed_snapshot_options &options) {
    saved.put<std::uint64_t>(must(sequence.snapshot_size(&options), "save"));
    must(sequence.write_snapshot([&](gleed::Bytes bytes) { return saved.append(bytes); }, &options).status(), "save");
}

gleed::Sequence get_sequence(SavedGame &saved, gleed::Engine &engine, const gleed::Sequence *base, std::uint64_t *state) {
    auto left = saved.get<std::uint64_t>();
    auto info = gleed::make<gleed_snapshot_info>();
    const auto source = [&](gleed::Span<std::uint8_t> out) {
        const auto count = saved.read({out.data(), static_cast<std::size_t>(std::min<std::uint64_t>(left, out.size()))});
        left -= count;
        return count;
    };
    auto sequence = must(engine.read_snapshot(source, &info, base), "load");
    std::memcpy(state, info.state, sizeof *state);
    return sequence;
}

// ---- The crowd ----------------------------------------------------------------------------------------

struct Character {
    gleed::Sequence sequence;
    gleed::Sampler sampler;
    // The chosen tokens. The sequence does not have the last one yet.
    std::vector<std::uint32_t> said;
    bool is_done = false;
};

class Crowd {
public:
    Crowd(const Game &game, JobSystem &jobs, unsigned workers) : game_(game) {
        const std::size_t world = game.world.size(), own = game.most_own();
        auto config = gleed::make<gleed_config>();
        config.sequences = static_cast<std::uint32_t>(game.options.characters + 1);
        config.context = static_cast<std::uint32_t>(world + own);
        config.rows = 64;
        config.logit_rows = 64;
        // The blocks of the world once, and for each character the blocks that it does not share: from the world's last,
        // unfinished block on.
        config.kv_blocks = static_cast<std::uint32_t>(
            blocks(world) + game.options.characters * blocks(world % BLOCK + own));
        config.workers = workers;
        engine_ = must(gleed::Engine::start(game.model, config), "engine");
        must(engine_.run_on(jobs), "job system");
        plan_ = must(game.model.plan(config), "plan");
        characters_.resize(game.options.characters);
        for (std::size_t i = 0; i < characters_.size(); i++) {
            auto params = gleed::make<gleed_sampler_params>();
            params.temperature = 0.8f;
            params.min_p = 0.05f;
            params.repetition_penalty = 1.1f;
            params.seed = i;
            characters_[i].sampler = must(gleed::Sampler::start(params), "sampler");
        }
    }

    void begin() {
        world_ = must(engine_.open(), "world");
        must(world_.prefill(game_.world).status(), "world");
        for (std::size_t i = 0; i < characters_.size(); i++) {
            characters_[i].sequence = must(world_.fork(game_.world.size()), "fork");
            must(characters_[i].sequence.queue(game_.personas[i]), "persona");
        }
    }

    // Works until the deadline. Returns false if there is no more work: all texts are finished, or all are paused.
    bool frame(std::uint64_t deadline) {
        auto budget = gleed::make<gleed_budget>();
        budget.deadline = deadline;
        budget.clock = [](void *) { return now(); };
        do {
            if (row_ < rows_) {
                choose(must(engine_.result(row_++), "logits"));
            } else if (!is_paused_ && !waiting_.empty()) {
                // Only after all rows are read, because new tokens invalidate the logits.
                for (auto *character : waiting_)
                    must(character->sequence.queue(gleed::Tokens(&character->said.back(), 1)), "token");
                waiting_.clear();
            } else {
                const auto step = engine_.step(budget);
                if (step.failed()) must(step, "step");
                if (step.code() == GLEED_OK) return false;
                row_ = 0;
                rows_ = step.code() == GLEED_READY ? must(engine_.info(), "engine").results : 0;
            }
        } while (now() < deadline);
        return true;
    }

    // Begins no new tokens. Tokens in progress are finished.
    void pause() { is_paused_ = true; }

    std::vector<std::vector<std::uint32_t>> said() const {
        std::vector<std::vector<std::uint32_t>> all;
        for (const auto &character : characters_) all.push_back(character.said);
        return all;
    }
    std::size_t tokens() const {
        std::size_t count = 0;
        for (const auto &character : characters_) count += character.said.size();
        return count;
    }

    // Saves the world, and for each character the tokens that the world does not have.
    SavedGame save() const {
        SavedGame saved;
        std::uint64_t generator = 0;
        auto options = gleed::make<gleed_snapshot_options>();
        options.state = reinterpret_cast<const std::uint8_t *>(&generator);
        options.state_len = sizeof generator;
        put_sequence(saved, world_, options);
        options.base = static_cast<std::uint32_t>(game_.world.size() / BLOCK * BLOCK);
        for (const auto &character : characters_) {
            generator = must(character.sampler.state(), "save");
            put_sequence(saved, character.sequence, options);
            saved.put<std::uint64_t>(character.said.size());
            for (const auto token : character.said) saved.put(token);
            saved.put(character.is_done);
        }
        return saved;
    }

    // Begins from a saved game instead of begin().
    void load(SavedGame &saved) {
        std::uint64_t generator = 0;
        world_ = get_sequence(saved, engine_, nullptr, &generator);
        for (auto &character : characters_) {
            character.sequence = get_sequence(saved, engine_, &world_, &generator);
            for (auto left = saved.get<std::uint64_t>(); left > 0; left--) {
                character.said.push_back(saved.get<std::uint32_t>());
                must(character.sampler.accept(character.said.back()), "load");
            }
            must(character.sampler.set_state(generator), "load");
            character.is_done = saved.get<bool>();
            if (!character.is_done) waiting_.push_back(&character);
        }
    }

    // Prints the memory. Blocks that all characters share are counted once.
    void print_memory() const {
        const auto engine = must(engine_.info(), "engine");
        const auto world = must(world_.info(), "world");
        std::size_t own = 0;
        for (const auto &character : characters_) own += must(character.sequence.info(), "character").own_blocks;
        const auto in_full = blocks(game_.world.size() + game_.most_own()) * characters_.size();
        std::printf("blocks of 16 tokens: %u shared by all, %zu private, %u used of %u; without sharing up to %zu\n",
                    world.shared_blocks, own, engine.blocks_used, engine.blocks, in_full);
        std::printf("memory: %.2f MB for the engine, of it %.2f MB keys and values (without sharing %.2f MB)\n",
                    static_cast<double>(plan_.bytes) / 1e6, static_cast<double>(plan_.kv_bytes) / 1e6,
                    static_cast<double>(in_full * BLOCK * plan_.kv_bytes_per_token) / 1e6);
    }

private:
    static std::size_t blocks(std::size_t tokens) { return (tokens + BLOCK - 1) / BLOCK; }

    void choose(const gleed::Row &row) {
        const auto found = std::find_if(characters_.begin(), characters_.end(), [&](const Character &character) {
            return character.sequence.handle() == row.sequence;
        });
        if (found == characters_.end()) return;
        scratch_.resize(row.logits.size());
        const auto token = must(found->sampler.sample(row.logits, scratch_), "sampler");
        must(found->sampler.accept(token), "sampler");
        found->said.push_back(token);
        found->is_done = must(game_.tokenizer.is_end(token), "token") || found->said.size() == game_.options.tokens;
        if (!found->is_done) waiting_.push_back(&*found);
    }

    const Game &game_;
    gleed::Engine engine_;
    gleed_plan_info plan_{};
    gleed::Sequence world_;
    std::vector<Character> characters_;
    std::vector<std::uint64_t> scratch_;
    // The next row of logits and the number of rows, and the characters that wait for a next token.
    std::size_t row_ = 0, rows_ = 0;
    std::vector<Character *> waiting_;
    bool is_paused_ = false;
};

// ---- Runs ---------------------------------------------------------------------------------------------

struct Run {
    std::vector<std::vector<std::uint32_t>> said;
    std::size_t saved_bytes = 0;
};

void print_run(const char *title, unsigned workers, std::size_t tokens, std::uint64_t spent,
               std::vector<std::uint64_t> overshoots) {
    std::sort(overshoots.begin(), overshoots.end());
    const auto percentile = [&](std::size_t percent) {
        return static_cast<double>(overshoots[(overshoots.size() - 1) * percent / 100]) / 1e3;
    };
    const auto frames = overshoots.size();
    std::printf("%-16s %7u %7zu %7.1f %7zu %8.0f %8.0f %6.0f %6.0f %6.0f\n", title, workers, frames,
                static_cast<double>(frames) / 60, tokens, static_cast<double>(tokens) * 1e9 / static_cast<double>(spent),
                percentile(50), percentile(95), percentile(99), percentile(100));
}

Run play(const Game &game, const char *title, unsigned workers, bool saves, bool prints_memory = false) {
    const auto share = static_cast<std::uint64_t>(game.options.ms * 1e6);
    JobSystem jobs(workers);
    Run run;
    std::uint64_t spent = 0;
    std::vector<std::uint64_t> overshoots;
    auto crowd = std::make_unique<Crowd>(game, jobs, workers);
    crowd->begin();
    for (;;) {
        const auto begin = now();
        const bool goes_on = crowd->frame(begin + share);
        const auto end = now();
        spent += end - begin;
        overshoots.push_back(end > begin + share ? end - begin - share : 0);
        if (!goes_on && !saves) break;
        if (!goes_on) {
            auto saved = crowd->save();
            run.saved_bytes = saved.size();
            crowd = std::make_unique<Crowd>(game, jobs, workers);
            crowd->load(saved);
            saves = false;
        } else if (saves && crowd->tokens() * 2 >= game.options.characters * game.options.tokens) {
            crowd->pause();
        }
        if (game.options.real_time)
            std::this_thread::sleep_for(std::chrono::nanoseconds(1'000'000'000 / 60) - std::chrono::nanoseconds(end - begin));
    }
    print_run(title, workers, crowd->tokens(), spent, std::move(overshoots));
    if (prints_memory) crowd->print_memory();
    run.said = crowd->said();
    return run;
}

} // namespace

int main(int argc, char **argv) {
    const Options options = parse(argc, argv);
    const Game game(options);
    std::printf("%zu characters in a world of %zu tokens, %g ms of each frame at 60 Hz\n\n", options.characters,
                game.world.size(), options.ms);
    std::printf("%-16s %7s %7s %7s %7s %8s   overshoot in us\n", "", "workers", "frames", "seconds", "tokens", "tokens/s");
    std::printf("%-16s %7s %7s %7s %7s %8s %8s %6s %6s %6s\n", "", "", "", "", "", "", "50%", "95%", "99%", "most");
    const auto plain = play(game, "straight on", options.workers, false);
    const auto alone = play(game, "one worker", 1, false);
    const auto saved = play(game, "saved and loaded", options.workers, true, true);
    std::printf("saved game: %.2f MB\n\n", static_cast<double>(saved.saved_bytes) / 1e6);
    for (std::size_t i = 0; i < std::min<std::size_t>(options.characters, 4); i++)
        std::printf("%s said, \"%s\n", NAMES[i].data(), game.text(plain.said[i]).c_str());
    const bool loads = saved.said == plain.said && saved.saved_bytes > 0, is_one = alone.said == plain.said;
    std::printf("\nafter loading everybody says %s\n", loads ? "the same" : "SOMETHING ELSE");
    std::printf("with one worker everybody says %s\n", is_one ? "the same" : "SOMETHING ELSE");
    return loads && is_one ? 0 : 1;
}
