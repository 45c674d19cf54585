//! Weights that are wanted later, fetched while others are multiplied.

use core::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};

/// Bytes of a cache line.
const LINE: usize = 64;

/// A piece of the weights that are wanted later. Its lines are fetched once, in the order of memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ahead {
    from: *const u8,
    /// Bytes per unit of the work that goes on meanwhile.
    step: usize,
}

impl Ahead {
    /// Units of work per block where the products are computed.
    pub(super) const UNITS: usize = 8;

    /// Part `part` of `parts` parts of so many bytes, during so many units of work.
    pub(super) fn part(from: *const u8, bytes: usize, part: usize, parts: usize, units: usize) -> Self {
        let bytes = bytes / parts.max(1);
        Self { from: from.wrapping_add(part * bytes), step: bytes.div_ceil(units.max(1)) }
    }

    /// What belongs to the units from `first` on.
    pub(super) fn skip(self, first: usize) -> Self {
        Self { from: self.from.wrapping_add(first * self.step), ..self }
    }

    /// Fetches what belongs to `count` units of work from unit `first` on, to the second-level cache: fetches to the
    /// first level take its few buffers from the loads.
    #[inline(always)]
    pub(super) fn fetch(&self, first: usize, count: usize) {
        let end = (first + count) * self.step;
        let mut at = (first * self.step).next_multiple_of(LINE);
        while at < end {
            #[allow(unused_unsafe)] // not unsafe in newer versions of Rust
            // SAFETY: SSE is part of every x86-64, and a prefetch may point anywhere.
            unsafe {
                _mm_prefetch::<_MM_HINT_T1>(self.from.wrapping_add(at).cast())
            };
            at += LINE;
        }
    }
}
