//! The cache: sequences over the block tables of all layer groups.

use bytemuck::Zeroable;

use super::allocator::BlockAllocator;
use super::error::CacheError;
use super::geometry::KvGeometry;
use super::group::Group;
use super::host_policy::{Hosted, stats_of};
use super::kind::KvKind;
use super::list::List;
use super::policy::CachePolicy;
use super::sequence::{SeqId, Sequence};
use super::state::States;
use super::state_geometry::StateGeometry;
use super::stats::{CacheStats, PoolStats, PrefixStats, SequenceStats};
use super::table::BlockTable;
use crate::device::Attached;
use crate::kv::MAX_GROUPS;
use crate::mem::{Arena, MemoryError};

/// Keys and values of several sequences in fixed-capacity pools.
///
/// Rows enter in two ways: the engine reserves blocks, writes every layer's row and commits; or a caller
/// sets packed rows with [`KvCache::set_prefill`] and [`KvCache::push_row`].
///
/// [Example](crate::cache#example).
#[derive(Debug)]
pub struct KvCache<'a> {
    pub(super) geometry: KvGeometry,
    pub(super) policy: &'static dyn CachePolicy,
    pub(super) sequences: &'a mut [Sequence],
    pub(super) groups: heapless::Vec<Group<'a>, MAX_GROUPS>,
    /// Open sequences, the least recently used first.
    pub(super) recency: List,
    pub(super) prefix: PrefixStats,
    pub(super) states: States<'a>,
    /// Whether keys and values lie on a device.
    pub(super) on_device: bool,
    pub(super) device: Attached<'a>,
    pub(super) hosted: Hosted<'a>,
}

impl<'a> KvCache<'a> {
    /// Takes a cache's memory from the arena and initializes everything but the keys and values. The kind
    /// `basic` gets a full run of blocks per sequence, whatever the geometry says.
    ///
    /// # Errors
    /// As [`Arena::slice`]; [`MemoryError::TooLarge`] for more than [`SeqId::MAX`] sequences or more than 2^32 - 1
    /// tokens.
    pub fn carve(arena: &mut Arena<'a>, geometry: KvGeometry) -> Result<Self, MemoryError> {
        Self::carve_with_states(arena, geometry, StateGeometry::default(), false)
    }

    /// [`KvCache::carve`] for a model that has recurrent layers, or for keys and values on a device.
    pub(crate) fn carve_with_states(
        arena: &mut Arena<'a>,
        mut geometry: KvGeometry,
        states: StateGeometry,
        on_device: bool,
    ) -> Result<Self, MemoryError> {
        // Positions and lengths are kept in 32 bits.
        if geometry.sequences > SeqId::MAX || geometry.context > u32::MAX as usize {
            return Err(MemoryError::TooLarge);
        }
        if geometry.kind == KvKind::Basic {
            let blocks = geometry.blocks_per_sequence().checked_mul(geometry.sequences);
            geometry.blocks = blocks.ok_or(MemoryError::TooLarge)?;
        }
        // A window gives back the beginning of a prefix, and the rest of it is then of no use.
        geometry.prefix_cache &= !geometry.any_forgets();
        let sequences = arena.slice("sequences", geometry.sequences)?;
        sequences.fill(Sequence::zeroed());
        let mut groups = heapless::Vec::new();
        for group in 0..geometry.groups.count() {
            groups.push(Group::carve(arena, &geometry, group, on_device)?).map_err(|_| MemoryError::TooLarge)?;
        }
        let policy = super::policy(geometry.kind);
        let states = States::carve(arena, states, geometry.sequences, on_device)?;
        let (recency, prefix, device, hosted) = (List::EMPTY, PrefixStats::default(), Attached(None), Hosted(None));
        Ok(Self { geometry, policy, sequences, groups, recency, prefix, states, on_device, device, hosted })
    }

    /// Returns the sizes of the cache.
    pub fn geometry(&self) -> &KvGeometry {
        &self.geometry
    }

    /// Returns the kind of cache.
    pub fn kind(&self) -> KvKind {
        self.policy.kind()
    }

    /// Returns the number of the model's layers.
    pub fn num_layers(&self) -> usize {
        self.geometry.layers
    }

    /// Returns the number of committed tokens of a sequence.
    ///
    /// # Errors
    /// [`CacheError::UnknownSequence`].
    pub fn seq_len(&self, seq: SeqId) -> Result<usize, CacheError> {
        Ok(self.sequence(seq)?.len as usize)
    }

    /// Returns the block table of a sequence in a layer group.
    ///
    /// # Errors
    /// [`CacheError::UnknownSequence`], [`CacheError::Layer`] if there is no such group.
    pub fn block_table(&self, seq: SeqId, group: usize) -> Result<BlockTable<'_>, CacheError> {
        self.sequence(seq)?;
        let expected = self.groups.len();
        Ok(self.groups.get(group).ok_or(CacheError::Layer { expected, given: group })?.table(seq.slot()))
    }

    /// Returns the allocator of a layer group: how many blocks are free, and the metadata of each.
    ///
    /// # Errors
    /// [`CacheError::Layer`] if there is no such group.
    pub fn allocator(&self, group: usize) -> Result<&BlockAllocator<'a>, CacheError> {
        let expected = self.groups.len();
        Ok(&self.groups.get(group).ok_or(CacheError::Layer { expected, given: group })?.allocator)
    }

    /// Returns the id of the token at a position, committed or reserved. Returns `None` past the last token, and if no
    /// layer group has the token's block any more.
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

    /// Returns the statistics of the cache, in time proportional to the number of sequences.
    pub fn stats(&self) -> CacheStats {
        let mut pools = [PoolStats::default(); MAX_GROUPS];
        for (stats, group) in pools.iter_mut().zip(&self.groups) {
            *stats = PoolStats { block_bytes: group.pool.block_bytes(), ..group.allocator.stats() };
        }
        CacheStats { sequences: self.recency.len, pools, slots: self.states.stats(), prefix: self.prefix }
    }

    /// Sets the high-water marks of blocks and states to the numbers that are in use now.
    pub(crate) fn reset_high_water(&mut self) {
        self.groups.iter_mut().for_each(|group| group.allocator.lower_high_water(0));
        self.states.lower_high_water(0);
    }

    /// Returns the statistics of a sequence, in time proportional to the number of its blocks.
    ///
    /// # Errors
    /// [`CacheError::UnknownSequence`].
    pub fn sequence_stats(&self, seq: SeqId) -> Result<SequenceStats, CacheError> {
        Ok(stats_of(&self.groups, seq.slot(), self.seq_len(seq)?))
    }

    /// Opens an empty sequence.
    ///
    /// # Errors
    /// [`CacheError::NoFreeSequence`].
    pub fn open(&mut self) -> Result<SeqId, CacheError> {
        let slot = self.free_slot()?;
        let sequence = self.sequences.get_mut(slot).ok_or(CacheError::Internal(site!()))?;
        // The generation is never 0, so that no handle is 0.
        let generation = sequence.generation % 0xffff + 1;
        *sequence = Sequence { open: 1, generation, ..Sequence::zeroed() };
        self.recency.push_back(self.sequences, slot as u32);
        Ok(SeqId::new(slot, generation))
    }

    /// Closes a sequence and frees its blocks, unfinished work included. Cached prefixes stay reclaimable.
    ///
    /// # Errors
    /// [`CacheError::UnknownSequence`].
    pub fn close(&mut self, seq: SeqId) -> Result<(), CacheError> {
        self.sequence(seq)?;
        self.states.abandon(seq.slot());
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
    /// [`CacheError::UnknownSequence`], [`CacheError::Busy`], [`CacheError::TooShort`], [`CacheError::WindowGone`] if
    /// the next token would see a block that was given back, or if a token behind the last checkpoint is in such a
    /// block.
    pub fn rewind(&mut self, seq: SeqId, keep: usize) -> Result<(), CacheError> {
        let length = self.idle(seq)?;
        if keep > length {
            return Err(CacheError::TooShort { keep, length });
        }
        self.check_kept(seq, keep)?;
        for group in &mut self.groups {
            group.shrink(seq.slot(), keep)?;
        }
        self.states.rewind(seq.slot(), keep)?;
        self.sequence_mut(seq)?.len = keep as u32;
        Ok(())
    }

    /// Opens a sequence with the first `keep` tokens of another. The paged cache shares their blocks, in
    /// time proportional to their number; the others copy the keys and values.
    ///
    /// # Errors
    /// [`CacheError::UnknownSequence`], [`CacheError::Busy`], [`CacheError::TooShort`],
    /// [`CacheError::NoFreeSequence`], [`CacheError::OutOfBlocks`], [`CacheError::PolicyBlock`],
    /// [`CacheError::WindowGone`] as [`KvCache::rewind`].
    pub fn fork(&mut self, seq: SeqId, keep: usize) -> Result<SeqId, CacheError> {
        let fork = self.branch(seq, keep)?;
        self.touch(seq);
        self.touch(fork);
        Ok(fork)
    }

    /// [`KvCache::fork`] that does not count as a use of `seq`.
    pub(super) fn branch(&mut self, seq: SeqId, keep: usize) -> Result<SeqId, CacheError> {
        let length = self.idle(seq)?;
        if keep > length {
            return Err(CacheError::TooShort { keep, length });
        }
        self.check_kept(seq, keep)?;
        self.free_slot()?;
        if !self.policy.shares() {
            let needed = |group: &Group<'_>| group.count_held(seq.slot(), keep);
            self.check_room(needed)?;
            self.begin_choice();
            self.choose_blocks(seq, needed)?;
        }
        let fork = self.open()?;
        for group in &mut self.groups {
            if self.policy.shares() {
                group.share(seq.slot(), fork.slot(), keep)?;
            } else {
                group.duplicate(seq.slot(), fork.slot(), keep, self.policy)?;
            }
        }
        self.states.fork(seq.slot(), fork.slot(), keep)?;
        self.sequence_mut(fork)?.len = keep as u32;
        Ok(fork)
    }

    /// Returns the length of a sequence, or an error if it has unfinished work or lacks blocks.
    pub(super) fn whole(&self, seq: SeqId) -> Result<usize, CacheError> {
        let len = self.idle(seq)?;
        self.check_whole(seq, len)?;
        Ok(len)
    }

    /// Checks that a sequence has all blocks of its first `len` tokens.
    pub(super) fn check_whole(&self, seq: SeqId, len: usize) -> Result<(), CacheError> {
        Ok(self.groups.iter().try_for_each(|group| group.check_whole(seq.slot(), len))?)
    }

    /// Checks that a sequence has everything that the tokens behind the first `keep` need.
    fn check_kept(&self, seq: SeqId, keep: usize) -> Result<(), CacheError> {
        self.groups.iter().try_for_each(|group| group.check_kept(seq.slot(), keep))?;
        if !self.states.are_there() || !self.geometry.any_forgets() {
            return Ok(());
        }
        // The tokens from the last state to `keep` are computed again.
        let found = self.states.found(seq.slot(), keep);
        match (found..keep).rev().find(|&position| self.token(seq, position).is_none()) {
            Some(position) => Err(CacheError::WindowGone { position: found, first: position + 1 }),
            // Of the positions before them, these tokens see at most those that the first of them sees.
            None => Ok(self.groups.iter().try_for_each(|group| group.check_kept(seq.slot(), found))?),
        }
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

    /// Returns the length of a sequence, or an error if it has unfinished work.
    pub(super) fn idle(&self, seq: SeqId) -> Result<usize, CacheError> {
        let sequence = self.sequence(seq)?;
        if !sequence.is_idle() {
            return Err(CacheError::Busy { sequence: seq.to_bits() });
        }
        Ok(sequence.len as usize)
    }

    /// Returns the number of committed tokens of a sequence, and the end of its reserved positions.
    pub(super) fn positions(&self, seq: SeqId) -> Result<(usize, usize), CacheError> {
        let sequence = self.sequence(seq)?;
        Ok((sequence.len as usize, (sequence.len + sequence.reserved) as usize))
    }

    pub(super) fn sequence(&self, seq: SeqId) -> Result<&Sequence, CacheError> {
        let sequence = self.sequences.get(seq.slot());
        let sequence = sequence.filter(|sequence| sequence.open == 1 && sequence.generation == seq.generation());
        sequence.ok_or(CacheError::UnknownSequence { sequence: seq.to_bits() })
    }

    pub(super) fn sequence_mut(&mut self, seq: SeqId) -> Result<&mut Sequence, CacheError> {
        self.sequence(seq)?;
        self.sequences.get_mut(seq.slot()).ok_or(CacheError::Internal(site!()))
    }
}
