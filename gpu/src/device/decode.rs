//! Tokens that the device chooses itself.

use bytemuck::{bytes_of, cast_slice};
use gleed::device::{BatchView, Choosing};

use super::GpuDevice;
use crate::error::GpuError;
use crate::lower::runs_at;
use crate::params::Draw;
use crate::place::Place;

impl GpuDevice<'_, '_> {
    /// Computes rows of a sequence one after the other, each with the token that the row before it chose. The submits
    /// follow each other without the host. Each has as many rows as its dispatches allow. Returns whether the device
    /// can choose as `choosing` says.
    pub(super) fn decode_rows(
        &mut self,
        batch: &BatchView<'_>,
        choosing: &Choosing,
        rows: usize,
    ) -> Result<bool, GpuError> {
        let choice = match choosing {
            Choosing::Largest => 0,
            Choosing::Drawn(draws) => {
                let draw = Draw::new(draws, self.vocab);
                self.gpu.hardware.write(self.buffer(Place::Draws)?, 0, bytes_of(&draw))?;
                1
            }
            _ => return Ok(false),
        };
        self.set_batch(batch)?;
        self.counts = [1; 3];
        let position = batch.rows.first().map_or(0, |row| row.position);
        self.gpu.hardware.write(self.buffer(Place::Batch)?, 0, cast_slice(&[1, 1, 1, position, 0, rows as u32, 1]))?;
        // One row is computed at a time.
        self.sequences = 1;
        let runs = 4 * u64::from(runs_at(self.rows)[1]);
        self.gpu.hardware.write(self.buffer(Place::Batch)?, runs, cast_slice(&[0_u32, 1]))?;
        let one = |row: usize| {
            let chunks = self.chunks(1, position as usize + row);
            self.runs.iter().chain(&self.choices[choice..=choice]).filter_map(move |run| run.of(1, chunks, 1, false))
        };
        let most = (self.most_dispatches(1) / one(0).count().max(1)).max(1);
        let (mut encoding, mut submits) = (self.encoding, self.submits);
        for first in (0..rows).step_by(most) {
            let runs = (first..rows.min(first + most)).flat_map(one);
            let after = if first + most < rows { Vec::new() } else { self.results_of(Place::Chosen, rows)? };
            encoding += self.gpu.hardware.submit_with(self.taken_copies()?, runs, after)?;
            submits += 1;
        }
        (self.encoding, self.submits) = (encoding, submits);
        self.is_whole = true;
        self.results.ask(self.flag_bytes() + 4 * rows as u64);
        self.gpu.hardware.wait()?;
        Ok(true)
    }
}
