//! Jina Embeddings 2 and 3, EmbeddingGemma and Spark X2.5, whose folders have tensor names of their own.

use gguf_rs_lite::Gguf;
use gleed::{Engine, KvType, Limits, Model, Plan, Pooling};
use serde_json::{Value as Json, json};

use crate::families::{self, Stored};
use crate::more::assert_same;
use crate::more_encoders::{folder, without_pooling};
use crate::refused::refused;
use crate::{converted, scratch, write_json};
use common::encoder::{VOCAB, encoder, encoder_of_code};
use common::fixtures::{ids, parse_json};
use common::gguf_writer::{GgufWriter, Meta, Tensor};
use common::synthetic::{Architecture, SyntheticModel};
use common::{Memory, committed, rel_l2};

/// Vectors equal those of transformers, including the matrices behind the pooling.
#[test]
fn vectors_of_folders_are_those_of_transformers() {
    let all = parse_json(&std::fs::read(committed("families/expected.json")).unwrap());
    let with_vectors = all.as_object().unwrap().iter().filter(|(_, expected)| expected["vector"].is_array());
    let mut count = 0;
    for (name, expected) in with_vectors {
        let file = converted(&committed("families").join(name), &["--type", "f32"]);
        let vector: Vec<f64> = expected["vector"].as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect();
        let prompt = ids(&expected["prompt"]);
        let model = Model::open(&file).unwrap();
        assert_eq!(model.pooling(), Some(Pooling::Mean), "{name}");
        let limits = Limits { context: 64, rows: 64, kv_type: KvType::F32, ..Limits::default() };
        let plan = Plan::new(&model, &limits).unwrap();
        let mut memory = Memory::new(plan.bytes());
        let mut engine = Engine::new(&model, &plan, memory.bytes()).unwrap();
        let sequence = engine.open().unwrap();
        let mut found = vec![0.0; model.config().embedding_len(Pooling::Mean).unwrap()];
        engine.embed(sequence, &prompt, Pooling::Mean, &mut found).unwrap();
        let error = rel_l2(&found, &vector);
        println!("{name}: relative error {error:.1e}");
        assert!(found.len() == vector.len() && error < 1e-5, "{name}: {error:e}");
        count += 1;
    }
    assert!(count >= 2);
}

/// A matrix behind the pooling with an activation function is refused.
#[test]
fn other_matrices_behind_the_pooling_are_refused() {
    let from = committed("families/gemma-embedding");
    let to = scratch("dense");
    std::fs::create_dir_all(to.join("2_Dense")).unwrap();
    for name in ["config.json", "model.safetensors", "2_Dense/model.safetensors"] {
        std::fs::copy(from.join(name), to.join(name)).unwrap();
    }
    write_json(&to.join("2_Dense/config.json"), &json!({"activation_function": "torch.nn.modules.activation.Tanh"}));
    refused(&to, &[], "Tanh");
}

/// Returns the tensors of an encoder under other names. `layers` stands before the number of a layer.
fn renamed(file: &GgufWriter, layers: &str, names: &[(&str, &str)]) -> Stored {
    let mut tensors = Stored::new();
    for Tensor { name, dims, data, .. } in &file.tensors {
        let name = name.strip_prefix("blk.").map_or(name.clone(), |rest| format!("{layers}{rest}"));
        let (from, to) = names.iter().find(|(from, _)| name.contains(from)).unwrap_or_else(|| panic!("{name}"));
        tensors.insert(name.replace(from, to), ("F32", dims.iter().rev().copied().collect(), data.clone()));
    }
    tensors
}

fn config(class: &str, more: Json) -> Json {
    let mut config = json!({"architectures": [class], "vocab_size": VOCAB, "hidden_size": 24, "intermediate_size": 50,
        "num_hidden_layers": 2, "num_attention_heads": 3, "max_position_embeddings": 300, "layer_norm_eps": 1e-12,
        "hidden_act": "gelu"});
    config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    config
}

/// The first release has adapters beside its matrices, which are left out.
#[test]
fn jina_embeddings_3() {
    let names = [
        ("token_embd_norm.", "emb_ln."),
        ("token_embd.weight", "embeddings.word_embeddings.parametrizations.weight.original"),
        ("token_types.weight", "embeddings.token_type_embeddings.parametrizations.weight.original"),
        ("attn_output_norm.", "norm1."),
        ("layer_output_norm.", "norm2."),
        ("attn_qkv.weight", "mixer.Wqkv.parametrizations.weight.original"),
        ("attn_qkv.", "mixer.Wqkv."),
        ("attn_output.", "mixer.out_proj."),
        ("ffn_up.", "mlp.fc1."),
        ("ffn_down.", "mlp.fc2."),
    ];
    let mut tensors = renamed(&encoder("jina-bert-v3", 8, true), "roberta.encoder.layers.", &names);
    let adapter = "roberta.encoder.layers.1.mixer.Wqkv.parametrizations.weight.0.lora_A";
    tensors.insert(adapter.into(), ("F32", vec![5, 4, 24], vec![7; 4 * 5 * 4 * 24]));
    let settings = config("XLMRobertaModel", json!({"position_embedding_type": "rotary", "rotary_emb_base": 10000.0}));
    let ours = converted(&folder(&settings, &tensors), &["--type", "f32"]);
    assert_same("XLMRobertaModel", &ours, &without_pooling(encoder("jina-bert-v3", 8, true)), |_| false);
    tensors.insert("roberta.encoder.layers.1.more.weight".into(), ("F32", vec![24], vec![0; 96]));
    refused(&folder(&settings, &tensors), &[], "more");
}

/// In a folder Q, K and V are three matrices, and gate and up are one.
#[test]
fn jina_embeddings_2() {
    let names = [("layer_output_norm.", "mlp.layernorm."), ("ffn_up.", "mlp.gated_layers."), ("ffn_down.", "mlp.wo.")];
    let tensors = jina2(&encoder("jina-bert-v2", 8, true), &names);
    let settings = json!({"position_embedding_type": "alibi", "feed_forward_type": "reglu"});
    refused(&folder(&config("JinaBertModel", settings), &tensors), &[], "reglu");
}

/// The model for code has more norms and other names.
#[test]
fn jina_embeddings_2_of_code() {
    let names = [
        ("attn_norm_2.", "layer_norm_1."),
        ("layer_output_norm.", "layer_norm_2."),
        ("attn_q_norm.", "attention.self.layer_norm_q."),
        ("attn_k_norm.", "attention.self.layer_norm_k."),
        ("ffn_up.", "mlp.up_gated_layer."),
        ("ffn_down.", "mlp.down_layer."),
    ];
    let mut tensors = jina2(&encoder_of_code(8, true), &names);
    tensors.remove("encoder.layer.0.mlp.up_gated_layer.weight").unwrap();
    let settings = json!({"position_embedding_type": "alibi", "feed_forward_type": "geglu"});
    refused(&folder(&config("JinaBertModel", settings), &tensors), &[], "ffn_up");
}

/// Returns the tensors of a folder of Jina Embeddings 2 with some names of its own. Checks that the folder becomes the
/// file again.
fn jina2(file: &GgufWriter, own: &[(&str, &str)]) -> Stored {
    let common = [
        ("token_embd_norm.", "embeddings.LayerNorm."),
        ("token_embd.", "embeddings.word_embeddings."),
        ("token_types.", "embeddings.token_type_embeddings."),
        ("attn_output_norm.", "attention.output.LayerNorm."),
        ("attn_qkv.", "attn_qkv."),
        ("attn_output.", "attention.output.dense."),
    ];
    let mut tensors = renamed(file, "encoder.layer.", &[&common, own].concat());
    for layer in 0..2 {
        for end in ["weight", "bias"] {
            let (_, shape, data) = tensors.remove(&format!("encoder.layer.{layer}.attn_qkv.{end}")).unwrap();
            let shape = [&[24][..], &shape[1..]].concat();
            for (name, part) in ["query", "key", "value"].iter().zip(data.chunks(data.len() / 3)) {
                let name = format!("encoder.layer.{layer}.attention.self.{name}.{end}");
                tensors.insert(name, ("F32", shape.clone(), part.to_vec()));
            }
        }
    }
    let more = json!({"position_embedding_type": "alibi", "feed_forward_type": "geglu"});
    let settings = config("JinaBertForMaskedLM", more);
    let ours = converted(&folder(&settings, &tensors), &["--type", "f32"]);
    let original = without_pooling(file.clone());
    let [ours, original] = [&ours, &original].map(|file| Gguf::parse(file).unwrap());
    let data = |file: &Gguf<'_>, name: &str| file.tensor(name).unwrap_or_else(|| panic!("{name}")).data().to_vec();
    for info in original.tensors() {
        let name = info.name();
        let ours = match name.split_once("attn_qkv") {
            Some((blk, end)) => {
                ["q", "k", "v"].iter().flat_map(|part| data(&ours, &format!("{blk}attn_{part}{end}"))).collect()
            }
            None => data(&ours, name),
        };
        assert!(ours == info.data(), "{name}");
    }
    tensors
}

/// Spark X2.5 has one matrix of Q, K and V, and one of the gates of heads.
#[test]
fn spark() {
    let slides = [true, false, true].map(Meta::Bool).to_vec();
    let model =
        SyntheticModel::of(Architecture::Spark).with("attention.sliding_window_pattern", Meta::Array(7, slides));
    let writer = model.writer();
    let names = [
        ("token_embd.", "embedding."),
        ("output_norm.", "norm."),
        ("attn_norm.", "input_layernorm."),
        ("ffn_norm.", "post_attention_layernorm."),
        ("attn_qkv.", "self_attn.q_k_v_proj."),
        ("attn_gate.", "self_attn.g_proj."),
        ("attn_output.", "self_attn.out_proj."),
        ("ffn_gate.", "mlp.gate_proj."),
        ("ffn_up.", "mlp.up_proj."),
        ("ffn_down.", "mlp.down_proj."),
        ("output.", "lm_head."),
    ];
    let mut tensors = Stored::new();
    for Tensor { name, dims, data, .. } in &writer.tensors {
        let name = name.strip_prefix("blk.").map_or(name.clone(), |rest| format!("layers.{rest}"));
        let (from, to) = names.iter().find(|(from, _)| name.contains(from)).unwrap();
        let name = name.replace(from, to);
        let name = if *to == "lm_head." { name } else { format!("model.{name}") };
        tensors.insert(name, ("F32", dims.iter().rev().copied().collect(), data.clone()));
    }
    let rope = |base: f64| json!({"rope_type": "default", "rope_theta": base, "partial_rotary_factor": 0.5});
    let mut more = json!({"headwise_attn_output_gate": true, "gate_attn_act_mode": "sigmoid", "hidden_act": "gelu",
        "attention_bias": false, "mlp_bias": false, "sliding_window": 16,
        "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
        "rope_parameters": {"full_attention": rope(10000.0), "sliding_attention": rope(5000.0)}});
    let class = "Spark2_5ForCausalLM";
    let ours = converted(&families::folder(&model, class, &more, &tensors), &["--type", "f32"]);
    assert_same(class, &ours, &writer.finish(), |_| false);
    more["gate_attn_act_mode"] = json!("silu");
    refused(&families::folder(&model, class, &more, &tensors), &[], "gate_attn_act_mode");
}
