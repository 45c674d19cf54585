//! Text to token ids and back, straight from the vocabulary in the file.
//!
//! [`Vocab`] reads and checks the keys, [`Tokenizer`] holds the tables in the caller's memory and encodes,
//! [`Detokenizer`] turns a stream of ids into text. Nothing is allocated: tables, scratch and results
//! are the caller's. The ids are those of llama.cpp.

mod bytes;
mod class;
mod class_table;
mod decode;
mod encode;
mod kind;
mod kinds;
mod merge;
mod pre;
#[cfg(test)]
mod pre_test;
mod rules;
mod slots;
mod special;
mod table;
mod tokenizer;
mod vocab;

pub use decode::{DecodeOptions, Detokenizer};
pub use encode::{EncodeOptions, TokenError};
pub use kind::TokenKind;
pub use tokenizer::Tokenizer;
pub use vocab::{Vocab, VocabError};
