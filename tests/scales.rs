//! Scales of matrices beside their weights, as in files with NVFP4.

use common::gguf_writer::GgufWriter;
use common::random::Rng;
use common::reference::Reference;
use common::synthetic::{Architecture, SyntheticModel, encode_f32};
use common::{Memory, dequantize, rel_l2};
use gguf_rs_lite::Name;
use gleed::model::ModelError;
use gleed::tensor::Dtype;
use gleed::{Engine, KvType, Limits, Model, Plan};

/// Names of the matrices that can have a scale, without those of experts.
const MATRICES: [&str; 16] = [
    "attn_q",
    "attn_k",
    "attn_v",
    "attn_qkv",
    "attn_gate",
    "attn_output",
    "ffn_gate",
    "ffn_up",
    "ffn_down",
    "ffn_gate_shexp",
    "ffn_up_shexp",
    "ffn_down_shexp",
    "ssm_in",
    "ssm_out",
    "ssm_alpha",
    "ssm_beta",
];

/// Adds a scale from 1/4 to 4 for each matrix and each expert of a model, and scales of their inputs. Returns the
/// number of scales, too.
fn scaled(model: &SyntheticModel) -> (GgufWriter, usize) {
    let (mut writer, mut rng, mut count) = (model.writer(), Rng::new(5), 0);
    for tensor in writer.tensors.clone() {
        let Some(name) = tensor.name.strip_suffix(".weight") else { continue };
        let plain = name.split_once('.').map_or(name, |(_, rest)| rest.split_once('.').map_or(rest, |(_, rest)| rest));
        let len = match plain {
            plain if plain.ends_with("_exps") => model.experts,
            plain if MATRICES.contains(&plain) || plain == "output" => 1,
            _ => continue,
        };
        for end in ["scale", "input_scale"] {
            let name = format!("{name}.{end}");
            // Gemma 4 has some scales of its own.
            if writer.tensors.iter().all(|tensor| tensor.name != name) {
                let values: Vec<f32> = (0..len).map(|_| (rng.uniform() * 4.0 - 2.0).exp2()).collect();
                writer.add_tensor(&name, &[len as u64], 0, encode_f32(&values));
                count += 1;
            }
        }
    }
    (writer, count)
}

/// Returns the logits of every row of a text.
fn logits(file: &[u8], tokens: &[u32]) -> Vec<Vec<f32>> {
    let model = Model::open(file).unwrap();
    let limits = Limits { context: tokens.len(), rows: 16, logit_rows: 16, kv_type: KvType::F32, ..Limits::default() };
    let plan = Plan::new(&model, &limits).unwrap();
    let mut memory = Memory::new(plan.bytes());
    let mut engine = Engine::new(&model, &plan, memory.bytes()).unwrap();
    let (sequence, mut rows) = (engine.open().unwrap(), vec![Vec::new(); tokens.len()]);
    engine.prefill_rows(sequence, tokens, |position, logits| rows[position] = logits.to_vec()).unwrap();
    rows
}

/// Returns models with all kinds of matrices, with and without experts.
fn models() -> Vec<(&'static str, SyntheticModel)> {
    use Architecture::{GptOss, GraniteHybrid, Llama, Phi3, Qwen2Moe, Qwen35};
    let mut models: Vec<_> = [Llama, Phi3, GptOss, Qwen2Moe, Qwen35, GraniteHybrid]
        .map(|one| (one.name(), SyntheticModel::of(one)))
        .to_vec();
    models
        .extend(SyntheticModel::all().into_iter().filter(|(name, _)| name.starts_with("gemma4") || *name == "mixtral"));
    models
}

#[test]
fn products_are_multiplied_by_them() {
    for (name, model) in models() {
        let (writer, count) = scaled(&model);
        assert!(count >= 7 * model.layers, "{name}: {count}");
        let file = writer.finish();
        let tokens = Rng::new(2).tokens(40, model.vocab);
        let expected = Reference::open(&file).logits(&tokens);
        let actual = logits(&file, &tokens);
        let worst = actual.iter().zip(expected.iter()).map(|(a, e)| rel_l2(a, e)).fold(0.0, f64::max);
        let without = rel_l2(&logits(&model.bytes(), &tokens).concat(), &expected.data);
        println!("{name}: {count} scales, relative error of the worst row {worst:.1e}, without scales {without:.1}");
        assert!(worst <= 5e-5 && without > 0.1, "{name}: {worst:e}, {without:e}");
    }
}

/// NVFP4 is the type whose files have such scales.
#[test]
fn nvfp4_with_scales() {
    for model in [SyntheticModel::llama(), SyntheticModel { experts: 4, ..SyntheticModel::of(Architecture::Qwen3Moe) }]
    {
        let model = SyntheticModel { hidden: 256, ffn: 512, heads: 4, head_dim: 64, weights: Dtype::NVFP4, ..model };
        let file = scaled(&model).0.finish();
        let tokens = Rng::new(3).tokens(30, model.vocab);
        let mut reference = Reference::with(&file, dequantize);
        let exact = reference.logits(&tokens);
        let actual = logits(&file, &tokens);
        let error = rel_l2(&actual.concat(), &exact.data);
        assert!(error <= 0.05, "relative error {error:e}");
        reference.int8_activations = true;
        let rounded = reference.logits(&tokens);
        let same = actual.iter().zip(rounded.iter()).filter(|(a, e)| rel_l2(a, e) <= 2e-5).count();
        println!("relative error {error:.4}, {same} of {} rows with the same codes", actual.len());
        assert!(same > 0);
    }
}

#[test]
fn a_scale_of_1_changes_no_bit() {
    let model = SyntheticModel::llama();
    let tokens = Rng::new(4).tokens(20, model.vocab);
    let plain = logits(&model.bytes(), &tokens);
    let (mut writer, _) = scaled(&model);
    for tensor in writer.tensors.iter_mut().filter(|tensor| tensor.name.ends_with(".scale")) {
        tensor.data = encode_f32(&[1.0]);
    }
    assert!(logits(&writer.finish(), &tokens) == plain);
    // The order of tensors in the file does not matter.
    writer.tensors.reverse();
    assert!(logits(&writer.finish(), &tokens) == plain);
}

#[test]
fn what_is_no_scale_is_refused() {
    let refused = |change: &dyn Fn(&mut GgufWriter)| {
        let (mut writer, _) = scaled(&SyntheticModel::llama());
        change(&mut writer);
        Model::open(&writer.finish()).unwrap_err()
    };
    let name = |name: &str| Name::new(name.as_bytes());
    let unknown = |tensor: &str| ModelError::UnknownTensor { tensor: name(tensor) };
    let one = encode_f32(&[1.0]);
    for tensor in
        ["token_embd.scale", "blk.0.attn_norm.scale", "blk.0.attn_q.bias.scale", "blk.2.attn_q.scale", "scale"]
    {
        assert_eq!(refused(&|writer| _ = writer.add_tensor(tensor, &[1], 0, one.clone())), unknown(tensor));
    }
    let twice = refused(&|writer| _ = writer.add_tensor("blk.1.ffn_up.scale", &[1], 0, one.clone()));
    assert_eq!(twice, ModelError::DuplicateTensor { tensor: name("blk.1.ffn_up.scale") });
    let alone = refused(&|writer| _ = writer.remove_tensor("output.weight"));
    assert_eq!(alone, ModelError::MissingTensor { tensor: name("output.weight") });
    for end in ["scale", "input_scale"] {
        let tensor = format!("blk.0.attn_k.{end}");
        let wide = refused(&|writer| {
            let tensor = writer.tensor_mut(&tensor);
            (tensor.dims, tensor.data) = (vec![2], encode_f32(&[1.0; 2]));
        });
        assert_eq!(wide, ModelError::TensorShape { tensor: name(&tensor), expected: [1, 1], found: [1, 2] });
        let half = refused(&|writer| {
            let tensor = writer.tensor_mut(&tensor);
            (tensor.ggml_type, tensor.data) = (1, vec![0; 2]);
        });
        assert!(matches!(half, ModelError::TensorType { tensor: found, .. } if found == name(&tensor)), "{half}");
    }
}
