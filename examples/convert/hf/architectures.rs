//! The table of architectures, with the metadata keys and tensors of each. `newer.rs` has more of them.

use serde_json::json;

use super::config::{Config, Setting, number, size};
use super::how::How;
use super::mpt::{MPT, MPT_KEYS};
use super::rope::{self, Rope};
use super::tensors::{Rule, optional, rule};
use common::Result;
use common::gguf::Value;

/// An architecture, which `config.json` names by its class.
pub(crate) struct Architecture {
    /// Names of its classes in `architectures` of `config.json`.
    pub(crate) classes: &'static [&'static str],
    /// `general.architecture`.
    pub(crate) name: &'static str,
    pub(crate) keys: &'static [&'static [Key]],
    pub(crate) rules: &'static [&'static [Rule]],
    /// Part of each head that is rotated, if the file does not say it; 0 if nothing is rotated.
    pub(crate) rotary: f64,
    /// Whether the embedding is the output matrix, if the file does not say it.
    pub(crate) tied: bool,
    /// Whether there is no output matrix, because the model makes vectors.
    pub(crate) headless: bool,
    /// Period of the layers without a window, in models that have one; 0 if all layers have it.
    pub(crate) window_period: usize,
    /// Metadata that folders store as tensors of one element in each layer: the whole key, and the name of the tensors.
    pub(crate) numbers: &'static [(&'static str, &'static str)],
    /// Names of the activation functions that are accepted.
    pub(crate) activations: &'static [&'static str],
    /// Refuses settings that Gleed does not compute.
    pub(crate) check: fn(&Config) -> Result<()>,
    /// Returns whether the model has this architecture, if several have the same class.
    pub(crate) when: fn(&Config) -> bool,
    /// Reads how positions are rotated, with the default of the rotated part.
    pub(crate) rope: fn(&Config, f64) -> Result<Rope>,
}

/// A metadata key without the architecture in front, and its value.
pub(crate) struct Key(pub(crate) &'static str, pub(crate) fn(&Config) -> Setting);

pub(super) const DECODER: Architecture = Architecture {
    classes: &[],
    name: "",
    keys: &[SIZES, RMS],
    rules: &[EMBEDDING, NORMS, ATTENTION, FFN],
    rotary: 1.0,
    tied: false,
    headless: false,
    window_period: 0,
    numbers: &[],
    activations: &["silu", "swish"],
    check: |_| Ok(()),
    when: |_| true,
    rope: rope::read,
};

pub(super) const LLAMA: Architecture =
    Architecture { rules: &[EMBEDDING, NORMS, PAIRS, FFN], keys: &[SIZES, RMS, HEAD], ..DECODER };

pub(super) const GPT2_MODEL: Architecture = Architecture {
    classes: &["GPT2LMHeadModel"],
    name: "gpt2",
    keys: &[SIZES, LAYER_NORM],
    rules: &[GPT2],
    rotary: 0.0,
    tied: true,
    activations: GELU_TANH,
    check: |config| {
        config.want("scale_attn_weights", &[json!(true)])?;
        config.want("scale_attn_by_inverse_layer_idx", &[json!(false)])
    },
    ..DECODER
};

pub(super) const GELU_TANH: &[&str] = &["gelu_new", "gelu_pytorch_tanh", "gelu_fast"];

pub(crate) const ARCHITECTURES: &[Architecture] = &[
    Architecture { classes: &["LlamaForCausalLM", "MistralForCausalLM"], name: "llama", ..LLAMA },
    Architecture {
        classes: &["MixtralForCausalLM"],
        name: "llama",
        keys: &[SIZES, RMS, HEAD, EXPERTS],
        rules: &[EMBEDDING, NORMS, PAIRS, MIXTRAL],
        ..LLAMA
    },
    Architecture {
        classes: &["SmolLM3ForCausalLM"],
        name: "smollm3",
        check: |config| config.want("no_rope_layer_interval", &[json!(4)]),
        ..LLAMA
    },
    Architecture { classes: &["GraniteForCausalLM"], name: "granite", keys: &[SIZES, RMS, HEAD, GRANITE], ..LLAMA },
    Architecture { classes: &["Qwen2ForCausalLM"], name: "qwen2", ..DECODER },
    Architecture {
        classes: &["Qwen3ForCausalLM"],
        name: "qwen3",
        keys: &[SIZES, RMS, HEAD],
        rules: &[EMBEDDING, NORMS, ATTENTION, QK_NORM, FFN],
        ..DECODER
    },
    Architecture {
        classes: &["Qwen3MoeForCausalLM"],
        name: "qwen3moe",
        keys: &[SIZES, RMS, HEAD, EXPERTS, EXPERT_WIDTH],
        rules: &[EMBEDDING, NORMS, ATTENTION, QK_NORM, QWEN_EXPERTS],
        check: |config| {
            config.want("norm_topk_prob", &[json!(true)])?;
            config.want("decoder_sparse_step", &[json!(1)])?;
            config.want("mlp_only_layers", &[json!([])])
        },
        ..DECODER
    },
    Architecture {
        classes: &["GemmaForCausalLM"],
        name: "gemma",
        keys: &[SIZES, RMS, HEAD],
        rules: &[GEMMA_EMBEDDING, GEMMA_NORMS, ATTENTION, FFN],
        ..GEMMA
    },
    Architecture { classes: &["Gemma2ForCausalLM"], name: "gemma2", window_period: 2, ..GEMMA },
    Architecture {
        classes: &["Gemma3ForCausalLM"],
        name: "gemma3",
        rules: &[GEMMA_EMBEDDING, GEMMA2_NORMS, ATTENTION, GEMMA_QK_NORM, FFN],
        window_period: 6,
        check: |config| config.want("use_bidirectional_attention", &[json!(false)]),
        ..GEMMA
    },
    Architecture { classes: &["Phi3ForCausalLM"], name: "phi3", rules: &[EMBEDDING, NORMS, PHI3], ..DECODER },
    GPT2_MODEL,
    Architecture {
        classes: &["BloomForCausalLM"],
        name: "bloom",
        keys: &[SIZES, LAYER_NORM],
        rules: &[BLOOM],
        rotary: 0.0,
        tied: true,
        check: |config| config.want("apply_residual_connection_post_layernorm", &[json!(false)]),
        ..DECODER
    },
    Architecture {
        classes: &["MptForCausalLM", "MPTForCausalLM"],
        name: "mpt",
        keys: &[SIZES, LAYER_NORM, MPT_KEYS],
        rules: &[MPT],
        rotary: 0.0,
        tied: true,
        ..DECODER
    },
    Architecture {
        classes: &["GPTNeoXForCausalLM"],
        name: "gptneox",
        keys: &[SIZES, LAYER_NORM, PARALLEL],
        rules: &[GPTNEOX],
        rotary: 0.25,
        activations: &["gelu"],
        ..DECODER
    },
    Architecture {
        classes: &["StableLmForCausalLM", "StableLMEpochForCausalLM"],
        name: "stablelm",
        keys: &[SIZES, LAYER_NORM, PARALLEL_OFF],
        rules: &[EMBEDDING, STABLELM, ATTENTION, FFN],
        rotary: 0.25,
        ..DECODER
    },
    Architecture {
        classes: &["Olmo2ForCausalLM", "Olmo3ForCausalLM"],
        name: "olmo2",
        window_period: 4,
        rules: &[EMBEDDING, OLMO2, ATTENTION, FFN],
        ..DECODER
    },
    Architecture {
        classes: &["Starcoder2ForCausalLM"],
        name: "starcoder2",
        keys: &[SIZES, LAYER_NORM],
        rules: &[EMBEDDING, NORMS, ATTENTION, STARCODER2],
        tied: true,
        activations: GELU_TANH,
        ..DECODER
    },
];

const GEMMA: Architecture = Architecture {
    keys: &[SIZES, RMS, HEAD, CAPS],
    rules: &[GEMMA_EMBEDDING, GEMMA2_NORMS, ATTENTION, FFN],
    tied: true,
    // Both names mean the same function in this architecture.
    activations: &["gelu_pytorch_tanh", "gelu"],
    ..DECODER
};

pub(super) const SIZES: &[Key] = &[
    Key("block_count", |c| size(c.layers())),
    Key("context_length", |c| size(c.context())),
    Key("embedding_length", |c| size(c.hidden())),
    Key("feed_forward_length", |c| size(c.ffn())),
    Key("attention.head_count", |c| size(c.heads())),
    Key("attention.head_count_kv", |c| size(c.kv_heads())),
    Key("vocab_size", |c| size(c.vocab())),
];

pub(super) const RMS: &[Key] = &[Key("attention.layer_norm_rms_epsilon", |c| number(c.number(&["rms_norm_eps"])))];

pub(super) const LAYER_NORM: &[Key] = &[Key("attention.layer_norm_epsilon", |c| {
    let names = ["layer_norm_epsilon", "layer_norm_eps", "norm_epsilon"];
    Ok(Some(Value::F32(c.number(&names)?.unwrap_or(1e-5) as f32)))
})];

pub(super) const HEAD: &[Key] =
    &[Key("attention.key_length", |c| size(c.head_dim())), Key("attention.value_length", |c| size(c.head_dim()))];

pub(super) const EXPERTS: &[Key] = &[
    Key("expert_count", |c| size(c.experts())),
    Key("expert_used_count", |c| size(c.size(&["num_experts_per_tok", "moe_k", "moe_top_k"]))),
];

pub(super) const EXPERT_WIDTH: &[Key] =
    &[Key("expert_feed_forward_length", |c| size(c.size(&["moe_intermediate_size"])))];

pub(super) const GRANITE: &[Key] = &[
    Key("embedding_scale", |c| number(c.number(&["embedding_multiplier"]))),
    Key("residual_scale", |c| number(c.number(&["residual_multiplier"]))),
    Key("attention.scale", |c| number(c.number(&["attention_multiplier"]))),
    Key("logit_scale", |c| number(c.number(&["logits_scaling"]))),
];

pub(super) const CAPS: &[Key] = &[
    Key("attn_logit_softcapping", |c| number(c.number(&["attn_logit_softcapping"]))),
    Key("final_logit_softcapping", |c| number(c.number(&["final_logit_softcapping"]))),
    Key("attention.scale", |c| {
        // Most models have the usual scalar, which needs no key.
        let scalar =
            c.number(&["query_pre_attn_scalar"])?.filter(|&scalar| c.head_dim().is_ok_and(|n| scalar != n as f64));
        Ok(scalar.map(|scalar| Value::F32((1.0 / scalar.sqrt()) as f32)))
    }),
];

const PARALLEL: &[Key] =
    &[Key("use_parallel_residual", |c| Ok(Some(Value::Bool(c.flag("use_parallel_residual", true)))))];

const PARALLEL_OFF: &[Key] =
    &[Key("use_parallel_residual", |c| Ok(Some(Value::Bool(c.flag("use_parallel_residual", false)))))];

pub(super) const EMBEDDING: &[Rule] = &[
    rule("embed_tokens", "token_embd", How::Same),
    rule("norm", "output_norm", How::Same),
    optional("lm_head", "output", How::Same),
];

pub(super) const NORMS: &[Rule] = &[
    rule("layers.{}.input_layernorm", "blk.{}.attn_norm", How::Same),
    rule("layers.{}.post_attention_layernorm", "blk.{}.ffn_norm", How::Same),
];

pub(super) const ATTENTION: &[Rule] = &[
    rule("layers.{}.self_attn.q_proj", "blk.{}.attn_q", How::Same),
    rule("layers.{}.self_attn.k_proj", "blk.{}.attn_k", How::Same),
    rule("layers.{}.self_attn.v_proj", "blk.{}.attn_v", How::Same),
    rule("layers.{}.self_attn.o_proj", "blk.{}.attn_output", How::Same),
];

/// Matrices of attention whose rows are put in another order, for rotations of adjacent pairs.
pub(super) const PAIRS: &[Rule] = &[
    rule("layers.{}.self_attn.q_proj", "blk.{}.attn_q", How::PairsOfQ),
    rule("layers.{}.self_attn.k_proj", "blk.{}.attn_k", How::PairsOfK),
    rule("layers.{}.self_attn.v_proj", "blk.{}.attn_v", How::Same),
    rule("layers.{}.self_attn.o_proj", "blk.{}.attn_output", How::Same),
];

pub(super) const QK_NORM: &[Rule] = &[
    rule("layers.{}.self_attn.q_norm", "blk.{}.attn_q_norm", How::Same),
    rule("layers.{}.self_attn.k_norm", "blk.{}.attn_k_norm", How::Same),
];

pub(super) const FFN: &[Rule] = &[
    rule("layers.{}.mlp.gate_proj", "blk.{}.ffn_gate", How::Same),
    rule("layers.{}.mlp.up_proj", "blk.{}.ffn_up", How::Same),
    rule("layers.{}.mlp.down_proj", "blk.{}.ffn_down", How::Same),
];

const MIXTRAL: &[Rule] = &[
    rule("layers.{}.block_sparse_moe.gate", "blk.{}.ffn_gate_inp", How::Same),
    rule("layers.{}.block_sparse_moe.experts.{e}.w1", "blk.{}.ffn_gate_exps", How::Experts),
    rule("layers.{}.block_sparse_moe.experts.{e}.w3", "blk.{}.ffn_up_exps", How::Experts),
    rule("layers.{}.block_sparse_moe.experts.{e}.w2", "blk.{}.ffn_down_exps", How::Experts),
];

pub(super) const QWEN_EXPERTS: &[Rule] = &[
    rule("layers.{}.mlp.gate", "blk.{}.ffn_gate_inp", How::Same),
    rule("layers.{}.mlp.experts.{e}.gate_proj", "blk.{}.ffn_gate_exps", How::Experts),
    rule("layers.{}.mlp.experts.{e}.up_proj", "blk.{}.ffn_up_exps", How::Experts),
    rule("layers.{}.mlp.experts.{e}.down_proj", "blk.{}.ffn_down_exps", How::Experts),
];

pub(super) const GEMMA_EMBEDDING: &[Rule] = &[
    rule("embed_tokens", "token_embd", How::Same),
    rule("norm", "output_norm", How::PlusOne),
    optional("lm_head", "output", How::Same),
];

const GEMMA_NORMS: &[Rule] = &[
    rule("layers.{}.input_layernorm", "blk.{}.attn_norm", How::PlusOne),
    rule("layers.{}.post_attention_layernorm", "blk.{}.ffn_norm", How::PlusOne),
];

pub(super) const GEMMA2_NORMS: &[Rule] = &[
    rule("layers.{}.input_layernorm", "blk.{}.attn_norm", How::PlusOne),
    rule("layers.{}.post_attention_layernorm", "blk.{}.post_attention_norm", How::PlusOne),
    rule("layers.{}.pre_feedforward_layernorm", "blk.{}.ffn_norm", How::PlusOne),
    rule("layers.{}.post_feedforward_layernorm", "blk.{}.post_ffw_norm", How::PlusOne),
];

pub(super) const GEMMA_QK_NORM: &[Rule] = &[
    rule("layers.{}.self_attn.q_norm", "blk.{}.attn_q_norm", How::PlusOne),
    rule("layers.{}.self_attn.k_norm", "blk.{}.attn_k_norm", How::PlusOne),
];

/// The rows of the gate come first in the up matrix.
const PHI3: &[Rule] = &[
    rule("layers.{}.self_attn.qkv_proj", "blk.{}.attn_qkv", How::Same),
    rule("layers.{}.self_attn.o_proj", "blk.{}.attn_output", How::Same),
    rule("layers.{}.mlp.gate_up_proj", "blk.{}.ffn_up", How::Same),
    rule("layers.{}.mlp.down_proj", "blk.{}.ffn_down", How::Same),
];

const GPT2: &[Rule] = &[
    rule("wte", "token_embd", How::Same),
    rule("wpe", "position_embd", How::Same),
    rule("ln_f", "output_norm", How::Same),
    optional("lm_head", "output", How::Same),
    rule("h.{}.ln_1", "blk.{}.attn_norm", How::Same),
    rule("h.{}.attn.c_attn", "blk.{}.attn_qkv", How::Transposed),
    rule("h.{}.attn.c_proj", "blk.{}.attn_output", How::Transposed),
    rule("h.{}.ln_2", "blk.{}.ffn_norm", How::Same),
    rule("h.{}.mlp.c_fc", "blk.{}.ffn_up", How::Transposed),
    rule("h.{}.mlp.c_proj", "blk.{}.ffn_down", How::Transposed),
];

const BLOOM: &[Rule] = &[
    rule("word_embeddings", "token_embd", How::Same),
    rule("word_embeddings_layernorm", "token_embd_norm", How::Same),
    rule("ln_f", "output_norm", How::Same),
    optional("lm_head", "output", How::Same),
    rule("h.{}.input_layernorm", "blk.{}.attn_norm", How::Same),
    rule("h.{}.self_attention.query_key_value", "blk.{}.attn_qkv", How::Fused),
    rule("h.{}.self_attention.dense", "blk.{}.attn_output", How::Same),
    rule("h.{}.post_attention_layernorm", "blk.{}.ffn_norm", How::Same),
    rule("h.{}.mlp.dense_h_to_4h", "blk.{}.ffn_up", How::Same),
    rule("h.{}.mlp.dense_4h_to_h", "blk.{}.ffn_down", How::Same),
];

const GPTNEOX: &[Rule] = &[
    rule("embed_in", "token_embd", How::Same),
    rule("final_layer_norm", "output_norm", How::Same),
    optional("embed_out", "output", How::Same),
    rule("layers.{}.input_layernorm", "blk.{}.attn_norm", How::Same),
    rule("layers.{}.attention.query_key_value", "blk.{}.attn_qkv", How::Fused),
    rule("layers.{}.attention.dense", "blk.{}.attn_output", How::Same),
    rule("layers.{}.post_attention_layernorm", "blk.{}.ffn_norm", How::Same),
    rule("layers.{}.mlp.dense_h_to_4h", "blk.{}.ffn_up", How::Same),
    rule("layers.{}.mlp.dense_4h_to_h", "blk.{}.ffn_down", How::Same),
];

/// Large models have norms per head, and one norm for both branches.
const STABLELM: &[Rule] = &[
    rule("layers.{}.input_layernorm", "blk.{}.attn_norm", How::Same),
    optional("layers.{}.self_attn.q_layernorm.norms.{e}", "blk.{}.attn_q_norm", How::HeadsOfQ),
    optional("layers.{}.self_attn.k_layernorm.norms.{e}", "blk.{}.attn_k_norm", How::HeadsOfK),
    optional("layers.{}.post_attention_layernorm", "blk.{}.ffn_norm", How::Same),
];

pub(super) const OLMO2: &[Rule] = &[
    rule("layers.{}.self_attn.q_norm", "blk.{}.attn_q_norm", How::Same),
    rule("layers.{}.self_attn.k_norm", "blk.{}.attn_k_norm", How::Same),
    rule("layers.{}.post_attention_layernorm", "blk.{}.post_attention_norm", How::Same),
    rule("layers.{}.post_feedforward_layernorm", "blk.{}.post_ffw_norm", How::Same),
];

const STARCODER2: &[Rule] = &[
    rule("layers.{}.mlp.c_fc", "blk.{}.ffn_up", How::Same),
    rule("layers.{}.mlp.c_proj", "blk.{}.ffn_down", How::Same),
];
