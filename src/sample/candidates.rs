//! The tokens that are still in play.

use core::cell::Cell;

use super::SampleError;
use crate::num;

/// Tokens and their logits in ascending order of the ids, in the caller's scratch.
///
/// Each candidate is one number, and the descending order of these numbers is the sort order. The upper half is the
/// logit's bits, made to order as integers; the lower half is the complement of the id. Only a banned token has the
/// logit −infinity.
pub(super) struct Candidates<'a> {
    keys: &'a mut [u64],
}

impl<'a> Candidates<'a> {
    /// Returns all tokens as candidates.
    pub(super) fn new(logits: &[f32], scratch: &'a mut [u64]) -> Result<Self, SampleError> {
        let (needed, given) = (logits.len(), scratch.len());
        if needed == 0 || u32::try_from(needed).is_err() {
            return Err(SampleError::Vocab { given: needed });
        }
        let keys = scratch.get_mut(..needed).ok_or(SampleError::ScratchTooSmall { needed, given })?;
        for ((key, &logit), id) in keys.iter_mut().zip(logits).zip(0_u32..) {
            if !num::is_finite(logit) {
                return Err(SampleError::NonFinite { token: id });
            }
            *key = pack(logit, id);
        }
        Ok(Self { keys })
    }

    /// Changes the logit of one token, before any step has removed tokens. A banned token stays banned. A token that
    /// the vocabulary does not have is ignored.
    pub(super) fn adjust(&mut self, token: u32, change: impl FnOnce(f32) -> f32) -> Result<(), SampleError> {
        if let Some(key) = self.key_mut(token)
            && logit(*key) != f32::NEG_INFINITY
        {
            let changed = change(logit(*key));
            if !num::is_finite(changed) {
                return Err(SampleError::NonFinite { token });
            }
            *key = pack(changed, token);
        }
        Ok(())
    }

    /// Bans one token, before any step has removed tokens.
    pub(super) fn ban(&mut self, token: u32) {
        if let Some(key) = self.key_mut(token) {
            *key = pack(f32::NEG_INFINITY, token);
        }
    }

    /// Bans the tokens whose bits in `mask` are 0, before any step has removed tokens.
    pub(super) fn ban_others(&mut self, mask: &[u32]) {
        for (keys, word) in self.keys.chunks_mut(32).zip(mask) {
            for (key, bit) in keys.iter_mut().zip(0..32) {
                if word >> bit & 1 == 0 {
                    *key = pack(f32::NEG_INFINITY, id(*key));
                }
            }
        }
    }

    fn key_mut(&mut self, token: u32) -> Option<&mut u64> {
        self.keys.get_mut(usize::try_from(token).ok()?)
    }

    /// Replaces every logit.
    pub(super) fn rescale(&mut self, scale: impl Fn(f32) -> f32) {
        for key in self.keys.iter_mut() {
            *key = pack(scale(logit(*key)), id(*key));
        }
    }

    /// Returns the number of candidates.
    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    /// Returns the first token of the sort order, as (id, logit).
    pub(super) fn best(&self) -> (u32, f32) {
        let key = self.keys.iter().copied().max().unwrap_or_default();
        (id(key), logit(key))
    }

    /// Returns the ids and masses in ascending order of the ids. `best` is the largest logit.
    pub(super) fn masses(&self, best: f32) -> impl Iterator<Item = (u32, u64)> {
        self.keys.iter().map(move |&key| (id(key), mass(logit(key), best)))
    }

    /// Returns the sum of the masses. It cannot overflow: fewer than 2^32 tokens of at most 2^32 each.
    pub(super) fn total(&self, best: f32) -> u64 {
        self.masses(best).map(|(_, mass)| mass).sum()
    }

    /// Keeps the tokens for whose logit `keep` returns true.
    pub(super) fn retain(&mut self, keep: impl Fn(f32) -> bool) {
        self.retain_keys(|key| keep(logit(key)));
    }

    /// Keeps the shortest prefix of the sort order whose mass reaches `needed`, which is from 1 to the total.
    pub(super) fn keep_mass(&mut self, needed: u64, best: f32) {
        self.keep_prefix(needed, |key| mass(logit(key), best));
    }

    /// Keeps the first `count` tokens of the sort order, from 1 to all.
    pub(super) fn keep_count(&mut self, count: usize) {
        self.keep_prefix(count as u64, |_| 1);
    }

    /// Keeps the keys down to the last one of the prefix, which is found byte by byte, the highest byte first. The bins
    /// hold the weights of the keys that begin like it, by their next byte. Keys below it are dropped at once, so each
    /// round has fewer keys to look at. At most 8 rounds are needed, whatever the logits are.
    fn keep_prefix(&mut self, mut needed: u64, weight: impl Fn(u64) -> u64) {
        let mut last = 0;
        for shift in [56, 48, 40, 32, 24, 16, 8, 0] {
            let mut bins = [0_u64; 256];
            for &key in self.keys.iter().filter(|&&key| (key >> shift) >> 8 == last) {
                if let Some(bin) = bins.get_mut(usize::from((key >> shift) as u8)) {
                    *bin += weight(key);
                }
            }
            let mut byte = 0;
            for (&bin, value) in bins.iter().rev().zip((0..=255_u64).rev()) {
                byte = value;
                if bin >= needed {
                    break;
                }
                needed -= bin;
            }
            last = last << 8 | byte;
            self.retain_keys(|key| key >> shift >= last);
        }
    }

    fn retain_keys(&mut self, keep: impl Fn(u64) -> bool) {
        let cells = Cell::from_mut(&mut *self.keys).as_slice_of_cells();
        let mut free = cells.iter();
        let mut kept = 0;
        for key in cells.iter().map(Cell::get).filter(|&key| keep(key)) {
            if let Some(cell) = free.next() {
                cell.set(key);
                kept += 1;
            }
        }
        self.keys = core::mem::take(&mut self.keys).get_mut(..kept).unwrap_or_default();
    }
}

/// Returns ⌊2^32 · e^(logit − best)⌋.
fn mass(logit: f32, best: f32) -> u64 {
    // A power from 0 to 1 is its 24-bit mantissa times 2^(exponent - 150). The shifts do what a
    // conversion would, without its tests for what does not fit.
    let bits = num::exp(logit - best).to_bits();
    let mantissa = u64::from(bits & 0x7f_ffff | 0x80_0000);
    (mantissa << 9).checked_shr(127_u32.wrapping_sub(bits >> 23)).unwrap_or(0)
}

fn pack(logit: f32, id: u32) -> u64 {
    // Adding +0 makes -0 equal to +0 and changes no other number.
    let bits = (logit + 0.0).to_bits();
    // Positive numbers order by their bits. Negative numbers order in reverse, below the positive ones.
    let ordered = if bits >> 31 == 0 { bits | 1 << 31 } else { !bits };
    u64::from(ordered) << 32 | u64::from(!id)
}

fn logit(key: u64) -> f32 {
    let ordered = (key >> 32) as u32;
    f32::from_bits(if ordered >> 31 == 1 { ordered & !(1 << 31) } else { !ordered })
}

fn id(key: u64) -> u32 {
    !(key as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_order_by_logit_then_id_and_give_both_back() {
        let logits = [f32::MAX, 2.5, 1e-45, 0.0, -1e-45, -2.5, f32::MIN, f32::NEG_INFINITY];
        for pair in logits.windows(2) {
            assert!(pack(pair[0], u32::MAX) > pack(pair[1], 0), "{pair:?}");
        }
        assert!(pack(1.0, 3) > pack(1.0, 4));
        assert_eq!(pack(-0.0, 7), pack(0.0, 7));
        for value in logits {
            let key = pack(value, 123);
            assert_eq!((logit(key).to_bits(), id(key)), (value.to_bits(), 123));
        }
    }

    #[test]
    fn masses_are_whole_numbers_of_2_to_the_32() {
        assert_eq!(mass(5.0, 5.0), 1 << 32);
        assert_eq!(mass(-23.0, 0.0), 0);
        assert_eq!(mass(f32::MIN, f32::MAX), 0);
        assert_eq!(mass(f32::NEG_INFINITY, 0.0), 0);
        assert_eq!(mass(-core::f32::consts::LN_2, 0.0), 1 << 31);
    }
}
