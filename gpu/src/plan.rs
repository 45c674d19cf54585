//! What a model needs of a device, before anything is created there.

use std::collections::BTreeSet;

use gleed::device::{OpView, RotaryView, StateLayout};
use gleed::nn::Temperature;
use gleed::{Model, Plan};

use crate::adapter::Limits;
use crate::catalog::Kernel;
use crate::error::GpuError;
use crate::grid::CHUNK;
use crate::hardware::STAGING;
use crate::layout::ALIGNED;
use crate::lower::{Lowering, Widest, runs_at};
use crate::memory::{Arena, Upload};
use crate::params::{BATCH_RUN, Draw, SLOT};
use crate::place::{Dispatch, Place, Shaped};
use crate::pool::Pool;

/// A buffer of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedBuffer {
    /// What the buffer holds.
    pub what: &'static str,
    /// Bytes of the buffer.
    pub bytes: u64,
}

/// All buffers and dispatches of a model on a device. Nothing is created after them.
#[derive(Debug)]
pub struct DevicePlan<'m> {
    pub(crate) places: Vec<(Place, u64)>,
    pub(crate) dispatches: Vec<Dispatch>,
    /// The dispatches that choose the token with the largest logit, and that draw a token. One of them comes after all
    /// others.
    pub(crate) choices: [Dispatch; 2],
    pub(crate) uploads: Vec<Upload<'m>>,
    pub(crate) vectors: Vec<u32>,
    pub(crate) rotary: Option<RotaryView<'m>>,
    /// Temperature of queries. The factor of each row lies behind its angles.
    pub(crate) temperature: Option<Temperature>,
    pub(crate) pools: Vec<Pool>,
    /// The states of recurrent layers.
    pub(crate) states: Option<StateLayout>,
    /// Steps of the program.
    pub(crate) steps: usize,
    pub(crate) layers: usize,
    /// Largest number of rows of a batch.
    pub(crate) rows: usize,
    /// Logits of a row.
    pub(crate) vocab: usize,
    /// Largest number of rows with logits.
    pub(crate) logit_rows: usize,
    /// Largest number of chunks of attention that can be added up in parallel.
    pub(crate) chunks: usize,
}

impl<'m> DevicePlan<'m> {
    /// Returns the buffers and dispatches that a model needs. `plan` is made by [`Plan::for_device`] for this model.
    ///
    /// # Errors
    /// [`GpuError::Unsupported`] with what does not run on a GPU; [`GpuError::TooLarge`].
    pub fn new(model: &Model<'m>, plan: &Plan, limits: Limits) -> Result<Self, GpuError> {
        let layouts = (0..gleed::kv::MAX_GROUPS).map_while(|group| plan.kv_layout(model, group));
        let pools = layouts.map(|layout| Pool::new(layout, limits)).collect::<Result<Vec<_>, _>>()?;
        let layers = model.config().layers;
        let foreign = |_| GpuError::Mismatch("the plan of another model");
        let mut widest = Widest::default();
        plan.for_each_operation(model, &mut |step| widest.see(&step.operation)).map_err(foreign)?;
        let (rows, limit) = (plan.limits().rows, plan.limits());
        let heads = widest.heads(rows, limit.context.saturating_sub(1) / CHUNK, limits.binding / 4);
        let states = plan.state_layout(model);
        let mut lowering = Lowering::new(Arena::new(limits), pools.clone(), states, layers, (widest, heads));
        let (mut steps, mut rotary, mut failure) = (0, None, None);
        let walked = plan.for_each_operation(model, &mut |step| {
            if let OpView::Angles(view) = &step.operation {
                rotary = Some(*view);
            }
            if failure.is_none() {
                failure = lowering.step(steps, step).err();
            }
            steps += 1;
        });
        walked.map_err(foreign)?;
        if let Some(failure) = failure {
            return Err(failure);
        }
        let choices = lowering.choices();
        let Lowering { dispatches, arena, vectors, widths, .. } = lowering;
        let vocab = widths.get(&Place::Logits).copied().unwrap_or(0);
        let mut places = Vec::new();
        for (&place, &width) in &widths {
            let rows = if place == Place::Logits { limit.logit_rows } else { rows };
            let words = if place == Place::Heads { heads.words } else { rows * width };
            places.push((place, 4 * words as u64));
        }
        places.extend([(Place::Chosen, 4 * rows as u64), (Place::Draws, size_of::<Draw>() as u64)]);
        let [_, runs] = runs_at(rows);
        places.push((Place::Batch, 4 * (u64::from(runs) + (BATCH_RUN * rows) as u64)));
        places.push((Place::Flags, 4 * (layers as u64 + 1)));
        places.push((Place::Vectors, 4 * vectors.0.len() as u64));
        for (group, pool) in pools.iter().enumerate() {
            places.push((Place::Table(group), (4 * limit.sequences * pool.layout.entries) as u64));
            places.extend(pool.parts().map(|part| (part.place(group), pool.layout.blocks as u64 * part.bytes)));
        }
        places.extend(states.iter().flat_map(state_places));
        let parts = pools.iter().flat_map(Pool::parts);
        places.push((Place::Block, parts.map(|part| part.bytes).max().unwrap_or(0)));
        places.push((Place::Params, ((dispatches.len() + choices.len()) * SLOT) as u64));
        places.extend(arena.buffers.iter().enumerate().map(|(id, &bytes)| (Place::Weights(id), bytes)));
        places.iter_mut().for_each(|(_, bytes)| *bytes = (*bytes).max(1).next_multiple_of(ALIGNED as u64));
        let planned = Self {
            places,
            dispatches,
            choices,
            uploads: arena.uploads,
            vectors: vectors.0,
            rotary,
            temperature: widest.temperature,
            pools,
            states,
            steps,
            layers,
            rows,
            vocab,
            logit_rows: limit.logit_rows,
            chunks: heads.chunks,
        };
        planned.check(limits)?;
        Ok(planned)
    }

    fn check(&self, limits: Limits) -> Result<(), GpuError> {
        let most = limits.binding;
        match self.places.iter().find(|(_, bytes)| *bytes > most) {
            Some(&(place, bytes)) => Err(GpuError::TooLarge { what: place.name(), bytes, most }),
            None => Ok(()),
        }
    }

    /// Returns all buffers.
    pub fn buffers(&self) -> impl Iterator<Item = PlannedBuffer> {
        let read = [("blocks that are read back", STAGING), ("results of a batch", self.results())];
        let places = self.places.iter().map(|&(place, bytes)| (place.name(), bytes));
        places.chain(read).map(|(what, bytes)| PlannedBuffer { what, bytes })
    }

    /// Returns the largest number of bytes of a batch's results: its flags, and behind them logits or chosen tokens.
    pub(crate) fn results(&self) -> u64 {
        4 * (self.layers + 1 + (self.logit_rows * self.vocab).max(self.rows)) as u64
    }

    /// Returns the bytes of all buffers together.
    pub fn bytes(&self) -> u64 {
        self.buffers().map(|buffer| buffer.bytes).sum()
    }

    /// Returns the bytes of matrices that the kernels read for a token whose logits are wanted, without its row of the
    /// embedding.
    pub fn matrix_bytes_read(&self) -> u64 {
        let read = |dispatch: &Dispatch| match &dispatch.shaped {
            Shaped::Matrix(params) => {
                let outputs = params.segments.iter().map(|segment| u64::from(segment.outputs)).sum::<u64>();
                outputs * u64::from(params.row_bytes)
            }
            // The same pairs read the matrices in other buffers: a pair reads one matrix, so it counts once.
            Shaped::Experts(params) if params.experts.first == 0 => {
                let outputs = params.segments.iter().map(|segment| u64::from(segment.outputs)).sum::<u64>();
                outputs * u64::from(params.row_bytes) * u64::from(params.experts.used)
            }
            Shaped::Experts(_)
            | Shaped::ByRow
            | Shaped::ByParts(_)
            | Shaped::ByHead(_)
            | Shaped::Attention(..)
            | Shaped::ByChunk(_)
            | Shaped::ByRun(_) => 0,
        };
        self.for_one_row().map(read).sum()
    }

    /// Returns the kernels that run, each once.
    pub fn kernels(&self) -> Vec<Kernel> {
        let dispatches = self.dispatches.iter().chain(&self.choices);
        let kernels = dispatches.flat_map(|dispatch| [Some(dispatch.kernel), dispatch.for_many(), dispatch.for_wide()]);
        BTreeSet::from_iter(kernels.flatten()).into_iter().collect()
    }

    /// Returns the number of dispatches of a batch of one row.
    pub fn dispatches(&self) -> usize {
        self.for_one_row().count()
    }

    fn for_one_row(&self) -> impl Iterator<Item = &Dispatch> {
        self.dispatches.iter().filter(|dispatch| dispatch.batches.has(1))
    }
}

/// Returns the buffers of states with their bytes: one for the tails of all layers, and one for the matrices of each
/// layer.
fn state_places(states: &StateLayout) -> impl Iterator<Item = (Place, u64)> + use<> {
    parts_of_state(states).map({
        let slots = states.slots;
        move |(place, _, count)| (place, 4 * (slots * count) as u64)
    })
}

/// Returns the buffers of a state, each with its first element of the state and its number of elements in a slot.
pub(crate) fn parts_of_state(states: &StateLayout) -> impl Iterator<Item = (Place, usize, usize)> + use<> {
    let (tails, matrices) = (states.tails(), states.heads * states.matrix);
    let layers = if matrices == 0 { 0 } else { states.layers };
    let of_layer = move |layer| (Place::Matrices(layer), tails + layer * matrices, matrices);
    std::iter::once((Place::Tails, 0, tails)).chain((0..layers).map(of_layer))
}
