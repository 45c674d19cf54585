//! Cosines and sines of the positions, for the rotations of all layers.

use super::{Batch, Buffers, Context, Grid, Memory, Operation, Viewed, Work};
use crate::device::OpView;
use crate::error::Fault;
use crate::weights::Role;

/// Cosines and sines of every row's position, for each set of rotary frequencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Angles;

impl Operation for Angles {
    fn name(&self) -> &'static str {
        "angles"
    }

    fn tensors(&self) -> &[Role] {
        &[Role::RopeDivisors, Role::LongRopeDivisors, Role::ShortRopeDivisors]
    }

    fn grid(&self, context: &Context<'_, '_>, _: usize, rows: usize, _: Batch<'_>) -> Grid {
        Grid::by_row(rows, context.config.rope.width())
    }

    fn run(&self, context: &Context<'_, '_>, memory: Memory<'_, '_>, work: Work<'_>) -> Result<usize, Fault> {
        let rotary = context.rotary();
        let Buffers { rotations, scratch, .. } = memory.buffers;
        work.each_row(rotations, scratch, &|index, out, _| {
            let row = work.batch.rows.get(index).ok_or(Fault::Internal(site!()))?;
            rotary.angles(row.position as usize, context.frequencies, out).ok_or(Fault::Internal(site!()))
        })
    }
}

impl Viewed for Angles {
    fn view<'m>(&self, context: &Context<'m, '_>, _: usize) -> Option<OpView<'m>> {
        Some(OpView::Angles(context.rotary()))
    }
}
