//! Decides how many tokens are guessed at a time: as many as pay, by how many guesses were right and by what a batch
//! costs.

/// The most guesses at a time.
pub const MAX_GUESSES: usize = 31;

/// The number 1 in probabilities and costs.
const ONE: u32 = 1 << 16;

/// A measured time moves towards a new one by one part in this number.
const INERTIA: u32 = 8;

/// Probability of a right guess that is assumed before any was judged: two thirds.
const FIRST_RIGHT: u32 = ONE / 3 * 2;

/// Number of judged guesses for which the assumed probability counts.
const FIRST_JUDGED: u32 = 2;

/// Approximate number of last guesses that count. With fewer, one wrong guess would count too much.
const JUDGED: u32 = 24;

/// Assumed cost of one more row in a batch where nothing is measured: a fifth of the cost of a batch of one row. That
/// is little, so that long batches are measured where guesses are right. On some machines the first additional row
/// costs much.
const ROW: u32 = ONE / 5;

/// Number of batches without guesses before guesses are tried again, at first.
const FIRST_REST: u32 = 16;

/// The most batches without guesses before guesses are tried again.
const LONGEST_REST: u32 = 256;

/// Number of guesses of a batch that tries whether guesses pay again.
const TRIED: usize = 2;

/// How guesses have done so far.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// Probability that a guess is right if the guesses before it are, in parts of [`ONE`].
    right: u32,
    /// Number of judged guesses in this probability, at most [`JUDGED`].
    judged: u32,
    /// Number of batches without guesses that are still to come.
    rest: u32,
    /// The length of the next rest.
    next_rest: u32,
    /// Whether a wrong guess costs the tokens before it once more.
    again: bool,
    /// What batches of 1, 2, ... rows took, in ticks of the host's clock; 0 where nothing is measured.
    ticks: [u32; MAX_GUESSES + 1],
    /// The most guesses for which the last batch had room.
    most: usize,
    /// Number of batches until one without guesses has to be measured, because the others are compared with it.
    alone: u32,
}

impl Pace {
    pub(super) const NEW: Self = Self {
        right: FIRST_RIGHT,
        judged: FIRST_JUDGED,
        rest: 0,
        next_rest: FIRST_REST,
        again: false,
        ticks: [0; MAX_GUESSES + 1],
        most: MAX_GUESSES,
        alone: 0,
    };

    /// Sets whether a wrong guess costs the tokens before it once more, in the next batch, which has no guesses.
    pub(super) fn computes_again(&mut self, again: bool) {
        self.again = again;
    }

    /// Returns how many tokens to guess for the next batch, and counts it.
    pub(super) fn next(&mut self, most: usize) -> usize {
        if self.rest > 0 {
            self.rest -= 1;
            return 0;
        }
        if self.alone == 0 && self.ticks.iter().any(|ticks| *ticks > 0) {
            // The source has guessed in all batches so far, or in very many.
            self.alone = LONGEST_REST;
            return 0;
        }
        (self.alone, self.most) = (self.alone.saturating_sub(1), most);
        match self.best(most) {
            0 => TRIED.min(most),
            best => best,
        }
    }

    /// Returns whether guesses rest because they did not pay.
    pub(super) fn rests(&self) -> bool {
        self.rest > 0
    }

    /// Notes that the first `right` of `guessed` guesses were right.
    pub(super) fn checked(&mut self, guessed: usize, right: usize) {
        if guessed == 0 {
            return;
        }
        let paid = self.best(self.most) > 0;
        if right == 0 {
            // The text may have changed: earlier guesses count half as much.
            self.judged = (self.judged / 2).max(FIRST_JUDGED);
        }
        let first = Self { right: FIRST_RIGHT, judged: FIRST_JUDGED, next_rest: FIRST_REST, ..*self };
        self.judge(guessed, right);
        if self.best(self.most) > 0 {
            self.next_rest = if right > 0 { FIRST_REST } else { self.next_rest };
            return;
        }
        if !paid && right == guessed {
            // The text has changed: guesses begin as at first, if that pays on this machine.
            let mut anew = first;
            anew.judge(guessed, right);
            if anew.best(self.most) > 0 {
                *self = anew;
                return;
            }
        }
        (self.rest, self.next_rest) = (self.next_rest, self.next_rest.saturating_mul(2).min(LONGEST_REST));
    }

    /// Moves the probability by the first `right` of `guessed` guesses, and by the wrong one behind them.
    fn judge(&mut self, guessed: usize, right: usize) {
        for index in 0..guessed.min(right.saturating_add(1)) {
            let target = if index < right { ONE } else { 0 };
            self.judged = self.judged.saturating_add(1).min(JUDGED);
            self.right = moved(self.right, target, self.judged);
        }
    }

    /// Notes how many ticks a batch of `rows` rows took.
    pub(super) fn took(&mut self, rows: usize, ticks: u32) {
        if rows == 1 {
            self.alone = LONGEST_REST;
        }
        let place = rows.checked_sub(1).and_then(|index| self.ticks.get_mut(index));
        for place in place.into_iter().filter(|_| ticks > 0) {
            // A batch that took much longer was interrupted.
            *place =
                if *place == 0 { ticks } else { moved(*place, ticks.min(place.saturating_mul(2)), INERTIA).max(1) };
        }
    }

    /// Returns the number of guesses, from 0 to `most`, that brings the most tokens for its cost.
    fn best(&self, most: usize) -> usize {
        let one = u64::from(ONE);
        let (mut right, mut probability, mut after) = (one, one, 0_u64);
        let (mut best, mut best_tokens, mut best_cost) = (0, right, self.cost(1));
        for guesses in 1..=most.min(MAX_GUESSES) {
            let before = probability;
            probability = (probability * u64::from(self.right)) >> 16;
            right += probability;
            let (mut tokens, mut cost) = (right, self.cost(guesses + 1));
            if self.again {
                // If this guess is the first wrong one, the next batch computes all tokens before it again, and brings
                // one token.
                after += ((before - probability) * cost) >> 16;
                (tokens, cost) = (tokens + one - probability, cost + after);
            }
            if tokens.saturating_mul(best_cost) > best_tokens.saturating_mul(cost) {
                (best, best_tokens, best_cost) = (guesses, tokens, cost);
            }
        }
        best
    }

    /// Returns the cost of a batch of `rows` rows, at least one, in parts of [`ONE`] of the cost of one row.
    fn cost(&self, rows: usize) -> u64 {
        let one = self.ticks.first().copied().unwrap_or(0);
        let cost = |index: usize| {
            let ticks = self.ticks.get(index).copied().filter(|ticks| *ticks > 0)?;
            (u64::from(ticks) << 16).checked_div(one.into()).map(|cost| (index, cost))
        };
        let (index, known) = (0..rows).rev().find_map(cost).unwrap_or((0, ONE.into()));
        let more = rows.saturating_sub(index.saturating_add(1)) as u64;
        known.saturating_add(more.saturating_mul(ROW.into())).min(1 << 40)
    }
}

/// Returns a value that has moved towards a new one by one part in `parts`.
fn moved(value: u32, new: u32, parts: u32) -> u32 {
    let by = |distance: u32| distance.saturating_add(parts.saturating_sub(1)).checked_div(parts).unwrap_or(0);
    if new >= value { value.saturating_add(by(new - value)) } else { value.saturating_sub(by(value - new)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs batches of a pace. `right` returns how many of its guesses are right. Returns the number of all guesses.
    fn guesses(pace: &mut Pace, batches: usize, right: impl Fn(usize) -> usize) -> usize {
        let count = |_| {
            let guessed = pace.next(MAX_GUESSES);
            pace.checked(guessed, right(guessed));
            guessed
        };
        (0..batches).map(count).sum()
    }

    #[test]
    fn right_guesses_become_longer_and_wrong_ones_rest() {
        let mut pace = Pace::NEW;
        guesses(&mut pace, 50, |guessed| guessed);
        assert_eq!(pace.next(MAX_GUESSES), MAX_GUESSES);
        assert_eq!(pace.next(5), 5);
        // Nothing is right any more: two guesses in 256 batches in the end.
        guesses(&mut pace, 2000, |_| 0);
        assert!(guesses(&mut pace, 2560, |_| 0) <= 22);
        // They are right again, which is noticed with the next two.
        assert!(guesses(&mut pace, 600, |guessed| guessed) > 1000);
    }

    #[test]
    fn a_machine_that_gains_nothing_by_batches_guesses_nothing() {
        let mut pace = Pace::NEW;
        (1..=MAX_GUESSES + 1).for_each(|rows| pace.took(rows, 1000 * rows as u32));
        assert_eq!(pace.best(MAX_GUESSES), 0);
        let mut pace = Pace::NEW;
        pace.took(1, 1000);
        pace.took(4, 1000);
        // What is not measured is taken to cost little more.
        assert_eq!(pace.cost(9), u64::from(ONE + 5 * ROW));
        // Where only steps of four rows gain anything.
        [2, 3].into_iter().for_each(|rows| pace.took(rows, 9000));
        assert_eq!(pace.best(3), 3);
        assert_eq!(pace.best(2), 0);
    }

    /// A source that guesses in each batch learns what a batch without guesses takes. Right guesses rest where batches
    /// are too dear.
    #[test]
    fn sources_that_always_guess_are_compared_with_none() {
        let mut pace = Pace::NEW;
        let mut batches = |count: usize, row: u32| -> Vec<usize> {
            let batch = |_| {
                let guessed = pace.next(7);
                pace.took(guessed + 1, 1000 + row * guessed as u32);
                pace.checked(guessed, guessed);
                guessed
            };
            (0..count).map(batch).collect()
        };
        let cheap = batches(2560, 100);
        assert_eq!(cheap.iter().filter(|guessed| **guessed == 0).count(), 10);
        assert!(cheap[600..].iter().all(|guessed| [0, 7].contains(guessed)));
        // Something else runs on the machine, and rows become dear.
        batches(600, 1500);
        assert!(batches(2560, 1500).into_iter().sum::<usize>() < 60);
    }

    /// Where a wrong guess costs the tokens before it once more, fewer are made, and sooner none.
    #[test]
    fn what_is_computed_again_is_reckoned_with() {
        let best = |again: bool, right: u32, row: u32| {
            let mut pace = Pace { right: ONE / 100 * right, again, ..Pace::NEW };
            (1..=MAX_GUESSES + 1).for_each(|rows| pace.took(rows, 1000 + row * (rows as u32 - 1)));
            pace.best(MAX_GUESSES)
        };
        for row in [100, 400, 700] {
            assert!((0..100).all(|right| best(true, right, row) <= best(false, right, row)), "{row}");
        }
        // Three guesses of five are right: a row more may cost half a batch, but not where it comes twice.
        assert!(best(false, 60, 500) > 0 && best(true, 60, 500) == 0);
        assert!(best(true, 97, 500) > 0 && best(true, 67, 100) > 1);
    }

    #[test]
    fn no_number_is_too_large() {
        let mut pace = Pace { right: ONE, ..Pace::NEW };
        pace.took(1, 1);
        (2..=MAX_GUESSES + 1).for_each(|rows| pace.took(rows, u32::MAX));
        assert_eq!(pace.best(MAX_GUESSES), 0);
        (0..100).for_each(|_| pace.took(1, u32::MAX));
        pace.took(0, 5);
        pace.took(MAX_GUESSES + 2, 5);
        assert!(pace.best(usize::MAX) <= MAX_GUESSES);
    }
}
