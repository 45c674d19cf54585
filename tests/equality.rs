//! The same tokens give the same bits, however they get into the cache: kind of cache, chunking, batch
//! mix, fork, rewind, snapshot, step budget, layer groups, threads, and the host's floating-point
//! environment.
//!
//! Every row of logits of every run is compared, as bits, with the row that one plain prefill gives.

mod common;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use common::playback::{Plain, Player, Stage};
use common::random::Rng;
use common::synthetic::SyntheticModel;
use gleed::cache::{CacheError, LayerGroups};
use gleed::host::ThreadPool;
use gleed::kernels::Level;
use gleed::par::{Parallel, Serial};
use gleed::tensor::Dtype;
use gleed::{EngineError, KvElement, KvKind, KvType, Limits, Logits, Model};

const BUDGETS: [usize; 6] = [1, 2, 3, 7, 100, usize::MAX];

/// Small llama and qwen3 models, with weights of each kind of dot.
fn models() -> Vec<SyntheticModel> {
    let small = |model| SyntheticModel { hidden: 32, ffn: 64, vocab: 40, ..model };
    let super_blocks = |model| SyntheticModel { hidden: 256, ffn: 256, vocab: 40, layers: 1, ..model };
    let (llama, qwen3) = (SyntheticModel::llama, SyntheticModel::qwen3);
    vec![
        SyntheticModel { head_dim: 10, layers: 3, rope_freqs: true, ..small(llama()) },
        SyntheticModel { head_dim: 16, ..small(qwen3()) },
        SyntheticModel { weights: Dtype::Q8_0, head_dim: 16, ..small(llama()) },
        SyntheticModel { weights: Dtype::Q4_K, head_dim: 64, ..super_blocks(qwen3()) },
    ]
}

fn float_models() -> Vec<SyntheticModel> {
    models().into_iter().take(2).collect()
}

/// Keys of one type, values of another.
const MIXED: KvType = KvType { k: KvElement::Q8_0, v: KvElement::Q4_0 };

/// Calls `check` with each model and element type of the cache.
fn with_each(models: Vec<SyntheticModel>, mut check: impl FnMut(&Model<'_>, KvType, &mut Plain<'_>)) {
    for synthetic in models {
        let file = synthetic.bytes();
        let model = Model::open(&file).unwrap();
        for kv_type in KvType::ALL.into_iter().chain([MIXED]) {
            check(&model, kv_type, &mut Plain::new(&model, kv_type));
        }
    }
}

fn limits(kv_kind: KvKind, kv_type: KvType, rows: usize) -> Limits {
    Limits { sequences: 6, context: 96, rows, logit_rows: rows, kv_kind, kv_type, ..Limits::default() }
}

fn tokens(seed: u64, len: usize) -> Vec<u32> {
    Rng::new(seed).tokens(len, 40)
}

#[test]
fn kinds_and_chunks() {
    with_each(models(), |model, kv_type, plain| {
        let tokens = tokens(1, 50);
        for kind in KvKind::ALL {
            let quick = model.config().hidden < 256;
            for rows in [1, 2, 3, 7, 15, 16, 17, 64].into_iter().filter(|rows| quick || [2, 15, 64].contains(rows)) {
                let stage = Stage::new(limits(kind, kv_type, rows));
                let recorded = stage.play(model, |player| {
                    let seq = player.open();
                    player.append(seq, &tokens[..45]);
                    // Decoding continues what prefill began.
                    tokens[45..].iter().for_each(|token| player.append(seq, &[*token]));
                });
                assert_eq!(recorded.len(), 50);
                plain.assert_same(&recorded, &(kind, kv_type, rows));
            }
        }
    });
}

#[test]
fn instruction_sets() {
    with_each(models(), |model, kv_type, plain| {
        for level in Level::available() {
            for rows in [1, 5, 64] {
                let recorded = Stage::new(Limits { level, ..limits(KvKind::Paged, kv_type, rows) }).play(model, crowd);
                plain.assert_same(&recorded, &(level, kv_type, rows));
            }
        }
    });
}

/// The model's calls for one sequence give the rows that queue and step give.
#[test]
fn prefill_and_decode_step() {
    with_each(float_models(), |model, kv_type, plain| {
        let tokens = tokens(2, 40);
        for kind in KvKind::ALL {
            let recorded = Stage::new(Limits { logit_rows: 1, ..limits(kind, kv_type, 9) }).play(model, |player| {
                let seq = player.open();
                for range in [0..1, 1..20, 20..21, 21..40] {
                    let logits = player.engine.prefill(seq, &tokens[range.clone()]).unwrap();
                    let row = (tokens[..range.end].to_vec(), common::playback::hash(logits));
                    player.rows.push(row);
                }
                player.engine.rewind(seq, 30).unwrap();
                for position in 30..40 {
                    let logits = player.engine.decode_step(seq, tokens[position]).unwrap();
                    player.rows.push((tokens[..=position].to_vec(), common::playback::hash(logits)));
                }
            });
            plain.assert_same(&recorded, &(kind, kv_type));
        }
    });
}

#[test]
fn forks() {
    with_each(float_models(), |model, kv_type, plain| {
        for kind in KvKind::ALL {
            for keep in [0, 1, 15, 16, 17, 31, 32, 33, 37] {
                let recorded = Stage::new(limits(kind, kv_type, 16)).play(model, |player| family(player, keep));
                plain.assert_same(&recorded, &(kind, kv_type, keep));
            }
        }
    });
}

/// A parent of 37 tokens and a child that goes another way from `keep` on, both in one batch; then a
/// grandchild, and the parent closes first.
fn family(player: &mut Player<'_, '_>, keep: usize) {
    let parent = player.open();
    player.append(parent, &tokens(3, 37));
    let child = player.fork(parent, keep);
    player.queue(child, &tokens(4, 9));
    player.queue(parent, &tokens(5, 7));
    player.run();
    let grandchild = player.fork(child, keep + 3);
    let twin = player.fork(child, keep + 3);
    player.close(parent);
    player.append(grandchild, &tokens(6, 20));
    player.append(child, &tokens(7, 2));
    player.close(child);
    player.append(twin, &tokens(8, 18));
    player.append(grandchild, &tokens(9, 1));
}

#[test]
fn rewinds() {
    with_each(float_models(), |model, kv_type, plain| {
        for kind in KvKind::ALL {
            let recorded = Stage::new(limits(kind, kv_type, 16)).play(model, |player| {
                let seq = player.open();
                player.append(seq, &tokens(10, 50));
                for (round, keep) in [49, 48, 41, 33, 32, 31, 17, 16, 15, 1, 0].into_iter().enumerate() {
                    player.rewind(seq, keep);
                    player.append(seq, &tokens(11 + round as u64, 20));
                    // Into a block that somebody else has, too.
                    let fork = player.fork(seq, keep + 18);
                    player.rewind(fork, keep + 5);
                    player.rewind(seq, keep + 7);
                    player.queue(fork, &tokens(30, 3));
                    player.queue(seq, &tokens(31, 13));
                    player.run();
                    player.close(fork);
                }
            });
            plain.assert_same(&recorded, &(kind, kv_type));
        }
    });
}

#[test]
fn snapshots() {
    with_each(float_models(), |model, kv_type, plain| {
        for from in KvKind::ALL {
            for len in [0, 1, 15, 16, 17, 40] {
                let (tokens, mut snapshot) = (tokens(40, len), Vec::new());
                Stage::new(limits(from, kv_type, 64)).play(model, |player| {
                    let seq = player.open();
                    if len > 0 {
                        player.append(seq, &tokens);
                    }
                    snapshot = player.snapshot(seq);
                });
                for into in KvKind::ALL {
                    let recorded = Stage::new(limits(into, kv_type, 16)).play(model, |player| {
                        player.open();
                        let seq = player.try_restore(&snapshot, &tokens).unwrap();
                        let fork = player.fork(seq, len);
                        player.queue(seq, &self::tokens(41, 20));
                        player.queue(fork, &self::tokens(42, 4));
                        player.run();
                        assert_eq!(player.snapshot(fork).len(), player.engine.snapshot_len(fork).unwrap());
                    });
                    plain.assert_same(&recorded, &(from, into, kv_type, len));
                }
            }
        }
    });
}

/// Work that is cancelled in the middle leaves nothing behind, not even where every step computes all
/// positions again.
#[test]
fn snapshot_after_a_cancelled_step() {
    with_each(float_models(), |model, kv_type, plain| {
        for from in KvKind::ALL {
            for units in 1..40 {
                let (tokens, mut snapshot) = (tokens(43, 21), Vec::new());
                Stage::new(limits(from, kv_type, 4)).play(model, |player| {
                    let seq = player.open();
                    player.append(seq, &tokens);
                    player.queue(seq, &[3, 4]);
                    player.budget = units;
                    let _ = player.step();
                    player.cancel(seq);
                    if player.engine.seq_len(seq) != Ok(21) {
                        player.rewind(seq, 21);
                    }
                    snapshot = player.snapshot(seq);
                });
                let recorded = Stage::new(limits(KvKind::Paged, kv_type, 16)).play(model, |player| {
                    let seq = player.try_restore(&snapshot, &tokens).unwrap();
                    player.append(seq, &[5]);
                });
                plain.assert_same(&recorded, &(from, kv_type, units));
            }
        }
    });
}

#[test]
fn budgets_and_batches() {
    with_each(models(), |model, kv_type, plain| {
        for (index, budget) in BUDGETS.into_iter().enumerate() {
            let kind = KvKind::ALL[index % 3];
            let stage = Stage { budget, ..Stage::new(limits(kind, kv_type, [5, 16, 64][index % 3])) };
            let recorded = stage.play(model, crowd);
            plain.assert_same(&recorded, &(kind, kv_type, budget));
        }
    });
}

/// Sequences of different lengths that join and leave while others are computed.
fn crowd(player: &mut Player<'_, '_>) {
    let long = player.open();
    player.queue(long, &tokens(50, 40));
    let _ = player.step();
    let short = player.open();
    player.queue(short, &tokens(51, 5));
    let _ = player.step();
    let other = player.open();
    player.queue(other, &tokens(52, 19));
    let _ = player.step();
    // Leaves in the middle and starts again.
    player.cancel(short);
    let _ = player.step();
    player.queue(short, &tokens(53, 6));
    player.run();
    // One prompt among rows of decoding.
    let prompt = player.open();
    player.queue(prompt, &tokens(54, 23));
    for round in 0..6 {
        for seq in [long, short, other] {
            player.queue(seq, &tokens(60 + round, 1));
        }
        let _ = player.step();
        if round == 2 {
            player.cancel(other);
        }
        // Until all of the three are done: then they do not answer that they are busy.
        while [long, short, other].iter().any(|&seq| player.engine.snapshot_len(seq).is_err()) {
            let _ = player.step();
        }
    }
    player.close(long);
    player.run();
}

/// Random calls, with random budgets, on all kinds of cache, with one and two layer groups.
#[test]
fn random_calls() {
    with_each(float_models(), |model, kv_type, plain| {
        for seed in 0..24 {
            let mut rng = Rng::new(seed);
            let groups = [LayerGroups::ONE, LayerGroups::alternating(2)][rng.below(2)];
            let kv_kind = KvKind::ALL[rng.below(3)];
            let rows = 1 + rng.below(20);
            let limits = Limits {
                logit_rows: 1 + rng.below(rows),
                // Sometimes too few for all.
                kv_blocks: [0, 7, 12][rng.below(3)],
                ..limits(kv_kind, kv_type, rows)
            };
            let recorded = Stage::new(limits).play(&model.with_layer_groups(groups), |player| {
                (0..60).for_each(|_| random_call(player, &mut rng));
                player.budget = usize::MAX;
                player.run();
                // Every block comes back.
                player.sequences.clone().iter().for_each(|(seq, _)| player.close(*seq));
                let cache = player.engine.cache();
                for group in 0..groups.count() {
                    let blocks = cache.allocator(group).unwrap();
                    assert_eq!(blocks.free_blocks(), blocks.len());
                }
                let seq = player.open();
                player.append(seq, &[1]);
            });
            plain.assert_same(&recorded, &(seed, kv_kind, kv_type, groups));
        }
    });
}

fn random_call(player: &mut Player<'_, '_>, rng: &mut Rng) {
    player.budget = BUDGETS[rng.below(6)];
    if player.sequences.is_empty() {
        player.open();
    }
    let (seq, tokens) = player.sequences[rng.below(player.sequences.len())].clone();
    let keep = rng.below(tokens.len() + 1);
    let result = match rng.below(12) {
        0 if player.sequences.len() < 6 => {
            player.open();
            Ok(())
        }
        0..4 => {
            let len = 1 + rng.below(24);
            player.try_queue(seq, &rng.tokens(len, 40))
        }
        4 => player.try_fork(seq, keep).map(drop),
        5 => player.try_rewind(seq, keep),
        6 if rng.below(3) == 0 => player.try_close(seq),
        7 => {
            player.cancel(seq);
            Ok(())
        }
        8 => match player.engine.snapshot_len(seq) {
            Ok(_) => {
                let snapshot = player.snapshot(seq);
                player.try_restore(&snapshot, &tokens).map(drop)
            }
            Err(error) => Err(error),
        },
        _ => {
            for _ in 0..=rng.below(9) {
                let _ = player.step();
            }
            Ok(())
        }
    };
    match result {
        Ok(()) => {}
        Err(EngineError::Cache(
            CacheError::Busy { .. }
            | CacheError::OutOfBlocks { .. }
            | CacheError::ContextFull { .. }
            | CacheError::NoFreeSequence { .. },
        )) => {}
        Err(other) => panic!("{other:?}"),
    }
}

#[test]
fn layer_groups() {
    with_each(float_models(), |model, kv_type, plain| {
        for period in [2, 3, 9] {
            let grouped = model.with_layer_groups(LayerGroups::alternating(period));
            for kind in KvKind::ALL {
                let stage = Stage { budget: 5, ..Stage::new(limits(kind, kv_type, 11)) };
                let recorded = stage.play(&grouped, |player| {
                    crowd(player);
                    player.sequences.clone().iter().for_each(|(seq, _)| player.close(*seq));
                    family(player, 19);
                });
                plain.assert_same(&recorded, &(kind, kv_type, period));
            }
        }
    });
}

/// More than two chunks of 256 positions, forks on both sides of their edges.
#[test]
fn long_sequences() {
    let mut case = 0;
    with_each(models(), |model, kv_type, plain| {
        case += 1;
        if !matches!(case, 1 | 4 | 5 | 8) {
            return;
        }
        let tokens = tokens(70, 620);
        let quick = model.config().hidden < 256;
        for (kv_kind, rows, budget) in [
            (KvKind::Off, 64, usize::MAX),
            (KvKind::Basic, 17, usize::MAX),
            (KvKind::Paged, 620, 100),
            (KvKind::Paged, 1, usize::MAX),
        ] {
            if !quick && (kv_kind == KvKind::Off || rows == 1) {
                continue;
            }
            let limits = Limits { context: 640, sequences: 2, ..limits(kv_kind, kv_type, rows) };
            let recorded = Stage { budget, ..Stage::new(limits) }.play(model, |player| {
                let seq = player.open();
                player.append(seq, &tokens);
                for keep in [255, 256, 529] {
                    // Without a cache every fork computes everything again.
                    if kv_kind == KvKind::Off && keep != 256 {
                        continue;
                    }
                    let fork = player.fork(seq, keep);
                    player.append(fork, &self::tokens(71, 3));
                    player.close(fork);
                }
                player.rewind(seq, 600);
                let snapshot = player.snapshot(seq);
                let restored = player.try_restore(&snapshot, &tokens[..600]).unwrap();
                player.queue(restored, &self::tokens(72, 2));
                player.queue(seq, &self::tokens(72, 1));
                player.run();
            });
            assert!(recorded.len() > 620);
            plain.assert_same(&recorded, &(kv_kind, kv_type, rows));
        }
    });
}

#[test]
fn threads_of_a_pool() {
    for threads in 1..=4 {
        let pool = ThreadPool::new(threads).unwrap();
        same_on(&pool, threads);
    }
    // Fewer and more slots than threads.
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

/// So many rows at a time that each worker has its own.
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

type Body<'b> = &'b (dyn Fn(usize) + Sync);

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

/// Executors that do not do what they are asked, but call the body: the results are the same.
#[test]
fn hostile_executors() {
    let hosts: [fn(usize, Body<'_>); 5] = [
        // Only once, with a slot that does not exist.
        |_, body| body(usize::MAX),
        // Backwards, every slot several times, and more of them.
        |slots, body| (0..slots * 2 + 3).rev().for_each(|slot| (0..3).for_each(|_| body(slot / 2))),
        // Never on the calling thread.
        |_, body| thread::scope(|scope| drop(scope.spawn(|| body(0)).join())),
        // The same slot on several threads at once.
        |slots, body| {
            thread::scope(|scope| (0..3).for_each(|_| drop(scope.spawn(move || (0..slots).for_each(|_| body(1))))));
        },
        // A body inside of another thread's, one after the other.
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

/// An executor that calls nothing is an error, and the next call works again.
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

#[cfg(target_arch = "x86_64")]
mod environment {
    use std::arch::asm;
    use std::hint::black_box;

    use super::*;

    /// Flush-to-zero, denormals-are-zero, and rounding toward zero, down, or up.
    const HOSTILE: [u32; 3] = [0x1f80 | 0x8040 | 0x6000, 0x1f80 | 0x8040 | 0x2000, 0x1f80 | 0x8040 | 0x4000];

    fn read() -> u32 {
        let mut bits = 0_u32;
        // SAFETY: every x86_64 has SSE; the instruction stores 4 bytes to a live u32.
        unsafe { asm!("stmxcsr [{}]", in(reg) &raw mut bits, options(nostack, preserves_flags)) };
        bits
    }

    fn write(bits: u32) {
        // SAFETY: every x86_64 has SSE; the bits are the default with control bits set, or what `read`
        // gave, so no reserved bit is set.
        unsafe { asm!("ldmxcsr [{}]", in(reg) &raw const bits, options(nostack)) };
    }

    /// Runs `f` with these bits in the register, and checks that they are still there afterwards.
    fn with<R>(bits: u32, f: impl FnOnce() -> R) -> R {
        let host = read();
        write(bits);
        let result = black_box(black_box(f)());
        let after = read();
        write(host);
        assert_eq!(after & !0x3f, bits, "the host's environment is not what it was");
        result
    }

    /// Workers with an environment of their own, the caller's being another one.
    struct Workers;

    impl Parallel for Workers {
        fn run(&self, _slots: usize, body: Body<'_>) {
            thread::scope(|scope| {
                for bits in HOSTILE {
                    scope.spawn(move || with(bits, || body(0)));
                }
            });
            body(0);
        }

        fn slots(&self) -> usize {
            4
        }
    }

    #[test]
    fn the_hosts_floating_point_environment() {
        let [x, y, tiny] = black_box([1.0_f32, 3.0, f32::MIN_POSITIVE]);
        assert_ne!(with(HOSTILE[0], || x / y).to_bits(), with(0x1f80, || x / y).to_bits());
        assert_eq!(with(HOSTILE[0], || tiny / y), 0.0);

        for synthetic in models() {
            // Numbers in the metadata that other environments read as others: a subnormal, and an f64.
            let mut writer = SyntheticModel { norm_eps: 1e-40, ..synthetic }.writer();
            let key = writer.metadata.iter().map(|(key, _)| key.clone()).find(|key| key.ends_with("rope.freq_base"));
            let file = writer.set(&key.unwrap(), 10_000.1_f64).finish();
            for kv_type in KvType::ALL {
                let mut plain = Plain::new(&Model::open(&file).unwrap(), kv_type);
                for (bits, kind) in HOSTILE.into_iter().zip(KvKind::ALL) {
                    let limits = Limits { workers: 4, ..limits(kind, kv_type, 16) };
                    for parallel in [&Serial as &dyn Parallel, &Workers] {
                        let recorded = with(bits, || {
                            let model = Model::open(&file).unwrap();
                            Stage { parallel, ..Stage::new(limits) }.play(&model, story)
                        });
                        plain.assert_same(&recorded, &(bits, kind, kv_type));
                    }
                }
            }
        }
    }

    /// Every call that computes or moves keys and values.
    fn story(player: &mut Player<'_, '_>) {
        let seq = player.open();
        player.append(seq, &tokens(90, 20));
        let fork = player.fork(seq, 17);
        player.append(fork, &tokens(91, 1));
        let snapshot = player.snapshot(fork);
        let tokens = player.tokens(fork).clone();
        let restored = player.try_restore(&snapshot, &tokens).unwrap();
        player.append(restored, &self::tokens(92, 2));
    }
}
