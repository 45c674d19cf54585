//! Forks, rewinds and snapshots.

use gleed::KvKind;

use crate::{family, float_models, limits, tokens, with_each};
use common::playback::Stage;

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
                    // The fork writes to a block that is shared with another sequence.
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

/// Work that is cancelled in the middle leaves nothing behind, even if every step computes all positions again.
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
