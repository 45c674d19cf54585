//! How a device chooses tokens itself.

/// How a device chooses the token of a row that comes next.
///
/// [Example](crate::device#example).
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Choosing {
    /// The token with the largest logit, of equal ones the lowest.
    Largest,
    /// One that is drawn.
    Drawn(Draws),
}

/// Tokens that are drawn, by the integer masses that the documentation of `gleed::sample` defines. There are no
/// penalties.
///
/// [Example](crate::device#example).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Draws {
    /// Above 0.
    pub temperature: f32,
    /// 0 for all.
    pub top_k: usize,
    /// From 0 to 1; 1 for all.
    pub top_p: f32,
    /// From 0 to 1; 0 for all.
    pub min_p: f32,
    /// The state of the generator before the first token. Each token takes one number of it.
    pub state: u64,
}
