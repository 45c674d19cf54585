//! Keys and values, out and in.

use gleed::SeqId;

use crate::engine::gleed_engine;
use crate::error::{gleed_error, run};
use crate::object::Object;
use crate::ptr::{check, disjoint, slice, slice_mut};
use crate::sequence::gleed_seq;
use crate::status;

/// Copies the keys and values of a layer of a sequence.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_materialize(
    engine: *const gleed_engine,
    seq: gleed_seq,
    layer: u32,
    keys: *mut f32,
    values: *mut f32,
    len: usize,
    error: *mut gleed_error,
) -> i32 {
    // SAFETY: the caller's promises, as the header states them; the two slices have no byte in common.
    unsafe {
        run(error, || {
            let engine = Object::get("engine", engine)?;
            if len > 0 {
                check("keys", keys, len)?;
                check("values", values, len)?;
            }
            disjoint("keys and values", keys, values, len)?;
            let (keys, values) = (slice_mut("keys", keys, len)?, slice_mut("values", values, len)?);
            let layer = usize::try_from(layer).unwrap_or(usize::MAX);
            engine.cache().materialize(SeqId::from_bits(seq), layer, keys, values)?;
            Ok(status::OK)
        })
    }
}

/// Sets the keys and values of a layer of an empty sequence.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_set_prefill(
    engine: *mut gleed_engine,
    seq: gleed_seq,
    layer: u32,
    keys: *const f32,
    values: *const f32,
    len: usize,
    error: *mut gleed_error,
) -> i32 {
    // SAFETY: the caller's promises, as the header states them.
    unsafe {
        run(error, || {
            let mut engine = Object::get_mut("engine", engine)?;
            let (keys, values) = (slice("keys", keys, len)?, slice("values", values, len)?);
            let layer = usize::try_from(layer).unwrap_or(usize::MAX);
            engine.cache_mut()?.set_prefill(SeqId::from_bits(seq), layer, keys, values)?;
            Ok(status::OK)
        })
    }
}

/// Appends a token's keys and values of a layer to a sequence.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_push_row(
    engine: *mut gleed_engine,
    seq: gleed_seq,
    layer: u32,
    keys: *const f32,
    values: *const f32,
    len: usize,
    error: *mut gleed_error,
) -> i32 {
    // SAFETY: the caller's promises, as the header states them.
    unsafe {
        run(error, || {
            let mut engine = Object::get_mut("engine", engine)?;
            let (keys, values) = (slice("keys", keys, len)?, slice("values", values, len)?);
            let layer = usize::try_from(layer).unwrap_or(usize::MAX);
            engine.cache_mut()?.push_row(SeqId::from_bits(seq), layer, keys, values)?;
            Ok(status::OK)
        })
    }
}
