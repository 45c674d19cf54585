//! Finds out which names can still come in each state of an automaton.

use super::check::alive;
use super::dfa::{self, Dfa};
use super::scratch::Scratch;

/// Notes in each state of an automaton of names the highest number that can still be accepted, plus 1. Names whose
/// values have no text do not count.
pub(super) fn mark_names(scratch: &mut Scratch<'_>, names: Dfa, table: u32) {
    let mut state = dfa::last(scratch, names);
    while state != 0 {
        scratch.spend(1);
        let number = dfa::accept(scratch, state);
        let entry = if number == 0 { 0 } else { scratch.get(table, number) };
        let mut highest = if alive(scratch, entry) { number } else { 0 };
        let mut edge = dfa::edges(scratch, state);
        while let Some(found) = dfa::edge(scratch, edge) {
            highest = highest.max(dfa::highest(scratch, found.target));
            edge = found.next;
        }
        dfa::set_highest(scratch, state, highest);
        state = dfa::previous(scratch, state);
    }
}
