//! Kinds of cache, chunks, instruction sets, step budgets, batches and layer groups do not change the bits.

use gleed::cache::LayerGroups;
use gleed::kernels::Level;
use gleed::{KvKind, Limits};

use crate::{BUDGETS, crowd, family, float_models, limits, models, tokens, with_each};
use common::playback::{Stage, hash};

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
                    // Decoding continues the prefill.
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
    Level::allow_amx();
    with_each(models(), |model, kv_type, plain| {
        for level in Level::available() {
            for rows in [1, 5, 64] {
                let recorded = Stage::new(Limits { level, ..limits(KvKind::Paged, kv_type, rows) }).play(model, crowd);
                plain.assert_same(&recorded, &(level, kv_type, rows));
            }
        }
    });
}

/// The engine's calls for one sequence give the same rows as `queue` and `step`.
#[test]
fn prefill_and_decode_step() {
    with_each(float_models(), |model, kv_type, plain| {
        let tokens = tokens(2, 40);
        for kind in KvKind::ALL {
            let recorded = Stage::new(Limits { logit_rows: 1, ..limits(kind, kv_type, 9) }).play(model, |player| {
                let seq = player.open();
                for range in [0..1, 1..20, 20..21, 21..40] {
                    let logits = player.engine.prefill(seq, &tokens[range.clone()]).unwrap();
                    let row = (tokens[..range.end].to_vec(), hash(logits));
                    player.rows.push(row);
                }
                player.engine.rewind(seq, 30).unwrap();
                for position in 30..40 {
                    let logits = player.engine.decode_step(seq, tokens[position]).unwrap();
                    player.rows.push((tokens[..=position].to_vec(), hash(logits)));
                }
            });
            plain.assert_same(&recorded, &(kind, kv_type));
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

/// Sequences of more than two chunks of 256 positions, with forks on both sides of the edges of chunks.
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
                    // Without a cache, every fork computes everything again.
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
