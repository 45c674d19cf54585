/*
 * A host for plugins. It loads a plugin and calls it as an audio driver does, for buffers of 128 frames at 48 kHz. An
 * allocation during such a call ends the program. It prints the plugin's text, and how long the calls took.
 *
 * usage: host PLUGIN MODEL.gguf [CALLS] [--allocate]
 *
 * With --allocate the host itself allocates during a call, which shows that the check works. The check replaces malloc,
 * which systems with ELF allow.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "plugin.h"

#define FRAMES 128
#define FRAMES_PER_SECOND 48000.0

/* ---- Memory ------------------------------------------------------------------------------------------- */

static volatile int in_callback;

static void forbid(const char *function)
{
    static const char message[] = " was called during the audio callback\n";
    if (!in_callback)
        return;
    in_callback = 0;
    /* No stdio, because it may allocate. */
    if (write(STDERR_FILENO, function, strlen(function)) < 0 || write(STDERR_FILENO, message, sizeof message - 1) < 0)
        _exit(3);
    abort();
}

/* The lookup of the system's functions may itself allocate. Its memory comes from here, and is never freed. */
static char bootstrap[4096] __attribute__((aligned(16)));
static size_t bootstrap_used;

static int is_bootstrap(const void *memory)
{
    return (uintptr_t)memory - (uintptr_t)bootstrap < sizeof bootstrap;
}

static void *next(const char *name, int *is_looking)
{
    void *function = NULL;
    if (*is_looking)
        return NULL;
    *is_looking = 1;
    function = dlsym(RTLD_NEXT, name);
    *is_looking = 0;
    return function;
}

static void *from_bootstrap(size_t size)
{
    void *memory = bootstrap + bootstrap_used;
    size = (size + 15) / 16 * 16;
    if (size > sizeof bootstrap - bootstrap_used)
        return NULL;
    bootstrap_used += size;
    return memory;
}

void *malloc(size_t size)
{
    static void *(*function)(size_t);
    static int is_looking;
    forbid("malloc");
    if (function == NULL)
        *(void **)&function = next("malloc", &is_looking);
    return function != NULL ? function(size) : from_bootstrap(size);
}

void *calloc(size_t count, size_t size)
{
    static void *(*function)(size_t, size_t);
    static int is_looking;
    forbid("calloc");
    if (function == NULL)
        *(void **)&function = next("calloc", &is_looking);
    return function != NULL ? function(count, size) : from_bootstrap(count * size);
}

void *realloc(void *memory, size_t size)
{
    static void *(*function)(void *, size_t);
    static int is_looking;
    forbid("realloc");
    if (function == NULL)
        *(void **)&function = next("realloc", &is_looking);
    return function != NULL && !is_bootstrap(memory) ? function(memory, size) : NULL;
}

void free(void *memory)
{
    static void (*function)(void *);
    static int is_looking;
    forbid("free");
    if (function == NULL)
        *(void **)&function = next("free", &is_looking);
    if (function != NULL && !is_bootstrap(memory))
        function(memory);
}

int posix_memalign(void **memory, size_t align, size_t size)
{
    static int (*function)(void **, size_t, size_t);
    static int is_looking;
    forbid("posix_memalign");
    if (function == NULL)
        *(void **)&function = next("posix_memalign", &is_looking);
    return function != NULL ? function(memory, align, size) : 12;
}

void *aligned_alloc(size_t align, size_t size)
{
    void *memory = NULL;
    forbid("aligned_alloc");
    return posix_memalign(&memory, align < sizeof memory ? sizeof memory : align, size) == 0 ? memory : NULL;
}

/* ---- Audio -------------------------------------------------------------------------------------------- */

struct times {
    double sum, worst;
};

static double microseconds(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e6 + (double)time.tv_nsec / 1e3;
}

/* Does what a plugin must not do. */
static void allocate(void)
{
    void *volatile memory = malloc(100);
    free(memory);
}

/* Calls the plugin for each buffer, as a driver does. Prints text between the calls. */
static int run(const struct plugin_api *api, void *plugin, unsigned long calls, int allocates, struct times *times)
{
    struct plugin_event event;
    unsigned long i;
    int has_event = 0;
    for (i = 0; i < calls && has_event >= 0; i++) {
        double start = microseconds(), took;
        in_callback = 1;
        has_event = api->process(plugin, FRAMES, &event);
        if (allocates)
            allocate();
        in_callback = 0;
        took = microseconds() - start;
        times->sum += took;
        times->worst = took > times->worst ? took : times->worst;
        if (has_event > 0)
            fwrite(event.text, 1, event.len, stdout);
    }
    printf("\n");
    return has_event;
}

static int perform(const struct plugin_api *api, const char *model, unsigned long calls, int allocates)
{
    struct times times = {0, 0};
    char why[200] = "";
    int status;
    void *plugin = api->create(model, why, sizeof why);
    if (plugin == NULL || api->activate(plugin, FRAMES_PER_SECOND, 0, why, sizeof why) != 0) {
        fprintf(stderr, "host: %s\n", why);
        api->destroy(plugin);
        return 1;
    }
    status = run(api, plugin, calls, allocates, &times);
    api->destroy(plugin);
    if (status < 0) {
        fprintf(stderr, "host: the plugin has failed\n");
        return 1;
    }
    printf("%lu calls without an allocation; a buffer lasts %.0f us, a call took %.0f us on average, %.0f us at most\n", calls,
           FRAMES * 1e6 / FRAMES_PER_SECOND, times.sum / (double)calls, times.worst);
    return 0;
}

#define USAGE "usage: host PLUGIN MODEL.gguf [CALLS] [--allocate], CALLS from 1 to 1000000000\n"
#define MOST_CALLS 1000000000ul

/* Reads a whole number. strtoul alone would read "-1" as the largest number. */
static int parse_calls(const char *text, unsigned long *calls)
{
    char *end = "";
    *calls = text[0] >= '0' && text[0] <= '9' ? strtoul(text, &end, 10) : 0;
    return *end == '\0' && *calls > 0 && *calls <= MOST_CALLS;
}

/* Returns the exit code. Output may still be buffered, and the disk may be full. */
static int flushed(int result)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return result;
    perror("host: standard output");
    return 1;
}

int main(int argc, char **argv)
{
    int allocates = argc > 2 && strcmp(argv[argc - 1], "--allocate") == 0, result;
    int count = argc - allocates;
    unsigned long calls = 200;
    const struct plugin_api *api;
    void *library;
    if (argc == 2 && strcmp(argv[1], "--help") == 0) {
        fputs(USAGE, stdout);
        return flushed(0);
    }
    if (count < 3 || count > 4 || argv[1][0] == '-' || (count > 3 && !parse_calls(argv[3], &calls))) {
        fputs(USAGE, stderr);
        return 2;
    }
    library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        fprintf(stderr, "host: %s\n", dlerror());
        return 1;
    }
    api = dlsym(library, "plugin_api");
    if (api == NULL || api->version != PLUGIN_VERSION) {
        fprintf(stderr, "host: %s is no plugin of version %d\n", argv[1], PLUGIN_VERSION);
        return 1;
    }
    result = perform(api, argv[2], calls, allocates);
    dlclose(library);
    return flushed(result);
}
