//! The cache alone, compared with a model that knows the tokens and the evicted blocks of each sequence.

use gleed::cache::{CacheError, KvCache, KvGeometry, KvShape, LayerGroups, SeqId, Visibility};
use gleed::kernels::{Elements, KvSource, Level};
use gleed::mem::Arena;
use gleed::{KvKind, KvType, Window};
use proptest::prelude::*;

use crate::sees;
use common::Memory;

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn blocks_live_as_long_as_they_are_seen(
        calls in prop::collection::vec(call(), 1..90),
        basic: bool,
        sinks in 0..36_usize,
        last in 1..50_usize,
        own in prop_oneof![Just(0), 1..70_usize],
        two_groups: bool,
    ) {
        let groups = if two_groups { LayerGroups::alternating(2) } else { LayerGroups::ONE };
        let rules = Rules { window: Window { sinks, last }, own: [own, 0], groups };
        play(&calls, if basic { KvKind::Basic } else { KvKind::Paged }, rules);
    }
}

#[test]
fn a_block_that_was_given_back_is_taken_again_after_a_rewind_or_fork_to_its_beginning() {
    let calls = [
        Call::Open,
        Call::Open,
        Call::Append(1, 15),
        Call::Append(1, 15),
        Call::Rewind(1, 21),
        Call::Append(1, 1),
        Call::Append(1, 8),
        Call::Append(1, 14),
        Call::Append(1, 9),
        Call::Append(1, 8),
        Call::Fork(1, 17),
        Call::Append(2, 1),
        Call::Rewind(1, 17),
        Call::Append(1, 1),
    ];
    let rules = Rules { window: Window { sinks: 1, last: 1 }, own: [0, 0], groups: LayerGroups::ONE };
    play(&calls, KvKind::Paged, rules);
}

const WIDTH: usize = 6;

fn row(token: u32, layer: usize) -> Vec<f32> {
    (0..WIDTH).map(|i| (token as usize * 100 + layer * 10 + i) as f32).collect()
}

#[derive(Clone)]
struct Want {
    seq: SeqId,
    tokens: Vec<u32>,
    /// Whether each block was evicted, for each group.
    lost: Vec<Vec<bool>>,
}

#[derive(Clone, Debug)]
enum Call {
    Open,
    Append(usize, usize),
    Fork(usize, usize),
    Rewind(usize, usize),
    Close(usize),
}

fn call() -> impl Strategy<Value = Call> {
    let which = 0..4_usize;
    prop_oneof![
        2 => Just(Call::Open),
        12 => (which.clone(), 1..17_usize).prop_map(|(s, n)| Call::Append(s, n)),
        3 => (which.clone(), 0..40_usize).prop_map(|(s, n)| Call::Fork(s, n)),
        3 => (which.clone(), 0..40_usize).prop_map(|(s, n)| Call::Rewind(s, n)),
        1 => which.prop_map(Call::Close),
    ]
}

#[derive(Clone, Copy, Debug)]
struct Rules {
    window: Window,
    own: [usize; 2],
    groups: LayerGroups,
}

impl Rules {
    fn sees(&self, group: usize, position: usize, j: usize) -> bool {
        let own = self.own[group];
        j <= position && sees(self.window, position, j) && (own == 0 || j + own > position)
    }

    fn block_seen(&self, group: usize, position: usize, block: usize) -> bool {
        (block * 16..block * 16 + 16).any(|j| self.sees(group, position, j))
    }

    /// Marks the blocks that a sequence of these tokens loses.
    fn forget(&self, want: &mut Want) {
        for (group, lost) in want.lost.iter_mut().enumerate() {
            let length = want.tokens.len();
            lost.resize(length.div_ceil(16), false);
            for (block, lost) in lost.iter_mut().enumerate().take(length / 16) {
                *lost |= !self.block_seen(group, length, block);
            }
        }
    }

    fn can_keep(&self, want: &Want, keep: usize) -> bool {
        // The next token goes into the last block, unless that is full.
        let needs = |group, block| self.block_seen(group, keep, block);
        let gone = |(group, lost): (usize, &Vec<bool>)| {
            lost.iter().enumerate().any(|(block, lost)| *lost && block * 16 < keep && needs(group, block))
        };
        !want.lost.iter().enumerate().any(gone)
    }
}

fn play(calls: &[Call], kind: KvKind, rules: Rules) {
    let geometry = KvGeometry {
        kind,
        element: KvType::F32,
        level: Level::detect(),
        layers: 3,
        groups: rules.groups,
        shapes: [KvShape { heads: 2, head_dim: 3 }; 2],
        sequences: 4,
        context: u32::MAX as usize,
        blocks: 4 * 12,
        visibility: rules.own.map(|own| Visibility::new(rules.window, own)),
        rows: 16,
        prefix_cache: false,
    };
    let mut measuring = Arena::measuring();
    KvCache::carve(&mut measuring, geometry).unwrap();
    let mut memory = Memory::new(measuring.used());
    let cache = &mut KvCache::carve(&mut Arena::new(memory.bytes()).unwrap(), geometry).unwrap();
    let mut wanted: Vec<Want> = Vec::new();
    for (time, call) in calls.iter().enumerate() {
        apply(cache, &mut wanted, call, rules, time as u32 * 100);
        wanted.iter().for_each(|want| assert_holds(cache, want, rules));
        assert_counts(cache, &wanted);
    }
}

fn apply(cache: &mut KvCache<'_>, wanted: &mut Vec<Want>, call: &Call, rules: Rules, first: u32) {
    if let Call::Open = call {
        if let Ok(seq) = cache.open() {
            wanted.push(Want { seq, tokens: Vec::new(), lost: vec![Vec::new(); rules.groups.count()] });
        }
        return;
    }
    let (Call::Append(s, _) | Call::Fork(s, _) | Call::Rewind(s, _) | Call::Close(s)) = call else { return };
    let Some(want) = wanted.get_mut(*s) else { return };
    let (seq, length) = (want.seq, want.tokens.len());
    match *call {
        Call::Append(_, count) => {
            let new: Vec<u32> = (first..).take(count).collect();
            cache.reserve(seq, new.iter().copied()).unwrap();
            while cache.copy_unit(seq).unwrap() {}
            for (position, &token) in (length..).zip(&new) {
                for layer in 0..3 {
                    cache.write_row(seq, layer, position, &row(token, layer), &row(token, layer + 3)).unwrap();
                }
            }
            cache.commit(seq, count).unwrap();
            want.tokens.extend(new);
            rules.forget(want);
        }
        Call::Rewind(_, back) => {
            let keep = length.saturating_sub(back);
            match cache.rewind(seq, keep) {
                Ok(()) => {
                    assert!(rules.can_keep(want, keep));
                    want.tokens.truncate(keep);
                    want.lost.iter_mut().for_each(|lost| lost.truncate(keep.div_ceil(16)));
                }
                Err(error) => {
                    assert!(matches!(error, CacheError::WindowGone { .. }), "{error:?}");
                    assert!(!rules.can_keep(want, keep), "{keep} of {length}: {error}");
                }
            }
        }
        Call::Fork(_, back) => {
            let keep = length.saturating_sub(back);
            match cache.fork(seq, keep) {
                Ok(fork) => {
                    let mut twin = Want { seq: fork, ..want.clone() };
                    assert!(rules.can_keep(want, keep));
                    twin.tokens.truncate(keep);
                    twin.lost.iter_mut().for_each(|lost| lost.truncate(keep.div_ceil(16)));
                    wanted.push(twin);
                }
                Err(CacheError::WindowGone { .. }) => assert!(!rules.can_keep(want, keep)),
                Err(error) => assert_eq!(error, CacheError::NoFreeSequence { sequences: 4 }),
            }
        }
        Call::Close(s) => {
            cache.close(seq).unwrap();
            wanted.remove(s);
        }
        Call::Open => {}
    }
}

/// Checks that exactly the lost blocks are missing, and that the rows which the next token sees are as they were
/// written.
fn assert_holds(cache: &KvCache<'_>, want: &Want, rules: Rules) {
    let length = want.tokens.len();
    for (group, lost) in want.lost.iter().enumerate() {
        let table = cache.block_table(want.seq, group).unwrap();
        for (block, &lost) in lost.iter().enumerate() {
            assert_eq!(table.block(block).is_none(), lost, "group {group} block {block} of {length}");
        }
        assert!(table.block(length.div_ceil(16)).is_none());
    }
    for layer in 0..3 {
        let (group, _) = rules.groups.place(layer);
        let source = cache.layer_source(want.seq, layer).unwrap();
        for (position, &token) in want.tokens.iter().enumerate().filter(|(j, _)| rules.sees(group, length, *j)) {
            let tile = source.tile(position / 16, 1).expect("visible");
            let (Elements::F32(k), Elements::F32(v)) = (tile.k, tile.v) else { panic!("f32") };
            for dim in 0..3 {
                assert_eq!(k[dim * 16 + position % 16], row(token, layer)[3 + dim]);
                assert_eq!(v[position % 16 * 3 + dim], row(token, layer + 3)[3 + dim]);
            }
            assert_eq!(cache.token(want.seq, position), Some(token));
        }
    }
}

/// Checks that every block has as many references as sequences hold it.
fn assert_counts(cache: &KvCache<'_>, wanted: &[Want]) {
    for group in 0..cache.geometry().groups.count() {
        let allocator = cache.allocator(group).unwrap();
        let mut references = vec![0; allocator.len()];
        for want in wanted {
            let table = cache.block_table(want.seq, group).unwrap();
            let held = (0..want.lost[group].len()).filter_map(|block| table.block(block));
            held.for_each(|block| references[block as usize] += 1);
        }
        for (block, references) in (0..).zip(references) {
            assert_eq!(allocator.meta(block).unwrap().ref_count(), references, "group {group} block {block}");
        }
    }
}
