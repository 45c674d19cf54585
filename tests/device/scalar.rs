//! A device in plain Rust. It does what a program's views and the `Device` trait say, row by row. It shares no
//! operation, no buffer and no cache with the engine.

mod attend;
mod recur;

use std::collections::HashMap;
use std::ops::Range;
use std::task::Poll;

use gleed::device::{
    ActivationSource, BatchView, BlockPart, BranchEnd, Choosing, Device, DeviceFault, Draws, ExpertsView, GatesView,
    KvLayout, OpView, RotaryView, Row, StateLayout, StatePart, StateSlots,
};
use gleed::kernels::Combine;
use gleed::nn::Choice;
use gleed::num::{settle, sigmoid};
use gleed::program::{Part, Rows, StepView};
use gleed::quant::dequantize;
use gleed::sample::{Sampler, SamplerParams, argmax};
use gleed::{Model, Plan};

use recur::norm_groups;

use crate::math::{LEVEL, add_scaled, finish_heads, float, gate_up, is_quantizable, multiply, norm_rotate};

/// The buffers of a row.
#[derive(Clone, Debug, Default)]
struct Buffers {
    residual: Vec<f32>,
    /// The input before it is rounded. Every matrix rounds it to its own form.
    input: Vec<f32>,
    heads: Vec<f32>,
    /// Sums of values, largest score, and sum of weights, for each head.
    attention: Vec<(Vec<f32>, f32, f32)>,
    ffn: Vec<f32>,
    branch: Vec<f32>,
    mix: Vec<f32>,
    mixed: Vec<f32>,
    angles: Vec<f32>,
    logits: Vec<f32>,
    router: Vec<f32>,
    choices: Vec<Choice>,
    layer_inputs: Vec<f32>,
    layer_width: usize,
    gathered: Vec<f32>,
    /// For each chosen expert: first the output of gate and up, which is the input of the down matrix, then its result.
    experts: Vec<Vec<f32>>,
}

#[derive(Debug)]
pub(crate) struct ScalarDevice<'m> {
    steps: Vec<StepView<'m>>,
    frequencies: Vec<f64>,
    has_shared_gate: bool,
    layouts: Vec<KvLayout>,
    pools: Vec<Vec<u32>>,
    /// States of recurrent layers: all slots, one after the other.
    states: Vec<f32>,
    state_layout: Option<StateLayout>,
    state_slots: HashMap<usize, StateSlots>,
    /// Whether the keys and values of each row are stored already.
    stored: Vec<bool>,
    rows: Vec<Row>,
    wanted: [usize; 2],
    tables: HashMap<(usize, usize), Vec<u32>>,
    buffers: Vec<Buffers>,
    /// Steps that were submitted and are not done yet.
    waiting: Option<Range<usize>>,
    fault: Option<DeviceFault>,
    layers: usize,
    /// Most steps that it does at a time.
    pub(crate) most: usize,
    /// Number of times that it says it is not done.
    pub(crate) laziness: usize,
    asked: usize,
    /// Whether it chooses tokens itself.
    pub(crate) chooses: bool,
    /// Number of submits after which it is lost.
    pub(crate) life: usize,
    pub(crate) submits: usize,
    pub(crate) copies: usize,
}

impl<'m> ScalarDevice<'m> {
    /// Returns the device of a plan, or the name of an operation that it does not know.
    pub(crate) fn new(model: &Model<'m>, plan: &Plan) -> Result<Self, &'static str> {
        let (mut steps, mut rotary) = (Vec::new(), None);
        plan.for_each_operation(model, &mut |step| {
            if let OpView::Angles(view) = &step.operation {
                rotary = Some(*view);
            }
            steps.push(step.clone());
        })
        .unwrap();
        for step in &steps {
            if let OpView::Other(name) = step.operation {
                return Err(name);
            }
        }
        let layouts: Vec<_> = (0..2).map_while(|group| plan.kv_layout(model, group)).collect();
        // A device's memory may hold anything at first.
        let pools = layouts.iter().map(|layout| vec![0xA5A5_A5A5; layout.blocks * layout.block_bytes / 4]).collect();
        let state_layout = plan.state_layout(model);
        let states = vec![f32::NAN; state_layout.map_or(0, |layout| layout.slots * layout.elements())];
        let mut frequencies = vec![0.0; rotary.map_or(0, |rotary: RotaryView<'_>| rotary.width() / 2)];
        if let Some(rotary) = rotary {
            rotary.frequencies(&mut frequencies);
        }
        Ok(Self {
            steps,
            frequencies,
            has_shared_gate: model.config().feed_forward.shared_gate,
            layouts,
            pools,
            states,
            state_layout,
            state_slots: HashMap::new(),
            stored: Vec::new(),
            rows: Vec::new(),
            wanted: [0; 2],
            tables: HashMap::new(),
            buffers: Vec::new(),
            waiting: None,
            fault: None,
            layers: model.config().layers,
            most: usize::MAX,
            laziness: 0,
            asked: 0,
            chooses: false,
            life: usize::MAX,
            submits: 0,
            copies: 0,
        })
    }

    fn is_lost(&self) -> bool {
        self.submits > self.life
    }

    fn check(&self) -> Result<(), DeviceFault> {
        if self.is_lost() { Err(DeviceFault::Lost) } else { Ok(()) }
    }

    /// Does the submitted steps.
    fn work(&mut self) {
        for number in self.waiting.take().into_iter().flatten() {
            let step = self.steps[number].clone();
            let rows = match step.rows {
                Rows::All => self.rows.len(),
                Rows::Finished => self.wanted[0],
                Rows::Logits => self.wanted[1],
            };
            let layer = match step.part {
                Part::Begin => 0,
                Part::Layer(layer) => layer,
                Part::End => self.layers,
            };
            // All keys and values are stored before any row reads them, in the order of their positions.
            let mut order: Vec<_> = (0..rows).collect();
            order.sort_by_key(|&row| self.rows[row].position);
            for row in order {
                if self.run(&step.operation, row).is_none() {
                    // Later steps still compute something, but nobody gets it.
                    self.fault.get_or_insert(DeviceFault::NonFinite { layer });
                }
            }
        }
    }

    /// Runs an operation on a row. Returns `None` if a value is not finite.
    fn run(&mut self, operation: &OpView<'m>, index: usize) -> Option<()> {
        let row = self.rows[index];
        if let OpView::Store(view) = operation {
            return if self.stored[index] { Some(()) } else { self.store(view, row, index) };
        }
        match operation {
            OpView::GatedConvolution(view) => return self.gated_convolution(view, index),
            OpView::Convolution(view) => return self.convolution(view, index),
            OpView::Update(view) => return self.update(view, index),
            _ => {}
        }
        if let OpView::Attend(view) = operation {
            self.buffers[index].attention = self.attend(view, row, &self.buffers[index].heads);
            return Some(());
        }
        if let Some(done) = self.run_experts(operation, index) {
            return done.then_some(());
        }
        let own = &mut self.buffers[index];
        match operation {
            OpView::Embed(view) => {
                let hidden = view.table.cols();
                own.residual = vec![0.0; hidden];
                dequantize(view.table.dtype(), view.table.row(row.token as usize).unwrap(), &mut own.residual).unwrap();
                if view.scale != 1.0 {
                    own.residual.iter_mut().for_each(|x| *x = settle(*x * view.scale));
                }
                for (table, place) in [(view.types, 0), (view.positions, row.position as usize)] {
                    let Some(table) = table else { continue };
                    let mut learned = vec![0.0; hidden];
                    dequantize(table.dtype(), table.row(place).unwrap(), &mut learned).unwrap();
                    own.residual.iter_mut().zip(learned).for_each(|(x, y)| *x += y);
                }
                if let Some(norm) = view.norm {
                    LEVEL.norm_in_place(&norm, &mut own.residual);
                }
            }
            OpView::Angles(view) => {
                own.angles = vec![0.0; view.width()];
                view.angles(row.position as usize, &self.frequencies, &mut own.angles).unwrap();
            }
            OpView::Norm(view) => {
                own.input = vec![0.0; view.input.width];
                LEVEL.norm(&view.norm, &own.residual, &mut own.input);
                return is_quantizable(&own.input, view.input.forms);
            }
            OpView::Quantize(view) => {
                own.input = match view.from {
                    ActivationSource::Residual => own.residual.clone(),
                    ActivationSource::Attention { sinks, gates } => {
                        let mut result = finish_heads(&own.attention, sinks);
                        if let Some(GatesView { first, per_head, .. }) = gates {
                            let (head_dim, gates) = (own.attention[0].0.len(), &own.heads[first..]);
                            let gate = |i: usize| gates[if per_head { i / head_dim } else { i }];
                            result.iter_mut().enumerate().for_each(|(i, x)| *x *= sigmoid(gate(i)));
                        }
                        result
                    }
                    ActivationSource::FeedForward => own.ffn.clone(),
                    ActivationSource::Mixer { norm } => norm_groups(norm, &own.mixed),
                    ActivationSource::SharedExpert => {
                        let gate = sigmoid(*own.router.last().unwrap());
                        own.ffn.iter().map(|x| x * gate).collect()
                    }
                    ActivationSource::LayerInput { layer } => {
                        let inputs = own.layer_inputs.chunks(own.layer_width).nth(layer).unwrap();
                        own.ffn.iter().zip(inputs).map(|(x, y)| x * y).collect()
                    }
                    ActivationSource::Experts => {
                        assert!(own.experts.iter().all(|x| x.len() == view.input.width));
                        return own.experts.iter().all(|x| is_quantizable(x, view.input.forms).is_some()).then_some(());
                    }
                    _ => unreachable!(),
                };
                assert_eq!(own.input.len(), view.input.width);
                return is_quantizable(&own.input, view.input.forms);
            }
            OpView::Qkv(view) => {
                own.heads = vec![0.0; view.width];
                for (index, part) in view.parts.iter().enumerate() {
                    let Some((first, matrix)) = part else { continue };
                    for (output, x) in multiply(matrix, &own.input).into_iter().enumerate() {
                        let split = view.split.filter(|_| index == 0);
                        own.heads[split.map_or(first + output, |split| split.column(output))] = x;
                    }
                }
            }
            OpView::MixerInput(view) => {
                own.mix = vec![0.0; view.width];
                for (first, matrix) in view.parts.iter().flatten() {
                    let outputs = multiply(matrix, &own.input);
                    own.mix[*first..*first + outputs.len()].copy_from_slice(&outputs);
                }
            }
            OpView::NormRotate(view) => norm_rotate(view, row, &own.angles, &mut own.heads),
            OpView::Project(view) => {
                let outputs = multiply(&view.matrix, &own.input);
                match view.to {
                    BranchEnd::Residual { scale } => add_scaled(&mut own.residual, &outputs, scale),
                    BranchEnd::Branch => own.branch = outputs,
                }
            }
            OpView::AddNormed(view) => {
                let mut normed = vec![0.0; own.branch.len()];
                LEVEL.norm(&view.norm, &own.branch, &mut normed);
                add_scaled(&mut own.residual, &normed, view.scale);
            }
            OpView::Renorm(view) => {
                let row = if view.of_branch { &mut own.branch } else { &mut own.residual };
                LEVEL.norm_in_place(&view.norm, row);
            }
            OpView::Scale(view) => {
                own.residual.iter_mut().for_each(|x| *x = view.factor.map_or(*x, |factor| settle(*x * factor)));
            }
            OpView::ProjectLayerInputs(matrix) => own.layer_inputs = multiply(matrix, &own.input),
            OpView::AddLayerInputs(view) => {
                own.layer_width = view.width;
                let mut learned = vec![0.0; own.layer_inputs.len()];
                dequantize(view.table.dtype(), view.table.row(row.token as usize).unwrap(), &mut learned).unwrap();
                own.layer_inputs.iter_mut().for_each(|x| *x *= view.of_matrix);
                own.layer_inputs.chunks_mut(view.width).for_each(|part| LEVEL.norm_in_place(&view.norm, part));
                add_scaled(&mut own.layer_inputs, &learned, view.of_table);
                own.layer_inputs.iter_mut().for_each(|x| *x *= view.of_sum);
            }
            OpView::GateUp(view) => own.ffn = gate_up(view.gate, &view.up, view.activation, &own.input),
            OpView::Head(view) => {
                own.logits = multiply(&view.matrix, &own.input);
                if view.scale != 1.0 {
                    own.logits.iter_mut().for_each(|x| *x = settle(*x * view.scale));
                }
                if view.soft_cap > 0.0 {
                    LEVEL.soft_cap(view.soft_cap, &mut own.logits);
                }
                return own.logits.iter().all(|x| x.is_finite()).then_some(());
            }
            _ => unreachable!("it was refused"),
        }
        Some(())
    }

    /// Runs an operation of experts on a row, and returns whether its values were finite. Returns `None` for other
    /// operations.
    fn run_experts(&mut self, operation: &OpView<'m>, index: usize) -> Option<bool> {
        let own = &mut self.buffers[index];
        match operation {
            OpView::Route(view) => {
                own.router = multiply(&view.router, &own.input);
                own.router.extend(view.shared_gate.iter().flat_map(|gate| multiply(gate, &own.input)));
            }
            OpView::Choose(view) => {
                let experts = own.router.len() - usize::from(self.has_shared_gate);
                let mut scores = vec![0.0; experts];
                own.choices = vec![Choice::default(); view.used];
                let biases: Vec<[u8; 4]> = view.biases.chunks(4).map(|bias| bias.try_into().unwrap()).collect();
                if view.routing.choose(&own.router[..experts], &biases, &mut scores, &mut own.choices).is_none() {
                    return Some(false);
                }
                for choice in &mut own.choices {
                    if let Some(scale) = view.scales.chunks(4).nth(choice.expert as usize) {
                        choice.weight = settle(choice.weight * float(scale));
                    }
                }
            }
            OpView::GroupRows => {}
            OpView::Gather => own.gathered = own.input.clone(),
            OpView::ExpertGateUp(view) => {
                let of = |choice: &Choice| {
                    let of = |all: ExpertsView<'m>| all.get(choice.expert as usize).unwrap();
                    gate_up(view.gate.map(of), &of(view.up), view.activation, &own.gathered)
                };
                own.experts = own.choices.iter().map(of).collect();
            }
            OpView::ExpertDown(view) => {
                let of = |(choice, x): (&Choice, &Vec<f32>)| multiply(&view.get(choice.expert as usize).unwrap(), x);
                own.experts = own.choices.iter().zip(&own.experts).map(of).collect();
            }
            OpView::AddExperts(view) => {
                let hidden = own.residual.len();
                let (to, scale) = match view.to {
                    BranchEnd::Residual { scale } => (&mut own.residual, scale),
                    BranchEnd::Branch => (&mut own.branch, 1.0),
                };
                let mut sum = vec![0.0; hidden];
                let place = if view.norm.is_some() { &mut sum } else { &mut *to };
                for (choice, result) in own.choices.iter().zip(&own.experts) {
                    LEVEL.combine(Combine::AddScaled(settle(choice.weight * scale)), place, result);
                }
                if let Some(norm) = view.norm {
                    LEVEL.norm_in_place(&norm, &mut sum);
                    LEVEL.combine(Combine::Add, to, &sum);
                }
            }
            _ => return None,
        }
        Some(true)
    }
}

impl Device for ScalarDevice<'_> {
    fn begin(&mut self, batch: &BatchView<'_>) -> Result<(), DeviceFault> {
        self.check()?;
        (self.waiting, self.fault, self.asked) = (None, None, 0);
        self.rows = batch.rows.to_vec();
        self.wanted = [batch.finished, batch.logits];
        self.buffers = vec![Buffers::default(); batch.rows.len()];
        self.tables.clear();
        self.stored = batch.rows.iter().map(|row| batch.is_stored(row)).collect();
        self.state_slots = batch.rows.iter().filter_map(|row| Some((row.slot(), batch.state(row.slot())?))).collect();
        for row in batch.rows {
            for group in 0..self.layouts.len() {
                self.tables.insert((group, row.slot()), batch.table(group, row.slot()).to_vec());
            }
        }
        batch.for_each_copy(&mut |copy| {
            let words = self.layouts[copy.group].block_bytes / 4;
            let [from, to] = [copy.from, copy.to].map(|block| block as usize * words);
            self.pools[copy.group].copy_within(from..from + words, to);
            self.copies += 1;
        });
        Ok(())
    }

    fn submit(&mut self, steps: Range<usize>) -> Result<usize, DeviceFault> {
        assert!(self.waiting.is_none() && !steps.is_empty());
        self.submits += 1;
        self.check()?;
        let taken = steps.len().min(self.most);
        self.waiting = Some(steps.start..steps.start + taken);
        self.asked = 0;
        Ok(taken)
    }

    fn poll(&mut self) -> Poll<Result<(), DeviceFault>> {
        if self.is_lost() {
            return Poll::Ready(Err(DeviceFault::Lost));
        }
        self.asked += 1;
        if self.asked <= self.laziness { Poll::Pending } else { self.wait() }
    }

    fn wait(&mut self) -> Poll<Result<(), DeviceFault>> {
        self.work();
        Poll::Ready(self.fault.map_or(Ok(()), Err))
    }

    fn decode(&mut self, batch: &BatchView<'_>, choosing: &Choosing, ids: &mut [u32]) -> Result<bool, DeviceFault> {
        assert_eq!((batch.rows.len(), batch.finished, batch.logits), (ids.len(), 1, 1));
        if !self.chooses {
            return Ok(false);
        }
        self.begin(batch)?;
        let mut token = batch.rows[0].token;
        let mut sampler = match *choosing {
            Choosing::Drawn(Draws { temperature, top_k, top_p, min_p, state }) => {
                assert!(temperature > 0.0);
                let params = SamplerParams { temperature, top_k, top_p, min_p, ..SamplerParams::default() };
                let mut sampler = Sampler::new(params).unwrap();
                sampler.set_state(state);
                Some(sampler)
            }
            _ => None,
        };
        for (row, id) in batch.rows.iter().zip(ids) {
            let mut row = *row;
            row.token = token;
            self.stored = vec![false];
            (self.rows, self.buffers) = (vec![row], vec![Buffers::default()]);
            let mut done = 0;
            while done < self.steps.len() {
                done += self.submit(done..self.steps.len())?;
                self.work();
            }
            self.fault.map_or(Ok(()), Err)?;
            let logits = &self.buffers[0].logits;
            token = match &mut sampler {
                Some(sampler) => sampler.sample(logits, &mut vec![0; logits.len()]).unwrap().token,
                None => argmax(logits).unwrap(),
            };
            *id = token;
            for slots in self.state_slots.values_mut() {
                slots.from = slots.to;
            }
        }
        Ok(true)
    }

    fn logits(&mut self, row: usize, out: &mut [f32]) -> Result<(), DeviceFault> {
        out.copy_from_slice(&self.buffers[row].logits);
        self.check()
    }

    fn read_block(&self, part: BlockPart, out: &mut [u32]) -> Result<(), DeviceFault> {
        self.check()?;
        let start = part.block as usize * self.layouts[part.group].block_bytes / 4 + part.word;
        out.copy_from_slice(&self.pools[part.group][start..start + out.len()]);
        Ok(())
    }

    fn write_block(&mut self, part: BlockPart, words: &[u32]) -> Result<(), DeviceFault> {
        self.check()?;
        let start = part.block as usize * self.layouts[part.group].block_bytes / 4 + part.word;
        self.pools[part.group][start..start + words.len()].copy_from_slice(words);
        Ok(())
    }

    fn read_state(&self, part: StatePart, out: &mut [f32]) -> Result<(), DeviceFault> {
        self.check()?;
        let start = self.state(part.slot) + part.element;
        out.copy_from_slice(&self.states[start..start + out.len()]);
        Ok(())
    }

    fn write_state(&mut self, part: StatePart, elements: &[f32]) -> Result<(), DeviceFault> {
        self.check()?;
        let start = self.state(part.slot) + part.element;
        self.states[start..start + elements.len()].copy_from_slice(elements);
        Ok(())
    }
}
