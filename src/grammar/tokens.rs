//! Whole tokens: taken, and taken back.

use super::code::{FREE, TOKEN};
use super::error::MatchError;
use super::mask::Walk;
use super::matcher::Matcher;
use super::step::Step;
use super::tables::{Frontier, Item, Tables};
use super::trie::{Vocabulary, set};
use crate::mem::Arena;

impl<'g> Matcher<'g, '_> {
    /// Takes a token: its bytes, or the token itself where the grammar names it. Returns whether the grammar allows it; if not,
    /// nothing changes. The state before it is kept for [`Matcher::rewind`].
    ///
    /// # Errors
    /// A limit is exceeded. Nothing has changed then.
    pub fn accept(&mut self, vocabulary: &dyn Vocabulary, id: u32) -> Result<bool, MatchError> {
        let (mut read, mut bytes) = (Ok(self.now), 0_usize);
        vocabulary.each_byte(id, &mut |byte| {
            bytes = bytes.saturating_add(1);
            read = read.and_then(|from| if is_dead(from) { Ok(from) } else { self.behind_byte(from, byte) });
        });
        let read = read?;
        let next = if bytes > 0 { self.named(id, read)? } else { self.without_bytes(id)? };
        if is_dead(next) {
            return Ok(false);
        }
        self.tables.note(self.now);
        self.commit(next);
        // A state is kept for each token: it should be small.
        self.tables.drop_nodes(&mut self.now);
        Ok(true)
    }

    /// Returns how many of these tokens may follow, one after the other, as their bytes. A token at which a limit would be
    /// exceeded is not among them, nor is one that the grammar names. The state does not change, but a mask in the making begins
    /// anew.
    pub fn allowed(&mut self, vocabulary: &dyn Vocabulary, ids: &[u32]) -> usize {
        let mut now = self.now;
        let is_allowed = |id: &&u32| {
            let (mut read, mut bytes) = (Ok(now), 0_usize);
            vocabulary.each_byte(**id, &mut |byte| {
                bytes = bytes.saturating_add(1);
                read = read.and_then(|from| if is_dead(from) { Ok(from) } else { self.behind_byte(from, byte) });
            });
            now = read.unwrap_or(Frontier { count: 0, accepting: false, ..now });
            bytes > 0 && !is_dead(now)
        };
        ids.iter().take_while(is_allowed).count()
    }

    /// Takes a token that the grammar names by its id. Returns whether the grammar allows it; if not, nothing changes.
    ///
    /// # Errors
    /// A limit is exceeded.
    pub fn take_token(&mut self, id: u32) -> Result<bool, MatchError> {
        let next = self.without_bytes(id)?;
        if is_dead(next) {
            return Ok(false);
        }
        self.commit(next);
        Ok(true)
    }

    /// Returns how many of the last accepted tokens can be taken back: as many as fit [`Limits::past`](super::Limits::past).
    pub fn rewindable(&self) -> usize {
        self.tables.past.tokens()
    }

    /// Takes the last `tokens` tokens back that [`Matcher::accept`] has taken, with all bytes taken since.
    ///
    /// # Errors
    /// [`MatchError::NotKept`] if these are more than [`Matcher::rewindable`]. Nothing has changed then.
    pub fn rewind(&mut self, tokens: usize) -> Result<(), MatchError> {
        if tokens == 0 {
            return Ok(());
        }
        let error = MatchError::NotKept { given: tokens, kept: self.rewindable() };
        self.now = self.tables.back(tokens).ok_or(error)?;
        self.walk = Walk::default();
        Ok(())
    }

    /// Returns a copy of this matcher in other memory, as large as [`Matcher::plan`] says for the same limits. What is copied is the
    /// used part of the tables, and the states before the last tokens.
    ///
    /// # Errors
    /// `memory` does not suit it.
    pub fn fork<'o>(&self, memory: &'o mut [u8]) -> Result<Matcher<'g, 'o>, MatchError> {
        let mut arena = Arena::new(memory).map_err(MatchError::Memory)?;
        let mut tables = Tables::carve(&mut arena, self.limits)?;
        tables.copy(&self.tables, self.now);
        Ok(Matcher { grammar: self.grammar, limits: self.limits, tables, now: self.now, walk: Walk::default() })
    }

    /// The frontier behind no text that is read.
    fn nothing(&self) -> Frontier {
        Frontier { start: self.now.count, count: 0, accepting: false, ..self.now }
    }

    /// The frontier behind a token without bytes: one that the grammar names, or any where the text is free.
    fn without_bytes(&mut self, id: u32) -> Result<Frontier, MatchError> {
        let named = self.named(id, self.nothing())?;
        if !is_dead(named) {
            return Ok(named);
        }
        let mut step = Step::beside(self, self.now, named);
        for index in 0..step.matcher.now.count {
            let item = step.matcher.item(step.matcher.now, index);
            if step.matcher.is_open(item) {
                let state = step.matcher.grammar.word(item.code.wrapping_add(4));
                step.enter(Item { state, ..item })?;
            }
        }
        Ok(step.next)
    }

    /// Allows the tokens that the grammar names by their ids.
    pub(super) fn allow_named(&self, tokens: u32, most: Option<u32>, mask: &mut [u32]) {
        let is_in_time = |item| most.is_none_or(|most| self.rest_behind_token(item) <= most);
        for item in (0..self.now.count).map(|index| self.item(self.now, index)).filter(|item| is_in_time(*item)) {
            let code = item.code;
            let (word, named) = (self.grammar.word(code), self.grammar.word(code.wrapping_add(1)));
            match (word & 0xFF, word >> 8) {
                (TOKEN, 0) if named < tokens => set(mask, named),
                (TOKEN, 1..) => (0..tokens).filter(|&id| id != named).for_each(|id| set(mask, id)),
                _ => {}
            }
        }
    }

    /// Whether any token without bytes may stand where an item is.
    pub(super) fn is_open(&self, item: Item) -> bool {
        self.grammar.word(item.code) == FREE | 1 << 8
    }

    /// Adds what is behind a token that the grammar names to what is behind its bytes.
    fn named(&mut self, id: u32, beside: Frontier) -> Result<Frontier, MatchError> {
        self.walk = Walk::default();
        let mut step = Step::beside(self, self.now, beside);
        for index in 0..step.matcher.now.count {
            let item = step.matcher.item(step.matcher.now, index);
            let word = step.matcher.grammar.word(item.code);
            let named = step.matcher.grammar.word(item.code.wrapping_add(1));
            if word & 0xFF == TOKEN && (named == id) == (word >> 8 == 0) {
                let then = step.matcher.grammar.word(item.code.wrapping_add(2));
                step.reach(then, item.count, item.node, 0)?;
                step.close()?;
            }
        }
        Ok(step.next)
    }
}

/// Whether no text of the language begins so.
fn is_dead(frontier: Frontier) -> bool {
    frontier.count == 0 && !frontier.accepting
}
