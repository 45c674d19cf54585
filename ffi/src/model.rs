//! Models: a description in the caller's memory, of a file in the caller's memory.

use core::ffi::{c_char, c_void};

use gguf_rs_lite::Name;
use gleed::Model;
use gleed::mem::MemoryError;
use gleed::model::ModelError;

use crate::error::{Failure, chars, gleed_error, run};
use crate::object::{Object, Opaque};
use crate::ptr::{Versioned, memory, out, out_struct, slice, small, unread};
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
            let bytes = slice("bytes", bytes, len)?;
            let model = out("model", model)?;
            let opened = Model::open(bytes)?;
            // Not before: memory that a call fails with may still hold another model.
            let (needed, align) = (size_of::<gleed_model>(), align_of::<gleed_model>());
            let memory = self::memory("memory", memory.cast(), memory_len, needed, align)?;
            model.write(Object::place(memory, opened)?);
            Ok(status::OK)
        })
    }
}

/// A part of a split file; see `include/gleed.h`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct gleed_part {
    /// Its bytes.
    pub bytes: *const u8,
    /// How many there are.
    pub len: usize,
}

/// Bytes of the memory that [`gleed_model_open_split`] wants: for the model, and where its parts are.
fn split_size(count: usize) -> Result<usize, MemoryError> {
    let parts = count.checked_mul(size_of::<&[u8]>());
    parts.and_then(|parts| parts.checked_add(size_of::<gleed_model>())).ok_or(MemoryError::TooLarge)
}

const _: () = assert!(align_of::<&[u8]>() <= align_of::<gleed_model>());

/// Bytes and alignment of the memory that [`gleed_model_open_split`] wants.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_model_split_size(
    count: usize,
    size: *mut usize,
    align: *mut usize,
    error: *mut gleed_error,
) -> i32 {
    // SAFETY: the caller's promises, as the header states them.
    unsafe {
        run(error, || {
            let (size, align) = (out("size", size)?, out("align", align)?);
            size.write(split_size(count)?);
            align.write(align_of::<gleed_model>());
            Ok(status::OK)
        })
    }
}

/// Checks a GGUF file in parts and describes it in `memory`.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_model_open_split(
    parts: *const gleed_part,
    count: usize,
    memory: *mut c_void,
    memory_len: usize,
    model: *mut *const gleed_model,
    error: *mut gleed_error,
) -> i32 {
    // SAFETY: the caller's promises, as the header states them. What is written after the head is aligned for slices and
    // has room for `count` of them (`split_size`, and the assertion above); all are written before they are used, and
    // the memory is the model's until the caller uses it for something else.
    unsafe {
        run(error, || {
            let parts = unread("parts", parts, count)?;
            let model = out("model", model)?;
            let memory =
                self::memory("memory", memory.cast(), memory_len, split_size(count)?, align_of::<gleed_model>())?;
            let parts = parts.read();
            for part in parts {
                slice("bytes", part.bytes, part.len)?;
            }
            let (head, rest) = memory.split_at_mut_checked(size_of::<gleed_model>()).unwrap_or_default();
            // Another model that was here is none any more: its parts are overwritten.
            head.iter_mut().take(size_of::<u64>()).for_each(|byte| *byte = 0);
            let place = rest.as_mut_ptr().cast::<&'static [u8]>();
            for (index, part) in parts.iter().enumerate() {
                place.add(index).write(slice("bytes", part.bytes, part.len)?);
            }
            let opened = Model::open_split(core::slice::from_raw_parts(place, count))?;
            model.write(Object::place(head, opened)?);
            Ok(status::OK)
        })
    }
}

/// What a model is; see `include/gleed.h`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct gleed_model_info {
    /// `sizeof(gleed_model_info)`, set by the caller.
    pub struct_size: u32,
    /// Decoder layers.
    pub layers: u32,
    /// Token ids are below this.
    pub vocab: u32,
    /// Tokens that the model was trained on at a time.
    pub context: u32,
    /// Width of the residual stream.
    pub hidden: u32,
    /// Width of the feed-forward layer.
    pub ffn: u32,
    /// Query heads.
    pub heads: u32,
    /// Key and value heads.
    pub kv_heads: u32,
    /// Elements per head.
    pub head_dim: u32,
    /// 0.
    pub reserved: u32,
    /// Tells models apart; snapshots carry it.
    pub fingerprint: u64,
    /// Bytes of the file.
    pub file_bytes: u64,
    /// The architecture's name in the file.
    pub architecture: [c_char; 32],
    /// The model's own name, cut to fit; empty where the file has none.
    pub name: [c_char; 96],
}

// SAFETY: integers, the 8-byte ones at multiples of 8.
unsafe impl Versioned for gleed_model_info {}

/// Says what a model is.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_model_describe(
    model: *const gleed_model,
    info: *mut gleed_model_info,
    error: *mut gleed_error,
) -> i32 {
    // SAFETY: the caller's promises, as the header states them.
    unsafe {
        run(error, || {
            let model = Object::get("model", model)?;
            let info = out_struct("info", info)?;
            let config = model.config();
            let name = model.gguf().get("general.name");
            info.write(gleed_model_info {
                struct_size: 0,
                layers: small(config.layers),
                vocab: small(config.vocab),
                context: small(config.context),
                hidden: small(config.hidden),
                ffn: small(config.ffn),
                heads: small(config.heads),
                kv_heads: small(config.kv_heads),
                head_dim: small(config.head_dim),
                reserved: 0,
                fingerprint: model.fingerprint(),
                file_bytes: model.file_bytes() as u64,
                architecture: chars(config.architecture),
                name: chars(name.as_ref().and_then(|name| name.as_str()).unwrap_or_default()),
            });
            Ok(status::OK)
        })
    }
}

/// A text among the metadata of a model's file, where it is.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_model_string(
    model: *const gleed_model,
    key: *const c_char,
    key_len: usize,
    text: *mut *const c_char,
    text_len: *mut usize,
    error: *mut gleed_error,
) -> i32 {
    // SAFETY: the caller's promises, as the header states them.
    unsafe {
        run(error, || {
            let model = Object::get("model", model)?;
            let key = unread("key", key.cast::<u8>(), key_len)?;
            let (text, text_len) = (out("text", text)?, out("text_len", text_len)?);
            // A length that no key has is not believed.
            if model.gguf().metadata().all(|(other, _)| other.len() < key.len()) {
                let text = format_args!("no key has {key_len} bytes or more");
                return Err(Failure::new(status::E_MODEL_KEY_MISSING, text));
            }
            let key = key.read();
            let name = Name::new(key);
            // No key is anything but UTF-8.
            let value = core::str::from_utf8(key).ok().and_then(|key| model.gguf().get(key));
            let value = value.ok_or(ModelError::MissingKey { key: name })?;
            let bytes = value.as_bytes().ok_or(ModelError::BadValue { key: name })?;
            text.write(bytes.as_ptr().cast());
            text_len.write(bytes.len());
            Ok(status::OK)
        })
    }
}
