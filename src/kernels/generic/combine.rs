//! What becomes of the outputs of a linear layer.

use crate::num::silu;

/// How outputs enter the place where they belong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Combine {
    /// `y = output`
    Set,
    /// `y = y + output`
    Add,
    /// `y = silu(y) * output`
    Gate,
}

#[inline(always)]
pub(in crate::kernels) fn combine(how: Combine, y: &mut [f32], outputs: &[f32]) {
    let pairs = y.iter_mut().zip(outputs);
    match how {
        Combine::Set => pairs.for_each(|(y, &output)| *y = output),
        Combine::Add => pairs.for_each(|(y, &output)| *y += output),
        Combine::Gate => pairs.for_each(|(y, &output)| *y = silu(*y) * output),
    }
}
