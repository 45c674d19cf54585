//! A reading position in the file. Every read is checked, and a failed read moves nothing.

use core::fmt;

/// The bytes ended before the end of a read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Truncated {
    /// Byte offset of the read in the file.
    pub(crate) offset: usize,
    pub(crate) needed: u64,
    pub(crate) left: usize,
}

#[derive(Clone, Copy, PartialEq)]
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl<'a> Cursor<'a> {
    /// Returns a cursor at `position`, counted from the start of `bytes`.
    pub(crate) fn at(bytes: &'a [u8], position: usize) -> Self {
        Self { bytes, position }
    }

    pub(crate) fn position(&self) -> usize {
        self.position
    }

    /// Returns the number of bytes from here to the end.
    pub(crate) fn left(&self) -> usize {
        self.bytes.len().saturating_sub(self.position)
    }

    /// Returns `count` as a size, if the rest can contain `count` items of at least `least_bytes` bytes each.
    pub(crate) fn possible(&self, count: u64, least_bytes: u64) -> Option<usize> {
        let fits = count.checked_mul(least_bytes)? <= self.left() as u64;
        usize::try_from(count).ok().filter(|_| fits)
    }

    /// Returns the bytes from `start` to here.
    pub(crate) fn since(&self, start: usize) -> &'a [u8] {
        self.bytes.get(start..self.position).unwrap_or_default()
    }

    /// Reads the next `count` bytes.
    pub(crate) fn take(&mut self, count: u64) -> Result<&'a [u8], Truncated> {
        let end = usize::try_from(count).ok().and_then(|count| self.position.checked_add(count));
        let Some((end, taken)) = end.and_then(|end| Some((end, self.bytes.get(self.position..end)?))) else {
            return Err(Truncated { offset: self.position, needed: count, left: self.left() });
        };
        self.position = end;
        Ok(taken)
    }

    /// Reads the next `N` bytes.
    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Truncated> {
        let Some(array) = self.bytes.get(self.position..).and_then(|rest| rest.first_chunk::<N>()) else {
            return Err(Truncated { offset: self.position, needed: N as u64, left: self.left() });
        };
        self.position = self.position.saturating_add(N);
        Ok(*array)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Truncated> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Truncated> {
        self.array().map(u64::from_le_bytes)
    }

    /// Reads a GGUF string: the number of bytes, then the bytes. If the string is cut off, the cursor does not move.
    pub(crate) fn string(&mut self) -> Result<&'a [u8], Truncated> {
        let mut ahead = *self;
        let len = ahead.u64()?;
        let string = ahead.take(len)?;
        *self = ahead;
        Ok(string)
    }
}

impl fmt::Debug for Cursor<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cursor").field("position", &self.position).field("left", &self.left()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_move_on_and_failed_reads_do_not() {
        let mut cursor = Cursor::at(b"\x01\0\0\0\x02\0\0\0\0\0\0\0ab\xff", 0);
        assert_eq!(cursor.u32().unwrap(), 1);
        assert_eq!(cursor.string().unwrap(), b"ab");
        let error = cursor.u32().unwrap_err();
        assert_eq!((error.offset, error.needed, error.left), (14, 4, 1));
        assert_eq!((cursor.position(), cursor.left(), cursor.since(12)), (14, 1, &b"ab"[..]));
        assert_eq!(cursor.array().unwrap(), [0xff]);
        assert_eq!(cursor.take(0).unwrap(), b"");
    }

    #[test]
    fn lengths_near_the_largest_number_are_no_trouble() {
        let mut cursor = Cursor::at(b"\xff\xff\xff\xff\xff\xff\xff\xffx", 0);
        assert_eq!(cursor.string().unwrap_err().needed, u64::MAX);
        assert_eq!(cursor.position(), 0);
        assert_eq!(Cursor::at(b"", usize::MAX).left(), 0);
        assert!(Cursor::at(b"", usize::MAX).take(1).is_err());
    }
}
