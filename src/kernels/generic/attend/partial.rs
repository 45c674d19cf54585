//! The partial result of a row while attention goes through the chunks.

use crate::kernels::generic::lanes::LANES;
use crate::num::{exp, settle, settled_of};

/// The layout of the partial result of a row, for the heads that share a KV head: sums of values times their weights,
/// `[group, head_dim]`, then the largest score and the sum of the weights of each head, `[group, 2]`, then padding.
///
/// [Example](crate::kernels#example).
#[derive(Clone, Copy, Debug)]
pub struct Partial {
    /// Number of query heads.
    pub group: usize,
    /// Number of elements per head.
    pub head_dim: usize,
}

impl Partial {
    /// Returns the number of f32 elements, which fill whole cache lines, or `None` on overflow.
    pub fn elements(self) -> Option<usize> {
        let head = self.head_dim.checked_add(2)?;
        self.group.checked_mul(head)?.checked_next_multiple_of(LANES)
    }

    /// Resets the result, before the first chunk.
    pub(super) fn clear(self, row: &mut [f32]) -> Option<()> {
        let (values, peaks) = self.split_mut(row)?;
        values.fill(0.0);
        peaks.fill([f32::NEG_INFINITY, 0.0]);
        Some(())
    }

    /// Adds the next chunk of a head: its largest score and the sum of its weights, and the sums of its values times
    /// their weights. The side with the smaller of the two largest scores is scaled to the larger. The addends are
    /// settled. (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018.)
    #[inline(always)]
    pub(super) fn add(self, row: &mut [f32], head: usize, (peak, chunk): (&[f32; 2], &[f32])) -> Option<()> {
        let (values, peaks) = self.split_mut(row)?;
        let values = values.chunks_exact_mut(self.head_dim.max(1)).nth(head)?;
        let [max, sum] = peaks.get_mut(head)?;
        let &[chunk_max, chunk_sum] = peak;
        if chunk_sum == 0.0 {
            return Some(());
        }
        // The factor of the side with the larger score is e^0, exactly 1.
        let (factor, chunk_factor);
        (*max, factor, chunk_factor) =
            if chunk_max > *max { (chunk_max, exp(*max - chunk_max), 1.0) } else { (*max, 1.0, exp(chunk_max - *max)) };
        *sum = *sum * factor + chunk_sum * chunk_factor;
        for (value, chunk) in values.iter_mut().zip(chunk) {
            *value = settle(*value * factor) + settle(chunk * chunk_factor);
        }
        Some(())
    }

    /// Computes the result after the last chunk: `out` is `[group, head_dim]`. `sinks` are the heads' sink scores,
    /// `[group]`, little-endian f32, or empty. Each takes part in the softmax of its head, without a value. Returns
    /// `None` on a mismatch of sizes.
    pub fn finish(self, row: &[f32], sinks: &[[u8; 4]], out: &mut [f32]) -> Option<()> {
        let (values, peaks) = row.split_at_checked(self.group.checked_mul(self.head_dim)?)?;
        let fits = out.len() == values.len() && peaks.len() / 2 >= self.group;
        if !fits || !(sinks.is_empty() || sinks.len() == self.group) {
            return None;
        }
        let mut sinks = sinks.iter().map(|&sink| settled_of(sink));
        for (head, &[max, sum]) in peaks.as_chunks::<2>().0.iter().enumerate().take(self.group) {
            let part = head * self.head_dim..(head + 1) * self.head_dim;
            let (values, out) = (values.get(part.clone())?, out.get_mut(part)?);
            let inverse = match sinks.next() {
                Some(sink) => with_sink(max, sum, sink),
                None => 1.0 / sum,
            };
            out.iter_mut().zip(values).for_each(|(out, value)| *out = value * inverse);
        }
        Some(())
    }

    #[inline(always)]
    fn split_mut(self, row: &mut [f32]) -> Option<(&mut [f32], &mut [[f32; 2]])> {
        let (values, peaks) = row.split_at_mut_checked(self.group.checked_mul(self.head_dim)?)?;
        Some((values, peaks.as_chunks_mut::<2>().0.get_mut(..self.group)?))
    }
}

/// Returns the factor of the values in a head with a sink score. All weights are relative to the larger of the sink
/// score and the largest other score.
fn with_sink(max: f32, sum: f32, sink: f32) -> f32 {
    let (factor, weight) = if sink > max { (exp(max - sink), 1.0) } else { (1.0, exp(sink - max)) };
    factor / (sum * factor + weight)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sink_takes_its_share() {
        let partial = Partial { group: 2, head_dim: 2 };
        let mut row = vec![0.0; partial.elements().unwrap()];
        partial.clear(&mut row).unwrap();
        for head in 0..2 {
            partial.add(&mut row, head, (&[1.5, 2.0], &[4.0, -8.0])).unwrap();
        }
        let finish = |sinks: [f32; 2]| {
            let mut out = [0.0; 4];
            partial.finish(&row, &sinks.map(f32::to_le_bytes), &mut out).unwrap();
            out.map(f64::from)
        };
        let expected = |sink: f64| 4.0 / (2.0 + (sink - 1.5).exp());
        let [a, b, c, d] = finish([0.25, 3.0]);
        assert!((a - expected(0.25)).abs() < 1e-6 && (c - expected(3.0)).abs() < 1e-6, "{a} {c}");
        assert_eq!([b, d], [a * -2.0, c * -2.0]);
        // The first sink weighs nothing. Beside the second one nothing else weighs anything.
        assert_eq!(finish([f32::NEG_INFINITY, 200.0]), [2.0, -4.0, 0.0, 0.0]);
        assert!(finish([f32::NAN; 2]).iter().all(|x| x.is_nan()));
        let mut out = [0.0; 4];
        partial.finish(&row, &[], &mut out).unwrap();
        assert_eq!(out, [2.0, -4.0, 2.0, -4.0]);
        assert_eq!(partial.finish(&row, &[[0; 4]], &mut out), None);
    }
}
