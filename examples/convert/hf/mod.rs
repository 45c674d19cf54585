//! A Hugging Face folder: `config.json`, safetensors, and a tokenizer.

mod architectures;
mod config;
mod delta_rule;
mod encoders;
mod gemma4;
mod gpt_oss;
mod how;
mod mingpt;
mod more;
mod mpt;
mod newer;
mod numbers;
mod rope;
mod safetensors;
mod state_space;
mod tensors;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use architectures::{ARCHITECTURES, Architecture};
use config::Config;
use delta_rule::DELTA_RULE;
use encoders::ENCODERS;
use gemma4::GEMMA4;
use gleed::host::MappedFile;
use gpt_oss::GPT_OSS;
pub(crate) use mingpt::MinGpt;
use more::MORE;
use newer::NEWER;
use safetensors::Stored;
use serde_json::Value as Json;
use state_space::STATE_SPACE;
use tensors::Store;

use crate::output::{Output, Tensor};
use crate::vocab;
use common::Result;
use common::gguf::Value;

/// A folder with its files open.
pub(crate) struct Folder {
    path: PathBuf,
    config: Config,
    files: Vec<(PathBuf, MappedFile)>,
}

impl Folder {
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let config = Config::of_text(read_json(&path.join("config.json"))?);
        let files = safetensors::files(path)?;
        Ok(Self { path: path.to_path_buf(), config, files })
    }

    /// The model as it is written.
    pub(crate) fn output(&self) -> Result<Output<'_>> {
        let config = &self.config;
        let architecture = architecture(config)?;
        (architecture.check)(config)?;
        let activations = ["hidden_activation", "hidden_act", "activation_function"];
        if let Some(name) = config.field(&activations).and_then(Json::as_str)
            && !architecture.activations.contains(&name)
        {
            return Err(format!("config.json: the activation function {name:?} is not supported").into());
        }
        let mut stored = BTreeMap::new();
        for (path, file) in &self.files {
            safetensors::read(file.bytes(), &mut stored).map_err(|error| format!("{}: {error}", path.display()))?;
        }
        described(config, architecture, self.name(), &self.path, self.pooling()?, stored)
    }

    /// What becomes of the hidden states of a text, as the library of sentence transformers says it.
    fn pooling(&self) -> Result<Option<u32>> {
        let path = self.path.join("1_Pooling/config.json");
        if !path.is_file() {
            return Ok(None);
        }
        let json = read_json(&path)?;
        let modes = [("pooling_mode_mean_tokens", 1), ("pooling_mode_cls_token", 2), ("pooling_mode_lasttoken", 3)];
        let is_on = |name: &str| json[name].as_bool().unwrap_or(false);
        match modes.iter().find(|(name, _)| is_on(name)) {
            Some(&(_, number)) => Ok(Some(number)),
            None => Err(format!("{}: this pooling is not supported", path.display()).into()),
        }
    }

    /// The name of the folder.
    fn name(&self) -> String {
        let path = std::fs::canonicalize(&self.path).unwrap_or_else(|_| self.path.clone());
        path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
    }
}

/// A model of this architecture as it is written, with the tokenizer that is in `folder`.
fn described<'a>(
    config: &Config,
    architecture: &Architecture,
    name: String,
    folder: &Path,
    pooling: Option<u32>,
    stored: BTreeMap<String, Stored<'a>>,
) -> Result<Output<'a>> {
    let rope =
        if architecture.rotary > 0.0 { (architecture.rope)(config, architecture.rotary)? } else { Default::default() };
    let mut output = Output::default();
    output.header.set("general.architecture", Value::Text(architecture.name.into()));
    output.header.set("general.name", Value::Text(name));
    let mut set = |name: &str, value| output.header.set(&format!("{}.{name}", architecture.name), value);
    for key in architecture.keys.iter().copied().flatten() {
        if let Some(value) = (key.1)(config)? {
            set(key.0, value);
        }
    }
    if let Some(pooling) = pooling {
        set("pooling_type", Value::U32(pooling));
    }
    rope.keys.into_iter().for_each(|(name, value)| set(name, value));
    windows(config, architecture)?.into_iter().for_each(|(name, value)| set(name, value));
    output.tensors = tensors(config, architecture, stored)?;
    let vocab = config.vocab()?;
    let embedding = output.tensors.iter().find(|tensor| tensor.name == "token_embd.weight");
    let rows = embedding.map_or(0, |tensor| tensor.contents.rows());
    if vocab > rows {
        return Err(format!("config.json: vocab_size is {vocab}, but the embedding has {rows} rows").into());
    }
    vocab::of_folder(folder, vocab, &config.0)?.write(&mut output.header);
    output.tensors.extend(rope.tensors.iter().map(|(name, elements)| tensors::vector(name, elements)));
    Ok(output)
}

fn tensors<'a>(
    config: &Config,
    architecture: &Architecture,
    stored: BTreeMap<String, Stored<'a>>,
) -> Result<Vec<Tensor<'a>>> {
    let mut store = Store::new(stored);
    let tied = config.0["tie_word_embeddings"].as_bool();
    for head in ["lm_head.weight", "embed_out.weight"] {
        if tied.unwrap_or(architecture.tied) {
            store.ignore(head);
        }
    }
    let head = store.has("lm_head.weight") || store.has("embed_out.weight");
    if tied == Some(false) && !head && !architecture.headless {
        return Err("the output matrix, lm_head.weight, is missing".into());
    }
    let tensors = store.take(architecture.rules, config)?;
    store.finish()?;
    Ok(tensors)
}

fn architecture(config: &Config) -> Result<&'static Architecture> {
    let names = config.field(&["architectures"]).and_then(Json::as_array).ok_or("config.json has no architectures")?;
    let name = names.first().and_then(Json::as_str).ok_or("config.json: architectures is empty")?;
    let all = [ARCHITECTURES, NEWER, MORE, DELTA_RULE, STATE_SPACE, GEMMA4, GPT_OSS, ENCODERS].into_iter().flatten();
    let mut all = all.filter(|architecture| architecture.classes.contains(&name));
    let found = all.find(|architecture| (architecture.when)(config));
    found.ok_or_else(|| format!("config.json: the architecture {name:?} is not supported").into())
}

/// The window, and which layers have it where this is not the architecture's own pattern.
fn windows(config: &Config, architecture: &Architecture) -> Result<Vec<(&'static str, Value)>> {
    let Some(sliding) = config.sliding_layers()? else { return Ok(Vec::new()) };
    let window = config.size(&["sliding_window"])?;
    let mut keys = vec![("attention.sliding_window", Value::U32(window.try_into()?))];
    let period = architecture.window_period;
    let usual = |layer: usize| period == 0 || !(layer + 1).is_multiple_of(period);
    let unsaid = config.field(&["layer_types", "sliding_window_pattern"]).is_none() && period > 0;
    if !unsaid && sliding.iter().enumerate().any(|(layer, &slides)| slides != usual(layer)) {
        keys.push(("attention.sliding_window_pattern", Value::Bools(sliding)));
    }
    Ok(keys)
}

/// A file with JSON.
pub(crate) fn read_json(path: &Path) -> Result<Json> {
    let bytes = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    serde_json::from_slice(&bytes).map_err(|error| format!("{}: {error}", path.display()).into())
}
