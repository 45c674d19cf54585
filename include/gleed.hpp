// gleed.hpp: gleed.h for C++17, in headers only.
//
// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Nothing is thrown, and nothing here is needed at run time but the C functions: it compiles with -fno-exceptions
// and -fno-rtti. What can fail gives a Result: a status, and a value where the status is no error. Handles own their
// memory, which comes from an allocator of the host's (operator new where none is given), or borrow it; they can be
// moved and not copied: the objects stay where they are. The rules of gleed.h hold: what takes an object as const may run on
// several threads, and from inside of a callback its engine answers GLEED_E_REENTRANT.
#ifndef GLEED_HPP
#define GLEED_HPP

#include <cstddef>
#include <cstdint>
#include <new>
#include <type_traits>
#include <utility>

#include "gleed.h"

namespace gleed {

// A view of elements that somebody else keeps.
template <class T>
class Span {
public:
    constexpr Span() noexcept = default;
    constexpr Span(T *data, std::size_t size) noexcept : data_(data), size_(size) {}
    template <std::size_t N>
    constexpr Span(T (&array)[N]) noexcept : data_(array), size_(N) {}
    // Whatever has data() and size(): std::vector, std::array, std::string_view, std::span, another Span.
    template <class C, class = std::enable_if_t<std::is_convertible_v<
                           std::remove_pointer_t<decltype(std::declval<C &>().data())> (*)[], T (*)[]>>>
    constexpr Span(C &&container) noexcept : data_(container.data()), size_(container.size()) {}

    constexpr T *data() const noexcept { return data_; }
    constexpr std::size_t size() const noexcept { return size_; }
    constexpr bool empty() const noexcept { return size_ == 0; }
    constexpr T &operator[](std::size_t index) const noexcept { return data_[index]; }
    constexpr T *begin() const noexcept { return data_; }
    constexpr T *end() const noexcept { return data_ + size_; }

private:
    T *data_ = nullptr;
    std::size_t size_ = 0;
};

using Tokens = Span<const std::uint32_t>;
using Logits = Span<const float>;
using Bytes = Span<const std::uint8_t>;

// A struct of the C interface, all 0 but for its size.
template <class T>
T make() noexcept {
    T value{};
    value.struct_size = static_cast<std::uint32_t>(sizeof(T));
    return value;
}

// A callable as the context of a callback.
template <class Callable>
void *context(Callable &callable) noexcept {
    return const_cast<void *>(static_cast<const void *>(&callable));
}

// How a call ended. Details of an error, and of GLEED_FULL, are in error().
class [[nodiscard]] Status {
public:
    Status() noexcept : error_(make<gleed_error>()) {}

    gleed_status code() const noexcept { return code_; }
    // Whether it did what it was asked for, or ended in an ordinary way: not an error.
    bool ok() const noexcept { return code_ == GLEED_OK; }
    bool failed() const noexcept { return code_ < 0; }
    explicit operator bool() const noexcept { return ok(); }
    const gleed_error &error() const noexcept { return error_; }
    const char *text() const noexcept { return error_.text[0] != 0 ? error_.text : gleed_status_text(code_); }

    // For the wrappers below: what the C function answered, and where it puts details.
    Status &operator=(gleed_status code) noexcept {
        code_ = code;
        return *this;
    }
    gleed_error *details() noexcept { return &error_; }

private:
    gleed_status code_ = GLEED_OK;
    gleed_error error_;
};

// A status, and a value that counts only where the status is GLEED_OK.
template <class T>
class [[nodiscard]] Result {
public:
    explicit Result(const Status &status) noexcept : status_(status) {}
    Result(const Status &status, T value) noexcept : status_(status), value_(std::move(value)) {}

    bool ok() const noexcept { return status_.ok(); }
    explicit operator bool() const noexcept { return ok(); }
    const Status &status() const noexcept { return status_; }
    T &value() & noexcept { return value_; }
    const T &value() const & noexcept { return value_; }
    T &&value() && noexcept { return std::move(value_); }
    T value_or(T other) const { return ok() ? value_ : other; }

private:
    Status status_;
    T value_{};
};

// Memory at a multiple of `align`: the host's, or from operator new.
class Memory {
public:
    Memory() noexcept = default;
    // Borrows; it must outlive what is made in it.
    Memory(void *data, std::size_t size) noexcept : data_(data), size_(size) {}
    Memory(Memory &&other) noexcept
        : data_(std::exchange(other.data_, nullptr)),
          size_(std::exchange(other.size_, 0)),
          owned_(std::exchange(other.owned_, 0)) {}
    Memory &operator=(Memory &&other) noexcept {
        std::swap(data_, other.data_);
        std::swap(size_, other.size_);
        std::swap(owned_, other.owned_);
        return *this;
    }
    ~Memory() {
        if (owned_ != 0) ::operator delete(data_, std::align_val_t(owned_));
    }

    // Empty where there is no memory; what is made in it then answers GLEED_E_MEMORY_TOO_SMALL.
    static Memory allocate(std::size_t size, std::size_t align) noexcept {
        Memory memory;
        memory.data_ = ::operator new(size, std::align_val_t(align), std::nothrow);
        if (memory.data_ != nullptr) {
            memory.size_ = size;
            memory.owned_ = align;
        }
        return memory;
    }

    void *data() const noexcept { return data_; }
    std::size_t size() const noexcept { return size_; }

private:
    void *data_ = nullptr;
    std::size_t size_ = 0;
    std::size_t owned_ = 0;
};

// A GGUF file, which stays where it is and must outlive the model.
class Model {
public:
    Model() noexcept = default;

    // In memory of its own, a few hundred bytes; or in memory of the caller's.
    static Result<Model> open(Bytes file) noexcept {
        std::size_t size = 0, align = 1;
        Status status;
        status = gleed_model_size(&size, &align, status.details());
        if (!status) return Result<Model>(status);
        return open(file, Memory::allocate(size, align));
    }
    static Result<Model> open(Bytes file, Memory memory) noexcept {
        Status status;
        Model model;
        status = gleed_model_open(file.data(), file.size(), memory.data(), memory.size(), &model.model_, status.details());
        model.memory_ = std::move(memory);
        return Result<Model>(status, std::move(model));
    }

    // A file that was split: all its parts, in their order. The model must outlive its engines then.
    static Result<Model> open_split(Span<const gleed_part> parts) noexcept {
        std::size_t size = 0, align = 1;
        Status status;
        status = gleed_model_split_size(parts.size(), &size, &align, status.details());
        if (!status) return Result<Model>(status);
        return open_split(parts, Memory::allocate(size, align));
    }
    static Result<Model> open_split(Span<const gleed_part> parts, Memory memory) noexcept {
        Status status;
        Model model;
        status = gleed_model_open_split(parts.data(), parts.size(), memory.data(), memory.size(), &model.model_,
                                        status.details());
        model.memory_ = std::move(memory);
        return Result<Model>(status, std::move(model));
    }

    Result<gleed_model_info> info() const noexcept {
        Status status;
        auto info = make<gleed_model_info>();
        status = gleed_model_describe(model_, &info, status.details());
        return Result<gleed_model_info>(status, info);
    }
    Result<gleed_plan_info> plan(const gleed_config &config) const noexcept {
        Status status;
        auto info = make<gleed_plan_info>();
        status = gleed_plan_describe(model_, &config, &info, status.details());
        return Result<gleed_plan_info>(status, info);
    }
    // A text among the metadata, "tokenizer.chat_template" for example, where it is in the file.
    Result<Span<const char>> string(Span<const char> key) const noexcept {
        Status status;
        const char *text = nullptr;
        std::size_t len = 0;
        status = gleed_model_string(model_, key.data(), key.size(), &text, &len, status.details());
        return Result<Span<const char>>(status, Span<const char>(text, len));
    }
    const gleed_model *get() const noexcept { return model_; }

private:
    Memory memory_;
    const gleed_model *model_ = nullptr;
};

// A LoRA adapter for a model. Its file stays where it is, and must outlive the engines that load it.
class Adapter {
public:
    Adapter() noexcept = default;

    static Result<Adapter> open(const Model &model, Bytes file) noexcept {
        std::size_t size = 0, align = 1;
        Status status;
        status = gleed_adapter_size(&size, &align, status.details());
        if (!status) return Result<Adapter>(status);
        return open(model, file, Memory::allocate(size, align));
    }
    static Result<Adapter> open(const Model &model, Bytes file, Memory memory) noexcept {
        Status status;
        Adapter adapter;
        status = gleed_adapter_open(model.get(), file.data(), file.size(), memory.data(), memory.size(),
                                    &adapter.adapter_, status.details());
        adapter.memory_ = std::move(memory);
        return Result<Adapter>(status, std::move(adapter));
    }

    Result<gleed_adapter_info> info() const noexcept {
        Status status;
        auto info = make<gleed_adapter_info>();
        status = gleed_adapter_describe(adapter_, &info, status.details());
        return Result<gleed_adapter_info>(status, info);
    }
    const gleed_adapter *get() const noexcept { return adapter_; }

private:
    Memory memory_;
    const gleed_adapter *adapter_ = nullptr;
};

// Logits, and the place that they are for.
struct Row {
    gleed_seq sequence = 0;
    std::uint32_t position = 0;
    Logits logits;
};

// A hidden state, and the place that it is of.
struct HiddenRow {
    gleed_seq sequence = 0;
    std::uint32_t position = 0;
    Span<const float> hidden;
};

// An open sequence; closed at the end of its life. It must not outlive its engine, nor end in a callback of it, where it
// could not be closed. One that was made without an engine has the handle 0, which no sequence has.
class Sequence {
public:
    Sequence() noexcept = default;
    Sequence(gleed_engine *engine, gleed_seq seq) noexcept : engine_(engine), seq_(seq) {}
    Sequence(Sequence &&other) noexcept : engine_(std::exchange(other.engine_, nullptr)), seq_(other.seq_) {}
    Sequence &operator=(Sequence &&other) noexcept {
        std::swap(engine_, other.engine_);
        std::swap(seq_, other.seq_);
        return *this;
    }
    ~Sequence() {
        if (engine_ == nullptr) return;
        (void)gleed_cancel(engine_, seq_, nullptr);
        (void)gleed_seq_close(engine_, seq_, nullptr);
    }

    gleed_seq handle() const noexcept { return seq_; }
    // Gives the handle away: the sequence stays open.
    gleed_seq release() noexcept {
        engine_ = nullptr;
        return seq_;
    }

    Result<Logits> prefill(Tokens tokens) noexcept { return compute(gleed_prefill, tokens); }
    Result<Logits> prefill_prompt(Tokens tokens) noexcept { return compute(gleed_prefill_prompt, tokens); }
    Result<Logits> decode(std::uint32_t token) noexcept { return prefill(Tokens(&token, 1)); }
    Result<Logits> logits() const noexcept {
        Status status;
        const float *data = nullptr;
        std::size_t size = 0;
        status = gleed_logits(engine_, seq_, &data, &size, status.details());
        return Result<Logits>(status, Logits(data, size));
    }

    Status queue(Tokens tokens, std::uint32_t logits = GLEED_LOGITS_LAST) noexcept {
        Status status;
        status = gleed_queue(engine_, seq_, tokens.data(), tokens.size(), logits, status.details());
        return status;
    }
    Status cancel() noexcept {
        Status status;
        status = gleed_cancel(engine_, seq_, status.details());
        return status;
    }
    // Appends tokens, and writes an embedding of them: as many numbers as the model's `hidden`.
    Status embed(Tokens tokens, std::uint32_t pooling, Span<float> out) noexcept {
        Status status;
        status = gleed_embed(engine_, seq_, tokens.data(), tokens.size(), pooling, out.data(), out.size(),
                             status.details());
        return status;
    }
    // Appends tokens, and writes how probable each but the first was: natural logarithms.
    Status log_probs(Tokens tokens, Span<float> out) noexcept {
        Status status;
        status = gleed_log_probs(engine_, seq_, tokens.data(), tokens.size(), out.data(), out.size(), status.details());
        return status;
    }
    // Copies the ids of as many tokens as `out` has place for, from position `first` on.
    Status tokens(std::size_t first, Span<std::uint32_t> out) const noexcept {
        Status status;
        status = gleed_seq_tokens(engine_, seq_, first, out.data(), out.size(), status.details());
        return status;
    }
    // How much it wants of an adapter that Engine::load_adapter gave the number.
    Status set_adapter(std::uint32_t number, float scale) noexcept {
        Status status;
        status = gleed_seq_set_adapter(engine_, seq_, number, scale, status.details());
        return status;
    }
    Result<float> adapter(std::uint32_t number) const noexcept {
        Status status;
        float scale = 0;
        status = gleed_seq_adapter(engine_, seq_, number, &scale, status.details());
        return Result<float>(status, scale);
    }
    Result<Sequence> fork(std::size_t keep) noexcept {
        Status status;
        gleed_seq fork = 0;
        status = gleed_fork(engine_, seq_, keep, &fork, status.details());
        return status ? Result<Sequence>(status, Sequence(engine_, fork)) : Result<Sequence>(status);
    }
    Status rewind(std::size_t keep) noexcept {
        Status status;
        status = gleed_rewind(engine_, seq_, keep, status.details());
        return status;
    }
    Status reset() noexcept { return rewind(0); }
    Status can_extend(std::size_t tokens) const noexcept {
        Status status;
        status = gleed_can_extend(engine_, seq_, tokens, status.details());
        return status;
    }
    Result<gleed_seq_info> info() const noexcept {
        Status status;
        auto info = make<gleed_seq_info>();
        status = gleed_seq_describe(engine_, seq_, &info, status.details());
        return Result<gleed_seq_info>(status, info);
    }
    Result<std::size_t> reuse(Tokens prompt) noexcept {
        Status status;
        std::size_t reused = 0;
        status = gleed_reuse(engine_, seq_, prompt.data(), prompt.size(), &reused, status.details());
        return Result<std::size_t>(status, reused);
    }
    Result<std::size_t> snapshot_size(const gleed_snapshot_options *options = nullptr) const noexcept {
        Status status;
        std::size_t size = 0;
        status = gleed_snapshot_size(engine_, seq_, options, &size, status.details());
        return Result<std::size_t>(status, size);
    }
    Result<std::size_t> snapshot(Span<std::uint8_t> out, const gleed_snapshot_options *options = nullptr) const noexcept {
        Status status;
        std::size_t size = 0;
        status = gleed_snapshot(engine_, seq_, options, out.data(), out.size(), &size, status.details());
        return Result<std::size_t>(status, size);
    }
    // Calls sink(bytes) with the snapshot in pieces, until it answers false; how many bytes it got.
    template <class Sink>
    Result<std::uint64_t> write_snapshot(Sink &&sink, const gleed_snapshot_options *options = nullptr) const {
        using Callable = std::remove_reference_t<Sink>;
        Status status;
        std::uint64_t written = 0;
        const gleed_sink call = [](void *ctx, const std::uint8_t *bytes, std::size_t len) -> std::int32_t {
            return (*static_cast<Callable *>(ctx))(Bytes(bytes, len)) ? 0 : -1;
        };
        status = gleed_snapshot_write(engine_, seq_, options, call, context(sink), &written, status.details());
        return Result<std::uint64_t>(status, written);
    }
    // Copies the keys and values of a layer, [tokens, kv_heads * head_dim] each.
    Status materialize(std::uint32_t layer, Span<float> keys, Span<float> values) const noexcept {
        Status status;
        if (keys.size() != values.size()) {
            status = GLEED_E_SHAPE;
            return status;
        }
        status = gleed_materialize(engine_, seq_, layer, keys.data(), values.data(), keys.size(), status.details());
        return status;
    }

private:
    template <class Function>
    Result<Logits> compute(Function function, Tokens tokens) noexcept {
        Status status;
        const float *data = nullptr;
        std::size_t size = 0;
        status = function(engine_, seq_, tokens.data(), tokens.size(), &data, &size, status.details());
        return Result<Logits>(status, Logits(data, size));
    }

    gleed_engine *engine_ = nullptr;
    gleed_seq seq_ = 0;
};

// Sequences over one model, and the memory that computing them takes.
class Engine {
public:
    Engine() noexcept = default;

    static Result<Engine> start(const Model &model, const gleed_config &config) noexcept {
        std::size_t size = 0, align = 1;
        Status status;
        status = gleed_plan(model.get(), &config, &size, &align, status.details());
        if (!status) return Result<Engine>(status);
        return start(model, config, Memory::allocate(size, align));
    }
    static Result<Engine> start(const Model &model, const gleed_config &config, Memory memory) noexcept {
        Status status;
        Engine engine;
        status = gleed_engine_init(model.get(), &config, memory.data(), memory.size(), &engine.engine_, status.details());
        engine.memory_ = std::move(memory);
        return Result<Engine>(status, std::move(engine));
    }

    Result<Sequence> open() noexcept {
        Status status;
        gleed_seq seq = 0;
        status = gleed_seq_open(engine_, &seq, status.details());
        return status ? Result<Sequence>(status, Sequence(engine_, seq)) : Result<Sequence>(status);
    }
    Result<Sequence> restore(Bytes snapshot, const Sequence *base = nullptr) noexcept {
        Status status;
        gleed_seq seq = 0, of_base = base != nullptr ? base->handle() : 0;
        status = gleed_restore(engine_, base != nullptr ? &of_base : nullptr, snapshot.data(), snapshot.size(), &seq,
                               status.details());
        return status ? Result<Sequence>(status, Sequence(engine_, seq)) : Result<Sequence>(status);
    }

    // A snapshot in pieces: source(bytes) fills `bytes` from the start and says how far; 0: that was the end. What its
    // header says goes to *info.
    template <class Source>
    Result<Sequence> read_snapshot(Source &&source, gleed_snapshot_info *info = nullptr, const Sequence *base = nullptr) {
        using Callable = std::remove_reference_t<Source>;
        Status status;
        gleed_seq seq = 0, of_base = base != nullptr ? base->handle() : 0;
        const gleed_source call = [](void *ctx, std::uint8_t *bytes, std::size_t len) -> std::size_t {
            return (*static_cast<Callable *>(ctx))(Span<std::uint8_t>(bytes, len));
        };
        status = gleed_snapshot_read(engine_, base != nullptr ? &of_base : nullptr, call, context(source), &seq, info,
                                     status.details());
        return status ? Result<Sequence>(status, Sequence(engine_, seq)) : Result<Sequence>(status);
    }
    // Closes idle sequences that consent(handle, info) gives up, until `tokens` more fit `sequence`: how many. Their
    // Sequences answer GLEED_E_SEQUENCE from then on.
    template <class Consent>
    Result<std::size_t> make_room(const Sequence &sequence, std::size_t tokens, Consent &&consent) {
        using Callable = std::remove_reference_t<Consent>;
        Status status;
        std::size_t closed = 0;
        const gleed_consent call = [](void *ctx, gleed_seq seq, const gleed_seq_info *info) -> std::int32_t {
            return (*static_cast<Callable *>(ctx))(seq, *info) ? 1 : 0;
        };
        status = gleed_make_room(engine_, sequence.handle(), tokens, call, context(consent), &closed, status.details());
        return Result<std::size_t>(status, closed);
    }

    // GLEED_READY, GLEED_YIELDED, GLEED_STOPPED, or GLEED_OK where nothing is queued any more.
    Status step(const gleed_budget &budget) noexcept {
        Status status;
        status = gleed_step(engine_, &budget, status.details());
        return status;
    }
    // At most so many units; 0: no limit.
    Status step(std::uint64_t units = 0) noexcept {
        auto budget = make<gleed_budget>();
        budget.units = units;
        return step(budget);
    }
    // Row `index`, from 0, of those with logits in the last batch.
    Result<Row> result(std::size_t index) const noexcept {
        Status status;
        Row row;
        const float *data = nullptr;
        std::size_t size = 0;
        status = gleed_result(engine_, index, &row.sequence, &row.position, &data, &size, status.details());
        row.logits = Logits(data, size);
        return Result<Row>(status, row);
    }
    // Calls visit(handle, position, logits) for each of them.
    template <class Visit>
    void each_result(Visit &&visit) const {
        std::size_t index = 0;
        for (auto row = result(0); row; row = result(++index))
            visit(row.value().sequence, row.value().position, row.value().logits);
    }

    // Row `index`, from 0, of those with a hidden state in the last batch; valid until the next call that changes the
    // engine, this one included.
    Result<HiddenRow> hidden(std::size_t index) noexcept {
        Status status;
        HiddenRow row;
        const float *data = nullptr;
        std::size_t size = 0;
        status = gleed_hidden(engine_, index, &row.sequence, &row.position, &data, &size, status.details());
        row.hidden = Span<const float>(data, size);
        return Result<HiddenRow>(status, row);
    }
    // The number that sequences call the adapter by.
    Result<std::uint32_t> load_adapter(const Adapter &adapter) noexcept {
        Status status;
        std::uint32_t number = 0;
        status = gleed_engine_load_adapter(engine_, adapter.get(), &number, status.details());
        return Result<std::uint32_t>(status, number);
    }

    Status set_executor(const gleed_executor &executor) noexcept {
        Status status;
        status = gleed_set_executor(engine_, &executor, status.details());
        return status;
    }
    // An executor that has loop(n, call), where call(index) is to be called for each index below n; it must outlive
    // the engine.
    template <class Loop>
    Status run_on(Loop &loop, std::uint32_t slots = 0) noexcept {
        auto executor = make<gleed_executor>();
        executor.slots = slots;
        executor.ctx = &loop;
        executor.parallel_for = [](void *ctx, std::uint32_t n, gleed_body body, void *arg) {
            (*static_cast<Loop *>(ctx))(n, [body, arg](std::uint32_t index) { body(arg, index); });
        };
        return set_executor(executor);
    }

    Result<std::size_t> pin(Tokens prompt) noexcept {
        Status status;
        std::size_t count = 0;
        status = gleed_pin(engine_, prompt.data(), prompt.size(), &count, status.details());
        return Result<std::size_t>(status, count);
    }
    Result<std::size_t> unpin(Tokens prompt) noexcept {
        Status status;
        std::size_t count = 0;
        status = gleed_unpin(engine_, prompt.data(), prompt.size(), &count, status.details());
        return Result<std::size_t>(status, count);
    }
    Result<gleed_engine_info> info() const noexcept {
        Status status;
        auto info = make<gleed_engine_info>();
        status = gleed_engine_describe(engine_, &info, status.details());
        return Result<gleed_engine_info>(status, info);
    }
    gleed_engine *get() noexcept { return engine_; }
    const gleed_engine *get() const noexcept { return engine_; }

private:
    Memory memory_;
    gleed_engine *engine_ = nullptr;
};

// Chooses tokens.
class Sampler {
public:
    Sampler() noexcept = default;

    static Result<Sampler> start(const gleed_sampler_params &params) noexcept {
        std::size_t size = 0, align = 1;
        Status status;
        status = gleed_sampler_size(&size, &align, status.details());
        if (!status) return Result<Sampler>(status);
        return start(params, Memory::allocate(size, align));
    }
    static Result<Sampler> start(const gleed_sampler_params &params, Memory memory) noexcept {
        Status status;
        Sampler sampler;
        status = gleed_sampler_init(&params, memory.data(), memory.size(), &sampler.sampler_, status.details());
        sampler.memory_ = std::move(memory);
        return Result<Sampler>(status, std::move(sampler));
    }

    // `scratch` has as many elements as there are logits.
    Result<std::uint32_t> sample(Logits logits, Span<std::uint64_t> scratch) noexcept {
        Status status;
        std::uint32_t token = 0;
        status = gleed_sample(sampler_, logits.data(), logits.size(), scratch.data(), scratch.size(), &token, nullptr,
                              status.details());
        return Result<std::uint32_t>(status, token);
    }
    Status accept(std::uint32_t token) noexcept {
        Status status;
        status = gleed_sampler_accept(sampler_, token, status.details());
        return status;
    }
    Status set_biases(Span<const gleed_bias> biases) noexcept {
        Status status;
        status = gleed_sampler_set_biases(sampler_, biases.data(), biases.size(), status.details());
        return status;
    }
    // Where the random generator is; another sampler that is put there goes on with the same choices.
    Result<std::uint64_t> state() const noexcept {
        Status status;
        std::uint64_t state = 0;
        status = gleed_sampler_state(sampler_, &state, status.details());
        return Result<std::uint64_t>(status, state);
    }
    Status set_state(std::uint64_t state) noexcept {
        Status status;
        status = gleed_sampler_set_state(sampler_, state, status.details());
        return status;
    }
    gleed_sampler *get() noexcept { return sampler_; }

private:
    Memory memory_;
    gleed_sampler *sampler_ = nullptr;
};

// The token with the largest logit.
inline Result<std::uint32_t> argmax(Logits logits) noexcept {
    Status status;
    std::uint32_t token = 0;
    status = gleed_argmax(logits.data(), logits.size(), &token, status.details());
    return Result<std::uint32_t>(status, token);
}

// Text to tokens.
class Tokenizer {
public:
    Tokenizer() noexcept = default;

    static Result<Tokenizer> start(const Model &model) noexcept {
        std::size_t size = 0, align = 1;
        Status status;
        status = gleed_tokenizer_size(model.get(), &size, &align, status.details());
        if (!status) return Result<Tokenizer>(status);
        return start(model, Memory::allocate(size, align));
    }
    static Result<Tokenizer> start(const Model &model, Memory memory) noexcept {
        Status status;
        Tokenizer tokenizer;
        status = gleed_tokenizer_init(model.get(), memory.data(), memory.size(), &tokenizer.tokenizer_, status.details());
        tokenizer.memory_ = std::move(memory);
        return Result<Tokenizer>(status, std::move(tokenizer));
    }

    // How many tokens were written.
    Result<std::size_t> encode(Span<const char> text, std::uint32_t flags, Span<std::uint32_t> scratch,
                               Span<std::uint32_t> out) const noexcept {
        Status status;
        std::size_t count = 0;
        status = gleed_encode(tokenizer_, text.data(), text.size(), flags, scratch.data(), scratch.size(), out.data(),
                              out.size(), &count, status.details());
        return Result<std::size_t>(status, count);
    }
    Result<gleed_vocab_info> info() const noexcept {
        Status status;
        auto info = make<gleed_vocab_info>();
        status = gleed_tokenizer_describe(tokenizer_, &info, status.details());
        return Result<gleed_vocab_info>(status, info);
    }
    // The id of a token by its exact text in the file; GLEED_NO_TOKEN where no token has it.
    Result<std::uint32_t> find(Span<const char> text) const noexcept {
        Status status;
        std::uint32_t token = GLEED_NO_TOKEN;
        status = gleed_vocab_find(tokenizer_, text.data(), text.size(), &token, status.details());
        return Result<std::uint32_t>(status, token);
    }
    // Whether a token ends a generation.
    Result<bool> is_end(std::uint32_t token) const noexcept {
        Status status;
        std::uint32_t kind = 0, end = 0;
        status = gleed_token_kind(tokenizer_, token, &kind, &end, status.details());
        return Result<bool>(status, end != 0);
    }
    const gleed_tokenizer *get() const noexcept { return tokenizer_; }

private:
    Memory memory_;
    const gleed_tokenizer *tokenizer_ = nullptr;
};

// A stream of tokens to text. The tokenizer must outlive it.
class Detokenizer {
public:
    Detokenizer() noexcept = default;

    static Result<Detokenizer> start(const Tokenizer &tokenizer, std::uint32_t flags = 0) noexcept {
        std::size_t size = 0, align = 1;
        Status status;
        status = gleed_detokenizer_size(&size, &align, status.details());
        if (!status) return Result<Detokenizer>(status);
        return start(tokenizer, flags, Memory::allocate(size, align));
    }
    static Result<Detokenizer> start(const Tokenizer &tokenizer, std::uint32_t flags, Memory memory) noexcept {
        Status status;
        Detokenizer detokenizer;
        detokenizer.tokenizer_ = tokenizer.get();
        status = gleed_detokenizer_init(tokenizer.get(), flags, memory.data(), memory.size(), &detokenizer.detokenizer_,
                                        status.details());
        detokenizer.memory_ = std::move(memory);
        return Result<Detokenizer>(status, std::move(detokenizer));
    }

    // The text that the token completes, in `out`.
    Result<Span<const char>> push(std::uint32_t token, Span<char> out) noexcept {
        Status status;
        std::size_t written = 0;
        status = gleed_detokenize(detokenizer_, tokenizer_, token, out.data(), out.size(), &written, status.details());
        return Result<Span<const char>>(status, Span<const char>(out.data(), written));
    }
    Result<Span<const char>> finish(Span<char> out) noexcept {
        Status status;
        std::size_t written = 0;
        status = gleed_detokenizer_finish(detokenizer_, out.data(), out.size(), &written, status.details());
        return Result<Span<const char>>(status, Span<const char>(out.data(), written));
    }

private:
    Memory memory_;
    const gleed_tokenizer *tokenizer_ = nullptr;
    gleed_detokenizer *detokenizer_ = nullptr;
};

// A message of a conversation.
inline gleed_message message(std::uint32_t role, Span<const char> text) noexcept {
    return gleed_message{role, 0, text.data(), text.size()};
}

// A turn format; false where there is none. It keeps nothing, and can be copied.
class Turns {
public:
    Turns() noexcept = default;
    explicit Turns(std::uint32_t format) noexcept : format_(format) {}

    // The one of a model's file.
    static Result<Turns> find(const Model &model, const Tokenizer &tokenizer) noexcept {
        Status status;
        std::uint32_t format = GLEED_NO_TURNS;
        status = gleed_turns_find(model.get(), tokenizer.get(), &format, status.details());
        return Result<Turns>(status, Turns(format));
    }
    static Result<Turns> named(Span<const char> name) noexcept {
        Status status;
        std::uint32_t format = GLEED_NO_TURNS;
        status = gleed_turns_named(name.data(), name.size(), &format, status.details());
        return Result<Turns>(status, Turns(format));
    }

    explicit operator bool() const noexcept { return format_ != GLEED_NO_TURNS; }
    std::uint32_t format() const noexcept { return format_; }
    Result<gleed_turns_info> info() const noexcept {
        Status status;
        auto info = make<gleed_turns_info>();
        status = gleed_turns_describe(format_, &info, status.details());
        return Result<gleed_turns_info>(status, info);
    }
    // How many tokens were written, for messages that follow a message of the role `after`, GLEED_AFTER_REPLY, or nothing.
    Result<std::size_t> encode(const Tokenizer &tokenizer, std::uint32_t after, Span<const gleed_message> messages,
                               std::uint32_t flags, Span<std::uint32_t> scratch, Span<std::uint32_t> out) const noexcept {
        Status status;
        std::size_t count = 0;
        status = gleed_turns_encode(tokenizer.get(), format_, after, messages.data(), messages.size(), flags,
                                    scratch.data(), scratch.size(), out.data(), out.size(), &count, status.details());
        return Result<std::size_t>(status, count);
    }
    // Whether a token ends the model's turn.
    Result<bool> is_stop(const Tokenizer &tokenizer, std::uint32_t token) const noexcept {
        Status status;
        std::uint32_t stop = 0;
        status = gleed_turns_is_stop(tokenizer.get(), format_, token, &stop, status.details());
        return Result<bool>(status, stop != 0);
    }

private:
    std::uint32_t format_ = GLEED_NO_TURNS;
};

} // namespace gleed

#endif // GLEED_HPP
