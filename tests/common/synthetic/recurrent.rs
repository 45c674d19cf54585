//! Rows of the table for architectures whose layers keep a state.

use super::architectures::{Architecture, Fixed, Form};
use super::forms::LLAMA;

/// The keys of states that are a matrix for each of four heads, in `$groups` groups, after other keys.
macro_rules! state_keys {
    ($groups:literal $(, $key:expr)*) => {
        &[
            $($key,)*
            ("ssm.conv_kernel", Fixed::U32(4)),
            ("ssm.state_size", Fixed::U32(12)),
            ("ssm.group_count", Fixed::U32($groups)),
            ("ssm.time_step_rank", Fixed::U32(4)),
            ("ssm.inner_size", Fixed::U32(64)),
        ]
    };
}

pub(super) use state_keys;

pub const LFM2: Form = Form {
    architecture: Architecture::Lfm2,
    name: "lfm2",
    layer: "attn_norm attn_q attn_k attn_v attn_output attn_q_norm attn_k_norm ffn_norm ffn_gate ffn_up ffn_down",
    others: &["attn_norm shortconv.in_proj shortconv.conv shortconv.out_proj ffn_norm ffn_gate ffn_up ffn_down"],
    before: "token_embd token_embd_norm",
    after: "",
    keys: &[("shortconv.l_cache", Fixed::U32(3))],
    layers: 3,
    tied: true,
    seed: 40,
    ..LLAMA
};
/// The first layer is dense.
pub const LFM2_MOE: Form = Form {
    architecture: Architecture::Lfm2Moe,
    name: "lfm2moe",
    layer: "attn_norm attn_q attn_k attn_v attn_output attn_q_norm attn_k_norm ffn_norm ffn_gate_inp exp_probs_b \
            ffn_gate_exps ffn_up_exps ffn_down_exps",
    first: Some(LFM2.others[0]),
    others: &["attn_norm shortconv.in_proj shortconv.conv shortconv.out_proj ffn_norm ffn_gate_inp exp_probs_b \
               ffn_gate_exps ffn_up_exps ffn_down_exps"],
    keys: &[("shortconv.l_cache", Fixed::U32(3)), ("leading_dense_block_count", Fixed::U32(1))],
    experts: 7,
    seed: 45,
    ..LFM2
};
pub const QWEN35: Form = Form {
    architecture: Architecture::Qwen35,
    name: "qwen35",
    layer: "attn_norm attn_q:gated attn_k attn_v attn_output attn_q_norm attn_k_norm post_attention_norm ffn_gate \
            ffn_up ffn_down",
    others: &[
        "attn_norm attn_qkv:delta attn_gate ssm_alpha ssm_beta ssm_conv1d ssm_dt= ssm_a= ssm_norm:value ssm_out \
               post_attention_norm ffn_gate ffn_up ffn_down",
    ],
    keys: state_keys!(2, ("full_attention_interval", Fixed::U32(2))),
    rotary_share: 0.5,
    layers: 3,
    seed: 41,
    ..LLAMA
};
pub const QWEN35_MOE: Form = Form {
    architecture: Architecture::Qwen35Moe,
    name: "qwen35moe",
    layer: "attn_norm attn_q:gated attn_k attn_v attn_output attn_q_norm attn_k_norm post_attention_norm ffn_gate_inp \
            ffn_gate_exps ffn_up_exps ffn_down_exps ffn_gate_inp_shexp ffn_gate_shexp ffn_up_shexp ffn_down_shexp",
    others: &[
        "attn_norm attn_qkv:delta attn_gate ssm_alpha ssm_beta ssm_conv1d ssm_dt= ssm_a= ssm_norm:value ssm_out \
               post_attention_norm ffn_gate_inp ffn_gate_exps ffn_up_exps ffn_down_exps ffn_gate_inp_shexp \
               ffn_gate_shexp ffn_up_shexp ffn_down_shexp",
    ],
    experts: 6,
    seed: 46,
    ..QWEN35
};
pub const GRANITE_HYBRID: Form = Form {
    architecture: Architecture::GraniteHybrid,
    name: "granitehybrid",
    others: &[
        "attn_norm ssm_in ssm_conv1d+ ssm_dt= ssm_a:head= ssm_d:head= ssm_norm:groups ssm_out ffn_norm ffn_gate \
               ffn_up ffn_down",
    ],
    keys: state_keys!(
        2,
        ("embedding_scale", Fixed::F32(2.5)),
        ("residual_scale", Fixed::F32(0.5)),
        ("logit_scale", Fixed::F32(2.0)),
        ("rope.scaling.finetuned", Fixed::Bool(false))
    ),
    layers: 3,
    seed: 42,
    ..LLAMA
};
pub const FALCON_H1: Form = Form {
    architecture: Architecture::FalconH1,
    name: "falcon-h1",
    layer: "attn_norm attn_q attn_k attn_v attn_output ssm_in ssm_conv1d+ ssm_dt= ssm_a:head= ssm_d:head= ssm_out \
            ffn_norm= ffn_gate ffn_up ffn_down",
    keys: state_keys!(1),
    seed: 43,
    ..LLAMA
};
/// Each layer has one of three parts, with one norm.
pub const NEMOTRON_H: Form = Form {
    architecture: Architecture::NemotronH,
    name: "nemotron_h",
    layer: "attn_norm attn_q attn_k attn_v attn_output",
    others: &[
        "attn_norm ssm_in ssm_conv1d+ ssm_dt= ssm_a:head= ssm_d:head= ssm_norm:groups ssm_out",
        "attn_norm ffn_up ffn_down",
    ],
    // The key that its converters write.
    eps_key: "attention.layer_norm_epsilon",
    keys: state_keys!(2),
    rotary_share: 0.0,
    layers: 5,
    seed: 47,
    ..LLAMA
};
