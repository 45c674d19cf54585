//! Guesses in one sequence: queued, checked, and taken back where they are wrong.

use super::pace::{MAX_GUESSES, Pace};
use super::{Guess, GuessError, Text};
use crate::cache::SeqId;
use crate::engine::{Engine, EngineError, Logits};
use crate::mem::{Arena, MemoryError};
use crate::par::Budget;

/// Guesses the next tokens of one sequence, and has them checked in one batch.
///
/// Its calls take the place of [`Engine::queue`] for the token that was chosen last: [`Guessing::queue`], then steps of
/// the engine, then [`Guessing::logits`] and [`Guessing::take`] for one token after the other, then [`Guessing::end`].
/// In all calls outside of these, the sequence is as after decoding token by token.
///
/// [Example](crate::guess#example).
#[derive(Debug)]
pub struct Guessing<'a> {
    seq: SeqId,
    /// The last token that was chosen, and the guesses behind it.
    tokens: &'a mut [u32],
    pace: Pace,
    /// Number of tokens to guess for the batch to come, once it is known.
    length: Option<usize>,
    /// Whether the next batch has no guesses, because one with guesses has failed.
    plain: bool,
    open: Option<Open>,
    counts: Counts,
}

/// A batch with guesses.
#[derive(Clone, Copy, Debug)]
struct Open {
    /// The position of the first token.
    position: usize,
    /// Number of rows that are computed again in this batch.
    again: usize,
    /// Number of guesses.
    guessed: usize,
    /// Number of tokens that were chosen from its rows.
    taken: usize,
    /// Number of chosen tokens that were the guessed ones.
    right: usize,
}

impl Open {
    /// Returns whether there is a next row whose logits belong to the text.
    fn goes_on(&self) -> bool {
        self.taken == self.right && self.taken <= self.guessed
    }
}

/// What came of the guesses.
///
/// [Example](crate::guess#example).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Number of tokens that were guessed and computed.
    pub proposed: u64,
    /// Number of these tokens that were right.
    pub accepted: u64,
}

/// Why nothing is guessed.
///
/// [Example](crate::guess#example).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Off {
    /// `Limits::logit_rows` is 1, so no row of a guess can have logits.
    LogitRows,
    /// Guesses have not paid. They are tried again from time to time.
    DoesNotPay,
}

impl core::fmt::Display for Off {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::LogitRows => "the limit logit_rows is 1, so no guess can be checked",
            Self::DoesNotPay => "guesses have not paid",
        })
    }
}

impl<'a> Guessing<'a> {
    /// Returns the number of bytes of memory for at most `most` guesses at a time: 4 for each guess and 4 for the token
    /// before them, rounded up to [`ALIGN`](crate::mem::ALIGN).
    ///
    /// # Errors
    /// [`MemoryError::TooLarge`].
    pub fn plan(most: usize) -> Result<usize, MemoryError> {
        let mut arena = Arena::measuring();
        carve(&mut arena, most)?;
        Ok(arena.used())
    }

    /// Returns the guesses of a sequence, at most `most` at a time. `most` is from 1 to [`MAX_GUESSES`]. A batch has up
    /// to `most` + 1 rows with logits, where `Limits::logit_rows` allows them. `memory` starts at a multiple of
    /// [`ALIGN`](crate::mem::ALIGN).
    ///
    /// # Errors
    /// [`GuessError::Most`]; [`GuessError::Memory`] if `memory` is too small or not aligned.
    pub fn new(seq: SeqId, most: usize, memory: &'a mut [u8]) -> Result<Self, GuessError> {
        if !(1..=MAX_GUESSES).contains(&most) {
            return Err(GuessError::Most { given: most, limit: MAX_GUESSES });
        }
        let tokens = carve(&mut Arena::new(memory)?, most)?;
        Ok(Self { seq, tokens, pace: Pace::NEW, length: None, plain: false, open: None, counts: Counts::default() })
    }

    /// Returns the handle of the sequence.
    pub fn seq(&self) -> SeqId {
        self.seq
    }

    /// Returns what came of the guesses so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Returns why nothing is guessed at present, if that is so.
    pub fn off(&self, engine: &Engine<'_, '_>) -> Option<Off> {
        if engine.logit_rows() < 2 { Some(Off::LogitRows) } else { self.pace.rests().then_some(Off::DoesNotPay) }
    }

    /// Queues `token`, which was chosen last, and behind it what `source` guesses. Returns the number of guesses, or
    /// `None` if the source has used up the budget. Then the same call goes on with the source's work. Only sources
    /// that compute use up any budget.
    ///
    /// There are fewer guesses, or none, where guesses do not pay, where the context or the pool is nearly full, where
    /// a window would give back blocks that a rewind needs, and where a checkpoint is due. In a model with recurrent
    /// layers there are none in the call after a wrong guess: see [the module](crate::guess#recurrent-layers).
    ///
    /// # Errors
    /// As [`Engine::queue`]; what the source answers; [`GuessError::Open`]. Nothing has changed then.
    pub fn queue<'b>(
        &mut self,
        engine: &mut Engine<'_, '_>,
        source: &mut dyn Guess,
        token: u32,
        budget: impl Into<Budget<'b>>,
    ) -> Result<Option<usize>, GuessError> {
        if self.open.is_some() {
            return Err(GuessError::Open);
        }
        let (position, again) = (engine.seq_len(self.seq)?, engine.rows_again(self.seq)?);
        engine.can_extend(self.seq, 1)?;
        source.see(engine, self.seq)?;
        let Some(guessed) = self.guess(engine, source, position, token, &mut budget.into())? else { return Ok(None) };
        let tokens = self.tokens.get(..=guessed).ok_or(EngineError::Internal(site!()))?;
        engine.queue(self.seq, position, tokens, Logits::All)?;
        engine.note_queued_guesses(self.seq);
        self.open = Some(Open { position, again, guessed, taken: 0, right: 0 });
        self.length = None;
        Ok(Some(guessed))
    }

    /// Returns the logits from which the next token is to be chosen: `[vocab]`. `None` while they are not computed, and
    /// if there are no more of them before [`Guessing::end`].
    pub fn logits<'e>(&self, engine: &'e Engine<'_, '_>) -> Option<&'e [f32]> {
        let open = self.open.filter(Open::goes_on)?;
        let at = open.position.saturating_add(open.taken);
        // Until the batch is done, the engine has the results of the batch before, and among them may be a wrong guess
        // at this position.
        engine.seq_len(self.seq).ok().filter(|len| *len > at)?;
        engine.results().find(|&(seq, position, _)| seq == self.seq && position == at).map(|(_, _, logits)| logits)
    }

    /// Takes the token that was chosen from these logits. Returns whether another one is to be chosen from the same
    /// batch. (If a batch has too few rows with logits for all sequences, the missing logits come with a later step.)
    pub fn take(&mut self, token: u32) -> bool {
        let Some(open) = self.open.as_mut().filter(|open| open.goes_on()) else { return false };
        let guess = self.tokens.get(open.taken.saturating_add(1)).filter(|_| open.taken < open.guessed);
        open.taken = open.taken.saturating_add(1);
        open.right = open.right.saturating_add(usize::from(guess == Some(&token)));
        open.goes_on()
    }

    /// Notes how long this batch took: ticks of the host's clock from [`Guessing::queue`] to the logits. The host's
    /// other work in this time has to be the same for batches of all lengths. So the number of guesses follows the
    /// machine. Without these times, each further row is assumed to cost a fifth of the first one. The call comes
    /// before [`Guessing::end`].
    pub fn took(&mut self, ticks: u64) {
        if let Some(open) = self.open {
            self.pace.took(
                open.again.saturating_add(open.guessed).saturating_add(1),
                u32::try_from(ticks).unwrap_or(u32::MAX),
            );
        }
    }

    /// Takes back the guesses that were not chosen. Then the sequence is as after decoding token by token, with all
    /// tokens that were taken but the last one. Tokens that are still queued for it are dropped. The call may come at
    /// any time, also after an error of a step. Then the next [`Guessing::queue`] guesses nothing, so that an error
    /// that comes again is due to the text itself.
    ///
    /// # Errors
    /// The sequence is unknown. Nothing has changed then.
    pub fn end(&mut self, engine: &mut Engine<'_, '_>) -> Result<(), GuessError> {
        let Some(open) = self.open else { return Ok(()) };
        if engine.progress(self.seq)?.queued > 0 {
            engine.cancel(self.seq)?;
        }
        let (len, keep) = (engine.seq_len(self.seq)?, open.position.saturating_add(open.taken.max(1)));
        engine.keep_guesses(self.seq, keep.min(len))?;
        let (proposed, accepted) = if open.taken > 0 { (open.guessed, open.right) } else { (0, 0) };
        engine.note_guesses(proposed, accepted, len.saturating_sub(keep));
        self.plain = len == open.position && open.guessed > 0;
        if open.taken > 0 {
            // Where the host has stopped taking tokens, nothing is known of the guesses behind.
            self.pace.checked(if open.goes_on() { open.right } else { open.guessed }, open.right);
            self.counts.proposed = self.counts.proposed.saturating_add(open.guessed as u64);
            self.counts.accepted = self.counts.accepted.saturating_add(open.right as u64);
        }
        self.open = None;
        Ok(())
    }

    /// Writes the token and the guesses behind it. Returns the number of guesses, or `None` if the budget is used up.
    fn guess(
        &mut self,
        engine: &Engine<'_, '_>,
        source: &mut dyn Guess,
        position: usize,
        token: u32,
        budget: &mut Budget<'_>,
    ) -> Result<Option<usize>, GuessError> {
        let (place, guesses) = self.tokens.split_first_mut().ok_or(EngineError::Internal(site!()))?;
        *place = token;
        let room = if self.plain { 0 } else { room(engine, self.seq, position, guesses.len())? };
        let pace = &mut self.pace;
        pace.computes_again(engine.cache().has_states());
        let length = if room == 0 { 0 } else { (*self.length.get_or_insert_with(|| pace.next(room))).min(room) };
        let Some(guesses) = guesses.get_mut(..length).filter(|guesses| !guesses.is_empty()) else { return Ok(Some(0)) };
        let (cache, seq, vocab) = (engine.cache(), self.seq, engine.model().config().vocab);
        let known = |at| if at == position { Some(token) } else { cache.token(seq, at) };
        let text = Text::new(position.saturating_add(1), &known);
        let Some(count) = source.guess(&text, budget, guesses)? else { return Ok(None) };
        // A source with another vocabulary can guess ids that this model does not have.
        Ok(Some(guesses.iter().take(count).take_while(|&&guess| (guess as usize) < vocab).count()))
    }
}

/// Returns how many tokens can be guessed behind the token at a position.
fn room(engine: &Engine<'_, '_>, seq: SeqId, position: usize, most: usize) -> Result<usize, EngineError> {
    let kept = engine.cache().geometry().kept_behind(position.saturating_add(1));
    let most = most.min(engine.logit_rows().saturating_sub(1)).min(kept).min(engine.room_for_guesses(seq, position)?);
    Ok((1..=most).rev().find(|guesses| engine.can_extend(seq, guesses + 1).is_ok()).unwrap_or(0))
}

fn carve<'a>(arena: &mut Arena<'a>, most: usize) -> Result<&'a mut [u32], MemoryError> {
    arena.slice("guesses", most.checked_add(1).ok_or(MemoryError::TooLarge)?)
}
