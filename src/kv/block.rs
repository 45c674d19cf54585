//! How positions are cut: into blocks that the cache hands out, and chunks that attention takes one after the other.

/// Tokens per block.
pub const BLOCK_TOKENS: usize = 16;

/// Tokens per tile, which is what a block has of one head of one layer: the width of a K tile.
pub const TILE_TOKENS: usize = BLOCK_TOKENS;

/// Absolute positions per chunk. Each chunk has its own maximum and sums, so the result does not depend on
/// who computes which chunk.
pub const CHUNK: usize = 256;

/// The entry of a block table for block `index` of a sequence: those behind the first `sinks` take turns in a ring of
/// `ring` entries, unless that is 0.
#[inline]
pub(crate) fn table_entry(index: usize, sinks: usize, ring: usize) -> usize {
    match index.checked_sub(sinks).and_then(|past| past.checked_rem(ring)) {
        Some(place) => sinks + place,
        None => index,
    }
}
