//! TQ1_0: 256 elements in 54 bytes, five ternary digits to a byte.
//!
//! | bytes | what |
//! |---|---|
//! | 0..32 | digit n of byte m is element 32 n + m, n below 5 |
//! | 32..48 | digit n of byte 32 + m is element 160 + 16 n + m, n below 5 |
//! | 48..52 | digit n of byte 48 + m is element 240 + 4 n + m, n below 4 |
//! | 52..54 | scale d, f16 |
//!
//! A byte b is a fraction b / 256 in base 3: digit n is the integer part of 3 * (b * 3^n mod 256) / 256. Element: d *
//! (digit - 1).

use bytemuck::AnyBitPattern;

use super::block::{Layout256, SuperBlock, each, f16};

#[derive(Clone, Copy, AnyBitPattern)]
#[repr(C)]
pub(crate) struct Block {
    first: [u8; 32],
    second: [u8; 16],
    third: [u8; 4],
    scale: [u8; 2],
}

impl Layout256<8> for Block {
    #[inline(always)]
    fn unpack(&self) -> SuperBlock<8> {
        let mut codes = [0; 256];
        // 16 digits are computed at a time. Compilers make no vectors of single digits.
        let mut places = codes.as_chunks_mut::<16>().0.iter_mut();
        let mut put = |digits: [i8; 16]| places.next().map_or((), |place| *place = digits);
        for power in POWERS {
            for bytes in self.first.as_chunks::<16>().0 {
                put(each(bytes, |byte| digit(byte, power)));
            }
        }
        for power in POWERS {
            put(each(&self.second, |byte| digit(byte, power)));
        }
        let [a, b, c, d, _] = POWERS;
        let third = [a, b, c, d].map(|power| each(&self.third, |byte| digit(byte, power)));
        put(bytemuck::must_cast(third));
        SuperBlock { scale: f16(self.scale), sub_scales: [1; 8], mins: None, codes }
    }
}

/// Factors that make digit n of a byte its first digit.
const POWERS: [u8; 5] = [1, 3, 9, 27, 81];

/// Returns the digit that multiplication by `power`, a power of three, makes the first one, less 1.
#[inline(always)]
fn digit(byte: u8, power: u8) -> i8 {
    ((u16::from(byte.wrapping_mul(power)) * 3) >> 8) as i8 - 1
}
