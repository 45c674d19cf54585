//! Shows what is in a GGUF file, and how much memory an engine needs for it.
//!
//! ```text
//! cargo run --release --example inspect -- --model model.gguf --context 2048 --sequences 4
//! cargo run --release --example inspect -- --model model.gguf --program
//! cargo run --release --example inspect -- --model model.gguf --context 2048 --emit-header arena.h
//! ```
//!
//! Files of architectures that Gleed does not know, and files with only a vocabulary, are shown as far as possible.

mod describe;
mod program;
mod site;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use common::args::{EngineArgs, ModelArgs};
use common::{ModelFile, Result};
use gguf_rs_lite::{Array, Gguf, Value};
use gleed::token::{Tokenizer, Vocab};
use gleed::{Limits, Model, Plan};

const EXAMPLES: &str = "\
Examples:
  cargo run --release --example inspect
  cargo run --release --example inspect -- --context 256 --sequences 4 --kv-type q8_0
  cargo run --release --example inspect -- --context 256 --rows 16 --emit-header";

/// Shows the contents of a GGUF file and the memory that an engine needs for it.
#[derive(Parser)]
#[command(name = "inspect", version, long_version = common::version(), after_help = EXAMPLES)]
struct Args {
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    engine: EngineArgs,

    /// The most sequences that are open at the same time
    #[arg(long, value_name = "N", default_value_t = 1)]
    sequences: usize,

    /// The most tokens per sequence [default: the context that the model was trained on, at most 4096]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    context: usize,

    /// The most rows per batch: tokens that are computed together
    #[arg(long, value_name = "N", default_value_t = 256)]
    rows: usize,

    /// Print only the program of the model: its operations in the order in which they run
    #[arg(long, conflicts_with = "emit_header")]
    program: bool,

    /// Print only the file and line of an internal error: the site that its text names
    #[arg(long, value_name = "NUMBER", conflicts_with_all = ["emit_header", "program"])]
    site: Option<u32>,

    /// Write only a C header with the size of the engine's memory in bytes, to FILE or standard output
    #[arg(long, value_name = "FILE", num_args = 0..=1)]
    emit_header: Option<Option<PathBuf>>,
}

impl Args {
    fn plan(&self, model: &Model<'_>) -> Result<Plan> {
        let limits = Limits { sequences: self.sequences, rows: self.rows, ..self.engine.limits(self.context) };
        Ok(Plan::new(model, &limits)?)
    }
}

fn main() -> ExitCode {
    common::exit(inspect(&Args::parse()))
}

fn inspect(args: &Args) -> Result<ExitCode> {
    let mut out = io::stdout().lock();
    if let Some(number) = args.site {
        writeln!(out, "{}", site::find(number)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let file = ModelFile::open(args.model.model.as_deref())?;
    if let Some(header) = &args.emit_header {
        let model = file.model()?;
        let text = header_text(&file.name(), &model, &args.plan(&model)?);
        match header {
            Some(path) => file.write(path, &[], text.as_bytes())?,
            None => write!(out, "{text}")?,
        }
        return Ok(ExitCode::SUCCESS);
    }

    if args.program {
        let model = file.model()?;
        program::print(&mut out, &model, &args.plan(&model)?)?;
        return Ok(ExitCode::SUCCESS);
    }

    let gguf = Gguf::parse(file.bytes()).map_err(|error| file.error(error))?;
    writeln!(out, "{}: GGUF version {}, {} bytes\n", file.name(), gguf.version(), file.bytes().len())?;
    metadata(&mut out, &gguf)?;
    tensors(&mut out, &gguf)?;
    vocabulary(&mut out, &gguf)?;
    match file.model() {
        Ok(model) => {
            describe::describe(&mut out, model.config())?;
            writeln!(out, "Memory of an engine\n{}", indented(&args.plan(&model)?.to_string()))?;
        }
        Err(error) => writeln!(out, "Model\n  {error}: no memory plan")?,
    }
    Ok(ExitCode::SUCCESS)
}

fn metadata(out: &mut impl Write, gguf: &Gguf<'_>) -> io::Result<()> {
    writeln!(out, "Metadata, {} keys", gguf.metadata().count())?;
    for (key, value) in gguf.metadata() {
        writeln!(out, "  {} = {}", key.escape_debug(), shown(&value))?;
    }
    writeln!(out)
}

/// Returns a value as one line, shortened if it is long.
fn shown(value: &Value<'_>) -> String {
    const LONGEST: usize = 100;
    match value {
        Value::String(bytes) => {
            let text = String::from_utf8_lossy(bytes);
            match text.char_indices().nth(LONGEST) {
                Some((end, _)) => format!("{:?}... ({} bytes)", &text[..end], bytes.len()),
                None => format!("{text:?}"),
            }
        }
        Value::Array(array) => shown_array(array),
        Value::Bool(value) => value.to_string(),
        Value::F32(value) => value.to_string(),
        Value::F64(value) => value.to_string(),
        Value::U64(value) => value.to_string(),
        integer => integer.as_i64().map(|integer| integer.to_string()).unwrap_or_default(),
    }
}

fn shown_array(array: &Array<'_>) -> String {
    const MOST: usize = 6;
    let elements: Vec<String> = array.iter().take(MOST).map(|value| shown(&value)).collect();
    let more = if array.len() > MOST { format!(", ... ({} in all)", array.len()) } else { String::new() };
    format!("[{}{more}]", elements.join(", "))
}

fn tensors(out: &mut impl Write, gguf: &Gguf<'_>) -> io::Result<()> {
    let mut types = BTreeMap::<&str, (usize, u64, usize)>::new();
    for tensor in gguf.tensors() {
        let (count, elements, bytes) = types.entry(tensor.ggml_type().name()).or_default();
        *count += 1;
        *elements += tensor.dims().iter().fold(1, |product: u64, dim| product.saturating_mul(*dim));
        *bytes += tensor.data().len();
    }
    writeln!(out, "Tensors, {}", gguf.tensor_count())?;
    if !types.is_empty() {
        writeln!(out, "  {:8} {:>8} {:>16} {:>16}", "type", "count", "parameters", "bytes")?;
    }
    for (name, (count, elements, bytes)) in types {
        writeln!(out, "  {name:8} {count:>8} {elements:>16} {bytes:>16}")?;
    }
    writeln!(out)
}

fn vocabulary(out: &mut impl Write, gguf: &Gguf<'_>) -> io::Result<()> {
    writeln!(out, "Vocabulary")?;
    let vocab = match Vocab::new(gguf) {
        Ok(vocab) => vocab,
        Err(error) => return writeln!(out, "  {error}\n"),
    };
    writeln!(out, "  {} tokens", vocab.len())?;
    let tokens = gguf.get("tokenizer.ggml.tokens").and_then(|value| value.as_array());
    let text = |id: u32| tokens.and_then(|tokens| tokens.get(id as usize)).map(|text| shown(&text)).unwrap_or_default();
    let named = [
        ("BOS", vocab.bos()),
        ("EOS", vocab.eos()),
        ("EOT", vocab.eot()),
        ("EOM", vocab.eom()),
        ("unknown", vocab.unknown()),
    ];
    for (name, id) in named {
        if let Some(id) = id {
            writeln!(out, "  {name} {id} {}", text(id))?;
        }
    }
    let yes_no = |flag| if flag { "yes" } else { "no" };
    let adds = [("BOS", vocab.adds_bos()), ("EOS", vocab.adds_eos()), ("a blank", vocab.adds_space_prefix())];
    let adds: Vec<String> = adds.iter().map(|(what, flag)| format!("{what} {}", yes_no(*flag))).collect();
    writeln!(out, "  put around a text: {}", adds.join(", "))?;
    match Tokenizer::plan(gguf) {
        Ok(bytes) => writeln!(out, "  the tokenizer's tables need {bytes} bytes\n"),
        Err(error) => writeln!(out, "  {error}\n"),
    }
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("  {line}\n")).collect()
}

fn header_text(name: &str, model: &Model<'_>, plan: &Plan) -> String {
    let name: String = name.chars().map(|c| if c.is_control() || c == '*' { '?' } else { c }).collect();
    let Limits { sequences, context, rows, kv_kind, kv_type, kv_blocks, workers, .. } = plan.limits();
    format!(
        "/* Memory of a Gleed engine for {name} (fingerprint {:016x}).\n\
         \x20*\n\
         \x20* sequences {sequences}, context {context}, rows {rows}, kv {kv_kind} {kv_type}, kv blocks {kv_blocks}, workers {workers}\n\
         \x20*\n\
         \x20* Made by Gleed {} with `inspect --emit-header`: make it again when the model, these limits or Gleed\n\
         \x20* change. An engine that is given less says so and does not start.\n\
         \x20*\n\
         \x20*     _Alignas(GLEED_ARENA_ALIGN) static unsigned char arena[GLEED_ARENA_BYTES];\n\
         \x20*/\n\
         #ifndef GLEED_ARENA_H\n\
         #define GLEED_ARENA_H\n\
         \n\
         #define GLEED_ARENA_BYTES {}\n\
         #define GLEED_ARENA_ALIGN {}\n\
         \n\
         #endif\n",
        model.fingerprint(),
        env!("CARGO_PKG_VERSION"),
        // A pointer of the target is at most as large as one here, so on a smaller machine this is more than enough.
        gleed_ffi::HEAD + plan.bytes(),
        plan.alignment(),
    )
}
