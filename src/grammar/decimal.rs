//! Decimals of a schema: exact, of at most 34 digits.

/// The most digits of a number that is compared.
pub(super) const DIGITS: usize = 34;

/// A number: `digits[..integer]` before the point, the rest behind it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Decimal {
    pub(super) negative: bool,
    digits: [u8; 2 * DIGITS],
    integer: usize,
    length: usize,
}

impl Decimal {
    /// Reads a number of JSON. `None` if it has too many digits.
    pub(super) fn read(text: &[u8]) -> Option<Self> {
        let (negative, text) = match text.strip_prefix(b"-") {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let mantissa = text.split(|byte| matches!(byte, b'e' | b'E')).next()?;
        let exponent = exponent(text.get(mantissa.len()..)?)?;
        let point = mantissa.iter().position(|byte| *byte == b'.').unwrap_or(mantissa.len());
        let all = || mantissa.iter().copied().filter(u8::is_ascii_digit);
        let zeros = all().take_while(|digit| *digit == b'0').count();
        let trailing = mantissa.iter().rev().filter(|byte| **byte != b'.').take_while(|digit| **digit == b'0').count();
        let count = all().count();
        if zeros == count {
            return Some(Self { negative: false, digits: [b'0'; 2 * DIGITS], integer: 1, length: 1 });
        }
        let significant = count.checked_sub(zeros)?.checked_sub(trailing)?;
        // Digits before the point; negative if there are zeros behind it.
        let integer = i64::try_from(point).ok()?.checked_sub(zeros as i64)?.checked_add(exponent)?;
        let fraction = (significant as i64).checked_sub(integer)?;
        if significant > DIGITS || integer > DIGITS as i64 || fraction > DIGITS as i64 {
            return None;
        }
        let before = usize::try_from(1_i64.saturating_sub(integer)).unwrap_or(0);
        let mut digits = [b'0'; 2 * DIGITS];
        let places = digits.get_mut(before..)?;
        places.iter_mut().zip(all().skip(zeros).take(significant)).for_each(|(place, digit)| *place = digit);
        let integer = integer.max(1) as usize;
        let length = integer.checked_add(usize::try_from(fraction).unwrap_or(0))?;
        Some(Self { negative, digits, integer, length })
    }

    /// Returns the digits before the point, without leading zeros.
    pub(super) fn integer(&self) -> &[u8] {
        self.digits.get(..self.integer).unwrap_or(&[])
    }

    /// Returns the digits behind the point, without trailing zeros.
    pub(super) fn fraction(&self) -> &[u8] {
        self.digits.get(self.integer..self.length).unwrap_or(&[])
    }

    pub(super) fn is_zero(&self) -> bool {
        self.integer() == b"0" && self.fraction().is_empty()
    }

    /// Returns the number as a size, at most [`u32::MAX`] - 1. `None` if it is none.
    pub(super) fn size(&self) -> Option<u32> {
        if self.negative || !self.fraction().is_empty() {
            return None;
        }
        let digit = |value: u32, digit: &u8| value.saturating_mul(10).saturating_add(u32::from(digit & 15));
        Some(self.integer().iter().fold(0, digit).min(u32::MAX - 1))
    }

    /// Returns the characters of the shortest decimal of the value.
    pub(super) fn chars(&self) -> impl Iterator<Item = u32> {
        let point = if self.fraction().is_empty() { &b""[..] } else { b"." };
        let sign = if self.negative { &b"-"[..] } else { b"" };
        [sign, self.integer(), point, self.fraction()].into_iter().flatten().map(|byte| u32::from(*byte))
    }
}

/// Reads `e` with sign and digits, or nothing.
fn exponent(text: &[u8]) -> Option<i64> {
    let digits = text.get(1..).unwrap_or(&[]);
    let (negative, digits) = match *digits {
        [b'-', ref rest @ ..] => (true, rest),
        [b'+', ref rest @ ..] => (false, rest),
        _ => (false, digits),
    };
    let value =
        digits.iter().fold(0_i64, |value, digit| value.saturating_mul(10).saturating_add(i64::from(digit & 15)));
    (value < 1 << 32).then_some(if negative { -value } else { value })
}
