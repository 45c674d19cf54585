//! The keys and values of a tile as the bytes of a snapshot: little-endian, in their order in memory, without the slots
//! that hold no token.

use core::ops::Range;

use bytemuck::{must_cast_slice, must_cast_slice_mut};

use crate::kv::{BLOCK_TOKENS, KvElement};

/// Number of bytes of a scale.
const SCALE: usize = 2;

/// Layout of the keys, or of the values, of a tile.
#[derive(Clone, Copy, Debug)]
pub(super) struct Side {
    pub(super) element: KvElement,
    /// True for keys, whose tokens are columns; false for values, whose tokens are rows.
    keys: bool,
    /// Number of bytes of the codes, or of the elements if they have no scales.
    codes: usize,
    /// Number of bytes of the scales behind the codes. In each row of scales, the columns are tokens.
    scales: usize,
}

impl Side {
    pub(super) fn keys(element: KvElement, head_dim: usize) -> Option<Self> {
        Self::new(element, true, element.k_codes(head_dim)?, element.scales(head_dim)?)
    }

    pub(super) fn values(element: KvElement, head_dim: usize) -> Option<Self> {
        Self::new(element, false, element.v_codes(head_dim)?, element.scales(head_dim)?)
    }

    fn new(element: KvElement, keys: bool, codes: usize, scales: usize) -> Option<Self> {
        codes.checked_add(scales)?;
        Some(Self { element, keys, codes, scales })
    }

    /// Returns the number of bytes in memory, a multiple of 4.
    pub(super) fn len(&self) -> usize {
        self.codes + self.scales
    }

    /// Returns the number of bytes that `tokens` tokens, at most 16, have in a snapshot.
    pub(super) fn bytes(&self, tokens: usize) -> usize {
        let (whole, half) = if self.keys { (self.codes / BLOCK_TOKENS * tokens, 0) } else { self.rows(tokens) };
        whole + half + self.scales / BLOCK_TOKENS * tokens
    }

    /// Hands the bytes of the first `tokens` tokens of a tile to `put`.
    pub(super) fn put<E>(
        &self,
        tile: &[u32],
        tokens: usize,
        put: &mut impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let (codes, scales) = self.split(must_cast_slice(tile));
        self.put_piece(codes, 0, tokens, put)?;
        self.put_piece(scales, self.codes, tokens, put)
    }

    /// Returns the byte ranges of a tile's pieces, of at most `most` bytes each: first pieces of the codes, then of the
    /// scales.
    pub(super) fn pieces(&self, most: usize) -> impl Iterator<Item = Range<usize>> + use<> {
        let cut = move |part: Range<usize>| {
            let end = part.end;
            part.step_by(most.max(1)).map(move |start| start..end.min(start.saturating_add(most)))
        };
        cut(0..self.codes).chain(cut(self.codes..self.len()))
    }

    /// Hands to `put` the bytes of the first `tokens` tokens that lie in a piece of a tile. The piece begins at byte
    /// `at`.
    pub(super) fn put_piece<E>(
        &self,
        piece: &[u8],
        at: usize,
        tokens: usize,
        put: &mut impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let width = self.element.code_bytes();
        if at >= self.codes {
            return put_columns(piece, SCALE, tokens, put);
        }
        if self.keys {
            return put_columns(piece, width, tokens, put);
        }
        let [whole, half] = self.rows_in(piece.len(), at, tokens);
        put_units(piece.get(..whole).unwrap_or_default(), width, put)?;
        for bytes in piece.get(whole..).unwrap_or_default().get(..half).unwrap_or_default().chunks(32) {
            // The upper half of each byte belongs to a token that does not exist.
            let mut lower = [0; 32];
            lower.iter_mut().zip(bytes).for_each(|(place, byte)| *place = byte & 0xf);
            put(lower.get(..bytes.len()).unwrap_or_default())?;
        }
        Ok(())
    }

    /// Returns how many bytes of a piece of values belong to the first `tokens` tokens: bytes of whole rows, and bytes
    /// of a row of two tokens that holds only the last one. The piece begins at byte `at` of a tile.
    fn rows_in(&self, len: usize, at: usize, tokens: usize) -> [usize; 2] {
        let (whole, half) = self.rows(tokens);
        let inside = |end: usize| end.saturating_sub(at).min(len);
        [inside(whole), inside(whole + half) - inside(whole)]
    }

    /// Fills a tile with the bytes that [`Side::put`] handed over, and the rest of it with zeros.
    pub(super) fn get<E>(
        &self,
        tile: &mut [u32],
        tokens: usize,
        get: &mut impl FnMut(&mut [u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        tile.fill(0);
        let bytes: &mut [u8] = must_cast_slice_mut(tile);
        let (codes, scales) = bytes.split_at_mut_checked(self.codes).unwrap_or_default();
        self.get_piece(codes, 0, tokens, get)?;
        self.get_piece(scales, self.codes, tokens, get)
    }

    /// Fills a piece of a tile with the bytes that [`Side::put_piece`] handed over. The piece is all zeros before and
    /// begins at byte `at`.
    pub(super) fn get_piece<E>(
        &self,
        piece: &mut [u8],
        at: usize,
        tokens: usize,
        get: &mut impl FnMut(&mut [u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let width = self.element.code_bytes();
        if at >= self.codes {
            return get_columns(piece, SCALE, tokens, get);
        }
        if self.keys {
            return get_columns(piece, width, tokens, get);
        }
        let [whole, half] = self.rows_in(piece.len(), at, tokens);
        get_units(piece.get_mut(..whole + half).unwrap_or_default(), width, get)
    }

    /// Returns whether all elements of a tile are finite: no element and no scale has an exponent of all ones.
    pub(super) fn is_finite(&self, tile: &[u32]) -> bool {
        let from = if self.scales == 0 { 0 } else { self.codes };
        self.is_finite_piece(tile.get(from / 4..).unwrap_or_default(), from)
    }

    /// [`Side::is_finite`] for a piece of a tile, which begins at byte `at` of the tile.
    pub(super) fn is_finite_piece(&self, piece: &[u32], at: usize) -> bool {
        if at < self.codes && self.scales > 0 {
            return true;
        }
        let (exponent, lowest): (u32, u32) = match self.element {
            KvElement::F32 => (0x7f80_0000, 0x0080_0000),
            _ => (0x7c00_7c00, 0x0400_0400),
        };
        // An exponent of all ones carries into the bit above it when 1 is added at its lowest bit.
        let carries = piece.iter().fold(0, |carries, word| carries | (word & exponent).wrapping_add(lowest));
        carries & exponent.wrapping_add(lowest) == 0
    }

    /// Returns whether two tokens share bytes.
    fn is_paired(&self) -> bool {
        !self.keys && self.element == KvElement::Q4_0
    }

    /// Returns the number of bytes of the whole rows of `tokens` tokens, and of a row of two tokens that holds only the
    /// last one.
    fn rows(&self, tokens: usize) -> (usize, usize) {
        if self.is_paired() {
            let row = self.codes / (BLOCK_TOKENS / 2);
            (tokens / 2 * row, tokens % 2 * row)
        } else {
            (self.codes / BLOCK_TOKENS * tokens, 0)
        }
    }

    fn split<'t>(&self, tile: &'t [u8]) -> (&'t [u8], &'t [u8]) {
        tile.split_at_checked(self.codes).unwrap_or_default()
    }
}

fn put_columns<E>(
    bytes: &[u8],
    width: usize,
    tokens: usize,
    put: &mut impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), E> {
    for column in bytes.chunks_exact((BLOCK_TOKENS * width).max(1)) {
        put_units(column.get(..tokens * width).unwrap_or_default(), width, put)?;
    }
    Ok(())
}

fn get_columns<E>(
    bytes: &mut [u8],
    width: usize,
    tokens: usize,
    get: &mut impl FnMut(&mut [u8]) -> Result<(), E>,
) -> Result<(), E> {
    for column in bytes.chunks_exact_mut((BLOCK_TOKENS * width).max(1)) {
        get_units(column.get_mut(..tokens * width).unwrap_or_default(), width, get)?;
    }
    Ok(())
}

/// Hands over numbers of `width` bytes, which are in the machine's byte order, in the little-endian one.
fn put_units<E>(bytes: &[u8], width: usize, put: &mut impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
    if cfg!(target_endian = "little") || width == 1 {
        return put(bytes);
    }
    for bytes in bytes.chunks_exact(width.max(1)) {
        let mut reversed = [0; 4];
        reversed.iter_mut().zip(bytes.iter().rev()).for_each(|(to, &from)| *to = from);
        put(reversed.get(..bytes.len()).unwrap_or_default())?;
    }
    Ok(())
}

/// The reverse of [`put_units`].
fn get_units<E>(bytes: &mut [u8], width: usize, get: &mut impl FnMut(&mut [u8]) -> Result<(), E>) -> Result<(), E> {
    get(bytes)?;
    if cfg!(target_endian = "big") {
        bytes.chunks_exact_mut(width.max(1)).for_each(<[u8]>::reverse);
    }
    Ok(())
}
