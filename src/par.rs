//! Who executes, and for how long: a trait that the host implements, the serial default, the budget of a step, and the
//! loop over tiles.

use core::fmt;
use core::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use crate::error::Fault;
use crate::kernels::fpenv;
use crate::mem::{Tile, Tiles};

/// Lends threads.
///
/// Gleed cuts the work into tiles and takes them from a counter of its own, so an implementation may call
/// the body on fewer workers than asked, one after the other, or all on one thread: the results are the
/// same.
///
/// [The guide has an example](crate::guide#a-crowd).
pub trait Parallel: Sync {
    /// Calls `body(slot)` at most once for each slot in `0..slots`, possibly at the same time, for at
    /// least one of them, and returns when all the calls have returned.
    fn run(&self, slots: usize, body: &(dyn Fn(usize) + Sync));

    /// How many slots it can usefully run at once; at least 1.
    fn slots(&self) -> usize;

    /// Whether the worker that asks, between two units, had better return to the host, for example because another program
    /// waits for its processor: the others do what it leaves. Slot 0 is not asked, so a host that ever answers `true` calls
    /// slot 0 in every run.
    fn leaves(&self) -> bool {
        false
    }
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

/// When a step stops. What comes first counts; the default is never, so a step ends with what it works on.
///
/// Between any two units every worker looks at the flag and the clock, so a step ends at most one unit per worker
/// later than they say. Nothing that was computed is lost, and nothing that is computed depends on it.
///
/// [The guide has an example](crate::guide#a-crowd).
#[derive(Clone, Copy, Debug)]
pub struct Budget<'b> {
    /// The most units of work.
    pub units: usize,
    /// A time, by the host's clock. At least one unit is done even if it has passed already, so steps always come to
    /// an end of the work.
    pub until: Option<Deadline<'b>>,
    /// Another thread, or an interrupt, sets it to stop the step: no unit begins after that, not even a first one.
    pub cancel: Option<&'b AtomicBool>,
}

/// The time when the host wants to go on with something else.
///
/// [The guide has an example](crate::guide#a-crowd).
#[derive(Clone, Copy)]
pub struct Deadline<'b> {
    /// The host's clock, in ticks of any length that never run backwards. It is called by all workers, at most once per
    /// unit, from the second unit of a step on.
    pub clock: &'b (dyn Fn() -> u64 + Sync),
    /// No unit begins once the clock shows this or more.
    pub at: u64,
}

impl Default for Budget<'_> {
    fn default() -> Self {
        Self { units: usize::MAX, until: None, cancel: None }
    }
}

impl From<usize> for Budget<'_> {
    /// So many units.
    fn from(units: usize) -> Self {
        Self { units, ..Self::default() }
    }
}

impl<'b> From<Deadline<'b>> for Budget<'b> {
    fn from(deadline: Deadline<'b>) -> Self {
        Self { until: Some(deadline), ..Self::default() }
    }
}

impl fmt::Debug for Deadline<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deadline").field("at", &self.at).finish_non_exhaustive()
    }
}

/// The flag and the clock of one step's budget. (Units are counted where they are taken.)
#[derive(Debug)]
pub struct Watch<'b> {
    until: Option<Deadline<'b>>,
    cancel: Option<&'b AtomicBool>,
    /// Whether a unit has begun.
    begun: AtomicBool,
    /// Whether a worker has found that it is time.
    over: AtomicBool,
}

impl<'b> Watch<'b> {
    /// For a step that begins now.
    pub fn new(budget: &Budget<'b>) -> Self {
        let Budget { until, cancel, .. } = *budget;
        Self { until, cancel, begun: AtomicBool::new(false), over: AtomicBool::new(false) }
    }

    /// Whether the host has set its flag.
    pub fn is_cancelled(&self) -> bool {
        self.cancel.is_some_and(|cancel| cancel.load(Ordering::Relaxed))
    }

    /// Whether a unit was refused: then the step is over.
    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Whether every unit may begin.
    pub fn is_unlimited(&self) -> bool {
        self.until.is_none() && self.cancel.is_none()
    }

    /// Whether another unit may begin. Asked once before each.
    pub fn allows_unit(&self) -> bool {
        if self.is_unlimited() {
            return true;
        }
        let over = self.is_over() || self.is_cancelled() || self.has_passed();
        if over {
            self.over.store(true, Ordering::Relaxed);
        }
        !over
    }

    fn has_passed(&self) -> bool {
        // The first unit of all is free.
        self.until.is_some_and(|Deadline { clock, at }| self.begun.swap(true, Ordering::Relaxed) && clock() >= at)
    }
}

/// Fills a tile, with a worker's scratch.
pub type TileBody<'b, T> = dyn Fn(&mut Tile<'_, T>, &mut [f32]) -> Result<(), Fault> + Sync + 'b;

/// Calls `body` for every tile, on as many workers as there are rows of `scratch`, each with a row of its
/// own, in the default floating-point environment, until `watch` allows no more: how many tiles are left, those that
/// come last where there is one lane. The worst fault of a tile is the result; the tiles that come after it are skipped.
///
/// Workers take tiles from the lane of their slot first, and from the others once that is empty. So what a slot has in its
/// caches from one call is near when the lanes of the next one are cut in the same way.
///
/// # Errors
/// What `body` reports; [`Fault::Internal`] where the host ran no worker at all.
pub fn for_each_tile<T: Send>(
    parallel: &dyn Parallel,
    lanes: &[Tiles<'_, T>],
    scratch: &Tiles<'_, f32>,
    watch: &Watch<'_>,
    body: &TileBody<'_, T>,
) -> Result<usize, Fault> {
    const DONE: u8 = 0;
    const NON_FINITE: u8 = 1;
    const INTERNAL: u8 = 2;
    let outcome = AtomicU8::new(DONE);
    let remaining = || lanes.iter().map(Tiles::remaining).sum::<usize>();
    let worker = |slot: usize| {
        // The row of scratch comes from a counter, too, not from the slot: a host that calls twice with
        // the same slot finds no row left and does nothing.
        let Some(mut scratch) = scratch.next() else { return };
        let row = scratch.rows().start;
        let Some(scratch) = scratch.row_mut(row) else { return };
        fpenv::with_default(|| {
            let own = slot.checked_rem(lanes.len()).unwrap_or(0);
            for tiles in lanes.iter().cycle().skip(own).take(lanes.len()) {
                while outcome.load(Ordering::Relaxed) == DONE && tiles.remaining() > 0 && watch.allows_unit() {
                    if slot != 0 && parallel.leaves() {
                        return;
                    }
                    // What has been taken is finished, so the tiles that are left are the last ones.
                    let Some(mut tile) = tiles.next() else { break };
                    let code = match body(&mut tile, scratch) {
                        Ok(()) => continue,
                        Err(Fault::NonFinite) => NON_FINITE,
                        Err(Fault::Internal) => INTERNAL,
                    };
                    outcome.fetch_max(code, Ordering::Relaxed);
                }
            }
        });
    };
    parallel.run(scratch.remaining().min(remaining()), &worker);
    match outcome.into_inner() {
        DONE if remaining() > 0 && !watch.is_over() => Err(Fault::Internal),
        DONE => Ok(remaining()),
        NON_FINITE => Err(Fault::NonFinite),
        _ => Err(Fault::Internal),
    }
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::AtomicUsize;

    use super::*;
    use crate::mem::Matrix;

    #[test]
    fn what_a_worker_leaves_is_done_by_slot_0() {
        struct Leaving(AtomicUsize);
        impl Parallel for Leaving {
            fn run(&self, slots: usize, body: &(dyn Fn(usize) + Sync)) {
                for slot in (0..slots).rev() {
                    self.0.store(slot, Ordering::Relaxed);
                    body(slot);
                }
            }
            fn slots(&self) -> usize {
                3
            }
            fn leaves(&self) -> bool {
                true
            }
        }
        let (mut out, mut scratch) = ([0; 12], [0.0; 3]);
        let tiles = Matrix::new(&mut out, 12, 1).unwrap().by_row().unwrap();
        let scratch = Matrix::new(&mut scratch, 3, 1).unwrap().by_row().unwrap();
        let host = Leaving(AtomicUsize::new(0));
        let left = for_each_tile(&host, &[tiles], &scratch, &Watch::new(&Budget::default()), &|tile, _| {
            assert_eq!(host.0.load(Ordering::Relaxed), 0);
            tile.row_mut(tile.index()).map(|row| row.iter_mut().for_each(|x| *x += 1)).ok_or(Fault::Internal)
        });
        assert_eq!((left, out), (Ok(0), [1; 12]));
    }

    #[test]
    fn every_lane_is_done_whatever_the_slots_are() {
        struct Odd(&'static [usize]);
        impl Parallel for Odd {
            fn run(&self, _: usize, body: &(dyn Fn(usize) + Sync)) {
                self.0.iter().for_each(|&slot| body(slot));
            }
            fn slots(&self) -> usize {
                4
            }
        }
        let unlimited = Watch::new(&Budget::default());
        for slots in [&[0][..], &[usize::MAX], &[3, 3, 1], &[1, 0]] {
            let (mut out, mut scratch) = ([0; 12], [0.0; 4]);
            let tiles = Matrix::new(&mut out, 12, 1).unwrap().by_row().unwrap();
            let ((a, rest), mut order) = (tiles.split_at(5), std::vec::Vec::new());
            let (b, c) = rest.split_at(9);
            let scratch = Matrix::new(&mut scratch, 4, 1).unwrap().by_row().unwrap();
            let seen = std::sync::Mutex::new(&mut order);
            let left = for_each_tile(&Odd(slots), &[a, b, c], &scratch, &unlimited, &|tile, _| {
                seen.lock().unwrap().push(tile.index());
                tile.row_mut(tile.index()).map(|row| row.iter_mut().for_each(|x| *x += 1)).ok_or(Fault::Internal)
            });
            assert_eq!(left, Ok(0));
            assert_eq!(order.first(), Some(&[0, 5, 9][slots[0] % 3]));
            assert_eq!(out, [1; 12]);
        }
    }
}
