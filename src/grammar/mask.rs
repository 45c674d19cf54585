//! Which tokens may follow a text: a walk over the tokens by their bytes.

use super::code::{COUNTED, TEXT, TOKEN};
use super::codec::RAW;
use super::compiled::Move;
use super::dfa::QUOTE;
use super::error::MatchError;
use super::matcher::Matcher;
use super::memo::{Known, Memos};
use super::tables::{Item, Saved};
use super::trie::{Part, TokenTrie, set};

/// Nodes of a unit.
const UNIT: usize = 4096;

/// Where a mask in the making is.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Walk {
    /// The next node.
    node: usize,
    /// Whether the mask was begun.
    begun: bool,
    /// Plain tokens are left out where it is known which of them are allowed.
    part: Part,
    /// The number of the last memo.
    memo: u32,
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
    /// [`MatchError::Mask`] if the mask has another length than [`TokenTrie::mask_len`]; a limit is exceeded. Then the next
    /// call begins anew.
    pub fn mask(&mut self, trie: &TokenTrie<'_>, units: usize, mask: &mut [u32]) -> Result<bool, MatchError> {
        let needed = trie.mask_len();
        if mask.len() != needed {
            return Err(MatchError::Mask { needed, given: mask.len() });
        }
        let walk = core::mem::take(&mut self.walk);
        let mut walk = if walk.begun { walk } else { self.begin(trie, mask) };
        let end = walk.node.saturating_add(units.max(1).saturating_mul(UNIT));
        let nodes = trie.nodes(walk.part);
        let mut memos = Memos::new(walk.memo);
        while let Some(node) = nodes.get(walk.node).filter(|_| walk.node < end) {
            let depth = node.depth();
            let Some(&from) = self.tables.walk.get(depth.wrapping_sub(1)) else { break };
            let next = match memos.known(from.memo, node.byte()) {
                Known::Loops => Some(from),
                Known::Dead => None,
                Known::Counts(most) => self.counted(from, most),
                Known::Nothing => self.behind(depth, node.byte(), &mut memos)?,
            };
            match next {
                None => walk.node += node.nodes().max(1) as usize,
                Some(next) => {
                    self.tables.walk.get_mut(depth).into_iter().for_each(|place| *place = next);
                    trie.allow(walk.part, *node, mask);
                    walk.node += 1;
                }
            }
        }
        walk.memo = memos.last();
        if walk.node < nodes.len() {
            self.walk = walk;
            return Ok(false);
        }
        for &[token, other] in trie.alike() {
            let is_allowed = mask.get(token as usize / 32).is_some_and(|word| word >> (token % 32) & 1 == 1);
            if is_allowed {
                set(mask, other);
            }
        }
        self.allow_named(trie.tokens(), mask);
        Ok(true)
    }

    fn begin(&mut self, trie: &TokenTrie<'_>, mask: &mut [u32]) -> Walk {
        self.tables.walk.iter_mut().take(1).for_each(|place| *place = Saved::new(self.now));
        let of_items = || (0..self.now.count).map(|index| self.plain_chars(self.item(self.now, index)));
        // Where one item does not know, longer tokens can be allowed by it.
        let known = of_items().all(|chars| chars > 0);
        let chars = of_items().max().filter(|&chars| known || chars == u32::MAX).unwrap_or(0);
        let only = if self.now.count == 1 { self.string(self.item(self.now, 0), trie) } else { None };
        let part = match (only, chars) {
            (Some(codec), _) => Part::Closing(codec),
            (None, 0) => Part::All,
            (None, _) => Part::Rest,
        };
        match part {
            Part::Closing(codec) => trie.allow_within(codec, mask),
            Part::All | Part::Rest => trie.allow_plain(chars, mask),
        }
        Walk { begun: true, part, ..Walk::default() }
    }

    /// Returns the codec of the string that an item is in, if any characters lead to where it is and no token can bring it to
    /// one of its bounds.
    fn string(&self, item: Item, trie: &TokenTrie<'_>) -> Option<u32> {
        let word = self.grammar.word(item.code);
        let is_far = match word & 0xFF {
            TEXT => true,
            COUNTED => {
                let min = self.grammar.word(item.code.wrapping_add(3));
                item.count >= min && self.most(item).saturating_sub(item.count) >= trie.longest()
            }
            _ => false,
        };
        let codec = word >> 8;
        let is_free = || codec != RAW && item.partial == 0 && self.grammar.takes_all(codec, item.state);
        (is_far && is_free()).then_some(codec)
    }

    /// Returns up to how many characters a plain token can always have in the text that an item is in. 0: that is not known,
    /// and others may be allowed, too.
    fn plain_chars(&self, item: Item) -> u32 {
        match self.grammar.word(item.code) & 0xFF {
            TEXT if item.partial == 0 && self.grammar.is_plain(item.state) => u32::MAX,
            COUNTED if item.partial == 0 && self.grammar.stays(item.state) => {
                self.most(item).saturating_sub(item.count)
            }
            _ => 0,
        }
    }

    /// Returns how many characters a counted text can have so that it can end from this state.
    fn most(&self, item: Item) -> u32 {
        let max = self.grammar.word(item.code.wrapping_add(4));
        max.saturating_sub(self.grammar.highest(item.state) & 0xFFFF)
    }

    /// Returns the frontier behind a character of a counted text that leads to the same state.
    fn counted(&mut self, from: Saved, most: u32) -> Option<Saved> {
        let item = self.item(from.frontier(), 0);
        let next = Item { count: item.count.saturating_add(1), ..item };
        (item.count < most).then(|| Saved { memo: from.memo, ..self.put(from, next) })
    }

    /// Returns the frontier of one item that lies behind another one.
    #[inline]
    fn put(&mut self, from: Saved, item: Item) -> Saved {
        let start = from.start.wrapping_add(from.count);
        self.tables.items.get_mut(start as usize).into_iter().for_each(|place| *place = item);
        Saved { start, memo: 0, ..from }
    }

    /// Returns the frontier behind the byte with which a token goes on at this depth, if it is allowed.
    fn behind(&mut self, depth: usize, byte: u8, memos: &mut Memos) -> Result<Option<Saved>, MatchError> {
        let Some(&from) = self.tables.walk.get(depth.wrapping_sub(1)) else { return Ok(None) };
        // Most bytes are in one text and do not end it.
        if from.count == 1 {
            let item = self.item(from.frontier(), 0);
            match self.advanced(item, byte) {
                Move::Dead => {
                    // In a counted text that depends on the count, too.
                    if self.grammar.word(item.code) & 0xFF != COUNTED {
                        memos.add_dead(from.memo, byte);
                    }
                    return Ok(None);
                }
                Move::Within(partial) => return Ok(Some(self.put(from, Item { partial, ..item }))),
                Move::To(char, state) if self.grammar.accept(state) == 0 && self.grammar.goes_on(state) => {
                    let is_counted = self.grammar.word(item.code) & 0xFF == COUNTED && char != QUOTE;
                    let count = item.count.saturating_add(u32::from(is_counted));
                    if state != item.state || item.partial != 0 {
                        return Ok(Some(self.put(from, Item { state, partial: 0, count, ..item })));
                    }
                    let memo = memos.add_loop(from.memo, byte, is_counted.then(|| self.most(item)));
                    let from = self.remember(depth, memo).unwrap_or(from);
                    return Ok(Some(if is_counted {
                        Saved { memo, ..self.put(from, Item { count, ..item }) }
                    } else {
                        from
                    }));
                }
                Move::To(..) => {}
            }
        }
        let next = self.step(from.frontier(), byte)?;
        if next.count == 0 && !next.accepting {
            memos.add_dead(from.memo, byte);
            return Ok(None);
        }
        if self.is_same(from, Saved::new(next)) {
            let memo = memos.add_loop(from.memo, byte, None);
            return Ok(self.remember(depth, memo));
        }
        Ok(Some(Saved::new(next)))
    }

    /// Gives the frontier before this depth a memo.
    fn remember(&mut self, depth: usize, memo: u32) -> Option<Saved> {
        let from = self.tables.walk.get_mut(depth.wrapping_sub(1))?;
        from.memo = memo;
        Some(*from)
    }

    /// Whether two frontiers are the same in all but their places.
    fn is_same(&self, one: Saved, other: Saved) -> bool {
        let items = |from: Saved| {
            let start = from.start as usize;
            self.tables.items.get(start..start.saturating_add(from.count as usize))
        };
        Saved { start: 0, memo: 0, ..one } == Saved { start: 0, memo: 0, ..other } && items(one) == items(other)
    }

    /// Allows the tokens that the grammar names by their ids.
    fn allow_named(&self, tokens: u32, mask: &mut [u32]) {
        for index in 0..self.now.count {
            let code = self.item(self.now, index).code;
            let (word, named) = (self.grammar.word(code), self.grammar.word(code.wrapping_add(1)));
            match (word & 0xFF, word >> 8) {
                (TOKEN, 0) if named < tokens => set(mask, named),
                (TOKEN, 1..) => (0..tokens).filter(|&id| id != named).for_each(|id| set(mask, id)),
                _ => {}
            }
        }
    }
}
