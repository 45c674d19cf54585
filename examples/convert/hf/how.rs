//! How a tensor of a folder is written: which rows and columns, in which order, and what becomes of its elements.

use super::config::Config;
use crate::output::{Change, Order};
use common::Result;

/// How a tensor is written.
#[derive(Clone, Copy)]
pub(crate) enum How {
    /// As it is; one matrix after the other where it has three dimensions.
    Same,
    /// Rows of Q and of K, for rotations of adjacent pairs.
    PairsOfQ,
    PairsOfK,
    /// The weight is stored by columns.
    Transposed,
    /// The model adds 1 to the weight.
    PlusOne,
    /// Q, K and V of each head, one head after the other.
    Fused,
    /// One matrix per expert.
    Experts,
    /// One vector per head of Q, of K.
    HeadsOfQ,
    HeadsOfK,
    /// The first or the second half of the rows of each matrix.
    Half(usize),
    /// The same of matrices that read the residual stream, which are stored by columns where their last dimension is
    /// not its width; matrices that write to it, which are stored by columns where it is.
    EitherHalf(usize),
    Either,
    /// Q, K or V of a matrix of all three, with the rows of Q and K for rotations of adjacent pairs; the same where the
    /// query heads of each KV head have its K and V behind them.
    PartOfQkv(Part),
    PartOfGroups(Part),
    /// Every second row of each matrix, from the first or the second one on.
    Every(usize),
    /// The same of a weight that is stored by columns; the same with columns.
    TransposedEvery(usize),
    EveryColumn(usize),
    /// A number for each head, as a column.
    PerHead,
    /// The same, of which `-exp(x)` is written.
    DecayPerHead,
    /// A norm over each group of a state space.
    Groups,
    /// What the delta rule has for each value head. Value heads of one key head lie side by side in a folder; in a file
    /// the first ones of all key heads come first.
    Tiled,
    /// The same after the rows of queries and keys; the same with columns; the same of which `-exp(x)` is written.
    TiledAfterKeys,
    TiledColumns,
    TiledDecay,
    /// Every element is multiplied by this.
    Times(fn(&Config) -> Result<Vec<f32>>),
    /// As many matrices as there are experts, one below the other; the same of weights that are stored by columns.
    Stacked,
    TransposedStacked,
    /// A vector that is stored as a matrix.
    Flat,
    /// Learned positions, after those of padding.
    Positions,
    /// It is not written.
    LeftOut,
    /// It is not written, and has to be 0.
    Zeros,
}

/// A part of the matrix of Q, K and V.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Part {
    Q,
    K,
    V,
}

/// What is done with rows, columns and elements.
pub(crate) struct Plan {
    pub(crate) order: Order,
    pub(crate) columns: Option<Vec<usize>>,
    pub(crate) change: Change,
}

impl How {
    /// Whether rows are put in another order. Those of a vector are its elements.
    pub(crate) fn orders_rows(self) -> bool {
        use How::{Fused, PairsOfK, PairsOfQ, PartOfGroups, PartOfQkv, Tiled, TiledAfterKeys, TiledDecay};
        matches!(
            self,
            Fused | PairsOfK | PairsOfQ | PartOfGroups(_) | PartOfQkv(_) | Tiled | TiledAfterKeys | TiledDecay
        )
    }

    /// Whether a weight of this shape is stored by columns.
    pub(crate) fn is_transposed(self, config: &Config, shape: &[usize]) -> Result<bool> {
        let of_width = |config: &Config| Ok::<_, Box<dyn std::error::Error>>(shape.last() == Some(&config.hidden()?));
        Ok(match self {
            Self::Transposed | Self::TransposedEvery(_) | Self::TransposedStacked => true,
            Self::EitherHalf(_) => !of_width(config)?,
            Self::Either => of_width(config)?,
            _ => false,
        })
    }

    /// For `stack` matrices that have so many rows together.
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

/// The rows of a part of the matrix of Q, K and V: of all heads of Q first, or of the heads of each group.
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

/// The value heads after the first `skipped` of `all` rows, those with the same place beside their key head together.
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
