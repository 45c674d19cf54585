/* A story that is told in some milliseconds of each frame of a game. This file does not depend on Godot. */
#ifndef STORY_H
#define STORY_H

#include <stddef.h>

struct story;

/* Returns NULL if there is no memory. */
struct story *story_new(void);
void story_free(struct story *story);

/*
 * Reads a model's file and takes all memory that a story needs. An open model is closed. Returns NULL, or the reason of a failure, valid until
 * the next call.
 */
const char *story_open(struct story *story, const char *path);

/* Begins a story that goes on from `prompt`. Nothing is computed yet. Returns NULL, or the reason of a failure. */
const char *story_begin(struct story *story, const char *prompt, size_t prompt_len);

/*
 * Computes for this number of milliseconds, which must not be negative. *text receives the new text, valid until the next call. Returns NULL,
 * or the reason of a failure. After a failure the story is done.
 */
const char *story_step(struct story *story, double milliseconds, const char **text, size_t *len);

/* Returns whether a step has nothing to do: the model has ended the story, the context is full, or no story has begun. */
int story_is_done(const struct story *story);

#endif
