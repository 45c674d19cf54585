//! Guesses from a grammar: the text that has to follow.

use super::{Guess, GuessError, Text};
use crate::cache::SeqId;
use crate::engine::Engine;
use crate::grammar::{MatchError, Matcher, TokenTrie};
use crate::par::Budget;
use crate::token::Tokenizer;

/// Guesses the tokens that a grammar forces, and behind them the guesses of another source that the grammar allows.
///
/// The matcher has taken all tokens of the text. Its state does not change, but a mask in the making begins anew. The
/// model may spell the forced text in other tokens. Then the guess is wrong, and the text stays the model's own.
///
/// [Example](crate::guess#example).
pub struct Forced<'f, 'g, 'm> {
    /// The matcher of the text.
    pub matcher: &'f mut Matcher<'g, 'm>,
    /// The tokenizer of the model.
    pub tokenizer: &'f Tokenizer<'f, 'f>,
    /// The tokens of the model by their bytes.
    pub trie: &'f TokenTrie<'f>,
    /// Scratch of [`Matcher::forced_scratch_len`] words.
    pub scratch: &'f mut [u32],
    /// The source of the guesses behind the forced tokens.
    pub others: &'f mut dyn Guess,
}

impl core::fmt::Debug for Forced<'_, '_, '_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Forced").field("matcher", &self.matcher).finish_non_exhaustive()
    }
}

impl Guess for Forced<'_, '_, '_> {
    fn guess(
        &mut self,
        text: &Text<'_>,
        budget: &mut Budget<'_>,
        out: &mut [u32],
    ) -> Result<Option<usize>, GuessError> {
        let forced = match self.matcher.forced_tokens(self.tokenizer, self.trie, self.scratch, out) {
            Err(error @ MatchError::ScratchTooSmall { .. }) => return Err(GuessError::Match(error)),
            // Where the matcher cannot look ahead, no tokens are forced.
            found => found.unwrap_or(0),
        };
        let (known, rest) = out.split_at_mut_checked(forced).unwrap_or_default();
        if rest.is_empty() {
            return Ok(Some(forced));
        }
        let token = |at: usize| match at.checked_sub(text.len()) {
            Some(index) => known.get(index).copied(),
            None => text.token(at),
        };
        let longer = Text::new(text.len().saturating_add(forced), &token);
        let Some(more) = self.others.guess(&longer, budget, rest)? else { return Ok(None) };
        let all = out.get(..forced.saturating_add(more)).unwrap_or_default();
        Ok(Some(self.matcher.allowed(self.tokenizer, all)))
    }

    fn see(&mut self, engine: &mut Engine<'_, '_>, seq: SeqId) -> Result<(), GuessError> {
        self.others.see(engine, seq)
    }
}
