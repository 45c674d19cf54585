//! More rows of the table.

use super::architectures::{Architecture, Fixed, Form};
use super::forms::{GPT2, LLAMA, QWEN3};
use super::recurrent::{NEMOTRON_H, state_keys};

const EXPERTS: &str = "attn_norm attn_q attn_k attn_v attn_output ffn_norm ffn_gate_inp ffn_gate_exps ffn_up_exps \
     ffn_down_exps ffn_gate_shexp ffn_up_shexp ffn_down_shexp";

const COMMAND_R: Form = Form {
    architecture: Architecture::CommandR,
    name: "command-r",
    layer: "attn_norm attn_q attn_k attn_v attn_output ffn_gate ffn_up ffn_down",
    eps_key: "attention.layer_norm_epsilon",
    keys: &[("logit_scale", Fixed::F32(0.25))],
    tied: true,
    seed: 57,
    ..LLAMA
};

pub const FORMS: [Form; 28] = [
    Form {
        architecture: Architecture::NemotronHMoe,
        name: "nemotron_h_moe",
        others: &[
            NEMOTRON_H.others[0],
            "attn_norm ffn_gate_inp exp_probs_b ffn_up_exps ffn_down_exps ffn_up_shexp ffn_down_shexp",
        ],
        keys: state_keys!(
            2,
            ("expert_weights_norm", Fixed::Bool(true)),
            ("expert_weights_scale", Fixed::F32(2.5)),
            ("expert_group_count", Fixed::U32(1))
        ),
        experts: 5,
        seed: 51,
        ..NEMOTRON_H
    },
    Form { architecture: Architecture::Exaone, name: "exaone", seed: 52, ..LLAMA },
    Form { architecture: Architecture::InternLm2, name: "internlm2", seed: 53, ..LLAMA },
    Form { architecture: Architecture::Xverse, name: "xverse", seed: 54, ..LLAMA },
    Form { architecture: Architecture::MiniCpm, name: "minicpm", seed: 55, ..LLAMA },
    Form {
        architecture: Architecture::GraniteMoe,
        name: "granitemoe",
        layer: EXPERTS,
        keys: &[
            ("embedding_scale", Fixed::F32(6.0)),
            ("residual_scale", Fixed::F32(0.5)),
            ("attention.scale", Fixed::F32(0.375)),
            ("logit_scale", Fixed::F32(2.0)),
        ],
        experts: 5,
        seed: 56,
        ..LLAMA
    },
    COMMAND_R,
    Form {
        architecture: Architecture::Cohere2,
        name: "cohere2",
        keys: &[("logit_scale", Fixed::F32(0.25)), ("attention.sliding_window", Fixed::U32(16))],
        layers: 5,
        seed: 58,
        ..COMMAND_R
    },
    Form {
        architecture: Architecture::Nemotron,
        name: "nemotron",
        layer: "attn_norm+ attn_q attn_k attn_v attn_output ffn_norm+ ffn_up ffn_down",
        after: "output_norm+",
        eps_key: "attention.layer_norm_epsilon",
        rotary_share: 0.5,
        seed: 59,
        ..LLAMA
    },
    Form {
        architecture: Architecture::Orion,
        name: "orion",
        layer: "attn_norm+ attn_q attn_k attn_v attn_output ffn_norm+ ffn_gate ffn_up ffn_down",
        after: "output_norm+",
        eps_key: "attention.layer_norm_epsilon",
        seed: 60,
        ..LLAMA
    },
    Form {
        architecture: Architecture::ChatGlm,
        name: "chatglm",
        layer: "attn_norm attn_qkv+ attn_output ffn_norm ffn_up:double ffn_down",
        rotary_share: 0.5,
        seed: 61,
        ..LLAMA
    },
    Form { architecture: Architecture::Maincoder, name: "maincoder", seed: 62, ..QWEN3 },
    Form {
        architecture: Architecture::Pangu,
        name: "pangu-embedded",
        layer: "attn_norm attn_q+ attn_k+ attn_v+ attn_output+ ffn_norm ffn_gate ffn_up ffn_down",
        seed: 63,
        ..LLAMA
    },
    Form { architecture: Architecture::Starcoder, name: "starcoder", kv_heads: 1, seed: 64, ..GPT2 },
    Form {
        architecture: Architecture::Qwen2Vl,
        name: "qwen2vl",
        layer: "attn_norm attn_q+ attn_k+ attn_v+ attn_output ffn_norm ffn_gate ffn_up ffn_down",
        seed: 65,
        ..LLAMA
    },
    Form { architecture: Architecture::Qwen3Vl, name: "qwen3vl", seed: 66, ..QWEN3 },
    Form {
        architecture: Architecture::Qwen3VlMoe,
        name: "qwen3vlmoe",
        layer: "attn_norm attn_q attn_k attn_v attn_output attn_q_norm attn_k_norm ffn_norm ffn_gate_inp \
                ffn_gate_exps ffn_up_exps ffn_down_exps",
        experts: 5,
        seed: 67,
        ..QWEN3
    },
    Form {
        architecture: Architecture::BailingMoe,
        name: "bailingmoe",
        layer: EXPERTS,
        keys: &[
            ("expert_shared_count", Fixed::U32(2)),
            ("expert_weights_norm", Fixed::Bool(true)),
            ("expert_weights_scale", Fixed::F32(1.5)),
        ],
        experts: 6,
        seed: 68,
        ..LLAMA
    },
    Form {
        architecture: Architecture::BailingMoe2,
        name: "bailingmoe2",
        layer: "attn_norm attn_qkv attn_output attn_q_norm attn_k_norm ffn_norm ffn_gate_inp exp_probs_b ffn_gate_exps \
                ffn_up_exps ffn_down_exps ffn_gate_shexp ffn_up_shexp ffn_down_shexp",
        first: Some("attn_norm attn_qkv attn_output attn_q_norm attn_k_norm ffn_norm ffn_gate ffn_up ffn_down"),
        keys: &[
            ("expert_shared_count", Fixed::U32(2)),
            ("leading_dense_block_count", Fixed::U32(1)),
            ("expert_group_count", Fixed::U32(4)),
            ("expert_group_used_count", Fixed::U32(2)),
            ("expert_gating_func", Fixed::U32(2)),
            ("expert_weights_norm", Fixed::Bool(true)),
            ("expert_weights_scale", Fixed::F32(2.5)),
        ],
        rotary_share: 0.5,
        layers: 3,
        experts: 12,
        seed: 76,
        ..LLAMA
    },
    Form {
        architecture: Architecture::Afmoe,
        name: "afmoe",
        layer: "attn_norm attn_q attn_k attn_v attn_gate:elements attn_output attn_q_norm attn_k_norm \
                post_attention_norm ffn_norm ffn_gate_inp exp_probs_b ffn_gate_exps ffn_up_exps ffn_down_exps \
                ffn_gate_shexp ffn_up_shexp ffn_down_shexp post_ffw_norm",
        first: Some(
            "attn_norm attn_q attn_k attn_v attn_gate:elements attn_output attn_q_norm attn_k_norm \
             post_attention_norm ffn_norm ffn_gate ffn_up ffn_down post_ffw_norm",
        ),
        keys: &[
            ("attention.sliding_window", Fixed::U32(16)),
            ("expert_shared_count", Fixed::U32(2)),
            ("leading_dense_block_count", Fixed::U32(1)),
            ("expert_weights_norm", Fixed::Bool(true)),
            ("expert_weights_scale", Fixed::F32(2.5)),
        ],
        layers: 5,
        experts: 6,
        seed: 77,
        ..LLAMA
    },
    Form {
        architecture: Architecture::GraniteSwa,
        name: "granite_swa",
        layer: "attn_norm attn_q attn_k attn_v attn_sinks attn_output ffn_norm ffn_gate ffn_up ffn_down",
        keys: &[
            ("embedding_scale", Fixed::F32(6.0)),
            ("residual_scale", Fixed::F32(0.5)),
            ("attention.scale", Fixed::F32(0.375)),
            ("logit_scale", Fixed::F32(2.0)),
            ("attention.sliding_window", Fixed::U32(16)),
            ("attention.sliding_window_pattern", Fixed::U32(3)),
        ],
        layers: 4,
        seed: 78,
        ..LLAMA
    },
    Form {
        architecture: Architecture::DeepSeek,
        name: "deepseek",
        layer: EXPERTS,
        first: Some(LLAMA.layer),
        keys: &[
            ("expert_shared_count", Fixed::U32(2)),
            ("leading_dense_block_count", Fixed::U32(1)),
            ("expert_weights_scale", Fixed::F32(1.0)),
        ],
        layers: 3,
        experts: 6,
        seed: 69,
        ..LLAMA
    },
    Form {
        architecture: Architecture::Dots1,
        name: "dots1",
        layer: "attn_norm attn_q attn_k attn_v attn_output attn_q_norm attn_k_norm ffn_norm ffn_gate_inp exp_probs_b \
                ffn_gate_exps ffn_up_exps ffn_down_exps ffn_gate_shexp ffn_up_shexp ffn_down_shexp",
        first: Some(QWEN3.layer),
        keys: &[
            ("expert_shared_count", Fixed::U32(2)),
            ("leading_dense_block_count", Fixed::U32(1)),
            ("expert_gating_func", Fixed::U32(2)),
            ("expert_weights_norm", Fixed::Bool(true)),
            ("expert_weights_scale", Fixed::F32(2.5)),
        ],
        layers: 3,
        experts: 6,
        seed: 70,
        ..LLAMA
    },
    Form {
        architecture: Architecture::Glm4Moe,
        name: "glm4moe",
        layer: "attn_norm attn_q+ attn_k+ attn_v+ attn_output attn_q_norm attn_k_norm post_attention_norm ffn_gate_inp \
                exp_probs_b ffn_gate_exps ffn_up_exps ffn_down_exps ffn_gate_shexp ffn_up_shexp ffn_down_shexp",
        first: Some(
            "attn_norm attn_q+ attn_k+ attn_v+ attn_output attn_q_norm attn_k_norm post_attention_norm ffn_gate ffn_up \
             ffn_down",
        ),
        keys: &[
            ("expert_shared_count", Fixed::U32(2)),
            ("leading_dense_block_count", Fixed::U32(1)),
            ("expert_weights_norm", Fixed::Bool(true)),
            ("expert_weights_scale", Fixed::F32(1.5)),
        ],
        rotary_share: 0.5,
        layers: 3,
        experts: 6,
        seed: 71,
        ..LLAMA
    },
    Form {
        architecture: Architecture::HunyuanMoe,
        name: "hunyuan-moe",
        layer: "attn_norm attn_q attn_k attn_v attn_output attn_q_norm attn_k_norm ffn_norm ffn_gate_inp ffn_gate_exps \
                ffn_up_exps ffn_down_exps ffn_gate_shexp ffn_up_shexp ffn_down_shexp",
        experts: 5,
        seed: 72,
        ..QWEN3
    },
    Form {
        architecture: Architecture::Mellum,
        name: "mellum",
        layer: "attn_norm attn_q attn_k attn_v attn_output attn_q_norm attn_k_norm ffn_norm ffn_gate_inp ffn_gate_exps \
                ffn_up_exps ffn_down_exps",
        keys: &[
            ("attention.sliding_window", Fixed::U32(16)),
            ("rope.freq_base_swa", Fixed::F32(5000.0)),
            ("rope.scaling.type", Fixed::Text("yarn")),
            ("rope.scaling.factor", Fixed::F32(4.0)),
            ("rope.scaling.original_context_length", Fixed::U32(256)),
        ],
        layers: 5,
        experts: 5,
        seed: 73,
        ..QWEN3
    },
    Form {
        architecture: Architecture::Apertus,
        name: "apertus",
        layer: "attn_norm attn_q attn_k attn_v attn_output attn_q_norm attn_k_norm ffn_norm ffn_up ffn_down",
        tied: false,
        layers: 3,
        seed: 74,
        ..QWEN3
    },
    Form {
        architecture: Architecture::Spark,
        name: "spark2_5",
        layer: "attn_norm attn_qkv attn_gate:heads attn_output ffn_norm ffn_gate ffn_up ffn_down",
        keys: &[
            ("attention.sliding_window", Fixed::U32(16)),
            ("attention.sliding_window_pattern", Fixed::U32(2)),
            ("rope.freq_base_swa", Fixed::F32(5000.0)),
        ],
        rotary_share: 0.5,
        layers: 3,
        seed: 75,
        ..LLAMA
    },
];
