//! The run of `gpu/examples/gpu_selftest.rs`, by steps that never wait: the same hash.

use gleed::num::Xxh64;
use gleed::sample::argmax;
use gleed::{Engine, Logits, SeqId, Step};
use gleed_gpu::Arrival;
use js_sys::Date;
use wasm_bindgen::JsError;

use super::error;

const PROMPT: u32 = 80;
const TOKENS: usize = 16;
/// Number of tokens whose ids go into the hash.
const CHOSEN: usize = 8;
/// Units of a step. Without a limit a step would wait for the device.
const UNITS: usize = usize::MAX / 2;

/// The results of a run.
pub(crate) struct Run {
    pub(crate) hash: u64,
    /// Tokens of the prompt per second.
    pub(crate) prefill: f64,
    /// Tokens after the prompt per second.
    pub(crate) decode: f64,
}

/// Runs a prompt, and then tokens by the largest logit. The hash has all logits of the first ones, and the ids of the
/// others.
pub(crate) async fn run(engine: &mut Engine<'_, '_>, arrival: Option<&Arrival>) -> Result<Run, JsError> {
    let vocab = engine.model().config().vocab as u32;
    let prompt: Vec<u32> = (0..PROMPT).map(|i| (i * 7919 + 13) % vocab).collect();
    let (seq, mut hash) = (engine.open().map_err(error)?, Xxh64::new());
    let mut add = |logits: &[f32]| logits.iter().for_each(|x| hash.update(&x.to_bits().to_le_bytes()));
    let started = Date::now();
    let mut next = 0;
    let mut first = |logits: &[f32]| {
        add(logits);
        next = argmax(logits).map_err(error)?;
        Ok(())
    };
    step(engine, arrival, seq, &prompt, &mut first).await?;
    let prefill = f64::from(PROMPT) / seconds(started);
    let started = Date::now();
    let mut ids = Vec::new();
    for index in 0..TOKENS + CHOSEN {
        let token = next;
        let mut one = |logits: &[f32]| {
            if index < TOKENS {
                add(logits);
            }
            next = argmax(logits).map_err(error)?;
            Ok(())
        };
        step(engine, arrival, seq, &[token], &mut one).await?;
        if index >= TOKENS {
            ids.push(next);
        }
    }
    let decode = (TOKENS + CHOSEN) as f64 / seconds(started);
    ids.iter().for_each(|id| hash.update(&id.to_le_bytes()));
    Ok(Run { hash: hash.finish(), prefill, decode })
}

/// Appends tokens, and gives `found` the logits of the last one. The browser works between the steps.
async fn step(
    engine: &mut Engine<'_, '_>,
    arrival: Option<&Arrival>,
    seq: SeqId,
    tokens: &[u32],
    found: &mut dyn FnMut(&[f32]) -> Result<(), JsError>,
) -> Result<(), JsError> {
    let length = engine.seq_len(seq).map_err(error)?;
    engine.queue(seq, length, tokens, Logits::Last).map_err(error)?;
    loop {
        match engine.step(UNITS).map_err(error)? {
            Step::Ready => return found(engine.logits(seq).ok_or_else(|| JsError::new("there are no logits"))?),
            Step::Idle => return Err(JsError::new("there are no logits")),
            Step::Yielded | Step::Cancelled => {
                if let Some(arrival) = arrival {
                    arrival.wait().await;
                }
            }
        }
    }
}

fn seconds(started: f64) -> f64 {
    ((Date::now() - started) / 1e3).max(1e-3)
}
