//! A module that the host calls.

use core::panic::PanicInfo;

use gleed::kernels::Level;

use crate::{bare, compute};

/// How many levels there are.
#[unsafe(no_mangle)]
extern "C" fn levels() -> usize {
    Level::available().count()
}

/// Where the name of a level is: its address in the lower half, its length in the upper one.
#[unsafe(no_mangle)]
extern "C" fn name(level: usize) -> u64 {
    let name = Level::available().nth(level).map_or("", Level::name);
    name.as_ptr().addr() as u64 | (name.len() as u64) << 32
}

/// The hash of a level; 0 where there is none.
#[unsafe(no_mangle)]
extern "C" fn hash(level: usize) -> u64 {
    // SAFETY: used until the hash is known.
    let hash = |level| compute::hash(level, unsafe { bare::arena() });
    Level::available().nth(level).and_then(hash).unwrap_or_default()
}

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    core::arch::wasm32::unreachable()
}
