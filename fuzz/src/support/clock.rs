//! Processor time, so that a busy machine does not look like a hang.

use std::time::Duration;

/// `struct timespec` of 64-bit systems.
#[repr(C)]
struct Timespec {
    seconds: i64,
    nanoseconds: i64,
}

unsafe extern "C" {
    fn clock_gettime(clock: i32, time: *mut Timespec) -> i32;
}

/// `CLOCK_PROCESS_CPUTIME_ID` of Linux.
const PROCESS: i32 = 2;

/// Returns the processor time of all threads of the process.
pub fn processor_time() -> Duration {
    let mut time = Timespec { seconds: 0, nanoseconds: 0 };
    // SAFETY: `Timespec` has the layout of the system's struct, and lives as long as the call.
    assert_eq!(unsafe { clock_gettime(PROCESS, &mut time) }, 0);
    Duration::new(time.seconds as u64, time.nanoseconds as u32)
}
