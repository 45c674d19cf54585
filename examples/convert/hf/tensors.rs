//! Tensors by their names: what each is called in a GGUF file, and how its rows are written there.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use gleed::tensor::Dtype;

use super::config::Config;
use super::safetensors::Stored;
use crate::common::Result;
use crate::output::{Contents, Matrix, Order, Tensor};

/// A row of an architecture's table: a weight, and its bias where there is one.
pub(crate) struct Rule {
    /// The name without `model.` or the like in front and `.weight` behind; `{}` is the layer, `{e}` the expert or the
    /// head.
    pub(crate) from: &'static str,
    pub(crate) to: &'static str,
    pub(crate) how: How,
    pub(crate) required: bool,
}

/// How a tensor is written.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum How {
    Same,
    /// Rows of Q and of K, for rotations of adjacent pairs.
    PairsOfQ,
    PairsOfK,
    /// The weight is stored by columns.
    Transposed,
    /// The model adds 1 to the weight.
    PlusOne,
    /// Q, K and V of each head, one head after the other.
    Fused,
    /// One matrix per expert.
    Experts,
    /// One vector per head of Q, of K.
    HeadsOfQ,
    HeadsOfK,
}

/// A required tensor.
pub(crate) const fn rule(from: &'static str, to: &'static str, how: How) -> Rule {
    Rule { from, to, how, required: true }
}

/// One that a model may not have.
pub(crate) const fn optional(from: &'static str, to: &'static str, how: How) -> Rule {
    Rule { from, to, how, required: false }
}

/// What stands before the names.
const PREFIXES: [&str; 3] = ["model.", "transformer.", "gpt_neox."];

/// Constants that old files have among the weights.
const IGNORED: [&str; 6] = [
    ".attn.bias",
    ".attn.masked_bias",
    ".attention.bias",
    ".attention.masked_bias",
    ".rotary_emb.inv_freq",
    "rotary_emb.inv_freq",
];

/// The tensors of a folder, and which of them are written.
pub(crate) struct Store<'a> {
    tensors: BTreeMap<String, Stored<'a>>,
    used: BTreeSet<String>,
}

impl<'a> Store<'a> {
    pub(crate) fn new(tensors: BTreeMap<String, Stored<'a>>) -> Self {
        let short = |name: String| match PREFIXES.iter().find_map(|prefix| name.strip_prefix(prefix)) {
            Some(rest) => rest.to_owned(),
            None => name,
        };
        let tensors = tensors.into_iter().map(|(name, stored)| (short(name), stored)).collect();
        Self { tensors, used: BTreeSet::new() }
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.tensors.contains_key(name)
    }

    /// Leaves a tensor out.
    pub(crate) fn ignore(&mut self, name: &str) {
        self.tensors.remove(name);
    }

    /// The tensors of the rules: those outside of layers, then layer after layer.
    pub(crate) fn take(&mut self, rules: &[&[Rule]], config: &Config) -> Result<Vec<Tensor<'a>>> {
        let rules = || rules.iter().copied().flatten();
        let of_layers = |rule: &&Rule| rule.from.contains("{}");
        let mut tensors = Vec::new();
        for rule in rules().filter(|rule| !of_layers(rule)) {
            self.add(rule, rule.from, rule.to, config, &mut tensors)?;
        }
        for layer in 0..config.layers()? {
            let fill = |name: &str| name.replace("{}", &layer.to_string());
            for rule in rules().filter(of_layers) {
                self.add(rule, &fill(rule.from), &fill(rule.to), config, &mut tensors)?;
            }
        }
        Ok(tensors)
    }

    /// Adds a weight, and its bias where there is one.
    fn add(&mut self, rule: &Rule, from: &str, to: &str, config: &Config, tensors: &mut Vec<Tensor<'a>>) -> Result<()> {
        let weight = self.tensor(from, to, "weight", rule.how, config)?;
        if weight.is_none() && rule.required {
            return Err(format!("the tensor {from}.weight is missing").into());
        }
        tensors.extend(weight);
        tensors.extend(self.tensor(from, to, "bias", rule.how, config)?);
        Ok(())
    }

    /// Refuses tensors that no rule named.
    pub(crate) fn finish(self) -> Result<()> {
        let ignored = |name: &str| IGNORED.iter().any(|end| name.ends_with(end));
        match self.tensors.into_keys().find(|name| !self.used.contains(name) && !ignored(name)) {
            Some(name) => Err(format!("the tensor {name} is not known for this architecture").into()),
            None => Ok(()),
        }
    }

    fn tensor(&mut self, from: &str, to: &str, end: &str, how: How, config: &Config) -> Result<Option<Tensor<'a>>> {
        let count = match how {
            How::Experts => config.experts()?,
            How::HeadsOfQ => config.heads()?,
            How::HeadsOfK => config.kv_heads()?,
            _ => 1,
        };
        let names: Vec<_> = (0..count).map(|e| format!("{}.{end}", from.replace("{e}", &e.to_string()))).collect();
        let found: Vec<_> = names.iter().map_while(|name| self.tensors.get(name)).cloned().collect();
        if found.is_empty() {
            return Ok(None);
        }
        let missing = names.get(found.len()).map(|name| format!("the tensor {name} is missing"));
        missing.map_or(Ok(()), Err)?;
        let is_weight = end == "weight";
        let tensor = made(&found, format!("{to}.{end}"), how, is_weight, config);
        let tensor = tensor.map_err(|error| format!("{}: {error}", names.first().map_or("", |name| name)))?;
        self.used.extend(names);
        Ok(Some(tensor))
    }
}

/// The tensor that is written.
fn made<'a>(found: &[Stored<'a>], name: String, how: How, is_weight: bool, config: &Config) -> Result<Tensor<'a>> {
    let order = match how {
        How::PairsOfQ => Order::Pairs { heads: config.heads()? },
        How::PairsOfK => Order::Pairs { heads: config.kv_heads()? },
        How::Fused => Order::Fused { heads: config.heads()? },
        _ => Order::Same,
    };
    let transposed = how == How::Transposed && is_weight;
    let parts = found.iter().map(|stored| matrix(stored, order, transposed)).collect::<Result<Vec<_>>>()?;
    let add = if how == How::PlusOne && is_weight { 1.0 } else { 0.0 };
    let contents = Contents { parts, order, add };
    contents.check()?;
    let (rows, cols, parts) = (contents.rows(), contents.cols(), found.len());
    let vector = found.first().is_some_and(|stored| stored.shape.len() == 1);
    let dims = match how {
        How::Experts => vec![cols, rows / parts, parts],
        How::HeadsOfQ | How::HeadsOfK => vec![cols, rows],
        _ if vector => vec![rows * cols],
        _ => vec![cols, rows],
    };
    Ok(Tensor { name, dims, contents })
}

fn matrix<'a>(stored: &Stored<'a>, order: Order, transposed: bool) -> Result<Matrix<'a>> {
    let (rows, cols) = match stored.shape[..] {
        // What is put in order are single elements then.
        [n] if order != Order::Same => (n, 1),
        [n] => (1, n),
        [rows, cols] if transposed => (cols, rows),
        // A kernel for each channel.
        [rows, cols] | [rows, 1, cols] => (rows, cols),
        _ => return Err(format!("its shape is {:?}, no matrix", stored.shape).into()),
    };
    Ok(Matrix { dtype: stored.dtype()?, rows, cols, transposed, bytes: Cow::Borrowed(stored.bytes) })
}

/// A vector that is in no file.
pub(crate) fn vector(name: &str, elements: &[f32]) -> Tensor<'static> {
    let bytes: Vec<u8> = elements.iter().flat_map(|x| x.to_le_bytes()).collect();
    let (cols, bytes) = (elements.len(), Cow::Owned(bytes));
    let matrix = Matrix { dtype: Dtype::F32, rows: 1, cols, transposed: false, bytes };
    Tensor { name: name.into(), dims: vec![cols], contents: Contents::same(matrix) }
}
