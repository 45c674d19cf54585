//! Tokens are queued, and computed in steps of bounded work.

use core::ops::Range;

use bytemuck::{Pod, Zeroable};

use super::{Engine, EngineError, Parts};
use crate::cache::{CacheError, SeqId};
use crate::kernels::fpenv;
use crate::metrics::NEVER;
use crate::par::{Budget, Watch};
use crate::program::Cursor;

/// Which of the queued tokens want logits, or hidden states instead.
///
/// [The guide has an example](crate::guide#a-crowd).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Logits {
    /// Logits of the last token.
    #[default]
    Last,
    /// Logits of all tokens.
    All,
    /// No logits. The final hidden state of the last token is kept instead: see `Engine::hidden`.
    LastHidden,
    /// No logits. The final hidden states of all tokens are kept instead.
    Hidden,
}

impl Logits {
    /// Returns whether the results of all tokens are wanted, not only those of the last one.
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
    /// The host's cancel flag is set. Nothing that is queued was dropped. Clear the flag and go on, or drop a
    /// sequence's tokens with `Engine::cancel`.
    Cancelled,
    /// A batch is finished, and some of its rows have logits (see `Engine::results`) or hidden states (see
    /// `Engine::hidden`).
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
    pub(super) next: u32,
    pub(super) end: u32,
    /// First position that was not committed when the tokens were queued. Earlier ones are computed again.
    pub(super) start: u32,
    /// The first position whose logits, or hidden state, are wanted.
    pub(super) wanted_from: u32,
    /// 1 if logits are wanted, 0 if hidden states are.
    pub(super) logits: u32,
    /// Number of rows of the batch in progress that belong to this queue, from position `next` on.
    pub(super) taken: u32,
    /// 1 if the queued tokens are a prompt: several tokens, none of which is a guess.
    pub(super) prompt: u32,
    /// Time on the host's clock at which a prompt was queued, or [`NEVER`].
    pub(super) queued: u64,
}

impl Queue {
    pub(super) const EMPTY: Self =
        Self { sequence: 0, next: 0, end: 0, start: 0, wanted_from: 0, logits: 0, taken: 0, prompt: 0, queued: NEVER };

    fn is_empty(&self) -> bool {
        self.next >= self.end
    }

    pub(super) fn seq(&self) -> SeqId {
        SeqId::from_bits(self.sequence)
    }

    /// Returns whether this queue holds unfinished work of a sequence.
    pub(super) fn belongs_to(&self, seq: SeqId) -> bool {
        !self.is_empty() && self.sequence == seq.to_bits()
    }

    pub(super) fn end(&self) -> usize {
        self.end as usize
    }

    pub(super) fn is_in_batch(&self) -> bool {
        self.taken > 0
    }

    /// Returns how many of the queued rows are not guesses.
    pub(super) fn chosen(&self) -> u32 {
        let end = if self.prompt == 1 { self.end } else { self.start.saturating_add(1).min(self.end) };
        end.saturating_sub(self.next)
    }

    /// Returns the positions of this queue in the batch: first the positions of which only keys and values are wanted,
    /// then the others.
    pub(super) fn taken(&self) -> (Range<u32>, Range<u32>) {
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
    /// Shared blocks that the batch writes to are being copied, for the sequence of this row.
    Copy { row: usize },
    /// The forward pass is at this unit of this operation. With a device, `unit` is the number of units that budgets
    /// have allowed for the operation so far.
    Forward { cursor: Cursor, unit: usize },
    /// A device computes the steps before `next`, or up to the end of the program if that is `None`.
    Submitted { next: Option<Cursor> },
    /// Units are running. Seen only after a panic in the host's executor or clock.
    Torn,
}

impl<'m, 'a> Engine<'m, 'a> {
    /// Queues tokens of a sequence. `position` is the position of the first one, which must be the sequence's next
    /// position. Blocks are taken now, so the work cannot run out of memory later. Nothing is computed yet.
    ///
    /// If layers have a window, up to `Limits::rows` tokens can always be queued at a time. More can be queued only
    /// while the sequence is short.
    ///
    /// # Errors
    /// [`EngineError::Empty`], [`EngineError::Token`]; [`EngineError::Cache`] if the sequence is unknown or busy, the
    /// position is wrong, the context is full, the tokens are too many for the window, or there are too few blocks. In
    /// an encoder [`EngineError::NoLogits`], [`EngineError::Whole`] and [`EngineError::TextRows`].
    /// [`EngineError::Predictor`] if the model is a layer that predicts further ahead, and [`EngineError::OnDevice`]
    /// for hidden states if the engine has a device.
    pub fn queue(&mut self, seq: SeqId, position: usize, tokens: &[u32], logits: Logits) -> Result<(), EngineError> {
        self.check_tokens(tokens)?;
        self.check_quiet(seq)?;
        let expected = self.seq_len(seq)?;
        if position != expected {
            return Err(CacheError::Position { expected, given: position }.into());
        }
        self.check_logits(logits)?;
        self.check_whole(expected, tokens.len())?;
        self.take_tokens(seq, expected, tokens.iter().copied(), logits)
    }

    /// Queues checked tokens of a sequence that has `expected` tokens.
    pub(super) fn take_tokens(
        &mut self,
        seq: SeqId,
        expected: usize,
        tokens: impl ExactSizeIterator<Item = u32>,
        logits: Logits,
    ) -> Result<(), EngineError> {
        if self.model.config().is_predictor() {
            return Err(EngineError::Predictor);
        }
        self.take_checked_tokens(seq, expected, tokens, logits)
    }

    /// [`Engine::take_tokens`] also for a predictor, to which the hidden states of these tokens were given.
    pub(super) fn take_checked_tokens(
        &mut self,
        seq: SeqId,
        expected: usize,
        tokens: impl ExactSizeIterator<Item = u32>,
        logits: Logits,
    ) -> Result<(), EngineError> {
        let (end, is_prompt) = (expected + tokens.len(), tokens.len() > 1);
        self.parts.cache.reserve(seq, tokens)?;
        let queue = self.parts.queues.get_mut(seq.slot()).ok_or(EngineError::Internal(site!()))?;
        *queue = Queue {
            sequence: seq.to_bits(),
            // Without a cache all tokens are computed again. Without a checkpoint at the end, the last ones are.
            next: self.parts.cache.computed(seq)? as u32,
            end: end as u32,
            start: expected as u32,
            wanted_from: if logits.of_all() { expected } else { end - 1 } as u32,
            logits: logits.are_wanted().into(),
            taken: 0,
            prompt: is_prompt.into(),
            queued: if is_prompt { self.parts.recorder.now() } else { NEVER },
        };
        Ok(())
    }

    /// Drops the queued tokens of a sequence. Committed tokens stay. Other sequences of a batch in progress start that
    /// batch again, with the same results.
    ///
    /// # Errors
    /// [`EngineError::Cache`] for an unknown sequence.
    pub fn cancel(&mut self, seq: SeqId) -> Result<(), EngineError> {
        self.parts.cache.release(seq)?;
        *self.parts.queues.get_mut(seq.slot()).ok_or(EngineError::Internal(site!()))? = Queue::EMPTY;
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
    /// [`EngineError::NonFinite`]: the sequences of the batch keep their committed tokens and lose their queued ones.
    /// [`EngineError::DeviceLost`]: see [`Engine::replay`]. [`EngineError::Internal`]: a defect of the library.
    pub fn step<'b>(&mut self, budget: impl Into<Budget<'b>>) -> Result<Step, EngineError> {
        let budget = budget.into();
        fpenv::with_default(|| self.step_in_default_environment(budget))
    }

    /// Returns the rows of the last batch that have logits: sequence, position, logits `[vocab]`. Returns nothing while
    /// a batch is in progress.
    pub fn results(&self) -> impl Iterator<Item = (SeqId, usize, &[f32])> {
        let rows = if self.phase == Phase::Idle { self.batch_rows() } else { &[] };
        let rows = rows.iter().take(self.batch_logits).enumerate();
        rows.filter_map(|(index, row)| Some((row.seq(), row.position as usize, self.parts.forward.logits(index)?)))
    }

    /// Calls `on_row` for each row of the last batch whose hidden state is wanted, with its sequence, its position, and
    /// the result of the final norm, `[hidden]`. Does nothing while a batch is in progress.
    pub fn hidden(&mut self, mut on_row: impl FnMut(SeqId, usize, &[f32])) {
        for index in 0..self.hidden_rows() {
            if let Some((seq, position, hidden)) = self.hidden_row(index) {
                on_row(seq, position, hidden);
            }
        }
    }

    /// Returns how many rows [`Engine::hidden`] visits.
    pub fn hidden_rows(&self) -> usize {
        if self.phase == Phase::Idle { self.batch_finished.saturating_sub(self.batch_logits) } else { 0 }
    }

    /// Returns row `index`, from 0, of the rows that [`Engine::hidden`] visits. The hidden state lies in scratch
    /// memory: ask for it again after any other call.
    pub fn hidden_row(&mut self, index: usize) -> Option<(SeqId, usize, &[f32])> {
        let place = self.batch_logits.checked_add(index).filter(|_| index < self.hidden_rows())?;
        let Parts { forward, rows, .. } = &mut self.parts;
        let row = rows.get(place)?;
        let hidden = fpenv::with_default(|| forward.hidden(place))?;
        Some((row.seq(), row.position as usize, hidden))
    }

    /// Returns the logits of the last row of a sequence in [`Engine::results`]: `[vocab]`.
    pub fn logits(&self, seq: SeqId) -> Option<&[f32]> {
        self.results().filter(|&(owner, _, _)| owner == seq).last().map(|(_, _, logits)| logits)
    }

    /// Returns whether any sequence has unfinished work.
    pub fn is_busy(&self) -> bool {
        self.parts.queues.iter().any(|queue| !queue.is_empty())
    }

    /// Checks that all of these are tokens of the model.
    pub(crate) fn check_tokens(&self, tokens: &[u32]) -> Result<(), EngineError> {
        self.check_tokens_from(0, tokens).map(|_| ())
    }

    /// [`Engine::check_tokens`] for a part of more tokens, which begins at index `first`. Returns the index behind the
    /// part.
    pub(super) fn check_tokens_from(&self, first: usize, tokens: &[u32]) -> Result<usize, EngineError> {
        let vocab = self.model.config().vocab;
        if tokens.is_empty() {
            return Err(EngineError::Empty);
        }
        match tokens.iter().enumerate().find(|&(_, &token)| token as usize >= vocab) {
            Some((index, &token)) => Err(EngineError::Token { index: first.saturating_add(index), token, vocab }),
            None => Ok(first.saturating_add(tokens.len())),
        }
    }

    pub(super) fn check_idle(&self) -> Result<(), EngineError> {
        if self.is_busy() { Err(EngineError::Busy) } else { Ok(()) }
    }

    /// Checks that a sequence has no unfinished work.
    pub(super) fn check_quiet(&self, seq: SeqId) -> Result<(), EngineError> {
        match self.parts.queues.get(seq.slot()).is_some_and(|queue| queue.belongs_to(seq)) {
            true => Err(CacheError::Busy { sequence: seq.to_bits() }.into()),
            false => Ok(()),
        }
    }

    fn step_in_default_environment(&mut self, budget: Budget<'_>) -> Result<Step, EngineError> {
        let watch = Watch::new(&budget);
        self.parts.recorder.resume();
        let step = match self.parts.cache.is_on_device() {
            true => self.step_on_device(&budget, &watch),
            false => self.step_here(budget.units, &watch),
        };
        self.note_step(&step, &watch);
        step
    }

    fn step_here(&mut self, mut units: usize, watch: &Watch<'_>) -> Result<Step, EngineError> {
        loop {
            match self.phase {
                Phase::Idle if !self.is_busy() => return Ok(Step::Idle),
                _ if watch.is_cancelled() => return Ok(Step::Cancelled),
                _ if units == 0 || watch.is_over() => return Ok(Step::Yielded),
                Phase::Idle => self.begin_batch()?,
                Phase::Copy { row } => units -= self.copy(row, watch)?,
                Phase::Forward { cursor, unit } => match self.forward(cursor, unit, units, watch) {
                    Ok(done) => units -= done,
                    Err(error) => {
                        self.fail_batch()?;
                        return Err(error);
                    }
                },
                Phase::Submitted { .. } | Phase::Torn => {
                    self.fail_batch()?;
                    return Err(EngineError::Internal(site!()));
                }
            }
            if self.phase == Phase::Idle && self.batch_finished > 0 {
                return Ok(Step::Ready);
            }
        }
    }
}
