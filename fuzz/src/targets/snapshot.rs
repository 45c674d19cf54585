//! Damaged snapshots, most of them with correct checksums, read from a buffer and through a callback. A refused
//! snapshot changes nothing. An accepted one is a sequence like others.

use std::ops::Range;
use std::sync::LazyLock;

use gleed::cache::{CacheStats, SnapshotHeader, SnapshotOptions};
use gleed::{Engine, EngineError, KvKind, Limits, Model, Plan, SeqId, StreamError, Window};
use xxhash_rust::xxh64::xxh64;

use crate::support::memory::Peek;
use crate::support::models::{kv_type, tiny};
use crate::support::{Bytes, Exact, expected, forbidden, many, random_of, tried, usual};
use common::synthetic::{Architecture, SyntheticModel};

static FILES: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let small = |architecture| SyntheticModel { hidden: 8, ffn: 8, head_dim: 5, ..tiny(architecture) };
    let windowed = SyntheticModel { layers: 3, head_dim: 34, kv_heads: 2, ..small(Architecture::Gemma2) };
    let recurrent = SyntheticModel::of(Architecture::Lfm2);
    let recurrent = SyntheticModel { hidden: 32, ffn: 32, vocab: 11, head_dim: 10, ..recurrent };
    vec![
        small(Architecture::StableLm).bytes(),
        windowed.with("attention.sliding_window", 5u32).bytes(),
        recurrent.bytes(),
    ]
});

/// Number of damaged copies of each snapshot, beside the one that the input describes.
const DAMAGES: usize = 96;
/// One of this many accepted copies is computed on.
const COMPUTED: usize = 8;

pub fn run(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    let model = Model::open(&FILES[bytes.below(FILES.len())]).expect("a model that was made");
    let limits = Limits {
        sequences: 3,
        context: 48,
        window: if bytes.once_in(4) { Window { sinks: bytes.below(3), last: 40 } } else { Window::ALL },
        rows: 16,
        kv_kind: *bytes.pick(&[KvKind::Paged, KvKind::Paged, KvKind::Basic, KvKind::Off]),
        kv_type: kv_type(&mut bytes),
        kv_blocks: if bytes.bool() { 6 } else { 0 },
        prefix_cache: true,
        ..usual()
    };
    let Ok(plan) = Plan::new(&model, &limits) else { return };
    let mut memory = Exact::new(plan.bytes(), 0xEE);
    let peek = memory.peek();
    let mut engine = Engine::new(&model, &plan, memory.bytes()).expect("memory of the plan");
    let seq = engine.open().expect("a sequence");
    let tokens: Vec<u32> = (0..1 + bytes.below(47) as u32).map(|at| at * 7 % 11).collect();
    if engine.prefill(seq, &tokens).is_err() {
        return;
    }
    let base = if bytes.bool() { 0 } else { 16 * bytes.below(tokens.len() / 16 + 1) };
    let state: Vec<u8> = (0..bytes.below(257)).map(|at| at as u8).collect();
    let Some(good) = snapshot(&engine, seq, &SnapshotOptions { base, state: &state, checkpoints: 2 }) else { return };
    let sections: Vec<_> = plan.sections().iter().map(|part| part.offset..part.offset + part.bytes).collect();
    let mut trial =
        Trial { before: Seen::of(&engine, seq, peek, &sections), engine, seq, peek, sections, good, tokens, taken: 0 };
    trial.one(&mut bytes);
    let mut random = random_of(data);
    let mut noise = [0; 48];
    for _ in 0..many(DAMAGES) {
        random.fill(&mut noise);
        trial.one(&mut Bytes::new(&noise));
    }
    // At the end, compare also what the engine reports.
    let Trial { engine, before, .. } = trial;
    assert!(see(&engine, seq) == before.says, "the sequence has changed");
}

/// An engine, one of its sequences, and a snapshot of it.
struct Trial<'m, 'a> {
    engine: Engine<'m, 'a>,
    seq: SeqId,
    peek: Peek,
    sections: Vec<Range<usize>>,
    good: Vec<u8>,
    tokens: Vec<u32>,
    before: Seen,
    taken: usize,
}

/// What an error leaves as it is: the sequence, and what the engine reports. The reports need no comparison if no byte
/// of the memory and no statistic has changed.
struct Seen {
    memory: Vec<u8>,
    stats: CacheStats,
    says: Said,
}

impl Seen {
    fn of(engine: &Engine<'_, '_>, seq: SeqId, peek: Peek, sections: &[Range<usize>]) -> Self {
        Self { memory: peek.copy(sections), stats: engine.stats(), says: see(engine, seq) }
    }
}

impl Trial<'_, '_> {
    /// Damages the snapshot as the bytes choose, and restores it.
    fn one(&mut self, bytes: &mut Bytes<'_>) {
        tried();
        let mut damaged = self.good.clone();
        let changes = bytes.below(6);
        (0..changes).for_each(|_| damage(&mut damaged, bytes));
        let is_sealed = !bytes.once_in(4);
        if is_sealed {
            seal(&mut damaged);
        }
        let is_good = damaged == self.good;
        let from = match bytes.u8() % 3 {
            0 => None,
            1 => Some(self.seq),
            _ => Some(SeqId::from_bits(bytes.u32())),
        };
        let result = restore(&mut self.engine, from, &damaged.into_boxed_slice(), bytes);
        assert_eq!(self.engine.cache().check(), Ok(()));
        match result {
            Ok((restored, header)) => {
                assert!(is_good || is_sealed, "damage that a checksum shows is not seen");
                assert_eq!(self.engine.seq_len(restored), Ok(header.tokens()));
                if self.taken % COMPUTED == 0 {
                    go_on(&mut self.engine, restored, &self.tokens);
                }
                self.taken += 1;
                self.engine.close(restored).expect("an open sequence");
                let after = see(&self.engine, self.seq);
                assert!(after.0 == self.before.says.0, "the sequence has changed");
                self.before = Seen::of(&self.engine, self.seq, self.peek, &self.sections);
            }
            Err(error) => {
                let error = expected(error);
                let is_same =
                    self.peek.is(&self.sections, &self.before.memory) && self.engine.stats() == self.before.stats;
                assert!(is_same || see(&self.engine, self.seq) == self.before.says, "{error:?} changed something");
                let is_whole = changes == 0 && header_of(&self.good).is_some_and(|header| header.base() == 0);
                assert!(!is_whole || matches!(error, EngineError::Cache(_)), "a good snapshot is refused: {error:?}");
                if !is_same {
                    // Only free blocks and scratch have changed.
                    self.before.memory = self.peek.copy(&self.sections);
                }
            }
        }
        assert_eq!(self.engine.cache().check(), Ok(()));
    }
}

fn header_of(bytes: &[u8]) -> Option<SnapshotHeader> {
    SnapshotHeader::parse(bytes).ok()
}

fn snapshot(engine: &Engine<'_, '_>, seq: SeqId, options: &SnapshotOptions<'_>) -> Option<Vec<u8>> {
    let mut out = vec![0; engine.snapshot_len_with(seq, options).ok()?];
    assert_eq!(forbidden(|| engine.snapshot_with(seq, options, &mut out)), Ok(out.len()));
    Some(out)
}

/// The bytes of a snapshot of the sequence, and the statistics of the engine as a text.
type Said = (Option<Vec<u8>>, String);

/// Returns a snapshot of the sequence, and the statistics of the engine.
fn see(engine: &Engine<'_, '_>, seq: SeqId) -> Said {
    (snapshot(engine, seq, &SnapshotOptions::default()), format!("{:?}", engine.stats()))
}

/// Changes some bytes: words of the header, any bytes, a bit, the end, or a length.
fn damage(snapshot: &mut Vec<u8>, bytes: &mut Bytes<'_>) {
    let at = bytes.below(snapshot.len());
    match bytes.u8() % 10 {
        0 | 1 => put(snapshot, 8 + 4 * bytes.below(20), bytes.odd() as u32),
        2 => snapshot[at] = bytes.u8(),
        3 => snapshot[at] ^= 1 << (bytes.u8() % 8),
        4 => snapshot.truncate(at + 1),
        5 => snapshot.resize(snapshot.len() + bytes.below(64), bytes.u8()),
        6 => {
            // Infinities and NaN of all element types.
            let (len, value) = (bytes.below(32), *bytes.pick(&[0xff, 0x7c, 0x7f, 0]));
            snapshot.iter_mut().skip(at).take(len).for_each(|byte| *byte = value);
        }
        7 => {
            let end = (at + bytes.below(64)).min(snapshot.len());
            snapshot.drain(at.max(1)..end.max(at.max(1)));
        }
        8 => {
            let len = snapshot.len() as u32;
            put(snapshot, 16, len);
        }
        _ => {
            let at = *bytes.pick(&[72usize, 76, 12, 36, 40, 44, 48, 52, 56, 60, 64, 68]);
            let near = (word(snapshot, at) as u32).wrapping_add(bytes.u8().into()).wrapping_sub(2);
            put(snapshot, at, near);
        }
    }
}

fn put(bytes: &mut [u8], at: usize, value: u32) {
    if let Some(place) = bytes.get_mut(at..at + 4) {
        place.copy_from_slice(&value.to_le_bytes());
    }
}

fn word(bytes: &[u8], at: usize) -> usize {
    bytes.get(at..at + 4).map_or(0, |word| u32::from_le_bytes(word.try_into().expect("four bytes")) as usize)
}

/// Corrects all checksums that the header leads to.
fn seal(bytes: &mut [u8]) {
    let header = word(bytes, 12);
    let Some(end) = header.checked_sub(8).filter(|_| header >= 96 && header <= bytes.len()) else { return };
    let sum = xxh64(&bytes[..end], 0).to_le_bytes();
    bytes[end..header].copy_from_slice(&sum);
    let mut sums = sum.to_vec();
    let [k, v, layers, heads, dim] = [36, 40, 44, 48, 52].map(|at| word(bytes, at));
    if layers > 64 || heads > 64 || dim > 1024 {
        return;
    }
    let (mut left, mut at) = (word(bytes, 72).saturating_sub(word(bytes, 76)), header);
    while left > 0 {
        let tokens = left.min(16);
        let len = 4 * tokens + layers * heads * (tile(k, dim, tokens, true) + tile(v, dim, tokens, false)) + 8;
        if at + len > bytes.len() {
            return;
        }
        let sum = xxh64(&bytes[at..at + len - 8], 0).to_le_bytes();
        bytes[at + len - 8..at + len].copy_from_slice(&sum);
        sums.extend(sum);
        at += len;
        left -= tokens;
    }
    let elements = if word(bytes, 8) == 2 && word(bytes, 96) > 0 { word(bytes, 88) } else { 0 };
    if elements > 0 {
        // A snapshot of version 2 has the state of recurrent layers behind the blocks.
        let end = at.saturating_add(elements.saturating_mul(4));
        let Some(state) = bytes.get(at..end) else { return };
        let sum = xxh64(state, 0).to_le_bytes();
        let Some(place) = bytes.get_mut(end..end + 8) else { return };
        place.copy_from_slice(&sum);
        sums.extend(sum);
        at = end + 8;
    }
    if let Some(place) = bytes.get_mut(at..at + 8) {
        place.copy_from_slice(&xxh64(&sums, 0).to_le_bytes());
    }
}

/// Returns the bytes of one KV head in one layer of a block, for an element type by its number.
fn tile(number: usize, dim: usize, tokens: usize, is_key: bool) -> usize {
    let scales = 2 * dim.div_ceil(32) * tokens;
    match number {
        0 => 4 * dim * tokens,
        1 => 2 * dim * tokens,
        8 => dim * tokens + scales,
        _ if is_key => dim.div_ceil(2) * tokens + scales,
        _ => tokens.div_ceil(2) * dim + scales,
    }
}

type Restored = Result<(SeqId, SnapshotHeader), EngineError>;

fn restore(engine: &mut Engine<'_, '_>, from: Option<SeqId>, snapshot: &[u8], bytes: &mut Bytes<'_>) -> Restored {
    if bytes.bool() {
        return forbidden(|| engine.restore_with(from, snapshot));
    }
    let (piece, mut rest) = (1 + bytes.below(300), snapshot);
    let source = |out: &mut [u8]| -> Result<usize, ()> {
        let (now, later) = rest.split_at(out.len().min(rest.len()).min(piece));
        out[..now.len()].copy_from_slice(now);
        rest = later;
        Ok(now.len())
    };
    forbidden(|| engine.read_snapshot(from, source)).map_err(|error| match error {
        StreamError::Engine(error) => error,
        StreamError::Host(()) => unreachable!("the callback has not failed"),
    })
}

/// Computes on a restored sequence, and checks that it is not known as the prefix of anything.
fn go_on(engine: &mut Engine<'_, '_>, restored: SeqId, tokens: &[u32]) {
    match forbidden(|| engine.prefill(restored, &[1, 2, 3]).map(|logits| logits.iter().all(|x| x.is_finite()))) {
        Ok(is_finite) => assert!(is_finite),
        Err(error) => match expected(error) {
            EngineError::Cache(_) | EngineError::NonFinite { .. } => {}
            other => panic!("{other:?}"),
        },
    }
    if let Ok(other) = engine.open() {
        let known = engine.reuse(other, tokens).expect("an empty sequence");
        assert!(known <= tokens.len() / 16 * 16);
        engine.close(other).expect("an open sequence");
    }
}
