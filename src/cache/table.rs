//! The block table of a sequence.

use super::block::{BLOCK_TOKENS, BlockId, NO_BLOCK};
use crate::kv::table_entry;

/// The blocks of a sequence in a layer group: block `i` holds positions `16 i ..`.
///
/// If the group has a window, blocks that no query sees any more are given back. The blocks behind the sinks take turns
/// in a ring of entries, so that the table does not grow with the position.
///
/// [Example](crate::cache#example).
#[derive(Clone, Copy, Debug)]
pub struct BlockTable<'t> {
    pub(super) entries: &'t [BlockId],
    pub(super) layout: Layout,
    /// Index of the first block behind the sinks that is still there.
    pub(super) first: usize,
    /// Number of blocks up to the end of the sequence. Blocks that were given back count, too.
    pub(super) end: usize,
}

impl<'t> BlockTable<'t> {
    /// Returns the entries. Without a window these are the blocks in order. With a window these are the blocks of the
    /// sinks and then the ring, where an entry without a block is [`BlockId::MAX`].
    pub fn blocks(&self) -> &'t [BlockId] {
        self.entries
    }

    /// Returns block `index`, or `None` past the last block and if the block was given back.
    #[inline]
    pub fn block(&self, index: usize) -> Option<BlockId> {
        if index >= self.end || (self.layout.sinks..self.first).contains(&index) {
            return None;
        }
        self.entries.get(self.layout.entry(index)).copied().filter(|&block| block != NO_BLOCK)
    }

    /// Returns the block of a position and the slot in it, or `None` if the sequence has no such block.
    pub fn locate(&self, position: usize) -> Option<(BlockId, usize)> {
        Some((self.block(position / BLOCK_TOKENS)?, position % BLOCK_TOKENS))
    }
}

/// Which entry of a table each block has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    /// Number of blocks with positions that may be visible from anywhere. They have the first entries.
    pub(super) sinks: usize,
    /// Number of entries in which the other blocks take turns, or 0 if each block has its own entry.
    pub(super) ring: usize,
}

impl Layout {
    #[inline]
    pub(super) fn entry(self, index: usize) -> usize {
        table_entry(index, self.sinks, self.ring)
    }
}

/// Error: blocks that a sequence needs are gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gone {
    /// A position that would be seen and is gone.
    pub(super) position: usize,
    /// First position behind the sinks that is still there.
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
