//! MPT: the settings of attention in its folders, and its tensors.

use super::architectures::Key;
use super::config::Config;
use super::how::How;
use super::tensors::{Rule, optional, rule};
use common::gguf::Value;

pub(super) const MPT_KEYS: &[Key] = &[
    Key("attention.clamp_kqv", |c| Ok(attention(c, "clip_qkv").as_f64().map(|clip| Value::F32(clip as f32)))),
    Key("attention.max_alibi_bias", |c| {
        let simple = attention(c, "attn_type").as_str().is_none_or(|kind| kind == "multihead_attention")
            && attention(c, "alibi").as_bool().unwrap_or(true)
            && !attention(c, "qk_ln").as_bool().unwrap_or(false)
            && attention(c, "softmax_scale").is_null();
        let bias = attention(c, "alibi_bias_max").as_f64().unwrap_or(8.0);
        if simple {
            Ok(Some(Value::F32(bias as f32)))
        } else {
            Err("config.json: its attn_config is not supported".into())
        }
    }),
];

fn attention<'c>(config: &'c Config, name: &str) -> &'c serde_json::Value {
    &config.0["attn_config"][name]
}

pub(super) const MPT: &[Rule] = &[
    rule("wte", "token_embd", How::Same),
    rule("norm_f", "output_norm", How::Same),
    optional("lm_head", "output", How::Same),
    rule("blocks.{}.norm_1", "blk.{}.attn_norm", How::Same),
    rule("blocks.{}.attn.Wqkv", "blk.{}.attn_qkv", How::Same),
    rule("blocks.{}.attn.out_proj", "blk.{}.attn_output", How::Same),
    rule("blocks.{}.norm_2", "blk.{}.ffn_norm", How::Same),
    rule("blocks.{}.ffn.up_proj", "blk.{}.ffn_up", How::Same),
    rule("blocks.{}.ffn.down_proj", "blk.{}.ffn_down", How::Same),
];
