//! The input of attention: the query heads of a few rows, and how their scores are computed.

use core::ops::Range;

use super::partial::Partial;
use crate::kv::{CHUNK, Positions, Visibility};

/// Largest number of queries of a unit, unless a single row has more. With so many, the cost of reading and converting
/// keys and values, which they share, is small.
pub(super) const MAX_QUERIES: usize = 32;

/// Largest number of multiplications of a unit, unless one chunk has more.
const UNIT: usize = 1 << 22;

/// Largest number of elements of keys that a unit reads, unless one chunk has more.
const UNIT_KEYS: usize = 1 << 17;

/// Returns the number of rows of one sequence that attention processes at a time.
pub fn attend_rows(group: usize) -> usize {
    MAX_QUERIES.checked_div(group).unwrap_or(0).max(1)
}

/// Returns the number of chunks that attention processes at a time, for `rows` rows.
pub fn attend_chunks(rows: usize, group: usize, head_dim: usize) -> usize {
    let multiplications = rows.saturating_mul(group).saturating_mul(head_dim).saturating_mul(2 * CHUNK);
    let chunks = UNIT.checked_div(multiplications).unwrap_or(0);
    chunks.min((UNIT_KEYS / CHUNK).checked_div(head_dim).unwrap_or(0)).max(1)
}

/// The query heads of successive rows of one sequence that share a KV head.
///
/// [Example](crate::kernels#example).
#[derive(Clone, Copy, Debug)]
pub struct Queries<'q> {
    /// The queries: the heads of a row, `[group, head_dim]`, are at the start of every `stride` elements.
    pub q: &'q [f32],
    /// Number of elements from one row to the next.
    pub stride: usize,
    /// Index of the first of these rows in the output.
    pub row: usize,
    /// Number of rows.
    pub rows: usize,
    /// Number of query heads per row.
    pub group: usize,
    /// Number of elements per head.
    pub head_dim: usize,
    /// Index of the KV head.
    pub head: usize,
    /// Absolute position of the first row. The positions of the others follow.
    pub position: usize,
    /// The positions that a row sees.
    pub visibility: Visibility,
    /// How products with keys become scores.
    pub scores: Scores<'q>,
}

/// How the product of a query and a key becomes a score.
///
/// [Example](crate::kernels#example).
#[derive(Clone, Copy, Debug)]
pub struct Scores<'q> {
    /// Factor of the products.
    pub scale: f32,
    /// Soft cap: scores s become `soft_cap * tanh(s / soft_cap)`. 0 means no cap.
    pub soft_cap: f32,
    /// Slope of each head of the group, `[group]`, or empty. The slope times the negative distance between key and
    /// query is added to the score, on both sides of the query. (Press et al., "Train Short, Test Long", 2021.)
    pub slopes: &'q [f32],
}

impl Scores<'_> {
    /// Returns scores that are products times `scale`, without cap and slopes.
    pub const fn scaled(scale: f32) -> Self {
        Self { scale, soft_cap: 0.0, slopes: &[] }
    }

    /// Returns whether scores have a cap or slopes.
    pub(super) fn are_adjusted(&self) -> bool {
        self.soft_cap > 0.0 || !self.slopes.is_empty()
    }
}

impl<'q> Queries<'q> {
    /// Returns the number of queries, or `None` on overflow.
    pub(super) fn len(&self) -> Option<usize> {
        self.rows.checked_mul(self.group)
    }

    /// Returns the shape of a row's partial result.
    pub(super) fn partial(&self) -> Partial {
        Partial { group: self.group, head_dim: self.head_dim }
    }

    /// Returns the row and the head of query `index`. Queries are numbered row by row.
    pub(super) fn place(&self, index: usize) -> Option<(usize, usize)> {
        let row = index.checked_div(self.group)?;
        Some((row, index - row * self.group))
    }

    /// Returns the elements of query `index`.
    pub(super) fn query(&self, index: usize) -> Option<&'q [f32]> {
        let (row, head) = self.place(index)?;
        let start = row.checked_mul(self.stride)?.checked_add(head.checked_mul(self.head_dim)?)?;
        self.q.get(start..start.checked_add(self.head_dim)?)
    }

    /// Returns the positions that query `index` sees.
    pub(super) fn seen(&self, index: usize) -> Option<Positions> {
        Some(self.visibility.at(self.position(index)?))
    }

    /// Returns the positions that at least one query of a range sees.
    pub(super) fn seen_together(&self, range: Range<usize>) -> Option<Positions> {
        let last = self.position(range.end.checked_sub(1)?)?;
        // The position after the last one must be a number, too.
        last.checked_add(1)?;
        Some(self.visibility.between(self.position(range.start)?, last))
    }

    /// Returns the position of query `index`.
    pub(super) fn position(&self, index: usize) -> Option<usize> {
        self.position.checked_add(index.checked_div(self.group)?)
    }
}
