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
    /* No free block or slot; nothing has changed. */
    GLEED_FULL = 2,
    /* A stop condition was met. */
    GLEED_STOPPED = 3,

    /* The call. */
    GLEED_E_NULL = -1,        /* a pointer that must not be NULL is */
    GLEED_E_STRUCT_SIZE = -2, /* struct_size is unknown, or fields that this version does not know are set */
    GLEED_E_ALIGNMENT = -3,   /* a pointer is not aligned for its type; needed: the alignment, given: the address */
    GLEED_E_LENGTH = -4,      /* a length passes the end of the address space; needed: the most, given: the length */
    GLEED_E_VALUE = -5,       /* an argument is out of range */

    /* Memory. */
    GLEED_E_MEMORY_TOO_SMALL = -100,  /* needed, given: bytes */
    GLEED_E_MEMORY_MISALIGNED = -101, /* needed: the alignment, given: bytes by which the memory is off */
    GLEED_E_MEMORY_TOO_LARGE = -102   /* the limits need more than the machine can address */
};

/*
 * Details of an error, in memory of the caller. Functions take a pointer to it, which may be NULL, and
 * write to it only when they return an error.
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
