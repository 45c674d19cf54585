//! Runs random traffic on an engine with threads for `GLEED_SOAK_SECONDS` seconds (2 if it is not set), beside a busy
//! neighbour, with snapshots in files. Now and then a fresh engine computes everything again. The number of a round
//! decides its traffic. `GLEED_SOAK_FIRST` is the number of the first round (0), so that a second run does not repeat
//! the first.
//!
//! After the sequences of a round are closed, no more bytes are allocated than after earlier rounds, no block is used,
//! and the files have at most their allowed size. At the end the resident memory of the process has not grown.

mod memory;
mod oracle;
mod traffic;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::Memory;
use common::gguf_writer::GgufWriter;
use common::random::Rng;
use common::synthetic::{Architecture, SyntheticModel, encode_f32};
use gleed::host::ThreadPool;
use gleed::model::Adapter;
use gleed::{Engine, KvKind, KvType, Limits, Model, Plan, Window};
use oracle::Oracle;
use traffic::{Counts, Traffic};

pub(crate) const VOCAB: usize = 23;
pub(crate) const CONTEXT: usize = 96;
pub(crate) const WINDOW: Window = Window { sinks: 2, last: 40 };
/// Number of calls of a round.
const CALLS: usize = 400;
/// Number of rounds after which the memory of the process no longer grows, because all limits were used.
const WARM: u64 = 30;
/// Bytes in pages of the allocator and of stacks that may still be touched for the first time.
const SLACK: usize = 512 << 10;

fn models() -> Vec<(Vec<u8>, Vec<u8>)> {
    let of =
        |architecture| SyntheticModel { layers: 2, vocab: VOCAB, context: CONTEXT, ..SyntheticModel::of(architecture) };
    let windowed = SyntheticModel { layers: 3, ..of(Architecture::Gemma2) }.with("attention.sliding_window", 20u32);
    [of(Architecture::Llama), windowed, of(Architecture::Qwen3)].iter().map(|one| (one.bytes(), adapter(one))).collect()
}

/// Returns an adapter of rank 2 for all queries.
fn adapter(model: &SyntheticModel) -> Vec<u8> {
    let (mut rng, mut writer) = (Rng::new(5), GgufWriter::default());
    writer.set("general.type", "adapter").set("adapter.type", "lora").set("adapter.lora.alpha", 4f32);
    writer.set("general.architecture", model.architecture.name());
    for tensor in model.writer().tensors.into_iter().filter(|tensor| tensor.name.contains("attn_q.")) {
        let (cols, rows) = (tensor.dims[0], tensor.dims[1]);
        let mut matrix = |len: u64| encode_f32(&(0..len).map(|_| rng.normal() * 0.2).collect::<Vec<f32>>());
        let (a, b) = (matrix(cols * 2), matrix(rows * 2));
        writer.add_tensor(&format!("{}.lora_a", tensor.name), &[cols, 2], 0, a);
        writer.add_tensor(&format!("{}.lora_b", tensor.name), &[2, rows], 0, b);
    }
    writer.finish()
}

fn limits(round: u64) -> Limits {
    // The numbers of models and windows have no common divisor, so that all pairs occur.
    let windows = [Window::ALL, WINDOW, Window::ALL, Window::ALL];
    let types = [KvType::F16, KvType::Q8_0, KvType::F32, KvType::Q4_0, KvType::F16];
    let pick = |len: usize| (round % len as u64) as usize;
    Limits {
        sequences: 6,
        context: CONTEXT,
        window: windows[pick(4)],
        rows: 16,
        logit_rows: 4,
        kv_kind: if round.is_multiple_of(12) { KvKind::Basic } else { KvKind::Paged },
        kv_type: types[pick(5)],
        kv_blocks: if round % 7 < 3 { 14 } else { 0 },
        prefix_cache: round % 4 < 3,
        adapters: 1,
        adapter_rank: 2,
        workers: 2,
        ..Limits::default()
    }
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |number| number.parse().expect("a number"))
}

#[test]
fn soak() {
    let (seconds, first) = (number("GLEED_SOAK_SECONDS", 2), number("GLEED_SOAK_FIRST", 0));
    let models = models();
    let models: Vec<_> = models.iter().map(|(file, adapter)| (Model::open(file).unwrap(), adapter)).collect();
    let adapters: Vec<_> = models.iter().map(|(model, file)| Adapter::open(file, model).unwrap()).collect();
    let most = (0..420).map(|round| Plan::new(&models[round as usize % 3].0, &limits(round)).unwrap().bytes()).max();
    let mut memory = Memory::new(most.unwrap());
    let mut oracle = Oracle::new(&models.iter().map(|(model, _)| model).collect::<Vec<_>>(), CONTEXT);
    let folder = std::env::temp_dir().join(format!("gleed-soak-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let pool = ThreadPool::new(2).unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // The neighbour works for a while, and rests for a while.
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let until = Instant::now() + Duration::from_millis(3);
                while Instant::now() < until {
                    std::hint::spin_loop();
                }
                std::thread::sleep(Duration::from_millis(12));
            }
        });
        // The neighbour also ends if a round fails.
        let _stop = Stop(&is_over);
        let (end, mut counts) = (Instant::now() + Duration::from_secs(seconds), Counts::default());
        let (mut round, mut held, mut resident) = (first, None, None);
        while Instant::now() < end || round == first {
            let (model, _) = &models[round as usize % 3];
            let plan = Plan::new(model, &limits(round)).unwrap();
            let mut engine = Engine::new(model, &plan, memory.bytes()).unwrap();
            engine.set_parallel(&pool);
            engine.load_adapter(&adapters[round as usize % 3]).unwrap();
            let mut traffic =
                Traffic::new(engine, model, &adapters[round as usize % 3], &plan, &mut oracle, &folder, round);
            traffic.play(CALLS, &mut counts);
            drop(traffic);
            round += 1;
            let now = memory::held();
            // The first rounds allocate things that are made when they are first used.
            if round > first + 3 {
                assert_eq!(*held.get_or_insert(now), now, "bytes that are allocated after round {round}");
            }
            if round == first + WARM {
                resident = Some(memory::resident());
            }
        }
        let grown = resident.map(|before| memory::resident().saturating_sub(before));
        println!(
            "soak: {} rounds from {first} in {seconds} s, {counts:?}, {} bytes held, resident memory grew by {grown:?} bytes",
            round - first,
            memory::held()
        );
        assert!(grown.is_none_or(|grown| grown < SLACK), "the resident memory grew by {grown:?} bytes");
    });
    std::fs::remove_dir_all(&folder).unwrap();
}

struct Stop<'f>(&'f AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
