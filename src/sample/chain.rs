//! The sampler: parameters, state, and the chain of steps.

use super::bias::{self, Biases};
use super::candidates::Candidates;
use super::penalty::{self, History, MAX_WINDOW};
use super::rng::SplitMix64;
use super::{SampleError, draw, greedy, mask, min_p, temperature, top_k, top_p};
use crate::kernels::fpenv;

/// How to choose a token. The default is greedy.
///
/// [The guide has an example](crate::guide#generate).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SamplerParams {
    /// Divides the logits before the draw; 0 takes the most probable token instead of drawing.
    pub temperature: f32,
    /// Keeps this many of the most probable tokens; 0 keeps all.
    pub top_k: usize,
    /// Keeps the most probable tokens that together have this probability, from 0 to 1; 1 keeps all.
    pub top_p: f32,
    /// Keeps tokens with at least this many times the largest probability, from 0 to 1; 0 keeps all.
    pub min_p: f32,
    /// Divides positive and multiplies negative logits of repeated tokens; above 0, 1 does nothing.
    pub repetition_penalty: f32,
    /// Subtracted from the logit of a repeated token for each time it occurs; 0 does nothing.
    pub frequency_penalty: f32,
    /// Subtracted from the logit of a repeated token once; 0 does nothing.
    pub presence_penalty: f32,
    /// Number of last accepted tokens that the penalties count, at most [`MAX_WINDOW`].
    pub penalty_window: usize,
    /// Start of the random generator.
    pub seed: u64,
}

impl Default for SamplerParams {
    fn default() -> Self {
        Self {
            temperature: 0.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            repetition_penalty: 1.0,
            frequency_penalty: 0.0,
            presence_penalty: 0.0,
            penalty_window: 64,
            seed: 0,
        }
    }
}

impl SamplerParams {
    fn check(&self) -> Result<(), SampleError> {
        let check =
            |name, value, allowed, ok| if ok { Ok(()) } else { Err(SampleError::Parameter { name, value, allowed }) };
        let number = |name, value: f32| check(name, value, "finite", value.is_finite());
        let part = |name, value: f32| check(name, value, "from 0 to 1", (0.0..=1.0).contains(&value));
        let Self { temperature: t, repetition_penalty: repetition, penalty_window: given, .. } = *self;
        check("temperature", t, "finite and not negative", t.is_finite() && t >= 0.0)?;
        part("top_p", self.top_p)?;
        part("min_p", self.min_p)?;
        check("repetition_penalty", repetition, "finite and above 0", repetition.is_finite() && repetition > 0.0)?;
        number("frequency_penalty", self.frequency_penalty)?;
        number("presence_penalty", self.presence_penalty)?;
        if given > MAX_WINDOW {
            return Err(SampleError::Window { given, limit: MAX_WINDOW });
        }
        Ok(())
    }
}

/// The token that was chosen.
///
/// [The guide has an example](crate::guide#generate).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choice {
    /// The id of the token.
    pub token: u32,
    /// The probability of the token, mask, penalties and biases included. For a drawn token, the probability is among
    /// the tokens that top-k, top-p and min-p kept, at the temperature of the draw. For a greedy choice, it is among
    /// all that are not banned, at temperature 1.
    pub probability: f32,
}

/// Returns the number of elements of scratch memory that sampling from `vocab` logits needs.
pub const fn scratch_len(vocab: usize) -> usize {
    vocab
}

/// Chooses the tokens of one sequence. A sampler holds everything that a choice depends on, except the logits.
///
/// [The guide has an example](crate::guide#generate).
#[derive(Clone, Debug)]
pub struct Sampler {
    params: SamplerParams,
    biases: Biases,
    history: History,
    rng: SplitMix64,
}

impl Sampler {
    /// Returns a sampler without logit biases that has accepted no token yet.
    ///
    /// # Errors
    /// [`SampleError::Parameter`] or [`SampleError::Window`] with the first value that is out of range.
    pub fn new(params: SamplerParams) -> Result<Self, SampleError> {
        params.check()?;
        Ok(Self { params, biases: Biases::new(), history: History::new(), rng: SplitMix64(params.seed) })
    }

    /// Replaces all logit biases. A bias is a token and the number that is added to its logit. −infinity bans the
    /// token. If a token is listed twice, both biases are added.
    ///
    /// # Errors
    /// [`SampleError::Bias`] for NaN and +infinity; [`SampleError::TooManyBiases`] above
    /// [`MAX_BIASES`](super::MAX_BIASES).
    pub fn set_biases(&mut self, biases: &[(u32, f32)]) -> Result<(), SampleError> {
        self.biases = Biases::of(biases)?;
        Ok(())
    }

    /// Adds a logit bias for a text that several tokens spell. It is a bias of the last token, and has an effect where
    /// the other tokens are the last ones accepted. So a ban means that these tokens are never written one after the
    /// other, and other texts of their pieces stay as they are. With one token it is a bias as in
    /// [`Sampler::set_biases`], which removes all biases.
    ///
    /// [`Tokenizer::each_spelling`](crate::token::Tokenizer::each_spelling) gives the tokens of a text.
    ///
    /// # Errors
    /// [`SampleError::BiasTokens`] for no tokens, and if all biases together have more than
    /// [`MAX_BIAS_TOKENS`](super::MAX_BIAS_TOKENS) tokens before their last ones; [`SampleError::Bias`];
    /// [`SampleError::TooManyBiases`].
    pub fn add_bias(&mut self, tokens: &[u32], bias: f32) -> Result<(), SampleError> {
        self.biases.add(tokens, bias)
    }

    /// Adds `token` to the text that the penalties count, and that [`Sampler::add_bias`] looks at. [`Sampler::sample`]
    /// does not do this, because the host may discard the choice. The host also decides whether the prompt counts.
    pub fn accept(&mut self, token: u32) {
        self.history.push(token);
    }

    /// Returns the state of the random generator. To continue with the same choices, make a sampler with the same
    /// parameters and biases, accept the last tokens again, and set this state.
    pub fn state(&self) -> u64 {
        self.rng.0
    }

    /// Sets the state of the random generator to one that [`Sampler::state`] returned.
    pub fn set_state(&mut self, state: u64) {
        self.rng = SplitMix64(state);
    }

    /// Returns the parameters and the state of the generator if a choice depends only on these and on the logits: if
    /// there are no penalties and no biases.
    pub(crate) fn without_text(&self) -> Option<(SamplerParams, u64)> {
        (penalty::are_off(&self.params) && self.biases.are_none()).then_some((self.params, self.rng.0))
    }

    /// Notes tokens that were chosen elsewhere, as [`Sampler::sample`] and [`Sampler::accept`] do.
    pub(crate) fn took(&mut self, tokens: &[u32]) {
        for &token in tokens {
            if self.params.temperature != 0.0 {
                self.rng.next24();
            }
            self.accept(token);
        }
    }

    /// Returns a token that is chosen by `logits`, which has one element for each id. `scratch` needs no initial
    /// contents, and its contents afterwards have no meaning.
    ///
    /// The time is proportional to the size of the vocabulary, with any logits. The call takes about 2 KiB of stack.
    ///
    /// # Errors
    /// [`SampleError::Vocab`], [`SampleError::NonFinite`], [`SampleError::UnknownToken`],
    /// [`SampleError::AllBanned`]; [`SampleError::ScratchTooSmall`] if `scratch` is shorter than
    /// [`scratch_len`]. After an error the state of the generator has not changed.
    pub fn sample(&mut self, logits: &[f32], scratch: &mut [u64]) -> Result<Choice, SampleError> {
        fpenv::with_default(|| self.choose(logits, None, scratch))
    }

    /// Returns a token that is chosen by `logits` among those that `mask` allows. Token i is allowed if bit i mod 32 of
    /// element i / 32 is 1. The mask comes before all other steps.
    ///
    /// With temperature 0 the token is that of [`Sampler::sample`] if the mask allows it. So a host may sample first,
    /// and make a mask only if the choice is not allowed.
    ///
    /// # Errors
    /// As [`Sampler::sample`]; [`SampleError::Mask`] if the mask has another length; [`SampleError::AllMasked`] if it
    /// allows nothing.
    pub fn sample_masked(&mut self, logits: &[f32], mask: &[u32], scratch: &mut [u64]) -> Result<Choice, SampleError> {
        fpenv::with_default(|| self.choose(logits, Some(mask), scratch))
    }

    fn choose(&mut self, logits: &[f32], mask: Option<&[u32]>, scratch: &mut [u64]) -> Result<Choice, SampleError> {
        let mut candidates = Candidates::new(logits, scratch)?;
        if let Some(mask) = mask {
            mask::apply(&mut candidates, mask)?;
        }
        penalty::apply(&mut candidates, &self.history, &self.params)?;
        bias::apply(&mut candidates, &self.biases, &self.history)?;
        if candidates.best().1 == f32::NEG_INFINITY {
            return Err(SampleError::AllBanned);
        }
        if self.params.temperature == 0.0 {
            return Ok(greedy::apply(&candidates));
        }
        top_k::apply(&mut candidates, self.params.top_k);
        top_p::apply(&mut candidates, self.params.top_p);
        min_p::apply(&mut candidates, self.params.min_p);
        temperature::apply(&mut candidates, self.params.temperature);
        Ok(draw::apply(&candidates, self.rng.next24()))
    }
}
