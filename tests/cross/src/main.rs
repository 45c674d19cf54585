//! Prints, for every level of the machine, a hash of what it computes: `neon 0123456789abcdef`.
//!
//! With feature `std` an ordinary program. Without it, for RISC-V with Linux but no C library, or for WebAssembly,
//! where the host calls `levels` and `hash`.
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
    /// Memory for the one thread.
    #[repr(C, align(64))]
    struct Arena([u8; crate::compute::ARENA]);

    static mut ARENA: Arena = Arena([0; crate::compute::ARENA]);

    /// # Safety
    /// The one that was returned before is no longer used.
    pub unsafe fn arena() -> &'static mut [u8] {
        // SAFETY: there is one thread; the caller promises the rest.
        unsafe { &mut *core::ptr::addr_of_mut!(ARENA.0) }
    }
}
