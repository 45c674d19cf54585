//! The trait of a device, and the values that the engine passes to it with every batch.

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
    /// Position of the token in the sequence.
    pub position: u32,
    /// Id of the token.
    pub token: u32,
}

impl Row {
    /// Returns the slot of the row's sequence in the engine, counted from 0.
    pub fn slot(&self) -> usize {
        (self.sequence & 0xffff) as usize
    }
}

/// A copy of a block's keys and values, in all layers, to another block of the same pool.
///
/// [Example](crate::device#a-device).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BlockCopy {
    /// Index of the layer group.
    pub group: usize,
    /// Number of the block that is copied.
    pub from: u32,
    /// Number of the block that receives the copy.
    pub to: u32,
}

/// A part of a block.
///
/// [Example](crate::device#a-device).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BlockPart {
    /// Index of the layer group.
    pub group: usize,
    /// Number of the block.
    pub block: u32,
    /// Index of the first 32-bit word, counted from the start of the block: see
    /// [`KvLayout::tile`](super::KvLayout::tile).
    pub word: usize,
}

/// The slots of a sequence's states in a batch.
///
/// [Example](crate::device#a-device).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StateSlots {
    /// Slot of the state from which the first row of the batch goes on, or `u32::MAX` for a state of zeros. Other
    /// sequences may have the same slot, because it is not written.
    pub from: u32,
    /// Slot that the batch writes: the state after its last row. No other sequence has this slot.
    pub to: u32,
}

/// A part of a state.
///
/// [Example](crate::device#a-device).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StatePart {
    /// Number of the slot.
    pub slot: u32,
    /// Index of the first f32 element: see [`StateLayout`](super::StateLayout).
    pub element: usize,
}

/// Rows that are computed together, and the places of the keys and values of their sequences.
///
/// [Example](crate::device#a-device).
#[derive(Clone, Copy)]
pub struct BatchView<'b> {
    /// Rows: first the rows with logits, then the other finished rows, then the rows of which only keys and values or a
    /// state are needed. In each of these parts, the rows of a sequence are in the order of their positions.
    pub rows: &'b [Row],
    /// Number of finished rows: see `Rows::Finished`.
    pub finished: usize,
    /// Number of finished rows that have logits.
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
    /// Returns the blocks of the sequence in `slot`, in the order of [`KvLayout::entry`](super::KvLayout::entry).
    /// Entries without a block are `u32::MAX`. The table ends with the last block.
    ///
    /// The core does not say which blocks are new. A device that keeps the last tables can compare them itself, at 4
    /// bytes for 16 tokens.
    pub fn table(&self, group: usize, slot: usize) -> &'b [u32] {
        self.tables.table(group, slot).unwrap_or_default()
    }

    /// Calls `found` with the copies to make before the first step of the batch. If a batch is begun again, it can
    /// repeat them.
    pub fn for_each_copy(&self, found: &mut dyn FnMut(BlockCopy)) {
        self.tables.for_each_copy(found);
    }

    /// Returns the slots of the states of the sequence in `slot`, or `None` if the model has no states.
    pub fn state(&self, slot: usize) -> Option<StateSlots> {
        self.tables.state(slot)
    }

    /// Returns whether the keys and values of a row are in the cache already, because the row is computed for its state
    /// alone. They are not stored again, because other sequences can share their block.
    pub fn is_stored(&self, row: &Row) -> bool {
        self.tables.is_stored(row)
    }
}

impl fmt::Debug for BatchView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BatchView").field("rows", &self.rows).finish_non_exhaustive()
    }
}

/// Reason why a device did not compute a batch.
///
/// [Example](crate::device#a-device).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceFault {
    /// A value is infinite or NaN.
    NonFinite {
        /// First layer in which it was found. For the logits it is the number of layers.
        layer: usize,
    },
    /// The device is gone, and the keys and values with it.
    Lost,
}

/// Another machine that runs a model's program, and holds the keys and values.
///
/// An engine calls it from one thread at a time. The calls take effect in their order: a block that is written after a
/// submit is not changed any more by what was submitted, and a block that is read has everything that earlier submits
/// wrote. `Send` and `Sync` are required because an engine is both.
///
/// The engine keeps queues, block tables, forks, prefixes, windows, snapshots and errors. The device knows the model by
/// the list of [`Plan::for_each_operation`](crate::Plan::for_each_operation). A step of the program is known by its
/// index in that list.
///
/// [Example](crate::device#a-device).
pub trait Device: Send + Sync {
    /// Begins a batch. An earlier batch was finished or cancelled, so what remains of it is dropped, with its faults.
    ///
    /// # Errors
    /// [`DeviceFault::Lost`].
    fn begin(&mut self, batch: &BatchView<'_>) -> Result<(), DeviceFault>;

    /// Queues steps of the program for the batch, and returns without waiting for them. Returns the number of steps
    /// that it took: the first ones, at least one. The engine submits the others again later. A device bounds the time
    /// of a submit by taking fewer steps.
    ///
    /// # Errors
    /// [`DeviceFault::Lost`].
    fn submit(&mut self, steps: Range<usize>) -> Result<usize, DeviceFault>;

    /// Returns whether everything that was submitted of the batch is done, without blocking.
    ///
    /// The result is about the whole batch so far. A device may report [`DeviceFault::NonFinite`] only after the last
    /// step of the program.
    fn poll(&mut self) -> Poll<Result<(), DeviceFault>>;

    /// Does the same as [`Device::poll`], but blocks until there is a result, if the machine can do that. Before the
    /// last step of the program, the latest submit may still be running when this returns. The next one waits behind
    /// it.
    fn wait(&mut self) -> Poll<Result<(), DeviceFault>> {
        self.poll()
    }

    /// Decodes tokens without the host, and waits for them: one batch of one row after the other, each with all steps
    /// of the program. The rows are of one sequence, at successive positions. The token of the first row is known. Each
    /// further row has the token that is chosen by the logits of the row before it, as `choosing` says. `ids` receives
    /// these chosen tokens, and the token that is chosen by the last row: one for each row. Returns false if the device
    /// cannot do this. Then nothing has happened, and the engine begins batches of one row each.
    ///
    /// # Errors
    /// [`DeviceFault`] of any of the rows. Then none of the rows counts.
    fn decode(&mut self, batch: &BatchView<'_>, choosing: &Choosing, ids: &mut [u32]) -> Result<bool, DeviceFault> {
        let _ = (batch, choosing, ids);
        Ok(false)
    }

    /// Copies the logits, `[vocab]`, of a row of the finished batch, one of its first `logits` rows. The engine calls
    /// this after [`Device::poll`] has returned that the last step is done. So a machine that cannot wait fetches the
    /// logits before it returns that.
    ///
    /// # Errors
    /// [`DeviceFault::Lost`].
    fn logits(&mut self, row: usize, out: &mut [f32]) -> Result<(), DeviceFault>;

    /// Copies 32-bit words of a block. The engine reads a block in pieces of at most 1 KiB, one after the other. If
    /// each copy is expensive, a device should fetch the whole block at the first one.
    ///
    /// # Errors
    /// [`DeviceFault::Lost`].
    fn read_block(&self, part: BlockPart, out: &mut [u32]) -> Result<(), DeviceFault>;

    /// Sets 32-bit words of a block, in pieces as in [`Device::read_block`].
    ///
    /// # Errors
    /// [`DeviceFault::Lost`].
    fn write_block(&mut self, part: BlockPart, words: &[u32]) -> Result<(), DeviceFault>;

    /// Copies elements of a state, in pieces as in [`Device::read_block`]. A device that refuses recurrent layers is
    /// never asked.
    ///
    /// # Errors
    /// [`DeviceFault::Lost`].
    fn read_state(&self, part: StatePart, out: &mut [f32]) -> Result<(), DeviceFault> {
        let _ = (part, out);
        Err(DeviceFault::Lost)
    }

    /// Sets elements of a state, in pieces as in [`Device::read_block`].
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
