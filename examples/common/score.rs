//! How well a model predicts a text.

use std::path::Path;

use gleed::Engine;

use super::Result;

/// A story that no model was trained on.
pub const STORY: &str = include_str!("../assets/story.txt");

/// Stories that no model was trained on, with [`SEPARATOR`] between them.
pub const STORIES: &str = include_str!("../assets/stories.txt");

/// What stands between the texts of a file, as in TinyStories.
pub const SEPARATOR: &str = "<|endoftext|>";

/// The texts between separators, without white space around them; one text where there is no separator.
pub fn split<'t>(text: &'t str, separator: Option<&str>) -> Vec<&'t str> {
    match separator {
        None | Some("") => vec![text],
        Some(separator) => text.split(separator).map(str::trim).filter(|text| !text.is_empty()).collect(),
    }
}

/// The text of a file.
pub fn read_text(path: &Path) -> Result<String> {
    let bytes = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(String::from_utf8(bytes).map_err(|error| format!("{}: {error}", path.display()))?)
}

/// What all chunks add up to.
#[derive(Default)]
pub struct Score {
    /// Scored tokens.
    pub tokens: usize,
    /// The sum of -ln p over them.
    pub sum: f64,
    /// Bytes of their text.
    pub bytes: i64,
}

impl Score {
    /// Scores the tokens of a chunk; the one that could not be scored, if there is one.
    pub fn chunk(
        &mut self,
        engine: &mut Engine<'_, '_>,
        bos: Option<u32>,
        chunk: &[u32],
        rows: usize,
    ) -> Result<Option<u32>> {
        let sequence = engine.open()?;
        let all: Vec<u32> = bos.into_iter().chain(chunk.iter().copied()).collect();
        let inputs = &all[..all.len() - 1];
        for piece in inputs.chunks(rows) {
            engine.prefill_rows(sequence, piece, |position, logits| {
                self.sum += nats(logits, all[position + 1]);
                self.tokens += 1;
            })?;
        }
        engine.close(sequence)?;
        Ok(if bos.is_none() { chunk.first().copied() } else { None })
    }

    pub fn nats(&self) -> f64 {
        self.sum / self.tokens as f64
    }

    pub fn bits(&self) -> f64 {
        self.sum / std::f64::consts::LN_2 / self.bytes as f64
    }
}

/// -ln of the probability of a token.
fn nats(logits: &[f32], token: u32) -> f64 {
    let max = logits.iter().fold(f32::NEG_INFINITY, |max, &logit| max.max(logit));
    let sum: f64 = logits.iter().map(|&logit| f64::from(logit - max).exp()).sum();
    sum.ln() - f64::from(logits[token as usize] - max)
}
