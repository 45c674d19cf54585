//! gpt-oss: the rows of gate and up alternate, and experts are MXFP4 blocks, or stored by columns.

use serde_json::json;

use super::architectures::{ATTENTION, Architecture, DECODER, EMBEDDING, EXPERTS, HEAD, Key, RMS, SIZES};
use super::config::{Config, size};
use super::how::How;
use super::newer::LATE_NORMS;
use super::rope;
use super::tensors::{Rule, rule, whole};

pub(super) const GPT_OSS: &[Architecture] = &[Architecture {
    classes: &["GptOssForCausalLM"],
    name: "gpt-oss",
    keys: &[SIZES, RMS, HEAD, EXPERTS, WIDTH],
    rules: &[EMBEDDING, LATE_NORMS, ATTENTION, LAYERS],
    window_period: 2,
    check: |config| {
        config.want("swiglu_limit", &[json!(7.0)])?;
        config.want("swiglu_alpha", &[json!(1.702)])
    },
    // The ramp of YaRN is always rounded to whole pairs, whatever the folder says: see `docs/models.md`.
    rope: |config, part| {
        let mut json = config.0.clone();
        for name in ["rope_parameters", "rope_scaling"] {
            json[name].as_object_mut().and_then(|fields| fields.remove("truncate"));
        }
        rope::read(&Config(json), part)
    },
    ..DECODER
}];

const WIDTH: &[Key] = &[Key("expert_feed_forward_length", |c| size(c.ffn()))];

const LAYERS: &[Rule] = &[
    whole("layers.{}.self_attn.sinks", "blk.{}.attn_sinks.weight", How::Same),
    rule("layers.{}.mlp.router", "blk.{}.ffn_gate_inp", How::Same),
    whole("layers.{}.mlp.experts.gate_up_proj_blocks", "blk.{}.ffn_gate_exps.weight", How::Every(0)),
    whole("layers.{}.mlp.experts.gate_up_proj_blocks", "blk.{}.ffn_up_exps.weight", How::Every(1)),
    whole("layers.{}.mlp.experts.down_proj_blocks", "blk.{}.ffn_down_exps.weight", How::Same),
    whole("layers.{}.mlp.experts.gate_up_proj", "blk.{}.ffn_gate_exps.weight", How::TransposedEvery(0)),
    whole("layers.{}.mlp.experts.gate_up_proj", "blk.{}.ffn_up_exps.weight", How::TransposedEvery(1)),
    whole("layers.{}.mlp.experts.down_proj", "blk.{}.ffn_down_exps.weight", How::Transposed),
    whole("layers.{}.mlp.experts.gate_up_proj_bias", "blk.{}.ffn_gate_exps.bias", How::EveryColumn(0)),
    whole("layers.{}.mlp.experts.gate_up_proj_bias", "blk.{}.ffn_up_exps.bias", How::EveryColumn(1)),
    whole("layers.{}.mlp.experts.down_proj_bias", "blk.{}.ffn_down_exps.bias", How::Same),
];
