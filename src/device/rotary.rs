//! Cosines and sines of positions: what a CPU computes for every device.

use crate::kv::MAX_GROUPS;
use crate::nn::{Frequencies, rotation};
use crate::num::settled_of;

/// The cosines and sines of a position. A CPU computes them, in f64: a device is given what [`RotaryView::angles`]
/// gives.
///
/// [Example](crate::device#example).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct RotaryView<'m> {
    /// The sets of frequencies, one after the other in the angles of a row.
    pub sets: [Option<RotarySet<'m>>; MAX_GROUPS],
}

/// A set of rotary frequencies.
///
/// [Example](crate::device#example).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct RotarySet<'m> {
    /// Which.
    pub frequencies: Frequencies,
    /// Elements of a head that they rotate.
    pub dims: usize,
    /// A divisor for each, little-endian f32 of any alignment; empty where there are none.
    pub divisors: &'m [u8],
}

impl RotaryView<'_> {
    /// Returns the number of angles of a row: a cosine and a sine for every frequency.
    pub fn width(&self) -> usize {
        self.sets.iter().flatten().map(|set| set.dims).sum()
    }

    /// Fills in the frequencies of all sets: `[width / 2]`.
    pub fn frequencies(&self, out: &mut [f64]) {
        let mut rest = out;
        for set in self.sets.iter().flatten() {
            let Some((own, others)) = rest.split_at_mut_checked(set.dims / 2) else { return };
            let divisors = set.divisors.as_chunks::<4>().0.iter().map(|&bytes| settled_of(bytes));
            set.frequencies.fill(divisors, own);
            rest = others;
        }
    }

    /// Fills in the angles of a position, given the frequencies: `[width]`, for each set its cosines, then its sines.
    /// `None` where the sizes do not fit.
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
