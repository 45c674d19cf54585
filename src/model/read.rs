//! The configuration of a model, from the metadata of its file.

use super::arch::{Architecture, FFN_WIDTHS};
use super::keys::Keys;
use crate::kernels::NormKind;
use crate::nn::{RouterScores, Routing};
use crate::weights::{
    Attention, Config, Embedding, FeedForward, Gate, Head, MAX_LAYERS, Mixer, ModelError, QkNorm, Recurrent, Role,
    inverse_root,
};

const EPSILON: &str = "attention.layer_norm_epsilon";
const RMS_EPSILON: &str = "attention.layer_norm_rms_epsilon";

/// The configuration that a file and its architecture give.
pub(super) fn read(keys: &Keys<'_>, architecture: &Architecture) -> Result<Config, ModelError> {
    keys.refuse_unsupported(architecture)?;
    let layers = keys.size("block_count")?;
    if layers > MAX_LAYERS {
        return Err(ModelError::TooMany { count: layers, limit: MAX_LAYERS });
    }
    let (hidden, heads) = (keys.size("embedding_length")?, keys.size("attention.head_count")?);
    let head_dim = keys.size_or("attention.key_length", hidden / heads.max(1))?;
    let (layer_groups, windows) = keys.windows(architecture, layers)?;
    let (feed_forward, ffn) = feed_forward(keys, architecture, layers)?;
    let (attention_layers, kv_heads) = keys.some_layers("attention.head_count_kv", layers, Some(heads))?;
    let mut config = Config {
        architecture: architecture.name,
        layers,
        hidden,
        ffn,
        heads,
        kv_heads,
        head_dim,
        vocab: keys.rows_of(Role::Embedding.name())?,
        context: keys.size("context_length")?,
        embedding: Embedding {
            scale: keys.factor("embedding_scale", 1.0)?,
            positions: 0,
            norm: architecture.embedding_norm,
        },
        norm: architecture.norm,
        norm_epsilon: match architecture.norm {
            // Nemotron-H's files have the key of the other kind.
            NormKind::Rms if keys.get(RMS_EPSILON).is_none() && keys.get(EPSILON).is_some() => {
                keys.positive(EPSILON, None)?
            }
            NormKind::Rms => keys.positive(RMS_EPSILON, None)?,
            NormKind::Layer => keys.positive(EPSILON, None)?,
        },
        residual_scale: keys.factor("residual_scale", 1.0)?,
        attention_layers,
        recurrent: Recurrent::default(),
        attention: attention(keys, architecture.qk_norm, head_dim)?,
        rope: keys.rope(architecture, head_dim)?,
        feed_forward,
        head: Head { embedding_norm: false, scale: 1.0, soft_cap: keys.not_negative("final_logit_softcapping")? },
        biases: architecture.biases,
        layer_groups,
        windows,
    };
    (architecture.finish)(keys, &mut config)?;
    if config.attention_layers.before(layers) < layers && config.recurrent == Recurrent::default() {
        return Err(keys.unsupported("attention.head_count_kv"));
    }
    check_recurrent(&config.recurrent, keys)?;
    check(&config, keys, architecture)?;
    Ok(config)
}

fn attention(keys: &Keys<'_>, qk_norm: QkNorm, head_dim: usize) -> Result<Attention, ModelError> {
    Ok(Attention {
        scale: keys.factor("attention.scale", inverse_root(head_dim))?,
        soft_cap: keys.not_negative("attn_logit_softcapping")?,
        alibi: keys.not_negative("attention.max_alibi_bias")?,
        clamp: keys.not_negative("attention.clamp_kqv")?,
        qk_norm,
        norm_after_rotation: false,
        temperature: None,
        sink_scores: false,
        fused: keys.has("blk.0.attn_qkv.weight"),
        gated: false,
    })
}

/// The feed-forward layers, and their width.
fn feed_forward(
    keys: &Keys<'_>,
    architecture: &Architecture,
    layers: usize,
) -> Result<(FeedForward, usize), ModelError> {
    let experts = keys.count("expert_count")?;
    let of_expert = if experts > 0 { keys.count("expert_feed_forward_length")? } else { 0 };
    let dense_layers = if experts > 0 { keys.count("leading_dense_block_count")? } else { 0 };
    // Files in which every layer has experts need not have the width of others.
    let ffn = match of_expert > 0 && dense_layers == 0 {
        true => of_expert,
        false => width_of_most(keys, architecture, layers)?,
    };
    let expert_width = if of_expert > 0 { of_expert } else { ffn };
    let shared_width = match keys.count("expert_shared_feed_forward_length")? {
        0 => keys.count("expert_shared_count")?.saturating_mul(expert_width),
        width => width,
    };
    let gate = if !architecture.gated {
        Gate::None
    } else if (experts == 0 || dense_layers > 0) && keys.rows_of("blk.0.ffn_up.weight")? == 2 * ffn {
        Gate::Fused
    } else {
        Gate::Separate
    };
    let form = FeedForward {
        activation: architecture.activation,
        gate,
        experts,
        experts_used: if experts > 0 { keys.size("expert_used_count")? } else { 0 },
        expert_width,
        routing: routing(keys, architecture)?,
        shared_width,
        shared_gate: shared_width > 0 && architecture.shared_gate,
        dense_layers,
    };
    Ok((form, ffn))
}

/// The width of the feed-forward layers that have one.
fn width_of_most(keys: &Keys<'_>, architecture: &Architecture, layers: usize) -> Result<usize, ModelError> {
    let (wide, width) = keys.some_layers(FFN_WIDTHS, layers, None)?;
    let all = wide.before(layers) == layers;
    if all || architecture.reads.contains(&FFN_WIDTHS) { Ok(width) } else { Err(keys.unsupported(FFN_WIDTHS)) }
}

/// How experts are chosen and weighted.
fn routing(keys: &Keys<'_>, architecture: &Architecture) -> Result<Routing, ModelError> {
    const GATING: &str = "expert_gating_func";
    let usual = architecture.routing;
    let of_chosen = usual.scores == RouterScores::SoftmaxOfChosen;
    let normalized = keys.flag("expert_weights_norm", usual.normalized || of_chosen)?;
    let scores = match keys.get(GATING).map(|value| value.as_u64()) {
        // The softmax of all, normalized, is that of the chosen ones.
        None | Some(Some(1)) if of_chosen && normalized => RouterScores::SoftmaxOfChosen,
        None if !of_chosen => usual.scores,
        None | Some(Some(1)) => RouterScores::Softmax,
        Some(Some(2)) => RouterScores::Sigmoid,
        Some(Some(3)) => RouterScores::SoftmaxOfChosen,
        Some(_) => return Err(keys.unsupported(GATING)),
    };
    let normalized = normalized && scores != RouterScores::SoftmaxOfChosen;
    Ok(Routing { scores, normalized, scale: keys.factor("expert_weights_scale", 1.0)?, ..usual })
}

/// Checks the sizes of recurrent layers: products of these are computed freely from here on.
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
    if !config.heads.is_multiple_of(config.kv_heads) {
        return Err(keys.bad("attention.head_count_kv"));
    }
    // Products of these are computed freely from here on.
    let FeedForward { experts, experts_used, expert_width, shared_width, dense_layers, .. } = config.feed_forward;
    let sizes = [config.hidden, config.ffn, expert_width, shared_width, config.heads, config.head_dim];
    let bounded = sizes.iter().all(|&size| size <= 1 << 24);
    if !bounded || config.heads.saturating_mul(config.head_dim) > 1 << 24 {
        return Err(keys.bad("attention.head_count"));
    }
    if keys.size_or("attention.value_length", config.head_dim)? != config.head_dim {
        return Err(keys.unsupported("attention.value_length"));
    }
    if !config.rope.dims.is_multiple_of(2) || config.rope.dims > config.head_dim {
        return Err(keys.bad("rope.dimension_count"));
    }
    if config.head.scale == 1.0 && keys.factor("logit_scale", 1.0)? != 1.0 {
        return Err(keys.unsupported("logit_scale"));
    }
    if dense_layers > config.layers {
        return Err(keys.bad("leading_dense_block_count"));
    }
    if experts > 0 && !(architecture.experts && cfg!(feature = "experts")) {
        return Err(keys.unsupported("expert_count"));
    }
    if experts_used > experts || experts > 1 << 10 {
        return Err(keys.bad("expert_used_count"));
    }
    Ok(())
}
