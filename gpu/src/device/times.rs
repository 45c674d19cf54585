//! How long the dispatches of a batch take.

use std::time::Duration;

use super::GpuDevice;
use crate::catalog::Kernel;
use crate::error::GpuError;
use crate::params::Linear;
use crate::place::Shaped;

/// A dispatch, and how long it took on the device.
#[derive(Clone, Copy, Debug)]
pub struct KernelTime {
    /// The kernel that ran.
    pub kernel: Kernel,
    /// Outputs and columns of the matrix that the kernel read, or zeros if it reads no matrix.
    pub matrix: [u32; 2],
    /// Bytes of that matrix.
    pub bytes: u64,
    /// Time that the dispatch took.
    pub time: Duration,
}

impl GpuDevice<'_, '_> {
    /// Runs the dispatches of the last batch once more, and returns how long each took. The results are the same as
    /// before, except that states of recurrent layers change if the device chose several tokens in that batch.
    ///
    /// # Errors
    /// [`GpuError::Unsupported`] where the device does not take times; [`GpuError::Timeout`], [`GpuError::Lost`].
    pub fn times(&self) -> Result<Vec<KernelTime>, GpuError> {
        let chunks = self.chunks(self.counts[0], self.last);
        let runs = self.runs.iter().filter(|run| self.counts[run.rows] > 0);
        let (mut bound, mut dispatches) = (Vec::new(), Vec::new());
        for run in runs {
            let rows = self.counts[run.rows];
            let Some(dispatch) = run.of(rows, chunks, self.sequences, self.is_wide) else { continue };
            bound.push((run.chosen(rows, self.is_wide).0, run.shaped));
            dispatches.push(dispatch);
        }
        let times = self.gpu.hardware().timed(dispatches)?;
        Ok(bound.into_iter().zip(times).map(|((kernel, shaped), time)| KernelTime::new(kernel, shaped, time)).collect())
    }
}

impl KernelTime {
    fn new(kernel: Kernel, shaped: Shaped, time: Duration) -> Self {
        let (matrix, bytes) = match shaped {
            Shaped::Matrix(params) | Shaped::Experts(params) => {
                let outputs = outputs(&params);
                ([outputs, params.cols], u64::from(outputs) * u64::from(params.row_bytes))
            }
            _ => ([0; 2], 0),
        };
        Self { kernel, matrix, bytes, time }
    }
}

/// Returns the number of rows of weights with which each row of a batch is multiplied.
fn outputs(params: &Linear) -> u32 {
    let used = params.experts.used.max(1);
    let all: u32 = params.segments.iter().map(|segment| segment.outputs).sum();
    all * used
}
