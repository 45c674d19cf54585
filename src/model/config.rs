//! What a model computes, as data, and how it is read from the metadata.

use core::fmt::Write;

use gguf_rs_lite::{Gguf, Name, Value};

use super::error::ModelError;
use crate::cache::{LayerGroups, MAX_GROUPS};
use crate::ops::RopePairs;

/// More layers than any model has: keeps hostile files from choosing how long a loop runs.
pub(super) const MAX_LAYERS: usize = 1024;

/// What the forward pass branches on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// `general.architecture`.
    pub architecture: &'static str,
    /// Decoder layers.
    pub layers: usize,
    /// Width of the residual stream.
    pub hidden: usize,
    /// Width of the feed-forward layer.
    pub ffn: usize,
    /// Query heads.
    pub heads: usize,
    /// Key and value heads; divides `heads`.
    pub kv_heads: usize,
    /// Elements per head.
    pub head_dim: usize,
    /// Token ids are below this.
    pub vocab: usize,
    /// Tokens that the model was trained on at a time.
    pub context: usize,
    /// Added to the mean square in norms.
    pub norm_epsilon: f32,
    /// Whether each head of Q and K is normalized before the rotation.
    pub qk_norm: bool,
    /// How positions enter.
    pub rope: Rope,
    /// Which layers share a KV pool.
    pub layer_groups: LayerGroups,
    /// How many of the last positions the layers of each group see; 0 stands for all.
    pub windows: [usize; MAX_GROUPS],
}

/// Rotary position embedding.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rope {
    /// Elements of each head that are rotated; even.
    pub dims: usize,
    /// The base of the frequencies.
    pub base: f32,
    /// What all frequencies are divided by.
    pub factor: f32,
    /// Which elements form a pair.
    pub pairs: RopePairs,
}

impl Config {
    /// Elements of Q per row.
    pub fn q_width(&self) -> usize {
        self.heads * self.head_dim
    }

    /// Elements of K (and of V) per row.
    pub fn kv_width(&self) -> usize {
        self.kv_heads * self.head_dim
    }

    /// Query heads per KV head.
    pub fn group(&self) -> usize {
        self.heads / self.kv_heads.max(1)
    }

    /// What architectures of the llama family have in common.
    pub(super) fn decoder(
        keys: &Keys<'_>,
        architecture: &'static str,
        pairs: RopePairs,
        qk_norm: bool,
    ) -> Result<Self, ModelError> {
        keys.refuse_unsupported()?;
        let layers = keys.size("block_count")?;
        if layers > MAX_LAYERS {
            return Err(ModelError::TooMany { count: layers, limit: MAX_LAYERS });
        }
        let (hidden, heads) = (keys.size("embedding_length")?, keys.size("attention.head_count")?);
        let kv_heads = keys.size_or("attention.head_count_kv", heads)?;
        let head_dim = keys.size_or("attention.key_length", hidden / heads.max(1))?;
        let (layer_groups, windows) = keys.windows()?;
        let config = Self {
            architecture,
            layers,
            hidden,
            ffn: keys.size("feed_forward_length")?,
            heads,
            kv_heads,
            head_dim,
            vocab: keys.vocab()?,
            context: keys.size("context_length")?,
            norm_epsilon: keys.positive("attention.layer_norm_rms_epsilon", None)?,
            qk_norm,
            rope: Rope {
                dims: keys.size_or("rope.dimension_count", head_dim)?,
                base: keys.positive("rope.freq_base", Some(10_000.0))?,
                factor: keys.rope_factor()?,
                pairs,
            },
            layer_groups,
            windows,
        };
        config.check(keys)?;
        Ok(config)
    }

    /// Relations between the values.
    fn check(&self, keys: &Keys<'_>) -> Result<(), ModelError> {
        if !self.heads.is_multiple_of(self.kv_heads) {
            return Err(keys.bad("attention.head_count_kv"));
        }
        // Products of these are computed freely from here on.
        let bounded = [self.hidden, self.ffn, self.heads, self.head_dim].iter().all(|&size| size <= 1 << 24);
        if !bounded || self.heads.saturating_mul(self.head_dim) > 1 << 24 {
            return Err(keys.bad("attention.head_count"));
        }
        if keys.size_or("attention.value_length", self.head_dim)? != self.head_dim {
            return Err(keys.unsupported("attention.value_length"));
        }
        if !self.rope.dims.is_multiple_of(2) || self.rope.dims > self.head_dim {
            return Err(keys.bad("rope.dimension_count"));
        }
        Ok(())
    }
}

/// The metadata keys of an architecture, `<architecture>.<name>`.
#[derive(Debug)]
pub(super) struct Keys<'m> {
    pub(super) gguf: &'m Gguf<'m>,
    pub(super) architecture: &'static str,
}

impl<'m> Keys<'m> {
    fn get(&self, name: &str) -> Option<Value<'m>> {
        self.gguf.get(&self.key(name))
    }

    /// A size that must be there: positive, and small enough for an index.
    fn size(&self, name: &str) -> Result<usize, ModelError> {
        let value = self.get(name).ok_or(ModelError::MissingKey { key: self.name(name) })?;
        let size = value.as_u64().and_then(|size| u32::try_from(size).ok()).and_then(|size| usize::try_from(size).ok());
        size.filter(|&size| size > 0).ok_or(self.bad(name))
    }

    fn size_or(&self, name: &str, default: usize) -> Result<usize, ModelError> {
        match self.get(name) {
            None if default == 0 => Err(self.bad(name)),
            None => Ok(default),
            Some(_) => self.size(name),
        }
    }

    /// A finite number above 0.
    fn positive(&self, name: &str, default: Option<f32>) -> Result<f32, ModelError> {
        let value = match (self.get(name), default) {
            (Some(value), _) => value.as_f32().ok_or(self.bad(name))?,
            (None, Some(default)) => default,
            (None, None) => return Err(ModelError::MissingKey { key: self.name(name) }),
        };
        if value.is_finite() && value > 0.0 { Ok(value) } else { Err(self.bad(name)) }
    }

    /// The vocabulary's size: the number of rows of the embedding.
    fn vocab(&self) -> Result<usize, ModelError> {
        let tensor = Name::new(super::weights::EMBEDDING.as_bytes());
        let info = self.gguf.tensor(super::weights::EMBEDDING).ok_or(ModelError::MissingTensor { tensor })?;
        let rows = info.dims().get(1).and_then(|&rows| u32::try_from(rows).ok());
        rows.and_then(|rows| usize::try_from(rows).ok()).filter(|&rows| rows > 0).ok_or(ModelError::TensorShape {
            tensor,
            expected: [1, 1],
            found: [info.dims().get(1).copied().unwrap_or(1), info.dims().first().copied().unwrap_or(1)],
        })
    }

    /// The layers' windows: `attention.sliding_window` positions; where there is a pattern, every so many-th layer
    /// sees everything.
    fn windows(&self) -> Result<(LayerGroups, [usize; MAX_GROUPS]), ModelError> {
        const WINDOW: &str = "attention.sliding_window";
        const PATTERN: &str = "attention.sliding_window_pattern";
        if self.get(WINDOW).is_none_or(|window| window.as_u64() == Some(0)) {
            return Ok((LayerGroups::ONE, [0; MAX_GROUPS]));
        }
        let window = self.size(WINDOW)?;
        match self.get(PATTERN).map(|pattern| pattern.as_u64().and_then(|period| usize::try_from(period).ok())) {
            None | Some(Some(0)) => Ok((LayerGroups::ONE, [window; MAX_GROUPS])),
            Some(Some(1)) => Ok((LayerGroups::ONE, [0; MAX_GROUPS])),
            Some(Some(period)) => Ok((LayerGroups::alternating(period), [window, 0])),
            Some(None) => Err(self.unsupported(PATTERN)),
        }
    }

    /// What `rope.scaling` divides the frequencies by.
    fn rope_factor(&self) -> Result<f32, ModelError> {
        match self.get("rope.scaling.type").map(|value| value.as_bytes().unwrap_or_default()) {
            None | Some(b"none") => Ok(1.0),
            Some(b"linear") => self.positive("rope.scaling.factor", None),
            Some(_) => Err(self.unsupported("rope.scaling.type")),
        }
    }

    /// Refuses features that other files of the same architecture have and that would be left out silently.
    fn refuse_unsupported(&self) -> Result<(), ModelError> {
        const KEYS: [&str; 8] = [
            "expert_count",
            "attention.scale",
            "attention.clamp_kqv",
            "attn_logit_softcapping",
            "final_logit_softcapping",
            "embedding_scale",
            "residual_scale",
            "logit_scale",
        ];
        let neutral = |value: Value<'_>| value.as_f64() == Some(0.0);
        match KEYS.into_iter().find(|key| self.get(key).is_some_and(|value| !neutral(value))) {
            Some(key) => Err(self.unsupported(key)),
            None => Ok(()),
        }
    }

    fn bad(&self, name: &str) -> ModelError {
        ModelError::BadValue { key: self.name(name) }
    }

    fn unsupported(&self, name: &str) -> ModelError {
        ModelError::Unsupported { key: self.name(name) }
    }

    fn name(&self, name: &str) -> Name {
        Name::new(self.key(name).as_bytes())
    }

    /// `<architecture>.<name>`: all names are short constants.
    fn key(&self, name: &str) -> heapless::String<64> {
        let mut key = heapless::String::new();
        let _ = key.write_str(self.architecture);
        let _ = key.write_str(".");
        let _ = key.write_str(name);
        key
    }
}
