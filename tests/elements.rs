//! Stored keys and values, on every level, against section 7 of `docs/arithmetic.md`: their bits, bounds of the error,
//! and attention over them against 64-bit floating point.

#[path = "common/elements.rs"]
mod elements;
#[path = "common/random.rs"]
mod random;

use elements::{rounded, scale};
use gleed::KvElement;
use gleed::error::Fault;
use gleed::kernels::{
    Elements, ElementsMut, KvSource, KvTile, KvTileMut, Level, Partial, Queries, Scores, TILE_TOKENS, Visibility,
    is_storable,
};
use gleed::mem::Matrix;
use random::Rng;

const HEAD_DIMS: [usize; 11] = [1, 3, 8, 20, 31, 32, 33, 48, 64, 80, 128];

/// The words of a tile, which may have any contents.
struct Tile {
    element: KvElement,
    head_dim: usize,
    words: [Vec<u32>; 2],
}

impl Tile {
    fn new(element: KvElement, head_dim: usize, fill: u32) -> Self {
        let bytes = [element.k_tile(head_dim).unwrap(), element.v_tile(head_dim).unwrap()];
        assert!(bytes.iter().all(|bytes| bytes % 4 == 0));
        Self { element, head_dim, words: bytes.map(|bytes| vec![fill; bytes / 4]) }
    }

    fn store(&mut self, level: Level, slot: usize, k: &[f32], v: &[f32]) -> Result<(), Fault> {
        self.store_all(level, slot, &[[k, v]])
    }

    fn store_all(&mut self, level: Level, slot: usize, tokens: &[[&[f32]; 2]]) -> Result<(), Fault> {
        let [k_words, v_words] = &mut self.words;
        let element = |words| ElementsMut::new(self.element, words).unwrap();
        level.store(KvTileMut { k: element(k_words), v: element(v_words) }, slot, tokens)
    }

    fn tile(&self) -> KvTile<'_> {
        let [k, v] = &self.words;
        let element = |words| Elements::new(self.element, words).unwrap();
        KvTile { k: element(k), v: element(v) }
    }

    /// Returns the key and the value of a token.
    fn read(&self, slot: usize) -> [Vec<f32>; 2] {
        let (tile, element, len) = (self.tile(), self.element, self.head_dim);
        let key = (0..len).map(|dim| element.key(tile.k.bytes(), len, dim, slot).unwrap());
        let value = (0..len).map(|dim| element.value(tile.v.bytes(), len, dim, slot).unwrap());
        [key.collect(), value.collect()]
    }
}

/// Returns heads with numbers of all sizes, with ties and zeros, and with blocks of only one of these.
fn heads(rng: &mut Rng, head_dim: usize) -> Vec<Vec<f32>> {
    let mut heads = vec![vec![0.0; head_dim], vec![-0.0; head_dim]];
    for exponent in [-149, -140, -52, -51, -50, -49, -30, -25, -24, -20, -17, -15, -12, -10, -7, -3, 0, 1, 5, 9] {
        let size = 2.0_f64.powi(exponent) as f32;
        heads.push((0..head_dim).map(|_| rng.normal() * size).collect());
        heads.push((0..head_dim).map(|_| rng.uniform().signum() * size).collect());
        heads.push((0..head_dim).map(|_| (rng.uniform() * 127.0).round() * 0.5 * size).collect());
        heads.push((0..head_dim).map(|i| if i % 32 == 5 { size } else { 0.0 }).collect());
    }
    heads
}

#[test]
fn every_level_stores_what_is_documented() {
    let mut rng = Rng::new(31);
    for element in KvElement::ALL {
        for head_dim in HEAD_DIMS {
            let heads = heads(&mut rng, head_dim);
            for fill in [0, u32::MAX] {
                let mut first: Option<Tile> = None;
                for level in Level::available() {
                    let mut tile = Tile::new(element, head_dim, fill);
                    for (index, (k, v)) in heads.iter().zip(heads.iter().rev()).enumerate() {
                        let slot = index % TILE_TOKENS;
                        assert_eq!(tile.store(level, slot, k, v), Ok(()), "{level} {element:?}");
                        let expected = [rounded(element, k), rounded(element, v)];
                        assert_eq!(tile.read(slot), expected, "{level} {element:?} {head_dim}");
                    }
                    // All bytes must be equal, including those of other tokens.
                    let words = &first.get_or_insert_with(|| Tile { words: tile.words.clone(), ..tile }).words;
                    assert!(*words == tile.words, "{level} {element:?} {head_dim}");
                }
            }
        }
    }
}

/// Tokens that are stored together, anywhere in a tile, give the same bytes as one by one, and other slots stay.
#[test]
fn several_tokens_at_once() {
    let mut rng = Rng::new(34);
    for (element, head_dim) in KvElement::ALL.into_iter().flat_map(|element| HEAD_DIMS.map(|dim| (element, dim))) {
        for (slot, count) in [(0, 16), (0, 1), (3, 5), (9, 7), (15, 1)] {
            let mut head = || -> Vec<f32> { (0..head_dim).map(|_| rng.normal()).collect() };
            let heads: Vec<_> = (0..count).map(|_| [head(), head()]).collect();
            let tokens: Vec<_> = heads.iter().map(|[k, v]| [&k[..], &v[..]]).collect();
            let mut expected = Tile::new(element, head_dim, u32::MAX);
            for (slot, [k, v]) in (slot..).zip(&heads) {
                assert_eq!(expected.store(Level::SCALAR, slot, k, v), Ok(()));
            }
            for level in Level::available() {
                let mut tile = Tile::new(element, head_dim, u32::MAX);
                assert_eq!(tile.store_all(level, slot, &tokens), Ok(()));
                assert!(tile.words == expected.words, "{level} {element:?} {head_dim}: {count} from {slot}");
                assert!(matches!(tile.store_all(level, 17 - count, &tokens), Err(Fault::Internal(_))));
            }
        }
    }
}

#[test]
fn errors_are_bounded() {
    let mut rng = Rng::new(32);
    for head in heads(&mut rng, 128) {
        for block in head.chunks(32) {
            let amax = block.iter().fold(0.0_f32, |amax, x| x.abs().max(amax));
            for (element, codes) in [(KvElement::Q8_0, 127.0), (KvElement::Q4_0, 8.0)] {
                let (scale, back) = (scale(element, block), rounded(element, block));
                // A scale is at most one step of f16 larger than necessary.
                let scale = scale.abs();
                let step = (scale * 2.0_f32.powi(-10)).max(2.0_f32.powi(-24));
                assert!(codes * scale >= amax && scale - amax / codes <= step, "{element:?}: {scale} for {amax}");
                for (x, back) in block.iter().zip(&back) {
                    let bound = if element == KvElement::Q8_0 { 0.500_01 } else { 1.000_01 } * scale;
                    assert!((x - back).abs() <= bound, "{element:?}: {x} became {back}, scale {scale}");
                }
                // Rounding a second time changes nothing, unless the scale is subnormal.
                if scale >= 2.0_f32.powi(-14) {
                    assert_eq!(rounded(element, &back), back);
                }
            }
        }
    }
}

#[test]
fn what_can_not_be_stored_is_noticed() {
    for element in KvElement::ALL {
        // The largest number that is finite itself, or has a finite scale.
        let largest = match element {
            KvElement::F32 => f32::MAX,
            KvElement::F16 => 65_519.996,
            KvElement::Q8_0 => 65_504.0 * 127.0,
            _ => 65_504.0 * 8.0,
        };
        let above = f32::from_bits(largest.to_bits() + 1);
        let bad = Err(Fault::NonFinite);
        for (x, good) in [(largest, Ok(())), (above, bad), (f32::INFINITY, bad), (f32::NAN, bad)] {
            for x in [x, -x] {
                assert_eq!(is_storable(element, x), good.is_ok(), "{element:?} {x}");
                for (level, at) in Level::available().flat_map(|level| [(level, 0), (level, 31), (level, 39)]) {
                    let mut head = vec![1.0; 40];
                    head[at] = x;
                    let mut tile = Tile::new(element, 40, 0);
                    assert_eq!(tile.store(level, 3, &head, &[1.0; 40]), good, "{level} {element:?} {x}");
                    assert_eq!(tile.store(level, 3, &[1.0; 40], &head), good, "{level} {element:?} {x}");
                }
            }
        }
    }
}

#[test]
fn sizes_are_checked() {
    for element in KvElement::ALL {
        for level in Level::available() {
            let mut tile = Tile::new(element, 40, 0);
            assert!(matches!(tile.store(level, 16, &[1.0; 40], &[1.0; 40]), Err(Fault::Internal(_))));
            assert!(matches!(tile.store(level, 0, &[1.0; 39], &[1.0; 40]), Err(Fault::Internal(_))));
            assert!(matches!(tile.store(level, 15, &[1.0; 40], &[1.0; 41]), Err(Fault::Internal(_))));
            assert_eq!(tile.store(level, 0, &[1.0; 40], &[1.0; 40]), Ok(()));
        }
        let tile = Tile::new(element, 40, 0);
        assert_eq!(element.key(tile.tile().k.bytes(), 40, 41, 0), None);
        assert_eq!(element.value(tile.tile().v.bytes(), 40, 0, 24), None);
        assert_eq!(element.key(tile.tile().k.bytes(), 40, usize::MAX, usize::MAX), None);
        assert_eq!(element.k_tile(usize::MAX), None);
        assert_eq!(element.v_tile(usize::MAX), None);
    }
    // The sizes are as documented: 8.5 and 4.5 bits.
    assert_eq!([KvElement::Q8_0, KvElement::Q4_0].map(|element| element.k_tile(64)), [Some(16 * 68), Some(16 * 36)]);
    assert_eq!([KvElement::Q8_0, KvElement::Q4_0].map(|element| element.v_tile(80)), [Some(16 * 86), Some(16 * 46)]);
}

struct Tiles(Vec<Tile>);

impl KvSource for Tiles {
    fn elements(&self) -> [KvElement; 2] {
        self.0.first().map_or([KvElement::F32; 2], |tile| [tile.tile().k.element(), tile.tile().v.element()])
    }

    fn tile(&self, index: usize, _head: usize) -> Option<KvTile<'_>> {
        self.0.get(index).map(Tile::tile)
    }
}

/// Attention equals that in f64 over the stored values, so only rounding makes the difference.
#[test]
fn attention_is_that_of_what_is_read_back() {
    let (mut rng, positions) = (Rng::new(33), 300);
    for element in KvElement::ALL {
        for head_dim in [8, 20, 48, 64, 80, 128] {
            let mut tiles = Tiles(Vec::new());
            let mut rows = Vec::new();
            for position in 0..positions {
                let head = |rng: &mut Rng| -> Vec<f32> { (0..head_dim).map(|_| rng.normal()).collect() };
                let (k, v) = (head(&mut rng), head(&mut rng));
                if position % TILE_TOKENS == 0 {
                    tiles.0.push(Tile::new(element, head_dim, 0));
                }
                let tile = tiles.0.last_mut().unwrap();
                assert_eq!(tile.store(Level::detect(), position % TILE_TOKENS, &k, &v), Ok(()));
                rows.push(tile.read(position % TILE_TOKENS));
            }
            let q: Vec<f32> = (0..head_dim).map(|_| rng.normal()).collect();
            let scale = 1.0 / (head_dim as f32).sqrt();
            let dot = |k: &[f32]| q.iter().zip(k).map(|(&q, &k)| f64::from(q) * f64::from(k)).sum::<f64>();
            let scores: Vec<f64> = rows.iter().map(|[k, _]| (dot(k) * f64::from(scale)).exp()).collect();
            let sum: f64 = scores.iter().sum();
            let mut out = vec![0.0; head_dim];
            let queries = Queries {
                q: &q,
                stride: head_dim,
                row: 0,
                rows: 1,
                group: 1,
                head_dim,
                head: 0,
                position: positions - 1,
                visibility: Visibility::ALL,
                scores: Scores::scaled(scale),
            };
            let mut scratch = vec![0.0; Level::detect().attend_scratch(1, 1, head_dim).unwrap()];
            let partial = Partial { group: 1, head_dim };
            let mut row = vec![0.0; partial.elements().unwrap()];
            let by_row = Matrix::new(&mut row, 1, partial.elements().unwrap()).unwrap().by_row().unwrap();
            Level::detect().attend(&queries, 0..9, &tiles, &mut by_row.next().unwrap(), &mut scratch).unwrap();
            partial.finish(&row, &[], &mut out).unwrap();
            for (dim, out) in out.iter().enumerate() {
                let values = rows.iter().zip(&scores).map(|([_, v], score)| f64::from(v[dim]) * score);
                let expected = values.sum::<f64>() / sum;
                // With f16 keys and values, queries and weights have 13 bits.
                let bound = if element == KvElement::F16 { 6e-5 } else { 1e-6 };
                assert!((f64::from(*out) - expected).abs() < bound, "{element:?} {head_dim}: {out} for {expected}");
            }
        }
    }
}
