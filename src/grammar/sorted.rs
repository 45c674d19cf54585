//! The tokens of a vocabulary in the order of their bytes.

use core::cmp::Ordering;

use super::codec::{Read, read};
use super::dfa::QUOTE;
use super::trie::MAX_BYTES;

/// The bytes of all tokens.
#[derive(Clone, Copy)]
pub(super) struct Texts<'t> {
    /// By id: where its bytes end.
    ends: &'t [u32],
    bytes: &'t [u8],
    /// A codec if the texts of tokens begin with the quote that ends a string in this codec. `None`: they are whole.
    closing: Option<u32>,
}

impl<'t> Texts<'t> {
    pub(super) fn new(ends: &'t [u32], bytes: &'t [u8], closing: Option<u32>) -> Self {
        Self { ends, bytes, closing }
    }

    /// Returns the bytes of a token, or none if they are too many.
    pub(super) fn of(&self, id: u32) -> &'t [u8] {
        let text = if self.is_too_long(id) { &[] } else { self.whole(id) };
        match self.closing.map(|codec| in_string(codec, text)) {
            None => text,
            Some(InString::Ends(at)) => text.get(at..).unwrap_or_default(),
            Some(_) => &[],
        }
    }

    /// Returns whether a token has more bytes than are read.
    pub(super) fn is_too_long(&self, id: u32) -> bool {
        self.whole(id).len() > MAX_BYTES
    }

    fn whole(&self, id: u32) -> &'t [u8] {
        let end = |index: Option<usize>| index.and_then(|index| self.ends.get(index)).copied().unwrap_or(0) as usize;
        self.bytes.get(end((id as usize).checked_sub(1))..end(Some(id as usize))).unwrap_or_default()
    }

    /// Returns the ids of a list from index `from` on, each with the bytes of the token before it.
    pub(super) fn pairs(self, list: &[u32], from: usize) -> impl Iterator<Item = (&'t [u8], u32)> {
        let first = from.checked_sub(1).and_then(|before| list.get(before)).map_or(&[][..], |&id| self.of(id));
        list.iter().skip(from).scan(first, move |before, &id| Some((core::mem::replace(before, self.of(id)), id)))
    }

    /// Returns byte `at` of a token plus 1, or 0 at its end.
    fn key(&self, id: u32, at: usize) -> u32 {
        self.of(id).get(at).map_or(0, |&byte| u32::from(byte) + 1)
    }
}

/// Returns how many bytes two texts have in common at their beginning.
pub(super) fn shared(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// What a token does at the place of a character in a string of JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InString {
    Wrong,
    /// It stands in the string and may end within a character.
    Within,
    /// The string ends with the quote at this byte.
    Ends(usize),
}

pub(super) fn in_string(codec: u32, text: &[u8]) -> InString {
    let (plain, mut partial) = (plain_len(text), 0);
    for (at, &byte) in text.iter().enumerate().skip(plain) {
        partial = match read(codec, partial, byte) {
            Read::Wrong => return InString::Wrong,
            Read::Char(QUOTE) => return InString::Ends(at),
            Read::Char(_) => 0,
            Read::Range(partial, ..) | Read::RangeOrHigh(partial, ..) | Read::Escape(partial, ..) => partial,
        };
    }
    InString::Within
}

/// Returns whether a token is plain: whole characters that a string of JSON has as they are, or nothing.
pub(super) fn is_plain(text: &[u8]) -> bool {
    plain_len(text) == text.len()
}

/// Returns the number of bytes of the characters at the beginning of a text that a string of JSON has as they are.
fn plain_len(text: &[u8]) -> usize {
    let whole = match core::str::from_utf8(text) {
        Ok(_) => text.len(),
        Err(error) => error.valid_up_to(),
    };
    let plain = |&&byte: &&u8| byte >= 0x20 && !matches!(byte, b'"' | b'\\' | 0x7F);
    text.iter().take(whole).take_while(plain).count()
}

/// Ids that are sorted by the bytes of their tokens, in as many pieces as one likes. (Bentley and Sedgewick, "Fast
/// algorithms for sorting and searching strings", 1997.)
#[derive(Debug, Default)]
pub(super) struct Sort {
    /// The part of the list that is sorted now. Its tokens have the same bytes before the byte of the part.
    part: Part,
    /// The parts that wait. The smallest part is sorted first, so at most two larger ones wait for each halving.
    waiting: heapless::Vec<Part, 64>,
    partition: Option<Partition>,
    is_done: bool,
}

/// A part of the list: its first index, its end, and the index of the byte by which it is sorted.
type Part = (usize, usize, usize);

/// A part whose ids are put into three: below a byte, equal to it, above it.
#[derive(Clone, Copy, Debug)]
struct Partition {
    pivot: u32,
    less: usize,
    index: usize,
    more: usize,
}

impl Sort {
    pub(super) fn new(len: usize) -> Self {
        Self { part: (0, len, 0), ..Self::default() }
    }

    /// Goes on for `left` comparisons. Returns whether all is sorted.
    pub(super) fn go_on(&mut self, ids: &mut [u32], texts: Texts<'_>, left: &mut usize) -> bool {
        while *left > 0 && !self.is_done {
            let (start, end, at) = self.part;
            if end.saturating_sub(start) <= 1 {
                *left -= 1;
                match self.waiting.pop() {
                    Some(part) => self.part = part,
                    None => self.is_done = true,
                }
                continue;
            }
            let list = ids.get_mut(start..end).unwrap_or_default();
            let mut partition = self.partition.take().unwrap_or_else(|| Partition::new(list, at, texts));
            if partition.go_on(list, at, texts, left) {
                self.split(partition, ids, texts);
            } else {
                self.partition = Some(partition);
            }
        }
        self.is_done
    }

    /// Goes to the smallest of three parts, and lets the others wait.
    fn split(&mut self, partition: Partition, ids: &[u32], texts: Texts<'_>) {
        let (start, end, at) = self.part;
        let (less, more) = (start + partition.less, start + partition.more);
        // Tokens that end here are all alike.
        let same = if texts.key(ids.get(less).copied().unwrap_or(0), at) == 0 { less } else { more };
        let [mut small, mut middle, mut large] = [(start, less, at), (less, same, at + 1), (more, end, at)];
        let len = |(start, end, _): Part| end.saturating_sub(start);
        if len(small) > len(middle) {
            core::mem::swap(&mut small, &mut middle);
        }
        if len(middle) > len(large) {
            core::mem::swap(&mut middle, &mut large);
        }
        if len(small) > len(middle) {
            core::mem::swap(&mut small, &mut middle);
        }
        let fits = self.waiting.push(large).is_ok() && self.waiting.push(middle).is_ok();
        debug_assert!(fits, "two parts for each halving of 2^22 ids");
        self.part = small;
    }
}

impl Partition {
    /// Begins with the median of three bytes as the byte that divides the part.
    fn new(ids: &[u32], at: usize, texts: Texts<'_>) -> Self {
        let [a, b, c] = [0, ids.len() / 2, ids.len().saturating_sub(1)].map(|index| key_of(ids, index, at, texts));
        Self { pivot: a.max(b).min(c).max(a.min(b)), less: 0, index: 0, more: ids.len() }
    }

    fn go_on(&mut self, ids: &mut [u32], at: usize, texts: Texts<'_>, left: &mut usize) -> bool {
        while self.index < self.more {
            if *left == 0 {
                return false;
            }
            *left -= 1;
            match key_of(ids, self.index, at, texts).cmp(&self.pivot) {
                Ordering::Less => {
                    exchange(ids, self.less, self.index);
                    self.less += 1;
                    self.index += 1;
                }
                Ordering::Equal => self.index += 1,
                Ordering::Greater => {
                    self.more -= 1;
                    exchange(ids, self.index, self.more);
                }
            }
        }
        true
    }
}

fn key_of(ids: &[u32], index: usize, at: usize, texts: Texts<'_>) -> u32 {
    texts.key(ids.get(index).copied().unwrap_or(0), at)
}

/// Exchanges two ids of the list.
fn exchange(ids: &mut [u32], a: usize, b: usize) {
    let (Some(&first), Some(&second)) = (ids.get(a), ids.get(b)) else { return };
    ids.get_mut(a).into_iter().for_each(|place| *place = second);
    ids.get_mut(b).into_iter().for_each(|place| *place = first);
}
