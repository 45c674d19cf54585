//! Which layers share a pool of blocks.

use super::layers::LayerSet;

/// The largest number of layer groups.
pub const MAX_GROUPS: usize = 2;

/// The layer groups of a model. Layers that see the same positions, and have keys and values of the same shape, form a
/// group with its own blocks and tables.
///
/// Models whose layers are all alike in this have one group. In others some layers are group 1, and the rest group 0.
///
/// [Example](crate::kv#example).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LayerGroups {
    second: LayerSet,
}

impl LayerGroups {
    /// All layers in one group.
    pub const ONE: Self = Self { second: LayerSet::EMPTY };

    /// Returns groups where every `period`-th layer (counted from 1) is in group 1; a period below 2 means one group.
    pub const fn alternating(period: usize) -> Self {
        if period < 2 { Self::ONE } else { Self::with_second(LayerSet::every(period)) }
    }

    /// Returns groups where these layers are in group 1, or one group if there are no such layers.
    pub const fn with_second(second: LayerSet) -> Self {
        Self { second }
    }

    /// Returns the number of groups.
    pub fn count(&self) -> usize {
        if self.second == LayerSet::EMPTY { 1 } else { 2 }
    }

    /// Returns the group of a layer.
    pub fn group(&self, layer: usize) -> usize {
        usize::from(self.second.contains(layer))
    }

    /// Returns the group of a layer, and its index among the layers of that group.
    pub fn place(&self, layer: usize) -> (usize, usize) {
        let group = self.group(layer);
        (group, self.layers_in(group, layer))
    }

    /// Returns how many of the first `layers` layers are in `group`.
    pub fn layers_in(&self, group: usize, layers: usize) -> usize {
        let in_second = self.second.before(layers);
        match group {
            0 => layers - in_second,
            1 => in_second,
            _ => 0,
        }
    }
}

/// The shape of the keys of one token in a layer, and of its values: `[heads, head_dim]`.
///
/// [Example](crate::kv#example).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KvShape {
    /// Number of heads of keys and values.
    pub heads: usize,
    /// Number of elements per head.
    pub head_dim: usize,
}

impl KvShape {
    /// Returns the number of elements of K (and of V) per token and layer.
    pub fn width(self) -> usize {
        self.heads.saturating_mul(self.head_dim)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_number_their_layers_without_gaps() {
        let periodic = (0..7).map(LayerGroups::alternating);
        let listed = LayerGroups::with_second(LayerSet::of(23, |layer| [2, 4, 7, 22].contains(&layer)));
        for groups in periodic.chain([listed]) {
            let mut next = [0; MAX_GROUPS];
            for layer in 0..23 {
                let (group, index) = groups.place(layer);
                assert!(group < groups.count());
                assert_eq!(index, next[group], "{groups:?} layer {layer}");
                next[group] += 1;
                assert_eq!(groups.layers_in(group, layer + 1), next[group]);
            }
        }
        assert_eq!(LayerGroups::alternating(6).place(5), (1, 0));
        assert_eq!(LayerGroups::alternating(6).place(6), (0, 5));
        assert_eq!((listed.place(3), listed.place(4)), ((0, 2), (1, 1)));
    }
}
