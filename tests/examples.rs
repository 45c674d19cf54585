//! The examples, run as a user runs them. `cargo test` builds them; before `cargo test --test examples`,
//! `cargo build --examples` does.

mod common;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use common::fixtures::{ids, parse_json};
use common::{Memory, argmax, shared_file};
use gleed::num::Xxh64;
use gleed::par::Parallel;
use gleed::token::{DecodeOptions, EncodeOptions, Tokenizer};
use gleed::{Engine, EngineError, KvType, Limits, Model, Plan};

const DEMO: &[u8] = include_bytes!("../examples/assets/gleed-tales-q8_0.gguf");

struct Run {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Run {
    /// Standard output of a run that succeeded.
    fn ok(self) -> String {
        assert_eq!(self.code, Some(0), "{}", self.err);
        self.out
    }
}

fn start(example: &str, args: &[&str]) -> Child {
    // This test is `target/PROFILE/deps/examples-HASH`.
    let folder = std::env::current_exe().unwrap().parent().unwrap().parent().unwrap().join("examples");
    let program = folder.join(format!("{example}{}", std::env::consts::EXE_SUFFIX));
    let pipes = [Stdio::piped(), Stdio::piped(), Stdio::piped()];
    let [stdin, stdout, stderr] = pipes;
    Command::new(&program)
        .args(args)
        .stdin(stdin)
        .stdout(stdout)
        .stderr(stderr)
        .spawn()
        .unwrap_or_else(|error| panic!("{}: {error}; `cargo build --examples` makes it", program.display()))
}

fn run_with_input(example: &str, args: &[&str], input: &[u8]) -> Run {
    let mut child = start(example, args);
    // A program that refuses its arguments does not read.
    let _ = child.stdin.take().unwrap().write_all(input);
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).expect("output is UTF-8");
    Run { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

fn run(example: &str, args: &[&str]) -> Run {
    run_with_input(example, args, b"")
}

/// A file of this name for one test.
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

/// The demo model with another name in `general.architecture`.
fn unknown_architecture() -> Vec<u8> {
    let mut file = DEMO.to_vec();
    let at = file.windows(5).position(|bytes| bytes == b"llama").unwrap();
    file[at..at + 5].copy_from_slice(b"zebra");
    file
}

fn encode(tokenizer: &Tokenizer<'_, '_>, text: &str) -> Vec<u32> {
    let (mut scratch, mut ids) = (vec![0; tokenizer.scratch_len(text.len())], vec![0; text.len() + 3]);
    let options = EncodeOptions { add_special: true, parse_special: false };
    let count = tokenizer.encode(text, options, &mut scratch, &mut ids).unwrap();
    ids.truncate(count);
    ids
}

/// What the library gives: prompt ids, greedy ids, their text.
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

#[test]
fn generate_gives_what_the_library_gives() {
    let (prompt_ids, story, text) = greedy_story("Once upon a time", 70);
    let file = scratch("generate.json");
    let path = file.to_str().unwrap();
    let flags = ["-n", "70", "--temp", "0", "--json", path, "--verbose"];
    for prompt in [&["Once upon a time"][..], &["--prompt", "Once upon a time"], &["--ids", "1,414,435,261,385"]] {
        let result = run("generate", &[&flags[..], prompt].concat());
        let json = parse_json(&std::fs::read(&file).unwrap());
        assert_eq!(ids(&json["prompt_ids"]), prompt_ids);
        assert_eq!(ids(&json["ids"]), story);
        assert_eq!(json["text"], text);
        assert_eq!(json["forward_ms"].as_array().unwrap().len(), 70);
        assert!(json["ttft_ms"].as_f64().unwrap() > 0.0 && json["decode_tok_s"].as_f64().unwrap() > 0.0);
        let lines = |phase| result.err.lines().filter(|line| line.starts_with(phase)).count();
        assert_eq!((lines("prefill"), lines("decode")), (prompt_ids.len(), 70));
        assert!(result.err.contains("time to first token") && result.err.contains("tokens/s"));
        assert_eq!(result.ok(), format!("{text}\n"));
    }
}

/// However small the budget, the text is the same.
#[test]
fn frame_budget_gives_the_text_in_pieces() {
    let (_, _, text) = greedy_story("Once upon a time", 12);
    let svg = scratch("overshoot.svg");
    let plot = ["--svg", svg.to_str().unwrap()];
    for flags in [&["--ms", "0"][..], &["--ms", "0.2", "--threads", "2"], &["--units", "30", "--ms", "50"], &plot] {
        let out = run("frame_budget", &[&["--tokens", "12", "--no-sleep"], flags].concat()).ok();
        assert!(out.starts_with(&format!("Once upon a time{text}\n")), "{out}");
        assert!(out.contains("overshoot: p50") && out.ends_with("without a budget\n"), "{out}");
    }
    assert!(std::fs::read_to_string(&svg).unwrap().contains("microseconds"));
    assert_eq!(run("frame_budget", &["--units", "0"]).code, Some(1));
}

#[test]
fn sampling_is_reproducible_and_seeded() {
    let tell = |seed| run("generate", &["-n", "40", "--seed", seed, "--top-k", "50", "--top-p", "0.9", "The dog"]).ok();
    assert_eq!(tell("1"), tell("1"));
    assert_ne!(tell("1"), tell("2"));
}

#[test]
fn generate_says_why_it_stopped() {
    let ended = run("generate", &["--temp", "0.6", "Once upon a time"]);
    assert!(ended.err.contains("stopped: the model ended the text"), "{}", ended.err);
    assert!(run("generate", &["-n", "3", "Once"]).err.contains("stopped: -n tokens generated"));
    // 500 tokens of 512 are there before it begins.
    let ids = vec!["300"; 500].join(",");
    let full = run("generate", &["--ids", &ids, "--temp", "0", "-n", "50"]);
    assert!(full.err.contains("stopped: the context of 512 tokens is full"), "{}", full.err);
    assert!(full.err.contains("generated: 13 tokens"), "{}", full.err);
    full.ok();
}

#[test]
fn generate_goes_on_without_end() {
    let file = scratch("endless.json");
    let story = |flags: &str, n: &str| {
        let flags: Vec<&str> = flags.split_whitespace().chain(["--ignore-end", "-n", n]).collect();
        run("generate", &[&flags[..], &["--json", file.to_str().unwrap(), "Once upon a time"]].concat()).ok();
        ids(&parse_json(&std::fs::read(&file).unwrap())["ids"])
    };
    // The context is of 512 tokens.
    let paged = story("--window 60 --sinks 4", "600");
    assert_eq!(paged.len(), 600);
    assert_eq!(story("--window 60 --sinks 4 --kv basic --threads 2", "600"), paged);
    assert_eq!(story("--window 60 --sinks 4 --kv off", "80"), paged[..80]);
    assert_eq!(story("--window 512", "90"), story("", "90"));
    assert_ne!(story("--window 9", "90"), paged[..90]);
    let refused = |flags: &[&str]| run("generate", &[flags, &["Once"]].concat());
    assert!(refused(&["--sinks", "4"]).err.contains("--window"));
    assert!(refused(&["--window", "0"]).err.contains("--window is 0, it must be at least 1"));
    assert!(refused(&["--window", "600"]).err.contains("limit window is 600, it must be 1 to 512"));
}

#[test]
fn perplexity_is_that_of_the_logits() {
    let text = "Once upon a time there was a dog who liked to run in the big green park. One day he saw a cat.";
    let (path, json) = (scratch_with("perplexity.txt", text.as_bytes()), scratch("perplexity.json"));
    let measure = |flags: &str| {
        let flags: Vec<&str> = flags.split_whitespace().chain(["--text", &path, "--json"]).collect();
        let out = run("perplexity", &[&flags[..], &[json.to_str().unwrap()]].concat()).ok();
        (parse_json(&std::fs::read(&json).unwrap()), out)
    };
    let (full, out) = measure("--ctx 10");
    let model = Model::open(DEMO).unwrap();
    let mut tables = Memory::new(Tokenizer::plan(model.gguf()).unwrap());
    let tokenizer = Tokenizer::new(model.gguf(), tables.bytes()).unwrap();
    let (bos, tokens) = (1, &encode(&tokenizer, text)[1..]);
    let mut sum = 0.0;
    for chunk in tokens.chunks(10) {
        let rows = [&[bos], &chunk[..chunk.len() - 1]].concat();
        let logits = library_logits(&rows);
        let logits: Vec<f32> = logits.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect();
        for (logits, &token) in logits.chunks(1024).zip(chunk) {
            let total: f64 = logits.iter().map(|&logit| f64::from(logit).exp()).sum();
            sum += total.ln() - f64::from(logits[token as usize]);
        }
    }
    let nats = sum / tokens.len() as f64;
    let close = |name: &str, expected: f64| (full[name].as_f64().unwrap() / expected - 1.0).abs() < 1e-6;
    assert!(close("nats_per_token", nats) && close("perplexity", nats.exp()), "{full}");
    assert!(close("bits_per_byte", sum / std::f64::consts::LN_2 / text.len() as f64), "{full}");
    assert_eq!((full["tokens"].as_u64(), full["bytes"].as_u64()), (Some(tokens.len() as u64), Some(text.len() as u64)));
    assert!(out.contains("nats/token") && out.contains("bits/byte") && out.contains("tokens/s"), "{out}");
    let nats = |flags: &str| measure(flags).0["nats_per_token"].as_f64().unwrap();
    assert_eq!(nats("--ctx 10 --window 10 --kv off"), full["nats_per_token"].as_f64().unwrap());
    assert_eq!(nats("--window 6 --sinks 1"), nats("--window 6 --sinks 1 --kv basic --threads 2"));
    assert!(nats("--window 3") > nats(""));
    let two = scratch_with("two.txt", format!(" {text}\n###\n{text}\n").as_bytes());
    run("perplexity", &["--text", &two, "--ctx", "10", "--separator", "###", "--json", json.to_str().unwrap()]).ok();
    let twice = parse_json(&std::fs::read(&json).unwrap());
    assert!((twice["bits_per_byte"].as_f64().unwrap() / full["bits_per_byte"].as_f64().unwrap() - 1.0).abs() < 1e-12);
    assert_eq!(twice["tokens"].as_u64(), Some(2 * tokens.len() as u64));
    let refused = |flags: &[&str]| run("perplexity", flags);
    assert!(refused(&["--ctx", "1"]).err.contains("--ctx is 1, it must be at least 2"));
    assert!(refused(&["--ctx", "513"]).err.contains("the model's context is 512"));
    assert!(refused(&["--text", "/nowhere"]).err.contains("/nowhere: "));
    assert!(refused(&["--text", &scratch_with("empty.txt", b"")]).err.contains("there is nothing to score"));
    assert!(refused(&["--text", &scratch_with("bytes.txt", b"\xff")]).err.contains("invalid utf-8"));
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_generate_with_its_statistics() {
    use std::io::Read;
    // Without a cache a long text takes its time.
    let mut child = start("generate", &["--kv", "off", "--temp", "1.5", "-n", "500", "--ids", "1"]);
    let mut first = [0];
    child.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
    Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    let output = child.wait_with_output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert!(err.contains("stopped: interrupted") && err.contains("time to first token"), "{err}");
    assert_eq!(output.status.code(), Some(130));
}

#[test]
fn stories_260k() {
    let Some(model) = shared_path("models/stories260K/stories260K.gguf") else { return };
    let expected = parse_json(&shared_file("models/stories260K/EXPECTED.json").unwrap());
    let expected = &ids(&expected["greedy_ids"])[..60];
    let file = scratch("stories260K.json");
    for kv in ["off", "basic", "paged"] {
        let flags = ["--model", &model, "--ids", "1", "-n", "60", "--temp", "0", "--kv-type", "f32", "--kv", kv];
        run("generate", &[&flags[..], &["--json", file.to_str().unwrap()]].concat()).ok();
        assert_eq!(ids(&parse_json(&std::fs::read(&file).unwrap())["ids"]), expected, "{kv}");
    }
}

#[test]
fn logits_have_one_hash() {
    let tokens: Vec<u32> = (0..70).map(|i| 1 + i * 37 % 1000).collect();
    let list = tokens.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    let file = scratch("logits.bin");
    let path = file.to_str().unwrap();
    let hash = |flags: &str| {
        let flags: Vec<&str> = flags.split(' ').collect();
        let out = run("logits", &[&["--ids", &list, "--out", path][..], &flags].concat()).ok();
        assert_eq!(out.trim_end(), format!("{:016x}", Xxh64::hash(&std::fs::read(&file).unwrap())));
        out
    };
    let first = hash("--chunk 64 --level scalar");
    assert_eq!(std::fs::read(&file).unwrap(), library_logits(&tokens));
    for flags in [
        "--chunk 1 --kv paged",
        "--chunk 7 --kv basic --threads 2",
        "--chunk 7 --kv off",
        "--chunk 64 --kv off --threads 2",
        "--chunk 7",
        "--kv --threads 2",
    ] {
        assert_eq!(hash(flags), first, "{flags}");
    }
    assert_ne!(hash("--kv-type f32"), first);
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

#[test]
fn the_readme_shows_what_generate_prints() {
    let readme = include_str!("../README.md");
    let shown = readme.split_once("```text\n").unwrap().1.split_once("…\n```").unwrap().0;
    let story = run("generate", &["Once upon a time"]).ok();
    assert!(shown.len() > 200 && format!("Once upon a time{story}").starts_with(shown), "{story}");
}

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
fn inspect_finds_the_site_of_an_internal_error() {
    // An executor that calls no worker.
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

#[test]
fn chat_in_a_pipe() {
    let file = scratch("chat.gleed");
    let path = file.to_str().unwrap();
    let chat = |input: &str| run_with_input("chat", &["--temp", "0", "-n", "12", "--branches", "2"], input.as_bytes());
    let (_, story, text) = greedy_story("Once upon a time", 12);
    let begun = format!("{text} [cut after -n tokens]\n");
    let tokens = 5 + story.len();

    let saved = chat(&format!("Once upon a time\n/save {path}\nThe end.\n/stats\n")).ok();
    assert!(saved.starts_with(&format!("{begun}[{tokens} tokens saved, ")), "{saved}");
    assert!(saved.contains("branch 1 of 1: 32 of 512") && saved.contains("2 own, 0 shared"), "{saved}");
    let second = saved.lines().nth(2).unwrap();

    // The conversation goes on alike after /load, in a fork, and where the fork began.
    let loaded = chat(&format!("/load {path}\n/fork\nThe end.\n/switch 1\n/stats\nThe end.\n")).ok();
    let expected = format!("[{tokens} tokens loaded]\n[branch 2 of 2]\n{second}\n* branch 1: {tokens} tokens\n");
    assert!(loaded.starts_with(&expected), "{loaded}");
    assert!(loaded.contains("1 own, 1 shared"), "{loaded}");
    assert_eq!(loaded.lines().last(), Some(second), "{loaded}");

    assert_eq!(chat("/load\n/fork\n/fork\n/x\n/switch 7\n/close\n/close\n").err.lines().count(), 5);
    assert!(chat("/help\n/quit\nnever said\n").ok().ends_with("Ctrl-C stops a reply.\n"));
    let damaged = scratch_with("damaged.gleed", &std::fs::read(path).unwrap()[..1000]);
    let after = chat(&format!("/load {damaged}\nOnce upon a time\n"));
    assert_eq!((after.err.lines().count(), after.ok()), (1, begun));
}

#[test]
fn chat_in_a_turn_format() {
    let say = |flags: &[&str], input: &[u8]| {
        let flags = [&["--temp", "0", "-n", "4"], flags].concat();
        run_with_input("chat", &flags, input)
    };
    // The template's format, and its name; another one.
    let template = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/templates/qwen2.jinja");
    let by_file = say(&["--template", template], b"Once\nand\n/stats\n").ok();
    let by_name = say(&["--template", "qwen2"], b"Once\nand\n/stats\n").ok();
    let tokens = |out: &str| -> usize {
        let stats = out.lines().find(|line| line.starts_with("branch 1 of 1: ")).unwrap();
        stats["branch 1 of 1: ".len()..].split(' ').next().unwrap().parse().unwrap()
    };
    // By name alone the vocabulary says whether there is BOS; a template says it itself.
    assert_eq!(tokens(&by_file) + 1, tokens(&by_name));
    let system = say(&["--template", "llama2", "--system", "Be brief."], b"Once\n/stats\n").ok();
    let plain = say(&["--template", "llama2"], b"Once\n/stats\n").ok();
    assert!(tokens(&system) > tokens(&plain) + 8, "{system}{plain}");

    let unknown = say(&["--template", "zebra"], b"");
    assert!(unknown.err.contains("zebra is neither a file nor one of: none, phi4, qwen3"), "{}", unknown.err);
    assert!(say(&["--jinja"], b"").err.contains("--jinja"));
}

#[test]
fn chat_by_a_template() {
    let (_, _, text) = greedy_story("Once upon a time", 12);
    let template = "{{ bos_token }}{% for message in messages %}{{ message.content }}{% endfor %}";
    let template = scratch_with("chat.jinja", template.as_bytes());
    let flags = ["--temp", "0", "-n", "12", "--template", &template];
    let chat = |input: &[u8]| run_with_input("chat", &flags, input);
    if !cfg!(feature = "jinja") {
        let out = chat(b"Once upon a time\n");
        assert!(out.err.contains("built with --features jinja"), "{}", out.err);
        assert!(out.ok().starts_with(&text));
        return;
    }
    let out = chat(b"Once upon a time\nThe end.\n/fork\nOnce</s>\n/switch 1\nOnce</s>\n/load x\n");
    assert_eq!(out.err, "error: a template in Jinja needs the messages, which the file does not have\n");
    let out = out.ok();
    let replies: Vec<&str> = out.lines().filter(|line| line.ends_with("[cut after -n tokens]")).collect();
    assert_eq!(replies[0], format!("{text} [cut after -n tokens]"));
    // The same conversation in the branch and in the one that it was branched from.
    assert_eq!((replies.len(), replies[2]), (4, replies[3]), "{out}");

    let broken = scratch_with("broken.jinja", b"\n{% for %}");
    refused("chat", &["--template", &broken], "chat template, line 2: ");
}

#[test]
fn chat_with_a_full_context() {
    let input = b"Once upon a time\nmore\n/reset\nOnce upon a time\n";
    let full = run_with_input("chat", &["--temp", "0", "--context", "40"], input);
    assert_eq!(full.err.lines().count(), 1);
    assert!(full.err.contains("would have 42 tokens, the limit is 40 (/reset starts over)"), "{}", full.err);
    let out = full.ok();
    let full = "[the context is full: /reset starts over]";
    assert_eq!(out.matches(full).count(), 2, "{out}");
    let (before, after) = out.split_once("[a new conversation]\n").unwrap();
    assert_eq!(before, after);
}

#[test]
fn hello_tells_a_story() {
    let story = run("hello", &[]).ok();
    assert!(story.starts_with("Once upon a time, there was"), "{story}");
    assert!(story.ends_with("You can play with your ball again.\"\n"), "{story}");
    assert_eq!(run("hello", &[]).ok(), story);
    // The same tokens as from `generate`.
    let generated = run("generate", &["--temp", "0", "-n", "250", "Once upon a time"]).ok();
    assert_eq!(format!("Once upon a time{generated}"), story);
    let model = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/assets/gleed-tales-q8_0.gguf");
    assert_eq!(run("hello", &[model]).ok(), story);
    let missing = run("hello", &["/nowhere/at/all"]);
    assert!(missing.code == Some(1) && missing.err.contains("No such file"), "{}", missing.err);
    let source = include_str!("../examples/hello.rs");
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
        // Words of two letters are tokens of the smallest vocabulary, longer ones are not: "ab", " ", "ca", "b".
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

#[test]
fn bench_measures_the_same_logits_everywhere() {
    let json = scratch("bench.json");
    let bench = |level: &str| {
        let args = "--prompt 20 --gen 3 --depth 9 --sequences 2 --threads 1,2 --repeat 2 --level";
        let mut args: Vec<_> = args.split(' ').collect();
        args.extend([level, "--json", json.to_str().unwrap()]);
        let out = run("bench", &args).ok();
        assert!(out.contains("prefill 20") && out.contains("decode 3 at 9"), "{out}");
        parse_json(&std::fs::read(&json).unwrap())
    };
    let mut hashes = Vec::new();
    for level in gleed::kernels::Level::available() {
        let measured = bench(level.name());
        let runs = measured["runs"].as_array().unwrap();
        assert_eq!(runs.len(), 2);
        for phase in runs.iter().flat_map(|run| [&run["prefill"], &run["decode"]]) {
            assert_eq!(phase["tokens_s"]["all"].as_array().unwrap().len(), 2);
            assert!(phase["tokens_s"]["min"].as_f64().unwrap() > 0.0);
        }
        let hash = |run: &serde_json::Value| ["prefill", "decode"].map(|phase| run[phase]["logits_hash"].to_string());
        hashes.extend(runs.iter().map(hash));
    }
    assert!(hashes.windows(2).all(|pair| pair[0] == pair[1]), "{hashes:?}");
}

/// A subcommand of `kvlab` in short: its report, after a look at its tables and plots.
fn kvlab(command: &str, plots: &[&str], flags: &[&str]) -> serde_json::Value {
    let folder = scratch(&format!("kvlab-{command}"));
    let json = scratch(&format!("kvlab-{command}.json"));
    let _ = std::fs::remove_dir_all(&folder);
    let outputs = ["--quick", "--out", folder.to_str().unwrap(), "--json", json.to_str().unwrap()];
    let out = run("kvlab", &[&[command][..], &outputs, flags].concat()).ok();
    let report = parse_json(&std::fs::read(&json).unwrap());
    for table in report["tables"].as_array().unwrap() {
        assert!(out.contains(table["title"].as_str().unwrap()), "{out}");
        assert!(!table["rows"].as_array().unwrap().is_empty(), "{out}");
    }
    for plot in plots {
        let svg = std::fs::read_to_string(folder.join(plot)).unwrap();
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>") && svg.contains("<polyline"), "{plot}");
        assert!(out.contains(plot), "{out}");
    }
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), plots.len());
    report
}

/// The values of a column of a table.
fn column(report: &serde_json::Value, table: usize, name: &str) -> Vec<Option<f64>> {
    let rows = report["tables"][table]["rows"].as_array().unwrap();
    rows.iter().map(|row| row.get(name).expect("a column of this name").as_f64()).collect()
}

#[test]
fn kvlab_curve() {
    let report = kvlab("curve", &["curve-forward.svg", "curve-speed.svg", "curve-append.svg"], &[]);
    assert_eq!(column(&report, 0, "prompt"), [Some(32.0), Some(64.0)]);
    assert_eq!(column(&report, 1, "token").last(), Some(&Some(256.0)));
    for (table, name) in [(0, "off ms"), (0, "basic ms"), (0, "paged tok/s"), (1, "concatenating us"), (1, "paged us")]
    {
        assert!(column(&report, table, name).iter().all(|value| value.unwrap() > 0.0), "{name}");
    }
}

#[test]
fn kvlab_memory() {
    let report = kvlab("memory", &["memory.svg"], &["--budget", "1MiB"]);
    let measured = column(&report, 0, "measured bytes");
    assert_eq!(measured.len(), KvType::ALL.len() * 4);
    // Whole blocks: exactly the formula.
    for (tokens, ratio) in column(&report, 0, "tokens").iter().zip(column(&report, 0, "measured / formula")) {
        let whole = (tokens.unwrap() / 16.0).ceil() * 16.0 / tokens.unwrap();
        assert!((ratio.unwrap() - whole).abs() < 1e-9, "{tokens:?}: {ratio:?}");
    }
    for (formula, pool) in column(&report, 1, "formula tokens").iter().zip(column(&report, 1, "pool tokens")) {
        assert!((0.0..16.0).contains(&(formula.unwrap() - pool.unwrap())), "{formula:?} {pool:?}");
    }
}

#[test]
fn kvlab_break() {
    let report = kvlab("break", &["break.svg"], &["--layer", "1", "--head", "2", "--threads", "2"]);
    let largest = column(&report, 0, "largest error");
    assert_eq!((largest[0], column(&report, 0, "first other token")[0]), (Some(0.0), None));
    assert!(largest.len() == 4 && largest[1..].iter().all(|error| error.unwrap() > 1e-3), "{largest:?}");
}

#[test]
fn kvlab_share() {
    let report = kvlab("share", &["share-memory.svg", "share-time.svg"], &["--system", "50", "--own", "14"]);
    assert_eq!(column(&report, 0, "characters"), [Some(1.0), Some(2.0), Some(4.0)]);
    // 50 tokens are 3 full blocks and a partial one, of which each character has a copy.
    assert_eq!(column(&report, 0, "shared blocks"), [Some(3.0); 3]);
    assert_eq!(column(&report, 0, "own blocks"), [Some(1.0); 3]);
    let block = 4.0 * 2.0 * 128.0 * 2.0 * 16.0;
    assert_eq!(column(&report, 0, "pool bytes"), [5.0, 6.0, 8.0].map(|blocks| Some(blocks * block)));
    assert_eq!(column(&report, 1, "others"), [Some(1.0), Some(4.0)]);
}

#[test]
fn kvlab_window() {
    let report = kvlab("window", &["window.svg"], &["--sinks", "4"]);
    let perplexity = column(&report, 0, "perplexity");
    assert_eq!(column(&report, 0, "last"), [None, Some(64.0), Some(60.0), Some(32.0), Some(28.0)]);
    assert!(perplexity.iter().all(|value| (1.0..1000.0).contains(&value.unwrap())), "{perplexity:?}");
    assert!(perplexity[3] > perplexity[0], "{perplexity:?}");
    let bytes = column(&report, 0, "pool bytes");
    assert!(bytes[3] < bytes[0], "{bytes:?}");
}

/// One line on standard error, with the right words in it, and exit code 1.
fn refused(example: &str, args: &[&str], words: &str) {
    let result = run_with_input(example, args, b"[\n");
    assert_eq!(result.code, Some(1), "{example} {args:?}: {}", result.err);
    assert_eq!(result.err.lines().count(), 1, "{example} {args:?}: {}", result.err);
    assert!(result.err.starts_with("error: ") && result.err.contains(words), "{example} {args:?}: {}", result.err);
}

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
    refused("generate", &["--ids", "1,1024"], "token 1024 at index 1 is not below the vocabulary's size, 1024");
    refused("generate", &["-n", "0", "Once"], "-n is 0");
    refused("generate", &["--threads", "0", "Once"], "workers is 0");
    refused("generate", &["--temp", "-1", "Once"], "temperature");
    refused("generate", &["--top-p", "2", "Once"], "top_p");
    refused("generate", &["--ids", &vec!["5"; 513].join(",")], "513 tokens, the model's context is 512");
    refused("generate", &["--json", "/nowhere/at/all", "Once"], "/nowhere/at/all: ");
    refused("logits", &["--ids", "", "--out", "x"], "at least 1");
    refused("logits", &["--ids", "1", "--out", "/nowhere/at/all"], "/nowhere/at/all: ");
    refused("logits", &["--ids", &vec!["5"; 513].join(","), "--out", "x"], "513");
    refused("tokenize", &["--batch"], "line 1: ");
    refused("tokenize", &["--decode"], "\"[\" is no token id");
    refused("inspect", &["--sequences", "0"], "sequences is 0");
    refused("bench", &["--prompt", "0", "--gen", "0"], "nothing to measure");
    refused("bench", &["--threads", "0"], "at least 1");
    refused("make_model", &["--shape", "tiny", "--type", "f16", "--out", "/nowhere/at/all"], "/nowhere/at/all: ");
    let folder = scratch("kvlab-refused");
    let folder = ["--out", folder.to_str().unwrap()];
    let lab = |args: &[&str], words| refused("kvlab", &[args, &folder].concat(), words);
    lab(&["break", "--layer", "4"], "--layer is 4, it must be below 4");
    lab(&["break", "--prompt", ""], "the prompt has 1 tokens, it must be 2 to 448");
    lab(&["curve", "--steps", "512"], "--steps is 512, the model's context is 512");
    lab(&["curve", "--threads", "0"], "workers is 0");
    lab(&["share", "--system", "449"], "--system is 449, it must be 1 to 448");
    lab(&["window", "--text", "/nowhere/at/all"], "/nowhere/at/all: ");
    lab(&["memory", "--json", "/nowhere/at/all"], "/nowhere/at/all: ");
    let file = scratch_with("kvlab-file", b"") + "/plots";
    refused("kvlab", &["memory", "--out", &file], "kvlab-file/plots: ");
    refused("inspect", &["--context", "9999999999"], "context is 9999999999");
}

#[test]
fn usage() {
    let usage = |example, args: &[&str], words: &str| {
        let result = run(example, args);
        assert_eq!(result.code, Some(2), "{args:?}: {}", result.err);
        assert!(result.err.contains(words), "{args:?}: {}", result.err);
    };
    usage("generate", &[], "Usage");
    usage("generate", &["Once", "--ids", "1"], "cannot be used with");
    usage("generate", &["--kv", "page", "--prompt", "Once"], "off, basic, paged");
    usage("generate", &["--kv-type", "f64", "Once"], "f32, f16");
    usage("generate", &["--ids", "1,x"], "\"x\" is no token id");
    usage("logits", &["--ids", "1", "--out", "x", "--level", "fast"], "this machine has scalar");
    usage("bench", &["--repeat", "0"], "--repeat");
    usage("make_model", &["--shape", "tiny", "--type", "q9", "--out", "x"], "q8_0");
    usage("kvlab", &[], "Usage");
    usage("kvlab", &["memory", "--budget", "64XB"], "\"64XB\" is no size");
    usage("kvlab", &["share", "--characters", "0"], "--characters");
    for example in ["generate", "logits", "tokenize", "inspect", "chat", "bench"] {
        assert!(run(example, &["--help"]).ok().contains("--model <FILE>"));
    }
    assert!(run("kvlab", &["share", "--help"]).ok().contains("--model <FILE>"));
}
