//! Makes a model file with random weights. It has the shape, the types and the size of a real model, so that speed and
//! memory can be measured without a download. The text that it generates has no meaning.
//!
//! ```text
//! cargo run --release --example make_model -- --shape qwen3-0.6b --type q4_k_m --out qwen3-0.6b-q4_k_m.gguf
//! cargo run --release --example make_model -- --list
//! ```
//!
//! A file type gives each tensor the type that `llama-quantize` gives it. The vocabulary consists of nonsense words. It
//! has as many tokens and merges as a real one. The same flags give the same file.

use std::io::{BufWriter, IntoInnerError, Write, stdout};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use common::made::{FileType, Made, Shape};
use common::output::{self, Output};
use common::{Result, limit};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

const EXAMPLES: &str = "\
Examples:
  cargo run --release --example make_model -- --list
  cargo run --release --example make_model -- --shape qwen3-0.6b --type q4_k_m --layers 2 --out random.gguf
  cargo run --release --example bench -- --model random.gguf --prompt 64 --gen 16";

/// Writes a GGUF model file with random weights, for measurements.
///
/// The file has the shapes, types and size of a real model. What the model generates has no meaning.
#[derive(Parser)]
#[command(name = "make_model", version, long_version = common::version(), after_help = EXAMPLES)]
struct Args {
    /// Real model whose shape the file has; --list shows the names
    #[arg(long, value_name = "NAME", value_parser = Shape::from_name, required_unless_present = "list")]
    shape: Option<Shape>,

    /// File type, as llama-quantize names it; --list shows the names
    #[arg(long = "type", value_name = "TYPE", value_parser = FileType::from_name, required_unless_present = "list")]
    file_type: Option<FileType>,

    /// File to write
    #[arg(long, value_name = "FILE", required_unless_present = "list")]
    out: Option<PathBuf>,

    /// Number of layers [default: that of the real model]
    #[arg(long, value_name = "N", value_parser = limit::within::<u32>(1, 1000))]
    layers: Option<u32>,

    /// Seed of the random weights; the same seed gives the same file
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,

    /// Print the shapes and the file types
    #[arg(long, exclusive = true)]
    list: bool,
}

fn main() -> ExitCode {
    common::exit(make_model(&Args::parse()))
}

fn make_model(args: &Args) -> Result<ExitCode> {
    let (Some(mut shape), Some(file_type), Some(path)) = (args.shape, args.file_type, &args.out) else {
        return list();
    };
    shape.layers = args.layers.map_or(shape.layers, |layers| layers as usize);
    output::end_on_interrupt()?;
    let bytes = write(path, shape, file_type, args.seed)?;
    writeln!(stdout(), "{}: {bytes} bytes", path.display())?;
    Ok(ExitCode::SUCCESS)
}

fn list() -> Result<ExitCode> {
    let mut out = stdout().lock();
    writeln!(out, "{:14} {:>7} {:>7} {:>7} {:>7} {:>9}", "shape", "layers", "width", "ffn", "vocab", "weights")?;
    for shape in Shape::ALL {
        let Shape { name, layers, hidden, ffn, vocab, .. } = shape;
        let weights: usize = shape.tensors().iter().map(|tensor| tensor.rows() * tensor.cols()).sum();
        writeln!(out, "{name:14} {layers:>7} {hidden:>7} {ffn:>7} {vocab:>7} {:>7} M", weights / 1_000_000)?;
    }
    writeln!(out, "\ntypes: {}", FileType::names())?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the file. Returns the number of its bytes.
fn write(path: &Path, shape: Shape, file_type: FileType, seed: u64) -> Result<u64> {
    let made = Made::new(shape, file_type, seed);
    // A file that is only partly written never has the final name.
    let file = Output::file(path, &[""; 0])?.begin()?;
    let mut file = BufWriter::with_capacity(1 << 20, file);
    let bar = bar(made.bytes());
    let written = made.write(&mut file, |tensor, bytes| {
        bar.set_message(tensor.to_owned());
        bar.inc(bytes as u64);
    });
    written.map_err(|error| format!("{}: {error}", path.display()))?;
    bar.finish_and_clear();
    file.into_inner().map_err(IntoInnerError::into_error)?.finish()?;
    Ok(made.bytes())
}

fn bar(total: u64) -> ProgressBar {
    let template = "{bar:32} {bytes}/{total_bytes}, {binary_bytes_per_sec}, {eta} left, {msg}";
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr()).with_style(style)
}
