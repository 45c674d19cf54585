//! Memory of exactly the requested size, so that the sanitizer sees an access to the first byte behind it.

use std::alloc::{Layout, alloc, dealloc};
use std::ops::Range;

/// Memory that starts at a multiple of 64.
pub struct Exact {
    start: *mut u8,
    len: usize,
}

impl Exact {
    /// Returns `len` bytes, each equal to `fill`.
    pub fn new(len: usize, fill: u8) -> Self {
        // SAFETY: the layout has at least one byte.
        let start = unsafe { alloc(Self::layout(len)) };
        assert!(!start.is_null(), "no memory for {len} bytes");
        // SAFETY: the allocation has room for `len` bytes.
        unsafe { start.write_bytes(fill, len) };
        Self { start, len }
    }

    pub fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: `new` has written all `len` bytes, and `&mut self` is the only way to them.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.len) }
    }

    /// Returns a way to read the bytes while somebody has borrowed them.
    pub fn peek(&self) -> Peek {
        Peek { start: self.start, len: self.len }
    }

    fn layout(len: usize) -> Layout {
        Layout::from_size_align(len.max(1), 64).expect("a size that a machine can have")
    }
}

impl Drop for Exact {
    fn drop(&mut self) {
        // SAFETY: `new` allocated the memory with this layout.
        unsafe { dealloc(self.start, Self::layout(self.len)) }
    }
}

/// Reads memory that somebody has borrowed, between two calls of the borrower. The memory must outlive this value.
#[derive(Clone, Copy)]
pub struct Peek {
    start: *const u8,
    len: usize,
}

impl Peek {
    /// Returns a copy of the bytes of some ranges.
    pub fn copy(self, ranges: &[Range<usize>]) -> Vec<u8> {
        let mut out = Vec::with_capacity(ranges.iter().map(Range::len).sum());
        ranges.iter().for_each(|range| out.extend_from_slice(self.range(range)));
        out
    }

    /// Returns whether these ranges still have the bytes of a copy.
    pub fn is(self, ranges: &[Range<usize>], copy: &[u8]) -> bool {
        let mut at = 0;
        let is_same = ranges.iter().all(|range| {
            let part = copy.get(at..at + range.len());
            at += range.len();
            part == Some(self.range(range))
        });
        is_same && at == copy.len()
    }

    fn range<'r>(self, range: &Range<usize>) -> &'r [u8] {
        assert!(range.start <= range.end && range.end <= self.len);
        // SAFETY: the range is within the memory, and all of the memory was written when it was made. Nobody writes
        // while the slice lives, which is only in the two functions above: the engine that has borrowed the memory runs
        // inside of its calls, and this is one thread.
        unsafe { std::slice::from_raw_parts(self.start.add(range.start), range.len()) }
    }
}
