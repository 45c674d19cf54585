//! The merges of byte-pair encoding. Of all neighbours that may merge, the best pair is merged first, and the leftmost
//! one of equal pairs. With a heap, this takes O(n log n) time for a word of length n.

use bytemuck::{Pod, Zeroable};

use super::table::NONE;
use super::text::{Beginning, Piece, halves, text_len, whole};

/// The rule that says which neighbours merge.
pub(super) trait Pairs {
    /// Returns the key of a pair and the token that it becomes. The pair with the smallest key merges first. `piece` is
    /// the text of both tokens, of which the first `left_len` bytes belong to `left`.
    fn pair(&self, left: u32, right: u32, left_len: u32, piece: &Piece<'_>) -> Option<(u32, u32)>;
}

/// A piece of the word, in a linked list of its neighbours.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
struct Symbol {
    /// Start of the symbol's text, which ends where the text of the next symbol starts.
    start: u32,
    /// Token of the symbol, or [`NONE`] if it has not been looked up or does not exist.
    id: u32,
    prev: u32,
    next: u32,
    /// Key of the pair with the next symbol, and the token that the pair becomes, or [`NONE`] if it does not merge.
    key: u32,
    merged: u32,
    /// Number of the text before the symbol: its lower half, then its upper half.
    before: [u32; 2],
}

/// A pair that may merge: its key, and the index of its left symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Pod, Zeroable)]
#[repr(C)]
struct Candidate {
    key: u32,
    left: u32,
}

/// The most symbols of a word for which a look at all symbols takes less time than a heap.
const FEW: usize = 16;

/// 32-bit words per symbol: the symbol itself, and two candidates. Every pair is pushed at the start, and every merge
/// takes one candidate away and pushes at most two. So there are never more than two candidates per symbol.
const SCRATCH_PER_SYMBOL: usize = (size_of::<Symbol>() + 2 * size_of::<Candidate>()) / 4;

/// Returns the number of 32-bit words of scratch for a word of `symbols` symbols and `bytes` bytes.
pub(super) fn scratch_len(symbols: usize, bytes: usize) -> usize {
    symbols.saturating_mul(SCRATCH_PER_SYMBOL).saturating_add(text_len(bytes))
}

/// A word while it is turned into tokens.
#[derive(Debug)]
pub(super) struct Word<'s> {
    text: &'s mut [u8],
    text_len: usize,
    beginning: Beginning,
    symbols: &'s mut [Symbol],
    len: usize,
    candidates: Heap<'s>,
}

impl<'s> Word<'s> {
    /// Returns a word without symbols, with room for `symbols` symbols and `bytes` bytes. `None` if `scratch` is
    /// shorter than [`scratch_len`].
    pub(super) fn new(symbols: usize, bytes: usize, scratch: &'s mut [u32]) -> Option<Self> {
        let (first, rest) = scratch.split_at_mut_checked(symbols.checked_mul(size_of::<Symbol>() / 4)?)?;
        let (second, rest) = rest.split_at_mut_checked(symbols.checked_mul(2 * size_of::<Candidate>() / 4)?)?;
        let (text, _) = rest.split_at_mut_checked(text_len(bytes))?;
        Some(Self {
            text: bytemuck::must_cast_slice_mut(text),
            text_len: 0,
            beginning: Beginning::default(),
            symbols: bytemuck::try_cast_slice_mut(first).ok()?,
            len: 0,
            candidates: Heap { items: bytemuck::try_cast_slice_mut(second).ok()?, len: 0 },
        })
    }

    /// Appends a symbol whose text is the lowest `count` bytes of `bytes`, at most four. The bytes above them are 0.
    #[inline]
    pub(super) fn push(&mut self, bytes: u32, count: u32, id: u32) {
        let index = self.len as u32;
        if let Some(symbol) = self.symbols.get_mut(self.len)
            && let Some(text) = self.text.get_mut(self.text_len..).and_then(<[_]>::first_chunk_mut)
        {
            let (prev, next) = (index.wrapping_sub(1), index.wrapping_add(1));
            let start = self.text_len as u32;
            *symbol = Symbol { start, id, prev, next, key: 0, merged: NONE, before: halves(self.beginning.number) };
            *text = bytes.to_le_bytes();
            self.beginning.push(bytes, count);
            self.text_len += count as usize;
            self.len += 1;
        }
    }

    /// Merges until no pair is left.
    pub(super) fn merge(&mut self, pairs: &impl Pairs) {
        for left in 1..self.len {
            self.offer(pairs, left.wrapping_sub(1) as u32);
        }
        while let Some(left) = if self.len <= FEW { self.best() } else { self.candidate() } {
            self.unite(pairs, left);
        }
    }

    /// Returns the left symbol of the best pair. For words of few symbols.
    fn best(&self) -> Option<u32> {
        let mut best = u64::MAX;
        for (left, symbol) in (0..).zip(&*self.symbols) {
            let rank = if symbol.merged == NONE { u64::MAX } else { u64::from(symbol.key) << 32 | left };
            best = best.min(rank);
        }
        (best != u64::MAX).then_some(best as u32)
    }

    /// Returns the left symbol of the best candidate. Skips candidates that no longer hold because one of their symbols
    /// has been merged with another one.
    ///
    /// A candidate with the current key of its symbol's pair is valid, even if it was pushed for an earlier pair.
    fn candidate(&mut self) -> Option<u32> {
        loop {
            let Candidate { key, left } = self.candidates.pop()?;
            if self.get(left).is_some_and(|symbol| symbol.merged != NONE && symbol.key == key) {
                return Some(left);
            }
        }
    }

    /// Returns the token and the text of each symbol that is left.
    pub(super) fn symbols(&self) -> impl Iterator<Item = (u32, &[u8])> {
        let first = self.symbols.get(..self.len).and_then(<[_]>::first);
        let symbols = core::iter::successors(first, |symbol| self.get(symbol.next));
        symbols.map(|symbol| {
            let (end, _) = self.begin(symbol.next);
            (symbol.id, self.text.get(symbol.start as usize..end).unwrap_or_default())
        })
    }

    fn get(&self, index: u32) -> Option<&Symbol> {
        self.symbols.get(index as usize)
    }

    /// Returns where a symbol begins, and the number of the text before it. For an index past the last symbol, the
    /// symbol is the end of the word.
    #[inline]
    fn begin(&self, index: u32) -> (usize, u64) {
        let end = (self.text_len, self.beginning.number);
        self.get(index).map_or(end, |symbol| (symbol.start as usize, symbol.before()))
    }

    /// Looks up the pair that begins with symbol `left` and, in a word of many symbols, makes it a candidate.
    fn offer(&mut self, pairs: &impl Pairs, left: u32) {
        let Some(symbol) = self.get(left) else { return };
        let found = self.get(symbol.next).and_then(|right| {
            let (end, after) = self.begin(right.next);
            let len = end.checked_sub(symbol.start as usize)?;
            let piece = Piece::new(self.text, symbol.start as usize, len, symbol.before(), after);
            pairs.pair(symbol.id, right.id, right.start.checked_sub(symbol.start)?, &piece)
        });
        let (key, merged) = found.unwrap_or((0, NONE));
        if let Some(symbol) = self.symbols.get_mut(left as usize) {
            (symbol.key, symbol.merged) = (key, merged);
        }
        if merged != NONE && self.len > FEW {
            self.candidates.push(Candidate { key, left });
        }
    }

    /// Merges the pair that begins with symbol `left`.
    fn unite(&mut self, pairs: &impl Pairs, left: u32) {
        let Some(&Symbol { merged, next: right, prev, .. }) = self.get(left) else { return };
        let Some(gone) = self.symbols.get_mut(right as usize) else { return };
        gone.merged = NONE;
        let next = gone.next;
        if let Some(symbol) = self.symbols.get_mut(left as usize) {
            (symbol.id, symbol.next) = (merged, next);
        }
        if let Some(next) = self.symbols.get_mut(next as usize) {
            next.prev = left;
        }
        self.offer(pairs, prev);
        self.offer(pairs, left);
    }
}

impl Symbol {
    /// Returns the number of the text before the symbol.
    #[inline]
    fn before(&self) -> u64 {
        whole(self.before)
    }
}

/// A binary heap with the smallest item on top.
#[derive(Debug)]
struct Heap<'s> {
    items: &'s mut [Candidate],
    len: usize,
}

impl Heap<'_> {
    fn push(&mut self, item: Candidate) {
        let mut at = self.len;
        self.len += 1;
        while let Some(parent) = at.checked_sub(1).map(|at| at / 2) {
            match self.items.get(parent) {
                Some(&above) if above > item => self.set(at, above),
                _ => break,
            }
            at = parent;
        }
        self.set(at, item);
    }

    fn pop(&mut self) -> Option<Candidate> {
        let top = *self.items.get(..self.len)?.first()?;
        self.len -= 1;
        let last = *self.items.get(self.len)?;
        let mut at = 0;
        while let Some((child, item)) = self.smaller_child(at)
            && item < last
        {
            self.set(at, item);
            at = child;
        }
        self.set(at, last);
        Some(top)
    }

    fn smaller_child(&self, at: usize) -> Option<(usize, Candidate)> {
        let items = self.items.get(..self.len)?;
        let left = 2 * at + 1;
        let first = *items.get(left)?;
        match items.get(left + 1) {
            Some(&second) if second < first => Some((left + 1, second)),
            _ => Some((left, first)),
        }
    }

    fn set(&mut self, at: usize, item: Candidate) {
        if let Some(place) = self.items.get_mut(at) {
            *place = item;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Digits d and e merge to the last digit of d * 3 + e, unless that is 0. Many pairs have equal keys.
    struct Digits;

    impl Pairs for Digits {
        fn pair(&self, left: u32, right: u32, left_len: u32, piece: &Piece<'_>) -> Option<(u32, u32)> {
            assert!((left_len as usize) < piece.len);
            let merged = (left * 3 + right) % 10;
            (merged != 0).then_some(((left + right) % 4, merged))
        }
    }

    fn fast(digits: &[u8]) -> Vec<(u32, usize)> {
        let mut scratch = vec![7; scratch_len(digits.len(), digits.len())];
        let mut word = Word::new(digits.len(), digits.len(), &mut scratch).unwrap();
        for &digit in digits {
            word.push(u32::from(digit), 1, u32::from(digit));
        }
        word.merge(&Digits);
        word.symbols().map(|(id, text)| (id, text.len())).collect()
    }

    fn slow(digits: &[u8]) -> Vec<(u32, usize)> {
        let mut symbols: Vec<_> = digits.iter().map(|&digit| (u32::from(digit), 1)).collect();
        loop {
            let piece = Piece::new(b"..", 0, 2, 0, 0);
            let key = |i: usize| Digits.pair(symbols[i].0, symbols[i + 1].0, 1, &piece);
            let best = (1..symbols.len()).filter_map(|i| key(i - 1).map(|(key, merged)| (key, i - 1, merged))).min();
            let Some((_, left, merged)) = best else { return symbols };
            symbols[left] = (merged, symbols[left].1 + symbols[left + 1].1);
            symbols.remove(left + 1);
        }
    }

    proptest! {
        #[test]
        fn the_heap_merges_as_a_search_would(digits in prop::collection::vec(0u8..10, 0..40)) {
            prop_assert_eq!(fast(&digits), slow(&digits));
        }
    }

    #[test]
    fn scratch_must_suffice() {
        assert!(Word::new(2, 3, &mut vec![0; scratch_len(2, 3)]).is_some());
        assert!(Word::new(2, 3, &mut vec![0; scratch_len(2, 3) - 1]).is_none());
    }
}
