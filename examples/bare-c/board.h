/* The functions that a program on the board has instead of a C library. */
#ifndef BOARD_H
#define BOARD_H

#include <stddef.h>
#include <stdint.h>

/* The model's file, in flash. */
extern const uint8_t model_bytes[];
extern const uint8_t model_end[];

void board_print(const char *text);
void board_print_number(uint32_t number);

/* A clock of 25 MHz that counts 24 bits down. */
uint32_t board_clock(void);

/*
 * Returns the instructions since the clock was at `start`, at most 670 million, if the emulator runs with -icount
 * shift=0.
 */
uint32_t board_instructions(uint32_t start);

/* Return the bytes of code and constants without the model, and the bytes of the stack that were ever used. */
size_t board_code(void);
size_t board_stack_used(void);

/* Ends the emulator. Its status is 0 after success. */
void board_exit(int success);

int main(void);

#endif
