//! The operations of a program as values: all that a device needs to know to run them.

use super::experts::{AddExpertsView, ChooseView, ExpertGateUpView, ExpertsView, RouteView};
use super::heads::{AttendView, GatesView, HeadNormView, NormRotateView, QkvView, StoreView};
use super::matrix::{BranchEnd, MatrixView};
use super::recurrent::{ConvolutionView, MixerInputView, UpdateView};
use super::rotary::RotaryView;
use crate::kernels::{Activation, Norm};
use crate::nn::InputForms;
use crate::tensor::TensorView;

/// An operation, with its numbers and with its tensors in the file.
///
/// Operations hand results to each other in buffers of a row each: the *residual stream* `[hidden]`; the *input* of the
/// matrices that come next, in the forms that these want; the *heads*, queries, keys and values side by side; the
/// *attention* result `[heads, head_dim]`; the *mixer's input* and *result*, of recurrent layers; the *feed-forward* result; and
/// the *branch* `[hidden]`. The specification of
/// what they compute is `docs/arithmetic.md`.
///
/// [Example](crate::device#example).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum OpView<'m> {
    /// Tokens to the residual stream.
    Embed(EmbedView<'m>),
    /// Cosines and sines of the positions.
    Angles(RotaryView<'m>),
    /// The norm of the residual stream, as an input.
    Norm(NormView<'m>),
    /// Other activations, as an input.
    Quantize(QuantizeView<'m>),
    /// The matrices of a recurrent layer: from the input to the mixer's input.
    MixerInput(MixerInputView<'m>),
    /// The convolution of the first columns of the mixer's input, and SiLU, in place.
    Convolution(ConvolutionView<'m>),
    /// What a row does to the matrices of its state: from the mixer's input to the mixer's result.
    Update(UpdateView<'m>),
    /// The convolution between two gates: from the mixer's input to the mixer's result.
    GatedConvolution(ConvolutionView<'m>),
    /// The matrices of queries, keys and values: from the input to the heads.
    Qkv(QkvView<'m>),
    /// Norms and rotation of queries and keys, in place.
    NormRotate(NormRotateView<'m>),
    /// Keys and values into the cache. It has nothing to do in layers that have none of their own.
    Store(StoreView),
    /// Attention over the cache: from the heads to the attention result.
    Attend(AttendView),
    /// A matrix that ends a branch: from the input to the residual stream or to the branch.
    Project(ProjectView<'m>),
    /// The norm of the branch, added to the residual stream.
    AddNormed(AddNormedView<'m>),
    /// The norm of the residual stream or of the branch, in its place.
    Renorm(RenormView<'m>),
    /// The residual stream times a number.
    Scale(ScaleView),
    /// What all layers get of a token, first: the matrix from the input to the *layer inputs*, `[layers, width]`.
    ProjectLayerInputs(MatrixView<'m>),
    /// Then the embedding is added to them.
    AddLayerInputs(LayerInputsView<'m>),
    /// The gate and up matrices and the activation function: from the input to the feed-forward result.
    GateUp(GateUpView<'m>),
    /// The logits of experts.
    Route(RouteView<'m>),
    /// Which experts each row goes through.
    Choose(ChooseView<'m>),
    /// The rows in the order of their experts, for devices that read the weights of an expert for several rows.
    GroupRows,
    /// The input is kept for the experts: another one takes its place before they read it.
    Gather,
    /// Gate, up and activation of the chosen experts: a feed-forward result for each expert of each row.
    ExpertGateUp(ExpertGateUpView<'m>),
    /// The chosen experts' down matrices: from an input for each expert of each row to a result for each.
    ExpertDown(ExpertsView<'m>),
    /// The sum of what the chosen experts gave.
    AddExperts(AddExpertsView<'m>),
    /// The logits: from the input.
    Head(HeadView<'m>),
    /// An operation that has no view yet, by its name. A device refuses the model.
    Other(&'static str),
}

/// The input of the matrices that come next.
///
/// [Example](crate::device#example).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct InputView {
    /// Elements of a row.
    pub width: usize,
    /// The forms that these matrices want it in.
    pub forms: InputForms,
}

/// How a token becomes the first residual row: `row(token) * scale`, settled; then `+ types.row(0)`,
/// `+ positions.row(position)`, and the norm, as far as these are there.
///
/// [Example](crate::device#example).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct EmbedView<'m> {
    /// `[vocab, hidden]`.
    pub table: TensorView<'m>,
    /// What rows of it are multiplied by; with 1 they are not even settled.
    pub scale: f32,
    /// `[types, hidden]`: the first row is added.
    pub types: Option<TensorView<'m>>,
    /// `[positions, hidden]`.
    pub positions: Option<TensorView<'m>>,
    /// The norm after that.
    pub norm: Option<Norm<'m>>,
}

/// The norm of the residual stream.
///
/// [Example](crate::device#example).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct NormView<'m> {
    /// It.
    pub norm: Norm<'m>,
    /// What it becomes.
    pub input: InputView,
}

/// Activations that become an input.
///
/// [Example](crate::device#example).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct QuantizeView<'m> {
    /// Where they are.
    pub from: ActivationSource<'m>,
    /// What they become.
    pub input: InputView,
}

/// Where activations are that become an input.
///
/// [Example](crate::device#example).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum ActivationSource<'m> {
    /// The residual stream.
    Residual,
    /// The attention result, its sums divided.
    Attention {
        /// The heads' sink scores, `[heads]`, little-endian f32 of any alignment; empty where there are none.
        sinks: &'m [u8],
        /// What it is multiplied by then.
        gates: Option<GatesView>,
    },
    /// The feed-forward result.
    FeedForward,
    /// The feed-forward result times the sigmoid of the last logit of the router.
    SharedExpert,
    /// The feed-forward result of each expert of each row.
    Experts,
    /// The mixer's result.
    Mixer {
        /// The norm of each group of it, with a row of weights each.
        norm: Option<HeadNormView<'m>>,
    },
    /// The feed-forward result times the layer inputs of a layer.
    LayerInput {
        /// The layer.
        layer: usize,
    },
}

/// A matrix that ends a branch.
///
/// [Example](crate::device#example).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ProjectView<'m> {
    /// It.
    pub matrix: MatrixView<'m>,
    /// Where its results go.
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
    /// What its result is multiplied by, and settled, unless it is 1.
    pub scale: f32,
}

/// A norm in the place of what is normed.
///
/// [Example](crate::device#example).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct RenormView<'m> {
    /// It.
    pub norm: Norm<'m>,
    /// Whether it is that of the branch, and not of the residual stream.
    pub of_branch: bool,
}

/// The scale of a layer.
///
/// [Example](crate::device#example).
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct ScaleView {
    /// What the residual stream is multiplied by, and settled; `None` where it stays as it is.
    pub factor: Option<f32>,
}

/// The inputs of all layers, of a matrix, x, and of a row of a table for the token, e. Of each layer they are
/// `(norm(x * of_matrix) + settle(e * of_table)) * of_sum`.
///
/// [Example](crate::device#example).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct LayerInputsView<'m> {
    /// `[vocab, layers * width]`.
    pub table: TensorView<'m>,
    /// The norm of a layer's part.
    pub norm: Norm<'m>,
    /// Elements of a layer's part.
    pub width: usize,
    /// What outputs of the matrix are multiplied by.
    pub of_matrix: f32,
    /// What elements of the table are multiplied by.
    pub of_table: f32,
    /// What sums are multiplied by.
    pub of_sum: f32,
}

/// `activation(gate) * up`, or `activation(up)`.
///
/// [Example](crate::device#example).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct GateUpView<'m> {
    /// The gate's matrix, if there is one.
    pub gate: Option<MatrixView<'m>>,
    /// The up matrix.
    pub up: MatrixView<'m>,
    /// The activation function.
    pub activation: Activation,
}

/// The logits.
///
/// [Example](crate::device#example).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct HeadView<'m> {
    /// `[vocab, hidden]`.
    pub matrix: MatrixView<'m>,
    /// Logits are multiplied by it, and settled, unless it is 1.
    pub scale: f32,
    /// Then logits l become `cap * tanh(l / cap)`; 0 for none.
    pub soft_cap: f32,
}
