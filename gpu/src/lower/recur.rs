//! Recurrent layers.

use bytemuck::Zeroable;
use gleed::device::{ConvolutionView, HeadNormView, MixerInputView, UpdateRule, UpdateView};
use gleed::kernels::NormKind;

use super::{Lowering, refused};
use crate::catalog::Kernel;
use crate::error::GpuError;
use crate::grid::CHANNELS;
use crate::params::{BATCH_HEAD, BATCH_ROW, Convolve, GroupNorm, Linear, NONE, Update};
use crate::place::{Activations, Place, Shaped};

/// The buffer of a recurrent layer's results. Attention beside it has its own buffer, and the feed-forward layer comes
/// later.
pub(super) const MIXED: Activations = Activations::FeedForward;
/// Largest number of rows that a convolution sees.
const MOST_ROWS: usize = 9;
/// Largest number of elements of a key or of a value.
const MOST_ELEMENTS: usize = 256;

impl<'m> Lowering<'m> {
    pub(super) fn mixer_input(&mut self, view: &MixerInputView<'m>) -> Result<(), GpuError> {
        self.mix_width = view.width;
        self.widen(Place::Mix, view.width);
        let parts: Vec<_> = view.parts.iter().flatten().copied().collect();
        self.side_by_side(&parts, (Place::Mix, view.width), Linear::zeroed())
    }

    /// Emits the convolution between two gates. Its results are activations.
    pub(super) fn gated_convolution(&mut self, view: &ConvolutionView<'m>) -> Result<(), GpuError> {
        let channels = view.weights.rows();
        let out = MIXED;
        self.widen(out.place(), channels);
        let params = Convolve {
            gated: 1,
            out_stride: channels as u32,
            largest: self.largest.words(out) as u32,
            ..self.convolve(view)?
        };
        let buffers =
            [Place::Batch, Place::Mix, Place::Tails, Place::Vectors, out.place(), Place::Largest(out), Place::Flags];
        self.emit(Kernel::Convolve, &params, &buffers, Shaped::ByRun(channels.div_ceil(CHANNELS)));
        Ok(())
    }

    /// Emits the convolution of the mixer's input, in its place.
    pub(super) fn convolution(&mut self, view: &ConvolutionView<'m>) -> Result<(), GpuError> {
        let params = self.convolve(view)?;
        let (groups, unused) = (view.weights.rows().div_ceil(CHANNELS), MIXED);
        self.widen(unused.place(), 0);
        let buffers = [
            Place::Batch,
            Place::Mix,
            Place::Tails,
            Place::Vectors,
            unused.place(),
            Place::Largest(unused),
            Place::Flags,
        ];
        self.emit(Kernel::Convolve, &params, &buffers, Shaped::ByRun(groups));
        Ok(())
    }

    /// Emits the update of the matrices of a layer's heads. The results are activations, which can still be normed.
    pub(super) fn update(&mut self, view: &UpdateView<'m>) -> Result<(), GpuError> {
        if view.key_dim.max(view.value_dim) > MOST_ELEMENTS {
            return refused("heads of recurrent layers with more than 256 elements");
        }
        let (out, width) = (MIXED, view.heads * view.value_dim);
        self.widen(out.place(), width);
        let (delta, vector, epsilon, scale, shared) = match view.rule {
            UpdateRule::Delta { query_scale, norm } if norm.kind == NormKind::Rms && norm.bias.is_empty() => {
                (1, norm.weight, norm.epsilon, query_scale, 0)
            }
            UpdateRule::Space { skip } => (0, skip, 0.0, 1.0, view.heads.checked_div(view.groups).unwrap_or(0).max(1)),
            _ => return refused("another rule of recurrent layers"),
        };
        let ([order, runs], columns) = (runs_at(self.layout.rows), view.columns);
        let params = Update {
            zero: 0,
            heads: view.heads as u32,
            groups: view.groups as u32,
            shared: shared as u32,
            key_dim: view.key_dim as u32,
            value_dim: view.value_dim as u32,
            mix_stride: self.mix_width as u32,
            query: columns.query as u32,
            key: columns.key as u32,
            value: columns.value as u32,
            gate: columns.gate as u32,
            step: columns.step as u32,
            delta,
            epsilon,
            query_scale: scale,
            decay: self.vectors.add(view.decay).unwrap_or(NONE),
            bias: self.vectors.add(view.bias).unwrap_or(NONE),
            vector: self.vectors.add(vector).unwrap_or(NONE),
            out_stride: width as u32,
            largest: self.largest.words(out) as u32,
            order,
            runs,
            flag: self.flag,
            unused: 0,
        };
        let matrices = Place::Matrices(view.layer);
        let buffers =
            [Place::Batch, Place::Mix, matrices, Place::Vectors, out.place(), Place::Largest(out), Place::Flags];
        self.emit(Kernel::Update, &params, &buffers, Shaped::ByRun(view.heads));
        Ok(())
    }

    /// Emits the norm of each group of the update's results, in its place.
    pub(super) fn norm_groups(&mut self, norm: &HeadNormView<'m>) -> Result<(), GpuError> {
        if norm.norm.kind != NormKind::Rms || !norm.norm.bias.is_empty() || norm.whole_row {
            return refused("another norm of recurrent layers");
        }
        let (out, groups, width) = (MIXED, norm.weights.rows(), norm.weights.cols());
        // The norm notes the largest magnitudes, so the update must not.
        self.patch(Kernel::Update, "a norm without an update", |update| Update { largest: NONE, ..update })?;
        let params = GroupNorm {
            zero: 0,
            width: width as u32,
            stride: (groups * width) as u32,
            weight: self.vectors.add(norm.weights.bytes()).unwrap_or(NONE),
            epsilon: norm.norm.epsilon,
            largest: self.largest.words(out) as u32,
            unused: [0; 2],
        };
        let buffers = [out.place(), Place::Vectors, Place::Largest(out)];
        self.emit(Kernel::GroupNorm, &params, &buffers, Shaped::ByHead(groups));
        Ok(())
    }

    fn convolve(&mut self, view: &ConvolutionView<'m>) -> Result<Convolve, GpuError> {
        let (channels, kernel) = (view.weights.rows(), view.weights.cols());
        if kernel > MOST_ROWS {
            return refused("a convolution over more than 9 rows");
        }
        let states = self.states.ok_or(GpuError::Mismatch("states"))?;
        let [order, runs] = runs_at(self.layout.rows);
        Ok(Convolve {
            channels: channels as u32,
            kernel: kernel as u32,
            weights: self.vectors.add(view.weights.bytes()).unwrap_or(NONE),
            bias: self.vectors.add(view.bias).unwrap_or(NONE),
            flag: self.flag,
            mix_stride: self.mix_width as u32,
            order,
            runs,
            slot: states.tails() as u32,
            tail: (view.layer * channels * states.earlier) as u32,
            ..Convolve::zeroed()
        })
    }
}

/// Returns the words of a batch, of at most `rows` rows, at which the order of its rows by sequence and position
/// begins, and at which the runs of sequences begin.
pub(crate) fn runs_at(rows: usize) -> [u32; 2] {
    let order = BATCH_HEAD + BATCH_ROW * rows;
    [order as u32, (order + rows) as u32]
}
