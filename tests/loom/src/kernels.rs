//! What the loop over tiles takes from the kernels.

/// No floating-point environment is set: nothing is computed here.
pub mod fpenv {
    pub fn with_default<R>(f: impl FnOnce() -> R) -> R {
        f()
    }
}
