//! Counts the inputs that were tried. A run of libFuzzer may try many inputs, because libFuzzer's work around a run
//! takes longer than a parser.

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

/// Returns ", N inputs or calls" if a target has counted any, otherwise an empty text.
pub fn said() -> String {
    match TRIED.load(Ordering::Relaxed) {
        0 => String::new(),
        tried => format!(", {tried} inputs or calls"),
    }
}

/// Counts an input that was tried and whose result was checked. The count is printed when the process ends.
pub fn tried() {
    // SAFETY: `tell` takes no arguments and returns nothing, as `atexit` requires.
    AT_EXIT.call_once(|| assert_eq!(unsafe { atexit(tell) }, 0));
    TRIED.fetch_add(1, Ordering::Relaxed);
}

/// Returns the number of inputs that a run tries: `count` times the factor of [`set_factor`].
pub fn many(count: usize) -> usize {
    count * FACTOR.load(Ordering::Relaxed)
}

/// Sets the factor by which runs try more inputs from now on.
pub fn set_factor(factor: usize) {
    FACTOR.store(factor, Ordering::Relaxed);
}
