//! Bad files, bad requests and wrong usage give one line that names the mistake.

use gleed::num::ARITHMETIC_VERSION;
use gleed_ffi::GLEED_ABI_VERSION;

use crate::{DEMO, refused, run, scratch, scratch_with, unknown_architecture};

#[test]
fn bad_files() {
    let cut = &DEMO[..DEMO.len() / 2];
    let files = [
        (scratch("nowhere.gguf").to_str().unwrap().to_owned(), "nowhere.gguf: "),
        (scratch_with("empty.gguf", b""), "empty"),
        (scratch_with("text.gguf", b"This is no model.\n"), "GGUF"),
        (scratch_with("cut.gguf", cut), &format!("file has only {} bytes", cut.len())),
        (scratch_with("unknown.gguf", &unknown_architecture()), "\"zebra\" is not supported"),
        (env!("CARGO_TARGET_TMPDIR").to_owned(), ""),
    ];
    let out = scratch("refused.bin");
    for (file, words) in &files {
        refused("generate", &["--model", file, "Once"], words);
        refused("chat", &["--model", file], words);
        refused("logits", &["--model", file, "--ids", "1", "--out", out.to_str().unwrap()], words);
        refused("inspect", &["--model", file, "--emit-header"], words);
    }
    refused("tokenize", &["--model", &files[0].0], "nowhere.gguf: ");
}

#[test]
fn bad_requests() {
    refused("generate", &[""], "the prompt is empty");
    refused("generate", &["--ids", ""], "the prompt is empty");
    refused("generate", &["-f", "/nowhere/at/all"], "/nowhere/at/all: ");
    refused("generate", &["-f", &scratch_with("bytes.txt", b"ab\xff")], "bytes.txt: byte 2 is no UTF-8");
    refused("generate", &["--ids", "1,1024"], "token 1024 at index 1 is not below the vocabulary's size, 1024");
    refused("generate", &["-n", "0", "Once"], "-n is 0");
    refused("generate", &["--threads", "0", "Once"], "--threads is 0, it must be 1 to ");
    refused("generate", &["--temp", "-1", "Once"], "temperature");
    refused("generate", &["--top-p", "2", "Once"], "top_p");
    refused("generate", &["--ids", &vec!["5"; 513].join(",")], "513 tokens, the model's context is 512");
    refused("generate", &["--json", "/nowhere/at/all", "Once"], "/nowhere/at/all: ");
    refused("logits", &["--ids", "", "--out", "x"], "--ids has no token");
    refused("logits", &["--ids", "1", "--out", "/nowhere/at/all"], "/nowhere/at/all: ");
    refused("logits", &["--ids", &vec!["5"; 513].join(","), "--out", "x"], "513");
    let (lines, index) = (scratch_with("lines.txt", b"one\ntwo\n"), scratch_with("no.index", b"one\ntwo\n"));
    refused(
        "search",
        &["--text", &lines, "--index", &index, "one"],
        "no.index: it is no index, and would be written over",
    );
    assert_eq!(std::fs::read(&index).unwrap(), b"one\ntwo\n");
    refused("tokenize", &["--batch"], "line 1: ");
    refused("tokenize", &["--decode"], "\"[\" is no token id");
    refused("inspect", &["--sequences", "0"], "sequences is 0");
    refused("bench", &["--prompt", "0", "--gen", "0"], "nothing to measure");
    refused("bench", &["--threads", "0"], "--threads is 0, it must be at least 1");
    refused("frame_budget", &["--tokens", "0"], "--tokens is 0, it must be at least 1");
    refused("perplexity", &["--ctx", "1"], "--ctx is 1, it must be 2 to ");
    refused("bench", &["--report", "/nowhere/at/all"], "/nowhere/at/all: ");
    refused("make_model", &["--shape", "tiny", "--type", "f16", "--out", "/nowhere/at/all"], "/nowhere/at/all: ");
    let folder = scratch("kvlab-refused");
    let folder = ["--out", folder.to_str().unwrap()];
    let lab = |args: &[&str], words| refused("kvlab", &[args, &folder].concat(), words);
    lab(&["break", "--layer", "4"], "--layer is 4, it must be 0 to 3");
    lab(&["break", "--prompt", ""], "the prompt has 1 tokens, it must be 2 to 448");
    lab(&["curve", "--steps", "512"], "--steps is 512, it must be 1 to 511");
    lab(&["curve", "--threads", "0"], "--threads is 0, it must be 1 to ");
    lab(&["share", "--system", "449"], "--system is 449, it must be 1 to 448");
    lab(&["window", "--ctx", "513"], "--ctx is 513, it must be 2 to 512");
    lab(&["window", "--text", "/nowhere/at/all"], "/nowhere/at/all: ");
    lab(&["memory", "--json", "/nowhere/at/all"], "/nowhere/at/all: ");
    let file = scratch_with("kvlab-file", b"") + "/plots";
    refused("kvlab", &["memory", "--out", &file], "kvlab-file/plots: ");
    refused("inspect", &["--context", "9999999999"], "context is 9999999999");
}

/// A value without a meaning is refused, and not replaced by another one.
#[test]
fn silent_values() {
    refused("bench", &["--rows", "0"], "--rows is 0, it must be at least 1");
    refused("bench", &["--units", "0"], "--units is 0, it must be at least 1");
    refused("frame_budget", &["--fps", "0"], "--fps is 0, it must be ");
    refused("frame_budget", &["--fps", "inf"], "--fps is inf, it must be ");
    refused("frame_budget", &["--ms", "NaN"], "--ms is NaN, it must be ");
    refused("npc_dialogue", &["--characters", "0"], "--characters is 0, it must be 1 to 32");
    refused("score", &["--prompt", "Once", "--choice", " upon"], "at least two");
    refused("score", &["--file", &scratch_with("no-questions.jsonl", b"\n")], "there is no question");
    let (demo, out) = (scratch_with("vocabulary.gguf", DEMO), scratch("vocabulary-out.gguf"));
    refused("convert", &[&demo, out.to_str().unwrap(), "--tokenizer", "nothere"], "is for a llama2.c model");
    refused("generate", &["--lora", "f=abc", "Once"], "the scale \"abc\" is no number");
    refused("generate", &["--lora", "/nowhere=2", "Once"], "/nowhere: ");
    refused("guess", &["--only", "zzz"], "--only \"zzz\": no task");
    let encoder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/encoders/xlm-roberta.gguf");
    refused("generate", &["--model", encoder, "Once"], "the model is an encoder");
    refused("chat", &["--model", encoder], "the model is an encoder");
    refused("hello", &["nothere.gguf"], "nothere.gguf: No such file");
}

/// The first example has its lines, and the clock can measure its batches.
#[test]
fn guesses_of_the_demo_model() {
    let out = run("guess", &["--repeat", "1"]).ok();
    assert!(out.lines().count() == 4 && out.contains("under a schema"), "{out}");
    let out = run("guess", &["--rows"]).ok();
    assert!(out.lines().count() == 8 && !out.contains("NaN") && !out.contains(" 0.00 ms"), "{out}");
}

/// A reader that goes away is no failure, but a full disk is one. Neither causes a panic.
#[cfg(target_os = "linux")]
#[test]
fn nobody_reads() {
    use std::process::Stdio;
    let gone = |example, args: &[&str]| {
        let mut child = crate::start(example, args);
        drop((child.stdin.take(), child.stdout.take()));
        let output = child.wait_with_output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(0) && !err.contains("panicked"), "{example} {args:?}: {err}");
    };
    let full = |example: &str, args: &[&str]| {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let output = crate::command(example, args).stdin(Stdio::null()).stdout(full).output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(1) && err.starts_with("error: "), "{example} {args:?}: {err}");
    };
    let questions = scratch_with("asked.jsonl", br#"{"prompt":"Once upon a","choices":[" time"," dog"],"answer":0}"#);
    let runs: [(&str, &[&str]); 6] = [
        ("hello", &[]),
        ("hello", &["--help"]),
        ("static_arena", &[]),
        ("static_arena", &["--version"]),
        ("score", &["--file", &questions]),
        ("perplexity", &["--ctx", "16"]),
    ];
    for (example, args) in runs {
        gone(example, args);
        full(example, args);
    }
}

/// This file tries every program of `examples/Cargo.toml`.
#[test]
fn all_examples_are_tried() {
    let manifest = include_str!("../../examples/Cargo.toml");
    let names = manifest.split("[[example]]\nname = \"").skip(1).map(|rest| rest.split('"').next().unwrap());
    assert_eq!(names.collect::<std::collections::BTreeSet<_>>(), ALL.into_iter().collect());
}

const ALL: [&str; 20] = [
    "hello",
    "static_arena",
    "generate",
    "guess",
    "logits",
    "tokenize",
    "inspect",
    "chat",
    "bench",
    "frame_budget",
    "npc_dialogue",
    "kvlab",
    "score",
    "embed",
    "search",
    "perplexity",
    "convert",
    "make_model",
    "constrain",
    "serve",
];

#[test]
fn usage() {
    let usage = |example, args: &[&str], words: &str| {
        let result = run(example, args);
        assert_eq!(result.code, Some(2), "{args:?}: {}", result.err);
        assert!(result.err.contains(words), "{args:?}: {}", result.err);
    };
    usage("generate", &["-f", "x", "Once"], "cannot be used with");
    usage("hello", &["--model", "x"], "--model is not known");
    usage("static_arena", &["x"], "1 arguments are given, at most 0 are known");
    usage("convert", &["a", "b", "--type", "q9"], "q8_0, q4_0, ");
    usage("generate", &["Once", "--ids", "1"], "cannot be used with");
    usage("generate", &["--kv", "page", "--prompt", "Once"], "off, basic, paged");
    usage("generate", &["--kv-type", "f64", "Once"], "f32, f16");
    usage("generate", &["--ids", "1,x"], "\"x\" is no token id");
    usage("logits", &["--ids", "1", "--out", "x", "--level", "fast"], "this machine has scalar");
    usage("bench", &["--repeat", "0"], "--repeat");
    usage("bench", &["--report", "x", "--level", "scalar"], "--level");
    usage("bench", &["model.gguf"], "--report");
    usage("make_model", &["--shape", "tiny", "--type", "q9", "--out", "x"], "q8_0");
    usage("kvlab", &[], "Usage");
    usage("generate", &["--threads", "many", "Once"], "neither a number nor `parallel`");
    usage("kvlab", &["memory", "--budget", "64XB"], "\"64XB\" is no size");
    usage("kvlab", &["share", "--characters", "0"], "--characters");
    usage("guess", &["--repeat", "0"], "--repeat");
    for example in ALL {
        let help = run(example, &["--help"]).ok();
        assert!(help.contains("Usage: ") && help.contains("\nExamples:\n  "), "{example}: {help}");
        assert!(help.contains(&format!("cargo run --release --example {example}")), "{example}: {help}");
        let [version, arithmetic, abi] =
            [env!("CARGO_PKG_VERSION"), &ARITHMETIC_VERSION.to_string(), &GLEED_ABI_VERSION.to_string()];
        let version = format!("{example} {version}\narithmetic version {arithmetic}\nABI version {abi}\n");
        assert_eq!(run(example, &["--version"]).ok(), version);
    }
    assert!(run("convert", &["--help"]).ok().contains("[possible values: f32, f16, bf16, q8_0, "));
    for lab in ["curve", "memory", "break", "share", "window"] {
        assert!(
            run("kvlab", &[lab, "--help"])
                .ok()
                .contains(&format!("\nExamples:\n  cargo run --release --example kvlab -- {lab}"))
        );
    }
    for example in ["generate", "logits", "tokenize", "inspect", "chat", "bench"] {
        assert!(run(example, &["--help"]).ok().contains("--model <FILE>"));
    }
    assert!(run("kvlab", &["share", "--help"]).ok().contains("--model <FILE>"));
}
