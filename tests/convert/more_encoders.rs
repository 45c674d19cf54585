//! Encoders whose folders differ more from files: Nomic Embed with experts, and NeoBERT.

use std::path::PathBuf;

use gguf_rs_lite::Gguf;
use serde_json::{Value as Json, json};

use crate::families::Stored;
use crate::more::assert_same;
use crate::{converted, scratch, write_json};
use common::encoder::{VOCAB, encoder};
use common::gguf_writer::{GgufWriter, Tensor};

/// Widths of the encoders that `encoder` makes, with 3 heads.
const HIDDEN: usize = 24;
const FFN: usize = 50;
const EXPERTS: usize = 5;

pub(crate) fn folder(config: &Json, tensors: &Stored) -> PathBuf {
    let folder = scratch("encoders");
    std::fs::create_dir_all(&folder).unwrap();
    write_json(&folder.join("config.json"), config);
    let (mut header, mut data) = (serde_json::Map::new(), Vec::new());
    for (name, (dtype, shape, bytes)) in tensors {
        let begin = data.len();
        data.extend(bytes);
        header.insert(name.clone(), json!({"dtype": dtype, "shape": shape, "data_offsets": [begin, data.len()]}));
    }
    let header = serde_json::to_vec(&header).unwrap();
    std::fs::write(
        folder.join("model.safetensors"),
        [&(header.len() as u64).to_le_bytes()[..], &header, &data].concat(),
    )
    .unwrap();
    folder
}

fn nomic() -> (Json, Stored) {
    let config = json!({"architectures": ["NomicBertModel"], "vocab_size": VOCAB, "n_embd": HIDDEN, "n_inner": FFN,
        "n_layer": 2, "n_head": 3, "n_positions": 300, "layer_norm_epsilon": 1e-12, "activation_function": "gelu",
        "prenorm": false, "rotary_emb_fraction": 1.0, "rotary_emb_interleaved": false, "rotary_emb_base": 10000,
        "moe_every_n_layers": 2, "num_experts": EXPERTS, "moe_top_k": 2, "moe_normalize_expert_weights": false,
        "expert_choice_router": false, "num_shared_experts": 0});
    let mut tensors = Stored::new();
    for Tensor { name, dims, data, .. } in &encoder("nomic-bert-moe", 8, true).tensors {
        let name = name.strip_prefix("blk.").map_or(name.clone(), |rest| format!("encoder.layers.{rest}"));
        let names = [
            ("token_embd_norm.", "emb_ln."),
            ("token_embd.", "embeddings.word_embeddings."),
            ("token_types.", "embeddings.token_type_embeddings."),
            ("attn_output_norm.", "norm1."),
            ("layer_output_norm.", "norm2."),
            ("attn_qkv.", "attn.Wqkv."),
            ("attn_output.", "attn.out_proj."),
            ("ffn_gate_inp.", "mlp.router.layer."),
            ("ffn_up_exps.weight", "mlp.experts.mlp.w1"),
            ("ffn_down_exps.weight", "mlp.experts.mlp.w2"),
            ("ffn_up.", "mlp.fc1."),
            ("ffn_down.", "mlp.fc2."),
        ];
        let (from, to) = names.iter().find(|(from, _)| name.contains(from)).unwrap();
        let name = name.replace(from, to);
        let shape: Vec<u64> = dims.iter().rev().copied().collect();
        match *to {
            // Matrices of experts one below the other. The second ones are transposed.
            "mlp.experts.mlp.w1" => {
                _ = tensors.insert(name, ("F32", vec![shape[0] * shape[1], shape[2]], data.clone()))
            }
            "mlp.experts.mlp.w2" => {
                let element = |expert: usize, row: usize, col: usize| {
                    let at = ((expert * HIDDEN + col) * FFN + row) * 4;
                    data[at..at + 4].to_vec()
                };
                let columns = (0..EXPERTS * FFN * HIDDEN)
                    .flat_map(|at| element(at / (FFN * HIDDEN), at / HIDDEN % FFN, at % HIDDEN))
                    .collect();
                _ = tensors.insert(name, ("F32", vec![shape[0] * shape[2], shape[1]], columns));
            }
            _ => _ = tensors.insert(name, ("F32", shape, data.clone())),
        }
    }
    (config, tensors)
}

/// Returns the file without its kind of pooling, which a folder states in another file.
pub(crate) fn without_pooling(mut writer: GgufWriter) -> Vec<u8> {
    writer.metadata.retain(|(key, _)| !key.ends_with("pooling_type"));
    writer.finish()
}

#[test]
fn nomic_embed_with_experts() {
    let (config, mut tensors) = nomic();
    let original = without_pooling(encoder("nomic-bert-moe", 8, true));
    let ours = converted(&folder(&config, &tensors), &["--type", "f32"]);
    assert_same("NomicBertModel", &ours, &original, |_| false);
    // A bias that all experts share is left out if it is 0, and refused otherwise.
    let name = "encoder.layers.1.mlp.experts.bias".to_owned();
    tensors.insert(name.clone(), ("F32", vec![HIDDEN as u64], vec![0; 4 * HIDDEN]));
    let ours = converted(&folder(&config, &tensors), &["--type", "f32"]);
    assert_same("NomicBertModel", &ours, &original, |_| false);
    tensors.get_mut(&name).unwrap().2[7] = 0x3f;
    crate::refused::refused(&folder(&config, &tensors), &[], "mlp.experts.bias is not 0");
}

/// In a folder, rows of Q, K and V lie head by head.
#[test]
fn neo_bert() {
    const HEADS: usize = 3;
    const HEAD: usize = 8;
    let elements = |count: usize, seed: usize| -> Vec<u8> {
        (0..count).flat_map(|at| (((at * 7 + seed * 13) % 31) as f32 / 31.0 - 0.5).to_le_bytes()).collect()
    };
    let mut tensors = Stored::new();
    let mut add = |name: &str, shape: &[usize], seed: usize| {
        let shape: Vec<u64> = shape.iter().map(|&n| n as u64).collect();
        let count = shape.iter().product::<u64>() as usize;
        tensors.insert(name.into(), ("F32", shape, elements(count, seed)));
    };
    add("model.encoder.weight", &[VOCAB, HIDDEN], 1);
    add("model.layer_norm.weight", &[HIDDEN], 2);
    add("decoder.weight", &[VOCAB, HIDDEN], 3);
    add("decoder.bias", &[VOCAB], 4);
    for layer in 0..2 {
        let name = |what: &str| format!("model.transformer_encoder.{layer}.{what}.weight");
        add(&name("attention_norm"), &[HIDDEN], 5);
        add(&name("qkv"), &[3 * HIDDEN, HIDDEN], 6 + layer);
        add(&name("wo"), &[HIDDEN, HIDDEN], 8 + layer);
        add(&name("ffn_norm"), &[HIDDEN], 10);
        add(&name("ffn.w12"), &[2 * 32, HIDDEN], 11 + layer);
        add(&name("ffn.w3"), &[HIDDEN, 32], 13 + layer);
    }
    let config = json!({"architectures": ["NeoBERTLMHead"], "vocab_size": VOCAB, "hidden_size": HIDDEN,
        "num_hidden_layers": 2, "num_attention_heads": HEADS, "intermediate_size": 48, "max_length": 512,
        "norm_eps": 1e-5, "hidden_act": "SwiGLU", "rope": true});
    let ours = converted(&folder(&config, &tensors), &["--type", "f32"]);
    let gguf = Gguf::parse(&ours).unwrap();
    let key = |name: &str| gguf.get(&format!("neo-bert.{name}")).and_then(|value| value.as_u64());
    assert_eq!([key("feed_forward_length"), key("context_length"), key("pooling_type")], [32, 512, 2].map(Some));
    let model = gleed::Model::open(&ours).unwrap();
    assert_eq!((model.config().norm_epsilon, model.config().attention.causal), (1e-5, false));
    assert!(gguf.tensor("output.weight").is_none());
    // Rows of head h in a folder are its rows of Q, then those of K, then those of V.
    let (file, folder) =
        (gguf.tensor("blk.1.attn_qkv.weight").unwrap(), &tensors["model.transformer_encoder.1.qkv.weight"].2);
    let row = |data: &[u8], row: usize| data[row * HIDDEN * 4..(row + 1) * HIDDEN * 4].to_vec();
    for (part, head, at) in
        (0..3).flat_map(|part| (0..HEADS).flat_map(move |head| (0..HEAD).map(move |at| (part, head, at))))
    {
        let ours = row(file.data(), part * HIDDEN + head * HEAD + at);
        assert!(ours == row(folder, (3 * head + part) * HEAD + at), "{part} {head} {at}");
    }
}
