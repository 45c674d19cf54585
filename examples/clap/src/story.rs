//! The story of `examples/plugin`: the functions of `plugin.h`.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::marker::PhantomData;
use std::ptr::NonNull;

/// `struct plugin_event` of `plugin.h`.
#[repr(C)]
struct Event {
    text: *const c_char,
    len: usize,
}

/// `struct plugin_api` of `plugin.h`.
#[repr(C)]
struct Api {
    version: u32,
    create: unsafe extern "C" fn(*const c_char, *mut c_char, usize) -> *mut c_void,
    activate: unsafe extern "C" fn(*mut c_void, f64, f64, *mut c_char, usize) -> c_int,
    process: unsafe extern "C" fn(*mut c_void, u32, *mut Event) -> c_int,
    save: unsafe extern "C" fn(*mut c_void, *mut u8, usize) -> usize,
    load: unsafe extern "C" fn(*mut c_void, *const u8, usize) -> c_int,
    destroy: unsafe extern "C" fn(*mut c_void),
}

unsafe extern "C" {
    #[link_name = "plugin_api"]
    static API: Api;
}

/// The error of a call. The story is unchanged, or has ended.
pub struct Failed;

/// A story that is generated while audio runs.
pub struct Story {
    story: NonNull<c_void>,
    // It is used through `&mut` only.
    _owns: PhantomData<*mut c_void>,
}

// SAFETY: plugin.c has no state of a thread and no state that stories share.
unsafe impl Send for Story {}

impl Story {
    /// Loads a model and takes the memory for processing. An error is a text.
    pub fn new(model: &CStr, frames_per_second: f64, tokens_per_second: f64) -> Result<Self, String> {
        let mut why = [0; 200];
        // SAFETY: `model` and `why` are what plugin.h asks for, and live during the call.
        let story = unsafe { (API.create)(model.as_ptr(), why.as_mut_ptr(), why.len()) };
        let story = NonNull::new(story).ok_or_else(|| text(&why))?;
        let mut story = Self { story, _owns: PhantomData };
        story.activate(frames_per_second, tokens_per_second)?;
        Ok(story)
    }

    /// Takes the memory again, and begins a new story.
    pub fn activate(&mut self, frames_per_second: f64, tokens_per_second: f64) -> Result<(), String> {
        let mut why = [0; 200];
        // SAFETY: the story is one of `create`, nothing else uses it, and `why` lives during the call.
        let status = unsafe {
            (API.activate)(self.story.as_ptr(), frames_per_second, tokens_per_second, why.as_mut_ptr(), why.len())
        };
        if status == 0 { Ok(()) } else { Err(text(&why)) }
    }

    /// Computes for a buffer of `frames` frames, without allocation, files and locks. Returns the new text.
    pub fn process(&mut self, frames: u32) -> Result<&[u8], Failed> {
        let mut event = Event { text: std::ptr::null(), len: 0 };
        // SAFETY: the story has been activated, nothing else uses it, and `event` lives during the call.
        match unsafe { (API.process)(self.story.as_ptr(), frames, &mut event) } {
            0 => Ok(&[]),
            // SAFETY: the text lies in the story and stays until its next call, which needs `&mut`.
            1 => Ok(unsafe { std::slice::from_raw_parts(event.text.cast(), event.len) }),
            _ => Err(Failed),
        }
    }

    /// Returns the story so far.
    pub fn save(&mut self) -> Result<Vec<u8>, Failed> {
        // SAFETY: the story has been activated and nothing else uses it. Without bytes, nothing is written.
        let size = unsafe { (API.save)(self.story.as_ptr(), std::ptr::null_mut(), 0) };
        if size == usize::MAX {
            return Err(Failed);
        }
        let mut bytes = vec![0; size];
        // SAFETY: the story has been activated, nothing else uses it, and `bytes` has `size` bytes that may be written.
        let written = if size == 0 { 0 } else { unsafe { (API.save)(self.story.as_ptr(), bytes.as_mut_ptr(), size) } };
        if written == size { Ok(bytes) } else { Err(Failed) }
    }

    /// Loads a story from `save`. Without bytes a new story begins. Bytes that are refused change nothing.
    pub fn load(&mut self, bytes: &[u8]) -> Result<(), Failed> {
        // SAFETY: the story has been activated, nothing else uses it, and `bytes` lives during the call.
        let status = unsafe { (API.load)(self.story.as_ptr(), bytes.as_ptr(), bytes.len()) };
        if status == 0 { Ok(()) } else { Err(Failed) }
    }
}

impl Drop for Story {
    fn drop(&mut self) {
        // SAFETY: the story is one of `create` and is destroyed once.
        unsafe { (API.destroy)(self.story.as_ptr()) };
    }
}

/// Returns a zero-terminated text as a string.
fn text(why: &[c_char]) -> String {
    why.iter().take_while(|&&byte| byte != 0).map(|&byte| byte as u8 as char).collect()
}
