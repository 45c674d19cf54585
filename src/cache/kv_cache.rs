//! The cache: sequences over the block tables of all layer groups.

use core::fmt;

use bytemuck::{Pod, Zeroable};

use super::block::{BLOCK_TOKENS, BlockAllocator, BlockId};
use super::error::CacheError;
use super::geometry::{KvGeometry, MAX_GROUPS};
use super::group::{BlockTable, Group};
use super::kind::{KvKind, KvType};
use super::list::{Linked, Links, List};
use super::policy::CachePolicy;
use super::pool::{Place, Pool, Unstorable};
use super::stats::PrefixStats;
use crate::error::Fault;
use crate::kernels::{KvElement, KvSource, KvTile, Visibility, fpenv, is_storable};
use crate::mem::{Arena, MemoryError, Tiles};
use crate::par::TileBody;

/// The id noted for tokens whose keys and values were set from outside: it never equals a token.
pub const IMPORTED_TOKEN: u32 = u32::MAX;

/// What all sequences of an engine have in common besides tokens: nothing yet that changes keys and values.
pub(super) const SALT: u64 = 0;

/// A handle of an open sequence. It is not valid for the sequence that takes its place later.
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
    /// Counts the sequences that this slot has had, modulo 2^16.
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

/// A row that is to be written: the keys and the values, `[kv_heads * head_dim]` each, of a reserved position.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KvRow<'r> {
    pub(crate) seq: SeqId,
    pub(crate) position: usize,
    pub(crate) k: &'r [f32],
    pub(crate) v: &'r [f32],
}

/// The most rows of [`KvCache::write_rows`].
pub(crate) const WRITTEN_ROWS: usize = 64;

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
        let generation = (sequence.generation + 1) & 0xffff;
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
        let length = self.idle(seq)?;
        if keep > length {
            return Err(CacheError::TooShort { keep, length });
        }
        self.check_kept(seq, keep)?;
        self.free_slot()?;
        if !self.policy.shares() {
            self.check_room(|group| group.count_held(seq.slot(), keep))?;
        }
        self.touch(seq);
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

    /// Writes the K and V row, `[kv_heads * head_dim]` each, of a reserved position in one layer. (The kind
    /// `off` writes committed positions again.)
    ///
    /// # Errors
    /// [`CacheError::UnknownSequence`], [`CacheError::Position`], [`CacheError::Layer`],
    /// [`CacheError::Shape`], [`CacheError::NonFinite`].
    pub fn write_row(
        &mut self,
        seq: SeqId,
        layer: usize,
        position: usize,
        k: &[f32],
        v: &[f32],
    ) -> Result<(), CacheError> {
        self.check_new_row(layer, &KvRow { seq, position, k, v })?;
        self.put_row(seq, layer, position, k, v)
    }

    /// [`KvCache::write_row`] for rows in order, each for all KV heads: `run(tiles, body)` calls `body`
    /// for all the tiles, on as many workers as it likes.
    ///
    /// # Errors
    /// As [`KvCache::write_row`], before anything is written but for values that are not finite; [`CacheError::Internal`]
    /// where `run` reports it.
    pub(crate) fn write_rows(
        &mut self,
        layer: usize,
        rows: &heapless::Vec<KvRow<'_>, WRITTEN_ROWS>,
        run: impl FnOnce(&[Tiles<'_, u32>], &TileBody<'_, u32>) -> Result<usize, Fault>,
    ) -> Result<(), CacheError> {
        let mut places = heapless::Vec::<_, WRITTEN_ROWS>::new();
        for row in rows {
            self.check_new_row(layer, row)?;
            places.push(self.place(row.seq, layer, row.position)?).map_err(|_| CacheError::Internal)?;
        }
        let (level, heads) = (self.geometry.level, self.geometry.kv_heads);
        let pool = self.pool_of(layer)?;
        let writer = pool.head_writer(level);
        let Some(place) = places.first() else { return Ok(()) };
        let tiles = pool.heads(place.layer).ok_or(CacheError::Internal)?;
        let written = run(&[tiles], &|tile, _| {
            let head = tile.index().checked_rem(heads).ok_or(Fault::Internal)?;
            let mut rows = rows.iter();
            // What comes into one block.
            places.chunk_by(|a, b| a.block == b.block && a.slot + 1 == b.slot).try_for_each(|places| {
                let place = *places.first().ok_or(Fault::Internal)?;
                let words = tile.row_mut(place.block as usize).ok_or(Fault::Internal)?;
                let rows = rows.by_ref().take(places.len()).map(|row| [row.k, row.v]);
                let written = writer.write(words, head, place, rows).ok_or(Fault::Internal)?;
                written.map_err(|Unstorable| Fault::NonFinite)
            })
        });
        match written {
            Ok(0) => Ok(()),
            Err(Fault::NonFinite) => Err(CacheError::NonFinite),
            _ => Err(CacheError::Internal),
        }
    }

    /// Whether a row can be written.
    fn check_new_row(&self, layer: usize, row: &KvRow<'_>) -> Result<(), CacheError> {
        let sequence = self.sequence(row.seq)?;
        let (len, end) = (sequence.len as usize, (sequence.len + sequence.reserved) as usize);
        let first = if self.kind() == KvKind::Off { 0 } else { len };
        if !(first..end).contains(&row.position) {
            return Err(CacheError::Position { expected: len, given: row.position });
        }
        self.check_layer(layer)?;
        self.check_rows(row.k, 1)?;
        self.check_rows(row.v, 1)
    }

    /// Writes a row into a position whose block the sequence has for itself.
    fn put_row(&mut self, seq: SeqId, layer: usize, position: usize, k: &[f32], v: &[f32]) -> Result<(), CacheError> {
        let level = self.geometry.level;
        let place = self.place(seq, layer, position)?;
        let written = self.pool_of(layer)?.write_row(level, place, k, v).ok_or(CacheError::Internal)?;
        written.map_err(|Unstorable| CacheError::NonFinite)
    }

    /// Where a row belongs.
    fn place(&self, seq: SeqId, layer: usize, position: usize) -> Result<Place, CacheError> {
        let committed = self.seq_len(seq)?;
        let (group, layer) = self.geometry.groups.place(layer);
        let group = self.groups.get(group).ok_or(CacheError::Internal)?;
        let (block, slot) = group.table(seq.slot()).locate(position).ok_or(CacheError::Internal)?;
        // A committed row that is written again shares its block with other committed ones.
        let clear = slot == 0 && position >= committed;
        Ok(Place { block, layer, slot, clear })
    }

    /// The pool of a layer.
    fn pool_of(&mut self, layer: usize) -> Result<&mut Pool<'a>, CacheError> {
        let (group, _) = self.geometry.groups.place(layer);
        Ok(&mut self.groups.get_mut(group).ok_or(CacheError::Internal)?.pool)
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

    /// Fills an empty sequence with rows from outside, layer by layer: `k` and `v` are packed
    /// `[rows, kv_heads * head_dim]`. Layer 0 says how many rows, the last layer completes them.
    ///
    /// # Errors
    /// [`CacheError::UnknownSequence`], [`CacheError::Position`] where the sequence is not empty,
    /// [`CacheError::Layer`] out of order, [`CacheError::Shape`], [`CacheError::ContextFull`],
    /// [`CacheError::TooMany`], [`CacheError::OutOfBlocks`], [`CacheError::NonFinite`], [`CacheError::NotKept`]. A refused
    /// layer can be given again.
    pub fn set_prefill(&mut self, seq: SeqId, layer: usize, k: &[f32], v: &[f32]) -> Result<(), CacheError> {
        let rows = k.len().checked_div(self.geometry.kv_width()).unwrap_or(0);
        let given = self.seq_len(seq)?;
        if given != 0 {
            return Err(CacheError::Position { expected: 0, given });
        }
        self.set_rows(seq, layer, rows, k, v)
    }

    /// Appends one row from outside, layer by layer: `k` and `v` are `[kv_heads * head_dim]`. The last
    /// layer completes it.
    ///
    /// # Errors
    /// As [`KvCache::set_prefill`].
    pub fn push_row(&mut self, seq: SeqId, layer: usize, k: &[f32], v: &[f32]) -> Result<(), CacheError> {
        self.set_rows(seq, layer, 1, k, v)
    }

    /// Copies K and V of a layer into packed buffers `[seq_len, kv_heads * head_dim]`.
    ///
    /// # Errors
    /// [`CacheError::UnknownSequence`], [`CacheError::Busy`], [`CacheError::Layer`], [`CacheError::Shape`],
    /// [`CacheError::WindowGone`].
    pub fn materialize(
        &self,
        seq: SeqId,
        layer: usize,
        k_out: &mut [f32],
        v_out: &mut [f32],
    ) -> Result<(), CacheError> {
        // With unfinished work, a shared block may have been replaced by a copy that is not complete.
        let len = self.idle(seq)?;
        self.check_layer(layer)?;
        let (group, _) = self.geometry.groups.place(layer);
        self.groups.get(group).ok_or(CacheError::Internal)?.check_whole(seq.slot())?;
        self.check_rows(k_out, len)?;
        self.check_rows(v_out, len)?;
        let width = self.geometry.kv_width();
        for position in 0..len {
            let row = position * width..(position + 1) * width;
            let (k, v) = (k_out.get_mut(row.clone()), v_out.get_mut(row));
            let (k, v) = (k.ok_or(CacheError::Internal)?, v.ok_or(CacheError::Internal)?);
            for (out, x) in k.iter_mut().chain(v).zip(self.read_row(seq, layer, position)?) {
                *out = x.ok_or(CacheError::Internal)?;
            }
        }
        Ok(())
    }

    /// K, then V, of one position of a layer: `[2, kv_heads * head_dim]`.
    fn read_row(
        &self,
        seq: SeqId,
        layer: usize,
        position: usize,
    ) -> Result<impl Iterator<Item = Option<f32>> + use<'_, 'a>, CacheError> {
        let (group, index) = self.geometry.groups.place(layer);
        let group = self.groups.get(group).ok_or(CacheError::Internal)?;
        let (block, slot) = group.table(seq.slot()).locate(position).ok_or(CacheError::Internal)?;
        Ok(group.pool.read_row(block, index, slot))
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

    /// Writes rows of one layer into reserved positions; layer 0 reserves, the last layer commits.
    fn set_rows(&mut self, seq: SeqId, layer: usize, rows: usize, k: &[f32], v: &[f32]) -> Result<(), CacheError> {
        // Some machines round to f16 with an instruction that obeys the environment.
        fpenv::with_default(|| self.set_rows_in_default_environment(seq, layer, rows, k, v))
    }

    fn set_rows_in_default_environment(
        &mut self,
        seq: SeqId,
        layer: usize,
        rows: usize,
        k: &[f32],
        v: &[f32],
    ) -> Result<(), CacheError> {
        if self.kind() == KvKind::Off {
            return Err(CacheError::NotKept);
        }
        let expected = self.sequence(seq)?.next_layer as usize;
        if layer != expected || layer >= self.num_layers() {
            return Err(CacheError::Layer { expected, given: layer });
        }
        self.check_rows(k, rows)?;
        self.check_rows(v, rows)?;
        if layer == 0 {
            self.check_storable(k, v)?;
            self.reserve(seq, core::iter::repeat_n(IMPORTED_TOKEN, rows))?;
            while self.copy_unit(seq)? {}
        }
        let sequence = self.sequence(seq)?;
        let (len, reserved) = (sequence.len as usize, sequence.reserved as usize);
        self.check_rows(k, reserved)?;
        let width = self.geometry.kv_width();
        for index in 0..rows {
            let row = index * width..(index + 1) * width;
            let (k, v) = (k.get(row.clone()), v.get(row));
            let (k, v) = (k.ok_or(CacheError::Internal)?, v.ok_or(CacheError::Internal)?);
            self.put_row(seq, layer, len + index, k, v)?;
        }
        let last = layer + 1 == self.num_layers();
        if last {
            self.commit(seq, rows)?;
        }
        self.sequence_mut(seq)?.next_layer = if last { 0 } else { layer as u32 + 1 };
        Ok(())
    }

    /// The length of a sequence that has no unfinished work and all its blocks.
    pub(super) fn whole(&self, seq: SeqId) -> Result<usize, CacheError> {
        let len = self.idle(seq)?;
        self.groups.iter().try_for_each(|group| group.check_whole(seq.slot()))?;
        Ok(len)
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

    fn check_layer(&self, layer: usize) -> Result<(), CacheError> {
        let expected = self.num_layers();
        if layer < expected { Ok(()) } else { Err(CacheError::Layer { expected, given: layer }) }
    }

    fn check_rows(&self, buffer: &[f32], rows: usize) -> Result<(), CacheError> {
        let (expected, given) = (rows.saturating_mul(self.geometry.kv_width()), buffer.len());
        if expected == given { Ok(()) } else { Err(CacheError::Shape { expected, given }) }
    }

    fn check_storable(&self, k: &[f32], v: &[f32]) -> Result<(), CacheError> {
        let KvType { k: k_type, v: v_type } = self.geometry.element;
        let storable = k.iter().all(|&x| is_storable(k_type, x)) && v.iter().all(|&x| is_storable(v_type, x));
        if storable { Ok(()) } else { Err(CacheError::NonFinite) }
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
