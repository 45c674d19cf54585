//! Runs a prompt in steps, so that Ctrl-C works and a progress bar can move.

use std::time::{Duration, Instant};

use gleed::{Engine, Logits, Plan, SeqId, Step};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::trace::Trace;
use super::{Result, interrupt};

/// Runs an engine in short steps, between which the program checks for Ctrl-C, and traces them if a trace is wanted.
pub struct Steps<'t> {
    pub plan: &'t Plan,
    pub trace: Option<Trace<'t>>,
}

impl Steps<'_> {
    pub fn step(&self, engine: &mut Engine<'_, '_>) -> Result<Step> {
        let units = units(self.plan);
        match &self.trace {
            Some(trace) => trace.step(engine, units),
            None => Ok(engine.step(units)?),
        }
    }

    /// Ends the trace.
    pub fn finish(self) -> Result<()> {
        self.trace.map_or(Ok(()), Trace::finish)
    }
}

/// Appends `tokens` to a sequence. Returns false after Ctrl-C. Then the sequence is as before or, if it has a window,
/// keeps the pieces that were finished. If it takes long, a terminal shows a progress bar.
pub fn advance(engine: &mut Engine<'_, '_>, steps: &Steps<'_>, seq: SeqId, tokens: &[u32]) -> Result<bool> {
    let start = engine.seq_len(seq)?;
    let mut bar = LazyBar::new(tokens.len());
    let limits = steps.plan.limits();
    // With a window, `queue` takes at most `rows` tokens at a time.
    let whole = limits.window.is_all();
    for chunk in tokens.chunks(if whole { tokens.len().max(1) } else { limits.rows }) {
        engine.queue(seq, engine.seq_len(seq)?, chunk, Logits::Last)?;
        loop {
            if interrupt::take() {
                engine.cancel(seq)?;
                if whole {
                    engine.rewind(seq, start)?;
                }
                return Ok(false);
            }
            match steps.step(engine)? {
                Step::Yielded | Step::Cancelled => bar.set(engine.seq_len(seq)? - start),
                Step::Ready | Step::Idle => break,
            }
        }
    }
    Ok(true)
}

/// Number of tokens that a GPU chooses in one call. The text appears in such pieces, and Ctrl-C waits for the end of
/// one.
pub const TOGETHER: usize = 8;

/// Returns the units of a step, after which the program checks for Ctrl-C. A GPU bounds its submits by itself.
fn units(plan: &Plan) -> usize {
    if plan.is_for_device() { usize::MAX } else { plan.units_per_token() }
}

/// A progress bar on standard error, which appears only if the work takes long.
struct LazyBar {
    started: Instant,
    tokens: usize,
    bar: Option<ProgressBar>,
}

impl LazyBar {
    fn new(tokens: usize) -> Self {
        Self { started: Instant::now(), tokens, bar: None }
    }

    fn set(&mut self, done: usize) {
        if self.started.elapsed() < Duration::from_millis(500) {
            return;
        }
        let style = || ProgressStyle::with_template("prompt {bar:32} {pos}/{len} tokens, {eta} left");
        let bar = self.bar.get_or_insert_with(|| {
            let bar = ProgressBar::with_draw_target(Some(self.tokens as u64), ProgressDrawTarget::stderr());
            bar.with_style(style().unwrap_or_else(|_| ProgressStyle::default_bar()))
                .with_elapsed(self.started.elapsed())
        });
        bar.set_position(done as u64);
    }
}

impl Drop for LazyBar {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
