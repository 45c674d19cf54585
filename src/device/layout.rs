//! The layout of keys and values, and of states of recurrent layers, in memory.

use crate::kv::{KvType, Visibility, table_entry};

/// The pool of a layer group, and the tables of its blocks. The pool is `[blocks, layers, heads]`, each element a tile
/// of keys and a tile of values. A block holds 16 tokens. `docs/kv.md` describes the tiles of each element type. Keys
/// are `[head_dim, 16]`, values `[16, head_dim]`, and the bytes are the same on a device and in the pool of the CPU.
///
/// [Example](crate::device#example).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KvLayout {
    /// Element types of keys and values.
    pub element: KvType,
    /// Number of blocks in the pool.
    pub blocks: usize,
    /// Number of layers of the group.
    pub layers: usize,
    /// Number of KV heads.
    pub heads: usize,
    /// Number of elements of a head.
    pub head_dim: usize,
    /// Number of bytes of a tile of keys, a multiple of 4.
    pub k_bytes: usize,
    /// Number of bytes of a tile of values, a multiple of 4. The tile of values follows the tile of keys.
    pub v_bytes: usize,
    /// Number of bytes of a block with all layers.
    pub block_bytes: usize,
    /// Number of entries of a sequence's table.
    pub entries: usize,
    /// Number of entries, at the start of the table, for the blocks that are always visible.
    pub sinks: usize,
    /// Number of entries behind those that are reused in turn, as a ring, or 0 if there is no ring.
    pub ring: usize,
    /// Positions that the layers see.
    pub visibility: Visibility,
}

impl KvLayout {
    /// Returns the index of the table's entry for block `index` of a sequence, which holds the positions from `16 *
    /// index` on.
    pub fn entry(&self, index: usize) -> usize {
        table_entry(index, self.sinks, self.ring)
    }

    /// Returns the index of the first 32-bit word of the tiles of a layer and head, counted from the start of a block.
    pub fn tile(&self, layer: usize, head: usize) -> usize {
        layer.saturating_mul(self.heads).saturating_add(head).saturating_mul((self.k_bytes + self.v_bytes) / 4)
    }
}

/// Number of channels of a convolution whose rows lie together in a state: `[rows, channels]`. The last group can have
/// fewer.
pub(crate) const TAIL_CHANNELS: usize = 128;

/// The states of recurrent layers: slots of f32 elements. A slot holds one state of all these layers. First come the
/// *tails* of the layers: the earlier rows that a convolution reads again. Then come the *matrices* of the layers,
/// `[layers, heads, key_dim, value_dim]`.
///
/// [Example](crate::device#example).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StateLayout {
    /// Number of slots.
    pub slots: usize,
    /// Number of layers that have a state.
    pub layers: usize,
    /// Number of channels of the convolution.
    pub channels: usize,
    /// Number of rows that a channel has in a tail: the rows before the current one.
    pub earlier: usize,
    /// Number of matrices of a layer, or 0 if there are none.
    pub heads: usize,
    /// Number of elements of a matrix.
    pub matrix: usize,
}

impl StateLayout {
    /// Returns the number of elements of the tails of a slot, for all layers.
    pub fn tails(&self) -> usize {
        self.layers * self.channels * self.earlier
    }

    /// Returns the number of elements of a slot.
    pub fn elements(&self) -> usize {
        self.tails() + self.layers * self.heads * self.matrix
    }

    /// Returns the index of an element of a tail in a slot. Channels lie in groups of 128. The last group can have
    /// fewer. A group is `[earlier, channels of the group]`, and row 0 is the oldest. `layer`, `channel` and `row` must
    /// exist.
    pub fn tail(&self, layer: usize, channel: usize, row: usize) -> usize {
        let first = channel / TAIL_CHANNELS * TAIL_CHANNELS;
        let width = TAIL_CHANNELS.min(self.channels.saturating_sub(first));
        (layer * self.channels + first) * self.earlier + row * width + channel - first
    }

    /// Returns the index in a slot of the first element of the matrix of a layer and head.
    pub fn matrix(&self, layer: usize, head: usize) -> usize {
        self.tails() + (layer * self.heads + head) * self.matrix
    }
}
