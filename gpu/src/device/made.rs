//! What is made and uploaded before anything runs.

use std::collections::BTreeMap;

use bytemuck::cast_slice;

use super::Bound;
use crate::error::GpuError;
use crate::gpu::Gpu;
use crate::hardware::Buffer;
use crate::params::SLOT;
use crate::place::{Dispatch, Place, rows_number};
use crate::plan::DevicePlan;

pub(super) async fn upload(
    gpu: &Gpu,
    plan: &DevicePlan<'_>,
    buffers: &BTreeMap<Place, Buffer>,
) -> Result<(), GpuError> {
    let of = |place: Place| buffers.get(&place).ok_or(GpuError::Mismatch(place.name()));
    for upload in &plan.uploads {
        let to = of(Place::Weights(upload.buffer))?;
        let (words, rest) = upload.bytes.split_at(upload.bytes.len() / 4 * 4);
        gpu.hardware.upload(to, upload.at, words).await?;
        if !rest.is_empty() {
            let mut last = [0; 4];
            last[..rest.len()].copy_from_slice(rest);
            gpu.hardware.write(to, upload.at + words.len() as u64, &last)?;
        }
    }
    gpu.hardware.upload(of(Place::Vectors)?, 0, cast_slice(&plan.vectors)).await?;
    let params = of(Place::Params)?;
    for (index, dispatch) in plan.dispatches.iter().chain(&plan.choices).enumerate() {
        gpu.hardware.write(params, (index * SLOT) as u64, &dispatch.params)?;
    }
    Ok(())
}

/// Binds a dispatch, and for many rows the kernel that computes tiles.
pub(super) fn bind(
    gpu: &Gpu,
    buffers: &BTreeMap<Place, Buffer>,
    index: usize,
    dispatch: &Dispatch,
) -> Result<Bound, GpuError> {
    let of = |place: Place| buffers.get(&place).ok_or(GpuError::Mismatch(place.name()));
    let own = dispatch.buffers.iter().map(|&place| of(place)).collect::<Result<Vec<_>, _>>()?;
    let params = (of(Place::Params)?, (index * SLOT) as u64, SLOT as u64);
    let bound = |kernel| Ok((kernel, gpu.hardware.bind(gpu.catalog.get(kernel)?, params, &own)?));
    Ok(Bound {
        step: dispatch.step,
        rows: rows_number(dispatch.rows) as usize,
        few: bound(dispatch.kernel)?,
        many: dispatch.for_many().map(bound).transpose()?,
        shaped: dispatch.shaped,
        batches: dispatch.batches,
    })
}
