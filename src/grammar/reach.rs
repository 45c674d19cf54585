//! What the states of an automaton lead to: nothing, or nothing but more plain text.

use super::class::LAST;
use super::dfa::{
    Dfa, EDGES, LINK, MARK, NEXT, PREVIOUS, accept, edge, edges, is_marked, is_plain, last, next, previous,
};
use super::scratch::Scratch;

/// Removes states from which nothing is accepted, and edges to them. Returns 0 if nothing is left.
pub(super) fn trimmed(scratch: &mut Scratch<'_>, first: Dfa) -> Dfa {
    if first == 0 {
        return 0;
    }
    let last = last(scratch, first);
    let mut changed = true;
    while changed {
        changed = false;
        let mut state = last;
        while state != 0 {
            if !is_marked(scratch, state) && is_alive(scratch, state) {
                scratch.set(state, MARK, 1);
                changed = true;
            }
            state = previous(scratch, state);
        }
    }
    unlink(scratch, first);
    if is_marked(scratch, first) { first } else { 0 }
}

fn is_alive(scratch: &Scratch<'_>, state: u32) -> bool {
    let mut number = edges(scratch, state);
    while let Some(edge) = edge(scratch, number) {
        if is_marked(scratch, edge.target) {
            return true;
        }
        number = edge.next;
    }
    accept(scratch, state) != 0
}

/// Takes dead states and edges out of their lists.
fn unlink(scratch: &mut Scratch<'_>, first: Dfa) {
    let (mut state, mut alive) = (first, 0);
    while state != 0 {
        let following = next(scratch, state);
        if is_marked(scratch, state) || state == first {
            if alive != 0 {
                scratch.set(alive, NEXT, state);
            }
            scratch.set(state, PREVIOUS, alive);
            scratch.set(state, NEXT, 0);
            alive = state;
            let (mut number, mut kept) = (edges(scratch, state), 0);
            scratch.set(state, EDGES, 0);
            while let Some(edge) = edge(scratch, number) {
                if is_marked(scratch, edge.target) {
                    match kept {
                        0 => scratch.set(state, EDGES, number),
                        kept => scratch.set(kept, LINK, number),
                    }
                    scratch.set(number, LINK, 0);
                    kept = number;
                }
                number = edge.next;
            }
        }
        state = following;
    }
}

/// Notes of each state whether it is plain: whether such characters lead to states that are plain, too.
pub(super) fn mark_plain(scratch: &mut Scratch<'_>, first: Dfa) {
    let last = last(scratch, first);
    let mut state = last;
    while state != 0 {
        scratch.set(state, MARK, 1);
        state = previous(scratch, state);
    }
    let mut changed = true;
    while changed {
        changed = false;
        state = last;
        while state != 0 {
            if is_plain(scratch, state) && !stays_plain(scratch, state) {
                scratch.set(state, MARK, 0);
                changed = true;
            }
            state = previous(scratch, state);
        }
    }
}

fn stays_plain(scratch: &Scratch<'_>, state: u32) -> bool {
    const PLAIN: [(u32, u32); 5] = [(0x20, 0x21), (0x23, 0x5B), (0x5D, 0x7E), (0x80, 0xD7FF), (0xE000, LAST)];
    let mut number = edges(scratch, state);
    PLAIN.into_iter().all(|(low, high)| {
        let mut next = low;
        while let Some(found) = edge(scratch, number).filter(|found| next <= high && found.low <= next) {
            if found.high >= next {
                if !is_plain(scratch, found.target) {
                    return false;
                }
                next = found.high.saturating_add(1);
            }
            // The edge may reach into the next range.
            if next <= high {
                number = found.next;
            }
        }
        next > high
    })
}
