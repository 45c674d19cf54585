//! The lists of operations of experts.

use super::Step;
use super::lists::{add_normed, finished, layer, norm, project, quantize};
use crate::ops::{
    AddExperts, ChooseExperts, ExpertDown, ExpertGateUp, GateUp, Gather, GroupRows, Input, Op, Route, Source, Target,
};
use crate::weights::Role;

/// Which experts a row goes through, and the inputs of these.
const CHOOSE: &[Step] = &[finished(ROUTE), finished(CHOOSE_EXPERTS), finished(GROUP_ROWS), finished(GATHER)];

/// What the chosen experts give.
const CHOSEN: &[Step] = &[
    finished(EXPERT_GATE_UP),
    finished(quantize(Source::FeedForward, Input::ExpertDown)),
    finished(EXPERT_DOWN),
    finished(add_experts(Target::Residual)),
];

/// An expert that every row goes through. It is done while the input is there, of which the other experts have a copy.
const SHARED: &[Step] = &[
    finished(SHARED_GATE_UP),
    finished(quantize(Source::FeedForward, Input::SharedDown)),
    finished(shared_down(Target::Residual)),
];

/// Experts in place of a feed-forward layer.
pub(crate) const EXPERTS: &[Step] = layer![CHOOSE, CHOSEN];

/// Experts, and one more that every row goes through.
pub(crate) const SHARED_EXPERTS: &[Step] = layer![CHOOSE, SHARED, CHOSEN];

/// The same with a norm at both ends.
#[allow(dead_code)] // By architectures that may be left out.
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

/// The experts' results.
const fn add_experts(to: Target) -> Op {
    Op::AddExperts(AddExperts { to, norm: None })
}

/// The down matrix that every row goes through beside its experts.
const fn shared_down(to: Target) -> Op {
    project(Role::DownShared, Input::SharedDown, to)
}
