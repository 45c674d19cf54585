//! The keys and values of one layer group: blocks of tiles.
//!
//! A block holds 16 tokens of all layers of the group. Inside it, per layer and KV head: K as
//! `[head_dim][16]` (one multiply and one add of a register give 16 scores) and V as `[16][head_dim]`.

use bytemuck::Pod;
use half::f16;

use super::block::{BLOCK_TOKENS, BlockId};
use super::geometry::KvGeometry;
use super::kind::KvType;
use crate::kernels::{Elements, ElementsMut, KvTile, KvTileMut, Level};
use crate::mem::{Arena, MemoryError};
use crate::num::{f16_to_f32, f32_to_f16, is_finite};

/// A key or value that is infinite, NaN, or too large for the element type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unstorable;

/// Where a token's keys and values of one layer belong.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) block: BlockId,
    /// Numbered within the group.
    pub(super) layer: usize,
    pub(super) slot: usize,
    /// Whether to zero the layer's tiles before: the first row that comes into a block does, so that no later read
    /// meets what the memory held.
    pub(super) clear: bool,
}

#[derive(Debug)]
pub(super) struct Pool<'a> {
    words: &'a mut [u32],
    element: KvType,
    layers: usize,
    kv_heads: usize,
    head_dim: usize,
    /// 32-bit words of one K or V tile.
    tile_words: usize,
}

impl<'a> Pool<'a> {
    pub(super) fn carve(
        arena: &mut Arena<'a>,
        name: &'static str,
        geometry: &KvGeometry,
        layers: usize,
    ) -> Result<Self, MemoryError> {
        // 16 tokens: a whole number of words for every element type.
        let tile_words =
            geometry.head_dim.checked_mul(BLOCK_TOKENS * geometry.element.bytes() / 4).ok_or(MemoryError::TooLarge)?;
        let per_block = [layers, geometry.kv_heads, 2].iter().try_fold(tile_words, |n, &f| n.checked_mul(f));
        let words = per_block.and_then(|words| words.checked_mul(geometry.blocks)).ok_or(MemoryError::TooLarge)?;
        Ok(Self {
            words: arena.slice(name, words)?,
            element: geometry.element,
            layers,
            kv_heads: geometry.kv_heads,
            head_dim: geometry.head_dim,
            tile_words,
        })
    }

    /// The K and V tile of one head of a layer (numbered within the group).
    #[inline]
    pub(super) fn tile(&self, block: BlockId, layer: usize, head: usize) -> Option<KvTile<'_>> {
        let start = self.start(block, layer, head)?;
        let words = self.words.get(start..start.checked_add(self.tile_words * 2)?)?;
        let (k, v) = words.split_at_checked(self.tile_words)?;
        Some(match self.element {
            KvType::F32 => KvTile { k: Elements::F32(cast(k)?), v: Elements::F32(cast(v)?) },
            KvType::F16 => KvTile { k: Elements::F16(cast(k)?), v: Elements::F16(cast(v)?) },
        })
    }

    /// Writes the K and V row of one token: `[kv_heads * head_dim]` each. `None` on a mismatch of sizes.
    pub(super) fn write_row(
        &mut self,
        level: Level,
        place: Place,
        k: &[f32],
        v: &[f32],
    ) -> Option<Result<(), Unstorable>> {
        let Place { block, layer, slot, clear } = place;
        let head_dim = self.head_dim.max(1);
        let mut finite = true;
        for (head, (k, v)) in k.chunks_exact(head_dim).zip(v.chunks_exact(head_dim)).enumerate() {
            let element = self.element;
            let (k_tile, v_tile) = self.tile_words(block, layer, head, clear)?;
            let tile = match element {
                KvType::F32 => {
                    KvTileMut { k: ElementsMut::F32(cast_mut(k_tile)?), v: ElementsMut::F32(cast_mut(v_tile)?) }
                }
                KvType::F16 => {
                    KvTileMut { k: ElementsMut::F16(cast_mut(k_tile)?), v: ElementsMut::F16(cast_mut(v_tile)?) }
                }
            };
            finite &= level.store(tile, slot, k, v)?;
        }
        Some(if finite { Ok(()) } else { Err(Unstorable) })
    }

    /// [`Pool::write_row`] with numbers that come one by one.
    pub(super) fn write_values(
        &mut self,
        place: Place,
        mut k: impl Iterator<Item = f32>,
        mut v: impl Iterator<Item = f32>,
    ) -> Option<Result<(), Unstorable>> {
        let Place { block, layer, slot, clear } = place;
        let (element, head_dim) = (self.element, self.head_dim);
        for head in 0..self.kv_heads {
            let (k_tile, v_tile) = self.tile_words(block, layer, head, clear)?;
            let (k, v) = (k.by_ref().take(head_dim), v.by_ref().take(head_dim));
            let stored = match element {
                KvType::F32 => put_row(cast_mut(k_tile)?, cast_mut(v_tile)?, head_dim, slot, k, v, store_f32),
                KvType::F16 => put_row(cast_mut(k_tile)?, cast_mut(v_tile)?, head_dim, slot, k, v, store_f16),
            };
            if !stored? {
                return Some(Err(Unstorable));
            }
        }
        Some(Ok(()))
    }

    /// The K row of one token, then its V row: `[2, kv_heads * head_dim]`. An item is `None` where there is no
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
            (0..head_dim).map(move |dim| tile.and_then(|tile| element(tile.k, dim * BLOCK_TOKENS + slot)))
        });
        let v = heads().flat_map(move |tile| {
            (0..head_dim).map(move |dim| tile.and_then(|tile| element(tile.v, slot * head_dim + dim)))
        });
        k.chain(v)
    }

    /// Copies all heads of one layer from one block to another.
    pub(super) fn copy_layer(&mut self, from: BlockId, to: BlockId, layer: usize) -> Option<()> {
        let len = self.tile_words.checked_mul(2 * self.kv_heads)?;
        let (from, to) = (self.start(from, layer, 0)?, self.start(to, layer, 0)?);
        let (low, high) = (from.min(to), from.max(to));
        let (head, tail) = self.words.split_at_mut_checked(high)?;
        let (low, high) = (head.get_mut(low..)?.get_mut(..len)?, tail.get_mut(..len)?);
        let (from, to) = if from < to { (low, high) } else { (high, low) };
        for (to, &mut from) in to.iter_mut().zip(from) {
            *to = from;
        }
        Some(())
    }

    /// The words of the K and of the V tile of a head, zeroed if wanted.
    fn tile_words(
        &mut self,
        block: BlockId,
        layer: usize,
        head: usize,
        clear: bool,
    ) -> Option<(&mut [u32], &mut [u32])> {
        let start = self.start(block, layer, head)?;
        let words = self.words.get_mut(start..start.checked_add(self.tile_words * 2)?)?;
        if clear {
            words.fill(0);
        }
        words.split_at_mut_checked(self.tile_words)
    }

    /// The word at which the tiles of a head of a layer of a block begin.
    fn start(&self, block: BlockId, layer: usize, head: usize) -> Option<usize> {
        if layer >= self.layers || head >= self.kv_heads {
            return None;
        }
        let tile = (block as usize).checked_mul(self.layers)?.checked_add(layer)?;
        tile.checked_mul(self.kv_heads)?.checked_add(head)?.checked_mul(self.tile_words * 2)
    }
}

fn cast<T: Pod>(words: &[u32]) -> Option<&[T]> {
    bytemuck::try_cast_slice(words).ok()
}

fn cast_mut<T: Pod>(words: &mut [u32]) -> Option<&mut [T]> {
    bytemuck::try_cast_slice_mut(words).ok()
}

/// Whether `x` is finite once it is rounded to the element type.
pub(super) fn is_storable(element: KvType, x: f32) -> bool {
    match element {
        KvType::F32 => store_f32(x).1,
        KvType::F16 => store_f16(x).1,
    }
}

fn store_f32(x: f32) -> (f32, bool) {
    (x, is_finite(x))
}

fn store_f16(x: f32) -> (f16, bool) {
    let rounded = f32_to_f16(x);
    (rounded, rounded.is_finite())
}

/// Stores one token's K as a column and its V as a row; false where a value can not be stored.
fn put_row<T>(
    k_tile: &mut [T],
    v_tile: &mut [T],
    head_dim: usize,
    slot: usize,
    k: impl Iterator<Item = f32>,
    v: impl Iterator<Item = f32>,
    store: impl Fn(f32) -> (T, bool),
) -> Option<bool> {
    let mut finite = true;
    for (column, x) in k_tile.chunks_exact_mut(BLOCK_TOKENS).zip(k) {
        let (value, ok) = store(x);
        *column.get_mut(slot)? = value;
        finite &= ok;
    }
    let start = slot.checked_mul(head_dim)?;
    for (place, x) in v_tile.get_mut(start..)?.iter_mut().zip(v) {
        let (value, ok) = store(x);
        *place = value;
        finite &= ok;
    }
    Some(finite)
}

fn element(elements: Elements<'_>, index: usize) -> Option<f32> {
    match elements {
        Elements::F32(elements) => elements.get(index).copied(),
        Elements::F16(elements) => elements.get(index).copied().map(f16_to_f32),
    }
}
