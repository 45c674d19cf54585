//! Tokenizers: building the tables, encoding English text, and encoding long runs of one character. Needs the
//! vocabularies of `../shared`.
//!
//! ```text
//! cargo bench --bench tokenizer
//! ```
//!
//! The column "fastest" is the one to look at on a busy machine; rates are bytes of text, or of the file's vocabulary.

use std::path::PathBuf;

use divan::Bencher;
use divan::counter::BytesCount;
use gguf_rs_lite::Gguf;
use gleed::mem::ALIGN;
use gleed::token::{EncodeOptions, Tokenizer};

/// Short texts are enough where the benchmarks only run as tests.
const TEXT_BYTES: usize = if cfg!(debug_assertions) { 1 << 14 } else { 1 << 20 };

/// Names of the vocabularies: two of SentencePiece, three of byte-level BPE.
const VOCABULARIES: [&str; 5] = ["llama-spm", "phi-3", "gpt-2", "llama-bpe", "qwen2"];

/// Names of the long runs, and the character that each repeats.
const RUNS: [(&str, &str); 8] = [
    ("letter", "a"),
    ("space", " "),
    ("digit", "7"),
    ("newline", "\n"),
    ("punctuation", "="),
    ("emoji", "\u{1f600}"),
    ("han", "\u{8a9e}"),
    ("blank", "\u{2581}"),
];

fn main() {
    divan::main();
}

fn shared(path: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../shared")).join(path)
}

/// Returns the names of the vocabularies whose files exist.
fn vocabularies() -> Vec<&'static str> {
    VOCABULARIES.into_iter().filter(|name| path(name).is_file()).collect()
}

fn path(name: &str) -> PathBuf {
    shared(&format!("fixtures/tokenizers/vocab/ggml-vocab-{name}.gguf"))
}

/// Returns every vocabulary with every run.
fn runs() -> Vec<String> {
    let names = vocabularies();
    names.iter().flat_map(|name| RUNS.map(|(run, _)| format!("{name} {run}"))).collect()
}

/// Returns the first [`TEXT_BYTES`] of a text, or the whole text if it is shorter.
fn beginning(text: &str) -> &str {
    let end = (0..=TEXT_BYTES.min(text.len())).rev().find(|&end| text.is_char_boundary(end)).unwrap();
    &text[..end]
}

/// Returns the part of the memory that starts at a multiple of [`ALIGN`].
fn aligned(memory: &mut [u8]) -> &mut [u8] {
    let start = memory.as_ptr().align_offset(ALIGN);
    &mut memory[start..]
}

/// Measures the encoding of `text`.
fn encode(bencher: Bencher<'_, '_>, name: &str, text: &str) {
    let file = std::fs::read(path(name)).unwrap();
    let gguf = Gguf::parse(&file).unwrap();
    let mut memory = vec![0; Tokenizer::plan(&gguf).unwrap() + ALIGN];
    let tokenizer = Tokenizer::new(&gguf, aligned(&mut memory)).unwrap();
    let mut scratch = vec![0; tokenizer.scratch_len(text.len())];
    let mut out = vec![0; text.len() + 1];
    let bencher = bencher.counter(BytesCount::of_str(text));
    bencher.bench_local(|| tokenizer.encode(text, EncodeOptions::default(), &mut scratch, &mut out).unwrap());
}

/// Stories for children.
#[divan::bench(args = vocabularies())]
fn english(bencher: Bencher<'_, '_>, name: &str) {
    let text = std::fs::read_to_string(shared("corpora/tinystories.txt")).unwrap();
    encode(bencher, name, beginning(&text));
}

/// Plays of the 16th century, with many names and rare words.
#[divan::bench(args = vocabularies())]
fn shakespeare(bencher: Bencher<'_, '_>, name: &str) {
    let text = std::fs::read_to_string(shared("corpora/tinyshakespeare.txt")).unwrap();
    encode(bencher, name, beginning(&text));
}

/// Texts of many kinds and languages, one after the other.
#[divan::bench(args = vocabularies())]
fn mixture(bencher: Bencher<'_, '_>, name: &str) {
    let lines = std::fs::read_to_string(shared("fixtures/tokenizers/texts.jsonl")).unwrap();
    let texts = lines.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let text: String = texts.map(|value| value["text"].as_str().unwrap().to_owned()).collect();
    encode(bencher, name, beginning(&text));
}

/// Encodes one character over and over.
#[divan::bench(args = runs())]
fn run(bencher: Bencher<'_, '_>, name: &str) {
    let (name, run) = name.split_once(' ').unwrap();
    let (_, character) = RUNS.into_iter().find(|&(other, _)| other == run).unwrap();
    encode(bencher, name, &character.repeat(TEXT_BYTES / character.len()));
}

/// Builds the tables from the file.
#[divan::bench(args = vocabularies())]
fn tables(bencher: Bencher<'_, '_>, name: &str) {
    let file = std::fs::read(path(name)).unwrap();
    let gguf = Gguf::parse(&file).unwrap();
    let mut memory = vec![0; Tokenizer::plan(&gguf).unwrap() + ALIGN];
    bencher.counter(BytesCount::of_slice(&file)).bench_local(|| {
        Tokenizer::new(&gguf, aligned(&mut memory)).unwrap();
    });
}
