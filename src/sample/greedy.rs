//! The largest logit.

use super::candidates::Candidates;
use super::{Choice, SampleError};
use crate::kernels::fpenv;
use crate::num;

/// Returns the token with the largest logit by `>`, the lowest id among equals.
///
/// # Errors
/// [`SampleError::NonFinite`] with the first token whose logit is infinite or NaN;
/// [`SampleError::Vocab`] if there are no logits, or more logits than ids.
pub fn argmax(logits: &[f32]) -> Result<u32, SampleError> {
    fpenv::with_default(|| largest(logits))
}

/// Returns the first token of the sort order, with its probability among all candidates at temperature 1.
pub(super) fn apply(candidates: &Candidates<'_>) -> Choice {
    let (token, best) = candidates.best();
    Choice { token, probability: (1_u64 << 32) as f32 / candidates.total(best) as f32 }
}

fn largest(logits: &[f32]) -> Result<u32, SampleError> {
    let vocab = SampleError::Vocab { given: logits.len() };
    u32::try_from(logits.len()).map_err(|_| vocab)?;
    let mut best = (0, *logits.first().ok_or(vocab)?);
    for (part, start) in logits.chunks(PART).zip((0_u32..).step_by(PART)) {
        // Most parts have no larger logit. Vector instructions find this out quickly.
        let largest = largest_of(part);
        if largest.is_some_and(|largest| largest <= best.1) {
            continue;
        }
        for (&logit, token) in part.iter().zip(start..) {
            if !num::is_finite(logit) {
                return Err(SampleError::NonFinite { token });
            }
            if logit > best.1 {
                best = (token, logit);
            }
        }
    }
    Ok(best.0)
}

/// Number of logits that are looked at together.
const PART: usize = 512;

/// Returns the largest logit, or `None` if one is infinite or NaN, or if there are none.
fn largest_of(part: &[f32]) -> Option<f32> {
    const LANES: usize = 16;
    let (rows, rest) = part.as_chunks::<LANES>();
    let mut largest = [f32::NEG_INFINITY; LANES];
    // As integers, the bits of magnitudes order like the numbers.
    let mut magnitudes = [0_i32; LANES];
    for row in rows {
        for ((largest, magnitude), &x) in largest.iter_mut().zip(&mut magnitudes).zip(row) {
            *largest = if x > *largest { x } else { *largest };
            *magnitude = (x.to_bits() as i32 & i32::MAX).max(*magnitude);
        }
    }
    let finite = magnitudes.iter().all(|&bits| num::is_finite(f32::from_bits(bits as u32)))
        && rest.iter().all(|&x| num::is_finite(x));
    largest.iter().chain(rest).copied().reduce(|a, b| if b > a { b } else { a }).filter(|_| finite)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_the_largest_is_found_wherever_it_is() {
        for len in [1, 15, 16, 17, PART - 1, PART, PART + 1, 2 * PART + 23] {
            for at in [0, 7, 16, PART - 1, PART, len - 1].into_iter().filter(|&at| at < len) {
                let mut logits = vec![-3.0; len];
                logits[at..].fill(-2.5);
                assert_eq!(argmax(&logits), Ok(at as u32), "{len} logits");
                logits[at..].fill(0.0);
                logits[at] = -0.0;
                assert_eq!(argmax(&logits), Ok(at as u32), "{len} logits, zeros");
                // The first logit that is not finite is named, whatever follows.
                for wrong in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                    logits[at] = wrong;
                    logits[len - 1] = f32::NAN;
                    assert_eq!(argmax(&logits), Err(SampleError::NonFinite { token: at as u32 }), "{len} logits");
                }
            }
        }
    }
}
