/*
 * gleed_gpu.h: models on a GPU, with the bits of the CPU. docs/gpu.md says which models.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The library gleed_gpu_ffi has these functions and all of gleed.h: link it instead of gleed. An engine on a GPU is a
 * gleed_engine. Logits, keys, values and snapshots have the same bits as those of an engine on the CPU.
 *
 * The rules of gleed.h hold, but for these:
 *
 *   Memory   This library and the driver of the GPU allocate memory, start threads and read files and environment
 *            variables. The engine's own state lies in memory of the caller, as in gleed.h.
 *   Objects  A gleed_gpu lies in memory of the library, and has to be closed. A gleed_gpu_model lies in the memory of its
 *            engine, and holds memory of the GPU until it is closed.
 *   Stack    There is no bound: the driver decides how much it needs.
 *   Panics   A panic is a defect of the library, or of wgpu: the call returns GLEED_E_INTERNAL.
 *
 * Order of calls: gleed_gpu_open or gleed_gpu_open_for, gleed_gpu_plan, gleed_gpu_engine_init; the functions of gleed.h with
 * the engine; gleed_gpu_model_close, gleed_gpu_close.
 *
 * The host cannot copy or set keys and values: gleed_materialize, gleed_set_prefill, gleed_append_rows and the like return
 * GLEED_E_ON_DEVICE. Calls that ask for hidden states return it, too. Snapshots copy and set keys and values.
 */
#ifndef GLEED_GPU_H
#define GLEED_GPU_H

#include "gleed.h"

#ifdef __cplusplus
extern "C" {
#endif

#define GLEED_E_ON_DEVICE (-1000)       /* keys and values lie on a device */
#define GLEED_E_DEVICE_LOST (-1001)     /* the device is lost, or its model was closed: see gleed_gpu_replay */
#define GLEED_E_GPU_ADAPTER (-1010)     /* no such adapter; the error's text lists the adapters that there are */
#define GLEED_E_GPU_UNFIT (-1011)       /* the GPU computes other bits than the CPU; the text names the operation */
#define GLEED_E_GPU_UNSUPPORTED (-1012) /* the model or a limit needs something that does not run on a GPU; the text names it */
#define GLEED_E_GPU_TOO_LARGE (-1013)   /* a buffer is too large for the GPU; needed: the most bytes, given: its bytes */
#define GLEED_E_GPU_MEMORY (-1014)      /* the GPU has too little memory; needed: bytes */
#define GLEED_E_GPU_DRIVER (-1015)      /* the driver refused a call; the text has the driver's message */
#define GLEED_E_GPU_TIMEOUT (-1016)     /* the GPU did not finish in time */
#define GLEED_E_GPU_IN_USE (-1017)      /* models are still on the GPU; given: their number */

/* Interfaces to GPUs. */
#define GLEED_GPU_ANY 0u
#define GLEED_GPU_VULKAN 1u
#define GLEED_GPU_METAL 2u
#define GLEED_GPU_DX12 3u

/* A GPU that is open and passed its test. */
typedef struct gleed_gpu gleed_gpu;

/* A model's weights, keys and values on a GPU. */
typedef struct gleed_gpu_model gleed_gpu_model;

/* How a GPU is chosen. */
typedef struct gleed_gpu_choice {
    uint32_t struct_size; /* sizeof(gleed_gpu_choice), set by the caller */
    uint32_t backend;     /* GLEED_GPU_VULKAN and so on */
    uint32_t software;    /* 1: a driver that computes on the CPU is allowed, too */
    uint32_t patience_ms; /* how many milliseconds a call waits for the GPU; 0: 30,000 */
    uint64_t tested;      /* gleed_gpu_info.tested of an earlier start; 0: none */
} gleed_gpu_choice;

/* The properties of a GPU. */
typedef struct gleed_gpu_info {
    uint32_t struct_size;  /* sizeof(gleed_gpu_info), set by the caller */
    uint32_t backend;      /* GLEED_GPU_VULKAN and so on; GLEED_GPU_ANY for an interface that has no number */
    uint32_t software;     /* 1: a driver that computes on the CPU */
    uint32_t reserved;     /* 0 */
    uint64_t buffer_bytes; /* bytes of the largest buffer; 0 if the GPU is not open */
    uint64_t tested;       /* one number for the adapter, driver, tested kernels and arithmetic; 0 if the GPU is not open */
    char name[96];         /* the name of the adapter, terminated by 0 */
    char driver[96];       /* the driver and its version, terminated by 0 */
} gleed_gpu_info;

/*
 * Writes the properties of GPU `index`, from 0, to *info. It opens and tests nothing.
 *   Memory   Keeps nothing.
 *   Time     The time that the drivers take: all of them are asked.
 *   Threads  Any.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_STRUCT_SIZE, GLEED_E_LENGTH, GLEED_E_VALUE past the last GPU,
 *            GLEED_E_GPU_TIMEOUT.
 *   After    Nothing is written.
 */
gleed_status gleed_gpu_adapter(size_t index, gleed_gpu_info *info, gleed_error *error);

/*
 * Opens a GPU and tests it: all kernels run on random and extreme numbers, and every bit has to be the one that the CPU
 * computes. A GPU that differs is refused. If `choice.tested` is the number of this GPU, driver and library, they passed this
 * test before, and a shorter test runs. `choice` may be NULL: any hardware. Hardware comes before drivers that compute on the
 * CPU.
 *   Memory   *gpu lies in memory of the library, until gleed_gpu_close. Keeps nothing of the caller's.
 *   Time     Up to a minute, for most of which the driver compiles.
 *   Threads  Any.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_STRUCT_SIZE, GLEED_E_LENGTH, GLEED_E_VALUE (no backend has this
 *            number), GLEED_E_GPU_ADAPTER (there is no such GPU), GLEED_E_GPU_UNFIT, GLEED_E_GPU_MEMORY, GLEED_E_GPU_DRIVER,
 *            GLEED_E_GPU_TIMEOUT, GLEED_E_DEVICE_LOST.
 *   After    Nothing is written, and nothing stays open.
 */
gleed_status gleed_gpu_open(const gleed_gpu_choice *choice, gleed_gpu **gpu, gleed_error *error);

/*
 * Opens a GPU as gleed_gpu_open does, but for engines of one model: only the kernels that `model` needs with `config` are
 * compiled and tested, which takes about a third of the time. `config` may be NULL. `choice.tested` is the number of a GPU
 * that was opened for a model with the same kernels. gleed_gpu_engine_init refuses a model that needs other kernels.
 *   Memory   As gleed_gpu_open. Keeps nothing of the model either.
 *   Time     As gleed_gpu_open.
 *   Threads  Any.
 *   Errors   As gleed_gpu_open, and as gleed_gpu_plan.
 *   After    Nothing is written, and nothing stays open.
 */
gleed_status gleed_gpu_open_for(const gleed_gpu_choice *choice, const gleed_model *model, const gleed_config *config,
                                gleed_gpu **gpu, gleed_error *error);

/*
 * Writes the properties of an open GPU to *info.
 *   Memory   Keeps nothing.
 *   Time     Constant.
 *   Threads  Any, while no call closes the GPU.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_OBJECT, GLEED_E_STRUCT_SIZE, GLEED_E_LENGTH.
 *   After    Nothing is written.
 */
gleed_status gleed_gpu_describe(const gleed_gpu *gpu, gleed_gpu_info *info, gleed_error *error);

/*
 * Closes a GPU. Its models have to be closed before. The pointer is not valid afterwards.
 *   Memory   Frees the memory of the GPU.
 *   Time     The time that the driver takes.
 *   Threads  One at a time per GPU.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_OBJECT, GLEED_E_GPU_IN_USE.
 *   After    The GPU stays open.
 */
gleed_status gleed_gpu_close(gleed_gpu *gpu, gleed_error *error);

/* What an engine on a GPU needs. */
typedef struct gleed_gpu_plan_info {
    uint32_t struct_size;  /* sizeof(gleed_gpu_plan_info), set by the caller */
    uint32_t align;        /* alignment of the engine's memory */
    uint64_t bytes;        /* bytes of the engine's memory, on the host */
    uint64_t device_bytes; /* bytes of all buffers on the GPU */
    uint32_t buffers;      /* number of these buffers */
    uint32_t dispatches;   /* dispatches of a batch */
} gleed_gpu_plan_info;

/* A buffer on a GPU. */
typedef struct gleed_gpu_buffer {
    uint32_t struct_size; /* sizeof(gleed_gpu_buffer), set by the caller */
    uint32_t reserved;    /* 0 */
    uint64_t bytes;       /* size of the buffer */
    char name[40];        /* what the buffer holds, terminated by 0 */
} gleed_gpu_buffer;

/*
 * Writes what an engine on the GPU will need, on the GPU and on the host, to *info. `config` may be NULL. gleed_gpu_engine_init
 * creates nothing else, and nothing is created later; only the driver allocates while the engine runs.
 *   Memory   Keeps nothing.
 *   Time     Grows with the number of tensors.
 *   Threads  Any, while no call closes the GPU.
 *   Errors   As gleed_plan; GLEED_E_OBJECT; GLEED_E_GPU_UNSUPPORTED, GLEED_E_GPU_TOO_LARGE.
 *   After    Nothing is written.
 */
gleed_status gleed_gpu_plan(const gleed_gpu *gpu, const gleed_model *model, const gleed_config *config,
                            gleed_gpu_plan_info *info, gleed_error *error);

/*
 * Writes buffer `index`, from 0, of a plan to *buffer.
 *   Memory, Time, Threads, After   As gleed_gpu_plan.
 *   Errors   As gleed_gpu_plan; GLEED_E_VALUE past the last buffer.
 */
gleed_status gleed_gpu_plan_buffer(const gleed_gpu *gpu, const gleed_model *model, const gleed_config *config, size_t index,
                                   gleed_gpu_buffer *buffer, gleed_error *error);

/*
 * Starts an engine without sequences whose keys and values, and whose work, are on the GPU: creates all buffers there and
 * uploads the weights. *engine receives a pointer to the engine, *held a pointer to the model on the GPU. `config` is that of
 * gleed_gpu_plan; `memory` has the size and alignment that `bytes` and `align` of its result say.
 *   Memory   As gleed_engine_init. Keeps the GPU until *held is closed; until then `memory` must not be used for anything else.
 *   Time     Grows with the bytes of the weights.
 *   Threads  Any, each with memory of its own, while no call closes the GPU.
 *   Errors   As gleed_gpu_plan; GLEED_E_MEMORY_TOO_SMALL, GLEED_E_MEMORY_MISALIGNED, GLEED_E_GPU_MEMORY,
 *            GLEED_E_GPU_DRIVER, GLEED_E_GPU_TIMEOUT, GLEED_E_DEVICE_LOST.
 *   After    Nothing is written, not even to `memory`, and no buffer is left on the GPU.
 */
gleed_status gleed_gpu_engine_init(gleed_gpu *gpu, const gleed_model *model, const gleed_config *config, void *memory,
                                   size_t memory_len, gleed_engine **engine, gleed_gpu_model **held, gleed_error *error);

/* What a GPU did for a model. */
typedef struct gleed_gpu_use {
    uint32_t struct_size; /* sizeof(gleed_gpu_use), set by the caller */
    uint32_t is_lost;     /* 1: the GPU is lost for this model, or the model was closed */
    uint64_t submits;     /* submits so far */
    uint64_t encoding_ns; /* nanoseconds that the host took to encode the submits */
    char reason[96];      /* why the GPU is lost, terminated by 0; empty if it is not lost */
} gleed_gpu_use;

/*
 * Writes what the GPU did for a model to *info.
 *   Memory   Keeps nothing.
 *   Time     Constant. If a call of the engine uses the GPU, it waits for the end of that use.
 *   Threads  Any.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_OBJECT, GLEED_E_STRUCT_SIZE, GLEED_E_LENGTH.
 *   After    Nothing is written.
 */
gleed_status gleed_gpu_model_describe(const gleed_gpu_model *held, gleed_gpu_use *info, gleed_error *error);

/*
 * Frees what a GPU holds of a model. For its engine the device is then lost: work returns GLEED_E_DEVICE_LOST, and the tokens of
 * its sequences can still be replayed in another engine. Closing a model a second time does nothing.
 *   Memory   Frees the buffers on the GPU.
 *   Time     The time that the driver takes. If a call of the engine uses the GPU, it waits for the end of that use.
 *   Threads  Any.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_OBJECT.
 *   After    Nothing has changed.
 */
gleed_status gleed_gpu_model_close(gleed_gpu_model *held, gleed_error *error);

/*
 * Appends `token` to a sequence without unfinished work, chooses the token with the largest logit, appends that one, and so on,
 * until `count` tokens are chosen. `ids` receives the chosen tokens. On a GPU up to gleed_config.rows of them come from one call
 * of the device, and only the ids are read back. The engine may also be one on the CPU: the ids are the same. The sequence then has
 * `token` and all ids but the last.
 *   Memory   Keeps nothing.
 *   Time     As `count` calls of gleed_decode_step.
 *   Threads  One at a time per engine.
 *   Errors   As gleed_decode_step.
 *   After    The sequence has the tokens that it had, and nothing is written.
 */
gleed_status gleed_gpu_decode_greedy(gleed_engine *engine, gleed_seq seq, uint32_t token, uint32_t *ids, size_t count,
                                     gleed_error *error);

/*
 * Does what gleed_gpu_decode_greedy does, but with tokens that `sampler` chooses and accepts, one after the other. The ids and the
 * final state of the sampler are those of gleed_decode_step, gleed_sample and gleed_sampler_accept in a loop. If the sampler has
 * neither penalties nor biases, a GPU draws the tokens itself; otherwise the logits of each token are read back.
 *   Memory   Keeps nothing.
 *   Time     As `count` calls of gleed_decode_step and gleed_sample.
 *   Threads  One at a time per engine, and per sampler.
 *   Errors   As gleed_decode_step, and as gleed_sample.
 *   After    The sequence has the tokens that it had, the sampler is as before, and nothing is written.
 */
gleed_status gleed_gpu_decode_sampled(gleed_engine *engine, gleed_seq seq, uint32_t token, gleed_sampler *sampler,
                                      uint32_t *ids, size_t count, gleed_error *error);

/*
 * Opens a sequence of `engine` with the finished tokens of the sequence `seq` of `lost`, another engine of the same model, and
 * queues them: gleed_step computes their keys and values again, with the same bits. So a program goes on after a GPU was lost,
 * on the CPU or on another GPU. *copy receives the handle of the new sequence.
 *   Memory   Keeps nothing.
 *   Time     Grows with the tokens.
 *   Threads  One at a time per `engine`; any for `lost`, while no call changes it.
 *   Errors   GLEED_E_NULL, GLEED_E_ALIGNMENT, GLEED_E_OBJECT, GLEED_E_REENTRANT, GLEED_E_SEQUENCE, GLEED_E_WINDOW (a window has
 *            passed over a token), GLEED_E_TOKEN, GLEED_E_CONTEXT, GLEED_FULL; in an encoder GLEED_E_NO_LOGITS,
 *            GLEED_E_ROWS; in an engine of gleed_model_predictor GLEED_E_VALUE.
 *   After    Nothing has changed.
 */
gleed_status gleed_gpu_replay(gleed_engine *engine, const gleed_engine *lost, gleed_seq seq, gleed_seq *copy,
                              gleed_error *error);

#ifdef __cplusplus
}
#endif

#endif
