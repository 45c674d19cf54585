//! Measures the kernels of a level: products of weights and activations that fit a cache.

use std::hint::black_box;
use std::time::{Duration, Instant};

use gleed::kernels::{Inputs, Level, OUTPUTS};
use gleed::quant::{form, row_words};
use gleed::tensor::{Dtype, TensorView};

use common::Result;
use common::blocks::Filler;
use common::random::Random;

const COLS: usize = 2048;

/// Least time of a round of calls.
const ROUND: Duration = Duration::from_millis(5);
const ROUNDS: usize = 5;

/// Speed at which 32 rows of weights of 2048 columns are multiplied with some rows of activations, in the best of
/// several rounds.
pub(crate) struct Rate {
    /// Bytes of weights per second.
    pub(crate) bytes_s: f64,
    /// Multiply-adds per second.
    pub(crate) macs_s: f64,
}

/// Measures `rows` rows of activations on one thread.
pub(crate) fn products(level: Level, dtype: Dtype, rows: usize) -> Result<Rate> {
    let mut random = Random::new(1);
    let mut bytes = vec![0; OUTPUTS * dtype.row_bytes(COLS).ok_or("no whole number of blocks")?];
    Filler::matrix(dtype, COLS, &mut random).fill(&mut bytes, &mut random);
    let weights = TensorView::new(dtype, OUTPUTS, COLS, &bytes).ok_or("weights do not fit")?;
    let form = form(dtype);
    let stride = row_words(form, COLS).ok_or("no whole number of blocks")?;
    let mut words = vec![0; rows * stride];
    for words in words.chunks_exact_mut(stride) {
        let x: Vec<f32> = (0..COLS).map(|_| 2.0 * random.unit() - 1.0).collect();
        level.quantize_row(form, &x, words)?;
    }
    let inputs = Inputs::new(form, rows, COLS, &words, stride).ok_or("activations do not fit")?;
    let mut out = vec![0.0; rows * OUTPUTS];
    let mut scratch = vec![0.0; level.products_scratch(dtype)];
    let mut call = || level.products(weights, &inputs, black_box(&mut out), &mut scratch).ok_or("sizes do not fit");
    let seconds = fastest(&mut call)?;
    Ok(Rate { bytes_s: bytes.len() as f64 / seconds, macs_s: (rows * OUTPUTS * COLS) as f64 / seconds })
}

/// Returns the seconds per call in the fastest round.
fn fastest(call: &mut impl FnMut() -> std::result::Result<(), &'static str>) -> Result<f64> {
    let mut time = |calls: u32| -> Result<Duration> {
        let start = Instant::now();
        (0..calls).try_for_each(|_| call())?;
        Ok(start.elapsed())
    };
    let mut calls = 1;
    while time(calls)? < ROUND {
        calls *= 2;
    }
    let times = (0..ROUNDS).map(|_| time(calls)).collect::<Result<Vec<_>>>()?;
    let least = times.into_iter().min().ok_or("nothing was measured")?;
    Ok(least.as_secs_f64() / f64::from(calls))
}
