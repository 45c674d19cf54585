//! The KV cache as a lab: each subcommand measures one thing about it, prints tables and writes plots.
//!
//! ```text
//! cargo run --release --example kvlab -- curve
//! cargo run --release --example kvlab -- break --model model.gguf --layer 7 --head 1 --position 0
//! cargo run --release --example kvlab -- share --characters 128 --out plots --json share.json
//! ```
//!
//! Without `--model` everything runs with the demo model. Times are wall-clock times, and medians if there are several.
//! Other work of the machine makes them longer.

mod curve;
mod damage;
mod lab;
mod memory;
mod pool;
mod report;
mod share;
mod window;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use common::setting::Setting;
use common::{ModelFile, Result};
use lab::{Lab, LabArgs};
use report::Report;

const EXAMPLES: &str = "\
Examples:
  cargo run --release --example kvlab -- curve --quick
  cargo run --release --example kvlab -- break --layer 3 --head 1 --position 0
  cargo run --release --example kvlab -- share --quick --characters 16 --out plots --json share.json";

/// Returns the last lines of a subcommand's help.
fn example(flags: &str) -> String {
    format!("Examples:\n  cargo run --release --example kvlab -- {flags}")
}

/// Measures the KV cache, prints tables and writes SVG plots.
#[derive(Parser)]
#[command(name = "kvlab", version, long_version = common::version(), after_help = EXAMPLES)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measures what a cache saves, and what an appended token costs
    #[command(after_help = example("curve --quick --out plots"))]
    Curve(curve::CurveArgs),
    /// Compares the measured bytes of keys and values with the formula
    #[command(after_help = example("memory --budget 64MB --json memory.json"))]
    Memory(memory::MemoryArgs),
    /// Draws the pool while sequences are forked, rewound and closed
    #[command(after_help = example("pool --out plots"))]
    Pool(pool::PoolArgs),
    /// Shows what a damaged cache does to a text
    #[command(after_help = example("break --layer 3 --head 1 --position 0"))]
    Break(damage::BreakArgs),
    /// Measures memory and time of characters that share a prompt
    #[command(after_help = example("share --characters 16 --out plots --json share.json"))]
    Share(share::ShareArgs),
    /// Measures what a model loses if it sees only the last tokens
    #[command(after_help = example("window --ctx 256 --out plots"))]
    Window(window::WindowArgs),
}

impl Command {
    fn lab(&self) -> &LabArgs {
        match self {
            Self::Curve(args) => &args.lab,
            Self::Memory(args) => &args.lab,
            Self::Pool(args) => &args.lab,
            Self::Break(args) => &args.lab,
            Self::Share(args) => &args.lab,
            Self::Window(args) => &args.lab,
        }
    }

    /// Returns the files that are read besides the model.
    fn read(&self) -> Vec<PathBuf> {
        match self {
            Self::Window(args) => args.text.iter().cloned().collect(),
            _ => Vec::new(),
        }
    }

    fn run(&self, lab: &Lab<'_>) -> Result<Report> {
        match self {
            Self::Curve(args) => curve::run(lab, args),
            Self::Memory(args) => memory::run(lab, args),
            Self::Pool(_) => pool::run(lab),
            Self::Break(args) => damage::run(lab, args),
            Self::Share(args) => share::run(lab, args),
            Self::Window(args) => window::run(lab, args),
        }
    }
}

fn main() -> ExitCode {
    common::exit(kvlab(&Args::parse().command))
}

fn kvlab(command: &Command) -> Result<ExitCode> {
    let args = command.lab();
    let file = ModelFile::open(args.model.model.as_deref())?;
    let model = file.model()?;
    // Files that cannot be written are refused before anything is measured.
    let outputs = report::Outputs::open(&args.out, args.json.as_deref(), &file, command.read())?;
    let (lab, setting) = (Lab { model: &model, file: &file, args }, Setting::begin());
    let report = command.run(&lab)?;
    outputs.write(&report, &lab, &setting)?;
    Ok(ExitCode::SUCCESS)
}
