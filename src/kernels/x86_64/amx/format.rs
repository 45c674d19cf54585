//! What a format of weights has to say for its products with tiles.

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
    /// What tiles have added up, up to two times two tiles.
    pub(super) sums: [Sums; 4],
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

    /// Adds the products of a panel to `out`, 32 elements per row of activations.
    ///
    /// # Safety
    /// The panel has at most [`Self::BLOCKS`] blocks, and the rows have them; there are 1 to 16 rows, and `out` has room
    /// for them. The tiles have the shapes for so many rows.
    unsafe fn add_products(panel: &[Self::Panel], group: &Group, work: &mut Work, ahead: Ahead, out: *mut f32);
}
