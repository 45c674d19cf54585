//! Well-formed files: everything that was written is read back.

mod common;

use common::{Writer, array, small_file, string};
use gguf_rs_lite::{Array, GgmlType, Gguf, MAX_ARRAY_DEPTH, Value, ValueType};

fn with_value<R>(value_type: ValueType, bytes: &[u8], read: impl FnOnce(Value) -> R) -> R {
    let file = Writer::default().key("k", value_type.number(), bytes).u32("after", 7).finish();
    let gguf = Gguf::parse(&file).unwrap();
    assert_eq!(gguf.get("after"), Some(Value::U32(7)));
    assert_eq!(gguf.metadata().map(|(key, _)| key).collect::<Vec<_>>(), ["k", "after"]);
    read(gguf.get("k").unwrap())
}

/// One value of each type, with its bytes.
fn samples() -> Vec<(Value<'static>, Vec<u8>)> {
    vec![
        (Value::U8(200), vec![200]),
        (Value::I8(-3), vec![253]),
        (Value::U16(60000), 60000u16.to_le_bytes().to_vec()),
        (Value::I16(-300), (-300i16).to_le_bytes().to_vec()),
        (Value::U32(4_000_000_000), 4_000_000_000u32.to_le_bytes().to_vec()),
        (Value::I32(-70000), (-70000i32).to_le_bytes().to_vec()),
        (Value::F32(0.1), 0.1f32.to_le_bytes().to_vec()),
        (Value::Bool(true), vec![1]),
        (Value::Bool(false), vec![0]),
        (Value::String(b"\xffnot text"), string(b"\xffnot text")),
        (Value::U64(u64::MAX), u64::MAX.to_le_bytes().to_vec()),
        (Value::I64(i64::MIN), i64::MIN.to_le_bytes().to_vec()),
        (Value::F64(-1e300), (-1e300f64).to_le_bytes().to_vec()),
    ]
}

#[test]
fn every_type_alone_and_in_arrays() {
    for (value, bytes) in samples() {
        let value_type = value.value_type();
        with_value(value_type, &bytes, |read| assert_eq!(read, value));
        for len in [0, 1, 3, 100] {
            with_value(ValueType::Array, &array(value_type, vec![&bytes; len]), |read| {
                let read = read.as_array().unwrap();
                assert_eq!((read.len(), read.is_empty(), read.element_type()), (len, len == 0, value_type));
                assert_eq!(read.bytes().len(), len * bytes.len());
                assert_eq!(read.iter().collect::<Vec<_>>(), vec![value; len]);
                assert_eq!(read.iter().len(), len);
                for i in 0..len {
                    assert_eq!(read.get(i), Some(value));
                }
                assert_eq!((read.get(len), read.get(usize::MAX)), (None, None));
                assert_eq!(read.strings().is_some(), value_type == ValueType::String);
            });
        }
    }
}

#[test]
fn accessors_convert_what_is_the_same_number() {
    assert_eq!(
        (Value::U8(200).as_u64(), Value::U8(200).as_i64(), Value::U8(200).as_f64()),
        (Some(200), Some(200), Some(200.0))
    );
    assert_eq!(
        (Value::I32(-1).as_u64(), Value::I32(-1).as_i64(), Value::I32(-1).as_f32()),
        (None, Some(-1), Some(-1.0))
    );
    assert_eq!((Value::I64(i64::MAX).as_u64(), Value::U64(u64::MAX).as_i64()), (Some(i64::MAX as u64), None));
    assert_eq!((Value::U64(u64::MAX).as_u64(), Value::U64(u64::MAX).as_f64()), (Some(u64::MAX), Some(u64::MAX as f64)));
    assert_eq!((Value::F32(0.1).as_f64(), Value::F64(0.1).as_f32()), (Some(0.1f32 as f64), Some(0.1f32)));
    assert_eq!((Value::F32(1.0).as_u64(), Value::Bool(true).as_u64(), Value::Bool(true).as_f64()), (None, None, None));
    assert_eq!((Value::U8(1).as_bool(), Value::Bool(true).as_bool()), (None, Some(true)));
    assert_eq!((Value::String(b"\xff").as_str(), Value::String(b"\xff").as_bytes()), (None, Some(&b"\xff"[..])));
    assert_eq!((Value::String(b"4").as_u64(), Value::U8(4).as_str(), Value::U8(4).as_array()), (None, None, None));
}

#[test]
fn arrays_nest_up_to_the_limit() {
    let mut bytes = array(ValueType::String, [string("deep"), string("down")]);
    for _ in 1..MAX_ARRAY_DEPTH {
        bytes = array(ValueType::Array, [array(ValueType::U16, [[1, 2]]), bytes, array(ValueType::F64, [[0u8; 8]; 0])]);
    }
    with_value(ValueType::Array, &bytes, |value| {
        let mut outer: Array = value.as_array().unwrap();
        for _ in 1..MAX_ARRAY_DEPTH {
            assert_eq!((outer.len(), outer.element_type()), (3, ValueType::Array));
            let inner: Vec<Array> = outer.iter().map(|value| value.as_array().unwrap()).collect();
            assert_eq!(inner[0].get(0), Some(Value::U16(0x201)));
            assert!(inner[2].is_empty());
            assert_eq!(outer.get(1), Some(Value::Array(inner[1])));
            outer = inner[1];
        }
        assert_eq!(outer.strings().unwrap().collect::<Vec<_>>(), [b"deep", b"down"]);
    });
}

/// More long arrays than the table of long arrays holds, in an order that replaces entries.
#[test]
fn lookups_step_over_arrays_in_and_out_of_the_table() {
    let mut writer = Writer::default();
    for i in 0..30usize {
        let words = (0..(i * 11) % 30).map(|word| string(format!("word {word}")));
        writer = writer.key(format!("words.{i}"), ValueType::Array.number(), array(ValueType::String, words));
        writer = writer.u32(&format!("number.{i}"), i as u32);
    }
    let file = writer.finish();
    let gguf = Gguf::parse(&file).unwrap();
    assert_eq!(gguf.metadata().count(), 60);
    for i in 0..30usize {
        assert_eq!(gguf.get(&format!("number.{i}")), Some(Value::U32(i as u32)));
        let words = gguf.get(&format!("words.{i}")).unwrap().as_array().unwrap();
        assert_eq!(words.len(), (i * 11) % 30);
        assert!(words.strings().unwrap().eq((0..words.len()).map(|word| format!("word {word}").into_bytes())));
    }
}

#[test]
fn tensors_have_their_bytes() {
    let file = small_file();
    let gguf = Gguf::parse(&file).unwrap();
    let read = |i: usize| gguf.tensors().nth(i).unwrap();
    assert_eq!((gguf.tensor_count(), gguf.tensors().len(), gguf.tensors().count()), (3, 3, 3));
    assert_eq!((read(0).name(), read(0).dims(), read(0).ggml_type()), ("a.weight", &[4, 3][..], GgmlType::F32));
    assert_eq!((read(1).name(), read(1).dims(), read(1).ggml_type()), ("b.weight", &[32, 1, 2][..], GgmlType::Q8_0));
    assert_eq!((read(2).name(), read(2).dims(), read(2).ggml_type()), ("c.bias", &[5][..], GgmlType::F16));
    assert_eq!((read(0).data(), read(1).data(), read(2).data()), (&[7; 48][..], &[8; 68][..], &[9; 10][..]));
    for tensor in gguf.tensors() {
        assert_eq!(tensor.offset() % 32, 0);
        assert_eq!(gguf.tensor(tensor.name()).unwrap().offset(), tensor.offset());
        assert_eq!(tensor.data(), &file[tensor.offset()..][..tensor.data().len()]);
    }
    assert!(gguf.tensor("a.weigh").is_none() && gguf.tensor("").is_none());
    assert_eq!(gguf.metadata_bytes().len().next_multiple_of(32), read(0).offset());
    assert_eq!((gguf.bytes().as_ptr(), gguf.bytes().len()), (file.as_ptr(), file.len()));
}

#[test]
fn every_tensor_type_has_the_size_of_its_blocks() {
    for &ggml_type in GgmlType::ALL {
        let dims = [3 * ggml_type.block_len() as u64, 2];
        let data = vec![1; 6 * ggml_type.block_bytes()];
        let file = Writer::default().tensor("t", &dims, ggml_type, &data).finish();
        let tensor = Gguf::parse(&file).unwrap().tensor("t").unwrap();
        assert_eq!((tensor.ggml_type(), tensor.data()), (ggml_type, &data[..]));
        assert!(Gguf::parse(&file[..file.len() - 1]).is_err(), "{ggml_type}");
    }
}

#[test]
fn numbers_and_empty_tensors_are_tensors() {
    let file = Writer::default()
        .tensor("number", &[], GgmlType::F32, &[1, 2, 3, 4])
        .tensor("empty", &[0, u64::MAX, 5], GgmlType::Q4_K, &[])
        .tensor("after", &[1, 1, 1, 2], GgmlType::I8, &[5, 6]);
    // u64::MAX * 5 is no 64-bit number, whatever the zero makes of it.
    let error = Gguf::parse(&file.finish()).unwrap_err();
    assert_eq!(error.to_string(), "the size of tensor \"empty\" is beyond 64 bits");

    let file = Writer::default()
        .tensor("number", &[], GgmlType::F32, &[1, 2, 3, 4])
        .tensor("empty", &[0, 7, 5], GgmlType::Q4_K, &[])
        .tensor("after", &[1, 1, 1, 2], GgmlType::I8, &[5, 6])
        .finish();
    let gguf = Gguf::parse(&file).unwrap();
    let [number, empty, after] = ["number", "empty", "after"].map(|name| gguf.tensor(name).unwrap());
    assert_eq!((number.dims(), number.data()), (&[][..], &[1, 2, 3, 4][..]));
    assert_eq!((empty.dims(), empty.data()), (&[0, 7, 5][..], &[][..]));
    assert_eq!((after.dims(), after.data()), (&[1, 1, 1, 2][..], &[5, 6][..]));
}

#[test]
fn both_versions_and_any_power_of_two_of_alignment() {
    for alignment in [1, 2, 8, 32, 64, 4096] {
        for version in [2, 3] {
            let writer =
                Writer::default().version(version).aligned(alignment).u32("general.alignment", alignment as u32);
            let file = writer.tensor("a", &[3], GgmlType::I8, b"abc").tensor("b", &[2], GgmlType::I8, b"de").finish();
            let gguf = Gguf::parse(&file).unwrap();
            assert_eq!((gguf.version(), gguf.alignment()), (version, alignment));
            assert_eq!((gguf.tensor("a").unwrap().data(), gguf.tensor("b").unwrap().data()), (&b"abc"[..], &b"de"[..]));
            assert_eq!(gguf.tensor("b").unwrap().offset() % alignment, 0);
        }
    }
}

#[test]
fn a_file_may_be_without_keys_or_tensors_and_with_bytes_at_the_end() {
    let file = Writer::default().finish();
    assert_eq!(file.len(), 24);
    let gguf = Gguf::parse(&file).unwrap();
    assert_eq!((gguf.metadata().count(), gguf.tensors().count(), gguf.alignment()), (0, 0, 32));
    assert_eq!(gguf.metadata_bytes(), file);

    let file = [small_file(), vec![0; 100]].concat();
    assert_eq!(Gguf::parse(&file).unwrap().tensor_count(), 3);
}

#[test]
fn gaps_between_tensors_are_allowed() {
    let file = Writer::default().info("a", &[1], 0, 64).info("b", &[1], 0, 160).data(164).finish();
    let gguf = Gguf::parse(&file).unwrap();
    assert_eq!(gguf.tensor("b").unwrap().offset() - gguf.tensor("a").unwrap().offset(), 96);
}

#[test]
fn the_first_of_two_equal_names_wins() {
    let file = Writer::default()
        .u32("k", 1)
        .u32("k", 2)
        .tensor("t", &[1], GgmlType::I8, &[1])
        .tensor("t", &[1], GgmlType::I8, &[2])
        .finish();
    let gguf = Gguf::parse(&file).unwrap();
    assert_eq!((gguf.get("k"), gguf.metadata().count()), (Some(Value::U32(1)), 2));
    assert_eq!((gguf.tensor("t").unwrap().data(), gguf.tensors().count()), (&[1][..], 2));
}

#[test]
fn debug_shows_no_contents() {
    let file = small_file();
    let gguf = Gguf::parse(&file).unwrap();
    let text = format!("{gguf:?} {:?} {:?} {:?}", gguf.tensor("a.weight").unwrap(), gguf.metadata(), gguf.tensors());
    assert!(text.len() < 1500, "{text}");
}
