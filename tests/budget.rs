//! Steps end where the budget says: by units, by the host's clock, or by its flag. The bits are those of uncut work.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use common::playback::{Plain, Player, Stage};
use common::random::Rng;
use common::synthetic::SyntheticModel;
use gleed::par::{Parallel, Serial};
use gleed::tensor::Dtype;
use gleed::{Budget, Deadline, EngineError, KvKind, KvType, Limits, Logits, Model, Plan, Progress, Step};

fn models() -> [SyntheticModel; 2] {
    let small = |model| SyntheticModel { hidden: 32, ffn: 64, vocab: 40, ..model };
    [
        SyntheticModel { head_dim: 10, ..small(SyntheticModel::llama()) },
        SyntheticModel { weights: Dtype::Q8_0, head_dim: 16, ..small(SyntheticModel::qwen3()) },
    ]
}

fn limits(rows: usize) -> Limits {
    Limits { sequences: 4, context: 64, rows, logit_rows: rows.min(4), ..Limits::default() }
}

fn tokens(seed: u64, len: usize) -> Vec<u32> {
    Rng::new(seed).tokens(len, 40)
}

/// A clock whose time is the number of calls.
#[derive(Default)]
struct Calls(AtomicU64);

impl Calls {
    fn tick(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Runs every worker on a thread of its own.
struct Threads(usize);

impl Parallel for Threads {
    fn run(&self, slots: usize, body: &(dyn Fn(usize) + Sync)) {
        thread::scope(|scope| {
            for slot in 1..slots {
                scope.spawn(move || body(slot));
            }
            body(0);
        });
    }

    fn slots(&self) -> usize {
        self.0
    }
}

/// Plays a prompt, a fork whose shared block is copied, and several sequences that decode together. `run` finishes the
/// queued tokens.
fn story(player: &mut Player<'_, '_>, mut run: impl FnMut(&mut Player<'_, '_>)) {
    let seq = player.open();
    player.queue(seq, &tokens(1, 11));
    run(player);
    let fork = player.fork(seq, 9);
    let other = player.open();
    player.queue(fork, &tokens(2, 1));
    player.queue(other, &tokens(3, 6));
    player.queue(seq, &tokens(4, 1));
    run(player);
}

/// Returns the number of units of the whole story.
fn story_units(model: &Model<'_>, limits: Limits) -> u64 {
    let mut units = 0;
    Stage::new(limits).play(model, |player| {
        story(player, |player| {
            while player.engine.is_busy() {
                let _ = player.step_within(1.into());
                units += 1;
            }
        });
    });
    units
}

fn with_each(mut check: impl FnMut(&Model<'_>, Limits, &mut Plain<'_>)) {
    for synthetic in models() {
        let file = synthetic.bytes();
        let model = Model::open(&file).unwrap();
        for rows in [3, 16] {
            check(&model, limits(rows), &mut Plain::new(&model, KvType::F16));
        }
    }
}

#[test]
fn a_deadline_that_has_passed_lets_one_unit_be_done() {
    with_each(|model, limits, plain| {
        for units in [1, 2, usize::MAX] {
            let (calls, mut steps) = (Calls::default(), 0);
            let clock = || calls.tick();
            let recorded = Stage::new(limits).play(model, |player| {
                story(player, |player| {
                    while player.engine.is_busy() {
                        let until = Some(Deadline { clock: &clock, at: 0 });
                        let _ = player.step_within(Budget { units, until, cancel: None });
                        steps += 1;
                    }
                });
            });
            plain.assert_same(&recorded, &"passed");
            assert_eq!(steps, story_units(model, limits));
            // A step asks the clock from its second unit on.
            assert!(units > 1 || calls.count() == 0);
        }
    });
}

#[test]
fn the_clock_is_asked_once_per_unit() {
    with_each(|model, limits, plain| {
        let units = story_units(model, limits);
        for workers in 1..=4 {
            let (calls, mut steps) = (Calls::default(), 0);
            let clock = || calls.tick();
            let threads = Threads(workers);
            let stage = Stage { parallel: &threads, ..Stage::new(Limits { workers, ..limits }) };
            let recorded = stage.play(model, |player| {
                story(player, |player| {
                    while player.engine.is_busy() {
                        let _ = player.step_within(Deadline { clock: &clock, at: u64::MAX }.into());
                        steps += 1;
                    }
                });
            });
            plain.assert_same(&recorded, &workers);
            // A worker may ask, and then find that another worker took the last unit.
            let most = units * workers as u64;
            assert!((units - steps..=most).contains(&calls.count()), "{} for {units}", calls.count());
            assert!(workers > 1 || calls.count() == units - steps);
        }
    });
}

/// Deadlines of many lengths, by a clock that counts units.
#[test]
fn deadlines() {
    with_each(|model, limits, plain| {
        for workers in 1..=4 {
            for length in [1, 2, 3, 5, 17, 100] {
                let calls = Calls::default();
                let clock = || calls.tick();
                let threads = Threads(workers);
                let stage = Stage { parallel: &threads, ..Stage::new(Limits { workers, ..limits }) };
                let recorded = stage.play(model, |player| {
                    story(player, |player| {
                        while player.engine.is_busy() {
                            let at = calls.count() + length;
                            let _ = player.step_within(Deadline { clock: &clock, at }.into());
                            // After the deadline, each worker that was at work asks at most once more, and the step
                            // asks once how late it is.
                            assert!(calls.count() <= at + workers as u64);
                        }
                    });
                });
                plain.assert_same(&recorded, &(workers, length));
            }
        }
    });
}

/// The flag is set at every unit, as an interrupt would set it. The work can go on afterwards.
#[test]
fn the_flag_at_every_unit() {
    with_each(|model, limits, plain| {
        let units = story_units(model, limits);
        let stride = if limits.rows > 3 { 1 } else { 3 };
        for (workers, at) in (1..=units).step_by(stride).map(|at| (1 + at as usize % 4, at)) {
            let (calls, cancel) = (Calls::default(), AtomicBool::new(false));
            let clock = || {
                cancel.store(calls.tick() == at, Ordering::Relaxed);
                0
            };
            let (threads, mut cancelled) = (Threads(workers), false);
            let stage = Stage { parallel: &threads, ..Stage::new(Limits { workers, ..limits }) };
            let recorded = stage.play(model, |player| {
                story(player, |player| {
                    while player.engine.is_busy() {
                        let until = Some(Deadline { clock: &clock, at: 1 });
                        let budget = Budget { until, cancel: Some(&cancel), ..Budget::default() };
                        if player.step_within(budget) == Step::Cancelled {
                            cancelled = true;
                            let asked = calls.count();
                            assert_eq!(player.step_within(budget), Step::Cancelled);
                            assert_eq!(calls.count(), asked);
                            cancel.store(false, Ordering::Relaxed);
                        }
                    }
                });
            });
            plain.assert_same(&recorded, &(workers, at));
            assert!(cancelled || workers > 1 || calls.count() <= at);
        }
    });
}

/// Checks `Engine::cancel` after the flag, at every third unit.
#[test]
fn committed_tokens_stay() {
    with_each(|model, limits, plain| {
        let prompt = tokens(5, 20);
        let mut lengths = Vec::new();
        for units in (0..).step_by(3) {
            let mut stopped = false;
            let recorded = Stage::new(limits).play(model, |player| {
                let (seq, cancel) = (player.open(), AtomicBool::new(false));
                player.queue(seq, &prompt);
                for _ in 0..units {
                    let _ = player.step_within(1.into());
                }
                cancel.store(true, Ordering::Relaxed);
                let budget = Budget { cancel: Some(&cancel), ..Budget::default() };
                stopped = player.step_within(budget) == Step::Cancelled;
                player.cancel(seq);
                let length = player.engine.seq_len(seq).unwrap();
                lengths.push(length);
                assert_eq!(player.engine.step(budget), Ok(Step::Idle));
                player.append(seq, &[&prompt[length..], &[7]].concat());
            });
            plain.assert_same(&recorded, &units);
            if !stopped {
                break;
            }
        }
        assert!(lengths.is_sorted());
        lengths.dedup();
        // Only whole batches are committed.
        assert!(lengths.iter().all(|length| length % limits.logit_rows == 0 || *length == 20), "{lengths:?}");
        assert!(lengths.len() > 1);
    });
}

#[test]
fn kinds_of_cache() {
    for synthetic in models() {
        let file = synthetic.bytes();
        let model = Model::open(&file).unwrap();
        let mut plain = Plain::new(&model, KvType::F16);
        for kv_kind in KvKind::ALL {
            for prefix_cache in [false, true] {
                let recorded = Stage::new(Limits { kv_kind, prefix_cache, ..limits(5) }).play(&model, |player| {
                    story(player, |player| {
                        while player.engine.is_busy() {
                            let _ = player.step_within(Deadline { clock: &|| 1, at: 1 }.into());
                        }
                    });
                });
                plain.assert_same(&recorded, &kv_kind);
            }
        }
    }
}

/// A panic in the host's clock costs the batch, and nothing else.
#[test]
fn a_clock_that_panics() {
    with_each(|model, limits, plain| {
        for (workers, at) in [(1, 1), (1, 9), (3, 2), (3, 20)] {
            let calls = Calls::default();
            let clock = || {
                if calls.tick() == at {
                    resume_unwind(Box::new("the host's own panic"));
                }
                0
            };
            let threads = Threads(workers);
            let stage = Stage { parallel: &threads, ..Stage::new(Limits { workers, ..limits }) };
            let recorded = stage.play(model, |player| {
                let seq = player.open();
                player.append(seq, &tokens(6, 10));
                let fork = player.fork(seq, 5);
                player.engine.queue(fork, 5, &[1, 2], Logits::Last).unwrap();
                let deadline = Deadline { clock: &clock, at: 1 };
                let step = AssertUnwindSafe(|| player.engine.step(deadline).map(drop));
                assert!(catch_unwind(step).is_err());
                player.engine.set_parallel(&Serial);
                match player.engine.step(usize::MAX) {
                    // The panic came while blocks were copied, so no layer was computed in part.
                    Ok(Step::Ready) => player.engine.rewind(fork, 5).unwrap(),
                    other => assert!(matches!(other, Err(EngineError::Internal(_))), "{other:?}"),
                }
                player.append(seq, &tokens(7, 10));
                player.append(fork, &tokens(8, 10));
            });
            plain.assert_same(&recorded, &(workers, at));
        }
    });
}

/// The engine reports exactly the remaining work.
#[test]
fn progress() {
    with_each(|model, limits, _| {
        Stage::new(limits).play(model, |player| {
            story(player, |player| {
                let sequences: Vec<_> = player.sequences.iter().map(|(seq, tokens)| (*seq, tokens.len())).collect();
                let progress = |player: &Player<'_, '_>, seq| player.engine.progress(seq).unwrap();
                let mut before = 0;
                while player.engine.is_busy() {
                    let _ = player.step_within(1.into());
                    let mut in_batch = 0;
                    for &(seq, end) in &sequences {
                        let Progress { committed, queued, units_done, units_left } = progress(player, seq);
                        assert_eq!((committed, committed + queued), (player.engine.seq_len(seq).unwrap(), end));
                        assert!(units_left > 0 || units_done == 0);
                        in_batch = in_batch.max(units_left);
                    }
                    assert!(before == 0 || in_batch == before - 1, "{before}, then {in_batch}");
                    before = in_batch;
                }
                assert!(sequences.iter().all(|&(seq, _)| progress(player, seq).queued == 0));
            });
        });
    });
}

#[test]
fn units_per_token() {
    with_each(|model, limits, _| {
        let plan = Plan::new(model, &limits).unwrap();
        Stage::new(limits).play(model, |player| {
            let seq = player.open();
            for position in 0..40 {
                player.queue(seq, &[position % 40]);
                let mut units = 0;
                while player.engine.is_busy() {
                    let _ = player.step_within(1.into());
                    units += 1;
                }
                assert_eq!(units, plan.units_per_token(), "position {position}");
            }
        });
    });
}

/// The heads are so wide that a unit of attention is one chunk for several rows, and two chunks for one row.
#[test]
fn attention_over_a_long_context_is_many_units() {
    let small = SyntheticModel { hidden: 32, ffn: 64, vocab: 40, ..SyntheticModel::llama() };
    let file = SyntheticModel { layers: 1, kv_heads: 2, head_dim: 256, ..small }.bytes();
    let model = Model::open(&file).unwrap();
    let mut plain = Plain::new(&model, KvType::F16);
    for (units, workers) in [(usize::MAX, 1), (1, 1), (1, 3), (7, 2)] {
        let limits = Limits { context: 640, workers, ..limits(40) };
        let threads = Threads(workers);
        let stage = Stage { parallel: &threads, budget: units, ..Stage::new(limits) };
        let recorded = stage.play(&model, |player| {
            let seq = player.open();
            player.append(seq, &tokens(5, 600));
            let fork = player.fork(seq, 300);
            player.queue(fork, &tokens(6, 1));
            player.append(seq, &tokens(7, 1));
            for position in 0..3 {
                player.append(seq, &tokens(position, 1));
            }
        });
        plain.assert_same(&recorded, &(units, workers));
    }
    let [short, long] = [64, 640].map(|context| {
        let limits = Limits { context, ..limits(40) };
        Plan::new(&model, &limits).unwrap().units_per_token()
    });
    assert_eq!(long, short + 2, "two KV heads, 512 positions and the rest");
}
