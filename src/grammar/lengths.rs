//! How many characters a text can still have in each state of an automaton.

use super::dfa::{Dfa, Edge, QUOTE, accept, edge, edges, highest, last, next, previous, set_highest};
use super::scratch::Scratch;

/// Stands for no upper bound of the number of characters.
pub(super) const ENDLESS: u32 = 0xFFFF;

/// Notes in each state of an automaton, trimmed and with quotes, the fewest characters to the end (low half) and the
/// most (high half), in as many pieces as one likes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Notes {
    first: Dfa,
    end: u32,
    state: u32,
    rounds: u32,
    changed: bool,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Clear,
    Sweep,
    Check,
}

impl Notes {
    pub(super) fn new(scratch: &Scratch<'_>, first: Dfa) -> Self {
        let end = last(scratch, first);
        Self { first, end, state: end, rounds: 1, changed: false, stage: Stage::Clear }
    }

    /// Goes on. Returns at the end whether every number from the fewest to the most is possible in every state. Only
    /// then these two numbers say everything.
    pub(super) fn go_on(&mut self, scratch: &mut Scratch<'_>) -> Option<bool> {
        loop {
            while self.state != 0 {
                if scratch.is_spent() {
                    return None;
                }
                scratch.spend(1);
                match self.stage {
                    Stage::Clear => set_highest(scratch, self.state, UNKNOWN),
                    Stage::Sweep => self.sweep(scratch),
                    Stage::Check if !is_covered(scratch, self.state) => return Some(false),
                    Stage::Check => {}
                }
                let is_back = self.stage != Stage::Check;
                self.state = if is_back { previous(scratch, self.state) } else { next(scratch, self.state) };
            }
            match self.stage {
                Stage::Check => return Some(true),
                Stage::Sweep if !self.changed => (self.stage, self.state) = (Stage::Check, self.first),
                Stage::Sweep => self.rounds = self.rounds.saturating_add(1),
                Stage::Clear => self.stage = Stage::Sweep,
            }
            if self.stage == Stage::Sweep {
                (self.state, self.changed) = (self.end, false);
            }
        }
    }

    /// Makes the numbers of a state. The fewest settle in as many rounds as there are states. The most that still grow
    /// after [`ROUNDS`] rounds are without a bound.
    fn sweep(&mut self, scratch: &mut Scratch<'_>) {
        let (low, high) = bounds(scratch, self.state);
        let high = if self.rounds > ROUNDS { high.min(ENDLESS) } else { high };
        if low < ENDLESS && highest(scratch, self.state) != (low | high << 16) {
            let grown = highest(scratch, self.state) != UNKNOWN && high > highest(scratch, self.state) >> 16;
            let high = if grown && self.rounds > ROUNDS { ENDLESS } else { high };
            self.changed |= highest(scratch, self.state) != (low | high << 16);
            set_highest(scratch, self.state, low | high << 16);
        }
    }
}

/// The note of a state of which nothing is known yet.
const UNKNOWN: u32 = ENDLESS;
/// Number of rounds after which a greatest number that still grows counts as no bound.
const ROUNDS: u32 = 300;

/// Returns the fewest and the most characters to the end by an edge, with the character of the edge. `None` if nothing
/// is known of its target.
fn beyond(scratch: &Scratch<'_>, edge: Edge) -> Option<(u32, u32)> {
    let known = highest(scratch, edge.target);
    let own = u32::from(edge.low != QUOTE);
    let (low, high) = (known & 0xFFFF, known >> 16);
    let high = if high == ENDLESS { ENDLESS } else { (high + own).min(ENDLESS) };
    (low < ENDLESS).then_some((low + own, high))
}

/// Returns the fewest and the most characters from a state to the end, as far as they are known.
fn bounds(scratch: &Scratch<'_>, state: u32) -> (u32, u32) {
    let ends = accept(scratch, state) != 0;
    let (mut low, mut high) = (if ends { 0 } else { ENDLESS }, 0);
    let mut number = edges(scratch, state);
    while let Some(found) = edge(scratch, number) {
        if let Some((fewest, most)) = beyond(scratch, found) {
            low = low.min(fewest);
            high = high.max(most);
        }
        number = found.next;
    }
    (low, high)
}

/// Returns whether every number of characters from the fewest to the most is possible in a state.
fn is_covered(scratch: &Scratch<'_>, state: u32) -> bool {
    let (low, high) = (highest(scratch, state) & 0xFFFF, highest(scratch, state) >> 16);
    // All numbers from the fewest up to this one are possible.
    let mut covered = low;
    let mut grown = true;
    while grown && covered < high {
        grown = false;
        let mut number = edges(scratch, state);
        while let Some(found) = edge(scratch, number) {
            if let Some((fewest, most)) = beyond(scratch, found)
                && fewest <= covered.saturating_add(1)
                && most > covered
            {
                covered = most;
                grown = true;
            }
            number = found.next;
        }
    }
    covered >= high
}
