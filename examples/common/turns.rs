//! How a conversation is written down for a model.

use gguf_rs_lite::Gguf;
use gleed::token::{EncodeOptions, TokenError, Tokenizer};

use super::text;

/// A turn format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turns {
    /// `<|im_start|>user\n...<|im_end|>\n`: Qwen, SmolLM and many others.
    ChatMl,
    /// `<|start_header_id|>user<|end_header_id|>\n\n...<|eot_id|>`
    Llama3,
    /// `[INST] ... [/INST] ...`: Llama 2, Mistral.
    Llama2,
    /// None: the model continues the text.
    Plain,
}

/// A part of a turn.
enum Part {
    Id(Option<u32>),
    /// Text of the format, with names of special tokens in it.
    Marker(&'static str),
    /// Text in which such names mean nothing.
    Text(String),
}

use Part::{Id, Marker, Text};

impl Turns {
    /// The format that the file's chat template has; without a template, the one whose special tokens there are.
    pub(crate) fn recognise(gguf: &Gguf<'_>, tokenizer: &Tokenizer<'_, '_>) -> Self {
        let template = gguf.get("tokenizer.chat_template").and_then(|value| value.as_str());
        let has = |name: &str| match template {
            Some(template) => template.contains(name),
            None => tokenizer.find(name.as_bytes()).is_some(),
        };
        match () {
            () if has("<|im_start|>") => Self::ChatMl,
            () if has("<|start_header_id|>") => Self::Llama3,
            () if has("[INST]") => Self::Llama2,
            () => Self::Plain,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ChatMl => "ChatML",
            Self::Llama3 => "Llama 3",
            Self::Llama2 => "Llama 2",
            Self::Plain => "none, the model continues your text",
        }
    }

    /// The tokens of a user's turn, up to where the model's reply begins. The first turn of a conversation has the
    /// system's text before it; every other one first closes the reply before it.
    pub(crate) fn encode(
        self,
        tokenizer: &Tokenizer<'_, '_>,
        first: bool,
        system: Option<&str>,
        user: &str,
    ) -> Result<Vec<u32>, TokenError> {
        let mut ids = Vec::new();
        for part in self.parts(tokenizer, first, system.filter(|_| first), user) {
            let (text, parse_special) = match &part {
                Id(id) => {
                    ids.extend(*id);
                    continue;
                }
                Marker(text) => (*text, true),
                Text(text) => (text.as_str(), false),
            };
            ids.extend(text::encode(tokenizer, text, EncodeOptions { add_special: false, parse_special })?);
        }
        Ok(ids)
    }

    fn parts(self, tokenizer: &Tokenizer<'_, '_>, first: bool, system: Option<&str>, user: &str) -> Vec<Part> {
        let vocab = tokenizer.vocab();
        let mut parts = vec![Id(vocab.bos().filter(|_| first && (vocab.adds_bos() || self == Self::Llama3)))];
        match self {
            Self::ChatMl => {
                if let Some(system) = system {
                    parts.extend([Marker("<|im_start|>system\n"), Text(system.into())]);
                }
                parts.extend((!first || system.is_some()).then_some(Marker("<|im_end|>\n")));
                parts.extend([Marker("<|im_start|>user\n"), Text(user.into())]);
                parts.push(Marker("<|im_end|>\n<|im_start|>assistant\n"));
            }
            Self::Llama3 => {
                if let Some(system) = system {
                    parts.extend([Marker("<|start_header_id|>system<|end_header_id|>\n\n"), Text(system.into())]);
                }
                parts.extend((!first || system.is_some()).then_some(Marker("<|eot_id|>")));
                parts.extend([Marker("<|start_header_id|>user<|end_header_id|>\n\n"), Text(user.into())]);
                parts.push(Marker("<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"));
            }
            Self::Llama2 => {
                if !first {
                    parts.extend([Id(vocab.eos()), Id(vocab.bos())]);
                }
                let system = system.map(|system| format!("<<SYS>>\n{system}\n<</SYS>>\n\n")).unwrap_or_default();
                // Where the markers are no tokens all is one piece: words and blanks may merge over their ends.
                if tokenizer.find(b"[INST]").is_some() {
                    parts.extend([Marker("[INST]"), Text(format!("{system}{user}")), Marker("[/INST]")]);
                } else {
                    parts.push(Text(format!("[INST] {system}{user} [/INST]")));
                }
            }
            Self::Plain => parts.extend(system.into_iter().chain([user]).map(|text| Text(text.into()))),
        }
        parts
    }
}
