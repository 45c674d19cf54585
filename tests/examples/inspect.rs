//! `inspect`: the parts of a file and of its plan.

use gleed::par::Parallel;
use gleed::{Engine, EngineError, KvType, Limits, Model, Plan};

use crate::{DEMO, refused, run, scratch, scratch_with, unknown_architecture};
use common::Memory;
use common::synthetic::{Architecture, SyntheticModel};

#[test]
fn inspect_shows_all_of_a_model() {
    let report = run("inspect", &["--context", "256", "--sequences", "3"]).ok();
    for part in ["general.architecture = \"llama\"", "(1024 in all)", "Q8_0", "1024 tokens", "BOS 1", "kv blocks"] {
        assert!(report.contains(part), "{part} is missing:\n{report}");
    }
    let file = scratch_with("zebra.gguf", &unknown_architecture());
    let report = run("inspect", &["--model", &file]).ok();
    assert!(report.contains("\"zebra\" is not supported") && report.contains("Q8_0"), "{report}");
}

#[test]
fn inspect_prints_the_program() {
    let table = run("inspect", &["--context", "256", "--program"]).ok();
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines[0], "Program of llama, 4 layers");
    assert!(lines.contains(&"Kind \"layer\": 4 of 4 layers (0-3), rotary base 10000"), "{table}");
    let place = |words: &str| lines.iter().position(|line| line.trim_start().starts_with(words));
    let order = ["embed", "norm  ", "qkv", "store", "attention", "gate and up", "logits"].map(place);
    assert!(order.iter().all(Option::is_some) && order.is_sorted(), "{table}");
    assert!(table.contains("attn_q Q8_0["), "{table}");

    let file = scratch_with("zebra-program.gguf", &unknown_architecture());
    refused("inspect", &["--model", &file, "--program"], "\"zebra\" is not supported");
    let both = run("inspect", &["--program", "--emit-header"]);
    assert_eq!(both.code, Some(2), "{}", both.out);
    assert!(both.err.contains("cannot be used with"), "{}", both.err);
}

#[test]
fn inspect_tells_layers_of_several_shapes_apart() {
    let model = SyntheticModel::of(Architecture::Gemma4);
    let file = scratch_with("gemma4.gguf", &model.bytes());
    let report = run("inspect", &["--model", &file, "--context", "64"]).ok();
    for part in [
        "4 query heads, 2 key/value heads, 16 elements each with a window",
        "4 query heads, 2 key/value heads, 24 elements each without",
        "3 layers read the keys and values of other layers",
    ] {
        assert!(report.contains(part), "{part} is missing:\n{report}");
    }
    let table = run("inspect", &["--model", &file, "--context", "64", "--program"]).ok();
    let kinds: Vec<&str> = table.split("\n\n").filter(|part| part.starts_with("Kind ")).collect();
    let heading = |kind: &str| kind.lines().next().unwrap().to_owned();
    let expected = [
        "Kind \"local\": 2 of 6 layers (0, 2), window 16, rotary base 10000",
        "Kind \"global\": 1 of 6 layers (1), rotary base 1000000",
        "Kind \"local, shared\": 2 of 6 layers (3, 5), window 16, rotary base 10000",
        "Kind \"global, shared\": 1 of 6 layers (4), rotary base 1000000",
    ];
    assert_eq!(kinds.iter().map(|kind| heading(kind)).collect::<Vec<_>>(), expected, "{table}");
    for kind in kinds {
        let shared = heading(kind).contains("shared");
        assert_eq!(kind.contains("  store "), !shared, "{table}");
        assert_eq!(kind.contains("attn_k F32["), !shared, "{table}");
        assert!(kind.contains("attn_q F32[") && kind.contains("inp_gate F32[32, 64]"), "{table}");
    }
}

#[test]
fn inspect_finds_the_site_of_an_internal_error() {
    // An executor that never calls the body.
    struct Nobody;
    impl Parallel for Nobody {
        fn run(&self, _: usize, _: &(dyn Fn(usize) + Sync)) {}
        fn slots(&self) -> usize {
            1
        }
    }
    let model = Model::open(DEMO).unwrap();
    let plan = Plan::new(&model, &Limits { context: 16, ..Limits::default() }).unwrap();
    let mut memory = Memory::new(plan.bytes());
    let mut engine = Engine::new(&model, &plan, memory.bytes()).unwrap();
    engine.set_parallel(&Nobody);
    let seq = engine.open().unwrap();
    let error = engine.prefill(seq, &[1]).unwrap_err();
    let EngineError::Internal(site) = error else { panic!("{error:?}") };
    assert!(error.to_string().ends_with(&format!("at site {}", site.number())), "{error}");
    let place = run("inspect", &["--site", &site.number().to_string()]).ok();
    assert!(place.starts_with("src/par.rs:") && place.lines().count() == 1, "{place}");
    refused("inspect", &["--site", "7"], "has the number 7");
}

#[test]
fn inspect_writes_the_header() {
    let model = Model::open(DEMO).unwrap();
    let limits = Limits { context: 256, rows: 8, kv_type: KvType::F32, workers: 2, ..Limits::default() };
    let bytes = gleed_ffi::HEAD + Plan::new(&model, &limits).unwrap().bytes();
    let flags = ["--context", "256", "--rows", "8", "--kv-type", "f32", "--threads", "2", "--emit-header"];
    let header = run("inspect", &flags).ok();
    assert!(
        header.contains(&format!("\n#define GLEED_ARENA_BYTES {bytes}\n#define GLEED_ARENA_ALIGN 64\n")),
        "{header}"
    );
    let file = scratch("arena.h");
    assert_eq!(run("inspect", &[&flags[..], &[file.to_str().unwrap()]].concat()).ok(), "");
    assert_eq!(std::fs::read_to_string(file).unwrap(), header);
}
