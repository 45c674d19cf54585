//! The instruction sets that the arithmetic runs on, the kernels of each, and the floating-point environment.
//!
//! All levels give the same bits and differ in speed only. The generic kernels are the specification. An instruction
//! set compiles them anew (`shims`) and replaces the ones that it does better.
//!
//! # Example
//!
//! A norm, two rows of weights times a row of activations, and SiLU. All levels of the machine give the same bits.
//!
//! ```
//! use gleed::kernels::{Activation, Combine, Inputs, Level, Norm, NormKind, OUTPUTS};
//! use gleed::quant::{Form, row_words};
//! use gleed::tensor::{Dtype, TensorView};
//!
//! /// Two outputs of a layer without a bias. `None` where sizes do not fit.
//! fn layer(level: Level, weights: TensorView<'_>, x: &[f32; 32]) -> Option<[f32; 2]> {
//!     let ones = 1_f32.to_le_bytes().repeat(32);
//!     let mut normed = *x;
//!     level.norm_in_place(&Norm { kind: NormKind::Rms, epsilon: 1e-5, weight: &ones, bias: &[] }, &mut normed);
//!
//!     let mut words = vec![0; row_words(Form::Q8x32, 32)?];
//!     level.quantize_row(Form::Q8x32, &normed, &mut words).ok()?;
//!     let inputs = Inputs::new(Form::Q8x32, 1, 32, &words, words.len())?;
//!     let (mut products, mut scratch) = ([0.0; OUTPUTS], vec![0.0; level.products_scratch(Dtype::Q8_0)]);
//!     level.products(weights, &inputs, &mut products, &mut scratch)?;
//!
//!     let mut out = [0.0; 2];
//!     level.combine(Combine::Activate(Activation::Silu), &mut out, &products[..2]);
//!     Some(out)
//! }
//!
//! // Two blocks of Q8_0: the scale 0.5 as f16, and 32 codes each.
//! let bytes: Vec<u8> = [0x00, 0x38].into_iter().chain(0..32).cycle().take(2 * 34).collect();
//! let weights = TensorView::new(Dtype::Q8_0, 2, 32, &bytes).unwrap();
//! let x = std::array::from_fn(|i| i as f32 - 15.5);
//! let expected = layer(Level::SCALAR, weights, &x).unwrap();
//! assert!(expected[0] > 0.0 && expected[0] == expected[1]);
//! for level in Level::available() {
//!     assert_eq!(layer(level, weights, &x), Some(expected), "{level}");
//! }
//! assert!(Level::from_name("abacus").unwrap_err().to_string().contains("scalar"));
//! ```
//!
//! Attention of one query over two tokens, whose keys and values are in one tile:
//!
//! ```
//! use gleed::kernels::{Elements, ElementsMut, KvElement, KvSource, KvTile, KvTileMut, Visibility};
//! use gleed::kernels::{Level, Partial, Queries, Scores};
//! use gleed::mem::Matrix;
//!
//! /// A sequence of one block, and a model with one KV head.
//! struct OneTile<'a>(KvTile<'a>);
//!
//! impl KvSource for OneTile<'_> {
//!     fn elements(&self) -> [KvElement; 2] { [self.0.k.element(), self.0.v.element()] }
//!     fn tile(&self, index: usize, head: usize) -> Option<KvTile<'_>> {
//!         (index == 0 && head == 0).then_some(self.0)
//!     }
//! }
//!
//! # fn attend() -> Option<()> {
//! // Heads of 4 elements in f16: 32 words of keys, and 32 of values.
//! let (level, element, mut k, mut v) = (Level::detect(), KvElement::F16, [0; 32], [0; 32]);
//! let tile = KvTileMut { k: ElementsMut::new(element, &mut k)?, v: ElementsMut::new(element, &mut v)? };
//! level.store(tile, 0, &[[&[8.0, 0.0, 0.0, 0.0], &[10.0; 4]], [&[0.0, 8.0, 0.0, 0.0], &[20.0; 4]]]).ok()?;
//! let source = OneTile(KvTile { k: Elements::new(element, &k)?, v: Elements::new(element, &v)? });
//!
//! // The query is as near to the one key as to the other, so the result is the mean of the values.
//! let (group, head_dim, scores, visibility) = (1, 4, Scores::scaled(0.5), Visibility::ALL);
//! let q = &[1.0, 1.0, 0.0, 0.0];
//! let [row, head, position] = [0, 0, 1];
//! let queries = Queries { q, stride: 4, row, rows: 1, group, head_dim, head, position, visibility, scores };
//! let partial = Partial { group, head_dim };
//! let mut row = vec![0.0; partial.elements()?];
//! let mut scratch = vec![0.0; level.attend_scratch(1, group, head_dim)?];
//! let mut tile = Matrix::new(&mut row, 1, partial.elements()?)?.by_row()?.next()?;
//! level.attend(&queries, 0..1, &source, &mut tile, &mut scratch)?;
//! let mut out = [0.0; 4];
//! partial.finish(&row, &[], &mut out)?;
//! assert_eq!(out, [15.0; 4]);
//! # Some(())
//! # }
//! # attend().unwrap();
//! ```
#![allow(unsafe_code)]

#[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
mod aarch64;
mod fetch;
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
pub use fetch::FetchOrder;
pub use generic::{
    Activation, Combine, Convolution, Inputs, Norm, NormKind, OUTPUTS, Partial, Queries, Scores, Update, attend_chunks,
    attend_rows, is_storable,
};
pub use level::{Level, UnknownLevel};
pub use selftest::{selftest, selftest_words};

use core::ops::Range;

use crate::error::Fault;
use crate::mem::{Matrix, Tile};
use crate::quant::{Form, QuantizeError};
use crate::tensor::{Dtype, TensorView};
use generic::Refused;
// Machines whose only level is plain Rust do not dispatch to anything else.
#[allow(unused_imports)]
use level::Isa;
use level::dispatch;

impl Level {
    /// Multiplies rows of weights with rows of activations: `out[row * OUTPUTS + i]` is row i of the weights times row
    /// `row` of the inputs.
    ///
    /// There are at most [`OUTPUTS`] rows of weights. The elements of `out` for larger i are unspecified. `scratch` has
    /// [`Level::products_scratch`] elements. Returns `None` on a mismatch of form or sizes. Weights that the level has
    /// no kernel for are multiplied by plain Rust.
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
        let fetching;
        let inputs = if inputs.order() == self.fetch {
            inputs
        } else {
            fetching = inputs.fetching(self.fetch);
            &fetching
        };
        match dispatch!(self, products(weights, inputs, out, scratch)) {
            Ok(()) => Some(()),
            Err(Refused::NoKernel) => generic::products(weights, inputs, out),
            Err(Refused::Sizes) => None,
        }
    }

    /// Returns the number of f32 elements of scratch that [`Level::products`] needs for weights of this type. It is the
    /// number for the weights' form, whether or not the level has a kernel for this type.
    pub fn products_scratch(self, dtype: Dtype) -> usize {
        dispatch!(self, products_scratch(crate::quant::form(dtype)))
    }

    /// Attention of the query heads of one KV head, for some rows of a batch.
    ///
    /// The result of the `i`-th of these rows goes to row `queries.row + i` of `out`, as a [`Partial`]. A chunk is
    /// visible if any of the rows sees a position in it. Visible chunks are numbered from 0, in order. The call
    /// processes those with the numbers `chunks`: chunk 0 resets the partial results, and later chunks accumulate.
    ///
    /// `scratch` has [`Level::attend_scratch`] elements. Returns `None` on a mismatch of sizes or a missing tile. The
    /// order of all operations is given in `docs/arithmetic.md`.
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

    /// Rounds the keys and values of some tokens, `[head_dim]` each, to the element types of a tile, and stores them in
    /// its 16 slots, the first token in `slot`.
    ///
    /// # Errors
    /// [`Fault::NonFinite`], after all tokens are stored, if a rounded number is infinite or NaN. [`Fault::Internal`]
    /// on a mismatch of sizes.
    pub fn store(self, tile: KvTileMut<'_>, slot: usize, tokens: &[[&[f32]; 2]]) -> Result<(), Fault> {
        dispatch!(self, store(tile, slot, tokens))
    }

    /// Returns the number of f32 elements of scratch with which [`Level::attend`] is as fast as it can be, for `group`
    /// query heads per KV head and units of at most `rows` rows, [`attend_rows`] of them if that is fewer. It also
    /// works with less, down to what one query needs.
    pub fn attend_scratch(self, rows: usize, group: usize, head_dim: usize) -> Option<usize> {
        dispatch!(self, attend_scratch(rows, group, head_dim))
    }

    /// Normalizes a row: `x` and `out` are `[n]`.
    pub fn norm(self, how: &Norm<'_>, x: &[f32], out: &mut [f32]) {
        dispatch!(self, norm(how, x, out))
    }

    /// Normalizes the row `x` in place, as [`Level::norm`] does.
    pub fn norm_in_place(self, how: &Norm<'_>, x: &mut [f32]) {
        dispatch!(self, norm_in_place(how, x))
    }

    /// Combines outputs of a linear layer with the elements of `y`: both are `[n]`.
    pub fn combine(self, how: Combine, y: &mut [f32], outputs: &[f32]) {
        let len = y.len().min(outputs.len());
        let (Some(y), Some(outputs)) = (y.get_mut(..len), outputs.get(..len)) else { return };
        let ((tiles, rest), (outputs, last)) = (y.as_chunks_mut::<OUTPUTS>(), outputs.as_chunks::<OUTPUTS>());
        let (rows, len) = (tiles.len(), rest.len());
        // The rest is shorter than a row of outputs.
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

    /// Combines outputs of a linear layer, `[rows, OUTPUTS]`, with the columns `cols` of a tile, counted from the
    /// tile's first column. There are at most [`OUTPUTS`] columns, and as many outputs of each row are used. Returns
    /// `None` if the tile does not have these columns.
    pub fn combine_tile(
        self,
        how: Combine,
        tile: &mut Tile<'_, f32>,
        cols: Range<usize>,
        outputs: &[f32],
    ) -> Option<()> {
        dispatch!(self, combine_tile(how, tile, cols, outputs))
    }

    /// Limits each element: `x = cap * tanh(x / cap)`, and +0 where this is below 2^-50 in magnitude.
    pub fn soft_cap(self, cap: f32, x: &mut [f32]) {
        dispatch!(self, soft_cap(cap, x))
    }

    /// Convolves a row `x` of `[channels]` in place. `tail` is `[kernel - 1, channels]`: the rows before `x`, the
    /// oldest first. Afterwards its last row is the old `x`. Returns `None` on a mismatch of sizes, and then nothing
    /// has changed.
    pub fn convolve(self, how: &Convolution<'_>, tail: &mut [f32], x: &mut [f32]) -> Option<()> {
        dispatch!(self, convolve(how, tail, x))
    }

    /// Updates the state of a head, `[key_dim, value_dim]`, and reads it. `out` is `[value_dim]`: the sum of the rows
    /// of the new state, each multiplied by its element of the query. Returns `None` on a mismatch of sizes, and then
    /// nothing has changed.
    pub fn update_state(self, update: &Update<'_>, state: &mut [f32], out: &mut [f32]) -> Option<()> {
        dispatch!(self, update_state(update, state, out))
    }

    /// Settles the numbers that enter a state: `out = x`, and +0 where x is below 2^-50 in magnitude.
    pub fn settle(self, x: &[f32], out: &mut [f32]) {
        dispatch!(self, settle_row(x, out))
    }

    /// Normalizes a key or a query of the delta rule: `out = (x / sqrt(sum of x^2 + 10^-6)) * scale`, where `x` and
    /// `out` are settled as by [`Level::settle`].
    pub fn normalize(self, x: &[f32], scale: f32, out: &mut [f32]) {
        dispatch!(self, normalize(x, scale, out))
    }

    /// Gates each element with SiLU: `x *= gate / (1 + e^-gate)`.
    pub fn gate(self, gate: &[f32], x: &mut [f32]) {
        dispatch!(self, gate(gate, x))
    }

    /// Prefetches numbers that are read soon, where the processor has an instruction for this.
    pub fn fetch(self, _soon: &[f32]) {
        #[cfg(target_arch = "x86_64")]
        x86_64::fetch(_soon);
    }

    /// Quantizes a row of activations, as [`quantize_row`](crate::quant::quantize_row) does.
    ///
    /// # Errors
    /// As [`quantize_row`](crate::quant::quantize_row).
    pub fn quantize_row(self, form: Form, x: &[f32], words: &mut [u32]) -> Result<(), QuantizeError> {
        dispatch!(self, quantize_row(form, x, words))
    }
}
