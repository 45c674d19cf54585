//! The tensors, keys and usual sizes of each architecture, as a table.

use super::architectures::{Architecture, Fixed, Form};
use super::recurrent::{FALCON_H1, GRANITE_HYBRID, LFM2, LFM2_MOE, NEMOTRON_H, QWEN35, QWEN35_MOE};

/// The layers of Mixtral, in a file whose architecture is llama.
pub const LLAMA_EXPERTS: &str =
    "attn_norm attn_q attn_k attn_v attn_output ffn_norm ffn_gate_inp ffn_gate_exps ffn_up_exps ffn_down_exps";
pub const LLAMA_BIASES: &str = "attn_norm attn_q+ attn_k+ attn_v+ attn_output+ ffn_norm ffn_gate+ ffn_up+ ffn_down+";
/// The layers of Qwen 3 with experts that are chosen with biases.
pub const QWEN3_BIASED: &str = "attn_norm attn_q attn_k attn_v attn_output attn_q_norm attn_k_norm ffn_norm ffn_gate_inp \
     exp_probs_b ffn_gate_exps ffn_up_exps ffn_down_exps";
pub const STABLELM_PARALLEL: &str = "attn_norm+ attn_q attn_k attn_v attn_output attn_q_norm:heads attn_k_norm:heads \
     ffn_gate ffn_up ffn_down";
pub const MPT_QK_NORM: &str =
    "attn_norm attn_qkv attn_q_norm:whole+ attn_k_norm:whole+ attn_output ffn_norm ffn_up ffn_down";
/// The layers of Gemma 4 without inputs of layers. Layers without a window have no values.
pub const GEMMA4_DENSE: &str = "attn_norm attn_q attn_k attn_v:local attn_output attn_q_norm attn_k_norm post_attention_norm \
     ffn_norm ffn_gate ffn_up ffn_down post_ffw_norm layer_output_scale";
/// The same layers with experts. The gates and ups of experts are one tensor.
pub const GEMMA4_EXPERTS: &str = "attn_norm attn_q attn_k attn_v:local attn_output attn_q_norm attn_k_norm \
     post_attention_norm ffn_norm ffn_gate ffn_up ffn_down post_ffw_norm_1 ffn_gate_inp ffn_gate_inp.scale= pre_ffw_norm_2 \
     ffn_gate_up_exps ffn_down_exps ffn_down_exps.scale= post_ffw_norm_2 post_ffw_norm layer_output_scale";
/// All tensors that Gemma 4 can have, except scales that a file may leave out.
pub const GEMMA4_ALL: &str = "attn_norm attn_q attn_k:own attn_v:own attn_output attn_q_norm attn_k_norm:own \
     post_attention_norm ffn_norm ffn_gate ffn_up ffn_down post_ffw_norm_1 ffn_gate_inp ffn_gate_inp.scale= pre_ffw_norm_2 \
     ffn_gate_exps ffn_up_exps ffn_down_exps post_ffw_norm_2 post_ffw_norm inp_gate proj post_norm";

pub const LLAMA: Form = Form {
    architecture: Architecture::Llama,
    name: "llama",
    layer: "attn_norm attn_q attn_k attn_v attn_output ffn_norm ffn_gate ffn_up ffn_down",
    first: None,
    others: &[],
    before: "token_embd",
    after: "output_norm",
    eps_key: "attention.layer_norm_rms_epsilon",
    keys: &[],
    rotary_share: 1.0,
    layers: 2,
    heads: 4,
    kv_heads: 2,
    head_dim: 16,
    tied: false,
    rope_base: 10000.0,
    norm_eps: 1e-5,
    experts: 0,
    seed: 1,
};
pub const QWEN3: Form = Form {
    architecture: Architecture::Qwen3,
    name: "qwen3",
    layer: "attn_norm attn_q attn_k attn_v attn_output attn_q_norm attn_k_norm ffn_norm ffn_gate ffn_up ffn_down",
    kv_heads: 1,
    head_dim: 32,
    tied: true,
    rope_base: 1e6,
    norm_eps: 1e-6,
    seed: 2,
    ..LLAMA
};
const GEMMA: Form = Form {
    architecture: Architecture::Gemma,
    name: "gemma",
    kv_heads: 1,
    tied: true,
    norm_eps: 1e-6,
    seed: 7,
    ..LLAMA
};
pub const GPT2: Form = Form {
    architecture: Architecture::Gpt2,
    name: "gpt2",
    layer: "attn_norm+ attn_qkv+ attn_output+ ffn_norm+ ffn_up+ ffn_down+",
    before: "token_embd position_embd",
    after: "output_norm+",
    eps_key: "attention.layer_norm_epsilon",
    rotary_share: 0.0,
    kv_heads: 4,
    tied: true,
    seed: 11,
    ..LLAMA
};

pub const FORMS: [Form; 36] = [
    LLAMA,
    Form { architecture: Architecture::SmolLm3, name: "smollm3", layers: 4, tied: true, seed: 3, ..LLAMA },
    Form {
        architecture: Architecture::Granite,
        name: "granite",
        keys: &[
            ("embedding_scale", Fixed::F32(6.0)),
            ("residual_scale", Fixed::F32(0.5)),
            ("attention.scale", Fixed::F32(0.375)),
            ("logit_scale", Fixed::F32(2.0)),
        ],
        seed: 4,
        ..LLAMA
    },
    Form {
        architecture: Architecture::Qwen2,
        name: "qwen2",
        layer: "attn_norm attn_q+ attn_k+ attn_v+ attn_output ffn_norm ffn_gate ffn_up ffn_down",
        rope_base: 1e6,
        seed: 5,
        ..LLAMA
    },
    QWEN3,
    Form {
        architecture: Architecture::Qwen3Moe,
        name: "qwen3moe",
        layer: "attn_norm attn_q attn_k attn_v attn_output attn_q_norm attn_k_norm ffn_norm ffn_gate_inp \
                ffn_gate_exps ffn_up_exps ffn_down_exps",
        tied: false,
        experts: 5,
        seed: 6,
        ..QWEN3
    },
    GEMMA,
    Form {
        architecture: Architecture::Gemma2,
        name: "gemma2",
        layer: "attn_norm attn_q attn_k attn_v attn_output post_attention_norm ffn_norm ffn_gate ffn_up ffn_down \
                post_ffw_norm",
        keys: &[
            ("attn_logit_softcapping", Fixed::F32(1.5)),
            ("final_logit_softcapping", Fixed::F32(1.25)),
            ("attention.sliding_window", Fixed::U32(16)),
        ],
        layers: 3,
        seed: 8,
        ..GEMMA
    },
    Form {
        architecture: Architecture::Gemma3,
        name: "gemma3",
        layer: "attn_norm attn_q attn_k attn_v attn_output attn_q_norm attn_k_norm post_attention_norm ffn_norm \
                ffn_gate ffn_up ffn_down post_ffw_norm",
        keys: &[("attention.sliding_window", Fixed::U32(16))],
        layers: 7,
        rope_base: 1e6,
        seed: 9,
        ..GEMMA
    },
    Form {
        architecture: Architecture::Gemma4,
        name: "gemma4",
        layer: "attn_norm attn_q attn_k:own attn_v:own attn_output attn_q_norm attn_k_norm:own post_attention_norm ffn_norm \
                ffn_gate ffn_up ffn_down post_ffw_norm inp_gate proj post_norm layer_output_scale",
        before: "rope_freqs token_embd per_layer_token_embd per_layer_model_proj per_layer_proj_norm",
        keys: &[
            ("final_logit_softcapping", Fixed::F32(2.0)),
            ("attention.sliding_window", Fixed::U32(16)),
            ("rope.freq_base_swa", Fixed::F32(10000.0)),
        ],
        layers: 6,
        kv_heads: 2,
        rope_base: 1e6,
        seed: 44,
        ..GEMMA
    },
    Form {
        architecture: Architecture::Phi3,
        name: "phi3",
        layer: "attn_norm attn_qkv attn_output ffn_norm ffn_up:double ffn_down",
        rotary_share: 0.75,
        seed: 10,
        ..LLAMA
    },
    GPT2,
    Form {
        architecture: Architecture::Bloom,
        name: "bloom",
        before: "token_embd token_embd_norm+",
        heads: 6,
        kv_heads: 6,
        seed: 12,
        ..GPT2
    },
    Form {
        architecture: Architecture::Mpt,
        name: "mpt",
        layer: "attn_norm attn_qkv attn_output ffn_norm ffn_up ffn_down",
        before: "token_embd",
        after: "output_norm",
        keys: &[("attention.max_alibi_bias", Fixed::F32(8.0)), ("attention.clamp_kqv", Fixed::F32(1.5))],
        seed: 13,
        ..GPT2
    },
    Form {
        architecture: Architecture::GptNeoX,
        name: "gptneox",
        before: "token_embd",
        keys: &[("use_parallel_residual", Fixed::Bool(true))],
        rotary_share: 0.25,
        tied: false,
        seed: 14,
        ..GPT2
    },
    Form {
        architecture: Architecture::Starcoder2,
        name: "starcoder2",
        layer: "attn_norm+ attn_q+ attn_k+ attn_v+ attn_output+ ffn_norm+ ffn_up+ ffn_down+",
        before: "token_embd",
        rotary_share: 1.0,
        kv_heads: 2,
        seed: 15,
        ..GPT2
    },
    Form {
        architecture: Architecture::StableLm,
        name: "stablelm",
        layer: "attn_norm+ attn_q+ attn_k+ attn_v+ attn_output ffn_norm+ ffn_gate ffn_up ffn_down",
        after: "output_norm+",
        eps_key: "attention.layer_norm_epsilon",
        keys: &[("use_parallel_residual", Fixed::Bool(false))],
        rotary_share: 0.25,
        seed: 16,
        ..LLAMA
    },
    Form {
        architecture: Architecture::Olmo2,
        name: "olmo2",
        layer: "attn_q attn_k attn_v attn_output attn_q_norm:whole attn_k_norm:whole post_attention_norm \
                ffn_gate ffn_up ffn_down post_ffw_norm",
        rope_base: 5e5,
        norm_eps: 1e-6,
        seed: 17,
        ..LLAMA
    },
    Form { architecture: Architecture::Ernie45, name: "ernie4_5", head_dim: 24, rope_base: 5e5, seed: 18, ..LLAMA },
    Form {
        architecture: Architecture::Ernie45Moe,
        name: "ernie4_5-moe",
        layer: "attn_norm attn_q attn_k attn_v attn_output ffn_norm ffn_gate_inp exp_probs_b ffn_gate_exps ffn_up_exps \
                ffn_down_exps ffn_gate_shexp ffn_up_shexp ffn_down_shexp",
        first: Some(LLAMA.layer),
        keys: &[("leading_dense_block_count", Fixed::U32(1)), ("interleave_moe_layer_step", Fixed::U32(1))],
        layers: 3,
        experts: 5,
        seed: 19,
        ..LLAMA
    },
    Form {
        architecture: Architecture::Arcee,
        name: "arcee",
        layer: "attn_norm attn_q attn_k attn_v attn_output ffn_norm ffn_up ffn_down",
        seed: 20,
        ..LLAMA
    },
    Form {
        architecture: Architecture::Mistral3,
        name: "mistral3",
        keys: &[
            ("rope.scaling.type", Fixed::Text("yarn")),
            ("rope.scaling.factor", Fixed::F32(4.0)),
            ("rope.scaling.original_context_length", Fixed::U32(16)),
            ("rope.scaling.yarn_log_multiplier", Fixed::F32(1.0)),
            ("attention.temperature_scale", Fixed::F32(0.5)),
        ],
        seed: 21,
        ..LLAMA
    },
    Form { architecture: Architecture::Hunyuan, name: "hunyuan-dense", seed: 22, ..QWEN3 },
    Form {
        architecture: Architecture::Glm4,
        name: "glm4",
        layer: "attn_norm attn_q+ attn_k+ attn_v+ attn_output post_attention_norm ffn_norm ffn_up:double ffn_down \
                post_ffw_norm",
        rotary_share: 0.5,
        seed: 23,
        ..LLAMA
    },
    Form {
        architecture: Architecture::Exaone4,
        name: "exaone4",
        layer: "attn_q attn_k attn_v attn_output attn_q_norm attn_k_norm post_attention_norm ffn_gate ffn_up ffn_down \
                post_ffw_norm",
        seed: 24,
        ..LLAMA
    },
    Form {
        architecture: Architecture::SeedOss,
        name: "seed_oss",
        layer: "attn_norm attn_q+ attn_k+ attn_v+ attn_output post_attention_norm ffn_gate ffn_up ffn_down",
        seed: 25,
        ..LLAMA
    },
    Form {
        architecture: Architecture::GptOss,
        name: "gpt-oss",
        layer: "attn_norm attn_q+ attn_k+ attn_v+ attn_output+ attn_sinks post_attention_norm ffn_gate_inp+ \
                ffn_gate_exps+ ffn_up_exps+ ffn_down_exps+",
        keys: &[
            ("attention.sliding_window", Fixed::U32(16)),
            ("rope.scaling.type", Fixed::Text("yarn")),
            ("rope.scaling.factor", Fixed::F32(4.0)),
            ("rope.scaling.original_context_length", Fixed::U32(256)),
        ],
        layers: 3,
        experts: 5,
        seed: 26,
        ..LLAMA
    },
    Form {
        architecture: Architecture::Qwen2Moe,
        name: "qwen2moe",
        layer: "attn_norm attn_q+ attn_k+ attn_v+ attn_output ffn_norm ffn_gate_inp ffn_gate_exps ffn_up_exps \
                ffn_down_exps ffn_gate_inp_shexp ffn_gate_shexp ffn_up_shexp ffn_down_shexp",
        experts: 6,
        seed: 27,
        ..LLAMA
    },
    Form {
        architecture: Architecture::Olmoe,
        name: "olmoe",
        layer: "attn_norm attn_q attn_k attn_v attn_output attn_q_norm:whole attn_k_norm:whole ffn_norm ffn_gate_inp \
                ffn_gate_exps ffn_up_exps ffn_down_exps",
        experts: 6,
        seed: 28,
        ..LLAMA
    },
    LFM2,
    LFM2_MOE,
    QWEN35,
    QWEN35_MOE,
    GRANITE_HYBRID,
    FALCON_H1,
    NEMOTRON_H,
];
