//! Measures the start of a program: opening the file, making the tokenizer's tables, and a snapshot of a sequence
//! without tokens.

use std::fmt;
use std::hint::black_box;
use std::time::{Duration, Instant};

use gleed::host::AlignedBytes;
use gleed::token::Tokenizer;
use gleed::{Engine, Limits, Model, Plan};
use serde_json::{Value, json};

use common::{ModelFile, Result};

/// Number of passes of each measurement. The fastest counts, because the first one reads the file.
const PASSES: usize = 5;

pub(crate) struct Start {
    open: Duration,
    /// `None` if the file has no tokenizer that Gleed knows.
    tokenizer: Option<Duration>,
    /// Time of the fastest pass, when the engine already knows the fingerprint of the model.
    empty_snapshot: Duration,
}

impl Start {
    pub(crate) fn measure(file: &ModelFile, model: &Model<'_>) -> Result<Self> {
        let open = least(|| file.model().map(drop))?;
        let tokenizer = match Tokenizer::plan(model.gguf()) {
            Ok(len) => {
                let mut tables = AlignedBytes::new(len);
                Some(least(|| {
                    black_box(&Tokenizer::new(model.gguf(), tables.bytes())?);
                    Ok(())
                })?)
            }
            Err(_) => None,
        };
        Ok(Self { open, tokenizer, empty_snapshot: empty_snapshot(model)? })
    }

    pub(crate) fn json(&self) -> Value {
        json!({
            "open_s": self.open.as_secs_f64(),
            "tokenizer_s": self.tokenizer.map(|took| took.as_secs_f64()),
            "empty_snapshot_s": self.empty_snapshot.as_secs_f64(),
        })
    }
}

impl fmt::Display for Start {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "open {:.2} ms, ", self.open.as_secs_f64() * 1e3)?;
        if let Some(took) = self.tokenizer {
            write!(f, "tokenizer {:.2} ms, ", took.as_secs_f64() * 1e3)?;
        }
        write!(f, "snapshot of an empty sequence {:.1} µs", self.empty_snapshot.as_secs_f64() * 1e6)
    }
}

fn empty_snapshot(model: &Model<'_>) -> Result<Duration> {
    let plan = Plan::new(model, &Limits { context: 16, rows: 1, ..Limits::default() })?;
    let mut memory = AlignedBytes::try_new(plan.bytes())?;
    let mut engine = Engine::new(model, &plan, memory.bytes())?;
    let sequence = engine.open()?;
    let mut snapshot = vec![0; engine.snapshot_len(sequence)?];
    least(|| {
        black_box(engine.snapshot(sequence, &mut snapshot)?);
        Ok(())
    })
}

fn least(mut work: impl FnMut() -> Result<()>) -> Result<Duration> {
    let mut least = Duration::MAX;
    for _ in 0..PASSES {
        let start = Instant::now();
        work()?;
        least = least.min(start.elapsed());
    }
    Ok(least)
}
