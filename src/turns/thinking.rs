//! How models are told to think or not, and how their thoughts are written.

use super::pieces::{Frame, Pieces};
use super::{TurnFormat, Turns};
use crate::tools::ThoughtMarks;

/// How a model that thinks before it answers writes its thoughts, and how its turn is opened with or without them.
///
/// [Example](crate::turns#tools).
#[derive(Debug, PartialEq, Eq)]
pub struct Thinking {
    /// The turn formats that it belongs to.
    turns: &'static [&'static str],
    marks: ThoughtMarks,
    /// Opens the assistant's turn so that the model thinks; whether the thought is open then.
    on: Option<(Frame, bool)>,
    /// Opens the assistant's turn so that it does not.
    off: Option<Frame>,
    /// What the format does if nothing is said.
    is_on: bool,
    /// Opens a turn of the assistant that begins with a thought; before and after the thought.
    pub(super) around: Option<(Frame, Frame, Frame)>,
    /// The template writes the thoughts of earlier turns, too.
    pub(super) stays: bool,
}

const LINES: Option<(Frame, Frame, Frame)> = Some(("<|im_start|>assistant\n", "<think>\n", "\n</think>\n\n"));
const TAGS: Option<(Frame, Frame, Frame)> = Some(("<|im_start|>assistant\n", "<think>", "</think>"));

/// A model whose thoughts cannot be turned off.
const ALWAYS: Thinking =
    Thinking { turns: &[], marks: ThoughtMarks::THINK, on: None, off: None, is_on: true, around: None, stays: false };

const ALL: &[Thinking] = &[
    Thinking {
        turns: &["qwen3"],
        on: Some(("<|im_start|>assistant\n", false)),
        off: Some("<|im_start|>assistant\n<think>\n\n</think>\n\n"),
        around: LINES,
        ..ALWAYS
    },
    // The model itself decides whether it thinks, unless it is told not to.
    Thinking { turns: &["minicpm5"], off: QWEN3_5.off, around: LINES, ..ALWAYS },
    // What turns these on or off stands in the system turn.
    Thinking { turns: &["smollm3"], ..ALWAYS },
    Thinking { turns: &["bielik", "granite3.3"], is_on: false, ..ALWAYS },
    Thinking { turns: &["qwen3.5"], ..QWEN3_5 },
    Thinking { turns: &["qwen3.5-small"], is_on: false, ..QWEN3_5 },
    Thinking {
        turns: &["nemotron3"],
        on: Some(("<|im_start|>assistant\n<think>\n", true)),
        off: Some("<|im_start|>assistant\n<think></think>"),
        around: Some(("<|im_start|>assistant\n", "<think>\n", "\n</think>\n")),
        ..ALWAYS
    },
    Thinking {
        turns: &["nemotron-nano-v2"],
        on: Some(("<SPECIAL_11>Assistant\n<think>\n", true)),
        off: Some("<SPECIAL_11>Assistant\n<think></think>"),
        ..ALWAYS
    },
    Thinking {
        turns: &["exaone4"],
        on: Some(("[|assistant|]\n<think>\n", true)),
        off: Some("[|assistant|]\n<think>\n\n</think>\n\n"),
        is_on: false,
        ..ALWAYS
    },
    Thinking {
        turns: &["glm4.5"],
        on: Some(("<|assistant|>", false)),
        off: Some("<|assistant|>\n<think></think>"),
        around: Some(("<|assistant|>", "\n<think>", "</think>\n")),
        ..ALWAYS
    },
    Thinking {
        turns: &["glm4.7"],
        on: Some(("<|assistant|><think>", true)),
        off: Some("<|assistant|></think>"),
        ..ALWAYS
    },
    Thinking {
        turns: &["spark2.5"],
        on: Some(("<｜end▁of▁sentence｜><｜start▁of▁sentence｜><|Bot|><think>", true)),
        off: Some("<｜end▁of▁sentence｜><｜start▁of▁sentence｜><|Bot|></think>"),
        around: Some(("<｜end▁of▁sentence｜><｜start▁of▁sentence｜><|Bot|>", "<think>", "</think>")),
        ..ALWAYS
    },
    // The reply is opened without a thought; what turns it on stands in the system turn.
    Thinking { turns: &["gemma4"], marks: ThoughtMarks::CHANNEL, is_on: false, ..ALWAYS },
    Thinking { turns: &["gemma4-e"], marks: ThoughtMarks::CHANNEL, is_on: false, ..ALWAYS },
    Thinking { turns: &["ministral3-reasoning"], marks: ThoughtMarks::BRACKETS, ..ALWAYS },
    // A budget of thoughts, also of none, is told in a system turn of its own.
    Thinking {
        turns: &["seed-oss"],
        marks: ThoughtMarks::SEED,
        around: Some(("<seed:bos>assistant\n", "<seed:think>", "</seed:think>\n")),
        stays: true,
        ..ALWAYS
    },
    Thinking { turns: &["lfm2.5", "lfm2.5-a1b"], around: TAGS, ..ALWAYS },
    Thinking {
        turns: &["kimi-k2-thinking"],
        around: Some(("<|im_assistant|>assistant<|im_middle|>", "<think>", "</think>")),
        ..ALWAYS
    },
    Thinking { turns: &["deepseek-r1"], on: Some(("<｜Assistant｜><think>\n", true)), ..ALWAYS },
    Thinking {
        turns: &["deepseek-v3.1"],
        on: Some(("<｜Assistant｜><think>", true)),
        off: Some("<｜Assistant｜></think>"),
        is_on: false,
        ..ALWAYS
    },
    Thinking { turns: &["glm-z1"], on: Some(("<|assistant|>\n<think>", true)), ..ALWAYS },
];

const QWEN3_5: Thinking = Thinking {
    on: Some(("<|im_start|>assistant\n<think>\n", true)),
    off: Some("<|im_start|>assistant\n<think>\n\n</think>\n\n"),
    around: LINES,
    ..ALWAYS
};

impl Thinking {
    /// Returns how the models of a turn format think, or `None` if they do not or if it is not known.
    pub fn of(format: &TurnFormat) -> Option<&'static Self> {
        ALL.iter().find(|thinking| thinking.turns.contains(&format.name()))
    }

    /// Returns what the model writes around its thoughts.
    pub fn marks(&self) -> ThoughtMarks {
        self.marks
    }

    /// Returns whether the model thinks if it is not told anything.
    pub fn is_on(&self) -> bool {
        self.is_on
    }

    /// Returns whether the model can be told to think (`true`) or not to (`false`) where its turn is opened.
    pub fn can(&self, think: bool) -> bool {
        if think { self.on.is_some() || self.is_on } else { self.off.is_some() || !self.is_on }
    }

    /// Returns whether the model's turn is opened inside of a thought, if it is to think, or not, or as the format does
    /// (`None`).
    pub fn opens_thought(&self, think: Option<bool>) -> bool {
        let thinks = think.filter(|think| if *think { self.on.is_some() } else { self.off.is_some() });
        thinks.unwrap_or(self.is_on) && self.on.is_some_and(|(_, is_open)| is_open)
    }
}

impl Turns {
    /// Returns the pieces that open the model's turn as [`Turns::reply`] does, so that the model thinks or does not. A
    /// model that cannot be told that thinks as its format does: see [`Thinking::can`].
    pub fn reply_thinking(&mut self, thinking: &Thinking, think: bool) -> Pieces<'static> {
        let frame = if think { thinking.on.map(|(frame, _)| frame) } else { thinking.off };
        self.reply_with(frame)
    }
}
