//! The inputs of linear layers: activations, rounded and quantized once for all matrices that read them.

use super::context::Context;
use crate::device::InputView;
use crate::nn::{InputForms, InputRows};
use crate::weights::{Config, LayerShape, Role, Survey};

/// An input that several matrices share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Input {
    /// Input of the matrices of queries, keys and values, and of the input matrices of recurrent layers.
    Attention,
    /// Input of attention's output matrix.
    Output,
    /// Input of the feed-forward layer, its experts and their router.
    FeedForward,
    /// Input of the down matrix.
    Down,
    /// Input of the experts' down matrices: one row for each expert of each row.
    ExpertDown,
    /// Input of the shared expert's down matrix.
    SharedDown,
    /// Input of the output matrix of a recurrent layer.
    Mixer,
    /// Input of the matrix that projects the embedding for all layers, and of a layer's gate of its part.
    PerLayer,
    /// Input of the matrix whose result adds a layer's input of a token.
    PerLayerOut,
    /// Input of the output matrix of the model.
    Head,
    /// Input of the matrix that joins a token and a hidden state to one row.
    Joined,
}

impl Input {
    const ALL: [Self; 11] = [
        Self::Attention,
        Self::Output,
        Self::FeedForward,
        Self::Down,
        Self::ExpertDown,
        Self::SharedDown,
        Self::Mixer,
        Self::PerLayer,
        Self::PerLayerOut,
        Self::Head,
        Self::Joined,
    ];

    /// Returns the roles of the matrices that read the input.
    pub(crate) fn readers(self) -> &'static [Role] {
        match self {
            Self::Attention => &[
                Role::Q,
                Role::K,
                Role::V,
                Role::Qkv,
                Role::HeadGate,
                Role::DeltaQkv,
                Role::MixerGate,
                Role::Alpha,
                Role::Beta,
                Role::ShortConvIn,
                Role::ScanIn,
            ],
            Self::Output => &[Role::AttentionOutput],
            Self::FeedForward => &[
                Role::Gate,
                Role::Up,
                Role::Router,
                Role::GateUpExperts,
                Role::GateExperts,
                Role::UpExperts,
                Role::SharedGate,
                Role::GateShared,
                Role::UpShared,
            ],
            Self::Down => &[Role::Down],
            Self::ExpertDown => &[Role::DownExperts],
            Self::SharedDown => &[Role::DownShared],
            Self::Mixer => &[Role::ShortConvOut, Role::MixerOut],
            Self::PerLayer => &[Role::PerLayerProjection, Role::LayerInputGate],
            Self::PerLayerOut => &[Role::LayerInputOut],
            Self::Head => &[Role::Output, Role::PredictorOutput],
            Self::Joined => &[Role::PredictorInput],
        }
    }

    /// Returns the number of elements per row, in a layer.
    pub(super) fn width(self, config: &Config, layer: &LayerShape) -> usize {
        match self {
            Self::Attention | Self::FeedForward | Self::PerLayer | Self::Head => config.hidden,
            Self::Joined => config.hidden.saturating_mul(2),
            Self::PerLayerOut => config.embedding.per_layer,
            Self::Output => layer.q_width(),
            Self::Down => layer.ffn,
            Self::ExpertDown => config.feed_forward.expert_width,
            Self::SharedDown => config.feed_forward.shared_width,
            Self::Mixer => config.recurrent.inner(),
        }
    }
}

/// The forms in which the matrices that read each input need it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Forms([InputForms; Input::ALL.len()]);

impl Forms {
    /// Returns the forms that the types of a model's matrices need.
    pub(crate) fn of(survey: &Survey) -> Self {
        Self(Input::ALL.map(|input| {
            let types = survey.of(input.readers());
            // Without an output matrix, the embedding takes its place.
            let tied = input == Input::Head && types.is_empty();
            InputForms::of(if tied { survey.of(&[Role::Embedding]) } else { types }.iter())
        }))
    }

    /// Returns the forms of an input.
    pub(super) fn get(&self, input: Input) -> InputForms {
        self.0.get(input as usize).copied().unwrap_or_default()
    }

    /// Returns the number of 32-bit words of a row of an input in all its forms, in the layer where it is widest, or
    /// `None` if memory could not hold it.
    pub(super) fn words(&self, input: Input, config: &Config) -> Option<usize> {
        let words = |shape| self.get(input).words(input.width(config, &shape));
        config.layer_shapes().try_fold(0, |max, shape| Some(words(shape)?.max(max)))
    }

    /// Returns the number of 32-bit words of a row of the largest input in all its forms, or `None` if memory could not
    /// hold it.
    pub(super) fn widest(&self, config: &Config) -> Option<usize> {
        Input::ALL.into_iter().try_fold(0, |max, input| Some(self.words(input, config)?.max(max)))
    }
}

impl Context<'_, '_> {
    /// Returns the view of an input of a layer, for a device.
    pub(super) fn input_view(&self, layer: usize, input: Input) -> InputView {
        InputView { width: input.width(&self.config, &self.config.layer(layer)), forms: self.forms.get(input) }
    }

    /// Returns the rows of a layer's input that were prepared in `words`. `workers` workers multiply them at the same
    /// time.
    pub(super) fn input_rows<'w>(
        &self,
        (layer, input): (usize, Input),
        words: &'w [u32],
        workers: usize,
    ) -> InputRows<'w> {
        let width = input.width(&self.config, &self.config.layer(layer));
        InputRows::new(words, self.input_words, width, self.forms.get(input), workers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_are_in_the_order_of_their_numbers() {
        for (index, input) in Input::ALL.into_iter().enumerate() {
            assert_eq!(input as usize, index);
        }
    }
}
