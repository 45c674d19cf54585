//! The sizes of a cache, and which layers share a pool.

use super::block::BLOCK_TOKENS;
use super::bytes::Side;
use super::kind::{KvKind, KvType};
use crate::kernels::{Level, Visibility};

/// The largest number of layer groups.
pub const MAX_GROUPS: usize = 2;

/// Layers that see the same positions form a group with its own blocks and tables.
///
/// Models whose layers all see everything have one group. Where every `period`-th layer (counted from 1)
/// sees more than the others, those layers are group 1 and the rest group 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LayerGroups {
    period: usize,
}

impl LayerGroups {
    /// All layers in one group.
    pub const ONE: Self = Self { period: 0 };

    /// Every `period`-th layer in group 1; a period below 2 means one group.
    pub const fn alternating(period: usize) -> Self {
        Self { period }
    }

    /// The number of groups.
    pub fn count(self) -> usize {
        if self.period < 2 { 1 } else { 2 }
    }

    /// The group of a layer, and its index among the layers of that group.
    pub fn place(self, layer: usize) -> (usize, usize) {
        match layer.checked_div(self.period) {
            Some(before) if self.period >= 2 && layer % self.period == self.period - 1 => (1, before),
            Some(before) if self.period >= 2 => (0, layer - before),
            _ => (0, layer),
        }
    }

    /// How many of `layers` layers are in `group`.
    pub fn layers_in(self, group: usize, layers: usize) -> usize {
        let in_second = if self.period < 2 { 0 } else { layers.checked_div(self.period).unwrap_or(0) };
        match group {
            0 => layers - in_second,
            1 => in_second,
            _ => 0,
        }
    }
}

/// The sizes of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvGeometry {
    /// How keys and values are kept.
    pub kind: KvKind,
    /// Their element types.
    pub element: KvType,
    /// The instruction set that rounds to it.
    pub level: Level,
    /// Layers of the model.
    pub layers: usize,
    /// Which of them share a pool.
    pub groups: LayerGroups,
    /// Heads of K and V per layer.
    pub kv_heads: usize,
    /// Elements per head.
    pub head_dim: usize,
    /// Sequences at a time.
    pub sequences: usize,
    /// Tokens per sequence; more than memory could hold where all layers have a window.
    pub context: usize,
    /// Blocks per pool (one pool per layer group). The pool of a group with a window has at most as many as all
    /// sequences together can use.
    pub blocks: usize,
    /// What the layers of each group see.
    pub visibility: [Visibility; MAX_GROUPS],
    /// Tokens that a sequence with a window can always be extended by at a time: the rows of a batch.
    pub rows: usize,
    /// Whether finalized blocks can be found by their tokens; the kind `paged` only, and without windows.
    pub prefix_cache: bool,
}

impl KvGeometry {
    /// Elements of K (and of V) per token and layer.
    pub fn kv_width(&self) -> usize {
        self.kv_heads.saturating_mul(self.head_dim)
    }

    /// Bytes of the keys and values of a block of 16 tokens, all layers.
    pub fn block_bytes(&self) -> usize {
        self.token_bytes(BLOCK_TOKENS)
    }

    /// Bytes that the first `tokens` tokens of a block have in a snapshot.
    pub(super) fn token_bytes(&self, tokens: usize) -> usize {
        let bytes = self.sides().map(|[k, v]| k.bytes(tokens).saturating_add(v.bytes(tokens))).unwrap_or(usize::MAX);
        bytes.saturating_mul(self.kv_heads).saturating_mul(self.layers)
    }

    /// How tiles are kept: K, V. `None` where memory could not hold them.
    pub(super) fn sides(&self) -> Option<[Side; 2]> {
        Some([Side::keys(self.element.k, self.head_dim)?, Side::values(self.element.v, self.head_dim)?])
    }

    /// What the layers of a group see.
    pub fn visible(&self, group: usize) -> Visibility {
        self.visibility.get(group).copied().unwrap_or_default()
    }

    /// Whether blocks of a group are given back once nobody sees them. The kind `off` needs all tokens in every step.
    pub fn forgets(&self, group: usize) -> bool {
        self.kind != KvKind::Off && !self.visible(group).is_all()
    }

    /// Whether blocks of any group are.
    pub fn any_forgets(&self) -> bool {
        (0..self.groups.count()).any(|group| self.forgets(group))
    }

    /// The most blocks that a sequence has at a time.
    pub fn blocks_per_sequence(&self) -> usize {
        (0..self.groups.count()).map(|group| self.table_len(group)).max().unwrap_or(0)
    }

    /// Entries in a sequence's table of a group: a block each.
    pub(super) fn table_len(&self, group: usize) -> usize {
        let (sinks, ring) = self.windowed_table(group);
        sinks.saturating_add(ring).min(self.context.div_ceil(BLOCK_TOKENS))
    }

    /// Entries of a group's table for the sinks, and for the blocks that change.
    pub(super) fn windowed_table(&self, group: usize) -> (usize, usize) {
        let visible = self.visible(group);
        if !self.forgets(group) {
            return (0, usize::MAX);
        }
        let window = visible.last().saturating_add(self.rows).div_ceil(BLOCK_TOKENS).saturating_add(1);
        (visible.sinks().div_ceil(BLOCK_TOKENS), window)
    }

    /// Blocks in the pool of a group.
    pub(super) fn blocks_in(&self, group: usize) -> Option<usize> {
        let all = self.table_len(group).checked_mul(self.sequences);
        match self.kind {
            KvKind::Basic => all,
            _ if self.forgets(group) => Some(self.blocks.min(all?)),
            _ => Some(self.blocks),
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
