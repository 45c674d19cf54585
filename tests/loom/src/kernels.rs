//! The parts of the kernels that the loop over tiles uses.

/// Sets no floating-point environment, because nothing is computed here.
pub mod fpenv {
    pub fn with_default<R>(f: impl FnOnce() -> R) -> R {
        f()
    }
}
