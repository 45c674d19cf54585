//! Numbers as Python reads and writes them.

use std::format;
use std::string::String;

use minijinja::value::{Rest, ValueKind, ValueOrKwargs};
use minijinja::{Error, ErrorKind, Value};

use super::guard::refused;
use super::methods::given;
use super::text::is_space;

/// The most numbers of one `range`, as in the sandbox of Jinja.
const MAX_RANGE: i128 = 100_000;

/// Returns `repr(number)`: the shortest digits that give this number, with an exponent where Python writes one.
pub(super) fn repr(number: f64) -> String {
    if !number.is_finite() {
        return String::from(if number.is_nan() {
            "nan"
        } else if number > 0.0 {
            "inf"
        } else {
            "-inf"
        });
    }
    let text = format!("{number:e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if !(-4..16).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{digits}e{sign}{:02}", exponent.unsigned_abs());
    }
    let text = format!("{number}");
    if text.contains('.') { text } else { text + ".0" }
}

/// The filter `int`. A value that is not a number becomes `default`.
pub(super) fn int(args: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    let [value, default, base] = given(&args.into_values(), ["value", "default", "base"])?;
    let number = match value.kind() {
        ValueKind::Undefined => return Err(ErrorKind::UndefinedError.into()),
        ValueKind::Bool => Some(i128::from(value.is_true())),
        ValueKind::Number if value.is_integer() => return Ok(value),
        ValueKind::Number => f64::try_from(value).ok().map_or(Ok(None), whole)?,
        _ => match value.as_str() {
            None => None,
            Some(text) => {
                let base =
                    if base.is_undefined() { Some(10) } else { base.as_i64().and_then(|b| u32::try_from(b).ok()) };
                match base.and_then(|base| read_int(text, base)) {
                    Some(number) => Some(number),
                    // As in Python's Jinja, 42.7 in a text becomes 42.
                    None => read_float(text).map_or(Ok(None), whole)?,
                }
            }
        },
    };
    Ok(match number {
        Some(number) => i64::try_from(number).map_or_else(|_| Value::from(number), Value::from),
        None if default.is_undefined() => Value::from(0),
        None => default,
    })
}

/// The filter `float`. A value that is not a number becomes `default`.
pub(super) fn float(args: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    let [value, default] = given(&args.into_values(), ["value", "default"])?;
    let number = match value.kind() {
        ValueKind::Undefined => return Err(ErrorKind::UndefinedError.into()),
        ValueKind::Bool => Some(f64::from(u8::from(value.is_true()))),
        ValueKind::Number => f64::try_from(value).ok(),
        _ => value.as_str().and_then(read_float),
    };
    Ok(match number {
        Some(number) => Value::from(number),
        None if default.is_undefined() => Value::from(0.0),
        None => default,
    })
}

/// The function `range`. The engine's own `range` overflows near the ends of its integers.
pub(super) fn range(args: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    let [first, second, step] = given(&args.into_values(), ["start", "stop", "step"])?;
    let integer = |value: &Value| match value.as_i64() {
        Some(number) if value.is_integer() || value.kind() == ValueKind::Bool => Ok(number),
        _ => Err(refused(format!("range() of a value of type {}", value.kind()))),
    };
    let (start, stop) = match second.is_undefined() {
        true => (0, integer(&first)?),
        false => (integer(&first)?, integer(&second)?),
    };
    let step = if step.is_undefined() { 1 } else { integer(&step)? };
    // In 128 bits no operation here overflows.
    let [start, stop, step] = [start, stop, step].map(i128::from);
    let count = match step {
        0 => return Err(refused(String::from("range() with a step of 0"))),
        1.. => (stop - start + step - 1) / step,
        _ => (start - stop - step - 1) / -step,
    };
    if count > MAX_RANGE {
        return Err(refused(format!("range() of {count} numbers, and at most {MAX_RANGE} are allowed")));
    }
    let count = i64::try_from(count).unwrap_or(0).max(0);
    let (start, step) = (start as i64, step as i64);
    // Each number lies between the ends, so the result is right even if an intermediate result wraps.
    let number = move |at: i64| Value::from(start.wrapping_add(at.wrapping_mul(step)));
    Ok(Value::make_iterable(move || (0..count as usize).map(move |at| number(at as i64))))
}

/// The test `divisibleby`. With 0, the engine's own test stops the program.
pub(super) fn is_divisible(value: Value, by: Value) -> Result<bool, Error> {
    let is_integer = |value: &Value| value.is_integer() || value.kind() == ValueKind::Bool;
    if is_integer(&value) && is_integer(&by) {
        let rest = i128::try_from(value)?.checked_rem_euclid(i128::try_from(by.clone())?);
        // The least integer is divisible by -1, although the quotient does not fit.
        return match rest {
            Some(rest) => Ok(rest == 0),
            None if by.is_true() => Ok(true),
            None => Err(refused(String::from("division by zero"))),
        };
    }
    match (f64::try_from(value), f64::try_from(by)) {
        (Ok(_), Ok(0.0)) => Err(refused(String::from("division by zero"))),
        (Ok(value), Ok(by)) => Ok(value % by == 0.0),
        _ => Ok(false),
    }
}

/// Returns a number without its fraction, or `None` if it is not finite.
fn whole(number: f64) -> Result<Option<i128>, Error> {
    // The range of `i128` ends below 1.8e38, and Python's integers have no such limit.
    match number.abs() < 1.7e38 {
        true => Ok(Some(number as i128)),
        false if number.is_finite() => Err(refused(String::from("an integer of more than 38 digits"))),
        false => Ok(None),
    }
}

/// Returns `int(text, base)`, or `None` if the text is not an integer.
fn read_int(text: &str, base: u32) -> Option<i128> {
    let (sign, digits) = signed(text);
    let digits = match (base, digits.get(..2)) {
        (2, Some("0b" | "0B")) | (8, Some("0o" | "0O")) | (16, Some("0x" | "0X")) => digits.get(2..)?,
        _ => digits,
    };
    let is_number = (2..=36).contains(&base) && digits.starts_with(|c: char| c.is_ascii_alphanumeric());
    is_number.then(|| i128::from_str_radix(&format!("{sign}{}", plain(digits)?), base).ok()).flatten()
}

/// Returns `float(text)`, or `None` if the text is not a number.
fn read_float(text: &str) -> Option<f64> {
    let (sign, digits) = signed(text);
    let is_number = digits.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '.');
    is_number.then(|| format!("{sign}{}", plain(digits)?).parse().ok()).flatten()
}

/// Returns the sign, and the text after it.
fn signed(text: &str) -> (&str, &str) {
    let text = text.trim_matches(is_space);
    match text.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", text.strip_prefix('+').unwrap_or(text)),
    }
}

/// Returns digits without the underscores that Python allows between them.
fn plain(digits: &str) -> Option<String> {
    let is_digit = |c: char| c.is_ascii_alphanumeric();
    let mut parts = digits.split('_');
    let are_digits = !digits.contains('_') || parts.all(|part| part.starts_with(is_digit) && part.ends_with(is_digit));
    are_digits.then(|| digits.replace('_', ""))
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;

    #[test]
    fn floats_are_written_as_in_python() {
        let cases = [
            (1e16, "1e+16"),
            (1.5e16, "1.5e+16"),
            (9_999_999_999_999_998.0, "9999999999999998.0"),
            (1e-5, "1e-05"),
            (0.0001, "0.0001"),
            (-1.25e-7, "-1.25e-07"),
            (1e300, "1e+300"),
            (5e-324, "5e-324"),
            (0.1, "0.1"),
            (-0.0, "-0.0"),
            (1e15, "1000000000000000.0"),
            (f64::NAN, "nan"),
            (f64::NEG_INFINITY, "-inf"),
        ];
        for (number, expected) in cases {
            assert_eq!(repr(number), expected);
        }
    }

    #[test]
    fn numbers_are_read_as_in_python() {
        assert_eq!(read_int(" \u{1c}-1_0\n", 10), Some(-10));
        assert_eq!(read_int("0xfF", 16), Some(255));
        assert_eq!(read_int("-z", 36), Some(-35));
        for (text, base) in [("", 10), ("+-1", 10), ("_1", 10), ("1_", 10), ("1__0", 10), ("0x1", 10), ("1", 99)] {
            assert_eq!(read_int(text, base), None, "{text}");
        }
        assert_eq!(read_float(" +1_0.5e1 "), Some(105.0));
        assert_eq!(read_float("-.5"), Some(-0.5));
        assert_eq!(read_float("++1"), None);
        assert_eq!(read_float("1_.5"), None);
    }

    #[test]
    fn ranges_do_not_overflow() {
        let of = |args: &[i64]| {
            let args: Vec<ValueOrKwargs> = args.iter().map(|&arg| ValueOrKwargs::from(Value::from(arg))).collect();
            range(Rest(args))
                .ok()
                .map(|range| range.try_iter().unwrap().map(|n| n.as_i64().unwrap()).collect::<Vec<_>>())
        };
        assert_eq!(of(&[3]), Some([0, 1, 2].into()));
        assert_eq!(of(&[5, 0, -2]), Some([5, 3, 1].into()));
        assert_eq!(of(&[0, 5, 3]), Some([0, 3].into()));
        assert_eq!(of(&[0, 6, 3]), Some([0, 3].into()));
        assert_eq!(of(&[3, 3]), Some([].into()));
        assert_eq!(of(&[i64::MIN, i64::MAX, -1]), Some([].into()));
        assert_eq!(of(&[i64::MAX, i64::MIN, i64::MIN]), Some([i64::MAX, -1].into()));
        assert_eq!(of(&[i64::MIN, i64::MAX, i64::MAX]), Some([i64::MIN, -1, i64::MAX - 1].into()));
        assert_eq!(of(&[i64::MIN, i64::MAX]), None);
        assert_eq!(of(&[1, 2, 0]), None);
    }

    #[test]
    fn nothing_is_divided_by_zero() {
        let is = |value, by| is_divisible(Value::from(value), Value::from(by));
        assert_eq!((is(6, 3).ok(), is(7, 3).ok(), is(-6, 3).ok()), (Some(true), Some(false), Some(true)));
        assert!(is(1, 0).is_err());
        assert_eq!(is_divisible(Value::from(i128::MIN), Value::from(-1)).ok(), Some(true));
        assert!(is_divisible(Value::from(1.5), Value::from(0.0)).is_err());
    }
}
