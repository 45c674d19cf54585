//! The gate and up matrices of the feed-forward layer, and its activation function.

use super::{Batch, Buffers, Context, Grid, Input, Memory, Operation, Viewed, Work};
use crate::device::{GateUpView, OpView};
use crate::error::Fault;
use crate::kernels::Combine;
use crate::nn::Linear;
use crate::weights::{Config, Gate, Role};

/// `activation(gate) * up`, or `activation(up)`, of every row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GateUp {
    /// The gate and up matrices. A fused matrix, and a matrix without a gate, is the second one.
    pub(crate) matrices: [Role; 2],
    pub(crate) from: Input,
    /// Input that the result becomes.
    pub(crate) to: Input,
}

impl GateUp {
    /// Gate and up matrices of the feed-forward layer.
    pub(crate) const DENSE: Self = Self { matrices: [Role::Gate, Role::Up], from: Input::FeedForward, to: Input::Down };
    /// Gate and up matrices of the shared expert.
    #[cfg(feature = "experts")]
    pub(crate) const SHARED: Self =
        Self { matrices: [Role::GateShared, Role::UpShared], from: Input::FeedForward, to: Input::SharedDown };
    /// Gate of a layer's input of each token, without an up matrix.
    #[cfg(feature = "layer-inputs")]
    pub(crate) const LAYER_INPUT: Self =
        Self { matrices: [Role::LayerInputGate; 2], from: Input::PerLayer, to: Input::PerLayerOut };

    fn gate(&self, config: &Config) -> Gate {
        match self.to {
            Input::Down => config.feed_forward.gate,
            Input::PerLayerOut => Gate::None,
            _ if config.feed_forward.gate == Gate::None => Gate::None,
            _ => Gate::Separate,
        }
    }

    /// Returns the gate matrix, if there is one, and the up matrix. `linear` returns the matrix of a role. Each of the
    /// two has `width` rows.
    fn linears<'w>(
        &self,
        config: &Config,
        width: usize,
        linear: &dyn Fn(Role) -> Option<Linear<'w>>,
    ) -> Option<(Option<Linear<'w>>, Linear<'w>)> {
        let [gate, up] = self.matrices;
        let up = linear(up)?;
        match self.gate(config) {
            Gate::None => Some((None, up)),
            Gate::Separate => Some((linear(gate), up)),
            Gate::Fused => Some((up.slice(0, width), up.slice(width, width)?)),
        }
    }
}

impl Operation for GateUp {
    fn name(&self) -> &'static str {
        match self.to {
            Input::Down => "gate and up",
            Input::PerLayerOut => "gate of the layer's input",
            _ => "shared gate and up",
        }
    }

    fn tensors(&self) -> &[Role] {
        &self.matrices
    }

    fn grid(&self, context: &Context<'_, '_>, layer: usize, rows: usize, _: Batch<'_>) -> Grid {
        let width = self.to.width(&context.config, &context.config.layer(layer));
        Grid::linear(rows, width, 2 * context.config.hidden)
    }

    fn run(&self, context: &Context<'_, '_>, memory: Memory<'_, '_>, work: Work<'_>) -> Result<usize, Fault> {
        let width = self.to.width(&context.config, &context.config.layer(work.layer));
        let activation = context.activation(work.layer);
        let deltas = context.deltas(work.layer, self.from);
        let linear = |role| deltas.add_to(context.weights.linear(work.layer, role), role);
        let (gate, up) = self.linears(&context.config, width, &linear).ok_or(Fault::Internal(site!()))?;
        let how = gate.map_or(Combine::Activate(activation), |_| Combine::Gate(activation));
        let Buffers { input, ffn, scratch, .. } = memory.buffers;
        let inputs = context.input_rows((work.layer, self.from), input, work.workers(scratch));
        work.each_tile(ffn, scratch, &|tile, scratch| {
            let from = (&inputs, tile.rows().start);
            if let Some(gate) = gate {
                gate.run(context.level, from, 0, tile, Combine::Set, scratch).ok_or(Fault::Internal(site!()))?;
            }
            up.run(context.level, from, 0, tile, how, scratch).ok_or(Fault::Internal(site!()))
        })
    }
}

impl Viewed for GateUp {
    fn view<'m>(&self, context: &Context<'m, '_>, layer: usize) -> Option<OpView<'m>> {
        let width = self.to.width(&context.config, &context.config.layer(layer));
        let (gate, up) = self.linears(&context.config, width, &|role| context.weights.linear(layer, role))?;
        let activation = context.viewed_activation(layer)?;
        Some(OpView::GateUp(GateUpView { gate: gate.map(Into::into), up: up.into(), activation }))
    }
}
