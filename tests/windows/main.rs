//! Windows: visibility is exact to the token, whatever blocks are kept and however the work is cut. An endless sequence
//! takes memory that does not grow.

mod bits;
mod blocks;
mod masks;
mod memory;

use common::Memory;
use common::random::Rng;
use common::synthetic::SyntheticModel;
use gleed::{Engine, KvKind, Limits, Model, Plan, Window};

const WINDOWS: [Window; 7] = [
    Window { sinks: 0, last: 1 },
    Window { sinks: 4, last: 9 },
    Window { sinks: 0, last: 16 },
    Window { sinks: 16, last: 17 },
    Window { sinks: 1, last: 31 },
    Window { sinks: 20, last: 33 },
    Window { sinks: 3, last: 70 },
];

fn small(model: SyntheticModel) -> SyntheticModel {
    SyntheticModel { hidden: 32, ffn: 64, vocab: 40, head_dim: 10, layers: 3, ..model }
}

fn tokens(seed: u64, len: usize) -> Vec<u32> {
    Rng::new(seed).tokens(len, 40)
}

fn limits(window: Window, kv_kind: KvKind, rows: usize) -> Limits {
    Limits { sequences: 4, context: 150, window, rows, logit_rows: rows, kv_kind, ..Limits::default() }
}

fn with_engine<R>(model: &Model<'_>, limits: &Limits, test: impl FnOnce(&mut Engine<'_, '_>) -> R) -> R {
    let plan = Plan::new(model, limits).unwrap();
    let mut memory = Memory::new(plan.bytes());
    test(&mut Engine::new(model, &plan, memory.bytes()).unwrap())
}

fn sees(Window { sinks, last }: Window, position: usize, j: usize) -> bool {
    last == 0 || j < sinks || j + last > position
}
