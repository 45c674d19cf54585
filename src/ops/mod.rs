//! The operations of programs, one file each: what an operation reads and writes, the number and shape of its units,
//! and its work.
//!
//! An operation is a small value. It names tensors by their roles and buffers by their contents, never a model. To add
//! an operation, write its file, and add its row to the table at the end of this file.

mod adapters;
mod add_normed;
#[cfg(feature = "encoder")]
mod add_sum_normed;
mod angles;
mod attend;
mod batch;
mod buffers;
mod context;
#[cfg(feature = "recurrent")]
mod convolve;
#[cfg(feature = "recurrent")]
mod delta_rule;
mod embed;
#[cfg(feature = "experts")]
mod experts;
mod gate_up;
mod grid;
#[cfg(feature = "experts")]
mod groups;
mod head;
mod input;
#[cfg(feature = "recurrent")]
mod mixer_input;
mod norm;
mod norm_rotate;
mod operation;
mod partials;
#[cfg(feature = "layer-inputs")]
mod per_layer;
mod pool;
#[cfg(feature = "predictor")]
mod predict;
mod project;
mod qkv;
mod quantize;
#[cfg(feature = "recurrent")]
mod recur;
#[cfg(any(feature = "encoder", feature = "layer-inputs"))]
mod renorm;
#[cfg(feature = "layer-inputs")]
mod scale;
#[cfg(feature = "recurrent")]
mod scan;
mod slopes;
mod store;
mod work;

pub(crate) use adapters::MAX_ADAPTERS;
pub(crate) use add_normed::AddNormed;
#[cfg(feature = "encoder")]
pub(crate) use add_sum_normed::AddSumNormed;
pub(crate) use angles::Angles;
pub(crate) use attend::Attend;
pub(crate) use batch::{Batch, Capacity, Row, Run};
pub(crate) use buffers::Buffers;
pub(crate) use context::Context;
#[cfg(feature = "recurrent")]
pub(crate) use convolve::{Convolve, ShortConvolution};
#[cfg(feature = "recurrent")]
pub(crate) use delta_rule::DeltaRule;
pub(crate) use embed::Embed;
#[cfg(feature = "experts")]
pub(crate) use experts::{AddExperts, ChooseExperts, ExpertDown, ExpertGateUp, Gather, GroupRows, Route};
pub(crate) use gate_up::GateUp;
pub(crate) use grid::Grid;
pub(crate) use head::Head;
pub(crate) use input::{Forms, Input};
#[cfg(feature = "recurrent")]
pub(crate) use mixer_input::MixerInput;
pub(crate) use norm::Norm;
pub(crate) use norm_rotate::NormRotate;
pub(crate) use operation::{Memory, Operation, Target, Viewed};
#[cfg(feature = "layer-inputs")]
pub(crate) use per_layer::{AddPerLayer, ProjectPerLayer};
pub(crate) use pool::Pooled;
#[cfg(feature = "predictor")]
pub(crate) use predict::{Join, ProjectJoined};
pub(crate) use project::Project;
pub(crate) use qkv::Qkv;
pub(crate) use quantize::{Quantize, Source};
#[cfg(any(feature = "encoder", feature = "layer-inputs"))]
pub(crate) use renorm::Renorm;
#[cfg(feature = "layer-inputs")]
pub(crate) use scale::Scale;
#[cfg(feature = "recurrent")]
pub(crate) use scan::Scan;
pub(crate) use store::Store;
pub(crate) use work::Work;

use crate::device::OpView;

impl Op {
    /// Returns whether the operation reads a branch, which an earlier operation has written.
    pub(crate) fn reads_branch(&self) -> bool {
        match self {
            Self::AddNormed(_) => true,
            #[cfg(feature = "encoder")]
            Self::AddSumNormed(_) => true,
            _ => false,
        }
    }
}

/// Makes the enum [`Op`] of all operations.
macro_rules! operations {
    ($($(#[cfg($($condition:tt)*)])? #[doc = $doc:literal] $name:ident)*) => {
        /// An operation as a value. Some operations have parameters.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Op {
            $($(#[cfg($($condition)*)])? #[doc = $doc] $name($name),)*
        }

        impl Op {
            /// Returns the operation.
            pub(crate) fn operation(&self) -> &dyn Operation {
                match self {
                    $($(#[cfg($($condition)*)])? Self::$name(operation) => operation,)*
                }
            }

            /// Returns the view of the operation in a layer, for a device.
            pub(crate) fn view<'m>(&self, context: &Context<'m, '_>, layer: usize) -> OpView<'m> {
                let view = match self {
                    $($(#[cfg($($condition)*)])? Self::$name(operation) => operation.view(context, layer),)*
                };
                view.unwrap_or(OpView::Other(self.operation().name()))
            }
        }
    };
}

operations! {
    /// Rows of the embedding for the tokens, to the residual stream.
    Embed
    /// Cosines and sines of the positions.
    Angles
    /// The norm of the residual stream, quantized for the matrices that read it.
    Norm
    /// Other activations, quantized for the matrices that read them.
    Quantize
    /// The matrices of queries, keys and values.
    Qkv
    /// Norms and rotation of the heads of queries and keys.
    NormRotate
    /// Keys and values into the cache.
    Store
    /// Attention over the cache.
    Attend
    /// A matrix that ends a branch.
    Project
    /// The norm of a branch, added to the residual stream.
    AddNormed
    #[cfg(feature = "encoder")]
    /// The norm of the sum of the residual stream and a branch, added to the residual stream.
    AddSumNormed
    #[cfg(any(feature = "encoder", feature = "layer-inputs"))]
    /// The norm of the residual stream or of a branch, in place.
    Renorm
    #[cfg(feature = "layer-inputs")]
    /// The residual stream multiplied by a number of the layer.
    Scale
    #[cfg(feature = "layer-inputs")]
    /// A projection of the embedding for all layers.
    ProjectPerLayer
    #[cfg(feature = "layer-inputs")]
    /// The inputs that all layers get of each token: the embedding is added to the projection.
    AddPerLayer
    /// The gate and up matrices and the activation function.
    GateUp
    #[cfg(feature = "experts")]
    /// The logits of the experts.
    Route
    #[cfg(feature = "experts")]
    /// The choice of the experts that each row goes through.
    ChooseExperts
    #[cfg(feature = "experts")]
    /// The order of rows by their experts.
    GroupRows
    #[cfg(feature = "experts")]
    /// The inputs of the experts.
    Gather
    #[cfg(feature = "experts")]
    /// Gate, up and activation of the chosen experts.
    ExpertGateUp
    #[cfg(feature = "experts")]
    /// The down matrices of the chosen experts.
    ExpertDown
    #[cfg(feature = "experts")]
    /// The sum of the results of the chosen experts.
    AddExperts
    #[cfg(feature = "predictor")]
    /// The norms of tokens and of given hidden states, side by side.
    Join
    #[cfg(feature = "predictor")]
    /// The matrix that makes the residual stream of the joined norms.
    ProjectJoined
    #[cfg(feature = "recurrent")]
    /// The input matrices of a recurrent layer.
    MixerInput
    #[cfg(feature = "recurrent")]
    /// A causal convolution.
    Convolve
    #[cfg(feature = "recurrent")]
    /// A causal convolution between two gates.
    ShortConvolution
    #[cfg(feature = "recurrent")]
    /// The gated delta rule.
    DeltaRule
    #[cfg(feature = "recurrent")]
    /// The scan of a state space.
    Scan
    /// The logits.
    Head
}
