//! Rows of keys and values, into the cache and out of it.

use core::iter::repeat_n;

use super::{IMPORTED_TOKEN, KvCache, SeqId};
use crate::cache::error::CacheError;
use crate::cache::kind::KvKind;
use crate::cache::pool::{Place, Pool, Unstorable};
use crate::error::Fault;
use crate::kernels::{fpenv, is_storable};
use crate::kv::KvType;
use crate::mem::Tiles;
use crate::par::TileBody;

/// A row that is to be written: the keys and the values, `[kv_heads * head_dim]` each, of a reserved position.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KvRow<'r> {
    pub(crate) seq: SeqId,
    pub(crate) position: usize,
    pub(crate) k: &'r [f32],
    pub(crate) v: &'r [f32],
}

/// Row `index` of those that are to be written.
type RowOf<'f, 'r> = dyn Fn(usize) -> Option<KvRow<'r>> + Sync + 'f;

/// The most rows of [`KvCache::write_rows`].
pub(crate) const WRITTEN_ROWS: usize = 32;

impl<'a> KvCache<'a> {
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
        self.write_rows(layer, 1, &|_| Some(KvRow { seq, position, k, v }), alone)
    }

    /// [`KvCache::write_row`] for `rows` rows in order, at most [`WRITTEN_ROWS`]: `run(tiles, body)` calls `body`
    /// for all the tiles, one for each KV head, on as many workers as it likes.
    ///
    /// # Errors
    /// As [`KvCache::write_row`], before anything is written but for values that are not finite; [`CacheError::Internal`]
    /// for too many rows, and where `row` has none or `run` reports it.
    pub(crate) fn write_rows<'r>(
        &mut self,
        layer: usize,
        rows: usize,
        row: &RowOf<'_, 'r>,
        run: impl FnOnce(&[Tiles<'_, u32>], &TileBody<'_, u32>) -> Result<usize, Fault>,
    ) -> Result<(), CacheError> {
        for index in 0..rows {
            self.check_new_row(layer, &row(index).ok_or(CacheError::Internal)?)?;
        }
        self.put_rows(layer, rows, row, run)
    }

    /// Writes rows into positions whose blocks their sequences have for themselves: see [`KvCache::write_rows`].
    fn put_rows<'r>(
        &mut self,
        layer: usize,
        rows: usize,
        row: &RowOf<'_, 'r>,
        run: impl FnOnce(&[Tiles<'_, u32>], &TileBody<'_, u32>) -> Result<usize, Fault>,
    ) -> Result<(), CacheError> {
        let mut places = heapless::Vec::<_, WRITTEN_ROWS>::new();
        for index in 0..rows {
            let KvRow { seq, position, .. } = row(index).ok_or(CacheError::Internal)?;
            places.push(self.place(seq, layer, position)?).map_err(|_| CacheError::Internal)?;
        }
        let (level, heads) = (self.geometry.level, self.geometry.kv_heads);
        let pool = self.pool_of(layer)?;
        let writer = pool.head_writer(level);
        let Some(place) = places.first() else { return Ok(()) };
        let tiles = pool.heads(place.layer).ok_or(CacheError::Internal)?;
        let written = run(&[tiles], &|tile, _| {
            let head = tile.index().checked_rem(heads).ok_or(Fault::Internal)?;
            let mut first = 0;
            while let Some(&place) = places.get(first) {
                // What comes into one block.
                let slots = places.iter().skip(first).zip(place.slot..);
                let count = slots.take_while(|(other, slot)| other.block == place.block && other.slot == *slot).count();
                let words = tile.row_mut(place.block as usize).ok_or(Fault::Internal)?;
                let rows = (first..first + count).filter_map(row).map(|row| [row.k, row.v]);
                let written = writer.write(words, head, place, rows).ok_or(Fault::Internal)?;
                written.map_err(|Unstorable| Fault::NonFinite)?;
                first += count.max(1);
            }
            Ok(())
        });
        match written {
            Ok(0) => Ok(()),
            Err(Fault::NonFinite) => Err(CacheError::NonFinite),
            _ => Err(CacheError::Internal),
        }
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
        self.groups.get(group).ok_or(CacheError::Internal)?.check_whole(seq.slot(), len)?;
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
            // A number of rows that is too large is not believed.
            self.can_extend(seq, rows)?;
            self.check_storable(k, v)?;
            self.reserve(seq, repeat_n(IMPORTED_TOKEN, rows))?;
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
            self.put_rows(layer, 1, &|_| Some(KvRow { seq, position: len + index, k, v }), alone)?;
        }
        let last = layer + 1 == self.num_layers();
        if last {
            self.commit(seq, rows)?;
        }
        self.sequence_mut(seq)?.next_layer = if last { 0 } else { layer as u32 + 1 };
        Ok(())
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
}

/// All tiles one after the other.
fn alone(lanes: &[Tiles<'_, u32>], body: &TileBody<'_, u32>) -> Result<usize, Fault> {
    for tiles in lanes {
        while let Some(mut tile) = tiles.next() {
            body(&mut tile, &mut [])?;
        }
    }
    Ok(0)
}
