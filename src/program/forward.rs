//! The interpreter of programs: the place of a batch in a program, the rows and units of a step, and the next step.

use core::ops::Range;

use super::{Loaded, Part, Program, Rows, Step};
use crate::cache::{KvCache, SeqId};
use crate::error::Fault;
use crate::mem::{Arena, MemoryError};
use crate::ops::{Batch, Buffers, Capacity, Context, Grid, Memory, Op, Pooled, Work};
use crate::par::{Parallel, Watch};
use crate::weights::Pooling;

/// A model's program, its tensors, and the buffers of one batch.
#[derive(Debug)]
pub(crate) struct Forward<'m, 'a> {
    pub(super) program: Program,
    pub(crate) context: Context<'m, 'a>,
    buffers: Buffers<'a>,
    /// The last layer that keeps something of each row.
    pub(super) last_keeping: usize,
}

/// The place of a batch in a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cursor {
    pub(crate) part: Part,
    step: usize,
}

/// A number of successive whole steps of a program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fitting {
    pub(crate) steps: usize,
    pub(crate) units: usize,
    /// Step after them, or `None` at the end.
    pub(crate) next: Option<Cursor>,
}

impl Cursor {
    pub(crate) const START: Self = Self { part: Part::Begin, step: 0 };
}

impl<'m, 'a> Forward<'m, 'a> {
    /// Takes the memory from the arena and prepares the data that all batches share.
    pub(crate) fn carve(arena: &mut Arena<'a>, model: &Loaded<'m>, capacity: Capacity) -> Result<Self, MemoryError> {
        let Loaded { files, config, program, forms, matrices } = model;
        let uses = |layer, role| model.uses(layer, role);
        let context = Context::carve(arena, files, config, *forms, &uses, capacity)?;
        let branches = program.has(Op::reads_branch);
        let buffers = Buffers::carve(arena, &context, *matrices, [branches, model.has_logits()], capacity)?;
        Ok(Self { program: *program, context, buffers, last_keeping: config.last_keeping() })
    }

    /// Returns the step at `cursor`.
    pub(super) fn step(&self, cursor: Cursor) -> Option<&'static Step> {
        self.program.steps(&self.context.config, cursor.part).get(cursor.step)
    }

    /// Returns the next step that has something to do, or `None` at the end.
    pub(crate) fn next(&self, cursor: Cursor, batch: Batch<'_>) -> Option<Cursor> {
        let mut cursor = cursor;
        loop {
            cursor = self.after(cursor)?;
            if self.units(cursor, batch) > 0 {
                return Some(cursor);
            }
        }
    }

    /// Returns the next step, or `None` at the end.
    pub(super) fn after(&self, cursor: Cursor) -> Option<Cursor> {
        let mut next = Cursor { step: cursor.step + 1, ..cursor };
        while self.step(next).is_none() {
            next = Cursor { part: next.part.next(self.context.config.layers)?, step: 0 };
        }
        Some(next)
    }

    /// Returns the shape and the units of a step.
    fn grid(&self, cursor: Cursor, batch: Batch<'_>) -> Grid {
        let Some(step) = self.step(cursor) else { return Grid::by_row(0, 0) };
        let layer = self.layer(cursor);
        let rows = match self.rows(step.rows, layer) {
            Rows::All => batch.rows.len(),
            Rows::Finished => batch.finished,
            Rows::Logits => batch.logits,
        };
        step.op.operation().grid(&self.context, layer, rows, batch)
    }

    /// Runs the units `take` of a step as long as `watch` allows it. Returns the number of units that are left, which
    /// are the last ones.
    pub(crate) fn run(
        &mut self,
        cursor: Cursor,
        take: Range<usize>,
        batch: Batch<'_>,
        cache: &mut KvCache<'a>,
        parallel: &dyn Parallel,
        watch: &Watch<'_>,
    ) -> Result<usize, Fault> {
        let step = self.step(cursor).ok_or(Fault::Internal(site!()))?;
        let work = Work { layer: self.layer(cursor), take, grid: self.grid(cursor, batch), batch, parallel, watch };
        let memory = Memory { buffers: &mut self.buffers, cache };
        step.op.operation().run(&self.context, memory, work)
    }

    /// Returns the number of units of a step.
    pub(crate) fn units(&self, cursor: Cursor, batch: Batch<'_>) -> usize {
        self.grid(cursor, batch).units()
    }

    /// Returns the index of a step among all steps of the program, in the order of [`Forward::for_each_operation`].
    pub(crate) fn number(&self, cursor: Cursor) -> usize {
        let steps = |part| self.program.steps(&self.context.config, part).len();
        let layers = match cursor.part {
            Part::Begin => return cursor.step,
            Part::Layer(layer) => layer,
            Part::End => self.context.config.layers,
        };
        steps(Part::Begin) + (0..layers).map(|layer| steps(Part::Layer(layer))).sum::<usize>() + cursor.step
    }

    /// Returns the longest run of steps from `cursor` on that has at most `steps` steps and at most `units` units.
    /// Steps with nothing to do are included.
    pub(crate) fn fitting(&self, cursor: Cursor, batch: Batch<'_>, steps: usize, units: usize) -> Fitting {
        let mut fitting = Fitting { steps: 0, units: 0, next: Some(cursor) };
        while let Some(at) = fitting.next.filter(|_| fitting.steps < steps) {
            let all = fitting.units.saturating_add(self.units(at, batch));
            if all > units {
                break;
            }
            fitting = Fitting { steps: fitting.steps + 1, units: all, next: self.after(at) };
        }
        fitting
    }

    /// Returns the number of units of a step and of all steps after it.
    pub(crate) fn units_from(&self, cursor: Cursor, batch: Batch<'_>) -> usize {
        let next = |cursor: &Cursor| self.next(*cursor, batch);
        core::iter::successors(Some(cursor), next).map(|cursor| self.units(cursor, batch)).sum()
    }

    /// Returns the layer of a step: 0 before the layers, and the number of layers after them. Faults are reported with
    /// it.
    pub(crate) fn layer(&self, cursor: Cursor) -> usize {
        match cursor.part {
            Part::Begin => 0,
            Part::Layer(layer) => layer,
            Part::End => self.context.config.layers,
        }
    }

    /// Returns the logits of the `index`-th row that has logits: `[vocab]`.
    pub(crate) fn logits(&self, index: usize) -> Option<&[f32]> {
        self.buffers.logits(index, self.context.config.vocab)
    }

    /// Returns the place for a device's logits of the `index`-th row that has logits.
    pub(crate) fn logits_mut(&mut self, index: usize) -> Option<&mut [f32]> {
        self.buffers.logits_mut(index, self.context.config.vocab)
    }

    /// Returns the final norm of the `index`-th finished row of the last batch: `[hidden]`. Returns `None` if there is
    /// no such row.
    pub(crate) fn hidden(&mut self, index: usize) -> Option<&[f32]> {
        self.buffers.hidden(&self.context, index)
    }

    /// Keeps the hidden state `[hidden]` that belongs to the token at a position. Returns `None` if it has another
    /// length.
    pub(crate) fn give(&mut self, seq: SeqId, position: usize, hidden: &[f32]) -> Option<()> {
        let place = self.context.given_place(seq, position)?;
        if hidden.len() == self.context.config.hidden { self.buffers.give(place, hidden) } else { None }
    }

    /// Keeps the final norm of the `index`-th finished row of the last batch for the token at a position.
    pub(crate) fn give_own(&mut self, seq: SeqId, position: usize, index: usize) -> Option<()> {
        let place = self.context.given_place(seq, position)?;
        self.buffers.give_own(&self.context, index, place)
    }

    /// Adds the final norm of the `index`-th finished row of the last batch to a text's vector. Returns `None` if there
    /// is no such row.
    pub(crate) fn pool(&mut self, pooled: &mut Pooled, index: usize, out: &mut [f32]) -> Option<()> {
        self.buffers.pool(&self.context, pooled, index, out)
    }

    /// Turns the sum in `out` into the vector of the text whose rows were added to it.
    pub(crate) fn finish_pooled(&mut self, pooled: &Pooled, pooling: Pooling, out: &mut [f32]) -> Result<(), Fault> {
        self.buffers.finish_pooled(&self.context, pooled, pooling, out)
    }
}
