//! Files that are cut off, damaged or meant to do harm: always a value, in bounded time.

mod common;

use std::time::{Duration, Instant};

use common::{Writer, array, array_of, small_file, string};
use gguf_rs_lite::{Counted, GgmlType, Gguf, GgufError, MAX_ARRAY_DEPTH, Value, ValueType};
use proptest::prelude::*;
use proptest::sample::Index;

/// Parses, and touches everything if that succeeds.
fn exercise(bytes: &[u8]) -> Result<(), GgufError> {
    let gguf = Gguf::parse(bytes).inspect_err(|error| assert!(error.to_string().len() > 10))?;
    for (key, value) in gguf.metadata() {
        assert!(gguf.get(key).is_some());
        count(value);
    }
    assert_eq!(gguf.tensors().count(), gguf.tensor_count());
    for tensor in gguf.tensors() {
        assert!(gguf.tensor(tensor.name()).is_some());
        assert_eq!(tensor.data(), &bytes[tensor.offset()..][..tensor.data().len()]);
    }
    Ok(())
}

fn count(value: Value) {
    if let Some(array) = value.as_array() {
        assert_eq!(array.iter().inspect(|value| count(*value)).count(), array.len());
    }
}

fn error_of(bytes: &[u8]) -> GgufError {
    exercise(bytes).unwrap_err()
}

fn error_of_value(value_type: u32, value: &[u8]) -> GgufError {
    error_of(&Writer::default().key("bad", value_type, value).finish())
}

/// The text of the error names the key or tensor.
fn assert_names(error: GgufError, name: &str) {
    assert!(error.to_string().contains(&format!("\"{name}\"")), "{error}");
}

#[test]
fn a_file_cut_at_any_length_is_an_error() {
    let file = small_file();
    exercise(&file).unwrap();
    for len in 0..file.len() {
        let error = error_of(&file[..len]);
        match len {
            0 => assert_eq!(error, GgufError::Empty),
            1..4 => assert_eq!(error, GgufError::Truncated { offset: 0, needed: 4, left: len }),
            4..8 => assert_eq!(error, GgufError::Truncated { offset: 4, needed: 4, left: len - 4 }),
            _ => {}
        }
    }
}

#[test]
fn missing_padding_at_the_end_is_no_error() {
    let mut file = small_file();
    let len = file.len();
    file.resize(len.next_multiple_of(32), 0);
    assert!(file.len() > len);
    for len in len..=file.len() {
        exercise(&file[..len]).unwrap();
    }
}

#[test]
fn a_file_with_any_bit_or_byte_changed_never_panics() {
    let file = small_file();
    let start = Instant::now();
    for position in 0..file.len() {
        let mut damaged = file.clone();
        for mask in (0..8).map(|bit| 1u8 << bit).chain([0xff]) {
            damaged[position] = file[position] ^ mask;
            _ = exercise(&damaged);
        }
    }
    assert!(start.elapsed() < Duration::from_secs(5));
}

#[test]
fn other_files_are_told_apart() {
    assert_eq!(error_of(b"\x7fELF\x02\x01\x01\0"), GgufError::Magic { found: *b"\x7fELF" });
    assert_eq!(error_of(b"gguf\x03\0\0\0"), GgufError::Magic { found: *b"gguf" });
    for version in [0, 1, 4, 0x0001_0003, u32::MAX] {
        let file = Writer::default().version(version).finish();
        assert_eq!(error_of(&file), GgufError::Version { version });
    }
    for version in [2u32, 3] {
        let file = Writer::default().version(version.swap_bytes()).finish();
        assert_eq!(error_of(&file), GgufError::BigEndian { version });
    }
}

#[test]
fn counts_that_the_file_cannot_hold_are_refused_at_once() {
    let start = Instant::now();
    for count in [2, 1 << 32, 1 << 60, u64::MAX / 24, u64::MAX / 13 + 2, u64::MAX] {
        let error = error_of(&Writer::default().u32("k", 1).finish_with_counts(0, count));
        assert_eq!(error, GgufError::Count { what: Counted::KeyValues, count, offset: 24, left: 17 });
        let error = error_of(&Writer::default().info("t", &[], 0, 0).data(8).finish_with_counts(count.max(4), 0));
        assert_eq!(error, GgufError::Count { what: Counted::Tensors, count: count.max(4), offset: 24, left: 48 });
    }
    for count in [2, 1 << 32, 1 << 60, u64::MAX / 8 + 1, u64::MAX] {
        for element_type in ValueType::ALL {
            let error = error_of_value(9, &array_of(element_type.number(), count, &[0]));
            assert_eq!(error, GgufError::Count { what: Counted::Elements, count, offset: 51, left: 1 });
        }
        let nested = array(ValueType::Array, [array_of(8, count, &[0; 9]), array_of(4, 0, &[])]);
        assert!(matches!(error_of_value(9, &nested), GgufError::Count { .. } | GgufError::Truncated { .. }));
    }
    assert!(start.elapsed() < Duration::from_secs(1));
}

#[test]
fn lengths_that_the_file_cannot_hold_are_refused() {
    for len in [3, 1 << 40, u64::MAX - 20, u64::MAX] {
        let text = [&len.to_le_bytes()[..], b"ab"].concat();
        assert_eq!(error_of_value(8, &text), GgufError::Truncated { offset: 47, needed: len, left: 2 });
        let key = [&b"GGUF\x03\0\0\0\0\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0"[..], &text, &[0; 20]].concat();
        if len > 22 {
            assert_eq!(error_of(&key), GgufError::Truncated { offset: 32, needed: len, left: 22 });
        }
    }
}

#[test]
fn values_must_be_of_their_type() {
    let error = error_of_value(13, &[0; 8]);
    assert!(matches!(error, GgufError::ValueType { number: 13, offset: 35, .. }));
    assert_names(error, "bad");
    let error = error_of_value(9, &array_of(u32::MAX, 1, &[0; 8]));
    assert!(matches!(error, GgufError::ValueType { number: u32::MAX, offset: 39, .. }));
    let error = error_of_value(7, &[2]);
    assert!(matches!(error, GgufError::Bool { value: 2, offset: 39, .. }));
    let error = error_of_value(9, &array_of(7, 3, &[0, 1, 255]));
    assert!(matches!(error, GgufError::Bool { value: 255, offset: 53, .. }));
    assert_names(error, "bad");
}

#[test]
fn arrays_nest_no_deeper_than_the_limit() {
    let mut bytes = array(ValueType::U8, [[1]]);
    for _ in 0..MAX_ARRAY_DEPTH {
        bytes = array(ValueType::Array, [bytes]);
    }
    let error = error_of_value(9, &bytes);
    assert!(matches!(error, GgufError::Depth { offset: 87, .. }), "{error:?}");
    assert_names(error, "bad");
    // Deep enough for any stack to overflow, were there no limit.
    let deep: Vec<u8> = (0..1_000_000).flat_map(|_| array_of(9, 1, &[])).collect();
    assert!(matches!(error_of_value(9, &deep), GgufError::Depth { .. }));
}

#[test]
fn keys_and_names_must_be_text() {
    let error = error_of(&Writer::default().u32("good", 1).key(b"b\xffd", 0, [1]).finish());
    assert!(matches!(error, GgufError::KeyNotUtf8 { offset: 44, .. }), "{error:?}");
    let error = error_of(&Writer::default().info(b"t\xc3", &[1], 0, 0).data(4).finish());
    assert!(matches!(error, GgufError::NameNotUtf8 { offset: 24, .. }), "{error:?}");
    assert_eq!(error.to_string(), "tensor name \"t\\xc3\" at byte 24 is not UTF-8");
}

#[test]
fn the_alignment_must_be_a_power_of_two() {
    for alignment in [0, 3, 24, 48, u32::MAX] {
        let error = error_of(&Writer::default().u32("general.alignment", alignment).finish());
        assert_eq!(error, GgufError::Alignment { alignment });
    }
    let error = error_of(&Writer::default().key("general.alignment", 10, 32u64.to_le_bytes()).finish());
    assert_eq!(error, GgufError::AlignmentType { found: ValueType::U64 });
    // The key decides, not where the data is.
    let writer = Writer::default().aligned(32).u32("general.alignment", 64).tensor("a", &[1], GgmlType::I8, &[1]);
    let error = error_of(&writer.tensor("b", &[1], GgmlType::I8, &[2]).finish());
    assert!(matches!(error, GgufError::Misaligned { offset: 32, alignment: 64, .. }), "{error:?}");
    // The largest one: all data would begin at 2 GiB.
    let writer = Writer::default().u32("general.alignment", 1 << 31);
    assert!(matches!(error_of(&writer.info("t", &[1], 0, 0).data(64).finish()), GgufError::OutOfFile { .. }));
}

#[test]
fn parts_of_split_models_say_so() {
    let part = |number: u16, parts: u16| {
        let writer = Writer::default().key("split.no", 2, number.to_le_bytes());
        writer.key("split.count", 2, parts.to_le_bytes()).finish()
    };
    assert_eq!(error_of(&part(1, 3)), GgufError::Split { part: 1, parts: 3 });
    assert_eq!(
        error_of(&part(1, 3)).to_string(),
        "this is part 2 of a model split into 3 files: all of them are needed"
    );
    exercise(&part(0, 1)).unwrap();
    exercise(&part(0, 0)).unwrap();
}

#[test]
fn tensors_must_be_known_and_whole() {
    let one =
        |dims: &[u64], ggml_type: u32| error_of(&Writer::default().info("t", dims, ggml_type, 0).data(4096).finish());
    assert!(matches!(one(&[1, 1, 1, 1, 1], 0), GgufError::Dims { dims: 5, .. }));
    for number in [4, 31, 43, u32::MAX] {
        let error = one(&[256], number);
        assert!(matches!(error, GgufError::TensorType { number: found, .. } if found == number));
        assert_names(error, "t");
    }
    let error = one(&[33, 32], GgmlType::Q8_0.number());
    assert!(matches!(error, GgufError::PartialBlock { columns: 33, block_len: 32, .. }), "{error:?}");
    for dims in [&[u64::MAX][..], &[1 << 62, 4], &[1 << 32, 1 << 32], &[32, u64::MAX, 2, 3], &[0, 1 << 63, 2]] {
        assert!(matches!(one(dims, GgmlType::I64.number()), GgufError::TooLarge { .. }), "{dims:?}");
    }
    let error = one(&[1 << 60], GgmlType::I8.number());
    assert!(matches!(error, GgufError::OutOfFile { end, len: 4160, .. } if end == (1 << 60) + 64), "{error:?}");
    assert!(matches!(one(&[4097], GgmlType::I8.number()), GgufError::OutOfFile { end: 4161, .. }));
}

#[test]
fn tensors_must_be_in_order_aligned_and_apart() {
    let two = |a: u64, b: u64| {
        let writer = Writer::default().info("a", &[9], 0, a).info("b", &[2], 0, b);
        error_of(&writer.data(128).finish())
    };
    let previous_end = 36;
    assert!(matches!(two(1, 64), GgufError::Misaligned { offset: 1, alignment: 32, .. }));
    assert!(matches!(two(0, 44), GgufError::Misaligned { offset: 44, alignment: 32, .. }));
    for offset in [0, 32] {
        let error = two(0, offset);
        assert_names(error, "b");
        assert!(
            matches!(error, GgufError::Overlap { offset: o, previous_end: p, .. } if (o, p) == (offset, previous_end))
        );
    }
    assert!(matches!(two(64, 0), GgufError::Overlap { offset: 0, previous_end: 100, .. }));
    assert!(matches!(two(0, 128), GgufError::OutOfFile { .. }));
    let error = two(0, u64::MAX - 31);
    assert!(matches!(error, GgufError::OutOfFile { end: u64::MAX, .. }), "{error:?}");
}

/// Descriptions and keys in their tens of thousands: not quadratic.
#[test]
fn large_headers_take_linear_time() {
    let mut writer = Writer::default();
    for i in 0..50_000 {
        writer = writer.u32(&format!("k{i}"), i).info(format!("t{i}"), &[1], 24, 32 * u64::from(i));
    }
    let words = array(ValueType::String, vec![string(""); 500_000]);
    let file = writer.key("words", 9, words).u32("last", 1).data(50_000 * 32).finish();
    let start = Instant::now();
    let gguf = Gguf::parse(&file).unwrap();
    for _ in 0..100 {
        assert_eq!(gguf.get("last"), Some(Value::U32(1)));
        assert!(gguf.tensor("t49999").is_some());
    }
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        _ = exercise(&bytes);
        // With a header, most of the bytes are reached.
        for [tensors, keys] in [[0u64, 3], [3, 0], [2, 2]] {
            let counts = [tensors.to_le_bytes(), keys.to_le_bytes()].concat();
            _ = exercise(&[b"GGUF\x03\0\0\0", &counts[..], &bytes].concat());
        }
    }

    #[test]
    fn damaged_files_never_panic(changes in proptest::collection::vec((any::<Index>(), any::<u8>()), 1..8)) {
        let mut file = small_file();
        for (position, byte) in changes {
            let position = position.index(file.len());
            file[position] = byte;
        }
        _ = exercise(&file);
    }

    #[test]
    fn small_numbers_as_structure_never_panic(numbers in proptest::collection::vec((0u64..14, any::<bool>()), 0..60)) {
        // Each number as 4 or 8 bytes: random types, counts and lengths that are plausible.
        let mut file = b"GGUF\x03\0\0\0\x01\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0".to_vec();
        for (number, wide) in numbers {
            file.extend(&number.to_le_bytes()[..if wide { 8 } else { 4 }]);
        }
        _ = exercise(&file);
    }
}
