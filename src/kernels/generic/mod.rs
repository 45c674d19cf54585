//! The kernels in plain Rust. They are the specification, and instruction sets compile them anew with their own
//! registers. Nothing here contracts or reorders operations, so the bits are the same.

mod attend;
// `blocks` and `floats` work on register tiles of instruction sets. Their plain form is `products`. On x86-64 all block
// formats have kernels of their own.
#[cfg(any(
    all(target_arch = "aarch64", target_feature = "neon"),
    all(target_arch = "wasm32", target_feature = "simd128")
))]
mod blocks;
mod combine;
#[cfg(target_arch = "x86_64")]
mod float_panel;
#[cfg(any(
    target_arch = "x86_64",
    all(target_arch = "aarch64", target_feature = "neon"),
    all(target_arch = "wasm32", target_feature = "simd128")
))]
mod floats;
mod lanes;
#[cfg(any(
    all(target_arch = "aarch64", target_feature = "neon"),
    all(target_arch = "wasm32", target_feature = "simd128")
))]
mod level_products;
mod norm;
mod products;
#[cfg(any(
    all(target_arch = "aarch64", target_feature = "neon"),
    all(target_arch = "wasm32", target_feature = "simd128")
))]
mod quads;
mod recur;
mod store;

pub use attend::{Partial, Queries, Scores, attend_chunks, attend_rows};
pub(super) use attend::{attend, attend_scratch};
#[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
pub(super) use blocks::{COLS, Row};
#[cfg(any(
    all(target_arch = "aarch64", target_feature = "neon"),
    all(target_arch = "wasm32", target_feature = "simd128")
))]
pub(super) use blocks::{Family, block_products};
pub use combine::{Activation, Combine};
pub(super) use combine::{combine_tile, soft_cap};
#[cfg(target_arch = "x86_64")]
pub(super) use float_panel::{Columns, FloatPanels, Least as FloatLeast, SCRATCH as FLOAT_SCRATCH};
#[cfg(target_arch = "x86_64")]
pub(super) use floats::FloatTiles;
#[cfg(any(
    all(target_arch = "aarch64", target_feature = "neon"),
    all(target_arch = "wasm32", target_feature = "simd128")
))]
pub(super) use floats::float_products;
pub(super) use lanes::LANES;
#[cfg(any(
    target_arch = "x86_64",
    all(target_arch = "aarch64", target_feature = "neon"),
    target_feature = "simd128"
))]
pub(super) use lanes::Lanes;
#[cfg(any(
    all(target_arch = "aarch64", target_feature = "neon"),
    all(target_arch = "wasm32", target_feature = "simd128")
))]
pub(super) use level_products::{by_format, level_products};
pub use norm::{Norm, NormKind};
pub(super) use norm::{norm, norm_in_place};
pub use products::{Inputs, OUTPUTS};
pub(super) use products::{Refused, products};
#[cfg(any(
    all(target_arch = "aarch64", target_feature = "neon"),
    all(target_arch = "wasm32", target_feature = "simd128")
))]
pub(super) use quads::{Floats, Of256, OfParts, Quad};
pub use recur::{Convolution, Update};
pub(super) use recur::{convolve, gate, normalize, settle_row, update_state};
pub use store::is_storable;
pub(super) use store::store;

pub(super) use crate::quant::quantize_row;
