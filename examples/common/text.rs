//! Converts text to ids and back, with buffers of the right size.

use std::ops::Range;

use gleed::token::{DecodeOptions, Detokenizer, EncodeOptions, Encoded, TokenError, Tokenizer};

/// Returns the ids of `text`, encoded with these options.
pub fn encode(tokenizer: &Tokenizer<'_, '_>, text: &str, options: EncodeOptions) -> Result<Vec<u32>, TokenError> {
    let mut scratch = vec![0; tokenizer.scratch_len(text.len())];
    grow(text.len(), |ids| tokenizer.encode(text, options, &mut scratch, ids))
}

/// Returns the ids of a text. Names of special tokens become these tokens, except within the ranges `plain`.
pub fn encode_framed(
    tokenizer: &Tokenizer<'_, '_>,
    text: &str,
    plain: &[Range<usize>],
) -> Result<Vec<u32>, TokenError> {
    let mut scratch = vec![0; tokenizer.scratch_len(text.len())];
    grow(text.len(), |ids| tokenizer.encode_framed(text, plain, &mut scratch, ids))
}

/// Returns the ids that `encode` writes. Prints on standard error how many bytes the vocabulary cannot spell.
fn grow(
    bytes: usize,
    mut encode: impl FnMut(&mut [u32]) -> Result<Encoded, TokenError>,
) -> Result<Vec<u32>, TokenError> {
    // This is enough for ordinary text. Otherwise the error says how much is needed.
    let mut ids = vec![0; bytes + 3];
    let mut encoded = encode(&mut ids);
    if let Err(TokenError::OutputTooSmall { needed, .. }) = encoded {
        ids.resize(needed, 0);
        encoded = encode(&mut ids);
    }
    let encoded = encoded?;
    if encoded.unspelled > 0 {
        eprintln!(
            "the vocabulary cannot spell {} bytes of the text, and the model does not see them",
            encoded.unspelled
        );
    }
    ids.truncate(encoded.ids);
    Ok(ids)
}

/// Returns the ids of a prompt, with BOS in front if the vocabulary adds it. Names of special tokens in the text become
/// these tokens.
pub fn encode_prompt(tokenizer: &Tokenizer<'_, '_>, text: &str) -> Result<Vec<u32>, TokenError> {
    let mut ids = encode(tokenizer, text, EncodeOptions { parse_special: true, ..EncodeOptions::default() })?;
    let bos = tokenizer.vocab().bos().filter(|_| tokenizer.vocab().adds_bos());
    if let Some(bos) = bos.filter(|bos| ids.first() != Some(bos)) {
        ids.insert(0, bos);
    }
    Ok(ids)
}

/// Returns the ids of a text for an embedding, with the special tokens that the vocabulary puts around a text. Names of
/// special tokens in the text become these tokens.
pub fn encode_whole(tokenizer: &Tokenizer<'_, '_>, text: &str) -> Result<Vec<u32>, TokenError> {
    encode(tokenizer, text, EncodeOptions { add_special: true, parse_special: true, ..EncodeOptions::default() })
}

/// Returns the ids of several texts for one vector. Tabs separate the texts. The token that begins a text comes once,
/// the token that ends a text comes after each.
pub fn encode_pair(tokenizer: &Tokenizer<'_, '_>, texts: &str) -> Result<Vec<u32>, TokenError> {
    let mut ids = Vec::new();
    for (index, text) in texts.split('\t').enumerate() {
        let begins = usize::from(index > 0 && tokenizer.vocab().adds_bos());
        ids.extend(encode_whole(tokenizer, text)?.into_iter().skip(begins));
    }
    Ok(ids)
}

/// Returns the text of one token by itself, for tables.
pub fn piece(tokenizer: &Tokenizer<'_, '_>, id: u32) -> String {
    let mut out = vec![0; tokenizer.max_push()];
    let len = tokenizer.piece(id, &mut out).unwrap_or(0);
    String::from_utf8_lossy(&out[..len]).into_owned()
}

/// Turns ids into text, as complete characters only.
pub struct Stream<'t, 'm, 'a> {
    tokenizer: &'t Tokenizer<'m, 'a>,
    state: Detokenizer,
    buffer: Vec<u8>,
}

impl<'t, 'm, 'a> Stream<'t, 'm, 'a> {
    /// Returns a stream for a text that continues another one.
    pub fn new(tokenizer: &'t Tokenizer<'m, 'a>) -> Self {
        Self::rendering(tokenizer, false)
    }

    /// Returns a stream for a text that continues another one. `render_special`: whether it writes the names of control
    /// tokens.
    pub fn rendering(tokenizer: &'t Tokenizer<'m, 'a>, render_special: bool) -> Self {
        let options = DecodeOptions { render_special, starts_text: false };
        Self { tokenizer, state: Detokenizer::new(tokenizer, options), buffer: vec![0; tokenizer.max_push()] }
    }

    /// Returns the text that `id` completes. A model may have more ids than its vocabulary has tokens. Such ids have no
    /// text.
    pub fn push(&mut self, id: u32) -> &str {
        self.state.push(self.tokenizer, id, &mut self.buffer).unwrap_or_default()
    }

    /// Returns U+FFFD if the text breaks off within a character.
    pub fn finish(&mut self) -> &'static str {
        self.state.finish()
    }
}
