//! Texts that follow a grammar.

use std::vec;
use std::vec::Vec;

use super::{Pieces, Session, SessionError};
use crate::grammar::{ErrorKind, GrammarError, Limits, Options, Source, TokenTrie};
use crate::host::{OwnedGrammar, OwnedMatcher, OwnedTrie};
use crate::token::Tokenizer;

/// The grammar that a text follows, and how far the text has come.
#[derive(Debug)]
pub(super) struct Form {
    matcher: OwnedMatcher,
    mask: Vec<u32>,
    /// Tokens that end a text.
    ends: Vec<u32>,
}

impl<'s> Pieces<'s> {
    /// Returns the pieces of a text that follows a JSON Schema, a grammar or a regular expression. The text begins with
    /// the next piece and has no thoughts. It comes to its end within
    /// [`SessionOptions::tokens`](super::SessionOptions::tokens) wherever it can.
    ///
    /// # Errors
    /// [`SessionError::Grammar`] with the place where the source is wrong or not supported. [`Source::Tools`] is not
    /// supported. The text is empty then.
    pub fn follow(mut self, source: Source<'_>) -> Result<Self, SessionError> {
        if let Source::Tools(_) = source {
            return Err(GrammarError { kind: ErrorKind::Unsupported("a list of tools"), at: 0 }.into());
        }
        let options = Options { close: true, ..Options::default() };
        let matcher = OwnedGrammar::new(source, &options)?.matcher(Limits::default())?;
        let ends = self.end_tokens();
        let Session { trie, tokenizer, .. } = self.session();
        let mask = vec![0; sorted(trie, tokenizer.get())?.mask_len()];
        self.set_form(Form { matcher, mask, ends });
        Ok(self)
    }
}

impl Form {
    /// Returns whether the text is complete: nothing may follow it.
    pub(super) fn is_complete(&mut self) -> bool {
        self.matcher.with(|matcher| matcher.is_complete())
    }

    /// Chooses a token behind the last one of the session's sequence, and takes it. The text must not be complete.
    /// `left` is the largest number of tokens to come.
    pub(super) fn choose(&mut self, session: &mut Session, left: usize) -> Result<u32, SessionError> {
        let Self { matcher, mask, ends } = self;
        let Session { engine, tokenizer, trie, seq, sampler, masses, .. } = session;
        let tokenizer = tokenizer.get();
        let trie = sorted(trie, tokenizer)?;
        matcher.with(|matcher| {
            matcher.mask_within(trie, left, usize::MAX, mask)?;
            let may_end = matcher.may_end();
            for &id in ends.iter().filter(|_| may_end) {
                if let Some(word) = mask.get_mut(id as usize / 32) {
                    *word |= 1 << (id % 32);
                }
            }
            let choice =
                engine.with(|engine| sampler.sample_masked(engine.logits(*seq).unwrap_or_default(), mask, masses))?;
            if !(may_end && ends.contains(&choice.token)) {
                matcher.accept(tokenizer, choice.token)?;
            }
            Ok(choice.token)
        })
    }
}

/// Returns the vocabulary's tokens, sorted by their bytes. They are sorted once.
fn sorted<'t>(
    trie: &'t mut Option<OwnedTrie>,
    tokenizer: &Tokenizer<'_, '_>,
) -> Result<&'t TokenTrie<'t>, SessionError> {
    let trie = match trie {
        Some(trie) => trie,
        None => trie.insert(OwnedTrie::new(tokenizer)?),
    };
    Ok(trie.get())
}
