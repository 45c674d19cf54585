//! Tensor descriptions: name, shape, type, position.

use core::fmt;

use crate::cursor::Cursor;
use crate::error::{GgufError, Name};
use crate::types::GgmlType;

/// The most dimensions that a tensor may have.
pub const MAX_DIMS: usize = 4;

/// The fewest bytes of a description: length of the name, number of dimensions, type, offset.
pub(crate) const LEAST_INFO_BYTES: u64 = 8 + 4 + 4 + 8;

/// A tensor of the file: its description and its bytes.
#[derive(Clone, Copy)]
pub struct TensorInfo<'a> {
    name: &'a str,
    dims: [u64; MAX_DIMS],
    n_dims: usize,
    ggml_type: GgmlType,
    offset: usize,
    data: &'a [u8],
}

impl<'a> TensorInfo<'a> {
    /// Returns the tensor's name.
    pub fn name(&self) -> &'a str {
        self.name
    }

    /// Returns the dimensions in the order of GGUF. The first one counts the elements that lie next to each other, so a
    /// matrix has `[columns, rows]`. There are at most [`MAX_DIMS`], and none for a single number. Dimensions can be 0,
    /// and the product of the others fits in 64 bits.
    pub fn dims(&self) -> &[u64] {
        self.dims.get(..self.n_dims).unwrap_or_default()
    }

    /// Returns the type of the elements.
    pub fn ggml_type(&self) -> GgmlType {
        self.ggml_type
    }

    /// Returns the byte offset of the data in the file: a multiple of the file's alignment.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Returns the data. It has exactly the number of bytes that the type and the dimensions require.
    pub fn data(&self) -> &'a [u8] {
        self.data
    }
}

impl fmt::Debug for TensorInfo<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TensorInfo")
            .field("name", &self.name)
            .field("dims", &self.dims())
            .field("ggml_type", &self.ggml_type)
            .field("offset", &self.offset)
            .field("bytes", &self.data.len())
            .finish()
    }
}

/// Iterator over the tensors of a file, in its order. See [`Gguf::tensors`](crate::Gguf::tensors).
#[derive(Clone, Debug)]
pub struct Tensors<'a> {
    pub(crate) cursor: Cursor<'a>,
    pub(crate) left: usize,
    pub(crate) data: Data<'a>,
}

impl<'a> Tensors<'a> {
    /// Returns the first tensor with this name. Names are compared as bytes, and descriptions before it are skipped.
    pub(crate) fn find(mut self, name: &str) -> Option<TensorInfo<'a>> {
        for _ in 0..self.left {
            let description = Description::read(&mut self.cursor).ok()?;
            if description.name == name.as_bytes() {
                return self.data.locate(&description).ok();
            }
        }
        None
    }
}

impl<'a> Iterator for Tensors<'a> {
    type Item = TensorInfo<'a>;

    fn next(&mut self) -> Option<TensorInfo<'a>> {
        self.left = self.left.checked_sub(1)?;
        let description = Description::read(&mut self.cursor).ok()?;
        self.data.locate(&description).ok()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Tensors<'_> {}

/// Reads all descriptions for the first time, from `cursor`. Checks everything, including the order of the data.
pub(crate) fn check(mut cursor: Cursor<'_>, count: usize, data: Data<'_>) -> Result<(), GgufError> {
    let mut previous_end = 0;
    for _ in 0..count {
        let description = Description::read(&mut cursor)?;
        let (tensor, offset) = (Name::new(description.name), description.offset);
        let bytes = description.bytes()?;
        if offset.checked_rem(data.alignment as u64) != Some(0) {
            return Err(GgufError::Misaligned { tensor, offset, alignment: data.alignment });
        }
        if offset < previous_end {
            return Err(GgufError::Overlap { tensor, offset, previous_end });
        }
        data.locate(&description)?;
        previous_end = offset.saturating_add(bytes);
    }
    Ok(())
}

/// Moves the cursor to the end of the descriptions.
pub(crate) fn skip(cursor: &mut Cursor<'_>, count: usize) -> Result<(), GgufError> {
    for _ in 0..count {
        Description::read(cursor)?;
    }
    Ok(())
}

/// A description as the file has it, which can be wrong.
struct Description<'a> {
    name: &'a [u8],
    /// Byte offset of the description in the file.
    position: usize,
    n_dims: usize,
    /// Dimensions. Unused ones are 1.
    dims: [u64; MAX_DIMS],
    type_number: u32,
    /// Byte offset from the start of the data.
    offset: u64,
}

impl<'a> Description<'a> {
    fn read(cursor: &mut Cursor<'a>) -> Result<Self, GgufError> {
        let position = cursor.position();
        let name = cursor.string()?;
        let n_dims = cursor.u32()?;
        let mut dims = [1; MAX_DIMS];
        if n_dims > dims.len() as u32 {
            return Err(GgufError::Dims { tensor: Name::new(name), dims: n_dims });
        }
        let n_dims = n_dims as usize;
        for dim in dims.iter_mut().take(n_dims) {
            *dim = cursor.u64()?;
        }
        let type_number = cursor.u32()?;
        let offset = cursor.u64()?;
        Ok(Self { name, position, n_dims, dims, type_number, offset })
    }

    fn ggml_type(&self) -> Result<GgmlType, GgufError> {
        GgmlType::from_number(self.type_number)
            .ok_or_else(|| GgufError::TensorType { tensor: Name::new(self.name), number: self.type_number })
    }

    /// Returns the number of bytes of the data.
    fn bytes(&self) -> Result<u64, GgufError> {
        let ggml_type = self.ggml_type()?;
        let [columns, rows @ ..] = self.dims;
        let block_len = ggml_type.block_len();
        if columns.checked_rem(block_len as u64) != Some(0) {
            return Err(GgufError::PartialBlock { tensor: Name::new(self.name), columns, block_len });
        }
        // Dimensions of 0 count as 1 in this product, so that their order does not decide whether it overflows.
        let product =
            |dims: [u64; MAX_DIMS]| dims.iter().try_fold(1u64, |product, &dim| product.checked_mul(dim.max(1)));
        let blocks = columns.checked_div(block_len as u64);
        let bytes = product(self.dims)
            .and(blocks)
            .and_then(|blocks| rows.iter().try_fold(blocks, |product, &dim| product.checked_mul(dim)))
            .and_then(|blocks| blocks.checked_mul(ggml_type.block_bytes() as u64));
        bytes.ok_or_else(|| GgufError::TooLarge { tensor: Name::new(self.name) })
    }
}

/// Position of the tensors' data.
#[derive(Clone, Copy, PartialEq)]
pub(crate) struct Data<'a> {
    /// The whole file.
    pub(crate) file: &'a [u8],
    /// Byte offset of the data in the file.
    pub(crate) start: usize,
    pub(crate) alignment: usize,
}

impl<'a> Data<'a> {
    /// Returns the tensor with this description.
    fn locate(&self, description: &Description<'a>) -> Result<TensorInfo<'a>, GgufError> {
        let Description { name, position, n_dims, dims, offset, .. } = *description;
        let ggml_type = description.ggml_type()?;
        let Ok(name) = core::str::from_utf8(name) else {
            return Err(GgufError::NameNotUtf8 { tensor: Name::new(name), offset: position });
        };
        let start = (self.start as u64).saturating_add(offset);
        let end = start.saturating_add(description.bytes()?);
        let range = usize::try_from(start).ok().zip(usize::try_from(end).ok());
        let Some((start, data)) = range.and_then(|(start, end)| Some((start, self.file.get(start..end)?))) else {
            return Err(GgufError::OutOfFile { tensor: Name::new(name.as_bytes()), end, len: self.file.len() });
        };
        Ok(TensorInfo { name, dims, n_dims, ggml_type, offset: start, data })
    }
}

impl fmt::Debug for Data<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Data").field("start", &self.start).field("alignment", &self.alignment).finish()
    }
}
