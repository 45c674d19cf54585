//! How models are told to think or not to think, and how their thoughts are written.

use super::pieces::{Frame, Pieces};
use super::{TurnFormat, Turns};
use crate::tools::ThoughtMarks;

/// How a model that thinks before it answers writes its thoughts, and how its turn is opened with or without them.
///
/// [Example](crate::turns#tools).
#[derive(Debug, PartialEq, Eq)]
pub struct Thinking {
    /// Names of the turn formats whose models think in this way.
    turns: &'static [&'static str],
    marks: ThoughtMarks,
    /// Frame that opens the assistant's turn so that the model thinks, and whether it also opens the thought.
    on: Option<(Frame, bool)>,
    /// Frame that opens the assistant's turn so that the model does not think.
    off: Option<Frame>,
    /// Whether the model thinks if it is not told anything.
    is_on: bool,
    /// Frames of a turn of the assistant with a thought: the one that opens the turn, and those before and after the
    /// thought.
    pub(super) around: Option<(Frame, Frame, Frame)>,
    /// Whether the template also writes the thoughts of earlier turns.
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
    // The model decides whether it thinks, unless it is told not to.
    Thinking { turns: &["minicpm5"], off: QWEN3_5.off, around: LINES, ..ALWAYS },
    // The system turn says whether these models think.
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
    // The reply is opened without a thought. The system turn says whether the model thinks.
    Thinking { turns: &["gemma4"], marks: ThoughtMarks::CHANNEL, is_on: false, ..ALWAYS },
    Thinking { turns: &["gemma4-e"], marks: ThoughtMarks::CHANNEL, is_on: false, ..ALWAYS },
    Thinking { turns: &["ministral3-reasoning"], marks: ThoughtMarks::BRACKETS, ..ALWAYS },
    // A system turn of its own tells the model its budget of thoughts, which may be zero.
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

    /// Returns the marks that the model writes around its thoughts.
    pub fn marks(&self) -> ThoughtMarks {
        self.marks
    }

    /// Returns whether the model thinks if it is not told anything.
    pub fn is_on(&self) -> bool {
        self.is_on
    }

    /// Returns whether the frame that opens the model's turn can tell it to think (`true`) or not to (`false`).
    pub fn can(&self, think: bool) -> bool {
        if think { self.on.is_some() || self.is_on } else { self.off.is_some() || !self.is_on }
    }

    /// Returns whether the model's turn is opened inside of a thought. `think` is whether the model is told to think,
    /// or `None` if the format decides.
    pub fn opens_thought(&self, think: Option<bool>) -> bool {
        let thinks = think.filter(|think| if *think { self.on.is_some() } else { self.off.is_some() });
        thinks.unwrap_or(self.is_on) && self.on.is_some_and(|(_, is_open)| is_open)
    }
}

impl Turns {
    /// Returns the pieces that open the model's turn as [`Turns::reply`] does, so that the model thinks or does not. If
    /// the model cannot be told so (see [`Thinking::can`]), its format decides.
    pub fn reply_thinking(&mut self, thinking: &Thinking, think: bool) -> Pieces<'static> {
        let frame = if think { thinking.on.map(|(frame, _)| frame) } else { thinking.off };
        self.reply_with(frame)
    }
}
