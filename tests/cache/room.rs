//! Full pools, and sizes for which no pool is possible.

use gleed::cache::{CacheError, KvCache, KvGeometry, KvShape, LayerGroups, SeqId};
use gleed::mem::{Arena, MemoryError};
use gleed::{KvKind, KvType};

use crate::{append, geometry, push_row, see, with_cache};

#[test]
fn a_full_pool_is_refused_before_anything_changes() {
    for groups in [LayerGroups::ONE, LayerGroups::alternating(2)] {
        for kind in [KvKind::Off, KvKind::Paged] {
            let small = KvGeometry { blocks: 5, ..geometry(kind, KvType::F32, groups) };
            with_cache(small, |cache| {
                let (a, b) = (cache.open().unwrap(), cache.open().unwrap());
                append(cache, a, &(0..37).collect::<Vec<u32>>()).unwrap();
                append(cache, b, &[1]).unwrap();
                let before = see(cache, &[a, b]);
                let full = |needed, free| Err(CacheError::OutOfBlocks { needed, free });
                assert_eq!(append(cache, b, &[2; 32]), full(2, 1));
                assert_eq!(cache.can_extend(b, 69), full(4, 1));
                if kind == KvKind::Off {
                    assert_eq!(cache.fork(a, 17).map(drop), full(2, 1));
                } else {
                    assert_eq!(push_row(cache, b, 3).and(cache.rewind(b, 1)), Ok(()));
                }
                assert_eq!(see(cache, &[a, b]).blocks[0].0, before.blocks[0].0);
                append(cache, b, &[2; 16]).unwrap();
                assert_eq!(cache.can_extend(a, 12), full(1, 0));
                assert_eq!(cache.can_extend(a, 11), Ok(()));
                if kind == KvKind::Paged {
                    // The fork itself needs no block, but a write into the shared block needs one.
                    let fork = cache.fork(a, 37).unwrap();
                    let before = see(cache, &[a, b, fork]);
                    assert_eq!(append(cache, fork, &[9]), full(1, 0));
                    assert_eq!(append(cache, a, &[9]), full(1, 0));
                    assert_eq!(see(cache, &[a, b, fork]), before);
                    cache.close(a).unwrap();
                    append(cache, fork, &[9]).unwrap();
                }
            });
        }
    }
}

#[test]
fn basic_always_has_room_for_all() {
    // The geometry has fewer blocks than all sequences need. This kind of cache reserves them all the same.
    let few = KvGeometry { blocks: 1, ..geometry(KvKind::Basic, KvType::F16, LayerGroups::ONE) };
    with_cache(few, |cache| {
        let all: Vec<SeqId> = (0..4).map(|_| cache.open().unwrap()).collect();
        for &seq in &all {
            append(cache, seq, &[3; 70]).unwrap();
        }
        assert_eq!(cache.block_table(all[2], 0).unwrap().blocks(), [10, 11, 12, 13, 14]);
    });
}

#[test]
fn sizes_that_can_not_be() {
    let paged = geometry(KvKind::Paged, KvType::F32, LayerGroups::ONE);
    let carve = |geometry| KvCache::carve(&mut Arena::measuring(), geometry).map(drop);
    for kind in KvKind::ALL {
        for geometry in [
            KvGeometry { shapes: [KvShape { heads: 2, head_dim: usize::MAX / 2 }; 2], ..paged },
            KvGeometry { sequences: usize::MAX / 2, ..paged },
            KvGeometry { sequences: SeqId::MAX + 1, ..paged },
            KvGeometry { blocks: usize::MAX / 100, ..paged },
            KvGeometry { context: usize::MAX, sequences: 1 << 15, ..paged },
        ] {
            if kind != KvKind::Basic || geometry.blocks == paged.blocks {
                assert_eq!(carve(KvGeometry { kind, ..geometry }), Err(MemoryError::TooLarge), "{geometry:?}");
            }
        }
    }
}
