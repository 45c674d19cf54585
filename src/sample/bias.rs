//! Logit biases of tokens, and of texts that several tokens spell.

use super::SampleError;
use super::candidates::Candidates;
use super::penalty::History;

/// The largest number of logit biases that a sampler holds.
pub const MAX_BIASES: usize = 64;

/// The largest number of tokens before the last ones in a sampler's biases, all biases together.
pub const MAX_BIAS_TOKENS: usize = 128;

/// A number that is added to the logit of a token behind certain others.
#[derive(Clone, Copy, Debug)]
struct Bias {
    token: u32,
    value: f32,
    /// Number of tokens in `Biases::before` that must be the last tokens of the text.
    before: usize,
}

/// A checked copy of the caller's biases.
#[derive(Clone, Debug)]
pub(super) struct Biases {
    biases: [Bias; MAX_BIASES],
    count: usize,
    /// The tokens that must stand before the biased ones: bias by bias, each list from its end.
    before: [u32; MAX_BIAS_TOKENS],
    used: usize,
}

impl Biases {
    pub(super) const fn new() -> Self {
        let none = Bias { token: 0, value: 0.0, before: 0 };
        Self { biases: [none; MAX_BIASES], count: 0, before: [0; MAX_BIAS_TOKENS], used: 0 }
    }

    /// Returns biases of single tokens.
    pub(super) fn of(biases: &[(u32, f32)]) -> Result<Self, SampleError> {
        if let Some(&(token, _)) = biases.iter().find(|(_, value)| is_wrong(*value)) {
            return Err(SampleError::Bias { token });
        }
        let (given, limit) = (biases.len(), MAX_BIASES);
        if given > limit {
            return Err(SampleError::TooManyBiases { given, limit });
        }
        let mut copy = Self { count: given, ..Self::new() };
        for (place, &(token, value)) in copy.biases.iter_mut().zip(biases) {
            *place = Bias { token, value, before: 0 };
        }
        Ok(copy)
    }

    /// Adds a bias for the last of these tokens, where it follows the others.
    pub(super) fn add(&mut self, tokens: &[u32], value: f32) -> Result<(), SampleError> {
        let free = self.before.get_mut(self.used..).unwrap_or_default();
        let (given, limit) = (tokens.len(), free.len().saturating_add(1));
        let (&token, before) = tokens.split_last().ok_or(SampleError::BiasTokens { given, limit })?;
        if is_wrong(value) {
            return Err(SampleError::Bias { token });
        }
        let full = SampleError::TooManyBiases { given: MAX_BIASES + 1, limit: MAX_BIASES };
        let place = self.biases.get_mut(self.count).ok_or(full)?;
        if given > limit {
            return Err(SampleError::BiasTokens { given, limit });
        }
        free.iter_mut().zip(before.iter().rev()).for_each(|(place, token)| *place = *token);
        *place = Bias { token, value, before: before.len() };
        (self.count, self.used) = (self.count + 1, self.used.saturating_add(before.len()));
        Ok(())
    }

    pub(super) fn are_none(&self) -> bool {
        self.count == 0
    }

    /// Returns the biases, and the tokens that must stand before theirs.
    fn parts(&self) -> (&[Bias], &[u32]) {
        (self.biases.get(..self.count).unwrap_or_default(), self.before.get(..self.used).unwrap_or_default())
    }
}

fn is_wrong(value: f32) -> bool {
    value.is_nan() || value == f32::INFINITY
}

/// Adds the biases in their order, each only if the text ends with the tokens before its own. −infinity bans the token.
pub(super) fn apply(candidates: &mut Candidates<'_>, biases: &Biases, history: &History) -> Result<(), SampleError> {
    let vocab = candidates.len();
    let (biases, mut rest) = biases.parts();
    for &Bias { token, value, before } in biases {
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
