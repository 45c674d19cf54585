//! The processor time of this thread, which other processes do not change.

/// Runs something and adds its microseconds to `total`.
pub(crate) fn timed<T>(total: &mut f64, run: impl FnOnce() -> T) -> T {
    let begin = now();
    let result = run();
    *total += now() - begin;
    result
}

/// Microseconds.
fn now() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a value of that type, which lives as long as the call.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3
}
