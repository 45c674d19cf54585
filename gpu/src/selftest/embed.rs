//! Rows of tables.

use bytemuck::Zeroable;
use gleed::num::settle;
use gleed::quant::dequantize;

use super::linear::words_of;
use super::random::Random;
use super::{Bench, Data, bits, same};
use crate::catalog::{Kernel, Weights};
use crate::error::GpuError;
use crate::grid;
use crate::layout;
use crate::params::{BATCH_HEAD, BATCH_ROW, Embed};

pub(super) async fn embed(bench: &Bench<'_>, weights: Weights, random: &mut Random) -> Result<(), GpuError> {
    let (vocab, cols, at) = (11, 512, 16 * 9);
    let row_bytes = weights.dtype().row_bytes(cols).unwrap_or(0);
    let on_device = layout::row_bytes(weights.dtype(), cols).unwrap_or(0);
    let matrix = random.weights(weights, vocab, cols);
    let tokens = [3, 10, 0, 7];
    for factor in [0.0, 22.627_417] {
        let mut batch = vec![0; BATCH_HEAD + BATCH_ROW * tokens.len()];
        for (row, token) in batch[BATCH_HEAD..].chunks_mut(BATCH_ROW).zip(tokens) {
            row[1] = token;
        }
        // A piece of the matrix, which lacks the last two rows.
        let params = Embed {
            zero: 0,
            cols: cols as u32,
            row_bytes: on_device as u32,
            at,
            first: 0,
            count: vocab as u32 - 2,
            factor: f32::to_bits(factor),
            y_stride: cols as u32,
            ..Embed::zeroed()
        };
        let words = words_of(at as usize, weights, cols, &matrix);
        let out = vec![5; cols * tokens.len()];
        let buffers = [Data::read(words), Data::read(batch), Data::back(out)];
        let got = bench.run(Kernel::Embed(weights), &params, &buffers, grid::by_row(tokens.len())).await?;
        let mut want = Vec::new();
        for token in tokens {
            let mut row = vec![f32::from_bits(5); cols];
            if token < vocab as u32 - 2 {
                let _ = dequantize(weights.dtype(), &matrix[token as usize * row_bytes..][..row_bytes], &mut row);
                let scaled = |x: f32| if factor == 0.0 { x } else { settle(x * factor) };
                row.iter_mut().for_each(|x| *x = scaled(*x));
            }
            want.extend(bits(&row));
        }
        same("rows of the embedding", &got[0], &want)?;
    }
    positions(bench, weights, random).await?;
    more_of_tokens(bench, weights, random).await
}

/// Tests rows of tokens that are added to an output behind other words. The sums are multiplied.
async fn more_of_tokens(bench: &Bench<'_>, weights: Weights, random: &mut Random) -> Result<(), GpuError> {
    let (count, cols, before) = (5, 256, 11);
    let row_bytes = weights.dtype().row_bytes(cols).unwrap_or(0);
    let on_device = layout::row_bytes(weights.dtype(), cols).unwrap_or(0);
    let (matrix, mut rows) = (random.weights(weights, count, cols), random.moderate(2 * cols));
    let (factor, of_sum) = (0.37, 0.7);
    let params = Embed {
        cols: cols as u32,
        row_bytes: on_device as u32,
        count: count as u32,
        factor: f32::to_bits(factor),
        y_stride: cols as u32,
        adds: 2,
        of_sum,
        y_at: before as u32,
        ..Embed::zeroed()
    };
    let mut batch = vec![0; BATCH_HEAD + BATCH_ROW * 2];
    for (row, token) in batch[BATCH_HEAD..].chunks_mut(BATCH_ROW).zip([4, 1]) {
        (row[0], row[1]) = (2, token);
    }
    let stream = [vec![7; before], bits(&rows)].concat();
    let buffers = [Data::read(words_of(0, weights, cols, &matrix)), Data::read(batch), Data::back(stream)];
    let got = bench.run(Kernel::Embed(weights), &params, &buffers, grid::by_row(2)).await?;
    for (row, token) in rows.chunks_mut(cols).zip([4, 1]) {
        let mut learned = vec![0.0; cols];
        let _ = dequantize(weights.dtype(), &matrix[token * row_bytes..][..row_bytes], &mut learned);
        row.iter_mut().zip(learned).for_each(|(x, learned)| *x = (*x + settle(learned * factor)) * of_sum);
    }
    same("inputs of layers", &got[0], &[vec![7; before], bits(&rows)].concat())
}

/// Tests rows of learned positions, which are added.
async fn positions(bench: &Bench<'_>, weights: Weights, random: &mut Random) -> Result<(), GpuError> {
    let (count, cols) = (7, 256);
    let row_bytes = weights.dtype().row_bytes(cols).unwrap_or(0);
    let on_device = layout::row_bytes(weights.dtype(), cols).unwrap_or(0);
    let (matrix, mut rows) = (random.weights(weights, count, cols), random.moderate(2 * cols));
    let params = Embed {
        cols: cols as u32,
        row_bytes: on_device as u32,
        count: count as u32,
        y_stride: cols as u32,
        adds: 1,
        ..Embed::zeroed()
    };
    let mut batch = vec![0; BATCH_HEAD + BATCH_ROW * 2];
    for (row, position) in batch[BATCH_HEAD..].chunks_mut(BATCH_ROW).zip([6, 2]) {
        (row[0], row[1]) = (position, 1);
    }
    let buffers = [Data::read(words_of(0, weights, cols, &matrix)), Data::read(batch), Data::back(bits(&rows))];
    let got = bench.run(Kernel::Embed(weights), &params, &buffers, grid::by_row(2)).await?;
    for (row, position) in rows.chunks_mut(cols).zip([6, 2]) {
        let mut learned = vec![0.0; cols];
        let _ = dequantize(weights.dtype(), &matrix[position * row_bytes..][..row_bytes], &mut learned);
        row.iter_mut().zip(learned).for_each(|(x, learned)| *x += learned);
    }
    same("rows of positions", &got[0], &bits(&rows))
}
