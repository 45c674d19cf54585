//! A machine that flushes subnormal numbers to zero computes the same logits. As in `tests/flush`, models run without
//! flushing and with each way to flush. The feature `flush-test` keeps the library from setting the floating-point
//! environment. The models are synthetic models of every architecture, also with hard numbers, and the fixtures with
//! logits of other engines.
#![cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]

#[path = "../flush/compare.rs"]
mod compare;
#[path = "../flush/environment.rs"]
mod environment;
mod files;
#[path = "../flush/numbers.rs"]
mod numbers;

use gleed::cache::SnapshotOptions;
use gleed::kernels::{Level, fpenv};
use gleed::num::Xxh64;
use gleed::tensor::Dtype;
use gleed::{Engine, EngineError, KvElement, KvType, Limits, Model, Plan};

use common::Memory;
use common::fixtures::{Embedder, Parity, Parity2026, Quant};
use common::random::{self, Rng};
use common::synthetic::{Architecture, SyntheticModel};
use compare::{check, hash};
use files::Change;

/// Result of a run: hashes of all logits and of a snapshot, or the error of a row that is not finite.
type Outcome = Result<[u64; 2], EngineError>;

/// Runs the tokens in batches of several sizes, then one by one.
fn run(model: &Model<'_>, kv_type: KvType, level: Level, tokens: &[u32]) -> Outcome {
    let limits = Limits { context: tokens.len(), rows: 20, logit_rows: 20, kv_type, level, ..Limits::default() };
    let plan = Plan::new(model, &limits).unwrap();
    let mut memory = Memory::new(plan.bytes());
    let mut engine = Engine::new(model, &plan, memory.bytes()).unwrap();
    let sequence = engine.open().unwrap();
    let (mut logits, mut snapshot) = (Xxh64::new(), Xxh64::new());
    let (batches, single) = tokens.split_at(tokens.len() - tokens.len().min(3));
    for batch in batches.chunks(17) {
        let add = |_, row: &[f32]| row.iter().for_each(|x| logits.update(&x.to_bits().to_le_bytes()));
        engine.prefill_rows(sequence, batch, add)?;
    }
    for &token in single {
        engine.decode_step(sequence, token)?.iter().for_each(|x| logits.update(&x.to_bits().to_le_bytes()));
    }
    if model.config().windows == [0; 2] {
        let write = |bytes: &[u8]| {
            snapshot.update(bytes);
            Ok::<(), ()>(())
        };
        engine.write_snapshot(sequence, &SnapshotOptions::default(), write).unwrap();
    }
    Ok([logits.finish(), snapshot.finish()])
}

/// Runs a model on some levels, without flushing and with each way to flush.
fn check_file(name: &str, file: &[u8], kv_types: &[KvType], levels: &[Level], tokens: &[u32]) -> Vec<Outcome> {
    fpenv::keep_environment(true);
    let model = Model::open(file).unwrap();
    let mut outcomes = Vec::new();
    for &kv_type in kv_types {
        for &level in levels {
            let outcome = check(|| format!("{name}, {kv_type}, {level}"), || run(&model, kv_type, level, tokens));
            outcomes.push(outcome);
        }
    }
    outcomes
}

fn detected() -> [Level; 1] {
    [Level::detect()]
}

/// Covers each architecture and option, with each change of its numbers.
#[test]
fn made_models() {
    let (mut finite, mut all) = (0, 0);
    for (index, (name, model)) in SyntheticModel::all().into_iter().enumerate() {
        let model = SyntheticModel { vocab: 40, ..model };
        let tokens = Rng::new(30).tokens(26, 40);
        if !Model::open(&model.bytes()).unwrap().has_logits() {
            continue;
        }
        for change in Change::ALL {
            let file = change.apply(model.writer());
            let kv_types = [KvType::F16, KvType::ALL[index % KvType::ALL.len()]];
            let outcomes = check_file(&format!("{name}, {change:?}"), &file, &kv_types, &detected(), &tokens);
            finite += outcomes.iter().filter(|outcome| outcome.is_ok()).count();
            all += outcomes.len();
        }
    }
    println!("{finite} of {all} runs are finite");
    assert!(10 * finite >= 9 * all, "{finite} of {all}");
}

/// Covers all types of weights, with hard numbers in norms and biases.
#[test]
fn types_of_weights() {
    for dtype in Dtype::ALL {
        let recurrent = SyntheticModel::of(Architecture::Qwen35);
        // The heads of this model are narrower than a block of 256.
        let recurrent = Some(recurrent).filter(|_| dtype.block_len() <= 32);
        for model in [SyntheticModel::llama(), SyntheticModel::qwen3()].into_iter().chain(recurrent) {
            let model = match dtype.block_len() {
                0..=32 => model,
                _ => SyntheticModel { hidden: 256, ffn: 256, head_dim: 64, ..model },
            };
            let model = SyntheticModel { weights: dtype, vocab: 40, ..model };
            for change in [Change::None, Change::Vectors] {
                let file = change.apply(model.writer());
                let tokens = Rng::new(31).tokens(19, 40);
                check_file(&format!("{dtype} {change:?}"), &file, &[KvType::F16], &detected(), &tokens);
            }
        }
    }
}

/// Covers several chunks of positions, on all levels, with all types of keys and values.
#[test]
fn levels_and_long_sequences() {
    let mixed = KvType { k: KvElement::Q8_0, v: KvElement::F16 };
    Level::allow_amx();
    let levels: Vec<Level> = Level::available().collect();
    for architecture in [Architecture::Llama, Architecture::Gemma2, Architecture::Qwen35] {
        let model = SyntheticModel { vocab: 40, layers: 2, ..SyntheticModel::of(architecture) };
        for change in [Change::None, Change::Some] {
            let file = change.apply(model.writer());
            let tokens = Rng::new(32).tokens(2 * 256 + 30, 40);
            let name = format!("{} {change:?}", architecture.name());
            let outcomes = check_file(&name, &file, &[KvType::F16], &levels, &tokens);
            assert!(outcomes.iter().all(|outcome| outcome == &outcomes[0]), "{name}: levels differ");
            check_file(&name, &file, &[KvType::F32, KvType::Q8_0, KvType::Q4_0, mixed], &detected(), &tokens);
        }
    }
}

#[test]
fn fixtures() {
    let both = [KvType::F16, KvType::F32];
    for name in Parity::ALL.into_iter().chain(Parity::MORE) {
        let Some(parity) = Parity::load(name) else { continue };
        let tokens = parity.sequence();
        check_file(name, &parity.gguf, &both, &detected(), &tokens[..tokens.len().min(64)]);
    }
    for name in Parity2026::DECODERS {
        let Some(parity) = Parity2026::load(name) else { continue };
        let tokens = [&parity.main.prompt[..], &parity.main.greedy].concat();
        check_file(name, &parity.gguf, &both, &detected(), &tokens[..tokens.len().min(64)]);
    }
    for quant in Quant::load_all() {
        let tokens = &quant.prompt[..quant.prompt.len().min(32)];
        check_file(&quant.name, &quant.gguf, &both[..1], &detected(), tokens);
    }
}

/// Covers vectors of texts.
#[test]
fn embedders() {
    fpenv::keep_environment(true);
    for name in Embedder::ALL {
        let Some(Embedder { gguf, inputs, .. }) = Embedder::load(name) else { continue };
        let model = Model::open(&gguf).unwrap();
        let pooling = model.pooling().unwrap();
        let embed = || {
            let limits = Limits { sequences: 3, context: 160, rows: 160, kv_type: KvType::F32, ..Limits::default() };
            let plan = Plan::new(&model, &limits).unwrap();
            let mut memory = Memory::new(plan.bytes());
            let mut engine = Engine::new(&model, &plan, memory.bytes()).unwrap();
            let mut out = vec![0.0; model.config().embedding_len(pooling).unwrap() * inputs.len()];
            engine.embed_all(inputs.iter().map(Vec::as_slice), pooling, &mut out).map(|()| hash(&out))
        };
        check(|| name.into(), embed).unwrap();
    }
}
