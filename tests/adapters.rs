//! LoRA adapters: equal to a model with the products merged into its weights, and without effect on other sequences.

use common::gguf_writer::GgufWriter;
use common::playback::hash;
use common::random::Rng;
use common::synthetic::{Architecture, SyntheticModel, encode_f32};
use common::{Memory, rel_l2};
use gleed::host::ThreadPool;
use gleed::kernels::Level;
use gleed::model::{Adapter, ModelError};
use gleed::tensor::Dtype;
use gleed::{Engine, EngineError, KvType, Limits, Logits, Model, Plan, Step};
use half::f16;

const ALPHA: f32 = 12.0;

/// Returns an adapter for all matrices in the model's layers that end with one of `targets`. Its numbers are exact in
/// f16.
fn adapter(model: &SyntheticModel, targets: &[&str], rank: usize, seed: u64) -> GgufWriter {
    let mut rng = Rng::new(seed);
    let mut writer = GgufWriter::default();
    writer.set("general.type", "adapter").set("adapter.type", "lora").set("adapter.lora.alpha", ALPHA);
    writer.set("general.architecture", model.architecture.name());
    for tensor in model.writer().tensors {
        if !tensor.name.starts_with("blk.")
            || tensor.dims.len() < 2
            || !targets.iter().any(|target| tensor.name.contains(target))
        {
            continue;
        }
        let (cols, rows) = (tensor.dims[0], tensor.dims[1]);
        let mut matrix = |len: u64, std: f32| {
            let values: Vec<f32> = (0..len).map(|_| f16::from_f32(rng.normal() * std).to_f32()).collect();
            encode_f32(&values)
        };
        let (a, b) = (matrix(cols * rank as u64, 0.2), matrix(rows * rank as u64, 0.05));
        writer.add_tensor(&format!("{}.lora_a", tensor.name), &[cols, rank as u64], 0, a);
        writer.add_tensor(&format!("{}.lora_b", tensor.name), &[rank as u64, rows], 0, b);
    }
    writer
}

/// Returns the file of an adapter, with its matrices in F16.
fn narrow(mut adapter: GgufWriter) -> Vec<u8> {
    for tensor in &mut adapter.tensors {
        tensor.ggml_type = 1;
        tensor.data = floats(&tensor.data).into_iter().flat_map(|x| f16::from_f32(x).to_le_bytes()).collect();
    }
    adapter.finish()
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect()
}

/// Returns the model with adapters merged into its weights.
fn merged(model: &SyntheticModel, adapters: &[(&GgufWriter, f32)]) -> Vec<u8> {
    let mut writer = model.writer();
    for (adapter, scale) in adapters {
        for pair in adapter.tensors.chunks_exact(2) {
            let [a, b] = [&pair[0], &pair[1]].map(|tensor| floats(&tensor.data));
            let rank = pair[1].dims[0] as usize;
            let name = pair[0].name.strip_suffix(".lora_a").unwrap();
            let target = writer.tensor_mut(name);
            let cols = target.dims[0] as usize;
            let mut weights = floats(&target.data);
            for (index, weight) in weights.iter_mut().enumerate() {
                let (row, col) = (index / cols, index % cols);
                let sum: f64 = (0..rank).map(|r| f64::from(b[row * rank + r]) * f64::from(a[r * cols + col])).sum();
                *weight = (f64::from(*weight) + f64::from(scale * ALPHA) / rank as f64 * sum) as f32;
            }
            target.data = encode_f32(&weights);
        }
    }
    writer.finish()
}

fn limits(rows: usize) -> Limits {
    Limits {
        sequences: 4,
        context: 64,
        rows,
        logit_rows: rows,
        kv_type: KvType::F32,
        adapters: 2,
        adapter_rank: 40,
        ..Limits::default()
    }
}

/// Returns the logits of every token of a sequence with some adapters.
fn run(file: &[u8], limits: Limits, adapters: &[(&[u8], f32)], tokens: &[u32], threads: usize) -> Vec<Vec<f32>> {
    let model = Model::open(file).unwrap();
    let plan = Plan::new(&model, &Limits { workers: threads, ..limits }).unwrap();
    let pool = ThreadPool::new(threads).unwrap();
    let mut memory = Memory::new(plan.bytes());
    let mut engine = Engine::new(&model, &plan, memory.bytes()).unwrap();
    engine.set_parallel(&pool);
    let seq = engine.open().unwrap();
    for (bytes, scale) in adapters {
        let index = engine.load_adapter(&Adapter::open(bytes, &model).unwrap()).unwrap();
        engine.set_adapter(seq, index, *scale).unwrap();
    }
    let mut rows = Vec::new();
    engine.prefill_rows(seq, tokens, |_, logits| rows.push(logits.to_vec())).unwrap();
    rows
}

const TARGETS: [&str; 8] = [
    "attn_q.weight",
    "attn_k.weight",
    "attn_v.weight",
    "attn_qkv.weight",
    "attn_output.weight",
    "ffn_gate.weight",
    "ffn_up.weight",
    "ffn_down.weight",
];

/// Covers separate and fused matrices, matrices with and without biases, feed-forward layers with and without a gate,
/// branches side by side, and norms at the end of branches.
#[test]
fn equal_merged_weights() {
    use Architecture::{Bloom, Gemma2, GptNeoX, Llama, Phi3};
    for architecture in [Llama, Phi3, Bloom, GptNeoX, Gemma2] {
        let model = SyntheticModel { layers: 2, ..SyntheticModel::of(architecture) };
        let file = model.bytes();
        let tokens = Rng::new(1).tokens(30, model.vocab);
        let (one, two) = (adapter(&model, &TARGETS, 7, 1), adapter(&model, &["attn_", "ffn_down.weight"], 33, 2));
        let [first, second] = [one.finish(), two.finish()];
        for (used, scales) in [(vec![&one], vec![1.0]), (vec![&one], vec![-0.5]), (vec![&one, &two], vec![0.75, 2.0])] {
            let pairs: Vec<(&GgufWriter, f32)> = used.into_iter().zip(scales.iter().copied()).collect();
            let files = [&first[..], &second[..]].into_iter().zip(scales).collect::<Vec<_>>();
            let found = run(&file, limits(16), &files, &tokens, 1);
            let expected = run(&merged(&model, &pairs), limits(16), &[], &tokens, 1);
            let plain = run(&file, limits(16), &[], &tokens, 1);
            for ((found, expected), plain) in found.iter().zip(&expected).zip(&plain) {
                let wide: Vec<f64> = expected.iter().map(|&x| x.into()).collect();
                let error = rel_l2(found, &wide);
                assert!(error <= 2e-5, "{architecture:?}: {error:e}");
                assert!(rel_l2(plain, &wide) > 1e-2, "{architecture:?}: the adapter does nothing");
            }
        }
        let expected = run(&merged(&model, &[(&one, 1.0)]), limits(16), &[], &tokens, 1);
        for (found, expected) in run(&file, limits(16), &[(&narrow(one), 1.0)], &tokens, 1).iter().zip(&expected) {
            let wide: Vec<f64> = expected.iter().map(|&x| x.into()).collect();
            let error = rel_l2(found, &wide);
            assert!(error <= 3e-4, "{architecture:?}: {error:e}");
        }
    }
}

/// Batches, levels and threads do not change the bits. A scale of 0 is the same as no adapter.
#[test]
fn the_same_bits_in_every_way() {
    for (weights, width, f16) in [(Dtype::F32, 64, true), (Dtype::Q8_0, 64, false), (Dtype::Q4_K, 256, true)] {
        let model =
            SyntheticModel { weights, hidden: width, ffn: width, head_dim: width / 4, ..SyntheticModel::llama() };
        let file = model.bytes();
        let tokens = Rng::new(2).tokens(30, model.vocab);
        let adapter = adapter(&model, &TARGETS, 9, 3);
        let bytes = if f16 { narrow(adapter) } else { adapter.finish() };
        let hashes = |rows: Vec<Vec<f32>>| rows.iter().map(|row| hash(row)).collect::<Vec<_>>();
        let expected = hashes(run(&file, limits(64), &[(&bytes, 1.5)], &tokens, 1));
        let plain = hashes(run(&file, Limits { adapters: 0, ..limits(64) }, &[], &tokens, 1));
        assert_ne!(expected, plain);
        for level in Level::available() {
            for (rows, threads) in [(1, 1), (7, 2), (64, 2)] {
                let limits = Limits { level, ..limits(rows) };
                assert_eq!(hashes(run(&file, limits, &[(&bytes, 1.5)], &tokens, threads)), expected, "{level} {rows}");
                assert_eq!(hashes(run(&file, limits, &[(&bytes, 0.0)], &tokens, threads)), plain, "{level} {rows}");
                assert_eq!(hashes(run(&file, limits, &[], &tokens, threads)), plain, "{level} {rows}");
            }
        }
    }
}

/// The sequences of one batch each have their own scales.
#[test]
fn every_sequence_has_its_own() {
    let model = SyntheticModel::qwen3();
    let file = model.bytes();
    let tokens = Rng::new(3).tokens(24, model.vocab);
    let [first, second] = [4, 5].map(|seed| adapter(&model, &TARGETS, 8, seed).finish());
    let scales = [[0.0, 0.0], [1.0, 0.0], [0.0, -2.0], [0.5, 0.25]];
    let alone =
        scales.map(|[a, b]| run(&file, limits(64), &[(&first, a), (&second, b)], &tokens, 1).last().unwrap().clone());
    let opened = Model::open(&file).unwrap();
    let plan = Plan::new(&opened, &Limits { prefix_cache: true, ..limits(10) }).unwrap();
    let mut memory = Memory::new(plan.bytes());
    let mut engine = Engine::new(&opened, &plan, memory.bytes()).unwrap();
    for bytes in [&first, &second] {
        engine.load_adapter(&Adapter::open(bytes, &opened).unwrap()).unwrap();
    }
    for _ in 0..2 {
        let sequences = scales.map(|scales| {
            let seq = engine.open().unwrap();
            for (index, scale) in scales.into_iter().enumerate() {
                assert_eq!(engine.adapter(seq, index), Ok(0.0));
                engine.set_adapter(seq, index, scale).unwrap();
            }
            // The prefix cache knows only tokens that were computed without adapters.
            let reused = engine.reuse(seq, &tokens).unwrap();
            assert!(reused == 0 || scales == [0.0, 0.0]);
            engine.queue(seq, reused, &tokens[reused..], Logits::Last).unwrap();
            seq
        });
        let mut found = vec![Vec::new(); 4];
        while engine.step(usize::MAX).unwrap() != Step::Idle {
            for (seq, _, logits) in engine.results() {
                found[sequences.iter().position(|&other| other == seq).unwrap()] = logits.to_vec();
            }
        }
        assert_eq!(found, alone);
        // A fork has the scales of its parent.
        engine.close(sequences[0]).unwrap();
        let fork = engine.fork(sequences[3], 23).unwrap();
        assert_eq!([0, 1].map(|index| engine.adapter(fork, index)), [Ok(0.5), Ok(0.25)]);
        assert_eq!(engine.decode_step(fork, tokens[23]).unwrap(), alone[3]);
        for seq in [fork, sequences[1], sequences[2], sequences[3]] {
            engine.close(seq).unwrap();
        }
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let model = SyntheticModel::llama();
    let file = model.bytes();
    let opened = Model::open(&file).unwrap();
    let good = adapter(&model, &["attn_q.weight"], 4, 6);
    let refused = |change: &dyn Fn(&mut GgufWriter)| {
        let mut changed = good.clone();
        change(&mut changed);
        Adapter::open(&changed.finish(), &opened).map(|adapter| adapter.rank()).unwrap_err()
    };
    assert!(matches!(Adapter::open(&file, &opened), Err(ModelError::MissingKey { .. })));
    assert!(matches!(refused(&|w| _ = w.set("adapter.type", "ia3")), ModelError::Unsupported { .. }));
    assert!(matches!(refused(&|w| _ = w.set("general.architecture", "qwen3")), ModelError::Unsupported { .. }));
    assert!(matches!(refused(&|w| _ = w.set("adapter.lora.alpha", f32::NAN)), ModelError::BadValue { .. }));
    assert!(matches!(refused(&|w| _ = w.tensors.remove(1)), ModelError::MissingTensor { .. }));
    assert!(matches!(
        refused(&|w| w.tensors[0].name = "blk.9.attn_q.weight.lora_a".into()),
        ModelError::UnknownTensor { .. }
    ));
    assert!(matches!(
        refused(&|w| w.tensors[0].name = "token_embd.weight.lora_a".into()),
        ModelError::UnknownTensor { .. }
    ));
    assert!(matches!(refused(&|w| w.tensors[0].dims[0] = 32), ModelError::TensorShape { .. }));
    assert!(matches!(refused(&|w| w.tensors[1].dims.reverse()), ModelError::TensorShape { .. }));
    assert!(matches!(refused(&|w| w.tensors[0].ggml_type = 26), ModelError::TensorType { .. }));

    let (bytes, large) = (good.finish(), adapter(&model, &["attn_q.weight"], 5, 6).finish());
    let plan = Plan::new(&opened, &Limits { adapter_rank: 4, adapters: 1, ..limits(8) }).unwrap();
    let mut memory = Memory::new(plan.bytes());
    let mut engine = Engine::new(&opened, &plan, memory.bytes()).unwrap();
    let seq = engine.open().unwrap();
    let small = Adapter::open(&bytes, &opened).unwrap();
    let room = |given| Err(EngineError::AdapterRoom { adapters: 1, rank: 4, given });
    assert_eq!(engine.load_adapter(&Adapter::open(&large, &opened).unwrap()), room(5));
    assert_eq!(engine.set_adapter(seq, 0, 1.0), Err(EngineError::Adapter { given: 0, loaded: 0 }));
    assert_eq!(engine.load_adapter(&small), Ok(0));
    assert_eq!(engine.load_adapter(&small), room(4));
    assert_eq!(engine.set_adapter(seq, 0, f32::INFINITY), Err(EngineError::AdapterScale));
    assert_eq!(engine.adapter(seq, 1), Err(EngineError::Adapter { given: 1, loaded: 1 }));
    engine.close(seq).unwrap();
    assert!(matches!(engine.set_adapter(seq, 0, 1.0), Err(EngineError::Cache(_))));
    let plan = Plan::new(&opened, &Limits { adapters: 9, ..limits(8) });
    assert!(plan.unwrap_err().to_string().contains("adapters is 9"));
}
