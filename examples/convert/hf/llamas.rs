//! Models that are built like a Llama, with their names, the order of their rows, and their few differences.

use serde_json::json;

use super::architectures::{
    ATTENTION, Architecture, DECODER, EMBEDDING, FFN, GELU_TANH, HEAD, Key, LAYER_NORM, LLAMA, NORMS, QK_NORM, RMS,
    SIZES,
};
use super::config::size;
use super::how::{How, Part};
use super::mingpt::BY_ROWS;
use super::newer::UP_DOWN;
use super::rope;
use super::tensors::{Rule, optional, rule};
use common::gguf::Value;

pub(super) const LLAMAS: &[Architecture] = &[
    Architecture {
        classes: &["InternLM2ForCausalLM"],
        name: "internlm2",
        rules: &[INTERNLM2],
        check: |config| config.want("bias", &[json!(false)]),
        ..LLAMA
    },
    Architecture { classes: &["XverseForCausalLM"], name: "xverse", ..LLAMA },
    Architecture { classes: &["MiniCPMForCausalLM"], name: "minicpm", keys: &[SIZES, RMS, HEAD, MINICPM], ..LLAMA },
    Architecture { classes: &["OrionForCausalLM"], name: "orion", keys: &[SIZES, ORION_NORM, HEAD], ..DECODER },
    Architecture {
        classes: &["PanguEmbeddedForCausalLM"],
        name: "pangu-embedded",
        keys: &[SIZES, RMS, HEAD],
        check: |config| config.want("bias", &[json!(true)]),
        ..DECODER
    },
    // It rotates adjacent pairs, and its rows have that order already.
    Architecture {
        classes: &["MaincoderForCausalLM"],
        name: "maincoder",
        keys: &[MAINCODER_SIZES, RMS, HEAD],
        rules: &[EMBEDDING, NORMS, ATTENTION, QK_NORM, MAINCODER_FFN],
        check: |config| config.want("use_qk_norm", &[json!(true)]),
        ..DECODER
    },
    Architecture {
        classes: &["GPTBigCodeForCausalLM"],
        name: "starcoder",
        keys: &[STARCODER_SIZES, LAYER_NORM],
        rules: &[BY_ROWS],
        rotary: 0.0,
        tied: true,
        activations: GELU_TANH,
        check: |config| {
            config.want("scale_attn_weights", &[json!(true)])?;
            config.want("multi_query", &[json!(true)])
        },
        ..DECODER
    },
    Architecture {
        classes: &["ApertusForCausalLM"],
        name: "apertus",
        keys: &[SIZES, RMS, HEAD],
        rules: &[EMBEDDING, APERTUS, ATTENTION, QK_NORM, UP_DOWN],
        numbers: &[
            ("xielu.alpha_p", "layers.{}.mlp.act_fn.alpha_p"),
            ("xielu.alpha_n", "layers.{}.mlp.act_fn.alpha_n"),
            ("xielu.beta", "layers.{}.mlp.act_fn.beta"),
            ("xielu.eps", "layers.{}.mlp.act_fn.eps"),
        ],
        activations: &["xielu"],
        check: |config| config.want("attention_bias", &[json!(false)]),
        ..DECODER
    },
    Architecture {
        classes: &["Spark2_5ForCausalLM"],
        name: "spark2_5",
        keys: &[SIZES, RMS, HEAD],
        rules: &[SPARK, FFN],
        activations: &["gelu"],
        // The GGUF file lists the layers that have a window.
        window_period: NEVER,
        check: |config| {
            config.want("headwise_attn_output_gate", &[json!(true)])?;
            config.want("gate_attn_act_mode", &[json!("sigmoid")])?;
            config.want("attention_bias", &[json!(false)])?;
            config.want("mlp_bias", &[json!(false)])
        },
        rope: |config, part| {
            let mut rope = rope::read(config, part)?;
            let local = &config.0["rope_parameters"]["sliding_attention"];
            if let Some(part) = local["partial_rotary_factor"].as_f64().filter(|part| (0.0..=1.0).contains(part)) {
                let dims = (part * config.head_dim()? as f64) as u32;
                rope.keys.push(("rope.dimension_count_swa", Value::U32(dims)));
            }
            Ok(rope)
        },
        ..DECODER
    },
];

/// A period that no model has, so that the layers with a window are always written.
const NEVER: usize = usize::MAX;

/// The query heads of a group come before its key and its value.
const INTERNLM2: &[Rule] = &[
    rule("tok_embeddings", "token_embd", How::Same),
    rule("norm", "output_norm", How::Same),
    optional("output", "output", How::Same),
    rule("layers.{}.attention_norm", "blk.{}.attn_norm", How::Same),
    rule("layers.{}.attention.wqkv", "blk.{}.attn_q", How::PartOfGroups(Part::Q)),
    rule("layers.{}.attention.wqkv", "blk.{}.attn_k", How::PartOfGroups(Part::K)),
    rule("layers.{}.attention.wqkv", "blk.{}.attn_v", How::PartOfGroups(Part::V)),
    rule("layers.{}.attention.wo", "blk.{}.attn_output", How::Same),
    rule("layers.{}.ffn_norm", "blk.{}.ffn_norm", How::Same),
    rule("layers.{}.feed_forward.w1", "blk.{}.ffn_gate", How::Same),
    rule("layers.{}.feed_forward.w3", "blk.{}.ffn_up", How::Same),
    rule("layers.{}.feed_forward.w2", "blk.{}.ffn_down", How::Same),
];

/// The factors of embeddings, branches and logits.
const MINICPM: &[Key] = &[
    Key("embedding_scale", |c| Ok(c.number(&["scale_emb"])?.map(|scale| Value::F32(scale as f32)))),
    Key("residual_scale", |c| {
        let layers = c.layers()? as f64;
        Ok(c.number(&["scale_depth"])?.map(|scale| Value::F32((scale / layers.sqrt()) as f32)))
    }),
    Key("logit_scale", |c| {
        let width = c.hidden()? as f64;
        Ok(c.number(&["dim_model_base"])?.map(|base| Value::F32((width / base) as f32)))
    }),
];

const ORION_NORM: &[Key] = &[Key("attention.layer_norm_epsilon", |c| {
    Ok(Some(Value::F32(c.number(&["rms_norm_eps"])?.unwrap_or(1e-5) as f32)))
})];

/// Sizes of Maincoder, which has another name for the width of the feed-forward layer.
const MAINCODER_SIZES: &[Key] = &[
    Key("block_count", |c| size(c.layers())),
    Key("context_length", |c| size(c.context())),
    Key("embedding_length", |c| size(c.hidden())),
    Key("feed_forward_length", |c| size(c.size(&["intermediate_size_mlp", "intermediate_size"]))),
    Key("attention.head_count", |c| size(c.heads())),
    Key("attention.head_count_kv", |c| size(c.kv_heads())),
    Key("vocab_size", |c| size(c.vocab())),
];

const MAINCODER_FFN: &[Rule] = &[
    optional("layers.{}.mlp.gate_proj", "blk.{}.ffn_gate", How::Same),
    optional("layers.{}.mlp.up_proj", "blk.{}.ffn_up", How::Same),
    optional("layers.{}.mlp.down_proj", "blk.{}.ffn_down", How::Same),
    optional("layers.{}.feed_forward.gate_proj", "blk.{}.ffn_gate", How::Same),
    optional("layers.{}.feed_forward.up_proj", "blk.{}.ffn_up", How::Same),
    optional("layers.{}.feed_forward.down_proj", "blk.{}.ffn_down", How::Same),
];

/// Sizes of StarCoder, where all heads share one KV head.
const STARCODER_SIZES: &[Key] = &[
    Key("block_count", |c| size(c.layers())),
    Key("context_length", |c| size(c.context())),
    Key("embedding_length", |c| size(c.hidden())),
    Key("feed_forward_length", |c| size(c.ffn())),
    Key("attention.head_count", |c| size(c.heads())),
    Key("attention.head_count_kv", |_| Ok(Some(Value::U32(1)))),
    Key("vocab_size", |c| size(c.vocab())),
];

const APERTUS: &[Rule] = &[
    rule("layers.{}.attention_layernorm", "blk.{}.attn_norm", How::Same),
    rule("layers.{}.feedforward_layernorm", "blk.{}.ffn_norm", How::Same),
];

const SPARK: &[Rule] = &[
    rule("embedding", "token_embd", How::Same),
    rule("norm", "output_norm", How::Same),
    optional("lm_head", "output", How::Same),
    rule("layers.{}.input_layernorm", "blk.{}.attn_norm", How::Same),
    rule("layers.{}.self_attn.q_k_v_proj", "blk.{}.attn_qkv", How::Same),
    rule("layers.{}.self_attn.g_proj", "blk.{}.attn_gate", How::Same),
    rule("layers.{}.self_attn.out_proj", "blk.{}.attn_output", How::Same),
    rule("layers.{}.post_attention_layernorm", "blk.{}.ffn_norm", How::Same),
];
