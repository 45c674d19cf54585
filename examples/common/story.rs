//! The text that `generate` writes, and its statistics.

use std::io::{Write, stderr, stdout};

use gleed::Metrics;
use gleed::guess::Counts;
use gleed::sample::Choice;
use gleed::token::{StopStrings, Tokenizer};

use super::text::{self, Stream};
use super::{Result, figures};

/// Writes the generated text to standard output, and keeps a copy.
pub struct Output<'t, 'm, 'a> {
    /// Text to write before the first token.
    pub echo: &'t str,
    pub text: String,
    /// Turns tokens into text; `None` if the vocabulary cannot be used. Then ids are written.
    pub stream: Option<Stream<'t, 'm, 'a>>,
    pub stops: StopStrings<'t>,
}

impl Output<'_, '_, '_> {
    /// Writes the text of a token. Returns the index of the stop string that ends the text, if one does.
    pub fn token(&mut self, id: u32) -> Result<Option<usize>> {
        stdout().write_all(std::mem::take(&mut self.echo).as_bytes())?;
        let Some(stream) = &mut self.stream else {
            self.write(&format!("{id} "))?;
            return Ok(None);
        };
        let shown = self.stops.push(stream.push(id));
        let (text, stop) = ([shown.held, shown.text].concat(), shown.stop);
        self.write(&text)?;
        Ok(stop)
    }

    fn write(&mut self, text: &str) -> Result<()> {
        self.text.push_str(text);
        stdout().write_all(text.as_bytes())?;
        Ok(stdout().flush()?)
    }

    pub fn end(&mut self) -> Result<()> {
        let rest = self.stops.push(self.stream.as_mut().map_or("", Stream::finish));
        let rest = [rest.held, rest.text, self.stops.finish()].concat();
        self.write(&rest)?;
        Ok(stdout().write_all(b"\n")?)
    }
}

#[derive(Clone, Default, PartialEq)]
pub enum Stop {
    End,
    #[default]
    Length,
    Context(usize),
    /// The text came to this stop string.
    Text(String),
    /// The text is complete, and its grammar lets nothing follow.
    Complete,
    Interrupted,
}

/// The generated tokens, and how long they took.
#[derive(Default)]
pub struct Story {
    pub ids: Vec<u32>,
    probabilities: Vec<f32>,
    /// Time at which each token was known, in milliseconds from the start.
    at_ms: Vec<f64>,
    /// Milliseconds of each forward pass. The first one ran the prompt. Each later one ran the previous token and the
    /// tokens that were forced after it.
    forward_ms: Vec<f64>,
    /// Number of forced tokens, which were not chosen from logits.
    forced: usize,
    /// Counts of guesses and of right ones.
    pub guesses: Counts,
    /// Calls of tools in the text, as JSON; `None` if no tools were offered.
    pub calls: Option<Vec<serde_json::Value>>,
    /// Whether the grammar lets the text end here; `None` without a grammar.
    pub complete: Option<bool>,
    pub stop: Stop,
    /// Metrics of the engine for this text.
    pub metrics: Metrics,
}

impl Story {
    /// Adds a forward pass that took `ms` milliseconds.
    pub fn forward(&mut self, ms: f64) {
        self.forward_ms.push(ms);
    }

    /// Adds a token that was known `at_ms` milliseconds after the start.
    pub fn add(&mut self, choice: Choice, at_ms: f64) {
        self.ids.push(choice.token);
        self.probabilities.push(choice.probability);
        self.at_ms.push(at_ms);
    }

    /// Adds a forced token.
    pub fn add_forced(&mut self, token: u32, at_ms: f64) {
        self.forced += 1;
        self.add(Choice { token, probability: 1.0 }, at_ms);
    }

    fn decode_tok_s(&self) -> Option<f64> {
        let (first, last) = (self.at_ms.first()?, self.at_ms.last()?);
        (last > first).then(|| 1000.0 * (self.ids.len() - 1) as f64 / (last - first))
    }

    pub fn print_tokens(&self, tokenizer: Option<&Tokenizer<'_, '_>>, prompt: &[u32]) -> Result<()> {
        let mut err = stderr().lock();
        let piece = |id| tokenizer.map(|tokenizer| format!("{:?}", text::piece(tokenizer, id))).unwrap_or_default();
        writeln!(err, "\n{:8} {:>7} {:20} {:>11} {:>9}", "phase", "id", "text", "probability", "ms")?;
        for (index, &id) in prompt.iter().enumerate() {
            let ms = self.forward_ms.first().filter(|_| index + 1 == prompt.len());
            let ms = ms.map(|ms| format!("{ms:.2}")).unwrap_or_default();
            writeln!(err, "{:8} {id:>7} {:20} {:>11} {ms:>9}", "prefill", piece(id), "")?;
        }
        let mut before = self.forward_ms.first().copied().unwrap_or(0.0);
        for ((&id, probability), &at) in self.ids.iter().zip(&self.probabilities).zip(&self.at_ms) {
            writeln!(err, "{:8} {id:>7} {:20} {probability:>11.4} {:>9.2}", "decode", piece(id), at - before)?;
            before = at;
        }
        Ok(())
    }

    pub fn print_statistics(&self, prompt: usize) -> Result<()> {
        let mut err = stderr().lock();
        let end = match &self.stop {
            Stop::End => "the model ended the text".into(),
            Stop::Length => "-n tokens generated".into(),
            Stop::Context(context) => format!("the context of {context} tokens is full"),
            Stop::Text(text) => format!("the text came to {text:?}"),
            Stop::Complete => "nothing may follow the text".into(),
            Stop::Interrupted => "interrupted".into(),
        };
        let incomplete = if self.complete == Some(false) { ", the text is not complete" } else { "" };
        writeln!(err, "\nstopped: {end}{incomplete}")?;
        let count = |tokens| if tokens == 1 { "1 token".into() } else { format!("{tokens} tokens") };
        if let Some(ttft) = self.at_ms.first() {
            writeln!(err, "prompt: {}, time to first token {ttft:.1} ms", count(prompt))?;
        }
        write!(err, "generated: {}", count(self.ids.len()))?;
        if self.forced > 0 {
            write!(err, ", {} of them forced", self.forced)?;
        }
        if self.guesses.proposed > 0 {
            write!(err, ", {} of {} guesses right", self.guesses.accepted, self.guesses.proposed)?;
        }
        match self.decode_tok_s() {
            Some(speed) => writeln!(err, ", {speed:.1} tokens/s after the first")?,
            None => writeln!(err)?,
        }
        Ok(writeln!(err, "{}", figures::text(&self.metrics))?)
    }

    pub fn to_json(&self, prompt: &[u32], text: &str) -> serde_json::Value {
        serde_json::json!({
            "prompt_ids": prompt,
            "ids": self.ids,
            "text": text,
            "ttft_ms": self.at_ms.first(),
            "decode_tok_s": self.decode_tok_s(),
            "forward_ms": self.forward_ms,
            "forced": self.forced,
            "proposed": self.guesses.proposed,
            "accepted": self.guesses.accepted,
            "complete": self.complete,
            "calls": self.calls,
            "metrics": figures::json(&self.metrics),
        })
    }
}
