//! Cosines and sines of the positions, for the rotations of all layers.

use super::{Batch, Buffers, Context, Grid, Memory, Operation, Work};
use crate::error::Fault;
use crate::nn::rotation;
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
        let rope = context.config.rope;
        let Buffers { rotations, scratch, .. } = memory.buffers;
        work.each_row(rotations, scratch, &|index, out, _| {
            let row = work.batch.rows.get(index).ok_or(Fault::Internal(site!()))?;
            let (mut out, mut frequencies) = (out, &*context.frequencies);
            for (set, dims, _) in rope.sets() {
                let of_set = (out.split_at_mut_checked(dims), frequencies.split_at_checked(dims / 2));
                let (Some((angles, others)), Some((own, rest))) = of_set else { return Err(Fault::Internal(site!())) };
                rotation(row.position as usize, own, set.magnitude, angles);
                (out, frequencies) = (others, rest);
            }
            Ok(())
        })
    }
}
