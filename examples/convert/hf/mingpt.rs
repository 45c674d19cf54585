//! Reads weights of minGPT in JSON: a `state_dict` whose tensors are nested arrays of numbers.
//!
//! The program is that of GPT-2. Matrices are `[out, in]`, as in `nn.Linear`. Files whose `c_attn` is `[in, out]`, as
//! in GPT-2, are read, too. Sizes follow from the tensors, except the number of heads.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value as Json, json};

use super::architectures::{Architecture, GPT2_MODEL};
use super::config::Config;
use super::how::How;
use super::numbers::{self, Numbers};
use super::safetensors::Stored;
use super::tensors::{Rule, optional, rule};
use super::{described, read_json};
use crate::output::Output;
use common::Result;

/// Ends of the names of buffers among the weights: the masks of attention.
const MASKS: [&str; 2] = [".attn.bias", ".attn.masked_bias"];

/// GPT-2 in minGPT: with an output matrix of its own, and matrices stored by rows.
const MINGPT: Architecture = Architecture { rules: &[BY_ROWS], tied: false, ..GPT2_MODEL };

/// GPT-2 with an output matrix of its own, and matrices stored by columns.
const BY_COLUMNS: Architecture = Architecture { tied: false, ..GPT2_MODEL };

/// The matrices of GPT-2, stored by rows.
pub(super) const BY_ROWS: &[Rule] = &[
    rule("wte", "token_embd", How::Same),
    rule("wpe", "position_embd", How::Same),
    rule("ln_f", "output_norm", How::Same),
    optional("lm_head", "output", How::Same),
    rule("h.{}.ln_1", "blk.{}.attn_norm", How::Same),
    rule("h.{}.attn.c_attn", "blk.{}.attn_qkv", How::Same),
    rule("h.{}.attn.c_proj", "blk.{}.attn_output", How::Same),
    rule("h.{}.ln_2", "blk.{}.ffn_norm", How::Same),
    rule("h.{}.mlp.c_fc", "blk.{}.ffn_up", How::Same),
    rule("h.{}.mlp.c_proj", "blk.{}.ffn_down", How::Same),
];

/// Layers, width and number of heads of the models that minGPT knows by name.
const HEADS: [(usize, usize, usize); 8] =
    [(12, 768, 12), (24, 1024, 16), (36, 1280, 20), (48, 1600, 25), (8, 512, 16), (6, 192, 6), (4, 128, 4), (3, 48, 3)];

/// A file of weights.
pub(crate) struct MinGpt {
    path: PathBuf,
    config: Config,
    tensors: BTreeMap<String, Numbers>,
    by_columns: bool,
}

impl MinGpt {
    /// Reads a file. Its settings come from the file, from `config.json` beside it, or from the tensors.
    pub(crate) fn read(path: &Path, bytes: &[u8]) -> Result<Self> {
        let file = numbers::read(bytes, &MASKS)?;
        let mut tensors = BTreeMap::new();
        for (name, numbers) in file.tensors {
            let short = name.strip_prefix("transformer.").unwrap_or(&name).to_owned();
            if tensors.insert(short, numbers).is_some() {
                return Err(format!("{name}: it is there twice").into());
            }
        }
        let beside = path.with_file_name("config.json");
        let given = match file.config {
            Some(config) => config,
            None if beside.is_file() && beside != path => read_json(&beside)?,
            None => Json::Null,
        };
        let sizes = Sizes::of(&tensors, &given)?;
        let by_columns = sizes.check(&tensors)?;
        Ok(Self { path: path.to_path_buf(), config: Config(sizes.config()), tensors, by_columns })
    }

    /// Returns the metadata and tensors to write.
    pub(crate) fn output(&self) -> Result<Output<'_>> {
        let stored = self
            .tensors
            .iter()
            .map(|(name, Numbers { shape, bytes })| (name.clone(), Stored::f32(shape.clone(), bytes)));
        let name = self.path.file_stem().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        let folder = match self.path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let architecture = if self.by_columns { &BY_COLUMNS } else { &MINGPT };
        described(&self.config, architecture, name, folder, None, stored.collect())
    }
}

/// The sizes of a model.
struct Sizes {
    layers: usize,
    heads: usize,
    hidden: usize,
    ffn: usize,
    vocab: usize,
    context: usize,
}

impl Sizes {
    /// Returns the sizes of the tensors. The settings must not contradict them.
    fn of(tensors: &BTreeMap<String, Numbers>, given: &Json) -> Result<Self> {
        let shape = |name: &str| {
            let numbers = tensors.get(name).ok_or_else(|| format!("the tensor {name} is missing"))?;
            match numbers.shape[..] {
                [rows, cols] => Ok((rows, cols)),
                _ => Err(format!("{name}: its shape is {:?}, no matrix", numbers.shape)),
            }
        };
        let ((vocab, hidden), (context, _)) = (shape("wte.weight")?, shape("wpe.weight")?);
        let (rows, cols) = shape("h.0.mlp.c_fc.weight")?;
        let ffn = if cols == hidden { rows } else { cols };
        let of_layer = |name: &String| name.strip_prefix("h.")?.split_once('.')?.0.parse::<usize>().ok();
        let layers = tensors.keys().filter_map(of_layer).max().map_or(0, |last| last.saturating_add(1));
        if layers > tensors.len() {
            return Err(format!("there is a tensor of layer {}, but not of all layers before", layers - 1).into());
        }
        let number = |name: &str| match &given[name] {
            Json::Null => Ok(None),
            value => value.as_u64().map(|n| Some(n as usize)).ok_or(format!("config: {name} is {value}, no size")),
        };
        let found = [("n_layer", layers), ("n_embd", hidden), ("vocab_size", vocab), ("block_size", context)];
        for (name, found) in found {
            if let Some(given) = number(name)?.filter(|&given| given != found) {
                return Err(format!("config: {name} is {given}, but the tensors say {found}").into());
            }
        }
        let known = || HEADS.iter().find(|&&(l, width, _)| (l, width) == (layers, hidden)).map(|known| known.2);
        let heads = number("n_head")?.or_else(known);
        let heads =
            heads.ok_or("config: n_head is missing, and no tensor says it; write {\"n_head\": N} to config.json")?;
        if heads == 0 || !hidden.is_multiple_of(heads) {
            return Err(format!("config: n_head is {heads}, which does not divide the width, {hidden}").into());
        }
        Ok(Self { layers, heads, hidden, ffn, vocab, context })
    }

    /// Checks the shapes of all tensors. Returns whether matrices are stored by columns.
    fn check(&self, tensors: &BTreeMap<String, Numbers>) -> Result<bool> {
        let &Self { hidden, ffn, vocab, context, .. } = self;
        let attention = tensors.get("h.0.attn.c_attn.weight").map(|numbers| &numbers.shape[..]);
        let by_columns = attention == Some(&[hidden, 3 * hidden]);
        let matrix = |rows: usize, cols: usize| if by_columns { vec![cols, rows] } else { vec![rows, cols] };
        let layer = [
            ("ln_1.weight", vec![hidden]),
            ("ln_1.bias", vec![hidden]),
            ("attn.c_attn.weight", matrix(3 * hidden, hidden)),
            ("attn.c_attn.bias", vec![3 * hidden]),
            ("attn.c_proj.weight", matrix(hidden, hidden)),
            ("attn.c_proj.bias", vec![hidden]),
            ("ln_2.weight", vec![hidden]),
            ("ln_2.bias", vec![hidden]),
            ("mlp.c_fc.weight", matrix(ffn, hidden)),
            ("mlp.c_fc.bias", vec![ffn]),
            ("mlp.c_proj.weight", matrix(hidden, ffn)),
            ("mlp.c_proj.bias", vec![hidden]),
        ];
        let whole = [
            ("wte.weight", vec![vocab, hidden]),
            ("wpe.weight", vec![context, hidden]),
            ("ln_f.weight", vec![hidden]),
            ("ln_f.bias", vec![hidden]),
        ];
        let whole = whole.into_iter().map(|(name, shape)| (name.to_owned(), shape));
        let layers =
            (0..self.layers).flat_map(|l| layer.iter().map(move |(n, shape)| (format!("h.{l}.{n}"), shape.clone())));
        // Without an output matrix the embedding takes its place.
        let head = tensors.contains_key("lm_head.weight").then(|| ("lm_head.weight".to_owned(), vec![vocab, hidden]));
        for (name, wanted) in whole.chain(layers).chain(head) {
            let numbers = tensors.get(&name).ok_or_else(|| format!("the tensor {name} is missing"))?;
            if numbers.shape != wanted {
                return Err(format!("{name}: its shape is {:?}, it must be {wanted:?}", numbers.shape).into());
            }
        }
        Ok(by_columns)
    }

    /// Returns the sizes as the `config.json` of a folder states them.
    fn config(&self) -> Json {
        json!({
            "n_layer": self.layers, "n_head": self.heads, "n_embd": self.hidden, "n_inner": self.ffn,
            "vocab_size": self.vocab, "n_positions": self.context, "max_position_embeddings": self.context,
        })
    }
}
