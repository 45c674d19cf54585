//! Panels of super-blocks of 256 times rows of activations.

use core::arch::x86_64::*;

use super::matmul::Input;
use super::panel_256::{Layout256, Panel256};

/// Adds the products of a panel with `ROWS` rows of activations to `out`, 32 elements per row.
///
/// # Safety
/// Every input has 256 codes, one scale and 16 sums per super-block of the panel, and `out` has room for all
/// rows.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) unsafe fn add_products<F: Layout256, const ROWS: usize>(
    panel: &[Panel256],
    inputs: &[Input; ROWS],
    out: *mut f32,
) {
    let group = 64 / F::SUBS;
    let offset = -i32::from(F::OFFSET) & 0xffff;
    let offsets = [_mm512_set1_epi32(offset), _mm512_set1_epi32(offset << 16)];
    let both = _mm512_set1_epi32(offset | offset << 16);
    for (b, block) in panel.iter().enumerate() {
        let mut isums = [[_mm512_setzero_si512(); 2]; ROWS];
        for j in 0..F::SUBS {
            let mut parts = [[_mm512_setzero_si512(); 2]; ROWS];
            if F::OFFSET != 0 {
                for (part, input) in parts.iter_mut().zip(inputs) {
                    let (pair, offset) = if F::SUBS == 8 { (j, both) } else { (j / 2, offsets[j % 2]) };
                    // SAFETY: two of the sums of super-block b.
                    let sums = unsafe { input.sums.add(16 * b + 2 * pair).cast::<i32>().read_unaligned() };
                    *part = [_mm512_madd_epi16(_mm512_set1_epi32(sums), offset); 2];
                }
            }
            for i in 0..group {
                // SAFETY: k is below 64.
                let [w0, w1] = unsafe { *block.codes.get_unchecked(j * group + i) };
                for (part, input) in parts.iter_mut().zip(inputs) {
                    // SAFETY: four codes of super-block b.
                    let x = unsafe { input.codes.add(256 * b + 4 * (j * group + i)).cast::<i32>().read_unaligned() };
                    let x = _mm512_set1_epi32(x);
                    part[0] = _mm512_dpbusd_epi32(part[0], w0, x);
                    part[1] = _mm512_dpbusd_epi32(part[1], w1, x);
                }
            }
            // SAFETY: j is below 16.
            let sub_scales = unsafe { *block.sub_scales.get_unchecked(j) };
            for (isum, part) in isums.iter_mut().zip(parts) {
                for g in 0..2 {
                    isum[g] = _mm512_add_epi32(isum[g], _mm512_mullo_epi32(part[g], sub_scales[g]));
                }
            }
        }
        for (row, (isum, input)) in isums.iter().zip(inputs).enumerate() {
            for g in 0..2 {
                // SAFETY: the scale and the sums of super-block b; 32 elements per row of `out`.
                unsafe {
                    let dx = _mm512_set1_ps(*input.scales.add(b));
                    let out = out.add(32 * row + 16 * g);
                    let product = _mm512_mul_ps(_mm512_cvtepi32_ps(isum[g]), _mm512_mul_ps(block.scale[g], dx));
                    let mut acc = _mm512_add_ps(_mm512_loadu_ps(out), product);
                    if F::MIN {
                        let mut msum = _mm512_setzero_si512();
                        for (j, sub_mins) in block.sub_mins.iter().enumerate() {
                            let sums = input.sums.add(16 * b + 2 * j).cast::<i32>().read_unaligned();
                            msum = _mm512_dpwssd_epi32(msum, sub_mins[g], _mm512_set1_epi32(sums));
                        }
                        let product = _mm512_mul_ps(_mm512_cvtepi32_ps(msum), _mm512_mul_ps(block.min[g], dx));
                        acc = _mm512_sub_ps(acc, product);
                    }
                    _mm512_storeu_ps(out, acc);
                }
            }
        }
    }
}
