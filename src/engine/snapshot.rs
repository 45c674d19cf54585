//! Sequences as bytes: in a buffer, or through callbacks of the host.

use super::{Engine, EngineError, StreamError};
use crate::cache::{SeqId, SnapshotError, SnapshotHeader, SnapshotOptions, Source, from_slice, into_slice};

impl Engine<'_, '_> {
    /// Returns the bytes of a snapshot of a sequence.
    ///
    /// # Errors
    /// [`EngineError::Cache`].
    pub fn snapshot_len(&self, seq: SeqId) -> Result<usize, EngineError> {
        self.snapshot_len_with(seq, &SnapshotOptions::default())
    }

    /// [`Engine::snapshot_len`] of a delta, or with state of the host.
    ///
    /// # Errors
    /// [`EngineError::Cache`], [`EngineError::Snapshot`] for options that contradict the sequence.
    pub fn snapshot_len_with(&self, seq: SeqId, options: &SnapshotOptions<'_>) -> Result<usize, EngineError> {
        Ok(self.parts.cache.snapshot_len(seq, options)?)
    }

    /// Writes a sequence into `out`. Returns the number of bytes written.
    ///
    /// # Errors
    /// [`EngineError::Cache`], [`EngineError::Snapshot`] where `out` is too small. `out` is not touched then.
    pub fn snapshot(&self, seq: SeqId, out: &mut [u8]) -> Result<usize, EngineError> {
        self.snapshot_with(seq, &SnapshotOptions::default(), out)
    }

    /// [`Engine::snapshot`] as a delta, or with state of the host.
    ///
    /// # Errors
    /// As [`Engine::snapshot`], and for options that contradict the sequence.
    pub fn snapshot_with(
        &self,
        seq: SeqId,
        options: &SnapshotOptions<'_>,
        out: &mut [u8],
    ) -> Result<usize, EngineError> {
        let (needed, given) = (self.snapshot_len_with(seq, options)?, out.len());
        let out = out.get_mut(..needed).ok_or(SnapshotError::BufferTooSmall { needed, given })?;
        self.parts.cache.write_snapshot(seq, self.fingerprint(), options, &mut into_slice(out))?;
        Ok(needed)
    }

    /// Writes a sequence through a callback, which gets the bytes in order and in pieces of at most the keys and
    /// values of one layer of 16 tokens. Returns the number of bytes. Time grows with the tokens.
    ///
    /// # Errors
    /// [`StreamError::Host`] with what the callback failed with; [`StreamError::Engine`] as
    /// [`Engine::snapshot_with`], before the callback gets anything.
    pub fn write_snapshot<E>(
        &self,
        seq: SeqId,
        options: &SnapshotOptions<'_>,
        mut sink: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<u64, StreamError<E>> {
        let mut failed = None;
        let mut sink = |bytes: &[u8]| sink(bytes).map_err(|error| failed = Some(error)).is_ok();
        let result = self.parts.cache.write_snapshot(seq, self.fingerprint(), options, &mut sink);
        stream_result(result, failed)
    }

    /// Opens a sequence with the contents of a snapshot. All of it is verified before the sequence is there.
    ///
    /// To replace a sequence, restore, then close the old one: for a while the pool holds both.
    ///
    /// # Errors
    /// [`EngineError::Snapshot`] for bytes that are damaged or of another model, arithmetic or shape, or a delta,
    /// [`EngineError::Cache`] where there is no room. Nothing has changed then.
    pub fn restore(&mut self, snapshot: &[u8]) -> Result<SeqId, EngineError> {
        Ok(self.restore_with(None, snapshot)?.0)
    }

    /// [`Engine::restore`] that also tells what the header says, for deltas too: the new sequence continues the
    /// first tokens of `base`, which must be those that the delta was written against, and shares their blocks
    /// (in a cache of kind `paged`). Like a fork it has the scales of the base's adapters.
    ///
    /// A snapshot of a whole sequence needs no base, and ignores one that is given, whatever it is.
    ///
    /// # Errors
    /// As [`Engine::restore`]; for a delta [`SnapshotError::BaseMissing`], [`SnapshotError::Base`], and
    /// [`EngineError::Cache`] where the base is unknown, busy, or has given back blocks that the delta follows.
    pub fn restore_with(
        &mut self,
        base: Option<SeqId>,
        snapshot: &[u8],
    ) -> Result<(SeqId, SnapshotHeader), EngineError> {
        Ok(self.restore_from(base, &mut from_slice(snapshot))?)
    }

    /// [`Engine::restore_with`] through a callback, which fills the slice it gets from its start and says how far,
    /// as `std::io::Read` does; 0 means that the bytes end, and they must end with the snapshot.
    ///
    /// The slices are parts of the pool: what a callback writes beyond the bytes it counts is overwritten.
    ///
    /// # Errors
    /// [`StreamError::Host`] with what the callback failed with; [`StreamError::Engine`] as [`Engine::restore_with`].
    pub fn read_snapshot<E>(
        &mut self,
        base: Option<SeqId>,
        mut source: impl FnMut(&mut [u8]) -> Result<usize, E>,
    ) -> Result<(SeqId, SnapshotHeader), StreamError<E>> {
        let mut failed = None;
        let mut source = |bytes: &mut [u8]| source(bytes).map_err(|error| failed = Some(error)).ok();
        let result = self.restore_from(base, &mut source);
        stream_result(result, failed)
    }

    /// That of the model; another one where sequences are planned so long that the model computes something else.
    pub(crate) fn fingerprint(&self) -> u64 {
        let fingerprint = self.fingerprint.get_or(|| self.model.fingerprint());
        let context = self.parts.cache.geometry().context;
        if self.model.config().rope.is_long(context) == Some(true) { !fingerprint } else { fingerprint }
    }

    fn restore_from(
        &mut self,
        base: Option<SeqId>,
        source: &mut Source<'_>,
    ) -> Result<(SeqId, SnapshotHeader), SnapshotError> {
        let (fingerprint, vocab) = (self.fingerprint(), self.model.config().vocab);
        let (seq, header) = self.parts.cache.read_snapshot(fingerprint, vocab, base, source)?;
        self.parts.forward.context.adapters.begin(seq, base.filter(|_| header.base() > 0));
        Ok((seq, header))
    }
}

fn stream_result<T, E>(result: Result<T, SnapshotError>, failed: Option<E>) -> Result<T, StreamError<E>> {
    match failed {
        Some(error) => Err(StreamError::Host(error)),
        None => result.map_err(|error| StreamError::Engine(error.into())),
    }
}
