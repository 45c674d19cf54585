//! The formats.
//!
//! The more special ones come first: a template is taken for the first format whose signs it has. Texts are those of the
//! templates that the models were published with.

use super::pieces::{Frame, Trim};
use super::{Piece, Signs, System, Turn, TurnFormat};

use Piece::{Bos, Eos, Frame as F};

pub(super) const ALL: &[TurnFormat] = &[
    PHI4,
    QWEN3,
    QWEN2_5,
    SMOLLM2,
    QWEN2,
    CHATML,
    MISTRAL_V7,
    MISTRAL_V7_TEKKEN,
    MISTRAL_V1,
    MISTRAL_V3,
    MISTRAL_V3_TEKKEN,
    LLAMA2,
    MISTRAL_V0,
    LLAMA3_1,
    LLAMA3,
    GEMMA,
    PHI4_MINI,
    PHI3,
    GRANITE_3_1,
    GRANITE,
    DEEPSEEK_R1,
    DEEPSEEK_V3,
    DEEPSEEK_V2,
    DEEPSEEK_CODER,
    OLMO2,
    TULU,
    ZEPHYR,
    OPENCHAT,
    VICUNA,
];

/// What most formats have in common.
const PLAIN: TurnFormat = TurnFormat {
    name: "",
    signs: Signs { all: &[], none: &[], tokens: &[] },
    start: &[],
    system: system(turn(&[], Trim::Nothing, &[])),
    user: turn(&[], Trim::Nothing, &[]),
    assistant: turn(&[], Trim::Nothing, &[]),
    between: &[],
    reply: &[],
    end: &[],
    stops: &[],
};

const fn signs(all: &'static [&'static str]) -> Signs {
    Signs { all, none: &[], tokens: &[] }
}

const fn turn(before: Frame, trim: Trim, after: Frame) -> Turn {
    Turn { before, trim, after }
}

/// A text as it is.
const fn plain(before: Frame, after: Frame) -> Turn {
    turn(before, Trim::Nothing, after)
}

/// A turn of its own.
const fn system(turn: Turn) -> System {
    System { turn, user: None, default: None, skips_empty: false }
}

/// A turn of its own, with a message of the template's.
const fn system_or(turn: Turn, default: &'static str) -> System {
    System { default: Some(default), ..system(turn) }
}

/// The beginning of the user's turn that follows.
const fn joined(turn: Turn, user: Turn) -> System {
    System { user: Some(user), ..system(turn) }
}

// `<|im_start|>user\n...<|im_end|>\n`

const IM_SYSTEM: Turn = plain(&[F("<|im_start|>system\n")], &[F("<|im_end|>\n")]);

/// Yi, Hermes, OpenHermes, Dolphin, SmolLM, MPT, StableLM 2 and many others; SmolLM3 but for its system turn.
const CHATML: TurnFormat = TurnFormat {
    name: "chatml",
    signs: Signs { tokens: &["<|im_start|>", "<|im_end|>"], ..signs(&["<|im_start|>"]) },
    system: system(IM_SYSTEM),
    user: plain(&[F("<|im_start|>user\n")], &[F("<|im_end|>\n")]),
    assistant: plain(&[F("<|im_start|>assistant\n")], &[F("<|im_end|>\n")]),
    reply: &[F("<|im_start|>assistant\n")],
    stops: &["<|im_end|>"],
    ..PLAIN
};

const QWEN2: TurnFormat = TurnFormat {
    name: "qwen2",
    signs: signs(&["<|im_start|>", "system\\nYou are a helpful assistant."]),
    system: system_or(IM_SYSTEM, "You are a helpful assistant."),
    ..CHATML
};

const QWEN2_5: TurnFormat = TurnFormat {
    name: "qwen2.5",
    signs: signs(&["<|im_start|>", "You are Qwen, created by Alibaba Cloud. You are a helpful assistant."]),
    system: system_or(IM_SYSTEM, "You are Qwen, created by Alibaba Cloud. You are a helpful assistant."),
    ..CHATML
};

/// Thoughts of earlier replies are left out.
const QWEN3: TurnFormat = TurnFormat {
    name: "qwen3",
    signs: signs(&["<|im_start|>", "reasoning_content", "</think>"]),
    assistant: Turn { trim: Trim::ThoughtAndLines, ..CHATML.assistant },
    ..CHATML
};

const SMOLLM2: TurnFormat = TurnFormat {
    name: "smollm2",
    signs: Signs {
        none: &["Reasoning Mode"],
        ..signs(&["<|im_start|>", "You are a helpful AI assistant named SmolLM, trained by Hugging Face"])
    },
    system: system_or(IM_SYSTEM, "You are a helpful AI assistant named SmolLM, trained by Hugging Face"),
    ..CHATML
};

const PHI4: TurnFormat = TurnFormat {
    name: "phi4",
    signs: Signs { tokens: &["<|im_start|>", "<|im_sep|>", "<|im_end|>"], ..signs(&["<|im_start|>", "<|im_sep|>"]) },
    system: system(plain(&[F("<|im_start|>system<|im_sep|>")], &[F("<|im_end|>")])),
    user: plain(&[F("<|im_start|>user<|im_sep|>")], &[F("<|im_end|>")]),
    assistant: plain(&[F("<|im_start|>assistant<|im_sep|>")], &[F("<|im_end|>")]),
    reply: &[F("<|im_start|>assistant<|im_sep|>")],
    stops: &["<|im_end|>"],
    ..PLAIN
};

// `[INST] ... [/INST] ...`

const LLAMA2: TurnFormat = TurnFormat {
    name: "llama2",
    signs: signs(&["[INST]", "<<SYS>>"]),
    system: joined(
        plain(&[Bos, F("[INST] <<SYS>>\n")], &[F("\n<</SYS>>\n\n")]),
        turn(&[], Trim::End, &[F(" [/INST]")]),
    ),
    user: turn(&[Bos, F("[INST] ")], Trim::Ends, &[F(" [/INST]")]),
    assistant: turn(&[F(" ")], Trim::Ends, &[F(" "), Eos]),
    ..PLAIN
};

/// Mistral 7B Instruct v0.1 and v0.2 as first published. The template refuses system messages.
const MISTRAL_V0: TurnFormat = TurnFormat {
    name: "mistral-v0",
    signs: signs(&["[INST]"]),
    start: &[Bos],
    system: joined(plain(&[F("[INST] ")], &[F("\n\n")]), plain(&[], &[F(" [/INST]")])),
    user: plain(&[F("[INST] ")], &[F(" [/INST]")]),
    assistant: plain(&[], &[Eos]),
    ..PLAIN
};

const MISTRAL_V1: TurnFormat = TurnFormat {
    name: "mistral-v1",
    signs: signs(&["' [INST] ' + system_message"]),
    start: &[Bos],
    system: joined(plain(&[F(" [INST] ")], &[F("\n\n")]), plain(&[], &[F(" [/INST]")])),
    user: plain(&[F(" [INST] ")], &[F(" [/INST]")]),
    assistant: plain(&[F(" ")], &[Eos]),
    ..PLAIN
};

/// The templates put the system's message into the last turn of the user; here it stays in the first one, so that turns
/// can be appended.
const MISTRAL_V3: TurnFormat = TurnFormat {
    name: "mistral-v3",
    signs: signs(&["[AVAILABLE_TOOLS]", "\"[INST] \""]),
    start: &[Bos],
    system: joined(plain(&[F("[INST] ")], &[F("\n\n")]), plain(&[], &[F("[/INST]")])),
    user: plain(&[F("[INST] ")], &[F("[/INST]")]),
    assistant: turn(&[F(" ")], Trim::Ends, &[Eos]),
    ..PLAIN
};

const MISTRAL_V3_TEKKEN: TurnFormat = TurnFormat {
    name: "mistral-v3-tekken",
    signs: signs(&["[AVAILABLE_TOOLS]", "\"[INST]\""]),
    system: joined(plain(&[F("[INST]")], &[F("\n\n")]), plain(&[], &[F("[/INST]")])),
    user: plain(&[F("[INST]")], &[F("[/INST]")]),
    assistant: plain(&[], &[Eos]),
    ..MISTRAL_V3
};

const MISTRAL_V7: TurnFormat = TurnFormat {
    name: "mistral-v7",
    signs: signs(&["'[SYSTEM_PROMPT] '"]),
    start: &[Bos],
    system: system(plain(&[F("[SYSTEM_PROMPT] ")], &[F("[/SYSTEM_PROMPT]")])),
    user: plain(&[F("[INST] ")], &[F("[/INST]")]),
    assistant: plain(&[F(" ")], &[Eos]),
    ..PLAIN
};

/// Without the default system message, which has the date in it.
const MISTRAL_V7_TEKKEN: TurnFormat = TurnFormat {
    name: "mistral-v7-tekken",
    signs: Signs { tokens: &["[SYSTEM_PROMPT]", "[INST]"], ..signs(&["[SYSTEM_PROMPT]"]) },
    system: system(plain(&[F("[SYSTEM_PROMPT]")], &[F("[/SYSTEM_PROMPT]")])),
    user: plain(&[F("[INST]")], &[F("[/INST]")]),
    assistant: plain(&[], &[Eos]),
    ..MISTRAL_V7
};

// `<|start_header_id|>user<|end_header_id|>\n\n...<|eot_id|>`

const LLAMA3: TurnFormat = TurnFormat {
    name: "llama3",
    signs: Signs {
        tokens: &["<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"],
        ..signs(&["<|start_header_id|>", "<|end_header_id|>"])
    },
    start: &[Bos],
    system: system(turn(&[F("<|start_header_id|>system<|end_header_id|>\n\n")], Trim::Ends, &[F("<|eot_id|>")])),
    user: turn(&[F("<|start_header_id|>user<|end_header_id|>\n\n")], Trim::Ends, &[F("<|eot_id|>")]),
    assistant: turn(&[F("<|start_header_id|>assistant<|end_header_id|>\n\n")], Trim::Ends, &[F("<|eot_id|>")]),
    reply: &[F("<|start_header_id|>assistant<|end_header_id|>\n\n")],
    stops: &["<|eot_id|>", "<|eom_id|>"],
    ..PLAIN
};

/// Llama 3.1 to 3.3. There is no clock here: the date is the one that the templates write without a clock.
const LLAMA3_1: TurnFormat = TurnFormat {
    name: "llama3.1",
    signs: signs(&["<|start_header_id|>", "Cutting Knowledge Date: December 2023", "26 Jul 2024"]),
    system: system_or(
        turn(
            &[
                F("<|start_header_id|>system<|end_header_id|>\n\n"),
                F("Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n"),
            ],
            Trim::Ends,
            &[F("<|eot_id|>")],
        ),
        "",
    ),
    ..LLAMA3
};

// `<start_of_turn>user\n...<end_of_turn>\n`

/// Gemma 1 to 3. The templates of 1 and 2 refuse system messages; that of 3 puts them where they are put here.
const GEMMA: TurnFormat = TurnFormat {
    name: "gemma",
    signs: Signs { tokens: &["<start_of_turn>", "<end_of_turn>"], ..signs(&["<start_of_turn>"]) },
    start: &[Bos],
    system: joined(plain(&[F("<start_of_turn>user\n")], &[F("\n\n")]), turn(&[], Trim::Ends, &[F("<end_of_turn>\n")])),
    user: turn(&[F("<start_of_turn>user\n")], Trim::Ends, &[F("<end_of_turn>\n")]),
    assistant: turn(&[F("<start_of_turn>model\n")], Trim::Ends, &[F("<end_of_turn>\n")]),
    reply: &[F("<start_of_turn>model\n")],
    stops: &["<end_of_turn>"],
    ..PLAIN
};

// `<|user|>\n...`, with several ways to end it

/// Phi-3 and Phi-3.5.
const PHI3: TurnFormat = TurnFormat {
    name: "phi3",
    signs: Signs { tokens: &["<|user|>", "<|assistant|>", "<|end|>"], ..signs(&["<|assistant|>", "<|end|>"]) },
    system: System { skips_empty: true, ..system(plain(&[F("<|system|>\n")], &[F("<|end|>\n")])) },
    user: plain(&[F("<|user|>\n")], &[F("<|end|>\n")]),
    assistant: plain(&[F("<|assistant|>\n")], &[F("<|end|>\n")]),
    reply: &[F("<|assistant|>\n")],
    end: &[Eos],
    stops: &["<|end|>"],
    ..PLAIN
};

const PHI4_MINI: TurnFormat = TurnFormat {
    name: "phi4-mini",
    signs: signs(&["<|assistant|>", "'|>' + message['content'] + '<|end|>'"]),
    system: system(plain(&[F("<|system|>")], &[F("<|end|>")])),
    user: plain(&[F("<|user|>")], &[F("<|end|>")]),
    assistant: plain(&[F("<|assistant|>")], &[F("<|end|>")]),
    reply: &[F("<|assistant|>")],
    ..PHI3
};

/// Zephyr, TinyLlama, StableLM Zephyr.
const ZEPHYR: TurnFormat = TurnFormat {
    name: "zephyr",
    signs: signs(&["<|user|>", "message['content'] + eos_token"]),
    system: system(plain(&[F("<|system|>\n")], &[Eos, F("\n")])),
    user: plain(&[F("<|user|>\n")], &[Eos, F("\n")]),
    assistant: plain(&[F("<|assistant|>\n")], &[Eos, F("\n")]),
    reply: &[F("<|assistant|>\n")],
    ..PLAIN
};

/// Tülu, Falcon 3.
const TULU: TurnFormat = TurnFormat {
    name: "tulu",
    signs: signs(&["'<|user|>\\n' + message['content'] + '\\n'", "eos_token"]),
    system: system(plain(&[F("<|system|>\n")], &[F("\n")])),
    user: plain(&[F("<|user|>\n")], &[F("\n")]),
    assistant: plain(&[F("<|assistant|>\n")], &[Eos]),
    between: &[F("\n")],
    reply: &[F("<|assistant|>\n")],
    ..PLAIN
};

const OLMO2: TurnFormat = TurnFormat {
    name: "olmo2",
    signs: signs(&["'<|user|>\\n' + message['content'] + '\\n'", "eos_token", "bos_token"]),
    start: &[Bos],
    ..TULU
};

// `<|start_of_role|>user<|end_of_role|>...<|end_of_text|>\n`

const GRANITE: TurnFormat = TurnFormat {
    name: "granite",
    signs: Signs { tokens: &["<|start_of_role|>", "<|end_of_role|>"], ..signs(&["<|start_of_role|>"]) },
    system: system(plain(&[F("<|start_of_role|>system<|end_of_role|>")], &[F("<|end_of_text|>\n")])),
    user: plain(&[F("<|start_of_role|>user<|end_of_role|>")], &[F("<|end_of_text|>\n")]),
    assistant: plain(&[F("<|start_of_role|>assistant<|end_of_role|>")], &[F("<|end_of_text|>\n")]),
    reply: &[F("<|start_of_role|>assistant<|end_of_role|>")],
    stops: &["<|end_of_text|>"],
    ..PLAIN
};

/// Granite 3.1 to 3.3. There is no clock here: the default message is without its line about today's date.
const GRANITE_3_1: TurnFormat = TurnFormat {
    name: "granite3.1",
    signs: signs(&["<|start_of_role|>", "Knowledge Cutoff Date: April 2024."]),
    system: system_or(
        GRANITE.system.turn,
        "Knowledge Cutoff Date: April 2024.\nYou are Granite, developed by IBM. You are a helpful AI assistant.",
    ),
    ..GRANITE
};

// DeepSeek

/// DeepSeek V2, DeepSeek LLM.
const DEEPSEEK_V2: TurnFormat = TurnFormat {
    name: "deepseek-v2",
    signs: signs(&["'User: '", "'Assistant: ' + message['content'] + eos_token"]),
    start: &[Bos],
    system: system(plain(&[], &[F("\n\n")])),
    user: plain(&[F("User: ")], &[F("\n\n")]),
    assistant: plain(&[F("Assistant: ")], &[Eos]),
    reply: &[F("Assistant:")],
    ..PLAIN
};

const DEEPSEEK_V3: TurnFormat = TurnFormat {
    name: "deepseek-v3",
    signs: Signs { tokens: &["<｜User｜>", "<｜Assistant｜>"], ..signs(&["<｜User｜>", "<｜Assistant｜>"]) },
    start: &[Bos],
    user: plain(&[F("<｜User｜>")], &[]),
    assistant: plain(&[F("<｜Assistant｜>")], &[F("<｜end▁of▁sentence｜>")]),
    reply: &[F("<｜Assistant｜>")],
    stops: &["<｜end▁of▁sentence｜>"],
    ..PLAIN
};

/// DeepSeek R1 and what was distilled from it. Thoughts of earlier replies are left out.
const DEEPSEEK_R1: TurnFormat = TurnFormat {
    name: "deepseek-r1",
    signs: signs(&["<｜User｜>", "<｜Assistant｜><think>\\n"]),
    assistant: Turn { trim: Trim::Thought, ..DEEPSEEK_V3.assistant },
    reply: &[F("<｜Assistant｜><think>\n")],
    ..DEEPSEEK_V3
};

const DEEPSEEK_CODER: TurnFormat = TurnFormat {
    name: "deepseek-coder",
    signs: Signs { tokens: &["<|EOT|>"], ..signs(&["### Instruction:", "<|EOT|>"]) },
    start: &[Bos],
    system: system_or(
        plain(&[], &[]),
        "You are an AI programming assistant, utilizing the Deepseek Coder model, developed by Deepseek Company, and \
         you only answer questions related to computer science. For politically sensitive questions, security and \
         privacy issues, and other non-computer science questions, you will refuse to answer\n",
    ),
    user: plain(&[F("### Instruction:\n")], &[F("\n")]),
    assistant: plain(&[F("### Response:\n")], &[F("\n<|EOT|>\n")]),
    reply: &[F("### Response:\n")],
    stops: &["<|EOT|>"],
    ..PLAIN
};

// Words

/// OpenChat 3.5, Starling.
const OPENCHAT: TurnFormat = TurnFormat {
    name: "openchat",
    signs: signs(&["GPT4 Correct "]),
    start: &[Bos],
    system: system(plain(&[F("GPT4 Correct System: ")], &[F("<|end_of_turn|>")])),
    user: plain(&[F("GPT4 Correct User: ")], &[F("<|end_of_turn|>")]),
    assistant: plain(&[F("GPT4 Correct Assistant: ")], &[F("<|end_of_turn|>")]),
    reply: &[F("GPT4 Correct Assistant:")],
    stops: &["<|end_of_turn|>"],
    ..PLAIN
};

const VICUNA: TurnFormat = TurnFormat {
    name: "vicuna",
    signs: signs(&["USER: ", "ASSISTANT: "]),
    system: system(plain(&[], &[F("\n\n")])),
    user: plain(&[F("USER: ")], &[F("\n")]),
    assistant: plain(&[F("ASSISTANT: ")], &[F("</s>\n")]),
    reply: &[F("ASSISTANT:")],
    stops: &["</s>"],
    ..PLAIN
};
