//! Guesses of the next tokens.

use std::time::Instant;

use gleed::guess::{Guess, Guessing, NGrams, NextN};
use gleed::host::AlignedBytes;
use gleed::par::Parallel;
use gleed::{Engine, KvKind, Limits, Model, Plan, SeqId, Step};

use super::constraint::Constraint;
use super::run::Steps;
use super::story::Story;
use super::{Result, interrupt};

/// The most guesses at a time.
pub const MOST: usize = 15;

/// The layer of a model that predicts further ahead, with the memory of its engine.
pub struct Layer<'m> {
    model: Model<'m>,
    plan: Plan,
    memory: AlignedBytes,
}

impl<'m> Layer<'m> {
    /// That of a model, where it is asked for: `nextn` needs one, and `auto` takes it where there is one.
    pub fn of(model: &Model<'m>, kind: &str, limits: Limits) -> Result<Option<Self>> {
        let model = match (kind, model.predictor()) {
            ("nextn", found) => found.map_err(|error| {
                format!("--guess nextn wants a file with a layer that predicts further ahead: {error}")
            })?,
            ("auto", Ok(found)) if limits.kv_kind != KvKind::Off => found,
            _ => return Ok(None),
        };
        let limits = Limits { sequences: 1, logit_rows: 1, kv_blocks: 0, checkpoints: 0, adapters: 0, ..limits };
        let plan = Plan::new(&model, &limits)?;
        let memory = AlignedBytes::try_new(plan.bytes())?;
        Ok(Some(Self { model, plan, memory }))
    }

    /// Its engine.
    pub fn engine<'a>(&'a mut self, parallel: &'a dyn Parallel) -> Result<Engine<'m, 'a>> {
        let mut engine = Engine::new(&self.model, &self.plan, self.memory.bytes())?;
        engine.set_parallel(parallel);
        Ok(engine)
    }
}

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

    /// Guesses of a sequence, of n-grams or of a layer; with `auto` forced tokens are among them, and the clock says
    /// how many pay.
    pub fn begin<'g>(
        &'g mut self,
        seq: SeqId,
        auto: bool,
        layer: Option<&'g mut Engine<'_, '_>>,
    ) -> Result<Guesses<'g>> {
        let source: Box<dyn Reader + 'g> = match layer {
            Some(layer) => Box::new(NextN::new(layer)?),
            None => Box::new(NGrams::new(self.places, self.table.bytes())?),
        };
        Ok(Guesses { guessing: Guessing::new(seq, MOST, self.guesses.bytes())?, source, auto })
    }
}

/// Guesses, and where they come from.
pub struct Guesses<'g> {
    pub guessing: Guessing<'g>,
    source: Box<dyn Reader + 'g>,
    auto: bool,
}

/// A source of guesses that can read a prompt together with the model.
pub trait Reader: Guess {
    /// Appends a prompt to a sequence. Returns false, and does nothing, where the source does not want to read it.
    fn read(&mut self, engine: &mut Engine<'_, '_>, seq: SeqId, prompt: &[u32]) -> Result<bool>;
}

impl Reader for NGrams<'_> {
    fn read(&mut self, _: &mut Engine<'_, '_>, _: SeqId, _: &[u32]) -> Result<bool> {
        Ok(false)
    }
}

impl Reader for NextN<'_, '_, '_> {
    fn read(&mut self, engine: &mut Engine<'_, '_>, seq: SeqId, prompt: &[u32]) -> Result<bool> {
        self.prefill(engine, seq, prompt)?;
        Ok(true)
    }
}

impl Guesses<'_> {
    /// Lets a layer read a prompt together with the model. Returns false where nobody wants to.
    pub fn prefill(&mut self, engine: &mut Engine<'_, '_>, prompt: &[u32]) -> Result<bool> {
        self.source.read(engine, self.guessing.seq(), prompt)
    }

    /// Computes the token that was chosen last, and guesses behind it. Returns whether that came to its end; not so
    /// after Ctrl-C.
    pub fn advance(
        &mut self,
        engine: &mut Engine<'_, '_>,
        steps: &Steps<'_>,
        constraint: Option<&mut Constraint<'_>>,
        token: u32,
    ) -> Result<bool> {
        let start = Instant::now();
        let source = &mut *self.source;
        match constraint.filter(|_| self.auto) {
            Some(constraint) => self.guessing.queue(engine, &mut constraint.guess(source), token, usize::MAX)?,
            None => self.guessing.queue(engine, source, token, usize::MAX)?,
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
