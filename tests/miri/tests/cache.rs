//! The cache without an engine: rows are stored, forks share and copy blocks, a rewind frees blocks, and rows are read
//! back.

use gleed::cache::{KvCache, KvGeometry, KvKind, KvShape, KvType, LayerGroups, Visibility};
use gleed::kernels::Level;
use gleed::mem::Arena;
use gleed_miri::Memory;

/// Number of elements of a row of keys or values.
const ROW: usize = 4;
const CONTEXT: usize = 40;

fn geometry(kind: KvKind) -> KvGeometry {
    KvGeometry {
        kind,
        element: KvType::F32,
        level: Level::detect(),
        layers: 1,
        groups: LayerGroups::ONE,
        shapes: [KvShape { heads: 2, head_dim: 2 }; 2],
        sequences: 2,
        context: CONTEXT,
        blocks: 6,
        visibility: [Visibility::ALL; 2],
        rows: 16,
        prefix_cache: false,
    }
}

#[test]
fn forks_and_rewinds() {
    let geometry = geometry(KvKind::Paged);
    let mut measuring = Arena::measuring();
    KvCache::carve(&mut measuring, geometry).unwrap();
    let mut memory = Memory::new(measuring.used());
    let mut cache = KvCache::carve(&mut Arena::new(memory.bytes()).unwrap(), geometry).unwrap();

    let keys: Vec<f32> = (0..20 * ROW).map(|x| x as f32).collect();
    let seq = cache.open().unwrap();
    cache.set_prefill(seq, 0, &keys, &[0.5; 20 * ROW]).unwrap();
    // The fork's second block is copied before the row is written.
    let fork = cache.fork(seq, 18).unwrap();
    cache.push_row(fork, 0, &[1.0; ROW], &[2.0; ROW]).unwrap();
    cache.rewind(seq, 3).unwrap();
    assert_eq!(cache.check(), Ok(()));
    let (mut k, mut v) = ([0.0; 19 * ROW], [0.0; 19 * ROW]);
    cache.materialize(fork, 0, &mut k, &mut v).unwrap();
    assert_eq!((&k[..18 * ROW], &k[18 * ROW..]), (&keys[..18 * ROW], &[1.0; ROW][..]));
    assert_eq!((v[18 * ROW - 1], v[18 * ROW]), (0.5, 2.0));

    cache.close(fork).unwrap();
    cache.close(seq).unwrap();
    assert_eq!((cache.check(), cache.stats().pools[0].used), (Ok(()), 0));
}

#[test]
fn a_full_cache_refuses_a_row() {
    let geometry = geometry(KvKind::Basic);
    let mut measuring = Arena::measuring();
    KvCache::carve(&mut measuring, geometry).unwrap();
    let mut memory = Memory::new(measuring.used());
    let mut cache = KvCache::carve(&mut Arena::new(memory.bytes()).unwrap(), geometry).unwrap();
    let seq = cache.open().unwrap();
    cache.set_prefill(seq, 0, &[1.0; CONTEXT * ROW], &[1.0; CONTEXT * ROW]).unwrap();
    assert!(cache.push_row(seq, 0, &[1.0; ROW], &[2.0; ROW]).is_err());
    assert_eq!((cache.check(), cache.seq_len(seq)), (Ok(()), Ok(CONTEXT)));
}
