//! Counts of times by their size, in memory of a fixed size.

/// Number of buckets for each power of two. Each of the first `STEPS` numbers has a bucket of its own.
const STEPS: usize = 8;

/// The binary logarithm of [`STEPS`].
const STEP_BITS: u32 = 3;

/// Number of bits of the longest times with buckets of their own. Longer times are in the last bucket.
const BITS: u32 = 40;

/// Number of buckets of a histogram.
pub(crate) const BUCKETS: usize = STEPS * (BITS - STEP_BITS + 1) as usize;

/// Returns the bucket of a time.
fn bucket_of(ticks: u64) -> usize {
    let bits = u64::BITS - ticks.leading_zeros();
    let Some(shift) = bits.checked_sub(STEP_BITS + 1) else { return ticks as usize };
    // The leading bit is 1. The next bits are the number of the bucket within this power of two.
    let step = (ticks >> shift) as usize % STEPS;
    ((shift as usize + 1) * STEPS + step).min(BUCKETS - 1)
}

/// Returns the middle of a bucket.
fn middle(bucket: usize) -> u64 {
    let step = (bucket % STEPS) as u64;
    match (bucket / STEPS).checked_sub(1) {
        None => step,
        Some(shift) => {
            let shift = shift.min(u64::BITS as usize - 1) as u32;
            ((STEPS as u64 + step) << shift) + (1 << shift) / 2
        }
    }
}

/// Counts a time.
pub(crate) fn add(buckets: &mut [u32], ticks: u64) {
    if let Some(count) = buckets.get_mut(bucket_of(ticks)) {
        *count = count.saturating_add(1);
    }
}

/// Returns the time that `percent` percent of all times do not exceed (the nearest rank), as the middle of its bucket.
/// Returns 0 if nothing is counted.
pub(crate) fn percentile(buckets: &[u32], percent: u64) -> u64 {
    let total: u64 = buckets.iter().map(|&count| u64::from(count)).sum();
    let rank = (total * percent).div_ceil(100).max(1);
    let mut seen = 0;
    let found = buckets.iter().position(|&count| {
        seen += u64::from(count);
        seen >= rank
    });
    found.map_or(0, middle)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_each_other_and_have_their_middles() {
        let mut last = 0;
        for ticks in (0..100_000).chain((17..40).flat_map(|bits| [(1 << bits) - 1, 1 << bits, (1 << bits) + 1])) {
            let bucket = bucket_of(ticks);
            assert!(bucket == last || bucket == last + 1 || ticks >= 100_000, "{ticks}");
            assert_eq!(bucket_of(middle(bucket)), bucket, "{ticks}");
            assert!(middle(bucket).abs_diff(ticks) * 16 <= ticks, "{ticks}: {}", middle(bucket));
            last = bucket;
        }
        assert_eq!(bucket_of((1 << 40) - 1), BUCKETS - 1);
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn percentiles_are_those_of_a_sorted_list() {
        let mut state = 1_u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state >> 24
        };
        for case in 0..2000 {
            let mut buckets = [0; BUCKETS];
            let (count, bits) = (1 + random() % 300, random() % 40);
            let mut times: Vec<u64> = (0..count).map(|_| random() >> bits).collect();
            times.iter().for_each(|&ticks| add(&mut buckets, ticks));
            times.sort_unstable();
            for percent in [1, 50, 90, 99, 100] {
                let rank = (count * percent).div_ceil(100).max(1);
                let (exact, found) = (times[rank as usize - 1], percentile(&buckets, percent));
                assert!(found.abs_diff(exact) * 16 <= exact, "case {case}: p{percent} {found}, not {exact}");
            }
        }
        assert_eq!(percentile(&[0; BUCKETS], 50), 0);
    }

    #[test]
    fn counts_end_at_the_largest_number() {
        let mut buckets = [u32::MAX; BUCKETS];
        add(&mut buckets, 5);
        assert_eq!(buckets[5], u32::MAX);
        assert!(percentile(&buckets, 99) > percentile(&buckets, 50));
        add(&mut [], 5);
        assert_eq!(percentile(&[], 50), 0);
    }
}
