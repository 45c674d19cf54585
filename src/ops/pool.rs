//! The vector of a text from its hidden states: their mean or one of them, then the matrices behind the pooling.
//!
//! This is no operation of a program, because the rows of a text can come from several batches.

use super::buffers::{Buffers, between, hidden_of};
use super::context::Context;
use crate::error::Fault;
use crate::kernels::Combine;
use crate::mem::Matrix;
use crate::nn::{InputForms, InputRows};
use crate::num::{all_finite, gelu_erf, is_finite, settle, softmax, tanh};
use crate::weights::{ClassifierForm, Pooler, Pooling, Role};

/// The state of a text's vector while rows are added. Rows are finite, and fewer than 2^32. The sums lie in the
/// engine's memory if a matrix follows, because its result may have another width. Otherwise they lie in the place of
/// the result.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pooled {
    /// Factor of the rows: 1, or [`Self::SMALL`] after a sum did not fit f32.
    factor: f32,
    rows: u32,
}

impl Pooled {
    pub(crate) const EMPTY: Self = Self { factor: 1.0, rows: 0 };

    /// 2^-32, a factor with which 2^32 rows have finite sums.
    const SMALL: f32 = 1.0 / 4_294_967_296.0;

    /// Returns the number of rows that were added.
    pub(crate) fn rows(&self) -> usize {
        self.rows as usize
    }

    fn add(&mut self, row: &[f32], sums: &mut [f32]) {
        if self.rows == 0 {
            sums.fill(0.0);
        }
        if !sums.iter().zip(row).all(|(sum, x)| is_finite(sum + x * self.factor)) {
            sums.iter_mut().for_each(|sum| *sum *= Self::SMALL);
            self.factor = Self::SMALL;
        }
        sums.iter_mut().zip(row).for_each(|(sum, x)| *sum += x * self.factor);
        self.rows = self.rows.saturating_add(1);
    }

    /// Turns the sums into means, settled.
    fn divide(&self, sums: &mut [f32]) {
        let count = self.rows as f32;
        // The mean of numbers near the largest f32 could be rounded up beyond it.
        sums.iter_mut().for_each(|sum| *sum = settle((*sum / count / self.factor).clamp(f32::MIN, f32::MAX)));
    }
}

impl Buffers<'_> {
    /// Adds the final norm of the `index`-th finished row of the last batch to a text's vector.
    pub(crate) fn pool(
        &mut self,
        context: &Context<'_, '_>,
        pooled: &mut Pooled,
        index: usize,
        out: &mut [f32],
    ) -> Option<()> {
        let row = hidden_of(context, self.x, index, self.scratch.data)?;
        let sums = if self.pooled.is_empty() { out } else { self.pooled.get_mut(..context.config.hidden)? };
        pooled.add(row, sums);
        Some(())
    }

    /// Turns the sums into the vector of the text, in `out`.
    pub(crate) fn finish_pooled(
        &mut self,
        context: &Context<'_, '_>,
        pooled: &Pooled,
        pooling: Pooling,
        out: &mut [f32],
    ) -> Result<(), Fault> {
        if self.pooled.is_empty() {
            pooled.divide(out);
            return Ok(());
        }
        let hidden = context.config.hidden;
        let (sums, rest) = self.pooled.split_at_mut_checked(hidden).ok_or(Fault::Internal(site!()))?;
        let between = between(&context.config);
        let (between, words) = rest.split_at_mut_checked(between).ok_or(Fault::Internal(site!()))?;
        let words = bytemuck::must_cast_slice_mut(words);
        pooled.divide(sums);
        let mut head = |role, x: &[f32], y: &mut [f32]| multiply(context, role, x, y, &mut *words, self.scratch.data);
        let Pooler { dense, classifier, classes, probabilities, classifier_form, .. } = context.config.pooler;
        let (sizes, [first, second]) = match pooling {
            Pooling::Rank => ([classifier, classes], [Role::Classifier, Role::Classes]),
            _ => (dense, [Role::Dense2, Role::Dense3]),
        };
        let bend = |x: &mut [f32]| match classifier_form {
            _ if pooling != Pooling::Rank => {}
            ClassifierForm::Tanh => x.iter_mut().for_each(|x| *x = tanh(*x)),
            ClassifierForm::Gelu => {
                x.iter_mut().for_each(|x| *x = gelu_erf(*x));
                if let Some(norm) = context.weights.norm(0, Role::ClassifierNorm) {
                    context.level.norm_in_place(&norm, x);
                }
            }
        };
        match sizes {
            [0, 0] => out.iter_mut().zip(&*sums).for_each(|(out, &sum)| *out = sum),
            [_, 0] => {
                head(first, sums, out)?;
                bend(out);
            }
            [0, _] => head(second, sums, out)?,
            [width, _] => {
                let between = between.get_mut(..width).ok_or(Fault::Internal(site!()))?;
                head(first, sums, between)?;
                bend(between);
                head(second, between, out)?;
            }
        }
        if pooling == Pooling::Rank && probabilities {
            softmax(out);
        }
        if all_finite(out) { Ok(()) } else { Err(Fault::NonFinite) }
    }
}

/// Computes the product of a matrix and `x`, with its bias.
fn multiply(
    context: &Context<'_, '_>,
    role: Role,
    x: &[f32],
    out: &mut [f32],
    words: &mut [u32],
    scratch: &mut [f32],
) -> Result<(), Fault> {
    let linear = context.weights.linear(0, role).ok_or(Fault::Internal(site!()))?;
    let forms = InputForms::of([linear.weights.dtype()]);
    forms.prepare(context.level, x, words)?;
    let inputs = InputRows::new(words, words.len(), x.len(), forms, 1);
    let cols = out.len();
    let tiles = Matrix::new(out, 1, cols).and_then(|matrix| matrix.tiles(1, cols, 0..1));
    let mut tile = tiles.and_then(|tiles| tiles.next()).ok_or(Fault::Internal(site!()))?;
    linear.run(context.level, (&inputs, 0), 0, &mut tile, Combine::Set, scratch).ok_or(Fault::Internal(site!()))
}
