//! Text models of Qwen 3.5: the gated delta rule in most layers, gated attention in the others.

use super::architectures::{Architecture, DECODER, EXPERT_WIDTH, EXPERTS, FFN, HEAD, Key, RMS, SIZES};
use super::config::{Config, size};
use super::how::How;
use super::newer::{SHARED_EXPERT, SHARED_WIDTH, layer_types};
use super::tensors::{Rule, optional, rule, whole};
use common::Result;
use common::gguf::Value;

pub(super) const DELTA_RULE: &[Architecture] = &[
    Architecture {
        classes: &["Qwen3_5ForCausalLM", "Qwen3_5ForConditionalGeneration"],
        name: "qwen35",
        keys: &[SIZES, RMS, HEAD, DELTA],
        rules: &[EMBEDDING, LAYERS, FFN],
        rotary: 0.25,
        ..DECODER
    },
    Architecture {
        classes: &["Qwen3_5MoeForCausalLM", "Qwen3_5MoeForConditionalGeneration"],
        name: "qwen35moe",
        keys: &[WITHOUT_FFN, RMS, HEAD, DELTA, EXPERTS, EXPERT_WIDTH, SHARED_WIDTH],
        rules: &[EMBEDDING, LAYERS, SOME_EXPERTS, SHARED_EXPERT],
        rotary: 0.25,
        ..DECODER
    },
];

/// Sizes without the width of layers that have no experts.
const WITHOUT_FFN: &[Key] = &[
    Key("block_count", |c| size(c.layers())),
    Key("context_length", |c| size(c.context())),
    Key("embedding_length", |c| size(c.hidden())),
    Key("attention.head_count", |c| size(c.heads())),
    Key("attention.head_count_kv", |c| size(c.kv_heads())),
    Key("vocab_size", |c| size(c.vocab())),
];

const DELTA: &[Key] = &[
    Key("ssm.conv_kernel", |c| size(c.size(&["linear_conv_kernel_dim"]))),
    Key("ssm.state_size", |c| size(c.size(&["linear_key_head_dim"]))),
    Key("ssm.group_count", |c| size(c.size(&["linear_num_key_heads"]))),
    Key("ssm.time_step_rank", |c| size(c.size(&["linear_num_value_heads"]))),
    Key("ssm.inner_size", |c| size(inner(c))),
    Key("full_attention_interval", |c| {
        Ok(Some(Value::U32(c.optional_size(&["full_attention_interval"])?.unwrap_or(4) as u32)))
    }),
    Key("attention.recurrent_layers", |c| {
        Ok(Some(Value::Bools(layer_types(c)?.iter().map(|kind| kind == "linear_attention").collect())))
    }),
    Key("rope.dimension_sections", |c| {
        let list = c.0["rope_parameters"]["mrope_section"].as_array();
        let sections = list.map(|list| list.iter().map(|n| n.as_i64().unwrap_or(0) as i32).chain([0]).collect());
        Ok(sections.map(Value::I32s))
    }),
];

fn inner(config: &Config) -> Result<usize> {
    let sizes = (config.size(&["linear_num_value_heads"])?, config.size(&["linear_value_head_dim"])?);
    sizes.0.checked_mul(sizes.1).ok_or_else(|| "config.json: the heads of the delta rule are too many".into())
}

const EMBEDDING: &[Rule] = &[
    rule("embed_tokens", "token_embd", How::Same),
    rule("norm", "output_norm", How::PlusOne),
    optional("lm_head", "output", How::Same),
];

const LAYERS: &[Rule] = &[
    rule("layers.{}.input_layernorm", "blk.{}.attn_norm", How::PlusOne),
    rule("layers.{}.post_attention_layernorm", "blk.{}.post_attention_norm", How::PlusOne),
    optional("layers.{}.self_attn.q_proj", "blk.{}.attn_q", How::Same),
    optional("layers.{}.self_attn.k_proj", "blk.{}.attn_k", How::Same),
    optional("layers.{}.self_attn.v_proj", "blk.{}.attn_v", How::Same),
    optional("layers.{}.self_attn.o_proj", "blk.{}.attn_output", How::Same),
    optional("layers.{}.self_attn.q_norm", "blk.{}.attn_q_norm", How::PlusOne),
    optional("layers.{}.self_attn.k_norm", "blk.{}.attn_k_norm", How::PlusOne),
    optional("layers.{}.linear_attn.in_proj_qkv", "blk.{}.attn_qkv", How::TiledAfterKeys),
    optional("layers.{}.linear_attn.in_proj_z", "blk.{}.attn_gate", How::Tiled),
    optional("layers.{}.linear_attn.in_proj_a", "blk.{}.ssm_alpha", How::Tiled),
    optional("layers.{}.linear_attn.in_proj_b", "blk.{}.ssm_beta", How::Tiled),
    optional("layers.{}.linear_attn.conv1d", "blk.{}.ssm_conv1d", How::TiledAfterKeys),
    whole("layers.{}.linear_attn.dt_bias", "blk.{}.ssm_dt.bias", How::Tiled),
    whole("layers.{}.linear_attn.A_log", "blk.{}.ssm_a", How::TiledDecay),
    optional("layers.{}.linear_attn.norm", "blk.{}.ssm_norm", How::Same),
    optional("layers.{}.linear_attn.out_proj", "blk.{}.ssm_out", How::TiledColumns),
];

/// Experts, stored one by one or all in one tensor.
const SOME_EXPERTS: &[Rule] = &[
    rule("layers.{}.mlp.gate", "blk.{}.ffn_gate_inp", How::Same),
    optional("layers.{}.mlp.experts.{e}.gate_proj", "blk.{}.ffn_gate_exps", How::Experts),
    optional("layers.{}.mlp.experts.{e}.up_proj", "blk.{}.ffn_up_exps", How::Experts),
    optional("layers.{}.mlp.experts.{e}.down_proj", "blk.{}.ffn_down_exps", How::Experts),
    whole("layers.{}.mlp.experts.gate_up_proj", "blk.{}.ffn_gate_exps.weight", How::Half(0)),
    whole("layers.{}.mlp.experts.gate_up_proj", "blk.{}.ffn_up_exps.weight", How::Half(1)),
    whole("layers.{}.mlp.experts.down_proj", "blk.{}.ffn_down_exps.weight", How::Same),
];
