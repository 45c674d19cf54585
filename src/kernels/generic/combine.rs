//! What becomes of the outputs of a linear layer.

use super::lanes::{LANES, Lanes};
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
pub(in crate::kernels) fn combine<V: Lanes>(how: Combine, y: &mut [f32], outputs: &[f32]) {
    match how {
        Combine::Set => y.iter_mut().zip(outputs).for_each(|(y, &output)| *y = output),
        Combine::Add => y.iter_mut().zip(outputs).for_each(|(y, &output)| *y += output),
        Combine::Gate => gate::<V>(y, outputs),
    }
}

#[inline(always)]
fn gate<V: Lanes>(y: &mut [f32], outputs: &[f32]) {
    let ((y, y_tail), (outputs, outputs_tail)) = (y.as_chunks_mut::<LANES>(), outputs.as_chunks::<LANES>());
    for (y, output) in y.iter_mut().zip(outputs) {
        // SAFETY: arrays of 16.
        let (x, output) = unsafe { (V::load(y.as_ptr()), V::load(output.as_ptr())) };
        // silu, as in crate::num.
        let activated = x.div(V::splat(1.0).add(x.negate().exp()));
        // SAFETY: an array of 16.
        unsafe { activated.mul(output).store(y.as_mut_ptr()) };
    }
    for (y, &output) in y_tail.iter_mut().zip(outputs_tail) {
        *y = silu(*y) * output;
    }
}
