//! Ctrl-C.

use std::sync::atomic::{AtomicBool, Ordering};

static PRESSED: AtomicBool = AtomicBool::new(false);

/// Makes Ctrl-C call `react` and set a flag for [`take`] instead of ending the program.
pub fn catch(react: impl Fn() + Send + 'static) -> super::Result<()> {
    Ok(ctrlc::set_handler(move || {
        PRESSED.store(true, Ordering::Relaxed);
        react();
    })?)
}

/// Returns whether Ctrl-C was pressed since the last call.
pub fn take() -> bool {
    PRESSED.swap(false, Ordering::Relaxed)
}
