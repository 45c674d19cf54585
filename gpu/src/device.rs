//! The engine's device: batches, keys and values on a GPU.

mod blocks;
mod bound;
#[cfg(not(target_arch = "wasm32"))]
mod decode;
mod made;
mod states;
#[cfg(not(target_arch = "wasm32"))]
mod times;

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use bytemuck::{cast_slice, cast_slice_mut};
#[cfg(not(target_arch = "wasm32"))]
use gleed::device::Choosing;
use gleed::device::{BatchView, BlockPart, Device, DeviceFault, RotaryView, StateLayout, StatePart};
use gleed::nn::Temperature;

use crate::error::GpuError;
use crate::gpu::Gpu;
use crate::grid::{self, CHUNK, FEW_ROWS, PARALLEL_ROWS};
#[cfg(not(target_arch = "wasm32"))]
use crate::hardware::now;
use crate::hardware::{Arrival, Buffer, Copy, Readback};
use crate::params::{BATCH_HEAD, BATCH_PARALLEL, BATCH_ROW};
use crate::place::Place;
use crate::plan::DevicePlan;
use crate::pool::Pool;
use bound::Bound;
use made::upload;
#[cfg(not(target_arch = "wasm32"))]
pub use times::KernelTime;

/// Largest number of dispatches of a submit for few rows, so that no submit keeps the device for long.
const DISPATCHES: usize = 1024;
/// For a submit of more rows: the largest product of dispatches and rows, and the number of dispatches that it can
/// always have.
const WORK: (usize, usize) = (8192, 16);
/// [`WORK`] for a driver that computes on the CPU.
const WORK_ON_CPU: (usize, usize) = (2048, 1);

/// A model on a GPU.
pub struct GpuDevice<'g, 'm> {
    gpu: &'g Gpu,
    buffers: BTreeMap<Place, Buffer>,
    runs: Vec<Bound>,
    #[cfg(not(target_arch = "wasm32"))]
    choices: [Bound; 2],
    rotary: Option<RotaryView<'m>>,
    temperature: Option<Temperature>,
    frequencies: Vec<f64>,
    pools: Vec<Pool>,
    states: Option<StateLayout>,
    steps: usize,
    layers: usize,
    rows: usize,
    vocab: usize,
    /// Largest number of chunks of attention that can be added up in parallel.
    chunks: usize,
    /// Numbers of rows of the batch: all, finished ones, those with logits.
    counts: [usize; 3],
    /// Number of sequences of the batch.
    sequences: usize,
    /// Whether a workgroup of attention for many rows can have more than one group of queries.
    is_wide: bool,
    /// The largest position of the batch.
    last: usize,
    /// Whether the last step of the program was submitted.
    is_whole: bool,
    /// Scratch for the words of a batch that go to the device.
    words: Vec<u32>,
    angles: Vec<f32>,
    results: Readback,
    /// Copies of blocks with which the next submit begins: layer group, source block, destination block.
    copies: Mutex<Vec<(usize, u32, u32)>>,
    /// The block that was read last: layer group, number, words.
    block: Mutex<Option<(usize, u32, Vec<u32>)>>,
    /// The state that was read last: slot, elements.
    state: Mutex<Option<(u32, Vec<f32>)>>,
    failure: Mutex<Option<GpuError>>,
    submits: u64,
    encoding: Duration,
}

impl fmt::Debug for GpuDevice<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GpuDevice").field("gpu", &self.gpu).field("failure", &self.failure).finish_non_exhaustive()
    }
}

impl<'g, 'm> GpuDevice<'g, 'm> {
    /// Creates all buffers of a plan, and uploads the weights in pieces of at most 4 MiB.
    ///
    /// # Errors
    /// [`GpuError::OutOfMemory`], [`GpuError::TooLarge`], [`GpuError::Timeout`], [`GpuError::Lost`],
    /// [`GpuError::Refused`].
    #[cfg(not(target_arch = "wasm32"))]
    pub fn new(gpu: &'g Gpu, plan: DevicePlan<'m>) -> Result<Self, GpuError> {
        now(Self::new_async(gpu, plan))
    }

    /// [`GpuDevice::new`] for a browser, which cannot wait.
    ///
    /// # Errors
    /// As [`GpuDevice::new`].
    pub async fn new_async(gpu: &'g Gpu, plan: DevicePlan<'m>) -> Result<Self, GpuError> {
        let mut buffers = BTreeMap::new();
        for &(place, bytes) in &plan.places {
            buffers.insert(place, gpu.hardware.buffer_async(place.name(), bytes).await?);
        }
        let results = gpu.hardware.readback(plan.results()).await?;
        upload(gpu, &plan, &buffers).await?;
        let bound =
            plan.dispatches.iter().enumerate().map(|(index, dispatch)| Bound::new(gpu, &buffers, index, dispatch));
        let runs = bound.collect::<Result<_, _>>()?;
        #[cfg(not(target_arch = "wasm32"))]
        let choices = {
            let (count, [largest, drawn]) = (plan.dispatches.len(), &plan.choices);
            [Bound::new(gpu, &buffers, count, largest)?, Bound::new(gpu, &buffers, count + 1, drawn)?]
        };
        let mut frequencies = vec![0.0; plan.rotary.map_or(0, |rotary| rotary.width() / 2)];
        if let Some(rotary) = &plan.rotary {
            rotary.frequencies(&mut frequencies);
        }
        gpu.hardware.wait_async().await?;
        Ok(Self {
            gpu,
            buffers,
            runs,
            #[cfg(not(target_arch = "wasm32"))]
            choices,
            rotary: plan.rotary,
            temperature: plan.temperature,
            frequencies,
            pools: plan.pools,
            states: plan.states,
            steps: plan.steps,
            layers: plan.layers,
            rows: plan.rows,
            vocab: plan.vocab,
            chunks: plan.chunks,
            counts: [0; 3],
            sequences: 0,
            is_wide: false,
            last: 0,
            is_whole: false,
            words: Vec::new(),
            angles: Vec::new(),
            results,
            copies: Mutex::new(Vec::new()),
            block: Mutex::new(None),
            state: Mutex::new(None),
            failure: Mutex::new(None),
            submits: 0,
            encoding: Duration::ZERO,
        })
    }

    /// Returns why the device is lost.
    pub fn failure(&self) -> Option<GpuError> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the number of submits of dispatches so far.
    pub fn submits(&self) -> u64 {
        self.submits
    }

    /// Returns the time that the host took to encode dispatches.
    pub fn encoding(&self) -> Duration {
        self.encoding
    }

    /// Returns a value to await the arrival of results. A host in a browser takes it before it makes an engine, and
    /// awaits it between two steps.
    pub fn arrival(&self) -> Arrival {
        self.results.arrival()
    }

    fn buffer(&self, place: Place) -> Result<&Buffer, GpuError> {
        self.buffers.get(&place).ok_or(GpuError::Mismatch(place.name()))
    }

    /// Keeps the first failure. For the engine every failure is a loss of the device.
    fn lost<T>(&self, result: Result<T, GpuError>) -> Result<T, DeviceFault> {
        result.map_err(|error| {
            self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
            DeviceFault::Lost
        })
    }

    /// Forgets the block and the state that were read last.
    fn forget_block(&self) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = None;
        *self.block.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn set_batch(&mut self, batch: &BatchView<'_>) -> Result<(), GpuError> {
        self.counts = [batch.rows.len(), batch.finished, batch.logits];
        if batch.rows.len() > self.rows {
            return Err(GpuError::Mismatch("rows of a batch"));
        }
        self.forget_block();
        self.is_whole = false;
        self.results.release();
        self.copy_blocks()?;
        let copies = self.copies.get_mut().unwrap_or_else(PoisonError::into_inner);
        batch.for_each_copy(&mut |copy| copies.push((copy.group, copy.from, copy.to)));
        self.write_tables(batch)?;
        self.write_rows(batch)?;
        self.write_runs(batch)?;
        self.write_angles(batch)?;
        let flags = vec![0; self.flag_bytes() as usize];
        self.gpu.hardware.write(self.buffer(Place::Flags)?, 0, &flags)
    }

    fn flag_bytes(&self) -> u64 {
        4 * (self.layers as u64 + 1)
    }

    /// Writes the block tables of the batch's sequences.
    fn write_tables(&mut self, batch: &BatchView<'_>) -> Result<(), GpuError> {
        let mut slots: Vec<_> = batch.rows.iter().map(|row| row.slot()).collect();
        slots.sort_unstable();
        slots.dedup();
        self.is_wide = grid::is_wide(batch.rows.len(), slots.len());
        for (group, pool) in self.pools.iter().enumerate() {
            for &slot in &slots {
                let table = batch.table(group, slot);
                let at = (4 * slot * pool.layout.entries) as u64;
                self.gpu.hardware.write(self.buffer(Place::Table(group))?, at, cast_slice(table))?;
            }
        }
        Ok(())
    }

    fn write_rows(&mut self, batch: &BatchView<'_>) -> Result<(), GpuError> {
        let mut words = std::mem::take(&mut self.words);
        words.clear();
        words.resize(BATCH_HEAD, 0);
        for (word, count) in words.iter_mut().zip(self.counts) {
            *word = count as u32;
        }
        words[3] = batch.rows.iter().map(|row| row.position).max().unwrap_or(0);
        words[BATCH_PARALLEL] = u32::from(batch.rows.len() <= PARALLEL_ROWS);
        self.last = words[3] as usize;
        for row in batch.rows {
            let entries =
                |group: usize| self.pools.get(group).map_or(0, |pool| row.slot() * pool.layout.entries) as u32;
            words.extend([row.position, row.token, entries(0), entries(1), u32::from(batch.is_stored(row))]);
        }
        debug_assert_eq!(words.len(), BATCH_HEAD + BATCH_ROW * batch.rows.len());
        let written = self.gpu.hardware.write(self.buffer(Place::Batch)?, 0, cast_slice(&words));
        self.words = words;
        written
    }

    /// Writes cosines and sines of the rows, and temperatures of queries. Both are computed here, in f64.
    fn write_angles(&mut self, batch: &BatchView<'_>) -> Result<(), GpuError> {
        let Some(rotary) = &self.rotary else { return Ok(()) };
        let width = rotary.width() + usize::from(self.temperature.is_some());
        self.angles.clear();
        self.angles.resize(batch.rows.len() * width, 0.0);
        for (row, out) in batch.rows.iter().zip(self.angles.chunks_exact_mut(width.max(1))) {
            let filled = rotary.angles(row.position as usize, &self.frequencies, out);
            filled.ok_or(GpuError::Mismatch("cosines and sines"))?;
            if let (Some(temperature), Some(last)) = (self.temperature, out.last_mut()) {
                *last = temperature.factor(row.position as usize);
            }
        }
        self.gpu.hardware.write(self.buffer(Place::Angles)?, 0, cast_slice(&self.angles))
    }

    /// Returns how many of the chunks that end before `position` are added up in parallel: none for more than
    /// [`PARALLEL_ROWS`] rows.
    fn chunks(&self, rows: usize, position: usize) -> usize {
        if rows <= PARALLEL_ROWS { (position / CHUNK).min(self.chunks) } else { 0 }
    }

    /// Returns the largest number of dispatches of a submit for `rows` rows.
    fn most_dispatches(&self, rows: usize) -> usize {
        if rows <= FEW_ROWS {
            return DISPATCHES;
        }
        let (work, least) = if self.gpu.hardware.info().software { WORK_ON_CPU } else { WORK };
        (work / rows).max(least)
    }

    /// Returns how many of these steps one submit takes.
    fn taken(&self, steps: &Range<usize>) -> usize {
        let most = self.most_dispatches(self.counts[0]);
        let after = self.runs.iter().filter(|run| run.step >= steps.start).nth(most).map_or(steps.end, |run| run.step);
        after.min(steps.end).saturating_sub(steps.start).max(1)
    }

    fn submit_steps(&mut self, steps: Range<usize>) -> Result<usize, GpuError> {
        let taken = self.taken(&steps);
        let steps = steps.start..steps.start + taken;
        let (counts, chunks, sequences) = (self.counts, self.chunks(self.counts[0], self.last), self.sequences);
        let is_wide = self.is_wide;
        let runs = self.runs.iter().filter(|run| steps.contains(&run.step));
        let runs = runs.filter_map(|run| run.of(counts[run.rows], chunks, sequences, is_wide));
        let is_whole = steps.end >= self.steps;
        let after = if is_whole { self.results_of(Place::Logits, counts[2] * self.vocab)? } else { Vec::new() };
        self.encoding += self.gpu.hardware.submit_with(self.taken_copies()?, runs, after)?;
        self.submits += 1;
        self.is_whole = is_whole;
        if is_whole {
            self.results.ask(self.flag_bytes() + 4 * (counts[2] * self.vocab) as u64);
        }
        self.forget_block();
        Ok(taken)
    }

    /// Returns copies to the memory that the host reads: of the flags, and behind them of the first `words` words of a
    /// buffer.
    fn results_of(&self, place: Place, words: usize) -> Result<Vec<Copy<'_>>, GpuError> {
        let mut copies = vec![(self.buffer(Place::Flags)?, 0, self.results.buffer(), 0, self.flag_bytes())];
        if words > 0 {
            copies.push((self.buffer(place)?, 0, self.results.buffer(), self.flag_bytes(), 4 * words as u64));
        }
        Ok(copies)
    }

    /// Returns the first layer in which a value was not finite.
    fn fault(&self) -> Result<Option<usize>, GpuError> {
        let mut flags = vec![0_u32; self.layers + 1];
        self.results.read(0, cast_slice_mut(&mut flags))?;
        Ok(flags.iter().position(|&flag| flag != 0))
    }

    /// Returns the result of the batch, of which nothing is at work any more.
    fn result(&self) -> Result<(), DeviceFault> {
        if !self.is_whole {
            return Ok(());
        }
        match self.lost(self.fault())? {
            Some(layer) => Err(DeviceFault::NonFinite { layer }),
            None => Ok(()),
        }
    }
}

impl Device for GpuDevice<'_, '_> {
    fn begin(&mut self, batch: &BatchView<'_>) -> Result<(), DeviceFault> {
        let begun = self.set_batch(batch);
        self.lost(begun)
    }

    fn submit(&mut self, steps: Range<usize>) -> Result<usize, DeviceFault> {
        let submitted = self.submit_steps(steps);
        self.lost(submitted)
    }

    fn poll(&mut self) -> Poll<Result<(), DeviceFault>> {
        match self.lost(self.gpu.hardware.is_idle()) {
            Ok(is_idle) if is_idle || self.is_whole => {
                if self.is_whole && !self.results.is_there() {
                    return Poll::Pending;
                }
                Poll::Ready(self.result())
            }
            Ok(_) => Poll::Pending,
            Err(fault) => Poll::Ready(Err(fault)),
        }
    }

    #[cfg(target_arch = "wasm32")]
    fn wait(&mut self) -> Poll<Result<(), DeviceFault>> {
        Poll::Ready(self.lost(Err(GpuError::Unsupported { what: "a step without a budget in a browser" })))
    }

    #[cfg(not(target_arch = "wasm32"))]
    fn wait(&mut self) -> Poll<Result<(), DeviceFault>> {
        // The last submit may still be at work: a device with nothing queued would wait for the host after each submit.
        let waited = if self.is_whole { self.gpu.hardware.wait() } else { self.gpu.hardware.wait_for_earlier() };
        Poll::Ready(self.lost(waited).and_then(|()| self.result()))
    }

    #[cfg(not(target_arch = "wasm32"))]
    fn decode(&mut self, batch: &BatchView<'_>, choosing: &Choosing, ids: &mut [u32]) -> Result<bool, DeviceFault> {
        if ids.len() != batch.rows.len() || ids.is_empty() {
            return self.lost(Err(GpuError::Mismatch("chosen tokens")));
        }
        let decoded = self.decode_rows(batch, choosing, ids.len());
        if !self.lost(decoded)? {
            return Ok(false);
        }
        self.result()?;
        self.lost(self.results.read(self.flag_bytes(), cast_slice_mut(ids)))?;
        Ok(true)
    }

    fn logits(&mut self, row: usize, out: &mut [f32]) -> Result<(), DeviceFault> {
        if out.len() != self.vocab {
            return self.lost(Err(GpuError::Mismatch("logits")));
        }
        let at = self.flag_bytes() + (row * self.vocab * 4) as u64;
        self.lost(self.results.read(at, cast_slice_mut(out)))
    }

    fn read_block(&self, part: BlockPart, out: &mut [u32]) -> Result<(), DeviceFault> {
        self.lost(self.read_words(part, out))
    }

    fn write_block(&mut self, part: BlockPart, words: &[u32]) -> Result<(), DeviceFault> {
        self.lost(self.write_words(part, words))
    }

    fn read_state(&self, part: StatePart, out: &mut [f32]) -> Result<(), DeviceFault> {
        self.lost(self.read_elements(part, out))
    }

    fn write_state(&mut self, part: StatePart, elements: &[f32]) -> Result<(), DeviceFault> {
        self.lost(self.write_elements(part, elements))
    }
}
