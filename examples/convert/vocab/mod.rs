//! Vocabularies: tokens, merges, special tokens, and the chat template.

mod llama2c;
mod pre;
mod sentencepiece;
mod settings;
mod tokenizer_json;

use std::path::Path;

use serde_json::Value as Json;

use crate::hf::read_json;
use common::Result;
use common::gguf::{Header, Value};

/// Number of tokens that no vocabulary exceeds.
pub(crate) const MAX_VOCAB: usize = 1 << 22;

/// The tokenizer as it is written.
#[derive(Default)]
pub(crate) struct Vocab {
    /// `tokenizer.ggml.model`; empty if there is no tokenizer.
    model: &'static str,
    /// Name of the pre-tokenizer of byte-level BPE.
    pre: Option<&'static str>,
    tokens: Vec<Token>,
    /// Merges of byte-level BPE.
    merges: Vec<String>,
    /// Whether a blank is put before texts.
    space_prefix: Option<bool>,
    /// Names of special tokens in keys, such as `bos`, and their ids.
    special: Vec<(&'static str, usize)>,
    add_bos: Option<bool>,
    add_eos: Option<bool>,
    chat_template: Option<String>,
    /// Normalization rules of unigram. `merge_blanks`: whether runs of blanks become one.
    charsmap: Vec<u8>,
    merge_blanks: Option<bool>,
    /// Whether WordPiece makes letters lowercase. `strip_accents`: whether it removes accents.
    lowercase: Option<bool>,
    strip_accents: Option<bool>,
}

#[derive(Clone, Debug, PartialEq)]
struct Token {
    text: String,
    score: f32,
    kind: Kind,
}

/// The kind of a token, with its number in GGUF files and in those of SentencePiece.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Normal = 1,
    Unknown = 2,
    Control = 3,
    UserDefined = 4,
    Unused = 5,
    Byte = 6,
}

/// Reads the tokenizer of a folder and pads it to `size` tokens. If there is none, returns an empty one and prints a
/// note.
pub(crate) fn of_folder(folder: &Path, size: usize, config: &Json) -> Result<Vocab> {
    let optional = |name: &str| {
        let path = folder.join(name);
        if path.is_file() { read_json(&path).map(Some) } else { Ok(None) }
    };
    let json = optional("tokenizer.json")?;
    let pieces = folder.join("tokenizer.model");
    let is_byte_level = json.as_ref().is_some_and(tokenizer_json::is_byte_level);
    let mut vocab = if pieces.is_file() && !is_byte_level {
        let bytes = std::fs::read(&pieces)?;
        sentencepiece::read(&bytes).map_err(|error| format!("{}: {error}", pieces.display()))?
    } else if let Some(json) = &json {
        tokenizer_json::read(json).map_err(|error| format!("{}: {error}", folder.join("tokenizer.json").display()))?
    } else {
        eprintln!("{}: no tokenizer.json and no tokenizer.model: the file will have no vocabulary", folder.display());
        return Ok(Vocab::default());
    };
    let settings = settings::Settings {
        tokenizer: json,
        tokenizer_config: optional("tokenizer_config.json")?.unwrap_or_default(),
        added_tokens: optional("added_tokens.json")?.unwrap_or_default(),
        generation: optional("generation_config.json")?.unwrap_or_default(),
        config,
        template_file: std::fs::read_to_string(folder.join("chat_template.jinja")).ok(),
    };
    settings.apply(&mut vocab)?;
    vocab.pad(size)?;
    Ok(vocab)
}

/// Reads the tokenizer of a llama2.c model with `size` tokens: its own format, or the SentencePiece model that it was
/// made from.
pub(crate) fn of_llama2c(file: &[u8], size: usize) -> Result<Vocab> {
    if !sentencepiece::begins(file) {
        return llama2c::read(file, size);
    }
    let mut vocab = sentencepiece::read(file)?;
    (vocab.add_bos, vocab.add_eos) = (Some(true), Some(false));
    vocab.pad(size)?;
    Ok(vocab)
}

impl Vocab {
    /// Returns the id of a token.
    fn find(&self, text: &str) -> Option<usize> {
        self.tokens.iter().position(|token| token.text == text)
    }

    /// Sets the token with this id, which can be beyond the last one.
    fn put(&mut self, id: usize, token: Token) -> Result<()> {
        if id >= MAX_VOCAB {
            return Err(format!("the token {:?} has the id {id}, more than any vocabulary has", token.text).into());
        }
        while self.tokens.len() <= id {
            self.tokens.push(unused(self.tokens.len()));
        }
        self.tokens[id] = token;
        Ok(())
    }

    /// Pads the vocabulary to `size` tokens, as many as the embedding has rows.
    fn pad(&mut self, size: usize) -> Result<()> {
        if self.tokens.len() > size {
            return Err(format!("the tokenizer has {} tokens, the model only {size}", self.tokens.len()).into());
        }
        (self.tokens.len()..size).for_each(|id| self.tokens.push(unused(id)));
        Ok(())
    }

    /// Writes all keys.
    pub(crate) fn write(self, header: &mut Header) {
        if self.model.is_empty() {
            return;
        }
        let mut set = |name: &str, value| header.set(&format!("tokenizer.ggml.{name}"), value);
        let mut tokens = self.tokens;
        if self.model == "bert" {
            tokens.iter_mut().filter(|token| token.kind == Kind::Normal).for_each(tokenizer_json::respell);
        }
        set("model", Value::Text(self.model.into()));
        set("pre", Value::Text(self.pre.unwrap_or("default").into()));
        set("token_type", Value::I32s(tokens.iter().map(|token| token.kind as i32).collect()));
        if self.pre.is_some() {
            set("merges", Value::Texts(self.merges));
        } else {
            set("scores", Value::F32s(tokens.iter().map(|token| token.score).collect()));
        }
        set("tokens", Value::Texts(tokens.into_iter().map(|token| token.text).collect()));
        for (name, id) in self.special {
            set(&format!("{name}_token_id"), Value::U32(id as u32));
        }
        if !self.charsmap.is_empty() {
            set("precompiled_charsmap", Value::Bytes(self.charsmap));
        }
        let flags = [
            ("add_bos_token", self.add_bos),
            ("add_eos_token", self.add_eos),
            ("add_space_prefix", self.space_prefix),
            ("remove_extra_whitespaces", self.merge_blanks),
            ("normalizer.lowercase", self.lowercase),
            ("normalizer.strip_accents", self.strip_accents),
        ];
        for (name, flag) in flags {
            flag.into_iter().for_each(|flag| set(name, Value::Bool(flag)));
        }
        if let Some(template) = self.chat_template {
            header.set("tokenizer.chat_template", Value::Text(template));
        }
    }
}

/// Returns a token that no text contains.
fn unused(id: usize) -> Token {
    Token { text: format!("[PAD{id}]"), score: -1000.0, kind: Kind::Unused }
}

/// Returns whether a token stands for a byte, as `<0x0A>` does.
fn is_byte(text: &str) -> bool {
    let digits = text.strip_prefix("<0x").and_then(|text| text.strip_suffix('>'));
    digits.is_some_and(|digits| digits.len() == 2 && u8::from_str_radix(digits, 16).is_ok())
}
