//! F32, F16, BF16: IEEE numbers, little-endian, one after the other. They are converted to f32 exactly. Numbers of F32
//! and BF16 are settled then ([`settle`]).

use bytemuck::AnyBitPattern;

use super::activation::{ActivationRow, Form};
use super::block::f16;
use crate::num::{settle, settled_of, sum_lanes};

/// The bytes of one element, with alignment 1.
pub(super) trait Element: AnyBitPattern {
    /// Format of the activations with which elements are multiplied.
    const FORM: Form;

    fn value(self) -> f32;
}

/// IEEE binary32.
#[derive(Clone, Copy, AnyBitPattern)]
#[repr(transparent)]
pub(super) struct F32([u8; 4]);

/// IEEE binary16.
#[derive(Clone, Copy, AnyBitPattern)]
#[repr(transparent)]
pub(super) struct F16([u8; 2]);

/// bfloat16: the upper half of a binary32.
#[derive(Clone, Copy, AnyBitPattern)]
#[repr(transparent)]
pub(super) struct BF16([u8; 2]);

impl Element for F32 {
    const FORM: Form = Form::F32;

    fn value(self) -> f32 {
        settled_of(self.0)
    }
}

impl Element for F16 {
    const FORM: Form = Form::Short;

    fn value(self) -> f32 {
        f16(self.0)
    }
}

impl Element for BF16 {
    const FORM: Form = Form::F32;

    fn value(self) -> f32 {
        settle(half::bf16::from_le_bytes(self.0).to_f32())
    }
}

/// Expands a row. Returns `None` if `row` and `out` have different lengths.
pub(super) fn dequantize<E: Element>(row: &[u8], out: &mut [f32]) -> Option<()> {
    let row: &[E] = bytemuck::try_cast_slice(row).ok()?;
    if row.len() != out.len() {
        return None;
    }
    for (out, w) in out.iter_mut().zip(row) {
        *out = w.value();
    }
    Some(())
}

/// Returns the dot product by the lane rule of [`crate::num::sum_lanes`], or `None` for another form or length of `x`.
pub(super) fn dot<E: Element>(row: &[u8], x: ActivationRow<'_>) -> Option<f32> {
    let ActivationRow::F32(x) = x else {
        return None;
    };
    let row: &[E] = bytemuck::try_cast_slice(row).ok()?;
    if row.len() != x.len() {
        return None;
    }
    Some(sum_lanes(row, x, |w, x| w.value() * x))
}
