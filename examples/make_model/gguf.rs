//! Writes what is before the weights in a GGUF file: metadata and the list of tensors.

use gleed::tensor::Dtype;

use crate::shape::TensorShape;

const ALIGNMENT: usize = 32;

/// Bytes of zeros after a tensor of `len` bytes.
pub(crate) fn padding(len: usize) -> usize {
    len.next_multiple_of(ALIGNMENT) - len
}

/// A metadata value.
pub(crate) enum Value {
    Bool(bool),
    U32(u32),
    F32(f32),
    Text(String),
    Texts(Vec<String>),
    I32s(Vec<i32>),
}

/// Collects metadata and tensors.
#[derive(Default)]
pub(crate) struct Header {
    metadata: Vec<u8>,
    keys: u64,
    infos: Vec<u8>,
    tensors: u64,
    /// Bytes of all tensors, padded.
    weights: u64,
}

impl Header {
    pub(crate) fn set(&mut self, key: &str, value: Value) {
        let out = &mut self.metadata;
        let number = |out: &mut Vec<u8>, number: u32| out.extend(number.to_le_bytes());
        text(out, key);
        match value {
            Value::U32(value) => [4, value].into_iter().for_each(|word| number(out, word)),
            Value::F32(value) => [6, value.to_bits()].into_iter().for_each(|word| number(out, word)),
            Value::Bool(value) => {
                number(out, 7);
                out.push(u8::from(value));
            }
            Value::Text(value) => {
                number(out, 8);
                text(out, &value);
            }
            Value::Texts(values) => {
                [9, 8].into_iter().for_each(|word| number(out, word));
                out.extend((values.len() as u64).to_le_bytes());
                values.iter().for_each(|value| text(out, value));
            }
            Value::I32s(values) => {
                [9, 5].into_iter().for_each(|word| number(out, word));
                out.extend((values.len() as u64).to_le_bytes());
                values.iter().for_each(|value| out.extend(value.to_le_bytes()));
            }
        }
        self.keys += 1;
    }

    pub(crate) fn tensor(&mut self, tensor: &TensorShape, dtype: Dtype) {
        let out = &mut self.infos;
        text(out, &tensor.name);
        // The number of columns comes first; a vector has no number of rows.
        let dims: &[usize] = if tensor.is_vector() { &[tensor.cols] } else { &[tensor.cols, tensor.rows] };
        out.extend((dims.len() as u32).to_le_bytes());
        dims.iter().for_each(|&dim| out.extend((dim as u64).to_le_bytes()));
        out.extend(dtype.ggml_number().to_le_bytes());
        out.extend(self.weights.to_le_bytes());
        let bytes = dtype.row_bytes(tensor.cols).unwrap_or(0) * tensor.rows;
        self.weights += bytes.next_multiple_of(ALIGNMENT) as u64;
        self.tensors += 1;
    }

    /// The bytes before the first tensor, and the bytes of the whole file.
    pub(crate) fn finish(self) -> (Vec<u8>, u64) {
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

fn text(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u64).to_le_bytes());
    out.extend(text.as_bytes());
}
