//! One to eight rows of activations: a block of sixteen rows of weights is transposed in registers, so that a lane belongs to
//! a row, and multiplied with all rows of activations at once. Nothing is unpacked to memory. Meanwhile the next sixteen
//! rows are fetched.

use core::arch::asm;
use core::arch::x86_64::*;
use core::cell::Cell;
use core::marker::PhantomData;
use core::ops::Range;

use super::matmul::{Batch, Blocks, Format, Input, Sums, SuperBlocks};
use super::matmul_256::{add_scaled, group};
use super::panel::Sixteen;
use super::panel_32::Layout32;
use super::panel_256::{Header, Layout256};
use super::{layouts_256, matmul_32, matmul_256, panel_32};
use crate::kernels::fetch::FetchOrder;
use crate::kernels::generic::{Inputs, OUTPUTS, Refused};
use crate::kernels::x86_64::ahead::{Coming, fetch_lines, fetch_rows};
use crate::quant::by_dtype;
use crate::tensor::{Dtype, TensorView};

/// Rows of weights that are multiplied together.
const ROWS: usize = 16;
/// Rows of activations that they are multiplied with at most.
const MOST: usize = 8;
/// The same for formats that fewer files have.
const FEW: usize = 4;

/// The least number of rows of activations with a kernel for these weights. One row of some formats has a faster one in `matvec`.
const fn least(dtype: Dtype) -> usize {
    match dtype {
        Dtype::Q8_0 | Dtype::Q2_K | Dtype::Q3_K | Dtype::Q6_K => 2,
        _ => 1,
    }
}

/// The largest number, 0 if there is no kernel. With more rows, panels are faster.
const fn most(dtype: Dtype) -> usize {
    use Dtype::*;
    match dtype {
        NVFP4 => 1,
        IQ4_NL | Q2_K | Q3_K => FEW,
        Q8_0 | Q4_0 | Q4_1 | Q5_0 | Q5_1 | MXFP4 | Q4_K | Q5_K | Q6_K => MOST,
        _ => 0,
    }
}

/// Whether [`products`] has a kernel for these weights and so many rows of activations. One row of Q4_K and Q5_K is faster in
/// `matvec` where weights are fetched in the order of rows.
pub(super) fn supports(weights: TensorView<'_>, inputs: &Inputs<'_>) -> bool {
    let least = match weights.dtype() {
        Dtype::Q4_K | Dtype::Q5_K if inputs.order() == FetchOrder::Rows => 2,
        dtype => least(dtype),
    };
    (least..=most(weights.dtype())).contains(&inputs.rows()) && weights.rows().is_multiple_of(ROWS)
}

/// See [`Level::products`](crate::kernels::Level::products); [`supports`] is true.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) fn products(
    weights: TensorView<'_>,
    inputs: &Inputs<'_>,
    out: &mut [f32],
    scratch: &mut [f32],
) -> Result<(), Refused> {
    use Dtype::*;
    let done = by_dtype!(weights.dtype(), {
        Q8_0 => tiles::<Blocks<panel_32::Q8_0, 1>, { least(Q8_0) }, { most(Q8_0) }>(weights, inputs, out, scratch),
        Q4_0 => tiles::<Blocks<panel_32::Q4_0, 1>, { least(Q4_0) }, { most(Q4_0) }>(weights, inputs, out, scratch),
        Q4_1 => tiles::<Blocks<panel_32::Q4_1, 1>, { least(Q4_1) }, { most(Q4_1) }>(weights, inputs, out, scratch),
        Q5_0 => tiles::<Blocks<panel_32::Q5_0, 1>, { least(Q5_0) }, { most(Q5_0) }>(weights, inputs, out, scratch),
        Q5_1 => tiles::<Blocks<panel_32::Q5_1, 1>, { least(Q5_1) }, { most(Q5_1) }>(weights, inputs, out, scratch),
        IQ4_NL => tiles::<Blocks<panel_32::Iq4Nl, 1>, { least(IQ4_NL) }, { most(IQ4_NL) }>(weights, inputs, out, scratch),
        MXFP4 => tiles::<Blocks<panel_32::Mxfp4, 1>, { least(MXFP4) }, { most(MXFP4) }>(weights, inputs, out, scratch),
        NVFP4 => tiles::<Blocks<panel_32::Nvfp4, 2>, { least(NVFP4) }, { most(NVFP4) }>(weights, inputs, out, scratch),
        Q2_K => tiles::<SuperBlocks<layouts_256::Q2K>, { least(Q2_K) }, { most(Q2_K) }>(weights, inputs, out, scratch),
        Q3_K => tiles::<SuperBlocks<layouts_256::Q3K>, { least(Q3_K) }, { most(Q3_K) }>(weights, inputs, out, scratch),
        Q4_K => tiles::<SuperBlocks<layouts_256::Q4K>, { least(Q4_K) }, { most(Q4_K) }>(weights, inputs, out, scratch),
        Q5_K => tiles::<SuperBlocks<layouts_256::Q5K>, { least(Q5_K) }, { most(Q5_K) }>(weights, inputs, out, scratch),
        Q6_K => tiles::<SuperBlocks<layouts_256::Q6K>, { least(Q6_K) }, { most(Q6_K) }>(weights, inputs, out, scratch),
        _ => return Err(Refused::NoKernel),
    });
    done.ok_or(Refused::Sizes)
}

/// All rows of weights, sixteen at a time, with `LEAST` to `LAST` rows of activations: each number takes 2 KB of code.
#[inline(never)] // a function of its own for each format
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn tiles<F: Few, const LEAST: usize, const LAST: usize>(
    weights: TensorView<'_>,
    inputs: &Inputs<'_>,
    out: &mut [f32],
    scratch: &mut [f32],
) -> Option<()> {
    // Everything that the pointers below rely on.
    let (rows, cols, count) = (weights.rows(), weights.cols(), inputs.rows());
    let blocks = cols / F::COLS;
    let row_bytes = blocks * F::bytes(());
    let fits = rows <= OUTPUTS
        && rows.is_multiple_of(ROWS)
        && weights.dtype().block_bytes() == F::bytes(())
        && weights.dtype().block_len() == F::COLS
        && weights.bytes().len() == rows * row_bytes
        && i32::try_from(weights.bytes().len()).is_ok()
        && inputs.cols() == cols;
    if !fits {
        return None;
    }
    let out = out.get_mut(..count.checked_mul(OUTPUTS)?)?;
    let (sums, _) = Sums::take(scratch)?;
    let batch = Batch::new(inputs, blocks * (F::COLS / F::SCALED), F::SCALED)?;
    // SAFETY: `Batch::new` has compared the parts of the rows with so many blocks of `SCALED` columns.
    let each = unsafe { rows_of(&batch, count, F::SCALED) };
    if count > 1 {
        fetch_rows(inputs.destination(), 0..count);
    }
    let all = weights.bytes().as_ptr();
    for first in (0..rows).step_by(ROWS) {
        #[cfg(test)]
        if count > 1 {
            crate::kernels::x86_64::counted::unpacked(ROWS * blocks);
            crate::kernels::x86_64::counted::multiplied(count * ROWS * blocks);
        }
        let coming = Coming::after(first + ROWS, [rows, row_bytes], all, inputs);
        let rows = Neighbours {
            block: all.wrapping_add(first * row_bytes),
            row_bytes,
            next: Cell::new(coming.with_lead(F::LEAD, inputs.order())),
            order: inputs.order(),
            far: false,
        };
        // SAFETY: there are sixteen rows from `first` on with so many blocks of the format `F`, as compared above; `Batch::new` has
        // compared the parts of the inputs with them; `out` has 32 elements for each input, and `first` is at most 16.
        unsafe {
            let out = out.as_mut_ptr().add(first);
            match count {
                1 if LEAST == 1 => F::multiply::<1>(rows, blocks, each.first_chunk()?, sums, out),
                2 if LAST >= 2 => F::multiply::<2>(rows, blocks, each.first_chunk()?, sums, out),
                3 if LAST >= 3 => F::multiply::<3>(rows, blocks, each.first_chunk()?, sums, out),
                4 if LAST >= 4 => F::multiply::<4>(rows, blocks, each.first_chunk()?, sums, out),
                5 if LAST >= 5 => F::multiply::<5>(rows, blocks, each.first_chunk()?, sums, out),
                6 if LAST >= 6 => F::multiply::<6>(rows, blocks, each.first_chunk()?, sums, out),
                7 if LAST >= 7 => F::multiply::<7>(rows, blocks, each.first_chunk()?, sums, out),
                8 if LAST >= 8 => F::multiply::<8>(rows, blocks, &each, sums, out),
                _ => return None,
            }
        }
    }
    Some(())
}

/// The rows of activations, of blocks of `cols` columns. Past the last one, the last one again.
///
/// # Safety
/// There are so many rows, at least one.
#[inline(never)] // once for all formats
unsafe fn rows_of(batch: &Batch, count: usize, cols: usize) -> [Input; MOST] {
    // SAFETY: the row is below their number, which the caller promises; where there is no block, nothing is read.
    core::array::from_fn(|row| unsafe { batch.row(row.min(count - 1), 0, cols) })
}

/// A block of sixteen rows of weights, of which each lies right after the one before.
struct Neighbours {
    /// The block of the first row.
    block: *const u8,
    /// Bytes from there to the block of the next row.
    row_bytes: usize,
    /// What is fetched next.
    next: Cell<*const u8>,
    order: FetchOrder,
    /// Whether more is fetched to the second-level cache.
    far: bool,
}

// SAFETY: row r lies r times `row_bytes` after the first one: 4 (r / 4) + r % 4 is r.
unsafe impl Sixteen for Neighbours {
    #[inline(always)]
    fn places(&self, at: usize) -> [*const u8; ROWS] {
        let mut row_bytes = self.row_bytes;
        // SAFETY: nothing happens. The compiler must not know that the addresses of all blocks of a row differ from those of the
        // first row by the same number: it would keep all of these numbers in memory instead of adding.
        unsafe { asm!("/* {} */", inout(reg) row_bytes, options(nomem, nostack, preserves_flags)) };
        let first = self.block.wrapping_add(at);
        core::array::from_fn(|row| first.wrapping_add(row / 4 * (4 * row_bytes)).wrapping_add(row % 4 * row_bytes))
    }

    #[inline(always)]
    fn fetch(&self, len: usize) {
        fetch_lines(self.next.get(), ROWS * len, self.order, self.far);
        self.next.set(self.next.get().wrapping_add(ROWS * len));
    }
}

/// A format of weights that has such kernels.
trait Few: Format<How = ()> {
    /// Bytes: see [`Coming::with_lead`].
    const LEAD: usize;
    /// Whether up to four rows of activations wait for the weights, so that it pays to fetch more of them to the second-level
    /// cache.
    const FAR: bool;

    /// The products of sixteen rows of weights with `N` rows of activations: lane r of what is stored for a row of activations
    /// belongs to row r. [`OUTPUTS`] elements lie between two rows of activations.
    ///
    /// # Safety
    /// Every row of weights and every input has so many blocks, N is at most 8, `out` has sixteen elements for each input, and
    /// the processor has the instructions.
    unsafe fn multiply<const N: usize>(
        rows: Neighbours,
        blocks: usize,
        inputs: &[Input; N],
        sums: &mut Sums,
        out: *mut f32,
    );
}

impl<L: Layout32<1>> Few for Blocks<L, 1> {
    const LEAD: usize = 4096;
    const FAR: bool = L::BYTES > 32; // Q8_0

    #[inline(never)] // so that what a call does before it is there once
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn multiply<const N: usize>(
        mut rows: Neighbours,
        blocks: usize,
        inputs: &[Input; N],
        sums: &mut Sums,
        out: *mut f32,
    ) {
        rows.far = Self::FAR && N <= 4;
        /// Blocks for which there are sums at a time.
        const PREPARED: usize = 32;
        let mut acc = [_mm512_setzero_ps(); N];
        for first in (0..blocks).step_by(PREPARED) {
            let prepared = PREPARED.min(blocks - first);
            // SAFETY: the caller promises the blocks up to `first + prepared` in all rows and inputs, codes and scales of which are
            // read; there are sums and starts of 8 inputs for 32 blocks.
            unsafe {
                prepare_32::<L, 1>(inputs, first..first + prepared, sums);
                for b in 0..prepared {
                    let mut isums = [_mm512_setzero_si512(); N];
                    if L::OFFSET != 0 {
                        for (isum, starts) in isums.iter_mut().zip(&sums.starts) {
                            *isum = _mm512_set1_epi32(*starts.get_unchecked(b));
                        }
                    }
                    let at = 32 * (first + b);
                    // One row alone waits for itself: each addition takes four cycles, so its sum is two sums.
                    let mut others = [_mm512_setzero_si512(); N];
                    let [[scale, min]] = L::unpack(&rows, |k, codes| {
                        let sums = if N == 1 && k >= 4 { &mut others } else { &mut isums };
                        add_dots(sums, inputs, at + 4 * k, codes);
                    });
                    if N == 1 {
                        isums.iter_mut().zip(others).for_each(|(isum, other)| *isum = _mm512_add_epi32(*isum, other));
                    }
                    for ((acc, isum), (input, totals)) in acc.iter_mut().zip(isums).zip(inputs.iter().zip(&sums.pairs))
                    {
                        let dx = _mm512_set1_ps(*input.scales.add(first + b));
                        let product = _mm512_mul_ps(_mm512_cvtepi32_ps(isum), _mm512_mul_ps(scale, dx));
                        *acc = _mm512_add_ps(*acc, product);
                        if L::MIN {
                            let total = _mm512_set1_ps(f32::from_bits(*totals.get_unchecked(b) as u32));
                            *acc = _mm512_add_ps(*acc, _mm512_mul_ps(total, _mm512_mul_ps(min, dx)));
                        }
                    }
                    rows.block = rows.block.wrapping_add(L::BYTES);
                }
            }
        }
        // SAFETY: the caller promises room for the inputs.
        unsafe { store(acc, out) };
    }
}

/// Blocks of two parts, with two scales in each: 16 codes have one.
impl<L: Layout32<2>> Few for Blocks<L, 2> {
    const LEAD: usize = 4096;
    const FAR: bool = false;

    #[inline(never)] // so that what a call does before it is there once
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn multiply<const N: usize>(
        mut rows: Neighbours,
        blocks: usize,
        inputs: &[Input; N],
        sums: &mut Sums,
        out: *mut f32,
    ) {
        const { assert!(L::SCALES == 2 && L::OFFSET != 0) };
        /// Blocks for which there are sums at a time.
        const PREPARED: usize = 16;
        let mut acc = [_mm512_setzero_ps(); N];
        for b in 0..blocks {
            // SAFETY: the caller promises block b in all rows and inputs, codes and scales of which are read, and the sums of
            // the 16 blocks from there on, or up to the last one; k is at most 12, so there is the start of its sixteen codes.
            unsafe {
                if b.is_multiple_of(PREPARED) {
                    prepare_32::<L, 2>(inputs, 2 * b..2 * blocks.min(b + PREPARED), sums);
                }
                let mut isums = [[_mm512_setzero_si512(); N]; 4];
                let scales = L::unpack(&rows, |k, codes| {
                    let mut part = [_mm512_setzero_si512(); N];
                    for (part, starts) in part.iter_mut().zip(&sums.starts) {
                        *part = _mm512_set1_epi32(*starts.get_unchecked(4 * (b % PREPARED) + k / 4));
                    }
                    add_dots(&mut part, inputs, 64 * b + 4 * k, codes);
                    *isums.get_unchecked_mut(k / 4) = part;
                });
                for (part, (isums, &scale)) in isums.into_iter().zip(scales.as_flattened()).enumerate() {
                    for ((acc, isum), input) in acc.iter_mut().zip(isums).zip(inputs) {
                        let dx = _mm512_set1_ps(*input.scales.add(2 * b + part / 2));
                        let product = _mm512_mul_ps(_mm512_cvtepi32_ps(isum), _mm512_mul_ps(scale, dx));
                        *acc = _mm512_add_ps(*acc, product);
                    }
                }
            }
            rows.block = rows.block.wrapping_add(L::BYTES);
        }
        // SAFETY: the caller promises room for the inputs.
        unsafe { store(acc, out) };
    }
}

impl<L: Layout256> Few for SuperBlocks<L> {
    const LEAD: usize = 2048;
    const FAR: bool = true;

    #[inline(never)] // so that what a call does before it is there once
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn multiply<const N: usize>(
        mut rows: Neighbours,
        blocks: usize,
        inputs: &[Input; N],
        sums: &mut Sums,
        out: *mut f32,
    ) {
        rows.far = Self::FAR && N <= 4;
        const { assert!(L::OFFSET == 0 || size_of::<L::Codes>() == size_of::<[__m512i; 4]>()) };
        let mut acc = [_mm512_setzero_ps(); N];
        let mut header = Registers::<L>::new();
        for b in 0..blocks {
            // SAFETY: the caller promises super-block b in all rows and inputs, codes, scales and sums of which are read; codes 4 k
            // and those after it, as many as are unpacked, are among 256, so there are their sub-scale, and the start of sixteen.
            unsafe {
                prepare_256::<L>(inputs, b, sums);
                let mut isums = [_mm512_setzero_si512(); N];
                L::unpack(&rows, &mut header, |header, k, codes| {
                    let mut parts = [_mm512_setzero_si512(); N];
                    if L::OFFSET != 0 {
                        for (part, starts) in parts.iter_mut().zip(&sums.starts) {
                            *part = _mm512_set1_epi32(*starts.get_unchecked(k / 4));
                        }
                    }
                    let at = 256 * b + 4 * k;
                    if let [first, second] = codes.as_ref() {
                        // In two parts where the first has time to leave before the second.
                        let (now, later) = const { if N > 2 { (8, 8) } else { (16, 0) } };
                        rows.fetch(now);
                        add_chains(&mut parts, inputs, at, *first);
                        rows.fetch(later);
                        add_chains(&mut parts, inputs, at + 16, *second);
                    } else {
                        for (i, &codes) in codes.as_ref().iter().enumerate() {
                            add_dots(&mut parts, inputs, at + 16 * i, codes);
                        }
                    }
                    let sub_scale = *header.sub_scales.get_unchecked(k / (64 / L::SUBS));
                    for (isum, part) in isums.iter_mut().zip(parts) {
                        *isum = _mm512_add_epi32(*isum, _mm512_mullo_epi32(part, sub_scale));
                    }
                });
                for ((acc, isum), (input, pairs)) in acc.iter_mut().zip(isums).zip(inputs.iter().zip(&sums.pairs)) {
                    let dx = _mm512_set1_ps(*input.scales.add(b));
                    let product = _mm512_mul_ps(_mm512_cvtepi32_ps(isum), _mm512_mul_ps(header.scale, dx));
                    *acc = _mm512_add_ps(*acc, product);
                    if L::MIN {
                        let mut msum = _mm512_setzero_si512();
                        for (sub_mins, pair) in header.sub_mins.iter().zip(pairs).take(L::SUBS / 2) {
                            msum = add_scaled(msum, *sub_mins, _mm512_set1_epi32(*pair));
                        }
                        let product = _mm512_mul_ps(_mm512_cvtepi32_ps(msum), _mm512_mul_ps(header.min, dx));
                        *acc = _mm512_sub_ps(*acc, product);
                    }
                }
            }
            rows.block = rows.block.wrapping_add(L::BYTES);
        }
        // SAFETY: the caller promises room for the inputs.
        unsafe { store(acc, out) };
    }
}

/// Adds the products of codes with the codes of the inputs from `at` on, sixteen of each.
///
/// # Safety
/// Every input has these codes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn add_dots<const N: usize>(sums: &mut [__m512i; N], inputs: &[Input; N], at: usize, codes: [__m512i; 4]) {
    for (i, codes) in codes.into_iter().enumerate() {
        for (sum, input) in sums.iter_mut().zip(inputs) {
            // SAFETY: the caller promises the codes from `at` to `at + 15`, and i is below 4.
            let x = unsafe { input.codes.add(at + 4 * i).cast::<i32>().read_unaligned() };
            *sum = _mm512_dpbusd_epi32(*sum, codes, _mm512_set1_epi32(x));
        }
    }
}

/// The same in the order that is written: where 32 codes have one sum, the compiler would load the activations first, and keep
/// them in memory.
///
/// # Safety
/// As for [`add_dots`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn add_chains<const N: usize>(sums: &mut [__m512i; N], inputs: &[Input; N], at: usize, codes: [__m512i; 4]) {
    let [a, b, c, d] = codes;
    for (sum, input) in sums.iter_mut().zip(inputs) {
        // SAFETY: the caller promises the codes from `at` to `at + 15`, which are all that is read; this function has the feature
        // AVX-512 VNNI.
        unsafe {
            asm!(
                "vpdpbusd {sum}, {a}, dword ptr [{x} + {at}]{{1to16}}",
                "vpdpbusd {sum}, {b}, dword ptr [{x} + {at} + 4]{{1to16}}",
                "vpdpbusd {sum}, {c}, dword ptr [{x} + {at} + 8]{{1to16}}",
                "vpdpbusd {sum}, {d}, dword ptr [{x} + {at} + 12]{{1to16}}",
                sum = inout(zmm_reg) *sum,
                a = in(zmm_reg) a,
                b = in(zmm_reg) b,
                c = in(zmm_reg) c,
                d = in(zmm_reg) d,
                x = in(reg) input.codes,
                at = in(reg) at,
                options(pure, readonly, nostack, preserves_flags),
            );
        }
    }
}

/// The sums over the activations of some blocks, at most 32, that are needed.
///
/// # Safety
/// Every input has the blocks, and there are at most 8.
#[inline(never)] // once for all numbers of rows
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn prepare_32<L: Layout32<PARTS>, const PARTS: usize>(inputs: &[Input], blocks: Range<usize>, sums: &mut Sums) {
    for (row, input) in inputs.iter().enumerate() {
        // SAFETY: the caller promises the blocks of at most 8 inputs, of which each has two sums.
        unsafe {
            let input = Input { sums: input.sums.add(2 * blocks.start), ..*input };
            matmul_32::prepare::<L, PARTS>(&input, blocks.len(), sums, row);
        }
    }
}

/// The sums over the activations of super-block b that are needed: where sums of sixteen codes start, and pairs for the minima.
///
/// # Safety
/// Every input has the super-block, and there are at most 8.
#[inline(never)] // once for all numbers of rows
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn prepare_256<L: Layout256>(inputs: &[Input], b: usize, sums: &mut Sums) {
    const { assert!(L::OFFSET == 0 || group::<L>(true) == 16 || group::<L>(false) == 16) };
    // SAFETY: the caller promises what the called functions ask for.
    unsafe {
        if group::<L>(true) == 16 {
            matmul_256::prepare::<L, true>(inputs, b, sums);
        } else {
            matmul_256::prepare::<L, false>(inputs, b, sums);
        }
    }
}

/// Stores sixteen products with each row of activations.
///
/// # Safety
/// There is room for them, [`OUTPUTS`] elements from one row to the next.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn store<const N: usize>(acc: [__m512; N], out: *mut f32) {
    for (row, acc) in acc.into_iter().enumerate() {
        // SAFETY: the caller promises sixteen elements there.
        unsafe { _mm512_storeu_ps(out.add(OUTPUTS * row), acc) };
    }
}

/// The header of a super-block of sixteen rows.
struct Registers<L> {
    sub_scales: [__m512i; 16],
    sub_mins: [__m512i; 8],
    scale: __m512,
    min: __m512,
    layout: PhantomData<L>,
}

impl<L> Registers<L> {
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    fn new() -> Self {
        Self {
            sub_scales: [_mm512_setzero_si512(); 16],
            sub_mins: [_mm512_setzero_si512(); 8],
            scale: _mm512_setzero_ps(),
            min: _mm512_setzero_ps(),
            layout: PhantomData,
        }
    }
}

impl<L: Layout256> Header for Registers<L> {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn sub_scale(&mut self, j: usize, sub_scale: __m512i) {
        // SAFETY: the caller promises j < 16, the length of the array.
        unsafe { *self.sub_scales.get_unchecked_mut(j) = sub_scale };
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn sub_mins(&mut self, j: usize, sub_mins: __m512i) {
        // SAFETY: the caller promises j < 8, the length of the array.
        unsafe { *self.sub_mins.get_unchecked_mut(j) = sub_mins };
    }

    #[inline(always)]
    fn scales(&mut self, scale: __m512, min: __m512) {
        (self.scale, self.min) = (scale, min);
    }
}
