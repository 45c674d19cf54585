//! Tokens that have to follow a text, so that they need no choice.

use super::error::MatchError;
use super::matcher::{Matcher, insert};
use super::trie::{TokenTrie, Vocabulary};
use crate::token::{EncodeOptions, Tokenizer};

/// The most forced bytes that are made tokens at once.
const BYTES: usize = 256;

impl Matcher<'_, '_> {
    /// Returns the 32-bit words of scratch that [`Matcher::forced_tokens`] needs.
    pub fn forced_scratch_len(tokenizer: &Tokenizer<'_, '_>) -> usize {
        tokenizer.scratch_len(BYTES).saturating_add(2 * BYTES)
    }

    /// Writes the tokens that have to follow into `out`, as many as fit. Returns how many there are. The state does not
    /// change, but a mask in the making begins anew. [`Matcher::accept`] takes each of them.
    ///
    /// The tokens spell the first bytes of [`Matcher::forced`], at most 256 of them. A token is among them only if the
    /// tokenizer writes it there whatever follows. Near the end of the forced bytes a longer token can begin that
    /// reaches over the end. So each place where such a token of the vocabulary begins is tried as an end, and only the
    /// first tokens that are the same for all ends are written. The bytes are encoded as the continuation of a text, so
    /// the model's last token stays as it is.
    ///
    /// # Errors
    /// [`MatchError::ScratchTooSmall`]; a limit is exceeded.
    pub fn forced_tokens(
        &mut self,
        tokenizer: &Tokenizer<'_, '_>,
        trie: &TokenTrie<'_>,
        scratch: &mut [u32],
        out: &mut [u32],
    ) -> Result<usize, MatchError> {
        let (needed, given) = (Self::forced_scratch_len(tokenizer), scratch.len());
        let (ids, others, scratch) = scratch
            .split_at_mut_checked(BYTES)
            .and_then(|(ids, rest)| rest.split_at_mut_checked(BYTES).map(|(others, rest)| (ids, others, rest)))
            .filter(|_| given >= needed)
            .ok_or(MatchError::ScratchTooSmall { needed, given })?;
        let mut bytes = [0; BYTES];
        let (count, behind) = self.forced_behind(&mut bytes)?;
        let bytes = bytes.get(..count).unwrap_or_default();
        let mut next = self.bytes_behind(behind);
        let text = match core::str::from_utf8(bytes) {
            Ok(text) => text,
            // The byte that follows the last whole character is known.
            Err(error) => {
                let (whole, rest) = bytes.split_at_checked(error.valid_up_to()).unwrap_or_default();
                next = [0; 4];
                rest.first().into_iter().for_each(|byte| insert(&mut next, *byte));
                core::str::from_utf8(whole).unwrap_or_default()
            }
        };
        if text.is_empty() {
            return Ok(0);
        }
        let mut encode = |text: &str, ids: &mut [u32]| {
            let options = EncodeOptions { continues: true, ..EncodeOptions::default() };
            // There is scratch and room for every text of at most `BYTES` bytes.
            tokenizer.encode(text, options, scratch, ids).map_or(0, |encoded| encoded.ids)
        };
        let mut kept = encode(text, ids);
        let longest = trie.longest() as usize;
        for (end, _) in text.char_indices().rev().take_while(|(end, _)| text.len().saturating_sub(*end) < longest) {
            let (text, rest) = text.split_at_checked(end).unwrap_or_default();
            if trie.goes_on(rest.as_bytes(), &next) {
                let count = encode(text, others);
                let same = ids.iter().zip(others.iter().take(count)).take_while(|(id, other)| id == other);
                kept = kept.min(same.count());
            }
        }
        let ids = ids.get(..kept.min(out.len())).unwrap_or_default();
        let spelled = spelled(tokenizer, ids, text.as_bytes());
        out.iter_mut().zip(ids).take(spelled).for_each(|(place, id)| *place = *id);
        Ok(spelled)
    }
}

/// Returns how many of the first tokens spell the beginning of a text. Tokens that stand for characters without a
/// spelling do not.
fn spelled(tokenizer: &Tokenizer<'_, '_>, ids: &[u32], text: &[u8]) -> usize {
    let mut rest = text.iter();
    ids.iter()
        .take_while(|&&id| {
            let (mut bytes, mut same) = (0_usize, true);
            tokenizer.each_byte(id, &mut |byte| {
                bytes = bytes.saturating_add(1);
                same &= rest.next() == Some(&byte);
            });
            same && bytes > 0
        })
        .count()
}
