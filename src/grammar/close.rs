//! Masks that bring a text to its end in time.

use super::code::{COUNTED, FREE, NAME, RETURN, TOKEN};
use super::codec::least_bytes;
use super::compiled::Compiled;
use super::error::MatchError;
use super::matcher::Matcher;
use super::rest::NEVER;
use super::tables::{Frontier, Item, Return, Saved};
use super::trie::{Part, TokenTrie};

/// No token is looked at while the tokens left exceed the bytes to the end by more than this many times the bytes of
/// the longest instruction.
const FAR: u32 = 4;

impl Matcher<'_, '_> {
    /// Returns a number of bytes that bring the text to an end. There may be a shorter end, but these bytes suffice,
    /// and behind each of them the number is at least one less.
    ///
    /// # Errors
    /// [`MatchError::NoEnds`] if the grammar was compiled without [`Options::close`](super::Options::close).
    pub fn bytes_to_end(&mut self) -> Result<usize, MatchError> {
        self.note_ends()?;
        Ok(self.bytes_left(Saved::new(self.now)) as usize)
    }

    /// Returns the most bytes to the end that may be left behind the next token, so that the text can end within
    /// `tokens` tokens. `None`: the end is far.
    pub(super) fn bytes_within(&mut self, tokens: usize) -> Result<Option<u32>, MatchError> {
        let left = self.bytes_to_end()?;
        let far = self.grammar.rest(0).saturating_mul(FAR);
        Ok(if tokens <= left {
            // If each byte takes a token it is too late. Then each token brings the text nearer to its end.
            Some(left.saturating_sub(1) as u32)
        } else if tokens - left <= far as usize {
            Some(tokens.saturating_sub(1) as u32)
        } else {
            None
        })
    }

    /// Begins a mask of the tokens behind which an end has at most `most` bytes. Returns the part of the tokens that is
    /// to be looked at one by one.
    ///
    /// In a string of any characters all plain tokens lead back to the present state. So all of them are allowed, or
    /// only tokens that end the string are.
    pub(super) fn begin_within(&self, trie: &TokenTrie<'_>, most: u32, mask: &mut [u32]) -> Part {
        let now = Saved::new(self.now);
        let codec = self.only(now).and_then(|item| self.string(item, trie));
        let stays = self.bytes_left(now) <= most;
        trie.allow_plain(if codec.is_some() && stays { u32::MAX } else { 0 }, mask);
        match codec {
            None => Part::All,
            Some(_) if stays => Part::Rest,
            Some(codec) => Part::Closing(codec),
        }
    }

    /// Returns the number of bytes from a frontier to an end.
    pub(super) fn bytes_left(&self, from: Saved) -> u32 {
        let Frontier { count, accepting, .. } = from.frontier();
        if accepting {
            return 0;
        }
        (0..count).map(|index| self.item_rest(self.item(from.frontier(), index))).min().unwrap_or(NEVER)
    }

    /// Notes in each node how many bytes lie between the end of its rule and the end of the text.
    fn note_ends(&mut self) -> Result<(), MatchError> {
        if !self.grammar.has_rests() {
            return Err(MatchError::NoEnds);
        }
        let nodes = self.tables.nodes.get_mut(..self.now.nodes).unwrap_or_default();
        nodes.iter_mut().for_each(|node| node.note = NEVER);
        nodes.iter_mut().take(1).for_each(|text| text.note = 0);
        self.settle_ends(1, self.now.nodes);
        Ok(())
    }

    /// Notes these numbers of bytes in the nodes of a range, which may return to each other.
    pub(super) fn settle_ends(&mut self, from: usize, to: usize) {
        let nodes = self.tables.nodes.get_mut(..to).unwrap_or_default();
        let mut changed = true;
        while changed {
            changed = false;
            for index in from..nodes.len() {
                let mut rest = nodes.get(index).map_or(NEVER, |node| node.note);
                let mut at = nodes.get(index).map_or(0, |node| node.returns);
                while let Some(place) = self.tables.returns.get(at as usize).filter(|_| at != 0) {
                    let beyond = nodes.get(place.node as usize).map_or(NEVER, |node| node.note);
                    rest = rest.min(place_rest(&self.grammar, place, beyond));
                    at = place.next;
                }
                if let Some(node) = nodes.get_mut(index).filter(|node| rest < node.note) {
                    node.note = rest;
                    changed = true;
                }
            }
        }
    }

    fn node_rest(&self, node: u32) -> u32 {
        self.tables.nodes.get(node as usize).map_or(NEVER, |node| node.note)
    }

    fn item_rest(&self, item: Item) -> u32 {
        let grammar = &self.grammar;
        let (word, node) = (grammar.word(item.code), self.node_rest(item.node));
        let own = match (word & 0xFF, item.partial) {
            (TOKEN, _) => 1_u32.saturating_add(code_rest(grammar, grammar.word(item.code.wrapping_add(2)), item.count)),
            (op, 0) => self.state_rest(item, op, item.state, 0),
            (op, partial) => {
                let reached = |&[low, high, target]: &[u32; 3]| {
                    let own = least_bytes(word >> 8, partial, low, high)?;
                    let is_open = op != COUNTED || self.fits(item, low, target);
                    is_open.then(|| own.saturating_add(self.state_rest(item, op, target, 1)))
                };
                grammar.edges(item.state).iter().filter_map(reached).min().unwrap_or(NEVER)
            }
        };
        own.saturating_add(node).min(NEVER)
    }

    /// Returns the number of bytes from a state of the automaton of an item to the end of the rule, `more` characters
    /// behind the item.
    fn state_rest(&self, item: Item, op: u32, state: u32, more: u32) -> u32 {
        let grammar = &self.grammar;
        let word = |index: u32| grammar.word(item.code.wrapping_add(index));
        let rest = grammar.rest(state);
        match op {
            COUNTED => {
                let chars =
                    word(3).saturating_sub(item.count.saturating_add(more)).max(grammar.highest(state) & 0xFFFF);
                let quotes = grammar.rest(state.wrapping_add(1));
                let bytes = chars.saturating_mul(grammar.rest(item.code.wrapping_add(3))).saturating_add(quotes);
                bytes.saturating_add(code_rest(grammar, word(2), 0))
            }
            FREE => {
                let then = grammar.word(word(2).wrapping_add(grammar.highest(state).wrapping_sub(1)));
                let found = if then == 0 { NEVER } else { rest.saturating_add(code_rest(grammar, then, 0)) };
                found.min(if word(3) == 0 { NEVER } else { code_rest(grammar, word(3), 0) })
            }
            NAME => match grammar.highest(state) {
                number if number > word(3) => {
                    let then = grammar.word(word(2).wrapping_add(number - 1));
                    rest.saturating_add(code_rest(grammar, then, item.count))
                }
                _ => NEVER,
            },
            _ => rest.saturating_add(code_rest(grammar, word(2), item.count)),
        }
    }
}

/// Returns the number of bytes to the end of the text from a place to which a rule returns. `beyond` is the number
/// behind the end of the rule that has this place.
fn place_rest(grammar: &Compiled<'_>, place: &Return, beyond: u32) -> u32 {
    code_rest(grammar, place.code, place.count).saturating_add(beyond).min(NEVER)
}

/// Returns the number of bytes from an instruction to the end of its rule, after `count` rounds of the loop that it is
/// in.
fn code_rest(grammar: &Compiled<'_>, code: u32, count: u32) -> u32 {
    if grammar.word(code) & 0xFF == RETURN {
        return 0;
    }
    let (rest, within) = (grammar.rest(code), grammar.rest(code.wrapping_add(1)));
    if within == 0 {
        return rest;
    }
    let word = |index: u32| grammar.word(within.wrapping_add(index));
    let rounds = word(1).saturating_sub(count.saturating_add(1));
    let round = grammar.rest(word(3));
    rest.saturating_add(rounds.saturating_mul(round)).saturating_add(code_rest_outside(grammar, word(4)))
}

/// Returns the number of bytes from an instruction that is in no loop to the end of its rule.
fn code_rest_outside(grammar: &Compiled<'_>, code: u32) -> u32 {
    if grammar.word(code) & 0xFF == RETURN { 0 } else { grammar.rest(code) }
}
