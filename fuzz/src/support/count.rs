//! How many inputs were tried: a run of libFuzzer may try many, because what it does around a run takes longer than a
//! parser.

use std::sync::Once;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

static TRIED: AtomicU64 = AtomicU64::new(0);
static AT_EXIT: Once = Once::new();
static FACTOR: AtomicUsize = AtomicUsize::new(1);

unsafe extern "C" {
    fn atexit(function: extern "C" fn()) -> i32;
}

extern "C" fn tell() {
    eprintln!("gleed: {} inputs tried", TRIED.load(Ordering::Relaxed));
}

/// ", N inputs or calls" where a target has counted any.
pub fn said() -> String {
    match TRIED.load(Ordering::Relaxed) {
        0 => String::new(),
        tried => format!(", {tried} inputs or calls"),
    }
}

/// Counts an input that was tried and whose result was checked. The end of the process tells how many there were.
pub fn tried() {
    // SAFETY: a function that takes nothing, as `atexit` wants it.
    AT_EXIT.call_once(|| assert_eq!(unsafe { atexit(tell) }, 0));
    TRIED.fetch_add(1, Ordering::Relaxed);
}

/// So many inputs in a run, or a multiple of it where a run costs nothing but itself.
pub fn many(count: usize) -> usize {
    count * FACTOR.load(Ordering::Relaxed)
}

/// Runs have so many times as many inputs from now on.
pub fn set_factor(factor: usize) {
    FACTOR.store(factor, Ordering::Relaxed);
}
