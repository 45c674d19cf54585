//! The programs below `examples/` for C, C++ and Python: built with the system's compilers, and run as a user runs
//! them.

mod common;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use common::variants::{demo, rename, split};
use common::{flags, library, manifest, model_file, program, run_with_input, temporary};
use gleed::mem::ALIGN;
use gleed::token::{DecodeOptions, Detokenizer, EncodeOptions, Tokenizer};
use gleed::turns::{Message, Role, TurnFormat, TurnText, Turns};
use gleed::{Engine, Limits, Model, Plan};

const PROMPT: &str = "Once upon a time";

struct Run {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Run {
    /// Returns standard output of a run, which must have succeeded.
    #[track_caller]
    fn ok(self) -> String {
        assert_eq!(self.code, Some(0), "{}{}", self.out, self.err);
        self.out
    }

    /// Checks that a run was refused with this code, and with this text in its message.
    #[track_caller]
    fn refused(self, code: i32, text: &str) {
        assert_eq!((self.code, self.err.contains(text)), (Some(code), true), "{}", self.err);
        assert!(!self.err.contains("ERROR: "), "{}", self.err);
    }
}

fn start(program: &Path, arguments: &[&str], input: &str) -> Run {
    let arguments: Vec<&OsStr> = arguments.iter().map(OsStr::new).collect();
    let output = run_with_input(program, &arguments, input);
    let text = |bytes| String::from_utf8(bytes).expect("output is UTF-8");
    Run { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

fn example(path: &str) -> PathBuf {
    manifest("../examples").join(path)
}

/// Returns a path as an argument of a program.
fn name(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn model() -> String {
    name(&model_file()).to_owned()
}

/// Returns the path of a file that is no model.
fn text_file() -> String {
    name(&example("README.md")).to_owned()
}

/// Returns the greedy continuation of the prompt by the Rust API, `count` tokens long.
fn continuation(count: usize) -> String {
    let bytes = std::fs::read(model_file()).unwrap();
    let model = Model::open(&bytes).unwrap();
    let mut tables = vec![0; Tokenizer::plan(model.gguf()).unwrap() + ALIGN];
    let start = tables.as_ptr().align_offset(ALIGN);
    let tokenizer = Tokenizer::new(model.gguf(), &mut tables[start..]).unwrap();
    let (mut scratch, mut ids) = (vec![0; tokenizer.scratch_len(PROMPT.len())], [0; 32]);
    let options = EncodeOptions { add_special: true, ..EncodeOptions::default() };
    let prompt = tokenizer.encode(PROMPT, options, &mut scratch, &mut ids).unwrap().ids;

    let plan = Plan::new(&model, &Limits::default()).unwrap();
    let mut memory = vec![0; plan.bytes() + ALIGN];
    let start = memory.as_ptr().align_offset(ALIGN);
    let mut engine = Engine::new(&model, &plan, &mut memory[start..]).unwrap();
    let seq = engine.open().unwrap();
    let options = DecodeOptions { render_special: false, starts_text: false };
    let (mut stream, mut buffer) = (Detokenizer::new(&tokenizer, options), vec![0; tokenizer.max_push()]);
    let (mut text, mut next) = (String::new(), ids[..prompt].to_vec());
    for _ in 0..count {
        let logits = engine.prefill(seq, &next).unwrap();
        let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        next = vec![logits.iter().position(|&logit| logit == max).unwrap() as u32];
        text.push_str(stream.push(&tokenizer, next[0], &mut buffer).unwrap());
    }
    text
}

#[test]
fn minimal_continues_a_text_as_rust_does() {
    let Some(program) = program(&example("c/minimal.c"), "minimal", &flags("-std=c99")) else { return };
    let model = model();
    assert_eq!(start(&program, &[&model], "").ok(), format!("{PROMPT}{}\n", continuation(40)));
    assert_eq!(start(&program, &[&model, PROMPT, "5"], "").ok(), format!("{PROMPT}{}\n", continuation(5)));
    start(&program, &[], "").refused(2, "usage: minimal");
    start(&program, &[&model, PROMPT, "5x"], "").refused(2, "usage: minimal");
    start(&program, &["nowhere.gguf"], "").refused(1, "nowhere.gguf");
    start(&program, &[&text_file()], "").refused(1, "not a GGUF file");
    start(&program, &[&model, PROMPT, "256"], "").refused(1, "context full");
}

#[test]
fn minimal_says_what_does_not_fit_its_arrays() {
    let small = |define| [flags("-std=c99"), vec![define]].concat();
    let flags = small("-DARENA_BYTES=100000");
    let Some(with_small_arena) = program(&example("c/minimal.c"), "minimal_arena", &flags) else { return };
    start(&with_small_arena, &[&model()], "").refused(1, "compile with -DARENA_BYTES");
    let flags = small("-DMODEL_BYTES=1000000");
    let Some(with_small_file) = program(&example("c/minimal.c"), "minimal_file", &flags) else { return };
    start(&with_small_file, &[&model()], "").refused(1, "compile with -DMODEL_BYTES");
}

#[test]
fn chat_goes_on_where_it_was_saved() {
    let Some(program) = program(&example("c/chat.c"), "chat", &flags("-std=c99")) else { return };
    let (model, file) = (model(), temporary("chat.snapshot"));
    let file = name(&file);
    let greedy = start(&program, &[&model, "--temperature", "0", "--tokens", "20"], PROMPT).ok();
    assert_eq!(greedy, format!("{}\n", continuation(20)));

    // With penalties the sampler's last tokens must be restored, too.
    let flags = [&model, "--tokens", "20", "--penalty", "1.3", "--seed", "7"];
    let input = format!("{PROMPT}\n/save {file}\nShe said\n/load {file}\nShe said\n/reset\n{PROMPT}\n");
    let out = start(&program, &flags, &input).ok();
    let replies = |out: &str| out.trim_end().to_owned();
    let again = start(&program, &flags, &format!("/load {file}\nShe said\n")).ok();
    let first = start(&program, &flags, &format!("{PROMPT}\n")).ok();
    assert_eq!(replies(&out), replies(&format!("{first}{again}{again}{first}")));
}

#[test]
fn chat_says_what_is_wrong_and_goes_on() {
    let Some(program) = program(&example("c/chat.c"), "chat_wrong", &flags("-std=c99")) else { return };
    let model = model();
    start(&program, &[], "").refused(2, "a model is missing");
    start(&program, &[&model, "--heat", "1"], "").refused(2, "no such option: --heat");
    start(&program, &[&model, "--top-p", "1.5"], "").refused(2, "--top-p takes a number from 0 to 1, not 1.5");
    start(&program, &["nowhere.gguf"], "").refused(1, "nowhere.gguf");
    start(&program, &[&text_file()], "").refused(1, "not a GGUF file");
    let long = "a ".repeat(3000);
    let input =
        format!("/load {}\n/load nowhere\n/save\n/what\n{long}\n{}\n/quit\nnot read\n", text_file(), &long[..2000]);
    let run = start(&program, &[&model, "--context", "100"], &input);
    for message in
        ["not a snapshot", "nowhere: ", "a file's name is missing", "no such command", "at most 4094 bytes", "/reset"]
    {
        assert!(run.err.contains(message), "{message}: {}", run.err);
    }
    assert_eq!(run.ok(), "");
}

/// Returns the path of the demo model with Gemma's turn format. The token of the full stop becomes the stop of the
/// format.
fn gemma(name: &str) -> PathBuf {
    let mut writer = demo();
    rename(&mut writer, &[(945, "<end_of_turn>"), (1020, "<start_of_turn>")]);
    let template = std::fs::read_to_string(manifest("../tests/data/templates/gemma.jinja")).unwrap();
    writer.set("tokenizer.chat_template", template.as_str());
    let path = temporary(name);
    std::fs::write(&path, writer.finish()).unwrap();
    path
}

/// Returns the most probable replies of a model, by the Rust API. Each reply is computed from the start of the
/// conversation.
fn replies(file: &Path, format: &str, system: Option<&str>, users: &[&str], most: usize) -> Vec<String> {
    let bytes = std::fs::read(file).unwrap();
    let model = Model::open(&bytes).unwrap();
    let mut tables = vec![0; Tokenizer::plan(model.gguf()).unwrap() + ALIGN];
    let start = tables.as_ptr().align_offset(ALIGN);
    let tokenizer = Tokenizer::new(model.gguf(), &mut tables[start..]).unwrap();
    let plan = Plan::new(&model, &Limits::default()).unwrap();
    let mut memory = vec![0; plan.bytes() + ALIGN];
    let start = memory.as_ptr().align_offset(ALIGN);
    let mut engine = Engine::new(&model, &plan, &mut memory[start..]).unwrap();
    let seq = engine.open().unwrap();
    let format = TurnFormat::named(format).unwrap();
    let (mut turns, mut ids, mut replies) = (Turns::new(format), Vec::new(), Vec::new());
    for (index, &text) in users.iter().enumerate() {
        let system = system.filter(|_| index == 0).map(|text| Message { role: Role::System, text });
        let mut pieces: Vec<_> = system.into_iter().flat_map(|message| turns.add(message)).collect();
        pieces.extend(turns.add(Message { role: Role::User, text }));
        pieces.extend(turns.reply());
        let (mut text, mut plain) = (vec![0; 10_000], vec![0..0; 10]);
        let mut text = TurnText::new(&mut text, &mut plain);
        pieces.iter().for_each(|&piece| text.push(&tokenizer, piece).unwrap());
        let (mut scratch, mut new) = (vec![0; tokenizer.scratch_len(10_000)], vec![0; 2000]);
        let count = text.encode(&tokenizer, &mut scratch, &mut new).unwrap().ids;
        ids.extend(&new[..count]);
        let options = DecodeOptions { render_special: false, starts_text: false };
        let (mut stream, mut buffer) = (Detokenizer::new(&tokenizer, options), vec![0; tokenizer.max_push()]);
        let mut reply = String::new();
        for _ in 0..most {
            engine.reset(seq).unwrap();
            let logits = engine.prefill(seq, &ids).unwrap();
            let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let token = logits.iter().position(|&logit| logit == max).unwrap() as u32;
            if format.is_stop(&tokenizer, token) {
                break;
            }
            reply.push_str(stream.push(&tokenizer, token, &mut buffer).unwrap());
            ids.push(token);
        }
        reply.push_str(stream.finish());
        replies.push(reply);
    }
    replies
}

#[test]
fn chat_writes_turns_as_the_models_file_says() {
    let Some(program) = program(&example("c/chat.c"), "chat_turns", &flags("-std=c99")) else { return };
    let (file, users) = (gemma("gemma.gguf"), ["Once upon a time there was a dog", "The dog <end_of_turn>", "and"]);
    let greedy = [name(&file), "--temperature", "0", "--tokens", "40"];
    let input = users.join("\n");
    let expected = |system, format| replies(&file, format, system, &users, 40).join("\n") + "\n";

    let run = start(&program, &greedy, &input);
    assert!(run.err.contains("turn format: gemma;"), "{}", run.err);
    let said = run.ok();
    assert_eq!(said, expected(None, "gemma"));
    // The format's stop ends the replies.
    assert!(said.lines().all(|line| line.len() > 3 && !line.contains('.')), "{said}");
    let system = "You tell stories. ".repeat(9);
    let told = start(&program, &[&greedy[..], &["--system", &system]].concat(), &input).ok();
    assert_eq!(told, expected(Some(&system), "gemma"));

    // A saved conversation goes on with an open turn of the model.
    let saved = temporary("turns.snapshot");
    let [one, two, three] = users;
    start(&program, &greedy, &format!("{one}\n{two}\n/save {}\n", name(&saved))).ok();
    let again = start(&program, &greedy, &format!("/load {}\n{three}\n", name(&saved))).ok();
    assert_eq!(again.lines().last(), said.lines().last());

    // With another format, chosen by its name, the vocabulary decides whether BOS is added.
    let run = start(&program, &[&greedy[..], &["--format", "llama2"]].concat(), &input);
    assert!(run.err.contains("turn format: llama2;"), "{}", run.err);
    assert_eq!(run.ok(), expected(None, "llama2"));
    let none = start(&program, &[&greedy[..], &["--format", "none"]].concat(), PROMPT);
    assert!(none.err.contains("turn format: none, the model continues your text;"), "{}", none.err);
    none.ok();
    start(&program, &[&greedy[..], &["--format", "zebra"]].concat(), "")
        .refused(2, "zebra; known are none, phi4, nemotron3");
}

#[test]
fn chat_says_what_it_does_not_know_and_what_is_full() {
    let Some(program) = program(&example("c/chat.c"), "chat_full", &flags("-std=c99")) else { return };
    let unknown = start(&program, &[&model(), "--tokens", "3"], PROMPT);
    assert!(unknown.err.contains("does not say how turns are written; --format NAME chooses one"), "{}", unknown.err);
    unknown.ok();
    let (path, mut writer) = (temporary("template.gguf"), demo());
    std::fs::write(&path, writer.set("tokenizer.chat_template", "{{ messages }}").finish()).unwrap();
    let unknown = start(&program, &[name(&path), "--tokens", "3"], PROMPT);
    assert!(unknown.err.contains("a chat template that is none of the known ones; --format NAME"), "{}", unknown.err);
    unknown.ok();

    let file = model();
    let flags = [&file, "--format", "chatml", "--temperature", "0", "--context", "100", "--tokens", "200"];
    let run = start(&program, &flags, &format!("{PROMPT}\n{PROMPT}\n/reset\n{PROMPT}\n"));
    assert_eq!(run.err.matches("[the context of 100 tokens is full: /reset starts over]").count(), 2, "{}", run.err);
    assert!(run.err.contains("no room for this turn: the conversation has 100 of 100 tokens"), "{}", run.err);
    let lines: Vec<String> = run.ok().lines().map(str::to_owned).collect();
    assert!(lines.len() == 2 && lines[0] == lines[1] && !lines[0].is_empty(), "{lines:?}");
}

#[test]
fn programs_open_all_parts_of_a_split_file() {
    let Some(program) = program(&example("c/chat.c"), "chat_parts", &flags("-std=c99")) else { return };
    let part = |number: usize| temporary(&format!("tales-{number:05}-of-00003.gguf"));
    for (index, bytes) in split(&demo(), 3).iter().enumerate() {
        std::fs::write(part(index + 1), bytes).unwrap();
    }
    let greedy = |file: &str| start(&program, &[file, "--temperature", "0", "--tokens", "20"], PROMPT);
    assert_eq!(greedy(name(&part(1))).ok(), format!("{}\n", continuation(20)));
    greedy(name(&part(2))).refused(1, "the file is split into 3 parts, 1 of which were given");
    std::fs::remove_file(part(3)).unwrap();
    greedy(name(&part(1))).refused(1, "tales-00003-of-00003.gguf");
}

#[test]
fn snapshot_goes_on_in_another_engine_and_refuses_damage() {
    let Some(program) = program(&example("c/snapshot.c"), "snapshot", &flags("-std=c99")) else { return };
    let (model, file) = (model(), temporary("example.snapshot"));
    let out = start(&program, &[&model, name(&file)], "").ok();
    assert!(out.ends_with("the text is the same\n"), "{out}");
    assert_eq!(out.matches("nothing has changed").count(), 9, "{out}");
    for status in ["-800", "-801", "-803"] {
        assert!(out.contains(status), "{out}");
    }
    start(&program, &[&model], "").refused(2, "usage: snapshot");
    start(&program, &[&text_file(), name(&file)], "").refused(1, "not a GGUF file");
    start(&program, &[&model, "nowhere/file"], "").refused(1, "nowhere/file");
}

#[test]
fn the_crowd_says_the_same_however_it_is_run() {
    let Some(program) = program(&example("cpp/npc_crowd.cpp"), "npc_crowd", &flags("-std=c++17")) else { return };
    let model = model();
    let out = start(&program, &[&model, "--workers", "3", "--tokens", "12"], "").ok();
    for line in ["after loading everybody says the same\n", "with one worker everybody says the same\n"] {
        assert!(out.contains(line), "{out}");
    }
    // 114 tokens fill 7 blocks, which all characters share. The rest of the 114, a persona and 12 tokens take 2 blocks
    // for each character.
    assert!(out.contains("blocks of 16 tokens: 7 shared by all, 128 private, 136 used of 136;"), "{out}");
    assert!(out.contains("Lily said, \""), "{out}");
    // A frame that has no time still does something.
    start(&program, &[&model, "--characters", "3", "--tokens", "3", "--ms", "0"], "").ok();
    start(&program, &[], "").refused(2, "a model is missing");
    start(&program, &[&model, "--characters", "0"], "").refused(2, "from 1 to 1000, not 0");
    start(&program, &["nowhere.gguf"], "").refused(1, "nowhere.gguf");
}

#[test]
fn a_story_takes_its_share_of_frames() {
    let Some(program) = program(&example("cpp/frames.cpp"), "frames", &flags("-std=c++17")) else { return };
    let model = model();
    let out = start(&program, &[&model, PROMPT, "12"], "").ok();
    assert!(out.starts_with(&format!("{PROMPT}, there was a ")), "{out}");
    assert!(out.ends_with(" frames\n"), "{out}");
    start(&program, &[&model, PROMPT, "0"], "").refused(2, "usage: frames");
    start(&program, &["nowhere.gguf"], "").refused(1, "nowhere.gguf");
    start(&program, &[&text_file()], "").refused(1, "not a GGUF file");
    start(&program, &[concat!(env!("CARGO_MANIFEST_DIR"), "/src")], "").refused(1, "cannot be read");
}

/// The host forbids allocations in its audio callbacks. There are no sanitizers here, because they replace malloc, too.
#[test]
fn the_plugin_does_not_allocate_while_audio_runs() {
    if cfg!(not(target_os = "linux")) {
        return;
    }
    let shared = ["-std=c99", "-shared", "-fPIC", "-fvisibility=hidden", "-Wl,--exclude-libs,ALL"];
    let Some(plugin) = program(&example("plugin/plugin.c"), "plugin.so", &shared) else { return };
    let Some(host) = program(&example("plugin/host.c"), "host", &["-std=c99"]) else { return };
    let (plugin, model) = (name(&plugin), model());
    let out = start(&host, &[plugin, &model, "2000"], "").ok();
    println!("{}", out.lines().last().unwrap());
    assert!(out.starts_with(&format!("{PROMPT}, there was a ")), "{out}");
    assert!(out.contains("2000 calls without an allocation"), "{out}");
    let aborted = start(&host, &[plugin, &model, "10", "--allocate"], "");
    assert_eq!((aborted.code, aborted.err.as_str()), (None, "malloc was called during the audio callback\n"));
    start(&host, &[plugin], "").refused(2, "usage: host");
    start(&host, &["./nowhere.so", &model], "").refused(1, "nowhere.so");
    start(&host, &[plugin, &text_file()], "").refused(1, "not a GGUF file");
}

#[test]
fn python_calls_the_library() {
    let python = Path::new("python3");
    if std::process::Command::new(python).arg("--version").output().is_err() {
        println!("skipped: no python3");
        return;
    }
    let script = example("python/generate.py");
    let library = library("libgleed_hosted.so");
    let talk = |arguments: &[&str], input: &str| {
        start(python, &[&[name(&script), "--library", name(&library)], arguments].concat(), input)
    };
    let generate = |arguments: &[&str]| talk(arguments, "");
    let model = model();
    assert_eq!(generate(&[&model]).ok(), format!("{PROMPT}{}\n", continuation(40)));
    let sampled = [&model, "--temperature", "0.8", "--seed", "3", "--tokens", "12", "--snapshot-test"];
    let out = generate(&sampled).ok();
    assert!(out.ends_with("the same text\n"), "{out}");
    assert_eq!(generate(&sampled).ok(), out);
    generate(&["nowhere.gguf"]).refused(1, "nowhere.gguf");
    generate(&[&text_file()]).refused(1, "not a GGUF file");
    generate(&[&model, "--tokens", "0"]).refused(2, "at least 1");

    let file = gemma("gemma-python.gguf");
    let users = ["Once upon a time there was a dog", "The dog <end_of_turn>", "and"];
    let chat = |tokens| {
        let arguments = [name(&file), "--chat", "--context", "512", "--tokens", tokens];
        talk(&arguments, &(users.join("\n") + "\n")).ok()
    };
    for (tokens, most) in [("40", 40), ("3", 3)] {
        assert_eq!(chat(tokens), replies(&file, "gemma", None, &users, most).join("\n") + "\n");
    }
    talk(&[name(&file), "--chat", "--context", "30"], &"a\n".repeat(9)).refused(1, "context full");
    talk(&[&model, "--chat"], "Hi\n").refused(1, "does not say how turns are written");
}
