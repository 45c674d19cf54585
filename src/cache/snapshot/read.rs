//! Reading of snapshots: into blocks of a new sequence, which nobody sees before the last checksum is right.

use heapless::Vec;

use super::STAGED;
use super::error::SnapshotError;
use super::header::{CHECKSUM, HEADER_MAX, HEADER_MIN, SnapshotHeader};
use super::slice::copy;
use crate::cache::block::BLOCK_TOKENS;
use crate::cache::error::CacheError;
use crate::cache::kind::KvKind;
use crate::cache::kv_cache::KvCache;
use crate::cache::remote::STATE_PIECE;
use crate::cache::sequence::{IMPORTED_TOKEN, SeqId};
use crate::cache::state::Then;
use crate::kv::MAX_GROUPS;
use crate::num::{Xxh64, is_finite};

/// Callback that gives the bytes of a snapshot, in order. It fills the slice from its start and returns the number of
/// bytes: 0 at the end of the bytes, `None` if it failed.
///
/// [Example](crate::cache#example).
pub type Source<'s> = dyn FnMut(&mut [u8]) -> Option<usize> + 's;

impl<'a> KvCache<'a> {
    /// Opens a sequence with the contents of a snapshot, which must end where `source` ends. Returns the sequence and
    /// the header. `fingerprint` and `vocab` are the model's.
    ///
    /// A delta continues the first tokens of the sequence `base`, which must be the tokens that the delta was written
    /// against. The kind `paged` shares their blocks. For other snapshots `base` is ignored.
    ///
    /// # Errors
    /// [`SnapshotError`]. The header and the room are checked before a block is taken. On any error everything that was
    /// taken is given back, no other sequence has changed, and the statistics are those from before.
    pub fn read_snapshot(
        &mut self,
        fingerprint: u64,
        vocab: usize,
        base: Option<SeqId>,
        source: &mut Source<'_>,
    ) -> Result<(SeqId, SnapshotHeader), SnapshotError> {
        let mut reader = Reader::new(source);
        let (header, checksum) = reader.header()?;
        header.check(fingerprint, self.shape())?;
        let base = base.filter(|_| header.base() > 0);
        let mut marks = Vec::new();
        for group in &self.groups {
            marks.push(group.allocator.high_water()).map_err(|_| CacheError::Internal(site!()))?;
        }
        let slots = self.states.stats().high_water;
        let seq = self.continued(base, &header)?;
        let restoring = Restoring { cache: self, seq, marks, slots, done: false };
        restoring.run(&mut reader, &header, checksum, vocab)?;
        if let Some(base) = base {
            self.touch(base);
            self.touch(seq);
        }
        Ok((seq, header))
    }

    /// Opens a sequence with the tokens that a delta continues, or an empty one for other snapshots.
    fn continued(&mut self, base: Option<SeqId>, header: &SnapshotHeader) -> Result<SeqId, SnapshotError> {
        if header.base() == 0 {
            return Ok(self.open()?);
        }
        let missing = |given| SnapshotError::BaseMissing { base: header.base(), given };
        let seq = base.ok_or(missing(0))?;
        let given = self.idle(seq)?;
        if given < header.base() {
            return Err(missing(given));
        }
        self.check_whole(seq, header.base())?;
        let (stored, computed) = (header.base_checksum, self.base_checksum(seq, header.base())?);
        if stored != computed {
            return Err(SnapshotError::Base { stored, computed });
        }
        Ok(self.branch(seq, header.base())?)
    }
}

/// A sequence that is being restored. It is closed again if that fails, also if the host's callback panics.
struct Restoring<'k, 'a> {
    cache: &'k mut KvCache<'a>,
    seq: SeqId,
    /// Largest number of blocks of each layer group that were in use before.
    marks: Vec<usize, MAX_GROUPS>,
    /// Largest number of slots for states that were in use before.
    slots: usize,
    done: bool,
}

impl Restoring<'_, '_> {
    fn run(
        mut self,
        reader: &mut Reader<'_, '_>,
        header: &SnapshotHeader,
        checksum: u64,
        vocab: usize,
    ) -> Result<(), SnapshotError> {
        let own = header.tokens() - header.base();
        self.cache.reserve(self.seq, core::iter::repeat_n(IMPORTED_TOKEN, own))?;
        let mut whole = Xxh64::new();
        whole.update(&checksum.to_le_bytes());
        for (block, tokens) in header.blocks() {
            whole.update(&self.block(reader, block, tokens, vocab)?.to_le_bytes());
        }
        if header.has_recurrent() {
            let mut before = 0;
            for _ in 0..header.checkpoints {
                let (position, checksum) = self.state(reader, true)?;
                if position <= before || position >= header.recurrent_position {
                    let (expected, found) = (header.recurrent_position, position);
                    return Err(SnapshotError::Geometry { what: "position of a checkpoint", expected, found });
                }
                before = position;
                self.cache.states.keep_next(self.seq.slot(), position as usize)?;
                whole.update(&checksum.to_le_bytes());
            }
            whole.update(&self.state(reader, false)?.1.to_le_bytes());
        }
        let (stored, computed) = (reader.checksum()?, whole.finish());
        if stored != computed {
            return Err(SnapshotError::Checksum { stored, computed });
        }
        reader.end()?;
        self.cache.commit(self.seq, own)?;
        let slot = self.seq.slot();
        match header.has_recurrent() {
            true => self.cache.states.commit(slot, header.recurrent_position as usize, Then::Nothing)?,
            false => {
                self.cache.states.release(slot)?;
                self.cache.states.restart(slot)?;
            }
        }
        self.done = true;
        Ok(())
    }

    /// Reads a state of the recurrent layers. `placed` says that its position comes before it. Returns the position (or
    /// 0) and the checksum.
    fn state(&mut self, reader: &mut Reader<'_, '_>, placed: bool) -> Result<(u32, u64), SnapshotError> {
        let (mut hash, mut finite, mut position) = (Xxh64::new(), true, [0; 4]);
        if placed {
            reader.get(&mut position)?;
            hash.update(&position);
        }
        let slot = self.cache.states.next(self.seq.slot())?;
        self.cache.import_state(slot, |piece| {
            let mut bytes = [[0; 4]; STATE_PIECE];
            let bytes = bytes.as_flattened_mut().get_mut(..piece.len() * 4).ok_or(CacheError::Internal(site!()))?;
            reader.get(bytes)?;
            hash.update(bytes);
            for (x, bytes) in piece.iter_mut().zip(bytes.as_chunks::<4>().0) {
                *x = f32::from_le_bytes(*bytes);
                finite &= is_finite(*x);
            }
            Ok::<_, SnapshotError>(())
        })?;
        let (stored, computed) = (reader.checksum()?, hash.finish());
        match stored == computed {
            false => Err(SnapshotError::StateChecksum { stored, computed }),
            true if !finite => Err(SnapshotError::StateNonFinite),
            true => Ok((u32::from_le_bytes(position), computed)),
        }
    }

    /// Reads a block of `tokens` tokens. Returns its checksum.
    fn block(
        &mut self,
        reader: &mut Reader<'_, '_>,
        block: usize,
        tokens: usize,
        vocab: usize,
    ) -> Result<u64, SnapshotError> {
        let mut hash = Xxh64::new();
        let mut unknown = None;
        // The kind `off` and models with states compute from the tokens, so all tokens have to be known there.
        let imported = self.cache.kind() != KvKind::Off && !self.cache.has_states();
        for position in (block * BLOCK_TOKENS..).take(tokens) {
            let mut bytes = [0; 4];
            reader.get(&mut bytes)?;
            hash.update(&bytes);
            let token = u32::from_le_bytes(bytes);
            let known = (token as usize) < vocab || token == IMPORTED_TOKEN && imported;
            unknown = unknown.or((!known).then_some(SnapshotError::Token { position, token }));
            self.cache.queue_token(self.seq, position, token)?;
        }
        let mut finite = true;
        for layer in 0..self.cache.num_layers() {
            finite &= self.cache.import((self.seq, layer, block), tokens, |bytes| {
                reader.get(bytes)?;
                hash.update(bytes);
                Ok::<(), SnapshotError>(())
            })?;
        }
        let (stored, computed) = (reader.checksum()?, hash.finish());
        if stored != computed {
            return Err(SnapshotError::BlockChecksum { block, stored, computed });
        }
        match unknown {
            Some(error) => Err(error),
            None if !finite => Err(SnapshotError::NonFinite { block }),
            None => Ok(computed),
        }
    }
}

impl Drop for Restoring<'_, '_> {
    fn drop(&mut self) {
        if !self.done {
            // The sequence is open, so this cannot fail.
            let _ = self.cache.close(self.seq);
            for (group, &mark) in self.cache.groups.iter_mut().zip(&self.marks) {
                group.allocator.lower_high_water(mark);
            }
            self.cache.states.lower_high_water(self.slots);
        }
    }
}

/// Reader that serves small pieces from a few bytes read ahead, never beyond the end of the snapshot.
struct Reader<'s, 'f> {
    source: &'s mut Source<'f>,
    staged: [u8; STAGED],
    start: usize,
    end: usize,
    /// Number of bytes that the source has given.
    given: u64,
    /// Number of bytes that the snapshot has, as far as is known.
    total: u64,
}

impl<'s, 'f> Reader<'s, 'f> {
    fn new(source: &'s mut Source<'f>) -> Self {
        Self { source, staged: [0; STAGED], start: 0, end: 0, given: 0, total: HEADER_MIN as u64 }
    }

    /// Reads the header. Returns it and its checksum.
    fn header(&mut self) -> Result<(SnapshotHeader, u64), SnapshotError> {
        let mut bytes = [0; HEADER_MAX];
        let (first, rest) = bytes.split_at_mut_checked(16).ok_or(CacheError::Internal(site!()))?;
        self.get(first)?;
        let len = SnapshotHeader::len_of(first).ok_or(CacheError::Internal(site!()))??;
        self.total = len as u64;
        self.get(rest.get_mut(..len - 16).ok_or(CacheError::Internal(site!()))?)?;
        let bytes = bytes.get(..len).ok_or(CacheError::Internal(site!()))?;
        let header = SnapshotHeader::parse(bytes)?;
        self.total = header.total_bytes();
        let checksum = bytes.last_chunk().ok_or(CacheError::Internal(site!()))?;
        Ok((header, u64::from_le_bytes(*checksum)))
    }

    fn checksum(&mut self) -> Result<u64, SnapshotError> {
        let mut bytes = [0; CHECKSUM];
        self.get(&mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// Fills `out`.
    fn get(&mut self, mut out: &mut [u8]) -> Result<(), SnapshotError> {
        while !out.is_empty() {
            if self.start == self.end && out.len() >= STAGED {
                return self.pull_all(out);
            }
            if self.start == self.end {
                self.stage()?;
            }
            let staged = self.staged.get(self.start..self.end).unwrap_or_default();
            let taken = staged.len().min(out.len());
            copy(out, staged);
            self.start += taken;
            out = out.get_mut(taken..).unwrap_or_default();
        }
        Ok(())
    }

    /// Checks that nothing follows the snapshot.
    fn end(&mut self) -> Result<(), SnapshotError> {
        let total = self.total;
        if self.pull(&mut [0])? == 0 { Ok(()) } else { Err(SnapshotError::Trailing { total }) }
    }

    /// Reads some bytes ahead.
    fn stage(&mut self) -> Result<(), SnapshotError> {
        let mut staged = [0; STAGED];
        let left = usize::try_from(self.total.saturating_sub(self.given)).unwrap_or(usize::MAX);
        let len = self.pull(staged.get_mut(..left.min(STAGED)).unwrap_or_default())?;
        if len == 0 {
            return Err(self.truncated());
        }
        (self.staged, self.start, self.end) = (staged, 0, len);
        Ok(())
    }

    fn pull_all(&mut self, mut out: &mut [u8]) -> Result<(), SnapshotError> {
        while !out.is_empty() {
            let len = self.pull(out)?;
            if len == 0 {
                return Err(self.truncated());
            }
            out = out.get_mut(len..).unwrap_or_default();
        }
        Ok(())
    }

    fn pull(&mut self, out: &mut [u8]) -> Result<usize, SnapshotError> {
        let room = out.len();
        let len = (self.source)(out).filter(|&len| len <= room);
        let len = len.ok_or(SnapshotError::Source { offset: self.given })?;
        self.given += len as u64;
        Ok(len)
    }

    fn truncated(&self) -> SnapshotError {
        SnapshotError::Truncated { needed: self.total, given: self.given }
    }
}
