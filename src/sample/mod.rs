//! From logits to a token: greedy, or drawn by a seeded generator. The same parameters, seed, history
//! and logits give the same token on every machine.
//!
//! These are the steps, in order. Each step is off at its default. With temperature 0, only the first three steps and
//! the choice of the largest logit take place:
//!
//! | step | what it does |
//! |---|---|
//! | mask | leaves only the tokens that a caller's mask allows |
//! | penalties | lowers the logits of tokens among the last ones accepted |
//! | bias | adds a number to the logits of some tokens, or bans them; it can depend on the tokens before |
//! | top-k | keeps the first k tokens of the sort order |
//! | top-p | keeps the shortest prefix of the sort order that has this part of the mass |
//! | min-p | keeps the tokens with at least this part of the first token's mass |
//! | temperature | divides the logits |
//! | draw | takes a token with the probability that its mass has in the total |
//!
//! # Arithmetic
//!
//! - The *sort order* is by logit, descending (−0 equals +0), then by id, ascending.
//! - With m the largest logit, the *mass* of a token of logit l is the integer
//!   ⌊2³² · [`exp`](crate::num::exp)(l − m)⌋, at most 2³². Masses are added as integers, so a total is
//!   the same in any order and nothing is ever sorted. A mass below 2⁻³² of the largest counts as 0.
//! - top-p: the mass of the prefix is at least ⌈total · p⌉, and at least 1; p is taken to 32 binary places.
//! - min-p: `exp(l − m) >= min_p`.
//! - temperature t: l becomes `(l − m) / t`, two operations.
//! - draw: with u the top 24 bits of the generator's next number, the token is the first one, by
//!   ascending id, at which the running total of the masses exceeds ⌊total · u / 2²⁴⌋. The generator
//!   is SplitMix64; its state starts as the seed and advances once for each token that is drawn.
//!
//! # Example
//!
//! ```
//! use gleed::sample::{SampleError, Sampler, SamplerParams, argmax, scratch_len};
//!
//! # fn main() -> Result<(), SampleError> {
//! let logits = [1.0, 3.0, 2.0, 2.5];
//! assert_eq!(argmax(&logits)?, 1);
//!
//! // Draws from the two best of those that are not banned.
//! let params = SamplerParams { temperature: 0.8, top_k: 2, seed: 7, ..SamplerParams::default() };
//! let mut sampler = Sampler::new(params)?;
//! sampler.set_biases(&[(1, f32::NEG_INFINITY)])?;
//! let mut scratch = vec![0; scratch_len(logits.len())];
//! let start = sampler.state();
//! let mut drawn = || -> Result<Vec<u32>, SampleError> {
//!     (0..20).map(|_| Ok(sampler.sample(&logits, &mut scratch)?.token)).collect()
//! };
//! let first = drawn()?;
//! assert!(first.contains(&2) && first.contains(&3) && !first.contains(&1));
//!
//! // The same state gives the same tokens.
//! sampler.set_state(start);
//! assert_eq!(sampler.sample(&logits, &mut scratch)?.token, first[0]);
//!
//! // A bias for what two tokens spell is for the second one, and only behind the first.
//! sampler.add_bias(&[3, 2], f32::NEG_INFINITY)?;
//! sampler.accept(3);
//! assert!((0..20).all(|_| sampler.sample(&logits, &mut scratch).is_ok_and(|choice| choice.token != 2)));
//!
//! // A number out of its range is refused, with what is allowed.
//! let refused = Sampler::new(SamplerParams { top_p: 1.5, ..params }).unwrap_err();
//! assert_eq!(refused.to_string(), "top_p must be from 0 to 1, it is 1.5");
//! # Ok(())
//! # }
//! ```

mod bias;
mod candidates;
mod chain;
mod draw;
mod error;
mod greedy;
mod log_prob;
mod mask;
mod min_p;
mod penalty;
mod rng;
mod temperature;
mod top_k;
mod top_p;

pub use bias::{MAX_BIAS_TOKENS, MAX_BIASES};
pub use chain::{Choice, Sampler, SamplerParams, scratch_len};
pub use error::SampleError;
pub use greedy::argmax;
pub use log_prob::log_prob;
pub use penalty::MAX_WINDOW;
