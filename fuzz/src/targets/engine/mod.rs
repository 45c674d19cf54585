//! Random calls of an engine, compared with the bits that the plainest engine computes.
//!
//! After each call, every result has the bits of a fresh recomputation, the cache audits itself, and lengths are as
//! expected. After a refused call, the engine's memory is as before. At the end every sequence computes one more token,
//! and no block is left in use.

mod actions;
mod oracle;
mod texts;
mod world;

use std::sync::LazyLock;

use gleed::host::ThreadPool;
use gleed::model::Adapter;
use gleed::par::{Parallel, Serial};
use gleed::tensor::Dtype;
use gleed::{Engine, KvKind, Limits, Model, Plan, Window};

use crate::support::models::{adapter, kv_type, tiny};
use crate::support::{Bytes, Exact, LEVELS, forbidden};
use common::synthetic::{Architecture, SyntheticModel};
use oracle::Oracle;
use world::World;

/// The most calls of a run.
const CALLS: usize = 200;
/// The most tokens of a sequence.
pub const CONTEXT: usize = 80;
/// The rank of the adapters.
pub const RANK: usize = 2;

/// A model, and an adapter for it. A model with recurrent layers has no adapter: going back to a state computes rows
/// again, with the present scale.
struct Made {
    model: Vec<u8>,
    adapter: Option<Vec<u8>>,
}

static MADE: LazyLock<Vec<Made>> = LazyLock::new(|| {
    use Architecture::*;
    let of = |architecture| SyntheticModel { layers: 2, ..tiny(architecture) };
    let attention = [
        of(Llama),
        SyntheticModel { layers: 3, ..of(Gemma2) }.with("attention.sliding_window", 5u32),
        SyntheticModel { weights: Dtype::Q8_0, hidden: 32, ffn: 32, head_dim: 16, ..of(Qwen3) },
        SyntheticModel { kv_heads: 2, ..of(Gpt2) },
        SyntheticModel { weights: Dtype::F16, head_dim: 5, ..of(StableLm) },
        SyntheticModel { experts: 4, layer: SyntheticModel::mixtral().layer, ..of(Llama) },
        SyntheticModel { kv_heads: 2, ..of(Bloom) },
        SyntheticModel { layers: 3, ..of(Llama) }
            .with("attention.sliding_window", 20u32)
            .with("attention.sliding_window_pattern", 2u32),
    ];
    let targets = ["attn_q.", "attn_k.", "attn_v.", "attn_qkv.", "ffn_down."];
    let usual = |one| SyntheticModel { hidden: 32, ffn: 64, vocab: 11, head_dim: 10, ..SyntheticModel::of(one) };
    let recurrent = [Lfm2, Qwen35, GraniteHybrid].map(usual);
    let with = |model: &SyntheticModel| Made {
        model: model.bytes(),
        adapter: Some(adapter(model, &targets, RANK as u64).finish()),
    };
    let without = |model: &SyntheticModel| Made { model: model.bytes(), adapter: None };
    attention.iter().map(with).chain(recurrent.iter().map(without)).collect()
});

static POOL: LazyLock<ThreadPool> = LazyLock::new(|| ThreadPool::new(3).expect("three threads"));

/// A host that calls the body in an odd order, too often, or for one slot only.
struct Odd(u8);

impl Parallel for Odd {
    fn run(&self, slots: usize, body: &(dyn Fn(usize) + Sync)) {
        match self.0 % 5 {
            0 => (0..slots).for_each(body),
            1 => (0..slots).rev().for_each(body),
            2 => body(slots.saturating_sub(1)),
            3 => [usize::MAX, 0, 0].into_iter().for_each(body),
            _ => (0..2 * slots).for_each(|slot| body(slot / 2)),
        }
    }

    fn slots(&self) -> usize {
        3
    }
}

pub fn run(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    let which = bytes.below(MADE.len());
    let made = &MADE[which];
    let model = Model::open(&made.model).expect("a model that was made");
    let wanted = limits(&mut bytes, made.adapter.is_some());
    let Ok(plan) = forbidden(|| Plan::new(&model, &wanted)) else { return };
    let mut memory = Exact::new(plan.bytes(), bytes.u8());
    let peek = memory.peek();
    let odd = Odd(bytes.u8());
    let parallel: &dyn Parallel = match bytes.u8() % 4 {
        0 => &Serial,
        1 => &*POOL,
        _ => &odd,
    };
    let mut engine = forbidden(|| Engine::new(&model, &plan, memory.bytes())).expect("memory of the plan");
    engine.set_parallel(parallel);
    let adapter = made.adapter.as_ref().filter(|_| wanted.adapters > 0);
    let adapter = adapter.map(|file| Adapter::open(file, &model).expect("an adapter that was made"));
    let oracle = Oracle::new(which, model, adapter, plan.limits());
    let mut places = texts::places();
    let mut world = World::new(engine, peek, &plan, oracle, &mut places);
    for _ in 0..CALLS {
        if bytes.left() == 0 {
            break;
        }
        actions::call(&mut world, &mut bytes);
    }
    world.finish();
}

fn limits(bytes: &mut Bytes<'_>, has_adapter: bool) -> Limits {
    let context = if bytes.bool() { 48 } else { 1 + bytes.below(CONTEXT) };
    let window = if bytes.once_in(3) {
        let sinks = bytes.below(20).min(context - 1);
        Window { sinks, last: 1 + bytes.below((context - sinks).min(24)) }
    } else {
        Window::ALL
    };
    let kinds = [KvKind::Paged, KvKind::Paged, KvKind::Paged, KvKind::Basic, KvKind::Off];
    let rows = 1 + bytes.below(24);
    Limits {
        sequences: 1 + bytes.below(5),
        context,
        window,
        rows,
        logit_rows: 1 + bytes.below(rows),
        kv_kind: *bytes.pick(&kinds),
        kv_type: kv_type(bytes),
        kv_blocks: if bytes.bool() { 1 + bytes.below(9) } else { 0 },
        prefix_cache: !bytes.once_in(3),
        checkpoints: bytes.below(4),
        checkpoint_every: if bytes.bool() { 16 * bytes.below(3) } else { 0 },
        adapters: usize::from(has_adapter && bytes.once_in(3)),
        adapter_rank: RANK,
        workers: 1 + bytes.below(4),
        level: *bytes.pick(&LEVELS),
    }
}
