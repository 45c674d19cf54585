//! The beginning of a mask: which tokens are known to be allowed, and which tokens the walk looks at.

use super::code::{COUNTED, FREE, NAME, TEXT};
use super::codec::RAW;
use super::dfa::QUOTE;
use super::error::MatchError;
use super::mask::Walk;
use super::matcher::{Matcher, insert_all};
use super::tables::{Item, Saved};
use super::trie::{Part, TokenTrie};

impl Matcher<'_, '_> {
    /// Begins a mask.
    pub(super) fn begin(
        &mut self,
        trie: &TokenTrie<'_>,
        most: Option<u32>,
        mask: &mut [u32],
    ) -> Result<Walk, MatchError> {
        let walk = self.begin_walk(trie, most, mask)?;
        // Other walks clear tokens, or all of their tokens begin alike.
        let picks = !walk.clears && walk.free.is_none() && matches!(walk.part, Part::All | Part::Rest);
        Ok(Walk { first: picks.then(|| self.first_bytes()), ..walk })
    }

    /// Returns all bytes with which a token may begin, and perhaps some others. It reads the edges of the states and
    /// makes no step for each byte.
    fn first_bytes(&self) -> [u64; 4] {
        let mut set = [0; 4];
        for index in 0..self.now.count {
            let item = self.item(self.now, index);
            let word = self.grammar.word(item.code);
            match word & 0xFF {
                TEXT | NAME | COUNTED if item.partial != 0 => return self.next_bytes(),
                TEXT | NAME | COUNTED => {
                    if word >> 8 != RAW {
                        insert_all(&mut set, [u32::from(b'\\'); 2]);
                    }
                    for [first, last, _] in self.grammar.edges(item.state) {
                        match *first {
                            QUOTE => insert_all(&mut set, [u32::from(b'"'); 2]),
                            first => insert_all(&mut set, [first, (*last).min(0x7F)]),
                        }
                        if *last >= 0x80 && *first != QUOTE {
                            insert_all(&mut set, [0x80, 0xFF]);
                        }
                    }
                }
                FREE => {
                    self.grammar
                        .edges(item.state)
                        .iter()
                        .for_each(|[first, last, _]| insert_all(&mut set, [*first, *last]));
                }
                _ => {}
            }
        }
        set
    }

    fn begin_walk(&mut self, trie: &TokenTrie<'_>, most: Option<u32>, mask: &mut [u32]) -> Result<Walk, MatchError> {
        let now = Saved::new(self.now);
        self.tables.walk.iter_mut().take(1).for_each(|place| *place = now);
        self.tables.seen.reset([now.nodes, now.returns]);
        let walk = Walk { begun: true, most, named: self.most_named(), ..Walk::default() };
        if self.allows_silent(trie, most)? {
            trie.allow_all(mask);
            self.clear_late(trie, most, mask)?;
            return Ok(Walk { clears: true, ..walk });
        }
        if let Some(most) = most {
            return Ok(Walk { part: self.begin_within(trie, most, mask), ..walk });
        }
        // The walk looks at each token: the frontier behind its bytes is joined with the frontier behind its name.
        if walk.named.is_some() {
            trie.allow_plain(0, mask);
            return Ok(walk);
        }
        self.begin_parts(trie, walk, mask)
    }

    /// Begins a mask with the tokens that are known to be allowed.
    fn begin_parts(&mut self, trie: &TokenTrie<'_>, walk: Walk, mask: &mut [u32]) -> Result<Walk, MatchError> {
        let now = Saved::new(self.now);
        if let Some(codec) = self.only(now).and_then(|item| self.string(item, trie)) {
            trie.allow_within(codec, mask);
            return Ok(Walk { part: Part::Closing(codec), ..walk });
        }
        if let Some((codec, free)) = (0..self.now.count).find_map(|index| self.free(self.item(self.now, index))) {
            trie.allow_within(codec, mask);
            let from = self.put(now, free)?;
            self.tables.walk.iter_mut().take(1).for_each(|place| *place = from);
            // All plain tokens are allowed if no plain character leads out of one of the texts.
            let plain = (0..self.now.count).any(|index| self.plain_chars(self.item(self.now, index)) == u32::MAX);
            let others = if plain { Part::Rest } else { Part::All };
            return Ok(Walk { part: Part::Closing(codec), free: Some((free, others)), ..walk });
        }
        let of_items = || (0..self.now.count).map(|index| self.plain_chars(self.item(self.now, index)));
        // An item for which the number is not known may allow longer tokens.
        let known = of_items().all(|chars| chars > 0);
        let chars = of_items().max().filter(|&chars| known || chars == u32::MAX).unwrap_or(0);
        trie.allow_plain(chars, mask);
        Ok(Walk { part: if chars == 0 { Part::All } else { Part::Rest }, ..walk })
    }

    /// Returns the codec and the item of a string of any characters. The text of `item` becomes this string once it
    /// differs from some texts, as a name does once it differs from all declared names.
    fn free(&self, item: Item) -> Option<(u32, Item)> {
        let word = self.grammar.word(item.code);
        let codec = word >> 8;
        if word & 0xFF != TEXT || codec == RAW || item.partial != 0 {
            return None;
        }
        let state = self.grammar.targets(item.state).find(|&state| self.grammar.takes_all(codec, state))?;
        Some((codec, Item { state, ..item }))
    }

    /// Returns the codec of the string that an item is in, if all characters lead back to its state and no token can
    /// bring it to a bound of the string.
    pub(super) fn string(&self, item: Item, trie: &TokenTrie<'_>) -> Option<u32> {
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

    /// Returns the number of characters up to which all plain tokens are allowed at an item. 0: the number is not
    /// known, and tokens may be allowed all the same.
    fn plain_chars(&self, item: Item) -> u32 {
        match self.grammar.word(item.code) & 0xFF {
            TEXT if item.partial == 0 && self.grammar.is_plain(item.state) => u32::MAX,
            COUNTED if item.partial == 0 && self.grammar.stays(item.state) => {
                self.most(item).saturating_sub(item.count)
            }
            _ => 0,
        }
    }

    /// Returns the most characters with which a counted text can still end from the state of an item.
    pub(super) fn most(&self, item: Item) -> u32 {
        let max = self.grammar.word(item.code.wrapping_add(4));
        max.saturating_sub(self.grammar.highest(item.state) & 0xFFFF)
    }
}
