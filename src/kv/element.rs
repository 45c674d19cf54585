//! Element types of keys and values.
//!
//! A quantized tile is its codes and, behind them, one scale per token and per block of 32 elements of a head:
//! `[blocks][16]` f16. An element is its scale times its code, which is exact in f32.

use half::f16;

use super::block::TILE_TOKENS;
use crate::num::f16_to_f32;

/// Number of elements of a head that share a scale. The last block of a head has the rest.
pub(crate) const SCALED: usize = 32;

/// Element type of keys or values.
///
/// [Example](crate::kv#example).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum KvElement {
    /// 4 bytes, exact.
    F32,
    /// 2 bytes, rounded once to the nearest even.
    #[default]
    F16,
    /// A code of one byte, and 2 bytes of scale per 32 elements.
    Q8_0,
    /// A code of half a byte, and 2 bytes of scale per 32 elements.
    Q4_0,
}

impl KvElement {
    /// All types.
    pub const ALL: [Self; 4] = [Self::F32, Self::F16, Self::Q8_0, Self::Q4_0];

    /// Returns "f32", "f16", "q8_0" or "q4_0".
    pub const fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::Q8_0 => "q8_0",
            Self::Q4_0 => "q4_0",
        }
    }

    /// Returns whether this build computes with the type: see the features `kv-*`.
    pub const fn is_built(self) -> bool {
        match self {
            Self::F32 => cfg!(feature = "kv-f32"),
            Self::F16 => true,
            Self::Q8_0 => cfg!(feature = "kv-q8_0"),
            Self::Q4_0 => cfg!(feature = "kv-q4_0"),
        }
    }

    /// Returns whether the type is f16. In a build without other types the compiler knows the answer.
    pub(crate) const fn is_f16(self) -> bool {
        matches!(self, Self::F16) || !(Self::F32.is_built() || Self::Q8_0.is_built() || Self::Q4_0.is_built())
    }

    /// Returns the number that ggml has for the type.
    pub const fn number(self) -> u32 {
        match self {
            Self::F32 => 0,
            Self::F16 => 1,
            Self::Q8_0 => 8,
            Self::Q4_0 => 2,
        }
    }

    /// Returns the number of bytes of the codes of a tile's keys, `[head_dim][16]`, or of its elements if they have no
    /// scale. Returns `None` if memory could not hold them.
    ///
    /// q4_0: `[head_dim / 2, rounded up][16]`, with element 2 i in the lower half of a byte and 2 i + 1 in the upper
    /// half.
    pub fn k_codes(self, head_dim: usize) -> Option<usize> {
        match self {
            Self::Q4_0 => head_dim.div_ceil(2).checked_mul(TILE_TOKENS),
            _ => head_dim.checked_mul(TILE_TOKENS)?.checked_mul(self.code_bytes()),
        }
    }

    /// Returns the number of bytes of the codes of a tile's values, `[16][head_dim]`, or of its elements if they have
    /// no scale. Returns `None` if memory could not hold them.
    ///
    /// q4_0: `[8][head_dim]`, with token 2 i in the lower half of a byte and 2 i + 1 in the upper half.
    pub fn v_codes(self, head_dim: usize) -> Option<usize> {
        match self {
            Self::Q4_0 => head_dim.checked_mul(TILE_TOKENS / 2),
            _ => head_dim.checked_mul(TILE_TOKENS)?.checked_mul(self.code_bytes()),
        }
    }

    /// Returns the number of bytes of the scales of a tile, `[head_dim / 32, rounded up][16]`.
    pub fn scales(self, head_dim: usize) -> Option<usize> {
        match self {
            Self::F32 | Self::F16 => Some(0),
            Self::Q8_0 | Self::Q4_0 => head_dim.div_ceil(SCALED).checked_mul(TILE_TOKENS * size_of::<f16>()),
        }
    }

    /// Returns the number of bytes of a tile of keys: a whole number of 32-bit words.
    pub fn k_tile(self, head_dim: usize) -> Option<usize> {
        self.k_codes(head_dim)?.checked_add(self.scales(head_dim)?)
    }

    /// Returns the number of bytes of a tile of values: a whole number of 32-bit words.
    pub fn v_tile(self, head_dim: usize) -> Option<usize> {
        self.v_codes(head_dim)?.checked_add(self.scales(head_dim)?)
    }

    /// Returns the number of bytes that hold a code, or an element without a scale.
    pub const fn code_bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 => 2,
            Self::Q8_0 | Self::Q4_0 => 1,
        }
    }

    /// Returns element `dim` of the key of token `slot`, or `None` if the tile has no such element.
    pub fn key(self, tile: &[u8], head_dim: usize, dim: usize, slot: usize) -> Option<f32> {
        if dim >= head_dim || slot >= TILE_TOKENS {
            return None;
        }
        let code = match self {
            Self::F32 | Self::F16 => return self.float(tile, dim.checked_mul(TILE_TOKENS)?.checked_add(slot)?),
            Self::Q8_0 => f32::from(*tile.get(dim.checked_mul(TILE_TOKENS)?.checked_add(slot)?)? as i8),
            Self::Q4_0 => half_code(*tile.get((dim / 2).checked_mul(TILE_TOKENS)?.checked_add(slot)?)?, dim),
        };
        Some(scale(tile, self.k_codes(head_dim)?, dim, slot)? * code)
    }

    /// Returns element `dim` of the value of token `slot`, or `None` if the tile has no such element.
    pub fn value(self, tile: &[u8], head_dim: usize, dim: usize, slot: usize) -> Option<f32> {
        if dim >= head_dim || slot >= TILE_TOKENS {
            return None;
        }
        let code = match self {
            Self::F32 | Self::F16 => return self.float(tile, slot.checked_mul(head_dim)?.checked_add(dim)?),
            Self::Q8_0 => f32::from(*tile.get(slot.checked_mul(head_dim)?.checked_add(dim)?)? as i8),
            Self::Q4_0 => half_code(*tile.get((slot / 2).checked_mul(head_dim)?.checked_add(dim)?)?, slot),
        };
        Some(scale(tile, self.v_codes(head_dim)?, dim, slot)? * code)
    }

    fn float(self, tile: &[u8], index: usize) -> Option<f32> {
        let bytes = tile.get(index.checked_mul(self.code_bytes())?..)?;
        match self {
            Self::F32 => bytes.first_chunk().map(|&bytes| f32::from_ne_bytes(bytes)),
            _ => bytes.first_chunk().map(|&bytes| f16_to_f32(f16::from_ne_bytes(bytes))),
        }
    }
}

/// Returns one of the two codes in a byte, which are in two's complement: the upper one for odd indices.
fn half_code(byte: u8, index: usize) -> f32 {
    let upper = if index.is_multiple_of(2) { byte << 4 } else { byte };
    f32::from(upper as i8 >> 4)
}

/// Returns the scale of an element. The scales lie behind `codes` bytes of codes.
fn scale(tile: &[u8], codes: usize, dim: usize, slot: usize) -> Option<f32> {
    let index = (dim / SCALED).checked_mul(TILE_TOKENS)?.checked_add(slot)?.checked_mul(size_of::<f16>())?;
    tile.get(codes..)?.get(index..)?.first_chunk().map(|&bytes| f16_to_f32(f16::from_ne_bytes(bytes)))
}
