//! The tiles that attention reads: views of the keys and values of one head in one layer of a block.

use bytemuck::{must_cast_slice, try_cast_slice, try_cast_slice_mut};
use half::f16;

use super::element::KvElement;

/// Keys or values of a tile in their element type.
///
/// [Example](crate::kv#example).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Elements<'a> {
    /// Exact.
    F32(&'a [f32]),
    /// Half precision.
    F16(&'a [f16]),
    /// Codes of a byte, then scales.
    Q8_0(&'a [u8]),
    /// Codes of half a byte, then scales.
    Q4_0(&'a [u8]),
}

impl<'a> Elements<'a> {
    /// Returns the elements in `words`, or `None` if the words are not aligned for them.
    #[inline]
    pub fn new(element: KvElement, words: &'a [u32]) -> Option<Self> {
        Some(match element {
            KvElement::F32 => Self::F32(try_cast_slice(words).ok()?),
            KvElement::F16 => Self::F16(try_cast_slice(words).ok()?),
            KvElement::Q8_0 => Self::Q8_0(must_cast_slice(words)),
            KvElement::Q4_0 => Self::Q4_0(must_cast_slice(words)),
        })
    }

    /// Returns the element type.
    #[inline]
    pub fn element(self) -> KvElement {
        match self {
            Self::F32(_) => KvElement::F32,
            Self::F16(_) => KvElement::F16,
            Self::Q8_0(_) => KvElement::Q8_0,
            Self::Q4_0(_) => KvElement::Q4_0,
        }
    }

    /// Returns the bytes of the elements.
    #[inline]
    pub fn bytes(self) -> &'a [u8] {
        match self {
            Self::F32(elements) => must_cast_slice(elements),
            Self::F16(elements) => must_cast_slice(elements),
            Self::Q8_0(bytes) | Self::Q4_0(bytes) => bytes,
        }
    }
}

/// Writable keys or values of a tile in their element type.
///
/// [Example](crate::kv#example).
#[derive(Debug)]
#[non_exhaustive]
pub enum ElementsMut<'a> {
    /// Exact.
    F32(&'a mut [f32]),
    /// Half precision.
    F16(&'a mut [f16]),
    /// Codes of a byte, then scales.
    Q8_0(&'a mut [u8]),
    /// Codes of half a byte, then scales.
    Q4_0(&'a mut [u8]),
}

impl<'a> ElementsMut<'a> {
    /// Returns the elements in `words`, or `None` if the words are not aligned for them.
    #[inline]
    pub fn new(element: KvElement, words: &'a mut [u32]) -> Option<Self> {
        Some(match element {
            KvElement::F32 => Self::F32(try_cast_slice_mut(words).ok()?),
            KvElement::F16 => Self::F16(try_cast_slice_mut(words).ok()?),
            KvElement::Q8_0 => Self::Q8_0(try_cast_slice_mut(words).ok()?),
            KvElement::Q4_0 => Self::Q4_0(try_cast_slice_mut(words).ok()?),
        })
    }
}

/// The tile of one head in one layer of a block: K as `[head_dim][16]`, V as `[16][head_dim]`, each in its element
/// type.
///
/// [Example](crate::kernels#example).
#[derive(Clone, Copy, Debug)]
pub struct KvTile<'a> {
    /// `[head_dim][16]`.
    pub k: Elements<'a>,
    /// `[16][head_dim]`.
    pub v: Elements<'a>,
}

/// A writable [`KvTile`].
///
/// [Example](crate::kernels#example).
#[derive(Debug)]
pub struct KvTileMut<'a> {
    /// `[head_dim][16]`.
    pub k: ElementsMut<'a>,
    /// `[16][head_dim]`.
    pub v: ElementsMut<'a>,
}

/// Where attention finds the tiles of a layer of one sequence.
///
/// [Example](crate::kernels#example).
pub trait KvSource {
    /// Returns the element types of keys and of values in all tiles.
    fn elements(&self) -> [KvElement; 2];

    /// Returns the tile of a KV head in block `index` (positions `16 * index ..`), or `None` if there is none. Only
    /// blocks with visible positions are asked for. `head` can be one past the last head, because the next tile is
    /// fetched ahead.
    fn tile(&self, index: usize, head: usize) -> Option<KvTile<'_>>;
}
