//! Makes arguments by their types. In one call every buffer has the same number of elements, and no count among the
//! arguments is larger.

use std::any::TypeId;
use std::ffi::{c_char, c_void};
use std::ptr::{null, null_mut};

use gleed_ffi::error::gleed_error;
use gleed_ffi::object::Object;
use gleed_ffi::*;

use super::blobs::{FILES, TEXTS, VOCAB};
use crate::support::{Bytes, Exact, forbidden};

/// The status of the library for an internal error, which must never come.
const INTERNAL: i32 = -99;
/// Most elements of a buffer.
const MOST: usize = 1 << 20;
/// Most elements of a buffer whose elements are larger than 8 bytes.
const MOST_STRUCTS: usize = 64;

/// What a call may write to a buffer, and what later calls take from it.
enum Use {
    Read,
    /// Bytes that may be a snapshot afterwards.
    Bytes,
    /// Numbers. The first one may be a size or a handle afterwards.
    Numbers {
        width: usize,
    },
    /// A pointer to which the call writes the address of a new object of this type.
    Place(TypeId),
    /// A result of a fixed size.
    Struct,
}

struct Buffer {
    memory: Exact,
    kind: Use,
    /// The contents before the call. A refused call must leave them as they are.
    before: Vec<u8>,
}

pub struct Caller<'b, 'd> {
    pub bytes: &'b mut Bytes<'d>,
    /// Number of elements of the buffers of this call.
    pub len: usize,
    buffers: Vec<Buffer>,
    error: Option<Exact>,
    objects: Vec<(TypeId, usize)>,
    numbers: Vec<usize>,
    blobs: Vec<Vec<u8>>,
    kept: Vec<Buffer>,
}

impl<'b, 'd> Caller<'b, 'd> {
    pub fn new(bytes: &'b mut Bytes<'d>) -> Self {
        let blobs: Vec<Vec<u8>> = FILES.iter().cloned().chain(TEXTS.map(|text| text.as_bytes().to_vec())).collect();
        let numbers = blobs.iter().map(Vec::len).chain([VOCAB, VOCAB.div_ceil(32), 16, 11]).collect();
        let (buffers, objects, kept) = (Vec::new(), Vec::new(), Vec::new());
        Self { bytes, len: 0, buffers, error: None, objects, numbers, blobs, kept }
    }

    pub fn kept_bytes(&mut self) -> usize {
        self.kept.iter_mut().map(|buffer| buffer.memory.bytes().len()).sum()
    }

    /// Chooses how many elements the buffers of the next call have.
    pub fn begin(&mut self) {
        const USUAL: [usize; 8] = [1, 2, 3, 8, 16, 33, 64, 5000];
        self.len = match self.bytes.u8() % 4 {
            0 => *self.bytes.pick(&USUAL),
            1 => self.bytes.u8().into(),
            // The number that the library said last is often the one that is needed next.
            2 => self.numbers[self.numbers.len() - 1],
            _ => *self.bytes.pick(&self.numbers),
        };
    }

    /// Calls the library, after a copy of each result's buffer.
    pub fn run(&mut self, call: impl FnOnce() -> i32) -> i32 {
        for buffer in self.buffers.iter_mut().filter(|buffer| !matches!(buffer.kind, Use::Read)) {
            if matches!(buffer.kind, Use::Place(_) | Use::Struct) {
                buffer.before = buffer.memory.bytes().to_vec();
            }
        }
        forbidden(call)
    }

    /// Keeps the buffers that the library may still use, and the numbers and bytes that it wrote.
    pub fn end(&mut self, name: &str, status: i32) {
        assert!(status != INTERNAL, "{name}: internal error");
        if let Some(error) = &mut self.error.take() {
            self.note_error(name, status, error);
        }
        let makes_object = self.buffers.iter().any(|buffer| matches!(buffer.kind, Use::Place(_)));
        let has_scratch = name.starts_with("gleed_trie_build") || name.starts_with("gleed_grammar_build");
        for mut buffer in std::mem::take(&mut self.buffers) {
            if status < 0 {
                let is_changed = !buffer.before.is_empty() && buffer.before != buffer.memory.bytes();
                assert!(!is_changed, "{name} returns {status} and has written a result");
                continue;
            }
            self.note(&mut buffer);
            if status == 0 && (makes_object || has_scratch) {
                self.kept.push(buffer);
            }
        }
    }

    fn note_error(&mut self, name: &str, status: i32, error: &mut Exact) {
        let (size, bytes) = (size_of::<gleed_error>(), error.bytes());
        if bytes.len() != size || status >= 0 {
            return;
        }
        // SAFETY: the buffer has the size of `gleed_error`, all of its bytes are written, and the struct has only
        // numbers.
        let error = unsafe { bytes.as_ptr().cast::<gleed_error>().read_unaligned() };
        if error.struct_size as usize == size {
            assert!(error.text.contains(&0), "{name}: a text that does not end");
            self.number(error.needed as usize);
        }
    }

    fn number(&mut self, number: usize) {
        if number <= MOST {
            if self.numbers.len() > 64 {
                self.numbers.remove(16);
            }
            self.numbers.push(number);
        }
    }

    fn note(&mut self, buffer: &mut Buffer) {
        let bytes = buffer.memory.bytes();
        match buffer.kind {
            Use::Read | Use::Struct => {}
            Use::Bytes if !bytes.is_empty() => {
                if self.blobs.len() > 20 {
                    self.blobs.remove(14);
                }
                self.blobs.push(bytes.to_vec());
            }
            Use::Bytes => {}
            Use::Numbers { width } => {
                if let Some(first) = bytes.get(..width) {
                    let mut word = [0; 8];
                    word[..width].copy_from_slice(first);
                    self.number(u64::from_le_bytes(word) as usize);
                }
            }
            Use::Place(kind) => {
                let address = bytes.first_chunk().map_or(0, |word| usize::from_le_bytes(*word));
                if address != FILL_ADDRESS && address != 0 {
                    self.objects.push((kind, address));
                }
            }
        }
    }

    /// Returns a pointer to a new buffer of `len` elements, or now and then a NULL or misaligned pointer.
    fn buffer<T>(&mut self, len: usize, kind: Use, fill: impl FnOnce(&mut Self, &mut [u8])) -> *mut T {
        if len > MOST || size_of::<T>() > 8 && len > MOST_STRUCTS {
            return null_mut();
        }
        let mut memory = Exact::new(len * size_of::<T>(), FILL);
        fill(self, memory.bytes());
        let start = memory.bytes().as_mut_ptr();
        self.buffers.push(Buffer { memory, kind, before: Vec::new() });
        match self.bytes.u8() {
            255 => null_mut(),
            // Bytes are always aligned, and behind the second byte there is room for fewer than `len`.
            254 if align_of::<T>() > 1 => start.wrapping_add(1).cast(),
            _ => start.cast(),
        }
    }

    /// Fills the buffer with a text or with bytes that the library wrote, preferably of the same length.
    fn content(&mut self, out: &mut [u8]) {
        let same: Vec<usize> = (0..self.blobs.len()).filter(|&blob| self.blobs[blob].len() == out.len()).collect();
        let blob = if same.is_empty() { self.bytes.below(self.blobs.len()) } else { *self.bytes.pick(&same) };
        out.iter_mut().zip(&self.blobs[blob]).for_each(|(byte, new)| *byte = *new);
        if self.bytes.once_in(8) && !out.is_empty() {
            let at = self.bytes.below(out.len());
            out[at] = self.bytes.u8();
        }
    }

    /// Returns a text for a field of a struct. It stays in its place for the call.
    pub fn text(&mut self) -> (*const c_char, usize) {
        let text = *self.bytes.pick(&TEXTS);
        let start: *mut c_char = self.buffer(text.len(), Use::Read, |_, out| out.copy_from_slice(text.as_bytes()));
        (start, text.len())
    }

    /// Returns `len` structs that `make` makes one by one.
    pub fn structs<T>(&mut self, len: usize, mut make: impl FnMut(&mut Self) -> T) -> *const T {
        if len > MOST_STRUCTS {
            return null();
        }
        let values: Vec<T> = (0..len).map(|_| make(self)).collect();
        self.buffer(len, Use::Read, |_, out| {
            // SAFETY: `out` has as many bytes as `values`, which are `len` structs of plain data, at most
            // `MOST_STRUCTS`.
            unsafe { std::ptr::copy_nonoverlapping(values.as_ptr().cast(), out.as_mut_ptr(), out.len()) };
        })
    }

    /// Makes the bytes of a struct of numbers: its size, then mostly zeros.
    pub fn plain<T>(&mut self, out: &mut [u8], most: usize) {
        out.fill(0);
        let words = size_of::<T>() / 4;
        for _ in 0..self.bytes.below(most) {
            let (word, value) = (1 + self.bytes.below(words - 1), self.small());
            out[4 * word..4 * word + 4].copy_from_slice(&value.to_le_bytes());
        }
        let size = if self.bytes.once_in(64) { self.bytes.below(size_of::<T>()) } else { size_of::<T>() };
        out[..4].copy_from_slice(&(size as u32).to_le_bytes());
    }

    pub fn small(&mut self) -> u32 {
        if self.bytes.once_in(16) { self.bytes.odd() as u32 } else { u32::from(self.bytes.u8()) % 40 }
    }

    pub fn result<T>(&mut self) -> *mut T {
        self.buffer(1, Use::Struct, |caller, out| caller.plain::<T>(out, 1))
    }

    pub fn given<T>(&mut self, most: usize) -> *const T {
        self.buffer(1, Use::Read, |caller, out| caller.plain::<T>(out, most))
    }

    fn object(&mut self, kind: TypeId) -> *mut c_void {
        let is_other = self.bytes.u8() == 255;
        let found: Vec<usize> =
            self.objects.iter().filter(|object| is_other || object.0 == kind).map(|object| object.1).collect();
        if found.is_empty() { null_mut() } else { *self.bytes.pick(&found) as *mut c_void }
    }
}

/// The byte that fills new memory.
const FILL: u8 = 0xC3;
const FILL_ADDRESS: usize = usize::from_le_bytes([FILL; 8]);

/// A type of arguments that functions of the library take.
pub trait Argument {
    fn make(caller: &mut Caller<'_, '_>) -> Self;
}

impl<T: 'static> Argument for *mut Object<T> {
    fn make(caller: &mut Caller<'_, '_>) -> Self {
        caller.object(TypeId::of::<T>()).cast()
    }
}

impl<T: 'static> Argument for *const Object<T> {
    fn make(caller: &mut Caller<'_, '_>) -> Self {
        caller.object(TypeId::of::<T>()).cast()
    }
}

impl<T: 'static> Argument for *mut *mut Object<T> {
    fn make(caller: &mut Caller<'_, '_>) -> Self {
        caller.buffer(1, Use::Place(TypeId::of::<T>()), |_, _| {})
    }
}

impl<T: 'static> Argument for *mut *const Object<T> {
    fn make(caller: &mut Caller<'_, '_>) -> Self {
        caller.buffer(1, Use::Place(TypeId::of::<T>()), |_, _| {})
    }
}

impl Argument for *mut gleed_error {
    fn make(caller: &mut Caller<'_, '_>) -> Self {
        if caller.bytes.once_in(8) {
            return null_mut();
        }
        let mut error = Exact::new(size_of::<gleed_error>(), 0);
        caller.plain::<gleed_error>(error.bytes(), 1);
        let start = error.bytes().as_mut_ptr().cast();
        caller.error = Some(error);
        start
    }
}

impl Argument for usize {
    fn make(caller: &mut Caller<'_, '_>) -> Self {
        if caller.bytes.once_in(8) { caller.bytes.below(caller.len + 1) } else { caller.len }
    }
}

impl Argument for u32 {
    fn make(caller: &mut Caller<'_, '_>) -> Self {
        match caller.bytes.u8() % 4 {
            0 => caller.bytes.odd() as u32,
            1 => u32::from(caller.bytes.u8()) % 8,
            2 => caller.numbers[caller.numbers.len() - 1] as u32,
            _ => *caller.bytes.pick(&caller.numbers) as u32,
        }
    }
}

impl Argument for i32 {
    fn make(caller: &mut Caller<'_, '_>) -> Self {
        u32::make(caller) as i32
    }
}

impl Argument for u64 {
    fn make(caller: &mut Caller<'_, '_>) -> Self {
        caller.bytes.odd()
    }
}

impl Argument for f32 {
    fn make(caller: &mut Caller<'_, '_>) -> Self {
        caller.bytes.f32()
    }
}

impl Argument for *mut c_void {
    fn make(caller: &mut Caller<'_, '_>) -> Self {
        caller.buffer::<u8>(caller.len, Use::Read, |_, _| {}).cast()
    }
}

/// Makes the lengths of texts: as many texts as tokens, of one byte each.
fn ones(_: &mut Caller<'_, '_>, out: &mut [u8]) {
    out.as_chunks_mut().0.fill(1_usize.to_le_bytes());
}

/// Makes buffers by the type of their elements: how a call uses them, and their contents before the call.
macro_rules! buffers {
    ($($pointer:ty => $use:expr, $fill:expr;)*) => {$(
        impl Argument for $pointer {
            fn make(caller: &mut Caller<'_, '_>) -> Self {
                // A single result counts as a buffer of one element.
                caller.buffer(caller.len.max(1), $use, $fill)
            }
        }
    )*};
}

fn as_is(_: &mut Caller<'_, '_>, _: &mut [u8]) {}

fn tokens(caller: &mut Caller<'_, '_>, out: &mut [u8]) {
    let step = caller.small();
    for (at, word) in out.as_chunks_mut().0.iter_mut().enumerate() {
        *word = ((at as u32).wrapping_mul(step) % VOCAB as u32).to_le_bytes();
    }
}

fn floats(caller: &mut Caller<'_, '_>, out: &mut [u8]) {
    let (value, step) = (caller.bytes.f32(), caller.bytes.u8());
    for (at, word) in out.as_chunks_mut().0.iter_mut().enumerate() {
        let number = if step == 0 { value } else { value + ((at * usize::from(step)) % 7) as f32 };
        *word = number.to_le_bytes();
    }
}

buffers! {
    *const u8 => Use::Read, Caller::content;
    *const c_char => Use::Read, Caller::content;
    *const u32 => Use::Read, tokens;
    *const f32 => Use::Read, floats;
    *const usize => Use::Read, ones;
    *mut u8 => Use::Bytes, as_is;
    *mut c_char => Use::Bytes, as_is;
    *mut u32 => Use::Numbers { width: 4 }, as_is;
    *mut usize => Use::Numbers { width: 8 }, as_is;
    *mut u64 => Use::Numbers { width: 8 }, as_is;
    *mut f32 => Use::Numbers { width: 0 }, as_is;
}

/// Pointers to which a call writes the address of something inside of an object.
macro_rules! addresses {
    ($($pointer:ty)*) => {$(
        impl Argument for $pointer {
            fn make(caller: &mut Caller<'_, '_>) -> Self {
                caller.buffer(1, Use::Struct, as_is)
            }
        }
    )*};
}

addresses! { *mut *const f32 *mut *const c_char }

impl Argument for *mut gleed_entry {
    fn make(caller: &mut Caller<'_, '_>) -> Self {
        caller.buffer(caller.len, Use::Read, as_is)
    }
}

impl Argument for *const gleed_budget {
    fn make(caller: &mut Caller<'_, '_>) -> Self {
        if caller.bytes.once_in(8) { null() } else { super::structs::budget(caller) }
    }
}
