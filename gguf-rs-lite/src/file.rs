//! A whole file.

use core::fmt;

use crate::cursor::Cursor;
use crate::error::{Counted, GgufError};
use crate::meta::{self, LEAST_ENTRY_BYTES, Metadata, Skips};
use crate::tensor::{self, Data, LEAST_INFO_BYTES, TensorInfo, Tensors};
use crate::value::Value;

/// The alignment of files that do not state one.
const DEFAULT_ALIGNMENT: u32 = 32;

/// Number of bytes of the magic, the version and two counts, after which the metadata begins.
const HEADER_BYTES: usize = 24;

/// A GGUF file that has been checked. It borrows the bytes and is cheap to copy.
#[derive(Clone, Copy, PartialEq)]
pub struct Gguf<'a> {
    version: u32,
    key_count: usize,
    tensor_count: usize,
    /// Byte offsets of the beginning and of the end of the tensor descriptions.
    tensors_start: usize,
    tensors_end: usize,
    data: Data<'a>,
    skips: Skips,
}

impl<'a> Gguf<'a> {
    /// Reads a whole file, and checks everything but the contents of tensors.
    ///
    /// Trailing bytes are ignored, and so is the padding after the last tensor: it may be missing.
    ///
    /// # Errors
    /// [`GgufError`]: the first error in the header, then in the metadata, then in the tensors.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, GgufError> {
        let file = Self::parse_part(bytes)?;
        refuse_split(&file.metadata())?;
        Ok(file)
    }

    /// Reads a file as [`parse`](Self::parse) does. The file may be one part of a model that was split into several.
    ///
    /// # Errors
    /// The errors of [`parse`](Self::parse), without [`GgufError::Split`].
    pub fn parse_part(bytes: &'a [u8]) -> Result<Self, GgufError> {
        let mut cursor = Cursor::at(bytes, 0);
        let (version, tensor_count, key_count) = read_header(&mut cursor)?;
        let key_count = possible(&cursor, Counted::KeyValues, key_count, LEAST_ENTRY_BYTES)?;
        let skips = meta::check(&mut cursor, key_count)?;

        let metadata = Metadata { cursor: Cursor::at(bytes, HEADER_BYTES), left: key_count, skips };
        let alignment = alignment(&metadata)?;

        let tensor_count = possible(&cursor, Counted::Tensors, tensor_count, LEAST_INFO_BYTES)?;
        let descriptions = cursor;
        tensor::skip(&mut cursor, tensor_count)?;
        // If the offset overflows, there is no data, and the check finds that tensors are outside of the file.
        let start = cursor.position().checked_next_multiple_of(alignment).unwrap_or(usize::MAX);
        let data = Data { file: bytes, start, alignment };
        tensor::check(descriptions, tensor_count, data)?;
        let (tensors_start, tensors_end) = (descriptions.position(), cursor.position());
        Ok(Self { version, key_count, tensor_count, tensors_start, tensors_end, data, skips })
    }

    /// Returns the version of the format: 2 or 3.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// Returns the alignment of the tensors' data in the file, in bytes: a power of two.
    pub fn alignment(&self) -> usize {
        self.data.alignment
    }

    /// Returns the whole file, as it was given to [`parse`](Self::parse).
    pub fn bytes(&self) -> &'a [u8] {
        self.data.file
    }

    /// Returns everything before the tensors' data: header, metadata and tensor descriptions. For fingerprints of a
    /// model.
    pub fn metadata_bytes(&self) -> &'a [u8] {
        self.data.file.get(..self.tensors_end).unwrap_or_default()
    }

    /// Returns all keys and values, in the order of the file.
    pub fn metadata(&self) -> Metadata<'a> {
        Metadata { cursor: Cursor::at(self.data.file, HEADER_BYTES), left: self.key_count, skips: self.skips }
    }

    /// Returns the value of a key. If the key occurs several times, the first one counts. This is a linear scan.
    pub fn get(&self, key: &str) -> Option<Value<'a>> {
        self.metadata().find(key)
    }

    /// Returns all tensors, in the order of the file.
    pub fn tensors(&self) -> Tensors<'a> {
        let cursor = Cursor::at(self.data.file, self.tensors_start);
        Tensors { cursor, left: self.tensor_count, data: self.data }
    }

    /// Returns the tensor with this name. If the name occurs several times, the first one counts. This is a linear
    /// scan.
    pub fn tensor(&self, name: &str) -> Option<TensorInfo<'a>> {
        self.tensors().find(name)
    }

    /// Returns the number of tensors.
    pub fn tensor_count(&self) -> usize {
        self.tensor_count
    }
}

impl fmt::Debug for Gguf<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gguf")
            .field("version", &self.version)
            .field("alignment", &self.data.alignment)
            .field("keys", &self.key_count)
            .field("tensors", &self.tensor_count)
            .field("bytes", &self.data.file.len())
            .finish()
    }
}

/// Returns the version, the number of tensors, and the number of key/value pairs.
fn read_header(cursor: &mut Cursor<'_>) -> Result<(u32, u64, u64), GgufError> {
    if cursor.left() == 0 {
        return Err(GgufError::Empty);
    }
    let found: [u8; 4] = cursor.array()?;
    if found != *b"GGUF" {
        return Err(GgufError::Magic { found });
    }
    match cursor.u32()? {
        version @ 2..=3 => Ok((version, cursor.u64()?, cursor.u64()?)),
        // Versions are small numbers. So one with bits in its upper half only was written in the other byte order.
        swapped if swapped != 0 && swapped & 0xffff == 0 => Err(GgufError::BigEndian { version: swapped.swap_bytes() }),
        version => Err(GgufError::Version { version }),
    }
}

/// Refuses a count if the rest of the file cannot contain so many items of at least `least_bytes` bytes each.
fn possible(cursor: &Cursor<'_>, what: Counted, count: u64, least_bytes: u64) -> Result<usize, GgufError> {
    let too_many = GgufError::Count { what, count, offset: cursor.position(), left: cursor.left() };
    cursor.possible(count, least_bytes).ok_or(too_many)
}

fn refuse_split(metadata: &Metadata<'_>) -> Result<(), GgufError> {
    let number = |key| metadata.clone().find(key).and_then(|value| value.as_u64());
    match number("split.count") {
        Some(parts @ 2..) => Err(GgufError::Split { part: number("split.no").unwrap_or(0), parts }),
        _ => Ok(()),
    }
}

fn alignment(metadata: &Metadata<'_>) -> Result<usize, GgufError> {
    let alignment = match metadata.clone().find("general.alignment") {
        None => DEFAULT_ALIGNMENT,
        Some(Value::U32(alignment)) => alignment,
        Some(other) => return Err(GgufError::AlignmentType { found: other.value_type() }),
    };
    match usize::try_from(alignment) {
        Ok(bytes) if alignment.is_power_of_two() => Ok(bytes),
        _ => Err(GgufError::Alignment { alignment }),
    }
}
