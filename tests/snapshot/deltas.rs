//! Deltas: snapshots of the tokens that follow a base.

use gleed::cache::{CacheError, SnapshotError};
use gleed::{EngineError, KvKind, KvType, Model, SeqId};

use crate::{VOCAB, delta, each_limits, each_refused, limits, refusal, seal, snapshot, snapshot_of, tiny, tokens};
use common::playback::{Plain, Player, Stage};

/// A character continues a shared prompt. Its delta is read by another engine, gives the logits of a plain prefill, and
/// shares the prompt's blocks.
#[test]
fn deltas_on_the_right_base() {
    let file = tiny().bytes();
    let model = Model::open(&file).unwrap();
    let prompt = tokens(3, 35);
    for kv_type in KvType::ALL {
        let mut plain = Plain::new(&model, kv_type);
        for (from, into) in KvKind::ALL.into_iter().flat_map(|from| KvKind::ALL.map(|into| (from, into))) {
            for (base, own) in [(16, 0), (32, 0), (32, 2), (32, 13), (32, 17), (16, 40)] {
                let story = [&prompt[..base], &tokens(4, own)].concat();
                let bytes = snapshot_of(&model, limits(from, kv_type), &story, &delta(base));
                let recorded = Stage::new(limits(into, kv_type)).play(&model, |player| {
                    let system = player.open();
                    player.append(system, &prompt);
                    let free = |player: &Player<'_, '_>| player.engine.cache().allocator(0).unwrap().free_blocks();
                    let before = free(player);
                    let (seq, header) = player.engine.restore_with(Some(system), &bytes).unwrap();
                    assert_eq!((header.base(), header.tokens()), (base, story.len()));
                    let shared = if into == KvKind::Paged { base / 16 } else { 0 };
                    assert_eq!(before - free(player), story.len().div_ceil(16) - shared);
                    player.sequences.push((seq, story.clone()));
                    // A restored sequence is like any other: it grows, forks, and can be saved again.
                    player.append(seq, &[7, 8]);
                    let fork = player.fork(seq, story.len());
                    assert_eq!(snapshot(&player.engine, fork, &delta(base)), bytes);
                    player.append(fork, &[1]);
                    player.append(system, &[2]);
                    player.close(system);
                    player.append(seq, &[3]);
                });
                plain.assert_same(&recorded, &(from, into, kv_type, base, own));
            }
        }
    }
}

#[test]
fn deltas_on_a_wrong_base() {
    let file = tiny().bytes();
    let model = Model::open(&file).unwrap();
    for limits in each_limits() {
        // The delta follows the first 16 tokens of the open sequences.
        let right = [tokens(1, 16), tokens(4, 9)].concat();
        let good = snapshot_of(&model, limits, &right, &delta(16));
        let mut other = right.clone();
        other[15] = (other[15] + 1) % VOCAB;
        let wrong = snapshot_of(&model, limits, &other, &delta(16));
        let long = snapshot_of(&model, limits, &[tokens(1, 20), tokens(5, 20)].concat(), &delta(32));
        each_refused(&model, limits, |engine, call| {
            let base = Some(SeqId::from_bits(1 << 16));
            let missing = |base, given| SnapshotError::BaseMissing { base, given };
            assert_eq!(refusal(engine.restore(&good)), missing(16, 0));
            assert_eq!(refusal(engine.restore_with(base, &long)), missing(32, 20));
            assert!(matches!(refusal(engine.restore_with(base, &wrong)), SnapshotError::Base { .. }));
            let unknown = SeqId::from_bits(0xdead_beef);
            let error = EngineError::Cache(CacheError::UnknownSequence { sequence: 0xdead_beef });
            assert_eq!(engine.restore_with(Some(unknown), &good).map(drop), Err(error));
            // Damage behind the base.
            let mut bytes = good.clone();
            bytes[96 + call % (good.len() - 96)] ^= 0x10;
            refusal(engine.restore_with(base, &bytes));
            let (restored, _) = engine.restore_with(base, &good).unwrap();
            engine.close(restored).unwrap();
            call < 50
        });
    }
}

/// A base with the same tokens, but with keys that the model does not compute: one bit of one element differs.
#[test]
fn deltas_on_other_keys() {
    let file = tiny().bytes();
    let model = Model::open(&file).unwrap();
    for limits in each_limits() {
        let story = [tokens(1, 16), tokens(4, 9)].concat();
        let good = snapshot_of(&model, limits, &story, &delta(16));
        let mut tampered = snapshot_of(&model, limits, &tokens(1, 16), &delta(0));
        tampered[96 + 64 + 3] ^= 1;
        seal(&mut tampered);
        Stage::new(limits).play(&model, |player| {
            let base = player.engine.restore(&tampered).unwrap();
            assert!(matches!(refusal(player.engine.restore_with(Some(base), &good)), SnapshotError::Base { .. }));
            let seq = player.open();
            player.append(seq, &tokens(1, 16));
            player.engine.restore_with(Some(seq), &good).unwrap();
        });
    }
}
