//! The tables of a vocabulary: ids to texts, texts to ids, and pairs to merged tokens.

use gguf_rs_lite::Array;

use super::kinds::Kinds;
use super::slots::{Slots, hash_bytes, hash_iter, hash_pair};
use super::vocab::{MERGES, TOKENS, VocabError};

/// Bytes of the count in front of each string of an array.
const COUNT_BYTES: usize = 8;

/// Stands for "no token" in the tables.
pub(super) const NONE: u32 = u32::MAX;

/// The texts of the tokens, and the ids of the texts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tokens<'m, 'a> {
    /// The strings as they are in the file.
    strings: &'m [u8],
    /// Where each token's text begins in `strings`, and where the next one would.
    offsets: &'a [u32],
    slots: Slots<&'a [u32]>,
    /// Bytes of the longest text.
    longest: usize,
}

impl<'m, 'a> Tokens<'m, 'a> {
    /// Fills the tables: one offset more than there are tokens, and the slots for them.
    ///
    /// A text that occurs twice belongs to the lower id.
    pub(super) fn new(array: Array<'m>, offsets: &'a mut [u32], slots: &'a mut [u32]) -> Result<Self, VocabError> {
        let strings = array.bytes();
        if u32::try_from(strings.len()).is_err() {
            return Err(VocabError::TooLarge { key: TOKENS, bytes: strings.len() });
        }
        let texts = array.strings().ok_or(VocabError::WrongType(TOKENS))?;
        let ends = texts.clone().scan(0, |end: &mut usize, text| {
            *end = end.saturating_add(COUNT_BYTES).saturating_add(text.len());
            Some(*end)
        });
        for (offset, end) in offsets.iter_mut().zip(core::iter::once(0).chain(ends)) {
            // Below 4 GiB, as the array is; the last one, which is a bound only, is cut there.
            *offset = u32::try_from(end.saturating_add(COUNT_BYTES)).unwrap_or(u32::MAX);
        }
        let longest = texts.clone().map(<[u8]>::len).max().unwrap_or(0);
        let offsets: &[u32] = offsets;
        let mut slots = Slots::new(slots, array.len());
        for (id, text) in (0..).zip(texts).filter(|(_, text)| !text.is_empty()) {
            let same = |other| text_of(strings, offsets, other) == Some(text);
            slots.insert(hash_bytes(text), id, same).map_err(|_| VocabError::Collisions { key: TOKENS })?;
        }
        Ok(Self { strings, offsets, slots: slots.freeze(), longest })
    }

    /// Number of tokens.
    pub(super) fn len(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    /// Bytes of the longest text.
    pub(super) fn longest(&self) -> usize {
        self.longest
    }

    /// The text of a token as it is in the file.
    pub(super) fn text(&self, id: u32) -> Option<&'m [u8]> {
        text_of(self.strings, self.offsets, id)
    }

    /// The token with this text.
    pub(super) fn find(&self, text: &[u8]) -> Option<u32> {
        if text.len() > self.longest {
            return None;
        }
        self.slots.find(hash_bytes(text), |id| self.text(id) == Some(text))
    }

    /// The token with this text, which need not lie in one piece.
    pub(super) fn find_bytes(&self, text: impl Iterator<Item = u8> + Clone) -> Option<u32> {
        let hash = hash_iter(text.clone());
        self.slots.find(hash, |id| self.text(id).is_some_and(|other| other.iter().copied().eq(text.clone())))
    }
}

fn text_of<'m>(strings: &'m [u8], offsets: &[u32], id: u32) -> Option<&'m [u8]> {
    let start = *offsets.get(id as usize)? as usize;
    let next = *offsets.get((id as usize).checked_add(1)?)? as usize;
    strings.get(start..next.checked_sub(COUNT_BYTES)?)
}

/// A merge of byte-level BPE: the two tokens and the one that they become.
pub(super) type Merge = [u32; 3];

/// The merges by their pair of tokens.
#[derive(Clone, Copy, Debug)]
pub(super) struct Merges<'a> {
    /// By rank: the first is the best.
    rows: &'a [Merge],
    slots: Slots<&'a [u32]>,
}

impl<'a> Merges<'a> {
    /// Fills the tables: one row for each string of `array`, and the slots for them.
    ///
    /// Merges of texts that are not tokens, or that make none or a control token, cannot take part. The better rank wins where a pair
    /// occurs twice.
    pub(super) fn new(
        array: Array<'_>,
        tokens: &Tokens<'_, '_>,
        kinds: &Kinds<'_>,
        rows: &'a mut [Merge],
        slots: &'a mut [u32],
    ) -> Result<Self, VocabError> {
        let texts = array.strings().ok_or(VocabError::WrongType(MERGES))?;
        let mut last = 0;
        for (row, text) in rows.iter_mut().zip(texts) {
            let merge = resolve(text, tokens, last);
            if let Some([_, _, merged]) = merge {
                last = merged;
            }
            *row = merge.filter(|&[_, _, merged]| kinds.get(merged).is_text()).unwrap_or([NONE; 3]);
        }
        let rows: &[Merge] = rows;
        let mut slots = Slots::new(slots, rows.len());
        for (rank, &[left, right, merged]) in (0..).zip(rows) {
            if merged != NONE {
                let same = |other: u32| is_pair(rows, other, left, right);
                let inserted = slots.insert(hash_pair(left, right), rank, same);
                inserted.map_err(|_| VocabError::Collisions { key: MERGES })?;
            }
        }
        Ok(Self { rows, slots: slots.freeze() })
    }

    /// Rank and merged token of a pair.
    #[inline]
    pub(super) fn find(&self, left: u32, right: u32) -> Option<(u32, u32)> {
        let rank = self.slots.find(hash_pair(left, right), |rank| is_pair(self.rows, rank, left, right))?;
        self.rows.get(rank as usize).map(|&[_, _, merged]| (rank, merged))
    }
}

fn is_pair(rows: &[Merge], rank: u32, left: u32, right: u32) -> bool {
    rows.get(rank as usize).is_some_and(|&[l, r, _]| (l, r) == (left, right))
}

/// The tokens of `left right`; the first blank after the first byte separates them.
///
/// In most vocabularies each merge makes the same token as the one before, or the next one: these are tried first.
fn resolve(text: &[u8], tokens: &Tokens<'_, '_>, last: u32) -> Option<Merge> {
    let blank = text.iter().skip(1).position(|&byte| byte == b' ')?.checked_add(1)?;
    let (left, right) = text.split_at_checked(blank)?;
    let right = right.strip_prefix(b" ")?;
    let is_it = |&id: &u32| tokens.text(id).and_then(|text| text.strip_prefix(left)) == Some(right);
    let likely = [last.wrapping_add(1), last].into_iter().find(is_it);
    let merged = likely.or_else(|| tokens.find_bytes(left.iter().chain(right).copied()))?;
    Some([tokens.find(left)?, tokens.find(right)?, merged])
}
