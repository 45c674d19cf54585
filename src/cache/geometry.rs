//! The sizes of a cache.

use super::bytes::Side;
use super::kind::KvKind;
use crate::device::KvLayout;
use crate::kernels::Level;
use crate::kv::{BLOCK_TOKENS, KvShape, KvType, LayerGroups, MAX_GROUPS, Visibility};

/// The sizes of a cache.
///
/// [Example](crate::cache#example).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvGeometry {
    /// Kind of cache: how keys and values are kept.
    pub kind: KvKind,
    /// Element types of keys and values.
    pub element: KvType,
    /// Instruction set that rounds to these types.
    pub level: Level,
    /// Number of layers of the model.
    pub layers: usize,
    /// Which layers share a pool.
    pub groups: LayerGroups,
    /// Shape of the keys and values of a layer, for each group.
    pub shapes: [KvShape; MAX_GROUPS],
    /// Number of sequences at a time.
    pub sequences: usize,
    /// Number of tokens per sequence. If all layers have a window, it may be more than memory could hold.
    pub context: usize,
    /// Number of blocks per pool (one pool per layer group). The pool of a group with a window has at most as many as
    /// all sequences together can use.
    pub blocks: usize,
    /// Which positions the layers of each group see.
    pub visibility: [Visibility; MAX_GROUPS],
    /// Number of tokens by which a sequence with a window can always be extended at a time: the rows of a batch.
    pub rows: usize,
    /// Whether finalized blocks can be found by their tokens: only for the kind `paged`, and without windows.
    pub prefix_cache: bool,
}

impl KvGeometry {
    /// Returns the shape of the keys and values of a layer.
    pub fn shape(&self, layer: usize) -> KvShape {
        self.shape_in(self.groups.group(layer))
    }

    /// Returns the number of elements of K (and of V) per token of a layer.
    pub fn kv_width(&self, layer: usize) -> usize {
        self.shape(layer).width()
    }

    /// Returns the number of bytes of the keys and values of a block of 16 tokens, in all layers.
    pub fn block_bytes(&self) -> usize {
        self.token_bytes(BLOCK_TOKENS)
    }

    /// Returns the layout of a layer group's pool in memory, or `None` if there is no such group.
    pub fn layout(&self, group: usize) -> Option<KvLayout> {
        let layers = self.groups.layers_in(group, self.layers);
        let KvShape { heads, head_dim } = self.shape_in(group);
        let [k, v] = self.sides(group).filter(|_| group < self.groups.count())?.map(|side| side.len());
        let block_bytes =
            [layers, heads].iter().try_fold(k.checked_add(v)?, |bytes, &count| bytes.checked_mul(count))?;
        let (sinks, ring) = self.windowed_table(group);
        let entries = self.table_len(group);
        Some(KvLayout {
            element: self.element,
            blocks: self.blocks_in(group)?,
            layers,
            heads,
            head_dim,
            k_bytes: k,
            v_bytes: v,
            block_bytes,
            entries,
            sinks,
            // A sequence that is not longer than the table needs no ring.
            ring: if ring == entries.wrapping_sub(sinks) { ring } else { 0 },
            visibility: self.visible(group),
        })
    }

    /// Returns the number of bytes that the first `tokens` tokens of a block have in a snapshot.
    pub(super) fn token_bytes(&self, tokens: usize) -> usize {
        (0..self.groups.count()).fold(0, |sum: usize, group| {
            let sides = self.sides(group);
            let bytes = sides.map_or(usize::MAX, |[k, v]| k.bytes(tokens).saturating_add(v.bytes(tokens)));
            let heads = self.shape_in(group).heads.saturating_mul(self.groups.layers_in(group, self.layers));
            sum.saturating_add(bytes.saturating_mul(heads))
        })
    }

    /// Returns the layouts of the K and the V part of a group's tiles, or `None` if memory could not hold them.
    pub(super) fn sides(&self, group: usize) -> Option<[Side; 2]> {
        let KvShape { head_dim, .. } = self.shape_in(group);
        Some([Side::keys(self.element.k, head_dim)?, Side::values(self.element.v, head_dim)?])
    }

    /// Returns the shape of the keys and values of a layer of a group.
    pub(super) fn shape_in(&self, group: usize) -> KvShape {
        self.shapes.get(group).copied().unwrap_or_default()
    }

    /// Returns which positions the layers of a group see.
    pub fn visible(&self, group: usize) -> Visibility {
        self.visibility.get(group).copied().unwrap_or_default()
    }

    /// Returns whether blocks of a group are given back once no query sees them. They are not given back for the kind
    /// `off`, which needs all tokens in every step, and for texts whose tokens see those after them.
    pub fn forgets(&self, group: usize) -> bool {
        let visible = self.visible(group);
        self.kind != KvKind::Off && !visible.is_all() && visible.is_causal()
    }

    /// Returns by how many tokens a sequence of `len` tokens can be extended so that a rewind to `len` still finds all
    /// blocks that it needs: until a window gives back the next block.
    pub fn kept_behind(&self, len: usize) -> usize {
        let kept = |group: usize| {
            let visible = self.visible(group);
            let back = |count: usize| {
                let first = len.saturating_add(1).saturating_sub(count);
                // The last position in the block of the first visible position.
                let last = first / BLOCK_TOKENS * BLOCK_TOKENS + (BLOCK_TOKENS - 1);
                let until = last.saturating_add(count).saturating_sub(len.saturating_add(1));
                if count == 0 { usize::MAX } else { until }
            };
            back(visible.last()).min(back(visible.reach()))
        };
        (0..self.groups.count()).filter(|&group| self.forgets(group)).map(kept).min().unwrap_or(usize::MAX)
    }

    /// Returns whether blocks of any group are given back once no query sees them.
    pub fn any_forgets(&self) -> bool {
        (0..self.groups.count()).any(|group| self.forgets(group))
    }

    /// Returns the largest number of blocks that a sequence has at a time.
    pub fn blocks_per_sequence(&self) -> usize {
        (0..self.groups.count()).map(|group| self.table_len(group)).max().unwrap_or(0)
    }

    /// Returns the number of entries in a sequence's table of a group: one for each block.
    pub(super) fn table_len(&self, group: usize) -> usize {
        let (sinks, ring) = self.windowed_table(group);
        sinks.saturating_add(ring).min(self.context.div_ceil(BLOCK_TOKENS))
    }

    /// Returns the number of entries in a group's table for the sinks, and for the blocks that take turns.
    pub(super) fn windowed_table(&self, group: usize) -> (usize, usize) {
        let visible = self.visible(group);
        if !self.forgets(group) {
            return (0, usize::MAX);
        }
        let window = visible.last().saturating_add(self.rows).div_ceil(BLOCK_TOKENS).saturating_add(1);
        (visible.sinks().div_ceil(BLOCK_TOKENS), window)
    }

    /// Returns the number of blocks in the pool of a group.
    pub(super) fn blocks_in(&self, group: usize) -> Option<usize> {
        let all = self.table_len(group).checked_mul(self.sequences);
        match self.kind {
            KvKind::Basic => all,
            _ if self.forgets(group) => Some(self.blocks.min(all?)),
            _ => Some(self.blocks),
        }
    }
}
