//! Encoders: BERT and XLM-RoBERTa, Nomic Embed, ModernBERT, EuroBERT, and their rerankers.

use serde_json::json;

use super::architectures::{
    ATTENTION, Architecture, DECODER, EMBEDDING, EXPERTS, FFN, HEAD, Key, LAYER_NORM, NORMS, RMS, SIZES,
};
use super::config::{Config, Setting, number, size};
use super::how::How;
use super::rope::Rope;
use super::tensors::{Rule, optional, rule, whole};
use common::Result;
use common::gguf::Value;

pub(super) const ENCODERS: &[Architecture] = &[
    Architecture { classes: &["BertModel", "BertForMaskedLM"], ..BERT },
    Architecture {
        classes: &["BertForSequenceClassification"],
        keys: &[WIDTHS, LAYER_NORM, BIDIRECTIONAL, RANKS],
        rules: &[BERT_RULES, BERT_RANKS],
        ..BERT
    },
    Architecture { classes: &["XLMRobertaModel", "RobertaModel"], ..ROBERTA },
    Architecture {
        classes: &["XLMRobertaForSequenceClassification", "RobertaForSequenceClassification"],
        keys: &[ROBERTA_CONTEXT, WIDTHS_ONLY, LAYER_NORM, BIDIRECTIONAL, RANKS],
        rules: &[ROBERTA_RULES, ROBERTA_RANKS],
        ..ROBERTA
    },
    Architecture {
        classes: &["NomicBertModel"],
        name: "nomic-bert",
        keys: &[WIDTHS, LAYER_NORM, BIDIRECTIONAL],
        rules: &[NOMIC_LAYERS, NOMIC_FFN],
        activations: &["silu", "swiglu"],
        check: nomic,
        when: |config| !has_experts(config),
        ..ENCODER
    },
    Architecture {
        classes: &["NomicBertModel"],
        name: "nomic-bert-moe",
        keys: &[WIDTHS, LAYER_NORM, BIDIRECTIONAL, EXPERTS, NOMIC_PERIOD],
        rules: &[NOMIC_LAYERS, NOMIC_EXPERTS],
        activations: &["gelu"],
        check: |config| {
            config.want("moe_normalize_expert_weights", &[json!(false)])?;
            config.want("expert_choice_router", &[json!(false)])?;
            config.want("num_shared_experts", &[json!(0)])?;
            nomic(config)
        },
        when: has_experts,
        ..ENCODER
    },
    Architecture {
        classes: &["NeoBERT", "NeoBERTLMHead"],
        name: "neo-bert",
        keys: &[NEO, BIDIRECTIONAL],
        rules: &[NEO_RULES],
        activations: &["SwiGLU", "swiglu"],
        check: |config| config.want("rope", &[json!(true)]),
        ..ENCODER
    },
    Architecture { classes: &["ModernBertModel", "ModernBertForMaskedLM"], ..MODERN },
    Architecture {
        classes: &["ModernBertForSequenceClassification"],
        keys: &[WIDTHS, MODERN_NORM, BIDIRECTIONAL, MODERN_KEYS, RANKS],
        rules: &[MODERN_RULES, MODERN_RANKS],
        // A GGUF file cannot say which hidden state the classifier takes. Only the mean is supported.
        check: |config| config.want("classifier_pooling", &[json!("mean")]),
        ..MODERN
    },
    Architecture {
        classes: &["EuroBertModel"],
        name: "eurobert",
        keys: &[SIZES, RMS, HEAD, BIDIRECTIONAL],
        rules: &[EMBEDDING, NORMS, ATTENTION, FFN],
        ..ENCODER
    },
];

/// Refuses settings of Nomic Embed that Gleed does not compute.
fn nomic(config: &Config) -> Result<()> {
    config.want("prenorm", &[json!(false)])?;
    config.want("rotary_emb_fraction", &[json!(1.0)])?;
    config.want("rotary_emb_interleaved", &[json!(false)])
}

/// Returns whether some layers have experts.
fn has_experts(config: &Config) -> bool {
    config.0["moe_every_n_layers"].as_u64().is_some_and(|period| period > 0)
}

const NOMIC_PERIOD: &[Key] = &[Key("moe_every_n_layers", |c| size(c.size(&["moe_every_n_layers"])))];

/// Keys of NeoBERT. The vector is the first hidden state. The width is two thirds of the stated one, because the matrix
/// has a gate.
const NEO: &[Key] = &[
    Key("context_length", |c| size(c.context())),
    Key("block_count", |c| size(c.layers())),
    Key("embedding_length", |c| size(c.hidden())),
    Key("feed_forward_length", |c| size(c.ffn().map(|width| 2 * width / 3))),
    Key("attention.head_count", |c| size(c.heads())),
    Key("attention.layer_norm_rms_epsilon", |c| Ok(Some(Value::F32(c.number(&["norm_eps"])?.unwrap_or(1e-6) as f32)))),
    Key("pooling_type", |_| Ok(Some(Value::U32(2)))),
];

pub(super) const ENCODER: Architecture = Architecture { headless: true, ..DECODER };

const BERT: Architecture = Architecture {
    name: "bert",
    keys: &[WIDTHS, LAYER_NORM, BIDIRECTIONAL],
    rules: &[BERT_RULES, LEFT_OUT],
    rotary: 0.0,
    tied: true,
    activations: &["gelu"],
    check: |config| config.want("position_embedding_type", &[json!("absolute")]),
    ..ENCODER
};

/// RoBERTa. The first rows of its table of positions are for padding.
const ROBERTA: Architecture = Architecture {
    keys: &[ROBERTA_CONTEXT, WIDTHS_ONLY, LAYER_NORM, BIDIRECTIONAL],
    rules: &[ROBERTA_RULES, LEFT_OUT],
    ..BERT
};

const MODERN: Architecture = Architecture {
    name: "modern-bert",
    keys: &[WIDTHS, MODERN_NORM, BIDIRECTIONAL, MODERN_KEYS],
    rules: &[MODERN_RULES, LEFT_OUT],
    tied: true,
    activations: &["gelu"],
    rope: modern_rope,
    ..ENCODER
};

pub(super) const WIDTHS: &[Key] = &[
    Key("context_length", |c| size(c.context())),
    Key("block_count", |c| size(c.layers())),
    Key("embedding_length", |c| size(c.hidden())),
    Key("feed_forward_length", |c| size(c.ffn())),
    Key("attention.head_count", |c| size(c.heads())),
];

const WIDTHS_ONLY: &[Key] = &[
    Key("block_count", |c| size(c.layers())),
    Key("embedding_length", |c| size(c.hidden())),
    Key("feed_forward_length", |c| size(c.ffn())),
    Key("attention.head_count", |c| size(c.heads())),
];

const ROBERTA_CONTEXT: &[Key] = &[Key("context_length", |c| {
    let context = c.context()?.checked_sub(c.first_position()?).filter(|&context| context > 0);
    size(context.ok_or_else(|| "config.json: there are no positions but those of padding".into()))
})];

pub(super) const BIDIRECTIONAL: &[Key] = &[Key("attention.causal", |_| Ok(Some(Value::Bool(false))))];

/// Keys of rerankers, whose classifier makes the output.
const RANKS: &[Key] = &[Key("pooling_type", |_| Ok(Some(Value::U32(4))))];

const MODERN_NORM: &[Key] = &[Key("attention.layer_norm_epsilon", |c| number(c.number(&["norm_eps"])))];

const MODERN_KEYS: &[Key] = &[
    Key("attention.sliding_window", |c| size(c.size(&["local_attention"]))),
    Key("attention.sliding_window_pattern", seeing),
];

/// Returns the period of the layers that see everything, of which layer 0 is the first.
fn seeing(config: &Config) -> Setting {
    let Some(types) = config.field(&["layer_types"]).and_then(|types| types.as_array()) else {
        return size(Ok(config.optional_size(&["global_attn_every_n_layers"])?.unwrap_or(3)));
    };
    let sliding: Vec<bool> = types.iter().map(|kind| kind == "sliding_attention").collect();
    let usual = sliding.iter().enumerate().all(|(layer, &slides)| slides != layer.is_multiple_of(3));
    Ok(Some(if usual { Value::U32(3) } else { Value::Bools(sliding) }))
}

/// Reads two rotary bases: one for layers that see everything, one for the others.
fn modern_rope(config: &Config, _: f64) -> Result<Rope> {
    let base = |kind: &str, older: &str, default: f64| -> Result<Value> {
        let json = &config.0["rope_parameters"][kind];
        let found = json["rope_type"].as_str().unwrap_or("default");
        if found != "default" {
            return Err(format!("config.json: rotary scaling of type {found:?} is not supported").into());
        }
        let older = config.number(&[older])?.unwrap_or(default);
        Ok(Value::F32(json["rope_theta"].as_f64().unwrap_or(older) as f32))
    };
    let keys = vec![
        ("rope.freq_base", base("full_attention", "global_rope_theta", 160_000.0)?),
        ("rope.freq_base_swa", base("sliding_attention", "local_rope_theta", 10_000.0)?),
    ];
    Ok(Rope { keys, tensors: Vec::new() })
}

const BERT_RULES: &[Rule] = &bert(How::Same);
const ROBERTA_RULES: &[Rule] = &bert(How::Positions);

const fn bert(positions: How) -> [Rule; 12] {
    [
        rule("embeddings.word_embeddings", "token_embd", How::Same),
        rule("embeddings.position_embeddings", "position_embd", positions),
        optional("embeddings.token_type_embeddings", "token_types", How::Same),
        rule("embeddings.LayerNorm", "token_embd_norm", How::Same),
        rule("encoder.layer.{}.attention.self.query", "blk.{}.attn_q", How::Same),
        rule("encoder.layer.{}.attention.self.key", "blk.{}.attn_k", How::Same),
        rule("encoder.layer.{}.attention.self.value", "blk.{}.attn_v", How::Same),
        rule("encoder.layer.{}.attention.output.dense", "blk.{}.attn_output", How::Same),
        rule("encoder.layer.{}.attention.output.LayerNorm", "blk.{}.attn_output_norm", How::Same),
        rule("encoder.layer.{}.intermediate.dense", "blk.{}.ffn_up", How::Same),
        rule("encoder.layer.{}.output.dense", "blk.{}.ffn_down", How::Same),
        rule("encoder.layer.{}.output.LayerNorm", "blk.{}.layer_output_norm", How::Same),
    ]
}

const BERT_RANKS: &[Rule] = &[rule("pooler.dense", "cls", How::Same), rule("classifier", "cls.output", How::Same)];

const ROBERTA_RANKS: &[Rule] =
    &[rule("classifier.dense", "cls", How::Same), rule("classifier.out_proj", "cls.output", How::Same)];

/// Tensors that are left out: those that predict masked tokens, and others that no vector needs.
pub(super) const LEFT_OUT: &[Rule] = &[
    optional("pooler.dense", "", How::LeftOut),
    optional("cls.predictions.transform.dense", "", How::LeftOut),
    optional("cls.predictions.transform.LayerNorm", "", How::LeftOut),
    optional("cls.predictions.decoder", "", How::LeftOut),
    optional("cls.predictions", "", How::LeftOut),
    optional("head.dense", "", How::LeftOut),
    optional("head.norm", "", How::LeftOut),
    optional("decoder", "", How::LeftOut),
];

const NOMIC_LAYERS: &[Rule] = &[
    rule("embeddings.word_embeddings", "token_embd", How::Same),
    optional("embeddings.token_type_embeddings", "token_types", How::Same),
    rule("emb_ln", "token_embd_norm", How::Same),
    rule("encoder.layers.{}.attn.Wqkv", "blk.{}.attn_qkv", How::Same),
    rule("encoder.layers.{}.attn.out_proj", "blk.{}.attn_output", How::Same),
    rule("encoder.layers.{}.norm1", "blk.{}.attn_output_norm", How::Same),
    rule("encoder.layers.{}.norm2", "blk.{}.layer_output_norm", How::Same),
];

/// The second matrix is the gate.
const NOMIC_FFN: &[Rule] = &[
    rule("encoder.layers.{}.mlp.fc11", "blk.{}.ffn_up", How::Same),
    rule("encoder.layers.{}.mlp.fc12", "blk.{}.ffn_gate", How::Same),
    rule("encoder.layers.{}.mlp.fc2", "blk.{}.ffn_down", How::Same),
];

/// Layers of Nomic Embed with and without experts.
const NOMIC_EXPERTS: &[Rule] = &[
    optional("encoder.layers.{}.mlp.fc1", "blk.{}.ffn_up", How::Same),
    optional("encoder.layers.{}.mlp.fc2", "blk.{}.ffn_down", How::Same),
    optional("encoder.layers.{}.mlp.router.layer", "blk.{}.ffn_gate_inp", How::Same),
    whole("encoder.layers.{}.mlp.experts.mlp.w1", "blk.{}.ffn_up_exps.weight", How::Stacked),
    whole("encoder.layers.{}.mlp.experts.mlp.w2", "blk.{}.ffn_down_exps.weight", How::TransposedStacked),
    whole("encoder.layers.{}.mlp.experts.bias", "", How::Zeros),
];

/// Q, K and V of each head follow each other; the gate is the first half of its matrix.
const NEO_RULES: &[Rule] = &[
    rule("encoder", "token_embd", How::Same),
    rule("layer_norm", "enc.output_norm", How::Same),
    optional("decoder", "", How::LeftOut),
    rule("transformer_encoder.{}.attention_norm", "blk.{}.attn_norm", How::Same),
    rule("transformer_encoder.{}.qkv", "blk.{}.attn_qkv", How::Fused),
    rule("transformer_encoder.{}.wo", "blk.{}.attn_output", How::Same),
    rule("transformer_encoder.{}.ffn_norm", "blk.{}.ffn_norm", How::Same),
    rule("transformer_encoder.{}.ffn.w12", "blk.{}.ffn_up", How::Same),
    rule("transformer_encoder.{}.ffn.w3", "blk.{}.ffn_down", How::Same),
];

/// The first layer has no norm before attention.
const MODERN_RULES: &[Rule] = &[
    rule("embeddings.tok_embeddings", "token_embd", How::Same),
    rule("embeddings.norm", "token_embd_norm", How::Same),
    rule("final_norm", "output_norm", How::Same),
    optional("layers.{}.attn_norm", "blk.{}.attn_norm", How::Same),
    rule("layers.{}.attn.Wqkv", "blk.{}.attn_qkv", How::Same),
    rule("layers.{}.attn.Wo", "blk.{}.attn_output", How::Same),
    rule("layers.{}.mlp_norm", "blk.{}.ffn_norm", How::Same),
    rule("layers.{}.mlp.Wi", "blk.{}.ffn_up", How::Same),
    rule("layers.{}.mlp.Wo", "blk.{}.ffn_down", How::Same),
];

const MODERN_RANKS: &[Rule] = &[
    rule("head.dense", "cls", How::Same),
    optional("head.norm", "cls.norm", How::Same),
    rule("classifier", "cls.output", How::Same),
];
