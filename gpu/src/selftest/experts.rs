//! The choice of the experts of a row, and their matrices.

use gleed::kernels::{Combine, Level};
use gleed::nn::{Choice, RouterScores, Routing};
use gleed::num::settle;

use super::linear::{Case, is_for_floats, name};
use super::random::Random;
use super::{Bench, Data, bits, largest, same};
use crate::catalog::{Kernel, Weights};
use crate::error::GpuError;
use crate::grid;
use crate::params::{Experts, Linear, NONE, Route, mode};

/// Largest number of experts of a layer.
pub(crate) const MOST_EXPERTS: usize = 512;

/// Returns the number of a kind of scores in `route.wgsl`.
pub(crate) fn scores_number(scores: RouterScores) -> u32 {
    match scores {
        RouterScores::SoftmaxOfChosen => 0,
        RouterScores::Softmax => 1,
        RouterScores::Sigmoid => 2,
    }
}

pub(super) async fn route(bench: &Bench<'_>, random: &mut Random) -> Result<(), GpuError> {
    let off = Routing::SOFTMAX_OF_CHOSEN;
    let cases = [
        (128, 8, Routing { scores: RouterScores::Softmax, normalized: true, ..off }, false, false),
        (8, 2, off, false, false),
        (32, 4, off, true, false),
        (
            512,
            10,
            Routing { scores: RouterScores::Sigmoid, normalized: true, epsilon: 1e-20, scale: 2.5, ..off },
            true,
            true,
        ),
        (5, 5, Routing { scores: RouterScores::Softmax, logit_scale: 0.37, ..off }, false, true),
        (300, 1, Routing { scores: RouterScores::Sigmoid, ..off }, false, false),
        (256, 8, Routing { scores: RouterScores::Sigmoid, groups: 8, groups_used: 4, ..off }, true, false),
        (64, 1, Routing { groups: 64, groups_used: 2, ..off }, true, false),
        (12, 3, Routing { scores: RouterScores::Softmax, groups: 4, groups_used: 1, ..off }, false, false),
    ];
    for &(experts, used, routing, has_biases, has_scales) in bench.some(&cases) {
        let vector = |random: &mut Random, is: bool| if is { random.moderate(experts) } else { Vec::new() };
        let vectors = [vector(random, has_biases), vector(random, has_scales)];
        route_case(bench, random, (experts, used), routing, &vectors).await?;
    }
    Ok(())
}

/// Tests three rows: moderate logits, some equal, all equal. Then one logit is NaN.
async fn route_case(
    bench: &Bench<'_>,
    random: &mut Random,
    (experts, used): (usize, usize),
    routing: Routing,
    [biases, scales]: &[Vec<f32>; 2],
) -> Result<(), GpuError> {
    let rounded: Vec<f32> = random.moderate(experts).into_iter().map(f32::round).collect();
    let logits = [random.moderate(experts), rounded, vec![-1.25; experts]].concat();
    let (rows, before) = (3, 5);
    let at = |vector: &[f32], first: usize| if vector.is_empty() { NONE } else { first as u32 };
    let params = Route {
        zero: 0,
        experts: experts as u32,
        used: used as u32,
        scores: scores_number(routing.scores),
        normalized: u32::from(routing.normalized),
        epsilon: routing.epsilon,
        scale: routing.scale,
        logit_scale: routing.logit_scale,
        biases: at(biases, 1),
        scales: at(scales, 1 + biases.len()),
        weights: before,
        flag: 2,
        groups: routing.groups,
        groups_used: routing.groups_used,
        logits_at: 3,
        logits_stride: experts as u32 + 1,
    };
    let buffers = |logits: &[f32]| {
        [
            Data::floats(&spaced(logits, experts)),
            Data::back(vec![7; rows * used]),
            Data::back(vec![7; before as usize + rows * used]),
            Data::floats(&[&[9.0][..], biases, scales].concat()),
            Data::back([0; 4]),
        ]
    };
    let got = bench.run(Kernel::Route, &params, &buffers(&logits), grid::by_row(rows)).await?;
    let (mut chosen, mut weights) = (Vec::new(), vec![7; before as usize]);
    let bytes: Vec<[u8; 4]> = biases.iter().map(|bias| bias.to_le_bytes()).collect();
    for row in logits.chunks(experts) {
        let (mut scores, mut out) = (vec![0.0; experts], vec![Choice::default(); used]);
        routing.choose(row, &bytes, &mut scores, &mut out).ok_or(GpuError::Mismatch("the choice of experts"))?;
        for choice in out {
            let scale = scales.get(choice.expert as usize);
            chosen.push(choice.expert);
            weights.push(scale.map_or(choice.weight, |&scale| settle(choice.weight * settle(scale))).to_bits());
        }
    }
    same("the choice of experts", &got[0], &chosen)?;
    same("the weights of experts", &got[1], &weights)?;
    same("the check for numbers that are not finite", &got[2], &[0; 4])?;
    let mut bad = logits;
    bad[random.below(rows * experts)] = f32::NAN;
    let got = bench.run(Kernel::Route, &params, &buffers(&bad), grid::by_row(rows)).await?;
    same("the check for numbers that are not finite", &got[2], &[0, 0, 1, 0])
}

/// Returns rows of logits behind three other numbers, with one number behind each row.
fn spaced(logits: &[f32], experts: usize) -> Vec<f32> {
    let rows = logits.chunks(experts).flat_map(|row| [row, &[9.0]].concat());
    [9.0; 3].into_iter().chain(rows).collect()
}

/// Tests matrices of experts, of which some are in the buffer: from inputs to gated activations, and from these to
/// results.
pub(super) async fn products(
    bench: &Bench<'_>,
    kernel: Kernel,
    weights: Weights,
    random: &mut Random,
) -> Result<(), GpuError> {
    for mode in [mode::GATE, mode::ACTIVATE] {
        expert_case(bench, kernel, weights, random, mode).await?;
    }
    if is_for_floats(kernel) { expert_case(bench, kernel, weights, random, mode::SET).await } else { Ok(()) }
}

/// Tests matrices of experts from gated activations, which are floats, to results.
pub(super) async fn raw_products(bench: &Bench<'_>, weights: Weights, random: &mut Random) -> Result<(), GpuError> {
    expert_case(bench, Kernel::Raw(weights), weights, random, mode::SET).await
}

async fn expert_case(
    bench: &Bench<'_>,
    kernel: Kernel,
    weights: Weights,
    random: &mut Random,
    mode: u32,
) -> Result<(), GpuError> {
    // The buffer has the matrices of experts 4 to 6. A matrix has some rows before those that are used.
    let (experts, rows, each, first, used) = (3, 3, 24, 4_usize, 2);
    let choices = [4, 6, 3, 5, 7, 4];
    let inputs = if mode == mode::SET { rows * used } else { rows };
    let case = Case::new(random, weights, 512, [experts * each, 0, 0], inputs);
    let is_input = mode != mode::SET;
    let (outputs, activation) = (if is_input { 11 } else { 19 }, super::ACTIVATIONS[0]);
    let plain = case.params(mode::SET);
    let words = if is_input { outputs } else { case.cols }.div_ceil(32);
    let mut params = Linear {
        mode,
        y_stride: outputs as u32,
        raw: u32::from(!is_input),
        x_stride: if is_input { plain.x_stride } else { case.cols as u32 },
        // There is room for other words behind the largest magnitudes of the experts.
        largest: (used * words + 1) as u32,
        experts: Experts {
            used: used as u32,
            first: first as u32,
            count: 3,
            bytes: each as u32 * plain.row_bytes,
            rows: each as u32,
            largest: words as u32,
        },
        ..plain
    };
    let parts = if mode == mode::GATE { vec![1, 13] } else { vec![5] };
    for (&start, segment) in parts.iter().zip(&mut params.segments) {
        (segment.at, segment.outputs) = (plain.segments[0].at + start as u32 * plain.row_bytes, outputs as u32);
        (segment.y_at, segment.bias) = (0, start as u32);
    }
    // The vector has biases of all experts of the layer.
    let vector = [vec![9.0; first * each], case.vector.clone()].concat();
    let mut case = case;
    case.vector = vector;
    let mut want = vec![0.5_f32.to_bits(); choices.len() * outputs];
    let mut magnitudes = vec![0; choices.len() / used * params.largest as usize];
    for (pair, &expert) in choices.iter().enumerate() {
        let place = pair / used * params.largest as usize + pair % used * words;
        if !is_input {
            let floats = &case.floats[pair * case.cols..][..case.cols];
            magnitudes[place..place + words].copy_from_slice(&largest(&bits(floats)));
        }
        let Some(here) = (expert as usize).checked_sub(first).filter(|&here| here < 3) else { continue };
        let dots = &case.dots[if is_input { pair / used } else { pair }];
        let of = |start: usize| -> Vec<f32> {
            let from = here * each + start;
            let biased = |i| dots[i] + settle(case.vector[first * each + i]);
            (from..from + outputs).map(biased).collect()
        };
        let mut y = of(parts[0]);
        if is_input {
            match parts.get(1) {
                Some(&up) => Level::SCALAR.combine(Combine::Gate(activation), &mut y, &of(up)),
                None => Level::SCALAR.combine(Combine::Activate(activation), &mut y, &of(parts[0])),
            }
            magnitudes[place..place + words].copy_from_slice(&largest(&bits(&y)));
        }
        want[pair * outputs..][..outputs].copy_from_slice(&bits(&y));
    }
    let input = if is_input { vec![0; magnitudes.len()] } else { magnitudes.clone() };
    let grid = grid::linear(kernel, &params, choices.len() / used);
    let got = case.run_with(bench, (kernel, grid), &params, &vec![0.5; want.len()], (choices.to_vec(), input)).await?;
    same(name(case.weights), &got[0], &want)?;
    same("the largest activations", &got[2], &magnitudes)
}
