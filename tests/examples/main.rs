//! Runs the examples as a user runs them. `cargo test` builds them. Before `cargo test --test examples` they must be
//! built with `cargo build --examples`.

mod chat;
#[cfg(feature = "grammar")]
mod constrain;
mod device;
mod figures;
mod first_steps;
mod generate;
mod inspect;
mod kvlab;
mod measure;
mod mistakes;
mod outputs;
#[cfg(feature = "grammar")]
mod serve;
mod tokenize;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use common::{Memory, argmax, shared_file};
use gleed::token::{DecodeOptions, EncodeOptions, Tokenizer};
use gleed::{Engine, KvType, Limits, Model, Plan};

const DEMO: &[u8] = include_bytes!("../../examples/assets/gleed-tales-q8_0.gguf");

struct Run {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Run {
    /// Returns the standard output of a run that succeeded.
    fn ok(self) -> String {
        assert_eq!(self.code, Some(0), "{}", self.err);
        self.out
    }
}

fn command(example: &str, args: &[&str]) -> Command {
    // The path of this test is `target/PROFILE/deps/examples-HASH`.
    let folder = std::env::current_exe().unwrap().parent().unwrap().parent().unwrap().join("examples");
    let program = folder.join(format!("{example}{}", std::env::consts::EXE_SUFFIX));
    assert!(program.exists(), "{}: `cargo build --examples` makes it", program.display());
    let mut command = Command::new(program);
    // Examples keep files about a GPU in the cache folder. In tests they go to the tests' folder.
    command.args(args).env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR"));
    command
}

fn start(example: &str, args: &[&str]) -> Child {
    let pipes = [Stdio::piped(), Stdio::piped(), Stdio::piped()];
    let [stdin, stdout, stderr] = pipes;
    command(example, args).stdin(stdin).stdout(stdout).stderr(stderr).spawn().unwrap()
}

fn run_with_input(example: &str, args: &[&str], input: &[u8]) -> Run {
    let mut child = start(example, args);
    // A program that refuses its arguments does not read its input.
    let _ = child.stdin.take().unwrap().write_all(input);
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).expect("output is UTF-8");
    Run { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

fn run(example: &str, args: &[&str]) -> Run {
    run_with_input(example, args, b"")
}

/// Returns the path of a file of this name. Only one test may use the name.
fn scratch(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

fn scratch_with(name: &str, bytes: &[u8]) -> String {
    let path = scratch(name);
    std::fs::write(&path, bytes).unwrap();
    path.to_str().unwrap().to_owned()
}

fn shared_path(path: &str) -> Option<String> {
    shared_file(path)?;
    Some(format!("{}/../shared/{path}", env!("CARGO_MANIFEST_DIR")))
}

/// Returns the demo model with another name in `general.architecture`.
fn unknown_architecture() -> Vec<u8> {
    let mut file = DEMO.to_vec();
    let at = file.windows(5).position(|bytes| bytes == b"llama").unwrap();
    file[at..at + 5].copy_from_slice(b"zebra");
    file
}

fn encode(tokenizer: &Tokenizer<'_, '_>, text: &str) -> Vec<u32> {
    let (mut scratch, mut ids) = (vec![0; tokenizer.scratch_len(text.len())], vec![0; text.len() + 3]);
    let options = EncodeOptions { add_special: true, ..EncodeOptions::default() };
    let count = tokenizer.encode(text, options, &mut scratch, &mut ids).unwrap().ids;
    ids.truncate(count);
    ids
}

/// Returns the ids of the prompt, the greedy ids and their text, as the library computes them.
fn greedy_story(prompt: &str, n: usize) -> (Vec<u32>, Vec<u32>, String) {
    let model = Model::open(DEMO).unwrap();
    let mut tables = Memory::new(Tokenizer::plan(model.gguf()).unwrap());
    let tokenizer = Tokenizer::new(model.gguf(), tables.bytes()).unwrap();
    let prompt_ids = encode(&tokenizer, prompt);

    let plan = Plan::new(&model, &Limits::default()).unwrap();
    let mut memory = Memory::new(plan.bytes());
    let mut engine = Engine::new(&model, &plan, memory.bytes()).unwrap();
    let sequence = engine.open().unwrap();
    let mut story = vec![argmax(engine.prefill(sequence, &prompt_ids).unwrap())];
    while story.len() < n {
        story.push(argmax(engine.decode_step(sequence, *story.last().unwrap()).unwrap()));
    }
    let mut text = vec![0; n * tokenizer.max_push()];
    let options = DecodeOptions { render_special: false, starts_text: false };
    let text = tokenizer.decode(&story, options, &mut text).unwrap().to_owned();
    (prompt_ids, story, text)
}

fn library_logits(tokens: &[u32]) -> Vec<u8> {
    let model = Model::open(DEMO).unwrap();
    let limits = Limits { rows: 70, logit_rows: 70, kv_type: KvType::F16, ..Limits::default() };
    let plan = Plan::new(&model, &limits).unwrap();
    let mut memory = Memory::new(plan.bytes());
    let mut engine = Engine::new(&model, &plan, memory.bytes()).unwrap();
    let sequence = engine.open().unwrap();
    let mut bytes = Vec::new();
    engine.prefill_rows(sequence, tokens, |_, row| bytes.extend(row.iter().flat_map(|x| x.to_le_bytes()))).unwrap();
    bytes
}

/// Checks that a program ends with exit code 1 and one line on standard error that has the right words.
fn refused(example: &str, args: &[&str], words: &str) {
    let result = run_with_input(example, args, b"[\n");
    assert_eq!(result.code, Some(1), "{example} {args:?}: {}", result.err);
    assert_eq!(result.err.lines().count(), 1, "{example} {args:?}: {}", result.err);
    assert!(result.err.starts_with("error: ") && result.err.contains(words), "{example} {args:?}: {}", result.err);
}
