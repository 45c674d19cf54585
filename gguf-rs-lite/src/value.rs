//! Metadata values and arrays of them.

use core::fmt;

use crate::cursor::{Cursor, Truncated};
use crate::error::{Counted, GgufError, Name};
use crate::meta::Skips;
use crate::types::ValueType;

/// The deepest nesting of arrays: 4 means an array of arrays of arrays of arrays of numbers.
pub const MAX_ARRAY_DEPTH: usize = 4;

/// A metadata value. Strings and arrays borrow from the file.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs)] // the variants are those of `ValueType`
pub enum Value<'a> {
    U8(u8),
    I8(i8),
    U16(u16),
    I16(i16),
    U32(u32),
    I32(i32),
    F32(f32),
    Bool(bool),
    /// Usually UTF-8, but the entries of vocabularies need not be, so the bytes are not checked.
    String(&'a [u8]),
    Array(Array<'a>),
    U64(u64),
    I64(i64),
    F64(f64),
}

impl<'a> Value<'a> {
    /// Returns the type of the value.
    pub fn value_type(&self) -> ValueType {
        match self {
            Value::U8(_) => ValueType::U8,
            Value::I8(_) => ValueType::I8,
            Value::U16(_) => ValueType::U16,
            Value::I16(_) => ValueType::I16,
            Value::U32(_) => ValueType::U32,
            Value::I32(_) => ValueType::I32,
            Value::F32(_) => ValueType::F32,
            Value::Bool(_) => ValueType::Bool,
            Value::String(_) => ValueType::String,
            Value::Array(_) => ValueType::Array,
            Value::U64(_) => ValueType::U64,
            Value::I64(_) => ValueType::I64,
            Value::F64(_) => ValueType::F64,
        }
    }

    /// Returns the value of an integer of any type, if it is not negative.
    pub fn as_u64(&self) -> Option<u64> {
        match *self {
            Value::U64(number) => Some(number),
            _ => self.as_i64().and_then(|number| u64::try_from(number).ok()),
        }
    }

    /// Returns the value of an integer of any type, if it fits in 64 bits with a sign.
    pub fn as_i64(&self) -> Option<i64> {
        match *self {
            Value::U8(number) => Some(number.into()),
            Value::I8(number) => Some(number.into()),
            Value::U16(number) => Some(number.into()),
            Value::I16(number) => Some(number.into()),
            Value::U32(number) => Some(number.into()),
            Value::I32(number) => Some(number.into()),
            Value::I64(number) => Some(number),
            Value::U64(number) => i64::try_from(number).ok(),
            _ => None,
        }
    }

    /// Returns the value of a number of any type. Integers beyond 2^53 are rounded.
    pub fn as_f64(&self) -> Option<f64> {
        match *self {
            Value::F32(number) => Some(number.into()),
            Value::F64(number) => Some(number),
            Value::U64(number) => Some(number as f64),
            _ => self.as_i64().map(|number| number as f64),
        }
    }

    /// Returns the value of a number of any type, rounded to 32 bits.
    pub fn as_f32(&self) -> Option<f32> {
        match *self {
            Value::F32(number) => Some(number),
            _ => self.as_f64().map(|number| number as f32),
        }
    }

    /// Returns the value of a boolean.
    pub fn as_bool(&self) -> Option<bool> {
        match *self {
            Value::Bool(value) => Some(value),
            _ => None,
        }
    }

    /// Returns the value of a string, if it is UTF-8.
    pub fn as_str(&self) -> Option<&'a str> {
        self.as_bytes().and_then(|bytes| core::str::from_utf8(bytes).ok())
    }

    /// Returns the bytes of a string, whatever its encoding.
    pub fn as_bytes(&self) -> Option<&'a [u8]> {
        match *self {
            Value::String(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// Returns the value of an array.
    pub fn as_array(&self) -> Option<Array<'a>> {
        match *self {
            Value::Array(array) => Some(array),
            _ => None,
        }
    }

    /// Reads a value of the given type. `depth` is the number of arrays around it.
    pub(crate) fn read(
        cursor: &mut Cursor<'a>,
        value_type: ValueType,
        depth: usize,
        skips: &Skips,
    ) -> Result<Self, Fault> {
        Ok(match value_type {
            ValueType::U8 => Value::U8(u8::from_le_bytes(cursor.array()?)),
            ValueType::I8 => Value::I8(i8::from_le_bytes(cursor.array()?)),
            ValueType::U16 => Value::U16(u16::from_le_bytes(cursor.array()?)),
            ValueType::I16 => Value::I16(i16::from_le_bytes(cursor.array()?)),
            ValueType::U32 => Value::U32(cursor.u32()?),
            ValueType::I32 => Value::I32(i32::from_le_bytes(cursor.array()?)),
            ValueType::F32 => Value::F32(f32::from_le_bytes(cursor.array()?)),
            ValueType::Bool => Value::Bool(read_bool(cursor)?),
            ValueType::String => Value::String(cursor.string()?),
            ValueType::Array => Value::Array(Array::read(cursor, depth, skips)?),
            ValueType::U64 => Value::U64(cursor.u64()?),
            ValueType::I64 => Value::I64(i64::from_le_bytes(cursor.array()?)),
            ValueType::F64 => Value::F64(f64::from_le_bytes(cursor.array()?)),
        })
    }
}

/// An array of values of one type.
#[derive(Clone, Copy, PartialEq)]
pub struct Array<'a> {
    element_type: ValueType,
    len: usize,
    /// The bytes of the elements, and nothing else.
    bytes: &'a [u8],
}

impl<'a> Array<'a> {
    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the type of all elements.
    pub fn element_type(&self) -> ValueType {
        self.element_type
    }

    /// Returns the elements as the file has them: little-endian numbers one after the other, not aligned.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns element `index`. This takes constant time for elements of a fixed size, and reads all elements before it
    /// for strings and arrays.
    pub fn get(&self, index: usize) -> Option<Value<'a>> {
        if index >= self.len {
            return None;
        }
        match self.element_type.size() {
            Some(size) => {
                let mut cursor = Cursor::at(self.bytes, index.checked_mul(size)?);
                Value::read(&mut cursor, self.element_type, 0, &Skips::NONE).ok()
            }
            None => self.iter().nth(index),
        }
    }

    /// Returns an iterator over the elements.
    pub fn iter(&self) -> Elements<'a> {
        Elements { cursor: Cursor::at(self.bytes, 0), element_type: self.element_type, left: self.len }
    }

    /// Returns an iterator over the elements of an array of strings, or `None` for any other array.
    pub fn strings(&self) -> Option<Strings<'a>> {
        let strings = Strings { cursor: Cursor::at(self.bytes, 0), left: self.len };
        (self.element_type == ValueType::String).then_some(strings)
    }

    /// Reads an array and checks all elements, or none if `skips` has the array's end.
    fn read(cursor: &mut Cursor<'a>, depth: usize, skips: &Skips) -> Result<Self, Fault> {
        if depth >= MAX_ARRAY_DEPTH {
            return Err(Fault::Depth { offset: cursor.position() });
        }
        let element_type = read_type(cursor)?;
        let count = cursor.u64()?;
        let too_many = Fault::Count { count, offset: cursor.position(), left: cursor.left() };
        // So the loop below is bounded by the bytes that are left.
        let len = cursor.possible(count, element_type.least_bytes()).ok_or(too_many)?;
        let start = cursor.position();
        match skips.bytes_of(start) {
            Some(bytes) => _ = cursor.take(bytes as u64)?,
            None => walk(cursor, element_type, count, depth)?,
        }
        Ok(Self { element_type, len, bytes: cursor.since(start) })
    }
}

impl<'a> IntoIterator for Array<'a> {
    type Item = Value<'a>;
    type IntoIter = Elements<'a>;

    fn into_iter(self) -> Elements<'a> {
        self.iter()
    }
}

impl<'a> IntoIterator for &Array<'a> {
    type Item = Value<'a>;
    type IntoIter = Elements<'a>;

    fn into_iter(self) -> Elements<'a> {
        self.iter()
    }
}

impl fmt::Debug for Array<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Array").field("element_type", &self.element_type).field("len", &self.len).finish()
    }
}

/// Moves past `count` elements. Checks those that can be wrong.
fn walk(cursor: &mut Cursor<'_>, element_type: ValueType, count: u64, depth: usize) -> Result<(), Fault> {
    match element_type {
        ValueType::Bool => {
            for _ in 0..count {
                read_bool(cursor)?;
            }
        }
        ValueType::String => {
            for _ in 0..count {
                cursor.string()?;
            }
        }
        ValueType::Array => {
            for _ in 0..count {
                Array::read(cursor, depth.saturating_add(1), &Skips::NONE)?;
            }
        }
        _ => _ = cursor.take(count.saturating_mul(element_type.least_bytes()))?,
    }
    Ok(())
}

/// Reads the number of a value type.
pub(crate) fn read_type(cursor: &mut Cursor<'_>) -> Result<ValueType, Fault> {
    let offset = cursor.position();
    let number = cursor.u32()?;
    ValueType::from_number(number).ok_or(Fault::ValueType { number, offset })
}

fn read_bool(cursor: &mut Cursor<'_>) -> Result<bool, Fault> {
    let offset = cursor.position();
    match cursor.array()? {
        [0] => Ok(false),
        [1] => Ok(true),
        [value] => Err(Fault::Bool { value, offset }),
    }
}

/// Iterator over the elements of an [`Array`].
#[derive(Clone, Debug)]
pub struct Elements<'a> {
    cursor: Cursor<'a>,
    element_type: ValueType,
    left: usize,
}

impl<'a> Iterator for Elements<'a> {
    type Item = Value<'a>;

    fn next(&mut self) -> Option<Value<'a>> {
        self.left = self.left.checked_sub(1)?;
        Value::read(&mut self.cursor, self.element_type, 0, &Skips::NONE).ok()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Elements<'_> {}

/// Iterator over the elements of an [`Array`] of strings.
#[derive(Clone, Debug)]
pub struct Strings<'a> {
    cursor: Cursor<'a>,
    left: usize,
}

impl<'a> Iterator for Strings<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        self.left = self.left.checked_sub(1)?;
        self.cursor.string().ok()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Strings<'_> {}

/// An error of a value, before its key is known.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    Truncated(Truncated),
    Count { count: u64, offset: usize, left: usize },
    ValueType { number: u32, offset: usize },
    Bool { value: u8, offset: usize },
    Depth { offset: usize },
}

impl Fault {
    pub(crate) fn of_key(self, key: &[u8]) -> GgufError {
        let key = Name::new(key);
        match self {
            Fault::Truncated(truncated) => truncated.into(),
            Fault::Count { count, offset, left } => GgufError::Count { what: Counted::Elements, count, offset, left },
            Fault::ValueType { number, offset } => GgufError::ValueType { key, number, offset },
            Fault::Bool { value, offset } => GgufError::Bool { key, value, offset },
            Fault::Depth { offset } => GgufError::Depth { key, offset },
        }
    }
}

impl From<Truncated> for Fault {
    fn from(truncated: Truncated) -> Self {
        Fault::Truncated(truncated)
    }
}
