//! The parts of layers that keep a state. Every call computes the state from the first row on.

use super::config::{Activation, Config, Mixer, Part, StateSizes};
use super::weights::{Matrix, Name, Norm, Weights};
use super::{Reference, Rows, dot, sigmoid};

/// Number that is added to a sum of squares before its root is taken, for keys and queries of the delta rule.
const L2_EPS: f64 = 1e-6;

pub enum Recurrent {
    ShortConvolution(ShortConvolution),
    DeltaRule(DeltaRule),
    StateSpace(StateSpace),
}

pub struct ShortConvolution {
    /// Projection with rows of two gates, then of the input of the convolution.
    input: Matrix,
    kernel: Matrix,
    output: Matrix,
}

pub struct DeltaRule {
    /// Projection with rows of queries, keys and values.
    qkv: Matrix,
    kernel: Matrix,
    gate: Matrix,
    /// How fast each head forgets.
    decay: Matrix,
    decay_bias: Vec<f64>,
    decay_scale: Vec<f64>,
    /// How much of a correction each head takes.
    strength: Matrix,
    norm: Norm,
    output: Matrix,
}

pub struct StateSpace {
    /// Projection with rows of a gate, of the input, of input weights, of output weights and of step widths.
    input: Matrix,
    kernel: Matrix,
    step_bias: Vec<f64>,
    decay: Vec<f64>,
    /// Factor of each head with which its input goes directly to its output.
    skip: Vec<f64>,
    norm: Option<Norm>,
    output: Matrix,
}

impl Recurrent {
    pub fn read(weights: &mut Weights, config: &Config, name: Name<'_>) -> Self {
        match config.architecture.mixer {
            Mixer::Off => panic!("a layer with a state, in an architecture without"),
            Mixer::ShortConvolution => Self::ShortConvolution(ShortConvolution {
                input: weights.matrix(&name("shortconv.in_proj")),
                kernel: weights.matrix(&name("shortconv.conv")),
                output: weights.matrix(&name("shortconv.out_proj")),
            }),
            Mixer::DeltaRule => Self::DeltaRule(DeltaRule {
                qkv: weights.matrix(&name("attn_qkv")),
                kernel: weights.matrix(&name("ssm_conv1d")),
                gate: weights.matrix(&name("attn_gate")),
                decay: weights.matrix(&name("ssm_alpha")),
                decay_bias: weights.vector(&name("ssm_dt.bias")).expect("ssm_dt.bias"),
                decay_scale: weights.vector(&name("ssm_a")).expect("ssm_a"),
                strength: weights.matrix(&name("ssm_beta")),
                norm: weights.norm(&name("ssm_norm"), Part::Needed).expect("needed"),
                output: weights.matrix(&name("ssm_out")),
            }),
            Mixer::StateSpace => Self::StateSpace(StateSpace {
                input: weights.matrix(&name("ssm_in")),
                kernel: weights.matrix(&name("ssm_conv1d")),
                step_bias: weights.vector(&name("ssm_dt.bias")).expect("ssm_dt.bias"),
                decay: weights.vector(&name("ssm_a")).expect("ssm_a"),
                skip: weights.vector(&name("ssm_d")).expect("ssm_d"),
                norm: weights.norm(&name("ssm_norm"), config.architecture.state_norm),
                output: weights.matrix(&name("ssm_out")),
            }),
        }
    }
}

impl Reference {
    /// Returns the output of a part with a state for each row.
    pub fn recurrent(&self, part: &Recurrent, x: &Rows) -> Rows {
        match part {
            Recurrent::ShortConvolution(part) => self.short_convolution(part, x),
            Recurrent::DeltaRule(part) => self.delta_rule(part, x),
            Recurrent::StateSpace(part) => self.state_space(part, x),
        }
    }

    fn short_convolution(&self, part: &ShortConvolution, x: &Rows) -> Rows {
        let [before, after, x] = self.multiply(&part.input, x).columns([self.config.hidden; 3]);
        let mut x = self.convolve(&part.kernel, &product(&before, &x));
        x = product(&after, &x);
        self.multiply(&part.output, &x)
    }

    /// Every head has a matrix `S`, with as many rows as a key has elements. A row changes it to
    /// `g S + b k (v - g S^T k)^T`, then reads `S^T q`.
    fn delta_rule(&self, part: &DeltaRule, x: &Rows) -> Rows {
        let StateSizes { inner, state: key_len, groups: keys, heads } = self.config.states;
        let value_len = inner / heads;
        let qkv = silu(self.convolve(&part.kernel, &self.multiply(&part.qkv, x)));
        let [mut q, mut k, v] = qkv.columns([keys * key_len, keys * key_len, inner]);
        for head in q.data.chunks_exact_mut(key_len).chain(k.data.chunks_exact_mut(key_len)) {
            let length = (dot(head, head) + L2_EPS).sqrt();
            head.iter_mut().for_each(|x| *x /= length);
        }
        let (decay, strength) = (self.multiply(&part.decay, x), self.multiply(&part.strength, x));
        let mut out = Rows::zeros(x.len(), inner);
        for head in 0..heads {
            // Heads take the keys in turn.
            let (key_at, value_at) = (head % keys * key_len, head * value_len);
            let mut state = Rows::zeros(key_len, value_len);
            for row in 0..x.len() {
                if self.forgets_before == Some(row) {
                    state.data.fill(0.0);
                }
                let step = softplus(decay.row(row)[head] + part.decay_bias[head]);
                let kept = (part.decay_scale[head] * step).exp();
                state.data.iter_mut().for_each(|s| *s *= kept);
                let (key, query) = (&k.row(row)[key_at..][..key_len], &q.row(row)[key_at..][..key_len]);
                let known = state.weighted_sum(key);
                let strength = sigmoid(strength.row(row)[head]);
                let values = v.row(row)[value_at..][..value_len].iter().zip(&known);
                let correction: Vec<f64> = values.map(|(value, known)| strength * (value - known)).collect();
                for (i, key) in key.iter().enumerate() {
                    state.row_mut(i).iter_mut().zip(&correction).for_each(|(s, c)| *s += key * c);
                }
                let read = state.weighted_sum(query);
                let out = &mut out.row_mut(row)[value_at..][..value_len];
                out.iter_mut().zip(read).for_each(|(out, read)| *out = read / (key_len as f64).sqrt());
            }
        }
        let gate = silu(self.multiply(&part.gate, x));
        self.multiply(&part.output, &product(&self.norm(&out, Some(&part.norm)), &gate))
    }

    /// Every channel of a head has a vector `s`. A row changes it to `exp(d a) s + d x B`, then reads `C s + D x`.
    fn state_space(&self, part: &StateSpace, x: &Rows) -> Rows {
        let StateSizes { inner, state: states, groups, heads } = self.config.states;
        let (shared, channels) = (groups * states, inner / heads);
        let [gate, mixed, steps] = self.multiply(&part.input, x).columns([inner, inner + 2 * shared, heads]);
        let [u, input, output] = silu(self.convolve(&part.kernel, &mixed)).columns([inner, shared, shared]);
        let mut out = Rows::zeros(x.len(), inner);
        for channel in 0..inner {
            let head = channel / channels;
            let at = head / (heads / groups) * states;
            let mut state = vec![0.0; states];
            for row in 0..x.len() {
                if self.forgets_before == Some(row) {
                    state.fill(0.0);
                }
                let step = softplus(steps.row(row)[head] + part.step_bias[head]);
                let kept = (step * part.decay[head]).exp();
                let u = u.row(row)[channel];
                let input = &input.row(row)[at..at + states];
                state.iter_mut().zip(input).for_each(|(s, b)| *s = kept * *s + step * u * b);
                out.row_mut(row)[channel] = dot(&state, &output.row(row)[at..at + states]) + part.skip[head] * u;
            }
        }
        let out = product(&out, &silu(gate));
        self.multiply(&part.output, &self.norm(&out, part.norm.as_ref()))
    }

    /// Multiplies every channel by its own kernel. The last weight of a kernel is for the row itself, and zeros stand
    /// before the first row.
    fn convolve(&self, kernel: &Matrix, x: &Rows) -> Rows {
        assert_eq!(kernel.rows.len(), x.cols, "a kernel for each channel");
        let width = kernel.rows.cols;
        let mut out = Rows::zeros(x.len(), x.cols);
        for row in 0..x.len() {
            let first = self.forgets_before.filter(|first| *first <= row).unwrap_or(0);
            for (channel, weights) in kernel.rows.iter().enumerate() {
                let bias = kernel.bias.as_ref().map_or(0.0, |bias| bias[channel]);
                let seen = (0..width).filter(|back| row >= first + back);
                let sum: f64 = seen.map(|back| weights[width - 1 - back] * x.row(row - back)[channel]).sum();
                out.row_mut(row)[channel] = sum + bias;
            }
        }
        out
    }
}

impl Rows {
    /// Splits the columns into parts of the given widths.
    fn columns<const N: usize>(&self, parts: [usize; N]) -> [Self; N] {
        assert_eq!(parts.iter().sum::<usize>(), self.cols, "columns of several things");
        let mut start = 0;
        parts.map(|cols| {
            let part = self.part(start, cols);
            start += cols;
            part
        })
    }

    /// Returns the sum of the rows, each multiplied by its weight.
    fn weighted_sum(&self, weights: &[f64]) -> Vec<f64> {
        let mut sum = vec![0.0; self.cols];
        for (row, weight) in self.iter().zip(weights) {
            sum.iter_mut().zip(row).for_each(|(sum, x)| *sum += weight * x);
        }
        sum
    }
}

/// Returns the product, element by element.
fn product(a: &Rows, b: &Rows) -> Rows {
    assert_eq!((a.cols, a.data.len()), (b.cols, b.data.len()), "shapes of a product");
    Rows { cols: a.cols, data: a.data.iter().zip(&b.data).map(|(a, b)| a * b).collect() }
}

fn silu(mut x: Rows) -> Rows {
    x.data.iter_mut().for_each(|x| *x = Activation::Silu.of(*x));
    x
}

/// `ln(1 + exp(x))`.
fn softplus(x: f64) -> f64 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}
