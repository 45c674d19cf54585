//! The keys and values of one layer group: blocks of tiles.
//!
//! A block holds 16 tokens of all layers of the group. Inside it, per layer and KV head: K as
//! `[head_dim][16]` (one multiply and one add of a register give 16 scores) and V as `[16][head_dim]`, each in its
//! element type.

use bytemuck::{must_cast_slice, must_cast_slice_mut};

use super::block::{BLOCK_TOKENS, BlockId};
use super::bytes::Side;
use super::error::CacheError;
use super::geometry::KvGeometry;
use crate::kv::{Elements, KvElement, KvShape, KvTile};
use crate::mem::{Arena, Matrix, MemoryError, Tiles};

#[derive(Debug)]
pub(super) struct Pool<'a> {
    words: &'a mut [u32],
    k: Side,
    v: Side,
    layers: usize,
    kv_heads: usize,
    head_dim: usize,
    /// Number of 32-bit words of one K tile and one V tile together.
    tile_words: usize,
}

impl<'a> Pool<'a> {
    pub(super) fn carve(
        arena: &mut Arena<'a>,
        name: &'static str,
        geometry: &KvGeometry,
        group: usize,
        on_device: bool,
    ) -> Result<Self, MemoryError> {
        let layers = geometry.groups.layers_in(group, geometry.layers);
        let KvShape { heads: kv_heads, head_dim } = geometry.shape_in(group);
        let [k, v] = geometry.sides(group).ok_or(MemoryError::TooLarge)?;
        let tile_words = k.len().checked_add(v.len()).ok_or(MemoryError::TooLarge)? / 4;
        let per_block = [layers, kv_heads].iter().try_fold(tile_words, |n, &f| n.checked_mul(f));
        let words = per_block.and_then(|words| words.checked_mul(geometry.blocks)).ok_or(MemoryError::TooLarge)?;
        let words = if on_device { 0 } else { words };
        Ok(Self { words: arena.slice(name, words)?, k, v, layers, kv_heads, head_dim, tile_words })
    }

    /// Returns the number of bytes of a block.
    pub(super) fn block_bytes(&self) -> usize {
        self.layers.saturating_mul(self.kv_heads).saturating_mul(self.tile_words.saturating_mul(4))
    }

    /// Returns the element types of keys and values.
    #[inline]
    pub(super) fn elements(&self) -> [KvElement; 2] {
        [self.k.element, self.v.element]
    }

    /// Returns the K and V tile of one head of a layer (numbered within the group).
    #[inline]
    pub(super) fn tile(&self, block: BlockId, layer: usize, head: usize) -> Option<KvTile<'_>> {
        let start = self.start(block, layer, head)?;
        let words = self.words.get(start..start.checked_add(self.tile_words)?)?;
        let (k, v) = words.split_at_checked(self.k.len() / 4)?;
        Some(KvTile { k: Elements::new(self.k.element, k)?, v: Elements::new(self.v.element, v)? })
    }

    /// Returns the K and V tiles of a layer for several workers that write: one unit for each KV head, whose row
    /// `block` is the head's tiles in that block.
    pub(super) fn heads(&mut self, layer: usize) -> Option<Tiles<'_, u32>> {
        let words = self.layers.checked_mul(self.kv_heads)?.checked_mul(self.tile_words)?;
        let (blocks, first) = (self.words.len().checked_div(words)?, layer.checked_mul(self.kv_heads)?);
        Matrix::new(self.words, blocks, words)?.tiles(blocks, self.tile_words, first..first.checked_add(self.kv_heads)?)
    }

    /// Returns the K row of one token, then its V row: `[2, kv_heads * head_dim]`. An item is `None` if there is no
    /// such block, layer or slot.
    pub(super) fn read_row(
        &self,
        block: BlockId,
        layer: usize,
        slot: usize,
    ) -> impl Iterator<Item = Option<f32>> + use<'_, 'a> {
        let head_dim = self.head_dim;
        let heads = move || (0..self.kv_heads).map(move |head| self.tile(block, layer, head));
        let k = heads().flat_map(move |tile| {
            (0..head_dim)
                .map(move |dim| tile.and_then(|tile| tile.k.element().key(tile.k.bytes(), head_dim, dim, slot)))
        });
        let v = heads().flat_map(move |tile| {
            (0..head_dim)
                .map(move |dim| tile.and_then(|tile| tile.v.element().value(tile.v.bytes(), head_dim, dim, slot)))
        });
        k.chain(v)
    }

    /// Hands to `put` the keys and values of the first `tokens` tokens in a layer of a block, head by head, as
    /// `docs/snapshot.md` says.
    pub(super) fn export<E: From<CacheError>>(
        &self,
        block: BlockId,
        layer: usize,
        tokens: usize,
        mut put: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let (start, len) = self.layer_words(block, layer).ok_or(CacheError::Internal(site!()))?;
        let words = self.words.get(start..).and_then(|words| words.get(..len)).ok_or(CacheError::Internal(site!()))?;
        if tokens >= BLOCK_TOKENS && cfg!(target_endian = "little") {
            return put(must_cast_slice(words));
        }
        for tile in words.chunks_exact(self.tile_words.max(1)) {
            let (k, v) = tile.split_at_checked(self.k.len() / 4).ok_or(CacheError::Internal(site!()))?;
            self.k.put(k, tokens, &mut put)?;
            self.v.put(v, tokens, &mut put)?;
        }
        Ok(())
    }

    /// Fills a layer of a block with the bytes that [`Pool::export`] hands over, and the rest of it with zeros. Returns
    /// whether all elements are finite.
    pub(super) fn import<E: From<CacheError>>(
        &mut self,
        block: BlockId,
        layer: usize,
        tokens: usize,
        mut get: impl FnMut(&mut [u8]) -> Result<(), E>,
    ) -> Result<bool, E> {
        let (k_side, v_side) = (self.k, self.v);
        let (start, len) = self.layer_words(block, layer).ok_or(CacheError::Internal(site!()))?;
        let words =
            self.words.get_mut(start..).and_then(|words| words.get_mut(..len)).ok_or(CacheError::Internal(site!()))?;
        let whole = tokens >= BLOCK_TOKENS && cfg!(target_endian = "little");
        if whole {
            get(must_cast_slice_mut(words))?;
        }
        let mut finite = true;
        for tile in words.chunks_exact_mut(self.tile_words.max(1)) {
            let (k, v) = tile.split_at_mut_checked(k_side.len() / 4).ok_or(CacheError::Internal(site!()))?;
            if !whole {
                k_side.get(k, tokens, &mut get)?;
                v_side.get(v, tokens, &mut get)?;
            }
            finite &= k_side.is_finite(k) & v_side.is_finite(v);
        }
        Ok(finite)
    }

    /// Copies all heads of one layer from one block to another.
    pub(super) fn copy_layer(&mut self, from: BlockId, to: BlockId, layer: usize) -> Option<()> {
        let ((from, len), (to, _)) = (self.layer_words(from, layer)?, self.layer_words(to, layer)?);
        let (low, high) = (from.min(to), from.max(to));
        let (head, tail) = self.words.split_at_mut_checked(high)?;
        let (low, high) = (head.get_mut(low..)?.get_mut(..len)?, tail.get_mut(..len)?);
        let (from, to) = if from < to { (low, high) } else { (high, low) };
        for (to, &mut from) in to.iter_mut().zip(from) {
            *to = from;
        }
        Some(())
    }

    /// Returns the first word of a layer of a block, and the number of words of its tiles, all heads together.
    fn layer_words(&self, block: BlockId, layer: usize) -> Option<(usize, usize)> {
        Some((self.start(block, layer, 0)?, self.tile_words.checked_mul(self.kv_heads)?))
    }

    /// Returns the word at which the tiles of one head begin, in a layer of a block.
    fn start(&self, block: BlockId, layer: usize, head: usize) -> Option<usize> {
        if layer >= self.layers || head >= self.kv_heads {
            return None;
        }
        let tile = (block as usize).checked_mul(self.layers)?.checked_add(layer)?;
        tile.checked_mul(self.kv_heads)?.checked_add(head)?.checked_mul(self.tile_words)
    }
}
