//! Products of panels with blocks of 32 and rows of activations, with tiles.

use core::arch::asm;
use core::arch::x86_64::*;
use core::marker::PhantomData;

use super::format::{Format, Group, ROWS, Work};
use super::tiles::{self, Shapes, Sums};
use crate::kernels::x86_64::ahead::Ahead;
use crate::kernels::x86_64::avx512::matmul;
use crate::kernels::x86_64::avx512::panel_32::{Layout32, Panel32};
use crate::tensor::TensorView;

/// A format with blocks of 32.
pub(super) struct Blocks<L>(PhantomData<L>);

/// The factors of a product: half of the rows of a panel, and a group of rows of activations.
struct Half<'a> {
    panel: &'a [Panel32],
    /// Index of the half of the panel's rows, 0 or 1.
    g: usize,
    group: &'a Group,
}

// SAFETY: a panel is registers of integers and of f32.
unsafe impl<L: Layout32<1>> Format for Blocks<L> {
    type Panel = Panel32;
    const COLS: usize = 32;
    const BYTES: usize = L::BYTES;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn unpack(weights: TensorView<'_>, first: usize, panel: &mut [Panel32], ahead: impl Fn(usize) -> Ahead) {
        let ahead = ahead(2 * panel.len() * L::BYTES);
        // SAFETY: the caller promises what the called function asks for.
        unsafe { matmul::unpack::<matmul::Blocks<L, 1>>((), weights, first, panel.as_chunks_mut().0, ahead, false) };
        if L::OFFSET != 0 {
            // Tiles multiply signed bytes with signed bytes.
            let offset = _mm512_set1_epi8(L::OFFSET as i8);
            for codes in panel.iter_mut().flat_map(|block| block.codes.as_flattened_mut()) {
                *codes = _mm512_sub_epi8(*codes, offset);
            }
        }
    }

    /// Tiles 0 and 1 have sums, 2 and 3 activations, 4 and 5 weights.
    fn shapes(rows: usize) -> Shapes {
        let (sums, inputs, weights) = ((rows as u8, 64), (rows as u8, 32), (8, 64));
        Shapes::new([sums, sums, inputs, inputs, weights, weights, sums, sums])
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn add_products(
        panel: &[Panel32],
        group: &Group,
        _: Option<&Group>,
        work: &mut Work,
        ahead: Ahead,
        out: *mut f32,
    ) {
        if L::MIN {
            // SAFETY: the caller promises the sums of the rows and at most `BLOCKS` blocks.
            unsafe { prepare(panel.len(), group, &mut work.totals) };
        }
        for g in 0..2 {
            let half = Half { panel, g, group };
            let ahead = ahead.skip(g * Ahead::UNITS / 2 * panel.len());
            // SAFETY: g is below 2; the caller promises the rest.
            unsafe {
                let out = out.add(16 * g);
                match (group.rows == ROWS, L::MIN) {
                    (true, false) => half.sixteen::<false>(work, ahead, out),
                    (true, true) => half.sixteen::<true>(work, ahead, out),
                    (false, false) => half.few::<false>(work, out),
                    (false, true) => half.few::<true>(work, out),
                }
            }
        }
    }

    /// Does nothing: `add_products` leaves nothing.
    unsafe fn finish(_: &[Panel32], _: &Group, _: &mut Work, _: *mut f32) {}
}

impl Half<'_> {
    /// Adds the products with sixteen rows of activations to `out`. While tiles multiply a block, vectors add the sums
    /// of the block before: both take about as long.
    ///
    /// # Safety
    /// As for [`Format::add_products`], and there are sixteen rows; `work` has the totals of a format with minima.
    #[inline(never)]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn sixteen<const MIN: bool>(&self, work: &mut Work, ahead: Ahead, out: *mut f32) {
        let Work { sums: [[even, odd, ..], _], totals } = work;
        let mut acc = [_mm512_setzero_ps(); ROWS];
        // SAFETY: the caller promises room for sixteen rows in `out`, and the shapes of the tiles for as many; blocks
        // are those of the panel, and each is multiplied before its sums are stored and added.
        unsafe {
            for (row, acc) in acc.iter_mut().enumerate() {
                *acc = _mm512_loadu_ps(out.add(32 * row));
            }
            self.multiply::<0, 2, 4>(0);
            for b in (0..self.panel.len()).step_by(2) {
                ahead.fetch(Ahead::UNITS / 2 * b, Ahead::UNITS);
                self.multiply::<1, 3, 5>(b + 1);
                tiles::store::<0>(even);
                self.add_sixteen::<MIN>(b, even, totals, &mut acc);
                self.multiply::<0, 2, 4>(b + 2);
                if b + 1 < self.panel.len() {
                    tiles::store::<1>(odd);
                    self.add_sixteen::<MIN>(b + 1, odd, totals, &mut acc);
                }
            }
            for (row, acc) in acc.iter().enumerate() {
                _mm512_storeu_ps(out.add(32 * row), *acc);
            }
        }
    }

    /// Adds the products with fewer than sixteen rows of activations to `out`.
    ///
    /// # Safety
    /// As for [`Format::add_products`]; `work` has the totals of a format with minima.
    #[inline(never)]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn few<const MIN: bool>(&self, work: &mut Work, out: *mut f32) {
        let Work { sums: [[sums, ..], _], totals } = work;
        for (b, block) in self.panel.iter().enumerate() {
            // SAFETY: the caller promises the shapes of the tiles, the scales of the rows, at most sixteen, and room
            // for them in `out`; g is below 2, and blocks are below 32, the number of totals.
            unsafe {
                self.multiply::<0, 2, 4>(b);
                tiles::store::<0>(sums);
                let (scale, min) = (*block.scale.get_unchecked(self.g), *block.min.get_unchecked(self.g));
                for (row, (sums, totals)) in sums.0.iter().zip(&*totals).enumerate().take(self.group.rows) {
                    let out = out.add(32 * row);
                    let dx = _mm512_set1_ps(*self.group.first.scales.byte_add(row * self.group.stride).add(b));
                    let isum = _mm512_cvtepi32_ps(_mm512_loadu_si512(sums.as_ptr().cast()));
                    let mut acc = _mm512_add_ps(_mm512_loadu_ps(out), _mm512_mul_ps(isum, _mm512_mul_ps(scale, dx)));
                    if MIN {
                        let total = _mm512_set1_ps(*totals.get_unchecked(b));
                        acc = _mm512_add_ps(acc, _mm512_mul_ps(total, _mm512_mul_ps(min, dx)));
                    }
                    _mm512_storeu_ps(out, acc);
                }
            }
        }
    }

    /// Multiplies block `b`, if there is one. The sums are in tile `C`.
    ///
    /// # Safety
    /// The group has the block, and tiles have the shapes for it.
    #[inline(always)]
    unsafe fn multiply<const C: usize, const A: usize, const B: usize>(&self, b: usize) {
        let Some(block) = self.panel.get(b) else { return };
        // SAFETY: the caller promises 32 codes of block b in all rows of the group; g is below 2, so there are 8 rows
        // of 64 bytes of weights, each two registers after the one before.
        unsafe {
            tiles::zero::<C>();
            tiles::load::<A, _>(self.group.first.codes.add(32 * b), self.group.stride);
            tiles::load::<B, _>(block.codes.as_flattened().as_ptr().add(self.g), 2 * size_of::<__m512i>());
            tiles::dot_signed::<C, A, B>();
        }
    }

    /// Adds the sums of block `b` to the accumulators of sixteen rows.
    ///
    /// # Safety
    /// The panel has block `b`, and the group has sixteen rows.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn add_sixteen<const MIN: bool>(
        &self,
        b: usize,
        sums: &Sums,
        totals: &[[f32; 32]; ROWS],
        acc: &mut [__m512; ROWS],
    ) {
        let stride = self.group.stride;
        // SAFETY: the caller promises block b, below 32, and sixteen rows, of which each round takes four; g is below 2.
        unsafe {
            let block = self.panel.get_unchecked(b);
            let (scale, min) = (*block.scale.get_unchecked(self.g), *block.min.get_unchecked(self.g));
            let mut dx = self.group.first.scales.add(b);
            let (sums, totals) = (sums.0.as_chunks::<4>().0, totals.as_chunks::<4>().0);
            for ((acc, sums), totals) in acc.as_chunks_mut::<4>().0.iter_mut().zip(sums).zip(totals) {
                add_four(acc, scale, (dx, stride), sums);
                if MIN {
                    add_four_minima(acc, min, (dx, stride), totals.as_flattened().as_ptr().add(b));
                }
                dx = dx.wrapping_byte_add(4 * stride);
            }
        }
    }
}

/// `acc = acc + f32(sums) * (scale * dx)` for four rows. It is in assembly, because the compiler would compute the
/// products of all rows first, and has too few registers for them.
///
/// # Safety
/// Four numbers dx are readable, each `stride` bytes after the one before.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn add_four(
    [a, b, c, d]: &mut [__m512; 4],
    scale: __m512,
    (dx, stride): (*const f32, usize),
    sums: &[[i32; 16]; 4],
) {
    // SAFETY: the caller promises what is read of dx, and there are four rows of sums. This function has the features.
    unsafe {
        asm!(
            "vmulps zmm24, {scale}, dword ptr [{dx}]{{1to16}}",
            "vmulps zmm25, {scale}, dword ptr [{dx} + {stride}]{{1to16}}",
            "vmulps zmm26, {scale}, dword ptr [{dx} + 2*{stride}]{{1to16}}",
            "vmulps zmm27, {scale}, dword ptr [{dx} + {thrice}]{{1to16}}",
            "vcvtdq2ps zmm28, [{sums}]",
            "vcvtdq2ps zmm29, [{sums} + 64]",
            "vcvtdq2ps zmm30, [{sums} + 128]",
            "vcvtdq2ps zmm31, [{sums} + 192]",
            "vmulps zmm24, zmm24, zmm28",
            "vmulps zmm25, zmm25, zmm29",
            "vmulps zmm26, zmm26, zmm30",
            "vmulps zmm27, zmm27, zmm31",
            "vaddps {a}, {a}, zmm24",
            "vaddps {b}, {b}, zmm25",
            "vaddps {c}, {c}, zmm26",
            "vaddps {d}, {d}, zmm27",
            scale = in(zmm_reg) scale,
            dx = in(reg) dx, stride = in(reg) stride, thrice = in(reg) stride.wrapping_mul(3),
            sums = in(reg) sums,
            a = inout(zmm_reg) *a, b = inout(zmm_reg) *b, c = inout(zmm_reg) *c, d = inout(zmm_reg) *d,
            out("zmm24") _, out("zmm25") _, out("zmm26") _, out("zmm27") _,
            out("zmm28") _, out("zmm29") _, out("zmm30") _, out("zmm31") _,
            options(readonly, nostack, preserves_flags),
        );
    }
}

/// `acc = acc + total * (min * dx)` for four rows, see [`add_four`].
///
/// # Safety
/// As for [`add_four`], and four totals are readable, 32 apart.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn add_four_minima(
    [a, b, c, d]: &mut [__m512; 4],
    min: __m512,
    (dx, stride): (*const f32, usize),
    totals: *const f32,
) {
    // SAFETY: the caller promises what is read of dx and the totals. This function has the features.
    unsafe {
        asm!(
            "vmulps zmm24, {min}, dword ptr [{dx}]{{1to16}}",
            "vmulps zmm25, {min}, dword ptr [{dx} + {stride}]{{1to16}}",
            "vmulps zmm26, {min}, dword ptr [{dx} + 2*{stride}]{{1to16}}",
            "vmulps zmm27, {min}, dword ptr [{dx} + {thrice}]{{1to16}}",
            "vmulps zmm24, zmm24, dword ptr [{totals}]{{1to16}}",
            "vmulps zmm25, zmm25, dword ptr [{totals} + 128]{{1to16}}",
            "vmulps zmm26, zmm26, dword ptr [{totals} + 256]{{1to16}}",
            "vmulps zmm27, zmm27, dword ptr [{totals} + 384]{{1to16}}",
            "vaddps {a}, {a}, zmm24",
            "vaddps {b}, {b}, zmm25",
            "vaddps {c}, {c}, zmm26",
            "vaddps {d}, {d}, zmm27",
            min = in(zmm_reg) min,
            dx = in(reg) dx, stride = in(reg) stride, thrice = in(reg) stride.wrapping_mul(3),
            totals = in(reg) totals,
            a = inout(zmm_reg) *a, b = inout(zmm_reg) *b, c = inout(zmm_reg) *c, d = inout(zmm_reg) *d,
            out("zmm24") _, out("zmm25") _, out("zmm26") _, out("zmm27") _,
            options(readonly, nostack, preserves_flags),
        );
    }
}

/// Computes the sums of the activations of each of up to 16 blocks. Minima are multiplied with them.
///
/// # Safety
/// The rows of the group have the blocks.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn prepare(blocks: usize, group: &Group, totals: &mut [[f32; 32]; ROWS]) {
    let pairs = (1_u32 << blocks.min(16)).wrapping_sub(1) as u16;
    for (row, totals) in totals.iter_mut().enumerate().take(group.rows) {
        // SAFETY: the mask leaves only sums of the blocks, which the caller promises in each row; a row of totals has 32.
        unsafe {
            let of_16 = _mm512_maskz_loadu_epi32(pairs, group.first.sums.byte_add(row * group.stride).cast());
            let of_32 = _mm512_madd_epi16(of_16, _mm512_set1_epi16(1));
            _mm512_storeu_ps(totals.as_mut_ptr(), _mm512_cvtepi32_ps(of_32));
        }
    }
}
