//! The first thing to read: a model's file becomes text. `cargo run --release --example hello [MODEL.gguf]`

use std::io::{Write, stdout};

use gleed::host::{AlignedBytes, MappedFile};
use gleed::token::{DecodeOptions, Detokenizer, EncodeOptions, Tokenizer};
use gleed::{Engine, Limits, Model, Plan, sample};

fn main() -> std::process::ExitCode {
    common::end(hello())
}

fn hello() -> common::Result<()> {
    // The engine reads the weights in place, from the mapped file. Nothing is copied.
    let path = common::arguments(include_str!("assets/hello-help.txt"), 1).pop().unwrap_or(common::DEMO_FILE.into());
    let file = MappedFile::open(&path).map_err(|error| format!("{path}: {error}"))?;
    let model = Model::open(file.bytes()).map_err(|error| format!("{path}: {error}"))?;
    // A plan states how much memory an engine with these limits takes. The program provides the memory.
    let plan = Plan::new(&model, &Limits { context: 256, ..Limits::default() })?;
    let (mut memory, mut tables) = (AlignedBytes::new(plan.bytes()), AlignedBytes::new(Tokenizer::plan(model.gguf())?));
    let mut engine = Engine::new(&model, &plan, memory.bytes())?;
    let tokenizer = Tokenizer::new(model.gguf(), tables.bytes())?;
    // The text becomes tokens: at most one per byte, and a few special ones around them.
    let (text, options) = ("Once upon a time", EncodeOptions { add_special: true, ..EncodeOptions::default() });
    let (mut scratch, mut prompt) = (vec![0; tokenizer.scratch_len(text.len())], vec![0; text.len() + 3]);
    let count = tokenizer.encode(text, options, &mut scratch, &mut prompt)?.ids;
    // The prompt goes into a sequence: the logits say how likely each token is to come next.
    let sequence = engine.open()?;
    let mut token = sample::argmax(engine.prefill(sequence, &prompt[..count])?)?;
    // Each round writes the characters that the token completes, appends the token, and takes the likeliest next one.
    write!(stdout(), "{text}")?;
    let mut detokenizer = Detokenizer::new(&tokenizer, DecodeOptions { starts_text: false, ..Default::default() });
    let mut bytes = vec![0; tokenizer.max_push()];
    while !tokenizer.is_end(token) && engine.can_extend(sequence, 1).is_ok() {
        write!(stdout(), "{}", detokenizer.push(&tokenizer, token, &mut bytes)?)?;
        stdout().flush()?;
        token = sample::argmax(engine.decode_step(sequence, token)?)?;
    }
    Ok(writeln!(stdout(), "{}", detokenizer.finish())?)
}
