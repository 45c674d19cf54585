//! The upload of weights and parameters, before anything runs.

use std::collections::BTreeMap;

use bytemuck::cast_slice;

use crate::catalog::Weights;
use crate::error::GpuError;
use crate::gpu::Gpu;
use crate::hardware::{Buffer, PIECE};
use crate::layout::arranged;
use crate::memory::Upload;
use crate::params::SLOT;
use crate::place::Place;
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

/// Uploads rows of a matrix, as many at a time as fit in a piece.
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
