//! Rotation, keys and values, attention.

use bytemuck::Zeroable;
use gleed::kernels::{
    Elements, ElementsMut, KvElement, KvSource, KvTile, KvTileMut, Level, Norm, NormKind, Partial, Queries, Scores,
    Visibility, Window,
};
use gleed::mem::Matrix;
use gleed::nn::{RopePairs, rotate};

use super::random::Random;
use super::{Bench, Data, bits, largest, same, same_settled};
use crate::catalog::Kernel;
use crate::error::GpuError;
use crate::grid;
use crate::params::{Attend, BATCH_HEAD, BATCH_ROW, NONE, Shape, Store};

/// Element types of the cache that run on a GPU, by their numbers in `kv.wgsl`.
pub(crate) const ELEMENTS: [KvElement; 4] = [KvElement::F16, KvElement::Q8_0, KvElement::F32, KvElement::Q4_0];

/// Heads, and the pool of a sequence.
#[derive(Clone, Copy)]
struct Heads {
    heads: usize,
    kv_heads: usize,
    dim: usize,
    element: [KvElement; 2],
}

/// Layers in the pool, of which the last one is tested.
const LAYERS: usize = 2;

impl Heads {
    fn words(&self) -> [usize; 2] {
        let [k, v] = self.element;
        [k.k_tile(self.dim), v.v_tile(self.dim)].map(|bytes| bytes.unwrap_or(0) / 4)
    }

    fn shape(&self) -> Shape {
        let number = |element| ELEMENTS.iter().position(|&other| other == element).unwrap_or(0) as u32;
        let ([k_words, v_words], [k_type, v_type]) = (self.words(), self.element.map(number));
        Shape {
            heads: self.heads as u32,
            kv_heads: self.kv_heads as u32,
            dim: self.dim as u32,
            qkv_stride: self.width() as u32,
            layer: LAYERS as u32 - 1,
            layers: LAYERS as u32,
            k_type,
            v_type,
            k_words: k_words as u32,
            v_words: v_words as u32,
            ..Shape::zeroed()
        }
    }

    fn width(&self) -> usize {
        (self.heads + 2 * self.kv_heads) * self.dim
    }

    /// The words of the tiles of a head.
    fn tiles(&self, block: usize, head: usize) -> [std::ops::Range<usize>; 2] {
        let [k, v] = self.words();
        let start = ((block * LAYERS + LAYERS - 1) * self.kv_heads + head) * (k + v);
        [start..start + k, start + k..start + k + v]
    }

    fn pool(&self, blocks: usize) -> usize {
        blocks * LAYERS * self.kv_heads * self.words().iter().sum::<usize>()
    }

    /// Stores a head in the place that the table gives its position.
    fn store(&self, pool: &mut [u32], block: usize, slot: usize, head: usize, kv: [&[f32]; 2]) {
        let [k, v] = self.tiles(block, head);
        let (front, back) = pool.split_at_mut(v.start);
        let (k, v) = (&mut front[k], &mut back[..v.len()]);
        let made = (ElementsMut::new(self.element[0], k), ElementsMut::new(self.element[1], v));
        if let (Some(k), Some(v)) = made {
            let _ = Level::SCALAR.store(KvTileMut { k, v }, slot, &[kv]);
        }
    }
}

/// A batch of rows of one sequence, at successive positions.
fn batch(first: usize, rows: usize, table: u32) -> Vec<u32> {
    let mut words = vec![0; BATCH_HEAD + BATCH_ROW * rows];
    words[..4].copy_from_slice(&[rows as u32, rows as u32, rows as u32, (first + rows - 1) as u32]);
    for (index, row) in words[BATCH_HEAD..].chunks_mut(BATCH_ROW).enumerate() {
        row[0] = (first + index) as u32;
        row[2] = table;
    }
    words
}

pub(super) async fn store(bench: &Bench<'_>, random: &mut Random) -> Result<(), GpuError> {
    let [f16, q8, f32, q4] = ELEMENTS;
    let shapes = [
        (64, [f16, f16]),
        (96, [q8, q8]),
        (64, [f16, q8]),
        (256, [q8, f16]),
        (40, [q8, q8]),
        (64, [f32, q4]),
        (43, [q4, f32]),
    ];
    for &(dim, element) in bench.some(&shapes).iter().filter(|(_, element)| are_built(*element)) {
        let (adjacent, halves) = (RopePairs::Adjacent, RopePairs::Halves);
        for (pairs, norms, clamp) in [(adjacent, 0, 0.0), (halves, 3, 0.0), (halves, 2, 1.5), (adjacent, 7, 0.0)] {
            let heads = Heads { heads: 4, kv_heads: 2, dim, element };
            store_case(bench, random, heads, pairs, norms, clamp).await?;
        }
    }
    Ok(())
}

/// Whether this build computes with these types at all: a model cannot ask for others.
fn are_built(element: [KvElement; 2]) -> bool {
    element.into_iter().all(KvElement::is_built)
}

/// Rows that begin inside of a block and end in the next; `norms` says which heads are normed, and when.
async fn store_case(
    bench: &Bench<'_>,
    random: &mut Random,
    heads: Heads,
    pairs: RopePairs,
    norms: u32,
    clamp: f32,
) -> Result<(), GpuError> {
    let (rows, first, turned, dim) = (21, 6, (heads.dim - 8) & !1, heads.dim);
    let table = [9, 9, 2, 0, 1];
    let qkv: Vec<f32> = (0..rows).flat_map(|_| random.row(heads.width())).map(|x| x.clamp(-999.0, 999.0)).collect();
    let (rotations, vector) = (random.moderate(rows * turned), random.moderate(2 * dim));
    let mut pool: Vec<u32> = (0..heads.pool(3)).map(|_| random.bits() as u32).collect();
    let params = Store {
        zero: 0,
        q_norm: 0,
        k_norm: if norms & 1 == 0 { NONE } else { dim as u32 },
        turned: turned as u32,
        halves: u32::from(pairs == RopePairs::Halves),
        rotation_stride: turned as u32,
        rotation_at: 0,
        epsilon: 1e-6,
        norms,
        flag: 0,
        clamp: clamp.to_bits(),
        unused: 0,
        shape: heads.shape(),
    };
    let buffers = [
        Data::read(batch(first, rows, 2)),
        Data::read(table),
        Data::back(bits(&qkv)),
        Data::floats(&rotations),
        Data::floats(&vector),
        Data::back(pool.clone()),
        Data::back([0; 4]),
    ];
    let grid = grid::by_head(rows, heads.heads + 2 * heads.kv_heads);
    let got = bench.run(Kernel::Store, &params, &buffers, grid).await?;
    let mut want = qkv;
    let clamped = |x: &mut f32| {
        if clamp > 0.0 {
            *x = x.clamp(-clamp, clamp)
        }
    };
    for (index, (row, rotation)) in want.chunks_mut(heads.width()).zip(rotations.chunks(turned)).enumerate() {
        let (q, kv) = row.split_at_mut(heads.heads * dim);
        let (k, v) = kv.split_at(heads.kv_heads * dim);
        // Only queries are written back.
        let (mut k, mut v) = (k.to_vec(), v.to_vec());
        q.iter_mut().chain(&mut k).chain(&mut v).for_each(clamped);
        let k_weight = if norms & 1 == 0 { &[] } else { &vector[dim..] };
        for (part, bit, weight) in [(q, 1, &vector[..dim]), (&mut k, 2, k_weight)] {
            for head in part.chunks_mut(dim) {
                let (is_normed, after) = (norms & bit != 0, norms & 4 != 0);
                if is_normed && !after {
                    norm(weight, head);
                }
                rotate(head, rotation, pairs);
                if is_normed && after {
                    norm(weight, head);
                }
            }
        }
        let position = first + index;
        for (head, kv) in k.chunks(dim).zip(v.chunks(dim)).enumerate() {
            heads.store(&mut pool, table[2 + position / 16] as usize, position % 16, head, [kv.0, kv.1]);
        }
    }
    same_settled("norms and rotation of heads", &got[0], &bits(&want))?;
    same_words("keys and values", &got[1], &pool)?;
    same("the check for numbers that are not finite", &got[2][..1], &[0])
}

/// All bits count here: words are no floats.
fn same_words(operation: &'static str, got: &[u32], want: &[u32]) -> Result<(), GpuError> {
    if got == want { Ok(()) } else { Err(GpuError::Unfit { operation }) }
}

fn norm(weight: &[f32], head: &mut [f32]) {
    let weight: Vec<u8> = weight.iter().flat_map(|w| w.to_le_bytes()).collect();
    Level::SCALAR.norm_in_place(&Norm { kind: NormKind::Rms, epsilon: 1e-6, weight: &weight, bias: &[] }, head);
}

/// A pool as the CPU sees it.
struct Source<'p> {
    heads: Heads,
    pool: &'p [u32],
    table: &'p [u32],
}

impl KvSource for Source<'_> {
    fn elements(&self) -> [KvElement; 2] {
        self.heads.element
    }

    fn tile(&self, index: usize, head: usize) -> Option<KvTile<'_>> {
        let [k, v] = self.heads.tiles(*self.table.get(index)? as usize, head);
        let [k_type, v_type] = self.heads.element;
        Some(KvTile { k: Elements::new(k_type, self.pool.get(k)?)?, v: Elements::new(v_type, self.pool.get(v)?)? })
    }
}

pub(super) async fn attend(bench: &Bench<'_>, random: &mut Random) -> Result<(), GpuError> {
    let [f16, q8, f32, q4] = ELEMENTS;
    // Sinks, the last positions, the model's window; the first of the rows; a soft cap; slopes and scores of sinks.
    let cases = [
        ((0, 0, 0), [f16, f16], 64, 250, 0.0, [false, false]),
        ((0, 40, 0), [q8, q8], 256, 530, 50.0, [false, false]),
        ((3, 20, 0), [f16, q8], 64, 0, 0.0, [false, true]),
        ((3, 20, 300), [q8, f16], 64, 600, 0.0, [true, false]),
        ((0, 0, 270), [f16, f16], 64, 700, 0.0, [false, false]),
        ((0, 0, 0), [f32, q4], 64, 300, 0.0, [true, false]),
        ((0, 0, 0), [q4, f32], 96, 270, 30.0, [true, true]),
        ((0, 40, 0), [q4, q4], 64, 20, 0.0, [false, true]),
    ];
    for &((sinks, last, own), element, dim, first, cap, [slopes, scores]) in bench.some(&cases) {
        if !are_built(element) {
            continue;
        }
        let heads = Heads { heads: 4, kv_heads: 2, dim, element };
        let mut of_heads = |is: bool| if is { random.moderate(heads.heads) } else { Vec::new() };
        let vectors = [of_heads(slopes), of_heads(scores)];
        attend_case(bench, random, heads, Visibility::new(Window { sinks, last }, own), first, cap, &vectors).await?;
    }
    Ok(())
}

/// Three rows from position `first` on. `vectors` are slopes and scores of sinks, if there are any.
async fn attend_case(
    bench: &Bench<'_>,
    random: &mut Random,
    heads: Heads,
    visibility: Visibility,
    first: usize,
    cap: f32,
    vectors: &[Vec<f32>; 2],
) -> Result<(), GpuError> {
    let (rows, dim, group) = (3, heads.dim, heads.heads / heads.kv_heads);
    let [slopes, sinks] = vectors;
    // Behind others.
    let vector = [&[9.0, 8.0][..], slopes, sinks].concat();
    let at = |vector: &[f32], first: usize| if vector.is_empty() { NONE } else { first as u32 };
    let blocks = (first + rows).div_ceil(16);
    // Blocks in another order; what no token has written is all ones.
    let table: Vec<u32> = (0..blocks as u32).rev().collect();
    let mut pool = vec![u32::MAX; heads.pool(blocks)];
    for position in 0..first + rows {
        for head in 0..heads.kv_heads {
            let [k, v] = [random.moderate(dim), random.moderate(dim)];
            heads.store(&mut pool, table[position / 16] as usize, position % 16, head, [&k, &v]);
        }
    }
    let qkv = random.moderate(rows * heads.width());
    let scale = 1.0 / (dim as f32).sqrt();
    let (width, words) = (heads.heads * dim, heads.heads * dim / 32);
    let params = Attend {
        out_stride: width as u32,
        largest: words as u32,
        slopes: at(slopes, 2),
        sink_scores: at(sinks, 2 + slopes.len()),
        ..attend_params(heads.shape(), visibility, scale, cap)
    };
    let buffers = [
        Data::read(batch(first, rows, 0)),
        Data::read(table.clone()),
        Data::floats(&qkv),
        Data::read(pool.clone()),
        Data::back(vec![0; rows * width]),
        Data::back(vec![0; rows * words]),
        Data::floats(&vector),
    ];
    let got = bench.run(Kernel::Attend, &params, &buffers, grid::by_head(rows, heads.heads)).await?;
    let source = Source { heads, pool: &pool, table: &table };
    let mut want = vec![0.0; rows * heads.heads * dim];
    for head in 0..heads.kv_heads {
        let queries = Queries {
            q: &qkv[head * group * dim..],
            stride: heads.width(),
            row: 0,
            rows,
            group,
            head_dim: dim,
            head,
            position: first,
            visibility,
            scores: Scores { soft_cap: cap, slopes: own(slopes, group, head), ..Scores::scaled(scale) },
        };
        let mismatch = GpuError::Mismatch("scalar attention");
        let out = scalar(&queries, &source, own(sinks, group, head)).ok_or(mismatch)?;
        for (row, out) in out.chunks(group * dim).enumerate() {
            want[(row * heads.heads + head * group) * dim..][..group * dim].copy_from_slice(out);
        }
    }
    same("attention", &got[0], &bits(&want))?;
    same("the largest activations", &got[1], &largest(&bits(&want)))
}

/// What a KV head has of a vector of heads, if there is one.
fn own(vector: &[f32], group: usize, head: usize) -> &[f32] {
    vector.chunks(group).nth(head).unwrap_or_default()
}

/// The results of the heads of a KV head.
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

/// What does not depend on the shape of a batch.
pub(crate) fn attend_params(shape: Shape, visibility: Visibility, scale: f32, cap: f32) -> Attend {
    let all = |count: usize| if count == 0 { u32::MAX } else { count as u32 };
    Attend {
        zero: 0,
        scale: scale.to_bits(),
        cap: cap.to_bits(),
        window: all(visibility.last()),
        sinks: visibility.sinks() as u32,
        reach: all(visibility.reach()),
        out_stride: 0,
        largest: 0,
        slopes: NONE,
        sink_scores: NONE,
        unused: [0; 2],
        shape,
    }
}
