//! Weights, keys and values that are not finite.

use gleed::tensor::Dtype;
use gleed::{Engine, EngineError, KvType, Limits, Logits, Model, Plan};

use crate::{small_limits, tiny, tiny_qwen3, unharmed};
use common::Memory;
use common::synthetic::SyntheticModel;

/// In this model only one token's embedding is not finite, so only sequences with this token fail.
#[test]
fn values_that_are_not_finite() {
    for synthetic in [tiny(), tiny_qwen3()] {
        for poison in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut writer = synthetic.writer();
            writer.tensor_mut("token_embd.weight").data[8 * 8 * 4 + 4..][..4].copy_from_slice(&poison.to_le_bytes());
            let file = writer.finish();
            let model = Model::open(&file).unwrap();
            for limits in small_limits() {
                let failed = Err(EngineError::NonFinite { layer: 0 });
                unharmed(&model, limits, |player, seq| {
                    let engine = &mut player.engine;
                    // The bad token is in the first batch, and in a later one.
                    assert_eq!(engine.prefill(seq, &[8, 1]).map(drop), failed);
                    assert_eq!(engine.prefill(seq, &[1, 1, 1, 1, 1, 1, 1, 1, 8, 1]).map(drop), failed);
                    assert_eq!(engine.decode_step(seq, 8).map(drop), failed);
                });
                // Other sequences of the batch lose their queued tokens, and nothing else.
                unharmed(&model, limits, |player, seq| {
                    let engine = &mut player.engine;
                    let other = engine.open().unwrap();
                    engine.queue(other, 0, &[8], Logits::Last).unwrap();
                    engine.queue(seq, 5, &[1], Logits::Last).unwrap();
                    assert_eq!(engine.step(usize::MAX), Err(EngineError::NonFinite { layer: 0 }));
                    assert_eq!(engine.seq_len(other), Ok(0));
                    engine.close(other).unwrap();
                });
            }
        }
    }
}

#[test]
fn weights_that_are_not_finite() {
    for synthetic in [tiny(), SyntheticModel { weights: Dtype::Q8_0, hidden: 32, ffn: 32, head_dim: 16, ..tiny() }] {
        let writer = synthetic.writer();
        let matrices = writer.tensors.iter().filter(|tensor| tensor.dims.len() == 2);
        for tensor in matrices {
            let mut changed = writer.clone();
            // A word of ones is NaN in f32, and a NaN scale in a block.
            changed.tensor_mut(&tensor.name).data.fill(0xff);
            let file = changed.finish();
            let model = Model::open(&file).unwrap();
            let plan = Plan::new(&model, &Limits { context: 40, ..Limits::default() }).unwrap();
            let mut memory = Memory::new(plan.bytes());
            let mut engine = Engine::new(&model, &plan, memory.bytes()).unwrap();
            let seq = engine.open().unwrap();
            for _ in 0..2 {
                match engine.prefill(seq, &[1, 2, 3]) {
                    Err(EngineError::NonFinite { layer }) => assert!(layer <= 2),
                    result => panic!("{}: {result:?}", tensor.name),
                }
                assert_eq!((engine.seq_len(seq), engine.is_busy()), (Ok(0), false));
            }
        }
    }
}

/// Values that are too large for f16, or need a scale that is too large for f16, are an error there, but not in f32.
#[test]
fn values_too_large_for_f16() {
    let mut writer = tiny().writer();
    for value in writer.tensor_mut("blk.1.attn_v.weight").data.chunks_exact_mut(4) {
        let weight = f32::from_le_bytes([value[0], value[1], value[2], value[3]]);
        value.copy_from_slice(&(weight * 1e12).to_le_bytes());
    }
    let file = writer.finish();
    let model = Model::open(&file).unwrap();
    for kv_type in KvType::ALL {
        let plan = Plan::new(&model, &Limits { context: 40, kv_type, ..Limits::default() }).unwrap();
        let mut memory = Memory::new(plan.bytes());
        let mut engine = Engine::new(&model, &plan, memory.bytes()).unwrap();
        let seq = engine.open().unwrap();
        let result = engine.prefill(seq, &[1, 2, 3]).map(drop);
        let wanted = if kv_type == KvType::F32 { Ok(()) } else { Err(EngineError::NonFinite { layer: 1 }) };
        assert_eq!(result, wanted);
    }
}
