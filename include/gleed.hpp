// gleed.hpp: a C++17 wrapper of gleed.h, in one header.
//
// SPDX-License-Identifier: MIT OR Apache-2.0
//
// The wrapper throws nothing and compiles with -fno-exceptions and -fno-rtti. At run time it needs only the C
// functions. A function that can fail returns a Status, or a Result: a status, and a value that counts only if the
// status is GLEED_OK. Model, Adapter, Engine, Sampler, Tokenizer, Detokenizer, Desk, Guesses, Conversation and Matcher own their
// memory, which comes from operator new, or borrow memory of the host. Grammar, GrammarBuild, TokenTrie, TokenTrieBuild, Writing,
// Stops and Calls always own their memory. All of them can be moved, but not copied. A move leaves the C object where it is. Calls
// on an object that was moved from return GLEED_E_NULL. An assignment frees the object that was there. The rules of gleed.h hold:
// const functions may run on several threads at the same time, and a callback that uses its engine gets GLEED_E_REENTRANT.
#ifndef GLEED_HPP
#define GLEED_HPP

#include <cstddef>
#include <cstdint>
#include <new>
#include <type_traits>
#include <utility>

#include "gleed.h"

namespace gleed {

// A view of elements. It does not own them.
template <class T>
class Span {
public:
    constexpr Span() noexcept = default;
    constexpr Span(T *data, std::size_t size) noexcept : data_(data), size_(size) {}
    // Views an array. A Span<const char>, of a string literal for example, ends before the first 0. For a text that has zeros
    // use std::string_view, or say its size.
    template <std::size_t N>
    constexpr Span(T (&array)[N]) noexcept : data_(array), size_(N) {
        if constexpr (std::is_same_v<T, const char>)
            for (size_ = 0; size_ < N && array[size_] != 0;) size_++;
    }
    // Views any container with data() and size(): std::vector, std::array, std::string_view, std::span, another Span.
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

// A view of elements that the callee keeps. It cannot be made of a temporary object that has a destructor, such as a std::vector.
template <class T>
class Kept : public Span<T> {
public:
    constexpr Kept() noexcept = default;
    constexpr Kept(T *data, std::size_t size) noexcept : Span<T>(data, size) {}
    template <class C, class = std::enable_if_t<std::is_convertible_v<C, Span<T>> &&
                                                (std::is_lvalue_reference_v<C> || std::is_trivially_destructible_v<C>)>>
    constexpr Kept(C &&container) noexcept : Span<T>(std::forward<C>(container)) {}
};

using Tokens = Span<const std::uint32_t>;
using Logits = Span<const float>;
using Bytes = Span<const std::uint8_t>;

// Returns a struct of the C interface with struct_size set and all other fields 0.
template <class T>
T make() noexcept {
    T value{};
    value.struct_size = static_cast<std::uint32_t>(sizeof(T));
    return value;
}

// Returns a pointer to a callable, as the ctx argument of a callback. The callable may be const, or a function.
template <class Callable>
void *context(Callable &callable) noexcept {
    if constexpr (std::is_function_v<Callable>)
        return reinterpret_cast<void *>(&callable);
    else
        return const_cast<void *>(static_cast<const void *>(&callable));
}

// Returns the callable of a ctx argument.
template <class Callable>
Callable &callable(void *ctx) noexcept {
    return *reinterpret_cast<Callable *>(ctx);
}

// The outcome of a call. error() has the details of an error and of GLEED_FULL. For other statuses it has only the number.
class [[nodiscard]] Status {
public:
    Status() noexcept : error_(make<gleed_error>()) {}

    gleed_status code() const noexcept { return code_; }
    // Returns whether the status is GLEED_OK. The ordinary outcomes GLEED_YIELDED, GLEED_FULL, GLEED_STOPPED and
    // GLEED_READY are not ok(), and not failed() either.
    bool ok() const noexcept { return code_ == GLEED_OK; }
    // Returns whether the status is an error.
    bool failed() const noexcept { return code_ < 0; }
    explicit operator bool() const noexcept { return ok(); }
    const gleed_error &error() const noexcept { return error_; }
    // Returns an English text, never NULL.
    const char *text() const noexcept { return error_.text[0] != 0 ? error_.text : gleed_status_text(code_); }

    // For the wrappers below: sets the status that a C function returned. details() is where that function writes its
    // details. Details of an earlier call with another status are dropped.
    Status &operator=(gleed_status code) noexcept {
        if (error_.status != code) {
            error_ = make<gleed_error>();
            error_.status = code;
        }
        code_ = code;
        return *this;
    }
    gleed_error *details() noexcept { return &error_; }

private:
    gleed_status code_ = GLEED_OK;
    gleed_error error_;
};

// A status, and a value that counts only if the status is GLEED_OK.
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
    T value() && noexcept { return std::move(value_); }
    T value_or(T other) const & { return ok() ? value_ : other; }
    T value_or(T other) && noexcept { return std::move(ok() ? value_ : other); }

private:
    Status status_;
    T value_{};
};

// A block of memory: borrowed from the host, or allocated with operator new and freed by the destructor.
class Memory {
public:
    Memory() noexcept = default;
    // Borrows memory of the host. It must outlive the object that is made in it.
    Memory(void *data, std::size_t size) noexcept : data_(data), size_(size) {}
    Memory(Memory &&other) noexcept
        : data_(std::exchange(other.data_, nullptr)),
          size_(std::exchange(other.size_, 0)),
          owned_(std::exchange(other.owned_, 0)) {}
    Memory &operator=(Memory &&other) noexcept {
        Memory taken(std::move(other));
        std::swap(data_, taken.data_);
        std::swap(size_, taken.size_);
        std::swap(owned_, taken.owned_);
        return *this;
    }
    ~Memory() {
        if (owned_ != 0) ::operator delete(data_, std::align_val_t(owned_));
    }

    // Allocates `size` bytes at a multiple of `align` bytes. If that fails, the result is empty, and the call that
    // makes an object in it returns GLEED_E_MEMORY_TOO_SMALL.
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

// A pointer to an object of the C functions. A move leaves NULL behind.
template <class T>
class Pointer {
public:
    Pointer(T *object = nullptr) noexcept : object_(object) {}
    Pointer(Pointer &&other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
    Pointer &operator=(Pointer &&other) noexcept {
        object_ = std::exchange(other.object_, nullptr);
        return *this;
    }
    operator T *() const noexcept { return object_; }
    // Returns where a C function writes the pointer.
    T **out() noexcept { return &object_; }

private:
    T *object_;
};

// A model. The bytes of its GGUF file are not copied. They must outlive the model and its engines.
class Model {
public:
    Model() noexcept = default;

    // Opens a GGUF file, in a few hundred bytes of memory from operator new or in memory of the caller.
    static Result<Model> open(Kept<const std::uint8_t> file) noexcept {
        std::size_t size = 0, align = 1;
        Status status;
        status = gleed_model_size(&size, &align, status.details());
        if (!status) return Result<Model>(status);
        return open(file, Memory::allocate(size, align));
    }
    static Result<Model> open(Kept<const std::uint8_t> file, Memory memory) noexcept {
        Status status;
        Model model;
        status = gleed_model_open(file.data(), file.size(), memory.data(), memory.size(), model.model_.out(), status.details());
        model.memory_ = std::move(memory);
        return Result<Model>(status, std::move(model));
    }

    // Opens a split file: all its parts, in order. The model must outlive its engines.
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
        status = gleed_model_open_split(parts.data(), parts.size(), memory.data(), memory.size(), model.model_.out(),
                                        status.details());
        model.memory_ = std::move(memory);
        return Result<Model>(status, std::move(model));
    }

    // Describes the layer that predicts one token further ahead, as a model: for Guesses::with_layer.
    Result<Model> predictor() const noexcept {
        std::size_t size = 0, align = 1;
        Status status;
        status = gleed_model_size(&size, &align, status.details());
        if (!status) return Result<Model>(status);
        return predictor(Memory::allocate(size, align));
    }
    Result<Model> predictor(Memory memory) const noexcept {
        Status status;
        Model layer;
        status = gleed_model_predictor(model_, memory.data(), memory.size(), layer.model_.out(), status.details());
        layer.memory_ = std::move(memory);
        return Result<Model>(status, std::move(layer));
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
    // Returns section `index`, from 0, of an engine's memory.
    Result<gleed_section> section(const gleed_config &config, std::size_t index) const noexcept {
        Status status;
        auto section = make<gleed_section>();
        status = gleed_plan_section(model_, &config, index, &section, status.details());
        return Result<gleed_section>(status, section);
    }
    // Returns the number of elements of an embedding. `pooling` is GLEED_POOLING_MODEL, ...
    Result<std::size_t> embedding_len(std::uint32_t pooling = GLEED_POOLING_MODEL) const noexcept {
        std::uint32_t used = 0;
        std::size_t len = 0;
        Status status;
        status = gleed_model_embedding(model_, pooling, &used, &len, status.details());
        return Result<std::size_t>(status, len);
    }
    // Returns a text from the metadata, "tokenizer.chat_template" for example. It lies in the bytes of the file.
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
    Pointer<const gleed_model> model_;
};

// A LoRA adapter for a model. The bytes of its file are not copied. They must outlive the adapter and the engines that
// have loaded it.
class Adapter {
public:
    Adapter() noexcept = default;

    static Result<Adapter> open(const Model &model, Kept<const std::uint8_t> file) noexcept {
        std::size_t size = 0, align = 1;
        Status status;
        status = gleed_adapter_size(&size, &align, status.details());
        if (!status) return Result<Adapter>(status);
        return open(model, file, Memory::allocate(size, align));
    }
    static Result<Adapter> open(const Model &model, Kept<const std::uint8_t> file, Memory memory) noexcept {
        Status status;
        Adapter adapter;
        status = gleed_adapter_open(model.get(), file.data(), file.size(), memory.data(), memory.size(),
                                    adapter.adapter_.out(), status.details());
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
    Pointer<const gleed_adapter> adapter_;
};

// The logits of a token, and the position of the token.
struct Row {
    gleed_seq sequence = 0;
    std::uint32_t position = 0;
    Logits logits;
};

// The hidden state of a token, and the position of the token.
struct HiddenRow {
    gleed_seq sequence = 0;
    std::uint32_t position = 0;
    Span<const float> hidden;
};

// An open sequence. The destructor cancels its unfinished work and closes it, and so does an assignment to it. A Sequence
// must not outlive its engine, which ends where another engine is assigned to it. It must not be destroyed in a callback
// of its engine either: the engine is in use there, and the sequence would stay open. A default Sequence has no engine and
// the handle 0, which no open sequence has.
class Sequence {
public:
    Sequence() noexcept = default;
    Sequence(gleed_engine *engine, gleed_seq seq) noexcept : engine_(engine), seq_(seq) {}
    Sequence(Sequence &&other) noexcept
        : engine_(std::exchange(other.engine_, nullptr)), seq_(std::exchange(other.seq_, 0)) {}
    Sequence &operator=(Sequence &&other) noexcept {
        Sequence taken(std::move(other));
        std::swap(engine_, taken.engine_);
        std::swap(seq_, taken.seq_);
        return *this;
    }
    ~Sequence() {
        if (engine_ == nullptr) return;
        (void)gleed_cancel(engine_, seq_, nullptr);
        (void)gleed_seq_close(engine_, seq_, nullptr);
    }

    gleed_seq handle() const noexcept { return seq_; }
    // Returns the handle and gives up ownership: the destructor does not close the sequence.
    gleed_seq release() noexcept {
        engine_ = nullptr;
        return seq_;
    }

    // Appends tokens and returns the logits of the last one, which are valid until the next call that changes the
    // engine.
    Result<Logits> prefill(Tokens tokens) noexcept { return compute(gleed_prefill, tokens); }
    // Fills the empty sequence with a prompt: reuse, then prefill of the remaining tokens.
    Result<Logits> prefill_prompt(Tokens tokens) noexcept { return compute(gleed_prefill_prompt, tokens); }
    // Appends one token and returns its logits.
    Result<Logits> decode(std::uint32_t token) noexcept { return prefill(Tokens(&token, 1)); }
    // Does what prefill does, if the sequence has `position` tokens.
    Result<Logits> prefill_at(std::size_t position, Tokens tokens) noexcept {
        Status status;
        const float *data = nullptr;
        std::size_t size = 0;
        status = gleed_prefill_at(engine_, seq_, position, tokens.data(), tokens.size(), &data, &size, status.details());
        return Result<Logits>(status, Logits(data, size));
    }
    // Returns the logits of the sequence's last row in the last batch.
    Result<Logits> logits() const noexcept {
        Status status;
        const float *data = nullptr;
        std::size_t size = 0;
        status = gleed_logits(engine_, seq_, &data, &size, status.details());
        return Result<Logits>(status, Logits(data, size));
    }

    // Queues tokens for Engine::step. `logits` is GLEED_LOGITS_LAST, ...
    Status queue(Tokens tokens, std::uint32_t logits = GLEED_LOGITS_LAST) noexcept {
        Status status;
        status = gleed_queue(engine_, seq_, tokens.data(), tokens.size(), logits, status.details());
        return status;
    }
    // Does what queue does, if the sequence has `position` tokens.
    Status queue_at(std::size_t position, Tokens tokens, std::uint32_t logits = GLEED_LOGITS_LAST) noexcept {
        Status status;
        status = gleed_queue_at(engine_, seq_, position, tokens.data(), tokens.size(), logits, status.details());
        return status;
    }
    // Drops the queued tokens that are not finished.
    Status cancel() noexcept {
        Status status;
        status = gleed_cancel(engine_, seq_, status.details());
        return status;
    }
    // Appends tokens and writes an embedding of them to `out`, which has as many elements as Model::embedding_len says.
    Status embed(Tokens tokens, std::uint32_t pooling, Span<float> out) noexcept {
        Status status;
        status = gleed_embed(engine_, seq_, tokens.data(), tokens.size(), pooling, out.data(), out.size(),
                             status.details());
        return status;
    }
    // Appends tokens and writes the natural logarithm of the probability of each token but the first to `out`, which
    // has one element less than `tokens`.
    Status log_probs(Tokens tokens, Span<float> out) noexcept {
        Status status;
        status = gleed_log_probs(engine_, seq_, tokens.data(), tokens.size(), out.data(), out.size(), status.details());
        return status;
    }
    // Copies the ids of out.size() tokens to `out`, from position `first` on.
    Status tokens(std::size_t first, Span<std::uint32_t> out) const noexcept {
        Status status;
        status = gleed_seq_tokens(engine_, seq_, first, out.data(), out.size(), status.details());
        return status;
    }
    // Sets the scale of an adapter. `number` is what Engine::load_adapter returned.
    Status set_adapter(std::uint32_t number, float scale) noexcept {
        Status status;
        status = gleed_seq_set_adapter(engine_, seq_, number, scale, status.details());
        return status;
    }
    // Returns the scale of an adapter.
    Result<float> adapter(std::uint32_t number) const noexcept {
        Status status;
        float scale = 0;
        status = gleed_seq_adapter(engine_, seq_, number, &scale, status.details());
        return Result<float>(status, scale);
    }
    // Opens a sequence that starts with the first `keep` tokens of this one.
    Result<Sequence> fork(std::size_t keep) noexcept {
        Status status;
        gleed_seq fork = 0;
        status = gleed_fork(engine_, seq_, keep, &fork, status.details());
        return status ? Result<Sequence>(status, Sequence(engine_, fork)) : Result<Sequence>(status);
    }
    // Keeps only the first `keep` tokens.
    Status rewind(std::size_t keep) noexcept {
        Status status;
        status = gleed_rewind(engine_, seq_, keep, status.details());
        return status;
    }
    // Keeps the state of the recurrent layers, so that a rewind to this length computes nothing again.
    Status checkpoint() noexcept {
        Status status;
        status = gleed_checkpoint(engine_, seq_, status.details());
        return status;
    }
    // Returns how many tokens need not be computed again after a rewind to `keep` tokens.
    Result<std::size_t> computed_at(std::size_t keep) const noexcept {
        Status status;
        std::size_t computed = 0;
        status = gleed_computed_at(engine_, seq_, keep, &computed, status.details());
        return Result<std::size_t>(status, computed);
    }
    // Removes all tokens. The sequence stays open.
    Status reset() noexcept { return rewind(0); }
    // Checks whether `tokens` more tokens fit.
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
    // Starts the empty sequence with the cached prefix of a prompt. Returns the number of tokens in that prefix.
    Result<std::size_t> reuse(Tokens prompt) noexcept {
        Status status;
        std::size_t reused = 0;
        status = gleed_reuse(engine_, seq_, prompt.data(), prompt.size(), &reused, status.details());
        return Result<std::size_t>(status, reused);
    }
    // Returns the size of a snapshot, in bytes.
    Result<std::size_t> snapshot_size(const gleed_snapshot_options *options = nullptr) const noexcept {
        Status status;
        std::size_t size = 0;
        status = gleed_snapshot_size(engine_, seq_, options, &size, status.details());
        return Result<std::size_t>(status, size);
    }
    // Writes a snapshot to `out`. Returns its size in bytes.
    Result<std::size_t> snapshot(Span<std::uint8_t> out, const gleed_snapshot_options *options = nullptr) const noexcept {
        Status status;
        std::size_t size = 0;
        status = gleed_snapshot(engine_, seq_, options, out.data(), out.size(), &size, status.details());
        return Result<std::size_t>(status, size);
    }
    // Calls sink(bytes) with the snapshot in pieces. sink returns true on success; false ends the call with
    // GLEED_E_SNAPSHOT_HOST. Returns the size of the snapshot in bytes.
    template <class Sink>
    Result<std::uint64_t> write_snapshot(Sink &&sink, const gleed_snapshot_options *options = nullptr) const {
        using Callable = std::remove_reference_t<Sink>;
        Status status;
        std::uint64_t written = 0;
        const gleed_sink call = [](void *ctx, const std::uint8_t *bytes, std::size_t len) -> std::int32_t {
            return callable<Callable>(ctx)(Bytes(bytes, len)) ? 0 : -1;
        };
        status = gleed_snapshot_write(engine_, seq_, options, call, context(sink), &written, status.details());
        return Result<std::uint64_t>(status, written);
    }
    // Copies the keys and values of a layer. Each buffer is [tokens, kv_heads * head_dim].
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

// An engine: sequences of tokens over one model, and the memory that it computes in.
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
        status = gleed_engine_init(model.get(), &config, memory.data(), memory.size(), engine.engine_.out(), status.details());
        engine.memory_ = std::move(memory);
        return Result<Engine>(status, std::move(engine));
    }

    // Opens an empty sequence.
    Result<Sequence> open() noexcept {
        Status status;
        gleed_seq seq = 0;
        status = gleed_seq_open(engine_, &seq, status.details());
        return status ? Result<Sequence>(status, Sequence(engine_, seq)) : Result<Sequence>(status);
    }
    // Writes embeddings of several texts to `out`, one after the other. The tokens of the texts lie one after the other in
    // `tokens`; `lengths` has the number of tokens of each text.
    Status embed_texts(Tokens tokens, Span<const std::size_t> lengths, std::uint32_t pooling, Span<float> out) noexcept {
        Status status;
        status = gleed_embed_texts(engine_, tokens.data(), tokens.size(), lengths.data(), lengths.size(), pooling,
                                   out.data(), out.size(), status.details());
        return status;
    }
    // Opens a sequence with the contents of a snapshot. A delta needs the sequence `base` that it continues.
    Result<Sequence> restore(Bytes snapshot, const Sequence *base = nullptr) noexcept {
        Status status;
        gleed_seq seq = 0, of_base = base != nullptr ? base->handle() : 0;
        status = gleed_restore(engine_, base != nullptr ? &of_base : nullptr, snapshot.data(), snapshot.size(), &seq,
                               status.details());
        return status ? Result<Sequence>(status, Sequence(engine_, seq)) : Result<Sequence>(status);
    }

    // Opens a sequence with the contents of a snapshot that comes in pieces. source(bytes) writes the next bytes of the
    // snapshot to the start of `bytes` and returns how many; 0 means the end, more than bytes.size() means failure. *info
    // receives the header; `info` points to a struct of make<gleed_snapshot_info>(), or is nullptr.
    template <class Source>
    Result<Sequence> read_snapshot(Source &&source, gleed_snapshot_info *info = nullptr, const Sequence *base = nullptr) {
        using Callable = std::remove_reference_t<Source>;
        Status status;
        gleed_seq seq = 0, of_base = base != nullptr ? base->handle() : 0;
        const gleed_source call = [](void *ctx, std::uint8_t *bytes, std::size_t len) -> std::size_t {
            return callable<Callable>(ctx)(Span<std::uint8_t>(bytes, len));
        };
        status = gleed_snapshot_read(engine_, base != nullptr ? &of_base : nullptr, call, context(source), &seq, info,
                                     status.details());
        return status ? Result<Sequence>(status, Sequence(engine_, seq)) : Result<Sequence>(status);
    }
    // Closes idle sequences, the least recently used first, until `tokens` more tokens fit in `sequence`. Returns how
    // many it closed. consent(handle, info) returns whether a sequence may be closed. Calls on the Sequence object of a
    // closed sequence return GLEED_E_SEQUENCE.
    template <class Consent>
    Result<std::size_t> make_room(const Sequence &sequence, std::size_t tokens, Consent &&consent) {
        using Callable = std::remove_reference_t<Consent>;
        Status status;
        std::size_t closed = 0;
        const gleed_consent call = [](void *ctx, gleed_seq seq, const gleed_seq_info *info) -> std::int32_t {
            return callable<Callable>(ctx)(seq, *info) ? 1 : 0;
        };
        status = gleed_make_room(engine_, sequence.handle(), tokens, call, context(consent), &closed, status.details());
        return Result<std::size_t>(status, closed);
    }

    // Computes queued tokens within a budget. The code is GLEED_READY, GLEED_YIELDED, GLEED_STOPPED, or GLEED_OK if
    // nothing is queued. Compare code(): ok() is true only for the last.
    Status step(const gleed_budget &budget) noexcept {
        Status status;
        status = gleed_step(engine_, &budget, status.details());
        return status;
    }
    // Computes queued tokens for at most `units` units of work; 0: no limit.
    Status step(std::uint64_t units = 0) noexcept {
        auto budget = make<gleed_budget>();
        budget.units = units;
        return step(budget);
    }
    // Returns row `index`, from 0, of the rows that have logits in the last batch.
    Result<Row> result(std::size_t index) const noexcept {
        Status status;
        Row row;
        const float *data = nullptr;
        std::size_t size = 0;
        status = gleed_result(engine_, index, &row.sequence, &row.position, &data, &size, status.details());
        row.logits = Logits(data, size);
        return Result<Row>(status, row);
    }
    // Calls visit(handle, position, logits) for each row that has logits in the last batch.
    template <class Visit>
    void each_result(Visit &&visit) const {
        std::size_t index = 0;
        for (auto row = result(0); row; row = result(++index))
            visit(row.value().sequence, row.value().position, row.value().logits);
    }

    // Returns row `index`, from 0, of the rows that have a hidden state in the last batch. It is valid until the next
    // call that changes the engine; hidden() is such a call.
    Result<HiddenRow> hidden(std::size_t index) noexcept {
        Status status;
        HiddenRow row;
        const float *data = nullptr;
        std::size_t size = 0;
        status = gleed_hidden(engine_, index, &row.sequence, &row.position, &data, &size, status.details());
        row.hidden = Span<const float>(data, size);
        return Result<HiddenRow>(status, row);
    }
    // Loads an adapter for the life of the engine. Returns its number, for Sequence::set_adapter.
    Result<std::uint32_t> load_adapter(const Adapter &adapter) noexcept {
        Status status;
        std::uint32_t number = 0;
        status = gleed_engine_load_adapter(engine_, adapter.get(), &number, status.details());
        return Result<std::uint32_t>(status, number);
    }

    // Sets the policy that chooses which sequence is closed, which cached prefix is evicted and which block is handed out;
    // nullptr: the library chooses.
    Status set_cache_policy(const gleed_cache_policy *policy) noexcept {
        Status status;
        status = gleed_set_cache_policy(engine_, policy, status.details());
        return status;
    }
    // Sets the threads that the engine computes on.
    Status set_executor(const gleed_executor &executor) noexcept {
        Status status;
        status = gleed_set_executor(engine_, &executor, status.details());
        return status;
    }
    // Takes the executor back: only the thread that calls the engine computes.
    Status set_executor(std::nullptr_t) noexcept {
        Status status;
        status = gleed_set_executor(engine_, nullptr, status.details());
        return status;
    }
    // Sets the threads that the engine computes on. loop(n, call) calls call(index) for each index below n, on any
    // threads, and returns when all these calls have returned. `loop` must live until another executor is set, until
    // set_executor(nullptr), or until the engine ends.
    template <class Loop>
    Status run_on(Loop &loop, std::uint32_t slots = 0) noexcept {
        auto executor = make<gleed_executor>();
        executor.slots = slots;
        executor.ctx = context(loop);
        executor.parallel_for = [](void *ctx, std::uint32_t n, gleed_body body, void *arg) {
            callable<Loop>(ctx)(n, [body, arg](std::uint32_t index) { body(arg, index); });
        };
        return set_executor(executor);
    }

    // Pins the cached prefix of a prompt. Returns the number of tokens in that prefix.
    Result<std::size_t> pin(Tokens prompt) noexcept {
        Status status;
        std::size_t count = 0;
        status = gleed_pin(engine_, prompt.data(), prompt.size(), &count, status.details());
        return Result<std::size_t>(status, count);
    }
    // Removes one pin from each pinned block of a prompt. Returns the number of tokens in these blocks.
    Result<std::size_t> unpin(Tokens prompt) noexcept {
        Status status;
        std::size_t count = 0;
        status = gleed_unpin(engine_, prompt.data(), prompt.size(), &count, status.details());
        return Result<std::size_t>(status, count);
    }
    // Lends a clock to the metrics: clock() returns ticks. `clock` must live until another one is set, until
    // measure_by(nullptr), or until the engine ends.
    template <class Clock>
    Status measure_by(Clock &clock) noexcept {
        Status status;
        const auto ticks = [](void *ctx) -> std::uint64_t { return callable<Clock>(ctx)(); };
        status = gleed_set_clock(engine_, ticks, context(clock), status.details());
        return status;
    }
    // Takes the clock back.
    Status measure_by(std::nullptr_t) noexcept {
        Status status;
        status = gleed_set_clock(engine_, nullptr, nullptr, status.details());
        return status;
    }
    // Returns what the engine has done since its start or since reset_metrics().
    Result<gleed_metrics> metrics() const noexcept {
        Status status;
        auto metrics = make<gleed_metrics>();
        status = gleed_engine_metrics(engine_, &metrics, status.details());
        return Result<gleed_metrics>(status, metrics);
    }
    Status reset_metrics() noexcept {
        Status status;
        status = gleed_engine_reset_metrics(engine_, status.details());
        return status;
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
    Pointer<gleed_engine> engine_;
};

// Returns the header of a snapshot. The bytes after the header may be missing.
inline Result<gleed_snapshot_info> snapshot_info(Bytes snapshot) noexcept {
    Status status;
    auto info = make<gleed_snapshot_info>();
    status = gleed_snapshot_describe(snapshot.data(), snapshot.size(), &info, status.details());
    return Result<gleed_snapshot_info>(status, info);
}

// A sampler: chooses tokens.
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
        status = gleed_sampler_init(&params, memory.data(), memory.size(), sampler.sampler_.out(), status.details());
        sampler.memory_ = std::move(memory);
        return Result<Sampler>(status, std::move(sampler));
    }

    // Chooses a token. `scratch` has as many elements as `logits`.
    Result<std::uint32_t> sample(Logits logits, Span<std::uint64_t> scratch) noexcept {
        Status status;
        std::uint32_t token = 0;
        status = gleed_sample(sampler_, logits.data(), logits.size(), scratch.data(), scratch.size(), &token, nullptr,
                              status.details());
        return Result<std::uint32_t>(status, token);
    }
    // Adds a token to the text that the penalties count.
    Status accept(std::uint32_t token) noexcept {
        Status status;
        status = gleed_sampler_accept(sampler_, token, status.details());
        return status;
    }
    // Replaces all biases by at most 64 others. bias_text adds biases for a text.
    Status set_biases(Span<const gleed_bias> biases) noexcept {
        Status status;
        status = gleed_sampler_set_biases(sampler_, biases.data(), biases.size(), status.details());
        return status;
    }
    // Returns the state of the random generator. To continue with the same choices, start a sampler with the same
    // params and biases, accept the last tokens again, and set this state.
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
    Pointer<gleed_sampler> sampler_;
};

// Returns the token with the largest logit; among equal logits, the lowest id.
inline Result<std::uint32_t> argmax(Logits logits) noexcept {
    Status status;
    std::uint32_t token = 0;
    status = gleed_argmax(logits.data(), logits.size(), &token, status.details());
    return Result<std::uint32_t>(status, token);
}

// A tokenizer: encodes text as tokens. The bytes of the model's file must outlive it.
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
        status = gleed_tokenizer_init(model.get(), memory.data(), memory.size(), tokenizer.tokenizer_.out(), status.details());
        tokenizer.memory_ = std::move(memory);
        return Result<Tokenizer>(status, std::move(tokenizer));
    }

    // Encodes a text to `out`. Returns the number of tokens.
    Result<std::size_t> encode(Span<const char> text, std::uint32_t flags, Span<std::uint32_t> scratch,
                               Span<std::uint32_t> out) const noexcept {
        Status status;
        std::size_t count = 0;
        status = gleed_encode(tokenizer_, text.data(), text.size(), flags, scratch.data(), scratch.size(), out.data(),
                              out.size(), &count, status.details());
        return Result<std::size_t>(status, count);
    }
    // Returns how many bytes of a text the vocabulary cannot spell.
    Result<std::size_t> unspelled(Span<const char> text, std::uint32_t flags, Span<std::uint32_t> scratch) const noexcept {
        Status status;
        std::size_t bytes = 0;
        status = gleed_unspelled(tokenizer_, text.data(), text.size(), flags, scratch.data(), scratch.size(), &bytes,
                                 status.details());
        return Result<std::size_t>(status, bytes);
    }
    Result<gleed_vocab_info> info() const noexcept {
        Status status;
        auto info = make<gleed_vocab_info>();
        status = gleed_tokenizer_describe(tokenizer_, &info, status.details());
        return Result<gleed_vocab_info>(status, info);
    }
    // Returns the id of the token with exactly this text in the file; GLEED_NO_TOKEN if no token has it.
    Result<std::uint32_t> find(Span<const char> text) const noexcept {
        Status status;
        std::uint32_t token = GLEED_NO_TOKEN;
        status = gleed_vocab_find(tokenizer_, text.data(), text.size(), &token, status.details());
        return Result<std::uint32_t>(status, token);
    }
    // Returns whether a token ends a generation.
    Result<bool> is_end(std::uint32_t token) const noexcept {
        Status status;
        std::uint32_t kind = 0, end = 0;
        status = gleed_token_kind(tokenizer_, token, &kind, &end, status.details());
        return Result<bool>(status, end != 0);
    }
    const gleed_tokenizer *get() const noexcept { return tokenizer_; }

private:
    Memory memory_;
    Pointer<const gleed_tokenizer> tokenizer_;
};

// Adds biases for the tokens that spell a text to a sampler. Returns how many biases were added.
inline Result<std::size_t> bias_text(Sampler &sampler, const Tokenizer &tokenizer, Span<const char> text, float bias,
                                     Span<std::uint32_t> scratch) noexcept {
    Status status;
    std::size_t count = 0;
    status = gleed_sampler_bias_text(sampler.get(), tokenizer.get(), text.data(), text.size(), bias, scratch.data(),
                                     scratch.size(), &count, status.details());
    return Result<std::size_t>(status, count);
}

// A detokenizer: turns a stream of tokens into text. The tokenizer must outlive it.
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
        status = gleed_detokenizer_init(tokenizer.get(), flags, memory.data(), memory.size(), detokenizer.detokenizer_.out(),
                                        status.details());
        detokenizer.memory_ = std::move(memory);
        return Result<Detokenizer>(status, std::move(detokenizer));
    }

    // Writes the text that a token completes to `out`, and returns that part of `out`.
    Result<Span<const char>> push(std::uint32_t token, Span<char> out) noexcept {
        Status status;
        std::size_t written = 0;
        status = gleed_detokenize(detokenizer_, tokenizer_, token, out.data(), out.size(), &written, status.details());
        return Result<Span<const char>>(status, Span<const char>(out.data(), written));
    }
    // Ends the stream. Writes U+FFFD to `out` if the stream ended within a character, and returns that part of `out`.
    Result<Span<const char>> finish(Span<char> out) noexcept {
        Status status;
        std::size_t written = 0;
        status = gleed_detokenizer_finish(detokenizer_, out.data(), out.size(), &written, status.details());
        return Result<Span<const char>>(status, Span<const char>(out.data(), written));
    }

private:
    Memory memory_;
    Pointer<const gleed_tokenizer> tokenizer_;
    Pointer<gleed_detokenizer> detokenizer_;
};

// Returns a message of a conversation. It does not copy the text.
inline gleed_message message(std::uint32_t role, Kept<const char> text) noexcept {
    return gleed_message{role, 0, text.data(), text.size()};
}

// A turn format, or none: then it converts to false. It owns nothing and can be copied.
class Turns {
public:
    Turns() noexcept = default;
    explicit Turns(std::uint32_t format) noexcept : format_(format) {}

    // Returns the turn format of a model's file.
    static Result<Turns> find(const Model &model, const Tokenizer &tokenizer) noexcept {
        Status status;
        std::uint32_t format = GLEED_NO_TURNS;
        status = gleed_turns_find(model.get(), tokenizer.get(), &format, status.details());
        return Result<Turns>(status, Turns(format));
    }
    // Returns the turn format with this name.
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
    // Encodes messages to `out`. `after` is what the sequence ends with: a role, GLEED_AFTER_REPLY or
    // GLEED_AFTER_NOTHING. Returns the number of tokens.
    Result<std::size_t> encode(const Tokenizer &tokenizer, std::uint32_t after, Span<const gleed_message> messages,
                               std::uint32_t flags, Span<std::uint32_t> scratch, Span<std::uint32_t> out) const noexcept {
        Status status;
        std::size_t count = 0;
        status = gleed_turns_encode(tokenizer.get(), format_, after, messages.data(), messages.size(), flags,
                                    scratch.data(), scratch.size(), out.data(), out.size(), &count, status.details());
        return Result<std::size_t>(status, count);
    }
    // Returns whether a token ends the model's turn.
    Result<bool> is_stop(const Tokenizer &tokenizer, std::uint32_t token) const noexcept {
        Status status;
        std::uint32_t stop = 0;
        status = gleed_turns_is_stop(tokenizer.get(), format_, token, &stop, status.details());
        return Result<bool>(status, stop != 0);
    }

private:
    std::uint32_t format_ = GLEED_NO_TURNS;
};

// Returns an entry of a conversation: a message. It does not copy the text.
inline gleed_entry entry(std::uint32_t role, Kept<const char> text) noexcept {
    return gleed_entry{role, 0, text.data(), text.size(), nullptr, 0, nullptr, 0};
}

// Memory in which conversations are written. Several conversations can share one.
class Desk {
public:
    Desk() noexcept = default;

    static Result<Desk> start(const Tokenizer &tokenizer, const gleed_desk_limits *limits = nullptr) noexcept {
        std::size_t size = 0, align = 1;
        Status status;
        status = gleed_desk_plan(tokenizer.get(), &size, &align, limits, status.details());
        if (!status) return Result<Desk>(status);
        return start(tokenizer, Memory::allocate(size, align), limits);
    }
    static Result<Desk> start(const Tokenizer &tokenizer, Memory memory,
                              const gleed_desk_limits *limits = nullptr) noexcept {
        Status status;
        Desk desk;
        status = gleed_desk_init(tokenizer.get(), limits, memory.data(), memory.size(), desk.desk_.out(), status.details());
        desk.memory_ = std::move(memory);
        return Result<Desk>(status, std::move(desk));
    }
    gleed_desk *get() noexcept { return desk_; }

private:
    Memory memory_;
    Pointer<gleed_desk> desk_;
};

// Guesses of a sequence's next tokens, which change no bit of its text. The sequence must outlive them.
class Guesses {
public:
    Guesses() noexcept = default;

    // Starts guesses, at most `most` at a time. Nearly all repetitions of a text of `places` tokens are found.
    static Result<Guesses> start(const Engine &engine, const Sequence &sequence, std::uint32_t most,
                                 std::uint32_t places) noexcept {
        std::size_t size = 0, align = 1;
        Status status;
        status = gleed_guesses_plan(most, places, &size, &align, status.details());
        if (!status) return Result<Guesses>(status);
        return start(engine, sequence, most, places, Memory::allocate(size, align));
    }
    static Result<Guesses> start(const Engine &engine, const Sequence &sequence, std::uint32_t most, std::uint32_t places,
                                 Memory memory) noexcept {
        Status status;
        Guesses guesses;
        status = gleed_guesses_init(engine.get(), sequence.handle(), most, places, memory.data(), memory.size(),
                                    guesses.guesses_.out(), status.details());
        guesses.memory_ = std::move(memory);
        return Result<Guesses>(status, std::move(guesses));
    }
    // Queues a token that was chosen, and guesses behind it: first the host's own ones, `ids`. Returns how many guesses there are.
    Result<std::size_t> queue(Engine &engine, std::uint32_t token, Span<const std::uint32_t> ids = {}) noexcept {
        Status status;
        std::size_t guessed = 0;
        status = gleed_guesses_queue(guesses_, engine.get(), token, ids.data(), ids.size(), &guessed, status.details());
        return Result<std::size_t>(status, guessed);
    }
    // Returns the logits from which the next token is to be chosen.
    Result<Logits> logits(const Engine &engine) const noexcept {
        Status status;
        const float *logits = nullptr;
        std::size_t len = 0;
        status = gleed_guesses_logits(guesses_, engine.get(), &logits, &len, status.details());
        return Result<Logits>(status, Logits(logits, len));
    }
    // Takes the token that was chosen from these logits.
    Status take(const Engine &engine, std::uint32_t token) noexcept {
        Status status;
        status = gleed_guesses_take(guesses_, engine.get(), token, status.details());
        return status;
    }
    // Takes back the guesses that were not chosen. `ticks` is the time of the batch by the program's clock; 0: not measured.
    Status end(Engine &engine, std::uint64_t ticks = 0) noexcept {
        Status status;
        status = gleed_guesses_end(guesses_, engine.get(), ticks, status.details());
        return status;
    }
    // Lets an engine of Model::predictor guess, too. Returns the handle of its sequence, which is for these guesses alone.
    Result<gleed_seq> with_layer(Engine &layer) noexcept {
        Status status;
        gleed_seq seq = 0;
        status = gleed_guesses_layer(guesses_, layer.get(), &seq, status.details());
        return Result<gleed_seq>(status, seq);
    }
    // Appends tokens, which the layer reads, too. Returns the logits of the last one.
    Result<Logits> prefill(Engine &engine, Engine &layer, Tokens tokens) noexcept {
        Status status;
        const float *logits = nullptr;
        std::size_t len = 0;
        status = gleed_guesses_prefill(guesses_, engine.get(), layer.get(), tokens.data(), tokens.size(), &logits, &len,
                                       status.details());
        return Result<Logits>(status, Logits(logits, len));
    }
    // Lets the layer read the last batch of `engine`. Needed only if the engine computes other sequences between these calls.
    Status see(Engine &engine, Engine &layer) noexcept {
        Status status;
        status = gleed_guesses_see(guesses_, engine.get(), layer.get(), status.details());
        return status;
    }
    // Queues a token that was chosen, and behind it `ids`, or, if there are none, the guesses of the layer. Returns how many guesses
    // there are. GLEED_YIELDED: the budget has ended, and the same call goes on.
    Result<std::size_t> queue(Engine &engine, Engine &layer, std::uint32_t token, Tokens ids = {},
                              const gleed_budget *budget = nullptr) noexcept {
        Status status;
        std::size_t guessed = 0;
        status = gleed_guesses_queue_layer(guesses_, engine.get(), layer.get(), token, ids.data(), ids.size(), budget, &guessed,
                                           status.details());
        return Result<std::size_t>(status, guessed);
    }
    gleed_guesses *get() noexcept { return guesses_; }

private:
    Memory memory_;
    Pointer<gleed_guesses> guesses_;
};

// A conversation: says which tokens of a list of messages the model has not read yet. It owns its sequence. The engine must
// outlive it.
class Conversation {
public:
    Conversation() noexcept = default;
    Conversation(Conversation &&other) noexcept = default;
    // Closes the sequence that was there, then frees the memory of the conversation that was there.
    Conversation &operator=(Conversation &&other) noexcept {
        sequence_ = std::move(other.sequence_);
        conversation_ = std::move(other.conversation_);
        memory_ = std::move(other.memory_);
        return *this;
    }

    // Starts a conversation in an open sequence, which the conversation owns from now on: if this fails, the sequence is closed.
    static Result<Conversation> start(Engine &engine, Sequence sequence,
                                      const gleed_conversation_limits *limits = nullptr) noexcept {
        std::size_t size = 0, align = 1;
        Status status;
        status = gleed_conversation_plan(engine.get(), &size, &align, limits, status.details());
        if (!status) return Result<Conversation>(status);
        return start(engine, std::move(sequence), Memory::allocate(size, align), limits);
    }
    static Result<Conversation> start(Engine &engine, Sequence sequence, Memory memory,
                                      const gleed_conversation_limits *limits = nullptr) noexcept {
        Status status;
        Conversation talk;
        status = gleed_conversation_init(engine.get(), sequence.handle(), limits, memory.data(), memory.size(), talk.conversation_.out(),
                                         status.details());
        if (!status) return Result<Conversation>(status);
        talk.memory_ = std::move(memory);
        talk.sequence_ = std::move(sequence);
        return Result<Conversation>(status, std::move(talk));
    }
    // Goes on where a saved conversation was, in a new sequence.
    static Result<Conversation> load(Engine &engine, Bytes bytes,
                                     const gleed_conversation_limits *limits = nullptr) noexcept {
        std::size_t size = 0, align = 1;
        Status status;
        Conversation talk;
        status = gleed_conversation_plan(engine.get(), &size, &align, limits, status.details());
        if (!status) return Result<Conversation>(status);
        talk.memory_ = Memory::allocate(size, align);
        status = gleed_conversation_load(engine.get(), bytes.data(), bytes.size(), limits, talk.memory_.data(),
                                         talk.memory_.size(), talk.conversation_.out(), status.details());
        if (status) status = talk.own(engine);
        return Result<Conversation>(status, std::move(talk));
    }
    // Writes the entries of a saved conversation to `out`. Returns how many there are. Their texts lie in `bytes`.
    static Result<std::size_t> saved_entries(Kept<const std::uint8_t> bytes, Span<gleed_entry> out) noexcept {
        Status status;
        std::size_t count = 0;
        status = gleed_conversation_saved_entries(bytes.data(), bytes.size(), out.data(), out.size(), &count,
                                                  status.details());
        return Result<std::size_t>(status, count);
    }

    // Returns the sequence. The program appends tokens to it. Only the conversation may rewind it.
    Sequence &sequence() noexcept { return sequence_; }
    // Returns the tokens that the model has not read yet. They lie in the desk and are valid until the desk is used again.
    Result<gleed_update> update(Engine &engine, const Tokenizer &tokenizer, Desk &desk, Span<const gleed_entry> entries,
                                const gleed_script &script, const gleed_keep *keep = nullptr) noexcept {
        Status status;
        auto update = make<gleed_update>();
        status = gleed_conversation_update(conversation_, engine.get(), tokenizer.get(), desk.get(), entries.data(),
                                           entries.size(), &script, keep, &update, status.details());
        return Result<gleed_update>(status, update);
    }
    // Opens a second conversation that begins like this one, in a sequence of its own.
    Result<Conversation> fork(Engine &engine) const noexcept {
        return fork(engine, Memory::allocate(memory_.size(), 64));
    }
    Result<Conversation> fork(Engine &engine, Memory memory) const noexcept {
        Status status;
        Conversation copy;
        status = gleed_conversation_fork(conversation_, engine.get(), memory.data(), memory.size(), copy.conversation_.out(),
                                         status.details());
        copy.memory_ = std::move(memory);
        if (status) status = copy.own(engine);
        return Result<Conversation>(status, std::move(copy));
    }
    Result<std::size_t> saved_size(Engine &engine, Desk &desk, Span<const gleed_entry> entries) const noexcept {
        Status status;
        std::size_t size = 0;
        status = gleed_conversation_saved_size(conversation_, engine.get(), desk.get(), entries.data(), entries.size(),
                                               &size, status.details());
        return Result<std::size_t>(status, size);
    }
    Result<std::size_t> save(Engine &engine, Desk &desk, Span<const gleed_entry> entries,
                             Span<std::uint8_t> bytes) const noexcept {
        Status status;
        std::size_t written = 0;
        status = gleed_conversation_save(conversation_, engine.get(), desk.get(), entries.data(), entries.size(),
                                         bytes.data(), bytes.size(), &written, status.details());
        return Result<std::size_t>(status, written);
    }
    gleed_conversation *get() noexcept { return conversation_; }

private:
    Status own(Engine &engine) noexcept {
        Status status;
        gleed_seq seq = 0;
        status = gleed_conversation_seq(conversation_, &seq, status.details());
        if (status) sequence_ = Sequence(engine.get(), seq);
        return status;
    }

    Memory memory_;
    Pointer<gleed_conversation> conversation_;
    Sequence sequence_;
};

#ifndef GLEED_NO_GRAMMAR

class GrammarBuild;

// Words of 4 bytes in which a grammar or a trie is made.
class Scratch {
public:
    Scratch() noexcept = default;
    // Allocates `words` words. If that fails, the scratch is empty.
    explicit Scratch(std::uint64_t words) noexcept {
        if (words <= SIZE_MAX / sizeof(std::uint32_t))
            memory_ = Memory::allocate(static_cast<std::size_t>(words) * sizeof(std::uint32_t), alignof(std::uint32_t));
    }
    std::uint32_t *data() const noexcept { return static_cast<std::uint32_t *>(memory_.data()); }
    std::size_t size() const noexcept { return memory_.size() / sizeof(std::uint32_t); }

private:
    Memory memory_;
};

// Gives a build the memory of its result, whose size is known now. Returns GLEED_YIELDED, because the build goes on, or an error.
template <class Build, class Plan, class Place>
Status place(const Pointer<Build> &build, Memory &memory, Plan plan, Place place) noexcept {
    std::size_t size = 0, align = 1;
    Status status;
    status = plan(build, &size, &align, status.details());
    if (!status) return status;
    memory = Memory::allocate(size, align);
    status = place(build, memory.data(), memory.size(), status.details());
    if (status) status = GLEED_YIELDED;
    return status;
}

// A compiled grammar: a JSON Schema, GBNF or a regular expression. It must outlive its matchers.
class Grammar {
public:
    Grammar() noexcept = default;

    // Compiles a grammar. As much scratch as is needed is allocated with operator new.
    static Result<Grammar> compile(Span<const char> text, const gleed_grammar_options &options) noexcept {
        std::size_t size = 0, align = 1;
        Scratch scratch;
        Status status;
        for (;;) {
            status = gleed_grammar_plan(text.data(), text.size(), scratch.data(), scratch.size(), &size, &align, &options,
                                        status.details());
            if (status.code() != GLEED_E_SCRATCH_TOO_SMALL) break;
            scratch = Scratch(status.error().needed);
            if (scratch.data() == nullptr) break;
        }
        if (!status) return Result<Grammar>(status);
        Grammar grammar;
        grammar.memory_ = Memory::allocate(size, align);
        status = gleed_grammar_init(text.data(), text.size(), scratch.data(), scratch.size(), &options, grammar.memory_.data(),
                                    grammar.memory_.size(), grammar.grammar_.out(), status.details());
        return Result<Grammar>(status, std::move(grammar));
    }
    const gleed_grammar *get() const noexcept { return grammar_; }

private:
    friend class GrammarBuild;
    Memory memory_;
    Pointer<const gleed_grammar> grammar_;
};

// A grammar in the making, in units of work. The text, the texts of the options and the tokenizer of the options must stay where
// they are until the grammar is finished, because the build may begin again. The finished grammar needs none of them.
class GrammarBuild {
public:
    GrammarBuild() noexcept = default;

    static Result<GrammarBuild> begin(Kept<const char> text, const gleed_grammar_options &options) noexcept {
        std::size_t size = 0, align = 1;
        Status status;
        status = gleed_grammar_build_size(&size, &align, status.details());
        if (!status) return Result<GrammarBuild>(status);
        GrammarBuild build;
        build.text_ = text;
        build.options_ = options;
        build.room_ = Memory::allocate(size, align);
        status = build.restart(Scratch((std::uint64_t(1) << 18) + std::uint64_t(64) * text.size()));
        return Result<GrammarBuild>(status, std::move(build));
    }
    // Goes on for `units` units of work. Returns GLEED_OK when the grammar is finished, GLEED_YIELDED before. If the scratch is too
    // small, the build begins again with more. If more cannot be allocated, this and all later calls return GLEED_E_SCRATCH_TOO_SMALL.
    Status step(std::uint64_t units) noexcept {
        Status status;
        status = gleed_grammar_build_step(build_, units, status.details());
        if (status.code() == GLEED_E_SCRATCH_TOO_SMALL && !is_short_) {
            Scratch more(status.error().needed);
            is_short_ = more.data() == nullptr;
            if (is_short_) return status;
            status = restart(std::move(more));
            if (status) status = GLEED_YIELDED;
            return status;
        }
        if (status.code() != GLEED_OK || memory_.data() != nullptr) return status;
        return place(build_, memory_, gleed_grammar_build_plan, gleed_grammar_build_place);
    }
    // Returns the finished grammar, once.
    Result<Grammar> finish() noexcept {
        Status status;
        Grammar grammar;
        status = gleed_grammar_build_finish(build_, grammar.grammar_.out(), status.details());
        if (status) grammar.memory_ = std::move(memory_);
        return Result<Grammar>(status, std::move(grammar));
    }

private:
    // Begins the build again in the same memory. If that fails, the build is as before.
    Status restart(Scratch scratch) noexcept {
        Status status;
        status = gleed_grammar_build_init(text_.data(), text_.size(), scratch.data(), scratch.size(), &options_,
                                          room_.data(), room_.size(), build_.out(), status.details());
        if (status) scratch_ = std::move(scratch);
        return status;
    }
    Span<const char> text_;
    gleed_grammar_options options_ = {};
    Scratch scratch_;
    Memory room_, memory_;
    Pointer<gleed_grammar_build> build_;
    bool is_short_ = false;
};

// The tokens of a vocabulary by their bytes. One serves all grammars.
class TokenTrie {
public:
    TokenTrie() noexcept = default;

    static Result<TokenTrie> make(const Tokenizer &tokenizer) noexcept {
        std::size_t size = 0, align = 1;
        Status status;
        status = gleed_trie_plan(tokenizer.get(), nullptr, 0, &size, &align, status.details());
        if (status.code() != GLEED_E_SCRATCH_TOO_SMALL) return Result<TokenTrie>(status);
        const Scratch scratch(status.error().needed);
        status = gleed_trie_plan(tokenizer.get(), scratch.data(), scratch.size(), &size, &align, status.details());
        if (!status) return Result<TokenTrie>(status);
        TokenTrie trie;
        trie.memory_ = Memory::allocate(size, align);
        status = gleed_trie_init(tokenizer.get(), scratch.data(), scratch.size(), trie.memory_.data(), trie.memory_.size(),
                                 trie.trie_.out(), status.details());
        return Result<TokenTrie>(status, std::move(trie));
    }
    // Returns the number of elements of a mask.
    Result<std::size_t> mask_len() const noexcept {
        Status status;
        std::size_t len = 0;
        status = gleed_trie_mask_len(trie_, &len, status.details());
        return Result<std::size_t>(status, len);
    }
    const gleed_trie *get() const noexcept { return trie_; }

private:
    friend class TokenTrieBuild;

    Memory memory_;
    Pointer<const gleed_trie> trie_;
};

// The state of one text under a grammar.
class Matcher {
public:
    Matcher() noexcept = default;

    static Result<Matcher> start(const Grammar &grammar, const gleed_matcher_limits *limits = nullptr) noexcept {
        std::size_t size = 0, align = 1;
        Status status;
        status = gleed_matcher_plan(&size, &align, limits, status.details());
        if (!status) return Result<Matcher>(status);
        return start(grammar, Memory::allocate(size, align), limits);
    }
    static Result<Matcher> start(const Grammar &grammar, Memory memory,
                                 const gleed_matcher_limits *limits = nullptr) noexcept {
        Status status;
        Matcher matcher;
        status = gleed_matcher_init(grammar.get(), limits, memory.data(), memory.size(), matcher.matcher_.out(),
                                    status.details());
        matcher.memory_ = std::move(memory);
        return Result<Matcher>(status, std::move(matcher));
    }

    // Copies the matcher.
    Result<Matcher> fork() const noexcept { return fork(Memory::allocate(memory_.size(), 64)); }
    Result<Matcher> fork(Memory memory) const noexcept {
        Status status;
        Matcher copy;
        status = gleed_matcher_fork(matcher_, memory.data(), memory.size(), copy.matcher_.out(), status.details());
        copy.memory_ = std::move(memory);
        return Result<Matcher>(status, std::move(copy));
    }
    // Goes back to the empty text.
    Status reset() noexcept {
        Status status;
        status = gleed_matcher_reset(matcher_, status.details());
        return status;
    }
    // Takes a token. Returns whether the grammar allows it; if not, nothing changes.
    Result<bool> accept(const Tokenizer &tokenizer, std::uint32_t token) noexcept {
        Status status;
        std::uint32_t accepted = 0;
        status = gleed_matcher_accept(matcher_, tokenizer.get(), token, &accepted, status.details());
        return Result<bool>(status, accepted != 0);
    }
    // Takes the longest beginning of a text that the grammar allows. Returns its length in bytes.
    Result<std::size_t> accept(Span<const char> text) noexcept {
        Status status;
        std::size_t taken = 0;
        status = gleed_matcher_accept_text(matcher_, text.data(), text.size(), &taken, status.details());
        return Result<std::size_t>(status, taken);
    }
    // Goes on with the mask of the tokens that may follow, with the tokens that end the text where it may end. Returns
    // GLEED_OK or GLEED_YIELDED. 0 units: goes on until the mask is finished.
    Status mask(const TokenTrie &trie, Span<std::uint32_t> mask, std::uint64_t units = 0,
                std::uint32_t flags = GLEED_MASK_ENDS) noexcept {
        Status status;
        status = gleed_matcher_mask(matcher_, trie.get(), units, flags, mask.data(), mask.size(), status.details());
        return status;
    }
    // Does what mask does for a text that is to end within `within` tokens. Its grammar was compiled with
    // GLEED_GRAMMAR_CLOSE.
    Status mask_within(const TokenTrie &trie, std::uint64_t within, Span<std::uint32_t> mask, std::uint64_t units = 0,
                       std::uint32_t flags = GLEED_MASK_ENDS) noexcept {
        Status status;
        status = gleed_matcher_mask_within(matcher_, trie.get(), within, units, flags, mask.data(), mask.size(),
                                           status.details());
        return status;
    }
    Result<bool> is_end() const noexcept {
        Status status;
        std::uint32_t end = 0;
        status = gleed_matcher_is_end(matcher_, &end, status.details());
        return Result<bool>(status, end != 0);
    }
    // Returns whether the text is free: then no mask is needed, unless `accept` refuses a token.
    Result<bool> is_free() const noexcept {
        Status status;
        std::uint32_t free = 0;
        status = gleed_matcher_is_free(matcher_, &free, status.details());
        return Result<bool>(status, free != 0);
    }
    // Returns a number of bytes that suffices to bring the text to an end. Its grammar was compiled with GLEED_GRAMMAR_CLOSE.
    Result<std::size_t> bytes_to_end() noexcept {
        Status status;
        std::size_t bytes = 0;
        status = gleed_matcher_bytes_to_end(matcher_, &bytes, status.details());
        return Result<std::size_t>(status, bytes);
    }
    // Writes the bytes that have to follow. Returns how many there are.
    Result<std::size_t> forced(Span<char> text) noexcept {
        Status status;
        std::size_t written = 0;
        status = gleed_matcher_forced(matcher_, text.data(), text.size(), &written, status.details());
        return Result<std::size_t>(status, written);
    }
    // Writes the tokens that have to follow. Returns how many there are.
    Result<std::size_t> forced(const Tokenizer &tokenizer, const TokenTrie &trie, Span<std::uint32_t> scratch,
                               Span<std::uint32_t> tokens) noexcept {
        Status status;
        std::size_t count = 0;
        status = gleed_matcher_forced_tokens(matcher_, tokenizer.get(), trie.get(), scratch.data(), scratch.size(),
                                             tokens.data(), tokens.size(), &count, status.details());
        return Result<std::size_t>(status, count);
    }
    // Returns how many of the last accepted tokens can be taken back.
    Result<std::size_t> rewindable() const noexcept {
        Status status;
        std::size_t tokens = 0;
        status = gleed_matcher_rewindable(matcher_, &tokens, status.details());
        return Result<std::size_t>(status, tokens);
    }
    Status rewind(std::size_t tokens) noexcept {
        Status status;
        status = gleed_matcher_rewind(matcher_, tokens, status.details());
        return status;
    }
    Result<std::size_t> snapshot_size() const noexcept {
        Status status;
        std::size_t size = 0;
        status = gleed_matcher_snapshot_size(matcher_, &size, status.details());
        return Result<std::size_t>(status, size);
    }
    Result<std::size_t> snapshot(Span<std::uint8_t> bytes) const noexcept {
        Status status;
        std::size_t written = 0;
        status = gleed_matcher_snapshot(matcher_, bytes.data(), bytes.size(), &written, status.details());
        return Result<std::size_t>(status, written);
    }
    Status restore(Bytes bytes) noexcept {
        Status status;
        status = gleed_matcher_restore(matcher_, bytes.data(), bytes.size(), status.details());
        return status;
    }
    gleed_matcher *get() noexcept { return matcher_; }

private:
    Memory memory_;
    Pointer<gleed_matcher> matcher_;
};

// Chooses a token among those that a mask allows.
inline Result<std::uint32_t> sample_masked(Sampler &sampler, Logits logits, Span<const std::uint32_t> mask,
                                           Span<std::uint64_t> scratch) noexcept {
    Status status;
    std::uint32_t token = 0;
    status = gleed_sample_masked(sampler.get(), logits.data(), logits.size(), mask.data(), mask.size(), scratch.data(),
                                 scratch.size(), &token, nullptr, status.details());
    return Result<std::uint32_t>(status, token);
}

// A trie in the making, in units of work. The tokenizer must stay where it is until the trie is finished.
class TokenTrieBuild {
public:
    TokenTrieBuild() noexcept = default;

    static Result<TokenTrieBuild> begin(const Tokenizer &tokenizer) noexcept {
        std::size_t size = 0, align = 1;
        Status status;
        status = gleed_trie_plan(tokenizer.get(), nullptr, 0, &size, &align, status.details());
        if (status.code() != GLEED_E_SCRATCH_TOO_SMALL) return Result<TokenTrieBuild>(status);
        TokenTrieBuild build;
        build.scratch_ = Scratch(status.error().needed);
        status = gleed_trie_build_size(&size, &align, status.details());
        if (!status) return Result<TokenTrieBuild>(status);
        build.room_ = Memory::allocate(size, align);
        status = gleed_trie_build_init(tokenizer.get(), build.scratch_.data(), build.scratch_.size(), build.room_.data(),
                                       build.room_.size(), build.build_.out(), status.details());
        return Result<TokenTrieBuild>(status, std::move(build));
    }
    // Goes on for `units` units of work. Returns GLEED_OK when the trie is finished, GLEED_YIELDED before.
    Status step(std::uint64_t units) noexcept {
        Status status;
        status = gleed_trie_build_step(build_, units, status.details());
        if (status.code() != GLEED_OK || memory_.data() != nullptr) return status;
        return place(build_, memory_, gleed_trie_build_plan, gleed_trie_build_place);
    }
    // Returns the finished trie, once.
    Result<TokenTrie> finish() noexcept {
        Status status;
        TokenTrie trie;
        status = gleed_trie_build_finish(build_, trie.trie_.out(), status.details());
        if (status) trie.memory_ = std::move(memory_);
        return Result<TokenTrie>(status, std::move(trie));
    }

private:
    Scratch scratch_;
    Memory room_, memory_;
    Pointer<gleed_trie_build> build_;
};

// A sequence that writes a text under a grammar, and its matcher, which stay together. The sequence and the grammar must
// outlive it.
class Writing {
public:
    Writing() noexcept = default;

    // Starts an empty text behind the tokens of a sequence.
    static Result<Writing> start(const Engine &engine, const Sequence &sequence, const Grammar &grammar,
                                 const gleed_matcher_limits *limits = nullptr) noexcept {
        Status status;
        Writing writing;
        writing.memory_ = room(limits, status);
        if (!status) return Result<Writing>(status);
        status = gleed_writing_init(engine.get(), sequence.handle(), grammar.get(), limits, writing.memory_.data(),
                                    writing.memory_.size(), writing.writing_.out(), status.details());
        return Result<Writing>(status, std::move(writing));
    }
    // Goes on with the text of a restored sequence, from the state that was saved with it.
    static Result<Writing> resume(const Engine &engine, const Tokenizer &tokenizer, const Sequence &sequence,
                                  const Grammar &grammar, Bytes state,
                                  const gleed_matcher_limits *limits = nullptr) noexcept {
        Status status;
        Writing writing;
        writing.memory_ = room(limits, status);
        if (!status) return Result<Writing>(status);
        status = gleed_writing_resume(engine.get(), tokenizer.get(), sequence.handle(), grammar.get(), state.data(),
                                      state.size(), limits, writing.memory_.data(), writing.memory_.size(),
                                      writing.writing_.out(), status.details());
        return Result<Writing>(status, std::move(writing));
    }
    // Opens a sequence that starts with the first `keep` tokens of this writing's sequence. Returns a writing that has their text.
    // *sequence receives the new sequence.
    Result<Writing> fork(Engine &engine, const Tokenizer &tokenizer, std::size_t keep, Sequence *sequence) noexcept {
        Status status;
        auto info = make<gleed_writing_info>();
        // Only the description of the copy has the handle of its sequence. If the library refuses descriptions, it does so here,
        // before a sequence is opened.
        status = gleed_writing_describe(writing_, &info, status.details());
        if (!status) return Result<Writing>(status);
        Writing copy;
        copy.memory_ = Memory::allocate(memory_.size(), 64);
        status = gleed_writing_fork(writing_, engine.get(), tokenizer.get(), keep, copy.memory_.data(),
                                    copy.memory_.size(), copy.writing_.out(), status.details());
        if (!status) return Result<Writing>(status);
        status = gleed_writing_describe(copy.writing_, &info, status.details());
        if (!status) return Result<Writing>(status);
        *sequence = Sequence(engine.get(), info.seq);
        return Result<Writing>(status, std::move(copy));
    }
    // Keeps only the first `keep` tokens of the sequence, and the text of these tokens.
    Status rewind(Engine &engine, const Tokenizer &tokenizer, std::size_t keep) noexcept {
        Status status;
        status = gleed_writing_rewind(writing_, engine.get(), tokenizer.get(), keep, status.details());
        return status;
    }
    // Brings the text to the length of the sequence.
    Status follow(const Engine &engine, const Tokenizer &tokenizer) noexcept {
        Status status;
        status = gleed_writing_follow(writing_, engine.get(), tokenizer.get(), status.details());
        return status;
    }
    Result<gleed_writing_info> info() noexcept {
        Status status;
        auto info = make<gleed_writing_info>();
        status = gleed_writing_describe(writing_, &info, status.details());
        return Result<gleed_writing_info>(status, info);
    }
    // Writes the bytes that have to be saved with the sequence. Returns their number.
    Result<std::size_t> state(Span<std::uint8_t> bytes) const noexcept {
        Status status;
        std::size_t written = 0;
        status = gleed_writing_state(writing_, bytes.data(), bytes.size(), &written, status.details());
        return Result<std::size_t>(status, written);
    }
    // Takes a token that is appended to the sequence. Returns whether the grammar allows it; if not, nothing changes.
    Result<bool> accept(const Tokenizer &tokenizer, std::uint32_t token) noexcept {
        Status status;
        std::uint32_t accepted = 0;
        status = gleed_writing_accept(writing_, tokenizer.get(), token, &accepted, status.details());
        return Result<bool>(status, accepted != 0);
    }
    // Does what Matcher::mask does, or, if `within` is a number of tokens, what Matcher::mask_within does.
    Status mask(const TokenTrie &trie, Span<std::uint32_t> mask, std::uint64_t within = GLEED_NO_END,
                std::uint64_t units = 0, std::uint32_t flags = GLEED_MASK_ENDS) noexcept {
        Status status;
        status = gleed_writing_mask(writing_, trie.get(), within, units, flags, mask.data(), mask.size(),
                                    status.details());
        return status;
    }
    // Writes the tokens that have to follow. Returns how many there are.
    Result<std::size_t> forced(const Tokenizer &tokenizer, const TokenTrie &trie, Span<std::uint32_t> scratch,
                               Span<std::uint32_t> tokens) noexcept {
        Status status;
        std::size_t count = 0;
        status = gleed_writing_forced_tokens(writing_, tokenizer.get(), trie.get(), scratch.data(), scratch.size(),
                                             tokens.data(), tokens.size(), &count, status.details());
        return Result<std::size_t>(status, count);
    }
    gleed_writing *get() noexcept { return writing_; }

private:
    static Memory room(const gleed_matcher_limits *limits, Status &status) noexcept {
        std::size_t size = 0, align = 1;
        status = gleed_writing_plan(&size, &align, limits, status.details());
        return status ? Memory::allocate(size, align) : Memory();
    }

    Memory memory_;
    Pointer<gleed_writing> writing_;
};

// Finds strings that end a text. The texts of the strings must outlive it.
class Stops {
public:
    Stops() noexcept = default;

    static Result<Stops> start(Span<const gleed_string> strings) noexcept {
        std::size_t size = 0, align = 1;
        Status status;
        status = gleed_stops_size(&size, &align, status.details());
        if (!status) return Result<Stops>(status);
        Stops stops;
        stops.memory_ = Memory::allocate(size, align);
        status = gleed_stops_init(strings.data(), strings.size(), stops.memory_.data(), stops.memory_.size(),
                                  stops.stops_.out(), status.details());
        return Result<Stops>(status, std::move(stops));
    }
    // Takes the next piece of the text. Returns the text that can be shown.
    Result<gleed_shown> push(Span<const char> text) noexcept {
        Status status;
        auto shown = make<gleed_shown>();
        status = gleed_stops_push(stops_, text.data(), text.size(), &shown, status.details());
        return Result<gleed_shown>(status, shown);
    }
    // Ends the text. Returns the text that was held back.
    Result<Span<const char>> finish() noexcept {
        Status status;
        const char *held = nullptr;
        std::size_t len = 0;
        status = gleed_stops_finish(stops_, &held, &len, status.details());
        return Result<Span<const char>>(status, Span<const char>(held, len));
    }
    gleed_stops *get() noexcept { return stops_; }

private:
    Memory memory_;
    Pointer<gleed_stops> stops_;
};

// Reads what a model has written: text, thoughts and calls of tools. The text of the tools must outlive it.
class Calls {
public:
    Calls() noexcept = default;

    // `format` is the name of a format of calls, or empty for none. Another name is refused with GLEED_E_VALUE.
    static Result<Calls> start(Span<const char> format, std::uint32_t flags, Kept<const char> tools) noexcept {
        std::size_t size = 0, align = 1;
        std::uint32_t number = GLEED_NO_CALLS;
        Status status;
        status = gleed_calls_named(format.data(), format.size(), &number, status.details());
        if (status && number == GLEED_NO_CALLS && !format.empty()) status = GLEED_E_VALUE;
        if (status) status = gleed_calls_size(&size, &align, status.details());
        if (!status) return Result<Calls>(status);
        Calls calls;
        calls.memory_ = Memory::allocate(size, align);
        status = gleed_calls_init(number, flags, tools.data(), tools.size(), calls.memory_.data(), calls.memory_.size(),
                                  calls.calls_.out(), status.details());
        return Result<Calls>(status, std::move(calls));
    }
    // Reads the next part. The arguments of a call are written to `json`.
    Result<gleed_calls_part> next(Span<const char> text, bool is_whole, Span<char> json) noexcept {
        Status status;
        auto part = make<gleed_calls_part>();
        status = gleed_calls_next(calls_, text.data(), text.size(), is_whole ? 1 : 0, json.data(), json.size(), &part,
                                  status.details());
        return Result<gleed_calls_part>(status, part);
    }
    gleed_calls *get() noexcept { return calls_; }

private:
    Memory memory_;
    Pointer<gleed_calls> calls_;
};

// Returns the number of the format in which a model with these turns calls tools, GLEED_NO_CALLS if it is not known. *thoughts
// receives the marks of its thoughts: flags of Calls::start.
inline Result<std::uint32_t> calls_of(const Model &model, const Turns &turns, std::uint32_t *thoughts) noexcept {
    Status status;
    std::uint32_t calls = GLEED_NO_CALLS;
    status = gleed_turns_calls(model.get(), turns.format(), &calls, thoughts, status.details());
    return Result<std::uint32_t>(status, calls);
}

#endif  // GLEED_NO_GRAMMAR

// Checks that the kernels of a level compute correct results on this machine. The memory has GLEED_SELFTEST_BYTES.
inline Status selftest(std::uint32_t level, Memory memory) noexcept {
    Status status;
    status = gleed_selftest(level, memory.data(), memory.size(), status.details());
    return status;
}
inline Status selftest(std::uint32_t level = GLEED_LEVEL_BEST) noexcept {
    return selftest(level, Memory::allocate(GLEED_SELFTEST_BYTES, alignof(std::uint32_t)));
}

// Asks the operating system to let this process use AMX. Returns whether it may.
inline bool allow_amx() noexcept { return gleed_allow_amx() != 0; }

// Returns the version of the library, "0.1.0" for example.
inline const char *version() noexcept { return gleed_version(); }
// Returns GLEED_ABI_VERSION of the library. A program that was compiled with another number must not go on.
inline std::uint32_t abi_version() noexcept { return gleed_abi_version(); }
// Returns the version of the arithmetic. Libraries with equal numbers compute equal bits.
inline std::uint32_t arithmetic_version() noexcept { return gleed_arithmetic_version(); }

} // namespace gleed

#endif // GLEED_HPP
