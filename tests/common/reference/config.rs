//! Hyperparameters of a model, read from the keys of its file.

use gguf_rs_lite::{Gguf, Value};

use super::architecture::{ARCHITECTURES, Layout};
pub use super::architecture::{Activation, Architecture, Mixer, NormKind, Parallel, Part, Rotary, Scores};

/// Change of the rotary frequencies for long sequences.
#[derive(Clone, Copy, Debug)]
pub enum Scaling {
    Off,
    /// All frequencies are divided by the factor.
    Linear(f64),
    /// Slow frequencies are divided by the factor, and fast ones are not. <https://arxiv.org/abs/2309.00071>
    Yarn {
        factor: f64,
        /// Least turns within the original context of a pair that counts as fast.
        fast: f64,
        /// Most turns within the original context of a pair that counts as slow.
        slow: f64,
    },
}

/// The parts that a layer has.
#[derive(Clone, Copy, Debug)]
pub struct Parts {
    pub attention: bool,
    pub state: bool,
    pub feed_forward: bool,
}

/// Sizes of layers with a state.
#[derive(Clone, Copy, Debug)]
pub struct StateSizes {
    /// Number of values that a row puts into the state, over all heads.
    pub inner: usize,
    /// Number of elements of a key of the delta rule, or number of states of each channel of a state space.
    pub state: usize,
    /// Number of keys of the delta rule, or number of groups of heads that share input and output weights.
    pub groups: usize,
    pub heads: usize,
}

/// Hyperparameters of a model.
#[derive(Clone, Debug)]
pub struct Config {
    pub architecture: Architecture,
    /// Parameters of the activation function xIELU of each layer, if the file has them.
    pub xielu: Vec<[f64; 4]>,
    pub layers: usize,
    /// Parts of each layer.
    pub parts: Vec<Parts>,
    /// Sizes of layers with a state, or zeros if there are none.
    pub states: StateSizes,
    pub hidden: usize,
    pub heads: usize,
    /// Number of KV heads of each layer, or 0 if the layer has no attention.
    pub kv_heads: Vec<usize>,
    pub head_dim: usize,
    /// `head_dim` of the layers that [`sliding`](Self::sliding) lists.
    pub local_head_dim: usize,
    /// Number of layers at the end that read keys and values of earlier layers.
    pub shared_kv: usize,
    pub vocab: usize,
    /// Whether a query sees only positions up to its own.
    pub causal: bool,
    /// Number of positions that a query sees in a layer with a window, including its own. If it also sees later
    /// positions, it sees half as many on each side. 0 means all.
    pub window: usize,
    /// Period of the layers without a window: the last layer of each period. 0 means that each layer has one.
    pub window_period: usize,
    /// Whether each layer has a window, if the file has such a list.
    pub sliding: Option<Vec<bool>>,
    /// Number of elements of a head that rotate.
    pub rope_dims: usize,
    /// `rope_dims` of the layers that [`sliding`](Self::sliding) lists.
    pub local_rope_dims: usize,
    pub rope_base: f64,
    /// `rope_base` of layers with a window.
    pub local_rope_base: f64,
    pub rope_scaling: Scaling,
    /// Number of positions with which the model was first trained.
    pub original_context: usize,
    /// Factor of sines and cosines.
    pub rope_attention_factor: f64,
    /// Whether any layer rotates.
    pub rotated: bool,
    /// Whether each layer rotates, if the file has such a list.
    pub rotary: Option<Vec<bool>>,
    /// Largest exponent of the ALiBi slopes, or 0 for no ALiBi.
    pub alibi: f64,
    pub norm_eps: f64,
    pub embedding_scale: f64,
    /// Number of elements that every layer gets of each token beside the residual stream, or 0.
    pub per_layer: usize,
    pub residual_scale: f64,
    pub attention_scale: f64,
    /// Divisor of the logits.
    pub logit_divisor: f64,
    /// Cap of scores: `cap * tanh(x / cap)`. 0 means no cap.
    pub attention_cap: f64,
    /// Cap of logits, as for scores.
    pub logit_cap: f64,
    /// Bound of q, k and v on both sides. 0 means no bound.
    pub clamp: f64,
    pub parallel_residual: bool,
    /// Factor in the scale of queries: at position p, `1 + scale * ln(1 + floor(p / original context))`.
    pub temperature: f64,
    /// Number of experts, or 0 in a dense model.
    pub experts: usize,
    pub experts_used: usize,
    /// Number of layers at the start that have no experts.
    pub dense_layers: usize,
    /// Period of the layers with experts: the second layer of each period. 0 means all layers after the dense ones.
    pub expert_period: usize,
    /// Width or number of the shared experts, whichever the file states, or 0 if there are none.
    pub shared: usize,
    /// Factor of the weights of experts.
    pub expert_scale: f64,
    /// Number of groups of experts.
    pub groups: usize,
    /// Number of groups that are chosen before the experts.
    pub groups_used: usize,
}

impl Config {
    pub fn read(gguf: &Gguf<'_>, vocab: usize) -> Self {
        let name = gguf.get("general.architecture").and_then(|value| value.as_str()).expect("an architecture");
        let found = ARCHITECTURES.iter().find(|row| row.name == name);
        let mut architecture = *found.unwrap_or_else(|| panic!("the reference does not know {name}"));
        let get = |key: &str| gguf.get(&format!("{name}.{key}"));
        if get("expert_gating_func").is_some_and(|value| value.as_u64() == Some(2)) {
            architecture.scores = Scores::Sigmoid;
        }
        if get("expert_weights_norm").is_some_and(|value| value.as_bool() == Some(true))
            && architecture.scores == Scores::Softmax
        {
            architecture.scores = Scores::Normalized;
        }
        let number = |key: &str| get(key).map(|value| value.as_u64().unwrap_or_else(|| panic!("{key}")) as usize);
        let real = |key: &str| get(key).map(|value| value.as_f64().unwrap_or_else(|| panic!("{key}")));
        let needed = |key: &str| number(key).unwrap_or_else(|| panic!("no {name}.{key}"));
        let (layers, hidden) = (needed("block_count"), needed("embedding_length"));
        let sizes = |key: &str| get(key).map(|value| of_layers(value, layers));
        let heads = needed("attention.head_count");
        let kv_heads = sizes("attention.head_count_kv").unwrap_or_else(|| vec![heads as u64; layers]);
        let parts = read_parts(architecture.layout, &kv_heads, sizes);
        let head_dim = number("attention.key_length").unwrap_or(hidden / heads);
        assert_eq!(number("attention.value_length").unwrap_or(head_dim), head_dim, "values longer than keys");
        let local_head_dim = number("attention.key_length_swa").unwrap_or(head_dim);
        assert_eq!(number("attention.value_length_swa").unwrap_or(local_head_dim), local_head_dim, "longer values");
        let sliding = get("attention.sliding_window_pattern").filter(|value| value.as_array().is_some());
        let sliding = sliding.map(|list| of_layers(list, layers).into_iter().map(|flag| flag != 0).collect::<Vec<_>>());
        let rotary = get("attention.rope_pattern")
            .map(|list| of_layers(list, layers).into_iter().map(|flag| flag != 0).collect());
        let usual_scale = match architecture.layers_scaled_by_width == layers {
            _ if architecture.unscaled_scores => 1.0,
            true => (hidden as f64 / heads as f64).sqrt().recip(),
            false => (head_dim as f64).sqrt().recip(),
        };
        let rope_base = real("rope.freq_base").unwrap_or(10000.0);
        let rope_scaling = Scaling::read(get("rope.scaling.type").map(|kind| kind.as_str().unwrap()), real);
        let stretched = match rope_scaling {
            Scaling::Yarn { .. } if real("rope.scaling.yarn_log_multiplier") == Some(1.0) => 1.0,
            Scaling::Yarn { factor, .. } => 1.0 + 0.1 * factor.ln(),
            _ => 1.0,
        };
        let [embedding_scale, residual_scale, logit_divisor] = match architecture.scaled_as_minicpm {
            true => [12.0, 1.4 / (layers as f64).sqrt(), hidden as f64 / 256.0],
            false if architecture.scaled_embedding => [(hidden as f64).sqrt(), 1.0, 1.0],
            false => [1.0; 3],
        };
        let eps = match architecture.norm {
            // Converters of nemotron_h write the key of the other norm.
            NormKind::Rms => &["attention.layer_norm_rms_epsilon", "attention.layer_norm_epsilon"][..],
            NormKind::Layer => &["attention.layer_norm_epsilon"],
        };
        Self {
            layers,
            parts,
            states: StateSizes {
                inner: number("ssm.inner_size").unwrap_or(0),
                state: number("ssm.state_size").unwrap_or(0),
                groups: number("ssm.group_count").unwrap_or(0),
                heads: number("ssm.time_step_rank").unwrap_or(0),
            },
            hidden,
            heads,
            kv_heads: kv_heads.into_iter().map(|heads| heads as usize).collect(),
            head_dim,
            local_head_dim,
            shared_kv: number("attention.shared_kv_layers").unwrap_or(0),
            vocab,
            causal: get("attention.causal").map_or(architecture.causal, |value| value.as_bool().expect("a bool")),
            window: number("attention.sliding_window").unwrap_or(0),
            window_period: match &sliding {
                Some(_) => 0,
                None => number("attention.sliding_window_pattern").unwrap_or(architecture.window_period),
            },
            sliding,
            rope_dims: number("rope.dimension_count").unwrap_or(head_dim),
            local_rope_dims: number("rope.dimension_count_swa")
                .or(number("rope.dimension_count"))
                .unwrap_or(local_head_dim),
            rope_base,
            local_rope_base: real("rope.freq_base_swa").or(architecture.local_base).unwrap_or(rope_base),
            rope_scaling,
            original_context: number("rope.scaling.original_context_length")
                .unwrap_or_else(|| needed("context_length")),
            rope_attention_factor: stretched * real("rope.scaling.attn_factor").unwrap_or(1.0),
            alibi: real("attention.max_alibi_bias").unwrap_or(architecture.alibi),
            rotary,
            rotated: !architecture.rotated_by_key
                || get("rope.scaling.finetuned").and_then(|value| value.as_bool()).unwrap_or(true),
            norm_eps: eps.iter().find_map(|key| real(key)).unwrap_or_else(|| panic!("no {name}.{eps:?}")),
            embedding_scale: real("embedding_scale").unwrap_or(embedding_scale),
            per_layer: number("embedding_length_per_layer_input").unwrap_or(0),
            residual_scale: real("residual_scale").unwrap_or(residual_scale),
            attention_scale: real("attention.scale").filter(|scale| *scale != 0.0).unwrap_or(usual_scale),
            logit_divisor: match real("logit_scale") {
                Some(factor) if architecture.logits_multiplied => 1.0 / factor,
                scale => scale.unwrap_or(logit_divisor),
            },
            attention_cap: real("attn_logit_softcapping").unwrap_or(0.0),
            logit_cap: real("final_logit_softcapping").unwrap_or(0.0),
            clamp: real("attention.clamp_kqv").unwrap_or(0.0),
            parallel_residual: architecture.parallel == Parallel::Key
                && get("use_parallel_residual").and_then(|value| value.as_bool()).expect("a parallel residual or not"),
            temperature: real("attention.temperature_scale").unwrap_or(0.0),
            experts: number("expert_count").unwrap_or(0),
            experts_used: number("expert_used_count").unwrap_or(0),
            dense_layers: number("leading_dense_block_count").unwrap_or(0),
            expert_period: number("moe_every_n_layers").unwrap_or(0),
            shared: number("expert_shared_feed_forward_length").or(number("expert_shared_count")).unwrap_or(0),
            expert_scale: real("expert_weights_scale").unwrap_or(1.0),
            groups: number("expert_group_count").unwrap_or(1).max(1),
            groups_used: number("expert_group_used_count").unwrap_or(1),
            xielu: read_xielu(gguf, layers),
            architecture,
        }
    }

    /// Returns whether queries of a layer see only a window.
    pub fn is_local(&self, layer: usize) -> bool {
        self.window > 0 && self.slides(layer)
    }

    /// Returns whether a layer has a window if the model has one.
    fn slides(&self, layer: usize) -> bool {
        let seeing = match self.architecture.window_begins {
            true => layer.is_multiple_of(self.window_period),
            false => is_last_of(self.window_period, layer),
        };
        self.sliding.as_ref().map_or(!seeing, |sliding| sliding[layer])
    }

    /// Returns whether a layer has experts.
    pub fn has_experts(&self, layer: usize) -> bool {
        let has = if self.expert_period > 0 { layer % self.expert_period == 1 } else { layer >= self.dense_layers };
        self.experts > 0 && has && self.parts[layer].feed_forward
    }

    /// Returns whether the file lists a layer as one with a window.
    fn is_listed(&self, layer: usize) -> bool {
        self.sliding.is_some() && self.slides(layer)
    }

    /// Returns the number of elements of a head of a layer.
    pub fn head_dim(&self, layer: usize) -> usize {
        if self.is_listed(layer) { self.local_head_dim } else { self.head_dim }
    }

    /// Returns the number of elements of a head of a layer that rotate.
    pub fn rope_dims(&self, layer: usize) -> usize {
        if self.is_listed(layer) { self.local_rope_dims } else { self.rope_dims }
    }

    /// Returns whether the file's factors of frequencies apply to a layer.
    pub fn divides(&self, layer: usize) -> bool {
        self.architecture.divided_locally || !self.slides(layer)
    }

    /// Returns the layer whose keys and values a layer reads: itself, or the last layer of its kind that has keys and
    /// values.
    pub fn kv_layer(&self, layer: usize) -> usize {
        let own = self.layers - self.shared_kv;
        match layer < own {
            true => layer,
            false => (0..own).rev().find(|&other| self.slides(other) == self.slides(layer)).expect("one of its kind"),
        }
    }

    pub fn rotates(&self, layer: usize) -> bool {
        let only_local = self.architecture.rotated_locally && self.window > 0;
        self.rotated
            && self.rotary.as_ref().is_none_or(|rotary| rotary[layer])
            && self.architecture.rotary != Rotary::Off
            && !is_last_of(self.architecture.unrotated_period, layer)
            && (!only_local || self.is_local(layer))
    }

    /// Returns the turn of each pair of a head per position in a layer, and the factor of sines and cosines.
    pub fn frequencies(&self, layer: usize) -> (Vec<f64>, f64) {
        let local = self.is_local(layer) || self.is_listed(layer);
        let base = if local { self.local_rope_base } else { self.rope_base };
        let dims = self.rope_dims(layer) as f64;
        let plain = (0..self.rope_dims(layer) / 2).map(|i| base.powf(-2.0 * i as f64 / dims));
        if local && !self.architecture.scaled_locally {
            return (plain.collect(), 1.0);
        }
        let frequencies = match self.rope_scaling {
            Scaling::Off => plain.collect(),
            Scaling::Linear(factor) => plain.map(|frequency| frequency / factor).collect(),
            Scaling::Yarn { factor, fast, slow } => {
                // Returns the index of the pair that makes this number of turns within the original context.
                let pair = |turns: f64| {
                    dims * (self.original_context as f64 / (turns * std::f64::consts::TAU)).ln() / (2.0 * base.ln())
                };
                let (low, high) = (pair(fast).floor().max(0.0), pair(slow).ceil().min(dims - 1.0));
                let slowness = |i: usize| ((i as f64 - low) / (high - low).max(0.001)).clamp(0.0, 1.0);
                plain.enumerate().map(|(i, f)| f * (1.0 - slowness(i)) + f / factor * slowness(i)).collect()
            }
        };
        (frequencies, self.rope_attention_factor)
    }

    /// Returns the ALiBi slope of a head: the amount by which a score falls for every position further back.
    pub fn alibi_slope(&self, head: usize) -> f64 {
        // The first heads, as many as the largest power of two that fits, have the usual slopes. Those of the others
        // are between.
        let regular = (self.heads + 1).next_power_of_two() / 2;
        let exponent = match head < regular {
            true => (head + 1) as f64,
            false => (head - regular) as f64 + 0.5,
        };
        if self.alibi == 0.0 { 0.0 } else { (-self.alibi * exponent / regular as f64).exp2() }
    }
}

/// Returns the parameters of xIELU in each layer, if the file has some: alpha above and below 0, beta, epsilon.
fn read_xielu(gguf: &Gguf<'_>, layers: usize) -> Vec<[f64; 4]> {
    let list = |name: &str| -> Option<Vec<f64>> {
        let value = gguf.get(&format!("xielu.{name}"))?;
        match value.as_array() {
            Some(array) => Some(array.iter().map(|value| value.as_f64().expect("a number")).collect()),
            None => Some(vec![value.as_f64().expect("a number"); layers]),
        }
    };
    let Some(positive) = list("alpha_p") else { return Vec::new() };
    let [negative, beta, epsilon] = ["alpha_n", "beta", "eps"].map(|name| list(name).expect("all four"));
    (0..layers).map(|layer| [positive[layer], negative[layer], beta[layer], epsilon[layer]]).collect()
}

/// Returns one number for each layer, from a list or from a number for all layers.
fn of_layers(value: Value<'_>, layers: usize) -> Vec<u64> {
    let number = |value: Value<'_>| value.as_u64().or(value.as_bool().map(u64::from)).expect("a number or bool");
    let Some(array) = value.as_array() else { return vec![number(value); layers] };
    assert_eq!(array.len(), layers, "as many numbers as layers");
    array.iter().map(number).collect()
}

fn read_parts(layout: Layout, kv_heads: &[u64], key: impl Fn(&str) -> Option<Vec<u64>>) -> Vec<Parts> {
    let recurrent = key("attention.recurrent_layers");
    let interval = key("full_attention_interval");
    let widths = key("feed_forward_length");
    let parts = |layer: usize| {
        let heads = kv_heads[layer] > 0;
        let (attention, state, feed_forward) = match layout {
            Layout::Attention => (true, false, true),
            Layout::ByHeads => (heads, !heads, true),
            Layout::ByKey => {
                let by_interval = || {
                    let interval = interval.as_ref().expect("an interval of layers with attention")[layer] as usize;
                    !is_last_of(interval, layer)
                };
                let state = recurrent.as_ref().map_or_else(by_interval, |layers| layers[layer] != 0);
                (!state, state, true)
            }
            Layout::Both => (true, true, true),
            Layout::OneOfThree => {
                let feed_forward = widths.as_ref().expect("a width for each layer")[layer] > 0;
                assert!(!heads || !feed_forward, "layer {layer} is two things");
                (heads, !heads && !feed_forward, feed_forward)
            }
        };
        Parts { attention, state, feed_forward }
    };
    (0..kv_heads.len()).map(parts).collect()
}

/// Returns whether a layer is the last one of its period. Layers are counted from 0.
fn is_last_of(period: usize, layer: usize) -> bool {
    period > 0 && layer % period == period - 1
}

impl Scaling {
    fn read(kind: Option<&str>, real: impl Fn(&str) -> Option<f64>) -> Self {
        let factor = real("rope.scaling.factor").filter(|factor| *factor != 0.0);
        match (kind.unwrap_or("linear"), factor) {
            // The long factors are tensors.
            ("none" | "longrope", _) | ("linear", None) => Self::Off,
            ("linear", Some(factor)) => Self::Linear(factor),
            ("yarn", Some(factor)) => Self::Yarn {
                factor,
                fast: real("rope.scaling.yarn_beta_fast").unwrap_or(32.0),
                slow: real("rope.scaling.yarn_beta_slow").unwrap_or(1.0),
            },
            (kind, factor) => panic!("the reference does not know rope scaling {kind} by {factor:?}"),
        }
    }
}
