//! Sets of layers.

/// Upper limit of layers, more than any model has. It keeps hostile files from choosing how long a loop runs.
pub(crate) const MAX_LAYERS: usize = 256;

/// A set of layers.
///
/// [Example](crate::model#example).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LayerSet([u64; MAX_LAYERS / 64]);

impl LayerSet {
    /// No layers.
    pub const EMPTY: Self = Self([0; MAX_LAYERS / 64]);

    /// All layers that a model can have.
    pub const ALL: Self = Self([u64::MAX; MAX_LAYERS / 64]);

    /// Returns the set of the layers below `layers` for which `holds` returns true.
    pub fn of(layers: usize, mut holds: impl FnMut(usize) -> bool) -> Self {
        (0..layers).filter(|&layer| holds(layer)).collect()
    }

    /// Returns the set of every `period`-th layer, counted from 1, or the empty set for a period of 0.
    pub const fn every(period: usize) -> Self {
        let (mut set, mut next) = (Self::EMPTY, period);
        let mut rest = set.0.as_mut_slice();
        let mut first = 0;
        while let [word, others @ ..] = rest {
            while period > 0 && next > first && next <= first + 64 {
                *word |= 1 << (next - first - 1);
                next += period;
            }
            (rest, first) = (others, first + 64);
        }
        set
    }

    /// Returns whether a layer is in the set.
    pub fn contains(&self, layer: usize) -> bool {
        self.0.get(layer / 64).is_some_and(|word| word >> (layer % 64) & 1 == 1)
    }

    /// Returns how many layers before `layer` are in the set.
    pub fn before(&self, layer: usize) -> usize {
        let words = self.0.iter().enumerate().map(|(index, &word)| match layer.saturating_sub(index * 64) {
            0 => 0,
            bits @ 1..64 => word & ((1 << bits) - 1),
            _ => word,
        });
        words.map(|word| word.count_ones() as usize).sum()
    }
}

impl FromIterator<usize> for LayerSet {
    /// Returns the set of these layers. Numbers that are no layer of any model are left out.
    fn from_iter<I: IntoIterator<Item = usize>>(layers: I) -> Self {
        let mut set = Self::EMPTY;
        for layer in layers {
            if let Some(word) = set.0.get_mut(layer / 64) {
                *word |= 1 << (layer % 64);
            }
        }
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_are_counted_in_order() {
        let set = LayerSet::of(200, |layer| layer % 3 == 1);
        let mut before = 0;
        for layer in 0..MAX_LAYERS + 70 {
            assert_eq!(set.before(layer), before, "{layer}");
            assert_eq!(set.contains(layer), layer < 200 && layer % 3 == 1);
            before += usize::from(set.contains(layer));
        }
        assert_eq!((LayerSet::EMPTY.before(MAX_LAYERS), LayerSet::ALL.before(77)), (0, 77));
        for period in 0..70 {
            let periodic = |layer: usize| period > 0 && (layer + 1).is_multiple_of(period);
            assert_eq!(LayerSet::every(period), LayerSet::of(MAX_LAYERS, periodic), "{period}");
        }
    }
}
