//! What some layers have beside their branches: norms in place, scales, inputs of their own.

use bytemuck::{Zeroable, bytes_of, pod_read_unaligned};
use gleed::device::{LayerInputsView, MatrixView, RenormView, ScaleView};

use super::experts::WORKGROUPS;
use super::{Lowering, refused};
use crate::catalog::Kernel;
use crate::error::GpuError;
use crate::params::{Branch, Embed, IN_PLACE, Input, Linear, adds, mode};
use crate::place::{Activations, Place, Shaped};

impl<'m> Lowering<'m> {
    /// Norms the residual stream or the branch, in its place.
    pub(super) fn renorm(&mut self, view: &RenormView<'m>) -> Result<(), GpuError> {
        if !view.of_branch {
            self.add_branch_of_others();
            self.norm_in_place(&view.norm);
            return Ok(());
        }
        let weight = self.rms_weight(&view.norm, "LayerNorm of a branch in its place")?;
        self.merge(0, view.norm.epsilon, |branch| Branch {
            adds: branch.adds | adds::NORMS_BRANCH,
            renorm_weight: weight,
            ..branch
        })
    }

    /// Multiplies the residual stream by a number.
    pub(super) fn scale(&mut self, view: &ScaleView) -> Result<(), GpuError> {
        let Some(scale) = view.factor else { return Ok(()) };
        self.merge(!adds::SCALES, 0.0, |branch| Branch { adds: branch.adds | adds::SCALES, scale, ..branch })
    }

    /// Emits the matrix whose outputs are the inputs of all layers. They lie behind all activations, because
    /// activations are multiplied by them.
    pub(super) fn project_layer_inputs(&mut self, matrix: &MatrixView<'m>) -> Result<(), GpuError> {
        let (all, one) = (self.largest.layer_inputs, self.largest.layer_input);
        self.widen(Place::FeedForward, self.largest.width(Activations::FeedForward) + all + one);
        let how = Linear { mode: mode::SET, factor: self.largest.of_matrix.to_bits(), ..Linear::zeroed() };
        self.matrix(matrix, Place::FeedForward, all, self.layer_inputs_at(), how)
    }

    /// Norms the inputs of layers, each by itself, and adds the embedding.
    pub(super) fn add_layer_inputs(&mut self, view: &LayerInputsView<'m>) -> Result<(), GpuError> {
        let (at, width) = (self.layer_inputs_at(), view.width);
        let parts = self.largest.layer_inputs.checked_div(width).unwrap_or(0);
        if self.layout.rows * parts > WORKGROUPS {
            return refused("batches with more than 65,535 inputs of layers");
        }
        let norm = self.normed(&view.norm);
        let first_row = at.checked_div(width).unwrap_or(0) as u32;
        let params = Input { n: width as u32, form: IN_PLACE, flag: self.flag, first_row, ..norm };
        let [attention, feed_forward] = [Activations::Attention, Activations::FeedForward].map(Place::Largest);
        // The kernel writes to the first buffer only.
        let buffers =
            [Place::FeedForward, Place::Branch, Place::Vectors, Place::Batch, Place::Flags, attention, feed_forward];
        self.emit(Kernel::Input, &params, &buffers, Shaped::ByParts(parts));
        let (factor, of_sum, y_at) = (view.of_table.to_bits(), view.of_sum, at as u32);
        self.embed_rows(view.table, Place::FeedForward, Embed { adds: 2, factor, of_sum, y_at, ..Embed::zeroed() })
    }

    /// Lets the last activation function multiply its results by the input of a layer.
    pub(super) fn times_layer_input(&mut self, layer: usize) -> Result<(), GpuError> {
        let times = (self.layer_inputs_at() + layer * self.largest.layer_input) as u32;
        let (step, times_stride) = (self.activation_step, self.largest.layer_inputs as u32);
        for dispatch in self.dispatches.iter_mut().filter(|dispatch| dispatch.step == step) {
            let (Shaped::Matrix(_), Some(slot)) = (&dispatch.shaped, dispatch.params.get_mut(..size_of::<Linear>()))
            else {
                continue;
            };
            let params = Linear { times, times_stride, ..pod_read_unaligned(slot) };
            slot.copy_from_slice(bytes_of(&params));
            dispatch.shaped = Shaped::Matrix(params);
        }
        Ok(())
    }

    /// Returns the index at which the inputs of all layers begin behind the activations: a multiple of the elements of
    /// one.
    fn layer_inputs_at(&self) -> usize {
        let activations = self.layout.rows * self.largest.width(Activations::FeedForward);
        activations.next_multiple_of(self.largest.layer_input.max(1))
    }
}
