//! Guesses of the next tokens.

use std::time::Instant;

use gleed::guess::{Guessing, NGrams};
use gleed::host::AlignedBytes;
use gleed::{Engine, SeqId, Step};

use super::constraint::Constraint;
use super::run::Steps;
use super::story::Story;
use super::{Result, interrupt};

/// The most guesses at a time.
pub const MOST: usize = 15;

/// The memory of guesses.
pub struct Room {
    guesses: AlignedBytes,
    table: AlignedBytes,
    places: usize,
}

impl Room {
    /// Room for the guesses in a text of so many tokens.
    pub fn new(tokens: usize) -> Result<Self> {
        let (guesses, table) = (Guessing::plan(MOST)?, NGrams::plan(tokens)?);
        Ok(Self { guesses: AlignedBytes::new(guesses), table: AlignedBytes::new(table), places: tokens })
    }

    /// Guesses of a sequence; with `auto` forced tokens are among them, and the clock says how many pay.
    pub fn begin(&mut self, seq: SeqId, auto: bool) -> Result<Guesses<'_>> {
        let ngrams = NGrams::new(self.places, self.table.bytes())?;
        Ok(Guesses { guessing: Guessing::new(seq, MOST, self.guesses.bytes())?, ngrams, auto })
    }
}

/// Guesses, and where they come from.
pub struct Guesses<'g> {
    pub guessing: Guessing<'g>,
    ngrams: NGrams<'g>,
    auto: bool,
}

impl Guesses<'_> {
    /// Computes the token that was chosen last, and guesses behind it. Returns whether that came to its end; not so after Ctrl-C.
    pub fn advance(
        &mut self,
        engine: &mut Engine<'_, '_>,
        steps: &Steps<'_>,
        constraint: Option<&mut Constraint<'_>>,
        token: u32,
    ) -> Result<bool> {
        let start = Instant::now();
        match constraint.filter(|_| self.auto) {
            Some(constraint) => {
                self.guessing.queue(engine, &mut constraint.guess(&mut self.ngrams), token, usize::MAX)?
            }
            None => self.guessing.queue(engine, &mut self.ngrams, token, usize::MAX)?,
        };
        loop {
            if interrupt::take() {
                self.guessing.end(engine)?;
                return Ok(false);
            }
            if matches!(steps.step(engine)?, Step::Ready | Step::Idle) {
                break;
            }
        }
        if self.auto {
            self.guessing.took(start.elapsed().as_nanos() as u64);
        }
        Ok(true)
    }

    /// Takes back what was not chosen, and notes in the story how many guesses were right.
    pub fn end(&mut self, engine: &mut Engine<'_, '_>, story: &mut Story) -> Result<()> {
        self.guessing.end(engine)?;
        story.guesses = self.guessing.counts();
        Ok(())
    }
}
