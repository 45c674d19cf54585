//! Tokens that are chosen one after the other, by the host or by a device that can choose.

use gleed::engine::DecodeError;
use gleed::num::Xxh64;
use gleed::sample::{SampleError, Sampler, SamplerParams, argmax};
use gleed::{Engine, EngineError, Limits, Model, Plan, SeqId, Window};

use crate::scalar::ScalarDevice;
use crate::{DEVICES, Log, hash, limits, models, same, snapshot};
use common::Memory;
use common::random::Rng;
use common::synthetic::SyntheticModel;

/// A device that leaves the choice to the host, and two that choose, the second one with few steps at a time.
const CHOOSERS: [fn(&mut ScalarDevice<'_>); 3] =
    [|_| {}, |device| device.chooses = true, |device| (device.chooses, device.most) = (true, 3)];

/// Returns the chosen tokens and the logits after them. With `together`, one call chooses all tokens.
fn decode(engine: &mut Engine<'_, '_>, seq: SeqId, token: u32, count: usize, together: bool) -> Vec<u32> {
    let mut ids = vec![7; count];
    if together {
        engine.decode_greedy(seq, token, &mut ids).unwrap();
        assert_eq!(engine.results().count(), 0);
        return ids;
    }
    let mut next = token;
    for id in &mut ids {
        next = argmax(engine.decode_step(seq, next).unwrap()).unwrap();
        *id = next;
    }
    ids
}

/// Plays forks in the middle of a block, more tokens than a batch has rows, and full blocks that become prefixes.
fn play(engine: &mut Engine<'_, '_>, together: bool) -> Log {
    let (mut log, vocab) = (Log::new(), engine.model().config().vocab);
    let first = engine.open().unwrap();
    engine.prefill(first, &Rng::new(7).tokens(21, vocab)).unwrap();
    let fork = engine.fork(first, 21).unwrap();
    for (seq, counts) in [(first, [1, 23, 9]), (fork, [2, 1, 5])] {
        let mut next = 5;
        for count in counts {
            let ids = decode(engine, seq, next, count, together);
            next = ids[count - 1];
            log.push((seq, engine.seq_len(seq).unwrap(), Xxh64::hash(bytemuck::cast_slice(&ids))));
        }
        log.push((seq, 0, hash(engine.decode_step(seq, next).unwrap())));
        // A window evicts blocks that a snapshot needs.
        if (0..engine.seq_len(seq).unwrap()).all(|at| engine.cache().token(seq, at).is_some()) {
            log.push((seq, 1, Xxh64::hash(&snapshot(engine, seq))));
        }
    }
    // Decoded tokens are a prefix that other sequences find.
    let tokens: Vec<_> = (0..32).filter_map(|at| engine.cache().token(first, at)).collect();
    let again = engine.open().unwrap();
    let logits = if tokens.len() == 32 { hash(engine.prefill_prompt(again, &tokens).unwrap()) } else { 0 };
    log.push((again, engine.stats().prefix.hits as usize, logits));
    log
}

#[test]
fn together_is_the_same_as_one_by_one() {
    for (name, synthetic) in models() {
        let file = synthetic.bytes();
        let model = Model::open(&file).unwrap();
        for limits in
            [limits(), Limits { window: Window { sinks: 3, last: 24 }, prefix_cache: false, kv_blocks: 0, ..limits() }]
        {
            let alone = same(&model, &limits, &DEVICES[..1], &|engine| play(engine, false));
            let together = same(&model, &limits, &CHOOSERS, &|engine| play(engine, true));
            assert_eq!(alone, together, "{name}");
        }
    }
}

/// Plays checkpoints that are due, one that is wanted, and a rewind after which states are computed again.
fn play_checkpoints(engine: &mut Engine<'_, '_>, together: bool) -> Log {
    let (mut log, vocab) = (Log::new(), engine.model().config().vocab);
    let seq = engine.open().unwrap();
    engine.prefill(seq, &Rng::new(7).tokens(11, vocab)).unwrap();
    engine.checkpoint_at(seq, 27).unwrap();
    for (count, keep) in [(40, 45), (12, 30), (20, 19), (3, 19)] {
        let ids = decode(engine, seq, 5, count, together);
        log.push((seq, engine.seq_len(seq).unwrap(), Xxh64::hash(bytemuck::cast_slice(&ids))));
        for position in 0..=engine.seq_len(seq).unwrap() {
            log.push((seq, engine.computed_at(seq, position).unwrap(), position as u64));
        }
        engine.rewind(seq, keep).unwrap();
    }
    log
}

#[test]
fn checkpoints_are_those_of_the_host() {
    for (name, synthetic) in models() {
        let file = synthetic.bytes();
        let model = Model::open(&file).unwrap();
        let limits = Limits { checkpoints: 6, checkpoint_every: 16, ..limits() };
        let alone = same(&model, &limits, &DEVICES[..1], &|engine| play_checkpoints(engine, false));
        let together = same(&model, &limits, &CHOOSERS, &|engine| play_checkpoints(engine, true));
        assert_eq!(alone, together, "{name}");
    }
}

/// Draws tokens with a sampler, all in one call or one by one. The log includes the sampler's state.
fn draw(engine: &mut Engine<'_, '_>, params: SamplerParams, together: bool) -> Log {
    let vocab = engine.model().config().vocab;
    let (mut sampler, mut scratch) = (Sampler::new(params).unwrap(), vec![0; vocab]);
    let seq = engine.open().unwrap();
    engine.prefill(seq, &Rng::new(7).tokens(21, vocab)).unwrap();
    let (mut next, mut log) = (5, Vec::new());
    for count in [1, 23, 9] {
        let mut ids = vec![0; count];
        if together {
            engine.decode_sampled(seq, next, (&mut sampler, &mut scratch), &mut ids).unwrap();
        } else {
            let mut last = next;
            for id in &mut ids {
                last = sampler.sample(engine.decode_step(seq, last).unwrap(), &mut scratch).unwrap().token;
                sampler.accept(last);
                *id = last;
            }
        }
        next = ids[count - 1];
        log.push((seq, count, Xxh64::hash(bytemuck::cast_slice(&ids))));
        log.push((seq, 0, sampler.state()));
    }
    log.push((seq, 0, hash(engine.decode_step(seq, next).unwrap())));
    log
}

#[test]
fn draws_together_are_those_of_the_sampler() {
    let off = SamplerParams { temperature: 1.2, seed: 9, ..SamplerParams::default() };
    let file = SyntheticModel::llama().bytes();
    let model = Model::open(&file).unwrap();
    for params in [
        off,
        SamplerParams { top_k: 30, top_p: 0.9, min_p: 0.01, ..off },
        SamplerParams { temperature: 0.0, ..off },
        // A device leaves these parameters to the sampler.
        SamplerParams { repetition_penalty: 1.3, ..off },
        SamplerParams { temperature: 0.0, frequency_penalty: 0.5, ..off },
    ] {
        let alone = same(&model, &limits(), &DEVICES[..1], &|engine| draw(engine, params, false));
        let together = same(&model, &limits(), &CHOOSERS, &|engine| draw(engine, params, true));
        assert_eq!(alone, together, "{params:?}");
    }
}

/// If a sampler cannot choose, it does not change, and neither does the sequence.
#[test]
fn samplers_that_fail_change_nothing() {
    let file = SyntheticModel::llama().bytes();
    let model = Model::open(&file).unwrap();
    same(&model, &limits(), &CHOOSERS, &|engine| {
        let vocab = engine.model().config().vocab;
        let mut sampler = Sampler::new(SamplerParams { temperature: 1.0, ..SamplerParams::default() }).unwrap();
        let (seq, mut ids) = (engine.open().unwrap(), [0; 9]);
        let mut scratch = vec![0; vocab];
        let short = engine.decode_sampled(seq, 5, (&mut sampler, &mut scratch[1..]), &mut ids);
        let (needed, given) = (vocab, vocab - 1);
        assert_eq!(short, Err(DecodeError::Sample(SampleError::ScratchTooSmall { needed, given })));
        // The bias applies only after the third drawn token, and its own token is unknown.
        let mut copy = sampler.clone();
        engine.decode_sampled(seq, 5, (&mut copy, &mut scratch), &mut ids).unwrap();
        engine.reset(seq).unwrap();
        sampler.add_bias(&[ids[2], vocab as u32], 1.0).unwrap();
        let unknown = engine.decode_sampled(seq, 5, (&mut sampler, &mut scratch), &mut ids);
        assert!(matches!(unknown, Err(DecodeError::Sample(SampleError::UnknownToken { .. }))), "{unknown:?}");
        assert_eq!((engine.seq_len(seq), sampler.state()), (Ok(0), 0));
        vec![(seq, 0, 0)]
    });
}

/// A call that fails changes nothing.
#[test]
fn failures_change_nothing() {
    let synthetic = SyntheticModel::llama();
    let file = synthetic.bytes();
    let model = Model::open(&file).unwrap();
    let plan = Plan::for_device(&model, &limits()).unwrap();
    let mut device = ScalarDevice::new(&model, &plan).unwrap();
    device.chooses = true;
    device.life = 8;
    let mut memory = Memory::new(plan.bytes());
    let mut engine = Engine::with_device(&model, &plan, memory.bytes(), &mut device).unwrap();
    let seq = engine.open().unwrap();
    engine.prefill(seq, &[1, 2, 3]).unwrap();
    let mut ids = [0; 9];
    assert_eq!(engine.decode_greedy(seq, 5, &mut []), Err(EngineError::Empty));
    assert!(matches!(engine.decode_greedy(seq, 320, &mut ids), Err(EngineError::Token { token: 320, .. })));
    let mut many = [0; 94];
    assert!(matches!(engine.decode_greedy(seq, 5, &mut many), Err(EngineError::Cache(_))));
    let used = engine.stats();
    assert_eq!(engine.decode_greedy(seq, 5, &mut ids), Err(EngineError::DeviceLost));
    assert_eq!((engine.seq_len(seq), engine.stats()), (Ok(3), used));
    engine.cache().check().unwrap();
}
