//! A finished grammar: words that never change.

use super::class::{ANY, ESCAPABLE, LAST};
use super::code::{CALL, COUNT, COUNTED, FREE, LOOP, NAME, RETURN, SPLIT, TEXT, TOKEN};
use super::codec::{Read, SHORT, read};
use super::dfa::QUOTE;
use super::pack::{HEADER, length};

/// The bit that says whether a state is plain, in the word with the number of its edges.
pub(super) const PLAIN_BIT: u32 = 31;

/// All operations.
pub(super) const OPS: [u32; 10] = [RETURN, TEXT, NAME, SPLIT, LOOP, COUNT, CALL, TOKEN, COUNTED, FREE];

/// Reads the words of a grammar. A place outside of the words reads as 0, which is no instruction that goes on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Compiled<'m> {
    words: &'m [u32],
}

/// Where a byte leads in an automaton.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Move {
    Dead,
    /// Within a character, of which this part was read.
    Within(u32),
    /// By this character, to this state.
    To(u32, u32),
}

impl<'m> Compiled<'m> {
    pub(super) fn new(words: &'m [u32]) -> Self {
        Self { words }
    }

    /// Returns whether the grammar has the table of [`super::rest`], which says how far the end of a text is.
    pub(super) fn has_rests(&self) -> bool {
        self.words.len() > self.word(0) as usize
    }

    /// Returns the number that the table of [`super::rest`] has for a place.
    pub(super) fn rest(&self, place: u32) -> u32 {
        self.words.get((self.word(0) as usize).saturating_add(place as usize)).copied().unwrap_or(0)
    }

    /// Returns the instruction with which the root begins.
    pub(super) fn root(&self) -> u32 {
        self.word(1)
    }

    /// Returns the identity of the grammar: a hash of its source, its options and its words.
    pub(super) fn identity(&self) -> u64 {
        u64::from(self.word(4)) | u64::from(self.word(5)) << 32
    }

    /// Returns whether an instruction with one of these operations begins at a place.
    pub(super) fn is_code(&self, place: u32, ops: &[u32]) -> bool {
        let (mut at, end) = (HEADER, self.word(2));
        while at < end.min(place) {
            at = at.saturating_add(length(self.word(at) & 0xFF));
        }
        at == place && at < end && ops.contains(&(self.word(at) & 0xFF))
    }

    /// Returns whether a state begins at a place, which is `first` or lies behind it. `first` is the first state of an
    /// automaton.
    pub(super) fn is_state(&self, first: u32, place: u32) -> bool {
        let (mut at, end) = (first, self.word(0));
        while at < end.min(place) {
            at = at.saturating_add(self.state_len(at));
        }
        first >= self.word(3) && at == place && at < end
    }

    #[inline]
    pub(super) fn word(&self, at: u32) -> u32 {
        self.words.get(at as usize).copied().unwrap_or(0)
    }

    /// Returns the number of the text that a state accepts, plus 1, or 0 if it accepts none.
    pub(super) fn accept(&self, state: u32) -> u32 {
        self.word(state)
    }

    /// Returns the highest number of a name that a state leads to, plus 1. For counted texts, the low half is the
    /// fewest characters to the end, and the high half is the most, or 65,535 if there is no bound.
    pub(super) fn highest(&self, state: u32) -> u32 {
        self.word(state.wrapping_add(1))
    }

    /// Returns whether a state has edges.
    pub(super) fn goes_on(&self, state: u32) -> bool {
        self.edge_count(state) != 0
    }

    /// Returns the number of words of a state.
    pub(super) fn state_len(&self, state: u32) -> u32 {
        self.edge_count(state).saturating_mul(3).saturating_add(3)
    }

    #[inline]
    fn edge_count(&self, state: u32) -> u32 {
        self.word(state.wrapping_add(2)) & !(1 << PLAIN_BIT)
    }

    /// Returns the edges of a state, in order: the first character, the last one, the target.
    #[inline]
    pub(super) fn edges(&self, state: u32) -> &'m [[u32; 3]] {
        let rest = self.words.get(state as usize..).unwrap_or_default();
        let count = self.edge_count(state) as usize;
        rest.get(3..).unwrap_or_default().as_chunks::<3>().0.get(..count).unwrap_or_default()
    }

    /// Returns whether a state is plain: every text of characters that strings have as they are leads on from it.
    pub(super) fn is_plain(&self, state: u32) -> bool {
        self.word(state.wrapping_add(2)) >> PLAIN_BIT != 0
    }

    /// Returns whether all characters of a range lead from a state to another one.
    pub(super) fn leads(&self, state: u32, (low, high): (u32, u32), to: u32) -> bool {
        self.edges(state).iter().any(|[first, last, target]| *target == to && *first <= low && *last >= high)
    }

    /// Returns the targets of the edges of a state, except that of the quote.
    pub(super) fn targets(&self, state: u32) -> impl Iterator<Item = u32> {
        self.edges(state).iter().filter(|[first, _, _]| *first != QUOTE).map(|[_, _, target]| *target)
    }

    /// Returns whether a state is plain, and all characters that have an edge lead from it back to it.
    pub(super) fn stays(&self, state: u32) -> bool {
        self.is_plain(state) && self.edges(state).iter().all(|[first, _, target]| *target == state || *first == QUOTE)
    }

    /// Returns whether all characters that strings of a codec can have lead from a state back to it.
    pub(super) fn takes_all(&self, codec: u32, state: u32) -> bool {
        let chars = if codec == SHORT { ESCAPABLE } else { ANY };
        self.stays(state)
            && chars.iter().all(|&(low, high)| {
                self.edges(state).iter().any(|[first, last, _]| *first <= low && high <= *last && *first != QUOTE)
            })
    }

    /// Returns where a byte leads from a state in which a part of a character was read. `admits` says of an edge, by
    /// its first character and its target, whether it is open.
    #[inline]
    pub(super) fn step(
        &self,
        codec: u32,
        state: u32,
        partial: u32,
        byte: u8,
        admits: impl Fn(u32, u32) -> bool,
    ) -> Move {
        let has = |low: u32, high: u32| low <= high && self.edge(state, low, high, &admits).is_some();
        let (partial, alive) = match read(codec, partial, byte) {
            Read::Char(char) => {
                return self.edge(state, char, char, &admits).map_or(Move::Dead, |to| Move::To(char, to));
            }
            Read::Wrong => return Move::Dead,
            Read::Range(partial, low, high) => (partial, has(low, high)),
            Read::RangeOrHigh(partial, low, high) => (partial, has(low, high) || has(0x1_0000, LAST)),
            Read::Escape(partial, few, low, high) => {
                (partial, few.iter().any(|char| has(*char, *char)) || has(low, high))
            }
        };
        if alive { Move::Within(partial) } else { Move::Dead }
    }

    /// Returns where a byte leads from a state of an automaton over bytes.
    #[inline]
    pub(super) fn step_byte(&self, state: u32, byte: u8) -> Move {
        let byte = u32::from(byte);
        self.edge(state, byte, byte, &|_, _| true).map_or(Move::Dead, |to| Move::To(byte, to))
    }

    /// Returns the target of the first open edge with any of these characters.
    #[inline]
    fn edge(&self, state: u32, low: u32, high: u32, admits: &impl Fn(u32, u32) -> bool) -> Option<u32> {
        for [first, last, target] in self.edges(state) {
            if *first > high {
                return None;
            }
            if *last >= low && admits(*first, *target) {
                return Some(*target);
            }
        }
        None
    }
}
