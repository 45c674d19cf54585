//! How a tensor of a folder is written: its rows and columns, their order, and changes of the elements.

use super::config::Config;
use crate::output::{Change, Order};
use common::Result;

/// How a tensor is written.
#[derive(Clone, Copy)]
pub(crate) enum How {
    /// Unchanged. A tensor with three dimensions is one matrix after the other.
    Same,
    /// Rows of Q are reordered for rotations of adjacent pairs. `PairsOfK`: the same for K.
    PairsOfQ,
    PairsOfK,
    /// The weight is stored by columns.
    Transposed,
    /// The model adds 1 to the weight.
    PlusOne,
    /// The matrix has Q, K and V of one head after the other.
    Fused,
    /// One matrix per expert.
    Experts,
    /// One vector per head of Q. `HeadsOfK`: of K.
    HeadsOfQ,
    HeadsOfK,
    /// The first or the second half of the rows of each matrix.
    Half(usize),
    /// A half of the rows of matrices that read the residual stream. They are stored by columns if their last dimension
    /// is not the width of the stream. `Either`: matrices that write to it, stored by columns if it is.
    EitherHalf(usize),
    Either,
    /// Q, K or V from a matrix of all three. Rows of Q and K are reordered for rotations of adjacent pairs.
    /// `PartOfGroups`: in the matrix, the query heads of each KV head come before its K and V.
    PartOfQkv(Part),
    PartOfGroups(Part),
    /// Every second row of each matrix, beginning with the first or the second one.
    Every(usize),
    /// Every second row of a weight that is stored by columns. `EveryColumn`: every second column.
    TransposedEvery(usize),
    EveryColumn(usize),
    /// One number for each head, written as a column.
    PerHead,
    /// One number for each head, of which `-exp(x)` is written as a column.
    DecayPerHead,
    /// Norms over the groups of a state space.
    Groups,
    /// Rows of the delta rule's value heads. In a folder the value heads of one key head lie side by side. In a GGUF
    /// file the first ones of all key heads come first.
    Tiled,
    /// As `Tiled`, after the rows of queries and keys. `TiledColumns`: for columns. `TiledDecay`: `-exp(x)` is written.
    TiledAfterKeys,
    TiledColumns,
    TiledDecay,
    /// Every element is multiplied by these factors.
    Times(fn(&Config) -> Result<Vec<f32>>),
    /// One matrix for each expert, one below the other. `TransposedStacked`: the weights are stored by columns.
    Stacked,
    TransposedStacked,
    /// A vector that is stored as a matrix.
    Flat,
    /// Learned positions, without the rows for padding.
    Positions,
    /// The tensor is not written.
    LeftOut,
    /// The tensor is not written, and all elements must be 0.
    Zeros,
}

/// A part of a matrix of Q, K and V.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Part {
    Q,
    K,
    V,
}

/// The rows, the columns and the change of elements that a tensor is written with.
pub(crate) struct Plan {
    pub(crate) order: Order,
    pub(crate) columns: Option<Vec<usize>>,
    pub(crate) change: Change,
}

impl How {
    /// Returns whether rows are reordered. The rows of a vector are its elements.
    pub(crate) fn orders_rows(self) -> bool {
        use How::{Fused, PairsOfK, PairsOfQ, PartOfGroups, PartOfQkv, Tiled, TiledAfterKeys, TiledDecay};
        matches!(
            self,
            Fused | PairsOfK | PairsOfQ | PartOfGroups(_) | PartOfQkv(_) | Tiled | TiledAfterKeys | TiledDecay
        )
    }

    /// Returns whether a weight of this shape is stored by columns.
    pub(crate) fn is_transposed(self, config: &Config, shape: &[usize]) -> Result<bool> {
        let of_width = |config: &Config| Ok::<_, Box<dyn std::error::Error>>(shape.last() == Some(&config.hidden()?));
        Ok(match self {
            Self::Transposed | Self::TransposedEvery(_) | Self::TransposedStacked => true,
            Self::EitherHalf(_) => !of_width(config)?,
            Self::Either => of_width(config)?,
            _ => false,
        })
    }

    /// Returns the plan for `stack` matrices that have `rows` rows together.
    pub(crate) fn plan(self, config: &Config, [rows, cols]: [usize; 2], stack: usize, is_weight: bool) -> Result<Plan> {
        let mut plan = Plan { order: Order::Same, columns: None, change: Change::Nothing };
        match self {
            Self::PairsOfQ => plan.order = Order::Pairs { heads: config.heads()? },
            Self::PairsOfK => plan.order = Order::Pairs { heads: config.kv_heads()? },
            Self::Fused => plan.order = Order::Fused { heads: config.heads()? },
            Self::PlusOne if is_weight => plan.change = Change::Plus(1.0),
            Self::PartOfQkv(part) => plan.order = part_of_qkv(config, part, rows, false)?,
            Self::PartOfGroups(part) => plan.order = part_of_qkv(config, part, rows, true)?,
            Self::Half(which) | Self::EitherHalf(which) => {
                let (each, half) = (rows / stack, rows / stack / 2);
                let of_matrix = |matrix: usize| (0..half).map(move |row| matrix * each + which * half + row);
                plan.order = Order::Picked((0..stack).flat_map(of_matrix).collect());
            }
            Self::Every(which) | Self::TransposedEvery(which) => {
                plan.order = Order::Picked((which..rows).step_by(2).collect());
            }
            Self::EveryColumn(which) => plan.columns = Some((which..cols).step_by(2).collect()),
            Self::Tiled => plan.order = tiled(config, 0, rows)?,
            Self::TiledAfterKeys => {
                let keys = config.size(&["linear_num_key_heads"])? * config.size(&["linear_key_head_dim"])?;
                plan.order = tiled(config, 2 * keys, rows)?;
            }
            Self::TiledColumns => {
                if let Order::Picked(columns) = tiled(config, 0, cols)? {
                    plan.columns = Some(columns);
                }
            }
            Self::TiledDecay => {
                plan.order = tiled(config, 0, rows)?;
                plan.change = Change::MinusExp;
            }
            Self::DecayPerHead => plan.change = Change::MinusExp,
            Self::Times(factors) => plan.change = Change::Times(factors(config)?),
            _ => {}
        }
        Ok(plan)
    }
}

/// Returns the rows of Q, K or V in a matrix of all three. The heads of Q come first, or with `in_groups` the heads of
/// each group.
fn part_of_qkv(config: &Config, part: Part, rows: usize, in_groups: bool) -> Result<Order> {
    let (heads, kv_heads, len) = (config.heads()?, config.kv_heads()?, config.head_dim()?);
    let group = heads / kv_heads.max(1);
    if rows != (heads + 2 * kv_heads) * len || !heads.is_multiple_of(kv_heads) {
        return Err(format!("it has {rows} rows, not those of {heads} heads and {kv_heads} of keys and values").into());
    }
    let first = |head: usize| match (part, in_groups) {
        (Part::Q, false) => head,
        (Part::K, false) => heads + head,
        (Part::V, false) => heads + kv_heads + head,
        (Part::Q, true) => head / group * (group + 2) + head % group,
        (Part::K, true) => head * (group + 2) + group,
        (Part::V, true) => head * (group + 2) + group + 1,
    };
    let source = |row: usize| if part == Part::V { row } else { row / 2 + row % 2 * (len / 2) };
    let count = if part == Part::Q { heads } else { kv_heads };
    Ok(Order::Picked((0..count).flat_map(|head| (0..len).map(move |row| first(head) * len + source(row))).collect()))
}

/// Returns the rows of the value heads, which begin after `skipped` of `all` rows. Value heads with the same index
/// beside their key head come together.
fn tiled(config: &Config, skipped: usize, all: usize) -> Result<Order> {
    let (keys, values) = (config.size(&["linear_num_key_heads"])?, config.size(&["linear_num_value_heads"])?);
    let rows = all.checked_sub(skipped).filter(|rows| rows.is_multiple_of(values) && values.is_multiple_of(keys));
    let len = rows.ok_or_else(|| format!("its {all} rows are not what the heads of the delta rule say"))? / values;
    if keys == values {
        return Ok(Order::Same);
    }
    let of_head = |head: usize| (head % keys) * (values / keys) + head / keys;
    let rows = (0..values).flat_map(|head| (0..len).map(move |row| skipped + of_head(head) * len + row));
    Ok(Order::Picked((0..skipped).chain(rows).collect()))
}
