//! Whole tokens: taken, and taken back.

use super::error::MatchError;
use super::mask::Walk;
use super::matcher::Matcher;
use super::named::is_dead;
use super::tables::{Frontier, Tables};
use super::trie::{MAX_BYTES, Vocabulary};
use crate::mem::Arena;

impl<'g> Matcher<'g, '_> {
    /// Takes a token: its bytes, or the token itself where the grammar names it. Returns whether the grammar allows it;
    /// if not, nothing changes. The state before it is kept for [`Matcher::rewind`].
    ///
    /// It takes a token exactly when the mask of [`Matcher::mask`] allows it. So it takes none of more than 512 bytes,
    /// unless the grammar names it.
    ///
    /// # Errors
    /// A limit is exceeded. Nothing has changed then. In this state [`Matcher::mask`] returns an error, too.
    pub fn accept(&mut self, vocabulary: &dyn Vocabulary, id: u32) -> Result<bool, MatchError> {
        if id >= vocabulary.tokens() {
            return Ok(false);
        }
        let mut length = 0_usize;
        vocabulary.each_byte(id, &mut |_| length = length.saturating_add(1));
        let mut read = Ok(if length > MAX_BYTES { self.nothing() } else { self.now });
        vocabulary.each_byte(id, &mut |byte| {
            read = read.and_then(|from| if is_dead(from) { Ok(from) } else { self.behind_byte(from, byte) });
        });
        let read = read?;
        // Nodes do not count that were made by bytes that lead nowhere.
        let read = if is_dead(read) { self.nothing() } else { read };
        let next = if length > 0 { self.named(id, read)? } else { self.without_bytes(id)? };
        if is_dead(next) {
            return Ok(false);
        }
        self.tables.note(self.now);
        self.commit(next);
        // A state is kept for each token: it should be small.
        self.tables.drop_nodes(&mut self.now);
        Ok(true)
    }

    /// Returns how many of the first of these tokens may follow by their bytes, one after the other. A token that would
    /// exceed a limit does not count, nor does one that only its name allows. The state does not change, but a mask in
    /// the making begins anew.
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

    /// Returns how many of the last accepted tokens can be taken back: as many as fit
    /// [`Limits::past`](super::Limits::past).
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

    /// Returns a copy of this matcher in other memory, as large as [`Matcher::plan`] says for the same limits. The used
    /// part of the tables and the states before the last tokens are copied.
    ///
    /// # Errors
    /// `memory` does not suit it.
    pub fn fork<'o>(&self, memory: &'o mut [u8]) -> Result<Matcher<'g, 'o>, MatchError> {
        let mut arena = Arena::new(memory).map_err(MatchError::Memory)?;
        let mut tables = Tables::carve(&mut arena, self.limits)?;
        tables.copy(&self.tables, self.now);
        Ok(Matcher { grammar: self.grammar, limits: self.limits, tables, now: self.now, walk: Walk::default() })
    }
}
