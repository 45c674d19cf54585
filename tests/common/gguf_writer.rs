//! A small GGUF v3 writer for models that a test makes, including broken ones. It checks nothing.

/// A metadata value.
#[derive(Clone, Debug, PartialEq)]
pub enum Meta {
    U8(u8),
    I8(i8),
    U16(u16),
    I16(i16),
    U32(u32),
    I32(i32),
    F32(f32),
    Bool(bool),
    String(Vec<u8>),
    /// An array: the number of the element type, and the elements.
    Array(u32, Vec<Meta>),
    U64(u64),
    I64(i64),
    F64(f64),
}

impl Meta {
    fn kind(&self) -> u32 {
        match self {
            Self::U8(_) => 0,
            Self::I8(_) => 1,
            Self::U16(_) => 2,
            Self::I16(_) => 3,
            Self::U32(_) => 4,
            Self::I32(_) => 5,
            Self::F32(_) => 6,
            Self::Bool(_) => 7,
            Self::String(_) => 8,
            Self::Array(..) => 9,
            Self::U64(_) => 10,
            Self::I64(_) => 11,
            Self::F64(_) => 12,
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::U8(v) => out.push(*v),
            Self::I8(v) => out.extend(v.to_le_bytes()),
            Self::U16(v) => out.extend(v.to_le_bytes()),
            Self::I16(v) => out.extend(v.to_le_bytes()),
            Self::U32(v) => out.extend(v.to_le_bytes()),
            Self::I32(v) => out.extend(v.to_le_bytes()),
            Self::F32(v) => out.extend(v.to_le_bytes()),
            Self::Bool(v) => out.push(u8::from(*v)),
            Self::String(v) => write_string(out, v),
            Self::Array(kind, values) => {
                out.extend(kind.to_le_bytes());
                out.extend((values.len() as u64).to_le_bytes());
                values.iter().for_each(|value| value.write(out));
            }
            Self::U64(v) => out.extend(v.to_le_bytes()),
            Self::I64(v) => out.extend(v.to_le_bytes()),
            Self::F64(v) => out.extend(v.to_le_bytes()),
        }
    }
}

macro_rules! meta_from {
    ($($from:ty => $variant:ident $kind:literal),*) => {$(
        impl From<$from> for Meta {
            fn from(value: $from) -> Self {
                Self::$variant(value)
            }
        }
        impl From<Vec<$from>> for Meta {
            fn from(values: Vec<$from>) -> Self {
                Self::Array($kind, values.into_iter().map(Self::$variant).collect())
            }
        }
    )*};
}

meta_from!(u8 => U8 0, i8 => I8 1, u16 => U16 2, i16 => I16 3, u32 => U32 4, i32 => I32 5, f32 => F32 6,
    bool => Bool 7, u64 => U64 10, i64 => I64 11, f64 => F64 12);

impl From<&str> for Meta {
    fn from(value: &str) -> Self {
        Self::String(value.as_bytes().to_vec())
    }
}

impl From<Vec<String>> for Meta {
    fn from(values: Vec<String>) -> Self {
        Self::Array(8, values.into_iter().map(|value| Self::String(value.into_bytes())).collect())
    }
}

/// A tensor to be written.
#[derive(Clone, Debug)]
pub struct Tensor {
    pub name: String,
    /// Dimensions in GGUF order: `dims[0]` is the length of a row.
    pub dims: Vec<u64>,
    /// Number of the type in the file.
    pub ggml_type: u32,
    pub data: Vec<u8>,
}

/// Collects metadata and tensors. [`GgufWriter::finish`] returns the file.
#[derive(Clone, Debug)]
pub struct GgufWriter {
    pub version: u32,
    /// Alignment of the tensors' data. It is written as `general.alignment` if it is not 32.
    pub alignment: usize,
    pub metadata: Vec<(String, Meta)>,
    pub tensors: Vec<Tensor>,
}

impl Default for GgufWriter {
    fn default() -> Self {
        Self { version: 3, alignment: 32, metadata: Vec::new(), tensors: Vec::new() }
    }
}

impl GgufWriter {
    /// Sets `key`. A key that exists keeps its place.
    pub fn set(&mut self, key: &str, value: impl Into<Meta>) -> &mut Self {
        let value = value.into();
        match self.metadata.iter_mut().find(|(name, _)| name == key) {
            Some(entry) => entry.1 = value,
            None => self.metadata.push((key.into(), value)),
        }
        self
    }

    /// Removes a key, which must exist.
    pub fn remove(&mut self, key: &str) -> &mut Self {
        let before = self.metadata.len();
        self.metadata.retain(|(name, _)| name != key);
        assert_ne!(self.metadata.len(), before, "no key {key}");
        self
    }

    pub fn add_tensor(&mut self, name: &str, dims: &[u64], ggml_type: u32, data: Vec<u8>) -> &mut Self {
        self.tensors.push(Tensor { name: name.into(), dims: dims.to_vec(), ggml_type, data });
        self
    }

    /// Returns the tensor of that name, to change it.
    pub fn tensor_mut(&mut self, name: &str) -> &mut Tensor {
        let found = self.tensors.iter_mut().find(|tensor| tensor.name == name);
        found.unwrap_or_else(|| panic!("no tensor {name}"))
    }

    /// Removes a tensor, which must exist.
    pub fn remove_tensor(&mut self, name: &str) -> &mut Self {
        let before = self.tensors.len();
        self.tensors.retain(|tensor| tensor.name != name);
        assert_ne!(self.tensors.len(), before, "no tensor {name}");
        self
    }

    /// Returns the bytes of the file.
    pub fn finish(&self) -> Vec<u8> {
        let mut writer = self.clone();
        if self.alignment != 32 {
            writer.set("general.alignment", self.alignment as u32);
        }
        let mut out = b"GGUF".to_vec();
        out.extend(writer.version.to_le_bytes());
        out.extend((writer.tensors.len() as u64).to_le_bytes());
        out.extend((writer.metadata.len() as u64).to_le_bytes());
        for (key, value) in &writer.metadata {
            write_string(&mut out, key.as_bytes());
            out.extend(value.kind().to_le_bytes());
            value.write(&mut out);
        }
        let mut offset = 0u64;
        for tensor in &writer.tensors {
            write_string(&mut out, tensor.name.as_bytes());
            out.extend((tensor.dims.len() as u32).to_le_bytes());
            tensor.dims.iter().for_each(|dim| out.extend(dim.to_le_bytes()));
            out.extend(tensor.ggml_type.to_le_bytes());
            out.extend(offset.to_le_bytes());
            offset += tensor.data.len().next_multiple_of(self.alignment) as u64;
        }
        for tensor in &writer.tensors {
            out.resize(out.len().next_multiple_of(self.alignment), 0);
            out.extend(&tensor.data);
        }
        // The end is padded, too, as other writers do it.
        out.resize(out.len().next_multiple_of(self.alignment), 0);
        out
    }
}

fn write_string(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend((bytes.len() as u64).to_le_bytes());
    out.extend(bytes);
}
