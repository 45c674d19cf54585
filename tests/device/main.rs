//! The boundary to another machine. An engine with a device has the bits of an engine on the CPU, whatever the host
//! does.

mod greedy;
mod math;
mod scalar;
mod steps;

use gleed::cache::SnapshotOptions;
use gleed::kernels::Level;
use gleed::num::Xxh64;
use gleed::{Engine, KvType, Limits, Logits, Model, Plan, SeqId, Step, Window};

use common::Memory;
use common::random::Rng;
use common::synthetic::{Architecture, SyntheticModel};
use scalar::ScalarDevice;

/// Everything that a host sees of a run: sequence, position or count, and hash.
type Log = Vec<(SeqId, usize, u64)>;

fn limits() -> Limits {
    Limits {
        sequences: 5,
        context: 96,
        rows: 9,
        logit_rows: 4,
        kv_blocks: 20,
        prefix_cache: true,
        level: Level::SCALAR,
        ..Limits::default()
    }
}

/// Returns models of which every operation has a view.
fn models() -> Vec<(&'static str, SyntheticModel)> {
    vec![
        ("llama", SyntheticModel::llama()),
        ("qwen3", SyntheticModel::qwen3()),
        ("lfm2", SyntheticModel::of(Architecture::Lfm2)),
        ("nemotron_h", SyntheticModel::of(Architecture::NemotronH)),
        // Its windows are long enough for snapshots.
        ("gemma2", SyntheticModel::of(Architecture::Gemma2).with("attention.sliding_window", 64u32)),
    ]
}

fn hash(x: &[f32]) -> u64 {
    Xxh64::hash(bytemuck::cast_slice(x))
}

/// Runs `host` with an engine on the CPU, and with an engine for each device that `make` sets up. All logs must be the
/// same.
fn same(
    model: &Model<'_>,
    limits: &Limits,
    devices: &[fn(&mut ScalarDevice<'_>)],
    host: &dyn Fn(&mut Engine<'_, '_>) -> Log,
) -> Log {
    let plan = Plan::new(model, limits).unwrap();
    let mut memory = Memory::new(plan.bytes());
    let expected = host(&mut Engine::new(model, &plan, memory.bytes()).unwrap());
    assert!(!expected.is_empty());
    for make in devices {
        let plan = Plan::for_device(model, limits).unwrap();
        let mut device = ScalarDevice::new(model, &plan).unwrap();
        make(&mut device);
        let mut memory = Memory::new(plan.bytes());
        let mut engine = Engine::with_device(model, &plan, memory.bytes(), &mut device).unwrap();
        assert_eq!(host(&mut engine), expected);
        engine.cache().check().unwrap();
    }
    expected
}

/// Devices that do submitted work in different ways: at once, three steps at a time, or late.
const DEVICES: [fn(&mut ScalarDevice<'_>); 3] =
    [|_| {}, |device| device.most = 3, |device| (device.most, device.laziness) = (1000, 2)];

/// Steps with this budget until no work is left.
fn run(engine: &mut Engine<'_, '_>, units: usize, log: &mut Log) {
    for _ in 0..1_000_000 {
        match engine.step(units).unwrap() {
            Step::Idle => return,
            Step::Ready => log.extend(engine.results().map(|(seq, position, logits)| (seq, position, hash(logits)))),
            _ => {}
        }
    }
    panic!("it does not end");
}

fn snapshot(engine: &Engine<'_, '_>, seq: SeqId) -> Vec<u8> {
    let mut bytes = vec![0; engine.snapshot_len(seq).unwrap()];
    engine.snapshot(seq, &mut bytes).unwrap();
    bytes
}

/// Plays chunks, batches of sequences, forks in the middle of a block, rewinds, prefix reuse, cancelled work and
/// snapshots.
fn play(engine: &mut Engine<'_, '_>, units: usize) -> Log {
    let (mut log, mut rng) = (Log::new(), Rng::new(7));
    let vocab = engine.model().config().vocab;
    let prompt = rng.tokens(37, vocab);
    let first = engine.open().unwrap();
    engine.queue(first, 0, &prompt, Logits::Last).unwrap();
    run(engine, units, &mut log);
    let note = |engine: &Engine<'_, '_>, seq, log: &mut Log| {
        log.push((seq, engine.seq_len(seq).unwrap(), Xxh64::hash(&snapshot(engine, seq))));
    };
    note(engine, first, &mut log);
    // Both sequences write to a partial block that they share.
    let fork = engine.fork(first, 37).unwrap();
    let early = engine.fork(first, 20).unwrap();
    for (seq, len, logits) in [(first, 5, Logits::All), (fork, 3, Logits::Last), (early, 11, Logits::Last)] {
        engine.queue(seq, engine.seq_len(seq).unwrap(), &rng.tokens(len, vocab), logits).unwrap();
    }
    // With small steps, some work is cancelled in the middle and done again.
    let _ = engine.step(units.min(40)).unwrap();
    engine.cancel(fork).unwrap();
    engine.queue(fork, 37, &rng.tokens(3, vocab), Logits::Last).unwrap();
    run(engine, units, &mut log);
    for seq in [first, fork, early] {
        note(engine, seq, &mut log);
    }
    engine.rewind(first, 18).unwrap();
    engine.queue(first, 18, &rng.tokens(16, vocab), Logits::Last).unwrap();
    run(engine, units, &mut log);
    note(engine, first, &mut log);
    // A saved sequence goes on as another one.
    let saved = snapshot(engine, early);
    engine.close(early).unwrap();
    let restored = engine.restore(&saved).unwrap();
    for token in rng.tokens(3, vocab) {
        let logits = hash(engine.decode_step(restored, token).unwrap());
        log.push((restored, engine.seq_len(restored).unwrap(), logits));
    }
    note(engine, restored, &mut log);
    engine.close(fork).unwrap();
    // With a prefix cache, most of this prompt is found.
    let again = engine.open().unwrap();
    let logits = hash(engine.prefill_prompt(again, &prompt).unwrap());
    log.push((again, engine.stats().prefix.hits as usize, logits));
    note(engine, again, &mut log);
    log
}

#[test]
fn a_device_has_the_bits_of_the_cpu() {
    for (name, synthetic) in models() {
        let file = synthetic.bytes();
        let model = Model::open(&file).unwrap();
        let reference = same(&model, &limits(), &DEVICES, &|engine| play(engine, usize::MAX));
        // Budgets change only the batches of cancelled work.
        for units in [1, 37, 400] {
            same(&model, &limits(), &DEVICES[..if units == 1 { 1 } else { 3 }], &|engine| play(engine, units));
        }
        assert!(reference.len() > 15, "{name}: {}", reference.len());
    }
}

/// Covers every element type of keys and values, and block-quantized matrices.
#[test]
fn every_element_type() {
    for (name, synthetic) in models() {
        let quantized = SyntheticModel { weights: gleed::tensor::Dtype::Q8_0, ..synthetic };
        let file = quantized.bytes();
        let model = Model::open(&file).unwrap();
        for kv_type in KvType::ALL {
            let limits = Limits { kv_type, ..limits() };
            same(&model, &limits, &DEVICES[..1], &|engine| play(engine, usize::MAX));
        }
        println!("{name}");
    }
}

/// Covers windows of the host and of layers: blocks are evicted, and block tables become rings.
#[test]
fn windows_pass() {
    for (_, synthetic) in models() {
        let file = synthetic.bytes();
        let model = Model::open(&file).unwrap();
        let window = Window { sinks: 3, last: 24 };
        let limits = Limits { window, context: 40, sequences: 2, kv_blocks: 0, prefix_cache: false, ..limits() };
        same(&model, &limits, &DEVICES, &|engine| {
            let (mut log, mut rng) = (Log::new(), Rng::new(3));
            let seq = engine.open().unwrap();
            for len in [30, 9, 40, 1, 1, 100, 1] {
                let logits = hash(engine.prefill(seq, &rng.tokens(len, 320)).unwrap());
                log.push((seq, len, logits));
            }
            let fork = engine.fork(seq, engine.seq_len(seq).unwrap()).unwrap();
            for seq in [fork, seq] {
                engine.queue(seq, engine.seq_len(seq).unwrap(), &rng.tokens(7, 320), Logits::All).unwrap();
            }
            run(engine, 300, &mut log);
            log
        });
    }
    // Gemma 2 has windows of its own.
    let file = SyntheticModel::of(Architecture::Gemma2).bytes();
    let model = Model::open(&file).unwrap();
    let limits = Limits { context: 400, sequences: 2, kv_blocks: 0, prefix_cache: false, ..limits() };
    same(&model, &limits, &DEVICES[..1], &|engine| {
        let seq = engine.open().unwrap();
        let logits = hash(engine.prefill(seq, &Rng::new(5).tokens(300, 320)).unwrap());
        vec![(seq, 300, logits)]
    });
}

/// A snapshot from the CPU or the device can be restored on the other side.
#[test]
fn snapshots_cross_over() {
    for (name, synthetic) in models() {
        let file = synthetic.bytes();
        let model = Model::open(&file).unwrap();
        for kv_type in [KvType::F16, KvType::Q4_0] {
            let limits = Limits { kv_type, ..limits() };
            let plan = Plan::for_device(&model, &limits).unwrap();
            let (mut device, mut memory) = (ScalarDevice::new(&model, &plan).unwrap(), Memory::new(plan.bytes()));
            let mut there = Engine::with_device(&model, &plan, memory.bytes(), &mut device).unwrap();
            let plan = Plan::new(&model, &limits).unwrap();
            let mut memory = Memory::new(plan.bytes());
            let mut here = Engine::new(&model, &plan, memory.bytes()).unwrap();
            let tokens = Rng::new(11).tokens(39, 320);
            let one = there.open().unwrap();
            there.prefill(one, &tokens).unwrap();
            let saved = snapshot(&there, one);
            let two = here.restore(&saved).unwrap();
            assert_eq!(snapshot(&here, two), saved);
            let expected = here.decode_step(two, 5).unwrap().to_vec();
            assert_eq!(there.decode_step(one, 5).unwrap(), expected, "{name}");
            // Back again, as a delta of the two tokens that were added.
            here.decode_step(two, 6).unwrap();
            let base = SnapshotOptions { base: 32, ..SnapshotOptions::default() };
            let mut delta = Vec::new();
            here.write_snapshot(two, &base, |bytes| {
                delta.extend_from_slice(bytes);
                Ok::<(), ()>(())
            })
            .unwrap();
            let (three, _) = there.restore_with(Some(one), &delta).unwrap();
            assert_eq!(there.decode_step(three, 7).unwrap(), here.decode_step(two, 7).unwrap());
            assert_eq!(snapshot(&there, three), snapshot(&here, two));
            // A damaged snapshot changes nothing.
            let mut damaged = saved.clone();
            *damaged.last_mut().unwrap() ^= 1;
            let used = there.stats();
            assert!(there.restore(&damaged).is_err());
            assert_eq!(there.stats(), used);
        }
    }
}

/// All architectures have the bits of the CPU on a device.
#[test]
fn all_architectures() {
    for (name, synthetic) in SyntheticModel::all() {
        let file = synthetic.bytes();
        let model = Model::open(&file).unwrap();
        let limits = Limits { prefix_cache: false, kv_blocks: 0, ..limits() };
        println!("{name}");
        same(&model, &limits, &DEVICES[..1], &|engine| {
            let (seq, mut log) = (engine.open().unwrap(), Log::new());
            let tokens = Rng::new(2).tokens(40, 320);
            engine.prefill_rows(seq, &tokens, |at, logits| log.push((seq, at, hash(logits)))).unwrap();
            log
        });
    }
}
