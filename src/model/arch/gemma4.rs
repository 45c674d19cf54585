//! Gemma 4: heads of another size in the layers that see all positions, keys and values that later layers read again,
//! an input of every layer beside the residual stream, and experts beside a feed-forward layer.

use super::{Architecture, DECODER, FFN_WIDTHS};
use crate::kernels::Activation;
use crate::kv::{LayerGroups, LayerSet};
use crate::model::keys::{Keys, PATTERN};
use crate::nn::{Frequencies, Routing};
use crate::ops::{AddExperts, AddPerLayer, GateUp, Input, Op, ProjectPerLayer, Scale, Source, Target};
use crate::program::lists::{
    ANGLES, ATTENTION_BOTH_NORMS, CHOOSE_EXPERTS, EMBED, EXPERT_DOWN, EXPERT_GATE_UP, FEED_FORWARD_BOTH_NORMS, GATE_UP,
    GATHER, GROUP_ROWS, ROUTE, add_normed, all, down, finished, layer, norm, project, quantize, renorm, uniform,
};
use crate::program::{LayerKind, Program, Step};
use crate::weights::{Config, ModelError, QkNorm, Role, inverse_root};

/// Makes the inputs of all layers, from the embedding and from a table of their own.
const BEGIN: &[Step] = &[
    all(EMBED),
    all(quantize(Source::Residual, Input::PerLayer)),
    all(Op::ProjectPerLayer(ProjectPerLayer)),
    all(Op::AddPerLayer(AddPerLayer)),
    all(ANGLES),
];

/// Adds a layer's own input, gated by the residual stream.
const LAYER_INPUT: &[Step] = &[
    finished(quantize(Source::Residual, Input::PerLayer)),
    finished(Op::GateUp(GateUp::LAYER_INPUT)),
    finished(quantize(Source::LayerInput, Input::PerLayerOut)),
    finished(project(Role::LayerInputOut, Input::PerLayerOut, Target::Branch)),
    finished(add_normed(Role::PostInputNorm)),
];

/// A feed-forward layer and experts, each with a norm at both ends, and a norm of their sum. The experts are chosen
/// first, because the router has a norm of its own.
const EXPERTS: &[Step] = &[
    finished(norm(Role::RouterNorm, Input::FeedForward)),
    finished(ROUTE),
    finished(CHOOSE_EXPERTS),
    finished(GROUP_ROWS),
    finished(norm(Role::ExpertsNorm, Input::FeedForward)),
    finished(GATHER),
    finished(norm(Role::FfnNorm, Input::FeedForward)),
    finished(GATE_UP),
    finished(quantize(Source::FeedForward, Input::Down)),
    finished(down(Target::Branch)),
    finished(renorm(Target::Branch, Role::PostDenseNorm)),
    finished(EXPERT_GATE_UP),
    finished(quantize(Source::FeedForward, Input::ExpertDown)),
    finished(EXPERT_DOWN),
    finished(Op::AddExperts(AddExperts { to: Target::Branch, norm: Some(Role::PostExpertsNorm) })),
    finished(add_normed(Role::PostFfnNorm)),
];

const SCALE: &[Step] = &[finished(Op::Scale(Scale))];

type Kinds = [LayerKind; 4];

const DENSE: &Kinds = &kinds(layer![ATTENTION_BOTH_NORMS, FEED_FORWARD_BOTH_NORMS, SCALE]);

const DENSE_WITH_INPUTS: &Kinds = &kinds(layer![ATTENTION_BOTH_NORMS, FEED_FORWARD_BOTH_NORMS, LAYER_INPUT, SCALE]);

const OF_EXPERTS: &Kinds = &kinds(layer![ATTENTION_BOTH_NORMS, EXPERTS, SCALE]);

const OF_EXPERTS_WITH_INPUTS: &Kinds = &kinds(layer![ATTENTION_BOTH_NORMS, EXPERTS, LAYER_INPUT, SCALE]);

/// Returns the kinds of layers: with a window, without one, and both again for layers that read keys and values of
/// earlier layers. All kinds have the same operations. In the last two, the operations on keys
/// and values have no work.
const fn kinds(steps: &'static [Step]) -> Kinds {
    [
        LayerKind { name: "local", steps },
        LayerKind { name: "global", steps },
        LayerKind { name: "local, shared", steps },
        LayerKind { name: "global, shared", steps },
    ]
}

const fn program(kinds: &'static Kinds) -> Program {
    let kind_of = |config: &Config, layer| config.rope.groups.group(layer) + if config.has_kv(layer) { 0 } else { 2 };
    Program { kind_of, ..uniform(kinds) }
}

const SHARED: &str = "attention.shared_kv_layers";
const PER_LAYER: &str = "embedding_length_per_layer_input";

pub(super) const GEMMA4: Architecture = Architecture {
    name: "gemma4",
    qk_norm: QkNorm::Heads,
    activation: Activation::GeluTanh,
    experts: true,
    dense_beside_experts: true,
    reads: &[FFN_WIDTHS, SHARED, PER_LAYER],
    finish,
    program: |_, config| {
        Ok(match (config.feed_forward.experts, config.embedding.per_layer) {
            (0, 0) => program(DENSE),
            (0, _) => Program { begin: BEGIN, ..program(DENSE_WITH_INPUTS) },
            (_, 0) => program(OF_EXPERTS),
            _ => Program { begin: BEGIN, ..program(OF_EXPERTS_WITH_INPUTS) },
        })
    },
    ..DECODER
};

fn finish(keys: &Keys<'_>, config: &mut Config) -> Result<(), ModelError> {
    config.embedding.scale = libm::sqrt(config.hidden as f64) as f32;
    config.embedding.per_layer = keys.count(PER_LAYER)?;
    if config.embedding.per_layer > 1 << 16 {
        return Err(keys.bad(PER_LAYER));
    }
    // The norms of queries and keys contain the scale.
    config.attention.scale = keys.factor("attention.scale", 1.0)?;
    config.attention.norm_values = true;
    config.feed_forward.routing = Routing { logit_scale: inverse_root(config.hidden), ..Routing::SOFTMAX_OF_CHOSEN };
    heads(keys, config)?;
    let valued = keys.files.layers_with("attn_v.weight");
    config.attention.keys_as_values = LayerSet::of(config.layers, |layer| !valued.contains(layer));
    share(keys, config)
}

/// Reads the sizes of heads and the frequencies of the layers with a window.
fn heads(keys: &Keys<'_>, config: &mut Config) -> Result<(), ModelError> {
    let sliding = keys.flags(PATTERN, config.layers)?;
    keys.size("attention.sliding_window")?;
    let [global, _] = config.kv_shapes;
    let head_dim = keys.head_dim("attention.key_length_swa", "attention.value_length_swa", global.head_dim)?;
    // If there are layers of both kinds, group 0 are the layers with a window.
    let local = config.layer_groups.count() == 2 || sliding.contains(0);
    let both = config.layer_groups.count() == 1;
    for shape in config.kv_shapes.iter_mut().take(if both { 2 } else { 1 }).filter(|_| local) {
        shape.head_dim = head_dim;
    }
    let [dims, _] = config.rope.dims;
    config.rope.dims = [keys.size_or("rope.dimension_count_swa", head_dim)?, dims];
    let [frequencies, _] = config.rope.frequencies;
    let base = keys.positive("rope.freq_base_swa", Some(10_000.0))?;
    config.rope.frequencies = [Some(Frequencies::plain(base)), frequencies];
    config.rope.divided = [false, true];
    config.rope.groups = LayerGroups::with_second(LayerSet::of(config.layers, |layer| !sliding.contains(layer)));
    Ok(())
}

/// Reads the number of last layers without keys and values of their own.
fn share(keys: &Keys<'_>, config: &mut Config) -> Result<(), ModelError> {
    config.shared_kv = keys.count(SHARED)?;
    let all = (0..config.layers).all(|layer| config.kv_layer(layer).is_some());
    if all { Ok(()) } else { Err(keys.bad(SHARED)) }
}
