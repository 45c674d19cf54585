//! The element types of a cache, by value or by name.

use core::fmt;

use super::element::KvElement;

/// The element types of keys and of values.
///
/// [Example](crate::kv#example).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KvType {
    /// Element type of keys.
    pub k: KvElement,
    /// Element type of values.
    pub v: KvElement,
}

/// A name that is none of the known ones.
///
/// [Example](crate::kv#example).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownName {
    /// The thing that was to be named.
    pub what: &'static str,
    /// The names that exist.
    pub names: &'static str,
}

impl KvType {
    /// 4 bytes per element, exact.
    pub const F32: Self = Self::both(KvElement::F32);

    /// 2 bytes per element, rounded once to the nearest even: the default.
    pub const F16: Self = Self::both(KvElement::F16);

    /// 8.5 bits per element: codes of one byte, and a scale per 32 elements.
    pub const Q8_0: Self = Self::both(KvElement::Q8_0);

    /// 4.5 bits per element: codes of half a byte, and a scale per 32 elements.
    pub const Q4_0: Self = Self::both(KvElement::Q4_0);

    /// All types whose keys and values have the same element type.
    pub const ALL: [Self; 4] = [Self::F32, Self::F16, Self::Q8_0, Self::Q4_0];

    /// Returns the type whose keys and values both have this element type.
    pub const fn both(element: KvElement) -> Self {
        Self { k: element, v: element }
    }

    /// Returns the type with this name. One element type is for keys and values, as in "f16"; two are for keys and for
    /// values, as in "q8_0/q4_0".
    ///
    /// # Errors
    /// [`UnknownName`], which lists the names.
    pub fn from_name(name: &str) -> Result<Self, UnknownName> {
        let unknown = UnknownName { what: "cache element type", names: "f32, f16, q8_0, q4_0, or two as in q8_0/q4_0" };
        let element = |name| KvElement::ALL.into_iter().find(|element| element.name() == name).ok_or(unknown);
        let (k, v) = name.split_once('/').unwrap_or((name, name));
        Ok(Self { k: element(k)?, v: element(v)? })
    }
}

impl fmt::Display for KvType {
    /// Writes the name that [`KvType::from_name`] takes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.k.name())?;
        if self.v == self.k {
            return Ok(());
        }
        f.write_str("/")?;
        f.write_str(self.v.name())
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
        for k in KvElement::ALL {
            for v in KvElement::ALL {
                let kv_type = KvType { k, v };
                assert_eq!(KvType::from_name(&kv_type.to_string()), Ok(kv_type));
            }
        }
        assert_eq!(KvType::from_name("f16/f16"), Ok(KvType::F16));
        assert_eq!(KvType::F16, KvType::default());
        for name in ["q3", "", "/", "f16/", "/f16", "f16/f16/f16", "F16"] {
            let message = KvType::from_name(name).unwrap_err().to_string();
            assert_eq!(message, "unknown cache element type; one of f32, f16, q8_0, q4_0, or two as in q8_0/q4_0");
        }
    }
}
