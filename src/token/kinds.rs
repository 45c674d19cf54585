//! The kind of each token, and the tokens that end a generation.

use super::kind::TokenKind;
use super::table::Tokens;
use super::vocab::Vocab;

/// Names of tokens that end a generation, whatever the file says about them. The list and its two exceptions are
/// llama.cpp's: `</s>` of Gemma 4, where it is a tag of HTML, and `<|end|>` of gpt-oss.
const END_NAMES: [&str; 31] = [
    "</s>",
    "<EOT>",
    "<PAD>",
    "<REPO>",
    "<end_of_turn>",
    "<end_of_utterance>",
    "<eos>",
    "<fim-pad>",
    "<fim-repo>",
    "<fim_pad>",
    "<reponame>",
    "<turn|>",
    "<|call|>",
    "<|calls|>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<|end|>",
    "<|eom_id|>",
    "<|eot_id|>",
    "<|file_sep|>",
    "<|fim_pad|>",
    "<|fim_repo|>",
    "<|flush|>",
    "<|im_end|>",
    "<|repo_name|>",
    "<|return|>",
    "<|tool_response>",
    "<\u{ff5c}end\u{2581}of\u{2581}sentence\u{ff5c}>",
    "[EOT]",
    "[e~[",
    "_<EOT>",
];

/// Names of other control tokens: they mark the parts of a text that has a gap to be filled.
const CONTROL_NAMES: [&str; 18] = [
    "<MID>",
    "<PRE>",
    "<SUF>",
    "<fim-middle>",
    "<fim-prefix>",
    "<fim-suffix>",
    "<fim_middle>",
    "<fim_prefix>",
    "<fim_suffix>",
    "<|code_middle|>",
    "<|code_prefix|>",
    "<|code_suffix|>",
    "<|fim_middle|>",
    "<|fim_prefix|>",
    "<|fim_suffix|>",
    "<\u{ff5c}fim\u{2581}begin\u{ff5c}>",
    "<\u{ff5c}fim\u{2581}end\u{ff5c}>",
    "<\u{ff5c}fim\u{2581}hole\u{ff5c}>",
];

/// Returns whether `<|end|>` ends only a message, and the generation continues with another one. This holds for
/// harmony, the format of gpt-oss, in which other tokens end a generation.
fn ends_messages(tokens: &Tokens<'_, '_>) -> bool {
    let has = |name: &str| tokens.find(name.as_bytes()).is_some();
    (has("<|call|>") || has("<|calls|>")) && (has("<|return|>") || has("<|flush|>"))
}

const KIND: u8 = 0x07;
/// Number of bits by which the kind from the file is shifted.
const OF_FILE: u32 = 3;
const END: u8 = 0x80;

/// A byte per token: its kind, the kind that the file says, and whether it ends a generation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kinds<'a>(&'a [u8]);

impl<'a> Kinds<'a> {
    /// The most tokens that are special because of their names alone.
    pub(super) const NAMED: usize = END_NAMES.len() + CONTROL_NAMES.len();

    pub(super) fn new(vocab: &Vocab<'_>, tokens: &Tokens<'_, '_>, bytes: &'a mut [u8]) -> Self {
        let mut places = bytes.iter_mut();
        vocab.kinds().for_each(|kind| {
            if let Some(place) = places.next() {
                *place = kind as u8 | (kind as u8) << OF_FILE;
            }
        });
        let mut set = |id: u32, change: fn(u8) -> u8| {
            if let Some(byte) = bytes.get_mut(id as usize) {
                *byte = change(*byte);
            }
        };
        for name in END_NAMES {
            let Some(id) = tokens.find(name.as_bytes()) else { continue };
            match name {
                "<|end|>" if ends_messages(tokens) => set(id, |byte| byte & !KIND | TokenKind::Control as u8),
                "</s>" if tokens.find(b"<|tool_response>").is_some() => {}
                _ => set(id, |byte| END | byte & !KIND | TokenKind::Control as u8),
            }
        }
        for id in CONTROL_NAMES.iter().filter_map(|name| tokens.find(name.as_bytes())) {
            set(id, |byte| byte & !KIND | TokenKind::Control as u8);
        }
        for id in [vocab.eos(), vocab.eot(), vocab.eom()].into_iter().flatten() {
            set(id, |byte| END | byte);
        }
        Self(bytes)
    }

    /// Returns the kind of a token, or `Undefined` if no token has this id.
    pub(super) fn get(&self, id: u32) -> TokenKind {
        TokenKind::from_number(self.0.get(id as usize).map_or(0, |&byte| i64::from(byte & KIND)))
    }

    /// Returns whether a token is text according to the file, whatever its name is.
    pub(super) fn is_text(&self, id: u32) -> bool {
        let kind = self.0.get(id as usize).map_or(0, |&byte| i64::from(byte >> OF_FILE & KIND));
        matches!(TokenKind::from_number(kind), TokenKind::Normal | TokenKind::UserDefined | TokenKind::Byte)
    }

    pub(super) fn is_end(&self, id: u32) -> bool {
        self.0.get(id as usize).is_some_and(|&byte| byte & END != 0)
    }
}
