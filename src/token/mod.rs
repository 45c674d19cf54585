//! Text to token ids and back, straight from the vocabulary in the file.
//!
//! [`Vocab`] reads and checks the keys, [`Tokenizer`] holds the tables in the caller's memory and encodes,
//! [`Detokenizer`] turns a stream of ids into text, in which [`StopStrings`] finds an end. Nothing is allocated:
//! tables, scratch and results are the caller's. The ids are those of llama.cpp.
//!
//! # Example
//!
//! A text becomes as many ids as it needs, and is the same when it comes back:
//!
//! ```
//! use gleed::Model;
//! use gleed::token::{DecodeOptions, EncodeOptions, TokenError, Tokenizer, VocabError};
//! # use gleed::mem::ALIGN;
//!
//! /// Returns the ids of a text.
//! fn ids(tokenizer: &Tokenizer<'_, '_>, text: &str) -> Result<Vec<u32>, TokenError> {
//!     let options = EncodeOptions { add_special: true, ..EncodeOptions::default() };
//!     let mut scratch = vec![0; tokenizer.scratch_len(text.len())];
//!     // Without room, the error says how much it takes.
//!     let needed = match tokenizer.encode(text, options, &mut scratch, &mut []) {
//!         Err(TokenError::OutputTooSmall { needed, .. }) => needed,
//!         other => other?.ids,
//!     };
//!     let mut ids = vec![0; needed];
//!     tokenizer.encode(text, options, &mut scratch, &mut ids)?;
//!     Ok(ids)
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let file = std::fs::read("examples/assets/gleed-tales-q8_0.gguf")?;
//! let model = Model::open(&file)?;
//! let bytes = Tokenizer::plan(model.gguf()).map_err(|error| match error {
//!     VocabError::Missing(key) => format!("the file has no {key}"),
//!     other => other.to_string(),
//! })?;
//! # let mut tables = vec![0; bytes + ALIGN];
//! # let start = tables.as_ptr().align_offset(ALIGN);
//! # let tables = &mut tables[start..];
//! let tokenizer = Tokenizer::new(model.gguf(), tables)?;
//! let ids = ids(&tokenizer, "Once upon a time")?;
//! assert_eq!((Some(ids[0]), &ids[1..]), (tokenizer.vocab().bos(), &[414, 435, 261, 385][..]));
//!
//! let mut text = [0; 64];
//! assert_eq!(tokenizer.decode(&ids, DecodeOptions::default(), &mut text)?, "Once upon a time");
//! # Ok(())
//! # }
//! ```
//!
//! # The tokens of a word
//!
//! A bias for a text is for the tokens that spell it. A word has other tokens behind a blank:
//!
//! ```
//! use gleed::sample::{Sampler, SamplerParams};
//! # use gleed::{Model, mem::ALIGN, token::Tokenizer};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let file = std::fs::read("examples/assets/gleed-tales-q8_0.gguf")?;
//! # let model = Model::open(&file)?;
//! # let mut tables = vec![0; Tokenizer::plan(model.gguf())? + ALIGN];
//! # let start = tables.as_ptr().align_offset(ALIGN);
//! # let tokenizer = Tokenizer::new(model.gguf(), &mut tables[start..])?;
//! let mut sampler = Sampler::new(SamplerParams::default())?;
//! let mut scratch = vec![0; tokenizer.spellings_scratch_len(" Lily".len())];
//! for text in ["Lily", " Lily"] {
//!     let mut added = Ok(());
//!     tokenizer.each_spelling(text, &mut scratch, &mut |tokens| {
//!         added = added.and_then(|()| sampler.add_bias(tokens, f32::NEG_INFINITY));
//!     })?;
//!     added?;
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Where a text ends
//!
//! Stop strings are found wherever tokens end:
//!
//! ```
//! use gleed::token::StopStrings;
//!
//! # fn main() -> Result<(), gleed::token::StopError> {
//! let mut stops = StopStrings::new(&["\nUser:", "###"])?;
//! let (mut reply, mut found) = (String::new(), None);
//! for piece in ["Hello", " there.\n", "Us", "e it #", "\nUser", ": "] {
//!     let shown = stops.push(piece);
//!     reply.extend([shown.held, shown.text]);
//!     found = found.or(shown.stop);
//! }
//! reply.push_str(stops.finish());
//! assert_eq!((reply.as_str(), found), ("Hello there.\nUse it #", Some(0)));
//! # Ok(())
//! # }
//! ```

mod bytes;
#[cfg(feature = "encoder")]
mod charsmap;
mod class;
mod class_table;
mod decode;
mod encode;
mod error;
#[cfg(feature = "encoder")]
mod fold;
#[cfg(feature = "encoder")]
mod fold_table;
mod kind;
mod kinds;
mod merge;
mod pairs;
mod pre;
#[cfg(test)]
mod pre_test;
mod rules;
mod slots;
mod special;
mod spell;
mod spellings;
mod stop;
mod table;
mod text;
mod tokenizer;
#[cfg(feature = "encoder")]
mod unigram;
mod vocab;
#[cfg(feature = "encoder")]
mod word;

pub use decode::{DecodeOptions, Detokenizer};
pub use encode::{EncodeOptions, Encoded};
pub use error::{TokenError, VocabError};
pub use kind::TokenKind;
pub use stop::{MAX_STOP_LEN, MAX_STOPS, Shown, StopError, StopStrings};
pub use tokenizer::Tokenizer;
pub use vocab::Vocab;
