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

/// Most guesses in a batch.
pub const MOST: usize = 15;

/// The layer of a model that predicts further ahead, with the memory of its engine.
pub struct Layer<'m> {
    model: Model<'m>,
    plan: Plan,
    memory: AlignedBytes,
}

impl<'m> Layer<'m> {
    /// Returns the layer of a model if `kind` asks for one. `nextn` requires it, and `auto` uses it if the file has it.
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

    /// Makes the engine of the layer.
    pub fn engine<'a>(&'a mut self, parallel: &'a dyn Parallel) -> Result<Engine<'m, 'a>> {
        let mut engine = Engine::new(&self.model, &self.plan, self.memory.bytes())?;
        engine.set_parallel(parallel);
        Ok(engine)
    }
}

/// The memory that guesses need.
pub struct Room {
    guesses: AlignedBytes,
    table: AlignedBytes,
    places: usize,
}

impl Room {
    /// Allocates the memory for guesses in a text of `tokens` tokens.
    pub fn new(tokens: usize) -> Result<Self> {
        let (guesses, table) = (Guessing::plan(MOST)?, NGrams::plan(tokens)?);
        Ok(Self { guesses: AlignedBytes::new(guesses), table: AlignedBytes::new(table), places: tokens })
    }

    /// Begins guesses for a sequence, from n-grams or from a layer. With `auto`, forced tokens are guessed, too, and
    /// the clock decides how many guesses pay.
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

/// Guesses of a sequence and their source.
pub struct Guesses<'g> {
    pub guessing: Guessing<'g>,
    source: Box<dyn Reader + 'g>,
    auto: bool,
}

/// A source of guesses that can read a prompt together with the model.
pub trait Reader: Guess {
    /// Appends a prompt to a sequence, if the source reads prompts itself. Returns whether it did.
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
    /// Lets the source append a prompt to the sequence. Returns false if the source does not read prompts itself.
    pub fn prefill(&mut self, engine: &mut Engine<'_, '_>, prompt: &[u32]) -> Result<bool> {
        self.source.read(engine, self.guessing.seq(), prompt)
    }

    /// Computes the token that was chosen last, with guesses after it. Returns whether the batch was finished: it was
    /// not after Ctrl-C.
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

    /// Takes back the guesses that were not chosen, and notes in the story how many were right.
    pub fn end(&mut self, engine: &mut Engine<'_, '_>, story: &mut Story) -> Result<()> {
        self.guessing.end(engine)?;
        story.guesses = self.guessing.counts();
        Ok(())
    }
}
