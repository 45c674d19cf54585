//! Budgets and failures.

use gleed::cache::CacheError;
use gleed::engine::PlanError;
use gleed::{Budget, Engine, EngineError, KvKind, Limits, Logits, Model, Plan, Progress, Step};

use crate::scalar::ScalarDevice;
use crate::{DEVICES, Log, hash, limits, models, run, same, snapshot};
use common::Memory;
use common::random::Rng;
use common::synthetic::SyntheticModel;

/// A step submits at most once. A budget that is too small for a step of the program adds up over calls.
#[test]
fn a_step_submits_once() {
    let file = SyntheticModel::llama().bytes();
    let model = Model::open(&file).unwrap();
    let plan = Plan::for_device(&model, &limits()).unwrap();
    let per_token = plan.units_per_token();
    let calls = |units: usize| {
        let mut device = ScalarDevice::new(&model, &plan).unwrap();
        let mut memory = Memory::new(plan.bytes());
        let mut engine = Engine::with_device(&model, &plan, memory.bytes(), &mut device).unwrap();
        let seq = engine.open().unwrap();
        engine.queue(seq, 0, &[1], Logits::Last).unwrap();
        let (mut calls, mut last) = (1, 0);
        while engine.step(units).unwrap() == Step::Yielded {
            let Progress { committed, queued, units_done, units_left } = engine.progress(seq).unwrap();
            assert_eq!((committed, queued), (0, 1));
            assert!(units_done >= last && units_done <= calls * units && units_done + units_left <= per_token);
            (calls, last) = (calls + 1, units_done);
        }
        assert_eq!(engine.seq_len(seq), Ok(1));
        drop(engine);
        assert!(device.submits <= calls);
        (calls, device.submits)
    };
    assert_eq!(calls(usize::MAX), (1, 1));
    let (one, submits) = calls(1);
    println!("{one} calls, {submits} submits, {per_token} units");
    assert!(one >= per_token - 10 && one <= per_token + submits + 1, "{one} calls, {per_token} units");
    assert!(calls(per_token / 4).0 <= 8);
}

#[test]
fn a_cancelled_step_goes_on_later() {
    use std::sync::atomic::{AtomicBool, Ordering};
    let file = SyntheticModel::llama().bytes();
    let model = Model::open(&file).unwrap();
    let plan = Plan::for_device(&model, &limits()).unwrap();
    let mut device = ScalarDevice::new(&model, &plan).unwrap();
    (device.laziness, device.most) = (3, 10);
    let mut memory = Memory::new(plan.bytes());
    let mut engine = Engine::with_device(&model, &plan, memory.bytes(), &mut device).unwrap();
    let seq = engine.open().unwrap();
    engine.queue(seq, 0, &[1, 2, 3], Logits::Last).unwrap();
    let cancel = AtomicBool::new(false);
    let budget = Budget { cancel: Some(&cancel), ..Budget::default() };
    assert_eq!(engine.step(budget), Ok(Step::Yielded));
    cancel.store(true, Ordering::Relaxed);
    for _ in 0..10 {
        assert_eq!(engine.step(budget), Ok(Step::Cancelled));
    }
    cancel.store(false, Ordering::Relaxed);
    let mut log = Log::new();
    run(&mut engine, usize::MAX, &mut log);
    assert_eq!(log.len(), 1);
}

/// A token's embedding is not finite. As on the CPU, the sequences of the batch lose their queued tokens.
#[test]
fn a_value_that_is_not_finite() {
    for synthetic in
        [SyntheticModel::llama(), SyntheticModel { weights: gleed::tensor::Dtype::Q8_0, ..SyntheticModel::llama() }]
    {
        let mut writer = synthetic.writer();
        let row = writer.tensors.iter().find(|tensor| tensor.name == "token_embd.weight").unwrap().data.len() / 320;
        writer.tensor_mut("token_embd.weight").data[8 * row..9 * row].fill(0xff);
        let file = writer.finish();
        let model = Model::open(&file).unwrap();
        same(&model, &limits(), &DEVICES, &|engine| {
            let [good, bad] = [engine.open().unwrap(), engine.open().unwrap()];
            engine.prefill(good, &[1, 2, 3]).unwrap();
            engine.queue(good, 3, &[4], Logits::Last).unwrap();
            engine.queue(bad, 0, &[8], Logits::Last).unwrap();
            let error = loop {
                match engine.step(usize::MAX) {
                    Ok(step) => assert_eq!(step, Step::Yielded),
                    Err(error) => break error,
                }
            };
            let EngineError::NonFinite { layer } = error else { panic!("{error}") };
            assert_eq!((engine.seq_len(good), engine.seq_len(bad), engine.is_busy()), (Ok(3), Ok(0), false));
            let logits = hash(engine.prefill(good, &[4]).unwrap());
            vec![(good, layer, logits)]
        });
    }
}

/// After a device is lost, another engine can continue the sequence.
#[test]
fn a_lost_device() {
    let file = models().remove(2).1.bytes();
    let model = Model::open(&file).unwrap();
    let tokens = Rng::new(4).tokens(50, 320);
    let plan = Plan::new(&model, &limits()).unwrap();
    let mut memory = Memory::new(plan.bytes());
    let mut here = Engine::new(&model, &plan, memory.bytes()).unwrap();
    let all = here.open().unwrap();
    let expected = hash(here.prefill(all, &tokens).unwrap());
    let (next, saved) = (hash(here.decode_step(all, 9).unwrap()), snapshot(&here, all));
    for life in 0..10 {
        let plan = Plan::for_device(&model, &limits()).unwrap();
        let mut device = ScalarDevice::new(&model, &plan).unwrap();
        device.life = life;
        let mut memory = Memory::new(plan.bytes());
        let mut there = Engine::with_device(&model, &plan, memory.bytes(), &mut device).unwrap();
        let seq = there.open().unwrap();
        there.queue(seq, 0, &tokens, Logits::Last).unwrap();
        let failed = loop {
            match there.step(usize::MAX) {
                Ok(Step::Ready) if there.seq_len(seq) == Ok(50) => break false,
                Ok(_) => {}
                Err(error) => {
                    assert_eq!(error, EngineError::DeviceLost);
                    break true;
                }
            }
        };
        // A batch has nine rows and is one submit.
        assert_eq!((failed, there.seq_len(seq)), (life < 6, Ok((9 * life).min(50))));
        if failed {
            assert_eq!(there.decode_step(seq, 1).map(drop), Err(EngineError::DeviceLost));
            let mut out = vec![0; there.snapshot_len(seq).unwrap()];
            let lost = if life > 0 { Err(EngineError::DeviceLost) } else { there.snapshot(seq, &mut []) };
            assert_eq!(there.snapshot(seq, &mut out).map(drop).is_err(), life > 0 && lost.is_err());
            assert_eq!(there.seq_len(seq), Ok(9 * life));
        }
        let copy = here.replay(&there, seq).unwrap();
        let known = there.seq_len(seq).unwrap();
        let mut log = Log::new();
        run(&mut here, 500, &mut log);
        assert_eq!(here.seq_len(copy), Ok(known));
        if let Some(rest) = tokens.get(known..).filter(|rest| !rest.is_empty()) {
            log = vec![(copy, 49, hash(here.prefill(copy, rest).unwrap()))];
        }
        assert_eq!(log.last().unwrap().2, expected);
        assert_eq!(hash(here.decode_step(copy, 9).unwrap()), next);
        assert_eq!(snapshot(&here, copy), saved);
        here.close(copy).unwrap();
    }
}

#[test]
fn what_is_refused() {
    let file = SyntheticModel::llama().bytes();
    let model = Model::open(&file).unwrap();
    let refused = |limits| Plan::for_device(&model, &limits).map(drop);
    let what = |what| Err(PlanError::Device { what });
    assert_eq!(refused(Limits { kv_kind: KvKind::Basic, ..limits() }), what("a cache of another kind than paged"));
    assert_eq!(refused(Limits { kv_kind: KvKind::Off, ..limits() }), what("a cache of another kind than paged"));
    assert_eq!(refused(Limits { adapters: 1, ..limits() }), what("adapters"));
    let mut scaled = SyntheticModel::llama().writer();
    scaled.add_tensor("blk.1.ffn_down.scale", &[1], 0, 2_f32.to_le_bytes().to_vec());
    let scaled = scaled.finish();
    let scaled = Model::open(&scaled).unwrap();
    let plan = Plan::for_device(&scaled, &limits()).unwrap();
    let refused_by_device = ScalarDevice::new(&scaled, &plan).map(drop);
    assert_eq!(refused_by_device, Err("matrices that have a scale beside them"));

    let [with, without] = [Plan::for_device(&model, &limits()).unwrap(), Plan::new(&model, &limits()).unwrap()];
    // The plan of the device has no keys and values and no buffers of a batch.
    let pool = without.kv_block_bytes() * 20;
    assert!(with.bytes() + pool < without.bytes(), "{with}\n{without}");
    let mut memory = Memory::new(without.bytes());
    assert_eq!(Engine::new(&model, &with, memory.bytes()).map(drop), Err(EngineError::DevicePlan));
    let mut device = ScalarDevice::new(&model, &with).unwrap();
    let refused = Engine::with_device(&model, &without, memory.bytes(), &mut device).map(drop);
    assert_eq!(refused, Err(EngineError::DevicePlan));

    let mut engine = Engine::with_device(&model, &with, memory.bytes(), &mut device).unwrap();
    let seq = engine.open().unwrap();
    let hidden = EngineError::OnDevice { what: "hidden states" };
    assert_eq!(engine.queue(seq, 0, &[1], Logits::LastHidden), Err(hidden));
    engine.prefill(seq, &[1, 2]).unwrap();
    let cache = engine.cache_mut().unwrap();
    let row = [0.0; 32];
    assert_eq!(cache.push_row(seq, 0, &row, &row), Err(CacheError::OnDevice));
    assert_eq!(cache.materialize(seq, 0, &mut [0.0; 64], &mut [0.0; 64]), Err(CacheError::OnDevice));
    assert_eq!(cache.copy_unit(seq), Err(CacheError::OnDevice));
    engine.decode_step(seq, 3).unwrap();
}
