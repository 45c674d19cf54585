//! The state of one text under a grammar.
//!
//! A *frontier* is the set of all ways in which the text so far can be read: its *items*. An item is in an automaton,
//! and knows the *node* to return from. A node is a call of a rule at one place of the text, with all the places to
//! which the rule returns. So the readings of an ambiguous text share what comes behind the call.

use super::code::{COUNTED, FREE, NAME, TEXT, TOKEN};
use super::compile::Grammar;
use super::compiled::{Compiled, Move};
use super::dfa::QUOTE;
use super::error::MatchError;
use super::lengths::ENDLESS;
use super::mask::Walk;
use super::step::Step;
use super::tables::{Frontier, Item, Limits, Node, Tables};
use crate::mem::Arena;

/// The state of one text under a [`Grammar`]: which bytes may follow, and whether it may end.
///
/// [Example](crate::grammar#example).
#[derive(Debug)]
pub struct Matcher<'g, 'm> {
    pub(super) grammar: Compiled<'g>,
    pub(super) limits: Limits,
    pub(super) tables: Tables<'m>,
    pub(super) now: Frontier,
    /// The state of a mask in the making.
    pub(super) walk: Walk,
}

impl<'g, 'm> Matcher<'g, 'm> {
    /// Returns the number of bytes of memory that [`Matcher::new`] needs.
    ///
    /// # Errors
    /// [`MatchError::Memory`] if the limits are too large for this machine.
    pub fn plan(limits: Limits) -> Result<usize, MatchError> {
        let mut arena = Arena::measuring();
        Tables::carve(&mut arena, limits)?;
        Ok(arena.used())
    }

    /// Returns a matcher of an empty text. `memory` starts at a multiple of [`crate::mem::ALIGN`].
    ///
    /// # Errors
    /// `memory` does not suit [`Matcher::plan`], or the beginning of the grammar exceeds the limits.
    pub fn new(grammar: &Grammar<'g>, limits: Limits, memory: &'m mut [u8]) -> Result<Self, MatchError> {
        let mut arena = Arena::new(memory).map_err(MatchError::Memory)?;
        let tables = Tables::carve(&mut arena, limits)?;
        let mut matcher =
            Self { grammar: grammar.compiled(), limits, tables, now: Frontier::default(), walk: Walk::default() };
        matcher.reset()?;
        Ok(matcher)
    }

    /// Returns the limits with which the matcher was made.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Returns the identity of the grammar: a hash of its source, its options and what they were compiled to.
    pub fn identity(&self) -> u64 {
        self.grammar.identity()
    }

    /// Goes back to the empty text. The states before the last tokens are dropped.
    ///
    /// # Errors
    /// The beginning of the grammar exceeds the limits.
    pub fn reset(&mut self) -> Result<(), MatchError> {
        // Node 0 stands for the text itself, and place 0 for no place.
        self.tables.nodes.iter_mut().take(1).for_each(|text| *text = Node::default());
        let mut step = Step::new(self, Frontier { nodes: 1, returns: 1, ..Frontier::default() });
        let root = step.matcher.grammar.root();
        step.reach(root, 0, 0, 0)?;
        step.close()?;
        let next = step.next;
        self.commit(next);
        self.tables.past.clear();
        Ok(())
    }

    /// Returns whether the text may end here.
    pub fn may_end(&self) -> bool {
        self.now.accepting
    }

    /// Returns whether the text may end here and nothing may follow it.
    pub fn is_complete(&self) -> bool {
        self.now.count == 0
    }

    /// Returns whether the text is free here, as it is before and between the calls of
    /// [`Source::Tools`](super::Source::Tools). A program then needs no mask: it chooses any token and gives it to
    /// [`Matcher::accept`]. Only if [`Matcher::accept`] refuses the token, because the token begins a call and goes on
    /// wrongly, the program makes the mask and chooses again.
    pub fn is_free(&self) -> bool {
        (0..self.now.count).any(|index| self.grammar.word(self.item(self.now, index).code) & 0xFF == FREE)
    }

    /// Takes one byte. Returns whether the grammar allows it; if not, nothing changes.
    ///
    /// # Errors
    /// A limit is exceeded.
    pub fn take(&mut self, byte: u8) -> Result<bool, MatchError> {
        // A mask in the making has frontiers where this one will lie.
        self.walk = Walk::default();
        let next = self.step(self.now, byte)?;
        let taken = next.count > 0 || next.accepting;
        if taken {
            self.commit(next);
        }
        Ok(taken)
    }

    /// Takes the longest beginning of `text` that the grammar allows. Returns its number of bytes.
    ///
    /// # Errors
    /// A limit is exceeded. The bytes before have been taken.
    pub fn take_all(&mut self, text: &[u8]) -> Result<usize, MatchError> {
        for (taken, byte) in text.iter().enumerate() {
            if !self.take(*byte)? {
                return Ok(taken);
            }
        }
        Ok(text.len())
    }

    /// Returns which bytes may follow: bit `b % 64` of word `b / 64` for byte `b`.
    pub fn next_bytes(&self) -> [u64; 4] {
        self.bytes_behind(self.now)
    }

    /// Writes the bytes that have to follow into `out`, as long as only one byte may follow and the text may not end.
    /// Returns the number of bytes. The state does not change, but a mask in the making begins anew.
    ///
    /// # Errors
    /// A limit is exceeded.
    pub fn forced(&mut self, out: &mut [u8]) -> Result<usize, MatchError> {
        self.forced_behind(out).map(|(count, _)| count)
    }

    /// Does what [`Matcher::forced`] does, and returns the frontier behind these bytes, too.
    pub(super) fn forced_behind(&mut self, out: &mut [u8]) -> Result<(usize, Frontier), MatchError> {
        let mut now = self.now;
        for (index, place) in out.iter_mut().enumerate() {
            let mut bytes = (0..=255).filter(|byte| self.allows(now, *byte));
            let only = bytes.next().filter(|_| bytes.next().is_none() && !now.accepting && !self.wants_token(now));
            let Some(byte) = only else { return Ok((index, now)) };
            *place = byte;
            now = self.behind_byte(now, byte)?;
        }
        Ok((out.len(), now))
    }

    /// Returns which bytes may follow a frontier.
    pub(super) fn bytes_behind(&self, from: Frontier) -> [u64; 4] {
        let mut set = [0; 4];
        (0..=255).filter(|byte| self.allows(from, *byte)).for_each(|byte| insert(&mut set, byte));
        set
    }

    /// Returns the frontier behind a byte. It takes the place of `from`, unless `from` is the present frontier.
    pub(super) fn behind_byte(&mut self, from: Frontier, byte: u8) -> Result<Frontier, MatchError> {
        // A mask in the making has frontiers where this one will lie.
        self.walk = Walk::default();
        let next = self.step(from, byte)?;
        Ok(if from == self.now { next } else { self.moved(next, from.start) })
    }

    fn wants_token(&self, from: Frontier) -> bool {
        (0..from.count).any(|index| self.grammar.word(self.item(from, index).code) & 0xFF == TOKEN)
    }

    fn allows(&self, from: Frontier, byte: u8) -> bool {
        (0..from.count).any(|index| match self.advanced(self.item(from, index), byte) {
            Move::Dead => false,
            Move::Within(_) => true,
            Move::To(..) => true,
        })
    }

    #[inline]
    pub(super) fn item(&self, from: Frontier, index: usize) -> Item {
        self.tables.items.get(from.start.wrapping_add(index)).copied().unwrap_or_default()
    }

    #[inline]
    pub(super) fn advanced(&self, item: Item, byte: u8) -> Move {
        let word = self.grammar.word(item.code);
        let step =
            |admits: &dyn Fn(u32, u32) -> bool| self.grammar.step(word >> 8, item.state, item.partial, byte, admits);
        match word & 0xFF {
            TEXT => self.grammar.step(word >> 8, item.state, item.partial, byte, |_, _| true),
            // An edge is open if it leads to a name whose number is allowed.
            NAME => {
                let least = self.grammar.word(item.code.wrapping_add(3));
                step(&|_, target| self.grammar.highest(target) > least)
            }
            COUNTED => step(&|char, target| self.fits(item, char, target)),
            FREE => self.grammar.step_byte(item.state, byte),
            _ => Move::Dead,
        }
    }

    /// Returns whether a counted text can end within its bounds behind a character that leads to `target`.
    pub(super) fn fits(&self, item: Item, char: u32, target: u32) -> bool {
        let count = item.count.saturating_add(u32::from(char != QUOTE));
        let (min, max) = (self.grammar.word(item.code.wrapping_add(3)), self.grammar.word(item.code.wrapping_add(4)));
        let left = self.grammar.highest(target);
        let most = if left >> 16 == ENDLESS { u32::MAX } else { count.saturating_add(left >> 16) };
        count.saturating_add(left & 0xFFFF) <= max && most >= min
    }

    /// Returns the frontier behind a byte. It lies behind `from` in the table.
    pub(super) fn step(&mut self, from: Frontier, byte: u8) -> Result<Frontier, MatchError> {
        let mut step = Step::new(self, from);
        for index in 0..from.count {
            let item = step.matcher.item(from, index);
            match step.matcher.advanced(item, byte) {
                Move::Dead => {}
                Move::Within(partial) => step.keep(Item { partial, ..item })?,
                Move::To(char, state) => {
                    let is_counted = char != QUOTE && step.matcher.grammar.word(item.code) & 0xFF == COUNTED;
                    let count = item.count.saturating_add(u32::from(is_counted));
                    step.enter(Item { state, partial: 0, count, ..item })?;
                }
            }
        }
        Ok(step.next)
    }

    /// Makes `next` the present frontier. It lies behind the present one in the table.
    pub(super) fn commit(&mut self, next: Frontier) {
        self.walk = Walk::default();
        self.now = self.moved(next, 0);
        let most = self.limits.nodes / 4 * 3;
        if self.now.nodes > most || self.now.returns > most {
            self.tables.drop_nodes(&mut self.now);
        }
    }

    fn moved(&mut self, from: Frontier, start: usize) -> Frontier {
        for index in 0..from.count {
            let item = self.item(from, index);
            if let Some(place) = self.tables.items.get_mut(start.wrapping_add(index)) {
                *place = item;
            }
        }
        Frontier { start, ..from }
    }
}

/// Puts a byte into a set: bit `b % 64` of word `b / 64` for byte `b`.
pub(super) fn insert(set: &mut [u64; 4], byte: u8) {
    set.get_mut(usize::from(byte / 64)).into_iter().for_each(|word| *word |= 1 << (byte % 64));
}

/// Puts all bytes from `first` to `last` into a set of bytes (see [`insert`]). If `last` is less, there are none.
pub(super) fn insert_all(set: &mut [u64; 4], [first, last]: [u32; 2]) {
    let below = |count: u32| if count < 64 { (1 << count) - 1 } else { u64::MAX };
    for (word, begin) in set.iter_mut().zip([0, 64, 128, 192]) {
        *word |= below(last.saturating_add(1).saturating_sub(begin)) & !below(first.saturating_sub(begin));
    }
}

/// Returns whether a byte is in a set of bytes (see [`insert`]).
pub(super) fn contains(set: &[u64; 4], byte: u8) -> bool {
    set.get(usize::from(byte / 64)).is_some_and(|word| word >> (byte % 64) & 1 == 1)
}
