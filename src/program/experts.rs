//! The lists of operations of experts.

use super::Step;
use super::lists::{add_normed, finished, layer, norm, project, quantize};
use crate::ops::{
    AddExperts, ChooseExperts, ExpertDown, ExpertGateUp, GateUp, Gather, GroupRows, Input, Op, Route, Source, Target,
};
use crate::weights::Role;

/// The choice of the experts that a row goes through, and the copy of their inputs.
const CHOOSE: &[Step] = &[finished(ROUTE), finished(CHOOSE_EXPERTS), finished(GROUP_ROWS), finished(GATHER)];

/// The results of the chosen experts.
const CHOSEN: &[Step] = &[
    finished(EXPERT_GATE_UP),
    finished(quantize(Source::FeedForward, Input::ExpertDown)),
    finished(EXPERT_DOWN),
    finished(add_experts(Target::Residual)),
];

/// The shared expert, which every row goes through. It runs while its input is there. The other experts have a copy of
/// the input.
const SHARED: &[Step] = &[
    finished(SHARED_GATE_UP),
    finished(quantize(Source::FeedForward, Input::SharedDown)),
    finished(shared_down(Target::Residual)),
];

/// Experts in place of a feed-forward layer.
pub(crate) const EXPERTS: &[Step] = layer![CHOOSE, CHOSEN];

/// Experts, and a shared expert.
pub(crate) const SHARED_EXPERTS: &[Step] = layer![CHOOSE, SHARED, CHOSEN];

/// Experts and a shared expert, with a norm at both ends.
#[allow(dead_code)] // used by architectures that may be left out
pub(crate) const SHARED_EXPERTS_BOTH_NORMS: &[Step] = layer![
    &[finished(norm(Role::FfnNorm, Input::FeedForward))],
    CHOOSE,
    &[
        finished(SHARED_GATE_UP),
        finished(quantize(Source::FeedForward, Input::SharedDown)),
        finished(shared_down(Target::Branch)),
        finished(EXPERT_GATE_UP),
        finished(quantize(Source::FeedForward, Input::ExpertDown)),
        finished(EXPERT_DOWN),
        finished(add_experts(Target::Branch)),
        finished(add_normed(Role::PostFfnNorm)),
    ],
];

pub(crate) const ROUTE: Op = Op::Route(Route);
pub(crate) const CHOOSE_EXPERTS: Op = Op::ChooseExperts(ChooseExperts);
pub(crate) const EXPERT_GATE_UP: Op = Op::ExpertGateUp(ExpertGateUp);
pub(crate) const GROUP_ROWS: Op = Op::GroupRows(GroupRows);
pub(crate) const GATHER: Op = Op::Gather(Gather);
pub(crate) const EXPERT_DOWN: Op = Op::ExpertDown(ExpertDown);
const SHARED_GATE_UP: Op = Op::GateUp(GateUp::SHARED);

/// Returns the operation that adds the experts' results.
const fn add_experts(to: Target) -> Op {
    Op::AddExperts(AddExperts { to, norm: None })
}

/// Returns the operation of the shared expert's down matrix.
const fn shared_down(to: Target) -> Op {
    project(Role::DownShared, Input::SharedDown, to)
}
