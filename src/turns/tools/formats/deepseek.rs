//! DeepSeek. The templates of the models do not list tools.

use super::PLAIN;
use crate::tools::CallFormat;
use crate::turns::tools::list::List;
use crate::turns::tools::{Body, Offer, Results, ToolFormat};

/// V3 and R1. The list is written as other programs write it for R1, and calls and results as the template writes them.
pub(super) const DEEPSEEK_R1: ToolFormat = ToolFormat {
    name: "deepseek-r1",
    turns: &["deepseek-r1", "deepseek-v3"],
    calls: CallFormat::DeepSeek,
    offer: Offer::InSystem("", ""),
    before: concat!(
        "\n\nYou are a helpful assistant with tool calling capabilities. When a tool call is needed, you MUST use the ",
        "following format to issue the call:\n",
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>FUNCTION_NAME\n```json\n",
        "{\"param1\": \"value1\", \"param2\": \"value2\"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>\n\n",
        "Make sure the JSON is valid.## Tools\n\n### Function\n\nYou have the following functions available:\n\n"
    ),
    list: List::Blocks,
    results: Results {
        open: "<｜tool▁outputs▁begin｜>",
        between: "\n",
        body: Body::Plain("<｜tool▁output▁begin｜>", "<｜tool▁output▁end｜>"),
        close: "<｜tool▁outputs▁end｜>",
        is_unmarked: true,
        ..PLAIN.results
    },
    ..PLAIN
};

/// V3.1. The list is written as the description of the model writes it.
pub(super) const DEEPSEEK_V3_1: ToolFormat = ToolFormat {
    name: "deepseek-v3.1",
    turns: &["deepseek-v3.1"],
    before: "\n\n## Tools\nYou have access to the following tools:\n\n",
    list: List::Headings,
    after: concat!(
        "IMPORTANT: ALWAYS adhere to this exact format for tool use:\n",
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>tool_call_name<｜tool▁sep｜>tool_call_arguments",
        "<｜tool▁call▁end｜>{{additional_tool_calls}}<｜tool▁calls▁end｜>\n\nWhere:\n\n",
        "- `tool_call_name` must be an exact match to one of the available tools\n",
        "- `tool_call_arguments` must be valid JSON that strictly follows the tool's Parameters Schema\n",
        "- For multiple tool calls, chain them directly without separators or spaces"
    ),
    is_tight: true,
    results: Results {
        body: Body::Plain("<｜tool▁output▁begin｜>", "<｜tool▁output▁end｜>"),
        is_unmarked: true,
        ..PLAIN.results
    },
    ..DEEPSEEK_R1
};
