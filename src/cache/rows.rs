//! Rows of keys and values, into the cache and out of it.

use core::iter::repeat_n;

use super::error::CacheError;
use super::kind::KvKind;
use super::kv_cache::KvCache;
use super::sequence::{IMPORTED_TOKEN, SeqId};
use super::writer::{KvRow, WRITTEN_ROWS};
use crate::kernels::{fpenv, is_storable};
use crate::kv::KvType;
use crate::mem::row_of;

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
        // Some machines round to f16 with an instruction that obeys the environment.
        fpenv::with_default(|| {
            let row = KvRow { seq, position, k, v };
            Ok(self.writer(layer, core::iter::once(Some(row)))?.write_all()?)
        })
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
        let rows = k.len().checked_div(self.geometry.kv_width(layer)).unwrap_or(0);
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
        self.check_here()?;
        let group = self.geometry.groups.group(layer);
        self.groups.get(group).ok_or(CacheError::Internal(site!()))?.check_whole(seq.slot(), len)?;
        self.check_rows(k_out, len, layer)?;
        self.check_rows(v_out, len, layer)?;
        let width = self.geometry.kv_width(layer);
        for position in 0..len {
            let row = position * width..(position + 1) * width;
            let (k, v) = (k_out.get_mut(row.clone()), v_out.get_mut(row));
            let (k, v) = (k.ok_or(CacheError::Internal(site!()))?, v.ok_or(CacheError::Internal(site!()))?);
            for (out, x) in k.iter_mut().chain(v).zip(self.read_row(seq, layer, position)?) {
                *out = x.ok_or(CacheError::Internal(site!()))?;
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
        let group = self.groups.get(group).ok_or(CacheError::Internal(site!()))?;
        let (block, slot) = group.table(seq.slot()).locate(position).ok_or(CacheError::Internal(site!()))?;
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
        if self.kind() == KvKind::Off || self.has_states() {
            return Err(CacheError::NotKept);
        }
        self.check_here()?;
        let expected = self.sequence(seq)?.next_layer as usize;
        if layer != expected || layer >= self.num_layers() {
            return Err(CacheError::Layer { expected, given: layer });
        }
        self.check_rows(k, rows, layer)?;
        self.check_rows(v, rows, layer)?;
        if layer == 0 {
            // A number of rows that is too large is not believed.
            self.can_extend(seq, rows)?;
            self.check_storable(k, v)?;
            self.reserve(seq, repeat_n(IMPORTED_TOKEN, rows))?;
            while self.copy_unit(seq)? {}
        }
        let sequence = self.sequence(seq)?;
        let (len, reserved) = (sequence.len as usize, sequence.reserved as usize);
        self.check_rows(k, reserved, layer)?;
        let width = self.geometry.kv_width(layer);
        let row = |index| {
            let (k, v) = (row_of(k, index, width)?, row_of(v, index, width)?);
            Some(KvRow { seq, position: len + index, k, v })
        };
        for first in (0..rows).step_by(WRITTEN_ROWS) {
            let due = first..rows.min(first + WRITTEN_ROWS);
            self.writer(layer, due.map(row))?.write_all()?;
        }
        let last = layer + 1 == self.num_layers();
        if last {
            self.commit(seq, rows)?;
        }
        self.sequence_mut(seq)?.next_layer = if last { 0 } else { layer as u32 + 1 };
        Ok(())
    }

    pub(super) fn check_layer(&self, layer: usize) -> Result<(), CacheError> {
        let expected = self.num_layers();
        if layer < expected { Ok(()) } else { Err(CacheError::Layer { expected, given: layer }) }
    }

    /// Whether a buffer is as long as some rows of a layer.
    pub(super) fn check_rows(&self, buffer: &[f32], rows: usize, layer: usize) -> Result<(), CacheError> {
        let (expected, given) = (rows.saturating_mul(self.geometry.kv_width(layer)), buffer.len());
        if expected == given { Ok(()) } else { Err(CacheError::Shape { expected, given }) }
    }

    fn check_storable(&self, k: &[f32], v: &[f32]) -> Result<(), CacheError> {
        let KvType { k: k_type, v: v_type } = self.geometry.element;
        let storable = k.iter().all(|&x| is_storable(k_type, x)) && v.iter().all(|&x| is_storable(v_type, x));
        if storable { Ok(()) } else { Err(CacheError::NonFinite) }
    }
}
