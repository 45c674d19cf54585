//! Errors of GPUs as failures of a call.

use ::gleed_gpu::GpuError;
use gleed::engine::PlanError;
use gleed_ffi::error::Failure;

use crate::status;

/// Returns the failure for an error of a GPU, with its numbers.
pub(crate) fn of_gpu(error: GpuError) -> Failure {
    let new = |status| Failure::new(status, format_args!("{error}"));
    match error {
        GpuError::NoAdapter { .. } => new(status::E_GPU_ADAPTER),
        GpuError::Unfit { .. } => new(status::E_GPU_UNFIT),
        GpuError::Unsupported { .. } => new(status::E_GPU_UNSUPPORTED),
        GpuError::TooLarge { bytes, most, .. } => new(status::E_GPU_TOO_LARGE).numbers(most, bytes),
        GpuError::OutOfMemory { bytes } => new(status::E_GPU_MEMORY).numbers(bytes, 0_u32),
        GpuError::NoDevice(_) | GpuError::Refused(_) => new(status::E_GPU_DRIVER),
        GpuError::Timeout(_) => new(status::E_GPU_TIMEOUT),
        GpuError::Lost(_) => new(status::E_DEVICE_LOST),
        _ => new(status::E_INTERNAL),
    }
}

/// Returns the failure for an error of a plan. A device that cannot do something is not a limit that is out of range.
pub(crate) fn of_plan(error: PlanError) -> Failure {
    match error {
        PlanError::Device { what } => {
            Failure::new(status::E_GPU_UNSUPPORTED, format_args!("this does not run on a GPU: {what}"))
        }
        error => error.into(),
    }
}
