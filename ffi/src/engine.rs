//! Engines: how much memory, and the start in it.

use core::ffi::c_void;

use gleed::mem::{ALIGN, MemoryError};
use gleed::{Engine, Model, Plan};

use crate::config::gleed_config;
use crate::error::{Failure, gleed_error, run};
use crate::model::gleed_model;
use crate::object::{Object, Opaque};
use crate::ptr::{memory, out};
use crate::status;

impl Opaque for Engine<'static, 'static> {
    const MAGIC: u64 = u64::from_le_bytes(*b"gleedE01");
}

/// An engine at the head of its memory; the rest of it follows at the next multiple of [`ALIGN`].
pub type gleed_engine = Object<Engine<'static, 'static>>;

/// Bytes at the head of an engine's memory that the handle takes; the plan's bytes follow.
pub const HEAD: usize = size_of::<gleed_engine>().next_multiple_of(ALIGN);

const _: () = assert!(align_of::<gleed_engine>() <= ALIGN);

/// Bytes and alignment of the memory that [`gleed_engine_init`] wants.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_plan(
    model: *const gleed_model,
    config: *const gleed_config,
    size: *mut usize,
    align: *mut usize,
    error: *mut gleed_error,
) -> i32 {
    // SAFETY: the caller's promises, as the header states them.
    unsafe {
        run(error, || {
            let (size, align) = (out("size", size)?, out("align", align)?);
            let (_, bytes) = plan(Object::get("model", model)?, config)?;
            size.write(bytes);
            align.write(ALIGN);
            Ok(status::OK)
        })
    }
}

/// Starts an engine without sequences.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_engine_init(
    model: *const gleed_model,
    config: *const gleed_config,
    memory: *mut c_void,
    memory_len: usize,
    engine: *mut *mut gleed_engine,
    error: *mut gleed_error,
) -> i32 {
    // SAFETY: the caller's promises, as the header states them. The memory is the engine's until the caller
    // uses it for something else, which ends the engine: it lives as long as anyone may look.
    unsafe {
        run(error, || {
            let engine = out("engine", engine)?;
            let model = Object::get("model", model)?;
            let (plan, bytes) = plan(model, config)?;
            let memory = self::memory("memory", memory.cast(), memory_len, bytes, ALIGN)?;
            let (head, rest) = memory.split_at_mut_checked(HEAD).unwrap_or_default();
            engine.write(Object::place(head, Engine::new(model, &plan, rest)?)?);
            Ok(status::OK)
        })
    }
}

/// The plan, and the bytes of head and plan together.
///
/// # Safety
/// As [`gleed_config::limits`].
unsafe fn plan(model: &Model<'_>, config: *const gleed_config) -> Result<(Plan, usize), Failure> {
    // SAFETY: the caller's promise.
    let limits = unsafe { gleed_config::limits(config) }?;
    let plan = Plan::new(model, &limits)?;
    let bytes = plan.bytes().checked_add(HEAD).ok_or(MemoryError::TooLarge)?;
    Ok((plan, bytes))
}
