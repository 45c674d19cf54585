//! Text to ids and back, with buffers of the right size.

use std::ops::Range;

use gleed::token::{DecodeOptions, Detokenizer, EncodeOptions, Encoded, TokenError, Tokenizer};

/// The ids of `text` and nothing else.
pub fn encode(tokenizer: &Tokenizer<'_, '_>, text: &str, options: EncodeOptions) -> Result<Vec<u32>, TokenError> {
    let mut scratch = vec![0; tokenizer.scratch_len(text.len())];
    grow(text.len(), |ids| tokenizer.encode(text, options, &mut scratch, ids))
}

/// The ids of a text with special tokens outside of the ranges `plain`.
pub fn encode_framed(
    tokenizer: &Tokenizer<'_, '_>,
    text: &str,
    plain: &[Range<usize>],
) -> Result<Vec<u32>, TokenError> {
    let mut scratch = vec![0; tokenizer.scratch_len(text.len())];
    grow(text.len(), |ids| tokenizer.encode_framed(text, plain, &mut scratch, ids))
}

/// The ids that `encode` writes. Says on standard error how many bytes the vocabulary cannot spell.
fn grow(
    bytes: usize,
    mut encode: impl FnMut(&mut [u32]) -> Result<Encoded, TokenError>,
) -> Result<Vec<u32>, TokenError> {
    // Enough for ordinary text; otherwise the error says how much it needs.
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

/// The ids of a prompt: BOS in front where the model wants it, names of special tokens in the text parsed.
pub fn encode_prompt(tokenizer: &Tokenizer<'_, '_>, text: &str) -> Result<Vec<u32>, TokenError> {
    let mut ids = encode(tokenizer, text, EncodeOptions { parse_special: true, ..EncodeOptions::default() })?;
    let bos = tokenizer.vocab().bos().filter(|_| tokenizer.vocab().adds_bos());
    if let Some(bos) = bos.filter(|bos| ids.first() != Some(bos)) {
        ids.insert(0, bos);
    }
    Ok(ids)
}

/// The ids of a text of which a vector is made: with all that the vocabulary puts around a text, names of special
/// tokens in it parsed.
pub fn encode_whole(tokenizer: &Tokenizer<'_, '_>, text: &str) -> Result<Vec<u32>, TokenError> {
    encode(tokenizer, text, EncodeOptions { add_special: true, parse_special: true, ..EncodeOptions::default() })
}

/// The same of texts with a tabulator between each and the next: what begins a text is there once, what ends one after
/// each.
pub fn encode_pair(tokenizer: &Tokenizer<'_, '_>, texts: &str) -> Result<Vec<u32>, TokenError> {
    let mut ids = Vec::new();
    for (index, text) in texts.split('\t').enumerate() {
        let begins = usize::from(index > 0 && tokenizer.vocab().adds_bos());
        ids.extend(encode_whole(tokenizer, text)?.into_iter().skip(begins));
    }
    Ok(ids)
}

/// The text of one token by itself, for tables.
pub fn piece(tokenizer: &Tokenizer<'_, '_>, id: u32) -> String {
    let mut out = vec![0; tokenizer.max_push()];
    let len = tokenizer.piece(id, &mut out).unwrap_or(0);
    String::from_utf8_lossy(&out[..len]).into_owned()
}

/// Ids that become text, complete characters only.
pub struct Stream<'t, 'm, 'a> {
    tokenizer: &'t Tokenizer<'m, 'a>,
    state: Detokenizer,
    buffer: Vec<u8>,
}

impl<'t, 'm, 'a> Stream<'t, 'm, 'a> {
    /// At the start of a text that continues another one.
    pub fn new(tokenizer: &'t Tokenizer<'m, 'a>) -> Self {
        Self::rendering(tokenizer, false)
    }

    /// The same; whether the names of control tokens are written.
    pub fn rendering(tokenizer: &'t Tokenizer<'m, 'a>, render_special: bool) -> Self {
        let options = DecodeOptions { render_special, starts_text: false };
        Self { tokenizer, state: Detokenizer::new(tokenizer, options), buffer: vec![0; tokenizer.max_push()] }
    }

    /// The text that `id` completes. A model may have more ids than its vocabulary; those have no text.
    pub fn push(&mut self, id: u32) -> &str {
        self.state.push(self.tokenizer, id, &mut self.buffer).unwrap_or_default()
    }

    /// U+FFFD where the text breaks off within a character.
    pub fn finish(&mut self) -> &'static str {
        self.state.finish()
    }
}
