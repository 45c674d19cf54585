//! States of matchers as bytes.

use super::code::{COUNTED, FREE, NAME, TEXT, TOKEN};
use super::codec::is_partial;
use super::compiled::{Compiled, OPS};
use super::error::MatchError;
use super::mask::Walk;
use super::matcher::Matcher;
use super::past::state_len;
use super::tables::{Item, Limits, Node, Return};
use super::words::In;
use crate::num::Xxh64;

/// The first words: "gleedM" and zeros.
const MAGIC: [u32; 2] = [u32::from_le_bytes(*b"glee"), u32::from_le_bytes(*b"dM\0\0")];
/// The version of the format.
const VERSION: u32 = 1;
/// Number of words before the state: magic, version, number of words of the state, identity of the grammar.
const HEAD: usize = 6;
/// Number of words behind the state: a checksum.
const TAIL: usize = 2;

impl Matcher<'_, '_> {
    /// Returns the number of bytes of a snapshot of the present state.
    pub fn snapshot_len(&self) -> usize {
        (HEAD + TAIL).saturating_add(state_len(self.now)).saturating_mul(4)
    }

    /// Writes the present state to the beginning of `out`. Returns the number of bytes written. The bytes depend on
    /// nothing but the grammar, the state and the version of the format. The states before the last tokens are not in
    /// them.
    ///
    /// # Errors
    /// [`MatchError::Buffer`] if `out` has less than [`Matcher::snapshot_len`] bytes.
    pub fn snapshot(&self, out: &mut [u8]) -> Result<usize, MatchError> {
        let (needed, given) = (self.snapshot_len(), out.len());
        let out = out.get_mut(..needed).ok_or(MatchError::Buffer { needed, given })?;
        let (words, _) = out.as_chunks_mut::<4>();
        let identity = self.grammar.identity();
        let head = [MAGIC[0], MAGIC[1], VERSION, state_len(self.now) as u32, identity as u32, (identity >> 32) as u32];
        words.iter_mut().zip(head).for_each(|(place, word)| *place = word.to_le_bytes());
        self.tables.each_word(self.now, |index, word| {
            words.get_mut(HEAD.wrapping_add(index)).into_iter().for_each(|place| *place = word.to_le_bytes());
        });
        let (body, tail) = out.split_last_chunk_mut::<8>().ok_or(MatchError::Buffer { needed, given })?;
        *tail = Xxh64::hash(body).to_le_bytes();
        Ok(needed)
    }

    /// Takes the state of a snapshot. Afterwards no states before it are kept.
    ///
    /// # Errors
    /// [`MatchError::NoSnapshot`], [`MatchError::Version`], [`MatchError::OtherGrammar`], [`MatchError::Damaged`] with
    /// the first byte that is wrong; a limit of this matcher is exceeded. Nothing has changed then.
    pub fn restore(&mut self, bytes: &[u8]) -> Result<(), MatchError> {
        let words = checked(bytes, &self.grammar)?;
        let get = |index: usize| words.get(index).map_or(0, |word| u32::from_le_bytes(*word));
        State { grammar: &self.grammar, limits: self.limits, words: In::new(get), given: words.len() }.check()?;
        self.now = self.tables.read(get);
        self.tables.past.clear();
        self.walk = Walk::default();
        Ok(())
    }
}

/// Checks what stands around the state in a snapshot, and returns the words of the state.
fn checked<'b>(bytes: &'b [u8], grammar: &Compiled<'_>) -> Result<&'b [[u8; 4]], MatchError> {
    let (words, rest) = bytes.as_chunks::<4>();
    let word = |index: usize| words.get(index).map(|word| u32::from_le_bytes(*word));
    if [word(0), word(1)] != MAGIC.map(Some) {
        return Err(MatchError::NoSnapshot);
    }
    let damaged = MatchError::Damaged { at: bytes.len() };
    match word(2).ok_or(damaged)? {
        VERSION => {}
        given => return Err(MatchError::Version { given, known: VERSION }),
    }
    let (body, sum) = bytes.split_last_chunk::<8>().ok_or(damaged)?;
    let length = word(3).ok_or(damaged)? as usize;
    if !rest.is_empty() || words.len() != length.saturating_add(HEAD + TAIL) {
        return Err(damaged);
    }
    if Xxh64::hash(body).to_le_bytes() != *sum {
        return Err(MatchError::Damaged { at: body.len() });
    }
    let identity = |index| u64::from(word(index).unwrap_or(0));
    if (identity(4) | identity(5) << 32) != grammar.identity() {
        return Err(MatchError::OtherGrammar);
    }
    words.get(HEAD..HEAD.saturating_add(length)).ok_or(damaged)
}

/// The words of a state that are not checked yet.
struct State<'s, 'g, G> {
    grammar: &'s Compiled<'g>,
    limits: Limits,
    words: In<G>,
    given: usize,
}

impl<G: Fn(usize) -> u32> State<'_, '_, G> {
    /// Checks each number against the grammar, the limits and the others.
    fn check(mut self) -> Result<(), MatchError> {
        let [count, nodes, returns, accepting] = self.words.next();
        let Limits { items, nodes: most, .. } = self.limits;
        let expected = 4
            + u64::from(count) * 5
            + u64::from(nodes).saturating_sub(1) * 3
            + u64::from(returns).saturating_sub(1) * 4;
        let is_state = nodes > 0 && returns > 0 && accepting < 2 && (count > 0 || accepting == 1);
        self.expect(is_state && expected == self.given as u64)?;
        if count as usize > items {
            return Err(MatchError::TooAmbiguous { limit: items });
        }
        if nodes as usize > most || returns as usize > most {
            return Err(MatchError::TooDeep { limit: most });
        }
        for _ in 0..count {
            let [code, state, partial, count, node] = self.words.next();
            let is_item = node < nodes && self.is_item(Item { code, state, partial, count, node });
            self.expect(is_item)?;
        }
        for _ in 1..nodes {
            let [rule, first, depth] = self.words.next();
            self.node(Node { rule, returns: first, depth, note: 0 }, returns)?;
        }
        for number in 1..returns {
            let [code, count, node, next] = self.words.next();
            let place = Return { code, count, node, next, note: 0 };
            let is_place = place.node < nodes && place.next < number && self.grammar.is_code(place.code, &OPS);
            self.expect(is_place)?;
        }
        Ok(())
    }

    /// Returns an error with the byte up to which everything was right, unless `right` is set.
    fn expect(&self, right: bool) -> Result<(), MatchError> {
        let at = HEAD.saturating_add(self.words.at).saturating_mul(4);
        if right { Ok(()) } else { Err(MatchError::Damaged { at }) }
    }

    fn is_item(&self, item: Item) -> bool {
        let grammar = self.grammar;
        if !grammar.is_code(item.code, &[TEXT, NAME, COUNTED, TOKEN, FREE]) {
            return false;
        }
        let [word, first, most] = [0, 1, 4].map(|index| grammar.word(item.code.wrapping_add(index)));
        match word & 0xFF {
            TOKEN => item.state == 0 && item.partial == 0,
            FREE => item.partial == 0 && grammar.is_state(first, item.state),
            COUNTED if item.count > most => false,
            _ => grammar.is_state(first, item.state) && is_partial(word >> 8, item.partial),
        }
    }

    fn node(&self, node: Node, returns: u32) -> Result<(), MatchError> {
        let limit = self.limits.depth;
        if node.depth as usize > limit {
            return Err(MatchError::TooDeep { limit });
        }
        let is_node = node.depth > 0 && (1..returns).contains(&node.returns) && self.grammar.is_code(node.rule, &OPS);
        self.expect(is_node)
    }
}
