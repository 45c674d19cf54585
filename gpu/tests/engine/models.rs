//! Which models run, and by which name others are refused.

use gleed::engine::PlanError;
use gleed::tensor::Dtype;
use gleed::{Engine, KvType, Limits, Model, Plan};
use gleed_gpu::{DevicePlan, GpuError};

use super::common;
use super::{Log, decode, hash, on_cpu, on_gpu};
use gleed_testing::random::Rng;
use gleed_testing::synthetic::{Architecture, SyntheticModel};

fn limits() -> Limits {
    Limits { sequences: 1, context: 48, rows: 18, logit_rows: 1, kv_type: KvType::F16, ..super::limits() }
}

/// Runs a prompt that is multiplied by tiles, and tokens after it.
fn short_story(engine: &mut Engine<'_, '_>, vocab: usize) -> Log {
    let (mut log, seq) = (Log::new(), engine.open().unwrap());
    log.push((0, hash(engine.prefill(seq, &Rng::new(3).tokens(18, vocab)).unwrap())));
    decode(engine, seq, 2, &mut log);
    log
}

/// Runs the same prompt, and tokens that the device chooses: 34 tokens in all.
fn chosen_story(engine: &mut Engine<'_, '_>, vocab: usize) -> Log {
    let (mut log, seq) = (Log::new(), engine.open().unwrap());
    engine.prefill(seq, &Rng::new(3).tokens(18, vocab)).unwrap();
    let mut ids = [0; 15];
    engine.decode_greedy(seq, 5, &mut ids).unwrap();
    log.extend(ids.map(|id| (1, u64::from(id))));
    decode(engine, seq, 1, &mut log);
    log
}

/// Asserts that these models give the CPU's bits.
pub(super) fn assert_alike(models: &[(Architecture, Dtype)]) {
    for &(architecture, weights) in models {
        let bytes = SyntheticModel { weights, ..SyntheticModel::of(architecture) }.bytes();
        assert_one(&format!("{architecture:?} {weights}"), &bytes);
    }
}

/// Asserts that a model gives the CPU's bits in a short story.
fn assert_one(name: &str, bytes: &[u8]) {
    assert_story(name, bytes, short_story);
}

/// Asserts that a model gives the CPU's bits in any story.
fn assert_story(name: &str, bytes: &[u8], story: fn(&mut Engine<'_, '_>, usize) -> Log) {
    let Some(gpu) = common::gpu() else { return };
    let model = Model::open(bytes).unwrap();
    let vocab = model.config().vocab;
    let host = |engine: &mut Engine<'_, '_>| story(engine, vocab);
    let expected = on_cpu(&model, &limits(), host);
    assert_eq!(on_gpu(gpu, &model, &limits(), host), expected, "{name}");
}

/// Returns a committed model.
fn committed(name: &str) -> Vec<u8> {
    std::fs::read(format!("{}/../tests/data/{name}.gguf", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

/// All synthetic models run. A model that does not run is refused in words that say what is missing.
#[test]
fn what_does_not_run_is_refused_by_name() {
    for (name, synthetic) in SyntheticModel::all() {
        assert_eq!(planned(&synthetic.bytes()), Ok(()), "{name}");
    }
    let other = SyntheticModel { weights: Dtype::Q5_0, ..SyntheticModel::llama() };
    assert_eq!(planned(&other.bytes()), Err("Q5_0"));
    let mut writer = SyntheticModel::llama().writer();
    writer.add_tensor("blk.0.ffn_down.scale", &[1], 0, 2_f32.to_le_bytes().to_vec());
    assert_eq!(planned(&writer.finish()), Err("matrices that have a scale beside them"));
    let wide = SyntheticModel { head_dim: 576, layers: 1, ..SyntheticModel::llama() };
    assert_eq!(planned(&wide.bytes()), Err("heads of more than 512 elements"));
}

/// Returns what is missing, if a model does not run.
fn planned(bytes: &[u8]) -> Result<(), &'static str> {
    let model = Model::open(bytes).unwrap();
    let plan = match Plan::for_device(&model, &limits()) {
        Err(PlanError::Device { what }) => return Err(what),
        plan => plan.unwrap(),
    };
    let most = gleed_gpu::Limits { binding: 128 << 20, workgroups: 65_535 };
    match DevicePlan::new(&model, &plan, most) {
        Err(GpuError::Unsupported { what }) => Err(what),
        planned => planned.map(|_| ()).map_err(|error| panic!("{error}")),
    }
}

/// A shared expert beside the chosen ones, with a gate and without.
#[test]
fn experts_of_all_rows_have_one_hash() {
    assert_alike(&[
        (Architecture::Qwen2Moe, Dtype::F32),
        (Architecture::Qwen2Moe, Dtype::Q8_0),
        (Architecture::Ernie45Moe, Dtype::Q8_0),
        (Architecture::Glm4Moe, Dtype::Q4_0),
        (Architecture::HunyuanMoe, Dtype::MXFP4),
        (Architecture::Dots1, Dtype::BF16),
    ]);
}

/// Queries and keys are normed as one row each, or by head with weights of their own, also by deviation.
#[test]
fn norms_of_heads_have_one_hash() {
    assert_alike(&[(Architecture::Olmo2, Dtype::Q8_0), (Architecture::Olmoe, Dtype::Q4_0)]);
    for name in ["mpt, q/k norm", "stablelm, parallel"] {
        let (_, made) = SyntheticModel::all().into_iter().find(|(other, _)| *other == name).unwrap();
        assert_one(name, &SyntheticModel { weights: Dtype::Q8_0, ..made }.bytes());
    }
    for name in ["more/olmo3", "more/stablelm-parallel"] {
        assert_one(name, &committed(name));
    }
}

/// An activation function with numbers of each layer.
#[test]
fn xielu_has_one_hash() {
    assert_alike(&[(Architecture::Apertus, Dtype::Q8_0), (Architecture::Apertus, Dtype::F16)]);
}

/// Queries are multiplied by a number of their position, which changes at 16 and at 32, also where the device chooses
/// the tokens.
#[test]
fn temperatures_have_one_hash() {
    let made = SyntheticModel { weights: Dtype::Q8_0, ..SyntheticModel::of(Architecture::Mistral3) };
    for bytes in [made.bytes(), committed("newer/mistral3")] {
        assert_one("mistral3", &bytes);
        assert_story("mistral3", &bytes, chosen_story);
    }
}

/// Some groups of experts are chosen first. The results of experts are added to a branch, whose norm is added to the
/// residual stream.
#[test]
fn groups_and_branches_of_experts_have_one_hash() {
    assert_alike(&[(Architecture::BailingMoe2, Dtype::Q8_0), (Architecture::Afmoe, Dtype::Q8_0)]);
}

/// Inputs of all layers, scales of layers, layers that read keys and values of others, and experts beside a
/// feed-forward layer, with norms of their own for their inputs.
#[test]
fn inputs_and_scales_of_layers_have_one_hash() {
    for name in ["gemma4", "gemma4, dense", "gemma4, experts", "gemma4, all"] {
        let (_, made) = SyntheticModel::all().into_iter().find(|(other, _)| *other == name).unwrap();
        let bytes = SyntheticModel { weights: Dtype::Q8_0, ..made }.bytes();
        assert_one(name, &bytes);
        assert_story(name, &bytes, chosen_story);
    }
}

/// Heads of 512 elements, and some that are not a multiple of 256.
#[test]
fn wide_heads_have_one_hash() {
    for head_dim in [512, 320] {
        let made = SyntheticModel { weights: Dtype::Q8_0, head_dim, layers: 1, ..SyntheticModel::llama() };
        assert_one("llama with wide heads", &made.bytes());
    }
}

/// Attention's results are multiplied by a gate for each head, or for each element. The matrix of queries can have the
/// gates, too.
#[test]
fn gates_of_attention_have_one_hash() {
    assert_alike(&[(Architecture::Spark, Dtype::Q8_0), (Architecture::Spark, Dtype::F16)]);
    for weights in [Dtype::Q8_0, Dtype::F32] {
        let layer = Some(Architecture::Qwen35.form().layer);
        let made = SyntheticModel { weights, layers: 2, layer, ..SyntheticModel::of(Architecture::Qwen35) };
        assert_one("qwen35 without states", &made.with("full_attention_interval", 1u32).bytes());
    }
}

/// The results of attention wait while the feed-forward layer reads its norm.
#[test]
fn branches_side_by_side_have_one_hash() {
    assert_alike(&[(Architecture::GptNeoX, Dtype::Q8_0), (Architecture::Cohere2, Dtype::Q4_0)]);
}
