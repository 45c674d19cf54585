//! The cache alone, without a model: rows in and out, errors that change nothing, and reference counts under random
//! calls.

mod contents;
mod import;
mod policy;
mod random_calls;
mod refused;
mod room;

use common::random::Rng;
use common::{Memory, elements};
use gleed::cache::{CacheError, KvCache, KvGeometry, KvShape, LayerGroups, SeqId, Visibility};
use gleed::kernels::Level;
use gleed::mem::Arena;
use gleed::{KvElement, KvKind, KvType};

const LAYERS: usize = 3;
const WIDTH: usize = 6;

fn geometry(kind: KvKind, element: KvType, groups: LayerGroups) -> KvGeometry {
    let (kv_heads, head_dim, sequences, context, blocks, rows) = (2, 3, 4, 70, 20, 16);
    let (level, visibility, prefix_cache) = (Level::detect(), [Visibility::ALL; 2], false);
    KvGeometry {
        kind,
        element,
        level,
        layers: LAYERS,
        groups,
        shapes: [KvShape { heads: kv_heads, head_dim }; 2],
        sequences,
        context,
        blocks,
        visibility,
        rows,
        prefix_cache,
    }
}

fn with_cache<R>(geometry: KvGeometry, test: impl FnOnce(&mut KvCache<'_>) -> R) -> R {
    let mut measuring = Arena::measuring();
    KvCache::carve(&mut measuring, geometry).unwrap();
    let mut memory = Memory::new(measuring.used());
    let mut cache = KvCache::carve(&mut Arena::new(memory.bytes()).unwrap(), geometry).unwrap();
    test(&mut cache)
}

fn each_geometry() -> impl Iterator<Item = KvGeometry> {
    let groups = [LayerGroups::ONE, LayerGroups::alternating(2), LayerGroups::alternating(9)];
    let mixed = [KvType { k: KvElement::Q8_0, v: KvElement::Q4_0 }, KvType { k: KvElement::Q4_0, v: KvElement::F16 }];
    let elements = KvType::ALL.into_iter().chain(mixed);
    let elements = elements.flat_map(move |element| groups.map(|groups| (element, groups)));
    elements.flat_map(|(element, groups)| KvKind::ALL.map(|kind| geometry(kind, element, groups)))
}

/// Returns all geometries except those of kind `off`, which takes no rows from outside.
fn keeping() -> impl Iterator<Item = KvGeometry> {
    each_geometry().filter(|geometry| geometry.kind != KvKind::Off)
}

/// Returns the row of a token. It differs in every layer and every element, and f16 cannot represent it.
fn row(token: u32, layer: usize, value: bool) -> Vec<f32> {
    let seed = u64::from(token) << 8 | (layer as u64) << 1 | u64::from(value);
    let mut rng = Rng::new(seed);
    (0..WIDTH).map(|_| rng.uniform() * 3.0).collect()
}

fn rows(tokens: &[u32], layer: usize, value: bool) -> Vec<f32> {
    tokens.iter().flat_map(|&token| row(token, layer, value)).collect()
}

fn set_prefill(cache: &mut KvCache<'_>, seq: SeqId, tokens: &[u32]) -> Result<(), CacheError> {
    (0..LAYERS)
        .try_for_each(|layer| cache.set_prefill(seq, layer, &rows(tokens, layer, false), &rows(tokens, layer, true)))
}

fn push_row(cache: &mut KvCache<'_>, seq: SeqId, token: u32) -> Result<(), CacheError> {
    (0..LAYERS)
        .try_for_each(|layer| cache.push_row(seq, layer, &rows(&[token], layer, false), &rows(&[token], layer, true)))
}

/// Appends the same tokens to each sequence.
fn append_rows(cache: &mut KvCache<'_>, seqs: &[SeqId], tokens: &[u32]) -> Result<(), CacheError> {
    let places: Vec<(SeqId, usize)> = seqs.iter().map(|&seq| (seq, cache.seq_len(seq).unwrap_or(0))).collect();
    (0..LAYERS).try_for_each(|layer| {
        let [k, v] = [false, true].map(|value| rows(tokens, layer, value).repeat(seqs.len()));
        cache.append_rows(places.iter().copied(), layer, &k, &v)
    })
}

/// Appends tokens as the engine does: reserve, copy, write, commit.
fn append(cache: &mut KvCache<'_>, seq: SeqId, tokens: &[u32]) -> Result<(), CacheError> {
    cache.reserve(seq, tokens.iter().copied())?;
    let copies = cache.copy_units(seq);
    for left in (0..copies).rev() {
        assert!(cache.copy_unit(seq).unwrap());
        assert_eq!(cache.copy_units(seq), left);
    }
    let position = cache.seq_len(seq).unwrap();
    for (position, &token) in (position..).zip(tokens) {
        for layer in 0..LAYERS {
            cache.write_row(seq, layer, position, &row(token, layer, false), &row(token, layer, true)).unwrap();
        }
    }
    cache.commit(seq, tokens.len())
}

fn rounded(element: KvElement, rows: Vec<f32>) -> Vec<f32> {
    rows.chunks(WIDTH / 2).flat_map(|head| elements::rounded(element, head)).collect()
}

/// Panics if a sequence does not hold the rows of these tokens, rounded to the element type.
fn assert_holds(cache: &KvCache<'_>, seq: SeqId, tokens: &[u32]) {
    assert_eq!(cache.seq_len(seq), Ok(tokens.len()));
    let len = tokens.len() * WIDTH;
    for layer in 0..LAYERS {
        let (mut k, mut v) = (vec![f32::NAN; len], vec![f32::NAN; len]);
        cache.materialize(seq, layer, &mut k, &mut v).unwrap();
        let element = cache.geometry().element;
        assert_eq!(k, rounded(element.k, rows(tokens, layer, false)), "K of layer {layer}");
        assert_eq!(v, rounded(element.v, rows(tokens, layer, true)), "V of layer {layer}");
    }
}

type SeenSequence = (Result<usize, CacheError>, Vec<Option<u32>>, Vec<Vec<u32>>, Vec<Vec<f32>>);

/// Reference count, number of tokens, and whether the block is finalized.
type SeenBlock = (u32, usize, bool);

/// Everything that a caller can see of a cache.
#[derive(Debug, PartialEq)]
struct Seen {
    /// Length, tokens, tables, keys and values of each sequence.
    sequences: Vec<SeenSequence>,
    /// Number of free blocks, and metadata of all blocks, for each group.
    blocks: Vec<(usize, Vec<SeenBlock>)>,
}

fn see(cache: &KvCache<'_>, sequences: &[SeqId]) -> Seen {
    let groups = cache.geometry().groups.count();
    let of_sequence = |&seq: &SeqId| {
        let length = cache.seq_len(seq);
        let tokens = (0..cache.geometry().context).map(|position| cache.token(seq, position)).collect();
        let tables =
            (0..groups).map(|group| cache.block_table(seq, group).map_or(Vec::new(), |table| table.blocks().to_vec()));
        let kv = (0..LAYERS).flat_map(|layer| {
            let len = length.unwrap_or(0) * WIDTH;
            let (mut k, mut v) = (vec![0.0; len], vec![0.0; len]);
            let _ = cache.materialize(seq, layer, &mut k, &mut v);
            [k, v]
        });
        (length, tokens, tables.collect(), kv.collect())
    };
    let of_group = |group| {
        let allocator = cache.allocator(group).unwrap();
        let meta = (0..allocator.len() as u32).map(|block| allocator.meta(block).unwrap());
        let meta = meta.map(|meta| (meta.ref_count(), meta.num_tokens(), meta.finalized()));
        (allocator.free_blocks(), meta.collect())
    };
    Seen { sequences: sequences.iter().map(of_sequence).collect(), blocks: (0..groups).map(of_group).collect() }
}
