//! A small writer of GGUF files for the tests, able to write wrong ones.

use gguf_rs_lite::{GgmlType, ValueType};

/// Counts and offsets are as given, so that they can lie.
pub(crate) struct Writer {
    version: u32,
    alignment: usize,
    keys: u64,
    metadata: Vec<u8>,
    tensors: u64,
    infos: Vec<u8>,
    data: Vec<u8>,
}

impl Default for Writer {
    fn default() -> Self {
        let (metadata, infos, data) = (Vec::new(), Vec::new(), Vec::new());
        Self { version: 3, alignment: 32, keys: 0, metadata, tensors: 0, infos, data }
    }
}

impl Writer {
    pub(crate) fn version(self, version: u32) -> Self {
        Self { version, ..self }
    }

    /// The alignment in fact; the key beside it is up to the test.
    pub(crate) fn aligned(self, alignment: usize) -> Self {
        Self { alignment, ..self }
    }

    /// A key with a value whose bytes are given.
    pub(crate) fn key(mut self, key: impl AsRef<[u8]>, value_type: u32, value: impl AsRef<[u8]>) -> Self {
        self.keys += 1;
        self.metadata.extend(string(key));
        self.metadata.extend(value_type.to_le_bytes());
        self.metadata.extend(value.as_ref());
        self
    }

    pub(crate) fn u32(self, key: &str, value: u32) -> Self {
        self.key(key, ValueType::U32.number(), value.to_le_bytes())
    }

    /// A description with nothing behind it.
    pub(crate) fn info(mut self, name: impl AsRef<[u8]>, dims: &[u64], ggml_type: u32, offset: u64) -> Self {
        self.tensors += 1;
        self.infos.extend(string(name));
        self.infos.extend((dims.len() as u32).to_le_bytes());
        self.infos.extend(dims.iter().flat_map(|dim| dim.to_le_bytes()));
        self.infos.extend(ggml_type.to_le_bytes());
        self.infos.extend(offset.to_le_bytes());
        self
    }

    /// A tensor at the end of the data so far.
    pub(crate) fn tensor(mut self, name: &str, dims: &[u64], ggml_type: GgmlType, data: &[u8]) -> Self {
        self.data.resize(self.data.len().next_multiple_of(self.alignment), 0);
        let offset = self.data.len() as u64;
        self.data.extend(data);
        self.info(name, dims, ggml_type.number(), offset)
    }

    /// Bytes of data for descriptions without any.
    pub(crate) fn data(mut self, bytes: usize) -> Self {
        self.data.resize(bytes, 0xda);
        self
    }

    /// The file.
    pub(crate) fn finish(self) -> Vec<u8> {
        let (tensors, keys) = (self.tensors, self.keys);
        self.finish_with_counts(tensors, keys)
    }

    /// The file, with these counts in its header.
    pub(crate) fn finish_with_counts(self, tensors: u64, keys: u64) -> Vec<u8> {
        let mut file = b"GGUF".to_vec();
        file.extend(self.version.to_le_bytes());
        file.extend(tensors.to_le_bytes());
        file.extend(keys.to_le_bytes());
        file.extend(self.metadata);
        file.extend(self.infos);
        if !self.data.is_empty() {
            file.resize(file.len().next_multiple_of(self.alignment), 0);
        }
        file.extend(self.data);
        file
    }
}

/// A string value.
pub(crate) fn string(bytes: impl AsRef<[u8]>) -> Vec<u8> {
    let bytes = bytes.as_ref();
    [&(bytes.len() as u64).to_le_bytes(), bytes].concat()
}

/// An array value; each element's bytes as given.
pub(crate) fn array<E: AsRef<[u8]>>(element_type: ValueType, elements: impl IntoIterator<Item = E>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut count = 0;
    for element in elements {
        count += 1;
        bytes.extend(element.as_ref());
    }
    array_of(element_type.number(), count, &bytes)
}

/// An array value with any type and count.
pub(crate) fn array_of(element_type: u32, count: u64, bytes: &[u8]) -> Vec<u8> {
    [&element_type.to_le_bytes(), &count.to_le_bytes()[..], bytes].concat()
}

/// A file with something of everything: 3 tensors, 6 keys.
pub(crate) fn small_file() -> Vec<u8> {
    let words = array(ValueType::String, ["a", "", "\u{e9}t\u{e9}"].map(string));
    let nested = array(ValueType::Array, [array(ValueType::I8, [[1], [2]]), array(ValueType::Bool, [[1]])]);
    Writer::default()
        .key("general.architecture", ValueType::String.number(), string("llama"))
        .u32("general.alignment", 32)
        .key("words", ValueType::Array.number(), words)
        .key("nested", ValueType::Array.number(), nested)
        .key("flag", ValueType::Bool.number(), [1])
        .key("eps", ValueType::F64.number(), 1e-5f64.to_le_bytes())
        .tensor("a.weight", &[4, 3], GgmlType::F32, &[7; 48])
        .tensor("b.weight", &[32, 1, 2], GgmlType::Q8_0, &[8; 68])
        .tensor("c.bias", &[5], GgmlType::F16, &[9; 10])
        .finish()
}
