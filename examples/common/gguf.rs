//! Writes the part of a GGUF file that precedes the weights: the metadata and the list of tensors.

use gguf_rs_lite::Value as Known;
use gleed::tensor::Dtype;

const ALIGNMENT: usize = 32;

/// Returns the number of zero bytes after a tensor of `len` bytes.
pub fn padding(len: usize) -> usize {
    len.next_multiple_of(ALIGNMENT) - len
}

/// A metadata value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Bool(bool),
    U32(u32),
    F32(f32),
    Text(String),
    Texts(Vec<String>),
    I32s(Vec<i32>),
    F32s(Vec<f32>),
    Bools(Vec<bool>),
    Bytes(Vec<u8>),
}

/// Collects metadata and tensors.
#[derive(Default)]
pub struct Header {
    metadata: Vec<u8>,
    keys: u64,
    infos: Vec<u8>,
    tensors: u64,
    /// Number of bytes of all tensors, padding included.
    weights: u64,
}

impl Header {
    pub fn set(&mut self, key: &str, value: Value) {
        let out = &mut self.metadata;
        text(out, key);
        match value {
            Value::U32(value) => words(out, &[4, value]),
            Value::F32(value) => words(out, &[6, value.to_bits()]),
            Value::Bool(value) => {
                words(out, &[7]);
                out.push(u8::from(value));
            }
            Value::Text(value) => {
                words(out, &[8]);
                text(out, &value);
            }
            Value::Texts(values) => {
                array(out, 8, values.len());
                values.iter().for_each(|value| text(out, value));
            }
            Value::I32s(values) => {
                array(out, 5, values.len());
                values.iter().for_each(|value| out.extend(value.to_le_bytes()));
            }
            Value::F32s(values) => {
                array(out, 6, values.len());
                values.iter().for_each(|value| out.extend(value.to_le_bytes()));
            }
            Value::Bools(values) => {
                array(out, 7, values.len());
                out.extend(values.into_iter().map(u8::from));
            }
            Value::Bytes(values) => {
                array(out, 0, values.len());
                out.extend(values);
            }
        }
        self.keys += 1;
    }

    /// Sets a value that was read from another file.
    pub fn copy(&mut self, key: &str, value: Known<'_>) {
        let out = &mut self.metadata;
        text(out, key);
        words(out, &[value.value_type() as u32]);
        match value {
            Known::U8(value) => out.push(value),
            Known::I8(value) => out.extend(value.to_le_bytes()),
            Known::U16(value) => out.extend(value.to_le_bytes()),
            Known::I16(value) => out.extend(value.to_le_bytes()),
            Known::U32(value) => out.extend(value.to_le_bytes()),
            Known::I32(value) => out.extend(value.to_le_bytes()),
            Known::F32(value) => out.extend(value.to_le_bytes()),
            Known::Bool(value) => out.push(u8::from(value)),
            Known::String(value) => bytes(out, value),
            Known::Array(value) => {
                words(out, &[value.element_type() as u32]);
                out.extend((value.len() as u64).to_le_bytes());
                out.extend(value.bytes());
            }
            Known::U64(value) => out.extend(value.to_le_bytes()),
            Known::I64(value) => out.extend(value.to_le_bytes()),
            Known::F64(value) => out.extend(value.to_le_bytes()),
        }
        self.keys += 1;
    }

    /// Adds a tensor. `dims[0]` is the number of columns.
    pub fn tensor(&mut self, name: &str, dims: &[usize], dtype: Dtype) {
        let out = &mut self.infos;
        text(out, name);
        words(out, &[dims.len() as u32]);
        dims.iter().for_each(|&dim| out.extend((dim as u64).to_le_bytes()));
        words(out, &[dtype.ggml_number()]);
        out.extend(self.weights.to_le_bytes());
        let [cols, rows @ ..] = dims else { return };
        let bytes = dtype.row_bytes(*cols).unwrap_or(0) * rows.iter().product::<usize>();
        self.weights += bytes.next_multiple_of(ALIGNMENT) as u64;
        self.tensors += 1;
    }

    /// Returns the bytes before the first tensor, and the size of the whole file in bytes.
    pub fn finish(self) -> (Vec<u8>, u64) {
        let mut out = b"GGUF\x03\0\0\0".to_vec();
        out.extend(self.tensors.to_le_bytes());
        out.extend(self.keys.to_le_bytes());
        out.extend(self.metadata);
        out.extend(self.infos);
        out.resize(out.len().next_multiple_of(ALIGNMENT), 0);
        let total = out.len() as u64 + self.weights;
        (out, total)
    }
}

fn words(out: &mut Vec<u8>, words: &[u32]) {
    words.iter().for_each(|word| out.extend(word.to_le_bytes()));
}

fn array(out: &mut Vec<u8>, element_type: u32, len: usize) {
    words(out, &[9, element_type]);
    out.extend((len as u64).to_le_bytes());
}

fn text(out: &mut Vec<u8>, text: &str) {
    bytes(out, text.as_bytes());
}

fn bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend((bytes.len() as u64).to_le_bytes());
    out.extend(bytes);
}
