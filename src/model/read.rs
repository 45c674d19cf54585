//! The configuration of a model, from the metadata of its file.

use super::arch::{Architecture, DENSE_LAYERS, FFN_WIDTHS};
use super::keys::{Keys, PREDICTING};
use crate::kernels::NormKind;
use crate::kv::{KvShape, LayerGroups, LayerSet, MAX_GROUPS};
use crate::nn::{RouterScores, Routing};
use crate::weights::{
    Attention, Config, Embedding, FeedForward, FinalNorm, Gate, Head, HeadGates, Mixer, ModelError, Pooler, Pooling,
    Recurrent, Role, inverse_root,
};

const EPSILON: &str = "attention.layer_norm_epsilon";
const KV_HEADS: &str = "attention.head_count_kv";
const RMS_EPSILON: &str = "attention.layer_norm_rms_epsilon";
const CAUSAL: &str = "attention.causal";

/// Returns the configuration that a file and its architecture determine.
pub(super) fn read(keys: &Keys<'_>, architecture: &Architecture) -> Result<Config, ModelError> {
    keys.refuse_unsupported(architecture)?;
    let layers = keys.layers()?;
    let (hidden, heads) = (keys.size("embedding_length")?, keys.size("attention.head_count")?);
    let head_dim = keys.head_dim("attention.key_length", "attention.value_length", hidden / heads.max(1))?;
    let (layer_groups, windows) = keys.windows(architecture, layers)?;
    let (feed_forward, ffn) = feed_forward(keys, architecture, layers)?;
    let kv_heads = keys.sizes(KV_HEADS, layers, Some(heads))?;
    let kv_shape = |group| {
        let layers = (0..layers).filter(|&layer| layer_groups.group(layer) == group);
        kv_heads.common(layers).map(|heads| KvShape { heads, head_dim }).ok_or(keys.unsupported(KV_HEADS))
    };
    let mut config = Config {
        architecture: architecture.name,
        layers,
        first_layer: 0,
        hidden,
        ffn,
        heads,
        kv_shapes: [kv_shape(0)?, kv_shape(layer_groups.count() - 1)?],
        vocab: keys.rows_of(Role::Embedding.name())?,
        context: keys.size("context_length")?,
        embedding: Embedding {
            scale: keys.factor("embedding_scale", 1.0)?,
            positions: 0,
            types: 0,
            norm: architecture.embedding_norm,
            per_layer: 0,
        },
        norm: architecture.norm,
        norm_epsilon: match architecture.norm {
            // Files of Nemotron-H have the key of the other kind of norm.
            NormKind::Rms if keys.get(RMS_EPSILON).is_none() && keys.get(EPSILON).is_some() => {
                keys.positive(EPSILON, None)?
            }
            NormKind::Rms => keys.positive(RMS_EPSILON, None)?,
            NormKind::Layer => keys.positive(EPSILON, None)?,
        },
        residual_scale: keys.factor("residual_scale", 1.0)?,
        attention_layers: kv_heads.present(layers),
        shared_kv: 0,
        recurrent: Recurrent::default(),
        attention: attention(keys, architecture, head_dim)?,
        rope: keys.rope(architecture, head_dim)?,
        feed_forward,
        head: Head { norm: FinalNorm::Output, scale: 1.0, soft_cap: keys.not_negative("final_logit_softcapping")? },
        biases: architecture.biases,
        layer_groups,
        windows,
        pooler: pooler(keys)?,
    };
    (architecture.finish)(keys, &mut config)?;
    if config.attention_layers.before(layers) < layers && config.recurrent == Recurrent::default() {
        return Err(keys.unsupported(KV_HEADS));
    }
    check_recurrent(&config.recurrent, keys)?;
    check(&config, keys, architecture)?;
    Ok(config)
}

/// Returns the configuration of a model's first layer that predicts further ahead.
pub(super) fn predictor(keys: &Keys<'_>, model: &Config, is_computed: bool) -> Result<Config, ModelError> {
    let first = model.layers;
    // `MAX_LAYERS` is far below the limit of `u16`.
    let first_layer = u16::try_from(first).map_err(|_| keys.unsupported(PREDICTING))?;
    if model.is_predictor() || keys.predicting()? == 0 {
        return Err(keys.missing(PREDICTING));
    }
    if !is_computed {
        return Err(keys.unsupported(PREDICTING));
    }
    let mut config = *model;
    (config.layers, config.first_layer) = (1, first_layer);
    (config.attention_layers, config.recurrent) = (LayerSet::every(1), Recurrent::default());
    (config.layer_groups, config.feed_forward.dense_layers) = (LayerGroups::ONE, 0);
    if keys.has_in_layer(first, Role::PredictorNorm.name()) {
        config.head.norm = FinalNorm::Predictor;
    }
    Ok(config)
}

fn attention(keys: &Keys<'_>, architecture: &Architecture, head_dim: usize) -> Result<Attention, ModelError> {
    Ok(Attention {
        causal: keys.flag(CAUSAL, architecture.causal)?,
        scale: keys.factor("attention.scale", inverse_root(head_dim))?,
        soft_cap: keys.not_negative("attn_logit_softcapping")?,
        alibi: keys.not_negative("attention.max_alibi_bias")?,
        clamp: keys.not_negative("attention.clamp_kqv")?,
        qk_norm: architecture.qk_norm,
        norm_after_rotation: false,
        norm_values: false,
        keys_as_values: LayerSet::EMPTY,
        temperature: None,
        sink_scores: false,
        fused: keys.has("blk.0.attn_qkv.weight"),
        gates: HeadGates::None,
    })
}

/// Returns how the hidden states of a text become one vector.
fn pooler(keys: &Keys<'_>) -> Result<Pooler, ModelError> {
    const TYPE: &str = "pooling_type";
    let pooling = match keys.get(TYPE).map(|value| value.as_i64()) {
        None | Some(Some(-1 | 0)) => None,
        Some(Some(1)) => Some(Pooling::Mean),
        Some(Some(2)) => Some(Pooling::Cls),
        Some(Some(3)) => Some(Pooling::Last),
        Some(Some(4)) => Some(Pooling::Rank),
        Some(_) => return Err(keys.bad(TYPE)),
    };
    if !cfg!(feature = "encoder") {
        return Ok(Pooler { pooling, ..Pooler::default() });
    }
    let rows = |role: Role| keys.rows_or_none(role.name());
    Ok(Pooler {
        pooling,
        dense: [rows(Role::Dense2)?, rows(Role::Dense3)?],
        classifier: rows(Role::Classifier)?,
        classes: rows(Role::Classes)?,
        ..Pooler::default()
    })
}

/// Returns the description of the feed-forward layers, and their width.
fn feed_forward(
    keys: &Keys<'_>,
    architecture: &Architecture,
    layers: usize,
) -> Result<(FeedForward, usize), ModelError> {
    let experts = keys.count("expert_count")?;
    let of_expert = if experts > 0 { keys.count("expert_feed_forward_length")? } else { 0 };
    let dense_layers = if experts > 0 { keys.count(DENSE_LAYERS)? } else { 0 };
    // Files in which every layer has experts may lack the width of other feed-forward layers.
    let (ffn, other_layers, other_width) =
        match of_expert > 0 && dense_layers == 0 && !architecture.dense_beside_experts {
            true => (of_expert, LayerSet::EMPTY, of_expert),
            false => widths(keys, architecture, layers)?,
        };
    let expert_width = if of_expert > 0 { of_expert } else { ffn };
    let shared_width = match keys.count("expert_shared_feed_forward_length")? {
        0 => keys.count("expert_shared_count")?.saturating_mul(expert_width),
        width => width,
    };
    let gate = if !architecture.gated {
        Gate::None
    } else if (experts == 0 || dense_layers > 0) && keys.rows_of("blk.0.ffn_up.weight")? == ffn.saturating_mul(2) {
        Gate::Fused
    } else {
        Gate::Separate
    };
    let form = FeedForward {
        other_layers,
        other_width,
        activation: architecture.activation,
        gate,
        experts,
        experts_used: if experts > 0 { keys.size("expert_used_count")? } else { 0 },
        expert_width,
        fused_experts: keys.has("blk.0.ffn_gate_up_exps.weight"),
        routing: routing(keys, architecture)?,
        shared_width,
        shared_gate: shared_width > 0 && architecture.shared_gate,
        dense_layers: dense_layers as u32,
        expert_period: 1,
    };
    if dense_layers > layers {
        return Err(keys.bad(DENSE_LAYERS));
    }
    Ok((form, ffn))
}

/// Returns the width of most feed-forward layers, the set of layers with another width, and that other width.
fn widths(keys: &Keys<'_>, architecture: &Architecture, layers: usize) -> Result<(usize, LayerSet, usize), ModelError> {
    let widths = keys.sizes(FFN_WIDTHS, layers, None)?;
    let present = widths.present(layers);
    if present.before(layers) < layers && !architecture.reads.contains(&FFN_WIDTHS) {
        return Err(keys.unsupported(FFN_WIDTHS));
    }
    let width = (0..layers).map(|layer| widths.of(layer)).find(|&width| width > 0).unwrap_or(1);
    let other_layers = LayerSet::of(layers, |layer| present.contains(layer) && widths.of(layer) != width);
    let other_width = widths.common((0..layers).filter(|&layer| other_layers.contains(layer)));
    Ok((width, other_layers, other_width.ok_or(keys.unsupported(FFN_WIDTHS))?))
}

/// Returns how experts are chosen and weighted.
fn routing(keys: &Keys<'_>, architecture: &Architecture) -> Result<Routing, ModelError> {
    const GATING: &str = "expert_gating_func";
    let usual = architecture.routing;
    let of_chosen = usual.scores == RouterScores::SoftmaxOfChosen;
    let normalized = keys.flag("expert_weights_norm", usual.normalized || of_chosen)?;
    let scores = match keys.get(GATING).map(|value| value.as_u64()) {
        // The normalized softmax over all experts is the softmax over the chosen ones.
        None | Some(Some(1)) if of_chosen && normalized => RouterScores::SoftmaxOfChosen,
        None if !of_chosen => usual.scores,
        None | Some(Some(1)) => RouterScores::Softmax,
        Some(Some(2)) => RouterScores::Sigmoid,
        Some(Some(3)) => RouterScores::SoftmaxOfChosen,
        Some(_) => return Err(keys.unsupported(GATING)),
    };
    let (groups, groups_used) = expert_groups(keys)?;
    // Groups are chosen by sums of probabilities, not of logits.
    let grouped = groups > 1 && of_chosen && keys.get(GATING).is_none_or(|value| value.as_u64() == Some(1));
    let (scores, normalized) = if grouped { (RouterScores::Softmax, normalized) } else { (scores, normalized) };
    let normalized = normalized && scores != RouterScores::SoftmaxOfChosen;
    let scale = keys.factor("expert_weights_scale", 1.0)?;
    Ok(Routing { scores, normalized, scale, groups, groups_used, ..usual })
}

/// Returns the number of groups of experts, and the number of groups that are chosen first.
fn expert_groups(keys: &Keys<'_>) -> Result<(u32, u32), ModelError> {
    const GROUPS: &str = "expert_group_count";
    const USED: &str = "expert_group_used_count";
    let groups = keys.count(GROUPS)?.max(1);
    let used = keys.count(USED)?;
    if groups == 1 {
        return Ok((1, 1));
    }
    let [experts, of_token] = ["expert_count", "expert_used_count"].map(|name| keys.count(name));
    let (experts, of_token) = (experts?, of_token?);
    let of_group = experts.checked_div(groups).unwrap_or(0);
    // A group is ranked by its two best experts, and the chosen groups must have enough experts for a token.
    let fits = groups <= Routing::MAX_GROUPS as usize && of_group >= 2 && experts.is_multiple_of(groups);
    if !fits {
        return Err(keys.bad(GROUPS));
    }
    if used == 0 || used > groups || of_group.saturating_mul(used) < of_token {
        return Err(keys.bad(USED));
    }
    Ok((groups as u32, used as u32))
}

/// Checks the sizes of recurrent layers. Later code multiplies these sizes without checks for overflow.
fn check_recurrent(recurrent: &Recurrent, keys: &Keys<'_>) -> Result<(), ModelError> {
    let Recurrent { mixer, channels, kernel, heads, key_dim, value_dim, groups, .. } = *recurrent;
    let bounds = [
        ("ssm.conv_kernel", kernel <= 1 << 8),
        ("ssm.inner_size", channels <= 1 << 19 && value_dim <= 1 << 16),
        ("ssm.state_size", key_dim <= 1 << 12),
        ("ssm.time_step_rank", heads <= 1 << 12),
        ("ssm.group_count", mixer == Mixer::None || mixer == Mixer::ShortConvolution || groups > 0 && groups <= heads),
    ];
    match bounds.into_iter().find(|&(_, holds)| !holds) {
        Some((key, _)) => Err(keys.bad(key)),
        None => Ok(()),
    }
}

/// Checks the relations between the values.
fn check(config: &Config, keys: &Keys<'_>, architecture: &Architecture) -> Result<(), ModelError> {
    if config.kv_shapes.iter().any(|shape| !config.heads.is_multiple_of(shape.heads)) {
        return Err(keys.bad(KV_HEADS));
    }
    // Without a mask, windows and distances to both sides are defined for encoders only, and a state has a direction.
    let directed = architecture.causal && (config.windows != [0; MAX_GROUPS] || config.attention.alibi > 0.0)
        || config.recurrent.mixer != Mixer::None;
    if !config.attention.causal && (directed || !cfg!(feature = "encoder")) {
        return Err(keys.unsupported(CAUSAL));
    }
    // Later code multiplies these sizes without checks for overflow.
    let FeedForward { experts, experts_used, expert_width, other_width, shared_width, .. } = config.feed_forward;
    let Pooler { dense: [dense_2, dense_3], classifier, classes, .. } = config.pooler;
    let sizes = [config.hidden, config.ffn, other_width, expert_width, shared_width, config.heads];
    let others =
        [dense_2, dense_3, classifier, classes].into_iter().chain(config.kv_shapes.map(|shape| shape.head_dim));
    let bounded = sizes.into_iter().chain(others).all(|size| size <= 1 << 24);
    if !bounded || config.kv_shapes.iter().any(|shape| config.heads.saturating_mul(shape.head_dim) > 1 << 24) {
        return Err(keys.bad("attention.head_count"));
    }
    // Snapshots store each size of two different shapes in 16 bits.
    let [kv, other] = config.kv_shapes;
    if kv != other && [kv.heads, kv.head_dim, other.heads, other.head_dim].into_iter().any(|size| size >= 1 << 16) {
        return Err(keys.bad(KV_HEADS));
    }
    let turned = |layer| (config.rope.place(layer).len(), config.layer(layer).kv.head_dim);
    let odd_or_larger = |(dims, of_head): (usize, usize)| !dims.is_multiple_of(2) || dims > of_head;
    // This includes a set that no layer uses, because its cosines are computed with the others.
    let largest = config.kv_shapes[0].head_dim.max(config.kv_shapes[1].head_dim);
    let sets = config.rope.dims.into_iter().any(|dims| odd_or_larger((dims, largest)));
    if sets || (0..config.layers).map(turned).any(odd_or_larger) {
        return Err(keys.bad("rope.dimension_count"));
    }
    if config.head.scale == 1.0 && keys.factor("logit_scale", 1.0)? != 1.0 {
        return Err(keys.unsupported("logit_scale"));
    }
    if experts > 0 && !(architecture.experts && cfg!(feature = "experts")) {
        return Err(keys.unsupported("expert_count"));
    }
    if experts_used > experts || experts > 1 << 10 {
        return Err(keys.bad("expert_used_count"));
    }
    Ok(())
}
