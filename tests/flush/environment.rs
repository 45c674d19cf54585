//! The floating-point environment of a thread.
// Each of two tests uses only a part of this module.
#![allow(dead_code)]

use std::arch::asm;
use std::hint::black_box;

#[cfg(target_arch = "x86_64")]
pub(crate) use x86::*;

#[cfg(target_arch = "aarch64")]
pub(crate) use arm::*;

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::asm;

    pub(crate) type Bits = u32;
    pub(crate) const PLAIN: Bits = 0x1f80;
    /// Bits that flush both results and operands, only results, and only operands.
    pub(crate) const FLUSHING: [Bits; 3] = [0x1f80 | 0x8040, 0x1f80 | 0x8000, 0x1f80 | 0x0040];
    /// Whether each of these flushes results, and operands.
    pub(crate) const FLUSHES: [[bool; 2]; 3] = [[true, true], [true, false], [false, true]];

    pub(crate) fn read() -> Bits {
        let mut bits = 0_u32;
        // SAFETY: every x86_64 has SSE. The instruction stores 4 bytes to `bits`, a live u32.
        unsafe { asm!("stmxcsr [{}]", in(reg) &raw mut bits, options(nostack, preserves_flags)) };
        bits
    }

    pub(crate) fn write(bits: Bits) {
        // SAFETY: every x86_64 has SSE. `bits` is one of the constants above or a value that `read` returned, so no
        // reserved bit is set.
        unsafe { asm!("ldmxcsr [{}]", in(reg) &raw const bits, options(nostack)) };
    }
}

#[cfg(target_arch = "aarch64")]
mod arm {
    use super::asm;

    pub(crate) type Bits = u64;
    pub(crate) const PLAIN: Bits = 0;
    /// FZ flushes operands and results. Results are flushed before they are rounded.
    pub(crate) const FLUSHING: [Bits; 1] = [1 << 24];
    /// Whether each of these flushes results, and operands.
    pub(crate) const FLUSHES: [[bool; 2]; 1] = [[true, true]];

    pub(crate) fn read() -> Bits {
        let bits;
        // SAFETY: every AArch64 that runs this has FPCR, which may be read at any privilege.
        unsafe { asm!("mrs {}, fpcr", out(reg) bits, options(nostack, preserves_flags)) };
        bits
    }

    pub(crate) fn write(bits: Bits) {
        // SAFETY: every AArch64 that runs this has FPCR. `bits` is one of the constants above or a value that `read`
        // returned.
        unsafe { asm!("msr fpcr, {}", in(reg) bits, options(nostack)) };
    }
}

/// Runs `f` with these bits in the register, and restores the register.
pub(crate) fn with<R>(bits: Bits, f: impl FnOnce() -> R) -> R {
    let before = read();
    write(bits);
    let result = black_box(black_box(f)());
    write(before);
    result
}
