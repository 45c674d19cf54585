//! Bytes that are no snapshot, a damaged snapshot, or one of another shape. Each is refused with a specific error.

use gleed::cache::{SnapshotError, SnapshotHeader, SnapshotOptions};
use gleed::kernels::Window;
use gleed::{EngineError, KvElement, KvKind, KvType, Limits, Model};
use xxhash_rust::xxh64::xxh64;

use crate::{delta, each_limits, each_refused, limits, refusal, seal, snapshot_of, tiny, tokens};
use common::playback::Stage;
use common::random::Rng;
use common::synthetic::SyntheticModel;

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
                // The flipped bit makes it version 3, which has a longer header.
                8 if bit == 65 => error == SnapshotError::HeaderLength { found: 96 },
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

/// Offset of the third token in a snapshot of [`tiny`].
const THIRD_TOKEN: usize = 96 + 2 * 4;

/// Headers and contents that are wrong although every checksum is right. Also empty and random bytes.
#[test]
fn forged() {
    let files = [tiny().bytes(), SyntheticModel { seed: 5, ..tiny() }.bytes()];
    let [model, other] = [&files[0], &files[1]].map(|file| Model::open(file).unwrap());
    for limits in each_limits() {
        let good = snapshot_of(&model, limits, &tokens(2, 19), &delta(0));
        let foreign = snapshot_of(&other, limits, &tokens(2, 19), &delta(0));
        forged_headers(&model, limits, &good);
        forged_contents(&model, limits, &good);
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
        // Each of the two swapped blocks is right by itself.
        let long = snapshot_of(&model, limits, &tokens(2, 32), &delta(0));
        let mut swapped = long.clone();
        let len = (long.len() - 104) / 2;
        swapped[96..96 + 2 * len].rotate_left(len);
        each_refused(&model, limits, |engine, _| {
            assert!(matches!(refusal(engine.restore(&swapped)), SnapshotError::Checksum { .. }));
            false
        });
        imported_token(&model, limits, &good);
    }
}

/// Changes 32-bit numbers of the header.
fn forged_headers(model: &Model<'_>, limits: Limits, good: &[u8]) {
    let (own, other_type) = (limits.kv_type.k.number(), if limits.kv_type == KvType::F32 { 1 } else { 0 });
    let shape = |what, expected, found| SnapshotError::Geometry { what, expected, found };
    let expected = good.len() as u64;
    // Offset, number, and the error.
    let headers = [
        (8, 0, SnapshotError::Version { found: 0 }),
        (8, 2, SnapshotError::HeaderLength { found: 96 }),
        (8, 3, SnapshotError::HeaderLength { found: 96 }),
        (8, 4, SnapshotError::Version { found: 4 }),
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
    each_refused(model, limits, |engine, call| {
        let Some(&(at, number, error)) = headers.get(call) else { return false };
        let mut bytes = good.to_vec();
        bytes[at..at + 4].copy_from_slice(&number.to_le_bytes());
        let checksum = xxh64(&bytes[..88], 0).to_le_bytes();
        bytes[88..96].copy_from_slice(&checksum);
        assert_eq!(refusal(engine.restore(&bytes)), error);
        true
    });
}

/// Changes a token, and an element or a scale.
fn forged_contents(model: &Model<'_>, limits: Limits, good: &[u8]) {
    let element = limits.kv_type.k;
    let own = element.number();
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
        (THIRD_TOKEN, &[9, 0, 0, 0][..], SnapshotError::Token { position: 2, token: 9 }),
        (THIRD_TOKEN, &[0xfe, 0xff, 0xff, 0xff], SnapshotError::Token { position: 2, token: u32::MAX - 1 }),
        (key, infinity, SnapshotError::NonFinite { block: 0 }),
        (last, nan, SnapshotError::NonFinite { block: 1 }),
    ];
    each_refused(model, limits, |engine, call| {
        let Some(&(at, new, error)) = contents.get(call) else { return false };
        let mut bytes = good.to_vec();
        bytes[at..at + new.len()].copy_from_slice(new);
        seal(&mut bytes);
        assert_eq!(refusal(engine.restore(&bytes)), error);
        true
    });
}

/// A token from outside is refused only if all tokens must be computed again.
fn imported_token(model: &Model<'_>, limits: Limits, good: &[u8]) {
    // If the snapshot can be restored, a corrected checksum is no reason to refuse it.
    let mut imported = good.to_vec();
    imported[THIRD_TOKEN..THIRD_TOKEN + 4].fill(0xff);
    seal(&mut imported);
    Stage::new(limits).play(model, |player| {
        let error = SnapshotError::Token { position: 2, token: u32::MAX };
        match player.engine.restore(&imported) {
            Ok(_) => assert_ne!(limits.kv_kind, KvKind::Off),
            result => assert!(limits.kv_kind == KvKind::Off && refusal(result) == error),
        }
        let seq = player.open();
        player.append(seq, &[1]);
    });
}

/// A snapshot of an engine with a window can be restored only with the same window.
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

#[test]
fn errors_say_their_numbers() {
    let texts = [
        (SnapshotError::Truncated { needed: 96, given: 3 }, "snapshot cut off: 96 bytes needed, 3 given"),
        (SnapshotError::Trailing { total: 99 }, "bytes follow the snapshot, which ends after 99"),
        (SnapshotError::Version { found: 0 }, "snapshot of version 0; this library reads versions 1 to 3"),
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
