//! The whole cache against a model that keeps plain vectors: random calls of every kind, and after each of
//! them the contents, the books and the statistics; and one story in pools of every size.

mod common;

use std::io::Read;

use common::Memory;
use common::random::Rng;
use gleed::cache::{
    CacheError, CacheStats, KvCache, KvGeometry, LayerGroups, SeqId, SnapshotError, SnapshotOptions, Visibility,
};
use gleed::kernels::Level;
use gleed::mem::Arena;
use gleed::{KvKind, KvType};
use xxhash_rust::xxh64::xxh64;

const LAYERS: usize = 3;
const WIDTH: usize = 4;
const CONTEXT: usize = 70;
const VOCAB: usize = 100;

fn geometry(kind: KvKind, groups: LayerGroups, blocks: usize, prefix_cache: bool) -> KvGeometry {
    let (kv_heads, head_dim, sequences, context, element) = (2, WIDTH / 2, 5, CONTEXT, KvType::F16);
    let (layers, level) = (LAYERS, Level::detect());
    let (visibility, rows) = ([Visibility::ALL; 2], 16);
    KvGeometry {
        kind,
        element,
        level,
        layers,
        groups,
        kv_heads,
        head_dim,
        sequences,
        context,
        blocks,
        prefix_cache,
        visibility,
        rows,
    }
}

/// One token of a sequence, and what its keys and values are made of.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Row {
    token: u32,
    contents: u64,
    /// Whether the model computed it and all before it.
    computed: bool,
}

impl Row {
    /// What a model does: the row depends on the token and on all rows before.
    fn computed(rows: &[Row], token: u32) -> Self {
        let (before, computed) = rows.last().map_or((1, true), |row| (row.contents, row.computed));
        Self { token, contents: xxh64(&token.to_le_bytes(), before), computed }
    }

    fn k_and_v(&self, layer: usize) -> [Vec<f32>; 2] {
        [0, 1].map(|value| {
            let word = xxh64(&[layer as u8, value], self.contents);
            // Whole numbers that f16 has.
            (0..WIDTH).map(|i| (word >> (16 * i) & 0x7ff) as f32).collect()
        })
    }
}

struct Live {
    seq: SeqId,
    rows: Vec<Row>,
    reserved: Vec<u32>,
}

impl Live {
    fn tokens(&self) -> Vec<u32> {
        self.rows.iter().map(|row| row.token).collect()
    }
}

/// All that can be seen of the books.
#[derive(Debug, PartialEq)]
struct Seen {
    stats: CacheStats,
    tables: Vec<Vec<u32>>,
    /// References, pins, tokens, whether it is finalized and known.
    blocks: Vec<(u32, u32, usize, bool, bool)>,
    lengths: Vec<usize>,
}

/// A cache and its model.
struct World<'c, 'a> {
    cache: &'c mut KvCache<'a>,
    /// Open sequences, the least recently used first.
    live: Vec<Live>,
    pinned: Vec<Vec<u32>>,
    rng: Rng,
    /// Refused calls, and those among them for want of blocks.
    refusals: usize,
    full: usize,
    reused: usize,
    evicted: usize,
}

impl World<'_, '_> {
    fn groups(&self) -> usize {
        self.cache.geometry().groups.count()
    }

    fn see(&self) -> Seen {
        let (mut tables, mut blocks) = (Vec::new(), Vec::new());
        for group in 0..self.groups() {
            let allocator = self.cache.allocator(group).unwrap();
            for live in &self.live {
                tables.push(self.cache.block_table(live.seq, group).unwrap().blocks().to_vec());
            }
            for block in 0..allocator.len() as u32 {
                let meta = allocator.meta(block).unwrap();
                let num_tokens = meta.num_tokens();
                blocks.push((meta.ref_count(), meta.pins(), num_tokens, meta.finalized(), meta.is_cached()));
            }
        }
        let lengths = self.live.iter().map(|live| self.cache.seq_len(live.seq).unwrap()).collect();
        Seen { stats: self.cache.stats(), tables, blocks, lengths }
    }

    fn available(&self) -> Vec<usize> {
        (0..self.groups()).map(|group| self.cache.allocator(group).unwrap().available_blocks()).collect()
    }

    /// Books, contents and statistics.
    fn verify(&self) {
        assert_eq!(self.cache.check(), Ok(()));
        let stats = self.cache.stats();
        assert_eq!(stats.sequences, self.live.len());
        let mut own = [0; 2];
        for live in &self.live {
            let found = self.cache.sequence_stats(live.seq).unwrap();
            assert_eq!(found.tokens, live.rows.len());
            let tables = (live.rows.len() + live.reserved.len()).div_ceil(16);
            for (own, blocks) in own.iter_mut().zip(&found.blocks[..self.groups()]) {
                // The original of a pending copy is held, too.
                assert!((tables..=tables + 1).contains(&(blocks.own + blocks.shared)));
                *own += blocks.own;
            }
            self.verify_contents(live);
        }
        for (group, pool) in stats.pools.iter().enumerate().take(self.groups()) {
            assert_eq!(pool.total, pool.used + pool.free + pool.reclaimable);
            assert!(own[group] <= pool.used && pool.pinned <= pool.used);
            assert_eq!(pool.free, self.cache.allocator(group).unwrap().free_blocks());
        }
    }

    fn verify_contents(&self, live: &Live) {
        assert_eq!(self.cache.seq_len(live.seq), Ok(live.rows.len()));
        if !live.reserved.is_empty() {
            // Its last block may be a copy that is not complete.
            return;
        }
        for layer in 0..LAYERS {
            let len = live.rows.len() * WIDTH;
            let (mut k, mut v) = (vec![f32::NAN; len], vec![f32::NAN; len]);
            self.cache.materialize(live.seq, layer, &mut k, &mut v).unwrap();
            for (row, (k, v)) in live.rows.iter().zip(k.chunks(WIDTH).zip(v.chunks(WIDTH))) {
                let [wanted_k, wanted_v] = row.k_and_v(layer);
                assert!(wanted_k == k && wanted_v == v, "layer {layer}");
            }
        }
    }

    /// Tokens that are often those of another sequence.
    fn some_tokens(&mut self, from: usize, len: usize) -> Vec<u32> {
        let story = self.rng.below(3) as u32;
        let token = |position| if position < 21 { 7 } else { story + position as u32 / 30 };
        (from..from + len).map(token).collect()
    }

    fn touch(&mut self, index: usize) {
        let live = self.live.remove(index);
        self.live.push(live);
    }

    fn open(&mut self) -> Result<(), CacheError> {
        let seq = self.cache.open()?;
        self.live.push(Live { seq, rows: Vec::new(), reserved: Vec::new() });
        Ok(())
    }

    fn reserve(&mut self, index: usize) -> Result<(), CacheError> {
        let len = 1 + self.rng.below(35);
        let reserved = self.some_tokens(self.live[index].rows.len(), len);
        let (seq, available) = (self.live[index].seq, self.available());
        self.cache.reserve(seq, reserved.iter().copied())?;
        assert!(self.available().iter().zip(&available).all(|(after, before)| after <= before));
        self.live[index].reserved = reserved;
        self.touch(index);
        if self.rng.below(2) == 0 {
            self.cache.copy_unit(seq)?;
        }
        Ok(())
    }

    /// Writes and commits reserved rows, all or some.
    fn commit(&mut self, index: usize, computed: bool) -> Result<(), CacheError> {
        let live = &mut self.live[index];
        while self.cache.copy_unit(live.seq)? {}
        let rows = if self.rng.below(3) == 0 { self.rng.below(live.reserved.len() + 1) } else { live.reserved.len() };
        for token in live.reserved.drain(..rows) {
            let mut row = Row::computed(&live.rows, token);
            if !computed {
                (row.contents, row.computed) = (self.rng.below(1 << 30) as u64, false);
            }
            for layer in 0..LAYERS {
                let [k, v] = row.k_and_v(layer);
                self.cache.write_row(live.seq, layer, live.rows.len(), &k, &v)?;
            }
            live.rows.push(row);
        }
        if computed { self.cache.commit_computed(live.seq, rows) } else { self.cache.commit(live.seq, rows) }
    }

    fn import(&mut self, index: usize) -> Result<(), CacheError> {
        let mut row = Row::computed(&[], u32::MAX);
        (row.contents, row.computed) = (self.rng.below(1 << 30) as u64, false);
        for layer in 0..LAYERS {
            let [k, v] = row.k_and_v(layer);
            self.cache.push_row(self.live[index].seq, layer, &k, &v)?;
        }
        self.live[index].rows.push(row);
        self.touch(index);
        Ok(())
    }

    fn fork(&mut self, index: usize) -> Result<(), CacheError> {
        let live = &self.live[index];
        let keep = self.rng.below(live.rows.len() + 2);
        let seq = self.cache.fork(live.seq, keep)?;
        let rows = live.rows[..keep].to_vec();
        self.touch(index);
        self.live.push(Live { seq, rows, reserved: Vec::new() });
        Ok(())
    }

    fn rewind(&mut self, index: usize) -> Result<(), CacheError> {
        let keep = self.rng.below(self.live[index].rows.len() + 2);
        self.cache.rewind(self.live[index].seq, keep)?;
        self.live[index].rows.truncate(keep);
        Ok(())
    }

    /// Closing makes exactly the sequence's own blocks available.
    fn close(&mut self, index: usize) -> Result<(), CacheError> {
        let live = self.live.remove(index);
        let before = self.available();
        let stats = self.cache.sequence_stats(live.seq)?;
        self.cache.close(live.seq)?;
        for (group, (before, after)) in before.into_iter().zip(self.available()).enumerate() {
            assert_eq!(after, before + stats.blocks[group].own);
        }
        assert_eq!(self.cache.close(live.seq), Err(CacheError::UnknownSequence { sequence: live.seq.to_bits() }));
        Ok(())
    }

    /// At least what an open sequence has, or a pin keeps, is found; what is found is right.
    fn reuse(&mut self, index: usize) -> Result<(), CacheError> {
        let mut tokens = match self.rng.below(2) {
            0 => self.some_tokens(0, CONTEXT),
            _ => self.live[self.rng.below(self.live.len())].tokens(),
        };
        tokens.truncate(self.rng.below(CONTEXT));
        let before = self.cache.stats().prefix;
        let found = self.cache.reuse(self.live[index].seq, &tokens)?;
        let most = tokens.len().saturating_sub(1);
        let common = |others: &[u32]| others.iter().zip(&tokens[..most]).take_while(|(a, b)| a == b).count() / 16 * 16;
        let held = self.live.iter().map(|live| {
            let computed = live.rows.iter().take_while(|row| row.computed).map(|row| row.token);
            common(&computed.collect::<Vec<_>>())
        });
        let least = held.chain(self.pinned.iter().map(|pinned| common(pinned))).max().unwrap_or(0);
        if self.cache.geometry().prefix_cache {
            assert!(found >= least, "{found} found, {least} known");
        } else {
            assert_eq!(found, 0);
        }
        assert!(found <= most && found % 16 == 0);
        let after = self.cache.stats().prefix;
        assert_eq!(after.lookups, before.lookups + 1);
        assert_eq!(after.hits, before.hits + u64::from(found > 0));
        assert_eq!(after.hit_tokens, before.hit_tokens + found as u64);
        assert_eq!(after.missed_tokens, before.missed_tokens + (tokens.len() - found) as u64);
        for &token in &tokens[..found] {
            let row = Row::computed(&self.live[index].rows, token);
            self.live[index].rows.push(row);
        }
        self.touch(index);
        self.reused += found;
        Ok(())
    }

    fn pin(&mut self, index: usize) -> Result<(), CacheError> {
        let mut tokens = self.live[index].tokens();
        let count = self.cache.pin(&tokens)?;
        assert!(count % 16 == 0 && count <= tokens.len());
        tokens.truncate(count);
        self.pinned.push(tokens);
        Ok(())
    }

    fn unpin(&mut self) -> Result<(), CacheError> {
        if !self.pinned.is_empty() {
            let tokens = self.pinned.swap_remove(self.rng.below(self.pinned.len()));
            assert_eq!(self.cache.unpin(&tokens), Ok(tokens.len()));
        }
        Ok(())
    }

    /// The least recently used first; no more than needed; none if all are not enough.
    fn make_room(&mut self, index: usize) -> Result<(), CacheError> {
        let (seq, rows, all) = (self.live[index].seq, 1 + self.rng.below(60), self.rng.below(2) == 0);
        let mut asked = Vec::new();
        let rng = &mut self.rng;
        let result = self.cache.make_room(seq, rows, &mut |candidate, stats| {
            let consent = all || rng.below(3) > 0;
            assert!(stats.total().own + stats.total().shared > 0);
            asked.push((candidate, consent));
            consent
        });
        let order: Vec<SeqId> = self.live.iter().map(|live| live.seq).collect();
        let place = |seq: &SeqId| order.iter().position(|other| other == seq).unwrap();
        assert!(asked.is_sorted_by_key(|(seq, _)| place(seq)));
        match result {
            Ok(closed) => {
                let open = self.live.len();
                self.live.retain(|live| self.cache.seq_len(live.seq).is_ok());
                assert_eq!(self.live.len() + closed, open);
                assert_eq!(self.cache.can_extend(seq, rows), Ok(()));
                let left = |seq: &SeqId| self.live.iter().any(|live| live.seq == *seq);
                for before in order.iter().filter(|seq| !left(seq)) {
                    assert!(asked.contains(&(*before, true)) && *before != seq);
                }
                self.evicted += closed;
                Ok(())
            }
            Err(error) => {
                assert_eq!(self.cache.can_extend(seq, rows), Err(error));
                if all && matches!(error, CacheError::OutOfBlocks { .. }) && self.rng.below(4) == 0 {
                    // It was right: without all that are idle there is no room either.
                    self.live.retain(|live| {
                        let keep = live.seq == seq || !live.reserved.is_empty();
                        keep || self.cache.close(live.seq).is_err()
                    });
                    assert!(self.cache.can_extend(seq, rows).is_err());
                    return Ok(());
                }
                Err(error)
            }
        }
    }

    /// What comes from bytes has the same rows, but is not known to be computed.
    fn copy_by_snapshot(&mut self, index: usize) -> Result<(), CacheError> {
        let live = &self.live[index];
        let cache_error = |error| match error {
            SnapshotError::Cache(error) => error,
            other => panic!("{other}"),
        };
        let mut bytes = Vec::new();
        let write = &mut |piece: &[u8]| {
            bytes.extend_from_slice(piece);
            true
        };
        self.cache.write_snapshot(live.seq, 1, &SnapshotOptions::default(), write).map_err(cache_error)?;
        let mut rest = &bytes[..];
        let read = &mut |piece: &mut [u8]| rest.read(piece).ok();
        let (seq, _) = self.cache.read_snapshot(1, VOCAB, None, read).map_err(cache_error)?;
        let rows = live.rows.iter().map(|row| Row { computed: false, ..*row }).collect();
        self.live.push(Live { seq, rows, reserved: Vec::new() });
        Ok(())
    }

    fn random_call(&mut self) {
        if self.live.is_empty() {
            return self.open().unwrap();
        }
        let index = self.rng.below(self.live.len());
        let before = self.see();
        let keeps = self.cache.kind() != KvKind::Off;
        let result = match self.rng.below(24) {
            0 | 1 => self.open(),
            2..6 => self.reserve(index),
            6..9 => self.commit(index, true),
            9 => self.commit(index, false),
            10 if keeps => self.import(index),
            11 | 12 => self.fork(index),
            13 => self.rewind(index),
            14 => self.close(index),
            15 if self.rng.below(2) == 0 => self.cache.clear(self.live[index].seq).map(|()| {
                self.live[index].rows.clear();
                self.live[index].reserved.clear();
            }),
            15 => self.cache.release(self.live[index].seq).map(|()| self.live[index].reserved.clear()),
            16 => self.reuse(index),
            20 | 21 => match self.live.iter().position(|live| live.rows.is_empty() && live.reserved.is_empty()) {
                Some(empty) => self.reuse(empty),
                None => self.open().and_then(|()| self.reuse(self.live.len() - 1)),
            },
            22 if self.live[index].reserved.is_empty() => self.close(index),
            23 => self.commit(index, true),
            17 if self.rng.below(2) == 0 => self.pin(index),
            17 => self.unpin(),
            18 => self.make_room(index),
            _ => self.copy_by_snapshot(index),
        };
        if let Err(error) = result {
            assert!(!matches!(error, CacheError::Internal(_)), "{error}");
            assert_eq!(self.see(), before, "{error}");
            self.refusals += 1;
            self.full += usize::from(matches!(error, CacheError::OutOfBlocks { .. }));
        }
        self.verify();
    }

    /// Without sequences and pins everything is available.
    fn finish(&mut self) {
        while !self.live.is_empty() {
            self.close(0).unwrap();
        }
        while !self.pinned.is_empty() {
            self.unpin().unwrap();
        }
        self.verify();
        for group in 0..self.groups() {
            let allocator = self.cache.allocator(group).unwrap();
            assert_eq!(allocator.available_blocks(), allocator.len());
        }
        assert!(self.cache.stats().pools.iter().all(|pool| pool.used == 0 && pool.pinned == 0));
    }
}

/// Plays random calls: how many were refused, and for want of blocks, tokens reused, sequences evicted.
fn play(geometry: KvGeometry, seed: u64, calls: u64) -> [usize; 4] {
    let mut measuring = Arena::measuring();
    KvCache::carve(&mut measuring, geometry).unwrap();
    let mut memory = Memory::new(measuring.used());
    let mut cache = KvCache::carve(&mut Arena::new(memory.bytes()).unwrap(), geometry).unwrap();
    let (live, pinned, rng) = (Vec::new(), Vec::new(), Rng::new(0));
    let mut world = World { cache: &mut cache, live, pinned, rng, refusals: 0, full: 0, reused: 0, evicted: 0 };
    for call in 0..calls {
        // What a call does depends on its number, not on how those before it ended.
        world.rng = Rng::new(seed << 32 | call);
        world.random_call();
    }
    world.finish();
    [world.refusals, world.full, world.reused, world.evicted]
}

const GROUPS: [LayerGroups; 2] = [LayerGroups::ONE, LayerGroups::alternating(2)];

#[test]
fn random_calls_are_as_in_plain_vectors() {
    let mut totals = [0; 4];
    for seed in 0..240 {
        let groups = GROUPS[seed % 2];
        let kind = if seed % 10 < 8 { KvKind::Paged } else { KvKind::ALL[seed / 10 % 3] };
        let prefix_cache = kind == KvKind::Paged && seed % 7 != 0;
        let counts = play(geometry(kind, groups, 4 + seed % 17, prefix_cache), seed as u64, 120);
        totals = std::array::from_fn(|i| totals[i] + counts[i]);
    }
    // The calls reach what they are to reach.
    let [refusals, full, reused, evicted] = totals;
    assert!(refusals > full && full > 300 && reused > 5_000 && evicted > 30, "{totals:?}");
}

/// The same story in pools of every size: each call that is refused leaves everything as it was.
#[test]
fn a_pool_that_is_full_at_every_possible_block() {
    for groups in GROUPS {
        for (prefix_cache, kind) in [(true, KvKind::Paged), (false, KvKind::Paged), (false, KvKind::Off)] {
            let play = |blocks| play(geometry(kind, groups, blocks, prefix_cache), 1000, 150)[1];
            let full: Vec<usize> = (0..=32).map(play).collect();
            assert!(full[0] > 0 && full[32] == 0, "{full:?}");
        }
    }
}
