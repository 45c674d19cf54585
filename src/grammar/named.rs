//! Tokens that the grammar names by their ids, and those without bytes.

use super::code::{FREE, TOKEN};
use super::error::MatchError;
use super::mask::Walk;
use super::matcher::Matcher;
use super::step::Step;
use super::tables::{Frontier, Item, Saved};
use super::trie::{TokenTrie, clear, set, set_range};

/// The most that the frontiers behind tokens which the grammar names add to another frontier.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Named {
    items: usize,
    nodes: usize,
    returns: usize,
}

impl Matcher<'_, '_> {
    /// Returns how much the tokens that the grammar names here can add to the frontier behind their bytes. `None`: it
    /// names none.
    pub(super) fn most_named(&mut self) -> Option<Named> {
        let nothing = self.nothing();
        if !(0..self.now.count).any(|index| self.name(index).is_some()) {
            return None;
        }
        let behind = self.behind_named(nothing, |_, _| true);
        Some(behind.map_or(Named { items: usize::MAX, ..Named::default() }, |behind| Named {
            items: behind.count,
            nodes: behind.nodes.saturating_sub(nothing.nodes),
            returns: behind.returns.saturating_sub(nothing.returns),
        }))
    }

    /// Checks that a token, and all tokens with the same bytes, exceed no limit where they are read both by their names
    /// and by their bytes. `read` is the frontier behind the bytes.
    pub(super) fn check_named(
        &mut self,
        trie: &TokenTrie<'_>,
        token: u32,
        read: Saved,
        most: Named,
    ) -> Result<(), MatchError> {
        let limit = self.limits.nodes;
        let fits = |used: u32, more: usize, limit: usize| (used as usize).saturating_add(more) <= limit;
        let has_nodes = fits(read.nodes, most.nodes, limit) && fits(read.returns, most.returns, limit);
        if has_nodes && fits(read.count, most.items, self.limits.items) {
            return Ok(());
        }
        // The number of nodes that the bytes have made is exact only in a walk that notes no frontiers. This error
        // begins such a walk.
        if !has_nodes && !self.tables.seen.is_stopped() {
            return Err(MatchError::TooDeep { limit });
        }
        let read = self.for_next(read);
        self.named(token, read)?;
        trie.alike().iter().filter(|[first, _]| *first == token).try_for_each(|&[_, id]| self.named(id, read).map(drop))
    }

    /// Adds to a mask the tokens that no walk finds: tokens with the bytes of others, tokens that the grammar names,
    /// and tokens without bytes.
    pub(super) fn complete(
        &mut self,
        trie: &TokenTrie<'_>,
        most: Option<u32>,
        mask: &mut [u32],
    ) -> Result<(), MatchError> {
        for &[token, other] in trie.alike() {
            let is_allowed = mask.get(token as usize / 32).is_some_and(|word| word >> (token % 32) & 1 == 1);
            if is_allowed { set(mask, other) } else { clear(mask, other) }
        }
        let tokens = trie.tokens();
        for index in 0..self.now.count {
            let Some((id, _)) = self.name(index).filter(|(id, _)| *id < tokens) else { continue };
            if self.follows(id, most)? == Some(true) {
                set(mask, id);
            }
        }
        if !(0..self.now.count).any(|index| self.name(index).is_some_and(|(_, is_other)| is_other)) {
            return Ok(());
        }
        // All tokens that are not named are alike.
        let other = (0..tokens).find(|id| !self.is_named(*id));
        if let Some(mut begin) = other
            && self.follows(begin, most)? == Some(true)
        {
            while begin < tokens {
                let named = self.named_from(begin).unwrap_or(tokens).min(tokens);
                set_range(mask, begin, named);
                begin = named.saturating_add(1);
            }
        }
        Ok(())
    }

    /// Clears the tokens that the grammar names if the text cannot end in time behind them. For a named token without
    /// bytes nothing else counts. For one with bytes the walk decides.
    pub(super) fn clear_late(
        &mut self,
        trie: &TokenTrie<'_>,
        most: Option<u32>,
        mask: &mut [u32],
    ) -> Result<(), MatchError> {
        for index in 0..self.now.count {
            let Some((id, _)) = self.name(index).filter(|(id, _)| *id < trie.tokens()) else { continue };
            if self.follows(id, most)? == Some(false) {
                clear(mask, id);
            }
        }
        Ok(())
    }

    /// Returns whether any token without bytes may stand here, and the text can then end in time.
    pub(super) fn allows_silent(&mut self, trie: &TokenTrie<'_>, most: Option<u32>) -> Result<bool, MatchError> {
        let is_open = (0..self.now.count).any(|index| self.is_open(self.item(self.now, index)));
        if !is_open || !trie.has_silent() {
            return Ok(false);
        }
        let behind = self.behind_silent()?;
        Ok(most.is_none_or(|most| self.bytes_left(Saved::new(behind)) <= most))
    }

    /// Returns a frontier without items, to which items are added.
    pub(super) fn nothing(&self) -> Frontier {
        Frontier { start: self.now.count, count: 0, accepting: false, ..self.now }
    }

    /// Returns the frontier behind a token without bytes: one that the grammar names, or any where the text is free.
    pub(super) fn without_bytes(&mut self, id: u32) -> Result<Frontier, MatchError> {
        let named = self.named(id, self.nothing())?;
        if is_dead(named) { self.behind_silent() } else { Ok(named) }
    }

    /// Adds the frontier behind a token that the grammar names to `beside`, the frontier behind its bytes.
    pub(super) fn named(&mut self, id: u32, beside: Frontier) -> Result<Frontier, MatchError> {
        self.behind_named(beside, |named, is_other| (named == id) != is_other)
    }

    /// Returns whether the text can end in time behind a token. `None`: the grammar does not allow the token by its
    /// name.
    fn follows(&mut self, id: u32, most: Option<u32>) -> Result<Option<bool>, MatchError> {
        let behind = self.named(id, self.nothing())?;
        let in_time = || most.is_none_or(|most| self.bytes_left(Saved::new(behind)) <= most);
        Ok((!is_dead(behind)).then(in_time))
    }

    /// Adds the frontiers behind tokens that the grammar names to `beside`. `is_wanted` chooses them by the id, and by
    /// whether any token but that one is meant.
    fn behind_named(
        &mut self,
        beside: Frontier,
        is_wanted: impl Fn(u32, bool) -> bool,
    ) -> Result<Frontier, MatchError> {
        self.walk = Walk::default();
        let mut step = Step::beside(self, self.now, beside);
        for index in 0..step.matcher.now.count {
            if step.matcher.name(index).is_some_and(|(id, is_other)| is_wanted(id, is_other)) {
                let item = step.matcher.item(step.matcher.now, index);
                let then = step.matcher.grammar.word(item.code.wrapping_add(2));
                step.reach(then, item.count, item.node, 0)?;
                step.close()?;
            }
        }
        Ok(step.next)
    }

    /// Returns the frontier behind a token without bytes that the grammar does not name.
    fn behind_silent(&mut self) -> Result<Frontier, MatchError> {
        self.walk = Walk::default();
        let nothing = self.nothing();
        let mut step = Step::beside(self, self.now, nothing);
        for index in 0..step.matcher.now.count {
            let item = step.matcher.item(step.matcher.now, index);
            if step.matcher.is_open(item) {
                let state = step.matcher.grammar.word(item.code.wrapping_add(4));
                step.enter(Item { state, ..item })?;
            }
        }
        Ok(step.next)
    }

    /// Returns the id of the token that an item names, and whether any token but that one is meant.
    fn name(&self, index: usize) -> Option<(u32, bool)> {
        let code = self.item(self.now, index).code;
        let word = self.grammar.word(code);
        (word & 0xFF == TOKEN).then(|| (self.grammar.word(code.wrapping_add(1)), word >> 8 != 0))
    }

    fn is_named(&self, id: u32) -> bool {
        (0..self.now.count).any(|index| self.name(index).is_some_and(|(named, _)| named == id))
    }

    /// Returns the first named token from this id on.
    fn named_from(&self, begin: u32) -> Option<u32> {
        (0..self.now.count).filter_map(|index| Some(self.name(index)?.0)).filter(|id| *id >= begin).min()
    }

    /// Returns whether any token without bytes may stand where an item is.
    fn is_open(&self, item: Item) -> bool {
        self.grammar.word(item.code) == FREE | 1 << 8
    }
}

/// Returns whether a frontier is dead: no text of the language begins with what was read.
pub(super) fn is_dead(frontier: Frontier) -> bool {
    frontier.count == 0 && !frontier.accepting
}
