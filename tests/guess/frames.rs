//! The number of guesses, and the time of a host's frame.

use std::sync::atomic::{AtomicU64, Ordering};

use gleed::guess::{Counts, Draft, Guess, Guessing, NGrams, NextN, Off};
use gleed::sample::argmax;
use gleed::{Budget, Deadline, Engine, Limits, SeqId, Step};

use super::sources::Known;
use super::{plain, with_engine};
use common::Memory;
use common::random::Rng;
use common::synthetic::predictor::{self, Own};
use common::synthetic::{Architecture, SyntheticModel};

/// A batch: its number of guesses, and how many of them were right.
type Batch = (usize, usize);

/// Writes a text with guesses. `ticks` returns the time that a batch of this many rows takes. Returns the text, the
/// batches, and why guessing is off, if it is.
fn batches(
    (engine, seq): (&mut Engine<'_, '_>, SeqId),
    source: &mut dyn Guess,
    ticks: impl Fn(usize) -> u64,
    (prompt, count): (&[u32], usize),
) -> (Vec<u32>, Vec<Batch>, Option<Off>) {
    let mut memory = Memory::new(Guessing::plan(15).unwrap());
    let mut guessing = Guessing::new(seq, 15, memory.bytes()).unwrap();
    let mut text = vec![argmax(engine.prefill(seq, prompt).unwrap()).unwrap()];
    let mut batches = Vec::new();
    while text.len() < count {
        let guessed = guessing.queue(engine, source, *text.last().unwrap(), usize::MAX).unwrap().unwrap();
        assert_eq!(engine.step(usize::MAX), Ok(Step::Ready));
        guessing.took(ticks(guessed + 1));
        let before = guessing.counts().accepted;
        while let Some(logits) = guessing.logits(engine) {
            text.push(argmax(logits).unwrap());
            guessing.take(*text.last().unwrap());
        }
        guessing.end(engine).unwrap();
        batches.push((guessed, (guessing.counts().accepted - before) as usize));
    }
    text.truncate(count);
    (text, batches, guessing.off(engine))
}

/// Better guesses are made in larger numbers, and in smaller numbers if rows cost more. Guessing that does not pay is
/// off.
#[test]
fn how_many_are_guessed_follows_what_was_right_and_what_it_took() {
    let file = SyntheticModel::llama().bytes();
    let (prompt, count) = ([5, 6, 7], 400);
    let text = plain(&file, &prompt, count + 20);
    let all = [&prompt[..], &text].concat();
    let limits = Limits { logit_rows: 16, context: 512, ..Limits::default() };
    let mean = |right: usize, row: u64| {
        with_engine(&file, &limits, |engine, seq| {
            let mut source = Known { text: all.clone(), right, vocab: 320, random: Rng::new(1) };
            let took = |rows: usize| 1000 + row * (rows as u64 - 1);
            let (found, batches, off) = batches((engine, seq), &mut source, took, (&prompt, count));
            assert_eq!(found, text[..count], "{right} {row}");
            let late = &batches[batches.len() / 2..];
            let guessed: usize = late.iter().map(|(guessed, _)| guessed).sum();
            // The time for a token is never more than token by token, apart from a few trials.
            let tokens: u64 = batches.iter().map(|(_, right)| 1 + *right as u64).sum();
            let costs: u64 = batches.iter().map(|(guessed, _)| took(guessed + 1)).sum();
            assert!(costs * 100 <= tokens * 1000 * 108, "{right} {row}: {tokens} tokens for {costs}");
            (guessed as f64 / late.len() as f64, off)
        })
    };
    let cheap: Vec<f64> = [100, 90, 70, 30].map(|right| mean(right, 100).0).to_vec();
    assert!(cheap[0] > 13.0 && cheap.is_sorted_by(|more, less| more > less), "{cheap:?}");
    let dear: Vec<f64> = [100, 90, 70].map(|right| mean(right, 400).0).to_vec();
    assert!(dear.iter().zip(&cheap).skip(1).all(|(dear, cheap)| dear < cheap), "{dear:?} {cheap:?}");
    // If no guess is right, or a row costs as much as a batch of one, guessing is off, except for two guesses in a long
    // while.
    for (right, row) in [(0, 100), (100, 1000), (100, 1500)] {
        let (guessed, off) = mean(right, row);
        assert!(guessed < 0.2 && off == Some(Off::DoesNotPay), "{right} {row}: {guessed} {off:?}");
    }
}

/// Writes a text with guesses, in calls whose deadlines are `ticks` later. The clock moves on whenever it is asked, so
/// that a unit takes a tick. Also returns how far behind its deadline a call ended.
fn framed(
    (engine, seq): (&mut Engine<'_, '_>, SeqId),
    source: &mut dyn Guess,
    ticks: u64,
    (prompt, count): (&[u32], usize),
) -> (Vec<u32>, Counts, u64) {
    let (time, longest) = (AtomicU64::new(0), AtomicU64::new(0));
    let clock = || time.fetch_add(1, Ordering::Relaxed) + 1;
    let budget = || {
        let at = time.load(Ordering::Relaxed) + ticks;
        Budget { until: Some(Deadline { clock: &clock, at }), ..Budget::default() }
    };
    let ended = |at: u64| longest.fetch_max(time.load(Ordering::Relaxed).saturating_sub(at), Ordering::Relaxed);
    let mut memory = Memory::new(Guessing::plan(7).unwrap());
    let mut guessing = Guessing::new(seq, 7, memory.bytes()).unwrap();
    let mut text = vec![argmax(engine.prefill(seq, prompt).unwrap()).unwrap()];
    while text.len() < count {
        let token = *text.last().unwrap();
        loop {
            let budget = budget();
            let queued = guessing.queue(engine, source, token, budget).unwrap();
            ended(budget.until.unwrap().at);
            if queued.is_some() {
                break;
            }
        }
        loop {
            let budget = budget();
            let step = engine.step(budget).unwrap();
            ended(budget.until.unwrap().at);
            if matches!(step, Step::Ready | Step::Idle) {
                break;
            }
        }
        while let Some(logits) = guessing.logits(engine) {
            text.push(argmax(logits).unwrap());
            guessing.take(*text.last().unwrap());
        }
        guessing.end(engine).unwrap();
    }
    text.truncate(count);
    (text, guessing.counts(), longest.into_inner())
}

/// Guessing makes no frame longer. A call ends at most one unit behind its deadline, and with a source that computes,
/// one more.
#[test]
fn a_frame_is_kept_with_guesses_of_all_kinds() {
    let (prompt, count) = ([5, 6, 7, 5, 6, 7, 5, 6], 60);
    let llama = SyntheticModel { vocab: 40, ..SyntheticModel::llama() }.bytes();
    let layered = predictor::file(Architecture::Glm4Moe, true, Own::All).finish();
    let limits = Limits { logit_rows: 8, ..Limits::default() };
    for file in [&llama, &layered] {
        let text = plain(file, &prompt, count);
        for ticks in [1, 4, 30] {
            let check = |source: &mut dyn Guess, least: u64| {
                with_engine(file, &limits, |engine, seq| {
                    let (found, counts, late) = framed((engine, seq), source, ticks, (&prompt, count));
                    assert_eq!(found, text, "{ticks}");
                    assert!(counts.accepted >= least && counts.proposed > 0, "{counts:?}");
                    assert!(late <= 2, "{ticks}: {late}");
                    let metrics = engine.metrics();
                    assert!(metrics.yields > 0 && metrics.overshoot.max <= 2, "{:?}", metrics.overshoot);
                });
            };
            let mut memory = Memory::new(NGrams::plan(256).unwrap());
            check(&mut NGrams::new(256, memory.bytes()).unwrap(), 0);
            with_engine(file, &Limits::default(), |small, seq| {
                small.close(seq).unwrap();
                check(&mut Draft::new(small).unwrap(), 30);
            });
        }
    }
    let model = gleed::Model::open(&layered).unwrap();
    let predictor = model.predictor().unwrap();
    let plan = gleed::Plan::new(&predictor, &Limits::default()).unwrap();
    let mut memory = Memory::new(plan.bytes());
    let mut layer = Engine::new(&predictor, &plan, memory.bytes()).unwrap();
    let text = plain(&layered, &prompt, count);
    for ticks in [1, 4, 30] {
        with_engine(&layered, &limits, |engine, seq| {
            let mut source = NextN::new(&mut layer).unwrap();
            let (found, counts, late) = framed((engine, seq), &mut source, ticks, (&prompt, count));
            assert!(found == text && counts.proposed > 0 && late <= 2, "{ticks}: {counts:?} {late}");
            source.close().unwrap();
        });
    }
}
