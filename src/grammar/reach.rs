//! Finds the states of an automaton that lead to no accepted text, and those that are plain.

use super::class::LAST;
use super::dfa::{
    Dfa, EDGES, LINK, MARK, NEXT, PREVIOUS, accept, edge, edges, is_marked, is_plain, last, next, previous,
};
use super::scratch::Scratch;

/// Removes states from which nothing is accepted, and edges to them, in as many pieces as one likes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trim {
    first: Dfa,
    last: u32,
    /// The next state.
    state: u32,
    /// Whether a mark was set in this round.
    changed: bool,
    /// Whether all marks are set, and states are being taken out.
    unlinks: bool,
    /// The last state that stays, or 0.
    alive: u32,
}

impl Trim {
    pub(super) fn new(scratch: &Scratch<'_>, first: Dfa) -> Self {
        let last = if first == 0 { 0 } else { last(scratch, first) };
        Self { first, last, state: last, changed: false, unlinks: false, alive: 0 }
    }

    /// Goes on. Returns the automaton when it is trimmed, 0 if nothing is left of it.
    pub(super) fn go_on(&mut self, scratch: &mut Scratch<'_>) -> Option<Dfa> {
        while !self.unlinks {
            while self.state != 0 {
                if scratch.is_spent() {
                    return None;
                }
                scratch.spend(1);
                if !is_marked(scratch, self.state) && is_alive(scratch, self.state) {
                    scratch.set(self.state, MARK, 1);
                    self.changed = true;
                }
                self.state = previous(scratch, self.state);
            }
            self.unlinks = !self.changed;
            (self.changed, self.state) = (false, if self.unlinks { self.first } else { self.last });
        }
        while self.state != 0 {
            if scratch.is_spent() {
                return None;
            }
            scratch.spend(1);
            self.unlink(scratch);
        }
        Some(if self.first != 0 && is_marked(scratch, self.first) { self.first } else { 0 })
    }

    /// Takes the present state out of the list if it is dead. Otherwise takes its dead edges out.
    fn unlink(&mut self, scratch: &mut Scratch<'_>) {
        let state = self.state;
        self.state = next(scratch, state);
        if !is_marked(scratch, state) && state != self.first {
            return;
        }
        if self.alive != 0 {
            scratch.set(self.alive, NEXT, state);
        }
        scratch.set(state, PREVIOUS, self.alive);
        scratch.set(state, NEXT, 0);
        self.alive = state;
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

/// Notes of each state whether it is plain, in as many pieces as one likes. From a plain state all characters that
/// strings of JSON have as they are lead to states that are plain, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Plain {
    last: u32,
    state: u32,
    /// Whether all states are marked, and those that are not plain are being found.
    is_marked: bool,
    changed: bool,
}

impl Plain {
    pub(super) fn new(scratch: &Scratch<'_>, first: Dfa) -> Self {
        let last = last(scratch, first);
        Self { last, state: last, is_marked: false, changed: false }
    }

    /// Goes on. Returns whether all is noted.
    pub(super) fn go_on(&mut self, scratch: &mut Scratch<'_>) -> bool {
        loop {
            while self.state != 0 {
                if scratch.is_spent() {
                    return false;
                }
                scratch.spend(1);
                if !self.is_marked {
                    scratch.set(self.state, MARK, 1);
                } else if is_plain(scratch, self.state) && !stays_plain(scratch, self.state) {
                    scratch.set(self.state, MARK, 0);
                    self.changed = true;
                }
                self.state = previous(scratch, self.state);
            }
            if self.is_marked && !self.changed {
                return true;
            }
            (self.is_marked, self.changed, self.state) = (true, false, self.last);
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
