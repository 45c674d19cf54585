//! Which tokens may follow a text: a walk over the tokens by their bytes.

use super::code::{COUNTED, FREE};
use super::codec::chars;
use super::compiled::Move;
use super::dfa::QUOTE;
use super::error::MatchError;
use super::matcher::{Matcher, contains};
use super::named::Named;
use super::seen::Known;
use super::tables::{Frontier, Item, Saved};
use super::trie::{Part, TokenTrie, clear};

/// Number of nodes of a unit.
const UNIT: usize = 4096;

/// The state of a mask in the making.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Walk {
    /// The next node.
    pub(super) node: usize,
    /// Whether the mask was begun.
    pub(super) begun: bool,
    /// Number of tokens within which the text is to end, if there is a limit.
    pub(super) within: Option<usize>,
    /// The most bytes to the end that may be left behind a token. `None`: any number.
    pub(super) most: Option<u32>,
    /// The tokens of the present part of the walk. Plain tokens are left out where it is known which of them are
    /// allowed.
    pub(super) part: Part,
    /// A string of any characters that the text can become, and the tokens of the second part of the walk. Tokens that
    /// bring the text to this string are allowed as they are in it. The second part decides about all others.
    pub(super) free: Option<(Item, Part)>,
    /// Whether the mask begins with all tokens, and the walk clears those that may not follow.
    pub(super) clears: bool,
    /// How much the tokens that the grammar names add to a frontier. `None`: it names none here.
    pub(super) named: Option<Named>,
    /// The bytes with which tokens can begin. Tokens that begin with other bytes are not looked at. `None`: all tokens
    /// are.
    pub(super) first: Option<[u64; 4]>,
}

impl Walk {
    /// Returns the string of any characters, in the second part of the walk only.
    fn free(&self) -> Option<Item> {
        self.free.filter(|(_, part)| self.part == *part).map(|(item, _)| item)
    }
}

impl Matcher<'_, '_> {
    /// Goes on with the mask of the tokens that may follow, for at most `units` units of 4,096 nodes of the trie.
    /// Returns whether the mask is finished. Then bit `id % 32` of element `id / 32` says whether token `id` may
    /// follow. Tokens that end a text are not in the mask: [`Matcher::may_end`] says whether they may follow.
    ///
    /// The call after a finished mask begins a new one, and so does the first call after a byte or token was taken. The
    /// host passes the same `mask` until it is finished.
    ///
    /// # Errors
    /// [`MatchError::Mask`] if the mask has another length than [`TokenTrie::mask_len`]; [`MatchError::NoToken`] if the
    /// text must go on, and no token does; [`MatchError::TooDeep`] or [`MatchError::TooAmbiguous`] if a token exceeds a
    /// limit, or if the bytes of one token together are read in more than 512 ways beyond three times
    /// [`Limits::items`](super::Limits::items). Then the next call begins anew.
    pub fn mask(&mut self, trie: &TokenTrie<'_>, units: usize, mask: &mut [u32]) -> Result<bool, MatchError> {
        self.make_mask(trie, None, units, mask)
    }

    /// Does what [`Matcher::mask`] does, but for a text that is to end within `tokens` more tokens. The next token
    /// counts, and tokens that end a text do not. A token is allowed if the shortest end behind it has no more bytes
    /// than tokens are left. So the text ends in time if there is a token for each byte. Where it is too late for that,
    /// the tokens are allowed that bring the text nearer to its end or, if there are none, all that the grammar allows.
    ///
    /// While the end is far, the mask is that of [`Matcher::mask`]. Near the end the walk is over all tokens, so it
    /// takes longer.
    ///
    /// # Errors
    /// As [`Matcher::mask`]; [`MatchError::NoEnds`] if the grammar was compiled without
    /// [`Options::close`](super::Options::close).
    pub fn mask_within(
        &mut self,
        trie: &TokenTrie<'_>,
        tokens: usize,
        units: usize,
        mask: &mut [u32],
    ) -> Result<bool, MatchError> {
        self.make_mask(trie, Some(tokens), units, mask)
    }

    fn make_mask(
        &mut self,
        trie: &TokenTrie<'_>,
        within: Option<usize>,
        units: usize,
        mask: &mut [u32],
    ) -> Result<bool, MatchError> {
        let needed = trie.mask_len();
        if mask.len() != needed {
            return Err(MatchError::Mask { needed, given: mask.len() });
        }
        let mut walk = core::mem::take(&mut self.walk);
        if !walk.begun || walk.within != within {
            let most = within.map_or(Ok(None), |tokens| self.bytes_within(tokens))?;
            walk = Walk { within, ..self.begin(trie, most, mask)? };
        }
        let mut left = units.max(1).saturating_mul(UNIT);
        loop {
            match self.finish(trie, &mut walk, &mut left, mask) {
                Ok(true) => {
                    self.complete(trie, walk.most, mask)?;
                    if self.may_end() || mask.iter().any(|word| *word != 0) {
                        return Ok(true);
                    }
                    // No token brings the text nearer to its end.
                    if walk.most.is_none() {
                        let next = self.next_bytes();
                        return Err(MatchError::NoToken { byte: (0..=255).find(|byte| contains(&next, *byte)) });
                    }
                    walk = Walk { within, ..self.begin(trie, None, mask)? };
                    continue;
                }
                Ok(false) => {}
                // There may be room for each token alone, but not for the nodes of all frontiers that were met.
                Err(MatchError::TooDeep { .. }) if !self.tables.seen.is_bare() => {
                    walk = Walk { within, ..self.begin(trie, walk.most, mask)? };
                    self.tables.seen.stop();
                    continue;
                }
                Err(error) => return Err(error),
            }
            let Some((_, part)) = walk.free.filter(|_| left > 0) else {
                self.walk = walk;
                return Ok(false);
            };
            self.tables.walk.iter_mut().take(1).for_each(|place| *place = Saved::new(self.now));
            walk = Walk { node: 0, part, ..walk };
        }
    }

    /// Walks over the present part of the tokens, as long as nodes are left of the budget. Returns whether it was the
    /// last part and is finished.
    fn finish(
        &mut self,
        trie: &TokenTrie<'_>,
        walk: &mut Walk,
        left: &mut usize,
        mask: &mut [u32],
    ) -> Result<bool, MatchError> {
        let begin = walk.node;
        let done = self.go_on(trie, walk, begin.saturating_add(*left), mask);
        // Work that was in vain counts, too.
        *left = left.saturating_sub(walk.node.saturating_sub(begin));
        done?;
        let is_whole = walk.node >= trie.nodes(walk.part).len();
        if !is_whole {
            *left = 0;
        }
        Ok(is_whole && (walk.free.is_none() || walk.free().is_some()))
    }

    /// Walks over the present part of the tokens up to a node.
    fn go_on(&mut self, trie: &TokenTrie<'_>, walk: &mut Walk, end: usize, mask: &mut [u32]) -> Result<(), MatchError> {
        let nodes = trie.nodes(walk.part);
        // All that is done at a node is to allow its token.
        let is_quick = walk.most.is_none() && walk.named.is_none() && !walk.clears && walk.free().is_none();
        loop {
            if is_quick {
                walk.node = self.walk_known(trie, walk.part, [walk.node, end], mask);
            }
            let Some(node) = nodes.get(walk.node).filter(|_| walk.node < end) else { break };
            let depth = node.depth();
            self.settle(depth);
            if let Some(first) = walk.first.filter(|first| depth == 1 && !contains(first, node.byte())) {
                walk.node = trie.begin_behind(walk.part, node.byte(), &first).min(nodes.len());
                continue;
            }
            let Some(&from) = self.tables.walk.get(depth.wrapping_sub(1)) else { break };
            let next = match self.tables.seen.known(from.number, node.byte()) {
                Known::To(number) => self.seen_again(from, number)?,
                Known::Dead => None,
                Known::Nothing => self.behind(depth, node.byte())?,
            };
            let tree = walk.node..walk.node.saturating_add(node.nodes().max(1) as usize);
            match next {
                // The bits of all tokens that begin with these bytes are right already.
                Some(next) if walk.free().is_some_and(|free| self.leads_to(next, free)) => walk.node = tree.end,
                Some(next) => {
                    self.tables.walk.get_mut(depth).into_iter().for_each(|place| *place = next);
                    if let (Some(most), Some(token)) = (walk.named, node.token()) {
                        self.check_named(trie, token, next, most)?;
                    }
                    if walk.most.is_none_or(|most| node.token().is_some() && self.bytes_left(next) <= most) {
                        trie.allow(walk.part, *node, mask);
                    } else if walk.clears {
                        node.token().into_iter().for_each(|id| clear(mask, id));
                    }
                    walk.node += 1;
                }
                None => {
                    if walk.free().is_some() || walk.clears {
                        let tokens = nodes.get(tree.clone()).unwrap_or_default().iter().filter_map(|node| node.token());
                        tokens.for_each(|id| clear(mask, id));
                    }
                    walk.node = tree.end;
                }
            }
        }
        Ok(())
    }

    /// Returns whether a frontier is the string `free` of any characters, or leads to it with every character that can
    /// still come.
    fn leads_to(&self, from: Saved, free: Item) -> bool {
        self.only(from).is_some_and(|item| {
            let is_same = (item.code, item.node, item.count) == (free.code, free.node, free.count);
            is_same
                && match item.partial {
                    0 => item.state == free.state,
                    partial => chars(partial).is_some_and(|range| self.grammar.leads(item.state, range, free.state)),
                }
        })
    }

    /// Returns the item of a frontier that has no others.
    pub(super) fn only(&self, from: Saved) -> Option<Item> {
        (from.count == 1).then(|| self.item(from.frontier(), 0))
    }

    /// Returns the frontier of one item, which lies behind another frontier in the table.
    #[inline]
    pub(super) fn put(&mut self, from: Saved, item: Item) -> Result<Saved, MatchError> {
        let start = from.start.wrapping_add(from.count);
        let error = MatchError::TooAmbiguous { limit: self.limits.items };
        *self.tables.items.get_mut(start as usize).ok_or(error)? = item;
        Ok(Saved { start, count: 1, number: 0, accepting: 0, elsewhere: 0, ..from })
    }

    /// Returns how many nodes and returns the bytes of a token have made, with the given numbers added. If they exceed
    /// the limit, a token alone has no room either.
    #[inline]
    pub(super) fn on_path(&self, from: Saved, [nodes, returns]: [u32; 2]) -> Result<[u32; 2], MatchError> {
        let (limit, counts) =
            (self.limits.nodes, [from.nodes.saturating_add(nodes), from.returns.saturating_add(returns)]);
        if counts.iter().all(|count| *count as usize <= limit) {
            Ok(counts)
        } else {
            Err(MatchError::TooDeep { limit })
        }
    }

    /// Returns the frontier behind the byte with which a token goes on at this depth, if it is allowed, and notes it.
    fn behind(&mut self, depth: usize, byte: u8) -> Result<Option<Saved>, MatchError> {
        let Some(&from) = self.tables.walk.get(depth.wrapping_sub(1)) else { return Ok(None) };
        let was_stopped = self.tables.seen.is_stopped();
        let next = self.next(from, byte)?;
        let from = self.numbered(from);
        self.tables.walk.get_mut(depth.wrapping_sub(1)).into_iter().for_each(|place| *place = from);
        let next = next.map(|next| self.numbered(next));
        self.note(from, byte, next);
        if was_stopped || !self.tables.seen.is_stopped() {
            return Ok(next);
        }
        // Noting has ended at this byte. The first frontier, of the text itself, has no nodes of the walk.
        let made = self.tables.seen.made();
        self.tables.walk.iter_mut().take(depth).skip(1).for_each(|place| *place = place.behind_all(made));
        Ok(next.map(|next| next.behind_all(made)))
    }

    /// Returns the frontier behind a byte, if it is allowed.
    fn next(&mut self, from: Saved, byte: u8) -> Result<Option<Saved>, MatchError> {
        // Most bytes stay in one text and do not end it.
        if from.count == 1 {
            let item = self.item(from.frontier(), 0);
            match self.advanced(item, byte) {
                Move::Dead => return Ok(None),
                Move::Within(partial) => return self.put(from, Item { partial, ..item }).map(Some),
                Move::To(..) if self.grammar.word(item.code) & 0xFF == FREE => {}
                Move::To(char, state) if self.grammar.accept(state) == 0 && self.grammar.goes_on(state) => {
                    let is_counted = self.is_counted(from) && char != QUOTE;
                    let count = item.count.saturating_add(u32::from(is_counted));
                    return self.put(from, Item { state, partial: 0, count, ..item }).map(Some);
                }
                Move::To(..) => {}
            }
        }
        let begin = self.for_next(from);
        let next = self.step(begin, byte)?;
        let is_alive = next.count > 0 || next.accepting;
        let next = Saved::new(next);
        if self.tables.seen.is_stopped() {
            return Ok(is_alive.then_some(next));
        }
        self.tables.seen.make([next.nodes, next.returns]);
        let made = [next.nodes.saturating_sub(begin.nodes as u32), next.returns.saturating_sub(begin.returns as u32)];
        let [nodes, returns] = self.on_path(from, made)?;
        Ok(is_alive.then_some(Saved { nodes, returns, ..next }))
    }

    /// Returns the frontier with such counts that a step behind it overwrites no node that the walk still needs. While
    /// frontiers are noted, these are all nodes that the walk has made. Afterwards they are the nodes of the bytes
    /// before, as in [`Matcher::step`].
    pub(super) fn for_next(&self, from: Saved) -> Frontier {
        if self.tables.seen.is_stopped() {
            return from.frontier();
        }
        let [nodes, returns] = self.tables.seen.made();
        Frontier { nodes: nodes as usize, returns: returns as usize, ..from.frontier() }
    }

    /// Returns whether a frontier is one counted text.
    pub(super) fn is_counted(&self, from: Saved) -> bool {
        from.count == 1 && self.grammar.word(self.item(from.frontier(), 0).code) & 0xFF == COUNTED
    }
}
