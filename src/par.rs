//! Who executes: a trait that the host implements, and the serial default.

/// Runs a body on several workers at once.
///
/// Gleed cuts the work into tiles and takes them from a counter of its own, so an implementation only
/// lends threads: it may call the body on fewer workers than asked, one after the other, or all on one
/// thread, and the results are the same.
pub trait Parallel: Sync {
    /// Calls `body(slot)` at most once for each slot in `0..slots`, possibly at the same time, for at
    /// least one of them, and returns when all the calls have returned.
    fn run(&self, slots: usize, body: &(dyn Fn(usize) + Sync));

    /// How many slots it can usefully run at once; at least 1.
    fn slots(&self) -> usize;
}

/// Everything on the calling thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct Serial;

impl Parallel for Serial {
    fn run(&self, _slots: usize, body: &(dyn Fn(usize) + Sync)) {
        body(0);
    }

    fn slots(&self) -> usize {
        1
    }
}
