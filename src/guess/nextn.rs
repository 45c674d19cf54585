//! Guesses of the model's own layer that predicts further ahead: Gloeckle et al., "Better & Faster Large Language Models via
//! Multi-token Prediction", 2024; the form is that of DeepSeek-V3. Here the model's own choice decides, so the text is its own.

use super::draft::is_end;
use super::{Guess, GuessError, Text};
use crate::cache::SeqId;
use crate::engine::{Engine, EngineError, Logits, Step};
use crate::par::Budget;
use crate::sample::argmax;

/// Tokens that are queued at a time.
const CHUNK: usize = 64;

/// Tokens before those that are known to be the same, which are compared again.
const OVERLAP: usize = 8;

/// Guesses what the layer of [`Model::predictor`](crate::Model::predictor) finds most probable.
///
/// The layer's row `i` is computed from the hidden state that the model had at position `i` of the text and from the token at
/// `i + 1`; it predicts the token at `i + 2`. For further guesses its own hidden state takes the place of the model's. The
/// layer's engine has keys and values of its own, in its own plan.
///
/// Hidden states are those of the engine's last batch, so they are taken over after every batch: [`Guessing::queue`](super::Guessing::queue)
/// does that for its own sequence. A host whose engine computes other sequences between calls [`Guess::see`] after each step that
/// was ready, while no guesses are open. What was missed the layer does not know: it begins anew behind it, with fewer tokens before
/// it. [`NextN::prefill`] gives it a prompt.
///
/// It guesses nothing where its context or pool is full, where it has not seen the last row, on a device, and where its logits are
/// not finite. A budget of units is kept: it computes at most one batch within one.
///
/// [Example](crate::guess#a-layer-that-predicts-further-ahead).
#[derive(Debug)]
pub struct NextN<'e, 'm, 'a> {
    engine: &'e mut Engine<'m, 'a>,
    seq: SeqId,
    /// The position in the text of the layer's first row.
    base: usize,
    /// The layer's first rows that were computed from hidden states of the model.
    true_rows: usize,
    /// Its rows whose hidden states were seen, of which those from `kept` on are still there.
    seen: usize,
    kept: usize,
    /// The length and the last token of the text that guesses are being made for.
    text: Option<(usize, u32)>,
    /// The guesses that were made for it.
    made: usize,
}

impl<'e, 'm, 'a> NextN<'e, 'm, 'a> {
    /// Returns the guesses of a layer, in a new sequence of its engine. The engine has no other work meanwhile.
    ///
    /// # Errors
    /// [`GuessError::NotPredictor`]: the engine is that of another model. [`GuessError::Draft`]: all sequences are open.
    pub fn new(engine: &'e mut Engine<'m, 'a>) -> Result<Self, GuessError> {
        if !engine.model().config().is_predictor() {
            return Err(GuessError::NotPredictor);
        }
        let seq = engine.open().map_err(GuessError::Draft)?;
        Ok(Self { engine, seq, base: 0, true_rows: 0, seen: 0, kept: 0, text: None, made: 0 })
    }

    /// Closes the sequence.
    ///
    /// # Errors
    /// [`GuessError::Draft`]: it is closed already.
    pub fn close(self) -> Result<(), GuessError> {
        let closed = self.engine.cancel(self.seq).and_then(|()| self.engine.close(self.seq));
        closed.map_err(GuessError::Draft)
    }

    /// Appends tokens to a sequence of the engine that checks, as [`Engine::prefill`] does, and lets the layer read them, too.
    /// Returns the logits of the last one: `[vocab]`, valid until the next call that changes the engine.
    ///
    /// After an error the sequence may have some of the tokens.
    ///
    /// # Errors
    /// As [`Engine::prefill`]; [`GuessError::Draft`]; [`GuessError::NotPredictor`] where the layer is that of another model.
    pub fn prefill<'t>(
        &mut self,
        engine: &'t mut Engine<'_, '_>,
        seq: SeqId,
        tokens: &[u32],
    ) -> Result<&'t [f32], GuessError> {
        engine.can_prefill(seq, tokens.len())?;
        let (last, before) = tokens.split_last().ok_or(EngineError::Empty)?;
        let chunk = engine.cache().geometry().rows.min(self.engine.cache().geometry().rows).max(1);
        for part in before.chunks(chunk) {
            engine.queue(seq, engine.seq_len(seq)?, part, Logits::Hidden)?;
            while engine.step(usize::MAX)? != Step::Idle {
                self.see(engine, seq)?;
                self.read(engine, seq)?;
            }
        }
        Ok(engine.decode_step(seq, *last)?)
    }

    /// Computes the rows whose hidden states were seen and whose tokens are part of the sequence.
    fn read(&mut self, engine: &Engine<'_, '_>, seq: SeqId) -> Result<(), GuessError> {
        let len = engine.seq_len(seq)?;
        let known = |at| engine.cache().token(seq, at);
        let text = Text::new(len, &known);
        let Some(last) = len.checked_sub(1).and_then(|at| text.token(at)) else { return Ok(()) };
        self.begin(&text, last, false).map_err(GuessError::Draft)?;
        let done = self.catch_up(&text, &mut usize::MAX.into());
        done.map(|_| ()).or_else(|error| if is_end(&error) { Ok(()) } else { Err(GuessError::Draft(error)) })
    }

    /// Makes the layer's rows those of a text, as far as they are, and drops guesses. Where there are to be some, the last row runs
    /// again, because its logits are not kept.
    fn begin(&mut self, text: &Text<'_>, last: u32, guesses: bool) -> Result<(), EngineError> {
        if self.text == Some((text.len(), last)) {
            return Ok(());
        }
        (self.text, self.made) = (None, 0);
        self.engine.cancel(self.seq)?;
        let same = self.same(text);
        if same < self.true_rows {
            // The token that follows row `same` is another one. The hidden state at its own is what it was.
            self.seen = self.seen.min(same.saturating_add(1));
            self.true_rows = same;
        }
        let rows = text.len().saturating_sub(self.base.saturating_add(1));
        self.seen = self.seen.min(rows.saturating_add(1));
        if guesses {
            self.true_rows = self.true_rows.min(rows.saturating_sub(1));
        }
        if self.kept > self.true_rows {
            // The hidden states have given way to later ones.
            self.restart(self.base.saturating_add(self.seen))?;
        }
        if self.engine.rewind(self.seq, self.true_rows.min(self.engine.seq_len(self.seq)?)).is_err() {
            self.restart(self.base.saturating_add(self.seen))?;
        }
        self.text = Some((text.len(), last));
        Ok(())
    }

    /// How many of the true rows have the tokens of a text.
    fn same(&self, text: &Text<'_>) -> usize {
        let cache = self.engine.cache();
        let is_same = |row: &usize| {
            let token = text.token(self.base.saturating_add(*row).saturating_add(1));
            token.is_some() && token == cache.token(self.seq, *row)
        };
        let same_from = |begin: usize| begin.saturating_add((begin..self.true_rows).take_while(is_same).count());
        let known = self.true_rows.min(text.len().saturating_sub(self.base.saturating_add(1)));
        let begin = known.saturating_sub(OVERLAP);
        let same = same_from(begin);
        // The host has gone back further than that.
        if same == begin && begin < known { same_from(0) } else { same }
    }

    /// Forgets everything; the next row is that of a position.
    fn restart(&mut self, base: usize) -> Result<(), EngineError> {
        self.engine.cancel(self.seq)?;
        self.engine.reset(self.seq)?;
        (self.base, self.true_rows, self.seen, self.kept) = (base, 0, 0, 0);
        (self.text, self.made) = (None, 0);
        Ok(())
    }

    /// Computes the true rows that are missing. Returns whether all are there; not so where the budget is used up.
    fn catch_up(&mut self, text: &Text<'_>, budget: &mut Budget<'_>) -> Result<bool, EngineError> {
        loop {
            if !self.run(budget)? {
                return Ok(false);
            }
            self.true_rows = self.engine.seq_len(self.seq)?;
            // The last token of the text is that of the last row.
            let rows = self.seen.min(text.len().saturating_sub(self.base.saturating_add(1)));
            if self.true_rows >= rows {
                return Ok(true);
            }
            let mut tokens = [0; CHUNK];
            let known =
                (self.true_rows..rows).map_while(|row| text.token(self.base.saturating_add(row).saturating_add(1)));
            let count = tokens.iter_mut().zip(known).map(|(place, token)| *place = token).count();
            self.engine.queue_given(self.seq, tokens.get(..count).unwrap_or_default())?;
        }
    }

    /// Computes what is queued. Returns whether that came to its end.
    fn run(&mut self, budget: &mut Budget<'_>) -> Result<bool, EngineError> {
        while self.engine.progress(self.seq)?.queued > 0 {
            match self.engine.step(*budget)? {
                Step::Yielded | Step::Cancelled => return Ok(false),
                Step::Ready | Step::Idle => {}
            }
            if budget.units < usize::MAX {
                // Nobody says how many of them are left.
                budget.units = 0;
            }
        }
        Ok(true)
    }

    /// Takes over the hidden state of a position for a row. Returns whether the last batch has it.
    fn give(&mut self, row: usize, engine: &mut Engine<'_, '_>, of: (SeqId, usize)) -> Result<bool, GuessError> {
        self.engine.give((self.seq, row), engine, of).map_err(|error| match error {
            EngineError::Predictor => GuessError::NotPredictor,
            error => GuessError::Draft(error),
        })
    }

    /// Goes on until there are as many guesses as fit. `None`: the budget is used up.
    fn advance(
        &mut self,
        text: &Text<'_>,
        budget: &mut Budget<'_>,
        out: &mut [u32],
    ) -> Result<Option<usize>, EngineError> {
        if self.made == 0 && !self.catch_up(text, budget)? {
            return Ok(None);
        }
        // The last row is that of the last token but one.
        if self.base.saturating_add(self.true_rows).saturating_add(1) != text.len() || self.true_rows == 0 {
            return Ok(Some(0));
        }
        loop {
            if !self.run(budget)? {
                return Ok(None);
            }
            let rows = self.engine.seq_len(self.seq)?;
            self.made = rows.saturating_sub(self.true_rows).saturating_add(1);
            let logits = self.engine.logits(self.seq).ok_or(EngineError::Internal(site!()))?;
            let guess = argmax(logits).map_err(|_| EngineError::Internal(site!()))?;
            let last = rows.checked_sub(1).ok_or(EngineError::Internal(site!()))?;
            // Those before it are the tokens of the rows behind the true ones.
            for (index, place) in out.iter_mut().enumerate().take(self.made) {
                *place = self.engine.cache().token(self.seq, self.true_rows.saturating_add(index)).unwrap_or(guess);
            }
            if self.made >= out.len() {
                return Ok(Some(self.made));
            }
            self.engine.give_own(self.seq, rows, last)?;
            // It takes the place of an earlier one. Those behind the true rows are nobody's.
            let gone = rows.saturating_add(1).saturating_sub(self.engine.given_rows());
            self.kept = self.kept.max(gone.min(self.true_rows));
            if let Err(error) = self.engine.queue_given(self.seq, &[guess]) {
                return if is_end(&error) { Ok(Some(self.made)) } else { Err(error) };
            }
        }
    }
}

impl Guess for NextN<'_, '_, '_> {
    fn guess(
        &mut self,
        text: &Text<'_>,
        budget: &mut Budget<'_>,
        out: &mut [u32],
    ) -> Result<Option<usize>, GuessError> {
        let Some(last) = text.len().checked_sub(1).and_then(|at| text.token(at)) else { return Ok(Some(0)) };
        self.begin(text, last, true).map_err(GuessError::Draft)?;
        let made = match self.advance(text, budget, out) {
            Ok(None) => return Ok(None),
            Ok(Some(made)) => made,
            Err(EngineError::NonFinite { .. }) => 0,
            Err(error) if is_end(&error) => 0,
            Err(error) => return Err(GuessError::Draft(error)),
        };
        self.text = None;
        Ok(Some(made))
    }

    fn see(&mut self, engine: &mut Engine<'_, '_>, seq: SeqId) -> Result<(), GuessError> {
        let len = engine.seq_len(seq)?;
        // A batch has at most so many rows.
        let first = len.saturating_sub(engine.cache().geometry().rows);
        for position in first.max(self.base.saturating_add(self.kept))..len {
            let mut row = position.saturating_sub(self.base);
            if row > self.seen && self.give(row, engine, (seq, position))? {
                // Rows between were not seen.
                self.restart(position).map_err(GuessError::Draft)?;
                row = 0;
            }
            if row <= self.seen && self.give(row, engine, (seq, position))? {
                self.seen = self.seen.max(row.saturating_add(1));
                self.kept = self.kept.max(self.seen.saturating_sub(self.engine.given_rows()));
            }
        }
        Ok(())
    }
}
