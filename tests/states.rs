//! States of recurrent layers: checkpoints, rewinds between them, cached prefixes, and the number of rows that they
//! save.

use common::playback::{Plain, Player, Stage};
use common::random::Rng;
use common::synthetic::{Architecture, SyntheticModel};
use gleed::cache::{CacheError, SnapshotError, SnapshotHeader, SnapshotOptions};
use gleed::host::ThreadPool;
use gleed::{EngineError, KvKind, KvType, Limits, Logits, Model, Plan, SeqId, Step, Window};

/// Models with every kind of recurrent layer, and of the layers that can be beside them.
const RECURRENT: [Architecture; 6] = [
    Architecture::Lfm2,
    Architecture::Qwen35,
    Architecture::GraniteHybrid,
    Architecture::FalconH1,
    Architecture::NemotronH,
    Architecture::Qwen35Moe,
];

fn synthetic(architecture: Architecture) -> SyntheticModel {
    SyntheticModel { hidden: 32, ffn: 64, vocab: 40, head_dim: 10, ..SyntheticModel::of(architecture) }
}

fn file(architecture: Architecture) -> Vec<u8> {
    synthetic(architecture).bytes()
}

/// The files that `tests/cross` computes on other machines equal the models that are made here. Its model with experts
/// is in `tests/data/newer`.
#[test]
fn committed_models_are_the_made_ones() {
    for architecture in RECURRENT.into_iter().filter(|architecture| *architecture != Architecture::Qwen35Moe) {
        let path = format!("{}/tests/data/recurrent/{}.gguf", env!("CARGO_MANIFEST_DIR"), architecture.name());
        if std::env::var_os("GLEED_WRITE_FIXTURES").is_some() {
            std::fs::write(&path, file(architecture)).unwrap();
        }
        assert!(std::fs::read(&path).is_ok_and(|bytes| bytes == file(architecture)), "{path}");
    }
}

fn limits(checkpoints: usize, checkpoint_every: usize) -> Limits {
    let kv_type = KvType::F32;
    Limits {
        sequences: 4,
        context: 1024,
        rows: 24,
        logit_rows: 24,
        kv_type,
        checkpoints,
        checkpoint_every,
        ..Limits::default()
    }
}

fn tokens(seed: u64, len: usize) -> Vec<u32> {
    Rng::new(seed).tokens(len, 40)
}

/// Returns the number of rows that the next batches compute for a sequence: queued rows, and rows that are computed
/// again.
fn rows(player: &Player<'_, '_>, seq: SeqId, queued: usize) -> usize {
    player.engine.seq_len(seq).unwrap() - player.engine.cache().computed(seq).unwrap() + queued
}

/// There are so many rows that workers share them in other operations.
#[test]
fn threads_with_many_rows() {
    let pool = ThreadPool::new(2).unwrap();
    for architecture in RECURRENT {
        let file = file(architecture);
        let model = Model::open(&file).unwrap();
        let mut plain = Plain::new(&model, KvType::F32);
        let limits = Limits { rows: 256, logit_rows: 256, workers: 2, ..limits(0, 0) };
        let recorded = Stage { limits, budget: usize::MAX, parallel: &pool }.play(&model, |player| {
            let seq = player.open();
            player.append(seq, &tokens(1, 230));
        });
        plain.assert_same(&recorded, &architecture.name());
    }
}

#[test]
fn a_rewind_to_a_checkpoint_computes_nothing_again() {
    for architecture in RECURRENT {
        let file = file(architecture);
        let model = Model::open(&file).unwrap();
        let mut plain = Plain::new(&model, KvType::F32);
        let recorded = Stage::new(limits(2, 0)).play(&model, |player| {
            let seq = player.open();
            player.append(seq, &tokens(1, 37));
            assert_eq!(player.engine.checkpoint(seq), Ok(true));
            player.append(seq, &tokens(2, 30));
            assert_eq!(player.engine.computed_at(seq, 66), Ok(37));
            assert_eq!(player.engine.computed_at(seq, 36), Ok(0));
            player.rewind(seq, 37);
            assert_eq!(rows(player, seq, 5), 5);
            player.append(seq, &tokens(3, 5));
            // Between checkpoints: the rows behind the checkpoint are computed again, together with the next tokens.
            player.rewind(seq, 40);
            assert_eq!(rows(player, seq, 4), 7);
            player.append(seq, &tokens(4, 4));
            // A fork gets the state of a checkpoint, too.
            let fork = player.fork(seq, 37);
            assert_eq!(rows(player, fork, 3), 3);
            player.append(fork, &tokens(5, 3));
            // Before the checkpoint there is only the beginning.
            player.rewind(seq, 20);
            assert_eq!(rows(player, seq, 1), 21);
            player.append(seq, &[7]);
            player.engine.cache().check().unwrap();
        });
        plain.assert_same(&recorded, &architecture);
    }
}

#[test]
fn checkpoints_are_made_as_the_limits_say() {
    let file = file(Architecture::Qwen35);
    let model = Model::open(&file).unwrap();
    let mut plain = Plain::new(&model, KvType::F32);
    // 20 is rounded up to 32.
    for (checkpoints, found) in [(1, [0, 0, 0, 0]), (2, [0, 0, 0, 96]), (9, [0, 32, 64, 96])] {
        let recorded = Stage::new(limits(checkpoints, 20)).play(&model, |player| {
            let seq = player.open();
            player.append(seq, &tokens(1, 100));
            for (index, expected) in found.into_iter().enumerate() {
                assert_eq!(player.engine.computed_at(seq, 32 * index + 3), Ok(expected), "{checkpoints} {index}");
            }
            assert_eq!(player.engine.computed_at(seq, 100), Ok(100));
            // Checkpoints that the host asked for are not replaced.
            assert_eq!(player.engine.checkpoint(seq), Ok(true));
            player.append(seq, &tokens(2, 200));
            assert_eq!(player.engine.computed_at(seq, 101), Ok(100));
            player.engine.cache().check().unwrap();
        });
        plain.assert_same(&recorded, &checkpoints);
    }
    Stage::new(limits(1, 0)).play(&model, |player| {
        let [first, second] = [player.open(), player.open()];
        player.append(first, &tokens(1, 3));
        player.append(second, &tokens(1, 4));
        assert_eq!(player.engine.checkpoint(first), Ok(true));
        assert_eq!(player.engine.checkpoint(second), Ok(false));
        player.close(first);
        assert_eq!(player.engine.checkpoint(second), Ok(true));
    });
}

/// A sequence that loses its queued tokens gets to the position with others.
#[test]
fn a_checkpoint_that_was_asked_for_waits_for_its_position() {
    let model = SyntheticModel { tied: false, ..synthetic(Architecture::Qwen35) };
    let mut writer = model.writer();
    // The embedding of the last token is not finite.
    let embedding = &mut writer.tensor_mut("token_embd.weight").data;
    let row = embedding.len() / 40;
    embedding[39 * row..].fill(0xFF);
    let file = writer.finish();
    let model = Model::open(&file).unwrap();
    let tokens = |seed, len| Rng::new(seed).tokens(len, 39);
    Stage::new(limits(4, 0)).play(&model, |player| {
        let seq = player.open();
        player.engine.checkpoint_at(seq, 3).unwrap();
        assert!(matches!(player.engine.prefill_prompt(seq, &[1, 39]), Err(EngineError::NonFinite { .. })));
        player.append(seq, &tokens(1, 5));
        assert_eq!(player.engine.computed_at(seq, 4), Ok(3));
        player.engine.checkpoint_at(seq, 30).unwrap();
        player.queue(seq, &tokens(2, 40));
        assert_eq!(player.step_within(10.into()), Step::Yielded);
        player.cancel(seq);
        player.append(seq, &tokens(3, 40));
        assert_eq!(player.engine.computed_at(seq, 44), Ok(30));
        player.engine.checkpoint_at(seq, 60).unwrap();
        player.engine.queue(seq, 45, &[1, 39], Logits::All).unwrap();
        assert!(matches!(player.engine.step(usize::MAX), Err(EngineError::NonFinite { .. })));
        // These calls drop what they have appended.
        let bad = [&tokens(6, 30)[..], &[39]].concat();
        assert!(matches!(player.engine.prefill(seq, &bad), Err(EngineError::NonFinite { .. })));
        assert!(matches!(player.engine.decode_greedy(seq, 39, &mut [0]), Err(EngineError::NonFinite { .. })));
        assert_eq!(player.engine.seq_len(seq), Ok(45));
        player.append(seq, &tokens(4, 30));
        assert_eq!(player.engine.computed_at(seq, 74), Ok(60));
        // A rewind drops the request, also one that drops no token.
        player.engine.checkpoint_at(seq, 90).unwrap();
        player.rewind(seq, 75);
        player.append(seq, &tokens(5, 30));
        assert_eq!(player.engine.computed_at(seq, 104), Ok(75));
        player.engine.cache().check().unwrap();
    });
}

/// Each turn begins with the last answer as the template writes it, which differs a few tokens before the end. With
/// checkpoints at the end of every prompt, nothing before the answer is read again.
#[test]
fn a_conversation_reads_no_turn_twice() {
    for architecture in RECURRENT {
        let file = file(architecture);
        let model = Model::open(&file).unwrap();
        let mut plain = Plain::new(&model, KvType::F32);
        let mut computed = 0;
        let mut given = 0;
        let recorded = Stage::new(limits(1, 0)).play(&model, |player| {
            let seq = player.open();
            for turn in 0..20 {
                let prompt = tokens(100 + turn, 17);
                computed += rows(player, seq, prompt.len());
                given += prompt.len();
                player.append(seq, &prompt);
                let end = player.engine.seq_len(seq).unwrap();
                for token in tokens(200 + turn, 9) {
                    computed += rows(player, seq, 1);
                    given += 1;
                    player.append(seq, &[token]);
                }
                // The template writes the answer again without its thoughts.
                player.rewind(seq, end);
                let answer = tokens(300 + turn, 5);
                computed += rows(player, seq, answer.len());
                given += answer.len();
                player.append(seq, &answer);
            }
        });
        assert_eq!(computed, given, "{architecture:?}");
        plain.assert_same(&recorded, &architecture);
    }
}

#[test]
fn a_cached_prefix_ends_at_a_checkpoint() {
    for architecture in RECURRENT {
        let file = file(architecture);
        let model = Model::open(&file).unwrap();
        let mut plain = Plain::new(&model, KvType::F32);
        let limits = Limits { prefix_cache: true, ..limits(4, 32) };
        let recorded = Stage::new(limits).play(&model, |player| {
            let prompt = tokens(1, 90);
            let seq = player.open();
            player.append(seq, &prompt);
            let other = player.open();
            // 80 tokens are cached, and the state is known after 64 of them.
            assert_eq!(player.reuse(other, &prompt), 64);
            assert_eq!(rows(player, other, 26), 26);
            player.append(other, &prompt[64..]);
            // The prefix is also found if no sequence has it any more.
            player.close(seq);
            player.close(other);
            let third = player.open();
            assert_eq!(player.reuse(third, &prompt[..50]), 32);
            player.append(third, &prompt[32..50]);
            // Another prompt shares no prefix.
            let fourth = player.open();
            assert_eq!(player.reuse(fourth, &tokens(2, 90)), 0);
            player.engine.cache().check().unwrap();
        });
        plain.assert_same(&recorded, &architecture);
    }
}

#[test]
fn the_plan_has_the_states() {
    for architecture in RECURRENT {
        let file = file(architecture);
        let model = Model::open(&file).unwrap();
        let state = model.config().recurrent.state_elements() * 4;
        assert!(state > 0);
        let plan = |checkpoints| Plan::new(&model, &limits(checkpoints, 0)).unwrap();
        let bytes = |plan: &Plan| {
            let states = plan.sections().iter().filter(|section| section.name.ends_with(" states"));
            states.map(|section| section.bytes).sum::<usize>()
        };
        // Two states for each of four sequences, two shared ones, and the checkpoints.
        assert_eq!((bytes(&plan(0)), bytes(&plan(3))), (10 * state, 13 * state), "{architecture:?}");
    }
}

/// A window evicts keys and values, but the state goes on. Evicted tokens cannot be computed again.
#[test]
fn a_window_keeps_the_state() {
    let file = file(Architecture::Lfm2);
    let model = Model::open(&file).unwrap();
    let window = Window { sinks: 4, last: 40 };
    let run = |rows: usize, chunk: usize| {
        let limits = Limits { window, rows, logit_rows: rows, ..limits(1, 0) };
        let tokens = tokens(5, 300);
        let mut hashes = Stage::new(limits).play(&model, |player| {
            let seq = player.open();
            tokens.chunks(chunk).for_each(|chunk| player.append(seq, chunk));
            let gone = player.engine.rewind(seq, 298);
            assert!(matches!(gone, Err(EngineError::Cache(CacheError::WindowGone { .. }))), "{gone:?}");
            assert_eq!(player.engine.seq_len(seq), Ok(300));
            assert_eq!(player.engine.checkpoint(seq), Ok(true));
            player.append(seq, &[3, 4]);
            player.rewind(seq, 300);
            player.append(seq, &[5]);
        });
        hashes.sort();
        hashes
    };
    assert_eq!(run(24, 24), run(7, 3));
}

#[test]
fn damaged_and_foreign_snapshots_are_refused() {
    let file = file(Architecture::Qwen35);
    let model = Model::open(&file).unwrap();
    for kind in KvKind::ALL {
        Stage::new(Limits { kv_kind: kind, ..limits(0, 0) }).play(&model, |player| {
            let seq = player.open();
            player.append(seq, &tokens(1, 20));
            let snapshot = player.snapshot(seq);
            let version = u32::from_le_bytes(snapshot[8..12].try_into().unwrap());
            assert_eq!(version, SnapshotHeader::VERSION_WITH_STATE);
            // Covers every byte of the state and its checksum, which come before the checksum of the whole.
            let elements = model.config().recurrent.state_elements();
            let start = snapshot.len() - 16 - 4 * elements;
            for at in (start..snapshot.len() - 8).step_by(97) {
                let mut damaged = snapshot.clone();
                damaged[at] ^= 0x10;
                let error = player.engine.restore(&damaged).unwrap_err();
                assert!(matches!(error, EngineError::Snapshot(SnapshotError::StateChecksum { .. })), "{at}: {error:?}");
            }
            for len in [start, start + 5, snapshot.len() - 9] {
                let error = player.engine.restore(&snapshot[..len]).unwrap_err();
                assert!(matches!(error, EngineError::Snapshot(SnapshotError::Truncated { .. })), "{len}: {error:?}");
            }
            assert!(player.engine.restore(&snapshot).is_ok());
            player.engine.cache().check().unwrap();
        });
    }
}

/// Version 3 has the last checkpoints, which the reader keeps if it has free slots for them.
#[test]
fn snapshots_have_checkpoints() {
    const WITH_TWO: SnapshotOptions<'static> = SnapshotOptions { base: 0, state: &[], checkpoints: 2 };
    for architecture in RECURRENT {
        let file = file(architecture);
        let model = Model::open(&file).unwrap();
        let elements = model.config().recurrent.state_elements();
        let mut saved = Vec::new();
        Stage::new(limits(3, 0)).play(&model, |player| {
            let seq = player.open();
            for len in [9, 20, 17, 5] {
                player.append(seq, &tokens(len as u64, len));
            }
            player.append(seq, &tokens(1, 1));
            let mut bytes = vec![0; player.engine.snapshot_len_with(seq, &WITH_TWO).unwrap()];
            assert_eq!(player.engine.snapshot_with(seq, &WITH_TWO, &mut bytes), Ok(bytes.len()));
            let plain = player.snapshot(seq);
            assert_eq!(bytes.len(), plain.len() + 2 * (4 * elements + 12));
            assert_eq!(plain[8..12], SnapshotHeader::VERSION_WITH_STATE.to_le_bytes());
            assert_eq!(bytes[8..12], SnapshotHeader::VERSION_WITH_CHECKPOINTS.to_le_bytes());
            saved = bytes;
        });
        let all = [tokens(9, 9), tokens(20, 20), tokens(17, 17), tokens(5, 5), tokens(1, 1)].concat();
        // Number of slots for checkpoints, and the positions of the states that a rewind to 51 and to 48 tokens finds.
        // The earlier checkpoint is read first.
        for (places, found) in [(0, [0, 0]), (1, [46, 46]), (2, [51, 46]), (4, [51, 46])] {
            Stage::new(limits(places, 0)).play(&model, |player| {
                let seq = player.try_restore(&saved, &all).unwrap();
                let at = [51, 48].map(|keep| player.engine.computed_at(seq, keep).unwrap());
                assert_eq!(at, found, "{places}");
                player.engine.cache().check().unwrap();
                if places >= 2 {
                    let mut again = vec![0; saved.len()];
                    assert_eq!(player.engine.snapshot_with(seq, &WITH_TWO, &mut again), Ok(saved.len()));
                    assert!(again == saved);
                }
                player.rewind(seq, 48);
                player.append(seq, &tokens(3, 4));
            });
        }
        // Checkpoints of other sequences are not replaced.
        Stage::new(limits(2, 0)).play(&model, |player| {
            let other = player.open();
            player.append(other, &tokens(7, 30));
            player.append(other, &tokens(8, 1));
            let restored = player.try_restore(&saved, &all).unwrap();
            assert_eq!(player.engine.computed_at(restored, 50), Ok(46));
            let second = player.try_restore(&saved, &all).unwrap();
            assert_eq!(player.engine.computed_at(second, 50), Ok(0));
            assert_eq!(player.engine.computed_at(other, 30), Ok(30));
            player.engine.cache().check().unwrap();
        });
    }
}

/// Every bit of a small checkpoint, and every cut.
#[test]
fn damaged_checkpoints_are_refused() {
    const WITH_TWO: SnapshotOptions<'static> = SnapshotOptions { base: 0, state: &[], checkpoints: 2 };
    let file = file(Architecture::Qwen35);
    let model = Model::open(&file).unwrap();
    let of_state = 4 * model.config().recurrent.state_elements() + 8;
    Stage::new(limits(2, 0)).play(&model, |player| {
        let seq = player.open();
        for len in [3, 4, 5] {
            player.append(seq, &tokens(len as u64, len));
        }
        player.append(seq, &tokens(1, 1));
        let mut good = vec![0; player.engine.snapshot_len_with(seq, &WITH_TWO).unwrap()];
        player.engine.snapshot_with(seq, &WITH_TWO, &mut good).unwrap();
        player.engine.close(seq).unwrap();
        player.sequences.clear();
        let used = player.engine.cache().stats().slots;
        let start = good.len() - 8 - of_state - 2 * (of_state + 4);
        let bits =
            (0..8 * 112).chain((8 * start..8 * (start + 40)).chain(8 * start + 320..8 * good.len()).step_by(149));
        for bit in bits {
            let mut damaged = good.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(player.engine.restore(&damaged).is_err(), "{bit}");
            assert_eq!(player.engine.cache().stats().slots.used, used.used);
            player.engine.cache().check().unwrap();
        }
        for len in (start..good.len()).step_by(61) {
            assert!(player.engine.restore(&good[..len]).is_err(), "{len}");
        }
        assert_eq!(player.engine.cache().stats().slots.high_water, used.high_water);
        let restored = player.engine.restore(&good).unwrap();
        assert_eq!(player.engine.computed_at(restored, 11), Ok(7));
    });
}

/// A model without keys and values. Its cache has only the tokens and the states.
#[test]
fn no_layer_has_attention() {
    let synthetic =
        SyntheticModel { hidden: 32, ffn: 64, vocab: 40, layers: 1, ..SyntheticModel::of(Architecture::Lfm2) };
    let file = synthetic.bytes();
    let model = Model::open(&file).unwrap();
    assert_eq!(model.config().kv_layers(), 0);
    let mut plain = Plain::new(&model, KvType::F32);
    for kv_kind in KvKind::ALL {
        let recorded = Stage::new(Limits { kv_kind, prefix_cache: true, ..limits(2, 16) }).play(&model, |player| {
            let seq = player.open();
            player.append(seq, &tokens(1, 40));
            let fork = player.fork(seq, 33);
            player.append(fork, &tokens(2, 5));
            let snapshot = player.snapshot(seq);
            let restored = player.try_restore(&snapshot, &tokens(1, 40)).unwrap();
            player.append(restored, &tokens(3, 3));
            player.rewind(seq, 20);
            player.append(seq, &tokens(4, 3));
            player.engine.cache().check().unwrap();
        });
        plain.assert_same(&recorded, &kv_kind);
    }
}

/// Keys and values alone do not make a sequence with recurrent layers.
#[test]
fn rows_from_outside_are_refused() {
    let file = file(Architecture::Lfm2);
    let model = Model::open(&file).unwrap();
    Stage::new(limits(0, 0)).play(&model, |player| {
        let seq = player.open();
        let width = model.config().layer(0).kv.width();
        let row = vec![0.5; width];
        let cache = player.engine.cache_mut().unwrap();
        assert_eq!(cache.push_row(seq, 0, &row, &row), Err(CacheError::NotKept));
        player.append(seq, &[1]);
    });
}
