//! Formats of other families.

use super::PLAIN;
use crate::tools::CallFormat;
use crate::turns::tools::list::List;
use crate::turns::tools::{Body, Offer, Results, ToolFormat, gemma};

/// Granite 3.3. The template writes no calls. Here they are written as the model was told to write them.
pub(super) const GRANITE_3_3: ToolFormat = ToolFormat {
    name: "granite3.3",
    turns: &["granite3.3"],
    default: Some(
        "Knowledge Cutoff Date: April 2024. You are Granite, developed by IBM. You are a helpful assistant with access \
         to the following tools. When a tool is required to answer the user's query, respond only with <|tool_call|> \
         followed by a JSON list of tools used. If a tool does not exist in the provided list of tools, notify the user \
         that you do not have the ability to fulfill the request.",
    ),
    ..GRANITE_3
};

/// Granite 3.1. The template writes no calls. Here they are written as the model was told to write them.
pub(super) const GRANITE_3: ToolFormat = ToolFormat {
    name: "granite3",
    turns: &["granite3.1"],
    calls: CallFormat::Granite3,
    default: Some(
        "Knowledge Cutoff Date: April 2024.\nYou are Granite, developed by IBM. You are a helpful assistant with access \
         to the following tools. When a tool is required to answer the user's query, respond only with <|tool_call|> \
         followed by a JSON list of tools used. If a tool does not exist in the provided list of tools, notify the user \
         that you do not have the ability to fulfill the request.",
    ),
    before: "<|start_of_role|>available_tools<|end_of_role|>",
    list: List::Indented,
    after: "<|end_of_text|>\n",
    results: Results {
        open: "",
        body: Body::Plain("<|start_of_role|>tool<|end_of_role|>", "<|end_of_text|>\n"),
        ..PLAIN.results
    },
    ..PLAIN
};

pub(super) const LLAMA3_1: ToolFormat = ToolFormat {
    name: "llama3.1",
    turns: &["llama3.1"],
    calls: CallFormat::Llama3,
    offer: Offer::InUser,
    before_system: Some(concat!(
        "<|start_header_id|>system<|end_header_id|>\n\nEnvironment: ipython\n",
        "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n"
    )),
    before: concat!(
        "Given the following functions, please respond with a JSON for a function call with its proper arguments that ",
        "best answers the given prompt.\n\nRespond in the format {\"name\": function name, \"parameters\": dictionary of ",
        "argument name and its value}.Do not use variables.\n\n"
    ),
    list: List::IndentedEach,
    results: Results {
        body: Body::Quoted("<|start_header_id|>ipython<|end_header_id|>\n\n", "<|eot_id|>"),
        ..PLAIN.results
    },
    ..PLAIN
};

/// Mistral v3 with Tekken. The template lists the tools before the last message of the user. Here they stay before the
/// first one, so that turns can be appended.
pub(super) const MISTRAL_V3_TEKKEN: ToolFormat = ToolFormat {
    name: "mistral-v3-tekken",
    turns: &["mistral-v3-tekken"],
    calls: CallFormat::MistralV3,
    before: "[AVAILABLE_TOOLS]",
    after: "[/AVAILABLE_TOOLS]",
    results: Results { body: Body::WithId("[TOOL_RESULTS]", "[/TOOL_RESULTS]"), ..PLAIN.results },
    ..PLAIN
};

/// Mistral v3 with a SentencePiece vocabulary, which has a blank after each mark.
pub(super) const MISTRAL_V3: ToolFormat = ToolFormat {
    name: "mistral-v3",
    turns: &["mistral-v3", "mistral-v7"],
    open_calls: Some("[TOOL_CALLS] ["),
    before: "[AVAILABLE_TOOLS] ",
    results: Results { body: Body::WithId("[TOOL_RESULTS] ", "[/TOOL_RESULTS]"), ..PLAIN.results },
    ..MISTRAL_V3_TEKKEN
};

pub(super) const MISTRAL_V7: ToolFormat =
    ToolFormat { name: "mistral-v7-tekken", turns: &["mistral-v7-tekken"], ..MISTRAL_V3_TEKKEN };

pub(super) const MISTRAL_V11: ToolFormat = ToolFormat {
    name: "mistral-v11",
    turns: &["mistral-v7-tekken"],
    signs: &["[CALL_ID]"],
    calls: CallFormat::MistralV11,
    results: Results { body: Body::AfterId("[TOOL_RESULTS]", "[TOOL_CONTENT]", "[/TOOL_RESULTS]"), ..PLAIN.results },
    ..MISTRAL_V7
};

pub(super) const MISTRAL_V13: ToolFormat = ToolFormat {
    name: "mistral-v13",
    turns: &["mistral-v7-tekken", "ministral3-reasoning"],
    signs: &["[ARGS]"],
    calls: CallFormat::MistralV13,
    results: Results { body: Body::Plain("[TOOL_RESULTS]", "[/TOOL_RESULTS]"), ..PLAIN.results },
    ..MISTRAL_V7
};

pub(super) const GEMMA4: ToolFormat = ToolFormat {
    name: "gemma4",
    turns: &["gemma4", "gemma4-e"],
    // Templates with this part write results as turns of their own.
    none: &["last_user_message"],
    calls: CallFormat::Gemma4,
    offer: Offer::InSystem("", ""),
    list: List::Gemma(&gemma::GEMMA4),
    results: Results { body: Body::Gemma(&gemma::GEMMA4), is_inside: true, ..PLAIN.results },
    ..PLAIN
};

pub(super) const FUNCTION_GEMMA: ToolFormat = ToolFormat {
    name: "functiongemma",
    turns: &["functiongemma"],
    none: &[],
    calls: CallFormat::FunctionGemma,
    list: List::Gemma(&gemma::FUNCTION),
    results: Results { body: Body::Gemma(&gemma::FUNCTION), is_inside: true, ..PLAIN.results },
    ..GEMMA4
};

pub(super) const HARMONY: ToolFormat = ToolFormat {
    name: "harmony",
    turns: &["harmony"],
    calls: CallFormat::Harmony,
    offer: Offer::InSystem("# Instructions\n\n", "\n\n"),
    start: Some(concat!(
        "<|start|>system<|message|>You are ChatGPT, a large language model trained by OpenAI.\n",
        "Knowledge cutoff: 2024-06\n\nReasoning: medium\n\n",
        "# Valid channels: analysis, commentary, final. Channel must be included for every message.\n",
        "Calls to these tools must go to the commentary channel: 'functions'.<|end|>"
    )),
    before_system: Some("<|start|>developer<|message|>"),
    after_system: Some("<|end|>"),
    before: "# Tools\n\n## functions\n\nnamespace functions {\n\n",
    list: List::Namespace,
    after: "} // namespace functions",
    results: Results { close_call: Some("<|call|>"), body: Body::Recipient, ..PLAIN.results },
    ..PLAIN
};

pub(super) const KIMI_K2: ToolFormat = ToolFormat {
    name: "kimi-k2",
    turns: &["kimi-k2", "kimi-k2-thinking"],
    calls: CallFormat::KimiK2,
    offer: Offer::BeforeSystem,
    before: "<|im_system|>tool_declare<|im_middle|>",
    after: "<|im_end|>",
    results: Results {
        body: Body::AfterId("<|im_system|>tool<|im_middle|>## Return of ", "\n", "<|im_end|>"),
        ..PLAIN.results
    },
    ..PLAIN
};

/// GLM 4.5 and 4.6.
pub(super) const GLM4_5: ToolFormat = ToolFormat {
    name: "glm4.5",
    turns: &["glm4.5"],
    calls: CallFormat::Glm4_5,
    offer: Offer::BeforeSystem,
    before: concat!(
        "<|system|>\n# Tools\n\nYou may call one or more functions to assist with the user query.\n\n",
        "You are provided with function signatures within <tools></tools> XML tags:\n<tools>\n"
    ),
    list: List::LinesAfter,
    after: concat!(
        "</tools>\n\nFor each function call, output the function name and arguments within the following XML format:\n",
        "<tool_call>",
        "{function-name}\n",
        "<arg_key>",
        "{arg-key-1}",
        "</arg_key>\n<arg_value>",
        "{arg-value-1}",
        "</arg_value>\n<arg_key>",
        "{arg-key-2}",
        "</arg_key>\n<arg_value>",
        "{arg-value-2}",
        "</arg_value>\n",
        "...\n",
        "</tool_call>"
    ),
    joint: "\n",
    results: Results {
        open: "<|observation|>",
        body: Body::Plain("\n<tool_response>\n", "\n</tool_response>"),
        ..PLAIN.results
    },
    ..PLAIN
};

/// GLM 4.7: as GLM 4.5, without line ends.
pub(super) const GLM4_7: ToolFormat = ToolFormat {
    name: "glm4.7",
    turns: &["glm4.7"],
    after: concat!(
        "</tools>\n\nFor each function call, output the function name and arguments within the following XML format:\n",
        "<tool_call>",
        "{function-name}",
        "<arg_key>",
        "{arg-key-1}",
        "</arg_key><arg_value>",
        "{arg-value-1}",
        "</arg_value><arg_key>",
        "{arg-key-2}",
        "</arg_key><arg_value>",
        "{arg-value-2}",
        "</arg_value>",
        "...",
        "</tool_call>"
    ),
    joint: "",
    is_tight: true,
    results: Results {
        open: "<|observation|>",
        body: Body::Plain("<tool_response>", "</tool_response>"),
        ..PLAIN.results
    },
    ..GLM4_5
};

/// Spark X2.5.
pub(super) const SPARK2_5: ToolFormat = ToolFormat {
    name: "spark2.5",
    turns: &["spark2.5"],
    calls: CallFormat::Glm4_5,
    offer: Offer::BeforeSystem,
    before: "## Tools\nYou have access to the following functions:\n<tools>",
    list: List::FunctionLines,
    after: "\n</tools>",
    is_tight: true,
    results: Results {
        open: "<｜end▁of▁sentence｜><｜start▁of▁sentence｜><|Tool|>",
        body: Body::Plain("<tool_response>", "</tool_response>"),
        ..PLAIN.results
    },
    ..PLAIN
};

pub(super) const NEMOTRON_NANO_V2: ToolFormat = ToolFormat {
    name: "nemotron-nano-v2",
    turns: &["nemotron-nano-v2"],
    calls: CallFormat::Nemotron,
    offer: Offer::InSystem("", "\n\n"),
    default: Some(""),
    before: "You can use the following tools to assist the user if required:\n<AVAILABLE_TOOLS>",
    list: List::Functions,
    after: concat!(
        "</AVAILABLE_TOOLS>\n\nIf you decide to call any tool(s), use the following format:\n",
        "<TOOLCALL>[{{\"name\": \"tool_name1\", \"arguments\": \"tool_args1\"}}, ",
        "{{\"name\": \"tool_name2\", \"arguments\": \"tool_args2\"}}]</TOOLCALL>\n\n",
        "The user will execute tool-calls and return responses from tool(s) in this format:\n",
        "<TOOL_RESPONSE>[{{\"tool_response1\"}}, {{\"tool_response2\"}}]</TOOL_RESPONSE>\n\n",
        "Based on the tool responses, you can call additional tools if needed, correct tool calls if any errors are ",
        "found, or just respond to the user."
    ),
    joint: "\n",
    results: Results {
        open: "<SPECIAL_11>User\n<TOOL_RESPONSE>[",
        between: ", ",
        close: "]</TOOL_RESPONSE>",
        ..PLAIN.results
    },
    ..PLAIN
};

/// Apertus, not thinking.
pub(super) const APERTUS: ToolFormat = ToolFormat {
    name: "apertus",
    turns: &["apertus"],
    calls: CallFormat::Apertus,
    offer: Offer::InSystem("", ""),
    after_system: Some("<|developer_end|>"),
    before: "<|system_end|><|developer_start|>Deliberation: disabled\nTool Capabilities:\n",
    list: List::Typed,
    results: Results {
        open: "[",
        between: ", ",
        close: "]",
        is_inside: true,
        again: "<|assistant_start|>",
        ..PLAIN.results
    },
    ..PLAIN
};

pub(super) const SEED_OSS: ToolFormat = ToolFormat {
    name: "seed-oss",
    turns: &["seed-oss"],
    calls: CallFormat::SeedOss,
    offer: Offer::InSystem("", ""),
    default: Some(
        "You are Doubao, a helpful AI assistant. You may call one or more functions to assist with the user query.",
    ),
    list: List::Definitions,
    after: concat!(
        "\n工具调用请遵循如下格式:\n",
        "<seed:tool_call>",
        "\n<function=example_function_name>\n<parameter=example_parameter_1>value_1</parameter>\n",
        "<parameter=example_parameter_2>This is the value for the second parameter\nthat can span\nmultiple lines",
        "</parameter>\n</function>\n",
        "</seed:tool_call>",
        "\n"
    ),
    joint: "\n\n",
    results: Results { body: Body::Plain("<seed:bos>tool\n", "<seed:eos>"), ..PLAIN.results },
    ..PLAIN
};

pub(super) const PHI4_MINI: ToolFormat = ToolFormat {
    name: "phi4-mini",
    turns: &["phi4-mini"],
    calls: CallFormat::Phi4Mini,
    offer: Offer::InSystem("", ""),
    before: "<|tool|>",
    list: List::Functions,
    after: "<|/tool|>",
    results: Results { body: Body::Plain("<|tool_response|>", "<|end|>"), ..PLAIN.results },
    ..PLAIN
};
