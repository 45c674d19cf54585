//! Scores how well a model predicts a text.

use std::path::Path;

use gleed::Engine;

use super::Result;

/// A story that no model was trained on.
pub const STORY: &str = include_str!("../assets/story.txt");

/// Stories that no model was trained on, with [`SEPARATOR`] between them.
pub const STORIES: &str = include_str!("../assets/stories.txt");

/// Separator between the texts of a file, as in TinyStories.
pub const SEPARATOR: &str = "<|endoftext|>";

/// Returns the texts between separators, without white space around them. Without a separator the whole text is one.
pub fn split<'t>(text: &'t str, separator: Option<&str>) -> Vec<&'t str> {
    match separator {
        None | Some("") => vec![text],
        Some(separator) => text.split(separator).map(str::trim).filter(|text| !text.is_empty()).collect(),
    }
}

/// Returns the text of a file.
pub fn read_text(path: &Path) -> Result<String> {
    let bytes = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(String::from_utf8(bytes).map_err(|error| format!("{}: {error}", path.display()))?)
}

/// Sums over all scored chunks.
#[derive(Default)]
pub struct Score {
    /// Number of scored tokens.
    pub tokens: usize,
    /// Sum of -ln p over the scored tokens.
    pub sum: f64,
    /// Number of bytes of the scored text.
    pub bytes: i64,
}

impl Score {
    /// Scores the tokens of a chunk. Returns the first token if it could not be scored because there is no BOS.
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

/// Returns -ln of the probability of a token.
fn nats(logits: &[f32], token: u32) -> f64 {
    let max = logits.iter().fold(f32::NEG_INFINITY, |max, &logit| max.max(logit));
    let sum: f64 = logits.iter().map(|&logit| f64::from(logit - max).exp()).sum();
    sum.ln() - f64::from(logits[token as usize] - max)
}
