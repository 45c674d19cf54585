//! Sources whose guesses are right with a given frequency, and sources that are slow.

use gleed::guess::{Guess, GuessError, Text};
use gleed::{Budget, Engine, SeqId};

use common::random::Rng;

/// A source that knows the text.
pub(crate) struct Known {
    pub(crate) text: Vec<u32>,
    /// How many of 100 guesses are right.
    pub(crate) right: usize,
    pub(crate) vocab: usize,
    pub(crate) random: Rng,
}

impl Guess for Known {
    fn guess(&mut self, text: &Text<'_>, _: &mut Budget<'_>, out: &mut [u32]) -> Result<Option<usize>, GuessError> {
        assert!(!out.is_empty() && text.token(text.len()).is_none());
        let known = self.text.iter().skip(text.len());
        let mut count = 0;
        for (place, token) in out.iter_mut().zip(known) {
            let is_right = self.random.below(100) < self.right;
            // Some of the wrong guesses are not even tokens.
            *place = if is_right { *token } else { self.random.below(self.vocab + 3) as u32 };
            count += 1;
        }
        Ok(Some(count))
    }
}

/// A source that needs several calls for its guesses.
pub(crate) struct Slow<S> {
    pub(crate) source: S,
    pub(crate) random: Rng,
}

impl<S: Guess> Guess for Slow<S> {
    fn guess(
        &mut self,
        text: &Text<'_>,
        budget: &mut Budget<'_>,
        out: &mut [u32],
    ) -> Result<Option<usize>, GuessError> {
        if self.random.below(3) > 0 { Ok(None) } else { self.source.guess(text, budget, out) }
    }

    fn see(&mut self, engine: &mut Engine<'_, '_>, seq: SeqId) -> Result<(), GuessError> {
        self.source.see(engine, seq)
    }
}
