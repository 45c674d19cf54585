//! The processor time of this thread. Other processes do not change it.

/// Runs a closure and adds its microseconds to `total`.
pub(crate) fn timed<T>(total: &mut f64, run: impl FnOnce() -> T) -> T {
    let begin = now();
    let result = run();
    *total += now() - begin;
    result
}

/// Returns the processor time of this thread in microseconds.
fn now() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer leads to a `timespec`, which lives as long as the call.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3
}
