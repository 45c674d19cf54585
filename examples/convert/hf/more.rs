//! More architectures, in the same form as in `architectures.rs`.

use serde_json::json;

use super::architectures::{
    ATTENTION, Architecture, DECODER, EMBEDDING, EXPERT_WIDTH, EXPERTS, FFN, GRANITE, HEAD, Key, LAYER_NORM, NORMS,
    PAIRS, RMS, SIZES,
};
use super::config::{number, size};
use super::how::How;
use super::newer::{LFM2, LFM2_KEYS};
use super::routed::EXPERT_MATRICES;
use super::tensors::{Rule, optional, rule, whole};
use common::gguf::Value;

pub(super) const MORE: &[Architecture] = &[
    Architecture {
        classes: &["Lfm2MoeForCausalLM"],
        name: "lfm2moe",
        keys: &[LFM2_KEYS, EXPERTS, EXPERT_WIDTH, LFM2_EXPERT_KEYS],
        rules: &[LFM2, LFM2_EXPERTS],
        tied: true,
        check: |config| {
            config.want("conv_bias", &[json!(false)])?;
            config.want("norm_topk_prob", &[json!(true)])
        },
        ..DECODER
    },
    // It rotates adjacent pairs, and its rows have that order already.
    Architecture {
        classes: &["Ernie4_5_MoeForCausalLM"],
        name: "ernie4_5-moe",
        keys: &[SIZES, RMS, HEAD, EXPERTS, EXPERT_WIDTH, ERNIE_KEYS],
        rules: &[EMBEDDING, NORMS, ATTENTION, ERNIE, EXPERT_MATRICES],
        check: |config| config.want("moe_layer_interval", &[json!(1)]),
        ..DECODER
    },
    Architecture {
        classes: &["GraniteMoeForCausalLM", "GraniteMoeSharedForCausalLM"],
        name: "granitemoe",
        keys: &[SIZES, RMS, HEAD, GRANITE, EXPERTS, GRANITE_SHARED],
        rules: &[EMBEDDING, NORMS, PAIRS, GRANITE_EXPERTS],
        ..DECODER
    },
    Architecture { classes: &["CohereForCausalLM"], name: "command-r", ..COHERE },
    Architecture { classes: &["Cohere2ForCausalLM"], name: "cohere2", window_period: 4, ..COHERE },
    Architecture {
        classes: &["ExaoneForCausalLM"],
        name: "exaone",
        keys: &[SIZES, EXAONE_NORM, HEAD],
        rules: &[EXAONE],
        ..DECODER
    },
    Architecture {
        classes: &["NemotronForCausalLM"],
        name: "nemotron",
        keys: &[SIZES, NEMOTRON_NORM, HEAD],
        rules: &[NEMOTRON, ATTENTION],
        rotary: 0.5,
        activations: &["relu2"],
        ..DECODER
    },
    Architecture {
        classes: &["GlmForCausalLM"],
        name: "chatglm",
        keys: &[SIZES, RMS, HEAD],
        rules: &[EMBEDDING, NORMS, ATTENTION, GLM],
        rotary: 0.5,
        ..DECODER
    },
];

const COHERE: Architecture = Architecture {
    keys: &[SIZES, LAYER_NORM, HEAD, COHERE_KEYS],
    rules: &[EMBEDDING, COHERE_NORMS, ATTENTION, FFN],
    tied: true,
    ..DECODER
};

const LFM2_EXPERT_KEYS: &[Key] = &[
    Key("feed_forward_length", |c| size(c.ffn())),
    Key("leading_dense_block_count", |c| Ok(Some(Value::U32(c.number(&["num_dense_layers"])?.unwrap_or(0.0) as u32)))),
    // Gates are sigmoids.
    Key("expert_gating_func", |_| Ok(Some(Value::U32(2)))),
    Key("expert_weights_scale", |c| number(c.number(&["routed_scaling_factor"]))),
];

/// Feed-forward layers of LFM2. Newer folders have the experts of a layer in two tensors.
const LFM2_EXPERTS: &[Rule] = &[
    optional("layers.{}.feed_forward.w1", "blk.{}.ffn_gate", How::Same),
    optional("layers.{}.feed_forward.w3", "blk.{}.ffn_up", How::Same),
    optional("layers.{}.feed_forward.w2", "blk.{}.ffn_down", How::Same),
    optional("layers.{}.feed_forward.gate", "blk.{}.ffn_gate_inp", How::Same),
    whole("layers.{}.feed_forward.expert_bias", "blk.{}.exp_probs_b.bias", How::Flat),
    optional("layers.{}.feed_forward.experts.{e}.w1", "blk.{}.ffn_gate_exps", How::Experts),
    optional("layers.{}.feed_forward.experts.{e}.w3", "blk.{}.ffn_up_exps", How::Experts),
    optional("layers.{}.feed_forward.experts.{e}.w2", "blk.{}.ffn_down_exps", How::Experts),
    whole("layers.{}.feed_forward.experts.gate_up_proj", "blk.{}.ffn_gate_exps.weight", How::Half(0)),
    whole("layers.{}.feed_forward.experts.gate_up_proj", "blk.{}.ffn_up_exps.weight", How::Half(1)),
    whole("layers.{}.feed_forward.experts.down_proj", "blk.{}.ffn_down_exps.weight", How::Same),
];

const ERNIE_KEYS: &[Key] = &[
    Key("leading_dense_block_count", |c| {
        Ok(Some(Value::U32(c.number(&["moe_layer_start_index"])?.unwrap_or(0.0) as u32)))
    }),
    Key("interleave_moe_layer_step", |_| Ok(Some(Value::U32(1)))),
    Key("expert_shared_count", |c| Ok(Some(Value::U32(c.number(&["moe_num_shared_experts"])?.unwrap_or(0.0) as u32)))),
];

const ERNIE: &[Rule] = &[
    optional("layers.{}.mlp.gate_proj", "blk.{}.ffn_gate", How::Same),
    optional("layers.{}.mlp.up_proj", "blk.{}.ffn_up", How::Same),
    optional("layers.{}.mlp.down_proj", "blk.{}.ffn_down", How::Same),
    optional("layers.{}.mlp.gate", "blk.{}.ffn_gate_inp", How::Same),
    whole("layers.{}.mlp.moe_statics.e_score_correction_bias", "blk.{}.exp_probs_b.bias", How::Flat),
];

const GRANITE_SHARED: &[Key] = &[Key("expert_shared_feed_forward_length", |c| {
    c.optional_size(&["shared_intermediate_size"])?.map_or(Ok(None), |width| size(Ok(width)))
})];

const GRANITE_EXPERTS: &[Rule] = &[
    rule("layers.{}.block_sparse_moe.router.layer", "blk.{}.ffn_gate_inp", How::Same),
    rule("layers.{}.block_sparse_moe.input_linear", "blk.{}.ffn_gate_exps", How::Half(0)),
    rule("layers.{}.block_sparse_moe.input_linear", "blk.{}.ffn_up_exps", How::Half(1)),
    rule("layers.{}.block_sparse_moe.output_linear", "blk.{}.ffn_down_exps", How::Same),
    optional("layers.{}.shared_mlp.input_linear", "blk.{}.ffn_gate_shexp", How::Half(0)),
    optional("layers.{}.shared_mlp.input_linear", "blk.{}.ffn_up_shexp", How::Half(1)),
    optional("layers.{}.shared_mlp.output_linear", "blk.{}.ffn_down_shexp", How::Same),
];

const COHERE_KEYS: &[Key] = &[Key("logit_scale", |c| number(c.number(&["logit_scale"])))];

/// Norms of Cohere. Those of heads have one vector for each head.
const COHERE_NORMS: &[Rule] = &[
    rule("layers.{}.input_layernorm", "blk.{}.attn_norm", How::Same),
    optional("layers.{}.self_attn.q_norm", "blk.{}.attn_q_norm", How::Same),
    optional("layers.{}.self_attn.k_norm", "blk.{}.attn_k_norm", How::Same),
];

const EXAONE_NORM: &[Key] =
    &[Key("attention.layer_norm_rms_epsilon", |c| number(c.number(&["layer_norm_epsilon", "rms_norm_eps"])))];

const EXAONE: &[Rule] = &[
    rule("wte", "token_embd", How::Same),
    rule("ln_f", "output_norm", How::Same),
    optional("lm_head", "output", How::Same),
    rule("h.{}.ln_1", "blk.{}.attn_norm", How::Same),
    rule("h.{}.attn.attention.q_proj", "blk.{}.attn_q", How::Same),
    rule("h.{}.attn.attention.k_proj", "blk.{}.attn_k", How::Same),
    rule("h.{}.attn.attention.v_proj", "blk.{}.attn_v", How::Same),
    rule("h.{}.attn.attention.out_proj", "blk.{}.attn_output", How::Same),
    rule("h.{}.ln_2", "blk.{}.ffn_norm", How::Same),
    rule("h.{}.mlp.c_fc_0", "blk.{}.ffn_gate", How::Same),
    rule("h.{}.mlp.c_fc_1", "blk.{}.ffn_up", How::Same),
    rule("h.{}.mlp.c_proj", "blk.{}.ffn_down", How::Same),
];

const NEMOTRON_NORM: &[Key] =
    &[Key("attention.layer_norm_epsilon", |c| Ok(Some(Value::F32(c.number(&["norm_eps"])?.unwrap_or(1e-5) as f32))))];

const NEMOTRON: &[Rule] = &[
    rule("embed_tokens", "token_embd", How::Same),
    rule("norm", "output_norm", How::PlusOne),
    optional("lm_head", "output", How::Same),
    rule("layers.{}.input_layernorm", "blk.{}.attn_norm", How::PlusOne),
    rule("layers.{}.post_attention_layernorm", "blk.{}.ffn_norm", How::PlusOne),
    rule("layers.{}.mlp.up_proj", "blk.{}.ffn_up", How::Same),
    rule("layers.{}.mlp.down_proj", "blk.{}.ffn_down", How::Same),
];

/// The rows of the gate come first in the up matrix.
const GLM: &[Rule] = &[
    rule("layers.{}.mlp.gate_up_proj", "blk.{}.ffn_up", How::Same),
    rule("layers.{}.mlp.down_proj", "blk.{}.ffn_down", How::Same),
];
