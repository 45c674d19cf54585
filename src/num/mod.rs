//! Numbers: the rounding, the transcendental functions and the hash that define the arithmetic.
//!
//! Everything here is part of the specification in `docs/arithmetic.md`: the same operations in the same
//! order on every machine.
//!
//! # Example
//!
//! A checksum of a file that is read in pieces, and a softmax whose bits are the same on every machine:
//!
//! ```
//! use gleed::num::{Xielu, Xxh64, exp, f16_to_f32, f32_to_f16, xielu};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let file = std::fs::read("examples/assets/gleed-tales-q8_0.gguf")?;
//! let mut hash = Xxh64::new();
//! for piece in file.chunks(4096) {
//!     hash.update(piece);
//! }
//! assert_eq!(hash.finish(), Xxh64::hash(&file));
//!
//! // The largest logit is subtracted first, so no power overflows.
//! let logits = [90.0_f32, 91.0, 89.0];
//! let powers = logits.map(|logit| exp(logit - 91.0));
//! let sum: f32 = powers.iter().sum();
//! let probabilities = powers.map(|power| power / sum);
//! assert_eq!(probabilities.map(f32::to_bits), [0x3e7a_9a1a, 0x3f2a_4d3b, 0x3db8_61f3]);
//!
//! // Keys and values are rounded to f16 once.
//! assert_eq!(f16_to_f32(f32_to_f16(0.1)), 0.099_975_586);
//!
//! // The activation function of Apertus, with the numbers of one of its layers.
//! let numbers = Xielu { linear: 0.5, positive: 0.75, negative: 1.25, largest: -1e-6 };
//! assert_eq!(xielu(2.0, numbers), 4.0);
//! # Ok(())
//! # }
//! ```

/// The version of the arithmetic that `docs/arithmetic.md` specifies. It is raised whenever a rule changes bits.
/// Results are comparable, and snapshots exchangeable, only within one version.
pub const ARITHMETIC_VERSION: u32 = 4;

mod half;
mod hash;
mod math;
mod xielu;

pub use half::{f16_to_f32, f32_to_f16};
pub use hash::Xxh64;
#[cfg(any(
    target_arch = "x86_64",
    all(target_arch = "aarch64", target_feature = "neon"),
    all(target_arch = "wasm32", target_feature = "simd128")
))]
pub(crate) use math::WEIGHT_MIN;
pub(crate) use math::{SETTLED_MIN, SHORT_SPLIT, settled_of, softmax, weight};
pub use math::{
    all_finite, exp, gelu_erf, gelu_tanh, is_finite, limited, limited_silu, round_half_even, round_to_i8, settle,
    short, sigmoid, silu, softplus, sqrt, squared_relu, sum_lanes, tanh, tree16,
};
pub use xielu::{Xielu, xielu};
