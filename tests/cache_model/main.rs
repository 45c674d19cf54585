//! The whole cache, compared with a model that keeps plain vectors. Random calls of every kind are made, and after each
//! of them the contents, the books and the statistics are checked. One story also runs in pools of every size.

mod books;
mod calls;
use common::Memory;
use common::random::Rng;
use gleed::cache::{CacheError, KvCache, KvGeometry, KvShape, LayerGroups, SeqId, Visibility};
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
        shapes: [KvShape { heads: kv_heads, head_dim }; 2],
        sequences,
        context,
        blocks,
        prefix_cache,
        visibility,
        rows,
    }
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
    // Counts show that the calls reached refusals, full pools, reuse and evictions.
    let [refusals, full, reused, evicted] = totals;
    assert!(refusals > full && full > 300 && reused > 5_000 && evicted > 30, "{totals:?}");
}

/// Plays the same story in pools of every size. Each refused call leaves everything as it was.
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

/// Plays random calls. Returns the number of refused calls, of calls refused for want of blocks, of reused tokens, and
/// of closed sequences.
fn play(geometry: KvGeometry, seed: u64, calls: u64) -> [usize; 4] {
    let mut measuring = Arena::measuring();
    KvCache::carve(&mut measuring, geometry).unwrap();
    let mut memory = Memory::new(measuring.used());
    let mut cache = KvCache::carve(&mut Arena::new(memory.bytes()).unwrap(), geometry).unwrap();
    let (live, pinned, rng) = (Vec::new(), Vec::new(), Rng::new(0));
    let mut world = World { cache: &mut cache, live, pinned, rng, refusals: 0, full: 0, reused: 0, evicted: 0 };
    for call in 0..calls {
        // A call depends on its number only, not on the results of earlier calls.
        world.rng = Rng::new(seed << 32 | call);
        world.random_call();
    }
    world.finish();
    [world.refusals, world.full, world.reused, world.evicted]
}

/// A cache and its model.
struct World<'c, 'a> {
    cache: &'c mut KvCache<'a>,
    /// Open sequences, the least recently used first.
    live: Vec<Live>,
    pinned: Vec<Vec<u32>>,
    rng: Rng,
    /// Number of refused calls.
    refusals: usize,
    /// Number of calls that were refused for want of blocks.
    full: usize,
    reused: usize,
    evicted: usize,
}

impl World<'_, '_> {
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

    fn groups(&self) -> usize {
        self.cache.geometry().groups.count()
    }

    fn touch(&mut self, index: usize) {
        let live = self.live.remove(index);
        self.live.push(live);
    }
}

/// One token of a sequence, and the number from which its keys and values are made.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Row {
    token: u32,
    contents: u64,
    /// Whether the model computed this row and all rows before it.
    computed: bool,
}

impl Row {
    /// Returns the row that a model would compute: it depends on the token and on all rows before.
    fn computed(rows: &[Row], token: u32) -> Self {
        let (before, computed) = rows.last().map_or((1, true), |row| (row.contents, row.computed));
        Self { token, contents: xxh64(&token.to_le_bytes(), before), computed }
    }

    fn k_and_v(&self, layer: usize) -> [Vec<f32>; 2] {
        [0, 1].map(|value| {
            let word = xxh64(&[layer as u8, value], self.contents);
            // Whole numbers that f16 can represent.
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
