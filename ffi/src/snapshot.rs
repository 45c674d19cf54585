//! Snapshots: sequences written to bytes, and restored from them.

use core::ffi::c_void;

use gleed::cache::{SnapshotHeader, SnapshotOptions};
use gleed::{SeqId, StreamError};

use crate::engine::gleed_engine;
use crate::error::{Failure, boundary, gleed_error};
use crate::object::Object;
use crate::ptr::{check, out, slice, slice_mut, small};
use crate::sequence::gleed_seq;
use crate::status;
use crate::versioned::{Versioned, out_struct, out_struct_or_null, versioned_or_null};

/// Takes the next `len` bytes of a snapshot. Returns 0 on success.
pub type gleed_sink = Option<unsafe extern "C" fn(ctx: *mut c_void, bytes: *const u8, len: usize) -> i32>;

/// Writes the next bytes of a snapshot to `bytes`, at most `len`. Returns how many: 0 at the end, more than `len` on
/// failure.
pub type gleed_source = Option<unsafe extern "C" fn(ctx: *mut c_void, bytes: *mut u8, len: usize) -> usize>;

/// The options of a snapshot; see `include/gleed.h`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct gleed_snapshot_options {
    /// `sizeof(gleed_snapshot_options)`, set by the caller.
    pub struct_size: u32,
    /// Number of first tokens that the snapshot leaves out, because its reader has them.
    pub base: u32,
    /// Bytes of the host.
    pub state: *const u8,
    /// Number of bytes of the host.
    pub state_len: usize,
    /// The most checkpoints of recurrent layers to write.
    pub checkpoints: u32,
    /// 0.
    pub reserved: u32,
}

/// The header of a snapshot; see `include/gleed.h`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct gleed_snapshot_info {
    /// `sizeof(gleed_snapshot_info)`, set by the caller.
    pub struct_size: u32,
    /// Tokens of the sequence, with those of the base.
    pub tokens: u32,
    /// Number of first tokens that are not in the snapshot.
    pub base: u32,
    /// Number of bytes of the host.
    pub state_len: u32,
    /// Bytes of the snapshot.
    pub bytes: u64,
    /// The fingerprint of the model.
    pub fingerprint: u64,
    /// Bytes of the host, then zeros.
    pub state: [u8; SnapshotOptions::STATE_MAX],
}

// SAFETY: two integers of 4 bytes, the first the size, a pointer and a length, and two integers of 4 bytes: no gaps
// with pointers of 4 or 8 bytes, and every bit pattern is one (a pointer is checked before it is used).
unsafe impl Versioned for gleed_snapshot_options {
    /// The earlier struct ended with `state_len`.
    const EARLIER: &'static [usize] = &[8 + 2 * size_of::<usize>()];
}
// SAFETY: integers, the first the size and the 8-byte ones at multiples of 8: no gaps, and every bit pattern is one.
unsafe impl Versioned for gleed_snapshot_info {}

/// Returns the options at a pointer; the default ones at NULL.
///
/// # Safety
/// As [`versioned_or_null`], and `state_len` bytes at `state` that nobody writes to during `'a`.
unsafe fn options<'a>(options: *const gleed_snapshot_options) -> Result<SnapshotOptions<'a>, Failure> {
    // SAFETY: the caller promises as many bytes as struct_size says; NULL, alignment and struct_size are checked here.
    let options = unsafe { versioned_or_null("options", options) }?;
    let Some(gleed_snapshot_options { base, state, state_len, checkpoints, reserved, .. }) = options else {
        return Ok(SnapshotOptions::default());
    };
    // SAFETY: the caller promises `state_len` bytes at `state`; NULL and the length are checked here.
    let state = unsafe { slice("state", state, state_len) }?;
    if reserved != 0 {
        return Err(Failure::new(status::E_VALUE, format_args!("reserved must be 0")).numbers(0_u32, reserved));
    }
    let number = |given: u32| usize::try_from(given).unwrap_or(usize::MAX);
    Ok(SnapshotOptions { base: number(base), state, checkpoints: number(checkpoints) })
}

/// Returns the handle at a pointer; `None` at NULL.
///
/// # Safety
/// At a pointer that is not NULL and aligned is a handle.
unsafe fn base(seq: *const gleed_seq) -> Result<Option<SeqId>, Failure> {
    if seq.is_null() {
        return Ok(None);
    }
    check("base", seq, 1)?;
    // SAFETY: `check` has found that it is not NULL and aligned; the caller promises that a handle is there.
    Ok(Some(SeqId::from_bits(unsafe { seq.read() })))
}

fn info(header: &SnapshotHeader) -> gleed_snapshot_info {
    let mut state = [0; SnapshotOptions::STATE_MAX];
    for (to, &from) in state.iter_mut().zip(header.state()) {
        *to = from;
    }
    gleed_snapshot_info {
        struct_size: 0,
        tokens: small(header.tokens()),
        base: small(header.base()),
        state_len: small(header.state().len()),
        bytes: header.total_bytes(),
        fingerprint: header.fingerprint(),
        state,
    }
}

fn streamed<T>(result: Result<T, StreamError<()>>, bytes: u64) -> Result<T, Failure> {
    result.map_err(|error| match error {
        StreamError::Engine(error) => error.into(),
        StreamError::Host(()) => {
            Failure::new(status::E_SNAPSHOT_HOST, format_args!("the callback failed after {bytes} bytes")).at(bytes)
        }
    })
}

fn no_callback(what: &str) -> Failure {
    Failure::new(status::E_NULL, format_args!("{what} is NULL"))
}

/// Returns the size of a snapshot in bytes.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_snapshot_size(
    engine: *const gleed_engine,
    seq: gleed_seq,
    options: *const gleed_snapshot_options,
    size: *mut usize,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment, the length, struct_size and the tag and address of `engine` are checked here.
        // gleed.h demands the rest: no other call changes `engine`, and `size` is a place for a result that nothing
        // else uses, and `options` is NULL or has as many bytes as its struct_size says and as many at `state` as its
        // state_len says.
        let (engine, size, options) =
            unsafe { (Object::get("engine", engine)?, out("size", size)?, self::options(options)?) };
        size.write(engine.snapshot_len_with(SeqId::from_bits(seq), &options)?);
        Ok(status::OK)
    })
}

/// Writes a snapshot to a buffer.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_snapshot(
    engine: *const gleed_engine,
    seq: gleed_seq,
    options: *const gleed_snapshot_options,
    bytes: *mut u8,
    len: usize,
    written: *mut usize,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment, lengths, struct_size and the tag and address of `engine` are checked here. gleed.h
        // demands the rest: no other call changes `engine`, `len` elements at `bytes` are used by nothing else,
        // `written` is a place for a result that nothing else uses, and `options` is NULL or has as many bytes as its
        // struct_size says and as many at `state` as its state_len says.
        let (engine, bytes, written, options) = unsafe {
            (
                Object::get("engine", engine)?,
                slice_mut("bytes", bytes, len)?,
                out("written", written)?,
                self::options(options)?,
            )
        };
        written.write(engine.snapshot_with(SeqId::from_bits(seq), &options, bytes)?);
        Ok(status::OK)
    })
}

/// Writes a snapshot through a callback.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_snapshot_write(
    engine: *const gleed_engine,
    seq: gleed_seq,
    options: *const gleed_snapshot_options,
    sink: gleed_sink,
    ctx: *mut c_void,
    written: *mut u64,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment and the tag and address of `engine` are checked here. gleed.h demands the rest: no
        // other call changes `engine`.
        let engine = unsafe { Object::share("engine", engine) }?;
        let sink = sink.ok_or_else(|| no_callback("sink"))?;
        // SAFETY: NULL, alignment, lengths and struct_size are checked here. gleed.h demands the rest: `written` is a
        // place for a result that nothing else uses, and `options` is NULL or has as many bytes as its struct_size
        // says and as many at `state` as its state_len says.
        let (written, options) = unsafe { (out("written", written)?, self::options(options)?) };
        let mut taken = 0_u64;
        let result = engine.write_snapshot(SeqId::from_bits(seq), &options, |bytes| {
            // SAFETY: gleed.h demands that `sink` may be called with `ctx` until the call ends, and that it reads no
            // more than the bytes that it is given, which live until it returns.
            if unsafe { sink(ctx, bytes.as_ptr(), bytes.len()) } != 0 {
                return Err(());
            }
            taken = taken.saturating_add(bytes.len() as u64);
            Ok(())
        });
        written.write(streamed(result, taken)?);
        Ok(status::OK)
    })
}

/// Opens a sequence with the contents of a snapshot.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_restore(
    engine: *mut gleed_engine,
    base: *const gleed_seq,
    bytes: *const u8,
    len: usize,
    seq: *mut gleed_seq,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment, lengths and the tag and address of `engine` are checked here. gleed.h demands the
        // rest: nothing but this call uses `engine`, `len` bytes are at `bytes`, `seq` is a place for a result that
        // nothing else uses, and `base` is NULL or a handle is there.
        let (mut engine, base, bytes, seq) = unsafe {
            (Object::get_mut("engine", engine)?, self::base(base)?, slice("bytes", bytes, len)?, out("seq", seq)?)
        };
        seq.write(engine.restore_with(base, bytes)?.0.to_bits());
        Ok(status::OK)
    })
}

/// Opens a sequence with the contents of a snapshot that a callback gives.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_snapshot_read(
    engine: *mut gleed_engine,
    base: *const gleed_seq,
    source: gleed_source,
    ctx: *mut c_void,
    seq: *mut gleed_seq,
    info: *mut gleed_snapshot_info,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment and the tag and address of `engine` are checked here. gleed.h demands the rest:
        // nothing but this call uses `engine`, and `base` is NULL or a handle is there.
        let (mut engine, base) = unsafe { (Object::get_mut("engine", engine)?, self::base(base)?) };
        let source = source.ok_or_else(|| no_callback("source"))?;
        // SAFETY: NULL, alignment and struct_size are checked here. gleed.h demands the rest: `seq` is a place for a
        // result that nothing else uses, and `info` is NULL or has as many bytes as its struct_size says.
        let (seq, info) = unsafe { (out("seq", seq)?, out_struct_or_null("info", info)?) };
        let mut given = 0_u64;
        let result = engine.read_snapshot(base, |bytes| {
            // SAFETY: gleed.h demands that `source` may be called with `ctx` until the call ends, and that it writes
            // no more than `len` bytes to the place that it is given, which nothing else uses until it returns.
            let count = unsafe { source(ctx, bytes.as_mut_ptr(), bytes.len()) };
            if count > bytes.len() {
                return Err(());
            }
            given = given.saturating_add(count as u64);
            Ok(count)
        });
        let (restored, header) = streamed(result, given)?;
        seq.write(restored.to_bits());
        if let Some(info) = info {
            info.write(self::info(&header));
        }
        Ok(status::OK)
    })
}

/// Writes the header of a snapshot to `info`.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_snapshot_describe(
    bytes: *const u8,
    len: usize,
    info: *mut gleed_snapshot_info,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment, lengths and struct_size are checked here. gleed.h demands the rest: `len` bytes
        // are at `bytes`, and `info` has as many bytes as its struct_size says.
        let (bytes, info) = unsafe { (slice("bytes", bytes, len)?, out_struct("info", info)?) };
        info.write(self::info(&SnapshotHeader::parse(bytes)?));
        Ok(status::OK)
    })
}
