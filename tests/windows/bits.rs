//! A window gives the same bits, however the work is cut.

use gleed::cache::{CacheError, LayerGroups};
use gleed::host::ThreadPool;
use gleed::kernels::Level;
use gleed::{EngineError, KvKind, KvType, Limits, Model, Window};

use crate::{WINDOWS, limits, small, tokens};
use common::playback::{Plain, Player, Stage};
use common::random::Rng;
use common::synthetic::{Architecture, SyntheticModel};

/// Covers all kinds of cache, chunks, instruction sets, threads and layer groups.
#[test]
fn the_same_bits() {
    let pool = ThreadPool::new(2).unwrap();
    let gemma4 = SyntheticModel::of(Architecture::Gemma4);
    for synthetic in [SyntheticModel::llama(), SyntheticModel::qwen3(), gemma4].map(small) {
        let file = synthetic.bytes();
        let model = Model::open(&file).unwrap();
        for (index, window) in WINDOWS.into_iter().enumerate() {
            let kv_type = KvType::ALL[index % KvType::ALL.len()];
            let mut masked = Plain::with_window(&model, kv_type, window);
            for (turn, rows) in [1, 5, 16, 33].into_iter().enumerate() {
                // Without a cache, every step computes all tokens again.
                let kinds = KvKind::ALL.into_iter().filter(|&kind| kind != KvKind::Off || rows > 5);
                for kind in kinds {
                    let level = Level::available().nth(turn).unwrap_or(Level::SCALAR);
                    let limits = Limits { kv_type, level, workers: 2, ..limits(window, kind, rows) };
                    let budget = [usize::MAX, 3, 50, 7][turn];
                    let stage = Stage { budget, parallel: &pool, ..Stage::new(limits) };
                    let groups = [LayerGroups::ONE, LayerGroups::alternating(2)][turn % 2];
                    let recorded = stage.play(&model.with_layer_groups(groups), |player| {
                        let seq = player.open();
                        let tokens = tokens(2, 110);
                        tokens[..90].chunks(rows).for_each(|chunk| player.append(seq, chunk));
                        tokens[90..].chunks(1).for_each(|token| player.append(seq, token));
                    });
                    assert_eq!(recorded.len(), 110);
                    masked.assert_same(&recorded, &(kind, kv_type, window, rows));
                }
            }
        }
    }
}

/// A model with other rotary factors for long sequences. With a window a sequence has no end, so it counts as long.
/// Without a cache, the result is the same.
#[test]
fn divisors_of_long_sequences() {
    let file = small(SyntheticModel { long_rope: Some(30), ..SyntheticModel::of(Architecture::Phi3) }).bytes();
    let model = Model::open(&file).unwrap();
    let play = |kind| {
        let limits = Limits { context: 20, ..limits(Window { sinks: 0, last: 4 }, kind, 8) };
        Stage::new(limits).play(&model, |player| {
            let seq = player.open();
            player.append(seq, &tokens(4, 7));
        })
    };
    let paged = play(KvKind::Paged);
    assert_eq!(paged.len(), 7);
    assert!(play(KvKind::Off) == paged && play(KvKind::Basic) == paged);
}

#[test]
fn a_window_as_long_as_the_text_changes_nothing() {
    let file = small(SyntheticModel::llama()).bytes();
    let model = Model::open(&file).unwrap();
    for kind in KvKind::ALL {
        for window in [Window { sinks: 0, last: 60 }, Window { sinks: 20, last: 40 }] {
            let recorded = Stage::new(limits(window, kind, 9)).play(&model, |player| {
                let seq = player.open();
                tokens(3, 60).chunks(9).for_each(|chunk| player.append(seq, chunk));
            });
            Plain::new(&model, KvType::F16).assert_same(&recorded, &(kind, window));
        }
    }
}

/// Covers forks, rewinds, cancelled work and several sequences in a batch.
#[test]
fn random_calls() {
    let file = small(SyntheticModel::llama()).bytes();
    let model = Model::open(&file).unwrap();
    for seed in 0..20 {
        let mut rng = Rng::new(seed);
        let (window, kind, rows) = (WINDOWS[rng.below(7)], KvKind::ALL[rng.below(3)], 1 + rng.below(20));
        let limits = Limits { logit_rows: 1 + rng.below(rows), ..limits(window, kind, rows) };
        let recorded = Stage::new(limits).play(&model, |player| {
            (0..80).for_each(|_| random_call(player, &mut rng, rows));
            player.budget = usize::MAX;
            player.run();
            player.sequences.clone().iter().for_each(|(seq, _)| player.close(*seq));
            let blocks = player.engine.cache().allocator(0).unwrap();
            assert_eq!(blocks.free_blocks(), blocks.len());
            let seq = player.open();
            player.append(seq, &[1]);
        });
        let mut masked = Plain::with_window(&model, KvType::F16, window);
        masked.assert_same(&recorded, &(seed, kind, window, rows));
    }
}

fn random_call(player: &mut Player<'_, '_>, rng: &mut Rng, rows: usize) {
    player.budget = [1, 20, 300, usize::MAX][rng.below(4)];
    if player.sequences.is_empty() {
        player.open();
    }
    let (seq, tokens) = player.sequences[rng.below(player.sequences.len())].clone();
    let back = tokens.len() - rng.below(tokens.len().min(30) + 1);
    let result = match rng.below(14) {
        0 if player.sequences.len() < 4 => {
            player.open();
            Ok(())
        }
        0..6 => {
            let len = 1 + rng.below(rows);
            player.try_queue(seq, &rng.tokens(len, 40))
        }
        6 if player.sequences.len() < 4 => player.try_fork(seq, back).map(drop),
        7 => player.try_rewind(seq, back),
        8 => {
            player.cancel(seq);
            Ok(())
        }
        9 if rng.below(3) == 0 => player.try_close(seq),
        10 => player.try_rewind(seq, 0),
        _ => {
            let _ = player.step();
            Ok(())
        }
    };
    match result {
        Ok(()) => {}
        Err(EngineError::Cache(CacheError::Busy { .. } | CacheError::WindowGone { .. })) => {}
        // Without a cache all tokens are kept.
        Err(EngineError::Cache(CacheError::ContextFull { .. })) => {
            assert_eq!(player.engine.cache().kind(), KvKind::Off)
        }
        Err(EngineError::Cache(CacheError::TooShort { keep, length })) => assert!(keep > length),
        Err(other) => panic!("{other:?}"),
    }
}
