//! Measures speed and memory, and compares them with the machine's peak rates, so that every figure is a ratio.
//!
//! ```text
//! cargo run --release --example bench -- --model model.gguf --threads 1,2
//! cargo run --release --example bench -- --model model.gguf --prompt 0 --gen 64 --depth 4096 --json bench.json
//! cargo run --release --example bench -- --model model.gguf --units 1,16,256 --depth 3840
//! cargo run --release --features gpu --example bench -- --device gpu
//! cargo run --release --example bench -- --prompt 0 --depth 0,512,2048,8192 --threads 1,2 --plot depth.svg
//! cargo run --release --example bench -- --report report.json
//! ```
//!
//! Prefill is compared with the rate of the level's integer dot instruction, decode with a plain read of the same file
//! by the same number of threads. Both are measured in the same run, in turn with the model. The tokens are random. The
//! same seed gives the same tokens, and no token is chosen from the logits. Times are wall-clock times. The column
//! "waited" is the part of them that the threads waited for a core. With a GPU there is no ratio, because its peak
//! rates are not measured. With a GPU and one sequence there is another line, "chosen": decode while the GPU chooses
//! the tokens, as in `generate` and `chat`. Its hash is that of the tokens.

mod curve;
mod machine;
mod measure;
mod products;
mod report;
mod start;
mod survey;
mod units;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use common::args::{ModelArgs, TraceArgs};
use common::device::DeviceArgs;
use common::setting::Setting;
use common::{ModelFile, Result, limit};
use gleed::kernels::{FetchOrder, Level};
use gleed::{KvType, Limits};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use measure::{Bench, Work};
use start::Start;
use survey::Survey;
use units::Units;

const EXAMPLES: &str = "\
Examples:
  cargo run --release --example bench -- --threads 1,2
  cargo run --release --example bench -- --prompt 0 --gen 64 --depth 128 --json bench.json
  cargo run --release --example bench -- --prompt 0 --gen 8 --depth 0,128,256 --plot depth.svg
  cargo run --release --example bench -- --units 1,16 --depth 128
  cargo run --release --example bench -- --report report.json";

/// Measures the speed and memory of a model, and compares them with what the machine can do at best.
///
/// The tokens are random. Times are wall-clock times.
#[derive(Parser)]
#[command(name = "bench", version, long_version = common::version(), after_help = EXAMPLES)]
struct Args {
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    device: DeviceArgs,

    /// Numbers of threads that compute, separated by commas; each number is measured [default: 1; with --report 1, 2, 4
    /// and so on, up to all processors]
    #[arg(long, value_name = "1,2", value_delimiter = ',')]
    threads: Vec<usize>,

    /// Tokens of the prompt; 0 skips prefill
    #[arg(long, value_name = "N", default_value_t = 512)]
    prompt: usize,

    /// Tokens to decode; 0 skips decode
    #[arg(long, value_name = "N", default_value_t = 64)]
    r#gen: usize,

    /// Tokens that each sequence has when decode starts; several numbers, separated by commas, are measured one after
    /// the other
    #[arg(long, value_name = "0,4096", value_delimiter = ',', default_value = "0")]
    depth: Vec<usize>,

    /// Number of sequences that decode together
    #[arg(long, value_name = "N", default_value_t = 1)]
    sequences: usize,

    /// Rows per batch [default: 256 per thread]
    #[arg(long, value_name = "N")]
    rows: Option<usize>,

    /// Measure the time of single units of work instead, on one thread: batches of 1,256 rows per sequence at --depth
    #[arg(long, value_name = "1,256", value_delimiter = ',', conflicts_with_all = ["device", "backend"])]
    units: Vec<usize>,

    /// Instruction set of the kernels [default: the best that this machine has]
    #[arg(long, value_name = "NAME", value_parser = Level::from_name)]
    level: Option<Level>,

    /// Order in which weights are fetched ahead for one row: rows or memory [default: the one for this processor]
    #[arg(long, value_name = "ORDER", value_parser = fetch_order)]
    fetch: Option<FetchOrder>,

    /// Element type of keys and values: f32, f16, q8_0 or q4_0; or two types, as in q8_0/q4_0
    #[arg(long, value_name = "TYPE", default_value = "f16", value_parser = KvType::from_name)]
    kv_type: KvType,

    /// Number of times that everything is measured [default: 5; with --report 3]
    #[arg(long, value_name = "R", value_parser = limit::within::<u32>(1, u32::MAX.into()))]
    repeat: Option<u32>,

    /// Seed of the random token ids
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,

    /// Write the results to this file as JSON, with several depths as a list [default: write no file]
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Plot tokens per second in this file as SVG: by depth where there are several, else by threads [default: write no
    /// file]
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,

    #[command(flatten)]
    trace: TraceArgs,

    /// Measure the machine, the kernels of all levels, and models, and write everything to this file as JSON; it names
    /// neither user nor host
    #[arg(long, value_name = "FILE", conflicts_with_all = ["model", "depth", "sequences", "rows", "units", "level", "fetch",
          "kv_type", "json", "plot", "device", "backend", "trace"])]
    report: Option<PathBuf>,

    /// Models of --report, GGUF files [default: models with random weights, made in memory]
    #[arg(value_name = "MODEL", requires = "report")]
    models: Vec<PathBuf>,
}

impl Args {
    fn threads(&self) -> Vec<usize> {
        if !self.threads.is_empty() {
            return self.threads.clone();
        }
        let all = std::thread::available_parallelism().map_or(1, usize::from);
        let most = if self.report.is_some() { all } else { 1 };
        let powers = std::iter::successors(Some(1), |threads| Some(threads * 2)).take_while(|&threads| threads < most);
        powers.chain([most]).collect()
    }

    fn repeat(&self) -> u32 {
        self.repeat.unwrap_or(if self.report.is_some() { 3 } else { 5 })
    }

    fn level(&self) -> Level {
        let level = self.level.unwrap_or_else(Level::detect);
        level.with_fetch_order(self.fetch.unwrap_or(level.fetch_order()))
    }

    fn limits(&self, threads: usize, depth: usize) -> Limits {
        let decode = if self.r#gen > 0 { depth.saturating_add(self.r#gen) } else { 0 };
        Limits {
            sequences: self.sequences,
            context: self.prompt.max(decode),
            rows: self.rows.unwrap_or_else(|| 256 * threads.clamp(1, 16)).max(self.sequences),
            logit_rows: self.sequences,
            kv_type: self.kv_type,
            workers: threads,
            level: self.level(),
            ..Limits::default()
        }
    }
}

fn fetch_order(name: &str) -> std::result::Result<FetchOrder, &'static str> {
    match name {
        "rows" => Ok(FetchOrder::Rows),
        "memory" => Ok(FetchOrder::Memory),
        _ => Err("rows or memory"),
    }
}

fn main() -> ExitCode {
    Level::allow_amx();
    common::exit(bench(&Args::parse()))
}

fn bench(args: &Args) -> Result<ExitCode> {
    if args.r#gen == 0 && args.depth.len() > 1 {
        return Err("--depth has several numbers, but --gen is 0: nothing is decoded there".into());
    }
    if args.prompt == 0 && args.r#gen == 0 {
        return Err("--prompt and --gen are both 0: nothing to measure".into());
    }
    limit::check("--sequences", args.sequences, 1, usize::MAX)?;
    limit::check("--rows", args.rows.unwrap_or(1), 1, usize::MAX)?;
    args.units.iter().try_for_each(|&rows| limit::check("--units", rows, 1, usize::MAX))?;
    args.threads.iter().try_for_each(|&threads| limit::check("--threads", threads, 1, usize::MAX))?;
    let threads = args.threads();
    if let Some(path) = &args.report {
        let (prompt, r#gen, repeat, seed) = (args.prompt, args.r#gen, args.repeat() as usize, args.seed);
        Survey { files: &args.models, threads, prompt, r#gen, repeat, seed }.write(path)?;
        return Ok(ExitCode::SUCCESS);
    }
    let file = ModelFile::open(args.model.model.as_deref())?;
    let model = file.model()?;
    if !args.units.is_empty() {
        for &depth in &args.depth {
            let units = Units { model: &model, depth, repeat: args.repeat() as usize, seed: args.seed };
            args.units.iter().try_for_each(|&rows| units.print(&args.limits(1, depth), rows))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    // Files that cannot be written are refused before anything is measured.
    let (json, plot) = (file.output(args.json.as_deref(), &[])?, file.output(args.plot.as_deref(), &[])?);
    let trace = args.trace.output(&file, &[])?;
    let (setting, bar, start) = (Setting::begin(), bar(args), Start::measure(&file, &model)?);
    let mut measured = Vec::new();
    for (index, &depth) in args.depth.iter().enumerate() {
        let bench = Bench {
            model: &model,
            file: file.bytes(),
            work: Work::of(&model),
            device: &args.device,
            // Prefill does not depend on the depth, so it is measured once.
            prompt: if index == 0 { args.prompt } else { 0 },
            r#gen: args.r#gen,
            depth,
            repeat: args.repeat() as usize,
            seed: args.seed,
            bar: bar.clone(),
        };
        let runs = threads.iter().map(|&threads| bench.run(&args.limits(threads, depth)));
        let runs = runs.collect::<Result<Vec<_>>>()?;
        measured.push((bench, runs));
    }
    bar.finish_and_clear();
    let last = args.limits(threads.last().copied().unwrap_or(1), args.depth.last().copied().unwrap_or(0));
    if let Some((bench, _)) = measured.first() {
        bench.trace(trace, &last)?;
    }
    for (bench, runs) in &measured {
        report::table(bench, &file.name(), &start, runs)?;
    }
    if let Some(json) = json {
        let mut values: Vec<_> =
            measured.iter().map(|(bench, runs)| report::json(bench, &file.name(), &start, runs)).collect();
        let value = if values.len() == 1 { values.remove(0) } else { values.into() };
        json.write(&serde_json::to_vec_pretty(&value)?)?;
    }
    if let Some(plot) = plot {
        let text = curve::plot(&measured).draw(&setting.subtitle(&file, &model, &last, &threads));
        plot.write(text.as_bytes())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns a progress bar with one mark for each measurement.
fn bar(args: &Args) -> ProgressBar {
    let phases = u64::from(args.prompt > 0) + u64::from(args.r#gen > 0);
    let depths = args.depth.len() as u64;
    let phases = phases * depths - u64::from(args.prompt > 0) * (depths - 1);
    let total = args.threads().len() as u64 * phases * u64::from(args.repeat());
    let style = ProgressStyle::with_template("{bar:32} {pos}/{len}, {msg}");
    ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr())
        .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
