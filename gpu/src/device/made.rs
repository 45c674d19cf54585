//! What is made and uploaded before anything runs.

use std::collections::BTreeMap;

use bytemuck::cast_slice;

use super::Bound;
use crate::catalog::Weights;
use crate::error::GpuError;
use crate::gpu::Gpu;
use crate::hardware::{Buffer, PIECE};
use crate::layout::arranged;
use crate::memory::Upload;
use crate::params::SLOT;
use crate::place::{Dispatch, Place, rows_number};
use crate::plan::DevicePlan;

pub(super) async fn upload(
    gpu: &Gpu,
    plan: &DevicePlan<'_>,
    buffers: &BTreeMap<Place, Buffer>,
) -> Result<(), GpuError> {
    let of = |place: Place| buffers.get(&place).ok_or(GpuError::Mismatch(place.name()));
    let mut written = 0;
    for upload in &plan.uploads {
        upload_rows(gpu, of(Place::Weights(upload.buffer))?, upload, &mut written).await?;
    }
    gpu.hardware.upload(of(Place::Vectors)?, 0, cast_slice(&plan.vectors), &mut written).await?;
    let params = of(Place::Params)?;
    for (index, dispatch) in plan.dispatches.iter().chain(&plan.choices).enumerate() {
        gpu.hardware.write(params, (index * SLOT) as u64, &dispatch.params)?;
    }
    Ok(())
}

/// Rows of a matrix, so many at a time that they fit in a piece.
async fn upload_rows(gpu: &Gpu, to: &Buffer, upload: &Upload<'_>, written: &mut usize) -> Result<(), GpuError> {
    let (dtype, cols) = (upload.rows.dtype(), upload.rows.cols());
    let weights = Weights::of(dtype).ok_or(GpuError::Unsupported { what: dtype.name() })?;
    let from = dtype.row_bytes(cols).unwrap_or(0).max(1);
    let mut at = upload.at;
    for rows in upload.rows.bytes().chunks((PIECE / from).max(1) * from) {
        let rows = arranged(weights, cols, rows);
        gpu.hardware.upload(to, at, &rows, written).await?;
        at += rows.len() as u64;
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
