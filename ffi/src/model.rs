//! Models: descriptions of files. Both the model and its file lie in the caller's memory.

use core::ffi::{c_char, c_void};
use core::mem::MaybeUninit;

use gguf_rs_lite::Name;
use gleed::Model;
use gleed::mem::MemoryError;
use gleed::model::ModelError;

use crate::error::{Failure, boundary, chars, gleed_error};
use crate::object::{Object, Opaque};
use crate::ptr::{fits, memory, out, out_layout, slice, small, unread};
use crate::status;
use crate::versioned::{Versioned, out_struct};

impl Opaque for Model<'static> {
    const MAGIC: u64 = u64::from_le_bytes(*b"gleedM01");
}

/// A model whose file was checked. The file's bytes stay the caller's, who keeps them as long as the model is used.
pub type gleed_model = Object<Model<'static>>;

/// Returns the size and alignment of the memory that [`gleed_model_open`] needs, in bytes.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_model_size(size: *mut usize, align: *mut usize, error: *mut gleed_error) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL and alignment are checked here. gleed.h demands the rest: `size` and `align` are places for
        // results that nothing else uses.
        let layout = unsafe { out_layout(size, align) }?;
        layout.write(size_of::<gleed_model>(), align_of::<gleed_model>());
        Ok(status::OK)
    })
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
    boundary!(error, || {
        // SAFETY: NULL, alignment and lengths are checked here. gleed.h demands the rest: `len` bytes are at `bytes`
        // and stay there unchanged as long as the model and its engines are used, and `model` is a place for a result
        // that nothing else uses.
        let (bytes, model) = unsafe { (slice("bytes", bytes, len)?, out("model", model)?) };
        let opened = Model::open(bytes)?;
        // Memory is written to last: if the call fails, it may still hold another model.
        // SAFETY: the size and alignment of the memory are checked here. gleed.h demands the rest: nothing else uses
        // `memory_len` bytes at `memory`, as long as the model is used.
        model.write(unsafe { Object::place_at(memory, memory_len, opened) }?);
        Ok(status::OK)
    })
}

/// A part of a split file; see `include/gleed.h`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct gleed_part {
    /// The bytes of the part.
    pub bytes: *const u8,
    /// Number of these bytes.
    pub len: usize,
}

/// The parts of a split file, checked.
struct Parts<'c>(&'c [gleed_part]);

impl<'c> Parts<'c> {
    /// Checks the pointer and the length of each part.
    ///
    /// # Errors
    /// As [`slice()`].
    ///
    /// # Safety
    /// As [`slice()`] for the bytes of each part, which nobody ever writes to.
    unsafe fn new(given: &'c [gleed_part]) -> Result<Self, Failure> {
        let parts = Self(given);
        parts.each().try_for_each(|bytes| bytes.map(drop))?;
        Ok(parts)
    }

    fn each(&self) -> impl Iterator<Item = Result<&'static [u8], Failure>> {
        // SAFETY: the caller of `new` promised `len` bytes at `bytes` of each part; NULL and the length are checked
        // here.
        self.0.iter().map(|part| unsafe { slice("bytes", part.bytes, part.len) })
    }

    /// Writes the parts as slices to the start of `place`, and returns them.
    fn keep(&self, place: &'static mut [u8]) -> Result<&'static [&'static [u8]], Failure> {
        // SAFETY: a `MaybeUninit` takes every bit pattern, and lays no claim to a value.
        let (_, places, _) = unsafe { place.align_to_mut::<MaybeUninit<&'static [u8]>>() };
        let places = places.get_mut(..self.0.len()).ok_or(MemoryError::TooLarge)?;
        for (place, bytes) in places.iter_mut().zip(self.each()) {
            place.write(bytes?);
        }
        // SAFETY: there are as many places as parts, and the loop has written all of them. A `MaybeUninit` is laid
        // out as what it holds.
        Ok(unsafe { &*(core::ptr::from_ref(places) as *const [&'static [u8]]) })
    }
}

/// Returns the bytes of memory that [`gleed_model_open_split`] needs: for the model, and for the slices of its parts.
fn split_size(count: usize) -> Result<usize, MemoryError> {
    let parts = count.checked_mul(size_of::<&[u8]>());
    parts.and_then(|parts| parts.checked_add(size_of::<gleed_model>())).ok_or(MemoryError::TooLarge)
}

const _: () = assert!(align_of::<&[u8]>() <= align_of::<gleed_model>());

/// Returns the size and alignment of the memory that [`gleed_model_open_split`] needs, in bytes.
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
    boundary!(error, || {
        // SAFETY: NULL and alignment are checked here. gleed.h demands the rest: `size` and `align` are places for
        // results that nothing else uses.
        let layout = unsafe { out_layout(size, align) }?;
        layout.write(split_size(count)?, align_of::<gleed_model>());
        Ok(status::OK)
    })
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
    boundary!(error, || {
        // SAFETY: NULL, alignment and lengths are checked here. gleed.h demands the rest: `count` parts are at
        // `parts` if so many can be taken, and `model` is a place for a result that nothing else uses.
        let (parts, model) = unsafe { (unread("parts", parts, count)?, out("model", model)?) };
        let (needed, align) = (split_size(count)?, align_of::<gleed_model>());
        let parts = parts.read_if(|_| fits(memory.cast(), memory_len, needed, align))?;
        // SAFETY: the size and alignment of the memory are checked here. gleed.h demands the rest: nothing else uses
        // `memory_len` bytes at `memory`, as long as the model is used. So they are lent for as long as they are
        // used.
        let memory = unsafe { self::memory("memory", memory.cast(), memory_len, needed, align) }?;
        // SAFETY: NULL and the lengths are checked here. gleed.h demands the rest: at `bytes` of each part are `len`
        // bytes, which stay there unchanged as long as the model and its engines are used.
        let parts = unsafe { Parts::new(parts) }?;
        let (head, rest) = memory.split_at_mut_checked(size_of::<gleed_model>()).unwrap_or_default();
        // A model that was here before is no object any more, because its parts are about to be overwritten.
        head.iter_mut().take(size_of::<u64>()).for_each(|byte| *byte = 0);
        model.write(Object::place(head, Model::open_split(parts.keep(rest)?)?)?);
        Ok(status::OK)
    })
}

/// Describes in `memory` the layer of a model that predicts one token further ahead.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_model_predictor(
    model: *const gleed_model,
    memory: *mut c_void,
    memory_len: usize,
    predictor: *mut *const gleed_model,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment and the tag and address of `model` are checked here. gleed.h demands the rest: no
        // other call changes `model`, and `predictor` is a place for a result that nothing else uses.
        let (model, predictor) = unsafe { (Object::get("model", model)?, out("predictor", predictor)?) };
        let (needed, align) = (size_of::<gleed_model>(), align_of::<gleed_model>());
        // SAFETY: the size and alignment of the memory are checked here. gleed.h demands the rest: nothing else uses
        // `memory_len` bytes at `memory`, as long as the model is used. So they are lent for as long as they are
        // used.
        let memory = unsafe { self::memory("memory", memory.cast(), memory_len, needed, align) }?;
        predictor.write(Object::place(memory, model.predictor()?)?);
        Ok(status::OK)
    })
}

/// The properties of a model; see `include/gleed.h`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct gleed_model_info {
    /// `sizeof(gleed_model_info)`, set by the caller.
    pub struct_size: u32,
    /// Decoder layers.
    pub layers: u32,
    /// Token ids are below this.
    pub vocab: u32,
    /// Tokens of the context that the model was trained on.
    pub context: u32,
    /// Width of the residual stream.
    pub hidden: u32,
    /// Width of the feed-forward layer.
    pub ffn: u32,
    /// Query heads.
    pub heads: u32,
    /// Heads of keys and values. Where layers differ: of the layers with a window.
    pub kv_heads: u32,
    /// Elements per head, of the same layers.
    pub head_dim: u32,
    /// 0.
    pub reserved: u32,
    /// A number that tells models apart; snapshots contain it.
    pub fingerprint: u64,
    /// Bytes of the file, all parts together.
    pub file_bytes: u64,
    /// The architecture's name in the file.
    pub architecture: [c_char; 32],
    /// The model's own name, cut to fit; empty where the file has none.
    pub name: [c_char; 96],
}

// SAFETY: integers, the first the size and the 8-byte ones at multiples of 8: no gaps, and every bit pattern is one.
unsafe impl Versioned for gleed_model_info {}

/// Writes the properties of a model to `info`.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_model_describe(
    model: *const gleed_model,
    info: *mut gleed_model_info,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment, struct_size and the tag and address of `model` are checked here. gleed.h demands
        // the rest: no other call changes `model`, and `info` has as many bytes as its struct_size says.
        let (model, info) = unsafe { (Object::get("model", model)?, out_struct("info", info)?) };
        let config = model.config();
        let [kv, _] = config.kv_shapes;
        let name = model.gguf().get("general.name");
        info.write(gleed_model_info {
            struct_size: 0,
            layers: small(config.layers),
            vocab: small(config.vocab),
            context: small(config.context),
            hidden: small(config.hidden),
            ffn: small(config.ffn),
            heads: small(config.heads),
            kv_heads: small(kv.heads),
            head_dim: small(kv.head_dim),
            reserved: 0,
            fingerprint: model.fingerprint(),
            file_bytes: model.file_bytes() as u64,
            architecture: chars(config.architecture),
            name: chars(name.as_ref().and_then(|name| name.as_str()).unwrap_or_default()),
        });
        Ok(status::OK)
    })
}

/// Returns a text from the metadata of a model's file, as a pointer into the file.
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
    boundary!(error, || {
        // SAFETY: NULL, alignment, lengths and the tag and address of `model` are checked here. gleed.h demands the
        // rest: no other call changes `model`, `key_len` bytes are at `key` if so many can be taken, and `text` and
        // `text_len` are places for results that nothing else uses.
        let (model, key, text, text_len) = unsafe {
            (
                Object::get("model", model)?,
                unread("key", key.cast::<u8>(), key_len)?,
                out("text", text)?,
                out("text_len", text_len)?,
            )
        };
        // A length that no key reaches is refused before `key` is read.
        let key = key.read_if(|len| {
            let text = format_args!("no key has {len} bytes or more");
            let is_one_as_long = model.gguf().metadata().any(|(other, _)| other.len() >= len);
            if is_one_as_long { Ok(()) } else { Err(Failure::new(status::E_MODEL_KEY_MISSING, text)) }
        })?;
        let name = Name::new(key);
        // All keys of a file are UTF-8, so no key equals other bytes.
        let value = core::str::from_utf8(key).ok().and_then(|key| model.gguf().get(key));
        let value = value.ok_or(ModelError::MissingKey { key: name })?;
        let bytes = value.as_bytes().ok_or(ModelError::BadValue { key: name })?;
        text.write(bytes.as_ptr().cast());
        text_len.write(bytes.len());
        Ok(status::OK)
    })
}
