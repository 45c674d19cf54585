//! Conversations with tools are written as Jinja templates write them (`tests/data/tools/templates`), to the byte.

use std::convert::Infallible;
use std::path::Path;

use gleed::host::{ChatTemplate, RenderOptions};
use gleed::tools::{Part, Reader, Tools};
use gleed::turns::{Answer, Message, Piece, Role, ToolCall, ToolFormat, ToolResult, ToolTurns, TurnFormat};
use serde_json::{Value, json};

/// Templates with their turn format and their tool format.
const FAMILIES: [(&str, &str, &str); 9] = [
    ("nemotron3", "nemotron3", "nemotron3"),
    ("smollm3", "smollm3", "smollm3"),
    ("deepseek-v3", "deepseek-v3", "deepseek-r1"),
    ("deepseek-v3", "deepseek-r1", "deepseek-r1"),
    ("deepseek-v3.1", "deepseek-v3.1", "deepseek-v3.1"),
    ("spark2.5", "spark2.5", "spark2.5"),
    ("seed-oss", "seed-oss", "seed-oss"),
    ("minicpm5", "minicpm5", "minicpm5"),
    ("apertus", "apertus", "apertus"),
];

/// Lists with parts that templates treat differently: quotes, white space, choices, defaults, nested schemas, and tools
/// without arguments.
const LISTS: [&str; 3] = [
    r#"[{"type": "function", "function": {"name": "roll", "description": "Rolls dice.", "parameters": {"type": "object",
        "properties": {"sides": {"type": "integer", "description": "Sides"}}, "required": ["sides"]}}}]"#,
    r#"[{"type": "function", "function": {"name": "say-it", "description": " It's \"said\"\tin\nlines \\ ü. ", "parameters":
        {"type": "object", "properties": {"how": {"type": "string", "enum": ["loud", "it's"], "description": " How? "},
        "to": {"type": ["string", "null"], "default": null, "nullable": true}, "many": {"type": "array", "items":
        {"type": "number"}, "minItems": 2}}, "required": [], "additionalProperties": false}, "strict": true}},
        {"type": "function", "function": {"name": "now", "description": "The time", "parameters": {"type": "object",
        "properties": {}}}}]"#,
    r#"[{"type": "function", "function": {"name": "q", "description": "don't", "parameters": {"type": "object", "properties":
        {"a": {"type": "object", "properties": {"b": {"type": "boolean"}}, "description": "\"it's\""}}}}}]"#,
];

/// A conversation: a message of the system, the model's first answer, and whether the user goes on.
struct Talk {
    system: Option<&'static str>,
    thought: &'static str,
    text: &'static str,
    calls: &'static [(&'static str, &'static str)],
    goes_on: bool,
}

const TALKS: [Talk; 5] = [
    Talk { system: None, thought: "", text: "", calls: &[], goes_on: false },
    Talk { system: Some("Play."), thought: "", text: "", calls: &[], goes_on: false },
    Talk { system: Some("Play."), thought: "", text: "", calls: &[("roll", "{\"sides\": 6}")], goes_on: false },
    Talk {
        system: None,
        thought: "Dice, two.",
        text: "I roll.",
        calls: &[("roll", "{\"sides\": 6}"), ("say-it", "{\"how\": \"loud\", \"many\": [1, 2.5], \"to\": \"x\\ny\"}")],
        goes_on: true,
    },
    Talk {
        system: Some("Play."),
        thought: "Dice.",
        text: "",
        calls: &[("roll", "{\"sides\": 20}"), ("now", "{}"), ("roll", "{\"sides\": 4}")],
        goes_on: true,
    },
];

fn taker(text: &mut String) -> impl FnMut(Piece<'_>) -> Result<(), Infallible> + '_ {
    |piece| {
        text.push_str(piece.text("<s>", "</s>"));
        Ok(())
    }
}

/// Returns the calls of a talk.
fn calls(talk: &Talk) -> Vec<ToolCall<'static>> {
    talk.calls.iter().map(|&(name, arguments)| ToolCall { name, id: None, arguments }).collect()
}

/// Returns the text that the format writes.
fn written(turns: &'static TurnFormat, tools: &'static ToolFormat, list: &str, talk: &Talk) -> String {
    let (mut writer, mut text) = (ToolTurns::new(turns, tools, Tools::new(list).unwrap()), String::new());
    let mut put = taker(&mut text);
    let say = |role, text| Message { role, text };
    if let Some(system) = talk.system {
        writer.add(say(Role::System, system), &mut put).unwrap();
    }
    writer.add(say(Role::User, "Roll two."), &mut put).unwrap();
    let (calls, thought) = (calls(talk), thought(turns, talk));
    if !calls.is_empty() {
        writer.answer(Answer { thought, text: talk.text, calls: &calls }, &mut put).unwrap();
        for (call, text) in calls.iter().zip(["4", "17 and 3", "{\"a\": 1}"]) {
            writer.result(ToolResult { name: call.name, id: None, text }, &mut put).unwrap();
        }
    }
    if talk.goes_on {
        writer.answer(Answer { text: "A four.", ..Answer::default() }, &mut put).unwrap();
        writer.add(say(Role::User, "Again."), &mut put).unwrap();
    }
    writer.reply(None, put).unwrap();
    text
}

/// Returns the thought that a template gets. Only the templates of Nemotron 3, Spark and Seed-OSS get thoughts, because
/// the others write none with calls. Seed-OSS also writes the thoughts of earlier turns.
fn thought(turns: &TurnFormat, talk: &Talk) -> &'static str {
    match turns.name() {
        "seed-oss" => talk.thought,
        "nemotron3" | "spark2.5" if !talk.goes_on => talk.thought,
        _ => "",
    }
}

/// Returns the text that the template writes, without the date, which formats leave out.
fn rendered(template: &str, turns: &TurnFormat, tools: &'static ToolFormat, list: &str, talk: &Talk) -> String {
    let mut messages: Vec<Value> = talk.system.iter().map(|text| json!({"role": "system", "content": text})).collect();
    messages.push(json!({"role": "user", "content": "Roll two."}));
    if !talk.calls.is_empty() {
        messages.push(assistant(template, turns, tools, talk));
        let results = ["4", "17 and 3", "{\"a\": 1}"];
        messages.extend(results.iter().take(talk.calls.len()).map(|text| json!({"role": "tool", "content": text})));
    }
    if talk.goes_on {
        messages.push(json!({"role": "assistant", "content": "A four."}));
        messages.push(json!({"role": "user", "content": "Again."}));
    }
    // The list stays a text, so that the order of its members is kept.
    let variables = format!("{{\"messages\": {}, \"tools\": {list}, \"xml_tools\": {list}}}", json!(messages));
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/tools/templates").join(format!("{template}.jinja"));
    let source = std::fs::read_to_string(path).unwrap();
    let options = RenderOptions { reply: true, variables: Some(&variables), ..RenderOptions::default() };
    let text = ChatTemplate::new(&source, "<s>", "</s>").unwrap().render(&[], &options).unwrap();
    let is_date = |line: &&str| line.starts_with("Today Date: ");
    text.split_inclusive('\n').filter(|line| !is_date(line)).collect()
}

fn assistant(template: &str, turns: &TurnFormat, tools: &'static ToolFormat, talk: &Talk) -> Value {
    if template == "smollm3" {
        // The template writes no calls, so the text contains them.
        let calls: Vec<String> = talk
            .calls
            .iter()
            .map(|(name, arguments)| {
                format!("<tool_call>\n{{\"name\": \"{name}\", \"arguments\": {arguments}}}\n</tool_call>")
            })
            .collect();
        let joint = if talk.text.is_empty() { "" } else { "\n" };
        return json!({"role": "assistant", "content": format!("{}{joint}{}", talk.text, calls.join("\n"))});
    }
    let calls: Vec<Value> = talk
        .calls
        .iter()
        .map(|(name, arguments)| {
            let arguments: Value = serde_json::from_str(arguments).unwrap();
            json!({"type": "function", "function": {"name": name, "arguments": arguments}})
        })
        .collect();
    // DeepSeek's templates before V3.1 leave out the text beside calls, and so does this test.
    let text = if tools.name() == "deepseek-r1" { "" } else { talk.text };
    let mut message = json!({"role": "assistant", "content": text, "tool_calls": calls});
    let thought = thought(turns, talk);
    if !thought.is_empty() {
        message["reasoning_content"] = json!(thought);
    }
    message
}

#[test]
fn formats_write_what_templates_render() {
    for (template, turns, tools) in FAMILIES {
        let (turns, tools) = (TurnFormat::named(turns).unwrap(), ToolFormat::named(tools).unwrap());
        for list in LISTS {
            for talk in &TALKS {
                let mut text = written(turns, tools, list, talk);
                // The template of V3 writes no text beside calls. Unlike that of R1, it opens no thought.
                if tools.name() == "deepseek-r1" {
                    text = text.replace("<｜Assistant｜><think>\n", "<｜Assistant｜>").replacen("I roll.", "", 1);
                }
                assert_eq!(text, rendered(template, turns, tools, list, talk), "{template} {list}");
            }
        }
    }
}

#[test]
fn tools_are_offered_as_templates_ask() {
    for (template, turns, tools) in FAMILIES {
        let path =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/tools/templates").join(format!("{template}.jinja"));
        let source = std::fs::read_to_string(path).unwrap();
        let turns = TurnFormat::named(turns).unwrap();
        assert_eq!(ToolFormat::of(turns, Some(&source)).map(ToolFormat::name), Some(tools));
        if turns.name() != "deepseek-r1" {
            assert_eq!(TurnFormat::of_template(&source), Some(turns), "{template}");
        }
    }
    // Models whose template says nothing about tools get the tools in Hermes' format.
    let chatml = TurnFormat::named("chatml").unwrap();
    assert_eq!(ToolFormat::of(chatml, Some("<|im_start|>")).map(ToolFormat::name), Some("hermes"));
}

/// Compares the types that Apertus' template writes for nested values, choices and defaults.
#[test]
fn types_are_those_of_the_template() {
    let types = [
        r#"{"type": "array", "items": {"type": "array", "items": {"type": "integer"}}, "nullable": true}"#,
        r#"{"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "array",
            "items": {"type": "boolean"}}}, "required": ["b"]}}"#,
        r#"{"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}, "description": "Some."}"#,
        r#"{"type": "array", "items": {"type": ["object", "object"]}}"#,
        r#"{"type": "array", "items": {"type": "string", "enum": ["a"]}, "default": ["a"]}"#,
        r#"{"type": "array", "nullable": true}"#,
        r#"{"type": "object", "properties": {"x": {"type": "object"}, "y": {"type": ["integer"]}}, "required": ["x"]}"#,
        r#"{"oneOf": [{"type": "string", "description": "Text."}, {"type": "integer", "default": 5}, {"type": "null"}]}"#,
        r#"{"type": "string", "nullable": true, "default": "ü\"x"}"#,
        r#"{"type": "string", "enum": ["a", "b c"], "default": "a", "description": ""}"#,
        r#"{"type": "number", "nullable": true, "default": 1.5}"#,
        r#"{"description": "Anything."}"#,
    ];
    let members: Vec<String> = types.iter().zip('a'..).map(|(json, name)| format!("\"{name}\": {json}")).collect();
    let list = format!(
        r#"[{{"type": "function", "function": {{"name": "f", "description": "d", "parameters": {{"type": "object", "properties":
            {{{}}}, "required": ["c", "z"]}}}}}}]"#,
        members.join(", ")
    );
    let (turns, tools) = (TurnFormat::named("apertus").unwrap(), ToolFormat::named("apertus").unwrap());
    assert_eq!(written(turns, tools, &list, &TALKS[1]), rendered("apertus", turns, tools, &list, &TALKS[1]));
}

/// Written calls are read back as the same calls.
#[test]
fn calls_are_read_back() {
    for (_, turns, tools) in FAMILIES {
        let (turns, tools) = (TurnFormat::named(turns).unwrap(), ToolFormat::named(tools).unwrap());
        for talk in TALKS.iter().filter(|talk| !talk.calls.is_empty()) {
            let (mut writer, mut text) = (ToolTurns::after_reply(turns, tools, Tools::NONE), String::new());
            writer.answer(Answer { calls: &calls(talk), ..Answer::default() }, taker(&mut text)).unwrap();
            let (mut reader, mut read) = (Reader::new(Some(tools.calls()), None, false), Vec::new());
            while let Some(part) = reader.next(&text, true, None) {
                if let Part::Call(call) = part.unwrap() {
                    let mut json = String::new();
                    call.arguments.write_json(None, &mut json).unwrap();
                    read.push((call.name.to_owned(), serde_json::from_str::<Value>(&json).unwrap()));
                }
            }
            let expected: Vec<(String, Value)> =
                talk.calls.iter().map(|&(name, json)| (name.to_owned(), serde_json::from_str(json).unwrap())).collect();
            assert_eq!(read, expected, "{text}");
        }
    }
}
