//! The norm of a sum, added to the residual stream.

use core::slice::from_ref;

use super::{Batch, Buffers, Context, Grid, Memory, Operation, Viewed, Work};
use crate::error::Fault;
use crate::kernels::Combine;
use crate::mem::row_of;
use crate::weights::Role;

/// Adds to the residual stream the norm of its own sum with the branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AddSumNormed {
    pub(crate) weight: Role,
}

impl Operation for AddSumNormed {
    fn name(&self) -> &'static str {
        "norm of the sum and add"
    }

    fn tensors(&self) -> &[Role] {
        from_ref(&self.weight)
    }

    fn grid(&self, context: &Context<'_, '_>, _: usize, rows: usize, _: Batch<'_>) -> Grid {
        Grid::by_row(rows, context.config.hidden)
    }

    fn run(&self, context: &Context<'_, '_>, memory: Memory<'_, '_>, work: Work<'_>) -> Result<usize, Fault> {
        let (level, hidden) = (context.level, context.config.hidden);
        let norm = context.weights.norm(work.layer, self.weight).ok_or(Fault::Internal(site!()))?;
        let Buffers { x, branch, scratch, .. } = memory.buffers;
        work.each_row(x, scratch, &|index, out, scratch| {
            let sum = scratch.get_mut(..hidden).ok_or(Fault::Internal(site!()))?;
            let row = row_of(branch, index, hidden).ok_or(Fault::Internal(site!()))?;
            sum.iter_mut().zip(row).for_each(|(sum, &branch)| *sum = branch);
            level.combine(Combine::Add, sum, out);
            level.norm_in_place(&norm, sum);
            level.combine(Combine::Add, out, sum);
            Ok(())
        })
    }
}

impl Viewed for AddSumNormed {}
