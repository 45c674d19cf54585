//! Rotation, keys and values, attention.

use bytemuck::Zeroable;
use gleed::kernels::{KvElement, KvSource, Level, Norm, NormKind, Partial, Queries, Visibility, Window};
use gleed::mem::Matrix;
use gleed::nn::{RopePairs, rotate};
use gleed::num::sigmoid;

use super::random::Random;
use super::world::{Case, ELEMENTS, Heads, World, cases, own, store_random};
use super::{Bench, Data, bits, largest, same, same_settled};
use crate::catalog::{AtOnce, Kernel};
use crate::error::GpuError;
use crate::grid;
use crate::params::{Attend, BATCH_HEAD, BATCH_PARALLEL, BATCH_ROW, NONE, Scores, Store, head_norms};

/// Returns the words of a batch: rows of one sequence, at successive positions.
fn batch(first: usize, rows: usize, table: u32) -> Vec<u32> {
    let mut words = vec![0; BATCH_HEAD + BATCH_ROW * rows];
    words[..4].copy_from_slice(&[rows as u32, rows as u32, rows as u32, (first + rows - 1) as u32]);
    for (index, row) in words[BATCH_HEAD..].chunks_mut(BATCH_ROW).enumerate() {
        row[0] = (first + index) as u32;
        row[2] = table;
    }
    words
}

/// Returns a [`batch`] whose chunks are added up in parallel.
fn batch_of_few(first: usize, rows: usize) -> Vec<u32> {
    let mut words = batch(first, rows, 0);
    words[BATCH_PARALLEL] = 1;
    words
}

pub(super) async fn store(bench: &Bench<'_>, kernel: Kernel, random: &mut Random) -> Result<(), GpuError> {
    let [f16, q8, f32, q4] = ELEMENTS;
    let shapes = [
        (64, [f16, f16]),
        (96, [q8, q8]),
        (64, [f16, q8]),
        (256, [q8, f16]),
        (40, [q8, q8]),
        (64, [f32, q4]),
        (43, [q4, f32]),
        (512, [f16, q8]),
    ];
    let both = head_norms::QUERIES | head_norms::KEYS;
    let (whole, own, centers) = (head_norms::WHOLE_ROW, head_norms::OWN_WEIGHTS, head_norms::CENTERS);
    let (adjacent, halves) = (RopePairs::Adjacent, RopePairs::Halves);
    let (values, of_keys) = (head_norms::VALUES, head_norms::VALUES | head_norms::KEYS_AS_VALUES);
    // How heads are rotated, their norms, the clamp, whether queries have a temperature.
    let ways = [
        (adjacent, 0, 0.0, false),
        (halves, both, 0.0, false),
        (halves, head_norms::KEYS, 1.5, true),
        (adjacent, both | head_norms::AFTER_ROTATION, 0.0, false),
        (halves, both | whole, 1.5, false),
        (adjacent, both | own | centers, 0.0, false),
        (halves, both | whole | centers, 0.0, true),
        (adjacent, both | whole | values, 1.5, false),
        (halves, both | of_keys, 1.5, false),
    ];
    for (index, &(dim, element)) in
        bench.some(&shapes).iter().enumerate().filter(|(_, (_, element))| are_built(*element))
    {
        // How heads are stored does not depend on their norms.
        let ways = if index < 2 { &ways[..] } else { &ways[..4] };
        for &(pairs, norms, clamp, falls) in ways {
            let heads = Heads { heads: 4, kv_heads: 2, dim, element };
            store_case(bench, (kernel, random), heads, pairs, norms, clamp, falls).await?;
        }
    }
    Ok(())
}

pub(super) async fn chunks(bench: &Bench<'_>, random: &mut Random) -> Result<(), GpuError> {
    for case in bench.some(&cases()).iter().filter(|case| are_built(case.element)) {
        chunks_case(bench, random, case).await?;
    }
    Ok(())
}

/// Tests chunks that are added up beside the store of keys and values.
async fn chunks_case(bench: &Bench<'_>, random: &mut Random, case: &Case) -> Result<(), GpuError> {
    let (world, turned) = (World::new(random, case, World::HEADS, World::ROWS), 16);
    let (heads, rows, dim) = (world.heads, World::ROWS, world.heads.dim);
    let rotations = random.moderate(rows * turned);
    let (qkv, vector) = (random.moderate(rows * heads.width()), [&[9.0, 8.0][..], &world.slopes].concat());
    let mut rotated = qkv.clone();
    for (row, rotation) in rotated.chunks_mut(heads.width()).zip(rotations.chunks(turned)) {
        let turn = |head: &mut [f32]| rotate(head, rotation, RopePairs::Adjacent);
        row[..(heads.heads + heads.kv_heads) * dim].chunks_mut(dim).for_each(turn);
    }
    let params = Store {
        q_norm: NONE,
        k_norm: NONE,
        turned: turned as u32,
        rotation_stride: turned as u32,
        temperature: NONE,
        shape: heads.shape(),
        scores: world.scores(2),
        ..Store::zeroed()
    };
    let (queries, parts) = (world.queries_of(&rotated), world.parts(&rotated)?);
    let unwritten = vec![7; queries.len() + parts.len()];
    let buffers = [
        Data::read(batch_of_few(case.first, rows)),
        Data::read(world.table.clone()),
        Data::back([bits(&qkv), unwritten].concat()),
        Data::floats(&rotations),
        Data::floats(&vector),
        Data::back(world.pool.clone()),
        Data::back([0; 4]),
    ];
    let chunks = (case.first + rows - 1) / grid::CHUNK;
    let grid = grid::by_chunk(rows, heads.heads + 2 * heads.kv_heads, chunks.min(world.chunks()));
    let got = bench.run(Kernel::Store, &params, &buffers, grid).await?;
    let want = [bits(&qkv), bits(&queries)].concat();
    let (stored, sums) = got[0].split_at(want.len());
    same_settled("norms and rotation of heads", stored, &want)?;
    // Nothing is written for chunks that are not ready.
    let sums: Vec<_> =
        sums.iter().zip(&parts).map(|(&got, part)| if part.is_none() && got == 7 { 0 } else { got }).collect();
    same("chunks of attention", &sums, &parts.iter().map(|part| part.map_or(0, f32::to_bits)).collect::<Vec<_>>())?;
    let mut pool = world.pool.clone();
    for (index, row) in rotated.chunks(heads.width()).enumerate() {
        let (k, v) = row[heads.heads * dim..].split_at(heads.kv_heads * dim);
        for (head, kv) in k.chunks(dim).zip(v.chunks(dim)).enumerate() {
            let position = case.first + index;
            heads.store(&mut pool, world.table[position / 16] as usize, position % 16, head, [kv.0, kv.1]);
        }
    }
    same_words("keys and values", &got[1], &pool)
}

/// Returns whether this build computes with these types at all. A model cannot ask for others.
fn are_built(element: [KvElement; 2]) -> bool {
    element.into_iter().all(KvElement::is_built)
}

/// Tests rows that begin inside of a block and end in the next. `norms` says which heads are normed, and when.
async fn store_case(
    bench: &Bench<'_>,
    (kernel, random): (Kernel, &mut Random),
    heads: Heads,
    pairs: RopePairs,
    norms: u32,
    clamp: f32,
    falls: bool,
) -> Result<(), GpuError> {
    let (rows, first, turned, dim) = (21, 6, (heads.dim - 8) & !1, heads.dim);
    let table = [9, 9, 2, 0, 1];
    let qkv: Vec<f32> = (0..rows).flat_map(|_| random.row(heads.width())).map(|x| x.clamp(-999.0, 999.0)).collect();
    // The vector has weights of queries and keys, then biases.
    let sizes = [heads.heads * dim, heads.kv_heads * dim];
    let starts = [0, sizes[0], sizes[0] + sizes[1], 2 * sizes[0] + sizes[1]];
    // The temperature of queries lies behind the angles.
    let stride = turned + 1;
    let (mut rotations, vector) = (random.moderate(rows * stride), random.moderate(2 * (sizes[0] + sizes[1])));
    // Temperatures are at most 1: a subnormal query, which a device may flush, must not become a normal one.
    rotations.iter_mut().skip(turned).step_by(stride).for_each(|factor| *factor = random.uniform());
    let (weighs, has_biases) = (norms & head_norms::QUERIES != 0, norms & head_norms::CENTERS != 0);
    let at = |is: bool, start: usize| if is { start as u32 } else { NONE };
    let mut pool: Vec<u32> = (0..heads.pool(3)).map(|_| random.bits() as u32).collect();
    let params = Store {
        zero: 0,
        q_norm: 0,
        k_norm: at(weighs, starts[1]),
        turned: turned as u32,
        halves: u32::from(pairs == RopePairs::Halves),
        rotation_stride: stride as u32,
        rotation_at: 0,
        epsilon: 1e-6,
        norms,
        flag: 0,
        clamp: clamp.to_bits(),
        q_bias: at(has_biases, starts[2]),
        k_bias: at(has_biases, starts[3]),
        temperature: at(falls, turned),
        unused: [0; 2],
        shape: heads.shape(),
        scores: Scores { queries: qkv.len() as u32, ..Scores::zeroed() },
    };
    let queries = vec![7; rows * heads.heads * dim];
    let buffers = [
        Data::read(batch(first, rows, 2)),
        Data::read(table),
        Data::back([bits(&qkv), queries].concat()),
        Data::floats(&rotations),
        Data::floats(&vector),
        Data::back(pool.clone()),
        Data::back([0; 4]),
    ];
    let grid = grid::by_head(rows, heads.heads + 2 * heads.kv_heads);
    let got = bench.run(kernel, &params, &buffers, grid).await?;
    let (mut row_values, mut queries) = (qkv.clone(), Vec::new());
    let clamped = |x: &mut f32| {
        if clamp > 0.0 {
            *x = x.clamp(-clamp, clamp)
        }
    };
    for (index, (row, rotation)) in row_values.chunks_mut(heads.width()).zip(rotations.chunks(stride)).enumerate() {
        let (rotation, factor) = rotation.split_at(turned);
        let (q, kv) = row.split_at_mut(heads.heads * dim);
        let (k, v) = kv.split_at(heads.kv_heads * dim);
        // Keys and values go to the pool only.
        let (mut k, mut v) = (k.to_vec(), v.to_vec());
        q.iter_mut().chain(&mut k).chain(&mut v).for_each(clamped);
        if norms & head_norms::KEYS_AS_VALUES != 0 {
            v.copy_from_slice(&k);
        }
        if norms & head_norms::VALUES != 0 {
            norm_heads(norms & head_norms::CENTERS, (&[], &[]), dim, &mut v);
        }
        let of = |is: bool, part: usize| if is { &vector[starts[part]..] } else { &[] };
        let q_norm = (of(true, 0), of(has_biases, 2));
        let k_norm = (of(weighs, 1), of(has_biases, 3));
        for (part, bit, weights) in [(&mut *q, head_norms::QUERIES, q_norm), (&mut k, head_norms::KEYS, k_norm)] {
            let (is_normed, after) = (norms & bit != 0, norms & head_norms::AFTER_ROTATION != 0);
            if is_normed && !after {
                norm_heads(norms, weights, dim, part);
            }
            part.chunks_mut(dim).for_each(|head| rotate(head, rotation, pairs));
            if is_normed && after {
                norm_heads(norms, weights, dim, part);
            }
        }
        if falls {
            q.iter_mut().for_each(|q| *q *= factor[0]);
        }
        queries.extend_from_slice(q);
        let position = first + index;
        for (head, kv) in k.chunks(dim).zip(v.chunks(dim)).enumerate() {
            heads.store(&mut pool, table[2 + position / 16] as usize, position % 16, head, [kv.0, kv.1]);
        }
    }
    same_settled("norms and rotation of heads", &got[0], &bits(&[qkv, queries].concat()))?;
    same_words("keys and values", &got[1], &pool)?;
    same("the check for numbers that are not finite", &got[2][..1], &[0])
}

/// [`same`] for words that are not floats: all bits count.
fn same_words(operation: &'static str, got: &[u32], want: &[u32]) -> Result<(), GpuError> {
    if got == want { Ok(()) } else { Err(GpuError::Unfit { operation }) }
}

/// Norms all heads of queries or keys, as one row or each by itself. Weights and biases have at least as many elements,
/// or are empty.
fn norm_heads(norms: u32, (weights, biases): (&[f32], &[f32]), dim: usize, heads: &mut [f32]) {
    let bytes = |vector: &[f32], range: std::ops::Range<usize>| -> Vec<u8> {
        vector.get(range).unwrap_or_default().iter().flat_map(|x| x.to_le_bytes()).collect()
    };
    let len = if norms & head_norms::WHOLE_ROW == 0 { dim } else { heads.len() };
    let kind = if norms & head_norms::CENTERS == 0 { NormKind::Rms } else { NormKind::Layer };
    for (index, row) in heads.chunks_mut(len).enumerate() {
        let first = if norms & head_norms::OWN_WEIGHTS == 0 { 0 } else { index * len };
        let (weight, bias) = (bytes(weights, first..first + len), bytes(biases, 0..len));
        Level::SCALAR.norm_in_place(&Norm { kind, epsilon: 1e-6, weight: &weight, bias: &bias }, row);
    }
}

pub(super) async fn attend(bench: &Bench<'_>, random: &mut Random) -> Result<(), GpuError> {
    for case in bench.some(&cases()).iter().filter(|case| are_built(case.element)) {
        for is_parallel in [true, false] {
            attend_case(bench, random, (Kernel::Attend, is_parallel), case, World::HEADS, World::ROWS).await?;
        }
    }
    Ok(())
}

/// Tests groups of four queries. A group has several rows where one or two heads share a KV head. Where more than four
/// heads share one, a row has several groups. Where a workgroup has several groups, the last workgroup has fewer rows
/// than it has room for.
pub(super) async fn attend_many(bench: &Bench<'_>, at_once: AtOnce, random: &mut Random) -> Result<(), GpuError> {
    let kernel = Kernel::AttendMany(at_once);
    let fits = |dim| AtOnce::most(dim) >= at_once;
    let heads = [[4, 2], [2, 2], [6, 2], [5, 1], [4, 1], [8, 1]];
    for (case, heads) in bench.some(&cases()).iter().zip(heads.into_iter().cycle()) {
        if are_built(case.element) && fits(case.dim) {
            attend_case(bench, random, (kernel, false), case, heads, World::ROWS).await?;
        }
    }
    let [f16, q8, f32, _] = ELEMENTS;
    // Heads that share a KV head, types of keys and values, elements of a head, first position, rows, last positions
    // that are seen.
    let wide = [
        (2, [f16, f16], 64, 250, 11, 0),
        (1, [f16, f16], 64, 250, 21, 0),
        (4, [f16, f16], 64, 500, 6, 20),
        (3, [f16, f16], 128, 254, 5, 0),
        (8, [q8, q8], 64, 250, 7, 0),
        (4, [f16, q8], 96, 300, 4, 40),
        (2, [q8, f16], 80, 510, 7, 0),
        (5, [f32, f32], 48, 20, 6, 0),
        (4, [f16, f16], 40, 0, 2, 0),
        (1, [f16, f16], 128, 0, 9, 30),
        (2, [f16, f16], 256, 255, 5, 0),
    ];
    for &(sharing, element, dim, first, rows, last) in bench.some(&wide) {
        let visibility = Visibility::new(Window { sinks: if last == 0 { 0 } else { 3 }, last }, 0);
        let case = Case { visibility, element, dim, first, cap: 0.0, slopes: sharing == 4, sinks: sharing > 2 };
        if are_built(element) && fits(dim) {
            attend_case(bench, random, (kernel, false), &case, [2 * sharing, 2], rows).await?;
        }
    }
    Ok(())
}

/// Tests attention of some rows. With `is_parallel` the ready chunks were added up before. Without it every third row
/// from the second on is of another sequence, which has the same blocks.
async fn attend_case(
    bench: &Bench<'_>,
    random: &mut Random,
    (kernel, is_parallel): (Kernel, bool),
    case: &Case,
    heads: [usize; 2],
    rows: usize,
) -> Result<(), GpuError> {
    let mut world = World::new(random, case, heads, rows);
    let (heads, dim) = (world.heads, case.dim);
    for position in case.first..case.first + rows {
        store_random(random, &mut world.pool, &world.table, heads, position);
    }
    let group = heads.heads / heads.kv_heads;
    let sinks = if case.sinks { random.moderate(heads.heads) } else { Vec::new() };
    // Slopes and sink scores lie behind two other numbers.
    let vector = [&[9.0, 8.0][..], &world.slopes, &sinks].concat();
    let qkv = random.moderate(rows * heads.width());
    let (width, words) = (heads.heads * dim, heads.heads * dim / 32);
    // Gates are where keys and values were: one for each element, or for each head.
    let gated = match (is_parallel, case.sinks) {
        (true, _) => None,
        (false, is_of_head) => Some(if is_of_head || heads.heads > 2 * heads.kv_heads { dim } else { 1 }),
    };
    let params = Attend {
        zero: 0,
        out_stride: width as u32,
        largest: words as u32,
        sink_scores: if sinks.is_empty() { NONE } else { 2 + world.slopes.len() as u32 },
        gates: gated.map_or(0, |_| width as u32),
        gated: gated.unwrap_or(1) as u32,
        unused: [0; 2],
        shape: heads.shape(),
        scores: world.scores(2),
    };
    let parts: Vec<u32> = world.parts(&qkv)?.into_iter().map(|part| part.map_or(7, f32::to_bits)).collect();
    let (batch, parts) = match is_parallel {
        true => (batch_of_few(case.first, rows), parts),
        false => (batch(case.first, rows, 0), vec![7; parts.len()]),
    };
    let (mut batch, table) = (batch, [world.table.clone(), world.table.clone()].concat());
    if !is_parallel {
        let others = batch[BATCH_HEAD..].chunks_mut(BATCH_ROW).skip(1).step_by(3);
        others.for_each(|row| row[2] = world.table.len() as u32);
    }
    let grid = match kernel {
        Kernel::AttendMany(at_once) => grid::by_queries(rows, [heads.heads, heads.kv_heads], at_once),
        _ => grid::by_head(rows, heads.heads),
    };
    let buffers = [
        Data::read(batch),
        Data::read(table),
        Data::read([bits(&qkv), bits(&world.queries_of(&qkv)), parts].concat()),
        Data::read(world.pool.clone()),
        Data::back(vec![0; rows * width]),
        Data::back(vec![0; rows * words]),
        Data::floats(&vector),
    ];
    let got = bench.run(kernel, &params, &buffers, grid).await?;
    let mut want = vec![0.0; rows * heads.heads * dim];
    for head in 0..heads.kv_heads {
        let mismatch = GpuError::Mismatch("scalar attention");
        let queries = world.queries(&qkv, 0..rows, head);
        let out = scalar(&queries, &world.source(), own(&sinks, group, head)).ok_or(mismatch)?;
        for (row, out) in out.chunks(group * dim).enumerate() {
            want[(row * heads.heads + head * group) * dim..][..group * dim].copy_from_slice(out);
        }
    }
    if let Some(gated) = gated {
        for (row, heads) in want.chunks_mut(width).zip(qkv.chunks(heads.width())) {
            row.iter_mut().enumerate().for_each(|(i, x)| *x *= sigmoid(heads[width + i / gated]));
        }
    }
    same("attention", &got[0], &bits(&want))?;
    same("the largest activations", &got[1], &largest(&bits(&want)))
}

/// Returns the scalar code's results for the heads that share a KV head.
fn scalar(queries: &Queries<'_>, source: &dyn KvSource, sinks: &[f32]) -> Option<Vec<f32>> {
    let (rows, group, head_dim) = (queries.rows, queries.group, queries.head_dim);
    let partial = Partial { group, head_dim };
    let width = partial.elements()?;
    let mut sums = vec![0.0; rows * width];
    let mut scratch = vec![0.0; Level::SCALAR.attend_scratch(rows, group, head_dim)?];
    let mut tile = Matrix::new(&mut sums, rows, width)?.tiles(rows, width, 0..1)?.next()?;
    Level::SCALAR.attend(queries, 0..usize::MAX, source, &mut tile, &mut scratch)?;
    let mut out = vec![0.0; rows * group * head_dim];
    for (sums, out) in sums.chunks(width).zip(out.chunks_mut(group * head_dim)) {
        partial.finish(sums, &sinks.iter().map(|sink| sink.to_le_bytes()).collect::<Vec<_>>(), out)?;
    }
    Some(out)
}
