//! Rows of keys and values, into the cache and out of it.

use super::error::CacheError;
use super::kv_cache::KvCache;
use super::sequence::SeqId;
use super::writer::KvRow;
use crate::kernels::fpenv;

impl<'a> KvCache<'a> {
    /// Writes the K and V row, `[kv_heads * head_dim]` each, of a reserved position in one layer. Rows must be written
    /// from the first to the last, since the row in the first slot of a block clears the block. (The kind `off` writes
    /// committed positions again.)
    ///
    /// # Errors
    /// [`CacheError::UnknownSequence`], [`CacheError::Position`] (not reserved), [`CacheError::Layer`],
    /// [`CacheError::Shape`], [`CacheError::NonFinite`], [`CacheError::OnDevice`].
    pub fn write_row(
        &mut self,
        seq: SeqId,
        layer: usize,
        position: usize,
        k: &[f32],
        v: &[f32],
    ) -> Result<(), CacheError> {
        // Some machines round to f16 with an instruction that obeys the floating-point environment.
        fpenv::with_default(|| {
            self.copy_rest(seq)?;
            let row = KvRow { seq, position, k, v };
            Ok(self.writer(layer, core::iter::once(Some(row)))?.write_all()?)
        })
    }

    /// Copies K and V of a layer into packed buffers `[seq_len, kv_heads * head_dim]`.
    ///
    /// # Errors
    /// [`CacheError::UnknownSequence`], [`CacheError::Busy`], [`CacheError::Layer`], [`CacheError::Shape`],
    /// [`CacheError::WindowGone`], [`CacheError::OnDevice`].
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

    /// Returns K, then V, of one position of a layer: `[2, kv_heads * head_dim]`.
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

    pub(super) fn check_layer(&self, layer: usize) -> Result<(), CacheError> {
        let expected = self.num_layers();
        if layer < expected { Ok(()) } else { Err(CacheError::Layer { expected, given: layer }) }
    }

    /// Checks that a buffer is as long as `rows` rows of a layer.
    pub(super) fn check_rows(&self, buffer: &[f32], rows: usize, layer: usize) -> Result<(), CacheError> {
        let (expected, given) = (rows.saturating_mul(self.geometry.kv_width(layer)), buffer.len());
        if expected == given { Ok(()) } else { Err(CacheError::Shape { expected, given }) }
    }
}
