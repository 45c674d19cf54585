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

/// The largest sizes of all layers, in elements of a row, and what else must be known before the program is lowered.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Widest {
    /// Elements of queries, keys and values.
    pub(super) heads: usize,
    attention: usize,
    /// Words of the sums of a chunk, of all heads.
    pub(super) part: usize,
    feed_forward: usize,
    /// Experts that a row goes through.
    used: usize,
    /// Words of a row of an input, in each activation format.
    pub(super) inputs: [usize; 4],
    /// Elements that all layers get of a token.
    pub(super) layer_inputs: usize,
    /// Elements that one layer gets of a token.
    pub(super) layer_input: usize,
    /// Factor of the outputs of the matrix of layer inputs.
    pub(super) of_matrix: f32,
    /// Temperature of queries: their factor by position.
    pub(crate) temperature: Option<Temperature>,
    /// Whether experts are chosen already, but have not read their input yet.
    is_routed: bool,
}

/// The layout of the buffer of heads in words. Queries, keys and values of the rows of a batch come first, then rotated
/// queries, then sums of chunks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeadsLayout {
    pub(super) rows: usize,
    pub(super) queries: usize,
    pub(super) parts: usize,
    pub(crate) chunks: usize,
    pub(crate) words: usize,
}

impl Widest {
    /// Notes the sizes of an operation.
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
            // Columns that are not whole blocks are an error later.
            let words = words_of(form, input.width).unwrap_or(0);
            if let Some(most) = self.inputs.get_mut(form_number(form) as usize) {
                *most = words.max(*most);
            }
        }
    }

    /// Returns the layout of the buffer of heads for batches of `rows` rows. A head of a row has room for `chunks`
    /// chunks, as many as a sequence can have, or for fewer where the buffer would have more than `most` words.
    pub(crate) fn heads(&self, rows: usize, chunks: usize, most: u64) -> HeadsLayout {
        let queries = rows * self.heads;
        let parts = queries + rows * self.attention;
        let chunk = PARALLEL_ROWS.min(rows) * self.part;
        let room = usize::try_from(most).unwrap_or(usize::MAX).saturating_sub(parts);
        let chunks = room.checked_div(chunk).unwrap_or(0).min(chunks);
        HeadsLayout { rows, queries, parts, chunks, words: parts + chunks * chunk }
    }

    /// Returns the elements of a row.
    pub(super) fn width(&self, activations: Activations) -> usize {
        match activations {
            Activations::Attention => self.attention,
            Activations::FeedForward => self.feed_forward,
        }
    }

    /// Returns the words of a row of largest magnitudes: one for 32 elements.
    pub(super) fn words(&self, activations: Activations) -> usize {
        self.width(activations).div_ceil(32)
    }
}

impl<'m> Lowering<'m> {
    /// Emits the residual stream as an input, in all formats that are wanted.
    pub(super) fn input(&mut self, input: InputView, norm: Option<&Norm<'m>>) -> Result<(), GpuError> {
        let norm = norm.map_or(Input { weight: NONE, bias: NONE, ..Input::zeroed() }, |norm| self.normed(norm));
        self.raw = None;
        // Experts read their input later, so this one lies beside it.
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

    /// Returns the buffer of the last input.
    pub(super) fn input_place(&self) -> Place {
        Place::Input(self.is_beside)
    }

    /// Returns the word of an input's buffer at which rows in a format begin.
    pub(super) fn input_at(&self, form: Form) -> u32 {
        let before = self.largest.inputs.iter().take(form_number(form) as usize);
        (self.layout.rows * before.sum::<usize>()) as u32
    }

    /// Emits the norm of the residual stream, in its place.
    pub(super) fn norm_in_place(&mut self, norm: &Norm<'m>) {
        let params = Input { form: IN_PLACE, ..self.normed(norm) };
        // The kernel writes nothing to the buffer that is given here.
        self.emit_input(params, Place::Batch);
    }

    /// Returns the parameters of a norm, as a part of an input's.
    pub(super) fn normed(&mut self, norm: &Norm<'m>) -> Input {
        let [weight, bias] = [norm.weight, norm.bias].map(|vector| self.vectors.add(vector).unwrap_or(NONE));
        Input { norms: norms_number(norm.kind), weight, bias, epsilon: norm.epsilon, ..Input::zeroed() }
    }

    /// Lets the next input add the norm of the branch to the residual stream.
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

    /// Lets the next input do more before. A branch that waits already is changed, too, if its `adds` are all among
    /// `with`. Otherwise it is added first.
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

    /// Adds a branch that waits, if there is one and it is of other rows than the current ones.
    pub(super) fn add_branch_of_others(&mut self) {
        if self.branch.is_some_and(|(_, rows)| rows != self.rows) {
            self.add_branch();
        }
    }

    /// Adds a branch that waits, unless all of its `adds` are among these.
    pub(super) fn add_branch_but(&mut self, adds: u32) {
        if self.branch.is_some_and(|(branch, _)| branch.adds & !adds != 0) {
            self.add_branch();
        }
    }

    /// Adds a branch that waits for the next input, if there is one.
    pub(super) fn add_branch(&mut self) {
        if let Some((_, rows)) = self.branch {
            let now = std::mem::replace(&mut self.rows, rows);
            // The kernel writes nothing to the buffer that is given here.
            self.emit_input(Input { form: NO_INPUT, ..Input::zeroed() }, Place::Batch);
            self.rows = now;
        }
    }

    pub(super) fn emit_input(&mut self, params: Input, to: Place) {
        let branch = self.branch.take().map_or(Branch::zeroed(), |(branch, _)| branch);
        let kinds = [Activations::Attention, Activations::FeedForward];
        let mut largest = kinds.map(|kind| self.largest.words(kind) as u32);
        // Largest magnitudes of results that no matrix has read yet are not cleared.
        if self.attention_waits {
            largest[0] = 0;
        }
        let params = Input { n: self.hidden as u32, flag: self.flag, branch, largest, ..params };
        let [attention, feed_forward] = kinds.map(Place::Largest);
        let buffers = [Place::Residual, Place::Branch, Place::Vectors, to, Place::Flags, attention, feed_forward];
        self.emit(Kernel::Input, &params, &buffers, Shaped::ByRow);
    }

    /// Notes the activations that the next matrices read. All but the residual stream stay floats, which these matrices
    /// quantize.
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
