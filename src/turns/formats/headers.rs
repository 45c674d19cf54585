//! Formats with a header before each message, and a token after it.

use super::{PLAIN, joined, plain, signs, system, system_or, turn};
use crate::turns::pieces::Trim;
use crate::turns::{Signs, System, TurnFormat};

// `<|start_header_id|>user<|end_header_id|>\n\n...<|eot_id|>`

pub(super) const LLAMA3: TurnFormat = TurnFormat {
    name: "llama3",
    signs: Signs {
        tokens: &["<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"],
        none: &["tools", "functions"],
        ..signs(&["<|start_header_id|>", "<|end_header_id|>"])
    },
    start: bos!(),
    system: system(turn("<|start_header_id|>system<|end_header_id|>\n\n", Trim::Ends, "<|eot_id|>")),
    user: turn("<|start_header_id|>user<|end_header_id|>\n\n", Trim::Ends, "<|eot_id|>"),
    assistant: turn("<|start_header_id|>assistant<|end_header_id|>\n\n", Trim::Ends, "<|eot_id|>"),
    reply: "<|start_header_id|>assistant<|end_header_id|>\n\n",
    stops: &["<|eot_id|>", "<|eom_id|>"],
    ..PLAIN
};

/// Llama 3.1 to 3.3. There is no clock here: the date is the one that the templates write without a clock.
pub(super) const LLAMA3_1: TurnFormat = TurnFormat {
    name: "llama3.1",
    signs: signs(&["<|start_header_id|>", "Cutting Knowledge Date: December 2023", "26 Jul 2024"]),
    system: system_or(
        turn(
            concat!(
                "<|start_header_id|>system<|end_header_id|>\n\n",
                "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n"
            ),
            Trim::Ends,
            "<|eot_id|>",
        ),
        "",
    ),
    ..LLAMA3
};

/// Llama 4.
pub(super) const LLAMA4: TurnFormat = TurnFormat {
    name: "llama4",
    signs: Signs {
        tokens: &["<|header_start|>", "<|header_end|>", "<|eot|>"],
        ..signs(&["<|header_start|>", "<|header_end|>"])
    },
    start: bos!(),
    system: system(turn("<|header_start|>system<|header_end|>\n\n", Trim::Ends, "<|eot|>")),
    user: plain("<|header_start|>user<|header_end|>\n\n", "<|eot|>"),
    assistant: plain("<|header_start|>assistant<|header_end|>\n\n", "<|eot|>"),
    reply: "<|header_start|>assistant<|header_end|>\n\n",
    stops: &["<|eot|>", "<|eom|>"],
    ..PLAIN
};

// `<start_of_turn>user\n...<end_of_turn>\n`

/// Gemma 1 to 3. The templates of 1 and 2 refuse system messages. The template of 3 writes them as this format does.
pub(super) const GEMMA: TurnFormat = TurnFormat {
    name: "gemma",
    signs: Signs {
        tokens: &["<start_of_turn>", "<end_of_turn>"],
        none: &["<start_function_declaration>"],
        ..signs(&["<start_of_turn>"])
    },
    start: bos!(),
    system: joined(plain("<start_of_turn>user\n", "\n\n"), turn("", Trim::Ends, "<end_of_turn>\n")),
    user: turn("<start_of_turn>user\n", Trim::Ends, "<end_of_turn>\n"),
    assistant: turn("<start_of_turn>model\n", Trim::Ends, "<end_of_turn>\n"),
    reply: "<start_of_turn>model\n",
    stops: &["<end_of_turn>"],
    ..PLAIN
};

/// FunctionGemma: tools are declared in the turn of the developer.
pub(super) const FUNCTION_GEMMA: TurnFormat = TurnFormat {
    name: "functiongemma",
    signs: Signs {
        tokens: &["<start_of_turn>", "<start_function_declaration>"],
        ..signs(&["<start_of_turn>", "<start_function_declaration>"])
    },
    system: system(turn("<start_of_turn>developer\n", Trim::Ends, "<end_of_turn>\n")),
    ..GEMMA
};

// `<|user_start|>...<|user_end|>`

/// Apertus, not thinking. There is no clock here: the default message is without its line about today's date. The end
/// of the assistant's turn is written when the next turn begins.
pub(super) const APERTUS: TurnFormat = TurnFormat {
    name: "apertus",
    signs: Signs {
        tokens: &["<|system_start|>", "<|developer_start|>", "<|assistant_start|>"],
        ..signs(&["<|system_start|>", "<|developer_start|>", "Deliberation: "])
    },
    start: bos!(),
    system: system_or(
        plain(
            "<|system_start|>",
            concat!(
                "<|system_end|><|developer_start|>",
                "Deliberation: disabled\nTool Capabilities: disabled<|developer_end|>"
            ),
        ),
        "You are Apertus, a helpful assistant created by the SwissAI initiative.\nKnowledge cutoff: 2024-04",
    ),
    user: plain("<|user_start|>", "<|user_end|>"),
    assistant: plain("<|assistant_start|>", ""),
    between: "<|assistant_end|>",
    reply: "<|assistant_start|>",
    stops: &["<|assistant_end|>"],
    ..PLAIN
};

// `<|turn>user\n...<turn|>\n`

/// The large models of Gemma 4, not thinking: an empty thought is written for the model. Thoughts of earlier replies
/// are left out.
pub(super) const GEMMA4: TurnFormat = TurnFormat {
    name: "gemma4",
    signs: signs(&["<|turn>", "<|channel>thought\\n<channel|>"]),
    reply: "<|turn>model\n<|channel>thought\n<channel|>",
    ..GEMMA4_E
};

/// Gemma 4 E2B and E4B, not thinking.
pub(super) const GEMMA4_E: TurnFormat = TurnFormat {
    name: "gemma4-e",
    signs: Signs { tokens: &["<|turn>", "<turn|>"], ..signs(&["<|turn>"]) },
    start: bos!(),
    system: system(turn("<|turn>system\n", Trim::Ends, "<turn|>\n")),
    user: turn("<|turn>user\n", Trim::Ends, "<turn|>\n"),
    assistant: turn("<|turn>model\n", Trim::ChannelAndEnds, "<turn|>\n"),
    reply: "<|turn>model\n",
    stops: &["<turn|>"],
    ..PLAIN
};

// `<|start|>user<|message|>...<|end|>`

/// Harmony, the format of gpt-oss. There is no clock here: the first message is without its line about today's date.
/// The text of the model begins with the name of a channel: `analysis` for thoughts, `commentary` for calls of tools,
/// `final` for the answer. `<|end|>` ends a message, after which the model begins another one.
pub(super) const HARMONY: TurnFormat = TurnFormat {
    name: "harmony",
    signs: Signs {
        tokens: &["<|start|>", "<|channel|>", "<|message|>"],
        ..signs(&["<|start|>", "<|channel|>", "<|message|>"])
    },
    start: concat!(
        "<|start|>system<|message|>You are ChatGPT, a large language model trained by OpenAI.\n",
        "Knowledge cutoff: 2024-06\n\nReasoning: medium\n\n",
        "# Valid channels: analysis, commentary, final. Channel must be included for every message.<|end|>"
    ),
    system: System {
        skips_empty: true,
        ..system(plain("<|start|>developer<|message|># Instructions\n\n", "\n\n<|end|>"))
    },
    user: plain("<|start|>user<|message|>", "<|end|>"),
    assistant: plain("<|start|>assistant<|channel|>final<|message|>", "<|end|>"),
    reply: "<|start|>assistant",
    stops: &["<|return|>", "<|call|>"],
    ..PLAIN
};

// `<seed:bos>user\n...<seed:eos>`

/// Seed-OSS. `<seed:bos>` and `<seed:eos>` are its names of BOS and EOS.
pub(super) const SEED_OSS: TurnFormat = TurnFormat {
    name: "seed-oss",
    signs: Signs { tokens: &["<seed:bos>", "<seed:eos>"], ..signs(&["<seed:bos>", "<seed:eos>"]) },
    system: system(plain("<seed:bos>system\n", "<seed:eos>")),
    user: plain("<seed:bos>user\n", "<seed:eos>"),
    assistant: turn("<seed:bos>assistant\n", Trim::Ends, "<seed:eos>"),
    reply: "<seed:bos>assistant\n",
    stops: &["<seed:eos>"],
    ..PLAIN
};

// `[|user|]\n...[|endofturn|]\n`

/// EXAONE 4, not thinking: an empty thought is written for the model. Thoughts of earlier replies are left out.
pub(super) const EXAONE4: TurnFormat = TurnFormat {
    name: "exaone4",
    signs: signs(&["[|assistant|]\\n", "[|endofturn|]\\n"]),
    system: system(plain("[|system|]\n", "[|endofturn|]\n")),
    user: plain("[|user|]\n", "[|endofturn|]\n"),
    assistant: turn("[|assistant|]\n<think>\n\n</think>\n\n", Trim::ThoughtAndEndsAfter, "[|endofturn|]\n"),
    reply: "[|assistant|]\n<think>\n\n</think>\n\n",
    stops: &["[|endofturn|]"],
    ..PLAIN
};

// `<SPECIAL_11>User\n...\n`

/// Nemotron Nano v2, thinking. The thought is opened for the model. Thoughts of earlier replies are left out.
pub(super) const NEMOTRON_NANO_V2: TurnFormat = TurnFormat {
    name: "nemotron-nano-v2",
    signs: signs(&["<SPECIAL_10>System", "<SPECIAL_11>Assistant", "<SPECIAL_12>", "</think>"]),
    system: system_or(turn("<SPECIAL_10>System\n", Trim::Ends, "\n\n"), ""),
    user: turn("<SPECIAL_11>User\n", Trim::Ends, "\n"),
    assistant: turn("<SPECIAL_11>Assistant\n", Trim::ThoughtAndEnds, "\n<SPECIAL_12>\n"),
    reply: "<SPECIAL_11>Assistant\n<think>\n",
    stops: &["<SPECIAL_12>"],
    ..PLAIN
};

// `<|start_of_role|>user<|end_of_role|>...<|end_of_text|>\n`

pub(super) const GRANITE: TurnFormat = TurnFormat {
    name: "granite",
    signs: Signs { tokens: &["<|start_of_role|>", "<|end_of_role|>"], ..signs(&["<|start_of_role|>"]) },
    system: system(plain("<|start_of_role|>system<|end_of_role|>", "<|end_of_text|>\n")),
    user: plain("<|start_of_role|>user<|end_of_role|>", "<|end_of_text|>\n"),
    assistant: plain("<|start_of_role|>assistant<|end_of_role|>", "<|end_of_text|>\n"),
    reply: "<|start_of_role|>assistant<|end_of_role|>",
    stops: &["<|end_of_text|>"],
    ..PLAIN
};

/// Granite 3.3. There is no clock here: the default message is without today's date.
pub(super) const GRANITE_3_3: TurnFormat = TurnFormat {
    name: "granite3.3",
    signs: signs(&["<|start_of_role|>", "Knowledge Cutoff Date: April 2024. Today's Date: "]),
    system: system_or(
        GRANITE.system.turn,
        "Knowledge Cutoff Date: April 2024. You are Granite, developed by IBM. You are a helpful AI assistant.",
    ),
    ..GRANITE
};

/// Granite 3.1 and 3.2. There is no clock here: the default message is without its line about today's date.
pub(super) const GRANITE_3_1: TurnFormat = TurnFormat {
    name: "granite3.1",
    signs: signs(&["<|start_of_role|>", "Knowledge Cutoff Date: April 2024."]),
    system: system_or(
        GRANITE.system.turn,
        "Knowledge Cutoff Date: April 2024.\nYou are Granite, developed by IBM. You are a helpful AI assistant.",
    ),
    ..GRANITE
};

/// Granite 4.0.
pub(super) const GRANITE_4: TurnFormat = TurnFormat {
    name: "granite4",
    signs: signs(&["<|start_of_role|>", "Please ensure responses are professional, accurate, and safe."]),
    system: System {
        skips_empty: true,
        ..system_or(
            GRANITE.system.turn,
            "You are a helpful assistant. Please ensure responses are professional, accurate, and safe.",
        )
    },
    ..GRANITE
};
