//! `[INST] ... [/INST] ...`

use super::{PLAIN, joined, plain, signs, system, system_or, turn};
use crate::turns::pieces::Trim;
use crate::turns::{Signs, TurnFormat};

pub(super) const LLAMA2: TurnFormat = TurnFormat {
    name: "llama2",
    signs: signs(&["[INST]", "<<SYS>>"]),
    system: joined(plain(concat!(bos!(), "[INST] <<SYS>>\n"), "\n<</SYS>>\n\n"), turn("", Trim::End, " [/INST]")),
    user: turn(concat!(bos!(), "[INST] "), Trim::Ends, " [/INST]"),
    assistant: turn(" ", Trim::Ends, concat!(" ", eos!())),
    ..PLAIN
};

/// Mistral 7B Instruct v0.1 and v0.2 as first published. The template refuses system messages.
pub(super) const MISTRAL_V0: TurnFormat = TurnFormat {
    name: "mistral-v0",
    signs: Signs { none: &["[SYSTEM_PROMPT]", "[AVAILABLE_TOOLS]"], ..signs(&["[INST]"]) },
    start: bos!(),
    system: joined(plain("[INST] ", "\n\n"), plain("", " [/INST]")),
    user: plain("[INST] ", " [/INST]"),
    assistant: plain("", eos!()),
    ..PLAIN
};

pub(super) const MISTRAL_V1: TurnFormat = TurnFormat {
    name: "mistral-v1",
    signs: signs(&["' [INST] ' + system_message"]),
    start: bos!(),
    system: joined(plain(" [INST] ", "\n\n"), plain("", " [/INST]")),
    user: plain(" [INST] ", " [/INST]"),
    assistant: plain(" ", eos!()),
    ..PLAIN
};

/// Mistral v3. The templates put the system message into the last turn of the user. Here it stays in the first one, so
/// that turns can be appended.
pub(super) const MISTRAL_V3: TurnFormat = TurnFormat {
    name: "mistral-v3",
    signs: signs(&["[AVAILABLE_TOOLS]", "\"[INST] \""]),
    start: bos!(),
    system: joined(plain("[INST] ", "\n\n"), plain("", "[/INST]")),
    user: plain("[INST] ", "[/INST]"),
    assistant: turn(" ", Trim::Ends, eos!()),
    ..PLAIN
};

pub(super) const MISTRAL_V3_TEKKEN: TurnFormat = TurnFormat {
    name: "mistral-v3-tekken",
    signs: signs(&["[AVAILABLE_TOOLS]", "\"[INST]\""]),
    system: joined(plain("[INST]", "\n\n"), plain("", "[/INST]")),
    user: plain("[INST]", "[/INST]"),
    assistant: plain("", eos!()),
    ..MISTRAL_V3
};

pub(super) const MISTRAL_V7: TurnFormat = TurnFormat {
    name: "mistral-v7",
    signs: signs(&["'[SYSTEM_PROMPT] '"]),
    start: bos!(),
    system: system(plain("[SYSTEM_PROMPT] ", "[/SYSTEM_PROMPT]")),
    user: plain("[INST] ", "[/INST]"),
    assistant: plain(" ", eos!()),
    ..PLAIN
};

/// Mistral Small 3, Ministral 3. The default system message is left out, because it contains the date.
pub(super) const MISTRAL_V7_TEKKEN: TurnFormat = TurnFormat {
    name: "mistral-v7-tekken",
    signs: Signs {
        tokens: &["[SYSTEM_PROMPT]", "[INST]"],
        none: &["# HOW YOU SHOULD THINK AND ANSWER", "You are Devstral"],
        ..signs(&["[SYSTEM_PROMPT]"])
    },
    system: system(plain("[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]")),
    user: plain("[INST]", "[/INST]"),
    assistant: plain("", eos!()),
    ..MISTRAL_V7
};

/// The models of Ministral 3 that think.
pub(super) const MINISTRAL3_REASONING: TurnFormat = TurnFormat {
    name: "ministral3-reasoning",
    signs: signs(&["[SYSTEM_PROMPT]", "# HOW YOU SHOULD THINK AND ANSWER", "[/THINK]Here, provide a self-contained"]),
    system: system_or(
        MISTRAL_V7_TEKKEN.system.turn,
        "# HOW YOU SHOULD THINK AND ANSWER\n\nFirst draft your thinking process (inner monologue) until you arrive at a \
         response. Format your response using Markdown, and use LaTeX for any mathematical equations. Write both your \
         thoughts and the response in the same language as the input.\n\nYour thinking process must follow the template \
         below:[THINK]Your thoughts or/and draft, like working through an exercise on scratch paper. Be as casual and \
         as long as you want until you are confident to generate the response to the user.[/THINK]Here, provide a \
         self-contained response.",
    ),
    ..MISTRAL_V7_TEKKEN
};
