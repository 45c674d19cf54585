//! Limits of flags. The errors have the wording of the library's own errors.

use std::error::Error;

use gleed::engine::PlanError;

use super::Result;

/// Refuses a number outside of `min` to `max`. A `max` of `usize::MAX` means no upper limit.
pub fn check(name: &str, given: usize, min: usize, max: usize) -> Result<()> {
    if (min..=max).contains(&given) { Ok(()) } else { Err(words(name, given, min, max).into()) }
}

/// Refuses a number outside of `min` to `max`, and NaN.
pub fn check_real(name: &str, given: f64, min: f64, max: f64) -> Result<()> {
    let words = || format!("{name} is {given}, it must be {min} to {max}").into();
    if (min..=max).contains(&given) { Ok(()) } else { Err(words()) }
}

/// Returns the parser of a flag that takes a number from `min` to `max`.
pub fn within<T: TryFrom<u64>>(min: u64, max: u64) -> impl Fn(&str) -> std::result::Result<T, String> + Clone {
    move |text| {
        let number = text.parse().ok().filter(|number| (min..=max).contains(number));
        number.and_then(|number| T::try_from(number).ok()).ok_or_else(|| format!("it must be {min} to {max}"))
    }
}

/// Returns the text of an error. A limit of an engine has the name of the flag that sets it.
pub fn explain(error: &(dyn Error + 'static)) -> String {
    match error.downcast_ref::<PlanError>() {
        Some(&PlanError::Limit { name: "workers", given, min, max }) => words("--threads", given, min, max),
        Some(&PlanError::Limit { name: "window", given, min, max }) => words("--window", given, min, max),
        Some(&PlanError::Limit { name: "sinks", given, min, max }) => words("--sinks", given, min, max),
        _ => error.to_string(),
    }
}

fn words(name: &str, given: usize, min: usize, max: usize) -> String {
    match max {
        usize::MAX => format!("{name} is {given}, it must be at least {min}"),
        _ => format!("{name} is {given}, it must be {min} to {max}"),
    }
}
