//! Models: a description in the caller's memory, of a file in the caller's memory.

use core::ffi::c_void;

use gleed::Model;

use crate::error::{gleed_error, run};
use crate::object::{Object, Opaque};
use crate::ptr::{memory, out, slice};
use crate::status;

impl Opaque for Model<'static> {
    const MAGIC: u64 = u64::from_le_bytes(*b"gleedM01");
}

/// A model, checked. The bytes of its file stay the caller's, who keeps them as long as the model is used.
pub type gleed_model = Object<Model<'static>>;

/// Bytes and alignment of the memory that [`gleed_model_open`] wants.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_model_size(size: *mut usize, align: *mut usize, error: *mut gleed_error) -> i32 {
    // SAFETY: the caller's promises, as the header states them.
    unsafe {
        run(error, || {
            let (size, align) = (out("size", size)?, out("align", align)?);
            size.write(size_of::<gleed_model>());
            align.write(align_of::<gleed_model>());
            Ok(status::OK)
        })
    }
}

/// Checks a GGUF file and describes it in `memory`.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_model_open(
    bytes: *const u8,
    len: usize,
    memory: *mut c_void,
    memory_len: usize,
    model: *mut *const gleed_model,
    error: *mut gleed_error,
) -> i32 {
    // SAFETY: the caller's promises, as the header states them.
    unsafe {
        run(error, || {
            let model = out("model", model)?;
            let bytes = slice("bytes", bytes, len)?;
            let opened = Model::open(bytes)?;
            // Not before: memory that a call fails with may still hold another model.
            let (needed, align) = (size_of::<gleed_model>(), align_of::<gleed_model>());
            let memory = self::memory("memory", memory.cast(), memory_len, needed, align)?;
            model.write(Object::place(memory, opened)?);
            Ok(status::OK)
        })
    }
}
