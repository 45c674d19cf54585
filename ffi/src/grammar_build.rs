//! Grammars in the making: compiled in units of work.

use core::ffi::{c_char, c_void};

use gleed::grammar::GrammarBuild;
use gleed::mem::ALIGN;

use crate::error::{Failure, boundary, gleed_error};
use crate::grammar::{Asked, Ignored, Inputs, converted, gleed_grammar, gleed_grammar_options, source};
use crate::object::{Object, Opaque};
use crate::ptr::{memory, out, out_layout};
use crate::status;

/// A grammar in the making.
#[derive(Debug)]
pub struct Making {
    build: GrammarBuild<'static, 'static>,
    /// The memory of the grammar's head, from [`gleed_grammar_build_place`] until the grammar is finished.
    head: Option<&'static mut [u8]>,
}

impl Opaque for Making {
    const MAGIC: u64 = u64::from_le_bytes(*b"gleedI01");
}

/// The parts of the options to which a grammar in the making points.
#[derive(Debug)]
struct Given {
    ignored: Ignored<'static>,
    asked: Asked<'static>,
}

impl Opaque for Given {
    const MAGIC: u64 = u64::from_le_bytes(*b"gleedJ01");
}

/// A grammar in the making, in its memory.
pub type gleed_grammar_build = Object<Making>;

/// Byte offset of [`Given`] in the memory of a grammar in the making.
const GIVEN: usize = size_of::<gleed_grammar_build>().next_multiple_of(align_of::<Object<Given>>());
const SIZE: usize = GIVEN + size_of::<Object<Given>>();

const _: () = assert!(align_of::<Object<Given>>() <= align_of::<gleed_grammar_build>());

/// Returns the size and alignment of the memory of a grammar in the making, in bytes.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_grammar_build_size(size: *mut usize, align: *mut usize, error: *mut gleed_error) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL and alignment are checked here. gleed.h demands the rest: `size` and `align` are places for
        // results that nothing else uses.
        let layout = unsafe { out_layout(size, align) }?;
        layout.write(SIZE, align_of::<gleed_grammar_build>());
        Ok(status::OK)
    })
}

/// Begins to compile a grammar.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_grammar_build_init(
    text: *const c_char,
    text_len: usize,
    scratch: *mut u32,
    scratch_len: usize,
    options: *const gleed_grammar_options,
    memory: *mut c_void,
    memory_len: usize,
    build: *mut *mut gleed_grammar_build,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL and alignment are checked here. gleed.h demands the rest: `build` is a place for a result that
        // nothing else uses.
        let place = unsafe { out("build", build) }?;
        // SAFETY: gleed.h demands of these arguments what `Inputs::new` asks for, as long as the build is used.
        let Inputs { text, scratch, given, ignored, asked } =
            unsafe { Inputs::new(text, text_len, scratch, scratch_len, options) }?;
        // SAFETY: the size and alignment of the memory are checked here. gleed.h demands the rest: nothing else uses
        // `memory_len` bytes at `memory`, as long as the build is used.
        let memory =
            unsafe { self::memory("memory", memory.cast(), memory_len, SIZE, align_of::<gleed_grammar_build>()) }?;
        let (front, behind) = memory.split_at_mut_checked(GIVEN).unwrap_or_default();
        let kept = Object::place(behind, Given { ignored, asked })?;
        // SAFETY: the object was made in the line above, in memory that is lent for as long as the build is used.
        // Nothing changes the object.
        let kept: &'static Given = unsafe { Object::get("memory", kept) }?;
        let source = source(given.kind, text, &kept.asked);
        let making =
            Making { build: GrammarBuild::new(source, converted(&given, &kept.ignored)?, scratch), head: None };
        place.write(Object::place(front, making)?);
        Ok(status::OK)
    })
}

/// Goes on with a grammar for some units of work.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_grammar_build_step(
    build: *mut gleed_grammar_build,
    units: u64,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment and the tag and address of `build` are checked here. gleed.h demands the rest:
        // nothing but this call uses `build`.
        let mut making = unsafe { Object::get_mut("build", build) }?;
        let units = if units == 0 { usize::MAX } else { usize::try_from(units).unwrap_or(usize::MAX) };
        Ok(if making.build.step(units)? { status::OK } else { status::YIELDED })
    })
}

/// Returns the size and alignment of the memory of the grammar, in bytes.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_grammar_build_plan(
    build: *const gleed_grammar_build,
    size: *mut usize,
    align: *mut usize,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment and the tag and address of `build` are checked here. gleed.h demands the rest: no
        // other call changes `build`, and `size` and `align` are places for results that nothing else uses.
        let (making, layout) = unsafe { (Object::get("build", build)?, out_layout(size, align)?) };
        layout.write(with_head(making)?, ALIGN);
        Ok(status::OK)
    })
}

/// Gives the build the memory of the grammar.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_grammar_build_place(
    build: *mut gleed_grammar_build,
    memory: *mut c_void,
    memory_len: usize,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment and the tag and address of `build` are checked here. gleed.h demands the rest:
        // nothing but this call uses `build`.
        let mut making = unsafe { Object::get_mut("build", build) }?;
        let needed = with_head(&making).unwrap_or(0);
        // SAFETY: the size and alignment of the memory are checked here. gleed.h demands the rest: nothing else uses
        // `memory_len` bytes at `memory`, as long as the grammar is used. So they are lent for as long as they are
        // used.
        let memory = unsafe { self::memory("memory", memory.cast(), memory_len, needed, ALIGN) }?;
        let (head, rest) = gleed_grammar::halves(memory);
        making.build.place(rest)?;
        making.head = Some(head);
        Ok(status::OK)
    })
}

/// Returns the finished grammar.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_grammar_build_finish(
    build: *mut gleed_grammar_build,
    grammar: *mut *const gleed_grammar,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment and the tag and address of `build` are checked here. gleed.h demands the rest:
        // nothing but this call uses `build`, and `grammar` is a place for a result that nothing else uses.
        let (mut making, place) = unsafe { (Object::get_mut("build", build)?, out("grammar", grammar)?) };
        let grammar = making.build.finish()?;
        let unfinished = || Failure::new(status::E_BUSY, format_args!("the grammar is not finished"));
        let head = making.head.take().ok_or_else(unfinished)?;
        place.write(Object::place(head, grammar)?);
        Ok(status::OK)
    })
}

/// Returns the bytes of the grammar with its head.
fn with_head(making: &Making) -> Result<usize, Failure> {
    Ok(gleed_grammar::with_head(making.build.bytes()?)?)
}
