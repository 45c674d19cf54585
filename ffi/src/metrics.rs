//! Metrics for hosts: what an engine has done, in counts and times.

use core::ffi::c_void;

use gleed::metrics::{Clock, Metrics, Passes, Times};

use crate::engine::{clock_place, gleed_engine};
use crate::error::{boundary, gleed_error};
use crate::object::Object;
use crate::status;
use crate::step::gleed_clock;
use crate::versioned::{Versioned, out_struct};

/// Times in ticks of a clock of the host; see `include/gleed.h`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct gleed_times {
    /// Number of times.
    pub count: u64,
    /// Sum of all times.
    pub sum: u64,
    /// The shortest time.
    pub min: u64,
    /// The longest time.
    pub max: u64,
}

/// Forward passes of one phase; see `include/gleed.h`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct gleed_passes {
    /// Passes that came to their end.
    pub count: u64,
    /// Rows of these passes.
    pub rows: u64,
    /// Ticks that each pass took in calls of the engine.
    pub times: gleed_times,
    /// Ticks that half of the passes did not exceed.
    pub p50: u64,
    /// Ticks that 99 of 100 passes did not exceed.
    pub p99: u64,
}

/// What an engine has done; see `include/gleed.h`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct gleed_metrics {
    /// `sizeof(gleed_metrics)`, set by the caller.
    pub struct_size: u32,
    /// 0.
    pub reserved: u32,
    /// Passes over prompts.
    pub prefill: gleed_passes,
    /// Passes over single tokens.
    pub decode: gleed_passes,
    /// Passes over prompts and single tokens.
    pub mixed: gleed_passes,
    /// Passes that a cancel or an error dropped.
    pub dropped: u64,
    /// Ticks from the call that queued a prompt to the logits of its last token.
    pub first_token: gleed_times,
    /// Tokens that decode passes appended.
    pub decode_tokens: u64,
    /// Rows that computed tokens again which were part of their sequence before.
    pub rows_again: u64,
    /// Rows that were not computed: tokens of cached prefixes.
    pub saved_prefix: u64,
    /// Rows that were not computed: tokens with which forks began.
    pub saved_fork: u64,
    /// Rows that were not computed: tokens before checkpoints that rewinds went back to.
    pub saved_checkpoint: u64,
    /// Rows that were not computed: tokens that conversations found in their sequences.
    pub saved_conversation: u64,
    /// Tokens that were guessed and looked at.
    pub guesses_proposed: u64,
    /// Guessed tokens that were right.
    pub guesses_accepted: u64,
    /// Number of steps.
    pub steps: u64,
    /// Steps that the budget ended.
    pub yields: u64,
    /// Ticks by which steps that a deadline ended were late.
    pub overshoot: gleed_times,
    /// Blocks that sequences and pins hold now.
    pub blocks_used: u64,
    /// The most blocks that were held at a time.
    pub blocks_high_water: u64,
    /// Places for states of recurrent layers that are in use now.
    pub slots_used: u64,
    /// The most such places that were in use at a time.
    pub slots_high_water: u64,
}

// SAFETY: integers, the first the size and the 8-byte ones at multiples of 8, in structs of such integers: no gaps, and
// every bit pattern is one.
unsafe impl Versioned for gleed_metrics {}

/// The host's clock as an engine keeps it.
#[derive(Debug)]
pub(crate) struct HostClock {
    clock: unsafe extern "C" fn(ctx: *mut c_void) -> u64,
    ctx: *mut c_void,
}

// SAFETY: the engine calls it only from the thread that the engine is used on, one call at a time. What else happens
// with `ctx` is up to the host.
unsafe impl Sync for HostClock {}

impl Clock for HostClock {
    fn ticks(&self) -> u64 {
        // SAFETY: gleed.h demands that `clock` may be called with `ctx` as long as the engine has it.
        unsafe { (self.clock)(self.ctx) }
    }
}

impl From<Times> for gleed_times {
    fn from(times: Times) -> Self {
        Self { count: times.count, sum: times.sum, min: times.min, max: times.max }
    }
}

impl From<Passes> for gleed_passes {
    fn from(passes: Passes) -> Self {
        let Passes { count, rows, times, p50, p99, .. } = passes;
        Self { count, rows, times: times.into(), p50, p99 }
    }
}

impl From<Metrics> for gleed_metrics {
    fn from(metrics: Metrics) -> Self {
        Self {
            struct_size: 0,
            reserved: 0,
            prefill: metrics.prefill.into(),
            decode: metrics.decode.into(),
            mixed: metrics.mixed.into(),
            dropped: metrics.dropped,
            first_token: metrics.first_token.into(),
            decode_tokens: metrics.decode_tokens,
            rows_again: metrics.rows_again,
            saved_prefix: metrics.saved.prefix,
            saved_fork: metrics.saved.fork,
            saved_checkpoint: metrics.saved.checkpoint,
            saved_conversation: metrics.saved.conversation,
            guesses_proposed: metrics.guesses_proposed,
            guesses_accepted: metrics.guesses_accepted,
            steps: metrics.steps,
            yields: metrics.yields,
            overshoot: metrics.overshoot.into(),
            blocks_used: metrics.blocks_used,
            blocks_high_water: metrics.blocks_high_water,
            slots_used: metrics.slots_used,
            slots_high_water: metrics.slots_high_water,
        }
    }
}

/// Lends the host's clock to the metrics of an engine.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_set_clock(
    engine: *mut gleed_engine,
    clock: gleed_clock,
    ctx: *mut c_void,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment and the tag and address of `engine` are checked here. gleed.h demands the rest:
        // nothing but this call uses `engine`.
        let mut inner = unsafe { Object::get_mut("engine", engine) }?;
        // The engine does not point to the old clock while the new one is written over it.
        inner.set_clock(None);
        if let Some(clock) = clock {
            let place = clock_place(engine);
            // SAFETY: `get_mut` has found an engine, which lies at the start of a `Head` with room for a clock
            // (`gleed_engine_init` has measured the memory). Nothing else points there: the engine has just lost its
            // own.
            let kept = unsafe {
                place.write(HostClock { clock, ctx });
                &*place
            };
            inner.set_clock(Some(kept));
        }
        Ok(status::OK)
    })
}

/// Writes what an engine has done to `metrics`.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_engine_metrics(
    engine: *const gleed_engine,
    metrics: *mut gleed_metrics,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment, struct_size and the tag and address of `engine` are checked here. gleed.h demands
        // the rest: no other call changes `engine`, and `metrics` has as many bytes as its struct_size says.
        let (engine, metrics) = unsafe { (Object::get("engine", engine)?, out_struct("metrics", metrics)?) };
        metrics.write(engine.metrics().into());
        Ok(status::OK)
    })
}

/// Sets all counts and times to 0, and the high-water marks to what is in use now.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_engine_reset_metrics(engine: *mut gleed_engine, error: *mut gleed_error) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment and the tag and address of `engine` are checked here. gleed.h demands the rest:
        // nothing but this call uses `engine`.
        unsafe { Object::get_mut("engine", engine) }?.reset_metrics();
        Ok(status::OK)
    })
}
