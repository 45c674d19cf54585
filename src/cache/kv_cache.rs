//! The cache: sequences over the block tables of all layer groups.

mod rows;

use core::fmt;

use bytemuck::{Pod, Zeroable};

use super::block::{BLOCK_TOKENS, BlockAllocator, BlockId};
use super::error::CacheError;
use super::geometry::KvGeometry;
use super::group::{BlockTable, Group};
use super::kind::KvKind;
use super::list::{Linked, Links, List};
use super::policy::CachePolicy;
use super::pool::Pool;
use super::stats::PrefixStats;
use crate::kv::{KvElement, KvSource, KvTile, MAX_GROUPS, Visibility};
use crate::mem::{Arena, MemoryError};
pub(crate) use rows::{KvRow, WRITTEN_ROWS};

/// The id noted for tokens whose keys and values were set from outside: it never equals a token.
pub const IMPORTED_TOKEN: u32 = u32::MAX;

/// What all sequences of an engine have in common besides tokens: nothing yet that changes keys and values.
pub(super) const SALT: u64 = 0;

/// A handle of an open sequence, never 0. It is not valid for the sequence that takes its place later.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SeqId(u32);

impl SeqId {
    const SLOT_BITS: u32 = 16;

    /// The largest number of sequences at a time.
    pub const MAX: usize = 1 << Self::SLOT_BITS;

    /// The handle as a number, for foreign interfaces.
    pub fn to_bits(self) -> u32 {
        self.0
    }

    /// The handle of these bits; a wrong one is refused where it is used.
    pub fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    pub(super) fn new(slot: usize, generation: u32) -> Self {
        Self(generation << Self::SLOT_BITS | (slot as u32 & 0xffff))
    }

    pub(crate) fn slot(self) -> usize {
        (self.0 & 0xffff) as usize
    }

    fn generation(self) -> u32 {
        self.0 >> Self::SLOT_BITS
    }
}

impl fmt::Debug for SeqId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SeqId({}:{})", self.slot(), self.generation())
    }
}

/// A sequence: `len` committed tokens, and `reserved` more whose blocks are taken already.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Sequence {
    len: u32,
    reserved: u32,
    /// Counts the sequences that this slot has had: from 1 to 2^16 - 1, then from 1 again.
    pub(super) generation: u32,
    pub(super) open: u32,
    /// While rows are set layer by layer from outside: the layer whose turn it is.
    next_layer: u32,
    /// 1 while [`KvCache::make_room`] considers closing it.
    pub(super) marked: u32,
    /// Neighbours among the open sequences.
    pub(super) links: Links,
}

impl Linked for Sequence {
    fn links(&mut self) -> &mut Links {
        &mut self.links
    }
}

/// Keys and values of several sequences in fixed-capacity pools.
///
/// Rows enter in two ways: the engine reserves blocks, writes every layer's row and commits; or a caller
/// sets packed rows with [`KvCache::set_prefill`] and [`KvCache::push_row`].
#[derive(Debug)]
pub struct KvCache<'a> {
    geometry: KvGeometry,
    policy: &'static dyn CachePolicy,
    pub(super) sequences: &'a mut [Sequence],
    pub(super) groups: heapless::Vec<Group<'a>, MAX_GROUPS>,
    /// The open sequences, the least recently used first.
    pub(super) recency: List,
    pub(super) prefix: PrefixStats,
}

impl<'a> KvCache<'a> {
    /// Takes a cache's memory from the arena and initializes everything but the keys and values. The kind
    /// `basic` gets a full run of blocks per sequence, whatever the geometry says.
    ///
    /// # Errors
    /// As [`Arena::slice`]; [`MemoryError::TooLarge`] for more sequences than [`SeqId::MAX`] or more tokens than 2^32 - 1.
    pub fn carve(arena: &mut Arena<'a>, mut geometry: KvGeometry) -> Result<Self, MemoryError> {
        // Positions and lengths are kept in 32 bits.
        if geometry.sequences > SeqId::MAX || geometry.context > u32::MAX as usize {
            return Err(MemoryError::TooLarge);
        }
        if geometry.kind == KvKind::Basic {
            let blocks = geometry.blocks_per_sequence().checked_mul(geometry.sequences);
            geometry.blocks = blocks.ok_or(MemoryError::TooLarge)?;
        }
        // A prefix without its beginning is of no use.
        geometry.prefix_cache &= !geometry.any_forgets();
        let sequences = arena.slice("sequences", geometry.sequences)?;
        sequences.fill(Sequence::zeroed());
        let mut groups = heapless::Vec::new();
        for group in 0..geometry.groups.count() {
            groups.push(Group::carve(arena, &geometry, group)?).map_err(|_| MemoryError::TooLarge)?;
        }
        let policy = super::policy(geometry.kind);
        Ok(Self { geometry, policy, sequences, groups, recency: List::EMPTY, prefix: PrefixStats::default() })
    }

    /// The sizes of the cache.
    pub fn geometry(&self) -> &KvGeometry {
        &self.geometry
    }

    /// How keys and values are kept.
    pub fn kind(&self) -> KvKind {
        self.policy.kind()
    }

    /// Layers of the model.
    pub fn num_layers(&self) -> usize {
        self.geometry.layers
    }

    /// Committed tokens of a sequence.
    ///
    /// # Errors
    /// [`CacheError::UnknownSequence`].
    pub fn seq_len(&self, seq: SeqId) -> Result<usize, CacheError> {
        Ok(self.sequence(seq)?.len as usize)
    }

    /// The blocks of a sequence in a layer group.
    ///
    /// # Errors
    /// [`CacheError::UnknownSequence`], [`CacheError::Layer`] where there is no such group.
    pub fn block_table(&self, seq: SeqId, group: usize) -> Result<BlockTable<'_>, CacheError> {
        self.sequence(seq)?;
        let expected = self.groups.len();
        Ok(self.groups.get(group).ok_or(CacheError::Layer { expected, given: group })?.table(seq.slot()))
    }

    /// The blocks of a layer group: how many are free, and what is known of each.
    ///
    /// # Errors
    /// [`CacheError::Layer`] where there is no such group.
    pub fn allocator(&self, group: usize) -> Result<&BlockAllocator<'a>, CacheError> {
        let expected = self.groups.len();
        Ok(&self.groups.get(group).ok_or(CacheError::Layer { expected, given: group })?.allocator)
    }

    /// The id of the token at a position, committed or reserved; `None` past the last one, and where no layer group has
    /// its block any more.
    pub fn token(&self, seq: SeqId, position: usize) -> Option<u32> {
        let sequence = self.sequence(seq).ok()?;
        if position >= (sequence.len + sequence.reserved) as usize {
            return None;
        }
        self.groups.iter().find_map(|group| {
            let (block, slot) = group.table(seq.slot()).locate(position)?;
            group.allocator.meta(block)?.tokens().get(slot).copied()
        })
    }

    /// Opens an empty sequence.
    ///
    /// # Errors
    /// [`CacheError::NoFreeSequence`].
    pub fn open(&mut self) -> Result<SeqId, CacheError> {
        let slot = self.free_slot()?;
        let sequence = self.sequences.get_mut(slot).ok_or(CacheError::Internal)?;
        // Never 0, so that no handle is 0.
        let generation = sequence.generation % 0xffff + 1;
        *sequence = Sequence { open: 1, generation, ..Sequence::zeroed() };
        self.recency.push_back(self.sequences, slot as u32);
        Ok(SeqId::new(slot, generation))
    }

    /// Closes a sequence and frees its blocks, unfinished work included. Known prefixes stay reclaimable.
    ///
    /// # Errors
    /// [`CacheError::UnknownSequence`].
    pub fn close(&mut self, seq: SeqId) -> Result<(), CacheError> {
        self.clear(seq)?;
        self.sequence_mut(seq)?.open = 0;
        self.recency.remove(self.sequences, seq.slot() as u32);
        Ok(())
    }

    /// Empties a sequence, unfinished work included.
    ///
    /// # Errors
    /// [`CacheError::UnknownSequence`].
    pub fn clear(&mut self, seq: SeqId) -> Result<(), CacheError> {
        self.release(seq)?;
        self.rewind(seq, 0)
    }

    /// Keeps only the first `keep` tokens of a sequence.
    ///
    /// # Errors
    /// [`CacheError::UnknownSequence`], [`CacheError::Busy`], [`CacheError::TooShort`], [`CacheError::WindowGone`] where
    /// the next token would see positions whose blocks have been given back.
    pub fn rewind(&mut self, seq: SeqId, keep: usize) -> Result<(), CacheError> {
        let length = self.idle(seq)?;
        if keep > length {
            return Err(CacheError::TooShort { keep, length });
        }
        self.check_kept(seq, keep)?;
        for group in &mut self.groups {
            group.shrink(seq.slot(), keep)?;
        }
        self.sequence_mut(seq)?.len = keep as u32;
        Ok(())
    }

    /// Opens a sequence with the first `keep` tokens of another. The paged cache shares their blocks, in
    /// time proportional to their number; the others copy the keys and values.
    ///
    /// # Errors
    /// [`CacheError::UnknownSequence`], [`CacheError::Busy`], [`CacheError::TooShort`],
    /// [`CacheError::NoFreeSequence`], [`CacheError::OutOfBlocks`], [`CacheError::WindowGone`] as [`KvCache::rewind`].
    pub fn fork(&mut self, seq: SeqId, keep: usize) -> Result<SeqId, CacheError> {
        let fork = self.branch(seq, keep)?;
        self.touch(seq);
        self.touch(fork);
        Ok(fork)
    }

    /// [`KvCache::fork`] that is no use of `seq` yet.
    pub(super) fn branch(&mut self, seq: SeqId, keep: usize) -> Result<SeqId, CacheError> {
        let length = self.idle(seq)?;
        if keep > length {
            return Err(CacheError::TooShort { keep, length });
        }
        self.check_kept(seq, keep)?;
        self.free_slot()?;
        if !self.policy.shares() {
            self.check_room(|group| group.count_held(seq.slot(), keep))?;
        }
        let fork = self.open()?;
        for group in &mut self.groups {
            if self.policy.shares() {
                group.share(seq.slot(), fork.slot(), keep)?;
            } else {
                group.duplicate(seq.slot(), fork.slot(), keep, self.policy)?;
            }
        }
        self.sequence_mut(fork)?.len = keep as u32;
        Ok(fork)
    }

    /// Whether `rows` more tokens fit the sequence and the pool; the error says what is missing.
    ///
    /// # Errors
    /// As [`KvCache::reserve`].
    pub fn can_extend(&self, seq: SeqId, rows: usize) -> Result<(), CacheError> {
        let len = self.idle(seq)?;
        let (needed, context) = (len.saturating_add(rows), self.geometry.context);
        if needed > context {
            return Err(CacheError::ContextFull { needed, context });
        }
        self.check_steps(seq, rows)?;
        self.check_room(|group| group.needed(seq.slot(), len, needed))
    }

    /// Whether `rows` more tokens fit if they are reserved and committed `step` at a time, so that a window passes over
    /// what came before.
    ///
    /// # Errors
    /// As [`KvCache::reserve`].
    pub fn can_extend_in_steps(&self, seq: SeqId, rows: usize, step: usize) -> Result<(), CacheError> {
        let len = self.idle(seq)?;
        let (needed, context) = (len.saturating_add(rows), self.geometry.context);
        if needed > context {
            return Err(CacheError::ContextFull { needed, context });
        }
        self.check_steps(seq, step.min(rows))?;
        self.check_room(|group| group.needed_in_steps(seq.slot(), len, needed, step))
    }

    /// Takes the blocks for tokens that follow the committed ones, a copy of a shared block included, and
    /// notes the tokens. Nothing that comes after can run out of blocks.
    ///
    /// # Errors
    /// [`CacheError::UnknownSequence`], [`CacheError::Busy`], [`CacheError::ContextFull`], [`CacheError::TooMany`],
    /// [`CacheError::OutOfBlocks`].
    pub fn reserve(&mut self, seq: SeqId, tokens: impl ExactSizeIterator<Item = u32>) -> Result<(), CacheError> {
        self.can_extend(seq, tokens.len())?;
        let (slot, len, reserved) = (seq.slot(), self.seq_len(seq)?, tokens.len());
        if reserved == 0 {
            // A copy that begins here would belong to no reservation.
            return Ok(());
        }
        self.touch(seq);
        for group in &mut self.groups {
            group.extend(slot, len, len + reserved, self.policy)?;
        }
        for (position, token) in (len..).zip(tokens) {
            self.queue_token(seq, position, token)?;
        }
        self.sequence_mut(seq)?.reserved = reserved as u32;
        Ok(())
    }

    /// Notes the id of the token at a reserved position.
    pub(super) fn queue_token(&mut self, seq: SeqId, position: usize, token: u32) -> Result<(), CacheError> {
        for group in &mut self.groups {
            let (block, place) = group.table(seq.slot()).locate(position).ok_or(CacheError::Internal)?;
            group.allocator.queue_token(block, place, token)?;
        }
        Ok(())
    }

    /// Gives back what [`KvCache::reserve`] took and [`KvCache::commit`] has not used; committed tokens stay.
    ///
    /// # Errors
    /// [`CacheError::UnknownSequence`].
    pub fn release(&mut self, seq: SeqId) -> Result<(), CacheError> {
        let sequence = self.sequence_mut(seq)?;
        (sequence.reserved, sequence.next_layer) = (0, 0);
        let len = sequence.len as usize;
        for group in &mut self.groups {
            group.shrink(seq.slot(), len)?;
        }
        Ok(())
    }

    /// Copies one layer of a partial block that a reservation took the place of: whether there was one.
    ///
    /// All of them must be copied before rows are written.
    ///
    /// # Errors
    /// [`CacheError::UnknownSequence`].
    pub fn copy_unit(&mut self, seq: SeqId) -> Result<bool, CacheError> {
        self.sequence(seq)?;
        for group in &mut self.groups {
            if group.copy_unit(seq.slot())? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// How often [`KvCache::copy_unit`] has to be called for a sequence.
    pub fn copy_units(&self, seq: SeqId) -> usize {
        self.groups.iter().map(|group| group.copy_units(seq.slot())).sum()
    }

    /// Makes the next `rows` reserved rows part of the sequence. They may be anything, so they never become a
    /// known prefix of other sequences, nor does what comes after them.
    ///
    /// # Errors
    /// [`CacheError::UnknownSequence`], [`CacheError::Position`] where fewer are reserved.
    pub fn commit(&mut self, seq: SeqId, rows: usize) -> Result<(), CacheError> {
        self.commit_rows(seq, rows, false)
    }

    /// [`KvCache::commit`] for rows that the model computed for the tokens reserved: full blocks of them become
    /// known prefixes where the geometry says so.
    ///
    /// # Errors
    /// As [`KvCache::commit`].
    pub fn commit_computed(&mut self, seq: SeqId, rows: usize) -> Result<(), CacheError> {
        self.commit_rows(seq, rows, true)
    }

    fn commit_rows(&mut self, seq: SeqId, rows: usize, computed: bool) -> Result<(), CacheError> {
        let sequence = self.sequence(seq)?;
        let (len, reserved) = (sequence.len as usize, sequence.reserved as usize);
        if rows > reserved {
            return Err(CacheError::Position { expected: len + reserved, given: len + rows });
        }
        for group in &mut self.groups {
            if rows > 0 {
                group.settle(seq.slot())?;
            }
            for position in len..len + rows {
                let (block, slot) = group.table(seq.slot()).locate(position).ok_or(CacheError::Internal)?;
                let token = group.allocator.meta(block).and_then(|meta| meta.tokens().get(slot).copied());
                group.allocator.append_token_slot(block, token.ok_or(CacheError::Internal)?)?;
                if !computed {
                    group.allocator.set_foreign(block)?;
                } else if slot + 1 == BLOCK_TOKENS {
                    group.publish(seq.slot(), position / BLOCK_TOKENS, SALT)?;
                }
            }
            group.forget(seq.slot(), len + rows)?;
        }
        let sequence = self.sequence_mut(seq)?;
        sequence.len += rows as u32;
        sequence.reserved -= rows as u32;
        Ok(())
    }

    /// What attention reads: the tiles of one layer of a sequence.
    pub fn layer_source(&self, seq: SeqId, layer: usize) -> Option<LayerSource<'_>> {
        let (group, index) = self.geometry.groups.place(layer);
        let group = self.groups.get(group)?;
        Some(LayerSource { group, table: group.table(seq.slot()), layer: index })
    }

    /// Where a layer of a sequence's tokens `16 index ..` is: the pool, the block, and the layer's number there.
    pub(super) fn stored(
        &self,
        seq: SeqId,
        layer: usize,
        index: usize,
    ) -> Result<(&Pool<'a>, BlockId, usize), CacheError> {
        let (group, layer) = self.geometry.groups.place(layer);
        let group = self.groups.get(group).ok_or(CacheError::Internal)?;
        let block = *group.table(seq.slot()).blocks().get(index).ok_or(CacheError::Internal)?;
        Ok((&group.pool, block, layer))
    }

    /// [`KvCache::stored`], to be written to: the sequence has the block for itself.
    pub(super) fn stored_mut(
        &mut self,
        seq: SeqId,
        layer: usize,
        index: usize,
    ) -> Result<(&mut Pool<'a>, BlockId, usize), CacheError> {
        let (group, layer) = self.geometry.groups.place(layer);
        let group = self.groups.get_mut(group).ok_or(CacheError::Internal)?;
        let block = *group.table(seq.slot()).blocks().get(index).ok_or(CacheError::Internal)?;
        Ok((&mut group.pool, block, layer))
    }

    /// The length of a sequence that has no unfinished work and all its blocks.
    pub(super) fn whole(&self, seq: SeqId) -> Result<usize, CacheError> {
        let len = self.idle(seq)?;
        self.check_whole(seq, len)?;
        Ok(len)
    }

    /// Whether a sequence has all blocks of its first `len` tokens.
    pub(super) fn check_whole(&self, seq: SeqId, len: usize) -> Result<(), CacheError> {
        Ok(self.groups.iter().try_for_each(|group| group.check_whole(seq.slot(), len))?)
    }

    fn check_kept(&self, seq: SeqId, keep: usize) -> Result<(), CacheError> {
        Ok(self.groups.iter().try_for_each(|group| group.check_kept(seq.slot(), keep))?)
    }

    fn free_slot(&self) -> Result<usize, CacheError> {
        let slot = self.sequences.iter().position(|sequence| sequence.open == 0);
        slot.ok_or(CacheError::NoFreeSequence { sequences: self.sequences.len() })
    }

    /// Notes that a sequence is used.
    pub(super) fn touch(&mut self, seq: SeqId) {
        self.recency.remove(self.sequences, seq.slot() as u32);
        self.recency.push_back(self.sequences, seq.slot() as u32);
    }

    /// Whether every group has as many available blocks as `needed` says.
    fn check_room(&self, needed: impl Fn(&Group<'_>) -> usize) -> Result<(), CacheError> {
        for group in &self.groups {
            let (needed, free) = (needed(group), group.allocator.available_blocks());
            if needed > free {
                return Err(CacheError::OutOfBlocks { needed, free });
            }
        }
        Ok(())
    }

    /// Whether a sequence's tables take so many tokens at a time.
    fn check_steps(&self, seq: SeqId, given: usize) -> Result<(), CacheError> {
        let len = self.seq_len(seq)?;
        match self.groups.iter().map(|group| group.room(seq.slot(), len)).min() {
            Some(limit) if given > limit => Err(CacheError::TooMany { given, limit }),
            _ => Ok(()),
        }
    }

    /// The length of a sequence that has no unfinished work.
    pub(super) fn idle(&self, seq: SeqId) -> Result<usize, CacheError> {
        let sequence = self.sequence(seq)?;
        if sequence.reserved > 0 || sequence.next_layer > 0 {
            return Err(CacheError::Busy { sequence: seq.to_bits() });
        }
        Ok(sequence.len as usize)
    }

    fn sequence(&self, seq: SeqId) -> Result<&Sequence, CacheError> {
        let sequence = self.sequences.get(seq.slot());
        let sequence = sequence.filter(|sequence| sequence.open == 1 && sequence.generation == seq.generation());
        sequence.ok_or(CacheError::UnknownSequence { sequence: seq.to_bits() })
    }

    /// A sequence that starts with known blocks has their tokens.
    pub(super) fn set_len(&mut self, seq: SeqId, len: usize) -> Result<(), CacheError> {
        self.sequence_mut(seq)?.len = len as u32;
        Ok(())
    }

    fn sequence_mut(&mut self, seq: SeqId) -> Result<&mut Sequence, CacheError> {
        self.sequence(seq)?;
        self.sequences.get_mut(seq.slot()).ok_or(CacheError::Internal)
    }
}

/// The tiles of one layer of a sequence, block by block.
#[derive(Debug)]
pub struct LayerSource<'c> {
    group: &'c Group<'c>,
    table: BlockTable<'c>,
    layer: usize,
}

impl LayerSource<'_> {
    /// What the layer's queries see.
    pub fn visibility(&self) -> Visibility {
        self.group.visibility()
    }
}

impl KvSource for LayerSource<'_> {
    #[inline]
    fn elements(&self) -> [KvElement; 2] {
        self.group.pool.elements()
    }

    #[inline]
    fn tile(&self, index: usize, head: usize) -> Option<KvTile<'_>> {
        self.group.pool.tile(self.table.block(index)?, self.layer, head)
    }
}
