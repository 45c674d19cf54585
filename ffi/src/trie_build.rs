//! Tries in the making: built in units of work.

use core::ffi::c_void;

use gleed::grammar::TrieBuild;
use gleed::mem::ALIGN;
use gleed::token::Tokenizer;

use crate::error::{Failure, boundary, gleed_error};
use crate::object::{Object, Opaque};
use crate::ptr::{memory, out, out_layout, slice_mut};
use crate::status;
use crate::tokenizer::gleed_tokenizer;
use crate::trie::{gleed_trie, placed};

/// A trie in the making.
#[derive(Debug)]
pub struct Building {
    build: TrieBuild<'static, 'static>,
    tokenizer: &'static Tokenizer<'static, 'static>,
    /// The memory of the trie's head, from [`gleed_trie_build_place`] until the trie is finished.
    head: Option<&'static mut [u8]>,
}

impl Opaque for Building {
    const MAGIC: u64 = u64::from_le_bytes(*b"gleedB01");
}

/// A trie in the making, in its memory.
pub type gleed_trie_build = Object<Building>;

/// Returns the size and alignment of the memory of a trie in the making, in bytes.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_trie_build_size(size: *mut usize, align: *mut usize, error: *mut gleed_error) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL and alignment are checked here. gleed.h demands the rest: `size` and `align` are places for
        // results that nothing else uses.
        let layout = unsafe { out_layout(size, align) }?;
        layout.write(size_of::<gleed_trie_build>(), align_of::<gleed_trie_build>());
        Ok(status::OK)
    })
}

/// Begins to make a trie.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_trie_build_init(
    tokenizer: *const gleed_tokenizer,
    scratch: *mut u32,
    scratch_len: usize,
    memory: *mut c_void,
    memory_len: usize,
    build: *mut *mut gleed_trie_build,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment, lengths and the tag and address of `tokenizer` are checked here. gleed.h demands the
        // rest: no other call changes `tokenizer`, nothing else uses `scratch_len` elements at `scratch` as long as the
        // build is used, and `build` is a place for a result that nothing else uses.
        let (tokenizer, scratch, place) = unsafe {
            (Object::get("tokenizer", tokenizer)?, slice_mut("scratch", scratch, scratch_len)?, out("build", build)?)
        };
        let building = Building { build: TrieBuild::new(tokenizer, scratch)?, tokenizer, head: None };
        // SAFETY: the size and alignment of the memory are checked here. gleed.h demands the rest: nothing else uses
        // `memory_len` bytes at `memory`, as long as the build is used.
        place.write(unsafe { Object::place_at(memory, memory_len, building) }?);
        Ok(status::OK)
    })
}

/// Goes on with a trie for some units of work.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_trie_build_step(
    build: *mut gleed_trie_build,
    units: u64,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment and the tag and address of `build` are checked here. gleed.h demands the rest:
        // nothing but this call uses `build`.
        let mut building = unsafe { Object::get_mut("build", build) }?;
        let units = if units == 0 { usize::MAX } else { usize::try_from(units).unwrap_or(usize::MAX) };
        Ok(if building.build.step(units)? { status::OK } else { status::YIELDED })
    })
}

/// Returns the size and alignment of the memory of the trie, in bytes.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_trie_build_plan(
    build: *const gleed_trie_build,
    size: *mut usize,
    align: *mut usize,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment and the tag and address of `build` are checked here. gleed.h demands the rest: no
        // other call changes `build`, and `size` and `align` are places for results that nothing else uses.
        let (building, layout) = unsafe { (Object::get("build", build)?, out_layout(size, align)?) };
        layout.write(gleed_trie::with_head(building.build.bytes()?)?, ALIGN);
        Ok(status::OK)
    })
}

/// Gives the build the memory of the trie.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_trie_build_place(
    build: *mut gleed_trie_build,
    memory: *mut c_void,
    memory_len: usize,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment and the tag and address of `build` are checked here. gleed.h demands the rest:
        // nothing but this call uses `build`.
        let mut building = unsafe { Object::get_mut("build", build) }?;
        let needed = building.build.bytes().map_or(0, |bytes| gleed_trie::with_head(bytes).unwrap_or(usize::MAX));
        // SAFETY: the size and alignment of the memory are checked here. gleed.h demands the rest: nothing else uses
        // `memory_len` bytes at `memory`, as long as the trie is used. So they are lent for as long as they are used.
        let memory = unsafe { self::memory("memory", memory.cast(), memory_len, needed, ALIGN) }?;
        let (head, rest) = gleed_trie::halves(memory);
        building.build.place(rest)?;
        building.head = Some(head);
        Ok(status::OK)
    })
}

/// Returns the finished trie.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_trie_build_finish(
    build: *mut gleed_trie_build,
    trie: *mut *const gleed_trie,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment and the tag and address of `build` are checked here. gleed.h demands the rest:
        // nothing but this call uses `build`, and `trie` is a place for a result that nothing else uses.
        let (mut building, place) = unsafe { (Object::get_mut("build", build)?, out("trie", trie)?) };
        let trie = building.build.finish()?;
        let unfinished = || Failure::new(status::E_BUSY, format_args!("the trie is not finished"));
        let head = building.head.take().ok_or_else(unfinished)?;
        place.write(placed(head, building.tokenizer, trie)?);
        Ok(status::OK)
    })
}
