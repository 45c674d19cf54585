//! Inputs of matrices: the residual stream, and activations that stay floats.

use bytemuck::Zeroable;
use gleed::device::{ActivationSource, AddNormedView, InputView, OpView};
use gleed::kernels::Norm;
use gleed::nn::Temperature;
use gleed::quant::Form;

use super::matrices::words_of;
use super::recur::MIXED;
use super::{Lowering, factor, refused};
use crate::catalog::Kernel;
use crate::error::GpuError;
use crate::grid::PARALLEL_ROWS;
use crate::params::{Branch, IN_PLACE, Input, NO_INPUT, NONE, adds};
use crate::place::{Activations, Place, Shaped};
use crate::selftest::{form_number, norms_number};

/// The most elements of a row of activations that are quantized where they are read.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Widest {
    /// Queries, keys and values.
    pub(super) heads: usize,
    attention: usize,
    /// Sums of a chunk of all heads.
    pub(super) part: usize,
    feed_forward: usize,
    /// Experts of a row.
    used: usize,
    /// Words of a row of an input in each form.
    pub(super) inputs: [usize; 4],
    /// What all layers get of a token, and a layer of that.
    pub(super) layer_inputs: usize,
    pub(super) layer_input: usize,
    /// What the outputs of its matrix are multiplied by.
    pub(super) of_matrix: f32,
    /// What queries are multiplied by.
    pub(crate) temperature: Option<Temperature>,
    /// Whether experts are chosen already, and did not read their input yet.
    is_routed: bool,
}

/// The buffer of heads: queries, keys and values of the rows of a batch come first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeadsLayout {
    pub(super) rows: usize,
    pub(super) queries: usize,
    pub(super) parts: usize,
    pub(crate) chunks: usize,
    pub(crate) words: usize,
}

impl Widest {
    /// Notes those of an operation.
    pub(crate) fn see(&mut self, operation: &OpView<'_>) {
        match operation {
            OpView::Qkv(view) => self.heads = self.heads.max(view.width),
            OpView::NormRotate(view) => self.temperature = self.temperature.or(view.temperature),
            OpView::Attend(view) => {
                self.attention = self.attention.max(view.heads * view.head_dim);
                self.part = self.part.max(view.heads * (view.head_dim + 2));
            }
            OpView::GatedConvolution(view) => self.feed_forward = self.feed_forward.max(view.weights.rows()),
            OpView::Update(view) => self.feed_forward = self.feed_forward.max(view.heads * view.value_dim),
            OpView::GateUp(view) => {
                let width = if self.is_routed { &mut self.attention } else { &mut self.feed_forward };
                *width = view.up.weights.rows().max(*width);
            }
            OpView::Norm(view) => self.see_input(view.input),
            OpView::Quantize(view) if matches!(view.from, ActivationSource::Residual) => self.see_input(view.input),
            OpView::AddLayerInputs(view) => {
                self.layer_inputs = view.table.cols();
                self.layer_input = view.width;
                self.of_matrix = view.of_matrix;
            }
            OpView::Route(_) => self.is_routed = true,
            OpView::Choose(view) => self.used = view.used,
            OpView::ExpertGateUp(view) => {
                self.is_routed = false;
                let width = view.up.count.next_multiple_of(32) * self.used;
                self.feed_forward = self.feed_forward.max(width);
            }
            _ => {}
        }
    }

    fn see_input(&mut self, input: InputView) {
        for form in input.forms.forms() {
            // One that does not fit is an error later.
            let words = words_of(form, input.width).unwrap_or(0);
            if let Some(most) = self.inputs.get_mut(form_number(form) as usize) {
                *most = words.max(*most);
            }
        }
    }

    /// Words of the buffer of heads for batches of so many rows: where the rotated queries begin, where the sums of
    /// chunks do, and how many chunks a head of a row can have there, of the `chunks` that a sequence has, in so many
    /// words at most.
    pub(crate) fn heads(&self, rows: usize, chunks: usize, most: u64) -> HeadsLayout {
        let queries = rows * self.heads;
        let parts = queries + rows * self.attention;
        let chunk = PARALLEL_ROWS.min(rows) * self.part;
        let room = usize::try_from(most).unwrap_or(usize::MAX).saturating_sub(parts);
        let chunks = room.checked_div(chunk).unwrap_or(0).min(chunks);
        HeadsLayout { rows, queries, parts, chunks, words: parts + chunks * chunk }
    }

    /// Elements of a row.
    pub(super) fn width(&self, activations: Activations) -> usize {
        match activations {
            Activations::Attention => self.attention,
            Activations::FeedForward => self.feed_forward,
        }
    }

    /// Words of a row of largest magnitudes, of 32 elements each.
    pub(super) fn words(&self, activations: Activations) -> usize {
        self.width(activations).div_ceil(32)
    }
}

impl<'m> Lowering<'m> {
    /// The residual stream as an input, in all forms that are wanted.
    pub(super) fn input(&mut self, input: InputView, norm: Option<&Norm<'m>>) -> Result<(), GpuError> {
        let norm = norm.map_or(Input { weight: NONE, bias: NONE, ..Input::zeroed() }, |norm| self.normed(norm));
        self.raw = None;
        // Experts read theirs later.
        self.is_beside = self.is_routed && self.is_gathered;
        self.add_branch_of_others();
        let place = self.input_place();
        self.widen(place, self.largest.inputs.iter().sum());
        let forms: Vec<_> = input.forms.forms().collect();
        for pair in forms.chunks(2) {
            let Some(&form) = pair.first() else { continue };
            let out_stride = words_of(form, input.width)? as u32;
            let mut params = Input { out_stride, form: form_number(form), out_at: self.input_at(form), ..norm };
            if let Some(&second) = pair.get(1) {
                params.second_stride = words_of(second, input.width)? as u32;
                (params.second_form, params.second_at) = (1 + form_number(second), self.input_at(second));
            }
            self.emit_input(params, place);
        }
        Ok(())
    }

    /// Where the last input lies.
    pub(super) fn input_place(&self) -> Place {
        Place::Input(self.is_beside)
    }

    /// The word there at which its rows in a form begin.
    pub(super) fn input_at(&self, form: Form) -> u32 {
        let before = self.largest.inputs.iter().take(form_number(form) as usize);
        (self.layout.rows * before.sum::<usize>()) as u32
    }

    /// The residual stream, normed.
    pub(super) fn norm_in_place(&mut self, norm: &Norm<'m>) {
        let params = Input { form: IN_PLACE, ..self.normed(norm) };
        // Nothing is written to the last buffer.
        self.emit_input(params, Place::Batch);
    }

    /// A norm, as a part of an input.
    pub(super) fn normed(&mut self, norm: &Norm<'m>) -> Input {
        let [weight, bias] = [norm.weight, norm.bias].map(|vector| self.vectors.add(vector).unwrap_or(NONE));
        Input { norms: norms_number(norm.kind), weight, bias, epsilon: norm.epsilon, ..Input::zeroed() }
    }

    /// The norm of the branch, added to the residual stream by the next input.
    pub(super) fn add_normed(&mut self, view: &AddNormedView<'m>) -> Result<(), GpuError> {
        let norm = &view.norm;
        let [weight, bias] = [norm.weight, norm.bias].map(|vector| self.vectors.add(vector).unwrap_or(NONE));
        let to_branch = adds::NORMS_BRANCH | adds::EXPERTS | adds::TO_BRANCH | adds::NORMS_EXPERTS;
        if self.branch.is_some_and(|(branch, _)| branch.adds & (adds::EXPERTS | adds::TO_BRANCH) == adds::EXPERTS) {
            self.add_branch();
        }
        self.merge(to_branch, norm.epsilon, |branch| Branch {
            adds: branch.adds | adds::NORM,
            norms: norms_number(norm.kind),
            weight,
            bias,
            factor: factor(view.scale),
            ..branch
        })
    }

    /// Lets the next input do more before, with what waits for it if that is of these `adds` alone.
    pub(super) fn merge(
        &mut self,
        with: u32,
        epsilon: f32,
        change: impl FnOnce(Branch) -> Branch,
    ) -> Result<(), GpuError> {
        self.add_branch_of_others();
        self.add_branch_but(with);
        let (branch, _) = self.branch.unwrap_or((Branch::zeroed(), self.rows));
        if branch.epsilon != 0.0 && epsilon != 0.0 && branch.epsilon != epsilon {
            return refused("norms of a branch with several epsilons");
        }
        self.branch = Some((change(Branch { epsilon: branch.epsilon.max(epsilon), ..branch }), self.rows));
        Ok(())
    }

    /// Adds a branch that waits, if there is one and it is of other rows.
    pub(super) fn add_branch_of_others(&mut self) {
        if self.branch.is_some_and(|(_, rows)| rows != self.rows) {
            self.add_branch();
        }
    }

    /// Adds a branch that waits, unless no more than these `adds` is to be done.
    pub(super) fn add_branch_but(&mut self, adds: u32) {
        if self.branch.is_some_and(|(branch, _)| branch.adds & !adds != 0) {
            self.add_branch();
        }
    }

    /// Adds a branch that waits for the next input, if there is one.
    pub(super) fn add_branch(&mut self) {
        if let Some((_, rows)) = self.branch {
            let now = std::mem::replace(&mut self.rows, rows);
            // Nothing is written to the last buffer.
            self.emit_input(Input { form: NO_INPUT, ..Input::zeroed() }, Place::Batch);
            self.rows = now;
        }
    }

    pub(super) fn emit_input(&mut self, params: Input, to: Place) {
        let branch = self.branch.take().map_or(Branch::zeroed(), |(branch, _)| branch);
        let kinds = [Activations::Attention, Activations::FeedForward];
        let mut largest = kinds.map(|kind| self.largest.words(kind) as u32);
        // Those of results that no matrix has read stay.
        if self.attention_waits {
            largest[0] = 0;
        }
        let params = Input { n: self.hidden as u32, flag: self.flag, branch, largest, ..params };
        let [attention, feed_forward] = kinds.map(Place::Largest);
        let buffers = [Place::Residual, Place::Branch, Place::Vectors, to, Place::Flags, attention, feed_forward];
        self.emit(Kernel::Input, &params, &buffers, Shaped::ByRow);
    }

    /// Other activations stay floats: the matrices that read them quantize them.
    pub(super) fn quantize(&mut self, from: &ActivationSource<'m>, input: InputView) -> Result<(), GpuError> {
        self.raw = match from {
            ActivationSource::Residual => return self.input(input, None),
            ActivationSource::FeedForward | ActivationSource::SharedExpert => Some(self.activated),
            ActivationSource::Attention { sinks, gates } => {
                self.add_sinks(sinks)?;
                gates.as_ref().map_or(Ok(()), |gates| self.add_gates(gates))?;
                self.attention_waits = false;
                Some(Activations::Attention)
            }
            ActivationSource::Mixer { norm } => {
                norm.map_or(Ok(()), |norm| self.norm_groups(&norm))?;
                Some(MIXED)
            }
            ActivationSource::Experts => Some(Activations::FeedForward),
            ActivationSource::LayerInput { layer } => {
                self.times_layer_input(*layer)?;
                Some(self.activated)
            }
            _ => return refused("activations that are new"),
        };
        self.add_branch_but(adds::NORMS_BRANCH);
        Ok(())
    }
}
