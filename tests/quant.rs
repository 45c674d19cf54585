//! The block formats, compared with reference data, and the dot products, compared with a slow evaluation in i64.

use std::path::{Path, PathBuf};

use gleed::num::{ARITHMETIC_VERSION, Xxh64};
use gleed::quant::{ActivationRow, Form, QuantizedRow, dequantize, dot, form, quantize_row, row_words};
use gleed::tensor::Dtype;
use proptest::prelude::*;

/// Returns the path of `../shared/NAME`, or `None` on a clone without that folder.
fn shared(name: &str) -> Option<PathBuf> {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../shared"));
    if folder.is_dir() {
        return Some(folder.join(name));
    }
    assert!(std::env::var("GLEED_REQUIRE_SHARED").as_deref() != Ok("1"), "../shared is not there");
    println!("skipped: ../shared is not there");
    None
}

/// The formats whose reference blocks are in `blocks2026`, in the order of `Dtype::ALL`.
const NEWER: [Dtype; 13] = [
    Dtype::IQ2_XXS,
    Dtype::IQ2_XS,
    Dtype::IQ2_S,
    Dtype::IQ3_XXS,
    Dtype::IQ3_S,
    Dtype::IQ1_S,
    Dtype::IQ1_M,
    Dtype::TQ1_0,
    Dtype::TQ2_0,
    Dtype::MXFP4,
    Dtype::NVFP4,
    Dtype::Q1_0,
    Dtype::Q2_0,
];

/// Dequantizes every block file of a folder and compares the bits. Returns the number of formats found.
fn check_blocks(folder: &Path) -> usize {
    let mut found = 0;
    for dtype in Dtype::ALL {
        let Ok(bytes) = std::fs::read(folder.join(format!("{dtype}.bin"))) else { continue };
        let want = std::fs::read(folder.join(format!("{dtype}.f32"))).unwrap();
        let want: Vec<u32> = want.as_chunks::<4>().0.iter().map(|w| u32::from_le_bytes(*w)).collect();
        let mut out = vec![0.0; want.len()];
        dequantize(dtype, &bytes, &mut out).unwrap();
        for (i, (out, want)) in out.iter().zip(want).enumerate() {
            // Gleed takes scales below 2^-40 as 0, and floats below 2^-50, too.
            let want = match dtype {
                Dtype::MXFP4 if bytes[i / 32 * dtype.block_bytes()] < 88 => want & 0x8000_0000,
                Dtype::F32 | Dtype::BF16 if f32::from_bits(want).abs() < 2.0_f32.powi(-50) => 0,
                _ => want,
            };
            assert_eq!(out.to_bits(), want, "{dtype}, element {i}: {out} instead of {}", f32::from_bits(want));
        }
        found += 1;
    }
    found
}

#[test]
fn dequantize_equals_the_committed_blocks() {
    assert_eq!(check_blocks(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/blocks"))), 27);
}

#[test]
fn dequantize_equals_all_reference_blocks() {
    if let Some(folder) = shared("fixtures/blocks") {
        assert_eq!(check_blocks(&folder), 14);
    }
    if let Some(folder) = shared("fixtures/blocks2026") {
        assert_eq!(check_blocks(&folder), 13);
    }
}

/// A reproducible stream of numbers.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = Xxh64::hash(&self.0.to_le_bytes());
        self.0
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next() as u8).collect()
    }

    /// Returns a uniform number in -1..1.
    fn float(&mut self) -> f32 {
        (self.next() >> 40) as f32 / 8_388_608.0 - 1.0
    }
}

/// Returns the offset of a block's scale, which is an f16 in most formats, and of the scale of its minima.
fn scale_offsets(dtype: Dtype) -> (usize, Option<usize>) {
    match dtype {
        Dtype::Q4_1 | Dtype::Q5_1 | Dtype::Q4_K | Dtype::Q5_K => (0, Some(2)),
        Dtype::Q2_K => (80, Some(82)),
        Dtype::Q3_K => (108, None),
        Dtype::Q6_K => (208, None),
        Dtype::TQ1_0 => (52, None),
        Dtype::TQ2_0 => (64, None),
        _ => (0, None),
    }
}

/// Returns the number of elements that share a scale, and the scale of each such part of a block.
fn part_scales(dtype: Dtype, block: &[u8]) -> (usize, Vec<f32>) {
    let word = |i: usize| u16::from_le_bytes([block[48 + 2 * i], block[49 + 2 * i]]);
    match dtype {
        // The scale is 2^(e - 128), or 0 below 2^-40.
        Dtype::MXFP4 if block[0] < 88 => (32, vec![0.0]),
        Dtype::MXFP4 => (32, vec![2.0_f32.powi(i32::from(block[0]) - 128)]),
        // The scale is half of the E4M3 number.
        Dtype::NVFP4 => {
            let scale = |&bits: &u8| {
                let (e, m) = (i32::from(bits >> 3 & 15), f32::from(bits & 7));
                let scale = if e == 0 { m * 2.0_f32.powi(-10) } else { (8.0 + m) * 2.0_f32.powi(e - 11) };
                if bits == 0x7f { 0.0 } else { scale }
            };
            (16, block[..4].iter().map(scale).collect())
        }
        Dtype::IQ1_M => {
            let bits = (0..4).fold(0, |bits, i| bits | word(i) >> 12 << (4 * i));
            (256, vec![half::f16::from_bits(bits).to_f32() / 8.0])
        }
        _ => {
            let divisor = match dtype {
                Dtype::IQ1_S | Dtype::IQ2_XXS | Dtype::IQ2_XS | Dtype::IQ2_S => 8.0,
                Dtype::IQ3_XXS => 4.0,
                _ => 1.0,
            };
            (dtype.block_len().min(256), vec![get_f16(block, scale_offsets(dtype).0) / divisor])
        }
    }
}

/// Sets the scale of a block, or of all its parts, to a number near `value` that the format has.
fn set_scale(dtype: Dtype, block: &mut [u8], value: f32) {
    match dtype {
        // The scale is the next power of two.
        Dtype::MXFP4 => block[0] = ((value.abs().to_bits() >> 23) + 1) as u8,
        Dtype::NVFP4 => {
            let bits = value.abs().to_bits();
            let exponent = (bits >> 23).clamp(120, 135) - 120;
            block[..4].fill((exponent << 3 | bits >> 20 & 7) as u8);
        }
        Dtype::IQ1_M => {
            let bits = half::f16::from_f32(value).to_bits();
            for i in 0..4 {
                block[49 + 2 * i] = block[49 + 2 * i] & 0x0f | ((bits >> (4 * i) & 15) << 4) as u8;
            }
        }
        _ => set_f16(block, scale_offsets(dtype).0, value),
    }
}

fn set_f16(block: &mut [u8], offset: usize, value: f32) {
    block[offset..offset + 2].copy_from_slice(&half::f16::from_f32(value).to_le_bytes());
}

fn get_f16(block: &[u8], offset: usize) -> f32 {
    half::f16::from_le_bytes([block[offset], block[offset + 1]]).to_f32()
}

/// Returns the exact integer factors of a block's elements. With scale 1 and minimum 0 an element is sub-scale * code.
/// With scale 0 and minimum 1 it is the factor of the minimum.
fn integers(dtype: Dtype, block: &[u8]) -> (Vec<i64>, Vec<i64>) {
    let min = scale_offsets(dtype).1;
    let expand = |d: f32, m: f32| -> Vec<i64> {
        let mut block = block.to_vec();
        set_scale(dtype, &mut block, d);
        if let Some(min) = min {
            set_f16(&mut block, min, m);
        }
        let mut out = vec![0.0; dtype.block_len()];
        dequantize(dtype, &block, &mut out).unwrap();
        let scale = if d == 0.0 { 1.0 } else { part_scales(dtype, &block).1[0] };
        out.into_iter().map(|x| (x / scale) as i64).collect()
    };
    (expand(1.0, 0.0), if min.is_some() { expand(0.0, 1.0) } else { vec![] })
}

/// Evaluates the rule of docs/arithmetic.md with integers in i64. Also returns whether f32 rounded an integer.
fn slow_dot(dtype: Dtype, row: &[u8], codes: &[i8], scales: &[f32]) -> (f32, bool) {
    let min = scale_offsets(dtype).1;
    let (mut acc, mut rounded) = (0.0_f32, false);
    let per_scale = codes.len() / scales.len();
    let blocks = row.chunks(dtype.block_bytes()).zip(codes.chunks(dtype.block_len()));
    for (b, (block, codes)) in blocks.enumerate() {
        let (w, m) = integers(dtype, block);
        let sum = |w: &[i64], codes: &[i8]| w.iter().zip(codes).map(|(w, x)| w * i64::from(*x)).sum::<i64>();
        // One step for each scale, whether of the weights or of the activations.
        let (part, part_scales) = part_scales(dtype, block);
        let step = part.min(per_scale);
        for first in (0..codes.len()).step_by(step) {
            let dx = scales[(b * dtype.block_len() + first) / per_scale];
            let isum = sum(&w[first..first + step], &codes[first..]);
            rounded |= isum as f32 as i64 != isum;
            acc += isum as f32 * (part_scales[first / part] * dx);
            if let Some(min) = min {
                // The K formats subtract their minima: the elements found above are negative.
                let m = sum(&m, codes) as f32 * (get_f16(block, min) * dx);
                acc += m;
            }
        }
    }
    (acc, rounded)
}

/// Returns the number of elements that share a scale of the activations.
fn per_scale(dtype: Dtype) -> usize {
    if form(dtype) == Form::Q8x256 { 256 } else { 32 }
}

fn quantized() -> impl Iterator<Item = Dtype> {
    Dtype::ALL.into_iter().filter(|dtype| !form(*dtype).is_float())
}

/// Sets scales of usual size in every block of a row.
fn set_scales(dtype: Dtype, row: &mut [u8], mut scale: impl FnMut() -> f32) {
    for block in row.chunks_mut(dtype.block_bytes()) {
        set_scale(dtype, block, scale());
        if let Some(m) = scale_offsets(dtype).1 {
            set_f16(block, m, scale());
        }
    }
}

fn row_of(form: Form, row: QuantizedRow<'_>) -> ActivationRow<'_> {
    match form {
        Form::Q8x256 => ActivationRow::Q8x256(row),
        _ => ActivationRow::Q8x32(row),
    }
}

/// Compares a dot product with the slow evaluation. Returns whether an integer was too large to be exact in f32.
fn check_dot(dtype: Dtype, row: &[u8], codes: &[i8], scales: &[f32]) -> bool {
    let sums: Vec<i16> = codes.chunks(16).map(|codes| codes.iter().map(|&x| i16::from(x)).sum()).collect();
    let x = QuantizedRow { codes, scales, sums: &sums, squares: &[] };
    let got = dot(dtype, row, row_of(form(dtype), x)).unwrap();
    let (want, rounded) = slow_dot(dtype, row, codes, scales);
    assert_eq!(got.to_bits(), want.to_bits(), "{dtype}: {got} instead of {want}");
    rounded
}

#[test]
fn dots_equal_the_slow_evaluation_on_random_codes() {
    let mut random = Random(1);
    for dtype in quantized() {
        for blocks in [1, 2, 3, 7] {
            let mut row = random.bytes(blocks * dtype.block_bytes());
            set_scales(dtype, &mut row, || random.float() * 0.1);
            let codes: Vec<i8> = random.bytes(blocks * dtype.block_len()).iter().map(|&b| b as i8).collect();
            let scales = codes.len() / per_scale(dtype);
            let scales: Vec<f32> = (0..scales).map(|_| random.float().abs() * 0.05).collect();
            check_dot(dtype, &row, &codes, &scales);
        }
    }
}

#[test]
fn dots_equal_the_slow_evaluation_on_extreme_codes() {
    let mut random = Random(2);
    let mut rounded = Vec::new();
    for dtype in quantized() {
        for byte in [0x00, 0xff, 0x0f, 0xf0, 0x7f, 0x80, 0x88, 0x77] {
            for (d, m) in [(1.0, 1.0), (-65504.0, 65504.0), (5.96e-8, -5.96e-8), (0.1, -0.3), (0.0, -0.0)] {
                let mut scales = [d, m].into_iter().cycle();
                let mut row = vec![byte; 2 * dtype.block_bytes()];
                set_scales(dtype, &mut row, || scales.next().unwrap());
                let (weights, _) = integers(dtype, &row[..dtype.block_bytes()]);
                for code in [127, -127, -128] {
                    let constant = vec![code; 2 * dtype.block_len()];
                    let aligned = weights.iter().cycle().map(|w| if *w < 0 { 0_i8.saturating_sub(code) } else { code });
                    let aligned: Vec<i8> = aligned.take(constant.len()).collect();
                    let odd: Vec<i8> = aligned.iter().map(|x| x - x.signum() * (random.next() & 1) as i8).collect();
                    for codes in [constant, aligned, odd] {
                        for dx in [0.013, 1.0, 2.6e36, 2e-32] {
                            let scales: Vec<f32> = [dx, dx * 0.7].repeat(codes.len() / per_scale(dtype) / 2);
                            if check_dot(dtype, &row, &codes, &scales) && rounded.last() != Some(&dtype) {
                                rounded.push(dtype);
                            }
                        }
                    }
                }
            }
        }
    }
    // The formats whose integers exceed 2^24. In these, the single rounding per super-block is visible.
    let older = [Dtype::Q4_K, Dtype::Q5_K, Dtype::Q6_K, Dtype::IQ4_XS];
    let newer = [Dtype::IQ2_XXS, Dtype::IQ2_XS, Dtype::IQ2_S, Dtype::IQ3_XXS];
    assert_eq!(rounded, [older, newer].concat());
}

#[test]
fn dots_are_close_to_the_real_product() {
    let mut random = Random(3);
    for dtype in Dtype::ALL {
        let cols = 1024;
        let x: Vec<f32> = (0..cols).map(|_| random.float()).collect();
        let mut row = random.bytes(dtype.row_bytes(cols).unwrap());
        match form(dtype) {
            Form::F32 | Form::Short => {
                for element in row.chunks_mut(dtype.block_bytes()) {
                    match dtype {
                        Dtype::F32 => element.copy_from_slice(&random.float().to_le_bytes()),
                        Dtype::F16 => set_f16(element, 0, random.float()),
                        _ => element.copy_from_slice(&half::bf16::from_f32(random.float()).to_le_bytes()),
                    }
                }
            }
            _ => set_scales(dtype, &mut row, || random.float() * 0.1),
        }
        let mut words = vec![0; row_words(form(dtype), cols).unwrap()];
        quantize_row(form(dtype), &x, &mut words).unwrap();
        let quantized = ActivationRow::from_words(form(dtype), cols, &words).unwrap();
        let rounded: Vec<f64> = match quantized {
            ActivationRow::F32(x) => x.iter().map(|&x| f64::from(x)).collect(),
            ActivationRow::Q8x32(x) | ActivationRow::Q8x256(x) => {
                let block = cols / x.scales.len();
                let scale = |i: usize| f64::from(x.scales[i / block]);
                x.codes.iter().enumerate().map(|(i, &code)| f64::from(code) * scale(i)).collect()
            }
        };
        let worst = x.iter().zip(&rounded).map(|(x, r)| (f64::from(*x) - r).abs()).fold(0.0, f64::max);
        assert!(worst < 0.501 / 127.0, "{dtype}: {worst}");
        let mut weights = vec![0.0; cols];
        dequantize(dtype, &row, &mut weights).unwrap();
        let products = || weights.iter().zip(&rounded).map(|(w, x)| f64::from(*w) * x);
        let (want, size): (f64, f64) = (products().sum(), products().map(f64::abs).sum());
        let got = f64::from(dot(dtype, &row, quantized).unwrap());
        assert!((got - want).abs() < 2e-6 * size, "{dtype}: {got} instead of {want}");
    }
}

#[test]
fn float_dots_follow_the_lane_rule() {
    let mut random = Random(4);
    for len in [0, 1, 15, 16, 17, 100, 256] {
        let x: Vec<f32> = (0..len).map(|_| random.float()).collect();
        let w: Vec<f32> = (0..len).map(|_| random.float()).collect();
        let encode = |dtype| -> Vec<u8> {
            match dtype {
                Dtype::F32 => w.iter().flat_map(|w| w.to_le_bytes()).collect(),
                Dtype::F16 => w.iter().flat_map(|w| half::f16::from_f32(*w).to_le_bytes()).collect(),
                _ => w.iter().flat_map(|w| half::bf16::from_f32(*w).to_le_bytes()).collect(),
            }
        };
        for dtype in [Dtype::F32, Dtype::F16, Dtype::BF16] {
            let row = encode(dtype);
            let mut weights = vec![0.0; len];
            dequantize(dtype, &row, &mut weights).unwrap();
            let mut lanes = [0.0_f32; 16];
            for i in 0..len {
                let product = weights[i] * x[i];
                lanes[i % 16] += product;
            }
            for width in [8, 4, 2, 1] {
                for i in 0..width {
                    lanes[i] += lanes[i + width];
                }
            }
            let got = dot(dtype, &row, ActivationRow::F32(&x)).unwrap();
            assert_eq!(got.to_bits(), lanes[0].to_bits(), "{dtype} {len}");
        }
    }
}

/// These hashes are the same on every machine. If one changes, the arithmetic has changed: raise its version.
#[test]
fn this_version_gives_these_bits() {
    let (first, newer) = (Dtype::ALL.into_iter().filter(|dtype| !NEWER.contains(dtype)), NEWER.into_iter());
    assert_eq!((ARITHMETIC_VERSION, hash_of_dots(first)), (4, 14_418_827_207_613_027_767));
    assert_eq!((ARITHMETIC_VERSION, hash_of_dots(newer)), (4, 2_179_607_342_344_198_678));
}

/// Returns a hash of the dot products of a row of each type.
fn hash_of_dots(dtypes: impl Iterator<Item = Dtype>) -> u64 {
    let (mut random, mut hasher) = (Random(5), Xxh64::new());
    for dtype in dtypes {
        let cols = 1024;
        let x: Vec<f32> = (0..cols).map(|_| random.float()).collect();
        let weights: Vec<f32> = (0..cols).map(|_| random.float()).collect();
        let row: Vec<u8> = match dtype {
            Dtype::F32 => weights.iter().flat_map(|w| w.to_le_bytes()).collect(),
            Dtype::F16 => weights.iter().flat_map(|w| half::f16::from_f32(*w).to_le_bytes()).collect(),
            Dtype::BF16 => weights.iter().flat_map(|w| half::bf16::from_f32(*w).to_le_bytes()).collect(),
            _ => {
                let mut row = random.bytes(dtype.row_bytes(cols).unwrap());
                set_scales(dtype, &mut row, || random.float() * 0.1);
                row
            }
        };
        let mut words = vec![0; row_words(form(dtype), cols).unwrap()];
        quantize_row(form(dtype), &x, &mut words).unwrap();
        let x = ActivationRow::from_words(form(dtype), cols, &words).unwrap();
        hasher.update(&dot(dtype, &row, x).unwrap().to_le_bytes());
    }
    hasher.finish()
}

#[test]
fn every_layout_has_the_size_of_its_type() {
    for dtype in Dtype::ALL {
        let row = vec![0; 2 * dtype.block_bytes()];
        assert!(dequantize(dtype, &row, &mut vec![0.0; 2 * dtype.block_len()]).is_some(), "{dtype}");
    }
}

#[test]
fn wrong_lengths_and_forms_are_refused() {
    let words = vec![0; 512];
    for dtype in Dtype::ALL {
        let cols = 2 * dtype.block_len();
        let row = vec![0; dtype.row_bytes(cols).unwrap()];
        let len = row_words(form(dtype), cols).unwrap();
        let x = ActivationRow::from_words(form(dtype), cols, &words[..len]).unwrap();
        assert_eq!(dot(dtype, &row, x), Some(0.0), "{dtype}");
        assert_eq!(dot(dtype, &row[1..], x), None, "{dtype}");
        assert_eq!(dot(dtype, &row[dtype.block_bytes()..], x), None, "{dtype}");
        assert_eq!(dequantize(dtype, &row[1..], &mut vec![0.0; cols]), None, "{dtype}");
        assert_eq!(dequantize(dtype, &row, &mut vec![0.0; cols - 1]), None, "{dtype}");
        assert_eq!(dequantize(dtype, &row, &mut vec![0.0; 2 * cols]), None, "{dtype}");
        for other in [Form::F32, Form::Short, Form::Q8x32, Form::Q8x256] {
            assert!(ActivationRow::from_words(other, 256, &words).is_none());
            let is_other = other != form(dtype) && !(other.is_float() && form(dtype).is_float());
            let Some(len) = row_words(other, cols).filter(|_| is_other) else { continue };
            let x = ActivationRow::from_words(other, cols, &words[..len]).unwrap();
            assert_eq!(dot(dtype, &row, x), None, "{dtype}");
        }
        if let ActivationRow::Q8x32(x) | ActivationRow::Q8x256(x) = x {
            for short in [
                QuantizedRow { codes: &x.codes[1..], ..x },
                QuantizedRow { scales: &x.scales[1..], ..x },
                QuantizedRow { sums: &x.sums[1..], ..x },
            ] {
                assert_eq!(dot(dtype, &row, row_of(form(dtype), short)), None, "{dtype}");
            }
        }
    }
}

proptest! {
    #[test]
    fn random_bytes_never_panic(
        index in 0..Dtype::ALL.len(),
        blocks in 0..4_usize,
        extra in 0..2_usize,
        bytes in prop::collection::vec(any::<u8>(), 4 * 210 + 1),
        words in prop::collection::vec(any::<u32>(), 1024),
    ) {
        let dtype = Dtype::ALL[index];
        let cols = blocks * dtype.block_len();
        let row = &bytes[..blocks * dtype.block_bytes() + extra];
        let len = row_words(form(dtype), cols).unwrap();
        let x = ActivationRow::from_words(form(dtype), cols, &words[..len]).unwrap();
        prop_assert_eq!(dot(dtype, row, x).is_some(), extra == 0);
        prop_assert_eq!(dequantize(dtype, row, &mut vec![0.0; cols]).is_some(), extra == 0);
    }

    #[test]
    fn quantizing_random_bits_never_panics(bits in prop::collection::vec(any::<u32>(), 512)) {
        let x: Vec<f32> = bits.iter().map(|bits| f32::from_bits(*bits)).collect();
        for form in [Form::F32, Form::Short, Form::Q8x32, Form::Q8x256] {
            let mut words = vec![0; row_words(form, x.len()).unwrap()];
            let finite = x.iter().all(|x| x.is_finite());
            prop_assert_eq!(quantize_row(form, &x, &mut words).is_ok(), finite || form.is_float());
        }
    }
}
