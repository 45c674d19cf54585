//! Text models of Gemma 4: heads of another size in the layers that see everything, keys and values that later layers
//! read again, inputs for every layer, experts beside a feed-forward layer.

use serde_json::{Value as Json, json};

use super::architectures::{Architecture, CAPS, DECODER, EMBEDDING, FFN, Key, RMS};
use super::config::{Config, Setting, size};
use super::how::How;
use super::newer::layer_types;
use super::rope::Rope;
use super::tensors::{Rule, optional, rule, whole};
use common::Result;
use common::gguf::Value;

pub(super) const GEMMA4: &[Architecture] = &[Architecture {
    classes: &["Gemma4ForCausalLM", "Gemma4ForConditionalGeneration"],
    name: "gemma4",
    keys: &[KEYS, RMS, CAPS],
    rules: &[EMBEDDING, INPUTS, LAYERS, FFN, EXPERTS],
    tied: true,
    // Files always state the pattern.
    window_period: usize::MAX,
    activations: &["gelu_pytorch_tanh"],
    check: |config| {
        config.want("use_bidirectional_attention", &[json!(false), json!("vision")])?;
        config.want("attention_bias", &[json!(false)])
    },
    rope,
    ..DECODER
}];

const KEYS: &[Key] =
    &[
        Key("block_count", |c| size(c.layers())),
        Key("context_length", |c| size(c.context())),
        Key("embedding_length", |c| size(c.hidden())),
        Key("feed_forward_length", widths),
        Key("attention.head_count", |c| size(c.heads())),
        Key("attention.head_count_kv", |c| {
            let (local, global) = (c.kv_heads()?, of_global(c, "num_key_value_heads", "num_global_key_value_heads")?);
            let global = global.unwrap_or(local);
            Ok(Some(if global == local { Value::U32(local as u32) } else { Value::I32s(by_kind(c, local, global)?) }))
        }),
        Key("attention.key_length", |c| size(global_head_dim(c))),
        Key("attention.value_length", |c| size(global_head_dim(c))),
        Key("attention.key_length_swa", |c| size(c.head_dim())),
        Key("attention.value_length_swa", |c| size(c.head_dim())),
        Key("attention.shared_kv_layers", |c| Ok(Some(Value::U32(count(c, "num_kv_shared_layers"))))),
        Key("embedding_length_per_layer_input", |c| Ok(Some(Value::U32(count(c, "hidden_size_per_layer_input"))))),
        Key("expert_count", |c| if has_experts(c) { size(c.experts()) } else { Ok(None) }),
        Key("expert_used_count", |c| if has_experts(c) { size(c.size(&["top_k_experts"])) } else { Ok(None) }),
        Key("expert_feed_forward_length", |c| {
            if has_experts(c) { size(c.size(&["moe_intermediate_size"])) } else { Ok(None) }
        }),
        Key("vocab_size", |c| size(c.vocab())),
    ];

fn has_experts(config: &Config) -> bool {
    config.flag("enable_moe_block", false)
}

/// Returns a number that may be 0 or absent.
fn count(config: &Config, name: &str) -> u32 {
    config.0[name].as_u64().and_then(|count| u32::try_from(count).ok()).unwrap_or(0)
}

/// Returns the width of the feed-forward layers. Layers that read the keys and values of other layers may be twice as
/// wide.
fn widths(config: &Config) -> Setting {
    let (width, layers, shared) = (config.ffn()?, config.layers()?, count(config, "num_kv_shared_layers") as usize);
    if shared == 0 || !config.flag("use_double_wide_mlp", false) {
        return size(Ok(width));
    }
    let width = i32::try_from(width)?;
    let of_layer = |layer: usize| if layer + shared >= layers { width.saturating_mul(2) } else { width };
    Ok(Some(Value::I32s((0..layers).map(of_layer).collect())))
}

/// Returns a size of the layers that see everything, from `per_layer_config` or from its name in older files.
fn of_global(config: &Config, name: &str, older: &str) -> Result<Option<usize>> {
    let first = layer_types(config)?.iter().position(|kind| kind == "full_attention");
    let own = first.map_or(&Json::Null, |layer| &config.0["per_layer_config"][layer.to_string()][name]);
    match own.as_u64() {
        Some(size) => Ok(Some(usize::try_from(size)?)),
        None => config.optional_size(&[older]),
    }
}

fn global_head_dim(config: &Config) -> Result<usize> {
    of_global(config, "head_dim", "global_head_dim")?.map_or_else(|| config.head_dim(), Ok)
}

fn by_kind(config: &Config, local: usize, global: usize) -> Result<Vec<i32>> {
    let (local, global) = (i32::try_from(local)?, i32::try_from(global)?);
    Ok(layer_types(config)?.iter().map(|kind| if kind == "full_attention" { global } else { local }).collect())
}

/// Reads how heads are rotated: as a whole. In the layers that see everything, most pairs have a divisor that leaves
/// them unrotated.
fn rope(config: &Config, _: f64) -> Result<Rope> {
    let [local, global] = ["sliding_attention", "full_attention"].map(|kind| &config.0["rope_parameters"][kind]);
    for (json, kind) in [(local, "default"), (global, "proportional")] {
        let found = json["rope_type"].as_str().unwrap_or("default");
        if found != kind {
            return Err(format!("config.json: rotary scaling of type {found:?} is not supported here").into());
        }
    }
    let base = |json: &Json, default: f64| Value::F32(json["rope_theta"].as_f64().unwrap_or(default) as f32);
    let (head_dim, part) = (global_head_dim(config)?, global["partial_rotary_factor"].as_f64().unwrap_or(1.0));
    let rotated = (part * (head_dim / 2) as f64) as usize;
    let divisors = (0..head_dim / 2).map(|pair| if pair < rotated { 1.0 } else { 1e30 }).collect();
    Ok(Rope {
        keys: vec![
            ("rope.freq_base", base(global, 1e6)),
            ("rope.freq_base_swa", base(local, 1e4)),
            ("rope.dimension_count", Value::U32(head_dim as u32)),
            ("rope.dimension_count_swa", Value::U32(config.head_dim()? as u32)),
        ],
        tensors: vec![("rope_freqs.weight", divisors)],
    })
}

const INPUTS: &[Rule] = &[
    optional("embed_tokens_per_layer", "per_layer_token_embd", How::Same),
    optional("per_layer_model_projection", "per_layer_model_proj", How::Same),
    optional("per_layer_projection_norm", "per_layer_proj_norm", How::Same),
    optional("layers.{}.per_layer_input_gate", "blk.{}.inp_gate", How::Same),
    optional("layers.{}.per_layer_projection", "blk.{}.proj", How::Same),
    optional("layers.{}.post_per_layer_input_norm", "blk.{}.post_norm", How::Same),
];

const LAYERS: &[Rule] = &[
    rule("layers.{}.input_layernorm", "blk.{}.attn_norm", How::Same),
    rule("layers.{}.post_attention_layernorm", "blk.{}.post_attention_norm", How::Same),
    rule("layers.{}.pre_feedforward_layernorm", "blk.{}.ffn_norm", How::Same),
    rule("layers.{}.post_feedforward_layernorm", "blk.{}.post_ffw_norm", How::Same),
    whole("layers.{}.layer_scalar", "blk.{}.layer_output_scale.weight", How::Same),
    rule("layers.{}.self_attn.q_proj", "blk.{}.attn_q", How::Same),
    optional("layers.{}.self_attn.k_proj", "blk.{}.attn_k", How::Same),
    optional("layers.{}.self_attn.v_proj", "blk.{}.attn_v", How::Same),
    rule("layers.{}.self_attn.o_proj", "blk.{}.attn_output", How::Same),
    rule("layers.{}.self_attn.q_norm", "blk.{}.attn_q_norm", How::Same),
    optional("layers.{}.self_attn.k_norm", "blk.{}.attn_k_norm", How::Same),
];

const EXPERTS: &[Rule] = &[
    optional("layers.{}.router.proj", "blk.{}.ffn_gate_inp", How::Same),
    whole("layers.{}.router.scale", "blk.{}.ffn_gate_inp.scale", How::Same),
    whole("layers.{}.router.per_expert_scale", "blk.{}.ffn_down_exps.scale", How::Same),
    whole("layers.{}.experts.gate_up_proj", "blk.{}.ffn_gate_up_exps.weight", How::Same),
    whole("layers.{}.experts.down_proj", "blk.{}.ffn_down_exps.weight", How::Same),
    optional("layers.{}.post_feedforward_layernorm_1", "blk.{}.post_ffw_norm_1", How::Same),
    optional("layers.{}.post_feedforward_layernorm_2", "blk.{}.post_ffw_norm_2", How::Same),
    optional("layers.{}.pre_feedforward_layernorm_2", "blk.{}.pre_ffw_norm_2", How::Same),
];
