//! Logit bias.

use super::SampleError;
use super::candidates::Candidates;

/// The most logit biases that a sampler holds.
pub const MAX_BIASES: usize = 64;

/// Tokens and what is added to their logits.
pub(super) type Biases = heapless::Vec<(u32, f32), MAX_BIASES>;

/// A checked copy of the caller's list.
pub(super) fn check(biases: &[(u32, f32)]) -> Result<Biases, SampleError> {
    let wrong = |&&(_, bias): &&(u32, f32)| bias.is_nan() || bias == f32::INFINITY;
    if let Some(&(token, _)) = biases.iter().find(wrong) {
        return Err(SampleError::Bias { token });
    }
    Biases::from_slice(biases).map_err(|_| SampleError::TooManyBiases { given: biases.len(), limit: MAX_BIASES })
}

/// Adds the biases in their order; −infinity bans the token.
pub(super) fn apply(candidates: &mut Candidates<'_>, biases: &Biases) -> Result<(), SampleError> {
    let vocab = candidates.len();
    for &(token, bias) in biases {
        if usize::try_from(token).is_ok_and(|token| token >= vocab) {
            return Err(SampleError::UnknownToken { token, vocab });
        }
        if bias == f32::NEG_INFINITY {
            candidates.ban(token);
        } else {
            candidates.adjust(token, |logit| logit + bias)?;
        }
    }
    Ok(())
}
