//! The cache alone, without a model: rows in and out, errors that change nothing, and reference counts
//! under random calls.

mod common;

use common::Memory;
use common::elements;
use common::random::Rng;
use gleed::cache::{
    CacheError, IMPORTED_TOKEN, KvCache, KvGeometry, LayerGroups, SeqId, SnapshotError, SnapshotOptions, Visibility,
};
use gleed::kernels::Level;
use gleed::mem::{Arena, MemoryError};
use gleed::{KvElement, KvKind, KvType};
use proptest::prelude::*;

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
        kv_heads,
        head_dim,
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

/// Without `off`, which takes no rows from outside.
fn keeping() -> impl Iterator<Item = KvGeometry> {
    each_geometry().filter(|geometry| geometry.kind != KvKind::Off)
}

/// The row of a token: different in every layer and every element, not representable in f16.
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

/// What the engine does: reserve, copy, write, commit.
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

/// Panics where a sequence does not hold the rows of these tokens, rounded to the element type.
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

/// Reference count, tokens, whether it is finalized.
type SeenBlock = (u32, usize, bool);

/// All that can be seen of a cache.
#[derive(Debug, PartialEq)]
struct Seen {
    /// Length, tokens, tables, keys and values of each sequence.
    sequences: Vec<SeenSequence>,
    /// Free blocks and metadata of each group.
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

#[test]
fn rows_come_back() {
    for geometry in keeping() {
        with_cache(geometry, |cache| {
            let tokens: Vec<u32> = (0..37).collect();
            let seq = cache.open().unwrap();
            set_prefill(cache, seq, &tokens[..33]).unwrap();
            assert_holds(cache, seq, &tokens[..33]);
            tokens[33..].iter().for_each(|&token| push_row(cache, seq, token).unwrap());
            assert_holds(cache, seq, &tokens);
            assert_eq!(cache.token(seq, 0), Some(IMPORTED_TOKEN));
            assert_eq!(cache.token(seq, 37), None);
            // One row at a time from the start is the same, and rows of the engine are.
            let pushed = cache.open().unwrap();
            tokens[..18].iter().for_each(|&token| push_row(cache, pushed, token).unwrap());
            assert_holds(cache, pushed, &tokens[..18]);
            let appended = cache.open().unwrap();
            append(cache, appended, &tokens[..17]).unwrap();
            append(cache, appended, &tokens[17..20]).unwrap();
            assert_holds(cache, appended, &tokens[..20]);
            assert_eq!(cache.token(appended, 19), Some(19));
            cache.clear(seq).unwrap();
            set_prefill(cache, seq, &tokens[5..9]).unwrap();
            assert_holds(cache, seq, &tokens[5..9]);
        });
    }
}

#[test]
fn off_takes_no_rows_from_outside() {
    with_cache(geometry(KvKind::Off, KvType::F32, LayerGroups::ONE), |cache| {
        let seq = cache.open().unwrap();
        assert_eq!(set_prefill(cache, seq, &[1, 2]), Err(CacheError::NotKept));
        assert_eq!(push_row(cache, seq, 1), Err(CacheError::NotKept));
        append(cache, seq, &[1, 2, 3]).unwrap();
        assert_holds(cache, seq, &[1, 2, 3]);
    });
}

#[test]
fn wrong_calls_change_nothing() {
    for geometry in keeping() {
        with_cache(geometry, |cache| {
            let closed = cache.open().unwrap();
            cache.close(closed).unwrap();
            let (a, b) = (cache.open().unwrap(), cache.open().unwrap());
            assert_ne!(a, closed);
            append(cache, a, &(0..37).collect::<Vec<u32>>()).unwrap();
            let fork = cache.fork(a, 20).unwrap();
            let all = [a, b, fork, closed];
            let before = see(cache, &all);
            let one = vec![0.5; WIDTH];
            let (mut k, mut v) = (vec![0.0; 37 * WIDTH], vec![0.0; 37 * WIDTH]);
            let unknown = CacheError::UnknownSequence { sequence: closed.to_bits() };
            let nobody = CacheError::UnknownSequence { sequence: 0xdead_beef };
            let refused = [
                (cache.push_row(b, 0, &one[1..], &one), CacheError::Shape { expected: 6, given: 5 }),
                (cache.push_row(b, 0, &one, &one[..2]), CacheError::Shape { expected: 6, given: 2 }),
                (cache.push_row(b, 0, &[], &[]), CacheError::Shape { expected: 6, given: 0 }),
                (cache.set_prefill(b, 0, &[0.0; 13], &[0.0; 13]), CacheError::Shape { expected: 12, given: 13 }),
                (cache.set_prefill(b, 0, &[0.0; 12], &[0.0; 18]), CacheError::Shape { expected: 12, given: 18 }),
                (cache.set_prefill(a, 0, &one, &one), CacheError::Position { expected: 0, given: 37 }),
                (cache.push_row(b, 1, &one, &one), CacheError::Layer { expected: 0, given: 1 }),
                (cache.push_row(b, usize::MAX, &one, &one), CacheError::Layer { expected: 0, given: usize::MAX }),
                (cache.push_row(b, 0, &[f32::NAN; 6], &one), CacheError::NonFinite),
                (cache.push_row(b, 0, &one, &[f32::INFINITY; 6]), CacheError::NonFinite),
                (cache.materialize(a, 3, &mut k, &mut v), CacheError::Layer { expected: 3, given: 3 }),
                (cache.materialize(a, 0, &mut k[1..], &mut v), CacheError::Shape { expected: 222, given: 221 }),
                (cache.materialize(a, 0, &mut k, &mut v[..5]), CacheError::Shape { expected: 222, given: 5 }),
                (cache.materialize(closed, 0, &mut k, &mut v), unknown),
                (cache.write_row(a, 0, 37, &one, &one), CacheError::Position { expected: 37, given: 37 }),
                (cache.write_row(a, 0, 3, &one, &one), CacheError::Position { expected: 37, given: 3 }),
                (cache.commit(a, 1), CacheError::Position { expected: 37, given: 38 }),
                (cache.rewind(a, 38), CacheError::TooShort { keep: 38, length: 37 }),
                (cache.fork(a, 38).map(drop), CacheError::TooShort { keep: 38, length: 37 }),
                (cache.can_extend(a, 34), CacheError::ContextFull { needed: 71, context: 70 }),
                (cache.can_extend(a, usize::MAX), CacheError::ContextFull { needed: usize::MAX, context: 70 }),
                (append(cache, a, &[1; 34]), CacheError::ContextFull { needed: 71, context: 70 }),
                (set_prefill(cache, b, &[1; 71]), CacheError::ContextFull { needed: 71, context: 70 }),
                (cache.rewind(closed, 0), unknown),
                (cache.close(closed), unknown),
                (cache.clear(closed), unknown),
                (cache.release(closed), unknown),
                (cache.fork(closed, 0).map(drop), unknown),
                (cache.push_row(closed, 0, &one, &one), unknown),
                (cache.reserve(closed, [1].into_iter()), unknown),
                (cache.copy_unit(closed).map(drop), unknown),
                (cache.commit(closed, 0), unknown),
                (cache.seq_len(SeqId::from_bits(0xdead_beef)).map(drop), nobody),
                (cache.block_table(a, 2).map(drop), CacheError::Layer { expected: geometry.groups.count(), given: 2 }),
                (cache.allocator(9).map(drop), CacheError::Layer { expected: geometry.groups.count(), given: 9 }),
            ];
            for (index, (result, error)) in refused.into_iter().enumerate() {
                assert_eq!(result, Err(error), "call {index}");
            }
            cache.reserve(fork, std::iter::empty()).unwrap();
            assert_eq!(cache.copy_units(fork), 0);
            assert_eq!(see(cache, &all), before);
            // The fourth sequence is the last one.
            let last = cache.open().unwrap();
            assert_eq!(cache.open(), Err(CacheError::NoFreeSequence { sequences: 4 }));
            assert_eq!(cache.fork(a, 1), Err(CacheError::NoFreeSequence { sequences: 4 }));
            cache.close(last).unwrap();
            assert_eq!(see(cache, &all), before);
        });
    }
}

#[test]
fn errors_say_their_numbers() {
    let texts = [
        (CacheError::UnknownSequence { sequence: 0x1_0002 }, "sequence 0x10002 is not open"),
        (CacheError::NoFreeSequence { sequences: 4 }, "all 4 sequences are open"),
        (CacheError::Busy { sequence: 7 }, "sequence 0x7 has unfinished work"),
        (
            CacheError::ContextFull { needed: 71, context: 70 },
            "context full: the sequence would have 71 tokens, the limit is 70",
        ),
        (CacheError::OutOfBlocks { needed: 3, free: 1 }, "the KV pool is full: 3 blocks of 16 tokens needed, 1 free"),
        (CacheError::Position { expected: 5, given: 6 }, "position 6 is not the sequence's next one, which is 5"),
        (CacheError::TooShort { keep: 9, length: 8 }, "cannot keep 9 tokens of a sequence of 8"),
        (CacheError::Shape { expected: 12, given: 13 }, "wrong shape: 12 elements expected, 13 given"),
        (CacheError::Layer { expected: 0, given: 1 }, "layer 1 given where 0 was expected"),
    ];
    for (error, text) in texts {
        assert_eq!(error.to_string(), text);
    }
}

/// Rows that come layer by layer: a refused layer can be given again, and the sequence is busy until the
/// last one, or until it is released.
#[test]
fn half_a_row_makes_a_sequence_busy() {
    for geometry in keeping() {
        with_cache(geometry, |cache| {
            let seq = cache.open().unwrap();
            append(cache, seq, &[1, 2, 3]).unwrap();
            let parent = see(cache, &[seq]);
            let fork = cache.fork(seq, 2).unwrap();
            let (k, v) = (row(7, 0, false), row(7, 0, true));
            cache.push_row(fork, 0, &k, &v).unwrap();
            let busy = CacheError::Busy { sequence: fork.to_bits() };
            assert_eq!(cache.fork(fork, 0), Err(busy));
            assert_eq!(cache.rewind(fork, 0), Err(busy));
            assert_eq!(cache.reserve(fork, [1].into_iter()), Err(busy));
            assert_eq!(cache.push_row(fork, 0, &k, &v), Err(CacheError::Layer { expected: 1, given: 0 }));
            assert_eq!(cache.set_prefill(fork, 1, &k, &v), Err(CacheError::Position { expected: 0, given: 2 }));
            assert_eq!(cache.push_row(fork, 1, &[f32::NAN; WIDTH], &v), Err(CacheError::NonFinite));
            assert_eq!(cache.push_row(fork, 1, &k[1..], &v), Err(CacheError::Shape { expected: 6, given: 5 }));
            assert_eq!(cache.materialize(fork, 0, &mut [0.0; 12], &mut [0.0; 12]), Err(busy));
            for layer in 1..LAYERS {
                cache.push_row(fork, layer, &row(7, layer, false), &row(7, layer, true)).unwrap();
            }
            assert_holds(cache, fork, &[1, 2, 7]);
            cache.push_row(fork, 0, &k, &v).unwrap();
            cache.release(fork).unwrap();
            assert_holds(cache, fork, &[1, 2, 7]);
            push_row(cache, fork, 8).unwrap();
            assert_holds(cache, fork, &[1, 2, 7, 8]);
            cache.push_row(fork, 0, &k, &v).unwrap();
            cache.close(fork).unwrap();
            assert_holds(cache, seq, &[1, 2, 3]);
            assert_eq!(see(cache, &[seq]).blocks[0].0, parent.blocks[0].0);
        });
    }
}

#[test]
fn a_value_too_large_for_f16() {
    let big = [65_520.0; WIDTH];
    with_cache(geometry(KvKind::Paged, KvType::F16, LayerGroups::ONE), |cache| {
        let seq = cache.open().unwrap();
        assert_eq!(cache.push_row(seq, 0, &big, &big), Err(CacheError::NonFinite));
        assert_eq!(cache.push_row(seq, 0, &[65_519.0; WIDTH], &[1e-9; WIDTH]), Ok(()));
    });
    with_cache(geometry(KvKind::Paged, KvType::F32, LayerGroups::ONE), |cache| {
        let seq = cache.open().unwrap();
        assert_eq!(cache.push_row(seq, 0, &big, &big), Ok(()));
    });
}

#[test]
fn a_full_pool_is_refused_before_anything_changes() {
    for groups in [LayerGroups::ONE, LayerGroups::alternating(2)] {
        for kind in [KvKind::Off, KvKind::Paged] {
            let small = KvGeometry { blocks: 5, ..geometry(kind, KvType::F32, groups) };
            with_cache(small, |cache| {
                let (a, b) = (cache.open().unwrap(), cache.open().unwrap());
                append(cache, a, &(0..37).collect::<Vec<u32>>()).unwrap();
                append(cache, b, &[1]).unwrap();
                let before = see(cache, &[a, b]);
                let full = |needed, free| Err(CacheError::OutOfBlocks { needed, free });
                assert_eq!(append(cache, b, &[2; 32]), full(2, 1));
                assert_eq!(cache.can_extend(b, 69), full(4, 1));
                if kind == KvKind::Off {
                    assert_eq!(cache.fork(a, 17).map(drop), full(2, 1));
                } else {
                    assert_eq!(push_row(cache, b, 3).and(cache.rewind(b, 1)), Ok(()));
                }
                assert_eq!(see(cache, &[a, b]).blocks[0].0, before.blocks[0].0);
                append(cache, b, &[2; 16]).unwrap();
                assert_eq!(cache.can_extend(a, 12), full(1, 0));
                assert_eq!(cache.can_extend(a, 11), Ok(()));
                if kind == KvKind::Paged {
                    // The fork itself needs no block, to write into the shared one does.
                    let fork = cache.fork(a, 37).unwrap();
                    let before = see(cache, &[a, b, fork]);
                    assert_eq!(append(cache, fork, &[9]), full(1, 0));
                    assert_eq!(append(cache, a, &[9]), full(1, 0));
                    assert_eq!(see(cache, &[a, b, fork]), before);
                    cache.close(a).unwrap();
                    append(cache, fork, &[9]).unwrap();
                }
            });
        }
    }
}

#[test]
fn basic_always_has_room_for_all() {
    // Fewer blocks than all sequences need: the cache reserves them all the same.
    let few = KvGeometry { blocks: 1, ..geometry(KvKind::Basic, KvType::F16, LayerGroups::ONE) };
    with_cache(few, |cache| {
        let all: Vec<SeqId> = (0..4).map(|_| cache.open().unwrap()).collect();
        for &seq in &all {
            append(cache, seq, &[3; 70]).unwrap();
        }
        assert_eq!(cache.block_table(all[2], 0).unwrap().blocks(), [10, 11, 12, 13, 14]);
    });
}

#[test]
fn sizes_that_can_not_be() {
    let paged = geometry(KvKind::Paged, KvType::F32, LayerGroups::ONE);
    let carve = |geometry| KvCache::carve(&mut Arena::measuring(), geometry).map(drop);
    for kind in KvKind::ALL {
        for geometry in [
            KvGeometry { head_dim: usize::MAX / 2, ..paged },
            KvGeometry { sequences: usize::MAX / 2, ..paged },
            KvGeometry { sequences: SeqId::MAX + 1, ..paged },
            KvGeometry { blocks: usize::MAX / 100, ..paged },
            KvGeometry { context: usize::MAX, sequences: 1 << 15, ..paged },
        ] {
            if kind != KvKind::Basic || geometry.blocks == paged.blocks {
                assert_eq!(carve(KvGeometry { kind, ..geometry }), Err(MemoryError::TooLarge), "{geometry:?}");
            }
        }
    }
}

#[derive(Clone, Debug)]
enum Call {
    Open,
    Append(usize, usize),
    Prefill(usize, usize),
    Push(usize),
    Fork(usize, usize),
    Rewind(usize, usize),
    Reserve(usize, usize, usize),
    Release(usize),
    Commit(usize),
    Clear(usize),
    Close(usize),
    Stale(usize),
    Copy(usize, usize, bool),
}

fn call() -> impl Strategy<Value = Call> {
    let which = 0..5_usize;
    prop_oneof![
        2 => Just(Call::Open),
        6 => (which.clone(), 1..40_usize).prop_map(|(s, n)| Call::Append(s, n)),
        1 => (which.clone(), 0..40_usize).prop_map(|(s, n)| Call::Prefill(s, n)),
        3 => which.clone().prop_map(Call::Push),
        5 => (which.clone(), 0..80_usize).prop_map(|(s, n)| Call::Fork(s, n)),
        4 => (which.clone(), 0..80_usize).prop_map(|(s, n)| Call::Rewind(s, n)),
        3 => (which.clone(), 0..40_usize, 0..5_usize).prop_map(|(s, n, c)| Call::Reserve(s, n, c)),
        2 => which.clone().prop_map(Call::Release),
        2 => which.clone().prop_map(Call::Commit),
        1 => which.clone().prop_map(Call::Clear),
        2 => which.clone().prop_map(Call::Close),
        1 => which.clone().prop_map(Call::Stale),
        3 => (which, 0..5_usize, any::<bool>()).prop_map(|(s, blocks, good)| Call::Copy(s, blocks, good)),
    ]
}

/// A sequence as it should be: its tokens, and how many more are reserved.
struct Want {
    seq: SeqId,
    tokens: Vec<u32>,
    reserved: Vec<u32>,
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_calls_lose_no_block(
        calls in prop::collection::vec(call(), 1..60),
        kind in 0..3_usize,
        two_groups: bool,
        blocks in 4..24_usize,
    ) {
        let groups = if two_groups { LayerGroups::alternating(2) } else { LayerGroups::ONE };
        let geometry = KvGeometry { blocks, ..geometry(KvKind::ALL[kind], KvType::F32, groups) };
        with_cache(geometry, |cache| {
            let mut wanted = Vec::new();
            let mut closed = Vec::new();
            for (time, call) in calls.iter().enumerate() {
                play(cache, &mut wanted, &mut closed, call, time as u32 * 1000);
                assert_consistent(cache, &wanted, &closed);
            }
            wanted.drain(..).for_each(|want| cache.close(want.seq).unwrap());
            for group in 0..groups.count() {
                let allocator = cache.allocator(group).unwrap();
                assert_eq!(allocator.free_blocks(), allocator.len());
            }
        });
    }
}

fn play(cache: &mut KvCache<'_>, wanted: &mut Vec<Want>, closed: &mut Vec<SeqId>, call: &Call, first: u32) {
    let new = |len: usize| (first..).take(len).collect::<Vec<u32>>();
    let index = match *call {
        Call::Open => {
            match cache.open() {
                Ok(seq) => wanted.push(Want { seq, tokens: Vec::new(), reserved: Vec::new() }),
                Err(error) => assert_eq!(error, CacheError::NoFreeSequence { sequences: wanted.len() }),
            }
            return;
        }
        Call::Append(s, _)
        | Call::Prefill(s, _)
        | Call::Push(s)
        | Call::Fork(s, _)
        | Call::Rewind(s, _)
        | Call::Reserve(s, ..)
        | Call::Release(s)
        | Call::Commit(s)
        | Call::Clear(s)
        | Call::Close(s)
        | Call::Stale(s)
        | Call::Copy(s, ..) => s,
    };
    let open = wanted.len();
    let Some(want) = wanted.get_mut(index) else { return };
    let (seq, length) = (want.seq, want.tokens.len());
    let busy = !want.reserved.is_empty();
    match *call {
        Call::Append(_, len) => match append(cache, seq, &new(len)) {
            Ok(()) => want.tokens.extend(new(len)),
            Err(error) => assert_refused(cache, error, busy, length, len),
        },
        Call::Prefill(_, len) => match set_prefill(cache, seq, &new(len)) {
            Ok(()) => want.tokens.extend(new(len)),
            Err(CacheError::Position { expected: 0, given }) => assert_eq!(given, length),
            Err(error) => assert_refused(cache, error, busy, length, len),
        },
        Call::Push(_) => match push_row(cache, seq, first) {
            Ok(()) => want.tokens.push(first),
            Err(error) => assert_refused(cache, error, busy, length, 1),
        },
        Call::Fork(_, keep) => match cache.fork(seq, keep) {
            Ok(fork) => {
                let tokens = want.tokens[..keep].to_vec();
                wanted.push(Want { seq: fork, tokens, reserved: Vec::new() });
            }
            Err(CacheError::TooShort { .. }) => assert!(keep > length),
            Err(CacheError::NoFreeSequence { .. }) => assert_eq!(open, 4),
            Err(error) => assert_refused(cache, error, busy, 0, keep),
        },
        Call::Rewind(_, keep) => match cache.rewind(seq, keep) {
            Ok(()) => want.tokens.truncate(keep),
            Err(CacheError::TooShort { .. }) => assert!(keep > length),
            Err(error) => assert_refused(cache, error, busy, 0, 0),
        },
        Call::Reserve(_, len, copies) => match cache.reserve(seq, new(len).into_iter()) {
            Ok(()) => {
                want.reserved = new(len);
                for _ in 0..copies {
                    cache.copy_unit(seq).unwrap();
                }
            }
            Err(error) => assert_refused(cache, error, busy, length, len),
        },
        Call::Commit(_) => {
            while cache.copy_unit(seq).unwrap() {}
            for (position, &token) in (length..).zip(&want.reserved) {
                for layer in 0..LAYERS {
                    cache.write_row(seq, layer, position, &row(token, layer, false), &row(token, layer, true)).unwrap();
                }
            }
            let reserved = std::mem::take(&mut want.reserved);
            cache.commit(seq, reserved.len()).unwrap();
            want.tokens.extend(reserved);
        }
        Call::Release(_) => {
            cache.release(seq).unwrap();
            want.reserved.clear();
        }
        Call::Clear(_) => {
            cache.clear(seq).unwrap();
            want.tokens.clear();
            want.reserved.clear();
        }
        Call::Close(_) => {
            cache.close(seq).unwrap();
            closed.push(wanted.remove(index).seq);
        }
        Call::Stale(s) => {
            let Some(&seq) = closed.get(s) else { return };
            assert_eq!(cache.close(seq), Err(CacheError::UnknownSequence { sequence: seq.to_bits() }));
        }
        Call::Copy(_, blocks, good) => match copy(cache, seq, blocks * 16, good) {
            Ok(copy) => {
                let tokens = want.tokens.clone();
                wanted.push(Want { seq: copy, tokens, reserved: Vec::new() });
            }
            Err(SnapshotError::BasePosition { .. }) => assert!(blocks * 16 > length),
            Err(SnapshotError::Checksum { .. }) => assert!(!good),
            Err(SnapshotError::Cache(CacheError::NoFreeSequence { .. })) => assert_eq!(open, 4),
            Err(SnapshotError::Cache(error)) => assert_refused(cache, error, busy, 0, length),
            Err(other) => panic!("{other:?}"),
        },
        Call::Open => {}
    }
}

/// A sequence written, and read again as another one: without its last byte's right value if it is not to be good.
fn copy(cache: &mut KvCache<'_>, seq: SeqId, base: usize, good: bool) -> Result<SeqId, SnapshotError> {
    let mut bytes = Vec::new();
    let options = SnapshotOptions { base, ..SnapshotOptions::default() };
    cache.write_snapshot(seq, 7, &options, &mut |piece| {
        bytes.extend_from_slice(piece);
        true
    })?;
    *bytes.last_mut().unwrap() ^= u8::from(!good);
    let mut rest = &bytes[..];
    let mut source = |place: &mut [u8]| {
        let (given, after) = rest.split_at(place.len().min(rest.len()));
        place[..given.len()].copy_from_slice(given);
        rest = after;
        Some(given.len())
    };
    Ok(cache.read_snapshot(7, usize::MAX, Some(seq), &mut source)?.0)
}

/// Whether an error is a right one for the state.
fn assert_refused(cache: &KvCache<'_>, error: CacheError, busy: bool, length: usize, len: usize) {
    match error {
        CacheError::Busy { .. } => assert!(busy),
        CacheError::NotKept => assert_eq!(cache.kind(), KvKind::Off),
        CacheError::ContextFull { needed, context } => {
            assert!(needed == length + len && needed > context && context == 70);
        }
        CacheError::OutOfBlocks { needed, free } => {
            assert!(needed > free && cache.kind() != KvKind::Basic);
            assert!(needed <= len.div_ceil(16) + 2);
        }
        other => panic!("{other:?}"),
    }
}

/// Contents, and that every block is referenced exactly as often as it is in a table (or copied for a reservation).
fn assert_consistent(cache: &KvCache<'_>, wanted: &[Want], closed: &[SeqId]) {
    for want in wanted {
        assert_eq!(cache.seq_len(want.seq), Ok(want.tokens.len()));
        if want.reserved.is_empty() {
            assert_holds(cache, want.seq, &want.tokens);
        } else {
            // Its last block may be a copy that is not complete.
            let busy = CacheError::Busy { sequence: want.seq.to_bits() };
            assert_eq!(cache.materialize(want.seq, 0, &mut [], &mut []), Err(busy));
        }
        for (position, &token) in (want.tokens.len()..).zip(&want.reserved) {
            assert_eq!(cache.token(want.seq, position), Some(token));
        }
    }
    closed.iter().for_each(|&seq| assert!(cache.seq_len(seq).is_err()));
    for group in 0..cache.geometry().groups.count() {
        let allocator = cache.allocator(group).unwrap();
        let mut references = vec![0; allocator.len()];
        let mut copying = 0;
        for want in wanted {
            let blocks = cache.block_table(want.seq, group).unwrap().blocks();
            assert_eq!(blocks.len(), (want.tokens.len() + want.reserved.len()).div_ceil(16));
            blocks.iter().for_each(|&block| references[block as usize] += 1);
            // The original of a copy is kept until the sequence has tokens of its own in the copy.
            copying += usize::from(!want.reserved.is_empty());
        }
        let counted: Vec<u32> = (0..allocator.len() as u32).map(|b| allocator.meta(b).unwrap().ref_count()).collect();
        let extra: u32 = counted.iter().zip(&references).map(|(&counted, &seen)| counted - seen).sum();
        assert!(extra as usize <= copying, "group {group}");
        let used = counted.iter().filter(|&&count| count > 0).count();
        assert_eq!(allocator.free_blocks() + used, allocator.len());
    }
}
