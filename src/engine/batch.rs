//! A batch: rows are taken from the queues, computed in units, and committed.

use core::ops::Range;

use super::checkpoint::{is_checkpoint_due, rows_to_checkpoint};
use super::step::{Phase, Queue};
use super::{Engine, EngineError, Parts};
use crate::cache::Then;
use crate::metrics::Pass;
use crate::num::all_finite;
use crate::ops::{Batch, Row, Run};
use crate::par::Watch;
use crate::program::Cursor;

impl<'m, 'a> Engine<'m, 'a> {
    /// Takes the next rows from the queues and begins a batch with them.
    ///
    /// # Errors
    /// [`EngineError::Internal`] if the cache has lost a queued token, or if no row can be taken. Both are defects.
    pub(super) fn begin_batch(&mut self) -> Result<(), EngineError> {
        let count = self.share_rows();
        if count == 0 {
            // Tokens that can never run are refused when they are queued. A step without rows would never end.
            return Err(EngineError::Internal(site!()));
        }
        self.check_tokens_taken()?;
        let (with_logits, finished) = self.fill_rows()?;
        (self.batch, self.batch_finished, self.batch_logits) = (count, finished, with_logits);
        self.next_slot = if self.next_slot + 1 < self.parts.queues.len() { self.next_slot + 1 } else { 0 };
        self.phase = Phase::Copy { row: 0 };
        Ok(())
    }

    /// Divides the rows of the next batch among the queues, from the next slot on. Returns the number of rows taken.
    fn share_rows(&mut self) -> usize {
        let Parts { cache, queues, rows, logit_rows, checkpoint_every, .. } = &mut self.parts;
        let (mut free, mut free_logits) = (rows.len() as u32, *logit_rows as u32);
        let every = *checkpoint_every;
        let (slots, whole) = (queues.len(), !self.model.config().attention.causal);
        for slot in (self.next_slot..slots).chain(0..self.next_slot.min(slots)) {
            let Some(queue) = queues.get_mut(slot) else { continue };
            let without = queue.wanted_from.min(queue.end).saturating_sub(queue.next);
            let with = queue.end.saturating_sub(queue.next) - without;
            let most = if queue.logits == 1 { with.min(free_logits) } else { with };
            let chosen = if cache.has_states() { queue.chosen() } else { queue.end - queue.next };
            let until = rows_to_checkpoint(cache, every, queue.seq(), queue.next).filter(|&until| until <= chosen);
            queue.taken = free.min(without.saturating_add(most)).min(until.unwrap_or(u32::MAX));
            // After a wrong guess the state goes back to the beginning of its batch, so all guesses of a sequence are
            // in one batch. They fit into the batch in which their slot comes first.
            if queue.taken > chosen && queue.taken < queue.end - queue.next {
                queue.taken = chosen;
            }
            // The tokens of this text see each other, so the batch takes all of them or none.
            if whole && queue.taken < queue.end.saturating_sub(queue.next) {
                queue.taken = 0;
            }
            free -= queue.taken;
            if queue.logits == 1 {
                free_logits -= queue.taken.saturating_sub(without);
            }
        }
        rows.len() - free as usize
    }

    /// Checks that the cache has the tokens of all rows that are taken.
    fn check_tokens_taken(&self) -> Result<(), EngineError> {
        let Parts { cache, queues, .. } = &self.parts;
        let has_tokens = |queue: &Queue| {
            let mut positions = queue.next..queue.next + queue.taken;
            positions.all(|position| cache.token(queue.seq(), position as usize).is_some())
        };
        if queues.iter().all(has_tokens) { Ok(()) } else { Err(EngineError::Internal(site!())) }
    }

    /// Writes the rows that are taken: first the rows with logits, then those whose hidden state is wanted, then the
    /// others. The last layer goes on with the first two kinds alone. Returns the number of rows with logits, and the
    /// number of rows of the first two kinds together.
    fn fill_rows(&mut self) -> Result<(usize, usize), EngineError> {
        let Parts { cache, queues, rows, runs, .. } = &mut self.parts;
        runs.fill(Run::EMPTY);
        let mut places = rows.iter_mut();
        let mut put = |queue: &Queue, positions: Range<u32>| {
            let (seq, count) = (queue.seq(), positions.len());
            for (position, place) in positions.zip(&mut places) {
                let position = position as usize;
                *place = Row::new(seq, position, cache.token(seq, position).ok_or(EngineError::Internal(site!()))?);
            }
            Ok::<_, EngineError>(count)
        };
        let (mut logits, mut hidden) = (0, 0);
        for (queue, run) in queues.iter().zip(&mut **runs).filter(|(queue, _)| queue.logits == 1) {
            let count = put(queue, queue.taken().1)?;
            run.finished = [logits as u32, count as u32];
            logits += count;
        }
        for (queue, run) in queues.iter().zip(&mut **runs).filter(|(queue, _)| queue.logits == 0) {
            let count = put(queue, queue.taken().1)?;
            run.finished = [(logits + hidden) as u32, count as u32];
            hidden += count;
        }
        let mut start = logits + hidden;
        for (queue, run) in queues.iter().zip(&mut **runs) {
            let count = put(queue, queue.taken().0)?;
            run.unfinished = [start as u32, count as u32];
            start += count;
        }
        Ok((logits, logits + hidden))
    }

    /// Copies one layer of a shared block of this row's sequence. If none is left, goes on to the next row or to the
    /// forward pass. Returns the number of units that it used.
    pub(super) fn copy(&mut self, row: usize, watch: &Watch<'_>) -> Result<usize, EngineError> {
        let cache = &mut self.parts.cache;
        let row_of_batch = self.parts.rows.get(..self.batch).and_then(|rows| rows.get(row));
        match row_of_batch.map(Row::seq) {
            None => self.phase = Phase::Forward { cursor: Cursor::START, unit: 0 },
            Some(seq) if cache.copy_units(seq) == 0 => self.phase = Phase::Copy { row: row + 1 },
            Some(seq) if watch.allows_unit() => return Ok(cache.copy_unit(seq)?.into()),
            Some(_) => {}
        }
        Ok(0)
    }

    /// Runs at most `budget` units of an operation. Returns how many were run.
    pub(super) fn forward(
        &mut self,
        cursor: Cursor,
        unit: usize,
        budget: usize,
        watch: &Watch<'_>,
    ) -> Result<usize, EngineError> {
        let Parts { forward, rows, runs, cache, .. } = &mut self.parts;
        let rows = rows.get(..self.batch).unwrap_or_default();
        let batch = Batch { rows, finished: self.batch_finished, logits: self.batch_logits, runs };
        let units = forward.units(cursor, batch);
        let end = units.min(unit.saturating_add(budget));
        self.phase = Phase::Torn;
        let left = forward.run(cursor, unit..end, batch, cache, self.parallel, watch);
        let left = left.map_err(|fault| EngineError::from_fault(fault, forward.layer(cursor)))?;
        let end = end.saturating_sub(left);
        if end < units {
            self.phase = Phase::Forward { cursor, unit: end };
        } else {
            match forward.next(cursor, batch) {
                Some(cursor) => self.phase = Phase::Forward { cursor, unit: 0 },
                None => {
                    self.check_hidden()?;
                    self.finish_batch()?;
                }
            }
        }
        Ok(end.saturating_sub(unit))
    }

    /// Checks that the wanted hidden states are finite, as logits are. At this point the batch can still be dropped.
    fn check_hidden(&mut self) -> Result<(), EngineError> {
        let layer = self.model.config().layers;
        for place in self.batch_logits..self.batch_finished {
            let hidden = self.parts.forward.hidden(place).ok_or(EngineError::Internal(site!()))?;
            if !all_finite(hidden) {
                return Err(EngineError::NonFinite { layer });
            }
        }
        Ok(())
    }

    /// Makes the rows of the batch part of their sequences.
    pub(super) fn finish_batch(&mut self) -> Result<(), EngineError> {
        let (mut pass, now) = (Pass::default(), self.parts.recorder.now());
        for queue in self.parts.queues.iter_mut().filter(|queue| queue.is_in_batch()) {
            let (seq, end) = (queue.seq(), queue.next + queue.taken);
            // Rows that are computed again (without a cache, or after a rewind to a checkpoint) are part of it already.
            let new = (end as usize).saturating_sub(self.parts.cache.seq_len(seq)?);
            // Keys and values that an adapter has changed must not be found by other sequences.
            match self.parts.forward.context.adapters.change(seq) {
                true => self.parts.cache.commit(seq, new)?,
                false => self.parts.cache.commit_computed(seq, new)?,
            }
            let (goes_on, has_guesses) = (end < queue.end, queue.taken > queue.chosen());
            let then = match has_guesses {
                _ if goes_on => Then::Batch,
                true => Then::Judgement,
                false => Then::Nothing,
            };
            self.parts.cache.commit_state(seq, end as usize, then)?;
            let cache = &mut self.parts.cache;
            let is_due = is_checkpoint_due(cache, self.parts.checkpoint_every, seq, end);
            // A checkpoint one token before the end of a prompt is as good, so there is none at the end then.
            let is_prompt = !goes_on && queue.prompt == 1 && cache.computed_at(seq, end as usize - 1)? as u32 + 1 < end;
            if cache.has_states() && !has_guesses && (is_due || is_prompt) {
                cache.keep_state(seq, false)?;
            }
            queue.count_in(&mut pass);
            if !goes_on && queue.prompt == 1 && queue.logits == 1 {
                self.parts.recorder.first_token(queue.queued, now);
            }
            (queue.next, queue.taken) = (end, 0);
        }
        self.parts.recorder.finish(pass, now);
        self.phase = Phase::Idle;
        Ok(())
    }

    /// Drops the batch, and the queued tokens of its sequences.
    pub(super) fn fail_batch(&mut self) -> Result<(), EngineError> {
        for row in self.parts.rows.get(..self.batch).unwrap_or_default() {
            self.parts.cache.release(row.seq())?;
            if let Some(queue) = self.parts.queues.get_mut(row.seq().slot()) {
                *queue = Queue::EMPTY;
            }
        }
        self.drop_batch();
        Ok(())
    }

    pub(super) fn drop_batch(&mut self) {
        if self.phase != Phase::Idle {
            self.parts.recorder.drop_pass();
        }
        self.phase = Phase::Idle;
        (self.batch, self.batch_finished, self.batch_logits) = (0, 0, 0);
    }

    pub(super) fn batch_in_progress(&self) -> Batch<'_> {
        let runs = &*self.parts.runs;
        Batch { rows: self.batch_rows(), finished: self.batch_finished, logits: self.batch_logits, runs }
    }

    pub(super) fn batch_rows(&self) -> &[Row] {
        self.parts.rows.get(..self.batch).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Limits, Logits, Plan, Step};
    use crate::model::Model;

    const DEMO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/assets/gleed-tales-q8_0.gguf");

    /// Regression: a token that the cache had lost was computed as token 0.
    #[test]
    fn a_lost_token_is_an_error_and_changes_nothing() {
        let bytes = std::fs::read(DEMO).unwrap();
        let model = Model::open(&bytes).unwrap();
        let limits = Limits { sequences: 2, context: 32, rows: 4, ..Limits::default() };
        let plan = Plan::new(&model, &limits).unwrap();
        let mut memory = vec![0; plan.bytes() + plan.alignment()];
        let at = memory.as_ptr().align_offset(plan.alignment());
        let mut engine = Engine::new(&model, &plan, &mut memory[at..]).unwrap();
        let [kept, lost] = [engine.open().unwrap(), engine.open().unwrap()];
        let logits = engine.prefill(kept, &[1, 414, 435]).unwrap().to_vec();
        engine.queue(kept, 3, &[261], Logits::Last).unwrap();
        engine.queue(lost, 0, &[1, 414], Logits::Last).unwrap();
        // Only a defect can do this: the tokens are gone, and the queue is still there.
        engine.parts.cache.release(lost).unwrap();
        for _ in 0..2 {
            assert!(matches!(engine.step(usize::MAX), Err(EngineError::Internal(_))));
            assert_eq!((engine.phase, engine.next_slot), (Phase::Idle, 1));
            assert_eq!(engine.logits(kept), Some(&logits[..]));
            assert_eq!((engine.seq_len(kept), engine.seq_len(lost)), (Ok(3), Ok(0)));
        }
        engine.cancel(lost).unwrap();
        assert_eq!(engine.step(usize::MAX), Ok(Step::Ready));
        assert_eq!(engine.seq_len(kept), Ok(4));
        engine.cache().check().unwrap();
    }
}
