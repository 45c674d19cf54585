//! Choices of tokens.

use gleed::device::Draws;
use gleed::sample::{Sampler, SamplerParams, scratch_len};

use super::random::Random;
use super::{Bench, Data, bits, same};
use crate::catalog::Kernel;
use crate::error::GpuError;
use crate::grid;
use crate::params::{BATCH_HEAD, BATCH_ROW, BATCH_RUN, Choose, Draw};

pub(super) async fn choose(bench: &Bench<'_>, random: &mut Random) -> Result<(), GpuError> {
    let n = 1000;
    let mut logits: Vec<_> = (0..6).map(|_| random.moderate(n)).collect();
    // Beside moderate logits: the largest one twice, zeros of both signs, the first token, the last token, all logits
    // equal.
    logits[1][700] = 5.0;
    logits[1][300] = 5.0;
    logits[2].fill(-1.0);
    logits[2][256] = -0.0;
    logits[2][257] = 0.0;
    logits[3][0] = 9.0;
    logits[4][n - 1] = 9.0;
    logits[5].fill(-3.5);
    for (case, logits) in logits.iter().enumerate() {
        choose_case(bench, random, logits, case % 3).await?;
    }
    Ok(())
}

/// Tests a choice after `done` of three rows.
async fn choose_case(bench: &Bench<'_>, random: &mut Random, logits: &[f32], done: usize) -> Result<(), GpuError> {
    let token = (0..logits.len()).fold(0, |best, i| if logits[i] > logits[best] { i } else { best }) as u32;
    chosen(bench, random, (Kernel::Choose, "the largest logit"), logits, (done, token), &[]).await
}

pub(super) async fn draw(bench: &Bench<'_>, random: &mut Random) -> Result<(), GpuError> {
    let off = SamplerParams { temperature: 1.0, ..SamplerParams::default() };
    let cases = [
        SamplerParams { temperature: 0.7, top_k: 40, top_p: 0.9, min_p: 0.05, ..off },
        off,
        SamplerParams { temperature: 0.6, min_p: 0.05, ..off },
        SamplerParams { temperature: 3.0, top_k: 1, ..off },
        SamplerParams { temperature: 1.3, top_k: 999, ..off },
        SamplerParams { temperature: 0.01, top_p: 0.999_999_9, ..off },
        SamplerParams { temperature: 1e30, top_p: 0.5, ..off },
        SamplerParams { temperature: 1e30, top_p: ALMOST_ALL, ..off },
        SamplerParams { temperature: 40.0, top_p: ALMOST_ALL, ..off },
        SamplerParams { temperature: 1e-30, ..off },
        SamplerParams { top_p: 0.0, ..off },
        SamplerParams { min_p: 1.0, ..off },
        SamplerParams { temperature: 40.0, top_p: 0.98, min_p: 1e-9, ..off },
    ];
    for params in bench.some(&cases) {
        for logits in logits_to_draw(random) {
            draw_case(bench, random, params, &logits).await?;
        }
    }
    Ok(())
}

/// The largest f32 below 1: (2^32 - 256) / 2^32.
const ALMOST_ALL: f32 = 1.0 - f32::EPSILON / 2.0;

/// Returns seven cases of logits:
/// - moderate ones,
/// - few that count,
/// - all equal,
/// - equal ones on both sides of a cut, with zeros of both signs,
/// - the largest and the least floats,
/// - fewer than a workgroup has invocations,
/// - one with a mass of 2^32 and 257 with a mass of 1. A share of [`ALMOST_ALL`] is more than the first token has, by
///   less than a mass of 1. So a share that is not rounded up keeps one token less.
fn logits_to_draw(random: &mut Random) -> [Vec<f32>; 7] {
    let mut steep = random.moderate(1000);
    steep.iter_mut().for_each(|x| *x *= 20.0);
    let mut equal: Vec<f32> = random.moderate(1500).into_iter().map(f32::round).collect();
    equal.iter_mut().step_by(7).for_each(|x| *x = -0.0);
    let extreme = random.moderate(1000).into_iter().map(|x| if x > 0.0 { f32::MAX } else { f32::MIN }).collect();
    let mut rounded = vec![-22.0; 258];
    rounded[0] = 0.0;
    [random.moderate(1000), steep, vec![-2.5; 700], equal, extreme, random.moderate(5), rounded]
}

/// Tests a token that is drawn after some of three rows.
async fn draw_case(
    bench: &Bench<'_>,
    random: &mut Random,
    params: &SamplerParams,
    logits: &[f32],
) -> Result<(), GpuError> {
    let (state, done) = (random.bits(), random.below(3));
    let SamplerParams { temperature, top_k, top_p, min_p, .. } = *params;
    let words = Draw::new(&Draws { temperature, top_k, top_p, min_p, state }, logits.len());
    let mismatch = |_| GpuError::Mismatch("the sampler");
    let (mut sampler, mut scratch) = (Sampler::new(*params).map_err(mismatch)?, vec![0; scratch_len(logits.len())]);
    sampler.set_state(state);
    let mut token = 0;
    for _ in 0..=done {
        token = sampler.sample(logits, &mut scratch).map_err(mismatch)?.token;
    }
    let words = bytemuck::pod_collect_to_vec::<u8, u32>(bytemuck::bytes_of(&words));
    let how = [Data::read(words)];
    chosen(bench, random, (Kernel::Draw, "a token that is drawn"), logits, (done, token), &how).await
}

/// Tests that a kernel chooses `token` after `done` of three rows, and makes it the token of the next row.
async fn chosen(
    bench: &Bench<'_>,
    random: &mut Random,
    (kernel, name): (Kernel, &'static str),
    logits: &[f32],
    (done, token): (usize, u32),
    others: &[Data],
) -> Result<(), GpuError> {
    const WIDTH: usize = 300;
    let mut angles = bits(&random.moderate(3 * WIDTH));
    let runs = BATCH_HEAD + 3 * BATCH_ROW;
    let mut batch: Vec<u32> = (0..runs + BATCH_RUN).map(|_| random.below(1000) as u32).collect();
    (batch[4], batch[5]) = (done as u32, 3);
    let params = Choose { zero: 0, n: logits.len() as u32, angles: WIDTH as u32, runs: runs as u32 };
    let buffers = [Data::floats(logits), Data::back([7; 3]), Data::back(batch.clone()), Data::back(angles.clone())];
    let buffers = [&buffers[..], others].concat();
    let got = bench.run(kernel, &params, &buffers, grid::by_row(1)).await?;
    let mut chosen = [7; 3];
    chosen[done] = token;
    same(name, &got[0], &chosen)?;
    batch[4] += 1;
    if done < 2 {
        let position = batch[BATCH_HEAD + BATCH_ROW * (done + 1)];
        (batch[3], batch[BATCH_HEAD], batch[BATCH_HEAD + 1]) = (position, position, token);
        batch[runs + 2] = batch[runs + 3];
        angles.copy_within((done + 1) * WIDTH..(done + 2) * WIDTH, 0);
    }
    same("the row after a choice", &got[1], &batch)?;
    same("the row after a choice", &got[2], &angles)
}
