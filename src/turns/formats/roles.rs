//! `<|user|>\n...`, with several ways to end it.

use super::{Bos, Eos, F, PLAIN, plain, signs, system};
use crate::turns::{Signs, System, TurnFormat};

/// Phi-3 and Phi-3.5.
pub(super) const PHI3: TurnFormat = TurnFormat {
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

pub(super) const PHI4_MINI: TurnFormat = TurnFormat {
    name: "phi4-mini",
    signs: signs(&["<|assistant|>", "'|>' + message['content'] + '<|end|>'"]),
    system: system(plain(&[F("<|system|>")], &[F("<|end|>")])),
    user: plain(&[F("<|user|>")], &[F("<|end|>")]),
    assistant: plain(&[F("<|assistant|>")], &[F("<|end|>")]),
    reply: &[F("<|assistant|>")],
    ..PHI3
};

/// Zephyr, TinyLlama, StableLM Zephyr.
pub(super) const ZEPHYR: TurnFormat = TurnFormat {
    name: "zephyr",
    signs: signs(&["<|user|>", "message['content'] + eos_token"]),
    system: system(plain(&[F("<|system|>\n")], &[Eos, F("\n")])),
    user: plain(&[F("<|user|>\n")], &[Eos, F("\n")]),
    assistant: plain(&[F("<|assistant|>\n")], &[Eos, F("\n")]),
    reply: &[F("<|assistant|>\n")],
    ..PLAIN
};

/// Tülu, Falcon 3.
pub(super) const TULU: TurnFormat = TurnFormat {
    name: "tulu",
    signs: signs(&["'<|user|>\\n' + message['content'] + '\\n'", "eos_token"]),
    system: system(plain(&[F("<|system|>\n")], &[F("\n")])),
    user: plain(&[F("<|user|>\n")], &[F("\n")]),
    assistant: plain(&[F("<|assistant|>\n")], &[Eos]),
    between: &[F("\n")],
    reply: &[F("<|assistant|>\n")],
    ..PLAIN
};

pub(super) const OLMO2: TurnFormat = TurnFormat {
    name: "olmo2",
    signs: signs(&["'<|user|>\\n' + message['content'] + '\\n'", "eos_token", "bos_token"]),
    start: &[Bos],
    ..TULU
};
