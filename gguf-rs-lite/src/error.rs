//! Errors of files.

use core::fmt;

use crate::cursor::Truncated;
use crate::tensor::MAX_DIMS;
use crate::types::ValueType;
use crate::value::MAX_ARRAY_DEPTH;

/// Why a file was refused. Offsets are byte positions in the file unless stated otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GgufError {
    /// The file has no bytes.
    Empty,
    /// The file does not begin with `GGUF`.
    Magic {
        /// The first four bytes.
        found: [u8; 4],
    },
    /// The file is big-endian.
    BigEndian {
        /// The version, read as a big-endian number.
        version: u32,
    },
    /// A version other than 2 and 3.
    Version {
        /// The version that was found.
        version: u32,
    },
    /// The file ends in the middle of its header, metadata or tensor descriptions.
    Truncated {
        /// Offset of the number, string or array that is cut off.
        offset: usize,
        /// Number of bytes needed from there.
        needed: u64,
        /// Number of bytes left from there.
        left: usize,
    },
    /// A count for which the bytes after it do not suffice, even if all items have the smallest size.
    Count {
        /// Kind of the items.
        what: Counted,
        /// Number of items.
        count: u64,
        /// Offset of the items.
        offset: usize,
        /// Number of bytes left from there.
        left: usize,
    },
    /// A key that is not UTF-8.
    KeyNotUtf8 {
        /// The key, as much as fits.
        key: Name,
        /// Offset of the key/value pair.
        offset: usize,
    },
    /// A value, or the elements of an array, of an unknown type.
    ValueType {
        /// The key of the value.
        key: Name,
        /// The number of the type.
        number: u32,
        /// Offset of that number.
        offset: usize,
    },
    /// A boolean that is neither 0 nor 1.
    Bool {
        /// The key of the value.
        key: Name,
        /// The byte that was found.
        value: u8,
        /// Offset of the byte.
        offset: usize,
    },
    /// Arrays within arrays, more than [`MAX_ARRAY_DEPTH`] deep.
    Depth {
        /// The key of the value.
        key: Name,
        /// Offset of the first array that is too deep.
        offset: usize,
    },
    /// `general.alignment` is not a U32.
    AlignmentType {
        /// Type of the value.
        found: ValueType,
    },
    /// `general.alignment` is not a power of two.
    Alignment {
        /// The alignment that was found.
        alignment: u32,
    },
    /// The file is one part of a model that was split into several.
    Split {
        /// Number of the part, from 0 (`split.no`).
        part: u64,
        /// Number of parts (`split.count`).
        parts: u64,
    },
    /// A tensor's name that is not UTF-8.
    NameNotUtf8 {
        /// The name, as much as fits.
        tensor: Name,
        /// Offset of the tensor's description.
        offset: usize,
    },
    /// A tensor with more than [`MAX_DIMS`] dimensions.
    Dims {
        /// The tensor.
        tensor: Name,
        /// The number of dimensions.
        dims: u32,
    },
    /// A tensor of an unknown type.
    TensorType {
        /// The tensor.
        tensor: Name,
        /// The number of the type.
        number: u32,
    },
    /// A tensor whose first dimension is not a whole number of blocks.
    PartialBlock {
        /// The tensor.
        tensor: Name,
        /// The first dimension of the tensor.
        columns: u64,
        /// Number of elements per block of the tensor's type.
        block_len: usize,
    },
    /// A tensor whose number of elements or bytes does not fit in 64 bits.
    TooLarge {
        /// The tensor.
        tensor: Name,
    },
    /// A tensor whose data does not begin at a multiple of the alignment.
    Misaligned {
        /// The tensor.
        tensor: Name,
        /// Offset of the tensor from the start of the data.
        offset: u64,
        /// Alignment of the file.
        alignment: usize,
    },
    /// A tensor that begins before the end of the tensor that is described before it.
    Overlap {
        /// The tensor.
        tensor: Name,
        /// Offset of the tensor from the start of the data.
        offset: u64,
        /// End of the previous tensor, from the start of the data.
        previous_end: u64,
    },
    /// A tensor that ends after the end of the file.
    OutOfFile {
        /// The tensor.
        tensor: Name,
        /// End of the tensor, or the largest number if it does not fit in 64 bits.
        end: u64,
        /// Number of bytes of the file.
        len: usize,
    },
}

impl fmt::Display for GgufError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => write!(f, "the file is empty"),
            Self::Magic { found } => {
                write!(f, "not a GGUF file: it begins with \"{}\" instead of \"GGUF\"", found.escape_ascii())
            }
            Self::BigEndian { version } => write!(f, "a big-endian GGUF file (version {version}): not supported"),
            Self::Version { version } => write!(f, "GGUF version {version}: only 2 and 3 are supported"),
            Self::Truncated { offset, needed, left } => {
                write!(f, "the file is cut off: {needed} bytes are needed at byte {offset}, {left} are left")
            }
            Self::Count { what, count, offset, left } => {
                write!(f, "{count} {what} cannot be in the {left} bytes that are left at byte {offset}")
            }
            Self::KeyNotUtf8 { key, offset } => write!(f, "key {key} at byte {offset} is not UTF-8"),
            Self::ValueType { key, number, offset } => {
                write!(f, "key {key}: unknown value type {number} at byte {offset}")
            }
            Self::Bool { key, value, offset } => {
                write!(f, "key {key}: boolean {value} at byte {offset} is neither 0 nor 1")
            }
            Self::Depth { key, offset } => {
                write!(f, "key {key}: arrays more than {MAX_ARRAY_DEPTH} deep at byte {offset}")
            }
            Self::AlignmentType { found } => write!(f, "general.alignment has type {found} instead of U32"),
            Self::Alignment { alignment } => write!(f, "general.alignment is {alignment}, not a power of two"),
            Self::Split { part, parts } => write!(
                f,
                "this is part {} of a model split into {parts} files: all of them are needed",
                part.saturating_add(1)
            ),
            _ => self.fmt_tensor(f),
        }
    }
}

impl GgufError {
    /// Writes the errors that belong to one tensor.
    fn fmt_tensor(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NameNotUtf8 { tensor, offset } => write!(f, "tensor name {tensor} at byte {offset} is not UTF-8"),
            Self::Dims { tensor, dims } => {
                write!(f, "tensor {tensor} has {dims} dimensions, more than {MAX_DIMS}")
            }
            Self::TensorType { tensor, number } => write!(f, "tensor {tensor} has unknown type {number}"),
            Self::PartialBlock { tensor, columns, block_len } => {
                write!(f, "tensor {tensor} has {columns} columns, not a multiple of its block of {block_len}")
            }
            Self::TooLarge { tensor } => write!(f, "the size of tensor {tensor} is beyond 64 bits"),
            Self::Misaligned { tensor, offset, alignment } => {
                write!(f, "tensor {tensor} begins at data byte {offset}, not a multiple of {alignment}")
            }
            Self::Overlap { tensor, offset, previous_end } => {
                write!(
                    f,
                    "tensor {tensor} begins at data byte {offset}, before the end {previous_end} of the previous one"
                )
            }
            Self::OutOfFile { tensor, end, len } => {
                write!(f, "tensor {tensor} ends at byte {end}, but the file has only {len} bytes")
            }
            _ => Ok(()),
        }
    }
}

impl core::error::Error for GgufError {}

impl From<Truncated> for GgufError {
    fn from(Truncated { offset, needed, left }: Truncated) -> Self {
        Self::Truncated { offset, needed, left }
    }
}

/// The kind of items that [`GgufError::Count`] counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Counted {
    /// Pairs of a key and a value.
    KeyValues,
    /// Tensor descriptions.
    Tensors,
    /// Elements of an array.
    Elements,
}

impl fmt::Display for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::KeyValues => "key/value pairs",
            Self::Tensors => "tensor descriptions",
            Self::Elements => "array elements",
        })
    }
}

/// A key or a tensor's name in an error. It stores the first 62 bytes, so that errors borrow nothing.
///
/// `Display` writes it in quotes, and escapes everything but printable ASCII, because the name is not trusted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Name {
    bytes: [u8; 62],
    len: u8,
    cut: bool,
}

impl Name {
    /// Returns `name`, as much of it as fits.
    pub fn new(name: &[u8]) -> Self {
        let mut bytes = [0; 62];
        let mut len = 0;
        for (to, from) in bytes.iter_mut().zip(name) {
            *to = *from;
            len += 1;
        }
        Self { bytes, len, cut: name.len() > bytes.len() }
    }

    /// Returns the bytes that were kept.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or_default()
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}{}\"", self.as_bytes().escape_ascii(), if self.cut { "..." } else { "" })
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::string::ToString;

    #[test]
    fn names_are_cut_and_escaped() {
        assert_eq!(Name::new(b"blk.0.attn_q.weight").to_string(), "\"blk.0.attn_q.weight\"");
        assert_eq!(Name::new(b"a\x1b[2Jb\xffc\"").to_string(), "\"a\\x1b[2Jb\\xffc\\\"\"");
        assert_eq!(Name::new(&[b'x'; 62]).to_string().len(), 64);
        assert!(Name::new(&[b'x'; 63]).to_string().ends_with("x...\""));
        assert_eq!(Name::new(&[b'x'; 1000]).as_bytes(), &[b'x'; 62]);
    }

    #[test]
    fn every_error_has_a_text() {
        let (key, tensor, offset) = (Name::new(b"k"), Name::new(b"t"), 24);
        let errors = [
            GgufError::Empty,
            GgufError::Magic { found: *b"\0abc" },
            GgufError::BigEndian { version: 3 },
            GgufError::Version { version: 1 },
            GgufError::Truncated { offset, needed: 8, left: 7 },
            GgufError::Count { what: Counted::Tensors, count: 9, offset, left: 7 },
            GgufError::KeyNotUtf8 { key, offset },
            GgufError::ValueType { key, number: 13, offset },
            GgufError::Bool { key, value: 2, offset },
            GgufError::Depth { key, offset },
            GgufError::AlignmentType { found: ValueType::U64 },
            GgufError::Alignment { alignment: 24 },
            GgufError::Split { part: 1, parts: 3 },
            GgufError::NameNotUtf8 { tensor, offset },
            GgufError::Dims { tensor, dims: 5 },
            GgufError::TensorType { tensor, number: 99 },
            GgufError::PartialBlock { tensor, columns: 33, block_len: 32 },
            GgufError::TooLarge { tensor },
            GgufError::Misaligned { tensor, offset: 7, alignment: 32 },
            GgufError::Overlap { tensor, offset: 0, previous_end: 8 },
            GgufError::OutOfFile { tensor, end: 9, len: 8 },
        ];
        for error in errors {
            assert!(error.to_string().len() > 15, "{error:?}");
        }
        assert!(size_of::<GgufError>() <= 96);
    }
}
