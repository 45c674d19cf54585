//! Texts as vectors: the pooled hidden states of each line of a text, and how similar they are.
//!
//! ```text
//! printf 'a dog\na puppy\nthe tax office\n' | cargo run --release --example embed
//! cargo run --release --example embed -- --model model.gguf --text lines.txt --json vectors.json
//! cargo run --release --example embed -- --model model.gguf --ids 2,17,3 --ids 2,99,18,3
//! printf 'what is a panda?\ta bear\n' | cargo run --release --example embed -- --model reranker.gguf
//! ```
//!
//! The table holds cosines. The file of an embedding model says which pooling the model needs. A reranker gives each
//! line a number: how well the text after the tab answers the text before it.

use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use common::args::{EngineArgs, ModelArgs, parse_ids};
use common::embed::{cosine, encode, pooling, pooling_of, unit, vectors};
use common::{ModelFile, Result};
use gleed::Pooling;

const EXAMPLES: &str = r#"Examples:
  printf 'a dog\na puppy\nthe tax office\n' | cargo run --release --example embed
  printf 'a dog\na puppy\n' | cargo run --release --example embed -- --pooling last --json vectors.json
  cargo run --release --example embed -- --ids 1,414,435 --ids 1,261"#;

/// Computes an embedding of each line of a text, and prints how similar the lines are.
///
/// The table contains cosines, from -1 to 1.
#[derive(Parser)]
#[command(name = "embed", version, long_version = common::version(), after_help = EXAMPLES)]
struct Args {
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    engine: EngineArgs,

    /// File with one text per line [default: standard input, unless there are --ids]
    #[arg(long, value_name = "FILE")]
    text: Option<PathBuf>,

    /// Token ids of a text, separated by commas or white space; nothing is added. Repeat the option for several texts:
    /// they come before those of the file
    #[arg(long, value_name = "1,2,3")]
    ids: Vec<String>,

    /// How the hidden states of a line become one vector: `mean`, `last` or `cls` for that of the last or the first
    /// token, `rank` for the numbers of a reranker's classes [default: what the file says, or mean]
    #[arg(long, value_name = "NAME", value_parser = pooling)]
    pooling: Option<Pooling>,

    /// Write the vectors to this file as JSON, scaled to length 1 [default: write no file]
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Do not scale the vectors of --json
    #[arg(long, requires = "json")]
    raw: bool,
}

fn main() -> ExitCode {
    common::exit(embed(&Args::parse()))
}

fn embed(args: &Args) -> Result<ExitCode> {
    let input = match &args.text {
        Some(path) => common::score::read_text(path)?,
        None if !args.ids.is_empty() => String::new(),
        None => {
            let mut input = String::new();
            std::io::stdin().read_to_string(&mut input)?;
            input
        }
    };
    let lines: Vec<&str> = input.lines().filter(|line| !line.trim().is_empty()).collect();
    let mut ids = args.ids.iter().map(|ids| parse_ids(ids)).collect::<std::result::Result<Vec<_>, _>>()?;
    if lines.is_empty() && ids.is_empty() {
        return Err("there is no text".into());
    }
    let file = ModelFile::open(args.model.model.as_deref())?;
    let model = file.model()?;
    let pooling = pooling_of(&model, args.pooling);
    let json = file.output(args.json.as_deref(), args.text.as_slice())?;
    if !lines.is_empty() {
        ids.extend(encode(&file, &model, &lines, pooling)?);
    }
    let vectors = vectors(&model, &args.engine, &ids, pooling)?;
    let units: Vec<_> = vectors.iter().map(|vector| unit(vector)).collect();
    let names: Vec<&str> = args.ids.iter().map(String::as_str).chain(lines).collect();
    if let Some(json) = json {
        let written = if args.raw || pooling == Pooling::Rank { &vectors } else { &units };
        let texts = names.iter().zip(written).map(|(text, v)| serde_json::json!({"text": text, "vector": v}));
        json.write(&serde_json::to_vec(&texts.collect::<Vec<_>>())?)?;
    }
    if pooling == Pooling::Rank {
        print_numbers(&names, &vectors)?
    } else {
        print_cosines(&names, &units)?
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints the numbers that a reranker gives each text, one for each class.
fn print_numbers(names: &[&str], vectors: &[Vec<f32>]) -> Result<()> {
    let mut out = std::io::stdout().lock();
    for (index, (name, vector)) in names.iter().zip(vectors).enumerate() {
        write!(out, "{:>3}", index + 1)?;
        for number in vector {
            write!(out, " {number:>8.4}")?;
        }
        writeln!(out, "  {name}")?;
    }
    Ok(())
}

fn print_cosines(names: &[&str], units: &[Vec<f32>]) -> Result<()> {
    let mut out = std::io::stdout().lock();
    for (index, (name, a)) in names.iter().zip(units).enumerate() {
        write!(out, "{:>3}", index + 1)?;
        for b in units {
            write!(out, " {:>6.3}", cosine(a, b))?;
        }
        writeln!(out, "  {name}")?;
    }
    Ok(())
}
