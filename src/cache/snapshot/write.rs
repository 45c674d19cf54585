//! Writing of snapshots: the header, then block by block.

use super::STAGED;
use super::error::SnapshotError;
use super::header::{Shape, SnapshotHeader, SnapshotOptions};
use super::slice::copy;
use crate::cache::block::BLOCK_TOKENS;
use crate::cache::error::CacheError;
use crate::cache::kv_cache::KvCache;
use crate::cache::remote::STATE_PIECE;
use crate::cache::sequence::SeqId;
use crate::num::Xxh64;

/// Callback that takes the bytes of a snapshot, in order. It returns false if it failed.
///
/// [Example](crate::cache#example).
pub type Sink<'s> = dyn FnMut(&[u8]) -> bool + 's;

impl KvCache<'_> {
    /// Returns the number of bytes of a snapshot of a sequence.
    ///
    /// # Errors
    /// [`SnapshotError::Cache`] if the sequence is unknown or busy; [`SnapshotError::StateTooLong`],
    /// [`SnapshotError::BasePosition`].
    pub fn snapshot_len(&self, seq: SeqId, options: &SnapshotOptions<'_>) -> Result<usize, SnapshotError> {
        let header = SnapshotHeader::new(self.shape(), 0, self.lengths(seq, options)?, options)?;
        Ok(usize::try_from(header.total_bytes()).unwrap_or(usize::MAX))
    }

    /// Writes a snapshot of a sequence to `sink`. Returns the number of bytes. `fingerprint` names the model.
    ///
    /// # Errors
    /// [`SnapshotError::Sink`]; [`SnapshotError::Cache`] if the device is gone; as [`KvCache::snapshot_len`], before the
    /// sink gets anything.
    pub fn write_snapshot(
        &self,
        seq: SeqId,
        fingerprint: u64,
        options: &SnapshotOptions<'_>,
        sink: &mut Sink<'_>,
    ) -> Result<u64, SnapshotError> {
        let lengths = self.lengths(seq, options)?;
        let mut header = SnapshotHeader::new(self.shape(), fingerprint, lengths, options)?;
        header.base_checksum = self.base_checksum(seq, header.base())?;
        let mut writer = Writer { sink, staged: [0; STAGED], used: 0, taken: 0 };
        let bytes = header.to_bytes();
        writer.put(&bytes)?;
        let mut whole = Xxh64::new();
        whole.update(bytes.last_chunk::<8>().ok_or(CacheError::Internal(site!()))?);
        for (index, tokens) in header.blocks() {
            let checksum = self.put_block(seq, index, tokens, |bytes| writer.put(bytes))?.to_le_bytes();
            writer.put(&checksum)?;
            whole.update(&checksum);
        }
        if header.has_recurrent() {
            let (slot, [_, current, count]) = (seq.slot(), lengths);
            for back in (0..count).rev() {
                let position = self.states.point_before(slot, current, back).ok_or(CacheError::Internal(site!()))?;
                let state = self.states.kept(slot, position).ok_or(CacheError::Internal(site!()))?;
                let checksum = self.put_state(Some(position), state, |bytes| writer.put(bytes))?.to_le_bytes();
                writer.put(&checksum)?;
                whole.update(&checksum);
            }
            let [state, _] = self.states.slots_of(slot).ok_or(CacheError::Internal(site!()))?;
            let checksum = self.put_state(None, state, |bytes| writer.put(bytes))?.to_le_bytes();
            writer.put(&checksum)?;
            whole.update(&checksum);
        }
        writer.put(&whole.finish().to_le_bytes())?;
        writer.flush()?;
        Ok(writer.taken)
    }

    /// Returns the sizes that a snapshot must agree with.
    pub(super) fn shape(&self) -> Shape<'_> {
        Shape { geometry: self.geometry(), recurrent: self.states.elements() as u64 }
    }

    /// Returns the number of tokens of a sequence, the position of its state, and the number of earlier checkpoints to
    /// write.
    fn lengths(&self, seq: SeqId, options: &SnapshotOptions<'_>) -> Result<[usize; 3], SnapshotError> {
        let (tokens, slot) = (self.whole(seq)?, seq.slot());
        let position = self.states.position(slot).unwrap_or(0);
        let most = options.checkpoints.min(SnapshotOptions::CHECKPOINTS_MAX);
        let count = (0..most).take_while(|&back| self.states.point_before(slot, position, back).is_some()).count();
        Ok([tokens, position, count])
    }

    /// Returns the checksum of the first `tokens` tokens, which fill whole blocks: the hash of these blocks' checksums.
    pub(super) fn base_checksum(&self, seq: SeqId, tokens: usize) -> Result<u64, SnapshotError> {
        let mut base = Xxh64::new();
        for index in 0..tokens / BLOCK_TOKENS {
            base.update(&self.put_block(seq, index, BLOCK_TOKENS, |_| Ok(()))?.to_le_bytes());
        }
        Ok(base.finish())
    }

    /// Writes the first `tokens` tokens of a block: first their ids, then their keys and values layer by layer. Returns
    /// the checksum of the bytes.
    fn put_block(
        &self,
        seq: SeqId,
        index: usize,
        tokens: usize,
        mut put: impl FnMut(&[u8]) -> Result<(), SnapshotError>,
    ) -> Result<u64, SnapshotError> {
        let mut hash = Xxh64::new();
        let mut put = |bytes: &[u8]| {
            hash.update(bytes);
            put(bytes)
        };
        for position in (index * BLOCK_TOKENS..).take(tokens) {
            put(&self.token(seq, position).ok_or(CacheError::Internal(site!()))?.to_le_bytes())?;
        }
        for layer in 0..self.num_layers() {
            self.export((seq, layer, index), tokens, &mut put)?;
        }
        Ok(hash.finish())
    }

    /// Writes the state in a slot, behind its position if one is given. (The header has the position of the last
    /// state.) Returns the checksum of the bytes.
    fn put_state(
        &self,
        position: Option<usize>,
        slot: u32,
        mut put: impl FnMut(&[u8]) -> Result<(), SnapshotError>,
    ) -> Result<u64, SnapshotError> {
        let mut hash = Xxh64::new();
        if let Some(position) = position {
            let bytes = (position as u32).to_le_bytes();
            hash.update(&bytes);
            put(&bytes)?;
        }
        self.export_state(slot, |piece| {
            let mut bytes = [[0; 4]; STATE_PIECE];
            bytes.iter_mut().zip(piece).for_each(|(bytes, x)| *bytes = x.to_le_bytes());
            let bytes = bytes.as_flattened().get(..piece.len() * 4).ok_or(CacheError::Internal(site!()))?;
            hash.update(bytes);
            put(bytes)
        })?;
        Ok(hash.finish())
    }
}

/// Writer that gathers small pieces on their way to the sink.
struct Writer<'s, 'f> {
    sink: &'s mut Sink<'f>,
    staged: [u8; STAGED],
    used: usize,
    /// Number of bytes that the sink has taken.
    taken: u64,
}

impl Writer<'_, '_> {
    fn put(&mut self, bytes: &[u8]) -> Result<(), SnapshotError> {
        if bytes.len() > STAGED - self.used {
            self.flush()?;
        }
        match self.staged.get_mut(self.used..).and_then(|place| place.get_mut(..bytes.len())) {
            Some(place) => {
                copy(place, bytes);
                self.used += bytes.len();
                Ok(())
            }
            None => give(self.sink, bytes, &mut self.taken),
        }
    }

    fn flush(&mut self) -> Result<(), SnapshotError> {
        let staged = self.staged.get(..self.used).unwrap_or_default();
        self.used = 0;
        if staged.is_empty() { Ok(()) } else { give(self.sink, staged, &mut self.taken) }
    }
}

fn give(sink: &mut Sink<'_>, bytes: &[u8], taken: &mut u64) -> Result<(), SnapshotError> {
    if !sink(bytes) {
        return Err(SnapshotError::Sink { offset: *taken });
    }
    *taken += bytes.len() as u64;
    Ok(())
}
