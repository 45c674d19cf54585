//! The scratch of a compilation: records of 32-bit words that are found by their number.

use super::error::{ErrorKind, GrammarError};

pub(super) type Result<T> = core::result::Result<T, GrammarError>;

/// The work of a unit: the number of records that are made, and of those that are looked at in loops over many.
pub(super) const UNIT: u64 = 4096;

/// The most words in which records can be numbered.
pub(super) const MOST_SCRATCH: usize = 1 << 28;

/// Records in the caller's scratch. Number 0 is no record. The scratch counts the work of the compilation, so that each
/// unit ends at the same place however many units follow at once.
pub(super) struct Scratch<'s> {
    words: &'s mut [u32],
    used: usize,
    /// All work so far.
    work: u64,
    /// The work at which the unit ends.
    end: u64,
}

impl<'s> Scratch<'s> {
    pub(super) fn new(words: &'s mut [u32]) -> Self {
        // Record 0, which is no record, has to read as 0, whatever the word was.
        words.iter_mut().take(1).for_each(|word| *word = 0);
        Self { words, used: 1, work: 0, end: 0 }
    }

    /// Begins a unit of work, or makes the present one longer where it cannot end.
    pub(super) fn begin_unit(&mut self) {
        self.end = self.work.saturating_add(UNIT);
    }

    /// Notes work.
    #[inline]
    pub(super) fn spend(&mut self, work: usize) {
        self.work = self.work.saturating_add(work as u64);
    }

    /// Returns whether the unit is over.
    #[inline]
    pub(super) fn is_spent(&self) -> bool {
        self.work >= self.end
    }

    /// Returns all work so far.
    pub(super) fn work(&self) -> u64 {
        self.work
    }

    /// Returns a record with these words.
    pub(super) fn record<const N: usize>(&mut self, words: [u32; N]) -> Result<u32> {
        let at = self.zeroed(N)?;
        let places = self.words.get_mut(at as usize..).unwrap_or(&mut []);
        places.iter_mut().zip(words).for_each(|(place, word)| *place = word);
        Ok(at)
    }

    /// Returns a record of `count` zeros.
    pub(super) fn zeroed(&mut self, count: usize) -> Result<u32> {
        let error = GrammarError { kind: ErrorKind::ScratchTooSmall { given: self.words.len() }, at: 0 };
        let end =
            self.used.checked_add(count).filter(|end| *end <= self.words.len() && *end < MOST_SCRATCH).ok_or(error)?;
        let at = self.used;
        self.words.get_mut(at..end).ok_or(error)?.fill(0);
        self.spend(1 + count / 16);
        self.used = end;
        Ok(at as u32)
    }

    /// Returns word `field` of a record.
    #[inline]
    pub(super) fn get(&self, record: u32, field: u32) -> u32 {
        self.words.get((record as usize).wrapping_add(field as usize)).copied().unwrap_or(0)
    }

    #[inline]
    pub(super) fn set(&mut self, record: u32, field: u32, value: u32) {
        if let Some(word) = self.words.get_mut((record as usize).wrapping_add(field as usize)) {
            *word = value;
        }
    }

    /// Returns the words of a record.
    pub(super) fn slice(&self, record: u32, count: u32) -> &[u32] {
        let start = record as usize;
        self.words.get(start..start.saturating_add(count as usize)).unwrap_or(&[])
    }

    pub(super) fn slice_mut(&mut self, record: u32, count: u32) -> &mut [u32] {
        let start = record as usize;
        self.words.get_mut(start..start.saturating_add(count as usize)).unwrap_or(&mut [])
    }

    /// Returns how much is used, for [`Scratch::release`].
    pub(super) fn mark(&self) -> usize {
        self.used
    }

    /// Drops all records made since the mark.
    pub(super) fn release(&mut self, mark: usize) {
        self.used = mark.min(self.used);
    }
}

/// Sorts words in ascending order. (The sort of the standard library has code that panics.)
pub(super) fn sort(words: &mut [u32]) {
    let mut gap = words.len() / 2;
    while gap > 0 {
        for start in gap..words.len() {
            let mut at = start;
            while let (Some(&low), Some(&high)) = (words.get(at.wrapping_sub(gap)), words.get(at))
                && low > high
            {
                words.get_mut(at).into_iter().for_each(|word| *word = low);
                words.get_mut(at - gap).into_iter().for_each(|word| *word = high);
                at -= gap;
            }
        }
        gap /= 2;
    }
}

/// Mixes a word into a hash.
pub(super) fn mix(hash: u32, word: u32) -> u32 {
    let mixed = (hash.rotate_left(5) ^ word).wrapping_mul(0x9E37_79B1);
    mixed ^ (mixed >> 15)
}
