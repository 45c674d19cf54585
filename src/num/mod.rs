//! Numbers: the rounding, the transcendental functions and the hash that the arithmetic is defined by.
//!
//! Everything here is part of the specification in `docs/arithmetic.md`: the same operations in the same
//! order on every machine.

/// The version of the arithmetic that `docs/arithmetic.md` specifies. It is raised whenever a rule changes bits.
/// Results are comparable, and snapshots exchangeable, only within one version.
pub const ARITHMETIC_VERSION: u32 = 3;

mod half;
mod hash;
mod math;

pub use half::{f16_to_f32, f32_to_f16};
pub use hash::Xxh64;
pub(crate) use math::{SHORT_MIN, SHORT_SPLIT};
pub use math::{
    exp, gelu_erf, gelu_tanh, is_finite, round_half_even, round_to_i8, short, silu, sqrt, sum_lanes, tanh, tree16,
};
