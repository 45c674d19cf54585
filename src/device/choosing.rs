//! The choice of tokens on a device.

/// The way in which a device chooses the next token of a row.
///
/// [Example](crate::device#example).
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Choosing {
    /// The token with the largest logit, or the lowest such token among equal logits.
    Largest,
    /// A token that is drawn at random.
    Drawn(Draws),
}

/// Parameters of tokens that are drawn, by the integer masses that the documentation of `gleed::sample` defines. There
/// are no penalties.
///
/// [Example](crate::device#example).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Draws {
    /// Temperature, above 0.
    pub temperature: f32,
    /// Number of tokens that are kept, or 0 for all.
    pub top_k: usize,
    /// Share of the mass that is kept, from 0 to 1. With 1 all tokens are kept.
    pub top_p: f32,
    /// Smallest probability relative to the largest one, from 0 to 1. With 0 all tokens are kept.
    pub min_p: f32,
    /// State of the generator before the first token. Each token takes one number of the generator.
    pub state: u64,
}
