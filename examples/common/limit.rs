//! Limits of flags, in the words that the library has for its own.

use std::error::Error;

use gleed::engine::PlanError;

use super::Result;

/// Refuses a number that is not `min` to `max`; with `usize::MAX` there is no largest one.
pub fn check(name: &str, given: usize, min: usize, max: usize) -> Result<()> {
    if (min..=max).contains(&given) { Ok(()) } else { Err(words(name, given, min, max).into()) }
}

/// The words for an error: a limit of an engine goes by the name of the flag that sets it.
pub fn explain(error: &(dyn Error + 'static)) -> String {
    match error.downcast_ref::<PlanError>() {
        Some(&PlanError::Limit { name: "workers", given, min, max }) => words("--threads", given, min, max),
        Some(&PlanError::Limit { name: "window", given, min, max }) => words("--window", given, min, max),
        _ => error.to_string(),
    }
}

fn words(name: &str, given: usize, min: usize, max: usize) -> String {
    match max {
        usize::MAX => format!("{name} is {given}, it must be at least {min}"),
        _ => format!("{name} is {given}, it must be {min} to {max}"),
    }
}
