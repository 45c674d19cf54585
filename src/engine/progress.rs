//! Progress of the work on a sequence.

use super::step::Phase;
use super::{Engine, EngineError};
use crate::cache::SeqId;
use crate::program::{Cursor, StepInfo};

/// Progress of the work on a sequence.
///
/// [The guide has an example](crate::guide#a-crowd).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Number of committed tokens: the length of the sequence.
    pub committed: usize,
    /// Number of tokens that are queued and not committed. The tokens of the batch in progress are committed together.
    pub queued: usize,
    /// Number of units of the batch in progress that are done or given to a device, without copies of shared blocks; 0
    /// if the sequence is not part of the batch.
    pub units_done: usize,
    /// Number of units of the batch in progress that are left, exactly; 0 if the sequence is not part of the batch.
    pub units_left: usize,
}

impl Engine<'_, '_> {
    /// Returns how far the work on a sequence is: whole tokens, and units of the batch that is being computed.
    ///
    /// # Errors
    /// [`EngineError::Cache`] for an unknown sequence.
    pub fn progress(&self, seq: SeqId) -> Result<Progress, EngineError> {
        let committed = self.seq_len(seq)?;
        let queue = self.parts.queues.get(seq.slot()).filter(|queue| queue.belongs_to(seq));
        let queued = queue.map_or(0, |queue| queue.end().saturating_sub(committed));
        let (units_done, units_left) = match queue.is_some_and(|queue| queue.is_in_batch()) {
            true => self.batch_progress(),
            false => (0, 0),
        };
        Ok(Progress { committed, queued, units_done, units_left })
    }

    /// Returns the step of the program that the next unit belongs to, with its units for the batch in progress. Returns
    /// `None` before a batch begins, and while shared blocks are copied for it.
    pub fn next_step(&self) -> Option<StepInfo> {
        match self.phase {
            Phase::Forward { cursor, unit } => {
                let info = self.parts.forward.info(cursor, self.batch_in_progress())?;
                // With a device, `unit` counts units that were saved for the step. None of them is done.
                Some(StepInfo { done: if self.parts.cache.is_on_device() { 0 } else { unit }, ..info })
            }
            Phase::Submitted { next } => self.parts.forward.info(next?, self.batch_in_progress()),
            Phase::Copy { .. } | Phase::Idle | Phase::Torn => None,
        }
    }

    /// Returns the units of the batch in progress that are done, and the units that are left.
    fn batch_progress(&self) -> (usize, usize) {
        let units_from = |cursor| self.parts.forward.units_from(cursor, self.batch_in_progress());
        let units = units_from(Cursor::START);
        match self.phase {
            Phase::Copy { .. } => (0, units.saturating_add(self.copies_left())),
            Phase::Forward { cursor, unit } => {
                let left = units_from(cursor).saturating_sub(unit);
                (units.saturating_sub(left), left)
            }
            Phase::Submitted { next } => {
                let left = next.map_or(0, units_from);
                (units.saturating_sub(left), left)
            }
            Phase::Idle | Phase::Torn => (0, 0),
        }
    }

    fn copies_left(&self) -> usize {
        let batch = self.parts.queues.iter().filter(|queue| queue.is_in_batch());
        batch.map(|queue| self.parts.cache.copy_units(queue.seq())).sum()
    }
}
