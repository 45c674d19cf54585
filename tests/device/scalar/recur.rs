//! Recurrent layers: states that are read from one slot and written to another.

use gleed::device::{ConvolutionView, HeadNormView, StateLayout, UpdateRule, UpdateView};
use gleed::kernels::Update;
use gleed::num::{exp, settle, sigmoid, silu, softplus};

use super::ScalarDevice;
use crate::math::{LEVEL, float};

impl ScalarDevice<'_> {
    /// Returns the index at which a slot begins.
    pub(super) fn state(&self, slot: u32) -> usize {
        slot as usize * self.layout().elements()
    }

    fn layout(&self) -> StateLayout {
        self.state_layout.expect("a model with recurrent layers")
    }

    /// Returns the values of some elements of a state before a row, and the indices at which their new values belong.
    fn state_before(&self, index: usize, elements: &[usize]) -> (Vec<f32>, Vec<usize>) {
        let row = self.rows[index];
        let slots = self.state_slots[&row.slot()];
        let is_first = self.rows.iter().all(|other| other.slot() != row.slot() || other.position >= row.position);
        let from = if is_first { slots.from } else { slots.to };
        let before = |&element: &usize| if from == u32::MAX { 0.0 } else { self.states[self.state(from) + element] };
        let after = elements.iter().map(|element| self.state(slots.to) + element).collect();
        (elements.iter().map(before).collect(), after)
    }

    /// Convolves `u` of a channel with the rows before it, and stores the rows that later rows need.
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

    pub(super) fn convolution(&mut self, view: &ConvolutionView<'_>, index: usize) -> Option<()> {
        let mut mix = std::mem::take(&mut self.buffers[index].mix);
        for (channel, x) in mix.iter_mut().enumerate().take(view.weights.rows()) {
            *x = silu(self.convolve(view, index, channel, *x));
        }
        let finite = mix.iter().take(view.weights.rows()).all(|x| x.is_finite());
        self.buffers[index].mix = mix;
        finite.then_some(())
    }

    pub(super) fn update(&mut self, view: &UpdateView<'_>, index: usize) -> Option<()> {
        let mix = std::mem::take(&mut self.buffers[index].mix);
        let mixed: Vec<f32> = (0..view.heads).flat_map(|head| self.update_head(view, index, head, &mix)).collect();
        let finite = mixed.iter().all(|x| x.is_finite());
        self.buffers[index].mixed = mixed;
        finite.then_some(())
    }

    fn update_head(&mut self, view: &UpdateView<'_>, index: usize, head: usize, mix: &[f32]) -> Vec<f32> {
        let of = |numbers: &[u8]| settle(float(&numbers[4 * head..4 * head + 4]));
        let (columns, key_at) = (view.columns, view.group(head) * view.key_dim);
        let part = |at: usize, len: usize| &mix[at..at + len];
        let settled = |x: &[f32]| x.iter().map(|&x| settle(x)).collect::<Vec<_>>();
        let [mut key, mut query] = [columns.key, columns.query].map(|at| settled(part(at + key_at, view.key_dim)));
        let value = part(columns.value + head * view.value_dim, view.value_dim);
        let step = softplus(mix[columns.step + head] + of(view.bias));
        let (decay, strength) = match view.rule {
            UpdateRule::Delta { query_scale, .. } => {
                for (x, scale) in [(&mut key, 1.0), (&mut query, query_scale)] {
                    let raw = x.clone();
                    LEVEL.normalize(&raw, scale, x);
                }
                (of(view.decay) * step, settle(sigmoid(mix[columns.step + view.heads + head])))
            }
            _ => (step * of(view.decay), step),
        };
        let corrects = matches!(view.rule, UpdateRule::Delta { .. });
        let decay = settle(exp(decay));
        let update = Update { decay, key: &key, query: &query, value: &settled(value), strength, corrects };
        let first = self.layout().matrix(view.layer, head);
        let places: Vec<_> = (first..first + self.layout().matrix).collect();
        let (mut state, after) = self.state_before(index, &places);
        let mut out = vec![0.0; view.value_dim];
        LEVEL.update_state(&update, &mut state, &mut out).unwrap();
        self.states[after[0]..][..state.len()].copy_from_slice(&state);
        match view.rule {
            UpdateRule::Delta { norm, .. } => LEVEL.norm_in_place(&norm, &mut out),
            UpdateRule::Space { skip } => {
                out.iter_mut().zip(value).for_each(|(out, &x)| *out += settle(x * of(skip)));
            }
            _ => unreachable!(),
        }
        let gates = part(columns.gate + head * view.value_dim, view.value_dim);
        out.iter_mut().zip(gates).for_each(|(x, &gate)| *x *= silu(gate));
        out
    }
}

/// Norms each group of a mixer's result.
pub(super) fn norm_groups(norm: Option<HeadNormView<'_>>, mixed: &[f32]) -> Vec<f32> {
    let Some(norms) = norm else { return mixed.to_vec() };
    let mut out = mixed.to_vec();
    for (group, part) in out.chunks_mut(norms.weights.cols()).enumerate() {
        LEVEL.norm_in_place(&norms.of_head(group).unwrap(), part);
    }
    out
}
