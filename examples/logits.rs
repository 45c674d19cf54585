//! Writes the logits of every row to a file and prints their hash.
//!
//! ```text
//! cargo run --release --example logits -- --model model.gguf --ids 1,2,3 --out logits.bin
//! ```
//!
//! The file is raw little-endian f32, `[rows, vocab]`; the hash is XXH64 of these bytes. It depends only on the model,
//! the ids and `--kv-type`. It does not depend on `--kv`, `--chunk`, `--threads`, `--level` or `--device`.

use std::io::{self, BufWriter, IntoInnerError, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use common::args::{EngineArgs, ModelArgs, parse_ids};
use common::device::DeviceArgs;
use common::output::{self, Output};
use common::{ModelFile, Result, limit};
use gleed::Limits;
use gleed::host::{AlignedBytes, ThreadPool};
use gleed::num::Xxh64;

const EXAMPLES: &str = "\
Examples:
  cargo run --release --example logits -- --ids 1,414,435,261,385 --out logits.bin
  cargo run --release --example logits -- --ids 1,414,435,261,385 --out logits.bin --chunk 1 --kv off
  cargo run --release --features gpu --example logits -- --ids 1,414,435,261,385 --out logits.bin --device gpu";

/// Writes the logits of every token to a file and prints their hash.
///
/// The file contains little-endian f32, [tokens, vocab]. The hash is XXH64 of these bytes.
#[derive(Parser)]
#[command(name = "logits", version, long_version = common::version(), after_help = EXAMPLES)]
struct Args {
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    engine: EngineArgs,
    #[command(flatten)]
    device: DeviceArgs,

    /// Token ids, separated by commas or white space; no BOS is added
    #[arg(long, value_name = "1,2,3", value_parser = parse_ids)]
    ids: std::vec::Vec<u32>,

    /// Tokens per call, and rows per batch; the logits do not depend on it
    #[arg(long, value_name = "N", default_value_t = 64)]
    chunk: usize,

    /// File to write
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

fn main() -> ExitCode {
    common::exit(logits(&Args::parse()))
}

fn logits(args: &Args) -> Result<ExitCode> {
    let file = ModelFile::open(args.model.model.as_deref())?;
    let model = file.generative()?;
    let out = Output::at(&args.out, &file.paths())?;
    let (tokens, room) = (args.ids.len(), model.config().context);
    if tokens > room {
        return Err(format!("--ids has {tokens} tokens, the model's context is {room}").into());
    } else if tokens == 0 {
        return Err("--ids has no token".into());
    }
    limit::check("--chunk", args.chunk, 1, usize::MAX)?;
    let rows = args.chunk.min(tokens);
    let limits = Limits { rows, logit_rows: rows, ..args.engine.limits(tokens) };
    let (plan, mut machine) = args.device.prepare(&model, &limits)?;
    let pool = ThreadPool::new(args.engine.threads)?;
    let mut memory = AlignedBytes::try_new(plan.bytes())?;
    let mut engine = machine.engine(&model, &plan, memory.bytes())?;
    engine.set_parallel(&pool);

    output::end_on_interrupt()?;
    let mut out = BufWriter::new(out.begin()?);
    let mut hash = Xxh64::new();
    let sequence = engine.open()?;
    for chunk in args.ids.chunks(rows) {
        let mut written = Ok(());
        engine.prefill_rows(sequence, chunk, |_, logits| {
            let bytes: Vec<u8> = logits.iter().flat_map(|logit| logit.to_le_bytes()).collect();
            hash.update(&bytes);
            if written.is_ok() {
                written = out.write_all(&bytes);
            }
        })?;
        written.map_err(|error| out.get_ref().error(error))?;
    }
    out.flush().map_err(|error| out.get_ref().error(error))?;
    out.into_inner().map_err(IntoInnerError::into_error)?.finish()?;
    writeln!(io::stdout(), "{:016x}", hash.finish())?;
    Ok(ExitCode::SUCCESS)
}
