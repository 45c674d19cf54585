//! Which instructions the arithmetic runs on, the kernels of each instruction set, and the floating-point
//! environment.
//!
//! Every level gives the same bits; a faster one is only faster. The generic kernels are the
//! specification; an instruction set compiles them anew (`shims`) and replaces those that it does better.
#![allow(unsafe_code)]

#[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
mod aarch64;
pub mod fpenv;
mod generic;
mod level;
mod scalar;
mod selftest;
mod shims;
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
mod wasm32;
#[cfg(target_arch = "x86_64")]
mod x86_64;

pub use crate::kv::{
    CHUNK, Elements, ElementsMut, KvElement, KvSource, KvTile, KvTileMut, Positions, TILE_TOKENS, Visibility, Window,
};
pub use generic::{
    Activation, Combine, Inputs, Norm, NormKind, OUTPUTS, Partial, Queries, Scores, attend_chunks, attend_rows,
    is_storable,
};
pub use level::{Level, UnknownLevel};
pub use selftest::{selftest, selftest_words};

use core::ops::Range;

use crate::error::Fault;
use crate::mem::{Matrix, Tile};
use crate::quant::{Form, QuantizeError};
use crate::tensor::{Dtype, TensorView};
use generic::Refused;
// Machines without levels besides plain Rust dispatch to nothing else.
#[allow(unused_imports)]
use level::Isa;
use level::dispatch;

impl Level {
    /// Rows of weights times rows of activations: `out[row * OUTPUTS + i]` is row i of the weights times row
    /// `row` of the inputs.
    ///
    /// At most [`OUTPUTS`] rows of weights; what is in `out` for further i is unspecified. `scratch` has
    /// [`Level::products_scratch`] elements. `None` on a mismatch of form or sizes. Weights that the level has no kernel
    /// for are multiplied by plain Rust.
    pub fn products(
        self,
        weights: TensorView<'_>,
        inputs: &Inputs<'_>,
        out: &mut [f32],
        scratch: &mut [f32],
    ) -> Option<()> {
        let fits = weights.rows() <= OUTPUTS
            && weights.cols() == inputs.cols()
            && crate::quant::form(weights.dtype()) == inputs.form()
            && inputs.rows().checked_mul(OUTPUTS)? <= out.len()
            && self.products_scratch(weights.dtype()) <= scratch.len();
        if !fits {
            return None;
        }
        match dispatch!(self, products(weights, inputs, out, scratch)) {
            Ok(()) => Some(()),
            Err(Refused::NoKernel) => generic::products(weights, inputs, out),
            Err(Refused::Sizes) => None,
        }
    }

    /// f32 elements of scratch that [`Level::products`] needs for weights of this type: as many as a kernel for their form
    /// takes, whether or not the level has one.
    pub fn products_scratch(self, dtype: Dtype) -> usize {
        dispatch!(self, products_scratch(crate::quant::form(dtype)))
    }

    /// Attention of the query heads of one KV head, for some rows of a batch.
    ///
    /// The result of the `i`-th of these rows goes to row `queries.row + i` of `out`, as a [`Partial`]. A chunk is visible
    /// if any of the rows sees a position in it. Visible chunks are numbered from 0, in order. The call processes those
    /// with the numbers `chunks`: chunk 0 resets the partial results, and later chunks accumulate.
    ///
    /// `scratch` has [`Level::attend_scratch`] elements. Returns `None` on a mismatch of sizes or a missing tile. The order
    /// of all operations is given in `docs/arithmetic.md`.
    pub fn attend(
        self,
        queries: &Queries<'_>,
        chunks: Range<usize>,
        source: &dyn KvSource,
        out: &mut Tile<'_, f32>,
        scratch: &mut [f32],
    ) -> Option<()> {
        dispatch!(self, attend(queries, chunks, source, out, scratch))
    }

    /// Rounds the keys and values of some tokens, `[head_dim]` each, to the element types of a tile and stores them in
    /// its slots, of which there are 16, from `slot` on.
    ///
    /// # Errors
    /// [`Fault::NonFinite`] where one is infinite or NaN then, after all are stored; [`Fault::Internal`] on a mismatch of
    /// sizes.
    pub fn store(self, tile: KvTileMut<'_>, slot: usize, tokens: &[[&[f32]; 2]]) -> Result<(), Fault> {
        dispatch!(self, store(tile, slot, tokens))
    }

    /// f32 elements of scratch that [`Level::attend`] needs for heads in groups of `group`, to be as fast as it can with
    /// units of at most `rows` and [`attend_rows`] rows; it also works with less, down to what one query needs.
    pub fn attend_scratch(self, rows: usize, group: usize, head_dim: usize) -> Option<usize> {
        dispatch!(self, attend_scratch(rows, group, head_dim))
    }

    /// A row `x` normalized: `x` and `out` are `[n]`.
    pub fn norm(self, how: &Norm<'_>, x: &[f32], out: &mut [f32]) {
        dispatch!(self, norm(how, x, out))
    }

    /// [`Level::norm`] of `x` in its place.
    pub fn norm_in_place(self, how: &Norm<'_>, x: &mut [f32]) {
        dispatch!(self, norm_in_place(how, x))
    }

    /// Combines outputs of a linear layer with what is there: both are `[n]`.
    pub fn combine(self, how: Combine, y: &mut [f32], outputs: &[f32]) {
        let len = y.len().min(outputs.len());
        let (Some(y), Some(outputs)) = (y.get_mut(..len), outputs.get(..len)) else { return };
        let ((tiles, rest), (outputs, last)) = (y.as_chunks_mut::<OUTPUTS>(), outputs.as_chunks::<OUTPUTS>());
        let (rows, len) = (tiles.len(), rest.len());
        // The rest is the beginning of a row.
        let mut padded = [0.0; OUTPUTS];
        padded.iter_mut().zip(last).for_each(|(padded, &output)| *padded = output);
        let parts = [(tiles.as_flattened_mut(), rows, OUTPUTS, outputs.as_flattened()), (rest, 1, len, &padded[..])];
        for (y, rows, cols, outputs) in parts {
            let tiles = Matrix::new(y, rows, cols).and_then(|y| y.tiles(rows, cols, 0..1));
            if let Some(mut tile) = tiles.and_then(|tiles| tiles.next()) {
                let _ = self.combine_tile(how, &mut tile, 0..cols, outputs);
            }
        }
    }

    /// The same for the columns `cols` of a tile, counted from its first one, at most [`OUTPUTS`] of them, and outputs
    /// `[rows, OUTPUTS]`, of which as many count as there are columns. `None` where the tile has not these columns.
    pub fn combine_tile(
        self,
        how: Combine,
        tile: &mut Tile<'_, f32>,
        cols: Range<usize>,
        outputs: &[f32],
    ) -> Option<()> {
        dispatch!(self, combine_tile(how, tile, cols, outputs))
    }

    /// `x = cap * tanh(x / cap)`.
    pub fn soft_cap(self, cap: f32, x: &mut [f32]) {
        dispatch!(self, soft_cap(cap, x))
    }

    /// As [`quantize_row`](crate::quant::quantize_row).
    ///
    /// # Errors
    /// As [`quantize_row`](crate::quant::quantize_row).
    pub fn quantize_row(self, form: Form, x: &[f32], words: &mut [u32]) -> Result<(), QuantizeError> {
        dispatch!(self, quantize_row(form, x, words))
    }
}
