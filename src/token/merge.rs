//! The merging of byte-pair encoding: of all neighbours that may merge, always the best pair, the
//! leftmost of equals. A heap makes it O(n log n) in the length of the word.

use bytemuck::{Pod, Zeroable};

use super::table::NONE;

/// Which neighbours merge.
pub(super) trait Pairs {
    /// The key of a pair (the smallest merges first) and the token that it becomes. `text` is the text of
    /// both.
    fn pair(&self, left: u32, right: u32, text: &[u8]) -> Option<(u32, u32)>;
}

/// A piece of the word, in a list with its neighbours.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
struct Symbol {
    /// The start of its text. The text ends where the text of the next one starts.
    start: u32,
    /// Its token; [`NONE`] where it has not been looked up or there is none.
    id: u32,
    prev: u32,
    next: u32,
    /// The key of its pair with the next symbol, and what they become; [`NONE`] where they do not merge.
    key: u32,
    merged: u32,
}

/// A pair that may merge: its key and its left symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Pod, Zeroable)]
#[repr(C)]
struct Candidate {
    key: u32,
    left: u32,
}

/// 32-bit words per symbol: the symbol itself, and two candidates. Every pair is pushed at the start, and
/// every merge takes one candidate away and pushes at most two, so there are never more than two per symbol.
const SCRATCH_PER_SYMBOL: usize = (size_of::<Symbol>() + 2 * size_of::<Candidate>()) / 4;

/// 32-bit words of scratch for a word of `symbols` symbols.
pub(super) fn scratch_len(symbols: usize) -> usize {
    symbols.saturating_mul(SCRATCH_PER_SYMBOL)
}

/// A word on its way to tokens.
#[derive(Debug)]
pub(super) struct Word<'s> {
    text: &'s [u8],
    symbols: &'s mut [Symbol],
    len: usize,
    candidates: Heap<'s>,
}

impl<'s> Word<'s> {
    /// A word without symbols yet; `None` where `scratch` is shorter than [`scratch_len`]`(symbols)`.
    pub(super) fn new(text: &'s [u8], symbols: usize, scratch: &'s mut [u32]) -> Option<Self> {
        let (first, rest) = scratch.split_at_mut_checked(symbols.checked_mul(size_of::<Symbol>() / 4)?)?;
        let (second, _) = rest.split_at_mut_checked(symbols.checked_mul(2 * size_of::<Candidate>() / 4)?)?;
        Some(Self {
            text,
            symbols: bytemuck::try_cast_slice_mut(first).ok()?,
            len: 0,
            candidates: Heap { items: bytemuck::try_cast_slice_mut(second).ok()?, len: 0 },
        })
    }

    /// Appends a symbol whose text begins at `start`.
    pub(super) fn push(&mut self, start: usize, id: u32) {
        let index = self.len as u32;
        if let Some(prev) = self.len.checked_sub(1).and_then(|prev| self.symbols.get_mut(prev)) {
            prev.next = index;
        }
        if let Some(symbol) = self.symbols.get_mut(self.len) {
            let prev = index.checked_sub(1).unwrap_or(NONE);
            *symbol = Symbol { start: start as u32, id, prev, next: NONE, key: 0, merged: NONE };
            self.len += 1;
        }
    }

    /// Merges until no pair is left.
    pub(super) fn merge(&mut self, pairs: &impl Pairs) {
        for left in 0..self.len {
            self.offer(pairs, left as u32);
        }
        while let Some(candidate) = self.candidates.pop() {
            self.take(pairs, candidate);
        }
    }

    /// The symbols that are left: token and text.
    pub(super) fn symbols(&self) -> impl Iterator<Item = (u32, &'s [u8])> {
        let text = self.text;
        let first = self.symbols.get(..self.len).and_then(<[_]>::first);
        let symbols = core::iter::successors(first, |symbol| self.get(symbol.next));
        symbols.map(move |symbol| {
            let end = self.get(symbol.next).map_or(text.len(), |next| next.start as usize);
            (symbol.id, text.get(symbol.start as usize..end).unwrap_or_default())
        })
    }

    fn get(&self, index: u32) -> Option<&Symbol> {
        self.symbols.get(index as usize)
    }

    /// Looks up the pair that begins with symbol `left` and makes it a candidate.
    fn offer(&mut self, pairs: &impl Pairs, left: u32) {
        let Some(symbol) = self.get(left) else { return };
        let found = self.get(symbol.next).and_then(|right| {
            let end = self.get(right.next).map_or(self.text.len(), |next| next.start as usize);
            pairs.pair(symbol.id, right.id, self.text.get(symbol.start as usize..end)?)
        });
        let (key, merged) = found.unwrap_or((0, NONE));
        if let Some(symbol) = self.symbols.get_mut(left as usize) {
            (symbol.key, symbol.merged) = (key, merged);
        }
        if merged != NONE {
            self.candidates.push(Candidate { key, left });
        }
    }

    /// Merges a candidate, unless one of its two symbols has been merged otherwise since it was pushed.
    ///
    /// A candidate with the key that its symbol's pair has now is as good as the one pushed for that pair.
    fn take(&mut self, pairs: &impl Pairs, candidate: Candidate) {
        let Some(&Symbol { key, merged, next: right, prev, .. }) = self.get(candidate.left) else { return };
        if merged == NONE || key != candidate.key {
            return;
        }
        let Some(gone) = self.symbols.get_mut(right as usize) else { return };
        gone.merged = NONE;
        let next = gone.next;
        if let Some(left) = self.symbols.get_mut(candidate.left as usize) {
            (left.id, left.next) = (merged, next);
        }
        if let Some(next) = self.symbols.get_mut(next as usize) {
            next.prev = candidate.left;
        }
        self.offer(pairs, prev);
        self.offer(pairs, candidate.left);
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

    /// Digits d and e merge to the last digit of d * 3 + e, unless that is 0, with a key that has many equals.
    struct Digits;

    impl Pairs for Digits {
        fn pair(&self, left: u32, right: u32, text: &[u8]) -> Option<(u32, u32)> {
            assert!(text.len() >= 2);
            let merged = (left * 3 + right) % 10;
            (merged != 0).then_some(((left + right) % 4, merged))
        }
    }

    fn fast(digits: &[u8]) -> Vec<(u32, usize)> {
        let mut scratch = vec![7; scratch_len(digits.len())];
        let mut word = Word::new(digits, digits.len(), &mut scratch).unwrap();
        for (i, &digit) in digits.iter().enumerate() {
            word.push(i, u32::from(digit));
        }
        word.merge(&Digits);
        word.symbols().map(|(id, text)| (id, text.len())).collect()
    }

    fn slow(digits: &[u8]) -> Vec<(u32, usize)> {
        let mut symbols: Vec<_> = digits.iter().map(|&digit| (u32::from(digit), 1)).collect();
        loop {
            let key = |i: usize| Digits.pair(symbols[i].0, symbols[i + 1].0, b"..");
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
        assert!(Word::new(b"ab", 2, &mut vec![0; scratch_len(2)]).is_some());
        assert!(Word::new(b"ab", 2, &mut vec![0; scratch_len(2) - 1]).is_none());
    }
}
