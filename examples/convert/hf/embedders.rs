//! More encoders: Jina Embeddings 2 and 3, EmbeddingGemma.

use serde_json::json;

use super::architectures::{
    ATTENTION, Architecture, CAPS, FFN, GEMMA_EMBEDDING, GEMMA_QK_NORM, GEMMA2_NORMS, HEAD, LAYER_NORM, RMS, SIZES,
};
use super::config::Config;
use super::encoders::{BIDIRECTIONAL, ENCODER, LEFT_OUT, WIDTHS};
use super::how::How;
use super::rope;
use super::tensors::{Rule, optional, rule, whole};

pub(super) const EMBEDDERS: &[Architecture] = &[
    Architecture {
        classes: &["JinaBertModel", "JinaBertForMaskedLM"],
        name: "jina-bert-v2",
        keys: &[WIDTHS, LAYER_NORM, BIDIRECTIONAL],
        rules: &[JINA2, LEFT_OUT],
        rotary: 0.0,
        activations: &["gelu"],
        check: |config| {
            config.want("position_embedding_type", &[json!("alibi")])?;
            config.want("feed_forward_type", &[json!("geglu")])
        },
        ..ENCODER
    },
    Architecture {
        classes: &["JinaEmbeddingsV3Model"],
        name: "jina-bert-v3",
        keys: &[WIDTHS, LAYER_NORM, BIDIRECTIONAL],
        rules: &[JINA3, LEFT_OUT],
        activations: &["gelu"],
        ..ENCODER
    },
    // The model of the first release has the class of another architecture.
    Architecture {
        classes: &["XLMRobertaModel"],
        name: "jina-bert-v3",
        keys: &[WIDTHS, LAYER_NORM, BIDIRECTIONAL],
        rules: &[JINA3, ADAPTERS, LEFT_OUT],
        activations: &["gelu"],
        when: |config| config.0["position_embedding_type"] == "rotary",
        rope: |config, part| {
            let mut json = config.0.clone();
            json["rope_theta"] = json["rotary_emb_base"].clone();
            rope::read(&Config(json), part)
        },
        ..ENCODER
    },
    Architecture {
        classes: &["Gemma3TextModel"],
        name: "gemma-embedding",
        keys: &[SIZES, RMS, HEAD, CAPS, BIDIRECTIONAL],
        rules: &[GEMMA_EMBEDDING, GEMMA2_NORMS, ATTENTION, GEMMA_QK_NORM, FFN, DENSE],
        window_period: 6,
        activations: &["gelu_pytorch_tanh"],
        check: |config| config.want("use_bidirectional_attention", &[json!(true)]),
        ..ENCODER
    },
];

/// The gate is the first half of its matrix. Some names occur only in the model for code.
const JINA2: &[Rule] = &[
    rule("embeddings.word_embeddings", "token_embd", How::Same),
    optional("embeddings.token_type_embeddings", "token_types", How::Same),
    rule("embeddings.LayerNorm", "token_embd_norm", How::Same),
    rule("encoder.layer.{}.attention.self.query", "blk.{}.attn_q", How::Same),
    rule("encoder.layer.{}.attention.self.key", "blk.{}.attn_k", How::Same),
    rule("encoder.layer.{}.attention.self.value", "blk.{}.attn_v", How::Same),
    optional("encoder.layer.{}.attention.self.layer_norm_q", "blk.{}.attn_q_norm", How::Same),
    optional("encoder.layer.{}.attention.self.layer_norm_k", "blk.{}.attn_k_norm", How::Same),
    rule("encoder.layer.{}.attention.output.dense", "blk.{}.attn_output", How::Same),
    rule("encoder.layer.{}.attention.output.LayerNorm", "blk.{}.attn_output_norm", How::Same),
    optional("encoder.layer.{}.layer_norm_1", "blk.{}.attn_norm_2", How::Same),
    optional("encoder.layer.{}.mlp.gated_layers", "blk.{}.ffn_up", How::Same),
    optional("encoder.layer.{}.mlp.up_gated_layer", "blk.{}.ffn_up", How::Same),
    optional("encoder.layer.{}.mlp.wo", "blk.{}.ffn_down", How::Same),
    optional("encoder.layer.{}.mlp.down_layer", "blk.{}.ffn_down", How::Same),
    optional("encoder.layer.{}.mlp.layernorm", "blk.{}.layer_output_norm", How::Same),
    optional("encoder.layer.{}.layer_norm_2", "blk.{}.layer_output_norm", How::Same),
];

/// Matrices with adapters have other names than those without.
const JINA3: &[Rule] = &[
    optional("embeddings.word_embeddings", "token_embd", How::Same),
    whole("embeddings.word_embeddings.parametrizations.weight.original", "token_embd.weight", How::Same),
    optional("embeddings.token_type_embeddings", "token_types", How::Same),
    whole("embeddings.token_type_embeddings.parametrizations.weight.original", "token_types.weight", How::Same),
    rule("emb_ln", "token_embd_norm", How::Same),
    optional("encoder.layers.{}.mixer.Wqkv", "blk.{}.attn_qkv", How::Same),
    whole("encoder.layers.{}.mixer.Wqkv.parametrizations.weight.original", "blk.{}.attn_qkv.weight", How::Same),
    optional("encoder.layers.{}.mixer.out_proj", "blk.{}.attn_output", How::Same),
    whole("encoder.layers.{}.mixer.out_proj.parametrizations.weight.original", "blk.{}.attn_output.weight", How::Same),
    rule("encoder.layers.{}.norm1", "blk.{}.attn_output_norm", How::Same),
    optional("encoder.layers.{}.mlp.fc1", "blk.{}.ffn_up", How::Same),
    whole("encoder.layers.{}.mlp.fc1.parametrizations.weight.original", "blk.{}.ffn_up.weight", How::Same),
    optional("encoder.layers.{}.mlp.fc2", "blk.{}.ffn_down", How::Same),
    whole("encoder.layers.{}.mlp.fc2.parametrizations.weight.original", "blk.{}.ffn_down.weight", How::Same),
    rule("encoder.layers.{}.norm2", "blk.{}.layer_output_norm", How::Same),
];

/// The adapters of tasks, which are left out.
const ADAPTERS: &[Rule] = &[
    whole("embeddings.word_embeddings.parametrizations.weight.0.lora_A", "", How::LeftOut),
    whole("embeddings.word_embeddings.parametrizations.weight.0.lora_B", "", How::LeftOut),
    whole("embeddings.token_type_embeddings.parametrizations.weight.0.lora_A", "", How::LeftOut),
    whole("embeddings.token_type_embeddings.parametrizations.weight.0.lora_B", "", How::LeftOut),
    whole("encoder.layers.{}.mixer.Wqkv.parametrizations.weight.0.lora_A", "", How::LeftOut),
    whole("encoder.layers.{}.mixer.Wqkv.parametrizations.weight.0.lora_B", "", How::LeftOut),
    whole("encoder.layers.{}.mixer.out_proj.parametrizations.weight.0.lora_A", "", How::LeftOut),
    whole("encoder.layers.{}.mixer.out_proj.parametrizations.weight.0.lora_B", "", How::LeftOut),
    whole("encoder.layers.{}.mlp.fc1.parametrizations.weight.0.lora_A", "", How::LeftOut),
    whole("encoder.layers.{}.mlp.fc1.parametrizations.weight.0.lora_B", "", How::LeftOut),
    whole("encoder.layers.{}.mlp.fc2.parametrizations.weight.0.lora_A", "", How::LeftOut),
    whole("encoder.layers.{}.mlp.fc2.parametrizations.weight.0.lora_B", "", How::LeftOut),
];

/// Matrices after the pooling, from the folders `2_Dense` and `3_Dense`.
const DENSE: &[Rule] =
    &[optional("2_Dense.linear", "dense_2", How::Same), optional("3_Dense.linear", "dense_3", How::Same)];
