/* What a host and a plugin that tells stories agree on. */
#ifndef PLUGIN_H
#define PLUGIN_H

#include <stddef.h>
#include <stdint.h>

#define PLUGIN_VERSION 2

/* Text that the plugin says. Lies in the plugin, until the next call. */
struct plugin_event {
    const char *text; /* UTF-8, not ended by 0 */
    size_t len;
};

struct plugin_api {
    uint32_t version;
    /* Loads the model in `path`. NULL, and a message in `why`, where that does not work. */
    void *(*create)(const char *path, char *why, size_t why_len);
    /*
     * Takes all memory that processing needs: 0 if it could. Again: starts over. A second of audio computes so many tokens; 0: as many as
     * a quarter of its time suffices for.
     */
    int (*activate)(void *plugin, double frames_per_second, double tokens_per_second, char *why, size_t why_len);
    /* Called for each buffer of audio, on the host's audio thread: 1 where there is an event, -1 where it has failed. */
    int (*process)(void *plugin, uint32_t frames, struct plugin_event *event);
    /* Writes the story so far to `bytes`, or only says how many there are (NULL). 0: there is none yet. SIZE_MAX: it has failed. */
    size_t (*save)(void *plugin, uint8_t *bytes, size_t len);
    /* Goes on where `save` was: 0 if it could; else nothing has changed. No bytes: a new story. Neither runs beside `process`. */
    int (*load)(void *plugin, const uint8_t *bytes, size_t len);
    void (*destroy)(void *plugin);
};

/* The only symbol of a plugin. */
extern const struct plugin_api plugin_api;

#endif
