//! Snapshots for which a cache has no free blocks, no free sequence, or too little context.

use gleed::cache::{CacheError, LayerGroups};
use gleed::{EngineError, KvKind, KvType, Limits, Model, SeqId};

use crate::{delta, each_limits, each_refused, limits, see, snapshot_of, tiny, tokens};
use common::playback::{Plain, Stage};

#[test]
fn a_pool_with_any_number_of_free_blocks() {
    let file = tiny().bytes();
    let model = Model::open(&file).unwrap();
    for groups in [LayerGroups::ONE, LayerGroups::alternating(2)] {
        let model = model.with_layer_groups(groups);
        for kv_kind in [KvKind::Off, KvKind::Paged] {
            let wide = Limits { sequences: 8, ..limits(kv_kind, KvType::F16) };
            let story = [tokens(1, 16), tokens(4, 43)].concat();
            let whole = snapshot_of(&model, wide, &story, &delta(0));
            let after = snapshot_of(&model, wide, &story, &delta(16));
            for free in 0..6 {
                let limits = Limits { kv_blocks: 2 + free, ..wide };
                each_refused_with_room(&model, limits, free, &whole, &after);
            }
        }
    }
}

/// Sequences fill all blocks except `free`. Snapshots of 59 tokens, of which the second is a delta with a base of 16,
/// are restored only if they fit.
fn each_refused_with_room(model: &Model<'_>, limits: Limits, free: usize, whole: &[u8], after: &[u8]) {
    let recorded = Stage::new(limits).play(model, |player| {
        let base = player.open();
        player.append(base, &tokens(1, 20));
        let before = see(player);
        assert_eq!(before.2, free);
        let shared = usize::from(limits.kv_kind == KvKind::Paged);
        for (snapshot, needed) in [(whole, 4), (after, 4 - shared)] {
            match player.engine.restore_with(Some(base), snapshot) {
                Ok((seq, _)) => {
                    assert!(free >= needed);
                    player.engine.close(seq).unwrap();
                }
                Err(EngineError::Cache(CacheError::OutOfBlocks { needed: missing, free: left })) => {
                    // If the base is copied, the copy already takes blocks when the rest is checked.
                    assert!(free < needed && missing > left && missing <= needed && left <= free);
                }
                result => panic!("{result:?}"),
            }
            assert!(see(player) == before, "{free} free");
        }
        player.append(base, &[1, 2]);
    });
    Plain::new(model, limits.kv_type).assert_same(&recorded, &limits);
}

#[test]
fn no_free_sequence_and_too_long() {
    let file = tiny().bytes();
    let model = Model::open(&file).unwrap();
    for limits in each_limits() {
        let story = tokens(1, 60);
        let whole = snapshot_of(&model, limits, &story, &delta(0));
        let after = snapshot_of(&model, limits, &story, &delta(16));
        let short = Limits { context: 59, ..limits };
        each_refused(&model, short, |engine, _| {
            let error = EngineError::Cache(CacheError::ContextFull { needed: 60, context: 59 });
            let base = Some(SeqId::from_bits(1 << 16));
            assert_eq!(engine.restore(&whole), Err(error));
            assert_eq!(engine.restore_with(base, &after).map(drop), Err(error));
            false
        });
        each_refused(&model, Limits { sequences: 2, ..limits }, |engine, _| {
            let error = EngineError::Cache(CacheError::NoFreeSequence { sequences: 2 });
            let base = Some(SeqId::from_bits(1 << 16));
            assert_eq!(engine.restore(&whole), Err(error));
            assert_eq!(engine.restore_with(base, &after).map(drop), Err(error));
            false
        });
    }
}
