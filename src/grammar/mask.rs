//! Which tokens may follow a text: a walk over the tokens by their bytes.

use super::code::{TEXT, TOKEN};
use super::compiled::Move;
use super::error::MatchError;
use super::matcher::Matcher;
use super::tables::{Frontier, Item, Saved};
use super::trie::TokenTrie;

/// Nodes of a unit.
const UNIT: usize = 4096;

/// Where a mask in the making is.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Walk {
    /// The next node.
    node: usize,
    /// Whether the mask was begun.
    begun: bool,
    /// Whether plain tokens are allowed and left out of the walk.
    plain: bool,
}

impl Matcher<'_, '_> {
    /// Goes on with the mask of the tokens that may follow, for at most so many units of 4,096 nodes of the trie. Returns
    /// whether it is finished: then bit `id % 32` of element `id / 32` says whether the token may follow. Tokens that end a
    /// text are not among them: [`Matcher::may_end`] says whether they may follow.
    ///
    /// The next call begins a new mask, and so does the first one after a byte or token was taken. `mask` stays the same
    /// until it is finished.
    ///
    /// # Errors
    /// [`MatchError::Mask`] if the mask has another length than [`TokenTrie::mask_len`]; [`MatchError::NoToken`] if the text must
    /// go on, and no token does; a limit is exceeded. Then the next call begins anew.
    pub fn mask(&mut self, trie: &TokenTrie<'_>, units: usize, mask: &mut [u32]) -> Result<bool, MatchError> {
        let needed = trie.mask_len();
        if mask.len() != needed {
            return Err(MatchError::Mask { needed, given: mask.len() });
        }
        let walk = core::mem::take(&mut self.walk);
        let mut walk = if walk.begun { walk } else { self.begin(trie, mask) };
        let end = walk.node.saturating_add(units.max(1).saturating_mul(UNIT));
        let nodes = trie.nodes(walk.plain);
        while let Some(node) = nodes.get(walk.node).filter(|_| walk.node < end) {
            let Some(&from) = self.tables.walk.get(node.depth().wrapping_sub(1)) else { break };
            match self.behind(from.frontier(), node.byte())? {
                None => walk.node += node.nodes().max(1) as usize,
                Some(next) => {
                    self.tables.walk.get_mut(node.depth()).into_iter().for_each(|place| *place = Saved::new(next));
                    node.token().into_iter().for_each(|id| allow(mask, id));
                    walk.node += 1;
                }
            }
        }
        if walk.node < nodes.len() {
            self.walk = walk;
            return Ok(false);
        }
        for &[token, other] in trie.alike() {
            let is_allowed = mask.get(token as usize / 32).is_some_and(|word| word >> (token % 32) & 1 == 1);
            if is_allowed {
                allow(mask, other);
            }
        }
        self.allow_named(trie.tokens(), mask);
        if self.may_end() || mask.iter().any(|word| *word != 0) {
            return Ok(true);
        }
        let next = self.next_bytes();
        let byte =
            (0..=255_u8).find(|byte| next.get(usize::from(byte / 64)).is_some_and(|word| word >> (byte % 64) & 1 == 1));
        Err(MatchError::NoToken { byte })
    }

    fn begin(&mut self, trie: &TokenTrie<'_>, mask: &mut [u32]) -> Walk {
        self.tables.walk.iter_mut().take(1).for_each(|place| *place = Saved::new(self.now));
        let plain = (0..self.now.count).any(|index| self.takes_plain(self.item(self.now, index)));
        for (word, &bits) in mask.iter_mut().zip(trie.plain()) {
            *word = if plain { bits } else { 0 };
        }
        Walk { node: 0, begun: true, plain }
    }

    /// Whether no plain token can end the text that an item is in.
    fn takes_plain(&self, item: Item) -> bool {
        self.grammar.word(item.code) & 0xFF == TEXT && item.partial == 0 && self.grammar.is_plain(item.state)
    }

    /// The frontier behind a byte, if it is allowed.
    #[inline]
    fn behind(&mut self, from: Frontier, byte: u8) -> Result<Option<Frontier>, MatchError> {
        // Most bytes are in one text and do not end it.
        if from.count == 1 {
            let item = self.item(from, 0);
            let next = match self.advanced(item, byte) {
                Move::Dead => return Ok(None),
                Move::Within(partial) => Some(Item { partial, ..item }),
                Move::To(_, state) => {
                    let goes_on = self.grammar.word(item.code) & 0xFF == TEXT
                        && self.grammar.accept(state) == 0
                        && self.grammar.goes_on(state);
                    goes_on.then_some(Item { state, partial: 0, ..item })
                }
            };
            let start = from.start + 1;
            if let (Some(next), Some(place)) = (next, self.tables.items.get_mut(start)) {
                *place = next;
                return Ok(Some(Frontier { start, ..from }));
            }
        }
        let next = self.step(from, byte)?;
        Ok((next.count > 0 || next.accepting).then_some(next))
    }

    /// Allows the tokens that the grammar names by their ids.
    fn allow_named(&self, tokens: u32, mask: &mut [u32]) {
        for index in 0..self.now.count {
            let code = self.item(self.now, index).code;
            let (word, named) = (self.grammar.word(code), self.grammar.word(code.wrapping_add(1)));
            match (word & 0xFF, word >> 8) {
                (TOKEN, 0) if named < tokens => allow(mask, named),
                (TOKEN, 1..) => (0..tokens).filter(|&id| id != named).for_each(|id| allow(mask, id)),
                _ => {}
            }
        }
    }
}

fn allow(mask: &mut [u32], id: u32) {
    if let Some(word) = mask.get_mut(id as usize / 32) {
        *word |= 1 << (id % 32);
    }
}
