//! Hash tables of row numbers in a slice: open addressing, built once.

/// Number of slots for 16 rows. Half of the slots stay empty, so most searches without a result end at once.
const SPARSENESS: usize = 31;

/// The most slots that a search looks at. With random hashes it looks at fewer than 100, even for a million rows.
const MAX_PROBES: usize = 256;

const EMPTY: u32 = 0;

/// Returns the number of slots for `rows` rows.
pub(super) fn slot_count(rows: usize) -> usize {
    rows.saturating_mul(SPARSENESS).div_ceil(16)
}

/// A hash table of the indices of rows that are stored elsewhere.
///
/// A slot holds the row's index plus 1 in its low bits. The bits above come from the hash, so most rows with another
/// hash need not be read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slots<S> {
    slots: S,
    /// Mask of the bits of a slot that come from the hash.
    tag_mask: u32,
}

/// Error of a table in which more than [`MAX_PROBES`] rows compete for the same slot.
#[derive(Debug)]
pub(super) struct Crowded;

impl<S: AsRef<[u32]>> Slots<S> {
    /// Calls `find` for the rows with this hash. Returns its first result that is not `None`.
    #[inline(always)]
    pub(super) fn find<T>(&self, hash: u64, find: impl Fn(u32) -> Option<T>) -> Option<T> {
        let slots = self.slots.as_ref();
        let tag = self.tag(hash);
        let mut at = start(hash, slots.len());
        for _ in 0..MAX_PROBES {
            let slot = *slots.get(at)?;
            if slot & self.tag_mask == tag && slot != EMPTY {
                let found = find((slot & !self.tag_mask).wrapping_sub(1));
                if found.is_some() {
                    return found;
                }
            } else if slot == EMPTY {
                return None;
            }
            at = if at + 1 == slots.len() { 0 } else { at + 1 };
        }
        None
    }

    fn tag(&self, hash: u64) -> u32 {
        (hash as u32) & self.tag_mask
    }
}

impl<'a> Slots<&'a mut [u32]> {
    /// Returns an empty table over `slots`, for rows with indices from 0 to `rows`.
    pub(super) fn new(slots: &'a mut [u32], rows: usize) -> Self {
        slots.fill(EMPTY);
        let rows = u32::try_from(rows).unwrap_or(u32::MAX);
        let row_bits = u32::BITS - rows.leading_zeros();
        Self { slots, tag_mask: u32::MAX.checked_shl(row_bits).unwrap_or(0) }
    }

    /// Reads the slots where the searches for these hashes begin, so that they are in the processor's cache.
    ///
    /// These reads do not wait for each other. In [`Slots::insert`] a read waits until it is known whether the slot
    /// before it is empty.
    pub(super) fn touch(&self, hashes: &[u64]) {
        let slots = hashes.iter().filter_map(|&hash| self.slots.get(start(hash, self.slots.len())));
        core::hint::black_box(slots.fold(0, |all, slot| all | slot));
    }

    /// Enters `row`, unless `is_it` accepts a row that is already there. Returns whether the row was entered.
    #[inline]
    pub(super) fn insert(&mut self, hash: u64, row: u32, is_it: impl Fn(u32) -> bool) -> Result<bool, Crowded> {
        let (tag, tag_mask) = (self.tag(hash), self.tag_mask);
        let mut at = start(hash, self.slots.len());
        let len = self.slots.len();
        for _ in 0..MAX_PROBES {
            let slot = self.slots.get_mut(at).ok_or(Crowded)?;
            if *slot == EMPTY {
                *slot = tag | row.wrapping_add(1);
                return Ok(true);
            }
            if *slot & tag_mask == tag && is_it((*slot & !tag_mask).wrapping_sub(1)) {
                return Ok(false);
            }
            at = if at + 1 == len { 0 } else { at + 1 };
        }
        Err(Crowded)
    }

    /// Returns the table for reading only.
    pub(super) fn freeze(self) -> Slots<&'a [u32]> {
        Slots { slots: self.slots, tag_mask: self.tag_mask }
    }
}

/// Returns the slot where the search for a hash begins: the upper half of the hash, scaled to the number of slots.
fn start(hash: u64, slots: usize) -> usize {
    (((hash >> 32) * slots as u64) >> 32) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The finalizer of SplitMix64.
    fn mix(x: u64) -> u64 {
        let x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        x ^ (x >> 31)
    }

    #[test]
    fn rows_are_found_and_nothing_else() {
        let rows: Vec<u64> = (0..5000).map(|i| i * 7919).collect();
        let mut memory = vec![9; slot_count(rows.len())];
        let mut slots = Slots::new(&mut memory, rows.len());
        for (row, &number) in rows.iter().enumerate() {
            let is_it = |other: u32| rows[other as usize] == number;
            assert!(slots.insert(mix(number), row as u32, is_it).unwrap());
            assert!(!slots.insert(mix(number), 0, is_it).unwrap());
        }
        let slots = slots.freeze();
        for number in 0..40_000 {
            let found = slots.find(mix(number), |row| (rows[row as usize] == number).then_some(row));
            assert_eq!(found, rows.iter().position(|&row| row == number).map(|row| row as u32));
        }
    }

    #[test]
    fn equal_hashes_are_refused_in_the_end() {
        let mut memory = vec![0; slot_count(2000)];
        let mut slots = Slots::new(&mut memory, 2000);
        let refused = (0..2000).find(|&row| slots.insert(42, row, |other| other == row).is_err());
        assert_eq!(refused, Some(MAX_PROBES as u32));
    }

    #[test]
    fn a_table_without_slots_is_empty() {
        let slots = Slots::new(&mut [], 0).freeze();
        assert_eq!(slots.find(1, Some), None);
    }
}
