//! The first example to read before building Gleed into a program. Model, engine and tokenizer live in memory that is
//! laid out when the program is linked. Nothing here allocates, and neither does Gleed.
//!
//! ```text
//! cargo run --release --example static_arena
//! ```
//!
//! On a microcontroller the model lies in flash and the arena in RAM, and `write!` writes to a serial port. The rest
//! stays as it is. Of Gleed's features it needs `arch-llama` and `quant-q8_0` only.

use std::io::{Write, stdout};
use std::process::ExitCode;
use std::sync::Mutex;

use gleed::sample::{Sampler, SamplerParams, scratch_len};
use gleed::token::{DecodeOptions, Detokenizer, EncodeOptions, Tokenizer};
use gleed::{Engine, Limits, Model, Plan};

const HELP: &str = "\
static_arena tells a story in memory that is laid out when the program is linked.

Usage: static_arena

Options:
  -h, --help     Print help
  -V, --version  Print version

Examples:
  cargo run --release --example static_arena
  cargo run --release --example inspect -- --context 256 --rows 16 --emit-header";

/// Bytes of the model's GGUF file. The engine reads them in place and never copies them.
static MODEL: &[u8] = include_bytes!("assets/gleed-tales-q8_0.gguf");

/// Memory with the alignment that Gleed requires.
#[repr(C, align(64))]
struct Aligned<const N: usize>([u8; N]);

// `inspect --context 256 --rows 16 --emit-header` prints the size of the engine's memory, and `inspect` prints the size
// of the tokenizer's tables. The other sizes follow from the model's vocabulary and from the longest prompt.
static ENGINE: Mutex<Aligned<704_000>> = Mutex::new(Aligned([0; 704_000]));
static TABLES: Mutex<Aligned<16_384>> = Mutex::new(Aligned([0; 16_384]));
static SAMPLING: Mutex<[u64; scratch_len(1024)]> = Mutex::new([0; scratch_len(1024)]);
static ENCODING: Mutex<[u32; 2000]> = Mutex::new([0; 2000]);

fn main() -> ExitCode {
    common::end(tell())
}

fn tell() -> common::Result<()> {
    common::arguments(HELP, 0);
    let mut engine_memory = ENGINE.lock()?;
    let mut tables = TABLES.lock()?;
    let mut sampling = SAMPLING.lock()?;
    let mut encoding = ENCODING.lock()?;

    // Check the file, and state the limits of the engine.
    let model = Model::open(MODEL)?;
    let limits = Limits { context: 256, rows: 16, ..Limits::default() };
    let plan = Plan::new(&model, &limits)?;
    writeln!(stdout(), "engine: {} of {} bytes", plan.bytes(), engine_memory.0.len())?;
    writeln!(stdout(), "tokenizer: {} of {} bytes\n", Tokenizer::plan(model.gguf())?, tables.0.len())?;

    // Both refuse memory that is too small, and say how much they need.
    let mut engine = Engine::new(&model, &plan, &mut engine_memory.0)?;
    let tokenizer = Tokenizer::new(model.gguf(), &mut tables.0)?;
    let mut sampler = Sampler::new(SamplerParams { temperature: 0.6, seed: 1, ..SamplerParams::default() })?;

    // Text becomes tokens, with BOS in front, in a buffer of this program.
    let text = "Once upon a time";
    let mut tokens = [0; 32];
    let options = EncodeOptions { add_special: true, ..EncodeOptions::default() };
    let count = tokenizer.encode(text, options, &mut *encoding, &mut tokens)?.ids;
    let prompt = tokens.get(..count).unwrap_or_default();

    // The prompt goes into a sequence, and its last row gives the logits of the next token.
    let sequence = engine.open()?;
    let mut logits = engine.prefill(sequence, prompt)?;

    // Each token is chosen from the logits, written, and appended to the sequence.
    write!(stdout(), "{text}")?;
    let mut detokenizer = Detokenizer::new(&tokenizer, DecodeOptions { starts_text: false, ..Default::default() });
    let mut bytes = [0; 64];
    loop {
        let token = sampler.sample(logits, &mut *sampling)?.token;
        if tokenizer.is_end(token) {
            break;
        }
        write!(stdout(), "{}", detokenizer.push(&tokenizer, token, &mut bytes)?)?;
        stdout().flush()?;
        // A full context is an ordinary result. The engine can continue with other sequences.
        if engine.can_extend(sequence, 1).is_err() {
            break;
        }
        logits = engine.decode_step(sequence, token)?;
    }
    Ok(writeln!(stdout(), "{}", detokenizer.finish())?)
}
