//! A C program that is linked with the library generates what the Rust API generates.

use std::path::{Path, PathBuf};
use std::process::Command;

use gleed::mem::ALIGN;
use gleed::{Engine, Limits, Model, Plan};

/// "Once upon a time".
const PROMPT: [u32; 5] = [1, 414, 435, 261, 385];
const COUNT: usize = 24;

fn manifest(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn model_file() -> PathBuf {
    manifest("../examples/assets/gleed-tales-q8_0.gguf")
}

/// Compiles `bare/smoke.c` with the library of `tests/hosted`. Returns the program, or `None` if there is no compiler.
fn program() -> Option<PathBuf> {
    let built = std::env::current_exe().unwrap();
    let library = built.ancestors().nth(2).unwrap().join("examples/libgleed_hosted.a");
    assert!(library.exists(), "{} is not there: `cargo test -p gleed-ffi` builds it", library.display());
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("smoke");
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let mut command = Command::new(&compiler);
    command.args(["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-I"]).arg(manifest("../include"));
    command.arg(manifest("bare/smoke.c")).arg(&library).args(["-lpthread", "-ldl", "-lm", "-o"]).arg(&program);
    let Ok(output) = command.output() else {
        println!("skipped: no compiler {compiler}");
        return None;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(program)
}

fn ids_of_c(program: &Path) -> Vec<u32> {
    let mut command = Command::new(program);
    command.arg(model_file()).arg(COUNT.to_string()).args(PROMPT.map(|id| id.to_string()));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().split_whitespace().map(|id| id.parse().unwrap()).collect()
}

fn ids_of_rust() -> Vec<u32> {
    let bytes = std::fs::read(model_file()).unwrap();
    let model = Model::open(&bytes).unwrap();
    let plan = Plan::new(&model, &Limits::default()).unwrap();
    let mut memory = vec![0; plan.bytes() + ALIGN];
    let start = memory.as_ptr().align_offset(ALIGN);
    let mut engine = Engine::new(&model, &plan, &mut memory[start..]).unwrap();
    let seq = engine.open().unwrap();
    let mut id = greedy(engine.prefill(seq, &PROMPT).unwrap());
    let mut ids = vec![id];
    while ids.len() < COUNT {
        id = greedy(engine.decode_step(seq, id).unwrap());
        ids.push(id);
    }
    ids
}

/// Returns the lowest of the ids with the largest logit.
fn greedy(logits: &[f32]) -> u32 {
    let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    logits.iter().position(|&logit| logit == max).unwrap() as u32
}

#[test]
fn c_and_rust_generate_the_same() {
    let Some(program) = program() else { return };
    assert_eq!(ids_of_c(&program), ids_of_rust());
}
