//! Families whose folders differ more from files: in the names of tensors and in the order of their elements.

use std::collections::BTreeMap;
use std::path::PathBuf;

use gguf_rs_lite::Gguf;
use gleed::Model;
use gleed::tensor::Dtype;
use serde_json::{Value as Json, json};

use crate::{convert, converted, scratch, write_json};
use common::gguf_writer::{GgufWriter, Tensor};
use common::random::Rng;
use common::synthetic::{Architecture, SyntheticModel};

/// Tensors of a folder by name: type, shape and bytes.
pub(crate) type Stored = BTreeMap<String, (&'static str, Vec<u64>, Vec<u8>)>;

/// Returns the name of a tensor of a layer in a folder.
fn name_of(architecture: Architecture, name: &str) -> String {
    use Architecture::{FalconH1, Gemma4, GptOss, GraniteHybrid, Qwen35};
    let state = if architecture == Qwen35 { "linear_attn" } else { "mamba" };
    let own = match (architecture, name) {
        (FalconH1, "output_norm.weight") => "final_layernorm.weight",
        (FalconH1, "ffn_norm") => "pre_ff_layernorm.weight",
        (FalconH1, "ffn_gate.weight") => "feed_forward.gate_proj.weight",
        (FalconH1, "ffn_up.weight") => "feed_forward.up_proj.weight",
        (FalconH1, "ffn_down.weight") => "feed_forward.down_proj.weight",
        (GraniteHybrid, "ffn_down.weight") => "shared_mlp.output_linear.weight",
        (GptOss, "ffn_gate_inp.weight") => "mlp.router.weight",
        (GptOss, "ffn_gate_inp.bias") => "mlp.router.bias",
        (GptOss, "attn_sinks.weight") => "self_attn.sinks",
        (GptOss, "ffn_down_exps.bias") => "mlp.experts.down_proj_bias",
        (Qwen35 | GptOss, "post_attention_norm.weight") => "post_attention_layernorm.weight",
        (Gemma4, "post_attention_norm.weight") => "post_attention_layernorm.weight",
        (Gemma4, "ffn_norm.weight") => "pre_feedforward_layernorm.weight",
        (Gemma4, "post_ffw_norm.weight") => "post_feedforward_layernorm.weight",
        (Gemma4, "post_norm.weight") => "post_per_layer_input_norm.weight",
        (Gemma4, "inp_gate.weight") => "per_layer_input_gate.weight",
        (Gemma4, "proj.weight") => "per_layer_projection.weight",
        (Gemma4, "layer_output_scale.weight") => "layer_scalar",
        (Gemma4, "per_layer_token_embd.weight") => "embed_tokens_per_layer.weight",
        (Gemma4, "per_layer_model_proj.weight") => "per_layer_model_projection.weight",
        (Gemma4, "per_layer_proj_norm.weight") => "per_layer_projection_norm.weight",
        (_, "token_embd.weight") => "embed_tokens.weight",
        (_, "output_norm.weight") => "norm.weight",
        (_, "attn_norm.weight") => "input_layernorm.weight",
        (_, "ffn_norm.weight") => "post_attention_layernorm.weight",
        (_, "attn_q_norm.weight") => "self_attn.q_norm.weight",
        (_, "attn_k_norm.weight") => "self_attn.k_norm.weight",
        (_, "ffn_gate.weight") => "mlp.gate_proj.weight",
        (_, "ffn_up.weight") => "mlp.up_proj.weight",
        (_, "ffn_down.weight") => "mlp.down_proj.weight",
        (_, "attn_qkv.weight") => "linear_attn.in_proj_qkv.weight",
        (_, "attn_gate.weight") => "linear_attn.in_proj_z.weight",
        (_, "ssm_alpha.weight") => "linear_attn.in_proj_a.weight",
        (_, "ssm_beta.weight") => "linear_attn.in_proj_b.weight",
        (_, name) => {
            let attention = [("attn_q.", "q"), ("attn_k.", "k"), ("attn_v.", "v"), ("attn_output.", "o")];
            if let Some((from, to)) = attention.iter().find(|(from, _)| name.starts_with(from)) {
                return name.replace(from, &format!("self_attn.{to}_proj."));
            }
            let states = [
                ("ssm_in.", "in_proj."),
                ("ssm_conv1d.", "conv1d."),
                ("ssm_norm.", "norm."),
                ("ssm_out.", "out_proj."),
                ("ssm_dt.bias", "dt_bias"),
                ("ssm_a", "A_log"),
                ("ssm_d", "D"),
            ];
            let (from, to) = states.iter().find(|(from, _)| name.starts_with(from)).unwrap_or_else(|| panic!("{name}"));
            return format!("{state}.{}", name.replace(from, to));
        }
    };
    own.into()
}

/// Returns the elements of a tensor, each changed.
pub(crate) fn each(data: &[u8], change: impl Fn(f32) -> f32) -> Vec<u8> {
    let elements = data.as_chunks().0.iter().map(|&bytes| change(f32::from_le_bytes(bytes)));
    elements.flat_map(f32::to_le_bytes).collect()
}

/// Splits the data into pieces of `piece` bytes and puts them in another order.
fn ordered(data: &[u8], piece: usize, order: &[usize]) -> Vec<u8> {
    let pieces: Vec<&[u8]> = data.chunks(piece).collect();
    assert_eq!(pieces.len(), order.len());
    order.iter().flat_map(|&index| pieces[index].to_vec()).collect()
}

/// Indices in a file of the 4 value heads of the delta rule (of 2 key heads), in the order of a folder.
const TILED: [usize; 4] = [0, 2, 1, 3];

/// Returns the data of a tensor as a folder has it, if it differs from the file.
fn laid_out(model: &SyntheticModel, name: &str, dims: &[u64], data: &[u8]) -> Vec<u8> {
    let row = dims[0] as usize * 4;
    match (model.architecture, name) {
        (_, "ssm_a") if model.architecture == Architecture::Qwen35 => ordered(&each(data, |x| (-x).ln()), 4, &TILED),
        (_, "ssm_a") => each(data, |x| (-x).ln()),
        (Architecture::Qwen35, name) if name.contains("norm") && name != "ssm_norm.weight" => each(data, |x| x - 1.0),
        (Architecture::Qwen35, "ssm_dt.bias") => ordered(data, 4, &TILED),
        (Architecture::Qwen35, "ssm_alpha.weight" | "ssm_beta.weight") => ordered(data, row, &TILED),
        (Architecture::Qwen35, "attn_gate.weight") => ordered(data, data.len() / 4, &TILED),
        (Architecture::Qwen35, "attn_qkv.weight" | "ssm_conv1d.weight") => {
            // The queries and keys are 2 heads of 12 each.
            let (keys, values) = data.split_at(2 * 2 * 12 * row);
            [keys, &ordered(values, values.len() / 4, &TILED)].concat()
        }
        (Architecture::Qwen35, "ssm_out.weight") => {
            data.chunks(row).flat_map(|row| ordered(row, row.len() / 4, &TILED)).collect()
        }
        (Architecture::GraniteHybrid, "attn_q.weight") => super::newer::halves(data, dims, model.heads),
        (Architecture::GraniteHybrid, "attn_k.weight") => super::newer::halves(data, dims, model.kv_heads),
        _ => data.to_vec(),
    }
}

/// Returns the tensors of a folder.
fn stored(model: &SyntheticModel, file: &GgufWriter) -> Stored {
    let data = |name: &str| file.tensors.iter().find(|tensor| tensor.name == name).map(|tensor| &tensor.data);
    let mut found = Stored::new();
    for Tensor { name, dims, data: bytes, .. } in &file.tensors {
        let (prefix, plain) = match name.strip_prefix("blk.").and_then(|rest| rest.split_once('.')) {
            Some((layer, plain)) => (format!("model.layers.{layer}."), plain),
            None => ("model.".to_string(), name.as_str()),
        };
        let blk = name.strip_suffix(plain).unwrap();
        let mut shape: Vec<u64> = dims.iter().rev().copied().collect();
        let mut put = |name: String, shape: Vec<u64>, bytes| _ = found.insert(name, ("F32", shape, bytes));
        match (model.architecture, plain) {
            (_, "output.weight") => put("lm_head.weight".into(), shape, bytes.clone()),
            (_, "rope_freqs.weight") => {}
            // The gate is the first half of one matrix.
            (Architecture::GraniteHybrid, "ffn_gate.weight") => {
                let both = [&bytes[..], data(&format!("{blk}ffn_up.weight")).unwrap()].concat();
                put(format!("{prefix}shared_mlp.input_linear.weight"), vec![2 * shape[0], shape[1]], both);
            }
            (Architecture::GraniteHybrid, "ffn_up.weight") => {}
            // Columns of gate and up alternate.
            (Architecture::GptOss, "ffn_gate_exps.weight") => {
                let up = data(&format!("{blk}ffn_up_exps.weight")).unwrap();
                let [cols, rows, count] = [dims[0], dims[1], dims[2]].map(|dim| dim as usize);
                let at = |from: &[u8], matrix: usize, row: usize, col: usize| {
                    let first = ((matrix * rows + row) * cols + col) * 4;
                    from[first..first + 4].to_vec()
                };
                let mut both = Vec::new();
                for matrix in 0..count {
                    for col in 0..cols {
                        for row in 0..rows {
                            both.extend(at(bytes, matrix, row, col));
                            both.extend(at(up, matrix, row, col));
                        }
                    }
                }
                put(format!("{prefix}mlp.experts.gate_up_proj"), vec![dims[2], dims[0], 2 * dims[1]], both);
            }
            (Architecture::GptOss, "ffn_down_exps.weight") => {
                let [cols, rows, count] = [dims[0], dims[1], dims[2]].map(|dim| dim as usize);
                let element = |index: usize| {
                    let (matrix, rest) = (index / (rows * cols), index % (rows * cols));
                    let first = ((matrix * rows + rest % rows) * cols + rest / rows) * 4;
                    bytes[first..first + 4].to_vec()
                };
                let columns = (0..rows * cols * count).flat_map(element).collect();
                put(format!("{prefix}mlp.experts.down_proj"), vec![dims[2], dims[0], dims[1]], columns);
            }
            (Architecture::GptOss, "ffn_gate_exps.bias") => {
                let up = data(&format!("{blk}ffn_up_exps.bias")).unwrap();
                let both = bytes.chunks(4).zip(up.chunks(4)).flat_map(|(gate, up)| [gate, up].concat()).collect();
                put(format!("{prefix}mlp.experts.gate_up_proj_bias"), vec![shape[0], 2 * shape[1]], both);
            }
            (Architecture::GptOss, "ffn_up_exps.weight" | "ffn_up_exps.bias") => {}
            _ => {
                match plain {
                    "ssm_conv1d.weight" => shape.insert(1, 1),
                    "ssm_a" | "ssm_d" | "ssm_norm.weight" => shape = vec![shape.iter().product()],
                    _ => {}
                }
                put(
                    format!("{prefix}{}", name_of(model.architecture, plain)),
                    shape,
                    laid_out(model, plain, dims, bytes),
                );
            }
        }
    }
    found
}

/// Writes a folder with these tensors.
pub(crate) fn folder(model: &SyntheticModel, class: &str, more: &Json, tensors: &Stored) -> PathBuf {
    let folder = scratch("families");
    std::fs::create_dir_all(&folder).unwrap();
    let mut config = json!({"architectures": [class], "vocab_size": model.vocab, "hidden_size": model.hidden,
        "intermediate_size": model.ffn, "num_hidden_layers": model.layers, "num_attention_heads": model.heads,
        "num_key_value_heads": model.kv_heads, "head_dim": model.head_dim, "max_position_embeddings": model.context,
        "rms_norm_eps": model.norm_eps, "tie_word_embeddings": model.tied,
        "rope_parameters": {"rope_type": "default", "rope_theta": model.rope_base}});
    config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    write_json(&folder.join("config.json"), &config);
    let (mut header, mut data) = (serde_json::Map::new(), Vec::new());
    for (name, (dtype, shape, bytes)) in tensors {
        let begin = data.len();
        data.extend(bytes);
        header.insert(name.clone(), json!({"dtype": dtype, "shape": shape, "data_offsets": [begin, data.len()]}));
    }
    let header = serde_json::to_vec(&header).unwrap();
    let whole = [&(header.len() as u64).to_le_bytes()[..], &header, &data].concat();
    std::fs::write(folder.join("model.safetensors"), whole).unwrap();
    folder
}

/// Returns the models, the class of each, and its special keys of `config.json`.
fn models() -> Vec<(SyntheticModel, &'static str, Json)> {
    use Architecture::{FalconH1, Gemma4, GptOss, GraniteHybrid, Qwen35};
    let of = SyntheticModel::of;
    let kinds = |model: &SyntheticModel, state: &str, attention: &str| -> Vec<String> {
        (0..model.layers).map(|layer| if layer % 2 == 0 { state } else { attention }.to_string()).collect()
    };
    let gemma = of(Gemma4);
    let types: Vec<&str> = (0..gemma.layers)
        .map(|layer| if gemma.is_full(layer) { "full_attention" } else { "sliding_attention" })
        .collect();
    let full = gemma.layer_shape(1);
    let mamba = |groups: usize| {
        json!({"mamba_d_conv": 4, "mamba_d_state": 12, "mamba_n_groups": groups, "mamba_n_heads": 4, "mamba_expand": 1,
            "mamba_d_ssm": 64})
    };
    let mut granite = mamba(2);
    granite.as_object_mut().unwrap().extend(
        json!({"layer_types": kinds(&of(GraniteHybrid), "mamba", "attention"), "shared_intermediate_size": of(GraniteHybrid).ffn,
            "num_local_experts": 0, "position_embedding_type": "nope", "embedding_multiplier": 2.5,
            "residual_multiplier": 0.5, "logits_scaling": 2.0})
        .as_object()
        .unwrap()
        .clone(),
    );
    vec![
        (
            of(Qwen35),
            "Qwen3_5ForCausalLM",
            json!({"layer_types": kinds(&of(Qwen35), "linear_attention", "full_attention"), "linear_conv_kernel_dim": 4,
                "linear_key_head_dim": 12, "linear_num_key_heads": 2, "linear_num_value_heads": 4,
                "linear_value_head_dim": 16, "full_attention_interval": 2,
                "rope_parameters": {"rope_theta": of(Qwen35).rope_base,
                    "partial_rotary_factor": Qwen35.form().rotary_share}}),
        ),
        (of(GraniteHybrid), "GraniteMoeHybridForCausalLM", granite),
        (of(FalconH1), "FalconH1ForCausalLM", mamba(1)),
        (
            of(GptOss),
            "GptOssForCausalLM",
            json!({"num_local_experts": of(GptOss).experts, "num_experts_per_tok": 2, "sliding_window": 16,
                "rope_parameters": {"rope_type": "yarn", "rope_theta": of(GptOss).rope_base, "factor": 4.0,
                    "original_max_position_embeddings": 256, "truncate": false}}),
        ),
        (
            gemma.clone(),
            "Gemma4ForCausalLM",
            json!({"layer_types": types, "sliding_window": 16, "global_head_dim": full.head_dim,
                "num_kv_shared_layers": gemma.shared_kv(), "use_double_wide_mlp": true, "final_logit_softcapping": 2.0,
                "hidden_size_per_layer_input": gemma.hidden / 2, "hidden_activation": "gelu_pytorch_tanh",
                "rope_parameters": {
                    "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
                    "full_attention": {"rope_type": "proportional", "rope_theta": 1e6, "partial_rotary_factor": 0.25}}}),
        ),
    ]
}

#[test]
fn folders_become_the_files_that_they_were_made_of() {
    for (model, class, more) in models() {
        let writer = model.writer();
        let original = writer.finish();
        let ours = converted(&folder(&model, class, &more, &stored(&model, &writer)), &["--type", "f32"]);
        let (file, wanted) = (Gguf::parse(&ours).unwrap(), Gguf::parse(&original).unwrap());
        assert_eq!(file.tensor_count(), wanted.tensor_count(), "{class}");
        for info in wanted.tensors() {
            let name = info.name().to_string();
            let found = file.tensor(info.name()).unwrap_or_else(|| panic!("{class}: no {name}"));
            assert_eq!(found.dims(), info.dims(), "{class}: {name}");
            // Logarithms and sums are rounded.
            let rounded = name.ends_with("ssm_a") || class.starts_with("Qwen") && name.contains("norm");
            let floats =
                |data: &[u8]| -> Vec<f32> { data.as_chunks().0.iter().map(|&x| f32::from_le_bytes(x)).collect() };
            if rounded {
                for (ours, theirs) in floats(found.data()).iter().zip(floats(info.data())) {
                    assert!((ours - theirs).abs() <= 1e-6 * theirs.abs(), "{class}: {name}: {ours} {theirs}");
                }
            } else if name != "rope_freqs.weight" {
                assert!(found.data() == info.data(), "{class}: {name}");
            }
        }
        let [mut config, expected] = [&ours, &original].map(|file| *Model::open(file).unwrap().config());
        config.feed_forward.other_width = expected.feed_forward.other_width;
        assert_eq!(config, expected, "{class}");
    }
}

/// Published experts of gpt-oss have pairs of neighbours in a byte, scales beside them, and rows of gate and up in
/// turn. In a file, the elements i and i + 16 share a byte.
#[test]
fn experts_in_blocks_stay_as_they_are() {
    let (model, class, mut more) = models().swap_remove(3);
    let model = SyntheticModel { ffn: 96, ..model };
    more["intermediate_size"] = json!(96);
    let mut tensors = stored(&model, &model.writer());
    let mut rng = Rng::new(4);
    let mut bytes = |len: usize| -> Vec<u8> { (0..len).map(|_| (100 + rng.below(20)) as u8).collect() };
    let (count, hidden, ffn) = (model.experts, model.hidden, model.ffn);
    let mut given = BTreeMap::new();
    for layer in 0..model.layers {
        for (name, rows, cols) in [("gate_up_proj", 2 * ffn, hidden), ("down_proj", hidden, ffn)] {
            let name = format!("model.layers.{layer}.mlp.experts.{name}");
            tensors.remove(&name).unwrap();
            let [codes, scales] = [16, 1].map(|each| bytes(count * rows * cols / 32 * each));
            given.insert(name.clone(), (codes.clone(), scales.clone()));
            let [count, rows, blocks] = [count, rows, cols / 32].map(|n| n as u64);
            tensors.insert(format!("{name}_blocks"), ("U8", vec![count, rows, blocks, 16], codes));
            tensors.insert(format!("{name}_scales"), ("U8", vec![count, rows, blocks], scales));
        }
    }
    let ours = converted(&folder(&model, class, &more, &tensors), &[]);
    let file = Gguf::parse(&ours).unwrap();
    for layer in 0..model.layers {
        for (to, from, step, first, cols) in
            [("gate", "gate_up", 2, 0, hidden), ("up", "gate_up", 2, 1, hidden), ("down", "down", 1, 0, ffn)]
        {
            let info = file.tensor(&format!("blk.{layer}.ffn_{to}_exps.weight")).unwrap();
            assert_eq!(Dtype::from_ggml(info.ggml_type().number()), Some(Dtype::MXFP4));
            let (codes, scales) = &given[&format!("model.layers.{layer}.mlp.experts.{from}_proj")];
            let blocks = cols / 32;
            let mut expected = Vec::new();
            for row in (first..scales.len() / blocks).step_by(step) {
                for block in row * blocks..(row + 1) * blocks {
                    let code = |at: usize| codes[block * 16 + at / 2] >> (4 * (at % 2)) & 15;
                    expected.push(scales[block]);
                    expected.extend((0..16).map(|at| code(at) | code(at + 16) << 4));
                }
            }
            assert!(info.data() == expected, "{to} of layer {layer}");
        }
    }
    // Too few scales are refused.
    let cut = tensors.get_mut("model.layers.0.mlp.experts.down_proj_scales").unwrap();
    (cut.1, cut.2) = (vec![1], vec![1]);
    let error = convert(&folder(&model, class, &more, &tensors), &scratch("cut.gguf"), &[]).unwrap_err();
    assert!(error.contains("down_proj_blocks"), "{error}");
}

/// The factors of Falcon-H1 become part of the matrices.
#[test]
fn factors_become_part_of_the_matrices() {
    let (model, class, mut more) = models().swap_remove(2);
    let (writer, factors) = (model.writer(), [2.0, 4.0, 8.0, 0.5, 0.25]);
    more["key_multiplier"] = json!(0.5);
    more["attention_in_multiplier"] = json!(4.0);
    more["ssm_in_multiplier"] = json!(2.0);
    more["ssm_multipliers"] = json!(factors);
    let ours = converted(&folder(&model, class, &more, &stored(&model, &writer)), &["--type", "f32"]);
    let (file, original) = (Gguf::parse(&ours).unwrap(), writer.finish());
    let original = Gguf::parse(&original).unwrap();
    let times = |name: &str, factor: &dyn Fn(usize) -> f32| {
        let [ours, theirs] = [&file, &original].map(|file| file.tensor(name).unwrap());
        let row = theirs.dims()[0] as usize * 4;
        let rows = theirs.data().chunks(row).enumerate();
        let expected: Vec<u8> = rows.flat_map(|(index, row)| each(row, |x| x * factor(index))).collect();
        assert!(ours.data() == expected, "{name}");
    };
    times("blk.0.attn_q.weight", &|_| 4.0);
    times("blk.0.attn_k.weight", &|_| 2.0);
    // Ends of the rows of gate and x (64 each), of B and C (12 each), and of the steps (4 heads).
    let part = |row: usize| [64, 128, 140, 152, 156].iter().position(|&end| row < end).unwrap();
    times("blk.1.ssm_in.weight", &|row| 2.0 * factors[part(row)]);
    times("blk.1.ssm_out.weight", &|_| 1.0);
}

/// A text model inside of an image model: its settings are taken, and tensors of the image part are left out.
#[test]
fn images_are_left_out() {
    let (model, _, more) = models().swap_remove(0);
    let writer = model.writer();
    let mut tensors = Stored::new();
    for (name, stored) in stored(&model, &writer) {
        tensors.insert(name.replace("model.", "model.language_model."), stored);
    }
    for name in ["model.visual.merger.weight", "model.visual.merger.bias", "mtp.norm.weight"] {
        tensors.insert(name.into(), ("F32", vec![1], vec![0; 4]));
    }
    let path = folder(&model, "Qwen3_5ForConditionalGeneration", &more, &tensors);
    let text: Json = serde_json::from_slice(&std::fs::read(path.join("config.json")).unwrap()).unwrap();
    write_json(
        &path.join("config.json"),
        &json!({"architectures": ["Qwen3_5ForConditionalGeneration"], "text_config": text}),
    );
    let out = scratch("images.gguf");
    let said = convert(&path, &out, &["--type", "f32"]).unwrap();
    assert!(said.contains("3 tensors that no text goes through are left out"), "{said}");
    let ours = std::fs::read(out).unwrap();
    assert_eq!(Model::open(&ours).unwrap().config(), Model::open(&writer.finish()).unwrap().config());
}

/// Settings of these families that Gleed does not compute are refused.
#[test]
fn settings_are_refused() {
    use crate::refused::refused;
    let made = |index: usize, key: &str, value: Json| {
        let (model, class, mut more) = models().swap_remove(index);
        more[key] = value;
        folder(&model, class, &more, &stored(&model, &model.writer()))
    };
    refused(&made(1, "layer_types", json!(["mamba", "moe"])), &[], "moe");
    refused(&made(1, "layer_types", json!(["mamba"])), &[], "1 kinds for");
    refused(&made(2, "mamba_norm_before_gate", json!(true)), &[], "mamba_norm_before_gate");
    refused(&made(0, "linear_num_value_heads", json!(3)), &[], "heads of the delta rule");
    refused(&made(3, "swiglu_limit", json!(6.0)), &[], "swiglu_limit");
    refused(&made(4, "use_bidirectional_attention", json!(true)), &[], "use_bidirectional_attention");
}
