//! Products of panels with super-blocks of 256 and rows of activations, with tiles.

use core::arch::x86_64::*;
use core::marker::PhantomData;

use super::format::{Format, Group, ROWS, Work};
use super::tiles::{self, Shapes, Sums};
use crate::kernels::x86_64::ahead::Ahead;
use crate::kernels::x86_64::avx512::matmul;
use crate::kernels::x86_64::avx512::panel_256::{Layout256, Panel256};
use crate::tensor::TensorView;

/// A format with super-blocks of 256.
pub(super) struct SuperBlocks<L>(PhantomData<L>);

/// A super-block of each of 32 rows, with codes that are multiplied by their sub-scales. So tiles can sum a whole
/// super-block. A product has 16 bits: the lower byte replaces the code in `block`, the upper byte is in `high`.
#[repr(C, align(64))]
pub(super) struct Scaled {
    block: Panel256,
    /// Upper bytes of the products.
    high: [[__m512i; 2]; 64],
}

// SAFETY: a panel is registers of integers and of f32, and an integer.
unsafe impl<L: Layout256> Format for SuperBlocks<L> {
    type Panel = Scaled;
    const COLS: usize = 256;
    const BYTES: usize = L::BYTES;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn unpack(weights: TensorView<'_>, first: usize, panel: &mut [Scaled], ahead: impl Fn(usize) -> Ahead) {
        let reads = 2 * L::BYTES;
        let ahead = ahead(reads * panel.len());
        for (i, scaled) in panel.iter_mut().enumerate() {
            let block = core::slice::from_mut(&mut scaled.block);
            // SAFETY: the caller promises this block of the rows, and the instructions.
            unsafe {
                matmul::unpack::<matmul::SuperBlocks<L>>((), weights, first + i, block, ahead.skip(reads * i), false);
                scaled.scale::<L>();
            }
        }
    }

    /// Tiles 0 to 3 have sums, 4 activations, 5 to 7 weights.
    fn shapes(rows: usize) -> Shapes {
        let (sums, inputs, weights) = ((rows as u8, 64), (rows as u8, 64), (16, 64));
        Shapes::new([sums, sums, sums, sums, inputs, weights, weights, weights])
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn add_products(
        panel: &[Scaled],
        group: &Group,
        before: Option<&Group>,
        work: &mut Work,
        ahead: Ahead,
        out: *mut f32,
    ) {
        // Two super-blocks would not fit the first-level cache beside the inputs.
        const { assert!(Self::BLOCKS == 1) };
        let Some(scaled) = panel.first() else { return };
        ahead.fetch(0, Ahead::UNITS);
        let [even, odd] = &mut work.sums;
        let (sums, left) = if group.turn == 0 { (even, odd) } else { (odd, even) };
        // SAFETY: the caller promises the super-block in all rows, the shapes, and the output of the rows before.
        unsafe {
            match (before, L::MIN, L::SUBS) {
                (None, ..) => scaled.multiply(group, sums, &|_| {}),
                (Some(before), false, _) => scaled.multiply_and_add::<false, 0>(group, sums, (before, left), out),
                (Some(before), true, 16) => scaled.multiply_and_add::<true, 16>(group, sums, (before, left), out),
                (Some(before), true, _) => scaled.multiply_and_add::<true, 8>(group, sums, (before, left), out),
            }
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn finish(panel: &[Scaled], group: &Group, work: &mut Work, out: *mut f32) {
        let Some(scaled) = panel.first() else { return };
        let [even, odd] = &work.sums;
        let sums = if group.turn == 0 { even } else { odd };
        for row in 0..group.rows {
            // SAFETY: the caller promises the super-block in all rows, and room for them in `out`.
            unsafe {
                match (L::MIN, L::SUBS) {
                    (false, _) => scaled.add_row::<false, 0>(row, group, sums, out),
                    (true, 16) => scaled.add_row::<true, 16>(row, group, sums, out),
                    (true, _) => scaled.add_row::<true, 8>(row, group, sums, out),
                }
            }
        }
    }
}

impl Scaled {
    /// Multiplies the codes of the block by their sub-scales. The products are -4064 to 4096.
    #[inline(never)]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    fn scale<L: Layout256>(&mut self) {
        // Bits of the second argument where the first one has ones, and of the third where it has zeros.
        const PICK: i32 = 0xca;
        let lower = _mm512_set1_epi16(0xff);
        let offset = _mm512_set1_epi16(L::OFFSET);
        let length = 64 / L::SUBS;
        for (index, (codes, high)) in self.block.codes.iter_mut().zip(&mut self.high).enumerate() {
            let Some(scales) = self.block.sub_scales.get(index / length) else { return };
            // A sub-scale is in the lower half of a lane. Both halves need it.
            let scales = scales.map(|scale| _mm512_mask_mov_epi16(scale, 0xaaaa_aaaa, _mm512_slli_epi32::<16>(scale)));
            for ((codes, high), scale) in codes.iter_mut().zip(high).zip(scales) {
                let even = _mm512_sub_epi16(_mm512_and_si512(*codes, lower), offset);
                let odd = _mm512_sub_epi16(_mm512_srli_epi16::<8>(*codes), offset);
                let (even, odd) = (_mm512_mullo_epi16(even, scale), _mm512_mullo_epi16(odd, scale));
                *codes = _mm512_ternarylogic_epi32::<PICK>(lower, even, _mm512_slli_epi16::<8>(odd));
                *high = _mm512_ternarylogic_epi32::<PICK>(lower, _mm512_srli_epi16::<8>(even), odd);
            }
        }
    }

    /// Multiplies the rows of `group`. Meanwhile adds the sums in `left`, of the group before, to its part of the
    /// output, which ends at `out`. Tiles and vectors take about as long, and the processor does not look far enough
    /// ahead to overlap them itself.
    ///
    /// # Safety
    /// As for [`Format::add_products`]. `left` has the sums of the group before.
    #[inline(never)]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn multiply_and_add<const MIN: bool, const SUBS: usize>(
        &self,
        group: &Group,
        sums: &mut [Sums; 4],
        (before, left): (&Group, &[Sums; 4]),
        out: *mut f32,
    ) {
        // SAFETY: the caller promises the super-block in all rows, the shapes, and the output of the sixteen rows
        // before.
        unsafe {
            let out = out.sub(32 * ROWS);
            self.multiply(group, sums, &|row| {
                self.add_row::<MIN, SUBS>(row, before, left, out);
                group.fetch_next(row);
            });
        }
    }

    /// Multiplies the rows of a group. `sums` gets the sums of the lower and of the upper bytes of the first half of
    /// the weights, then of the second half. Calls `beside` with 0 to 15 meanwhile.
    ///
    /// # Safety
    /// The rows of the group have the super-block, and tiles have the shapes for it.
    #[inline(always)]
    unsafe fn multiply(&self, group: &Group, sums: &mut [Sums; 4], beside: &impl Fn(usize)) {
        let apart = 2 * size_of::<__m512i>();
        let [low, high] = [&self.block.codes, &self.high].map(|codes| codes.as_flattened().as_ptr());
        // SAFETY: the caller promises 256 codes of the rows, of which each round takes 64; there are 64 rows of two
        // times 64 bytes of weights, of which each round takes 16.
        unsafe {
            tiles::zero::<0>();
            tiles::zero::<1>();
            tiles::zero::<2>();
            tiles::zero::<3>();
            for i in 0..4 {
                tiles::load::<4, _>(group.first.codes.add(64 * i), group.stride);
                tiles::load::<5, _>(low.add(32 * i), apart);
                tiles::dot_unsigned::<0, 4, 5>();
                beside(4 * i);
                tiles::load::<6, _>(high.add(32 * i), apart);
                tiles::dot_signed::<1, 4, 6>();
                beside(4 * i + 1);
                tiles::load::<7, _>(low.add(32 * i + 1), apart);
                tiles::dot_unsigned::<2, 4, 7>();
                beside(4 * i + 2);
                tiles::load::<5, _>(high.add(32 * i + 1), apart);
                tiles::dot_signed::<3, 4, 5>();
                beside(4 * i + 3);
            }
            let [low0, high0, low1, high1] = sums;
            tiles::store::<0>(low0);
            tiles::store::<1>(high0);
            tiles::store::<2>(low1);
            tiles::store::<3>(high1);
        }
    }

    /// Adds the sums of row `row` of the activations to its 32 elements of `out`.
    ///
    /// # Safety
    /// The row is one of the group and has the super-block. `out` has room for the group.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn add_row<const MIN: bool, const SUBS: usize>(
        &self,
        row: usize,
        group: &Group,
        sums: &[Sums; 4],
        out: *mut f32,
    ) {
        let start = row * group.stride;
        // SAFETY: the caller promises the scale and the sums of the row, and 32 elements of `out` per row, of which
        // each half has 16; rows are below 16 and halves below 2, the lengths of the arrays.
        unsafe {
            let dx = _mm512_set1_ps(*group.first.scales.byte_add(start));
            for (g, sums) in sums.as_chunks::<2>().0.iter().enumerate() {
                let out = out.add(32 * row + 16 * g);
                let [low, high] = [0, 1].map(|i| {
                    let sums: &Sums = sums.get_unchecked(i);
                    _mm512_loadu_si512(sums.0.get_unchecked(row).as_ptr().cast())
                });
                let isum = _mm512_cvtepi32_ps(_mm512_add_epi32(low, _mm512_slli_epi32::<8>(high)));
                let scale = *self.block.scale.get_unchecked(g);
                let mut acc = _mm512_add_ps(_mm512_loadu_ps(out), _mm512_mul_ps(isum, _mm512_mul_ps(scale, dx)));
                if MIN {
                    let msum = _mm512_cvtepi32_ps(self.minima::<SUBS>(g, group.first.sums.byte_add(start)));
                    let min = *self.block.min.get_unchecked(g);
                    acc = _mm512_sub_ps(acc, _mm512_mul_ps(msum, _mm512_mul_ps(min, dx)));
                }
                _mm512_storeu_ps(out, acc);
            }
        }
    }

    /// Returns the sums over a super-block of sub-minimum times sum of the sub-block's activations, for half `g` of the
    /// rows of weights.
    ///
    /// # Safety
    /// 16 sums are readable, and `g` is below 2.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn minima<const SUBS: usize>(&self, g: usize, sums: *const i16) -> __m512i {
        // SAFETY: the caller promises 16 sums and g < 2, the length of the arrays.
        unsafe {
            let of_16 = _mm256_loadu_si256(sums.cast());
            let pairs = if SUBS == 16 {
                of_16
            } else {
                let of_32 = _mm256_madd_epi16(of_16, _mm256_set1_epi16(1));
                _mm256_castsi128_si256(_mm256_cvtepi32_epi16(of_32))
            };
            let pairs = _mm512_castsi256_si512(pairs);
            let mut msum = _mm512_setzero_si512();
            for (j, mins) in self.block.sub_mins.iter().enumerate().take(SUBS / 2) {
                let pair = _mm512_permutexvar_epi32(_mm512_set1_epi32(j as i32), pairs);
                msum = _mm512_dpwssd_epi32(msum, *mins.get_unchecked(g), pair);
            }
            msum
        }
    }
}
