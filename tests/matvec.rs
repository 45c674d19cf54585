//! Rows of weights times one row of activations: every level gives the bits of the scalar one.

#[path = "common/scales.rs"]
mod scales;

use gleed::kernels::{FetchOrder, Inputs, Level, OUTPUTS};
use gleed::quant::{Form, form, row_words};
use gleed::tensor::{Dtype, TensorView};

/// Returns the quantized types, and the elements of a block of each.
fn quantized() -> impl Iterator<Item = (Dtype, usize)> {
    let types = Dtype::ALL.into_iter().filter(|&dtype| !form(dtype).is_float());
    types.map(|dtype| (dtype, dtype.block_len()))
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }
}

/// Returns a finite f16: usual ones, and now and then an extreme one.
fn scale(random: &mut Random) -> u16 {
    const EDGES: [u16; 8] = [0, 0x8000, 1, 0x8001, 0x03ff, 0x0400, 0x7bff, 0xfbff];
    let r = random.next();
    match r % 8 {
        0 => EDGES[(r >> 8) as usize % EDGES.len()],
        _ => 0x2000 + (r >> 16) as u16 % 0x1400 + ((r >> 40) as u16 & 1) * 0x8000,
    }
}

/// Returns rows of blocks. `byte` makes all bytes that are not scales.
fn weights(dtype: Dtype, rows: usize, cols: usize, random: &mut Random, byte: impl Fn(u64) -> u8) -> Vec<u8> {
    let len = rows * dtype.row_bytes(cols).unwrap();
    let mut bytes: Vec<u8> = (0..len).map(|_| byte(random.next())).collect();
    for block in bytes.chunks_exact_mut(dtype.block_bytes()) {
        scales::set_scales(dtype, block, || scale(random));
    }
    bytes
}

/// Returns a row of activations with these codes, as `quantize_row` stores it.
fn activations(form: Form, codes: &[i8], random: &mut Random) -> Vec<u32> {
    let mut words: Vec<u32> = codes.as_chunks::<4>().0.iter().map(|c| u32::from_le_bytes(c.map(|c| c as u8))).collect();
    let block = if form == Form::Q8x32 { 32 } else { 256 };
    for _ in 0..codes.len() / block {
        words.push(((random.next() % 1000) as f32 * 0.01).to_bits());
    }
    let sums: Vec<i16> = codes.chunks_exact(16).map(|c| c.iter().map(|&c| i16::from(c)).sum()).collect();
    words.extend(sums.as_chunks::<2>().0.iter().map(|[a, b]| u32::from(*a as u16) | u32::from(*b as u16) << 16));
    if form == Form::Q8x256 {
        let squares = |c: &[i8]| c.iter().map(|&c| i32::from(c).pow(2) as u32).sum::<u32>();
        words.extend(codes.chunks_exact(256).map(|block| block.chunks(16).map(squares).max().unwrap()));
    }
    assert_eq!(words.len(), row_words(form, codes.len()).unwrap());
    words
}

/// Compares all levels on the same data. The bytes end where their allocation ends. Outputs behind the rows may have
/// any value, but nothing is written behind the 32.
fn compare(dtype: Dtype, rows: usize, cols: usize, weights: &[u8], words: &[u32]) {
    let boxed: Box<[u8]> = weights.into();
    let view = TensorView::new(dtype, rows, cols, &boxed).unwrap();
    let words: Box<[u32]> = words.into();
    let inputs = Inputs::new(form(dtype), 1, cols, &words, words.len()).unwrap();
    let run = |level: Level| {
        let mut out = [0.0; OUTPUTS];
        let mut scratch = vec![0.0; level.products_scratch(dtype)];
        level.products(view, &inputs, &mut out, &mut scratch).unwrap();
        out.map(f32::to_bits)
    };
    let want = run(Level::SCALAR);
    for level in Level::available() {
        for order in [FetchOrder::Rows, FetchOrder::Memory] {
            let bits = run(level.with_fetch_order(order));
            assert_eq!(bits[..rows], want[..rows], "{dtype:?} {level} {order:?} {rows}x{cols}");
        }
    }
}

#[test]
fn random_data_and_every_shape() {
    let mut random = Random(1);
    for (dtype, block) in quantized() {
        let shapes = (1..=OUTPUTS).map(|rows| (rows, 3 * block)).chain((1..=9).map(|n| (19, n * block)));
        for (rows, cols) in shapes.chain([(32, 2048), (7, 2048)]) {
            let bytes = weights(dtype, rows, cols, &mut random, |r| r as u8);
            let codes: Vec<i8> = (0..cols).map(|_| (random.next() % 255) as i8).map(|c| c.max(-127)).collect();
            let words = activations(form(dtype), &codes, &mut random);
            compare(dtype, rows, cols, &bytes, &words);
        }
    }
}

#[test]
fn extreme_codes() {
    let mut random = Random(2);
    for (dtype, block) in quantized() {
        for fill in [0x00, 0xff, 0x80, 0x7f, 0x0f, 0xf0, 0x3f, 0xc0] {
            for codes in [[127, 127], [-127, -127], [127, -127]] {
                let bytes = weights(dtype, 17, 5 * block, &mut random, |_| fill);
                let codes: Vec<i8> = (0..5 * block).map(|i| codes[i % 2]).collect();
                let words = activations(form(dtype), &codes, &mut random);
                compare(dtype, 17, 5 * block, &bytes, &words);
            }
        }
        // Extreme codes in any mixture.
        for _ in 0..20 {
            let bytes = weights(dtype, 16, 4 * block, &mut random, |r| [0x00, 0xff, 0x80, 0x7f][r as usize % 4]);
            let codes: Vec<i8> = (0..4 * block).map(|_| [-127, 127][(random.next() % 2) as usize]).collect();
            let words = activations(form(dtype), &codes, &mut random);
            compare(dtype, 16, 4 * block, &bytes, &words);
        }
    }
}

#[test]
fn scales_that_are_not_finite_do_not_panic() {
    for (dtype, block) in quantized() {
        let bytes = vec![0x7f; 5 * dtype.row_bytes(3 * block).unwrap()];
        let view = TensorView::new(dtype, 5, 3 * block, &bytes).unwrap();
        let words = activations(form(dtype), &vec![1; 3 * block], &mut Random(3));
        let inputs = Inputs::new(form(dtype), 1, 3 * block, &words, words.len()).unwrap();
        for level in Level::available() {
            let mut scratch = vec![0.0; level.products_scratch(dtype)];
            level.products(view, &inputs, &mut [0.0; OUTPUTS], &mut scratch).unwrap();
        }
    }
}
