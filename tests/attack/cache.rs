//! Keys and values: how they are stored, and attention over them.

use gleed::KvElement;
use gleed::kernels::{
    Elements, ElementsMut, KvSource, KvTile, KvTileMut, Level, Partial, Queries, Scores, TILE_TOKENS, Visibility,
    Window, is_storable,
};
use gleed::mem::Matrix;

use crate::{all_same, any, cases, finite, levels, random, row, tell};
use common::random::Rng;

/// Words of the keys and the words of the values of a block, for one KV head.
#[derive(Clone, PartialEq)]
struct Tile {
    elements: [KvElement; 2],
    words: [Vec<u32>; 2],
}

impl Tile {
    fn new(elements: [KvElement; 2], head_dim: usize, fill: u32) -> Self {
        let [k, v] = elements;
        let words = [k.k_tile(head_dim), v.v_tile(head_dim)].map(|bytes| vec![fill; bytes.unwrap() / 4]);
        Self { elements, words }
    }

    fn edit(&mut self) -> KvTileMut<'_> {
        let [k, v] = &mut self.words;
        KvTileMut {
            k: ElementsMut::new(self.elements[0], k).unwrap(),
            v: ElementsMut::new(self.elements[1], v).unwrap(),
        }
    }
}

#[test]
fn stores() {
    let mut rng = random(70);
    for element in KvElement::ALL {
        let mut done = 0;
        while done < cases() {
            let (head_dim, slot) = (1 + rng.below(130), rng.below(TILE_TOKENS));
            let count = 1 + rng.below(TILE_TOKENS - slot);
            let one = if rng.below(8) == 0 { any } else { storable };
            let heads: Vec<_> =
                (0..count).map(|_| [row(&mut rng, head_dim, one), row(&mut rng, head_dim, one)]).collect();
            let tokens: Vec<_> = heads.iter().map(|[k, v]| [&k[..], &v[..]]).collect();
            let fill = rng.u64() as u32;
            let run = |level: Level| {
                let mut tile = Tile::new([element; 2], head_dim, fill);
                (level.store(tile.edit(), slot, &tokens), tile)
            };
            let (expected, tile) = run(Level::SCALAR);
            let is_good = heads.iter().flatten().flatten().all(|&x| is_storable(element, x));
            assert_eq!(expected.is_ok(), is_good, "{element:?}");
            for &level in levels() {
                let (result, other) = run(level);
                assert_eq!(result, expected, "{level} {element:?}");
                assert!(result.is_err() || other == tile, "{level} {element:?} {head_dim}: {count} from {slot}");
            }
            done += (2 * head_dim * count) as u64;
        }
        tell("store", &format!("{element:?}"), done);
    }
}

fn storable(rng: &mut Rng) -> f32 {
    finite(rng).clamp(-65504.0, 65504.0)
}

/// Tiles of a sequence from index `first` on.
struct Tiles {
    tiles: Vec<Tile>,
    first: usize,
}

impl KvSource for Tiles {
    fn elements(&self) -> [KvElement; 2] {
        self.tiles[0].elements
    }

    fn tile(&self, index: usize, _head: usize) -> Option<KvTile<'_>> {
        let Tile { elements: [k, v], words } = self.tiles.get(index.checked_sub(self.first)?)?;
        Some(KvTile { k: Elements::new(*k, &words[0])?, v: Elements::new(*v, &words[1])? })
    }
}

#[test]
fn attention() {
    let mut rng = random(71);
    for [k, v] in KvElement::ALL.into_iter().flat_map(|k| KvElement::ALL.map(|v| [k, v])) {
        let mut done = 0;
        while done < cases() {
            done += attend(&mut rng, [k, v]);
        }
        tell("attention", &format!("keys {k:?} values {v:?}"), done);
    }
}

/// Stores the keys and values of `tokens` tokens in tiles.
fn stored(
    rng: &mut Rng,
    elements: [KvElement; 2],
    head_dim: usize,
    tokens: usize,
    one: fn(&mut Rng) -> f32,
) -> Vec<Tile> {
    let mut tiles = vec![Tile::new(elements, head_dim, u32::MAX); tokens.div_ceil(TILE_TOKENS)];
    for at in 0..tokens {
        let [k, v] = [row(rng, head_dim, one), row(rng, head_dim, one)];
        Level::SCALAR.store(tiles[at / TILE_TOKENS].edit(), at % TILE_TOKENS, &[[&k, &v]]).unwrap();
    }
    tiles
}

/// Returns the results of attention for the rows of the queries.
fn compute(level: Level, queries: &Queries<'_>, tiles: &Tiles) -> Vec<f32> {
    let Queries { rows, group, head_dim, .. } = *queries;
    let partial = Partial { group, head_dim };
    let len = partial.elements().unwrap();
    let (mut partials, mut scratch) =
        (vec![0.0; rows * len], vec![f32::NAN; level.attend_scratch(rows, group, head_dim).unwrap()]);
    let matrix = Matrix::new(&mut partials, rows, len).unwrap().tiles(rows, len, 0..1).unwrap();
    level.attend(queries, 0..usize::MAX, tiles, &mut matrix.next().unwrap(), &mut scratch).unwrap();
    let mut out = vec![0.0; rows * group * head_dim];
    for (out, row) in out.chunks_mut(group * head_dim).zip(partials.chunks(len)) {
        partial.finish(row, &[], out).unwrap();
    }
    out
}

/// Through a window, attention at the last positions of a u32 gives the same as at the first positions.
#[test]
fn attention_at_the_last_positions() {
    // The span is a multiple of all chunks and tiles.
    const SPAN: usize = 1 << 12;
    const FAR: usize = u32::MAX as usize - (SPAN - 1);
    const SEEN: usize = 48;
    let mut rng = random(72);
    for element in KvElement::ALL {
        for _ in 0..40 {
            let (head_dim, group, rows) = (1 + rng.below(40), 1 + rng.below(4), 1 + rng.below(16));
            // The longest sequence has u32::MAX tokens.
            let position = SPAN - 1 - rows - rng.below(20);
            let first = position.saturating_sub(SEEN) / TILE_TOKENS;
            let stride = group * head_dim;
            let q = row(&mut rng, rows * stride, Rng::normal);
            let visibility = Visibility::new(Window { sinks: 0, last: 1 + rng.below(33) }, 0);
            let scores = Scores { scale: 0.2, soft_cap: 0.0, slopes: &[] };
            let near = Queries { q: &q, stride, row: 0, rows, group, head_dim, head: 0, position, visibility, scores };
            let tokens = position + rows - first * TILE_TOKENS;
            let mut tiles = Tiles { tiles: stored(&mut rng, [element; 2], head_dim, tokens, Rng::normal), first };
            let expected = compute(Level::SCALAR, &near, &tiles);
            tiles.first += FAR / TILE_TOKENS;
            let far = Queries { position: FAR + position, ..near };
            for level in Level::available() {
                assert!(all_same(&compute(level, &far, &tiles), &expected), "{level} {element:?}, {rows} rows");
            }
        }
    }
}

fn attend(rng: &mut Rng, elements: [KvElement; 2]) -> u64 {
    let (head_dim, group, rows) = (1 + rng.below(80), 1 + rng.below(8), 1 + rng.below(16));
    let end = if rng.below(16) == 0 { 540 } else { 70 };
    let position = rng.below(end);
    let one: fn(&mut Rng) -> f32 = if rng.below(2) == 0 { Rng::normal } else { storable };
    let tiles = Tiles { tiles: stored(rng, elements, head_dim, position + rows, one), first: 0 };
    let stride = group * head_dim + rng.below(4);
    let q = row(rng, rows * stride, one);
    let slopes = row(rng, group, Rng::uniform);
    let soft_cap = [0.0, 2.5, 50.0][rng.below(3)];
    let slopes = if rng.below(3) == 0 { &slopes[..] } else { &[] };
    let scores = Scores { scale: [0.2, 1.0, 1e-3][rng.below(3)], soft_cap, slopes };
    let last = [0, 0, 1, 16, 33, 300][rng.below(6)];
    let visibility =
        Visibility::new(Window { sinks: if last == 0 { 0 } else { rng.below(20) }, last }, [0, 0, 5, 40][rng.below(4)]);
    let queries = Queries { q: &q, stride, row: 0, rows, group, head_dim, head: 0, position, visibility, scores };
    let expected = compute(Level::SCALAR, &queries, &tiles);
    for &level in levels() {
        assert!(
            all_same(&compute(level, &queries, &tiles), &expected),
            "{level}: head_dim {head_dim} group {group} rows {rows} position {position} {elements:?} {visibility:?} {scores:?}"
        );
    }
    expected.len() as u64
}
