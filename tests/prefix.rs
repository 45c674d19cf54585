//! Prefix reuse, pins, room and statistics of the engine. Reused tokens have the bits of a cold prefill.

use common::Memory;
use common::playback::{Plain, Player, Stage, hash};
use common::random::Rng;
use common::synthetic::SyntheticModel;
use gleed::cache::{CacheError, LayerGroups, PoolStats, SequenceBlocks};
use gleed::{Engine, EngineError, KvKind, KvType, Limits, Model, Plan, SeqId};

const GROUPS: [LayerGroups; 2] = [LayerGroups::ONE, LayerGroups::alternating(2)];

fn small() -> Vec<u8> {
    SyntheticModel { hidden: 32, ffn: 32, vocab: 40, layers: 3, ..SyntheticModel::qwen3() }.bytes()
}

fn limits() -> Limits {
    Limits { sequences: 6, context: 96, rows: 16, logit_rows: 16, prefix_cache: true, ..Limits::default() }
}

fn tokens(seed: u64, len: usize) -> Vec<u32> {
    Rng::new(seed).tokens(len, 40)
}

/// Calls `check` with a model with one layer group, and with two.
fn with_each_grouping(mut check: impl FnMut(&Model<'_>, &mut Plain<'_>)) {
    let file = small();
    let model = Model::open(&file).unwrap();
    for groups in GROUPS {
        check(&model.with_layer_groups(groups), &mut Plain::new(&model, KvType::F16));
    }
}

fn with_engine<R>(model: &Model<'_>, limits: &Limits, test: impl FnOnce(&mut Engine<'_, '_>) -> R) -> R {
    let plan = Plan::new(model, limits).unwrap();
    let mut memory = Memory::new(plan.bytes());
    test(&mut Engine::new(model, &plan, memory.bytes()).unwrap())
}

/// Starts a sequence with the cached prefix of a prompt, and computes the rest. All rows are recorded.
fn start(player: &mut Player<'_, '_>, prompt: &[u32]) -> (SeqId, usize) {
    let seq = player.open();
    let reused = player.reuse(seq, prompt);
    player.append(seq, &prompt[reused..]);
    player.engine.cache().check().unwrap();
    (seq, reused)
}

#[test]
fn reused_blocks_give_the_bits_of_a_cold_prefill() {
    with_each_grouping(|model, plain| {
        let recorded = Stage::new(limits()).play(model, |player| {
            let prompt = tokens(1, 50);
            assert_eq!(start(player, &prompt).1, 0);
            // Prefixes of an open sequence: the same prompt, one that differs later, and one that is decoded further.
            assert_eq!(start(player, &prompt).1, 48);
            let other = [&prompt[..40], &tokens(2, 20)].concat();
            let (other_seq, reused) = start(player, &other);
            assert_eq!(reused, 32);
            player.append(other_seq, &tokens(3, 8));
            // At most all tokens but the last are reused.
            assert_eq!(start(player, &prompt[..48]).1, 32);
            assert_eq!(start(player, &prompt[..16]).1, 0);
            for seq in player.sequences.clone() {
                player.close(seq.0);
            }
            // A prefix of closed sequences.
            let (seq, reused) = start(player, &[&other[..], &tokens(3, 8), &[1]].concat());
            assert_eq!(reused, 64);
            // A write to a reused block that others hold goes to a copy. If nobody else holds it, the write goes to the
            // block.
            let twin = player.fork(seq, 40);
            player.rewind(seq, 20);
            player.append(seq, &tokens(4, 30));
            player.append(twin, &tokens(5, 3));
            assert_eq!(start(player, &other).1, 32);
        });
        plain.assert_same(&recorded, &model.config().layer_groups);
    });
}

/// Two sequences that compute the same prompt at the same time share the same blocks in the end.
#[test]
fn equal_blocks_become_one() {
    with_each_grouping(|model, plain| {
        let recorded = Stage { budget: 9, ..Stage::new(limits()) }.play(model, |player| {
            let prompt = tokens(6, 40);
            let (a, b) = (player.open(), player.open());
            player.queue(a, &prompt);
            player.queue(b, &prompt);
            player.run();
            for seq in [a, b] {
                let blocks = player.engine.sequence_stats(seq).unwrap().blocks[0];
                assert_eq!((blocks.own, blocks.shared), (1, 2));
            }
            assert_eq!(player.engine.stats().pools[0].used, 4);
            player.append(a, &tokens(7, 9));
            player.append(b, &tokens(8, 9));
            assert_eq!(player.engine.cache().check(), Ok(()));
        });
        plain.assert_same(&recorded, &());
    });
}

#[test]
fn what_is_not_computed_here_is_never_known() {
    with_each_grouping(|model, _| {
        with_engine(model, &limits(), |engine| {
            let prompt = tokens(9, 40);
            let seq = engine.open().unwrap();
            engine.prefill(seq, &prompt).unwrap();
            let mut snapshot = vec![0; engine.snapshot_len(seq).unwrap()];
            engine.snapshot(seq, &mut snapshot).unwrap();
            with_engine(model, &limits(), |engine| {
                // A restored sequence, and tokens that are computed after it.
                let restored = engine.restore(&snapshot).unwrap();
                engine.prefill(restored, &prompt).unwrap();
                // Rows from outside with the tokens of a real prompt, and imported rows.
                let set = engine.open().unwrap();
                let cache = engine.cache_mut().unwrap();
                cache.reserve(set, prompt.iter().copied()).unwrap();
                let row = vec![0.5; model.config().layer(0).kv.width()];
                for (position, layer) in (0..40).flat_map(|position| (0..3).map(move |layer| (position, layer))) {
                    cache.write_row(set, layer, position, &row, &row).unwrap();
                }
                cache.commit(set, 40).unwrap();
                engine.prefill(set, &prompt).unwrap();
                let fresh = engine.open().unwrap();
                assert_eq!(engine.reuse(fresh, &prompt), Ok(0));
                assert_eq!(engine.reuse(fresh, &[u32::MAX; 40]), Ok(0));
                engine.close(set).unwrap();
                assert_eq!(engine.stats().pools[0].reclaimable, 0);
            });
        });
    });
}

#[test]
fn reuse_is_for_empty_sequences_and_where_it_is_on() {
    let file = small();
    let model = Model::open(&file).unwrap();
    let prompt = tokens(10, 40);
    with_engine(&model, &limits(), |engine| {
        let seq = engine.open().unwrap();
        let cold = hash(engine.prefill_prompt(seq, &prompt).unwrap());
        let expected = CacheError::Position { expected: 0, given: 40 };
        assert_eq!(engine.reuse(seq, &prompt), Err(EngineError::Cache(expected)));
        assert_eq!(engine.prefill_prompt(seq, &prompt).map(drop), Err(EngineError::Cache(expected)));
        let warm = engine.open().unwrap();
        assert_eq!(engine.prefill_prompt(warm, &[]).map(drop), Err(EngineError::Empty));
        let wrong = [&prompt[..], &[99]].concat();
        assert!(matches!(engine.prefill_prompt(warm, &wrong), Err(EngineError::Token { token: 99, .. })));
        assert_eq!(engine.seq_len(warm), Ok(0));
        assert_eq!(hash(engine.prefill_prompt(warm, &prompt).unwrap()), cold);
        let prefix = engine.stats().prefix;
        assert_eq!((prefix.lookups, prefix.hits, prefix.hit_tokens), (2, 1, 32));
        engine.reset(warm).unwrap();
        engine.queue(warm, 0, &prompt, gleed::Logits::Last).unwrap();
        let busy = EngineError::Cache(CacheError::Busy { sequence: warm.to_bits() });
        assert_eq!(engine.reuse(warm, &prompt), Err(busy));
        assert_eq!(engine.make_room(warm, 1, |_, _| true), Err(busy));
    });
    for (kv_kind, prefix_cache) in [(KvKind::Paged, false), (KvKind::Basic, true), (KvKind::Off, true)] {
        with_engine(&model, &Limits { kv_kind, prefix_cache, ..limits() }, |engine| {
            for _ in 0..2 {
                let seq = engine.open().unwrap();
                engine.prefill_prompt(seq, &prompt).unwrap();
            }
            let stats = engine.stats();
            assert_eq!((stats.prefix.hit_tokens, stats.prefix.missed_tokens), (0, 80));
            assert_eq!(engine.pin(&prompt), Ok(0));
        });
    }
}

/// With six blocks, the least recently used prompts are evicted first, from their ends.
#[test]
fn the_least_recently_used_prefix_is_handed_out_first() {
    with_each_grouping(|model, plain| {
        let recorded = Stage::new(Limits { kv_blocks: 6, ..limits() }).play(model, |player| {
            let prompts = [tokens(11, 33), tokens(12, 33), tokens(13, 33)];
            for prompt in &prompts[..2] {
                let (seq, _) = start(player, prompt);
                player.close(seq);
            }
            let pool = player.engine.stats().pools[0];
            assert_eq!((pool.used, pool.reclaimable, pool.free, pool.high_water), (0, 4, 2, 3));
            // After the first prompt is used again, the second one is the oldest.
            let (seq, reused) = start(player, &prompts[0]);
            assert_eq!(reused, 32);
            player.close(seq);
            let (third, _) = start(player, &prompts[2]);
            let pool = player.engine.stats().pools[0];
            assert_eq!((pool.used, pool.reclaimable, pool.free), (3, 3, 0));
            let probe = player.open();
            // The last block of the second prompt was evicted.
            assert_eq!(player.reuse(probe, &prompts[1]), 16);
            player.rewind(probe, 0);
            // Pinned blocks stay until they are unpinned.
            assert_eq!(player.engine.pin(&prompts[0]), Ok(32));
            player.close(third);
            player.append(probe, &tokens(14, 60));
            let full = CacheError::OutOfBlocks { needed: 2, free: 0 };
            assert_eq!(player.engine.can_extend(probe, 36), Err(EngineError::Cache(full)));
            let pool = player.engine.stats().pools[0];
            assert_eq!((pool.used, pool.pinned, pool.high_water), (6, 2, 6));
            assert_eq!(player.engine.unpin(&prompts[0]), Ok(32));
            assert_eq!(player.engine.unpin(&prompts[0]), Ok(0));
            player.append(probe, &tokens(15, 36));
            assert_eq!(player.engine.cache().check(), Ok(()));
        });
        plain.assert_same(&recorded, &model.config().layer_groups);
    });
}

#[test]
fn statistics_tell_own_and_shared_blocks() {
    let file = small();
    let model = Model::open(&file).unwrap();
    let config = *model.config();
    with_engine(&model, &Limits { prefix_cache: false, ..limits() }, |engine| {
        let parent = engine.open().unwrap();
        engine.prefill(parent, &tokens(16, 40)).unwrap();
        let children = [40, 33, 16].map(|keep| engine.fork(parent, keep).unwrap());
        engine.decode_step(children[0], 1).unwrap();
        let bytes = config.layers * config.layer(0).kv.width() * 2 * 2 * 16;
        let found = [parent, children[0], children[1], children[2]].map(|seq| {
            let stats = engine.sequence_stats(seq).unwrap();
            assert_eq!(stats.own_bytes, stats.blocks[0].own * bytes);
            assert_eq!(stats.shared_bytes, stats.blocks[0].shared * bytes);
            assert_eq!(stats.blocks[1], SequenceBlocks::default());
            (stats.tokens, stats.blocks[0].own, stats.blocks[0].shared)
        });
        assert_eq!(found, [(40, 0, 3), (41, 1, 2), (33, 0, 3), (16, 0, 1)]);
        let stats = engine.stats();
        assert_eq!((stats.sequences, stats.pools[1]), (4, PoolStats::default()));
        let pool = stats.pools[0];
        assert_eq!((pool.total, pool.used, pool.free, pool.reclaimable), (36, 4, 32, 0));
        assert_eq!((pool.pinned, pool.high_water, pool.block_bytes), (0, 4, bytes));
    });
}

#[test]
fn room_is_made_by_closing_the_least_recently_used() {
    with_each_grouping(|model, _| {
        with_engine(model, &Limits { kv_blocks: 8, prefix_cache: false, ..limits() }, |engine| {
            let all: Vec<SeqId> = (0..4).map(|_| engine.open().unwrap()).collect();
            for (seed, &seq) in all.iter().enumerate() {
                engine.prefill(seq, &tokens(20 + seed as u64, 17)).unwrap();
            }
            engine.decode_step(all[0], 1).unwrap();
            let seq = engine.open().unwrap();
            // If nobody consents, or too few do, every sequence stays.
            let full = Err(EngineError::Cache(CacheError::OutOfBlocks { needed: 3, free: 0 }));
            assert_eq!(engine.make_room(seq, 33, |_, _| false), full);
            let mut asked = Vec::new();
            let only = |candidate, _: &_| {
                asked.push(candidate);
                candidate == all[1]
            };
            assert_eq!(engine.make_room(seq, 33, only), full);
            assert_eq!(asked, [all[1], all[2], all[3], all[0]]);
            assert_eq!(engine.stats().sequences, 5);
            let context = CacheError::ContextFull { needed: 97, context: 96 };
            assert_eq!(engine.make_room(seq, 97, |_, _| true), Err(EngineError::Cache(context)));
            // One sequence is kept, and the next two are closed.
            assert_eq!(engine.make_room(seq, 33, |candidate, _| candidate != all[1]), Ok(2));
            assert_eq!(engine.make_room(seq, 33, |_, _| unreachable!("there is room")), Ok(0));
            assert!(engine.seq_len(all[2]).is_err() && engine.seq_len(all[3]).is_err());
            assert_eq!(engine.seq_len(all[1]), Ok(17));
            engine.prefill(seq, &tokens(30, 33)).unwrap();
            // A sequence that frees nothing alone is closed only together with the one with which it shares blocks.
            let twin = engine.fork(all[0], 17).unwrap();
            let stats = engine.sequence_stats(twin).unwrap();
            assert_eq!((stats.total().own, stats.own_bytes), (0, 0));
            assert_eq!(engine.make_room(seq, 40, |_, _| true), Ok(1));
            assert!(engine.seq_len(all[1]).is_err());
            assert_eq!(engine.cache().check(), Ok(()));
        });
    });
}

/// A shared partial block must be copied only while the other sequence is open.
#[test]
fn room_counts_the_copy_that_is_no_longer_needed() {
    with_each_grouping(|model, _| {
        with_engine(model, &Limits { kv_blocks: 2, prefix_cache: false, ..limits() }, |engine| {
            let seq = engine.open().unwrap();
            engine.prefill(seq, &tokens(31, 17)).unwrap();
            let twin = engine.fork(seq, 17).unwrap();
            let full = EngineError::Cache(CacheError::OutOfBlocks { needed: 1, free: 0 });
            assert_eq!(engine.can_extend(seq, 15), Err(full));
            assert_eq!(
                engine.make_room(seq, 16, |_, _| true),
                Err(EngineError::Cache(CacheError::OutOfBlocks { needed: 2, free: 0 }))
            );
            assert_eq!(engine.make_room(seq, 15, |_, _| true), Ok(1));
            assert!(engine.seq_len(twin).is_err());
            engine.prefill(seq, &tokens(32, 15)).unwrap();
        });
    });
}

/// Random prompts with common starts, in pools of every size down to the smallest useful one.
#[test]
fn random_prompts_in_pools_of_every_size() {
    with_each_grouping(|model, plain| {
        for blocks in 1..14 {
            let recorded = Stage::new(Limits { kv_blocks: blocks, ..limits() }).play(model, |player| {
                let mut rng = Rng::new(blocks as u64);
                player.open();
                let last = player.sequences[0].0;
                player.append(last, &[3]);
                for _ in 0..40 {
                    random_prompt(player, &mut rng);
                    assert_eq!(player.engine.cache().check(), Ok(()));
                }
            });
            plain.assert_same(&recorded, &blocks);
        }
    });
}

fn random_prompt(player: &mut Player<'_, '_>, rng: &mut Rng) {
    let index = rng.below(player.sequences.len());
    let (seq, old) = player.sequences[index].clone();
    let before = player.engine.stats();
    let result = match rng.below(5) {
        0 if player.sequences.len() > 1 => player.try_close(seq),
        1 => player.try_rewind(seq, rng.below(old.len() + 1)),
        2 if player.sequences.len() < 6 => player.try_fork(seq, rng.below(old.len() + 1)).map(drop),
        3 if player.sequences.len() < 6 => {
            let keep = rng.below(old.len() + 1);
            let prompt = [&old[..keep], &tokens(rng.below(4) as u64, 1 + rng.below(40))].concat();
            let prompt = &prompt[..prompt.len().min(96)];
            let seq = player.open();
            let reused = player.reuse(seq, prompt);
            let queued = player.try_queue(seq, &prompt[reused..]);
            if queued.is_err() {
                player.close(seq);
            }
            queued
        }
        _ => {
            let len = (1 + rng.below(20)).min(96 - old.len());
            if len == 0 { Ok(()) } else { player.try_queue(seq, &rng.tokens(len, 40)) }
        }
    };
    match result {
        Ok(()) => player.run(),
        Err(EngineError::Cache(CacheError::OutOfBlocks { needed, free })) => {
            assert!(needed > free);
            assert_eq!(player.engine.stats().pools.map(|pool| pool.used), before.pools.map(|pool| pool.used));
        }
        Err(other) => panic!("{other:?}"),
    }
}
