//! How keys and values, and states of recurrent layers, lie in memory.

use crate::kv::{KvType, Visibility, table_entry};

/// The pool of a layer group: `[blocks, layers, heads]` of a tile of keys and a tile of values, and the tables of its
/// blocks. A block holds 16 tokens. What a tile is, in each element type, is said in `docs/kv.md`: keys are
/// `[head_dim, 16]`, values `[16, head_dim]`, and the bytes are the same on a device and in the pool of the CPU.
///
/// [Example](crate::device#example).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KvLayout {
    /// The element types.
    pub element: KvType,
    /// Blocks in the pool.
    pub blocks: usize,
    /// Layers of the group.
    pub layers: usize,
    /// KV heads.
    pub heads: usize,
    /// Elements of a head.
    pub head_dim: usize,
    /// Bytes of a tile of keys, a multiple of 4.
    pub k_bytes: usize,
    /// Bytes of a tile of values, a multiple of 4. They follow the tile of keys.
    pub v_bytes: usize,
    /// Bytes of a block, all layers.
    pub block_bytes: usize,
    /// Entries of a sequence's table.
    pub entries: usize,
    /// The first so many of them are of the blocks that are always seen.
    pub sinks: usize,
    /// The entries behind those take turns in a ring of so many; 0 where they do not.
    pub ring: usize,
    /// The positions that the layers see.
    pub visibility: Visibility,
}

impl KvLayout {
    /// Returns the table's entry for block `index` of a sequence, which holds positions `16 * index ..`.
    pub fn entry(&self, index: usize) -> usize {
        table_entry(index, self.sinks, self.ring)
    }

    /// Returns the first 32-bit word of the tiles of a head of a layer of a block, counted from the start of the block.
    pub fn tile(&self, layer: usize, head: usize) -> usize {
        layer.saturating_mul(self.heads).saturating_add(head).saturating_mul((self.k_bytes + self.v_bytes) / 4)
    }
}

/// Channels of a convolution whose rows lie together in a state: `[rows, channels]`. The last ones can be fewer.
pub(crate) const TAIL_CHANNELS: usize = 128;

/// The states of recurrent layers: slots of f32 elements. A slot holds a state of all these layers: first the *tail* of
/// each, which are the rows that its convolution sees again; then the *matrices* of each, `[layers, heads, key_dim,
/// value_dim]`.
///
/// [Example](crate::device#example).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StateLayout {
    /// Slots.
    pub slots: usize,
    /// Layers that have a state.
    pub layers: usize,
    /// Channels of the convolution.
    pub channels: usize,
    /// Rows that a channel has in a tail: those before the current one.
    pub earlier: usize,
    /// Matrices of a layer; 0 where there are none.
    pub heads: usize,
    /// Elements of a matrix.
    pub matrix: usize,
}

impl StateLayout {
    /// Returns the elements of the tails of a slot, all layers.
    pub fn tails(&self) -> usize {
        self.layers * self.channels * self.earlier
    }

    /// Returns the elements of a slot.
    pub fn elements(&self) -> usize {
        self.tails() + self.layers * self.heads * self.matrix
    }

    /// Returns where a slot has an element of a tail. Channels lie in groups of 128; the last group can have fewer. A
    /// group is `[earlier, channels of the group]`; row 0 is the oldest. `layer`, `channel` and `row` are among those
    /// that there are.
    pub fn tail(&self, layer: usize, channel: usize, row: usize) -> usize {
        let first = channel / TAIL_CHANNELS * TAIL_CHANNELS;
        let width = TAIL_CHANNELS.min(self.channels.saturating_sub(first));
        (layer * self.channels + first) * self.earlier + row * width + channel - first
    }

    /// Returns where a slot has the matrix of a head of a layer.
    pub fn matrix(&self, layer: usize, head: usize) -> usize {
        self.tails() + (layer * self.heads + head) * self.matrix
    }
}
