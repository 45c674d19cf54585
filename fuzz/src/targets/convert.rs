//! Inputs of `convert`: folders whose `config.json`, safetensors and tokenizer are changed, llama2.c models, GGUF files
//! and importance matrices. It refuses them or reads them. It neither panics nor asks for memory that no model needs.

use std::path::PathBuf;
use std::sync::LazyLock;

use serde_json::{Value, json};

use crate::support::Bytes;

/// A folder of the tests: its configuration and its safetensors file.
struct Folder {
    config: Value,
    tensors: Vec<u8>,
}

static FOLDERS: LazyLock<Vec<Folder>> = LazyLock::new(|| {
    let tests = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/data/hf");
    let names = ["llama", "gpt2", "gemma3", "phi3", "mixtral", "bloom", "stablelm", "qwen3moe"];
    let read = |name: &str| {
        let config = std::fs::read(format!("{tests}/{name}/config.json")).expect("a folder of the tests");
        let tensors = std::fs::read(format!("{tests}/{name}/model.safetensors")).expect("a folder of the tests");
        Folder { config: serde_json::from_slice(&config).expect("JSON"), tensors }
    };
    names.map(read).into()
});

/// A folder whose files each run writes anew.
static PLACE: LazyLock<PathBuf> = LazyLock::new(|| {
    let place = std::env::temp_dir().join(format!("gleed-fuzz-{}", std::process::id()));
    std::fs::create_dir_all(&place).expect("a place for files");
    place
});

/// Any bytes as a safetensors file, or a changed file of one of the tests' folders, beside that folder's configuration.
pub fn safetensors(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    let folder = bytes.pick(&FOLDERS);
    let mut file = folder.tensors.clone();
    if bytes.bool() {
        file = bytes.rest().to_vec();
    } else {
        for _ in 0..bytes.below(8) {
            change_tensors(&mut file, &mut bytes);
        }
    }
    read_folder(&folder.config.to_string().into_bytes(), &file, None);
}

/// The other inputs: changed configurations and vocabularies, and the other kinds of files.
pub fn convert(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    let kind = bytes.u8() % 8;
    if kind < 4 {
        let folder = bytes.pick(&FOLDERS);
        let mut config = folder.config.clone();
        (0..bytes.below(6)).for_each(|_| change(&mut config, &mut bytes));
        let tokenizer = bytes.bool().then(|| tokenizer(&mut bytes));
        return read_folder(&config.to_string().into_bytes(), &folder.tensors, tokenizer.as_deref());
    }
    let rest = bytes.rest();
    let result = match kind {
        4 => gleed_fuzz_convert::llama2c(rest, None),
        5 => {
            let (tokenizer, file) = rest.split_at(rest.len() / 2);
            gleed_fuzz_convert::llama2c(file, Some(tokenizer))
        }
        6 => gleed_fuzz_convert::gguf_file(rest),
        _ => gleed_fuzz_convert::importance(rest).map(|()| 1),
    };
    check(result);
}

fn read_folder(config: &[u8], tensors: &[u8], tokenizer: Option<&[u8]>) {
    let put = |name: &str, content: &[u8]| std::fs::write(PLACE.join(name), content).expect("room for files");
    put("config.json", config);
    put("model.safetensors", tensors);
    match tokenizer {
        Some(tokenizer) => put("tokenizer.json", tokenizer),
        None => drop(std::fs::remove_file(PLACE.join("tokenizer.json"))),
    }
    check(gleed_fuzz_convert::folder(&PLACE));
}

fn check(result: Result<usize, String>) {
    match result {
        Ok(bytes) => assert!(bytes > 0),
        Err(text) => assert!(!text.is_empty()),
    }
}

/// Returns a number, often at a border, a string, or another kind of value.
fn value(bytes: &mut Bytes<'_>) -> Value {
    const TEXTS: [&str; 8] =
        ["silu", "gelu", "linear", "yarn", "llama3", "longrope", "full_attention", "sliding_attention"];
    match bytes.u8() % 10 {
        0..4 => json!(bytes.odd()),
        4 => json!(bytes.f32()),
        5 => json!(bytes.bool()),
        6 => Value::Null,
        7 => json!(bytes.pick(&TEXTS)),
        8 => json!([bytes.odd(), bytes.odd()]),
        _ => {
            json!({"rope_type": bytes.pick(&TEXTS), "factor": bytes.f32(), "rope_theta": bytes.f32(), "type": bytes.pick(&TEXTS)})
        }
    }
}

/// Changes one field, somewhere in the value.
fn change(json: &mut Value, bytes: &mut Bytes<'_>) {
    match json {
        Value::Object(map) if !map.is_empty() => {
            let key = map.keys().nth(bytes.below(map.len())).expect("one of them").clone();
            match bytes.u8() % 4 {
                0 => drop(map.remove(&key)),
                1 => change(&mut map[&key], bytes),
                _ => map[&key] = value(bytes),
            }
        }
        Value::Array(list) if !list.is_empty() => {
            let at = bytes.below(list.len());
            match bytes.u8() % 4 {
                0 => drop(list.remove(at)),
                1 => list.push(list[at].clone()),
                _ => change(&mut list[at], bytes),
            }
        }
        other => *other = value(bytes),
    }
}

/// Changes the text of the header, its length, or any bytes.
fn change_tensors(file: &mut Vec<u8>, bytes: &mut Bytes<'_>) {
    let len = file.first_chunk().map_or(0, |len| u64::from_le_bytes(*len)) as usize;
    let header =
        file.get(8..8usize.saturating_add(len)).and_then(|header| serde_json::from_slice::<Value>(header).ok());
    match (bytes.u8() % 6, header) {
        (0..4, Some(mut json)) => {
            change(&mut json, bytes);
            let header = json.to_string().into_bytes();
            file.splice(..8 + len, (header.len() as u64).to_le_bytes().into_iter().chain(header));
        }
        (4, _) => file.truncate(bytes.below(file.len() + 1)),
        _ => {
            let at = bytes.below(file.len().min(4096));
            if let Some(byte) = file.get_mut(at) {
                *byte = bytes.u8();
            }
        }
    }
}

/// Returns a small vocabulary in the form of Hugging Face, with changes.
fn tokenizer(bytes: &mut Bytes<'_>) -> Vec<u8> {
    let mut json = json!({
        "version": "1.0",
        "added_tokens": [{"id": 5, "content": "<s>", "special": true, "normalized": false}],
        "normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "\u{2581}"}]},
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true},
        "decoder": {"type": "ByteLevel"},
        "model": {
            "type": (*bytes.pick(&["BPE", "Unigram", "WordPiece"])), "unk_token": "<unk>", "byte_fallback": bytes.bool(),
            "vocab": {"a": 0, "b": 1, "c": 2, "ab": 3, "abc": 4}, "merges": ["a b", "ab c"],
        },
    });
    (0..bytes.below(6)).for_each(|_| change(&mut json, bytes));
    json.to_string().into_bytes()
}
