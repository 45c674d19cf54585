//! Ctrl-C.

use std::sync::atomic::{AtomicBool, Ordering};

static PRESSED: AtomicBool = AtomicBool::new(false);

/// From now on Ctrl-C does not end the program: it is noted for [`take`], and `react` is called.
pub fn catch(react: impl Fn() + Send + 'static) -> super::Result<()> {
    Ok(ctrlc::set_handler(move || {
        PRESSED.store(true, Ordering::Relaxed);
        react();
    })?)
}

/// Whether Ctrl-C was pressed since the last call.
pub fn take() -> bool {
    PRESSED.swap(false, Ordering::Relaxed)
}
