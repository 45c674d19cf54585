//! An independent oracle: a slow forward pass in f64, written from the definition of the models and not from Gleed's
//! code. It recomputes everything for every call and keeps no cache.
//!
//! It refuses a file with a tensor that it does not use, so that it cannot be right by accident.

mod architecture;
pub mod config;
mod feed_forward;
mod per_layer;
mod recurrent;
mod weights;

use gguf_rs_lite::{GgmlType, Gguf};

use config::{Config, NormKind, Rotary};
use per_layer::PerLayer;
use weights::{Attention, KeysValues, Layer, Matrix, Norm, Weights, needed_if};

/// Dequantizes the data of a tensor whose type the reference does not know.
pub type Dequantize = fn(GgmlType, &[u8], &mut [f32]);

/// A matrix of numbers, row by row.
#[derive(Clone, Debug)]
pub struct Rows {
    pub cols: usize,
    pub data: Vec<f64>,
}

impl Rows {
    fn zeros(rows: usize, cols: usize) -> Self {
        Self { cols, data: vec![0.0; rows * cols] }
    }

    #[allow(clippy::len_without_is_empty)] // there is always a row
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

    /// Returns `cols` columns, from column `start` on.
    fn part(&self, start: usize, cols: usize) -> Self {
        Self { cols, data: self.iter().flat_map(|row| &row[start..start + cols]).copied().collect() }
    }
}

/// The results of one forward pass.
pub struct Trace {
    /// Residual streams, `[rows, hidden]` each: the input of the first layer, then the output of every layer.
    pub residual: Vec<Rows>,
    /// Output of the final norm, `[rows, hidden]`.
    pub normed: Rows,
    /// Logits, `[rows, vocab]`. They mean nothing in a model that predicts no tokens.
    pub logits: Rows,
}

/// A model with its weights in f64.
pub struct Reference {
    pub config: Config,
    /// Whether inputs of products with block-quantized weights are rounded to int8, with one scale of amax / 127 for
    /// each block, as Gleed and llama.cpp do. Everything else stays exact. False at first.
    pub int8_activations: bool,
    /// Whether, in a layer (first), a query at a position (second) sees an earlier or equal position (third), if the
    /// model's own window shows it. All at first.
    pub sees: Box<dyn Fn(usize, usize, usize) -> bool>,
    /// Row before which all states of recurrent layers become zero again. Keys and values stay. `None` at first.
    pub forgets_before: Option<usize>,
    /// The planned context, which chooses between two sets of rotary factors. `None` means the length of the sequence.
    pub planned_context: Option<usize>,
    /// Divisors of the frequency of each rotary pair.
    pub rope_factors: Vec<f64>,
    /// Divisors for contexts longer than the original one.
    pub long_rope_factors: Option<Vec<f64>>,
    embedding: Matrix,
    embedding_norm: Option<Norm>,
    positions: Option<Matrix>,
    types: Option<Matrix>,
    per_layer: Option<PerLayer>,
    layers: Vec<Layer>,
    output_norm: Option<Norm>,
    output: Option<Matrix>,
}

impl Reference {
    /// Reads a model of F32, F16, BF16 and Q8_0 tensors.
    pub fn open(file: &[u8]) -> Self {
        Self::with(file, |kind, _, _| panic!("the reference cannot read type {}", kind.number()))
    }

    /// Reads a model. `dequantize` reads tensors of other types.
    pub fn with(file: &[u8], dequantize: Dequantize) -> Self {
        let gguf = Gguf::parse(file).expect("a valid GGUF file");
        let mut weights = Weights::read(&gguf, dequantize);
        let embedding = weights.matrix("token_embd");
        let config = Config::read(&gguf, embedding.rows.len());
        let architecture = config.architecture;
        let long_rope_factors = weights.vector("rope_factors_long.weight");
        let rope_factors = match long_rope_factors {
            Some(_) => Some(weights.vector("rope_factors_short.weight").expect("short factors beside the long ones")),
            None => weights.vector("rope_freqs.weight"),
        };
        let model = Self {
            int8_activations: false,
            sees: Box::new(|_, _, _| true),
            forgets_before: None,
            planned_context: None,
            rope_factors: rope_factors.unwrap_or_else(|| vec![1.0; config.rope_dims / 2]),
            long_rope_factors,
            embedding_norm: weights.norm("token_embd_norm", needed_if(architecture.embedding_norm)),
            positions: weights.part("position_embd", architecture.positions),
            types: weights.part("token_types", architecture.types),
            per_layer: (config.per_layer > 0).then(|| PerLayer::read(&mut weights)),
            layers: (0..config.layers).map(|index| Layer::read(&mut weights, &config, index)).collect(),
            output_norm: weights.norm(architecture.output_norm, needed_if(!architecture.output_norm.is_empty())),
            output: weights.optional("output"),
            embedding,
            config,
        };
        assert!(weights.names().is_empty(), "the reference does not use {:?}", weights.names());
        model
    }

    /// Returns the logits `[rows, vocab]` after each of `tokens`, a sequence from its start.
    pub fn logits(&self, tokens: &[u32]) -> Rows {
        self.trace(tokens).logits
    }

    /// Returns the logits after each of `tokens`, with all results on the way.
    pub fn trace(&self, tokens: &[u32]) -> Trace {
        let mut x = self.embed(tokens);
        let inputs = self.inputs_of_layers(tokens, &x);
        let mut residual = vec![x.clone()];
        let mut kv = Vec::new();
        for index in 0..self.layers.len() {
            self.layer(index, &mut x, &mut kv);
            self.end_of_layer(index, &mut x, inputs.get(index));
            residual.push(x.clone());
        }
        let normed = self.norm(&x, self.output_norm.as_ref());
        let mut logits = self.multiply(self.output.as_ref().unwrap_or(&self.embedding), &normed);
        for logit in &mut logits.data {
            *logit = capped(*logit / self.config.logit_divisor, self.config.logit_cap);
        }
        Trace { residual, normed, logits }
    }

    /// Returns the input of the first layer.
    fn embed(&self, tokens: &[u32]) -> Rows {
        let mut x = Rows::zeros(tokens.len(), self.config.hidden);
        for (position, token) in tokens.iter().enumerate() {
            let row = x.row_mut(position);
            row.copy_from_slice(self.embedding.rows.row(*token as usize));
            row.iter_mut().for_each(|x| *x *= self.config.embedding_scale);
            if let Some(positions) = &self.positions {
                row.iter_mut().zip(positions.rows.row(position)).for_each(|(x, p)| *x += p);
            }
            if let Some(types) = &self.types {
                row.iter_mut().zip(types.rows.row(0)).for_each(|(x, t)| *x += t);
            }
        }
        self.norm(&x, self.embedding_norm.as_ref())
    }

    /// Computes a layer. `kv` has the keys and values of the layers before, and those of this layer are added, if it
    /// has some.
    fn layer(&self, index: usize, x: &mut Rows, kv: &mut Vec<Option<[Rows; 2]>>) {
        let layer = &self.layers[index];
        let input = x.clone();
        let normed = self.norm(x, layer.attn_norm.as_ref());
        let own = layer.attention.as_ref().and_then(|attention| attention.kv.as_ref());
        kv.push(own.map(|own| self.keys_values(index, own, &normed)));
        if let Some(attention) = &layer.attention {
            let kv = kv[self.config.kv_layer(index)].as_ref().expect("keys and values");
            self.add(x, &self.attention(index, attention, &normed, kv), layer.post_attention_norm.as_ref());
        }
        if let Some(recurrent) = &layer.recurrent {
            self.add(x, &self.recurrent(recurrent, &normed), layer.post_attention_norm.as_ref());
        }
        *x = self.norm(x, layer.sum_norms[0].as_ref());
        if layer.second_norm.is_some() {
            x.data.iter_mut().zip(&input.data).for_each(|(x, input)| *x += input);
            *x = self.norm(x, layer.second_norm.as_ref());
        }
        if layer.experts.is_empty() {
            return;
        }
        let normed = match (layer.parallel, &layer.ffn_norm) {
            (false, norm) => self.norm(x, norm.as_ref()),
            (true, Some(norm)) => self.norm(&input, Some(norm)),
            (true, None) => normed,
        };
        let branch = self.feed_forward(layer, x, &normed);
        self.add(x, &branch, layer.post_ffw_norm.as_ref());
        *x = self.norm(x, layer.sum_norms[1].as_ref());
    }

    /// Adds a branch to the residual stream.
    fn add(&self, x: &mut Rows, branch: &Rows, norm: Option<&Norm>) {
        let branch = self.norm(branch, norm);
        x.data.iter_mut().zip(&branch.data).for_each(|(x, y)| *x += self.config.residual_scale * y);
    }

    /// Returns the keys and values of all rows as attention reads them.
    fn keys_values(&self, index: usize, weights: &KeysValues, x: &Rows) -> [Rows; 2] {
        let k = self.clamped(&weights.k, x);
        let mut v = weights.v.as_ref().map_or_else(|| k.clone(), |v| self.clamped(v, x));
        if self.config.architecture.value_norm {
            v = self.norm(&v, Some(&Norm::without_weights(self.config.head_dim(index))));
        }
        [self.normed_and_rotated(index, k, weights.k_norm.as_ref()), v]
    }

    fn clamped(&self, weight: &Matrix, x: &Rows) -> Rows {
        let (mut out, clamp) = (self.multiply(weight, x), self.config.clamp);
        out.data.iter_mut().filter(|_| clamp > 0.0).for_each(|x| *x = x.clamp(-clamp, clamp));
        out
    }

    /// Norms and rotates the queries or keys of a layer.
    fn normed_and_rotated(&self, index: usize, x: Rows, norm: Option<&Norm>) -> Rows {
        let (first, last) = if self.config.architecture.qk_norm_last { (None, norm) } else { (norm, None) };
        let mut x = self.norm(&x, first);
        self.rotate(index, &mut x);
        self.norm(&x, last)
    }

    fn attention(&self, index: usize, attention: &Attention, x: &Rows, [k, v]: &[Rows; 2]) -> Rows {
        let Config { heads, architecture, .. } = self.config;
        let (head_dim, kv_heads) = (self.config.head_dim(index), self.config.kv_heads[index]);
        let mut q = self.normed_and_rotated(index, self.clamped(&attention.q, x), attention.q_norm.as_ref());
        for position in 0..q.len() {
            let times = position / self.config.original_context;
            let factor = 1.0 + self.config.temperature * (1.0 + times as f64).ln();
            q.row_mut(position).iter_mut().for_each(|q| *q *= factor);
        }
        let mut out = Rows::zeros(x.len(), q.cols);
        for row in 0..x.len() {
            let end = if self.config.causal { row + 1 } else { x.len() };
            for head in 0..heads {
                let at = head * head_dim;
                let kv_at = head / (heads / kv_heads) * head_dim;
                let query = &q.row(row)[at..at + head_dim];
                let slope = self.config.alibi_slope(head);
                let mut scores: Vec<f64> = (0..end)
                    .map(|seen| match self.shows(index, row, seen) {
                        true => {
                            let score = dot(query, &k.row(seen)[kv_at..kv_at + head_dim]) * self.config.attention_scale;
                            capped(score, self.config.attention_cap) - slope * row.abs_diff(seen) as f64
                        }
                        false => f64::NEG_INFINITY,
                    })
                    .collect();
                scores.extend(attention.sinks.as_ref().map(|sinks| sinks[head]));
                for (seen, p) in softmax(&scores).into_iter().take(end).enumerate() {
                    let value = &v.row(seen)[kv_at..kv_at + head_dim];
                    let out = &mut out.row_mut(row)[at..at + head_dim];
                    out.iter_mut().zip(value).for_each(|(out, value)| *out += p * value);
                }
            }
        }
        let gated = architecture.gated_attention || architecture.gated_heads || architecture.gated_elements;
        if let Some(gate) = attention.gate.as_ref().filter(|_| gated) {
            let gate = self.multiply(gate, x);
            // The gate has a number for each head, or for each element.
            let len = if architecture.gated_heads { head_dim } else { 1 };
            for (out, gate) in out.data.chunks_exact_mut(len).zip(&gate.data) {
                out.iter_mut().for_each(|out| *out *= sigmoid(*gate));
            }
        }
        self.multiply(&attention.output, &out)
    }

    /// Returns whether a query sees a position. The position may be later only in a model that is not causal. It must
    /// be in the window of the layer, if it has one, and the test must not hide it.
    fn shows(&self, layer: usize, row: usize, seen: usize) -> bool {
        let Config { causal, window, .. } = self.config;
        let reach = if causal { window } else { window / 2 + 1 };
        (!self.config.is_local(layer) || row.abs_diff(seen) < reach) && (self.sees)(layer, row, seen)
    }

    /// Returns `x * weight^T + bias`.
    fn multiply(&self, weight: &Matrix, x: &Rows) -> Rows {
        assert_eq!(weight.rows.cols, x.cols, "the shapes do not fit");
        let mut x = x.clone();
        if self.int8_activations && weight.block_len > 1 {
            // One scale for 32 values, or for 256 with super-blocks.
            let block = if weight.block_len == 256 { 256 } else { 32 };
            x.data.chunks_exact_mut(block).for_each(round_to_int8);
        }
        let mut out = Rows::zeros(x.len(), weight.rows.len());
        for (i, row) in weight.rows.iter().enumerate() {
            let bias = weight.bias.as_ref().map_or(0.0, |bias| bias[i]);
            for (j, x) in x.iter().enumerate() {
                out.row_mut(j)[i] = dot(row, x) + bias;
            }
        }
        out
    }

    /// Returns the norm of `x`, or `x` itself if there is no norm.
    fn norm(&self, x: &Rows, norm: Option<&Norm>) -> Rows {
        let Some(Norm { weight, bias }) = norm else { return x.clone() };
        assert_eq!(x.cols % weight.data.len(), 0, "the norm does not fit");
        let mut out = x.clone();
        for (index, group) in out.data.chunks_exact_mut(weight.cols).enumerate() {
            if self.config.architecture.norm == NormKind::Layer {
                let mean = group.iter().sum::<f64>() / group.len() as f64;
                group.iter_mut().for_each(|x| *x -= mean);
            }
            let scale = 1.0 / (dot(group, group) / group.len() as f64 + self.config.norm_eps).sqrt();
            let at = index % weight.len() * weight.cols;
            for (i, x) in group.iter_mut().enumerate() {
                *x = *x * scale * weight.data[at + i] + bias.as_ref().map_or(0.0, |bias| bias[at + i]);
            }
        }
        out
    }

    /// Rotates every head by its position: pair i turns by `position * frequency_i / factor_i`.
    fn rotate(&self, layer: usize, x: &mut Rows) {
        if !self.config.rotates(layer) {
            return;
        }
        let Config { original_context, architecture, .. } = self.config;
        let (head_dim, rope_dims) = (self.config.head_dim(layer), self.config.rope_dims(layer));
        let (frequencies, magnitude) = self.config.frequencies(layer);
        let long = self.planned_context.unwrap_or(x.len()) > original_context;
        let ones = vec![1.0; frequencies.len()];
        let factors = match self.config.divides(layer) {
            true => self.long_rope_factors.as_ref().filter(|_| long).unwrap_or(&self.rope_factors),
            false => &ones,
        };
        assert_eq!(factors.len(), frequencies.len(), "a factor for each pair");
        for position in 0..x.len() {
            for head in x.row_mut(position).chunks_exact_mut(head_dim) {
                for (i, (frequency, factor)) in frequencies.iter().zip(factors).enumerate() {
                    let (sin, cos) = (position as f64 * frequency / factor).sin_cos();
                    let (sin, cos) = (sin * magnitude, cos * magnitude);
                    let (a, b) = match architecture.rotary {
                        Rotary::Pairs => (2 * i, 2 * i + 1),
                        _ => (i, i + rope_dims / 2),
                    };
                    (head[a], head[b]) = (head[a] * cos - head[b] * sin, head[a] * sin + head[b] * cos);
                }
            }
        }
    }
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// Returns `cap * tanh(x / cap)`, or `x` itself without a cap.
fn capped(x: f64, cap: f64) -> f64 {
    if cap > 0.0 { cap * (x / cap).tanh() } else { x }
}

fn softmax(scores: &[f64]) -> Vec<f64> {
    let max = scores.iter().fold(f64::NEG_INFINITY, |max, score| max.max(*score));
    let exp: Vec<f64> = scores.iter().map(|score| (score - max).exp()).collect();
    let sum: f64 = exp.iter().sum();
    exp.iter().map(|e| e / sum).collect()
}

/// Rounds each element to the nearest multiple of amax / 127.
fn round_to_int8(block: &mut [f64]) {
    let amax = block.iter().fold(0f64, |max, x| max.max(x.abs()));
    if amax > 0.0 {
        block.iter_mut().for_each(|x| *x = (*x * 127.0 / amax).round_ties_even() * amax / 127.0);
    }
}

/// Returns the dot product, in eight sums for speed.
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
