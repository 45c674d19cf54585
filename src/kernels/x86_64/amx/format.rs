//! The trait of formats of weights that are multiplied with tiles.

use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};

use super::tiles::{Shapes, Sums};
use crate::kernels::x86_64::ahead::Ahead;
use crate::kernels::x86_64::avx512::matmul::{Input, Line};
use crate::tensor::TensorView;

/// Number of rows of activations of a tile.
pub(super) const ROWS: usize = 16;
/// Most bytes of a panel, with all of its blocks: it stays in the first-level cache beside the inputs.
const BYTES: usize = 20 << 10;
/// Number of f32 elements of scratch for [`Work`] and a panel, however the scratch is aligned.
pub(super) const SCRATCH: usize = (size_of::<Work>() + BYTES + size_of::<Line>()) / size_of::<f32>();

/// Intermediate results of sixteen rows of activations.
#[repr(C, align(64))]
pub(super) struct Work {
    /// Sums of the tiles: four tiles of one group of rows, and four of the group before. [`Group::turn`] says which is
    /// which.
    pub(super) sums: [[Sums; 4]; 2],
    /// Sum of the activations of each block of 32, for each row.
    pub(super) totals: [[f32; 32]; ROWS],
}

/// Up to sixteen rows of activations, from a certain block on.
#[derive(Clone, Copy)]
pub(super) struct Group {
    /// The first row. Each further row lies `stride` bytes after the one before.
    pub(super) first: Input,
    pub(super) stride: usize,
    pub(super) rows: usize,
    /// 0 for the first group, then 1 and 0 in turn.
    pub(super) turn: usize,
}

impl Group {
    /// Fetches 256 columns of row `row` of the next sixteen rows, with their scales and sums.
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

/// A format of weights: how a panel is unpacked, and how it is multiplied.
///
/// # Safety
/// All bit patterns of a panel are valid. A panel is a whole number of lines, and has at most [`BYTES`] bytes.
pub(super) unsafe trait Format {
    /// One block of each of 32 rows, unpacked.
    type Panel;
    /// Number of columns of a block.
    const COLS: usize;
    /// Number of bytes of a block.
    const BYTES: usize;
    /// Largest number of blocks of a panel.
    const BLOCKS: usize = const {
        let blocks = BYTES / size_of::<Self::Panel>();
        assert!(1 <= blocks && blocks <= 16, "totals are prepared for 16 blocks at once");
        blocks
    };

    /// Unpacks blocks of all rows of weights to `panel`, from block `first` on. `ahead` returns what is fetched during
    /// a number of units of work.
    ///
    /// # Safety
    /// There is at least one row of weights. The rows have these blocks, and less than 2^31 bytes.
    unsafe fn unpack(weights: TensorView<'_>, first: usize, panel: &mut [Self::Panel], ahead: impl Fn(usize) -> Ahead);

    /// Returns the shapes of the tiles for `rows` rows of activations.
    fn shapes(rows: usize) -> Shapes;

    /// Adds the products of a panel to `out`, 32 elements per row of activations. Or it leaves them to the next call,
    /// which gets this group as `before`. What the last call leaves, [`Format::finish`] adds.
    ///
    /// # Safety
    /// The panel has at most [`Self::BLOCKS`] blocks, and the rows have these blocks. There are 1 to 16 rows, and `out`
    /// has room for them. The tiles have the [`Format::shapes`] for this number of rows. `before` is the group of the
    /// call before, has sixteen rows and the other turn, and its part of the output ends at `out`.
    unsafe fn add_products(
        panel: &[Self::Panel],
        group: &Group,
        before: Option<&Group>,
        work: &mut Work,
        ahead: Ahead,
        out: *mut f32,
    );

    /// Adds the products that the last call of [`Format::add_products`] left.
    ///
    /// # Safety
    /// The arguments are those of that call, and there was no other call since.
    unsafe fn finish(panel: &[Self::Panel], group: &Group, work: &mut Work, out: *mut f32);
}
