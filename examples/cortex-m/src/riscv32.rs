//! A riscv32 without floating point, the emulator's `virt`: its serial port prints, `minstret` counts.

use core::arch::{asm, global_asm};
use core::ptr::addr_of;

/// The word with which `_start` paints the stack.
pub const STACK_PAINT: u32 = 0xcccc_cccc;

// The processor starts here. The program that loads the image has cleared nothing.
global_asm!(
    ".section .start, \"ax\"",
    ".globl _start",
    "_start:",
    "    la   t0, 4f",
    "    csrw mtvec, t0",
    "    la   t0, _bss_start",
    "    la   t1, _stack_end",
    "0:  bgeu t0, t1, 1f",
    "    sw   zero, 0(t0)",
    "    addi t0, t0, 4",
    "    j    0b",
    "1:  la   sp, _stack_start",
    "    li   t1, {paint}",
    "2:  bgeu t0, sp, 3f",
    "    sw   t1, 0(t0)",
    "    addi t0, t0, 4",
    "    j    2b",
    "3:  call {main}",
    // The address of the trap handler must be a multiple of 4.
    "    .balign 4",
    "4:  j    {fault}",
    fault = sym fault,
    main = sym main,
    paint = const STACK_PAINT,
);

extern "C" fn main() -> ! {
    crate::board::run(Machine)
}

/// The trap handler. No trap is expected.
extern "C" fn fault() -> ! {
    exit(false)
}

pub struct Machine;

impl Machine {
    pub fn print(&mut self, text: &str) {
        const SERIAL_PORT: *mut u8 = 0x1000_0000 as *mut u8;
        for &byte in text.as_bytes() {
            // SAFETY: the transmitter of the serial port, which nobody else uses; the emulator's is always ready.
            unsafe { SERIAL_PORT.write_volatile(byte) };
        }
    }

    /// Returns the number of instructions since the reset, modulo 2^32. It is exact with `-icount`.
    pub fn clock(&self) -> u32 {
        let count;
        // SAFETY: only reads the counter.
        unsafe { asm!("csrr {}, minstret", out(reg) count, options(nomem, nostack)) };
        count
    }

    pub fn instructions_since(&self, start: u32) -> u64 {
        u64::from(self.clock().wrapping_sub(start))
    }
}

/// Returns the bytes of the image: code and constants with the model. All RAM starts with 0.
pub fn flash() -> usize {
    unsafe extern "C" {
        static _image_start: u8;
        static _image_end: u8;
    }
    addr_of!(_image_end) as usize - addr_of!(_image_start) as usize
}

pub fn exit(success: bool) -> ! {
    const TEST_DEVICE: *mut u32 = 0x0010_0000 as *mut u32;
    // SAFETY: the register with which a program ends the emulator: 0x5555 with status 0, 0x3333 with the upper half.
    unsafe { TEST_DEVICE.write_volatile(if success { 0x5555 } else { 0x1_3333 }) };
    loop {
        core::hint::spin_loop();
    }
}
