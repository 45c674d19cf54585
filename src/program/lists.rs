//! The lists of operations that several architectures share.
//!
//! In all of them, keys and values are written to the cache first, and attention reads them there. So prefill and
//! decode see the same rounded values.

#[cfg(feature = "experts")]
#[allow(unused_imports)] // used by architectures that may be left out
pub(crate) use super::experts::{
    CHOOSE_EXPERTS, EXPERT_DOWN, EXPERT_GATE_UP, EXPERTS, GATHER, GROUP_ROWS, ROUTE, SHARED_EXPERTS,
    SHARED_EXPERTS_BOTH_NORMS,
};
use super::{LayerKind, Program, Rows, Step};
#[cfg(feature = "encoder")]
use crate::ops::AddSumNormed;
#[cfg(any(feature = "encoder", feature = "layer-inputs"))]
use crate::ops::Renorm;
use crate::ops::{
    AddNormed, Angles, Attend, Embed, GateUp, Head, Input, Norm, NormRotate, Op, Project, Qkv, Quantize, Source, Store,
    Target,
};
#[cfg(feature = "recurrent")]
use crate::ops::{Convolve, DeltaRule, MixerInput, Scan, ShortConvolution};
#[cfg(feature = "predictor")]
use crate::ops::{Join, ProjectJoined};
#[cfg(feature = "predictor")]
use crate::weights::FinalNorm;
use crate::weights::{Config, Role};

/// Joins several lists of steps to one list.
macro_rules! layer {
    ($($part:expr),+ $(,)?) => {{
        const PARTS: &[&[$crate::program::Step]] = &[$($part),+];
        const LEN: usize = $crate::program::lists::total(PARTS);
        const STEPS: &[$crate::program::Step] = &$crate::program::lists::join::<LEN>(PARTS);
        STEPS
    }};
}

#[allow(unused_imports)] // used by architectures that may be left out
pub(crate) use layer;

/// Returns the number of steps in all lists.
pub(crate) const fn total(parts: &[&[Step]]) -> usize {
    let (mut total, mut rest) = (0, parts);
    while let [part, others @ ..] = rest {
        (total, rest) = (total + part.len(), others);
    }
    total
}

/// Returns the steps of all lists in one array. Their number is `N`.
pub(crate) const fn join<const N: usize>(parts: &[&[Step]]) -> [Step; N] {
    let (mut steps, mut count, mut rest) = ([all(EMBED); N], 0, parts);
    while let [part, others @ ..] = rest {
        let mut left = *part;
        while let [step, after @ ..] = left {
            // Lists are computed by the compiler, which refuses an index that is too large.
            #[allow(clippy::indexing_slicing)]
            {
                steps[count] = *step;
            }
            (count, left) = (count + 1, after);
        }
        rest = others;
    }
    steps
}

/// The program of a decoder whose layers are all alike, with rotary positions.
pub(crate) const DECODER: Program = uniform(PRE_NORM);

/// The program of a decoder with experts in place of the feed-forward layer, in all layers but the first ones.
pub(crate) const DECODER_OF_EXPERTS: Program =
    Program { kinds: PRE_NORM_EXPERTS, kind_of: has_experts, ..uniform(&[]) };

/// The program of a decoder with experts and a shared expert in place of the feed-forward layer, in all layers but the
/// first ones.
pub(crate) const DECODER_OF_SHARED_EXPERTS: Program =
    Program { kinds: PRE_NORM_SHARED_EXPERTS, kind_of: has_experts, ..uniform(&[]) };

/// Returns a program whose layers are all alike, with rotary positions.
pub(crate) const fn uniform(layer: &'static [LayerKind]) -> Program {
    Program { begin: ROTARY, kinds: layer, kind_of: |_, _| 0, end: LOGITS }
}

/// Returns the program of a layer that predicts further ahead. Its layer is one of the layers of another program.
#[cfg(feature = "predictor")]
pub(crate) fn predictor(of: &Program, config: &Config) -> Program {
    const BEGIN: &[Step] = &[all(Op::Join(Join)), all(Op::ProjectJoined(ProjectJoined)), all(ANGLES)];
    const OWN_NORM: &[Step] = &[logits(norm(Role::PredictorNorm, Input::Head)), logits(HEAD)];
    let end = if config.head.norm == FinalNorm::Predictor { OWN_NORM } else { LOGITS };
    Program { begin: BEGIN, end, ..*of }
}

/// Steps before the layers of a model that rotates queries and keys.
pub(crate) const ROTARY: &[Step] = &[all(EMBED), all(ANGLES)];

/// Steps before the layers of a model without rotation.
pub(crate) const NOT_ROTARY: &[Step] = &[all(EMBED)];

/// Steps after the layers.
pub(crate) const LOGITS: &[Step] = &[logits(norm(Role::OutputNorm, Input::Head)), logits(HEAD)];

const PRE_NORM: &[LayerKind] = &[LayerKind { name: "layer", steps: PRE_NORM_LAYER }];

const PRE_NORM_EXPERTS: &[LayerKind] =
    &[LayerKind { name: "dense", steps: PRE_NORM_LAYER }, LayerKind { name: "experts", steps: PRE_NORM_EXPERTS_LAYER }];

const PRE_NORM_SHARED_EXPERTS: &[LayerKind] = &[
    LayerKind { name: "dense", steps: PRE_NORM_LAYER },
    LayerKind { name: "experts", steps: PRE_NORM_SHARED_EXPERTS_LAYER },
];

/// Returns the kind of a layer: 0 without experts, 1 with experts.
fn has_experts(config: &Config, layer: usize) -> usize {
    usize::from(config.feed_forward.has_experts(layer))
}

/// Attention, from the input of its first matrices to the input of its output matrix.
pub(crate) const HEADS: &[Step] =
    &[all(QKV), all(NORM_ROTATE), all(STORE), finished(ATTEND), finished(quantize(Source::Attention, Input::Output))];

/// Attention with a norm before it.
pub(crate) const ATTENTION: &[Step] =
    layer![&[all(norm(Role::AttentionNorm, Input::Attention))], HEADS, &[finished(output(Target::Residual))]];

/// The norm before the feed-forward layer.
pub(crate) const FFN_NORM: &[Step] = &[finished(norm(Role::FfnNorm, Input::FeedForward))];

/// The norm before the feed-forward layer, in files that call it the norm after attention.
pub(crate) const LATE_FFN_NORM: &[Step] = &[finished(norm(Role::PostAttentionNorm, Input::FeedForward))];

/// A feed-forward layer, without the norm before it.
pub(crate) const FEED_FORWARD: &[Step] =
    &[finished(GATE_UP), finished(quantize(Source::FeedForward, Input::Down)), finished(down(Target::Residual))];

// Without this feature, models with experts are refused, and these lists never run.
#[cfg(not(feature = "experts"))]
pub(crate) const EXPERTS: &[Step] = &[];
#[cfg(not(feature = "experts"))]
pub(crate) const SHARED_EXPERTS: &[Step] = &[];

/// A norm before each branch: Llama and most others.
pub(crate) const PRE_NORM_LAYER: &[Step] = layer![ATTENTION, FFN_NORM, FEED_FORWARD];

/// A norm before each branch, and experts: Mixtral, Qwen 3 with experts.
pub(crate) const PRE_NORM_EXPERTS_LAYER: &[Step] = layer![ATTENTION, FFN_NORM, EXPERTS];

/// A norm before each branch, experts and a shared expert: Qwen 2 with experts, ERNIE 4.5 with experts.
const PRE_NORM_SHARED_EXPERTS_LAYER: &[Step] = layer![ATTENTION, FFN_NORM, SHARED_EXPERTS];

/// A state space in place of attention, with a norm before it.
#[cfg(feature = "recurrent")]
pub(crate) const STATE_SPACE: &[Step] = &[
    all(norm(Role::AttentionNorm, Input::Attention)),
    all(MIXER_INPUT),
    all(CONVOLVE),
    all(SCAN),
    finished(quantize(Source::Mixer, Input::Mixer)),
    finished(mixer_output(Role::MixerOut, Target::Residual)),
];

/// Attention with a norm at both ends.
pub(crate) const ATTENTION_BOTH_NORMS: &[Step] = layer![
    &[all(norm(Role::AttentionNorm, Input::Attention))],
    HEADS,
    &[finished(output(Target::Branch)), finished(add_normed(Role::PostAttentionNorm))],
];

/// A feed-forward layer with a norm at both ends.
pub(crate) const FEED_FORWARD_BOTH_NORMS: &[Step] = &[
    finished(norm(Role::FfnNorm, Input::FeedForward)),
    finished(GATE_UP),
    finished(quantize(Source::FeedForward, Input::Down)),
    finished(down(Target::Branch)),
    finished(add_normed(Role::PostFfnNorm)),
];

/// A norm at both ends of each branch: Gemma 2 and 3, GLM 4.
pub(crate) const BOTH_NORMS_LAYER: &[Step] = layer![ATTENTION_BOTH_NORMS, FEED_FORWARD_BOTH_NORMS];

/// Attention and feed-forward layer on the same norm. The feed-forward layer runs up to its activation before the
/// result of attention is added.
pub(crate) const PARALLEL_LAYER: &[Step] = &[
    all(norm(Role::AttentionNorm, Input::Attention)),
    all(QKV),
    all(NORM_ROTATE),
    all(STORE),
    finished(ATTEND),
    finished(norm(Role::AttentionNorm, Input::FeedForward)),
    finished(GATE_UP),
    finished(quantize(Source::Attention, Input::Output)),
    finished(output(Target::Residual)),
    finished(quantize(Source::FeedForward, Input::Down)),
    finished(down(Target::Residual)),
];

/// A norm at the end of each branch only: OLMo 2 and 3, EXAONE 4.
pub(crate) const POST_NORM_LAYER: &[Step] = layer![
    &[all(quantize(Source::Residual, Input::Attention))],
    HEADS,
    &[
        finished(output(Target::Branch)),
        finished(add_normed(Role::PostAttentionNorm)),
        finished(quantize(Source::Residual, Input::FeedForward)),
        finished(GATE_UP),
        finished(quantize(Source::FeedForward, Input::Down)),
        finished(down(Target::Branch)),
        finished(add_normed(Role::PostFfnNorm)),
    ],
];

pub(crate) const EMBED: Op = Op::Embed(Embed);
pub(crate) const ANGLES: Op = Op::Angles(Angles);
pub(crate) const QKV: Op = Op::Qkv(Qkv);
pub(crate) const NORM_ROTATE: Op = Op::NormRotate(NormRotate);
pub(crate) const STORE: Op = Op::Store(Store);
pub(crate) const ATTEND: Op = Op::Attend(Attend);
pub(crate) const GATE_UP: Op = Op::GateUp(GateUp::DENSE);
#[cfg(feature = "recurrent")]
pub(crate) const MIXER_INPUT: Op = Op::MixerInput(MixerInput);
#[cfg(feature = "recurrent")]
pub(crate) const CONVOLVE: Op = Op::Convolve(Convolve);
#[cfg(feature = "recurrent")]
pub(crate) const SHORT_CONVOLUTION: Op = Op::ShortConvolution(ShortConvolution);
#[cfg(feature = "recurrent")]
pub(crate) const DELTA_RULE: Op = Op::DeltaRule(DeltaRule);
#[cfg(feature = "recurrent")]
pub(crate) const SCAN: Op = Op::Scan(Scan);
pub(crate) const HEAD: Op = Op::Head(Head);

/// Returns the operation that makes the norm of the residual stream an input.
pub(crate) const fn norm(weight: Role, to: Input) -> Op {
    Op::Norm(Norm { weight, to })
}

/// Returns the operation that makes activations an input.
pub(crate) const fn quantize(from: Source, to: Input) -> Op {
    Op::Quantize(Quantize { from, to })
}

/// Returns the operation of a matrix that ends a branch.
pub(crate) const fn project(matrix: Role, from: Input, to: Target) -> Op {
    Op::Project(Project { matrix, from, to })
}

/// Returns the operation of the output matrix of attention.
pub(crate) const fn output(to: Target) -> Op {
    project(Role::AttentionOutput, Input::Output, to)
}

/// Returns the operation of the down matrix of the feed-forward layer.
pub(crate) const fn down(to: Target) -> Op {
    project(Role::Down, Input::Down, to)
}

/// Returns the operation of the output matrix of a recurrent layer.
#[cfg(feature = "recurrent")]
pub(crate) const fn mixer_output(matrix: Role, to: Target) -> Op {
    project(matrix, Input::Mixer, to)
}

/// Returns the operation that adds the norm of the branch to the residual stream.
pub(crate) const fn add_normed(weight: Role) -> Op {
    Op::AddNormed(AddNormed { weight })
}

/// Returns the operation that normalizes the sum of the residual stream and the branch, and adds it to the residual
/// stream.
#[cfg(feature = "encoder")]
pub(crate) const fn add_sum_normed(weight: Role) -> Op {
    Op::AddSumNormed(AddSumNormed { weight })
}

/// Returns the operation that normalizes the residual stream or the branch in place.
#[cfg(any(feature = "encoder", feature = "layer-inputs"))]
pub(crate) const fn renorm(of: Target, weight: Role) -> Op {
    Op::Renorm(Renorm { of, weight })
}

/// Returns the step that runs an operation on all rows.
pub(crate) const fn all(op: Op) -> Step {
    Step { rows: Rows::All, op }
}

/// Returns the step that runs an operation, in the last layer that keeps something of each row, on the finished rows
/// only.
pub(crate) const fn finished(op: Op) -> Step {
    Step { rows: Rows::Finished, op }
}

/// Returns the step that runs an operation on the rows that have logits.
pub(crate) const fn logits(op: Op) -> Step {
    Step { rows: Rows::Logits, op }
}
