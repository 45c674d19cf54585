//! Random calls of the engine, valid and invalid ones.

use gleed::{Engine, KvKind, Limits, Logits, Model, Plan, SeqId, Step};
use proptest::prelude::*;

use crate::tiny;
use common::Memory;
use common::playback::hash;
use common::random::Rng;

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_calls_of_the_engine(
        seed: u64,
        kind in 0..3_usize,
        rows in 1..9_usize,
        kv_blocks in prop_oneof![Just(0), 2..7_usize],
    ) {
        let file = tiny().bytes();
        let model = Model::open(&file).unwrap();
        let limits = Limits {
            sequences: 3,
            context: 40,
            rows,
            logit_rows: 1 + seed as usize % rows,
            kv_kind: KvKind::ALL[kind],
            kv_blocks,
            ..Limits::default()
        };
        let plan = Plan::new(&model, &limits).unwrap();
        let mut memory = Memory::new(plan.bytes());
        let mut engine = Engine::new(&model, &plan, memory.bytes()).unwrap();
        let mut rng = Rng::new(seed);
        let mut open: Vec<Tracked> = Vec::new();
        for _ in 0..50 {
            random_call(&mut engine, &mut rng, &mut open);
            check_invariants(&engine, &mut open);
        }
        while !matches!(engine.step(1 + rng.below(50)), Ok(Step::Idle)) {}
        for tracked in &open {
            assert_eq!(engine.seq_len(tracked.seq), Ok(tracked.end));
            engine.close(tracked.seq).unwrap();
        }
        let blocks = engine.cache().allocator(0).unwrap();
        assert_eq!(blocks.free_blocks(), blocks.len());
        let seq = engine.open().unwrap();
        let first = hash(engine.prefill(seq, &[1, 2, 3]).unwrap());
        let mut memory = Memory::new(plan.bytes());
        let mut untouched = Engine::new(&model, &plan, memory.bytes()).unwrap();
        let seq = untouched.open().unwrap();
        prop_assert_eq!(hash(untouched.prefill(seq, &[1, 2, 3]).unwrap()), first);
    }
}

/// A sequence with `len` finished tokens, and queued ones up to `end`, of which a step may finish only a part.
#[derive(Clone)]
struct Tracked {
    seq: SeqId,
    len: usize,
    end: usize,
}

fn random_call(engine: &mut Engine<'_, '_>, rng: &mut Rng, open: &mut Vec<Tracked>) {
    let index = rng.below(4);
    // Sometimes the handle belongs to no sequence.
    let seq = open.get(index).map_or(SeqId::from_bits(rng.u64() as u32), |tracked| tracked.seq);
    let length = open.get(index).map_or(44, |tracked| tracked.len + rng.below(2));
    let (keep, len) = (rng.below(length + 1), rng.below(20));
    let vocab = if rng.below(8) == 0 { 12 } else { 9 };
    let tokens = rng.tokens(len, vocab);
    let mut tracked = open.get_mut(index);
    match rng.below(11) {
        0 => {
            if let Ok(seq) = engine.open() {
                open.push(Tracked { seq, len: 0, end: 0 });
            }
        }
        1 => {
            if engine.close(seq).is_ok() {
                open.remove(index);
            }
        }
        2 => {
            if let Ok(seq) = engine.fork(seq, keep) {
                open.push(Tracked { seq, len: keep, end: keep });
            }
        }
        3 => {
            if engine.rewind(seq, keep).is_ok() {
                let tracked = tracked.as_mut().unwrap();
                (tracked.len, tracked.end) = (keep, keep);
            }
        }
        4 | 5 => {
            let position = tracked.as_ref().map_or(keep, |tracked| tracked.len + usize::from(keep == 3));
            let logits = if rng.below(2) == 0 { Logits::All } else { Logits::Last };
            if engine.queue(seq, position, &tokens, logits).is_ok() {
                let tracked = tracked.as_mut().unwrap();
                assert!(tracked.len == tracked.end && position == tracked.len);
                tracked.end += tokens.len();
            }
        }
        6 => {
            if engine.prefill(seq, &tokens).is_ok() {
                let tracked = tracked.as_mut().unwrap();
                tracked.end += tokens.len();
                tracked.len = tracked.end;
            }
        }
        7 => {
            if engine.cancel(seq).is_ok() {
                let tracked = tracked.as_mut().unwrap();
                let length = engine.seq_len(seq).unwrap();
                assert!((tracked.len..=tracked.end).contains(&length));
                (tracked.len, tracked.end) = (length, length);
            }
        }
        _ => drop(engine.step(rng.below(30)).unwrap()),
    }
}

fn check_invariants(engine: &Engine<'_, '_>, open: &mut [Tracked]) {
    for tracked in open.iter_mut() {
        let length = engine.seq_len(tracked.seq).unwrap();
        assert!((tracked.len..=tracked.end).contains(&length));
        tracked.len = length;
    }
    assert_eq!(engine.is_busy(), open.iter().any(|tracked| tracked.len < tracked.end));
    let blocks = engine.cache().allocator(0).unwrap();
    let used = (0..blocks.len() as u32).filter(|&block| blocks.meta(block).unwrap().ref_count() > 0).count();
    assert_eq!(blocks.free_blocks() + used, blocks.len());
}
