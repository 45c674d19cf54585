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
 *            point to what their type and length say.
 *   Threads  Functions that take only const pointers may run at the same time on the same objects. One that
 *            takes a pointer to a non-const object needs that object for itself.
 *   NULL     A pointer is NULL only where this file says so, or with a length of 0.
 *   Structs  start with struct_size, which the caller sets to sizeof the struct. Structs grow at their end.
 *            In what the caller gives, 0 means the default; a field that the library does not know must be 0.
 *   Objects  A model and an engine live in memory of the caller's and need not be closed. A pointer to
 *            something else of 8 bytes or more is recognised as wrong, one to memory that is gone is not.
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

/* ---- Status ------------------------------------------------------------------------------------------ */

typedef int32_t gleed_status;

enum {
    /* The call did what it was asked for. */
    GLEED_OK = 0,
    /* The budget is used up; the next call goes on where this one stopped. */
    GLEED_YIELDED = 1,
    /* No free sequence or block, nothing has changed; needed: how many, given: how many there are. */
    GLEED_FULL = 2,
    /* A stop condition was met. */
    GLEED_STOPPED = 3,

    /* The call. */
    GLEED_E_NULL = -1,        /* a pointer that must not be NULL is */
    GLEED_E_STRUCT_SIZE = -2, /* struct_size is unknown, or fields that this version does not know are set */
    GLEED_E_ALIGNMENT = -3,   /* a pointer is not aligned for its type; needed: the alignment, given: the address */
    GLEED_E_LENGTH = -4,      /* a length passes the end of the address space; needed: the most, given: the length */
    GLEED_E_VALUE = -5,       /* an argument is out of range; needed: the most, given: the value */
    GLEED_E_OBJECT = -6,      /* a pointer is not to an object of its type */
    GLEED_E_INTERNAL = -99,   /* the library contradicts itself: a defect of it, please report */

    /* Memory. */
    GLEED_E_MEMORY_TOO_SMALL = -100,  /* needed, given: bytes */
    GLEED_E_MEMORY_MISALIGNED = -101, /* needed: the alignment, given: bytes by which the memory is off */
    GLEED_E_MEMORY_TOO_LARGE = -102,  /* the limits need more than the machine can address */

    /* The file. The text names the key or tensor. */
    GLEED_E_FILE = -200,           /* damaged; at: the byte, where it is known */
    GLEED_E_FILE_MAGIC = -201,     /* not a GGUF file */
    GLEED_E_FILE_VERSION = -202,   /* a version or byte order that is not supported; given: the version */
    GLEED_E_FILE_TRUNCATED = -203, /* needed: bytes that the file must have at least, given: bytes it has */
    GLEED_E_FILE_SPLIT = -204,     /* one part of a split model; at: which, from 0, given: how many there are */

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

    /* Results. */
    GLEED_E_NON_FINITE = -600, /* an infinity or a NaN; at: the layer, the number of layers for the logits */

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

/* What an engine must be able to hold. 0 stands for the default. */
typedef struct gleed_config {
    uint32_t struct_size; /* sizeof(gleed_config), set by the caller */
    uint32_t sequences;   /* open at a time, at most 65536; default 1 */
    uint32_t context;     /* tokens per sequence; default: what the model was trained on, at most 4096 */
    uint32_t rows;        /* tokens computed together, at most 65536; default 64: more is faster, and larger */
    uint32_t kv_kind;     /* GLEED_KV_PAGED, ... */
    uint32_t kv_type;     /* GLEED_KV_F16, ..., or GLEED_KV_TYPES(GLEED_KV_Q8_0, GLEED_KV_Q4_0), ... */
    uint32_t kv_blocks;   /* blocks of 16 tokens in the pool; default: enough for all sequences at full length */
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

/*
 * Starts an engine without sequences in `memory`, which need not be cleared; *engine then points there.
 * `config` as for gleed_plan.
 *   Memory   Keeps `memory`, as planned, and the bytes of the model's file, but neither the model nor the
 *            config. What the memory held is gone, an engine for example.
 *   Time     Grows with number of tensors and limits; the memory of keys and values is not touched.
 *   Threads  Any, with a memory of its own.
 *   Errors   As gleed_plan, GLEED_E_LENGTH, GLEED_E_MEMORY_TOO_SMALL, GLEED_E_MEMORY_MISALIGNED.
 *   After    Nothing is written, the memory included.
 */
gleed_status gleed_engine_init(const gleed_model *model, const gleed_config *config, void *memory, size_t memory_len,
                               gleed_engine **engine, gleed_error *error);

/* ---- Sequences --------------------------------------------------------------------------------------- */

/* A handle of an open sequence. One that was closed is refused, until 65536 more have had its place. */
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
 * Appends tokens to a sequence and computes the logits of the last one: *logits points to *logits_len
 * numbers, one for each token id. GLEED_FULL where the pool has too few free blocks.
 *   Memory   Keeps nothing. The logits lie in the engine's memory, and are valid until the next call that
 *            takes the engine without const.
 *   Time     Grows with count, size of the model, and length of the sequence.
 *   Threads  The engine's.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_LENGTH, GLEED_E_OBJECT, GLEED_E_SEQUENCE, GLEED_E_BUSY,
 *            GLEED_E_TOKEN, GLEED_E_EMPTY, GLEED_E_CONTEXT, GLEED_E_NON_FINITE.
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

#ifdef __cplusplus
}
#endif

#endif /* GLEED_H */
