//! Every architecture and its options, on synthetic models: compared with the f64 reference, the same bits in every way
//! to compute them, and damaged files.

use common::gguf_writer::GgufWriter;
use common::playback::{Plain, Stage};
use common::random::Rng;
use common::reference::Reference;
use common::synthetic::{Architecture, SyntheticModel};
use common::{Memory, rel_l2};
use gleed::host::ThreadPool;
use gleed::kernels::Level;
use gleed::model::ModelError;
use gleed::par::Serial;
use gleed::tensor::Dtype;
use gleed::{Engine, KvKind, KvType, Limits, Model, Plan};

/// More tokens than the windows have, and more than phi3's short factors are for.
const TOKENS: usize = 70;

/// Returns the largest relative error among the rows of the engine's logits, compared with the reference.
fn worst_row(name: &str, model: &SyntheticModel, context: usize) -> f64 {
    let file = model.bytes();
    let tokens = Rng::new(3).tokens(TOKENS.min(context), model.vocab);
    let mut reference = Reference::open(&file);
    reference.planned_context = Some(context);
    let expected = reference.logits(&tokens);
    let opened = Model::open(&file).unwrap_or_else(|error| panic!("{name}: {error}"));
    let limits = Limits { context, rows: 32, logit_rows: 32, kv_type: KvType::F32, ..Limits::default() };
    let plan = Plan::new(&opened, &limits).unwrap();
    let mut memory = Memory::new(plan.bytes());
    let mut engine = Engine::new(&opened, &plan, memory.bytes()).unwrap();
    let seq = engine.open().unwrap();
    let mut worst = 0_f64;
    let mut compare = |position: usize, logits: &[f32]| worst = worst.max(rel_l2(logits, expected.row(position)));
    engine.prefill_rows(seq, &tokens, &mut compare).unwrap();
    worst
}

#[test]
fn agree_with_the_reference() {
    for (name, model) in SyntheticModel::all() {
        let worst = worst_row(name, &model, 200);
        println!("{name}: relative error of the worst row {worst:.1e}");
        assert!(worst <= 1e-5, "{name}: {worst:e}");
    }
}

/// Heads whose dimension is no multiple of 16, an odd number of heads, and an odd width.
#[test]
fn agree_with_the_reference_in_odd_shapes() {
    for (name, model) in SyntheticModel::all() {
        let odd = SyntheticModel { hidden: 90, ffn: 33, heads: 9, kv_heads: 3, head_dim: 10, vocab: 61, ..model };
        // These need as many KV heads as heads.
        let of_all_heads = SyntheticModel { heads: 9, kv_heads: 9, ..odd.clone() };
        let odd = if ["gpt2", "bloom", "mpt", "mpt, q/k norm"].contains(&name) { of_all_heads } else { odd };
        let worst = worst_row(name, &odd, 200);
        assert!(worst <= 1e-5, "{name}: {worst:e}");
    }
}

/// A plan for short sequences takes the short factors.
#[test]
fn short_plans_of_phi3() {
    let all = SyntheticModel::all();
    let (name, model) = all.iter().find(|(name, _)| *name == "phi3, long").unwrap();
    let [short, long] = [20, 200].map(|context| worst_row(name, model, context));
    assert!(short <= 1e-5 && long <= 1e-5, "{short:e} {long:e}");
}

/// Covers chunks, levels, threads, batches of sequences, and steps, with weights of 32-bit floats and of blocks.
#[test]
fn the_same_bits_in_every_way() {
    let pool = ThreadPool::new(2).unwrap();
    for (name, model) in SyntheticModel::all().into_iter().filter(|(name, _)| *name != "phi3, long") {
        for weights in [Dtype::F32, Dtype::Q8_0] {
            let model = SyntheticModel { layers: model.layers.min(6), weights, ..model.clone() };
            let file = model.bytes();
            let opened = Model::open(&file).unwrap();
            let mut plain = Plain::new(&opened, KvType::F16);
            let [first, second] = [4, 5].map(|seed| Rng::new(seed).tokens(40, model.vocab));
            let mut play = |rows: usize, budget: usize, level: Level, threads: usize, kv_kind: KvKind| {
                let limits = Limits {
                    sequences: 3,
                    context: 64,
                    rows,
                    logit_rows: rows,
                    kv_kind,
                    workers: threads,
                    level,
                    ..Limits::default()
                };
                let stage = Stage { budget, ..Stage::new(limits) };
                let stage = Stage { parallel: if threads > 1 { &pool } else { &Serial }, ..stage };
                let recorded = stage.play(&opened, |player| {
                    let (a, b) = (player.open(), player.open());
                    player.queue(a, &first[..30]);
                    player.queue(b, &second);
                    player.run();
                    let fork = player.fork(a, 21);
                    player.queue(fork, &second[..5]);
                    player.queue(a, &first[30..]);
                    player.run();
                });
                plain.assert_same(&recorded, &(name, weights, rows, budget, level, threads, kv_kind));
            };
            for level in Level::available() {
                play(17, usize::MAX, level, 1, KvKind::Paged);
            }
            play(64, 3, Level::detect(), 2, KvKind::Paged);
            play(1, usize::MAX, Level::detect(), 1, KvKind::Basic);
        }
    }
}

/// A file without a tensor is refused, except for a few optional tensors. So is a file with an unknown tensor.
#[test]
fn tensors_are_needed() {
    // Optional tensors of Gemma 4. A layer without a matrix for values takes its keys as values.
    const OPTIONAL: [&str; 3] = ["attn_v.weight", "layer_output_scale.weight", "ffn_down_exps.scale"];
    for (name, model) in SyntheticModel::all() {
        // One layer of each kind. The third layer may read keys and values of another layer.
        let layers = if model.shared_kv() > 0 { 3 } else { model.architecture.turn().max(2) };
        let model = SyntheticModel { layers, ..model };
        let writer = model.writer();
        for (index, tensor) in writer.tensors.iter().enumerate() {
            let mut changed = writer.clone();
            changed.tensors.remove(index);
            // Files without some of these tensors are other models: with a tied or fused matrix, a shared norm, or no
            // bias.
            let optional = ["output.weight", "rope_freqs.weight"].contains(&tensor.name.as_str())
                || tensor.name.ends_with(".bias") && !tensor.name.ends_with("ssm_dt.bias")
                || model.architecture == Architecture::Gemma4 && OPTIONAL.iter().any(|end| tensor.name.ends_with(end))
                || ["q_norm.weight", "k_norm.weight", "ffn_norm.weight"].iter().any(|end| tensor.name.ends_with(end));
            match Model::open(&changed.finish()) {
                Ok(_) => assert!(optional, "{name}: opened without {}", tensor.name),
                Err(error) => {
                    let missing =
                        matches!(error, ModelError::MissingTensor { tensor: said } if said.to_string() == tensor.name);
                    // The missing tensor can decide what the other tensors must be.
                    let other = matches!(error, ModelError::UnknownTensor { .. } | ModelError::MissingTensor { .. });
                    assert!(missing || other, "{name}: {error} without {}", tensor.name);
                }
            }
        }
        let mut changed = writer.clone();
        changed.add_tensor("blk.0.attn_rel_b.weight", &[4], 0, vec![0; 16]);
        assert!(matches!(Model::open(&changed.finish()), Err(ModelError::UnknownTensor { .. })), "{name}");
    }
}

/// Files can have layers behind the others that predict tokens further ahead. The logits are those without these
/// layers.
#[test]
fn layers_that_predict_further_are_left_out() {
    for architecture in [Architecture::Qwen35, Architecture::Ernie45Moe, Architecture::Glm4, Architecture::Gemma3] {
        let model = SyntheticModel::of(architecture);
        let (name, layers, hidden) = (architecture.name(), model.layers, model.hidden);
        let plain = model.writer();
        let mut file = plain.clone();
        file.set(&format!("{name}.block_count"), layers as u32 + 2).set(&format!("{name}.nextn_predict_layers"), 2_u32);
        // The number in the metadata alone is refused: without the tensors its meaning is unknown.
        let refused = |file: &GgufWriter| Model::open(&file.finish()).unwrap_err().to_string();
        assert!(refused(&file).contains("nextn_predict_layers"), "{name}: {}", refused(&file));
        for layer in layers..layers + 2 {
            file.add_tensor(
                &format!("blk.{layer}.nextn.eh_proj.weight"),
                &[2 * hidden as u64, hidden as u64],
                0,
                vec![1; 8 * hidden * hidden],
            );
            for norm in ["nextn.enorm", "nextn.hnorm", "nextn.shared_head_norm", "attn_norm", "ffn_norm"] {
                file.add_tensor(&format!("blk.{layer}.{norm}.weight"), &[hidden as u64], 0, vec![1; 4 * hidden]);
            }
        }
        let logits = |file: &GgufWriter| {
            let bytes = file.finish();
            let model = Model::open(&bytes).unwrap();
            let plan = Plan::new(&model, &Limits { context: 32, ..Limits::default() }).unwrap();
            let mut memory = Memory::new(plan.bytes());
            let mut engine = Engine::new(&model, &plan, memory.bytes()).unwrap();
            let seq = engine.open().unwrap();
            (engine.prefill(seq, &[5, 6, 7, 8]).unwrap().to_vec(), plan.bytes())
        };
        assert!(logits(&file) == logits(&plain), "{name}");
        // All such layers are left out, and no other layer can be declared to be one.
        file.set(&format!("{name}.nextn_predict_layers"), layers as u32 + 2);
        assert!(refused(&file).contains("nextn_predict_layers"), "{name}");
        file.set(&format!("{name}.nextn_predict_layers"), 1_u32);
        assert!(Model::open(&file.finish()).is_err(), "{name}");
    }
}

#[test]
/// Files with random changes of bytes in the metadata and the weights are refused, or computed without a panic.
fn damaged_files() {
    let mut rng = Rng::new(9);
    for (_, model) in SyntheticModel::all() {
        let model = SyntheticModel { hidden: 16, ffn: 16, heads: 2, kv_heads: 2, head_dim: 8, vocab: 9, ..model };
        let layers = if model.shared_kv() > 0 { 3 } else { model.architecture.turn().max(2) };
        let file = SyntheticModel { layers, context: 32, ..model }.bytes();
        let metadata = Model::open(&file).unwrap().gguf().metadata_bytes().len();
        for case in 0..300 {
            let mut file = file.clone();
            let end = if case % 4 == 0 { file.len() } else { metadata };
            for _ in 0..1 + case % 3 {
                file[rng.below(end)] = rng.u64() as u8;
            }
            run_if_possible(&file);
        }
    }
}

fn run_if_possible(file: &[u8]) {
    let Ok(model) = Model::open(file) else { return };
    let Ok(plan) = Plan::new(&model, &Limits { context: 16, rows: 4, ..Limits::default() }) else { return };
    if plan.bytes() > 1 << 22 {
        return;
    }
    let mut memory = Memory::new(plan.bytes());
    let mut engine = Engine::new(&model, &plan, memory.bytes()).unwrap();
    let seq = engine.open().unwrap();
    if let Ok(logits) = engine.prefill(seq, &[1, 0, 2, 3, 1, 2]) {
        assert!(logits.iter().all(|logit| logit.is_finite()));
    }
}
