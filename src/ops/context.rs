//! Data that operations read and that does not change while a batch is computed.

use super::adapters::{Adapters, adapter_words};
use super::batch::Capacity;
use super::input::Forms;
use super::slopes::fill_slopes;
use crate::cache::SeqId;
use crate::device::{RotarySet, RotaryView};
use crate::kernels::{Activation, Level};
use crate::kv::{MAX_GROUPS, Visibility};
use crate::mem::{Arena, MemoryError};
#[cfg(feature = "arch-apertus")]
use crate::num::Xielu;
#[cfg(feature = "arch-apertus")]
use crate::weights::xielu;
use crate::weights::{Config, Files, Role, Uses, Weights};

/// A model's numbers and weights, and data that is computed from them once.
#[derive(Debug)]
pub(crate) struct Context<'m, 'a> {
    pub(crate) config: Config,
    pub(super) level: Level,
    /// Positions that the layers of each group see.
    pub(super) visibility: [Visibility; MAX_GROUPS],
    pub(super) weights: Weights<'m, 'a>,
    pub(super) forms: Forms,
    /// Number of 32-bit words of an input row: the largest forms, then the adapters' products.
    pub(super) input_words: usize,
    pub(crate) adapters: Adapters<'m, 'a>,
    /// Role of the divisors of the rotary frequencies.
    divisors: Role,
    /// Rotary frequencies of all sets, one for every two elements that are rotated.
    pub(super) frequencies: &'a mut [f64],
    /// Slopes of ALiBi: `[heads]`, or empty.
    pub(super) slopes: &'a mut [f32],
    /// Numbers of the layers' own activation functions: `[layers][4]`, or empty.
    #[cfg(feature = "arch-apertus")]
    activations: &'a mut [f32],
    /// Number of tokens of a sequence whose given hidden states are kept: one for each row of a batch, and one for a
    /// token that is not known yet.
    given: usize,
}

impl<'m, 'a> Context<'m, 'a> {
    /// Takes the memory from the arena and prepares the data that all batches share.
    pub(crate) fn carve(
        arena: &mut Arena<'a>,
        files: &Files<'m>,
        config: &Config,
        forms: Forms,
        uses: &Uses<'_>,
        capacity: Capacity,
    ) -> Result<Self, MemoryError> {
        let weights = Weights::carve(arena, files, config, uses)?;
        let frequencies = arena.slice("rotary frequencies", config.rope.width() / 2)?;
        let divisors = match config.rope.is_long(capacity.context) {
            None => Role::RopeDivisors,
            Some(false) => Role::ShortRopeDivisors,
            Some(true) => Role::LongRopeDivisors,
        };
        rotary(config, &weights, divisors).frequencies(frequencies);
        let slopes = arena.slice("slopes", if config.attention.alibi > 0.0 { config.heads } else { 0 })?;
        fill_slopes(config.attention.alibi, slopes);
        #[cfg(feature = "arch-apertus")]
        let activations = activations(arena, files, config)?;
        let adapters = Adapters::carve(arena, config, capacity)?;
        let input_words = forms.widest(config).and_then(|words| words.checked_add(adapter_words(capacity)));
        Ok(Self {
            config: *config,
            level: capacity.level,
            visibility: capacity.visibility,
            weights,
            forms,
            input_words: input_words.ok_or(MemoryError::TooLarge)?,
            adapters,
            divisors,
            frequencies,
            slopes,
            #[cfg(feature = "arch-apertus")]
            activations,
            given: capacity.given(),
        })
    }
}

impl<'m> Context<'m, '_> {
    /// Returns the activation function of a layer.
    #[cfg_attr(not(feature = "arch-apertus"), allow(unused_variables))]
    pub(super) fn activation(&self, layer: usize) -> Activation {
        #[cfg(feature = "arch-apertus")]
        if let Some(&[linear, positive, negative, largest]) = self.activations.as_chunks().0.get(layer) {
            return Activation::Xielu(Xielu { linear, positive, negative, largest });
        }
        self.config.feed_forward.activation
    }

    /// Returns the activation function of a layer for a device, which sees the program while memory is measured.
    /// Returns `None` if the file lacks the numbers of the function.
    #[cfg_attr(not(feature = "arch-apertus"), allow(unused_variables))]
    pub(super) fn viewed_activation(&self, layer: usize) -> Option<Activation> {
        #[cfg(feature = "arch-apertus")]
        if let Activation::Xielu(_) = self.config.feed_forward.activation {
            return self.weights.xielu(layer).map(Activation::Xielu);
        }
        Some(self.config.feed_forward.activation)
    }

    /// Returns whether products with one of these matrices of a layer are multiplied by a scale.
    pub(crate) fn is_scaled(&self, layer: usize, matrices: &[Role]) -> bool {
        matrices.iter().any(|&role| self.weights.is_scaled(layer, role))
    }

    /// Returns the place of the hidden state that is given with the token at a position, or `None` if the context has
    /// no rows.
    pub(crate) fn given_place(&self, seq: SeqId, position: usize) -> Option<usize> {
        let place = position.checked_rem(self.given)?;
        seq.slot().checked_mul(self.given)?.checked_add(place)
    }

    /// Returns the cosines and sines, for sequences of the planned length.
    pub(super) fn rotary(&self) -> RotaryView<'m> {
        rotary(&self.config, &self.weights, self.divisors)
    }
}

fn rotary<'m>(config: &Config, weights: &Weights<'m, '_>, divisors: Role) -> RotaryView<'m> {
    let divisors = weights.tensor(0, divisors).and_then(|view| view.row(0)).unwrap_or_default();
    let mut sets = [None; MAX_GROUPS];
    for (place, (frequencies, dims, divided)) in sets.iter_mut().zip(config.rope.sets()) {
        *place = Some(RotarySet { frequencies, dims, divisors: if divided { divisors } else { &[] } });
    }
    RotaryView { sets }
}

/// Returns the numbers of the layers' own activation functions: `[layers][4]`, or nothing.
#[cfg(feature = "arch-apertus")]
fn activations<'a>(arena: &mut Arena<'a>, files: &Files<'_>, config: &Config) -> Result<&'a mut [f32], MemoryError> {
    let has_own = matches!(config.feed_forward.activation, Activation::Xielu(_));
    let all = arena.slice("activation functions", if has_own { 4 * config.layers } else { 0 })?;
    for (layer, numbers) in all.as_chunks_mut().0.iter_mut().enumerate() {
        // A model whose file lacks the numbers was refused.
        if let Ok(Xielu { linear, positive, negative, largest }) = xielu(files, layer) {
            *numbers = [linear, positive, negative, largest];
        }
    }
    Ok(all)
}
