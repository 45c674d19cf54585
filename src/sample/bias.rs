//! Logit bias, of tokens and of what several tokens spell.

use super::SampleError;
use super::candidates::Candidates;
use super::penalty::History;

/// The most logit biases that a sampler holds.
pub const MAX_BIASES: usize = 64;

/// The most tokens that stand before the last one in the biases of a sampler, all together.
pub const MAX_BIAS_TOKENS: usize = 128;

/// What is added to the logit of a token behind others.
#[derive(Clone, Copy, Debug)]
struct Bias {
    token: u32,
    value: f32,
    /// How many of `Biases::before` must be the last tokens of the text.
    before: usize,
}

/// A checked copy of the caller's biases.
#[derive(Clone, Debug)]
pub(super) struct Biases {
    biases: heapless::Vec<Bias, MAX_BIASES>,
    /// The tokens before those of the biases, one bias after the other, each from its end.
    before: heapless::Vec<u32, MAX_BIAS_TOKENS>,
}

impl Biases {
    pub(super) const fn new() -> Self {
        Self { biases: heapless::Vec::new(), before: heapless::Vec::new() }
    }

    /// Biases of single tokens.
    pub(super) fn of(biases: &[(u32, f32)]) -> Result<Self, SampleError> {
        if let Some(&(token, _)) = biases.iter().find(|(_, value)| is_wrong(*value)) {
            return Err(SampleError::Bias { token });
        }
        let (given, limit) = (biases.len(), MAX_BIASES);
        if given > limit {
            return Err(SampleError::TooManyBiases { given, limit });
        }
        let biases = biases.iter().map(|&(token, value)| Bias { token, value, before: 0 }).collect();
        Ok(Self { biases, before: heapless::Vec::new() })
    }

    /// Adds a bias for the last of some tokens behind the others.
    pub(super) fn add(&mut self, tokens: &[u32], value: f32) -> Result<(), SampleError> {
        let (given, limit) = (tokens.len(), MAX_BIAS_TOKENS.saturating_sub(self.before.len()).saturating_add(1));
        let (&token, before) = tokens.split_last().ok_or(SampleError::BiasTokens { given, limit })?;
        if is_wrong(value) {
            return Err(SampleError::Bias { token });
        }
        if self.biases.is_full() {
            return Err(SampleError::TooManyBiases { given: MAX_BIASES + 1, limit: MAX_BIASES });
        }
        if given > limit {
            return Err(SampleError::BiasTokens { given, limit });
        }
        self.before.extend(before.iter().rev().copied());
        let fits = self.biases.push(Bias { token, value, before: before.len() }).is_ok();
        debug_assert!(fits, "it was not full");
        Ok(())
    }
}

fn is_wrong(value: f32) -> bool {
    value.is_nan() || value == f32::INFINITY
}

/// Adds the biases in their order, each where the text ends with the tokens before its own; −infinity bans the token.
pub(super) fn apply(candidates: &mut Candidates<'_>, biases: &Biases, history: &History) -> Result<(), SampleError> {
    let vocab = candidates.len();
    let mut rest = biases.before.as_slice();
    for &Bias { token, value, before } in &biases.biases {
        let (before, others) = rest.split_at_checked(before).unwrap_or_default();
        rest = others;
        if usize::try_from(token).is_ok_and(|token| token >= vocab) {
            return Err(SampleError::UnknownToken { token, vocab });
        }
        if !history.newest(before.len()).eq(before.iter().copied()) {
            continue;
        }
        if value == f32::NEG_INFINITY {
            candidates.ban(token);
        } else {
            candidates.adjust(token, |logit| logit + value)?;
        }
    }
    Ok(())
}
