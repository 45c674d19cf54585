//! Guesses: tokens that are computed together, before they are chosen.

use core::ffi::c_void;

use gleed::guess::{Guess, GuessError, Guessing, MAX_GUESSES, NGrams, NextNState, Text};
use gleed::mem::{ALIGN, MemoryError};
use gleed::{Budget, Engine, SeqId};

use crate::engine::gleed_engine;
use crate::error::{Failure, boundary, gleed_error};
use crate::object::{Object, Opaque};
use crate::ptr::{Unread, memory, out, out_layout, out_row, unread};
use crate::sequence::gleed_seq;
use crate::status;

/// The guesses of a sequence, and the table in which repetitions of its text are looked up.
#[derive(Debug)]
pub struct Guesses {
    pub(crate) guessing: Guessing<'static>,
    table: NGrams<'static>,
    /// State of the layer that predicts further ahead, if [`crate::gleed_guesses_layer`] has set one.
    pub(crate) layer: Option<NextNState>,
}

impl Opaque for Guesses {
    const MAGIC: u64 = u64::from_le_bytes(*b"gleedU01");
}

/// The guesses of a sequence, at the head of their memory.
pub type gleed_guesses = Object<Guesses>;

/// A source of guesses: first the ids that the host gives, then the guesses of another source.
pub(crate) struct Given<'g> {
    pub(crate) ids: &'g [u32],
    pub(crate) then: &'g mut dyn Guess,
}

impl Guess for Given<'_> {
    fn guess(
        &mut self,
        text: &Text<'_>,
        budget: &mut Budget<'_>,
        out: &mut [u32],
    ) -> Result<Option<usize>, GuessError> {
        let given = self.ids.len().min(out.len());
        let (known, rest) = out.split_at_mut_checked(given).unwrap_or_default();
        known.iter_mut().zip(self.ids).for_each(|(place, id)| *place = *id);
        let token = |at: usize| match at.checked_sub(text.len()) {
            Some(index) => known.get(index).copied(),
            None => text.token(at),
        };
        let longer = Text::new(text.len().saturating_add(given), &token);
        let found = self.then.guess(&longer, budget, rest)?;
        Ok(found.map(|found| given.saturating_add(found)))
    }

    fn see(&mut self, engine: &mut Engine<'_, '_>, seq: SeqId) -> Result<(), GuessError> {
        self.then.see(engine, seq)
    }
}

/// Returns the ids that a host guesses, if there are at most [`MAX_GUESSES`].
pub(crate) fn given_ids(ids: Unread<'_, u32>) -> Result<&[u32], Failure> {
    Ok(ids.read_if(|given| match given {
        0..=MAX_GUESSES => Ok(()),
        given => Err(GuessError::Most { given, limit: MAX_GUESSES }),
    })?)
}

/// Returns two numbers of bytes: of the head and the guesses, and of these and the table.
fn planned(most: u32, places: u32) -> Result<[usize; 2], Failure> {
    let (most, places) = (most as usize, places as usize);
    if !(1..=MAX_GUESSES).contains(&most) {
        return Err(GuessError::Most { given: most, limit: MAX_GUESSES }.into());
    }
    let guesses = gleed_guesses::with_head(Guessing::plan(most)?)?;
    Ok([guesses, guesses.checked_add(NGrams::plan(places)?).ok_or(MemoryError::TooLarge)?])
}

/// Returns the size and alignment of the memory of guesses, in bytes.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_guesses_plan(
    most: u32,
    places: u32,
    size: *mut usize,
    align: *mut usize,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL and alignment are checked here. gleed.h demands the rest: `size` and `align` are places for
        // results that nothing else uses.
        let layout = unsafe { out_layout(size, align) }?;
        let [_, size] = planned(most, places)?;
        layout.write(size, ALIGN);
        Ok(status::OK)
    })
}

/// Starts the guesses of a sequence in `memory`.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_guesses_init(
    engine: *const gleed_engine,
    seq: gleed_seq,
    most: u32,
    places: u32,
    memory: *mut c_void,
    memory_len: usize,
    guesses: *mut *mut gleed_guesses,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment and the tag and address of `engine` are checked here. gleed.h demands the rest: no
        // other call changes `engine`, and `guesses` is a place for a result that nothing else uses.
        let (engine, place) = unsafe { (Object::get("engine", engine)?, out("guesses", guesses)?) };
        let [table, needed] = planned(most, places)?;
        // SAFETY: the size and alignment of the memory are checked here. gleed.h demands the rest: nothing else uses
        // `memory_len` bytes at `memory`, as long as the guesses are used. So they are lent for as long as they are
        // used.
        let memory = unsafe { self::memory("memory", memory.cast(), memory_len, needed, ALIGN) }?;
        let seq = SeqId::from_bits(seq);
        engine.seq_len(seq)?;
        let (rest, table) = memory.split_at_mut_checked(table).unwrap_or_default();
        let (head, tokens) = gleed_guesses::halves(rest);
        let guessing = Guessing::new(seq, most as usize, tokens)?;
        let table = NGrams::new(places as usize, table)?;
        place.write(Object::place(head, Guesses { guessing, table, layer: None })?);
        Ok(status::OK)
    })
}

/// Queues a token that was chosen, and guesses behind it.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_guesses_queue(
    guesses: *mut gleed_guesses,
    engine: *mut gleed_engine,
    token: u32,
    ids: *const u32,
    ids_len: usize,
    guessed: *mut usize,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment and the tags and addresses of `guesses` and `engine` are checked here. gleed.h
        // demands the rest: nothing but this call uses them.
        let (mut guesses, mut engine) =
            unsafe { (Object::get_mut("guesses", guesses)?, Object::get_mut("engine", engine)?) };
        // SAFETY: NULL, alignment and lengths are checked here. gleed.h demands the rest: `ids_len` ids are at `ids` if
        // so many can be taken, and `guessed` is a place for a result that nothing else uses.
        let (ids, place) = unsafe { (unread("ids", ids, ids_len)?, out("guessed", guessed)?) };
        let ids = given_ids(ids)?;
        let Guesses { guessing, table, .. } = &mut *guesses;
        let queued = guessing.queue(&mut engine, &mut Given { ids, then: table }, token, usize::MAX)?;
        // Neither source computes anything, so the budget cannot end first and give `None`.
        place.write(queued.unwrap_or(0));
        Ok(status::OK)
    })
}

/// Returns the logits from which the next token is to be chosen.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_guesses_logits(
    guesses: *const gleed_guesses,
    engine: *const gleed_engine,
    logits: *mut *const f32,
    logits_len: *mut usize,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment and the tags and addresses of `guesses` and `engine` are checked here. gleed.h
        // demands the rest: no other call changes them, and `logits` and `logits_len` are places for results that
        // nothing else uses.
        let (guesses, engine, logits) = unsafe {
            (
                Object::get("guesses", guesses)?,
                Object::get("engine", engine)?,
                out_row(["logits", "logits_len"], logits, logits_len)?,
            )
        };
        logits.write(guesses.guessing.logits(engine).ok_or_else(no_logits)?);
        Ok(status::OK)
    })
}

/// Takes the token that was chosen from the logits of [`gleed_guesses_logits`].
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_guesses_take(
    guesses: *mut gleed_guesses,
    engine: *const gleed_engine,
    token: u32,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment and the tags and addresses of `guesses` and `engine` are checked here. gleed.h
        // demands the rest: nothing but this call uses `guesses`, and no other call changes `engine`.
        let (mut guesses, engine) = unsafe { (Object::get_mut("guesses", guesses)?, Object::get("engine", engine)?) };
        guesses.guessing.logits(engine).ok_or_else(no_logits)?;
        guesses.guessing.take(token);
        Ok(status::OK)
    })
}

/// Takes back the guesses that were not chosen.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_guesses_end(
    guesses: *mut gleed_guesses,
    engine: *mut gleed_engine,
    ticks: u64,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment and the tags and addresses of `guesses` and `engine` are checked here. gleed.h
        // demands the rest: nothing but this call uses them.
        let (mut guesses, mut engine) =
            unsafe { (Object::get_mut("guesses", guesses)?, Object::get_mut("engine", engine)?) };
        engine.seq_len(guesses.guessing.seq())?;
        guesses.guessing.took(ticks);
        guesses.guessing.end(&mut engine)?;
        Ok(status::OK)
    })
}

impl From<GuessError> for Failure {
    fn from(error: GuessError) -> Self {
        let new = |status| Self::new(status, format_args!("{error}"));
        match error {
            GuessError::Engine(error) | GuessError::Draft(error) => error.into(),
            GuessError::Memory(error) => error.into(),
            GuessError::Most { given, limit } => new(status::E_LIMIT).numbers(limit, given),
            GuessError::Open => new(status::E_BUSY),
            GuessError::NotPredictor => new(status::E_VALUE),
            _ => new(status::E_INTERNAL),
        }
    }
}

fn no_logits() -> Failure {
    Failure::new(
        status::E_NO_LOGITS,
        format_args!("no token is to be chosen: the batch is not done, or its guesses are judged"),
    )
}
