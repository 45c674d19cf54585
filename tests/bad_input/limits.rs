//! Limits out of range, and limits of every size.

use gleed::engine::PlanError;
use gleed::mem::MemoryError;
use gleed::{Engine, KvKind, KvType, Limits, Model, Plan};
use proptest::prelude::*;

use crate::tiny;
use common::Memory;

#[test]
fn limits_out_of_range() {
    let file = tiny().bytes();
    let model = Model::open(&file).unwrap();
    let base = Limits { sequences: 2, context: 100, rows: 8, logit_rows: 2, ..Limits::default() };
    let refused = |limits| match Plan::new(&model, &limits) {
        Err(PlanError::Limit { name, given, min: 1, max }) => (name, given, max),
        other => panic!("{other:?}"),
    };
    let huge = usize::MAX;
    assert_eq!(refused(Limits { sequences: 0, ..base }), ("sequences", 0, 65_536));
    assert_eq!(refused(Limits { sequences: huge, ..base }), ("sequences", huge, 65_536));
    assert_eq!(refused(Limits { context: huge, ..base }), ("context", huge, i32::MAX as usize));
    assert_eq!(refused(Limits { rows: 0, ..base }), ("rows", 0, 65_536));
    assert_eq!(refused(Limits { rows: 65_537, ..base }), ("rows", 65_537, 65_536));
    assert_eq!(refused(Limits { logit_rows: 0, ..base }), ("logit_rows", 0, 8));
    assert_eq!(refused(Limits { logit_rows: 9, ..base }), ("logit_rows", 9, 8));
    assert_eq!(refused(Limits { kv_blocks: 15, ..base }), ("kv_blocks", 15, 14));
    assert_eq!(refused(Limits { workers: 0, ..base }), ("workers", 0, 1024));
    assert_eq!(refused(Limits { workers: 1025, ..base }), ("workers", 1025, 1024));
    let text = Plan::new(&model, &Limits { workers: 0, ..base }).unwrap_err().to_string();
    assert_eq!(text, "limit workers is 0, it must be 1 to 1024");
    // 0 means a default.
    let plan = Plan::new(&model, &Limits { context: 0, kv_blocks: 0, ..base }).unwrap();
    assert_eq!((plan.limits().context, plan.limits().kv_blocks), (1024, 128));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn extreme_limits(
        sizes in prop::collection::vec(
            prop_oneof![0..5_usize, 30..70_usize, Just(1 << 16), Just(1 << 20), Just(1 << 31), Just(usize::MAX), Just(usize::MAX / 2), any::<usize>()],
            6..7,
        ),
        kind in 0..3_usize,
        element in 0..KvType::ALL.len(),
    ) {
        let file = tiny().bytes();
        let model = Model::open(&file).unwrap();
        let limits = Limits {
            sequences: sizes[0],
            context: sizes[1],
            rows: sizes[2],
            logit_rows: sizes[3],
            kv_blocks: sizes[4],
            workers: sizes[5],
            kv_kind: KvKind::ALL[kind],
            kv_type: KvType::ALL[element],
            ..Limits::default()
        };
        match Plan::new(&model, &limits) {
            Ok(plan) if plan.bytes() < 1 << 24 => {
                let mut memory = Memory::new(plan.bytes());
                let mut engine = Engine::new(&model, &plan, memory.bytes()).unwrap();
                let seq = engine.open().unwrap();
                engine.decode_step(seq, 1).unwrap();
            }
            Ok(_) | Err(PlanError::Memory(MemoryError::TooLarge)) => {}
            Err(PlanError::Limit { given, min, max, .. }) => prop_assert!(given < min || given > max),
            Err(other) => panic!("{other:?}"),
        }
    }
}
