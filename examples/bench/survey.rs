//! `--report`: a fixed set of measurements in one file. It describes the machine and holds no names of users and hosts,
//! and no paths.

use std::io::{Write, stdout};
use std::path::{Path, PathBuf};
use std::time::Instant;

use gleed::host::AlignedBytes;
use gleed::kernels::{FetchOrder, Level};
use gleed::num::ARITHMETIC_VERSION;
use gleed::tensor::Dtype;
use gleed::{Limits, Model};
use indicatif::ProgressBar;
use serde_json::{Value, json};

use crate::measure::{Bench, Run, Work};
use crate::products::products;
use crate::{machine, report};
use common::device::DeviceArgs;
use common::made::{FileType, Made, Shape};
use common::output::Output;
use common::{ModelFile, Result};

/// Version of the report, which is raised when a field changes its meaning.
const VERSION: u32 = 1;

/// File types of the models with random weights that are measured if no file is given.
const MADE: [&str; 3] = ["q8_0", "q4_0", "q4_k_m"];

/// Numbers of rows of activations for the kernels: decode, a few sequences, prefill.
const ROWS: [usize; 4] = [1, 4, 16, 128];

/// Numbers of sequences that decode together, on one thread.
const SEQUENCES: [usize; 3] = [2, 4, 8];

/// Tokens of the prompt and of decode for each level. They are few, because some levels are slow.
const SHORT: [usize; 2] = [16, 4];

/// The parameters of a report.
pub(crate) struct Survey<'a> {
    /// Model files. If there are none, models are made in memory.
    pub(crate) files: &'a [PathBuf],
    pub(crate) threads: Vec<usize>,
    pub(crate) prompt: usize,
    pub(crate) r#gen: usize,
    pub(crate) repeat: usize,
    pub(crate) seed: u64,
}

/// One run of a model.
struct Case {
    /// Name of the set of runs that it belongs to.
    set: &'static str,
    prompt: usize,
    r#gen: usize,
    repeat: usize,
    limits: Limits,
}

impl Survey<'_> {
    /// Measures everything and writes the file. Prints each result on standard output.
    pub(crate) fn write(&self, path: &Path) -> Result<()> {
        // Find wrong files before measuring, which takes minutes.
        self.files.iter().try_for_each(|path| ModelFile::open(Some(path))?.model().map(drop))?;
        let file = Output::at(path, self.files)?;
        let start = Instant::now();
        say("This takes some minutes. Please let nothing else compute on the machine meanwhile.")?;
        say(&machine::processor())?;
        let (streaming_read, integer_peak) = (self.streaming_read()?, self.integer_peak()?);
        let (kernels, models) = (kernels()?, self.models()?);
        let report = json!({
            "report": VERSION,
            "gleed": env!("CARGO_PKG_VERSION"),
            "arithmetic": ARITHMETIC_VERSION,
            "processor": machine::processor(),
            "cores": machine::cores(),
            "memory_bytes": machine::memory(),
            "os": machine::system(),
            "architecture": std::env::consts::ARCH,
            "features": machine::features(),
            "levels": Level::available().map(Level::name).collect::<Vec<_>>(),
            "level": Level::detect().name(),
            "fetch": report::fetch_name(Level::detect().fetch_order()),
            "streaming_read": streaming_read,
            "integer_peak": integer_peak,
            "products": kernels,
            "models": models,
            "seconds": start.elapsed().as_secs(),
        });
        file.write(format!("{report:#}\n").as_bytes())?;
        say(&format!("{} written, after {} s. Thank you.", path.display(), start.elapsed().as_secs()))
    }

    fn streaming_read(&self) -> Result<Vec<Value>> {
        const BYTES: usize = 256 << 20;
        let bytes = vec![1_u8; BYTES];
        let read = self.threads.iter().map(|&threads| {
            let rate = machine::streaming_read(&bytes, threads);
            say(&format!("streaming read, {threads} threads: {:.1} GB/s", rate / 1e9))?;
            Ok(json!({ "threads": threads, "bytes_s": rate }))
        });
        read.collect()
    }

    fn integer_peak(&self) -> Result<Vec<Value>> {
        let mut peaks = Vec::new();
        for level in Level::available() {
            for &threads in &self.threads {
                let Some(rate) = machine::integer_peak(level, threads) else { continue };
                say(&format!("dot instruction of {level}, {threads} threads: {:.0} GMAC/s", rate / 1e9))?;
                peaks.push(json!({ "level": level.name(), "threads": threads, "macs_s": rate }));
            }
        }
        Ok(peaks)
    }

    fn models(&self) -> Result<Vec<Value>> {
        if self.files.is_empty() {
            return MADE.into_iter().map(|file_type| self.made(file_type)).collect();
        }
        let file = |path: &PathBuf| {
            let file = ModelFile::open(Some(path))?;
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            self.model(&name, file.bytes(), &file.model()?)
        };
        self.files.iter().map(file).collect()
    }

    /// Measures a model with random weights, which is made in memory.
    fn made(&self, file_type: &str) -> Result<Value> {
        let shape = Shape::from_name("smollm2-135m")?;
        let made = Made::new(shape, FileType::from_name(file_type)?, 0);
        let mut memory = AlignedBytes::new(usize::try_from(made.bytes())?);
        made.write(&mut &mut *memory.bytes(), |_, _| ())?;
        let bytes = &*memory.bytes();
        self.model(&format!("{} {file_type}, random weights", shape.name), bytes, &Model::open(bytes)?)
    }

    fn model(&self, name: &str, file: &[u8], model: &Model<'_>) -> Result<Value> {
        let mut runs = Vec::new();
        let mut hashes = Vec::new();
        for case in self.cases() {
            let Case { set, prompt, r#gen, repeat, limits } = case;
            let (work, seed, bar) = (Work::of(model), self.seed, ProgressBar::hidden());
            let device = &DeviceArgs::default();
            let bench = Bench { model, file, work, device, prompt, r#gen, depth: 0, repeat, seed, bar };
            let run = bench.run(&limits)?;
            say(&format!("{name}, {}", line(set, &run)))?;
            if set == "levels" {
                hashes.push([&run.prefill, &run.decode].map(|phase| phase.as_ref().map(|phase| phase.logits_hash)));
            }
            let mut value = report::run_json(&bench, &run);
            value["set"] = json!(set);
            value["prompt"] = json!(prompt);
            value["gen"] = json!(r#gen);
            runs.push(value);
        }
        Ok(json!({
            "name": name,
            "fingerprint": format!("{:016x}", model.fingerprint()),
            "file_bytes": file.len(),
            "levels_agree": hashes.windows(2).all(|pair| pair[0] == pair[1]),
            "runs": runs,
        }))
    }

    fn cases(&self) -> Vec<Case> {
        let best = Level::detect();
        let case = |set, [prompt, r#gen]: [usize; 2], repeat, level: Level, threads: usize, sequences| {
            let (context, rows) = (prompt.max(r#gen), 256 * threads.clamp(1, 16));
            let limits = Limits {
                sequences,
                context,
                rows,
                logit_rows: sequences,
                workers: threads,
                level,
                ..Limits::default()
            };
            Case { set, prompt, r#gen, repeat, limits }
        };
        let whole = |level, threads, sequences| {
            case("whole", [self.prompt, self.r#gen], self.repeat, level, threads, sequences)
        };
        let mut cases: Vec<_> = self.threads.iter().map(|&threads| whole(best, threads, 1)).collect();
        // Only kernels of x86-64 fetch weights ahead.
        if cfg!(target_arch = "x86_64") {
            let other = match best.fetch_order() {
                FetchOrder::Rows => FetchOrder::Memory,
                FetchOrder::Memory => FetchOrder::Rows,
            };
            let level = best.with_fetch_order(other);
            let threads = self.threads.iter();
            cases.extend(threads.map(|&threads| case("fetch", [0, self.r#gen], self.repeat, level, threads, 1)));
        }
        cases.extend(SEQUENCES.map(|sequences| case("sequences", [0, self.r#gen], self.repeat, best, 1, sequences)));
        cases.extend(Level::available().map(|level| case("levels", SHORT, 1, level, 1, 1)));
        cases
    }
}

/// Measures the kernels of all levels.
fn kernels() -> Result<Vec<Value>> {
    let mut rates = Vec::new();
    for level in Level::available() {
        for dtype in Dtype::ALL {
            let mut text = format!("products of {level}, {dtype}:");
            for rows in ROWS {
                let rate = products(level, dtype, rows)?;
                text += &match rows {
                    1 => format!(" 1 row {:.1} GB/s", rate.bytes_s / 1e9),
                    _ => format!(", {rows} rows {:.1} GMAC/s", rate.macs_s / 1e9),
                };
                rates.push(json!({
                    "level": level.name(),
                    "type": dtype.name(),
                    "rows": rows,
                    "bytes_s": rate.bytes_s,
                    "macs_s": rate.macs_s,
                }));
            }
            say(&text)?;
        }
    }
    Ok(rates)
}

/// Returns a line that describes a run.
fn line(set: &str, run: &Run) -> String {
    let Limits { workers, level, sequences, .. } = run.limits;
    let mut text = format!(
        "{set}: {level}, {}, {workers} threads, {sequences} sequences",
        report::fetch_name(level.fetch_order())
    );
    for (name, phase) in [("prefill", &run.prefill), ("decode", &run.decode)] {
        if let Some(phase) = phase {
            text += &format!(", {name} {:.1} tokens/s", report::spread(&phase.tokens_s).0);
        }
    }
    text
}

fn say(line: &str) -> Result<()> {
    Ok(writeln!(stdout(), "{line}")?)
}
