//! Tokens that the grammar names by their ids, and those without bytes.

use super::code::{FREE, TOKEN};
use super::error::MatchError;
use super::mask::Walk;
use super::matcher::Matcher;
use super::step::Step;
use super::tables::{Frontier, Item, Saved};
use super::trie::{TokenTrie, clear, set, set_range};

/// How much what is behind tokens that the grammar names adds to a frontier at most.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Named {
    items: usize,
    nodes: usize,
    returns: usize,
}

impl Matcher<'_, '_> {
    /// Returns how much tokens that the grammar names here can add to what is behind their bytes. `None`: it names
    /// none.
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

    /// Checks that a token, and those with the same bytes, do not exceed a limit where they are read both by their
    /// names and by their bytes, which lead to `read`.
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
        // How many nodes the bytes have made is known where nothing else is.
        if !has_nodes && !self.tables.seen.is_stopped() {
            return Err(MatchError::TooDeep { limit });
        }
        let read = self.for_next(read);
        self.named(token, read)?;
        trie.alike().iter().filter(|[first, _]| *first == token).try_for_each(|&[_, id]| self.named(id, read).map(drop))
    }

    /// Adds to a mask what no walk finds: tokens with the bytes of others, those that the grammar names, and those
    /// without bytes.
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

    /// Clears the tokens that the grammar names if the text cannot end in time behind them: where a token without bytes
    /// is named, nothing else counts. Of one with bytes the walk decides.
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

    /// Whether any token without bytes may stand here, and the text can then end in time.
    pub(super) fn allows_silent(&mut self, trie: &TokenTrie<'_>, most: Option<u32>) -> Result<bool, MatchError> {
        let is_open = (0..self.now.count).any(|index| self.is_open(self.item(self.now, index)));
        if !is_open || !trie.has_silent() {
            return Ok(false);
        }
        let behind = self.behind_silent()?;
        Ok(most.is_none_or(|most| self.bytes_left(Saved::new(behind)) <= most))
    }

    /// The frontier behind no text that is read.
    pub(super) fn nothing(&self) -> Frontier {
        Frontier { start: self.now.count, count: 0, accepting: false, ..self.now }
    }

    /// The frontier behind a token without bytes: one that the grammar names, or any where the text is free.
    pub(super) fn without_bytes(&mut self, id: u32) -> Result<Frontier, MatchError> {
        let named = self.named(id, self.nothing())?;
        if is_dead(named) { self.behind_silent() } else { Ok(named) }
    }

    /// Adds what is behind a token that the grammar names to what is behind its bytes.
    pub(super) fn named(&mut self, id: u32, beside: Frontier) -> Result<Frontier, MatchError> {
        self.behind_named(beside, |named, is_other| (named == id) != is_other)
    }

    /// Whether the grammar allows a token by its name, and if so, whether the text can then end in time.
    fn follows(&mut self, id: u32, most: Option<u32>) -> Result<Option<bool>, MatchError> {
        let behind = self.named(id, self.nothing())?;
        let in_time = || most.is_none_or(|most| self.bytes_left(Saved::new(behind)) <= most);
        Ok((!is_dead(behind)).then(in_time))
    }

    /// Adds what is behind the tokens that the grammar names, and that are wanted: by the id, and whether it means any
    /// but that.
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

    /// The frontier behind a token without bytes that the grammar does not name.
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

    /// Returns the token that an item names, and whether it means any but that.
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

    /// Whether any token without bytes may stand where an item is.
    fn is_open(&self, item: Item) -> bool {
        self.grammar.word(item.code) == FREE | 1 << 8
    }
}

/// Whether no text of the language begins so.
pub(super) fn is_dead(frontier: Frontier) -> bool {
    frontier.count == 0 && !frontier.accepting
}
