//! The fingerprint of an engine's model.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// A fingerprint that is computed when it is first asked for. Computing it reads the file's metadata and pages of every
/// tensor. That takes half a millisecond, which is too much for each of many small snapshots.
///
/// Callers that ask at the same time may all compute it. They get the same number.
#[derive(Debug, Default)]
pub(super) struct Fingerprint {
    known: AtomicBool,
    /// The two halves of the number: not every processor has atomic numbers of 64 bits.
    low: AtomicU32,
    high: AtomicU32,
}

impl Fingerprint {
    /// Returns the number. `compute` must return the same number each time.
    pub(super) fn get_or(&self, compute: impl FnOnce() -> u64) -> u64 {
        if self.known.load(Ordering::Acquire) {
            let [low, high] = [&self.low, &self.high].map(|half| u64::from(half.load(Ordering::Relaxed)));
            return low | high << 32;
        }
        let number = compute();
        self.low.store(number as u32, Ordering::Relaxed);
        self.high.store((number >> 32) as u32, Ordering::Relaxed);
        self.known.store(true, Ordering::Release);
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_computed_once() {
        let (fingerprint, mut calls) = (Fingerprint::default(), 0);
        for _ in 0..3 {
            let number = fingerprint.get_or(|| {
                calls += 1;
                0xfedc_ba98_7654_3210
            });
            assert_eq!(number, 0xfedc_ba98_7654_3210);
        }
        assert_eq!(calls, 1);
    }
}
