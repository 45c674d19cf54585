//! Panels of super-blocks of 256 times rows of activations.

use core::arch::x86_64::*;
use core::marker::PhantomData;

use super::format::{Format, Group, Work};
use super::tiles::{self, Shapes, Sums};
use crate::kernels::x86_64::ahead::Ahead;
use crate::kernels::x86_64::avx512::matmul;
use crate::kernels::x86_64::avx512::panel_256::{Layout256, Panel256};
use crate::tensor::TensorView;

/// A format with super-blocks of 256.
pub(super) struct SuperBlocks<L>(PhantomData<L>);

/// A super-block of 32 rows with codes that are multiplied by their sub-scales: 16 bits each, of which the lower byte has
/// taken the place of the code. So tiles can add up all of a super-block.
#[repr(C, align(64))]
pub(super) struct Scaled {
    block: Panel256,
    /// The upper bytes.
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
        let reads = 2 * <matmul::SuperBlocks<L> as matmul::Format>::READS;
        let ahead = ahead(reads * panel.len());
        for (i, scaled) in panel.iter_mut().enumerate() {
            let block = core::slice::from_mut(&mut scaled.block);
            // SAFETY: the caller promises this block of the rows, and the instructions.
            unsafe {
                matmul::unpack::<matmul::SuperBlocks<L>>(weights, first + i, block, ahead.skip(reads * i), false);
                scaled.scale::<L>();
            }
        }
    }

    /// Tiles 0 to 3 have sums, 4 activations, 5 and 6 weights.
    fn shapes(rows: usize) -> Shapes {
        let (sums, inputs, weights) = ((rows as u8, 64), (rows as u8, 64), (16, 64));
        Shapes::new([sums, sums, sums, sums, inputs, weights, weights, weights])
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn add_products(panel: &[Scaled], group: &Group, work: &mut Work, ahead: Ahead, out: *mut f32) {
        for (b, scaled) in panel.iter().enumerate() {
            ahead.fetch(Ahead::UNITS * b, Ahead::UNITS);
            // SAFETY: the caller promises the super-block in all rows, room in `out` and the shapes.
            unsafe {
                match (L::MIN, L::SUBS) {
                    (false, _) => scaled.add_products::<false, 0>(b, group, work, out),
                    (true, 16) => scaled.add_products::<true, 16>(b, group, work, out),
                    (true, _) => scaled.add_products::<true, 8>(b, group, work, out),
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
        // Bits of the second argument where the first one has them, else of the third.
        const PICK: i32 = 0xca;
        let lower = _mm512_set1_epi16(0xff);
        let offset = _mm512_set1_epi16(L::OFFSET);
        let length = 64 / L::SUBS;
        for (index, (codes, high)) in self.block.codes.iter_mut().zip(&mut self.high).enumerate() {
            let Some(scales) = self.block.sub_scales.get(index / length) else { return };
            // A sub-scale is the lower half of a lane.
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

    /// Adds the products with super-block `b` of the rows of activations to `out`.
    ///
    /// # Safety
    /// As for [`Format::add_products`].
    #[inline(never)]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn add_products<const MIN: bool, const SUBS: usize>(
        &self,
        b: usize,
        group: &Group,
        work: &mut Work,
        out: *mut f32,
    ) {
        let [low0, high0, low1, high1] = &mut work.sums;
        // SAFETY: the caller promises the super-block in all rows, room in `out` and the shapes; sums are stored after they
        // are computed, and g is 0 and 1.
        unsafe {
            self.multiply::<0, 1>(0, b, group);
            self.multiply::<2, 3>(1, b, group);
            tiles::store::<0>(low0);
            tiles::store::<1>(high0);
            self.finish::<MIN, SUBS>(0, b, group, [low0, high0], out);
            tiles::store::<2>(low1);
            tiles::store::<3>(high1);
            self.finish::<MIN, SUBS>(1, b, group, [low1, high1], out.add(16));
        }
    }

    /// Multiplies super-block `b` with a half of the weights: sums of lower bytes in tile `C`, of upper ones in tile `D`.
    ///
    /// # Safety
    /// The rows of the group have the super-block, and tiles have the shapes for it; `g` is below 2.
    #[inline(always)]
    unsafe fn multiply<const C: usize, const D: usize>(&self, g: usize, b: usize, group: &Group) {
        let apart = 2 * size_of::<__m512i>();
        // SAFETY: the caller promises 256 codes of the rows, of which each round takes 64, and g < 2: there are 64 rows of 64
        // bytes of weights, each two registers after the one before, of which each round takes 16.
        unsafe {
            tiles::zero::<C>();
            tiles::zero::<D>();
            for i in 0..4 {
                tiles::load::<4, _>(group.first.codes.add(256 * b + 64 * i), group.stride);
                tiles::load::<5, _>(self.block.codes.as_flattened().as_ptr().add(32 * i + g), apart);
                tiles::dot_unsigned::<C, 4, 5>();
                tiles::load::<6, _>(self.high.as_flattened().as_ptr().add(32 * i + g), apart);
                tiles::dot_signed::<D, 4, 6>();
            }
        }
    }

    /// Adds the sums of super-block `b` to the chains of `out`.
    ///
    /// # Safety
    /// The rows of the group have the super-block, `out` has room for them; `g` is below 2.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn finish<const MIN: bool, const SUBS: usize>(
        &self,
        g: usize,
        b: usize,
        group: &Group,
        [low, high]: [&Sums; 2],
        out: *mut f32,
    ) {
        // SAFETY: the caller promises g < 2, the length of the arrays.
        let (scale, min) = unsafe { (*self.block.scale.get_unchecked(g), *self.block.min.get_unchecked(g)) };
        for (row, (low, high)) in low.0.iter().zip(&high.0).enumerate().take(group.rows) {
            let start = row * group.stride;
            // SAFETY: the caller promises the scale and the sums of super-block b, and 32 elements of `out` per row.
            unsafe {
                let out = out.add(32 * row);
                let dx = _mm512_set1_ps(*group.first.scales.byte_add(start).add(b));
                let [low, high] = [low, high].map(|sums| _mm512_loadu_si512(sums.as_ptr().cast()));
                let isum = _mm512_cvtepi32_ps(_mm512_add_epi32(low, _mm512_slli_epi32::<8>(high)));
                let mut acc = _mm512_add_ps(_mm512_loadu_ps(out), _mm512_mul_ps(isum, _mm512_mul_ps(scale, dx)));
                if MIN {
                    let sums = group.first.sums.byte_add(start).add(16 * b);
                    let msum = _mm512_cvtepi32_ps(self.minima::<SUBS>(g, sums));
                    acc = _mm512_sub_ps(acc, _mm512_mul_ps(msum, _mm512_mul_ps(min, dx)));
                }
                _mm512_storeu_ps(out, acc);
            }
        }
    }

    /// The sub-minima times the sums of the activations of their sub-blocks.
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
