//! Reads a Hugging Face folder: `config.json`, safetensors, and a tokenizer.

mod architectures;
mod config;
mod delta_rule;
mod embedders;
mod encoders;
mod gemma4;
mod gpt_oss;
mod how;
mod images;
mod llamas;
mod mingpt;
mod more;
mod mpt;
mod newer;
mod numbers;
mod rope;
mod routed;
mod safetensors;
mod state_space;
mod tensors;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use architectures::{ARCHITECTURES, Architecture};
use config::Config;
use delta_rule::DELTA_RULE;
use embedders::EMBEDDERS;
use encoders::ENCODERS;
use gemma4::GEMMA4;
use gleed::host::MappedFile;
use gpt_oss::GPT_OSS;
use images::IMAGES;
use llamas::LLAMAS;
pub(crate) use mingpt::MinGpt;
use more::MORE;
use newer::NEWER;
use routed::ROUTED;
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
    /// Matrices after the pooling: names of their folders, and their files.
    dense: Vec<(&'static str, MappedFile)>,
}

impl Folder {
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let config = Config::of_text(read_json(&path.join("config.json"))?);
        let files = safetensors::files(path)?;
        let mut dense = Vec::new();
        for name in ["2_Dense", "3_Dense"].into_iter().filter(|name| path.join(name).is_dir()) {
            let settings = path.join(name).join("config.json");
            let activation = read_json(&settings)?["activation_function"].as_str().unwrap_or_default().to_owned();
            if !activation.ends_with("Identity") {
                let settings = settings.display();
                return Err(format!("{settings}: the activation function {activation:?} is not supported").into());
            }
            let file = path.join(name).join("model.safetensors");
            dense.push((name, MappedFile::open(&file).map_err(|error| format!("{}: {error}", file.display()))?));
        }
        Ok(Self { path: path.to_path_buf(), config, files, dense })
    }

    /// Returns the metadata and tensors to write.
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
        for (folder, file) in &self.dense {
            let mut own = BTreeMap::new();
            safetensors::read(file.bytes(), &mut own).map_err(|error| format!("{folder}: {error}"))?;
            stored.extend(own.into_iter().map(|(name, tensor)| (format!("{folder}.{name}"), tensor)));
        }
        described(config, architecture, self.name(), &self.path, self.pooling()?, stored)
    }

    /// Returns the pooling that the files of sentence-transformers state.
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

    /// Returns the name of the folder.
    fn name(&self) -> String {
        let path = std::fs::canonicalize(&self.path).unwrap_or_else(|_| self.path.clone());
        path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
    }
}

/// Returns the metadata and tensors of a model of this architecture, with the tokenizer in `folder`.
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
    let mut store = Store::new(stored);
    for &(key, from) in architecture.numbers {
        output.header.set(key, Value::F32s(store.numbers(from, config.layers()?)?));
    }
    output.tensors = tensors(config, architecture, store)?;
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

fn tensors<'a>(config: &Config, architecture: &Architecture, mut store: Store<'a>) -> Result<Vec<Tensor<'a>>> {
    if config.number(&["num_nextn_predict_layers"])?.is_some_and(|layers| layers > 0.0) {
        store.leave_out_layers(config.layers()?);
    }
    let tied = config.0["tie_word_embeddings"].as_bool();
    const HEADS: [&str; 3] = ["lm_head.weight", "embed_out.weight", "output.weight"];
    for head in HEADS {
        if tied.unwrap_or(architecture.tied) {
            store.ignore(head);
        }
    }
    let head = HEADS.iter().any(|head| store.has(head));
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
    let all: [&[Architecture]; 12] = [
        ARCHITECTURES,
        NEWER,
        MORE,
        LLAMAS,
        ROUTED,
        IMAGES,
        DELTA_RULE,
        STATE_SPACE,
        GEMMA4,
        GPT_OSS,
        EMBEDDERS,
        ENCODERS,
    ];
    let mut all = all.into_iter().flatten().filter(|architecture| architecture.classes.contains(&name));
    let found = all.find(|architecture| (architecture.when)(config));
    found.ok_or_else(|| format!("config.json: the architecture {name:?} is not supported").into())
}

/// Returns the window, and the layers that have it, if they differ from the architecture's own pattern.
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

/// Reads a JSON file.
pub(crate) fn read_json(path: &Path) -> Result<Json> {
    let bytes = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    serde_json::from_slice(&bytes).map_err(|error| format!("{}: {error}", path.display()).into())
}
