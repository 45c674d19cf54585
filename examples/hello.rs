//! The first thing to read: a model's file becomes text. `cargo run --release --example hello [MODEL.gguf]`

use std::io::Write;

use gleed::host::{AlignedBytes, MappedFile};
use gleed::token::{DecodeOptions, Detokenizer, EncodeOptions, Tokenizer};
use gleed::{Engine, Limits, Model, Plan, sample};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Weights are read where they lie, in the mapped file. Nothing is copied.
    let demo = concat!(env!("CARGO_MANIFEST_DIR"), "/assets/gleed-tales-q8_0.gguf");
    let given = common::arguments(include_str!("assets/hello-help.txt"), 1).pop();
    let file = MappedFile::open(given.unwrap_or(demo.into()))?;
    let model = Model::open(file.bytes())?;
    // A plan says how much memory an engine with these limits takes. The memory is ours.
    let plan = Plan::new(&model, &Limits { context: 256, ..Limits::default() })?;
    let mut memory = AlignedBytes::new(plan.bytes());
    let mut engine = Engine::new(&model, &plan, memory.bytes())?;
    let mut tables = AlignedBytes::new(Tokenizer::plan(model.gguf())?);
    let tokenizer = Tokenizer::new(model.gguf(), tables.bytes())?;
    // The text becomes tokens: at most one per byte, and a few around them.
    let text = "Once upon a time";
    let (mut scratch, mut prompt) = (vec![0; tokenizer.scratch_len(text.len())], vec![0; text.len() + 3]);
    let options = EncodeOptions { add_special: true, ..EncodeOptions::default() };
    let count = tokenizer.encode(text, options, &mut scratch, &mut prompt)?.ids;
    // The prompt goes into a sequence: the logits say how likely each token is to come next.
    let sequence = engine.open()?;
    let mut token = sample::argmax(engine.prefill(sequence, &prompt[..count])?)?;
    // The likeliest token is written, as the characters that it completes, and goes in after the others.
    print!("{text}");
    let mut detokenizer = Detokenizer::new(&tokenizer, DecodeOptions { starts_text: false, ..Default::default() });
    let mut bytes = vec![0; tokenizer.max_push()];
    while !tokenizer.is_end(token) && engine.can_extend(sequence, 1).is_ok() {
        print!("{}", detokenizer.push(&tokenizer, token, &mut bytes)?);
        std::io::stdout().flush()?;
        token = sample::argmax(engine.decode_step(sequence, token)?)?;
    }
    println!("{}", detokenizer.finish());
    Ok(())
}
