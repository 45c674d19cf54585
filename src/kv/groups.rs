//! Which layers share a pool of blocks.

/// The largest number of layer groups.
pub const MAX_GROUPS: usize = 2;

/// Layers that see the same positions form a group with its own blocks and tables.
///
/// Models whose layers all see everything have one group. Where every `period`-th layer (counted from 1)
/// sees more than the others, those layers are group 1 and the rest group 0.
///
/// [Example](crate::kv#example).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LayerGroups {
    period: usize,
}

impl LayerGroups {
    /// All layers in one group.
    pub const ONE: Self = Self { period: 0 };

    /// Returns groups where every `period`-th layer is in group 1; a period below 2 means one group.
    pub const fn alternating(period: usize) -> Self {
        Self { period }
    }

    /// Returns the number of groups.
    pub fn count(self) -> usize {
        if self.period < 2 { 1 } else { 2 }
    }

    /// Returns the group of a layer, and its index among the layers of that group.
    pub fn place(self, layer: usize) -> (usize, usize) {
        match layer.checked_div(self.period) {
            Some(before) if self.period >= 2 && layer % self.period == self.period - 1 => (1, before),
            Some(before) if self.period >= 2 => (0, layer - before),
            _ => (0, layer),
        }
    }

    /// Returns how many of `layers` layers are in `group`.
    pub fn layers_in(self, group: usize, layers: usize) -> usize {
        let in_second = if self.period < 2 { 0 } else { layers.checked_div(self.period).unwrap_or(0) };
        match group {
            0 => layers - in_second,
            1 => in_second,
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_number_their_layers_without_gaps() {
        for period in 0..7 {
            let groups = LayerGroups::alternating(period);
            let mut next = [0; MAX_GROUPS];
            for layer in 0..23 {
                let (group, index) = groups.place(layer);
                assert!(group < groups.count());
                assert_eq!(index, next[group], "period {period} layer {layer}");
                next[group] += 1;
                assert_eq!(groups.layers_in(group, layer + 1), next[group]);
            }
        }
        assert_eq!(LayerGroups::alternating(6).place(5), (1, 0));
        assert_eq!(LayerGroups::alternating(6).place(6), (0, 5));
    }
}
