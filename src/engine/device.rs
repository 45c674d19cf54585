//! An engine that runs on a device and has its keys and values there.

// Without the feature no engine has a device, and much of this is unused.
#![cfg_attr(not(feature = "device"), allow(dead_code, unused_imports))]

use core::task::Poll;

use super::step::Phase;
use super::{Engine, EngineError, Logits, Parts, Plan, Step};
use crate::cache::{CacheError, SeqId};
use crate::device::Device;
use crate::model::Model;
use crate::ops::Run;
use crate::par::{Budget, Watch};
use crate::program::Cursor;

impl<'m, 'a> Engine<'m, 'a> {
    /// Returns an engine with no sequences that runs on a device and has its keys and values there. `plan` must come
    /// from [`Plan::for_device`], and the device must have been made for it. `memory` is as for [`Engine::new`].
    ///
    /// All results have the bits that the CPU gives them, if the device is right. A step submits work to the device at
    /// most once. It does not wait for the device, unless its budget has no limit: [`Step::Yielded`] says that the
    /// device is at work, or that there is more to submit. A budget of units allows whole steps of the program. Units
    /// that are too few for a step are saved for the next call. Copies of shared blocks are part of the first submit
    /// and are not counted.
    ///
    /// # Errors
    /// [`EngineError::Memory`], [`EngineError::DevicePlan`].
    #[cfg(feature = "device")]
    pub fn with_device(
        model: &Model<'m>,
        plan: &Plan,
        memory: &'a mut [u8],
        device: &'a mut dyn Device,
    ) -> Result<Self, EngineError> {
        if !plan.is_for_device() {
            return Err(EngineError::DevicePlan);
        }
        let mut engine = Self::in_memory(model, plan, memory)?;
        engine.parts.cache.attach(device);
        Ok(engine)
    }

    /// Opens a sequence with the committed tokens of a sequence of another engine of the same model, and queues them:
    /// steps compute their keys and values again, with the same bits. So a host can go on after a device was lost.
    ///
    /// # Errors
    /// [`EngineError::Cache`] if the sequence is unknown in the other engine; [`CacheError::WindowGone`] if a window
    /// has passed over a token, so that only the host can know it; the errors of [`Engine::open`] and [`Engine::queue`]
    /// in this engine. Nothing has changed then.
    #[cfg(feature = "device")]
    pub fn replay(&mut self, lost: &Engine<'_, '_>, seq: SeqId) -> Result<SeqId, EngineError> {
        let (theirs, vocab) = (&lost.parts.cache, self.model.config().vocab);
        let length = theirs.seq_len(seq)?;
        let token = |position| theirs.token(seq, position);
        if length == 0 {
            return self.open();
        }
        if let Some(position) = (0..length).find(|&position| token(position).is_none()) {
            let first = (position..length).find(|&position| token(position).is_some()).unwrap_or(length);
            return Err(CacheError::WindowGone { position, first }.into());
        }
        // Imported keys and values have no token that the model knows.
        if let Some((index, token)) = (0..length).filter_map(token).enumerate().find(|&(_, id)| id as usize >= vocab) {
            return Err(EngineError::Token { index, token, vocab });
        }
        self.check_whole(0, length)?;
        self.check_logits(Logits::Last)?;
        let copy = self.open()?;
        let tokens = (0..length).map(|position| token(position).unwrap_or_default());
        if let Err(error) = self.take_tokens(copy, 0, tokens, Logits::Last) {
            self.parts.cache.close(copy)?;
            return Err(error);
        }
        Ok(copy)
    }

    /// [`Engine::step`] with a device.
    pub(super) fn step_on_device(&mut self, budget: &Budget<'_>, watch: &Watch<'_>) -> Result<Step, EngineError> {
        let unlimited = watch.is_unlimited() && budget.units == usize::MAX;
        let mut submitted = false;
        loop {
            let result = match self.phase {
                Phase::Idle if !self.is_busy() => return Ok(Step::Idle),
                Phase::Submitted { next } => match self.finish_submit(next, unlimited) {
                    Poll::Pending if watch.is_cancelled() => return Ok(Step::Cancelled),
                    Poll::Pending => return Ok(Step::Yielded),
                    Poll::Ready(result) => result,
                },
                _ if watch.is_cancelled() => return Ok(Step::Cancelled),
                _ if submitted || budget.units == 0 || watch.is_over() => return Ok(Step::Yielded),
                Phase::Idle => {
                    self.begin_batch()?;
                    Ok(())
                }
                Phase::Copy { .. } => self.begin_on_device(),
                Phase::Forward { cursor, unit } => {
                    submitted = true;
                    self.submit(cursor, unit.saturating_add(budget.units), watch)
                }
                Phase::Torn => Err(EngineError::Internal(site!())),
            };
            if let Err(error) = result {
                self.fail_batch()?;
                return Err(error);
            }
            if self.phase == Phase::Idle && self.batch_finished > 0 {
                return Ok(Step::Ready);
            }
        }
    }

    /// Hands the rows and the block tables of the batch to the device.
    fn begin_on_device(&mut self) -> Result<(), EngineError> {
        self.phase = Phase::Torn;
        let Parts { cache, rows, runs, .. } = &mut self.parts;
        let rows = rows.get(..self.batch).ok_or(EngineError::Internal(site!()))?;
        let in_batch = |slot: usize| runs.get(slot).is_some_and(|run| *run != Run::EMPTY);
        cache.begin_batch([self.batch_finished, self.batch_logits], rows, &in_batch)?;
        self.phase = Phase::Forward { cursor: Cursor::START, unit: 0 };
        Ok(())
    }

    /// Submits the steps from `cursor` on that `units` units allow. If the units are too few for one step, they are
    /// saved.
    fn submit(&mut self, cursor: Cursor, units: usize, watch: &Watch<'_>) -> Result<(), EngineError> {
        let fitting = self.parts.forward.fitting(cursor, self.batch_in_progress(), usize::MAX, units);
        if fitting.steps == 0 {
            self.phase = Phase::Forward { cursor, unit: units };
            return Ok(());
        }
        if !watch.allows_unit() {
            return Ok(());
        }
        self.phase = Phase::Torn;
        let first = self.parts.forward.number(cursor);
        let taken = self.parts.cache.device()?.submit(first..first + fitting.steps)?;
        if !(1..=fitting.steps).contains(&taken) {
            return Err(EngineError::Internal(site!()));
        }
        let taken = self.parts.forward.fitting(cursor, self.batch_in_progress(), taken, usize::MAX);
        self.phase = Phase::Submitted { next: taken.next };
        Ok(())
    }

    /// Returns the result of the last submit, if there is one yet. With `wait` the device can take its time.
    fn finish_submit(&mut self, next: Option<Cursor>, wait: bool) -> Poll<Result<(), EngineError>> {
        let device = match self.parts.cache.device() {
            Ok(device) => device,
            Err(error) => return Poll::Ready(Err(error.into())),
        };
        let poll = if wait { device.wait() } else { device.poll() };
        poll.map(|result| {
            result?;
            match next {
                Some(cursor) => self.phase = Phase::Forward { cursor, unit: 0 },
                None => {
                    self.fetch_logits()?;
                    self.finish_batch()?;
                }
            }
            Ok(())
        })
    }

    /// Copies the logits of the batch from the device.
    fn fetch_logits(&mut self) -> Result<(), EngineError> {
        let Parts { cache, forward, .. } = &mut self.parts;
        for row in 0..self.batch_logits {
            let out = forward.logits_mut(row).ok_or(EngineError::Internal(site!()))?;
            cache.device()?.logits(row, out)?;
        }
        Ok(())
    }
}
