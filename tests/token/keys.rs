//! Writes vocabularies as GGUF files.

use std::collections::BTreeMap;

use gguf_rs_lite::Gguf;
use gleed::token::{Tokenizer, VocabError};

use crate::Memory;

/// A value of a GGUF file.
#[derive(Clone)]
pub(crate) enum Value {
    Number(u32),
    Flag(bool),
    Text(&'static str),
    Texts(Vec<Vec<u8>>),
    Numbers(Vec<i32>),
    Floats(Vec<f32>),
    Bytes(Vec<u8>),
}

/// The keys of a vocabulary. Tests change them and write them as a file.
#[derive(Clone)]
pub(crate) struct Keys(BTreeMap<&'static str, Value>);

impl Keys {
    /// Returns a SentencePiece vocabulary: ids 0 to 2 are unknown, BOS and EOS, then the bytes if `bytes`, then
    /// `tokens` with their scores.
    pub(crate) fn sentence_piece(bytes: bool, tokens: &[(&str, f32)]) -> Self {
        let mut texts: Vec<Vec<u8>> = ["<unk>", "<s>", "</s>"].map(|text| text.as_bytes().to_vec()).to_vec();
        let mut kinds = vec![2, 3, 3];
        if bytes {
            texts.extend((0..=255).map(|byte: u8| format!("<0x{byte:02X}>").into_bytes()));
            kinds.extend([6; 256]);
        }
        let mut scores = vec![0.0; texts.len()];
        for &(text, score) in tokens {
            texts.push(text.as_bytes().to_vec());
            scores.push(score);
            kinds.push(1);
        }
        Self(BTreeMap::from([
            ("model", Value::Text("llama")),
            ("tokens", Value::Texts(texts)),
            ("scores", Value::Floats(scores)),
            ("token_type", Value::Numbers(kinds)),
        ]))
    }

    /// Returns a byte-level BPE vocabulary: ids 0 to 25 are the letters `a` to `z`, then `others`.
    pub(crate) fn byte_level(pre: &'static str, others: &[&str], merges: &[&str]) -> Self {
        let mut texts: Vec<Vec<u8>> = (b'a'..=b'z').map(|byte| vec![byte]).collect();
        texts.extend(others.iter().map(|text| text.as_bytes().to_vec()));
        let merges = merges.iter().map(|text| text.as_bytes().to_vec()).collect();
        Self(BTreeMap::from([
            ("model", Value::Text("gpt2")),
            ("pre", Value::Text(pre)),
            ("tokens", Value::Texts(texts)),
            ("merges", Value::Texts(merges)),
        ]))
    }

    /// Returns a WordPiece vocabulary: ids 0 to 4 are `[PAD]`, `[UNK]`, `[CLS]`, `[SEP]` and `[MASK]`, then `tokens` in
    /// BERT's notation, in which tokens that continue a word begin with `##`.
    #[cfg(feature = "encoder")]
    pub(crate) fn word_piece(tokens: &[&str]) -> Self {
        let mut texts = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"].map(|text| text.as_bytes().to_vec()).to_vec();
        texts.extend(tokens.iter().map(|text| match text.strip_prefix("##") {
            Some(rest) => rest.as_bytes().to_vec(),
            None => format!("\u{2581}{text}").into_bytes(),
        }));
        let kinds = [3, 2, 3, 3, 3].into_iter().chain(std::iter::repeat_n(1, tokens.len()));
        Self(BTreeMap::from([
            ("model", Value::Text("bert")),
            ("tokens", Value::Texts(texts)),
            ("token_type", Value::Numbers(kinds.collect())),
            ("unknown_token_id", Value::Number(1)),
            ("cls_token_id", Value::Number(2)),
            ("seperator_token_id", Value::Number(3)),
        ]))
    }

    /// Returns a SentencePiece unigram vocabulary: tokens with their scores and kinds, and rules in the form of the
    /// file. The ids of the unknown token and of EOS are 0 and 1.
    #[cfg(feature = "encoder")]
    pub(crate) fn unigram(tokens: &[(&str, f32, i32)], charsmap: &[u8]) -> Self {
        Self(BTreeMap::from([
            ("model", Value::Text("t5")),
            ("tokens", Value::Texts(tokens.iter().map(|token| token.0.as_bytes().to_vec()).collect())),
            ("scores", Value::Floats(tokens.iter().map(|token| token.1).collect())),
            ("token_type", Value::Numbers(tokens.iter().map(|token| token.2).collect())),
            ("precompiled_charsmap", Value::Bytes(charsmap.to_vec())),
            ("unknown_token_id", Value::Number(0)),
            ("eos_token_id", Value::Number(1)),
        ]))
    }

    /// Returns a vocabulary of BPE on characters: ids 0 to 3 are padding, EOS, BOS and unknown, then the bytes, then
    /// `tokens`.
    pub(crate) fn characters(tokens: &[&str], merges: &[&str]) -> Self {
        let bytes = (0..=255).map(|byte: u8| format!("<0x{byte:02X}>"));
        let special = ["<pad>", "<eos>", "<bos>", "<unk>"].map(String::from);
        let texts = special.into_iter().chain(bytes).chain(tokens.iter().map(|text| text.to_string()));
        let kinds = [vec![3, 3, 3, 2], vec![6; 256], vec![1; tokens.len()]].concat();
        Self(BTreeMap::from([
            ("model", Value::Text("gemma4")),
            ("tokens", Value::Texts(texts.map(String::into_bytes).collect())),
            ("token_type", Value::Numbers(kinds)),
            ("merges", Value::Texts(merges.iter().map(|text| text.as_bytes().to_vec()).collect())),
            ("bos_token_id", Value::Number(2)),
        ]))
    }

    /// Returns a vocabulary of BPE on words: ids 0 to 4 are `<s>`, `<pad>`, `</s>`, `<unk>` and `<mask>`, then
    /// `tokens`.
    #[cfg(feature = "encoder")]
    pub(crate) fn words(tokens: &[&str], merges: &[&str]) -> Self {
        let bytes = |texts: &[&str]| Value::Texts(texts.iter().map(|text| text.as_bytes().to_vec()).collect());
        let special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"];
        let kinds = [3, 3, 3, 2, 3].into_iter().chain(std::iter::repeat_n(1, tokens.len()));
        Self(BTreeMap::from([
            ("model", Value::Text("whitespace")),
            ("pre", Value::Text("whitespace")),
            ("tokens", bytes(&[&special, tokens].concat())),
            ("token_type", Value::Numbers(kinds.collect())),
            ("merges", bytes(merges)),
            ("bos_token_id", Value::Number(0)),
            ("eos_token_id", Value::Number(2)),
            ("unknown_token_id", Value::Number(3)),
        ]))
    }

    pub(crate) fn with(mut self, key: &'static str, value: Value) -> Self {
        self.0.insert(key, value);
        self
    }

    pub(crate) fn get(&self, key: &str) -> Option<Value> {
        self.0.get(key).cloned()
    }

    pub(crate) fn without(mut self, key: &'static str) -> Self {
        self.0.remove(key);
        self
    }

    /// Sets `general.name` or `general.architecture`.
    pub(crate) fn general(self, key: &str, value: &'static str) -> Self {
        let key = if key == "name" { "general.name" } else { "general.architecture" };
        self.with(key, Value::Text(value))
    }

    /// Appends a token with its kind.
    pub(crate) fn token(mut self, text: &str, kind: i32) -> Self {
        let Some(Value::Texts(texts)) = self.0.get_mut("tokens") else { panic!() };
        texts.push(text.as_bytes().to_vec());
        let count = texts.len();
        if let Some(Value::Floats(scores)) = self.0.get_mut("scores") {
            scores.resize(count, 0.0);
        }
        let kinds = self.0.entry("token_type").or_insert_with(|| Value::Numbers(Vec::new()));
        let Value::Numbers(kinds) = kinds else { panic!() };
        kinds.resize(count - 1, 1);
        kinds.push(kind);
        self
    }

    pub(crate) fn file(&self) -> Vec<u8> {
        let mut file = b"GGUF\x03\0\0\0\0\0\0\0\0\0\0\0".to_vec();
        let text = |file: &mut Vec<u8>, text: &[u8]| {
            file.extend((text.len() as u64).to_le_bytes());
            file.extend(text);
        };
        let array = |file: &mut Vec<u8>, element: u32, len: usize| {
            file.extend(9u32.to_le_bytes());
            file.extend(element.to_le_bytes());
            file.extend((len as u64).to_le_bytes());
        };
        file.extend((self.0.len() as u64).to_le_bytes());
        for (key, value) in &self.0 {
            let is_general = key.starts_with("general.");
            let prefix = if is_general { "" } else { "tokenizer.ggml." };
            text(&mut file, format!("{prefix}{key}").as_bytes());
            match value {
                Value::Number(number) => file.extend([4u32.to_le_bytes(), number.to_le_bytes()].concat()),
                Value::Flag(flag) => file.extend([7, 0, 0, 0, u8::from(*flag)]),
                Value::Text(string) => {
                    file.extend(8u32.to_le_bytes());
                    text(&mut file, string.as_bytes());
                }
                Value::Texts(texts) => {
                    array(&mut file, 8, texts.len());
                    texts.iter().for_each(|string| text(&mut file, string));
                }
                Value::Numbers(numbers) => {
                    array(&mut file, 5, numbers.len());
                    file.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
                }
                Value::Bytes(bytes) => {
                    array(&mut file, 0, bytes.len());
                    file.extend(bytes);
                }
                Value::Floats(numbers) => {
                    array(&mut file, 6, numbers.len());
                    file.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
                }
            }
        }
        file
    }

    pub(crate) fn error(&self) -> VocabError {
        let file = self.file();
        let gguf = Gguf::parse(&file).unwrap();
        let error = Tokenizer::plan(&gguf).unwrap_err();
        assert_eq!(Tokenizer::new(&gguf, Memory::new(1 << 16).get()).unwrap_err(), error);
        error
    }
}
