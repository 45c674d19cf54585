//! Who executes, and for how long: a trait with which a host lends threads, the serial default, the budget of a step,
//! and the loop over tiles.
//!
//! # Example
//!
//! A host lends threads, and its flag ends the work. [`Engine::set_parallel`](crate::Engine::set_parallel) takes the
//! same threads for the steps of a model; the default there is [`Serial`].
//!
//! ```
//! use gleed::mem::Matrix;
//! use gleed::par::{Budget, Parallel, Watch, for_each_tile};
//!
//! /// New threads for each call: short, but slower than a pool.
//! struct Threads(usize);
//!
//! impl Parallel for Threads {
//!     fn run(&self, slots: usize, body: &(dyn Fn(usize) + Sync)) {
//!         std::thread::scope(|scope| {
//!             (1..slots.min(self.0)).for_each(|slot| drop(scope.spawn(move || body(slot))));
//!             body(0);
//!         });
//!     }
//!     fn slots(&self) -> usize { self.0 }
//! }
//!
//! /// Squares, one tile each, on two threads. Returns how many are left.
//! fn squares(out: &mut [usize; 8], budget: &Budget<'_>) -> Option<usize> {
//!     let tiles = Matrix::new(out, 8, 1)?.by_row()?;
//!     let mut scratch = [0.0; 2];
//!     let scratch = Matrix::new(&mut scratch, 2, 1)?.by_row()?;
//!     let left = for_each_tile(&Threads(2), &[tiles], &scratch, &Watch::new(budget), &|tile, _| {
//!         let row = tile.index();
//!         if let Some(place) = tile.row_mut(row) {
//!             place.fill(row * row);
//!         }
//!         Ok(())
//!     });
//!     left.ok()
//! }
//!
//! let mut out = [0; 8];
//! let cancel = true.into();
//! assert_eq!(squares(&mut out, &Budget { cancel: Some(&cancel), ..Budget::default() }), Some(8));
//! assert_eq!(squares(&mut out, &Budget::default()), Some(0));
//! assert_eq!(out, [0, 1, 4, 9, 16, 25, 36, 49]);
//! ```

use core::fmt;

use crate::error::{Fault, Site};
use crate::kernels::fpenv;
use crate::mem::{Tile, Tiles};
use crate::sync::{AtomicBool, AtomicU32, Ordering};

/// Lends threads.
///
/// Gleed cuts the work into tiles and takes them from a counter of its own. So an implementation may call the body on
/// fewer workers than asked, one after the other, or all on one thread. The results are the same.
///
/// [The guide has an example](crate::guide#a-crowd).
pub trait Parallel: Sync {
    /// Calls `body(slot)` at most once for each slot in `0..slots`, possibly at the same time, for at
    /// least one of them, and returns when all the calls have returned.
    fn run(&self, slots: usize, body: &(dyn Fn(usize) + Sync));

    /// Returns the number of slots that it can run at the same time, at least 1.
    fn slots(&self) -> usize;

    /// Returns whether the calling worker should return to the host, for example because another program waits for its
    /// processor. A worker asks between two units, and other workers do the rest of its work. Slot 0 does not ask, so a
    /// host that ever returns `true` must call slot 0 in every run.
    fn leaves(&self) -> bool {
        false
    }
}

/// Runs everything on the calling thread.
///
/// [Example](crate::par#example).
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

/// The end of a step: the limit that is reached first ends it. The default has no limit, so a step ends with its work.
///
/// Between any two units every worker checks the flag and the clock. So a step ends at most one unit per worker later
/// than they say. No computed result is lost, and no result depends on the budget.
///
/// [The guide has an example](crate::guide#a-crowd).
#[derive(Clone, Copy, Debug)]
pub struct Budget<'b> {
    /// Largest number of units of work.
    pub units: usize,
    /// A deadline by the host's clock. A step computes at least one unit even if the deadline has passed, so the work
    /// always comes to an end.
    pub until: Option<Deadline<'b>>,
    /// The cancel flag. Another thread or an interrupt sets it to stop the step. No unit begins after that, not even
    /// the first.
    pub cancel: Option<&'b AtomicBool>,
}

/// The time by which the host wants a step to end.
///
/// [The guide has an example](crate::guide#a-crowd).
#[derive(Clone, Copy)]
pub struct Deadline<'b> {
    /// The host's clock, in ticks of any length that never run backwards. All workers call it, at most once per unit,
    /// from the second unit of a step on. A step that it has ended asks it once more, for
    /// [`Metrics::overshoot`](crate::metrics::Metrics::overshoot).
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
    /// Returns a budget of `units` units.
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

/// The flag and the clock of the budget of one step. (Units are counted where they are taken.)
///
/// [Example](crate::par#example).
#[derive(Debug)]
pub struct Watch<'b> {
    until: Option<Deadline<'b>>,
    cancel: Option<&'b AtomicBool>,
    /// Whether a unit has begun.
    begun: AtomicBool,
    /// Whether a worker has found that the step must end.
    over: AtomicBool,
}

impl<'b> Watch<'b> {
    /// Returns the watch of a step that begins now.
    pub fn new(budget: &Budget<'b>) -> Self {
        let Budget { until, cancel, .. } = *budget;
        Self { until, cancel, begun: AtomicBool::new(false), over: AtomicBool::new(false) }
    }

    /// Returns whether the host has set the cancel flag.
    pub fn is_cancelled(&self) -> bool {
        self.cancel.is_some_and(|cancel| cancel.load(Ordering::Relaxed))
    }

    /// Returns whether a unit was refused. Then the step is over.
    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Returns whether every unit may begin.
    pub fn is_unlimited(&self) -> bool {
        self.until.is_none() && self.cancel.is_none()
    }

    /// Returns whether another unit may begin. It is called once before each unit.
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

    /// Returns by how many ticks the time is later than the deadline, if the deadline ended the step. It is called only
    /// after the workers are done.
    pub(crate) fn late(&self) -> Option<u64> {
        let Deadline { clock, at } = self.until.filter(|_| self.is_over())?;
        // A clock that answers `u64::MAX` says that a flag was set, and not what time it is.
        Some(clock()).filter(|&now| now != u64::MAX)?.checked_sub(at)
    }

    fn has_passed(&self) -> bool {
        // The first unit of a step may begin in any case.
        self.until.is_some_and(|Deadline { clock, at }| self.begun.swap(true, Ordering::Relaxed) && clock() >= at)
    }
}

/// A function that fills a tile, with the scratch of a worker.
///
/// [Example](crate::par#example).
pub type TileBody<'b, T> = dyn Fn(&mut Tile<'_, T>, &mut [f32]) -> Result<(), Fault> + Sync + 'b;

/// Calls `body` for every tile until `watch` allows no more, and returns the number of remaining tiles. With one lane
/// these are the last tiles. There are as many workers as rows of `scratch`; each has a row of its own, and runs in the
/// default floating-point environment. If tiles report faults, the result is the worst of them, and the tiles after it
/// are skipped.
///
/// A worker takes tiles from the lane of its slot first, and from the other lanes when that one is empty. So a slot
/// finds data of the last call in its caches if the lanes of the next call are cut in the same way.
///
/// # Errors
/// The fault that `body` reports; [`Fault::Internal`] if the host ran no worker.
pub fn for_each_tile<T: Send>(
    parallel: &dyn Parallel,
    lanes: &[Tiles<'_, T>],
    scratch: &Tiles<'_, f32>,
    watch: &Watch<'_>,
    body: &TileBody<'_, T>,
) -> Result<usize, Fault> {
    const DONE: u32 = 0;
    const NON_FINITE: u32 = 1;
    // Other numbers are sites, which are larger.
    let outcome = AtomicU32::new(DONE);
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
                    // A tile that is taken is always finished, so the tiles that are left are the last ones.
                    let Some(mut tile) = tiles.next() else { break };
                    let code = match body(&mut tile, scratch) {
                        Ok(()) => continue,
                        Err(Fault::NonFinite) => NON_FINITE,
                        Err(Fault::Internal(site)) => site.number(),
                    };
                    outcome.fetch_max(code, Ordering::Relaxed);
                }
            }
        });
    };
    parallel.run(scratch.remaining().min(remaining()), &worker);
    match outcome.into_inner() {
        DONE if remaining() > 0 && !watch.is_over() => Err(Fault::Internal(site!())),
        DONE => Ok(remaining()),
        NON_FINITE => Err(Fault::NonFinite),
        site => Err(Fault::Internal(Site::from_number(site))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mem::Matrix;
    use crate::sync::AtomicUsize;

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
            tile.row_mut(tile.index()).map(|row| row.iter_mut().for_each(|x| *x += 1)).ok_or(Fault::Internal(site!()))
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
                tile.row_mut(tile.index())
                    .map(|row| row.iter_mut().for_each(|x| *x += 1))
                    .ok_or(Fault::Internal(site!()))
            });
            assert_eq!(left, Ok(0));
            assert_eq!(order.first(), Some(&[0, 5, 9][slots[0] % 3]));
            assert_eq!(out, [1; 12]);
        }
    }
}
