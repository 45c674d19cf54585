//! Work in steps: tokens are queued, computed within a budget, and their results returned.

use core::ffi::c_void;
use core::sync::atomic::{AtomicU32, Ordering};

use gleed::{Budget, Deadline, Logits, SeqId, Step};

use crate::engine::gleed_engine;
use crate::error::{Failure, boundary, gleed_error};
use crate::object::Object;
use crate::ptr::{check, out, out_row, small, unread};
use crate::sequence::{check_position, gleed_seq};
use crate::status;
use crate::versioned::{Versioned, versioned_or_null};

/// The last of the queued tokens gets logits.
pub const GLEED_LOGITS_LAST: u32 = 0;
/// All queued tokens get logits.
pub const GLEED_LOGITS_ALL: u32 = 1;
/// The last of the queued tokens gets a hidden state, and none gets logits.
pub const GLEED_LOGITS_LAST_HIDDEN: u32 = 2;
/// All queued tokens get a hidden state, and none gets logits.
pub const GLEED_LOGITS_HIDDEN: u32 = 3;

/// Returns the time of the host's clock, in ticks that never run backwards.
pub type gleed_clock = Option<unsafe extern "C" fn(ctx: *mut c_void) -> u64>;

/// When a step ends; see `include/gleed.h`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct gleed_budget {
    /// `sizeof(gleed_budget)`, set by the caller.
    pub struct_size: u32,
    /// 0.
    pub reserved: u32,
    /// The most units of work; 0: no limit.
    pub units: u64,
    /// The time of the clock from which on no unit begins, except the first of the step.
    pub deadline: u64,
    /// The clock; NULL: no deadline.
    pub clock: gleed_clock,
    /// The argument of `clock`.
    pub clock_ctx: *mut c_void,
    /// A flag: a number other than 0 ends the step. NULL: there is no flag.
    pub cancel: *const u32,
}

// SAFETY: integers, the first the size, and pointers: no gaps with pointers of 4 or 8 bytes. A NULL pointer to a
// function is `None`; the header demands that any other pointer leads to a function.
unsafe impl Versioned for gleed_budget {}

/// The clock and the cancel flag of the host.
struct Watch<'c> {
    clock: gleed_clock,
    ctx: *mut c_void,
    flag: Option<&'c AtomicU32>,
}

// SAFETY: the flag is atomic, and gleed.h demands that the clock may be called with `ctx` from every thread of the
// executor.
unsafe impl Sync for Watch<'_> {}

impl Watch<'_> {
    fn is_cancelled(&self) -> bool {
        self.flag.is_some_and(|flag| flag.load(Ordering::Relaxed) != 0)
    }

    /// Returns the time of the clock. Once the flag is set this is `u64::MAX`, which no deadline exceeds.
    fn now(&self) -> u64 {
        if self.is_cancelled() {
            return u64::MAX;
        }
        // SAFETY: gleed.h demands that `clock` may be called with `clock_ctx` on every worker until the step ends,
        // and a `Watch` lives no longer.
        self.clock.map_or(0, |clock| unsafe { clock(self.ctx) })
    }
}

/// A budget of the host, checked.
pub(crate) struct Watched<'c> {
    watch: Watch<'c>,
    units: usize,
    deadline: u64,
}

impl Watched<'_> {
    /// Checks the budget of a host. `None` is a budget without limits.
    ///
    /// # Safety
    /// As [`flag`] for `cancel`.
    pub(crate) unsafe fn new(budget: Option<gleed_budget>) -> Result<Self, Failure> {
        let Some(budget) = budget else {
            let watch = Watch { clock: None, ctx: core::ptr::null_mut(), flag: None };
            return Ok(Self { watch, units: usize::MAX, deadline: u64::MAX });
        };
        if budget.reserved != 0 {
            let text = format_args!("reserved must be 0");
            return Err(Failure::new(status::E_VALUE, text).numbers(0_u32, budget.reserved));
        }
        // SAFETY: alignment is checked here. The caller promises the rest.
        let flag = unsafe { flag(budget.cancel) }?;
        let units = if budget.units == 0 { usize::MAX } else { usize::try_from(budget.units).unwrap_or(usize::MAX) };
        let deadline = if budget.clock.is_some() { budget.deadline } else { u64::MAX };
        Ok(Self { watch: Watch { clock: budget.clock, ctx: budget.clock_ctx, flag }, units, deadline })
    }

    /// Returns whether the cancel flag is set.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.watch.is_cancelled()
    }

    /// Calls `run` with this budget, and returns its result.
    pub(crate) fn run<T>(&self, run: impl FnOnce(Budget<'_>) -> T) -> T {
        let clock = || self.watch.now();
        let is_watched = self.watch.clock.is_some() || self.watch.flag.is_some();
        let until = is_watched.then_some(Deadline { clock: &clock, at: self.deadline });
        run(Budget { units: self.units, until, ..Budget::default() })
    }
}

/// Queues tokens of a sequence.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_queue(
    engine: *mut gleed_engine,
    seq: gleed_seq,
    tokens: *const u32,
    count: usize,
    logits: u32,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: gleed.h demands of these arguments what `queue` demands.
        unsafe { queue(engine, seq, None, (tokens, count), logits) }
    })
}

/// Queues tokens of a sequence that has as many tokens as the caller states.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_queue_at(
    engine: *mut gleed_engine,
    seq: gleed_seq,
    position: usize,
    tokens: *const u32,
    count: usize,
    logits: u32,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: gleed.h demands of these arguments what `queue` demands.
        unsafe { queue(engine, seq, Some(position), (tokens, count), logits) }
    })
}

/// Queues tokens of a sequence, at `position` if that is stated.
///
/// # Safety
/// Nothing else uses the engine, and `count` ids are at `tokens` if so many can be taken.
unsafe fn queue(
    engine: *mut gleed_engine,
    seq: gleed_seq,
    position: Option<usize>,
    (tokens, count): (*const u32, usize),
    logits: u32,
) -> Result<i32, Failure> {
    // SAFETY: NULL, alignment, lengths and the tag and address of `engine` are checked here. The caller promises the
    // rest.
    let (mut engine, tokens) = unsafe { (Object::get_mut("engine", engine)?, unread("tokens", tokens, count)?) };
    let logits = match logits {
        GLEED_LOGITS_LAST => Logits::Last,
        GLEED_LOGITS_ALL => Logits::All,
        GLEED_LOGITS_LAST_HIDDEN => Logits::LastHidden,
        GLEED_LOGITS_HIDDEN => Logits::Hidden,
        given => {
            let text = format_args!("logits is {given}, it must be 0 to {GLEED_LOGITS_HIDDEN}");
            return Err(Failure::new(status::E_VALUE, text).numbers(GLEED_LOGITS_HIDDEN, given));
        }
    };
    let seq = SeqId::from_bits(seq);
    if let Some(position) = position {
        check_position(&engine, seq, position)?;
    }
    let position = engine.seq_len(seq)?;
    let tokens = tokens.read_if(|count| if count == 0 { Ok(()) } else { engine.can_extend(seq, count) })?;
    engine.queue(seq, position, tokens, logits)?;
    Ok(status::OK)
}

/// Computes queued tokens within a budget.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_step(
    engine: *mut gleed_engine,
    budget: *const gleed_budget,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment, struct_size and the tag and address of `engine` are checked here. gleed.h demands
        // the rest: nothing but this call uses `engine`, and `budget` is NULL or has as many bytes as its struct_size
        // says.
        let (mut engine, budget) =
            unsafe { (Object::get_mut("engine", engine)?, versioned_or_null("budget", budget)?) };
        // SAFETY: gleed.h demands that `cancel` is NULL, or that a number is there until the call ends, which others
        // change only as a whole.
        let budget = unsafe { Watched::new(budget) }?;
        if budget.is_cancelled() && engine.is_busy() {
            return Ok(status::STOPPED);
        }
        let step = budget.run(|limits| engine.step(limits))?;
        Ok(outcome(step, budget.is_cancelled()))
    })
}

/// Returns the cancel flag at a pointer; `None` at NULL.
///
/// # Safety
/// At a pointer that is not NULL and aligned is a number during `'a`, which others change only atomically.
unsafe fn flag<'a>(cancel: *const u32) -> Result<Option<&'a AtomicU32>, Failure> {
    if cancel.is_null() {
        return Ok(None);
    }
    check("cancel", cancel, 1)?;
    // SAFETY: `check` has found that it is not NULL and aligned; the caller promises the number and how it is changed.
    Ok(Some(unsafe { AtomicU32::from_ptr(cancel.cast_mut()) }))
}

fn outcome(step: Step, cancelled: bool) -> i32 {
    match step {
        Step::Yielded if cancelled => status::STOPPED,
        Step::Yielded => status::YIELDED,
        Step::Cancelled => status::STOPPED,
        Step::Ready => status::READY,
        Step::Idle => status::OK,
    }
}

/// Drops the tokens of a sequence that are queued and not finished.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_cancel(engine: *mut gleed_engine, seq: gleed_seq, error: *mut gleed_error) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment and the tag and address of `engine` are checked here. gleed.h demands the rest:
        // nothing but this call uses `engine`.
        let mut engine = unsafe { Object::get_mut("engine", engine) }?;
        engine.cancel(SeqId::from_bits(seq))?;
        Ok(status::OK)
    })
}

/// Returns a row of the last batch that has logits.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_result(
    engine: *const gleed_engine,
    index: usize,
    seq: *mut gleed_seq,
    position: *mut u32,
    logits: *mut *const f32,
    logits_len: *mut usize,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment and the tag and address of `engine` are checked here. gleed.h demands the rest: no
        // other call changes `engine`, and `seq`, `position`, `logits` and `logits_len` are places for results that
        // nothing else uses.
        let (engine, seq, position, logits) = unsafe {
            (
                Object::get("engine", engine)?,
                out("seq", seq)?,
                out("position", position)?,
                out_row(["logits", "logits_len"], logits, logits_len)?,
            )
        };
        let (owner, at, row) = engine.results().nth(index).ok_or_else(|| {
            let results = engine.results().count();
            Failure::new(status::E_NO_LOGITS, format_args!("{results} rows have logits, there is no row {index}"))
                .numbers(results, index)
        })?;
        seq.write(owner.to_bits());
        position.write(small(at));
        logits.write(row);
        Ok(status::OK)
    })
}

/// Returns the logits of a sequence's last row in the last batch.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_logits(
    engine: *const gleed_engine,
    seq: gleed_seq,
    logits: *mut *const f32,
    logits_len: *mut usize,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment and the tag and address of `engine` are checked here. gleed.h demands the rest: no
        // other call changes `engine`, and `logits` and `logits_len` are places for results that nothing else uses.
        let (engine, logits) =
            unsafe { (Object::get("engine", engine)?, out_row(["logits", "logits_len"], logits, logits_len)?) };
        let id = SeqId::from_bits(seq);
        engine.seq_len(id)?;
        let row = engine.logits(id).ok_or_else(|| {
            Failure::new(status::E_NO_LOGITS, format_args!("the last batch had no logits of this sequence"))
        })?;
        logits.write(row);
        Ok(status::OK)
    })
}
