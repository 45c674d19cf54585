//! The outside oracle: a slow forward pass in f64, written from the definition of the model and not
//! from Gleed's code. It recomputes everything for every call and keeps no cache.
//!
//! A file with a tensor that it does not use is refused, so that it can not be right by accident.

use std::collections::HashMap;

use gguf_rs_lite::{GgmlType, Gguf, TensorInfo};

/// Turns the raw data of a tensor into numbers, for types that the reference does not know itself.
pub type Dequantize = fn(GgmlType, &[u8], &mut [f32]);

/// Rows of numbers.
#[derive(Clone, Debug)]
pub struct Rows {
    pub cols: usize,
    pub data: Vec<f64>,
}

impl Rows {
    fn zeros(rows: usize, cols: usize) -> Self {
        Self { cols, data: vec![0.0; rows * cols] }
    }

    pub fn len(&self) -> usize {
        self.data.len() / self.cols
    }

    pub fn row(&self, index: usize) -> &[f64] {
        &self.data[index * self.cols..][..self.cols]
    }

    fn row_mut(&mut self, index: usize) -> &mut [f64] {
        &mut self.data[index * self.cols..][..self.cols]
    }

    pub fn iter(&self) -> impl Iterator<Item = &[f64]> {
        self.data.chunks_exact(self.cols)
    }

    fn add(&mut self, other: &Rows) {
        self.data.iter_mut().zip(&other.data).for_each(|(x, y)| *x += y);
    }
}

/// Which elements of a head rotate together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rotary {
    /// 2i and 2i + 1.
    Pairs,
    /// i and i + n / 2.
    Halves,
}

/// The architectures, and what is not in their files.
const ARCHITECTURES: &[(&str, Rotary)] = &[("llama", Rotary::Pairs), ("qwen3", Rotary::Halves)];

/// The hyperparameters.
#[derive(Clone, Debug)]
pub struct Config {
    pub layers: usize,
    pub hidden: usize,
    pub heads: usize,
    pub kv_heads: usize,
    pub head_dim: usize,
    pub vocab: usize,
    pub rotary: Rotary,
    /// Elements of a head that rotate.
    pub rope_dims: usize,
    pub rope_base: f64,
    pub norm_eps: f64,
}

/// All that one forward pass computes.
pub struct Trace {
    /// `[rows, hidden]` each: the input of the first layer, then the output of every layer.
    pub residual: Vec<Rows>,
    /// `[rows, hidden]`: after the final norm.
    pub normed: Rows,
    /// `[rows, vocab]`.
    pub logits: Rows,
}

/// A model with its weights in f64.
pub struct Reference {
    pub config: Config,
    /// Round what goes into a product with block-quantized weights to int8, one scale of amax / 127 for
    /// each block, as Gleed and llama.cpp do. All else stays exact. Off at first.
    pub int8_activations: bool,
    /// Whether a query of a layer (first) at a position (second) sees another one, which is not after it. All at first.
    pub sees: Box<dyn Fn(usize, usize, usize) -> bool>,
    embedding: Matrix,
    /// What the frequency of each rotary pair is divided by.
    pub rope_factors: Vec<f64>,
    layers: Vec<Layer>,
    output_norm: Vec<f64>,
    output: Option<Matrix>,
}

/// A weight matrix.
struct Matrix {
    rows: Rows,
    /// Elements per block of its type.
    block_len: usize,
}

struct Layer {
    attn_norm: Vec<f64>,
    q: Matrix,
    k: Matrix,
    v: Matrix,
    attn_output: Matrix,
    q_norm: Option<Vec<f64>>,
    k_norm: Option<Vec<f64>>,
    ffn_norm: Vec<f64>,
    gate: Matrix,
    up: Matrix,
    down: Matrix,
}

impl Reference {
    /// A model of F32, F16, BF16 and Q8_0 tensors.
    pub fn open(file: &[u8]) -> Self {
        Self::with(file, |kind, _, _| panic!("the reference can not read type {}", kind.number()))
    }

    /// A model whose other tensors `dequantize` reads.
    pub fn with(file: &[u8], dequantize: Dequantize) -> Self {
        let gguf = Gguf::parse(file).expect("a valid GGUF file");
        let mut weights = Weights::read(&gguf, dequantize);
        let embedding = weights.matrix("token_embd.weight");
        let config = Config::read(&gguf, embedding.rows.len());
        let model = Self {
            int8_activations: false,
            sees: Box::new(|_, _, _| true),
            rope_factors: weights
                .optional("rope_freqs.weight")
                .map_or_else(|| vec![1.0; config.rope_dims / 2], |factors| factors.rows.data),
            layers: (0..config.layers).map(|index| Layer::read(&mut weights, index)).collect(),
            output_norm: weights.vector("output_norm.weight"),
            output: weights.optional("output.weight"),
            embedding,
            config,
        };
        assert!(weights.0.is_empty(), "the reference does not use {:?}", weights.0.keys());
        model
    }

    /// The logits `[rows, vocab]` after each of `tokens`, a sequence from its start.
    pub fn logits(&self, tokens: &[u32]) -> Rows {
        self.trace(tokens).logits
    }

    /// The same with everything on the way.
    pub fn trace(&self, tokens: &[u32]) -> Trace {
        let mut x = Rows::zeros(tokens.len(), self.config.hidden);
        for (row, token) in tokens.iter().enumerate() {
            x.row_mut(row).copy_from_slice(self.embedding.rows.row(*token as usize));
        }
        let mut residual = vec![x.clone()];
        for (index, layer) in self.layers.iter().enumerate() {
            x.add(&self.attention(index, &norm(&x, &layer.attn_norm, self.config.norm_eps)));
            x.add(&self.feed_forward(layer, &norm(&x, &layer.ffn_norm, self.config.norm_eps)));
            residual.push(x.clone());
        }
        let normed = norm(&x, &self.output_norm, self.config.norm_eps);
        let logits = self.multiply(self.output.as_ref().unwrap_or(&self.embedding), &normed);
        Trace { residual, normed, logits }
    }

    fn attention(&self, index: usize, x: &Rows) -> Rows {
        let layer = &self.layers[index];
        let Config { heads, kv_heads, head_dim, .. } = self.config;
        let mut q = self.multiply(&layer.q, x);
        let mut k = self.multiply(&layer.k, x);
        let v = self.multiply(&layer.v, x);
        self.norm_heads(&mut q, layer.q_norm.as_deref());
        self.norm_heads(&mut k, layer.k_norm.as_deref());
        self.rotate(&mut q);
        self.rotate(&mut k);
        let mut out = Rows::zeros(x.len(), q.cols);
        for row in 0..x.len() {
            for head in 0..heads {
                let at = head * head_dim;
                let kv_at = head / (heads / kv_heads) * head_dim;
                let query = &q.row(row)[at..at + head_dim];
                let scores: Vec<f64> = (0..=row)
                    .map(|seen| match (self.sees)(index, row, seen) {
                        true => dot(query, &k.row(seen)[kv_at..kv_at + head_dim]) / (head_dim as f64).sqrt(),
                        false => f64::NEG_INFINITY,
                    })
                    .collect();
                for (seen, p) in softmax(&scores).into_iter().enumerate() {
                    let value = &v.row(seen)[kv_at..kv_at + head_dim];
                    let out = &mut out.row_mut(row)[at..at + head_dim];
                    out.iter_mut().zip(value).for_each(|(out, value)| *out += p * value);
                }
            }
        }
        self.multiply(&layer.attn_output, &out)
    }

    fn feed_forward(&self, layer: &Layer, x: &Rows) -> Rows {
        let mut inner = self.multiply(&layer.gate, x);
        let up = self.multiply(&layer.up, x);
        for (gate, up) in inner.data.iter_mut().zip(&up.data) {
            *gate = *gate / (1.0 + (-*gate).exp()) * up;
        }
        self.multiply(&layer.down, &inner)
    }

    /// `x * weight^T`.
    fn multiply(&self, weight: &Matrix, x: &Rows) -> Rows {
        assert_eq!(weight.rows.cols, x.cols, "the shapes do not fit");
        let mut x = x.clone();
        if self.int8_activations && weight.block_len > 1 {
            x.data.chunks_exact_mut(weight.block_len).for_each(round_to_int8);
        }
        let mut out = Rows::zeros(x.len(), weight.rows.len());
        for (i, weight) in weight.rows.iter().enumerate() {
            for (j, x) in x.iter().enumerate() {
                out.row_mut(j)[i] = dot(weight, x);
            }
        }
        out
    }

    /// RMS norm over each head, where the model has one.
    fn norm_heads(&self, x: &mut Rows, weight: Option<&[f64]>) {
        if let Some(weight) = weight {
            let heads = Rows { cols: self.config.head_dim, data: std::mem::take(&mut x.data) };
            x.data = norm(&heads, weight, self.config.norm_eps).data;
        }
    }

    /// Rotary position embedding: pair i of every head turns by `position * base^(-2i/n) / factor_i`.
    fn rotate(&self, x: &mut Rows) {
        let Config { head_dim, rotary, rope_dims, rope_base, .. } = self.config;
        for position in 0..x.len() {
            for head in x.row_mut(position).chunks_exact_mut(head_dim) {
                for (i, factor) in self.rope_factors.iter().enumerate() {
                    let frequency = rope_base.powf(-2.0 * i as f64 / rope_dims as f64) / factor;
                    let (sin, cos) = (position as f64 * frequency).sin_cos();
                    let (a, b) = match rotary {
                        Rotary::Pairs => (2 * i, 2 * i + 1),
                        Rotary::Halves => (i, i + rope_dims / 2),
                    };
                    (head[a], head[b]) = (head[a] * cos - head[b] * sin, head[a] * sin + head[b] * cos);
                }
            }
        }
    }
}

/// `x / sqrt(mean(x^2) + eps) * weight` of every row.
fn norm(x: &Rows, weight: &[f64], eps: f64) -> Rows {
    let mut out = x.clone();
    for row in out.data.chunks_exact_mut(x.cols) {
        let scale = 1.0 / (dot(row, row) / row.len() as f64 + eps).sqrt();
        row.iter_mut().zip(weight).for_each(|(x, weight)| *x *= scale * weight);
    }
    out
}

fn softmax(scores: &[f64]) -> Vec<f64> {
    let max = scores.iter().fold(f64::NEG_INFINITY, |max, score| max.max(*score));
    let exp: Vec<f64> = scores.iter().map(|score| (score - max).exp()).collect();
    let sum: f64 = exp.iter().sum();
    exp.iter().map(|e| e / sum).collect()
}

/// Each element to the nearest multiple of amax / 127.
fn round_to_int8(block: &mut [f64]) {
    let amax = block.iter().fold(0f64, |max, x| max.max(x.abs()));
    if amax > 0.0 {
        block.iter_mut().for_each(|x| *x = (*x * 127.0 / amax).round_ties_even() * amax / 127.0);
    }
}

/// In eight sums, for speed.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len());
    let mut sums = [0.0; 8];
    let (a8, a_rest) = a.as_chunks::<8>();
    let (b8, b_rest) = b.as_chunks::<8>();
    for (a, b) in a8.iter().zip(b8) {
        (0..8).for_each(|i| sums[i] += a[i] * b[i]);
    }
    let rest: f64 = a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum();
    sums.iter().sum::<f64>() + rest
}

impl Config {
    fn read(gguf: &Gguf<'_>, vocab: usize) -> Self {
        let name = gguf.get("general.architecture").and_then(|value| value.as_str()).expect("an architecture");
        let row = ARCHITECTURES.iter().find(|row| row.0 == name);
        let &(_, rotary) = row.unwrap_or_else(|| panic!("the reference does not know {name}"));
        let get = |key: &str| gguf.get(&format!("{name}.{key}"));
        let number = |key: &str| get(key).and_then(|value| value.as_u64()).map(|value| value as usize);
        let needed = |key: &str| number(key).unwrap_or_else(|| panic!("no {name}.{key}"));
        let (hidden, heads) = (needed("embedding_length"), needed("attention.head_count"));
        let head_dim = number("attention.key_length").unwrap_or(hidden / heads);
        assert_eq!(number("attention.value_length").unwrap_or(head_dim), head_dim, "values longer than keys");
        Self {
            layers: needed("block_count"),
            hidden,
            heads,
            kv_heads: number("attention.head_count_kv").unwrap_or(heads),
            head_dim,
            vocab,
            rotary,
            rope_dims: number("rope.dimension_count").unwrap_or(head_dim),
            rope_base: get("rope.freq_base").and_then(|value| value.as_f64()).unwrap_or(10000.0),
            norm_eps: get("attention.layer_norm_rms_epsilon").and_then(|value| value.as_f64()).expect("an epsilon"),
        }
    }
}

impl Layer {
    fn read(weights: &mut Weights, index: usize) -> Self {
        let name = |what: &str| format!("blk.{index}.{what}.weight");
        Self {
            attn_norm: weights.vector(&name("attn_norm")),
            q: weights.matrix(&name("attn_q")),
            k: weights.matrix(&name("attn_k")),
            v: weights.matrix(&name("attn_v")),
            attn_output: weights.matrix(&name("attn_output")),
            q_norm: weights.optional(&name("attn_q_norm")).map(|norm| norm.rows.data),
            k_norm: weights.optional(&name("attn_k_norm")).map(|norm| norm.rows.data),
            ffn_norm: weights.vector(&name("ffn_norm")),
            gate: weights.matrix(&name("ffn_gate")),
            up: weights.matrix(&name("ffn_up")),
            down: weights.matrix(&name("ffn_down")),
        }
    }
}

/// The tensors that are not used yet.
struct Weights(HashMap<String, Matrix>);

impl Weights {
    fn read(gguf: &Gguf<'_>, dequantize: Dequantize) -> Self {
        Self(gguf.tensors().map(|tensor| (tensor.name().to_string(), dequantized(&tensor, dequantize))).collect())
    }

    fn optional(&mut self, name: &str) -> Option<Matrix> {
        self.0.remove(name)
    }

    fn matrix(&mut self, name: &str) -> Matrix {
        self.optional(name).unwrap_or_else(|| panic!("no tensor {name}"))
    }

    fn vector(&mut self, name: &str) -> Vec<f64> {
        self.matrix(name).rows.data
    }
}

fn dequantized(tensor: &TensorInfo<'_>, other: Dequantize) -> Matrix {
    let cols = tensor.dims().first().map_or(0, |&cols| cols as usize);
    let count = tensor.dims().iter().product::<u64>() as usize;
    let data = tensor.data();
    let data: Vec<f64> = match tensor.ggml_type().number() {
        0 => data.as_chunks().0.iter().map(|bytes| f64::from(f32::from_le_bytes(*bytes))).collect(),
        1 => data.as_chunks().0.iter().map(|bytes| from_f16(u16::from_le_bytes(*bytes))).collect(),
        30 => data.as_chunks().0.iter().map(|&[low, high]| f64::from(f32::from_le_bytes([0, 0, low, high]))).collect(),
        8 => data.chunks_exact(34).flat_map(from_q8_0).collect(),
        _ => {
            let mut out = vec![0.0; count];
            other(tensor.ggml_type(), data, &mut out);
            out.into_iter().map(f64::from).collect()
        }
    };
    assert_eq!(data.len(), count, "{}", tensor.name());
    Matrix { rows: Rows { cols, data }, block_len: tensor.ggml_type().block_len() }
}

/// IEEE binary16: one sign bit, five of exponent, ten of fraction.
fn from_f16(bits: u16) -> f64 {
    let sign = if bits & 0x8000 == 0 { 1.0 } else { -1.0 };
    let fraction = f64::from(bits & 0x3ff);
    sign * match bits >> 10 & 31 {
        0 => fraction * 2f64.powi(-24),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        exponent => (1.0 + fraction / 1024.0) * 2f64.powi(i32::from(exponent) - 15),
    }
}

/// A block of 32: an f16 scale and signed bytes.
fn from_q8_0(block: &[u8]) -> Vec<f64> {
    let scale = from_f16(u16::from_le_bytes([block[0], block[1]]));
    block[2..].iter().map(|&code| scale * f64::from(code as i8)).collect()
}
