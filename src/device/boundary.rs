//! The trait of a device, and what it is given with every batch.

use core::fmt;
use core::ops::Range;
use core::task::Poll;

use bytemuck::{Pod, Zeroable};

use super::choosing::Choosing;

/// A row of a batch: a token at a position of a sequence.
///
/// [Example](crate::device#a-device).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Row {
    /// Bits of the sequence's handle.
    pub(crate) sequence: u32,
    /// The position.
    pub position: u32,
    /// The token.
    pub token: u32,
}

impl Row {
    /// Returns the number of its sequence among those that an engine can have at a time, from 0.
    pub fn slot(&self) -> usize {
        (self.sequence & 0xffff) as usize
    }
}

/// A block whose keys and values, in all layers, are to be copied to another one of its pool.
///
/// [Example](crate::device#a-device).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BlockCopy {
    /// The layer group.
    pub group: usize,
    /// The block that is copied.
    pub from: u32,
    /// Where to.
    pub to: u32,
}

/// A part of a block.
///
/// [Example](crate::device#a-device).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BlockPart {
    /// The layer group.
    pub group: usize,
    /// The block.
    pub block: u32,
    /// The first 32-bit word, counted from the start of the block: see [`KvLayout::tile`](super::KvLayout::tile).
    pub word: usize,
}

/// The slots of a sequence's states in a batch.
///
/// [Example](crate::device#a-device).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StateSlots {
    /// What the first row of the batch goes on from; `u32::MAX` for zeros. Other sequences may have the same one: it is
    /// not written.
    pub from: u32,
    /// What the batch writes: the state after its last row. No other sequence has it.
    pub to: u32,
}

/// A part of a state.
///
/// [Example](crate::device#a-device).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StatePart {
    /// The slot.
    pub slot: u32,
    /// The first f32 element: see [`StateLayout`](super::StateLayout).
    pub element: usize,
}

/// Rows that are computed together, and where the keys and values of their sequences are.
///
/// [Example](crate::device#a-device).
#[derive(Clone, Copy)]
pub struct BatchView<'b> {
    /// The rows: those with logits, then the other finished ones, then those of which only keys and values are wanted.
    /// Rows of a sequence are in the order of their positions in each of these parts.
    pub rows: &'b [Row],
    /// How many rows are finished: see `Rows::Finished`.
    pub finished: usize,
    /// How many of these have logits.
    pub logits: usize,
    pub(crate) tables: &'b dyn Tables,
}

/// The block tables, for devices.
pub(crate) trait Tables {
    fn table(&self, group: usize, slot: usize) -> Option<&[u32]>;

    fn for_each_copy(&self, found: &mut dyn FnMut(BlockCopy));

    fn state(&self, slot: usize) -> Option<StateSlots>;

    fn is_stored(&self, row: &Row) -> bool;
}

impl<'b> BatchView<'b> {
    /// Returns the blocks of the sequence in `slot`, in the order of [`KvLayout::entry`](super::KvLayout::entry);
    /// `u32::MAX` where there is none, nothing past the last one.
    ///
    /// The core does not say which of them are new: a device that keeps what it was given last finds that out by
    /// itself, at 4 bytes for 16 tokens.
    pub fn table(&self, group: usize, slot: usize) -> &'b [u32] {
        self.tables.table(group, slot).unwrap_or_default()
    }

    /// Calls `found` with the copies that are to be made before the first step of the batch. A batch that is begun
    /// again can repeat them.
    pub fn for_each_copy(&self, found: &mut dyn FnMut(BlockCopy)) {
        self.tables.for_each_copy(found);
    }

    /// Returns where the states are of the sequence in `slot`; `None` where the model has none.
    pub fn state(&self, slot: usize) -> Option<StateSlots> {
        self.tables.state(slot)
    }

    /// Returns whether the keys and values of a row are in the cache already: it is computed for its state alone. They
    /// are not stored again, because other sequences can share their block.
    pub fn is_stored(&self, row: &Row) -> bool {
        self.tables.is_stored(row)
    }
}

impl fmt::Debug for BatchView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BatchView").field("rows", &self.rows).finish_non_exhaustive()
    }
}

/// Why a device did not compute a batch.
///
/// [Example](crate::device#a-device).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceFault {
    /// A value is infinite or NaN.
    NonFinite {
        /// The first layer in which it was found; the number of layers for the logits.
        layer: usize,
    },
    /// The device is gone, and the keys and values with it.
    Lost,
}

/// Another machine that runs a model's program, and holds the keys and values.
///
/// An engine calls it from one thread at a time. What is called takes effect in the order of the calls: a block that is
/// written after a submit is not changed by that any more, and one that is read has what earlier submits wrote.
/// `Send` and `Sync` are demanded because an engine is.
///
/// The engine keeps queues, block tables, forks, prefixes, windows, snapshots and errors. The device has what the list
/// of [`Plan::for_each_operation`](crate::Plan::for_each_operation) says of the model. A step of the program is known
/// by its number in that list.
///
/// [Example](crate::device#a-device).
pub trait Device: Send + Sync {
    /// Begins a batch. What is left of an earlier one is dropped with its faults: it was finished or cancelled.
    ///
    /// # Errors
    /// [`DeviceFault::Lost`].
    fn begin(&mut self, batch: &BatchView<'_>) -> Result<(), DeviceFault>;

    /// Queues steps of the program for the batch, and returns without waiting for them. Returns how many it took: the
    /// first ones, at least one. The engine gives the others again later. A device bounds the time of a submit by
    /// taking fewer.
    ///
    /// # Errors
    /// [`DeviceFault::Lost`].
    fn submit(&mut self, steps: Range<usize>) -> Result<usize, DeviceFault>;

    /// Whether all that was submitted of the batch is done. It does not block.
    ///
    /// The result is about all of the batch so far. A device may leave out [`DeviceFault::NonFinite`] until the last
    /// step of the program is done.
    fn poll(&mut self) -> Poll<Result<(), DeviceFault>>;

    /// [`Device::poll`] that blocks until there is a result, if the machine can do that. Before the last step of the
    /// program the latest submit may still be at work afterwards: what the engine gives next waits behind it.
    fn wait(&mut self) -> Poll<Result<(), DeviceFault>> {
        self.poll()
    }

    /// Decodes tokens without the host, and waits for them: a batch of one row after the other, each with all steps of
    /// the program. The rows are of one sequence, at successive positions; the token of the first one is known, and
    /// each of the others has the token that is chosen by the logits of the row before it, as `choosing` says. `ids`
    /// are these tokens, and behind them that of the last row: as many as rows. Returns false where the device cannot
    /// do that: then nothing has happened, and the engine begins batches of a row each.
    ///
    /// # Errors
    /// [`DeviceFault`], of any of the rows: then none of them counts.
    fn decode(&mut self, batch: &BatchView<'_>, choosing: &Choosing, ids: &mut [u32]) -> Result<bool, DeviceFault> {
        let _ = (batch, choosing, ids);
        Ok(false)
    }

    /// Copies the logits of a row of the finished batch, which is one of the first `logits`: `[vocab]`. It is called
    /// once [`Device::poll`] has said that the last step is done: a machine that cannot wait has fetched them before it
    /// says so.
    ///
    /// # Errors
    /// [`DeviceFault::Lost`].
    fn logits(&mut self, row: usize, out: &mut [f32]) -> Result<(), DeviceFault>;

    /// Copies 32-bit words of a block, which the engine asks for in pieces of at most 1 KiB, one after the other: a
    /// device for which each copy is expensive fetches all of the block at the first one.
    ///
    /// # Errors
    /// [`DeviceFault::Lost`].
    fn read_block(&self, part: BlockPart, out: &mut [u32]) -> Result<(), DeviceFault>;

    /// Sets words of a block, likewise.
    ///
    /// # Errors
    /// [`DeviceFault::Lost`].
    fn write_block(&mut self, part: BlockPart, words: &[u32]) -> Result<(), DeviceFault>;

    /// Copies elements of a state, likewise in pieces. Devices that refuse recurrent layers are never asked.
    ///
    /// # Errors
    /// [`DeviceFault::Lost`].
    fn read_state(&self, part: StatePart, out: &mut [f32]) -> Result<(), DeviceFault> {
        let _ = (part, out);
        Err(DeviceFault::Lost)
    }

    /// Sets elements of a state, likewise.
    ///
    /// # Errors
    /// [`DeviceFault::Lost`].
    fn write_state(&mut self, part: StatePart, elements: &[f32]) -> Result<(), DeviceFault> {
        let _ = (part, elements);
        Err(DeviceFault::Lost)
    }
}

/// The device of a cache, if it has one.
pub(crate) struct Attached<'a>(pub(crate) Option<&'a mut dyn Device>);

impl fmt::Debug for Attached<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "a device" } else { "no device" })
    }
}
