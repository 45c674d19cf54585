//! The floating-point environment: rounding mode, flush-to-zero, exception masks.
//!
//! The arithmetic is defined with rounding to nearest even, and subnormal numbers are kept. A host (audio, games) may
//! run with other settings. So every entry point of the library, and every body that a host's worker executes, runs
//! inside [`with_default`].
//!
//! | target | register | default |
//! |---|---|---|
//! | x86 and x86_64 with SSE | MXCSR | 0x1f80: nearest even, no FTZ, no DAZ, exceptions masked |
//! | aarch64 | FPCR, FPSR | 0 |
//! | 32-bit Arm, hard float | FPSCR | 0; with MVE LTPSIZE is 4 |
//! | RISC-V Linux | fcsr | 0 |
//! | wasm, soft float | none | nothing to set: there is only the default |
//!
//! On all other targets nothing is set, and the host must call with its default environment. Bare-metal RISC-V is one
//! of them: stable compilers do not say whether it has the F extension. Its only setting is the rounding mode.
#![allow(unsafe_code)]

use core::hint::black_box;
#[cfg(feature = "flush-test")]
use core::sync::atomic::{AtomicBool, Ordering};

/// Whether [`with_default`] leaves the host's environment as it is.
#[cfg(feature = "flush-test")]
static KEEPS: AtomicBool = AtomicBool::new(false);

/// Sets whether [`with_default`] leaves the host's environment as it is, on all threads. This is only for the test that
/// a machine which flushes subnormal numbers to zero computes the same bits.
#[cfg(feature = "flush-test")]
pub fn keep_environment(keeps: bool) {
    KEEPS.store(keeps, Ordering::SeqCst);
}

/// Runs `f` with the default floating-point environment. Afterwards, also if `f` unwinds, the register has the host's
/// value again, bit for bit. So status flags that `f` raised are lost.
pub fn with_default<R>(f: impl FnOnce() -> R) -> R {
    #[cfg(feature = "flush-test")]
    if KEEPS.load(Ordering::SeqCst) {
        return black_box(black_box(f)());
    }
    let host = Restore(register::read());
    register::write(register::default(host.0));
    // The compiler does not know that arithmetic depends on the register, and might move arithmetic across the write.
    // The inner black box returns `f` and its captures only after the write, so nothing is computed from them before.
    // The outer one takes the result, and memory that `f` can reach, before the host's value is written back.
    black_box(black_box(f)())
}

/// The host's environment, which is written back on drop.
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

    /// Returns the default, whatever the host has.
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

    /// Returns the default, whatever the host has.
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

    /// Returns the default for a host with these bits. On cores with MVE the three bits LTPSIZE say how many elements a
    /// vectorized loop processes. Outside of such loops they are 4, and compiled code relies on this.
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

    /// Returns the default, whatever the host has.
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
    /// This target has no register to keep.
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

    /// Flush-to-zero (on x86 also denormals-are-zero; RISC-V has neither) and rounding toward zero.
    #[cfg(target_arch = "x86_64")]
    const HOSTILE: register::Bits = 0x1f80 | 0x8000 | 0x0040 | 0x6000;
    #[cfg(target_arch = "aarch64")]
    const HOSTILE: register::Bits = [1 << 24 | 3 << 22, 0];
    #[cfg(target_arch = "arm")]
    const HOSTILE: register::Bits = 1 << 24 | 3 << 22;
    #[cfg(target_arch = "riscv64")]
    const HOSTILE: register::Bits = 1 << 5;

    /// Returns the control bits of the environment.
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

    /// Returns the bits of results that each hostile setting changes: two by rounding, two by flushing subnormal
    /// numbers.
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
