//! The operations of a program as values: everything that a device needs to know to run them.

use super::experts::{AddExpertsView, ChooseView, ExpertGateUpView, ExpertsView, RouteView};
use super::heads::{AttendView, GatesView, HeadNormView, NormRotateView, QkvView, StoreView};
use super::matrix::{BranchEnd, MatrixView};
use super::recurrent::{ConvolutionView, MixerInputView, UpdateView};
use super::rotary::RotaryView;
use crate::kernels::{Activation, Norm};
use crate::nn::InputForms;
use crate::tensor::TensorView;

/// An operation, with its numbers and its tensors in the file.
///
/// Operations pass results to each other in buffers with one row for each row of the batch: the *residual stream*
/// `[hidden]`; the *input* of the next matrices, in the forms that these need; the *heads*, which are queries, keys and
/// values side by side; the *attention* result `[heads, head_dim]`; the *mixer's input* and *result* of recurrent
/// layers; the *feed-forward* result; and the *branch* `[hidden]`. `docs/arithmetic.md` specifies what the operations
/// compute.
///
/// [Example](crate::device#example).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum OpView<'m> {
    /// Rows of the embedding for the tokens, to the residual stream.
    Embed(EmbedView<'m>),
    /// Cosines and sines of the positions.
    Angles(RotaryView<'m>),
    /// The norm of the residual stream, to the input.
    Norm(NormView<'m>),
    /// Other activations, to the input.
    Quantize(QuantizeView<'m>),
    /// The matrices of a recurrent layer: from the input to the mixer's input.
    MixerInput(MixerInputView<'m>),
    /// The convolution of the first columns of the mixer's input, and SiLU, in place.
    Convolution(ConvolutionView<'m>),
    /// The update of the matrices of a state by a row: from the mixer's input to the mixer's result.
    Update(UpdateView<'m>),
    /// The convolution between two gates: from the mixer's input to the mixer's result.
    GatedConvolution(ConvolutionView<'m>),
    /// The matrices of queries, keys and values: from the input to the heads.
    Qkv(QkvView<'m>),
    /// Norms and rotation of queries and keys, in place.
    NormRotate(NormRotateView<'m>),
    /// Keys and values into the cache. It does nothing in layers that have no keys and values of their own.
    Store(StoreView),
    /// Attention over the cache: from the heads to the attention result.
    Attend(AttendView),
    /// A matrix that ends a branch: from the input to the residual stream or to the branch.
    Project(ProjectView<'m>),
    /// The norm of the branch, added to the residual stream.
    AddNormed(AddNormedView<'m>),
    /// The norm of the residual stream or of the branch, in place.
    Renorm(RenormView<'m>),
    /// The residual stream multiplied by a number.
    Scale(ScaleView),
    /// The first step of the *layer inputs*, `[layers, width]`, which all layers get of each token: a matrix applied to
    /// the input.
    ProjectLayerInputs(MatrixView<'m>),
    /// The second step of the layer inputs: the embedding for the layers is added.
    AddLayerInputs(LayerInputsView<'m>),
    /// The gate and up matrices and the activation function: from the input to the feed-forward result.
    GateUp(GateUpView<'m>),
    /// The logits of the experts.
    Route(RouteView<'m>),
    /// The choice of the experts that each row goes through.
    Choose(ChooseView<'m>),
    /// Rows sorted by expert, for devices that read the weights of an expert once for several rows.
    GroupRows,
    /// A copy of the input for the experts, because another input takes its place before they read it.
    Gather,
    /// Gate, up and activation of the chosen experts: a feed-forward result for each expert of each row.
    ExpertGateUp(ExpertGateUpView<'m>),
    /// The down matrices of the chosen experts: from an input to a result, for each expert of each row.
    ExpertDown(ExpertsView<'m>),
    /// The sum of the results of the chosen experts.
    AddExperts(AddExpertsView<'m>),
    /// The logits, from the input.
    Head(HeadView<'m>),
    /// An operation that has no view yet, by its name. A device refuses the model.
    Other(&'static str),
}

/// The input of the next matrices.
///
/// [Example](crate::device#example).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct InputView {
    /// Number of elements of a row.
    pub width: usize,
    /// Forms in which these matrices need it.
    pub forms: InputForms,
}

/// The first residual row of a token: `row(token) * scale`, settled, then `+ types.row(0)`, `+
/// positions.row(position)`, and the norm. Tables and norms that are absent are skipped.
///
/// [Example](crate::device#example).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct EmbedView<'m> {
    /// Embedding, `[vocab, hidden]`.
    pub table: TensorView<'m>,
    /// Factor of the embedding rows. If it is 1, the rows are not even settled.
    pub scale: f32,
    /// Token types, `[types, hidden]`. The first row is added.
    pub types: Option<TensorView<'m>>,
    /// Learned positions, `[positions, hidden]`.
    pub positions: Option<TensorView<'m>>,
    /// Norm of the sum.
    pub norm: Option<Norm<'m>>,
}

/// The norm of the residual stream.
///
/// [Example](crate::device#example).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct NormView<'m> {
    /// The norm.
    pub norm: Norm<'m>,
    /// The input that receives the result.
    pub input: InputView,
}

/// Activations that become an input.
///
/// [Example](crate::device#example).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct QuantizeView<'m> {
    /// The activations.
    pub from: ActivationSource<'m>,
    /// The input that receives them.
    pub input: InputView,
}

/// The source of the activations of an input.
///
/// [Example](crate::device#example).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum ActivationSource<'m> {
    /// The residual stream.
    Residual,
    /// The attention result, with its sums divided.
    Attention {
        /// Heads' sink scores, `[heads]`, little-endian f32 of any alignment, or empty.
        sinks: &'m [u8],
        /// Gates by which the result is multiplied afterwards.
        gates: Option<GatesView>,
    },
    /// The feed-forward result.
    FeedForward,
    /// The feed-forward result, multiplied by the sigmoid of the last logit of the router.
    SharedExpert,
    /// The feed-forward result of each expert of each row.
    Experts,
    /// The mixer's result.
    Mixer {
        /// Norm of each group of the result, with a row of weights for each group.
        norm: Option<HeadNormView<'m>>,
    },
    /// The feed-forward result, multiplied by the layer inputs of a layer.
    LayerInput {
        /// Index of the layer.
        layer: usize,
    },
}

/// A matrix that ends a branch.
///
/// [Example](crate::device#example).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ProjectView<'m> {
    /// The matrix.
    pub matrix: MatrixView<'m>,
    /// Destination of its results.
    pub to: BranchEnd,
}

/// The norm of the branch, added to the residual stream.
///
/// [Example](crate::device#example).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct AddNormedView<'m> {
    /// The norm.
    pub norm: Norm<'m>,
    /// Factor of the norm's result, which is settled then. Nothing happens if it is 1.
    pub scale: f32,
}

/// A norm in place.
///
/// [Example](crate::device#example).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct RenormView<'m> {
    /// The norm.
    pub norm: Norm<'m>,
    /// Whether the branch is normalized, instead of the residual stream.
    pub of_branch: bool,
}

/// The scale of a layer.
///
/// [Example](crate::device#example).
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct ScaleView {
    /// Factor of the residual stream, which is settled then. `None` leaves the stream as it is.
    pub factor: Option<f32>,
}

/// The layer inputs. With x, the outputs of the matrix, and e, the token's row of a table, a layer's input is `(norm(x
/// * of_matrix) + settle(e * of_table)) * of_sum`.
///
/// [Example](crate::device#example).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct LayerInputsView<'m> {
    /// Embedding for the layers, `[vocab, layers * width]`.
    pub table: TensorView<'m>,
    /// Norm of a layer's part.
    pub norm: Norm<'m>,
    /// Number of elements of a layer's part.
    pub width: usize,
    /// Factor of the outputs of the matrix.
    pub of_matrix: f32,
    /// Factor of the elements of the table.
    pub of_table: f32,
    /// Factor of the sums.
    pub of_sum: f32,
}

/// The first half of a feed-forward layer: `activation(gate) * up`, or `activation(up)`.
///
/// [Example](crate::device#example).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct GateUpView<'m> {
    /// Gate matrix, if there is one.
    pub gate: Option<MatrixView<'m>>,
    /// Up matrix.
    pub up: MatrixView<'m>,
    /// Activation function.
    pub activation: Activation,
}

/// The logits.
///
/// [Example](crate::device#example).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct HeadView<'m> {
    /// Output matrix, `[vocab, hidden]`.
    pub matrix: MatrixView<'m>,
    /// Factor of the logits, which are settled then. Nothing happens if it is 1.
    pub scale: f32,
    /// Soft cap, applied last: logits l become `cap * tanh(l / cap)`. 0 means no cap.
    pub soft_cap: f32,
}
