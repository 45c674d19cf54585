//! `value[start:stop:step]` by Python's rules. With a negative step, the engine's own slices are wrong or read past the
//! end.

use std::format;
use std::string::String;
use std::vec::Vec;

use minijinja::value::{Tuple, ValueKind};
use minijinja::{Error, ErrorKind, Value};

use super::bounds::MAX_ITEMS;
use super::guard::{at_most, refused};

/// A bound above the number of characters of any text and of items of any list, so larger positions have the same
/// effect.
const MAX_PLACE: i128 = 1 << 32;

/// Returns a slice of a text, by characters, or of a list. Parts that are left out are `None` values.
pub(super) fn slice(value: &Value, start: &Value, stop: &Value, step: &Value) -> Result<Value, Error> {
    let (ends, step) = ((place(start)?, place(stop)?), place(step)?.unwrap_or(1));
    if step == 0 {
        return Err(refused(String::from("a slice's step is 0")));
    }
    if let Some(text) = value.as_str() {
        let part: String = stepped(text.chars(), text.chars().count(), ends, step);
        return Ok(if value.is_safe() { Value::from_safe_string(part) } else { Value::from(part) });
    }
    match value.kind() {
        ValueKind::Seq | ValueKind::Iterable => {
            let items: Vec<Value> = value.try_iter()?.checked().take(MAX_ITEMS + 1).collect::<Result<_, _>>()?;
            let len = items.len();
            at_most("a list", "items", len, MAX_ITEMS)?;
            let part: Vec<Value> = stepped(items.into_iter(), len, ends, step);
            Ok(if value.is_tuple() { Value::from(Tuple::from(part)) } else { Value::from(part) })
        }
        ValueKind::Undefined => Err(ErrorKind::UndefinedError.into()),
        kind => Err(refused(format!("a value of type {kind} cannot be sliced"))),
    }
}

/// Returns an integer, clamped to the possible lengths of texts. `None` if the value is none.
pub(super) fn place(value: &Value) -> Result<Option<i64>, Error> {
    match value.kind() {
        ValueKind::None => Ok(None),
        ValueKind::Bool => Ok(Some(i64::from(value.is_true()))),
        ValueKind::Number if value.is_integer() => {
            let place = i128::try_from(value.clone()).unwrap_or(MAX_PLACE);
            Ok(Some(place.clamp(-MAX_PLACE, MAX_PLACE) as i64))
        }
        kind => Err(refused(format!("a place is an integer or none, and not of type {kind}"))),
    }
}

/// Returns the items that a slice of `len` items takes. The step is not 0.
fn stepped<T, C: FromIterator<T>>(
    items: impl DoubleEndedIterator<Item = T>,
    len: usize,
    (start, stop): (Option<i64>, Option<i64>),
    step: i64,
) -> C {
    let end = i64::try_from(len).unwrap_or(i64::MAX);
    // Both ends lie between the position before the first item and the position after the last one.
    let (low, high) = if step > 0 { (0, end) } else { (-1, end - 1) };
    let within = |place: i64| if place < 0 { place.saturating_add(end).max(low) } else { place.min(high) };
    let (first, last) = if step > 0 { (low, high) } else { (high, low) };
    let (from, to) = (start.map_or(first, within), stop.map_or(last, within));
    let way = if step > 0 { to - from } else { from - to };
    let stride = usize::try_from(step.unsigned_abs()).unwrap_or(usize::MAX);
    let count = usize::try_from(way).unwrap_or(0).div_ceil(stride);
    if step > 0 {
        items.skip(usize::try_from(from).unwrap_or(0)).step_by(stride).take(count).collect()
    } else {
        items.rev().skip(usize::try_from(high - from).unwrap_or(0)).step_by(stride).take(count).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    /// Goes from position to position, as Python's documentation describes it.
    fn reference(text: &str, start: Option<i64>, stop: Option<i64>, step: i64) -> String {
        let letters: Vec<char> = text.chars().collect();
        let len = letters.len() as i64;
        let from_end = |place: i64| if place < 0 { place + len } else { place };
        let mut at = match start.map(from_end) {
            Some(place) if step > 0 => place.max(0),
            Some(place) => place.min(len - 1),
            None if step > 0 => 0,
            None => len - 1,
        };
        let stop = stop.map(from_end);
        let mut out = String::new();
        while (0..len).contains(&at) && stop.is_none_or(|stop| if step > 0 { at < stop } else { at > stop }) {
            out.push(letters[at as usize]);
            at += step;
        }
        out
    }

    #[test]
    fn slices_are_those_of_python() {
        let places: Vec<Option<i64>> = std::iter::once(None).chain((-7..=7).map(Some)).collect();
        let value = |place: Option<i64>| place.map_or(Value::from(()), Value::from);
        let pairs = places.iter().flat_map(|&start| places.iter().map(move |&stop| (start, stop)));
        let all: Vec<_> = pairs.flat_map(|(start, stop)| places.iter().map(move |&step| (start, stop, step))).collect();
        for text in ["", "a", "äb", "aβc", "abcd", "ab😀de"] {
            let list = Value::from(text.chars().map(Value::from).collect::<Vec<_>>());
            for (start, stop, step) in all.iter().copied() {
                let of = |of: &Value| slice(of, &value(start), &value(stop), &value(step));
                if step == Some(0) {
                    assert!(of(&Value::from(text)).is_err() && of(&list).is_err());
                    continue;
                }
                let expected = reference(text, start, stop, step.unwrap_or(1));
                let case = format!("{text:?}[{start:?}:{stop:?}:{step:?}]");
                assert_eq!(of(&Value::from(text)).unwrap().as_str(), Some(expected.as_str()), "{case}");
                let letters: Vec<Value> = expected.chars().map(Value::from).collect();
                assert_eq!(of(&list).unwrap(), Value::from(letters), "{case}");
            }
        }
    }

    #[test]
    fn huge_parts_are_as_good_as_the_ends() {
        let none = Value::from(());
        let (most, least, back) = (Value::from(i128::MAX), Value::from(i128::MIN), Value::from(-1));
        let yes = Value::from(true);
        let of = |start, stop, step| slice(&Value::from("abc"), start, stop, step).unwrap().to_string();
        assert_eq!(of(&least, &most, &none), "abc");
        assert_eq!(of(&most, &least, &back), "cba");
        assert_eq!(of(&none, &none, &most), "a");
        assert_eq!(of(&none, &none, &least), "c");
        assert_eq!(of(&yes, &none, &none), "bc");
        assert!(slice(&Value::from(1), &none, &none, &none).is_err());
        assert!(slice(&Value::from("a"), &Value::from("b"), &none, &none).is_err());
    }
}
