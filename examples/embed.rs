//! Texts as vectors: the pooled hidden states of each line of a text, and how similar they are.
//!
//! ```text
//! printf 'a dog\na puppy\nthe tax office\n' | cargo run --release --example embed
//! cargo run --release --example embed -- --model model.gguf --pooling last --text lines.txt --json vectors.json
//! ```
//!
//! The table holds cosines. Models that were trained to predict the next token are not made for this; those that were made
//! for it say which pooling they want.

mod common;

use std::fs::File;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use common::args::{EngineArgs, ModelArgs};
use common::{ModelFile, Result, text};
use gleed::host::{AlignedBytes, ThreadPool};
use gleed::token::Tokenizer;
use gleed::{Engine, Plan, Pooling};

const EXAMPLES: &str = r#"Examples:
  printf 'a dog\na puppy\nthe tax office\n' | cargo run --release --example embed
  printf 'a dog\na puppy\n' | cargo run --release --example embed -- --pooling last --json vectors.json"#;

/// Computes an embedding of each line of a text, and prints how similar the lines are.
///
/// The table contains cosines, from -1 to 1.
#[derive(Parser)]
#[command(name = "embed", after_help = EXAMPLES)]
struct Args {
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    engine: EngineArgs,

    /// File with one text per line [default: standard input]
    #[arg(long, value_name = "FILE")]
    text: Option<PathBuf>,

    /// How the hidden states of a line become one vector: `mean`, or `last` for that of the last token
    #[arg(long, value_name = "NAME", default_value = "mean", value_parser = pooling)]
    pooling: Pooling,

    /// Write the vectors to this file as JSON, scaled to length 1 [default: write no file]
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

fn pooling(name: &str) -> std::result::Result<Pooling, String> {
    match name {
        "mean" => Ok(Pooling::Mean),
        "last" => Ok(Pooling::Last),
        _ => Err("one of mean, last".into()),
    }
}

fn main() -> ExitCode {
    common::exit(embed(&Args::parse()))
}

fn embed(args: &Args) -> Result<ExitCode> {
    let input = match &args.text {
        Some(path) => common::score::read_text(path)?,
        None => {
            let mut input = String::new();
            std::io::stdin().read_to_string(&mut input)?;
            input
        }
    };
    let lines: Vec<&str> = input.lines().filter(|line| !line.trim().is_empty()).collect();
    if lines.is_empty() {
        return Err("there is no text".into());
    }
    let file = ModelFile::open(args.model.model.as_deref())?;
    let model = file.model()?;
    let mut tables = AlignedBytes::new(Tokenizer::plan(model.gguf()).unwrap_or(0));
    let tokenizer = Tokenizer::new(model.gguf(), tables.bytes()).map_err(|error| file.error(error))?;
    let plan = Plan::new(&model, &args.engine.limits(model.config().context.min(4096)))?;
    let pool = ThreadPool::new(args.engine.threads)?;
    let mut memory = AlignedBytes::new(plan.bytes());
    let mut engine = Engine::new(&model, &plan, memory.bytes())?;
    engine.set_parallel(&pool);

    let seq = engine.open()?;
    let mut vectors = Vec::new();
    for line in &lines {
        let mut vector = vec![0.0; model.config().hidden];
        engine.embed(seq, &text::encode_prompt(&tokenizer, line)?, args.pooling, &mut vector)?;
        engine.reset(seq)?;
        vectors.push(unit(&vector));
    }
    if let Some(path) = &args.json {
        let json = File::create(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let texts = lines.iter().zip(&vectors).map(|(text, v)| serde_json::json!({"text": text, "vector": v}));
        serde_json::to_writer(json, &texts.collect::<Vec<_>>())?;
    }
    print(&lines, &vectors)?;
    Ok(ExitCode::SUCCESS)
}

/// The vector scaled to length 1.
fn unit(vector: &[f32]) -> Vec<f32> {
    let length = vector.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>().sqrt();
    vector.iter().map(|&x| if length > 0.0 { (f64::from(x) / length) as f32 } else { 0.0 }).collect()
}

fn print(lines: &[&str], vectors: &[Vec<f32>]) -> Result<()> {
    let mut out = std::io::stdout().lock();
    for (index, (line, a)) in lines.iter().zip(vectors).enumerate() {
        write!(out, "{:>3}", index + 1)?;
        for b in vectors {
            let cosine: f64 = a.iter().zip(b).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum();
            write!(out, " {cosine:>6.3}")?;
        }
        writeln!(out, "  {line}")?;
    }
    Ok(())
}
