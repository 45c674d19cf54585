//! 256-bit registers: AVX2, FMA and F16C, without and with AVX-VNNI.
//!
//! One row of activations is multiplied with the blocks as they are in the file (`matvec`). So are up to four rows, as
//! many as the format says. Some formats have their bytes transposed for that (`few_256`). For more rows the weights
//! are unpacked first (`panel`), 16 rows and [`CHUNK`](panel::CHUNK) columns at a time, and multiplied with all rows of
//! activations (`sweep`). A format says where its codes and scales are (`blocks_32`, `blocks_256`), or unpacks its
//! super-blocks (`by_row`). The two levels differ in one instruction (`isa`), which is used for blocks of 32.

mod blocks_256;
mod blocks_32;
mod by_row;
mod codebook;
mod codes;
mod drive;
mod few_256;
mod float;
mod isa;
mod lanes;
mod matvec;
mod panel;
mod row;
mod sweep;
mod transposed;
pub(super) mod ymm;

use core::ops::Range;

use crate::kernels::generic::{self, Combine, Inputs, Norm, Queries, Refused};
use crate::kv::{KvSource, KvTileMut};
use crate::mem::Tile;
use crate::quant::{Form, QuantizeError};
use crate::tensor::TensorView;

use by_row::Unpacking;
pub(super) use drive::{Job, products_32};
use drive::{few_of_256, products_by_row, unpacked_256};
pub(super) use float::products as float_products;
pub(super) use isa::{Avx2, AvxVnni};

pub(super) use blocks_32::{Blocks32, Iq4Nl, Mxfp4, Nvfp4, Q1_0, Q2_0, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0};
pub(super) use blocks_256::{Blocks256, Iq4Xs, Q2K, Q3K, Q4K, Q5K, Q6K, Tq2_0};
pub(super) use by_row::{ByRow, Iq1M, Iq1S, Iq2S, Iq2Xs, Iq2Xxs, Iq3S, Iq3Xxs, Tq1_0};

/// Returns the number of f32 elements of scratch that `products` needs.
pub(in crate::kernels) fn products_scratch(form: Form) -> usize {
    if form.is_float() { generic::FLOAT_SCRATCH } else { drive::SCRATCH }
}

/// Defines `products` for a level with these features.
macro_rules! level_products {
    ($features:literal, $isa:ty) => {
        /// See [`Level::products`](crate::kernels::Level::products).
        #[target_feature(enable = $features)]
        pub(in crate::kernels) fn products(
            weights: TensorView<'_>,
            inputs: &Inputs<'_>,
            out: &mut [f32],
            scratch: &mut [f32],
        ) -> Result<(), Refused> {
            let format = crate::quant::by_dtype!(weights.dtype(), {
                F32 | F16 | BF16 => return float_products(weights, inputs, out, scratch).ok_or(Refused::Sizes),
                Q8_0 => blocks_32::<Q8_0>,
                Q4_0 => blocks_32::<Q4_0>,
                Q4_1 => blocks_32::<Q4_1>,
                Q5_0 => blocks_32::<Q5_0>,
                Q5_1 => blocks_32::<Q5_1>,
                IQ4_NL => blocks_32::<Iq4Nl>,
                Q2_K => blocks_256::<Q2K>,
                Q3_K => blocks_256::<Q3K>,
                Q4_K => blocks_256::<Q4K>,
                Q5_K => blocks_256::<Q5K>,
                Q6_K => blocks_256::<Q6K>,
                IQ4_XS => blocks_256::<Iq4Xs>,
                MXFP4 => blocks_32::<Mxfp4>,
                Q1_0 => blocks_32::<Q1_0>,
                Q2_0 => blocks_32::<Q2_0>,
                TQ2_0 => blocks_256::<Tq2_0>,
                IQ1_S => by_row::<Iq1S>,
                IQ1_M => by_row::<Iq1M>,
                IQ2_XXS => by_row::<Iq2Xxs>,
                IQ2_XS => by_row::<Iq2Xs>,
                IQ2_S => by_row::<Iq2S>,
                IQ3_XXS => by_row::<Iq3Xxs>,
                IQ3_S => by_row::<Iq3S>,
                TQ1_0 => by_row::<Tq1_0>,
                NVFP4 => halves::<Nvfp4>,
                _ => return Err(Refused::NoKernel),
            });
            let job = Job::new(weights, inputs, out, scratch).ok_or(Refused::Sizes)?;
            // SAFETY: these functions have the features of this one, and `format` is that of the weights' type.
            unsafe { format(&job) }.ok_or(Refused::Sizes)
        }

        /// # Safety
        /// The weights are of format `F`.
        #[target_feature(enable = $features)]
        unsafe fn blocks_32<F: Blocks32>(job: &Job<'_>) -> Option<()> {
            // SAFETY: the caller promises that the weights are of format `F`.
            unsafe { products_32::<$isa, F>(<$isa>::new(), job) }
        }
    };
}

pub(super) use level_products;

crate::kernels::shims::shims!(ymm::Ymm2: Avx2::new(), "avx2,fma,f16c");
crate::kernels::shims::quantize_shim!("avx2,f16c");
level_products!("avx2,fma,f16c", Avx2);

/// Computes the products for blocks of 32 whose halves have a scale each, on both levels. The instruction of AVX-VNNI
/// takes codes without sign, but these have one.
///
/// # Safety
/// The weights are of format `F`.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn halves<F: Blocks32>(job: &Job<'_>) -> Option<()> {
    // SAFETY: the caller promises that the weights are of format `F`.
    unsafe { products_32::<Avx2, F>(Avx2::new(), job) }
}

/// Computes the products for super-blocks, on both levels. The dot product of 16-bit integers of AVX-VNNI gains
/// nothing, because it waits for the one before.
///
/// # Safety
/// The weights are of format `F`.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn blocks_256<F: Blocks256>(job: &Job<'_>) -> Option<()> {
    // SAFETY: the caller promises that the weights are of format `F`. Where the rows are not few, `few_of_256` compared
    // their bytes.
    unsafe { if few_of_256::<F>(Avx2::new(), job)? { Some(()) } else { unpacked::<F>(job) } }
}

/// Computes the products with unpacked super-blocks. It is a function of its own: in one function with [`few_of_256`]
/// the loops lie further from the spilled registers, and are a twentieth slower.
///
/// # Safety
/// The weights are of format `F`, and their rows have its bytes for each super-block.
#[inline(never)]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn unpacked<F: Blocks256>(job: &Job<'_>) -> Option<()> {
    // SAFETY: the caller promises that the weights are of format `F`.
    unsafe { unpacked_256::<F>(Avx2::new(), job) }
}

/// Computes the products for formats that are unpacked row by row, on both levels.
///
/// # Safety
/// The weights are of format `F`.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn by_row<F: ByRow>(job: &Job<'_>) -> Option<()> {
    // SAFETY: the caller promises that the weights are of format `F`.
    unsafe { any_by_row(job, by_row::eight::<F>, F::BYTES) }
}

/// # Safety
/// The weights are of the format that `eight` is for, which has `bytes` bytes for each super-block.
#[inline(never)] // once for all formats
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn any_by_row(job: &Job<'_>, mut eight: by_row::EightOf, bytes: usize) -> Option<()> {
    // SAFETY: the text has no instruction. It hides the function from the compiler, which would make a copy of this one
    // for each format.
    unsafe { core::arch::asm!("/* {} */", inout(reg) eight, options(nostack, preserves_flags)) };
    // SAFETY: the caller promises that the weights are of the format.
    unsafe { products_by_row(Avx2::new(), job, &mut Unpacking::new(eight, bytes)) }
}
