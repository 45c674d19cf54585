//! Access of a cache to keys, values and states that lie on a device.

use bytemuck::{must_cast_slice, must_cast_slice_mut};

use super::block::{BlockId, NO_BLOCK};
use super::bytes::Side;
use super::error::CacheError;
use super::group::Group;
use super::kv_cache::KvCache;
use super::sequence::{SeqId, Sequence};
use super::state::States;
use crate::device::{
    BatchView, BlockCopy, BlockPart, Choosing, Device, DeviceFault, Row, StatePart, StateSlots, Tables,
};

/// Number of 32-bit words that are copied at a time, a multiple of the words of a column of 16 elements.
const PIECE: usize = 256;
/// Number of elements of a state that are copied at a time.
pub(super) const STATE_PIECE: usize = 64;

impl From<DeviceFault> for CacheError {
    fn from(fault: DeviceFault) -> Self {
        match fault {
            DeviceFault::NonFinite { .. } => Self::NonFinite,
            DeviceFault::Lost => Self::DeviceLost,
        }
    }
}

impl<'a> KvCache<'a> {
    /// Returns whether keys and values lie on a device.
    pub(crate) fn is_on_device(&self) -> bool {
        cfg!(feature = "device") && self.on_device
    }

    /// Sets the device that holds the keys and values.
    #[cfg(feature = "device")]
    pub(crate) fn attach(&mut self, device: &'a mut dyn Device) {
        self.device.0 = Some(device);
    }

    /// Returns the device.
    ///
    /// # Errors
    /// [`CacheError::Internal`] if there is none.
    pub(crate) fn device(&mut self) -> Result<&mut (dyn Device + 'a), CacheError> {
        self.device.0.as_deref_mut().ok_or(CacheError::Internal(site!()))
    }

    /// Begins a batch on the device. `in_batch` says whether the sequence in a slot has rows in the batch.
    pub(crate) fn begin_batch(
        &mut self,
        [finished, logits]: [usize; 2],
        rows: &[Row],
        in_batch: &dyn Fn(usize) -> bool,
    ) -> Result<(), CacheError> {
        let Self { groups, states, sequences, device, .. } = self;
        let tables = RemoteTables { groups, states, sequences, in_batch };
        let device = device.0.as_deref_mut().ok_or(CacheError::Internal(site!()))?;
        Ok(device.begin(&BatchView { rows, finished, logits, tables: &tables })?)
    }

    /// Lets the device decode. The rows are at successive reserved positions of a sequence. Only the first token is
    /// known: the device chooses the others and the one behind them, and writes these to `ids`. Returns whether the
    /// device can do that.
    pub(crate) fn decode_on_device<E: From<CacheError> + From<DeviceFault>>(
        &mut self,
        seq: SeqId,
        rows: &[Row],
        choosing: &Choosing,
        ids: &mut [u32],
    ) -> Result<bool, E> {
        let in_batch = |slot| slot == seq.slot();
        let Self { groups, states, sequences, device, .. } = self;
        let tables = RemoteTables { groups, states, sequences, in_batch: &in_batch };
        let device = device.0.as_deref_mut().ok_or(CacheError::Internal(site!()))?;
        Ok(device.decode(&BatchView { rows, finished: 1, logits: 1, tables: &tables }, choosing, ids)?)
    }

    /// Checks that keys and values are in this machine's memory.
    pub(super) fn check_here(&self) -> Result<(), CacheError> {
        if self.is_on_device() { Err(CacheError::OnDevice) } else { Ok(()) }
    }

    /// Hands to `put` the keys and values of the first `tokens` tokens in a layer of block `index`, as
    /// [`Pool::export`](super::pool::Pool::export) does, from memory or from the device.
    pub(super) fn export<E: From<CacheError>>(
        &self,
        (seq, layer, index): (SeqId, usize, usize),
        tokens: usize,
        mut put: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let (pool, block, of_group) = self.stored(seq, layer, index)?;
        if !self.is_on_device() {
            return pool.export(block, of_group, tokens, put);
        }
        let device = self.device.0.as_deref().ok_or(CacheError::Internal(site!()))?;
        for (side, part) in self.sides_of(layer, block)? {
            let mut words = [0; PIECE];
            for piece in side.pieces(PIECE * 4) {
                let words = words.get_mut(..piece.len() / 4).ok_or(CacheError::Internal(site!()))?;
                let part = BlockPart { word: part.word + piece.start / 4, ..part };
                device.read_block(part, words).map_err(CacheError::from)?;
                side.put_piece(must_cast_slice(words), piece.start, tokens, &mut put)?;
            }
        }
        Ok(())
    }

    /// Fills a layer of block `index` with the bytes that [`KvCache::export`] hands over, and the rest of it with
    /// zeros. Returns whether all elements are finite.
    pub(super) fn import<E: From<CacheError>>(
        &mut self,
        (seq, layer, index): (SeqId, usize, usize),
        tokens: usize,
        mut get: impl FnMut(&mut [u8]) -> Result<(), E>,
    ) -> Result<bool, E> {
        if !self.is_on_device() {
            let (pool, block, of_group) = self.stored_mut(seq, layer, index)?;
            return pool.import(block, of_group, tokens, get);
        }
        let (_, block, _) = self.stored(seq, layer, index)?;
        let sides = self.sides_of(layer, block)?;
        let device = self.device()?;
        let mut finite = true;
        for (side, part) in sides {
            for piece in side.pieces(PIECE * 4) {
                let mut words = [0; PIECE];
                let words = words.get_mut(..piece.len() / 4).ok_or(CacheError::Internal(site!()))?;
                side.get_piece(must_cast_slice_mut(words), piece.start, tokens, &mut get)?;
                finite &= side.is_finite_piece(words, piece.start);
                let part = BlockPart { word: part.word + piece.start / 4, ..part };
                device.write_block(part, words).map_err(CacheError::from)?;
            }
        }
        Ok(finite)
    }

    /// Hands to `put` the elements of a state, in pieces of at most [`STATE_PIECE`], from memory or from the device.
    pub(super) fn export_state<E: From<CacheError>>(
        &self,
        slot: u32,
        mut put: impl FnMut(&[f32]) -> Result<(), E>,
    ) -> Result<(), E> {
        if !self.is_on_device() {
            let parts = self.states.parts(slot).ok_or(CacheError::Internal(site!()))?;
            return parts.into_iter().flat_map(|part| part.chunks(STATE_PIECE)).try_for_each(put);
        }
        let device = self.device.0.as_deref().ok_or(CacheError::Internal(site!()))?;
        let count = self.states.elements();
        for element in (0..count).step_by(STATE_PIECE) {
            let mut piece = [0.0; STATE_PIECE];
            let piece = piece.get_mut(..STATE_PIECE.min(count - element)).ok_or(CacheError::Internal(site!()))?;
            device.read_state(StatePart { slot, element }, piece).map_err(CacheError::from)?;
            put(piece)?;
        }
        Ok(())
    }

    /// Fills a state with the elements that [`KvCache::export_state`] hands over.
    pub(super) fn import_state<E: From<CacheError>>(
        &mut self,
        slot: u32,
        mut get: impl FnMut(&mut [f32]) -> Result<(), E>,
    ) -> Result<(), E> {
        if !self.is_on_device() {
            let parts = self.states.parts_mut(slot).ok_or(CacheError::Internal(site!()))?;
            return parts.into_iter().flat_map(|part| part.chunks_mut(STATE_PIECE)).try_for_each(get);
        }
        let count = self.states.elements();
        let device = self.device()?;
        for element in (0..count).step_by(STATE_PIECE) {
            let mut piece = [0.0; STATE_PIECE];
            let piece = piece.get_mut(..STATE_PIECE.min(count - element)).ok_or(CacheError::Internal(site!()))?;
            get(piece)?;
            device.write_state(StatePart { slot, element }, piece).map_err(CacheError::from)?;
        }
        Ok(())
    }

    /// Returns the tiles of a layer of a block: for each head the keys, then the values.
    fn sides_of(
        &self,
        layer: usize,
        block: BlockId,
    ) -> Result<impl Iterator<Item = (Side, BlockPart)> + use<>, CacheError> {
        let (group, of_group) = self.geometry.groups.place(layer);
        let layout = self.geometry.layout(group).ok_or(CacheError::Internal(site!()))?;
        let [k, v] = self.geometry.sides(group).ok_or(CacheError::Internal(site!()))?;
        Ok((0..layout.heads).flat_map(move |head| {
            let word = layout.tile(of_group, head);
            [(k, word), (v, word + k.len() / 4)].map(|(side, word)| (side, BlockPart { group, block, word }))
        }))
    }
}

/// The block tables of all groups and the states, for the sequences of a batch.
struct RemoteTables<'t, 'a> {
    groups: &'t [Group<'a>],
    states: &'t States<'a>,
    sequences: &'t [Sequence],
    in_batch: &'t dyn Fn(usize) -> bool,
}

impl Tables for RemoteTables<'_, '_> {
    fn table(&self, group: usize, slot: usize) -> Option<&[u32]> {
        Some(self.groups.get(group)?.table(slot).blocks())
    }

    fn for_each_copy(&self, found: &mut dyn FnMut(BlockCopy)) {
        for slot in (0..self.sequences.len()).filter(|&slot| (self.in_batch)(slot)) {
            for (group, of_group) in self.groups.iter().enumerate() {
                if let Some([from, to]) = of_group.copy(slot).filter(|copy| !copy.contains(&NO_BLOCK)) {
                    found(BlockCopy { group, from, to });
                }
            }
        }
    }

    fn state(&self, slot: usize) -> Option<StateSlots> {
        self.states.slots_of(slot).map(|[from, to]| StateSlots { from, to })
    }

    fn is_stored(&self, row: &Row) -> bool {
        self.sequences.get(row.slot()).is_some_and(|sequence| row.position < sequence.len)
    }
}
