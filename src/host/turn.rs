//! When a thread of the pool yields its processor to other programs.
//!
//! If the system takes the processor from a worker in the middle of a unit, all other workers wait for it, for whole
//! milliseconds if another program is busy. So a worker offers its processor before its time slice ends, at a moment
//! when no thread waits for it.

use std::cell::Cell;
use std::thread;
use std::time::{Duration, Instant};

/// Time after which a thread offers its processor. Shorter than a time slice (on Linux 3 to 4 ms).
const TURN: Duration = Duration::from_millis(2);
/// Absence after which a thread has a new turn. Longer than a unit, and shorter than the turn of a busy program.
const ABSENCE: Duration = Duration::from_millis(1);
/// Time of a yield that shows another program. Longer than a yield if no other thread wants the processor.
const GIVING: Duration = Duration::from_micros(500);
/// Time for which a processor that was shared is assumed to be still shared.
const SHARED: Duration = Duration::from_millis(50);

std::thread_local! {
    static CURRENT: Cell<Option<Turn>> = const { Cell::new(None) };
}

/// Yields the processor if the turn of the thread is over. Call it between two jobs.
pub(super) fn between_jobs() {
    let mut turn = Turn::now();
    if turn.is_over() {
        thread::yield_now();
        turn.gave_way(Instant::now());
    }
    CURRENT.set(Some(turn));
}

/// Returns whether a worker should leave its job and call [`between_jobs`], because its turn is over and another
/// program shares the processor. Call it between two units.
pub(super) fn leaves_job() -> bool {
    let turn = Turn::now();
    CURRENT.set(Some(turn));
    turn.is_over() && turn.is_shared()
}

/// The turn of a thread: the time that it has spent on the processor.
#[derive(Clone, Copy)]
struct Turn {
    start: Instant,
    /// Time at which the thread was last seen on the processor.
    seen: Instant,
    /// Time at which another program last gave the processor back.
    shared: Option<Instant>,
}

impl Turn {
    fn now() -> Self {
        Self::after(CURRENT.get(), Instant::now())
    }

    /// Returns the turn at the time `seen`. After a long absence it is a new one.
    fn after(before: Option<Self>, seen: Instant) -> Self {
        match before {
            Some(turn) if seen.duration_since(turn.seen) < ABSENCE => Self { seen, ..turn },
            turn => Self { start: seen, seen, shared: turn.and_then(|turn| turn.shared) },
        }
    }

    fn gave_way(&mut self, back: Instant) {
        if back.duration_since(self.seen) > GIVING {
            self.shared = Some(back);
        }
        (self.start, self.seen) = (back, back);
    }

    fn is_over(&self) -> bool {
        self.seen.duration_since(self.start) > TURN
    }

    fn is_shared(&self) -> bool {
        self.shared.is_some_and(|shared| self.seen.duration_since(shared) < SHARED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the turn of a thread after `steps` steps of 100 us on the processor.
    fn busy_for(mut turn: Turn, steps: u32) -> Turn {
        for _ in 0..steps {
            turn = Turn::after(Some(turn), turn.seen + Duration::from_micros(100));
        }
        turn
    }

    #[test]
    fn a_turn_ends_after_time_on_the_processor() {
        let turn = busy_for(Turn::after(None, Instant::now()), 20);
        assert!(!turn.is_over());
        assert!(busy_for(turn, 1).is_over());
        let back = Turn::after(Some(turn), turn.seen + ABSENCE);
        assert!(!busy_for(back, 20).is_over() && busy_for(back, 21).is_over());
    }

    #[test]
    fn only_who_gave_way_for_long_shares_the_processor_and_for_a_time() {
        let alone = {
            let mut turn = busy_for(Turn::after(None, Instant::now()), 21);
            turn.gave_way(turn.seen + Duration::from_micros(1));
            turn
        };
        assert!(!alone.is_over() && !alone.is_shared());
        assert!(!Turn::after(Some(alone), alone.seen + 2 * ABSENCE).is_shared());
        let mut turn = busy_for(alone, 21);
        turn.gave_way(turn.seen + GIVING + Duration::from_micros(1));
        assert!(!turn.is_over() && turn.is_shared());
        assert!(busy_for(turn, 499).is_shared() && !busy_for(turn, 500).is_shared());
    }
}
