//! Notes which worker does what and when: an executor, and a clock that the workers read before each unit.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use gleed::host::ThreadPool;
use gleed::par::Parallel;

thread_local! {
    /// Index of the slot that this thread works in.
    static SLOT: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Lends the threads of a pool and notes what they do. Times are in nanoseconds from the start of the watcher.
pub struct Watcher<'p> {
    pool: &'p ThreadPool,
    start: Instant,
    /// Visits of each slot since the last call of `take`.
    slots: Vec<Mutex<Vec<Visit>>>,
    /// Whether no worker has begun the first unit of the step yet.
    is_first: AtomicBool,
    /// Times at which the engine's own thread read the clock. It does the units of some operations alone.
    alone: Mutex<Vec<u64>>,
}

/// One call of a worker's body: its work for an operation, or for a part of one.
pub(super) struct Visit {
    pub(super) begin: u64,
    pub(super) end: u64,
    /// Whether the first unit of this visit may be the first unit of the step.
    is_first: bool,
    /// Times at which it read the clock: once before each unit, except for the first unit of a step.
    looks: Vec<u64>,
    /// Times at which it asked whether to leave. Slots other than 0 ask before each unit.
    asked: Vec<u64>,
}

/// The visits of all slots: index of the slot, the visit, and the times at which its units began.
pub(super) type Work = Vec<(usize, Visit, Vec<u64>)>;

impl<'p> Watcher<'p> {
    pub fn new(pool: &'p ThreadPool) -> Self {
        let slots = (0..pool.slots()).map(|_| Mutex::default()).collect();
        Self { pool, start: Instant::now(), slots, is_first: AtomicBool::new(false), alone: Mutex::default() }
    }

    pub(super) fn now(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    pub(super) fn workers(&self) -> usize {
        self.slots.len()
    }

    /// Notes that a step begins. Its first unit begins without a look at the clock.
    pub(super) fn begin(&self) {
        self.is_first.store(true, Ordering::Relaxed);
    }

    /// Returns 0, as the clock of a deadline that never comes, and notes the time.
    pub(super) fn look(&self) -> u64 {
        match SLOT.get() {
            Some(slot) => self.of_slot(slot, |visit, now| visit.looks.push(now)),
            None => lock(&self.alone).push(self.now()),
        }
        0
    }

    /// Returns the work since the last call, which lasted from `begin` to `end`, with at most `units` units.
    pub(super) fn take(&self, (begin, end): (u64, u64), units: usize) -> Work {
        let alone = std::mem::take(&mut *lock(&self.alone));
        let visits = self.slots.iter().map(lock).map(|mut visits| std::mem::take(&mut *visits)).enumerate();
        let visits: Vec<_> =
            visits.flat_map(|(slot, visits)| visits.into_iter().map(move |visit| (slot, visit))).collect();
        if visits.is_empty() {
            let visit = Visit { begin, end, is_first: true, looks: Vec::new(), asked: Vec::new() };
            let begins = [begin].into_iter().chain(alone).take(units).collect();
            return vec![(0, visit, begins)];
        }
        // A slot other than 0 that did the first unit asked to leave once more than it read the clock.
        let is_taken = visits
            .iter()
            .any(|(slot, visit)| *slot != 0 && visit.is_first && visit.asked.len() == visit.looks.len() + 1);
        let mut work: Work = visits
            .into_iter()
            .map(|(slot, mut visit)| {
                let begins = match slot {
                    0 if visit.is_first && !is_taken => [&[visit.begin], &visit.looks[..]].concat(),
                    0 => std::mem::take(&mut visit.looks),
                    // More questions than looks: the slot worked on parts of another slot's unit.
                    _ if visit.asked.len() > visit.looks.len() + 1 => Vec::new(),
                    _ => std::mem::take(&mut visit.asked),
                };
                (slot, visit, begins)
            })
            .collect();
        // A worker may read the clock and then find that another one has taken the last unit. Its last mark is no unit.
        let count = |work: &Work| work.iter().map(|(_, _, begins)| begins.len()).sum::<usize>();
        while count(&work) > units {
            let last = |(_, visit, begins): &(usize, Visit, Vec<u64>)| {
                begins.last().map_or(u64::MAX, |begin| visit.end - begin)
            };
            match work.iter_mut().min_by_key(|one| last(one)) {
                Some((_, _, begins)) => _ = begins.pop(),
                None => break,
            }
        }
        work
    }

    fn of_slot(&self, slot: usize, note: impl FnOnce(&mut Visit, u64)) {
        let now = self.now();
        if let Some(visit) = self.slots.get(slot).map(lock).as_mut().and_then(|visits| visits.last_mut()) {
            note(visit, now);
        }
    }
}

impl Parallel for Watcher<'_> {
    fn run(&self, slots: usize, body: &(dyn Fn(usize) + Sync)) {
        let is_first = self.is_first.swap(false, Ordering::Relaxed);
        self.pool.run(slots, &|slot| {
            let begin = self.now();
            let visit = Visit { begin, end: begin, is_first, looks: Vec::new(), asked: Vec::new() };
            if let Some(visits) = self.slots.get(slot) {
                lock(visits).push(visit);
            }
            SLOT.set(Some(slot));
            body(slot);
            SLOT.set(None);
            self.of_slot(slot, |visit, now| visit.end = now);
        });
    }

    fn slots(&self) -> usize {
        self.pool.slots()
    }

    fn leaves(&self) -> bool {
        let leaves = self.pool.leaves();
        if let Some(slot) = SLOT.get().filter(|_| !leaves) {
            self.of_slot(slot, |visit, now| visit.asked.push(now));
        }
        leaves
    }
}

fn lock<T>(visits: &Mutex<T>) -> MutexGuard<'_, T> {
    visits.lock().unwrap_or_else(PoisonError::into_inner)
}
