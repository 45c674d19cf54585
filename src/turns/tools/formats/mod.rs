//! The formats of tools.
//!
//! The texts are those of the templates that were published with the models. The more special formats come first. There
//! is no clock here: default messages are without today's date.

mod chatml;
mod deepseek;
mod others;

use super::list::List;
use super::{Body, Offer, Results, ToolFormat};
use crate::tools::CallFormat;
use chatml::{
    BIELIK, EXAONE4, GRANITE_4, GRANITE_4_1, HERMES, HERMES_PRO, LFM2, LFM2_5, LFM2_5_A1B, MINICPM5, NEMOTRON3,
    QWEN2_5, QWEN3, QWEN3_5, QWEN3_CODER, SMOLLM3,
};
use deepseek::{DEEPSEEK_R1, DEEPSEEK_V3_1};
use others::{
    APERTUS, FUNCTION_GEMMA, GEMMA4, GLM4_5, GLM4_7, GRANITE_3, GRANITE_3_3, HARMONY, KIMI_K2, LLAMA3_1, MISTRAL_V3,
    MISTRAL_V3_TEKKEN, MISTRAL_V7, MISTRAL_V11, MISTRAL_V13, NEMOTRON_NANO_V2, PHI4_MINI, SEED_OSS, SPARK2_5,
};

pub(super) const ALL: &[ToolFormat] = &[
    QWEN2_5,
    QWEN3,
    QWEN3_5,
    QWEN3_CODER,
    BIELIK,
    GRANITE_4,
    GRANITE_4_1,
    GRANITE_3,
    GRANITE_3_3,
    LLAMA3_1,
    MISTRAL_V3,
    MISTRAL_V3_TEKKEN,
    MISTRAL_V11,
    MISTRAL_V13,
    MISTRAL_V7,
    LFM2,
    LFM2_5,
    LFM2_5_A1B,
    GEMMA4,
    FUNCTION_GEMMA,
    HARMONY,
    KIMI_K2,
    GLM4_5,
    GLM4_7,
    EXAONE4,
    NEMOTRON_NANO_V2,
    PHI4_MINI,
    SPARK2_5,
    NEMOTRON3,
    DEEPSEEK_R1,
    DEEPSEEK_V3_1,
    SMOLLM3,
    HERMES,
    HERMES_PRO,
    SEED_OSS,
    MINICPM5,
    APERTUS,
];

/// Fields that most formats have in common.
const PLAIN: ToolFormat = ToolFormat {
    name: "",
    turns: &[],
    signs: &[],
    none: &[],
    calls: CallFormat::Hermes,
    offer: Offer::AfterSystem,
    start: None,
    before_system: None,
    after_system: None,
    default: None,
    before: "",
    list: List::Array,
    after: "",
    joint: "",
    lone: "",
    is_tight: false,
    open_calls: None,
    close_calls: "",
    results: Results {
        close_call: None,
        open: "",
        between: "",
        body: Body::Plain("", ""),
        close: "",
        is_inside: false,
        again: "",
        is_unmarked: false,
    },
};
