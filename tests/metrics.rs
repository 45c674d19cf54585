//! The figures of an engine: counts of known work, and times of a clock that the test moves.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use common::Memory;
use common::random::Rng;
use common::synthetic::{Architecture, SyntheticModel};
use gleed::guess::{Guess, GuessError, Guessing, Text};
use gleed::host::ThreadPool;
use gleed::metrics::{Passes, Times};
use gleed::sample::argmax;
use gleed::{Budget, Deadline, Engine, KvKind, Limits, Logits, Metrics, Model, Plan, Step};

const DEMO: &[u8] = include_bytes!("../examples/assets/gleed-tales-q8_0.gguf");

fn limits() -> Limits {
    Limits { sequences: 4, context: 128, rows: 8, logit_rows: 8, prefix_cache: true, ..Limits::default() }
}

/// A clock that the test moves by hand.
#[derive(Default)]
struct Hand(AtomicU64);

impl Hand {
    fn ticks(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn wait(&self, ticks: u64) {
        self.0.fetch_add(ticks, Ordering::Relaxed);
    }
}

fn with_engine<T>(file: &[u8], limits: &Limits, run: impl FnOnce(&mut Engine<'_, '_>) -> T) -> T {
    let model = Model::open(file).unwrap();
    let plan = Plan::new(&model, limits).unwrap();
    let mut memory = Memory::new(plan.bytes());
    run(&mut Engine::new(&model, &plan, memory.bytes()).unwrap())
}

fn tokens(seed: u64, len: usize) -> Vec<u32> {
    Rng::new(seed).tokens(len, 40)
}

fn passes(passes: &Passes) -> (u64, u64) {
    (passes.count, passes.rows)
}

/// Plays prefill in chunks, decode, a fork, a cached prefix, and a batch of both kinds.
fn traffic(engine: &mut Engine<'_, '_>) {
    let (seq, prompt) = (engine.open().unwrap(), tokens(1, 35));
    engine.prefill(seq, &prompt).unwrap();
    for token in tokens(2, 6) {
        engine.decode_step(seq, token).unwrap();
    }
    let fork = engine.fork(seq, 20).unwrap();
    let other = engine.open().unwrap();
    engine.prefill_prompt(other, &prompt).unwrap();
    engine.queue(fork, 20, &[5], Logits::Last).unwrap();
    engine.queue(other, 35, &[5, 6, 7], Logits::Last).unwrap();
    assert_eq!(engine.step(usize::MAX), Ok(Step::Ready));
    engine.rewind(seq, 30).unwrap();
    engine.close(other).unwrap();
}

#[test]
fn counts_are_those_of_the_work() {
    with_engine(DEMO, &limits(), |engine| {
        assert_eq!(engine.metrics(), Metrics::default());
        traffic(engine);
        let metrics = engine.metrics();
        // 35 tokens in batches of 8, then the 3 tokens behind the cached prefix of 32.
        assert_eq!(passes(&metrics.prefill), (6, 35 + 3));
        assert_eq!((passes(&metrics.decode), metrics.decode_tokens), ((6, 6), 6));
        assert_eq!(passes(&metrics.mixed), (1, 4));
        assert_eq!(metrics.rows(), 48);
        let saved = metrics.saved;
        assert_eq!((saved.prefix, saved.fork, saved.checkpoint, saved.conversation), (32, 20, 0, 0));
        assert_eq!((metrics.dropped, metrics.rows_again), (0, 0));
        // Each call that works until its end is one step.
        assert_eq!((metrics.steps, metrics.yields), (1 + 6 + 1 + 1, 0));
        let times = [metrics.first_token, metrics.overshoot, metrics.prefill.times, metrics.decode.times];
        assert!(times.iter().all(|times| *times == Times::default()));
        assert_eq!((metrics.decode.p50, metrics.decode.p99, metrics.tokens_per(1)), (0, 0, 0.0));
        assert_eq!((metrics.slots_used, metrics.slots_high_water), (0, 0));
        // 41 tokens in 3 blocks, the fork's copy of one of them, and the last block of the other sequence.
        let pool = engine.stats().pools[0];
        assert_eq!((metrics.blocks_used, metrics.blocks_high_water), (pool.used as u64, pool.high_water as u64));
        assert_eq!((metrics.blocks_used, metrics.blocks_high_water), (3, 5));
    });
}

#[test]
fn a_reset_begins_anew_and_keeps_the_work_in_progress() {
    with_engine(DEMO, &limits(), |engine| {
        traffic(engine);
        let seq = engine.open().unwrap();
        engine.queue(seq, 0, &tokens(3, 8), Logits::Last).unwrap();
        assert_eq!(engine.step(3), Ok(Step::Yielded));
        let used = engine.metrics().blocks_used;
        engine.reset_metrics();
        let kept = engine.metrics();
        assert_eq!((kept.blocks_used, kept.blocks_high_water), (used, used));
        assert_eq!(engine.stats().pools[0].high_water as u64, used);
        let zero = Metrics::default();
        assert_eq!((kept.prefill, kept.decode, kept.saved, kept.steps), (zero.prefill, zero.decode, zero.saved, 0));
        while engine.step(usize::MAX).unwrap() != Step::Ready {}
        assert_eq!((passes(&engine.metrics().prefill), engine.metrics().steps), ((1, 8), 1));
    });
}

#[test]
fn counts_do_not_depend_on_threads_or_cuts() {
    let pool = ThreadPool::new(2).unwrap();
    let run = |workers: usize| {
        let model = Model::open(DEMO).unwrap();
        let plan = Plan::new(&model, &Limits { workers, ..limits() }).unwrap();
        let mut memory = Memory::new(plan.bytes());
        let mut engine = Engine::new(&model, &plan, memory.bytes()).unwrap();
        if workers > 1 {
            engine.set_parallel(&pool);
        }
        traffic(&mut engine);
        let seq = engine.open().unwrap();
        engine.queue(seq, 0, &tokens(4, 20), Logits::Last).unwrap();
        let mut yields = 0;
        while engine.step(7).unwrap() == Step::Yielded {
            yields += 1;
        }
        assert!(yields > 20);
        assert_eq!(engine.metrics().yields, yields);
        engine.metrics()
    };
    assert_eq!(run(1), run(2));
}

/// The test decides the times of decode passes. Percentiles are those of the sorted list, within a sixteenth.
#[test]
fn times_are_those_of_the_clock() {
    let (hand, next) = (Hand::default(), Mutex::new(Vec::new()));
    let mut random = Rng::new(7);
    // The engine asks when a step begins and when its pass ends. The time passes between the two.
    let begun = AtomicBool::new(false);
    let clock = || {
        if begun.fetch_xor(true, Ordering::Relaxed) {
            hand.wait(next.lock().unwrap().pop().unwrap());
        }
        hand.ticks()
    };
    let model = Model::open(DEMO).unwrap();
    let plan = Plan::new(&model, &limits()).unwrap();
    let mut memory = Memory::new(plan.bytes());
    let mut engine = Engine::new(&model, &plan, memory.bytes()).unwrap();
    engine.set_clock(Some(&clock));
    let seq = engine.open().unwrap();
    for count in [1, 2, 3, 50, 120] {
        let bits = random.below(30);
        let mut times: Vec<u64> = (0..count).map(|_| 1 + (random.u64() >> 25 >> bits)).collect();
        next.lock().unwrap().clone_from(&times);
        for token in random.tokens(count, 40) {
            engine.decode_step(seq, token).unwrap();
            // Time between two calls does not count.
            hand.wait(1000);
        }
        times.sort_unstable();
        let Metrics { decode, first_token, .. } = engine.metrics();
        assert_eq!((decode.times.count, decode.times.sum), (count as u64, times.iter().sum()));
        assert_eq!((decode.times.min, decode.times.max), (times[0], times[count - 1]));
        assert_eq!(decode.times.mean(), decode.times.sum / decode.times.count);
        assert_eq!(first_token, Times::default());
        for (percent, found) in [(50, decode.p50), (99, decode.p99)] {
            let exact = times[(count * percent).div_ceil(100) - 1];
            assert!(found.abs_diff(exact) * 16 <= exact, "p{percent} of {count}: {found}, not {exact}");
        }
        let rate = engine.metrics().tokens_per(1 << 40);
        assert!((rate * decode.times.sum as f64 / (1_u64 << 40) as f64 - count as f64).abs() < 1e-6);
        engine.reset(seq).unwrap();
        engine.reset_metrics();
    }
}

#[test]
fn the_first_token_waits_for_the_host_and_a_pass_does_not() {
    let hand = Hand::default();
    let (clock, inside) = (|| hand.ticks(), AtomicU64::new(0));
    // Each look at the deadline's clock moves the other clock by a tick, which is the time in a step.
    let deadline_clock = || {
        hand.wait(1);
        inside.fetch_add(1, Ordering::Relaxed);
        0
    };
    let model = Model::open(DEMO).unwrap();
    let plan = Plan::new(&model, &limits()).unwrap();
    let mut memory = Memory::new(plan.bytes());
    let mut engine = Engine::new(&model, &plan, memory.bytes()).unwrap();
    engine.set_clock(Some(&clock));
    let seq = engine.open().unwrap();
    engine.queue(seq, 0, &tokens(1, 20), Logits::Last).unwrap();
    let mut frames = 0;
    loop {
        hand.wait(100);
        frames += 1;
        let until = Some(Deadline { clock: &deadline_clock, at: u64::MAX });
        if engine.step(Budget { units: 30, until, cancel: None }).unwrap() == Step::Ready {
            break;
        }
    }
    let (metrics, inside) = (engine.metrics(), inside.into_inner());
    assert!(frames > 3 && metrics.yields + 1 == frames && metrics.prefill.count == 3);
    assert_eq!(metrics.prefill.times.sum, inside);
    assert_eq!((metrics.first_token.count, metrics.first_token.sum), (1, 100 * frames + inside));
    assert_eq!(metrics.overshoot, Times::default());
    // Hidden states do not count as tokens.
    engine.reset(seq).unwrap();
    engine.reset_metrics();
    engine.queue(seq, 0, &tokens(1, 20), Logits::LastHidden).unwrap();
    while engine.is_busy() {
        let _ = engine.step(usize::MAX).unwrap();
    }
    assert_eq!((engine.metrics().prefill.count, engine.metrics().first_token.count), (3, 0));
}

#[test]
fn steps_that_a_deadline_ends_are_late() {
    let calls = AtomicU64::new(0);
    // A clock that is ten ticks later at each look.
    let clock = || 10 * (calls.fetch_add(1, Ordering::Relaxed) + 1);
    with_engine(DEMO, &limits(), |engine| {
        let seq = engine.open().unwrap();
        engine.queue(seq, 0, &tokens(1, 8), Logits::Last).unwrap();
        let mut late = 0;
        for at in [5, 25, 70, 75] {
            calls.store(0, Ordering::Relaxed);
            assert_eq!(engine.step(Deadline { clock: &clock, at }), Ok(Step::Yielded));
            // The first look at or after the deadline ends the step, and the next look says how late the step is.
            let seen = 10 * (at.div_ceil(10) + 1) - at;
            late += seen;
            let metrics = engine.metrics();
            assert_eq!(metrics.overshoot.sum, late);
            assert_eq!(metrics.overshoot.count, metrics.yields);
        }
        assert_eq!((engine.metrics().overshoot.min, engine.metrics().overshoot.max), (10, 15));
        // A step that ends by units or by a flag is not late.
        let until = Some(Deadline { clock: &clock, at: u64::MAX });
        assert_eq!(engine.step(Budget { units: 1, until, cancel: None }), Ok(Step::Yielded));
        let flag = true.into();
        assert_eq!(engine.step(Budget { cancel: Some(&flag), ..Budget::default() }), Ok(Step::Cancelled));
        assert_eq!((engine.metrics().yields, engine.metrics().overshoot.count), (6, 4));
        engine.cancel(seq).unwrap();
        assert_eq!((engine.metrics().dropped, engine.metrics().prefill.count), (1, 0));
        assert_eq!((engine.step(1), engine.metrics().steps), (Ok(Step::Idle), 7));
    });
}

/// A clock that jumps to the end of all times acts as a flag.
#[test]
fn the_end_of_all_times_is_not_late() {
    let calls = AtomicU64::new(0);
    let clock = || if calls.fetch_add(1, Ordering::Relaxed) < 3 { 0 } else { u64::MAX };
    with_engine(DEMO, &limits(), |engine| {
        let seq = engine.open().unwrap();
        engine.queue(seq, 0, &tokens(1, 8), Logits::Last).unwrap();
        assert_eq!(engine.step(Deadline { clock: &clock, at: 5 }), Ok(Step::Yielded));
        assert_eq!((engine.metrics().yields, engine.metrics().overshoot.count), (1, 0));
    });
}

/// A source that knows the text of a greedy decoder. At every fourth call its last guess is wrong.
struct Known<'t>(&'t [u32], usize);

impl Guess for Known<'_> {
    fn guess(&mut self, text: &Text<'_>, _: &mut Budget<'_>, out: &mut [u32]) -> Result<Option<usize>, GuessError> {
        let known = self.0.iter().skip(text.len());
        let count = out.iter_mut().zip(known).map(|(place, token)| *place = *token).count();
        self.1 += 1;
        if let Some(last) = out[..count].last_mut().filter(|_| self.1.is_multiple_of(4)) {
            *last = 0;
        }
        Ok(Some(count))
    }
}

#[test]
fn guesses_are_decode_passes_and_save_some() {
    let prompt = tokens(1, 6);
    let text = with_engine(DEMO, &limits(), |engine| {
        let seq = engine.open().unwrap();
        let mut text = prompt.clone();
        let mut logits = engine.prefill(seq, &prompt).unwrap();
        while text.len() < 60 {
            text.push(argmax(logits).unwrap());
            logits = engine.decode_step(seq, text[text.len() - 1]).unwrap();
        }
        text
    });
    with_engine(DEMO, &limits(), |engine| {
        let seq = engine.open().unwrap();
        let mut last = argmax(engine.prefill(seq, &prompt).unwrap()).unwrap();
        let mut memory = Memory::new(Guessing::plan(3).unwrap());
        let mut guessing = Guessing::new(seq, 3, memory.bytes()).unwrap();
        let (mut known, mut len, mut batches, mut rows) = (Known(&text, 0), prompt.len() + 1, 0, 0);
        while len < 50 {
            rows += 1 + guessing.queue(engine, &mut known, last, usize::MAX).unwrap().unwrap() as u64;
            assert_eq!(engine.step(usize::MAX), Ok(Step::Ready));
            batches += 1;
            while let Some(logits) = guessing.logits(engine) {
                last = argmax(logits).unwrap();
                assert_eq!(last, text[len]);
                len += 1;
                if !guessing.take(last) {
                    break;
                }
            }
            guessing.end(engine).unwrap();
        }
        let (metrics, counts) = (engine.metrics(), guessing.counts());
        assert!(counts.accepted > 5 && counts.proposed > counts.accepted);
        assert_eq!((metrics.guesses_proposed, metrics.guesses_accepted), (counts.proposed, counts.accepted));
        assert_eq!(passes(&metrics.decode), (batches, rows));
        assert_eq!(passes(&metrics.prefill), (1, prompt.len() as u64));
        // The last chosen token is not part of the sequence yet.
        assert_eq!(metrics.decode_tokens, (len - 1 - prompt.len()) as u64);
        assert_eq!(metrics.decode_tokens, metrics.decode.count + metrics.guesses_accepted);
    });
}

#[test]
fn checkpoints_save_rows_and_states_have_places() {
    let model =
        SyntheticModel { hidden: 32, ffn: 64, vocab: 40, head_dim: 10, ..SyntheticModel::of(Architecture::Lfm2) };
    let limits = Limits { checkpoints: 3, prefix_cache: false, rows: 64, ..limits() };
    with_engine(&model.bytes(), &limits, |engine| {
        let seq = engine.open().unwrap();
        engine.prefill(seq, &tokens(1, 30)).unwrap();
        assert!(engine.checkpoint(seq).unwrap());
        engine.prefill(seq, &tokens(2, 20)).unwrap();
        assert_eq!(engine.metrics().slots_used as usize, engine.stats().slots.used);
        assert!(engine.metrics().slots_high_water >= engine.metrics().slots_used && engine.metrics().slots_used >= 2);
        // The sequence has this length already.
        engine.rewind(seq, 50).unwrap();
        assert_eq!(engine.metrics().saved.checkpoint, 0);
        engine.rewind(seq, 40).unwrap();
        assert_eq!(engine.metrics().saved.checkpoint, 30);
        engine.reset_metrics();
        // Ten tokens are computed again, and a new one.
        engine.decode_step(seq, 3).unwrap();
        let metrics = engine.metrics();
        assert_eq!((passes(&metrics.decode), metrics.rows_again, metrics.decode_tokens), ((1, 11), 10, 1));
        let fork = engine.fork(seq, 35).unwrap();
        assert_eq!(engine.metrics().saved.fork, 30);
        engine.close(fork).unwrap();
        engine.reset(seq).unwrap();
        engine.close(seq).unwrap();
        engine.reset_metrics();
        assert_eq!((engine.metrics().slots_used, engine.metrics().slots_high_water), (0, 0));
        assert!(engine.stats().slots.total > 3);
    });
}

#[test]
fn without_a_cache_rows_are_computed_again() {
    let limits = Limits { kv_kind: KvKind::Off, prefix_cache: false, ..limits() };
    with_engine(DEMO, &limits, |engine| {
        let seq = engine.open().unwrap();
        engine.prefill(seq, &tokens(1, 6)).unwrap();
        engine.decode_step(seq, 4).unwrap();
        let metrics = engine.metrics();
        assert_eq!((passes(&metrics.prefill), passes(&metrics.decode)), ((1, 6), (1, 7)));
        assert_eq!((metrics.rows_again, metrics.decode_tokens), (6, 1));
    });
}
