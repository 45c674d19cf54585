//! Which instructions the arithmetic runs on, and the floating-point environment that it runs in.
//!
//! Every level gives the same bits; a faster one is only faster.

use core::fmt;

pub mod fpenv;

/// The instruction set that the kernels use: made once, by [`Level::detect`] or by name, and passed down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Level {
    /// Plain Rust, on every machine. It is the specification of the arithmetic.
    Scalar,
}

impl Level {
    /// All levels of this build, the slowest first.
    pub const ALL: &'static [Level] = &[Level::Scalar];

    /// The fastest level that this machine has.
    pub fn detect() -> Self {
        Self::Scalar
    }

    /// The level with this name.
    ///
    /// # Errors
    /// [`UnknownLevel`], which lists the names.
    pub fn from_name(name: &str) -> Result<Self, UnknownLevel> {
        Self::ALL.iter().copied().find(|level| level.name() == name).ok_or(UnknownLevel)
    }

    /// Its name: "scalar".
    pub const fn name(self) -> &'static str {
        match self {
            Self::Scalar => "scalar",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// No level of this build has the name that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownLevel;

impl fmt::Display for UnknownLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("unknown level; this build has")?;
        for (i, level) in Level::ALL.iter().enumerate() {
            f.write_str(if i == 0 { " " } else { ", " })?;
            f.write_str(level.name())?;
        }
        Ok(())
    }
}

impl core::error::Error for UnknownLevel {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_levels_are_one_to_one() {
        for &level in Level::ALL {
            assert_eq!(Level::from_name(level.name()), Ok(level));
        }
        assert!(Level::ALL.contains(&Level::detect()));
        let message = Level::from_name("Scalar").unwrap_err().to_string();
        assert_eq!(message, "unknown level; this build has scalar");
    }
}
