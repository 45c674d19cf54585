//! The block tables of one layer group, over its allocator and its pool.

use bytemuck::{Pod, Zeroable};

use super::allocator::BlockAllocator;
use super::block::{AllocError, BLOCK_TOKENS, BlockId, BlockMeta, NO_BLOCK};
use super::geometry::KvGeometry;
use super::kind::KvKind;
use super::policy::CachePolicy;
use super::pool::Pool;
use super::prefix::PrefixTable;
use super::stats::SequenceBlocks;
use super::table::{BlockTable, Gone, Layout};
use crate::device::KvLayout;
use crate::kv::{MAX_GROUPS, Visibility};
use crate::mem::{Arena, MemoryError};

/// State of one sequence in a layer group, apart from the entries of its block table.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Entry {
    /// Number of blocks up to the end of the sequence. Blocks that were given back count, too.
    pub(super) blocks: u32,
    /// Index of the first block behind the sinks that the sequence still has.
    first: u32,
    /// Shared partial block that a reservation has replaced by a copy, still referenced; `NO_BLOCK` if there is none.
    copy_from: BlockId,
    /// Index of the copy in the sequence.
    copy_index: u32,
    /// Number of layers that are copied already.
    copied: u32,
}

const NAMES: [[&str; 4]; MAX_GROUPS] = [
    ["kv block metadata", "kv block tables", "kv table entries", "kv blocks"],
    ["kv block metadata (group 1)", "kv block tables (group 1)", "kv table entries (group 1)", "kv blocks (group 1)"],
];

const PREFIX_NAMES: [&str; MAX_GROUPS] = ["kv cached prefixes", "kv cached prefixes (group 1)"];

#[derive(Debug)]
pub(super) struct Group<'a> {
    pub(super) allocator: BlockAllocator<'a>,
    pub(super) pool: Pool<'a>,
    layers: usize,
    /// `[sequences, run]`.
    tables: &'a mut [BlockId],
    /// `[sequences]`.
    entries: &'a mut [Entry],
    /// Number of entries per row of `tables`.
    run: usize,
    layout: Layout,
    visibility: Visibility,
    /// Whether blocks that no query sees any more are given back.
    pub(super) forgets: bool,
}

impl<'a> Group<'a> {
    pub(super) fn carve(
        arena: &mut Arena<'a>,
        geometry: &KvGeometry,
        group: usize,
        on_device: bool,
    ) -> Result<Self, MemoryError> {
        let [metadata, tables, entries, blocks] = *NAMES.get(group).ok_or(MemoryError::TooLarge)?;
        let run = geometry.table_len(group);
        let layers = geometry.groups.layers_in(group, geometry.layers);
        let KvLayout { sinks, ring, .. } = geometry.layout(group).ok_or(MemoryError::TooLarge)?;
        let geometry = KvGeometry { blocks: geometry.blocks_in(group).ok_or(MemoryError::TooLarge)?, ..*geometry };
        let meta = arena.slice::<BlockMeta>(metadata, geometry.blocks)?;
        let tables = arena.slice(tables, geometry.sequences.checked_mul(run).ok_or(MemoryError::TooLarge)?)?;
        let entries = arena.slice(entries, geometry.sequences)?;
        tables.fill(NO_BLOCK);
        entries.fill(Entry { blocks: 0, first: sinks as u32, copy_from: NO_BLOCK, copy_index: 0, copied: 0 });
        let pool = Pool::carve(arena, blocks, &geometry, group, on_device)?;
        let allocator = if geometry.prefix_cache && geometry.kind == KvKind::Paged {
            let name = PREFIX_NAMES.get(group).ok_or(MemoryError::TooLarge)?;
            let places = PrefixTable::places(geometry.blocks).ok_or(MemoryError::TooLarge)?;
            BlockAllocator::with_prefixes(meta, arena.slice(name, places)?)
        } else {
            BlockAllocator::new(meta)
        };
        Ok(Self {
            allocator,
            pool,
            layers,
            tables,
            entries,
            run,
            layout: Layout { sinks, ring },
            visibility: geometry.visible(group),
            forgets: geometry.forgets(group),
        })
    }

    /// Returns which positions the layers see.
    pub(super) fn visibility(&self) -> Visibility {
        self.visibility
    }

    /// Returns the table of the sequence in `slot`, which is empty if there is no such slot.
    #[inline]
    pub(super) fn table(&self, slot: usize) -> BlockTable<'_> {
        let (end, first) = self.entries.get(slot).map_or((0, 0), |entry| (entry.blocks as usize, entry.first as usize));
        let start = slot.wrapping_mul(self.run);
        let entries = if self.layout.ring > 0 { self.run } else { end };
        let entries = self.tables.get(start..start.wrapping_add(entries)).unwrap_or_default();
        BlockTable { entries, layout: self.layout, first, end }
    }

    /// Returns the largest number of tokens by which a sequence of `len` tokens can be extended at a time.
    pub(super) fn room(&self, slot: usize, len: usize) -> usize {
        let end = match self.layout.ring {
            0 => self.run,
            ring => self.table(slot).first.saturating_add(ring),
        };
        end.saturating_mul(BLOCK_TOKENS).saturating_sub(len)
    }

    /// Checks that a sequence has all blocks of its first `keep` tokens that the tokens behind these see.
    pub(super) fn check_kept(&self, slot: usize, keep: usize) -> Result<(), Gone> {
        let (table, seen) = (self.table(slot), self.visibility.at(keep));
        let first = table.first * BLOCK_TOKENS;
        // The next token sees itself, too: it goes into the last block if that is not full.
        let needed = |index: &usize| seen.touch(index * BLOCK_TOKENS, (index + 1) * BLOCK_TOKENS);
        let sinks = 0..self.layout.sinks.min(keep.div_ceil(BLOCK_TOKENS));
        // Blocks behind the sinks are given back in order, so it is enough to test the last one that is gone.
        let last = table.first.min(keep.div_ceil(BLOCK_TOKENS)).checked_sub(1);
        let last = last.filter(|&last| last >= self.layout.sinks);
        let gone = sinks.chain(last).find(|index| table.block(*index).is_none() && needed(index));
        gone.map_or(Ok(()), |index| Err(Gone { position: index * BLOCK_TOKENS, first }))
    }

    /// Checks that a sequence has all blocks of its first `len` tokens.
    pub(super) fn check_whole(&self, slot: usize, len: usize) -> Result<(), Gone> {
        let table = self.table(slot);
        // Blocks behind the sinks are given back in order, so it is enough to test the first of them.
        let blocks = len.div_ceil(BLOCK_TOKENS).min(self.layout.sinks + 1);
        let gone = (0..blocks).find(|&index| table.block(index).is_none());
        let first = table.first * BLOCK_TOKENS;
        gone.map_or(Ok(()), |index| Err(Gone { position: index * BLOCK_TOKENS, first }))
    }

    /// Returns how many blocks a sequence has of its first `len` tokens.
    pub(super) fn count_held(&self, slot: usize, len: usize) -> usize {
        self.indices(slot, len.div_ceil(BLOCK_TOKENS)).filter(|&index| self.table(slot).block(index).is_some()).count()
    }

    /// Gives back the blocks that no query behind `len` tokens sees.
    pub(super) fn forget(&mut self, slot: usize, len: usize) -> Result<(), AllocError> {
        if !self.forgets {
            return Ok(());
        }
        for index in 0..self.layout.sinks.min(len / BLOCK_TOKENS) {
            if let Some(block) = self.table(slot).block(index).filter(|_| self.is_hidden(index, len)) {
                self.allocator.free(block)?;
                self.set(slot, index, NO_BLOCK)?;
            }
        }
        loop {
            let index = self.table(slot).first;
            if index >= len / BLOCK_TOKENS || !self.is_hidden(index, len) {
                return Ok(());
            }
            let block = self.block(slot, index)?;
            self.allocator.free(block)?;
            self.set(slot, index, NO_BLOCK)?;
            self.entry(slot)?.first += 1;
        }
    }

    /// Returns whether no query behind `len` tokens sees block `index`, which is one of these tokens' blocks.
    fn is_hidden(&self, index: usize, len: usize) -> bool {
        self.forgets && !self.visibility.at(len).touch(index * BLOCK_TOKENS, (index + 1) * BLOCK_TOKENS)
    }

    /// Returns how many blocks must be taken before a sequence of `len` tokens can grow to `new_len`.
    pub(super) fn needed(&self, slot: usize, len: usize, new_len: usize) -> usize {
        let have = len.div_ceil(BLOCK_TOKENS);
        new_len.div_ceil(BLOCK_TOKENS).saturating_sub(have) + usize::from(self.shared_tail(slot, len).is_some())
    }

    /// Returns how many blocks must be available if the tokens come `step` at a time: the largest number of blocks that
    /// are taken and not given back.
    pub(super) fn needed_in_steps(&self, slot: usize, len: usize, new_len: usize, step: usize) -> usize {
        let table = self.table(slot);
        let tail = usize::from(self.shared_tail(slot, len).is_some());
        // A block that others hold is not free when it is given back. A shared partial block is copied before.
        let is_own = |index| {
            let meta = table.block(index).and_then(|block| self.allocator.meta(block));
            index >= len / BLOCK_TOKENS || meta.is_some_and(|meta| meta.ref_count() == 1)
        };
        let (mut most, mut back, mut first, mut at) = (0, 0, table.first, len);
        while at < new_len {
            at = at.saturating_add(step.max(1)).min(new_len);
            let taken = tail + at.div_ceil(BLOCK_TOKENS) - len.div_ceil(BLOCK_TOKENS);
            most = most.max(taken.saturating_sub(back));
            while first < at / BLOCK_TOKENS && self.is_hidden(first, at) {
                back += usize::from(is_own(first));
                first += 1;
            }
        }
        most
    }

    /// Takes the blocks that [`Group::needed`] counts. A shared partial block is replaced by an empty one, into which
    /// [`Group::copy_unit`] copies its keys and values.
    pub(super) fn extend(
        &mut self,
        slot: usize,
        len: usize,
        new_len: usize,
        policy: &dyn CachePolicy,
    ) -> Result<(), AllocError> {
        let tail = len / BLOCK_TOKENS;
        if let Some(shared) = self.shared_tail(slot, len) {
            let copy = self.place(slot, tail, policy)?;
            self.allocator.copy_meta(shared, copy, len % BLOCK_TOKENS)?;
            self.set(slot, tail, copy)?;
            let entry = self.entry(slot)?;
            (entry.copy_from, entry.copy_index, entry.copied) = (shared, tail as u32, 0);
        } else if let Some((block, filled @ 1..)) = self.table(slot).locate(len) {
            self.allocator.reopen(block, filled)?;
        }
        for index in len.div_ceil(BLOCK_TOKENS)..new_len.div_ceil(BLOCK_TOKENS) {
            let block = self.place(slot, index, policy)?;
            self.set(slot, index, block)?;
            self.entry(slot)?.blocks += 1;
        }
        Ok(())
    }

    /// Gives back all blocks past the first `len` tokens, and a copy that has no tokens of its own yet.
    pub(super) fn shrink(&mut self, slot: usize, len: usize) -> Result<(), AllocError> {
        let entry = *self.entry(slot)?;
        if entry.copy_from != NO_BLOCK {
            // The copy replaces the partial block of the committed tokens, so the original takes its place again.
            let copy = self.block(slot, entry.copy_index as usize)?;
            self.allocator.free(copy)?;
            self.set(slot, entry.copy_index as usize, entry.copy_from)?;
            self.entry(slot)?.copy_from = NO_BLOCK;
        }
        let keep = len.div_ceil(BLOCK_TOKENS);
        for index in self.indices(slot, entry.blocks as usize).rev().take_while(|&index| index >= keep) {
            if let Some(block) = self.table(slot).block(index) {
                self.allocator.free(block)?;
                self.set(slot, index, NO_BLOCK)?;
            }
        }
        self.end_at(slot, keep, entry.first)
    }

    /// Makes the empty sequence `to` share the blocks of the first `len` tokens of `from`.
    pub(super) fn share(&mut self, from: usize, to: usize, len: usize) -> Result<(), AllocError> {
        self.begin_like(from, to, len)?;
        for index in self.indices(from, len.div_ceil(BLOCK_TOKENS)) {
            if let Some(block) = self.table(from).block(index) {
                self.allocator.share(block)?;
                self.set(to, index, block)?;
            }
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
        self.begin_like(from, to, len)?;
        for index in self.indices(from, len.div_ceil(BLOCK_TOKENS)) {
            let Some(source) = self.table(from).block(index) else { continue };
            let copy = self.place(to, index, policy)?;
            self.set(to, index, copy)?;
            self.allocator.copy_meta(source, copy, len - index * BLOCK_TOKENS)?;
            for layer in 0..self.layers {
                self.pool.copy_layer(source, copy, layer).ok_or(AllocError::InvalidBlock { block: source })?;
            }
        }
        Ok(())
    }

    /// Returns all blocks that a sequence has a reference to.
    pub(super) fn held(&self, slot: usize) -> impl Iterator<Item = BlockId> {
        let copied = self.entries.get(slot).map(|entry| entry.copy_from);
        let blocks = self.table(slot).entries.iter().copied().chain(copied);
        blocks.filter(|&block| block != NO_BLOCK)
    }

    /// Counts the blocks of a sequence: those that nobody else holds, and those that somebody else holds, too.
    pub(super) fn count(&self, slot: usize) -> SequenceBlocks {
        let mut count = SequenceBlocks::default();
        for block in self.held(slot) {
            let own = self.allocator.meta(block).is_some_and(|meta| meta.ref_count() == 1);
            *(if own { &mut count.own } else { &mut count.shared }) += 1;
        }
        count
    }

    /// Marks a sequence for closing, or removes the mark.
    pub(super) fn mark(&mut self, slot: usize, on: bool) -> Result<(), AllocError> {
        for index in self.indices(slot, self.table(slot).end) {
            if let Some(block) = self.table(slot).block(index) {
                self.allocator.mark(block, on)?;
            }
        }
        Ok(())
    }

    /// Returns [`Group::needed`] for the time when the marked sequences are closed.
    pub(super) fn needed_after(&self, slot: usize, len: usize, new_len: usize) -> usize {
        let own = self.shared_tail(slot, len).is_some_and(|tail| self.allocator.references_after(tail) <= 1);
        self.needed(slot, len, new_len).saturating_sub(usize::from(own))
    }

    /// Copies one layer of the sequence's partial block, if that is being copied. Returns whether it copied one.
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

    /// Returns the partial block of a sequence that is being copied, and its copy.
    pub(super) fn copy(&self, slot: usize) -> Option<[BlockId; 2]> {
        let entry = self.entries.get(slot).filter(|entry| entry.copy_from != NO_BLOCK)?;
        Some([entry.copy_from, self.table(slot).block(entry.copy_index as usize)?])
    }

    /// Gives back the original of a copy: the sequence is about to have tokens of its own in the copy.
    pub(super) fn commit_copy(&mut self, slot: usize) -> Result<(), AllocError> {
        let entry = self.entry(slot)?;
        let original = core::mem::replace(&mut entry.copy_from, NO_BLOCK);
        if original == NO_BLOCK { Ok(()) } else { self.allocator.free(original) }
    }

    /// Returns how many layers are still to be copied for a sequence.
    pub(super) fn copy_units(&self, slot: usize) -> usize {
        match self.entries.get(slot) {
            Some(entry) if entry.copy_from != NO_BLOCK => self.layers.saturating_sub(entry.copied as usize),
            _ => 0,
        }
    }

    /// Returns the partial block of a sequence of `len` tokens, if somebody else holds it, too.
    fn shared_tail(&self, slot: usize, len: usize) -> Option<BlockId> {
        let (block, filled) = self.table(slot).locate(len)?;
        (filled > 0 && self.allocator.meta(block)?.ref_count() > 1).then_some(block)
    }

    pub(super) fn block(&self, slot: usize, index: usize) -> Result<BlockId, AllocError> {
        self.table(slot).block(index).ok_or(AllocError::InvalidBlock { block: NO_BLOCK })
    }

    /// Returns the indices of the first `blocks` blocks of a sequence, without those behind the sinks that are gone.
    fn indices(&self, slot: usize, blocks: usize) -> impl DoubleEndedIterator<Item = usize> + use<> {
        let first = self.table(slot).first;
        (0..self.layout.sinks.min(blocks)).chain(first..blocks)
    }

    /// Makes the empty sequence `to` as long as the first `len` tokens of `from`, without blocks.
    fn begin_like(&mut self, from: usize, to: usize, len: usize) -> Result<(), AllocError> {
        let first = self.entry(from)?.first;
        self.end_at(to, len.div_ceil(BLOCK_TOKENS), first)
    }

    /// Truncates a sequence to `blocks` blocks. Blocks before `first` are gone, except the sinks.
    fn end_at(&mut self, slot: usize, blocks: usize, first: u32) -> Result<(), AllocError> {
        let sinks = self.layout.sinks as u32;
        let entry = self.entry(slot)?;
        entry.blocks = blocks as u32;
        entry.first = first.min(entry.blocks).max(sinks);
        Ok(())
    }

    /// Takes a block from the pool for index `index` of a sequence.
    fn place(&mut self, slot: usize, index: usize, policy: &dyn CachePolicy) -> Result<BlockId, AllocError> {
        policy.place(&mut self.allocator, slot, self.layout.entry(index), self.run)
    }

    pub(super) fn set(&mut self, slot: usize, index: usize, block: BlockId) -> Result<(), AllocError> {
        let index = self.layout.entry(index);
        let place = slot.checked_mul(self.run).and_then(|start| start.checked_add(index));
        let place = place.filter(|_| index < self.run).and_then(|place| self.tables.get_mut(place));
        *place.ok_or(AllocError::InvalidBlock { block })? = block;
        Ok(())
    }

    pub(super) fn entry(&mut self, slot: usize) -> Result<&mut Entry, AllocError> {
        self.entries.get_mut(slot).ok_or(AllocError::InvalidBlock { block: NO_BLOCK })
    }
}
