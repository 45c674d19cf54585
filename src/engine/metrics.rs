//! The figures of an engine: what was done is noted, and read.

use super::step::Queue;
use super::{Engine, EngineError, Step};
use crate::cache::{PoolStats, SeqId};
use crate::metrics::{Clock, Metrics, Pass, Saved};
use crate::par::Watch;

impl<'a> Engine<'_, 'a> {
    /// Lends the host's clock to the metrics; `None` takes it back. It is read when a step begins, when a forward pass
    /// ends, when a step ends before its pass does, and when a prompt is queued; never by workers. A clock that comes
    /// while a batch is in progress measures what is left of it.
    pub fn set_clock(&mut self, clock: Option<&'a dyn Clock>) {
        self.parts.recorder.set_clock(clock);
    }

    /// Returns what the engine has done since it was made, or since [`Engine::reset_metrics`].
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

    /// Forgets what was counted, and makes the memory in use now the high-water marks, those of [`Engine::stats`], too.
    /// Work in progress goes on and is counted when it ends.
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
                // What a flag has ended is not late.
                let late = if step == &Ok(Step::Yielded) { watch.late() } else { None };
                late.into_iter().for_each(|ticks| recorder.overshoot(ticks));
            }
            Ok(Step::Ready | Step::Idle) | Err(_) => {}
        }
    }

    /// A device has chosen so many tokens.
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

    /// A sequence was rewound that had `before` tokens which need not be computed again.
    pub(super) fn note_rewind(&mut self, seq: SeqId, before: usize) -> Result<(), EngineError> {
        let found = self.parts.cache.computed(seq)?;
        if self.parts.cache.has_states() && found < before {
            self.note_saved(|saved| &mut saved.checkpoint, found);
        }
        Ok(())
    }

    /// A conversation goes on with what its sequence has.
    pub(crate) fn note_kept(&mut self, seq: SeqId) -> Result<(), EngineError> {
        let tokens = self.parts.cache.computed(seq)?;
        self.note_saved(|saved| &mut saved.conversation, tokens);
        Ok(())
    }

    /// What is queued for a sequence are a token that was chosen and guesses behind it.
    pub(crate) fn note_queued_guesses(&mut self, seq: SeqId) {
        if let Some(queue) = self.parts.queues.get_mut(seq.slot()) {
            queue.prompt = 0;
        }
    }

    /// So many guesses were looked at, so many were right, and so many tokens were taken back.
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
    /// Counts the rows in the batch.
    pub(super) fn count_in(&self, pass: &mut Pass) {
        let rows = if self.prompt == 1 { &mut pass.prompt } else { &mut pass.decode };
        *rows = rows.saturating_add(self.taken.into());
        pass.again = pass.again.saturating_add(self.start.saturating_sub(self.next).min(self.taken).into());
    }
}
