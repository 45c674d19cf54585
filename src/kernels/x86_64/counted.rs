//! Counts of the work that kernels for several rows of activations do, in tests only. They show that no batch takes
//! more work per row than a smaller one.

use std::boxed::Box;
use std::cell::Cell;
use std::{thread_local, vec};

use crate::kernels::{Inputs, Level, OUTPUTS};
use crate::quant::{form, row_words};
use crate::tensor::{Dtype, TensorView};

/// Numbers of blocks of weights. A block counts once for each row of weights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    unpacked: usize,
    /// A block counts once for each row of activations that it is multiplied with.
    multiplied: usize,
}

thread_local! {
    static COUNTS: Cell<Counts> = Cell::default();
}

/// Counts `blocks` blocks as unpacked.
pub(super) fn unpacked(blocks: usize) {
    COUNTS.with(|counts| counts.set(Counts { unpacked: counts.get().unpacked + blocks, ..counts.get() }));
}

/// Counts `blocks` unpacked blocks as multiplied with one row of activations.
pub(super) fn multiplied(blocks: usize) {
    COUNTS.with(|counts| counts.set(Counts { multiplied: counts.get().multiplied + blocks, ..counts.get() }));
}

/// Returns the counts of one call of `products` with `rows` rows of activations.
fn count(level: Level, dtype: Dtype, cols: usize, rows: usize) -> Counts {
    let bytes: Box<[u8]> = vec![1; OUTPUTS * dtype.row_bytes(cols).unwrap()].into();
    let weights = TensorView::new(dtype, OUTPUTS, cols, &bytes).unwrap();
    let form = form(dtype);
    let len = row_words(form, cols).unwrap();
    let words = vec![0; rows * len];
    let inputs = Inputs::new(form, rows, cols, &words, len).unwrap();
    let (mut out, mut scratch) = (vec![0.0; rows * OUTPUTS], vec![0.0; level.products_scratch(dtype)]);
    COUNTS.with(Cell::take);
    level.products(weights, &inputs, &mut out, &mut scratch).unwrap();
    COUNTS.with(Cell::take)
}

/// Types of weights that together use each kind of kernel.
const DTYPES: [Dtype; 10] = {
    use Dtype::*;
    [Q8_0, Q4_0, Q5_1, Q2_K, Q4_K, Q6_K, MXFP4, IQ2_XXS, IQ3_S, TQ1_0]
};

#[test]
fn no_batch_takes_more_work_per_row_than_a_smaller_one() {
    Level::allow_amx();
    for level in Level::available().filter(|level| *level != Level::SCALAR) {
        for dtype in DTYPES {
            for cols in [256, 2304] {
                let blocks = OUTPUTS * cols / dtype.block_len();
                assert_eq!(
                    count(level, dtype, cols, 1).unpacked,
                    0,
                    "{level} {dtype}: one row reads the file's blocks"
                );
                for rows in 2..=70 {
                    let want = Counts { unpacked: blocks, multiplied: rows * blocks };
                    assert_eq!(count(level, dtype, cols, rows), want, "{level} {dtype} {cols} columns, {rows} rows");
                }
            }
        }
    }
}
