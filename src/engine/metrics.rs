//! The metrics of an engine: it notes what it has done, and returns the numbers.

use super::step::Queue;
use super::{Engine, EngineError, Step};
use crate::cache::{PoolStats, SeqId};
use crate::metrics::{Clock, Metrics, Pass, Saved};
use crate::par::Watch;

impl<'a> Engine<'_, 'a> {
    /// Lends the host's clock to the metrics; `None` takes it back. The clock is read when a step begins, when a
    /// forward pass ends, when a step ends before its pass does, and when a prompt is queued. Workers never read it. A
    /// clock that is lent while a batch is in progress measures only the rest of the batch.
    pub fn set_clock(&mut self, clock: Option<&'a dyn Clock>) {
        self.parts.recorder.set_clock(clock);
    }

    /// Returns what the engine has done since it was made, or since the last [`Engine::reset_metrics`].
    pub fn metrics(&self) -> Metrics {
        let stats = self.parts.cache.stats();
        let blocks = |sum: [usize; 2], pool: &PoolStats| {
            [sum[0].saturating_add(pool.used), sum[1].saturating_add(pool.high_water)]
        };
        let [used, high_water] = stats.pools.iter().fold([0; 2], blocks);
        Metrics {
            blocks_used: used as u64,
            blocks_high_water: high_water as u64,
            slots_used: stats.slots.used as u64,
            slots_high_water: stats.slots.high_water as u64,
            ..self.parts.recorder.metrics()
        }
    }

    /// Forgets everything that was counted. The memory that is in use now becomes the high-water mark, also in
    /// [`Engine::stats`]. Work in progress goes on and is counted when it ends.
    pub fn reset_metrics(&mut self) {
        self.parts.recorder.reset();
        self.parts.cache.reset_high_water();
    }

    pub(super) fn note_step(&mut self, step: &Result<Step, EngineError>, watch: &Watch<'_>) {
        let recorder = &mut self.parts.recorder;
        recorder.count(|metrics| metrics.steps = metrics.steps.saturating_add(1));
        match step {
            Ok(Step::Yielded | Step::Cancelled) => {
                recorder.count(|metrics| metrics.yields = metrics.yields.saturating_add(1));
                recorder.pause();
                // A step that a flag has ended is not late.
                let late = if step == &Ok(Step::Yielded) { watch.late() } else { None };
                late.into_iter().for_each(|ticks| recorder.overshoot(ticks));
            }
            Ok(Step::Ready | Step::Idle) | Err(_) => {}
        }
    }

    /// Notes that a device has chosen `tokens` tokens.
    pub(super) fn note_decoded(&mut self, tokens: usize) {
        let now = self.parts.recorder.now();
        self.parts.recorder.finish(Pass { decode: tokens as u64, ..Pass::default() }, now);
    }

    pub(super) fn note_reuse(&mut self, tokens: usize) {
        self.note_saved(|saved| &mut saved.prefix, tokens);
    }

    pub(super) fn note_fork(&mut self, fork: SeqId) -> Result<(), EngineError> {
        let tokens = self.parts.cache.computed(fork)?;
        self.note_saved(|saved| &mut saved.fork, tokens);
        Ok(())
    }

    /// Notes a rewind of a sequence. `before` is the number of its tokens that were computed before the rewind.
    pub(super) fn note_rewind(&mut self, seq: SeqId, before: usize) -> Result<(), EngineError> {
        let found = self.parts.cache.computed(seq)?;
        if self.parts.cache.has_states() && found < before {
            self.note_saved(|saved| &mut saved.checkpoint, found);
        }
        Ok(())
    }

    /// Notes that a conversation goes on with the tokens that its sequence has.
    pub(crate) fn note_kept(&mut self, seq: SeqId) -> Result<(), EngineError> {
        let tokens = self.parts.cache.computed(seq)?;
        self.note_saved(|saved| &mut saved.conversation, tokens);
        Ok(())
    }

    /// Notes that the queued tokens of a sequence are one chosen token and guesses behind it.
    pub(crate) fn note_queued_guesses(&mut self, seq: SeqId) {
        if let Some(queue) = self.parts.queues.get_mut(seq.slot()) {
            queue.prompt = 0;
        }
    }

    /// Notes that of `proposed` guesses `accepted` were right, and that `taken_back` tokens were dropped again.
    pub(crate) fn note_guesses(&mut self, proposed: usize, accepted: usize, taken_back: usize) {
        self.parts.recorder.count(|metrics| {
            metrics.guesses_proposed = metrics.guesses_proposed.saturating_add(proposed as u64);
            metrics.guesses_accepted = metrics.guesses_accepted.saturating_add(accepted as u64);
            metrics.decode_tokens = metrics.decode_tokens.saturating_sub(taken_back as u64);
        });
    }

    fn note_saved(&mut self, reason: impl FnOnce(&mut Saved) -> &mut u64, rows: usize) {
        self.parts.recorder.count(|metrics| {
            let saved = reason(&mut metrics.saved);
            *saved = saved.saturating_add(rows as u64);
        });
    }
}

impl Queue {
    /// Adds the rows of this queue in the batch to the counts of a pass.
    pub(super) fn count_in(&self, pass: &mut Pass) {
        let rows = if self.prompt == 1 { &mut pass.prompt } else { &mut pass.decode };
        *rows = rows.saturating_add(self.taken.into());
        pass.again = pass.again.saturating_add(self.start.saturating_sub(self.next).min(self.taken).into());
    }
}
