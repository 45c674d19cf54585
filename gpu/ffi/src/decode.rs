//! Tokens that a device chooses, and sequences whose device is lost.

use gleed::SeqId;
use gleed::engine::DecodeError;
use gleed::sample::scratch_len;
use gleed_ffi::boundary;
use gleed_ffi::error::{Failure, gleed_error};
use gleed_ffi::object::Object;
use gleed_ffi::ptr::{out, slice_mut, unread};
use gleed_ffi::{gleed_engine, gleed_sampler, gleed_seq};

use crate::status;

/// Computes tokens. Each is the token with the largest logit after the token before.
///
/// # Safety
/// As `include/gleed_gpu.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_gpu_decode_greedy(
    engine: *mut gleed_engine,
    seq: gleed_seq,
    token: u32,
    ids: *mut u32,
    count: usize,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment, lengths and the tag and address of `engine` are checked here. gleed_gpu.h demands
        // the rest: nothing but this call uses `engine`, and `count` ids fit at `ids`.
        let (mut engine, given) =
            unsafe { (Object::get_mut("engine", engine)?, unread("ids", ids.cast_const(), count)?) };
        let seq = SeqId::from_bits(seq);
        // A count that no sequence can have is refused before `ids` is touched.
        given.read_if(|count| engine.can_prefill(seq, count).map_err(Failure::from))?;
        // SAFETY: NULL, alignment and length are checked here. gleed_gpu.h demands that `count` ids fit at `ids` where
        // the sequence can have so many, and nobody else uses them.
        let ids = unsafe { slice_mut("ids", ids, count) }?;
        let mut chosen = vec![0; ids.len()];
        engine.decode_greedy(seq, token, &mut chosen)?;
        ids.copy_from_slice(&chosen);
        Ok(status::OK)
    })
}

/// Computes tokens that a sampler chooses, one after the other.
///
/// # Safety
/// As `include/gleed_gpu.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_gpu_decode_sampled(
    engine: *mut gleed_engine,
    seq: gleed_seq,
    token: u32,
    sampler: *mut gleed_sampler,
    ids: *mut u32,
    count: usize,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment, lengths and the tags and addresses of both objects are checked here. gleed_gpu.h
        // demands the rest: nothing but this call uses `engine` and `sampler`, and `count` ids fit at `ids`.
        let (mut engine, mut sampler, given) = unsafe {
            (
                Object::get_mut("engine", engine)?,
                Object::get_mut("sampler", sampler)?,
                unread("ids", ids.cast_const(), count)?,
            )
        };
        let seq = SeqId::from_bits(seq);
        // A count that no sequence can have is refused before `ids` is touched.
        given.read_if(|count| engine.can_prefill(seq, count).map_err(Failure::from))?;
        // SAFETY: NULL, alignment and length are checked here. gleed_gpu.h demands that `count` ids fit at `ids` where
        // the sequence can have so many, and nobody else uses them.
        let ids = unsafe { slice_mut("ids", ids, count) }?;
        let (mut chosen, mut scratch) = (vec![0; ids.len()], vec![0; scratch_len(engine.model().config().vocab)]);
        match engine.decode_sampled(seq, token, (&mut sampler, &mut scratch), &mut chosen) {
            Ok(()) => {}
            Err(DecodeError::Engine(error)) => return Err(error.into()),
            Err(DecodeError::Sample(error)) => return Err(error.into()),
            Err(_) => return Err(Failure::new(status::E_INTERNAL, format_args!("an unknown error of a choice"))),
        }
        ids.copy_from_slice(&chosen);
        Ok(status::OK)
    })
}

/// Opens a sequence with the tokens of a sequence of another engine, whose device is lost.
///
/// # Safety
/// As `include/gleed_gpu.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_gpu_replay(
    engine: *mut gleed_engine,
    lost: *const gleed_engine,
    seq: gleed_seq,
    copy: *mut gleed_seq,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment and the tags and addresses of both engines are checked here. gleed_gpu.h demands the
        // rest: nothing but this call uses `engine`, none changes `lost`, and `copy` is a place for a result that
        // nothing else uses.
        let (mut engine, lost, copy) =
            unsafe { (Object::get_mut("engine", engine)?, Object::get("lost", lost)?, out("copy", copy)?) };
        copy.write(engine.replay(lost, SeqId::from_bits(seq))?.to_bits());
        Ok(status::OK)
    })
}
