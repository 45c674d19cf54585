//! Wrong calls of the engine, also while a sequence has work.

use gleed::cache::CacheError;
use gleed::{EngineError, Logits, Model, SeqId, Step};

use crate::{small_limits, tiny, unharmed};

#[test]
fn bad_calls() {
    let file = tiny().bytes();
    let model = Model::open(&file).unwrap();
    for limits in small_limits() {
        unharmed(&model, limits, |player, seq| {
            let engine = &mut player.engine;
            let stale = engine.open().unwrap();
            engine.close(stale).unwrap();
            let unknown = EngineError::Cache(CacheError::UnknownSequence { sequence: stale.to_bits() });
            let nobody = SeqId::from_bits(0x1234_ffff);
            let token = |index, token| EngineError::Token { index, token, vocab: 9 };
            let full = EngineError::Cache(CacheError::ContextFull { needed: 41, context: 40 });
            let short = EngineError::Cache(CacheError::TooShort { keep: 6, length: 5 });
            let position = |given| EngineError::Cache(CacheError::Position { expected: 5, given });
            let refused = [
                (engine.prefill(seq, &[]).map(drop), EngineError::Empty),
                (engine.queue(seq, 5, &[], Logits::All), EngineError::Empty),
                (engine.prefill(seq, &[0, 9]).map(drop), token(1, 9)),
                (engine.decode_step(seq, u32::MAX).map(drop), token(0, u32::MAX)),
                (engine.queue(seq, 5, &[1, 2, 3, 4, 1 << 31], Logits::All), token(4, 1 << 31)),
                (engine.prefill(seq, &[1; 36]).map(drop), full),
                (engine.queue(seq, 5, &[1; 36], Logits::Last), full),
                (engine.can_extend(seq, 36), full),
                (engine.queue(seq, 4, &[1], Logits::Last), position(4)),
                (engine.queue(seq, 6, &[1], Logits::Last), position(6)),
                (engine.queue(seq, usize::MAX, &[1], Logits::Last), position(usize::MAX)),
                (engine.rewind(seq, 6), short),
                (engine.fork(seq, 6).map(drop), short),
                (engine.prefill(stale, &[1]).map(drop), unknown),
                (engine.queue(stale, 0, &[1], Logits::Last), unknown),
                (engine.rewind(stale, 0), unknown),
                (engine.reset(stale), unknown),
                (engine.close(stale), unknown),
                (engine.cancel(stale), unknown),
                (engine.fork(stale, 0).map(drop), unknown),
                (engine.snapshot(stale, &mut []).map(drop), unknown),
                (engine.seq_len(stale).map(drop), unknown),
                (engine.close(nobody), EngineError::Cache(CacheError::UnknownSequence { sequence: nobody.to_bits() })),
            ];
            for (index, (result, error)) in refused.into_iter().enumerate() {
                assert_eq!(result, Err(error), "call {index}");
                assert!(!error.to_string().is_empty());
            }
            assert!(engine.logits(stale).is_none());
            let second = engine.open().unwrap();
            assert_eq!(engine.open(), Err(EngineError::Cache(CacheError::NoFreeSequence { sequences: 2 })));
            engine.close(second).unwrap();
        });
    }
}

#[test]
fn calls_on_sequences_in_flight() {
    let file = tiny().bytes();
    let model = Model::open(&file).unwrap();
    for limits in small_limits() {
        unharmed(&model, limits, |player, seq| {
            let engine = &mut player.engine;
            engine.queue(seq, 5, &[7, 7, 7], Logits::Last).unwrap();
            assert_eq!(engine.step(3), Ok(Step::Yielded));
            assert_eq!(engine.step(0), Ok(Step::Yielded));
            let busy = EngineError::Cache(CacheError::Busy { sequence: seq.to_bits() });
            let other = engine.open().unwrap();
            let refused = [
                (engine.queue(seq, 5, &[1], Logits::Last), busy),
                (engine.rewind(seq, 0), busy),
                (engine.fork(seq, 0).map(drop), busy),
                (engine.close(seq), busy),
                (engine.snapshot(seq, &mut []).map(drop), busy),
                (engine.can_extend(seq, 1), busy),
                (engine.prefill(other, &[1]).map(drop), EngineError::Busy),
                (engine.decode_step(seq, 1).map(drop), EngineError::Busy),
                (engine.cache_mut().map(drop), EngineError::Busy),
            ];
            for (index, (result, error)) in refused.into_iter().enumerate() {
                assert_eq!(result, Err(error), "call {index}");
            }
            engine.close(other).unwrap();
            engine.cancel(seq).unwrap();
            engine.cancel(seq).unwrap();
        });
    }
}
