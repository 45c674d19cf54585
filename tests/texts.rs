//! The examples `score` and `embed`, and `generate` with an adapter and with a model in several files. `cargo test` builds
//! them; before `cargo test --test texts`, `cargo build --examples` does.

mod common;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use common::fixtures::parse_json;
use common::gguf_writer::GgufWriter;
use common::random::Rng;
use common::synthetic::{SyntheticModel, encode_f32};

fn run(example: &str, args: &[&str], input: &str) -> Output {
    // This test is `target/PROFILE/deps/texts-HASH`.
    let folder = std::env::current_exe().unwrap().parent().unwrap().parent().unwrap().join("examples");
    let program = folder.join(format!("{example}{}", std::env::consts::EXE_SUFFIX));
    let file = scratch(&format!("{example}-input.txt"), input.as_bytes());
    let input = Stdio::from(std::fs::File::open(file).unwrap());
    let output = Command::new(&program).args(args).stdin(input).output();
    output.unwrap_or_else(|error| panic!("{}: {error}; `cargo build --examples` makes it", program.display()))
}

fn ok(example: &str, args: &[&str], input: &str) -> String {
    let output = run(example, args, input);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// What is said where it is refused.
fn refused(example: &str, args: &[&str], input: &str) -> String {
    let output = run(example, args, input);
    assert!(!output.status.success() && output.stdout.is_empty());
    String::from_utf8(output.stderr).unwrap()
}

fn scratch(name: &str, bytes: &[u8]) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn score_finds_the_more_probable() {
    let out = ok("score", &["--prompt", "Once upon a", "--choice", " time", "--choice", " banana"], "");
    let line = |choice: &str| out.lines().find(|line| line.contains(choice)).unwrap();
    assert!(line("\" time\"").ends_with("sum, byte") && !line("\" banana\"").contains("sum"), "{out}");
    let questions = concat!(
        "{\"prompt\": \"Once upon a\", \"choices\": [\" banana\", \" time\"], \"answer\": 1}\n\n",
        "{\"prompt\": \"Once upon a\", \"choices\": [\" time\", \" banana\"], \"answer\": 1}\n",
    );
    let file = scratch("questions.jsonl", questions.as_bytes());
    let out = ok("score", &["--file", text(&file), "--threads", "2"], "");
    assert!(out.contains("2 questions with an answer: 50.0 % right by sum, 50.0 % by byte"), "{out}");
    for (wrong, words) in [
        ("{\"prompt\": 1}", "line 1: no \"prompt\""),
        ("{\"prompt\": \"a\", \"choices\": [1]}", "line 1: no list \"choices\" of texts"),
        ("{\"prompt\": \"a\", \"choices\": [\"b\"], \"answer\": 1}", "line 1: an answer that is none of the choices"),
        ("not json", "line 1: "),
    ] {
        let file = scratch("wrong.jsonl", wrong.as_bytes());
        let error = refused("score", &["--file", text(&file)], "");
        assert!(error.contains(words), "{error}");
    }
    assert!(refused("score", &["--prompt", "Once", "--choice", ""], "").contains("a choice is empty"));
}

#[test]
fn embed_compares_lines() {
    let lines = "a dog\na dog\nthe tax office\n";
    let json = scratch("vectors.json", b"");
    for pooling in ["mean", "last"] {
        let out = ok("embed", &["--pooling", pooling, "--json", text(&json)], lines);
        let rows: Vec<Vec<&str>> = out.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!((rows[0][1], rows[0][2], rows[1][1]), ("1.000", "1.000", "1.000"), "{out}");
        assert!(rows[0][3].parse::<f64>().unwrap() < 0.999, "{out}");
        let vectors = parse_json(&std::fs::read(&json).unwrap());
        let vector = vectors[2]["vector"].as_array().unwrap();
        let length: f64 = vector.iter().map(|x| x.as_f64().unwrap().powi(2)).sum();
        assert!((length - 1.0).abs() < 1e-5 && vectors[2]["text"] == "the tax office");
    }
    assert!(refused("embed", &["--pooling", "max"], lines).contains("one of mean, last"));
    assert!(refused("embed", &[], "\n").contains("there is no text"));
    assert!(refused("embed", &["--text", "nowhere.txt"], "").contains("nowhere.txt"));
}

/// The ids that `generate` appends.
fn ids(args: &[&str]) -> serde_json::Value {
    let json = scratch("generated.json", b"");
    ok("generate", &[args, &["--ids", "1,5,9", "-n", "12", "--ignore-end", "--json", text(&json)]].concat(), "");
    parse_json(&std::fs::read(&json).unwrap())["ids"].clone()
}

#[test]
fn generate_takes_adapters_and_parts() {
    let model = SyntheticModel::llama();
    let writer = model.writer();
    let whole = scratch("whole.gguf", &writer.finish());
    let plain = ids(&["--model", text(&whole)]);

    let mut first = writer.clone();
    let mut second = GgufWriter { tensors: first.tensors.split_off(7), ..GgufWriter::default() };
    for (number, part) in [&mut first, &mut second].into_iter().enumerate() {
        part.set("split.no", number as u16).set("split.count", 2_u16);
    }
    let start = scratch("parts-00001-of-00002.gguf", &first.finish());
    let rest = scratch("parts-00002-of-00002.gguf", &second.finish());
    assert_eq!(ids(&["--model", text(&start)]), plain);
    std::fs::remove_file(&rest).unwrap();
    assert!(refused("generate", &["--model", text(&start), "--ids", "1"], "").contains("00002-of-00002"));

    let mut rng = Rng::new(1);
    let mut adapter = GgufWriter::default();
    adapter.set("general.type", "adapter").set("adapter.type", "lora").set("adapter.lora.alpha", 8.0_f32);
    adapter.set("general.architecture", "llama");
    for (end, dims) in [("a", [64, 4]), ("b", [4, 64])] {
        let values: Vec<f32> = (0..256).map(|_| rng.normal()).collect();
        adapter.add_tensor(&format!("blk.1.attn_output.weight.lora_{end}"), &dims, 0, encode_f32(&values));
    }
    let file = scratch("adapter.gguf", &adapter.finish());
    let scaled = |scale: &str| ids(&["--model", text(&whole), "--lora", &format!("{}{scale}", text(&file))]);
    assert_ne!(scaled(""), plain);
    assert_eq!(scaled("=1"), scaled(""));
    assert_eq!(scaled("=0"), plain);
    let error = refused("generate", &["--model", text(&whole), "--ids", "1", "--lora", text(&whole)], "");
    assert!(error.contains("whole.gguf") && error.contains("general.type"), "{error}");
}
