//! DeepSeek, Hunyuan, and formats in which words name the roles.

use super::{PLAIN, plain, signs, system, system_or};
use crate::turns::pieces::Trim;
use crate::turns::{Signs, Turn, TurnFormat};

// DeepSeek

/// DeepSeek V2, DeepSeek LLM.
pub(super) const DEEPSEEK_V2: TurnFormat = TurnFormat {
    name: "deepseek-v2",
    signs: signs(&["'User: '", "'Assistant: ' + message['content'] + eos_token"]),
    start: bos!(),
    system: system(plain("", "\n\n")),
    user: plain("User: ", "\n\n"),
    assistant: plain("Assistant: ", eos!()),
    reply: "Assistant:",
    ..PLAIN
};

pub(super) const DEEPSEEK_V3: TurnFormat = TurnFormat {
    name: "deepseek-v3",
    signs: Signs { tokens: &["<｜User｜>", "<｜Assistant｜>"], ..signs(&["<｜User｜>", "<｜Assistant｜>"]) },
    start: bos!(),
    user: plain("<｜User｜>", ""),
    assistant: plain("<｜Assistant｜>", "<｜end▁of▁sentence｜>"),
    reply: "<｜Assistant｜>",
    stops: &["<｜end▁of▁sentence｜>"],
    ..PLAIN
};

/// DeepSeek R1 and the models distilled from it. Thoughts of earlier replies are left out.
pub(super) const DEEPSEEK_R1: TurnFormat = TurnFormat {
    name: "deepseek-r1",
    signs: Signs {
        // Templates with these parts write an empty thought, or a list of tools of their own.
        none: &["enable_thinking", "if tools"],
        ..signs(&["<｜User｜>", "<｜Assistant｜><think>\\n"])
    },
    assistant: Turn { trim: Trim::Thought, ..DEEPSEEK_V3.assistant },
    reply: "<｜Assistant｜><think>\n",
    ..DEEPSEEK_V3
};

/// DeepSeek V3.1, not thinking. Thoughts of earlier replies are left out.
pub(super) const DEEPSEEK_V3_1: TurnFormat = TurnFormat {
    name: "deepseek-v3.1",
    signs: signs(&["<｜User｜>", "{{'</think>'}}"]),
    assistant: Turn { before: "<｜Assistant｜></think>", trim: Trim::Thought, ..DEEPSEEK_V3.assistant },
    reply: "<｜Assistant｜></think>",
    ..DEEPSEEK_V3
};

pub(super) const DEEPSEEK_CODER: TurnFormat = TurnFormat {
    name: "deepseek-coder",
    signs: Signs { tokens: &["<|EOT|>"], ..signs(&["### Instruction:", "<|EOT|>"]) },
    start: bos!(),
    system: system_or(
        plain("", ""),
        "You are an AI programming assistant, utilizing the Deepseek Coder model, developed by Deepseek Company, and \
         you only answer questions related to computer science. For politically sensitive questions, security and \
         privacy issues, and other non-computer science questions, you will refuse to answer\n",
    ),
    user: plain("### Instruction:\n", "\n"),
    assistant: plain("### Response:\n", "\n<|EOT|>\n"),
    reply: "### Response:\n",
    stops: &["<|EOT|>"],
    ..PLAIN
};

// Words

/// OpenChat 3.5, Starling.
pub(super) const OPENCHAT: TurnFormat = TurnFormat {
    name: "openchat",
    signs: signs(&["GPT4 Correct "]),
    start: bos!(),
    system: system(plain("GPT4 Correct System: ", "<|end_of_turn|>")),
    user: plain("GPT4 Correct User: ", "<|end_of_turn|>"),
    assistant: plain("GPT4 Correct Assistant: ", "<|end_of_turn|>"),
    reply: "GPT4 Correct Assistant:",
    stops: &["<|end_of_turn|>"],
    ..PLAIN
};

pub(super) const VICUNA: TurnFormat = TurnFormat {
    name: "vicuna",
    signs: signs(&["USER: ", "ASSISTANT: "]),
    system: system(plain("", "\n\n")),
    user: plain("USER: ", "\n"),
    assistant: plain("ASSISTANT: ", "</s>\n"),
    reply: "ASSISTANT:",
    stops: &["</s>"],
    ..PLAIN
};

/// ERNIE 4.5.
pub(super) const ERNIE4_5: TurnFormat = TurnFormat {
    name: "ernie4.5",
    signs: signs(&["cls_token", "\"User: \" + message[\"content\"]"]),
    start: "<|begin_of_sentence|>",
    system: system(plain("", "\n")),
    user: plain("User: ", "\n"),
    assistant: plain("Assistant: ", "<|end_of_sentence|>"),
    reply: "Assistant: ",
    stops: &["<|end_of_sentence|>"],
    ..PLAIN
};

// Hunyuan

/// Hunyuan, the dense models.
pub(super) const HUNYUAN: TurnFormat = TurnFormat {
    name: "hunyuan",
    signs: Signs {
        tokens: &["<｜hy_User｜>", "<｜hy_Assistant｜>"],
        ..signs(&["<｜hy_User｜>", "<｜hy_Assistant｜>"])
    },
    start: "<｜hy_begin▁of▁sentence｜>",
    system: system(plain("", "<｜hy_place▁holder▁no▁3｜>")),
    user: plain("<｜hy_User｜>", ""),
    assistant: plain("<｜hy_Assistant｜>", "<｜hy_place▁holder▁no▁2｜>"),
    reply: "<｜hy_Assistant｜>",
    end: "<｜hy_place▁holder▁no▁8｜>",
    stops: &["<｜hy_place▁holder▁no▁2｜>"],
    ..PLAIN
};
