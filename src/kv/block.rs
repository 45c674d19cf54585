//! How positions are cut: into blocks that the cache hands out, and chunks that attention takes one after the other.

/// Tokens per block.
pub const BLOCK_TOKENS: usize = 16;

/// Number of tokens per tile: the width of a K tile. A tile is the part of a block for one head of one layer.
pub const TILE_TOKENS: usize = BLOCK_TOKENS;

/// Number of absolute positions per chunk. Each chunk has its own maximum and sums, so the result does not depend on
/// which worker computes which chunk.
pub const CHUNK: usize = 256;

/// Returns the entry of a block table for block `index` of a sequence. Blocks behind the first `sinks` take turns in a
/// ring of `ring` entries, unless `ring` is 0.
#[inline]
pub(crate) fn table_entry(index: usize, sinks: usize, ring: usize) -> usize {
    match index.checked_sub(sinks).and_then(|past| past.checked_rem(ring)) {
        Some(place) => sinks + place,
        None => index,
    }
}
