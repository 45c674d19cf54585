//! A model's program as dispatches.

mod experts;
mod heads;
mod input;
mod layers;
mod matrices;
mod recur;

use std::collections::BTreeMap;

use bytemuck::{Pod, Zeroable, bytes_of};
use gleed::device::{
    BranchEnd, EmbedView, GateUpView, HeadView, MatrixView, NormRotateView, OpView, QkvView, StateLayout,
};
use gleed::kernels::{Norm, NormKind};
use gleed::num::Xielu;
use gleed::program::{Part, Rows, StepView};

use crate::catalog::Kernel;
use crate::error::GpuError;
use crate::memory::{Arena, Vectors};
use crate::params::{Branch, Choose, Embed, Linear, NONE, SLOT, Segment, adds, mode};
use crate::place::{Activations, Batches, Dispatch, Place, Shaped};
use crate::pool::Pool;
use crate::selftest::{ACTIVATIONS, XIELU};
pub(crate) use input::{HeadsLayout, Widest};
pub(crate) use recur::runs_at;

/// The dispatches of a program so far, and what is known of the steps that they come from.
#[derive(Debug)]
pub(crate) struct Lowering<'m> {
    pub(crate) dispatches: Vec<Dispatch>,
    pub(crate) arena: Arena<'m>,
    pub(crate) vectors: Vectors,
    /// Words, or f32 elements, of a row of each buffer.
    pub(crate) widths: BTreeMap<Place, usize>,
    pools: Vec<Pool>,
    layers: usize,
    hidden: usize,
    angles: usize,
    heads: Option<NormRotateView<'m>>,
    layout: HeadsLayout,
    states: Option<StateLayout>,
    /// Elements of a row of the mixer's input.
    mix_width: usize,
    /// Experts that a row goes through in the layer.
    used: usize,
    /// The largest sizes of all layers.
    largest: Widest,
    /// Activations as floats that the next matrices read, or `None` where they read an input.
    raw: Option<Activations>,
    /// Activations that the last activation function wrote.
    activated: Activations,
    /// Whether no matrix has read the results of attention yet.
    attention_waits: bool,
    /// Whether experts still have to read their input.
    is_routed: bool,
    /// Whether the input of experts is kept for them.
    is_gathered: bool,
    /// Whether the last input lies beside the input of experts.
    is_beside: bool,
    /// Number of the step of the last activation function.
    activation_step: usize,
    /// Index of the logits that gate the shared expert, in the buffer of its activations, or 0 for none.
    gates: u32,
    /// Number of experts of the layer.
    experts: usize,
    /// Index of the experts' logits, in the buffer of attention's results.
    logits_at: usize,
    /// Words from the logits of one row to those of the next.
    logits_stride: usize,
    /// A branch, or results of experts, that the next input still has to add for these rows.
    branch: Option<(Branch, Rows)>,
    step: usize,
    rows: Rows,
    flag: u32,
}

fn refused<T>(what: &'static str) -> Result<T, GpuError> {
    Err(GpuError::Unsupported { what })
}

impl<'m> Lowering<'m> {
    pub(crate) fn new(
        arena: Arena<'m>,
        pools: Vec<Pool>,
        states: Option<StateLayout>,
        layers: usize,
        (largest, layout): (Widest, HeadsLayout),
    ) -> Self {
        Self {
            dispatches: Vec::new(),
            arena,
            vectors: Vectors::default(),
            widths: BTreeMap::new(),
            pools,
            layers,
            hidden: 0,
            angles: 0,
            heads: None,
            layout,
            states,
            mix_width: 0,
            used: 0,
            largest,
            raw: None,
            activated: Activations::FeedForward,
            attention_waits: false,
            is_routed: false,
            is_gathered: false,
            is_beside: false,
            activation_step: 0,
            gates: 0,
            experts: 0,
            logits_at: 0,
            logits_stride: 0,
            branch: None,
            step: 0,
            rows: Rows::All,
            flag: 0,
        }
    }

    /// Appends step `number` of the program.
    pub(crate) fn step(&mut self, number: usize, step: &StepView<'m>) -> Result<(), GpuError> {
        (self.step, self.rows) = (number, step.rows);
        self.flag = match step.part {
            Part::Begin => 0,
            Part::Layer(layer) => layer as u32,
            Part::End => self.layers as u32,
        };
        // An input first adds what waits for it. Operations that neither read nor write the residual stream and the
        // branch leave that waiting.
        self.add_branch_but(match &step.operation {
            OpView::Norm(_) | OpView::Quantize(_) | OpView::AddNormed(_) | OpView::AddExperts(_) => u32::MAX,
            OpView::GroupRows | OpView::Gather | OpView::Renorm(_) | OpView::Scale(_) => u32::MAX,
            OpView::ExpertGateUp(_) | OpView::ExpertDown(_) => adds::NORMS_BRANCH,
            _ => 0,
        });
        match &step.operation {
            OpView::Embed(view) => self.embed(view),
            OpView::Angles(view) => {
                self.angles = view.width() + usize::from(self.largest.temperature.is_some());
                self.widen(Place::Angles, self.angles);
                Ok(())
            }
            OpView::Norm(view) => self.input(view.input, Some(&view.norm)),
            OpView::Quantize(view) => self.quantize(&view.from, view.input),
            OpView::Qkv(view) => self.qkv(view),
            OpView::MixerInput(view) => self.mixer_input(view),
            OpView::Convolution(view) => self.convolution(view),
            OpView::GatedConvolution(view) => self.gated_convolution(view),
            OpView::Update(view) => self.update(view),
            OpView::NormRotate(view) => {
                self.heads = Some(view.clone());
                Ok(())
            }
            OpView::Store(view) => self.store(view),
            OpView::Attend(view) => self.attend(view),
            OpView::Project(view) => self.project(&view.matrix, view.to),
            OpView::AddNormed(view) => self.add_normed(view),
            OpView::GateUp(view) => self.gate_up(view),
            OpView::Head(view) => self.head(view),
            OpView::Route(view) => self.route(view),
            OpView::Choose(view) => self.choose(view),
            // Pairs of a row and an expert are computed in their own order, ungrouped.
            OpView::GroupRows => Ok(()),
            OpView::Gather => {
                self.is_gathered = true;
                Ok(())
            }
            OpView::Renorm(view) => self.renorm(view),
            OpView::Scale(view) => self.scale(view),
            OpView::ProjectLayerInputs(matrix) => self.project_layer_inputs(matrix),
            OpView::AddLayerInputs(view) => self.add_layer_inputs(view),
            OpView::ExpertGateUp(view) => self.expert_gate_up(view),
            OpView::ExpertDown(view) => self.expert_down(view),
            OpView::AddExperts(view) => self.add_experts(view),
            OpView::Other(name) => refused(name),
            _ => refused("an operation that is new"),
        }
    }

    fn embed(&mut self, view: &EmbedView<'m>) -> Result<(), GpuError> {
        if view.types.is_some() {
            return refused("embeddings of types of tokens");
        }
        self.hidden = view.table.cols();
        self.widen(Place::Residual, self.hidden);
        self.widen(Place::Branch, self.hidden);
        for kind in [Activations::Attention, Activations::FeedForward] {
            self.widen(Place::Largest(kind), self.largest.words(kind));
        }
        self.embed_rows(view.table, Place::Residual, Embed { factor: factor(view.scale), ..Embed::zeroed() })?;
        view.positions
            .map_or(Ok(()), |table| self.embed_rows(table, Place::Residual, Embed { adds: 1, ..Embed::zeroed() }))?;
        if let Some(norm) = &view.norm {
            self.norm_in_place(norm);
        }
        Ok(())
    }

    fn qkv(&mut self, view: &QkvView<'m>) -> Result<(), GpuError> {
        // Rows are as wide as in the layer that has the widest ones.
        let width = self.largest.heads;
        self.widen(Place::Heads, width);
        let parts: Vec<_> = view.parts.iter().flatten().copied().collect();
        let (head_dim, gates) = view.split.map_or((0, 0), |split| (split.head_dim, split.gates));
        let first = Linear { split: head_dim as u32, split_at: gates as u32, ..Linear::zeroed() };
        self.side_by_side(&parts, (Place::Heads, width), first)
    }

    fn project(&mut self, matrix: &MatrixView<'m>, to: BranchEnd) -> Result<(), GpuError> {
        let (place, mode, scale) = match to {
            BranchEnd::Residual { scale } => (Place::Residual, mode::ADD, scale),
            BranchEnd::Branch => (Place::Branch, mode::SET, 1.0),
        };
        self.matrix(matrix, place, self.hidden, 0, Linear { mode, factor: factor(scale), ..Linear::zeroed() })?;
        self.raw = None;
        Ok(())
    }

    fn gate_up(&mut self, view: &GateUpView<'m>) -> Result<(), GpuError> {
        let numbers = view.activation.xielu_numbers();
        let activation = match (numbers, ACTIVATIONS.iter().position(|&other| other == view.activation)) {
            (Some(_), _) if view.gate.is_some() => return refused("xIELU with a gate"),
            (Some(_), _) => XIELU,
            (None, Some(activation)) => activation as u32,
            (None, None) => return refused("this activation function"),
        };
        let numbers = numbers.map_or(0, |numbers| self.vectors.add(&xielu_bytes(numbers)).unwrap_or(0));
        let width = view.up.weights.rows();
        // The shared expert writes its activations where results of attention were: the activations of the chosen
        // experts need their own buffer before the next input.
        let (to, gates) =
            if self.is_routed { (Activations::Attention, self.gates) } else { (Activations::FeedForward, 0) };
        let gates_stride = self.logits_stride as u32;
        (self.activated, self.activation_step) = (to, self.step);
        self.widen(to.place(), width);
        let Some(gate) = view.gate else {
            let params = Linear { mode: mode::ACTIVATE, activation, gates, gates_stride, numbers, ..Linear::zeroed() };
            return self.matrix(&view.up, to.place(), width, 0, params);
        };
        if gate.weights.dtype() != view.up.weights.dtype() {
            return refused("a gate and an up matrix of different types");
        }
        let biases = [gate, view.up].map(|matrix| self.vectors.add(matrix.bias));
        let most = self.arena.rows_of_pair(gate.weights);
        if most == 0 {
            return Err(GpuError::Mismatch("a row of weights and a buffer"));
        }
        for first in (0..width).step_by(most) {
            let rows = most.min(width - first);
            let parts = [gate, view.up].map(|matrix| matrix.weights.slice_rows(first, rows));
            let [Some(gate), Some(up)] = parts else { return Err(GpuError::Mismatch("rows of a matrix")) };
            let Some((buffer, starts)) = self.arena.together(&[gate, up]) else {
                return Err(GpuError::Mismatch("a pair of matrices"));
            };
            let mut params = Linear { mode: mode::GATE, activation, gates, gates_stride, ..Linear::zeroed() };
            for ((segment, bias), at) in params.segments.iter_mut().zip(biases).zip(starts) {
                let bias = bias.map_or(NONE, |bias| bias + first as u32);
                *segment = Segment { at: at as u32, outputs: rows as u32, y_at: first as u32, bias };
            }
            self.linear(gate, buffer, to.place(), width, params)?;
        }
        Ok(())
    }

    fn head(&mut self, view: &HeadView<'m>) -> Result<(), GpuError> {
        let width = view.matrix.weights.rows();
        self.widen(Place::Logits, width);
        let cap = if view.soft_cap > 0.0 { view.soft_cap.to_bits() } else { 0 };
        let params = Linear { mode: mode::LOGITS, factor: factor(view.scale), cap, ..Linear::zeroed() };
        self.matrix(&view.matrix, Place::Logits, width, 0, params)
    }

    /// Returns the dispatch that chooses the token with the largest logit, and the one that draws a token. Neither is a
    /// step of the program.
    pub(crate) fn choices(&mut self) -> [Dispatch; 2] {
        self.widen(Place::Angles, 0);
        let logits = self.widths.get(&Place::Logits).copied().unwrap_or(0);
        let [_, runs] = runs_at(self.layout.rows);
        let params = Choose { zero: 0, n: logits as u32, angles: self.angles as u32, runs };
        let buffers = [Place::Logits, Place::Chosen, Place::Batch, Place::Angles, Place::Draws];
        [(Kernel::Choose, &buffers[..4]), (Kernel::Draw, &buffers[..])]
            .map(|(kernel, buffers)| self.dispatch(kernel, &params, buffers, Shaped::ByRow))
    }

    /// Returns the index among the vectors of a norm's weights. Only RMSNorm without biases is accepted.
    fn rms_weight(&mut self, norm: &Norm<'m>, what: &'static str) -> Result<u32, GpuError> {
        if norm.kind != NormKind::Rms || !norm.bias.is_empty() {
            return refused(what);
        }
        Ok(self.vectors.add(norm.weight).unwrap_or(NONE))
    }

    fn widen(&mut self, place: Place, width: usize) {
        let widest = self.widths.entry(place).or_default();
        *widest = width.max(*widest);
    }

    /// Appends a dispatch for some batches only.
    fn emit_for(&mut self, batches: Batches, kernel: Kernel, params: &impl Pod, buffers: &[Place], shaped: Shaped) {
        let dispatch = self.dispatch(kernel, params, buffers, shaped);
        self.dispatches.push(Dispatch { batches, ..dispatch });
    }

    fn emit(&mut self, kernel: Kernel, params: &impl Pod, buffers: &[Place], shaped: Shaped) {
        self.emit_for(Batches::All, kernel, params, buffers, shaped);
    }

    fn dispatch(&self, kernel: Kernel, params: &impl Pod, buffers: &[Place], shaped: Shaped) -> Dispatch {
        let mut slot = [0; SLOT];
        let bytes = bytes_of(params);
        slot[..bytes.len()].copy_from_slice(bytes);
        let (step, rows, buffers) = (self.step, self.rows, buffers.to_vec());
        Dispatch { step, kernel, params: slot, buffers, rows, shaped, batches: Batches::All }
    }
}

/// Returns the bits of a factor, or 0 for the factor 1.
fn factor(scale: f32) -> u32 {
    if scale == 1.0 { 0 } else { scale.to_bits() }
}

/// Returns the numbers of xIELU in the order in which its kernel reads them.
fn xielu_bytes(numbers: Xielu) -> Vec<u8> {
    let Xielu { linear, positive, negative, largest } = numbers;
    [linear, positive, negative, largest].into_iter().flat_map(f32::to_le_bytes).collect()
}
