//! More architectures, in the same form as in `architectures.rs`.

use serde_json::{Value as Json, json};

use super::architectures::{
    ATTENTION, Architecture, DECODER, EMBEDDING, EXPERT_WIDTH, EXPERTS, FFN, HEAD, Key, LLAMA, NORMS, OLMO2, PAIRS,
    QK_NORM, QWEN_EXPERTS, RMS, SIZES,
};
use super::config::{Config, number, size};
use super::how::How;
use super::tensors::{Rule, optional, rule};
use common::Result;
use common::gguf::Value;

pub(super) const NEWER: &[Architecture] = &[
    // It rotates adjacent pairs, and its rows have that order already.
    Architecture { classes: &["Ernie4_5ForCausalLM"], name: "ernie4_5", keys: &[SIZES, RMS, HEAD], ..DECODER },
    Architecture {
        classes: &["Exaone4ForCausalLM"],
        name: "exaone4",
        keys: &[SIZES, RMS, HEAD],
        rules: &[EMBEDDING, OLMO2, ATTENTION, FFN],
        window_period: 4,
        ..DECODER
    },
    Architecture {
        classes: &["HunYuanDenseV1ForCausalLM"],
        name: "hunyuan-dense",
        keys: &[SIZES, RMS, HEAD],
        rules: &[EMBEDDING, NORMS, ATTENTION, HUNYUAN, FFN],
        ..DECODER
    },
    Architecture {
        classes: &["Glm4ForCausalLM"],
        name: "glm4",
        keys: &[SIZES, RMS, HEAD],
        rules: &[EMBEDDING, ATTENTION, GLM4],
        rotary: 0.5,
        ..DECODER
    },
    Architecture {
        classes: &["SeedOssForCausalLM"],
        name: "seed_oss",
        keys: &[SIZES, RMS, HEAD],
        rules: &[EMBEDDING, LATE_NORMS, ATTENTION, FFN],
        ..DECODER
    },
    Architecture {
        classes: &["ArceeForCausalLM"],
        name: "arcee",
        rules: &[EMBEDDING, NORMS, PAIRS, UP_DOWN],
        activations: &["relu2"],
        ..LLAMA
    },
    Architecture {
        classes: &["Ministral3ForCausalLM"],
        name: "mistral3",
        keys: &[SIZES, RMS, HEAD, TEMPERATURE],
        ..LLAMA
    },
    Architecture {
        classes: &["OlmoeForCausalLM"],
        name: "olmoe",
        keys: &[SIZES, RMS, EXPERTS],
        rules: &[EMBEDDING, NORMS, ATTENTION, QK_NORM, QWEN_EXPERTS],
        check: |config| {
            config.want("norm_topk_prob", &[json!(false)])?;
            config.want("clip_qkv", &[])
        },
        ..DECODER
    },
    Architecture {
        classes: &["Qwen2MoeForCausalLM"],
        name: "qwen2moe",
        keys: &[SIZES, RMS, EXPERTS, EXPERT_WIDTH, SHARED_WIDTH],
        rules: &[EMBEDDING, NORMS, ATTENTION, QWEN_EXPERTS, SHARED_EXPERT],
        check: |config| {
            config.want("norm_topk_prob", &[json!(false)])?;
            config.want("decoder_sparse_step", &[json!(1)])?;
            config.want("mlp_only_layers", &[json!([])])
        },
        ..DECODER
    },
    Architecture {
        classes: &["Lfm2ForCausalLM"],
        name: "lfm2",
        keys: &[LFM2_WIDTH, LFM2_KEYS],
        rules: &[LFM2, LFM2_FFN],
        tied: true,
        check: |config| config.want("conv_bias", &[json!(false)]),
        ..DECODER
    },
];

const TEMPERATURE: &[Key] = &[Key("attention.temperature_scale", |c| {
    let scale = c.0["rope_parameters"]["llama_4_scaling_beta"].as_f64();
    Ok(scale.map(|scale| Value::F32(scale as f32)))
})];

pub(super) const SHARED_WIDTH: &[Key] =
    &[Key("expert_shared_feed_forward_length", |c| size(c.size(&["shared_expert_intermediate_size"])))];

const LFM2_WIDTH: &[Key] = &[Key("feed_forward_length", |c| size(lfm2_width(c)))];

pub(super) const LFM2_KEYS: &[Key] = &[
    Key("block_count", |c| size(c.layers())),
    Key("context_length", |c| size(c.context())),
    Key("embedding_length", |c| size(c.hidden())),
    Key("attention.head_count", |c| size(c.heads())),
    Key("attention.head_count_kv", |c| {
        let (heads, types) = (i32::try_from(c.kv_heads()?)?, layer_types(c)?);
        Ok(Some(Value::I32s(types.iter().map(|kind| if kind == "full_attention" { heads } else { 0 }).collect())))
    }),
    Key("attention.layer_norm_rms_epsilon", |c| number(c.number(&["norm_eps"]))),
    Key("shortconv.l_cache", |c| size(c.size(&["conv_L_cache"]))),
    Key("vocab_size", |c| size(c.vocab())),
];

/// Returns the type of each layer.
pub(super) fn layer_types(config: &Config) -> Result<&[Json]> {
    let types = config.field(&["layer_types"]).and_then(Json::as_array).ok_or("config.json has no layer_types")?;
    if types.len() != config.layers()? {
        return Err(format!("config.json: layer_types has {} elements", types.len()).into());
    }
    Ok(types)
}

/// Returns the width of the feed-forward layer. Most files state it before it is reduced by a third.
fn lfm2_width(config: &Config) -> Result<usize> {
    let width = config.size(&["block_ff_dim", "intermediate_size"])?;
    if !config.flag("block_auto_adjust_ff_dim", true) {
        return Ok(width);
    }
    let width = 2 * width / 3;
    let factor = config.number(&["block_ffn_dim_multiplier"])?.unwrap_or(1.0);
    let multiple = config.optional_size(&["block_multiple_of"])?.unwrap_or(256);
    Ok(((factor * width as f64) as usize).next_multiple_of(multiple))
}

pub(super) const HUNYUAN: &[Rule] = &[
    rule("layers.{}.self_attn.query_layernorm", "blk.{}.attn_q_norm", How::Same),
    rule("layers.{}.self_attn.key_layernorm", "blk.{}.attn_k_norm", How::Same),
];

/// The rows of the gate come first in the up matrix.
const GLM4: &[Rule] = &[
    rule("layers.{}.input_layernorm", "blk.{}.attn_norm", How::Same),
    rule("layers.{}.post_self_attn_layernorm", "blk.{}.post_attention_norm", How::Same),
    rule("layers.{}.post_attention_layernorm", "blk.{}.ffn_norm", How::Same),
    rule("layers.{}.mlp.gate_up_proj", "blk.{}.ffn_up", How::Same),
    rule("layers.{}.mlp.down_proj", "blk.{}.ffn_down", How::Same),
    rule("layers.{}.post_mlp_layernorm", "blk.{}.post_ffw_norm", How::Same),
];

pub(super) const LATE_NORMS: &[Rule] = &[
    rule("layers.{}.input_layernorm", "blk.{}.attn_norm", How::Same),
    rule("layers.{}.post_attention_layernorm", "blk.{}.post_attention_norm", How::Same),
];

pub(super) const UP_DOWN: &[Rule] = &[
    rule("layers.{}.mlp.up_proj", "blk.{}.ffn_up", How::Same),
    rule("layers.{}.mlp.down_proj", "blk.{}.ffn_down", How::Same),
];

pub(super) const SHARED_EXPERT: &[Rule] = &[
    rule("layers.{}.mlp.shared_expert_gate", "blk.{}.ffn_gate_inp_shexp", How::Same),
    rule("layers.{}.mlp.shared_expert.gate_proj", "blk.{}.ffn_gate_shexp", How::Same),
    rule("layers.{}.mlp.shared_expert.up_proj", "blk.{}.ffn_up_shexp", How::Same),
    rule("layers.{}.mlp.shared_expert.down_proj", "blk.{}.ffn_down_shexp", How::Same),
];

pub(super) const LFM2: &[Rule] = &[
    rule("embed_tokens", "token_embd", How::Same),
    // GGUF files have this name for the final norm.
    rule("embedding_norm", "token_embd_norm", How::Same),
    optional("lm_head", "output", How::Same),
    rule("layers.{}.operator_norm", "blk.{}.attn_norm", How::Same),
    optional("layers.{}.conv.in_proj", "blk.{}.shortconv.in_proj", How::Same),
    optional("layers.{}.conv.conv", "blk.{}.shortconv.conv", How::Same),
    optional("layers.{}.conv.out_proj", "blk.{}.shortconv.out_proj", How::Same),
    optional("layers.{}.self_attn.q_proj", "blk.{}.attn_q", How::Same),
    optional("layers.{}.self_attn.k_proj", "blk.{}.attn_k", How::Same),
    optional("layers.{}.self_attn.v_proj", "blk.{}.attn_v", How::Same),
    optional("layers.{}.self_attn.out_proj", "blk.{}.attn_output", How::Same),
    optional("layers.{}.self_attn.q_layernorm", "blk.{}.attn_q_norm", How::Same),
    optional("layers.{}.self_attn.k_layernorm", "blk.{}.attn_k_norm", How::Same),
    rule("layers.{}.ffn_norm", "blk.{}.ffn_norm", How::Same),
];

const LFM2_FFN: &[Rule] = &[
    rule("layers.{}.feed_forward.w1", "blk.{}.ffn_gate", How::Same),
    rule("layers.{}.feed_forward.w3", "blk.{}.ffn_up", How::Same),
    rule("layers.{}.feed_forward.w2", "blk.{}.ffn_down", How::Same),
];
