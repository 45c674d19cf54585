//! ChatML, `<|im_start|>user\n...<|im_end|>\n`, and what is like it.

use super::{Bos, F, PLAIN, plain, signs, system, system_or};
use crate::turns::pieces::Trim;
use crate::turns::{Signs, System, Turn, TurnFormat};

const IM_SYSTEM: Turn = plain(&[F("<|im_start|>system\n")], &[F("<|im_end|>\n")]);

/// Yi, Hermes, OpenHermes, Dolphin, SmolLM, MPT, StableLM 2 and many others; SmolLM3 but for its system turn.
pub(super) const CHATML: TurnFormat = TurnFormat {
    name: "chatml",
    signs: Signs { tokens: &["<|im_start|>", "<|im_end|>"], ..signs(&["<|im_start|>"]) },
    system: system(IM_SYSTEM),
    user: plain(&[F("<|im_start|>user\n")], &[F("<|im_end|>\n")]),
    assistant: plain(&[F("<|im_start|>assistant\n")], &[F("<|im_end|>\n")]),
    reply: &[F("<|im_start|>assistant\n")],
    stops: &["<|im_end|>"],
    ..PLAIN
};

pub(super) const QWEN2: TurnFormat = TurnFormat {
    name: "qwen2",
    signs: signs(&["<|im_start|>", "system\\nYou are a helpful assistant."]),
    system: system_or(IM_SYSTEM, "You are a helpful assistant."),
    ..CHATML
};

pub(super) const QWEN2_5: TurnFormat = TurnFormat {
    name: "qwen2.5",
    signs: signs(&["<|im_start|>", "You are Qwen, created by Alibaba Cloud. You are a helpful assistant."]),
    system: system_or(IM_SYSTEM, "You are Qwen, created by Alibaba Cloud. You are a helpful assistant."),
    ..CHATML
};

/// Thoughts of earlier replies are left out.
pub(super) const QWEN3: TurnFormat = TurnFormat {
    name: "qwen3",
    signs: signs(&["<|im_start|>", "reasoning_content", "</think>"]),
    assistant: Turn { trim: Trim::ThoughtAndLines, ..CHATML.assistant },
    ..CHATML
};

pub(super) const SMOLLM2: TurnFormat = TurnFormat {
    name: "smollm2",
    signs: Signs {
        none: &["Reasoning Mode"],
        ..signs(&["<|im_start|>", "You are a helpful AI assistant named SmolLM, trained by Hugging Face"])
    },
    system: system_or(IM_SYSTEM, "You are a helpful AI assistant named SmolLM, trained by Hugging Face"),
    ..CHATML
};

pub(super) const PHI4: TurnFormat = TurnFormat {
    name: "phi4",
    signs: Signs { tokens: &["<|im_start|>", "<|im_sep|>", "<|im_end|>"], ..signs(&["<|im_start|>", "<|im_sep|>"]) },
    system: system(plain(&[F("<|im_start|>system<|im_sep|>")], &[F("<|im_end|>")])),
    user: plain(&[F("<|im_start|>user<|im_sep|>")], &[F("<|im_end|>")]),
    assistant: plain(&[F("<|im_start|>assistant<|im_sep|>")], &[F("<|im_end|>")]),
    reply: &[F("<|im_start|>assistant<|im_sep|>")],
    stops: &["<|im_end|>"],
    ..PLAIN
};

/// LFM2.
pub(super) const LFM2: TurnFormat = TurnFormat {
    name: "lfm2",
    signs: Signs {
        tokens: &["<|im_start|>", "<|tool_list_start|>"],
        ..signs(&["<|im_start|>", "<|tool_list_start|>"])
    },
    start: &[Bos],
    system: System { skips_empty: true, ..system(IM_SYSTEM) },
    ..CHATML
};

/// LFM2.5. Thoughts stay; the template leaves out those of all replies but the last one.
pub(super) const LFM2_5: TurnFormat =
    TurnFormat { name: "lfm2.5", signs: signs(&["<|im_start|>", "bos_token", "keep_past_thinking"]), ..LFM2 };

/// LFM2.5 8B A1B. Thoughts of earlier replies are left out.
pub(super) const LFM2_5_A1B: TurnFormat = TurnFormat {
    name: "lfm2.5-a1b",
    signs: signs(&["<|im_start|>", "bos_token", "preserve_thinking", "message.thinking"]),
    assistant: Turn { trim: Trim::ThoughtAndEndsAfter, ..CHATML.assistant },
    ..LFM2_5
};

/// Qwen3.5, thinking. The thought is opened for the model; thoughts of earlier replies are left out.
pub(super) const QWEN3_5: TurnFormat = TurnFormat {
    name: "qwen3.5",
    signs: signs(&["<|im_start|>", "render_content", "reasoning_content", "enable_thinking is false"]),
    system: system(Turn { trim: Trim::Ends, ..IM_SYSTEM }),
    user: Turn { trim: Trim::Ends, ..CHATML.user },
    assistant: Turn { trim: Trim::ThoughtAndEnds, ..CHATML.assistant },
    reply: &[F("<|im_start|>assistant\n<think>\n")],
    ..CHATML
};

/// Qwen3.5, the models whose template does not think unless it is told to: an empty thought is written for the model.
pub(super) const QWEN3_5_SMALL: TurnFormat = TurnFormat {
    name: "qwen3.5-small",
    signs: signs(&["<|im_start|>", "render_content", "reasoning_content", "enable_thinking is true"]),
    reply: &[F("<|im_start|>assistant\n<think>\n\n</think>\n\n")],
    ..QWEN3_5
};

/// Nemotron 3, thinking. The thought is opened for the model; thoughts of earlier replies are left out, which then begin
/// with an empty one.
pub(super) const NEMOTRON3: TurnFormat = TurnFormat {
    name: "nemotron3",
    signs: signs(&["<|im_start|>", "truncate_history_thinking"]),
    system: system_or(IM_SYSTEM, ""),
    assistant: Turn {
        before: &[F("<|im_start|>assistant\n<think></think>")],
        trim: Trim::ThoughtAndEnd,
        ..CHATML.assistant
    },
    reply: &[F("<|im_start|>assistant\n<think>\n")],
    ..CHATML
};

const KIMI_SYSTEM: Turn = plain(&[F("<|im_system|>system<|im_middle|>")], &[F("<|im_end|>")]);

/// Kimi K2.
pub(super) const KIMI_K2: TurnFormat = TurnFormat {
    name: "kimi-k2",
    signs: Signs {
        tokens: &["<|im_user|>", "<|im_assistant|>", "<|im_middle|>"],
        ..signs(&["<|im_middle|>", "You are Kimi, an AI assistant created by Moonshot AI."])
    },
    system: System {
        default_after: &[F("<|im_end|>\n")],
        ..system_or(KIMI_SYSTEM, "You are Kimi, an AI assistant created by Moonshot AI.")
    },
    user: plain(&[F("<|im_user|>user<|im_middle|>")], &[F("<|im_end|>")]),
    assistant: plain(&[F("<|im_assistant|>assistant<|im_middle|>")], &[F("<|im_end|>")]),
    reply: &[F("<|im_assistant|>assistant<|im_middle|>")],
    stops: &["<|im_end|>"],
    ..PLAIN
};

/// Kimi K2 Thinking. Earlier replies begin with an empty thought.
pub(super) const KIMI_K2_THINKING: TurnFormat = TurnFormat {
    name: "kimi-k2-thinking",
    signs: signs(&["<|im_middle|>", "You are Kimi, an AI assistant created by Moonshot AI.", "<think></think>"]),
    system: system_or(KIMI_SYSTEM, "You are Kimi, an AI assistant created by Moonshot AI."),
    assistant: plain(&[F("<|im_assistant|>assistant<|im_middle|><think></think>")], &[F("<|im_end|>")]),
    ..KIMI_K2
};
