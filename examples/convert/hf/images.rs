//! The language models of Qwen 2 VL, 2.5 VL and 3 VL, which read images.

use serde_json::json;

use super::architectures::{
    ATTENTION, Architecture, DECODER, EMBEDDING, EXPERT_WIDTH, EXPERTS, FFN, HEAD, Key, NORMS, QK_NORM, RMS, SIZES,
};
use super::config::{Config, Setting};
use super::how::How;
use super::rope::{self, Rope};
use super::tensors::{Rule, rule, whole};
use common::Result;
use common::gguf::Value;

pub(super) const IMAGES: &[Architecture] = &[
    Architecture {
        classes: &["Qwen2VLForConditionalGeneration", "Qwen2_5_VLForConditionalGeneration"],
        name: "qwen2vl",
        keys: &[SIZES, RMS, SECTIONS],
        rope: three_positions,
        ..DECODER
    },
    Architecture {
        classes: &["Qwen3VLForConditionalGeneration"],
        name: "qwen3vl",
        keys: &[SIZES, RMS, HEAD, SECTIONS, DEEPSTACK],
        rules: &[EMBEDDING, NORMS, ATTENTION, QK_NORM, FFN],
        rope: three_positions,
        ..DECODER
    },
    Architecture {
        classes: &["Qwen3VLMoeForConditionalGeneration"],
        name: "qwen3vlmoe",
        keys: &[SIZES, RMS, HEAD, EXPERTS, EXPERT_WIDTH, SECTIONS, DEEPSTACK],
        rules: &[EMBEDDING, NORMS, ATTENTION, QK_NORM, STACKED_EXPERTS],
        check: |config| {
            let (width, of_expert) = (config.hidden()?, config.size(&["moe_intermediate_size"])?);
            if width == of_expert || width == 2 * of_expert {
                return Err("config.json: the shapes of experts do not say how they are stored".into());
            }
            config.want("norm_topk_prob", &[json!(true)])?;
            config.want("decoder_sparse_step", &[json!(1)])?;
            config.want("mlp_only_layers", &[json!([])])
        },
        rope: three_positions,
        ..DECODER
    },
];

/// Number of pairs that each of the three positions of an image rotates.
const SECTIONS: &[Key] = &[Key("rope.dimension_sections", |c| {
    let sections = ["rope_parameters", "rope_scaling"].iter().find_map(|name| c.0[*name]["mrope_section"].as_array());
    let Some(sections) = sections else { return Ok(None) };
    let mut numbers: Vec<i32> =
        sections.iter().filter_map(|n| n.as_i64().and_then(|n| i32::try_from(n).ok())).collect();
    numbers.resize(4, 0);
    Ok(Some(Value::I32s(numbers)))
})];

/// Number of first layers to which more inputs of an image are added.
const DEEPSTACK: &[Key] = &[Key("n_deepstack_layers", deepstack)];

fn deepstack(config: &Config) -> Setting {
    let layers = config.0["vision_config"]["deepstack_visual_indexes"].as_array();
    Ok(layers.map(|layers| Value::U32(layers.len() as u32)))
}

/// Reads the rotary settings. A text has one position where an image has three, so its frequencies are the usual ones.
fn three_positions(config: &Config, part: f64) -> Result<Rope> {
    let mut json = config.0.clone();
    for name in ["rope_parameters", "rope_scaling"] {
        let Some(fields) = json[name].as_object_mut() else { continue };
        for kind in ["rope_type", "type"] {
            if fields.get(kind).is_some_and(|kind| kind == "mrope") {
                fields.insert(kind.into(), json!("default"));
            }
        }
    }
    rope::read(&Config(json), part)
}

/// Experts of a layer in two tensors. Gates come before ups. Published folders store them by columns, newer libraries
/// by rows.
const STACKED_EXPERTS: &[Rule] = &[
    rule("layers.{}.mlp.gate", "blk.{}.ffn_gate_inp", How::Same),
    whole("layers.{}.mlp.experts.gate_up_proj", "blk.{}.ffn_gate_exps.weight", How::EitherHalf(0)),
    whole("layers.{}.mlp.experts.gate_up_proj", "blk.{}.ffn_up_exps.weight", How::EitherHalf(1)),
    whole("layers.{}.mlp.experts.down_proj", "blk.{}.ffn_down_exps.weight", How::Either),
];
