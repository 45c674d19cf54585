//! Prints a hash of the results of every level of the machine: `neon 0123456789abcdef`.
//!
//! With the feature `std` it is an ordinary program. Without it, it is a program for RISC-V with Linux but no C
//! library, or a module for WebAssembly, whose host calls `levels` and `hash`.
#![cfg_attr(not(feature = "std"), no_std, no_main)]

mod compute;
#[cfg(all(not(feature = "std"), target_arch = "riscv64"))]
mod riscv64;
#[cfg(all(not(feature = "std"), target_arch = "wasm32"))]
mod wasm32;

#[cfg(feature = "std")]
fn main() {
    let mut arena = vec![0; compute::ARENA];
    for level in gleed::kernels::Level::available() {
        println!("{level} {:016x}", compute::hash(level, &mut arena).expect("a hash"));
    }
}

#[cfg(not(feature = "std"))]
mod bare {
    /// Memory for the only thread.
    #[repr(C, align(64))]
    struct Arena([u8; crate::compute::ARENA]);

    static mut ARENA: Arena = Arena([0; crate::compute::ARENA]);

    /// # Safety
    /// The memory that an earlier call returned must not be in use any more.
    pub unsafe fn arena() -> &'static mut [u8] {
        // SAFETY: there is only one thread, and the caller promises that no earlier reference is in use.
        unsafe { &mut *core::ptr::addr_of_mut!(ARENA.0) }
    }
}
