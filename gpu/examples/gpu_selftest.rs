//! Ten lines about a GPU that can be pasted into a report: adapter, limits, self-test, hash, speed.
//!
//! `cargo run --release -p gleed-gpu --example gpu_selftest [-- MODEL.gguf [vulkan|metal|dx12]]`

use std::error::Error;
use std::time::{Duration, Instant};

use gleed::mem::ALIGN;
use gleed::num::Xxh64;
use gleed::sample::argmax;
use gleed::{Engine, Limits, Model, Plan};
use gleed_gpu::{Choice, DevicePlan, Gpu, GpuDevice};

const MODEL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/assets/gleed-tales-q8_0.gguf");
const TOKENS: usize = 16;
const ROWS: usize = 64;
/// One batch by tiles, and one by the kernels for few rows.
const PROMPT: u32 = 80;
/// Tokens that are chosen on the device.
const CHOSEN: usize = 8;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let path = args.next().unwrap_or_else(|| MODEL.to_owned());
    let backend = args.next().map(|name| name.parse()).transpose()?;
    let choice = Choice { backend, software: true, patience: Duration::from_secs(120) };

    let started = Instant::now();
    let (gpu, tested) = Gpu::open(&choice, None)?;
    let (info, limits) = (gpu.hardware().info(), gpu.hardware().limits());
    println!("adapter     {info}");
    println!("driver      {}", info.driver);
    println!("limits      {} MiB of a buffer, {} workgroups", limits.binding >> 20, limits.workgroups);
    println!(
        "self-test   passed in {:.1} s, with the compiler; key {:016x}",
        started.elapsed().as_secs_f64(),
        tested.0
    );

    let file = std::fs::read(&path).map_err(|error| format!("{path}: {error}"))?;
    let model = Model::open(&file)?;
    let limits = Limits { context: 512, rows: ROWS, ..Limits::default() };
    let plan = Plan::for_device(&model, &limits)?;
    let planned = DevicePlan::new(&model, &plan, gpu.hardware().limits())?;
    println!("model       {}, {} bytes", path.rsplit('/').next().unwrap_or(&path), file.len());
    println!(
        "device      {} bytes in {} buffers, {} dispatches",
        planned.bytes(),
        planned.buffers().count(),
        planned.dispatches()
    );
    let started = Instant::now();
    let mut device = GpuDevice::new(&gpu, planned)?;
    println!("upload      {:.2} s", started.elapsed().as_secs_f64());
    let mut memory = vec![0; plan.bytes() + ALIGN];
    let there = run(&mut Engine::with_device(&model, &plan, aligned(&mut memory), &mut device)?)?;
    let encoding = device.encoding().as_secs_f64() * 1e3 / there.batches as f64;

    let plan = Plan::new(&model, &limits)?;
    let mut memory = vec![0; plan.bytes() + ALIGN];
    let here = run(&mut Engine::new(&model, &plan, aligned(&mut memory))?)?;
    let verdict = if there.hash == here.hash { "the same as the CPU's" } else { "NOT the CPU's" };
    println!("hash        {:016x}, {verdict}", there.hash);
    println!("prefill     {:.1} tokens/s (CPU, one thread: {:.1})", there.prefill, here.prefill);
    println!("decode      {:.1} tokens/s (CPU, one thread: {:.1})", there.decode, here.decode);
    println!("            {:.1} tokens/s where the device chooses them", there.chosen);
    println!("encoding    {encoding:.3} ms of the host for a token ({})", processor());
    if there.hash == here.hash { Ok(()) } else { Err("other bits".into()) }
}

/// What a run gives.
struct Run {
    hash: u64,
    /// Tokens per second.
    prefill: f64,
    decode: f64,
    chosen: f64,
    /// How often the program ran.
    batches: usize,
}

/// A prompt, and then the largest logit again and again, of which the hash has all; then tokens of which it has the
/// ids.
fn run(engine: &mut Engine<'_, '_>) -> Result<Run, Box<dyn Error>> {
    let vocab = engine.model().config().vocab as u32;
    let prompt: Vec<u32> = (0..PROMPT).map(|i| (i * 7919 + 13) % vocab).collect();
    let (seq, mut hash) = (engine.open()?, Xxh64::new());
    let mut add = |logits: &[f32]| logits.iter().for_each(|x| hash.update(&x.to_bits().to_le_bytes()));
    let started = Instant::now();
    let logits = engine.prefill(seq, &prompt)?;
    let prefill = prompt.len() as f64 / started.elapsed().as_secs_f64();
    add(logits);
    let mut next = argmax(logits)?;
    let started = Instant::now();
    for _ in 0..TOKENS {
        let logits = engine.decode_step(seq, next)?;
        add(logits);
        next = argmax(logits)?;
    }
    let decode = TOKENS as f64 / started.elapsed().as_secs_f64();
    let (mut ids, started) = ([0; CHOSEN], Instant::now());
    engine.decode_greedy(seq, next, &mut ids)?;
    let chosen = CHOSEN as f64 / started.elapsed().as_secs_f64();
    ids.iter().for_each(|id| hash.update(&id.to_le_bytes()));
    let batches = prompt.len().div_ceil(ROWS) + TOKENS + CHOSEN;
    Ok(Run { hash: hash.finish(), prefill, decode, chosen, batches })
}

/// What the system calls the processor.
fn processor() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    name.map_or(std::env::consts::ARCH, |(_, name)| name).to_owned()
}

/// The part of some memory that an engine can have.
fn aligned(memory: &mut [u8]) -> &mut [u8] {
    let start = memory.as_ptr().align_offset(ALIGN);
    &mut memory[start..]
}
