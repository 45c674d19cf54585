//! Recurrent layers, one token at a time: the causal convolution, the update of a head's matrix, and the functions that
//! prepare its inputs and its result.
//!
//! Lanes are channels, or columns of the matrix, so no sum crosses lanes. Numbers that enter a state are settled
//! ([`settle`]).

use crate::num::{settle, silu, sqrt, sum_lanes};

/// An update of a head's state, `[key_dim, value_dim]`, by one token.
///
/// [Example](crate::kernels#example).
#[derive(Clone, Copy, Debug)]
pub struct Update<'u> {
    /// Factor of the old state, 0 to 1, settled.
    pub decay: f32,
    /// Key, `[key_dim]`, settled.
    pub key: &'u [f32],
    /// Query, `[key_dim]`, settled.
    pub query: &'u [f32],
    /// Value, `[value_dim]`, settled.
    pub value: &'u [f32],
    /// Factor with which the value is written, settled.
    pub strength: f32,
    /// Whether the state's value for the key is subtracted from the value before it is written: the delta rule.
    pub corrects: bool,
}

/// A causal convolution of each channel.
///
/// [Example](crate::kernels#example).
#[derive(Clone, Copy, Debug)]
pub struct Convolution<'c> {
    /// Weights, `[kernel, channels]`, settled. The last row of the weights belongs to the current row of inputs.
    pub weights: &'c [f32],
    /// Biases, `[channels]`, settled, or empty.
    pub bias: &'c [f32],
    /// Whether SiLU is applied to the result.
    pub activates: bool,
}

/// Number of columns that are updated together, so that their sums fit the registers.
const WIDE: usize = 64;
/// Number of columns that are updated together where fewer than [`WIDE`] are left.
const NARROW: usize = 16;

/// See [`Level::update_state`](crate::kernels::Level::update_state).
#[inline(always)]
pub(in crate::kernels) fn update_state(update: &Update<'_>, state: &mut [f32], out: &mut [f32]) -> Option<()> {
    let columns = out.len();
    let fits = update.value.len() == columns
        && update.key.len() == update.query.len()
        && update.key.len().checked_mul(columns)? == state.len();
    if !fits {
        return None;
    }
    let mut at = 0;
    while at < columns {
        at += match columns - at {
            WIDE.. => update_columns::<WIDE>(update, state, at, out)?,
            NARROW..WIDE => update_columns::<NARROW>(update, state, at, out)?,
            _ => update_columns::<1>(update, state, at, out)?,
        };
    }
    Some(())
}

/// Updates `W` columns from `at` on, and returns `W`.
#[inline(always)]
fn update_columns<const W: usize>(update: &Update<'_>, state: &mut [f32], at: usize, out: &mut [f32]) -> Option<usize> {
    let (stride, decay) = (out.len(), update.decay);
    let mut written: [f32; W] = *update.value.get(at..)?.first_chunk()?;
    if update.corrects {
        let mut found = [0.0; W];
        for (index, &key) in update.key.iter().enumerate() {
            let row: &[f32; W] = state.get(index * stride + at..)?.first_chunk()?;
            for (found, &s) in found.iter_mut().zip(row) {
                *found += settle(s * decay) * key;
            }
        }
        written.iter_mut().zip(found).for_each(|(written, found)| *written -= found);
    }
    written.iter_mut().for_each(|written| *written = settle(*written * update.strength));
    let mut sums = [0.0; W];
    for (index, (&key, &query)) in update.key.iter().zip(update.query).enumerate() {
        let row: &mut [f32; W] = state.get_mut(index * stride + at..)?.first_chunk_mut()?;
        for ((s, sum), &written) in row.iter_mut().zip(&mut sums).zip(&written) {
            *s = settle(*s * decay + key * written);
            *sum += *s * query;
        }
    }
    *out.get_mut(at..)?.first_chunk_mut()? = sums;
    Some(W)
}

/// See [`Level::convolve`](crate::kernels::Level::convolve).
#[inline(always)]
pub(in crate::kernels) fn convolve(how: &Convolution<'_>, tail: &mut [f32], x: &mut [f32]) -> Option<()> {
    let channels = x.len();
    let fits = tail.len().checked_add(channels)? == how.weights.len()
        && tail.len().is_multiple_of(channels)
        && (how.bias.is_empty() || how.bias.len() == channels);
    if !fits {
        return None;
    }
    let mut at = 0;
    while at < channels {
        at += match channels - at {
            WIDE.. => convolve_channels::<WIDE>(how, tail, at, x)?,
            NARROW..WIDE => convolve_channels::<NARROW>(how, tail, at, x)?,
            _ => convolve_channels::<1>(how, tail, at, x)?,
        };
    }
    Some(())
}

/// Convolves `W` channels from `at` on, and returns `W`.
#[inline(always)]
fn convolve_channels<const W: usize>(
    how: &Convolution<'_>,
    tail: &mut [f32],
    at: usize,
    x: &mut [f32],
) -> Option<usize> {
    let channels = x.len();
    let earlier = tail.len().checked_div(channels)?;
    let out: &mut [f32; W] = x.get_mut(at..)?.first_chunk_mut()?;
    let current = out.map(settle);
    let weights = |index: usize| how.weights.get(index * channels + at..)?.first_chunk();
    let mut sums = [0.0; W];
    let mut add = |row: &[f32; W], weights: &[f32; W]| {
        for ((sum, &u), &w) in sums.iter_mut().zip(row).zip(weights) {
            *sum += w * u;
        }
    };
    for index in 0..earlier {
        add(tail.get(index * channels + at..)?.first_chunk()?, weights(index)?);
    }
    add(&current, weights(earlier)?);
    if !how.bias.is_empty() {
        let bias: &[f32; W] = how.bias.get(at..)?.first_chunk()?;
        sums.iter_mut().zip(bias).for_each(|(sum, bias)| *sum += bias);
    }
    *out = if how.activates { sums.map(silu) } else { sums };
    // The rows move up by one, and the oldest is dropped.
    let mut newer = current;
    for index in (0..earlier).rev() {
        let row: &mut [f32; W] = tail.get_mut(index * channels + at..)?.first_chunk_mut()?;
        newer = core::mem::replace(row, newer);
    }
    Some(W)
}

/// See [`Level::settle`](crate::kernels::Level::settle).
#[inline(always)]
pub(in crate::kernels) fn settle_row(x: &[f32], out: &mut [f32]) {
    out.iter_mut().zip(x).for_each(|(out, &x)| *out = settle(x));
}

/// See [`Level::normalize`](crate::kernels::Level::normalize).
#[inline(always)]
pub(in crate::kernels) fn normalize(x: &[f32], scale: f32, out: &mut [f32]) {
    const EPSILON: f32 = 1e-6;
    let squares = sum_lanes(x, x, |x, _| settle(x) * settle(x));
    let r = 1.0 / sqrt(squares + EPSILON);
    out.iter_mut().zip(x).for_each(|(out, &x)| *out = settle((settle(x) * r) * scale));
}

/// See [`Level::gate`](crate::kernels::Level::gate).
#[inline(always)]
pub(in crate::kernels) fn gate(gate: &[f32], x: &mut [f32]) {
    x.iter_mut().zip(gate).for_each(|(x, &gate)| *x *= silu(gate));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(count: usize, seed: u32) -> Vec<f32> {
        (0..count as u32).map(|i| ((i * 7919 + seed * 104_729) % 2003) as f32 / 1001.5 - 1.0).collect()
    }

    /// Checks several numbers of columns against the formula in f64, which differs only by rounding.
    #[test]
    fn updates_are_the_formula() {
        for (key_dim, value_dim) in [(1, 1), (16, 16), (5, 130), (128, 128), (7, 83)] {
            for corrects in [false, true] {
                let (key, query, value) = (numbers(key_dim, 1), numbers(key_dim, 2), numbers(value_dim, 3));
                let update = Update { decay: 0.75, key: &key, query: &query, value: &value, strength: 0.5, corrects };
                let (mut state, mut out) = (numbers(key_dim * value_dim, 4), vec![0.0; value_dim]);
                let before = state.clone();
                update_state(&update, &mut state, &mut out).unwrap();
                for j in 0..value_dim {
                    let old = |i: usize| f64::from(before[i * value_dim + j]) * 0.75;
                    let found: f64 = (0..key_dim).map(|i| old(i) * f64::from(key[i])).sum();
                    let r = 0.5 * (f64::from(value[j]) - if corrects { found } else { 0.0 });
                    let new = |i: usize| old(i) + f64::from(key[i]) * r;
                    let want: f64 = (0..key_dim).map(|i| new(i) * f64::from(query[i])).sum();
                    assert!((f64::from(out[j]) - want).abs() < 1e-4, "{key_dim} {value_dim} {j}");
                    assert!((0..key_dim).all(|i| (f64::from(state[i * value_dim + j]) - new(i)).abs() < 1e-5));
                }
                assert!(update_state(&update, &mut state, &mut out[1..]).is_none());
            }
        }
    }

    #[test]
    fn convolutions_are_the_formula() {
        for (kernel, channels) in [(1, 3), (3, 72), (4, 160), (2, 1)] {
            let (weights, bias) = (numbers(kernel * channels, 5), numbers(channels, 6));
            let how = Convolution { weights: &weights, bias: &bias, activates: false };
            let mut tail = vec![0.0; (kernel - 1) * channels];
            let rows: Vec<Vec<f32>> = (0..7).map(|row| numbers(channels, 10 + row)).collect();
            for t in 0..7 {
                let mut x = rows[t].clone();
                convolve(&how, &mut tail, &mut x).unwrap();
                for c in 0..channels {
                    let term = |j: usize| {
                        (t + j + 1).checked_sub(kernel).map_or(0.0, |t| weights[j * channels + c] * rows[t][c])
                    };
                    let want: f32 = (0..kernel).map(term).sum::<f32>() + bias[c];
                    assert!((x[c] - want).abs() < 1e-5, "{kernel} {channels} row {t}");
                }
            }
        }
    }
}
