//! The fixtures with logits of other engines: `parity/`, `parity2026/` and `quant/`. They are read from
//! `../shared/fixtures`, or, a few committed ones, from `tests/data`.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::fixture;
use super::reference::Rows;

/// An F32 model, with the reference's logits along a prompt and its greedy continuation.
pub struct Parity {
    pub gguf: Vec<u8>,
    pub prompt: Vec<u32>,
    /// Tokens that arg-max decoding appends to the prompt.
    pub greedy: Vec<u32>,
    /// Indices into prompt + greedy, one for each row of `logits`.
    pub positions: Vec<usize>,
    pub logits: Rows,
    pub hidden_position: usize,
    /// Hidden states at `hidden_position`: the input of every layer, then the output of the final norm.
    pub hidden: Rows,
    pub variants: Vec<Variant>,
}

/// The same file with other settings, and the reference's results for these.
pub struct Variant {
    pub name: String,
    pub greedy: Vec<u32>,
    pub positions: Vec<usize>,
    pub logits: Rows,
}

impl Parity {
    /// Names of the fixtures in `parity`: one or more for most architectures.
    pub const ALL: [&str; 15] = [
        "llama",
        "llama3-rope",
        "mistral-swa",
        "smollm3",
        "qwen2",
        "qwen3",
        "gemma",
        "gemma2",
        "gemma3",
        "phi3",
        "gpt2",
        "bloom",
        "gptneox",
        "stablelm",
        "olmo2",
    ];

    /// Names of the fixtures in `tests/data/more`, for properties that the others lack.
    pub const MORE: [&str; 14] = [
        "gemma3-linear",
        "gptneox-sequential",
        "granite",
        "llama-biases",
        "llama-linear",
        "llama-yarn",
        "mixtral",
        "mpt",
        "olmo3",
        "phi3-long",
        "phi3-short",
        "qwen3moe",
        "stablelm-parallel",
        "starcoder2",
    ];

    /// Returns the fixture `parity/NAME` or `more/NAME`, or `None` if its file is nowhere.
    pub fn load(name: &str) -> Option<Self> {
        let folder = if Self::MORE.contains(&name) { "more" } else { "parity" };
        let json = json(&format!("{folder}/{name}.json"))?;
        Some(Self {
            gguf: fixture(&format!("{folder}/{name}.gguf"))?,
            prompt: ids(&json["prompt"]),
            greedy: ids(&json["greedy"]),
            positions: indices(&json["positions"]),
            logits: rows(&json["logits"]),
            hidden_position: index(&json["hidden_position"]),
            hidden: rows(&json["hidden"]),
            variants: json["variants"].as_object().into_iter().flatten().map(Variant::read).collect(),
        })
    }

    /// Returns the prompt and the greedy continuation.
    pub fn sequence(&self) -> Vec<u32> {
        [&self.prompt[..], &self.greedy].concat()
    }
}

impl Variant {
    fn read((name, json): (&String, &Value)) -> Self {
        Self {
            name: name.clone(),
            greedy: ids(&json["greedy"]),
            positions: indices(&json["positions"]),
            logits: rows(&json["logits"]),
        }
    }
}

/// An F32 model of a newer family, with two sequences.
pub struct Parity2026 {
    pub gguf: Vec<u8>,
    pub main: Case,
    /// A longer prompt, which tests recurrent states, windows, and the scaling of positions.
    pub long: Case,
    pub state_reset: Option<StateReset>,
}

/// The change of the logits of `main` if recurrent states become zero before row `at`, while keys and values stay.
pub struct StateReset {
    pub at: usize,
    /// Positions, and the largest change of a logit at each, with three digits.
    pub change: Vec<(usize, f64)>,
}

/// A prompt, the tokens that arg-max decoding appends to it, and the reference's logits at some positions.
pub struct Case {
    pub prompt: Vec<u32>,
    pub greedy: Vec<u32>,
    /// Indices into prompt + greedy, one for each row of `logits`.
    pub positions: Vec<usize>,
    pub logits: Rows,
}

impl Parity2026 {
    /// Names of the fixtures of decoders.
    pub const DECODERS: [&str; 18] = [
        "mixtral",
        "qwen3moe",
        "ernie4_5",
        "hunyuan-dense",
        "glm4",
        "exaone4",
        "mistral3",
        "gpt-oss",
        "lfm2",
        "qwen35",
        "granitehybrid",
        "falcon-h1",
        "nemotron_h",
        "lfm2moe",
        "qwen35moe",
        "granitehybrid-moe",
        "gemma4",
        "gemma4-moe",
    ];

    /// Names of the fixtures of more decoders, which the f64 reference can compute.
    pub const MORE: [&str; 4] = ["lfm2moe", "qwen35moe", "granitehybrid-moe", "nemotron_h"];

    /// Returns the fixture `parity2026/NAME`, or `None` if its file is nowhere.
    pub fn load(name: &str) -> Option<Self> {
        let json = json(&format!("parity2026/{name}.json"))?;
        Some(Self::read(&json, fixture(&format!("parity2026/{name}.gguf"))?))
    }

    /// Returns the fixtures of a folder that has the same kind of files, with their names.
    pub fn of_folder(folder: &Path) -> Vec<(String, Self)> {
        of_folder(folder, "prompt").map(|(name, json, gguf)| (name, Self::read(&json, gguf))).collect()
    }

    fn read(json: &Value, gguf: Vec<u8>) -> Self {
        let state_reset = json.get("state_reset").map(StateReset::read);
        Self { gguf, main: Case::read(json), long: Case::read(&json["long"]), state_reset }
    }
}

/// An F32 model that makes vectors of texts.
pub struct Embedder {
    pub gguf: Vec<u8>,
    pub pooling: String,
    pub inputs: Vec<Vec<u32>>,
    /// The pooled vector of each input, not normalized to length 1.
    pub embeddings: Rows,
    /// Index of the input whose hidden states are all in `token_embeddings`, one row for each token.
    pub token_input: usize,
    pub token_embeddings: Rows,
}

impl Embedder {
    /// Names of the fixtures in `parity2026`.
    pub const ALL: [&str; 4] = ["bert", "nomic-bert", "gemma-embedding", "qwen3-embedding"];

    /// Names of the fixtures in `tests/data/encoders`.
    pub const MORE: [&str; 3] = ["modern-bert", "jina-bert-v3", "xlm-roberta"];

    /// Returns the fixture `parity2026/NAME` or `encoders/NAME`, or `None` if its file is nowhere.
    pub fn load(name: &str) -> Option<Self> {
        let folder = if Self::MORE.contains(&name) { "encoders" } else { "parity2026" };
        let json = json(&format!("{folder}/{name}.json"))?;
        Some(Self::read(&json, fixture(&format!("{folder}/{name}.gguf"))?))
    }

    /// Returns the fixtures of a folder that has the same kind of files, with their names.
    pub fn of_folder(folder: &Path) -> Vec<(String, Self)> {
        of_folder(folder, "inputs").map(|(name, json, gguf)| (name, Self::read(&json, gguf))).collect()
    }

    fn read(json: &Value, gguf: Vec<u8>) -> Self {
        Self {
            gguf,
            pooling: json["pooling"].as_str().unwrap().into(),
            inputs: json["inputs"].as_array().unwrap().iter().map(ids).collect(),
            embeddings: rows(&json["embeddings"]),
            token_input: index(&json["token_input"]),
            token_embeddings: rows(&json["token_embeddings"]),
        }
    }
}

impl StateReset {
    fn read(json: &Value) -> Self {
        let change = json["change"].as_object().unwrap().iter();
        Self {
            at: index(&json["at"]),
            change: change.map(|(position, change)| (position.parse().unwrap(), number(change))).collect(),
        }
    }
}

impl Case {
    fn read(json: &Value) -> Self {
        Self {
            prompt: ids(&json["prompt"]),
            greedy: ids(&json["greedy"]),
            positions: indices(&json["positions"]),
            logits: rows(&json["logits"]),
        }
    }
}

/// A quantized model, with the logits of exact arithmetic on its weights, and llama.cpp's error.
pub struct Quant {
    pub name: String,
    pub gguf: Vec<u8>,
    pub prompt: Vec<u32>,
    /// Whether all its matrices have blocks of 256, so that its activations have, too.
    pub blocks_of_256: bool,
    /// Indices into the prompt, one for each row of `ideal`.
    pub positions: Vec<usize>,
    pub ideal: Rows,
    /// llama.cpp's own logits at the same positions.
    pub llama_cpp: Rows,
    /// llama.cpp's relative L2 error over all positions of the prompt, fed as one batch.
    pub llama_cpp_error: f64,
}

impl Quant {
    /// Names of the models in `quant`, and the types of each.
    pub const ALL: [(&str, &[&str]); 5] = [
        ("llama-small", &["F16", "BF16"]),
        (
            "llama",
            &[
                "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS",
                "Q4_K_M", "Q5_K_M",
            ],
        ),
        ("qwen3", &["Q4_0", "Q3_K", "Q4_K", "Q6_K"]),
        ("qwen2-odd", &["Q4_K_M"]),
        ("qwen3", &Self::NEWER),
    ];

    /// The types in `quant2026`.
    const NEWER: [&str; 5] = ["Q1_0", "Q2_0", "TQ1_0", "TQ2_0", "IQ3_S"];

    /// Returns the fixture `quant/MODEL-DTYPE` or `quant2026/MODEL-DTYPE`, or `None` if its file is nowhere.
    pub fn load(model: &str, dtype: &str) -> Option<Self> {
        let folder = if Self::NEWER.contains(&dtype) { "quant2026" } else { "quant" };
        let json = json(&format!("{folder}/{model}.json"))?;
        Some(Self {
            name: format!("{model}-{dtype}"),
            blocks_of_256: ["_K", "IQ4_XS", "IQ3_S", "TQ"].iter().any(|part| dtype.contains(part)),
            gguf: fixture(&format!("{folder}/{model}-{dtype}.gguf"))?,
            prompt: ids(&json["prompt"]),
            positions: indices(&json["positions"]),
            ideal: npy(&fixture(&format!("{folder}/{model}-{dtype}.ideal.npy"))?),
            llama_cpp: npy(&fixture(&format!("{folder}/{model}-{dtype}.llamacpp.npy"))?),
            llama_cpp_error: number(&json["files"][dtype]["llama_cpp"]["batch"]["rel_err_48"]),
        })
    }

    /// Returns all fixtures whose files exist.
    pub fn load_all() -> impl Iterator<Item = Self> {
        let names = Self::ALL.into_iter().flat_map(|(model, types)| types.iter().map(move |dtype| (model, *dtype)));
        names.filter_map(|(model, dtype)| Self::load(model, dtype))
    }
}

/// Returns name, JSON and GGUF of each fixture in a folder whose JSON has the given member, in the order of names.
fn of_folder(folder: &Path, member: &'static str) -> impl Iterator<Item = (String, Value, Vec<u8>)> {
    let files = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    paths.sort();
    paths.into_iter().filter_map(move |path| {
        let json = parse_json(&std::fs::read(&path).unwrap());
        json.get(member)?;
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        Some((name, json, std::fs::read(path.with_extension("gguf")).unwrap()))
    })
}

/// Returns a fixture as JSON.
pub fn json(path: &str) -> Option<Value> {
    fixture(path).map(|bytes| parse_json(&bytes))
}

pub fn parse_json(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).expect("valid JSON")
}

pub fn ids(value: &Value) -> Vec<u32> {
    indices(value).into_iter().map(|id| id as u32).collect()
}

pub fn indices(value: &Value) -> Vec<usize> {
    value.as_array().expect("an array").iter().map(index).collect()
}

pub fn index(value: &Value) -> usize {
    value.as_u64().expect("a natural number") as usize
}

pub fn number(value: &Value) -> f64 {
    value.as_f64().expect("a number")
}

pub fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().expect("an array").iter().map(number).collect()
}

pub fn rows(value: &Value) -> Rows {
    let rows: Vec<Vec<f64>> = value.as_array().expect("an array").iter().map(numbers).collect();
    Rows { cols: rows[0].len(), data: rows.concat() }
}

/// Reads a NumPy array of two dimensions, float32 or float64, in C order (format versions 1 to 3).
pub fn npy(bytes: &[u8]) -> Rows {
    assert_eq!(&bytes[..6], b"\x93NUMPY");
    let (header_len, start) = match bytes[6] {
        1 => (usize::from(u16::from_le_bytes([bytes[8], bytes[9]])), 10),
        _ => (u32::from_le_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]) as usize, 12),
    };
    let header = std::str::from_utf8(&bytes[start..start + header_len]).expect("a text header");
    assert!(header.contains("'fortran_order': False"), "{header}");
    let shape = header.split_once("'shape': (").and_then(|(_, rest)| rest.split_once(')')).expect("a shape").0;
    let shape: Vec<usize> = shape.split(',').filter_map(|dim| dim.trim().parse().ok()).collect();
    let &[rows, cols] = &shape[..] else { panic!("{shape:?}: two dimensions expected") };
    let body = &bytes[start + header_len..];
    let data: Vec<f64> = if header.contains("'<f8'") {
        body.as_chunks().0.iter().map(|number| f64::from_le_bytes(*number)).collect()
    } else {
        assert!(header.contains("'<f4'"), "{header}");
        body.as_chunks().0.iter().map(|number| f64::from(f32::from_le_bytes(*number))).collect()
    };
    assert_eq!(data.len(), rows * cols);
    Rows { cols, data }
}
