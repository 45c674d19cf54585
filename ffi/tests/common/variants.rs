//! Variants of models: the demo model with other token names or in parts, and a small model with a layer that predicts
//! further ahead.

use std::path::Path;

use gguf_rs_lite::{Gguf, Value};

use super::{manifest, model_file};
use gleed_testing::gguf_writer::{GgufWriter, Meta};

/// Returns a writer with the contents of the demo model's file, to be changed.
pub(crate) fn demo() -> GgufWriter {
    read(&model_file())
}

/// Returns a model of three layers, two of them recurrent, and a fourth layer that predicts further ahead. The fourth
/// layer is a copy of the layer with attention. It reads the sum of a token's embedding and the hidden state that is
/// given with the token.
pub(crate) fn with_predictor() -> GgufWriter {
    let mut writer = read(&manifest("../tests/data/recurrent/qwen35.gguf"));
    writer.set("qwen35.block_count", 4_u32).set("qwen35.nextn_predict_layers", 1_u32);
    let layer: Vec<_> = writer.tensors.iter().filter(|tensor| tensor.name.starts_with("blk.1.")).cloned().collect();
    for tensor in layer {
        writer.add_tensor(&tensor.name.replace("blk.1.", "blk.3."), &tensor.dims, tensor.ggml_type, tensor.data);
    }
    const WIDTH: usize = 32;
    let bytes = |numbers: Vec<f32>| numbers.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<u8>>();
    // Row i of the matrix has ones at the elements i of both halves of the input, so it adds the halves.
    let sum = (0..2 * WIDTH * WIDTH).map(|at| if at / (2 * WIDTH) == at % WIDTH { 1.0 } else { 0.0 });
    writer.add_tensor("blk.3.nextn.eh_proj.weight", &[2 * WIDTH as u64, WIDTH as u64], 0, bytes(sum.collect()));
    for norm in ["enorm", "hnorm"] {
        writer.add_tensor(&format!("blk.3.nextn.{norm}.weight"), &[WIDTH as u64], 0, bytes(vec![1.0; WIDTH]));
    }
    writer
}

/// Returns a writer with the contents of a file, to be changed.
fn read(path: &Path) -> GgufWriter {
    let bytes = std::fs::read(path).unwrap();
    let gguf = Gguf::parse(&bytes).unwrap();
    let mut writer = GgufWriter::default();
    for (key, value) in gguf.metadata() {
        writer.metadata.push((key.to_owned(), meta(value)));
    }
    for tensor in gguf.tensors() {
        writer.add_tensor(tensor.name(), tensor.dims(), tensor.ggml_type().number(), tensor.data().to_vec());
    }
    writer
}

/// Gives tokens other names, and makes them control tokens.
pub(crate) fn rename(writer: &mut GgufWriter, names: &[(usize, &str)]) {
    for (key, value) in &mut writer.metadata {
        let Meta::Array(_, values) = value else { continue };
        for &(id, name) in names {
            match key.as_str() {
                "tokenizer.ggml.tokens" => values[id] = name.into(),
                "tokenizer.ggml.token_type" => values[id] = Meta::I32(3),
                _ => {}
            }
        }
    }
}

/// Returns a file split into `count` parts.
pub(crate) fn split(whole: &GgufWriter, count: usize) -> Vec<Vec<u8>> {
    let each = whole.tensors.len().div_ceil(count);
    let part = |number: usize| {
        let mut part = if number == 0 { whole.clone() } else { GgufWriter::default() };
        part.set("split.no", number as u16).set("split.count", count as u16);
        part.set("split.tensors.count", whole.tensors.len() as i32);
        part.tensors = whole.tensors.chunks(each).nth(number).unwrap_or_default().to_vec();
        part.finish()
    };
    (0..count).map(part).collect()
}

fn meta(value: Value<'_>) -> Meta {
    match value {
        Value::U8(v) => Meta::U8(v),
        Value::I8(v) => Meta::I8(v),
        Value::U16(v) => Meta::U16(v),
        Value::I16(v) => Meta::I16(v),
        Value::U32(v) => Meta::U32(v),
        Value::I32(v) => Meta::I32(v),
        Value::F32(v) => Meta::F32(v),
        Value::Bool(v) => Meta::Bool(v),
        Value::String(v) => Meta::String(v.to_vec()),
        Value::Array(v) => Meta::Array(v.element_type() as u32, v.iter().map(meta).collect()),
        Value::U64(v) => Meta::U64(v),
        Value::I64(v) => Meta::I64(v),
        Value::F64(v) => Meta::F64(v),
    }
}
