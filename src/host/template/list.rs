//! Lists that a template can append to, as templates of Kimi K2 do.
//!
//! A list that can be changed is made where a template writes out a list and gives it a name, unless a list that can
//! be changed is in it. It cannot be stored in another one. So no list is ever inside of itself, and none grows deeper
//! than the values that are appended.

use std::format;
use std::string::String;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::vec::Vec;

use minijinja::value::{Enumerator, Object, ObjectRepr, ValueKind};
use minijinja::{Error, ErrorKind, State, Value};

use super::bounds::MAX_ITEMS;
use super::guard::{at_most, made, refused, weigh};

/// The methods that change a list.
pub(super) const METHODS: [&str; 3] = ["append", "extend", "pop"];

/// A list that can be changed.
#[derive(Debug)]
pub(super) struct List {
    items: Mutex<Vec<Value>>,
}

impl List {
    /// Returns a list that can be changed with the items of `value`, or `value` itself if that is not possible.
    pub(super) fn of(value: Value) -> Result<Value, Error> {
        if value.kind() != ValueKind::Seq || check(&value).is_err() {
            return Ok(value);
        }
        let items: Vec<Value> = value.try_iter()?.collect();
        Ok(Value::from_object(Self { items: Mutex::new(items) }))
    }

    fn items(&self) -> MutexGuard<'_, Vec<Value>> {
        self.items.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, state: &mut State<'_, '_>, new: Vec<Value>) -> Result<Value, Error> {
        for value in &new {
            // `weigh` refuses values that are not data.
            weigh(state, value)?;
            check(value)?;
        }
        made(state, &new)?;
        let mut items = self.items();
        at_most("a list", "items", items.len().saturating_add(new.len()), MAX_ITEMS)?;
        items.extend(new);
        Ok(Value::from(()))
    }

    fn pop(&self, place: Option<i64>) -> Result<Value, Error> {
        let mut items = self.items();
        let place = place.unwrap_or(-1);
        let from_end = usize::try_from(place.unsigned_abs()).ok().and_then(|back| items.len().checked_sub(back));
        let at = if place < 0 { from_end } else { usize::try_from(place).ok() };
        match at.filter(|&at| at < items.len()) {
            Some(at) => Ok(items.remove(at)),
            None => Err(refused(format!("pop({place}) from a list of {} items", items.len()))),
        }
    }
}

impl Object for List {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Seq
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.items().get(key.as_usize()?).cloned()
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Seq(self.items().len())
    }
}

/// Calls a method that changes a list.
pub(super) fn change(state: &mut State<'_, '_>, value: &Value, name: &str, args: &[Value]) -> Result<Value, Error> {
    let Some(list) = value.downcast_object_ref::<List>() else {
        return Err(refused(format!(
            "{name}() changes a list, and only those that the template itself begins can be changed"
        )));
    };
    match (name, args) {
        ("append", [item]) => list.add(state, [item.clone()].into()),
        ("extend", [items]) => {
            weigh(state, items)?;
            let items = items.try_iter()?.collect();
            list.add(state, items)
        }
        ("pop", []) => list.pop(None),
        ("pop", [place]) if place.is_integer() => list.pop(place.as_i64()),
        _ => Err(Error::new(ErrorKind::InvalidOperation, format!("wrong arguments of {name}()"))),
    }
}

/// Refuses a value that is or contains a list that can be changed.
fn check(value: &Value) -> Result<(), Error> {
    if value.downcast_object_ref::<List>().is_some() {
        return Err(refused(String::from("a list that can be changed cannot be kept in another one")));
    }
    match value.kind() {
        ValueKind::Seq | ValueKind::Iterable => value.try_iter()?.try_for_each(|item| check(&item)),
        ValueKind::Map => value.try_iter()?.try_for_each(|key| check(&value.get_item(&key)?)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ChatTemplate, RenderOptions};
    use super::*;
    use std::string::ToString;

    fn render(source: &str) -> Result<String, String> {
        let template = ChatTemplate::new(source, "", "").map_err(|error| error.to_string())?;
        template.render(&[], &RenderOptions::default()).map_err(|error| error.to_string())
    }

    #[test]
    fn lists_are_changed_as_in_python() {
        let cases = [
            (
                "{% set l = [] %}{% for i in range(3) %}{% set _ = l.append(i) %}{% endfor %}{{ l }}{{ l|length }}",
                "[0, 1, 2]3",
            ),
            ("{% set ns = namespace(ids=['a']) %}{% do ns.ids.append('b') %}{{ ns.ids.pop(0) }}{{ ns.ids }}", "a['b']"),
            (
                "{% set l = [1, 2, 3] %}{{ l.pop() }}{{ l.pop(-2) }}{{ l }}{{ l.extend((4, 5)) }}{{ l|tojson }}",
                "31[2]None[2, 4, 5]",
            ),
            (
                "{% set a = [] %}{% set b = a %}{% set _ = b.append('x') %}{{ a == ['x'] }}{{ 'x' in a }}{{ a[0] }}{{ a + [1] }}",
                "TrueTruex['x', 1]",
            ),
            ("{% set a = [[]] %}{% set _ = a[0:1] %}{{ a }}{{ a.index([]) if false else a.count([]) }}", "[[]]1"),
        ];
        for (source, expected) in cases {
            assert_eq!(render(source).as_deref(), Ok(expected), "{source}");
        }
    }

    #[test]
    fn what_cannot_be_changed_is_refused() {
        let cases = [
            (
                "{% set _ = messages.append(1) %}",
                "append() changes a list, and only those that the template itself begins can be changed",
            ),
            ("{% set a = [] %}{% set _ = a.append(a) %}", "a list that can be changed cannot be kept in another one"),
            (
                "{% set a = [] %}{% set b = [] %}{% set _ = b.append({'x': [a]}) %}",
                "a list that can be changed cannot be kept in another one",
            ),
            ("{% set a = [1] %}{{ a.pop(1) }}", "pop(1) from a list of 1 items"),
            ("{% set a = [] %}{{ a.pop() }}", "pop(-1) from a list of 0 items"),
            ("{% set a = [] %}{{ a.append() }}", "wrong arguments of append()"),
            ("{% set a = [] %}{% set _ = a.append(namespace()) %}", "cannot be kept in a list"),
        ];
        for (source, expected) in cases {
            let error = render(source).unwrap_err();
            assert!(error.contains(expected), "{source}: {error}");
        }
    }

    #[test]
    fn lists_do_not_grow_without_an_end() {
        let long = "{% set a = ['x'] %}{% for i in range(40) %}{% set _ = a.extend(a) %}{% endfor %}";
        assert!(render(long).unwrap_err().contains("at most"));
        let many = "{% set a = [] %}{% for i in range(99999) %}{% for j in range(99999) %}{% set _ = a.append(i) %}{% endfor %}{% endfor %}";
        assert!(render(many).unwrap_err().contains("instructions"));
    }
}
