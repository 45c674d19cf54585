//! The vocabulary of a made model.

use super::shape::Shape;
use crate::common::gguf::{Header, Value};

impl Shape {
    /// Byte-level BPE: the bytes, then words of the letters a to z in order of their length, each made of the word
    /// without its last letter and that letter, then special tokens.
    pub(super) fn describe_vocabulary(&self, header: &mut Header) {
        const SPECIAL: [&str; 3] = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"];
        let mut tokens: Vec<String> = byte_characters().map(String::from).collect();
        let mut merges = Vec::new();
        let mut words = vec![String::new()];
        while tokens.len() + SPECIAL.len() < self.vocab {
            let longer = words.iter().flat_map(|word| ('a'..='z').map(move |letter| (word.clone(), letter)));
            let longer: Vec<_> = longer.take(self.vocab).collect();
            let room = self.vocab - SPECIAL.len() - tokens.len();
            for (word, letter) in longer.iter().filter(|(word, _)| !word.is_empty()).take(room) {
                merges.push(format!("{word} {letter}"));
                tokens.push(format!("{word}{letter}"));
            }
            words = longer.into_iter().map(|(word, letter)| format!("{word}{letter}")).collect();
        }
        const NORMAL: i32 = 1;
        const CONTROL: i32 = 3;
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
}

/// The characters that stand for the 256 bytes in GPT-2's vocabulary.
fn byte_characters() -> impl Iterator<Item = char> {
    let visible = |byte: &u32| matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
    let shown = (0..256).filter(visible);
    let hidden = (0..256).filter(move |byte| !visible(byte)).enumerate().map(|(index, _)| 256 + index as u32);
    shown.chain(hidden).filter_map(char::from_u32)
}
