//! One file for each target. Each says what it does and what must hold.

mod adapter;
mod calls;
mod convert;
mod engine;
mod gguf;
mod grammar;
mod model;
mod snapshot;
/// The tests' generators of grammars.
#[allow(dead_code)]
#[path = "../../../tests/structured/random_sources.rs"]
mod sources;
mod template;
mod tokenizer;
mod turns;

/// A target: it takes any bytes, and panics where something does not hold.
pub type Target = fn(&[u8]);

/// All targets by their names, which are also the names of their corpora.
pub const ALL: [(&str, Target); 13] = [
    ("engine", engine::run),
    ("snapshot", snapshot::run),
    ("model", model::run),
    ("gguf", gguf::run),
    ("grammar", grammar::grammar),
    ("schema", grammar::schema),
    ("calls", calls::run),
    ("tokenizer", tokenizer::run),
    ("turns", turns::run),
    ("adapter", adapter::run),
    ("template", template::run),
    ("safetensors", convert::safetensors),
    ("convert", convert::convert),
];
