//! The turn formats.
//!
//! The more special formats come first, because a template gets the first format whose signs it has. The texts are
//! those of the templates that were published with the models.

mod chatml;
mod headers;
mod inst;
mod roles;
mod words;

use super::pieces::{Frame, Trim};
use super::{Signs, System, Turn, TurnFormat};
use chatml::{
    BIELIK, CHATML, CHATML_BOS, HERMES, KIMI_K2, KIMI_K2_THINKING, LFM2, LFM2_5, LFM2_5_A1B, MIMO, MINICPM5, NEMOTRON3,
    PHI4, QWEN2, QWEN2_5, QWEN3, QWEN3_5, QWEN3_5_SMALL, QWEN3_CODER, SMOLLM2, SMOLLM3,
};
use headers::{
    APERTUS, EXAONE4, FUNCTION_GEMMA, GEMMA, GEMMA4, GEMMA4_E, GRANITE, GRANITE_3_1, GRANITE_3_3, GRANITE_4, HARMONY,
    LLAMA3, LLAMA3_1, LLAMA4, NEMOTRON_NANO_V2, SEED_OSS,
};
use inst::{
    LLAMA2, MINISTRAL3_REASONING, MISTRAL_V0, MISTRAL_V1, MISTRAL_V3, MISTRAL_V3_TEKKEN, MISTRAL_V7, MISTRAL_V7_TEKKEN,
};
use roles::{GLM_Z1, GLM4, GLM4_5, GLM4_7, OLMO2, PHI3, PHI4_MINI, SPARK2_5, TULU, ZEPHYR};
use words::{
    DEEPSEEK_CODER, DEEPSEEK_R1, DEEPSEEK_V2, DEEPSEEK_V3, DEEPSEEK_V3_1, ERNIE4_5, HUNYUAN, OPENCHAT, VICUNA,
};

pub(super) const ALL: &[TurnFormat] = &[
    PHI4,
    NEMOTRON3,
    QWEN3_5,
    QWEN3_5_SMALL,
    MINICPM5,
    QWEN3,
    QWEN2_5,
    QWEN3_CODER,
    MIMO,
    HERMES,
    BIELIK,
    SMOLLM3,
    SMOLLM2,
    LFM2_5,
    LFM2_5_A1B,
    LFM2,
    QWEN2,
    CHATML,
    CHATML_BOS,
    KIMI_K2_THINKING,
    KIMI_K2,
    MINISTRAL3_REASONING,
    MISTRAL_V7,
    MISTRAL_V7_TEKKEN,
    MISTRAL_V1,
    MISTRAL_V3,
    MISTRAL_V3_TEKKEN,
    LLAMA2,
    MISTRAL_V0,
    LLAMA3_1,
    LLAMA3,
    LLAMA4,
    APERTUS,
    FUNCTION_GEMMA,
    GEMMA,
    GEMMA4,
    GEMMA4_E,
    HARMONY,
    SEED_OSS,
    EXAONE4,
    NEMOTRON_NANO_V2,
    GLM4_7,
    GLM4_5,
    GLM_Z1,
    GLM4,
    SPARK2_5,
    PHI4_MINI,
    PHI3,
    GRANITE_4,
    GRANITE_3_3,
    GRANITE_3_1,
    GRANITE,
    DEEPSEEK_V3_1,
    DEEPSEEK_R1,
    DEEPSEEK_V3,
    DEEPSEEK_V2,
    DEEPSEEK_CODER,
    HUNYUAN,
    ERNIE4_5,
    OLMO2,
    TULU,
    ZEPHYR,
    OPENCHAT,
    VICUNA,
];

/// Fields that most formats have in common.
const PLAIN: TurnFormat = TurnFormat {
    name: "",
    signs: Signs { all: &[], none: &[], tokens: &[] },
    start: "",
    system: system(turn("", Trim::Nothing, "")),
    user: turn("", Trim::Nothing, ""),
    assistant: turn("", Trim::Nothing, ""),
    between: "",
    reply: "",
    end: "",
    stops: &[],
};

const fn signs(all: &'static [&'static str]) -> Signs {
    Signs { all, none: &[], tokens: &[] }
}

const fn turn(before: Frame, trim: Trim, after: Frame) -> Turn {
    Turn { before, trim, after }
}

/// Returns a turn that leaves the text as it is.
const fn plain(before: Frame, after: Frame) -> Turn {
    turn(before, Trim::Nothing, after)
}

/// Returns a system message that is a turn of its own.
const fn system(turn: Turn) -> System {
    System { turn, user: None, default: None, default_after: turn.after, skips_empty: false }
}

/// Returns a system message that is a turn of its own, with the default message of the template.
const fn system_or(turn: Turn, default: &'static str) -> System {
    System { default: Some(default), ..system(turn) }
}

/// Returns a system message at the beginning of the user's turn that follows it.
const fn joined(turn: Turn, user: Turn) -> System {
    System { user: Some(user), ..system(turn) }
}
