//! The largest logit.

use super::candidates::Candidates;
use super::{Choice, SampleError};
use crate::kernels::fpenv;
use crate::num;

/// The token with the largest logit by `>`, the lowest id among equals.
///
/// # Errors
/// [`SampleError::NonFinite`] with the first token whose logit is infinite or NaN;
/// [`SampleError::Vocab`] where there are no logits, or more than ids.
pub fn argmax(logits: &[f32]) -> Result<u32, SampleError> {
    fpenv::with_default(|| largest(logits))
}

/// The first of the sort order, with its probability among all candidates at temperature 1.
pub(super) fn apply(candidates: &Candidates<'_>) -> Choice {
    let (token, best) = candidates.best();
    Choice { token, probability: (1_u64 << 32) as f32 / candidates.total(best) as f32 }
}

fn largest(logits: &[f32]) -> Result<u32, SampleError> {
    let vocab = SampleError::Vocab { given: logits.len() };
    u32::try_from(logits.len()).map_err(|_| vocab)?;
    let mut best = (0, *logits.first().ok_or(vocab)?);
    for (&logit, token) in logits.iter().zip(0_u32..) {
        if !num::is_finite(logit) {
            return Err(SampleError::NonFinite { token });
        }
        if logit > best.1 {
            best = (token, logit);
        }
    }
    Ok(best.0)
}
