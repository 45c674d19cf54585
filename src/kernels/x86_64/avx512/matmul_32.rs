//! Panels of blocks of 32 times rows of activations.

use core::arch::x86_64::*;

use super::matmul::Input;
use super::panel_32::Panel32;

/// Adds the products of a panel with `ROWS` rows of activations to `out`, 32 elements per row.
///
/// A block's integers are summed four codes at a time, 32 rows of weights in two registers for every row of
/// activations. They start at minus `offset` times the sum of the activations, which takes the offset of the
/// codes in the panel away again.
///
/// # Safety
/// Every input has 32 codes, one scale and two sums per block of the panel, and `out` has room for all rows.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) unsafe fn add_products<const ROWS: usize, const MIN: bool>(
    panel: &[Panel32],
    inputs: &[Input; ROWS],
    offset: i16,
    out: *mut f32,
) {
    let offset = _mm512_set1_epi16(-offset);
    for (b, block) in panel.iter().enumerate() {
        let mut isums = [[_mm512_setzero_si512(); 2]; ROWS];
        for (isum, input) in isums.iter_mut().zip(inputs) {
            // SAFETY: the two sums of block b.
            let sums = unsafe { input.sums.add(2 * b).cast::<i32>().read_unaligned() };
            *isum = [_mm512_madd_epi16(_mm512_set1_epi32(sums), offset); 2];
        }
        for (k, [w0, w1]) in block.codes.iter().enumerate() {
            for (isum, input) in isums.iter_mut().zip(inputs) {
                // SAFETY: codes 4 k to 4 k + 3 of block b.
                let x = unsafe { input.codes.add(32 * b + 4 * k).cast::<i32>().read_unaligned() };
                let x = _mm512_set1_epi32(x);
                isum[0] = _mm512_dpbusd_epi32(isum[0], *w0, x);
                isum[1] = _mm512_dpbusd_epi32(isum[1], *w1, x);
            }
        }
        for (row, (isum, input)) in isums.iter().zip(inputs).enumerate() {
            // SAFETY: the scale and the two sums of block b; 32 elements per row of `out`.
            let (dx, sums, out) = unsafe {
                (
                    _mm512_set1_ps(*input.scales.add(b)),
                    input.sums.add(2 * b).cast::<i32>().read_unaligned(),
                    out.add(32 * row),
                )
            };
            for g in 0..2 {
                // SAFETY: as above.
                unsafe {
                    let out = out.add(16 * g);
                    let product = _mm512_mul_ps(_mm512_cvtepi32_ps(isum[g]), _mm512_mul_ps(block.scale[g], dx));
                    let mut acc = _mm512_add_ps(_mm512_loadu_ps(out), product);
                    if MIN {
                        let sum = _mm512_madd_epi16(_mm512_set1_epi32(sums), _mm512_set1_epi16(1));
                        let product = _mm512_mul_ps(_mm512_cvtepi32_ps(sum), _mm512_mul_ps(block.min[g], dx));
                        acc = _mm512_add_ps(acc, product);
                    }
                    _mm512_storeu_ps(out, acc);
                }
            }
        }
    }
}
