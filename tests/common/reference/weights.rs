//! The tensors of a file in f64, and the tensors that each layer has.

use std::collections::HashMap;

use gguf_rs_lite::{Gguf, TensorInfo};

use super::config::{Architecture, Config, Parallel, Part};
use super::feed_forward::DenseBeside;
use super::per_layer::LayerInput;
use super::recurrent::Recurrent;
use super::{Dequantize, Rows};

/// Returns the full name of a tensor of a layer.
pub type Name<'a> = &'a dyn Fn(&str) -> String;

/// A linear layer, or a table of rows.
#[derive(Clone)]
pub struct Matrix {
    pub rows: Rows,
    /// Number of elements per block of its type.
    pub block_len: usize,
    pub bias: Option<Vec<f64>>,
}

impl Matrix {
    /// Multiplies each of `scales.len()` equal parts of the rows by its scale.
    fn scaled(mut self, scales: &[f64]) -> Self {
        let of_part = self.rows.data.len() / scales.len();
        for (part, scale) in self.rows.data.chunks_exact_mut(of_part.max(1)).zip(scales) {
            part.iter_mut().for_each(|x| *x *= scale);
        }
        self
    }

    /// Splits the rows into parts of the given lengths.
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

    /// Splits the rows into two parts of `rows` rows.
    fn halves(&self, rows: usize) -> (Self, Self) {
        let [first, second] = self.split(&[rows, rows]).try_into().ok().expect("two");
        (first, second)
    }

    /// Splits the rows into groups of `len`. Returns the groups 0, 2, 4 and so on, and the other groups.
    fn alternate(&self, len: usize) -> [Self; 2] {
        let groups = self.split(&vec![len; self.rows.len() / len]);
        [0, 1].map(|first| {
            let mut groups = groups.iter().skip(first).step_by(2);
            let mut all = groups.next().expect("a group").clone();
            for group in groups {
                all.rows.data.extend(&group.rows.data);
                all.bias.iter_mut().zip(&group.bias).for_each(|(all, bias)| all.extend(bias));
            }
            all
        })
    }
}

/// A norm over groups of `weight.cols` elements. The groups of a row take the rows of the weight in turn.
pub struct Norm {
    pub weight: Rows,
    pub bias: Option<Vec<f64>>,
}

impl Norm {
    /// Returns a norm without weights, over groups of `cols` elements.
    pub fn without_weights(cols: usize) -> Self {
        Self { weight: Rows { cols, data: vec![1.0; cols] }, bias: None }
    }
}

pub struct FeedForward {
    pub gate: Option<Matrix>,
    pub up: Matrix,
    pub down: Matrix,
    /// Parameters of xIELU.
    pub numbers: Option<[f64; 4]>,
}

pub struct Layer {
    pub attn_norm: Option<Norm>,
    /// Attention. If the layer also has a recurrent part, both read the same input and their outputs are added.
    pub attention: Option<Attention>,
    pub recurrent: Option<Recurrent>,
    pub post_attention_norm: Option<Norm>,
    /// Norms of the residual stream, after attention and after the feed-forward part.
    pub sum_norms: [Option<Norm>; 2],
    /// A norm after attention. Its input is the residual stream with attention's output added once more.
    pub second_norm: Option<Norm>,
    pub ffn_norm: Option<Norm>,
    /// Router, which chooses experts for each token, or `None` if all tokens go through one feed-forward part.
    pub router: Option<Matrix>,
    /// Number of each expert that is added to its score when experts are chosen.
    pub selection: Option<Vec<f64>>,
    /// The experts, or the only feed-forward part. Empty if the layer has none.
    pub experts: Vec<FeedForward>,
    /// The shared expert.
    pub shared: Option<FeedForward>,
    pub shared_gate: Option<Matrix>,
    /// An ordinary feed-forward part beside the experts, and the norms around both.
    pub dense: Option<DenseBeside>,
    pub post_ffw_norm: Option<Norm>,
    pub input: Option<LayerInput>,
    /// Factor of the residual stream at the end of the layer.
    pub scale: Option<f64>,
    /// Whether the feed-forward part reads the input of the attention.
    pub parallel: bool,
}

impl Layer {
    pub fn read(weights: &mut Weights, config: &Config, index: usize) -> Self {
        let Architecture { pre_norms, first_norm, post_norms, sum_norms, parallel, dense_beside_experts, .. } =
            config.architecture;
        let name = &|what: &str| format!("blk.{index}.{what}");
        let parts = config.parts[index];
        let ffn_norm = match parallel {
            Parallel::WithoutNorm => Part::Optional,
            _ => needed_if(pre_norms && parts.feed_forward),
        };
        let ffn_norm = weights.norm(&name(config.architecture.ffn_norm), ffn_norm);
        let has_experts = config.has_experts(index);
        let has_norm = pre_norms && (parts.attention || parts.state) && (first_norm || index > 0);
        let (router, experts) = match has_experts {
            _ if !parts.feed_forward => (None, Vec::new()),
            false => {
                let numbers = config.xielu.get(index).copied();
                (None, vec![FeedForward { numbers, ..FeedForward::read(weights, config, name) }])
            }
            true => (Some(weights.matrix(&name("ffn_gate_inp"))), FeedForward::read_experts(weights, config, name)),
        };
        Self {
            attn_norm: weights.norm(&name("attn_norm"), needed_if(has_norm)),
            attention: parts.attention.then(|| Attention::read(weights, config, index)),
            recurrent: parts.state.then(|| Recurrent::read(weights, config, name)),
            post_attention_norm: weights.norm(&name("post_attention_norm"), needed_if(post_norms)),
            sum_norms: ["attn_output_norm", "layer_output_norm"]
                .map(|what| weights.norm(&name(what), needed_if(sum_norms))),
            second_norm: weights.norm(&name("attn_norm_2"), if sum_norms { Part::Optional } else { Part::No }),
            parallel: config.parallel_residual || pre_norms && ffn_norm.is_none(),
            ffn_norm,
            router,
            selection: weights.vector(&name("exp_probs_b.bias")),
            experts,
            shared: (has_experts && config.shared > 0).then(|| FeedForward::read_shared(weights, config, name)),
            shared_gate: (has_experts && config.architecture.shared_gate)
                .then(|| weights.matrix(&name("ffn_gate_inp_shexp"))),
            dense: (has_experts && dense_beside_experts).then(|| DenseBeside::read(weights, config, name)),
            input: (config.per_layer > 0).then(|| LayerInput::read(weights, name)),
            scale: weights.optional(&name("layer_output_scale")).map(|scale| scale.rows.data[0]),
            post_ffw_norm: weights.norm(&name("post_ffw_norm"), needed_if(post_norms)),
        }
    }
}

/// Weights of the keys and values of a layer.
pub struct KeysValues {
    pub k: Matrix,
    /// Matrix of the values. Without it the values are the keys before their norm.
    pub v: Option<Matrix>,
    pub k_norm: Option<Norm>,
}

pub struct Attention {
    pub q: Matrix,
    /// `None` if the layer reads the keys and values of another layer.
    pub kv: Option<KeysValues>,
    pub q_norm: Option<Norm>,
    /// Score of each head that belongs to no position.
    pub sinks: Option<Vec<f64>>,
    /// A gate, as wide as the queries or with one number for each head.
    pub gate: Option<Matrix>,
    pub output: Matrix,
}

impl Attention {
    fn read(weights: &mut Weights, config: &Config, layer: usize) -> Self {
        let Architecture { qk_norm, sinks, gated_attention, gated_heads, gated_elements, .. } = config.architecture;
        let name = &|what: &str| format!("blk.{layer}.{what}");
        let (q, kv) = read_qkv(weights, config, layer, name);
        let (q, gate) = match gated_attention {
            false => (q, (gated_heads || gated_elements).then(|| weights.matrix(&name("attn_gate")))),
            true => {
                let [q, gate] = q.alternate(config.head_dim(layer));
                (q, Some(gate))
            }
        };
        Self {
            q,
            kv: kv.map(|(k, v)| KeysValues { k, v, k_norm: weights.norm(&name("attn_k_norm"), qk_norm) }),
            q_norm: weights.norm(&name("attn_q_norm"), qk_norm),
            sinks: sinks.then(|| weights.matrix(&name("attn_sinks")).rows.data),
            gate,
            output: weights.matrix(&name("attn_output")),
        }
    }
}

/// Reads q, k and v from one tensor or from three. There are two tensors if the values are the keys, and only that of q
/// if the layer reads keys and values of another one.
fn read_qkv(
    weights: &mut Weights,
    config: &Config,
    layer: usize,
    name: Name<'_>,
) -> (Matrix, Option<(Matrix, Option<Matrix>)>) {
    let head_dim = config.head_dim(layer);
    let (q_rows, kv_rows) = (config.heads * head_dim, config.kv_heads[layer] * head_dim);
    let q_rows = if config.architecture.gated_attention { 2 * q_rows } else { q_rows };
    let (q, kv) = match weights.optional(&name("attn_qkv")) {
        Some(fused) => {
            let [q, k, v] = fused.split(&[q_rows, kv_rows, kv_rows]).try_into().ok().expect("three");
            (q, Some((k, Some(v))))
        }
        None if config.kv_layer(layer) != layer => (weights.matrix(&name("attn_q")), None),
        None => {
            let v = match config.architecture.value_norm {
                true => weights.optional(&name("attn_v")),
                false => Some(weights.matrix(&name("attn_v"))),
            };
            (weights.matrix(&name("attn_q")), Some((weights.matrix(&name("attn_k")), v)))
        }
    };
    let of_kv = kv.iter().flat_map(|(k, v)| [Some(k), v.as_ref()]).flatten();
    assert!(q.rows.len() == q_rows && of_kv.into_iter().all(|kv| kv.rows.len() == kv_rows), "rows of q, k and v");
    (q, kv)
}

impl FeedForward {
    /// Reads a feed-forward part. `ffn_up` may have the rows of the gate before its own.
    pub fn read(weights: &mut Weights, config: &Config, name: Name<'_>) -> Self {
        let (gate, up) = (weights.optional(&name("ffn_gate")), weights.matrix(&name("ffn_up")));
        let down = weights.matrix(&name("ffn_down"));
        let width = down.rows.cols;
        let (gate, up) = match gate {
            None if config.architecture.gated => {
                let (gate, up) = up.halves(width);
                (Some(gate), up)
            }
            gate => (gate, up),
        };
        assert_eq!(gate.is_some(), config.architecture.gated, "a gate");
        Self { gate, up, down, numbers: None }
    }

    fn read_shared(weights: &mut Weights, config: &Config, name: Name<'_>) -> Self {
        let gate = config.architecture.gated.then(|| weights.matrix(&name("ffn_gate_shexp")));
        let [up, down] = ["ffn_up_shexp", "ffn_down_shexp"].map(|what| weights.matrix(&name(what)));
        Self { gate, up, down, numbers: None }
    }

    fn read_experts(weights: &mut Weights, config: &Config, name: Name<'_>) -> Vec<Self> {
        let fused = weights.has(&name("ffn_gate_up_exps"));
        let mut experts = |what: &str| {
            let all = weights.matrix(&name(what));
            all.split(&vec![all.rows.len() / config.experts; config.experts])
        };
        let down = experts("ffn_down_exps");
        let width = down[0].rows.cols;
        let (gate, up): (Vec<_>, Vec<_>) = match fused {
            _ if !config.architecture.gated => (vec![None; config.experts], experts("ffn_up_exps")),
            false => (experts("ffn_gate_exps").into_iter().map(Some).collect(), experts("ffn_up_exps")),
            true => {
                let halves = experts("ffn_gate_up_exps").into_iter().map(|both| both.halves(width));
                halves.map(|(gate, up)| (Some(gate), up)).unzip()
            }
        };
        let parts = gate.into_iter().zip(up).zip(down);
        parts.map(|((gate, up), down)| Self { gate, up, down, numbers: None }).collect()
    }
}

pub fn needed_if(condition: bool) -> Part {
    if condition { Part::Needed } else { Part::No }
}

/// The tensors that nothing has taken yet.
pub struct Weights(HashMap<String, Matrix>);

impl Weights {
    pub fn read(gguf: &Gguf<'_>, dequantize: Dequantize) -> Self {
        Self(gguf.tensors().map(|tensor| (tensor.name().to_string(), dequantized(&tensor, dequantize))).collect())
    }

    /// Returns the names of the tensors that nothing has taken.
    pub fn names(&self) -> Vec<&String> {
        self.0.keys().collect()
    }

    fn has(&self, name: &str) -> bool {
        self.0.contains_key(&format!("{name}.weight"))
    }

    pub fn part(&mut self, name: &str, part: Part) -> Option<Matrix> {
        match part {
            Part::No => None,
            Part::Optional => self.optional(name),
            Part::Needed => Some(self.matrix(name)),
        }
    }

    /// Takes a tensor. A name that ends with `=` has no `.weight` behind it in the file.
    pub fn optional(&mut self, name: &str) -> Option<Matrix> {
        let matrix = match name.strip_suffix('=') {
            Some(whole) => return self.0.remove(whole),
            None => self.0.remove(&format!("{name}.weight"))?,
        };
        let bias = self.vector(&format!("{name}.bias"));
        // Divisor of inputs before they are rounded to 4 bits. Here inputs are not rounded.
        self.vector(&format!("{name}.input_scale"));
        // The scale of Gemma 4's router belongs to the router's norm.
        let scales = if name.ends_with("ffn_gate_inp") { None } else { self.vector(&format!("{name}.scale")) };
        Some(Matrix { bias, ..matrix }.scaled(&scales.unwrap_or_else(|| vec![1.0])))
    }

    pub fn matrix(&mut self, name: &str) -> Matrix {
        self.optional(name).unwrap_or_else(|| panic!("no tensor {name}"))
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

/// Converts IEEE binary16: one sign bit, five bits of exponent, ten bits of fraction.
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

/// Dequantizes a block of 32: an f16 scale and signed bytes.
fn from_q8_0(block: &[u8]) -> Vec<f64> {
    let scale = from_f16(u16::from_le_bytes([block[0], block[1]]));
    block[2..].iter().map(|&code| scale * f64::from(code as i8)).collect()
}
