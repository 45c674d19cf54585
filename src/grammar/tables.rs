//! The tables of a matcher: flat, without pointers.

use bytemuck::{Pod, Zeroable};

use super::error::MatchError;
use super::past::Past;
use super::seen::{FRONTIERS, Seen};
use super::trie::MAX_BYTES;
use crate::mem::Arena;

/// How much a [`Matcher`](super::Matcher) has room for.
///
/// [Example](crate::grammar#example).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most ways in which a text can be read at once.
    pub items: usize,
    /// The most calls of rules that are kept, and also the most places to which these calls return.
    pub nodes: usize,
    /// The most calls that are nested in each other.
    pub depth: usize,
    /// Number of 32-bit words for the states before the last tokens, to which
    /// [`Matcher::rewind`](super::Matcher::rewind) goes back. A state in JSON takes 30 to 100 words.
    pub past: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { items: 256, nodes: 1024, depth: 128, past: 1024 }
    }
}

/// An item: one way to read the text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Item {
    /// Place of the instruction in the grammar.
    pub(super) code: u32,
    /// Place of the state of the instruction's automaton in the grammar.
    pub(super) state: u32,
    /// The part of a character that was read so far, or 0 for none.
    pub(super) partial: u32,
    /// Number of rounds of the loop around the instruction. Of a counted text: the number of characters so far.
    pub(super) count: u32,
    pub(super) node: u32,
}

impl Item {
    /// Returns whether two items are at the same instruction of the same call.
    #[inline]
    pub(super) fn is_beside(self, other: Self) -> bool {
        [self.code, self.node] == [other.code, other.node]
    }
}

/// A call of a rule.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Node {
    /// The first instruction of the rule.
    pub(super) rule: u32,
    /// Index of the place to return to that was noted last, or 0.
    pub(super) returns: u32,
    pub(super) depth: u32,
    /// While nodes are dropped: 0 if the node is dropped, otherwise 1 and later its new index. Where the bytes to an
    /// end are counted: number of bytes from the end of the rule to the end of the text.
    pub(super) note: u32,
}

/// A place to which a rule returns.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Return {
    pub(super) code: u32,
    pub(super) count: u32,
    pub(super) node: u32,
    /// Index of the place that was noted before this one for the same call, or 0.
    pub(super) next: u32,
    /// While nodes are dropped: as in [`Node`].
    pub(super) note: u32,
}

/// An instruction that is reached without a further byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Reached {
    pub(super) code: u32,
    pub(super) count: u32,
    pub(super) node: u32,
    /// 1: the round of the loop has no byte yet.
    pub(super) fresh: u32,
}

/// A frontier: its range in the table of items, and how many entries of the other tables belong to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Frontier {
    pub(super) start: usize,
    pub(super) count: usize,
    pub(super) nodes: usize,
    pub(super) returns: usize,
    pub(super) accepting: bool,
}

/// A frontier of a walk over tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Saved {
    pub(super) start: u32,
    pub(super) count: u32,
    pub(super) nodes: u32,
    pub(super) returns: u32,
    /// Its number among the frontiers seen, or 0.
    pub(super) number: u32,
    /// 1: the text may end.
    pub(super) accepting: u32,
    /// Number of characters so far, if the frontier is a counted text and has a number.
    pub(super) chars: u32,
    /// 1: its items are not in the table yet, only among the frontiers seen.
    pub(super) elsewhere: u32,
}

impl Saved {
    pub(super) fn new(from: Frontier) -> Self {
        let Frontier { start, count, nodes, returns, accepting } = from;
        let [start, count, nodes, returns] = [start, count, nodes, returns].map(|number| number as u32);
        Self { start, count, nodes, returns, number: 0, accepting: accepting.into(), chars: 0, elsewhere: 0 }
    }

    /// Returns the frontier with its counts raised to all nodes and returns that a walk has made. While frontiers are
    /// noted, a frontier counts only the nodes and returns that the bytes of its token have made, but its items can
    /// refer to later ones.
    pub(super) fn behind_all(self, [nodes, returns]: [u32; 2]) -> Self {
        Self { nodes: nodes.max(self.nodes), returns: returns.max(self.returns), ..self }
    }

    pub(super) fn frontier(self) -> Frontier {
        let Self { start, count, nodes, returns, accepting, .. } = self;
        let [start, count, nodes, returns] = [start, count, nodes, returns].map(|number| number as usize);
        Frontier { start, count, nodes, returns, accepting: accepting != 0 }
    }
}

/// The tables of a matcher, in the caller's memory.
#[derive(Debug)]
pub(super) struct Tables<'m> {
    pub(super) items: &'m mut [Item],
    pub(super) nodes: &'m mut [Node],
    pub(super) returns: &'m mut [Return],
    /// The instructions that are reached in the present step.
    pub(super) queue: &'m mut [Reached],
    /// In a walk over tokens: the frontier before the present token, then the frontier behind each of its bytes.
    pub(super) walk: &'m mut [Saved],
    /// In a walk over tokens: frontiers that the walk has met.
    pub(super) seen: Seen<'m>,
    /// The states before the last tokens.
    pub(super) past: Past<'m>,
}

impl<'m> Tables<'m> {
    pub(super) fn carve(arena: &mut Arena<'m>, limits: Limits) -> Result<Self, MatchError> {
        // Room for three frontiers: the present one, the one in the making, and one between. In a walk there is a
        // frontier behind each byte of a token, so one item for each byte is added.
        let items = limits.items.saturating_mul(3).saturating_add(MAX_BYTES);
        Ok(Self {
            items: arena.slice("items", items).map_err(MatchError::Memory)?,
            nodes: arena.slice("nodes", limits.nodes).map_err(MatchError::Memory)?,
            returns: arena.slice("returns", limits.nodes).map_err(MatchError::Memory)?,
            queue: arena.slice("queue", limits.items.saturating_mul(4)).map_err(MatchError::Memory)?,
            walk: arena.slice("walk", MAX_BYTES + 1).map_err(MatchError::Memory)?,
            seen: Seen::new(arena.slice("frontiers seen", FRONTIERS).map_err(MatchError::Memory)?),
            past: Past::new(arena.slice("past", limits.past).map_err(MatchError::Memory)?),
        })
    }

    /// Drops the nodes that no item of a frontier reaches. The others keep their order.
    pub(super) fn drop_nodes(&mut self, now: &mut Frontier) {
        let nodes = self.nodes.get_mut(..now.nodes).unwrap_or(&mut []);
        let returns = self.returns.get_mut(..now.returns).unwrap_or(&mut []);
        let items = self.items.get_mut(..now.count).unwrap_or(&mut []);
        nodes.iter_mut().for_each(|node| node.note = 0);
        returns.iter_mut().for_each(|place| place.note = 0);
        nodes.iter_mut().take(1).for_each(|text| text.note = 1);
        for item in &*items {
            nodes.get_mut(item.node as usize).into_iter().for_each(|node| node.note = 1);
        }
        while spread(nodes, returns) {}
        // New indices. Node 0 stands for the text itself, and place 0 for no place.
        let (mut kept_nodes, mut kept_returns) = (0, 1);
        for node in nodes.iter_mut().filter(|node| node.note != 0) {
            node.note = kept_nodes;
            kept_nodes = kept_nodes.saturating_add(1);
        }
        for place in returns.iter_mut().skip(1).filter(|place| place.note != 0) {
            place.note = kept_returns;
            kept_returns = kept_returns.saturating_add(1);
        }
        let node_of = |nodes: &[Node], node: u32| nodes.get(node as usize).map_or(0, |node| node.note);
        items.iter_mut().for_each(|item| item.node = node_of(nodes, item.node));
        returns.iter_mut().for_each(|place| place.node = node_of(nodes, place.node));
        let place_of = |returns: &[Return], place: u32| returns.get(place as usize).map_or(0, |place| place.note);
        nodes.iter_mut().for_each(|node| node.returns = place_of(returns, node.returns));
        for index in 0..returns.len() {
            let next = returns.get(index).map_or(0, |place| place_of(returns, place.next));
            returns.get_mut(index).into_iter().for_each(|place| place.next = next);
        }
        for index in 1..nodes.len() {
            let Some(node) = nodes.get(index).copied().filter(|node| node.note != 0) else { continue };
            nodes.get_mut(node.note as usize).into_iter().for_each(|place| *place = node);
        }
        for index in 1..returns.len() {
            let Some(found) = returns.get(index).copied().filter(|found| found.note != 0) else { continue };
            returns.get_mut(found.note as usize).into_iter().for_each(|place| *place = found);
        }
        (now.nodes, now.returns) = (kept_nodes as usize, kept_returns as usize);
    }
}

/// Marks the places to which marked nodes return, and the nodes of these places. Returns whether a node was marked for
/// the first time.
fn spread(nodes: &mut [Node], returns: &mut [Return]) -> bool {
    let mut changed = false;
    for index in (0..nodes.len()).rev() {
        let Some(node) = nodes.get(index).filter(|node| node.note != 0) else { continue };
        let mut number = node.returns;
        while let Some(place) = returns.get_mut(number as usize).filter(|place| number != 0 && place.note == 0) {
            place.note = 1;
            if let Some(caller) = nodes.get_mut(place.node as usize).filter(|caller| caller.note == 0) {
                caller.note = 1;
                changed = true;
            }
            number = place.next;
        }
    }
    changed
}
