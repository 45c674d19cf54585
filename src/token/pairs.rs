//! The pairs of byte-level BPE: which neighbouring tokens merge, and in which order.
//!
//! A merge "left right" names the texts of two tokens, and makes the token with both texts. So it is stored with the
//! token that it makes, as its rank and the length of its left part. Two neighbours merge if their joined text is a
//! token that has a merge with the length of the left neighbour. The ids of the parts are not needed.

use bytemuck::{Pod, Zeroable};
use gguf_rs_lite::{Array, ValueType};

use super::error::VocabError;
use super::kinds::Kinds;
use super::merge::Pairs;
use super::table::{NONE, Tokens};
use super::text::{Counted, Piece};
use super::vocab::MERGES;

/// Flag in the length of a left part: another merge makes the same token.
const MORE: u32 = 1 << 31;

/// The merge with the best rank of those that make a token.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Best {
    /// Rank of the merge, or [`NONE`] if no merge makes the token.
    rank: u32,
    /// Length of the left part in bytes, with the flag [`MORE`].
    left: u32,
    /// Offset of the token's text in the strings of the file. This copy saves a search one read.
    start: u32,
}

/// Another merge that makes a token, in a linked list by increasing rank. The element of a best merge uses `next` only.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Other {
    /// Length of the left part in bytes, with the flag [`MORE`].
    left: u32,
    /// Rank of the next merge in the list. It is valid if the length of this merge's left part has [`MORE`].
    next: u32,
}

/// The merges, indexed by the token that they make.
#[derive(Clone, Copy, Debug)]
pub(super) struct Merges<'a> {
    /// Best merge of each token, by id.
    best: &'a [Best],
    /// Other merges, by rank.
    others: &'a [Other],
}

impl<'a> Merges<'a> {
    /// Fills the tables: an element of `best` for each token, and one of `others` for each string of `array`.
    ///
    /// Merges that make no token or a control token are left out. Of two equal merges, the one with the better rank
    /// counts.
    pub(super) fn new(
        array: Array<'_>,
        tokens: &Tokens<'_, '_>,
        kinds: &Kinds<'_>,
        best: &'a mut [Best],
        others: &'a mut [Other],
    ) -> Result<Self, VocabError> {
        if array.element_type() != ValueType::String {
            return Err(VocabError::WrongType(MERGES));
        }
        best.fill(Best { rank: NONE, left: 0, start: 0 });
        let (strings, mut start, mut last) = (array.bytes(), Counted::COUNT, NONE);
        for rank in 0..u32::try_from(array.len()).unwrap_or(NONE) {
            let Some(text) = Counted::at(strings, start) else { break };
            // In most vocabularies each merge makes the next token, or the same one as the merge before it.
            let likely = [last.wrapping_add(1), last];
            let made =
                short_merge(&text, tokens, likely).or_else(|| long_merge(strings, start, text.len, tokens, likely));
            if let Some((id, left)) = made {
                last = id;
                if kinds.get(id).is_text() {
                    enter(best, others, id, Best { rank, left, start: tokens.start(id) });
                }
            }
            start = start.saturating_add(text.len).saturating_add(Counted::COUNT);
        }
        Ok(Self { best, others })
    }

    /// Returns the rank of the merge that makes a token with a left part of `left` bytes.
    #[inline]
    fn rank(&self, best: &Best, left: u32) -> Option<u32> {
        if best.left & !MORE == left { Some(best.rank) } else { self.other_rank(best, left) }
    }

    #[inline(never)]
    fn other_rank(&self, best: &Best, left: u32) -> Option<u32> {
        let (mut rank, mut at) = (best.rank, best.left);
        while at & MORE != 0 {
            rank = self.others.get(rank as usize)?.next;
            at = self.others.get(rank as usize)?.left;
            if at & !MORE == left {
                return Some(rank);
            }
        }
        None
    }
}

/// Pairs that a merge names. The pair with the lowest rank merges first.
pub(super) struct ByRank<'t> {
    pub(super) tokens: &'t Tokens<'t, 't>,
    pub(super) merges: &'t Merges<'t>,
}

impl Pairs for ByRank<'_> {
    #[inline]
    fn pair(&self, left: u32, right: u32, left_len: u32, piece: &Piece<'_>) -> Option<(u32, u32)> {
        if left == NONE || right == NONE {
            return None;
        }
        self.tokens.find_hash(piece.hash, |id| {
            let best = self.merges.best.get(id as usize)?;
            let rank = self.merges.rank(best, left_len)?;
            self.tokens.is_at(best.start, piece).then_some((rank, id))
        })
    }
}

/// Returns the token that a short merge makes, if it is one of `likely`, and the length of the left part.
#[inline]
fn short_merge(text: &Counted, tokens: &Tokens<'_, '_>, likely: [u32; 2]) -> Option<(u32, u32)> {
    let (left, joined) = text.short?.without_blank()?;
    let len = text.len.checked_sub(1).filter(|&len| left < len)?;
    tokens.find_short(joined, len, likely).map(|id| (id, left as u32))
}

/// Returns the token that a merge makes, and the length of the left part.
///
/// The first blank after the first byte separates the parts.
#[inline(never)]
fn long_merge(
    strings: &[u8],
    start: usize,
    len: usize,
    tokens: &Tokens<'_, '_>,
    likely: [u32; 2],
) -> Option<(u32, u32)> {
    let text = strings.get(start..start.checked_add(len)?)?;
    let left = text.iter().skip(1).position(|&byte| byte == b' ')?.checked_add(1)?;
    let (first, second) = text.split_at_checked(left)?;
    let second = second.strip_prefix(b" ").filter(|second| !second.is_empty())?;
    // A left part with a larger length is longer than any text that is encoded.
    let left = u32::try_from(left).ok().filter(|left| left & MORE == 0)?;
    tokens.find_joined(first, second, likely).map(|id| (id, left))
}

/// Enters a merge, unless a merge with a better rank makes the token from the same left part.
fn enter(best: &mut [Best], others: &mut [Other], id: u32, merge: Best) {
    let Best { rank, left, .. } = merge;
    let Some(first) = best.get_mut(id as usize) else { return };
    if first.rank == NONE {
        *first = merge;
        return;
    }
    let (mut end, mut at) = (first.rank, &mut first.left);
    while *at & !MORE != left {
        if *at & MORE == 0 {
            *at |= MORE;
            if let Some(before) = others.get_mut(end as usize) {
                before.next = rank;
            }
            if let Some(place) = others.get_mut(rank as usize) {
                *place = Other { left, next: NONE };
            }
            return;
        }
        let Some(next) = others.get(end as usize).map(|other| other.next) else { return };
        let Some(other) = others.get_mut(next as usize) else { return };
        (end, at) = (next, &mut other.left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_first_of_equal_merges_wins(entries in prop::collection::vec((0u32..3, 1u32..6), 0..30)) {
            let mut best = [Best { rank: NONE, left: 0, start: 0 }; 3];
            let mut others = vec![Other { left: 99, next: 99 }; entries.len()];
            for (rank, &(id, left)) in (0..).zip(&entries) {
                enter(&mut best, &mut others, id, Best { rank, left, start: 7 });
            }
            let merges = Merges { best: &best, others: &others };
            for (id, left) in (0..3).flat_map(|id| (1..7).map(move |left| (id, left))) {
                let first = entries.iter().position(|&entry| entry == (id, left)).map(|rank| rank as u32);
                prop_assert_eq!(merges.rank(&best[id as usize], left), first);
            }
        }
    }
}
