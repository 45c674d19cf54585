//! Makes a GGUF file from a Hugging Face folder, a llama2.c model, weights of minGPT in JSON, or another GGUF file.
//! Matrices can get any type.
//!
//! ```text
//! cargo run --release --example convert -- Qwen3-0.6B qwen3-0.6b-q4_k.gguf --type q4_k
//! cargo run --release --example convert -- stories15M.bin stories15M.gguf --tokenizer tokenizer.bin
//! cargo run --release --example convert -- mingpt.json mingpt.gguf
//! cargo run --release --example convert -- model-f16.gguf model-q8_0.gguf --type q8_0
//! cargo run --release --example convert -- model-f16.gguf model-iq2_xs.gguf --type iq2_xs --imatrix imatrix.gguf
//! ```
//!
//! The file gets its name when it is whole, so an unfinished run leaves nothing behind. A file that is read is never
//! overwritten. Without `--type` matrices keep their type. `docs/convert.md` lists the models that it knows.

mod hf;
mod imatrix;
mod llama2c;
mod output;
mod quantize;
mod requantize;
mod types;
mod vocab;
mod write;

use std::error::Error;
use std::io::{Write, stdout};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use common::gguf::Value;
use common::output::{self as place, Output as Place};
use common::{Result, limit};
use gleed::host::MappedFile;
use imatrix::Imatrix;
use output::Output;
use types::FileType;
use write::How;

const EXAMPLES: &str = "\
Examples:
  cargo run --release --example convert -- examples/assets/gleed-tales-q8_0.gguf tales-q4_0.gguf --type q4_0
  cargo run --release --example perplexity -- --model tales-q4_0.gguf
  cargo run --release --example convert -- Qwen3-0.6B qwen3-0.6b-q4_k.gguf --type q4_k";

/// Converts a model to a GGUF file, or a GGUF file to other types.
#[derive(Parser)]
#[command(name = "convert", version, long_version = common::version(), after_help = EXAMPLES)]
struct Args {
    /// Model to read: a Hugging Face folder, a llama2.c model, weights of minGPT in JSON, or a GGUF file
    #[arg(value_name = "IN")]
    input: PathBuf,

    /// GGUF file to write
    #[arg(value_name = "OUT")]
    out: PathBuf,

    /// Type of the matrices [default: the type that they have]
    #[arg(long = "type", value_name = "TYPE", value_parser = FileType::parser())]
    file_type: Option<FileType>,

    /// Importance matrix that llama-imatrix made of the model, .gguf or .dat; the types iq1_s to iq3_xxs need it
    #[arg(long, value_name = "FILE", requires = "file_type")]
    imatrix: Option<PathBuf>,

    /// Vocabulary of a llama2.c model, its tokenizer.bin or tokenizer.model; only such a model needs it
    #[arg(long, value_name = "FILE")]
    tokenizer: Option<PathBuf>,

    /// Number of threads that compute; the file does not depend on it [default: the number of processors]
    #[arg(long, value_name = "N", value_parser = limit::within::<u32>(1, 1024))]
    threads: Option<u32>,
}

impl Args {
    /// Returns the files and folders that are read.
    fn read(&self) -> Vec<&Path> {
        let others = [self.imatrix.as_deref(), self.tokenizer.as_deref()].into_iter().flatten();
        std::iter::once(self.input.as_path()).chain(others).collect()
    }
}

fn main() -> ExitCode {
    common::exit(convert(&Args::parse()))
}

fn convert(args: &Args) -> Result<ExitCode> {
    let named = |error: Box<dyn Error>| format!("{}: {error}", args.input.display());
    place::end_on_interrupt()?;
    Place::file(&args.out, &args.read())?;
    if args.input.is_dir() {
        has_vocabulary(args)?;
        let folder = hf::Folder::open(&args.input)?;
        let output = folder.output().map_err(named)?;
        return written(args, output);
    }
    let file = open(&args.input)?;
    if file.bytes().starts_with(b"GGUF") {
        has_vocabulary(args)?;
        return written(args, requantize::read(file.bytes(), args.file_type.is_some()).map_err(named)?);
    }
    if file.bytes().trim_ascii_start().starts_with(b"{") {
        has_vocabulary(args)?;
        let model = hf::MinGpt::read(&args.input, file.bytes()).map_err(named)?;
        return written(args, model.output().map_err(named)?);
    }
    let tokenizer = args.tokenizer.as_deref().map(|path| Ok::<_, Box<dyn Error>>((path, open(path)?))).transpose()?;
    let model = llama2c::Model::read(file.bytes()).map_err(named)?;
    let (path, tokenizer) = tokenizer
        .ok_or_else(|| named("a llama2.c model needs --tokenizer FILE, its tokenizer.bin or tokenizer.model".into()))?;
    let vocab = model.vocab(tokenizer.bytes()).map_err(|error| format!("{}: {error}", path.display()))?;
    written(args, model.output(vocab).map_err(named)?)
}

/// Refuses `--tokenizer` for a model that has its own vocabulary.
fn has_vocabulary(args: &Args) -> Result<()> {
    match &args.tokenizer {
        Some(path) => {
            let input = args.input.display();
            Err(format!("--tokenizer {} is for a llama2.c model, and {input} is none", path.display()).into())
        }
        None => Ok(()),
    }
}

fn written(args: &Args, output: Output<'_>) -> Result<ExitCode> {
    let threads =
        args.threads.map(|n| n as usize).or_else(|| std::thread::available_parallelism().ok().map(usize::from));
    let mut output = described(output, args.file_type);
    let imatrix = args.imatrix.as_deref().map(|path| Ok::<_, Box<dyn Error>>((path, importance(path, &mut output)?)));
    let imatrix = imatrix.transpose()?;
    let (threads, input) = (threads.unwrap_or(1), args.input.as_path());
    let how = How { input, file_type: args.file_type, imatrix, threads };
    let bytes = write::write(output, &how, Place::file(&args.out, &args.read())?)?;
    writeln!(stdout(), "{}: {bytes} bytes", args.out.display())?;
    Ok(ExitCode::SUCCESS)
}

/// Reads an importance matrix, checks that it belongs to the model, and describes it in the metadata.
fn importance(path: &Path, output: &mut Output<'_>) -> Result<Imatrix> {
    let named = |error| format!("{}: {error}", path.display());
    let imatrix = Imatrix::read(open(path)?.bytes()).map_err(named)?;
    imatrix.check(&output.tensors).map_err(named)?;
    let file = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    imatrix.describe(&file, &mut output.header);
    Ok(imatrix)
}

/// Adds the metadata that says how the file is quantized.
fn described(mut output: Output<'_>, file_type: Option<FileType>) -> Output<'_> {
    let mut matrices = output.tensors.iter().filter(|tensor| tensor.is_matrix());
    let kept = || FileType::of(matrices.next()?.contents.dtype()?).map(|file_type| file_type.number);
    let number = file_type.map(|file_type| file_type.number).or(output.file_type).or_else(kept);
    if let Some(number) = number {
        output.header.set("general.file_type", Value::U32(number));
    }
    output.header.set("general.quantization_version", Value::U32(2));
    output
}

fn open(path: &Path) -> Result<MappedFile> {
    MappedFile::open(path).map_err(|error| format!("{}: {error}", path.display()).into())
}
