//! `<|user|>\n...`, and several ways to end a turn.

use super::{PLAIN, plain, signs, system, turn};
use crate::turns::pieces::Trim;
use crate::turns::{Signs, System, TurnFormat};

/// Phi-3 and Phi-3.5.
pub(super) const PHI3: TurnFormat = TurnFormat {
    name: "phi3",
    signs: Signs { tokens: &["<|user|>", "<|assistant|>", "<|end|>"], ..signs(&["<|assistant|>", "<|end|>"]) },
    system: System { skips_empty: true, ..system(plain("<|system|>\n", "<|end|>\n")) },
    user: plain("<|user|>\n", "<|end|>\n"),
    assistant: plain("<|assistant|>\n", "<|end|>\n"),
    reply: "<|assistant|>\n",
    end: eos!(),
    stops: &["<|end|>"],
    ..PLAIN
};

pub(super) const PHI4_MINI: TurnFormat = TurnFormat {
    name: "phi4-mini",
    signs: signs(&["<|assistant|>", "'|>' + message['content'] + '<|end|>'"]),
    system: system(plain("<|system|>", "<|end|>")),
    user: plain("<|user|>", "<|end|>"),
    assistant: plain("<|assistant|>", "<|end|>"),
    reply: "<|assistant|>",
    ..PHI3
};

/// Zephyr, TinyLlama, StableLM Zephyr.
pub(super) const ZEPHYR: TurnFormat = TurnFormat {
    name: "zephyr",
    signs: signs(&["<|user|>", "message['content'] + eos_token"]),
    system: system(plain("<|system|>\n", concat!(eos!(), "\n"))),
    user: plain("<|user|>\n", concat!(eos!(), "\n")),
    assistant: plain("<|assistant|>\n", concat!(eos!(), "\n")),
    reply: "<|assistant|>\n",
    ..PLAIN
};

/// Tülu, Falcon 3.
pub(super) const TULU: TurnFormat = TurnFormat {
    name: "tulu",
    signs: signs(&["'<|user|>\\n' + message['content'] + '\\n'", "eos_token"]),
    system: system(plain("<|system|>\n", "\n")),
    user: plain("<|user|>\n", "\n"),
    assistant: plain("<|assistant|>\n", eos!()),
    between: "\n",
    reply: "<|assistant|>\n",
    ..PLAIN
};

pub(super) const OLMO2: TurnFormat = TurnFormat {
    name: "olmo2",
    signs: signs(&["'<|user|>\\n' + message['content'] + '\\n'", "eos_token", "bos_token"]),
    start: bos!(),
    ..TULU
};

/// Spark X2.5, thinking. The end of a turn is written when the next turn begins, because the system turn begins even
/// without a system message.
pub(super) const SPARK2_5: TurnFormat = TurnFormat {
    name: "spark2.5",
    signs: Signs { tokens: &["<|System|>", "<|Bot|>"], ..signs(&["<|System|>", "<|Bot|>"]) },
    start: "<｜start▁of▁sentence｜><|System|>\nyou are a helpful assistant.",
    system: System { skips_empty: true, ..system(plain("\n\n", "")) },
    user: plain("<｜end▁of▁sentence｜><｜start▁of▁sentence｜><|User|>", ""),
    assistant: plain("<｜end▁of▁sentence｜><｜start▁of▁sentence｜><|Bot|></think>", ""),
    reply: "<｜end▁of▁sentence｜><｜start▁of▁sentence｜><|Bot|><think>",
    end: "<｜end▁of▁sentence｜>",
    stops: &["<｜end▁of▁sentence｜>"],
    ..PLAIN
};

// GLM. A turn ends where the next one begins.

/// GLM 4 (0414), glm-4-9b-chat.
pub(super) const GLM4: TurnFormat = TurnFormat {
    name: "glm4",
    signs: Signs { none: &["</think>"], ..signs(&["[gMASK]<sop>", "<|assistant|>{% endif %}"]) },
    start: "[gMASK]<sop>",
    system: system(plain("<|system|>\n", "")),
    user: plain("<|user|>\n", ""),
    assistant: plain("<|assistant|>\n", ""),
    reply: "<|assistant|>",
    stops: &["<|user|>", "<|observation|>"],
    ..PLAIN
};

/// GLM-Z1. The thought is opened for the model. Thoughts of earlier replies are left out.
pub(super) const GLM_Z1: TurnFormat = TurnFormat {
    name: "glm-z1",
    signs: signs(&["[gMASK]<sop>", "set visible", "<think>{% endif %}"]),
    user: turn(GLM4.user.before, Trim::ThoughtAndEnds, ""),
    assistant: turn(GLM4.assistant.before, Trim::ThoughtAndEnds, ""),
    reply: "<|assistant|>\n<think>",
    ..GLM4
};

/// GLM 4.5 and 4.6, thinking. Earlier replies begin with an empty thought in place of their own.
pub(super) const GLM4_5: TurnFormat = TurnFormat {
    name: "glm4.5",
    signs: signs(&["[gMASK]<sop>", "visible_text", "'\\n<think></think>'"]),
    assistant: turn("<|assistant|>\n<think></think>\n", Trim::ThoughtAndEnds, ""),
    ..GLM4
};

/// GLM 4.7, thinking. The thought is opened for the model. Only the end mark of the thoughts of earlier replies stays.
pub(super) const GLM4_7: TurnFormat = TurnFormat {
    name: "glm4.7",
    signs: signs(&["[gMASK]<sop>", "visible_text", "{{ '</think>' }}"]),
    system: system(plain("<|system|>", "")),
    user: plain("<|user|>", ""),
    assistant: turn("<|assistant|></think>", Trim::ThoughtAndEnds, ""),
    reply: "<|assistant|><think>",
    ..GLM4
};
