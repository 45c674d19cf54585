//! The kernels of every level, on ordinary and on hard numbers.

use std::iter::repeat_with;

use gleed::kernels::{
    Activation, CHUNK, Combine, Convolution, Elements, ElementsMut, Inputs, KvElement, KvSource, KvTile, KvTileMut,
    Level, Norm, NormKind, OUTPUTS, Partial, Queries, Scores, TILE_TOKENS, Update, Visibility,
};
use gleed::mem::Matrix;
use gleed::num::{settle, short, tanh};
use gleed::quant::{Form, dequantize, form, quantize_row, row_words};
use gleed::tensor::{Dtype, TensorView};
use gleed::{KvType, num};

use crate::compare::{check, hash, hash_of_forms};
use crate::numbers::{bytes, hard, power, row};
use crate::random::Rng;
use crate::scales::set_scales;

fn levels() -> Vec<Level> {
    Level::allow_amx();
    Level::available().collect()
}

fn settled(numbers: Vec<f32>) -> Vec<f32> {
    numbers.into_iter().map(settle).collect()
}

/// Returns `len` numbers that are like dots: 0 or a multiple of 2^-123.
fn dots(rng: &mut Rng, len: usize) -> Vec<f32> {
    row(rng, len).into_iter().map(|x| if x.abs() < power(-100) { 0.0 } else { x }).collect()
}

#[test]
fn activations() {
    let mut rng = Rng::new(10);
    for _ in 0..400 {
        let x = row(&mut rng, 512);
        for form in [Form::F32, Form::Short, Form::Q8x32, Form::Q8x256] {
            for level in levels() {
                check(
                    || format!("{level} {form:?} of {x:?}"),
                    || {
                        let mut words = vec![0; row_words(form, x.len()).unwrap()];
                        level.quantize_row(form, &x, &mut words).unwrap();
                        words
                    },
                );
            }
        }
    }
}

/// Returns rows of weights with any scales, down to the smallest.
fn weights(rng: &mut Rng, dtype: Dtype, rows: usize, cols: usize) -> Vec<u8> {
    let hard_bf16 = |rng: &mut Rng| half::bf16::from_f32(hard(rng)).to_le_bytes();
    match dtype {
        Dtype::F32 => bytes(&(0..rows * cols).map(|_| hard(rng)).collect::<Vec<_>>()),
        Dtype::BF16 => (0..rows * cols).flat_map(|_| hard_bf16(rng)).collect(),
        Dtype::F16 => (0..rows * cols).flat_map(|_| (rng.u64() as u16 & 0xbbff).to_le_bytes()).collect(),
        _ => {
            let mut bytes: Vec<u8> =
                repeat_with(|| rng.u64() as u8).take(rows * dtype.row_bytes(cols).unwrap()).collect();
            for block in bytes.chunks_exact_mut(dtype.block_bytes()) {
                // Subnormal f16, the smallest normal ones, and ordinary ones.
                let most = [0x0003, 0x0400, 0x0800, 0x3000][rng.below(4)];
                set_scales(dtype, block, || (rng.below(most + 1) | rng.below(2) << 15) as u16);
                if dtype == Dtype::MXFP4 {
                    block[0] = rng.below(130) as u8;
                }
            }
            bytes
        }
    }
}

#[test]
fn products() {
    const COLS: usize = 512;
    let mut rng = Rng::new(11);
    for dtype in Dtype::ALL {
        for rows in [1, 2, 5, 33] {
            let bytes = weights(&mut rng, dtype, OUTPUTS, COLS);
            let weights = TensorView::new(dtype, OUTPUTS, COLS, &bytes).unwrap();
            let form = form(dtype);
            let stride = row_words(form, COLS).unwrap();
            let mut words = vec![0; rows * stride];
            for words in words.chunks_exact_mut(stride) {
                quantize_row(form, &row(&mut rng, COLS), words).unwrap();
            }
            let inputs = Inputs::new(form, rows, COLS, &words, stride).unwrap();
            let products = |level: Level| {
                check(
                    || format!("{level} {dtype}, {rows} rows"),
                    || {
                        let mut scratch = vec![0.0; level.products_scratch(dtype)];
                        let mut out = vec![0.0; rows * OUTPUTS];
                        level.products(weights, &inputs, &mut out, &mut scratch).unwrap();
                        assert!(out.iter().all(|x| *x == 0.0 || x.abs() >= f32::MIN_POSITIVE), "{level} {dtype}");
                        out.into_iter().map(f32::to_bits).collect::<Vec<_>>()
                    },
                )
            };
            let want = products(Level::SCALAR);
            for level in levels() {
                assert!(products(level) == want, "{level} {dtype}, {rows} rows");
            }
            check(
                || format!("rows of {dtype}"),
                || {
                    let mut out = vec![0.0; COLS];
                    dequantize(dtype, weights.row(0).unwrap(), &mut out).unwrap();
                    hash(&out)
                },
            );
        }
    }
}

#[test]
fn norms() {
    let mut rng = Rng::new(12);
    for round in 0..600 {
        let x = row(&mut rng, 40 + round % 60);
        let (weight, bias) = (bytes(&row(&mut rng, x.len())), bytes(&row(&mut rng, x.len())));
        let epsilon = [1e-5, 1e-6, 1e-12, power(-64)][round % 4];
        for level in levels() {
            for kind in [NormKind::Rms, NormKind::Layer] {
                for (weight, bias) in [(&weight[..], &[][..]), (&weight, &bias), (&[], &[])] {
                    let how = Norm { kind, epsilon, weight, bias };
                    let norm = || {
                        let (mut out, mut in_place) = (vec![0.0; x.len()], x.clone());
                        level.norm(&how, &x, &mut out);
                        level.norm_in_place(&how, &mut in_place);
                        assert_eq!(hash(&out), hash(&in_place));
                        hash(&out)
                    };
                    check(|| format!("{level} {how:?} of {x:?}"), norm);
                }
            }
        }
    }
}

#[test]
fn combinations() {
    let mut rng = Rng::new(13);
    for _ in 0..400 {
        let (y, outputs, factor) = (dots(&mut rng, 64), dots(&mut rng, 64), settle(hard(&mut rng)));
        for level in levels() {
            let combined = |how| {
                let mut y = y.clone();
                level.combine(how, &mut y, &outputs);
                y
            };
            for how in [Combine::Set, Combine::Add, Combine::AddScaled(factor)] {
                check(|| format!("{level} {how:?} {y:?} {outputs:?}"), || hash(&combined(how)));
            }
            // Matrices read these results.
            for activation in Activation::ALL {
                for how in [Combine::Activate(activation), Combine::Gate(activation)] {
                    check(|| format!("{level} {how:?} {y:?} {outputs:?}"), || hash_of_forms(&combined(how)));
                }
            }
            for cap in [30.0, 50.0, power(-64), power(64)] {
                let capped = || {
                    let mut y = y.clone();
                    level.soft_cap(cap, &mut y);
                    hash(&y)
                };
                check(|| format!("{level} capped by {cap} {y:?}"), capped);
            }
        }
    }
}

#[test]
fn recurrent_layers() {
    const CHANNELS: usize = 83;
    let mut rng = Rng::new(14);
    for round in 0..300 {
        let kernel = 1 + round % 4;
        let (weights, bias) = (settled(row(&mut rng, kernel * CHANNELS)), settled(row(&mut rng, CHANNELS)));
        let rows: Vec<_> = (0..6).map(|_| row(&mut rng, CHANNELS)).collect();
        let (keys, queries) = (row(&mut rng, 8), row(&mut rng, 8));
        let (value, gate) = (row(&mut rng, CHANNELS), dots(&mut rng, CHANNELS));
        let (decay, strength) = (settle(hard(&mut rng)).abs().min(1.0), settle(hard(&mut rng)).abs().min(1.0));
        let state = settled(row(&mut rng, 8 * CHANNELS));
        for level in levels() {
            for activates in [false, true] {
                let how = Convolution { weights: &weights, bias: &bias, activates };
                let convolve = || {
                    let mut tail = vec![0.0; (kernel - 1) * CHANNELS];
                    let mut all = Vec::new();
                    for row in &rows {
                        let mut x = row.clone();
                        level.convolve(&how, &mut tail, &mut x).unwrap();
                        all.extend(x);
                    }
                    [hash(&all), hash(&tail)]
                };
                check(|| format!("{level} convolution"), convolve);
            }
            for corrects in [false, true] {
                let update = || {
                    let (mut state, mut out) = (state.clone(), vec![0.0; CHANNELS]);
                    let [mut key, mut query, mut v] = [vec![0.0; 8], vec![0.0; 8], vec![0.0; CHANNELS]];
                    level.normalize(&keys, 1.0, &mut key);
                    level.normalize(&queries, 0.35, &mut query);
                    level.settle(&value, &mut v);
                    let update = Update { decay, key: &key, query: &query, value: &v, strength, corrects };
                    level.update_state(&update, &mut state, &mut out).unwrap();
                    let bits = [hash(&state), hash(&out)];
                    level.gate(&gate, &mut out);
                    (bits, out.iter().all(|x| x.is_finite()).then(|| hash_of_forms(&out)))
                };
                check(|| format!("{level} update, corrects {corrects}: {keys:?} {queries:?} {value:?}"), update);
            }
        }
    }
}

/// Keys and values of some positions, stored by one level.
struct Cache {
    kv_type: KvType,
    tiles: Vec<[Vec<u32>; 2]>,
}

impl Cache {
    fn new(level: Level, kv_type: KvType, tokens: &[[Vec<f32>; 2]]) -> Self {
        let KvType { k, v } = kv_type;
        let head_dim = tokens[0][0].len();
        let words = |bytes: Option<usize>| vec![0; bytes.unwrap() / 4];
        let mut cache = Self { kv_type, tiles: Vec::new() };
        for tokens in tokens.chunks(TILE_TOKENS) {
            let [mut k_tile, mut v_tile] = [words(k.k_tile(head_dim)), words(v.v_tile(head_dim))];
            for (slot, [key, value]) in tokens.iter().enumerate() {
                let [k, v] = [ElementsMut::new(k, &mut k_tile).unwrap(), ElementsMut::new(v, &mut v_tile).unwrap()];
                level.store(KvTileMut { k, v }, slot, &[[key, value]]).unwrap();
            }
            cache.tiles.push([k_tile, v_tile]);
        }
        cache
    }
}

impl KvSource for Cache {
    fn elements(&self) -> [KvElement; 2] {
        [self.kv_type.k, self.kv_type.v]
    }

    fn tile(&self, index: usize, _head: usize) -> Option<KvTile<'_>> {
        let [k, v] = self.tiles.get(index)?;
        Some(KvTile { k: Elements::new(self.kv_type.k, k)?, v: Elements::new(self.kv_type.v, v)? })
    }
}

const MIXED: [KvType; 2] =
    [KvType { k: KvElement::F32, v: KvElement::F16 }, KvType { k: KvElement::Q8_0, v: KvElement::F32 }];

#[test]
fn attention() {
    const HEAD_DIM: usize = 24;
    let mut rng = Rng::new(15);
    for (round, positions) in [1, 20, 40, CHUNK, CHUNK + 5, 2 * CHUNK + 40].into_iter().cycle().take(18).enumerate() {
        // Values that f16 can hold.
        let numbers = |rng: &mut Rng| -> Vec<f32> { row(rng, HEAD_DIM).iter().map(|x| x.clamp(-9e3, 9e3)).collect() };
        let tokens: Vec<_> = (0..positions).map(|_| [numbers(&mut rng), numbers(&mut rng)]).collect();
        let group = 1 + round % 3;
        let q = row(&mut rng, group * HEAD_DIM);
        let (slopes, sinks) = (row(&mut rng, group), row(&mut rng, group));
        let sinks: Vec<[u8; 4]> = sinks.iter().map(|sink| sink.to_le_bytes()).collect();
        let scores = [
            Scores::scaled(0.2),
            Scores { scale: 1.0, soft_cap: 50.0, slopes: &[] },
            Scores { scale: power(-64), soft_cap: 0.0, slopes: &slopes },
        ][round % 3];
        for kv_type in KvType::ALL.into_iter().chain(MIXED) {
            let results: Vec<_> = levels()
                .into_iter()
                .map(|level| {
                    let attend = || {
                        let cache = Cache::new(level, kv_type, &tokens);
                        let partial = Partial { group, head_dim: HEAD_DIM };
                        let width = partial.elements().unwrap();
                        let mut row = vec![0.0; width];
                        let mut scratch = vec![0.0; level.attend_scratch(1, group, HEAD_DIM).unwrap()];
                        let tiles = Matrix::new(&mut row, 1, width).unwrap().by_row().unwrap();
                        let (rows, head, position) = (1, 0, positions - 1);
                        let (head_dim, stride, visibility) = (HEAD_DIM, q.len(), Visibility::ALL);
                        let queries = Queries {
                            q: &q,
                            stride,
                            row: 0,
                            rows,
                            group,
                            head_dim,
                            head,
                            position,
                            visibility,
                            scores,
                        };
                        level
                            .attend(&queries, 0..usize::MAX, &cache, &mut tiles.next().unwrap(), &mut scratch)
                            .unwrap();
                        let mut hashes = vec![hash(&row[..group * HEAD_DIM])];
                        for sinks in [&[][..], &sinks] {
                            let mut out = vec![0.0; group * HEAD_DIM];
                            partial.finish(&row, sinks, &mut out).unwrap();
                            hashes.push(hash_of_forms(&out));
                        }
                        (hashes, cache.tiles)
                    };
                    check(|| format!("{level} {kv_type} {positions} positions"), attend)
                })
                .collect();
            assert!(results.iter().all(|result| *result == results[0]), "{kv_type} {positions} positions");
        }
    }
}

/// The scores of a chunk are 0 or nearly 0, and their sums come from a soft cap, a scale and a slope.
#[test]
fn tiny_scores_weigh_the_same() {
    let mut rng = Rng::new(16);
    for _ in 0..100_000 {
        let (a, b) = (hard(&mut rng), hard(&mut rng));
        let (a, b) = (a.clamp(-power(-100), power(-100)), b.clamp(-power(-100), power(-100)));
        check(|| format!("{a:e} {b:e}"), || [num::exp(a - b).to_bits(), settle(tanh(a)).to_bits(), short(a).to_bits()]);
    }
}
