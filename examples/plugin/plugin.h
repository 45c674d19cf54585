/* The interface between a host and a plugin that tells stories. */
#ifndef PLUGIN_H
#define PLUGIN_H

#include <stddef.h>
#include <stdint.h>

#define PLUGIN_VERSION 2

/* A text of the plugin. It lies in the plugin's memory, and is valid until the next call. */
struct plugin_event {
    const char *text; /* UTF-8, not zero-terminated */
    size_t len;
};

struct plugin_api {
    uint32_t version;
    /* Loads the model in `path`. Returns NULL, and a message in `why`, if that fails. */
    void *(*create)(const char *path, char *why, size_t why_len);
    /*
     * Takes all memory that processing needs, and returns 0 if it could. A second call begins a new story. A second of audio computes
     * `tokens_per_second` tokens, or with 0 as many as a quarter of its time allows.
     */
    int (*activate)(void *plugin, double frames_per_second, double tokens_per_second, char *why, size_t why_len);
    /* Called for each buffer of audio, on the host's audio thread. Returns 1 if there is an event, -1 if it has failed, otherwise 0. */
    int (*process)(void *plugin, uint32_t frames, struct plugin_event *event);
    /*
     * Writes the story so far to `bytes`, if that is not NULL. Returns the number of bytes, 0 if there is no story yet, or SIZE_MAX if it
     * has failed.
     */
    size_t (*save)(void *plugin, uint8_t *bytes, size_t len);
    /*
     * Loads a story from `save`, or begins a new one if there are no bytes. Returns 0 if it could. Otherwise nothing has changed. `save`
     * and `load` must not run during `process`.
     */
    int (*load)(void *plugin, const uint8_t *bytes, size_t len);
    void (*destroy)(void *plugin);
};

/* The only symbol of a plugin. */
extern const struct plugin_api plugin_api;

#endif
