//! The vocabulary as the file describes it.

use gguf_rs_lite::{Array, Gguf, Name, Value, ValueType};

#[cfg(feature = "encoder")]
use super::charsmap::Rules;
use super::error::VocabError;
use super::kind::TokenKind;
use super::pre::{self, PreTokenizer};
#[cfg(feature = "encoder")]
use super::unigram::Unigram;

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
const CHARSMAP: &str = "tokenizer.ggml.precompiled_charsmap";
#[cfg(feature = "encoder")]
const MERGE_BLANKS: &str = "tokenizer.ggml.remove_extra_whitespaces";
#[cfg(feature = "encoder")]
const CLS: &str = "tokenizer.ggml.cls_token_id";
// The misspelling is the one that files have.
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

/// The algorithm that turns text into tokens.
#[derive(Clone, Copy, Debug)]
pub(super) enum Algorithm<'m> {
    /// SentencePiece BPE (`llama`): the pair with the highest score is merged first.
    SentencePiece { scores: Array<'m> },
    /// Byte-level BPE (`gpt2`): the pair that comes first in the list is merged first.
    ByteLevel { merges: Array<'m>, pre: &'static PreTokenizer },
    /// BPE by characters (`gemma4`): as byte-level BPE, but tokens are spelled as in SentencePiece.
    Characters { merges: Array<'m>, pre: &'static PreTokenizer },
    /// WordPiece (`bert`): takes the longest token that begins the word, then the longest one that continues it.
    #[cfg(feature = "encoder")]
    WordPiece { lowercase: bool, strip_accents: bool },
    /// BPE by characters within words that are separated by white space (`whitespace`).
    #[cfg(feature = "encoder")]
    Words { merges: Array<'m>, pre: &'static PreTokenizer, lowercase: bool },
    /// SentencePiece unigram (`t5`): takes the tokens with the highest sum of scores.
    #[cfg(feature = "encoder")]
    Unigram(Unigram<'m>),
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
    /// Reads and checks the keys. Of the tokens, it checks only their number.
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
            Algorithm::Words { .. } => ([None; 3], false),
            #[cfg(feature = "encoder")]
            Algorithm::WordPiece { .. } => (keys.frame(tokens.len())?, true),
            #[cfg(feature = "encoder")]
            Algorithm::Unigram(_) => ([None, Some(1), Some(2)], false),
        };
        // Early files of Gemma 4 say that no BOS is added. It is added nevertheless, as in llama.cpp.
        let forces_bos = matches!(algorithm, Algorithm::Characters { .. }) && add_bos;
        let [bos, eos, unknown] = ids;
        let add_eos = match algorithm {
            #[cfg(feature = "encoder")]
            Algorithm::WordPiece { .. } => keys.flag(ADD_SEP)?.unwrap_or(true),
            #[cfg(feature = "encoder")]
            Algorithm::Unigram(_) => true,
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
                Algorithm::Words { .. } => false,
                #[cfg(feature = "encoder")]
                Algorithm::WordPiece { .. } => true,
                #[cfg(feature = "encoder")]
                Algorithm::Unigram(_) => keys.flag(ADD_SPACE_PREFIX)?.unwrap_or(true),
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

    /// Returns whether the vocabulary has no token. It always has one.
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

    /// Returns whether white space after a special token is left out of the text. This is a rule of Phi-3, which its
    /// files do not state.
    pub fn swallows_space(&self) -> bool {
        self.swallows_space
    }

    /// Returns the types of the tokens, by id.
    pub(super) fn kinds(&self) -> impl Iterator<Item = TokenKind> {
        // Nearly all files have 32-bit integers, so these are read without a conversion.
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
            b"llama" => Ok(Self::SentencePiece { scores: keys.scores(tokens)? }),
            #[cfg(feature = "encoder")]
            b"t5" => {
                let is_byte = |element| matches!(element, ValueType::U8 | ValueType::I8);
                let rules = keys.array(CHARSMAP, is_byte)?.map_or(&[][..], |rules| rules.bytes());
                Ok(Self::Unigram(Unigram {
                    scores: keys.scores(tokens)?,
                    rules: Rules::new(rules).ok_or(VocabError::Damaged(CHARSMAP))?,
                    merges_blanks: keys.flag(MERGE_BLANKS)?.unwrap_or(true),
                }))
            }
            b"gpt2" => Self::bpe(keys, keys.bytes(PRE)?),
            b"gemma4" => Self::bpe(keys, b"gemma4"),
            #[cfg(feature = "encoder")]
            b"whitespace" => Self::bpe(keys, b"whitespace"),
            #[cfg(feature = "encoder")]
            b"bert" => {
                let lowercase = keys.flag(LOWERCASE)?.unwrap_or(true);
                Ok(Self::WordPiece { lowercase, strip_accents: keys.flag(STRIP_ACCENTS)?.unwrap_or(lowercase) })
            }
            other => Err(VocabError::UnknownModel(Name::new(other))),
        }
    }

    /// Returns the algorithm of BPE with the pre-tokenizer called `name`.
    fn bpe(keys: &Keys<'_, 'm>, name: &[u8]) -> Result<Self, VocabError> {
        let merges = keys.array(MERGES, |element| element == ValueType::String)?;
        let merges = merges.ok_or(VocabError::Missing(MERGES))?;
        let pre = pre::find(name).ok_or(VocabError::UnknownPreTokenizer(Name::new(name)))?;
        #[cfg(feature = "encoder")]
        if pre.drops_space {
            return Ok(Self::Words { merges, pre, lowercase: keys.flag(LOWERCASE)?.unwrap_or(false) });
        }
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

    /// Returns the scores, one for each token.
    fn scores(&self, tokens: Array<'m>) -> Result<Array<'m>, VocabError> {
        let scores = self.array(SCORES, is_number)?;
        check_len(SCORES, scores, tokens)?;
        scores.ok_or(VocabError::Missing(SCORES))
    }

    /// Returns the default ids of BOS, EOS and the unknown token of an encoder. They apply where `bos_token_id`,
    /// `eos_token_id` and `unknown_token_id` are missing, and are BERT's where no other key names them.
    #[cfg(feature = "encoder")]
    fn frame(&self, tokens: usize) -> Result<[Option<u32>; 3], VocabError> {
        Ok([self.id(CLS, tokens, Some(101))?, self.id(SEP, tokens, Some(102))?, Some(100)])
    }

    fn flag(&self, key: &'static str) -> Result<Option<bool>, VocabError> {
        self.gguf.get(key).map(|value| value.as_bool().ok_or(VocabError::WrongType(key))).transpose()
    }

    /// Returns the id under `key`. Some files write "none" as the largest number of 32 bits, or as -1.
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

/// Returns whether the model is a Phi-3 by its architecture or, as in llama.cpp, by its name.
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
