//! States of recurrent layers: which ones a batch reads and writes, and their elements.

use std::sync::PoisonError;

use bytemuck::{cast_slice, cast_slice_mut};
use gleed::device::{BatchView, StateLayout, StatePart};

use super::GpuDevice;
use crate::error::GpuError;
use crate::lower::runs_at;
use crate::place::Place;
use crate::plan::parts_of_state;

impl GpuDevice<'_, '_> {
    /// Writes the order of the rows by sequence and position, and a run for each sequence with the slots of its states.
    pub(super) fn write_runs(&mut self, batch: &BatchView<'_>) -> Result<(), GpuError> {
        if self.states.is_none() {
            return Ok(());
        }
        let of = |row: u32| &batch.rows[row as usize];
        let mut order: Vec<u32> = (0..batch.rows.len() as u32).collect();
        order.sort_unstable_by_key(|&row| (of(row).slot(), of(row).position));
        let mut runs: Vec<[u32; 4]> = Vec::new();
        for rows in order.chunk_by(|&a, &b| of(a).slot() == of(b).slot()) {
            let first = runs.last().map_or(0, |[first, count, ..]| first + count);
            let state = batch.state(of(rows[0]).slot()).ok_or(GpuError::Mismatch("states of a sequence"))?;
            runs.push([first, rows.len() as u32, state.from, state.to]);
        }
        self.sequences = runs.len();
        let (to, [order_at, runs_at]) = (self.buffer(Place::Batch)?, runs_at(self.rows).map(|at| 4 * u64::from(at)));
        self.gpu.hardware.write(to, order_at, cast_slice(&order))?;
        self.gpu.hardware.write(to, runs_at, cast_slice(&runs))
    }

    /// Reads elements of a state. All of a state is fetched at once, because a copy costs much more than its bytes.
    pub(super) fn read_elements(&self, part: StatePart, out: &mut [f32]) -> Result<(), GpuError> {
        let mut known = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if known.as_ref().is_none_or(|(slot, _)| *slot != part.slot) {
            let layout = self.states()?;
            let mut elements = vec![0.0_f32; layout.elements()];
            for (place, first, count) in parts_of_state(&layout) {
                let at = 4 * (part.slot as usize * count) as u64;
                let bytes = cast_slice_mut(&mut elements[first..first + count]);
                self.read_back(self.buffer(place)?, at, bytes)?;
            }
            *known = Some((part.slot, elements));
        }
        let elements = known.as_ref().and_then(|(_, all)| all.get(part.element..part.element + out.len()));
        out.copy_from_slice(elements.ok_or(GpuError::Mismatch("elements of a state"))?);
        Ok(())
    }

    pub(super) fn write_elements(&self, part: StatePart, elements: &[f32]) -> Result<(), GpuError> {
        self.forget_block();
        for (place, first, count) in parts_of_state(&self.states()?) {
            let (from, to) = (part.element.max(first), (part.element + elements.len()).min(first + count));
            if from < to {
                let at = 4 * (part.slot as usize * count + from - first) as u64;
                let bytes = cast_slice(&elements[from - part.element..to - part.element]);
                self.gpu.hardware.write(self.buffer(place)?, at, bytes)?;
            }
        }
        Ok(())
    }

    fn states(&self) -> Result<StateLayout, GpuError> {
        self.states.ok_or(GpuError::Mismatch("states"))
    }
}
