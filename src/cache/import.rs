//! Rows from outside: keys and values that the host has computed.

use core::iter::{once, repeat_n};

use super::block::BLOCK_TOKENS;
use super::error::CacheError;
use super::kind::KvKind;
use super::kv_cache::KvCache;
use super::sequence::{IMPORTED_TOKEN, SeqId};
use super::writer::{KvRow, WRITTEN_ROWS};
use crate::kernels::{fpenv, is_storable};
use crate::kv::KvType;
use crate::mem::row_of;

/// Position where the given rows of a sequence begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Start {
    /// In place of everything that the sequence has.
    Replace,
    /// After the sequence's tokens, however many there are.
    End,
    /// After the sequence's tokens, of which the host gives the number.
    At(usize),
}

/// Rows of one layer, packed `[sequences, rows, kv_heads * head_dim]`.
#[derive(Clone, Copy, Debug)]
struct Rows<'r> {
    layer: usize,
    /// Number of rows of each sequence.
    rows: usize,
    width: usize,
    k: &'r [f32],
    v: &'r [f32],
}

impl KvCache<'_> {
    /// Sets all rows of a sequence from outside, layer by layer: `k` and `v` are packed `[rows, kv_heads * head_dim]`.
    /// Layer 0 sets the number of rows, and the last layer completes them. They replace the contents of the sequence,
    /// which are gone as soon as layer 0 is taken.
    ///
    /// # Errors
    /// [`CacheError::UnknownSequence`], [`CacheError::Busy`], [`CacheError::Layer`] for a layer out of order,
    /// [`CacheError::Shape`], [`CacheError::ContextFull`], [`CacheError::TooMany`], [`CacheError::OutOfBlocks`],
    /// [`CacheError::NonFinite`], [`CacheError::NotKept`], [`CacheError::OnDevice`]; [`CacheError::Position`] if the
    /// layers before were appended.
    /// A refused layer can be given again. When [`CacheError::PolicyBlock`] comes, the sequence is empty already,
    /// because a policy also chooses among the blocks that were given back.
    pub fn set_prefill(&mut self, seq: SeqId, layer: usize, k: &[f32], v: &[f32]) -> Result<(), CacheError> {
        self.set_prefill_batch(once(seq), layer, k, v)
    }

    /// [`KvCache::set_prefill`] for several sequences with the same number of rows: `k` and `v` are packed
    /// `[sequences, rows, kv_heads * head_dim]`. Either all sequences take the layer or none.
    ///
    /// # Errors
    /// As [`KvCache::set_prefill`]; [`CacheError::Repeated`] if a sequence is given twice.
    pub fn set_prefill_batch(
        &mut self,
        seqs: impl IntoIterator<Item = SeqId, IntoIter: ExactSizeIterator + Clone>,
        layer: usize,
        k: &[f32],
        v: &[f32],
    ) -> Result<(), CacheError> {
        self.set_rows(seqs.into_iter().map(|seq| (seq, Start::Replace)), layer, None, [k, v])
    }

    /// Appends one row from outside, layer by layer: `k` and `v` are `[kv_heads * head_dim]`. The last layer completes
    /// the row.
    ///
    /// # Errors
    /// As [`KvCache::set_prefill`].
    pub fn push_row(&mut self, seq: SeqId, layer: usize, k: &[f32], v: &[f32]) -> Result<(), CacheError> {
        self.set_rows(once((seq, Start::End)), layer, Some(1), [k, v])
    }

    /// Appends rows from outside to sequences, layer by layer. Each sequence comes with the position of its first row,
    /// which must be its length. All sequences get the same number of rows: `k` and `v` are packed
    /// `[sequences, rows, kv_heads * head_dim]`. Layer 0 sets the number of rows, and the last layer completes them.
    /// Either all sequences take a layer or none.
    ///
    /// ```
    /// # use gleed::cache::{CacheError, KvCache, SeqId};
    /// /// Three positions of a model with one layer and `width` elements per row, from position 16 on.
    /// fn append(cache: &mut KvCache<'_>, seq: SeqId, width: usize) -> Result<(), CacheError> {
    ///     let (k, v) = (vec![0.5; 3 * width], vec![1.0; 3 * width]);
    ///     cache.append_rows([(seq, 16)], 0, &k, &v)
    /// }
    /// ```
    ///
    /// # Errors
    /// As [`KvCache::set_prefill`]; [`CacheError::Position`] if a sequence has another length, and
    /// [`CacheError::Repeated`] if a sequence is given twice.
    pub fn append_rows(
        &mut self,
        places: impl IntoIterator<Item = (SeqId, usize), IntoIter: ExactSizeIterator + Clone>,
        layer: usize,
        k: &[f32],
        v: &[f32],
    ) -> Result<(), CacheError> {
        self.set_rows(places.into_iter().map(|(seq, position)| (seq, Start::At(position))), layer, None, [k, v])
    }

    /// Takes rows of one layer: layer 0 reserves their positions, the last layer commits them. `rows` is the number of
    /// rows of each sequence. Without it, the length of the arrays gives that number.
    fn set_rows(
        &mut self,
        places: impl ExactSizeIterator<Item = (SeqId, Start)> + Clone,
        layer: usize,
        rows: Option<usize>,
        [k, v]: [&[f32]; 2],
    ) -> Result<(), CacheError> {
        let width = self.geometry.kv_width(layer);
        let all = width.saturating_mul(places.len());
        let given = Rows { layer, rows: rows.or(k.len().checked_div(all)).unwrap_or(0), width, k, v };
        // Some machines round to f16 with an instruction that obeys the floating-point environment.
        fpenv::with_default(|| {
            self.check_taken(places.clone(), given)?;
            if places.len() > 1 {
                self.check_distinct(places.clone().map(|(seq, _)| seq))?;
            }
            if layer == 0 {
                self.begin_rows(places.clone(), given)?;
            }
            for (index, (seq, _)) in places.clone().enumerate() {
                self.write_rows(seq, index.saturating_mul(given.rows), given)?;
            }
            self.end_layer(places.map(|(seq, _)| seq), given)
        })
    }

    /// Makes it the next layer's turn. After the last layer, makes the rows part of the sequences.
    fn end_layer(&mut self, seqs: impl Iterator<Item = SeqId>, given: Rows<'_>) -> Result<(), CacheError> {
        let next = given.layer + 1;
        for seq in seqs {
            if next == self.num_layers() {
                self.commit(seq, given.rows)?;
            }
            self.sequence_mut(seq)?.next_layer = if next == self.num_layers() { 0 } else { next as u32 };
        }
        Ok(())
    }

    /// Checks that it is the layer's turn in all sequences, that the arrays have its shape, and that the rows begin
    /// where the host says.
    fn check_taken(
        &self,
        places: impl ExactSizeIterator<Item = (SeqId, Start)> + Clone,
        Rows { layer, rows, k, v, .. }: Rows<'_>,
    ) -> Result<(), CacheError> {
        if self.kind() == KvKind::Off || self.has_states() {
            return Err(CacheError::NotKept);
        }
        self.check_here()?;
        for (seq, _) in places.clone() {
            let expected = self.sequence(seq)?.next_layer as usize;
            if layer != expected {
                return Err(CacheError::Layer { expected, given: layer });
            }
        }
        self.check_layer(layer)?;
        let count = places.len();
        for (seq, _) in places.clone().filter(|_| layer > 0) {
            let reserved = (self.sequence(seq)?.reserved as usize).saturating_mul(count);
            self.check_rows(k, reserved, layer)?;
        }
        self.check_rows(k, rows.saturating_mul(count), layer)?;
        self.check_rows(v, rows.saturating_mul(count), layer)?;
        for (seq, start) in places {
            let given = self.seq_len(seq)?;
            match start {
                Start::At(position) if position != given => {
                    return Err(CacheError::Position { expected: given, given: position });
                }
                // The layers before were appended to the tokens of this sequence.
                Start::Replace if layer > 0 && given > 0 => return Err(CacheError::Position { expected: 0, given }),
                _ => {}
            }
        }
        Ok(())
    }

    /// Takes the blocks for the rows of all sequences.
    fn begin_rows(
        &mut self,
        places: impl ExactSizeIterator<Item = (SeqId, Start)> + Clone,
        Rows { rows, k, v, .. }: Rows<'_>,
    ) -> Result<(), CacheError> {
        // A number of rows that is too large is refused before anything is computed from it.
        for (seq, start) in places.clone() {
            self.check_extent(seq, rows, start == Start::Replace)?;
        }
        self.check_room_of_all(places.clone(), rows)?;
        self.check_storable(k, v)?;
        for (seq, start) in places.clone() {
            if start == Start::Replace {
                self.clear(seq)?;
            }
        }
        self.begin_choice();
        for (seq, _) in places.clone().filter(|_| rows > 0) {
            let len = self.seq_len(seq)?;
            self.choose_blocks(seq, |group| group.needed(seq.slot(), len, len + rows))?;
        }
        for (seq, _) in places {
            self.take(seq, repeat_n(IMPORTED_TOKEN, rows))?;
            while self.copy_unit(seq)? {}
        }
        Ok(())
    }

    /// Checks that the pool has the blocks for the rows of all these sequences, after replaced rows are given back.
    fn check_room_of_all(
        &mut self,
        places: impl ExactSizeIterator<Item = (SeqId, Start)> + Clone,
        rows: usize,
    ) -> Result<(), CacheError> {
        let has_more = |seq: SeqId, start| start == Start::Replace && self.sequence(seq).is_ok_and(|s| s.len > 0);
        let is_replaced = places.clone().any(|(seq, start)| has_more(seq, start));
        if is_replaced {
            // The present blocks of these sequences count as free.
            self.clear_marks();
            places.clone().try_for_each(|(seq, _)| self.mark(seq, true))?;
        }
        for group in &self.groups {
            let mut needed = 0_usize;
            for (seq, start) in places.clone() {
                let len = self.seq_len(seq)?;
                let blocks = match start {
                    Start::Replace => rows.div_ceil(BLOCK_TOKENS),
                    _ => group.needed(seq.slot(), len, len.saturating_add(rows)),
                };
                needed = needed.saturating_add(blocks);
            }
            let allocator = &group.allocator;
            let free = if is_replaced { allocator.available_after() } else { allocator.available_blocks() };
            if needed > free {
                return Err(CacheError::OutOfBlocks { needed, free });
            }
        }
        Ok(())
    }

    /// Checks that no sequence is given twice.
    fn check_distinct(&mut self, mut seqs: impl Iterator<Item = SeqId>) -> Result<(), CacheError> {
        let unmark = |cache: &mut Self| cache.sequences.iter_mut().for_each(|sequence| sequence.marked = 0);
        unmark(self);
        let checked = seqs.try_for_each(|seq| {
            let sequence = self.sequence_mut(seq)?;
            match core::mem::replace(&mut sequence.marked, 1) {
                0 => Ok(()),
                _ => Err(CacheError::Repeated { sequence: seq.to_bits() }),
            }
        });
        unmark(self);
        checked
    }

    /// Writes the rows of one sequence, which begin at row `first` of the arrays.
    fn write_rows(&mut self, seq: SeqId, first: usize, rows: Rows<'_>) -> Result<(), CacheError> {
        let Rows { layer, rows, width, k, v } = rows;
        let len = self.seq_len(seq)?;
        let row = |index: usize| {
            let given = first.checked_add(index)?;
            Some(KvRow { seq, position: len + index, k: row_of(k, given, width)?, v: row_of(v, given, width)? })
        };
        for piece in (0..rows).step_by(WRITTEN_ROWS) {
            let due = piece..rows.min(piece + WRITTEN_ROWS);
            self.writer(layer, due.map(row))?.write_all()?;
        }
        Ok(())
    }

    fn check_storable(&self, k: &[f32], v: &[f32]) -> Result<(), CacheError> {
        let KvType { k: k_type, v: v_type } = self.geometry.element;
        let storable = k.iter().all(|&x| is_storable(k_type, x)) && v.iter().all(|&x| is_storable(v_type, x));
        if storable { Ok(()) } else { Err(CacheError::NonFinite) }
    }
}
