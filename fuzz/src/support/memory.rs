//! Memory of exactly the size that was asked for, so that the sanitizer sees the first byte behind it.

use std::alloc::{Layout, alloc, dealloc};
use std::ops::Range;

/// Bytes at a multiple of 64.
pub struct Exact {
    start: *mut u8,
    len: usize,
}

impl Exact {
    /// `len` bytes, each of them `fill`.
    pub fn new(len: usize, fill: u8) -> Self {
        // SAFETY: the layout has at least one byte.
        let start = unsafe { alloc(Self::layout(len)) };
        assert!(!start.is_null(), "no memory for {len} bytes");
        // SAFETY: so many bytes were allocated.
        unsafe { start.write_bytes(fill, len) };
        Self { start, len }
    }

    pub fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: `new` has written all of them, and `&mut self` is the only way to them.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.len) }
    }

    /// A way to read the bytes while somebody has borrowed them.
    pub fn peek(&self) -> Peek {
        Peek { start: self.start, len: self.len }
    }

    fn layout(len: usize) -> Layout {
        Layout::from_size_align(len.max(1), 64).expect("a size that a machine can have")
    }
}

impl Drop for Exact {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout.
        unsafe { dealloc(self.start, Self::layout(self.len)) }
    }
}

/// Reads memory between two calls of who has borrowed it. The memory must outlive it.
#[derive(Clone, Copy)]
pub struct Peek {
    start: *const u8,
    len: usize,
}

impl Peek {
    /// A copy of the bytes of some ranges.
    pub fn copy(self, ranges: &[Range<usize>]) -> Vec<u8> {
        let mut out = Vec::with_capacity(ranges.iter().map(Range::len).sum());
        ranges.iter().for_each(|range| out.extend_from_slice(self.range(range)));
        out
    }

    /// Whether these ranges still have the bytes of a copy.
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
        // SAFETY: within the memory, which was written as a whole when it was made. Nobody writes while the slice
        // lives, which is in the two functions above only: the engine that has borrowed the memory runs inside of its
        // calls, and this is one thread.
        unsafe { std::slice::from_raw_parts(self.start.add(range.start), range.len()) }
    }
}
