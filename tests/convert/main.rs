//! Runs `convert` as a user runs it: Hugging Face folders, llama2.c models and GGUF files become GGUF files.

mod embedders;
mod errors;
mod families;
mod importance;
mod mingpt;
mod more;
mod more_encoders;
mod newer;
#[path = "../../examples/convert/quantize/mod.rs"]
mod quantize;
mod refused;
mod vocab;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use common::fixtures::{ids, parse_json};
use common::random::Rng;
use common::{Memory, argmax, committed, rel_l2, shared_file};
use gguf_rs_lite::Gguf;
use gleed::tensor::Dtype;
use gleed::{Engine, KvType, Limits, Model, Plan, SeqId};
use serde_json::{Value as Json, json};

/// Returns a command that runs `convert`.
fn start(input: &Path, out: &Path, flags: &[&str]) -> Command {
    // The path of this test is `target/PROFILE/deps/convert-HASH`.
    let folder = std::env::current_exe().unwrap().parent().unwrap().parent().unwrap().join("examples");
    let program = folder.join(format!("convert{}", std::env::consts::EXE_SUFFIX));
    assert!(program.is_file(), "no {}; `cargo build --examples` makes it", program.display());
    let mut command = Command::new(program);
    command.arg(input).arg(out).args(flags);
    command
}

/// Runs `convert`. Returns its standard error, as an error if it failed.
fn convert(input: &Path, out: &Path, flags: &[&str]) -> Result<String, String> {
    let run = start(input, out, flags).output().unwrap();
    let said = String::from_utf8(run.stderr).unwrap();
    if run.status.success() { Ok(said) } else { Err(said) }
}

/// Returns the file that `convert` makes.
fn converted(input: &Path, flags: &[&str]) -> Vec<u8> {
    let out = scratch("converted.gguf");
    convert(input, &out, flags).unwrap_or_else(|error| panic!("{}: {error}", input.display()));
    let file = std::fs::read(&out).unwrap();
    std::fs::remove_file(out).unwrap();
    file
}

/// Returns a path for a file or a folder, another one each time.
fn scratch(name: &str) -> PathBuf {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("convert-{count}-{name}"))
}

/// Returns the tokens that arg-max decoding appends to the prompt.
fn greedy(file: &[u8], prompt: &[u32], n: usize) -> Vec<u32> {
    with_prompt(file, prompt, n, |engine, sequence, logits| {
        let mut greedy = vec![argmax(logits)];
        while greedy.len() < n {
            greedy.push(argmax(engine.decode_step(sequence, greedy[greedy.len() - 1]).unwrap()));
        }
        greedy
    })
}

/// Calls `then` with the logits after the prompt, and with an engine that has room for `n` more tokens.
fn with_prompt<T>(
    file: &[u8],
    prompt: &[u32],
    n: usize,
    then: impl FnOnce(&mut Engine<'_, '_>, SeqId, &[f32]) -> T,
) -> T {
    let model = Model::open(file).unwrap_or_else(|error| panic!("{error}"));
    let limits = Limits { context: prompt.len() + n, kv_type: KvType::F32, ..Limits::default() };
    let plan = Plan::new(&model, &limits).unwrap();
    let mut memory = Memory::new(plan.bytes());
    let mut engine = Engine::new(&model, &plan, memory.bytes()).unwrap();
    let sequence = engine.open().unwrap();
    let logits = engine.prefill(sequence, prompt).unwrap().to_vec();
    then(&mut engine, sequence, &logits)
}

/// For every architecture, the ids are those that transformers generates from the folder.
#[test]
fn folders_generate_what_transformers_does() {
    let folder = committed("hf");
    let expected = parse_json(&std::fs::read(folder.join("expected.json")).unwrap());
    for (name, expected) in expected.as_object().unwrap() {
        let (prompt, wanted) = (ids(&expected["prompt"]), ids(&expected["greedy"]));
        let kept = converted(&folder.join(name), &[]);
        assert_eq!(Gguf::parse(&kept).unwrap().tensor("token_embd.weight").unwrap().ggml_type().name(), "BF16");
        assert_eq!(greedy(&kept, &prompt, wanted.len()), wanted, "{name}");
        let wide = converted(&folder.join(name), &["--type", "f32"]);
        assert_eq!(greedy(&wide, &prompt, wanted.len()), wanted, "{name} in F32");
    }
}

/// Families of 2024 to 2026 have the ids and the logits of transformers.
#[test]
fn folders_of_families_have_the_logits_of_transformers() {
    let folder = committed("families");
    let expected = parse_json(&std::fs::read(folder.join("expected.json")).unwrap());
    let mut wrong = Vec::new();
    for (name, expected) in expected.as_object().unwrap() {
        if expected["vector"].is_array() {
            continue;
        }
        let (prompt, wanted) = (ids(&expected["prompt"]), ids(&expected["greedy"]));
        let logits: Vec<f64> = expected["logits"].as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect();
        let out = scratch("family.gguf");
        if let Err(error) = convert(&folder.join(name), &out, &["--type", "f32"]) {
            wrong.push(format!("{name}: {error}"));
            continue;
        }
        let file = std::fs::read(&out).unwrap();
        let error = with_prompt(&file, &prompt, 0, |_, _, found| rel_l2(found, &logits));
        println!("{name}: relative error {error:.1e}");
        if error > 1e-5 || greedy(&file, &prompt, wanted.len()) != wanted {
            wrong.push(format!("{name}: relative error {error:e}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Folders with the keys that `config.json` had before `rope_parameters` become the same file.
#[test]
fn older_folders() {
    let changes = [
        (
            "llama",
            json!({"rope_theta": 10000.0, "rope_scaling": {"rope_type": "llama3", "factor": 8.0,
            "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 16}}),
        ),
        (
            "qwen2",
            json!({"rope_theta": 10000.0, "layer_types": null, "use_sliding_window": null, "sliding_window": 12,
            "rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}}),
        ),
        (
            "gemma3",
            json!({"rope_theta": 1e6, "rope_local_base_freq": 10000.0, "layer_types": null,
            "sliding_window_pattern": 2, "rope_scaling": {"rope_type": "linear", "factor": 8.0}}),
        ),
        (
            "phi3",
            json!({"rope_theta": 10000.0, "partial_rotary_factor": 0.75, "rope_scaling": {"type": "longrope",
            "long_factor": [1.25, 3.5, 6.0], "short_factor": [1.0, 1.125, 1.75]}}),
        ),
        ("gptneox", json!({"rotary_emb_base": 10000, "rotary_pct": 0.5})),
        ("stablelm", json!({"rope_theta": 10000, "partial_rotary_factor": 0.5})),
    ];
    for (name, fields) in changes {
        // The folder has the name of the model, because the name becomes metadata.
        let (new, old) = (committed("hf").join(name), scratch("older").join(name));
        std::fs::create_dir_all(&old).unwrap();
        std::fs::copy(new.join("model.safetensors"), old.join("model.safetensors")).unwrap();
        let mut config = parse_json(&std::fs::read(new.join("config.json")).unwrap());
        config.as_object_mut().unwrap().remove("rope_parameters").unwrap();
        config.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        write_json(&old.join("config.json"), &config);
        assert!(converted(&old, &[]) == converted(&new, &[]), "{name}");
    }
}

/// The tensors equal those of another converter, bit for bit, and the metadata of the model is the same.
#[test]
fn folders_become_the_files_of_another_converter() {
    for name in ["llama", "gpt2"] {
        let Some(other) = shared_file(&format!("fixtures/parity/{name}.gguf")) else { return };
        let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../shared/fixtures/parity/hf")).join(name);
        let ours = converted(&folder, &["--type", "f32", "--threads", "2"]);
        let (ours, other) = (Gguf::parse(&ours).unwrap(), Gguf::parse(&other).unwrap());
        assert_eq!(ours.tensor_count(), other.tensor_count());
        for info in other.tensors() {
            let found = ours.tensor(info.name()).unwrap_or_else(|| panic!("{name}: no {}", info.name()));
            assert_eq!(found.dims(), info.dims(), "{name}: {}", info.name());
            assert_eq!(found.ggml_type(), info.ggml_type(), "{name}: {}", info.name());
            assert!(found.data() == info.data(), "{name}: {}", info.name());
        }
        let keys = other.metadata().filter(|(key, _)| key.starts_with(name) || *key == "general.architecture");
        assert!(keys.clone().count() > 6);
        for (key, value) in keys {
            assert_eq!(ours.get(key), Some(value), "{key}");
        }
    }
}

/// Every type for every matrix, from a GGUF file: the logits are those of the same elements expanded again.
#[test]
fn gguf_files_get_other_types() {
    let demo = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/assets/gleed-tales-q8_0.gguf"));
    let original = std::fs::read(demo).unwrap();
    let original = Gguf::parse(&original).unwrap();
    assert_eq!(converted(demo, &[]).len(), original.bytes().len());
    let imatrix = scratch("imatrix.gguf");
    std::fs::write(&imatrix, importance::gguf(&importance::entries(original.bytes())).finish()).unwrap();
    for dtype in Dtype::ALL {
        let needs = quantize::needs_importance(dtype);
        let kind = dtype.name().to_lowercase();
        let file = if needs { importance::with(demo, &kind, &imatrix).0 } else { converted(demo, &["--type", &kind]) };
        let gguf = Gguf::parse(&file).unwrap();
        for key in ["llama.block_count", "tokenizer.ggml.tokens", "tokenizer.ggml.scores", "llama.rope.freq_base"] {
            assert_eq!(gguf.get(key), original.get(key), "{key}");
        }
        for (ours, theirs) in gguf.tensors().zip(original.tensors()) {
            assert_eq!((ours.name(), ours.dims()), (theirs.name(), theirs.dims()));
            let is_norm = ours.dims().len() == 1;
            // The output matrix is the embedding in this model.
            let wanted = if is_norm {
                "F32"
            } else if needs && ours.name() == "token_embd.weight" {
                "Q5_K"
            } else {
                dtype.name()
            };
            assert_eq!(ours.ggml_type().name(), wanted, "{}", ours.name());
        }
        let text = greedy(&file, &[1, 414, 435, 261, 385], 12);
        assert!(dtype != Dtype::Q8_0 || text == greedy(original.bytes(), &[1, 414, 435, 261, 385], 12));
    }
}

/// A mixture gives each tensor the type that `llama-quantize` gives it.
#[test]
fn mixtures_are_those_of_llama_cpp() {
    for (model, name) in [("llama", "Q4_K_M"), ("llama", "Q5_K_M"), ("qwen2-odd", "Q4_K_M")] {
        let Some(other) = shared_file(&format!("fixtures/quant/{model}-{name}.gguf")) else { return };
        let source = format!("/../shared/fixtures/quant/{model}-{name}.gguf");
        let source = [env!("CARGO_MANIFEST_DIR"), &source].concat();
        let ours = converted(Path::new(&source), &["--type", &name.to_lowercase()]);
        // The source has the same types, so its blocks are copied.
        let tensors = |file| -> Vec<(String, String, Vec<u8>)> {
            let gguf = Gguf::parse(file).unwrap();
            gguf.tensors().map(|t| (t.name().into(), t.ggml_type().name().into(), t.data().to_vec())).collect()
        };
        assert!(tensors(&ours) == tensors(&other), "{model}-{name}");
    }
}

/// Writes a folder with a model of one layer and `vocab` tokens, and other files.
fn folder(name: &str, vocab: usize, files: &[(&str, Json)]) -> PathBuf {
    let folder = scratch(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    let config = json!({"architectures": ["LlamaForCausalLM"], "vocab_size": vocab, "hidden_size": 8,
        "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1,
        "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "tie_word_embeddings": true});
    write_json(&folder.join("config.json"), &config);
    for (name, json) in files {
        write_json(&folder.join(name), json);
    }
    std::fs::write(folder.join("model.safetensors"), safetensors(&tensors(vocab))).unwrap();
    folder
}

fn write_json(path: &Path, json: &Json) {
    std::fs::write(path, serde_json::to_vec(json).unwrap()).unwrap();
}

/// Returns names and shapes of the tensors of [`folder`].
fn tensors(vocab: usize) -> Vec<(String, Vec<usize>)> {
    let layer = [
        ("input_layernorm", vec![8]),
        ("self_attn.q_proj", vec![8, 8]),
        ("self_attn.k_proj", vec![4, 8]),
        ("self_attn.v_proj", vec![4, 8]),
        ("self_attn.o_proj", vec![8, 8]),
        ("post_attention_layernorm", vec![8]),
        ("mlp.gate_proj", vec![16, 8]),
        ("mlp.up_proj", vec![16, 8]),
        ("mlp.down_proj", vec![8, 16]),
    ];
    let mut tensors = vec![("model.embed_tokens.weight".into(), vec![vocab, 8]), ("model.norm.weight".into(), vec![8])];
    tensors.extend(layer.map(|(name, shape)| (format!("model.layers.0.{name}.weight"), shape)));
    tensors
}

/// Returns a file with these tensors in F32, with random elements.
fn safetensors(tensors: &[(String, Vec<usize>)]) -> Vec<u8> {
    let mut rng = Rng::new(4);
    let (mut header, mut data) = (serde_json::Map::new(), Vec::new());
    for (name, shape) in tensors {
        let begin = data.len();
        (0..shape.iter().product()).for_each(|_: usize| data.extend(rng.normal().to_le_bytes()));
        header.insert(name.clone(), json!({"dtype": "F32", "shape": shape, "data_offsets": [begin, data.len()]}));
    }
    let header = serde_json::to_vec(&header).unwrap();
    [&(header.len() as u64).to_le_bytes()[..], &header, &data].concat()
}
