//! Cached prefixes: finalized blocks, found by the block that they follow and by the tokens that they hold.

use super::block::{BLOCK_TOKENS, BlockId, BlockMeta, NO_BLOCK};
use crate::num::Xxh64;

/// Salt of all sequences: see [`Chain::root`]. So far nothing but the tokens changes keys and values that are cached.
pub(super) const SALT: u64 = 0;

/// The predecessor of a block: the start of a sequence, or one particular block.
///
/// A block that becomes cached gets a serial number that no other block ever has. This number identifies a parent, not
/// a hash. So a chain of equal parents is a chain of equal tokens from position 0 on, even if hashes collide. A parent
/// that was evicted is never mistaken for the block that its memory holds now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chain {
    /// Serial number of the block before, or the salt at the start of a sequence.
    pub(super) parent: u64,
    /// Number of blocks before.
    pub(super) index: u32,
}

impl Chain {
    /// Returns the start of a sequence. Sequences with different `salt` share no blocks: the salt stands for everything
    /// that changes keys and values besides the tokens and the cache itself.
    pub(super) fn root(salt: u64) -> Self {
        Self { parent: salt, index: 0 }
    }

    /// Returns the chain after a block, or `None` if that block is not cached.
    pub(super) fn after(block: &BlockMeta) -> Option<Self> {
        (block.serial != 0).then_some(Self { parent: block.serial, index: block.index.wrapping_add(1) })
    }

    /// Returns the hash at which the search in the table begins.
    pub(super) fn hash(self, tokens: &[u32; BLOCK_TOKENS]) -> u32 {
        let mut hasher = Xxh64::new();
        hasher.update(&self.parent.to_le_bytes());
        hasher.update(&self.index.to_le_bytes());
        hasher.update(bytemuck::bytes_of(&tokens.map(u32::to_le)));
        hasher.finish() as u32
    }
}

/// A hash table of block numbers with open addressing. The keys that are hashed lie in the blocks' metadata.
///
/// It has at least twice as many places as there are blocks, so it never fills and searches stay short.
#[derive(Debug)]
pub(super) struct PrefixTable<'a> {
    places: &'a mut [BlockId],
}

impl<'a> PrefixTable<'a> {
    /// Returns the number of places for `blocks` blocks, a power of two, or `None` if that is too large.
    pub(super) fn places(blocks: usize) -> Option<usize> {
        blocks.checked_mul(2)?.checked_next_power_of_two()
    }

    /// Returns an empty table. The number of `places` is a power of two, or 0: then nothing is ever cached.
    pub(super) fn new(places: &'a mut [BlockId]) -> Self {
        places.fill(NO_BLOCK);
        Self { places }
    }

    pub(super) fn is_enabled(&self) -> bool {
        !self.places.is_empty()
    }

    /// Returns the block that follows `chain` and holds `tokens`. Both are compared, not only hashed.
    pub(super) fn find(&self, blocks: &[BlockMeta], chain: Chain, tokens: &[u32; BLOCK_TOKENS]) -> Option<BlockId> {
        let mut place = self.home(chain.hash(tokens));
        for _ in 0..self.places.len() {
            let block = *self.places.get(place)?;
            let meta = blocks.get(block as usize)?;
            if meta.parent == chain.parent && meta.index == chain.index && meta.tokens == *tokens {
                return Some(block);
            }
            place = self.home(place as u32 + 1);
        }
        None
    }

    /// Enters a block with the hash that its metadata has. Returns whether there was a free place.
    pub(super) fn insert(&mut self, block: BlockId, hash: u32) -> bool {
        let mut place = self.home(hash);
        for _ in 0..self.places.len() {
            match self.places.get_mut(place) {
                Some(free) if *free == NO_BLOCK => {
                    *free = block;
                    return true;
                }
                _ => place = self.home(place as u32 + 1),
            }
        }
        false
    }

    /// Takes a block out. Blocks that were pushed past its place move back, so that a search can stop at an empty
    /// place.
    pub(super) fn remove(&mut self, blocks: &[BlockMeta], block: BlockId) {
        let Some(meta) = blocks.get(block as usize) else { return };
        let mut hole = self.home(meta.hash);
        let mut steps = 0..self.places.len();
        while self.places.get(hole) != Some(&block) {
            if steps.next().is_none() {
                return;
            }
            hole = self.home(hole as u32 + 1);
        }
        let mut place = hole;
        for _ in steps {
            place = self.home(place as u32 + 1);
            let Some(&moving) = self.places.get(place) else { return };
            let Some(meta) = blocks.get(moving as usize) else { break };
            // A search for this block passes through the hole, unless the hole comes before the block's home.
            let home = self.home(meta.hash);
            if self.distance(home, place) >= self.distance(hole, place) {
                self.put(hole, moving);
                hole = place;
            }
        }
        self.put(hole, NO_BLOCK);
    }

    /// Returns all blocks in the table.
    pub(super) fn blocks(&self) -> impl Iterator<Item = BlockId> {
        self.places.iter().copied().filter(|&block| block != NO_BLOCK)
    }

    fn put(&mut self, place: usize, block: BlockId) {
        if let Some(at) = self.places.get_mut(place) {
            *at = block;
        }
    }

    /// Returns a number modulo the size of the table.
    fn home(&self, hash: u32) -> usize {
        hash as usize & self.places.len().wrapping_sub(1)
    }

    /// Returns the number of places from `from` forward to `to`.
    fn distance(&self, from: usize, to: usize) -> usize {
        to.wrapping_sub(from) & self.places.len().wrapping_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytemuck::Zeroable;

    /// A full table with only three different hashes: long runs of collisions, some over the end.
    #[test]
    fn colliding_blocks_are_told_apart() {
        let mut blocks: std::vec::Vec<BlockMeta> = (0..16_u32)
            .map(|id| {
                let mut meta = BlockMeta::zeroed();
                (meta.parent, meta.tokens) = (u64::from(id), [id / 2; 16]);
                meta
            })
            .collect();
        let mut places = [0; 32];
        let mut table = PrefixTable::new(&mut places);
        let chain = |id: u32| Chain { parent: u64::from(id), index: 0 };
        for (id, block) in (0..).zip(&mut blocks) {
            // All blocks get one of three hashes.
            block.hash = [30, 31, 3][id as usize % 3];
        }
        let find = |table: &PrefixTable<'_>, blocks: &[BlockMeta], id: u32| {
            // `find` computes the hash, so the places are searched here.
            let mut place = table.home(blocks[id as usize].hash);
            while table.places[place] != NO_BLOCK && table.places[place] != id {
                place = table.home(place as u32 + 1);
            }
            table.places[place] == id
        };
        let mut entered = std::vec![false; 16];
        let mut state = 7u32;
        for _ in 0..5_000 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let id = state >> 28;
            if entered[id as usize] {
                table.remove(&blocks, id);
            } else {
                assert!(table.insert(id, blocks[id as usize].hash));
            }
            entered[id as usize] ^= true;
            for id in 0..16 {
                assert_eq!(find(&table, &blocks, id), entered[id as usize]);
            }
        }
        // The same tokens after another parent, or at another index, are another block. The table has no empty place,
        // so every search that fails meets all blocks, as if all hashes were equal.
        let mut places = [0; 16];
        let mut table = PrefixTable::new(&mut places);
        for (id, block) in (0..).zip(&mut blocks) {
            block.hash = chain(id).hash(&block.tokens);
            assert!(table.insert(id, block.hash));
        }
        for id in 0..16_u32 {
            assert_eq!(table.find(&blocks, chain(id), &[id / 2; 16]), Some(id));
            assert_eq!(table.find(&blocks, chain(id), &[id / 2 + 1; 16]), None);
            assert_eq!(table.find(&blocks, Chain { index: 1, ..chain(id) }, &[id / 2; 16]), None);
        }
        assert_eq!(PrefixTable::new(&mut []).find(&blocks, chain(0), &[0; 16]), None);
    }
}
