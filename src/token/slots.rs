//! Hash tables of row numbers in a slice: open addressing, built once.

/// Slots per row. Half of them stay empty, so that most searches for what is not there end at once.
const SPARSENESS: usize = 2;

/// No search looks at more slots. Rows that are hashed at random stay below 100, a million of them too.
const MAX_PROBES: usize = 256;

const EMPTY: u32 = 0;

/// Slots that `rows` rows need.
pub(super) fn slot_count(rows: usize) -> usize {
    rows.saturating_mul(SPARSENESS)
}

/// A table of the numbers of rows that are kept elsewhere.
///
/// A slot holds the row's number plus one in its low bits; the bits above are bits of the hash, so that
/// most rows that are not the one looked for need not be read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slots<S> {
    slots: S,
    /// Bits of a slot that hold the row.
    row_bits: u32,
}

/// More than [`MAX_PROBES`] rows compete for the same place.
#[derive(Debug)]
pub(super) struct Crowded;

impl<S: AsRef<[u32]>> Slots<S> {
    /// The row with this hash for which `is_it` holds.
    #[inline]
    pub(super) fn find(&self, hash: u64, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        let slots = self.slots.as_ref();
        let tag = self.tag(hash);
        let mut at = start(hash, slots.len());
        for _ in 0..MAX_PROBES {
            let slot = *slots.get(at)?;
            if slot == EMPTY {
                return None;
            }
            let row = (slot & !self.tag_mask()).wrapping_sub(1);
            if slot & self.tag_mask() == tag && is_it(row) {
                return Some(row);
            }
            at = if at + 1 == slots.len() { 0 } else { at + 1 };
        }
        None
    }

    fn tag_mask(&self) -> u32 {
        u32::MAX.checked_shl(self.row_bits).unwrap_or(0)
    }

    fn tag(&self, hash: u64) -> u32 {
        (hash as u32) & self.tag_mask()
    }
}

impl<'a> Slots<&'a mut [u32]> {
    /// An empty table over `slots`, for rows 0 to `rows`.
    pub(super) fn new(slots: &'a mut [u32], rows: usize) -> Self {
        slots.fill(EMPTY);
        let rows = u32::try_from(rows).unwrap_or(u32::MAX);
        Self { slots, row_bits: u32::BITS - rows.leading_zeros() }
    }

    /// Enters `row`, unless a row that is the same by `is_it` is there already.
    pub(super) fn insert(&mut self, hash: u64, row: u32, is_it: impl Fn(u32) -> bool) -> Result<(), Crowded> {
        let (tag, tag_mask) = (self.tag(hash), self.tag_mask());
        let mut at = start(hash, self.slots.len());
        let len = self.slots.len();
        for _ in 0..MAX_PROBES {
            let slot = self.slots.get_mut(at).ok_or(Crowded)?;
            if *slot == EMPTY {
                *slot = tag | row.wrapping_add(1);
                return Ok(());
            }
            if *slot & tag_mask == tag && is_it((*slot & !tag_mask).wrapping_sub(1)) {
                return Ok(());
            }
            at = if at + 1 == len { 0 } else { at + 1 };
        }
        Err(Crowded)
    }

    /// The table, to be read only.
    pub(super) fn freeze(self) -> Slots<&'a [u32]> {
        Slots { slots: self.slots, row_bits: self.row_bits }
    }
}

/// Returns the slot where the search for a hash begins: the upper half of the hash, scaled to the number of slots.
fn start(hash: u64, slots: usize) -> usize {
    (((hash >> 32) * slots as u64) >> 32) as usize
}

/// A hash of a string of bytes, eight at a time.
#[inline]
pub(super) fn hash_bytes(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let hash = words.iter().fold(0, |hash, word| step(hash, u64::from_le_bytes(*word)));
    let last = rest.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
    finish(hash, last, bytes.len())
}

/// [`hash_bytes`] of a string that does not lie in one piece.
#[inline]
pub(super) fn hash_iter(bytes: impl Iterator<Item = u8>) -> u64 {
    let (mut hash, mut word, mut len) = (0, 0, 0);
    for byte in bytes {
        word |= u64::from(byte) << (8 * (len % 8));
        len += 1;
        if len % 8 == 0 {
            hash = step(hash, word);
            word = 0;
        }
    }
    finish(hash, word, len)
}

fn step(hash: u64, word: u64) -> u64 {
    let hash = (hash ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    hash ^ hash >> 32
}

fn finish(hash: u64, last: u64, len: usize) -> u64 {
    mix(step(hash, last).wrapping_add(len as u64))
}

/// A hash of two numbers.
#[inline]
pub(super) fn hash_pair(left: u32, right: u32) -> u64 {
    mix(u64::from(left) << 32 | u64::from(right))
}

/// The finalizer of SplitMix64: every bit of the result depends on every bit of `x`.
fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_found_and_nothing_else() {
        let rows: Vec<u64> = (0..5000).map(|i| i * 7919).collect();
        let mut memory = vec![9; slot_count(rows.len())];
        let mut slots = Slots::new(&mut memory, rows.len());
        for (row, &number) in rows.iter().enumerate() {
            slots.insert(mix(number), row as u32, |other| rows[other as usize] == number).unwrap();
            slots.insert(mix(number), 0, |other| rows[other as usize] == number).unwrap();
        }
        let slots = slots.freeze();
        for number in 0..40_000 {
            let found = slots.find(mix(number), |row| rows[row as usize] == number);
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
    fn both_hashes_of_a_string_are_equal() {
        let bytes: Vec<u8> = (1..=40).collect();
        let mut hashes = std::collections::BTreeSet::new();
        for string in (0..=40).flat_map(|end| (0..=end).map(move |start| start..end)).map(|range| &bytes[range]) {
            assert_eq!(hash_bytes(string), hash_iter(string.iter().copied()));
            hashes.insert(hash_bytes(string));
        }
        assert_eq!(hashes.len(), 1 + 41 * 40 / 2);
        assert_ne!(hash_bytes(b"a"), hash_bytes(b"a\0"));
    }

    #[test]
    fn a_table_without_slots_is_empty() {
        let slots = Slots::new(&mut [], 0).freeze();
        assert_eq!(slots.find(1, |_| true), None);
    }
}
