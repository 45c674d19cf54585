//! Still more architectures: folders made of the weights of a GGUF file become that file again.

use gguf_rs_lite::Gguf;
use gleed::Model;
use serde_json::{Value as Json, json};

use crate::converted;
use crate::families::{Stored, each, folder};
use crate::newer::halves;
use common::gguf_writer::{GgufWriter, Tensor};
use common::synthetic::{Architecture, SyntheticModel};

/// Returns the name of a tensor in a folder, without the part before the layer and without "weight".
fn name_of(architecture: Architecture, name: &str) -> String {
    use Architecture::{ChatGlm, Ernie45Moe, Exaone, GraniteMoe, Lfm2Moe, NemotronH, NemotronHMoe};
    let own = match (architecture, name) {
        (Exaone, "token_embd") => "wte",
        (Exaone, "output_norm") => "ln_f",
        (Exaone, "attn_norm") => "ln_1",
        (Exaone, "ffn_norm") => "ln_2",
        (Exaone, "attn_output") => "attn.attention.out_proj",
        (Exaone, "ffn_gate") => "mlp.c_fc_0",
        (Exaone, "ffn_up") => "mlp.c_fc_1",
        (Exaone, "ffn_down") => "mlp.c_proj",
        (Exaone, name) if name.starts_with("attn_") => {
            return format!("attn.attention.{}_proj", name.replace("attn_", ""));
        }
        (ChatGlm, "ffn_up") => "mlp.gate_up_proj",
        (Lfm2Moe, "token_embd_norm") => "embedding_norm",
        (Lfm2Moe, "attn_norm") => "operator_norm",
        (Lfm2Moe, "ffn_norm") => "ffn_norm",
        (Lfm2Moe, "ffn_gate") => "feed_forward.w1",
        (Lfm2Moe, "ffn_up") => "feed_forward.w3",
        (Lfm2Moe, "ffn_down") => "feed_forward.w2",
        (Lfm2Moe, "ffn_gate_inp") => "feed_forward.gate",
        (Lfm2Moe, "exp_probs_b") => "feed_forward.expert_bias=",
        (Lfm2Moe, "ffn_gate_exps") => "feed_forward.experts.{}.w1",
        (Lfm2Moe, "ffn_up_exps") => "feed_forward.experts.{}.w3",
        (Lfm2Moe, "ffn_down_exps") => "feed_forward.experts.{}.w2",
        (Lfm2Moe, "attn_output") => "self_attn.out_proj",
        (Lfm2Moe, "attn_q_norm") => "self_attn.q_layernorm",
        (Lfm2Moe, "attn_k_norm") => "self_attn.k_layernorm",
        (Lfm2Moe, name) if name.starts_with("shortconv.") => return name.replace("shortconv.", "conv."),
        (GraniteMoe, "ffn_gate_inp") => "block_sparse_moe.router.layer",
        (GraniteMoe, "ffn_down_exps") => "block_sparse_moe.output_linear",
        (GraniteMoe, "ffn_down_shexp") => "shared_mlp.output_linear",
        (Ernie45Moe, "exp_probs_b") => "mlp.moe_statics.e_score_correction_bias=",
        (NemotronH | NemotronHMoe, "token_embd") => "embeddings",
        (NemotronH | NemotronHMoe, "output_norm") => "norm_f",
        (NemotronH | NemotronHMoe, "attn_norm") => "norm",
        (NemotronH | NemotronHMoe, "attn_output") => "mixer.o_proj",
        (NemotronH | NemotronHMoe, "ssm_dt") => "mixer.dt_bias=",
        (NemotronH | NemotronHMoe, "ssm_a") => "mixer.A_log=",
        (NemotronH | NemotronHMoe, "ssm_d") => "mixer.D=",
        (NemotronH | NemotronHMoe, "exp_probs_b") => "mixer.gate.e_score_correction_bias=",
        (NemotronH | NemotronHMoe, "ffn_gate_inp") => "mixer.gate",
        (NemotronH | NemotronHMoe, name) => {
            let parts = [
                ("attn_", "", "_proj"),
                ("ssm_in", "in_proj", ""),
                ("ssm_out", "out_proj", ""),
                ("ssm_", "", ""),
                ("ffn_up_exps", "experts.{}.up_proj", ""),
                ("ffn_down_exps", "experts.{}.down_proj", ""),
                ("ffn_up_shexp", "shared_experts.up_proj", ""),
                ("ffn_down_shexp", "shared_experts.down_proj", ""),
                ("ffn_", "", "_proj"),
            ];
            let (from, to, end) = parts.iter().find(|(from, ..)| name.starts_with(from)).unwrap();
            return format!("mixer.{}{end}", name.replacen(from, to, 1));
        }
        (_, "token_embd") => "embed_tokens",
        (_, "output_norm") => "norm",
        (_, "attn_norm") => "input_layernorm",
        (_, "ffn_norm") => "post_attention_layernorm",
        (_, "attn_output") => "self_attn.o_proj",
        (_, "ffn_gate_inp") => "mlp.gate",
        (_, name) => {
            let (part, end) = name.split_once('_').unwrap();
            return match (part, end.rsplit_once('_')) {
                ("attn", _) => format!("self_attn.{end}_proj"),
                (_, Some((matrix, "exps"))) => format!("mlp.experts.{{}}.{matrix}_proj"),
                (_, Some((matrix, "shexp"))) => format!("mlp.shared_experts.{matrix}_proj"),
                _ => format!("mlp.{end}_proj"),
            };
        }
    };
    own.into()
}

/// Returns the data of a tensor as a folder has it, if it differs from the file.
fn laid_out(model: &SyntheticModel, name: &str, dims: &[u64], data: &[u8]) -> Vec<u8> {
    use Architecture::{GraniteMoe, Nemotron, NemotronH, NemotronHMoe};
    let pairs = matches!(model.architecture, GraniteMoe | NemotronH | NemotronHMoe);
    match name {
        "attn_q.weight" if pairs => halves(data, dims, model.heads),
        "attn_k.weight" if pairs => halves(data, dims, model.kv_heads),
        "ssm_a" => each(data, |x| (-x).ln()),
        _ if model.architecture == Nemotron && name.ends_with("norm.weight") => each(data, |x| x - 1.0),
        _ => data.to_vec(),
    }
}

/// Returns the tensors of a folder.
fn stored(model: &SyntheticModel, file: &GgufWriter) -> Stored {
    let data = |name: &str| file.tensors.iter().find(|tensor| tensor.name == name).map(|tensor| &tensor.data);
    let (before, layers) = match model.architecture {
        Architecture::Exaone => ("transformer.", "transformer.h."),
        Architecture::NemotronH | Architecture::NemotronHMoe => ("backbone.", "backbone.layers."),
        _ => ("model.", "model.layers."),
    };
    let mut found = Stored::new();
    for Tensor { name, dims, data: bytes, .. } in &file.tensors {
        let (prefix, plain) = match name.strip_prefix("blk.").and_then(|rest| rest.split_once('.')) {
            Some((layer, plain)) => (format!("{layers}{layer}."), plain),
            None => (before.to_string(), name.as_str()),
        };
        let blk = name.strip_suffix(plain).unwrap();
        let (base, end) = match plain.strip_suffix(".weight") {
            Some(base) => (base, ".weight"),
            None => plain.strip_suffix(".bias").map_or((plain, ""), |base| (base, ".bias")),
        };
        let mut shape: Vec<u64> = dims.iter().rev().copied().collect();
        let bytes = laid_out(model, plain, dims, bytes);
        let mut put = |name: String, shape: Vec<u64>, bytes| _ = found.insert(name, ("F32", shape, bytes));
        if base == "output" {
            put("lm_head.weight".into(), shape, bytes);
            continue;
        }
        if model.architecture == Architecture::GraniteMoe && matches!(base, "ffn_gate_exps" | "ffn_gate_shexp") {
            // The gate is the first half of the rows of one matrix, or of each of several matrices.
            let up = data(&format!("{blk}{}.weight", base.replace("gate", "up"))).unwrap();
            let rows = shape.len() - 2;
            let part = (shape[rows] * shape[rows + 1] * 4) as usize;
            shape[rows] *= 2;
            let both = bytes.chunks(part).zip(up.chunks(part)).flat_map(|(gate, up)| [gate, up].concat()).collect();
            let own = if base == "ffn_gate_exps" { "block_sparse_moe" } else { "shared_mlp" };
            put(format!("{prefix}{own}.input_linear.weight"), shape, both);
            continue;
        }
        if model.architecture == Architecture::GraniteMoe && matches!(base, "ffn_up_exps" | "ffn_up_shexp") {
            continue;
        }
        let own = name_of(model.architecture, base);
        if own.contains("{}") {
            let part = bytes.len() / shape[0] as usize;
            for (expert, bytes) in bytes.chunks(part).enumerate() {
                let own = own.replace("{}", &expert.to_string());
                put(format!("{prefix}{own}.weight"), shape[1..].to_vec(), bytes.to_vec());
            }
            continue;
        }
        match base {
            "ssm_conv1d" | "shortconv.conv" if end == ".weight" => shape.insert(1, 1),
            "ssm_a" | "ssm_d" | "ssm_norm" => shape = vec![shape.iter().product()],
            "exp_probs_b" if model.architecture == Architecture::Ernie45Moe => shape.insert(0, 1),
            _ => {}
        }
        match own.strip_suffix('=') {
            Some(whole) => put(format!("{prefix}{whole}"), shape, bytes),
            None => put(format!("{prefix}{own}{end}"), shape, bytes),
        }
    }
    found
}

/// Returns the models, the class of each, and its special keys of `config.json`.
fn models() -> Vec<(SyntheticModel, &'static str, Json)> {
    use Architecture::*;
    let of = SyntheticModel::of;
    let experts = |names: [&str; 3], model: &SyntheticModel| json!({names[0]: model.experts, names[1]: 2, "moe_intermediate_size": model.ffn, names[2]: model.shared()});
    let with = |mut all: Json, more: Json| {
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        all
    };
    let kinds = |model: &SyntheticModel, other: &str| -> Vec<String> {
        (0..model.layers).map(|layer| ["mamba", other, "attention"][layer % 3].to_owned()).collect()
    };
    let state = |model: &SyntheticModel| {
        json!({"conv_kernel": 4, "ssm_state_size": 12, "n_groups": 2, "mamba_num_heads": 4, "mamba_head_dim": 16,
            "layer_norm_epsilon": model.norm_eps, "mlp_hidden_act": "relu2"})
    };
    let mixed: Vec<_> =
        (0..of(Lfm2Moe).layers).map(|layer| if layer % 2 == 0 { "conv" } else { "full_attention" }).collect();
    let slides: Vec<_> = (0..of(Cohere2).layers)
        .map(|layer| if layer % 4 == 3 { "full_attention" } else { "sliding_attention" })
        .collect();
    // A file may have one matrix of Q, K and V, but a folder has three.
    let glm = "attn_norm attn_q+ attn_k+ attn_v+ attn_output ffn_norm ffn_up:double ffn_down";
    let names = ["num_experts", "num_experts_per_tok", "unused"];
    let nemotron = ["n_routed_experts", "num_experts_per_tok", "moe_shared_expert_intermediate_size"];
    vec![
        (
            of(Lfm2Moe),
            "Lfm2MoeForCausalLM",
            with(
                experts(names, &of(Lfm2Moe)),
                json!({"layer_types": mixed, "conv_L_cache": 3, "norm_eps": of(Lfm2Moe).norm_eps, "conv_bias": false,
                    "num_dense_layers": 1, "norm_topk_prob": true, "routed_scaling_factor": 1.0}),
            ),
        ),
        (
            of(NemotronHMoe),
            "NemotronHForCausalLM",
            with(
                with(experts(nemotron, &of(NemotronHMoe)), state(&of(NemotronHMoe))),
                json!({"layers_block_type": kinds(&of(NemotronHMoe), "moe"), "norm_topk_prob": true,
                    "routed_scaling_factor": 2.5, "n_group": 1, "topk_group": 1}),
            ),
        ),
        (
            of(NemotronH),
            "NemotronHForCausalLM",
            with(state(&of(NemotronH)), json!({"layers_block_type": kinds(&of(NemotronH), "mlp")})),
        ),
        (
            of(Ernie45Moe),
            "Ernie4_5_MoeForCausalLM",
            with(
                experts(["moe_num_experts", "moe_k", "unused"], &of(Ernie45Moe)),
                json!({"moe_layer_start_index": 1, "moe_num_shared_experts": 2, "moe_layer_interval": 1}),
            ),
        ),
        (
            of(GraniteMoe),
            "GraniteMoeSharedForCausalLM",
            with(
                experts(["num_local_experts", "num_experts_per_tok", "shared_intermediate_size"], &of(GraniteMoe)),
                json!({"embedding_multiplier": 6.0, "residual_multiplier": 0.5, "attention_multiplier": 0.375,
                    "logits_scaling": 2.0}),
            ),
        ),
        (of(CommandR), "CohereForCausalLM", json!({"layer_norm_eps": of(CommandR).norm_eps, "logit_scale": 0.25})),
        (
            of(Cohere2),
            "Cohere2ForCausalLM",
            json!({"layer_norm_eps": of(Cohere2).norm_eps, "logit_scale": 0.25, "sliding_window": 16,
                "layer_types": slides}),
        ),
        (
            of(Exaone),
            "ExaoneForCausalLM",
            json!({"layer_norm_epsilon": of(Exaone).norm_eps, "activation_function": "silu"}),
        ),
        (
            of(Nemotron),
            "NemotronForCausalLM",
            json!({"norm_eps": of(Nemotron).norm_eps, "hidden_act": "relu2", "partial_rotary_factor": 0.5}),
        ),
        (SyntheticModel { layer: Some(glm), ..of(ChatGlm) }, "GlmForCausalLM", json!({"partial_rotary_factor": 0.5})),
    ]
}

/// Checks that the tensors are those of the original file, apart from rounding, and that both files give the same
/// `Config`.
pub(crate) fn assert_same(class: &str, ours: &[u8], original: &[u8], is_rounded: impl Fn(&str) -> bool) {
    let (file, wanted) = (Gguf::parse(ours).unwrap(), Gguf::parse(original).unwrap());
    assert_eq!(file.tensor_count(), wanted.tensor_count(), "{class}");
    for info in wanted.tensors() {
        let name = info.name().to_string();
        let found = file.tensor(info.name()).unwrap_or_else(|| panic!("{class}: no {name}"));
        assert_eq!(found.dims(), info.dims(), "{class}: {name}");
        let floats = |data: &[u8]| -> Vec<f32> { data.as_chunks().0.iter().map(|&x| f32::from_le_bytes(x)).collect() };
        if is_rounded(&name) {
            for (ours, theirs) in floats(found.data()).iter().zip(floats(info.data())) {
                assert!((ours - theirs).abs() <= 1e-6 * theirs.abs().max(1.0), "{class}: {name}: {ours} {theirs}");
            }
        } else {
            assert!(found.data() == info.data(), "{class}: {name}");
        }
    }
    let [mut config, expected] = [ours, original].map(|file| *Model::open(file).unwrap().config());
    // Only the keys of files differ here: no layer has this width.
    config.feed_forward.other_width = expected.feed_forward.other_width;
    assert_eq!(config, expected, "{class}");
}

#[test]
fn folders_of_more_families() {
    for (model, class, more) in models() {
        let writer = model.writer();
        let ours = converted(&folder(&model, class, &more, &stored(&model, &writer)), &["--type", "f32"]);
        let adds_one = model.architecture == Architecture::Nemotron;
        assert_same(class, &ours, &writer.finish(), |name| {
            name.ends_with("ssm_a") || adds_one && name.ends_with("norm.weight")
        });
    }
}

/// Newer folders of LFM2 have the experts of a layer in two tensors, gates before ups.
#[test]
fn experts_in_two_tensors() {
    let (model, class, more) = models().swap_remove(0);
    let writer = model.writer();
    let mut tensors = stored(&model, &writer);
    tensors.retain(|name, _| !name.contains("experts."));
    for layer in 1..model.layers {
        let data = |part: &str| {
            let name = format!("blk.{layer}.ffn_{part}_exps.weight");
            writer.tensors.iter().find(|tensor| tensor.name == name).unwrap().data.clone()
        };
        let part = model.ffn * model.hidden * 4;
        let both = data("gate").chunks(part).zip(data("up").chunks(part)).flat_map(|(a, b)| [a, b].concat()).collect();
        let [count, hidden, ffn] = [model.experts, model.hidden, model.ffn].map(|n| n as u64);
        let name = format!("model.layers.{layer}.feed_forward.experts");
        tensors.insert(format!("{name}.gate_up_proj"), ("F32", vec![count, 2 * ffn, hidden], both));
        tensors.insert(format!("{name}.down_proj"), ("F32", vec![count, hidden, ffn], data("down")));
    }
    let ours = converted(&folder(&model, class, &more, &tensors), &["--type", "f32"]);
    assert_same(class, &ours, &writer.finish(), |_| false);
}

/// Settings of these families that Gleed does not compute are refused.
#[test]
fn settings_of_more_families_are_refused() {
    use crate::refused::refused;
    let made = |index: usize, key: &str, value: Json| {
        let (model, class, mut more) = models().swap_remove(index);
        more[key] = value;
        folder(&model, class, &more, &stored(&model, &model.writer()))
    };
    refused(&made(0, "norm_topk_prob", json!(false)), &[], "norm_topk_prob");
    refused(&made(1, "n_group", json!(8)), &[], "n_group");
    refused(&made(1, "moe_latent_size", json!(16)), &[], "moe_latent_size");
    refused(&made(2, "layers_block_type", json!(["mamba", "moe", "attention", "mlp", "mlp"])), &[], "moe");
    refused(&made(3, "moe_layer_interval", json!(2)), &[], "moe_layer_interval");
    refused(&made(8, "hidden_act", json!("silu")), &[], "silu");
}
