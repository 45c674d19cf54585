//! The needs of a model on a GPU, and on the host beside it.

use core::ffi::c_char;

use ::gleed_gpu::{DevicePlan, Hardware, PlannedBuffer};
use gleed::mem::{ALIGN, MemoryError};
use gleed::{Model, Plan};
use gleed_ffi::boundary;
use gleed_ffi::error::{Failure, chars, gleed_error};
use gleed_ffi::object::Object;
use gleed_ffi::ptr::small;
use gleed_ffi::versioned::{Versioned, out_struct};
use gleed_ffi::{gleed_config, gleed_model};

use crate::engine::FRONT;
use crate::failure::{of_gpu, of_plan};
use crate::opened::gleed_gpu;
use crate::status;

/// The needs of a model; see `include/gleed_gpu.h`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct gleed_gpu_plan_info {
    /// `sizeof(gleed_gpu_plan_info)`, set by the caller.
    pub struct_size: u32,
    /// Alignment of the engine's memory.
    pub align: u32,
    /// Bytes of the engine's memory.
    pub bytes: u64,
    /// Bytes of all buffers on the GPU.
    pub device_bytes: u64,
    /// Number of these buffers.
    pub buffers: u32,
    /// Number of dispatches of a batch of one row.
    pub dispatches: u32,
}

/// A buffer on a GPU; see `include/gleed_gpu.h`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct gleed_gpu_buffer {
    /// `sizeof(gleed_gpu_buffer)`, set by the caller.
    pub struct_size: u32,
    /// Always 0.
    pub reserved: u32,
    /// Bytes of the buffer.
    pub bytes: u64,
    /// What the buffer holds.
    pub name: [c_char; 40],
}

// SAFETY: integers, the first the size and the 8-byte ones at multiples of 8: no gaps, and every bit pattern is one.
unsafe impl Versioned for gleed_gpu_plan_info {}
// SAFETY: integers, the first the size and the 8-byte one at a multiple of 8, and 40 bytes: no gaps, and every bit
// pattern is one.
unsafe impl Versioned for gleed_gpu_buffer {}

/// Says what a model needs on a GPU.
///
/// # Safety
/// As `include/gleed_gpu.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_gpu_plan(
    gpu: *const gleed_gpu,
    model: *const gleed_model,
    config: *const gleed_config,
    info: *mut gleed_gpu_plan_info,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment, struct_size and the tags and addresses of objects are checked here. gleed_gpu.h
        // demands the rest: no other call closes `gpu`, and `config`, if any, and `info` have as many bytes as their
        // struct_size says.
        let (opened, model) = unsafe { (Object::get("gpu", gpu)?, Object::get("model", model)?) };
        // SAFETY: NULL, alignment and struct_size are checked here; as many bytes are there as struct_size says.
        let (config, info) = unsafe { (gleed_config::read(config)?, out_struct("info", info)?) };
        let (_, bytes, planned) = plans(opened.gpu.hardware(), model, config)?;
        info.write(gleed_gpu_plan_info {
            struct_size: 0,
            align: small(ALIGN),
            bytes: bytes as u64,
            device_bytes: planned.bytes(),
            buffers: small(planned.buffers().count()),
            dispatches: small(planned.dispatches()),
        });
        Ok(status::OK)
    })
}

/// Says what a buffer of a plan holds.
///
/// # Safety
/// As `include/gleed_gpu.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_gpu_plan_buffer(
    gpu: *const gleed_gpu,
    model: *const gleed_model,
    config: *const gleed_config,
    index: usize,
    buffer: *mut gleed_gpu_buffer,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment, struct_size and the tags and addresses of objects are checked here. gleed_gpu.h
        // demands the rest: no other call closes `gpu`, and `config`, if any, and `buffer` have as many bytes as their
        // struct_size says.
        let (opened, model) = unsafe { (Object::get("gpu", gpu)?, Object::get("model", model)?) };
        // SAFETY: NULL, alignment and struct_size are checked here; as many bytes are there as struct_size says.
        let (config, place) = unsafe { (gleed_config::read(config)?, out_struct("buffer", buffer)?) };
        let (.., planned) = plans(opened.gpu.hardware(), model, config)?;
        let PlannedBuffer { what, bytes } = planned.buffers().nth(index).ok_or_else(|| {
            let buffers = planned.buffers().count();
            Failure::new(status::E_VALUE, format_args!("buffer {index} of {buffers}")).numbers(buffers, index)
        })?;
        place.write(gleed_gpu_buffer { struct_size: 0, reserved: 0, bytes, name: chars(what) });
        Ok(status::OK)
    })
}

/// Returns the plan of an engine, the bytes of all its memory, and the plan of what lies on the GPU.
pub(crate) fn plans(
    hardware: &Hardware,
    model: &Model<'static>,
    config: Option<gleed_config>,
) -> Result<(Plan, usize, DevicePlan<'static>), Failure> {
    let plan = Plan::for_device(model, &gleed_config::limits(config)?).map_err(of_plan)?;
    let bytes = plan.bytes().checked_add(FRONT).ok_or(MemoryError::TooLarge)?;
    let planned = DevicePlan::new(model, &plan, hardware.limits()).map_err(of_gpu)?;
    Ok((plan, bytes, planned))
}
