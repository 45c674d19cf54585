//! Tokenizers, compared with the ids of another engine and with slow encoders, and on small vocabularies made in the
//! test.

mod characters;
mod framed;
mod keys;
mod random;
mod reference;
mod small;
#[cfg(feature = "encoder")]
mod unigram;
#[cfg(feature = "encoder")]
mod word_piece;
#[cfg(feature = "encoder")]
mod words;

use gguf_rs_lite::Gguf;
use gleed::mem::ALIGN;
use gleed::token::{DecodeOptions, EncodeOptions, Tokenizer};

/// Memory that starts at a multiple of `ALIGN`.
struct Memory {
    bytes: Vec<u8>,
    len: usize,
}

impl Memory {
    fn new(len: usize) -> Self {
        Self { bytes: vec![0xA5; len + ALIGN], len }
    }

    fn get(&mut self) -> &mut [u8] {
        let start = self.bytes.as_ptr().align_offset(ALIGN);
        &mut self.bytes[start..][..self.len]
    }
}

fn with_tokenizer(file: &[u8], test: impl FnOnce(&Tokenizer<'_, '_>)) {
    let gguf = Gguf::parse(file).unwrap();
    let mut memory = Memory::new(Tokenizer::plan(&gguf).unwrap());
    test(&Tokenizer::new(&gguf, memory.get()).unwrap());
}

fn encode(tokenizer: &Tokenizer<'_, '_>, text: &str, parse_special: bool) -> Vec<u32> {
    let options = EncodeOptions { parse_special, ..EncodeOptions::default() };
    let mut scratch = vec![0xA5A5_A5A5; tokenizer.scratch_len(text.len())];
    // The rules of a vocabulary can make texts longer.
    let mut out = vec![0; 16 * text.len() + 1];
    let count = tokenizer.encode(text, options, &mut scratch, &mut out).unwrap().ids;
    out.truncate(count);
    out
}

fn decode(tokenizer: &Tokenizer<'_, '_>, ids: &[u32]) -> String {
    let options = DecodeOptions { render_special: true, starts_text: true };
    let mut out = vec![0; ids.len() * tokenizer.max_push()];
    tokenizer.decode(ids, options, &mut out).unwrap().to_owned()
}
