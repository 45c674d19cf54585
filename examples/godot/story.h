/* A story that is told in the time that a game's frame has for it. It knows nothing of Godot. */
#ifndef STORY_H
#define STORY_H

#include <stddef.h>

struct story;

/* NULL: there is no memory. */
struct story *story_new(void);
void story_free(struct story *story);

/* Reads a model's file and takes all memory that a story needs. What was open is closed. Returns NULL, or why it failed, until the next call. */
const char *story_open(struct story *story, const char *path);

/* Begins a story that goes on from `prompt`. Nothing is computed yet. Returns NULL, or why it failed. */
const char *story_begin(struct story *story, const char *prompt, size_t prompt_len);

/*
 * Computes for so many milliseconds, which are not negative. *text receives what has come, until the next call. Returns NULL, or why it failed:
 * then the story is done.
 */
const char *story_step(struct story *story, double milliseconds, const char **text, size_t *len);

/* Whether a step has nothing to do: the model has ended the story, the context is full, or none has begun. */
int story_is_done(const struct story *story);

#endif
