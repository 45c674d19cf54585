//! Layers of a network as functions on views and slices. They know shapes, never models.

mod experts;
mod input;
mod linear;
#[cfg(test)]
mod no_kernel_test;
mod rope;

pub use experts::{Choice, choose_experts};
pub use input::{InputForms, InputRows};
pub use linear::{Delta, Linear};
pub use rope::{Frequencies, RopePairs, Yarn, rotate, rotation};
