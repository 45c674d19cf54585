//! DeepSeek. The templates of the models list no tools.

use super::PLAIN;
use crate::tools::CallFormat;
use crate::turns::Piece::Frame as F;
use crate::turns::tools::list::List;
use crate::turns::tools::{Body, Offer, Results, ToolFormat};

/// V3 and R1: the list as other programs write it for R1, calls and results as the template writes them.
pub(super) const DEEPSEEK_R1: ToolFormat = ToolFormat {
    name: "deepseek-r1",
    turns: &["deepseek-r1", "deepseek-v3"],
    calls: CallFormat::DeepSeek,
    offer: Offer::InSystem(&[], &[]),
    before: &[
        F(
            "\n\nYou are a helpful assistant with tool calling capabilities. When a tool call is needed, you MUST use the ",
        ),
        F("following format to issue the call:\n"),
        F("<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>FUNCTION_NAME\n```json\n"),
        F("{\"param1\": \"value1\", \"param2\": \"value2\"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>\n\n"),
        F("Make sure the JSON is valid.## Tools\n\n### Function\n\nYou have the following functions available:\n\n"),
    ],
    list: List::Blocks,
    results: Results {
        open: &[F("<｜tool▁outputs▁begin｜>")],
        between: &[F("\n")],
        body: Body::Plain(&[F("<｜tool▁output▁begin｜>")], &[F("<｜tool▁output▁end｜>")]),
        close: &[F("<｜tool▁outputs▁end｜>")],
        is_unmarked: true,
        ..PLAIN.results
    },
    ..PLAIN
};

/// V3.1: the list as the description of the model has it.
pub(super) const DEEPSEEK_V3_1: ToolFormat = ToolFormat {
    name: "deepseek-v3.1",
    turns: &["deepseek-v3.1"],
    before: &[F("\n\n## Tools\nYou have access to the following tools:\n\n")],
    list: List::Headings,
    after: &[
        F("IMPORTANT: ALWAYS adhere to this exact format for tool use:\n"),
        F("<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>tool_call_name<｜tool▁sep｜>tool_call_arguments"),
        F("<｜tool▁call▁end｜>{{additional_tool_calls}}<｜tool▁calls▁end｜>\n\nWhere:\n\n"),
        F("- `tool_call_name` must be an exact match to one of the available tools\n"),
        F("- `tool_call_arguments` must be valid JSON that strictly follows the tool's Parameters Schema\n"),
        F("- For multiple tool calls, chain them directly without separators or spaces"),
    ],
    is_tight: true,
    results: Results {
        body: Body::Plain(&[F("<｜tool▁output▁begin｜>")], &[F("<｜tool▁output▁end｜>")]),
        is_unmarked: true,
        ..PLAIN.results
    },
    ..DEEPSEEK_R1
};
