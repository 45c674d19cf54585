//! Room in a full pool: idle sequences are closed, the least recently used first.

use super::error::CacheError;
use super::group::Group;
use super::host_policy::IdleSequences;
use super::kv_cache::KvCache;
use super::sequence::SeqId;
use super::stats::SequenceStats;

/// The mark of a sequence that the host does not consent to close.
const REFUSED: u32 = 2;

impl KvCache<'_> {
    /// Closes idle sequences until `rows` more tokens fit sequence `seq`. Returns how many were closed. It asks
    /// `consent` for each sequence, from the least recently used on (or in the order of a
    /// [`HostPolicy`](super::HostPolicy)), until it may close enough of them. Of those it keeps the sequences that turn
    /// out not to be needed, the most recently used first. If all together are not enough, it closes none.
    ///
    /// A sequence is used when it is opened, forked, or appended to. This takes time proportional to the number of
    /// blocks of the sequences considered.
    ///
    /// # Errors
    /// As [`KvCache::can_extend`]; [`CacheError::OutOfBlocks`] if too few sequences consent,
    /// [`CacheError::PolicySequence`].
    pub fn make_room(
        &mut self,
        seq: SeqId,
        rows: usize,
        consent: &mut dyn FnMut(SeqId, &SequenceStats) -> bool,
    ) -> Result<usize, CacheError> {
        let full = match self.can_extend(seq, rows) {
            Ok(()) => return Ok(0),
            Err(error @ CacheError::OutOfBlocks { .. }) => error,
            Err(error) => return Err(error),
        };
        self.clear_marks();
        let made = self.close_some(seq, rows, consent, full);
        self.clear_marks();
        made
    }

    /// Closes sequences until the rows fit. `full` is the error if they do not. Marks are left behind.
    fn close_some(
        &mut self,
        seq: SeqId,
        rows: usize,
        consent: &mut dyn FnMut(SeqId, &SequenceStats) -> bool,
        full: CacheError,
    ) -> Result<usize, CacheError> {
        let mut first = self.recency.first;
        while let Some(candidate) = self.next_to_close(&mut first, seq)? {
            let stats = self.sequence_stats(candidate)?;
            if !consent(candidate, &stats) {
                self.sequence_mut(candidate)?.marked = REFUSED;
                continue;
            }
            self.mark(candidate, true)?;
            if self.fits_after(seq, rows)? {
                return self.close_needed(seq, rows);
            }
        }
        Err(full)
    }

    /// Returns the sequence to be considered next, of those that are not marked: the host's choice, or the least
    /// recently used one. No sequence before `first`, in the order of use, is a candidate.
    fn next_to_close(&mut self, first: &mut u32, wanted: SeqId) -> Result<Option<SeqId>, CacheError> {
        let (sequences, groups) = (&*self.sequences, &*self.groups);
        let mut idle = IdleSequences { sequences, groups, first: *first, wanted };
        while let Some(sequence) = sequences.get(idle.first as usize).filter(|_| idle.at(idle.first).is_none()) {
            idle.first = sequence.links.next;
        }
        *first = idle.first;
        if sequences.get(idle.first as usize).is_none() {
            return Ok(None);
        }
        let Some(policy) = self.hosted.0.as_deref_mut() else { return Ok(idle.default()) };
        let Some(answer) = policy.close(&idle) else { return Ok(None) };
        match idle.at(answer.slot() as u32) {
            Some(found) if found == answer => Ok(Some(answer)),
            _ => Err(CacheError::PolicySequence { sequence: answer.to_bits() }),
        }
    }

    /// Closes the marked sequences that are needed for the room.
    fn close_needed(&mut self, seq: SeqId, rows: usize) -> Result<usize, CacheError> {
        let mut next = self.recency.last;
        let mut closed = 0;
        // Marks that are not needed are removed before anything is closed, first those of the most recently used
        // sequences.
        while let Some((candidate, before, _)) = self.neighbours(next) {
            if self.is_marked(candidate) {
                self.mark(candidate, false)?;
                if !self.fits_after(seq, rows)? {
                    self.mark(candidate, true)?;
                }
            }
            next = before;
        }
        next = self.recency.first;
        while let Some((candidate, _, after)) = self.neighbours(next) {
            if self.is_marked(candidate) {
                self.close(candidate)?;
                closed += 1;
            }
            next = after;
        }
        Ok(closed)
    }

    /// Returns whether the rows fit once the marked sequences are closed.
    fn fits_after(&self, seq: SeqId, rows: usize) -> Result<bool, CacheError> {
        let len = self.idle(seq)?;
        let fits = |group: &Group<'_>| {
            group.needed_after(seq.slot(), len, len.saturating_add(rows)) <= group.allocator.available_after()
        };
        Ok(self.groups.iter().all(fits))
    }

    /// Returns the open sequence in a slot, and the slots of the sequences used just before and just after it.
    fn neighbours(&self, slot: u32) -> Option<(SeqId, u32, u32)> {
        let sequence = self.sequences.get(slot as usize)?;
        let seq = SeqId::new(slot as usize, sequence.generation);
        Some((seq, sequence.links.previous, sequence.links.next))
    }

    fn is_marked(&self, seq: SeqId) -> bool {
        self.sequences.get(seq.slot()).is_some_and(|sequence| sequence.marked == 1)
    }

    pub(super) fn mark(&mut self, seq: SeqId, on: bool) -> Result<(), CacheError> {
        for group in &mut self.groups {
            group.mark(seq.slot(), on)?;
        }
        self.sequences.get_mut(seq.slot()).ok_or(CacheError::Internal(site!()))?.marked = u32::from(on);
        Ok(())
    }

    /// Removes all marks. Those of a call that was ended by a panic in `consent` must not count.
    pub(super) fn clear_marks(&mut self) {
        self.groups.iter_mut().for_each(|group| group.allocator.clear_marks());
        self.sequences.iter_mut().for_each(|sequence| sequence.marked = 0);
    }
}
