//! Random calls, with random budgets.

use gleed::cache::{CacheError, LayerGroups};
use gleed::{EngineError, KvKind, Limits};

use crate::{BUDGETS, float_models, limits, with_each};
use common::playback::{Player, Stage};
use common::random::Rng;

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
                // Sometimes there are too few blocks for all sequences.
                kv_blocks: [0, 7, 12][rng.below(3)],
                ..limits(kv_kind, kv_type, rows)
            };
            let recorded = Stage::new(limits).play(&model.with_layer_groups(groups), |player| {
                (0..60).for_each(|_| random_call(player, &mut rng));
                player.budget = usize::MAX;
                player.run();
                // Every block becomes free.
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
