//! The tensors of a file in f64, and which of them a layer has.

use std::collections::HashMap;

use gguf_rs_lite::{Gguf, TensorInfo};

use super::architectures::{Architecture, Parallel, Part};
use super::config::Config;
use super::{Dequantize, Rows};

/// A linear layer, or a table of rows.
#[derive(Clone)]
pub struct Matrix {
    pub rows: Rows,
    /// Elements per block of its type.
    pub block_len: usize,
    pub bias: Option<Vec<f64>>,
}

impl Matrix {
    /// Its rows in parts of so many.
    fn split(&self, parts: &[usize]) -> Vec<Self> {
        assert_eq!(parts.iter().sum::<usize>(), self.rows.len(), "rows of a tensor of several matrices");
        let mut start = 0;
        let part = |len: &usize| {
            let rows = start..start + len;
            start = rows.end;
            let elements = rows.start * self.rows.cols..rows.end * self.rows.cols;
            Self {
                rows: Rows { cols: self.rows.cols, data: self.rows.data[elements].to_vec() },
                block_len: self.block_len,
                bias: self.bias.as_ref().map(|bias| bias[rows].to_vec()),
            }
        };
        parts.iter().map(part).collect()
    }
}

/// A norm over groups of `weight.cols` elements; the groups of a row take the rows of the weight in turn.
pub struct Norm {
    pub weight: Rows,
    pub bias: Option<Vec<f64>>,
}

pub struct FeedForward {
    pub gate: Option<Matrix>,
    pub up: Matrix,
    pub down: Matrix,
}

pub struct Layer {
    pub attn_norm: Option<Norm>,
    pub q: Matrix,
    pub k: Matrix,
    pub v: Matrix,
    pub q_norm: Option<Norm>,
    pub k_norm: Option<Norm>,
    pub attn_output: Matrix,
    pub post_attention_norm: Option<Norm>,
    pub ffn_norm: Option<Norm>,
    /// Of each head: a score without a value.
    pub sinks: Option<Vec<f64>>,
    /// Which expert a token goes to; without it there is one for all.
    pub router: Option<Matrix>,
    /// Of each expert: added to what it is chosen by.
    pub selection: Option<Vec<f64>>,
    pub experts: Vec<FeedForward>,
    /// What every token goes through beside its experts.
    pub shared: Option<FeedForward>,
    pub shared_gate: Option<Matrix>,
    pub post_ffw_norm: Option<Norm>,
    /// The feed-forward part has the input of the attention.
    pub parallel: bool,
}

impl Layer {
    pub fn read(weights: &mut Weights, config: &Config, index: usize) -> Self {
        let Architecture { pre_norms, post_norms, qk_norm, parallel, .. } = config.architecture;
        let name = &|what: &str| format!("blk.{index}.{what}");
        let [q, k, v] = read_qkv(weights, config, name);
        let ffn_norm = match parallel {
            Parallel::WithoutNorm => Part::Optional,
            _ => needed_if(pre_norms),
        };
        let ffn_norm = weights.norm(&name(config.architecture.ffn_norm), ffn_norm);
        let has_experts = config.experts > 0 && index >= config.dense_layers;
        let (router, experts) = match config.experts {
            _ if !has_experts => (None, vec![FeedForward::read(weights, config, name)]),
            _ => (Some(weights.matrix(&name("ffn_gate_inp"))), FeedForward::read_experts(weights, config, name)),
        };
        Self {
            attn_norm: weights.norm(&name("attn_norm"), needed_if(pre_norms)),
            q,
            k,
            v,
            q_norm: weights.norm(&name("attn_q_norm"), qk_norm),
            k_norm: weights.norm(&name("attn_k_norm"), qk_norm),
            attn_output: weights.matrix(&name("attn_output")),
            post_attention_norm: weights.norm(&name("post_attention_norm"), needed_if(post_norms)),
            parallel: config.parallel_residual || pre_norms && ffn_norm.is_none(),
            ffn_norm,
            sinks: config.architecture.sinks.then(|| weights.matrix(&name("attn_sinks")).rows.data),
            router,
            selection: weights.vector(&name("exp_probs_b.bias")),
            experts,
            shared: (has_experts && config.shared > 0).then(|| FeedForward::read_shared(weights, name)),
            shared_gate: (has_experts && config.architecture.shared_gate)
                .then(|| weights.matrix(&name("ffn_gate_inp_shexp"))),
            post_ffw_norm: weights.norm(&name("post_ffw_norm"), needed_if(post_norms)),
        }
    }
}

/// One tensor of q, k and v, or three.
fn read_qkv(weights: &mut Weights, config: &Config, name: &dyn Fn(&str) -> String) -> [Matrix; 3] {
    let (q, kv) = (config.heads * config.head_dim, config.kv_heads * config.head_dim);
    let qkv = match weights.optional(&name("attn_qkv")) {
        Some(fused) => fused.split(&[q, kv, kv]),
        None => ["attn_q", "attn_k", "attn_v"].map(|what| weights.matrix(&name(what))).to_vec(),
    };
    assert_eq!([0, 1, 2].map(|i| qkv[i].rows.len()), [q, kv, kv], "rows of q, k and v");
    qkv.try_into().ok().expect("three")
}

impl FeedForward {
    /// `ffn_up` may have the rows of the gate before its own.
    fn read(weights: &mut Weights, config: &Config, name: &dyn Fn(&str) -> String) -> Self {
        let (gate, up) = (weights.optional(&name("ffn_gate")), weights.matrix(&name("ffn_up")));
        let down = weights.matrix(&name("ffn_down"));
        let width = down.rows.cols;
        let (gate, up) = match gate {
            None if config.architecture.gated => {
                let [gate, up] = up.split(&[width, width]).try_into().ok().expect("two");
                (Some(gate), up)
            }
            gate => (gate, up),
        };
        assert_eq!(gate.is_some(), config.architecture.gated, "a gate");
        Self { gate, up, down }
    }

    fn read_shared(weights: &mut Weights, name: &dyn Fn(&str) -> String) -> Self {
        let [gate, up, down] =
            ["ffn_gate_shexp", "ffn_up_shexp", "ffn_down_shexp"].map(|what| weights.matrix(&name(what)));
        Self { gate: Some(gate), up, down }
    }

    fn read_experts(weights: &mut Weights, config: &Config, name: &dyn Fn(&str) -> String) -> Vec<Self> {
        let mut experts = |what: &str| {
            let all = weights.matrix(&name(what));
            all.split(&vec![all.rows.len() / config.experts; config.experts])
        };
        let (gate, up, down) = (experts("ffn_gate_exps"), experts("ffn_up_exps"), experts("ffn_down_exps"));
        let parts = gate.into_iter().zip(up).zip(down);
        parts.map(|((gate, up), down)| Self { gate: Some(gate), up, down }).collect()
    }
}

pub fn needed_if(condition: bool) -> Part {
    if condition { Part::Needed } else { Part::No }
}

/// The tensors that are not used yet.
pub struct Weights(HashMap<String, Matrix>);

impl Weights {
    pub fn read(gguf: &Gguf<'_>, dequantize: Dequantize) -> Self {
        Self(gguf.tensors().map(|tensor| (tensor.name().to_string(), dequantized(&tensor, dequantize))).collect())
    }

    /// The names of those that nobody took.
    pub fn names(&self) -> Vec<&String> {
        self.0.keys().collect()
    }

    pub fn part(&mut self, name: &str, part: Part) -> Option<Matrix> {
        match part {
            Part::No => None,
            Part::Optional => self.optional(name),
            Part::Needed => Some(self.matrix(name)),
        }
    }

    pub fn optional(&mut self, name: &str) -> Option<Matrix> {
        let matrix = self.0.remove(&format!("{name}.weight"))?;
        let bias = self.vector(&format!("{name}.bias"));
        Some(Matrix { bias, ..matrix })
    }

    pub fn matrix(&mut self, name: &str) -> Matrix {
        self.optional(name).unwrap_or_else(|| panic!("no tensor {name}.weight"))
    }

    pub fn vector(&mut self, name: &str) -> Option<Vec<f64>> {
        self.0.remove(name).map(|vector| vector.rows.data)
    }

    pub fn norm(&mut self, name: &str, part: Part) -> Option<Norm> {
        let Matrix { rows, bias, .. } = self.part(name, part)?;
        Some(Norm { weight: rows, bias })
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
    Matrix { rows: Rows { cols, data }, block_len: tensor.ggml_type().block_len(), bias: None }
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
