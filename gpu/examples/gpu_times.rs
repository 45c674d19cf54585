//! Where the time of a model goes on a GPU: prefill, decode, and how long each kind of dispatch takes.
//!
//! `cargo run --release -p gleed-gpu --example gpu_times -- MODEL.gguf [TOKENS [DEPTH]]`: a prompt of TOKENS (512),
//! behind DEPTH others (0).

use std::collections::BTreeMap;
use std::error::Error;
use std::time::{Duration, Instant};

use gleed::mem::ALIGN;
use gleed::{Engine, Limits, Model, Plan};
use gleed_gpu::{Choice, DevicePlan, Gpu, GpuDevice, GpuError, KernelTime};

/// Tokens that are decoded in all.
const DECODED: usize = 64;
/// Tokens that one call chooses on the device.
const CHOSEN: usize = 16;
const RUNS: usize = 3;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let path = args.next().ok_or("usage: gpu_times MODEL.gguf [TOKENS [DEPTH]]")?;
    let mut number = |default: usize| args.next().map_or(Ok(default), |text| text.parse());
    let (tokens, depth) = (number(512)?, number(0)?);

    let file = std::fs::read(&path).map_err(|error| format!("{path}: {error}"))?;
    let choice = Choice { software: true, patience: Duration::from_secs(120), ..Choice::default() };
    let (gpu, _) = Gpu::open(&choice, None)?;
    println!("{}", gpu.hardware().info());
    let model = Model::open(&file)?;
    let context = depth + tokens + RUNS * DECODED * 2 + 16;
    let limits = Limits { context, rows: tokens.max(CHOSEN), ..Limits::default() };
    let plan = Plan::for_device(&model, &limits)?;
    let planned = DevicePlan::new(&model, &plan, gpu.hardware().limits())?;
    let read = planned.matrix_bytes_read();
    println!("{path}: {} dispatches, {:.1} MB of matrices read for a token", planned.dispatches(), read as f64 / 1e6);
    let mut device = GpuDevice::new(&gpu, planned)?;
    let mut memory = vec![0; plan.bytes() + ALIGN];
    speed(&mut Engine::with_device(&model, &plan, aligned(&mut memory), &mut device)?, tokens, depth, read)?;
    print_times("a token of decode", &fastest(&device)?);
    prefill(&mut Engine::with_device(&model, &plan, aligned(&mut memory), &mut device)?, tokens, depth)?;
    print_times(&format!("prefill of {tokens}"), &fastest(&device)?);
    Ok(())
}

/// Returns some token ids.
fn prompt(model: &Model<'_>, tokens: usize) -> Vec<u32> {
    let vocab = model.config().vocab as u32;
    (0..tokens as u32).map(|i| (i * 7919 + 13) % vocab).collect()
}

/// A prompt of `tokens` behind `depth` others; returns the seconds that it took.
fn prefill(engine: &mut Engine<'_, '_>, tokens: usize, depth: usize) -> Result<f64, Box<dyn Error>> {
    let prompt = prompt(engine.model(), depth + tokens);
    let seq = engine.open()?;
    if depth > 0 {
        engine.prefill(seq, &prompt[..depth])?;
    }
    let started = Instant::now();
    engine.prefill(seq, &prompt[depth..])?;
    let took = started.elapsed().as_secs_f64();
    engine.close(seq)?;
    Ok(took)
}

/// Prefill, and decode with and without logits on the CPU, the fastest of some runs each.
fn speed(engine: &mut Engine<'_, '_>, tokens: usize, depth: usize, read: u64) -> Result<(), Box<dyn Error>> {
    let mut best = f64::INFINITY;
    for _ in 0..RUNS {
        best = best.min(prefill(engine, tokens, depth)?);
    }
    println!("prefill     {:.1} tokens/s", tokens as f64 / best);
    let seq = engine.open()?;
    engine.prefill(seq, &prompt(engine.model(), depth + 8))?;
    let (mut steps, mut chosen) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..RUNS {
        let started = Instant::now();
        let mut ids = [0; CHOSEN];
        for _ in 0..DECODED / CHOSEN {
            engine.decode_greedy(seq, 1, &mut ids)?;
        }
        chosen = chosen.min(started.elapsed().as_secs_f64() / DECODED as f64);
        let started = Instant::now();
        for token in 0..DECODED as u32 {
            engine.decode_step(seq, token)?;
        }
        steps = steps.min(started.elapsed().as_secs_f64() / DECODED as f64);
    }
    let bandwidth = read as f64 / 1e9;
    println!("decode      {:.1} tokens/s, {:.0} GB/s", 1.0 / steps, bandwidth / steps);
    println!("            {:.1} tokens/s where the device chooses them, {:.0} GB/s", 1.0 / chosen, bandwidth / chosen);
    Ok(())
}

/// Of each dispatch, the shortest time in some runs.
fn fastest(device: &GpuDevice<'_, '_>) -> Result<Vec<KernelTime>, GpuError> {
    let mut best = device.times()?;
    for _ in 0..3 * RUNS {
        best.iter_mut().zip(device.times()?).for_each(|(best, other)| best.time = best.time.min(other.time));
    }
    Ok(best)
}

/// One line for each kind of dispatch.
fn print_times(what: &str, times: &[KernelTime]) {
    let mut kinds = BTreeMap::<_, (u32, f64, u64)>::new();
    for time in times {
        let (count, seconds, bytes) = kinds.entry((time.kernel, time.matrix)).or_default();
        *count += 1;
        *seconds += time.time.as_secs_f64();
        *bytes += time.bytes;
    }
    let all: f64 = kinds.values().map(|(_, seconds, _)| seconds).sum();
    println!("{what}: {:.3} ms in {} dispatches", all * 1e3, times.len());
    for ((kernel, [outputs, cols]), (count, seconds, bytes)) in kinds {
        let each = seconds * 1e6 / f64::from(count);
        let shape = if bytes > 0 {
            format!("{outputs} x {cols}, {:.0} GB/s", bytes as f64 / seconds / 1e9)
        } else {
            String::new()
        };
        println!("  {:<16} {count:4} of {each:9.2} us, {:5.1} %  {shape}", format!("{kernel:?}"), seconds / all * 1e2);
    }
}

/// The part of some memory that an engine can have.
fn aligned(memory: &mut [u8]) -> &mut [u8] {
    let start = memory.as_ptr().align_offset(ALIGN);
    &mut memory[start..]
}
