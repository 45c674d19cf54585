//! Cosines and sines of positions, which a CPU computes for every device.

use crate::kv::MAX_GROUPS;
use crate::nn::{Frequencies, rotation};
use crate::num::settled_of;

/// The cosines and sines of positions. A CPU computes them in f64 by [`RotaryView::angles`] and passes the results to
/// the device.
///
/// [Example](crate::device#example).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct RotaryView<'m> {
    /// Sets of frequencies. Their angles follow each other in the angles of a row.
    pub sets: [Option<RotarySet<'m>>; MAX_GROUPS],
}

/// A set of rotary frequencies.
///
/// [Example](crate::device#example).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct RotarySet<'m> {
    /// Frequencies of the set.
    pub frequencies: Frequencies,
    /// Number of elements of a head that the set rotates.
    pub dims: usize,
    /// Divisor of each frequency, little-endian f32 of any alignment, or empty.
    pub divisors: &'m [u8],
}

impl RotaryView<'_> {
    /// Returns the number of angles of a row: a cosine and a sine for every frequency.
    pub fn width(&self) -> usize {
        self.sets.iter().flatten().map(|set| set.dims).sum()
    }

    /// Computes the frequencies of all sets: `out` is `[width / 2]`.
    pub fn frequencies(&self, out: &mut [f64]) {
        let mut rest = out;
        for set in self.sets.iter().flatten() {
            let Some((own, others)) = rest.split_at_mut_checked(set.dims / 2) else { return };
            let divisors = set.divisors.as_chunks::<4>().0.iter().map(|&bytes| settled_of(bytes));
            set.frequencies.fill(divisors, own);
            rest = others;
        }
    }

    /// Computes the angles of a position from the frequencies. `out` is `[width]`: for each set its cosines, then its
    /// sines. Returns `None` if the sizes do not fit.
    pub fn angles(&self, position: usize, frequencies: &[f64], out: &mut [f32]) -> Option<()> {
        let (mut frequencies, mut rest) = (frequencies, out);
        for set in self.sets.iter().flatten() {
            let (angles, others) = rest.split_at_mut_checked(set.dims)?;
            let (own, after) = frequencies.split_at_checked(set.dims / 2)?;
            rotation(position, own, set.frequencies.magnitude, angles);
            (frequencies, rest) = (after, others);
        }
        Some(())
    }
}
