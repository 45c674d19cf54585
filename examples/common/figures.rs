//! Shows the metrics of an engine, as lines of text and as JSON.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use gleed::Metrics;
use gleed::metrics::{Clock, Passes, Times};
use serde_json::{Value, json};

/// A clock that counts nanoseconds since its first call.
struct Nanoseconds(OnceLock<Instant>);

impl Clock for Nanoseconds {
    fn ticks(&self) -> u64 {
        self.0.get_or_init(Instant::now).elapsed().as_nanos() as u64
    }
}

/// Returns the clock for the metrics.
pub fn clock() -> &'static dyn Clock {
    static CLOCK: Nanoseconds = Nanoseconds(OnceLock::new());
    &CLOCK
}

const SECOND: u64 = 1_000_000_000;

fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

fn saved(metrics: &Metrics) -> u64 {
    let saved = metrics.saved;
    saved.prefix + saved.fork + saved.checkpoint + saved.conversation
}

/// What the engine computed for a turn before its reply.
#[derive(Clone, Copy, Default)]
pub struct Heard {
    rows: u64,
    /// Time from the start of the turn to the logits of the reply's first token.
    first: Option<Duration>,
}

impl Heard {
    /// Adds the rows that were computed between the metrics `before` and `after`, for a turn that began at `start`.
    pub fn add(&mut self, before: &Metrics, after: &Metrics, start: Instant) {
        self.rows += after.rows() - before.rows();
        self.first.get_or_insert_with(|| start.elapsed());
    }

    /// Returns a short line about the turn.
    pub fn line(&self, metrics: &Metrics) -> String {
        format!(
            "first token {:.1} ms, {:.1} tokens/s, {} rows read, {} saved",
            self.first.unwrap_or_default().as_secs_f64() * 1e3,
            metrics.tokens_per(SECOND),
            self.rows,
            saved(metrics)
        )
    }
}

/// Returns a line about the generation of a text.
pub fn text(metrics: &Metrics) -> String {
    let Passes { count, rows, p50, p99, .. } = metrics.decode;
    format!(
        "engine: {count} decode passes of {rows} rows, p50 {:.2} ms, p99 {:.2} ms; {} rows of prompts; {} blocks at most",
        ms(p50),
        ms(p99),
        metrics.prefill.rows + metrics.mixed.rows,
        metrics.blocks_high_water
    )
}

/// Returns all metrics as JSON.
pub fn json(metrics: &Metrics) -> Value {
    let times = |times: &Times| json!({"count": times.count, "min": ms(times.min), "mean": ms(times.mean()), "max": ms(times.max)});
    let passes = |passes: &Passes| {
        let mut found = json!({"count": passes.count, "rows": passes.rows, "ms": times(&passes.times)});
        found["ms"]["p50"] = json!(ms(passes.p50));
        found["ms"]["p99"] = json!(ms(passes.p99));
        found
    };
    let saved = metrics.saved;
    json!({
        "first_token_ms": times(&metrics.first_token),
        "tokens_s": metrics.tokens_per(SECOND),
        "decode_tokens": metrics.decode_tokens,
        "prefill": passes(&metrics.prefill),
        "decode": passes(&metrics.decode),
        "mixed": passes(&metrics.mixed),
        "dropped": metrics.dropped,
        "rows": metrics.rows(),
        "rows_again": metrics.rows_again,
        "saved": {
            "prefix": saved.prefix,
            "fork": saved.fork,
            "checkpoint": saved.checkpoint,
            "conversation": saved.conversation,
        },
        "proposed": metrics.guesses_proposed,
        "accepted": metrics.guesses_accepted,
        "steps": metrics.steps,
        "yields": metrics.yields,
        "overshoot_ms": times(&metrics.overshoot),
        "blocks": {"used": metrics.blocks_used, "high_water": metrics.blocks_high_water},
        "slots": {"used": metrics.slots_used, "high_water": metrics.slots_high_water},
    })
}
