//! The kernels in plain Rust: the specification, and what instruction sets compile anew with their own
//! registers. Nothing here contracts or reorders, so the bits are the same.

mod attend;
mod combine;
mod floats;
mod lanes;
mod norm;
mod products;

pub(super) use attend::attend;
pub use attend::{CHUNK, Elements, KvSource, KvTile, Queries, TILE_TOKENS, attend_rows, attend_scratch};
pub use combine::Combine;
pub(super) use combine::combine;
#[cfg(target_arch = "x86_64")]
pub(super) use floats::FloatTiles;
pub(super) use lanes::{LANES, Lanes};
pub(super) use norm::{rms_norm, rms_norm_in_place};
pub(super) use products::products;
pub use products::{Inputs, OUTPUTS};

pub(super) use crate::quant::quantize_row;
