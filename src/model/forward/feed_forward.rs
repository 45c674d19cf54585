//! The stages of the feed-forward layer, and of the choice among several.

use super::buffers::Buffers;
use super::work::Work;
use super::{Forward, row_of};
use crate::error::Fault;
use crate::kernels::Combine;
use crate::model::config::Gate;
use crate::model::weights::LayerTensor;
use crate::ops::{InputRows, Linear, choose_experts};

impl Forward<'_, '_> {
    pub(super) fn gate_up(&mut self, work: Work<'_>) -> Result<usize, Fault> {
        let (ffn, activation) = (self.config.ffn, self.config.feed_forward.activation);
        let deltas = self.adapters.deltas(work.cursor, self.buffers.input_words);
        let linear = |tensor| deltas.add_to(self.weights.linear(work.cursor.layer, tensor), tensor);
        let up = linear(LayerTensor::Up).ok_or(Fault::Internal)?;
        let (gate, up) = match self.config.feed_forward.gate {
            Gate::None => (None, Some(up)),
            Gate::Separate => (linear(LayerTensor::Gate), Some(up)),
            Gate::Fused => (up.slice(0, ffn), up.slice(ffn, ffn)),
        };
        let up = up.ok_or(Fault::Internal)?;
        let how = gate.map_or(Combine::Activate(activation), |_| Combine::Gate(activation));
        let Buffers { input, input_words, ffn, scratch, .. } = &mut self.buffers;
        let inputs = InputRows::new(input, *input_words, self.config.hidden, self.forms.ffn, work.workers(scratch));
        work.each_tile(ffn, scratch, &|tile, scratch| {
            let from = (&inputs, tile.rows().start);
            if let Some(gate) = gate {
                gate.run(self.level, from, 0, tile, Combine::Set, scratch).ok_or(Fault::Internal)?;
            }
            up.run(self.level, from, 0, tile, how, scratch).ok_or(Fault::Internal)
        })
    }

    /// The logits of experts.
    pub(super) fn route(&mut self, work: Work<'_>) -> Result<usize, Fault> {
        let weights = self.weights.layer(work.cursor.layer, LayerTensor::Router).ok_or(Fault::Internal)?;
        let router = Linear::plain(weights);
        let Buffers { input, input_words, router: logits, scratch, .. } = &mut self.buffers;
        let inputs = InputRows::new(input, *input_words, self.config.hidden, self.forms.ffn, work.workers(scratch));
        work.each_tile(logits, scratch, &|tile, scratch| {
            let from = (&inputs, tile.rows().start);
            router.run(self.level, from, 0, tile, Combine::Set, scratch).ok_or(Fault::Internal)
        })
    }

    pub(super) fn choose(&mut self, work: Work<'_>) -> Result<usize, Fault> {
        let experts = self.config.feed_forward.experts;
        let Buffers { router, choices, scratch, .. } = &mut self.buffers;
        work.each_row(choices, scratch, &|index, out, _| {
            let logits = row_of(router, index, experts).ok_or(Fault::Internal)?;
            choose_experts(logits, out).ok_or(Fault::NonFinite)
        })
    }

    /// Every row is the input of as many rows of the result as it has experts.
    pub(super) fn expert_gate_up(&mut self, work: Work<'_>) -> Result<usize, Fault> {
        let (layer, width, level) = (work.cursor.layer, self.config.ffn, self.level);
        let (used, activation) = (self.config.feed_forward.experts_used, self.config.feed_forward.activation);
        let Buffers { input, input_words, ffn, choices, scratch, .. } = &mut self.buffers;
        let inputs = InputRows::new(input, *input_words, self.config.hidden, self.forms.ffn, work.workers(scratch));
        work.each_tile(ffn, scratch, &|tile, scratch| {
            let row = tile.rows().start;
            let from = (&inputs, row.checked_div(used).ok_or(Fault::Internal)?);
            let choice = choices.get(row).ok_or(Fault::Internal)?;
            let expert = |tensor| self.weights.expert(layer, tensor, choice.expert, width).ok_or(Fault::Internal);
            let (gate, up) = (expert(LayerTensor::GateExperts)?, expert(LayerTensor::UpExperts)?);
            gate.run(level, from, 0, tile, Combine::Set, scratch).ok_or(Fault::Internal)?;
            up.run(level, from, 0, tile, Combine::Gate(activation), scratch).ok_or(Fault::Internal)
        })
    }

    /// The sum of the experts' results, in the order in which they were chosen.
    pub(super) fn expert_down(&mut self, work: Work<'_>) -> Result<usize, Fault> {
        let (layer, hidden, level) = (work.cursor.layer, self.config.hidden, self.level);
        let used = self.config.feed_forward.experts_used;
        let norm_after = self.program.norm_after;
        let scale = if norm_after { 1.0 } else { self.config.residual.scale };
        let Buffers { x, branch, input, input_words, choices, scratch, .. } = &mut self.buffers;
        let inputs = InputRows::new(input, *input_words, self.config.ffn, self.forms.down, work.workers(scratch));
        let out = if norm_after { branch } else { x };
        work.each_tile(out, scratch, &|tile, scratch| {
            let row = tile.rows().start;
            if norm_after {
                tile.row_mut(row).ok_or(Fault::Internal)?.fill(0.0);
            }
            for index in row * used..(row + 1) * used {
                let choice = choices.get(index).ok_or(Fault::Internal)?;
                let down = self.weights.expert(layer, LayerTensor::DownExperts, choice.expert, hidden);
                let how = Combine::AddScaled(choice.weight * scale);
                down.ok_or(Fault::Internal)?
                    .run(level, (&inputs, index), 0, tile, how, scratch)
                    .ok_or(Fault::Internal)?;
            }
            Ok(())
        })
    }
}
