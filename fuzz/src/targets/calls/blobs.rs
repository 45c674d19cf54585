//! The bytes behind pointers to bytes and texts: files, grammars, texts, and what the library has written in this run.

use std::sync::LazyLock;

use crate::support::models::{adapter, tiny};
use common::synthetic::{Architecture, SyntheticModel};

/// Number of tokens of the model's vocabulary.
pub const VOCAB: usize = 270;

/// A model, and an adapter for it.
pub static FILES: LazyLock<[Vec<u8>; 2]> = LazyLock::new(|| {
    let model = SyntheticModel { vocab: VOCAB, context: 64, ..tiny(Architecture::Llama) };
    [model.bytes(), adapter(&model, &["attn_q."], 2).finish()]
});

/// Grammars of each kind, descriptions of tools, answers of a model, plain text, names.
pub const TEXTS: [&str; 12] = [
    "root ::= (\"a\" | [b-d]+ | \"t\" root)*",
    "(a|b)*c{2,4}|t(he|ea)?",
    "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"}},\"required\":[\"a\"]}",
    "[{\"type\":\"function\",\"function\":{\"name\":\"roll\",\"parameters\":{\"type\":\"object\",\"properties\":{}}}}]",
    "<tool_call>\n{\"name\": \"roll\", \"arguments\": {\"a\": [1, true]}}\n</tool_call>",
    "hi <s>\u{e9} the tea </s>",
    "",
    "chatml",
    "general.name",
    "llama3",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "\u{1f600}\n\n  1234567 tea",
];
