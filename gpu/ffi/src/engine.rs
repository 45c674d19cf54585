//! Engines on a GPU: their start, the state of their device, its end.

use core::ffi::{c_char, c_void};

use ::gleed_gpu::GpuDevice;
use gleed::mem::{ALIGN, MemoryError};
use gleed::{Engine, Model, Plan};
use gleed_ffi::boundary;
use gleed_ffi::error::{Failure, gleed_error};
use gleed_ffi::object::Object;
use gleed_ffi::ptr::{memory, out};
use gleed_ffi::versioned::{Versioned, out_struct};
use gleed_ffi::{HEAD, gleed_config, gleed_engine, gleed_model};

use crate::failure::of_gpu;
use crate::opened::{gleed_gpu, lost_text};
use crate::plan::plans;
use crate::slot::{Port, Slot, gleed_gpu_model};
use crate::status;

/// The memory between the head of an engine and the bytes of its plan.
#[repr(C)]
struct Middle {
    slot: gleed_gpu_model,
    port: Port,
}

const MIDDLE: usize = size_of::<Middle>().next_multiple_of(ALIGN);

const _: () = assert!(align_of::<Middle>() <= ALIGN);

/// Bytes of an engine's memory before those of its plan.
pub(crate) const FRONT: usize = HEAD + MIDDLE;

/// A model on a GPU in numbers; see `include/gleed_gpu.h`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct gleed_gpu_use {
    /// `sizeof(gleed_gpu_use)`, set by the caller.
    pub struct_size: u32,
    /// 1 where the device is lost, or closed.
    pub is_lost: u32,
    /// Number of submits so far.
    pub submits: u64,
    /// Nanoseconds that the host took to encode these submits.
    pub encoding_ns: u64,
    /// Why the device is lost; empty where it is not lost, or was closed.
    pub reason: [c_char; 96],
}

// SAFETY: integers, the first the size and the 8-byte ones at multiples of 8, and 96 bytes: no gaps, and every bit
// pattern is one.
unsafe impl Versioned for gleed_gpu_use {}

/// Starts an engine whose keys and values, and whose work, are on a GPU.
///
/// # Safety
/// As `include/gleed_gpu.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_gpu_engine_init(
    gpu: *mut gleed_gpu,
    model: *const gleed_model,
    config: *const gleed_config,
    memory: *mut c_void,
    memory_len: usize,
    engine: *mut *mut gleed_engine,
    held: *mut *mut gleed_gpu_model,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment and the tags and addresses of objects are checked here. gleed_gpu.h demands the rest:
        // no call closes `gpu` as long as the model is on it, and none changes `model`.
        let (opened, model) = unsafe { (Object::get("gpu", gpu.cast_const())?, Object::get("model", model)?) };
        // SAFETY: NULL, alignment and struct_size are checked here. gleed_gpu.h demands the rest: `engine` and `held`
        // are places for results that nothing else uses, and `config` is NULL or has as many bytes as its struct_size
        // says.
        let (engine, held, config) =
            unsafe { (out("engine", engine)?, out("held", held)?, gleed_config::read(config)?) };
        let (plan, bytes, planned) = plans(opened.gpu.hardware(), model, config)?;
        if !opened.gpu.has(&planned.kernels()) {
            let text = format_args!("the GPU was opened for another model or configuration, and lacks kernels");
            return Err(Failure::new(status::E_GPU_UNSUPPORTED, text));
        }
        // SAFETY: the size and alignment of the memory are checked here. gleed_gpu.h demands the rest: nothing else
        // uses `memory_len` bytes at `memory`, as long as the engine is used. So they are lent for as long as anyone
        // may look.
        let memory = unsafe { self::memory("memory", memory.cast(), memory_len, bytes, ALIGN) }?;
        let device = Box::new(GpuDevice::new(&opened.gpu, planned).map_err(of_gpu)?);
        let (made, slot) = place(model, &plan, memory, Slot::new(opened, device))?;
        engine.write(made);
        held.write(slot);
        Ok(status::OK)
    })
}

/// Puts an engine at the start of the memory, with its device behind its head.
#[inline(never)]
fn place(
    model: &Model<'static>,
    plan: &Plan,
    memory: &'static mut [u8],
    slot: Slot,
) -> Result<(*mut gleed_engine, *mut gleed_gpu_model), Failure> {
    let too_small = |memory: usize| MemoryError::TooSmall { needed: FRONT, given: memory };
    let given = memory.len();
    let (head, rest) = memory.split_at_mut_checked(HEAD).ok_or(too_small(given))?;
    let (middle, rest) = rest.split_at_mut_checked(MIDDLE).ok_or(too_small(given))?;
    let slot = Object::place(middle, slot)?;
    // SAFETY: `place` has just made the object at the start of the middle, which the caller lent for good; nobody
    // changes it but through its mutex.
    let shared: &'static Slot = unsafe { Object::get("held", slot.cast_const()) }?;
    let port = slot.cast::<u8>().wrapping_add(core::mem::offset_of!(Middle, port)).cast::<Port>();
    // SAFETY: a `Middle` fits the middle (MIDDLE is as large, and `Object::place` has found it aligned), and its port
    // lies behind the object. Nobody else has a pointer to it.
    let port: &'static mut Port = unsafe {
        port.write(Port(shared));
        &mut *port
    };
    let engine = Engine::with_device(model, plan, rest, port).inspect_err(|_| shared.close())?;
    Ok((Object::place(head, engine)?, slot))
}

/// Describes a model on a GPU.
///
/// # Safety
/// As `include/gleed_gpu.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_gpu_model_describe(
    held: *const gleed_gpu_model,
    info: *mut gleed_gpu_use,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment, struct_size and the tag and address of `held` are checked here. gleed_gpu.h demands
        // the rest: its memory is used for nothing else yet, and `info` has as many bytes as its struct_size says.
        let (slot, info) = unsafe { (Object::get("held", held)?, out_struct("info", info)?) };
        let device = slot.device();
        let failure = device.as_ref().and_then(|device| device.failure());
        let submits = device.as_ref().map_or(0, |device| device.submits());
        let encoding = device.as_ref().map_or(0, |device| device.encoding().as_nanos());
        info.write(gleed_gpu_use {
            struct_size: 0,
            is_lost: u32::from(device.is_none() || failure.is_some()),
            submits,
            encoding_ns: u64::try_from(encoding).unwrap_or(u64::MAX),
            reason: lost_text(failure),
        });
        Ok(status::OK)
    })
}

/// Frees a model's memory on a GPU.
///
/// # Safety
/// As `include/gleed_gpu.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_gpu_model_close(held: *mut gleed_gpu_model, error: *mut gleed_error) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment and the tag and address of `held` are checked here. gleed_gpu.h demands the rest: its
        // memory is used for nothing else yet.
        let slot = unsafe { Object::get("held", held.cast_const()) }?;
        slot.close();
        Ok(status::OK)
    })
}
