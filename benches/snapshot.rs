//! Snapshots of 1,024 tokens of a model of 0.6B parameters: writing and reading them, beside the hash and the copy that
//! both contain.
//!
//! ```text
//! cargo bench --bench snapshot
//! ```
//!
//! The column "fastest" is the one to look at on a busy machine; rates are bytes of the snapshot.

use divan::Bencher;
use divan::counter::BytesCount;
use gleed::cache::{KvCache, KvGeometry, KvShape, LayerGroups, SeqId, SnapshotOptions, Visibility};
use gleed::kernels::Level;
use gleed::mem::{ALIGN, Arena};
use gleed::num::Xxh64;
use gleed::{KvKind, KvType};

/// A few tokens are enough where the benchmarks only run as tests.
const TOKENS: usize = if cfg!(debug_assertions) { 32 } else { 1024 };
const VOCAB: usize = 1000;

fn main() {
    divan::main();
}

fn geometry() -> KvGeometry {
    KvGeometry {
        kind: KvKind::Paged,
        element: KvType::F16,
        level: Level::detect(),
        layers: 28,
        groups: LayerGroups::ONE,
        shapes: [KvShape { heads: 8, head_dim: 128 }; 2],
        sequences: 2,
        context: TOKENS,
        blocks: TOKENS / 16,
        prefix_cache: false,
        visibility: [Visibility::ALL; 2],
        rows: 64,
    }
}

/// Calls `test` with a cache that holds one sequence of [`TOKENS`] tokens.
fn with_cache(test: impl FnOnce(&mut KvCache<'_>, SeqId)) {
    let mut measuring = Arena::measuring();
    KvCache::carve(&mut measuring, geometry()).unwrap();
    let mut memory = vec![0; measuring.used() + ALIGN];
    let start = memory.as_ptr().align_offset(ALIGN);
    let mut cache = KvCache::carve(&mut Arena::new(&mut memory[start..]).unwrap(), geometry()).unwrap();
    let seq = cache.open().unwrap();
    let rows: Vec<f32> = (0..TOKENS * 1024).map(|i| (i % 1999) as f32 / 999.0 - 1.0).collect();
    for layer in 0..geometry().layers {
        cache.set_prefill(seq, layer, &rows, &rows).unwrap();
    }
    test(&mut cache, seq);
}

fn write(cache: &KvCache<'_>, seq: SeqId, out: &mut [u8]) -> u64 {
    let mut at = 0;
    let mut sink = |bytes: &[u8]| {
        out[at..at + bytes.len()].copy_from_slice(bytes);
        at += bytes.len();
        true
    };
    cache.write_snapshot(seq, 1, &SnapshotOptions::default(), &mut sink).unwrap()
}

fn read(cache: &mut KvCache<'_>, mut bytes: &[u8]) -> SeqId {
    let mut source = |place: &mut [u8]| {
        let (given, rest) = bytes.split_at(place.len().min(bytes.len()));
        place[..given.len()].copy_from_slice(given);
        bytes = rest;
        Some(given.len())
    };
    cache.read_snapshot(1, VOCAB, None, &mut source).unwrap().0
}

fn bytes(cache: &KvCache<'_>, seq: SeqId) -> Vec<u8> {
    let mut bytes = vec![0; cache.snapshot_len(seq, &SnapshotOptions::default()).unwrap()];
    assert_eq!(write(cache, seq, &mut bytes), bytes.len() as u64);
    bytes
}

/// Writes to a buffer.
#[divan::bench]
fn write_to_buffer(bencher: Bencher<'_, '_>) {
    with_cache(|cache, seq| {
        let mut out = bytes(cache, seq);
        bencher.counter(BytesCount::new(out.len())).bench_local(|| write(cache, seq, &mut out));
    });
}

/// Writes to a host that does nothing with the bytes.
#[divan::bench]
fn write_to_nowhere(bencher: Bencher<'_, '_>) {
    with_cache(|cache, seq| {
        let len = cache.snapshot_len(seq, &SnapshotOptions::default()).unwrap();
        let options = SnapshotOptions::default();
        bencher
            .counter(BytesCount::new(len))
            .bench_local(|| cache.write_snapshot(seq, 1, &options, &mut |_| true).unwrap());
    });
}

/// Verifies and restores from a buffer. The written sequence is closed, so that its blocks are used again.
#[divan::bench]
fn restore_from_buffer(bencher: Bencher<'_, '_>) {
    with_cache(|cache, seq| {
        let snapshot = bytes(cache, seq);
        cache.close(seq).unwrap();
        bencher.counter(BytesCount::new(snapshot.len())).bench_local(|| {
            let seq = read(cache, &snapshot);
            cache.close(seq).unwrap();
        });
    });
}

/// The cost of the checksums: a hash of the snapshot's bytes.
#[divan::bench]
fn hash(bencher: Bencher<'_, '_>) {
    with_cache(|cache, seq| {
        let snapshot = bytes(cache, seq);
        bencher.counter(BytesCount::new(snapshot.len())).bench_local(|| Xxh64::hash(&snapshot));
    });
}

/// The cost of copying the snapshot's bytes.
#[divan::bench]
fn copy(bencher: Bencher<'_, '_>) {
    with_cache(|cache, seq| {
        let snapshot = bytes(cache, seq);
        let mut out = snapshot.clone();
        bencher.counter(BytesCount::new(snapshot.len())).bench_local(|| out.copy_from_slice(&snapshot));
    });
}
