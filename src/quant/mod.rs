//! Block formats of weights: layout, scalar dequantization, scalar dot product.
//!
//! The scalar code here *is* the specification of the arithmetic; `docs/arithmetic.md` says the same in
//! words, and every other kernel must equal it bit for bit. A format is a file that describes the bytes
//! of a block and unpacks them, and one row in `Format::of`; what is computed with unpacked blocks is
//! in `block`.

mod activation;
mod block;
mod float;
mod iq4_nl;
mod iq4_xs;
mod q2_k;
mod q3_k;
mod q4_0;
mod q4_1;
mod q4_k;
mod q5_0;
mod q5_1;
mod q5_k;
mod q6_k;
mod q8_0;

pub use activation::{ActivationRow, Form, QuantizeError, QuantizedRow, quantize_row, row_words};
#[cfg(any(
    all(target_arch = "aarch64", target_feature = "neon"),
    all(target_arch = "wasm32", target_feature = "simd128")
))]
pub(crate) use block::{Layout32, Layout256};

use crate::tensor::{Dtype, by_dtype};

/// The formats' bytes, for kernels that unpack them.
#[cfg(any(
    all(target_arch = "aarch64", target_feature = "neon"),
    all(target_arch = "wasm32", target_feature = "simd128")
))]
pub(crate) mod layouts {
    pub(crate) use super::iq4_nl::Block as Iq4Nl;
    pub(crate) use super::iq4_xs::Block as Iq4Xs;
    pub(crate) use super::q2_k::Block as Q2K;
    pub(crate) use super::q3_k::Block as Q3K;
    pub(crate) use super::q4_0::Block as Q4_0;
    pub(crate) use super::q4_1::Block as Q4_1;
    pub(crate) use super::q4_k::Block as Q4K;
    pub(crate) use super::q5_0::Block as Q5_0;
    pub(crate) use super::q5_1::Block as Q5_1;
    pub(crate) use super::q5_k::Block as Q5K;
    pub(crate) use super::q6_k::Block as Q6K;
    pub(crate) use super::q8_0::Block as Q8_0;
}

/// Returns the format of the activations that weights of this type are multiplied by.
pub fn form(dtype: Dtype) -> Form {
    Format::of(dtype).form
}

/// Returns the dot product of one row of weights with one row of activations, as `docs/arithmetic.md` defines it.
///
/// `row` is a row of `cols` elements, `Dtype::row_bytes(cols)` bytes of any alignment. Returns `None` if `x` has
/// another format than [`form`] returns, or another number of columns than `row`.
#[inline]
pub fn dot(dtype: Dtype, row: &[u8], x: ActivationRow<'_>) -> Option<f32> {
    (Format::of(dtype).dot)(row, x)
}

/// Expands one row of weights to f32. Returns `None` and writes nothing if `row` and `out` have different numbers of
/// elements.
pub fn dequantize(dtype: Dtype, row: &[u8], out: &mut [f32]) -> Option<()> {
    (Format::of(dtype).dequantize)(row, out)
}

/// The operations on rows of one element type.
struct Format {
    form: Form,
    dequantize: fn(&[u8], &mut [f32]) -> Option<()>,
    dot: fn(&[u8], ActivationRow<'_>) -> Option<f32>,
}

impl Format {
    /// The table of formats. One that is not in this build can do nothing.
    const fn of(dtype: Dtype) -> Self {
        by_dtype!(dtype, {
            F32 => Self::floats::<float::F32>(Form::F32),
            F16 => Self::floats::<float::F16>(Form::Short),
            BF16 => Self::floats::<float::BF16>(Form::F32),
            Q4_0 => Self::blocks_32::<q4_0::Block>(),
            Q4_1 => Self::blocks_32::<q4_1::Block>(),
            Q5_0 => Self::blocks_32::<q5_0::Block>(),
            Q5_1 => Self::blocks_32::<q5_1::Block>(),
            Q8_0 => Self::blocks_32::<q8_0::Block>(),
            Q2_K => Self::blocks_256::<q2_k::Block, 16>(),
            Q3_K => Self::blocks_256::<q3_k::Block, 16>(),
            Q4_K => Self::blocks_256::<q4_k::Block, 8>(),
            Q5_K => Self::blocks_256::<q5_k::Block, 8>(),
            Q6_K => Self::blocks_256::<q6_k::Block, 16>(),
            IQ4_NL => Self::blocks_32::<iq4_nl::Block>(),
            IQ4_XS => Self::blocks_256::<iq4_xs::Block, 8>(),
            _ => Self { form: Form::F32, dequantize: |_, _| None, dot: |_, _| None },
        })
    }

    /// Floating-point elements.
    const fn floats<E: float::Element>(form: Form) -> Self {
        Self { form, dequantize: float::dequantize::<E>, dot: float::dot::<E> }
    }

    /// Blocks of 32 with one scale.
    const fn blocks_32<B: block::Layout32>() -> Self {
        Self { form: Form::Q8x32, dequantize: block::dequantize_32::<B>, dot: block::dot_32::<B> }
    }

    /// Super-blocks of 256 with `SUBS` sub-scales.
    const fn blocks_256<B: block::Layout256<SUBS>, const SUBS: usize>() -> Self {
        Self { form: Form::Q8x256, dequantize: block::dequantize_256::<B, SUBS>, dot: block::dot_256::<B, SUBS> }
    }
}
