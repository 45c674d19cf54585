//! Who executes: a trait that the host implements, the serial default, and the loop over tiles.

use core::sync::atomic::{AtomicU8, Ordering};

use crate::error::Fault;
use crate::kernels::with_default_environment;
use crate::mem::{Tile, Tiles};

/// Lends threads.
///
/// Gleed cuts the work into tiles and takes them from a counter of its own, so an implementation may call
/// the body on fewer workers than asked, one after the other, or all on one thread: the results are the
/// same.
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

/// Calls `body` for every tile, on as many workers as there are rows of `scratch`, each with a row of its
/// own, in the default floating-point environment. The worst fault of a tile is the result; the tiles that
/// come after it are skipped.
///
/// # Errors
/// What `body` reports; [`Fault::Internal`] where the host ran no worker at all.
pub fn for_each_tile<T: Send>(
    parallel: &dyn Parallel,
    tiles: &Tiles<'_, T>,
    scratch: &Tiles<'_, f32>,
    body: &(dyn Fn(&mut Tile<'_, T>, &mut [f32]) -> Result<(), Fault> + Sync),
) -> Result<(), Fault> {
    const DONE: u8 = 0;
    const NON_FINITE: u8 = 1;
    const INTERNAL: u8 = 2;
    let outcome = AtomicU8::new(DONE);
    let worker = |_slot: usize| {
        // The row of scratch comes from a counter, too, not from the slot: a host that calls twice with
        // the same slot finds no row left and does nothing.
        let Some(mut scratch) = scratch.next() else { return };
        let row = scratch.rows().start;
        let Some(scratch) = scratch.row_mut(row) else { return };
        with_default_environment(|| {
            while outcome.load(Ordering::Relaxed) == DONE {
                let Some(mut tile) = tiles.next() else { return };
                let code = match body(&mut tile, scratch) {
                    Ok(()) => continue,
                    Err(Fault::NonFinite) => NON_FINITE,
                    Err(Fault::Internal) => INTERNAL,
                };
                outcome.fetch_max(code, Ordering::Relaxed);
            }
        });
    };
    parallel.run(scratch.remaining().min(tiles.remaining()), &worker);
    match outcome.into_inner() {
        DONE if tiles.remaining() > 0 => Err(Fault::Internal),
        DONE => Ok(()),
        NON_FINITE => Err(Fault::NonFinite),
        _ => Err(Fault::Internal),
    }
}
