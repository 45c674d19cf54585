//! Sequences as bytes: in a buffer, or through callbacks of the host.

use super::{Engine, EngineError, StreamError};
use crate::cache::{SeqId, SnapshotError, SnapshotHeader, SnapshotOptions, Source, from_slice, into_slice};

impl Engine<'_, '_> {
    /// Returns the number of bytes of a snapshot of a sequence.
    ///
    /// # Errors
    /// [`EngineError::Cache`].
    pub fn snapshot_len(&self, seq: SeqId) -> Result<usize, EngineError> {
        self.snapshot_len_with(seq, &SnapshotOptions::default())
    }

    /// [`Engine::snapshot_len`] with options: for a delta, or with state of the host.
    ///
    /// # Errors
    /// [`EngineError::Cache`], [`EngineError::Snapshot`] for options that contradict the sequence.
    pub fn snapshot_len_with(&self, seq: SeqId, options: &SnapshotOptions<'_>) -> Result<usize, EngineError> {
        Ok(self.parts.cache.snapshot_len(seq, options)?)
    }

    /// Writes a snapshot of a sequence into `out`. Returns the number of bytes written.
    ///
    /// # Errors
    /// [`EngineError::Cache`], [`EngineError::Snapshot`] if `out` is too small. `out` is not touched then.
    /// [`EngineError::DeviceLost`]: the contents of `out` mean nothing.
    pub fn snapshot(&self, seq: SeqId, out: &mut [u8]) -> Result<usize, EngineError> {
        self.snapshot_with(seq, &SnapshotOptions::default(), out)
    }

    /// [`Engine::snapshot`] with options: for a delta, or with state of the host.
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

    /// Writes a snapshot of a sequence through a callback. The callback gets the bytes in order, in pieces that are at
    /// most as large as the keys and values of 16 tokens in one layer. Returns the number of bytes. The time grows with
    /// the number of tokens.
    ///
    /// # Errors
    /// [`StreamError::Host`] with the error of the callback; [`StreamError::Engine`] as [`Engine::snapshot_with`],
    /// before the callback gets anything, except [`EngineError::DeviceLost`].
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

    /// Opens a sequence with the contents of a snapshot. All bytes are verified before the sequence exists.
    ///
    /// To replace a sequence, restore, then close the old one: for a while the pool holds both.
    ///
    /// # Errors
    /// [`EngineError::Snapshot`] for damaged bytes, for a snapshot of another model, arithmetic or shape, and for a
    /// delta; [`EngineError::Cache`] if there is no room; [`EngineError::DeviceLost`]. Nothing has changed then.
    pub fn restore(&mut self, snapshot: &[u8]) -> Result<SeqId, EngineError> {
        Ok(self.restore_with(None, snapshot)?.0)
    }

    /// [`Engine::restore`] that also returns the header, and takes deltas, too. The sequence of a delta continues the
    /// first tokens of `base`, which must be the tokens that the delta was written against. It shares their blocks (in
    /// a cache of kind `paged`). Like a fork, it has the scales of the base's adapters.
    ///
    /// A snapshot of a whole sequence needs no base. A base that is given is ignored, even an invalid one.
    ///
    /// # Errors
    /// As [`Engine::restore`]; for a delta [`SnapshotError::BaseMissing`], [`SnapshotError::Base`], and
    /// [`EngineError::Cache`] if the base is unknown or busy, or has given back blocks that the delta follows.
    pub fn restore_with(
        &mut self,
        base: Option<SeqId>,
        snapshot: &[u8],
    ) -> Result<(SeqId, SnapshotHeader), EngineError> {
        Ok(self.restore_from(base, &mut from_slice(snapshot))?)
    }

    /// [`Engine::restore_with`] through a callback. The callback fills the slice from its start and returns the number
    /// of bytes, as `std::io::Read` does. It returns 0 at the end of the bytes, which must be the end of the snapshot.
    ///
    /// The slices are parts of the pool. Bytes that a callback writes beyond the number that it returns are
    /// overwritten.
    ///
    /// # Errors
    /// [`StreamError::Host`] with the error of the callback; [`StreamError::Engine`] as [`Engine::restore_with`].
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

    /// Returns the fingerprint of the model, or another number if the planned context is so long that the model
    /// computes something else.
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
