//! The memory of a sequence with a window does not grow, and tokens that have left the window are gone.

use gleed::cache::CacheError;
use gleed::{EngineError, KvKind, Limits, Logits, Model, Plan, Window};

use crate::{WINDOWS, limits, small, tokens, with_engine};
use common::synthetic::SyntheticModel;

#[test]
fn memory_does_not_grow() {
    let file = small(SyntheticModel::llama()).bytes();
    let model = Model::open(&file).unwrap();
    for kind in [KvKind::Basic, KvKind::Paged] {
        for window in WINDOWS {
            let limits = Limits { sequences: 1, logit_rows: 1, ..limits(window, kind, 8) };
            let plan = Plan::new(&model, &limits).unwrap();
            let most = window.sinks.div_ceil(16) + (window.last + 8).div_ceil(16) + 1;
            assert_eq!(plan.limits().kv_blocks, most);
            let tables = plan.sections().iter().find(|section| section.name == "kv block tables").unwrap();
            assert_eq!(tables.bytes, most * 4);
            with_engine(&model, &limits, |engine| {
                let seq = engine.open().unwrap();
                engine.prefill(seq, &tokens(5, 203)).unwrap();
                for position in 203..2000 {
                    engine.decode_step(seq, 1 + position as u32 % 39).unwrap();
                    let length = position + 1;
                    let blocks = engine.cache().allocator(0).unwrap();
                    // The blocks that the next token sees, and the block into which it goes.
                    let sinks = window.sinks.div_ceil(16);
                    let recent = sinks.max((length + 1 - window.last) / 16)..length.div_ceil(16);
                    assert_eq!(blocks.len() - blocks.free_blocks(), sinks + recent.len(), "{window:?} {length}");
                }
                let cache = engine.cache();
                assert_eq!(cache.seq_len(seq), Ok(2000));
                assert_eq!(cache.token(seq, 1999), (window.last > 1).then_some(1 + 1999 % 39));
                assert_eq!(cache.token(seq, 1000), None);
                assert_eq!(cache.token(seq, 0).is_some(), window.sinks > 0);
                engine.reset(seq).unwrap();
                let blocks = engine.cache().allocator(0).unwrap();
                assert_eq!(blocks.free_blocks(), blocks.len());
            });
        }
    }
}

#[test]
fn what_is_gone_is_gone() {
    let file = small(SyntheticModel::llama()).bytes();
    let model = Model::open(&file).unwrap();
    let window = Window { sinks: 4, last: 40 };
    let limits = Limits { sequences: 3, ..limits(window, KvKind::Paged, 10) };
    with_engine(&model, &limits, |engine| {
        let seq = engine.open().unwrap();
        let tokens = tokens(6, 200);
        engine.prefill(seq, &tokens).unwrap();
        // Position 200 sees 161 to 199, so the blocks from 160 on are kept.
        let gone = |position, first| EngineError::Cache(CacheError::WindowGone { position, first });
        assert_eq!(engine.rewind(seq, 198), Err(gone(144, 160)));
        assert_eq!(engine.fork(seq, 198), Err(gone(144, 160)));
        assert_eq!(engine.rewind(seq, 100), Err(gone(96, 160)));
        assert_eq!(engine.snapshot_len(seq), Err(gone(16, 160)));
        assert_eq!(
            engine.cache().materialize(seq, 0, &mut [], &mut []),
            Err(CacheError::WindowGone { position: 16, first: 160 })
        );
        let text = gone(16, 160).to_string();
        assert_eq!(text, "position 16 has left the window, which begins at 160");
        assert_eq!(engine.seq_len(seq), Ok(200));
        // A rewind to 199 is possible, and so is a fork within the block of the sinks.
        engine.rewind(seq, 199).unwrap();
        let fork = engine.fork(seq, 199).unwrap();
        let other = engine.fork(seq, 16).unwrap();
        assert_eq!(
            engine.cache().block_table(other, 0).unwrap().block(0),
            engine.cache().block_table(seq, 0).unwrap().block(0)
        );
        assert_eq!(engine.cache().token(fork, 198), Some(tokens[198]));
        engine.close(other).unwrap();
        engine.rewind(fork, 9).unwrap();
        let limit = engine.can_extend(fork, 1000).unwrap_err();
        assert_eq!(limit, EngineError::Cache(CacheError::TooMany { given: 1000, limit: 16 + 5 * 16 - 9 }));
        assert_eq!(limit.to_string(), "1000 tokens at a time; with its window the sequence takes 87");
        assert_eq!(engine.queue(seq, 199, &tokens[..100], Logits::Last), engine.can_extend(seq, 100));
        assert!(engine.can_extend(seq, 10).is_ok());
        engine.prefill(fork, &tokens[9..]).unwrap();
        assert_eq!(engine.seq_len(fork), Ok(200));
    });
}

/// If other sequences hold the blocks, a prompt that is longer than the window is refused before any work.
#[test]
fn a_long_prompt_in_a_small_pool() {
    let file = small(SyntheticModel::llama()).bytes();
    let model = Model::open(&file).unwrap();
    let window = Window { sinks: 0, last: 40 };
    for free in 1..7 {
        let limits = Limits { sequences: 2, kv_blocks: 6, ..limits(window, KvKind::Paged, 10) };
        with_engine(&model, &limits, |engine| {
            let (other, seq) = (engine.open().unwrap(), engine.open().unwrap());
            if free < 6 {
                engine.prefill(other, &tokens(7, (6 - free) * 16)).unwrap();
            }
            let free = engine.cache().allocator(0).unwrap().free_blocks();
            match engine.prefill(seq, &tokens(8, 300)).map(drop) {
                Ok(()) => assert!(free >= 4),
                Err(error) => {
                    assert!(free < 4);
                    assert!(matches!(error, EngineError::Cache(CacheError::OutOfBlocks { .. })), "{error:?}");
                    assert_eq!(engine.seq_len(seq), Ok(0));
                    assert_eq!(engine.cache().allocator(0).unwrap().free_blocks(), free);
                }
            }
        });
    }
}
