//! The vocabulary of a made model.

use super::shape::{Shape, TOKEN_TYPES};
use crate::gguf::{Header, Value};

const NORMAL: i32 = 1;
const CONTROL: i32 = 3;

impl Shape {
    /// Writes a vocabulary of byte-level BPE: the bytes, then words of the letters a to z in order of their length,
    /// then special tokens. The merge of a word joins the word without its last letter and that letter.
    pub(super) fn describe_vocabulary(&self, header: &mut Header) {
        const SPECIAL: [&str; 3] = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"];
        let mut tokens: Vec<String> = byte_characters().map(String::from).collect();
        let room = self.vocab - SPECIAL.len() - tokens.len();
        let words = (1..).map(word).filter(|word| word.len() > 1).take(room);
        let mut merges = Vec::new();
        for word in words {
            let (start, letter) = word.split_at(word.len() - 1);
            merges.push(format!("{start} {letter}"));
            tokens.push(word);
        }
        let end = tokens.len() as u32;
        let mut types = vec![NORMAL; tokens.len()];
        types.resize(self.vocab, CONTROL);
        tokens.extend(SPECIAL.map(String::from));
        header.set("tokenizer.ggml.model", Value::Text("gpt2".into()));
        header.set("tokenizer.ggml.pre", Value::Text(self.pre_tokenizer.into()));
        header.set("tokenizer.ggml.tokens", Value::Texts(tokens));
        header.set("tokenizer.ggml.token_type", Value::I32s(types));
        header.set("tokenizer.ggml.merges", Value::Texts(merges));
        header.set("tokenizer.ggml.bos_token_id", Value::U32(end));
        header.set("tokenizer.ggml.eos_token_id", Value::U32(end));
        header.set("tokenizer.ggml.add_bos_token", Value::Bool(self.bos));
    }

    /// Writes a vocabulary of WordPiece: special tokens, then words and ends of words in turn.
    pub(super) fn describe_words(&self, header: &mut Header) {
        const SPECIAL: [&str; 5] = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"];
        const BLANK: char = '\u{2581}';
        let pieces = (1..).map(word).flat_map(|word| [format!("{BLANK}{word}"), word]);
        let tokens: Vec<_> = SPECIAL.into_iter().map(String::from).chain(pieces).take(self.vocab).collect();
        let mut types = vec![CONTROL; SPECIAL.len()];
        types.resize(self.vocab, NORMAL);
        header.set("tokenizer.ggml.model", Value::Text("bert".into()));
        header.set("tokenizer.ggml.pre", Value::Text("jina-v2-en".into()));
        header.set("tokenizer.ggml.tokens", Value::Texts(tokens));
        header.set("tokenizer.ggml.token_type", Value::I32s(types));
        header.set("tokenizer.ggml.token_type_count", Value::U32(TOKEN_TYPES as u32));
        let ids = [("padding", 0), ("unknown", 1), ("cls", 2), ("bos", 2), ("seperator", 3), ("mask", 4)];
        ids.into_iter().for_each(|(name, id)| header.set(&format!("tokenizer.ggml.{name}_token_id"), Value::U32(id)));
    }
}

/// Returns the word with this number. The words of the letters a to z are ordered by length, then alphabetically. The
/// first is number 1.
fn word(mut number: usize) -> String {
    const LETTERS: usize = 26;
    let mut letters = Vec::new();
    while number > 0 {
        number -= 1;
        letters.push(char::from(b'a' + (number % LETTERS) as u8));
        number /= LETTERS;
    }
    letters.into_iter().rev().collect()
}

/// Returns the characters that stand for the 256 bytes in GPT-2's vocabulary.
fn byte_characters() -> impl Iterator<Item = char> {
    let visible = |byte: &u32| matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
    let shown = (0..256).filter(visible);
    let hidden = (0..256).filter(move |byte| !visible(byte)).enumerate().map(|(index, _)| 256 + index as u32);
    shown.chain(hidden).filter_map(char::from_u32)
}
