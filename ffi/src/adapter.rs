//! LoRA adapters: opened in the caller's memory, loaded into an engine, wanted by sequences.

use core::ffi::c_void;

use gleed::SeqId;
use gleed::model::Adapter;

use crate::engine::gleed_engine;
use crate::error::{gleed_error, run};
use crate::model::gleed_model;
use crate::object::{Object, Opaque};
use crate::ptr::{Versioned, memory, out, out_struct, slice, small};
use crate::sequence::gleed_seq;
use crate::status;

impl Opaque for Adapter<'static> {
    const MAGIC: u64 = u64::from_le_bytes(*b"gleedA01");
}

/// An adapter, checked against its model. The bytes of its file stay the caller's.
pub type gleed_adapter = Object<Adapter<'static>>;

/// What an adapter is; see `include/gleed.h`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct gleed_adapter_info {
    /// `sizeof(gleed_adapter_info)`, set by the caller.
    pub struct_size: u32,
    /// The largest rank of its matrices.
    pub rank: u32,
}

// SAFETY: integers of 4 bytes, which leave no gaps and take every bit pattern.
unsafe impl Versioned for gleed_adapter_info {}

/// Bytes and alignment of the memory that [`gleed_adapter_open`] wants.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_adapter_size(size: *mut usize, align: *mut usize, error: *mut gleed_error) -> i32 {
    // SAFETY: the caller's promises, as the header states them.
    unsafe {
        run(error, || {
            let (size, align) = (out("size", size)?, out("align", align)?);
            size.write(size_of::<gleed_adapter>());
            align.write(align_of::<gleed_adapter>());
            Ok(status::OK)
        })
    }
}

/// Checks an adapter's file against a model and describes it in `memory`.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_adapter_open(
    model: *const gleed_model,
    bytes: *const u8,
    len: usize,
    memory: *mut c_void,
    memory_len: usize,
    adapter: *mut *const gleed_adapter,
    error: *mut gleed_error,
) -> i32 {
    // SAFETY: the caller's promises, as the header states them.
    unsafe {
        run(error, || {
            let model = Object::get("model", model)?;
            let bytes = slice("bytes", bytes, len)?;
            let adapter = out("adapter", adapter)?;
            let opened = Adapter::open(bytes, model)?;
            // Not before: memory that a call fails with may still hold another adapter.
            let (needed, align) = (size_of::<gleed_adapter>(), align_of::<gleed_adapter>());
            let memory = self::memory("memory", memory.cast(), memory_len, needed, align)?;
            adapter.write(Object::place(memory, opened)?);
            Ok(status::OK)
        })
    }
}

/// Says what an adapter is.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_adapter_describe(
    adapter: *const gleed_adapter,
    info: *mut gleed_adapter_info,
    error: *mut gleed_error,
) -> i32 {
    // SAFETY: the caller's promises, as the header states them.
    unsafe {
        run(error, || {
            let adapter = Object::get("adapter", adapter)?;
            let info = out_struct("info", info)?;
            info.write(gleed_adapter_info { struct_size: 0, rank: small(adapter.rank()) });
            Ok(status::OK)
        })
    }
}

/// Loads an adapter into an engine.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_engine_load_adapter(
    engine: *mut gleed_engine,
    adapter: *const gleed_adapter,
    number: *mut u32,
    error: *mut gleed_error,
) -> i32 {
    // SAFETY: the caller's promises, as the header states them.
    unsafe {
        run(error, || {
            let mut engine = Object::get_mut("engine", engine)?;
            let adapter = Object::get("adapter", adapter)?;
            let number = out("number", number)?;
            number.write(small(engine.load_adapter(adapter)?));
            Ok(status::OK)
        })
    }
}

/// How much of an adapter a sequence wants.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_seq_set_adapter(
    engine: *mut gleed_engine,
    seq: gleed_seq,
    number: u32,
    scale: f32,
    error: *mut gleed_error,
) -> i32 {
    // SAFETY: the caller's promises, as the header states them.
    unsafe {
        run(error, || {
            let mut engine = Object::get_mut("engine", engine)?;
            engine.set_adapter(SeqId::from_bits(seq), usize::try_from(number).unwrap_or(usize::MAX), scale)?;
            Ok(status::OK)
        })
    }
}

/// How much of an adapter a sequence has.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_seq_adapter(
    engine: *const gleed_engine,
    seq: gleed_seq,
    number: u32,
    scale: *mut f32,
    error: *mut gleed_error,
) -> i32 {
    // SAFETY: the caller's promises, as the header states them.
    unsafe {
        run(error, || {
            let engine = Object::get("engine", engine)?;
            let scale = out("scale", scale)?;
            scale.write(engine.adapter(SeqId::from_bits(seq), usize::try_from(number).unwrap_or(usize::MAX))?);
            Ok(status::OK)
        })
    }
}
