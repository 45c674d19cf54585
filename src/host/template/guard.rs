//! The guards of a rendering, which count what it uses.

use std::format;
use std::string::String;
use std::vec::Vec;

use minijinja::value::{Rest, ValueKind, ValueOrKwargs};
use minijinja::{Environment, Error, ErrorKind, State, Value, functions};

use super::bounds::{MAX_DEPTH, MAX_ITEMS, MAX_MADE, MAX_READ, MAX_TEXT, MAX_WEIGHT};
use super::list::List;
use super::{amplify, number, python, slice, text};

/// Bytes that count for a value in a list: for the value itself, and for its share of the list.
const ITEM: usize = 64;

/// Bytes that count as read for a call of a filter or method, because of the time that it takes.
const CALL: usize = 1024;

/// Guard that counts the result of an operation. A sequence that is made while it is read becomes a list.
pub(super) const KEPT: &str = "=kept";
/// [`KEPT`] for a container that may hold containers.
pub(super) const NESTED: &str = "=nested";
/// Guard of a value that becomes an attribute of a namespace.
pub(super) const HELD: &str = "=held";
/// Guard of a list that a template writes out and gives a name.
pub(super) const LIST: &str = "=list";
/// Guard of a value that is read once.
pub(super) const READ: &str = "=read";
/// [`READ`] for a value that a loop reads. A text becomes a list of its characters, whose length the loop knows.
pub(super) const LOOPED: &str = "=looped";
/// Guard that computes `value[start:stop:step]`.
pub(super) const SLICE: &str = "=slice";
/// Guard of the method `cycle`. It refuses a call without values, because the engine divides by their number.
pub(super) const CYCLE: &str = "=cycle";
/// Guard of a value that is read with everything in it.
pub(super) const WEIGHED: &str = "=weighed";
/// Guard that computes `+`.
pub(super) const PLUS: &str = "=plus";
/// Guard that computes `*`.
pub(super) const TIMES: &str = "=times";
/// Guard that computes `~`.
pub(super) const CONCAT: &str = "=concat";
/// Guard that refuses statements that need another template.
pub(super) const ALONE: &str = "=alone";

/// Filters and methods whose result, if it is a list, is not nested deeper than their arguments.
const LEVEL: [&str; 19] = [
    "abs",
    "attr",
    "d",
    "default",
    "first",
    "get",
    "keys",
    "last",
    "list",
    "max",
    "min",
    "reject",
    "rejectattr",
    "reverse",
    "select",
    "selectattr",
    "sort",
    "unique",
    "values",
];

/// Numbers of bytes that one rendering has made, read and written.
#[derive(Default)]
struct Used {
    made: usize,
    read: usize,
    written: usize,
}

/// Puts guards, and guarded filters, tests and functions, into an environment.
pub(super) fn install(environment: &mut Environment<'_>) {
    install_guards(environment);
    install_operators(environment);
    install_library(environment);
}

fn install_guards(environment: &mut Environment<'_>) {
    environment.add_filter(KEPT, |state: &mut State<'_, '_>, value: Value| kept(state, value));
    environment.add_filter(NESTED, |state: &mut State<'_, '_>, value: Value| nested(state, value));
    environment.add_filter(LIST, |state: &mut State<'_, '_>, value: Value| {
        let value = nested(state, value)?;
        List::of(value)
    });
    // The parameter for the namespace is not read. It shows a macro around the assignment that it uses the namespace.
    environment.add_filter(HELD, |value: Value, _namespace: Value| match is_internal(&value) {
        true => Err(internal()),
        false => Ok(value),
    });
    environment.add_filter(READ, |state: &mut State<'_, '_>, value: Value| {
        read(state, amplify::shallow(&value)?)?;
        Ok::<Value, Error>(value)
    });
    environment.add_filter(LOOPED, |state: &mut State<'_, '_>, value: Value| {
        read(state, amplify::shallow(&value)?)?;
        let Some(text) = value.as_str() else { return Ok(value) };
        at_most("a text gone through by characters", "bytes", text.len(), MAX_ITEMS)?;
        let letters: Vec<char> = text.chars().collect();
        Ok::<Value, Error>(Value::make_iterable(move || letters.clone().into_iter()))
    });
    environment.add_filter(SLICE, |state: &mut State<'_, '_>, value: Value, start: Value, stop: Value, step: Value| {
        read(state, amplify::shallow(&value)?)?;
        let part = slice::slice(&value, &start, &stop, &step)?;
        kept(state, part)
    });
    environment.add_filter(CYCLE, |state: &mut State<'_, '_>, value: Value, args: Rest<ValueOrKwargs>| {
        match args.into_values() {
            args if args.is_empty() => Err(refused(String::from("cycle() takes at least one value"))),
            args => value.call_method(state, "cycle", &args),
        }
    });
    environment.add_filter(WEIGHED, |state: &mut State<'_, '_>, value: Value| {
        weigh(state, &value)?;
        Ok::<Value, Error>(value)
    });
    environment.add_filter(ALONE, |_: Value| -> Result<Value, Error> {
        Err(refused(String::from("a chat template is alone: it cannot include, import or extend others")))
    });
}

fn install_operators(environment: &mut Environment<'_>) {
    environment.add_filter(TIMES, |state: &mut State<'_, '_>, left: Value, right: Value| {
        if let Some(product) = product(&left, &right) {
            return Ok(product);
        }
        let [left, right] = [left, right].map(amplify::natural);
        amplify::times(&left, &right)?;
        let product = operator(state, "a * b", left, right)?;
        kept(state, product)
    });
    environment.add_filter(PLUS, |state: &mut State<'_, '_>, left: Value, right: Value| {
        let sum = match text::sum(&left, &right).or_else(|| numbers(&left, &right)) {
            Some(sum) => sum,
            None => operator(state, "a + b", left, right)?,
        };
        kept(state, sum)
    });
    environment.add_filter(CONCAT, |state: &mut State<'_, '_>, left: Value, right: Value| {
        let text = python::string(&left)? + &python::string(&right)?;
        kept(state, Value::from(text))
    });
}

/// Adds the engine's filters, tests and functions with guards.
fn install_library(environment: &mut Environment<'_>) {
    for (name, filter) in amplify::filters() {
        environment.add_filter(name, move |state: &mut State<'_, '_>, args: Rest<ValueOrKwargs>| {
            let args = args.into_values();
            guarded(state, name, &args, |state| filter.call(state, &args))
        });
    }
    for (name, test) in amplify::comparisons() {
        environment.add_test(name, move |state: &mut State<'_, '_>, args: Rest<ValueOrKwargs>| {
            let args = args.into_values();
            for argument in &args {
                weigh(state, argument)?;
            }
            test.call(state, &args)
        });
    }
    for (name, test) in amplify::kinds() {
        environment.add_test(name, test);
    }
    environment.add_function("dict", |state: &mut State<'_, '_>, args: Rest<ValueOrKwargs>| {
        let args = args.into_values();
        let dict = Value::from_function(functions::dict).call(state, &args)?;
        nested(state, dict)
    });
    environment.add_function("namespace", |state: &mut State<'_, '_>, args: Rest<ValueOrKwargs>| {
        let args = args.into_values();
        for argument in &args {
            weigh(state, argument)?;
        }
        Value::from_function(functions::namespace).call(state, &args)
    });
    environment.add_function("range", number::range);
    environment.remove_global("debug");
}

/// Returns the result of a filter or method. The bounds are checked before and after the call.
pub(super) fn guarded(
    state: &mut State<'_, '_>,
    name: &str,
    args: &[Value],
    call: impl FnOnce(&mut State<'_, '_>) -> Result<Value, Error>,
) -> Result<Value, Error> {
    read(state, CALL)?;
    for argument in args {
        read(state, amplify::shallow(argument)?)?;
    }
    amplify::check(state, name, args)?;
    let value = call(state)?;
    if LEVEL.contains(&name) { kept(state, value) } else { nested(state, value) }
}

/// Applies an operator of the engine.
fn operator(state: &mut State<'_, '_>, expression: &'static str, left: Value, right: Value) -> Result<Value, Error> {
    read(state, CALL)?;
    let operator = state.env().compile_expression(expression)?;
    operator.eval(Value::from_pairs([("a", left), ("b", right)])).map_err(plain)
}

/// Returns the sum of two small integers.
fn numbers(left: &Value, right: &Value) -> Option<Value> {
    let are_integers = left.is_integer() && right.is_integer();
    left.as_i64()?.checked_add(right.as_i64()?).filter(|_| are_integers).map(Value::from)
}

/// Returns the product of two small integers, or of two numbers of which at least one is not an integer.
fn product(left: &Value, right: &Value) -> Option<Value> {
    if left.is_integer() && right.is_integer() {
        return left.as_i64()?.checked_mul(right.as_i64()?).map(Value::from);
    }
    let numbers = left.is_number() && right.is_number();
    let [left, right] = [left, right].map(|number| f64::try_from(number.clone()).ok().filter(|_| numbers));
    Some(Value::from(left? * right?))
}

/// Counts bytes that are written.
pub(super) fn write(state: &mut State<'_, '_>, bytes: usize) -> Result<(), Error> {
    let used = state.get_or_insert_extension(Used::default());
    used.written = used.written.saturating_add(bytes);
    at_most("text that is written", "bytes", used.written, MAX_TEXT)
}

/// Counts bytes that are read.
pub(super) fn read(state: &mut State<'_, '_>, bytes: usize) -> Result<(), Error> {
    let used = state.get_or_insert_extension(Used::default());
    used.read = used.read.saturating_add(bytes);
    at_most("texts and lists that are gone through", "bytes", used.read, MAX_READ)
}

/// Returns the number of bytes of a value with everything in it, and counts them as read. A value that is in it several
/// times counts each time.
pub(super) fn weigh(state: &mut State<'_, '_>, value: &Value) -> Result<usize, Error> {
    let mut total = 0;
    weigh_into(value, 0, &mut total)?;
    read(state, total)?;
    Ok(total)
}

fn weigh_into(value: &Value, depth: usize, total: &mut usize) -> Result<(), Error> {
    at_most("lists and dictionaries in one another", "levels", depth, MAX_DEPTH)?;
    if is_internal(value) {
        return Err(internal());
    }
    *total = total.saturating_add(ITEM.saturating_add(text_len(value)));
    at_most("all that is in a value", "bytes", *total, MAX_WEIGHT)?;
    match value.kind() {
        ValueKind::Seq | ValueKind::Iterable => {
            for item in value.try_iter()? {
                weigh_into(&item, depth + 1, total)?;
            }
        }
        ValueKind::Map => {
            for key in value.try_iter()? {
                weigh_into(&key, depth + 1, total)?;
                weigh_into(&value.get_item(&key)?, depth + 1, total)?;
            }
        }
        _ => {}
    }
    Ok(())
}

/// Counts a value that was made: a text by its bytes, and a container by its items, which were counted when they were
/// made.
fn kept(state: &mut State<'_, '_>, value: Value) -> Result<Value, Error> {
    let value = match value.kind() {
        ValueKind::Iterable => listed(&value)?,
        _ => value,
    };
    let bytes = match value.kind() {
        ValueKind::Seq | ValueKind::Map => {
            let len = value.len().unwrap_or(usize::MAX);
            at_most("a list or dictionary", "items", len, MAX_ITEMS)?;
            len.saturating_mul(ITEM)
        }
        _ => text_len(&value),
    };
    at_most("a text", "bytes", text_len(&value), MAX_TEXT)?;
    let used = state.get_or_insert_extension(Used::default());
    used.made = used.made.saturating_add(bytes);
    at_most("texts and lists that are made", "bytes", used.made, MAX_MADE)?;
    Ok(value)
}

/// Counts the share of a list for values that are appended to it. The values were counted when they were made.
pub(super) fn made(state: &mut State<'_, '_>, values: &[Value]) -> Result<(), Error> {
    let used = state.get_or_insert_extension(Used::default());
    used.made = used.made.saturating_add(values.len().saturating_mul(ITEM));
    at_most("texts and lists that are made", "bytes", used.made, MAX_MADE)
}

fn nested(state: &mut State<'_, '_>, value: Value) -> Result<Value, Error> {
    let value = kept(state, value)?;
    if matches!(value.kind(), ValueKind::Seq | ValueKind::Map) {
        weigh(state, &value)?;
    }
    Ok(value)
}

/// Returns a sequence that is made while it is read, as a list.
fn listed(value: &Value) -> Result<Value, Error> {
    let items: Vec<Value> = value.try_iter()?.checked().take(MAX_ITEMS + 1).collect::<Result<_, _>>()?;
    at_most("a list", "items", items.len(), MAX_ITEMS)?;
    Ok(Value::from(items))
}

pub(super) fn text_len(value: &Value) -> usize {
    value.as_str().map(str::len).or_else(|| value.as_bytes().map(<[u8]>::len)).unwrap_or(0)
}

/// Returns whether a value is not data, but a namespace, a macro or a loop. In lists, such values would make endless
/// chains.
fn is_internal(value: &Value) -> bool {
    let name = value.as_object().map_or("", |object| object.type_name());
    value.kind() == ValueKind::Plain || name.starts_with("minijinja::vm::") || name.ends_with("::Namespace")
}

fn internal() -> Error {
    refused(String::from("a namespace, macro, loop or function cannot be kept in a list, dictionary or namespace"))
}

/// Refuses a number above its bound. The error has both.
pub(super) fn at_most(what: &str, unit: &str, number: usize, bound: usize) -> Result<(), Error> {
    match number <= bound {
        true => Ok(()),
        false => Err(refused(format!("{what}: {number} {unit}, and at most {bound} are allowed"))),
    }
}

pub(super) fn refused(why: String) -> Error {
    Error::new(ErrorKind::InvalidOperation, why)
}

/// Returns an error of an expression in a guard without its line, which is not a line of the template.
fn plain(error: Error) -> Error {
    let detail = error.detail().map(String::from);
    detail.map_or_else(|| error.kind().into(), |detail| Error::new(error.kind(), detail))
}
