//! Rules that cut numbers into groups of three digits, from the right.
//!
//! Where a group ends depends on the end of the number. To read each digit a bounded number of times, one rule cuts out
//! the number, the next one cuts off the digits before its first group of three, and the last one cuts the groups.

use super::alphabets::{is_decimal, is_word};
use super::scan::{at_most, run};
use crate::token::class::Set;

/// `\d+\b`: decimal numbers that no letter follows.
pub(in crate::token) fn bounded_decimals(text: &str) -> usize {
    let mut len = 0;
    loop {
        let rest = text.get(len..).unwrap_or_default();
        let start = run(rest, |c| !is_decimal(c));
        let after = rest.get(start..).unwrap_or_default();
        let number = run(after, is_decimal);
        let is_bounded = !after.get(number..).and_then(|rest| rest.chars().next()).is_some_and(is_word);
        match (len + start, is_bounded) {
            _ if number == 0 => return text.len(),
            (0, true) => return number,
            (start, true) => return start,
            (start, false) => len = start + number,
        }
    }
}

/// Cuts off the first one or two characters of a number whose length is not a multiple of three.
pub(in crate::token) fn uneven_group(text: &str) -> usize {
    uneven(text, |c| Set::NUMBER.has(c))
}

/// [`uneven_group`] for decimal digits only.
pub(in crate::token) fn uneven_decimals(text: &str) -> usize {
    uneven(text, is_decimal)
}

fn uneven(text: &str, is_digit: fn(char) -> bool) -> usize {
    if run(text, is_digit) < text.len() {
        return text.len();
    }
    match text.chars().take(text.chars().count() % 3).map(char::len_utf8).sum() {
        0 => text.len(),
        uneven => uneven,
    }
}

/// Cuts off the first three characters of a number.
pub(in crate::token) fn groups_of_three(text: &str) -> usize {
    match at_most(text, Set::NUMBER, 3) {
        0 => text.len(),
        group => group,
    }
}

/// `(?=(\d{3})+(?!\d))`, but for the cuts within a run of decimal digits. The first piece ends where the first group of
/// three begins. Each other piece reaches from the first group of a run to the first group of another run.
pub(in crate::token) fn thousands(text: &str) -> usize {
    let mut len = 0;
    loop {
        let rest = text.get(len..).unwrap_or_default();
        let others = run(rest, |c| !is_decimal(c));
        let after = rest.get(others..).unwrap_or_default();
        let number = run(after, is_decimal);
        if number == 0 {
            return text.len();
        }
        let count = after.get(..number).map_or(0, |digits| digits.chars().count());
        let uneven: usize = after.chars().take(count % 3).map(char::len_utf8).sum();
        match len + others + uneven {
            // The run at the start of the text has only whole groups. [`thousands_after`] cuts them.
            0 if count >= 3 => len = number,
            start if count >= 3 => return start,
            _ => len += others + number,
        }
    }
}

/// Cuts off the first three digits of a run of decimal digits whose length is a multiple of three, if it has more than
/// three.
pub(in crate::token) fn thousands_after(text: &str) -> usize {
    match text.chars().take_while(|&c| is_decimal(c)).take(6).count() {
        6 => text.chars().take(3).map(char::len_utf8).sum(),
        _ => text.len(),
    }
}
