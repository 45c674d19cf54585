//! The pairs of byte-level BPE: which neighbours merge, and their rank.
//!
//! A merge "left right" says how the token of both texts is made. So it is kept with that token: its rank, and the
//! length of the left part. Neighbours merge if their text is that of a token that is made with the length of the left
//! one. Nothing has to know which tokens the parts are.

use bytemuck::{Pod, Zeroable};
use gguf_rs_lite::{Array, ValueType};

use super::error::VocabError;
use super::kinds::Kinds;
use super::merge::Pairs;
use super::table::{NONE, Tokens};
use super::text::{Counted, Piece};
use super::vocab::MERGES;

/// Set in the length of a left part: the same token is made in another way, too.
const MORE: u32 = 1 << 31;

/// The best way to make a token.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Best {
    /// [`NONE`] where the token is not made of others.
    rank: u32,
    /// Bytes of the left part, with [`MORE`].
    left: u32,
    /// Where the token's text begins in the file's strings. It is here, too, so that a search reads one place less.
    start: u32,
}

/// Another way to make a token, in a list in the order of the ranks. The element of a best way has `next` only.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Other {
    /// Bytes of the left part, with [`MORE`].
    left: u32,
    /// The rank of the next way; valid where the left part of this one has [`MORE`].
    next: u32,
}

/// The merges by the token that they make.
#[derive(Clone, Copy, Debug)]
pub(super) struct Merges<'a> {
    /// By token.
    best: &'a [Best],
    /// By rank.
    others: &'a [Other],
}

impl<'a> Merges<'a> {
    /// Fills the tables: an element of `best` for each token, and one of `others` for each string of `array`.
    ///
    /// Merges that make no token, or a control token, cannot take part. The better rank wins where a pair occurs twice.
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
            // In most vocabularies each merge makes the next token, or the same one as the merge before.
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

    /// The rank of the merge that makes a token with a left part of `left` bytes.
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

/// Pairs that a merge names; the lowest rank merges first.
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

/// The token that a merge makes, if it is one of `likely`, and the length of the left part. For short merges.
#[inline]
fn short_merge(text: &Counted, tokens: &Tokens<'_, '_>, likely: [u32; 2]) -> Option<(u32, u32)> {
    let (left, joined) = text.short?.without_blank()?;
    let len = text.len.checked_sub(1).filter(|&len| left < len)?;
    tokens.find_short(joined, len, likely).map(|id| (id, left as u32))
}

/// The token that a merge makes, and the length of the left part.
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
    // A left part that does not fit is longer than any text that is encoded.
    let left = u32::try_from(left).ok().filter(|left| left & MORE == 0)?;
    tokens.find_joined(first, second, likely).map(|id| (id, left))
}

/// Enters the merge of a rank, unless a better one makes the token with the same left part.
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
