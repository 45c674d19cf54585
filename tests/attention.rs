//! Attention of every level, compared bit for bit with a plain implementation of `docs/arithmetic.md` section 7.

#[path = "common/elements.rs"]
mod elements;
#[path = "common/random.rs"]
mod random;

use std::ops::Range;

use elements::rounded;
use gleed::kernels::{
    CHUNK, Elements, ElementsMut, KvSource, KvTile, KvTileMut, Level, Partial, Queries, Scores, TILE_TOKENS,
    Visibility, Window, attend_chunks, attend_rows,
};
use gleed::mem::Matrix;
use gleed::num::{exp, settle, short, tanh, tree16};
use gleed::{KvElement, KvType};
use random::Rng;

/// Keys and values `[positions][head_dim]` as a reader gets them, and the tiles that hold them.
struct Cache {
    keys: Vec<f32>,
    values: Vec<f32>,
    head_dim: usize,
    kv_type: KvType,
    tiles: Vec<[Vec<u32>; 2]>,
}

/// Types with the same element type for keys and values, and with different ones.
const TYPES: [KvType; 7] = [
    KvType::F32,
    KvType::F16,
    KvType::Q8_0,
    KvType::Q4_0,
    KvType { k: KvElement::Q8_0, v: KvElement::Q4_0 },
    KvType { k: KvElement::Q4_0, v: KvElement::F16 },
    KvType { k: KvElement::F16, v: KvElement::Q8_0 },
];

impl Cache {
    /// Returns a cache of random rows. Behind the last position, its tile is NaN or has a NaN scale, which must not
    /// matter.
    fn new(rng: &mut Rng, positions: usize, head_dim: usize, kv_type: KvType) -> Self {
        let KvType { k, v } = kv_type;
        let words = |bytes: Option<usize>| vec![u32::MAX; bytes.unwrap() / 4];
        let tile = || [words(k.k_tile(head_dim)), words(v.v_tile(head_dim))];
        let mut cache = Self { keys: Vec::new(), values: Vec::new(), head_dim, kv_type, tiles: Vec::new() };
        for position in 0..positions {
            if position % TILE_TOKENS == 0 {
                cache.tiles.push(tile());
            }
            let [k_tile, v_tile] = cache.tiles.last_mut().unwrap();
            let tile = KvTileMut { k: ElementsMut::new(k, k_tile).unwrap(), v: ElementsMut::new(v, v_tile).unwrap() };
            let mut normals = || -> Vec<f32> { (0..head_dim).map(|_| rng.normal()).collect() };
            let (key, value) = (normals(), normals());
            assert_eq!(Level::detect().store(tile, position % TILE_TOKENS, &[[&key, &value]]), Ok(()));
            cache.keys.extend(rounded(k, &key));
            cache.values.extend(rounded(v, &value));
        }
        cache
    }

    /// Returns the output of one query: of head `head` of the group, at `position`, which sees what `sees` says.
    fn attend(
        &self,
        q: &[f32],
        position: usize,
        scores: Scores<'_>,
        head: usize,
        sees: impl Fn(usize) -> bool,
    ) -> Vec<f32> {
        let row = |data: &'_ [f32], j: usize| data[j * self.head_dim..][..self.head_dim].to_vec();
        let Scores { scale, soft_cap, slopes } = scores;
        let capped = |score: f32| if soft_cap > 0.0 { settle(soft_cap * tanh(score / soft_cap)) } else { score };
        let biased = |score: f32, j: usize| match slopes.get(head) {
            Some(slope) => score + slope * (j as f32 - position as f32),
            None => score,
        };
        let factor = |element: KvElement, x: f32| if element == KvElement::F16 { short(x) } else { settle(x) };
        let q: Vec<f32> = q.iter().map(|&q| factor(self.kv_type.k, q)).collect();
        let score = |j| {
            let product = q.iter().zip(row(&self.keys, j)).fold(0.0, |sum, (&q, k)| sum + q * k);
            biased(capped(product * scale), j)
        };
        let mut chunks = Vec::new();
        for first in (0..=position).step_by(CHUNK) {
            let visible = (first..=position.min(first + CHUNK - 1)).filter(|&j| sees(j));
            let scores: Vec<(usize, f32)> = visible.map(|j| (j, score(j))).collect();
            if scores.is_empty() {
                continue;
            }
            let max = scores.iter().fold(f32::NEG_INFINITY, |max, &(_, score)| if score > max { score } else { max });
            let (mut lanes, mut sums) = ([0.0; 16], vec![0.0; self.head_dim]);
            for (j, score) in scores {
                let weight = if score - max < -27.5 { 0.0 } else { exp(score - max) };
                let weight = if self.kv_type.v == KvElement::F16 { short(weight) } else { weight };
                lanes[j % 16] += weight;
                for (sum, v) in sums.iter_mut().zip(row(&self.values, j)) {
                    *sum += weight * v;
                }
            }
            chunks.push((max, tree16(lanes), sums));
        }
        let (mut max, mut sum, mut out) = (f32::NEG_INFINITY, 0.0, vec![0.0; self.head_dim]);
        for (m, l, values) in chunks {
            let larger = if m > max { m } else { max };
            let (before, here) = (exp(max - larger), exp(m - larger));
            (max, sum) = (larger, sum * before + l * here);
            out.iter_mut().zip(values).for_each(|(out, value)| *out = settle(*out * before) + settle(value * here));
        }
        let inverse = 1.0 / sum;
        out.iter().map(|out| out * inverse).collect()
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

/// Checks `rows` rows from `position` on. The queries are the middle columns of a wider matrix.
fn check(rng: &mut Rng, head_dim: usize, group: usize, rows: usize, position: usize, kv_type: KvType) {
    let cache = Cache::new(rng, position + rows, head_dim, kv_type);
    check_window(rng, &cache, group, rows, position, Sees::default());
}

/// A plain window: the first `sinks` and the last `last` positions, and of these only the last `own`. 0 means all.
#[derive(Clone, Copy, Debug, Default)]
struct Sees {
    sinks: usize,
    last: usize,
    own: usize,
}

impl Sees {
    fn sees(self, position: usize, j: usize) -> bool {
        let among = |last| last == 0 || j + last > position;
        (j < self.sinks || among(self.last)) && among(self.own)
    }
}

/// A cache that allows only the tiles that some row sees.
struct Seen<'c> {
    cache: &'c Cache,
    tiles: Vec<bool>,
}

impl KvSource for Seen<'_> {
    fn elements(&self) -> [KvElement; 2] {
        self.cache.elements()
    }

    fn tile(&self, index: usize, head: usize) -> Option<KvTile<'_>> {
        assert!(self.tiles[index], "tile {index} is not visible");
        self.cache.tile(index, head)
    }
}

fn check_window(rng: &mut Rng, cache: &Cache, group: usize, rows: usize, position: usize, window: Sees) {
    let (head_dim, kv_type) = (cache.head_dim, cache.kv_type);
    let seen = |tile: usize| {
        (position..position + rows).any(|p| (tile * 16..=p.min(tile * 16 + 15)).any(|j| window.sees(p, j)))
    };
    let source = Seen { cache, tiles: (0..(position + rows).div_ceil(16)).map(seen).collect() };
    let visibility = Visibility::new(Window { sinks: window.sinks, last: window.last }, window.own);
    let (width, stride, scale) = (group * head_dim, group * head_dim + 3, 1.0 / (head_dim as f32).sqrt());
    let q: Vec<f32> = (0..rows * stride).map(|_| rng.normal() * 3.0).collect();
    let slopes: Vec<f32> = (0..group).map(|_| rng.uniform()).collect();
    let scores = match (position + group) % 4 {
        0 => Scores { scale, soft_cap: 1.5, slopes: &slopes },
        1 => Scores { scale, soft_cap: 0.0, slopes: &slopes },
        2 => Scores { scale, soft_cap: 2.5, slopes: &[] },
        _ => Scores::scaled(scale),
    };
    // Two chunks at once, each chunk by itself, or several calls.
    let steps: &[Range<usize>] = match position % 3 {
        0 => &[0..256, 256..512],
        1 => &[0..1, 1..2, 2..3, 3..usize::MAX],
        _ => &[0..2, 2..9],
    };
    for level in Level::available() {
        let partial = Partial { group, head_dim };
        let len = partial.elements().unwrap();
        let mut partials = vec![f32::NAN; (rows + 1) * len];
        let mut scratch = vec![f32::NAN; level.attend_scratch(rows, group, head_dim).unwrap()];
        let tiles = Matrix::new(&mut partials, rows + 1, len).unwrap().tiles(rows + 1, len, 0..1).unwrap();
        let queries = Queries { q: &q, stride, row: 1, rows, group, head_dim, head: 0, position, visibility, scores };
        let mut tile = tiles.next().unwrap();
        for chunks in steps {
            level.attend(&queries, chunks.clone(), &source, &mut tile, &mut scratch).unwrap();
        }
        let mut out = vec![f32::NAN; rows * width];
        for (out, row) in out.chunks_mut(width).zip(partials.chunks(len).skip(1)) {
            partial.finish(row, &[], out).unwrap();
        }
        for (index, out) in out.chunks(head_dim).enumerate() {
            let (row, head) = (index / group, index % group);
            let (q, p) = (&q[row * stride + head * head_dim..][..head_dim], position + row);
            let expected = cache.attend(q, p, scores, head, |j| window.sees(p, j));
            let equal = out.iter().zip(&expected).all(|(a, b)| a.to_bits() == b.to_bits());
            assert!(
                equal,
                "{level}: head_dim {head_dim} group {group} row {row}/{rows} position {position} {kv_type} {window:?}"
            );
        }
    }
}

#[test]
fn all_group_sizes_and_head_dims() {
    let mut rng = Rng::new(21);
    for head_dim in [1, 8, 10, 16, 20, 41, 48, 64, 80, 128] {
        for group in [1, 2, 3, 4, 5, 6, 7, 8, 9, 17] {
            for kv_type in TYPES {
                check(&mut rng, head_dim, group, 1, 37, kv_type);
                check(&mut rng, head_dim, group, attend_rows(group), 14, kv_type);
            }
        }
    }
}

#[test]
fn all_places_in_a_chunk() {
    let mut rng = Rng::new(22);
    for position in (0..34).chain([254, 255, 256, 257, 271, 272, 511, 512, 600]) {
        for (group, rows) in [(1, 1), (1, 8), (2, 4), (3, 2), (7, 1)] {
            check(&mut rng, 20, group, rows, position, TYPES[position % TYPES.len()]);
        }
    }
}

/// Covers every offset of a window over the borders of blocks and chunks, with and without sinks, and with the model's
/// own window shorter and longer than the host's.
#[test]
fn windows() {
    let mut rng = Rng::new(24);
    for (kv_type, head_dim) in
        [(KvType::F32, 16), (KvType::F16, 10), (KvType::F16, 32), (KvType::Q8_0, 48), (TYPES[5], 20)]
    {
        let cache = Cache::new(&mut rng, 640, head_dim, kv_type);
        // The last shape has more queries than registers hold.
        for (group, rows) in [(1, 1), (1, 8), (3, 2), (2, 13)] {
            let positions = (0..40).chain(248..290).chain(505..530).chain([600, 612]);
            for position in positions.step_by(one_of(if rows > 8 { 5 } else { 1 }, 17)) {
                for window in windows_at(position) {
                    check_window(&mut rng, &cache, group, rows, position, window);
                }
            }
        }
    }
}

/// Returns the step between positions that a test tries. An emulator takes forty times as long, so its step is larger.
fn one_of(native: usize, emulated: usize) -> usize {
    if std::env::var_os("GLEED_EMULATED").is_some() { emulated } else { native }
}

fn windows_at(position: usize) -> impl Iterator<Item = Sees> {
    let lasts = [1, 2, 15, 16, 17, 33, 256, position + 1, position + 9];
    let windows = lasts.into_iter().enumerate().map(move |(index, last)| {
        let sinks = [0, 1, 4, 16, 20, 31, 260][(index + position) % 7];
        let own = [0, 0, last / 2 + 1, last + 7, last + 300][(index + position) % 5];
        Sees { sinks, last, own }
    });
    windows.chain([Sees { own: 16, ..Sees::default() }, Sees { sinks: 5, last: 7, own: 0 }])
}

/// Covers more queries than registers hold: rows that see different parts of a chunk, in all cuts into batches.
#[test]
fn many_rows() {
    let mut rng = Rng::new(24);
    for group in 1..=16 {
        for rows in [2, 3, 5, 9, attend_rows(group), 40] {
            check(&mut rng, 32, group, rows, 250, TYPES[rows % TYPES.len()]);
        }
    }
    for head_dim in [8, 16, 24, 48, 64, 80, 96, 128, 256] {
        for kv_type in TYPES {
            check(&mut rng, head_dim, 3, 11, 249, kv_type);
        }
    }
    // Every position in a tile, before, at and after the start of a chunk.
    for position in (0..18).chain(225..274).step_by(one_of(1, 5)) {
        check(&mut rng, 32, 3, 10, position, TYPES[position % TYPES.len()]);
    }
}

/// Less scratch makes attention slower, but not different.
#[test]
fn scratch_for_a_few_queries_is_enough() {
    let (head_dim, group, rows, position) = (32, 3, 10, 260);
    let mut rng = Rng::new(25);
    let cache = Cache::new(&mut rng, position + rows, head_dim, KvType::F16);
    let q: Vec<f32> = (0..rows * group * head_dim).map(|_| rng.normal()).collect();
    for level in Level::available() {
        let attend = |scratch: usize| {
            let len = Partial { group, head_dim }.elements().unwrap();
            let mut out = vec![0.0; rows * len];
            let tiles = Matrix::new(&mut out, rows, len).unwrap().tiles(rows, len, 0..1).unwrap();
            let queries = Queries {
                q: &q,
                stride: group * head_dim,
                row: 0,
                rows,
                group,
                head_dim,
                head: 0,
                position,
                visibility: Visibility::ALL,
                scores: Scores::scaled(0.2),
            };
            let mut scratch = vec![f32::NAN; scratch];
            level.attend(&queries, 0..9, &cache, &mut tiles.next().unwrap(), &mut scratch).map(|()| out)
        };
        let full = level.attend_scratch(rows, group, head_dim).unwrap();
        let expected = attend(full);
        assert!(expected.is_some());
        let (of_query, converted) = (CHUNK + 2 * head_dim + 2, 2 * 16 * head_dim);
        let for_queries = |count| count * of_query + converted;
        for scratch in [for_queries(1), for_queries(2) + 1, for_queries(7), full / 2 + converted, full - 1, 2 * full] {
            assert_eq!(attend(scratch), expected, "{level}, {scratch} of {full}");
        }
        assert_eq!(attend(for_queries(1) - 1), None);
    }
}

#[test]
fn sizes_are_checked() {
    let cache = Cache::new(&mut Rng::new(23), 20, 16, KvType::F32);
    let q = [1.0; 32];
    let good = Queries {
        q: &q,
        stride: 32,
        row: 0,
        rows: 1,
        group: 2,
        head_dim: 16,
        head: 0,
        position: 19,
        visibility: Visibility::ALL,
        scores: Scores::scaled(1.0),
    };
    for level in Level::available() {
        let len = level.attend_scratch(1, 2, 16).unwrap();
        let attend = |queries: Queries<'_>, scratch: usize, width: usize| {
            let mut out = vec![0.0; width];
            let tiles = Matrix::new(&mut out, 1, width).unwrap().by_row().unwrap();
            level.attend(&queries, 0..9, &cache, &mut tiles.next().unwrap(), &mut vec![0.0; scratch])
        };
        assert!(attend(good, len, 36).is_some());
        assert!(attend(good, 2 * 16 * 16 + CHUNK + 16 + 16 + 2 - 1, 36).is_none());
        assert!(attend(good, len, 35).is_none());
        assert!(attend(Queries { q: &q[1..], ..good }, len, 36).is_none());
        assert!(attend(Queries { row: 1, ..good }, len, 36).is_none());
        assert!(attend(Queries { rows: 2, ..good }, len, 36).is_none());
        assert!(attend(Queries { position: 32, ..good }, len, 36).is_none());
        assert!(attend(Queries { position: usize::MAX, ..good }, len, 36).is_none());
        assert!(attend(Queries { head_dim: 17, group: 1, ..good }, 9999, 36).is_none());
        assert!(attend(Queries { head_dim: usize::MAX, ..good }, len, 36).is_none());
        assert!(attend(Queries { group: usize::MAX, rows: 2, ..good }, len, 36).is_none());
        assert!(attend(Queries { rows: 0, ..good }, len, 36).is_some());
    }
}

#[test]
fn units_are_bounded() {
    for group in [1, 2, 3, 8, 71] {
        for head_dim in [1, 64, 128, 256, 1000] {
            let most = attend_rows(group);
            assert!(most * group <= group.max(32));
            for rows in 1..=most {
                let positions = attend_chunks(rows, group, head_dim) * CHUNK;
                let multiplications = 2 * rows * group * head_dim * positions;
                assert!(positions == CHUNK || positions * head_dim <= 1 << 17 && multiplications <= 1 << 22);
            }
        }
    }
    assert_eq!(attend_chunks(usize::MAX, usize::MAX, usize::MAX), 1);
    assert_eq!((attend_chunks(0, 0, 0), attend_rows(0)), (1, 1));
}

/// Sizes that do not match give `None`.
#[test]
fn partials_have_one_size() {
    let partial = Partial { group: 2, head_dim: 3 };
    let row = [1.0; 16];
    assert_eq!(partial.elements(), Some(16));
    assert!(partial.finish(&row, &[], &mut [0.0; 6]).is_some());
    assert!(partial.finish(&row, &[], &mut [0.0; 5]).is_none());
    assert!(partial.finish(&row[..9], &[], &mut [0.0; 6]).is_none());
    assert_eq!(Partial { group: usize::MAX, head_dim: 2 }.elements(), None);
    assert!(Partial { group: usize::MAX, head_dim: 2 }.finish(&row, &[], &mut []).is_none());
}
