//! Measures Gleed beside llama.cpp: see README.md.

mod child;
mod engines;
#[path = "../../../examples/common/machine.rs"]
#[allow(dead_code)] // This program uses only a part of the module.
mod machine;
mod plot;
#[path = "../../../examples/common/random.rs"]
#[allow(dead_code)] // This program uses only a part of the module.
mod random;
mod report;
#[path = "../../../examples/common/plot/mod.rs"]
#[allow(dead_code, unused_imports)] // Only bars are drawn.
mod svg_plot;
mod sweep;
mod texts;
mod turns;

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use gleed::kernels::Level;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Measures Gleed beside llama.cpp.
#[derive(Parser)]
#[command(name = "peers")]
struct Args {
    /// The models, GGUF files
    #[arg(value_name = "FILE", required = true)]
    models: Vec<PathBuf>,

    /// Threads that compute: one number, or several to be measured one after the other
    #[arg(long, value_name = "1,2", value_delimiter = ',', default_value = "1,2")]
    threads: Vec<usize>,

    /// Tokens of the prompt
    #[arg(long, value_name = "N", default_value_t = 512)]
    prompt: usize,

    /// Tokens to decode
    #[arg(long, value_name = "N", default_value_t = 64)]
    r#gen: usize,

    /// Tokens before decode begins
    #[arg(long, value_name = "0,4096", value_delimiter = ',', default_value = "0,4096")]
    depth: Vec<usize>,

    /// What is measured
    #[arg(long, value_name = "WHAT", value_delimiter = ',', default_value = "speed,start,turns")]
    what: Vec<What>,

    /// The turn of a conversation that is measured
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(2..))]
    turn: u32,

    /// Texts whose vectors an encoder makes
    #[arg(long, value_name = "N", default_value_t = 64)]
    texts: usize,

    /// Texts in a batch, of both engines
    #[arg(long, value_name = "N", default_value = "4", value_parser = parse_together)]
    together: usize,

    /// How often everything is measured
    #[arg(long, value_name = "R", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,

    /// The instruction set of Gleed's kernels [default: the best that this machine has]
    #[arg(long, value_name = "NAME", value_parser = Level::from_name)]
    level: Option<Level>,

    /// Number of other processes that each keep a core busy meanwhile
    #[arg(long, value_name = "N", default_value_t = 0)]
    busy: usize,

    /// The folder for results.json and the plots
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// The task of a child process that this program starts
    #[arg(long, hide = true)]
    child: Option<child::Task>,

    /// The engine of a child process
    #[arg(long, hide = true, default_value = "gleed")]
    engine: engines::Kind,
}

/// A part of what is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum What {
    /// Prefill and decode.
    Speed,
    /// The first token of a process, and its memory.
    Start,
    /// A turn of a conversation.
    Turns,
    /// Vectors of texts, by an encoder.
    Texts,
}

/// Parses a number of texts in a batch, 1 to 64.
fn parse_together(text: &str) -> std::result::Result<usize, String> {
    let number = text.parse::<usize>().map_err(|error| error.to_string())?;
    if (1..=64).contains(&number) { Ok(number) } else { Err("1 to 64".into()) }
}

impl Args {
    fn level(&self) -> Level {
        self.level.unwrap_or_else(Level::detect)
    }
}

fn main() -> ExitCode {
    Level::allow_amx();
    let args = Args::parse();
    let done = match args.child {
        Some(task) => child::run(task, &args),
        None => peers(&args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn peers(args: &Args) -> Result<()> {
    let _busy = child::Busy::start(args.busy)?;
    let mut rows = Vec::new();
    for model in &args.models {
        for &threads in &args.threads {
            for what in &args.what {
                match what {
                    What::Speed => sweep::speed(args, model, threads, &mut rows)?,
                    What::Start => sweep::start_and_memory(args, model, threads, &mut rows)?,
                    What::Turns => turns::turns(args, model, threads, &mut rows)?,
                    What::Texts => texts::texts(args, model, threads, &mut rows)?,
                }
            }
            // Saves all rows so far, so that they survive an interruption.
            save(args, &rows)?;
        }
    }
    Ok(report::table(args, &rows)?)
}

fn save(args: &Args, rows: &[report::Row]) -> Result<()> {
    let Some(folder) = &args.out else { return Ok(()) };
    std::fs::create_dir_all(folder)?;
    std::fs::write(folder.join("results.json"), serde_json::to_vec_pretty(&report::json(args, rows))?)?;
    plot::all(args, folder, rows)
}
