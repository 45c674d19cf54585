//! Queued tokens become batches of rows, and a batch is computed in steps of bounded work.

use core::ops::Range;

use bytemuck::{Pod, Zeroable};

use super::{Engine, EngineError, Parts};
use crate::cache::{CacheError, KvKind, SeqId};
use crate::kernels::fpenv;
use crate::num::is_finite;
use crate::ops::{Batch, Row};
use crate::par::{Budget, Watch};
use crate::program::Cursor;

/// Which of the tokens queued want logits.
///
/// [The guide has an example](crate::guide#a-crowd).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Logits {
    /// The last one.
    #[default]
    Last,
    /// All of them.
    All,
    /// None: the final hidden state of the last one is wanted instead, see `Engine::hidden`.
    LastHidden,
    /// None: the hidden states of all of them.
    Hidden,
}

impl Logits {
    /// Whether it is about all tokens, or about the last one.
    fn of_all(self) -> bool {
        matches!(self, Self::All | Self::Hidden)
    }

    fn are_wanted(self) -> bool {
        matches!(self, Self::Last | Self::All)
    }
}

/// How a step ended.
///
/// [The guide has an example](crate::guide#a-crowd).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Step {
    /// The budget is used up; the next step goes on where this one stopped.
    Yielded,
    /// The host's cancel flag is set. Nothing that is queued was dropped: clear the flag and go on, or drop what is
    /// not wanted any more with `Engine::cancel`.
    Cancelled,
    /// A batch is finished and rows of it have logits, see `Engine::results`, or hidden states, see `Engine::hidden`.
    Ready,
    /// Nothing is queued.
    Idle,
}

/// The tokens queued for a sequence: positions `next..end` are still to be computed.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Queue {
    /// Bits of the sequence's handle.
    sequence: u32,
    next: u32,
    end: u32,
    /// The first position whose logits, or hidden state, are wanted.
    wanted_from: u32,
    /// 1 where logits are wanted.
    logits: u32,
    /// How many of them are in the batch in progress.
    taken: u32,
}

impl Queue {
    pub(super) const EMPTY: Self = Self { sequence: 0, next: 0, end: 0, wanted_from: 0, logits: 0, taken: 0 };

    fn is_empty(&self) -> bool {
        self.next >= self.end
    }

    pub(super) fn seq(&self) -> SeqId {
        SeqId::from_bits(self.sequence)
    }

    /// Whether a sequence has unfinished work here.
    pub(super) fn belongs_to(&self, seq: SeqId) -> bool {
        !self.is_empty() && self.sequence == seq.to_bits()
    }

    pub(super) fn end(&self) -> usize {
        self.end as usize
    }

    pub(super) fn is_in_batch(&self) -> bool {
        self.taken > 0
    }

    /// The positions in the batch of which nothing is wanted but keys and values, and the others.
    fn taken(&self) -> (Range<u32>, Range<u32>) {
        let end = self.next + self.taken;
        let wanted = self.wanted_from.max(self.next).min(end);
        (self.next..wanted, wanted..end)
    }
}

/// What the next unit of work belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// No batch is in progress.
    Idle,
    /// Shared blocks that the batch writes to are being copied, up to this row's.
    Copy { row: usize },
    /// The forward pass, at this unit of this stage.
    Forward { cursor: Cursor, unit: usize },
    /// Units are running. Seen only after a panic in the host's executor or clock.
    Torn,
}

impl<'m, 'a> Engine<'m, 'a> {
    /// Queues tokens of a sequence, the first of which is at `position`: that must be the sequence's next
    /// one. Blocks are taken now, so the work can not run out of memory later. Nothing is computed yet.
    ///
    /// Where the layers have a window, as many tokens as `Limits::rows` can always be queued, more at a time only as
    /// long as the sequence is short.
    ///
    /// # Errors
    /// [`EngineError::Empty`], [`EngineError::Token`], [`EngineError::Cache`]: unknown, busy, wrong
    /// position, context full, too many for the window, out of blocks.
    pub fn queue(&mut self, seq: SeqId, position: usize, tokens: &[u32], logits: Logits) -> Result<(), EngineError> {
        self.check_tokens(tokens)?;
        self.check_quiet(seq)?;
        let expected = self.seq_len(seq)?;
        if position != expected {
            return Err(CacheError::Position { expected, given: position }.into());
        }
        self.parts.cache.reserve(seq, tokens.iter().copied())?;
        let end = expected + tokens.len();
        let queue = self.parts.queues.get_mut(seq.slot()).ok_or(EngineError::Internal)?;
        *queue = Queue {
            sequence: seq.to_bits(),
            // Without a cache everything is computed again.
            next: if self.parts.cache.kind() == KvKind::Off { 0 } else { expected as u32 },
            end: end as u32,
            wanted_from: if logits.of_all() { expected } else { end - 1 } as u32,
            logits: logits.are_wanted().into(),
            taken: 0,
        };
        Ok(())
    }

    /// Drops what is queued for a sequence and not finished. Finished tokens stay; other sequences of a
    /// batch in progress start that batch again, with the same results.
    ///
    /// # Errors
    /// [`EngineError::Cache`] for an unknown sequence.
    pub fn cancel(&mut self, seq: SeqId) -> Result<(), EngineError> {
        self.parts.cache.release(seq)?;
        *self.parts.queues.get_mut(seq.slot()).ok_or(EngineError::Internal)? = Queue::EMPTY;
        if self.phase != Phase::Idle && self.batch_rows().iter().any(|row| row.seq() == seq) {
            self.drop_batch();
        }
        Ok(())
    }

    /// Works on what is queued, until a batch with logits is finished or the budget is used up: a number of units, a
    /// time on the host's clock, a flag, or several of these (see [`Budget`]). A unit is a small part of a layer's
    /// work; `Plan::units_per_token` says how many make a token. The results do not depend on how the work is cut
    /// into steps.
    ///
    /// Call it until it answers [`Step::Ready`], take the logits, queue more, and so on.
    ///
    /// # Errors
    /// [`EngineError::NonFinite`]: the sequences of the batch keep their finished tokens.
    pub fn step<'b>(&mut self, budget: impl Into<Budget<'b>>) -> Result<Step, EngineError> {
        let budget = budget.into();
        fpenv::with_default(|| self.step_in_default_environment(budget))
    }

    /// The rows with logits of the last batch: sequence, position, `[vocab]`. Empty while a batch is in
    /// progress.
    pub fn results(&self) -> impl Iterator<Item = (SeqId, usize, &[f32])> {
        let rows = if self.phase == Phase::Idle { self.batch_rows() } else { &[] };
        let rows = rows.iter().take(self.batch_logits).enumerate();
        rows.filter_map(|(index, row)| Some((row.seq(), row.position as usize, self.parts.forward.logits(index)?)))
    }

    /// The rows of the last batch whose hidden states are wanted, one after the other: sequence, position, and the final
    /// norm's result, `[hidden]`. Nothing while a batch is in progress.
    pub fn hidden(&mut self, mut on_row: impl FnMut(SeqId, usize, &[f32])) {
        for index in 0..self.hidden_rows() {
            if let Some((seq, position, hidden)) = self.hidden_row(index) {
                on_row(seq, position, hidden);
            }
        }
    }

    /// How many rows [`Engine::hidden`] visits.
    pub fn hidden_rows(&self) -> usize {
        if self.phase == Phase::Idle { self.batch_finished.saturating_sub(self.batch_logits) } else { 0 }
    }

    /// Row `index`, from 0, of those that [`Engine::hidden`] visits. It lies in scratch memory: ask for it again after any other
    /// call.
    pub fn hidden_row(&mut self, index: usize) -> Option<(SeqId, usize, &[f32])> {
        let place = self.batch_logits.checked_add(index).filter(|_| index < self.hidden_rows())?;
        let Parts { forward, rows, .. } = &mut self.parts;
        let row = rows.get(place)?;
        let hidden = fpenv::with_default(|| forward.hidden(place))?;
        Some((row.seq(), row.position as usize, hidden))
    }

    /// The logits of the last row of a sequence in [`Engine::results`]: `[vocab]`.
    pub fn logits(&self, seq: SeqId) -> Option<&[f32]> {
        self.results().filter(|&(owner, _, _)| owner == seq).last().map(|(_, _, logits)| logits)
    }

    /// Whether any sequence has unfinished work.
    pub fn is_busy(&self) -> bool {
        self.parts.queues.iter().any(|queue| !queue.is_empty())
    }

    /// Whether these are tokens of the model.
    pub(super) fn check_tokens(&self, tokens: &[u32]) -> Result<(), EngineError> {
        let vocab = self.model.config().vocab;
        if tokens.is_empty() {
            return Err(EngineError::Empty);
        }
        match tokens.iter().enumerate().find(|&(_, &token)| token as usize >= vocab) {
            Some((index, &token)) => Err(EngineError::Token { index, token, vocab }),
            None => Ok(()),
        }
    }

    pub(super) fn check_idle(&self) -> Result<(), EngineError> {
        if self.is_busy() { Err(EngineError::Busy) } else { Ok(()) }
    }

    /// Whether a sequence has no unfinished work.
    pub(super) fn check_quiet(&self, seq: SeqId) -> Result<(), EngineError> {
        match self.parts.queues.get(seq.slot()).is_some_and(|queue| queue.belongs_to(seq)) {
            true => Err(CacheError::Busy { sequence: seq.to_bits() }.into()),
            false => Ok(()),
        }
    }

    fn step_in_default_environment(&mut self, budget: Budget<'_>) -> Result<Step, EngineError> {
        let (watch, mut units) = (Watch::new(&budget), budget.units);
        loop {
            match self.phase {
                Phase::Idle if !self.is_busy() => return Ok(Step::Idle),
                _ if watch.is_cancelled() => return Ok(Step::Cancelled),
                _ if units == 0 || watch.is_over() => return Ok(Step::Yielded),
                Phase::Idle => self.begin_batch(),
                Phase::Copy { row } => units -= self.copy(row, &watch)?,
                Phase::Forward { cursor, unit } => match self.forward(cursor, unit, units, &watch) {
                    Ok(done) => units -= done,
                    Err(error) => {
                        self.fail_batch()?;
                        return Err(error);
                    }
                },
                Phase::Torn => {
                    self.fail_batch()?;
                    return Err(EngineError::Internal);
                }
            }
            if self.phase == Phase::Idle && self.batch_finished > 0 {
                return Ok(Step::Ready);
            }
        }
    }

    /// Takes the next rows from the queues, the sequences in turn. Rows with logits come first, then those whose hidden
    /// state is wanted: the last layer goes on with these alone.
    fn begin_batch(&mut self) {
        let Parts { cache, queues, rows, logit_rows, .. } = &mut self.parts;
        let (mut free, mut free_logits) = (rows.len() as u32, *logit_rows as u32);
        let slots = queues.len();
        for slot in (self.turn..slots).chain(0..self.turn.min(slots)) {
            let Some(queue) = queues.get_mut(slot) else { continue };
            let without = queue.wanted_from.min(queue.end).saturating_sub(queue.next);
            let with = queue.end.saturating_sub(queue.next) - without;
            let most = if queue.logits == 1 { with.min(free_logits) } else { with };
            queue.taken = free.min(without.saturating_add(most));
            free -= queue.taken;
            if queue.logits == 1 {
                free_logits -= queue.taken.saturating_sub(without);
            }
        }
        self.turn = if self.turn + 1 < slots { self.turn + 1 } else { 0 };
        let mut places = rows.iter_mut();
        let mut put = |queue: &Queue, positions: Range<u32>| {
            let (seq, count) = (queue.seq(), positions.len());
            for (position, place) in positions.zip(&mut places) {
                let position = position as usize;
                *place = Row::new(seq, position, cache.token(seq, position).unwrap_or(0));
            }
            count
        };
        let (with_logits, with_hidden) = (|queue: &&Queue| queue.logits == 1, |queue: &&Queue| queue.logits == 0);
        self.batch_logits = queues.iter().filter(with_logits).map(|queue| put(queue, queue.taken().1)).sum();
        let hidden: usize = queues.iter().filter(with_hidden).map(|queue| put(queue, queue.taken().1)).sum();
        for queue in queues.iter() {
            let _ = put(queue, queue.taken().0);
        }
        self.batch_finished = self.batch_logits + hidden;
        self.batch = rows.len() - free as usize;
        self.phase = Phase::Copy { row: 0 };
    }

    /// Copies one layer of a shared block; the number of units that took.
    fn copy(&mut self, row: usize, watch: &Watch<'_>) -> Result<usize, EngineError> {
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

    /// Runs at most `budget` units of a stage; the number that was run.
    fn forward(&mut self, cursor: Cursor, unit: usize, budget: usize, watch: &Watch<'_>) -> Result<usize, EngineError> {
        let Parts { forward, rows, cache, .. } = &mut self.parts;
        let rows = rows.get(..self.batch).unwrap_or_default();
        let batch = Batch { rows, finished: self.batch_finished, logits: self.batch_logits };
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

    /// Whether the hidden states that are wanted are finite, as logits are: while the batch can still be dropped.
    fn check_hidden(&mut self) -> Result<(), EngineError> {
        let layer = self.model.config().layers;
        for place in self.batch_logits..self.batch_finished {
            let hidden = self.parts.forward.hidden(place).ok_or(EngineError::Internal)?;
            if !hidden.iter().all(|&x| is_finite(x)) {
                return Err(EngineError::NonFinite { layer });
            }
        }
        Ok(())
    }

    /// The rows become part of their sequences.
    fn finish_batch(&mut self) -> Result<(), EngineError> {
        for queue in self.parts.queues.iter_mut().filter(|queue| queue.is_in_batch()) {
            let (seq, end) = (queue.seq(), queue.next + queue.taken);
            // Rows that were computed again, without a cache, are part of it already.
            let new = (end as usize).saturating_sub(self.parts.cache.seq_len(seq)?);
            // What adapters changed is nobody else's.
            match self.parts.forward.context.adapters.change(seq) {
                true => self.parts.cache.commit(seq, new)?,
                false => self.parts.cache.commit_computed(seq, new)?,
            }
            (queue.next, queue.taken) = (end, 0);
        }
        self.phase = Phase::Idle;
        Ok(())
    }

    /// The sequences of the batch lose what they have queued.
    fn fail_batch(&mut self) -> Result<(), EngineError> {
        for row in self.parts.rows.get(..self.batch).unwrap_or_default() {
            self.parts.cache.release(row.seq())?;
            if let Some(queue) = self.parts.queues.get_mut(row.seq().slot()) {
                *queue = Queue::EMPTY;
            }
        }
        self.drop_batch();
        Ok(())
    }

    fn drop_batch(&mut self) {
        self.phase = Phase::Idle;
        (self.batch, self.batch_finished, self.batch_logits) = (0, 0, 0);
    }

    pub(super) fn batch_in_progress(&self) -> Batch<'_> {
        Batch { rows: self.batch_rows(), finished: self.batch_finished, logits: self.batch_logits }
    }

    fn batch_rows(&self) -> &[Row] {
        self.parts.rows.get(..self.batch).unwrap_or_default()
    }
}
