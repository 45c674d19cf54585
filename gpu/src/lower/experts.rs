//! Experts: their choice, their matrices, their sum.

use bytemuck::Zeroable;
use gleed::device::{AddExpertsView, BranchEnd, ChooseView, ExpertGateUpView, ExpertsView, RouteView};
use gleed::nn::Routing;

use super::{Lowering, factor, refused};
use crate::catalog::Kernel;
use crate::error::GpuError;
use crate::layout::row_bytes;
use crate::params::{Branch, Experts, Linear, NONE, Route, Segment, adds, mode};
use crate::place::{Activations, Place, Shaped};
use crate::selftest::{ACTIVATIONS, MOST_EXPERTS, scores_number};

/// Largest number of workgroups in one dimension of a dispatch.
pub(super) const WORKGROUPS: usize = 65_535;

impl<'m> Lowering<'m> {
    pub(super) fn route(&mut self, view: &RouteView<'m>) -> Result<(), GpuError> {
        if self.attention_waits {
            return refused("experts before the result of attention is added");
        }
        self.is_routed = true;
        let experts = view.router.weights.rows();
        // Behind the activations of all rows each row has the logits of its experts, then the logit of the shared
        // expert.
        let behind = self.largest.width(Activations::Attention);
        (self.experts, self.logits_at) = (experts, self.layout.rows * behind);
        self.logits_stride = experts + usize::from(view.shared_gate.is_some());
        self.widen(Place::Attention, behind + self.logits_stride);
        let gates = self.logits_at + experts;
        self.gates = if view.shared_gate.is_some() { gates as u32 } else { 0 };
        let matrices = [(self.logits_at, view.router)].into_iter().chain(view.shared_gate.map(|gate| (gates, gate)));
        self.side_by_side(&matrices.collect::<Vec<_>>(), (Place::Attention, self.logits_stride), Linear::zeroed())
    }

    pub(super) fn choose(&mut self, view: &ChooseView<'m>) -> Result<(), GpuError> {
        let experts = self.experts;
        if experts > MOST_EXPERTS || view.used > experts {
            return refused("more than 512 experts");
        }
        if self.layout.rows * view.used > WORKGROUPS {
            return refused("batches with more than 65,535 pairs of a row and an expert");
        }
        let (groups, groups_used) = (view.routing.groups, view.routing.groups_used);
        let each = experts.checked_div(groups as usize).unwrap_or(0);
        if groups > Routing::MAX_GROUPS || each * groups as usize != experts || view.used > each * groups_used as usize
        {
            return refused("groups of experts of different sizes");
        }
        self.used = view.used;
        self.widen(Place::Choices, view.used);
        // The buffer has the branch itself, behind it the result of each expert, and behind these their weights.
        self.widen(Place::Branch, self.hidden + view.used * (self.hidden + 1));
        let routing = view.routing;
        let params = Route {
            zero: 0,
            experts: experts as u32,
            used: view.used as u32,
            scores: scores_number(routing.scores),
            normalized: u32::from(routing.normalized),
            epsilon: routing.epsilon,
            scale: routing.scale,
            logit_scale: routing.logit_scale,
            biases: self.vectors.add(view.biases).unwrap_or(NONE),
            scales: self.vectors.add(view.scales).unwrap_or(NONE),
            weights: self.expert_weights(),
            flag: self.flag,
            groups,
            groups_used,
            logits_at: self.logits_at as u32,
            logits_stride: self.logits_stride as u32,
        };
        let buffers = [Place::Attention, Place::Choices, Place::Branch, Place::Vectors, Place::Flags];
        self.emit(Kernel::Route, &params, &buffers, Shaped::ByRow);
        Ok(())
    }

    /// Returns the index in the buffer of the branch at which results of experts begin.
    fn results(&self) -> u32 {
        (self.layout.rows * self.hidden) as u32
    }

    /// Returns the index in the buffer of the branch at which weights of experts begin.
    fn expert_weights(&self) -> u32 {
        self.results() + (self.layout.rows * self.used * self.hidden) as u32
    }

    pub(super) fn expert_gate_up(&mut self, view: &ExpertGateUpView<'m>) -> Result<(), GpuError> {
        let Some(activation) = ACTIVATIONS.iter().position(|&other| other == view.activation) else {
            return refused("this activation function of experts");
        };
        (self.is_routed, self.is_gathered, self.is_beside) = (false, false, false);
        let width = view.up.count;
        self.widen(Place::FeedForward, self.used * width);
        let how = |mode| Linear { mode, activation: activation as u32, ..Linear::zeroed() };
        let Some(gate) = view.gate else {
            return self.experts(&[view.up], Place::FeedForward, width, width, how(mode::ACTIVATE));
        };
        if gate.all.weights.dtype() != view.up.all.weights.dtype() || gate.rows != view.up.rows {
            return refused("gates and up matrices of experts of different types");
        }
        self.experts(&[gate, view.up], Place::FeedForward, width, width, how(mode::GATE))
    }

    pub(super) fn expert_down(&mut self, view: &ExpertsView<'m>) -> Result<(), GpuError> {
        let inputs = view.all.weights.cols();
        let how = Linear { mode: mode::SET, ..Linear::zeroed() };
        self.experts(&[*view], Place::Branch, self.hidden, inputs, how)
    }

    /// Emits matrices of experts, as many experts at a time as a buffer holds. `activations` is the number of
    /// activations of an expert that the matrices write or read.
    fn experts(
        &mut self,
        parts: &[ExpertsView<'m>],
        to: Place,
        stride: usize,
        activations: usize,
        how: Linear,
    ) -> Result<(), GpuError> {
        let Some(part) = parts.first() else { return Ok(()) };
        let (weights, rows) = (part.all.weights, part.rows);
        // The gate and up matrices can be rows of one tensor.
        let is_fused = parts.iter().all(|other| other.all.weights.bytes().as_ptr() == weights.bytes().as_ptr());
        let tensors: Vec<_> =
            if is_fused { vec![weights] } else { parts.iter().map(|part| part.all.weights).collect() };
        let row_bytes = row_bytes(weights.dtype(), weights.cols()).unwrap_or(0);
        let biases: Vec<_> = parts.iter().map(|part| self.vectors.add(part.all.bias)).collect();
        let experts = weights.rows().checked_div(rows).unwrap_or(0);
        let most = self.arena.fitting(rows * row_bytes * tensors.len()).min(experts.max(1));
        if most == 0 {
            return refused("an expert that is larger than a buffer");
        }
        for first in (0..experts).step_by(most) {
            let count = most.min(experts - first);
            let slices = tensors.iter().map(|tensor| tensor.slice_rows(first * rows, count * rows));
            let slices: Vec<_> = slices.collect::<Option<_>>().ok_or(GpuError::Mismatch("rows of a matrix"))?;
            let (buffer, starts) = self.arena.beside(&slices);
            let mut params = Linear {
                experts: Experts {
                    used: self.used as u32,
                    first: first as u32,
                    count: count as u32,
                    bytes: (rows * row_bytes) as u32,
                    rows: rows as u32,
                    largest: activations.div_ceil(32) as u32,
                },
                ..how
            };
            for (index, (part, segment)) in parts.iter().zip(&mut params.segments).enumerate() {
                let start = starts.get(index).or(starts.first()).copied().unwrap_or(0);
                let bias = biases.get(index).copied().flatten();
                *segment = Segment {
                    at: (start as usize + part.first * row_bytes) as u32,
                    outputs: part.count as u32,
                    y_at: if to == Place::Branch { self.results() } else { 0 },
                    bias: bias.map_or(NONE, |bias| bias + part.first as u32),
                };
            }
            self.linear(weights, buffer, to, stride, params)?;
        }
        Ok(())
    }

    pub(super) fn add_experts(&mut self, view: &AddExpertsView<'m>) -> Result<(), GpuError> {
        let (more, factor) = match (view.to, view.norm.is_some()) {
            (BranchEnd::Residual { scale }, false) => (adds::EXPERTS, factor(scale)),
            (BranchEnd::Residual { .. }, true) => return refused("a norm of the sum of experts without a branch"),
            (BranchEnd::Branch, false) => (adds::EXPERTS | adds::TO_BRANCH, 0),
            (BranchEnd::Branch, true) => (adds::EXPERTS | adds::TO_BRANCH | adds::NORMS_EXPERTS, 0),
        };
        let weight = match &view.norm {
            Some(norm) => self.rms_weight(norm, "LayerNorm of the sum of experts")?,
            None => NONE,
        };
        let (used, results, expert_weights) = (self.used as u32, self.results(), self.expert_weights());
        self.raw = None;
        self.merge(adds::NORMS_BRANCH, view.norm.map_or(0.0, |norm| norm.epsilon), |branch| Branch {
            adds: branch.adds | more,
            factor,
            used,
            results,
            expert_weights,
            experts_weight: weight,
            ..branch
        })
    }
}
