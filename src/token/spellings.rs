//! The tokens that spell a text.

use super::encode::EncodeOptions;
use super::error::TokenError;
use super::tokenizer::Tokenizer;

impl Tokenizer<'_, '_> {
    /// Returns the number of 32-bit words of scratch that [`Tokenizer::each_spelling`] needs for any text of
    /// `text_bytes` bytes.
    pub fn spellings_scratch_len(&self, text_bytes: usize) -> usize {
        self.scratch_len(text_bytes).saturating_add(text_bytes)
    }

    /// Calls `f` with each way in which a model writes a text in the middle of another one. These are all single tokens
    /// with this text (some vocabularies have several), and the tokens into which the tokenizer encodes it, if these
    /// are more than one.
    ///
    /// The text is taken as it is. A word in the middle of a sentence begins with its blank, so a caller that looks for
    /// a word also asks for the word with a blank. Longer tokens that contain the text are not among the spellings, nor
    /// are ways to split it that the tokenizer does not use.
    ///
    /// The time grows with the size of the vocabulary.
    ///
    /// [Example](crate::token#the-tokens-of-a-word).
    ///
    /// # Errors
    /// `scratch` is too small, the text is longer than 2^28 bytes, or the vocabulary cannot spell it. In these cases
    /// `f` is not called.
    pub fn each_spelling(&self, text: &str, scratch: &mut [u32], f: &mut dyn FnMut(&[u32])) -> Result<(), TokenError> {
        let (needed, given) = (self.spellings_scratch_len(text.len()), scratch.len());
        let small = TokenError::ScratchTooSmall { needed, given };
        let (ids, scratch) = scratch.split_at_mut_checked(text.len()).ok_or(small)?;
        let options = EncodeOptions { continues: true, exact: true, ..EncodeOptions::default() };
        let encoded = match self.encode(text, options, scratch, ids) {
            Err(TokenError::ScratchTooSmall { .. }) => Err(small),
            other => other,
        }?;
        let encoded = ids.get(..encoded.ids).unwrap_or_default();
        let mut is_there = false;
        for id in (0..self.vocab().len() as u32).filter(|&id| self.is_text(id, text)) {
            is_there |= encoded == [id];
            f(&[id]);
        }
        if !encoded.is_empty() && !is_there {
            f(encoded);
        }
        Ok(())
    }

    /// Returns whether a token adds exactly these bytes in the middle of a text.
    fn is_text(&self, id: u32, text: &str) -> bool {
        let mut rest = text.bytes();
        let (mut bytes, mut same) = (0_usize, true);
        self.each_byte_of_text(id, &mut |byte| {
            bytes = bytes.saturating_add(1);
            same = same && rest.next() == Some(byte);
        });
        same && bytes == text.len() && bytes > 0
    }
}
