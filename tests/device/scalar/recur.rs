//! Recurrent layers: states that are read from one slot and written to another.

use gleed::device::{ConvolutionView, StateLayout};
use gleed::num::settle;

use super::ScalarDevice;
use crate::math::float;

impl ScalarDevice<'_> {
    /// Where a slot begins.
    pub(super) fn state(&self, slot: u32) -> usize {
        slot as usize * self.layout().elements()
    }

    fn layout(&self) -> StateLayout {
        self.state_layout.expect("a model with recurrent layers")
    }

    /// The values of some elements of a state before a row, and where they lie after it.
    fn state_before(&self, index: usize, elements: &[usize]) -> (Vec<f32>, Vec<usize>) {
        let row = self.rows[index];
        let slots = self.state_slots[&row.slot()];
        let is_first = self.rows.iter().all(|other| other.slot() != row.slot() || other.position >= row.position);
        let from = if is_first { slots.from } else { slots.to };
        let before = |&element: &usize| if from == u32::MAX { 0.0 } else { self.states[self.state(from) + element] };
        let after = elements.iter().map(|element| self.state(slots.to) + element).collect();
        (elements.iter().map(before).collect(), after)
    }

    /// `u` after the rows before it: what the convolution gives of a channel.
    fn convolve(&mut self, view: &ConvolutionView<'_>, index: usize, channel: usize, u: f32) -> f32 {
        let layout = self.layout();
        let places: Vec<_> = (0..layout.earlier).map(|row| layout.tail(view.layer, channel, row)).collect();
        let (mut rows, after) = self.state_before(index, &places);
        rows.push(settle(u));
        let weights = view.weights.row(channel).unwrap().chunks(4).map(|weight| settle(float(weight)));
        let mut sum = rows.iter().zip(weights).fold(0.0, |sum, (u, weight)| sum + weight * u);
        if let Some(bias) = view.bias.chunks(4).nth(channel) {
            sum += settle(float(bias));
        }
        for (place, u) in after.into_iter().zip(&rows[1..]) {
            self.states[place] = *u;
        }
        sum
    }

    pub(super) fn gated_convolution(&mut self, view: &ConvolutionView<'_>, index: usize) -> Option<()> {
        let channels = view.weights.rows();
        let mix = std::mem::take(&mut self.buffers[index].mix);
        let [b, c, x] = [0, 1, 2].map(|part| &mix[part * channels..(part + 1) * channels]);
        let gated = |channel| self.convolve(view, index, channel, b[channel] * x[channel]) * c[channel];
        let mixed: Vec<f32> = (0..channels).map(gated).collect();
        let finite = mixed.iter().all(|x| x.is_finite());
        self.buffers[index].mixed = mixed;
        finite.then_some(())
    }
}
