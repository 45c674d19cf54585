//! The block table of a sequence.

use super::block::{BLOCK_TOKENS, BlockId, NO_BLOCK};
use crate::kv::table_entry;

/// The blocks of a sequence in a layer group: block `i` holds positions `16 i ..`.
///
/// Where the group has a window, blocks that nobody sees any more are given back, and those that follow the sinks take
/// turns in a ring of entries, so that the table does not grow with the position.
///
/// [Example](crate::cache#example).
#[derive(Clone, Copy, Debug)]
pub struct BlockTable<'t> {
    pub(super) entries: &'t [BlockId],
    pub(super) layout: Layout,
    /// The first block past the sinks that is still there.
    pub(super) first: usize,
    /// Blocks up to the end, those given back included.
    pub(super) end: usize,
}

impl<'t> BlockTable<'t> {
    /// Returns the entries. Without a window these are the blocks in order; otherwise those of the sinks and then the
    /// ring, and [`BlockId::MAX`] where there is none.
    pub fn blocks(&self) -> &'t [BlockId] {
        self.entries
    }

    /// Block `index`; `None` past the last one, and where it was given back.
    #[inline]
    pub fn block(&self, index: usize) -> Option<BlockId> {
        if index >= self.end || (self.layout.sinks..self.first).contains(&index) {
            return None;
        }
        self.entries.get(self.layout.entry(index)).copied().filter(|&block| block != NO_BLOCK)
    }

    /// Returns the block of a position and the slot in it; `None` where there is none.
    pub fn locate(&self, position: usize) -> Option<(BlockId, usize)> {
        Some((self.block(position / BLOCK_TOKENS)?, position % BLOCK_TOKENS))
    }
}

/// Where the entries of a table are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    /// Blocks with positions that may be visible from anywhere: the first entries.
    pub(super) sinks: usize,
    /// Entries that the other blocks take turns in; 0 where there is one for each.
    pub(super) ring: usize,
}

impl Layout {
    #[inline]
    pub(super) fn entry(self, index: usize) -> usize {
        table_entry(index, self.sinks, self.ring)
    }
}

/// Blocks that a sequence would need are gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gone {
    /// A position that would be seen.
    pub(super) position: usize,
    /// The first position past the sinks that is still there.
    pub(super) first: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All small tables, with every block at every place of the ring.
    #[test]
    fn every_table_finds_the_blocks_that_are_there() {
        let mut tables = 0;
        for (sinks, ring) in (0..=4).flat_map(|sinks| (0..=5).map(move |ring| (sinks, ring))) {
            let layout = Layout { sinks, ring };
            for end in 0..=16_usize {
                // The blocks of the sinks stay; of the others, as many as the ring has places for are there.
                let firsts =
                    if ring == 0 { sinks..=sinks } else { sinks.max(end.saturating_sub(ring))..=sinks.max(end) };
                for first in firsts {
                    let is_there = |index: usize| index < end && (index < sinks || index >= first);
                    let mut entries = vec![NO_BLOCK; if ring == 0 { 16 } else { sinks + ring }];
                    for index in (0..end).filter(|&index| is_there(index)) {
                        let entry = &mut entries[layout.entry(index)];
                        assert_eq!(*entry, NO_BLOCK, "two blocks have a place: {layout:?} {first}..{end}");
                        *entry = 100 + index as BlockId;
                    }
                    let table = BlockTable { entries: &entries, layout, first, end };
                    for position in 0..20 * BLOCK_TOKENS {
                        let (index, slot) = (position / BLOCK_TOKENS, position % BLOCK_TOKENS);
                        let wanted = is_there(index).then_some((100 + index as BlockId, slot));
                        assert_eq!(table.locate(position), wanted, "{layout:?} {first}..{end}");
                    }
                    tables += 1;
                }
            }
        }
        assert_eq!(tables, 1460);
    }
}
