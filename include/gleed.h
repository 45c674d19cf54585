/*
 * gleed.h: embeddable language-model inference. GGUF bytes in, tokens out.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Rules that hold for every function:
 *
 *   Memory   The library never allocates. What it works on is the caller's memory, whose size is asked first.
 *   Status   int32_t: 0 done, > 0 an ordinary outcome, < 0 an error. The numbers never change.
 *   Outputs  are written only on success. A call that fails changes nothing, and what it was called on can
 *            be used as if the call had not been made.
 *   Host     No panic, abort, exit, signal, log line, hidden thread, file, clock, environment variable,
 *            global or thread-local state. Any bytes and any argument values give a status; pointers must
 *            point to what their type and length say. This is all true of a library that was built without Rust's std.
 *            One with std contains std's own state, global and per thread (counters of panics, for example), which calls
 *            touch only if the library panics. That would be a defect: std then allocates, may read RUST_BACKTRACE and
 *            writes to stderr, and the call answers GLEED_E_INTERNAL.
 *   Threads  Functions that take only const pointers may run at the same time on the same objects. One that
 *            takes a pointer to a non-const object needs that object for itself.
 *   NULL     A pointer is NULL only where this file says so, or with a length of 0.
 *   Counts   A count that the object could never take is refused before any of the array is read. One that it could take
 *            is believed: as many elements must be there.
 *   Order    Where several arguments are wrong, the first in this order is answered:
 *              1. `error`: GLEED_E_ALIGNMENT, GLEED_E_STRUCT_SIZE.
 *              2. Objects: GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_OBJECT, then GLEED_E_REENTRANT.
 *              3. Arrays, results and callbacks: GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_LENGTH.
 *              4. Structs: GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_STRUCT_SIZE.
 *              5. Values, and what is in structs: GLEED_E_VALUE, GLEED_E_LIMIT, and of pointers there GLEED_E_NULL, ...
 *              6. Memory to be filled by an init or open, whose size the values say: GLEED_E_MEMORY_*, GLEED_E_NULL,
 *                 GLEED_E_LENGTH. (gleed_model_open and gleed_adapter_open look at the file before.)
 *              7. All else: the sequence (GLEED_E_SEQUENCE, GLEED_E_BUSY, ...), then how many elements an array has, then
 *                 what is in it.
 *            Within 1 to 4 it is the order of the arguments.
 *   Overlap  What a call only reads may overlap. What it writes (results, buffers, scratch, memory) must not overlap
 *            anything else that it is given, the memory of objects and `error` included. Only gleed_materialize notices.
 *   Moving   Arrays, texts, structs and `error` may move or end when the call returns: nothing points to them, unless
 *            the function's Memory line says that it keeps them. What is kept (files, the memory of objects) must neither
 *            move nor end.
 *   Structs  start with struct_size, which the caller sets to sizeof the struct. Structs grow at their end.
 *            In what the caller gives, 0 means the default; a field that the library does not know must be 0.
 *   Objects  Models, adapters, engines, tokenizers, detokenizers and samplers live in memory of the caller's and
 *            need not be closed. A pointer to something else of 8 bytes or more is recognised as wrong, one to memory
 *            that is gone is not. None of them may be moved or copied: each knows where it was made, and one that is
 *            found elsewhere is answered with GLEED_E_OBJECT. (Their bytes may be kept elsewhere and put back to the same
 *            place, while no call runs.) Handles of sequences, numbers of adapters and turn formats, and all structs are
 *            plain data, which may be copied.
 *   Callbacks must not throw, longjmp or panic, and get pointers that end with the call. Functions on the object of the
 *            call that they are made from answer GLEED_E_REENTRANT and do nothing; only where that call takes the object
 *            as const (gleed_snapshot_write), others that take it as const work.
 *   Stack    No function needs more than 32 KiB of stack, callbacks not counted. (docs/abi.md has numbers.)
 *
 * Each function is described by the same lines: what it does, and then
 *   Memory (what of the caller's it keeps), Time (the bound), Threads, Errors, After an error.
 */
#ifndef GLEED_H
#define GLEED_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this file. Compare with gleed_abi_version() where the library is linked dynamically. */
#define GLEED_ABI_VERSION 1

/*
 * GLEED_ALIGNED(64) static uint8_t memory[SIZE]; is memory at a multiple of 64, in C99, C11 and C++: the alignment must be a
 * number. It is for memory that is there when the program starts; sizes and alignments are asked with gleed_plan and so on.
 * A compiler that has no word for it does not get the macro.
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

typedef int32_t gleed_status;

enum {
    /* The call did what it was asked for. */
    GLEED_OK = 0,
    /* The budget is used up; the next call goes on where this one stopped. */
    GLEED_YIELDED = 1,
    /* No free sequence or block, nothing has changed; needed: how many, given: how many there are. */
    GLEED_FULL = 2,
    /* The cancel flag is set; the next call goes on where this one stopped. */
    GLEED_STOPPED = 3,
    /* Rows with logits, or hidden states, are finished: look at them, then go on. */
    GLEED_READY = 4,

    /* The call. */
    GLEED_E_NULL = -1,        /* a pointer that must not be NULL is */
    GLEED_E_STRUCT_SIZE = -2, /* struct_size is unknown, or fields that this version does not know are set */
    GLEED_E_ALIGNMENT = -3,   /* a pointer is not aligned for its type; needed: the alignment, given: the address */
    GLEED_E_LENGTH = -4,      /* a length passes the end of the address space; needed: the most, given: the length */
    GLEED_E_VALUE = -5,       /* an argument is out of range; needed: the most, given: the value */
    GLEED_E_OBJECT = -6,      /* not an object of its type; needed, given: the addresses, where it was moved */
    GLEED_E_REENTRANT = -7,   /* the object is in use by a call that has not returned: by a callback, or another thread */
    GLEED_E_INTERNAL = -99,   /* the library contradicts itself: a defect of it, please report */

    /* Memory. */
    GLEED_E_MEMORY_TOO_SMALL = -100,  /* needed, given: bytes */
    GLEED_E_MEMORY_MISALIGNED = -101, /* needed: the alignment, given: bytes by which the memory is off */
    GLEED_E_MEMORY_TOO_LARGE = -102,  /* the limits need more than the machine can address */
    GLEED_E_SCRATCH_TOO_SMALL = -103, /* needed, given: elements */
    GLEED_E_OUTPUT_TOO_SMALL = -104,  /* needed, given: elements */

    /* The file. The text names the key or tensor. */
    GLEED_E_FILE = -200,           /* damaged; at: the byte, where it is known */
    GLEED_E_FILE_MAGIC = -201,     /* not a GGUF file */
    GLEED_E_FILE_VERSION = -202,   /* a version or byte order that is not supported; given: the version */
    GLEED_E_FILE_TRUNCATED = -203, /* needed: bytes that the file must have at least, given: bytes it has */
    GLEED_E_FILE_SPLIT = -204,     /* one part of a split model; at: which, from 0, given: how many there are */
    GLEED_E_FILE_PARTS = -205,     /* not all parts of a split file; needed: how many there are, given: how many came */
    GLEED_E_FILE_PART_ORDER = -206, /* a part in the place of another; at: the place, needed, given: parts, from 0 */

    /* The model. The text names the key or tensor. */
    GLEED_E_MODEL_ARCHITECTURE = -300,    /* not supported */
    GLEED_E_MODEL_KEY_MISSING = -301,     /* a metadata key is missing */
    GLEED_E_MODEL_KEY_VALUE = -302,       /* a metadata value of the wrong type or out of range */
    GLEED_E_MODEL_KEY_UNSUPPORTED = -303, /* a metadata key asks for something that is not supported */
    GLEED_E_MODEL_TENSOR_MISSING = -304,  /* a tensor is missing */
    GLEED_E_MODEL_TENSOR_UNKNOWN = -305,  /* a tensor that the architecture does not have */
    GLEED_E_MODEL_TENSOR_SHAPE = -306,    /* needed, given: the first of columns and rows that differs */
    GLEED_E_MODEL_TENSOR_TYPE = -307,     /* given: ggml's number of the element type */
    GLEED_E_MODEL_TOO_MANY = -308,        /* layers or tensors; needed: the most, given: how many */

    /* Limits. The text names the limit. */
    GLEED_E_LIMIT = -400, /* out of range; needed: the nearest value in range, given: the value */

    /* Sequences. */
    GLEED_E_SEQUENCE = -500, /* no open sequence has this handle; given: the handle */
    GLEED_E_BUSY = -501,     /* there is unfinished work that the call must not disturb */
    GLEED_E_POSITION = -502, /* not the sequence's next position; needed: that one, given: the position */
    GLEED_E_TOKEN = -503,    /* no such token; at: its index, needed: ids are below this, given: the id */
    GLEED_E_EMPTY = -504,    /* no tokens were given */
    GLEED_E_CONTEXT = -505,  /* the sequence would be too long; needed: the most tokens, given: those it would have */
    GLEED_E_KEEP = -506,     /* fewer tokens than are to be kept; needed: tokens it has, given: those to be kept */
    GLEED_E_LAYER = -507,    /* no such layer, or not its turn; needed: the one whose turn it is, given: the layer */
    GLEED_E_SHAPE = -508,    /* a buffer of the wrong size; needed, given: elements */
    GLEED_E_NOT_KEPT = -509, /* GLEED_KV_OFF keeps no keys and values that could be set */
    GLEED_E_WINDOW = -510,   /* what would be seen has left the window; needed: its first position, given: the position */
    GLEED_E_TOO_MANY = -511, /* with its window the sequence takes fewer tokens at a time; needed: how many, given */
    GLEED_E_NO_LOGITS = -512, /* there are none of what was asked for; needed: rows that have some, given: the row */
    GLEED_E_ADAPTER = -513,   /* no adapter with this number is loaded; needed: numbers are below this, given: it */
    GLEED_E_ADAPTER_ROOM = -514, /* no room for it; at: adapters planned, needed: its rank, given: the rank planned */

    /* Results. */
    GLEED_E_NON_FINITE = -600, /* an infinity or a NaN; at: the layer (their number for the logits), or the token */
    GLEED_E_ALL_BANNED = -601, /* biases ban every token */
    GLEED_E_SELFTEST = -602,   /* this machine computes wrong results at this level */

    /* Text. */
    GLEED_E_VOCAB = -700,             /* the vocabulary contradicts itself */
    GLEED_E_VOCAB_MISSING = -701,     /* a key of the vocabulary is missing */
    GLEED_E_VOCAB_UNSUPPORTED = -702, /* a kind of tokenizer that is not supported */
    GLEED_E_TEXT = -710,              /* not UTF-8; at: the first byte that is not */
    GLEED_E_TEXT_TOO_LONG = -711,     /* needed: the most bytes, given: bytes */
    GLEED_E_TEXT_SPELLING = -712,     /* no token for a byte, nor for the unknown; given: the byte */

    /* Snapshots. */
    GLEED_E_SNAPSHOT = -800,            /* damaged; at: the first token of the damaged block, where it is known */
    GLEED_E_SNAPSHOT_MAGIC = -801,      /* not a snapshot */
    GLEED_E_SNAPSHOT_VERSION = -802,    /* of a version that is not supported; needed: the one that is, given: it */
    GLEED_E_SNAPSHOT_TRUNCATED = -803,  /* needed: bytes that it must have at least, given: bytes it has */
    GLEED_E_SNAPSHOT_TRAILING = -804,   /* bytes follow it; at: the bytes that are its own */
    GLEED_E_SNAPSHOT_MODEL = -805,      /* of another model; needed: the fingerprint of this one, given: of that one */
    GLEED_E_SNAPSHOT_ARITHMETIC = -806, /* of another arithmetic; needed: the version of this one, given: of that one */
    GLEED_E_SNAPSHOT_SHAPE = -807,      /* of another type or shape; needed: the engine's number, given: the snapshot's */
    GLEED_E_SNAPSHOT_BASE = -808,       /* does not continue the sequence; at: tokens that it needs there */
    GLEED_E_SNAPSHOT_BUFFER = -809,     /* the buffer is too small; needed, given: bytes */
    GLEED_E_SNAPSHOT_HOST = -810        /* a callback did not take or give bytes; at: the bytes before */
};

/*
 * Details of an error, in memory of the caller. Functions take a pointer to it, which may be NULL, and
 * write to it only when they return an error or GLEED_FULL.
 *
 * struct_size says how many bytes there are, and must be set before the first call; no call changes it. Where it is less
 * than this version knows, 128 or more in all versions, or where `error` is misaligned, the call answers
 * GLEED_E_STRUCT_SIZE or GLEED_E_ALIGNMENT, does nothing else, and writes nothing, not even here. Where it is more, the
 * fields that this version knows are written, and the others stay as they are.
 */
typedef struct gleed_error {
    uint32_t struct_size; /* sizeof(gleed_error), set by the caller */
    gleed_status status;  /* what the call returned */
    uint64_t at;          /* where; what it counts depends on the status, 0 where there is nothing to say */
    uint64_t needed;      /* what was needed, or the most that is allowed */
    uint64_t given;       /* what was given */
    char text[96];        /* the same in English, UTF-8, ended by 0 */
} gleed_error;

/*
 * A short English text for a status, also for one that this version does not know.
 *   Memory   The text is static; never NULL.
 *   Time     Constant.
 *   Threads  Any.
 *   Errors   None.
 */
const char *gleed_status_text(gleed_status status);

/* ---- Model ------------------------------------------------------------------------------------------- */

/*
 * A model: a description of a GGUF file, which stays where it is. Read-only; any number of engines and
 * threads share it.
 */
typedef struct gleed_model gleed_model;

/*
 * Size and alignment of the memory that a model wants, in bytes: a few hundred, the same for every file.
 *   Memory   Keeps nothing.
 *   Time     Constant.
 *   Threads  Any.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT.
 *   After    Nothing is written.
 */
gleed_status gleed_model_size(size_t *size, size_t *align, gleed_error *error);

/*
 * Checks the GGUF file in `bytes` and describes it in `memory`; *model then points there. No alignment of
 * the bytes is assumed, and they may be read-only: a mapped file, flash, part of a larger file.
 *   Memory   Keeps `bytes` and `memory`, both until the last use of the model and of its engines. The bytes
 *            must not change: a mapped file that is cut shorter is the host's fault.
 *   Time     Grows with metadata and number of tensors; the weights are not touched.
 *   Threads  Any.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_LENGTH, GLEED_E_MEMORY_*, GLEED_E_FILE*, GLEED_E_MODEL_*.
 *   After    Nothing is written, the memory included.
 */
gleed_status gleed_model_open(const uint8_t *bytes, size_t len, void *memory, size_t memory_len,
                              const gleed_model **model, gleed_error *error);

/* A part of a file that was split: NAME-00001-of-00003.gguf and so on. */
typedef struct gleed_part {
    const uint8_t *bytes;
    size_t len;
} gleed_part;

/*
 * Size and alignment of the memory that a model in `count` parts wants, in bytes.
 *   Memory   Keeps nothing.
 *   Time     Constant.
 *   Threads  Any.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_MEMORY_TOO_LARGE.
 *   After    Nothing is written.
 */
gleed_status gleed_model_split_size(size_t count, size_t *size, size_t *align, gleed_error *error);

/*
 * gleed_model_open of a split file: all its parts, in their order. A file that is whole is one part.
 *   Memory   Keeps the bytes of the parts and `memory`, all until the last use of the model and of its engines, and
 *            not the array `parts`.
 *   Time     As gleed_model_open.
 *   Threads  Any, with a memory of its own.
 *   Errors   As gleed_model_open: GLEED_E_FILE_PARTS and GLEED_E_FILE_PART_ORDER among them.
 *   After    Nothing is written, but for GLEED_E_FILE* and GLEED_E_MODEL*: what the memory held is gone then.
 */
gleed_status gleed_model_open_split(const gleed_part *parts, size_t count, void *memory, size_t memory_len,
                                    const gleed_model **model, gleed_error *error);

/* What a model is. */
typedef struct gleed_model_info {
    uint32_t struct_size; /* sizeof(gleed_model_info), set by the caller */
    uint32_t layers;
    uint32_t vocab;   /* token ids are below this; each token has this many logits */
    uint32_t context; /* tokens that it was trained on at a time */
    uint32_t hidden;  /* width of the residual stream */
    uint32_t ffn;     /* width of the feed-forward layer */
    uint32_t heads;   /* query heads */
    uint32_t kv_heads;
    uint32_t head_dim;    /* elements per head */
    uint32_t reserved;    /* 0 */
    uint64_t fingerprint; /* tells models apart; snapshots carry it */
    uint64_t file_bytes;  /* of all parts */
    char architecture[32]; /* its name in the file; texts are UTF-8, cut to fit, ended by 0 */
    char name[96];         /* the model's own name, empty where the file has none */
} gleed_model_info;

/*
 * Says what a model is.
 *   Memory   Keeps nothing.
 *   Time     Reads up to 64 pages of each tensor, for the fingerprint.
 *   Threads  Any.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_OBJECT, GLEED_E_STRUCT_SIZE.
 *   After    Nothing is written.
 */
gleed_status gleed_model_describe(const gleed_model *model, gleed_model_info *info, gleed_error *error);

/*
 * A text among the metadata of a model's file, "tokenizer.chat_template" for example: *text points to *text_len
 * bytes within the file, not ended by 0 and, unless the file is odd, UTF-8. `key` has key_len bytes.
 *   Memory   Keeps nothing. The text lies in the bytes of the file, and is valid as long as they are.
 *   Time     Grows with the metadata.
 *   Threads  Any.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_LENGTH, GLEED_E_OBJECT, GLEED_E_MODEL_KEY_MISSING (there is no
 *            such key), GLEED_E_MODEL_KEY_VALUE (it is no text).
 *   After    Nothing is written.
 */
gleed_status gleed_model_string(const gleed_model *model, const char *key, size_t key_len, const char **text,
                                size_t *text_len, gleed_error *error);

/* ---- Engine ------------------------------------------------------------------------------------------ */

/* An engine: sequences of tokens over one model, and the memory that computing them takes. */
typedef struct gleed_engine gleed_engine;

/* How keys and values are kept. The results are the same. */
enum {
    GLEED_KV_PAGED = 0, /* blocks of 16 tokens from one pool, handed out on demand */
    GLEED_KV_BASIC = 1, /* every sequence has blocks for its full length from the start */
    GLEED_KV_OFF = 2    /* nothing is kept: every call computes the whole sequence again */
};

/* The element type of keys and values. */
enum {
    GLEED_KV_F16 = 0,
    GLEED_KV_F32 = 1,
    GLEED_KV_Q8_0 = 2, /* 8.5 bits: codes of a byte, and a scale per 32 */
    GLEED_KV_Q4_0 = 3  /* 4.5 bits: codes of half a byte, and a scale per 32 */
};

/* Keys of one type, values of another. */
#define GLEED_KV_TYPES(keys, values) ((keys) | ((values) + 1) << 8)

/* The instructions that the kernels use. The results are the same. */
enum {
    GLEED_LEVEL_BEST = 0,    /* the fastest that the machine has */
    GLEED_LEVEL_SCALAR = 1,  /* on every machine */
    GLEED_LEVEL_AVX2 = 2,    /* x86-64: AVX2 and F16C */
    GLEED_LEVEL_AVXVNNI = 3, /* x86-64: these and AVX-VNNI */
    GLEED_LEVEL_AVX512 = 4,  /* x86-64: AVX-512 F, BW, VL, VNNI */
    GLEED_LEVEL_NEON = 5,    /* AArch64 */
    GLEED_LEVEL_DOTPROD = 6, /* AArch64 with the dot product of bytes */
    GLEED_LEVEL_SIMD128 = 7  /* WebAssembly */
};

/* What an engine must be able to hold. 0 stands for the default. */
typedef struct gleed_config {
    uint32_t struct_size; /* sizeof(gleed_config), set by the caller */
    uint32_t sequences;   /* open at a time, at most 65536; default 1 */
    uint32_t context;     /* tokens per sequence; default: what the model was trained on, at most 4096 */
    uint32_t rows;        /* tokens computed together, at most 65536; default 256: more is faster, and larger */
    uint32_t kv_kind;     /* GLEED_KV_PAGED, ... */
    uint32_t kv_type;     /* GLEED_KV_F16, ..., or GLEED_KV_TYPES(GLEED_KV_Q8_0, GLEED_KV_Q4_0), ... */
    uint32_t kv_blocks;   /* blocks of 16 tokens in the pool; default: enough for all sequences at full length */
    uint32_t logit_rows;   /* rows computed together that can have logits, at most `rows`; default 1 */
    uint32_t window_sinks; /* with a window: how many of the first tokens stay visible */
    uint32_t window_last;  /* how many of the last tokens are visible; default: all. Sequences then go on without end */
    uint32_t prefix_cache; /* 1: blocks of prompts are found again, see gleed_reuse; only for GLEED_KV_PAGED */
    uint32_t workers;      /* threads that work at the same time, see gleed_set_executor; default 1 */
    uint32_t level;        /* GLEED_LEVEL_BEST, ... */
    uint32_t adapters;     /* LoRA adapters that can be loaded, at most 8; default 0. See gleed_engine_load_adapter */
    uint32_t adapter_rank; /* the largest rank of one, at most 1024; default 64. Without adapters it costs nothing */
} gleed_config;

/*
 * Size and alignment of the memory that an engine wants, in bytes. `config` may be NULL: all defaults.
 *   Memory   Keeps nothing.
 *   Time     Grows with number of tensors and limits; nothing is computed.
 *   Threads  Any.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_OBJECT, GLEED_E_STRUCT_SIZE, GLEED_E_VALUE,
 *            GLEED_E_LIMIT, GLEED_E_MEMORY_TOO_LARGE.
 *   After    Nothing is written.
 */
gleed_status gleed_plan(const gleed_model *model, const gleed_config *config, size_t *size, size_t *align,
                        gleed_error *error);

/* A plan in numbers. What the config left to the default is filled in. */
typedef struct gleed_plan_info {
    uint32_t struct_size;        /* sizeof(gleed_plan_info), set by the caller */
    uint32_t align;              /* of the memory */
    uint64_t bytes;              /* of the memory: the size that gleed_plan tells */
    uint64_t kv_bytes_per_token; /* keys and values of a token, in all layers */
    uint64_t kv_bytes;           /* keys and values of all blocks */
    uint64_t units_per_token;    /* units of work for one token of one sequence, its logits included, at most: gleed_step */
    uint32_t sections;           /* parts of the memory: gleed_plan_section */
    uint32_t sequences;
    uint32_t context;
    uint32_t rows;
    uint32_t logit_rows;
    uint32_t kv_blocks;
    uint32_t workers;
    uint32_t level;
    uint32_t adapters;
    uint32_t adapter_rank;
} gleed_plan_info;

/*
 * Says what an engine will need.
 *   Memory, Time, Threads, Errors, After   As gleed_plan.
 */
gleed_status gleed_plan_describe(const gleed_model *model, const gleed_config *config, gleed_plan_info *info,
                                 gleed_error *error);

/* A part of an engine's memory. */
typedef struct gleed_section {
    uint32_t struct_size; /* sizeof(gleed_section), set by the caller */
    uint32_t reserved;    /* 0 */
    uint64_t offset;      /* from the start of the memory */
    uint64_t bytes;       /* without the padding after it */
    char name[40];        /* what it holds, ended by 0 */
} gleed_section;

/*
 * Says what part `index` of an engine's memory is for, in their order.
 *   Memory, Time, Threads, After   As gleed_plan.
 *   Errors   As gleed_plan; GLEED_E_VALUE past the last section.
 */
gleed_status gleed_plan_section(const gleed_model *model, const gleed_config *config, size_t index,
                                gleed_section *section, gleed_error *error);

/*
 * Starts an engine without sequences in `memory`, which need not be cleared; *engine then points there.
 * `config` as for gleed_plan.
 *   Memory   Keeps `memory`, as planned, and the bytes of the model's file, but neither the config nor, unless it
 *            is of a split file, the model. What the memory held is gone, an engine for example.
 *   Time     Grows with number of tensors and limits; the memory of keys and values is not touched.
 *   Threads  Any, with a memory of its own.
 *   Errors   As gleed_plan, GLEED_E_LENGTH, GLEED_E_MEMORY_TOO_SMALL, GLEED_E_MEMORY_MISALIGNED.
 *   After    Nothing is written, the memory included.
 */
gleed_status gleed_engine_init(const gleed_model *model, const gleed_config *config, void *memory, size_t memory_len,
                               gleed_engine **engine, gleed_error *error);

/* An engine in numbers. used + free + reclaimable = blocks. */
typedef struct gleed_engine_info {
    uint32_t struct_size;        /* sizeof(gleed_engine_info), set by the caller */
    uint32_t sequences;          /* open ones */
    uint32_t blocks;             /* in the pools */
    uint32_t blocks_used;        /* a sequence or a pin holds them */
    uint32_t blocks_free;        /* they hold nothing */
    uint32_t blocks_reclaimable; /* they hold a cached prefix and are handed out when no other is free */
    uint32_t blocks_pinned;      /* those among the used ones that have a pin */
    uint32_t blocks_high_water;  /* the most that were used at a time */
    uint32_t is_busy;            /* 1 while any sequence has unfinished work */
    uint32_t results;            /* rows that gleed_result can give */
    uint64_t kv_bytes;           /* keys and values of all blocks */
    uint64_t kv_bytes_used;
    uint64_t kv_bytes_high_water;
    uint64_t prefix_lookups; /* calls of gleed_reuse and gleed_prefill_prompt */
    uint64_t prefix_hits;    /* how many of them found anything */
    uint64_t prefix_hit_tokens;
    uint64_t prefix_missed_tokens;
} gleed_engine_info;

/*
 * Says what an engine holds.
 *   Memory   Keeps nothing.
 *   Time     Grows with the number of sequences.
 *   Threads  Any, while nobody changes the engine.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_OBJECT, GLEED_E_STRUCT_SIZE.
 *   After    Nothing is written.
 */
gleed_status gleed_engine_describe(const gleed_engine *engine, gleed_engine_info *info, gleed_error *error);

/* Work of the library's. The host's threads call it with the `arg` that came with it, each index once at most. */
typedef void (*gleed_body)(void *arg, uint32_t index);

/*
 * Calls body(arg, index) at most once for each index below n, at least for one of them, on any threads, at the
 * same time or not, and returns when all the calls have returned. The results do not depend on how.
 */
typedef void (*gleed_parallel_for)(void *ctx, uint32_t n, gleed_body body, void *arg);

/* The host's threads. */
typedef struct gleed_executor {
    uint32_t struct_size;            /* sizeof(gleed_executor), set by the caller */
    uint32_t slots;                  /* calls that can usefully run at a time; 0: as many as the config has workers */
    gleed_parallel_for parallel_for; /* never NULL */
    void *ctx;                       /* its first argument */
} gleed_executor;

/*
 * Lets the host's threads work, at most as many as the config has workers; NULL: only the calling thread, as in
 * the beginning. What computes with an executor that calls no body at all ends with GLEED_E_INTERNAL.
 *   Memory   Keeps a copy of *executor, and calls it until another one is set.
 *   Time     Constant.
 *   Threads  The engine's.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_OBJECT, GLEED_E_STRUCT_SIZE.
 *   After    Nothing has changed.
 */
gleed_status gleed_set_executor(gleed_engine *engine, const gleed_executor *executor, gleed_error *error);

/* ---- Sequences --------------------------------------------------------------------------------------- */

/* A handle of an open sequence, never 0. One that was closed is refused, until 65535 more have had its place. */
typedef uint32_t gleed_seq;

/*
 * Opens an empty sequence. GLEED_FULL where as many are open as the config allows.
 *   Memory   Keeps nothing.
 *   Time     Grows with the number of sequences.
 *   Threads  The engine's.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_OBJECT.
 *   After    Nothing has changed.
 */
gleed_status gleed_seq_open(gleed_engine *engine, gleed_seq *seq, gleed_error *error);

/*
 * Closes a sequence and frees its blocks.
 *   Memory   Keeps nothing.
 *   Time     Grows with the sequence's blocks.
 *   Threads  The engine's.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_OBJECT, GLEED_E_SEQUENCE, GLEED_E_BUSY.
 *   After    Nothing has changed.
 */
gleed_status gleed_seq_close(gleed_engine *engine, gleed_seq seq, gleed_error *error);

/*
 * Empties a sequence and frees its blocks; the handle stays.
 *   Memory, Time, Threads, Errors, After   As gleed_seq_close.
 */
gleed_status gleed_reset(gleed_engine *engine, gleed_seq seq, gleed_error *error);

/*
 * Opens a sequence that continues the first `keep` tokens of another, and shares their blocks (the kinds other
 * than GLEED_KV_PAGED copy them). GLEED_FULL where no sequence is free, or no block for a copy.
 *   Memory   Keeps nothing.
 *   Time     Grows with the number of sequences and of the blocks of `keep` tokens.
 *   Threads  The engine's.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_OBJECT, GLEED_E_SEQUENCE, GLEED_E_BUSY, GLEED_E_KEEP,
 *            GLEED_E_WINDOW.
 *   After    Nothing has changed.
 */
gleed_status gleed_fork(gleed_engine *engine, gleed_seq seq, size_t keep, gleed_seq *fork, gleed_error *error);

/*
 * Keeps only the first `keep` tokens of a sequence.
 *   Memory   Keeps nothing.
 *   Time     Grows with the blocks that are given back.
 *   Threads  The engine's.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_OBJECT, GLEED_E_SEQUENCE, GLEED_E_BUSY, GLEED_E_KEEP,
 *            GLEED_E_WINDOW.
 *   After    Nothing has changed.
 */
gleed_status gleed_rewind(gleed_engine *engine, gleed_seq seq, size_t keep, gleed_error *error);

/* A sequence in numbers. */
typedef struct gleed_seq_info {
    uint32_t struct_size;   /* sizeof(gleed_seq_info), set by the caller */
    uint32_t tokens;        /* finished ones */
    uint32_t queued;        /* not finished yet */
    uint32_t own_blocks;    /* nobody else holds them: what closing the sequence makes available */
    uint32_t shared_blocks; /* another sequence or a pin holds them, too */
    uint32_t is_busy;       /* 1 while it has unfinished work */
    uint64_t units_done;    /* of the batch that is being computed; 0 where the sequence is not part of it */
    uint64_t units_left;    /* of that batch, exactly */
    uint64_t own_bytes;     /* keys and values of the own blocks */
    uint64_t shared_bytes;
} gleed_seq_info;

/*
 * Says what a sequence holds.
 *   Memory   Keeps nothing.
 *   Time     Grows with the sequence's blocks.
 *   Threads  Any, while nobody changes the engine.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_OBJECT, GLEED_E_SEQUENCE, GLEED_E_STRUCT_SIZE.
 *   After    Nothing is written.
 */
gleed_status gleed_seq_describe(const gleed_engine *engine, gleed_seq seq, gleed_seq_info *info, gleed_error *error);

/*
 * Copies the ids of `count` finished tokens of a sequence, from position `first` on. gleed_seq_describe says how many
 * there are. Those whose keys and values are from outside are GLEED_NO_TOKEN.
 *   Memory   Keeps nothing.
 *   Time     Grows with count.
 *   Threads  Any, while nobody changes the engine.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_LENGTH, GLEED_E_OBJECT, GLEED_E_SEQUENCE, GLEED_E_VALUE (there
 *            are fewer), GLEED_E_WINDOW (some have left the window; needed: from where on none has).
 *   After    Nothing is written.
 */
gleed_status gleed_seq_tokens(const gleed_engine *engine, gleed_seq seq, size_t first, uint32_t *tokens, size_t count,
                              gleed_error *error);

/*
 * Whether `tokens` more tokens fit a sequence and the pool: GLEED_OK, or what gleed_queue would answer.
 *   Memory   Keeps nothing.
 *   Time     Grows with the sequence's blocks.
 *   Threads  Any, while nobody changes the engine.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_OBJECT, GLEED_E_SEQUENCE, GLEED_E_BUSY, GLEED_E_CONTEXT,
 *            GLEED_E_TOO_MANY.
 *   After    Nothing is written.
 */
gleed_status gleed_can_extend(const gleed_engine *engine, gleed_seq seq, size_t tokens, gleed_error *error);

/* ---- Tokens in, logits out, at once ------------------------------------------------------------------ */

/*
 * Appends tokens to a sequence and computes the logits of the last one: *logits points to *logits_len
 * numbers, one for each token id. GLEED_FULL where the pool has too few free blocks.
 *   Memory   Keeps nothing. The logits lie in the engine's memory, and are valid until the next call that
 *            takes the engine without const.
 *   Time     Grows with count, size of the model, and length of the sequence.
 *   Threads  The engine's.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_LENGTH, GLEED_E_OBJECT, GLEED_E_SEQUENCE, GLEED_E_BUSY,
 *            GLEED_E_TOKEN, GLEED_E_EMPTY, GLEED_E_CONTEXT, GLEED_E_NON_FINITE. With a window the context is 2^32 - 1.
 *   After    The sequence is as long as before. GLEED_E_NON_FINITE comes while computing, so it ends the
 *            life of earlier logits; after all others these are still valid.
 */
gleed_status gleed_prefill(gleed_engine *engine, gleed_seq seq, const uint32_t *tokens, size_t count,
                           const float **logits, size_t *logits_len, gleed_error *error);

/*
 * gleed_prefill with one token.
 *   Memory, Time, Threads, Errors, After   As gleed_prefill.
 */
gleed_status gleed_decode_step(gleed_engine *engine, gleed_seq seq, uint32_t token, const float **logits,
                               size_t *logits_len, gleed_error *error);

/* ---- Tokens in, logits out, in steps ----------------------------------------------------------------- */

/* Which of the tokens that are queued get logits, or a hidden state instead: see gleed_hidden. */
enum {
    GLEED_LOGITS_LAST = 0,        /* the last one */
    GLEED_LOGITS_ALL = 1,         /* all of them */
    GLEED_LOGITS_LAST_HIDDEN = 2, /* none; the last one gets a hidden state */
    GLEED_LOGITS_HIDDEN = 3       /* none; all of them get a hidden state */
};

/*
 * Queues tokens of a sequence. Their blocks are taken now, so the work can not run out of memory later; nothing
 * is computed yet. Sequences that are queued together are computed together. GLEED_FULL where the pool has too
 * few free blocks.
 *   Memory   Keeps nothing: the tokens are copied.
 *   Time     Grows with count and the sequence's blocks.
 *   Threads  The engine's.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_LENGTH, GLEED_E_OBJECT, GLEED_E_VALUE, GLEED_E_SEQUENCE,
 *            GLEED_E_BUSY, GLEED_E_TOKEN, GLEED_E_EMPTY, GLEED_E_CONTEXT, GLEED_E_TOO_MANY.
 *   After    Nothing has changed.
 */
gleed_status gleed_queue(gleed_engine *engine, gleed_seq seq, const uint32_t *tokens, size_t count, uint32_t logits,
                         gleed_error *error);

/* The host's clock: ticks of any length that never run backwards. All workers call it, at the same time. */
typedef uint64_t (*gleed_clock)(void *ctx);

/* When a step ends: what comes first counts. */
typedef struct gleed_budget {
    uint32_t struct_size; /* sizeof(gleed_budget), set by the caller */
    uint32_t reserved;    /* 0 */
    uint64_t units;       /* the most units of work; 0: no limit. units_per_token of the plan says how many make a token */
    uint64_t deadline;    /* with a clock: no unit but the first begins once it shows this or more */
    gleed_clock clock;    /* NULL: no deadline */
    void *clock_ctx;      /* its argument */
    const uint32_t *cancel; /* another thread or an interrupt writes something other than 0 there to end the step;
                               best atomically. NULL: no flag */
} gleed_budget;

/*
 * Works on what is queued, until rows with logits or hidden states are finished (GLEED_READY), nothing is queued any
 * more (GLEED_OK), the budget is used up (GLEED_YIELDED), or the flag is set (GLEED_STOPPED). Call it until it
 * answers GLEED_OK, look at the results after GLEED_READY, queue more, and so on. The results do not depend on
 * how the work is cut into steps. `budget` may be NULL: no limit.
 *   Memory   Keeps nothing. Ends the life of earlier logits.
 *   Time     At most one unit per worker more than the budget says. A unit is a small part of a layer's work.
 *   Threads  The engine's.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_OBJECT, GLEED_E_STRUCT_SIZE, GLEED_E_VALUE, GLEED_E_NON_FINITE.
 *   After    Nothing has changed, but for GLEED_E_NON_FINITE: the sequences that were computed keep their finished
 *            tokens and lose what was queued.
 */
gleed_status gleed_step(gleed_engine *engine, const gleed_budget *budget, gleed_error *error);

/*
 * Drops what is queued for a sequence and not finished. Finished tokens stay; other sequences lose nothing.
 *   Memory   Keeps nothing. Ends the life of earlier logits.
 *   Time     Grows with the sequence's blocks.
 *   Threads  The engine's.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_OBJECT, GLEED_E_SEQUENCE.
 *   After    Nothing has changed.
 */
gleed_status gleed_cancel(gleed_engine *engine, gleed_seq seq, gleed_error *error);

/*
 * Row `index`, from 0, of those that got logits in the last batch: whose it is, the position of its token, and
 * where its logits are.
 *   Memory   Keeps nothing. The logits lie in the engine's memory, and are valid until the next call that takes
 *            the engine without const.
 *   Time     Grows with the number of rows.
 *   Threads  Any, while nobody changes the engine.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_OBJECT, GLEED_E_NO_LOGITS past the last row.
 *   After    Nothing is written.
 */
gleed_status gleed_result(const gleed_engine *engine, size_t index, gleed_seq *seq, uint32_t *position,
                          const float **logits, size_t *logits_len, gleed_error *error);

/*
 * The logits of a sequence's last row in the last batch.
 *   Memory, Time, Threads, After   As gleed_result.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_OBJECT, GLEED_E_SEQUENCE, GLEED_E_NO_LOGITS.
 */
gleed_status gleed_logits(const gleed_engine *engine, gleed_seq seq, const float **logits, size_t *logits_len,
                          gleed_error *error);

/*
 * Row `index`, from 0, of those that got a hidden state in the last batch: whose it is, the position of its token, and
 * where the result of the final norm is, *hidden_len numbers: `hidden` of gleed_model_info.
 *   Memory   Keeps nothing. The numbers lie in the engine's memory, and are valid until the next call that takes the
 *            engine without const: also one of this function. Ends the life of earlier logits.
 *   Time     Constant: a norm.
 *   Threads  The engine's.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_OBJECT, GLEED_E_NO_LOGITS past the last row.
 *   After    Nothing is written.
 */
gleed_status gleed_hidden(gleed_engine *engine, size_t index, gleed_seq *seq, uint32_t *position, const float **hidden,
                          size_t *hidden_len, gleed_error *error);

/* ---- Texts in numbers --------------------------------------------------------------------------------- */

/* How the hidden states of several tokens become one. */
enum {
    GLEED_POOLING_MEAN = 0, /* their mean */
    GLEED_POOLING_LAST = 1  /* the last one */
};

/*
 * Appends tokens to a sequence, usually an empty one, and pools their hidden states, GLEED_POOLING_MEAN for example, to
 * `values`: an embedding of the text, not scaled to length 1. `values_len` is `hidden` of gleed_model_info.
 *   Memory   Keeps nothing. Ends the life of earlier logits.
 *   Time     As gleed_prefill.
 *   Threads  The engine's.
 *   Errors   As gleed_prefill; GLEED_E_VALUE (no such pooling), GLEED_E_SHAPE (values_len).
 *   After    The sequence is as long as before; what `values` held is gone.
 */
gleed_status gleed_embed(gleed_engine *engine, gleed_seq seq, const uint32_t *tokens, size_t count, uint32_t pooling,
                         float *values, size_t values_len, gleed_error *error);

/*
 * Appends tokens to a sequence and says how probable each was after those before it: values[i] is the natural
 * logarithm of the probability of tokens[i + 1], so `values_len` is count - 1. To score a continuation, begin with
 * the last token of what it continues.
 *   Memory   Keeps nothing. Ends the life of earlier logits.
 *   Time     As gleed_prefill, with logits for each token: `logit_rows` of the config is how many at a time.
 *   Threads  The engine's.
 *   Errors   As gleed_prefill; GLEED_E_SHAPE (values_len).
 *   After    The sequence is as long as before; what `values` held is gone.
 */
gleed_status gleed_log_probs(gleed_engine *engine, gleed_seq seq, const uint32_t *tokens, size_t count, float *values,
                             size_t values_len, gleed_error *error);

/* ---- Adapters ----------------------------------------------------------------------------------------- */

/*
 * A LoRA adapter: a description of a GGUF file with pairs of small matrices that are added to those of a model.
 * Read-only; any number of engines over its model share it.
 */
typedef struct gleed_adapter gleed_adapter;

/* What an adapter is. */
typedef struct gleed_adapter_info {
    uint32_t struct_size; /* sizeof(gleed_adapter_info), set by the caller */
    uint32_t rank;        /* the largest of its matrices: adapter_rank of the config is at least this */
} gleed_adapter_info;

/*
 * Size and alignment of the memory that an adapter wants, in bytes: a few hundred, the same for every file.
 *   Memory, Time, Threads, Errors, After   As gleed_model_size.
 */
gleed_status gleed_adapter_size(size_t *size, size_t *align, gleed_error *error);

/*
 * Checks the GGUF file of an adapter in `bytes` and that it fits a model, and describes it in `memory`; *adapter then
 * points there. Pairs for embeddings, norms and experts are refused.
 *   Memory   Keeps `bytes`, until the last use of the adapter and of the engines that have loaded it, and `memory`,
 *            but not the model.
 *   Time     Grows with metadata and the square of the number of tensors; the matrices are not touched.
 *   Threads  Any.
 *   Errors   As gleed_model_open; GLEED_E_OBJECT.
 *   After    Nothing is written, the memory included.
 */
gleed_status gleed_adapter_open(const gleed_model *model, const uint8_t *bytes, size_t len, void *memory,
                                size_t memory_len, const gleed_adapter **adapter, gleed_error *error);

/*
 * Says what an adapter is.
 *   Memory   Keeps nothing.
 *   Time     Constant.
 *   Threads  Any.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_OBJECT, GLEED_E_STRUCT_SIZE.
 *   After    Nothing is written.
 */
gleed_status gleed_adapter_describe(const gleed_adapter *adapter, gleed_adapter_info *info, gleed_error *error);

/*
 * Loads an adapter, which stays as long as the engine: *number is what it is called by, from 0 on in their order.
 * Nothing of it counts before gleed_seq_set_adapter; the weights of the model stay as they are.
 *   Memory   Keeps the bytes of the adapter's file, but not the adapter.
 *   Time     Grows with the number of its tensors.
 *   Threads  The engine's.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_OBJECT, GLEED_E_VALUE (opened for another kind of model),
 *            GLEED_E_BUSY, GLEED_E_ADAPTER_ROOM.
 *   After    Nothing has changed.
 */
gleed_status gleed_engine_load_adapter(gleed_engine *engine, const gleed_adapter *adapter, uint32_t *number,
                                       gleed_error *error);

/*
 * Says how much of an adapter a sequence wants from its next token on: what it adds is multiplied by `scale`, and with
 * 0 the bits are those of the model alone. A new sequence has 0 of all, a fork what its parent has; several count at
 * once. Keys and values that are there stay as they were computed. Sequences with adapters take no part in
 * gleed_reuse, and snapshots do not hold scales: set them again after a restore.
 *   Memory   Keeps nothing.
 *   Time     Constant.
 *   Threads  The engine's.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_OBJECT, GLEED_E_SEQUENCE, GLEED_E_BUSY, GLEED_E_ADAPTER,
 *            GLEED_E_VALUE (the scale is not finite).
 *   After    Nothing has changed.
 */
gleed_status gleed_seq_set_adapter(gleed_engine *engine, gleed_seq seq, uint32_t number, float scale,
                                   gleed_error *error);

/*
 * How much of an adapter a sequence has.
 *   Memory   Keeps nothing.
 *   Time     Constant.
 *   Threads  Any, while nobody changes the engine.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_OBJECT, GLEED_E_SEQUENCE, GLEED_E_ADAPTER.
 *   After    Nothing is written.
 */
gleed_status gleed_seq_adapter(const gleed_engine *engine, gleed_seq seq, uint32_t number, float *scale,
                               gleed_error *error);

/* ---- What sequences have in common ------------------------------------------------------------------- */

/*
 * Starts an empty sequence with what is known of a prompt: *reused is how many of its tokens the sequence has
 * then, a multiple of 16 and less than count. Prefill the others. Known are full blocks of 16 tokens, from the
 * prompt's start on, that were computed for any sequence, open or closed; 0 where the config has no prefix_cache.
 *   Memory   Keeps nothing.
 *   Time     Grows with count.
 *   Threads  The engine's.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_LENGTH, GLEED_E_OBJECT, GLEED_E_CONTEXT (longer than any sequence),
 *            GLEED_E_SEQUENCE, GLEED_E_BUSY, GLEED_E_POSITION where the sequence is not empty.
 *   After    Nothing has changed.
 */
gleed_status gleed_reuse(gleed_engine *engine, gleed_seq seq, const uint32_t *tokens, size_t count, size_t *reused,
                         gleed_error *error);

/*
 * gleed_reuse, then gleed_prefill of the rest: fills an empty sequence with a prompt.
 *   Memory, Time, Threads   As gleed_prefill.
 *   Errors   As gleed_prefill; GLEED_E_POSITION where the sequence is not empty.
 *   After    The sequence is empty, and the statistics may count the look-up. For logits as gleed_prefill.
 */
gleed_status gleed_prefill_prompt(gleed_engine *engine, gleed_seq seq, const uint32_t *tokens, size_t count,
                                  const float **logits, size_t *logits_len, gleed_error *error);

/*
 * Keeps what is known of a prompt until gleed_unpin, even if no sequence has it any more: *pinned is how many of
 * its tokens that are. Pins count.
 *   Memory   Keeps nothing but the blocks.
 *   Time     Grows with count.
 *   Threads  The engine's.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_LENGTH, GLEED_E_OBJECT, GLEED_E_CONTEXT (longer than any sequence).
 *   After    Nothing has changed.
 */
gleed_status gleed_pin(gleed_engine *engine, const uint32_t *tokens, size_t count, size_t *pinned, gleed_error *error);

/*
 * Takes one pin from each pinned block of a prompt: *unpinned is how many tokens that are. Given the first
 * *pinned tokens that gleed_pin answered for, it undoes that exactly.
 *   Memory, Time, Threads, Errors, After   As gleed_pin.
 */
gleed_status gleed_unpin(gleed_engine *engine, const uint32_t *tokens, size_t count, size_t *unpinned,
                         gleed_error *error);

/* Whether the host gives a sequence up: 0 if not. `info` ends with the call. */
typedef int32_t (*gleed_consent)(void *ctx, gleed_seq seq, const gleed_seq_info *info);

/*
 * Closes idle sequences, the least recently used first, until `tokens` more tokens fit `seq`: *closed is how
 * many. `consent` is asked for each; NULL gives up all. If those that it gives up are not enough, none is closed
 * and the answer is GLEED_FULL.
 *   Memory   Keeps nothing.
 *   Time     Grows with the blocks of the sequences that are considered.
 *   Threads  The engine's.
 *   Errors   As gleed_can_extend.
 *   After    Nothing has changed.
 */
gleed_status gleed_make_room(gleed_engine *engine, gleed_seq seq, size_t tokens, gleed_consent consent, void *ctx,
                             size_t *closed, gleed_error *error);

/* ---- Snapshots --------------------------------------------------------------------------------------- */

/* What a snapshot is to contain besides a sequence's own tokens. */
typedef struct gleed_snapshot_options {
    uint32_t struct_size; /* sizeof(gleed_snapshot_options), set by the caller */
    uint32_t base;        /* tokens at the beginning that the reader will have already, a multiple of 16: a delta */
    const uint8_t *state; /* bytes of the host's own, a sampler's state for example; NULL: none */
    size_t state_len;     /* at most 256 */
} gleed_snapshot_options;

/* What the header of a snapshot says. */
typedef struct gleed_snapshot_info {
    uint32_t struct_size; /* sizeof(gleed_snapshot_info), set by the caller */
    uint32_t tokens;      /* of the sequence, those of the base included */
    uint32_t base;        /* how many of them are not in the snapshot: it is a delta where this is not 0 */
    uint32_t state_len;
    uint64_t bytes;       /* of the snapshot */
    uint64_t fingerprint; /* of the model */
    uint8_t state[256];   /* bytes of the host's, then zeros */
} gleed_snapshot_info;

/* Takes bytes of a snapshot; 0 if it did. */
typedef int32_t (*gleed_sink)(void *ctx, const uint8_t *bytes, size_t len);

/*
 * Fills `bytes` from the start with what comes next of a snapshot and says how far, at most len; 0: that was the
 * end. More than len, SIZE_MAX for example: it could not.
 */
typedef size_t (*gleed_source)(void *ctx, uint8_t *bytes, size_t len);

/*
 * Bytes of a snapshot of a sequence. `options` may be NULL: the whole sequence, no state.
 *   Memory   Keeps nothing.
 *   Time     Constant.
 *   Threads  Any, while nobody changes the engine.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_LENGTH, GLEED_E_OBJECT, GLEED_E_STRUCT_SIZE, GLEED_E_VALUE,
 *            GLEED_E_SEQUENCE, GLEED_E_BUSY, GLEED_E_WINDOW, GLEED_E_NOT_KEPT, GLEED_E_SNAPSHOT_BASE.
 *   After    Nothing is written.
 */
gleed_status gleed_snapshot_size(const gleed_engine *engine, gleed_seq seq, const gleed_snapshot_options *options,
                                 size_t *size, gleed_error *error);

/*
 * Writes a sequence into `bytes`, and how many bytes that are into *written. docs/snapshot.md has the format.
 *   Memory   Keeps nothing.
 *   Time     Grows with the tokens.
 *   Threads  Any, while nobody changes the engine.
 *   Errors   As gleed_snapshot_size; GLEED_E_SNAPSHOT_BUFFER.
 *   After    Nothing is written.
 */
gleed_status gleed_snapshot(const gleed_engine *engine, gleed_seq seq, const gleed_snapshot_options *options,
                            uint8_t *bytes, size_t len, size_t *written, gleed_error *error);

/*
 * Writes a sequence through a callback, which gets the bytes in order, in pieces of at most the keys and values
 * of one layer of 16 tokens.
 *   Memory, Time, Threads   As gleed_snapshot.
 *   Errors   As gleed_snapshot_size; GLEED_E_SNAPSHOT_HOST where the callback did not take bytes.
 *   After    What the callback has got is all that has changed.
 */
gleed_status gleed_snapshot_write(const gleed_engine *engine, gleed_seq seq, const gleed_snapshot_options *options,
                                  gleed_sink sink, void *ctx, uint64_t *written, gleed_error *error);

/*
 * Opens a sequence with the contents of a snapshot. All of it is verified before the sequence is there. `base` is
 * NULL, or for a delta the sequence that has the tokens before it, which the new one then shares. GLEED_FULL
 * where no sequence or too few blocks are free. To replace a sequence: restore, then close the old one.
 *   Memory   Keeps nothing.
 *   Time     Grows with the tokens.
 *   Threads  The engine's.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_LENGTH, GLEED_E_OBJECT, GLEED_E_SEQUENCE, GLEED_E_BUSY,
 *            GLEED_E_CONTEXT, GLEED_E_NOT_KEPT, GLEED_E_SNAPSHOT*.
 *   After    Nothing has changed.
 */
gleed_status gleed_restore(gleed_engine *engine, const gleed_seq *base, const uint8_t *bytes, size_t len,
                           gleed_seq *seq, gleed_error *error);

/*
 * gleed_restore through a callback; what the header said is written to *info, which may be NULL.
 *   Memory, Time, Threads   As gleed_restore. The callback fills parts of the engine's memory.
 *   Errors   As gleed_restore; GLEED_E_STRUCT_SIZE, GLEED_E_SNAPSHOT_HOST where the callback could not.
 *   After    Nothing has changed.
 */
gleed_status gleed_snapshot_read(gleed_engine *engine, const gleed_seq *base, gleed_source source, void *ctx,
                                 gleed_seq *seq, gleed_snapshot_info *info, gleed_error *error);

/*
 * Says what the header of a snapshot says; what follows the header is not looked at, and need not be there.
 *   Memory   Keeps nothing.
 *   Time     Constant.
 *   Threads  Any.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_LENGTH, GLEED_E_STRUCT_SIZE, GLEED_E_SNAPSHOT,
 *            GLEED_E_SNAPSHOT_MAGIC, GLEED_E_SNAPSHOT_VERSION, GLEED_E_SNAPSHOT_TRUNCATED.
 *   After    Nothing is written.
 */
gleed_status gleed_snapshot_describe(const uint8_t *bytes, size_t len, gleed_snapshot_info *info, gleed_error *error);

/* ---- Keys and values, out and in ---------------------------------------------------------------------- */

/*
 * Copies the keys and values of a layer of a sequence: `len` numbers each, [tokens, kv_heads * head_dim].
 *   Memory   Keeps nothing.
 *   Time     Grows with len.
 *   Threads  Any, while nobody changes the engine.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_LENGTH, GLEED_E_OBJECT, GLEED_E_VALUE (the buffers overlap),
 *            GLEED_E_SEQUENCE, GLEED_E_BUSY, GLEED_E_LAYER, GLEED_E_SHAPE, GLEED_E_WINDOW.
 *   After    Nothing is written.
 */
gleed_status gleed_materialize(const gleed_engine *engine, gleed_seq seq, uint32_t layer, float *keys, float *values,
                               size_t len, gleed_error *error);

/*
 * Fills an empty sequence with keys and values from outside, layer by layer from 0 to the last, which completes
 * them: `len` numbers each, [rows, kv_heads * head_dim]. GLEED_FULL where the pool has too few free blocks.
 *   Memory   Keeps nothing.
 *   Time     Grows with len.
 *   Threads  The engine's.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_LENGTH, GLEED_E_OBJECT, GLEED_E_SEQUENCE, GLEED_E_BUSY,
 *            GLEED_E_POSITION (the sequence is not empty), GLEED_E_LAYER, GLEED_E_SHAPE, GLEED_E_CONTEXT,
 *            GLEED_E_TOO_MANY, GLEED_E_NON_FINITE, GLEED_E_NOT_KEPT.
 *   After    Nothing has changed: the layer can be given again.
 */
gleed_status gleed_set_prefill(gleed_engine *engine, gleed_seq seq, uint32_t layer, const float *keys,
                               const float *values, size_t len, gleed_error *error);

/*
 * Appends the keys and values of one token, as gleed_set_prefill: `len` is kv_heads * head_dim.
 *   Memory, Time, Threads, Errors, After   As gleed_set_prefill; the sequence need not be empty.
 */
gleed_status gleed_push_row(gleed_engine *engine, gleed_seq seq, uint32_t layer, const float *keys,
                            const float *values, size_t len, gleed_error *error);

/* ---- From logits to a token --------------------------------------------------------------------------- */

/* A sampler: parameters, the last tokens accepted, and a random generator. It belongs to no engine. */
typedef struct gleed_sampler gleed_sampler;

/* How to choose a token. 0 stands for the default: all 0 takes the most probable one. */
typedef struct gleed_sampler_params {
    uint32_t struct_size;     /* sizeof(gleed_sampler_params), set by the caller */
    uint32_t top_k;           /* keeps this many of the most probable tokens; default: all */
    float temperature;        /* divides the logits; default: the most probable token is taken, nothing is drawn */
    float top_p;              /* keeps the most probable tokens that together have this probability; default 1: all */
    float min_p;              /* keeps tokens at least this many times as probable as the first; default: all */
    float repetition_penalty; /* divides positive and multiplies negative logits of repeated tokens; default 1 */
    float frequency_penalty;  /* taken off the logit of a repeated token for each time it occurs */
    float presence_penalty;   /* taken off the logit of a repeated token once */
    uint32_t penalty_window;  /* how many of the last accepted tokens the penalties look at, at most 256; default 64 */
    uint32_t reserved;        /* 0 */
    uint64_t seed;            /* where the generator starts */
} gleed_sampler_params;

/* What is added to the logit of a token; -infinity bans it. */
typedef struct gleed_bias {
    uint32_t token;
    float bias;
} gleed_bias;

/*
 * Size and alignment of the memory that a sampler wants, in bytes: about 2 KiB, always the same.
 *   Memory   Keeps nothing.
 *   Time     Constant.
 *   Threads  Any.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT.
 *   After    Nothing is written.
 */
gleed_status gleed_sampler_size(size_t *size, size_t *align, gleed_error *error);

/*
 * Starts a sampler in `memory`; *sampler then points there. `params` may be NULL: all defaults.
 *   Memory   Keeps `memory`, and not the params.
 *   Time     Constant.
 *   Threads  Any, with a memory of its own.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_LENGTH, GLEED_E_STRUCT_SIZE, GLEED_E_VALUE,
 *            GLEED_E_MEMORY_TOO_SMALL, GLEED_E_MEMORY_MISALIGNED.
 *   After    Nothing is written, the memory included.
 */
gleed_status gleed_sampler_init(const gleed_sampler_params *params, void *memory, size_t memory_len,
                                gleed_sampler **sampler, gleed_error *error);

/*
 * Replaces the biases of a sampler, at most 64; a token that is listed twice gets both.
 *   Memory   Keeps nothing: they are copied.
 *   Time     Constant.
 *   Threads  The sampler's.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_LENGTH, GLEED_E_OBJECT, GLEED_E_VALUE.
 *   After    Nothing has changed.
 */
gleed_status gleed_sampler_set_biases(gleed_sampler *sampler, const gleed_bias *biases, size_t count,
                                      gleed_error *error);

/*
 * Tells the penalties that a token is now part of the text. gleed_sample does not: the host may discard what it
 * chose, and decides whether the prompt counts.
 *   Memory   Keeps nothing.
 *   Time     Constant.
 *   Threads  The sampler's.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_OBJECT.
 *   After    Nothing has changed.
 */
gleed_status gleed_sampler_accept(gleed_sampler *sampler, uint32_t token, gleed_error *error);

/*
 * The state of the random generator. A new sampler with the same params and biases that accepts the last tokens
 * again and gets this state goes on with the same choices.
 *   Memory   Keeps nothing.
 *   Time     Constant.
 *   Threads  Any, while nobody changes the sampler.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_OBJECT.
 *   After    Nothing is written.
 */
gleed_status gleed_sampler_state(const gleed_sampler *sampler, uint64_t *state, gleed_error *error);

/*
 * Puts the random generator where gleed_sampler_state found it.
 *   Memory, Time, Threads, Errors, After   As gleed_sampler_accept.
 */
gleed_status gleed_sampler_set_state(gleed_sampler *sampler, uint64_t state, gleed_error *error);

/*
 * Chooses a token. *probability, where it is not NULL, is the token's among those that it was drawn from. The scratch
 * must have logits_len elements of 8 bytes, whatever the params: `vocab` of gleed_model_info, for logits of a model.
 *   Memory   Keeps nothing; what the scratch held is gone, also after an error.
 *   Time     Grows with logits_len.
 *   Threads  The sampler's.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_LENGTH, GLEED_E_OBJECT, GLEED_E_NO_LOGITS (logits_len is 0),
 *            GLEED_E_SCRATCH_TOO_SMALL, GLEED_E_NON_FINITE, GLEED_E_TOKEN (of a bias), GLEED_E_ALL_BANNED.
 *   After    Nothing else is written, and the generator has not moved.
 */
gleed_status gleed_sample(gleed_sampler *sampler, const float *logits, size_t logits_len, uint64_t *scratch,
                          size_t scratch_len, uint32_t *token, float *probability, gleed_error *error);

/*
 * The token with the largest logit, the lowest id among equals. It needs no sampler.
 *   Memory   Keeps nothing.
 *   Time     Grows with logits_len.
 *   Threads  Any.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_LENGTH, GLEED_E_NO_LOGITS (logits_len is 0), GLEED_E_NON_FINITE.
 *   After    Nothing is written.
 */
gleed_status gleed_argmax(const float *logits, size_t logits_len, uint32_t *token, gleed_error *error);

/* ---- Text to tokens and back -------------------------------------------------------------------------- */

/* A model's vocabulary with its tables. Read-only; any number of threads share it. */
typedef struct gleed_tokenizer gleed_tokenizer;

/* A stream of tokens that becomes text. */
typedef struct gleed_detokenizer gleed_detokenizer;

/* No token: where a vocabulary does not have one for a purpose. */
#define GLEED_NO_TOKEN UINT32_MAX

/* What a vocabulary is. */
typedef struct gleed_vocab_info {
    uint32_t struct_size; /* sizeof(gleed_vocab_info), set by the caller */
    uint32_t tokens;      /* ids are below this */
    uint32_t bos;         /* begins a text; GLEED_NO_TOKEN where there is none, also below */
    uint32_t eos;         /* ends a text */
    uint32_t eot;         /* ends a turn */
    uint32_t eom;         /* ends a message */
    uint32_t unknown;     /* stands for what can not be spelled */
    uint32_t max_text;    /* the most bytes that one token makes gleed_detokenize write */
    uint32_t adds_bos;    /* 1: GLEED_ENCODE_ADD_SPECIAL puts bos in front */
    uint32_t adds_eos;    /* 1: GLEED_ENCODE_ADD_SPECIAL puts eos at the end */
} gleed_vocab_info;

/* What a token is. */
enum {
    GLEED_TOKEN_UNDEFINED = 0,
    GLEED_TOKEN_NORMAL = 1,       /* ordinary text */
    GLEED_TOKEN_UNKNOWN = 2,      /* stands for what can not be spelled */
    GLEED_TOKEN_CONTROL = 3,      /* steers the model */
    GLEED_TOKEN_USER_DEFINED = 4, /* matched in every text, before anything else */
    GLEED_TOKEN_UNUSED = 5,
    GLEED_TOKEN_BYTE = 6          /* a single byte */
};

/* How to encode; may be added. */
enum {
    GLEED_ENCODE_ADD_SPECIAL = 1,  /* the tokens that begin and end a text, where the vocabulary says so */
    GLEED_ENCODE_PARSE_SPECIAL = 2 /* names of control tokens become these tokens: not for text from strangers */
};

/* How to decode; may be added. */
enum {
    GLEED_DECODE_RENDER_SPECIAL = 1, /* names of control tokens are written; otherwise they are left out */
    GLEED_DECODE_CONTINUES = 2       /* the text goes on where another one ended, as a reply does */
};

/*
 * Size and alignment of the memory that a model's tokenizer wants, in bytes.
 *   Memory   Keeps nothing.
 *   Time     Grows with the vocabulary.
 *   Threads  Any.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_OBJECT, GLEED_E_VOCAB*, GLEED_E_MEMORY_TOO_LARGE.
 *   After    Nothing is written.
 */
gleed_status gleed_tokenizer_size(const gleed_model *model, size_t *size, size_t *align, gleed_error *error);

/*
 * Builds the tables of a model's tokenizer in `memory`; *tokenizer then points there.
 *   Memory   Keeps `memory`, and the bytes of the model's file, but not the model.
 *   Time     Grows with the vocabulary.
 *   Threads  Any, with a memory of its own.
 *   Errors   As gleed_tokenizer_size; GLEED_E_LENGTH, GLEED_E_MEMORY_TOO_SMALL, GLEED_E_MEMORY_MISALIGNED.
 *   After    Nothing is written, but for GLEED_E_VOCAB*: what the memory held is gone then.
 */
gleed_status gleed_tokenizer_init(const gleed_model *model, void *memory, size_t memory_len,
                                  const gleed_tokenizer **tokenizer, gleed_error *error);

/*
 * Says what a vocabulary is.
 *   Memory   Keeps nothing.
 *   Time     Constant.
 *   Threads  Any.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_OBJECT, GLEED_E_STRUCT_SIZE.
 *   After    Nothing is written.
 */
gleed_status gleed_tokenizer_describe(const gleed_tokenizer *tokenizer, gleed_vocab_info *info, gleed_error *error);

/*
 * Says what a token is, GLEED_TOKEN_NORMAL for example, and whether it ends a generation: the end of a text, of a
 * turn or of a message.
 *   Memory   Keeps nothing.
 *   Time     Constant.
 *   Threads  Any.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_OBJECT, GLEED_E_TOKEN.
 *   After    Nothing is written.
 */
gleed_status gleed_token_kind(const gleed_tokenizer *tokenizer, uint32_t token, uint32_t *kind, uint32_t *is_end,
                              gleed_error *error);

/*
 * The id of a token by its exact text, GLEED_NO_TOKEN where no token has it: "<|im_start|>" for example. It is the text
 * as the file spells it: blanks and bytes of ordinary tokens have the vocabulary's own spelling there.
 *   Memory   Keeps nothing.
 *   Time     Grows with text_len.
 *   Threads  Any.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_LENGTH, GLEED_E_OBJECT.
 *   After    Nothing is written.
 */
gleed_status gleed_vocab_find(const gleed_tokenizer *tokenizer, const char *text, size_t text_len, uint32_t *token,
                              gleed_error *error);

/*
 * Turns text into tokens; *count is how many. `text` is UTF-8, not ended by 0. 2000 words of scratch are plenty
 * for most texts of any length; what a text needs, GLEED_E_SCRATCH_TOO_SMALL and GLEED_E_OUTPUT_TOO_SMALL say.
 *   Memory   Keeps nothing; what the scratch held is gone, also after an error.
 *   Time     Grows with n log n of text_len.
 *   Threads  Any, with a scratch of its own.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_LENGTH, GLEED_E_OBJECT, GLEED_E_VALUE, GLEED_E_TEXT,
 *            GLEED_E_TEXT_TOO_LONG, GLEED_E_TEXT_SPELLING, GLEED_E_SCRATCH_TOO_SMALL, GLEED_E_OUTPUT_TOO_SMALL.
 *   After    Nothing else is written.
 */
gleed_status gleed_encode(const gleed_tokenizer *tokenizer, const char *text, size_t text_len, uint32_t flags,
                          uint32_t *scratch, size_t scratch_len, uint32_t *tokens, size_t tokens_len, size_t *count,
                          gleed_error *error);

/*
 * Size and alignment of the memory that a detokenizer wants, in bytes: a few dozen, always the same.
 *   Memory, Time, Threads, Errors, After   As gleed_sampler_size.
 */
gleed_status gleed_detokenizer_size(size_t *size, size_t *align, gleed_error *error);

/*
 * Starts a stream of tokens in `memory`; *detokenizer then points there.
 *   Memory   Keeps `memory`, and not the tokenizer.
 *   Time     Constant.
 *   Threads  Any, with a memory of its own.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_LENGTH, GLEED_E_OBJECT, GLEED_E_VALUE,
 *            GLEED_E_MEMORY_TOO_SMALL, GLEED_E_MEMORY_MISALIGNED.
 *   After    Nothing is written, the memory included.
 */
gleed_status gleed_detokenizer_init(const gleed_tokenizer *tokenizer, uint32_t flags, void *memory, size_t memory_len,
                                    gleed_detokenizer **detokenizer, gleed_error *error);

/*
 * Writes the text that a token completes to `text`, UTF-8 and not ended by 0; *written is how many bytes. A
 * character that comes in pieces is written with its last one. max_text bytes of the vocabulary always suffice.
 * The tokenizer is the one that the detokenizer was started with.
 *   Memory   Keeps nothing.
 *   Time     Grows with the length of the token.
 *   Threads  The detokenizer's.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_LENGTH, GLEED_E_OBJECT, GLEED_E_TOKEN, GLEED_E_OUTPUT_TOO_SMALL.
 *   After    Nothing has changed.
 */
gleed_status gleed_detokenize(gleed_detokenizer *detokenizer, const gleed_tokenizer *tokenizer, uint32_t token,
                              char *text, size_t text_len, size_t *written, gleed_error *error);

/*
 * Ends a stream of tokens: U+FFFD (3 bytes) if it broke off within a character, nothing otherwise. The detokenizer
 * can go on with another text.
 *   Memory   Keeps nothing.
 *   Time     Constant.
 *   Threads  The detokenizer's.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_LENGTH, GLEED_E_OBJECT, GLEED_E_OUTPUT_TOO_SMALL.
 *   After    Nothing has changed.
 */
gleed_status gleed_detokenizer_finish(gleed_detokenizer *detokenizer, char *text, size_t text_len, size_t *written,
                                      gleed_error *error);

/* ---- Conversations ------------------------------------------------------------------------------------ */

/*
 * A turn format is what the chat template of a family of models does to plain messages. Formats have numbers, from 0
 * without gaps, in which libraries may differ; their names never change.
 */

/* No turn format: none that is known. */
#define GLEED_NO_TURNS UINT32_MAX

/* Who says a message; and what a conversation has come to, which is one of these, too. */
enum {
    GLEED_AFTER_NOTHING = 0,  /* it begins (no role) */
    GLEED_ROLE_SYSTEM = 1,    /* what the model is told before the conversation */
    GLEED_ROLE_USER = 2,      /* the other side */
    GLEED_ROLE_ASSISTANT = 3, /* the model */
    GLEED_AFTER_REPLY = 4     /* the model has written, after GLEED_TURNS_REPLY, and its turn is not closed (no role) */
};

/* How to encode messages; may be added. */
enum {
    GLEED_TURNS_ADD_BOS = 1, /* at the beginning, bos where the vocabulary says so and the format has none: for files
                                without a chat template, which would have written it */
    GLEED_TURNS_REPLY = 2    /* at the end, what opens the model's turn */
};

/* A message. */
typedef struct gleed_message {
    uint32_t role;     /* GLEED_ROLE_SYSTEM, ... */
    uint32_t reserved; /* 0 */
    const char *text;  /* UTF-8, not ended by 0. Names of special tokens in it mean nothing */
    size_t text_len;
} gleed_message;

/* What a turn format is. */
typedef struct gleed_turns_info {
    uint32_t struct_size; /* sizeof(gleed_turns_info), set by the caller */
    uint32_t writes_bos;  /* 1: its conversations begin with bos */
    char name[32];        /* "chatml" for example, ended by 0 */
} gleed_turns_info;

/*
 * The turn format of a model's file: by its chat template, or where it has none by the special tokens of its
 * vocabulary. GLEED_NO_TURNS where the template is not known, or there is none and nothing looks like turns. A template
 * is known by characteristic parts: one that was changed in other places is taken for what it was.
 *   Memory   Keeps nothing.
 *   Time     Grows with metadata and template.
 *   Threads  Any.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_OBJECT.
 *   After    Nothing is written.
 */
gleed_status gleed_turns_find(const gleed_model *model, const gleed_tokenizer *tokenizer, uint32_t *format,
                              gleed_error *error);

/*
 * The turn format with this name, GLEED_NO_TURNS where there is none.
 *   Memory   Keeps nothing.
 *   Time     Grows with name_len.
 *   Threads  Any.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_LENGTH.
 *   After    Nothing is written.
 */
gleed_status gleed_turns_named(const char *name, size_t name_len, uint32_t *format, gleed_error *error);

/*
 * Says what a turn format is.
 *   Memory   Keeps nothing.
 *   Time     Constant.
 *   Threads  Any.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_STRUCT_SIZE, GLEED_E_VALUE (there is none; needed: the last one).
 *   After    Nothing is written.
 */
gleed_status gleed_turns_describe(uint32_t format, gleed_turns_info *info, gleed_error *error);

/*
 * Turns messages into tokens in a turn format; *count is how many. They are appended to what a sequence has, which
 * `after` says: the role of the last message, GLEED_AFTER_REPLY, or GLEED_AFTER_NOTHING, before which the format may
 * write something of its own. Only the format's own parts become special tokens, never the text of a message. Of the
 * model's reply everything is in the sequence but the token that ended it: gleed_turns_is_stop. 4000 words of scratch
 * and one for every 4 bytes of the messages are plenty for most of them; what they need, GLEED_E_SCRATCH_TOO_SMALL
 * and GLEED_E_OUTPUT_TOO_SMALL say.
 *   Memory   Keeps nothing; what the scratch held is gone, also after an error.
 *   Time     Grows with n log n of the text's length.
 *   Threads  Any, with a scratch of its own.
 *   Errors   As gleed_encode; GLEED_E_VALUE for a format, role or `after` that there is not, where `at` is the message.
 *   After    Nothing else is written.
 */
gleed_status gleed_turns_encode(const gleed_tokenizer *tokenizer, uint32_t format, uint32_t after,
                                const gleed_message *messages, size_t messages_len, uint32_t flags, uint32_t *scratch,
                                size_t scratch_len, uint32_t *tokens, size_t tokens_len, size_t *count,
                                gleed_error *error);

/*
 * Whether a token ends the model's turn in a turn format: one that the format says, or that ends a generation in any
 * (gleed_token_kind). It is not appended to the sequence: the next turn writes what the format wants there.
 *   Memory   Keeps nothing.
 *   Time     Constant.
 *   Threads  Any.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_OBJECT, GLEED_E_VALUE (no such format), GLEED_E_TOKEN.
 *   After    Nothing is written.
 */
gleed_status gleed_turns_is_stop(const gleed_tokenizer *tokenizer, uint32_t format, uint32_t token, uint32_t *is_stop,
                                 gleed_error *error);

/* ---- Versions ---------------------------------------------------------------------------------------- */

/*
 * The version of the library, "0.1.0" for example.
 *   Memory   The text is static; never NULL.
 *   Time     Constant.
 *   Threads  Any.
 *   Errors   None.
 */
const char *gleed_version(void);

/*
 * GLEED_ABI_VERSION of the library. A program that was compiled with another number must not go on.
 *   Time     Constant.
 *   Threads  Any.
 *   Errors   None.
 */
uint32_t gleed_abi_version(void);

/*
 * The version of the arithmetic. Libraries with equal numbers compute equal bits on every machine, and
 * snapshots can move between them.
 *   Time     Constant.
 *   Threads  Any.
 *   Errors   None.
 */
uint32_t gleed_arithmetic_version(void);

/* Bytes that are enough for gleed_selftest on every machine; GLEED_LEVEL_SCALAR does with less than half. */
#define GLEED_SELFTEST_BYTES 131072

/*
 * Runs the products of every weight format, the quantization of activations and the norms of a level on a few
 * blocks, and compares the results with plain code, bit for bit: at the start, on a machine that is new.
 *   Memory   Keeps nothing; what `memory` held is gone, also after GLEED_E_SELFTEST. It is aligned to 4 bytes.
 *   Time     Constant: a few milliseconds on a desktop machine.
 *   Threads  Any, with a memory of its own.
 *   Errors   GLEED_E_VALUE (no such level on this machine), GLEED_E_NULL, GLEED_E_LENGTH, GLEED_E_MEMORY_TOO_SMALL,
 *            GLEED_E_MEMORY_MISALIGNED, GLEED_E_SELFTEST.
 *   After    Nothing else is written.
 */
gleed_status gleed_selftest(uint32_t level, void *memory, size_t memory_len, gleed_error *error);

#ifdef __cplusplus
}
#endif

#endif /* GLEED_H */
