//! The tokens of a vocabulary in the order of their bytes, in the caller's scratch.

use core::cmp::Ordering;

use super::trie::{MAX_BYTES, MOST, Node, TokenTrie, TrieError, Vocabulary};

/// All ids in the order of their bytes.
pub(super) struct Sorted<'s> {
    pub(super) ids: &'s [u32],
    texts: Texts<'s>,
}

/// The bytes of all tokens.
#[derive(Clone, Copy)]
struct Texts<'s> {
    /// By id: where its bytes end.
    ends: &'s [u32],
    bytes: &'s [u8],
}

impl Texts<'_> {
    fn of(&self, id: u32) -> &[u8] {
        let end = |index: Option<usize>| index.and_then(|index| self.ends.get(index)).copied().unwrap_or(0) as usize;
        let text = self.bytes.get(end((id as usize).checked_sub(1))..end(Some(id as usize))).unwrap_or_default();
        if text.len() > MAX_BYTES { &[] } else { text }
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
        let texts = Texts { ends, bytes };
        sort(ids, texts);
        Ok(Self { ids, texts })
    }

    fn needed(vocabulary: &dyn Vocabulary) -> usize {
        TokenTrie::scratch_len(vocabulary)
    }

    /// Tokens that have bytes, in their order.
    pub(super) fn texts(&self) -> impl Iterator<Item = (u32, &[u8])> {
        self.ids.iter().map(|&id| (id, self.texts.of(id))).filter(|(_, text)| !text.is_empty())
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

    /// Calls `f` with each node: its byte, its number of bytes, and the token that ends there.
    fn nodes(&self, keeps: impl Fn(&[u8]) -> bool, mut f: impl FnMut(u8, usize, Option<u32>)) {
        let mut before: &[u8] = &[];
        for (id, text) in self.texts().filter(|(_, text)| keeps(text)) {
            let shared = before.iter().zip(text).take_while(|(a, b)| a == b).count();
            for (&byte, depth) in text.iter().zip(1..).skip(shared) {
                f(byte, depth, (depth == text.len()).then_some(id));
            }
            before = text;
        }
    }

    pub(super) fn count(&self, keeps: impl Fn(&[u8]) -> bool) -> usize {
        let mut count = 0;
        self.nodes(keeps, |_, _, _| count += 1);
        count
    }

    pub(super) fn fill(&self, keeps: impl Fn(&[u8]) -> bool, nodes: &mut [Node]) {
        let mut places = nodes.iter_mut();
        self.nodes(keeps, |byte, depth, token| {
            if let Some(place) = places.next() {
                *place = Node::new(byte, depth, token);
            }
        });
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
