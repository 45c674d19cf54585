//! Recurrent layers.

use bytemuck::Zeroable;
use gleed::device::{ConvolutionView, MixerInputView};

use super::{Lowering, refused};
use crate::catalog::Kernel;
use crate::error::GpuError;
use crate::grid::CHANNELS;
use crate::params::{BATCH_HEAD, BATCH_ROW, Convolve, NONE};
use crate::place::{Activations, Place, Shaped};

/// The most rows that a convolution sees.
const MOST_ROWS: usize = 9;

impl<'m> Lowering<'m> {
    pub(super) fn mixer_input(&mut self, view: &MixerInputView<'m>) -> Result<(), GpuError> {
        self.mix_width = view.width;
        self.widen(Place::Mix, view.width);
        let parts: Vec<_> = view.parts.iter().flatten().copied().collect();
        self.side_by_side(&parts, Place::Mix, view.width)
    }

    /// The convolution between two gates. Its results are activations, as those of attention are.
    pub(super) fn gated_convolution(&mut self, view: &ConvolutionView<'m>) -> Result<(), GpuError> {
        let channels = view.weights.rows();
        self.widen(Place::Attention, channels);
        let out = Activations::Attention;
        let params = Convolve {
            gated: 1,
            out_stride: channels as u32,
            largest: self.largest.words(out) as u32,
            ..self.convolution(view)?
        };
        let buffers =
            [Place::Batch, Place::Mix, Place::Tails, Place::Vectors, out.place(), Place::Largest(out), Place::Flags];
        self.emit(Kernel::Convolve, &params, &buffers, Shaped::ByRun(channels.div_ceil(CHANNELS)));
        self.attention_waits = true;
        Ok(())
    }

    fn convolution(&mut self, view: &ConvolutionView<'m>) -> Result<Convolve, GpuError> {
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

/// Where a batch of at most so many rows has their order by sequences and positions, and the runs of sequences.
pub(crate) fn runs_at(rows: usize) -> [u32; 2] {
    let order = BATCH_HEAD + BATCH_ROW * rows;
    [order as u32, (order + rows) as u32]
}
