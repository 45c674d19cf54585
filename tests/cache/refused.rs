//! Wrong calls give specific errors and change nothing.

use gleed::cache::{CacheError, SeqId};

use crate::{LAYERS, WIDTH, append, append_rows, assert_holds, keeping, push_row, row, see, set_prefill, with_cache};

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
            let (one, two) = (vec![0.5; WIDTH], [0.5; 2 * WIDTH]);
            let bad = [&[1.0; 2 * WIDTH - 1][..], &[f32::NAN]].concat();
            let (mut k, mut v) = (vec![0.0; 37 * WIDTH], vec![0.0; 37 * WIDTH]);
            let unknown = CacheError::UnknownSequence { sequence: closed.to_bits() };
            let nobody = CacheError::UnknownSequence { sequence: 0xdead_beef };
            let refused = [
                (cache.push_row(b, 0, &one[1..], &one), CacheError::Shape { expected: 6, given: 5 }),
                (cache.push_row(b, 0, &one, &one[..2]), CacheError::Shape { expected: 6, given: 2 }),
                (cache.push_row(b, 0, &[], &[]), CacheError::Shape { expected: 6, given: 0 }),
                (cache.set_prefill(b, 0, &[0.0; 13], &[0.0; 13]), CacheError::Shape { expected: 12, given: 13 }),
                (cache.set_prefill(b, 0, &[0.0; 12], &[0.0; 18]), CacheError::Shape { expected: 12, given: 18 }),
                (cache.set_prefill(a, 0, &[f32::NAN; 6], &one), CacheError::NonFinite),
                (set_prefill(cache, a, &[1; 71]), CacheError::ContextFull { needed: 71, context: 70 }),
                (cache.set_prefill(a, 1, &one, &one), CacheError::Layer { expected: 0, given: 1 }),
                (cache.set_prefill_batch([b, closed], 0, &[0.5; 12], &[0.5; 12]), unknown),
                (cache.append_rows([(a, 36)], 0, &one, &one), CacheError::Position { expected: 37, given: 36 }),
                (cache.append_rows([(b, 0), (a, 0)], 0, &two, &two), CacheError::Position { expected: 37, given: 0 }),
                (cache.append_rows([(b, 0), (b, 0)], 0, &two, &two), CacheError::Repeated { sequence: b.to_bits() }),
                (cache.set_prefill_batch([a, b, a], 0, &two, &two), CacheError::Shape { expected: 0, given: 12 }),
                (cache.set_prefill_batch([a, a], 0, &two, &two), CacheError::Repeated { sequence: a.to_bits() }),
                (cache.append_rows([(b, 0), (a, 37)], 0, &two, &bad), CacheError::NonFinite),
                (append_rows(cache, &[b, a], &[1; 34]), CacheError::ContextFull { needed: 71, context: 70 }),
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
            // The cache has room for this fourth sequence, and no more.
            let last = cache.open().unwrap();
            assert_eq!(cache.open(), Err(CacheError::NoFreeSequence { sequences: 4 }));
            assert_eq!(cache.fork(a, 1), Err(CacheError::NoFreeSequence { sequences: 4 }));
            cache.close(last).unwrap();
            assert_eq!(see(cache, &all), before);
        });
    }
}

/// Rows come layer by layer. A refused layer can be given again. The sequence is busy until its last layer has the
/// rows, or until it is released.
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
fn errors_say_their_numbers() {
    let texts = [
        (CacheError::UnknownSequence { sequence: 0x1_0002 }, "sequence 0x10002 is not open"),
        (CacheError::Repeated { sequence: 7 }, "sequence 0x7 is given twice"),
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

#[test]
fn a_closed_sequence_has_no_keys() {
    for geometry in keeping() {
        with_cache(geometry, |cache| {
            let old = cache.open().unwrap();
            cache.close(old).unwrap();
            let new = cache.open().unwrap();
            append(cache, new, &[1, 2, 3]).unwrap();
            assert!(cache.layer_source(new, 0).is_some() && cache.layer_source(old, 0).is_none());
            assert_eq!(cache.copy_units(old), 0);
        });
    }
}

#[test]
fn more_rows_than_are_reserved_are_not_committed() {
    for geometry in keeping() {
        with_cache(geometry, |cache| {
            let seq = cache.open().unwrap();
            append(cache, seq, &[1, 2]).unwrap();
            for rows in [1, usize::MAX] {
                let refused = CacheError::Position { expected: 2, given: rows.saturating_add(2) };
                assert_eq!(cache.commit(seq, rows), Err(refused));
            }
        });
    }
}

/// The shared part of a block is copied before a fork writes to it, with every call that writes.
#[test]
fn a_fork_that_is_written_to_keeps_what_it_shares() {
    for geometry in keeping() {
        with_cache(geometry, |cache| {
            let seq = cache.open().unwrap();
            append(cache, seq, &[1, 2]).unwrap();
            let fork = cache.fork(seq, 2).unwrap();
            cache.reserve(fork, [7].into_iter()).unwrap();
            (0..LAYERS).for_each(|layer| cache.write_row(fork, layer, 2, &[1.0; WIDTH], &[1.0; WIDTH]).unwrap());
            cache.commit(fork, 1).unwrap();
            for layer in 0..LAYERS {
                let mut shared = [vec![0.0; 2 * WIDTH], vec![0.0; 2 * WIDTH]];
                let mut own = [vec![0.0; 3 * WIDTH], vec![0.0; 3 * WIDTH]];
                let [k, v] = &mut shared;
                cache.materialize(seq, layer, k, v).unwrap();
                let [k, v] = &mut own;
                cache.materialize(fork, layer, k, v).unwrap();
                assert_eq!(shared, own.map(|rows| rows[..2 * WIDTH].to_vec()));
            }
        });
    }
}
