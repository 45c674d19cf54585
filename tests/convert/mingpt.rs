//! Weights of minGPT in JSON.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value as Json, json};

use crate::{converted, scratch};
use common::fixtures::parse_json;
use common::{Memory, committed};
use gguf_rs_lite::Gguf;
use gleed::{Engine, KvType, Limits, Model, Plan};

/// The shape and the elements of a tensor.
type Tensor = (Vec<usize>, Vec<f32>);

/// Returns the tensors of the small GPT-2 folder, whose elements are BF16.
fn tensors() -> Vec<(String, Tensor)> {
    let file = std::fs::read(committed("hf/gpt2/model.safetensors")).unwrap();
    let (len, rest) = file.split_first_chunk::<8>().unwrap();
    let (header, data) = rest.split_at(u64::from_le_bytes(*len) as usize);
    let header = parse_json(header);
    let tensors = header.as_object().unwrap().iter().filter(|(name, _)| *name != "__metadata__");
    let tensor = |(name, info): (&String, &Json)| {
        assert_eq!(info["dtype"], "BF16");
        let numbers = |name: &str| -> Vec<usize> {
            info[name].as_array().unwrap().iter().map(|n| n.as_u64().unwrap() as usize).collect()
        };
        let (shape, place) = (numbers("shape"), numbers("data_offsets"));
        let bytes = data[place[0]..place[1]].as_chunks::<2>().0;
        let elements = bytes.iter().map(|&[low, high]| f32::from_le_bytes([0, 0, low, high])).collect();
        let name = name.strip_prefix("transformer.").unwrap_or(name);
        (format!("transformer.{name}"), (shape, elements))
    };
    tensors.map(tensor).collect()
}

/// Returns the transposed matrix.
fn transposed((shape, elements): &Tensor) -> Tensor {
    let [rows, cols] = shape[..] else { panic!("{shape:?}") };
    (vec![cols, rows], (0..cols).flat_map(|c| (0..rows).map(move |r| elements[r * cols + c])).collect())
}

/// Returns a tensor as nested arrays.
fn nested((shape, elements): &Tensor) -> Json {
    match &shape[..] {
        [] | [_] => json!(elements),
        [count, inner @ ..] => {
            elements.chunks(elements.len() / count).map(|part| nested(&(inner.to_vec(), part.to_vec()))).collect()
        }
    }
}

/// Returns a state_dict of minGPT, with masks and an output matrix. With `linear`, matrices are those of `nn.Linear`,
/// which GPT-2 has transposed.
fn state_dict(linear: bool) -> Map<String, Json> {
    let mut dict = Map::new();
    for (name, tensor) in tensors() {
        let is_matrix = name.contains(".h.") && name.ends_with(".weight") && tensor.0.len() == 2;
        let tensor = if linear && is_matrix { transposed(&tensor) } else { tensor };
        if name.ends_with("wte.weight") {
            dict.insert("lm_head.weight".into(), nested(&tensor));
        }
        dict.insert(name, nested(&tensor));
    }
    dict.insert("transformer.h.0.attn.bias".into(), json!([[[[1, 0], [1, 1]]]]));
    dict
}

fn heads() -> u64 {
    let config = parse_json(&std::fs::read(committed("hf/gpt2/config.json")).unwrap());
    config["n_head"].as_u64().unwrap()
}

/// Writes a file in a folder of its own.
fn written(json: &Json) -> PathBuf {
    written_bytes(&serde_json::to_vec(json).unwrap())
}

fn written_bytes(bytes: &[u8]) -> PathBuf {
    let folder = scratch("mingpt");
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("model.json");
    std::fs::write(&path, bytes).unwrap();
    path
}

/// Returns the bits of the logits after each of some tokens.
fn logits(file: &[u8]) -> Vec<u32> {
    let model = Model::open(file).unwrap();
    let plan = Plan::new(&model, &Limits { context: 16, kv_type: KvType::F32, ..Limits::default() }).unwrap();
    let mut memory = Memory::new(plan.bytes());
    let mut engine = Engine::new(&model, &plan, memory.bytes()).unwrap();
    let seq = engine.open().unwrap();
    let tokens = [3, 1, 4, 1, 5, 9, 2, 6];
    tokens.iter().flat_map(|&token| engine.decode_step(seq, token).unwrap().to_vec()).map(f32::to_bits).collect()
}

/// The bits are those of the safetensors folder, in either order of the matrices and with settings in any place.
#[test]
fn weights_of_mingpt_have_the_logits_of_the_folder() {
    let wanted = logits(&converted(&committed("hf/gpt2"), &["--type", "f32"]));
    let mut whole = state_dict(true);
    whole.insert("config".into(), json!({"n_head": heads(), "model_type": null}));
    assert!(logits(&converted(&written(&Json::Object(whole)), &[])) == wanted);
    let inner = json!({"config": {"n_head": heads()}, "state_dict": state_dict(true)});
    assert!(logits(&converted(&written(&inner), &[])) == wanted);
    // Transposed matrices, settings in a file beside, and an embedding that is also the output matrix.
    let mut tied = state_dict(false);
    tied.remove("lm_head.weight").unwrap();
    let path = written(&Json::Object(tied));
    std::fs::write(path.with_file_name("config.json"), json!({"n_head": heads()}).to_string()).unwrap();
    let file = converted(&path, &[]);
    assert!(logits(&file) == wanted);
    let gguf = Gguf::parse(&file).unwrap();
    assert!(
        gguf.tensor("output.weight").is_none() && gguf.tensor("token_embd.weight").unwrap().ggml_type().name() == "F32"
    );
}

fn refused(path: &Path, words: &str) {
    crate::refused::refused(path, &[], words);
}

#[test]
fn what_is_missing_or_wrong_is_named() {
    let whole = |change: &dyn Fn(&mut Map<String, Json>)| {
        let mut dict = state_dict(true);
        dict.insert("config".into(), json!({"n_head": heads()}));
        change(&mut dict);
        written(&Json::Object(dict))
    };
    let name = "transformer.h.1.mlp.c_fc.weight";
    refused(&whole(&|dict| drop(dict.remove(name))), "the tensor h.1.mlp.c_fc.weight is missing");
    refused(&whole(&|dict| drop(dict.remove("transformer.wpe.weight"))), "the tensor wpe.weight is missing");
    refused(
        &whole(&|dict| drop(dict.insert(name.into(), json!([[1, 2], [3, 4]])))),
        "h.1.mlp.c_fc.weight: its shape is [2, 2], it must be [",
    );
    refused(
        &whole(&|dict| drop(dict.insert("transformer.ln_f.bias".into(), json!([1])))),
        "ln_f.bias: its shape is [1]",
    );
    refused(&whole(&|dict| drop(dict.insert("transformer.odd".into(), json!([1])))), "the tensor odd is not known");
    refused(
        &whole(&|dict| drop(dict.insert("transformer.h.4000000000.x".into(), json!([1])))),
        "a tensor of layer 4000000000",
    );
    refused(&whole(&|dict| drop(dict.remove("config"))), "n_head is missing");
    refused(&whole(&|dict| drop(dict.insert("config".into(), json!({"n_head": 0})))), "n_head is 0");
    refused(
        &whole(&|dict| drop(dict.insert("config".into(), json!({"n_head": 2, "n_layer": 77})))),
        "n_layer is 77, but",
    );
}

#[test]
fn json_that_is_no_weights_is_refused() {
    let cases: [(&str, &str); 18] = [
        ("{", "a name is expected"),
        ("{\"a\"", "':' is expected"),
        ("{\"a\": 1}", "a: byte 6: an array of numbers is expected"),
        ("{\"a\": [1, 2}", "',' is expected"),
        ("{\"a\": [1,]}", "a finite number is expected"),
        ("{\"a\": [NaN]}", "a finite number is expected"),
        ("{\"a\": [1e99]}", "a finite number is expected"),
        ("{\"a\": [Infinity]}", "a finite number is expected"),
        ("{\"a\": []}", "an array without elements"),
        ("{\"a\": [[1, 2], [3]]}", "an array of 1 ends at byte 18, where others have 2 elements"),
        ("{\"a\": [[1], 2]}", "an array is expected"),
        ("{\"a\": [1, [2]]}", "a number is expected"),
        ("{\"a\": [[1], [[2]]]}", "a number is expected"),
        ("{\"a\": [1], \"a\": [2]}", "a: it is there twice"),
        ("{\"a\": [1], \"transformer.a\": [2]}", "transformer.a: it is there twice"),
        ("{\"a\": [[[[[1]]]]]}", "more than 4 arrays in each other"),
        ("{\"a\": [1]} x", "the end of the file is expected"),
        ("{\"a\": [1]}", "the tensor wte.weight is missing"),
    ];
    for (text, words) in cases {
        refused(&written_bytes(text.as_bytes()), words);
    }
    let deep = format!("{{\"config\": {}}}", "[".repeat(1 << 20));
    refused(&written_bytes(deep.as_bytes()), "more than 4 arrays");
    let settings = format!("{{\"config\": {{\"a\": {}", "{\"a\":".repeat(1 << 16));
    refused(&written_bytes(settings.as_bytes()), "an object of at most 65536 bytes is expected");
    let name = format!("{{\"{}\": [1]}}", "a".repeat(1 << 20));
    refused(&written_bytes(name.as_bytes()), "a name of at most 255 bytes");
    // A long list of numbers that is cut off.
    let long = format!("{{\"a\": [{}", "0,".repeat(1 << 20));
    refused(&written_bytes(long.as_bytes()), "a finite number is expected");
}
