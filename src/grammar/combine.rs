//! Combines two automata to the automaton of the texts that both accept, or of the texts that only the first accepts.

use super::dfa::{Builder, Dfa, Growing, accept, append, chained, edge, edges, key};
use super::scratch::{Result, Scratch, mix};

/// How two automata are combined.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Combine {
    /// The texts that both accept.
    Both,
    /// The texts that the first accepts and the second does not.
    Without,
}

/// A combination of two automata in the making. Its states accept the same numbers as the states of the first
/// automaton.
pub(super) struct Combining {
    growing: Growing,
    how: Combine,
}

impl Combining {
    pub(super) fn new(
        scratch: &mut Scratch<'_>,
        (one, other): (Dfa, Dfa),
        how: Combine,
        limit: u32,
        at: usize,
    ) -> Result<Self> {
        let mut builder = Builder::new(scratch, limit, at)?;
        if one != 0 {
            pair(scratch, &mut builder, (one, other), how)?;
        }
        Ok(Self { growing: Growing::new(builder), how })
    }

    /// Goes on. Returns the automaton when it is made.
    pub(super) fn go_on(&mut self, scratch: &mut Scratch<'_>) -> Result<Option<Dfa>> {
        let how = self.how;
        self.growing.go_on(scratch, |scratch, builder, state| make_edges(scratch, builder, state, how))
    }
}

/// Makes the edges of a state.
fn make_edges(scratch: &mut Scratch<'_>, builder: &mut Builder, state: u32, how: Combine) -> Result<()> {
    let (a, b) = key(scratch, state);
    let (mut last, mut left, mut right) = (0, edges(scratch, a), edges(scratch, b));
    let mut low = 0;
    while let Some(edge_a) = edge(scratch, left) {
        low = low.max(edge_a.low);
        while edge(scratch, right).is_some_and(|edge| edge.high < low) {
            right = edge(scratch, right).map_or(0, |edge| edge.next);
        }
        let (target, high) = match edge(scratch, right) {
            Some(edge_b) if edge_b.low <= low => (edge_b.target, edge_a.high.min(edge_b.high)),
            Some(edge_b) => (0, edge_a.high.min(edge_b.low.saturating_sub(1))),
            None => (0, edge_a.high),
        };
        if target != 0 || how == Combine::Without {
            let target = pair(scratch, builder, (edge_a.target, target), how)?;
            last = append(scratch, state, last, low, high, target)?;
        }
        low = high.saturating_add(1);
        if high == edge_a.high {
            left = edge_a.next;
        }
        scratch.spend(1);
    }
    Ok(())
}

fn pair(scratch: &mut Scratch<'_>, builder: &mut Builder, pair: (u32, u32), how: Combine) -> Result<u32> {
    let hash = mix(mix(0, pair.0), pair.1);
    let mut state = builder.bucket(scratch, hash);
    while state != 0 {
        if key(scratch, state) == pair {
            return Ok(state);
        }
        state = chained(scratch, state);
    }
    let second = pair.1 != 0 && accept(scratch, pair.1) != 0;
    let accepted = if second == (how == Combine::Both) { accept(scratch, pair.0) } else { 0 };
    builder.push(scratch, pair, hash, accepted)
}
