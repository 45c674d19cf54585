//! Conversations with tools are written as the models' templates write them (`tests/data/tools`).

use std::convert::Infallible;
use std::path::Path;

use gleed::tools::{CallFormat, Part, Reader, Tools};
use gleed::turns::{Answer, Message, Piece, Role, Thinking, ToolCall, ToolFormat, ToolResult, ToolTurns, TurnFormat};
use serde_json::Value;

fn lines(name: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/tools").join(name);
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Returns the turn format and the tool format of a family in the rows.
fn formats(family: &str) -> (&'static TurnFormat, &'static ToolFormat) {
    let (turns, tools) = match family {
        "hermes3" => ("chatml", "hermes"),
        "llama3.2" => ("llama3.1", "llama3.1"),
        "mistral-nemo" => ("mistral-v3-tekken", "mistral-v3-tekken"),
        "mistral-small3.2" => ("mistral-v7-tekken", "mistral-v11"),
        "granite3.3" => ("granite3.1", "granite3"),
        "gpt-oss" => ("harmony", "harmony"),
        "kimi-k2-thinking" => ("kimi-k2-thinking", "kimi-k2"),
        other => (other, other),
    };
    (TurnFormat::named(turns).unwrap(), ToolFormat::named(tools).unwrap())
}

/// Returns a function that appends the text of pieces. BOS and EOS have the names that most vocabularies give them.
fn taker(text: &mut String) -> impl FnMut(Piece<'_>) -> Result<(), Infallible> + '_ {
    |piece| {
        text.push_str(piece.text("<s>", "</s>"));
        Ok(())
    }
}

/// Removes the dates that templates write and formats leave out, because formats have no clock. Also gives BOS one
/// name.
fn without_dates(prompt: &str) -> String {
    let mut text = prompt.to_owned();
    for bos in ["<|begin_of_text|>", "<|startoftext|>", "<bos>"] {
        if let Some(rest) = text.strip_prefix(bos) {
            text = format!("<s>{rest}");
        }
    }
    let text = text.replace("Today Date: 22 Nov 2026\n", "Today Date: 26 Jul 2024\n");
    text.replace("Current date: 2026-11-22\n", "")
}

#[test]
fn prompts_are_those_of_the_templates() {
    let (rows, mut count) = (lines("calls.jsonl"), 0);
    for row in rows.iter().filter(|row| row["prompt"].is_string()) {
        let (family, list) = (row["family"].as_str().unwrap(), row["tools"].as_str().unwrap());
        let (turns, tools) = formats(family);
        assert_eq!(tools.calls().name(), row["format"].as_str().unwrap());
        let (mut talk, mut text) = (ToolTurns::new(turns, tools, Tools::new(list).unwrap()), String::new());
        for message in row["messages"].as_array().unwrap() {
            let role = if message["role"] == "system" { Role::System } else { Role::User };
            let message = Message { role, text: message["content"].as_str().unwrap() };
            talk.add(message, taker(&mut text)).unwrap();
        }
        talk.reply(None, taker(&mut text)).unwrap();
        let bos = if family == "hermes3" { "<s>" } else { "" };
        assert_eq!(format!("{bos}{text}"), without_dates(row["prompt"].as_str().unwrap()), "{} {family}", row["case"]);
        count += 1;
    }
    assert_eq!(count, 56);
}

#[test]
fn calls_are_written_as_models_write_them() {
    let (rows, mut count) = (lines("calls.jsonl"), 0);
    for row in rows.iter().filter(|row| row["prompt"].is_string()) {
        let (turns, tools) = formats(row["family"].as_str().unwrap());
        // Harmony's call has another order in a written turn than in a reply.
        if tools.calls() == CallFormat::Harmony {
            continue;
        }
        let given = row["calls"].as_array().unwrap();
        let json = |call: &Value| call["arguments"].to_string();
        let arguments: Vec<String> = given.iter().map(json).collect();
        let calls: Vec<ToolCall<'_>> = given
            .iter()
            .zip(&arguments)
            .map(|(call, arguments)| ToolCall {
                name: call["name"].as_str().unwrap(),
                id: call["id"].as_str(),
                arguments,
            })
            .collect();
        let (mut talk, mut text) = (ToolTurns::after_reply(turns, tools, Tools::NONE), String::new());
        talk.answer(Answer { calls: &calls, ..Answer::default() }, taker(&mut text)).unwrap();
        // The written text is read as these calls. It is also the template's text, unless the order of arguments is
        // free.
        let mut reader = Reader::new(Some(tools.calls()), None, false);
        let mut read = Vec::new();
        while let Some(part) = reader.next(&text, true, None) {
            if let Part::Call(call) = part.unwrap() {
                let mut json = String::new();
                call.arguments.write_json(None, &mut json).unwrap();
                read.push((call.name.to_owned(), serde_json::from_str::<Value>(&json).unwrap()));
            }
        }
        let expected: Vec<_> =
            given.iter().map(|call| (call["name"].as_str().unwrap().to_owned(), call["arguments"].clone())).collect();
        assert_eq!(read, expected, "{row}");
        if given.iter().all(|call| call["arguments"].as_object().unwrap().len() < 2) {
            assert!(text.starts_with(row["text"].as_str().unwrap()), "{text}\n{row}");
        }
        count += 1;
    }
    assert_eq!(count, 52);
}

const TOOLS: &str = r#"[{"type": "function", "function": {"name": "roll", "description": "Rolls dice.", "parameters": {"type":
    "object", "properties": {"sides": {"type": "integer", "description": "Sides"}}, "required": ["sides"]}}}]"#;

/// Compares whole conversations with calls and results. `tests/data/tools/turns.jsonl` has the whole text or its end.
#[test]
fn whole_conversations_are_those_of_the_templates() {
    let rows = lines("turns.jsonl");
    assert!(rows.len() >= 7);
    for row in rows {
        let family = row["family"].as_str().unwrap();
        let (turns, tools) = formats(family);
        let text = conversation(turns, tools, row["thought"].as_bool().unwrap());
        let expected = row["text"].as_str().unwrap();
        let end = text.get(text.len().saturating_sub(expected.len())..).unwrap_or(&text);
        assert_eq!(end, expected, "{family}");
    }
}

fn conversation(turns: &'static TurnFormat, tools: &'static ToolFormat, has_thought: bool) -> String {
    let (mut talk, mut text) = (ToolTurns::new(turns, tools, Tools::new(TOOLS).unwrap()), String::new());
    let mut put = taker(&mut text);
    let thought = if has_thought { "Dice." } else { "" };
    let call = |id, arguments| ToolCall { name: "roll", id: Some(id), arguments };
    let result = |id, text| ToolResult { name: "roll", id: Some(id), text };
    talk.add(Message { role: Role::System, text: "Play." }, &mut put).unwrap();
    talk.add(Message { role: Role::User, text: "Roll two." }, &mut put).unwrap();
    let calls = [call("a1b2c3d4e", r#"{"sides":6}"#), call("f5g6h7i8j", r#"{"sides":20}"#)];
    let calls =
        if tools.calls() == CallFormat::Llama3 || tools.calls() == CallFormat::Harmony { &calls[..1] } else { &calls };
    talk.answer(Answer { thought, text: "", calls }, &mut put).unwrap();
    talk.result(result("a1b2c3d4e", "4"), &mut put).unwrap();
    if calls.len() == 2 {
        talk.result(result("f5g6h7i8j", "17"), &mut put).unwrap();
    }
    talk.reply(None, put).unwrap();
    text
}

/// Ends of the same conversation in formats whose templates are not among the rows or write no calls.
#[test]
fn calls_and_results_have_the_marks_of_their_format() {
    let ends = [
        (
            "mistral-v3",
            "mistral-v3",
            "[TOOL_CALLS] [{\"name\": \"roll\", \"arguments\": {\"sides\": 6}, \"id\": \"a1b2c3d4e\"}, \
          {\"name\": \"roll\", \"arguments\": {\"sides\": 20}, \"id\": \"f5g6h7i8j\"}]</s>[TOOL_RESULTS] {\"content\": 4, \
          \"call_id\": \"a1b2c3d4e\"}[/TOOL_RESULTS][TOOL_RESULTS] {\"content\": 17, \"call_id\": \"f5g6h7i8j\"}[/TOOL_RESULTS]",
        ),
        (
            "mistral-v7-tekken",
            "mistral-v11",
            "[/INST][TOOL_CALLS]roll[CALL_ID]a1b2c3d4e[ARGS]{\"sides\": 6}[TOOL_CALLS]roll\
          [CALL_ID]f5g6h7i8j[ARGS]{\"sides\": 20}</s>[TOOL_RESULTS]a1b2c3d4e[TOOL_CONTENT]4[/TOOL_RESULTS]\
          [TOOL_RESULTS]f5g6h7i8j[TOOL_CONTENT]17[/TOOL_RESULTS]",
        ),
        (
            "llama3.1",
            "llama3.1",
            "<|start_header_id|>assistant<|end_header_id|>\n\n{\"name\": \"roll\", \"parameters\": \
          {\"sides\": 6}}<|eot_id|><|start_header_id|>ipython<|end_header_id|>\n\n\"4\"<|eot_id|>\
          <|start_header_id|>assistant<|end_header_id|>\n\n",
        ),
        (
            "harmony",
            "harmony",
            "<|start|>assistant<|channel|>analysis<|message|>Dice.<|end|><|start|>assistant to=functions.roll\
          <|channel|>commentary json<|message|>{\"sides\": 6}<|call|><|start|>functions.roll to=assistant<|channel|>commentary\
          <|message|>\"4\"<|end|><|start|>assistant",
        ),
        (
            "gemma4-e",
            "gemma4",
            "<|turn>model\n<|tool_call>call:roll{sides:6}<tool_call|><|tool_call>call:roll{sides:20}\
          <tool_call|><|tool_response>response:roll{value:<|\"|>4<|\"|>}<tool_response|>\
          <|tool_response>response:roll{value:<|\"|>17<|\"|>}<tool_response|>",
        ),
        (
            "lfm2",
            "lfm2",
            "<|im_start|>assistant\n<|tool_call_start|>[roll(sides=6), roll(sides=20)]<|tool_call_end|><|im_end|>\n\
          <|im_start|>tool\n<|tool_response_start|>4<|tool_response_end|><|im_end|>\n<|im_start|>tool\n\
          <|tool_response_start|>17<|tool_response_end|><|im_end|>\n<|im_start|>assistant\n",
        ),
        (
            "nemotron-nano-v2",
            "nemotron-nano-v2",
            "<SPECIAL_11>Assistant\n<TOOLCALL>[{\"name\": \"roll\", \"arguments\": \
          {\"sides\": 6}}, {\"name\": \"roll\", \"arguments\": {\"sides\": 20}}]</TOOLCALL>\n<SPECIAL_12>\n<SPECIAL_11>User\n\
          <TOOL_RESPONSE>[4, 17]</TOOL_RESPONSE><SPECIAL_11>Assistant\n<think>\n",
        ),
    ];
    let ends = ends.into_iter().chain([
        (
            "exaone4",
            "exaone4",
            "<tool_call>{\"name\": \"roll\", \"arguments\": {\"sides\": 6}}</tool_call>\n<tool_call>{\"name\": \"roll\", \
          \"arguments\": {\"sides\": 20}}</tool_call>[|endofturn|]\n[|tool|]\n<tool_result>{\"result\": \"4\"}</tool_result>\n\
          <tool_result>{\"result\": \"17\"}</tool_result>[|endofturn|]\n[|assistant|]\n<think>\n\n</think>\n\n",
        ),
        (
            "glm4.7",
            "glm4.7",
            "<tool_call>roll<arg_key>sides</arg_key><arg_value>6</arg_value></tool_call><tool_call>roll<arg_key>sides\
          </arg_key><arg_value>20</arg_value></tool_call><|observation|><tool_response>4</tool_response><tool_response>17\
          </tool_response><|assistant|><think>",
        ),
    ]);
    // These texts are those of the published templates.
    let hermes = "<|im_start|>assistant\n<tool_call>\n{\"name\": \"roll\", \"arguments\": {\"sides\": 6}}\n</tool_call>\n<tool_call>\n\
        {\"name\": \"roll\", \"arguments\": {\"sides\": 20}}\n</tool_call><|im_end|>\n<|im_start|>tool\n<tool_response>\n4\n\
        </tool_response>\n<tool_response>\n17\n</tool_response><|im_end|><|im_start|>assistant\n";
    let granite = "<|start_of_role|>assistant<|end_of_role|><tool_call>\n{\"name\": \"roll\", \"arguments\": {\"sides\": 6}}\n\
        </tool_call>\n<tool_call>\n{\"name\": \"roll\", \"arguments\": {\"sides\": 20}}\n</tool_call><|end_of_text|>\n\
        <|start_of_role|>user<|end_of_role|>\n<tool_response>\n4\n</tool_response>\n<tool_response>\n17\n</tool_response>\
        <|end_of_text|>\n<|start_of_role|>assistant<|end_of_role|>";
    let lfm = "<|im_start|>assistant\n<think>Dice.</think><|tool_call_start|>[roll(sides=6), roll(sides=20)]<|tool_call_end|><|im_end|>\n\
        <|im_start|>tool\n4<|im_end|>\n<|im_start|>tool\n17<|im_end|>\n<|im_start|>assistant\n";
    let spark = "<｜start▁of▁sentence｜><|Bot|><think>Dice.</think><tool_call>roll<arg_key>sides</arg_key><arg_value>6</arg_value>\
        </tool_call><tool_call>roll<arg_key>sides</arg_key><arg_value>20</arg_value></tool_call><｜end▁of▁sentence｜>\
        <｜start▁of▁sentence｜><|Tool|><tool_response>4</tool_response><tool_response>17</tool_response><｜end▁of▁sentence｜>\
        <｜start▁of▁sentence｜><|Bot|><think>";
    let ends = ends.chain([
        ("chatml", "hermes", hermes),
        ("granite4", "granite4", granite),
        ("granite", "granite4.1", granite),
        ("lfm2.5-a1b", "lfm2.5-a1b", lfm),
        ("lfm2.5", "lfm2.5", lfm),
        ("spark2.5", "spark2.5", spark),
    ]);
    for (turns, tools, end) in ends {
        let text = conversation(TurnFormat::named(turns).unwrap(), ToolFormat::named(tools).unwrap(), true);
        assert!(text.ends_with(end), "{turns}:\n{text}");
    }
}

/// Lists in formats whose templates are not among the rows, as programs write them that were compared with the
/// templates.
#[test]
fn lists_are_those_of_the_templates() {
    let json = "{\"type\": \"function\", \"function\": {\"name\": \"roll\", \"description\": \"Rolls dice.\", \"parameters\": \
        {\"type\": \"object\", \"properties\": {\"sides\": {\"type\": \"integer\", \"description\": \"Sides\"}}, \"required\": [\"sides\"]}}}";
    let exaone = format!(
        "# Available Tools\nYou can use none, one, or multiple of the following tools by calling them as functions to help \
        with the user’s query.\nHere are the tools available to you in JSON format within <tool> and </tool> tags:\n<tool>{json}\
        </tool>\n\nFor each function call you want to make, return a JSON object with function name and arguments within \
        <tool_call> and </tool_call> tags, like:\n<tool_call>{{\"name\": function_1_name, \"arguments\": {{argument_1_name: \
        argument_1_value, argument_2_name: argument_2_value}}}}</tool_call>\n<tool_call>{{\"name\": function_2_name, \
        \"arguments\": {{...}}}}</tool_call>\n...\nNote that if no argument name is specified for a tool, you can just print \
        the argument value directly, without the argument name or JSON formatting.[|endofturn|]\n[|user|]\nRoll.\
        [|endofturn|]\n[|assistant|]\n<think>\n\n</think>\n\n"
    );
    let glm = format!(
        "[gMASK]<sop><|system|>\n# Tools\n\nYou may call one or more functions to assist with the user query.\n\nYou are \
        provided with function signatures within <tools></tools> XML tags:\n<tools>\n{json}\n</tools>\n\nFor each function \
        call, output the function name and arguments within the following XML format:\n<tool_call>{{function-name}}<arg_key>\
        {{arg-key-1}}</arg_key><arg_value>{{arg-value-1}}</arg_value><arg_key>{{arg-key-2}}</arg_key><arg_value>\
        {{arg-value-2}}</arg_value>...</tool_call>"
    );
    let spark = "<｜start▁of▁sentence｜><|System|>\nyou are a helpful assistant.## Tools\nYou have access to the following \
        functions:\n<tools>\n{\"name\": \"roll\", \"description\": \"Rolls dice.\", \"parameters\": {\"type\": \"object\", \
        \"properties\": {\"sides\": {\"type\": \"integer\", \"description\": \"Sides\"}}, \"required\": [\"sides\"]}}\n</tools>";
    let spark_end = "<｜end▁of▁sentence｜><｜start▁of▁sentence｜><|User|>Roll.<｜end▁of▁sentence｜><｜start▁of▁sentence｜><|Bot|><think>";
    let lfm = format!("List of tools: [{json}]<|im_end|>\n<|im_start|>user\nRoll.<|im_end|>\n<|im_start|>assistant\n");
    let cases = [
        ("spark2.5", None, format!("{spark}{spark_end}")),
        ("spark2.5", Some("Play."), format!("{spark}\n\nPlay.{spark_end}")),
        ("lfm2.5-a1b", None, format!("<s><|im_start|>system\n{lfm}")),
        ("lfm2.5-a1b", Some("Play."), format!("<s><|im_start|>system\nPlay.\n{lfm}")),
        ("lfm2.5", Some("Play."), format!("<s><|im_start|>system\nPlay.\n{lfm}")),
        ("exaone4", None, format!("[|system|]\n{exaone}")),
        ("exaone4", Some("Play."), format!("[|system|]\nPlay.\n\n{exaone}")),
        ("glm4.7", None, format!("{glm}<|user|>Roll.<|assistant|><think>")),
        ("glm4.7", Some("Play."), format!("{glm}<|system|>Play.<|user|>Roll.<|assistant|><think>")),
    ];
    for (name, system, expected) in cases {
        let (turns, tools) = (TurnFormat::named(name).unwrap(), ToolFormat::named(name).unwrap());
        let (mut talk, mut text) = (ToolTurns::new(turns, tools, Tools::new(TOOLS).unwrap()), String::new());
        for (role, said) in [(Role::System, system), (Role::User, Some("Roll."))] {
            let message = said.map(|text| Message { role, text });
            message.map_or(Ok(()), |message| talk.add(message, taker(&mut text))).unwrap();
        }
        talk.reply(None, taker(&mut text)).unwrap();
        assert_eq!(text, expected, "{name}");
    }
}

#[test]
fn every_format_of_tools_goes_on_after_results() {
    for tools in ToolFormat::ALL {
        assert_eq!(ToolFormat::named(tools.name()), Some(tools));
        let named: Vec<_> = TurnFormat::ALL
            .iter()
            .filter(|turns| {
                // Texts with the signs of each tool format, as templates have them.
                ToolFormat::of(turns, Some("[CALL_ID] [ARGS]")) == Some(tools)
                    || ToolFormat::of(turns, Some("[ARGS]")) == Some(tools)
                    || ToolFormat::of(turns, Some("xml_tools")) == Some(tools)
                    || ToolFormat::of(turns, Some("tools_system_message")) == Some(tools)
                    || ToolFormat::of(turns, None) == Some(tools)
            })
            .collect();
        assert!(!named.is_empty(), "{}", tools.name());
        for turns in named {
            let text = conversation(turns, tools, true);
            // The list, the calls, the results and the user's message are in the text, each once.
            let count = |part: &str| text.matches(part).count();
            assert_eq!((count("Rolls dice."), count("Roll two."), count("Play.")), (1, 1, 1), "{text}");
            assert!(count("roll") >= 1 && count("4") >= 1, "{text}");
            // If callbacks fail, a repeated call writes the same conversation.
            let mut talk = ToolTurns::new(turns, tools, Tools::new(TOOLS).unwrap());
            for fail_at in [0, 3, 17, 40] {
                let mut left = fail_at;
                let failed = talk.add(Message { role: Role::User, text: "Roll two." }, |_| {
                    left -= 1;
                    if left < 0 { Err(()) } else { Ok(()) }
                });
                if failed.is_err() {
                    let mut retry = String::new();
                    let mut whole = String::new();
                    let message = Message { role: Role::User, text: "Roll two." };
                    talk.clone().add(message, taker(&mut retry)).unwrap();
                    ToolTurns::new(turns, tools, Tools::new(TOOLS).unwrap()).add(message, taker(&mut whole)).unwrap();
                    assert_eq!(retry, whole);
                }
            }
        }
    }
}

#[test]
fn models_are_told_to_think_or_not() {
    let reply = |name: &str, think| {
        let format = TurnFormat::named(name).unwrap();
        let mut text = String::new();
        let mut talk = ToolTurns::new(format, ToolFormat::named("hermes").unwrap(), Tools::NONE);
        talk.add(Message { role: Role::User, text: "?" }, |_| Ok::<(), ()>(())).unwrap();
        talk.reply(think, taker(&mut text)).unwrap();
        text
    };
    assert_eq!(reply("qwen3", Some(true)), "<|im_start|>assistant\n");
    assert_eq!(reply("qwen3", Some(false)), "<|im_start|>assistant\n<think>\n\n</think>\n\n");
    assert_eq!(reply("qwen3.5-small", Some(true)), "<|im_start|>assistant\n<think>\n");
    assert_eq!(reply("qwen3.5-small", None), "<|im_start|>assistant\n<think>\n\n</think>\n\n");
    assert_eq!(reply("exaone4", Some(true)), "[|assistant|]\n<think>\n");
    let drops = |name: &str| {
        let format = TurnFormat::named(name).unwrap();
        ToolTurns::new(format, ToolFormat::named("hermes").unwrap(), Tools::NONE).drops_thoughts()
    };
    assert_eq!(["qwen3", "seed-oss", "chatml"].map(drops), [true, false, false]);
    for format in TurnFormat::ALL {
        let Some(thinking) = Thinking::of(format) else {
            assert_eq!(reply(format.name(), None), reply(format.name(), Some(true)), "{format}");
            continue;
        };
        // The format's default is one of the two. A thought is open if the reply ends with its mark.
        assert_eq!(reply(format.name(), None), reply(format.name(), Some(thinking.is_on())), "{format}");
        assert!(thinking.can(thinking.is_on()), "{format}");
        for think in [None, Some(true), Some(false)] {
            let ends = reply(format.name(), think).trim_end().ends_with(thinking.marks().open);
            assert_eq!(thinking.opens_thought(think), ends, "{format} {think:?}");
        }
    }
}

/// The example of FunctionGemma's documentation, and types that are lists, as its template writes them.
#[test]
fn function_gemma_is_that_of_its_documentation() {
    let weather = r#"[{"name": "get_current_weather", "description": "Gets the current weather in a given location.", "parameters":
        {"type": "object", "properties": {"location": {"type": "string", "description":
        "The city and state, e.g. \"San Francisco, CA\" or \"Tokyo, JP\""}, "unit": {"type": "string", "enum": ["celsius", "fahrenheit"],
        "description": "The unit to return the temperature in."}}, "required": ["location"]}}]"#;
    let (turns, tools) = (TurnFormat::named("functiongemma").unwrap(), ToolFormat::named("functiongemma").unwrap());
    assert_eq!(tools.stops(), ["<start_function_response>"]);
    let (mut talk, mut text) = (ToolTurns::new(turns, tools, Tools::new(weather).unwrap()), String::new());
    let mut put = taker(&mut text);
    let system = "You are a model that can do function calling with the following functions";
    talk.add(Message { role: Role::System, text: system }, &mut put).unwrap();
    talk.add(Message { role: Role::User, text: "Hey, what's the weather in Tokyo right now?" }, &mut put).unwrap();
    let call = ToolCall { name: "get_current_weather", id: None, arguments: r#"{"location": "Tokyo, Japan"}"# };
    talk.answer(Answer { calls: &[call], ..Answer::default() }, &mut put).unwrap();
    let result = ToolResult { name: call.name, id: None, text: r#"{"temperature": 15, "weather": "sunny"}"# };
    talk.result(result, &mut put).unwrap();
    talk.reply(None, put).unwrap();
    assert_eq!(
        text,
        "<s><start_of_turn>developer\nYou are a model that can do function calling with the following functions\
         <start_function_declaration>declaration:get_current_weather{description:<escape>Gets the current weather in a given \
         location.<escape>,parameters:{properties:{location:{description:<escape>The city and state, e.g. \"San Francisco, CA\" or \
         \"Tokyo, JP\"<escape>,type:<escape>STRING<escape>},unit:{description:<escape>The unit to return the temperature in.\
         <escape>,enum:[<escape>celsius<escape>,<escape>fahrenheit<escape>],type:<escape>STRING<escape>}},required:[<escape>location\
         <escape>],type:<escape>OBJECT<escape>}}<end_function_declaration><end_of_turn>\n\
         <start_of_turn>user\nHey, what's the weather in Tokyo right now?<end_of_turn>\n\
         <start_of_turn>model\n<start_function_call>call:get_current_weather{location:<escape>Tokyo, Japan<escape>}<end_function_call>\
         <start_function_response>response:get_current_weather{temperature:15,weather:<escape>sunny<escape>}<end_function_response>"
    );
}

/// Types and values of the elements of a list, as in the templates of Gemma 4.
#[test]
fn elements_of_lists_are_declared_as_in_the_templates() {
    let list = r#"[{"name": "f", "parameters": {"type": "object", "properties": {"x": {"type": "array", "description": "d", "items":
        {"type": ["string", "null"], "default": {"k": ["v"]}}}}}}]"#;
    let expected = "x:{description:'d',items:{default:{'k':['v']},type:['STRING','NULL']},type:'ARRAY'}";
    for family in ["gemma4", "functiongemma"] {
        let (turns, tools) = formats(family);
        let (mut talk, mut text) = (ToolTurns::new(turns, tools, Tools::new(list).unwrap()), String::new());
        talk.add(Message { role: Role::User, text: "" }, taker(&mut text)).unwrap();
        let text = text.replace("<|\"|>", "'").replace("<escape>", "'");
        assert!(text.contains(expected), "{text}");
    }
}
