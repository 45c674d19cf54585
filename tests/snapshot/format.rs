//! The format of `docs/snapshot.md`, byte by byte.

use gleed::cache::{KvCache, KvGeometry, KvShape, LayerGroups, SnapshotHeader, SnapshotOptions, Visibility};
use gleed::kernels::Level;
use gleed::mem::Arena;
use gleed::num::ARITHMETIC_VERSION;
use gleed::{KvElement, KvKind, KvType};
use half::f16;
use xxhash_rust::xxh64::xxh64;

use common::{Memory, elements};

#[test]
fn the_format_is_the_documented_one() {
    for (kind, groups) in [(KvKind::Paged, LayerGroups::ONE), (KvKind::Basic, LayerGroups::alternating(2))] {
        for element_type in KvType::ALL {
            let geometry = KvGeometry {
                kind,
                element: element_type,
                level: Level::detect(),
                layers: 3,
                groups,
                shapes: [KvShape { heads: 2, head_dim: 3 }; 2],
                sequences: 2,
                context: 40,
                blocks: 6,
                prefix_cache: false,
                visibility: [Visibility::ALL; 2],
                rows: 16,
            };
            let mut measuring = Arena::measuring();
            KvCache::carve(&mut measuring, geometry).unwrap();
            let mut memory = Memory::new(measuring.used());
            let mut cache = KvCache::carve(&mut Arena::new(memory.bytes()).unwrap(), geometry).unwrap();
            let seq = cache.open().unwrap();
            let ids: Vec<u32> = (0..37).map(|position| position * 7 + 1).collect();
            cache.reserve(seq, ids.iter().copied()).unwrap();
            for (layer, position) in (0..3).flat_map(|layer| (0..37).map(move |position| (layer, position))) {
                let row =
                    |value| -> [f32; 6] { std::array::from_fn(|i| element(layer, value, position, i / 3, i % 3)) };
                cache.write_row(seq, layer, position, &row(0), &row(1)).unwrap();
            }
            cache.commit(seq, 37).unwrap();
            for base in [0, 16, 32] {
                let options = SnapshotOptions { base, state: b"dice", checkpoints: 0 };
                let mut bytes = Vec::new();
                let mut sink = |piece: &[u8]| {
                    bytes.extend_from_slice(piece);
                    true
                };
                cache.write_snapshot(seq, 0x1122_3344_5566_7788, &options, &mut sink).unwrap();
                assert_eq!(bytes, documented(element_type, &ids, base), "{element_type} {base}");
                assert_eq!(cache.snapshot_len(seq, &options), Ok(bytes.len()));
                let header = SnapshotHeader::parse(&bytes).unwrap();
                assert_eq!((header.tokens(), header.base(), header.state()), (37, base, &b"dice"[..]));
                assert_eq!((header.fingerprint(), header.total_bytes()), (0x1122_3344_5566_7788, bytes.len() as u64));
            }
        }
    }
}

/// Returns element `[layer][value][position][head][dim]`, which is exact in f16.
fn element(layer: usize, value: usize, position: usize, head: usize, dim: usize) -> f32 {
    (((layer * 2 + value) * 40 + position) * 6 + head * 3 + dim) as f32
}

/// Returns the bytes that `docs/snapshot.md` specifies for three layers of two heads of three elements.
fn documented(element_type: KvType, ids: &[u32], base: usize) -> Vec<u8> {
    let mut blocks = Vec::new();
    for (index, ids) in ids.chunks(16).enumerate() {
        let mut block: Vec<u8> = ids.iter().flat_map(|id| id.to_le_bytes()).collect();
        for (layer, head) in (0..3).flat_map(|layer| [(layer, 0), (layer, 1)]) {
            let rows = |value| -> Vec<[f32; 3]> {
                let row = |slot| [0, 1, 2].map(|dim| element(layer, value, index * 16 + slot, head, dim));
                (0..ids.len()).map(row).collect()
            };
            documented_keys(element_type.k, &rows(0), &mut block);
            documented_values(element_type.v, &rows(1), &mut block);
        }
        block.extend(xxh64(&block, 0).to_le_bytes());
        blocks.push(block);
    }
    let checksum = |block: &Vec<u8>| block[block.len() - 8..].to_vec();
    let base_checksums: Vec<u8> = blocks[..base / 16].iter().flat_map(checksum).collect();
    let total = 100 + blocks[base / 16..].iter().map(Vec::len).sum::<usize>() + 8;
    let mut bytes = b"GLEEDKV\0".to_vec();
    bytes.extend(1_u32.to_le_bytes());
    bytes.extend(100_u32.to_le_bytes());
    bytes.extend((total as u64).to_le_bytes());
    bytes.extend(0x1122_3344_5566_7788_u64.to_le_bytes());
    let (k, v) = (element_type.k.number(), element_type.v.number());
    // Sinks and window of two groups are 0: everything is visible.
    let numbers = [ARITHMETIC_VERSION, k, v, 3, 2, 3, 0, 0, 0, 0, ids.len() as u32, base as u32];
    numbers.iter().for_each(|number| bytes.extend(number.to_le_bytes()));
    bytes.extend(xxh64(&base_checksums, 0).to_le_bytes());
    bytes.extend(b"dice");
    bytes.extend(xxh64(&bytes, 0).to_le_bytes());
    let mut whole = bytes[bytes.len() - 8..].to_vec();
    blocks[base / 16..].iter().for_each(|block| {
        whole.extend(checksum(block));
        bytes.extend(block);
    });
    bytes.extend(xxh64(&whole, 0).to_le_bytes());
    bytes
}

/// Appends the keys of a head of three elements, token by token.
fn documented_keys(element: KvElement, rows: &[[f32; 3]], out: &mut Vec<u8>) {
    let column = |dim: usize| rows.iter().map(move |row| row[dim]);
    match element {
        KvElement::F32 => (0..3).for_each(|dim| out.extend(column(dim).flat_map(f32::to_le_bytes))),
        KvElement::F16 => {
            (0..3).for_each(|dim| out.extend(column(dim).flat_map(|x| f16::from_f32(x).to_le_bytes())));
        }
        _ => {
            let rows: Vec<_> = rows.iter().map(|row| codes(element, row)).collect();
            let column = |dim: usize| rows.iter().map(move |row| row.0[dim] as u8);
            if element == KvElement::Q8_0 {
                (0..3).for_each(|dim| out.extend(column(dim)));
            } else {
                out.extend(column(0).zip(column(1)).map(|(lower, upper)| lower & 15 | upper << 4));
                out.extend(column(2).map(|lower| lower & 15));
            }
            out.extend(rows.iter().flat_map(|row| row.1.to_le_bytes()));
        }
    }
}

/// Appends the values of a head of three elements.
fn documented_values(element: KvElement, rows: &[[f32; 3]], out: &mut Vec<u8>) {
    let all = || rows.iter().flatten();
    match element {
        KvElement::F32 => out.extend(all().flat_map(|x| x.to_le_bytes())),
        KvElement::F16 => out.extend(all().flat_map(|&x| f16::from_f32(x).to_le_bytes())),
        _ => {
            let rows: Vec<_> = rows.iter().map(|row| codes(element, row)).collect();
            if element == KvElement::Q8_0 {
                out.extend(rows.iter().flat_map(|row| row.0.map(|code| code as u8)));
            } else {
                for pair in rows.chunks(2) {
                    let upper = pair.get(1).map_or([0; 3], |row| row.0);
                    out.extend(
                        pair[0].0.iter().zip(upper).map(|(&lower, upper)| lower as u8 & 15 | (upper as u8) << 4),
                    );
                }
            }
            out.extend(rows.iter().flat_map(|row| row.1.to_le_bytes()));
        }
    }
}

/// Returns the codes and the scale of a short block.
fn codes(element: KvElement, row: &[f32; 3]) -> ([i8; 3], f16) {
    let scale = f16::from_f32(elements::scale(element, row));
    let back = elements::rounded(element, row);
    let code = |dim: usize| if scale == f16::ZERO { 0 } else { (back[dim] / scale.to_f32()) as i8 };
    ([code(0), code(1), code(2)], scale)
}
