//! Models whose layers have keys and values of two shapes: the format, and refusals of other shapes.

use gleed::cache::{
    CacheError, KvCache, KvGeometry, KvShape, LayerGroups, SnapshotError, SnapshotHeader, SnapshotOptions, Visibility,
};
use gleed::kernels::Level;
use gleed::mem::Arena;
use gleed::{KvKind, KvType, Model, SeqId};

use crate::{VOCAB, delta, each_limits, refusal, snapshot, snapshot_of, tokens};
use common::Memory;
use common::playback::{Plain, Stage};
use common::synthetic::SyntheticModel;

/// Shapes of five layers in two groups. The number and the size of the heads differ.
const SHAPES: [KvShape; 2] = [KvShape { heads: 2, head_dim: 3 }, KvShape { heads: 1, head_dim: 5 }];
const LAYERS: usize = 5;
const TOKENS: usize = 37;

/// Returns a model with a window that is longer than the sequences.
fn file(model: SyntheticModel) -> Vec<u8> {
    let model = SyntheticModel { hidden: 8, ffn: 8, heads: 2, head_dim: 4, vocab: VOCAB as usize, ..model };
    model.with("attention.sliding_window", 200u32).bytes()
}

fn geometry(shapes: [KvShape; 2], groups: LayerGroups, kind: KvKind) -> KvGeometry {
    KvGeometry {
        kind,
        element: KvType::F32,
        level: Level::detect(),
        layers: LAYERS,
        groups,
        shapes,
        sequences: 2,
        context: 40,
        blocks: 6,
        prefix_cache: false,
        visibility: [Visibility::ALL; 2],
        rows: 16,
    }
}

fn with_cache<R>(geometry: KvGeometry, test: impl FnOnce(&mut KvCache<'_>) -> R) -> R {
    let mut measuring = Arena::measuring();
    KvCache::carve(&mut measuring, geometry).unwrap();
    let mut memory = Memory::new(measuring.used());
    test(&mut KvCache::carve(&mut Arena::new(memory.bytes()).unwrap(), geometry).unwrap())
}

/// Returns element `[layer][key or value][position][element of the row]`. All are different.
fn element(layer: usize, value: usize, position: usize, i: usize) -> f32 {
    (((layer * 2 + value) * 40 + position) * 6 + i) as f32
}

/// Returns a snapshot of a cache with such elements.
fn written(geometry: KvGeometry) -> Vec<u8> {
    with_cache(geometry, |cache| {
        let seq = cache.open().unwrap();
        for layer in 0..LAYERS {
            let width = geometry.kv_width(layer);
            let rows = |value| -> Vec<f32> {
                let row = |position| (0..width).map(move |i| element(layer, value, position, i));
                (0..TOKENS).flat_map(row).collect()
            };
            cache.set_prefill(seq, layer, &rows(0), &rows(1)).unwrap();
        }
        let mut bytes = Vec::new();
        let mut sink = |piece: &[u8]| {
            bytes.extend_from_slice(piece);
            true
        };
        cache.write_snapshot(seq, 7, &SnapshotOptions::default(), &mut sink).unwrap();
        bytes
    })
}

fn read<R>(
    geometry: KvGeometry,
    bytes: &[u8],
    check: impl FnOnce(&KvCache<'_>, SeqId) -> R,
) -> Result<R, SnapshotError> {
    with_cache(geometry, |cache| {
        let mut rest = bytes;
        let mut source = |out: &mut [u8]| {
            let (piece, after) = rest.split_at(out.len().min(rest.len()));
            out[..piece.len()].copy_from_slice(piece);
            rest = after;
            Some(piece.len())
        };
        let (seq, _) = cache.read_snapshot(7, usize::MAX, None, &mut source)?;
        Ok(check(cache, seq))
    })
}

/// Layers 1 and 3 have the second shape.
const GROUPS: LayerGroups = LayerGroups::alternating(2);

#[test]
fn the_format_has_layers_of_two_shapes() {
    let bytes = written(geometry(SHAPES, GROUPS, KvKind::Paged));
    let numbers = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    assert_eq!([44, 48, 52].map(numbers), [5, 2 | 1 << 16, 3 | 5 << 16]);
    let mut at = SnapshotHeader::parse(&bytes).map(|_| numbers(12) as usize).unwrap();
    for first in (0..TOKENS).step_by(16) {
        let tokens = (TOKENS - first).min(16);
        let mut expected = vec![0xff; 4 * tokens];
        for layer in 0..LAYERS {
            let KvShape { heads, head_dim } = SHAPES[layer % 2];
            let of = |value: usize, slot: usize, i: usize| element(layer, value, first + slot, i).to_le_bytes();
            for head in 0..heads {
                let dims = || head * head_dim..(head + 1) * head_dim;
                dims().for_each(|i| expected.extend((0..tokens).flat_map(|slot| of(0, slot, i))));
                (0..tokens).for_each(|slot| expected.extend(dims().flat_map(|i| of(1, slot, i))));
            }
        }
        assert!(bytes[at..].starts_with(&expected), "the block of token {first}");
        at += expected.len() + 8;
    }
    assert_eq!(at + 8, bytes.len());
}

#[test]
fn every_kind_reads_what_the_others_write() {
    for from in [KvKind::Basic, KvKind::Paged] {
        let bytes = written(geometry(SHAPES, GROUPS, from));
        for kind in KvKind::ALL {
            let geometry = geometry(SHAPES, GROUPS, kind);
            let check = |cache: &KvCache<'_>, seq| {
                for layer in 0..LAYERS {
                    let width = geometry.kv_width(layer);
                    let (mut k, mut v) = (vec![0.0; TOKENS * width], vec![0.0; TOKENS * width]);
                    cache.materialize(seq, layer, &mut k, &mut v).unwrap();
                    for (value, rows) in [k, v].iter().enumerate() {
                        for (position, row) in rows.chunks(width).enumerate() {
                            let expected = (0..width).map(|i| element(layer, value, position, i));
                            assert!(row.iter().copied().eq(expected), "{kind} {layer} {position}");
                        }
                    }
                }
            };
            read(geometry, &bytes, check).unwrap();
        }
    }
}

/// Shapes in the other order, one shape for all layers, or other groups are refused with the number that differs.
#[test]
fn other_shapes_are_refused() {
    let [a, b] = SHAPES;
    let of = |heads, head_dim| KvShape { heads, head_dim };
    let bytes = written(geometry(SHAPES, GROUPS, KvKind::Paged));
    let cases = [
        ([b, a], "kv_heads", 1 | 2 << 16, 2 | 1 << 16),
        ([a, a], "kv_heads", 2, 2 | 1 << 16),
        ([b, b], "kv_heads", 1, 2 | 1 << 16),
        ([of(2, 5), of(1, 3)], "head_dim", 5 | 3 << 16, 3 | 5 << 16),
        ([of(2, 3), of(1, 3)], "head_dim", 3, 3 | 5 << 16),
    ];
    for (shapes, what, expected, found) in cases {
        let result = read(geometry(shapes, GROUPS, KvKind::Paged), &bytes, |_, _| ());
        assert_eq!(result, Err(SnapshotError::Geometry { what, expected, found }), "{shapes:?}");
    }
    // A cache with fewer layers of the second shape.
    for groups in [LayerGroups::alternating(3), LayerGroups::alternating(4)] {
        let result = read(geometry(SHAPES, groups, KvKind::Paged), &bytes, |_, _| ());
        assert!(matches!(result, Err(SnapshotError::Length { .. })), "{result:?}");
    }
    let same = read(
        geometry([a, a], LayerGroups::ONE, KvKind::Paged),
        &written(geometry([a, a], GROUPS, KvKind::Basic)),
        |_, _| (),
    );
    assert_eq!(same, Ok(()));
}

/// The number of rows is counted by the width of each layer.
#[test]
fn rows_of_the_other_shape_are_refused() {
    with_cache(geometry(SHAPES, GROUPS, KvKind::Paged), |cache| {
        let seq = cache.open().unwrap();
        let rows = |elements: usize| vec![0.5; elements];
        assert_eq!(cache.set_prefill(seq, 0, &rows(5), &rows(5)), Err(CacheError::Shape { expected: 0, given: 5 }));
        assert_eq!(cache.set_prefill(seq, 0, &rows(18), &rows(18)), Ok(()));
        // The first layer got three rows, so the second shape needs 15 elements for three rows.
        assert_eq!(cache.set_prefill(seq, 1, &rows(18), &rows(18)), Err(CacheError::Shape { expected: 15, given: 18 }));
        assert_eq!(cache.set_prefill(seq, 1, &rows(10), &rows(10)), Err(CacheError::Shape { expected: 15, given: 10 }));
        for (layer, elements) in [(1, 15), (2, 18), (3, 15), (4, 18)] {
            assert_eq!(cache.set_prefill(seq, layer, &rows(elements), &rows(elements)), Ok(()));
        }
        assert_eq!(cache.seq_len(seq), Ok(3));
        let mut small = [rows(15), rows(15)];
        let [k, v] = &mut small;
        assert_eq!(cache.materialize(seq, 0, k, v), Err(CacheError::Shape { expected: 18, given: 15 }));
        assert_eq!(cache.materialize(seq, 1, k, v), Ok(()));
    });
}

/// Covers layers of two shapes, some without keys and values of their own.
#[test]
fn models_continue_from_snapshots() {
    let files = SyntheticModel::all().into_iter().filter(|(name, _)| name.starts_with("gemma4"));
    let files: Vec<Vec<u8>> = files.map(|(_, model)| file(model)).collect();
    for (index, bytes) in files.iter().enumerate() {
        let model = Model::open(bytes).unwrap();
        let other = Model::open(&files[(index + 1) % files.len()]).unwrap();
        for limits in each_limits() {
            let whole = snapshot_of(&model, limits, &tokens(1, TOKENS), &SnapshotOptions::default());
            let base = snapshot_of(&model, limits, &tokens(1, TOKENS), &delta(32));
            let recorded = Stage::new(limits).play(&model, |player| {
                let seq = player.try_restore(&whole, &tokens(1, TOKENS)).unwrap();
                assert!(snapshot(&player.engine, seq, &SnapshotOptions::default()) == whole);
                player.append(seq, &tokens(2, 16));
                let prefix = player.open();
                player.append(prefix, &tokens(1, TOKENS)[..33]);
                let (restored, _) = player.engine.restore_with(Some(prefix), &base).unwrap();
                player.sequences.push((restored, tokens(1, TOKENS)));
                player.append(restored, &tokens(3, 5));
            });
            Plain::new(&model, limits.kv_type).assert_same(&recorded, &limits);
            Stage::new(limits).play(&other, |player| {
                let error = refusal(player.engine.restore(&whole));
                assert!(matches!(error, SnapshotError::Model { .. }), "{error:?}");
            });
        }
    }
}
