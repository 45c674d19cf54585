//! A tiny engine on two threads. All calls of the cache work, and the bits are those of one thread.

use gleed::host::ThreadPool;
use gleed::par::{Parallel, Serial};
use gleed::{Engine, EngineError, KvKind, KvType, Limits, Logits, Model, Plan, Step, Window};
use gleed_miri::Memory;

/// Plays forks, rewinds, snapshots, budgets and prefixes. Returns the bits of all logits.
fn play(limits: Limits, parallel: &dyn Parallel) -> Vec<u32> {
    let model = Model::open(gleed_miri::model()).unwrap();
    let plan = Plan::new(&model, &limits).unwrap();
    let mut memory = Memory::new(plan.bytes());
    let mut engine = Engine::new(&model, &plan, memory.bytes()).unwrap();
    engine.set_parallel(parallel);
    let mut bits = Vec::new();
    story(&mut engine, &mut bits).unwrap();
    assert_eq!(engine.cache().check(), Ok(()));
    bits
}

/// The story has few tokens, because Miri takes a second for each.
fn story(engine: &mut Engine<'_, '_>, bits: &mut Vec<u32>) -> Result<(), EngineError> {
    let seq = engine.open()?;
    let mut keep = |logits: &[f32]| bits.extend(logits.iter().map(|x| x.to_bits()));
    keep(engine.prefill(seq, &[5, 7])?);
    // The fork shares a block, and copies it before it writes.
    let fork = engine.fork(seq, 1)?;
    engine.queue(fork, 1, &[3], Logits::Last)?;
    loop {
        match engine.step(5)? {
            Step::Idle => break,
            Step::Ready => engine.results().for_each(|(_, _, logits)| keep(logits)),
            Step::Yielded | Step::Cancelled => {}
        }
    }
    engine.rewind(seq, 1)?;
    let mut snapshot = vec![0; engine.snapshot_len(fork)?];
    engine.snapshot(fork, &mut snapshot)?;
    engine.close(fork)?;
    let restored = engine.restore(&snapshot)?;
    keep(engine.decode_step(restored, 4)?);
    snapshot[100] ^= 1;
    assert!(engine.restore(&snapshot).is_err());
    engine.close(restored)
}

fn limits(kv_kind: KvKind) -> Limits {
    let kv_type = KvType::F32;
    Limits { sequences: 2, context: 16, rows: 2, logit_rows: 2, kv_kind, kv_type, workers: 2, ..Limits::default() }
}

/// Any number of threads and any kind of cache gives the same bits.
#[test]
fn two_threads() {
    let pool = ThreadPool::with_spin(2, std::time::Duration::ZERO).unwrap();
    assert_eq!(play(limits(KvKind::Paged), &pool), play(limits(KvKind::Basic), &Serial));
}

#[test]
fn windows() {
    let window = Window { sinks: 1, last: 3 };
    let limits = Limits { window, prefix_cache: false, ..limits(KvKind::Paged) };
    assert!(!play(limits, &Serial).is_empty());
}
