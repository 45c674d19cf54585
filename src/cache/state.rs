//! The states of recurrent layers: a pool of slots, each of which holds the state of a sequence in all its layers.
//!
//! A sequence has a *current* slot. A batch reads that one and writes a *next* one, and the commit of the batch swaps
//! them: so what fails or is cancelled changes nothing. Where the batch had guesses, the slot that it has read stays
//! until they are judged, in place of a next one. Slots are counted references, so forks and checkpoints share them.

use bytemuck::{Pod, Zeroable};

use super::checkpoint::{Checkpoint, NO_SLOT, NOBODY};
use super::error::CacheError;
use super::state_geometry::StateGeometry;
use super::state_tiles::{StateTiles, tiles};
use super::stats::SlotStats;
use crate::mem::{Arena, MemoryError, row_of};

/// What a sequence has.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Held {
    pub(super) current: u32,
    /// Reserved for the batch to come.
    pub(super) next: u32,
    /// The tokens that `current` is the state after.
    position: u32,
    /// Where a checkpoint is wanted; 0 where none is.
    wanted: u32,
    /// What a batch with guesses has read. Never there together with `next`: two slots are enough for a sequence.
    before: u32,
    /// The tokens that `before` is the state after.
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
    /// Another batch of what is queued.
    Batch,
    /// The host judges guesses that were in it: the state may go back to where the batch began.
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
    /// References to each slot.
    references: &'a mut [u32],
    /// By the slot of the sequence.
    held: &'a mut [Held],
    checkpoints: &'a mut [Checkpoint],
    made: u32,
    /// Slots that anything refers to.
    used: usize,
    high_water: usize,
}

impl<'a> States<'a> {
    /// `on_device` says that the elements are elsewhere.
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

    /// Whether the model has any. A build without recurrent layers has no code for them.
    pub(super) fn are_there(&self) -> bool {
        cfg!(feature = "recurrent") && !self.held.is_empty()
    }

    /// The tokens that the state of a sequence is the state after; `None` where the model has none.
    pub(super) fn position(&self, sequence: usize) -> Option<usize> {
        self.held.get(sequence).map(|held| held.position as usize)
    }

    /// The numbers of the slots.
    pub(super) fn stats(&self) -> SlotStats {
        SlotStats { total: self.references.len(), used: self.used, high_water: self.high_water }
    }

    /// Forgets slots that were in use since the high-water mark was `mark`, and are not any more.
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

    /// Gives back what [`States::reserve`] took.
    pub(super) fn release(&mut self, sequence: usize) -> Result<(), CacheError> {
        if self.are_there() {
            let held = self.held_mut(sequence)?;
            let next = core::mem::replace(&mut held.next, NO_SLOT);
            self.drop_reference(next)?;
        }
        Ok(())
    }

    /// Makes what a batch has written the current state, after `position` tokens.
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
            // Forgets it, too.
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

    /// Keeps the current state as a checkpoint. One that the host did not ask for, the first made, gives way. Returns
    /// whether there was room. `serial` is that of the cached block that ends here, or 0.
    pub(super) fn keep(&mut self, sequence: usize, kept: bool, serial: u64) -> Result<bool, CacheError> {
        let Some(&Held { current, position, .. }) = self.held.get(sequence) else { return Ok(false) };
        let known = |point: &&mut Checkpoint| point.is_of(sequence) && point.position == position;
        if let Some(point) = self.checkpoints.iter_mut().find(known) {
            point.kept |= u32::from(kept);
            return Ok(true);
        }
        if current == NO_SLOT {
            // The beginning needs none.
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

    /// Keeps the state that was written for a sequence, after `position` tokens, in a free place. Where there is none
    /// it is given up: no checkpoint of anybody gives way.
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

    /// The position of a sequence's checkpoint: the last one before `position`, or so many before that.
    pub(super) fn point_before(&self, sequence: usize, position: usize, back: usize) -> Option<usize> {
        let last = |below, _| Checkpoint::last_before(self.checkpoints, sequence, below);
        (0..=back).try_fold(position as u32, last).map(|position| position as usize)
    }

    /// The slot of a sequence's checkpoint.
    pub(super) fn kept(&self, sequence: usize, position: usize) -> Option<u32> {
        let is_it = |point: &&Checkpoint| point.is_of(sequence) && point.position as usize == position;
        self.checkpoints.iter().find(is_it).map(|point| point.slot)
    }

    /// Notes where a checkpoint is wanted.
    pub(super) fn want(&mut self, sequence: usize, position: usize) {
        self.held.get_mut(sequence).into_iter().for_each(|held| held.wanted = position as u32);
    }

    /// Where a checkpoint is wanted; 0 where none is.
    pub(super) fn wanted(&self, sequence: usize) -> u32 {
        self.held.get(sequence).map_or(0, |held| held.wanted)
    }

    /// The position at which [`States::rewind`] to `keep` tokens finds a state.
    pub(super) fn found(&self, sequence: usize, keep: usize) -> usize {
        self.before(sequence, keep).1
    }

    /// Goes back to the last state at or before `keep` tokens.
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

    /// Makes `fork` begin with the last state of a sequence at or before `keep` tokens, and have its last two
    /// checkpoints before that: as many as a conversation needs. They take free places, or those of older ones that
    /// give way.
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
            // A cached prefix finds that of the other sequence.
            let copy = Checkpoint { sequence: fork as u32, kept: 0, serial: 0, ..point };
            let gone = core::mem::replace(place, copy).slot;
            self.add_reference(copy.slot)?;
            self.drop_reference(gone)?;
        }
        Ok(())
    }

    /// Makes the checkpoints of a sequence that is closed nobody's. They stay as long as there is room, where a cached
    /// prefix finds them.
    pub(super) fn abandon(&mut self, sequence: usize) {
        for point in self.checkpoints.iter_mut().filter(|point| point.is_of(sequence) && point.serial != 0) {
            (point.sequence, point.kept) = (NOBODY, 0);
        }
    }

    /// Whether there is a checkpoint where the cached block of this serial number ends.
    pub(super) fn is_cached(&self, position: usize, serial: u64) -> bool {
        let found = |point: &Checkpoint| point.serial == serial && point.position as usize == position;
        serial != 0 && self.checkpoints.iter().any(found)
    }

    /// Makes a sequence begin with such a checkpoint.
    pub(super) fn begin_cached(&mut self, sequence: usize, position: usize, serial: u64) -> Result<(), CacheError> {
        let found = |point: &&Checkpoint| point.serial == serial && point.position as usize == position;
        let slot = self.checkpoints.iter().find(found).ok_or(CacheError::Internal(site!()))?.slot;
        self.point_to(sequence, slot, position)
    }

    /// Makes a sequence begin with zeros, but keeps its checkpoints.
    pub(super) fn restart(&mut self, sequence: usize) -> Result<(), CacheError> {
        if self.are_there() { self.point_to(sequence, NO_SLOT, 0) } else { Ok(()) }
    }

    /// The states of a layer's convolution, cut into tiles of `width` channels. (`layer` counts the layers that have a
    /// state.)
    pub(super) fn tails(&mut self, layer: usize, width: usize, kernel: usize) -> Option<StateTiles<'_>> {
        let [stride, _] = self.geometry.elements()?;
        let tail = self.geometry.tail;
        tiles(self.tails, [layer, stride, tail, width.checked_mul(kernel.checked_sub(1)?)?], self.held)
    }

    /// The matrices of a layer, a tile for each head.
    pub(super) fn matrices(&mut self, layer: usize) -> Option<StateTiles<'_>> {
        let [_, stride] = self.geometry.elements()?;
        let StateGeometry { heads, matrix, .. } = self.geometry;
        tiles(self.matrices, [layer, stride, heads.checked_mul(matrix)?, matrix], self.held)
    }

    /// The current slot of a sequence, and the one that its next batch writes; `None` where the model has no states.
    pub(super) fn slots_of(&self, sequence: usize) -> Option<[u32; 2]> {
        self.held.get(sequence).map(|held| [held.current, held.next])
    }

    /// The slot that is being written for a sequence.
    pub(super) fn next(&mut self, sequence: usize) -> Result<u32, CacheError> {
        if self.held_mut(sequence)?.next == NO_SLOT {
            self.reserve(sequence)?;
        }
        Ok(self.held_mut(sequence)?.next)
    }

    /// What lies in a slot, tails and matrices.
    pub(super) fn parts(&self, slot: u32) -> Option<[&[f32]; 2]> {
        let [tail, matrices] = self.geometry.elements()?;
        Some([row_of(self.tails, slot as usize, tail)?, row_of(self.matrices, slot as usize, matrices)?])
    }

    /// The same, to be written.
    pub(super) fn parts_mut(&mut self, slot: u32) -> Option<[&mut [f32]; 2]> {
        let [tail, matrices] = self.geometry.elements()?;
        let tails = self.tails.chunks_exact_mut(tail.max(1)).nth(slot as usize);
        let matrices = self.matrices.chunks_exact_mut(matrices.max(1)).nth(slot as usize);
        // Not all models have both.
        Some([tails.unwrap_or_default(), matrices.unwrap_or_default()])
    }

    /// f32 elements of a state; 0 where the model has none.
    pub(super) fn elements(&self) -> usize {
        self.geometry.elements().map_or(0, |[tails, matrices]| tails.saturating_add(matrices))
    }

    /// Whether the references are what refers to the slots.
    pub(super) fn check(&self) -> bool {
        self.references.iter().enumerate().all(|(slot, &count)| {
            let held = self.held.iter().flat_map(|held| [held.current, held.next, held.before]);
            let points = self.checkpoints.iter().map(|point| point.slot);
            held.chain(points).filter(|&referred| referred as usize == slot).count() == count as usize
        })
    }

    /// The last slot of a sequence at or before `keep` tokens, and its position.
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

    /// A slot that nothing refers to; there always is one ([`StateGeometry::slots`]).
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
