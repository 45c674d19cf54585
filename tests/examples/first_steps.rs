//! `hello`, `static_arena` and `make_model`.

use gleed::token::Tokenizer;
use gleed::{Engine, Limits, Model, Plan};

use crate::{encode, run, scratch};
use common::Memory;

#[test]
fn hello_tells_a_story() {
    let story = run("hello", &[]).ok();
    assert!(story.starts_with("Once upon a time, there was"), "{story}");
    assert!(story.ends_with("You can play with your ball again.\"\n"), "{story}");
    assert_eq!(run("hello", &[]).ok(), story);
    // `generate` writes the same tokens.
    let generated = run("generate", &["--temp", "0", "-n", "250", "Once upon a time"]).ok();
    assert_eq!(format!("Once upon a time{generated}"), story);
    let model = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/assets/gleed-tales-q8_0.gguf");
    assert_eq!(run("hello", &[model]).ok(), story);
    let missing = run("hello", &["/nowhere/at/all"]);
    assert!(missing.code == Some(1) && missing.err.contains("No such file"), "{}", missing.err);
    let source = include_str!("../../examples/hello.rs");
    assert!(source.lines().count() <= 40, "{} lines", source.lines().count());
}

#[test]
fn a_static_arena() {
    let out = run("static_arena", &[]).ok();
    assert!(out.contains("\nOnce upon a time, there was"), "{out}");
}

#[test]
fn made_models_run() {
    let list = run("make_model", &["--list"]).ok();
    let types = list.lines().find_map(|line| line.strip_prefix("types: ")).unwrap();
    assert!(types.split(", ").count() >= 15, "{types}");
    for file_type in types.split(", ") {
        let path = scratch(&format!("made-{file_type}.gguf"));
        let make = ["--shape", "tiny", "--type", file_type, "--layers", "4", "--out", path.to_str().unwrap()];
        run("make_model", &make).ok();
        let file = std::fs::read(&path).unwrap();
        run("make_model", &make).ok();
        assert_eq!(file, std::fs::read(&path).unwrap(), "{file_type}: the same flags give the same file");

        let model = Model::open(&file).unwrap();
        let mut memory = Memory::new(Tokenizer::plan(model.gguf()).unwrap());
        let tokenizer = Tokenizer::new(model.gguf(), memory.bytes()).unwrap();
        let ids = encode(&tokenizer, "ab cab");
        // The smallest vocabulary has tokens for words of two letters, but not for longer ones: "ab", " ", "ca", "b".
        assert_eq!(ids.len(), 4, "{ids:?}");
        let plan = Plan::new(&model, &Limits { context: 8, ..Limits::default() }).unwrap();
        let mut memory = Memory::new(plan.bytes());
        let mut engine = Engine::new(&model, &plan, memory.bytes()).unwrap();
        let seq = engine.open().unwrap();
        let logits = engine.prefill(seq, &ids).unwrap();
        let deviation = (logits.iter().map(|x| x * x).sum::<f32>() / logits.len() as f32).sqrt();
        assert!((0.5..2.0).contains(&deviation), "{file_type}: {deviation}");
    }
}
