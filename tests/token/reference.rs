//! Checks the ids of the fixtures.

use std::path::PathBuf;
use std::time::Instant;

use gleed::token::DecodeOptions;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use crate::{decode, encode, with_tokenizer};

/// Returns the folder of fixtures. If it is absent, prints a note and returns `None`.
fn shared() -> Option<PathBuf> {
    let path = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../shared"));
    if path.is_dir() {
        return Some(path);
    }
    assert!(std::env::var("GLEED_REQUIRE_SHARED").as_deref() != Ok("1"), "../shared is not there");
    println!("skipped: ../shared is not there");
    None
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

/// Checks all texts of the fixtures: the ids are equal, and decoding gives the text back as far as the vocabulary can
/// spell it.
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

/// Checks the test lines that llama.cpp has for a vocabulary.
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

/// A SentencePiece vocabulary with many special tokens, which swallow the white space that follows them.
#[test]
fn phi_3() {
    check_lines("phi-3");
    let Some(file) = vocabulary("phi-3") else { return };
    let (texts, pairs) = (json_lines("texts.jsonl"), json_lines("pairs/phi-3.jsonl"));
    with_tokenizer(&file, |tokenizer| {
        for (text, pair) in texts.iter().zip(&pairs) {
            let text = text["text"].as_str().unwrap();
            let special = if pair["ids_special"].is_null() { &pair["ids"] } else { &pair["ids_special"] };
            assert_eq!(encode(tokenizer, text, false), ids(&pair["ids"]), "{text:?}");
            assert_eq!(encode(tokenizer, text, true), ids(special), "{text:?}");
        }
    });
}

/// Decoding gives back texts of all kinds of characters, as far as the vocabulary can spell them.
#[test]
fn decoding_is_the_inverse_of_encoding() {
    for name in ["llama-spm", "phi-3", "gpt-2", "llama-bpe", "qwen2"] {
        let Some(file) = vocabulary(name) else { return };
        let is_byte_level = !matches!(name, "llama-spm" | "phi-3");
        with_tokenizer(&file, |tokenizer| {
            let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
            TestRunner::new(config)
                .run(&any::<(String, bool)>(), |(text, doubled)| {
                    let text = if doubled { format!(" {text}  {text}\n") } else { text };
                    let expected = if is_byte_level { text.clone() } else { text.replace('\u{2581}', " ") };
                    prop_assert_eq!(decode(tokenizer, &encode(tokenizer, &text, false)), expected);
                    Ok(())
                })
                .unwrap();
        });
    }
}

/// The time grows with the length of a text, and not with its square.
#[test]
fn long_runs_take_no_longer_than_other_texts() {
    let start = Instant::now();
    for (name, blank) in [("llama-spm", " "), ("llama-bpe", "\u{2581}")] {
        let Some(file) = vocabulary(name) else { return };
        with_tokenizer(&file, |tokenizer| {
            for run in
                ["a", " ", "7", "\n", "=", "\u{1f600}", "\u{8a9e}", "\u{2581}", "'", "\0", "ab", "\n ", "<", "<s"]
            {
                let text = run.repeat((1 << 17) / run.len());
                assert!(
                    decode(tokenizer, &encode(tokenizer, &text, true)) == text.replace('\u{2581}', blank),
                    "{run:?}"
                );
            }
        });
    }
    assert!(start.elapsed().as_secs() < 20, "{:?}", start.elapsed());
}

/// The prompts of the demonstration model. SentencePiece itself made their ids.
#[test]
fn gleed_tales() {
    let Some(folder) = shared().map(|shared| shared.join("models/gleed-tales")) else { return };
    let expected = std::fs::read_to_string(folder.join("EXPECTED.json")).unwrap();
    let expected: serde_json::Value = serde_json::from_str(&expected).unwrap();
    let file = std::fs::read(folder.join("gleed-tales-q8_0.gguf")).unwrap();
    with_tokenizer(&file, |tokenizer| {
        for entry in expected["greedy"].as_array().unwrap() {
            let (prompt, wanted) = (entry["prompt"].as_str().unwrap(), ids(&entry["prompt_ids"]));
            assert_eq!((1, encode(tokenizer, prompt, false).as_slice()), (wanted[0], &wanted[1..]));
            assert_eq!(decode(tokenizer, &wanted), format!("<s>{prompt}"));
            let continues = DecodeOptions { render_special: false, starts_text: false };
            let text = tokenizer.decode(&ids(&entry["ids"]), continues, &mut [0; 9999]).unwrap().to_owned();
            assert_eq!(text, entry["text"].as_str().unwrap());
        }
    });
}

/// Checks the vocabularies with test lines in the folder that `GLEED_VOCABULARIES` names, such as `models` in
/// llama.cpp's sources.
#[test]
#[ignore = "needs a folder that GLEED_VOCABULARIES names"]
fn vocabularies_of_a_folder() {
    let folder = std::env::var_os("GLEED_VOCABULARIES").map(PathBuf::from).expect("GLEED_VOCABULARIES names a folder");
    let (mut count, mut wrong) = (0, Vec::new());
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        let Some(name) = name.strip_prefix("ggml-vocab-").and_then(|name| name.strip_suffix(".gguf.inp")) else {
            continue;
        };
        let read = |end: &str| std::fs::read(folder.join(format!("ggml-vocab-{name}.gguf{end}"))).unwrap();
        let (file, texts, lines) = (read(""), read(".inp"), read(".out"));
        let (texts, lines) = (String::from_utf8(texts).unwrap(), String::from_utf8(lines).unwrap());
        with_tokenizer(&file, |tokenizer| {
            for (index, (text, line)) in texts.split("\n__ggml_vocab_test__\n").zip(lines.lines()).enumerate() {
                let expected: Vec<u32> = line.split_whitespace().map(|id| id.parse().unwrap()).collect();
                let found = encode(tokenizer, text, false);
                if found != expected {
                    wrong.push(format!("{name}, line {index}: {text:?}\n{found:?}\n{expected:?}"));
                }
                count += 1;
            }
        });
    }
    assert!(count > 0 && wrong.is_empty(), "{} of {count}\n{}", wrong.len(), wrong.join("\n"));
}
