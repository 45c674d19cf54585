//! Models with Mamba-2 layers: Granite 4 H, Falcon-H1, Nemotron-H.

use serde_json::{Value as Json, json};

use super::architectures::{
    Architecture, DECODER, EMBEDDING, EXPERT_WIDTH, EXPERTS, GRANITE, HEAD, Key, LAYER_NORM, RMS, SIZES,
};
use super::config::{Config, Setting, number, size};
use super::how::How;
use super::tensors::{Rule, optional, rule, whole};
use common::Result;
use common::gguf::Value;

pub(super) const STATE_SPACE: &[Architecture] = &[
    Architecture {
        when: |config| config.experts().is_err(),
        rules: &[EMBEDDING, GRANITE_LAYERS, GRANITE_FFN],
        ..GRANITE_H
    },
    Architecture {
        keys: &[GRANITE_SIZES, RMS, GRANITE, GRANITE_KEYS, MAMBA, EXPERTS],
        rules: &[EMBEDDING, GRANITE_LAYERS, GRANITE_EXPERTS],
        ..GRANITE_H
    },
    Architecture {
        classes: &["FalconH1ForCausalLM"],
        name: "falcon-h1",
        keys: &[SIZES, RMS, HEAD, MAMBA],
        rules: &[FALCON],
        check: |config| {
            config.want("mamba_norm_before_gate", &[json!(false)])?;
            // The factor of the logits is multiplied into the output matrix. If that is the embedding, both factors
            // must be equal.
            match config.flag("tie_word_embeddings", false) {
                true => config.want("lm_head_multiplier", &[config.0["embedding_multiplier"].clone()]),
                false => Ok(()),
            }
        },
        ..DECODER
    },
    Architecture {
        classes: &["NemotronHForCausalLM"],
        name: "nemotron_h",
        keys: &[NEMOTRON_KEYS, LAYER_NORM, HEAD],
        rules: &[NEMOTRON],
        rotary: 0.0,
        check: nemotron,
        when: |config| config.experts().is_err(),
        ..DECODER
    },
    Architecture {
        classes: &["NemotronHForCausalLM"],
        name: "nemotron_h_moe",
        keys: &[NEMOTRON_KEYS, LAYER_NORM, HEAD, EXPERTS, EXPERT_WIDTH, NEMOTRON_EXPERT_KEYS],
        rules: &[NEMOTRON, NEMOTRON_EXPERTS],
        rotary: 0.0,
        check: |config| {
            config.want("n_group", &[json!(1)])?;
            config.want("topk_group", &[json!(1)])?;
            config.want("moe_latent_size", &[])?;
            nemotron(config)
        },
        ..DECODER
    },
];

/// Refuses settings of Nemotron-H that Gleed does not compute.
fn nemotron(config: &Config) -> Result<()> {
    config.want("mlp_hidden_act", &[json!("relu2")])?;
    kinds(config).map(|_| ())
}

const GRANITE_H: Architecture = Architecture {
    classes: &["GraniteMoeHybridForCausalLM"],
    name: "granitehybrid",
    keys: &[GRANITE_SIZES, RMS, GRANITE, GRANITE_KEYS, MAMBA],
    ..DECODER
};

/// The kind of a layer.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    State,
    Attention,
    FeedForward,
}

/// Returns the kind of each layer, from a list of names or a string of signs.
fn kinds(config: &Config) -> Result<Vec<Kind>> {
    let of_name = |name: &str| -> Result<Kind> {
        match name {
            "mamba" | "linear_attention" | "M" => Ok(Kind::State),
            "attention" | "full_attention" | "*" => Ok(Kind::Attention),
            "mlp" | "-" => Ok(Kind::FeedForward),
            "moe" | "E" if config.field(&["n_routed_experts"]).is_some() => Ok(Kind::FeedForward),
            other => Err(format!("config.json: layers of type {other:?} are not supported").into()),
        }
    };
    let kinds: Vec<Kind> = match config.field(&["layers_block_type", "layer_types", "hybrid_override_pattern"]) {
        Some(Json::Array(names)) => {
            names.iter().map(|name| of_name(name.as_str().unwrap_or_default())).collect::<Result<_>>()?
        }
        Some(Json::String(signs)) => signs.split_inclusive(|_: char| true).map(of_name).collect::<Result<_>>()?,
        _ => return Err("config.json does not say what its layers are".into()),
    };
    let layers = config.layers()?;
    if kinds.len() == layers {
        Ok(kinds)
    } else {
        Err(format!("config.json: {} kinds for {layers} layers", kinds.len()).into())
    }
}

/// Returns a list with `number` for the layers of a kind, and 0 for the others.
fn of_kind(config: &Config, kind: Kind, number: usize) -> Setting {
    let number = i32::try_from(number)?;
    Ok(Some(Value::I32s(kinds(config)?.iter().map(|&found| if found == kind { number } else { 0 }).collect())))
}

const GRANITE_SIZES: &[Key] = &[
    Key("block_count", |c| size(c.layers())),
    Key("context_length", |c| size(c.context())),
    Key("embedding_length", |c| size(c.hidden())),
    Key("feed_forward_length", |c| {
        size(if c.experts().is_ok() { c.ffn() } else { c.size(&["shared_intermediate_size"]) })
    }),
    Key("expert_shared_feed_forward_length", |c| size(c.size(&["shared_intermediate_size"]))),
    Key("attention.head_count", |c| size(c.heads())),
    Key("attention.head_count_kv", |c| of_kind(c, Kind::Attention, c.kv_heads()?)),
    Key("vocab_size", |c| size(c.vocab())),
];

const GRANITE_KEYS: &[Key] =
    &[Key("rope.scaling.finetuned", |c| Ok(Some(Value::Bool(c.0["position_embedding_type"] == "rope"))))];

const MAMBA: &[Key] = &[
    Key("ssm.conv_kernel", |c| size(c.size(&["mamba_d_conv"]))),
    Key("ssm.state_size", |c| size(c.size(&["mamba_d_state"]))),
    Key("ssm.group_count", |c| size(c.state_groups())),
    Key("ssm.inner_size", |c| size(inner(c))),
    Key("ssm.time_step_rank", |c| size(c.size(&["mamba_n_heads"]))),
];

/// Returns the number of elements of all heads of a state space.
fn inner(config: &Config) -> Result<usize> {
    if let Some(inner) = config.optional_size(&["mamba_d_ssm"])? {
        return Ok(inner);
    }
    let inner = config.size(&["mamba_expand"])?.checked_mul(config.hidden()?);
    inner.ok_or_else(|| "config.json: mamba_expand is too large".into())
}

const NEMOTRON_KEYS: &[Key] = &[
    Key("block_count", |c| size(c.layers())),
    Key("context_length", |c| size(c.context())),
    Key("embedding_length", |c| size(c.hidden())),
    Key("feed_forward_length", |c| {
        let of_expert = c.optional_size(&["moe_intermediate_size"])?.filter(|_| c.experts().is_ok());
        of_kind(c, Kind::FeedForward, of_expert.map_or_else(|| c.ffn(), Ok)?)
    }),
    Key("attention.head_count", |c| size(c.heads())),
    Key("attention.head_count_kv", |c| of_kind(c, Kind::Attention, c.kv_heads()?)),
    Key("rope.scaling.finetuned", |_| Ok(Some(Value::Bool(false)))),
    Key("ssm.conv_kernel", |c| size(c.size(&["conv_kernel"]))),
    Key("ssm.state_size", |c| size(c.size(&["ssm_state_size"]))),
    Key("ssm.group_count", |c| size(c.state_groups())),
    Key("ssm.inner_size", |c| {
        let inner = c.size(&["mamba_num_heads"])?.checked_mul(c.size(&["mamba_head_dim"])?);
        size(inner.ok_or_else(|| "config.json: mamba_num_heads is too large".into()))
    }),
    Key("ssm.time_step_rank", |c| size(c.size(&["mamba_num_heads"]))),
    Key("vocab_size", |c| size(c.vocab())),
];

const GRANITE_LAYERS: &[Rule] = &[
    rule("layers.{}.input_layernorm", "blk.{}.attn_norm", How::Same),
    rule("layers.{}.post_attention_layernorm", "blk.{}.ffn_norm", How::Same),
    optional("layers.{}.mamba.in_proj", "blk.{}.ssm_in", How::Same),
    optional("layers.{}.mamba.conv1d", "blk.{}.ssm_conv1d", How::Same),
    whole("layers.{}.mamba.dt_bias", "blk.{}.ssm_dt.bias", How::Same),
    whole("layers.{}.mamba.A_log", "blk.{}.ssm_a", How::DecayPerHead),
    whole("layers.{}.mamba.D", "blk.{}.ssm_d", How::PerHead),
    optional("layers.{}.mamba.norm", "blk.{}.ssm_norm", How::Groups),
    optional("layers.{}.mamba.out_proj", "blk.{}.ssm_out", How::Same),
    optional("layers.{}.self_attn.q_proj", "blk.{}.attn_q", How::PairsOfQ),
    optional("layers.{}.self_attn.k_proj", "blk.{}.attn_k", How::PairsOfK),
    optional("layers.{}.self_attn.v_proj", "blk.{}.attn_v", How::Same),
    optional("layers.{}.self_attn.o_proj", "blk.{}.attn_output", How::Same),
];

const GRANITE_FFN: &[Rule] = &[
    rule("layers.{}.shared_mlp.input_linear", "blk.{}.ffn_gate", How::Half(0)),
    rule("layers.{}.shared_mlp.input_linear", "blk.{}.ffn_up", How::Half(1)),
    rule("layers.{}.shared_mlp.output_linear", "blk.{}.ffn_down", How::Same),
];

const GRANITE_EXPERTS: &[Rule] = &[
    rule("layers.{}.shared_mlp.input_linear", "blk.{}.ffn_gate_shexp", How::Half(0)),
    rule("layers.{}.shared_mlp.input_linear", "blk.{}.ffn_up_shexp", How::Half(1)),
    rule("layers.{}.shared_mlp.output_linear", "blk.{}.ffn_down_shexp", How::Same),
    rule("layers.{}.block_sparse_moe.router.layer", "blk.{}.ffn_gate_inp", How::Same),
    rule("layers.{}.block_sparse_moe.input_linear", "blk.{}.ffn_gate_exps", How::Half(0)),
    rule("layers.{}.block_sparse_moe.input_linear", "blk.{}.ffn_up_exps", How::Half(1)),
    rule("layers.{}.block_sparse_moe.output_linear", "blk.{}.ffn_down_exps", How::Same),
];

/// Tensors of Falcon-H1. The factors of the configuration are multiplied into the matrices.
const FALCON: &[Rule] = &[
    rule("embed_tokens", "token_embd", How::Times(|c| factors(c, &["embedding_multiplier"]))),
    rule("final_layernorm", "output_norm", How::Same),
    optional("lm_head", "output", How::Times(|c| factors(c, &["lm_head_multiplier"]))),
    rule("layers.{}.input_layernorm", "blk.{}.attn_norm", How::Same),
    whole("layers.{}.pre_ff_layernorm.weight", "blk.{}.ffn_norm", How::Same),
    rule("layers.{}.self_attn.q_proj", "blk.{}.attn_q", How::Times(|c| factors(c, &["attention_in_multiplier"]))),
    rule(
        "layers.{}.self_attn.k_proj",
        "blk.{}.attn_k",
        How::Times(|c| factors(c, &["attention_in_multiplier", "key_multiplier"])),
    ),
    rule("layers.{}.self_attn.v_proj", "blk.{}.attn_v", How::Times(|c| factors(c, &["attention_in_multiplier"]))),
    rule("layers.{}.self_attn.o_proj", "blk.{}.attn_output", How::Times(|c| factors(c, &["attention_out_multiplier"]))),
    rule("layers.{}.mamba.in_proj", "blk.{}.ssm_in", How::Times(mixer_factors)),
    rule("layers.{}.mamba.conv1d", "blk.{}.ssm_conv1d", How::Same),
    whole("layers.{}.mamba.dt_bias", "blk.{}.ssm_dt.bias", How::Same),
    whole("layers.{}.mamba.A_log", "blk.{}.ssm_a", How::DecayPerHead),
    whole("layers.{}.mamba.D", "blk.{}.ssm_d", How::PerHead),
    optional("layers.{}.mamba.norm", "blk.{}.ssm_norm", How::Groups),
    rule("layers.{}.mamba.out_proj", "blk.{}.ssm_out", How::Times(|c| factors(c, &["ssm_out_multiplier"]))),
    rule(
        "layers.{}.feed_forward.gate_proj",
        "blk.{}.ffn_gate",
        How::Times(|c| Ok(vec![listed(c, "mlp_multipliers", 0)?])),
    ),
    rule("layers.{}.feed_forward.up_proj", "blk.{}.ffn_up", How::Same),
    rule(
        "layers.{}.feed_forward.down_proj",
        "blk.{}.ffn_down",
        How::Times(|c| Ok(vec![listed(c, "mlp_multipliers", 1)?])),
    ),
];

/// Returns the product of some factors.
fn factors(config: &Config, names: &[&str]) -> Result<Vec<f32>> {
    let mut product = 1.0;
    for name in names {
        product *= config.number(&[name])?.unwrap_or(1.0);
    }
    Ok(vec![product as f32])
}

/// Returns an element of a list of factors, or 1 if there is no list.
fn listed(config: &Config, name: &str, index: usize) -> Result<f32> {
    match &config.0[name] {
        Json::Null => Ok(1.0),
        list => list[index].as_f64().map(|x| x as f32).ok_or_else(|| format!("config.json: {name} is {list}").into()),
    }
}

/// Returns a factor for each row of the input matrix of a state space: rows of the gate, x, B, C and the steps.
fn mixer_factors(config: &Config) -> Result<Vec<f32>> {
    let all = config.number(&["ssm_in_multiplier"])?.unwrap_or(1.0);
    let wide = config.state_groups()?.checked_mul(config.size(&["mamba_d_state"])?);
    let (inner, wide) = (inner(config)?, wide.ok_or("config.json: mamba_n_groups is too large")?);
    let mut factors = Vec::new();
    for (index, rows) in [inner, inner, wide, wide, config.size(&["mamba_n_heads"])?].into_iter().enumerate() {
        let factor = f64::from(listed(config, "ssm_multipliers", index)?) * all;
        factors.extend(std::iter::repeat_n(factor as f32, rows));
    }
    Ok(factors)
}

/// Tensors of Nemotron-H, whose layers are of one of three kinds. Rows of Q and K are reordered for pairs, as in the
/// files of llama.cpp, although nothing is rotated.
const NEMOTRON: &[Rule] = &[
    rule("embeddings", "token_embd", How::Same),
    rule("norm_f", "output_norm", How::Same),
    optional("lm_head", "output", How::Same),
    rule("layers.{}.norm", "blk.{}.attn_norm", How::Same),
    optional("layers.{}.mixer.in_proj", "blk.{}.ssm_in", How::Same),
    optional("layers.{}.mixer.conv1d", "blk.{}.ssm_conv1d", How::Same),
    whole("layers.{}.mixer.dt_bias", "blk.{}.ssm_dt.bias", How::Same),
    whole("layers.{}.mixer.A_log", "blk.{}.ssm_a", How::DecayPerHead),
    whole("layers.{}.mixer.D", "blk.{}.ssm_d", How::PerHead),
    optional("layers.{}.mixer.norm", "blk.{}.ssm_norm", How::Groups),
    optional("layers.{}.mixer.out_proj", "blk.{}.ssm_out", How::Same),
    optional("layers.{}.mixer.q_proj", "blk.{}.attn_q", How::PairsOfQ),
    optional("layers.{}.mixer.k_proj", "blk.{}.attn_k", How::PairsOfK),
    optional("layers.{}.mixer.v_proj", "blk.{}.attn_v", How::Same),
    optional("layers.{}.mixer.o_proj", "blk.{}.attn_output", How::Same),
    optional("layers.{}.mixer.up_proj", "blk.{}.ffn_up", How::Same),
    optional("layers.{}.mixer.down_proj", "blk.{}.ffn_down", How::Same),
];

/// Experts of Nemotron-H, which have no gate.
const NEMOTRON_EXPERTS: &[Rule] = &[
    optional("layers.{}.mixer.gate", "blk.{}.ffn_gate_inp", How::Same),
    whole("layers.{}.mixer.gate.e_score_correction_bias", "blk.{}.exp_probs_b.bias", How::Flat),
    optional("layers.{}.mixer.experts.{e}.up_proj", "blk.{}.ffn_up_exps", How::Experts),
    optional("layers.{}.mixer.experts.{e}.down_proj", "blk.{}.ffn_down_exps", How::Experts),
    optional("layers.{}.mixer.shared_experts.up_proj", "blk.{}.ffn_up_shexp", How::Same),
    optional("layers.{}.mixer.shared_experts.down_proj", "blk.{}.ffn_down_shexp", How::Same),
];

const NEMOTRON_EXPERT_KEYS: &[Key] = &[
    Key("expert_shared_feed_forward_length", |c| size(c.size(&["moe_shared_expert_intermediate_size"]))),
    Key("expert_weights_norm", |c| Ok(Some(Value::Bool(c.flag("norm_topk_prob", true))))),
    Key("expert_weights_scale", |c| number(c.number(&["routed_scaling_factor"]))),
];
