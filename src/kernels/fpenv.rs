//! The floating-point environment: rounding mode, flush-to-zero, exception masks.
//!
//! The arithmetic is defined with round to nearest even and subnormals kept; a host (audio, games) may
//! run with something else. Every entry point of the library and every body that a host's worker
//! executes runs inside [`with_default`].
//!
//! | target | register | default |
//! |---|---|---|
//! | x86 and x86_64 with SSE | MXCSR | 0x1f80: nearest even, no FTZ, no DAZ, exceptions masked |
//! | aarch64 | FPCR, FPSR | 0 |
//! | 32-bit Arm, hard float | FPSCR | 0; with MVE LTPSIZE is 4 |
//! | RISC-V Linux | fcsr | 0 |
//! | wasm, soft float | none | nothing to set: there is only the default |
//!
//! On any other target nothing is set, and the host must call with its default environment. Bare-metal
//! RISC-V is among them: stable compilers do not say whether it has the F extension (its only setting
//! is the rounding mode).
#![allow(unsafe_code)]

use core::hint::black_box;
#[cfg(feature = "flush-test")]
use core::sync::atomic::{AtomicBool, Ordering};

/// Whether the host's environment stays.
#[cfg(feature = "flush-test")]
static KEEPS: AtomicBool = AtomicBool::new(false);

/// Says whether [`with_default`] leaves the host's environment as it is, on all threads: only for the test that a
/// machine which flushes subnormal numbers to zero computes the same bits.
#[cfg(feature = "flush-test")]
pub fn keep_environment(keeps: bool) {
    KEEPS.store(keeps, Ordering::SeqCst);
}

/// Runs `f` with the default floating-point environment; afterwards, also where `f` unwinds, the
/// register is back at the host's value, bit for bit: status flags that `f` raised are not seen.
pub fn with_default<R>(f: impl FnOnce() -> R) -> R {
    #[cfg(feature = "flush-test")]
    if KEEPS.load(Ordering::SeqCst) {
        return black_box(black_box(f)());
    }
    let host = Restore(register::read());
    register::write(register::default(host.0));
    // The compiler does not know that arithmetic depends on the register and might move it past the
    // write. Nothing can be computed from what `f` captures before the first black box has returned
    // it, and nothing of the result, or of memory that `f` can reach, is late for the second.
    black_box(black_box(f)())
}

/// Puts the host's environment back.
struct Restore(register::Bits);

impl Drop for Restore {
    fn drop(&mut self) {
        register::write(self.0);
    }
}

#[cfg(all(any(target_arch = "x86", target_arch = "x86_64"), target_feature = "sse", not(miri)))]
mod register {
    use core::arch::asm;

    pub(super) type Bits = u32;

    /// The default where the host has these bits.
    pub(super) fn default(_: Bits) -> Bits {
        0x1f80
    }

    #[inline(always)]
    pub(super) fn read() -> Bits {
        let mut bits: Bits = 0;
        // SAFETY: the target has SSE, so the instruction exists; it stores 4 bytes to `bits`, which is
        // a live u32, and changes no register or flag.
        unsafe { asm!("stmxcsr [{}]", in(reg) &raw mut bits, options(nostack, preserves_flags)) };
        bits
    }

    #[inline(always)]
    pub(super) fn write(bits: Bits) {
        // SAFETY: the target has SSE; the instruction loads 4 bytes from `bits`, which is a live u32.
        // The value is either `default`, which is what compiled Rust code assumes, or what `read` gave,
        // so it sets no reserved bit (that would fault) and the caller gets back what it had.
        unsafe { asm!("ldmxcsr [{}]", in(reg) &raw const bits, options(nostack)) };
    }
}

#[cfg(all(target_arch = "aarch64", target_feature = "neon", not(miri)))]
mod register {
    use core::arch::asm;

    /// FPCR (control) and FPSR (status).
    pub(super) type Bits = [u64; 2];

    /// The default where the host has these bits.
    pub(super) fn default(_: Bits) -> Bits {
        [0, 0]
    }

    #[inline(always)]
    pub(super) fn read() -> Bits {
        let (control, status): (u64, u64);
        // SAFETY: the target has floating point, so both registers exist and may be read at any
        // privilege; nothing else changes.
        unsafe {
            asm!("mrs {}, fpcr", "mrs {}, fpsr", out(reg) control, out(reg) status, options(nostack, preserves_flags));
        }
        [control, status]
    }

    #[inline(always)]
    pub(super) fn write([control, status]: Bits) {
        // SAFETY: the target has floating point. The values are either `default`, which is what compiled
        // Rust code assumes, or what `read` gave, so the caller gets back what it had.
        unsafe { asm!("msr fpcr, {}", "msr fpsr, {}", in(reg) control, in(reg) status, options(nostack)) };
    }
}

#[cfg(all(target_arch = "arm", target_abi = "eabihf", not(miri)))]
mod register {
    use core::arch::asm;

    pub(super) type Bits = u32;

    /// The default where the host has these bits. On cores with MVE three of them say how long a vector's loop is
    /// (LTPSIZE): 4 outside of such loops, which is what code relies on.
    pub(super) fn default(host: Bits) -> Bits {
        const LTPSIZE: Bits = 7 << 16;
        if host & LTPSIZE == 4 << 16 { 4 << 16 } else { 0 }
    }

    #[inline(always)]
    pub(super) fn read() -> Bits {
        let bits: Bits;
        // SAFETY: the hard-float ABI implies a floating-point unit, so the register exists; reading it
        // changes nothing.
        unsafe { asm!("vmrs {}, fpscr", out(reg) bits, options(nostack, preserves_flags)) };
        bits
    }

    #[inline(always)]
    pub(super) fn write(bits: Bits) {
        // SAFETY: the register exists, see `read`. The value is either `default`, which is what compiled
        // Rust code assumes, or what `read` gave, so the caller gets back what it had.
        unsafe { asm!("vmsr fpscr, {}", in(reg) bits, options(nostack)) };
    }
}

#[cfg(all(any(target_arch = "riscv32", target_arch = "riscv64"), target_os = "linux", not(miri)))]
mod register {
    use core::arch::asm;

    pub(super) type Bits = usize;

    /// The default where the host has these bits.
    pub(super) fn default(_: Bits) -> Bits {
        0
    }

    #[inline(always)]
    pub(super) fn read() -> Bits {
        let bits: Bits;
        // SAFETY: Rust's Linux targets all have the F extension, so the register exists; reading it
        // changes nothing.
        unsafe { asm!("frcsr {}", out(reg) bits, options(nostack, preserves_flags)) };
        bits
    }

    #[inline(always)]
    pub(super) fn write(bits: Bits) {
        // SAFETY: the register exists, see `read`. The value is either `default`, which is what compiled
        // Rust code assumes, or what `read` gave, so the caller gets back what it had.
        unsafe { asm!("fscsr {}", in(reg) bits, options(nostack)) };
    }
}

#[cfg(any(
    miri,
    not(any(
        all(any(target_arch = "x86", target_arch = "x86_64"), target_feature = "sse"),
        all(target_arch = "aarch64", target_feature = "neon"),
        all(target_arch = "arm", target_abi = "eabihf"),
        all(any(target_arch = "riscv32", target_arch = "riscv64"), target_os = "linux"),
    ))
))]
mod register {
    /// Nothing to keep.
    #[derive(Clone, Copy)]
    pub(super) struct Bits;

    pub(super) fn default(_: Bits) -> Bits {
        Bits
    }

    pub(super) fn read() -> Bits {
        Bits
    }

    pub(super) fn write(_: Bits) {}
}

#[cfg(all(
    test,
    not(miri),
    any(
        target_arch = "x86_64",
        target_arch = "aarch64",
        all(target_arch = "arm", target_abi = "eabihf"),
        all(target_arch = "riscv64", target_os = "linux"),
    )
))]
mod tests {
    use super::*;

    /// Flush-to-zero (x86: denormals-are-zero, too; RISC-V has none) and round toward zero.
    #[cfg(target_arch = "x86_64")]
    const HOSTILE: register::Bits = 0x1f80 | 0x8000 | 0x0040 | 0x6000;
    #[cfg(target_arch = "aarch64")]
    const HOSTILE: register::Bits = [1 << 24 | 3 << 22, 0];
    #[cfg(target_arch = "arm")]
    const HOSTILE: register::Bits = 1 << 24 | 3 << 22;
    #[cfg(target_arch = "riscv64")]
    const HOSTILE: register::Bits = 1 << 5;

    /// The control bits of the environment.
    #[cfg(target_arch = "x86_64")]
    fn control() -> u32 {
        register::read() & !0x3f
    }
    #[cfg(target_arch = "aarch64")]
    fn control() -> u64 {
        register::read()[0]
    }
    #[cfg(target_arch = "arm")]
    fn control() -> u32 {
        register::read() & 0x07ff_0000
    }
    #[cfg(target_arch = "riscv64")]
    fn control() -> usize {
        register::read() & 0xe0
    }

    /// Bits of results that each hostile setting changes: two of rounding, two of subnormals.
    fn results(x: &[f32; 4]) -> [u32; 4] {
        let [third, tiny, one, three] = black_box(*x);
        [one / three, third + one, tiny * third, tiny + tiny].map(f32::to_bits)
    }

    #[test]
    fn a_hostile_environment_changes_nothing_inside_and_is_intact_outside() {
        let x = [0.333_333_34, f32::MIN_POSITIVE / 4.0, 1.0, 3.0];
        let want = [1.0 / 3.0, 1.333_333_4, f32::MIN_POSITIVE / 12.0, f32::MIN_POSITIVE / 2.0].map(f32::to_bits);
        assert_eq!(results(&x), want);
        let host = register::read();
        let _restore = Restore(host);

        register::write(HOSTILE);
        let before = control();
        let hostile = black_box(results(&x));
        let mut inside = [0; 4];
        with_default(|| inside = results(&x));
        let returned = with_default(|| results(&x));
        let after = control();
        let unwound = std::panic::catch_unwind(|| with_default(|| std::panic::resume_unwind(Box::new(7u8))));
        let after_unwinding = control();
        register::write(host);

        let settings = if cfg!(target_arch = "riscv64") { 2 } else { 4 };
        assert!(hostile.iter().zip(want).take(settings).all(|(&hostile, want)| hostile != want), "{hostile:x?}");
        assert_eq!((inside, returned), (want, want));
        assert_eq!(before, after);
        assert_eq!(before, after_unwinding);
        assert!(unwound.is_err());
    }

    #[test]
    fn nested_calls_restore_each_level() {
        let host = register::read();
        with_default(|| {
            assert_eq!(register::read(), register::default(HOSTILE));
            with_default(|| ());
            assert_eq!(register::read(), register::default(HOSTILE));
        });
        assert_eq!(register::read(), host);
    }
}
