//! Snapshots: the format of `docs/snapshot.md` byte by byte, deltas, and that whatever is wrong with the bytes, with
//! the host's callbacks or with the room is refused by name and changes nothing.

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};

use common::Memory;
use common::elements;
use common::playback::{Plain, Player, Stage, hash};
use common::random::Rng;
use common::synthetic::SyntheticModel;
use gleed::cache::{
    BlockMeta, CacheError, KvCache, KvGeometry, LayerGroups, SnapshotError, SnapshotHeader, SnapshotOptions, Visibility,
};
use gleed::kernels::{Level, Window};
use gleed::mem::Arena;
use gleed::num::ARITHMETIC_VERSION;
use gleed::{Engine, EngineError, KvElement, KvKind, KvType, Limits, Model, SeqId, StreamError};
use half::f16;
use xxhash_rust::xxh64::xxh64;

const VOCAB: u32 = 9;
const LAYERS: usize = 2;
const HEAD_DIM: usize = 4;

/// A model whose tokens have 16 elements of keys and values each.
fn tiny() -> SyntheticModel {
    SyntheticModel {
        hidden: 8,
        ffn: 8,
        layers: LAYERS,
        heads: 2,
        kv_heads: 1,
        head_dim: HEAD_DIM,
        vocab: VOCAB as usize,
        ..SyntheticModel::llama()
    }
}

fn limits(kv_kind: KvKind, kv_type: KvType) -> Limits {
    Limits { sequences: 4, context: 80, rows: 16, logit_rows: 16, kv_kind, kv_type, ..Limits::default() }
}

fn each_limits() -> impl Iterator<Item = Limits> {
    KvKind::ALL.into_iter().flat_map(|kind| KvType::ALL.map(|element| limits(kind, element)))
}

fn tokens(seed: u64, len: usize) -> Vec<u32> {
    let mut rng = Rng::new(seed);
    (0..len).map(|_| rng.below(VOCAB as usize) as u32).collect()
}

fn snapshot(engine: &Engine<'_, '_>, seq: SeqId, options: &SnapshotOptions<'_>) -> Vec<u8> {
    let mut bytes = vec![0; engine.snapshot_len_with(seq, options).unwrap()];
    assert_eq!(engine.snapshot_with(seq, options, &mut bytes), Ok(bytes.len()));
    // The streamed form is the same, in pieces that are neither empty nor larger than promised.
    let mut streamed = Vec::new();
    let written = engine.write_snapshot(seq, options, |piece| {
        assert!((1..=256.max(16 * HEAD_DIM * 2 * 4)).contains(&piece.len()));
        streamed.extend_from_slice(piece);
        Ok::<(), ()>(())
    });
    assert_eq!((written, &streamed), (Ok(bytes.len() as u64), &bytes));
    bytes
}

fn delta(base: usize) -> SnapshotOptions<'static> {
    SnapshotOptions { base, ..SnapshotOptions::default() }
}

/// A snapshot of these tokens from an engine of its own.
fn snapshot_of(model: &Model<'_>, limits: Limits, tokens: &[u32], options: &SnapshotOptions<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    Stage::new(limits).play(model, |player| {
        let seq = player.open();
        player.append(seq, tokens);
        bytes = snapshot(&player.engine, seq, options);
    });
    bytes
}

/// Of each sequence: tokens, blocks, keys and values; of each block: references, tokens, whether it is finalized.
type Seen = (Vec<(Vec<Option<u32>>, Vec<u32>, Vec<f32>)>, Vec<(u32, usize, bool)>, usize);

fn see(player: &Player<'_, '_>) -> Seen {
    let cache = player.engine.cache();
    let of_sequence = |&(seq, _): &(SeqId, Vec<u32>)| {
        let len = cache.seq_len(seq).unwrap();
        let mut kv = vec![0.0; 2 * LAYERS * len * HEAD_DIM];
        for (layer, kv) in kv.chunks_mut((2 * len * HEAD_DIM).max(1)).enumerate() {
            let (k, v) = kv.split_at_mut(len * HEAD_DIM);
            cache.materialize(seq, layer, k, v).unwrap();
        }
        let blocks = cache.block_table(seq, 0).unwrap().blocks().to_vec();
        ((0..len).map(|position| cache.token(seq, position)).collect(), blocks, kv)
    };
    let blocks = cache.allocator(0).unwrap();
    let meta = (0..blocks.len() as u32).map(|block| blocks.meta(block).unwrap());
    // Of a free block nothing is known.
    let used = |meta: &BlockMeta| (meta.ref_count(), meta.num_tokens(), meta.finalized());
    let meta = meta.map(|meta| if meta.ref_count() > 0 { used(meta) } else { (0, 0, false) });
    (player.sequences.iter().map(of_sequence).collect(), meta.collect(), blocks.free_blocks())
}

/// An engine with two sequences, a fork of the other and a third of its own, in which every call of `wrong` must be
/// refused and change nothing. `wrong` gets the number of the call and says when it has no more.
fn each_refused(model: &Model<'_>, limits: Limits, mut wrong: impl FnMut(&mut Engine<'_, '_>, usize) -> bool) {
    let recorded = Stage::new(limits).play(model, |player| {
        let seq = player.open();
        player.append(seq, &tokens(1, 20));
        player.fork(seq, 18);
        let mut before = see(player);
        let logits = hash(player.engine.logits(seq).unwrap());
        for call in 0.. {
            let more = wrong(&mut player.engine, call);
            assert!(see(player) == before, "call {call}");
            assert_eq!(hash(player.engine.logits(seq).unwrap()), logits);
            if !more {
                break;
            }
            // From time to time: what is computed later is right, too.
            if call % 512 == 0 {
                let fork = player.fork(seq, 17);
                player.append(fork, &tokens(1, 20)[17..]);
                player.close(fork);
                let new = player.open();
                player.append(new, &tokens(call as u64, 17));
                player.close(new);
                player.rewind(seq, 19);
                player.append(seq, &tokens(1, 20)[19..]);
                before = see(player);
            }
        }
        player.sequences.clone().iter().for_each(|&(seq, _)| player.append(seq, &[5, 6]));
    });
    Plain::new(model, limits.kv_type).assert_same(&recorded, &limits);
}

fn refusal<T: std::fmt::Debug>(result: Result<T, EngineError>) -> SnapshotError {
    match result {
        Err(EngineError::Snapshot(error)) => {
            assert!(!error.to_string().is_empty());
            error
        }
        result => panic!("{result:?}"),
    }
}

/// Corrects all checksums of a snapshot of [`tiny`] whose bytes were changed.
fn seal(bytes: &mut [u8]) {
    let word = |bytes: &[u8], at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    let seal = |bytes: &mut [u8]| {
        let (content, checksum) = bytes.split_last_chunk_mut::<8>().unwrap();
        *checksum = xxh64(content, 0).to_le_bytes();
        *checksum
    };
    // Keys and values of a layer, by the number of their type.
    let of_layer = |number: usize, tokens: usize| match number {
        0 => 8 * HEAD_DIM * tokens,
        1 => 4 * HEAD_DIM * tokens,
        8 => 2 * (HEAD_DIM + 2) * tokens,
        _ => (HEAD_DIM / 2 + 2) * tokens + HEAD_DIM * tokens.div_ceil(2) + 2 * tokens,
    };
    let (header, number) = (word(bytes, 12), word(bytes, 36));
    let (mut left, mut at) = (word(bytes, 72) - word(bytes, 76), header);
    let mut whole = seal(&mut bytes[..header]).to_vec();
    while left > 0 {
        let tokens = left.min(16);
        let len = tokens * 4 + LAYERS * of_layer(number, tokens) + 8;
        whole.extend(seal(&mut bytes[at..at + len]));
        (left, at) = (left - tokens, at + len);
    }
    bytes[at..].copy_from_slice(&xxh64(&whole, 0).to_le_bytes());
}

/// Element `[layer][value][position][head][dim]`, exact in f16.
fn element(layer: usize, value: usize, position: usize, head: usize, dim: usize) -> f32 {
    (((layer * 2 + value) * 40 + position) * 6 + head * 3 + dim) as f32
}

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
                kv_heads: 2,
                head_dim: 3,
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
                let options = SnapshotOptions { base, state: b"dice" };
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

/// The keys of a head of three elements, token by token.
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

/// The values, likewise.
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

/// Codes and scale of a short block.
fn codes(element: KvElement, row: &[f32; 3]) -> ([i8; 3], f16) {
    let scale = f16::from_f32(elements::scale(element, row));
    let back = elements::rounded(element, row);
    let code = |dim: usize| if scale == f16::ZERO { 0 } else { (back[dim] / scale.to_f32()) as i8 };
    ([code(0), code(1), code(2)], scale)
}

/// What `docs/snapshot.md` says, for three layers of two heads of three elements.
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
    // Sinks and window of two groups: everything is visible.
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

#[test]
fn cut_off_anywhere() {
    let file = tiny().bytes();
    let model = Model::open(&file).unwrap();
    for limits in each_limits() {
        let options = SnapshotOptions { state: b"state", ..delta(0) };
        let good = snapshot_of(&model, limits, &tokens(2, 37), &options);
        each_refused(&model, limits, |engine, len| {
            let given = len as u64;
            let needed = if len < 16 {
                96
            } else if len < 101 {
                101
            } else {
                good.len() as u64
            };
            assert_eq!(refusal(engine.restore(&good[..len])), SnapshotError::Truncated { needed, given });
            len + 1 < good.len()
        });
        for len in 0..85 {
            assert!(matches!(SnapshotHeader::parse(&good[..len]), Err(SnapshotError::Truncated { .. })));
        }
    }
}

#[test]
fn one_bit_flipped() {
    let file = tiny().bytes();
    let model = Model::open(&file).unwrap();
    for limits in each_limits() {
        let good = snapshot_of(&model, limits, &tokens(2, 19), &delta(0));
        let second = 96 + 16 * 4 + 2 * (limits.kv_type.k.k_tile(4).unwrap() + limits.kv_type.v.v_tile(4).unwrap()) + 8;
        each_refused(&model, limits, |engine, bit| {
            let mut bytes = good.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let error = refusal(engine.restore(&bytes));
            let expected = match bit / 8 {
                0..8 => error == SnapshotError::Magic,
                8..12 => matches!(error, SnapshotError::Version { .. }),
                12..16 => {
                    matches!(error, SnapshotError::HeaderLength { .. } | SnapshotError::HeaderChecksum { .. })
                }
                16..96 => matches!(error, SnapshotError::HeaderChecksum { .. }),
                at if at < second => matches!(error, SnapshotError::BlockChecksum { block: 0, .. }),
                at if at < good.len() - 8 => matches!(error, SnapshotError::BlockChecksum { block: 1, .. }),
                _ => matches!(error, SnapshotError::Checksum { .. }),
            };
            assert!(expected, "bit {bit}: {error:?}");
            bit + 1 < good.len() * 8
        });
    }
}

#[test]
fn bytes_that_follow() {
    let file = tiny().bytes();
    let model = Model::open(&file).unwrap();
    let good = snapshot_of(&model, limits(KvKind::Paged, KvType::F16), &tokens(2, 19), &delta(0));
    each_refused(&model, limits(KvKind::Paged, KvType::F16), |engine, call| {
        let more = [&[0][..], &[1; 300], &good][call];
        let bytes = [&good[..], more].concat();
        assert_eq!(refusal(engine.restore(&bytes)), SnapshotError::Trailing { total: good.len() as u64 });
        call < 2
    });
}

/// Headers and contents that are wrong though every checksum is right, and the empty and random bytes.
#[test]
fn forged() {
    let files = [tiny().bytes(), SyntheticModel { seed: 5, ..tiny() }.bytes()];
    let [model, other] = [&files[0], &files[1]].map(|file| Model::open(file).unwrap());
    for limits in each_limits() {
        let good = snapshot_of(&model, limits, &tokens(2, 19), &delta(0));
        let foreign = snapshot_of(&other, limits, &tokens(2, 19), &delta(0));
        let (own, other_type) = (limits.kv_type.k.number(), if limits.kv_type == KvType::F32 { 1 } else { 0 });
        let shape = |what, expected, found| SnapshotError::Geometry { what, expected, found };
        let expected = good.len() as u64;
        // 32-bit numbers at offsets of the header, and what they are refused with.
        let headers = [
            (8, 0, SnapshotError::Version { found: 0 }),
            (8, 2, SnapshotError::Version { found: 2 }),
            (12, 95, SnapshotError::HeaderLength { found: 95 }),
            (12, 353, SnapshotError::HeaderLength { found: 353 }),
            (12, u32::MAX, SnapshotError::HeaderLength { found: u32::MAX }),
            (16, 200, SnapshotError::Length { expected, found: 200 }),
            (32, 77, SnapshotError::Arithmetic { found: 77 }),
            (36, other_type, shape("key type", own, other_type)),
            (40, other_type, shape("value type", own, other_type)),
            (40, 3, shape("value type", own, 3)),
            (44, 3, shape("layers", 2, 3)),
            (48, 0, shape("kv_heads", 1, 0)),
            (52, u32::MAX, shape("head_dim", 4, u32::MAX)),
            (56, 1, shape("sinks", 0, 1)),
            (60, 64, shape("window", 0, 64)),
            (68, 1, shape("window of the second layer group", 0, 1)),
            (76, 4, SnapshotError::BasePosition { base: 4, tokens: 19 }),
            (76, 32, SnapshotError::BasePosition { base: 32, tokens: 19 }),
            (76, u32::MAX, SnapshotError::BasePosition { base: u32::MAX as usize, tokens: 19 }),
        ];
        each_refused(&model, limits, |engine, call| {
            let Some(&(at, number, error)) = headers.get(call) else { return false };
            let mut bytes = good.clone();
            bytes[at..at + 4].copy_from_slice(&number.to_le_bytes());
            let checksum = xxh64(&bytes[..88], 0).to_le_bytes();
            bytes[88..96].copy_from_slice(&checksum);
            assert_eq!(refusal(engine.restore(&bytes)), error);
            true
        });
        let token = 96 + 2 * 4;
        // An element, or a scale.
        let element = limits.kv_type.k;
        let key = if matches!(element, KvElement::F32 | KvElement::F16) {
            5 * element.code_bytes()
        } else {
            element.k_codes(4).unwrap()
        };
        let key = 96 + 16 * 4 + key;
        let last = good.len() - 16 - if own == 0 { 4 } else { 2 };
        let infinity = if own == 0 { &f32::INFINITY.to_le_bytes()[..] } else { &[0, 0x7c] };
        let nan = if own == 0 { &f32::NAN.to_le_bytes()[..] } else { &[1, 0xfc] };
        let contents = [
            (token, &[9, 0, 0, 0][..], SnapshotError::Token { position: 2, token: 9 }),
            (token, &[0xfe, 0xff, 0xff, 0xff], SnapshotError::Token { position: 2, token: u32::MAX - 1 }),
            (key, infinity, SnapshotError::NonFinite { block: 0 }),
            (last, nan, SnapshotError::NonFinite { block: 1 }),
        ];
        each_refused(&model, limits, |engine, call| {
            let Some(&(at, new, error)) = contents.get(call) else { return false };
            let mut bytes = good.clone();
            bytes[at..at + new.len()].copy_from_slice(new);
            seal(&mut bytes);
            assert_eq!(refusal(engine.restore(&bytes)), error);
            true
        });
        each_refused(&model, limits, |engine, call| {
            let mut random = vec![0; call];
            Rng::new(call as u64).fill(&mut random);
            let wanted = if call < 16 {
                SnapshotError::Truncated { needed: 96, given: call as u64 }
            } else {
                SnapshotError::Magic
            };
            assert_eq!(refusal(engine.restore(&random)), wanted);
            assert!(matches!(refusal(engine.restore(&foreign)), SnapshotError::Model { .. }));
            call < 100
        });
        // Two blocks that have changed their places are each right.
        let long = snapshot_of(&model, limits, &tokens(2, 32), &delta(0));
        let mut swapped = long.clone();
        let len = (long.len() - 104) / 2;
        swapped[96..96 + 2 * len].rotate_left(len);
        each_refused(&model, limits, |engine, _| {
            assert!(matches!(refusal(engine.restore(&swapped)), SnapshotError::Checksum { .. }));
            false
        });
        // Sealing is not what is refused; and a token from outside is one, but where all is computed again.
        let mut imported = good.clone();
        imported[token..token + 4].fill(0xff);
        seal(&mut imported);
        Stage::new(limits).play(&model, |player| {
            let error = SnapshotError::Token { position: 2, token: u32::MAX };
            match player.engine.restore(&imported) {
                Ok(_) => assert_ne!(limits.kv_kind, KvKind::Off),
                result => assert!(limits.kv_kind == KvKind::Off && refusal(result) == error),
            }
            let seq = player.open();
            player.append(seq, &[1]);
        });
    }
}

#[test]
fn a_source_that_fails() {
    let file = tiny().bytes();
    let model = Model::open(&file).unwrap();
    for limits in each_limits() {
        let good = snapshot_of(&model, limits, &tokens(2, 37), &delta(0));
        // Fails at call `call`; gives at most so many bytes at a time.
        for most in [usize::MAX, 100, 7, 1] {
            let source = |failing: usize, failure: fn() -> Result<usize, &'static str>| {
                let (mut rest, mut call) = (&good[..], 0);
                move |place: &mut [u8]| {
                    if call == failing {
                        return failure();
                    }
                    call += 1;
                    let (given, after) = rest.split_at(place.len().min(most).min(rest.len()));
                    place[..given.len()].copy_from_slice(given);
                    rest = after;
                    Ok(given.len())
                }
            };
            each_refused(&model, limits, |engine, failing| {
                match engine.read_snapshot(None, source(failing, || Err("the card is out"))) {
                    Err(StreamError::Host("the card is out")) => {}
                    Ok((seq, _)) => {
                        engine.close(seq).unwrap();
                        return false;
                    }
                    result => panic!("{result:?}"),
                }
                let lied = engine.read_snapshot(None, source(failing, || Ok(usize::MAX)));
                assert!(matches!(lied, Err(StreamError::Engine(EngineError::Snapshot(SnapshotError::Source { .. })))));
                if failing % 16 == 0 {
                    let restore = || engine.read_snapshot(None, source(failing, || panic!("a bug in the host")));
                    assert!(quietly(restore).is_none());
                }
                true
            });
        }
    }
}

/// `None` if it panics.
fn quietly<R>(f: impl FnOnce() -> R) -> Option<R> {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let result = catch_unwind(AssertUnwindSafe(f)).ok();
    std::panic::set_hook(hook);
    result
}

#[test]
fn a_sink_that_fails() {
    let file = tiny().bytes();
    let model = Model::open(&file).unwrap();
    for limits in each_limits() {
        each_refused(&model, limits, |engine, failing| {
            let seq = SeqId::from_bits(1 << 16);
            let good = snapshot(engine, seq, &delta(0));
            let mut taken = Vec::new();
            let mut calls = 0;
            let result = engine.write_snapshot(seq, &delta(0), |piece| {
                if calls == failing {
                    return Err("the disk is full");
                }
                calls += 1;
                taken.extend_from_slice(piece);
                Ok(())
            });
            assert!(good.starts_with(&taken));
            match result {
                Err(error) => assert_eq!(error, StreamError::Host("the disk is full")),
                Ok(written) => assert_eq!((written, taken.len()), (good.len() as u64, good.len())),
            }
            result.is_err()
        });
    }
}

#[test]
fn wrong_options_and_small_buffers() {
    let file = tiny().bytes();
    let model = Model::open(&file).unwrap();
    for limits in each_limits() {
        each_refused(&model, limits, |engine, _| {
            let seq = SeqId::from_bits(1 << 16);
            let mut untouched = [7; 4000];
            for base in [1, 15, 17, 32, 1 << 20, usize::MAX] {
                let error = SnapshotError::BasePosition { base, tokens: 20 };
                assert_eq!(refusal(engine.snapshot_with(seq, &delta(base), &mut untouched)), error);
                assert_eq!(refusal(engine.snapshot_len_with(seq, &delta(base))), error);
                let streamed = engine.write_snapshot(seq, &delta(base), |_| Err(()));
                assert_eq!(streamed, Err(StreamError::Engine(EngineError::Snapshot(error))));
            }
            let state = [1; 257];
            let long = SnapshotOptions { state: &state, base: 0 };
            let error = SnapshotError::StateTooLong { given: 257 };
            assert_eq!(refusal(engine.snapshot_with(seq, &long, &mut untouched)), error);
            let longest = SnapshotOptions { state: &state[..256], base: 0 };
            let bytes = snapshot(engine, seq, &longest);
            let (restored, header) = engine.restore_with(None, &bytes).unwrap();
            assert_eq!(header.state(), &state[..256]);
            engine.close(restored).unwrap();
            let needed = engine.snapshot_len(seq).unwrap();
            for given in [0, 1, 96, needed - 1] {
                let error = SnapshotError::BufferTooSmall { needed, given };
                assert_eq!(refusal(engine.snapshot(seq, &mut untouched[..given])), error);
            }
            assert!(untouched.iter().all(|&byte| byte == 7));
            assert_eq!(engine.snapshot(seq, &mut untouched), Ok(needed));
            false
        });
    }
}

/// A character that continues a shared prompt, written as a delta and read in another engine: its logits are those of
/// a plain prefill, and it shares the prompt's blocks.
#[test]
fn deltas_on_the_right_base() {
    let file = tiny().bytes();
    let model = Model::open(&file).unwrap();
    let prompt = tokens(3, 35);
    for kv_type in KvType::ALL {
        let mut plain = Plain::new(&model, kv_type);
        for (from, into) in KvKind::ALL.into_iter().flat_map(|from| KvKind::ALL.map(|into| (from, into))) {
            for (base, own) in [(16, 0), (32, 0), (32, 2), (32, 13), (32, 17), (16, 40)] {
                let story = [&prompt[..base], &tokens(4, own)].concat();
                let bytes = snapshot_of(&model, limits(from, kv_type), &story, &delta(base));
                let recorded = Stage::new(limits(into, kv_type)).play(&model, |player| {
                    let system = player.open();
                    player.append(system, &prompt);
                    let free = |player: &Player<'_, '_>| player.engine.cache().allocator(0).unwrap().free_blocks();
                    let before = free(player);
                    let (seq, header) = player.engine.restore_with(Some(system), &bytes).unwrap();
                    assert_eq!((header.base(), header.tokens()), (base, story.len()));
                    let shared = if into == KvKind::Paged { base / 16 } else { 0 };
                    assert_eq!(before - free(player), story.len().div_ceil(16) - shared);
                    player.sequences.push((seq, story.clone()));
                    // A restored sequence is like any other: it grows, forks, and is written again.
                    player.append(seq, &[7, 8]);
                    let fork = player.fork(seq, story.len());
                    assert_eq!(snapshot(&player.engine, fork, &delta(base)), bytes);
                    player.append(fork, &[1]);
                    player.append(system, &[2]);
                    player.close(system);
                    player.append(seq, &[3]);
                });
                plain.assert_same(&recorded, &(from, into, kv_type, base, own));
            }
        }
    }
}

#[test]
fn deltas_on_a_wrong_base() {
    let file = tiny().bytes();
    let model = Model::open(&file).unwrap();
    for limits in each_limits() {
        // Follows the 16 first tokens of the sequences that are open.
        let right = [tokens(1, 16), tokens(4, 9)].concat();
        let good = snapshot_of(&model, limits, &right, &delta(16));
        let mut other = right.clone();
        other[15] = (other[15] + 1) % VOCAB;
        let wrong = snapshot_of(&model, limits, &other, &delta(16));
        let long = snapshot_of(&model, limits, &[tokens(1, 20), tokens(5, 20)].concat(), &delta(32));
        each_refused(&model, limits, |engine, call| {
            let base = Some(SeqId::from_bits(1 << 16));
            let missing = |base, given| SnapshotError::BaseMissing { base, given };
            assert_eq!(refusal(engine.restore(&good)), missing(16, 0));
            assert_eq!(refusal(engine.restore_with(base, &long)), missing(32, 20));
            assert!(matches!(refusal(engine.restore_with(base, &wrong)), SnapshotError::Base { .. }));
            let unknown = SeqId::from_bits(0xdead_beef);
            let error = EngineError::Cache(CacheError::UnknownSequence { sequence: 0xdead_beef });
            assert_eq!(engine.restore_with(Some(unknown), &good).map(drop), Err(error));
            // Damage behind the base.
            let mut bytes = good.clone();
            bytes[96 + call % (good.len() - 96)] ^= 0x10;
            refusal(engine.restore_with(base, &bytes));
            let (restored, _) = engine.restore_with(base, &good).unwrap();
            engine.close(restored).unwrap();
            call < 50
        });
    }
}

/// The same tokens, but keys that are not the model's: one bit of one element.
#[test]
fn deltas_on_other_keys() {
    let file = tiny().bytes();
    let model = Model::open(&file).unwrap();
    for limits in each_limits() {
        let story = [tokens(1, 16), tokens(4, 9)].concat();
        let good = snapshot_of(&model, limits, &story, &delta(16));
        let mut tampered = snapshot_of(&model, limits, &tokens(1, 16), &delta(0));
        tampered[96 + 64 + 3] ^= 1;
        seal(&mut tampered);
        Stage::new(limits).play(&model, |player| {
            let base = player.engine.restore(&tampered).unwrap();
            assert!(matches!(refusal(player.engine.restore_with(Some(base), &good)), SnapshotError::Base { .. }));
            let seq = player.open();
            player.append(seq, &tokens(1, 16));
            player.engine.restore_with(Some(seq), &good).unwrap();
        });
    }
}

#[test]
fn a_pool_with_any_number_of_free_blocks() {
    let file = tiny().bytes();
    let model = Model::open(&file).unwrap();
    for groups in [LayerGroups::ONE, LayerGroups::alternating(2)] {
        let model = model.with_layer_groups(groups);
        for kv_kind in [KvKind::Off, KvKind::Paged] {
            let wide = Limits { sequences: 8, ..limits(kv_kind, KvType::F16) };
            let story = [tokens(1, 16), tokens(4, 43)].concat();
            let whole = snapshot_of(&model, wide, &story, &delta(0));
            let after = snapshot_of(&model, wide, &story, &delta(16));
            for free in 0..6 {
                let limits = Limits { kv_blocks: 2 + free, ..wide };
                each_refused_with_room(&model, limits, free, &whole, &after);
            }
        }
    }
}

/// Sequences fill all but `free` blocks; snapshots of 59 tokens, the second a delta to 16, are restored where
/// they fit.
fn each_refused_with_room(model: &Model<'_>, limits: Limits, free: usize, whole: &[u8], after: &[u8]) {
    let recorded = Stage::new(limits).play(model, |player| {
        let base = player.open();
        player.append(base, &tokens(1, 20));
        let before = see(player);
        assert_eq!(before.2, free);
        let shared = usize::from(limits.kv_kind == KvKind::Paged);
        for (snapshot, needed) in [(whole, 4), (after, 4 - shared)] {
            match player.engine.restore_with(Some(base), snapshot) {
                Ok((seq, _)) => {
                    assert!(free >= needed);
                    player.engine.close(seq).unwrap();
                }
                Err(EngineError::Cache(CacheError::OutOfBlocks { needed: missing, free: left })) => {
                    // A copied base is there when the rest is looked at.
                    assert!(free < needed && missing > left && missing <= needed && left <= free);
                }
                result => panic!("{result:?}"),
            }
            assert!(see(player) == before, "{free} free");
        }
        player.append(base, &[1, 2]);
    });
    Plain::new(model, limits.kv_type).assert_same(&recorded, &limits);
}

#[test]
fn no_free_sequence_and_too_long() {
    let file = tiny().bytes();
    let model = Model::open(&file).unwrap();
    for limits in each_limits() {
        let story = tokens(1, 60);
        let whole = snapshot_of(&model, limits, &story, &delta(0));
        let after = snapshot_of(&model, limits, &story, &delta(16));
        let short = Limits { context: 59, ..limits };
        each_refused(&model, short, |engine, _| {
            let error = EngineError::Cache(CacheError::ContextFull { needed: 60, context: 59 });
            let base = Some(SeqId::from_bits(1 << 16));
            assert_eq!(engine.restore(&whole), Err(error));
            assert_eq!(engine.restore_with(base, &after).map(drop), Err(error));
            false
        });
        each_refused(&model, Limits { sequences: 2, ..limits }, |engine, _| {
            let error = EngineError::Cache(CacheError::NoFreeSequence { sequences: 2 });
            let base = Some(SeqId::from_bits(1 << 16));
            assert_eq!(engine.restore(&whole), Err(error));
            assert_eq!(engine.restore_with(base, &after).map(drop), Err(error));
            false
        });
    }
}

#[test]
fn errors_say_their_numbers() {
    let texts = [
        (SnapshotError::Truncated { needed: 96, given: 3 }, "snapshot cut off: 96 bytes needed, 3 given"),
        (SnapshotError::Trailing { total: 99 }, "bytes follow the snapshot, which ends after 99"),
        (SnapshotError::Version { found: 0 }, "snapshot of version 0; this library reads version 1"),
        (
            SnapshotError::BlockChecksum { block: 3, stored: 1, computed: 2 },
            "block 3 of the snapshot damaged: checksum 0x0000000000000002 instead of 0x0000000000000001",
        ),
        (
            SnapshotError::Geometry { what: "layers", expected: 28, found: 2 },
            "snapshot with layers 2; the cache has layers 28",
        ),
        (
            SnapshotError::BaseMissing { base: 32, given: 5 },
            "snapshot that follows 32 tokens; the sequence given has 5",
        ),
        (SnapshotError::StateTooLong { given: 300 }, "300 bytes of state; a snapshot holds 256"),
    ];
    for (error, text) in texts {
        assert_eq!(error.to_string(), text);
    }
}

/// A snapshot of an engine with a window is for engines with that window.
#[test]
fn windows_are_part_of_the_shape() {
    let file = tiny().bytes();
    let model = Model::open(&file).unwrap();
    let with = |sinks, last| Limits { window: Window { sinks, last }, ..limits(KvKind::Paged, KvType::F16) };
    let all = [with(0, 0), with(0, 40), with(1, 40), with(0, 41)];
    for (index, written) in all.into_iter().enumerate() {
        let bytes = snapshot_of(&model, written, &tokens(9, 21), &delta(0));
        for (other, read) in all.into_iter().enumerate() {
            Stage::new(read).play(&model, |player| {
                let result = player.engine.restore(&bytes);
                let refused = matches!(result, Err(EngineError::Snapshot(SnapshotError::Geometry { .. })));
                assert_eq!((result.is_ok(), refused), (index == other, index != other), "{index} {other}: {result:?}");
            });
        }
    }
}
