//! Rows of keys and values on their way into blocks.

use super::block::{BLOCK_TOKENS, BlockId};
use super::bytes::Side;
use super::error::CacheError;
use super::kind::KvKind;
use super::kv_cache::KvCache;
use super::sequence::SeqId;
use crate::error::Fault;
use crate::kernels::{ElementsMut, KvTileMut, Level};
use crate::kv::KvShape;
use crate::mem::{Tile, Tiles, row_of};

/// A row that is to be written: the keys and the values, `[kv_heads * head_dim]` each, of a reserved position.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KvRow<'r> {
    pub(crate) seq: SeqId,
    pub(crate) position: usize,
    pub(crate) k: &'r [f32],
    pub(crate) v: &'r [f32],
}

/// Largest number of rows of a [`RowWriter`], which lies on the stack.
pub(crate) const WRITTEN_ROWS: usize = 32;

/// Writes checked rows of one layer into their blocks. A worker that takes a tile writes one KV head of all rows.
#[derive(Debug)]
pub(crate) struct RowWriter<'w, 'r> {
    /// One tile for each KV head: the head's K and V tiles in all blocks, so that several workers can write.
    pub(crate) tiles: Tiles<'w, u32>,
    rows: heapless::Vec<PlacedRow<'r>, WRITTEN_ROWS>,
    level: Level,
    k: Side,
    v: Side,
    kv_heads: usize,
    head_dim: usize,
}

/// A row and where it belongs.
#[derive(Clone, Copy, Debug)]
struct PlacedRow<'r> {
    k: &'r [f32],
    v: &'r [f32],
    block: BlockId,
    slot: usize,
    /// Whether to zero the layer's tiles in the block first. The first row that is written to a block does this, so
    /// that no later read meets old contents of the memory.
    clear: bool,
}

impl KvCache<'_> {
    /// Checks rows of a layer, at most [`WRITTEN_ROWS`], and finds their places. Nothing is written yet. An item of
    /// `rows` is `None` if the caller has no such row.
    ///
    /// # Errors
    /// [`CacheError::UnknownSequence`], [`CacheError::Position`], [`CacheError::Layer`], [`CacheError::Shape`];
    /// [`CacheError::Internal`] for too many rows, and for an item that is `None`.
    pub(crate) fn writer<'r>(
        &mut self,
        layer: usize,
        rows: impl Iterator<Item = Option<KvRow<'r>>>,
    ) -> Result<RowWriter<'_, 'r>, CacheError> {
        self.check_here()?;
        let mut placed = heapless::Vec::new();
        for row in rows {
            let row = self.place(layer, row.ok_or(CacheError::Internal(site!()))?)?;
            placed.push(row).map_err(|_| CacheError::Internal(site!()))?;
        }
        let (group, layer) = self.geometry().groups.place(layer);
        let [k, v] = self.geometry().sides(group).ok_or(CacheError::Internal(site!()))?;
        let KvShape { heads: kv_heads, head_dim } = self.geometry().shape_in(group);
        let level = self.geometry().level;
        let pool = &mut self.groups.get_mut(group).ok_or(CacheError::Internal(site!()))?.pool;
        let tiles = pool.heads(layer).ok_or(CacheError::Internal(site!()))?;
        Ok(RowWriter { tiles, rows: placed, level, k, v, kv_heads, head_dim })
    }

    /// Finds the place of a row, which must be at a reserved position. (The kind `off` writes committed positions
    /// again.)
    fn place<'r>(&self, layer: usize, row: KvRow<'r>) -> Result<PlacedRow<'r>, CacheError> {
        let KvRow { seq, position, k, v } = row;
        let (committed, end) = self.positions(seq)?;
        let first = if self.kind() == KvKind::Off { 0 } else { committed };
        if !(first..end).contains(&position) {
            return Err(CacheError::Position { expected: committed, given: position });
        }
        self.check_layer(layer)?;
        self.check_rows(k, 1, layer)?;
        self.check_rows(v, 1, layer)?;
        let group = self.geometry().groups.group(layer);
        let table = self.groups.get(group).ok_or(CacheError::Internal(site!()))?.table(seq.slot());
        let (block, slot) = table.locate(position).ok_or(CacheError::Internal(site!()))?;
        // A committed row that is written again shares its block with other committed rows, so it does not clear the
        // block.
        Ok(PlacedRow { k, v, block, slot, clear: slot == 0 && position >= committed })
    }
}

impl RowWriter<'_, '_> {
    /// Writes one KV head of all rows into the tile of that head.
    ///
    /// # Errors
    /// [`Fault::NonFinite`] for a key or value that the element type cannot hold; [`Fault::Internal`] for a tile of
    /// another matrix.
    #[inline]
    pub(crate) fn write(&self, tile: &mut Tile<'_, u32>) -> Result<(), Fault> {
        let head = tile.index().checked_rem(self.kv_heads).ok_or(Fault::Internal(site!()))?;
        let mut rows = self.rows.as_slice();
        while let Some(first) = rows.first() {
            let (run, rest) = rows.split_at_checked(run_length(rows)).ok_or(Fault::Internal(site!()))?;
            let words = tile.row_mut(first.block as usize).ok_or(Fault::Internal(site!()))?;
            self.write_run(words, head, first, run)?;
            rows = rest;
        }
        Ok(())
    }

    /// Writes all rows, one KV head after the other.
    ///
    /// # Errors
    /// As [`RowWriter::write`].
    pub(super) fn write_all(&self) -> Result<(), Fault> {
        while let Some(mut tile) = self.tiles.next() {
            self.write(&mut tile)?;
        }
        Ok(())
    }

    /// Writes one head of rows in successive slots of one block, from `first` on, into the words of its K and V tile.
    #[inline]
    fn write_run(
        &self,
        words: &mut [u32],
        head: usize,
        first: &PlacedRow<'_>,
        run: &[PlacedRow<'_>],
    ) -> Result<(), Fault> {
        let mut tokens = heapless::Vec::<_, BLOCK_TOKENS>::new();
        for row in run {
            let token = [row_of(row.k, head, self.head_dim), row_of(row.v, head, self.head_dim)];
            let [Some(k), Some(v)] = token else { return Err(Fault::Internal(site!())) };
            tokens.push([k, v]).map_err(|_| Fault::Internal(site!()))?;
        }
        if first.clear {
            words.fill(0);
        }
        let (k, v) = words.split_at_mut_checked(self.k.len() / 4).ok_or(Fault::Internal(site!()))?;
        let (k, v) = (ElementsMut::new(self.k.element, k), ElementsMut::new(self.v.element, v));
        let (k, v) = (k.ok_or(Fault::Internal(site!()))?, v.ok_or(Fault::Internal(site!()))?);
        self.level.store(KvTileMut { k, v }, first.slot, &tokens)
    }
}

/// Returns how many rows, from the first on, are in successive slots of one block.
fn run_length(rows: &[PlacedRow<'_>]) -> usize {
    let follows = |pair: &[PlacedRow<'_>]| matches!(pair, [a, b] if a.block == b.block && a.slot + 1 == b.slot);
    1 + rows.windows(2).take_while(|pair| follows(pair)).count()
}
