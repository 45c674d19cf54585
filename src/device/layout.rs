//! How keys and values lie in memory.

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
        (layer * self.heads + head) * (self.k_bytes + self.v_bytes) / 4
    }
}
