//! Guesses of a model's layer that predicts further ahead. The layer has an engine of its own.

use gleed::Engine;
use gleed::guess::{Guess, NextN};

use crate::engine::gleed_engine;
use crate::error::{Failure, boundary, gleed_error};
use crate::guesses::{Given, Guesses, given_ids, gleed_guesses};
use crate::object::{Alone, Object};
use crate::ptr::{out, out_row, unread};
use crate::sequence::gleed_seq;
use crate::status;
use crate::step::{Watched, gleed_budget};
use crate::versioned::versioned_or_null;

/// The objects that most calls here use: the guesses, the engine of their sequence, and the engine of the layer.
struct Used {
    guesses: Alone<'static, Guesses>,
    engine: Alone<'static, Engine<'static, 'static>>,
    layer: Alone<'static, Engine<'static, 'static>>,
}

impl Used {
    /// Returns the objects at three pointers.
    ///
    /// # Errors
    /// As [`Object::get_mut`].
    ///
    /// # Safety
    /// As [`Object::get_mut`], for each of the three, until the call from C ends.
    unsafe fn new(
        guesses: *mut gleed_guesses,
        engine: *mut gleed_engine,
        layer: *mut gleed_engine,
    ) -> Result<Self, Failure> {
        // SAFETY: the caller promises what `get_mut` asks for, for each of the three.
        let (guesses, engine, layer) = unsafe {
            (Object::get_mut("guesses", guesses)?, Object::get_mut("engine", engine)?, Object::get_mut("layer", layer)?)
        };
        Ok(Self { guesses, engine, layer })
    }
}

/// Calls `run` with the layer's guesses, to which it lends the layer's engine. Their state is kept whatever `run`
/// returns.
fn with_layer<T>(
    guesses: &mut Guesses,
    layer: &mut Engine<'static, 'static>,
    run: impl FnOnce(&mut Guesses, &mut NextN<'_, '_, '_>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let Some(state) = guesses.layer else {
        let text = format_args!("the guesses have no layer: gleed_guesses_layer comes first");
        return Err(Failure::new(status::E_VALUE, text));
    };
    let mut nextn = NextN::resume(layer, state)?;
    let result = run(guesses, &mut nextn);
    guesses.layer = Some(nextn.pause());
    result
}

/// Lets an engine of a layer guess for a sequence. `seq` receives the handle of a new sequence in that engine.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_guesses_layer(
    guesses: *mut gleed_guesses,
    layer: *mut gleed_engine,
    seq: *mut gleed_seq,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment and the tags and addresses of `guesses` and `layer` are checked here. gleed.h demands
        // the rest: nothing but this call uses them, and `seq` is a place for a result that nothing else uses.
        let (mut guesses, mut layer, place) =
            unsafe { (Object::get_mut("guesses", guesses)?, Object::get_mut("layer", layer)?, out("seq", seq)?) };
        let state = NextN::new(&mut layer)?.pause();
        guesses.layer = Some(state);
        place.write(state.seq().to_bits());
        Ok(status::OK)
    })
}

/// Appends tokens to the sequence of the guesses, and lets the layer read them, too.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_guesses_prefill(
    guesses: *mut gleed_guesses,
    engine: *mut gleed_engine,
    layer: *mut gleed_engine,
    tokens: *const u32,
    count: usize,
    logits: *mut *const f32,
    logits_len: *mut usize,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment, lengths and the tags and addresses of `guesses`, `engine` and `layer` are checked
        // here. gleed.h demands the rest: nothing but this call uses them, `count` ids are at `tokens` if so many can
        // be taken, and `logits` and `logits_len` are places for results that nothing else uses.
        let (Used { mut guesses, mut engine, mut layer }, tokens, logits) = unsafe {
            (
                Used::new(guesses, engine, layer)?,
                unread("tokens", tokens, count)?,
                out_row(["logits", "logits_len"], logits, logits_len)?,
            )
        };
        let seq = guesses.guessing.seq();
        let tokens = tokens.read_if(|count| engine.can_prefill(seq, count))?;
        with_layer(&mut guesses, &mut layer, |_, nextn| {
            logits.write(nextn.prefill(&mut engine, seq, tokens)?);
            Ok(status::OK)
        })
    })
}

/// Lets the layer read the hidden states of the last batch of `engine`.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_guesses_see(
    guesses: *mut gleed_guesses,
    engine: *mut gleed_engine,
    layer: *mut gleed_engine,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment and the tags and addresses of `guesses`, `engine` and `layer` are checked here.
        // gleed.h demands the rest: nothing but this call uses them.
        let Used { mut guesses, mut engine, mut layer } = unsafe { Used::new(guesses, engine, layer) }?;
        with_layer(&mut guesses, &mut layer, |guesses, nextn| {
            nextn.see(&mut engine, guesses.guessing.seq())?;
            Ok(status::OK)
        })
    })
}

/// Queues a token that was chosen, and guesses behind it: the host's ids, or, if there are none, those of the layer.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_guesses_queue_layer(
    guesses: *mut gleed_guesses,
    engine: *mut gleed_engine,
    layer: *mut gleed_engine,
    token: u32,
    ids: *const u32,
    ids_len: usize,
    budget: *const gleed_budget,
    guessed: *mut usize,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment, lengths, struct_size and the tags and addresses of `guesses`, `engine` and `layer`
        // are checked here. gleed.h demands the rest: nothing but this call uses them, `ids_len` ids are at `ids` if so
        // many can be taken, `guessed` is a place for a result that nothing else uses, and `budget` is NULL or has as
        // many bytes as its struct_size says.
        let (Used { mut guesses, mut engine, mut layer }, ids, place, budget) = unsafe {
            (
                Used::new(guesses, engine, layer)?,
                unread("ids", ids, ids_len)?,
                out("guessed", guessed)?,
                versioned_or_null("budget", budget)?,
            )
        };
        // SAFETY: gleed.h demands that `cancel` is NULL, or that a number is there until the call ends, which others
        // change only as a whole.
        let budget = unsafe { Watched::new(budget) }?;
        let ids = given_ids(ids)?;
        let queued = with_layer(&mut guesses, &mut layer, |guesses, nextn| {
            let mut source = Given { ids, then: nextn };
            Ok(budget.run(|limits| guesses.guessing.queue(&mut engine, &mut source, token, limits))?)
        })?;
        match queued {
            Some(queued) => place.write(queued),
            None if budget.is_cancelled() => return Ok(status::STOPPED),
            None => return Ok(status::YIELDED),
        }
        Ok(status::OK)
    })
}
