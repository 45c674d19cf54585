//! The place of one layer of a sequence: where its keys and values are.

use super::block::BlockId;
use super::error::CacheError;
use super::group::Group;
use super::kv_cache::KvCache;
use super::pool::Pool;
use super::sequence::SeqId;
use super::table::BlockTable;
use crate::kernels::{KvElement, KvSource, KvTile, Visibility};

/// The tiles of one layer of a sequence, block by block.
///
/// [Example](crate::cache#example).
#[derive(Debug)]
pub struct LayerSource<'c> {
    group: &'c Group<'c>,
    table: BlockTable<'c>,
    layer: usize,
}

impl LayerSource<'_> {
    /// Returns which positions the layer's queries see.
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

impl<'a> KvCache<'a> {
    /// Returns the tiles of one layer of a sequence, which attention reads, or `None` if there is no such sequence or
    /// layer.
    pub fn layer_source(&self, seq: SeqId, layer: usize) -> Option<LayerSource<'_>> {
        self.sequence(seq).ok()?;
        let (group, index) = self.geometry.groups.place(layer);
        let group = self.groups.get(group)?;
        Some(LayerSource { group, table: group.table(seq.slot()), layer: index })
    }

    /// Returns where a layer of a sequence's block `index` is: the pool, the block, and the index of the layer in the
    /// pool.
    pub(super) fn stored(
        &self,
        seq: SeqId,
        layer: usize,
        index: usize,
    ) -> Result<(&Pool<'a>, BlockId, usize), CacheError> {
        let (group, layer) = self.geometry.groups.place(layer);
        let group = self.groups.get(group).ok_or(CacheError::Internal(site!()))?;
        let block = *group.table(seq.slot()).blocks().get(index).ok_or(CacheError::Internal(site!()))?;
        Ok((&group.pool, block, layer))
    }

    /// [`KvCache::stored`] for writing. No other sequence may hold the block.
    pub(super) fn stored_mut(
        &mut self,
        seq: SeqId,
        layer: usize,
        index: usize,
    ) -> Result<(&mut Pool<'a>, BlockId, usize), CacheError> {
        let (group, layer) = self.geometry.groups.place(layer);
        let group = self.groups.get_mut(group).ok_or(CacheError::Internal(site!()))?;
        let block = *group.table(seq.slot()).blocks().get(index).ok_or(CacheError::Internal(site!()))?;
        Ok((&mut group.pool, block, layer))
    }
}
