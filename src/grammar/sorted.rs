//! The tokens of a vocabulary in the order of their bytes, in the caller's scratch.

use core::cmp::Ordering;

use super::codec::{Read, read};
use super::dfa::QUOTE;
use super::trie::{MAX_BYTES, MOST, Node, TokenTrie, TrieError, Vocabulary};

/// All ids in the order of their bytes.
pub(super) struct Sorted<'s> {
    pub(super) ids: &'s [u32],
    /// Those whose tokens are not plain.
    rest: &'s [u32],
    texts: Texts<'s>,
    /// Room for as many ids.
    free: &'s mut [u32],
}

/// Tokens in which a string of JSON ends, in the order of their bytes from that quote on.
pub(super) struct Closing<'s> {
    ids: &'s [u32],
    texts: Texts<'s>,
}

/// The bytes of all tokens.
#[derive(Clone, Copy)]
struct Texts<'s> {
    /// By id: where its bytes end.
    ends: &'s [u32],
    bytes: &'s [u8],
    /// From the quote on that ends a string in this codec.
    closing: Option<u32>,
}

impl<'s> Texts<'s> {
    fn of(&self, id: u32) -> &'s [u8] {
        let end = |index: Option<usize>| index.and_then(|index| self.ends.get(index)).copied().unwrap_or(0) as usize;
        let text = self.bytes.get(end((id as usize).checked_sub(1))..end(Some(id as usize))).unwrap_or_default();
        let text = if text.len() > MAX_BYTES { &[] } else { text };
        match self.closing.map(|codec| in_string(codec, text)) {
            None => text,
            Some(InString::Ends(at)) => text.get(at..).unwrap_or_default(),
            Some(_) => &[],
        }
    }

    /// Byte `at` of a token, plus 1; 0 at its end.
    fn key(&self, id: u32, at: usize) -> u32 {
        self.of(id).get(at).map_or(0, |&byte| u32::from(byte) + 1)
    }
}

impl<'s> Sorted<'s> {
    pub(super) fn new(vocabulary: &dyn Vocabulary, scratch: &'s mut [u32]) -> Result<Self, TrieError> {
        let (tokens, given) = (vocabulary.tokens(), scratch.len());
        if tokens > MOST {
            return Err(TrieError::TooLarge { given: tokens as usize, limit: MOST });
        }
        let small = TrieError::ScratchTooSmall { needed: Self::needed(vocabulary), given };
        if given < Self::needed(vocabulary) {
            return Err(small);
        }
        let (ids, rest) = scratch.split_at_mut_checked(tokens as usize).ok_or(small)?;
        let (ends, rest) = rest.split_at_mut_checked(tokens as usize).ok_or(small)?;
        let (others, rest) = rest.split_at_mut_checked(tokens as usize).ok_or(small)?;
        let (free, rest) = rest.split_at_mut_checked(tokens as usize).ok_or(small)?;
        let bytes: &mut [u8] = bytemuck::must_cast_slice_mut(rest);
        let mut len = 0;
        for (id, (place, end)) in (0..).zip(ids.iter_mut().zip(ends.iter_mut())) {
            *place = id;
            vocabulary.each_byte(id, &mut |byte| {
                bytes.get_mut(len).into_iter().for_each(|place| *place = byte);
                len += 1;
            });
            *end = u32::try_from(len).map_err(|_| TrieError::TooLarge { given: len, limit: u32::MAX })?;
        }
        let texts = Texts { ends, bytes, closing: None };
        sort(ids, texts);
        let mut count = 0;
        for &id in ids.iter().filter(|&&id| !is_plain(texts.of(id))) {
            others.get_mut(count).into_iter().for_each(|place| *place = id);
            count += 1;
        }
        Ok(Self { ids, rest: others.get(..count).unwrap_or_default(), texts, free })
    }

    /// The elements of a mask with a bit for each id.
    pub(super) fn mask_len(&self) -> usize {
        self.ids.len().div_ceil(32)
    }

    fn needed(vocabulary: &dyn Vocabulary) -> usize {
        TokenTrie::scratch_len(vocabulary)
    }

    /// Tokens that have bytes, in their order.
    pub(super) fn texts(&self) -> impl Iterator<Item = (u32, &[u8])> {
        self.ids.iter().map(|&id| (id, self.texts.of(id))).filter(|(_, text)| !text.is_empty())
    }

    /// Tokens that are not plain, in their order.
    pub(super) fn rest(&self) -> impl Iterator<Item = (u32, &[u8])> {
        self.rest.iter().map(|&id| (id, self.texts.of(id)))
    }

    /// Calls `f` with each token that has the bytes of the one before, and the first of these.
    pub(super) fn pairs(&self, f: &mut dyn FnMut(usize, [u32; 2])) {
        let (mut first, mut count) = ((0, &[][..]), 0);
        for (id, text) in self.texts() {
            if text == first.1 {
                f(count, [first.0, id]);
                count += 1;
            } else {
                first = (id, text);
            }
        }
    }

    /// Tokens in which a string of this codec ends.
    pub(super) fn closing(&mut self, codec: u32) -> Closing<'_> {
        let texts = Texts { closing: Some(codec), ..self.texts };
        let mut count = 0;
        for &id in self.rest.iter().filter(|&&id| !texts.of(id).is_empty()) {
            self.free.get_mut(count).into_iter().for_each(|place| *place = id);
            count += 1;
        }
        let ids = self.free.get_mut(..count).unwrap_or_default();
        sort(ids, texts);
        Closing { ids, texts }
    }

    pub(super) fn count<'t>(texts: impl Iterator<Item = (u32, &'t [u8])>) -> usize {
        let mut count = 0;
        nodes(texts, |_, _, _| count += 1);
        count
    }

    /// Makes the nodes of some texts. What ends at a node is the number given with the first text there.
    pub(super) fn fill<'t>(texts: impl Iterator<Item = (u32, &'t [u8])>, places: &mut [Node]) {
        let mut free = places.iter_mut();
        nodes(texts, |byte, depth, token| {
            if let Some(place) = free.next() {
                *place = Node::new(byte, depth, token);
            }
        });
        let nodes = places;
        // From the end: over the trees of the children, which are known.
        for index in (0..nodes.len()).rev() {
            let Some(node) = nodes.get(index).copied() else { continue };
            let mut next = index + 1;
            while let Some(child) = nodes.get(next).filter(|child| child.depth() > node.depth()) {
                next += child.nodes().max(1) as usize;
            }
            nodes.get_mut(index).into_iter().for_each(|node| node.set_nodes(next - index));
        }
    }
}

impl Closing<'_> {
    /// Each with its bytes from the quote on.
    pub(super) fn texts(&self) -> impl Iterator<Item = (u32, &[u8])> {
        self.ids.iter().map(|&id| (id, self.texts.of(id)))
    }
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

/// Calls `f` with each node of sorted texts: its byte, its number of bytes, and what ends there.
fn nodes<'t>(texts: impl Iterator<Item = (u32, &'t [u8])>, mut f: impl FnMut(u8, usize, Option<u32>)) {
    let mut before: &[u8] = &[];
    for (number, text) in texts {
        let shared = before.iter().zip(text).take_while(|(a, b)| a == b).count();
        for (&byte, depth) in text.iter().zip(1..).skip(shared) {
            f(byte, depth, (depth == text.len()).then_some(number));
        }
        before = text;
    }
}

/// Whether a token is whole characters that a string of JSON has as they are, or nothing.
pub(super) fn is_plain(text: &[u8]) -> bool {
    plain_len(text) == text.len()
}

/// Returns the bytes of the characters at the begin of a text that a string of JSON has as they are.
fn plain_len(text: &[u8]) -> usize {
    let whole = match core::str::from_utf8(text) {
        Ok(_) => text.len(),
        Err(error) => error.valid_up_to(),
    };
    let plain = |&&byte: &&u8| byte >= 0x20 && !matches!(byte, b'"' | b'\\' | 0x7F);
    text.iter().take(whole).take_while(plain).count()
}

/// Sorts ids by the bytes of their tokens. (Bentley and Sedgewick, "Fast algorithms for sorting and searching strings",
/// 1997.)
fn sort(ids: &mut [u32], texts: Texts<'_>) {
    // Smaller parts first: of the larger ones at most two wait for each halving.
    let mut waiting = heapless::Vec::<(usize, usize, usize), 64>::new();
    let mut part = (0, ids.len(), 0);
    loop {
        let (start, end, at) = part;
        if end.saturating_sub(start) > 1 {
            let (less, more) = partition(ids.get_mut(start..end).unwrap_or_default(), at, texts);
            let (less, more) = (start + less, start + more);
            // What ends here is all alike.
            let same = if texts.key(ids.get(less).copied().unwrap_or(0), at) == 0 { less } else { more };
            let [mut small, mut middle, mut large] = [(start, less, at), (less, same, at + 1), (more, end, at)];
            let len = |(start, end, _): (usize, usize, usize)| end.saturating_sub(start);
            if len(small) > len(middle) {
                core::mem::swap(&mut small, &mut middle);
            }
            if len(middle) > len(large) {
                core::mem::swap(&mut middle, &mut large);
            }
            if len(small) > len(middle) {
                core::mem::swap(&mut small, &mut middle);
            }
            let fits = waiting.push(large).is_ok() && waiting.push(middle).is_ok();
            debug_assert!(fits, "two parts for each halving of 2^22 ids");
            part = small;
            continue;
        }
        match waiting.pop() {
            Some(next) => part = next,
            None => return,
        }
    }
}

/// Puts ids whose byte is below that of a middle one first and those above it last. Returns where the second part and the
/// last one begin.
fn partition(ids: &mut [u32], at: usize, texts: Texts<'_>) -> (usize, usize) {
    let key_of = |ids: &[u32], index: usize| texts.key(ids.get(index).copied().unwrap_or(0), at);
    let [a, b, c] = [0, ids.len() / 2, ids.len().saturating_sub(1)].map(|index| key_of(ids, index));
    let pivot = a.max(b).min(c).max(a.min(b));
    let (mut less, mut index, mut more) = (0, 0, ids.len());
    while index < more {
        match key_of(ids, index).cmp(&pivot) {
            Ordering::Less => {
                exchange(ids, less, index);
                less += 1;
                index += 1;
            }
            Ordering::Equal => index += 1,
            Ordering::Greater => {
                more -= 1;
                exchange(ids, index, more);
            }
        }
    }
    (less, more)
}

/// Exchanges two ids of the list.
fn exchange(ids: &mut [u32], a: usize, b: usize) {
    let (Some(&first), Some(&second)) = (ids.get(a), ids.get(b)) else { return };
    ids.get_mut(a).into_iter().for_each(|place| *place = second);
    ids.get_mut(b).into_iter().for_each(|place| *place = first);
}
