//! Quantization of rows of activations to int8: with a scale per 32, four blocks at a time, or with a scale per 256.

use core::arch::x86_64::*;

use crate::kernels::generic;
use crate::num::SETTLED_MIN;
use crate::quant::{Form, QuantizeError, row_words};

/// Number of blocks that are quantized together.
const BLOCKS: usize = 4;
/// Number of activations of these blocks.
const STEP: usize = 32 * BLOCKS;

/// As [`quantize_row`](crate::quant::quantize_row).
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
pub(in crate::kernels) fn quantize_row(form: Form, x: &[f32], words: &mut [u32]) -> Result<(), QuantizeError> {
    let length = QuantizeError::Length { cols: x.len(), words: words.len() };
    if row_words(form, x.len()) != Some(words.len()) {
        return Err(length);
    }
    match form {
        Form::Q8x32 if x.len() >= STEP => by_32(x, words).unwrap_or(Err(length)),
        Form::Q8x256 => by_256(x, words).unwrap_or(Err(length)),
        _ => generic::quantize_row(form, x, words),
    }
}

/// Quantizes a row of blocks of 256; `None` where there are fewer words than it needs.
#[inline]
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
fn by_256(x: &[f32], words: &mut [u32]) -> Option<Result<(), QuantizeError>> {
    let (codes, others) = words.split_at_mut_checked(x.len() / 4)?;
    let (scales, others) = others.split_at_mut_checked(x.len() / 256)?;
    let (sums, squares) = others.split_at_mut_checked(x.len() / 32)?;
    let blocks = x.as_chunks().0.iter().zip(codes.as_chunks_mut().0).zip(scales);
    let sums = sums.as_chunks_mut().0.iter_mut().zip(squares);
    for (block, (((x, codes), scale), (sums, squares))) in blocks.zip(sums).enumerate() {
        match block_of_256(x, codes) {
            Some(dx) => *scale = dx.to_bits(),
            None => return Some(Err(QuantizeError::NonFinite { block })),
        }
        *squares = sums_of_256(codes, sums);
    }
    Some(Ok(()))
}

/// Stores the codes of a block and returns its scale; `None` where an element is not finite.
#[inline]
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
fn block_of_256(x: &[f32; 256], codes: &mut [u32; 64]) -> Option<f32> {
    let mut largest = [_mm512_setzero_si512(); 4];
    for x in x.as_chunks::<64>().0 {
        for (largest, x) in largest.iter_mut().zip(x.as_chunks::<16>().0) {
            // SAFETY: the chunk has the 16 elements of f32, 64 bytes, that are read.
            let bits = unsafe { _mm512_loadu_si512(x.as_ptr().cast()) };
            *largest = _mm512_max_epu32(*largest, _mm512_and_si512(bits, _mm512_set1_epi32(0x7fff_ffff)));
        }
    }
    let [a, b, c, d] = largest;
    let amax = _mm512_reduce_max_epu32(_mm512_max_epu32(_mm512_max_epu32(a, b), _mm512_max_epu32(c, d)));
    if amax >= 0x7f80_0000 {
        return None;
    }
    // Where all magnitudes are below 2^-50, scale and codes are 0.
    if amax < SETTLED_MIN.to_bits() {
        codes.fill(0);
        return Some(0.0);
    }
    let amax = f32::from_bits(amax);
    let inverse = _mm512_set1_ps(127.0 / amax);
    for (x, codes) in x.as_chunks::<16>().0.iter().zip(codes.as_chunks_mut::<4>().0) {
        // SAFETY: the chunks have the 16 elements that are read and the four words, 16 bytes, that are written. The
        // conversion rounds to nearest even: the floating-point environment is the default one.
        unsafe {
            let rounded = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(x.as_ptr()), inverse));
            _mm_storeu_si128(codes.as_mut_ptr().cast(), _mm512_cvtepi32_epi8(rounded));
        }
    }
    Some(amax * (1.0 / 127.0))
}

/// Stores the sum of every 16 codes, and returns the largest sum of the squares of 16 codes.
#[inline]
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
fn sums_of_256(codes: &[u32; 64], sums: &mut [u32; 8]) -> u32 {
    let (mut all, mut largest) = (_mm512_setzero_si512(), _mm512_setzero_si512());
    for (codes, place) in codes.as_chunks::<16>().0.iter().zip([0x1111, 0x2222, 0x4444, 0x8888]) {
        // SAFETY: the chunk has the 16 words, 64 bytes, that are read.
        let codes = unsafe { _mm512_loadu_si512(codes.as_ptr().cast()) };
        all = _mm512_mask_mov_epi32(all, place, sums_of_16(_mm512_set1_epi8(1), codes));
        let magnitudes = _mm512_abs_epi8(codes);
        largest = _mm512_max_epu32(largest, sums_of_16(magnitudes, magnitudes));
    }
    // The sums of the first 64 codes are in the first lanes of the quarters, those of the next 64 in the second lanes,
    // and so on.
    let order = _mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0);
    let all = _mm512_cvtepi32_epi16(_mm512_permutexvar_epi32(order, all));
    // SAFETY: the array has the eight words, 32 bytes, that are written.
    unsafe { _mm256_storeu_si256(sums.as_mut_ptr().cast(), all) };
    _mm512_reduce_max_epu32(largest)
}

/// Quantizes a row of at least four blocks of 32; `None` where there are fewer words than it needs.
#[inline]
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
fn by_32(x: &[f32], words: &mut [u32]) -> Option<Result<(), QuantizeError>> {
    let blocks = x.len() / 32;
    let (codes, others) = words.split_at_mut_checked(x.len() / 4)?;
    let (scales, sums) = others.split_at_mut_checked(blocks)?;
    for first in (0..blocks).step_by(BLOCKS) {
        // The last four blocks may overlap blocks that are quantized already.
        let first = first.min(blocks.checked_sub(BLOCKS)?);
        let x = x.get(32 * first..)?.first_chunk()?;
        let codes = codes.get_mut(8 * first..)?.first_chunk_mut()?;
        let scales = scales.get_mut(first..)?.first_chunk_mut()?;
        let sums = sums.get_mut(first..)?.first_chunk_mut()?;
        if let Err(block) = four_blocks(x, codes, scales, sums) {
            return Some(Err(QuantizeError::NonFinite { block: first + block }));
        }
    }
    Some(Ok(()))
}

/// Quantizes four blocks. The error is the index of the first block that is not finite.
#[inline]
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
fn four_blocks(
    x: &[f32; STEP],
    codes: &mut [u32; STEP / 4],
    scales: &mut [u32; BLOCKS],
    sums: &mut [u32; BLOCKS],
) -> Result<(), usize> {
    let mut values = [[_mm512_setzero_ps(); 2]; BLOCKS];
    for (values, x) in values.iter_mut().zip(x.as_chunks::<32>().0) {
        // SAFETY: the chunk has the 32 elements that are read.
        *values = unsafe { [_mm512_loadu_ps(x.as_ptr()), _mm512_loadu_ps(x.as_ptr().add(16))] };
    }
    let amax = largest(values);
    let infinite = _mm_movemask_ps(_mm_castsi128_ps(_mm_cmpgt_epi32(amax, _mm_set1_epi32(0x7f7f_ffff))));
    if infinite != 0 {
        return Err(infinite.trailing_zeros() as usize);
    }
    // Where all magnitudes are below 2^-50, scale and codes are 0.
    let tiny = _mm_cmplt_epi32(amax, _mm_set1_epi32(SETTLED_MIN.to_bits() as i32));
    let amax = _mm_castsi128_ps(amax);
    let scale = _mm_mul_ps(amax, _mm_set1_ps(1.0 / 127.0));
    let inverse = _mm_div_ps(_mm_set1_ps(127.0), amax);
    let [scale, inverse] = [scale, inverse].map(|v| _mm_andnot_si128(tiny, _mm_castps_si128(v)));
    let inverses = _mm512_broadcast_i32x4(inverse);
    // SAFETY: the array has the four words, 16 bytes, that are written.
    unsafe { _mm_storeu_si128(scales.as_mut_ptr().cast(), scale) };
    for (block, (values, codes)) in values.into_iter().zip(codes.as_chunks_mut::<8>().0).enumerate() {
        let inverse = _mm512_permutexvar_epi32(_mm512_set1_epi32(block as i32), inverses);
        for (values, codes) in values.into_iter().zip(codes.as_chunks_mut::<4>().0) {
            // The conversion rounds to nearest even: the floating-point environment is the default one.
            let rounded = _mm512_cvtps_epi32(_mm512_mul_ps(values, _mm512_castsi512_ps(inverse)));
            // SAFETY: the chunk has the four words, 16 bytes, that are written.
            unsafe { _mm_storeu_si128(codes.as_mut_ptr().cast(), _mm512_cvtepi32_epi8(rounded)) };
        }
    }
    let ones = _mm512_set1_epi8(1);
    // SAFETY: the codes are 32 words, 128 bytes, of which the second 64 begin at word 16; the sums are four words, 16
    // bytes.
    unsafe {
        let low = sums_of_16(ones, _mm512_loadu_si512(codes.as_ptr().cast()));
        let high = sums_of_16(ones, _mm512_loadu_si512(codes.as_ptr().add(16).cast()));
        // One of every four lanes, those of `low` first.
        let first = _mm512_set_epi32(0, 0, 0, 0, 0, 0, 0, 0, 28, 24, 20, 16, 12, 8, 4, 0);
        let all = _mm512_castsi512_si256(_mm512_permutex2var_epi32(low, first, high));
        _mm_storeu_si128(sums.as_mut_ptr().cast(), _mm256_cvtepi32_epi16(all));
    }
    Ok(())
}

/// Returns the largest magnitude of each block, as bits.
#[inline]
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
fn largest(values: [[__m512; 2]; BLOCKS]) -> __m128i {
    let magnitude = |v| _mm512_and_si512(_mm512_castps_si512(v), _mm512_set1_epi32(0x7fff_ffff));
    let [a, b, c, d] = values.map(|[low, high]| _mm512_max_epu32(magnitude(low), magnitude(high)));
    let ab = _mm512_max_epu32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
    let cd = _mm512_max_epu32(_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
    let four = _mm512_max_epu32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
    let half = _mm256_max_epu32(_mm512_castsi512_si256(four), _mm512_extracti64x4_epi64::<1>(four));
    _mm_max_epu32(_mm256_castsi256_si128(half), _mm256_extracti128_si256::<1>(half))
}

/// Returns the sums of every 16 products of an unsigned and a signed byte, each in all of its four lanes.
#[inline]
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
fn sums_of_16(unsigned: __m512i, signed: __m512i) -> __m512i {
    let of_4 = _mm512_dpbusd_epi32(_mm512_setzero_si512(), unsigned, signed);
    let of_8 = _mm512_add_epi32(of_4, _mm512_shuffle_epi32::<0b10_11_00_01>(of_4));
    _mm512_add_epi32(of_8, _mm512_shuffle_epi32::<0b01_00_11_10>(of_8))
}
