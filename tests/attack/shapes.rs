//! Whole models with strange but valid shapes, and with numbers that are not finite in every tensor. The result is an
//! error, or finite logits that are the same on every level and in every cut.

use gleed::{Engine, EngineError, KvKind, KvType, Limits, Model, Plan, Pooling};

use common::Memory;
use common::synthetic::{Architecture, SyntheticModel};
use gleed::kernels::Level;

const TOKENS: usize = 7;

/// Returns the bits of the logits of all tokens, or of the vector of a text.
fn play(model: &Model<'_>, level: Level, rows: usize) -> Result<Vec<u32>, EngineError> {
    let limits = Limits { context: 16, rows, level, kv_kind: KvKind::Paged, kv_type: KvType::F32, ..Limits::default() };
    let plan = Plan::new(model, &limits).unwrap();
    let mut memory = Memory::new(plan.bytes());
    let mut engine = Engine::new(model, &plan, memory.bytes()).unwrap();
    let seq = engine.open()?;
    let tokens: Vec<u32> = (0..TOKENS).map(|at| (at % model.config().vocab) as u32).collect();
    let mut bits = Vec::new();
    let mut keep = |row: &[f32]| {
        assert!(row.iter().all(|x| x.is_finite()));
        bits.extend(row.iter().map(|x| x.to_bits()));
    };
    if model.config().attention.causal {
        engine.prefill_rows(seq, &tokens, |_, logits| keep(logits))?;
    } else {
        let mut out = vec![0.0; model.config().embedding_len(Pooling::Mean).unwrap()];
        engine.embed(seq, &tokens, Pooling::Mean, &mut out)?;
        keep(&out);
    }
    assert_eq!(engine.cache().check(), Ok(()));
    Ok(bits)
}

/// Plays a model on every level. Encoders take a text as a whole.
fn play_all(file: &[u8], what: &str) -> Result<(), EngineError> {
    let model = Model::open(file).unwrap_or_else(|error| panic!("{what}: {error}"));
    let rows = if model.config().attention.causal { 3 } else { 16 };
    let expected = play(&model, Level::SCALAR, 16);
    for level in Level::available() {
        match (play(&model, level, rows), &expected) {
            (Ok(bits), Ok(expected)) => assert!(bits == *expected, "{what}: other bits on {level}"),
            (Err(EngineError::NonFinite { .. }), Err(EngineError::NonFinite { .. })) => {}
            (result, _) => panic!("{what}, {level}: {:?} for {:?}", result.map(|_| ()), expected.map(|_| ())),
        }
    }
    expected.map(drop)
}

#[test]
fn strange_shapes() {
    let llama = || SyntheticModel { layers: 1, context: 32, ..SyntheticModel::llama() };
    let shapes = [
        (
            "one of everything",
            SyntheticModel { hidden: 2, ffn: 1, heads: 1, kv_heads: 1, head_dim: 2, vocab: 1, ..llama() },
        ),
        ("a vocabulary of one token", SyntheticModel { vocab: 1, ..llama() }),
        ("one layer", llama()),
        ("three heads on one", SyntheticModel { heads: 3, kv_heads: 1, head_dim: 6, hidden: 18, ..llama() }),
        (
            "heads of five elements",
            SyntheticModel {
                layers: 1,
                hidden: 8,
                heads: 2,
                kv_heads: 1,
                head_dim: 5,
                context: 32,
                ..SyntheticModel::of(Architecture::StableLm)
            },
        ),
        ("seven heads on one", SyntheticModel { heads: 7, kv_heads: 1, head_dim: 14, hidden: 98, ..llama() }),
        ("heads wider than the model", SyntheticModel { heads: 5, kv_heads: 5, head_dim: 34, hidden: 6, ..llama() }),
        ("a feed-forward network of one", SyntheticModel { ffn: 1, ..llama() }),
        (
            "forty layers",
            SyntheticModel { layers: 40, hidden: 4, ffn: 3, heads: 2, kv_heads: 2, head_dim: 2, vocab: 5, ..llama() },
        ),
        ("the longest context", SyntheticModel { context: u32::MAX as usize, ..llama() }),
    ];
    for (what, model) in &shapes {
        assert_eq!(play_all(&model.bytes(), what), Ok(()), "{what}");
    }
    for architecture in Architecture::ALL {
        let model = SyntheticModel { vocab: 1, context: 32, ..SyntheticModel::of(architecture) };
        assert_eq!(play_all(&model.bytes(), architecture.name()), Ok(()), "{}", architecture.name());
    }
}

/// Puts infinity and NaN in the first and the last element of each tensor of each architecture.
#[test]
fn infinity_and_nan_in_every_tensor() {
    let (mut refused, mut taken) = (0, 0);
    for architecture in Architecture::ALL {
        let usual = SyntheticModel { vocab: TOKENS, context: 32, ..SyntheticModel::of(architecture) };
        let writer = usual.writer();
        for index in 0..writer.tensors.len() {
            for (bad, is_first) in [(f32::NAN, true), (f32::INFINITY, false), (f32::NEG_INFINITY, true)] {
                let mut writer = writer.clone();
                let tensor = &mut writer.tensors[index];
                if tensor.ggml_type != 0 {
                    continue;
                }
                let words = tensor.data.as_chunks_mut::<4>().0;
                let at = if is_first { 0 } else { words.len() - 1 };
                words[at] = bad.to_le_bytes();
                let what = format!("{}, {bad} in {}", architecture.name(), tensor.name);
                let file = writer.finish();
                // An error when the model is opened is an accepted result, too.
                if Model::open(&file).is_err() || play_all(&file, &what).is_err() {
                    refused += 1;
                } else {
                    taken += 1;
                }
            }
        }
    }
    println!(
        "attack: {refused} tensors with NaN or infinity were refused, {taken} have no part in logits that are finite"
    );
    assert!(refused > taken);
}
