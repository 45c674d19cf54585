//! Inputs that cannot be converted are refused with words that name the cause, and leave no file behind.

use std::path::{Path, PathBuf};
#[cfg(unix)]
use std::process::Command;

use serde_json::{Value as Json, json};

use crate::vocab::sentence_piece;
use crate::{convert, folder, safetensors, scratch, start, tensors, write_json};

/// Checks the error, and that an old file with the output's name stays as it was.
pub(crate) fn refused(input: &Path, flags: &[&str], words: &str) {
    let out = scratch("refused.gguf");
    std::fs::write(&out, b"old").unwrap();
    let error = convert(input, &out, flags).expect_err(words);
    let last = error.lines().last().unwrap_or_default();
    assert!(last.starts_with("error: ") && last.contains(words), "{words:?} is not in {error}");
    assert_eq!(std::fs::read(&out).unwrap(), b"old", "{words}");
    assert_eq!(beside(&out), 0, "{words}");
}

/// Returns the number of files whose names begin with that of `out`.
fn beside(out: &Path) -> usize {
    let name = format!("{}.", out.file_name().unwrap().to_str().unwrap());
    let files = std::fs::read_dir(out.parent().unwrap()).unwrap();
    files.filter(|file| file.as_ref().unwrap().file_name().to_str().unwrap().starts_with(&name)).count()
}

/// Returns a folder with another value in `config.json`.
fn with(key: &str, value: Json) -> PathBuf {
    let folder = folder("refused", 40, &[]);
    let path = folder.join("config.json");
    let mut config: Json = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    config[key] = value;
    write_json(&path, &config);
    folder
}

/// Returns a folder with other tensors.
fn with_tensors(change: impl Fn(&mut Vec<(String, Vec<usize>)>)) -> PathBuf {
    let folder = folder("refused", 40, &[]);
    let mut tensors = tensors(40);
    change(&mut tensors);
    std::fs::write(folder.join("model.safetensors"), safetensors(&tensors)).unwrap();
    folder
}

#[test]
fn wrong_inputs() {
    let out = scratch("nowhere").join("x.gguf");
    assert!(convert(&folder("refused", 40, &[]), &out, &[]).unwrap_err().contains("x.gguf: "));
    refused(Path::new("/nowhere/at/all"), &[], "/nowhere/at/all: ");

    refused(&with("architectures", json!(["ZebraForCausalLM"])), &[], "\"ZebraForCausalLM\" is not supported");
    refused(&with("architectures", json!(null)), &[], "no architectures");
    refused(&with("hidden_act", json!("relu")), &[], "\"relu\" is not supported");
    refused(&with("hidden_size", json!("wide")), &[], "hidden_size");
    refused(&with("num_hidden_layers", json!(null)), &[], "num_hidden_layers");
    refused(&with("num_hidden_layers", json!(2)), &[], "layers.1.input_layernorm.weight is missing");
    refused(&with("tie_word_embeddings", json!(false)), &[], "lm_head.weight");
    refused(&with("rope_scaling", json!({"type": "dynamic", "factor": 2})), &[], "\"dynamic\" is not supported");
    refused(&with("rope_scaling", json!({"type": "linear"})), &[], "without factor");
    refused(&with("num_attention_heads", json!(4)), &[], "attn_k.weight");
    refused(&with("intermediate_size", json!(24)), &[], "ffn_gate.weight");
}

const DEMO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/assets/gleed-tales-q8_0.gguf");

/// The output may be another name of the input.
#[test]
fn a_file_that_is_read_is_not_written_over() {
    let (input, words) = (scratch("own.gguf"), "own.gguf, which is read");
    std::fs::copy(DEMO, &input).unwrap();
    let mut names = vec![input.clone(), input.parent().unwrap().join(".").join(input.file_name().unwrap())];
    #[cfg(unix)]
    {
        let (link, hard) = (scratch("link.gguf"), scratch("hard.gguf"));
        for name in [&link, &hard] {
            let _ = std::fs::remove_file(name);
        }
        std::os::unix::fs::symlink(&input, &link).unwrap();
        std::fs::hard_link(&input, &hard).unwrap();
        names.extend([link, hard]);
    }
    for out in &names {
        let error = convert(&input, out, &["--type", "q4_0"]).unwrap_err();
        assert!(error.contains(words), "{error}");
        assert!(std::fs::read(&input).unwrap() == std::fs::read(DEMO).unwrap(), "{}", out.display());
    }
    let model = folder("own", 40, &[]);
    for name in ["model.safetensors", "config.json"] {
        let error = convert(&model, &model.join(name), &[]).unwrap_err();
        assert!(error.contains("which is read"), "{error}");
    }
    let error = convert(&input, &model, &[]).unwrap_err();
    assert!(error.contains("it is a folder"), "{error}");
    // A new file in the input folder is allowed.
    convert(&model, &model.join("model.gguf"), &[]).unwrap();
}

#[cfg(unix)]
#[test]
fn ctrl_c_leaves_no_file_behind() {
    let (input, out) = (scratch("stopped-in.gguf"), scratch("stopped.gguf"));
    std::fs::copy(DEMO, &input).unwrap();
    let mut run = start(&input, &out, &["--type", "q2_k", "--threads", "1"]).spawn().unwrap();
    while beside(&out) == 0 {
        assert!(run.try_wait().unwrap().is_none(), "it ended before it could be stopped");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    Command::new("kill").args(["-INT", &run.id().to_string()]).status().unwrap();
    assert_eq!(run.wait().unwrap().code(), Some(130));
    assert!(beside(&out) == 0 && !out.exists());
}

/// Each of these sizes once made `convert` ask for gigabytes, which ends a process.
#[test]
fn sizes_that_no_model_has() {
    let llama3 = |part: f64| {
        let scaling = json!({"rope_type": "llama3", "rope_theta": 1e4, "factor": 8.0, "low_freq_factor": 1.0,
            "high_freq_factor": 4.0, "original_max_position_embeddings": 16, "partial_rotary_factor": part});
        with("rope_parameters", scaling)
    };
    let window = |key: &str, value: u32| {
        let folder = with("sliding_window", json!(8));
        let path = folder.join("config.json");
        let mut config: Json = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        config[key] = json!(value);
        write_json(&path, &config);
        folder
    };
    refused(&window("num_hidden_layers", 2_147_483_647), &[], "n_layers is 2147483647, more than any model has");
    refused(&with("num_hidden_layers", json!(10_001)), &[], "n_layers is 10001");
    refused(&with("head_dim", json!(2_147_483_647)), &[], "head_dim is 2147483647, more than any model has");
    refused(&with("num_attention_heads", json!(4_000_000_000_u32)), &[], "n_heads is 4000000000");
    refused(&with("num_key_value_heads", json!(4_000_000_000_u32)), &[], "num_key_value_heads is 4000000000");
    refused(&llama3(1e18), &[], "the rotated part of each head is 1000000000000000000");
    refused(&with("vocab_size", json!(4_294_967_295_u32)), &[], "vocab_size is 4294967295, more than any model has");
    refused(&with("vocab_size", json!(4_000_000)), &[], "vocab_size is 4000000, but the embedding has 40 rows");
}

#[test]
fn wrong_tensors() {
    refused(&with_tensors(|tensors| _ = tensors.pop()), &[], "layers.0.mlp.down_proj.weight is missing");
    refused(&with_tensors(|tensors| tensors[2].0 += "x"), &[], "input_layernorm");
    refused(
        &with_tensors(|tensors| tensors.push(("model.extra".into(), vec![3]))),
        &[],
        "the tensor extra is not known",
    );
    refused(&with_tensors(|tensors| tensors[3].1 = vec![6, 8]), &[], "6 rows are not what the model's sizes say");
    refused(&with_tensors(|tensors| tensors[0].1 = vec![2, 20, 8]), &[], "[2, 20, 8]");

    let cut = with("vocab_size", json!(40));
    let path = cut.join("model.safetensors");
    let bytes = std::fs::read(&path).unwrap();
    for (bytes, words) in [
        (&bytes[..bytes.len() - 1], "its place or shape is wrong"),
        (&bytes[..100], "no safetensors file, or cut off"),
        (&bytes[..5], "too short"),
        (b"\x02\0\0\0\0\0\0\0[]", "no JSON object"),
        (b"\x02\0\0\0\0\0\0\0{]", "no JSON"),
    ] {
        std::fs::write(&path, bytes).unwrap();
        refused(&cut, &[], words);
    }
    let half = String::from_utf8_lossy(&bytes).replacen("F32", "I64", 1).into_bytes();
    if half.len() == bytes.len() {
        std::fs::write(&path, half).unwrap();
        refused(&cut, &[], "type I64 are not supported");
    }
    std::fs::remove_file(&path).unwrap();
    refused(&cut, &[], "model.safetensors: ");
    write_json(&cut.join("model.safetensors.index.json"), &json!({"weight_map": {"a": "../x.safetensors"}}));
    refused(&cut, &[], "\"../x.safetensors\" is no name of a file in the folder");
    write_json(&cut.join("model.safetensors.index.json"), &json!({"weight_map": {"a": "part-1.safetensors"}}));
    refused(&cut, &[], "part-1.safetensors: ");
}

#[test]
fn wrong_vocabularies() {
    let with = |tokenizer: Json| folder("refused", 40, &[("tokenizer.json", tokenizer)]);
    let bpe = |pre_tokenizer: Json, vocab: Json, merges: Json| {
        with(json!({"pre_tokenizer": pre_tokenizer, "model": {"type": "BPE", "vocab": vocab, "merges": merges}}))
    };
    let plain = json!({"type": "ByteLevel"});
    refused(&with(json!({"model": {"type": "WordLevel", "vocab": {}}})), &[], "type WordLevel is not supported");
    let split = json!({"type": "Split", "pattern": {"Regex": "[zebra]+"}});
    refused(&bpe(split, json!({}), json!([])), &[], "[zebra]+");
    refused(&bpe(plain.clone(), json!({"a": 0}), json!(["ab"])), &[], "\"ab\" is no pair");
    refused(&bpe(plain.clone(), json!({"a": 77}), json!([])), &[], "the tokenizer has 78 tokens, the model only 40");
    refused(&bpe(plain, json!({"a": 1_u64 << 40}), json!([])), &[], "1099511627776");

    let pieces = folder("refused", 40, &[]);
    std::fs::write(pieces.join("tokenizer.model"), b"\x0a\x7fcut off").unwrap();
    refused(&pieces, &[], "cut off");
    std::fs::write(pieces.join("tokenizer.model"), sentence_piece(1)).unwrap();
    refused(&pieces, &[], "a model of type 1 is not supported");
}

#[test]
fn wrong_files() {
    let file = |bytes: &[u8]| {
        let path = scratch("refused.bin");
        std::fs::write(&path, bytes).unwrap();
        path
    };
    refused(&file(b"This is no model at all, only some text."), &["--tokenizer", "/nowhere"], "/nowhere: ");
    refused(&file(b""), &[], "too short");
    refused(&file(b"ak42 and so on, as later versions begin."), &[], "version 1 or later");
    refused(&file(&[b'x'; 99]), &[], "no GGUF file, and no llama2.c model");
    refused(&file(b"GGUF\x03\0\0\0"), &[], "refused.bin: ");
    let sizes = [16, 24, 1, 4, 4, 40, 8_i32];
    let header: Vec<u8> = sizes.iter().flat_map(|size| size.to_le_bytes()).collect();
    refused(&file(&header), &[], "--tokenizer");
}
