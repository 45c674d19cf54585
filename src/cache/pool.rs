//! The keys and values of one layer group: blocks of tiles.
//!
//! A block holds 16 tokens of all layers of the group. Inside it, per layer and KV head: K as
//! `[head_dim][16]` (one multiply and one add of a register give 16 scores) and V as `[16][head_dim]`.

use bytemuck::{Pod, must_cast_slice, must_cast_slice_mut};

use super::block::{BLOCK_TOKENS, BlockId};
use super::error::CacheError;
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

    /// Bytes of a block.
    pub(super) fn block_bytes(&self) -> usize {
        self.layers.saturating_mul(self.kv_heads).saturating_mul(self.tile_words.saturating_mul(2 * 4))
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

    /// Hands over the keys and values of the first `tokens` tokens of a layer of a block: per head K
    /// `[head_dim][tokens]`, then V `[tokens][head_dim]`, little-endian.
    pub(super) fn export<E: From<CacheError>>(
        &self,
        block: BlockId,
        layer: usize,
        tokens: usize,
        mut put: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let (element, width) = (self.element, self.element.bytes());
        let (start, len) = self.layer_words(block, layer).ok_or(CacheError::Internal)?;
        let words = self.words.get(start..).and_then(|words| words.get(..len)).ok_or(CacheError::Internal)?;
        if tokens >= BLOCK_TOKENS {
            return put_elements(element, must_cast_slice(words), &mut put);
        }
        for tile in words.chunks_exact(self.tile_words.saturating_mul(2).max(1)) {
            let (k, v) = must_cast_slice(tile).split_at_checked(self.tile_words * 4).ok_or(CacheError::Internal)?;
            for column in k.chunks_exact(BLOCK_TOKENS * width) {
                put_elements(element, column.get(..tokens * width).unwrap_or_default(), &mut put)?;
            }
            put_elements(element, v.get(..tokens * self.head_dim * width).unwrap_or_default(), &mut put)?;
        }
        Ok(())
    }

    /// Fills a layer of a block with what [`Pool::export`] hands over, and the rest of it with zeros: whether all
    /// elements are finite.
    pub(super) fn import<E: From<CacheError>>(
        &mut self,
        block: BlockId,
        layer: usize,
        tokens: usize,
        mut get: impl FnMut(&mut [u8]) -> Result<(), E>,
    ) -> Result<bool, E> {
        let (element, width) = (self.element, self.element.bytes());
        let (start, len) = self.layer_words(block, layer).ok_or(CacheError::Internal)?;
        let words = self.words.get_mut(start..).and_then(|words| words.get_mut(..len)).ok_or(CacheError::Internal)?;
        if tokens >= BLOCK_TOKENS {
            get_elements(element, must_cast_slice_mut(words), &mut get)?;
            return Ok(all_finite(element, words));
        }
        words.fill(0);
        for tile in words.chunks_exact_mut(self.tile_words.saturating_mul(2).max(1)) {
            let bytes = must_cast_slice_mut(tile);
            let (k, v) = bytes.split_at_mut_checked(self.tile_words * 4).ok_or(CacheError::Internal)?;
            for column in k.chunks_exact_mut(BLOCK_TOKENS * width) {
                get_elements(element, column.get_mut(..tokens * width).unwrap_or_default(), &mut get)?;
            }
            get_elements(element, v.get_mut(..tokens * self.head_dim * width).unwrap_or_default(), &mut get)?;
        }
        Ok(all_finite(element, words))
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

    /// The first word of a layer of a block, and how many words the tiles of all its heads have.
    fn layer_words(&self, block: BlockId, layer: usize) -> Option<(usize, usize)> {
        Some((self.start(block, layer, 0)?, self.tile_words.checked_mul(2 * self.kv_heads)?))
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
        KvType::F32 => is_finite(x),
        KvType::F16 => f32_to_f16(x).is_finite(),
    }
}

/// Whether no element has an exponent of all ones: added to by one at its lowest bit, that would carry.
fn all_finite(element: KvType, words: &[u32]) -> bool {
    let (exponent, lowest): (u32, u32) = match element {
        KvType::F32 => (0x7f80_0000, 0x0080_0000),
        KvType::F16 => (0x7c00_7c00, 0x0400_0400),
    };
    let carries = words.iter().fold(0, |carries, word| carries | (word & exponent).wrapping_add(lowest));
    carries & exponent.wrapping_add(lowest) == 0
}

/// Hands over elements as they are in memory, in the order of little-endian machines.
fn put_elements<E>(element: KvType, bytes: &[u8], put: &mut impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
    if cfg!(target_endian = "little") {
        return put(bytes);
    }
    for bytes in bytes.chunks_exact(element.bytes()) {
        let mut reversed = [0; 4];
        reversed.iter_mut().zip(bytes.iter().rev()).for_each(|(to, &from)| *to = from);
        put(reversed.get(..bytes.len()).unwrap_or_default())?;
    }
    Ok(())
}

/// The reverse of [`put_elements`].
fn get_elements<E>(
    element: KvType,
    bytes: &mut [u8],
    get: &mut impl FnMut(&mut [u8]) -> Result<(), E>,
) -> Result<(), E> {
    get(bytes)?;
    if cfg!(target_endian = "big") {
        bytes.chunks_exact_mut(element.bytes()).for_each(<[u8]>::reverse);
    }
    Ok(())
}

fn element(elements: Elements<'_>, index: usize) -> Option<f32> {
    match elements {
        Elements::F32(elements) => elements.get(index).copied(),
        Elements::F16(elements) => elements.get(index).copied().map(f16_to_f32),
    }
}
