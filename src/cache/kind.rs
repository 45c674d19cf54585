//! How keys and values are kept, by value or by name.

use core::fmt;

use crate::kv::UnknownName;

/// How keys and values are kept.
///
/// [Example](crate::cache#example).
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

impl KvKind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Off, Self::Basic, Self::Paged];

    /// Returns "off", "basic" or "paged".
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Basic => "basic",
            Self::Paged => "paged",
        }
    }

    /// Returns the kind with this name.
    ///
    /// # Errors
    /// [`UnknownName`], which lists the names.
    pub fn from_name(name: &str) -> Result<Self, UnknownName> {
        let unknown = UnknownName { what: "cache kind", names: "off, basic, paged" };
        Self::ALL.into_iter().find(|kind| kind.name() == name).ok_or(unknown)
    }
}

impl fmt::Display for KvKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_unknown_ones_list_them() {
        for kind in KvKind::ALL {
            assert_eq!(KvKind::from_name(kind.name()), Ok(kind));
        }
        assert_eq!(KvKind::from_name("paper").unwrap_err().to_string(), "unknown cache kind; one of off, basic, paged");
    }
}
