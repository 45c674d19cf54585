//! Keys and values, out and in.

use gleed::SeqId;

use crate::engine::gleed_engine;
use crate::error::{boundary, gleed_error};
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
    boundary!(error, || {
        // SAFETY: NULL, alignment and the tag and address of `engine` are checked here. gleed.h demands the rest: no
        // other call changes `engine`.
        let engine = unsafe { Object::get("engine", engine) }?;
        if len > 0 {
            check("keys", keys, len)?;
            check("values", values, len)?;
        }
        disjoint("keys and values", keys, values, len)?;
        // SAFETY: NULL, alignment and lengths are checked above, and that the two have no byte in common. gleed.h
        // demands the rest: nothing else uses `len` numbers at `keys` and at `values`.
        let (keys, values) = unsafe { (slice_mut("keys", keys, len)?, slice_mut("values", values, len)?) };
        let layer = usize::try_from(layer).unwrap_or(usize::MAX);
        engine.cache().materialize(SeqId::from_bits(seq), layer, keys, values)?;
        Ok(status::OK)
    })
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
    boundary!(error, || {
        // SAFETY: NULL, alignment, lengths and the tag and address of `engine` are checked here. gleed.h demands the
        // rest: nothing but this call uses `engine`, and `len` numbers are at `keys` and at `values`.
        let (mut engine, keys, values) =
            unsafe { (Object::get_mut("engine", engine)?, slice("keys", keys, len)?, slice("values", values, len)?) };
        let layer = usize::try_from(layer).unwrap_or(usize::MAX);
        engine.cache_mut()?.set_prefill(SeqId::from_bits(seq), layer, keys, values)?;
        Ok(status::OK)
    })
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
    boundary!(error, || {
        // SAFETY: NULL, alignment, lengths and the tag and address of `engine` are checked here. gleed.h demands the
        // rest: nothing but this call uses `engine`, and `len` numbers are at `keys` and at `values`.
        let (mut engine, keys, values) =
            unsafe { (Object::get_mut("engine", engine)?, slice("keys", keys, len)?, slice("values", values, len)?) };
        let layer = usize::try_from(layer).unwrap_or(usize::MAX);
        engine.cache_mut()?.push_row(SeqId::from_bits(seq), layer, keys, values)?;
        Ok(status::OK)
    })
}
