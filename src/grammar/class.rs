//! Sets of characters: sorted lists of ranges.

use super::scratch::{Result, Scratch};

/// The last code point.
pub(super) const LAST: u32 = 0x10_FFFF;

// The fields of a range.
const LOW: u32 = 0;
const HIGH: u32 = 1;
const NEXT: u32 = 2;

/// A set of characters: its first range, or 0.
pub(super) type Class = u32;

/// ASCII digits.
pub(super) const DIGIT: &[(u32, u32)] = &[(0x30, 0x39)];
/// ASCII letters, digits and the low line.
pub(super) const WORD: &[(u32, u32)] = &[(0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)];
/// The property White_Space of Unicode.
pub(super) const SPACE: &[(u32, u32)] = &[
    (0x09, 0x0D),
    (0x20, 0x20),
    (0x85, 0x85),
    (0xA0, 0xA0),
    (0x1680, 0x1680),
    (0x2000, 0x200A),
    (0x2028, 0x2029),
    (0x202F, 0x202F),
    (0x205F, 0x205F),
    (0x3000, 0x3000),
];
/// The characters that a string of JSON can have without `\u`.
pub(super) const ESCAPABLE: &[(u32, u32)] = &[(8, 10), (12, 13), (0x20, 0x7E), (0x80, 0xD7FF), (0xE000, LAST)];
/// Every character.
pub(super) const ANY: &[(u32, u32)] = &[(0, 0xD7FF), (0xE000, LAST)];

/// Returns the set of these ranges.
pub(super) fn of(scratch: &mut Scratch<'_>, ranges: &[(u32, u32)]) -> Result<Class> {
    ranges.iter().try_fold(0, |class, range| add(scratch, class, range.0, range.1))
}

/// Returns the set with one more range.
pub(super) fn add(scratch: &mut Scratch<'_>, class: Class, low: u32, high: u32) -> Result<Class> {
    let (mut low, mut high, mut before, mut after) = (low, high, 0, class);
    while after != 0 && scratch.get(after, HIGH).saturating_add(1) < low {
        before = after;
        after = scratch.get(after, NEXT);
    }
    while after != 0 && scratch.get(after, LOW) <= high.saturating_add(1) {
        low = low.min(scratch.get(after, LOW));
        high = high.max(scratch.get(after, HIGH));
        after = scratch.get(after, NEXT);
    }
    let range = scratch.record([low, high, after])?;
    if before == 0 {
        return Ok(range);
    }
    scratch.set(before, NEXT, range);
    Ok(class)
}

/// Returns all characters that are not in the set.
pub(super) fn negated(scratch: &mut Scratch<'_>, class: Class) -> Result<Class> {
    let (mut result, mut low, mut range) = (0, 0, class);
    while low <= LAST {
        let high = if range == 0 { LAST + 1 } else { scratch.get(range, LOW) };
        for &(first, last) in ANY {
            let (from, to) = (low.max(first), high.saturating_sub(1).min(last));
            if high > 0 && from <= to {
                result = add(scratch, result, from, to)?;
            }
        }
        if range == 0 {
            break;
        }
        low = scratch.get(range, HIGH).saturating_add(1);
        range = scratch.get(range, NEXT);
    }
    Ok(result)
}

/// Returns the set with the other case of each ASCII letter in it.
pub(super) fn both_cases(scratch: &mut Scratch<'_>, class: Class) -> Result<Class> {
    let mut result = of_class(scratch, class)?;
    let mut range = class;
    while range != 0 {
        for (first, other) in [(0x41, 0x61), (0x61, 0x41)] {
            let low = scratch.get(range, LOW).max(first);
            let high = scratch.get(range, HIGH).min(first + 25);
            if low <= high {
                result = add(scratch, result, low - first + other, high - first + other)?;
            }
        }
        range = scratch.get(range, NEXT);
    }
    Ok(result)
}

/// Returns a copy of the set.
fn of_class(scratch: &mut Scratch<'_>, class: Class) -> Result<Class> {
    let (mut result, mut range) = (0, class);
    while let Some((low, high, next)) = range_of(scratch, range) {
        result = add(scratch, result, low, high)?;
        range = next;
    }
    Ok(result)
}

/// Returns the bounds of a range, and the next range.
pub(super) fn range_of(scratch: &Scratch<'_>, range: Class) -> Option<(u32, u32, Class)> {
    (range != 0).then(|| (scratch.get(range, LOW), scratch.get(range, HIGH), scratch.get(range, NEXT)))
}
