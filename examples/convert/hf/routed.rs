//! Models with experts whose first layers have none: GLM 4.5, dots.llm1, DeepSeek MoE and Ling; Hunyuan A13B and Mellum 2.

use serde_json::{Value as Json, json};

use super::architectures::{
    ATTENTION, Architecture, DECODER, EMBEDDING, EXPERT_WIDTH, EXPERTS, HEAD, Key, NORMS, PAIRS, QK_NORM, QWEN_EXPERTS,
    RMS, SIZES,
};
use super::config::{Config, Setting, number, size};
use super::how::{How, Part};
use super::newer::{HUNYUAN, LATE_NORMS};
use super::tensors::{Rule, optional, rule, whole};
use common::Result;
use common::gguf::Value;

pub(super) const ROUTED: &[Architecture] = &[
    Architecture {
        classes: &["Glm4MoeForCausalLM"],
        name: "glm4moe",
        keys: &[SIZES, RMS, HEAD, EXPERTS, EXPERT_WIDTH, SHARED, SIGMOID],
        rules: &[EMBEDDING, LATE_NORMS, ATTENTION, OPTIONAL_QK_NORM, DENSE_FFN, ROUTER, EXPERT_MATRICES],
        rotary: 0.5,
        check: one_group,
        ..DECODER
    },
    Architecture {
        classes: &["Dots1ForCausalLM"],
        name: "dots1",
        keys: &[SIZES, RMS, HEAD, EXPERTS, EXPERT_WIDTH, SHARED, SIGMOID],
        rules: &[EMBEDDING, NORMS, ATTENTION, QK_NORM, DENSE_FFN, ROUTER, EXPERT_MATRICES],
        check: one_group,
        ..DECODER
    },
    Architecture {
        classes: &["DeepseekForCausalLM"],
        name: "deepseek",
        keys: &[SIZES, RMS, HEAD, EXPERTS, EXPERT_WIDTH, SHARED],
        rules: &[EMBEDDING, NORMS, PAIRS, DENSE_FFN, ROUTER, EXPERT_MATRICES],
        check: |config| {
            config.want("scoring_func", &[json!("softmax")])?;
            config.want("moe_layer_freq", &[json!(1)])?;
            one_group(config)
        },
        ..DECODER
    },
    Architecture {
        classes: &["BailingMoeForCausalLM"],
        name: "bailingmoe",
        keys: &[SIZES, RMS, HEAD, EXPERTS, EXPERT_WIDTH, SHARED],
        rules: &[BAILING, DENSE_FFN, ROUTER, EXPERT_MATRICES],
        check: |config| {
            config.want("norm_head", &[json!(false)])?;
            config.want("norm_softmax", &[json!(false)])?;
            config.want("use_qk_norm", &[json!(false)])?;
            one_group(config)
        },
        ..DECODER
    },
    Architecture {
        classes: &["HunYuanMoEV1ForCausalLM"],
        name: "hunyuan-moe",
        keys: &[SIZES, RMS, HEAD, HUNYUAN_EXPERTS],
        rules: &[EMBEDDING, NORMS, ATTENTION, HUNYUAN, HUNYUAN_MOE],
        check: |config| config.want("use_qk_norm", &[json!(true)]),
        ..DECODER
    },
    Architecture {
        classes: &["MellumForCausalLM"],
        name: "mellum",
        keys: &[SIZES, RMS, HEAD, EXPERTS, EXPERT_WIDTH],
        rules: &[EMBEDDING, NORMS, ATTENTION, QK_NORM, QWEN_EXPERTS],
        window_period: 4,
        check: |config| config.want("norm_topk_prob", &[json!(true)]),
        ..DECODER
    },
];

/// Refuses models that choose groups of experts first.
fn one_group(config: &Config) -> Result<()> {
    config.want("n_group", &[json!(1), json!(0)])?;
    config.want("topk_group", &[json!(1), json!(0)])
}

const SHARED: &[Key] = &[
    Key("leading_dense_block_count", |c| {
        Ok(Some(Value::U32(c.number(&["first_k_dense_replace"])?.unwrap_or(0.0) as u32)))
    }),
    Key("expert_shared_count", |c| {
        Ok(Some(Value::U32(c.number(&["n_shared_experts", "num_shared_experts"])?.unwrap_or(0.0) as u32)))
    }),
    Key("expert_weights_norm", |c| Ok(Some(Value::Bool(c.flag("norm_topk_prob", false))))),
    Key("expert_weights_scale", |c| number(c.number(&["routed_scaling_factor"]))),
];

const SIGMOID: &[Key] = &[Key("expert_gating_func", |_| Ok(Some(Value::U32(2))))];

const OPTIONAL_QK_NORM: &[Rule] = &[
    optional("layers.{}.self_attn.q_norm", "blk.{}.attn_q_norm", How::Same),
    optional("layers.{}.self_attn.k_norm", "blk.{}.attn_k_norm", How::Same),
];

/// Feed-forward layers without experts, at the start.
const DENSE_FFN: &[Rule] = &[
    optional("layers.{}.mlp.gate_proj", "blk.{}.ffn_gate", How::Same),
    optional("layers.{}.mlp.up_proj", "blk.{}.ffn_up", How::Same),
    optional("layers.{}.mlp.down_proj", "blk.{}.ffn_down", How::Same),
];

/// The router of the layers with experts.
const ROUTER: &[Rule] = &[
    optional("layers.{}.mlp.gate", "blk.{}.ffn_gate_inp", How::Same),
    whole("layers.{}.mlp.gate.e_score_correction_bias", "blk.{}.exp_probs_b.bias", How::Flat),
];

/// Matrices of the experts and of the shared expert.
pub(super) const EXPERT_MATRICES: &[Rule] = &[
    optional("layers.{}.mlp.experts.{e}.gate_proj", "blk.{}.ffn_gate_exps", How::Experts),
    optional("layers.{}.mlp.experts.{e}.up_proj", "blk.{}.ffn_up_exps", How::Experts),
    optional("layers.{}.mlp.experts.{e}.down_proj", "blk.{}.ffn_down_exps", How::Experts),
    optional("layers.{}.mlp.shared_experts.gate_proj", "blk.{}.ffn_gate_shexp", How::Same),
    optional("layers.{}.mlp.shared_experts.up_proj", "blk.{}.ffn_up_shexp", How::Same),
    optional("layers.{}.mlp.shared_experts.down_proj", "blk.{}.ffn_down_shexp", How::Same),
];

/// Tensors of Bailing. Q, K and V are one matrix.
const BAILING: &[Rule] = &[
    rule("word_embeddings", "token_embd", How::Same),
    rule("norm", "output_norm", How::Same),
    optional("lm_head", "output", How::Same),
    rule("layers.{}.input_layernorm", "blk.{}.attn_norm", How::Same),
    rule("layers.{}.attention.query_key_value", "blk.{}.attn_q", How::PartOfQkv(Part::Q)),
    rule("layers.{}.attention.query_key_value", "blk.{}.attn_k", How::PartOfQkv(Part::K)),
    rule("layers.{}.attention.query_key_value", "blk.{}.attn_v", How::PartOfQkv(Part::V)),
    rule("layers.{}.attention.dense", "blk.{}.attn_output", How::Same),
    rule("layers.{}.post_attention_layernorm", "blk.{}.ffn_norm", How::Same),
];

/// Keys of Hunyuan. Each may be a list with one number per layer, all alike.
const HUNYUAN_EXPERTS: &[Key] = &[
    Key("expert_count", |c| alike(c, &["num_experts"])),
    Key("expert_used_count", |c| alike(c, &["moe_topk"])),
    Key("expert_feed_forward_length", |c| alike(c, &["moe_intermediate_size", "intermediate_size"])),
    Key("expert_shared_feed_forward_length", |c| size(c.ffn())),
];

fn alike(config: &Config, names: &[&str]) -> Setting {
    let value = config.field(names).ok_or_else(|| format!("config.json has no {}", names.join(" or ")))?;
    let all = value.as_array().map_or_else(|| vec![value], |list| list.iter().collect());
    let number = all.first().and_then(|first| first.as_u64()).and_then(|first| u32::try_from(first).ok());
    match number.filter(|_| all.iter().all(|value: &&Json| Some(*value) == all.first().copied())) {
        Some(number) => Ok(Some(Value::U32(number))),
        None => Err(format!("config.json: {} = {value} is not supported", names.join(" or ")).into()),
    }
}

const HUNYUAN_MOE: &[Rule] = &[
    rule("layers.{}.mlp.gate.wg", "blk.{}.ffn_gate_inp", How::Same),
    rule("layers.{}.mlp.experts.{e}.gate_proj", "blk.{}.ffn_gate_exps", How::Experts),
    rule("layers.{}.mlp.experts.{e}.up_proj", "blk.{}.ffn_up_exps", How::Experts),
    rule("layers.{}.mlp.experts.{e}.down_proj", "blk.{}.ffn_down_exps", How::Experts),
    rule("layers.{}.mlp.shared_mlp.gate_proj", "blk.{}.ffn_gate_shexp", How::Same),
    rule("layers.{}.mlp.shared_mlp.up_proj", "blk.{}.ffn_up_shexp", How::Same),
    rule("layers.{}.mlp.shared_mlp.down_proj", "blk.{}.ffn_down_shexp", How::Same),
];
