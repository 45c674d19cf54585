//! The vocabulary as the file describes it.

use core::fmt;

use gguf_rs_lite::{Array, Gguf, Name, Value, ValueType};

use super::kind::TokenKind;
use super::pre::{self, PreTokenizer};
use crate::mem::MemoryError;

const MODEL: &str = "tokenizer.ggml.model";
const PRE: &str = "tokenizer.ggml.pre";
pub(super) const TOKENS: &str = "tokenizer.ggml.tokens";
const SCORES: &str = "tokenizer.ggml.scores";
const TYPES: &str = "tokenizer.ggml.token_type";
pub(super) const MERGES: &str = "tokenizer.ggml.merges";
const BOS: &str = "tokenizer.ggml.bos_token_id";
const EOS: &str = "tokenizer.ggml.eos_token_id";
const EOT: &str = "tokenizer.ggml.eot_token_id";
const EOM: &str = "tokenizer.ggml.eom_token_id";
const UNKNOWN: &str = "tokenizer.ggml.unknown_token_id";
const ADD_BOS: &str = "tokenizer.ggml.add_bos_token";
const ADD_EOS: &str = "tokenizer.ggml.add_eos_token";
const ADD_SPACE_PREFIX: &str = "tokenizer.ggml.add_space_prefix";
#[cfg(feature = "encoder")]
const CLS: &str = "tokenizer.ggml.cls_token_id";
// Files spell it so.
#[cfg(feature = "encoder")]
const SEP: &str = "tokenizer.ggml.seperator_token_id";
#[cfg(feature = "encoder")]
const ADD_SEP: &str = "tokenizer.ggml.add_sep_token";
#[cfg(feature = "encoder")]
const LOWERCASE: &str = "tokenizer.ggml.normalizer.lowercase";
#[cfg(feature = "encoder")]
const STRIP_ACCENTS: &str = "tokenizer.ggml.normalizer.strip_accents";
const ARCHITECTURE: &str = "general.architecture";
const NAME: &str = "general.name";

/// The most tokens that a vocabulary may have.
const MAX_TOKENS: usize = 1 << 28;

/// How text becomes tokens.
#[derive(Clone, Copy, Debug)]
pub(super) enum Algorithm<'m> {
    /// SentencePiece BPE (`llama`): the pair with the highest score is merged first.
    SentencePiece { scores: Array<'m> },
    /// Byte-level BPE (`gpt2`): the pair that comes first in the list is merged first.
    ByteLevel { merges: Array<'m>, pre: &'static PreTokenizer },
    /// BPE by characters (`gemma4`): as byte-level BPE, but tokens are spelled as in SentencePiece.
    Characters { merges: Array<'m>, pre: &'static PreTokenizer },
    /// WordPiece (`bert`): the longest token that begins a word, then the longest that goes on.
    #[cfg(feature = "encoder")]
    WordPiece { lowercase: bool, strip_accents: bool },
}

/// The keys `tokenizer.ggml.*` of a file, checked. Absent keys have llama.cpp's defaults.
///
/// One default differs: llama.cpp takes token 11 as BOS and EOS of a `gpt2` vocabulary that names none. Here such a
/// vocabulary has none.
///
/// ```
/// use gleed::{Model, token::Vocab};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let file = std::fs::read("examples/assets/gleed-tales-q8_0.gguf")?;
/// let vocab = Vocab::new(Model::open(&file)?.gguf())?;
/// assert_eq!((vocab.len(), vocab.bos(), vocab.adds_bos()), (1024, Some(1), true));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Vocab<'m> {
    pub(super) algorithm: Algorithm<'m>,
    pub(super) tokens: Array<'m>,
    types: Option<Array<'m>>,
    bos: Option<u32>,
    eos: Option<u32>,
    eot: Option<u32>,
    eom: Option<u32>,
    unknown: Option<u32>,
    add_bos: bool,
    add_eos: bool,
    add_space_prefix: bool,
    swallows_space: bool,
}

impl<'m> Vocab<'m> {
    /// Reads and checks the keys. It only counts the tokens.
    ///
    /// # Errors
    /// A key is missing, unknown, or does not fit the others: see [`VocabError`].
    pub fn new(gguf: &Gguf<'m>) -> Result<Self, VocabError> {
        let keys = Keys { gguf };
        let tokens = keys.array(TOKENS, |element| element == ValueType::String)?.ok_or(VocabError::Missing(TOKENS))?;
        if tokens.is_empty() || tokens.len() > MAX_TOKENS {
            return Err(VocabError::TokenCount { tokens: tokens.len() });
        }
        let types = keys.array(TYPES, is_integer)?;
        check_len(TYPES, types, tokens)?;
        let algorithm = Algorithm::new(&keys, tokens)?;
        let (ids, add_bos) = match algorithm {
            Algorithm::SentencePiece { .. } => ([Some(1), Some(2), Some(0)], true),
            Algorithm::ByteLevel { pre, .. } | Algorithm::Characters { pre, .. } => ([None; 3], pre.add_bos),
            #[cfg(feature = "encoder")]
            Algorithm::WordPiece { .. } => (keys.frame(tokens.len())?, true),
        };
        // As in llama.cpp: early files of Gemma 4 say that it has none.
        let forces_bos = matches!(algorithm, Algorithm::Characters { .. }) && add_bos;
        let [bos, eos, unknown] = ids;
        let add_eos = match algorithm {
            #[cfg(feature = "encoder")]
            Algorithm::WordPiece { .. } => keys.flag(ADD_SEP)?.unwrap_or(true),
            _ => false,
        };
        let vocab = Self {
            algorithm,
            tokens,
            types,
            bos: keys.id(BOS, tokens.len(), bos)?,
            eos: keys.id(EOS, tokens.len(), eos)?,
            eot: keys.id(EOT, tokens.len(), None)?,
            eom: keys.id(EOM, tokens.len(), None)?,
            unknown: keys.id(UNKNOWN, tokens.len(), unknown)?,
            add_bos: keys.flag(ADD_BOS)?.unwrap_or(add_bos) || forces_bos,
            add_eos: keys.flag(ADD_EOS)?.unwrap_or(add_eos),
            add_space_prefix: match algorithm {
                Algorithm::SentencePiece { .. } => keys.flag(ADD_SPACE_PREFIX)?.unwrap_or(true),
                Algorithm::ByteLevel { .. } | Algorithm::Characters { .. } => false,
                #[cfg(feature = "encoder")]
                Algorithm::WordPiece { .. } => true,
            },
            swallows_space: matches!(algorithm, Algorithm::SentencePiece { .. }) && is_phi_3(gguf),
        };
        if vocab.add_bos && vocab.bos.is_none() {
            return Err(VocabError::Missing(BOS));
        }
        if vocab.add_eos && vocab.eos.is_none() {
            return Err(VocabError::Missing(EOS));
        }
        Ok(vocab)
    }

    /// Returns the number of tokens. Ids are below it.
    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Returns whether there is no token, which is never so.
    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    /// Returns the token that begins a text.
    pub fn bos(&self) -> Option<u32> {
        self.bos
    }

    /// Returns the token that ends a text.
    pub fn eos(&self) -> Option<u32> {
        self.eos
    }

    /// Returns the token that ends a turn, if the file names one.
    pub fn eot(&self) -> Option<u32> {
        self.eot
    }

    /// Returns the token that ends a message, if the file names one.
    pub fn eom(&self) -> Option<u32> {
        self.eom
    }

    /// Returns the token for text that the vocabulary cannot spell.
    pub fn unknown(&self) -> Option<u32> {
        self.unknown
    }

    /// Returns whether `add_special` puts BOS in front.
    pub fn adds_bos(&self) -> bool {
        self.add_bos
    }

    /// Returns whether `add_special` appends EOS.
    pub fn adds_eos(&self) -> bool {
        self.add_eos
    }

    /// Returns whether encoding puts a blank before a text, and before text that follows a special token.
    pub fn adds_space_prefix(&self) -> bool {
        self.add_space_prefix
    }

    /// Returns whether white space after a special token is not part of the text. This is a rule of Phi-3, which its
    /// files do not state.
    pub fn swallows_space(&self) -> bool {
        self.swallows_space
    }

    /// The types of the tokens, by id.
    pub(super) fn kinds(&self) -> impl Iterator<Item = TokenKind> {
        // Nearly all files have 32-bit integers: these are read as they are.
        let is_i32 = |types: &Array<'_>| types.element_type() == ValueType::I32;
        let words = self.types.filter(is_i32).map_or(&[][..], |types| types.bytes().as_chunks().0);
        let words = words.iter().map(|&word| i64::from(i32::from_le_bytes(word)));
        let others = self.types.filter(|types| !is_i32(types)).into_iter().flatten();
        let listed = words.chain(others.map(|number| number.as_i64().unwrap_or(0))).map(TokenKind::from_number);
        let missing = if self.types.is_some() { 0 } else { self.len() };
        listed.chain(core::iter::repeat_n(TokenKind::Normal, missing))
    }
}

impl<'m> Algorithm<'m> {
    fn new(keys: &Keys<'_, 'm>, tokens: Array<'m>) -> Result<Self, VocabError> {
        match keys.bytes(MODEL)? {
            b"llama" => {
                let scores = keys.array(SCORES, is_number)?;
                check_len(SCORES, scores, tokens)?;
                Ok(Self::SentencePiece { scores: scores.ok_or(VocabError::Missing(SCORES))? })
            }
            b"gpt2" => Self::bpe(keys, keys.bytes(PRE)?),
            b"gemma4" => Self::bpe(keys, b"gemma4"),
            #[cfg(feature = "encoder")]
            b"bert" => {
                let lowercase = keys.flag(LOWERCASE)?.unwrap_or(true);
                Ok(Self::WordPiece { lowercase, strip_accents: keys.flag(STRIP_ACCENTS)?.unwrap_or(lowercase) })
            }
            other => Err(VocabError::UnknownModel(Name::new(other))),
        }
    }

    /// BPE with the pre-tokenizer of this name.
    fn bpe(keys: &Keys<'_, 'm>, name: &[u8]) -> Result<Self, VocabError> {
        let merges = keys.array(MERGES, |element| element == ValueType::String)?;
        let merges = merges.ok_or(VocabError::Missing(MERGES))?;
        let pre = pre::find(name).ok_or(VocabError::UnknownPreTokenizer(Name::new(name)))?;
        Ok(if pre.is_spelled_plainly { Self::Characters { merges, pre } } else { Self::ByteLevel { merges, pre } })
    }
}

struct Keys<'g, 'm> {
    gguf: &'g Gguf<'m>,
}

impl<'m> Keys<'_, 'm> {
    fn bytes(&self, key: &'static str) -> Result<&'m [u8], VocabError> {
        let value = self.gguf.get(key).ok_or(VocabError::Missing(key))?;
        value.as_bytes().ok_or(VocabError::WrongType(key))
    }

    fn array(&self, key: &'static str, element: fn(ValueType) -> bool) -> Result<Option<Array<'m>>, VocabError> {
        self.gguf
            .get(key)
            .map(|value| value.as_array().filter(|array| element(array.element_type())))
            .map(|array| array.ok_or(VocabError::WrongType(key)))
            .transpose()
    }

    /// What begins and ends a text of an encoder where `bos_token_id` and `eos_token_id` do not say so, and the unknown
    /// token: BERT's numbers where no key names them.
    #[cfg(feature = "encoder")]
    fn frame(&self, tokens: usize) -> Result<[Option<u32>; 3], VocabError> {
        Ok([self.id(CLS, tokens, Some(101))?, self.id(SEP, tokens, Some(102))?, Some(100)])
    }

    fn flag(&self, key: &'static str) -> Result<Option<bool>, VocabError> {
        self.gguf.get(key).map(|value| value.as_bool().ok_or(VocabError::WrongType(key))).transpose()
    }

    /// The id under `key`. Some files write "none" as the largest number of 32 bits, or as -1.
    fn id(&self, key: &'static str, tokens: usize, default: Option<u32>) -> Result<Option<u32>, VocabError> {
        let in_range = |id: i64| u32::try_from(id).ok().filter(|&id| (id as usize) < tokens);
        match self.gguf.get(key) {
            None => Ok(default.filter(|&id| (id as usize) < tokens)),
            Some(Value::U32(u32::MAX)) => Ok(None),
            Some(value) => match value.as_i64().ok_or(VocabError::WrongType(key))? {
                -1 => Ok(None),
                id => in_range(id).map(Some).ok_or(VocabError::IdOutOfRange { key, id, tokens }),
            },
        }
    }
}

/// By the architecture, or like llama.cpp by the name.
fn is_phi_3(gguf: &Gguf<'_>) -> bool {
    let bytes = |key| gguf.get(key).and_then(|value| value.as_bytes()).unwrap_or_default();
    let is_name = |text: &[u8]| text.eq_ignore_ascii_case(b"phi3") || text.eq_ignore_ascii_case(b"phi-3");
    let name = bytes(NAME);
    bytes(ARCHITECTURE) == b"phi3" || name.windows(4).chain(name.windows(5)).any(is_name)
}

fn is_integer(element: ValueType) -> bool {
    use ValueType::{I8, I16, I32, I64, U8, U16, U32, U64};
    matches!(element, U8 | I8 | U16 | I16 | U32 | I32 | U64 | I64)
}

fn is_number(element: ValueType) -> bool {
    is_integer(element) || matches!(element, ValueType::F32 | ValueType::F64)
}

fn check_len(key: &'static str, array: Option<Array<'_>>, tokens: Array<'_>) -> Result<(), VocabError> {
    match array {
        Some(array) if array.len() != tokens.len() => {
            Err(VocabError::WrongLength { key, needed: tokens.len(), found: array.len() })
        }
        _ => Ok(()),
    }
}

/// Why a file's vocabulary cannot be used.
///
/// [Example](crate::token#example).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum VocabError {
    /// The file lacks this key.
    Missing(&'static str),
    /// The value of this key has a type that is not allowed.
    WrongType(&'static str),
    /// `tokenizer.ggml.model` is neither `llama`, `gpt2`, `gemma4` nor `bert` (which is in builds with encoders).
    UnknownModel(Name),
    /// `tokenizer.ggml.pre` names a pre-tokenizer that is not supported.
    UnknownPreTokenizer(Name),
    /// There are no tokens, or more than 2^28.
    TokenCount {
        /// The number of tokens.
        tokens: usize,
    },
    /// An array has not one element per token.
    WrongLength {
        /// The array's key.
        key: &'static str,
        /// Number of tokens.
        needed: usize,
        /// Number of elements.
        found: usize,
    },
    /// A token id is not in the vocabulary.
    IdOutOfRange {
        /// The id's key.
        key: &'static str,
        /// The id.
        id: i64,
        /// Number of tokens.
        tokens: usize,
    },
    /// The texts of the tokens are too large for 32-bit numbers.
    TooLarge {
        /// The key of the array.
        key: &'static str,
        /// The size of the array in the file, in bytes.
        bytes: usize,
    },
    /// So many tokens have the same hash that the file must have been made for it.
    Collisions {
        /// The key of the array.
        key: &'static str,
    },
    /// A special token is longer than any sensible one.
    SpecialTooLong {
        /// The token.
        id: u32,
        /// The length of the token, in bytes.
        bytes: usize,
        /// The most bytes that such a token may have.
        limit: usize,
    },
    /// The caller's memory is too small or misaligned.
    Memory(MemoryError),
}

impl From<MemoryError> for VocabError {
    fn from(error: MemoryError) -> Self {
        Self::Memory(error)
    }
}

impl fmt::Display for VocabError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Missing(key) => write!(f, "the file has no {key}"),
            Self::WrongType(key) => write!(f, "{key} has a type that it cannot have"),
            Self::UnknownModel(name) => {
                let more = if cfg!(feature = "encoder") { ", bert" } else { "" };
                write!(f, "tokenizer model {name} is not supported (llama, gpt2, gemma4{more})")
            }
            Self::UnknownPreTokenizer(name) => write!(f, "pre-tokenizer {name} is not supported"),
            Self::TokenCount { tokens } => write!(f, "a vocabulary of {tokens} tokens"),
            Self::WrongLength { key, needed, found } => {
                write!(f, "{key} has {found} elements for {needed} tokens")
            }
            Self::IdOutOfRange { key, id, tokens } => write!(f, "{key} is {id}, but there are {tokens} tokens"),
            Self::TooLarge { key, bytes } => write!(f, "{key} takes {bytes} bytes, more than 4 GiB"),
            Self::Collisions { key } => write!(f, "too many entries of {key} have the same hash"),
            Self::SpecialTooLong { id, bytes, limit } => {
                write!(f, "special token {id} has {bytes} bytes, the limit is {limit}")
            }
            Self::Memory(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for VocabError {}
