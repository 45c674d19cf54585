//! Which tokens are allowed at all.

use super::SampleError;
use super::candidates::Candidates;

/// Bans the tokens whose bits in `mask` are 0.
pub(super) fn apply(candidates: &mut Candidates<'_>, mask: &[u32]) -> Result<(), SampleError> {
    let needed = candidates.len().div_ceil(32);
    if mask.len() != needed {
        return Err(SampleError::Mask { needed, given: mask.len() });
    }
    candidates.ban_others(mask);
    if candidates.best().1 == f32::NEG_INFINITY { Err(SampleError::AllMasked) } else { Ok(()) }
}
