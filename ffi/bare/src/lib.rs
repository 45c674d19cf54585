//! `libgleed.a`: the functions of `include/gleed.h` for targets without std.
//!
//! The panic handler calls a C function `gleed_panic` that does not exist. A program links because no
//! function of the library can reach the handler; `check.sh` proves it.
#![no_std]

use core::panic::PanicInfo;

pub use gleed_ffi::*;

unsafe extern "C" {
    fn gleed_panic() -> !;
}

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    // SAFETY: no object defines the function, so no program that could get here links.
    unsafe { gleed_panic() }
}

/// A control that must not link: its index is not checked.
#[cfg(feature = "control-panic")]
#[unsafe(no_mangle)]
pub extern "C" fn gleed_control(index: usize) -> u8 {
    [1, 2, 3, 5, 7][index]
}

/// A control that must not link: it needs a heap, which nobody provides.
#[cfg(feature = "control-alloc")]
#[unsafe(no_mangle)]
pub extern "C" fn gleed_control(len: usize) -> usize {
    extern crate alloc;
    alloc::vec![1_u8; len].capacity()
}
