//! Newer architectures: folders made of the weights of a GGUF file become that file again.

use std::collections::BTreeMap;
use std::path::PathBuf;

use gguf_rs_lite::Gguf;
use gleed::Model;
use serde_json::{Value as Json, json};

use crate::{committed, converted, greedy, scratch, write_json};
use common::gguf_writer::{GgufWriter, Tensor};
use common::synthetic::{Architecture, SyntheticModel};

/// Returns the name of a tensor of a layer in a folder, for architectures with names of their own.
fn name_of(architecture: Architecture, name: &str) -> String {
    use Architecture::{Arcee, Exaone4, Glm4, Hunyuan, Lfm2, Olmo2, SeedOss};
    let own = match (architecture, name) {
        (Lfm2, "token_embd_norm") => "embedding_norm",
        (Lfm2, "attn_norm") => "operator_norm",
        (Lfm2, "ffn_norm") => "ffn_norm",
        (Lfm2, "ffn_gate") => "feed_forward.w1",
        (Lfm2, "ffn_up") => "feed_forward.w3",
        (Lfm2, "ffn_down") => "feed_forward.w2",
        (Lfm2, "attn_output") => "self_attn.out_proj",
        (Lfm2, "attn_q_norm") => "self_attn.q_layernorm",
        (Lfm2, "attn_k_norm") => "self_attn.k_layernorm",
        (Hunyuan, "attn_q_norm") => "self_attn.query_layernorm",
        (Hunyuan, "attn_k_norm") => "self_attn.key_layernorm",
        (Glm4, "post_attention_norm") => "post_self_attn_layernorm",
        (Glm4, "post_ffw_norm") => "post_mlp_layernorm",
        (Glm4, "ffn_up") => "mlp.gate_up_proj",
        (Exaone4 | Olmo2, "post_ffw_norm") => "post_feedforward_layernorm",
        (Exaone4 | Olmo2 | SeedOss, "post_attention_norm") => "post_attention_layernorm",
        (Arcee, "ffn_gate") => panic!("no gate"),
        (_, "token_embd") => "embed_tokens",
        (_, "output_norm") => "norm",
        (_, "attn_norm") => "input_layernorm",
        (_, "ffn_norm") => "post_attention_layernorm",
        (_, "attn_q") => "self_attn.q_proj",
        (_, "attn_k") => "self_attn.k_proj",
        (_, "attn_v") => "self_attn.v_proj",
        (_, "attn_output") => "self_attn.o_proj",
        (_, "attn_q_norm") => "self_attn.q_norm",
        (_, "attn_k_norm") => "self_attn.k_norm",
        (_, "ffn_gate") => "mlp.gate_proj",
        (_, "ffn_up") => "mlp.up_proj",
        (_, "ffn_down") => "mlp.down_proj",
        (_, "ffn_gate_inp") => "mlp.gate",
        (_, "ffn_gate_exps") => "mlp.experts.{}.gate_proj",
        (_, "ffn_up_exps") => "mlp.experts.{}.up_proj",
        (_, "ffn_down_exps") => "mlp.experts.{}.down_proj",
        (_, "ffn_gate_inp_shexp") => "mlp.shared_expert_gate",
        (_, "ffn_gate_shexp") => "mlp.shared_expert.gate_proj",
        (_, "ffn_up_shexp") => "mlp.shared_expert.up_proj",
        (_, "ffn_down_shexp") => "mlp.shared_expert.down_proj",
        (_, name) => return name.replace("shortconv.", "conv."),
    };
    own.into()
}

/// Returns the tensors of a folder: names, shapes and elements.
fn tensors(model: &SyntheticModel, file: &GgufWriter) -> BTreeMap<String, (Vec<u64>, Vec<u8>)> {
    use Architecture::{Arcee, Mistral3};
    let mut found = BTreeMap::new();
    for Tensor { name, dims, data, .. } in &file.tensors {
        let (base, end) = name.rsplit_once('.').unwrap();
        let (prefix, plain) = match base.strip_prefix("blk.").and_then(|rest| rest.split_once('.')) {
            Some((layer, plain)) => (format!("model.layers.{layer}."), plain),
            None => ("model.".to_string(), base),
        };
        let heads = match plain {
            "attn_q" => model.heads,
            "attn_k" => model.kv_heads,
            _ => 0,
        };
        let pairs = heads > 0 && matches!(model.architecture, Arcee | Mistral3);
        let data = if pairs { halves(data, dims, heads) } else { data.clone() };
        let mut shape: Vec<u64> = dims.iter().rev().copied().collect();
        let name = name_of(model.architecture, plain);
        match plain {
            "output" => _ = found.insert("lm_head.weight".into(), (shape, data)),
            _ if dims.len() == 3 => {
                let part = data.len() / shape[0] as usize;
                for (expert, data) in data.chunks(part).enumerate() {
                    let name = format!("{prefix}{}.{end}", name.replace("{}", &expert.to_string()));
                    found.insert(name, (shape[1..].to_vec(), data.to_vec()));
                }
            }
            _ => {
                if plain == "shortconv.conv" {
                    shape.insert(1, 1);
                } else if plain == "ffn_gate_inp_shexp" {
                    shape.insert(0, 1);
                }
                found.insert(format!("{prefix}{name}.{end}"), (shape, data));
            }
        }
    }
    found
}

/// Returns the rows of Q or K in the order of a folder, which has halves where a file has adjacent pairs.
pub(crate) fn halves(data: &[u8], dims: &[u64], heads: usize) -> Vec<u8> {
    let rows: Vec<&[u8]> = data.chunks(dims[0] as usize * 4).collect();
    let head = rows.len() / heads;
    let row = |row: usize| {
        let (at, first) = (row % head, row - row % head);
        // Row i of the first half is the even row of pair i.
        rows[first + if at < head / 2 { 2 * at } else { 2 * (at - head / 2) + 1 }]
    };
    (0..rows.len()).flat_map(|index| row(index).to_vec()).collect()
}

/// Writes a folder with a model's weights.
fn folder(model: &SyntheticModel, class: &str, more: Json) -> PathBuf {
    let (folder, file) = (scratch("newer"), model.writer());
    std::fs::create_dir_all(&folder).unwrap();
    let mut config = json!({"architectures": [class], "vocab_size": model.vocab, "hidden_size": model.hidden,
        "intermediate_size": model.ffn, "num_hidden_layers": model.layers, "num_attention_heads": model.heads,
        "num_key_value_heads": model.kv_heads, "head_dim": model.head_dim, "max_position_embeddings": model.context,
        "rms_norm_eps": model.norm_eps, "tie_word_embeddings": model.tied,
        "rope_parameters": {"rope_type": "default", "rope_theta": model.rope_base}});
    config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    write_json(&folder.join("config.json"), &config);
    let (mut header, mut data) = (serde_json::Map::new(), Vec::new());
    for (name, (shape, bytes)) in tensors(model, &file) {
        let begin = data.len();
        data.extend(bytes);
        header.insert(name, json!({"dtype": "F32", "shape": shape, "data_offsets": [begin, data.len()]}));
    }
    let header = serde_json::to_vec(&header).unwrap();
    let whole = [&(header.len() as u64).to_le_bytes()[..], &header, &data].concat();
    std::fs::write(folder.join("model.safetensors"), whole).unwrap();
    folder
}

/// Returns the models, the class of each, and its special keys of `config.json`.
fn models() -> Vec<(SyntheticModel, &'static str, Json)> {
    use Architecture::*;
    let of = SyntheticModel::of;
    let yarn = json!({"rope_type": "yarn", "rope_theta": of(Mistral3).rope_base, "factor": 4.0, "mscale": 1.0,
        "mscale_all_dim": 1.0, "original_max_position_embeddings": 16, "llama_4_scaling_beta": 0.5});
    // The converter computes the base from this one. The result is the base of the model.
    let alpha: f64 = 1000.0;
    let exponent = of(Hunyuan).head_dim as f64 / (of(Hunyuan).head_dim as f64 - 2.0);
    let theta = f64::from(of(Hunyuan).rope_base) / alpha.powf(exponent);
    let dynamic = json!({"rope_type": "dynamic", "alpha": alpha, "factor": 1.0, "rope_theta": theta});
    let windows = |model: SyntheticModel| model.with("attention.sliding_window", 16u32);
    let types: Vec<_> = (0..5).map(|layer| if layer == 3 { "full_attention" } else { "sliding_attention" }).collect();
    let mixed: Vec<_> = (0..3).map(|layer| if layer % 2 == 0 { "conv" } else { "full_attention" }).collect();
    let experts = |model: &SyntheticModel| {
        json!({"num_experts": model.experts, "num_experts_per_tok": 2, "norm_topk_prob": false,
            "moe_intermediate_size": model.ffn, "shared_expert_intermediate_size": model.shared()})
    };
    vec![
        (of(Ernie45), "Ernie4_5ForCausalLM", json!({"use_bias": false})),
        (of(Exaone4), "Exaone4ForCausalLM", json!({"sliding_window": null})),
        (
            windows(SyntheticModel { layers: 5, ..of(Exaone4) }),
            "Exaone4ForCausalLM",
            json!({"sliding_window": 16, "sliding_window_pattern": "LLLG", "layer_types": types}),
        ),
        (of(Hunyuan), "HunYuanDenseV1ForCausalLM", json!({"rope_parameters": dynamic})),
        (of(Glm4), "Glm4ForCausalLM", json!({"partial_rotary_factor": 0.5})),
        (of(SeedOss), "SeedOssForCausalLM", json!({})),
        (of(Arcee), "ArceeForCausalLM", json!({"hidden_act": "relu2"})),
        (of(Mistral3), "Ministral3ForCausalLM", json!({"rope_parameters": yarn})),
        (of(Olmoe), "OlmoeForCausalLM", experts(&of(Olmoe))),
        (of(Qwen2Moe), "Qwen2MoeForCausalLM", experts(&of(Qwen2Moe))),
        (
            of(Lfm2),
            "Lfm2ForCausalLM",
            json!({"layer_types": mixed, "conv_L_cache": 3, "norm_eps": of(Lfm2).norm_eps, "conv_bias": false,
                "intermediate_size": of(Lfm2).ffn * 3 / 2, "block_multiple_of": 8}),
        ),
    ]
}

#[test]
fn folders_of_newer_families() {
    for (model, class, more) in models() {
        let original = model.bytes();
        let ours = converted(&folder(&model, class, more), &["--type", "f32"]);
        let (file, wanted) = (Gguf::parse(&ours).unwrap(), Gguf::parse(&original).unwrap());
        assert_eq!(file.tensor_count(), wanted.tensor_count(), "{class}");
        for info in wanted.tensors() {
            let found = file.tensor(info.name()).unwrap_or_else(|| panic!("{class}: no {}", info.name()));
            // The matrix of a router with one output may have one or two dimensions.
            let is_row = info.name().ends_with("ffn_gate_inp_shexp.weight");
            assert!(is_row || found.dims() == info.dims(), "{class}: {} {:?}", info.name(), found.dims());
            assert!(found.data() == info.data(), "{class}: {}", info.name());
        }
        let [mut config, expected] = [&ours, &original].map(|file| *Model::open(file).unwrap().config());
        // No layer has this width.
        config.feed_forward.other_width = expected.feed_forward.other_width;
        // Powers are rounded.
        for (ours, theirs) in config.rope.frequencies.iter_mut().zip(expected.rope.frequencies) {
            if let (Some(ours), Some(theirs)) = (ours, theirs) {
                assert!((ours.base / theirs.base - 1.0).abs() < 1e-5, "{class}: {} {}", ours.base, theirs.base);
                ours.base = theirs.base;
            }
        }
        assert_eq!(config, expected, "{class}");
    }
}

/// Recurrent layers have kernels and vectors that stay F32.
#[test]
fn files_with_recurrent_layers_get_other_types() {
    for name in ["lfm2", "qwen35", "granitehybrid", "falcon-h1"] {
        let path = committed("recurrent").join(format!("{name}.gguf"));
        let file = converted(&path, &["--type", "q8_0"]);
        let gguf = Gguf::parse(&file).unwrap();
        assert!(gguf.tensors().any(|info| info.ggml_type().name() == "Q8_0"), "{name}");
        assert_eq!(greedy(&file, &[1, 5, 9], 4).len(), 4);
    }
}

/// Settings of these families that Gleed does not compute are refused.
#[test]
fn settings_of_newer_families_are_refused() {
    use crate::refused::refused;
    let made = |index: usize, key: &str, value: Json| {
        let (model, class, mut more) = models().swap_remove(index);
        more[key] = value;
        folder(&model, class, more)
    };
    refused(&made(7, "rope_parameters", json!({"rope_type": "yarn", "factor": 4.0, "mscale": 0.5})), &[], "mscale");
    refused(&made(8, "clip_qkv", json!(8.0)), &[], "clip_qkv");
    refused(&made(8, "norm_topk_prob", json!(true)), &[], "norm_topk_prob");
    refused(&made(9, "decoder_sparse_step", json!(2)), &[], "decoder_sparse_step");
    refused(&made(10, "layer_types", json!(["conv"])), &[], "layer_types has 1 elements");
    refused(&made(10, "conv_bias", json!(true)), &[], "conv_bias");
}
