//! How many inputs were tried: a run of libFuzzer may try many, because what it does around a run takes longer than a parser.

use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

static TRIED: AtomicU64 = AtomicU64::new(0);
static AT_EXIT: Once = Once::new();

unsafe extern "C" {
    fn atexit(function: extern "C" fn()) -> i32;
}

extern "C" fn tell() {
    eprintln!("gleed: {} inputs tried", TRIED.load(Ordering::Relaxed));
}

/// Counts an input that was tried and whose result was checked. The end of the process tells how many there were.
pub fn tried() {
    // SAFETY: a function that takes nothing, as `atexit` wants it.
    AT_EXIT.call_once(|| assert_eq!(unsafe { atexit(tell) }, 0));
    TRIED.fetch_add(1, Ordering::Relaxed);
}
