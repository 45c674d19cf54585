//! Sets of element types.

use crate::tensor::Dtype;

/// A set of element types.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Dtypes(u64);

impl Dtypes {
    pub(crate) fn insert(&mut self, dtype: Dtype) {
        self.0 |= 1_u64.checked_shl(dtype.ggml_number()).unwrap_or(0);
    }

    /// Returns the types that are in either set.
    pub(crate) fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the types in the order of ggml's numbers.
    pub(crate) fn iter(self) -> impl Iterator<Item = Dtype> {
        (0..u64::BITS).filter(move |number| self.0 >> number & 1 == 1).filter_map(Dtype::from_ggml)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_fits_the_set() {
        let all: Vec<_> = (0..1000).filter_map(Dtype::from_ggml).collect();
        for &dtype in &all {
            let mut set = Dtypes::default();
            assert!(set.is_empty());
            set.insert(dtype);
            assert_eq!(set.iter().collect::<Vec<_>>(), [dtype]);
        }
        let union = all.iter().fold(Dtypes::default(), |mut set, &dtype| {
            set.insert(dtype);
            set.union(set)
        });
        assert_eq!(union.iter().count(), all.len());
    }
}
