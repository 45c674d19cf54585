//! Reads characters one byte at a time, from plain UTF-8 or from a string of JSON.
//!
//! The part of a character that was read so far is one word. The characters that it can still become are a range. So
//! after each byte it is known whether one of them has an edge in an automaton.

use super::class::LAST;
use super::dfa::QUOTE;

/// The part of a character that was read so far, or 0 for none. Bits 28 to 31 are its kind.
pub(super) type Partial = u32;

// Kinds of partial characters.
/// UTF-8. Bits 24 to 25: number of bytes to come. Bits 26 to 27: number of all bytes of the character, less 1. Below:
/// the value so far.
const UTF8: u32 = 1;
/// A backslash.
const ESCAPE: u32 = 2;
/// `\u` and some digits. Bits 16 to 18: number of digits. Below: their value.
const UNIT: u32 = 3;
/// A high surrogate. Bits 16 to 25: its 10 bits. Bit 26: a backslash follows it.
const HIGH: u32 = 4;
/// A high surrogate, whose 10 bits are bits 16 to 25, then `\u` and some digits. Bits 12 to 14: number of digits.
/// Below: their value.
const LOW: u32 = 5;

/// The codec of plain text.
pub(super) const RAW: u32 = 0;
/// The codec of strings without `\u`.
pub(super) const SHORT: u32 = 1;
/// The codec of strings with `\u00xx` of control characters only.
const CONTROL: u32 = 2;

/// The result of one more byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Read {
    /// No character has these bytes.
    Wrong,
    /// The part can become any character of a range: the first, the last.
    Range(Partial, u32, u32),
    /// The part can become one of a few characters, or any character of a range: the first, the last.
    Escape(Partial, &'static [u32], u32, u32),
    /// As [`Read::Range`], but the part can also become any character above U+FFFF.
    RangeOrHigh(Partial, u32, u32),
    /// A complete character.
    Char(u32),
}

/// The characters with short escapes.
const ESCAPED: &[u32] = &[0x22, 0x5C, 8, 12, 10, 13, 9];

/// Reads one more byte.
#[inline]
pub(super) fn read(codec: u32, partial: Partial, byte: u8) -> Read {
    if partial != 0 {
        return proceed(codec, partial, byte);
    }
    match byte {
        0x80.. => lead(byte),
        _ if codec == RAW => Read::Char(u32::from(byte)),
        b'"' => Read::Char(QUOTE),
        b'\\' => match codec {
            SHORT => Read::Escape(ESCAPE << 28, ESCAPED, 1, 0),
            CONTROL => Read::Escape(ESCAPE << 28, &[0x22, 0x5C, 0x7F], 0, 0x1F),
            _ => Read::Range(ESCAPE << 28, 0, LAST),
        },
        0..0x20 | 0x7F => Read::Wrong,
        _ => Read::Char(u32::from(byte)),
    }
}

/// Returns whether a word is a possible part of a character in a codec.
pub(super) fn is_partial(codec: u32, partial: Partial) -> bool {
    let again = match partial >> 28 {
        0 => return partial == 0,
        UTF8 => {
            let (length, left) = (partial >> 26 & 3, partial >> 24 & 3);
            // The first byte has fewer bits of the value where more bytes follow.
            if left == 0 || left > length || (partial & 0xFF_FFFF) >> (6 - length + 6 * (length - left)) != 0 {
                return false;
            }
            utf8(length, left, partial & 0xFF_FFFF)
        }
        _ if codec == RAW => return false,
        ESCAPE => return partial == ESCAPE << 28,
        _ if codec == SHORT => return false,
        UNIT => {
            let (count, value) = (partial >> 16 & 7, partial & 0xFFFF);
            if count > 3 || value >> (4 * count) != 0 {
                return false;
            }
            unit(codec, count, value)
        }
        HIGH | LOW if codec == CONTROL => return false,
        HIGH => return partial & 0xF800_FFFF == HIGH << 28,
        LOW if partial >> 12 & 7 < 4 && partial & 0x0C00_8000 == 0 => {
            pair(partial, partial >> 16 & 0x3FF, partial >> 12 & 7, partial & 0xFFF)
        }
        _ => return false,
    };
    match again {
        Read::Range(same, ..) | Read::RangeOrHigh(same, ..) | Read::Escape(same, ..) => same == partial,
        Read::Wrong | Read::Char(_) => false,
    }
}

/// Returns the first and the last character that a part in UTF-8 can become. `None` for any other part.
pub(super) fn chars(partial: Partial) -> Option<(u32, u32)> {
    let (length, left) = (partial >> 26 & 3, partial >> 24 & 3);
    match utf8(length, left, partial & 0xFF_FFFF) {
        Read::Range(_, low, high) if partial >> 28 == UTF8 => Some((low, high)),
        _ => None,
    }
}

/// Ranges of bytes below 0x80 that are read alike at the start of a character, in strings of JSON.
const RUNS: [[u8; 2]; 4] = [[0, 0x1F], [0x20, 0x21], [0x23, 0x5B], [0x5D, 0x7E]];
/// Ranges of bytes from 0x80 on: those with which no character begins, and those that any continuation bytes complete
/// to a character.
const LEADS: [[u8; 2]; 6] = [[0x80, 0xC1], [0xC2, 0xDF], [0xE1, 0xEC], [0xEE, 0xEF], [0xF1, 0xF3], [0xF5, 0xFF]];

/// Returns the first and the last byte of a range around `byte` whose bytes all do the same behind a part of a
/// character. For a range of characters, `around` returns the wider range that the automaton treats alike, or `None` if
/// the automaton does not treat the given characters alike.
pub(super) fn alike(codec: u32, partial: Partial, byte: u8, around: impl Fn([u32; 2]) -> Option<[u32; 2]>) -> [u8; 2] {
    let run_of = |runs: &[[u8; 2]]| runs.iter().copied().find(|[first, last]| (*first..=*last).contains(&byte));
    let run = match (partial >> 28, byte) {
        (0, 0..0x80) if codec == RAW => Some([0, 0x7F]),
        (0, 0..0x80) => run_of(&RUNS),
        (0, _) => run_of(&LEADS),
        (UTF8, _) => run_of(&[[0, 0x7F], [0x80, 0xBF], [0xC0, 0xFF]]),
        _ => None,
    };
    let Some([first, last]) = run else { return [byte; 2] };
    let (low, high) = match read(codec, partial, byte) {
        Read::Wrong if partial != 0 && (0x80..0xC0).contains(&byte) => return [byte; 2],
        Read::Wrong => return [first, last],
        Read::Char(char) => (char, char),
        Read::Range(_, low, high) => (low, high),
        Read::Escape(..) | Read::RangeOrHigh(..) => return [byte; 2],
    };
    let Some([from, to]) = around([low, high]) else { return [byte; 2] };
    let (from, to) = match chars(partial) {
        // The part can become only these characters.
        Some((first, last)) => (from.max(first), to.min(last)),
        None => (from, to),
    };
    // The range has no surrogates.
    let (from, to) = if low < 0xD800 { (from, to.min(0xD7FF)) } else { (from.max(0xE000), to) };
    let chars = high.saturating_sub(low).saturating_add(1);
    let bytes = |chars_between: u32| chars_between.checked_div(chars).and_then(|bytes| u8::try_from(bytes).ok());
    let [below, above] =
        [low.saturating_sub(from), to.saturating_sub(high)].map(|chars| bytes(chars).unwrap_or(u8::MAX));
    [first.max(byte.saturating_sub(below)), last.min(byte.saturating_add(above))]
}

/// Returns the least part of a character behind which the same bytes do the same as behind this one. The automaton
/// treats all characters alike from `first` to those that this part can become.
pub(super) fn least_alike(partial: Partial, first: u32) -> Partial {
    let (length, left) = (partial >> 26 & 3, partial >> 24 & 3);
    let bits = 6 * left;
    let least = match length {
        1 => 0x80,
        2 => 0x800,
        _ => 0x1_0000,
    };
    let of = |value: u32| match utf8(length, left, value) {
        Read::Range(partial, low, high) if low == value << bits && high - low == (1 << bits) - 1 => Some(partial),
        _ => None,
    };
    // Where surrogates are in the range, not all continuation bytes make a character.
    let is_whole = |value: u32| !(0xD800..0xE000).contains(&(value << bits | ((1 << bits) - 1)));
    let value = first.max(least).saturating_add((1 << bits) - 1) >> bits;
    let found = of(value).filter(|_| is_whole(value) && of(partial & 0xFF_FFFF) == Some(partial));
    found.filter(|_| is_whole(partial & 0xFF_FFFF)).unwrap_or(partial)
}

/// Returns the fewest bytes that complete a part to a character from `low` to `high`. `None` if no bytes do.
pub(super) fn least_bytes(codec: u32, partial: Partial, low: u32, high: u32) -> Option<u32> {
    let meets = |(first, last): (u32, u32)| first.max(low) <= last.min(high);
    let within =
        |ranges: &[((u32, u32), u32)]| ranges.iter().filter(|(range, _)| meets(*range)).map(|(_, bytes)| *bytes).min();
    let behind_escape = |short: u32, unit: u32| {
        let short = ESCAPED.iter().any(|char| meets((*char, *char))).then_some(short);
        short.or_else(|| least_of_unit(codec, (0, 0), &meets).map(|digits| digits + unit))
    };
    match partial >> 28 {
        UTF8 => chars(partial).filter(|range| meets(*range)).map(|_| partial >> 24 & 3),
        ESCAPE => behind_escape(1, 1),
        UNIT => least_of_unit(codec, (partial >> 16 & 7, partial & 0xFFFF), &meets),
        HIGH => of_pair(partial >> 16 & 0x3FF, 0, 0)
            .filter(|range| meets(*range))
            .map(|_| if partial & 1 << 26 == 0 { 6 } else { 5 }),
        LOW => {
            let digits = partial >> 12 & 7;
            let range = of_pair(partial >> 16 & 0x3FF, digits, partial & 0xFFF);
            range.filter(|range| meets(*range)).map(|_| 4_u32.saturating_sub(digits))
        }
        _ if codec == RAW => within(&[((0, 0x7F), 1), ((0x80, 0x7FF), 2), ((0x800, 0xFFFF), 3), ((0x1_0000, LAST), 4)]),
        _ => {
            let plain = [
                ((QUOTE, QUOTE), 1),
                ((0x20, 0x21), 1),
                ((0x23, 0x5B), 1),
                ((0x5D, 0x7E), 1),
                ((0x80, 0x7FF), 2),
                ((0x800, 0xFFFF), 3),
                ((0x1_0000, LAST), 4),
            ];
            within(&plain).into_iter().chain(behind_escape(2, 2)).min()
        }
    }
}

/// Returns the fewest bytes that complete `\u` and `count` digits of a value to a wanted character. `meets` says
/// whether a range of characters has a wanted one.
fn least_of_unit(codec: u32, (count, value): (u32, u32), meets: &impl Fn((u32, u32)) -> bool) -> Option<u32> {
    let left = 4_u32.saturating_sub(count);
    let (first, last) = (value << (4 * left), (value << (4 * left)) | ((1 << (4 * left)) - 1));
    // An empty range, whose end is before its start, meets no character.
    let meets_some = |from: u32, to: u32| meets((first.max(from), last.min(to)));
    match codec {
        SHORT => return None,
        CONTROL => return (meets_some(0, 0x1F) || meets_some(0x7F, 0x7F)).then_some(left),
        _ if meets_some(0, 0xD7FF) || meets_some(0xE000, 0xFFFF) => return Some(left),
        _ => {}
    }
    // A high surrogate, behind which a low one comes.
    let (from, to) = (first.max(0xD800), last.min(0xDBFF));
    let has_pair = from <= to && meets((above(from - 0xD800), above(to - 0xD800) | 0x3FF));
    has_pair.then_some(left + 6)
}

/// Returns the first character with a high surrogate of these 10 bits.
fn above(high: u32) -> u32 {
    0x1_0000 + (high << 10)
}

/// Returns the first and the last character that a high surrogate and `count` digits of the low one can become.
fn of_pair(high: u32, count: u32, value: u32) -> Option<(u32, u32)> {
    match pair(0, high, count, value) {
        Read::Range(_, low, last) => Some((low, last)),
        _ => None,
    }
}

fn lead(byte: u8) -> Read {
    let (length, value) = match byte {
        0xC2..0xE0 => (1, byte & 0x1F),
        0xE0..0xF0 => (2, byte & 0x0F),
        0xF0..0xF5 => (3, byte & 0x07),
        _ => return Read::Wrong,
    };
    utf8(length, length, u32::from(value))
}

/// Returns the result where `value` was read of a character of `length` + 1 bytes, and `left` bytes are to come.
fn utf8(length: u32, left: u32, value: u32) -> Read {
    let least = match length {
        1 => 0x80,
        2 => 0x800,
        _ => 0x1_0000,
    };
    let bits = 6 * left;
    let (low, high) = (value << bits, (value << bits) | ((1 << bits) - 1));
    let (low, high) = (low.max(least), high.min(LAST));
    if low > high || (low >= 0xD800 && high < 0xE000) {
        return Read::Wrong;
    }
    if left == 0 {
        return Read::Char(value);
    }
    Read::Range(UTF8 << 28 | length << 26 | left << 24 | value, low, high)
}

fn proceed(codec: u32, partial: Partial, byte: u8) -> Read {
    match partial >> 28 {
        UTF8 if byte & 0xC0 != 0x80 => Read::Wrong,
        UTF8 => {
            let (length, left) = (partial >> 26 & 3, partial >> 24 & 3);
            utf8(length, left.saturating_sub(1), (partial & 0xFF_FFFF) << 6 | u32::from(byte & 0x3F))
        }
        ESCAPE => escape(codec, byte),
        UNIT => digit(byte)
            .map_or(Read::Wrong, |digit| unit(codec, (partial >> 16 & 7) + 1, (partial & 0xFFFF) << 4 | digit)),
        HIGH if partial & 1 << 26 == 0 => {
            if byte == b'\\' {
                pair(partial | 1 << 26, partial >> 16 & 0x3FF, 0, 0)
            } else {
                Read::Wrong
            }
        }
        HIGH if byte == b'u' => pair(LOW << 28 | partial & 0x3FF_0000, partial >> 16 & 0x3FF, 0, 0),
        LOW => digit(byte).map_or(Read::Wrong, |digit| {
            let (count, value) = ((partial >> 12 & 7) + 1, (partial & 0xFFF) << 4 | digit);
            let high = partial >> 16 & 0x3FF;
            pair(LOW << 28 | high << 16 | count << 12 | value & 0xFFF, high, count, value)
        }),
        _ => Read::Wrong,
    }
}

fn escape(codec: u32, byte: u8) -> Read {
    let char = match byte {
        b'"' | b'\\' => u32::from(byte),
        b'b' => 8,
        b'f' => 12,
        b'n' => 10,
        b'r' => 13,
        b't' => 9,
        b'u' if codec != SHORT => return unit(codec, 0, 0),
        _ => return Read::Wrong,
    };
    Read::Char(char)
}

fn digit(byte: u8) -> Option<u32> {
    char::from(byte).to_digit(16)
}

/// Returns the result where `count` digits were read behind `\u`.
fn unit(codec: u32, count: u32, value: u32) -> Read {
    let bits = 16_u32.saturating_sub(4 * count);
    let (low, high) = (value << bits, (value << bits) | ((1 << bits) - 1));
    let partial = UNIT << 28 | count << 16 | value;
    if codec == CONTROL {
        let delete: &[u32] = if (low..=high).contains(&0x7F) { &[0x7F] } else { &[] };
        if low > 0x1F && delete.is_empty() {
            return Read::Wrong;
        }
        return match count {
            4 => Read::Char(value),
            _ => Read::Escape(partial, delete, low, high.min(0x1F)),
        };
    }
    match (low, high) {
        (0xDC00..0xE000, 0xDC00..0xE000) => Read::Wrong,
        (0xD800..0xDC00, 0xD800..0xDC00) if count == 4 => {
            let high = value - 0xD800;
            pair(HIGH << 28 | high << 16, high, 0, 0)
        }
        (0xD800..0xDC00, 0xD800..0xDC00) => {
            Read::Range(partial, 0x1_0000 + ((low - 0xD800) << 10), 0x1_0000 + ((high - 0xD800) << 10 | 0x3FF))
        }
        _ if count == 4 => Read::Char(value),
        // The range has all high surrogates, with which characters above U+FFFF begin.
        (0xD000, 0xDFFF) => Read::RangeOrHigh(partial, low, 0xD7FF),
        (0, 0xFFFF) => Read::Range(partial, 0, LAST),
        _ => Read::Range(partial, low, high),
    }
}

/// Returns the result where a high surrogate and `count` digits of the low one were read.
fn pair(partial: Partial, high: u32, count: u32, value: u32) -> Read {
    let first = above(high);
    let bits = 16_u32.saturating_sub(4 * count);
    let (low, last) = (value << bits, (value << bits) | ((1 << bits) - 1));
    let (low, last) = (low.max(0xDC00), last.min(0xDFFF));
    if low > last {
        return Read::Wrong;
    }
    let (low, last) = (first + (low - 0xDC00), first + (last - 0xDC00));
    if count == 4 { Read::Char(low) } else { Read::Range(partial, low, last) }
}
