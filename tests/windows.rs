//! Windows: what is visible is exact to the token, whatever is kept and however the work is cut, and a sequence without
//! end lives in memory that does not grow.

mod common;

use common::playback::{Plain, Player, Stage};
use common::random::Rng;
use common::reference::Reference;
use common::synthetic::SyntheticModel;
use common::{Memory, rel_l2};
use gleed::cache::{CacheError, KvCache, KvGeometry, LayerGroups, SeqId, Visibility};
use gleed::host::ThreadPool;
use gleed::kernels::{Elements, KvSource, Level};
use gleed::mem::Arena;
use gleed::{Engine, EngineError, KvKind, KvType, Limits, Logits, Model, Plan, Window};
use proptest::prelude::*;

const WINDOWS: [Window; 7] = [
    Window { sinks: 0, last: 1 },
    Window { sinks: 4, last: 9 },
    Window { sinks: 0, last: 16 },
    Window { sinks: 16, last: 17 },
    Window { sinks: 1, last: 31 },
    Window { sinks: 20, last: 33 },
    Window { sinks: 3, last: 70 },
];

fn small(model: SyntheticModel) -> SyntheticModel {
    SyntheticModel { hidden: 32, ffn: 64, vocab: 40, head_dim: 10, layers: 3, ..model }
}

/// A file whose layers have a window of their own; every `pattern`-th sees everything.
fn windowed_file(window: usize, pattern: Option<usize>) -> Vec<u8> {
    let mut writer = small(SyntheticModel::llama()).writer();
    writer.set("llama.attention.sliding_window", window as u32);
    if let Some(pattern) = pattern {
        writer.set("llama.attention.sliding_window_pattern", pattern as u32);
    }
    writer.finish()
}

fn tokens(seed: u64, len: usize) -> Vec<u32> {
    Rng::new(seed).tokens(len, 40)
}

fn limits(window: Window, kv_kind: KvKind, rows: usize) -> Limits {
    Limits { sequences: 4, context: 150, window, rows, logit_rows: rows, kv_kind, ..Limits::default() }
}

fn with_engine<R>(model: &Model<'_>, limits: &Limits, test: impl FnOnce(&mut Engine<'_, '_>) -> R) -> R {
    let plan = Plan::new(model, limits).unwrap();
    let mut memory = Memory::new(plan.bytes());
    test(&mut Engine::new(model, &plan, memory.bytes()).unwrap())
}

/// Logits of each token against the f64 reference with a mask.
fn assert_masked(file: &[u8], window: Window, sees: impl Fn(usize, usize, usize) -> bool + 'static) {
    let model = Model::open(file).unwrap();
    let tokens = tokens(1, 90);
    let mut reference = Reference::open(file);
    reference.sees = Box::new(sees);
    let expected = reference.logits(&tokens);
    let limits = Limits { kv_type: KvType::F32, ..limits(window, KvKind::Paged, 7) };
    with_engine(&model, &limits, |engine| {
        let seq = engine.open().unwrap();
        let mut worst = 0_f64;
        let check = |position: usize, logits: &[f32]| worst = worst.max(rel_l2(logits, expected.row(position)));
        engine.prefill_rows(seq, &tokens, check).unwrap();
        assert!(worst < 1e-4, "{window:?}: {worst}");
    });
}

fn sees(Window { sinks, last }: Window, position: usize, j: usize) -> bool {
    last == 0 || j < sinks || j + last > position
}

#[test]
fn a_window_is_a_mask() {
    for window in WINDOWS {
        let file = small(SyntheticModel::llama()).bytes();
        assert_masked(&file, window, move |_, position, j| sees(window, position, j));
    }
}

#[test]
fn the_window_of_a_model() {
    let own = |last| Window { sinks: 0, last };
    for (window, last) in [(Window::ALL, 12), (WINDOWS[1], 30), (WINDOWS[4], 7)] {
        let both = move |_: usize, position: usize, j: usize| sees(window, position, j) && sees(own(last), position, j);
        assert_masked(&windowed_file(last, None), window, both);
        let local = move |layer: usize, position: usize, j: usize| {
            both(0, position, j) || layer % 2 == 1 && sees(window, position, j)
        };
        assert_masked(&windowed_file(last, Some(2)), window, local);
    }
    let config = |window, pattern| *Model::open(&windowed_file(window, pattern)).unwrap().config();
    assert_eq!((config(12, Some(2)).layer_groups, config(12, Some(2)).windows), (LayerGroups::alternating(2), [12, 0]));
    assert_eq!((config(12, None).layer_groups, config(12, None).windows), (LayerGroups::ONE, [12, 12]));
    assert_eq!(config(12, Some(1)).windows, [0, 0]);
    assert_eq!(config(0, Some(2)).windows, [0, 0]);
    let file = windowed_file(12, Some(2));
    let model = Model::open(&file).unwrap();
    assert_eq!(model.with_layer_groups(LayerGroups::ONE).config(), model.config());
}

/// All kinds of cache, chunks, instruction sets, threads and layer groups.
#[test]
fn the_same_bits() {
    let pool = ThreadPool::new(2).unwrap();
    for synthetic in [small(SyntheticModel::llama()), small(SyntheticModel::qwen3())] {
        let file = synthetic.bytes();
        let model = Model::open(&file).unwrap();
        for (index, window) in WINDOWS.into_iter().enumerate() {
            let kv_type = KvType::ALL[index % KvType::ALL.len()];
            let mut masked = Plain::with_window(&model, kv_type, window);
            for (turn, rows) in [1, 5, 16, 33].into_iter().enumerate() {
                // Without a cache every step computes all tokens again.
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

/// Forks, rewinds, cancelled work and several sequences in a batch.
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

#[test]
fn memory_does_not_grow() {
    let file = small(SyntheticModel::llama()).bytes();
    let model = Model::open(&file).unwrap();
    for kind in [KvKind::Basic, KvKind::Paged] {
        for window in WINDOWS {
            let limits = Limits { sequences: 1, logit_rows: 1, ..limits(window, kind, 8) };
            let plan = Plan::new(&model, &limits).unwrap();
            let most = window.sinks.div_ceil(16) + (window.last + 8).div_ceil(16) + 1;
            assert_eq!(plan.limits().kv_blocks, most);
            let tables = plan.sections().iter().find(|section| section.name == "kv block tables").unwrap();
            assert_eq!(tables.bytes, most * 4);
            with_engine(&model, &limits, |engine| {
                let seq = engine.open().unwrap();
                engine.prefill(seq, &tokens(5, 203)).unwrap();
                for position in 203..2000 {
                    engine.decode_step(seq, 1 + position as u32 % 39).unwrap();
                    let length = position + 1;
                    let blocks = engine.cache().allocator(0).unwrap();
                    // Those that the next token sees, and the one that it goes to.
                    let sinks = window.sinks.div_ceil(16);
                    let recent = sinks.max((length + 1 - window.last) / 16)..length.div_ceil(16);
                    assert_eq!(blocks.len() - blocks.free_blocks(), sinks + recent.len(), "{window:?} {length}");
                }
                let cache = engine.cache();
                assert_eq!(cache.seq_len(seq), Ok(2000));
                assert_eq!(cache.token(seq, 1999), (window.last > 1).then_some(1 + 1999 % 39));
                assert_eq!(cache.token(seq, 1000), None);
                assert_eq!(cache.token(seq, 0).is_some(), window.sinks > 0);
                engine.reset(seq).unwrap();
                let blocks = engine.cache().allocator(0).unwrap();
                assert_eq!(blocks.free_blocks(), blocks.len());
            });
        }
    }
}

#[test]
fn what_is_gone_is_gone() {
    let file = small(SyntheticModel::llama()).bytes();
    let model = Model::open(&file).unwrap();
    let window = Window { sinks: 4, last: 40 };
    let limits = Limits { sequences: 3, ..limits(window, KvKind::Paged, 10) };
    with_engine(&model, &limits, |engine| {
        let seq = engine.open().unwrap();
        let tokens = tokens(6, 200);
        engine.prefill(seq, &tokens).unwrap();
        // Position 200 sees 161 to 199: the blocks from 160 on are there.
        let gone = |position, first| EngineError::Cache(CacheError::WindowGone { position, first });
        assert_eq!(engine.rewind(seq, 198), Err(gone(144, 160)));
        assert_eq!(engine.fork(seq, 198), Err(gone(144, 160)));
        assert_eq!(engine.rewind(seq, 100), Err(gone(96, 160)));
        assert_eq!(engine.snapshot_len(seq), Err(gone(16, 160)));
        assert_eq!(
            engine.cache().materialize(seq, 0, &mut [], &mut []),
            Err(CacheError::WindowGone { position: 16, first: 160 })
        );
        let text = gone(16, 160).to_string();
        assert_eq!(text, "position 16 has left the window, which begins at 160");
        assert_eq!(engine.seq_len(seq), Ok(200));
        // 199 is far enough; so is what lies in the block of the sinks.
        engine.rewind(seq, 199).unwrap();
        let fork = engine.fork(seq, 199).unwrap();
        let other = engine.fork(seq, 16).unwrap();
        assert_eq!(
            engine.cache().block_table(other, 0).unwrap().block(0),
            engine.cache().block_table(seq, 0).unwrap().block(0)
        );
        assert_eq!(engine.cache().token(fork, 198), Some(tokens[198]));
        engine.close(other).unwrap();
        engine.rewind(fork, 9).unwrap();
        let limit = engine.can_extend(fork, 1000).unwrap_err();
        assert_eq!(limit, EngineError::Cache(CacheError::TooMany { given: 1000, limit: 16 + 5 * 16 - 9 }));
        assert_eq!(limit.to_string(), "1000 tokens at a time; with its window the sequence takes 87");
        assert_eq!(engine.queue(seq, 199, &tokens[..100], Logits::Last), engine.can_extend(seq, 100));
        assert!(engine.can_extend(seq, 10).is_ok());
        engine.prefill(fork, &tokens[9..]).unwrap();
        assert_eq!(engine.seq_len(fork), Ok(200));
    });
}

/// A prompt longer than the window is refused before any work where other sequences have the blocks.
#[test]
fn a_long_prompt_in_a_small_pool() {
    let file = small(SyntheticModel::llama()).bytes();
    let model = Model::open(&file).unwrap();
    let window = Window { sinks: 0, last: 40 };
    for free in 1..7 {
        let limits = Limits { sequences: 2, kv_blocks: 6, ..limits(window, KvKind::Paged, 10) };
        with_engine(&model, &limits, |engine| {
            let (other, seq) = (engine.open().unwrap(), engine.open().unwrap());
            if free < 6 {
                engine.prefill(other, &tokens(7, (6 - free) * 16)).unwrap();
            }
            let free = engine.cache().allocator(0).unwrap().free_blocks();
            match engine.prefill(seq, &tokens(8, 300)).map(drop) {
                Ok(()) => assert!(free >= 4),
                Err(error) => {
                    assert!(free < 4);
                    assert!(matches!(error, EngineError::Cache(CacheError::OutOfBlocks { .. })), "{error:?}");
                    assert_eq!(engine.seq_len(seq), Ok(0));
                    assert_eq!(engine.cache().allocator(0).unwrap().free_blocks(), free);
                }
            }
        });
    }
}

#[test]
fn windows_that_can_not_be() {
    let file = small(SyntheticModel::llama()).bytes();
    let model = Model::open(&file).unwrap();
    for (sinks, last, valid) in [(0, 150, true), (50, 100, true), (51, 100, false), (4, 0, false), (0, 151, false)] {
        let plan = Plan::new(&model, &limits(Window { sinks, last }, KvKind::Paged, 8));
        assert_eq!(plan.is_ok(), valid, "{sinks} {last}");
        if let Err(error) = plan {
            let text = format!("limit window is {last}, it must be 1 to {}", 150 - sinks);
            assert_eq!(error.to_string(), text);
        }
    }
}

// The cache alone against a model that knows for each sequence its tokens and which blocks it lost.

const WIDTH: usize = 6;

fn row(token: u32, layer: usize) -> Vec<f32> {
    (0..WIDTH).map(|i| (token as usize * 100 + layer * 10 + i) as f32).collect()
}

#[derive(Clone)]
struct Want {
    seq: SeqId,
    tokens: Vec<u32>,
    /// Per group: whether a block was given back.
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

    /// What a sequence of these tokens loses.
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
        // The next token itself goes into the last block, if that is not full.
        let needs = |group, block| self.block_seen(group, keep, block);
        let gone = |(group, lost): (usize, &Vec<bool>)| {
            lost.iter().enumerate().any(|(block, lost)| *lost && block * 16 < keep && needs(group, block))
        };
        !want.lost.iter().enumerate().any(gone)
    }
}

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

fn play(calls: &[Call], kind: KvKind, rules: Rules) {
    let geometry = KvGeometry {
        kind,
        element: KvType::F32,
        level: Level::detect(),
        layers: 3,
        groups: rules.groups,
        kv_heads: 2,
        head_dim: 3,
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

/// A block is there exactly if it was not lost, and what the next token sees is what was written.
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

/// Every block is referenced as often as sequences hold it.
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
