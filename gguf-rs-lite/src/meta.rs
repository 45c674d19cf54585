//! The keys and values at the beginning of a file.

use crate::cursor::Cursor;
use crate::error::{GgufError, Name};
use crate::types::ValueType;
use crate::value::{Value, read_type};

/// The fewest bytes of a key/value pair: the length of the key, the type, and a value of one byte.
pub(crate) const LEAST_ENTRY_BYTES: u64 = 8 + 4 + 1;

/// Iterator over the keys and values of a file, in its order. See [`Gguf::metadata`](crate::Gguf::metadata).
#[derive(Clone, Debug)]
pub struct Metadata<'a> {
    pub(crate) cursor: Cursor<'a>,
    pub(crate) left: usize,
    pub(crate) skips: Skips,
}

impl<'a> Metadata<'a> {
    /// Returns the value of the first pair with this key. Keys are compared as bytes, and values before it are skipped.
    pub(crate) fn find(mut self, key: &str) -> Option<Value<'a>> {
        for _ in 0..self.left {
            let (found, value) = read_entry(&mut self.cursor, &self.skips).ok()?;
            if found == key.as_bytes() {
                return Some(value);
            }
        }
        None
    }
}

impl<'a> Iterator for Metadata<'a> {
    type Item = (&'a str, Value<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let (key, value) = read_entry(&mut self.cursor, &self.skips).ok()?;
        Some((core::str::from_utf8(key).ok()?, value))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Metadata<'_> {}

/// Reads all pairs for the first time. Checks everything, and returns the table of long arrays.
pub(crate) fn check(cursor: &mut Cursor<'_>, count: usize) -> Result<Skips, GgufError> {
    let mut skips = Skips::NONE;
    for _ in 0..count {
        let offset = cursor.position();
        let (key, value) = read_entry(cursor, &skips)?;
        if core::str::from_utf8(key).is_err() {
            return Err(GgufError::KeyNotUtf8 { key: Name::new(key), offset });
        }
        if let Value::Array(array) = value
            && array.element_type().size().is_none()
        {
            // The elements are at the end of the pair.
            skips.note(cursor.position().saturating_sub(array.bytes().len()), array.bytes().len());
        }
    }
    Ok(skips)
}

/// Reads a key and its value.
fn read_entry<'a>(cursor: &mut Cursor<'a>, skips: &Skips) -> Result<(&'a [u8], Value<'a>), GgufError> {
    let key = cursor.string()?;
    let value_type: ValueType = read_type(cursor).map_err(|fault| fault.of_key(key))?;
    let value = Value::read(cursor, value_type, 0, skips).map_err(|fault| fault.of_key(key))?;
    Ok((key, value))
}

/// Positions of the longest arrays of strings (or of arrays), so that no lookup reads a vocabulary again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Skips([Skip; 8]);

/// Position of an array's elements. No array begins at byte 0, so `start` is 0 in an unused entry.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Skip {
    start: usize,
    bytes: usize,
}

impl Skips {
    pub(crate) const NONE: Skips = Skips([Skip { start: 0, bytes: 0 }; 8]);

    /// Returns the number of bytes of the array whose elements begin at `start`, if it is in the table.
    pub(crate) fn bytes_of(&self, start: usize) -> Option<usize> {
        self.0.iter().find(|skip| skip.start == start && skip.bytes > 0).map(|skip| skip.bytes)
    }

    /// Enters an array in place of the shortest one, if the new one is longer.
    fn note(&mut self, start: usize, bytes: usize) {
        if let Some(shortest) = self.0.iter_mut().min_by_key(|skip| skip.bytes)
            && shortest.bytes < bytes
        {
            *shortest = Skip { start, bytes };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_keeps_the_longest() {
        let mut skips = Skips::NONE;
        for i in 1..=20 {
            skips.note(1000 * i, (i * 7) % 23); // 1 to 22 in disorder, without 9 and 16
        }
        for i in 1..=20 {
            let bytes = (i * 7) % 23;
            assert_eq!(skips.bytes_of(1000 * i), (bytes >= 14).then_some(bytes), "{bytes}");
        }
        assert_eq!(Skips::NONE.bytes_of(0), None);
    }
}
