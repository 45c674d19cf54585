//! Tokenizers against the ids of another engine, and against vocabularies made here.

use std::path::PathBuf;

use gguf_rs_lite::Gguf;
use gleed::mem::ALIGN;
use gleed::token::{DecodeOptions, EncodeOptions, Tokenizer};

/// The folder of fixtures; `None`, with a note, where it is absent.
fn shared() -> Option<PathBuf> {
    let path = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../shared"));
    if path.is_dir() {
        return Some(path);
    }
    assert!(std::env::var("GLEED_REQUIRE_SHARED").is_err(), "../shared is not there");
    println!("skipped: ../shared is not there");
    None
}

/// Memory that starts at a multiple of `ALIGN`.
struct Memory {
    bytes: Vec<u8>,
    len: usize,
}

impl Memory {
    fn new(len: usize) -> Self {
        Self { bytes: vec![0xA5; len + ALIGN], len }
    }

    fn get(&mut self) -> &mut [u8] {
        let start = self.bytes.as_ptr().align_offset(ALIGN);
        &mut self.bytes[start..][..self.len]
    }
}

fn with_tokenizer(file: &[u8], test: impl FnOnce(&Tokenizer<'_, '_>)) {
    let gguf = Gguf::parse(file).unwrap();
    let mut memory = Memory::new(Tokenizer::plan(&gguf).unwrap());
    test(&Tokenizer::new(&gguf, memory.get()).unwrap());
}

fn encode(tokenizer: &Tokenizer<'_, '_>, text: &str, parse_special: bool) -> Vec<u32> {
    let options = EncodeOptions { add_special: false, parse_special };
    let mut scratch = vec![0xA5A5_A5A5; tokenizer.scratch_len(text.len())];
    let mut out = vec![0; text.len() + 1];
    let count = tokenizer.encode(text, options, &mut scratch, &mut out).unwrap();
    out.truncate(count);
    out
}

fn decode(tokenizer: &Tokenizer<'_, '_>, ids: &[u32]) -> String {
    let options = DecodeOptions { render_special: true, starts_text: true };
    let mut out = vec![0; ids.len() * tokenizer.max_push()];
    tokenizer.decode(ids, options, &mut out).unwrap().to_owned()
}

fn vocabulary(name: &str) -> Option<Vec<u8>> {
    let path = shared()?.join(format!("fixtures/tokenizers/vocab/ggml-vocab-{name}.gguf"));
    Some(std::fs::read(path).unwrap())
}

fn json_lines(path: &str) -> Vec<serde_json::Value> {
    let text = std::fs::read_to_string(shared().unwrap().join("fixtures/tokenizers").join(path)).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn ids(value: &serde_json::Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect()
}

/// All texts of the fixtures: the ids are equal, and decoding gives the text back as far as the vocabulary can spell it.
fn check_pairs(name: &str, readable: fn(&str) -> String) {
    let Some(file) = vocabulary(name) else { return };
    let (texts, pairs) = (json_lines("texts.jsonl"), json_lines(&format!("pairs/{name}.jsonl")));
    assert_eq!((texts.len(), pairs.len()), (2000, 2000));
    with_tokenizer(&file, |tokenizer| {
        for (text, pair) in texts.iter().zip(&pairs) {
            let text = text["text"].as_str().unwrap();
            let special = if pair["ids_special"].is_null() { &pair["ids"] } else { &pair["ids_special"] };
            for (parse_special, expected) in [(false, ids(&pair["ids"])), (true, ids(special))] {
                let found = encode(tokenizer, text, parse_special);
                assert_eq!(found, expected, "text {}, special {parse_special}: {text:?}", pair["i"]);
                assert_eq!(decode(tokenizer, &found), readable(text), "text {}", pair["i"]);
            }
        }
    });
}

/// The engine's own test lines.
fn check_lines(name: &str) {
    let Some(file) = vocabulary(name) else { return };
    let read = |end: &str| {
        let name = format!("fixtures/tokenizers/vocab/ggml-vocab-{name}.gguf.{end}");
        std::fs::read_to_string(shared().unwrap().join(name)).unwrap()
    };
    let (texts, lines) = (read("inp"), read("out"));
    let lines: Vec<&str> = lines.lines().collect();
    with_tokenizer(&file, |tokenizer| {
        let mut count = 0;
        for (text, line) in texts.split("\n__ggml_vocab_test__\n").zip(&lines) {
            let expected: Vec<u32> = line.split_whitespace().map(|id| id.parse().unwrap()).collect();
            assert_eq!(encode(tokenizer, text, false), expected, "{text:?}");
            count += 1;
        }
        assert_eq!((count, lines.len()), (46, 46));
    });
}

#[test]
fn llama_spm() {
    check_lines("llama-spm");
    check_pairs("llama-spm", |text| text.replace('\u{2581}', " "));
}

#[test]
fn gpt_2() {
    check_lines("gpt-2");
    check_pairs("gpt-2", str::to_owned);
}

#[test]
fn llama_bpe() {
    check_lines("llama-bpe");
    check_pairs("llama-bpe", str::to_owned);
}

#[test]
fn qwen2() {
    check_lines("qwen2");
    check_pairs("qwen2", str::to_owned);
}
