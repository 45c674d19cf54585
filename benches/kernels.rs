//! The kernels one by one, at every level that this machine has.
//!
//! ```text
//! cargo bench --bench kernels                        # all
//! cargo bench --bench kernels -- 'products.*Q4_K'    # some
//! cargo bench --bench kernels -- attend --sort name
//! ```
//!
//! The column "fastest" is the one to look at on a busy machine. Rates: for one row of activations, bytes of weights,
//! or bytes of keys and values in attention; for several rows, multiply-adds ("items"); elsewhere, bytes of the row.

#[path = "../examples/common/blocks.rs"]
#[allow(dead_code, unreachable_pub)] // This program uses only a part of the module.
mod blocks;
#[path = "../examples/common/random.rs"]
#[allow(dead_code, unreachable_pub)]
mod random;

use std::fmt;

use blocks::Filler;
use divan::Bencher;
use divan::counter::{BytesCount, ItemsCount};
use gleed::KvType;
use gleed::kernels::{
    Elements, ElementsMut, Inputs, KvElement, KvSource, KvTile, KvTileMut, Level, Norm, NormKind, OUTPUTS, Partial,
    Queries, Scores, TILE_TOKENS, Visibility, attend_rows,
};
use gleed::mem::Matrix;
use gleed::quant::{Form, form, row_words};
use gleed::tensor::{Dtype, TensorView};
use random::Random;

const COLS: usize = 2048;

fn main() {
    divan::main();
}

/// What a benchmark runs, and at which level. The level comes last, so that names sort by what they do.
#[derive(Clone, Copy)]
struct Case<T> {
    what: T,
    level: Level,
}

impl<T: fmt::Display> fmt::Display for Case<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.what, self.level)
    }
}

fn at_all_levels<T: Copy>(whats: impl IntoIterator<Item = T>) -> Vec<Case<T>> {
    let cases = whats.into_iter().flat_map(|what| Level::available().map(move |level| Case { what, level }));
    cases.collect()
}

#[derive(Clone, Copy)]
struct Product {
    dtype: Dtype,
    rows: usize,
}

impl fmt::Display for Product {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} x {}", self.dtype, self.rows)
    }
}

fn all_products() -> Vec<Case<Product>> {
    at_all_levels(Dtype::ALL.into_iter().flat_map(|dtype| [1, 2, 3, 4, 64, 512].map(|rows| Product { dtype, rows })))
}

/// 32 rows of weights of 2048 columns times `rows` rows of activations.
#[divan::bench(args = all_products(), max_time = 0.3)]
fn products(bencher: Bencher<'_, '_>, case: Case<Product>) {
    let Case { what: Product { dtype, rows }, level } = case;
    let mut random = Random::new(1);
    let mut bytes = vec![0; OUTPUTS * dtype.row_bytes(COLS).unwrap()];
    Filler::matrix(dtype, COLS, &mut random).fill(&mut bytes, &mut random);
    let weights = TensorView::new(dtype, OUTPUTS, COLS, &bytes).unwrap();

    let form = form(dtype);
    let stride = row_words(form, COLS).unwrap();
    let mut words = vec![0; rows * stride];
    for words in words.chunks_exact_mut(stride) {
        level.quantize_row(form, &floats(COLS, &mut random), words).unwrap();
    }
    let inputs = Inputs::new(form, rows, COLS, &words, stride).unwrap();
    let mut out = vec![0.0; rows * OUTPUTS];
    let mut scratch = vec![0.0; level.products_scratch(dtype)];
    let bencher = match rows {
        1 => bencher.counter(BytesCount::new(bytes.len())),
        _ => bencher.counter(ItemsCount::new(rows * OUTPUTS * COLS)),
    };
    bencher.bench_local(|| level.products(weights, &inputs, &mut out, &mut scratch).unwrap());
}

#[derive(Clone, Copy)]
struct Attention {
    kv_type: KvType,
    /// Query heads per KV head.
    group: usize,
    head_dim: usize,
    tokens: usize,
    rows: usize,
}

impl fmt::Display for Attention {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kv_type, group, head_dim, tokens, rows } = self;
        write!(f, "{kv_type} {group} heads of {head_dim}, {tokens} tokens x {rows}")
    }
}

/// The shapes of Llama 3.2 1B, SmolLM2 135M and Qwen3 0.6B. One row as in decode, and as many rows as prefill takes at
/// once.
fn all_attentions() -> Vec<Case<Attention>> {
    let shapes = [(4, 64), (3, 64), (2, 128)];
    let cases = KvType::ALL.into_iter().flat_map(|kv_type| {
        shapes.into_iter().flat_map(move |(group, head_dim)| {
            let rows = attend_rows(group);
            [(256, 1), (4096, 1), (512, rows), (4096, rows)].map(|(tokens, rows)| Attention {
                kv_type,
                group,
                head_dim,
                tokens,
                rows,
            })
        })
    });
    at_all_levels(cases)
}

/// The blocks of one KV head, one after the other. Each has its keys, then its values.
struct Sequence {
    kv_type: KvType,
    words: Vec<u32>,
    /// Number of words of a block's keys.
    k: usize,
    /// Number of words of a block's keys and values.
    tile: usize,
}

impl Sequence {
    fn new(kv_type: KvType, head_dim: usize, tokens: usize, random: &mut Random) -> Self {
        let k = kv_type.k.k_tile(head_dim).unwrap() / 4;
        let tile = k + kv_type.v.v_tile(head_dim).unwrap() / 4;
        let mut words = vec![0; tokens.div_ceil(TILE_TOKENS) * tile];
        for token in 0..tokens {
            let (k, v) = words[token / TILE_TOKENS * tile..][..tile].split_at_mut(k);
            let (k, v) = (ElementsMut::new(kv_type.k, k).unwrap(), ElementsMut::new(kv_type.v, v).unwrap());
            let (key, value) = (floats(head_dim, random), floats(head_dim, random));
            Level::detect().store(KvTileMut { k, v }, token % TILE_TOKENS, &[[&key, &value]]).unwrap();
        }
        Self { kv_type, words, k, tile }
    }

    fn bytes(&self) -> usize {
        size_of_val(&self.words[..])
    }
}

impl KvSource for Sequence {
    fn elements(&self) -> [KvElement; 2] {
        [self.kv_type.k, self.kv_type.v]
    }

    fn tile(&self, index: usize, _head: usize) -> Option<KvTile<'_>> {
        let (k, v) = self.words.get(index * self.tile..)?.get(..self.tile)?.split_at_checked(self.k)?;
        Some(KvTile { k: Elements::new(self.kv_type.k, k)?, v: Elements::new(self.kv_type.v, v)? })
    }
}

/// Attention of all query heads of one KV head, in the last rows of the sequence.
#[divan::bench(args = all_attentions(), max_time = 0.3)]
fn attend(bencher: Bencher<'_, '_>, case: Case<Attention>) {
    let Case { what: Attention { kv_type, group, head_dim, tokens, rows }, level } = case;
    let mut random = Random::new(2);
    let sequence = Sequence::new(kv_type, head_dim, tokens, &mut random);
    let width = group * head_dim;
    let q = floats(rows * width, &mut random);
    let scale = 1.0 / (head_dim as f32).sqrt();
    let queries = Queries {
        q: &q,
        stride: width,
        row: 0,
        rows,
        group,
        head_dim,
        head: 0,
        position: tokens - rows,
        visibility: Visibility::ALL,
        scores: Scores::scaled(scale),
    };
    let len = Partial { group, head_dim }.elements().unwrap();
    let mut out = vec![0.0; rows * len];
    let tiles = Matrix::new(&mut out, rows, len).unwrap().tiles(rows, len, 0..1).unwrap();
    let mut tile = tiles.next().unwrap();
    let mut scratch = vec![0.0; level.attend_scratch(rows, group, head_dim).unwrap()];
    let bencher = match rows {
        1 => bencher.counter(BytesCount::new(sequence.bytes())),
        _ => bencher.counter(ItemsCount::new(rows * width * 2 * tokens)),
    };
    bencher.bench_local(|| level.attend(&queries, 0..usize::MAX, &sequence, &mut tile, &mut scratch).unwrap());
}

#[derive(Clone, Copy, Debug)]
struct Rows(Form);

impl fmt::Display for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

/// A row of 2048 activations.
#[divan::bench(args = at_all_levels([Form::F32, Form::Q8x32, Form::Q8x256].map(Rows)), max_time = 0.3)]
fn quantize_row(bencher: Bencher<'_, '_>, case: Case<Rows>) {
    let Case { what: Rows(form), level } = case;
    let x = floats(COLS, &mut Random::new(3));
    let mut words = vec![0; row_words(form, COLS).unwrap()];
    bencher.counter(BytesCount::of_slice(&x)).bench_local(|| level.quantize_row(form, &x, &mut words).unwrap());
}

/// A row of 2048 numbers.
#[divan::bench(args = at_all_levels([COLS]), max_time = 0.3)]
fn rms_norm(bencher: Bencher<'_, '_>, case: Case<usize>) {
    let mut random = Random::new(4);
    let x = floats(case.what, &mut random);
    let weight: Vec<u8> = floats(case.what, &mut random).iter().flat_map(|x| x.to_le_bytes()).collect();
    let how = Norm { kind: NormKind::Rms, epsilon: 1e-5, weight: &weight, bias: &[] };
    let mut out = vec![0.0; x.len()];
    bencher.counter(BytesCount::of_slice(&x)).bench_local(|| case.level.norm(&how, &x, &mut out));
}

/// Returns random numbers from -1 to 1.
fn floats(count: usize, random: &mut Random) -> Vec<f32> {
    (0..count).map(|_| 2.0 * random.unit() - 1.0).collect()
}
