//! Rules that cut out the special pieces of Chameleon's tokenizer before GPT-2's rule.

use super::scan::{isolated, optional, run};
use crate::token::class::Set;

/// `<sentinel:[0-9]+>`
pub(in crate::token) fn sentinels(text: &str) -> usize {
    isolated(text, |text| {
        let Some(rest) = text.strip_prefix("<sentinel:") else { return 0 };
        let digits = run(rest, |c| c.is_ascii_digit());
        let is_closed = digits > 0 && rest.as_bytes().get(digits) == Some(&b'>');
        if is_closed { text.len() - rest.len() + digits + 1 } else { 0 }
    })
}

/// `IMGIMG[A-I]{1,4}Z`
pub(in crate::token) fn image_tokens(text: &str) -> usize {
    isolated(text, |text| {
        let Some(rest) = text.strip_prefix("IMGIMG") else { return 0 };
        // Up to five letters are read, one more than allowed, to recognize names with too many.
        let letters = rest.bytes().take(5).take_while(|byte| matches!(byte, b'A'..=b'I')).count();
        let is_closed = matches!(letters, 1..=4) && rest.as_bytes().get(letters) == Some(&b'Z');
        if is_closed { text.len() - rest.len() + letters + 1 } else { 0 }
    })
}

/// `[\t\n]|    |  `
pub(in crate::token) fn tabs_and_blanks(text: &str) -> usize {
    isolated(text, |text| match text.as_bytes() {
        [b'\t' | b'\n', ..] => 1,
        [b' ', b' ', b' ', b' ', ..] => 4,
        [b' ', b' ', ..] => 2,
        _ => 0,
    })
}

/// `[\p{P}!-/:-@\[-`{-~]`
pub(in crate::token) fn each_sign(text: &str) -> usize {
    isolated(text, |text| optional(text, |c| Set::PUNCTUATION.has(c) || c.is_ascii_punctuation()).0)
}
