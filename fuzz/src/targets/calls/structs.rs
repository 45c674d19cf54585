//! Makes structs and callbacks. Structs of numbers are mostly zeros, and structs with pointers are made field by field.

use std::cell::{Cell, RefCell};
use std::ffi::c_void;
use std::ptr::{null, null_mut};

use gleed_ffi::*;

use super::arguments::{Argument, Caller};
use super::blobs::FILES;

macro_rules! results {
    ($($name:ident)*) => {$(
        impl Argument for *mut $name {
            fn make(caller: &mut Caller<'_, '_>) -> Self {
                caller.result()
            }
        }
    )*};
}

results! {
    gleed_snapshot_info gleed_adapter_info gleed_calls_part gleed_update gleed_engine_info gleed_model_info gleed_plan_info
    gleed_metrics gleed_section gleed_seq_info gleed_shown gleed_vocab_info gleed_turns_info gleed_writing_info
}

macro_rules! given {
    ($($name:ident)*) => {$(
        impl Argument for *const $name {
            fn make(caller: &mut Caller<'_, '_>) -> Self {
                caller.given(4)
            }
        }
    )*};
}

given! {
    gleed_matcher_limits gleed_config gleed_conversation_limits gleed_desk_limits gleed_sampler_params
}

/// Structs that `make` makes one by one, and how many a call gets.
macro_rules! made {
    ($($name:ident $len:expr, $make:expr;)*) => {$(
        impl Argument for *const $name {
            fn make(caller: &mut Caller<'_, '_>) -> Self {
                let len = $len(caller);
                caller.structs(len, $make)
            }
        }
    )*};
}

fn one(_: &mut Caller<'_, '_>) -> usize {
    1
}

fn all(caller: &mut Caller<'_, '_>) -> usize {
    caller.len
}

made! {
    gleed_snapshot_options one, snapshot_options;
    gleed_grammar_options one, grammar_options;
    gleed_script one, script;
    gleed_keep one, keep;
    gleed_executor one, executor;
    gleed_entry all, entry;
    gleed_message all, message;
    gleed_string all, string;
    gleed_bias all, bias;
    gleed_part all, part;
}

fn size<T>(caller: &mut Caller<'_, '_>) -> u32 {
    let size = size_of::<T>() as u32;
    if caller.bytes.once_in(64) { caller.small().min(size) } else { size }
}

fn snapshot_options(caller: &mut Caller<'_, '_>) -> gleed_snapshot_options {
    let (state, state_len) = caller.text();
    gleed_snapshot_options {
        struct_size: size::<gleed_snapshot_options>(caller),
        base: if caller.bytes.bool() { 16 * u32::from(caller.bytes.u8() % 4) } else { 0 },
        state: state.cast(),
        state_len,
        checkpoints: u32::from(caller.bytes.u8() % 4),
        reserved: 0,
    }
}

fn grammar_options(caller: &mut Caller<'_, '_>) -> gleed_grammar_options {
    let (ignore, ignore_len) = if caller.bytes.once_in(8) { caller.text() } else { (null(), 0) };
    let (tool, tool_len) = if caller.bytes.once_in(8) { caller.text() } else { (null(), 0) };
    gleed_grammar_options {
        struct_size: size::<gleed_grammar_options>(caller),
        kind: u32::from(caller.bytes.u8() % 5),
        whitespace: u32::from(caller.bytes.u8() % 5),
        flags: u32::from(caller.bytes.u8() % 32),
        states: 512 * u32::from(caller.bytes.u8() % 3),
        reserved: 0,
        ignore,
        ignore_len,
        calls: u32::from(caller.bytes.u8() % 20),
        choice: u32::from(caller.bytes.u8() % 4),
        thoughts: u32::from(caller.bytes.u8() % 4),
        call_flags: u32::from(caller.bytes.u8() % 4),
        tool,
        tool_len,
        tokenizer: Argument::make(caller),
    }
}

fn script(caller: &mut Caller<'_, '_>) -> gleed_script {
    let ((tools, tools_len), (tool_format, tool_format_len)) = (caller.text(), caller.text());
    let has_tools = caller.bytes.bool();
    gleed_script {
        struct_size: size::<gleed_script>(caller),
        format: u32::from(caller.bytes.u8() % 40),
        think: u32::from(caller.bytes.u8() % 4),
        flags: u32::from(caller.bytes.u8() % 4),
        tools,
        tools_len: if has_tools { tools_len } else { 0 },
        tool_format,
        tool_format_len: if has_tools { tool_format_len } else { 0 },
    }
}

fn keep(caller: &mut Caller<'_, '_>) -> gleed_keep {
    gleed_keep {
        struct_size: size::<gleed_keep>(caller),
        room: u32::from(caller.bytes.u8() % 32),
        first: u32::from(caller.bytes.u8() % 4),
        last: u32::from(caller.bytes.u8() % 4),
        target: u32::from(caller.bytes.u8() % 64),
        reserved: 0,
        summary: caller.bytes.bool().then_some(summary),
        summary_ctx: null_mut(),
    }
}

fn executor(caller: &mut Caller<'_, '_>) -> gleed_executor {
    gleed_executor {
        struct_size: size::<gleed_executor>(caller),
        slots: u32::from(caller.bytes.u8() % 4),
        parallel_for: if caller.bytes.once_in(16) { None } else { Some(parallel_for) },
        ctx: usize::from(caller.bytes.u8()) as *mut c_void,
    }
}

fn entry(caller: &mut Caller<'_, '_>) -> gleed_entry {
    let ((text, text_len), (name, name_len), (id, id_len)) = (caller.text(), caller.text(), caller.text());
    gleed_entry { role: u32::from(caller.bytes.u8() % 8), reserved: 0, text, text_len, name, name_len, id, id_len }
}

fn message(caller: &mut Caller<'_, '_>) -> gleed_message {
    let (text, text_len) = caller.text();
    gleed_message {
        role: u32::from(caller.bytes.u8() % 4),
        reserved: u32::from(caller.bytes.once_in(64)),
        text,
        text_len,
    }
}

fn string(caller: &mut Caller<'_, '_>) -> gleed_string {
    let (text, text_len) = caller.text();
    gleed_string { text, text_len }
}

fn bias(caller: &mut Caller<'_, '_>) -> gleed_bias {
    gleed_bias { token: caller.small(), bias: caller.bytes.f32() }
}

/// The model in one part, or in two that do not follow each other.
fn part(caller: &mut Caller<'_, '_>) -> gleed_part {
    let file = &FILES[0];
    let len = if caller.bytes.bool() { file.len() } else { caller.bytes.below(file.len()) };
    gleed_part { bytes: file.as_ptr(), len }
}

pub fn budget(caller: &mut Caller<'_, '_>) -> *const gleed_budget {
    caller.structs(1, |caller| gleed_budget {
        struct_size: size::<gleed_budget>(caller),
        reserved: 0,
        units: if caller.bytes.bool() { 0 } else { caller.bytes.odd() },
        deadline: caller.bytes.u8().into(),
        clock: caller.bytes.bool().then_some(clock),
        clock_ctx: null_mut(),
        cancel: if caller.bytes.once_in(8) { &raw const STOPPED } else { null() },
    })
}

static STOPPED: u32 = 1;

thread_local! {
    static TICKS: Cell<u64> = const { Cell::new(0) };
    /// The bytes that the library has written, and how many of them it has read back.
    static STREAM: RefCell<(Vec<u8>, usize)> = const { RefCell::new((Vec::new(), 0)) };
}

/// Resets what the callbacks remember: it belongs to one run.
pub fn forget() {
    TICKS.set(0);
    STREAM.with_borrow_mut(|stream| *stream = (Vec::new(), 0));
}

unsafe extern "C" fn clock(_: *mut c_void) -> u64 {
    TICKS.set(TICKS.get() % 256 + 1);
    TICKS.get()
}

unsafe extern "C" fn summary(_: *mut c_void, first: usize, count: usize, _: *mut gleed_message) -> i32 {
    // Either nothing is summarized, or the host fails.
    i32::from((first + count) % 5 == 4)
}

unsafe extern "C" fn parallel_for(ctx: *mut c_void, n: u32, body: gleed_body, arg: *mut c_void) {
    let Some(body) = body else { return };
    // SAFETY: the library passes a body and its argument, which live until this function returns. It takes any index.
    let call = |index| unsafe { body(arg, index) };
    match ctx.addr() % 5 {
        0 => (0..n).for_each(call),
        1 => (0..n).rev().for_each(call),
        2 => call(n.wrapping_sub(1)),
        3 => [u32::MAX, 0, 0].into_iter().for_each(call),
        _ => (0..2 * n).for_each(|index| call(index / 2)),
    }
}

unsafe extern "C" fn sink(_: *mut c_void, bytes: *const u8, len: usize) -> i32 {
    crate::support::allowed(|| {
        STREAM.with_borrow_mut(|(stream, read)| {
            if stream.len() > 1 << 16 {
                (stream.clear(), *read = 0);
                return 1;
            }
            // SAFETY: the library passes a pointer to `len` bytes.
            stream.extend_from_slice(unsafe { std::slice::from_raw_parts(bytes, len) });
            0
        })
    })
}

unsafe extern "C" fn source(_: *mut c_void, bytes: *mut u8, len: usize) -> usize {
    STREAM.with_borrow_mut(|(stream, read)| {
        let rest = stream.get(*read..).unwrap_or_default();
        let count = rest.len().min(len).min(100);
        // SAFETY: the library passes a pointer to room for `len` bytes.
        unsafe { std::ptr::copy_nonoverlapping(rest.as_ptr(), bytes, count) };
        *read = if count == 0 { 0 } else { *read + count };
        count
    })
}

unsafe extern "C" fn consent(_: *mut c_void, seq: gleed_seq, _: *const gleed_seq_info) -> i32 {
    i32::from(seq % 3 != 0)
}

impl Argument for gleed_sink {
    fn make(caller: &mut Caller<'_, '_>) -> Self {
        STREAM.with_borrow_mut(|stream| *stream = (Vec::new(), 0));
        if caller.bytes.once_in(16) { None } else { Some(sink) }
    }
}

impl Argument for gleed_source {
    fn make(caller: &mut Caller<'_, '_>) -> Self {
        STREAM.with_borrow_mut(|(_, read)| *read = 0);
        if caller.bytes.once_in(16) { None } else { Some(source) }
    }
}

impl Argument for gleed_consent {
    fn make(caller: &mut Caller<'_, '_>) -> Self {
        if caller.bytes.once_in(16) { None } else { Some(consent) }
    }
}
