//! A module that the host calls.

use core::panic::PanicInfo;

use gleed::kernels::Level;

use crate::{bare, compute};

/// Returns the number of levels.
#[unsafe(no_mangle)]
extern "C" fn levels() -> usize {
    Level::available().count()
}

/// Returns the address of the name of a level in the lower half, and its length in the upper half.
#[unsafe(no_mangle)]
extern "C" fn name(level: usize) -> u64 {
    let name = Level::available().nth(level).map_or("", Level::name);
    name.as_ptr().addr() as u64 | (name.len() as u64) << 32
}

/// Returns the hash of a level, or 0 if there is no such level.
#[unsafe(no_mangle)]
extern "C" fn hash(level: usize) -> u64 {
    // SAFETY: `hash` uses the memory only until it returns, so no earlier reference is in use.
    let hash = |level| compute::hash(level, unsafe { bare::arena() });
    Level::available().nth(level).and_then(hash).unwrap_or_default()
}

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    core::arch::wasm32::unreachable()
}
