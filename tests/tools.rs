//! Tool calls are read from the texts of models, as `tests/data/tools` lists them. Any text gives calls or errors.

/// The tools of the example `chat`.
#[path = "../examples/common"]
mod common {
    #![allow(unreachable_pub)]

    pub(crate) mod calculator;
    #[allow(dead_code)]
    pub(crate) mod random;
    #[allow(dead_code)]
    pub(crate) mod toolbox;
}

use std::path::Path;
use std::sync::LazyLock;

use gleed::tools::{Arguments, Call, CallErrorKind, CallFormat, Part, Reader, ThoughtMarks, Tool, Tools, ToolsError};
use proptest::prelude::*;
use serde_json::{Value, json};

/// Returns the rows of `tests/data/tools/calls.jsonl`.
fn rows() -> &'static [Value] {
    static ROWS: LazyLock<Vec<Value>> = LazyLock::new(read_rows);
    &ROWS
}

fn read_rows() -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/tools/calls.jsonl");
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn marks(format: CallFormat) -> Option<ThoughtMarks> {
    match format {
        CallFormat::Hermes => Some(ThoughtMarks::THINK),
        CallFormat::Gemma4 => Some(ThoughtMarks::CHANNEL),
        _ => None,
    }
}

/// The parts of a reply: text, thoughts, calls with their arguments in JSON, and errors.
#[derive(Debug, Default, PartialEq)]
struct Read {
    content: String,
    thoughts: String,
    calls: Vec<(String, Option<String>, Value)>,
    errors: Vec<(String, usize)>,
}

fn json_of(arguments: &Arguments<'_>, tool: Option<&Tool<'_>>) -> String {
    let mut text = String::new();
    arguments.write_json(tool, &mut text).unwrap();
    text
}

impl Read {
    fn add(&mut self, part: Result<Part<'_>, gleed::tools::CallError<'_>>, tools: &Tools<'_>, text: &str) {
        match part {
            Ok(Part::Text(part)) => self.content += part,
            Ok(Part::Thought(part)) => self.thoughts += part,
            Ok(Part::Call(Call { name, id, arguments, range })) => {
                assert!(text.get(range).is_some_and(
                    |call| call.contains(name) && call.contains(arguments.text()) || arguments.text() == "{}"
                ));
                let tool = tools.find(name).unwrap();
                let json = json_of(&arguments, Some(&tool));
                match tool.check(&json) {
                    Ok(()) => {
                        let value = serde_json::from_str(&json).unwrap_or_else(|error| panic!("{json}: {error}"));
                        self.calls.push((name.to_owned(), id.map(str::to_owned), value));
                    }
                    Err(error) => self.errors.push((error.to_string(), error.at)),
                }
            }
            Err(error) => self.errors.push((error.to_string(), error.at)),
        }
    }
}

fn read(format: CallFormat, text: &str, tools: &Tools<'_>) -> Read {
    let (mut reader, mut found) = (Reader::new(Some(format), marks(format), false), Read::default());
    while let Some(part) = reader.next(text, true, Some(tools)) {
        found.add(part, tools, text);
    }
    assert_eq!(reader.at(), text.len(), "{format} {text:?}");
    found
}

/// Reads the text byte by byte.
fn stream(format: CallFormat, text: &str, tools: &Tools<'_>) -> Read {
    let (mut reader, mut found) = (Reader::new(Some(format), marks(format), false), Read::default());
    for end in (0..=text.len()).filter(|&end| text.is_char_boundary(end)) {
        while let Some(part) = reader.next(&text[..end], false, Some(tools)) {
            found.add(part, tools, text);
        }
    }
    while let Some(part) = reader.next(text, true, Some(tools)) {
        found.add(part, tools, text);
    }
    found
}

#[test]
fn calls_are_read_as_listed() {
    let rows = rows();
    assert_eq!(rows.len(), 92);
    for row in rows {
        let (text, list) = (row["text"].as_str().unwrap(), row["tools"].as_str().unwrap());
        let (format, tools) = (row["format"].as_str().unwrap(), Tools::new(list).unwrap());
        let found = read(CallFormat::named(format).unwrap(), text, &tools);
        assert_eq!(stream(CallFormat::named(format).unwrap(), text, &tools), found, "{row}");
        assert_eq!(found.content, row["content"].as_str().unwrap(), "{row}");
        let calls = row["calls"].as_array().unwrap();
        assert_eq!(found.calls.len(), calls.len(), "{row} {found:?}");
        for ((name, id, arguments), expected) in found.calls.iter().zip(calls) {
            assert_eq!(
                (name.as_str(), arguments),
                (expected["name"].as_str().unwrap(), &expected["arguments"]),
                "{row}"
            );
            if let Some(expected) = expected.get("id").filter(|_| !format.starts_with("harmony")) {
                assert_eq!(id.as_deref(), expected.as_str(), "{row}");
            }
        }
        let expected = match row["error"].as_str() {
            None => vec![],
            Some("incomplete") => vec!["the text ends inside a call"],
            Some("unknown tool get_whether") => vec!["no tool has the name get_whether"],
            Some("positional argument") => vec!["an argument has no name"],
            Some("arguments do not match the schema: city is missing") => vec!["the argument city is missing"],
            Some(other) => panic!("{other}"),
        };
        let errors: Vec<_> = found.errors.iter().map(|(error, _)| error.split(", at byte").next().unwrap()).collect();
        assert_eq!(errors, expected, "{row}");
    }
}

/// A call with the tools of `LIST`, for each format with a notation of its own.
#[test]
fn calls_of_every_format_come_in_pieces() {
    for (format, text) in [
        (CallFormat::Glm4_5, "<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>1</arg_value>\n</tool_call>"),
        (CallFormat::Qwen3_5, "<tool_call>\n<function=f>\n<parameter=a>\n1\n</parameter>\n</function>\n</tool_call>"),
        (CallFormat::Hermes, "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>"),
        (CallFormat::MiniCpm5, "<function name=\"f\"><param name=\"a\"><![CDATA[1]]></param></function>"),
        (CallFormat::Gemma4, "<|tool_call>call:f{a:1}<tool_call|>"),
        (CallFormat::Lfm2, "<|tool_call_start|>[f(a=1)]<|tool_call_end|>"),
        (CallFormat::MistralV11, "[TOOL_CALLS]f[CALL_ID]id[ARGS]{\"a\":1}"),
        (
            CallFormat::DeepSeek,
            "<｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{\"a\":1}\n```<｜tool▁call▁end｜>",
        ),
        (CallFormat::KimiK2, "<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{\"a\":1}<|tool_call_end|>"),
        (
            CallFormat::SeedOss,
            "<seed:tool_call>\n<function=f>\n<parameter=a>1</parameter>\n</function>\n</seed:tool_call>",
        ),
        (CallFormat::Apertus, "<|tools_prefix|>[{\"f\": {\"a\":1}}]<|tools_suffix|>"),
    ] {
        let mut reader = Reader::new(Some(format), None, false);
        let mut calls = Vec::new();
        for end in (0..=text.len()).filter(|&end| text.is_char_boundary(end)) {
            while let Some(part) = reader.next(&text[..end], false, None) {
                match part {
                    Ok(Part::Call(call)) => calls.push((call.name.to_owned(), json_of(&call.arguments, None))),
                    other => panic!("{format}: {other:?} at {end}"),
                }
            }
        }
        assert_eq!(calls.len(), 1, "{format}");
        let (name, arguments) = &calls[0];
        let value: Value = serde_json::from_str(arguments).unwrap();
        assert!(name == "f" && (value["a"] == 1 || value["a"] == "1"), "{format} {calls:?}");
    }
}

#[test]
fn a_thought_after_a_broken_call_has_no_calls() {
    let text =
        "<tool_call>oops !<think>\nperhaps <tool_call>{\"name\":\"rm\",\"arguments\":{}}</tool_call>\n</think>done";
    let mut reader = Reader::new(Some(CallFormat::Hermes), Some(ThoughtMarks::THINK), false);
    let parts: Vec<_> = core::iter::from_fn(|| reader.next(text, true, None)).collect();
    assert!(matches!(parts.first(), Some(Err(_))), "{parts:?}");
    assert!(parts.iter().all(|part| !matches!(part, Ok(Part::Call(_)))), "{parts:?}");
    assert_eq!(parts.last(), Some(&Ok(Part::Text("done"))));
}

/// White space before a call without a mark is left out, and so is one `;` after it, in any pieces of the text.
#[test]
fn what_is_around_a_bare_call() {
    let tools = Tools::new(r#"[{"name": "f"}]"#).unwrap();
    let rows = [
        ("\n CALL", "", 1),
        ("\n {}", "\n {}", 0),
        (" \n", " \n", 0),
        ("\na", "\na", 0),
        ("CALL ;\nCALL; ", "", 2),
        ("CALL;;", ";", 1),
        (";CALL", ";CALL", 0),
    ];
    for (text, content, calls) in rows {
        let call = r#"{"name": "f", "parameters": {}}"#;
        let (text, content) = (text.replace("CALL", call), content.replace("CALL", call));
        let (whole, pieces) = (read(CallFormat::Llama3, &text, &tools), stream(CallFormat::Llama3, &text, &tools));
        assert_eq!((&whole.content, whole.calls.len()), (&content, calls), "{text:?}");
        assert_eq!(whole, pieces, "{text:?}");
    }
}

const LIST: &str = r#"[{"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object",
    "properties": {"s": {"type": "string"}, "n": {"type": "integer"}, "v": {}, "e": {"enum": ["a", 1]},
    "l": {"type": "array", "items": {"type": ["number", "null"]}}}, "additionalProperties": false}}}, {"name": "g.h-2"}]"#;

/// Checks the calls in `text`, and its errors with their offsets.
#[track_caller]
fn expect(format: CallFormat, text: &str, calls: &[(&str, Value)], errors: &[(CallErrorKind<'_>, usize)]) {
    let tools = Tools::new(LIST).unwrap();
    let (mut reader, mut found, mut failed) = (Reader::new(Some(format), None, false), Vec::new(), Vec::new());
    while let Some(part) = reader.next(text, true, Some(&tools)) {
        match part {
            Ok(Part::Call(call)) => {
                let json = json_of(&call.arguments, tools.find(call.name).as_ref());
                found.push((call.name, serde_json::from_str(&json).unwrap_or_else(|error| panic!("{json}: {error}"))));
            }
            Ok(_) => {}
            Err(error) => failed.push((error.kind, error.at)),
        }
    }
    assert_eq!((&found[..], &failed[..]), (calls, errors), "{text}");
}

#[test]
fn every_format_reads_its_calls() {
    use CallFormat::*;
    let tags = "<tool_call>\n<function=f>\n<parameter=s>\n5\n</parameter>\n<parameter=n>\n5\n</parameter>\n<parameter=v>\n\
        [True, 'x']\n</parameter>\n</function>\n</tool_call>\n<tool_call>\n<function=g.h-2>\n</function>\n</tool_call>";
    expect(Qwen3_5, tags, &[("f", json!({"s": "5", "n": 5, "v": [true, "x"]})), ("g.h-2", json!({}))], &[]);
    let seed = "Hm.<seed:tool_call>\n<function=f>\n<parameter=s>a\n5</parameter>\n<parameter=l>[1.5, None]</parameter>\n</function>\n\
        </seed:tool_call>\n<seed:tool_call>\n<function=g.h-2>\n</function>\n</seed:tool_call>";
    expect(SeedOss, seed, &[("f", json!({"s": "a\n5", "l": [1.5, null]})), ("g.h-2", json!({}))], &[]);
    let quoted = "Hm.<function name=\"f\"><param name=\"s\"><![CDATA[a\n</param></function> & b]]></param><param name=\"n\">5</param>\
        <param name=\"v\">5 > 4</param></function>\n<function name=\"g.h-2\"></function>";
    let arguments = json!({"s": "a\n</param></function> & b", "n": 5, "v": "5 > 4"});
    expect(MiniCpm5, quoted, &[("f", arguments), ("g.h-2", json!({}))], &[]);
    expect(MiniCpm5, "<function name=\"f\"><param name=\"s\">a</para", &[], &[(CallErrorKind::Incomplete, 42)]);
    expect(MiniCpm5, "<function name=\"f\"><parameter=s>", &[], &[(CallErrorKind::Invalid, 19)]);
    let keyed = "Hm.<|tools_prefix|>[{\"f\": {\"n\": 1}}, {\"g.h-2\": {}}]<|tools_suffix|>";
    expect(Apertus, keyed, &[("f", json!({"n": 1})), ("g.h-2", json!({}))], &[]);
    expect(Apertus, "<|tools_prefix|>[{\"f\": {}, \"g.h-2\": {}}]", &[], &[(CallErrorKind::Invalid, 17)]);
    expect(Apertus, "<|tools_prefix|>[{\"f\": 5}]", &[], &[(CallErrorKind::NoObject, 23)]);
    let keys = "<tool_call>f\n<arg_key>s</arg_key>\n<arg_value>a\n<b></arg_value>\n<arg_key>n</arg_key>\n<arg_value>5\
        </arg_value>\n</tool_call>\n<tool_call>g.h-2\n</tool_call>";
    expect(Glm4_5, keys, &[("f", json!({"s": "a\n<b>", "n": 5})), ("g.h-2", json!({}))], &[]);
    let section = "Hm.<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{\"n\": 1}\
        <|tool_call_end|><|tool_call_begin|>functions.g.h-2:1<|tool_call_argument_begin|>{}<|tool_call_end|>\
        <|tool_calls_section_end|>";
    expect(KimiK2, section, &[("f", json!({"n": 1})), ("g.h-2", json!({}))], &[]);
    let blocks = "Hm.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{\"n\": 1}\n```\
        <｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>g.h-2\n```json\n{}\n```<｜tool▁call▁end｜>\
        <｜tool▁calls▁end｜>";
    expect(DeepSeek, blocks, &[("f", json!({"n": 1})), ("g.h-2", json!({}))], &[]);
    let bare =
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"n\": 1}<｜tool▁call▁end｜><｜tool▁calls▁end｜>";
    expect(DeepSeek, bare, &[("f", json!({"n": 1}))], &[]);
    let begun = "<｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{}";
    expect(DeepSeek, begun, &[], &[(CallErrorKind::Incomplete, begun.len())]);
    let wrong = "<｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n{}";
    expect(DeepSeek, wrong, &[], &[(CallErrorKind::Invalid, wrong.len() - 2)]);
    let named = "[TOOL_CALLS]f[ARGS]{\"n\": 1}[TOOL_CALLS]g.h-2{}";
    expect(MistralV13, named, &[("f", json!({"n": 1})), ("g.h-2", json!({}))], &[]);
    let list = "<TOOLCALL>[{\"name\": \"f\", \"arguments\": {\"n\": 1}}, {\"name\": \"g.h-2\"}]</TOOLCALL>";
    expect(Nemotron, list, &[("f", json!({"n": 1})), ("g.h-2", json!({}))], &[]);
    let python = "<|tool_call_start|>[f(s='it\\'s\\n\"\\x41\\u00e4', v={'a': (1, -2.5e3), \"b\": [None, False]}), g.h-2()]\
        <|tool_call_end|>Done.";
    let arguments = json!({"s": "it's\n\"Aä", "v": {"a": [1, -2.5e3], "b": [null, false]}});
    expect(Lfm2, python, &[("f", arguments), ("g.h-2", json!({}))], &[]);
    let gemma = "<|tool_call>call:f{s:<|\"|>a\"\n}<|\"|>,v:{<|\"|>k<|\"|>:[1,true,null]}}<tool_call|><|tool_response>";
    expect(Gemma4, gemma, &[("f", json!({"s": "a\"\n}", "v": {"k": [1, true, null]}}))], &[]);
    expect(Llama3, "{\"a\": 1}", &[], &[]);
    let two = "{\"name\": \"f\", \"parameters\": {}}; {\"name\": \"g.h-2\", \"parameters\": {}}";
    expect(Llama3, two, &[("f", json!({})), ("g.h-2", json!({}))], &[]);
    for format in CallFormat::ALL {
        assert_eq!(CallFormat::named(format.name()), Some(*format));
        expect(*format, "An answer.", &[], &[]);
        expect(*format, "", &[], &[]);
    }
    assert_eq!(CallFormat::named("zebra"), None);
}

#[test]
fn errors_say_where() {
    use CallErrorKind::*;
    use CallFormat::*;
    let good = "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>";
    let call = ("f", json!({}));
    let bad = |inside: &str| format!("<tool_call>{inside}</tool_call>\n{good}");
    // Calls after a wrong call are read.
    expect(Hermes, &bad("{\"name\": \"f\" 1}"), std::slice::from_ref(&call), &[(Invalid, 24)]);
    expect(Hermes, &bad("{\"arguments\": {}}"), std::slice::from_ref(&call), &[(Invalid, 11)]);
    expect(Hermes, &bad("{\"name\": \"f\", \"arguments\": [1]}"), std::slice::from_ref(&call), &[(NoObject, 38)]);
    expect(Hermes, &bad("{\"name\": \"x\"}"), std::slice::from_ref(&call), &[(UnknownTool("x"), 0)]);
    let deep = format!("{{\"name\": \"f\", \"arguments\": {{\"v\": {}1{}}}}}", "[".repeat(63), "]".repeat(63));
    expect(Hermes, &bad(&deep), std::slice::from_ref(&call), &[(TooDeep, 45 + 61)]);
    expect(Hermes, "<tool_call>{\"name\": \"f\", ", &[], &[(Incomplete, 25)]);
    expect(Lfm2, "<|tool_call_start|>[f(s=x)]<|tool_call_end|>", &[], &[(Invalid, 24)]);
    expect(Lfm2, "<|tool_call_start|>[f(1)]<|tool_call_end|>", &[], &[(Positional, 22)]);
    expect(Gemma4, "<|tool_call>call:f{s:x}<tool_call|>", &[], &[(Invalid, 21)]);

    let tools = Tools::new(LIST).unwrap();
    let (f, g) = (tools.find("f").unwrap(), tools.find("g.h-2").unwrap());
    let check = |json| f.check(json).map_err(|error| (error.kind, error.at));
    assert_eq!(check(r#" {"s": "x", "n": 2.0, "v": {}, "l": [1, null], "e": "\u0061"} "#), Ok(()));
    assert_eq!(check(r#"{"n": 2.5}"#), Err((Type, 6)));
    assert_eq!(check(r#"{"s": null}"#), Err((Type, 6)));
    assert_eq!(check(r#"{"l": [1, "2"]}"#), Err((Type, 10)));
    assert_eq!(check(r#"{"e": 2}"#), Err((Value, 6)));
    assert_eq!(check(r#"{"z": 2}"#), Err((UnknownArgument("z"), 6)));
    assert_eq!(check("[]"), Err((NoObject, 0)));
    assert_eq!(check("{} x"), Err((NoObject, 3)));
    assert_eq!(check("{\"s\""), Err((Incomplete, 4)));
    assert_eq!(g.check("{\"any\": 1}"), Ok(()));
    assert_eq!(
        (f.is_wrapped(), g.is_wrapped(), g.parameters(), g.json()),
        (true, false, None, "{\"name\": \"g.h-2\"}")
    );
}

#[test]
fn an_integer_is_a_number_without_a_fraction() {
    let tools = Tools::new(LIST).unwrap();
    let f = tools.find("f").unwrap();
    let is_integer = |number: &str| match f.check(&format!("{{\"n\": {number}}}")) {
        Ok(()) => true,
        Err(error) => {
            assert_eq!((error.kind, error.at), (CallErrorKind::Type, 6), "{number}");
            false
        }
    };
    let zeros = "0".repeat(40);
    let integers = "0 -0 5 -20 2.0 2.00 1e5 1E+5 1.0e5 1.5e1 -1.25E2 12.50e1 100e-2 1200.0e-2 0e-5 0.0 0.00e-1 \
        9007199254740993.0 1e99999999999999999999 0e-99999999999999999999";
    let long = [format!("1{zeros}e-40"), format!("0.{zeros}1e41")];
    for number in integers.split(' ').chain(long.iter().map(String::as_str)) {
        assert!(is_integer(number), "{number}");
    }
    let fractions = "0.5 -2.5 1e-5 15e-1 1.5e0 1.25e1 100e-3 1200.0e-3 0.01e1 9007199254740993.5 \
        1e-99999999999999999999";
    let long = [format!("1{zeros}e-41"), format!("0.{zeros}1e40")];
    for number in fractions.split(' ').chain(long.iter().map(String::as_str)) {
        assert!(!is_integer(number), "{number}");
    }
}

#[test]
fn lists_of_tools_are_checked() {
    let fault = |list: &'static str| Tools::new(list).err();
    assert!(Tools::new(" [] ").unwrap().is_empty() && Tools::NONE.is_empty());
    assert_eq!(fault("[{\"name\": \"f\"}"), Some(ToolsError::NotJson { at: 14 }));
    assert_eq!(fault("[] 1"), Some(ToolsError::NotJson { at: 3 }));
    assert_eq!(fault("{\"name\": \"f\"}"), Some(ToolsError::NoList));
    for bad in
        [r#"[ 1]"#, r#"[ {}]"#, r#"[ {"name": "a b"}]"#, r#"[ {"name": ""}]"#, r#"[ {"name": "f", "parameters": []}]"#]
    {
        assert_eq!(fault(bad), Some(ToolsError::NoTool { at: 2 }), "{bad}");
    }
    assert_eq!(fault(r#"[{"name": "f"}, {"function": {"name": "f"}}]"#), Some(ToolsError::Twice { at: 16 }));
}

#[test]
fn the_tools_of_chat_are_run() {
    use common::calculator::calculate;
    use common::random::Random;
    use common::toolbox::{self, Outcome};
    for (expression, value) in [
        ("1 + 2 * 3", 7.0),
        ("-2 ^ 2", -4.0),
        ("2 ** 3 ^ 2", 512.0),
        ("(1.5e2 - 50) / 4 % 7", 4.0),
        ("sqrt(16) + abs(-1) - round(0.5 + pi)", 1.0),
    ] {
        assert_eq!(calculate(expression), Ok(value), "{expression}");
    }
    for (expression, error) in [
        ("", "the expression ends too early"),
        ("1 +", "the expression ends too early"),
        ("1 2", "this is not understood at byte 2 of the expression"),
        ("1..2", "this is not understood at byte 0 of the expression"),
        ("(1", "the expression ends too early"),
        ("1 / (2 - 2)", "this divides by zero"),
        ("exit(1)", "exit is not known"),
        ("9 ^ 9 ^ 9", "the result is no finite number"),
        (&"(".repeat(900), "the expression is nested more than 32 deep"),
        (&"-".repeat(1_000), "the expression is nested more than 32 deep"),
        (&"sqrt(".repeat(190), "the expression is nested more than 32 deep"),
        (&"1".repeat(2_000), "the expression has 2000 bytes, the most are 1000"),
    ] {
        assert_eq!(calculate(expression), Err(error.to_owned()), "{expression}");
    }

    let tools = Tools::new(toolbox::BUILTIN).unwrap();
    let told = |text: &str| {
        let mut reader = Reader::new(Some(CallFormat::Hermes), None, false);
        let Some(Ok(Part::Call(call))) = reader.next(text, true, Some(&tools)) else { panic!("{text}") };
        match toolbox::check(&call, &tools) {
            Outcome::Run(json) => toolbox::run(call.name, &json, &mut Random::new(1)).unwrap(),
            Outcome::Result(text) => text,
        }
    };
    let call = |name: &str, arguments: &str| format!("<tool_call>{{\"name\": \"{name}\", \"arguments\": {arguments}}}");
    assert_eq!(told(&call("calculator", r#"{"expression": "6 * 7"}"#)), "42");
    assert_eq!(told(&call("calculator", r#"{"expression": "x"}"#)), "error: x is not known");
    assert_eq!(told(&call("calculator", "{}")), "error: the argument expression is missing, at byte 0");
    assert_eq!(told(&call("dice", r#"{"count": 0, "sides": 6}"#)), "error: count is 0, it must be 1 to 100");
    let shown = told(&call("dice", r#"{"count": 50, "sides": 6}"#));
    let shown: Vec<u32> = shown.split(", ").map(|number| number.parse().unwrap()).collect();
    assert!(shown.len() == 50 && (1..=6).all(|side| shown.contains(&side)) && shown.iter().all(|side| *side <= 6));
}

/// Pieces of texts that models write.
const PIECES: &[&str] = &[
    "<｜tool▁calls▁begin｜>",
    "<｜tool▁call▁begin｜>",
    "<｜tool▁sep｜>",
    "\n```json\n",
    "\n```",
    "<｜tool▁call▁end｜>",
    "<tool_call>",
    "</tool_call>",
    "<|python_tag|>",
    "[TOOL_CALLS]",
    "[CALL_ID]",
    "[ARGS]",
    "<|tool_call_start|>",
    "<|tool_call_end|>",
    "<|tool_call|>",
    "<|/tool_call|>",
    "<|tool_call>",
    "<tool_call|>",
    "call:",
    "<|\"|>",
    "<escape>",
    "<start_function_call>",
    "<end_function_call>",
    "functools",
    "<|channel|>",
    "commentary",
    "analysis",
    "<|message|>",
    "<|end|>",
    "<|start|>",
    " to=functions.",
    "<|constrain|>",
    "<function=",
    "<parameter=",
    "</parameter>",
    "</function>",
    "<arg_key>",
    "</arg_key>",
    "<arg_value>",
    "</arg_value>",
    "<|tool_calls_section_begin|>",
    "<|tool_call_begin|>",
    "<|tool_call_argument_begin|>",
    "<|tool_calls_section_end|>",
    "<TOOLCALL>",
    "</TOOLCALL>",
    "<think>",
    "</think>",
    "{",
    "}",
    "[",
    "]",
    "(",
    ")",
    "\"",
    "'",
    ",",
    ":",
    "=",
    ";",
    "\\",
    "\\u",
    "\\ud83d",
    "\\x4",
    "\n",
    " ",
    "-",
    "0",
    "1.",
    "e5",
    "true",
    "None",
    "nul",
    "f",
    "g.h-2",
    "name",
    "arguments",
    "parameters",
    "ä",
    "漢",
    "\u{1}",
    "<",
    "<|",
    "{\"name\": \"f\"",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn any_text_is_read_to_its_end(picks in prop::collection::vec(0..PIECES.len(), 0..30), format in 0..CallFormat::ALL.len()) {
        let text: String = picks.iter().map(|&pick| PIECES[pick]).collect();
        let tools = Tools::new(LIST).unwrap();
        read_damaged(CallFormat::ALL[format], &text, &tools);
    }

    #[test]
    fn damaged_calls_are_read_to_their_end(row in 0..92_usize, at in 0..400_usize, pick in 0..PIECES.len(), cut in 0..4_usize) {
        let row = &rows()[row];
        let (text, tools) = (row["text"].as_str().unwrap(), Tools::new(row["tools"].as_str().unwrap()).unwrap());
        let at = (0..=at % (text.len() + 1)).rev().find(|&at| text.is_char_boundary(at)).unwrap();
        let (start, rest) = text.split_at(at);
        let rest = rest.get(cut..).unwrap_or("");
        let format = CallFormat::named(row["format"].as_str().unwrap()).unwrap();
        for text in [start.to_owned(), format!("{start}{rest}"), format!("{start}{}{rest}", PIECES[pick])] {
            read_damaged(format, &text, &tools);
        }
    }

    #[test]
    fn any_json_is_taken_or_refused_as_a_list(picks in prop::collection::vec(0..PIECES.len(), 0..20)) {
        let text: String = picks.iter().map(|&pick| PIECES[pick]).collect();
        if Tools::new(&text).is_ok() {
            prop_assert!(serde_json::from_str::<Value>(&text).is_ok_and(|list| list.is_array()));
        }
        let list = format!("[{{\"name\": \"f\", \"parameters\": {{\"enum\": [{text}]}}}}]");
        if let Ok(tools) = Tools::new(&list) {
            prop_assert!(serde_json::from_str::<Value>(&list).is_ok());
            let _ = tools.find("f").unwrap().check(&text);
        }
    }
}

/// Reads a text to its end, and checks that complete calls are JSON. Without errors, pieces give the same calls and
/// texts.
fn read_damaged(format: CallFormat, text: &str, tools: &Tools<'_>) {
    let (whole, pieces) = (read(format, text, tools), stream(format, text, tools));
    if whole.errors.is_empty() && pieces.errors.is_empty() {
        assert_eq!(whole, pieces, "{format} {text:?}");
    }
}
