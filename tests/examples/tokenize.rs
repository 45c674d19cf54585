//! `tokenize`: text to ids and back.

use crate::{run, run_with_input, shared_path};
use common::fixtures::parse_json;

#[test]
fn tokenize_both_ways() {
    let text = "Once upon a time,\n  there was a \u{1F409} called \u{e9}a.\n";
    let ids = run_with_input("tokenize", &[], text.as_bytes()).ok();
    assert!(ids.starts_with("414 435 261 385 952 ") && ids.lines().count() == 1, "{ids}");
    assert_eq!(run_with_input("tokenize", &["--decode"], ids.as_bytes()).ok(), text);
    let with_bos = run_with_input("tokenize", &["--add-special"], text.as_bytes()).ok();
    assert_eq!(with_bos, format!("1 {ids}"));
    assert_eq!(run_with_input("tokenize", &["--decode", "--add-special"], with_bos.as_bytes()).ok(), text);
    assert_eq!(run_with_input("tokenize", &["--decode"], with_bos.as_bytes()).ok(), text);

    let special = run_with_input("tokenize", &["--parse-special"], b"</s>").ok();
    assert_eq!(special.trim(), "2");
    assert_eq!(run_with_input("tokenize", &["--decode", "--parse-special"], b"2").ok(), "</s>");
    assert_ne!(run_with_input("tokenize", &[], b"</s>").ok(), special);

    let lines = "\"Once upon\"\n\"\"\n\"a\\nb\\u0000\\ud83d\\udc09\"\n";
    let arrays = run_with_input("tokenize", &["--batch"], lines.as_bytes()).ok();
    assert!(arrays.starts_with("[414,435]\n[]\n["), "{arrays}");
    let back = run_with_input("tokenize", &["--batch", "--decode"], arrays.as_bytes()).ok();
    let strings = |lines: &str| lines.lines().map(|line| parse_json(line.as_bytes())).collect::<Vec<_>>();
    assert_eq!(strings(&back), strings(lines));
}

#[test]
fn a_file_with_only_a_vocabulary() {
    let Some(file) = shared_path("fixtures/tokenizers/vocab/ggml-vocab-llama-bpe.gguf") else { return };
    let ids = run_with_input("tokenize", &["--model", &file, "--add-special"], b"Hello world").ok();
    assert_eq!(ids, "128000 9906 1917\n");
    let report = run("inspect", &["--model", &file]).ok();
    assert!(report.contains("128256 tokens") && report.contains("Tensors, 0") && report.contains("no memory plan"));
}
