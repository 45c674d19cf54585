//! The recorder of an engine's metrics.

use core::fmt;

use super::histogram::{self, BUCKETS};
use super::{Clock, Metrics, Passes};
use crate::mem::{Arena, MemoryError};

/// Time that stands for "not known", as without a clock.
pub(crate) const NEVER: u64 = u64::MAX;

/// Number of phases of passes: prefill, decode, mixed.
const PHASES: usize = 3;

/// The rows of a forward pass that came to its end.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pass {
    /// Number of rows of prompts.
    pub(crate) prompt: u64,
    /// Number of rows of decoded tokens, and of guesses behind them.
    pub(crate) decode: u64,
    /// Number of rows of tokens that were part of their sequence before.
    pub(crate) again: u64,
}

/// The counts, and the clock.
pub(crate) struct Recorder<'a> {
    /// One element. Its percentiles and memory fields are not kept, but computed when they are asked for. It lies in
    /// the engine's memory, because an engine is moved several times on the caller's stack while it is made.
    metrics: &'a mut [Metrics],
    /// Times of passes: `[phases, buckets]`.
    buckets: &'a mut [u32],
    clock: Option<&'a dyn Clock>,
    /// Time at which the engine's call, or the pass in it, began.
    since: u64,
    /// Ticks that the pass in progress took in earlier calls.
    spent: u64,
}

impl fmt::Debug for Recorder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").field("metrics", &self.metrics).finish_non_exhaustive()
    }
}

impl<'a> Recorder<'a> {
    pub(crate) fn carve(arena: &mut Arena<'a>) -> Result<Self, MemoryError> {
        let (metrics, buckets) = (arena.slice("metrics", 1)?, arena.slice("histograms", PHASES * BUCKETS)?);
        let mut recorder = Self { metrics, buckets, clock: None, since: NEVER, spent: 0 };
        recorder.reset();
        Ok(recorder)
    }

    pub(crate) fn set_clock(&mut self, clock: Option<&'a dyn Clock>) {
        (self.clock, self.since, self.spent) = (clock, NEVER, 0);
    }

    /// Forgets everything that was counted. The pass in progress counts after the reset.
    pub(crate) fn reset(&mut self) {
        self.metrics.fill(Metrics::default());
        self.buckets.fill(0);
    }

    /// Changes the counts.
    pub(crate) fn count(&mut self, change: impl FnOnce(&mut Metrics)) {
        if let Some(metrics) = self.metrics.first_mut() {
            change(metrics);
        }
    }

    /// Returns the time, or [`NEVER`] without a clock.
    pub(crate) fn now(&self) -> u64 {
        self.clock.map_or(NEVER, Clock::ticks)
    }

    /// Notes that a call that works on passes begins.
    pub(crate) fn resume(&mut self) {
        self.since = self.now();
    }

    /// Notes that the call ends before the pass is finished.
    pub(crate) fn pause(&mut self) {
        self.spent = self.spent.saturating_add(between(self.since, self.now()).unwrap_or(0));
    }

    /// Notes that a pass is finished, at time `now`.
    pub(crate) fn finish(&mut self, pass: Pass, now: u64) {
        let took = between(self.since, now).map(|ticks| ticks.saturating_add(self.spent));
        (self.since, self.spent) = (now, 0);
        let Some(metrics) = self.metrics.first_mut() else { return };
        let (phase, passes) = match (pass.prompt, pass.decode) {
            (_, 0) => (0, &mut metrics.prefill),
            (0, _) => (1, &mut metrics.decode),
            _ => (2, &mut metrics.mixed),
        };
        passes.count = passes.count.saturating_add(1);
        passes.rows = passes.rows.saturating_add(pass.prompt).saturating_add(pass.decode);
        if let Some(ticks) = took {
            passes.times.add(ticks);
            let buckets = self.buckets.get_mut(phase * BUCKETS..(phase + 1) * BUCKETS);
            histogram::add(buckets.unwrap_or_default(), ticks);
        }
        if phase == 1 {
            let new = pass.decode.saturating_sub(pass.again);
            metrics.decode_tokens = metrics.decode_tokens.saturating_add(new);
        }
        metrics.rows_again = metrics.rows_again.saturating_add(pass.again);
    }

    /// Notes that the pass in progress is dropped.
    pub(crate) fn drop_pass(&mut self) {
        self.spent = 0;
        self.count(|metrics| metrics.dropped = metrics.dropped.saturating_add(1));
    }

    /// Notes that the logits of a prompt that was queued at time `queued` are there.
    pub(crate) fn first_token(&mut self, queued: u64, now: u64) {
        if let Some(ticks) = between(queued, now) {
            self.count(|metrics| metrics.first_token.add(ticks));
        }
    }

    /// Notes that a step returns `ticks` ticks after its deadline.
    pub(crate) fn overshoot(&mut self, ticks: u64) {
        self.count(|metrics| metrics.overshoot.add(ticks));
    }

    /// Returns everything that was counted, with percentiles.
    pub(crate) fn metrics(&self) -> Metrics {
        let mut metrics = self.metrics.first().copied().unwrap_or_default();
        let phases = [&mut metrics.prefill, &mut metrics.decode, &mut metrics.mixed];
        for (passes, buckets) in phases.into_iter().zip(self.buckets.as_chunks::<BUCKETS>().0) {
            let Passes { times, .. } = *passes;
            let at = |percent| histogram::percentile(buckets, percent).max(times.min).min(times.max);
            (passes.p50, passes.p99) = (at(50), at(99));
        }
        metrics
    }
}

/// Returns the ticks between two times, if both are known.
fn between(since: u64, now: u64) -> Option<u64> {
    (since != NEVER && now != NEVER).then(|| now.saturating_sub(since))
}
