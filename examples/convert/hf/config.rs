//! Reads `config.json`: settings that different models have under different names.

use serde_json::Value as Json;

use crate::vocab::MAX_VOCAB;
use common::Result;
use common::gguf::Value;

/// Limits that no model exceeds. Lists get the length that these settings say before the tensors are read.
const MAX_LAYERS: usize = 10_000;
const MAX_HEADS: usize = 100_000;
const MAX_HEAD_DIM: usize = 100_000;
const MAX_EXPERTS: usize = 100_000;

/// The settings of a model.
pub(crate) struct Config(pub(crate) Json);

/// A metadata value, or `None` if the model does not have it.
pub(crate) type Setting = Result<Option<Value>>;

impl Config {
    /// Returns the settings of a file, or those of its text model if it has several models.
    pub(crate) fn of_text(file: Json) -> Self {
        let Some(text) = file["text_config"].as_object() else { return Self(file) };
        let mut text = Json::Object(text.clone());
        for (name, value) in file.as_object().into_iter().flatten() {
            if ["architectures", "tie_word_embeddings"].contains(&name.as_str()) || text[name].is_null() {
                text[name] = value.clone();
            }
        }
        // This class has text models of two kinds.
        if text["architectures"][0] == "Mistral3ForConditionalGeneration" {
            let class = if text["model_type"] == "ministral3" { "Ministral3ForCausalLM" } else { "MistralForCausalLM" };
            text["architectures"] = serde_json::json!([class]);
        }
        Self(text)
    }

    /// Returns the first of these fields that is present and not null.
    pub(crate) fn field(&self, names: &[&str]) -> Option<&Json> {
        names.iter().map(|name| &self.0[*name]).find(|value| !value.is_null())
    }

    /// Returns a required size.
    pub(crate) fn size(&self, names: &[&str]) -> Result<usize> {
        self.optional_size(names)?.ok_or_else(|| format!("config.json has no {}", names.join(" or ")).into())
    }

    /// Returns an optional size.
    pub(crate) fn optional_size(&self, names: &[&str]) -> Result<Option<usize>> {
        let Some(value) = self.field(names) else { return Ok(None) };
        let size = value.as_u64().and_then(|size| u32::try_from(size).ok()).filter(|&size| size > 0);
        let size = size.ok_or_else(|| format!("config.json: {} is {value}, no size", names.join(" or ")))?;
        Ok(Some(size as usize))
    }

    /// Returns an optional number.
    pub(crate) fn number(&self, names: &[&str]) -> Result<Option<f64>> {
        let Some(value) = self.field(names) else { return Ok(None) };
        let number =
            value.as_f64().ok_or_else(|| format!("config.json: {} is {value}, no number", names.join(" or ")))?;
        Ok(Some(number))
    }

    /// Returns a flag, or `default` if it is absent.
    pub(crate) fn flag(&self, name: &str, default: bool) -> bool {
        self.0[name].as_bool().unwrap_or(default)
    }

    /// Returns an optional size of at most `limit`.
    fn bounded(&self, names: &[&str], limit: usize) -> Result<Option<usize>> {
        match self.optional_size(names)? {
            Some(size) if size > limit => {
                let names = names.join(" or ");
                Err(format!("config.json: {names} is {size}, more than any model has (at most {limit})").into())
            }
            size => Ok(size),
        }
    }

    fn required(&self, names: &[&str], limit: usize) -> Result<usize> {
        self.size(names)?;
        Ok(self.bounded(names, limit)?.unwrap_or_default())
    }

    /// Returns the number of tokens of the vocabulary.
    pub(crate) fn vocab(&self) -> Result<usize> {
        self.required(&["vocab_size"], MAX_VOCAB)
    }

    /// Returns the number of layers.
    pub(crate) fn layers(&self) -> Result<usize> {
        if let Some(types) = self.field(&["layers_block_type"]).and_then(Json::as_array) {
            return Ok(types.len());
        }
        self.required(&["num_hidden_layers", "num_layers", "n_layer", "n_layers"], MAX_LAYERS)
    }

    /// Returns the width of the residual stream.
    pub(crate) fn hidden(&self) -> Result<usize> {
        self.size(&["hidden_size", "n_embd", "d_model"])
    }

    /// Returns the number of query heads.
    pub(crate) fn heads(&self) -> Result<usize> {
        self.required(&["num_attention_heads", "n_head", "n_heads"], MAX_HEADS)
    }

    /// Returns the number of KV heads.
    pub(crate) fn kv_heads(&self) -> Result<usize> {
        self.bounded(&["num_key_value_heads"], MAX_HEADS)?.map_or_else(|| self.heads(), Ok)
    }

    /// Returns the number of elements per head.
    pub(crate) fn head_dim(&self) -> Result<usize> {
        if let Some(head_dim) = self.bounded(&["head_dim"], MAX_HEAD_DIM)? {
            return Ok(head_dim);
        }
        let head_dim = self.hidden()? / self.heads()?;
        if head_dim > MAX_HEAD_DIM {
            return Err(format!("config.json: heads of {head_dim} elements, more than any model has").into());
        }
        Ok(head_dim)
    }

    /// Returns the number of experts per layer.
    pub(crate) fn experts(&self) -> Result<usize> {
        self.required(&["num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"], MAX_EXPERTS)
    }

    /// Returns the number of groups of a state space.
    pub(crate) fn state_groups(&self) -> Result<usize> {
        self.size(&["mamba_n_groups", "n_groups"])
    }

    /// Returns the row of the first position in the table of learned positions.
    pub(crate) fn first_position(&self) -> Result<usize> {
        let padding = &self.0["pad_token_id"];
        padding
            .as_u64()
            .map(|id| id as usize + 1)
            .ok_or_else(|| format!("config.json: pad_token_id is {padding}").into())
    }

    /// Returns the context that the model was trained on, in tokens.
    pub(crate) fn context(&self) -> Result<usize> {
        // Files of BLOOM do not state it.
        let names = ["max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "max_length"];
        Ok(self.optional_size(&names)?.unwrap_or(2048))
    }

    /// Returns the width of the feed-forward layer.
    pub(crate) fn ffn(&self) -> Result<usize> {
        if let Some(width) = self.optional_size(&["intermediate_size", "n_inner"])? {
            return Ok(width);
        }
        let (ratio, hidden) = (self.optional_size(&["expansion_ratio"])?.unwrap_or(4), self.hidden()?);
        let width = ratio.checked_mul(hidden);
        width.ok_or_else(|| format!("config.json: expansion_ratio is {ratio}, too much for a width of {hidden}").into())
    }

    /// Refuses a field that is present with a value other than these.
    pub(crate) fn want(&self, name: &str, wanted: &[Json]) -> Result<()> {
        match self.field(&[name]) {
            Some(value) if !wanted.contains(value) => {
                Err(format!("config.json: {name} = {value} is not supported").into())
            }
            _ => Ok(()),
        }
    }

    /// Returns which layers have a sliding window, or `None` if no layer has one.
    pub(crate) fn sliding_layers(&self) -> Result<Option<Vec<bool>>> {
        let layers = self.layers()?;
        // Qwen's files, which have `max_window_layers`, must say that they use the window.
        let usual = self.field(&["max_window_layers"]).is_none();
        if self.field(&["sliding_window"]).is_none() || !self.flag("use_sliding_window", usual) {
            return Ok(None);
        }
        let types = self.field(&["layer_types"]).and_then(Json::as_array);
        let first = self.number(&["max_window_layers"])?.unwrap_or(0.0);
        // The pattern may be a list instead of a number. Then `layer_types` says the same.
        let names = ["sliding_window_pattern", "_sliding_window_pattern"];
        let period = if types.is_some() { None } else { self.optional_size(&names)? };
        let slides = |layer: usize| match (types, period) {
            (Some(types), _) => types.get(layer).is_some_and(|kind| kind == "sliding_attention"),
            (None, Some(period)) => !(layer + 1).is_multiple_of(period),
            (None, None) => layer as f64 >= first,
        };
        let sliding: Vec<bool> = (0..layers).map(slides).collect();
        Ok(sliding.contains(&true).then_some(sliding))
    }
}

/// Returns a size as a metadata value.
pub(crate) fn size(size: Result<usize>) -> Setting {
    Ok(Some(Value::U32(size?.try_into()?)))
}

/// Returns a number as a metadata value.
pub(crate) fn number(number: Result<Option<f64>>) -> Setting {
    Ok(number?.map(|number| Value::F32(number as f32)))
}
