//! The states of recurrent layers: a pool of slots. Each slot holds the state of one sequence in all its layers.
//!
//! A sequence has a *current* slot. A batch reads that one and writes a *next* one, and the commit of the batch swaps
//! them. So a batch that fails or is cancelled changes nothing. If the batch had guesses, the slot that it has read
//! stays until they are judged, in place of a next one. References to slots are counted, so forks and checkpoints share
//! them.

use bytemuck::{Pod, Zeroable};

use super::checkpoint::{Checkpoint, NO_SLOT, NOBODY};
use super::error::CacheError;
use super::state_geometry::StateGeometry;
use super::state_tiles::{StateTiles, tiles};
use super::stats::SlotStats;
use crate::mem::{Arena, MemoryError, row_of};

/// The slots of a sequence.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Held {
    pub(super) current: u32,
    /// Slot that is reserved for the batch to come.
    pub(super) next: u32,
    /// Position of the state in `current`: the number of tokens before it.
    position: u32,
    /// Position at which a checkpoint is wanted, or 0 for none.
    wanted: u32,
    /// Slot that a batch with guesses has read. It never exists together with `next`, so two slots are enough for a
    /// sequence.
    before: u32,
    /// Position of the state in `before`.
    before_position: u32,
}

impl Held {
    const NOTHING: Self =
        Self { current: NO_SLOT, next: NO_SLOT, position: 0, wanted: 0, before: NO_SLOT, before_position: 0 };
}

/// What follows a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    /// Nothing for now.
    Nothing,
    /// Another batch of the queued tokens.
    Batch,
    /// The host judges guesses that were in the batch. The state may go back to where the batch began.
    Judgement,
}

/// The states of all sequences.
#[derive(Debug)]
pub(super) struct States<'a> {
    geometry: StateGeometry,
    /// `[slots, layers, tail]`.
    tails: &'a mut [f32],
    /// `[slots, layers, heads, matrix]`.
    matrices: &'a mut [f32],
    /// Number of references to each slot.
    references: &'a mut [u32],
    /// Slots of each sequence, by the sequence's own slot.
    held: &'a mut [Held],
    checkpoints: &'a mut [Checkpoint],
    made: u32,
    /// Number of slots that have references.
    used: usize,
    high_water: usize,
}

impl<'a> States<'a> {
    /// Takes the states' memory from the arena. `on_device` says that the elements lie on a device.
    pub(super) fn carve(
        arena: &mut Arena<'a>,
        geometry: StateGeometry,
        sequences: usize,
        on_device: bool,
    ) -> Result<Self, MemoryError> {
        let slots = geometry.slots(sequences).ok_or(MemoryError::TooLarge)?;
        let [tail, matrices] = geometry.elements().ok_or(MemoryError::TooLarge)?;
        let here = if on_device { 0 } else { slots };
        let size = |elements: usize| here.checked_mul(elements).ok_or(MemoryError::TooLarge);
        let (held, checkpoints) = if slots == 0 { (0, 0) } else { (sequences, geometry.checkpoints) };
        let states = Self {
            geometry,
            references: arena.slice("state references", slots)?,
            held: arena.slice("state table", held)?,
            checkpoints: arena.slice("state checkpoints", checkpoints)?,
            tails: arena.slice("convolution states", size(tail)?)?,
            matrices: arena.slice("matrix states", size(matrices)?)?,
            made: 0,
            used: 0,
            high_water: 0,
        };
        states.references.fill(0);
        states.held.fill(Held::NOTHING);
        states.checkpoints.fill(Checkpoint::FREE);
        Ok(states)
    }

    /// Returns whether the model has states. A build without recurrent layers has no code for them.
    pub(super) fn are_there(&self) -> bool {
        cfg!(feature = "recurrent") && !self.held.is_empty()
    }

    /// Returns the position of a sequence's state, or `None` if the model has no states.
    pub(super) fn position(&self, sequence: usize) -> Option<usize> {
        self.held.get(sequence).map(|held| held.position as usize)
    }

    /// Returns the statistics of the slots.
    pub(super) fn stats(&self) -> SlotStats {
        SlotStats { total: self.references.len(), used: self.used, high_water: self.high_water }
    }

    /// Lowers the high-water mark to `mark`, or to the number of slots in use if that is larger.
    pub(super) fn lower_high_water(&mut self, mark: usize) {
        self.high_water = mark.max(self.used);
    }

    /// Takes the slot that the next batch writes to.
    pub(super) fn reserve(&mut self, sequence: usize) -> Result<(), CacheError> {
        if self.are_there() {
            self.forget_before(sequence)?;
            let next = self.take()?;
            self.held_mut(sequence)?.next = next;
        }
        Ok(())
    }

    /// Gives back the slot that [`States::reserve`] took.
    pub(super) fn release(&mut self, sequence: usize) -> Result<(), CacheError> {
        if self.are_there() {
            let held = self.held_mut(sequence)?;
            let next = core::mem::replace(&mut held.next, NO_SLOT);
            self.drop_reference(next)?;
        }
        Ok(())
    }

    /// Makes the state that a batch has written the current one, at `position`.
    pub(super) fn commit(&mut self, sequence: usize, position: usize, then: Then) -> Result<(), CacheError> {
        if !self.are_there() {
            return Ok(());
        }
        self.forget_before(sequence)?;
        let held = self.held_mut(sequence)?;
        let (before, before_position) = (held.current, held.position);
        *held = Held { current: held.next, next: NO_SLOT, position: position as u32, before, before_position, ..*held };
        match then {
            Then::Judgement => Ok(()),
            Then::Nothing => self.forget_before(sequence),
            // This forgets the slot before, too.
            Then::Batch => self.reserve(sequence),
        }
    }

    /// Gives back the slot that a batch with guesses has read.
    pub(super) fn forget_before(&mut self, sequence: usize) -> Result<(), CacheError> {
        if !self.are_there() {
            return Ok(());
        }
        let held = self.held_mut(sequence)?;
        held.before_position = 0;
        let before = core::mem::replace(&mut held.before, NO_SLOT);
        self.drop_reference(before)
    }

    /// Keeps the current state as a checkpoint, in a free place or in that of the oldest checkpoint that the host did
    /// not ask for. Returns whether there was such a place. `serial` is the serial number of the cached block that ends
    /// here, or 0.
    pub(super) fn keep(&mut self, sequence: usize, kept: bool, serial: u64) -> Result<bool, CacheError> {
        let Some(&Held { current, position, .. }) = self.held.get(sequence) else { return Ok(false) };
        let known = |point: &&mut Checkpoint| point.is_of(sequence) && point.position == position;
        if let Some(point) = self.checkpoints.iter_mut().find(known) {
            point.kept |= u32::from(kept);
            return Ok(true);
        }
        if current == NO_SLOT {
            // The beginning of a sequence needs no checkpoint.
            return Ok(true);
        }
        let weak = self.checkpoints.iter_mut().filter(|point| point.is_weak());
        let Some(place) = weak.min_by_key(|point| point.age()) else { return Ok(false) };
        self.made = self.made.saturating_add(1);
        let (sequence, made) = (sequence as u32, self.made);
        let point = Checkpoint { slot: current, sequence, position, made, kept: kept.into(), serial, _pad: 0 };
        let gone = core::mem::replace(place, point).slot;
        self.add_reference(current)?;
        self.drop_reference(gone)?;
        Ok(true)
    }

    /// Keeps the state that was written for a sequence, at `position`, as a checkpoint in a free place. If there is
    /// none, the state is given up: no other checkpoint gives way.
    pub(super) fn keep_next(&mut self, sequence: usize, position: usize) -> Result<(), CacheError> {
        let made = self.made.saturating_add(1);
        let Some(place) = self.checkpoints.iter_mut().find(|point| point.slot == NO_SLOT) else { return Ok(()) };
        let held = self.held.get_mut(sequence).ok_or(CacheError::Internal(site!()))?;
        let slot = core::mem::replace(&mut held.next, NO_SLOT);
        let (sequence, position) = (sequence as u32, position as u32);
        *place = Checkpoint { slot, sequence, position, made, ..Checkpoint::FREE };
        self.made = made;
        Ok(())
    }

    /// Returns the position of a sequence's last checkpoint before `position`, or of the one `back` checkpoints
    /// earlier.
    pub(super) fn point_before(&self, sequence: usize, position: usize, back: usize) -> Option<usize> {
        let last = |below, _| Checkpoint::last_before(self.checkpoints, sequence, below);
        (0..=back).try_fold(position as u32, last).map(|position| position as usize)
    }

    /// Returns the slot of a sequence's checkpoint at `position`.
    pub(super) fn kept(&self, sequence: usize, position: usize) -> Option<u32> {
        let is_it = |point: &&Checkpoint| point.is_of(sequence) && point.position as usize == position;
        self.checkpoints.iter().find(is_it).map(|point| point.slot)
    }

    /// Notes the position at which a checkpoint is wanted, or 0 for none.
    pub(super) fn want(&mut self, sequence: usize, position: usize) {
        self.held.get_mut(sequence).into_iter().for_each(|held| held.wanted = position as u32);
    }

    /// Returns the position at which a checkpoint is wanted, or 0 for none.
    pub(super) fn wanted(&self, sequence: usize) -> u32 {
        self.held.get(sequence).map_or(0, |held| held.wanted)
    }

    /// Returns the position of the state that [`States::rewind`] to `keep` tokens finds.
    pub(super) fn found(&self, sequence: usize, keep: usize) -> usize {
        self.before(sequence, keep).1
    }

    /// Goes back to the last state at or before `keep` tokens, and drops the checkpoints behind `keep`.
    pub(super) fn rewind(&mut self, sequence: usize, keep: usize) -> Result<(), CacheError> {
        if !self.are_there() {
            return Ok(());
        }
        let (slot, position) = self.before(sequence, keep);
        self.point_to(sequence, slot, position)?;
        self.want(sequence, 0);
        for index in 0..self.checkpoints.len() {
            let Some(point) = self.checkpoints.get_mut(index) else { break };
            if point.is_of(sequence) && point.position as usize > keep {
                let gone = core::mem::replace(point, Checkpoint::FREE).slot;
                self.drop_reference(gone)?;
            }
        }
        Ok(())
    }

    /// Makes `fork` begin with the last state of a sequence at or before `keep` tokens, and share the sequence's last
    /// two checkpoints up to there: as many as a conversation needs. They take free places, or those of older
    /// checkpoints that give way.
    pub(super) fn fork(&mut self, sequence: usize, fork: usize, keep: usize) -> Result<(), CacheError> {
        if !self.are_there() {
            return Ok(());
        }
        let (slot, position) = self.before(sequence, keep);
        self.point_to(fork, slot, position)?;
        let last = |below: usize| {
            let points = self.checkpoints.iter().filter(|point| point.is_of(sequence));
            points.filter(|point| (point.position as usize) < below).max_by_key(|point| point.position).copied()
        };
        let last_two = [
            last(keep.saturating_add(1)),
            last(keep.saturating_add(1)).and_then(|point| last(point.position as usize)),
        ];
        let oldest = last_two.iter().flatten().map(|point| point.made).min().unwrap_or(0);
        for point in last_two.into_iter().flatten() {
            let gives_way = |place: &&mut Checkpoint| place.is_weak() && place.age() < oldest;
            let place = self.checkpoints.iter_mut().filter(gives_way).min_by_key(|place| place.age());
            let Some(place) = place else { break };
            // The copy has no serial number: a cached prefix finds the checkpoint of the other sequence.
            let copy = Checkpoint { sequence: fork as u32, kept: 0, serial: 0, ..point };
            let gone = core::mem::replace(place, copy).slot;
            self.add_reference(copy.slot)?;
            self.drop_reference(gone)?;
        }
        Ok(())
    }

    /// Makes nobody the owner of those checkpoints of a closed sequence that a cached prefix finds. They stay as long
    /// as there is room.
    pub(super) fn abandon(&mut self, sequence: usize) {
        for point in self.checkpoints.iter_mut().filter(|point| point.is_of(sequence) && point.serial != 0) {
            (point.sequence, point.kept) = (NOBODY, 0);
        }
    }

    /// Returns whether there is a checkpoint at the end of the cached block with this serial number.
    pub(super) fn is_cached(&self, position: usize, serial: u64) -> bool {
        let found = |point: &Checkpoint| point.serial == serial && point.position as usize == position;
        serial != 0 && self.checkpoints.iter().any(found)
    }

    /// Makes a sequence begin with the checkpoint at the end of the cached block with this serial number.
    pub(super) fn begin_cached(&mut self, sequence: usize, position: usize, serial: u64) -> Result<(), CacheError> {
        let found = |point: &&Checkpoint| point.serial == serial && point.position as usize == position;
        let slot = self.checkpoints.iter().find(found).ok_or(CacheError::Internal(site!()))?.slot;
        self.point_to(sequence, slot, position)
    }

    /// Makes a sequence begin with a state of zeros, but keeps its checkpoints.
    pub(super) fn restart(&mut self, sequence: usize) -> Result<(), CacheError> {
        if self.are_there() { self.point_to(sequence, NO_SLOT, 0) } else { Ok(()) }
    }

    /// Returns the states of a layer's convolution, cut into tiles of `width` channels. (`layer` counts only layers
    /// that have a state.)
    pub(super) fn tails(&mut self, layer: usize, width: usize, kernel: usize) -> Option<StateTiles<'_>> {
        let [stride, _] = self.geometry.elements()?;
        let tail = self.geometry.tail;
        tiles(self.tails, [layer, stride, tail, width.checked_mul(kernel.checked_sub(1)?)?], self.held)
    }

    /// Returns the matrices of a layer, one tile for each head.
    pub(super) fn matrices(&mut self, layer: usize) -> Option<StateTiles<'_>> {
        let [_, stride] = self.geometry.elements()?;
        let StateGeometry { heads, matrix, .. } = self.geometry;
        tiles(self.matrices, [layer, stride, heads.checked_mul(matrix)?, matrix], self.held)
    }

    /// Returns the current slot of a sequence, and the one that its next batch writes, or `None` if the model has no
    /// states.
    pub(super) fn slots_of(&self, sequence: usize) -> Option<[u32; 2]> {
        self.held.get(sequence).map(|held| [held.current, held.next])
    }

    /// Returns the slot that is being written for a sequence. Reserves one if there is none.
    pub(super) fn next(&mut self, sequence: usize) -> Result<u32, CacheError> {
        if self.held_mut(sequence)?.next == NO_SLOT {
            self.reserve(sequence)?;
        }
        Ok(self.held_mut(sequence)?.next)
    }

    /// Returns the elements in a slot: tails and matrices.
    pub(super) fn parts(&self, slot: u32) -> Option<[&[f32]; 2]> {
        let [tail, matrices] = self.geometry.elements()?;
        Some([row_of(self.tails, slot as usize, tail)?, row_of(self.matrices, slot as usize, matrices)?])
    }

    /// [`States::parts`] for writing.
    pub(super) fn parts_mut(&mut self, slot: u32) -> Option<[&mut [f32]; 2]> {
        let [tail, matrices] = self.geometry.elements()?;
        let tails = self.tails.chunks_exact_mut(tail.max(1)).nth(slot as usize);
        let matrices = self.matrices.chunks_exact_mut(matrices.max(1)).nth(slot as usize);
        // Not all models have both.
        Some([tails.unwrap_or_default(), matrices.unwrap_or_default()])
    }

    /// Returns the number of f32 elements of a state, or 0 if the model has none.
    pub(super) fn elements(&self) -> usize {
        self.geometry.elements().map_or(0, |[tails, matrices]| tails.saturating_add(matrices))
    }

    /// Returns whether each slot has as many references as its count says.
    pub(super) fn check(&self) -> bool {
        self.references.iter().enumerate().all(|(slot, &count)| {
            let held = self.held.iter().flat_map(|held| [held.current, held.next, held.before]);
            let points = self.checkpoints.iter().map(|point| point.slot);
            held.chain(points).filter(|&referred| referred as usize == slot).count() == count as usize
        })
    }

    /// Returns the last state of a sequence at or before `keep` tokens: its slot and its position.
    fn before(&self, sequence: usize, keep: usize) -> (u32, usize) {
        let held = self.held.get(sequence).into_iter();
        let held = held.flat_map(|held| [(held.current, held.position), (held.before, held.before_position)]);
        let held = held.map(|(slot, position)| (slot, position as usize));
        let points = self.checkpoints.iter().filter(|point| point.is_of(sequence));
        let points = points.map(|point| (point.slot, point.position as usize));
        let states = held.chain(points).filter(|&(_, position)| position <= keep);
        states.max_by_key(|&(_, position)| position).unwrap_or((NO_SLOT, 0))
    }

    fn point_to(&mut self, sequence: usize, slot: u32, position: usize) -> Result<(), CacheError> {
        self.add_reference(slot)?;
        self.forget_before(sequence)?;
        let held = self.held_mut(sequence)?;
        held.position = position as u32;
        let old = core::mem::replace(&mut held.current, slot);
        self.drop_reference(old)
    }

    fn held_mut(&mut self, sequence: usize) -> Result<&mut Held, CacheError> {
        self.held.get_mut(sequence).ok_or(CacheError::Internal(site!()))
    }

    /// Takes a slot without references. There always is one ([`StateGeometry::slots`]).
    fn take(&mut self) -> Result<u32, CacheError> {
        let slot = self.references.iter().position(|&count| count == 0).ok_or(CacheError::Internal(site!()))?;
        self.add_reference(slot as u32)?;
        Ok(slot as u32)
    }

    fn add_reference(&mut self, slot: u32) -> Result<(), CacheError> {
        if slot != NO_SLOT {
            let count = self.references.get_mut(slot as usize).ok_or(CacheError::Internal(site!()))?;
            *count += 1;
            self.used += usize::from(*count == 1);
            self.high_water = self.high_water.max(self.used);
        }
        Ok(())
    }

    fn drop_reference(&mut self, slot: u32) -> Result<(), CacheError> {
        if slot != NO_SLOT {
            let count = self.references.get_mut(slot as usize).ok_or(CacheError::Internal(site!()))?;
            *count = count.checked_sub(1).ok_or(CacheError::Internal(site!()))?;
            self.used -= usize::from(*count == 0);
        }
        Ok(())
    }
}
