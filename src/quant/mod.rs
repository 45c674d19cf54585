//! Block formats of weights: layout, scalar dequantization, scalar dot product.
//!
//! The scalar code here *is* the specification of the arithmetic. `docs/arithmetic.md` says the same in words, and
//! every other kernel must equal it bit for bit. A format is a file that describes the bytes of a block and unpacks
//! them, and one row in the table below. The operations on unpacked blocks are in `block`. Weights of a format for
//! which a level has no kernel are multiplied by the scalar dot product.
//!
//! # Example
//!
//! A row of weights times a row of activations. The activations are first brought into the [`Form`] that the type of
//! the weights needs:
//!
//! ```
//! use gleed::quant::{ActivationRow, Dtype, Form, QuantizeError, dequantize, dot, form, quantize_row, row_words};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // A block of Q8_0: the scale 0.5 as f16, and the codes 0 to 31.
//! let mut weights = vec![0x00, 0x38];
//! weights.extend(0..32);
//! assert_eq!(Dtype::Q8_0.row_bytes(32), Some(weights.len()));
//!
//! // 32 activations, as int8 with a scale.
//! let x: [f32; 32] = std::array::from_fn(|i| 1.0 - i as f32 / 31.0);
//! let form = form(Dtype::Q8_0);
//! assert_eq!(form, Form::Q8x32);
//! let mut words = vec![0; row_words(form, 32).ok_or("not whole blocks")?];
//! quantize_row(form, &x, &mut words)?;
//! let row = ActivationRow::from_words(form, 32, &words).ok_or("wrong length")?;
//! let product = dot(Dtype::Q8_0, &weights, row).ok_or("wrong length")?;
//!
//! // It is near the product with the weights as f32.
//! let mut numbers = [0.0; 32];
//! dequantize(Dtype::Q8_0, &weights, &mut numbers).ok_or("wrong length")?;
//! assert_eq!(numbers[31], 15.5);
//! let exact: f32 = numbers.iter().zip(x).map(|(weight, x)| weight * x).sum();
//! assert!((product / exact - 1.0).abs() < 0.01);
//!
//! // Numbers that are not finite have no scale.
//! assert_eq!(quantize_row(form, &[f32::NAN; 32], &mut words), Err(QuantizeError::NonFinite { block: 0 }));
//! # Ok(())
//! # }
//! ```

mod activation;
mod block;
mod codebook;
mod dtype;
mod float;
mod grid_1;
mod grid_2;
mod grid_3;
pub(crate) mod iq1_m;
pub(crate) mod iq1_s;
pub(crate) mod iq2_s;
pub(crate) mod iq2_xs;
pub(crate) mod iq2_xxs;
pub(crate) mod iq3_s;
pub(crate) mod iq3_xxs;
pub(crate) mod iq4_nl;
pub(crate) mod iq4_xs;
pub(crate) mod mxfp4;
pub(crate) mod nvfp4;
pub(crate) mod q1_0;
pub(crate) mod q2_0;
pub(crate) mod q2_k;
pub(crate) mod q3_k;
pub(crate) mod q4_0;
pub(crate) mod q4_1;
pub(crate) mod q4_k;
pub(crate) mod q5_0;
pub(crate) mod q5_1;
pub(crate) mod q5_k;
pub(crate) mod q6_k;
pub(crate) mod q8_0;
#[cfg(test)]
mod toy;
pub(crate) mod tq1_0;
pub(crate) mod tq2_0;

pub use activation::{ActivationRow, Form, QuantizeError, QuantizedRow, quantize_row, row_words};
#[cfg(any(
    all(target_arch = "aarch64", target_feature = "neon"),
    all(target_arch = "wasm32", target_feature = "simd128")
))]
pub(crate) use block::{Layout256, Parts};

#[cfg(target_arch = "x86_64")]
pub(crate) use {
    grid_1::IQ1,
    grid_2::{IQ2_S, IQ2_XS, IQ2_XXS},
    grid_3::{IQ3_S, IQ3_S_VALUES, IQ3_XXS, IQ3_XXS_VALUES, PACKED_IQ3_S, PACKED_IQ3_XXS},
};

#[allow(unused_imports)] // Machines without levels besides plain Rust have no tables of kernels.
pub(crate) use dtype::by_dtype;

dtype::formats! {
    // Name = number in a GGUF file, elements in bytes of a block, the condition under which it is built, the kind of
    // its blocks.
    F32 = 0, 1 in 4, feature = "quant-float", floats(float::F32);
    F16 = 1, 1 in 2, feature = "quant-float", floats(float::F16);
    BF16 = 30, 1 in 2, feature = "quant-float", floats(float::BF16);
    Q4_0 = 2, 32 in 18, feature = "quant-q4_0", blocks_32(q4_0::Block);
    Q4_1 = 3, 32 in 20, feature = "quant-q4_1", blocks_32(q4_1::Block);
    Q5_0 = 6, 32 in 22, feature = "quant-q5_0", blocks_32(q5_0::Block);
    Q5_1 = 7, 32 in 24, feature = "quant-q5_1", blocks_32(q5_1::Block);
    Q8_0 = 8, 32 in 34, feature = "quant-q8_0", blocks_32(q8_0::Block);
    Q2_K = 10, 256 in 84, feature = "quant-q2_k", blocks_256(q2_k::Block, 16);
    Q3_K = 11, 256 in 110, feature = "quant-q3_k", blocks_256(q3_k::Block, 16);
    Q4_K = 12, 256 in 144, feature = "quant-q4_k", blocks_256(q4_k::Block, 8);
    Q5_K = 13, 256 in 176, feature = "quant-q5_k", blocks_256(q5_k::Block, 8);
    Q6_K = 14, 256 in 210, feature = "quant-q6_k", blocks_256(q6_k::Block, 16);
    IQ4_NL = 20, 32 in 18, feature = "quant-iq4_nl", blocks_32(iq4_nl::Block);
    IQ4_XS = 23, 256 in 136, feature = "quant-iq4_xs", blocks_256(iq4_xs::Block, 8);
    IQ2_XXS = 16, 256 in 66, feature = "quant-iq2_xxs", blocks_256(iq2_xxs::Block, 8);
    IQ2_XS = 17, 256 in 74, feature = "quant-iq2_xs", blocks_256(iq2_xs::Block, 16);
    IQ2_S = 22, 256 in 82, feature = "quant-iq2_s", blocks_256(iq2_s::Block, 16);
    IQ3_XXS = 18, 256 in 98, feature = "quant-iq3_xxs", blocks_256(iq3_xxs::Block, 8);
    IQ3_S = 21, 256 in 110, feature = "quant-iq3_s", blocks_256(iq3_s::Block, 8);
    IQ1_S = 19, 256 in 50, feature = "quant-iq1_s", blocks_256(iq1_s::Block, 8);
    IQ1_M = 29, 256 in 56, feature = "quant-iq1_m", blocks_256(iq1_m::Block, 16);
    TQ1_0 = 34, 256 in 54, feature = "quant-tq1_0", blocks_256(tq1_0::Block, 8);
    TQ2_0 = 35, 256 in 66, feature = "quant-tq2_0", blocks_256(tq2_0::Block, 8);
    MXFP4 = 39, 32 in 17, feature = "quant-mxfp4", blocks_32(mxfp4::Block);
    NVFP4 = 40, 64 in 36, feature = "quant-nvfp4", parts_of_16(nvfp4::Block, 4);
    Q1_0 = 41, 128 in 18, feature = "quant-q1_0", parts_of_32(q1_0::Block, 4);
    Q2_0 = 42, 64 in 18, feature = "quant-q2_0", parts_of_32(q2_0::Block, 2);
    #[cfg(test)]
    TOY_BLOCKS = 1000, 32 in 33, test, blocks_32(toy::Block);
    #[cfg(test)]
    TOY_FLOATS = 1001, 1 in 1, test, floats(toy::Float);
}

/// Returns the format of the activations with which weights of this type are multiplied.
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
    /// The format of a type that is not in this build: all operations return `None`.
    const NONE: Self = Self { form: Form::F32, dequantize: |_, _| None, dot: |_, _| None };

    /// Floating-point elements.
    const fn floats<E: float::Element>() -> Self {
        Self { form: E::FORM, dequantize: float::dequantize::<E>, dot: float::dot::<E> }
    }

    /// Blocks of 32 elements with one scale.
    const fn blocks_32<B: block::Layout32>() -> Self {
        Self { form: Form::Q8x32, dequantize: block::dequantize_32::<B>, dot: block::dot_32::<B> }
    }

    /// Blocks of `PARTS` times 32 elements.
    const fn parts_of_32<B: block::Parts<32, PARTS>, const PARTS: usize>() -> Self {
        Self {
            form: Form::Q8x32,
            dequantize: block::dequantize_parts::<B, 32, PARTS>,
            dot: block::dot_parts::<B, 32, PARTS, 2>,
        }
    }

    /// Blocks of `PARTS` times 16 elements, with one scale for each part.
    const fn parts_of_16<B: block::Parts<16, PARTS>, const PARTS: usize>() -> Self {
        Self {
            form: Form::Q8x32,
            dequantize: block::dequantize_parts::<B, 16, PARTS>,
            dot: block::dot_parts::<B, 16, PARTS, 1>,
        }
    }

    /// Super-blocks of 256 with `SUBS` sub-scales.
    const fn blocks_256<B: block::Layout256<SUBS>, const SUBS: usize>() -> Self {
        Self { form: Form::Q8x256, dequantize: block::dequantize_256::<B, SUBS>, dot: block::dot_256::<B, SUBS> }
    }
}
