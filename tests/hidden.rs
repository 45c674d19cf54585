//! Hidden states, embeddings and log-probabilities.

use common::fixtures::Parity;
use common::random::Rng;
use common::synthetic::SyntheticModel;
use common::{Memory, rel_l2};
use gleed::sample::log_prob;
use gleed::{Engine, EngineError, KvType, Limits, Logits, Model, Plan, Pooling, SeqId, Step};

/// Makes an engine and calls `play` with it.
fn with_engine<R>(file: &[u8], rows: usize, play: impl FnOnce(&mut Engine<'_, '_>) -> R) -> R {
    with_context(file, 120, rows, play)
}

fn with_context<R>(file: &[u8], context: usize, rows: usize, play: impl FnOnce(&mut Engine<'_, '_>) -> R) -> R {
    let model = Model::open(file).unwrap();
    let limits =
        Limits { sequences: 3, context, rows, logit_rows: rows.min(2), kv_type: KvType::F32, ..Limits::default() };
    let plan = Plan::new(&model, &limits).unwrap();
    let mut memory = Memory::new(plan.bytes());
    play(&mut Engine::new(&model, &plan, memory.bytes()).unwrap())
}

/// Runs the queued tokens. Returns the hidden states, and the logits of rows that wanted logits.
#[allow(clippy::type_complexity)]
fn run(engine: &mut Engine<'_, '_>) -> (Vec<(SeqId, usize, Vec<f32>)>, Vec<(SeqId, usize, Vec<f32>)>) {
    let (mut hidden, mut logits) = (Vec::new(), Vec::new());
    loop {
        match engine.step(50).unwrap() {
            Step::Idle => break,
            Step::Ready => {
                logits.extend(engine.results().map(|(seq, position, row)| (seq, position, row.to_vec())));
                engine.hidden(|seq, position, row| hidden.push((seq, position, row.to_vec())));
            }
            _ => engine.hidden(|_, _, _| panic!("a batch is in progress")),
        }
    }
    (hidden, logits)
}

#[test]
fn hidden_states_are_those_of_the_reference() {
    for name in Parity::ALL.into_iter().chain(Parity::MORE) {
        let Some(parity) = Parity::load(name) else { continue };
        with_context(&parity.gguf, parity.sequence().len(), 20, |engine| {
            let seq = engine.open().unwrap();
            let mut hidden = Vec::new();
            // A window allows no more tokens at a time.
            for (index, tokens) in parity.sequence().chunks(20).enumerate() {
                engine.queue(seq, 20 * index, tokens, Logits::Hidden).unwrap();
                let (rows, logits) = run(engine);
                assert!(logits.is_empty());
                hidden.extend(rows);
            }
            assert_eq!(hidden.len(), parity.sequence().len());
            let (_, position, row) = &hidden[parity.hidden_position];
            assert_eq!(*position, parity.hidden_position);
            let expected = parity.hidden.row(parity.hidden.len() - 1);
            let error = rel_l2(row, expected);
            assert!(error <= 1e-5, "{name}: {error:e}");
        });
    }
}

/// Hidden states have the same bits in one batch with rows that have logits, and in any chunks.
#[test]
fn batches_do_not_matter() {
    let model = SyntheticModel::qwen3();
    let file = model.bytes();
    let [a, b] = [1, 2].map(|seed| Rng::new(seed).tokens(50, model.vocab));
    let alone = with_engine(&file, 64, |engine| {
        let seq = engine.open().unwrap();
        engine.queue(seq, 0, &a, Logits::Hidden).unwrap();
        run(engine).0
    });
    let logits_alone = with_engine(&file, 64, |engine| {
        let seq = engine.open().unwrap();
        engine.prefill(seq, &b).unwrap().to_vec()
    });
    for rows in [1, 3, 64] {
        with_engine(&file, rows, |engine| {
            let [x, y, z] = [0; 3].map(|_| engine.open().unwrap());
            engine.queue(x, 0, &a, Logits::Hidden).unwrap();
            engine.queue(y, 0, &b, Logits::Last).unwrap();
            engine.queue(z, 0, &a, Logits::LastHidden).unwrap();
            let (hidden, logits) = run(engine);
            let of = |seq: SeqId| hidden.iter().filter(move |(owner, ..)| *owner == seq).map(|(_, p, row)| (*p, row));
            assert!(of(x).eq(alone.iter().map(|(_, p, row)| (*p, row))), "{rows}");
            assert!(of(z).eq(alone.iter().skip(49).map(|(_, p, row)| (*p, row))), "{rows}");
            assert_eq!(of(y).count(), 0);
            let last = logits.iter().map(|(seq, p, row)| (*seq, *p, row)).collect::<Vec<_>>();
            assert_eq!(last, [(y, 49, &logits_alone)]);
        });
    }
}

#[test]
fn embeddings_are_pooled_hidden_states() {
    let model = SyntheticModel::llama();
    let file = model.bytes();
    let tokens = Rng::new(5).tokens(45, model.vocab);
    let embed = |rows: usize, pooling: Pooling| {
        with_engine(&file, rows, |engine| {
            let seq = engine.open().unwrap();
            let mut out = vec![f32::NAN; model.hidden];
            engine.embed(seq, &tokens, pooling, &mut out).unwrap();
            assert_eq!(engine.seq_len(seq), Ok(45));
            out
        })
    };
    let states = with_engine(&file, 64, |engine| {
        let seq = engine.open().unwrap();
        engine.queue(seq, 0, &tokens, Logits::Hidden).unwrap();
        run(engine).0
    });
    let sum = |i: usize| states.iter().fold(0.0, |sum: f32, (_, _, row)| sum + row[i]);
    let mean: Vec<f32> = (0..model.hidden).map(|i| sum(i) / 45.0).collect();
    for rows in [1, 7, 64] {
        assert_eq!(embed(rows, Pooling::Mean), mean);
        assert_eq!(embed(rows, Pooling::Last), states[44].2);
    }
}

#[test]
fn log_probs_are_those_of_the_logits() {
    let model = SyntheticModel::llama();
    let file = model.bytes();
    let tokens = Rng::new(6).tokens(30, model.vocab);
    with_engine(&file, 7, |engine| {
        let (one, two) = (engine.open().unwrap(), engine.open().unwrap());
        let mut expected = Vec::new();
        let next = |position: usize| tokens.get(position + 1);
        engine
            .prefill_rows(one, &tokens, |position, logits| {
                expected.extend(next(position).map(|&token| log_prob(logits, token).unwrap()));
            })
            .unwrap();
        let mut found = vec![0.0; 29];
        engine.log_probs(two, &tokens, &mut found).unwrap();
        assert_eq!(found, expected);
        // The tokens in two parts, as a continuation is scored.
        let three = engine.open().unwrap();
        engine.prefill(three, &tokens[..20]).unwrap();
        let mut found = vec![0.0; 9];
        engine.log_probs(three, &tokens[20..], &mut found).unwrap();
        assert_eq!(found, expected[20..]);
    });
}

#[test]
fn places_of_another_length_are_refused() {
    let model = SyntheticModel::llama();
    with_engine(&model.bytes(), 8, |engine| {
        let seq = engine.open().unwrap();
        let mut out = vec![0.0; model.hidden + 1];
        let wrong = EngineError::OutputLength { needed: model.hidden, given: model.hidden + 1 };
        assert_eq!(engine.embed(seq, &[1, 2], Pooling::Mean, &mut out), Err(wrong));
        let wrong = EngineError::OutputLength { needed: 1, given: model.hidden + 1 };
        assert_eq!(engine.log_probs(seq, &[1, 2], &mut out), Err(wrong));
        assert_eq!(engine.embed(seq, &[], Pooling::Last, &mut out[1..]), Err(EngineError::Empty));
        assert!(matches!(engine.log_probs(seq, &[1, 999], &mut [0.0]), Err(EngineError::Token { index: 1, .. })));
        assert_eq!((engine.seq_len(seq), engine.is_busy()), (Ok(0), false));
    });
}
