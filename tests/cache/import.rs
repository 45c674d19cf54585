//! One call takes rows of several positions and of several sequences.

use gleed::cache::{CacheError, KvGeometry, LayerGroups, SeqId, Visibility, Window};
use gleed::{KvKind, KvType};

use crate::{
    LAYERS, WIDTH, append, append_rows, assert_holds, geometry, keeping, push_row, rows, set_prefill, with_cache,
};

/// Returns the keys and values of a layer, packed `[sequences, rows, kv_heads * head_dim]`.
fn packed(texts: &[Vec<u32>], layer: usize) -> [Vec<f32>; 2] {
    [false, true].map(|value| texts.iter().flat_map(|tokens| rows(tokens, layer, value)).collect())
}

#[test]
fn sequences_take_a_packed_batch() {
    for geometry in keeping() {
        with_cache(geometry, |cache| {
            let seqs = [(); 3].map(|()| cache.open().unwrap());
            let begin: Vec<Vec<u32>> = (0..3).map(|s| (s * 100..s * 100 + 19).collect()).collect();
            let more: Vec<Vec<u32>> = (0..3).map(|s| (s * 100 + 19..s * 100 + 37).collect()).collect();
            for layer in 0..LAYERS {
                let [k, v] = packed(&begin, layer);
                cache.set_prefill_batch(seqs, layer, &k, &v).unwrap();
            }
            for layer in 0..LAYERS {
                let [k, v] = packed(&more, layer);
                // Positions do not move until the last layer has its rows.
                cache.append_rows(seqs.map(|seq| (seq, 19)), layer, &k, &v).unwrap();
            }
            for (&seq, text) in seqs.iter().zip(0..) {
                assert_holds(cache, seq, &(text * 100..text * 100 + 37).collect::<Vec<u32>>());
            }
            // Rows that come one by one give the same contents.
            let seq = cache.open().unwrap();
            (100..137).for_each(|token| push_row(cache, seq, token).unwrap());
            assert_holds(cache, seq, &(100..137).collect::<Vec<u32>>());
            assert_eq!(cache.check(), Ok(()));
        });
    }
}

#[test]
fn no_sequence_takes_nothing() {
    with_cache(geometry(KvKind::Paged, KvType::F16, LayerGroups::ONE), |cache| {
        assert_eq!(cache.set_prefill_batch([], 0, &[], &[]), Ok(()));
        assert_eq!(cache.append_rows([], LAYERS, &[], &[]), Err(CacheError::Layer { expected: 3, given: 3 }));
        assert_eq!(cache.append_rows([], 1, &[1.0], &[]), Err(CacheError::Shape { expected: 0, given: 1 }));
    });
}

/// Appending to forks of different lengths, each with a shared partial block, copies the block for each.
#[test]
fn forks_take_rows_at_their_own_positions() {
    let geometry = KvGeometry { blocks: 4, ..geometry(KvKind::Paged, KvType::F32, LayerGroups::ONE) };
    with_cache(geometry, |cache| {
        let parent = cache.open().unwrap();
        append(cache, parent, &[1, 2, 3, 4, 5]).unwrap();
        let forks = [cache.fork(parent, 5).unwrap(), cache.fork(parent, 3).unwrap()];
        append_rows(cache, &forks, &[8, 9]).unwrap();
        assert_holds(cache, forks[0], &[1, 2, 3, 4, 5, 8, 9]);
        assert_holds(cache, forks[1], &[1, 2, 3, 8, 9]);
        assert_holds(cache, parent, &[1, 2, 3, 4, 5]);
        // One block is free, and both forks need one: neither gets it.
        let full = CacheError::OutOfBlocks { needed: 2, free: 1 };
        assert_eq!(append_rows(cache, &forks, &[7; 12]), Err(full));
        assert_holds(cache, forks[0], &[1, 2, 3, 4, 5, 8, 9]);
        assert_eq!(cache.check(), Ok(()));
        append_rows(cache, &forks[..1], &[7; 12]).unwrap();
    });
}

/// A sequence that a call names twice is refused at any layer, before anything is written.
#[test]
fn a_sequence_is_given_once() {
    with_cache(geometry(KvKind::Paged, KvType::F32, LayerGroups::ONE), |cache| {
        let [a, b] = [(); 2].map(|()| cache.open().unwrap());
        let texts = [vec![1, 2], vec![3, 4]];
        for layer in 0..LAYERS {
            let [k, v] = packed(&texts, layer);
            let repeated = CacheError::Repeated { sequence: a.to_bits() };
            assert_eq!(cache.append_rows([(a, 0), (a, 0)], layer, &k, &v), Err(repeated), "layer {layer}");
            cache.append_rows([(a, 0), (b, 0)], layer, &k, &v).unwrap();
        }
        assert_holds(cache, a, &texts[0]);
        assert_holds(cache, b, &texts[1]);
    });
}

/// A replacement may use the blocks of the old rows, except blocks that others hold.
#[test]
fn what_is_replaced_counts_as_free() {
    for kind in [KvKind::Paged, KvKind::Basic] {
        let geometry = KvGeometry { blocks: 8, ..geometry(kind, KvType::F16, LayerGroups::ONE) };
        with_cache(geometry, |cache| {
            let [a, b] = [(); 2].map(|()| cache.open().unwrap());
            set_prefill(cache, a, &[1; 64]).unwrap();
            append(cache, b, &[2; 50]).unwrap();
            let text: Vec<u32> = (0..64).collect();
            for layer in 0..LAYERS {
                let [k, v] = packed(&[text.clone(), text.clone()], layer);
                cache.set_prefill_batch([a, b], layer, &k, &v).unwrap();
            }
            assert_holds(cache, a, &text);
            assert_holds(cache, b, &text);
            let fork = cache.fork(a, 33);
            if kind == KvKind::Paged {
                // The fork still holds three of the blocks of a.
                let full = CacheError::OutOfBlocks { needed: 4, free: 1 };
                assert_eq!(set_prefill(cache, a, &text), Err(full));
                assert_holds(cache, a, &text);
                assert_holds(cache, fork.unwrap(), &text[..33]);
                set_prefill(cache, a, &text[5..15]).unwrap();
                assert_holds(cache, a, &text[5..15]);
            }
            assert_eq!(cache.check(), Ok(()));
        });
    }
}

/// Between the first and the last layer of a replacement, a sequence is busy. After a release it is empty.
#[test]
fn a_replacement_that_is_given_up_leaves_an_empty_sequence() {
    with_cache(geometry(KvKind::Paged, KvType::F16, LayerGroups::ONE), |cache| {
        let seq = cache.open().unwrap();
        append(cache, seq, &[1; 20]).unwrap();
        let one = [0.5; WIDTH];
        cache.set_prefill(seq, 0, &one, &one).unwrap();
        assert_eq!(cache.append_rows([(seq, 20)], 1, &one, &one), Err(CacheError::Position { expected: 0, given: 20 }));
        assert_eq!(cache.set_prefill(seq, 0, &one, &one), Err(CacheError::Layer { expected: 1, given: 0 }));
        assert_eq!(cache.fork(seq, 0), Err(CacheError::Busy { sequence: seq.to_bits() }));
        cache.release(seq).unwrap();
        assert_eq!(cache.seq_len(seq), Ok(0));
        assert_eq!(cache.stats().pools[0].used, 0);
        // Reserved tokens cannot be replaced.
        cache.reserve(seq, [1, 2].into_iter()).unwrap();
        assert_eq!(cache.set_prefill(seq, 0, &one, &one), Err(CacheError::Busy { sequence: seq.to_bits() }));
    });
}

/// A sequence whose window has moved on takes as many rows as an empty one.
#[test]
fn a_window_that_has_passed_is_replaced() {
    let visible = Visibility::new(Window { sinks: 0, last: 16 }, 0);
    let geometry = KvGeometry {
        visibility: [visible; 2],
        context: 1 << 20,
        ..geometry(KvKind::Paged, KvType::F16, LayerGroups::ONE)
    };
    with_cache(geometry, |cache| {
        let seq = cache.open().unwrap();
        for token in 0..100 {
            push_row(cache, seq, token).unwrap();
        }
        assert_eq!(cache.token(seq, 20), None);
        // Three blocks: one of the window, one of a batch, and one in which both begin or end.
        let refused = CacheError::TooMany { given: 49, limit: 48 };
        assert_eq!(set_prefill(cache, seq, &[7; 49]), Err(refused));
        assert_eq!(cache.seq_len(seq), Ok(100));
        set_prefill(cache, seq, &[7; 16]).unwrap();
        assert_holds(cache, seq, &[7; 16]);
        let other: SeqId = cache.open().unwrap();
        append_rows(cache, &[seq, other], &[8; 16]).unwrap();
        assert_holds(cache, other, &[8; 16]);
        assert_eq!(cache.check(), Ok(()));
    });
}
