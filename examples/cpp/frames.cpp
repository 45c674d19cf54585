// Tells a story in a loop of 60 frames a second, with 2 ms of each frame.
//
// usage: frames MODEL.gguf [TEXT [TOKENS]]
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "gleed.hpp"

namespace {

using Time = std::chrono::steady_clock;
using std::chrono::microseconds;

constexpr microseconds FRAME(16'667), SHARE(2'000);
constexpr std::uint32_t CONTEXT = 256;

void check(const gleed::Status &status) {
    if (!status.failed()) return;
    std::fprintf(stderr, "frames: %s\n", status.text());
    std::exit(1);
}

template <class T>
T must(gleed::Result<T> result) {
    check(result.status());
    return std::move(result).value();
}

std::vector<std::uint8_t> read_file(const char *path) {
    std::unique_ptr<std::FILE, int (*)(std::FILE *)> file(std::fopen(path, "rb"), std::fclose);
    std::vector<std::uint8_t> bytes;
    std::uint8_t part[1 << 16];
    while (const std::size_t count = file ? std::fread(part, 1, sizeof part, file.get()) : 0)
        bytes.insert(bytes.end(), part, part + count);
    if (!file || std::ferror(file.get())) {
        std::fprintf(stderr, "frames: %s cannot be read\n", path);
        std::exit(1);
    }
    return bytes;
}

std::uint64_t ticks(void *) { return static_cast<std::uint64_t>(Time::now().time_since_epoch().count()); }

// Returns a budget that ends a step at this time. The worker still finishes its current unit, which takes some
// microseconds.
gleed_budget until(Time::time_point end) {
    auto budget = gleed::make<gleed_budget>();
    budget.clock = ticks;
    budget.deadline = static_cast<std::uint64_t>(end.time_since_epoch().count());
    return budget;
}

// A text that grows in the time of frames.
class Story {
public:
    Story(const gleed::Model &model, std::string_view prompt, std::size_t tokens)
        : tokenizer_(must(gleed::Tokenizer::start(model))),
          detokenizer_(must(gleed::Detokenizer::start(tokenizer_, GLEED_DECODE_CONTINUES))),
          engine_(must(gleed::Engine::start(model, config()))),
          sequence_(must(engine_.open())),
          left_(tokens) {
        std::vector<std::uint32_t> scratch(2000), ids(CONTEXT);
        ids.resize(must(tokenizer_.encode(prompt, GLEED_ENCODE_ADD_SPECIAL, scratch, ids)));
        check(sequence_.can_extend(ids.size() + tokens));
        check(sequence_.queue(ids));
    }

    // Works until `end`, and prints the new text. Returns whether the story goes on.
    bool frame(Time::time_point end) {
        auto status = engine_.step(until(end));
        check(status);
        return status.code() == GLEED_READY ? take(must(argmax(must(sequence_.logits())))) : true;
    }

private:
    static gleed_config config() {
        auto config = gleed::make<gleed_config>();
        config.context = CONTEXT;
        return config;
    }

    bool take(std::uint32_t token) {
        if (left_ == 0 || must(tokenizer_.is_end(token))) return false;
        left_--;
        char text[256];
        const auto piece = must(detokenizer_.push(token, text));
        std::fwrite(piece.data(), 1, piece.size(), stdout);
        std::fflush(stdout);
        check(sequence_.queue({&token, 1}));
        return true;
    }

    gleed::Tokenizer tokenizer_;
    gleed::Detokenizer detokenizer_;
    gleed::Engine engine_;
    gleed::Sequence sequence_;
    std::size_t left_;
};

}  // namespace

int main(int argc, char **argv) {
    const char *prompt = argc > 2 ? argv[2] : "Once upon a time";
    char *end = nullptr;
    const unsigned long tokens = argc > 3 ? std::strtoul(argv[3], &end, 10) : 40;
    if (argc < 2 || argc > 4 || argv[1][0] == '-' || (end && *end) || tokens == 0 || tokens > CONTEXT) {
        std::fprintf(stderr, "usage: frames MODEL.gguf [TEXT [TOKENS]], TOKENS from 1 to %u\n", CONTEXT);
        return 2;
    }
    const auto file = read_file(argv[1]);
    const auto model = must(gleed::Model::open(file));
    Story story(model, prompt, tokens);
    std::fputs(prompt, stdout);
    unsigned frames = 1;
    for (auto start = Time::now(); story.frame(start + SHARE); start += FRAME, frames++) {
        // The game draws here, and waits for the next frame.
        std::this_thread::sleep_until(start + FRAME);
    }
    std::printf("\n%u frames\n", frames);
}
