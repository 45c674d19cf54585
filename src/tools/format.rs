//! The formats in which models write calls.

use core::fmt;

use super::call::Style;

/// A format in which models call tools.
///
/// [Example](crate::tools#example).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallFormat {
    /// `<tool_call>\n{"name": N, "arguments": {...}}\n</tool_call>`: Qwen 2.5 and 3, Hermes, Granite 4, SmolLM3, EXAONE 4.
    Hermes,
    /// `{"name": N, "parameters": {...}}`, also after `<|python_tag|>`: Llama 3.1 to 3.3.
    Llama3,
    /// `[TOOL_CALLS][{"name": N, "arguments": {...}, "id": "..."}, ...]`: Mistral 7B v0.3, Nemo, Small 3.
    MistralV3,
    /// `[TOOL_CALLS]N[CALL_ID]id[ARGS]{...}`, once for each call: Mistral Small 3.2.
    MistralV11,
    /// `[TOOL_CALLS]N[ARGS]{...}`, once for each call: Ministral 3.
    MistralV13,
    /// `<|tool_call_start|>[N(k="v", b=True), ...]<|tool_call_end|>`: LFM2 and LFM2.5.
    Lfm2,
    /// `<|tool_call|>[{"name": N, "arguments": {...}}, ...]`: Granite 3.
    Granite3,
    /// `<|tool_call>call:N{k:<|"|>v<|"|>,n:3}<tool_call|>`, once for each call: Gemma 4.
    Gemma4,
    /// `<start_function_call>call:N{k:<escape>v<escape>}<end_function_call>`, once for each call: FunctionGemma.
    FunctionGemma,
    /// `<|tool_call|>[{"name": N, "arguments": {...}}]<|/tool_call|>`, also after `functools`: Phi-4-mini.
    Phi4Mini,
    /// ` to=functions.N<|channel|>commentary json<|message|>{...}`: gpt-oss.
    Harmony,
    /// `<tool_call>\n<function=N>\n<parameter=k>\nv\n</parameter>\n</function>\n</tool_call>`: Qwen3.5, Qwen3-Coder,
    /// Nemotron 3.
    Qwen3_5,
    /// `<tool_call>N\n<arg_key>k</arg_key>\n<arg_value>v</arg_value>\n</tool_call>`: GLM 4.5 to 4.7, and Spark X2.5
    /// without line ends.
    Glm4_5,
    /// `<|tool_call_begin|>functions.N:0<|tool_call_argument_begin|>{...}<|tool_call_end|>` in a section: Kimi K2.
    KimiK2,
    /// `<TOOLCALL>[{"name": N, "arguments": {...}}, ...]</TOOLCALL>`: Nemotron Nano v2.
    Nemotron,
    /// `<seed:tool_call>\n<function=N>\n<parameter=k>v</parameter>\n</function>\n</seed:tool_call>`: Seed-OSS.
    SeedOss,
    /// `<function name="N"><param name="k">v</param></function>`: MiniCPM 5. A text with `<`, `&` or a line end is
    /// between `<![CDATA[` and `]]>`.
    MiniCpm5,
    /// `<|tools_prefix|>[{"N": {...}}, ...]<|tools_suffix|>`: Apertus.
    Apertus,
    /// A call between `<｜tool▁call▁begin｜>` and `<｜tool▁call▁end｜>`: `function<｜tool▁sep｜>N`, and the arguments as a
    /// block of JSON in Markdown (DeepSeek V3 and R1), or `N<｜tool▁sep｜>{...}` (V3.1).
    DeepSeek,
}

/// The marks that a model writes around its thoughts.
///
/// [Example](crate::tools#example).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThoughtMarks {
    /// The mark before a thought.
    pub open: &'static str,
    /// The mark after a thought.
    pub close: &'static str,
}

impl ThoughtMarks {
    /// `<think>` and `</think>`, which most models write.
    pub const THINK: Self = Self { open: "<think>", close: "</think>" };
    /// `<|channel>thought` and `<channel|>`, which Gemma 4 writes.
    pub const CHANNEL: Self = Self { open: "<|channel>thought", close: "<channel|>" };
    /// `[THINK]` and `[/THINK]`, which Ministral 3 writes.
    pub const BRACKETS: Self = Self { open: "[THINK]", close: "[/THINK]" };
    /// `<seed:think>` and `</seed:think>`, which Seed-OSS writes.
    pub const SEED: Self = Self { open: "<seed:think>", close: "</seed:think>" };
}

impl CallFormat {
    /// All formats.
    pub const ALL: &'static [Self] = &[
        Self::Hermes,
        Self::Llama3,
        Self::MistralV3,
        Self::MistralV11,
        Self::MistralV13,
        Self::Lfm2,
        Self::Granite3,
        Self::Gemma4,
        Self::FunctionGemma,
        Self::Phi4Mini,
        Self::Harmony,
        Self::Qwen3_5,
        Self::Glm4_5,
        Self::KimiK2,
        Self::Nemotron,
        Self::DeepSeek,
        Self::SeedOss,
        Self::MiniCpm5,
        Self::Apertus,
    ];

    /// Returns the name of the format, in lower case.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hermes => "hermes",
            Self::Llama3 => "llama3",
            Self::MistralV3 => "mistral-v3",
            Self::MistralV11 => "mistral-v11",
            Self::MistralV13 => "mistral-v13",
            Self::Lfm2 => "lfm2",
            Self::Granite3 => "granite3",
            Self::Gemma4 => "gemma4",
            Self::FunctionGemma => "functiongemma",
            Self::Phi4Mini => "phi4-mini",
            Self::Harmony => "harmony",
            Self::Qwen3_5 => "qwen3.5",
            Self::Glm4_5 => "glm4.5",
            Self::KimiK2 => "kimi-k2",
            Self::Nemotron => "nemotron",
            Self::DeepSeek => "deepseek",
            Self::SeedOss => "seed-oss",
            Self::MiniCpm5 => "minicpm5",
            Self::Apertus => "apertus",
        }
    }

    /// Returns the format with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|format| format.name() == name)
    }

    /// Returns the marks that begin a call or a list of calls.
    pub(crate) fn opens(self) -> &'static [&'static str] {
        match self {
            Self::Hermes | Self::Qwen3_5 | Self::Glm4_5 => &["<tool_call>"],
            Self::Llama3 => &["<|python_tag|>"],
            Self::MistralV3 | Self::MistralV11 | Self::MistralV13 => &["[TOOL_CALLS]"],
            Self::Lfm2 => &["<|tool_call_start|>"],
            Self::Granite3 => &["<|tool_call|>", "<tool_call>"],
            Self::Gemma4 => &["<|tool_call>"],
            Self::FunctionGemma => &["<start_function_call>"],
            Self::Phi4Mini => &["<|tool_call|>", "functools"],
            Self::Harmony => &[],
            Self::KimiK2 => &["<|tool_call_begin|>"],
            Self::Nemotron => &["<TOOLCALL>"],
            Self::DeepSeek => &["<｜tool▁call▁begin｜>"],
            Self::SeedOss => &["<seed:tool_call>"],
            Self::MiniCpm5 => &["<function name=\""],
            Self::Apertus => &["<|tools_prefix|>"],
        }
    }

    /// Returns the mark that ends a call or a list of calls.
    pub(crate) fn close(self) -> Option<&'static str> {
        match self {
            Self::Hermes | Self::Qwen3_5 | Self::Glm4_5 => Some("</tool_call>"),
            Self::Llama3 | Self::MistralV3 | Self::MistralV11 | Self::MistralV13 | Self::Granite3 => None,
            Self::Lfm2 => Some("<|tool_call_end|>"),
            Self::Gemma4 => Some("<tool_call|>"),
            Self::FunctionGemma => Some("<end_function_call>"),
            Self::Phi4Mini => Some("<|/tool_call|>"),
            Self::Harmony => Some("<|end|>"),
            Self::KimiK2 => Some("<|tool_call_end|>"),
            Self::Nemotron => Some("</TOOLCALL>"),
            Self::DeepSeek => Some("<｜tool▁call▁end｜>"),
            Self::SeedOss => Some("</seed:tool_call>"),
            Self::MiniCpm5 => Some("</function>"),
            Self::Apertus => Some("<|tools_suffix|>"),
        }
    }

    /// Returns further marks around calls, which belong to no part of a text.
    pub(crate) fn fillers(self) -> &'static [&'static str] {
        match self {
            Self::KimiK2 => &["<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"],
            Self::DeepSeek => &["<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"],
            // A model that goes on after a call begins to write the response to it itself.
            Self::Gemma4 => &["<|tool_response>"],
            Self::FunctionGemma => &["<start_function_response>"],
            _ => &[],
        }
    }

    /// Returns the marks that end a message, after which another message of the same turn may follow.
    pub(crate) fn message_ends(self) -> &'static [&'static str] {
        match self {
            Self::Harmony => &["<|end|>", "<|call|>", "<|return|>", "<|start|>"],
            _ => &[],
        }
    }

    /// Returns further marks in calls, which a vocabulary may have as tokens.
    #[cfg(feature = "grammar")]
    fn inner_marks(self) -> &'static [&'static str] {
        match self {
            Self::MistralV11 => &["[CALL_ID]", "[ARGS]"],
            Self::MistralV13 => &["[ARGS]"],
            Self::Gemma4 => &["<|\"|>"],
            Self::FunctionGemma => &["<escape>"],
            Self::Harmony => &["<|channel|>", "<|constrain|>", "<|message|>"],
            Self::Glm4_5 => &["<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"],
            Self::KimiK2 => &["<|tool_call_argument_begin|>"],
            Self::DeepSeek => &["<｜tool▁sep｜>"],
            _ => &[],
        }
    }

    /// Returns all marks that a call of the format can have.
    #[cfg(feature = "grammar")]
    pub(crate) fn marks(self) -> impl Iterator<Item = &'static str> {
        let lists = [self.opens(), self.fillers(), self.message_ends(), self.inner_marks()];
        lists.into_iter().flatten().copied().chain(self.close())
    }

    /// Returns how calls are written after the mark.
    pub(super) fn style(self) -> Option<Style> {
        Some(match self {
            Self::MistralV3 | Self::MistralV11 | Self::MistralV13 => Style::Mistral,
            Self::Lfm2 => Style::Python,
            Self::Gemma4 => Style::Gemma("<|\"|>"),
            Self::FunctionGemma => Style::Gemma("<escape>"),
            Self::KimiK2 => Style::Kimi,
            Self::DeepSeek => Style::DeepSeek,
            Self::MiniCpm5 => Style::Quoted,
            Self::Apertus => Style::Keyed,
            Self::Harmony => return None,
            _ => Style::Json,
        })
    }
}

impl fmt::Display for CallFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
