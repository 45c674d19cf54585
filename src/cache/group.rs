//! The block tables of one layer group, over its allocator and its pool.

use bytemuck::{Pod, Zeroable};

use super::block::{AllocError, BLOCK_TOKENS, BlockAllocator, BlockId, BlockMeta, NO_BLOCK};
use super::geometry::{KvGeometry, MAX_GROUPS};
use super::kind::KvKind;
use super::policy::CachePolicy;
use super::pool::Pool;
use super::prefix::{Chain, PrefixTable};
use super::stats::SequenceBlocks;
use crate::mem::{Arena, MemoryError};

/// The blocks of a sequence in the order of their positions: block `i` holds tokens `16 i ..`.
#[derive(Clone, Copy, Debug)]
pub struct BlockTable<'t> {
    blocks: &'t [BlockId],
}

impl<'t> BlockTable<'t> {
    /// The blocks in order.
    pub fn blocks(&self) -> &'t [BlockId] {
        self.blocks
    }

    /// The block of a position and the slot in it; `None` past the last block.
    pub fn locate(&self, position: usize) -> Option<(BlockId, usize)> {
        Some((*self.blocks.get(position / BLOCK_TOKENS)?, position % BLOCK_TOKENS))
    }
}

/// What a sequence has of a group besides the table's entries.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
struct Entry {
    /// Blocks in the table.
    blocks: u32,
    /// While a reservation has put a copy in the place of a shared partial block: that one, still referenced.
    copy_from: BlockId,
    /// Where in the table the copy is.
    copy_index: u32,
    /// Layers of it that are copied already.
    copied: u32,
}

const NAMES: [[&str; 4]; MAX_GROUPS] = [
    ["kv block metadata", "kv block tables", "kv table entries", "kv blocks"],
    ["kv block metadata (group 1)", "kv block tables (group 1)", "kv table entries (group 1)", "kv blocks (group 1)"],
];

const PREFIX_NAMES: [&str; MAX_GROUPS] = ["kv known prefixes", "kv known prefixes (group 1)"];

#[derive(Debug)]
pub(super) struct Group<'a> {
    pub(super) allocator: BlockAllocator<'a>,
    pub(super) pool: Pool<'a>,
    layers: usize,
    /// `[sequences, run]`.
    tables: &'a mut [BlockId],
    /// `[sequences]`.
    entries: &'a mut [Entry],
    /// Blocks per row of `tables`.
    run: usize,
}

impl<'a> Group<'a> {
    pub(super) fn carve(arena: &mut Arena<'a>, geometry: &KvGeometry, group: usize) -> Result<Self, MemoryError> {
        let [metadata, tables, entries, blocks] = *NAMES.get(group).ok_or(MemoryError::TooLarge)?;
        let run = geometry.blocks_per_sequence();
        let layers = geometry.groups.layers_in(group, geometry.layers);
        let meta = arena.slice::<BlockMeta>(metadata, geometry.blocks)?;
        let tables = arena.slice(tables, geometry.sequences.checked_mul(run).ok_or(MemoryError::TooLarge)?)?;
        let entries = arena.slice(entries, geometry.sequences)?;
        tables.fill(NO_BLOCK);
        entries.fill(Entry { blocks: 0, copy_from: NO_BLOCK, copy_index: 0, copied: 0 });
        let pool = Pool::carve(arena, blocks, geometry, layers)?;
        let allocator = if geometry.prefix_cache && geometry.kind == KvKind::Paged {
            let name = PREFIX_NAMES.get(group).ok_or(MemoryError::TooLarge)?;
            let places = PrefixTable::places(geometry.blocks).ok_or(MemoryError::TooLarge)?;
            BlockAllocator::with_prefixes(meta, arena.slice(name, places)?)
        } else {
            BlockAllocator::new(meta)
        };
        Ok(Self { allocator, pool, layers, tables, entries, run })
    }

    /// The table of the sequence in `slot`; empty for one that does not exist.
    #[inline]
    pub(super) fn table(&self, slot: usize) -> BlockTable<'_> {
        let blocks = self.entries.get(slot).map_or(0, |entry| entry.blocks as usize);
        let start = slot.wrapping_mul(self.run);
        BlockTable { blocks: self.tables.get(start..start.wrapping_add(blocks)).unwrap_or_default() }
    }

    /// Blocks to take before a sequence of `len` tokens can grow to `new_len`.
    pub(super) fn needed(&self, slot: usize, len: usize, new_len: usize) -> usize {
        let have = len.div_ceil(BLOCK_TOKENS);
        new_len.div_ceil(BLOCK_TOKENS).saturating_sub(have) + usize::from(self.shared_tail(slot, len).is_some())
    }

    /// Takes them. A shared partial block is replaced by an empty one, into which [`Group::copy_unit`]
    /// copies its keys and values.
    pub(super) fn extend(
        &mut self,
        slot: usize,
        len: usize,
        new_len: usize,
        policy: &dyn CachePolicy,
    ) -> Result<(), AllocError> {
        let tail = len / BLOCK_TOKENS;
        if let Some(shared) = self.shared_tail(slot, len) {
            let copy = policy.place(&mut self.allocator, slot, tail, self.run)?;
            self.allocator.copy_meta(shared, copy, len % BLOCK_TOKENS)?;
            self.set(slot, tail, copy)?;
            let entry = self.entry(slot)?;
            (entry.copy_from, entry.copy_index, entry.copied) = (shared, tail as u32, 0);
        } else if let Some((block, filled @ 1..)) = self.table(slot).locate(len) {
            self.allocator.reopen(block, filled)?;
        }
        for index in len.div_ceil(BLOCK_TOKENS)..new_len.div_ceil(BLOCK_TOKENS) {
            let block = policy.place(&mut self.allocator, slot, index, self.run)?;
            self.set(slot, index, block)?;
            self.entry(slot)?.blocks += 1;
        }
        Ok(())
    }

    /// Gives back all blocks past the first `len` tokens, and a copy that has no tokens of its own yet.
    pub(super) fn shrink(&mut self, slot: usize, len: usize) -> Result<(), AllocError> {
        let entry = *self.entry(slot)?;
        if entry.copy_from != NO_BLOCK {
            // The copy is of the partial block of the committed tokens, so the original goes back in its place.
            let copy = self.block(slot, entry.copy_index as usize)?;
            self.allocator.free(copy)?;
            self.set(slot, entry.copy_index as usize, entry.copy_from)?;
            self.entry(slot)?.copy_from = NO_BLOCK;
        }
        let keep = len.div_ceil(BLOCK_TOKENS);
        for index in (keep..entry.blocks as usize).rev() {
            let block = self.block(slot, index)?;
            self.allocator.free(block)?;
            self.set(slot, index, NO_BLOCK)?;
            self.entry(slot)?.blocks -= 1;
        }
        Ok(())
    }

    /// Makes the empty sequence `to` share the blocks of the first `len` tokens of `from`.
    pub(super) fn share(&mut self, from: usize, to: usize, len: usize) -> Result<(), AllocError> {
        for index in 0..len.div_ceil(BLOCK_TOKENS) {
            let block = self.block(from, index)?;
            self.allocator.share(block)?;
            self.set(to, index, block)?;
            self.entry(to)?.blocks += 1;
        }
        Ok(())
    }

    /// Makes the empty sequence `to` a copy of the first `len` tokens of `from`, in blocks of its own.
    pub(super) fn duplicate(
        &mut self,
        from: usize,
        to: usize,
        len: usize,
        policy: &dyn CachePolicy,
    ) -> Result<(), AllocError> {
        self.extend(to, 0, len, policy)?;
        for index in 0..len.div_ceil(BLOCK_TOKENS) {
            let (source, copy) = (self.block(from, index)?, self.block(to, index)?);
            self.allocator.copy_meta(source, copy, len - index * BLOCK_TOKENS)?;
            for layer in 0..self.layers {
                self.pool.copy_layer(source, copy, layer).ok_or(AllocError::InvalidBlock { block: source })?;
            }
        }
        Ok(())
    }

    /// Makes block `index` of a sequence known, if it is full and follows a known one. Where the same prefix is
    /// known already, the sequence goes on with that block, which has the same bits, and gives its own back: so
    /// whoever holds a known block holds the known ones before it.
    pub(super) fn publish(&mut self, slot: usize, index: usize, salt: u64) -> Result<(), AllocError> {
        let block = self.block(slot, index)?;
        let before = index.checked_sub(1).map(|before| self.block(slot, before)).transpose()?;
        let chain = match before {
            None => Some(Chain::root(salt)),
            Some(before) => self.allocator.meta(before).and_then(Chain::after),
        };
        match chain.and_then(|chain| self.allocator.publish(block, chain)) {
            Some(known) if known != block => {
                self.allocator.hold(known)?;
                self.set(slot, index, known)?;
                self.allocator.free(block)
            }
            _ => Ok(()),
        }
    }

    /// Calls `visit` with the known blocks that hold the first of these tokens, in order, until it answers false:
    /// for how many it answered true.
    pub(super) fn walk(
        &mut self,
        tokens: &[u32],
        salt: u64,
        mut visit: impl FnMut(&mut Self, BlockId, usize) -> Result<bool, AllocError>,
    ) -> Result<usize, AllocError> {
        let mut chain = Chain::root(salt);
        let mut count = 0;
        for tokens in tokens.as_chunks::<BLOCK_TOKENS>().0 {
            let Some(block) = self.allocator.find(chain, tokens) else { break };
            let Some(next) = self.allocator.meta(block).and_then(Chain::after) else { break };
            if !visit(self, block, count)? {
                break;
            }
            chain = next;
            count += 1;
        }
        Ok(count)
    }

    /// Appends a known block to the table of a sequence.
    pub(super) fn adopt(&mut self, slot: usize, index: usize, block: BlockId) -> Result<(), AllocError> {
        self.allocator.hold(block)?;
        self.set(slot, index, block)?;
        self.entry(slot)?.blocks += 1;
        Ok(())
    }

    /// All blocks that a sequence has a reference to.
    pub(super) fn held(&self, slot: usize) -> impl Iterator<Item = BlockId> {
        let copied = self.entries.get(slot).map(|entry| entry.copy_from);
        let blocks = self.table(slot).blocks.iter().copied().chain(copied);
        blocks.filter(|&block| block != NO_BLOCK)
    }

    /// How many of them nobody else holds, and how many somebody does.
    pub(super) fn count(&self, slot: usize) -> SequenceBlocks {
        let mut count = SequenceBlocks::default();
        for block in self.held(slot) {
            let own = self.allocator.meta(block).is_some_and(|meta| meta.ref_count() == 1);
            *(if own { &mut count.own } else { &mut count.shared }) += 1;
        }
        count
    }

    /// Considers (or no longer considers) closing a sequence.
    pub(super) fn mark(&mut self, slot: usize, on: bool) -> Result<(), AllocError> {
        for index in 0..self.table(slot).blocks.len() {
            let block = self.block(slot, index)?;
            if block != NO_BLOCK {
                self.allocator.mark(block, on)?;
            }
        }
        Ok(())
    }

    /// [`Group::needed`], once the marked sequences are closed.
    pub(super) fn needed_after(&self, slot: usize, len: usize, new_len: usize) -> usize {
        let settled = self.shared_tail(slot, len).is_some_and(|tail| self.allocator.references_after(tail) <= 1);
        self.needed(slot, len, new_len).saturating_sub(usize::from(settled))
    }

    /// Copies one layer of the sequence's partial block, if that is being copied: whether it was.
    pub(super) fn copy_unit(&mut self, slot: usize) -> Result<bool, AllocError> {
        if self.copy_units(slot) == 0 {
            return Ok(false);
        }
        let Entry { copy_from, copy_index, copied, .. } = *self.entry(slot)?;
        let copy = self.block(slot, copy_index as usize)?;
        let invalid = AllocError::InvalidBlock { block: copy_from };
        self.pool.copy_layer(copy_from, copy, copied as usize).ok_or(invalid)?;
        self.entry(slot)?.copied += 1;
        Ok(true)
    }

    /// Lets go of the original of a copy, once the sequence has tokens of its own in the copy.
    pub(super) fn settle(&mut self, slot: usize) -> Result<(), AllocError> {
        let entry = self.entry(slot)?;
        let original = core::mem::replace(&mut entry.copy_from, NO_BLOCK);
        if original == NO_BLOCK { Ok(()) } else { self.allocator.free(original) }
    }

    /// Layers that are still to be copied for a sequence.
    pub(super) fn copy_units(&self, slot: usize) -> usize {
        match self.entries.get(slot) {
            Some(entry) if entry.copy_from != NO_BLOCK => self.layers.saturating_sub(entry.copied as usize),
            _ => 0,
        }
    }

    /// The partial block of a sequence of `len` tokens, if somebody else has it, too.
    fn shared_tail(&self, slot: usize, len: usize) -> Option<BlockId> {
        let (block, filled) = self.table(slot).locate(len)?;
        (filled > 0 && self.allocator.meta(block)?.ref_count() > 1).then_some(block)
    }

    fn block(&self, slot: usize, index: usize) -> Result<BlockId, AllocError> {
        self.table(slot).blocks.get(index).copied().ok_or(AllocError::InvalidBlock { block: NO_BLOCK })
    }

    fn set(&mut self, slot: usize, index: usize, block: BlockId) -> Result<(), AllocError> {
        let place = slot.checked_mul(self.run).and_then(|start| start.checked_add(index));
        let place = place.filter(|_| index < self.run).and_then(|place| self.tables.get_mut(place));
        *place.ok_or(AllocError::InvalidBlock { block })? = block;
        Ok(())
    }

    fn entry(&mut self, slot: usize) -> Result<&mut Entry, AllocError> {
        self.entries.get_mut(slot).ok_or(AllocError::InvalidBlock { block: NO_BLOCK })
    }
}
