//! Two formats that only tests have, without kernels, as a new format is before anybody has written a kernel.
//!
//! | bytes of a block | what |
//! |---|---|
//! | 0 | scale d = 2^(e - 64), e the lower 7 bits |
//! | 1..33 | codes q, i8: element i in byte i |
//!
//! Element: d * q.

use bytemuck::AnyBitPattern;

use super::activation::Form;
use super::block::{Block32, Layout32};
use super::float::Element;

#[derive(Clone, Copy, AnyBitPattern)]
#[repr(C)]
pub(crate) struct Block {
    exponent: u8,
    codes: [i8; 32],
}

impl Layout32 for Block {
    fn unpack(&self) -> Block32 {
        let bits = (u32::from(self.exponent & 0x7f) + 63) << 23;
        Block32 { scale: f32::from_bits(bits), min: None, codes: self.codes }
    }
}

/// A number in one byte: the upper byte of an f16.
#[derive(Clone, Copy, AnyBitPattern)]
#[repr(transparent)]
pub(super) struct Float(u8);

impl Element for Float {
    const FORM: Form = Form::F32;

    fn value(self) -> f32 {
        super::block::f16([0, self.0])
    }
}
