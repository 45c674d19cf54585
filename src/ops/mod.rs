//! The operations of the forward pass on views and slices. They know shapes, never models.

mod attend;
mod input;
mod linear;
mod norm;
mod rope;

pub use attend::{CHUNK, Elements, KvSource, KvTile, Queries, TILE_TOKENS, attend, attend_scratch};
pub use input::{InputForms, InputRows};
pub use linear::linear;
pub use norm::{rms_norm, rms_norm_in_place};
pub use rope::{RopePairs, inverse_frequencies, rotate, rotation};
