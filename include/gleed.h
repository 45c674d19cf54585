/*
 * gleed.h: embeddable language-model inference. GGUF bytes in, tokens out.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Rules that hold for every function:
 *
 *   Memory   The library never allocates. It works in memory of the caller. A size function says how much is needed.
 *   Status   int32_t: 0 is success, > 0 is an ordinary outcome, < 0 is an error. The numbers never change.
 *   Outputs  are written only on success. A call that fails changes nothing: its objects can be used as if the call
 *            had not been made.
 *   Host     No function panics, aborts, exits, raises a signal, logs, starts a thread, or uses a file, a clock or an
 *            environment variable. The library has no global and no thread-local state. Any bytes and any argument
 *            values give a status, but pointers must point to what their type and length say.
 *            All this is true of a library that was built without Rust's std. A library with std contains std's own
 *            global and thread-local state (panic counters, for example). A call touches that state only if the
 *            library panics. A panic is a defect of the library: std then allocates, may read RUST_BACKTRACE and
 *            writes to stderr, and the call returns GLEED_E_INTERNAL.
 *   Threads  Functions that take only const pointers may run at the same time on the same objects. A function that
 *            takes a pointer to a non-const object needs that object for itself.
 *   NULL     A pointer may be NULL only where this file says so, or where its length is 0.
 *   Counts   A count that the object could never take is rejected before any element of the array is read. A count
 *            that the object could take is believed: the array must have that many elements.
 *   Order    If several arguments are wrong, the call reports the first of them in this order:
 *              1. `error`: GLEED_E_ALIGNMENT, GLEED_E_STRUCT_SIZE.
 *              2. Objects: GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_OBJECT, then GLEED_E_REENTRANT.
 *              3. Arrays, results and callbacks: GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_LENGTH.
 *              4. Structs: GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_STRUCT_SIZE.
 *              5. Values, and fields of structs: GLEED_E_VALUE, GLEED_E_LIMIT; for pointer fields GLEED_E_NULL, ...
 *              6. Memory that an init or open function fills, whose size follows from the values: GLEED_E_MEMORY_*,
 *                 GLEED_E_NULL, GLEED_E_LENGTH. (gleed_model_open, gleed_adapter_open, gleed_grammar_init and
 *                 gleed_calls_init check the file, the grammar and the tools before this.)
 *              7. All else: the sequence (GLEED_E_SEQUENCE, GLEED_E_BUSY, ...), then the number of elements of an
 *                 array, then the elements.
 *            Within 1 to 4 the order is that of the arguments.
 *   Overlap  Memory that a call only reads may overlap. Memory that it writes (results, buffers, scratch, memory of
 *            objects) must not overlap any other argument, `error` included. Only gleed_materialize detects an overlap.
 *   Moving   Arrays, texts, structs and `error` may be moved or freed when the call has returned: the library keeps no
 *            pointer to them, unless the function's Memory line says so. What the library keeps (files, the memory of
 *            objects) must neither move nor be freed.
 *   Structs  start with struct_size, which the caller sets to sizeof the struct. Later versions add fields at the end.
 *            In a struct that the caller fills, 0 means the default. A field that the library does not know must be 0.
 *   Objects  Models, adapters, engines, tokenizers, detokenizers, samplers, guesses, desks, conversations, grammars, tries,
 *            grammars and tries in the making, matchers, writings, finders of stop strings and readers of calls live in
 *            memory of the caller. They need not be closed. The library detects a pointer to 8 or more bytes that are
 *            something else; it cannot detect a pointer to memory that is gone. An object must not be moved or copied:
 *            it knows the address where it was made, and at another address calls return GLEED_E_OBJECT. (Its bytes may
 *            be saved and later put back at the same address, while no call runs.) Handles of sequences, numbers of
 *            adapters and turn formats, and all structs are plain data and may be copied.
 *   Callbacks must not throw, longjmp or panic. Pointers that they get are valid until they return. A callback that
 *            calls a function on the object of the call that it runs in gets GLEED_E_REENTRANT, and the function does
 *            nothing. There is one exception: while a call takes the object as const (gleed_snapshot_write), other
 *            functions that take it as const work.
 *   Stack    No function needs more than 32 KiB of stack, without that of callbacks. (docs/abi.md has numbers.)
 *
 * The comment of each function says what the function does and what its arguments are. Then the same lines follow:
 *   Memory   what memory of the caller the library keeps, and how long results are valid;
 *   Time     the bound of its running time;
 *   Threads  which calls may run at the same time. "One at a time per engine": no other call may use the engine.
 *            "Any, while no call changes the engine": calls that take the engine as const may run at the same time;
 *   Errors   the errors that it returns. Each function with `error` can also return GLEED_E_ALIGNMENT and
 *            GLEED_E_STRUCT_SIZE for `error`, GLEED_E_REENTRANT if it takes an object, and GLEED_E_INTERNAL;
 *   After    the state after an error.
 */
#ifndef GLEED_H
#define GLEED_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this file. Compare it with gleed_abi_version() if the library is linked dynamically. */
#define GLEED_ABI_VERSION 1

/*
 * Aligns static memory, in C99, C11 and C++: GLEED_ALIGNED(64) static uint8_t memory[SIZE]; starts at a multiple of 64
 * bytes. The alignment must be a literal number. gleed_plan and the other size functions say which size and alignment
 * an object needs. The macro is not defined for a compiler that has no syntax for alignment.
 */
#if defined(__cplusplus) && __cplusplus >= 201103L
#define GLEED_ALIGNED(bytes) alignas(bytes)
#elif defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L && !defined(_MSC_VER)
#define GLEED_ALIGNED(bytes) _Alignas(bytes)
#elif defined(__GNUC__)
#define GLEED_ALIGNED(bytes) __attribute__((aligned(bytes)))
#elif defined(_MSC_VER)
#define GLEED_ALIGNED(bytes) __declspec(align(bytes))
#endif

/* ---- Status ------------------------------------------------------------------------------------------ */

/* The outcome of a call. Comments say what `at`, `needed` and `given` of gleed_error hold. */
typedef int32_t gleed_status;

enum {
    /* The call did what it was asked to do. */
    GLEED_OK = 0,
    /* The budget is used up. The next call goes on where this one stopped. */
    GLEED_YIELDED = 1,
    /* There are too few free sequences or blocks. Nothing has changed. needed: how many are needed, given: how many are free */
    GLEED_FULL = 2,
    /* The cancel flag is set. The next call goes on where this one stopped. */
    GLEED_STOPPED = 3,
    /* Rows with logits or hidden states are finished. Read them, then go on. */
    GLEED_READY = 4,

    /* The call. */
    GLEED_E_NULL = -1,        /* a pointer is NULL that must not be */
    GLEED_E_STRUCT_SIZE = -2, /* struct_size is unknown, or fields are set that this version does not know */
    GLEED_E_ALIGNMENT = -3,   /* a pointer is not aligned for its type; needed: the alignment, given: the address */
    GLEED_E_LENGTH = -4,      /* a length passes the end of the address space; needed: the most, given: the length */
    GLEED_E_VALUE = -5,       /* an argument is out of range; needed: the most, given: the value */
    GLEED_E_OBJECT = -6,      /* not an object of its type, or a moved one; needed, given: its old and new address */
    GLEED_E_REENTRANT = -7,   /* a call that has not returned uses the object: this one comes from its callback or another thread */
    GLEED_E_INTERNAL = -99,   /* the library contradicts itself: this is a defect of the library. Please report it, with
                                 gleed_error.given: the place in the source that found it; 0 if it is not known */

    /* Memory. */
    GLEED_E_MEMORY_TOO_SMALL = -100,  /* needed, given: bytes */
    GLEED_E_MEMORY_MISALIGNED = -101, /* needed: the alignment, given: bytes past the last aligned address */
    GLEED_E_MEMORY_TOO_LARGE = -102,  /* the limits need more memory than the machine can address */
    GLEED_E_SCRATCH_TOO_SMALL = -103, /* needed, given: elements */
    GLEED_E_OUTPUT_TOO_SMALL = -104,  /* needed, given: elements */

    /* The file. The text names the key or tensor. */
    GLEED_E_FILE = -200,           /* the file is damaged; at: the byte, if it is known */
    GLEED_E_FILE_MAGIC = -201,     /* the file is not GGUF */
    GLEED_E_FILE_VERSION = -202,   /* the version or byte order is not supported; given: the version */
    GLEED_E_FILE_TRUNCATED = -203, /* the file is cut off; needed: bytes that it must have at least, given: bytes */
    GLEED_E_FILE_SPLIT = -204,     /* the file is one part of a split model; at: its index, from 0, given: the parts */
    GLEED_E_FILE_PARTS = -205,     /* parts of a split file are missing; needed, given: parts */
    GLEED_E_FILE_PART_ORDER = -206, /* a part is in the place of another; at: the place, needed, given: indices of parts */

    /* The model. The text names the key or tensor. */
    GLEED_E_MODEL_ARCHITECTURE = -300,    /* the architecture is not supported */
    GLEED_E_MODEL_KEY_MISSING = -301,     /* a metadata key is missing */
    GLEED_E_MODEL_KEY_VALUE = -302,       /* a metadata value has the wrong type or is out of range */
    GLEED_E_MODEL_KEY_UNSUPPORTED = -303, /* a metadata key asks for something that is not supported */
    GLEED_E_MODEL_TENSOR_MISSING = -304,  /* a tensor is missing */
    GLEED_E_MODEL_TENSOR_UNKNOWN = -305,  /* the architecture does not have this tensor */
    GLEED_E_MODEL_TENSOR_SHAPE = -306,    /* wrong shape; needed, given: the columns, or the rows if the columns agree */
    GLEED_E_MODEL_TENSOR_TYPE = -307,     /* the element type is not supported there; given: ggml's number of the type */
    GLEED_E_MODEL_TOO_MANY = -308,        /* too many layers or tensors; needed: the most, given: their number */

    /* Limits. The text names the limit. */
    GLEED_E_LIMIT = -400, /* a limit is out of range; needed: the nearest value in range, given: the value */

    /* Sequences. */
    GLEED_E_SEQUENCE = -500, /* no open sequence has this handle; given: the handle */
    GLEED_E_BUSY = -501,     /* there is unfinished work that the call must not disturb */
    GLEED_E_POSITION = -502, /* not the next position of the sequence; needed: the next one, given: the position */
    GLEED_E_TOKEN = -503,    /* no such token; at: its index, needed: ids are below this, given: the id */
    GLEED_E_EMPTY = -504,    /* no tokens were given */
    GLEED_E_CONTEXT = -505,  /* the sequence would be too long; needed: the most tokens, given: tokens it would have */
    GLEED_E_KEEP = -506,     /* the sequence is shorter than what is to be kept; needed: its tokens, given: tokens to keep */
    GLEED_E_LAYER = -507,    /* no such layer, or not the next one; needed: the next layer, given: the layer */
    GLEED_E_SHAPE = -508,    /* a buffer has the wrong size; needed, given: elements */
    GLEED_E_NOT_KEPT = -509, /* GLEED_KV_OFF keeps no keys and values: there is nothing to set */
    GLEED_E_WINDOW = -510,   /* tokens were evicted from the window; needed: its first position, given: the position */
    GLEED_E_TOO_MANY = -511, /* too many tokens at a time for the window; needed: the most, given: tokens */
    GLEED_E_NO_LOGITS = -512, /* no such row of results; needed: rows that have results, given: the row. From calls that take
                                 tokens: the model is an encoder, which predicts no tokens */
    GLEED_E_ADAPTER = -513,   /* no adapter with this number is loaded; needed: numbers are below this, given: the number */
    GLEED_E_ADAPTER_ROOM = -514, /* no room for the adapter; at: planned adapters, needed: its rank, given: the planned rank */
    GLEED_E_WHOLE = -515, /* tokens of an encoder see later ones: a sequence takes all at once; at: tokens that it has */
    GLEED_E_ROWS = -516,  /* a text does not fit a batch of an encoder; needed: its tokens, given: `rows` */

    /* Results. */
    GLEED_E_NON_FINITE = -600, /* infinity or NaN; at: the layer (the number of layers for the logits), or the token */
    GLEED_E_ALL_BANNED = -601, /* the biases ban every token */
    GLEED_E_SELFTEST = -602,   /* this machine computes wrong results at this level */

    /* Text. */
    GLEED_E_VOCAB = -700,             /* the vocabulary contradicts itself */
    GLEED_E_VOCAB_MISSING = -701,     /* a key of the vocabulary is missing */
    GLEED_E_VOCAB_UNSUPPORTED = -702, /* this kind of tokenizer is not supported */
    GLEED_E_TEXT = -710,              /* the text is not UTF-8; at: the first wrong byte */
    GLEED_E_TEXT_TOO_LONG = -711,     /* needed: the most bytes, given: bytes */
    GLEED_E_TEXT_SPELLING = -712,     /* there is no token for a byte; at: its place in the text, given: the byte */

    /* Snapshots. */
    GLEED_E_SNAPSHOT = -800,            /* the snapshot is damaged; at: first token of the damaged block, if known */
    GLEED_E_SNAPSHOT_MAGIC = -801,      /* the bytes are not a snapshot */
    GLEED_E_SNAPSHOT_VERSION = -802,    /* this version is not supported; needed: the supported one, given: the snapshot's */
    GLEED_E_SNAPSHOT_TRUNCATED = -803,  /* needed: bytes that it must have at least, given: bytes it has */
    GLEED_E_SNAPSHOT_TRAILING = -804,   /* bytes follow the snapshot; at: the bytes of the snapshot */
    GLEED_E_SNAPSHOT_MODEL = -805,      /* another model; needed: the engine's fingerprint, given: the snapshot's */
    GLEED_E_SNAPSHOT_ARITHMETIC = -806, /* another arithmetic; needed: the library's version, given: the snapshot's version */
    GLEED_E_SNAPSHOT_SHAPE = -807,      /* another type or shape; needed: the engine's number, given: the snapshot's */
    GLEED_E_SNAPSHOT_BASE = -808,       /* the delta does not continue the sequence; at: tokens of the base that it needs */
    GLEED_E_SNAPSHOT_BUFFER = -809,     /* the buffer is too small; needed, given: bytes */
    GLEED_E_SNAPSHOT_HOST = -810,       /* a callback did not take or give bytes; at: the bytes before */
    GLEED_E_SNAPSHOT_GRAMMAR = -811,    /* the snapshot of a matcher is of another grammar, or of other options */

    /* Grammars and tools. */
    GLEED_E_GRAMMAR = -900,             /* the grammar does not follow its syntax; at: the byte */
    GLEED_E_GRAMMAR_UNSUPPORTED = -901, /* a keyword or a part of an expression is not supported; at: the byte */
    GLEED_E_GRAMMAR_VALUE = -902,       /* a keyword has a value that it does not take; at: the byte */
    GLEED_E_GRAMMAR_EMPTY = -903,       /* no text satisfies the grammar; at: the byte */
    GLEED_E_GRAMMAR_RECURSION = -904,   /* a rule begins with itself; at: the byte */
    GLEED_E_GRAMMAR_STATES = -905,      /* an automaton has too many states; at: the byte, needed: the most states */
    GLEED_E_AMBIGUOUS = -910,           /* the text can be read in too many ways at once; needed: the most */
    GLEED_E_NESTED = -911,              /* calls of rules are nested too deeply; needed: the most */
    GLEED_E_NOT_REWINDABLE = -912,      /* too many tokens to take back; needed: how many can be, given: how many are to be */
    GLEED_E_NO_TOKEN = -913,            /* no token may follow; needed: a byte that may, 256 if no byte may */
    GLEED_E_NOT_ALLOWED = -914,         /* the grammar does not allow a token of the sequence; at: its position, given: the token */
    GLEED_E_TOOLS = -920                /* the list of tools is wrong; at: the byte */
};

/*
 * The details of an error, in memory of the caller. A function takes a pointer to it, which may be NULL. The function
 * writes to it only if it returns an error or GLEED_FULL.
 *
 * struct_size is the size of the struct in bytes. The caller sets it before the first call, and no call changes it. It
 * is at least 128 in all versions. If it is smaller than the struct of this version, the call returns
 * GLEED_E_STRUCT_SIZE. If `error` is misaligned, the call returns GLEED_E_ALIGNMENT. In both cases the call does
 * nothing else and writes nothing, not even here. If struct_size is larger, the call writes the fields that this
 * version knows and leaves the others as they are.
 */
typedef struct gleed_error {
    uint32_t struct_size; /* sizeof(gleed_error), set by the caller */
    gleed_status status;  /* what the call returned */
    uint64_t at;          /* the place of the error; its unit depends on the status, 0 if there is no place */
    uint64_t needed;      /* what was needed, or the most that is allowed */
    uint64_t given;       /* what was given */
    char text[96];        /* the error in English: UTF-8, terminated by 0 */
} gleed_error;

/*
 * Returns a short English text for a status, also for a status that this version does not know.
 *   Memory   The text is static; never NULL.
 *   Time     Constant.
 *   Threads  Any.
 *   Errors   None.
 */
const char *gleed_status_text(gleed_status status);

/* ---- Model ------------------------------------------------------------------------------------------- */

/*
 * A model: a description of a GGUF file, which stays where it is. A model is read-only. Any number of engines and
 * threads share it.
 */
typedef struct gleed_model gleed_model;

/*
 * Returns the size and alignment of the memory of a model, in bytes. The size is a few hundred bytes, the same for
 * every file.
 *   Memory   Keeps nothing.
 *   Time     Constant.
 *   Threads  Any.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT.
 *   After    Nothing is written.
 */
gleed_status gleed_model_size(size_t *size, size_t *align, gleed_error *error);

/*
 * Checks the GGUF file in `bytes` and makes a model of it in `memory`. *model receives a pointer to it. `bytes` may
 * have any alignment and may be read-only: a mapped file, flash, or a part of a larger file.
 *   Memory   Keeps `bytes` and `memory`, both until the last use of the model and of its engines. The bytes
 *            must not change: if a mapped file is cut shorter while it is used, that is the fault of the host.
 *   Time     Grows with the metadata and the number of tensors. The weights are not touched.
 *   Threads  Any.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_LENGTH, GLEED_E_MEMORY_*, GLEED_E_FILE*, GLEED_E_MODEL_*.
 *   After    Nothing is written, not even to `memory`.
 */
gleed_status gleed_model_open(const uint8_t *bytes, size_t len, void *memory, size_t memory_len,
                              const gleed_model **model, gleed_error *error);

/*
 * Describes in `memory` the layer of `model` that predicts one token further ahead. `memory` has the size of gleed_model_size.
 * *predictor receives a pointer to the layer, which is a model of its own without a tokenizer of its own. It gets an engine, for
 * gleed_guesses_layer. Only the guesses give tokens to this engine: gleed_prefill and the like return GLEED_E_VALUE for it.
 *   Memory   Keeps `memory` and the bytes of the file. If the file is split, also keeps the memory of `model`. Does not keep the
 *            object `model`.
 *   Time     As gleed_model_open.
 *   Threads  Any, while no call changes the model, each with memory of its own.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_LENGTH, GLEED_E_OBJECT, GLEED_E_MEMORY_TOO_SMALL,
 *            GLEED_E_MEMORY_MISALIGNED, GLEED_E_MODEL_KEY_MISSING (the file has no such layer), GLEED_E_MODEL_KEY_UNSUPPORTED
 *            (layers of this architecture cannot be computed), GLEED_E_MODEL* as gleed_model_open for its tensors.
 *   After    Nothing is written.
 */
gleed_status gleed_model_predictor(const gleed_model *model, void *memory, size_t memory_len,
                                   const gleed_model **predictor, gleed_error *error);

/* One part of a split file: NAME-00001-of-00003.gguf and so on. */
typedef struct gleed_part {
    const uint8_t *bytes;
    size_t len; /* bytes of the part */
} gleed_part;

/*
 * Returns the size and alignment of the memory of a model in `count` parts, in bytes.
 *   Memory   Keeps nothing.
 *   Time     Constant.
 *   Threads  Any.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_MEMORY_TOO_LARGE.
 *   After    Nothing is written.
 */
gleed_status gleed_model_split_size(size_t count, size_t *size, size_t *align, gleed_error *error);

/*
 * Opens a split file as gleed_model_open does. `parts` has all `count` parts, in order. A file that is not split is one
 * part.
 *   Memory   Keeps the bytes of the parts and `memory`, until the last use of the model and of its engines. Does not
 *            keep the array `parts`.
 *   Time     As gleed_model_open.
 *   Threads  Any, each with memory of its own.
 *   Errors   As gleed_model_open, with GLEED_E_FILE_PARTS and GLEED_E_FILE_PART_ORDER.
 *   After    Nothing is written. Exception: GLEED_E_FILE* and GLEED_E_MODEL* leave `memory` overwritten.
 */
gleed_status gleed_model_open_split(const gleed_part *parts, size_t count, void *memory, size_t memory_len,
                                    const gleed_model **model, gleed_error *error);

/* The properties of a model. */
typedef struct gleed_model_info {
    uint32_t struct_size; /* sizeof(gleed_model_info), set by the caller */
    uint32_t layers;
    uint32_t vocab;   /* token ids are below this; a row of logits has this many elements */
    uint32_t context; /* tokens of the context that the model was trained on */
    uint32_t hidden;  /* width of the residual stream, in elements */
    uint32_t ffn;     /* width of the feed-forward layer, in elements */
    uint32_t heads;   /* query heads */
    uint32_t kv_heads;    /* heads of keys and values. Where layers differ, this and head_dim are of layers with a window */
    uint32_t head_dim;    /* elements per head */
    uint32_t reserved;    /* 0 */
    uint64_t fingerprint; /* tells models apart; snapshots contain it */
    uint64_t file_bytes;  /* bytes of all parts */
    char architecture[32]; /* the name of the architecture in the file; texts are UTF-8, cut to fit, terminated by 0 */
    char name[96];         /* the name of the model; empty if the file has none */
} gleed_model_info;

/*
 * Writes the properties of a model to *info.
 *   Memory   Keeps nothing.
 *   Time     Reads up to 64 pages of each tensor, for the fingerprint.
 *   Threads  Any.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_OBJECT, GLEED_E_STRUCT_SIZE.
 *   After    Nothing is written.
 */
gleed_status gleed_model_describe(const gleed_model *model, gleed_model_info *info, gleed_error *error);

/*
 * Returns a text from the metadata of a model's file, "tokenizer.chat_template" for example. `key` has key_len bytes.
 * *text receives a pointer to *text_len bytes within the file. They are not terminated by 0. In a correct file they are
 * UTF-8.
 *   Memory   Keeps nothing. The text lies in the bytes of the file and is valid as long as they are.
 *   Time     Grows with the metadata.
 *   Threads  Any.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_LENGTH, GLEED_E_OBJECT, GLEED_E_MODEL_KEY_MISSING (there is no
 *            such key), GLEED_E_MODEL_KEY_VALUE (its value is not a text).
 *   After    Nothing is written.
 */
gleed_status gleed_model_string(const gleed_model *model, const char *key, size_t key_len, const char **text,
                                size_t *text_len, gleed_error *error);

/* ---- Engine ------------------------------------------------------------------------------------------ */

/* An engine: sequences of tokens over one model, and the memory that it computes in. */
typedef struct gleed_engine gleed_engine;

/* The kind of the KV cache: how keys and values are kept. All kinds give the same results. */
enum {
    GLEED_KV_PAGED = 0, /* blocks of 16 tokens from one pool, allocated on demand */
    GLEED_KV_BASIC = 1, /* every sequence has blocks for its full length from the start */
    GLEED_KV_OFF = 2    /* nothing is kept: every call computes the whole sequence again */
};

/* The element type of keys and values. */
enum {
    GLEED_KV_F16 = 0,
    GLEED_KV_F32 = 1,
    GLEED_KV_Q8_0 = 2, /* 8.5 bits per element: a code of 8 bits, and one scale per 32 elements */
    GLEED_KV_Q4_0 = 3  /* 4.5 bits per element: a code of 4 bits, and one scale per 32 elements */
};

/* A value for kv_type: one element type for keys and another for values. */
#define GLEED_KV_TYPES(keys, values) ((keys) | ((values) + 1) << 8)

/* The instruction set of the kernels. All levels give the same results. */
enum {
    GLEED_LEVEL_BEST = 0,    /* the fastest that the machine has */
    GLEED_LEVEL_SCALAR = 1,  /* every machine */
    GLEED_LEVEL_AVX2 = 2,    /* x86-64: AVX2 and F16C */
    GLEED_LEVEL_AVXVNNI = 3, /* x86-64: AVX2, F16C and AVX-VNNI */
    GLEED_LEVEL_AVX512 = 4,  /* x86-64: AVX-512 F, BW, VL, VNNI */
    GLEED_LEVEL_NEON = 5,    /* AArch64 */
    GLEED_LEVEL_DOTPROD = 6, /* AArch64 with the dot product of bytes */
    GLEED_LEVEL_SIMD128 = 7, /* WebAssembly */
    GLEED_LEVEL_I8MM = 8,    /* AArch64 with the dot product and the product of matrices of bytes */
    GLEED_LEVEL_AMX = 9      /* x86-64: AVX-512 F, BW, VL, VNNI and AMX with bytes, after gleed_allow_amx */
};

/* The limits of an engine. 0 means the default. */
typedef struct gleed_config {
    uint32_t struct_size; /* sizeof(gleed_config), set by the caller */
    uint32_t sequences;   /* sequences that can be open at the same time, at most 65536; default 1 */
    uint32_t context;     /* tokens per sequence; default: the context that the model was trained on, at most 4096 */
    uint32_t rows;        /* tokens computed together, at most 65536; default 256. More is faster, but needs memory */
    uint32_t kv_kind;     /* GLEED_KV_PAGED, ... */
    uint32_t kv_type;     /* GLEED_KV_F16, ..., or GLEED_KV_TYPES(GLEED_KV_Q8_0, GLEED_KV_Q4_0), ... */
    uint32_t kv_blocks;   /* blocks of 16 tokens in the pool; default: enough for all sequences at full length */
    uint32_t logit_rows;   /* rows computed together that can have logits, at most `rows`; default 1 */
    uint32_t window_sinks; /* with a window: how many of the first tokens stay visible */
    uint32_t window_last;  /* how many of the last tokens are visible; default: all. With a window the length of a
                              sequence has no limit */
    uint32_t prefix_cache; /* 1: prompts reuse blocks of cached prefixes, see gleed_reuse; only for GLEED_KV_PAGED */
    uint32_t workers;      /* threads that compute at the same time, see gleed_set_executor; default 1 */
    uint32_t level;        /* GLEED_LEVEL_BEST, ... */
    uint32_t adapters;     /* LoRA adapters that can be loaded, at most 8; default 0. See gleed_engine_load_adapter */
    uint32_t adapter_rank; /* the largest rank of an adapter, at most 1024; default 64. Costs nothing without adapters */
    uint32_t checkpoints;  /* checkpoints of recurrent layers' states that all sequences together can have; default 0. Each
                              takes the memory of a state. The engine makes one where several tokens that were queued
                              together end, such as a prompt. If no place is free, the oldest one that the engine made by
                              itself gives way. See gleed_checkpoint */
    uint32_t checkpoint_every; /* the engine also makes a checkpoint every so many tokens, rounded up to a multiple of 16 */
} gleed_config;

/*
 * Returns the size and alignment of the memory of an engine, in bytes. `config` may be NULL: all defaults.
 *   Memory   Keeps nothing.
 *   Time     Grows with the number of tensors and the limits. Nothing is computed.
 *   Threads  Any.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_OBJECT, GLEED_E_STRUCT_SIZE, GLEED_E_VALUE,
 *            GLEED_E_LIMIT, GLEED_E_MEMORY_TOO_LARGE.
 *   After    Nothing is written.
 */
gleed_status gleed_plan(const gleed_model *model, const gleed_config *config, size_t *size, size_t *align,
                        gleed_error *error);

/* The plan of an engine. Fields that the config left at 0 have their default value here. */
typedef struct gleed_plan_info {
    uint32_t struct_size;        /* sizeof(gleed_plan_info), set by the caller */
    uint32_t align;              /* alignment of the memory, in bytes */
    uint64_t bytes;              /* size of the memory: what gleed_plan returns */
    uint64_t kv_bytes_per_token; /* keys and values of one token, in all layers */
    uint64_t kv_bytes;           /* keys and values of all blocks */
    uint64_t units_per_token;    /* the most units of work (see gleed_step) for one token of one sequence, with its logits.
                                    With GLEED_KV_OFF only for the first token: a later one computes all before it, too */
    uint32_t sections;           /* parts of the memory, see gleed_plan_section */
    uint32_t sequences;
    uint32_t context;
    uint32_t rows;
    uint32_t logit_rows;
    uint32_t kv_blocks;
    uint32_t workers;
    uint32_t level;
    uint32_t adapters;
    uint32_t adapter_rank;
    uint32_t checkpoints;
    uint32_t checkpoint_every;
    uint64_t state_bytes; /* the state of the recurrent layers of one sequence; 0 if the model has none */
} gleed_plan_info;

/*
 * Writes the plan of an engine to *info. `config` may be NULL: all defaults.
 *   Memory, Time, Threads, Errors, After   As gleed_plan.
 */
gleed_status gleed_plan_describe(const gleed_model *model, const gleed_config *config, gleed_plan_info *info,
                                 gleed_error *error);

/* One section of an engine's memory. */
typedef struct gleed_section {
    uint32_t struct_size; /* sizeof(gleed_section), set by the caller */
    uint32_t reserved;    /* 0 */
    uint64_t offset;      /* bytes from the start of the memory */
    uint64_t bytes;       /* without the padding that follows */
    char name[40];        /* what the section holds, terminated by 0 */
} gleed_section;

/*
 * Writes section `index`, from 0, of an engine's memory to *section. Sections are in the order of their offsets.
 *   Memory, Time, Threads, After   As gleed_plan.
 *   Errors   As gleed_plan; GLEED_E_VALUE past the last section.
 */
gleed_status gleed_plan_section(const gleed_model *model, const gleed_config *config, size_t index,
                                gleed_section *section, gleed_error *error);

/*
 * Starts an engine without sequences in `memory`, which need not be cleared. *engine receives a pointer to it.
 * `config` is that of gleed_plan.
 *   Memory   Keeps `memory`, as planned, and the bytes of the model's file. If the file is split, also keeps the memory of
 *            the model. Does not keep the config. What `memory` held before, an engine for example, is gone.
 *   Time     Grows with the number of tensors and the limits. The memory of keys and values is not touched.
 *   Threads  Any, each with memory of its own.
 *   Errors   As gleed_plan, GLEED_E_LENGTH, GLEED_E_MEMORY_TOO_SMALL, GLEED_E_MEMORY_MISALIGNED.
 *   After    Nothing is written, not even to `memory`.
 */
gleed_status gleed_engine_init(const gleed_model *model, const gleed_config *config, void *memory, size_t memory_len,
                               gleed_engine **engine, gleed_error *error);

/* The state of an engine. blocks_used + blocks_free + blocks_reclaimable = blocks. */
typedef struct gleed_engine_info {
    uint32_t struct_size;        /* sizeof(gleed_engine_info), set by the caller */
    uint32_t sequences;          /* open sequences */
    uint32_t blocks;             /* blocks in the pools */
    uint32_t blocks_used;        /* held by a sequence or a pin */
    uint32_t blocks_free;        /* empty */
    uint32_t blocks_reclaimable; /* hold a cached prefix; allocated when no block is free */
    uint32_t blocks_pinned;      /* used blocks that have a pin */
    uint32_t blocks_high_water;  /* the most blocks that were used at the same time, since gleed_engine_reset_metrics */
    uint32_t is_busy;            /* 1 while any sequence has unfinished work */
    uint32_t results;            /* rows that gleed_result can return */
    uint64_t kv_bytes;           /* keys and values of all blocks */
    uint64_t kv_bytes_used;
    uint64_t kv_bytes_high_water;
    uint64_t prefix_lookups; /* calls of gleed_reuse and gleed_prefill_prompt */
    uint64_t prefix_hits;    /* such calls that found a cached prefix */
    uint64_t prefix_hit_tokens;
    uint64_t prefix_missed_tokens;
} gleed_engine_info;

/*
 * Writes the state of an engine to *info.
 *   Memory   Keeps nothing.
 *   Time     Grows with the number of sequences.
 *   Threads  Any, while no call changes the engine.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_OBJECT, GLEED_E_STRUCT_SIZE.
 *   After    Nothing is written.
 */
gleed_status gleed_engine_describe(const gleed_engine *engine, gleed_engine_info *info, gleed_error *error);

/*
 * The work of one call of gleed_parallel_for. The threads of the host call it with the `arg` of that call, at most once
 * for each index.
 */
typedef void (*gleed_body)(void *arg, uint32_t index);

/*
 * Calls body(arg, index) for indices below n, and returns when all these calls have returned. It must call at least one
 * index, and each index at most once. It may call them on any threads, at the same time or one after the other. The
 * results do not depend on that.
 */
typedef void (*gleed_parallel_for)(void *ctx, uint32_t n, gleed_body body, void *arg);

/* The threads of the host. */
typedef struct gleed_executor {
    uint32_t struct_size;            /* sizeof(gleed_executor), set by the caller */
    uint32_t slots;                  /* calls that can run at the same time; 0: as many as the config has workers */
    gleed_parallel_for parallel_for; /* never NULL */
    void *ctx;                       /* the first argument of parallel_for */
} gleed_executor;

/*
 * Sets the threads that an engine computes on, at most as many as the config has workers. If `executor` is NULL, only
 * the calling thread computes; an engine starts like that. If the executor calls no body, the function that computes
 * returns GLEED_E_INTERNAL.
 *   Memory   Keeps a copy of *executor and calls it until another one is set.
 *   Time     Constant.
 *   Threads  One at a time per engine.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_OBJECT, GLEED_E_STRUCT_SIZE.
 *   After    Nothing has changed.
 */
gleed_status gleed_set_executor(gleed_engine *engine, const gleed_executor *executor, gleed_error *error);

/* ---- Sequences --------------------------------------------------------------------------------------- */

/* The handle of an open sequence, never 0. A closed handle is rejected until its slot has been reused 65,535 times. */
typedef uint32_t gleed_seq;

/*
 * Opens an empty sequence. *seq receives its handle. Returns GLEED_FULL if as many sequences are open as the config
 * allows.
 *   Memory   Keeps nothing.
 *   Time     Grows with the number of sequences.
 *   Threads  One at a time per engine.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_OBJECT.
 *   After    Nothing has changed.
 */
gleed_status gleed_seq_open(gleed_engine *engine, gleed_seq *seq, gleed_error *error);

/*
 * Closes a sequence and frees its blocks.
 *   Memory   Keeps nothing.
 *   Time     Grows with the blocks of the sequence.
 *   Threads  One at a time per engine.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_OBJECT, GLEED_E_SEQUENCE, GLEED_E_BUSY.
 *   After    Nothing has changed.
 */
gleed_status gleed_seq_close(gleed_engine *engine, gleed_seq seq, gleed_error *error);

/*
 * Removes all tokens of a sequence and frees its blocks. The handle stays valid.
 *   Memory, Time, Threads, Errors, After   As gleed_seq_close.
 */
gleed_status gleed_reset(gleed_engine *engine, gleed_seq seq, gleed_error *error);

/*
 * Opens a sequence that starts with the first `keep` tokens of another one. *fork receives its handle. GLEED_KV_PAGED
 * shares the blocks of these tokens; the other kinds copy them. Returns GLEED_FULL if no sequence is free, or no block
 * for a copy.
 *   Memory   Keeps nothing.
 *   Time     Grows with the number of sequences and with the blocks of `keep` tokens.
 *   Threads  One at a time per engine.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_OBJECT, GLEED_E_SEQUENCE, GLEED_E_BUSY, GLEED_E_KEEP,
 *            GLEED_E_WINDOW.
 *   After    Nothing has changed.
 */
gleed_status gleed_fork(gleed_engine *engine, gleed_seq seq, size_t keep, gleed_seq *fork, gleed_error *error);

/*
 * Keeps only the first `keep` tokens of a sequence. In a model with recurrent layers this goes back to the last
 * checkpoint at or before `keep`, see gleed_computed_at. The tokens between are computed again, with the same bits,
 * together with the tokens that are queued next.
 *   Memory   Keeps nothing.
 *   Time     Grows with the number of blocks that are freed.
 *   Threads  One at a time per engine.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_OBJECT, GLEED_E_SEQUENCE, GLEED_E_BUSY, GLEED_E_KEEP,
 *            GLEED_E_WINDOW; in an encoder GLEED_E_WHOLE, unless `keep` is 0.
 *   After    Nothing has changed.
 */
gleed_status gleed_rewind(gleed_engine *engine, gleed_seq seq, size_t keep, gleed_error *error);

/*
 * Keeps the state of a sequence's recurrent layers, so that a later gleed_rewind to the present length computes nothing
 * again. Such a checkpoint stays until the sequence is closed or rewound past it. Returns GLEED_FULL if the config has
 * too few checkpoints. Also returns it after a rewind, as long as kept tokens have to be computed again
 * (gleed_computed_at): the state after them is not there. Does nothing in a model without recurrent layers.
 *   Memory   Keeps nothing.
 *   Time     Grows with the number of checkpoints.
 *   Threads  One at a time per engine.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_OBJECT, GLEED_E_SEQUENCE, GLEED_E_BUSY.
 *   After    Nothing has changed.
 */
gleed_status gleed_checkpoint(gleed_engine *engine, gleed_seq seq, gleed_error *error);

/*
 * Writes to *computed how many tokens need not be computed again if the sequence is rewound to `keep` tokens: `keep`, or
 * in a model with recurrent layers the position of the last checkpoint at or before `keep`.
 *   Memory   Keeps nothing.
 *   Time     Grows with the number of checkpoints.
 *   Threads  Any, while no call changes the engine.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_OBJECT, GLEED_E_SEQUENCE, GLEED_E_KEEP.
 *   After    Nothing is written.
 */
gleed_status gleed_computed_at(const gleed_engine *engine, gleed_seq seq, size_t keep, size_t *computed,
                               gleed_error *error);

/* The state of a sequence. */
typedef struct gleed_seq_info {
    uint32_t struct_size;   /* sizeof(gleed_seq_info), set by the caller */
    uint32_t tokens;        /* finished tokens */
    uint32_t queued;        /* tokens that are not finished yet */
    uint32_t own_blocks;    /* blocks that only this sequence holds: closing it frees them */
    uint32_t shared_blocks; /* blocks that another sequence or a pin holds, too */
    uint32_t is_busy;       /* 1 while it has unfinished work */
    uint64_t units_done;    /* finished units of the current batch; 0 if the sequence is not part of it */
    uint64_t units_left;    /* remaining units of that batch, exactly */
    uint64_t own_bytes;     /* keys and values of the own blocks */
    uint64_t shared_bytes;  /* keys and values of the shared blocks */
} gleed_seq_info;

/*
 * Writes the state of a sequence to *info.
 *   Memory   Keeps nothing.
 *   Time     Grows with the blocks of the sequence.
 *   Threads  Any, while no call changes the engine.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_OBJECT, GLEED_E_SEQUENCE, GLEED_E_STRUCT_SIZE.
 *   After    Nothing is written.
 */
gleed_status gleed_seq_describe(const gleed_engine *engine, gleed_seq seq, gleed_seq_info *info, gleed_error *error);

/*
 * Copies the ids of `count` finished tokens of a sequence to `tokens`, from position `first` on. gleed_seq_describe
 * returns the number of finished tokens. A token whose keys and values were imported has the id GLEED_NO_TOKEN.
 *   Memory   Keeps nothing.
 *   Time     Grows with count.
 *   Threads  Any, while no call changes the engine.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_LENGTH, GLEED_E_OBJECT, GLEED_E_SEQUENCE, GLEED_E_VALUE (there
 *            are fewer tokens), GLEED_E_WINDOW (some were evicted; needed: the position from which on none was).
 *   After    Nothing is written.
 */
gleed_status gleed_seq_tokens(const gleed_engine *engine, gleed_seq seq, size_t first, uint32_t *tokens, size_t count,
                              gleed_error *error);

/*
 * Checks whether `tokens` more tokens fit in a sequence and in the pool. Returns GLEED_OK, or what gleed_queue would
 * return for that many tokens. 0 tokens always fit.
 *   Memory   Keeps nothing.
 *   Time     Grows with the blocks of the sequence.
 *   Threads  Any, while no call changes the engine.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_OBJECT, GLEED_E_SEQUENCE, GLEED_E_BUSY, GLEED_E_CONTEXT,
 *            GLEED_E_TOO_MANY; in an encoder GLEED_E_WHOLE, GLEED_E_ROWS.
 *   After    Nothing is written.
 */
gleed_status gleed_can_extend(const gleed_engine *engine, gleed_seq seq, size_t tokens, gleed_error *error);

/* ---- Tokens in, logits out, at once ------------------------------------------------------------------ */

/*
 * Appends `count` tokens to a sequence and computes the logits of the last one. *logits receives a pointer to
 * *logits_len elements, one for each token id. Returns GLEED_FULL if the pool has too few free blocks.
 *   Memory   Keeps nothing. The logits lie in the engine's memory. They are valid until the next call that
 *            takes the engine without const.
 *   Time     Grows with count, the size of the model and the length of the sequence.
 *   Threads  One at a time per engine.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_LENGTH, GLEED_E_OBJECT, GLEED_E_SEQUENCE, GLEED_E_BUSY (any
 *            sequence has unfinished work), GLEED_E_TOKEN, GLEED_E_EMPTY, GLEED_E_CONTEXT (with a window, the limit is
 *            2^32 - 1 tokens), GLEED_E_NON_FINITE; in an encoder GLEED_E_NO_LOGITS, GLEED_E_WHOLE, GLEED_E_ROWS; in an
 *            engine of gleed_model_predictor GLEED_E_VALUE.
 *   After    The sequence is as long as before, and earlier logits are still valid. Exception: GLEED_E_NON_FINITE
 *            comes during the computation and invalidates earlier logits. If a window has evicted tokens by then, the
 *            sequence also keeps the chunks of new tokens that were finished.
 */
gleed_status gleed_prefill(gleed_engine *engine, gleed_seq seq, const uint32_t *tokens, size_t count,
                           const float **logits, size_t *logits_len, gleed_error *error);

/*
 * Appends one token to a sequence and computes its logits: gleed_prefill with one token.
 *   Memory, Time, Threads, Errors, After   As gleed_prefill.
 */
gleed_status gleed_decode_step(gleed_engine *engine, gleed_seq seq, uint32_t token, const float **logits,
                               size_t *logits_len, gleed_error *error);

/*
 * Does what gleed_prefill does, if the sequence has `position` tokens. A program that keeps its own count of tokens
 * learns from the error that the two counts differ, before a token is appended.
 *   Memory, Time, Threads, After   As gleed_prefill.
 *   Errors   As gleed_prefill; GLEED_E_POSITION (needed: the tokens of the sequence, given: the position).
 */
gleed_status gleed_prefill_at(gleed_engine *engine, gleed_seq seq, size_t position, const uint32_t *tokens,
                              size_t count, const float **logits, size_t *logits_len, gleed_error *error);

/* ---- Tokens in, logits out, in steps ----------------------------------------------------------------- */

/* Which of the queued tokens get logits, or a hidden state instead (see gleed_hidden). */
enum {
    GLEED_LOGITS_LAST = 0,        /* the last token gets logits */
    GLEED_LOGITS_ALL = 1,         /* all tokens get logits */
    GLEED_LOGITS_LAST_HIDDEN = 2, /* the last token gets a hidden state, none gets logits */
    GLEED_LOGITS_HIDDEN = 3       /* all tokens get a hidden state, none gets logits */
};

/*
 * Queues `count` tokens of a sequence. `logits` is GLEED_LOGITS_LAST, ... The call allocates the blocks of the tokens,
 * so that the later computation cannot run out of memory. It computes nothing. Sequences that are queued together are
 * computed together. Returns GLEED_FULL if the pool has too few free blocks.
 *   Memory   Keeps nothing: the tokens are copied.
 *   Time     Grows with count and the blocks of the sequence.
 *   Threads  One at a time per engine.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_LENGTH, GLEED_E_OBJECT, GLEED_E_VALUE (`logits`, or the engine is
 *            one of gleed_model_predictor), GLEED_E_SEQUENCE, GLEED_E_BUSY, GLEED_E_TOKEN, GLEED_E_EMPTY,
 *            GLEED_E_CONTEXT, GLEED_E_TOO_MANY; in an encoder GLEED_E_NO_LOGITS, GLEED_E_WHOLE, GLEED_E_ROWS.
 *   After    Nothing has changed.
 */
gleed_status gleed_queue(gleed_engine *engine, gleed_seq seq, const uint32_t *tokens, size_t count, uint32_t logits,
                         gleed_error *error);

/*
 * Does what gleed_queue does, if the sequence has `position` tokens: see gleed_prefill_at.
 *   Memory, Time, Threads, After   As gleed_queue.
 *   Errors   As gleed_queue; GLEED_E_POSITION (needed: the tokens of the sequence, given: the position).
 */
gleed_status gleed_queue_at(gleed_engine *engine, gleed_seq seq, size_t position, const uint32_t *tokens,
                            size_t count, uint32_t logits, gleed_error *error);

/*
 * Returns the time of the host's clock, in ticks of any length. The time must never run backwards. All workers call the
 * clock of a budget, at the same time.
 */
typedef uint64_t (*gleed_clock)(void *ctx);

/* The end of a step: the limit that is reached first ends it. */
typedef struct gleed_budget {
    uint32_t struct_size; /* sizeof(gleed_budget), set by the caller */
    uint32_t reserved;    /* 0 */
    uint64_t units;       /* the most units of work; 0: no limit. units_per_token of the plan: units for one token */
    uint64_t deadline;    /* once the clock shows this or more, no unit starts except the first of the step */
    gleed_clock clock;    /* NULL: no deadline */
    void *clock_ctx;      /* the argument of clock */
    const uint32_t *cancel; /* another thread or an interrupt writes a number other than 0 here to end the step. The
                               write should be atomic. NULL: no flag */
} gleed_budget;

/*
 * Computes queued tokens until one of these holds:
 *   - rows with logits or hidden states are finished (GLEED_READY);
 *   - nothing is queued (GLEED_OK);
 *   - the budget is used up (GLEED_YIELDED);
 *   - the cancel flag is set (GLEED_STOPPED).
 * Call it until it returns GLEED_OK; read the results after each GLEED_READY. More tokens can be queued in between. The
 * results do not depend on how the work is divided into steps. `budget` may be NULL: no limit.
 *   Memory   Keeps nothing. Invalidates earlier logits.
 *   Time     The budget, plus at most one unit per worker. A unit is a small part of the work of a layer.
 *   Threads  One at a time per engine.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_OBJECT, GLEED_E_STRUCT_SIZE, GLEED_E_VALUE, GLEED_E_NON_FINITE.
 *   After    Nothing has changed. Exception: after GLEED_E_NON_FINITE, the sequences of the batch keep their finished
 *            tokens and lose their queued tokens.
 */
gleed_status gleed_step(gleed_engine *engine, const gleed_budget *budget, gleed_error *error);

/*
 * Drops the tokens of a sequence that are queued and not finished. Finished tokens stay. Other sequences lose nothing.
 *   Memory   Keeps nothing. Invalidates earlier logits.
 *   Time     Grows with the blocks of the sequence.
 *   Threads  One at a time per engine.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_OBJECT, GLEED_E_SEQUENCE.
 *   After    Nothing has changed.
 */
gleed_status gleed_cancel(gleed_engine *engine, gleed_seq seq, gleed_error *error);

/*
 * Returns row `index`, from 0, of the rows that have logits in the last batch. *seq receives the handle of its
 * sequence, *position the position of its token, and *logits a pointer to *logits_len elements.
 *   Memory   Keeps nothing. The logits lie in the engine's memory. They are valid until the next call that takes
 *            the engine without const.
 *   Time     Grows with the number of rows.
 *   Threads  Any, while no call changes the engine.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_OBJECT, GLEED_E_NO_LOGITS (past the last row).
 *   After    Nothing is written.
 */
gleed_status gleed_result(const gleed_engine *engine, size_t index, gleed_seq *seq, uint32_t *position,
                          const float **logits, size_t *logits_len, gleed_error *error);

/*
 * Returns the logits of the last row of a sequence in the last batch. *logits receives a pointer to *logits_len
 * elements.
 *   Memory, Time, Threads, After   As gleed_result.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_OBJECT, GLEED_E_SEQUENCE, GLEED_E_NO_LOGITS.
 */
gleed_status gleed_logits(const gleed_engine *engine, gleed_seq seq, const float **logits, size_t *logits_len,
                          gleed_error *error);

/*
 * Returns row `index`, from 0, of the rows that have a hidden state in the last batch. *seq receives the handle of its
 * sequence, and *position the position of its token. *hidden receives a pointer to the output of the final norm, which
 * has *hidden_len elements: `hidden` of gleed_model_info.
 *   Memory   Keeps nothing. The hidden state lies in the engine's memory. It is valid until the next call that takes
 *            the engine without const; gleed_hidden is such a call. Invalidates earlier logits.
 *   Time     Constant: one norm.
 *   Threads  One at a time per engine.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_OBJECT, GLEED_E_NO_LOGITS (past the last row).
 *   After    Nothing is written.
 */
gleed_status gleed_hidden(gleed_engine *engine, size_t index, gleed_seq *seq, uint32_t *position, const float **hidden,
                          size_t *hidden_len, gleed_error *error);

/* ---- Figures ------------------------------------------------------------------------------------------ */

/* Times in ticks of a clock of the host. Without a clock all fields are 0. */
typedef struct gleed_times {
    uint64_t count;
    uint64_t sum; /* sum / count is the mean */
    uint64_t min;
    uint64_t max;
} gleed_times;

/* Forward passes of one phase. */
typedef struct gleed_passes {
    uint64_t count;    /* passes that came to their end */
    uint64_t rows;     /* rows of these passes */
    gleed_times times; /* ticks that each pass took in calls of the engine, without the host's work between two steps */
    uint64_t p50;      /* half of the passes took no longer than this; the error is at most 1/16 of it */
    uint64_t p99;      /* 99 of 100 passes took no longer than this; the error is at most 1/16 of it */
} gleed_passes;

/* What an engine has done since its start or since gleed_engine_reset_metrics. docs/metrics.md describes each field. */
typedef struct gleed_metrics {
    uint32_t struct_size;        /* sizeof(gleed_metrics), set by the caller */
    uint32_t reserved;           /* 0 */
    gleed_passes prefill;        /* passes over prompts: several tokens that were queued together */
    gleed_passes decode;         /* passes over single tokens */
    gleed_passes mixed;          /* passes over both */
    uint64_t dropped;            /* passes that a cancel or an error dropped */
    gleed_times first_token;     /* ticks from the call that queued a prompt to the logits of its last token */
    uint64_t decode_tokens;      /* tokens that decode passes appended; divided by decode.times.sum: tokens per tick */
    uint64_t rows_again;         /* rows that computed tokens again which were part of their sequence before */
    uint64_t saved_prefix;       /* rows that were not computed: tokens of cached prefixes */
    uint64_t saved_fork;         /* rows that were not computed: tokens with which forks began */
    uint64_t saved_checkpoint;   /* rows that were not computed: tokens before checkpoints that rewinds went back to */
    uint64_t saved_conversation; /* rows that were not computed: tokens that conversations found in their sequences */
    uint64_t guesses_proposed;   /* tokens that were guessed and looked at */
    uint64_t guesses_accepted;   /* guessed tokens that were right */
    uint64_t steps;              /* calls of gleed_step; a function that computes at once counts as one step or more */
    uint64_t yields;             /* steps that the budget ended: by units, deadline or flag */
    gleed_times overshoot;       /* ticks of the budget's clock by which steps that a deadline ended were late */
    uint64_t blocks_used;        /* blocks that sequences and pins hold now */
    uint64_t blocks_high_water;  /* the most blocks that were held at the same time, added up over the pools */
    uint64_t slots_used;         /* places for states of recurrent layers that are in use now */
    uint64_t slots_high_water;   /* the most such places that were in use at the same time */
} gleed_metrics;

/*
 * Lends a clock to the metrics of an engine. NULL takes it back; an engine starts without one. Without a clock all times
 * of gleed_metrics but `overshoot` are 0. The thread that calls the engine calls the clock: when a step begins, when a
 * forward pass ends, when a step ends before its pass does, and when a prompt is queued.
 *   Memory   Keeps `clock` and `ctx`, and calls the clock until another one is set.
 *   Time     Constant.
 *   Threads  One at a time per engine.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_OBJECT.
 *   After    Nothing has changed.
 */
gleed_status gleed_set_clock(gleed_engine *engine, gleed_clock clock, void *ctx, gleed_error *error);

/*
 * Writes what an engine has done to *metrics. Counts do not depend on the number of threads or on the machine.
 *   Memory   Keeps nothing.
 *   Time     Constant.
 *   Threads  Any, while no call changes the engine.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_OBJECT, GLEED_E_STRUCT_SIZE.
 *   After    Nothing is written.
 */
gleed_status gleed_engine_metrics(const gleed_engine *engine, gleed_metrics *metrics, gleed_error *error);

/*
 * Sets all counts and times to 0. Sets the high-water marks, also those of gleed_engine_info, to what is in use now.
 * Work in progress goes on and is counted when it ends.
 *   Memory   Keeps nothing.
 *   Time     Constant.
 *   Threads  One at a time per engine.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_OBJECT.
 *   After    Nothing has changed.
 */
gleed_status gleed_engine_reset_metrics(gleed_engine *engine, gleed_error *error);

/* ---- Embeddings and log probabilities ----------------------------------------------------------------- */

/* How the hidden states of several tokens become one vector. */
enum {
    GLEED_POOLING_MEAN = 0, /* the mean of all hidden states */
    GLEED_POOLING_LAST = 1, /* the hidden state of the last token */
    GLEED_POOLING_CLS = 2,  /* the hidden state of the first token */
    GLEED_POOLING_RANK = 3, /* no vector, but the output of a reranker's classifier: one number for each class */
    GLEED_POOLING_MODEL = 4 /* the pooling that the model's file asks for, or the mean if it asks for none */
};

/*
 * Writes to *used which of the first four poolings `pooling` stands for; `pooling` may be GLEED_POOLING_MODEL. Writes to
 * *values_len the number of elements of such an embedding. This is `hidden` of gleed_model_info, unless the model has
 * matrices behind the pooling; with GLEED_POOLING_RANK it is the number of classes.
 *   Memory   Keeps nothing.
 *   Time     Constant.
 *   Threads  Any.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_OBJECT, GLEED_E_VALUE (no such pooling, or GLEED_POOLING_RANK
 *            without a classifier).
 *   After    Nothing is written.
 */
gleed_status gleed_model_embedding(const gleed_model *model, uint32_t pooling, uint32_t *used, size_t *values_len,
                                   gleed_error *error);

/*
 * Appends `count` tokens to a sequence, which is usually empty, and writes an embedding of them to `values`. The
 * embedding is the pooled hidden states of the tokens. It is not scaled to length 1. `pooling` is GLEED_POOLING_MEAN,
 * ... `values_len` must be what gleed_model_embedding says.
 *   Memory   Keeps nothing. Invalidates earlier logits.
 *   Time     As gleed_prefill.
 *   Threads  One at a time per engine.
 *   Errors   As gleed_prefill; GLEED_E_VALUE (no such pooling), GLEED_E_SHAPE (values_len). In an encoder, whose tokens
 *            see later tokens, too: GLEED_E_WHOLE (the sequence is not empty), GLEED_E_ROWS (more tokens than `rows`).
 *   After    The sequence is as after the same error of gleed_prefill. `values` may be overwritten.
 */
gleed_status gleed_embed(gleed_engine *engine, gleed_seq seq, const uint32_t *tokens, size_t count, uint32_t pooling,
                         float *values, size_t values_len, gleed_error *error);

/*
 * Writes embeddings of several texts to `values`, one after the other, with the bits of gleed_embed. The tokens of the
 * texts lie one after the other in `tokens`; `lengths` has the number of tokens of each of the `texts` texts. As many
 * texts as fit a batch run together, each in a sequence that the call opens and closes, without adapters.
 *   Memory   Keeps nothing. Invalidates earlier logits.
 *   Time     As gleed_prefill of all texts, but the weights are read only once per batch.
 *   Threads  One at a time per engine.
 *   Errors   As gleed_embed; GLEED_E_VALUE (the lengths are not `count` tokens), GLEED_E_SHAPE (values_len is not
 *            `texts` times what gleed_model_embedding says), GLEED_E_EMPTY (a text without tokens), GLEED_FULL (no
 *            sequence is free).
 *   After    No sequence has changed. `values` may be overwritten.
 */
gleed_status gleed_embed_texts(gleed_engine *engine, const uint32_t *tokens, size_t count, const size_t *lengths,
                               size_t texts, uint32_t pooling, float *values, size_t values_len, gleed_error *error);

/*
 * Appends `count` tokens to a sequence and writes their log probabilities to `values`. values[i] is the natural
 * logarithm of the probability of tokens[i + 1] after all tokens before it, so `values_len` must be count - 1. To score
 * a continuation, begin with the last token of the text that it continues.
 *   Memory   Keeps nothing. Invalidates earlier logits.
 *   Time     As gleed_prefill with logits for each token, of which `logit_rows` of the config are computed at a time.
 *   Threads  One at a time per engine.
 *   Errors   As gleed_prefill; GLEED_E_SHAPE (values_len).
 *   After    The sequence is as after the same error of gleed_prefill. `values` may be overwritten.
 */
gleed_status gleed_log_probs(gleed_engine *engine, gleed_seq seq, const uint32_t *tokens, size_t count, float *values,
                             size_t values_len, gleed_error *error);

/* ---- Adapters ----------------------------------------------------------------------------------------- */

/*
 * A LoRA adapter: a description of a GGUF file with pairs of small matrices, which are added to matrices of a model. An
 * adapter is read-only. Any number of engines over its model share it.
 */
typedef struct gleed_adapter gleed_adapter;

/* The properties of an adapter. */
typedef struct gleed_adapter_info {
    uint32_t struct_size; /* sizeof(gleed_adapter_info), set by the caller */
    uint32_t rank;        /* the largest rank of its matrices; adapter_rank of the config must be at least this */
} gleed_adapter_info;

/*
 * Returns the size and alignment of the memory of an adapter, in bytes. The size is a few hundred bytes, the same for
 * every file.
 *   Memory, Time, Threads, Errors, After   As gleed_model_size.
 */
gleed_status gleed_adapter_size(size_t *size, size_t *align, gleed_error *error);

/*
 * Checks that `bytes` is the GGUF file of an adapter that fits `model`, and makes an adapter of it in `memory`.
 * *adapter receives a pointer to it. An adapter with pairs for embeddings, norms or experts is rejected.
 *   Memory   Keeps `bytes` and `memory`, until the last use of the adapter and of the engines that have loaded it. Does
 *            not keep the model.
 *   Time     Grows with the metadata and the square of the number of tensors. The matrices are not touched.
 *   Threads  Any.
 *   Errors   As gleed_model_open; GLEED_E_OBJECT.
 *   After    Nothing is written, not even to `memory`.
 */
gleed_status gleed_adapter_open(const gleed_model *model, const uint8_t *bytes, size_t len, void *memory,
                                size_t memory_len, const gleed_adapter **adapter, gleed_error *error);

/*
 * Writes the properties of an adapter to *info.
 *   Memory   Keeps nothing.
 *   Time     Constant.
 *   Threads  Any.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_OBJECT, GLEED_E_STRUCT_SIZE.
 *   After    Nothing is written.
 */
gleed_status gleed_adapter_describe(const gleed_adapter *adapter, gleed_adapter_info *info, gleed_error *error);

/*
 * Loads an adapter into an engine, for the life of the engine. *number receives its number: 0 for the first adapter, 1
 * for the second, and so on. The adapter has no effect on a sequence before gleed_seq_set_adapter. The weights of the
 * model do not change.
 *   Memory   Keeps the bytes of the adapter's file. Does not keep the adapter.
 *   Time     Grows with the number of tensors of the adapter.
 *   Threads  One at a time per engine.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_OBJECT, GLEED_E_VALUE (it was opened for another kind of model),
 *            GLEED_E_BUSY, GLEED_E_ADAPTER_ROOM.
 *   After    Nothing has changed.
 */
gleed_status gleed_engine_load_adapter(gleed_engine *engine, const gleed_adapter *adapter, uint32_t *number,
                                       gleed_error *error);

/*
 * Sets the scale of an adapter for a sequence, from its next token on. The output of the adapter is multiplied by
 * `scale`. With scale 0 the results have the bits of the model alone. A new sequence has scale 0 for all adapters, a
 * fork has the scales of its parent. Several adapters can be active at once. Keys and values that are already computed
 * do not change. A sequence with an active adapter does not take part in gleed_reuse. Snapshots do not contain scales:
 * set them again after a restore.
 *   Memory   Keeps nothing.
 *   Time     Constant.
 *   Threads  One at a time per engine.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_OBJECT, GLEED_E_SEQUENCE, GLEED_E_BUSY, GLEED_E_ADAPTER,
 *            GLEED_E_VALUE (the scale is not finite).
 *   After    Nothing has changed.
 */
gleed_status gleed_seq_set_adapter(gleed_engine *engine, gleed_seq seq, uint32_t number, float scale,
                                   gleed_error *error);

/*
 * Returns the scale of an adapter for a sequence in *scale.
 *   Memory   Keeps nothing.
 *   Time     Constant.
 *   Threads  Any, while no call changes the engine.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_OBJECT, GLEED_E_SEQUENCE, GLEED_E_ADAPTER.
 *   After    Nothing is written.
 */
gleed_status gleed_seq_adapter(const gleed_engine *engine, gleed_seq seq, uint32_t number, float *scale,
                               gleed_error *error);

/* ---- Cached prefixes and room in the pool ------------------------------------------------------------- */

/*
 * Starts an empty sequence with the cached prefix of a prompt of `count` tokens. *reused receives the number of tokens
 * in that prefix: a multiple of 16, less than count. Prefill the remaining tokens. A cached prefix consists of full
 * blocks of 16 tokens, from the start of the prompt on, that the engine computed for any sequence, open or closed.
 * *reused is 0 if the config has no prefix_cache.
 *   Memory   Keeps nothing.
 *   Time     Grows with count.
 *   Threads  One at a time per engine.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_LENGTH, GLEED_E_OBJECT, GLEED_E_CONTEXT (longer than any
 *            sequence), GLEED_E_SEQUENCE, GLEED_E_BUSY, GLEED_E_POSITION (the sequence is not empty).
 *   After    Nothing has changed.
 */
gleed_status gleed_reuse(gleed_engine *engine, gleed_seq seq, const uint32_t *tokens, size_t count, size_t *reused,
                         gleed_error *error);

/*
 * Fills an empty sequence with a prompt: gleed_reuse, then gleed_prefill of the remaining tokens.
 *   Memory, Time, Threads   As gleed_prefill.
 *   Errors   As gleed_prefill; GLEED_E_POSITION (the sequence is not empty).
 *   After    The sequence is empty, and the statistics may count the look-up. Logits are as after gleed_prefill.
 */
gleed_status gleed_prefill_prompt(gleed_engine *engine, gleed_seq seq, const uint32_t *tokens, size_t count,
                                  const float **logits, size_t *logits_len, gleed_error *error);

/*
 * Pins the cached prefix of a prompt of `count` tokens: its blocks stay cached until gleed_unpin, even if no sequence
 * holds them. *pinned receives the number of tokens in that prefix. Pins are counted: unpin once per pin.
 *   Memory   Keeps nothing but the blocks.
 *   Time     Grows with count.
 *   Threads  One at a time per engine.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_LENGTH, GLEED_E_OBJECT, GLEED_E_CONTEXT (longer than any
 *            sequence).
 *   After    Nothing has changed.
 */
gleed_status gleed_pin(gleed_engine *engine, const uint32_t *tokens, size_t count, size_t *pinned, gleed_error *error);

/*
 * Removes one pin from each pinned block of a prompt of `count` tokens. *unpinned receives the number of tokens in
 * these blocks. To undo one gleed_pin exactly, pass the first *pinned tokens of its prompt.
 *   Memory, Time, Threads, Errors, After   As gleed_pin.
 */
gleed_status gleed_unpin(gleed_engine *engine, const uint32_t *tokens, size_t count, size_t *unpinned,
                         gleed_error *error);

/* Decides whether gleed_make_room may close a sequence. Returns 0 if not. `info` is valid until it returns. */
typedef int32_t (*gleed_consent)(void *ctx, gleed_seq seq, const gleed_seq_info *info);

/*
 * Closes idle sequences, the least recently used first, until `tokens` more tokens fit in `seq`. *closed receives the
 * number of closed sequences. The call asks `consent` for each of them; if `consent` is NULL, it may close all. Returns
 * GLEED_FULL and closes none if the sequences that it may close are not enough.
 *   Memory   Keeps nothing.
 *   Time     Grows with the blocks of the sequences that it considers.
 *   Threads  One at a time per engine.
 *   Errors   As gleed_can_extend.
 *   After    Nothing has changed.
 */
gleed_status gleed_make_room(gleed_engine *engine, gleed_seq seq, size_t tokens, gleed_consent consent, void *ctx,
                             size_t *closed, gleed_error *error);

/* The rank of a sequence that is never closed. */
#define GLEED_RANK_NEVER UINT64_MAX

/* Ranks a sequence that gleed_make_room could close. `info` is valid until it returns. */
typedef uint64_t (*gleed_rank_seq)(void *ctx, gleed_seq seq, const gleed_seq_info *info);

/* A block that could be chosen. */
typedef struct gleed_block_info {
    uint32_t struct_size;   /* sizeof(gleed_block_info) */
    uint32_t block;         /* the number of the block in its pool */
    uint32_t group;         /* the layer group whose pool it is: 0, or 1 for the second group if the model has two */
    gleed_seq seq;          /* the sequence that gets the block */
    uint32_t is_cached;     /* 1: the block has tokens of a cached prefix, and no sequence or pin holds it */
    uint32_t position;      /* if is_cached is 1: the position of its first token */
    const uint32_t *tokens; /* if is_cached is 1: its 16 tokens; otherwise NULL */
} gleed_block_info;

/* Ranks a block. `block` is valid until it returns. */
typedef uint64_t (*gleed_rank_block)(void *ctx, const gleed_block_info *block);

/*
 * How a host chooses: each function ranks the candidates, and the candidate with the lowest rank is taken. Among equal
 * ranks, and if a function is NULL, the library takes the one that it would choose itself. No rank changes any logits.
 */
typedef struct gleed_cache_policy {
    uint32_t struct_size;      /* sizeof(gleed_cache_policy), set by the caller */
    uint32_t reserved;         /* 0 */
    gleed_rank_seq close;      /* which sequence gleed_make_room closes; default: the least recently used one */
    gleed_rank_block evict;    /* which cached prefix is evicted; default: the one that was given back first */
    gleed_rank_block hand_out; /* which free block is handed out; default: the one that was given back last */
    void *ctx;                 /* the first argument of all three */
} gleed_cache_policy;

/*
 * Sets the policy of an engine's cache. If `policy` is NULL, the library chooses; an engine starts like that.
 * gleed_make_room calls `close`. Functions that take blocks, such as gleed_prefill and gleed_queue, call `evict` and
 * `hand_out`: for each block that is taken, each candidate is ranked once.
 *   Memory   Keeps a copy of *policy and calls its functions until another one is set.
 *   Time     Constant.
 *   Threads  One at a time per engine.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_OBJECT, GLEED_E_STRUCT_SIZE, GLEED_E_VALUE.
 *   After    Nothing has changed.
 */
gleed_status gleed_set_cache_policy(gleed_engine *engine, const gleed_cache_policy *policy, gleed_error *error);

/* ---- Snapshots --------------------------------------------------------------------------------------- */

/* The options of a snapshot. */
typedef struct gleed_snapshot_options {
    uint32_t struct_size; /* sizeof(gleed_snapshot_options), set by the caller */
    uint32_t base;        /* the snapshot leaves out the first `base` tokens, which the reader has: a delta. A multiple
                             of 16; 0: the whole sequence */
    const uint8_t *state; /* bytes of the host, the state of a sampler for example; NULL: none */
    size_t state_len;     /* bytes of state, at most 256 */
    uint32_t checkpoints; /* the most checkpoints of recurrent layers to write: the last ones of the sequence, at most 16.
                             Each has state_bytes of gleed_plan_info. A reader keeps those for which it has free places */
    uint32_t reserved;    /* 0 */
} gleed_snapshot_options;

/* The header of a snapshot. */
typedef struct gleed_snapshot_info {
    uint32_t struct_size; /* sizeof(gleed_snapshot_info), set by the caller */
    uint32_t tokens;      /* tokens of the sequence, those of the base included */
    uint32_t base;        /* tokens that are not in the snapshot; if this is not 0, the snapshot is a delta */
    uint32_t state_len;   /* bytes of state */
    uint64_t bytes;       /* size of the snapshot */
    uint64_t fingerprint; /* of the model */
    uint8_t state[256];   /* bytes of the host, then zeros */
} gleed_snapshot_info;

/* Takes the next `len` bytes of a snapshot. Returns 0 on success. */
typedef int32_t (*gleed_sink)(void *ctx, const uint8_t *bytes, size_t len);

/*
 * Writes the next bytes of a snapshot to `bytes`, at most `len`, and returns how many. 0 means the end of the snapshot.
 * A number larger than `len`, SIZE_MAX for example, means failure.
 */
typedef size_t (*gleed_source)(void *ctx, uint8_t *bytes, size_t len);

/*
 * Returns the size of a snapshot of a sequence in *size, in bytes. `options` may be NULL: the whole sequence, no state.
 *   Memory   Keeps nothing.
 *   Time     Constant.
 *   Threads  Any, while no call changes the engine.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_LENGTH, GLEED_E_OBJECT, GLEED_E_STRUCT_SIZE, GLEED_E_VALUE,
 *            GLEED_E_SEQUENCE, GLEED_E_BUSY, GLEED_E_WINDOW, GLEED_E_NOT_KEPT, GLEED_E_SNAPSHOT_BASE.
 *   After    Nothing is written.
 */
gleed_status gleed_snapshot_size(const gleed_engine *engine, gleed_seq seq, const gleed_snapshot_options *options,
                                 size_t *size, gleed_error *error);

/*
 * Writes a snapshot of a sequence to `bytes`, which has room for `len` bytes. *written receives the size of the
 * snapshot in bytes. docs/snapshot.md describes the format.
 *   Memory   Keeps nothing.
 *   Time     Grows with the number of tokens.
 *   Threads  Any, while no call changes the engine.
 *   Errors   As gleed_snapshot_size; GLEED_E_SNAPSHOT_BUFFER.
 *   After    Nothing is written.
 */
gleed_status gleed_snapshot(const gleed_engine *engine, gleed_seq seq, const gleed_snapshot_options *options,
                            uint8_t *bytes, size_t len, size_t *written, gleed_error *error);

/*
 * Writes a snapshot of a sequence through a callback. `sink` gets the bytes in order, in pieces of at most the keys and
 * values of one layer of 16 tokens. *written receives the size of the snapshot in bytes.
 *   Memory, Time, Threads   As gleed_snapshot.
 *   Errors   As gleed_snapshot_size; GLEED_E_SNAPSHOT_HOST (the callback did not take bytes).
 *   After    Nothing is written, apart from what the callback has already taken.
 */
gleed_status gleed_snapshot_write(const gleed_engine *engine, gleed_seq seq, const gleed_snapshot_options *options,
                                  gleed_sink sink, void *ctx, uint64_t *written, gleed_error *error);

/*
 * Opens a sequence with the contents of the snapshot in `bytes`. *seq receives its handle. All of the snapshot is
 * verified before the sequence exists. For a delta, *base is the sequence that has the tokens before it: the new
 * sequence shares or copies their blocks, as gleed_fork does, and has the adapter scales of the base. For a snapshot
 * of a whole sequence, `base` is not used and may be NULL. Returns GLEED_FULL if no sequence or too few blocks are
 * free. To replace a sequence, restore it first, then close the old one.
 *   Memory   Keeps nothing.
 *   Time     Grows with the number of tokens.
 *   Threads  One at a time per engine.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_LENGTH, GLEED_E_OBJECT, GLEED_E_SEQUENCE, GLEED_E_BUSY,
 *            GLEED_E_WINDOW (the base has evicted tokens that the delta continues), GLEED_E_CONTEXT, GLEED_E_TOO_MANY,
 *            GLEED_E_NOT_KEPT, GLEED_E_SNAPSHOT*.
 *   After    Nothing has changed.
 */
gleed_status gleed_restore(gleed_engine *engine, const gleed_seq *base, const uint8_t *bytes, size_t len,
                           gleed_seq *seq, gleed_error *error);

/*
 * Opens a sequence as gleed_restore does, from bytes that a callback gives. *info receives the header of the snapshot;
 * `info` may be NULL.
 *   Memory, Time, Threads   As gleed_restore. The callback writes to the engine's memory, within the bytes that it is
 *            given.
 *   Errors   As gleed_restore; GLEED_E_STRUCT_SIZE, GLEED_E_SNAPSHOT_HOST (the callback did not give bytes).
 *   After    Nothing has changed.
 */
gleed_status gleed_snapshot_read(gleed_engine *engine, const gleed_seq *base, gleed_source source, void *ctx,
                                 gleed_seq *seq, gleed_snapshot_info *info, gleed_error *error);

/*
 * Writes the header of a snapshot to *info. The bytes after the header are not read and may be missing.
 *   Memory   Keeps nothing.
 *   Time     Constant.
 *   Threads  Any.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_LENGTH, GLEED_E_STRUCT_SIZE, GLEED_E_SNAPSHOT,
 *            GLEED_E_SNAPSHOT_MAGIC, GLEED_E_SNAPSHOT_VERSION, GLEED_E_SNAPSHOT_TRUNCATED.
 *   After    Nothing is written.
 */
gleed_status gleed_snapshot_describe(const uint8_t *bytes, size_t len, gleed_snapshot_info *info, gleed_error *error);

/* ---- Export and import of keys and values ------------------------------------------------------------- */

/*
 * Copies the keys and values of one layer of a sequence to `keys` and `values`. Each buffer has `len` elements:
 * [tokens, kv_heads * head_dim] of that layer. `layer` counts only the layers that have keys and values of their own.
 *   Memory   Keeps nothing.
 *   Time     Grows with len.
 *   Threads  Any, while no call changes the engine.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_LENGTH, GLEED_E_OBJECT, GLEED_E_VALUE (the buffers overlap),
 *            GLEED_E_SEQUENCE, GLEED_E_BUSY, GLEED_E_LAYER, GLEED_E_SHAPE, GLEED_E_WINDOW.
 *   After    Nothing is written.
 */
gleed_status gleed_materialize(const gleed_engine *engine, gleed_seq seq, uint32_t layer, float *keys, float *values,
                               size_t len, gleed_error *error);

/*
 * Imports the keys and values of one layer into a sequence, in place of those that it has. Call it for each layer, from
 * 0 to the last, which finishes the tokens. Each array has `len` elements: [tokens, kv_heads * head_dim]. Once layer 0 is
 * imported, the sequence's earlier tokens are gone. Returns GLEED_FULL if the free blocks of the pool and the sequence's
 * own blocks together are too few.
 *   Memory   Keeps nothing.
 *   Time     Grows with len; if the sequence has tokens, also with the blocks of the engine.
 *   Threads  One at a time per engine.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_LENGTH, GLEED_E_OBJECT, GLEED_E_SEQUENCE, GLEED_E_BUSY,
 *            GLEED_E_POSITION (the earlier layers were appended), GLEED_E_LAYER, GLEED_E_SHAPE, GLEED_E_CONTEXT,
 *            GLEED_E_TOO_MANY, GLEED_E_NON_FINITE, GLEED_E_NOT_KEPT.
 *   After    Nothing has changed: the layer can be imported again.
 */
gleed_status gleed_set_prefill(gleed_engine *engine, gleed_seq seq, uint32_t layer, const float *keys,
                               const float *values, size_t len, gleed_error *error);

/*
 * Imports the keys and values of one more token, layer by layer as gleed_set_prefill does. `len` is
 * kv_heads * head_dim.
 *   Memory, Time, Threads, Errors, After   As gleed_set_prefill.
 */
gleed_status gleed_push_row(gleed_engine *engine, gleed_seq seq, uint32_t layer, const float *keys,
                            const float *values, size_t len, gleed_error *error);

/*
 * Imports the keys and values of one layer into `count` sequences, as gleed_set_prefill does. Each sequence gets the same
 * number of tokens. Each array has `len` elements: [count, tokens, kv_heads * head_dim]. All sequences take the layer or
 * none.
 *   Memory   Keeps nothing.
 *   Time     Grows with len and with the number of sequences and of blocks of the engine.
 *   Threads  One at a time per engine.
 *   Errors   As gleed_set_prefill; GLEED_E_VALUE (the engine has fewer sequences, or a sequence is given twice).
 *   After    Nothing has changed: the layer can be imported again.
 */
gleed_status gleed_set_prefill_batch(gleed_engine *engine, const gleed_seq *seqs, size_t count, uint32_t layer,
                                     const float *keys, const float *values, size_t len, gleed_error *error);

/*
 * Appends the keys and values of one layer to `count` sequences, layer by layer as gleed_set_prefill imports them. Each
 * sequence gets the same number of tokens. positions[i] is the position of the first new token of seqs[i]: it must be the
 * number of tokens that the sequence has. Each array has `len` elements: [count, tokens, kv_heads * head_dim]. All
 * sequences take the layer or none.
 *   Memory   Keeps nothing.
 *   Time     Grows with len and with the number of sequences of the engine.
 *   Threads  One at a time per engine.
 *   Errors   As gleed_set_prefill_batch; GLEED_E_POSITION (needed: the tokens of the sequence, given: the position).
 *   After    Nothing has changed: the layer can be imported again.
 */
gleed_status gleed_append_rows(gleed_engine *engine, const gleed_seq *seqs, const size_t *positions, size_t count,
                               uint32_t layer, const float *keys, const float *values, size_t len,
                               gleed_error *error);

/* ---- From logits to a token --------------------------------------------------------------------------- */

/* A sampler: parameters, the last accepted tokens, and a random generator. A sampler belongs to no engine. */
typedef struct gleed_sampler gleed_sampler;

/* How a sampler chooses a token. 0 means the default. With all fields 0 it takes the most probable token. */
typedef struct gleed_sampler_params {
    uint32_t struct_size;     /* sizeof(gleed_sampler_params), set by the caller */
    uint32_t top_k;           /* keeps this many of the most probable tokens; default: all */
    float temperature;        /* divides the logits; default: takes the most probable token and draws nothing */
    float top_p;              /* keeps the most probable tokens that together have this probability; default 1: all */
    float min_p;              /* keeps tokens with at least min_p times the largest probability; default: all */
    float repetition_penalty; /* divides positive and multiplies negative logits of repeated tokens; default 1 */
    float frequency_penalty;  /* subtracted from the logit of a repeated token for each time it occurs */
    float presence_penalty;   /* subtracted from the logit of a repeated token once */
    uint32_t penalty_window;  /* last accepted tokens that the penalties count, at most 256; default 64 */
    uint32_t reserved;        /* 0 */
    uint64_t seed;            /* start of the random generator */
} gleed_sampler_params;

/* A number that is added to the logit of a token. -infinity bans the token. */
typedef struct gleed_bias {
    uint32_t token;
    float bias;
} gleed_bias;

/*
 * Returns the size and alignment of the memory of a sampler, in bytes. The size is about 2 KiB, always the same.
 *   Memory   Keeps nothing.
 *   Time     Constant.
 *   Threads  Any.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT.
 *   After    Nothing is written.
 */
gleed_status gleed_sampler_size(size_t *size, size_t *align, gleed_error *error);

/*
 * Starts a sampler in `memory`. *sampler receives a pointer to it. `params` may be NULL: all defaults.
 *   Memory   Keeps `memory`. Does not keep the params.
 *   Time     Constant.
 *   Threads  Any, each with memory of its own.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_LENGTH, GLEED_E_STRUCT_SIZE, GLEED_E_VALUE,
 *            GLEED_E_MEMORY_TOO_SMALL, GLEED_E_MEMORY_MISALIGNED.
 *   After    Nothing is written, not even to `memory`.
 */
gleed_status gleed_sampler_init(const gleed_sampler_params *params, void *memory, size_t memory_len,
                                gleed_sampler **sampler, gleed_error *error);

/*
 * Replaces all biases of a sampler by `count` others, at most 64. If a token is listed twice, both biases are added.
 *   Memory   Keeps nothing: the biases are copied.
 *   Time     Constant.
 *   Threads  One at a time per sampler.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_LENGTH, GLEED_E_OBJECT, GLEED_E_VALUE.
 *   After    Nothing has changed.
 */
gleed_status gleed_sampler_set_biases(gleed_sampler *sampler, const gleed_bias *biases, size_t count,
                                      gleed_error *error);

/*
 * Adds a token to the text that the penalties count. gleed_sample does not do this, because the host may discard the
 * chosen token. The host also decides whether the prompt counts.
 *   Memory   Keeps nothing.
 *   Time     Constant.
 *   Threads  One at a time per sampler.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_OBJECT.
 *   After    Nothing has changed.
 */
gleed_status gleed_sampler_accept(gleed_sampler *sampler, uint32_t token, gleed_error *error);

/*
 * Returns the state of the random generator in *state. To continue with the same choices later, start a sampler with
 * the same params and biases, accept the last tokens again, and set this state.
 *   Memory   Keeps nothing.
 *   Time     Constant.
 *   Threads  Any, while no call changes the sampler.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_OBJECT.
 *   After    Nothing is written.
 */
gleed_status gleed_sampler_state(const gleed_sampler *sampler, uint64_t *state, gleed_error *error);

/*
 * Sets the state of the random generator to one that gleed_sampler_state returned.
 *   Memory, Time, Threads, Errors, After   As gleed_sampler_accept.
 */
gleed_status gleed_sampler_set_state(gleed_sampler *sampler, uint64_t state, gleed_error *error);

/*
 * Chooses a token and returns its id in *token. *probability receives the probability of the token among the tokens that
 * it was drawn from; `probability` may be NULL. `scratch` must have logits_len elements of 8 bytes, with any params. For
 * logits of a model, logits_len is `vocab` of gleed_model_info.
 *   Memory   Keeps nothing. The contents of `scratch` are overwritten, also after an error.
 *   Time     Grows with logits_len.
 *   Threads  One at a time per sampler.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_LENGTH, GLEED_E_OBJECT, GLEED_E_NO_LOGITS (logits_len is 0),
 *            GLEED_E_SCRATCH_TOO_SMALL, GLEED_E_NON_FINITE, GLEED_E_TOKEN (of a bias), GLEED_E_ALL_BANNED.
 *   After    Nothing else is written, and the state of the generator has not changed.
 */
gleed_status gleed_sample(gleed_sampler *sampler, const float *logits, size_t logits_len, uint64_t *scratch,
                          size_t scratch_len, uint32_t *token, float *probability, gleed_error *error);

/*
 * Returns the token with the largest logit in *token; among equal logits, the lowest id. It needs no sampler.
 *   Memory   Keeps nothing.
 *   Time     Grows with logits_len.
 *   Threads  Any.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_LENGTH, GLEED_E_NO_LOGITS (logits_len is 0), GLEED_E_NON_FINITE.
 *   After    Nothing is written.
 */
gleed_status gleed_argmax(const float *logits, size_t logits_len, uint32_t *token, gleed_error *error);

/* ---- Text to tokens and back -------------------------------------------------------------------------- */

/* A tokenizer: the vocabulary of a model with its tables. A tokenizer is read-only. Any number of threads share it. */
typedef struct gleed_tokenizer gleed_tokenizer;

/* A detokenizer: turns a stream of tokens into text. */
typedef struct gleed_detokenizer gleed_detokenizer;

/* No token: the vocabulary has no token for a purpose, or the keys and values of a token were imported. */
#define GLEED_NO_TOKEN UINT32_MAX

/* The properties of a vocabulary. */
typedef struct gleed_vocab_info {
    uint32_t struct_size; /* sizeof(gleed_vocab_info), set by the caller */
    uint32_t tokens;      /* ids are below this */
    uint32_t bos;         /* begins a text; GLEED_NO_TOKEN if there is none, likewise below */
    uint32_t eos;         /* ends a text */
    uint32_t eot;         /* ends a turn */
    uint32_t eom;         /* ends a message */
    uint32_t unknown;     /* stands for text that no token spells */
    uint32_t max_text;    /* the most bytes that gleed_detokenize writes for one token */
    uint32_t adds_bos;    /* 1: GLEED_ENCODE_ADD_SPECIAL puts bos in front */
    uint32_t adds_eos;    /* 1: GLEED_ENCODE_ADD_SPECIAL puts eos at the end */
} gleed_vocab_info;

/* The kind of a token. */
enum {
    GLEED_TOKEN_UNDEFINED = 0,
    GLEED_TOKEN_NORMAL = 1,       /* ordinary text */
    GLEED_TOKEN_UNKNOWN = 2,      /* stands for text that no token spells */
    GLEED_TOKEN_CONTROL = 3,      /* steers the model */
    GLEED_TOKEN_USER_DEFINED = 4, /* matched in every text, before anything else */
    GLEED_TOKEN_UNUSED = 5,
    GLEED_TOKEN_BYTE = 6          /* a single byte */
};

/* Flags of gleed_encode. They may be combined with |. */
enum {
    GLEED_ENCODE_ADD_SPECIAL = 1,   /* adds the tokens that begin and end a text, if the vocabulary says so */
    GLEED_ENCODE_PARSE_SPECIAL = 2, /* turns names of control tokens into these tokens; not for untrusted text */
    GLEED_ENCODE_EXACT = 4,         /* refuses a text with bytes that the vocabulary cannot spell */
    GLEED_ENCODE_CONTINUES = 8      /* the text continues another one: no blank is put before it */
};

/* Flags of gleed_detokenizer_init. They may be combined with |. */
enum {
    GLEED_DECODE_RENDER_SPECIAL = 1, /* writes the names of control tokens; without it they are left out */
    GLEED_DECODE_CONTINUES = 2       /* the text continues another one, as a reply does */
};

/*
 * Returns the size and alignment of the memory of a model's tokenizer, in bytes.
 *   Memory   Keeps nothing.
 *   Time     Grows with the vocabulary.
 *   Threads  Any.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_OBJECT, GLEED_E_VOCAB*, GLEED_E_MEMORY_TOO_LARGE.
 *   After    Nothing is written.
 */
gleed_status gleed_tokenizer_size(const gleed_model *model, size_t *size, size_t *align, gleed_error *error);

/*
 * Starts the tokenizer of a model in `memory`, where it builds its tables. *tokenizer receives a pointer to it.
 *   Memory   Keeps `memory` and the bytes of the model's file. Does not keep the model.
 *   Time     Grows with the vocabulary.
 *   Threads  Any, each with memory of its own.
 *   Errors   As gleed_tokenizer_size; GLEED_E_LENGTH, GLEED_E_MEMORY_TOO_SMALL, GLEED_E_MEMORY_MISALIGNED.
 *   After    Nothing is written. Exception: GLEED_E_VOCAB* leaves `memory` overwritten.
 */
gleed_status gleed_tokenizer_init(const gleed_model *model, void *memory, size_t memory_len,
                                  const gleed_tokenizer **tokenizer, gleed_error *error);

/*
 * Writes the properties of a vocabulary to *info.
 *   Memory   Keeps nothing.
 *   Time     Constant.
 *   Threads  Any.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_OBJECT, GLEED_E_STRUCT_SIZE.
 *   After    Nothing is written.
 */
gleed_status gleed_tokenizer_describe(const gleed_tokenizer *tokenizer, gleed_vocab_info *info, gleed_error *error);

/*
 * Returns the kind of a token in *kind: GLEED_TOKEN_NORMAL, ... *is_end receives 1 if the token ends a generation, as
 * the end of a text, of a turn or of a message does, otherwise 0.
 *   Memory   Keeps nothing.
 *   Time     Constant.
 *   Threads  Any.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_OBJECT, GLEED_E_TOKEN.
 *   After    Nothing is written.
 */
gleed_status gleed_token_kind(const gleed_tokenizer *tokenizer, uint32_t token, uint32_t *kind, uint32_t *is_end,
                              gleed_error *error);

/*
 * Returns the id of the token with exactly this text, "<|im_start|>" for example, in *token. *token receives
 * GLEED_NO_TOKEN if no token has it. `text` has text_len bytes, spelled as in the file: there, blanks and bytes of
 * ordinary tokens have the vocabulary's own spelling.
 *   Memory   Keeps nothing.
 *   Time     Grows with text_len.
 *   Threads  Any.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_LENGTH, GLEED_E_OBJECT.
 *   After    Nothing is written.
 */
gleed_status gleed_vocab_find(const gleed_tokenizer *tokenizer, const char *text, size_t text_len, uint32_t *token,
                              gleed_error *error);

/*
 * Adds biases for the tokens that spell a text to those that the sampler has. Each token that is exactly this text gets the
 * bias. If the tokenizer writes the text as several tokens, the last of them gets it wherever the others were accepted just
 * before (gleed_sampler_accept). -INFINITY bans the text. A word in a sentence begins with its blank: " dog" and "dog" are two
 * texts. Tokens that contain the text, as "dogs" does, stay as they are. *count receives the number of biases that were added.
 * A sampler has room for 64 biases, and for 128 tokens before last ones; gleed_sampler_set_biases removes all biases. If the
 * scratch is too small, `needed` of the error says how many elements are needed.
 *   Memory   Keeps nothing. The contents of `scratch` are overwritten, also after an error.
 *   Time     Grows with the size of the vocabulary.
 *   Threads  One at a time per sampler.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_LENGTH, GLEED_E_OBJECT, GLEED_E_VALUE, GLEED_E_TEXT,
 *            GLEED_E_TEXT_TOO_LONG, GLEED_E_TEXT_SPELLING, GLEED_E_SCRATCH_TOO_SMALL.
 *   After    Nothing else has changed.
 */
gleed_status gleed_sampler_bias_text(gleed_sampler *sampler, const gleed_tokenizer *tokenizer, const char *text,
                                     size_t text_len, float bias, uint32_t *scratch, size_t scratch_len, size_t *count,
                                     gleed_error *error);

/*
 * Encodes a text as tokens. `text` has text_len bytes of UTF-8, which need no 0 at the end. `flags` are
 * GLEED_ENCODE_ADD_SPECIAL, ... *count receives the number of tokens. 2,000 elements of scratch suffice for most texts
 * of any length. If they do not, or if `tokens` is too short, `needed` of the error says how many elements are needed.
 *
 * Bytes that the vocabulary cannot spell are left out; gleed_unspelled counts them. In a SentencePiece vocabulary, a
 * character with such a byte becomes the unknown token. With GLEED_ENCODE_EXACT the call returns GLEED_E_TEXT_SPELLING.
 *   Memory   Keeps nothing. The contents of `scratch` are overwritten, also after an error.
 *   Time     Grows with n log n, where n is text_len.
 *   Threads  Any, each with scratch of its own.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_LENGTH, GLEED_E_OBJECT, GLEED_E_VALUE, GLEED_E_TEXT,
 *            GLEED_E_TEXT_TOO_LONG, GLEED_E_TEXT_SPELLING, GLEED_E_SCRATCH_TOO_SMALL, GLEED_E_OUTPUT_TOO_SMALL.
 *   After    Nothing else is written.
 */
gleed_status gleed_encode(const gleed_tokenizer *tokenizer, const char *text, size_t text_len, uint32_t flags,
                          uint32_t *scratch, size_t scratch_len, uint32_t *tokens, size_t tokens_len, size_t *count,
                          gleed_error *error);

/*
 * Writes to *bytes how many bytes of a text the vocabulary cannot spell: the bytes that gleed_encode with these arguments
 * leaves out, or writes as the unknown token. GLEED_ENCODE_EXACT makes no difference.
 *   Memory   Keeps nothing. The contents of `scratch` are overwritten, also after an error.
 *   Time     Grows with n log n, where n is text_len.
 *   Threads  Any, each with scratch of its own.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_LENGTH, GLEED_E_OBJECT, GLEED_E_VALUE, GLEED_E_TEXT,
 *            GLEED_E_TEXT_TOO_LONG, GLEED_E_SCRATCH_TOO_SMALL.
 *   After    Nothing else is written.
 */
gleed_status gleed_unspelled(const gleed_tokenizer *tokenizer, const char *text, size_t text_len, uint32_t flags,
                             uint32_t *scratch, size_t scratch_len, size_t *bytes, gleed_error *error);

/*
 * Returns the size and alignment of the memory of a detokenizer, in bytes. The size is a few dozen bytes, always the
 * same.
 *   Memory, Time, Threads, Errors, After   As gleed_sampler_size.
 */
gleed_status gleed_detokenizer_size(size_t *size, size_t *align, gleed_error *error);

/*
 * Starts a detokenizer in `memory`. *detokenizer receives a pointer to it. `flags` are GLEED_DECODE_RENDER_SPECIAL, ...
 *   Memory   Keeps `memory`. Does not keep the tokenizer.
 *   Time     Constant.
 *   Threads  Any, each with memory of its own.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_LENGTH, GLEED_E_OBJECT, GLEED_E_VALUE,
 *            GLEED_E_MEMORY_TOO_SMALL, GLEED_E_MEMORY_MISALIGNED.
 *   After    Nothing is written, not even to `memory`.
 */
gleed_status gleed_detokenizer_init(const gleed_tokenizer *tokenizer, uint32_t flags, void *memory, size_t memory_len,
                                    gleed_detokenizer **detokenizer, gleed_error *error);

/*
 * Writes the text that a token completes to `text`, which has room for text_len bytes. *written receives the number of
 * bytes. The text is UTF-8 and not terminated by 0. A character that consists of several tokens is written with the
 * last of them. max_text of gleed_vocab_info bytes of room always suffice. `tokenizer` must be the one of
 * gleed_detokenizer_init.
 *   Memory   Keeps nothing.
 *   Time     Grows with the length of the token.
 *   Threads  One at a time per detokenizer.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_LENGTH, GLEED_E_OBJECT, GLEED_E_TOKEN, GLEED_E_OUTPUT_TOO_SMALL.
 *   After    Nothing has changed.
 */
gleed_status gleed_detokenize(gleed_detokenizer *detokenizer, const gleed_tokenizer *tokenizer, uint32_t token,
                              char *text, size_t text_len, size_t *written, gleed_error *error);

/*
 * Ends a stream of tokens. It writes U+FFFD (3 bytes) to `text` if the stream ended within a character, otherwise
 * nothing. *written receives the number of bytes. The detokenizer can then start another text.
 *   Memory   Keeps nothing.
 *   Time     Constant.
 *   Threads  One at a time per detokenizer.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_LENGTH, GLEED_E_OBJECT, GLEED_E_OUTPUT_TOO_SMALL.
 *   After    Nothing has changed.
 */
gleed_status gleed_detokenizer_finish(gleed_detokenizer *detokenizer, char *text, size_t text_len, size_t *written,
                                      gleed_error *error);

/* ---- Conversations ------------------------------------------------------------------------------------ */

/*
 * A turn format is the way in which the chat template of a family of models writes plain messages. Formats have numbers
 * from 0 on, without gaps. The number of a format may differ between versions of the library. Its name never changes.
 */

/* No turn format. */
#define GLEED_NO_TURNS UINT32_MAX

/* The role of a message. The values of `after` of gleed_turns_encode are these roles and two more. */
enum {
    GLEED_AFTER_NOTHING = 0,  /* not a role: the conversation begins */
    GLEED_ROLE_SYSTEM = 1,    /* instructions to the model before the conversation */
    GLEED_ROLE_USER = 2,      /* the user */
    GLEED_ROLE_ASSISTANT = 3, /* the model */
    GLEED_AFTER_REPLY = 4     /* not a role: the model has written after GLEED_TURNS_REPLY, and its turn is open */
};

/* Flags of gleed_turns_encode. They may be combined with |. */
enum {
    GLEED_TURNS_ADD_BOS = 1, /* puts bos at the beginning, if the vocabulary says so and the format writes none: for
                                files without a chat template (a template would have written bos) */
    GLEED_TURNS_REPLY = 2    /* opens the model's turn at the end */
};

/* A message. */
typedef struct gleed_message {
    uint32_t role;     /* GLEED_ROLE_SYSTEM, ... */
    uint32_t reserved; /* 0 */
    const char *text;  /* UTF-8, needs no 0 at the end. Names of special tokens in it are ordinary text */
    size_t text_len;   /* bytes of text */
} gleed_message;

/* The properties of a turn format. */
typedef struct gleed_turns_info {
    uint32_t struct_size; /* sizeof(gleed_turns_info), set by the caller */
    uint32_t writes_bos;  /* 1: conversations of the format begin with bos */
    char name[32];        /* "chatml" for example, terminated by 0 */
} gleed_turns_info;

/*
 * Returns the turn format of a model's file in *format. The chat template of the file decides. If the file has none,
 * the special tokens of its vocabulary decide. *format receives GLEED_NO_TURNS if the library does not know the
 * template, or if there is no template and the tokens match no format. The library knows a template by characteristic
 * parts: a template that was changed in other places is taken for the original.
 *   Memory   Keeps nothing.
 *   Time     Grows with the metadata and the template.
 *   Threads  Any.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_OBJECT.
 *   After    Nothing is written.
 */
gleed_status gleed_turns_find(const gleed_model *model, const gleed_tokenizer *tokenizer, uint32_t *format,
                              gleed_error *error);

/*
 * Returns the turn format with this name in *format, or GLEED_NO_TURNS if there is none. `name` has name_len bytes.
 *   Memory   Keeps nothing.
 *   Time     Grows with name_len.
 *   Threads  Any.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_LENGTH.
 *   After    Nothing is written.
 */
gleed_status gleed_turns_named(const char *name, size_t name_len, uint32_t *format, gleed_error *error);

/*
 * Writes the properties of a turn format to *info.
 *   Memory   Keeps nothing.
 *   Time     Constant.
 *   Threads  Any.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_STRUCT_SIZE, GLEED_E_VALUE (no such format; needed: the last
 *            one).
 *   After    Nothing is written.
 */
gleed_status gleed_turns_describe(uint32_t format, gleed_turns_info *info, gleed_error *error);

/*
 * Encodes `messages_len` messages as tokens, in a turn format. *count receives the number of tokens. The tokens are to
 * be appended to a sequence. `after` says what the sequence ends with: the role of its last message,
 * GLEED_AFTER_REPLY, or GLEED_AFTER_NOTHING. With GLEED_AFTER_NOTHING the format may write a beginning of its own.
 * `flags` are GLEED_TURNS_ADD_BOS, ... Only the parts of the format become special tokens, never the text of a
 * message. After a reply of the model, the sequence has all of its tokens except the stop token (see
 * gleed_turns_is_stop). 4,000 elements of scratch and one for every 4 bytes of the messages suffice for most messages.
 * If they do not, or if `tokens` is too short, `needed` of the error says how many elements are needed.
 *   Memory   Keeps nothing. The contents of `scratch` are overwritten, also after an error.
 *   Time     Grows with n log n, where n is the length of the text.
 *   Threads  Any, each with scratch of its own.
 *   Errors   As gleed_encode; GLEED_E_VALUE (no such format, role or `after`; at: the index of the message).
 *   After    Nothing else is written.
 */
gleed_status gleed_turns_encode(const gleed_tokenizer *tokenizer, uint32_t format, uint32_t after,
                                const gleed_message *messages, size_t messages_len, uint32_t flags, uint32_t *scratch,
                                size_t scratch_len, uint32_t *tokens, size_t tokens_len, size_t *count,
                                gleed_error *error);

/*
 * Checks whether a token is a stop token of a turn format: it ends the model's turn. *is_stop receives 1 if it is,
 * otherwise 0. Stop tokens are the stops of the format, and the tokens that end a generation in any format
 * (gleed_token_kind). A stop token is not appended to the sequence: the next turn writes what the format needs there.
 *   Memory   Keeps nothing.
 *   Time     Constant.
 *   Threads  Any.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_OBJECT, GLEED_E_VALUE (no such format), GLEED_E_TOKEN.
 *   After    Nothing is written.
 */
gleed_status gleed_turns_is_stop(const gleed_tokenizer *tokenizer, uint32_t format, uint32_t token, uint32_t *is_stop,
                                 gleed_error *error);

/* ---- Guessing tokens ---------------------------------------------------------------------------------- */

/*
 * Several tokens can be guessed, and computed in one pass before they are chosen. The text stays bit for bit the same: the
 * program chooses from the logits of one row after the other as it always does. The first token that differs from its guess
 * ends the pass: the rows behind it are taken back. The engine needs several rows with logits (`logit_rows` of its config).
 *
 *     gleed_guesses_queue(guesses, engine, token, NULL, 0, &guessed, &error);
 *     do {
 *         status = gleed_step(engine, &budget, &error);      (after GLEED_YIELDED the frame ends here, and the next one goes on)
 *         while (status == GLEED_READY && gleed_guesses_logits(guesses, engine, &logits, &logits_len, &error) == GLEED_OK) {
 *             choose `token` from the logits, show its text
 *             gleed_guesses_take(guesses, engine, token, &error);
 *         }
 *     } while (status == GLEED_READY || status == GLEED_YIELDED);
 *     gleed_guesses_end(guesses, engine, ticks, &error);
 *
 * `token` is the token that was chosen last: it is not part of the sequence yet. While guesses do not pay, none are made; they
 * are tried again from time to time. gleed_engine_metrics says how many were right.
 */

/* The guesses of a sequence: what was guessed, how often that was right, and a table of what its text repeats. */
typedef struct gleed_guesses gleed_guesses;

/*
 * Returns the size and alignment of the memory of guesses, in bytes. `most` is the most guesses at a time, 1 to 31. `places` is
 * the number of places, 8 bytes each, of the table in which repetitions of the text are looked up. With as many places as the
 * text has tokens nearly all repetitions are found, with 0 none is looked for.
 *   Memory   Keeps nothing.
 *   Time     Constant.
 *   Threads  Any.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_LIMIT, GLEED_E_MEMORY_TOO_LARGE.
 *   After    Nothing is written.
 */
gleed_status gleed_guesses_plan(uint32_t most, uint32_t places, size_t *size, size_t *align, gleed_error *error);

/*
 * Starts the guesses of an open sequence, in `memory`. *guesses receives a pointer to them.
 *   Memory   Keeps `memory`. Does not keep the engine.
 *   Time     Grows with `places`.
 *   Threads  Any, while no call changes the engine, each with memory of its own.
 *   Errors   As gleed_guesses_plan, GLEED_E_OBJECT, GLEED_E_LENGTH, GLEED_E_MEMORY_TOO_SMALL, GLEED_E_MEMORY_MISALIGNED,
 *            GLEED_E_SEQUENCE.
 *   After    Nothing is written, not even to `memory`.
 */
gleed_status gleed_guesses_init(const gleed_engine *engine, gleed_seq seq, uint32_t most, uint32_t places, void *memory,
                                size_t memory_len, gleed_guesses **guesses, gleed_error *error);

/*
 * Queues `token` with logits, and guesses behind it: first the `ids_len` tokens at `ids`, such as tokens that a grammar forces
 * (gleed_matcher_forced_tokens) or that another model has chosen, then tokens that followed the same text before. *guessed
 * receives the number of guesses. There are fewer or none where guesses do not pay, where the context or the pool is nearly full,
 * where a window would give back blocks that a rewind needs, from an id on that is no token, and, in a model with recurrent
 * layers, after a wrong guess.
 *   Memory   Keeps nothing.
 *   Time     Constant for the guesses; otherwise as gleed_queue.
 *   Threads  One at a time per guesses and engine.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_LENGTH, GLEED_E_OBJECT, GLEED_E_LIMIT (more than 31 ids),
 *            GLEED_E_BUSY (also before gleed_guesses_end), GLEED_E_SEQUENCE, GLEED_E_TOKEN (of `token`), GLEED_E_CONTEXT,
 *            GLEED_E_NO_LOGITS, GLEED_E_WHOLE (an encoder), GLEED_E_VALUE (an engine of gleed_model_predictor), GLEED_FULL.
 *   After    Nothing has changed.
 */
gleed_status gleed_guesses_queue(gleed_guesses *guesses, gleed_engine *engine, uint32_t token, const uint32_t *ids,
                                 size_t ids_len, size_t *guessed, gleed_error *error);

/*
 * Returns in *logits the logits from which the next token is to be chosen. They equal those of gleed_decode_step, bit for bit.
 *   Memory   Keeps nothing. The logits are valid until the next call that takes the engine without const.
 *   Time     Grows with the rows of a batch.
 *   Threads  Any, while no call changes the guesses and the engine.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_OBJECT, GLEED_E_NO_LOGITS (they are not computed yet, or there are no more
 *            before gleed_guesses_end).
 *   After    Nothing is written.
 */
gleed_status gleed_guesses_logits(const gleed_guesses *guesses, const gleed_engine *engine, const float **logits,
                                  size_t *logits_len, gleed_error *error);

/*
 * Takes the token that was chosen from the logits of gleed_guesses_logits. If it is the guessed token, there are logits for the
 * token behind it.
 *   Memory   Keeps nothing.
 *   Time     As gleed_guesses_logits.
 *   Threads  One at a time per guesses, while no call changes the engine.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_OBJECT, GLEED_E_NO_LOGITS as gleed_guesses_logits.
 *   After    Nothing has changed.
 */
gleed_status gleed_guesses_take(gleed_guesses *guesses, const gleed_engine *engine, uint32_t token, gleed_error *error);

/*
 * Takes back the guesses that were not chosen. The sequence then has all tokens that were taken but the last one. Tokens that
 * are still queued for it are dropped. The call may be made at any time, also after an error of a step: then the next batch has
 * no guesses. `ticks` is the time from gleed_guesses_queue to the logits by a clock of the program, or 0 if it was not measured.
 * With it the number of guesses follows the speed of the machine.
 *   Memory   Keeps nothing.
 *   Time     As gleed_rewind.
 *   Threads  One at a time per guesses and engine.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_OBJECT, GLEED_E_SEQUENCE, GLEED_E_BUSY (keys and values are being written
 *            to the sequence).
 *   After    Nothing has changed.
 */
gleed_status gleed_guesses_end(gleed_guesses *guesses, gleed_engine *engine, uint64_t ticks, gleed_error *error);

/*
 * Some files have a layer that predicts one token further ahead (`nextn`). It is a model of its own (gleed_model_predictor) with an
 * engine of its own, and guesses the tokens that it finds most probable. gleed_guesses_layer is called once. gleed_guesses_prefill
 * takes the place of gleed_prefill, and gleed_guesses_queue_layer that of gleed_guesses_queue. The other calls are the same:
 *
 *     gleed_guesses_layer(guesses, layer, &layer_seq, &error);
 *     gleed_guesses_prefill(guesses, engine, layer, prompt, prompt_len, &logits, &logits_len, &error);
 *     choose `token` from the logits, then again and again:
 *     gleed_guesses_queue_layer(guesses, engine, layer, token, NULL, 0, NULL, &guessed, &error);
 *     gleed_step, gleed_guesses_logits, gleed_guesses_take and gleed_guesses_end, as above
 */

/*
 * Lets an engine of gleed_model_predictor guess for a sequence. *seq receives the handle of a new sequence in `layer`, which is for
 * these guesses alone. The program closes it when it no longer needs the guesses. A second call opens and uses another sequence.
 * Returns GLEED_FULL if all sequences of `layer` are open.
 *   Memory   Keeps the handle. Does not keep `layer`.
 *   Time     Constant.
 *   Threads  One at a time per guesses and layer.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_OBJECT, GLEED_E_VALUE (`layer` is an engine of another model).
 *   After    Nothing has changed.
 */
gleed_status gleed_guesses_layer(gleed_guesses *guesses, gleed_engine *layer, gleed_seq *seq, gleed_error *error);

/*
 * Appends tokens to the sequence of the guesses as gleed_prefill does, and lets the layer read them, too. *logits receives the logits
 * of the last token.
 *   Memory   Keeps nothing. The logits are valid until the next call that takes `engine` without const.
 *   Time     As gleed_prefill, and one layer more.
 *   Threads  One at a time per guesses, engine and layer.
 *   Errors   As gleed_prefill; GLEED_E_VALUE (gleed_guesses_layer was not called, or `layer` is an engine of another model),
 *            GLEED_E_SEQUENCE (also if the sequence of `layer` is closed).
 *   After    Nothing has changed. Exception: after an error in the middle of the work (GLEED_E_NON_FINITE, for example) the
 *            sequence may have some of the tokens.
 */
gleed_status gleed_guesses_prefill(gleed_guesses *guesses, gleed_engine *engine, gleed_engine *layer,
                                   const uint32_t *tokens, size_t count, const float **logits, size_t *logits_len,
                                   gleed_error *error);

/*
 * Lets the layer read the hidden states of the last batch of `engine`. Only a program whose engine computes other sequences
 * between the calls with these guesses needs this call: after each step that returned GLEED_READY or GLEED_OK, while no guesses
 * are queued. A layer that has missed hidden states guesses worse.
 *   Memory   Keeps nothing.
 *   Time     Grows with the rows of a batch.
 *   Threads  One at a time per guesses, engine and layer.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_OBJECT, GLEED_E_VALUE and GLEED_E_SEQUENCE as gleed_guesses_prefill.
 *   After    Nothing has changed.
 */
gleed_status gleed_guesses_see(gleed_guesses *guesses, gleed_engine *engine, gleed_engine *layer, gleed_error *error);

/*
 * Queues `token` with logits, and guesses behind it as gleed_guesses_queue does: the `ids_len` tokens at `ids`, or, if there are
 * none, the guesses of the layer. The layer computes within `budget`; NULL: no limit. If the budget ends first, nothing is queued,
 * and the call returns GLEED_YIELDED, or GLEED_STOPPED if the cancel flag is set. Then the same call goes on.
 *   Memory   Keeps nothing.
 *   Time     As gleed_step, of one layer.
 *   Threads  One at a time per guesses, engine and layer.
 *   Errors   As gleed_guesses_queue; GLEED_E_STRUCT_SIZE, GLEED_E_VALUE and GLEED_E_SEQUENCE as gleed_guesses_prefill.
 *   After    The sequence of `engine` has not changed.
 */
gleed_status gleed_guesses_queue_layer(gleed_guesses *guesses, gleed_engine *engine, gleed_engine *layer, uint32_t token,
                                       const uint32_t *ids, size_t ids_len, const gleed_budget *budget, size_t *guessed,
                                       gleed_error *error);

/* ---- Conversations that read nothing twice ------------------------------------------------------------ */

/*
 * The program keeps the list of messages. After any change of the list (a message appended, edited or removed, a reply to be
 * written again) one call says which tokens the model has not read yet:
 *
 *     gleed_conversation_update(conversation, engine, tokenizer, desk, entries, entries_len, &script, NULL, &update, &error);
 *     gleed_prefill(engine, seq, update.tokens, update.tokens_len, &logits, &logits_len, &error);
 *     until gleed_turns_is_stop: choose a token, show its text, gleed_decode_step
 *
 * The tokens that the program appends to the sequence after that are the reply. Their text becomes an entry of the next call: the
 * conversation knows which tokens the model wrote for it. docs/conversation.md says what is read again when.
 */

/* Memory in which conversations are written. It keeps nothing from call to call: several conversations can share one. */
typedef struct gleed_desk gleed_desk;

/* A conversation: the handle of its sequence, and which tokens of the sequence are replies. */
typedef struct gleed_conversation gleed_conversation;

/* The role of an entry besides GLEED_ROLE_SYSTEM, GLEED_ROLE_USER and GLEED_ROLE_ASSISTANT. */
#define GLEED_ROLE_TOOL 5u /* the result of a call of a tool */

/* An entry of a conversation: a message, or the result of a call. Texts are UTF-8 and need no 0 at the end. */
typedef struct gleed_entry {
    uint32_t role;     /* GLEED_ROLE_USER, ..., GLEED_ROLE_TOOL */
    uint32_t reserved; /* 0 */
    const char *text;  /* the text; of the assistant: as the model wrote it, with thoughts and calls */
    size_t text_len;   /* bytes of text */
    const char *name;  /* of GLEED_ROLE_TOOL: the name of the tool */
    size_t name_len;   /* bytes of name; 0 for messages */
    const char *id;    /* of GLEED_ROLE_TOOL: the identifier of the call */
    size_t id_len;     /* bytes of id; 0: the call has none; 0 for messages */
} gleed_entry;

/* How much a desk has room for. 0 means the default. */
typedef struct gleed_desk_limits {
    uint32_t struct_size; /* sizeof(gleed_desk_limits), set by the caller */
    uint32_t context;     /* tokens of the longest conversation; default 4,096 */
    uint32_t text;        /* bytes of the longest text between two replies, with what the format writes around messages. A
                             conversation whose replies are not known is one such text; default 16,384 */
    uint32_t word;        /* bytes of the longest word in such a text, each about 51 bytes of memory; default `text`. Chinese and
                             Japanese have no blanks between words: there a word can be a whole message */
    uint32_t replies;     /* the most replies whose tokens are kept; default 64 */
    uint32_t entries;     /* the most entries; default 256 */
} gleed_desk_limits;

/* How much a conversation has room for. 0 means the default. */
typedef struct gleed_conversation_limits {
    uint32_t struct_size; /* sizeof(gleed_conversation_limits), set by the caller */
    uint32_t replies;     /* the most replies whose tokens are kept, the last ones, 12 bytes for each; default 64 */
    uint32_t tokens;      /* the most tokens that are kept beside the sequence, 4 bytes for each; default: the engine's context
                             where no layer of the model keeps all tokens, 0 elsewhere */
    uint32_t reserved;    /* 0 */
} gleed_conversation_limits;

/* Values of `think` in a script. */
#define GLEED_THINK_DEFAULT 0u /* the script says nothing: the format decides */
#define GLEED_THINK_NO 1u      /* the model is told not to think */
#define GLEED_THINK_YES 2u     /* the model is told to think */

/* Flags of a script. They may be combined with |. */
#define GLEED_SCRIPT_NO_BOS 1u        /* bos is written only where the format writes it, not because the vocabulary adds it */
#define GLEED_SCRIPT_KEEP_THOUGHTS 2u /* thoughts of earlier turns stay; without it they are left out where the format does so */

/* How a conversation is written. */
typedef struct gleed_script {
    uint32_t struct_size;    /* sizeof(gleed_script), set by the caller */
    uint32_t format;         /* a turn format; GLEED_NO_TURNS: all texts follow each other, and the model continues them */
    uint32_t think;          /* GLEED_THINK_DEFAULT, ... */
    uint32_t flags;          /* GLEED_SCRIPT_NO_BOS, ... */
    const char *tools;       /* the tools that are offered: a JSON list, as for gleed_calls_init */
    size_t tools_len;        /* bytes of tools; 0: none are offered */
    const char *tool_format; /* the name of the format in which they are offered (docs/tools.md) */
    size_t tool_format_len;  /* bytes of tool_format; 0: the tool format that belongs to the turn format */
} gleed_script;

/*
 * Writes a message in the place of entries that are left out: `count` entries from index `first` on. Returns 1 if it has written
 * *message, or 0 for no message. The text must be valid until gleed_conversation_update returns. The function may be called several
 * times, with other entries, in a call. For the same entries it should write the same message: a different one is read again.
 */
typedef int32_t (*gleed_summary)(void *ctx, size_t first, size_t count, gleed_message *message);

/*
 * What becomes of a conversation that does not fit the context. Turns are left out whole: a turn is a message of the user and
 * all that follows it. What comes before the first message of the user always stays.
 */
typedef struct gleed_keep {
    uint32_t struct_size;  /* sizeof(gleed_keep), set by the caller */
    uint32_t room;         /* tokens that stay free for the reply; default 1 */
    uint32_t first;        /* turns at the beginning that stay */
    uint32_t last;         /* turns at the end that stay; default: all, a conversation that is too long is refused */
    uint32_t target;       /* turns are left out until the conversation has at most this many tokens; default: half of the context */
    uint32_t reserved;     /* 0 */
    gleed_summary summary; /* writes a message in the place of what is left out, or NULL */
    void *summary_ctx;     /* the first argument of summary */
} gleed_keep;

/* The tokens that the model has not read yet, and the entries that are left out. */
typedef struct gleed_update {
    uint32_t struct_size;   /* sizeof(gleed_update), set by the caller */
    uint32_t position;      /* the position of the first token: the length of the sequence */
    const uint32_t *tokens; /* at least one; the logits of the last one are those of the reply's first token */
    size_t tokens_len;      /* number of tokens */
    size_t left_out;        /* the index of the first entry that is left out; means nothing if left_out_len is 0 */
    size_t left_out_len;    /* how many entries are left out */
} gleed_update;

/*
 * Returns the size and alignment of the memory of a desk, in bytes. `limits` may be NULL: all defaults.
 *   Memory   Keeps nothing.
 *   Time     Constant.
 *   Threads  Any.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_OBJECT, GLEED_E_STRUCT_SIZE, GLEED_E_MEMORY_TOO_LARGE.
 *   After    Nothing is written.
 */
gleed_status gleed_desk_plan(const gleed_tokenizer *tokenizer, size_t *size, size_t *align,
                             const gleed_desk_limits *limits, gleed_error *error);

/*
 * Makes a desk in `memory`. *desk receives a pointer to it.
 *   Memory   Keeps `memory`. Does not keep the tokenizer and the limits.
 *   Time     Constant.
 *   Threads  Any, each with memory of its own.
 *   Errors   As gleed_desk_plan, GLEED_E_LENGTH, GLEED_E_MEMORY_TOO_SMALL, GLEED_E_MEMORY_MISALIGNED.
 *   After    Nothing is written, not even to `memory`.
 */
gleed_status gleed_desk_init(const gleed_tokenizer *tokenizer, const gleed_desk_limits *limits, void *memory,
                             size_t memory_len, gleed_desk **desk, gleed_error *error);

/*
 * Returns the size and alignment of the memory of a conversation in an engine, in bytes. `limits` may be NULL: all defaults.
 *   Memory   Keeps nothing.
 *   Time     Constant.
 *   Threads  Any, while no call changes the engine.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_OBJECT, GLEED_E_STRUCT_SIZE, GLEED_E_VALUE (`reserved`),
 *            GLEED_E_MEMORY_TOO_LARGE.
 *   After    Nothing is written.
 */
gleed_status gleed_conversation_plan(const gleed_engine *engine, size_t *size, size_t *align,
                                     const gleed_conversation_limits *limits, gleed_error *error);

/*
 * Starts a conversation in an open sequence, in `memory`. *conversation receives a pointer to it. The program appends tokens to
 * the sequence and closes it. Only the conversation may rewind it.
 *   Memory   Keeps `memory`. Does not keep the engine and the limits.
 *   Time     Constant.
 *   Threads  Any, while no call changes the engine, each with memory of its own.
 *   Errors   As gleed_conversation_plan, GLEED_E_LENGTH, GLEED_E_MEMORY_TOO_SMALL, GLEED_E_MEMORY_MISALIGNED,
 *            GLEED_E_SEQUENCE.
 *   After    Nothing is written, not even to `memory`.
 */
gleed_status gleed_conversation_init(const gleed_engine *engine, gleed_seq seq, const gleed_conversation_limits *limits,
                                     void *memory, size_t memory_len, gleed_conversation **conversation,
                                     gleed_error *error);

/*
 * Returns the sequence of a conversation in *seq.
 *   Memory   Keeps nothing.
 *   Time     Constant.
 *   Threads  Any, while no call changes the conversation.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_OBJECT.
 *   After    Nothing is written.
 */
gleed_status gleed_conversation_seq(const gleed_conversation *conversation, gleed_seq *seq, gleed_error *error);

/*
 * Rewinds the sequence to the longest beginning that it can have in common with this conversation. Writes the tokens that are
 * missing, up to where the model goes on, to *update. The program gives them to gleed_prefill or gleed_queue (where layers have a
 * window, in pieces of at most `rows`). If the last entry is a message of the assistant, the model continues it. The entry of a
 * reply has the text that the model wrote; the program may cut it at its end. Replies behind a change keep their tokens, but are
 * read again; until then the sequence does not have them. `keep` may be NULL: nothing is left out. `engine` is the engine of the
 * sequence, `tokenizer` the tokenizer of its model.
 *   Memory   Keeps nothing. update->tokens is valid until the next call that takes the desk.
 *   Time     Grows with n log n, where n is the length of the text, and with the tokens of the sequence. If turns are left out,
 *            this comes again for each halving of their number.
 *   Threads  One at a time per conversation, engine and desk.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_LENGTH, GLEED_E_OBJECT, GLEED_E_STRUCT_SIZE, GLEED_E_VALUE (no such format,
 *            role, flag, think, tool format; a result of a tool without tools; at: the index of the entry), GLEED_E_TOOLS,
 *            GLEED_E_SCRATCH_TOO_SMALL (the desk has no room for so many entries, for a text or for a word; `text` says which),
 *            GLEED_E_TEXT and GLEED_E_TEXT_TOO_LONG (also of the summary), GLEED_E_SEQUENCE, GLEED_E_BUSY, GLEED_E_CONTEXT,
 *            GLEED_E_EMPTY, GLEED_E_ROWS (an encoder), GLEED_FULL.
 *   After    Nothing has changed. With GLEED_FULL the sequence may be shorter. The contents of update->tokens of an earlier
 *            call have no meaning.
 */
gleed_status gleed_conversation_update(gleed_conversation *conversation, gleed_engine *engine,
                                       const gleed_tokenizer *tokenizer, gleed_desk *desk, const gleed_entry *entries,
                                       size_t entries_len, const gleed_script *script, const gleed_keep *keep,
                                       gleed_update *update, gleed_error *error);

/*
 * Opens a second conversation that begins like this one, in a sequence of its own. It takes as much `memory` as this one. *fork
 * receives a pointer to it. Blocks are shared, and nothing is computed. The program copies its entries as it likes.
 *   Memory   Keeps `memory`.
 *   Time     As gleed_fork.
 *   Threads  One at a time per engine; no other call changes the conversation.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_LENGTH, GLEED_E_OBJECT, GLEED_E_MEMORY_TOO_SMALL,
 *            GLEED_E_MEMORY_MISALIGNED, GLEED_E_SEQUENCE, GLEED_E_BUSY, GLEED_E_WINDOW, GLEED_FULL.
 *   After    Nothing has changed.
 */
gleed_status gleed_conversation_fork(const gleed_conversation *conversation, gleed_engine *engine, void *memory,
                                     size_t memory_len, gleed_conversation **fork, gleed_error *error);

/*
 * Returns the number of bytes that gleed_conversation_save writes in *size.
 *   Memory   Keeps nothing.
 *   Time     Grows with the length of the texts.
 *   Threads  One at a time per desk; no other call changes the conversation and the engine.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_LENGTH, GLEED_E_OBJECT, GLEED_E_SCRATCH_TOO_SMALL (entries), GLEED_E_VALUE,
 *            GLEED_E_TEXT, GLEED_E_TEXT_TOO_LONG, GLEED_E_SEQUENCE, GLEED_E_BUSY.
 *   After    Nothing is written.
 */
gleed_status gleed_conversation_saved_size(const gleed_conversation *conversation, const gleed_engine *engine,
                                           gleed_desk *desk, const gleed_entry *entries, size_t entries_len,
                                           size_t *size, gleed_error *error);

/*
 * Writes a conversation to `bytes`: its entries, which tokens the model wrote, and the snapshot of its sequence. *written receives
 * the number of bytes. If the sequence has given back blocks, its keys and values are not written, and the conversation is read
 * again after it is loaded. docs/conversation.md specifies the format.
 *   Memory   Keeps nothing.
 *   Time     Grows with the length of the texts and of the sequence.
 *   Threads  One at a time per desk; no other call changes the conversation and the engine.
 *   Errors   As gleed_conversation_saved_size, GLEED_E_SNAPSHOT_BUFFER (len is too small).
 *   After    Nothing is written.
 */
gleed_status gleed_conversation_save(const gleed_conversation *conversation, const gleed_engine *engine, gleed_desk *desk,
                                     const gleed_entry *entries, size_t entries_len, uint8_t *bytes, size_t len,
                                     size_t *written, gleed_error *error);

/*
 * Opens a sequence and a conversation that go on where a saved one was, in `memory`. *conversation receives a pointer to it. All of
 * `bytes` is verified first. `limits` are those of gleed_conversation_plan; if they allow fewer replies, the last ones stay.
 *   Memory   Keeps `memory`. Does not keep `bytes`.
 *   Time     Grows with len.
 *   Threads  One at a time per engine.
 *   Errors   As gleed_conversation_plan, GLEED_E_LENGTH, GLEED_E_MEMORY_TOO_SMALL, GLEED_E_MEMORY_MISALIGNED, GLEED_E_SNAPSHOT
 *            (at: the first wrong byte, or the byte behind a part whose checksum is wrong), and those of gleed_restore:
 *            GLEED_E_SNAPSHOT_*, GLEED_E_CONTEXT, GLEED_FULL.
 *   After    Nothing has changed. `memory` may have been written to.
 */
gleed_status gleed_conversation_load(gleed_engine *engine, const uint8_t *bytes, size_t len,
                                     const gleed_conversation_limits *limits, void *memory, size_t memory_len,
                                     gleed_conversation **conversation, gleed_error *error);

/*
 * Writes the entries of a saved conversation to `entries`, in order. Their texts lie in `bytes`. *count receives their number. If
 * there is not room for all, `needed` of the error says how many there are; begin with an entries_len of 0.
 *   Memory   Keeps nothing. The entries are valid as long as `bytes`.
 *   Time     Grows with the length of the texts.
 *   Threads  Any.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_LENGTH, GLEED_E_SNAPSHOT_MAGIC, GLEED_E_SNAPSHOT_VERSION, GLEED_E_SNAPSHOT,
 *            GLEED_E_OUTPUT_TOO_SMALL.
 *   After    Nothing is written.
 */
gleed_status gleed_conversation_saved_entries(const uint8_t *bytes, size_t len, gleed_entry *entries, size_t entries_len,
                                              size_t *count, gleed_error *error);

/* ---- Grammars, stop strings and calls of tools ---------------------------------------------------------- */
#ifndef GLEED_NO_GRAMMAR

/*
 * A library that was built without the feature `grammar` does not have this section. GLEED_NO_GRAMMAR hides it.
 *
 * How a text follows a grammar: compile a grammar (any number of texts and threads may use it), make a trie of the
 * tokenizer's tokens (one serves all grammars), and start a matcher for each text. Then for each token:
 *
 *     gleed_matcher_mask(matcher, trie, 0, GLEED_MASK_ENDS, mask, mask_len, &error);
 *     gleed_sample_masked(sampler, logits, logits_len, mask, mask_len, scratch, logits_len, &token, NULL, &error);
 *     if the token ends the text (gleed_token_kind), stop; else
 *     gleed_matcher_accept(matcher, tokenizer, token, &accepted, &error);
 */
/* A compiled grammar. It never changes. */
typedef struct gleed_grammar gleed_grammar;

/* What the text of a grammar is. */
#define GLEED_GRAMMAR_SCHEMA 0u /* a JSON Schema; the texts are values in JSON */
#define GLEED_GRAMMAR_GBNF 1u   /* a grammar in the notation of llama.cpp; the texts are those of its rule `root` */
#define GLEED_GRAMMAR_REGEX 2u  /* a regular expression that the whole text follows */
#define GLEED_GRAMMAR_TOOLS 3u  /* a JSON array of tools, as docs/tools.md has it; the texts are replies that may call them */

/* Whether a reply has to call a tool. */
#define GLEED_CHOICE_AUTO 0u     /* it may; its text is free up to the mark that begins a call: gleed_matcher_is_free */
#define GLEED_CHOICE_REQUIRED 1u /* it has to; only thoughts may come before */
#define GLEED_CHOICE_NAMED 2u    /* it has to call the tool that `tool` names */

/* Flags of calls. */
#define GLEED_CALLS_SINGLE 1u /* the text ends behind the first call */

/* What stands between the parts of a text in JSON. */
#define GLEED_WHITESPACE_BOUNDED 0u /* nothing, a blank, or a line feed and up to 40 blanks or tabs */
#define GLEED_WHITESPACE_COMPACT 1u /* nothing */
#define GLEED_WHITESPACE_SPACED 2u  /* one blank behind each comma and colon */
#define GLEED_WHITESPACE_ANY 3u     /* any blanks, tabs and line ends, for ever */

/* Flags of a grammar. */
#define GLEED_GRAMMAR_CLOSED 1u           /* objects have no members but those that they declare, if the schema does not say */
#define GLEED_GRAMMAR_ONE_OF_AS_ANY_OF 2u /* oneOf means anyOf where its branches are not known to be disjoint */
#define GLEED_GRAMMAR_ALL_ESCAPES 4u      /* strings may have escapes of any character, by number */
#define GLEED_GRAMMAR_CLOSE 8u            /* for gleed_matcher_mask_within; the grammar takes twice the memory */

/* What a grammar is, and how it is compiled. 0 means the default. */
typedef struct gleed_grammar_options {
    uint32_t struct_size; /* sizeof(gleed_grammar_options), set by the caller */
    uint32_t kind;        /* GLEED_GRAMMAR_SCHEMA, ... */
    uint32_t whitespace;  /* GLEED_WHITESPACE_BOUNDED, ... */
    uint32_t flags;       /* GLEED_GRAMMAR_CLOSED, ... */
    uint32_t states;      /* the most states of an automaton while it is made; default 4,096 */
    uint32_t reserved;    /* 0 */
    const char *ignore;   /* keywords of schemas that are ignored, with blanks between them: at most 32 */
    size_t ignore_len;    /* bytes at `ignore` */
    uint32_t calls;       /* how calls are written: a number of gleed_calls_named. This and the following are 0 for other kinds */
    uint32_t choice;      /* GLEED_CHOICE_AUTO, ... */
    uint32_t thoughts;    /* the marks around thoughts, inside of which nothing is a call: GLEED_THOUGHTS_THINK, ... */
    uint32_t call_flags;  /* GLEED_CALLS_SINGLE */
    const char *tool;     /* the name for GLEED_CHOICE_NAMED, in UTF-8 */
    size_t tool_len;      /* bytes at `tool` */
    const gleed_tokenizer *tokenizer; /* marks that are control tokens in it are written as these tokens; NULL: all are text */
} gleed_grammar_options;

/*
 * Compiles a grammar in `scratch` and returns the size and alignment of the memory that it needs, in bytes. `options` may
 * be NULL: a JSON Schema, all defaults. If the scratch is too small, `needed` of the error says how many elements to try
 * next; begin with a scratch_len of 0. One more try suffices for most grammars. GLEED_E_GRAMMAR_STATES can mean that no scratch
 * suffices: none larger than 2^28 elements is used. If many choices of a schema hold at once (`allOf` of several `anyOf`), time and
 * scratch double with each choice. A program that compiles schemas of strangers bounds the scratch, or the units of
 * gleed_grammar_build_step.
 *   Memory   Keeps nothing, not even the tokenizer. The contents of `scratch` are overwritten, also after an error.
 *   Time     Grows with the text; for patterns and numbers with their automata, which `states` bounds.
 *   Threads  Any, each with scratch of its own.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_LENGTH, GLEED_E_STRUCT_SIZE, GLEED_E_OBJECT, GLEED_E_VALUE, GLEED_E_TEXT
 *            (`ignore`, `tool`), GLEED_E_TEXT_TOO_LONG, GLEED_E_SCRATCH_TOO_SMALL, GLEED_E_GRAMMAR, GLEED_E_GRAMMAR_UNSUPPORTED
 *            and so on: `text` of the error names the keyword.
 *   After    Nothing else is written.
 */
gleed_status gleed_grammar_plan(const char *text, size_t text_len, uint32_t *scratch, size_t scratch_len, size_t *size,
                                size_t *align, const gleed_grammar_options *options, gleed_error *error);

/*
 * Compiles a grammar into `memory`, with the text, options and scratch of gleed_grammar_plan. *grammar receives a pointer
 * to it. The grammar is checked before the memory.
 *   Memory   Keeps `memory`. Does not keep the text, the options and the scratch, whose contents are overwritten.
 *   Time     Twice that of gleed_grammar_plan.
 *   Threads  Any, each with memory of its own.
 *   Errors   As gleed_grammar_plan, GLEED_E_MEMORY_TOO_SMALL, GLEED_E_MEMORY_MISALIGNED.
 *   After    Nothing else is written, not even to `memory`.
 */
gleed_status gleed_grammar_init(const char *text, size_t text_len, uint32_t *scratch, size_t scratch_len,
                                const gleed_grammar_options *options, void *memory, size_t memory_len,
                                const gleed_grammar **grammar, gleed_error *error);

/*
 * A grammar in the making. For a large or hostile schema gleed_grammar_init takes longer than a frame can spare. A build makes the
 * same bytes in units of work.
 *     gleed_grammar_build_init(text, text_len, scratch, scratch_len, &options, room, room_len, &build, &error);
 *     while (gleed_grammar_build_step(build, 4, &error) == GLEED_YIELDED) ...    (the frame ends here)
 *     gleed_grammar_build_plan(build, &size, &align, &error);
 *     gleed_grammar_build_place(build, memory, size, &error);
 *     while (gleed_grammar_build_step(build, 4, &error) == GLEED_YIELDED) ...
 *     gleed_grammar_build_finish(build, &grammar, &error);
 */
typedef struct gleed_grammar_build gleed_grammar_build;

/*
 * Returns the size and alignment of the memory of a grammar in the making, in bytes. The size is always the same.
 *   Memory, Time, Threads, Errors, After   As gleed_sampler_size.
 */
gleed_status gleed_grammar_build_size(size_t *size, size_t *align, gleed_error *error);

/*
 * Begins to compile a grammar. *build receives a pointer to the build. `options` are as for gleed_grammar_plan. 262,144 elements of
 * scratch and 64 for each byte of the text are enough for most grammars. If not, gleed_grammar_build_step says so, and the program
 * begins a new build with more.
 *   Memory   Keeps `memory`, `text`, `scratch`, and `ignore` and `tool` of the options, until the grammar is finished. Does not keep
 *            the options and the tokenizer.
 *   Time     Constant.
 *   Threads  Any, each with scratch and memory of its own.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_LENGTH, GLEED_E_STRUCT_SIZE, GLEED_E_OBJECT, GLEED_E_VALUE, GLEED_E_TEXT
 *            (`ignore`, `tool`), GLEED_E_TEXT_TOO_LONG, GLEED_E_MEMORY_TOO_SMALL, GLEED_E_MEMORY_MISALIGNED.
 *   After    Nothing is written, not even to `memory`.
 */
gleed_status gleed_grammar_build_init(const char *text, size_t text_len, uint32_t *scratch, size_t scratch_len,
                                      const gleed_grammar_options *options, void *memory, size_t memory_len,
                                      gleed_grammar_build **build, gleed_error *error);

/*
 * Goes on for at most `units` units of work, of some ten microseconds each (0: no bound). GLEED_OK: the size of the grammar's memory is
 * known, or, after gleed_grammar_build_place, the grammar is finished. GLEED_YIELDED: call again. A unit takes longer if one object of a
 * schema has hundreds of members, or if one state of an automaton takes longer.
 *   Memory   Keeps nothing.
 *   Time     Grows with `units`.
 *   Threads  One at a time per build.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_OBJECT, GLEED_E_SCRATCH_TOO_SMALL, GLEED_E_GRAMMAR and so on, as
 *            gleed_grammar_plan.
 *   After    After GLEED_E_SCRATCH_TOO_SMALL, GLEED_E_GRAMMAR and so on the build is of no use: later calls return the same error.
 */
gleed_status gleed_grammar_build_step(gleed_grammar_build *build, uint64_t units, gleed_error *error);

/*
 * Returns the size and alignment of the memory of the grammar, in bytes.
 *   Memory   Keeps nothing.
 *   Time     Constant.
 *   Threads  Any, while no call changes the build.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_OBJECT, GLEED_E_BUSY (gleed_grammar_build_step must go on).
 *   After    Nothing is written.
 */
gleed_status gleed_grammar_build_plan(const gleed_grammar_build *build, size_t *size, size_t *align, gleed_error *error);

/*
 * Gives the build the memory of the grammar, once.
 *   Memory   Keeps `memory`.
 *   Time     Constant.
 *   Threads  One at a time per build.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_LENGTH, GLEED_E_OBJECT, GLEED_E_MEMORY_TOO_SMALL,
 *            GLEED_E_MEMORY_MISALIGNED, GLEED_E_BUSY (its size is not known yet, or it has its memory).
 *   After    Nothing has changed.
 */
gleed_status gleed_grammar_build_place(gleed_grammar_build *build, void *memory, size_t memory_len, gleed_error *error);

/*
 * Returns a pointer to the finished grammar in *grammar, once. The memory of the build, its text and its scratch are then free.
 *   Memory   Keeps nothing.
 *   Time     Constant.
 *   Threads  One at a time per build.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_OBJECT, GLEED_E_BUSY (the grammar is not finished).
 *   After    Nothing is written.
 */
gleed_status gleed_grammar_build_finish(gleed_grammar_build *build, const gleed_grammar **grammar, gleed_error *error);

/* A trie: the tokens of a vocabulary by their bytes. It never changes. */
typedef struct gleed_trie gleed_trie;

/*
 * Returns the size and alignment of the memory of a trie, in bytes: about 20 bytes for each token. If the scratch is too
 * small, `needed` of the error says how many elements it must have.
 *   Memory   Keeps nothing. The contents of `scratch` are overwritten, also after an error.
 *   Time     Grows with the vocabulary.
 *   Threads  Any, while no call changes the tokenizer, each with scratch of its own.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_LENGTH, GLEED_E_OBJECT, GLEED_E_SCRATCH_TOO_SMALL,
 *            GLEED_E_VOCAB_UNSUPPORTED (more than 2^22 tokens or nodes).
 *   After    Nothing else is written.
 */
gleed_status gleed_trie_plan(const gleed_tokenizer *tokenizer, uint32_t *scratch, size_t scratch_len, size_t *size,
                             size_t *align, gleed_error *error);

/*
 * Makes a trie in `memory`. *trie receives a pointer to it.
 *   Memory   Keeps `memory`. Does not keep the tokenizer and the scratch, whose contents are overwritten.
 *   Time     Grows with the vocabulary.
 *   Threads  Any, while no call changes the tokenizer, each with memory of its own.
 *   Errors   As gleed_trie_plan, GLEED_E_MEMORY_TOO_SMALL, GLEED_E_MEMORY_MISALIGNED.
 *   After    Nothing else is written, not even to `memory`.
 */
gleed_status gleed_trie_init(const gleed_tokenizer *tokenizer, uint32_t *scratch, size_t scratch_len, void *memory,
                             size_t memory_len, const gleed_trie **trie, gleed_error *error);

/*
 * Returns the number of elements of a mask in *mask_len. A mask has one bit for each token.
 *   Memory   Keeps nothing.
 *   Time     Constant.
 *   Threads  Any.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_OBJECT.
 *   After    Nothing is written.
 */
gleed_status gleed_trie_mask_len(const gleed_trie *trie, size_t *mask_len, gleed_error *error);

/*
 * A trie in the making. For a large vocabulary gleed_trie_init takes several frames. A build makes the same tables in units of work.
 *     gleed_trie_build_init(tokenizer, scratch, scratch_len, room, room_len, &build, &error);
 *     while (gleed_trie_build_step(build, 8, &error) == GLEED_YIELDED) ...    (the frame ends here)
 *     gleed_trie_build_plan(build, &size, &align, &error);
 *     gleed_trie_build_place(build, memory, size, &error);
 *     while (gleed_trie_build_step(build, 8, &error) == GLEED_YIELDED) ...
 *     gleed_trie_build_finish(build, &trie, &error);
 */
typedef struct gleed_trie_build gleed_trie_build;

/*
 * Returns the size and alignment of the memory of a trie in the making, in bytes. The size is always the same.
 *   Memory, Time, Threads, Errors, After   As gleed_sampler_size.
 */
gleed_status gleed_trie_build_size(size_t *size, size_t *align, gleed_error *error);

/*
 * Begins to make a trie. *build receives a pointer to the build. The scratch has as many elements as gleed_trie_init needs.
 *   Memory   Keeps `memory`, `scratch` and the tokenizer, until the trie is finished.
 *   Time     Constant.
 *   Threads  Any, each with scratch and memory of its own.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_LENGTH, GLEED_E_OBJECT, GLEED_E_VOCAB_UNSUPPORTED,
 *            GLEED_E_SCRATCH_TOO_SMALL, GLEED_E_MEMORY_TOO_SMALL, GLEED_E_MEMORY_MISALIGNED.
 *   After    Nothing is written, not even to `memory`.
 */
gleed_status gleed_trie_build_init(const gleed_tokenizer *tokenizer, uint32_t *scratch, size_t scratch_len, void *memory,
                                   size_t memory_len, gleed_trie_build **build, gleed_error *error);

/*
 * Goes on for at most `units` units of 4,096 tokens, comparisons or nodes (0: no bound). GLEED_OK: the size of the trie's memory is
 * known, or, after gleed_trie_build_place, the trie is finished. GLEED_YIELDED: call again.
 *   Memory   Keeps nothing.
 *   Time     Grows with `units`.
 *   Threads  One at a time per build.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_OBJECT, GLEED_E_VOCAB_UNSUPPORTED, GLEED_E_SCRATCH_TOO_SMALL.
 *   After    After GLEED_E_VOCAB_UNSUPPORTED and GLEED_E_SCRATCH_TOO_SMALL the build is of no use.
 */
gleed_status gleed_trie_build_step(gleed_trie_build *build, uint64_t units, gleed_error *error);

/*
 * Returns the size and alignment of the memory of the trie, in bytes.
 *   Memory   Keeps nothing.
 *   Time     Constant.
 *   Threads  Any, while no call changes the build.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_OBJECT, GLEED_E_BUSY (gleed_trie_build_step must go on).
 *   After    Nothing is written.
 */
gleed_status gleed_trie_build_plan(const gleed_trie_build *build, size_t *size, size_t *align, gleed_error *error);

/*
 * Gives the build the memory of the trie, once.
 *   Memory   Keeps `memory`.
 *   Time     Constant.
 *   Threads  One at a time per build.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_LENGTH, GLEED_E_OBJECT, GLEED_E_MEMORY_TOO_SMALL,
 *            GLEED_E_MEMORY_MISALIGNED, GLEED_E_BUSY (its size is not known yet, or it has its memory).
 *   After    Nothing has changed.
 */
gleed_status gleed_trie_build_place(gleed_trie_build *build, void *memory, size_t memory_len, gleed_error *error);

/*
 * Returns a pointer to the finished trie in *trie, once. The memory of the build and its scratch are then free.
 *   Memory   Keeps nothing.
 *   Time     Grows slowly with the size of the vocabulary, in which the call looks for the tokens that end a text.
 *   Threads  One at a time per build.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_OBJECT, GLEED_E_BUSY (the trie is not finished),
 *            GLEED_E_VOCAB_UNSUPPORTED (more than 32 tokens end a text).
 *   After    Nothing is written. After GLEED_E_VOCAB_UNSUPPORTED the build is of no use.
 */
gleed_status gleed_trie_build_finish(gleed_trie_build *build, const gleed_trie **trie, gleed_error *error);

/* A matcher: the state of one text under a grammar. */
typedef struct gleed_matcher gleed_matcher;

/* How much a matcher has room for. 0 means the default. */
typedef struct gleed_matcher_limits {
    uint32_t struct_size; /* sizeof(gleed_matcher_limits), set by the caller */
    uint32_t items;       /* the most ways in which a text can be read at once; default 256 */
    uint32_t nodes;       /* the most calls of rules that are kept; default 1,024 */
    uint32_t depth;       /* the most calls of rules nested in each other; default 128 */
    uint32_t past;        /* words of 4 bytes that keep the states before the last tokens, for a rewind; default 1,024 */
    uint32_t reserved;    /* 0 */
} gleed_matcher_limits;

/*
 * Returns the size and alignment of the memory of a matcher, in bytes. `limits` may be NULL: all defaults.
 *   Memory   Keeps nothing.
 *   Time     Constant.
 *   Threads  Any.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_STRUCT_SIZE, GLEED_E_VALUE, GLEED_E_MEMORY_TOO_LARGE.
 *   After    Nothing is written.
 */
gleed_status gleed_matcher_plan(size_t *size, size_t *align, const gleed_matcher_limits *limits, gleed_error *error);

/*
 * Starts a matcher of an empty text in `memory`. *matcher receives a pointer to it.
 *   Memory   Keeps `memory` and the memory of the grammar. Does not keep the limits.
 *   Time     Constant.
 *   Threads  Any, each with memory of its own.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_LENGTH, GLEED_E_OBJECT, GLEED_E_STRUCT_SIZE, GLEED_E_VALUE,
 *            GLEED_E_MEMORY_TOO_SMALL, GLEED_E_MEMORY_MISALIGNED, GLEED_E_MEMORY_TOO_LARGE, GLEED_E_AMBIGUOUS,
 *            GLEED_E_NESTED.
 *   After    Nothing is written, not even to `memory`. Exception: after GLEED_E_AMBIGUOUS and GLEED_E_NESTED `memory` may be
 *            overwritten.
 */
gleed_status gleed_matcher_init(const gleed_grammar *grammar, const gleed_matcher_limits *limits, void *memory,
                                size_t memory_len, gleed_matcher **matcher, gleed_error *error);

/*
 * Goes back to the empty text. No tokens can be taken back then.
 *   Memory   Keeps nothing.
 *   Time     Constant.
 *   Threads  One at a time per matcher.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_OBJECT.
 *   After    Nothing has changed.
 */
gleed_status gleed_matcher_reset(gleed_matcher *matcher, gleed_error *error);

/*
 * Takes a token: its bytes, or the token itself where the grammar names it. *accepted receives 1, or 0 if the grammar does
 * not allow the token: then nothing has changed. The state before the token is kept for gleed_matcher_rewind. Tokens that end
 * a text are not accepted: gleed_matcher_is_end says whether the text may end.
 *   Memory   Keeps nothing.
 *   Time     Grows with the bytes of the token and the ways in which the text can be read, which the limits bound.
 *   Threads  One at a time per matcher.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_OBJECT, GLEED_E_AMBIGUOUS, GLEED_E_NESTED.
 *   After    Nothing has changed.
 */
gleed_status gleed_matcher_accept(gleed_matcher *matcher, const gleed_tokenizer *tokenizer, uint32_t token,
                                  uint32_t *accepted, gleed_error *error);

/*
 * Takes the longest beginning of a text that the grammar allows. *taken receives its length in bytes. The state before it is
 * not kept.
 *   Memory   Keeps nothing.
 *   Time     As gleed_matcher_accept.
 *   Threads  One at a time per matcher.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_LENGTH, GLEED_E_OBJECT, GLEED_E_AMBIGUOUS, GLEED_E_NESTED.
 *   After    After GLEED_E_AMBIGUOUS and GLEED_E_NESTED the bytes before the place of the error have been taken.
 */
gleed_status gleed_matcher_accept_text(gleed_matcher *matcher, const char *text, size_t text_len, size_t *taken,
                                       gleed_error *error);

/* Flag of a mask: where the text may end, the mask has the tokens that end a text, too. */
#define GLEED_MASK_ENDS 1u

/*
 * Goes on with the mask of the tokens that may follow, for at most `units` units of 4,096 nodes of the trie (0: no bound).
 * GLEED_OK: bit id % 32 of element id / 32 of `mask` says whether token id may follow. GLEED_YIELDED: call again with the
 * same mask; its contents mean nothing yet. A call that changes the matcher in between begins a new mask, and so does the
 * call after GLEED_OK. mask_len is that of gleed_trie_mask_len.
 *   Memory   Keeps nothing.
 *   Time     Grows with `units`, and with the ways in which the text can be read, which the limits bound.
 *   Threads  One at a time per matcher.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_LENGTH, GLEED_E_OBJECT, GLEED_E_VALUE, GLEED_E_SHAPE (mask_len),
 *            GLEED_E_NO_TOKEN, GLEED_E_AMBIGUOUS, GLEED_E_NESTED.
 *   After    After GLEED_E_NO_TOKEN, GLEED_E_AMBIGUOUS and GLEED_E_NESTED the contents of `mask` mean nothing, and the next call
 *            begins a new mask.
 */
gleed_status gleed_matcher_mask(gleed_matcher *matcher, const gleed_trie *trie, uint64_t units, uint32_t flags,
                                uint32_t *mask, size_t mask_len, gleed_error *error);

/*
 * Does what gleed_matcher_mask does, but for a text that is to end within `within` more tokens, the next one included (tokens
 * that end a text do not count). A token is allowed if the shortest end behind it has no more bytes than tokens are left. So the
 * text ends in time if the vocabulary has a token for each byte. If it is too late for that, only the tokens that bring the text
 * nearer to its end are allowed, and if there are none, all tokens that the grammar allows. The grammar must have been compiled
 * with GLEED_GRAMMAR_CLOSE.
 *   Memory, Threads, After   As gleed_matcher_mask.
 *   Time     As gleed_matcher_mask. Where the end is near, all tokens are looked at.
 *   Errors   As gleed_matcher_mask, GLEED_E_VALUE (the grammar was compiled without GLEED_GRAMMAR_CLOSE).
 */
gleed_status gleed_matcher_mask_within(gleed_matcher *matcher, const gleed_trie *trie, uint64_t within, uint64_t units,
                                       uint32_t flags, uint32_t *mask, size_t mask_len, gleed_error *error);

/*
 * *is_end receives 1 if the text may end here, else 0.
 *   Memory   Keeps nothing.
 *   Time     Constant.
 *   Threads  Any, while no call changes the matcher.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_OBJECT.
 *   After    Nothing is written.
 */
gleed_status gleed_matcher_is_end(const gleed_matcher *matcher, uint32_t *is_end, gleed_error *error);

/*
 * *is_free receives 1 if the text is free here, as it is before and between the calls of GLEED_GRAMMAR_TOOLS, else 0. Then a program
 * needs no mask: it chooses any token and gives it to gleed_matcher_accept. Only if that does not accept the token, because it begins
 * a call and goes on wrongly, the program makes the mask and chooses again.
 *   Memory   Keeps nothing.
 *   Time     Constant.
 *   Threads  Any, while no call changes the matcher.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_OBJECT.
 *   After    Nothing is written.
 */
gleed_status gleed_matcher_is_free(const gleed_matcher *matcher, uint32_t *is_free, gleed_error *error);

/*
 * *bytes receives a number of bytes that suffices to bring the text to an end. There may be a shorter end. Each byte on the way to
 * this end makes the number smaller, by at least one. The grammar must have been compiled with GLEED_GRAMMAR_CLOSE.
 *   Memory   Keeps nothing.
 *   Time     Grows with the ways in which the text can be read, which the limits bound.
 *   Threads  One at a time per matcher.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_OBJECT, GLEED_E_VALUE (the grammar was compiled without
 *            GLEED_GRAMMAR_CLOSE).
 *   After    Nothing is written.
 */
gleed_status gleed_matcher_bytes_to_end(gleed_matcher *matcher, size_t *bytes, gleed_error *error);

/*
 * Writes the bytes that have to follow to `text`, at most text_len: as long as only one byte may follow and the text may not
 * end. *written receives their number. The last of them may be part of a character. The state does not change, but a mask
 * in the making begins anew.
 *   Memory   Keeps nothing.
 *   Time     As gleed_matcher_accept, 256 times for each byte.
 *   Threads  One at a time per matcher.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_LENGTH, GLEED_E_OBJECT, GLEED_E_AMBIGUOUS, GLEED_E_NESTED.
 *   After    After GLEED_E_AMBIGUOUS and GLEED_E_NESTED `text` may be overwritten. The state has not changed.
 */
gleed_status gleed_matcher_forced(gleed_matcher *matcher, char *text, size_t text_len, size_t *written,
                                  gleed_error *error);

/*
 * Writes the tokens that have to follow to `tokens`, at most tokens_len. *count receives their number. They spell the bytes of
 * gleed_matcher_forced, up to 256, or the first of these bytes: a token is written only if the tokenizer puts it there whatever
 * follows. The program gives each of the tokens to gleed_matcher_accept, and all of them to the engine in one call. The state
 * does not change, but a mask in the making begins anew. `trie` is made of `tokenizer`. The size of the scratch depends on the
 * tokenizer alone; `needed` of the error says how many elements are needed.
 *   Memory   Keeps nothing. The contents of `scratch` are overwritten, also after an error.
 *   Time     As gleed_matcher_forced. The bytes are then encoded once for each place near their end where a token begins that
 *            reaches over the end.
 *   Threads  One at a time per matcher.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_LENGTH, GLEED_E_OBJECT, GLEED_E_SCRATCH_TOO_SMALL, GLEED_E_AMBIGUOUS,
 *            GLEED_E_NESTED.
 *   After    Nothing else is written. The state has not changed.
 */
gleed_status gleed_matcher_forced_tokens(gleed_matcher *matcher, const gleed_tokenizer *tokenizer, const gleed_trie *trie,
                                         uint32_t *scratch, size_t scratch_len, uint32_t *tokens, size_t tokens_len,
                                         size_t *count, gleed_error *error);

/*
 * Copies a matcher to `memory`, with the states before its last tokens. *fork receives a pointer to the copy, which does
 * not depend on the matcher. The size is that of gleed_matcher_plan with the matcher's limits.
 *   Memory   Keeps `memory` and the memory of the grammar.
 *   Time     Grows with the used part of the tables.
 *   Threads  Any, while no call changes the matcher, each with memory of its own.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_LENGTH, GLEED_E_OBJECT, GLEED_E_MEMORY_TOO_SMALL,
 *            GLEED_E_MEMORY_MISALIGNED.
 *   After    Nothing is written, not even to `memory`.
 */
gleed_status gleed_matcher_fork(const gleed_matcher *matcher, void *memory, size_t memory_len, gleed_matcher **fork,
                                gleed_error *error);

/*
 * *tokens receives how many of the last accepted tokens can be taken back.
 *   Memory, Time, Threads, Errors, After   As gleed_matcher_is_end.
 */
gleed_status gleed_matcher_rewindable(const gleed_matcher *matcher, size_t *tokens, gleed_error *error);

/*
 * Takes the last `tokens` accepted tokens back, with all bytes that were taken since.
 *   Memory   Keeps nothing.
 *   Time     Grows with the used part of the tables.
 *   Threads  One at a time per matcher.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_OBJECT, GLEED_E_NOT_REWINDABLE.
 *   After    Nothing has changed.
 */
gleed_status gleed_matcher_rewind(gleed_matcher *matcher, size_t tokens, gleed_error *error);

/*
 * *size receives the bytes of a snapshot of the matcher's state, which are a few hundred.
 *   Memory, Time, Threads, Errors, After   As gleed_matcher_is_end.
 */
gleed_status gleed_matcher_snapshot_size(const gleed_matcher *matcher, size_t *size, gleed_error *error);

/*
 * Writes a snapshot of the matcher's state to `bytes`. *written receives its length. The states before the last tokens are
 * not in it.
 *   Memory   Keeps nothing.
 *   Time     Grows with the used part of the tables.
 *   Threads  Any, while no call changes the matcher.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_LENGTH, GLEED_E_OBJECT, GLEED_E_SNAPSHOT_BUFFER.
 *   After    Nothing is written.
 */
gleed_status gleed_matcher_snapshot(const gleed_matcher *matcher, uint8_t *bytes, size_t len, size_t *written,
                                    gleed_error *error);

/*
 * Gives a matcher the state of a snapshot, which must be of the same grammar, compiled with the same options. Its limits may
 * be others. No tokens can be taken back then.
 *   Memory   Keeps nothing.
 *   Time     Grows with the snapshot, and with the grammar for each of its numbers.
 *   Threads  One at a time per matcher.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_LENGTH, GLEED_E_OBJECT, GLEED_E_SNAPSHOT (at: a byte),
 *            GLEED_E_SNAPSHOT_MAGIC, GLEED_E_SNAPSHOT_VERSION, GLEED_E_SNAPSHOT_GRAMMAR, GLEED_E_AMBIGUOUS, GLEED_E_NESTED.
 *   After    Nothing has changed.
 */
gleed_status gleed_matcher_restore(gleed_matcher *matcher, const uint8_t *bytes, size_t len, gleed_error *error);

/*
 * A writing: a sequence that writes a text under a grammar. It has the handle of the sequence and a matcher, which stay
 * together through fork, rewind, snapshots, and batches that were dropped.
 */
typedef struct gleed_writing gleed_writing;

/* As `within`: the text need not end within a number of tokens. As `bytes_to_end`: the number of bytes is not known. */
#define GLEED_NO_END UINT64_MAX

/* The state of a writing. */
typedef struct gleed_writing_info {
    uint32_t struct_size;  /* sizeof(gleed_writing_info), set by the caller */
    gleed_seq seq;         /* the sequence */
    uint32_t begin;        /* the position of the text's first token */
    uint32_t end;          /* the position behind its last token */
    uint32_t is_end;       /* 1: the text may end here */
    uint32_t reserved;     /* 0 */
    uint64_t bytes_to_end; /* as gleed_matcher_bytes_to_end; GLEED_NO_END without GLEED_GRAMMAR_CLOSE */
} gleed_writing_info;

/*
 * Returns the size and alignment of the memory of a writing, in bytes. `limits` are those of its matcher and may be NULL.
 *   Memory, Time, Threads, Errors, After   As gleed_matcher_plan.
 */
gleed_status gleed_writing_plan(size_t *size, size_t *align, const gleed_matcher_limits *limits, gleed_error *error);

/*
 * Starts a writing in `memory`: an empty text behind the tokens that the sequence has. *writing receives a pointer to it.
 *   Memory   Keeps `memory` and the memory of the grammar. Keeps neither the engine nor the limits.
 *   Time     Constant.
 *   Threads  Any, while no call changes the engine, each with memory of its own.
 *   Errors   As gleed_matcher_init, GLEED_E_SEQUENCE.
 *   After    Nothing is written except to `memory`.
 */
gleed_status gleed_writing_init(const gleed_engine *engine, gleed_seq seq, const gleed_grammar *grammar,
                                const gleed_matcher_limits *limits, void *memory, size_t memory_len,
                                gleed_writing **writing, gleed_error *error);

/*
 * Goes on with the text of a sequence that was restored, in a new writing. `state` begins with the bytes of gleed_writing_state,
 * which were saved with the sequence, as the state of its snapshot for example. The matcher takes the tokens of the text again,
 * about 1 us each. The grammar must be the same; the limits may be others.
 *   Memory   As gleed_writing_init.
 *   Time     Grows with the tokens of the text.
 *   Threads  Any, while no call changes the engine, each with memory of its own.
 *   Errors   As gleed_writing_init, GLEED_E_SNAPSHOT_GRAMMAR (`state` is not one of a writing, or of another grammar),
 *            GLEED_E_NOT_REWINDABLE, GLEED_E_WINDOW, GLEED_E_NOT_ALLOWED as gleed_writing_follow.
 *   After    Nothing is written except to `memory`.
 */
gleed_status gleed_writing_resume(const gleed_engine *engine, const gleed_tokenizer *tokenizer, gleed_seq seq,
                                  const gleed_grammar *grammar, const uint8_t *state, size_t state_len,
                                  const gleed_matcher_limits *limits, void *memory, size_t memory_len,
                                  gleed_writing **writing, gleed_error *error);

/*
 * Opens a sequence that starts with the first `keep` tokens of the writing's sequence, as gleed_fork does, and makes a writing of
 * it that has the text of these tokens. `keep` counts from the beginning of the sequence. *fork receives a pointer to the new
 * writing in `memory`, whose size is that of gleed_writing_plan with the same limits. gleed_writing_describe returns the handle
 * of the new sequence. Returns GLEED_FULL as gleed_fork does.
 *   Memory   Keeps `memory` and the memory of the grammar.
 *   Time     As gleed_fork, and as gleed_writing_follow.
 *   Threads  One at a time per engine and per writing.
 *   Errors   As gleed_fork, GLEED_E_LENGTH, GLEED_E_MEMORY_TOO_SMALL, GLEED_E_MEMORY_MISALIGNED, GLEED_E_NOT_REWINDABLE,
 *            GLEED_E_WINDOW, GLEED_E_NOT_ALLOWED, GLEED_E_AMBIGUOUS, GLEED_E_NESTED as gleed_writing_follow.
 *   After    Nothing has changed but the contents of `memory`.
 */
gleed_status gleed_writing_fork(gleed_writing *writing, gleed_engine *engine, const gleed_tokenizer *tokenizer,
                                size_t keep, void *memory, size_t memory_len, gleed_writing **fork, gleed_error *error);

/*
 * Keeps only the first `keep` tokens of the sequence, as gleed_rewind does, and the text of these tokens.
 *   Memory   Keeps nothing.
 *   Time     As gleed_rewind, and as gleed_writing_follow.
 *   Threads  One at a time per engine and per writing.
 *   Errors   As gleed_rewind, GLEED_E_NOT_REWINDABLE, GLEED_E_WINDOW, GLEED_E_NOT_ALLOWED, GLEED_E_AMBIGUOUS, GLEED_E_NESTED as
 *            gleed_writing_follow.
 *   After    The sequence has not changed. After GLEED_E_NOT_ALLOWED the text may be that of fewer tokens.
 */
gleed_status gleed_writing_rewind(gleed_writing *writing, gleed_engine *engine, const gleed_tokenizer *tokenizer,
                                  size_t keep, gleed_error *error);

/*
 * Brings the text to the length of the sequence. Takes back tokens that the sequence no longer has, because it was rewound or a
 * batch was dropped. Takes tokens that the sequence has in addition. The call compares lengths, not tokens: make it after
 * gleed_rewind and before the sequence gets other tokens, or use gleed_writing_rewind.
 *   Memory   Keeps nothing.
 *   Time     Grows with the tokens that are taken: the new ones, or all tokens of the text if the state to go back to is not kept.
 *   Threads  One at a time per writing, while no call changes the engine.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_OBJECT, GLEED_E_SEQUENCE, GLEED_E_NOT_REWINDABLE (needed: where the text
 *            begins, given: where the sequence ends, before it), GLEED_E_WINDOW (at: the position of a token that has left
 *            the window), GLEED_E_NOT_ALLOWED (at: the position of a token that the grammar does not allow),
 *            GLEED_E_AMBIGUOUS, GLEED_E_NESTED.
 *   After    Nothing has changed. Exception: after GLEED_E_NOT_ALLOWED, GLEED_E_AMBIGUOUS and GLEED_E_NESTED the tokens before the
 *            place of the error have been taken.
 */
gleed_status gleed_writing_follow(gleed_writing *writing, const gleed_engine *engine, const gleed_tokenizer *tokenizer,
                                  gleed_error *error);

/*
 * Writes the state of a writing to *info: where its text is, and whether it may end.
 *   Memory   Keeps nothing.
 *   Time     Grows with the ways in which the text can be read, which the limits bound.
 *   Threads  One at a time per writing.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_OBJECT, GLEED_E_STRUCT_SIZE.
 *   After    Nothing is written.
 */
gleed_status gleed_writing_describe(gleed_writing *writing, gleed_writing_info *info, gleed_error *error);

/*
 * Writes the 16 bytes that have to be saved with the sequence to `bytes`: where the text begins, and of which grammar it is.
 * *written receives their number.
 *   Memory   Keeps nothing.
 *   Time     Constant.
 *   Threads  Any, while no call changes the writing.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_LENGTH, GLEED_E_OBJECT, GLEED_E_SNAPSHOT_BUFFER.
 *   After    Nothing is written.
 */
gleed_status gleed_writing_state(const gleed_writing *writing, uint8_t *bytes, size_t len, size_t *written,
                                 gleed_error *error);

/*
 * Takes a token that the program appends to the sequence, as gleed_matcher_accept does.
 *   Memory, Time, Errors, After   As gleed_matcher_accept.
 *   Threads  One at a time per writing.
 */
gleed_status gleed_writing_accept(gleed_writing *writing, const gleed_tokenizer *tokenizer, uint32_t token,
                                  uint32_t *accepted, gleed_error *error);

/*
 * Goes on with the mask of the tokens that may follow, as gleed_matcher_mask_within does, or, if `within` is GLEED_NO_END, as
 * gleed_matcher_mask does.
 *   Memory, Time, Errors, After   As those of the two functions.
 *   Threads  One at a time per writing.
 */
gleed_status gleed_writing_mask(gleed_writing *writing, const gleed_trie *trie, uint64_t within, uint64_t units,
                                uint32_t flags, uint32_t *mask, size_t mask_len, gleed_error *error);

/*
 * Writes the tokens that have to follow, as gleed_matcher_forced_tokens does.
 *   Memory, Time, Errors, After   As gleed_matcher_forced_tokens.
 *   Threads  One at a time per writing.
 */
gleed_status gleed_writing_forced_tokens(gleed_writing *writing, const gleed_tokenizer *tokenizer, const gleed_trie *trie,
                                         uint32_t *scratch, size_t scratch_len, uint32_t *tokens, size_t tokens_len,
                                         size_t *count, gleed_error *error);

/*
 * Chooses a token as gleed_sample does, but among those that `mask` allows. The mask comes before all other steps. It has
 * one bit for each of the logits_len logits.
 *   Memory   Keeps nothing. The contents of `scratch` are overwritten, also after an error.
 *   Time     Grows with logits_len.
 *   Threads  One at a time per sampler.
 *   Errors   As gleed_sample, GLEED_E_SHAPE (mask_len), GLEED_E_NO_TOKEN (the mask allows nothing).
 *   After    Nothing else is written, and the state of the generator has not changed.
 */
gleed_status gleed_sample_masked(gleed_sampler *sampler, const float *logits, size_t logits_len, const uint32_t *mask,
                                 size_t mask_len, uint64_t *scratch, size_t scratch_len, uint32_t *token,
                                 float *probability, gleed_error *error);

/* A finder of stop strings: strings that end a text. It finds them wherever tokens end. */
typedef struct gleed_stops gleed_stops;

/* A text in memory of the caller: UTF-8, not terminated by 0. */
typedef struct gleed_string {
    const char *text;
    size_t text_len;
} gleed_string;

/* No stop string was found. */
#define GLEED_NO_STOP UINT32_MAX

/* The text that can be shown after a piece: first `held`, then the first text_len bytes of the piece. */
typedef struct gleed_shown {
    uint32_t struct_size; /* sizeof(gleed_shown), set by the caller */
    uint32_t stop;        /* the index of the string that ends the text here, or GLEED_NO_STOP */
    const char *held;     /* text that was held back before, and begins no stop string; it lies in the text of a string */
    size_t held_len;      /* bytes at `held` */
    size_t text_len;      /* how many bytes of the piece are text */
} gleed_shown;

/*
 * Returns the size and alignment of the memory of a finder, in bytes. The size is always the same.
 *   Memory, Time, Threads, Errors, After   As gleed_sampler_size.
 */
gleed_status gleed_stops_size(size_t *size, size_t *align, gleed_error *error);

/*
 * Starts to look for the first of at most 16 strings of 1 to 256 bytes. *stops receives a pointer to the finder.
 *   Memory   Keeps `memory` and the texts of the strings. Does not keep the array.
 *   Time     Constant.
 *   Threads  Any, each with memory of its own.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_LENGTH, GLEED_E_VALUE (at: the index of a string), GLEED_E_TEXT,
 *            GLEED_E_MEMORY_TOO_SMALL, GLEED_E_MEMORY_MISALIGNED.
 *   After    Nothing is written, not even to `memory`.
 */
gleed_status gleed_stops_init(const gleed_string *strings, size_t count, void *memory, size_t memory_len,
                              gleed_stops **stops, gleed_error *error);

/*
 * Takes the next piece of the text. *shown receives the text that can be shown now. Text that could begin a stop string is held
 * back.
 *   Memory   Keeps nothing. `held` is valid as long as the texts of the strings.
 *   Time     Grows with text_len.
 *   Threads  One at a time per finder.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_LENGTH, GLEED_E_OBJECT, GLEED_E_STRUCT_SIZE, GLEED_E_TEXT.
 *   After    Nothing has changed.
 */
gleed_status gleed_stops_push(gleed_stops *stops, const char *text, size_t text_len, gleed_shown *shown,
                              gleed_error *error);

/*
 * Ends the text. *held and *held_len receive the text that was held back. The finder then begins again.
 *   Memory   Keeps nothing. `held` is valid as long as the texts of the strings.
 *   Time     Constant.
 *   Threads  One at a time per finder.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_OBJECT.
 *   After    Nothing has changed.
 */
gleed_status gleed_stops_finish(gleed_stops *stops, const char **held, size_t *held_len, gleed_error *error);

/* A reader of what a model has written: text, thoughts and calls of tools. */
typedef struct gleed_calls gleed_calls;

/* No format: the model calls no tools. */
#define GLEED_NO_CALLS UINT32_MAX

/* The marks around thoughts, at most one of these, and a flag that says how a text begins. */
#define GLEED_THOUGHTS_THINK 1u    /* <think> and </think> */
#define GLEED_THOUGHTS_CHANNEL 2u  /* <|channel>thought and <channel|> */
#define GLEED_THOUGHTS_BRACKETS 4u /* [THINK] and [/THINK] */
#define GLEED_THOUGHTS_SEED 16u    /* <seed:think> and </seed:think> */
#define GLEED_THOUGHTS_OPEN 8u     /* the prompt has opened a thought */

/* The kind of a part. */
#define GLEED_PART_NONE 0u    /* no part: more text is needed, or all of the text has been read */
#define GLEED_PART_TEXT 1u    /* text for the reader */
#define GLEED_PART_THOUGHT 2u /* what the model thinks */
#define GLEED_PART_CALL 3u    /* a call of a tool */
#define GLEED_PART_WRONG 4u   /* no call that can be carried out */

/* What is wrong with a call. */
#define GLEED_CALL_RIGHT 0u
#define GLEED_CALL_INCOMPLETE 1u       /* the text ends inside the call */
#define GLEED_CALL_INVALID 2u          /* what stands here belongs to no call of the format */
#define GLEED_CALL_TOO_DEEP 3u         /* more than 64 lists and objects are inside each other */
#define GLEED_CALL_POSITIONAL 4u       /* an argument has no name */
#define GLEED_CALL_UNKNOWN_TOOL 5u     /* no tool has this name */
#define GLEED_CALL_NO_OBJECT 6u        /* the arguments are no JSON object */
#define GLEED_CALL_MISSING 7u          /* an argument is missing that the tool requires */
#define GLEED_CALL_UNKNOWN_ARGUMENT 8u /* the tool knows no argument of this name */
#define GLEED_CALL_TYPE 9u             /* a value is of another type than the tool's parameters say */
#define GLEED_CALL_VALUE 10u           /* a value is none of those that the tool's parameters list */

/* A part of what a model has written. Fields that say where something begins are byte offsets in the text of gleed_calls_next. */
typedef struct gleed_calls_part {
    uint32_t struct_size; /* sizeof(gleed_calls_part), set by the caller */
    uint32_t kind;        /* GLEED_PART_TEXT, ... */
    uint32_t wrong;       /* GLEED_CALL_RIGHT, ...: what is wrong with the arguments of a call, or why it is no call */
    uint32_t reserved;    /* 0 */
    size_t at;            /* where the part begins */
    size_t len;           /* bytes of the part */
    size_t name_at;       /* where the name of a call's tool begins */
    size_t name_len;      /* bytes of the name */
    size_t id_at;         /* where the identifier that the model gave the call begins */
    size_t id_len;        /* bytes of the identifier; 0: none */
    size_t arguments_at;  /* where the arguments begin, as the model has written them */
    size_t arguments_len; /* bytes of the arguments; 0 if the model has written none: as JSON they are {} */
    size_t json_len;      /* bytes of the arguments as a JSON object */
    size_t wrong_at;      /* the byte that is wrong: of GLEED_PART_CALL in the JSON, of GLEED_PART_WRONG in the text */
} gleed_calls_part;

/*
 * Returns the number of the format of calls with this name in *format, or GLEED_NO_CALLS: "hermes", "llama3", "mistral-v3",
 * "lfm2" and the others of docs/tools.md. Keep the name in files, not the number.
 *   Memory   Keeps nothing.
 *   Time     Constant.
 *   Threads  Any.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_LENGTH.
 *   After    Nothing is written.
 */
gleed_status gleed_calls_named(const char *name, size_t name_len, uint32_t *format, gleed_error *error);

/*
 * Returns how a model with turn format `format` calls tools: *calls receives the number of the format of calls, or GLEED_NO_CALLS
 * if that is not known. *thoughts receives the marks of its thoughts: GLEED_THOUGHTS_THINK, ... or 0. The chat template of the
 * model's file tells families apart that write plain turns in the same way.
 *   Memory   Keeps nothing.
 *   Time     Grows with the length of the chat template.
 *   Threads  Any.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_OBJECT, GLEED_E_VALUE (no such turn format; needed: the last one).
 *   After    Nothing is written.
 */
gleed_status gleed_turns_calls(const gleed_model *model, uint32_t format, uint32_t *calls, uint32_t *thoughts,
                               gleed_error *error);

/*
 * Returns the size and alignment of the memory of a reader, in bytes. The size is always the same.
 *   Memory, Time, Threads, Errors, After   As gleed_sampler_size.
 */
gleed_status gleed_calls_size(size_t *size, size_t *align, gleed_error *error);

/*
 * Starts to read a reply. `format` is a number of gleed_calls_named or GLEED_NO_CALLS, `flags` are GLEED_THOUGHTS_THINK, ...
 * `tools` is a JSON array of tools as docs/tools.md has it; without any (tools_len 0) no names and arguments are checked.
 * *calls receives a pointer to the reader.
 *   Memory   Keeps `memory` and the text at `tools`.
 *   Time     Grows with tools_len, and with the square of the number of tools.
 *   Threads  Any, each with memory of its own.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_LENGTH, GLEED_E_VALUE, GLEED_E_TEXT, GLEED_E_TOOLS,
 *            GLEED_E_MEMORY_TOO_SMALL, GLEED_E_MEMORY_MISALIGNED.
 *   After    Nothing is written, not even to `memory`.
 */
gleed_status gleed_calls_init(uint32_t format, uint32_t flags, const char *tools, size_t tools_len, void *memory,
                              size_t memory_len, gleed_calls **calls, gleed_error *error);

/*
 * Reads the next part of a reply. `text` is all that the model has written so far, with the names of control tokens
 * (GLEED_DECODE_RENDER_SPECIAL), but without the token that ends its turn. Between two calls it may become longer and may
 * move. If is_whole is not 0, it will not become longer. The arguments of a call are written to `json` as a JSON object.
 * A wrong call is no error of this function: *part says what is wrong with it.
 *   Memory   Keeps nothing.
 *   Time     Grows with text_len, and with the length of `tools`.
 *   Threads  One at a time per reader.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_LENGTH, GLEED_E_OBJECT, GLEED_E_STRUCT_SIZE, GLEED_E_TEXT,
 *            GLEED_E_OUTPUT_TOO_SMALL (json_len).
 *   After    After GLEED_E_OUTPUT_TOO_SMALL `json` may be overwritten. Nothing else has changed.
 */
gleed_status gleed_calls_next(gleed_calls *calls, const char *text, size_t text_len, uint32_t is_whole, char *json,
                              size_t json_len, gleed_calls_part *part, gleed_error *error);

#endif /* GLEED_NO_GRAMMAR */

/* ---- Versions ---------------------------------------------------------------------------------------- */

/*
 * Returns the version of the library, "0.1.0" for example.
 *   Memory   The text is static; never NULL.
 *   Time     Constant.
 *   Threads  Any.
 *   Errors   None.
 */
const char *gleed_version(void);

/*
 * Returns GLEED_ABI_VERSION of the library. A program that was compiled with another number must not go on.
 *   Time     Constant.
 *   Threads  Any.
 *   Errors   None.
 */
uint32_t gleed_abi_version(void);

/*
 * Returns the version of the arithmetic. Libraries with equal numbers compute equal bits on every machine, and can read
 * the snapshots of each other.
 *   Time     Constant.
 *   Threads  Any.
 *   Errors   None.
 */
uint32_t gleed_arithmetic_version(void);

/*
 * Asks the operating system to let this process use AMX, the tiles of Intel processors. Returns 1 if the process may use it,
 * else 0: on processors without AMX for bytes, and on systems other than Linux. After 1 GLEED_LEVEL_AMX is there, and
 * GLEED_LEVEL_BEST stands for it. No other function asks, because the permission changes the process: it holds for all of
 * its threads and until its end, and the frames of signals are 8 KB larger on threads that use AMX. Linux refuses if a
 * thread has an alternate signal stack that is too small for such a frame.
 *   Time     Constant: a few system calls.
 *   Threads  Any.
 *   Errors   None.
 */
uint32_t gleed_allow_amx(void);

/* Bytes that suffice for gleed_selftest on every machine. GLEED_LEVEL_SCALAR needs less than half. */
#define GLEED_SELFTEST_BYTES 131072

/*
 * Checks that the kernels of a level compute correct results on this machine. It runs the products of every weight
 * format, the quantization of activations, and the norms on a few blocks, and compares the results with plain code, bit
 * for bit. Call it once on a machine that is new to the program. `memory` has memory_len bytes and is aligned to 4.
 *   Memory   Keeps nothing. The contents of `memory` are overwritten, also after GLEED_E_SELFTEST.
 *   Time     Constant: a few milliseconds on a desktop machine.
 *   Threads  Any, each with memory of its own.
 *   Errors   GLEED_E_VALUE (no such level on this machine), GLEED_E_NULL, GLEED_E_LENGTH, GLEED_E_MEMORY_TOO_SMALL,
 *            GLEED_E_MEMORY_MISALIGNED, GLEED_E_SELFTEST.
 *   After    Nothing else is written.
 */
gleed_status gleed_selftest(uint32_t level, void *memory, size_t memory_len, gleed_error *error);

#ifdef __cplusplus
}
#endif

#endif /* GLEED_H */
