//! What a format of weights has to say for its products with tiles.

use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};

use super::tiles::{Shapes, Sums};
use crate::kernels::x86_64::ahead::Ahead;
use crate::kernels::x86_64::avx512::matmul::{Input, Line};
use crate::tensor::TensorView;

/// Rows of activations of a tile.
pub(super) const ROWS: usize = 16;
/// Bytes of all blocks of a panel: it stays in the first-level cache beside the inputs.
const BYTES: usize = 20 << 10;
/// f32 elements of scratch for the work and a panel, wherever the scratch begins.
pub(super) const SCRATCH: usize = (size_of::<Work>() + BYTES + size_of::<Line>()) / size_of::<f32>();

/// What is computed with sixteen rows of activations.
#[repr(C, align(64))]
pub(super) struct Work {
    /// What tiles have added up: four tiles of a group of rows, and of the one before.
    pub(super) sums: [[Sums; 4]; 2],
    /// The sums of the activations of each block of 32 of each row.
    pub(super) totals: [[f32; 32]; ROWS],
}

/// Up to sixteen rows of activations from some block on.
#[derive(Clone, Copy)]
pub(super) struct Group {
    /// The first row; each of the others lies `stride` bytes after the one before.
    pub(super) first: Input,
    pub(super) stride: usize,
    pub(super) rows: usize,
    /// 0 and 1 in turn.
    pub(super) turn: usize,
}

impl Group {
    /// Fetches 256 columns of a row of the next sixteen, with what belongs to them.
    #[inline]
    pub(super) fn fetch_next(&self, row: usize) {
        let start = self.stride.wrapping_mul(ROWS + row);
        let Input { codes, scales, sums, .. } = self.first;
        let codes = codes.wrapping_byte_add(start);
        let lines = [0, 64, 128, 192].map(|line| codes.wrapping_add(line));
        let others = [scales.wrapping_byte_add(start).cast(), sums.wrapping_byte_add(start).cast()];
        for line in lines.into_iter().chain(others) {
            // SAFETY: every x86-64 processor has the instruction, and an address that cannot be read does nothing.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(line) };
        }
    }
}

/// A format of weights: how a panel is unpacked, and multiplied.
///
/// # Safety
/// All bit patterns of a panel are valid. A panel is a whole number of lines, and at most [`BYTES`].
pub(super) unsafe trait Format {
    /// One block of 32 rows.
    type Panel;
    /// Columns of a block.
    const COLS: usize;
    /// Bytes of a block.
    const BYTES: usize;
    /// The most blocks of a panel.
    const BLOCKS: usize = const {
        let blocks = BYTES / size_of::<Self::Panel>();
        assert!(1 <= blocks && blocks <= 16, "totals are prepared for 16 blocks at once");
        blocks
    };

    /// Unpacks blocks of all rows of weights from block `first` on.
    ///
    /// # Safety
    /// There is at least one row, the rows have these blocks, and less than 2^31 bytes.
    unsafe fn unpack(weights: TensorView<'_>, first: usize, panel: &mut [Self::Panel], ahead: impl Fn(usize) -> Ahead);

    /// The shapes of the tiles for so many rows of activations.
    fn shapes(rows: usize) -> Shapes;

    /// Adds the products of a panel to `out`, 32 elements per row of activations; or leaves them to the next call,
    /// which gets the group as `before`, and at last to [`Format::finish`].
    ///
    /// # Safety
    /// The panel has at most [`Self::BLOCKS`] blocks, and the rows have them; there are 1 to 16 rows, and `out` has
    /// room for them. The tiles have the shapes for so many rows. `before` is the group of the call before, of sixteen
    /// rows, whose part of the output ends at `out`; its turn is the other one.
    unsafe fn add_products(
        panel: &[Self::Panel],
        group: &Group,
        before: Option<&Group>,
        work: &mut Work,
        ahead: Ahead,
        out: *mut f32,
    );

    /// Adds what the last call of [`Format::add_products`] left.
    ///
    /// # Safety
    /// The arguments are those of that call, without calls between.
    unsafe fn finish(panel: &[Self::Panel], group: &Group, work: &mut Work, out: *mut f32);
}
