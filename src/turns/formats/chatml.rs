//! ChatML, `<|im_start|>user\n...<|im_end|>\n`, and similar formats.

use super::{PLAIN, plain, signs, system, system_or, turn};
use crate::turns::pieces::Trim;
use crate::turns::{Signs, System, Turn, TurnFormat};

const IM_SYSTEM: Turn = plain("<|im_start|>system\n", "<|im_end|>\n");

/// Yi, OpenHermes, Dolphin, SmolLM, MPT, StableLM 2 and many others. A template with a default message of its own has
/// another format.
pub(super) const CHATML: TurnFormat = TurnFormat {
    name: "chatml",
    signs: Signs {
        tokens: &["<|im_start|>", "<|im_end|>"],
        none: &["<|im_start|>system\\nYou are", "<|im_start|>system\nYou are", "system_message = 'You are"],
        ..signs(&["<|im_start|>"])
    },
    system: system(IM_SYSTEM),
    user: plain("<|im_start|>user\n", "<|im_end|>\n"),
    assistant: plain("<|im_start|>assistant\n", "<|im_end|>\n"),
    reply: "<|im_start|>assistant\n",
    stops: &["<|im_end|>"],
    ..PLAIN
};

/// ChatML after BOS: InternLM 2 and 2.5, Bielik 2 and others.
pub(super) const CHATML_BOS: TurnFormat = TurnFormat {
    name: "chatml-bos",
    signs: Signs { none: CHATML.signs.none, ..signs(&["<|im_start|>", "bos_token"]) },
    start: bos!(),
    ..CHATML
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

/// Qwen3-Coder.
pub(super) const QWEN3_CODER: TurnFormat = TurnFormat {
    name: "qwen3-coder",
    signs: signs(&[
        "<|im_start|>",
        "You are Qwen, a helpful AI assistant that can interact with a computer to solve tasks.",
    ]),
    ..CHATML
};

/// MiMo-VL.
pub(super) const MIMO: TurnFormat = TurnFormat {
    name: "mimo",
    signs: signs(&["<|im_start|>", "You are MiMo, an AI assistant developed by Xiaomi."]),
    system: system_or(IM_SYSTEM, "You are MiMo, an AI assistant developed by Xiaomi."),
    ..CHATML
};

/// Hermes 2 Pro and 3.
pub(super) const HERMES: TurnFormat = TurnFormat {
    name: "hermes",
    signs: signs(&["<|im_start|>", "bos_token", "You are a function calling AI model."]),
    start: bos!(),
    ..CHATML
};

/// Bielik 3. Thoughts of earlier replies stay.
pub(super) const BIELIK: TurnFormat = TurnFormat {
    name: "bielik",
    signs: signs(&["<|im_start|>", "bos_token", "<|function_list|>"]),
    start: bos!(),
    system: System { skips_empty: true, ..system(IM_SYSTEM) },
    assistant: Turn { trim: Trim::Start, ..CHATML.assistant },
    ..CHATML
};

/// MiniCPM 5. Thoughts of earlier replies are left out.
pub(super) const MINICPM5: TurnFormat = TurnFormat {
    name: "minicpm5",
    signs: signs(&["<|im_start|>", "bos_token", "reasoning_content", "<param name="]),
    start: bos!(),
    ..QWEN3
};

/// SmolLM3, thinking, without today's date.
pub(super) const SMOLLM3: TurnFormat = TurnFormat {
    name: "smollm3",
    signs: signs(&["<|im_start|>", "Reasoning Mode: ", "named SmolLM"]),
    system: System {
        skips_empty: true,
        ..system_or(
            turn(
                concat!(
                    "<|im_start|>system\n## Metadata\n\nKnowledge Cutoff Date: June 2025\nReasoning Mode: /think\n\n",
                    "## Custom Instructions\n\n"
                ),
                Trim::End,
                "\n\n<|im_end|>\n",
            ),
            "You are a helpful AI assistant named SmolLM, trained by Hugging Face. Your role as an assistant involves \
             thoroughly exploring questions through a systematic thinking process before providing the final precise and \
             accurate solutions. This requires engaging in a comprehensive cycle of analysis, summarizing, exploration, \
             reassessment, reflection, backtracking, and iteration to develop well-considered thinking process. Please \
             structure your response into two main sections: Thought and Solution using the specified format: <think> \
             Thought section </think> Solution section. In the Thought section, detail your reasoning process in steps. \
             Each step should include detailed considerations such as analysing questions, summarizing relevant findings, \
             brainstorming new ideas, verifying the accuracy of the current steps, refining any errors, and revisiting \
             previous steps. In the Solution section, based on various attempts, explorations, and reflections from the \
             Thought section, systematically present the final solution that you deem correct. The Solution section should \
             be logical, accurate, and concise and detail necessary steps needed to reach the conclusion.",
        )
    },
    assistant: Turn { trim: Trim::Lines, ..CHATML.assistant },
    ..CHATML
};

/// Qwen3. Thoughts of earlier replies are left out.
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
    system: system(plain("<|im_start|>system<|im_sep|>", "<|im_end|>")),
    user: plain("<|im_start|>user<|im_sep|>", "<|im_end|>"),
    assistant: plain("<|im_start|>assistant<|im_sep|>", "<|im_end|>"),
    reply: "<|im_start|>assistant<|im_sep|>",
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
    start: bos!(),
    system: System { skips_empty: true, ..system(IM_SYSTEM) },
    ..CHATML
};

/// LFM2.5. Thoughts of all replies stay here, but the template keeps only those of the last reply.
pub(super) const LFM2_5: TurnFormat =
    TurnFormat { name: "lfm2.5", signs: signs(&["<|im_start|>", "bos_token", "keep_past_thinking"]), ..LFM2 };

/// LFM2.5 8B A1B. Thoughts of earlier replies are left out.
pub(super) const LFM2_5_A1B: TurnFormat = TurnFormat {
    name: "lfm2.5-a1b",
    signs: signs(&["<|im_start|>", "bos_token", "preserve_thinking", "message.thinking"]),
    assistant: Turn { trim: Trim::ThoughtAndEndsAfter, ..CHATML.assistant },
    ..LFM2_5
};

/// Qwen3.5, thinking. The thought is opened for the model. Thoughts of earlier replies are left out.
pub(super) const QWEN3_5: TurnFormat = TurnFormat {
    name: "qwen3.5",
    signs: signs(&["<|im_start|>", "render_content", "reasoning_content", "enable_thinking is false"]),
    system: system(Turn { trim: Trim::Ends, ..IM_SYSTEM }),
    user: Turn { trim: Trim::Ends, ..CHATML.user },
    assistant: Turn { trim: Trim::ThoughtAndEnds, ..CHATML.assistant },
    reply: "<|im_start|>assistant\n<think>\n",
    ..CHATML
};

/// Qwen3.5 models whose template thinks only on request. An empty thought is written for the model.
pub(super) const QWEN3_5_SMALL: TurnFormat = TurnFormat {
    name: "qwen3.5-small",
    signs: signs(&["<|im_start|>", "render_content", "reasoning_content", "enable_thinking is true"]),
    reply: "<|im_start|>assistant\n<think>\n\n</think>\n\n",
    ..QWEN3_5
};

/// Nemotron 3, thinking. The thought is opened for the model. Earlier replies begin with an empty thought in place of
/// their own.
pub(super) const NEMOTRON3: TurnFormat = TurnFormat {
    name: "nemotron3",
    signs: signs(&["<|im_start|>", "truncate_history_thinking"]),
    system: system_or(IM_SYSTEM, ""),
    assistant: Turn { before: "<|im_start|>assistant\n<think></think>", trim: Trim::ThoughtAndEnd, ..CHATML.assistant },
    reply: "<|im_start|>assistant\n<think>\n",
    ..CHATML
};

const KIMI_SYSTEM: Turn = plain("<|im_system|>system<|im_middle|>", "<|im_end|>");

/// Kimi K2.
pub(super) const KIMI_K2: TurnFormat = TurnFormat {
    name: "kimi-k2",
    signs: Signs {
        tokens: &["<|im_user|>", "<|im_assistant|>", "<|im_middle|>"],
        ..signs(&["<|im_middle|>", "You are Kimi, an AI assistant created by Moonshot AI."])
    },
    system: System {
        default_after: "<|im_end|>\n",
        ..system_or(KIMI_SYSTEM, "You are Kimi, an AI assistant created by Moonshot AI.")
    },
    user: plain("<|im_user|>user<|im_middle|>", "<|im_end|>"),
    assistant: plain("<|im_assistant|>assistant<|im_middle|>", "<|im_end|>"),
    reply: "<|im_assistant|>assistant<|im_middle|>",
    stops: &["<|im_end|>"],
    ..PLAIN
};

/// Kimi K2 Thinking. Earlier replies begin with an empty thought.
pub(super) const KIMI_K2_THINKING: TurnFormat = TurnFormat {
    name: "kimi-k2-thinking",
    signs: signs(&["<|im_middle|>", "You are Kimi, an AI assistant created by Moonshot AI.", "<think></think>"]),
    system: system_or(KIMI_SYSTEM, "You are Kimi, an AI assistant created by Moonshot AI."),
    assistant: plain("<|im_assistant|>assistant<|im_middle|><think></think>", "<|im_end|>"),
    ..KIMI_K2
};
