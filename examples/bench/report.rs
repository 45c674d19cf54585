//! Writes the results as a table for people, and as JSON for programs.

use std::collections::BTreeMap;
use std::io::{self, Write, stdout};

use serde_json::{Value, json};

use gleed::kernels::FetchOrder;

use crate::machine;
use crate::measure::{Bench, Phase, Run};
use crate::start::Start;
use common::figures;

/// A kind of phase.
struct Kind {
    name: String,
    /// Unit of `rate`, in 10^9 per second.
    unit: &'static str,
    phase: fn(&Run) -> Option<&Phase>,
}

fn kinds(bench: &Bench<'_>) -> [Kind; 3] {
    let at = if bench.depth > 0 { format!(" at {}", bench.depth) } else { String::new() };
    [
        Kind { name: format!("prefill {}", bench.prompt), unit: "GMAC/s", phase: |run| run.prefill.as_ref() },
        Kind { name: format!("decode {}{at}", bench.r#gen), unit: "GB/s", phase: |run| run.decode.as_ref() },
        Kind { name: format!("chosen {}{at}", bench.r#gen), unit: "GB/s", phase: |run| run.chosen.as_ref() },
    ]
}

pub(crate) fn table(bench: &Bench<'_>, file: &str, start: &Start, runs: &[Run]) -> io::Result<()> {
    let mut out = stdout().lock();
    let config = bench.model.config();
    let weights = (bench.work.layer_weights + bench.work.output_weights) as f64 / 1e6;
    writeln!(out, "{file}: {}, {} layers, {weights:.1} M weights", config.architecture, config.layers)?;
    let types: Vec<_> = types(bench).into_iter().map(|(name, bytes)| format!("{name} {}", mb(bytes))).collect();
    writeln!(out, "{} read per token: {}", mb(bench.work.bytes), types.join(", "))?;
    writeln!(out, "{start}")?;
    writeln!(out, "{}", machine::processor())?;
    if let Some(Run { limits, units_per_token, device, .. }) = runs.first() {
        writeln!(
            out,
            "device {}, level {} ({}), kv {} {}, rows {}, sequences {}, {units_per_token} units per token, {} repeats\n",
            device,
            limits.level,
            fetch_name(limits.level.fetch_order()),
            limits.kv_kind,
            limits.kv_type,
            limits.rows,
            limits.sequences,
            bench.repeat,
        )?;
    }
    writeln!(
        out,
        "{:>7}  {:<20} {:>9} {:>19}  {:>16}  {:>20}  {:>6}  logits",
        "threads", "", "tokens/s", "min - max", "", "of the machine's", "waited"
    )?;
    for run in runs {
        for kind in kinds(bench) {
            let Some(phase) = (kind.phase)(run) else { continue };
            let (median, min, max) = spread(&phase.tokens_s);
            let (rate, _, _) = spread(&phase.rate);
            let best = best(phase).map(|(best, ratio)| format!("{:.1} % of {:.1}", 100.0 * ratio, best / 1e9));
            writeln!(
                out,
                "{:>7}  {:<20} {median:>9.2} {:>19}  {:>9.2} {:<6}  {:>20}  {:>5.1}%  {:016x}",
                run.limits.workers,
                kind.name,
                format!("{min:.2} - {max:.2}"),
                rate / 1e9,
                kind.unit,
                best.unwrap_or_else(|| "-".into()),
                100.0 * spread(&phase.waited).0,
                phase.logits_hash,
            )?;
        }
    }
    writeln!(out, "\n{:>7}  {:>14} {:>14} {:>14}  peak / (file + plan)", "threads", "peak resident", "file", "plan")?;
    for run in runs {
        let (file, plan) = (bench.file.len() as u64, run.plan_bytes as u64);
        let peak = run.peak_resident.map_or_else(|| "-".into(), mb);
        let ratio = memory_ratio(bench, run).map_or_else(|| "-".into(), |ratio| format!("{ratio:.3}"));
        writeln!(out, "{:>7}  {peak:>14} {:>14} {:>14}  {ratio}", run.limits.workers, mb(file), mb(plan))?;
    }
    for run in runs.iter().filter(|run| run.device_bytes > 0) {
        writeln!(out, "in the memory of the device: {}", mb(run.device_bytes))?;
    }
    Ok(())
}

pub(crate) fn json(bench: &Bench<'_>, file: &str, start: &Start, runs: &[Run]) -> Value {
    let runs: Vec<_> = runs.iter().map(|run| run_json(bench, run)).collect();
    json!({
        "processor": machine::processor(),
        "file": file,
        "fingerprint": format!("{:016x}", bench.model.fingerprint()),
        "architecture": bench.model.config().architecture,
        "file_bytes": bench.file.len(),
        "bytes_by_type": types(bench),
        "layer_weights": bench.work.layer_weights,
        "output_weights": bench.work.output_weights,
        "bytes_per_token": bench.work.bytes,
        "start": start.json(),
        "prompt": bench.prompt,
        "gen": bench.r#gen,
        "depth": bench.depth,
        "repeat": bench.repeat,
        "seed": bench.seed,
        "runs": runs,
    })
}

pub(crate) fn run_json(bench: &Bench<'_>, run: &Run) -> Value {
    let phase = |phase: &Option<Phase>, rate: &str, best_name: &str| {
        let phase = phase.as_ref()?;
        let (median, min, max) = spread(&phase.tokens_s);
        let mut value = json!({
            "tokens_s": { "median": median, "min": min, "max": max, "all": phase.tokens_s },
            rate: spread(&phase.rate).0,
            best_name: best(phase).map(|(best, _)| best),
            "ratio": best(phase).map(|(_, ratio)| ratio),
            "waited": spread(&phase.waited).0,
            "logits_hash": format!("{:016x}", phase.logits_hash),
            "metrics": figures::json(&phase.metrics),
        });
        if !phase.weights_rate.is_empty() {
            value["weight_bytes_s"] = json!(spread(&phase.weights_rate).0);
        }
        Some(value)
    };
    json!({
        "threads": run.limits.workers,
        "device": run.device,
        "device_bytes": run.device_bytes,
        "level": run.limits.level.name(),
        "fetch": fetch_name(run.limits.level.fetch_order()),
        "kv_type": run.limits.kv_type.to_string(),
        "rows": run.limits.rows,
        "sequences": run.limits.sequences,
        "units_per_token": run.units_per_token,
        "plan_bytes": run.plan_bytes,
        "peak_resident_bytes": run.peak_resident,
        "peak_to_file_and_plan": memory_ratio(bench, run),
        "prefill": phase(&run.prefill, "macs_s", "integer_peak_macs_s"),
        "decode": phase(&run.decode, "bytes_s", "streaming_read_bytes_s"),
        "chosen": phase(&run.chosen, "bytes_s", "streaming_read_bytes_s"),
    })
}

pub(crate) fn fetch_name(order: FetchOrder) -> &'static str {
    match order {
        FetchOrder::Rows => "fetches rows",
        FetchOrder::Memory => "fetches in the order of memory",
    }
}

/// Returns the median, the least and the greatest sample.
pub(crate) fn spread(samples: &[f64]) -> (f64, f64, f64) {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |index: usize| sorted.get(index).copied().unwrap_or(f64::NAN);
    let middle = (at(sorted.len() / 2) + at(sorted.len().saturating_sub(1) / 2)) / 2.0;
    (middle, at(0), at(sorted.len().saturating_sub(1)))
}

/// Returns the median of the machine's peak rate, and the median of the part of it that was reached.
fn best(phase: &Phase) -> Option<(f64, f64)> {
    let ratios: Vec<_> = phase.rate.iter().zip(&phase.best).map(|(rate, best)| rate / best).collect();
    (!phase.best.is_empty()).then(|| (spread(&phase.best).0, spread(&ratios).0))
}

fn memory_ratio(bench: &Bench<'_>, run: &Run) -> Option<f64> {
    Some(run.peak_resident? as f64 / (bench.file.len() + run.plan_bytes) as f64)
}

/// Returns the bytes of all tensors by type.
fn types(bench: &Bench<'_>) -> BTreeMap<&'static str, u64> {
    let mut types = BTreeMap::new();
    for tensor in bench.model.gguf().tensors() {
        *types.entry(tensor.ggml_type().name()).or_default() += tensor.data().len() as u64;
    }
    types
}

fn mb(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}
