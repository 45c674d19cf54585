//! The calls. Each goes to the cache and to the model.

use std::io::Read;

use gleed::cache::{CacheError, SeqId, SnapshotError, SnapshotOptions};

use crate::{CONTEXT, LAYERS, Live, Row, VOCAB, World};

impl World<'_, '_> {
    pub(crate) fn open(&mut self) -> Result<(), CacheError> {
        let seq = self.cache.open()?;
        self.live.push(Live { seq, rows: Vec::new(), reserved: Vec::new() });
        Ok(())
    }

    pub(crate) fn reserve(&mut self, index: usize) -> Result<(), CacheError> {
        let len = 1 + self.rng.below(35);
        let reserved = self.some_tokens(self.live[index].rows.len(), len);
        let (seq, available) = (self.live[index].seq, self.available());
        self.cache.reserve(seq, reserved.iter().copied())?;
        assert!(self.available().iter().zip(&available).all(|(after, before)| after <= before));
        self.live[index].reserved = reserved;
        self.touch(index);
        if self.rng.below(2) == 0 {
            self.cache.copy_unit(seq)?;
        }
        Ok(())
    }

    /// Writes and commits all or some of the reserved rows.
    pub(crate) fn commit(&mut self, index: usize, computed: bool) -> Result<(), CacheError> {
        let live = &mut self.live[index];
        while self.cache.copy_unit(live.seq)? {}
        let rows = if self.rng.below(3) == 0 { self.rng.below(live.reserved.len() + 1) } else { live.reserved.len() };
        for token in live.reserved.drain(..rows) {
            let mut row = Row::computed(&live.rows, token);
            if !computed {
                (row.contents, row.computed) = (self.rng.below(1 << 30) as u64, false);
            }
            for layer in 0..LAYERS {
                let [k, v] = row.k_and_v(layer);
                self.cache.write_row(live.seq, layer, live.rows.len(), &k, &v)?;
            }
            live.rows.push(row);
        }
        if computed { self.cache.commit_computed(live.seq, rows) } else { self.cache.commit(live.seq, rows) }
    }

    pub(crate) fn import(&mut self, index: usize) -> Result<(), CacheError> {
        let mut row = Row::computed(&[], u32::MAX);
        (row.contents, row.computed) = (self.rng.below(1 << 30) as u64, false);
        for layer in 0..LAYERS {
            let [k, v] = row.k_and_v(layer);
            self.cache.push_row(self.live[index].seq, layer, &k, &v)?;
        }
        self.live[index].rows.push(row);
        self.touch(index);
        Ok(())
    }

    pub(crate) fn fork(&mut self, index: usize) -> Result<(), CacheError> {
        let live = &self.live[index];
        let keep = self.rng.below(live.rows.len() + 2);
        let seq = self.cache.fork(live.seq, keep)?;
        let rows = live.rows[..keep].to_vec();
        self.touch(index);
        self.live.push(Live { seq, rows, reserved: Vec::new() });
        Ok(())
    }

    pub(crate) fn rewind(&mut self, index: usize) -> Result<(), CacheError> {
        let keep = self.rng.below(self.live[index].rows.len() + 2);
        self.cache.rewind(self.live[index].seq, keep)?;
        self.live[index].rows.truncate(keep);
        Ok(())
    }

    /// Closes a sequence. Exactly its own blocks become available.
    pub(crate) fn close(&mut self, index: usize) -> Result<(), CacheError> {
        let live = self.live.remove(index);
        let before = self.available();
        let stats = self.cache.sequence_stats(live.seq)?;
        self.cache.close(live.seq)?;
        for (group, (before, after)) in before.into_iter().zip(self.available()).enumerate() {
            assert_eq!(after, before + stats.blocks[group].own);
        }
        assert_eq!(self.cache.close(live.seq), Err(CacheError::UnknownSequence { sequence: live.seq.to_bits() }));
        Ok(())
    }

    /// Reuses a prefix. It is at least as long as that of any open sequence or pin, and its rows are right.
    pub(crate) fn reuse(&mut self, index: usize) -> Result<(), CacheError> {
        let mut tokens = match self.rng.below(2) {
            0 => self.some_tokens(0, CONTEXT),
            _ => self.live[self.rng.below(self.live.len())].tokens(),
        };
        tokens.truncate(self.rng.below(CONTEXT));
        let before = self.cache.stats().prefix;
        let found = self.cache.reuse(self.live[index].seq, &tokens)?;
        let most = tokens.len().saturating_sub(1);
        let common = |others: &[u32]| others.iter().zip(&tokens[..most]).take_while(|(a, b)| a == b).count() / 16 * 16;
        let held = self.live.iter().map(|live| {
            let computed = live.rows.iter().take_while(|row| row.computed).map(|row| row.token);
            common(&computed.collect::<Vec<_>>())
        });
        let least = held.chain(self.pinned.iter().map(|pinned| common(pinned))).max().unwrap_or(0);
        if self.cache.geometry().prefix_cache {
            assert!(found >= least, "{found} found, {least} known");
        } else {
            assert_eq!(found, 0);
        }
        assert!(found <= most && found % 16 == 0);
        let after = self.cache.stats().prefix;
        assert_eq!(after.lookups, before.lookups + 1);
        assert_eq!(after.hits, before.hits + u64::from(found > 0));
        assert_eq!(after.hit_tokens, before.hit_tokens + found as u64);
        assert_eq!(after.missed_tokens, before.missed_tokens + (tokens.len() - found) as u64);
        for &token in &tokens[..found] {
            let row = Row::computed(&self.live[index].rows, token);
            self.live[index].rows.push(row);
        }
        self.touch(index);
        self.reused += found;
        Ok(())
    }

    pub(crate) fn pin(&mut self, index: usize) -> Result<(), CacheError> {
        let mut tokens = self.live[index].tokens();
        let count = self.cache.pin(&tokens)?;
        assert!(count % 16 == 0 && count <= tokens.len());
        tokens.truncate(count);
        self.pinned.push(tokens);
        Ok(())
    }

    pub(crate) fn unpin(&mut self) -> Result<(), CacheError> {
        if !self.pinned.is_empty() {
            let tokens = self.pinned.swap_remove(self.rng.below(self.pinned.len()));
            assert_eq!(self.cache.unpin(&tokens), Ok(tokens.len()));
        }
        Ok(())
    }

    /// Makes room. Only sequences that agreed are closed, the least recently used are asked first, and none is closed
    /// in vain.
    pub(crate) fn make_room(&mut self, index: usize) -> Result<(), CacheError> {
        let (seq, rows, all) = (self.live[index].seq, 1 + self.rng.below(60), self.rng.below(2) == 0);
        let mut asked = Vec::new();
        let rng = &mut self.rng;
        let result = self.cache.make_room(seq, rows, &mut |candidate, stats| {
            let consent = all || rng.below(3) > 0;
            assert!(stats.total().own + stats.total().shared > 0);
            asked.push((candidate, consent));
            consent
        });
        let order: Vec<SeqId> = self.live.iter().map(|live| live.seq).collect();
        let place = |seq: &SeqId| order.iter().position(|other| other == seq).unwrap();
        assert!(asked.is_sorted_by_key(|(seq, _)| place(seq)));
        match result {
            Ok(closed) => {
                let open = self.live.len();
                self.live.retain(|live| self.cache.seq_len(live.seq).is_ok());
                assert_eq!(self.live.len() + closed, open);
                assert_eq!(self.cache.can_extend(seq, rows), Ok(()));
                let left = |seq: &SeqId| self.live.iter().any(|live| live.seq == *seq);
                for before in order.iter().filter(|seq| !left(seq)) {
                    assert!(asked.contains(&(*before, true)) && *before != seq);
                }
                self.evicted += closed;
                Ok(())
            }
            Err(error) => {
                assert_eq!(self.cache.can_extend(seq, rows), Err(error));
                if all && matches!(error, CacheError::OutOfBlocks { .. }) && self.rng.below(4) == 0 {
                    // The error is right: there is no room even if all idle sequences are closed.
                    self.live.retain(|live| {
                        let keep = live.seq == seq || !live.reserved.is_empty();
                        keep || self.cache.close(live.seq).is_err()
                    });
                    assert!(self.cache.can_extend(seq, rows).is_err());
                    return Ok(());
                }
                Err(error)
            }
        }
    }

    /// Copies a sequence by a snapshot. The copy has the same rows, but they do not count as computed.
    pub(crate) fn copy_by_snapshot(&mut self, index: usize) -> Result<(), CacheError> {
        let live = &self.live[index];
        let cache_error = |error| match error {
            SnapshotError::Cache(error) => error,
            other => panic!("{other}"),
        };
        let mut bytes = Vec::new();
        let write = &mut |piece: &[u8]| {
            bytes.extend_from_slice(piece);
            true
        };
        self.cache.write_snapshot(live.seq, 1, &SnapshotOptions::default(), write).map_err(cache_error)?;
        let mut rest = &bytes[..];
        let read = &mut |piece: &mut [u8]| rest.read(piece).ok();
        let (seq, _) = self.cache.read_snapshot(1, VOCAB, None, read).map_err(cache_error)?;
        let rows = live.rows.iter().map(|row| Row { computed: false, ..*row }).collect();
        self.live.push(Live { seq, rows, reserved: Vec::new() });
        Ok(())
    }

    /// Returns tokens that often begin like those of another sequence.
    fn some_tokens(&mut self, from: usize, len: usize) -> Vec<u32> {
        let story = self.rng.below(3) as u32;
        let token = |position| if position < 21 { 7 } else { story + position as u32 / 30 };
        (from..from + len).map(token).collect()
    }
}
