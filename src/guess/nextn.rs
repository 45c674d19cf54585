//! Guesses of the model's own layer that predicts further ahead: Gloeckle et al., "Better & Faster Large Language
//! Models via Multi-token Prediction", 2024; the form is that of DeepSeek-V3. Here the model's own choice decides, so
//! the text is its own.

use super::second::{CHUNK, batch, close, is_end, same_places};
use super::{Guess, GuessError, Text};
use crate::cache::SeqId;
use crate::engine::{Engine, EngineError, Logits, Step};
use crate::par::Budget;
use crate::sample::argmax;

/// Guesses what the layer of [`Model::predictor`](crate::Model::predictor) finds most probable.
///
/// The layer's row `i` is computed from the hidden state that the model had at position `i` of the text and from the
/// token at `i + 1`; it predicts the token at `i + 2`. For further guesses its own hidden state takes the place of the
/// model's. The layer's engine has keys and values of its own, in its own plan.
///
/// The engine has the hidden states of its last batch only, so they are taken over after every batch.
/// [`Guessing::queue`](super::Guessing::queue) does that for its own sequence. A host whose engine also computes other
/// sequences in between has to call [`Guess::see`] after each step that was ready, while no guesses are open. Where
/// hidden states were missed, the layer begins anew behind them, with fewer tokens before it. [`NextN::prefill`] gives
/// it a prompt.
///
/// It guesses nothing where its context or pool is full, where it has not seen the last row, on a device, and where its
/// logits are not finite. A budget of units is kept: at most one batch is computed within it.
///
/// [Example](crate::guess#a-layer-that-predicts-further-ahead).
#[derive(Debug)]
pub struct NextN<'e, 'm, 'a> {
    engine: &'e mut Engine<'m, 'a>,
    rows: NextNState,
}

/// What [`NextN`] knows of the layer's rows, for a host that lends it the engine for one call at a time:
/// [`NextN::pause`] returns it, [`NextN::resume`] takes it.
///
/// [Example](crate::guess#a-layer-that-predicts-further-ahead).
#[derive(Clone, Copy, Debug)]
pub struct NextNState {
    seq: SeqId,
    /// The position in the text of the layer's first row.
    base: usize,
    /// Number of the layer's first rows that were computed from hidden states of the model.
    true_rows: usize,
    /// Number of rows whose hidden states were seen.
    seen: usize,
    /// The first row from which on the seen hidden states are still there.
    kept: usize,
    /// The length and the last token of the text that guesses are being made for.
    text: Option<(usize, u32)>,
    /// Number of guesses that were made for this text.
    made: usize,
}

impl NextNState {
    /// Returns the handle of the sequence in the layer's engine.
    pub fn seq(&self) -> SeqId {
        self.seq
    }
}

impl<'e, 'm, 'a> NextN<'e, 'm, 'a> {
    /// Returns a source of guesses of a layer, in a new sequence of its engine. The engine has no other work meanwhile.
    ///
    /// # Errors
    /// [`GuessError::NotPredictor`]: the engine is that of another model. [`GuessError::Draft`]: all sequences are
    /// open.
    pub fn new(engine: &'e mut Engine<'m, 'a>) -> Result<Self, GuessError> {
        if !engine.model().config().is_predictor() {
            return Err(GuessError::NotPredictor);
        }
        let seq = engine.open().map_err(GuessError::Draft)?;
        Ok(Self { engine, rows: NextNState { seq, base: 0, true_rows: 0, seen: 0, kept: 0, text: None, made: 0 } })
    }

    /// Gives the engine back. Its sequence stays open.
    pub fn pause(self) -> NextNState {
        self.rows
    }

    /// Goes on where [`NextN::pause`] was called, with the same engine. If the sequence was changed meanwhile, guesses
    /// are worse, or none.
    ///
    /// # Errors
    /// [`GuessError::NotPredictor`]: the engine is that of another model. [`GuessError::Draft`]: the sequence is not
    /// open.
    pub fn resume(engine: &'e mut Engine<'m, 'a>, state: NextNState) -> Result<Self, GuessError> {
        if !engine.model().config().is_predictor() {
            return Err(GuessError::NotPredictor);
        }
        engine.seq_len(state.seq).map_err(GuessError::Draft)?;
        Ok(Self { engine, rows: state })
    }

    /// Closes the sequence.
    ///
    /// # Errors
    /// [`GuessError::Draft`]: the sequence is closed already.
    pub fn close(self) -> Result<(), GuessError> {
        close(self.engine, self.rows.seq)
    }

    /// Appends tokens to a sequence of the engine that checks, as [`Engine::prefill`] does, and lets the layer read
    /// them, too. Returns the logits of the last token: `[vocab]`, valid until the next call that changes the engine.
    ///
    /// After an error the sequence may have some of the tokens.
    ///
    /// # Errors
    /// As [`Engine::prefill`]; [`GuessError::Draft`]; [`GuessError::NotPredictor`] where the layer is that of another
    /// model.
    pub fn prefill<'t>(
        &mut self,
        engine: &'t mut Engine<'_, '_>,
        seq: SeqId,
        tokens: &[u32],
    ) -> Result<&'t [f32], GuessError> {
        engine.can_prefill(seq, tokens.len())?;
        engine.check_tokens(tokens)?;
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

    /// Keeps the layer's rows that belong to a text, and drops the others and the guesses. If `guesses` is set, the
    /// last row runs again, because its logits are not kept.
    fn begin(&mut self, text: &Text<'_>, last: u32, guesses: bool) -> Result<(), EngineError> {
        if self.rows.text == Some((text.len(), last)) {
            return Ok(());
        }
        (self.rows.text, self.rows.made) = (None, 0);
        self.engine.cancel(self.rows.seq)?;
        let same = self.same(text);
        if same < self.rows.true_rows {
            // The token of row `same` is another one now. The hidden state of this row is what it was: it depends on
            // earlier tokens only.
            self.rows.seen = self.rows.seen.min(same.saturating_add(1));
            self.rows.true_rows = same;
        }
        let rows = text.len().saturating_sub(self.rows.base.saturating_add(1));
        self.rows.seen = self.rows.seen.min(rows.saturating_add(1));
        if guesses {
            self.rows.true_rows = self.rows.true_rows.min(rows.saturating_sub(1));
        }
        if self.rows.kept > self.rows.true_rows {
            // The hidden states of the next rows have given way to later ones.
            self.restart(self.rows.base.saturating_add(self.rows.seen))?;
        }
        if self.engine.rewind(self.rows.seq, self.rows.true_rows.min(self.engine.seq_len(self.rows.seq)?)).is_err() {
            self.restart(self.rows.base.saturating_add(self.rows.seen))?;
        }
        self.rows.text = Some((text.len(), last));
        Ok(())
    }

    /// Returns how many of the true rows have the tokens of a text.
    fn same(&self, text: &Text<'_>) -> usize {
        let cache = self.engine.cache();
        let is_same = |row: &usize| {
            let token = text.token(self.rows.base.saturating_add(*row).saturating_add(1));
            token.is_some() && token == cache.token(self.rows.seq, *row)
        };
        let known = self.rows.true_rows.min(text.len().saturating_sub(self.rows.base.saturating_add(1)));
        same_places(known, known, is_same)
    }

    /// Forgets everything. The next row is the row of position `base`.
    fn restart(&mut self, base: usize) -> Result<(), EngineError> {
        self.engine.cancel(self.rows.seq)?;
        self.engine.reset(self.rows.seq)?;
        (self.rows.base, self.rows.true_rows, self.rows.seen, self.rows.kept) = (base, 0, 0, 0);
        (self.rows.text, self.rows.made) = (None, 0);
        Ok(())
    }

    /// Computes the true rows that are missing. Returns whether all are there. They are not if the budget is used up.
    fn catch_up(&mut self, text: &Text<'_>, budget: &mut Budget<'_>) -> Result<bool, EngineError> {
        loop {
            if !self.run(budget)? {
                return Ok(false);
            }
            self.rows.true_rows = self.engine.seq_len(self.rows.seq)?;
            // The last token of the text is the token of the last row.
            let rows = self.rows.seen.min(text.len().saturating_sub(self.rows.base.saturating_add(1)));
            if self.rows.true_rows >= rows {
                return Ok(true);
            }
            let mut tokens = [0; CHUNK];
            let known = (self.rows.true_rows..rows)
                .map_while(|row| text.token(self.rows.base.saturating_add(row).saturating_add(1)));
            let count = tokens.iter_mut().zip(known).map(|(place, token)| *place = token).count();
            self.engine.queue_given(self.rows.seq, tokens.get(..count).unwrap_or_default())?;
        }
    }

    /// Computes all rows that are queued. Returns whether they are done. They are not if the budget is used up.
    fn run(&mut self, budget: &mut Budget<'_>) -> Result<bool, EngineError> {
        while self.engine.progress(self.rows.seq)?.queued > 0 {
            if !batch(self.engine, budget)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Takes over the hidden state of a position for a row. Returns whether the last batch has it.
    fn give(&mut self, row: usize, engine: &mut Engine<'_, '_>, of: (SeqId, usize)) -> Result<bool, GuessError> {
        self.engine.give((self.rows.seq, row), engine, of).map_err(|error| match error {
            EngineError::Predictor => GuessError::NotPredictor,
            error => GuessError::Draft(error),
        })
    }

    /// Goes on until there are as many guesses as fit into `out`. Returns their number, or `None` if the budget is used
    /// up.
    fn advance(
        &mut self,
        text: &Text<'_>,
        budget: &mut Budget<'_>,
        out: &mut [u32],
    ) -> Result<Option<usize>, EngineError> {
        if self.rows.made == 0 && !self.catch_up(text, budget)? {
            return Ok(None);
        }
        // The last true row has to be the row of the last position but one.
        if self.rows.base.saturating_add(self.rows.true_rows).saturating_add(1) != text.len()
            || self.rows.true_rows == 0
        {
            return Ok(Some(0));
        }
        loop {
            if !self.run(budget)? {
                return Ok(None);
            }
            let rows = self.engine.seq_len(self.rows.seq)?;
            // If there are no logits, the host has used the sequence since NextN::pause.
            let Some(logits) = self.engine.logits(self.rows.seq) else { return Ok(Some(0)) };
            self.rows.made = rows.saturating_sub(self.rows.true_rows).saturating_add(1);
            let guess = argmax(logits).map_err(|_| EngineError::Internal(site!()))?;
            let last = rows.checked_sub(1).ok_or(EngineError::Internal(site!()))?;
            // The guesses before this one are the tokens of the rows behind the true ones.
            for (index, place) in out.iter_mut().enumerate().take(self.rows.made) {
                *place = self
                    .engine
                    .cache()
                    .token(self.rows.seq, self.rows.true_rows.saturating_add(index))
                    .unwrap_or(guess);
            }
            if self.rows.made >= out.len() {
                return Ok(Some(self.rows.made));
            }
            self.engine.give_own(self.rows.seq, rows, last)?;
            // The new hidden state takes the place of an earlier one. Hidden states behind the true rows are not
            // counted.
            let gone = rows.saturating_add(1).saturating_sub(self.engine.given_rows());
            self.rows.kept = self.rows.kept.max(gone.min(self.rows.true_rows));
            if let Err(error) = self.engine.queue_given(self.rows.seq, &[guess]) {
                return if is_end(&error) { Ok(Some(self.rows.made)) } else { Err(error) };
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
        self.rows.text = None;
        Ok(Some(made))
    }

    fn see(&mut self, engine: &mut Engine<'_, '_>, seq: SeqId) -> Result<(), GuessError> {
        let len = engine.seq_len(seq)?;
        // A batch has at most this number of rows.
        let first = len.saturating_sub(engine.cache().geometry().rows);
        for position in first.max(self.rows.base.saturating_add(self.rows.kept))..len {
            let mut row = position.saturating_sub(self.rows.base);
            if row > self.rows.seen && self.give(row, engine, (seq, position))? {
                // Rows between were not seen.
                self.restart(position).map_err(GuessError::Draft)?;
                row = 0;
            }
            if row <= self.rows.seen && self.give(row, engine, (seq, position))? {
                self.rows.seen = self.rows.seen.max(row.saturating_add(1));
                self.rows.kept = self.rows.kept.max(self.rows.seen.saturating_sub(self.engine.given_rows()));
            }
        }
        Ok(())
    }
}
