//! Reads rotary positions: `rope_parameters`, or the fields of older files.

use serde_json::Value as Json;

use super::config::Config;
use common::Result;
use common::gguf::Value;

/// The rotary settings of a file.
#[derive(Default)]
pub(crate) struct Rope {
    /// Metadata: names without the architecture, and values.
    pub(crate) keys: Vec<(&'static str, Value)>,
    /// Tensors: names and elements.
    pub(crate) tensors: Vec<(&'static str, Vec<f32>)>,
}

/// Reads the settings. `partial` is the default for the rotated part of each head.
pub(crate) fn read(config: &Config, partial: f64) -> Result<Rope> {
    let Parameters { json, base, local } = parameters(config)?;
    let field = |name: &str| json[name].as_f64();
    let need = |name: &str| field(name).ok_or_else(|| format!("config.json: rotary scaling without {name}"));
    let head_dim = config.head_dim()?;
    let part = field("partial_rotary_factor").or(config.number(&["partial_rotary_factor", "rotary_pct"])?);
    let part = part.unwrap_or(partial);
    if !(0.0..=1.0).contains(&part) {
        return Err(format!("config.json: the rotated part of each head is {part}, it must be from 0 to 1").into());
    }
    let dims = (part * head_dim as f64) as usize;
    let kind = json["rope_type"].as_str().or(json["type"].as_str()).unwrap_or("default");
    // Hunyuan has another base and no scaling.
    let alpha = field("alpha").filter(|alpha| kind == "dynamic" && *alpha > 0.0);
    let base = alpha.map_or(base, |alpha| base * alpha.powf(head_dim as f64 / (head_dim as f64 - 2.0)));
    let mut rope = Rope::default();
    rope.keys.push(("rope.dimension_count", Value::U32(dims as u32)));
    rope.keys.push(("rope.freq_base", Value::F32(base as f32)));
    if let Some(local) = local {
        rope.keys.push(("rope.freq_base_swa", Value::F32(local as f32)));
    }
    let original = match field("original_max_position_embeddings") {
        Some(original) => Some(original),
        None => config.number(&["original_max_position_embeddings"])?,
    };
    let original_key = |original: f64| ("rope.scaling.original_context_length", Value::U32(original as u32));
    match kind {
        "dynamic" if alpha.is_some() => {}
        "default" => rope.keys.extend(original.map(original_key)),
        "linear" => {
            rope.keys.push(("rope.scaling.type", Value::Text("linear".into())));
            rope.keys.push(("rope.scaling.factor", Value::F32(need("factor")? as f32)));
        }
        "yarn" => {
            let factor = need("factor")?;
            rope.keys.push(("rope.scaling.type", Value::Text("yarn".into())));
            rope.keys.push(("rope.scaling.factor", Value::F32(factor as f32)));
            rope.keys.push(original_key(original.unwrap_or(config.context()? as f64)));
            for (name, key) in
                [("beta_fast", "rope.scaling.yarn_beta_fast"), ("beta_slow", "rope.scaling.yarn_beta_slow")]
            {
                rope.keys.extend(field(name).map(|value| (key, Value::F32(value as f32))));
            }
            // The default factor, 0.1 * ln(factor) + 1, is always applied. So write the ratio to it.
            let magnitude = field("attention_factor").map(|factor_wanted| factor_wanted / (0.1 * factor.ln() + 1.0));
            rope.keys.extend(magnitude.map(|magnitude| ("rope.scaling.attn_factor", Value::F32(magnitude as f32))));
            // Two equal factors cancel each other and the default factor.
            match [field("mscale"), field("mscale_all_dim")] {
                [Some(first), Some(second)] if first == second => {
                    rope.keys.push(("rope.scaling.yarn_log_multiplier", Value::F32(1.0)));
                }
                _ => refuse(json, &["mscale", "mscale_all_dim"])?,
            }
            refuse(json, &["truncate"])?;
        }
        "llama3" => {
            let original = original.ok_or("config.json: rotary scaling without original_max_position_embeddings")?;
            let [factor, low, high] = [need("factor")?, need("low_freq_factor")?, need("high_freq_factor")?];
            let divisor = |index: usize| {
                let wave = 2.0 * std::f64::consts::PI * base.powf(2.0 * index as f64 / dims as f64);
                let smooth = ((original / wave - low) / (high - low)).clamp(0.0, 1.0);
                (1.0 / ((1.0 - smooth) / factor + smooth)) as f32
            };
            rope.tensors.push(("rope_freqs.weight", (0..dims / 2).map(divisor).collect()));
        }
        "longrope" | "su" => {
            let original = original.ok_or("config.json: rotary scaling without original_max_position_embeddings")?;
            let scale = config.context()? as f64 / original;
            let magnitude = if scale > 1.0 { (1.0 + scale.ln() / original.ln()).sqrt() } else { 1.0 };
            let magnitude = field("attention_factor").unwrap_or(magnitude);
            rope.keys.push(original_key(original));
            rope.keys.push(("rope.scaling.attn_factor", Value::F32(magnitude as f32)));
            rope.tensors.push(("rope_factors_long.weight", factors(json, "long_factor", dims)?));
            rope.tensors.push(("rope_factors_short.weight", factors(json, "short_factor", dims)?));
        }
        other => return Err(format!("config.json: rotary scaling of type {other:?} is not supported").into()),
    }
    Ok(rope)
}

struct Parameters<'c> {
    /// Settings of the scaling; null if there is none.
    json: &'c Json,
    base: f64,
    /// Base of layers with a window, if it differs.
    local: Option<f64>,
}

fn parameters(config: &Config) -> Result<Parameters<'_>> {
    const NONE: &Json = &Json::Null;
    let base = config.number(&["rope_theta", "rotary_emb_base"])?.unwrap_or(10_000.0);
    let Some(json) = config.field(&["rope_parameters"]) else {
        let json = config.field(&["rope_scaling"]).unwrap_or(NONE);
        return Ok(Parameters { json, base, local: config.number(&["rope_local_base_freq"])? });
    };
    let local = &json["sliding_attention"];
    if local.is_null() {
        return Ok(Parameters { json, base: json["rope_theta"].as_f64().unwrap_or(base), local: None });
    }
    let kind = local["rope_type"].as_str().unwrap_or("default");
    if kind != "default" {
        return Err(
            format!("config.json: rotary scaling of type {kind:?} in layers with a window is not supported").into()
        );
    }
    let json = &json["full_attention"];
    let base = json["rope_theta"].as_f64().unwrap_or(base);
    Ok(Parameters { json, base, local: local["rope_theta"].as_f64() })
}

/// Returns the divisors for long or short sequences.
fn factors(json: &Json, name: &str, dims: usize) -> Result<Vec<f32>> {
    let list = json[name].as_array().map(Vec::as_slice).unwrap_or_default();
    let factors: Vec<f32> = list.iter().filter_map(|factor| factor.as_f64().map(|factor| factor as f32)).collect();
    if factors.len() != dims / 2 {
        return Err(format!("config.json: {name} has {} numbers, it must have {}", factors.len(), dims / 2).into());
    }
    Ok(factors)
}

/// Refuses fields that change the frequencies or the magnitude in a way of their own.
fn refuse(json: &Json, names: &[&str]) -> Result<()> {
    match names.iter().find(|name| !json[**name].is_null()) {
        Some(name) => Err(format!("config.json: rotary scaling with {name} is not supported").into()),
        None => Ok(()),
    }
}
