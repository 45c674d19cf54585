//! Converts text to token ids and back.
//!
//! ```text
//! printf 'Hello world' | cargo run --release --example tokenize -- --model model.gguf
//! echo '9906 1917' | cargo run --release --example tokenize -- --model model.gguf --decode
//! ```
//!
//! All of standard input is one text, line ends included. With `--batch` each line is a JSON string, or with `--decode`
//! a JSON array of ids. A GGUF file that contains only a vocabulary suffices.

use std::io::{self, BufRead, BufWriter, Write};
use std::process::ExitCode;

use clap::Parser;
use common::args::{ModelArgs, parse_ids};
use common::{ModelFile, Result, text};
use gguf_rs_lite::Gguf;
use gleed::host::AlignedBytes;
use gleed::token::{DecodeOptions, EncodeOptions, Tokenizer};

const EXAMPLES: &str = r#"Examples:
  printf 'Once upon a time' | cargo run --release --example tokenize -- --add-special
  echo '414 435 261 385' | cargo run --release --example tokenize -- --decode
  printf '"Hello"\n"Once upon"\n' | cargo run --release --example tokenize -- --batch"#;

/// Encodes text from standard input as token ids, or decodes token ids as text.
///
/// All of standard input is one text, line ends included, unless --batch is given. A GGUF file that contains only a
/// vocabulary suffices.
#[derive(Parser)]
#[command(name = "tokenize", version, long_version = common::version(), after_help = EXAMPLES)]
struct Args {
    #[command(flatten)]
    model: ModelArgs,

    /// Turn names of special tokens in the text into these tokens. With --decode: write their names
    #[arg(long)]
    parse_special: bool,

    /// Add BOS and EOS to the text if the vocabulary says so. With --decode: leave them out
    #[arg(long)]
    add_special: bool,

    /// Refuse a text with bytes that the vocabulary cannot spell. Otherwise they are left out, and counted
    #[arg(long)]
    exact: bool,

    /// Decode: read ids, separated by blanks or commas, and write text
    #[arg(long)]
    decode: bool,

    /// Read one JSON string per line and write one JSON array of ids per line. With --decode: the reverse
    #[arg(long)]
    batch: bool,
}

fn main() -> ExitCode {
    common::exit(tokenize(&Args::parse()))
}

fn tokenize(args: &Args) -> Result<ExitCode> {
    let file = ModelFile::open(args.model.model.as_deref())?;
    let gguf = Gguf::parse(file.bytes()).map_err(|error| file.error(error))?;
    let mut memory = AlignedBytes::new(Tokenizer::plan(&gguf).map_err(|error| file.error(error))?);
    let tokenizer = Tokenizer::new(&gguf, memory.bytes()).map_err(|error| file.error(error))?;
    let (input, mut output) = (io::stdin().lock(), BufWriter::new(io::stdout().lock()));
    if args.batch {
        for (line, number) in input.lines().zip(1..) {
            let answer = batch_line(&tokenizer, args, &line?).map_err(|error| format!("line {number}: {error}"))?;
            writeln!(output, "{answer}")?;
        }
    } else {
        let text = io::read_to_string(input)?;
        if args.decode {
            write!(output, "{}", decode(&tokenizer, args, &parse_ids(&text)?)?)?;
        } else {
            let ids: Vec<String> = encode(&tokenizer, args, &text)?.iter().map(u32::to_string).collect();
            writeln!(output, "{}", ids.join(" "))?;
        }
    }
    output.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn batch_line(tokenizer: &Tokenizer<'_, '_>, args: &Args, line: &str) -> Result<serde_json::Value> {
    Ok(if args.decode {
        let ids: Vec<u32> = serde_json::from_str(line)?;
        decode(tokenizer, args, &ids)?.into()
    } else {
        let text: String = serde_json::from_str(line)?;
        encode(tokenizer, args, &text)?.into()
    })
}

fn encode(tokenizer: &Tokenizer<'_, '_>, args: &Args, text: &str) -> Result<Vec<u32>> {
    let options = EncodeOptions {
        add_special: args.add_special,
        parse_special: args.parse_special,
        exact: args.exact,
        ..EncodeOptions::default()
    };
    Ok(text::encode(tokenizer, text, options)?)
}

fn decode(tokenizer: &Tokenizer<'_, '_>, args: &Args, mut ids: &[u32]) -> Result<String> {
    let vocab = tokenizer.vocab();
    if args.add_special && vocab.adds_bos() {
        ids = ids.split_first().filter(|(first, _)| Some(**first) == vocab.bos()).map_or(ids, |(_, rest)| rest);
    }
    if args.add_special && vocab.adds_eos() {
        ids = ids.split_last().filter(|(last, _)| Some(**last) == vocab.eos()).map_or(ids, |(_, rest)| rest);
    }
    let options = DecodeOptions { render_special: args.parse_special, starts_text: true };
    let mut out = vec![0; ids.len().saturating_mul(tokenizer.max_push()).saturating_add(3)];
    Ok(tokenizer.decode(ids, options, &mut out)?.to_owned())
}
