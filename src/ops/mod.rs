//! The operations of the forward pass on views and slices. They know shapes, never models.

mod input;
mod linear;
mod rope;

pub use input::{InputForms, InputRows};
pub use linear::{linear, linear_scratch};
pub use rope::{RopePairs, inverse_frequencies, rotate, rotation};
