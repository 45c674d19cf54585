//! The same tokens give the same bits, however they get into the cache. Covers the kind of cache, chunking, batch mix,
//! fork, rewind, snapshot, step budget, layer groups, threads, and the host's floating-point environment.
//!
//! Every row of logits of every run is compared, as bits, with the row of one plain prefill.

mod batches;
#[cfg(target_arch = "x86_64")]
mod environment;
mod random_calls;
mod sequences;
mod threads;

use common::playback::{Plain, Player};
use common::random::Rng;
use common::synthetic::{Architecture, SyntheticModel};
use gleed::tensor::Dtype;
use gleed::{KvElement, KvKind, KvType, Limits, Model};

const BUDGETS: [usize; 6] = [1, 2, 3, 7, 100, usize::MAX];

/// Returns small llama and qwen3 models with weights of each kind of dot, models with each kind of recurrent layer,
/// beside a feed-forward layer or experts, a model with sinks, and a model whose layers have keys and values of two
/// shapes, or of other layers (windows are longer than the sequences).
fn models() -> Vec<SyntheticModel> {
    let small = |model| SyntheticModel { hidden: 32, ffn: 64, vocab: 40, ..model };
    let super_blocks = |model| SyntheticModel { hidden: 256, ffn: 256, vocab: 40, layers: 1, ..model };
    let (llama, qwen3) = (SyntheticModel::llama, SyntheticModel::qwen3);
    vec![
        SyntheticModel { head_dim: 10, layers: 3, rope_freqs: true, ..small(llama()) },
        SyntheticModel { head_dim: 16, ..small(qwen3()) },
        SyntheticModel { head_dim: 10, ..small(SyntheticModel::of(Architecture::Lfm2)) },
        SyntheticModel { head_dim: 10, ..small(SyntheticModel::of(Architecture::Qwen35)) },
        SyntheticModel { head_dim: 10, ..small(SyntheticModel::of(Architecture::GraniteHybrid)) },
        SyntheticModel { head_dim: 10, layers: 1, ..small(SyntheticModel::of(Architecture::FalconH1)) },
        SyntheticModel { head_dim: 10, layers: 3, ..small(SyntheticModel::of(Architecture::Gemma4)) }
            .with("attention.sliding_window", 200u32),
        // Two layers with attention, so that each of two groups has one.
        SyntheticModel { head_dim: 10, layers: 6, ..small(SyntheticModel::of(Architecture::NemotronH)) },
        SyntheticModel { head_dim: 10, layers: 2, ..small(SyntheticModel::of(Architecture::Qwen35Moe)) },
        SyntheticModel { head_dim: 10, layers: 2, ..small(SyntheticModel::of(Architecture::GptOss)) }
            .with("attention.sliding_window", 200u32),
        SyntheticModel { weights: Dtype::Q8_0, head_dim: 16, ..small(llama()) },
        SyntheticModel { weights: Dtype::Q4_K, head_dim: 64, ..super_blocks(qwen3()) },
    ]
}

fn float_models() -> Vec<SyntheticModel> {
    models().into_iter().take(10).collect()
}

/// Keys and values of different types.
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

/// Plays a parent of 37 tokens and a child that differs from `keep` on, both in one batch. Then grandchildren follow,
/// and the parent closes first.
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

/// Plays sequences of different lengths that join and leave while others are computed.
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
    // The sequence is cancelled in the middle and starts again.
    player.cancel(short);
    let _ = player.step();
    player.queue(short, &tokens(53, 6));
    player.run();
    // One prompt is computed among rows of decoding.
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
        // Steps until none of the three sequences is busy.
        while [long, short, other].iter().any(|&seq| player.engine.snapshot_len(seq).is_err()) {
            let _ = player.step();
        }
    }
    player.close(long);
    player.run();
}
