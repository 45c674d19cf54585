//! The metadata keys of a model.

use core::fmt::Write;

use gguf_rs_lite::{Array, Name, Value};

use super::arch::Architecture;
use crate::kv::{LayerGroups, LayerSet, MAX_GROUPS, MAX_LAYERS};
use crate::nn::{Frequencies, RopePairs, Yarn};
use crate::weights::{Files, Mixer, ModelError, Recurrent, Rope};

/// The key of the number of keys and queries of a recurrent layer. Each of them serves several heads.
pub(super) const GROUPS: &str = "ssm.group_count";

/// The metadata keys of an architecture, `<architecture>.<name>`.
#[derive(Debug)]
pub(super) struct Keys<'m> {
    pub(super) files: &'m Files<'m>,
    pub(super) architecture: &'static str,
}

/// The key of the number of layers that predict tokens further ahead.
pub(super) const PREDICTING: &str = "nextn_predict_layers";

/// The key of the layers that have a window.
pub(super) const PATTERN: &str = "attention.sliding_window_pattern";

/// The key of the number of tokens at a time in the model's first training.
pub(super) const ORIGINAL: &str = "rope.scaling.original_context_length";

/// A size that may differ between layers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes<'m> {
    of_all: usize,
    /// Size of each layer, in files that have an array of them.
    of_each: Option<Array<'m>>,
}

impl Sizes<'_> {
    /// Returns the size of a layer, or 0 for none.
    pub(super) fn of(&self, layer: usize) -> usize {
        let own = self.of_each.map(|sizes| sizes.get(layer).and_then(|size| size.as_u64()).unwrap_or(0));
        own.map_or(self.of_all, |size| size as usize)
    }

    /// Returns the layers with a size.
    pub(super) fn present(&self, layers: usize) -> LayerSet {
        LayerSet::of(layers, |layer| self.of(layer) > 0)
    }

    /// Returns the size that all of the given layers with a size have in common, or `None` if they differ. If no layer
    /// has a size, the result is 1, because nothing depends on it.
    pub(super) fn common(&self, layers: impl Iterator<Item = usize>) -> Option<usize> {
        let mut sizes = layers.map(|layer| self.of(layer)).filter(|&size| size > 0);
        let first = sizes.next().unwrap_or(1);
        sizes.all(|size| size == first).then_some(first)
    }
}

impl<'m> Keys<'m> {
    /// Returns the value of a key.
    pub(super) fn get(&self, name: &str) -> Option<Value<'m>> {
        self.files.first().get(&self.key(name))
    }

    /// Returns whether the file has a tensor with this name.
    pub(super) fn has(&self, tensor: &str) -> bool {
        self.files.tensor(tensor).is_some()
    }

    /// Returns a size that must be in the file, positive, and small enough for an index.
    pub(super) fn size(&self, name: &str) -> Result<usize, ModelError> {
        let value = self.get(name).ok_or(ModelError::MissingKey { key: self.name(name) })?;
        if value.as_array().is_some() {
            // The value is an array with a size for each layer.
            return Err(self.unsupported(name));
        }
        let size = value.as_u64().and_then(|size| u32::try_from(size).ok()).and_then(|size| usize::try_from(size).ok());
        size.filter(|&size| size > 0).ok_or(self.bad(name))
    }

    /// Returns a size as [`Keys::size`] does, or `default` if the file does not have it.
    pub(super) fn size_or(&self, name: &str, default: usize) -> Result<usize, ModelError> {
        match self.get(name) {
            None if default == 0 => Err(self.bad(name)),
            None => Ok(default),
            Some(_) => self.size(name),
        }
    }

    /// Returns the number of layers that predict tokens further ahead.
    pub(super) fn predicting(&self) -> Result<usize, ModelError> {
        self.count(PREDICTING)
    }

    /// Returns whether a layer of the file has a tensor with this name.
    pub(super) fn has_in_layer(&self, layer: usize, name: &str) -> bool {
        self.files.has_in_layer(layer, name)
    }

    /// Returns the number of layers that run, without the layers after them that predict tokens further ahead.
    pub(super) fn layers(&self) -> Result<usize, ModelError> {
        let (all, predicting) = (self.size("block_count")?, self.predicting()?);
        if all > MAX_LAYERS {
            return Err(ModelError::TooMany { count: all, limit: MAX_LAYERS });
        }
        let layers = all.checked_sub(predicting).filter(|&layers| layers > 0).ok_or(self.bad(PREDICTING))?;
        // A file without the predicting layers may not have counted them in its number of layers.
        let are_there = |found: LayerSet| (layers..all).all(|layer| found.contains(layer));
        match predicting == 0 || are_there(self.files.predicting()) {
            true => Ok(layers),
            false => Err(self.unsupported(PREDICTING)),
        }
    }

    /// Returns a size that may differ between layers. The file can have an array with a number for each layer, in which
    /// 0 stands for none.
    pub(super) fn sizes(
        &self,
        name: &'static str,
        layers: usize,
        default: Option<usize>,
    ) -> Result<Sizes<'m>, ModelError> {
        let Some(Value::Array(sizes)) = self.get(name) else {
            let size = default.map_or_else(|| self.size(name), |default| self.size_or(name, default))?;
            return Ok(Sizes { of_all: size, of_each: None });
        };
        let fits =
            |layer: usize| sizes.get(layer).and_then(|size| size.as_u64()).is_some_and(|size| size <= u32::MAX.into());
        (0..layers).all(fits).then_some(Sizes { of_all: 0, of_each: Some(sizes) }).ok_or(self.bad(name))
    }

    /// Returns the number of elements of a head. Keys and values must have the same number.
    pub(super) fn head_dim(&self, of_keys: &str, of_values: &str, default: usize) -> Result<usize, ModelError> {
        let size = self.size_or(of_keys, default)?;
        if self.size_or(of_values, size)? == size { Ok(size) } else { Err(self.unsupported(of_values)) }
    }

    /// Returns a size that may be 0. It is also 0 if the file does not have it.
    pub(super) fn count(&self, name: &str) -> Result<usize, ModelError> {
        match self.get(name).map(|value| value.as_u64()) {
            None | Some(Some(0)) => Ok(0),
            Some(_) => self.size(name),
        }
    }

    /// Returns a number from 2^-64 to 2^64. All models are within this range, and beyond it results could be subnormal
    /// (`docs/arithmetic.md`).
    pub(super) fn positive(&self, name: &str, default: Option<f32>) -> Result<f32, ModelError> {
        const LARGEST: f32 = 18_446_744_073_709_551_616.0;
        const LEAST: f32 = 1.0 / LARGEST;
        let value = match (self.get(name), default) {
            (Some(value), _) => value.as_f32().ok_or(self.bad(name))?,
            (None, Some(default)) => default,
            (None, None) => return Err(ModelError::MissingKey { key: self.name(name) }),
        };
        if (LEAST..=LARGEST).contains(&value) { Ok(value) } else { Err(self.bad(name)) }
    }

    /// Returns a number as [`Keys::positive`] does, or 0 if it is 0 or the file does not have it.
    pub(super) fn not_negative(&self, name: &str) -> Result<f32, ModelError> {
        match self.get(name).map(|value| value.as_f32()) {
            None | Some(Some(0.0)) => Ok(0.0),
            Some(_) => self.positive(name, None),
        }
    }

    /// Returns a factor as [`Keys::positive`] does, or `default` if it is 0 or the file does not have it.
    pub(super) fn factor(&self, name: &str, default: f32) -> Result<f32, ModelError> {
        let factor = self.not_negative(name)?;
        Ok(if factor > 0.0 { factor } else { default })
    }

    /// Returns a flag, or `default` if the file does not have it.
    pub(super) fn flag(&self, name: &str, default: bool) -> Result<bool, ModelError> {
        self.get(name).map_or(Ok(default), |value| value.as_bool().ok_or(self.bad(name)))
    }

    /// Returns the number of rows of a tensor. The number of rows of the embedding is the size of the vocabulary.
    pub(super) fn rows_of(&self, name: &str) -> Result<usize, ModelError> {
        let tensor = Name::new(name.as_bytes());
        let info = self.files.tensor(name).ok_or(ModelError::MissingTensor { tensor })?;
        let rows = info.dims().get(1).and_then(|&rows| u32::try_from(rows).ok());
        rows.and_then(|rows| usize::try_from(rows).ok()).filter(|&rows| rows > 0).ok_or(ModelError::TensorShape {
            tensor,
            expected: [1, 1],
            found: [info.dims().get(1).copied().unwrap_or(1), info.dims().first().copied().unwrap_or(1)],
        })
    }

    /// Returns the number of rows of a tensor, or 0 if the file does not have it. A vector is one row.
    pub(super) fn rows_or_none(&self, name: &str) -> Result<usize, ModelError> {
        match self.files.tensor(name).map(|info| info.dims().len()) {
            None => Ok(0),
            Some(1) => Ok(1),
            Some(_) => self.rows_of(name),
        }
    }

    /// Returns the windows of the layers: `attention.sliding_window` positions. A pattern in the file is a period of
    /// the layers that see all positions, or a list of flags of those with a window. Without it, the architecture's
    /// period applies.
    pub(super) fn windows(
        &self,
        architecture: &Architecture,
        layers: usize,
    ) -> Result<(LayerGroups, [usize; MAX_GROUPS]), ModelError> {
        const WINDOW: &str = "attention.sliding_window";
        let window = if self.get(WINDOW).is_some() { self.count(WINDOW)? } else { architecture.window };
        if window == 0 {
            return Ok((LayerGroups::ONE, [0; MAX_GROUPS]));
        }
        let seeing = match self.get(PATTERN) {
            None => LayerSet::every(architecture.window_period),
            Some(Value::Array(_)) => {
                let sliding = self.flags(PATTERN, layers)?;
                LayerSet::of(layers, |layer| !sliding.contains(layer))
            }
            Some(_) => LayerSet::every(self.count(PATTERN).map_err(|_| self.unsupported(PATTERN))?),
        };
        Ok(match seeing.before(layers) {
            0 if seeing == LayerSet::EMPTY => (LayerGroups::ONE, [window; MAX_GROUPS]),
            all if all == layers => (LayerGroups::ONE, [0; MAX_GROUPS]),
            _ => (LayerGroups::with_second(seeing), [window, 0]),
        })
    }

    /// Returns the layers whose flag is true. The file has one flag for each layer.
    pub(super) fn flags(&self, name: &str, layers: usize) -> Result<LayerSet, ModelError> {
        let flags = self.get(name).and_then(|value| value.as_array()).ok_or(self.bad(name))?;
        let flag = |layer: usize| flags.get(layer).and_then(|flag| flag.as_bool());
        if (0..layers).any(|layer| flag(layer).is_none()) {
            return Err(self.bad(name));
        }
        Ok(LayerSet::of(layers, |layer| flag(layer) == Some(true)))
    }

    /// Returns the description of layers whose state is a matrix for each head. The matrices follow a convolution of
    /// values, keys and queries.
    pub(super) fn matrices(&self, mixer: Mixer, layers: LayerSet, groups: usize) -> Result<Recurrent, ModelError> {
        const INNER: &str = "ssm.inner_size";
        let (key_dim, heads, inner) =
            (self.size("ssm.state_size")?, self.size("ssm.time_step_rank")?, self.size(INNER)?);
        let value_dim = inner.checked_div(heads).filter(|_| inner.is_multiple_of(heads)).ok_or(self.bad(INNER))?;
        if !heads.is_multiple_of(groups) {
            return Err(self.bad(GROUPS));
        }
        let channels = groups.saturating_mul(key_dim).saturating_mul(2).saturating_add(inner);
        let kernel = self.size("ssm.conv_kernel")?;
        Ok(Recurrent { mixer, layers, channels, kernel, heads, key_dim, value_dim, groups, normed: true })
    }

    /// Returns the values for a model without rotary embedding.
    pub(super) fn no_rope(&self, pairs: RopePairs) -> Rope {
        Rope {
            dims: [0; MAX_GROUPS],
            pairs,
            original_context: 0,
            groups: LayerGroups::ONE,
            frequencies: [None; MAX_GROUPS],
            divided: [true; MAX_GROUPS],
        }
    }

    /// Returns the rotary embedding, with the same frequencies in all layers.
    pub(super) fn rope(&self, architecture: &Architecture, head_dim: usize) -> Result<Rope, ModelError> {
        const LOG_MULTIPLIER: &str = "rope.scaling.yarn_log_multiplier";
        let none = self.no_rope(architecture.pairs);
        if !architecture.rotary {
            return Ok(none);
        }
        let mut frequencies = Frequencies::plain(self.positive("rope.freq_base", Some(10_000.0))?);
        frequencies.magnitude = self.factor("rope.scaling.attn_factor", 1.0)?;
        match self.get("rope.scaling.type").map(|value| value.as_bytes().unwrap_or_default()) {
            Some(b"none" | b"longrope") => {}
            None => frequencies.factor = self.factor("rope.scaling.factor", 1.0)?,
            Some(b"linear") => frequencies.factor = self.positive("rope.scaling.factor", None)?,
            Some(b"yarn") => {
                frequencies.factor = self.positive("rope.scaling.factor", None)?;
                frequencies.yarn = Some(Yarn {
                    context: self.size_or(ORIGINAL, self.size("context_length")?)? as f32,
                    fast: self.positive("rope.scaling.yarn_beta_fast", Some(32.0))?,
                    slow: self.positive("rope.scaling.yarn_beta_slow", Some(1.0))?,
                });
                // With a multiplier of 1, a second factor cancels the first one.
                match self.get(LOG_MULTIPLIER).map(|value| value.as_f64()) {
                    None | Some(Some(0.0)) => frequencies.magnitude *= frequencies.yarn_magnitude(),
                    Some(Some(1.0)) => {}
                    Some(_) => return Err(self.unsupported(LOG_MULTIPLIER)),
                }
            }
            Some(_) => return Err(self.unsupported("rope.scaling.type")),
        }
        // The long divisors are for sequences that are longer than those of the model's first training.
        let long = self.has("rope_factors_long.weight");
        Ok(Rope {
            dims: [self.size_or("rope.dimension_count", head_dim)?; MAX_GROUPS],
            original_context: if long { self.size(ORIGINAL)? } else { 0 },
            frequencies: [Some(frequencies), None],
            ..none
        })
    }

    /// Refuses features of other files of the same architecture that would otherwise be ignored silently.
    pub(super) fn refuse_unsupported(&self, architecture: &Architecture) -> Result<(), ModelError> {
        const KEYS: [&str; 13] = [
            "expert_shared_count",
            "expert_shared_feed_forward_length",
            "expert_weights_scale",
            "leading_dense_block_count",
            "interleave_moe_layer_step",
            "attention.q_lora_rank",
            "attention.kv_lora_rank",
            "attention.temperature_scale",
            "attention.group_norm_groups",
            "attention.shared_kv_layers",
            "embedding_length_per_layer_input",
            "router_logit_softcapping",
            "swin_norm",
        ];
        let neutral = |value: Value<'_>| value.as_f64() == Some(0.0) || value.as_bool() == Some(false);
        let mut refused = KEYS.into_iter().filter(|key| !architecture.reads.contains(key));
        if let Some(key) = refused.find(|key| self.get(key).is_some_and(|value| !neutral(value))) {
            return Err(self.unsupported(key));
        }
        Ok(())
    }

    /// Refuses rotations by a fourth position. The first three positions are those of an image. In a text they are the
    /// same number, and all models here read only texts.
    pub(super) fn refuse_fourth_position(&self) -> Result<(), ModelError> {
        const SECTIONS: &str = "rope.dimension_sections";
        let fourth = self.get(SECTIONS).and_then(|sections| sections.as_array()).and_then(|sections| sections.get(3));
        match fourth.is_none_or(|pairs| pairs.as_u64() == Some(0)) {
            true => Ok(()),
            false => Err(self.unsupported(SECTIONS)),
        }
    }

    pub(super) fn bad(&self, name: &str) -> ModelError {
        ModelError::BadValue { key: self.name(name) }
    }

    pub(super) fn missing(&self, name: &str) -> ModelError {
        ModelError::MissingKey { key: self.name(name) }
    }

    pub(super) fn unsupported(&self, name: &str) -> ModelError {
        ModelError::Unsupported { key: self.name(name) }
    }

    fn name(&self, name: &str) -> Name {
        Name::new(self.key(name).as_bytes())
    }

    /// Returns `<architecture>.<name>`. It fits, because all names are short constants.
    fn key(&self, name: &str) -> heapless::String<64> {
        let mut key = heapless::String::new();
        let _ = key.write_str(self.architecture);
        let _ = key.write_str(".");
        let _ = key.write_str(name);
        key
    }
}
