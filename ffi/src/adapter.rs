//! LoRA adapters: opened in the caller's memory, loaded into an engine, and set for sequences with a scale.

use core::ffi::c_void;

use gleed::SeqId;
use gleed::model::Adapter;

use crate::engine::gleed_engine;
use crate::error::{boundary, gleed_error};
use crate::model::gleed_model;
use crate::object::{Object, Opaque};
use crate::ptr::{out, out_layout, slice, small};
use crate::sequence::gleed_seq;
use crate::status;
use crate::versioned::{Versioned, out_struct};

impl Opaque for Adapter<'static> {
    const MAGIC: u64 = u64::from_le_bytes(*b"gleedA01");
}

/// An adapter that was checked against its model. The bytes of its file stay the caller's.
pub type gleed_adapter = Object<Adapter<'static>>;

/// The properties of an adapter; see `include/gleed.h`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct gleed_adapter_info {
    /// `sizeof(gleed_adapter_info)`, set by the caller.
    pub struct_size: u32,
    /// The largest rank of its matrices.
    pub rank: u32,
}

// SAFETY: only integers of 4 bytes, of which the first is the size: no gaps, and every bit pattern is one.
unsafe impl Versioned for gleed_adapter_info {}

/// Returns the size and alignment of the memory of an adapter, in bytes.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_adapter_size(size: *mut usize, align: *mut usize, error: *mut gleed_error) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL and alignment are checked here. gleed.h demands the rest: `size` and `align` are places for
        // results that nothing else uses.
        let layout = unsafe { out_layout(size, align) }?;
        layout.write(size_of::<gleed_adapter>(), align_of::<gleed_adapter>());
        Ok(status::OK)
    })
}

/// Checks that a file is one of an adapter that fits a model, and makes an adapter of it in `memory`.
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
    boundary!(error, || {
        // SAFETY: NULL, alignment, lengths and the tag and address of `model` are checked here. gleed.h demands the
        // rest: no other call changes `model`, `len` bytes are at `bytes` and stay there unchanged as long as the
        // adapter and its engines are used, and `adapter` is a place for a result that nothing else uses.
        let (model, bytes, adapter) =
            unsafe { (Object::get("model", model)?, slice("bytes", bytes, len)?, out("adapter", adapter)?) };
        let opened = Adapter::open(bytes, model)?;
        // Memory is written to last: if the call fails, it may still hold another adapter.
        // SAFETY: the size and alignment of the memory are checked here. gleed.h demands the rest: nothing else uses
        // `memory_len` bytes at `memory`, as long as the adapter is used.
        adapter.write(unsafe { Object::place_at(memory, memory_len, opened) }?);
        Ok(status::OK)
    })
}

/// Writes the properties of an adapter to `info`.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_adapter_describe(
    adapter: *const gleed_adapter,
    info: *mut gleed_adapter_info,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment, struct_size and the tag and address of `adapter` are checked here. gleed.h demands
        // the rest: no other call changes `adapter`, and `info` has as many bytes as its struct_size says.
        let (adapter, info) = unsafe { (Object::get("adapter", adapter)?, out_struct("info", info)?) };
        info.write(gleed_adapter_info { struct_size: 0, rank: small(adapter.rank()) });
        Ok(status::OK)
    })
}

/// Loads an adapter into an engine. `number` receives its number.
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
    boundary!(error, || {
        // SAFETY: NULL, alignment and the tag and address of `engine` and `adapter` are checked here. gleed.h demands
        // the rest: nothing but this call uses `engine`, no other call changes `adapter`, and `number` is a place for
        // a result that nothing else uses.
        let (mut engine, adapter, number) =
            unsafe { (Object::get_mut("engine", engine)?, Object::get("adapter", adapter)?, out("number", number)?) };
        number.write(small(engine.load_adapter(adapter)?));
        Ok(status::OK)
    })
}

/// Sets the scale of an adapter for a sequence.
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
    boundary!(error, || {
        // SAFETY: NULL, alignment and the tag and address of `engine` are checked here. gleed.h demands the rest:
        // nothing but this call uses `engine`.
        let mut engine = unsafe { Object::get_mut("engine", engine) }?;
        engine.set_adapter(SeqId::from_bits(seq), usize::try_from(number).unwrap_or(usize::MAX), scale)?;
        Ok(status::OK)
    })
}

/// Returns the scale of an adapter for a sequence.
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
    boundary!(error, || {
        // SAFETY: NULL, alignment and the tag and address of `engine` are checked here. gleed.h demands the rest: no
        // other call changes `engine`, and `scale` is a place for a result that nothing else uses.
        let (engine, scale) = unsafe { (Object::get("engine", engine)?, out("scale", scale)?) };
        scale.write(engine.adapter(SeqId::from_bits(seq), usize::try_from(number).unwrap_or(usize::MAX))?);
        Ok(status::OK)
    })
}
