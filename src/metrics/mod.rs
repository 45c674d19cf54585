//! What an engine has done, in numbers: forward passes, rows computed and saved, steps, memory, and times where the
//! host lends a clock.
//!
//! `docs/metrics.md` has a table of all of them.
//!
//! # Example
//!
//! ```
//! use std::time::Instant;
//!
//! use gleed::{Engine, Limits, Model, Plan};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let file = std::fs::read("examples/assets/gleed-tales-q8_0.gguf")?;
//! # let model = Model::open(&file)?;
//! # let plan = Plan::new(&model, &Limits { context: 64, ..Limits::default() })?;
//! # let mut memory = vec![0; plan.bytes() + gleed::mem::ALIGN];
//! # let at = memory.as_ptr().align_offset(gleed::mem::ALIGN);
//! let start = Instant::now();
//! let clock = || start.elapsed().as_nanos() as u64;
//! let mut engine = Engine::new(&model, &plan, &mut memory[at..])?;
//! engine.set_clock(Some(&clock));
//!
//! let seq = engine.open()?;
//! engine.prefill(seq, &[1, 414, 435, 261, 385])?;
//! for token in [300, 301, 302] {
//!     engine.decode_step(seq, token)?;
//! }
//!
//! let metrics = engine.metrics();
//! assert_eq!((metrics.prefill.count, metrics.prefill.rows), (1, 5));
//! assert_eq!((metrics.decode.count, metrics.decode_tokens), (3, 3));
//! println!("first token: {} us", metrics.first_token.mean() / 1000);
//! println!("{:.1} tokens/s, p99 {} us", metrics.tokens_per(1_000_000_000), metrics.decode.p99 / 1000);
//!
//! // Figures of the next minute, turn or level.
//! engine.reset_metrics();
//! assert_eq!(engine.metrics().decode.count, 0);
//! # Ok(())
//! # }
//! ```

mod histogram;
mod recorder;

use bytemuck::{Pod, Zeroable};

pub(crate) use recorder::{NEVER, Pass, Recorder};

/// The host's clock.
///
/// Closures that return ticks are clocks. [Example](crate::metrics#example).
pub trait Clock: Sync {
    /// Returns the time, in ticks of any length that never run backwards.
    fn ticks(&self) -> u64;
}

impl<F: Fn() -> u64 + Sync> Clock for F {
    fn ticks(&self) -> u64 {
        self()
    }
}

/// Statistics of times, in ticks of a clock of the host.
///
/// [Example](crate::metrics#example).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
#[non_exhaustive]
pub struct Times {
    /// Number of times.
    pub count: u64,
    /// Sum of all times.
    pub sum: u64,
    /// The shortest time, or 0 if there is none.
    pub min: u64,
    /// The longest time, or 0 if there is none.
    pub max: u64,
}

/// Forward passes of one phase.
///
/// [Example](crate::metrics#example).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
#[non_exhaustive]
pub struct Passes {
    /// Number of passes that came to their end.
    pub count: u64,
    /// Number of rows of these passes.
    pub rows: u64,
    /// Ticks that each of these passes took in calls of the engine. What the host does between two steps is not
    /// included.
    pub times: Times,
    /// The time that half of the passes did not exceed, with an error of at most 1/16 of it.
    pub p50: u64,
    /// The time that 99 of 100 passes did not exceed, with the same error.
    pub p99: u64,
}

/// Rows that did not have to be computed, by the reason.
///
/// [Example](crate::metrics#example).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
#[non_exhaustive]
pub struct Saved {
    /// Tokens of cached prefixes, see [`Engine::reuse`](crate::Engine::reuse).
    pub prefix: u64,
    /// Tokens with which forks began.
    pub fork: u64,
    /// Tokens before the checkpoints to which sequences were rewound, in models with recurrent layers.
    pub checkpoint: u64,
    /// Tokens that conversations found in their sequences, see
    /// [`Conversation::update`](crate::conversation::Conversation::update).
    pub conversation: u64,
}

/// What an engine has done since it was made, or since [`Engine::reset_metrics`](crate::Engine::reset_metrics).
///
/// Counts do not depend on the number of threads or on the machine. Times are 0 without a clock. Numbers that would
/// become too large stay at the largest one.
///
/// [Example](crate::metrics#example).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
#[non_exhaustive]
pub struct Metrics {
    /// Passes over prompts: over queues with several tokens.
    pub prefill: Passes,
    /// Passes that decode: over queues with one token each, and the guesses behind it.
    pub decode: Passes,
    /// Passes over prompts and decoded tokens together.
    pub mixed: Passes,
    /// Number of passes that were begun, and dropped by a cancel or an error.
    pub dropped: u64,
    /// Ticks from the call that queued a prompt to the logits of its last token, for prompts that have logits. What the
    /// host does meanwhile is included.
    pub first_token: Times,
    /// Tokens that decode passes appended, without guesses that were wrong.
    pub decode_tokens: u64,
    /// Rows of tokens that were part of their sequence before: rows that are computed again without a cache, or after a
    /// rewind to a position without a checkpoint.
    pub rows_again: u64,
    /// Rows that did not have to be computed.
    pub saved: Saved,
    /// Tokens that were guessed and looked at.
    pub guesses_proposed: u64,
    /// Number of these guesses that were right. Each of them saved a decode pass.
    pub guesses_accepted: u64,
    /// Calls of [`Engine::step`](crate::Engine::step), including those inside calls that work until the end.
    pub steps: u64,
    /// Steps that the budget ended: by units, at its deadline, or by its flag.
    pub yields: u64,
    /// Ticks of the deadline's clock by which steps that a deadline ended were late.
    pub overshoot: Times,
    /// Blocks that sequences and pins hold now, in all pools.
    pub blocks_used: u64,
    /// The largest number of blocks that were held, added up over the pools.
    pub blocks_high_water: u64,
    /// Slots for states of recurrent layers that are in use now.
    pub slots_used: u64,
    /// The largest number of these slots that were in use.
    pub slots_high_water: u64,
}

impl Times {
    fn add(&mut self, ticks: u64) {
        self.min = if self.count == 0 { ticks } else { self.min.min(ticks) };
        self.max = self.max.max(ticks);
        self.count = self.count.saturating_add(1);
        self.sum = self.sum.saturating_add(ticks);
    }

    /// Returns the mean, or 0 if there are no times.
    pub fn mean(&self) -> u64 {
        self.sum.checked_div(self.count).unwrap_or(0)
    }
}

impl Metrics {
    /// Returns the number of rows of all passes that came to their end.
    pub fn rows(&self) -> u64 {
        self.prefill.rows.saturating_add(self.decode.rows).saturating_add(self.mixed.rows)
    }

    /// Returns how many tokens are decoded in `ticks` ticks of decode passes, or 0 without a clock. With the ticks of a
    /// second these are tokens per second. The host's choice of tokens is not included.
    pub fn tokens_per(&self, ticks: u64) -> f64 {
        match self.decode.times.sum {
            0 => 0.0,
            sum => self.decode_tokens as f64 * ticks as f64 / sum as f64,
        }
    }
}
