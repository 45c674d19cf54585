//! Weights that are needed later are fetched while others are multiplied.

use core::arch::x86_64::{_MM_HINT_T0, _MM_HINT_T1, _mm_prefetch};

use core::ops::Range;

use crate::kernels::fetch::FetchOrder;
use crate::kernels::generic::{Inputs, OUTPUTS};

/// Bytes of a cache line.
const LINE: usize = 64;

/// Bytes by which fetches to the second-level cache are ahead of fetches to the first. 4096 is about as good; 16384 and
/// more gain half as much.
const FAR: usize = 8192;

/// A piece of the weights that are needed later. Its lines are fetched once, in the order of memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ahead {
    from: *const u8,
    /// Bytes that are fetched with each unit of work.
    step: usize,
}

impl Ahead {
    /// Number of units of work per block while products are computed.
    pub(super) const UNITS: usize = 8;

    /// Returns part `part` of `parts` equal parts of `bytes` bytes. It is fetched during `units` units of work.
    pub(super) fn part(from: *const u8, bytes: usize, part: usize, parts: usize, units: usize) -> Self {
        let bytes = bytes / parts.max(1);
        Self { from: from.wrapping_add(part * bytes), step: bytes.div_ceil(units.max(1)) }
    }

    /// Returns an empty piece, of which nothing is fetched.
    pub(super) fn none() -> Self {
        Self { from: core::ptr::null(), step: 0 }
    }

    /// Returns whether the piece is empty.
    #[inline(always)]
    pub(super) fn is_none(&self) -> bool {
        self.step == 0
    }

    /// Returns the rest of the piece, without the bytes of the first `first` units.
    pub(super) fn skip(self, first: usize) -> Self {
        Self { from: self.from.wrapping_add(first * self.step), ..self }
    }

    /// Fetches the bytes of `count` units of work from unit `first` on. They go to the second-level cache, because
    /// fetches to the first level take its few buffers from the loads.
    #[inline(always)]
    pub(super) fn fetch(&self, first: usize, count: usize) {
        let end = (first + count) * self.step;
        let mut at = (first * self.step).next_multiple_of(LINE);
        while at < end {
            // SAFETY: SSE is part of every x86-64, and a prefetch may point anywhere.
            unsafe { _mm_prefetch::<_MM_HINT_T1>(self.from.wrapping_add(at).cast()) };
            at += LINE;
        }
    }
}

/// The rows of weights that are needed after the rows that a kernel reads.
#[derive(Clone, Copy, Debug)]
pub(super) struct Coming {
    /// Start of the first row.
    pub(super) first: *const u8,
    /// Whether the rows lie right after the rows that the kernel reads.
    follow: bool,
}

impl Coming {
    /// Returns what follows the first `done` of `rows` rows from `weights` on: the remaining rows, or after the last
    /// one the rows that the inputs name.
    #[inline(always)]
    pub(super) fn after(done: usize, [rows, row_bytes]: [usize; 2], weights: *const u8, inputs: &Inputs<'_>) -> Self {
        let row = if done < rows { done } else { inputs.next() };
        Self { first: weights.wrapping_add(row.wrapping_mul(row_bytes)), follow: row == done }
    }

    /// Returns where the fetches in the order of memory go on: `lead` bytes after the start of these rows. The bytes
    /// before were fetched together with the rows that the kernel reads, if these rows follow them. Otherwise they are
    /// fetched now.
    ///
    /// Kernels read several rows at once, each from its first block on. Without a lead, the first blocks of the last
    /// rows are fetched right before they are read.
    #[inline(always)]
    pub(super) fn with_lead(self, lead: usize, order: FetchOrder) -> *const u8 {
        if !self.follow {
            self.fetch_first(lead, order);
        }
        self.first.wrapping_add(lead)
    }

    #[inline(never)] // rarely called
    fn fetch_first(self, bytes: usize, order: FetchOrder) {
        for at in (0..bytes).step_by(LINE) {
            fetch_lines(self.first.wrapping_add(at), LINE, order, false);
        }
    }
}

/// Fetches `bytes` bytes, a number that the compiler knows. In the order [`FetchOrder::Memory`] the lines go to the
/// first-level cache. If `far`, the lines [`FAR`] bytes after them go to the second. In the order [`FetchOrder::Rows`]
/// the lines go to the second-level cache, as in [`Ahead::fetch`].
#[inline(always)]
pub(super) fn fetch_lines(from: *const u8, bytes: usize, order: FetchOrder, far: bool) {
    let places = (0..bytes).step_by(LINE).map(|at| from.wrapping_add(at).cast::<i8>());
    // SAFETY: SSE is part of every x86-64, and a prefetch may point anywhere.
    unsafe {
        match order {
            FetchOrder::Memory if far => places.for_each(|place| {
                _mm_prefetch::<_MM_HINT_T0>(place);
                _mm_prefetch::<_MM_HINT_T1>(place.wrapping_add(FAR));
            }),
            FetchOrder::Memory => places.for_each(|place| _mm_prefetch::<_MM_HINT_T0>(place)),
            FetchOrder::Rows => places.for_each(|place| _mm_prefetch::<_MM_HINT_T1>(place)),
        }
    }
}

/// Fetches `numbers` to the first-level cache.
pub(in crate::kernels) fn fetch(numbers: &[f32]) {
    for line in numbers.chunks(LINE / size_of::<f32>()) {
        // SAFETY: SSE is part of every x86-64, and a prefetch may point anywhere.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast()) };
    }
}

/// Fetches the memory where the products with the rows of activations are stored next, to the second-level cache.
/// `address` and `stride` are those of [`Inputs::destination`].
#[inline(never)] // once for all kernels
pub(super) fn fetch_rows([address, stride]: [usize; 2], rows: Range<usize>) {
    if stride == 0 {
        return;
    }
    for row in rows {
        let place = core::ptr::without_provenance::<u8>(address.wrapping_add(row.wrapping_mul(stride)));
        for line in 0..OUTPUTS * size_of::<f32>() / LINE {
            // SAFETY: SSE is part of every x86-64, and a prefetch may point anywhere.
            unsafe { _mm_prefetch::<_MM_HINT_T1>(place.wrapping_add(line * LINE).cast()) };
        }
    }
}

/// The rows of weights that are needed after the rows that a kernel for one row of activations reads. Such a kernel
/// reads several rows at once, from their first block to their last.
#[derive(Clone, Copy, Debug)]
pub(super) struct NextRows {
    first: *const u8,
    /// Bytes from the address that is fetched with a row to the address that is fetched with the next row.
    apart: usize,
    /// Bytes from the address that is fetched with a block to the address that is fetched with the next block.
    step: usize,
}

impl NextRows {
    /// Returns the places to fetch for `rows` rows of `row_bytes` bytes. The kernel takes `together` blocks of
    /// `block_bytes` bytes of a row at once. `lead` is the lead of [`Coming::with_lead`].
    #[inline(always)]
    pub(super) fn new(
        coming: Coming,
        lead: usize,
        order: FetchOrder,
        [rows, row_bytes]: [usize; 2],
        [together, block_bytes]: [usize; 2],
    ) -> Self {
        match order {
            FetchOrder::Rows => Self { first: coming.first, apart: row_bytes, step: block_bytes },
            FetchOrder::Memory => {
                Self { first: coming.with_lead(lead, order), apart: together * block_bytes, step: rows * block_bytes }
            }
        }
    }

    /// Returns the addresses that are fetched with the first block of each of `N` rows.
    #[inline(always)]
    pub(super) fn places<const N: usize>(&self) -> [*const u8; N] {
        core::array::from_fn(|row| self.first.wrapping_add(row * self.apart))
    }

    /// Returns the address that is fetched with block `block` of the first row. Kernels with too few registers for the
    /// addresses of all rows begin here, and go from row to row.
    #[inline(always)]
    pub(super) fn place(&self, block: usize) -> *const u8 {
        self.first.wrapping_add(block * self.step)
    }

    /// Fetches `lines` lines from `place` on to the first-level cache. Then moves `place` to the address that is
    /// fetched with the next row.
    #[inline(always)]
    pub(super) fn fetch(&self, place: &mut *const u8, lines: usize) {
        for line in 0..lines {
            // SAFETY: SSE is part of every x86-64, and a prefetch may point anywhere.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(place.wrapping_add(LINE * line).cast()) };
        }
        *place = place.wrapping_add(self.apart);
    }

    /// Fetches `lines` lines for block `block` of a row to the first-level cache. `place` is the address of this row in
    /// [`NextRows::places`], for kernels that keep the addresses of all rows.
    #[inline(always)]
    pub(super) fn fetch_at(&self, place: *const u8, block: usize, lines: usize) {
        let from = place.wrapping_add(block * self.step);
        for line in 0..lines {
            // SAFETY: SSE is part of every x86-64, and a prefetch may point anywhere.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(from.wrapping_add(LINE * line).cast()) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quant::Form;

    #[test]
    fn only_rows_right_behind_the_others_follow() {
        let words = [0; 4];
        let inputs = Inputs::new(Form::F32, 1, 4, &words, 4).unwrap();
        let weights = core::ptr::without_provenance::<u8>(4096);
        let coming = |done, next| {
            let coming = Coming::after(done, [32, 10], weights, &inputs.then_rows_at(next));
            (coming.first.addr() - 4096, coming.follow)
        };
        assert_eq!(coming(16, 96), (160, true));
        assert_eq!(coming(32, 32), (320, true));
        assert_eq!(coming(32, 96), (960, false));
        assert_eq!(coming(48, 32), (320, false));
    }
}
