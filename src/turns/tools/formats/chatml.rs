//! ChatML, and formats that list tools as Qwen does.

use super::PLAIN;
use crate::tools::CallFormat;
use crate::turns::tools::list::List;
use crate::turns::tools::{Body, Offer, Results, ToolFormat};

/// Results between tags in a turn of the user.
pub(super) const IM_RESULTS: Results = Results {
    open: "<|im_start|>user",
    body: Body::Plain("\n<tool_response>\n", "\n</tool_response>"),
    close: "<|im_end|>\n",
    ..PLAIN.results
};

pub(super) const QWEN3: ToolFormat = ToolFormat {
    name: "qwen3",
    turns: &["qwen3"],
    offer: Offer::InSystem("", "\n\n"),
    before: concat!(
        "# Tools\n\nYou may call one or more functions to assist with the user query.\n\n",
        "You are provided with function signatures within <tools></tools> XML tags:\n<tools>"
    ),
    list: List::Lines,
    after: concat!(
        "\n</tools>\n\nFor each function call, return a json object with function name and arguments within ",
        "<tool_call></tool_call>",
        " XML tags:\n",
        "<tool_call>",
        "\n{\"name\": <function-name>, \"arguments\": <args-json-object>}\n",
        "</tool_call>"
    ),
    joint: "\n",
    results: IM_RESULTS,
    ..PLAIN
};

/// MiniCPM 5. The list of tools is at the end of a system message, even if it contains `<tool_def_sep>`.
pub(super) const MINICPM5: ToolFormat = ToolFormat {
    name: "minicpm5",
    turns: &["minicpm5"],
    calls: CallFormat::MiniCpm5,
    before: "# Tools\n\nYou are provided with function signatures within <tools></tools> XML tags:\n<tools>",
    after: concat!(
        "\n</tools>\n\nTool usage guidelines:\n- You may call zero or more functions. If no function calls are needed, just ",
        "answer normally and do not include any <function ... </function>.\n- When calling a function, return an XML object ",
        "within <function ... </function> using:\n<function name=\"function-name\"><param name=\"param-name\">param-value",
        "</param></function>\n- param-value may be multi-line. If it contains <, & or newline characters, wrap it in a CDATA ",
        "block: <param name=\"param-name\"><![CDATA[...multi-line value...]]></param>"
    ),
    ..QWEN3
};

pub(super) const QWEN2_5: ToolFormat = ToolFormat { name: "qwen2.5", turns: &["qwen2.5", "mimo"], ..QWEN3 };

pub(super) const QWEN3_5: ToolFormat = ToolFormat {
    name: "qwen3.5",
    turns: &["qwen3.5", "qwen3.5-small"],
    calls: CallFormat::Qwen3_5,
    offer: Offer::BeforeText("\n\n"),
    before: "# Tools\n\nYou have access to the following functions:\n\n<tools>",
    after: concat!(
        "\n</tools>\n\nIf you choose to call a function ONLY reply in the following format with NO suffix:\n\n",
        "<tool_call>",
        "\n<function=example_function_name>\n<parameter=example_parameter_1>\nvalue_1\n</parameter>\n",
        "<parameter=example_parameter_2>\nThis is the value for the second parameter\nthat can span\nmultiple lines\n",
        "</parameter>\n</function>\n",
        "</tool_call>",
        "\n\n<IMPORTANT>\nReminder:\n- Function calls MUST follow the specified format: an inner ",
        "<function=...></function> block must be nested within ",
        "<tool_call></tool_call>",
        " XML tags\n- Required parameters MUST be specified\n",
        "- You may provide optional reasoning for your function call in natural language BEFORE the function call, but ",
        "NOT after\n- If there is no function call available, answer the question like normal with your current ",
        "knowledge and do not tell the user about function calls\n</IMPORTANT>"
    ),
    joint: "\n\n",
    ..QWEN3
};

/// Nemotron 3: the list is in tags, and all other texts are as in Qwen3.5.
pub(super) const NEMOTRON3: ToolFormat = ToolFormat {
    name: "nemotron3",
    turns: &["nemotron3"],
    offer: Offer::InSystem("", "\n\n"),
    list: List::Tags,
    joint: "\n",
    lone: "\n",
    close_calls: "\n",
    results: Results {
        open: "<|im_start|>user\n",
        body: Body::Plain("<tool_response>\n", "\n</tool_response>\n"),
        ..IM_RESULTS
    },
    ..QWEN3_5
};

/// Qwen3-Coder: the list is in tags, and members stay in their order.
pub(super) const QWEN3_CODER: ToolFormat = ToolFormat {
    name: "qwen3-coder",
    turns: &["qwen3-coder"],
    default: Some("You are Qwen, a helpful AI assistant that can interact with a computer to solve tasks."),
    before: "# Tools\n\nYou have access to the following tools:\n\n<tools>",
    list: List::TagsInOrder,
    after: concat!(
        "\n</tools>\n\nIf you choose to call a tool ONLY reply in the following format with NO suffix:\n\n",
        "<tool_call>",
        "\n<function=example_function_name>\n<parameter=example_parameter_1>\nvalue_1\n</parameter>\n",
        "<parameter=example_parameter_2>\nvalue_2\n</parameter>\n</function>\n",
        "</tool_call>",
        "\n\n<IMPORTANT>\nReminder:\n- Function calls MUST follow the specified format: the tool calling block MUST ",
        "begin with an opening ",
        "<tool_call>",
        " tag and end with a closing ",
        "</tool_call>",
        " tag.\n- Required parameters MUST be specified\n",
        "- You may provide optional reasoning for your function call in natural language BEFORE the function call, but ",
        "NOT after\n- If there is no function call available, answer the question like normal with your current ",
        "knowledge and do not tell the user about function calls\n</IMPORTANT>"
    ),
    joint: "\n\n",
    lone: "",
    close_calls: "",
    ..NEMOTRON3
};

/// Bielik 3.
pub(super) const BIELIK: ToolFormat = ToolFormat {
    name: "bielik",
    turns: &["bielik"],
    offer: Offer::InSystem("", ""),
    before: concat!(
        "\n\nMasz dostęp do następujących narzędzi. Definicje narzędzi znajdują się poniżej wewnątrz znaczników ",
        "<|function_list|>:\n<|function_list|>\n"
    ),
    list: List::ArrayLines,
    after: concat!(
        "\n<|function_list|>\n\nAby wywołać narzędzie, użyj formatu ",
        "<tool_call>",
        "{\"name\": \"nazwa_narzędzia\", \"arguments\": {\"argument\": \"wartość\"}}",
        "</tool_call>",
        ". Wyniki działania narzędzi zostaną przekazane z markerem <|function_output|>.\n"
    ),
    lone: "\n",
    results: Results { open: "<|im_start|>user\n", body: Body::Plain("<|function_output|>", ""), ..IM_RESULTS },
    ..QWEN3
};

/// SmolLM3, thinking. Tools are written as its template writes `xml_tools`, without today's date.
pub(super) const SMOLLM3: ToolFormat = ToolFormat {
    name: "smollm3",
    turns: &["smollm3"],
    signs: &["xml_tools"],
    offer: Offer::InSystem("", "\n\n"),
    after_system: Some("<|im_end|>\n"),
    before: concat!(
        "### Tools\n\nYou may call one or more functions to assist with the user query.\n",
        "You are provided with function signatures within <tools></tools> XML tags:\n\n<tools>\n"
    ),
    list: List::Python,
    after: concat!(
        "</tools>\n\nFor each function call, return a json object with function name and arguments within ",
        "<tool_call></tool_call>",
        " XML tags:\n",
        "<tool_call>",
        "\n{\"name\": <function-name>, \"arguments\": <args-json-object>}\n",
        "</tool_call>",
        "\n\n"
    ),
    joint: "\n",
    results: Results { body: Body::Plain("<|im_start|>user\n", "<|im_end|>\n"), ..PLAIN.results },
    ..PLAIN
};

pub(super) const EXAONE4: ToolFormat = ToolFormat {
    name: "exaone4",
    turns: &["exaone4"],
    before: concat!(
        "# Available Tools\nYou can use none, one, or multiple of the following tools by calling them as functions to help ",
        "with the user’s query.\nHere are the tools available to you in JSON format within <tool> and </tool> tags:\n"
    ),
    list: List::Tagged,
    after: concat!(
        "\nFor each function call you want to make, return a JSON object with function name and arguments within ",
        "<tool_call> and </tool_call>",
        " tags, like:\n",
        "<tool_call>",
        "{\"name\": function_1_name, \"arguments\": {argument_1_name: argument_1_value, argument_2_name: argument_2_value}}",
        "</tool_call>\n<tool_call>",
        "{\"name\": function_2_name, \"arguments\": {...}}",
        "</tool_call>",
        "\n...\nNote that if no argument name is specified for a tool, you can just print the argument value directly, ",
        "without the argument name or JSON formatting."
    ),
    is_tight: true,
    results: Results {
        open: "[|tool|]\n",
        between: "\n",
        body: Body::Quoted("<tool_result>{\"result\": ", "}</tool_result>"),
        close: "[|endofturn|]\n",
        ..PLAIN.results
    },
    ..QWEN3
};

/// Granite 4.1, whose turns without tools are those of Granite 3.0.
pub(super) const GRANITE_4_1: ToolFormat =
    ToolFormat { name: "granite4.1", turns: &["granite"], signs: &["tools_system_message"], ..GRANITE_4 };

pub(super) const GRANITE_4: ToolFormat = ToolFormat {
    name: "granite4",
    turns: &["granite4"],
    offer: Offer::InSystem("", "\n\n"),
    default: Some(""),
    before: concat!(
        "You are a helpful assistant with access to the following tools. You may call one or more tools to assist with ",
        "the user query.\n\nYou are provided with function signatures within <tools></tools> XML tags:\n<tools>"
    ),
    after: concat!(
        "\n</tools>\n\nFor each tool call, return a json object with function name and arguments within ",
        "<tool_call></tool_call>",
        " XML tags:\n",
        "<tool_call>",
        "\n{\"name\": <function-name>, \"arguments\": <args-json-object>}\n",
        "</tool_call>",
        ". If a tool does not exist in the provided list of tools, notify the user that you do not have the ability to ",
        "fulfill the request."
    ),
    results: Results { open: "<|start_of_role|>user<|end_of_role|>", close: "<|end_of_text|>\n", ..IM_RESULTS },
    ..QWEN3
};

/// LFM2. The template writes no calls. Here they are written as the model was trained to write them.
pub(super) const LFM2: ToolFormat = ToolFormat {
    name: "lfm2",
    turns: &["lfm2"],
    calls: CallFormat::Lfm2,
    offer: Offer::InSystem("", "\n"),
    before: "List of tools: <|tool_list_start|>",
    after: "<|tool_list_end|>",
    results: Results {
        body: Body::Plain("<|im_start|>tool\n<|tool_response_start|>", "<|tool_response_end|><|im_end|>\n"),
        ..PLAIN.results
    },
    ..PLAIN
};

pub(super) const LFM2_5: ToolFormat = ToolFormat {
    name: "lfm2.5",
    turns: &["lfm2.5"],
    before: "List of tools: ",
    after: "",
    results: Results { body: Body::Plain("<|im_start|>tool\n", "<|im_end|>\n"), ..PLAIN.results },
    ..LFM2
};

pub(super) const LFM2_5_A1B: ToolFormat = ToolFormat { name: "lfm2.5-a1b", turns: &["lfm2.5-a1b"], ..LFM2_5 };

/// Hermes 2 Pro and 3.
pub(super) const HERMES_PRO: ToolFormat = ToolFormat { name: "hermes-pro", turns: &["hermes"], none: &[], ..HERMES };

/// Models that are trained on the calls of Hermes, and whose template does not mention tools.
pub(super) const HERMES: ToolFormat = ToolFormat {
    name: "hermes",
    turns: &["chatml"],
    none: &["tools"],
    offer: Offer::BeforeSystem,
    before: concat!(
        "<|im_start|>system\nYou are a function calling AI model. You are provided with function signatures within ",
        "<tools></tools> XML tags. You may call one or more functions to assist with the user query. Don't make ",
        "assumptions about what values to plug into functions. Here are the available tools: <tools> "
    ),
    list: List::Signatures,
    after: concat!(
        " </tools>Use the following pydantic model json schema for each tool call you will make: {\"properties\": ",
        "{\"name\": {\"title\": \"Name\", \"type\": \"string\"}, \"arguments\": {\"title\": \"Arguments\", \"type\": ",
        "\"object\"}}, \"required\": [\"name\", \"arguments\"], \"title\": \"FunctionCall\", \"type\": \"object\"}}\n",
        "For each function call return a json object with function name and arguments within ",
        "<tool_call></tool_call>",
        " XML tags as follows:\n",
        "<tool_call>",
        "\n{\"name\": <function-name>, \"arguments\": <args-dict>}\n",
        "</tool_call>",
        "<|im_end|>\n"
    ),
    joint: "\n",
    results: Results { open: "<|im_start|>tool", close: "<|im_end|>", ..IM_RESULTS },
    ..PLAIN
};
