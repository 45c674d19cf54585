//! A tile of sixteen rows of weights, and the steps that kernels of all formats share.

use core::arch::x86_64::*;
use core::marker::PhantomData;

use crate::kernels::fetch::FetchOrder;
use crate::kernels::generic::Inputs;
use crate::kernels::x86_64::ahead::{Coming, NextRows};
use crate::tensor::TensorView;

/// Number of rows of weights that are multiplied at once.
pub(super) const ROWS: usize = 16;

/// Bytes of a cache line.
const LINE: usize = 64;

/// Up to [`ROWS`] rows of blocks of `BYTES` bytes. Where there are fewer, the last one stands in for the missing ones.
/// The kernel takes `TOGETHER` blocks of a row at once.
pub(super) struct Tile<'a, const BYTES: usize, const TOGETHER: usize> {
    first: *const u8,
    /// Bytes from `first` to each row: `offsets[r] + blocks * BYTES` are within the weights.
    offsets: [usize; ROWS],
    /// The offsets as i32 in lanes.
    indices: __m512i,
    /// Number of blocks of a row.
    blocks: usize,
    /// The rows that are needed next.
    next: NextRows,
    /// Addresses that are fetched with the first block of each row.
    places: [*const u8; ROWS],
    mask: u16,
    weights: PhantomData<&'a [u8]>,
}

impl<'a, const BYTES: usize, const TOGETHER: usize> Tile<'a, BYTES, TOGETHER> {
    /// Number of lines that are fetched with a row. It is rounded up, so that no line is left out when weights are
    /// fetched in the order of memory.
    const LINES: usize = (TOGETHER * BYTES).div_ceil(LINE);

    /// Returns the tile of rows from `first` on; `None` where there are none, where blocks have another size, or where
    /// the rows are too long for offsets of 31 bits. The inputs say which weights are needed next.
    #[inline]
    #[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
    pub(super) fn new(
        weights: TensorView<'a>,
        first: usize,
        inputs: &Inputs<'_>,
        (lead, order): (usize, FetchOrder),
    ) -> Option<Self> {
        let row_bytes = weights.dtype().row_bytes(weights.cols())?;
        let blocks = row_bytes / const { BYTES };
        let last = weights.rows().checked_sub(first)?.checked_sub(1)?.min(ROWS - 1);
        let rows = weights.slice_rows(first, last + 1)?.bytes();
        if blocks * BYTES != row_bytes || row_bytes > i32::MAX as usize / ROWS || rows.len() != (last + 1) * row_bytes {
            return None;
        }
        let coming = Coming::after(first + ROWS, [weights.rows(), row_bytes], weights.bytes().as_ptr(), inputs);
        let next = NextRows::new(coming, lead, order, [ROWS, row_bytes], [TOGETHER, BYTES]);
        let mut offsets = [0; ROWS];
        let mut indices = [0_i32; ROWS];
        for (r, (offset, index)) in offsets.iter_mut().zip(&mut indices).enumerate() {
            *offset = r.min(last) * row_bytes;
            *index = *offset as i32;
        }
        Some(Self {
            first: rows.as_ptr(),
            offsets,
            indices: load_64::<0, _, _>(&indices),
            blocks,
            next,
            places: next.places(),
            mask: u16::MAX >> (ROWS - 1 - last),
            weights: PhantomData,
        })
    }

    /// Returns the number of blocks of a row.
    pub(super) fn blocks(&self) -> usize {
        self.blocks
    }

    /// Returns a mask with a bit for each row that exists.
    pub(super) fn mask(&self) -> u16 {
        self.mask
    }

    /// Returns block `b` of row `r`. If `FETCH`, fetches as many bytes of the next tile as the kernel takes of a row at
    /// once.
    ///
    /// # Safety
    /// `r` < 16 and `b` < [`Tile::blocks`].
    #[inline]
    #[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
    pub(super) unsafe fn block<const FETCH: bool>(&self, r: usize, b: usize) -> &'a [u8; BYTES] {
        // SAFETY: the caller promises that this row, below 16, and this block of it exist, so its bytes are within the
        // weights, which are borrowed for 'a.
        unsafe {
            if FETCH {
                self.next.fetch_at(*self.places.get_unchecked(r), b, Self::LINES);
            }
            &*self.first.add(*self.offsets.get_unchecked(r) + b * BYTES).cast()
        }
    }

    /// Returns the 4 bytes from `AT` on of block `b` of each row.
    ///
    /// # Safety
    /// `b` < [`Tile::blocks`].
    #[inline]
    #[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
    pub(super) unsafe fn gather<const AT: usize>(&self, b: usize) -> __m512i {
        const { assert!(AT + 4 <= BYTES) };
        // SAFETY: the caller promises that the rows have this block, and the 4 bytes are within it, as asserted.
        unsafe { self.gather_at(b, AT) }
    }

    /// Returns the 4 bytes from `at` on of block `b` of each row.
    ///
    /// # Safety
    /// `b` < [`Tile::blocks`], and a block has these bytes.
    #[inline]
    #[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
    pub(super) unsafe fn gather_at(&self, b: usize, at: usize) -> __m512i {
        // SAFETY: the caller promises that the rows have this block, and the block these bytes.
        unsafe { _mm512_i32gather_epi32::<1>(self.indices, self.first.add(b * BYTES + at).cast()) }
    }

    /// Returns the 16 bytes from `AT` on of block `b` of each row: row 4 l + i is 128-bit lane l of register i. `FETCH`
    /// is as in [`Tile::block`].
    ///
    /// # Safety
    /// `b` < [`Tile::blocks`].
    #[inline]
    #[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
    pub(super) unsafe fn headers<const AT: usize, const FETCH: bool>(&self, b: usize) -> [__m512i; 4] {
        let mut headers = [_mm512_setzero_si512(); 4];
        for (i, header) in headers.iter_mut().enumerate() {
            // SAFETY: the rows are i, 4 + i, 8 + i and 12 + i with i < 4; the block is there by the caller's promise.
            let blocks = unsafe {
                [
                    self.block::<FETCH>(i, b),
                    self.block::<FETCH>(4 + i, b),
                    self.block::<FETCH>(8 + i, b),
                    self.block::<FETCH>(12 + i, b),
                ]
            };
            *header = four_lanes::<AT, BYTES>(blocks);
        }
        headers
    }
}

/// Returns the 64 bytes from byte `AT` on.
#[inline]
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
pub(in crate::kernels::x86_64::avx512) fn load_64<const AT: usize, T: Copy, const N: usize>(from: &[T; N]) -> __m512i {
    const { assert!(AT + 64 <= size_of::<[T; N]>()) };
    // SAFETY: the bytes are within the array, as asserted when this is compiled.
    unsafe { _mm512_loadu_si512(from.as_ptr().cast::<u8>().add(AT).cast()) }
}

/// Returns the 32 bytes from byte `AT` on.
#[inline]
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
pub(in crate::kernels::x86_64::avx512) fn load_32<const AT: usize, T: Copy, const N: usize>(from: &[T; N]) -> __m256i {
    const { assert!(AT + 32 <= size_of::<[T; N]>()) };
    // SAFETY: the bytes are within the array, as asserted when this is compiled.
    unsafe { _mm256_loadu_si256(from.as_ptr().cast::<u8>().add(AT).cast()) }
}

/// Returns the 16 bytes from byte `AT` on.
#[inline]
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
pub(in crate::kernels::x86_64::avx512) fn load_16<const AT: usize, T: Copy, const N: usize>(from: &[T; N]) -> __m128i {
    const { assert!(AT + 16 <= size_of::<[T; N]>()) };
    // SAFETY: the bytes are within the array, as asserted when this is compiled.
    unsafe { _mm_loadu_si128(from.as_ptr().cast::<u8>().add(AT).cast()) }
}

/// Returns the little-endian u32 at byte `AT`.
#[inline]
pub(in crate::kernels::x86_64::avx512) fn load_u32<const AT: usize, const N: usize>(from: &[u8; N]) -> u32 {
    const { assert!(AT + 4 <= N) };
    // SAFETY: the bytes are within the array, as asserted when this is compiled.
    unsafe { u32::from_le(from.as_ptr().add(AT).cast::<u32>().read_unaligned()) }
}

/// Returns the 16 bytes from byte `AT` on of each block, in 128-bit lanes.
#[inline]
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) fn four_lanes<const AT: usize, const N: usize>([a, b, c, d]: [&[u8; N]; 4]) -> __m512i {
    let lanes = _mm512_castsi128_si512(load_16::<AT, _, _>(a));
    let lanes = _mm512_inserti32x4::<1>(lanes, load_16::<AT, _, _>(b));
    let lanes = _mm512_inserti32x4::<2>(lanes, load_16::<AT, _, _>(c));
    _mm512_inserti32x4::<3>(lanes, load_16::<AT, _, _>(d))
}

/// Returns the same four dwords in each 128-bit lane.
#[inline]
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) fn set_lanes([a, b, c, d]: [u32; 4]) -> __m512i {
    _mm512_set4_epi32(d as i32, c as i32, b as i32, a as i32)
}

/// Stores the lanes of [`Tile::headers`] to memory: row 4 l + i is at index 4 i + l.
#[inline]
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) fn store_lanes(registers: [__m512i; 4]) -> [[u64; 2]; ROWS] {
    let mut lanes = [[0; 2]; ROWS];
    for (to, register) in lanes.as_chunks_mut::<4>().0.iter_mut().zip(registers) {
        // SAFETY: `to` is four times two u64, the 64 bytes that are written.
        unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), register) };
    }
    lanes
}

/// Returns a register of two halves of 256 bits.
#[inline]
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) fn halves(low: __m256i, high: __m256i) -> __m512i {
    _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high)
}

/// Returns the start of a sum of products with codes that are too large by `offset`: -offset times the activations.
#[inline]
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
pub(in crate::kernels::x86_64::avx512) fn start(offset: u8, x: __m512i) -> __m512i {
    let zero = _mm512_setzero_si512();
    _mm512_sub_epi32(zero, _mm512_dpbusd_epi32(zero, _mm512_set1_epi8(offset as i8), x))
}

/// Adds the dwords of each 128-bit lane: dword i of a lane is the sum of this lane of register i.
#[inline]
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
pub(in crate::kernels::x86_64::avx512) fn sum_in_lanes([a, b, c, d]: [__m512i; 4]) -> __m512i {
    let dwords = |a, b| _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
    let (ab, cd) = (dwords(a, b), dwords(c, d));
    _mm512_add_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd))
}

/// Transposes the 4x4 matrix of 128-bit lanes: register l has lane l of all four registers.
#[inline]
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) fn transpose_lanes([a, b, c, d]: [__m512i; 4]) -> [__m512i; 4] {
    let (ab_01, ab_23) = (_mm512_shuffle_i32x4::<0x44>(a, b), _mm512_shuffle_i32x4::<0xee>(a, b));
    let (cd_01, cd_23) = (_mm512_shuffle_i32x4::<0x44>(c, d), _mm512_shuffle_i32x4::<0xee>(c, d));
    [
        _mm512_shuffle_i32x4::<0x88>(ab_01, cd_01),
        _mm512_shuffle_i32x4::<0xdd>(ab_01, cd_01),
        _mm512_shuffle_i32x4::<0x88>(ab_23, cd_23),
        _mm512_shuffle_i32x4::<0xdd>(ab_23, cd_23),
    ]
}

/// Adds the two lanes of each 256-bit half, and transposes as [`transpose_lanes`]: register h has the sums of half h of
/// all four registers.
#[inline]
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) fn sum_halves([a, b, c, d]: [__m512i; 4]) -> [__m512i; 2] {
    let lanes = |a, b| _mm512_add_epi32(_mm512_shuffle_i32x4::<0x88>(a, b), _mm512_shuffle_i32x4::<0xdd>(a, b));
    let (ab, cd) = (lanes(a, b), lanes(c, d));
    [_mm512_shuffle_i32x4::<0x88>(ab, cd), _mm512_shuffle_i32x4::<0xdd>(ab, cd)]
}

/// Adds the four lanes of each register: lane l of the result belongs to register l.
#[inline]
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
pub(in crate::kernels::x86_64::avx512) fn sum_lanes(registers: [__m512i; 4]) -> __m512i {
    let [low, high] = sum_halves(registers);
    _mm512_add_epi32(low, high)
}

/// Returns `f32(integers) * (scale * dx)`, which a block adds to a sum.
#[inline]
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
pub(in crate::kernels::x86_64::avx512) fn term(integers: __m512i, scale: __m512, dx: f32) -> __m512 {
    _mm512_mul_ps(_mm512_cvtepi32_ps(integers), _mm512_mul_ps(scale, _mm512_set1_ps(dx)))
}
