//! Deterministic automata over characters, while a grammar is compiled.

use super::class::ANY;
use super::error::{ErrorKind, GrammarError};
use super::scratch::{Result, Scratch};

// The fields of a state.
pub(super) const EDGES: u32 = 0;
/// Number of the text that the state accepts, plus 1, or 0 if it accepts none.
const ACCEPT: u32 = 1;
pub(super) const NEXT: u32 = 2;
pub(super) const PREVIOUS: u32 = 3;
/// Two words that say what the state was made from.
const KEY: u32 = 4;
const KEY2: u32 = 5;
const CHAIN: u32 = 6;
/// For names: the highest number that is accepted from the state on, plus 1. For counted texts: the numbers of
/// characters that [`super::lengths`] notes.
const HIGHEST: u32 = 7;
/// Place of the state in the finished grammar.
const PLACE: u32 = 8;
/// While states are trimmed: whether the state is alive. In the end: whether it is plain (see [`is_plain`]).
pub(super) const MARK: u32 = 9;

// The fields of an edge.
const LOW: u32 = 0;
const HIGH: u32 = 1;
const TARGET: u32 = 2;
pub(super) const LINK: u32 = 3;

/// The code that stands for the quotes around a string, which is no character.
pub(super) const QUOTE: u32 = super::class::LAST + 1;

/// An automaton, by its first state. 0 accepts nothing.
pub(super) type Dfa = u32;

/// An edge: its first and its last character, its target, and the next edge of the state, or 0.
#[derive(Clone, Copy)]
pub(super) struct Edge {
    pub(super) low: u32,
    pub(super) high: u32,
    pub(super) target: Dfa,
    pub(super) next: u32,
}

/// The buckets of the first table of a builder.
const BUCKETS: u32 = 1024;
/// A table with this many states for each bucket is full.
const FULL: u32 = 2;
/// The table that follows a full one has this many times its buckets.
const GROWTH: u32 = 4;

// The fields of a table: the table before it, or 0; then its buckets.
const BEFORE: u32 = 0;
const FIRST: u32 = 1;

/// The states of an automaton in the making, which are found again by what they were made from.
///
/// A full table stays as it is. Each bucket of the next table belongs to one bucket of the full one, whose states are
/// chained behind the states of the new bucket. So no state is ever moved, which would be much work at once.
#[derive(Clone, Copy)]
pub(super) struct Builder {
    pub(super) first: Dfa,
    last: u32,
    count: u32,
    /// The last table, or 0 if states are not found again.
    table: u32,
    /// Number of buckets of the last table, a power of two.
    buckets: u32,
    limit: u32,
    at: usize,
}

impl Builder {
    pub(super) fn new(scratch: &mut Scratch<'_>, limit: u32, at: usize) -> Result<Self> {
        let mut builder = Self::plain(limit, at);
        builder.add_table(scratch, BUCKETS)?;
        Ok(builder)
    }

    /// Returns a builder whose states are not found again.
    pub(super) fn plain(limit: u32, at: usize) -> Self {
        Self { first: 0, last: 0, count: 0, table: 0, buckets: 0, limit, at }
    }

    fn add_table(&mut self, scratch: &mut Scratch<'_>, buckets: u32) -> Result<()> {
        let table = scratch.zeroed((FIRST + buckets) as usize)?;
        scratch.set(table, BEFORE, self.table);
        (self.table, self.buckets) = (table, buckets);
        Ok(())
    }

    /// Returns the first state with this hash, to be followed by [`chained`].
    pub(super) fn bucket(&self, scratch: &Scratch<'_>, hash: u32) -> u32 {
        let (mut table, mut buckets) = (self.table, self.buckets);
        while table != 0 {
            let state = scratch.get(table, place_of(hash, buckets));
            if state != 0 {
                return state;
            }
            (table, buckets) = (scratch.get(table, BEFORE), buckets / GROWTH);
        }
        0
    }

    /// Adds a state that is not there yet.
    pub(super) fn push(&mut self, scratch: &mut Scratch<'_>, key: (u32, u32), hash: u32, accept: u32) -> Result<u32> {
        self.count += 1;
        if self.count > self.limit {
            return Err(GrammarError { kind: ErrorKind::TooManyStates { limit: self.limit }, at: self.at });
        }
        if self.table != 0 && self.count > self.buckets.saturating_mul(FULL) {
            self.add_table(scratch, self.buckets.saturating_mul(GROWTH))?;
        }
        let chain = self.bucket(scratch, hash);
        let state = scratch.record([0, accept, 0, self.last, key.0, key.1, chain, 0, 0, 0])?;
        if self.table != 0 {
            scratch.set(self.table, place_of(hash, self.buckets), state);
        }
        match self.last {
            0 => self.first = state,
            last => scratch.set(last, NEXT, state),
        }
        self.last = state;
        Ok(state)
    }
}

/// Returns the field of a table that is the bucket of a hash.
fn place_of(hash: u32, buckets: u32) -> u32 {
    FIRST + (hash & buckets.saturating_sub(1))
}

/// An automaton whose states get their edges one after the other, in the order in which they are found.
pub(super) struct Growing {
    builder: Builder,
    /// The next state whose edges are made.
    state: u32,
}

impl Growing {
    /// Begins with the states that the builder has.
    pub(super) fn new(builder: Builder) -> Self {
        Self { state: builder.first, builder }
    }

    /// Goes on: `edges` makes the edges of a state, and the states that they lead to. Returns the automaton when it is
    /// made.
    pub(super) fn go_on(
        &mut self,
        scratch: &mut Scratch<'_>,
        mut edges: impl FnMut(&mut Scratch<'_>, &mut Builder, u32) -> Result<()>,
    ) -> Result<Option<Dfa>> {
        while self.state != 0 {
            if scratch.is_spent() {
                return Ok(None);
            }
            edges(scratch, &mut self.builder, self.state)?;
            self.state = next(scratch, self.state);
        }
        Ok(Some(self.builder.first))
    }
}

/// Returns what a state was made from.
pub(super) fn key(scratch: &Scratch<'_>, state: u32) -> (u32, u32) {
    (scratch.get(state, KEY), scratch.get(state, KEY2))
}

/// Returns the next state with the same hash, or 0.
pub(super) fn chained(scratch: &Scratch<'_>, state: u32) -> u32 {
    scratch.get(state, CHAIN)
}

/// Returns the state made after this one, or 0.
pub(super) fn next(scratch: &Scratch<'_>, state: u32) -> u32 {
    scratch.get(state, NEXT)
}

/// Returns the number of the text that a state accepts, plus 1, or 0 if it accepts none.
pub(super) fn accept(scratch: &Scratch<'_>, state: u32) -> u32 {
    scratch.get(state, ACCEPT)
}

pub(super) fn highest(scratch: &Scratch<'_>, state: u32) -> u32 {
    scratch.get(state, HIGHEST)
}

pub(super) fn set_highest(scratch: &mut Scratch<'_>, state: u32, value: u32) {
    scratch.set(state, HIGHEST, value);
}

pub(super) fn place(scratch: &Scratch<'_>, state: u32) -> u32 {
    scratch.get(state, PLACE)
}

pub(super) fn set_place(scratch: &mut Scratch<'_>, state: u32, value: u32) {
    scratch.set(state, PLACE, value);
}

/// Returns whether a state is plain: every text of characters that strings of JSON have as they are leads on from it.
pub(super) fn is_plain(scratch: &Scratch<'_>, state: u32) -> bool {
    is_marked(scratch, state)
}

pub(super) fn is_marked(scratch: &Scratch<'_>, state: u32) -> bool {
    scratch.get(state, MARK) != 0
}

/// Returns the last state of an automaton, from which [`previous`] leads to the first.
pub(super) fn last(scratch: &Scratch<'_>, first: Dfa) -> u32 {
    let mut state = first;
    while next(scratch, state) != 0 {
        state = next(scratch, state);
    }
    state
}

/// Returns the state made before this one, or 0.
pub(super) fn previous(scratch: &Scratch<'_>, state: u32) -> u32 {
    scratch.get(state, PREVIOUS)
}

/// Returns the first edge of a state, or 0.
pub(super) fn edges(scratch: &Scratch<'_>, state: u32) -> u32 {
    scratch.get(state, EDGES)
}

/// Returns an edge by its number.
pub(super) fn edge(scratch: &Scratch<'_>, edge: u32) -> Option<Edge> {
    let field = |field| scratch.get(edge, field);
    (edge != 0).then(|| Edge { low: field(LOW), high: field(HIGH), target: field(TARGET), next: field(LINK) })
}

/// Adds an edge behind all others of a state. `last` is the edge before it, or 0.
pub(super) fn append(
    scratch: &mut Scratch<'_>,
    state: u32,
    last: u32,
    low: u32,
    high: u32,
    target: u32,
) -> Result<u32> {
    if last != 0 && scratch.get(last, TARGET) == target && scratch.get(last, HIGH).wrapping_add(1) == low {
        scratch.set(last, HIGH, high);
        return Ok(last);
    }
    let edge = scratch.record([low, high, target, 0])?;
    match last {
        0 => scratch.set(state, EDGES, edge),
        last => scratch.set(last, LINK, edge),
    }
    Ok(edge)
}

/// A trie of accepted texts, each with a number.
pub(super) struct Trie {
    builder: Builder,
}

impl Trie {
    pub(super) fn new(scratch: &mut Scratch<'_>) -> Result<Self> {
        let mut builder = Builder::plain(u32::MAX, 0);
        builder.push(scratch, (0, 0), 0, 0)?;
        Ok(Self { builder })
    }

    /// Adds a text. A text that is already there keeps its number.
    pub(super) fn add(
        &mut self,
        scratch: &mut Scratch<'_>,
        text: impl Iterator<Item = u32>,
        number: u32,
    ) -> Result<()> {
        let mut state = self.builder.first;
        for char in text {
            state = self.child(scratch, state, char)?;
        }
        if scratch.get(state, ACCEPT) == 0 {
            scratch.set(state, ACCEPT, number.saturating_add(1));
        }
        Ok(())
    }

    /// Returns the automaton. Each state stands behind the state that leads to it.
    pub(super) fn dfa(&self) -> Dfa {
        self.builder.first
    }

    fn child(&mut self, scratch: &mut Scratch<'_>, state: u32, char: u32) -> Result<u32> {
        let (mut before, mut after) = (0, edges(scratch, state));
        while let Some(found) = edge(scratch, after).filter(|found| found.low <= char) {
            if found.low == char {
                return Ok(found.target);
            }
            (before, after) = (after, found.next);
        }
        let child = self.builder.push(scratch, (0, 0), 0, 0)?;
        let new = scratch.record([char, char, child, after])?;
        match before {
            0 => scratch.set(state, EDGES, new),
            before => scratch.set(before, LINK, new),
        }
        Ok(child)
    }
}

/// Returns a state without edges, in front of the states of `following`.
pub(super) fn state(scratch: &mut Scratch<'_>, accept: u32, following: Dfa) -> Result<Dfa> {
    let state = scratch.record([0, accept, following, 0, 0, 0, 0, 0, 0, 0])?;
    if following != 0 {
        scratch.set(following, PREVIOUS, state);
    }
    Ok(state)
}

/// Returns the automaton of one text.
pub(super) fn literal(scratch: &mut Scratch<'_>, text: impl Iterator<Item = u32>) -> Result<Dfa> {
    let mut builder = Builder::plain(u32::MAX, 0);
    let mut state = builder.push(scratch, (0, 0), 0, 0)?;
    for char in text {
        let target = builder.push(scratch, (0, 0), 0, 0)?;
        append(scratch, state, 0, char, char, target)?;
        state = target;
    }
    scratch.set(state, ACCEPT, 1);
    Ok(builder.first)
}

/// Returns the automaton of all texts of these characters.
pub(super) fn star(scratch: &mut Scratch<'_>, ranges: &[(u32, u32)]) -> Result<Dfa> {
    let state = state(scratch, 1, 0)?;
    let mut last = 0;
    for &(low, high) in ranges {
        last = append(scratch, state, last, low, high, state)?;
    }
    Ok(state)
}

/// Returns the automaton of the texts of `min` to `max` characters between quotes.
pub(super) fn lengths(scratch: &mut Scratch<'_>, min: u32, max: Option<u32>, limit: u32, at: usize) -> Result<Dfa> {
    let texts = of_lengths(scratch, min, max, limit, at)?;
    quoted(scratch, texts)
}

/// Returns the automaton of the texts of `min` to `max` characters.
pub(super) fn of_lengths(scratch: &mut Scratch<'_>, min: u32, max: Option<u32>, limit: u32, at: usize) -> Result<Dfa> {
    let mut builder = Builder::plain(limit, at);
    let mut state = builder.push(scratch, (0, 0), 0, u32::from(min == 0))?;
    for length in 1..=max.unwrap_or(min) {
        let target = builder.push(scratch, (0, 0), 0, u32::from(length >= min))?;
        any_edges(scratch, state, target)?;
        state = target;
    }
    if max.is_none() {
        any_edges(scratch, state, state)?;
    }
    Ok(builder.first)
}

fn any_edges(scratch: &mut Scratch<'_>, state: u32, target: u32) -> Result<()> {
    let mut last = 0;
    for &(low, high) in ANY {
        last = append(scratch, state, last, low, high, target)?;
    }
    Ok(())
}

/// Puts quotes around an automaton.
pub(super) fn quoted(scratch: &mut Scratch<'_>, inner: Dfa) -> Result<Dfa> {
    if inner == 0 {
        return Ok(0);
    }
    let end = state(scratch, 1, 0)?;
    let start = state(scratch, 0, inner)?;
    append(scratch, start, 0, QUOTE, QUOTE, inner)?;
    let mut state = inner;
    loop {
        if scratch.get(state, ACCEPT) != 0 {
            let mut before = edges(scratch, state);
            while let Some(Edge { next: next @ 1.., .. }) = edge(scratch, before) {
                before = next;
            }
            append(scratch, state, before, QUOTE, QUOTE, end)?;
            scratch.set(state, ACCEPT, 0);
        }
        if next(scratch, state) == 0 {
            break;
        }
        state = next(scratch, state);
    }
    scratch.set(state, NEXT, end);
    scratch.set(end, PREVIOUS, state);
    Ok(start)
}
