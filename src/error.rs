//! Errors inside a computation.
//!
//! # Example
//!
//! A program shows an error as text. If the error is a defect of the library, the report names the number of its site.
//!
//! ```
//! use gleed::EngineError;
//! use gleed::error::{Fault, Site};
//!
//! /// A computation that stops where a number is not finite.
//! fn mean(row: &[f32]) -> Result<f32, Fault> {
//!     let mean = row.iter().sum::<f32>() / row.len() as f32;
//!     mean.is_finite().then_some(mean).ok_or(Fault::NonFinite)
//! }
//!
//! /// What a program shows of an error.
//! fn shown(error: EngineError) -> String {
//!     match error {
//!         EngineError::Internal(site) => format!("Please report the number {site}."),
//!         other => other.to_string(),
//!     }
//! }
//!
//! assert_eq!(mean(&[1.0, 3.0]), Ok(2.0));
//! assert_eq!(mean(&[1.0, f32::NAN]), Err(Fault::NonFinite));
//! assert_eq!(shown(EngineError::Empty), "no tokens were given");
//!
//! // The number is enough: `inspect --site` prints the file and line of it.
//! let site = Site::new("gleed::ops::store", 61);
//! assert_eq!(shown(EngineError::Internal(site)), format!("Please report the number {}.", site.number()));
//! assert_eq!(Site::from_number(site.number()), site);
//! ```

use core::fmt;

/// Why the computation of a tile stopped.
///
/// [Example](crate::error#example).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A value is infinite or NaN where the arithmetic demands finite ones.
    NonFinite,
    /// Sizes that were checked before do not fit: a defect of this library.
    Internal(Site),
}

/// The place in the source that found a contradiction, as a number: a hash of its module and the line. Reports of
/// defects name it; `inspect --site` finds the file and line.
///
/// [Example](crate::error#example).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Site(u32);

/// The place of this call as a [`Site`](crate::error::Site). It costs no more than a number in an instruction.
macro_rules! site {
    () => {
        const { $crate::error::Site::new(module_path!(), line!()) }
    };
}

impl Site {
    const LINE_BITS: u32 = 12;
    const LINES: u32 = (1 << Self::LINE_BITS) - 1;

    /// Returns the place at this line of a module, which is given by its path, such as `gleed::ops::store`.
    pub const fn new(module: &str, line: u32) -> Self {
        let bytes = module.as_bytes();
        let (mut hash, mut rest) = (0x811c_9dc5_u32, bytes);
        // FNV-1a.
        while let [byte, after @ ..] = rest {
            hash = (hash ^ *byte as u32).wrapping_mul(0x0100_0193);
            rest = after;
        }
        // The highest bit is set, so that a site's number differs from every smaller number.
        Self(1 << 31 | (hash ^ hash >> 13) << Self::LINE_BITS & 0x7fff_ffff | line & Self::LINES)
    }

    /// Returns the place as a number, at least 2^31.
    pub const fn number(self) -> u32 {
        self.0
    }

    /// Returns the place with this number, which [`Site::number`] gave. The highest bit counts as set.
    pub const fn from_number(number: u32) -> Self {
        Self(1 << 31 | number)
    }
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl fmt::Debug for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Site({})", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sites_tell_modules_and_lines_apart() {
        let (here, there) = (site!(), site!());
        assert_eq!(here, there);
        assert_ne!(here, site!());
        assert_ne!(Site::new("gleed::ops::store", 7), Site::new("gleed::ops::norm", 7));
        assert!(here.number() >= 1 << 31);
        assert_eq!(Site::from_number(here.number()), here);
        assert_eq!(here.number() & Site::LINES, line!() - 6);
    }
}
