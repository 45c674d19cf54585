//! Special tokens in a text: user-defined tokens always, control tokens on request.
//!
//! As in llama.cpp, the longest tokens are cut out of the text first, then the next shorter ones from the remaining
//! text, and so on. So a token gives way to a longer one that overlaps it, wherever the longer one begins. Tokens of
//! the same length are taken from left to right.

use core::ops::Range;

use super::kind::TokenKind;
use super::kinds::Kinds;
use super::table::Tokens;

/// A special token that was found in the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) id: u32,
    pub(super) start: usize,
    pub(super) end: usize,
}

/// The most bytes that a special token may have. It bounds the time of a search.
pub(super) const MAX_LEN: usize = 256;

/// The special tokens of a vocabulary.
#[derive(Clone, Copy, Debug)]
pub(super) struct Specials<'a> {
    /// Ids in the order of their texts, which is in effect a tree of prefixes.
    sorted: &'a [u32],
    /// The different lengths of the texts, the longest first.
    lengths: &'a [u32],
    /// Sets of the first bytes of the texts, one bit for each byte: for user-defined tokens, and for all special
    /// tokens.
    first_bytes: [[u64; 4]; 2],
}

impl<'a> Specials<'a> {
    /// Returns the special tokens `ids`. `lengths` has as many elements, which are filled.
    pub(super) fn new(tokens: &Tokens<'_, '_>, kinds: &Kinds<'_>, ids: &'a mut [u32], lengths: &'a mut [u32]) -> Self {
        let text = |id: u32| tokens.text(id).unwrap_or_default();
        heap_sort(ids, |a, b| (text(a), a) < (text(b), b));
        for (length, &id) in lengths.iter_mut().zip(&*ids) {
            *length = text(id).len() as u32;
        }
        heap_sort(lengths, |a, b| a > b);
        let mut first_bytes = [[0; 4]; 2];
        for &id in &*ids {
            let Some(&byte) = text(id).first() else { continue };
            let [user_defined, all] = &mut first_bytes;
            add(all, byte);
            if kinds.get(id) == TokenKind::UserDefined {
                add(user_defined, byte);
            }
        }
        let count = dedup(lengths);
        Self { sorted: ids, lengths: lengths.get(..count).unwrap_or_default(), first_bytes }
    }

    /// Returns the number of 32-bit words of state that a [`Search`] needs.
    pub(super) fn search_len(&self) -> usize {
        self.lengths.len()
    }
}

/// A search through one text, from left to right.
#[derive(Debug)]
pub(super) struct Search<'t> {
    specials: &'t Specials<'t>,
    tokens: &'t Tokens<'t, 't>,
    kinds: &'t Kinds<'t>,
    text: &'t [u8],
    /// Ranges in which control tokens are not looked for, in increasing order.
    plain: &'t [Range<usize>],
    parse_special: bool,
    /// For each length, a position before which no occurrence of that length is left to be taken.
    seen: &'t mut [u32],
    /// End of the last group of overlapping occurrences that was found.
    group_end: usize,
}

impl<'t> Search<'t> {
    /// Returns a search. `seen` has [`Specials::search_len`] elements.
    pub(super) fn new(
        specials: &'t Specials<'t>,
        tokens: &'t Tokens<'t, 't>,
        kinds: &'t Kinds<'t>,
        text: &'t str,
        plain: &'t [Range<usize>],
        parse_special: bool,
        seen: &'t mut [u32],
    ) -> Self {
        seen.fill(0);
        Self { specials, tokens, kinds, text: text.as_bytes(), plain, parse_special, seen, group_end: 0 }
    }

    /// Returns the next special token that begins at `from` or later. `from` never decreases.
    pub(super) fn next(&mut self, mut from: usize) -> Option<Found> {
        loop {
            if from >= self.group_end {
                (from, self.group_end) = self.group(from)?;
            }
            match self.next_in_group(from) {
                Some(found) => return Some(found),
                None => from = self.group_end,
            }
        }
    }

    /// Returns the next group of occurrences that overlap, directly or through other occurrences.
    fn group(&self, from: usize) -> Option<(usize, usize)> {
        let first_bytes = (from..).zip(self.text.get(from..)?).filter(|&(_, &byte)| self.may_begin(byte));
        let start = first_bytes.map(|(at, _)| at).find(|&at| self.longest_at(at) > 0)?;
        let mut end = start + self.longest_at(start);
        let mut at = start + 1;
        while at < end {
            end = end.max(at + self.longest_at(at));
            at += 1;
        }
        Some((start, end))
    }

    /// Returns the first token that is cut out of `from..group_end`. The first token of each length ends the range in
    /// which shorter ones are looked for.
    fn next_in_group(&mut self, from: usize) -> Option<Found> {
        let mut limit = self.group_end;
        let mut first = None;
        for (level, &len) in self.specials.lengths.iter().enumerate() {
            let len = len as usize;
            let seen = self.seen.get(level).map_or(0, |&seen| seen as usize);
            let mut at = from.max(seen);
            while at + len <= limit {
                if let Some(id) = self.occurrence(at, len) {
                    first = Some(Found { id, start: at, end: at + len });
                    limit = at;
                    break;
                }
                at += 1;
            }
            if let Some(seen) = self.seen.get_mut(level) {
                *seen = at as u32;
            }
        }
        first
    }

    /// Returns the token of `len` bytes that occurs at `at`.
    fn occurrence(&self, at: usize, len: usize) -> Option<u32> {
        let wanted = self.text.get(at..at + len)?;
        if !self.may_begin(*wanted.first()?) {
            return None;
        }
        let text = |id: u32| self.tokens.text(id).unwrap_or_default();
        let sorted = self.specials.sorted;
        let id = *sorted.get(sorted.partition_point(|&id| text(id) < wanted))?;
        (text(id) == wanted && self.is_wanted(id, at, len)).then_some(id)
    }

    /// Returns the number of bytes of the longest token that occurs at `at`, or 0.
    fn longest_at(&self, at: usize) -> usize {
        let text = self.text.get(at..).unwrap_or_default();
        if !text.first().is_some_and(|&byte| self.may_begin(byte)) {
            return 0;
        }
        let mut range = self.specials.sorted;
        let mut longest = 0;
        for (depth, &byte) in text.iter().enumerate() {
            range = self.narrow(range, depth, byte);
            // The tokens that end here come first, and of equal texts the lowest id.
            let Some(&id) = range.first() else { break };
            if self.byte(id, depth + 1).is_none() && self.is_wanted(id, at, depth + 1) {
                longest = depth + 1;
            }
        }
        longest
    }

    /// Returns the ids of `range` whose byte `depth` is `byte`. The texts of `range` have their first `depth` bytes in
    /// common.
    fn narrow(&self, range: &'t [u32], depth: usize, byte: u8) -> &'t [u32] {
        let is_it = |id: Option<&u32>| id.is_some_and(|&id| self.byte(id, depth) == Some(byte));
        if is_it(range.first()) && is_it(range.last()) {
            return range;
        }
        let range = range.get(range.partition_point(|&id| self.byte(id, depth) < Some(byte))..).unwrap_or_default();
        range.get(..range.partition_point(|&id| self.byte(id, depth) == Some(byte))).unwrap_or_default()
    }

    fn byte(&self, id: u32, index: usize) -> Option<u8> {
        self.tokens.text(id).and_then(|text| text.get(index).copied())
    }

    fn may_begin(&self, byte: u8) -> bool {
        let [user_defined, all] = &self.specials.first_bytes;
        contains(if self.parse_special { all } else { user_defined }, byte)
    }

    /// Returns whether a token may be cut out of the `len` bytes at `at`.
    fn is_wanted(&self, id: u32, at: usize, len: usize) -> bool {
        let plain = self.plain.get(self.plain.partition_point(|range| range.end <= at)..).unwrap_or_default();
        let is_plain = plain.first().is_some_and(|range| range.start < at + len);
        (self.parse_special && !is_plain) || self.kinds.get(id) == TokenKind::UserDefined
    }
}

fn add(set: &mut [u64; 4], byte: u8) {
    if let Some(word) = set.get_mut(usize::from(byte / 64)) {
        *word |= 1 << (byte % 64);
    }
}

fn contains(set: &[u64; 4], byte: u8) -> bool {
    set.get(usize::from(byte / 64)).is_some_and(|word| word >> (byte % 64) & 1 == 1)
}

/// Moves the first number of each run of equal numbers to the front. Returns the number of runs.
fn dedup(sorted: &mut [u32]) -> usize {
    let mut count = 0usize;
    for at in 0..sorted.len() {
        let Some(&number) = sorted.get(at) else { break };
        let last = count.checked_sub(1).and_then(|last| sorted.get(last));
        if last != Some(&number)
            && let Some(place) = sorted.get_mut(count)
        {
            *place = number;
            count += 1;
        }
    }
    count
}

/// Sorts in place, in O(n log n) comparisons at worst. Unlike the sorts of the standard library, it contains no code
/// that panics.
fn heap_sort(items: &mut [u32], less: impl Fn(u32, u32) -> bool) {
    for root in (0..items.len() / 2).rev() {
        sift_down(items, root, &less);
    }
    for end in (1..items.len()).rev() {
        let Some(heap) = items.get_mut(..=end) else { return };
        if let [first, .., last] = heap {
            core::mem::swap(first, last);
        }
        if let Some(heap) = items.get_mut(..end) {
            sift_down(heap, 0, &less);
        }
    }
}

/// Restores the heap, which has the greatest item on top. Only the item at `root` may be out of order.
fn sift_down(heap: &mut [u32], mut root: usize, less: &impl Fn(u32, u32) -> bool) {
    let Some(&item) = heap.get(root) else { return };
    loop {
        let left = 2 * root + 1;
        let Some(&first) = heap.get(left) else { break };
        let (child, greater) = match heap.get(left + 1) {
            Some(&second) if less(first, second) => (left + 1, second),
            _ => (left, first),
        };
        if !less(item, greater) {
            break;
        }
        if let Some(place) = heap.get_mut(root) {
            *place = greater;
        }
        root = child;
    }
    if let Some(place) = heap.get_mut(root) {
        *place = item;
    }
}
