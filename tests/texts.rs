//! The examples `score`, `embed` and `search`, and `generate` with an adapter and with a model in several files.
//! `cargo test` builds them. Before `cargo test --test texts` they must be built with `cargo build --examples`.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use common::fixtures::{numbers, parse_json};
use common::gguf_writer::GgufWriter;
use common::random::Rng;
use common::synthetic::{SyntheticModel, encode_f32};

fn run(example: &str, args: &[&str], input: &str) -> Output {
    // The path of this test is `target/PROFILE/deps/texts-HASH`.
    let folder = std::env::current_exe().unwrap().parent().unwrap().parent().unwrap().join("examples");
    let program = folder.join(format!("{example}{}", std::env::consts::EXE_SUFFIX));
    // Each input has a file of its own, because tests run at the same time.
    static INPUTS: AtomicUsize = AtomicUsize::new(0);
    let number = INPUTS.fetch_add(1, Ordering::Relaxed);
    let file = scratch(&format!("input-{number}.txt"), input.as_bytes());
    let input = Stdio::from(std::fs::File::open(file).unwrap());
    let output = Command::new(&program).args(args).stdin(input).output();
    output.unwrap_or_else(|error| panic!("{}: {error}; `cargo build --examples` makes it", program.display()))
}

fn ok(example: &str, args: &[&str], input: &str) -> String {
    let output = run(example, args, input);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the standard error of a run that is refused.
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
    assert!(refused("score", &["--prompt", "Once", "--choice", "", "--choice", "b"], "").contains("a choice is empty"));
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
    assert!(refused("embed", &["--pooling", "max"], lines).contains("one of mean, last, cls, rank"));
    assert!(refused("embed", &[], "\n").contains("there is no text"));
    assert!(refused("embed", &["--text", "nowhere.txt"], "").contains("nowhere.txt"));
}

/// Returns the ids that `generate` appends.
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

/// Returns the cosines that `embed` prints.
fn table(out: &str, count: usize) -> Vec<Vec<f64>> {
    let numbers = |line: &str| line.split_whitespace().skip(1).take(count).map(|x| x.parse().unwrap()).collect();
    out.lines().map(numbers).collect()
}

/// Returns the vectors of a JSON file.
fn vectors(path: &Path) -> Vec<Vec<f64>> {
    let json = parse_json(&std::fs::read(path).unwrap());
    json.as_array().unwrap().iter().map(|item| numbers(&item["vector"])).collect()
}

#[test]
fn embed_takes_ids_and_many_texts() {
    let lines = "Once upon a time\nthe dog\n";
    let (alone, json, raw) = (scratch("alone.json", b""), scratch("ids.json", b""), scratch("raw.json", b""));
    let of_lines = ok("embed", &["--json", text(&alone)], lines);
    // Ids of the lines, with BOS.
    let ids = lines.lines().map(|line| ok("tokenize", &["--add-special"], line).trim().replace(' ', ","));
    let ids: Vec<String> = ids.collect();
    let of_ids = ok("embed", &["--ids", &ids[0], "--ids", &ids[1], "--json", text(&json)], "not read");
    assert_eq!(table(&of_lines, 2), table(&of_ids, 2));
    assert_eq!(vectors(&alone), vectors(&json));
    let item = &parse_json(&std::fs::read(&json).unwrap())[1];
    assert_eq!(item["text"], ids[1]);
    // Ids come before the lines of a file. Many more texts than fit into a batch have the same vectors, on any number
    // of threads.
    let many: String = (0..70).map(|i| format!("the dog{}\n", " and the cat".repeat(i % 7))).collect();
    let file = scratch("many.txt", many.as_bytes());
    let out =
        ok("embed", &["--ids", &ids[1], "--text", text(&file), "--threads", "2", "--json", text(&raw), "--raw"], "");
    let cosines = table(&out, 71);
    assert!(cosines[0][1] == 1.0 && cosines[0][2] < 1.0 && cosines[1][8] == 1.0, "{out}");
    let raw = vectors(&raw);
    assert!(raw[0] == raw[1] && raw[1] == raw[8] && raw[1] != raw[2]);
    let length = raw[0].iter().map(|x| x * x).sum::<f64>().sqrt();
    let unit = &vectors(&json)[1];
    assert!(
        raw[0].iter().zip(unit).all(|(raw, unit)| (raw / length - unit).abs() < 1e-6) && (length - 1.0).abs() > 0.1
    );

    assert!(refused("embed", &["--ids", "1,x"], "").contains("no token id"));
    assert!(refused("embed", &["--ids", ","], "").contains("no tokens were given"));
    assert!(refused("embed", &["--ids", "9999"], "").contains("token 9999"));
    assert!(refused("embed", &["--pooling", "rank"], "a\n").contains("no classifier"));
    let long = "1,".repeat(2000);
    assert!(refused("embed", &["--ids", "1", "--ids", &long], "").contains("text 2 has 2000 tokens, the model takes"));
}

#[test]
fn search_finds_lines() {
    let lines = "The cat sat on the mat.\n\nOnce upon a time there was a girl.\nThe big red ball was lost.\n";
    let (file, index) =
        (scratch("lines.txt", lines.as_bytes()), Path::new(env!("CARGO_TARGET_TMPDIR")).join("lines.index"));
    let _ = std::fs::remove_file(&index);
    let args =
        ["--text", text(&file), "--index", text(&index), "-k", "2", "Once upon a time there was a girl.", "The cat"];
    let output = run("search", &args, "");
    let out = String::from_utf8(output.stdout).unwrap();
    let found: Vec<&str> = out.lines().collect();
    assert_eq!(found.len(), 6, "{out}");
    assert!(found[0].starts_with("Once upon") && found[1].starts_with("  1.000      3  Once upon"), "{out}");
    assert!(found[3] == "The cat" && found[4].contains("      1  The cat sat"), "{out}");
    assert!(String::from_utf8(output.stderr).unwrap().contains("3 lines became vectors"));
    // The second time, the vectors are in the index. Queries can be lines of standard input.
    let again = run("search", &args, "");
    assert!(again.stdout == out.as_bytes() && again.stderr.is_empty());
    let piped = ok("search", &args[..6], "Once upon a time there was a girl.\n\nThe cat\n");
    assert_eq!(piped, out);
    // With other lines, or with a damaged index, the vectors are computed again.
    let bytes = std::fs::read(&index).unwrap();
    std::fs::write(&index, &bytes[..bytes.len() - 4]).unwrap();
    assert!(String::from_utf8(run("search", &args, "").stderr).unwrap().contains("became vectors"));
    let other = scratch("other.txt", format!("{lines}A dog.\n").as_bytes());
    let out = ok("search", &["--text", text(&other), "--index", text(&index), "-k", "1", "A dog."], "");
    assert!(out.contains("1.000      5  A dog."), "{out}");
    assert!(refused("search", &["--text", "nowhere.txt", "x"], "").contains("nowhere.txt"));
    assert!(refused("search", &["--pooling", "rank", "x"], "").contains("reranker"));
    assert!(refused("search", &["--text", text(&scratch("empty.txt", b"\n")), "x"], "").contains("no lines"));
}

/// Programs that need logits name the programs for encoders. `embed` and `search` take an encoder as it is.
#[test]
fn encoders_generate_nothing() {
    let model = SyntheticModel::llama().with("attention.causal", false);
    let file = scratch("encoder.gguf", &model.bytes());
    for (example, args) in
        [("generate", &["--ids", "1,2,3"][..]), ("score", &["--prompt", "a", "--choice", "b", "--choice", "c"])]
    {
        let error = refused(example, &[&["--model", text(&file)], args].concat(), "");
        assert!(error.contains("makes vectors of texts and predicts no tokens"), "{example}: {error}");
    }
    let out = ok("embed", &["--model", text(&file), "--ids", "1,2,3", "--ids", &"4,".repeat(300)], "");
    assert_eq!(table(&out, 2)[0][0], 1.0);
}
