//! Heads, a pool of a sequence's keys and values, and the scalar code's results for them.

use bytemuck::Zeroable;
use gleed::kernels::{
    Elements, ElementsMut, KvElement, KvSource, KvTile, KvTileMut, Level, Partial, Queries, Scores as Scoring,
    Visibility, Window,
};
use gleed::mem::Matrix;

use super::random::Random;
use crate::error::GpuError;
use crate::grid;
use crate::params::{NONE, Scores, Shape};

/// Element types of the cache that run on a GPU, in the order of their numbers in `kv.wgsl`.
pub(crate) const ELEMENTS: [KvElement; 4] = [KvElement::F16, KvElement::Q8_0, KvElement::F32, KvElement::Q4_0];

/// The shape of heads, and of the pool of a sequence.
#[derive(Clone, Copy)]
pub(super) struct Heads {
    pub(super) heads: usize,
    pub(super) kv_heads: usize,
    pub(super) dim: usize,
    pub(super) element: [KvElement; 2],
}

/// Layers in the pool, of which the last one is tested.
pub(super) const LAYERS: usize = 2;

impl Heads {
    pub(super) fn words(&self) -> [usize; 2] {
        let [k, v] = self.element;
        [k.k_tile(self.dim), v.v_tile(self.dim)].map(|bytes| bytes.unwrap_or(0) / 4)
    }

    pub(super) fn shape(&self) -> Shape {
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

    pub(super) fn width(&self) -> usize {
        (self.heads + 2 * self.kv_heads) * self.dim
    }

    /// Returns the words of a KV head's tiles in a block: keys, values.
    pub(super) fn tiles(&self, block: usize, head: usize) -> [std::ops::Range<usize>; 2] {
        let [k, v] = self.words();
        let start = ((block * LAYERS + LAYERS - 1) * self.kv_heads + head) * (k + v);
        [start..start + k, start + k..start + k + v]
    }

    pub(super) fn pool(&self, blocks: usize) -> usize {
        blocks * LAYERS * self.kv_heads * self.words().iter().sum::<usize>()
    }

    /// Stores the key and value of a KV head in a slot of a block.
    pub(super) fn store(&self, pool: &mut [u32], block: usize, slot: usize, head: usize, kv: [&[f32]; 2]) {
        let [k, v] = self.tiles(block, head);
        let (front, back) = pool.split_at_mut(v.start);
        let (k, v) = (&mut front[k], &mut back[..v.len()]);
        let made = (ElementsMut::new(self.element[0], k), ElementsMut::new(self.element[1], v));
        if let (Some(k), Some(v)) = made {
            let _ = Level::SCALAR.store(KvTileMut { k, v }, slot, &[kv]);
        }
    }
}

/// A batch of attention.
pub(super) struct Case {
    pub(super) visibility: Visibility,
    pub(super) element: [KvElement; 2],
    pub(super) dim: usize,
    /// Position of the first row.
    pub(super) first: usize,
    pub(super) cap: f32,
    /// Whether heads have slopes of linear biases.
    pub(super) slopes: bool,
    /// Whether heads have sink scores.
    pub(super) sinks: bool,
}

pub(super) fn cases() -> Vec<Case> {
    let [f16, q8, f32, q4] = ELEMENTS;
    // (Sinks, last positions, window of the model), types of keys and values, elements of a head, first position, soft
    // cap, [slopes, sink scores].
    let cases = [
        ((0, 0, 0), [f16, f16], 64, 530, 0.0, [false, false]),
        ((0, 0, 0), [f16, f16], 64, 254, 0.0, [false, false]),
        ((0, 40, 0), [q8, q8], 256, 530, 50.0, [false, false]),
        ((3, 20, 0), [f16, q8], 64, 0, 0.0, [false, true]),
        ((3, 20, 300), [q8, f16], 64, 600, 0.0, [true, false]),
        ((0, 0, 270), [f16, f16], 64, 767, 0.0, [false, false]),
        ((0, 0, 0), [f32, q4], 64, 300, 0.0, [true, false]),
        ((0, 0, 0), [q4, f32], 96, 270, 30.0, [true, true]),
        ((0, 40, 0), [q4, q4], 64, 20, 0.0, [false, true]),
        ((0, 0, 0), [f16, f16], 512, 300, 0.0, [false, true]),
        ((3, 200, 0), [q8, f16], 320, 530, 0.0, [false, false]),
        ((0, 0, 0), [f16, f16], 96, 270, 0.0, [false, false]),
        ((0, 30, 0), [q8, f16], 40, 290, 0.0, [false, false]),
    ];
    let case = |((sinks, last, own), element, dim, first, cap, [slopes, of_sinks]): (_, _, _, _, _, [bool; 2])| {
        let visibility = Visibility::new(Window { sinks, last }, own);
        Case { visibility, element, dim, first, cap, slopes, sinks: of_sinks }
    };
    cases.map(case).into()
}

/// The keys and values of a case before its batch.
pub(super) struct World {
    pub(super) heads: Heads,
    pub(super) visibility: Visibility,
    pub(super) cap: f32,
    pub(super) first: usize,
    pub(super) table: Vec<u32>,
    pub(super) pool: Vec<u32>,
    pub(super) slopes: Vec<f32>,
    /// Rows of the batch.
    pub(super) rows: usize,
}

impl World {
    /// Rows of most batches.
    pub(super) const ROWS: usize = 3;
    /// Heads of queries, and of keys and values.
    pub(super) const HEADS: [usize; 2] = [4, 2];

    pub(super) fn new(random: &mut Random, case: &Case, [heads, kv_heads]: [usize; 2], rows: usize) -> Self {
        let heads = Heads { heads, kv_heads, dim: case.dim, element: case.element };
        let blocks = (case.first + rows).div_ceil(16);
        // Blocks are in another order than positions. Slots that no token has written are all ones.
        let table: Vec<u32> = (0..blocks as u32).rev().collect();
        let mut pool = vec![u32::MAX; heads.pool(blocks)];
        for position in 0..case.first {
            store_random(random, &mut pool, &table, heads, position);
        }
        let slopes = if case.slopes { random.moderate(heads.heads) } else { Vec::new() };
        Self { heads, visibility: case.visibility, cap: case.cap, first: case.first, table, pool, slopes, rows }
    }

    pub(super) fn scale(&self) -> f32 {
        1.0 / (self.heads.dim as f32).sqrt()
    }

    /// Returns the number of ready chunks: those that end before the batch.
    pub(super) fn ready(&self) -> usize {
        self.first / grid::CHUNK
    }

    /// Returns the number of chunks for whose sums there is room.
    pub(super) fn chunks(&self) -> usize {
        self.ready() + 1
    }

    pub(super) fn scores(&self, slopes: u32) -> Scores {
        let queries = self.rows * self.heads.width();
        Scores {
            slopes: if self.slopes.is_empty() { NONE } else { slopes },
            queries: queries as u32,
            parts: (queries + self.rows * self.heads.heads * self.heads.dim) as u32,
            chunks: self.chunks() as u32,
            ..scores(self.visibility, self.scale(), self.cap)
        }
    }

    pub(super) fn queries_of(&self, rows: &[f32]) -> Vec<f32> {
        let width = self.heads.heads * self.heads.dim;
        rows.chunks(self.heads.width()).flat_map(|row| &row[..width]).copied().collect()
    }

    /// Returns some rows as queries of a KV head.
    pub(super) fn queries<'q>(&'q self, qkv: &'q [f32], rows: std::ops::Range<usize>, head: usize) -> Queries<'q> {
        let Heads { heads, kv_heads, dim: head_dim, .. } = self.heads;
        let (group, stride) = (heads / kv_heads, self.heads.width());
        Queries {
            q: &qkv[rows.start * stride + head * group * head_dim..],
            stride,
            row: 0,
            rows: rows.len(),
            group,
            head_dim,
            head,
            position: self.first + rows.start,
            visibility: self.visibility,
            scores: Scoring {
                soft_cap: self.cap,
                slopes: own(&self.slopes, group, head),
                ..Scoring::scaled(self.scale())
            },
        }
    }

    pub(super) fn source(&self) -> Source<'_> {
        Source { heads: self.heads, pool: &self.pool, table: &self.table }
    }

    /// Returns the sums of chunks, of each row and head, as they lie on a device: `None` for chunks that are not ready.
    pub(super) fn parts(&self, qkv: &[f32]) -> Result<Vec<Option<f32>>, GpuError> {
        let Heads { heads, kv_heads, dim, .. } = self.heads;
        let (group, chunks) = (heads / kv_heads, self.chunks());
        let mut out = vec![None; self.rows * heads * chunks * (dim + 2)];
        for (place, part) in out.chunks_mut(dim + 2).enumerate() {
            let (chunk, head, row) = (place % chunks, place / chunks % heads, place / chunks / heads);
            if chunk >= self.ready() {
                continue;
            }
            let queries = self.queries(qkv, row..row + 1, head / group);
            let sums = self.chunk(&queries, chunk).ok_or(GpuError::Mismatch("scalar attention"))?;
            let (values, peaks) = sums.split_at(group * dim);
            let own = head % group;
            let words = peaks[2 * own..2 * own + 2].iter().chain(&values[own * dim..(own + 1) * dim]);
            part.iter_mut().zip(words).for_each(|(part, &word)| *part = Some(word));
        }
        Ok(out)
    }

    /// Returns the sums of one chunk alone, for queries of one row.
    pub(super) fn chunk(&self, queries: &Queries<'_>, chunk: usize) -> Option<Vec<f32>> {
        let (group, head_dim) = (queries.group, queries.head_dim);
        let width = Partial { group, head_dim }.elements()?;
        let mut sums = vec![0.0; width];
        for peak in sums[group * head_dim..].chunks_mut(2).take(group) {
            peak[0] = f32::NEG_INFINITY;
        }
        let sees = |position: usize| {
            let back = queries.position - position;
            let within = |count: usize| count == 0 || back < count;
            within(self.visibility.last()) || (position < self.visibility.sinks() && within(self.visibility.reach()))
        };
        let is_seen = |chunk: usize| (chunk * grid::CHUNK..(chunk + 1) * grid::CHUNK).any(sees);
        if is_seen(chunk) {
            // The CPU numbers only the chunks that are seen.
            let number = (0..chunk).filter(|&chunk| is_seen(chunk)).count();
            let mut scratch = vec![0.0; Level::SCALAR.attend_scratch(1, group, head_dim)?];
            let mut tile = Matrix::new(&mut sums, 1, width)?.tiles(1, width, 0..1)?.next()?;
            Level::SCALAR.attend(queries, number..number + 1, &self.source(), &mut tile, &mut scratch)?;
        }
        Some(sums)
    }
}

/// Stores random keys and values of a token in its block.
pub(super) fn store_random(random: &mut Random, pool: &mut [u32], table: &[u32], heads: Heads, position: usize) {
    for head in 0..heads.kv_heads {
        let [k, v] = [random.moderate(heads.dim), random.moderate(heads.dim)];
        heads.store(pool, table[position / 16] as usize, position % 16, head, [&k, &v]);
    }
}

/// A pool, as the scalar code reads it.
pub(super) struct Source<'p> {
    pub(super) heads: Heads,
    pub(super) pool: &'p [u32],
    pub(super) table: &'p [u32],
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

/// Returns a KV head's part of a vector with a number for each head; nothing if the vector is empty.
pub(super) fn own(vector: &[f32], group: usize, head: usize) -> &[f32] {
    vector.chunks(group).nth(head).unwrap_or_default()
}

/// Returns the scores of a layer, without slopes and without indices of queries and sums.
pub(crate) fn scores(visibility: Visibility, scale: f32, cap: f32) -> Scores {
    let all = |count: usize| if count == 0 { u32::MAX } else { count as u32 };
    Scores {
        scale: scale.to_bits(),
        cap: cap.to_bits(),
        window: all(visibility.last()),
        sinks: visibility.sinks() as u32,
        reach: all(visibility.reach()),
        slopes: NONE,
        ..Scores::zeroed()
    }
}
