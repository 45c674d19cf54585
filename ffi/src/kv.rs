//! Export and import of keys and values.

use gleed::{Engine, SeqId};

use crate::engine::gleed_engine;
use crate::error::{Failure, boundary, gleed_error};
use crate::object::Object;
use crate::ptr::{Unread, check, disjoint, slice, slice_mut, unread};
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
        // SAFETY: NULL, alignment, lengths, and that the two buffers have no byte in common are checked above. gleed.h
        // demands the rest: nothing else uses `len` numbers at `keys` and at `values`.
        let (keys, values) = unsafe { (slice_mut("keys", keys, len)?, slice_mut("values", values, len)?) };
        let layer = usize::try_from(layer).unwrap_or(usize::MAX);
        engine.cache().materialize(SeqId::from_bits(seq), layer, keys, values)?;
        Ok(status::OK)
    })
}

/// Sets the keys and values of a layer of a sequence, in place of those that it has.
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
        // SAFETY: gleed.h demands that nothing but this call uses `engine`, and that `len` numbers are at `keys` and at
        // `values`.
        let (mut engine, [keys, values]) = unsafe { (Object::get_mut("engine", engine)?, rows(keys, values, len)?) };
        let layer = usize::try_from(layer).unwrap_or(usize::MAX);
        engine.cache_mut()?.set_prefill(SeqId::from_bits(seq), layer, keys, values)?;
        Ok(status::OK)
    })
}

/// Appends the keys and values of one token, for one layer, to a sequence.
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
        // SAFETY: gleed.h demands that nothing but this call uses `engine`, and that `len` numbers are at `keys` and at
        // `values`.
        let (mut engine, [keys, values]) = unsafe { (Object::get_mut("engine", engine)?, rows(keys, values, len)?) };
        let layer = usize::try_from(layer).unwrap_or(usize::MAX);
        engine.cache_mut()?.push_row(SeqId::from_bits(seq), layer, keys, values)?;
        Ok(status::OK)
    })
}

/// Sets the keys and values of a layer of several sequences, in place of those that they have.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_set_prefill_batch(
    engine: *mut gleed_engine,
    seqs: *const gleed_seq,
    count: usize,
    layer: u32,
    keys: *const f32,
    values: *const f32,
    len: usize,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: gleed.h demands that nothing but this call uses `engine`, that `count` handles are at `seqs` if so
        // many can be open, and that `len` numbers are at `keys` and at `values`.
        let (mut engine, seqs, [keys, values]) =
            unsafe { (Object::get_mut("engine", engine)?, unread("seqs", seqs, count)?, rows(keys, values, len)?) };
        let seqs = of_each(&engine, seqs)?.iter().map(|&seq| SeqId::from_bits(seq));
        let layer = usize::try_from(layer).unwrap_or(usize::MAX);
        engine.cache_mut()?.set_prefill_batch(seqs, layer, keys, values)?;
        Ok(status::OK)
    })
}

/// Appends keys and values of a layer to several sequences, at the positions that the caller states.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_append_rows(
    engine: *mut gleed_engine,
    seqs: *const gleed_seq,
    positions: *const usize,
    count: usize,
    layer: u32,
    keys: *const f32,
    values: *const f32,
    len: usize,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment, lengths and the tag and address of `engine` are checked here. gleed.h demands the
        // rest: nothing but this call uses `engine`, `count` handles are at `seqs` and `count` numbers at `positions`
        // if so many sequences can be open, and `len` numbers are at `keys` and at `values`.
        let (mut engine, seqs, positions, [keys, values]) = unsafe {
            (
                Object::get_mut("engine", engine)?,
                unread("seqs", seqs, count)?,
                unread("positions", positions, count)?,
                rows(keys, values, len)?,
            )
        };
        let (seqs, positions) = (of_each(&engine, seqs)?, of_each(&engine, positions)?);
        let places = seqs.iter().zip(positions).map(|(&seq, &position)| (SeqId::from_bits(seq), position));
        let layer = usize::try_from(layer).unwrap_or(usize::MAX);
        engine.cache_mut()?.append_rows(places, layer, keys, values)?;
        Ok(status::OK)
    })
}

/// Returns the keys and the values that a host gives for a layer, `len` numbers each.
///
/// # Safety
/// As [`slice()`], for both.
unsafe fn rows<'a>(keys: *const f32, values: *const f32, len: usize) -> Result<[&'a [f32]; 2], Failure> {
    // SAFETY: the caller promises `len` numbers at both; NULL, alignment and the length are checked here.
    unsafe { Ok([slice("keys", keys, len)?, slice("values", values, len)?]) }
}

/// Returns the elements of an array that has one element per sequence, if the engine can have so many sequences.
fn of_each<'a, T>(engine: &Engine<'_, '_>, elements: Unread<'a, T>) -> Result<&'a [T], Failure> {
    let sequences = engine.cache().geometry().sequences;
    elements.read_if(|count| {
        if count <= sequences {
            return Ok(());
        }
        let text = format_args!("{count} sequences are given, the engine has {sequences}");
        Err(Failure::new(status::E_VALUE, text).numbers(sequences, count))
    })
}
