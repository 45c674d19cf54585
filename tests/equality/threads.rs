//! Threads of a pool, and executors of the host, including executors that misbehave.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use gleed::host::ThreadPool;
use gleed::par::{Parallel, Serial};
use gleed::{EngineError, KvKind, KvType, Limits, Logits, Model};

use crate::{family, limits, models, tokens, with_each};
use common::playback::{Plain, Stage};

#[test]
fn threads_of_a_pool() {
    for threads in 1..=4 {
        let pool = ThreadPool::new(threads).unwrap();
        same_on(&pool, threads);
    }
    // Fewer slots than threads, and more.
    let pool = ThreadPool::new(2).unwrap();
    for workers in [1, 5] {
        same_on_short(&pool, workers);
    }
}

fn same_on(parallel: &dyn Parallel, workers: usize) {
    with_each(models(), |model, kv_type, plain| {
        let limits = Limits { workers, ..limits(KvKind::Paged, kv_type, 16) };
        for budget in if model.config().hidden < 256 { &[3, usize::MAX][..] } else { &[100] }.iter().copied() {
            let stage = Stage { limits, budget, parallel };
            let recorded = stage.play(model, |player| family(player, 17));
            plain.assert_same(&recorded, &(workers, kv_type, budget));
        }
    });
}

/// The rows are so many that each worker has rows of its own.
#[test]
fn threads_with_many_rows() {
    let pools = [2, 3].map(|threads| ThreadPool::new(threads).unwrap());
    let mut case = 0;
    with_each(models(), |model, kv_type, plain| {
        case += 1;
        if !matches!(case, 1 | 4) {
            return;
        }
        let tokens = tokens(75, 500);
        for pool in &pools {
            for (rows, budget) in [(256, usize::MAX), (301, usize::MAX), (256, 1000)] {
                let limits = Limits { context: 520, workers: pool.slots(), ..limits(KvKind::Paged, kv_type, rows) };
                let recorded = Stage { limits, budget, parallel: pool }.play(model, |player| {
                    let seq = player.open();
                    player.append(seq, &tokens);
                    let fork = player.fork(seq, 250);
                    player.append(fork, &self::tokens(76, 230));
                });
                plain.assert_same(&recorded, &(pool.slots(), kv_type, rows, budget));
            }
        }
    });
}

/// Executors that do other things than asked, but call the body. The results are the same.
#[test]
fn hostile_executors() {
    let hosts: [fn(usize, Body<'_>); 5] = [
        // One call with a slot that does not exist.
        |_, body| body(usize::MAX),
        // Slots backwards, each one several times, and slots that do not exist.
        |slots, body| (0..slots * 2 + 3).rev().for_each(|slot| (0..3).for_each(|_| body(slot / 2))),
        // No call on the calling thread.
        |_, body| thread::scope(|scope| drop(scope.spawn(|| body(0)).join())),
        // The same slot on several threads at once.
        |slots, body| {
            thread::scope(|scope| (0..3).for_each(|_| drop(scope.spawn(move || (0..slots).for_each(|_| body(1))))));
        },
        // A call on another thread, then two on this one.
        |slots, body| {
            thread::scope(|scope| drop(scope.spawn(|| body(slots)).join()));
            body(0);
            body(0);
        },
    ];
    for host in hosts {
        same_on_short(&Host(host), 3);
        same_on_short(&Host(host), 1);
    }
}

/// An executor that never calls the body causes an error, and the next call works again.
#[test]
fn an_executor_that_does_nothing() {
    let file = models()[0].bytes();
    let model = Model::open(&file).unwrap();
    static IDLE: Host = Host(|_, _| {});
    let recorded = Stage::new(limits(KvKind::Paged, KvType::F32, 16)).play(&model, |player| {
        let seq = player.open();
        player.append(seq, &tokens(83, 10));
        player.engine.set_parallel(&IDLE);
        assert!(matches!(player.engine.prefill(seq, &[1, 2]).map(drop), Err(EngineError::Internal(_))));
        player.engine.set_parallel(&Serial);
        player.append(seq, &tokens(84, 10));
    });
    Plain::new(&model, KvType::F32).assert_same(&recorded, &"idle");
}

/// A panic in the host's executor costs the batch, and nothing else.
#[test]
fn an_executor_that_panics() {
    let file = models()[0].bytes();
    let model = Model::open(&file).unwrap();
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    static FRAIL: Host = Host(|_, body| {
        body(0);
        if CALLS.fetch_add(1, Ordering::Relaxed) == 7 {
            std::panic::resume_unwind(Box::new("the host's own panic"));
        }
    });
    let recorded = Stage::new(limits(KvKind::Paged, KvType::F32, 16)).play(&model, |player| {
        let seq = player.open();
        player.append(seq, &tokens(83, 10));
        player.engine.set_parallel(&FRAIL);
        player.engine.queue(seq, 10, &[1, 2], Logits::Last).unwrap();
        let step = std::panic::AssertUnwindSafe(|| player.engine.step(usize::MAX).map(drop));
        assert!(std::panic::catch_unwind(step).is_err());
        player.engine.set_parallel(&Serial);
        assert!(matches!(player.engine.step(usize::MAX), Err(EngineError::Internal(_))));
        player.append(seq, &tokens(84, 10));
    });
    Plain::new(&model, KvType::F32).assert_same(&recorded, &"torn");
}

fn same_on_short(parallel: &dyn Parallel, workers: usize) {
    with_each(models(), |model, kv_type, plain| {
        let limits = Limits { workers, ..limits(KvKind::Paged, kv_type, 16) };
        let recorded = Stage { parallel, ..Stage::new(limits) }.play(model, |player| {
            let seq = player.open();
            player.append(seq, &tokens(80, 20));
            let fork = player.fork(seq, 18);
            player.queue(fork, &tokens(81, 2));
            player.queue(seq, &tokens(82, 1));
            player.run();
        });
        plain.assert_same(&recorded, &(workers, kv_type));
    });
}

pub(crate) type Body<'b> = &'b (dyn Fn(usize) + Sync);

/// An executor made of a function.
struct Host(fn(usize, Body<'_>));

impl Parallel for Host {
    fn run(&self, slots: usize, body: Body<'_>) {
        self.0(slots, body);
    }

    fn slots(&self) -> usize {
        3
    }
}
