//! What can be chosen about a cache, by value or by name.

use core::fmt;

/// How keys and values are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum KvKind {
    /// Nothing is kept between calls: every step starts again at position 0. The naive loop that a
    /// cache is measured against.
    Off,
    /// One contiguous run of blocks reserved per sequence.
    Basic,
    /// Blocks handed out on demand from one pool, shared by forks.
    #[default]
    Paged,
}

/// The element type of keys and values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum KvType {
    /// 4 bytes, exact.
    F32,
    /// 2 bytes, rounded once to the nearest even.
    #[default]
    F16,
}

/// A name that is none of the known ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownName {
    /// What was to be named.
    pub what: &'static str,
    /// The names that exist.
    pub names: &'static str,
}

impl KvKind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Off, Self::Basic, Self::Paged];

    /// "off", "basic" or "paged".
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Basic => "basic",
            Self::Paged => "paged",
        }
    }

    /// The kind with this name.
    ///
    /// # Errors
    /// [`UnknownName`], which lists the names.
    pub fn from_name(name: &str) -> Result<Self, UnknownName> {
        let unknown = UnknownName { what: "cache kind", names: "off, basic, paged" };
        Self::ALL.into_iter().find(|kind| kind.name() == name).ok_or(unknown)
    }
}

impl KvType {
    /// All types.
    pub const ALL: [Self; 2] = [Self::F32, Self::F16];

    /// "f32" or "f16".
    pub const fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
        }
    }

    /// Bytes per element.
    pub const fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 => 2,
        }
    }

    /// The type with this name.
    ///
    /// # Errors
    /// [`UnknownName`], which lists the names.
    pub fn from_name(name: &str) -> Result<Self, UnknownName> {
        let unknown = UnknownName { what: "cache element type", names: "f32, f16" };
        Self::ALL.into_iter().find(|kind| kind.name() == name).ok_or(unknown)
    }
}

impl fmt::Display for KvKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for KvType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown {}; one of {}", self.what, self.names)
    }
}

impl core::error::Error for UnknownName {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_unknown_ones_list_them() {
        for kind in KvKind::ALL {
            assert_eq!(KvKind::from_name(kind.name()), Ok(kind));
        }
        for element in KvType::ALL {
            assert_eq!(KvType::from_name(element.name()), Ok(element));
        }
        assert_eq!(KvKind::from_name("paper").unwrap_err().to_string(), "unknown cache kind; one of off, basic, paged");
        assert_eq!(KvType::from_name("q3").unwrap_err().to_string(), "unknown cache element type; one of f32, f16");
    }
}
