/* A Cortex-M4F (the emulator's mps2-an386) from reset to main, without a C library. Output goes through semihosting. */
#include "board.h"

extern uint32_t data_load[], data_start[], data_end[], bss_start[], bss_end[], stack_end[], stack_start[];
extern const uint8_t image_start[];

#define STACK_PAINT 0xccccccccu
#define REGISTER(address) (*(volatile uint32_t *)(address))
#define SYSTICK_CONTROL REGISTER(0xe000e010)
#define SYSTICK_RELOAD REGISTER(0xe000e014)
#define SYSTICK_CURRENT REGISTER(0xe000e018)
#define COPROCESSOR_ACCESS REGISTER(0xe000ed88)

void reset(void);
static void fault(void);

__attribute__((section(".vectors"), used)) static void (*const vectors[16])(void) = {
    (void (*)(void))stack_start, reset, fault, fault, fault, fault, fault, 0, 0, 0, 0, fault, fault, 0, fault, fault,
};

void reset(void)
{
    uint32_t *to;
    const uint32_t *from = data_load;
    /* The paint must not reach this function's own part of the stack. */
    for (to = stack_end; to < (uint32_t *)__builtin_frame_address(0) - 64; to++)
        *(volatile uint32_t *)to = STACK_PAINT;
    for (to = data_start; to < data_end; to++)
        *(volatile uint32_t *)to = *from++;
    for (to = bss_start; to < bss_end; to++)
        *(volatile uint32_t *)to = 0;
    COPROCESSOR_ACCESS |= 0xfu << 20;
    __asm__ volatile("dsb\nisb");
    SYSTICK_RELOAD = 0xffffff;
    SYSTICK_CURRENT = 0;
    SYSTICK_CONTROL = 5;
    board_exit(main() == 0);
}

static void fault(void)
{
    board_exit(0);
}

static void semihost(uint32_t operation, uint32_t argument)
{
    register uint32_t r0 __asm__("r0") = operation;
    register uint32_t r1 __asm__("r1") = argument;
    __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
}

void board_print(const char *text)
{
    semihost(4, (uint32_t)text);
}

void board_print_number(uint32_t number)
{
    char digits[11];
    char *at = digits + 10;
    *at = 0;
    do
        *--at = (char)('0' + number % 10);
    while ((number /= 10) != 0);
    board_print(at);
}

uint32_t board_clock(void)
{
    return SYSTICK_CURRENT;
}

uint32_t board_instructions(uint32_t start)
{
    return ((start - SYSTICK_CURRENT) & 0xffffff) * 40;
}

size_t board_code(void)
{
    size_t image = (size_t)((const uint8_t *)data_load - image_start) + (size_t)((uint8_t *)data_end - (uint8_t *)data_start);
    return image - (size_t)(model_end - model_bytes);
}

size_t board_stack_used(void)
{
    const uint32_t *at = stack_end;
    while (at < stack_start && *(const volatile uint32_t *)at == STACK_PAINT)
        at++;
    return (size_t)(stack_start - at) * 4;
}

void board_exit(int success)
{
    semihost(0x18, success ? 0x20026 : 0x20023);
    for (;;)
        ;
}

/* The file needs no alignment. */
__asm__(".section .rodata.model, \"a\"\n"
        ".global model_bytes\n"
        ".global model_end\n"
        "model_bytes: .incbin \"" MODEL "\"\n"
        "model_end:\n"
        ".text\n");
