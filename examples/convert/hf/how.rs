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

/// What is done with rows, columns and elements.
pub(crate) struct Plan {
    pub(crate) order: Order,
    pub(crate) columns: Option<Vec<usize>>,
    pub(crate) change: Change,
}

impl How {
    /// Whether rows are put in another order. Those of a vector are its elements.
    pub(crate) fn orders_rows(self) -> bool {
        use How::{Fused, PairsOfK, PairsOfQ, Tiled, TiledAfterKeys, TiledDecay};
        matches!(self, Fused | PairsOfK | PairsOfQ | Tiled | TiledAfterKeys | TiledDecay)
    }

    /// For `stack` matrices that have so many rows together.
    pub(crate) fn plan(self, config: &Config, [rows, cols]: [usize; 2], stack: usize, is_weight: bool) -> Result<Plan> {
        let mut plan = Plan { order: Order::Same, columns: None, change: Change::Nothing };
        match self {
            Self::PairsOfQ => plan.order = Order::Pairs { heads: config.heads()? },
            Self::PairsOfK => plan.order = Order::Pairs { heads: config.kv_heads()? },
            Self::Fused => plan.order = Order::Fused { heads: config.heads()? },
            Self::PlusOne if is_weight => plan.change = Change::Plus(1.0),
            Self::Half(which) => {
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
