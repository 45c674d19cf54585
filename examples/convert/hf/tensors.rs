//! Finds tensors by their names, with their names in a GGUF file and how their rows are written there.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use gleed::tensor::Dtype;

use super::config::Config;
use super::how::How;
use super::safetensors::Stored;
use crate::output::{Contents, Matrix, Tensor};
use common::Result;

/// A row of an architecture's table: a weight, and its bias if there is one.
pub(crate) struct Rule {
    /// Name without a prefix such as `model.`. `{}` is the layer, `{e}` the expert or the head.
    pub(crate) from: &'static str,
    pub(crate) to: &'static str,
    pub(crate) how: How,
    pub(crate) required: bool,
    /// Whether the names are whole. Otherwise `.weight` and `.bias` follow them.
    pub(crate) whole: bool,
}

/// Returns the rule of a required tensor.
pub(crate) const fn rule(from: &'static str, to: &'static str, how: How) -> Rule {
    Rule { from, to, how, required: true, whole: false }
}

/// Returns the rule of an optional tensor.
pub(crate) const fn optional(from: &'static str, to: &'static str, how: How) -> Rule {
    Rule { required: false, ..rule(from, to, how) }
}

/// Returns the rule of an optional tensor whose name does not end with `.weight` or `.bias`.
pub(crate) const fn whole(from: &'static str, to: &'static str, how: How) -> Rule {
    Rule { whole: true, ..optional(from, to, how) }
}

/// Prefixes of names that are left out.
const PREFIXES: [&str; 9] = [
    "model.language_model.",
    "language_model.model.",
    "language_model.",
    "model.",
    "transformer.",
    "gpt_neox.",
    "backbone.",
    "bert.",
    "roberta.",
];

/// Beginnings of the names of tensors that are left out: those for images and sounds, and those that predict several
/// tokens.
const OTHERS: [&str; 14] = [
    "model.visual.",
    "visual.",
    "model.vision_tower.",
    "vision_tower.",
    "model.multi_modal_projector.",
    "multi_modal_projector.",
    "model.vision_embedder.",
    "model.embed_vision.",
    "embed_vision.",
    "model.audio_tower.",
    "audio_tower.",
    "model.embed_audio.",
    "embed_audio.",
    "mtp.",
];

/// Ends of the names of constants that old files have among the weights.
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
    pub(crate) fn new(mut tensors: BTreeMap<String, Stored<'a>>) -> Self {
        let all = tensors.len();
        tensors.retain(|name, _| !OTHERS.iter().any(|other| name.starts_with(other)));
        if tensors.len() < all {
            eprintln!("{} tensors that no text goes through are left out", all - tensors.len());
        }
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

    /// Leaves out the layers from `first` on, which predict further ahead.
    pub(crate) fn leave_out_layers(&mut self, first: usize) {
        let all = self.tensors.len();
        let layer = |name: &str| name.strip_prefix("layers.")?.split('.').next()?.parse().ok();
        self.tensors.retain(|name, _| layer(name).is_none_or(|layer: usize| layer < first));
        if self.tensors.len() < all {
            eprintln!("{} tensors of layers that predict further ahead are left out", all - self.tensors.len());
        }
    }

    /// Returns the elements of tensors with one element, one tensor for each layer.
    pub(crate) fn numbers(&mut self, from: &str, layers: usize) -> Result<Vec<f32>> {
        let number = |layer: usize| {
            let name = from.replace("{}", &layer.to_string());
            let stored = self.tensors.remove(&name).ok_or_else(|| format!("the tensor {name} is missing"))?;
            stored.number().map_err(|error| format!("{name}: {error}").into())
        };
        (0..layers).map(number).collect()
    }

    /// Leaves a tensor out.
    pub(crate) fn ignore(&mut self, name: &str) {
        self.tensors.remove(name);
    }

    /// Returns the tensors of the rules: first those outside of layers, then layer after layer.
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

    /// Adds a weight, and its bias if there is one.
    fn add(&mut self, rule: &Rule, from: &str, to: &str, config: &Config, tensors: &mut Vec<Tensor<'a>>) -> Result<()> {
        let ends: &[&str] = if rule.whole { &[""] } else { &[".weight", ".bias"] };
        for (index, end) in ends.iter().enumerate() {
            let tensor = self.tensor(&format!("{from}{end}"), format!("{to}{end}"), rule.how, index == 0, config)?;
            if tensor.is_none() && rule.required && index == 0 {
                return Err(format!("the tensor {from}{end} is missing").into());
            }
            tensors.extend(tensor);
        }
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

    fn tensor(
        &mut self,
        from: &str,
        to: String,
        how: How,
        is_weight: bool,
        config: &Config,
    ) -> Result<Option<Tensor<'a>>> {
        let count = match how {
            How::Experts => config.experts()?,
            How::HeadsOfQ => config.heads()?,
            How::HeadsOfK => config.kv_heads()?,
            _ => 1,
        };
        let names: Vec<_> = (0..count).map(|e| from.replace("{e}", &e.to_string())).collect();
        let found: Vec<_> = names.iter().map_while(|name| self.tensors.get(name)).cloned().collect();
        if found.is_empty() {
            return Ok(None);
        }
        let missing = names.get(found.len()).map(|name| format!("the tensor {name} is missing"));
        missing.map_or(Ok(()), Err)?;
        if matches!(how, How::Zeros) && !found.iter().map(Stored::is_zero).collect::<Result<Vec<_>>>()?.contains(&false)
        {
            self.used.extend(names);
            return Ok(None);
        }
        if matches!(how, How::Zeros) {
            return Err(format!("the tensor {from} is not 0, which is not supported").into());
        }
        if matches!(how, How::LeftOut) {
            self.used.extend(names);
            return Ok(None);
        }
        let beside = from.strip_suffix("_blocks").map(|name| format!("{name}_scales"));
        let scales = beside.as_ref().and_then(|name| self.tensors.get(name)).map(|stored| stored.bytes);
        let tensor = made(&found, scales, to, how, is_weight, config);
        let tensor = tensor.map_err(|error| format!("{}: {error}", names.first().map_or("", |name| name)))?;
        self.used.extend(names);
        self.used.extend(beside);
        Ok(Some(tensor))
    }
}

/// Returns the tensor to write.
fn made<'a>(
    found: &[Stored<'a>],
    scales: Option<&'a [u8]>,
    name: String,
    how: How,
    is_weight: bool,
    config: &Config,
) -> Result<Tensor<'a>> {
    let stacked = |shape: &[usize]| shape.len() == 3 && name.contains("_exps.");
    let (found, stack) = match found {
        [one] if matches!(how, How::Stacked | How::TransposedStacked) => {
            let count = config.experts()?;
            (one.stacked(count)?, count)
        }
        [one] if scales.is_none() && stacked(&one.shape) => (one.parts()?, one.shape[0]),
        _ => (found.to_vec(), if matches!(how, How::Experts) { found.len() } else { 1 }),
    };
    let shape = found.first().map_or(&[][..], |stored| &stored.shape[..]);
    let (vector, stack) = (shape.len() == 1, if scales.is_some() { shape[0] } else { stack });
    let transposed = is_weight && how.is_transposed(config, shape)?;
    let rows = |part: &Matrix<'_>| part.rows;
    let singles = vector && how.orders_rows();
    let mut parts = match scales {
        Some(scales) => vec![blocks(&found, scales)?],
        None => found.iter().map(|stored| matrix(stored, singles, transposed)).collect::<Result<Vec<_>>>()?,
    };
    if let (How::Positions, [part]) = (how, &mut parts[..]) {
        part.drop_rows(config.first_position()?)?;
    }
    let (all, cols) = (parts.iter().map(rows).sum(), parts.first().map_or(0, |part| part.cols));
    let plan = how.plan(config, [all, cols], stack, is_weight)?;
    let contents = Contents { parts, order: plan.order, columns: plan.columns, change: plan.change };
    contents.check()?;
    let (rows, cols) = (contents.rows(), contents.cols());
    let dims = match how {
        How::HeadsOfQ | How::HeadsOfK => vec![cols, rows],
        How::PerHead | How::DecayPerHead => vec![1, rows * cols],
        How::Groups => {
            let groups = config.state_groups()?;
            vec![rows * cols / groups, groups]
        }
        How::Flat => vec![rows * cols],
        _ if stack > 1 || matches!(how, How::Experts | How::Stacked | How::TransposedStacked) => {
            vec![cols, rows / stack.max(1), stack]
        }
        _ if vector => vec![rows * cols],
        _ => vec![cols, rows],
    };
    Ok(Tensor { name, dims, contents })
}

/// Returns a stored matrix. `singles`: it is a vector whose elements are reordered.
fn matrix<'a>(stored: &Stored<'a>, singles: bool, transposed: bool) -> Result<Matrix<'a>> {
    let (rows, cols) = match stored.shape[..] {
        [n] if singles => (n, 1),
        [n] => (1, n),
        [rows, cols] if transposed => (cols, rows),
        // A convolution kernel for each channel.
        [rows, cols] | [rows, 1, cols] => (rows, cols),
        _ => return Err(format!("its shape is {:?}, no matrix", stored.shape).into()),
    };
    Ok(Matrix { dtype: stored.dtype()?, rows, cols, transposed, bytes: Cow::Borrowed(stored.bytes), scales: None })
}

/// Returns the matrix of MXFP4 blocks, which are stored as `[matrices, rows, blocks, bytes]`.
fn blocks<'a>(found: &[Stored<'a>], scales: &'a [u8]) -> Result<Matrix<'a>> {
    let [Stored { shape, bytes, .. }] = found else { return Err("there are several".into()) };
    let &[matrices, rows, count, 16] = &shape[..] else {
        return Err(format!("its shape is {shape:?}, not that of blocks").into());
    };
    let sizes = matrices.checked_mul(rows).zip(count.checked_mul(Dtype::MXFP4.block_len()));
    let (rows, cols) = sizes.ok_or("it is too large")?;
    Ok(Matrix { dtype: Dtype::MXFP4, rows, cols, transposed: false, bytes: Cow::Borrowed(bytes), scales: Some(scales) })
}

/// Returns a vector that is in no file.
pub(crate) fn vector(name: &str, elements: &[f32]) -> Tensor<'static> {
    let bytes: Vec<u8> = elements.iter().flat_map(|x| x.to_le_bytes()).collect();
    let (cols, bytes) = (elements.len(), Cow::Owned(bytes));
    let matrix = Matrix { dtype: Dtype::F32, rows: 1, cols, transposed: false, bytes, scales: None };
    Tensor { name: name.into(), dims: vec![cols], contents: Contents::same(matrix) }
}
