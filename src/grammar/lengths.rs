//! How many characters a text can still have in each state of an automaton.

use super::dfa::{Dfa, Edge, QUOTE, accept, edge, edges, highest, last, next, previous, set_highest};
use super::scratch::Scratch;

/// No upper bound of the characters.
pub(super) const ENDLESS: u32 = 0xFFFF;

/// Notes in each state of an automaton, trimmed and with quotes, the fewest characters to the end (low half) and the
/// most (high half). Returns whether every number between them is possible in every state: only then these two say all.
pub(super) fn note(scratch: &mut Scratch<'_>, first: Dfa) -> bool {
    let end = last(scratch, first);
    let mut state = end;
    while state != 0 {
        set_highest(scratch, state, UNKNOWN);
        state = previous(scratch, state);
    }
    // The fewest settle in as many rounds as there are states. The most that still grow then are without a bound.
    let mut rounds = 0_u32;
    let mut changed = true;
    while changed {
        changed = false;
        rounds += 1;
        let mut state = end;
        while state != 0 {
            let (low, high) = bounds(scratch, state);
            let high = if rounds > ROUNDS { high.min(ENDLESS) } else { high };
            if low < ENDLESS && highest(scratch, state) != (low | high << 16) {
                let grown = highest(scratch, state) != UNKNOWN && high > highest(scratch, state) >> 16;
                let high = if grown && rounds > ROUNDS { ENDLESS } else { high };
                changed |= highest(scratch, state) != (low | high << 16);
                set_highest(scratch, state, low | high << 16);
            }
            state = previous(scratch, state);
        }
    }
    let mut state = first;
    while state != 0 {
        if !is_covered(scratch, state) {
            return false;
        }
        state = next(scratch, state);
    }
    true
}

/// Nothing is known of a state yet.
const UNKNOWN: u32 = ENDLESS;
/// Rounds after which a bound that grows is none.
const ROUNDS: u32 = 300;

/// Returns the bounds of the targets of an edge, with its own character.
fn beyond(scratch: &Scratch<'_>, edge: Edge) -> Option<(u32, u32)> {
    let known = highest(scratch, edge.target);
    let own = u32::from(edge.low != QUOTE);
    let (low, high) = (known & 0xFFFF, known >> 16);
    let high = if high == ENDLESS { ENDLESS } else { (high + own).min(ENDLESS) };
    (low < ENDLESS).then_some((low + own, high))
}

/// Returns the fewest and the most characters to the end, as far as they are known.
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

/// Returns whether the targets of a state leave no gap between its bounds.
fn is_covered(scratch: &Scratch<'_>, state: u32) -> bool {
    let (low, high) = (highest(scratch, state) & 0xFFFF, highest(scratch, state) >> 16);
    // All from the fewest up to here are possible.
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
