//! Published chat templates: the texts that the feature `jinja` renders, the turn format that each template is
//! recognised as, and the texts of this format. The templates are in the folder that `GLEED_TEMPLATES` names. Hashes of
//! them and of Python's renderings are in `tests/data/templates/published.json`, which `published.py` makes.

use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use gleed::host::{ChatTemplate, RenderOptions};
use gleed::tools::Tools;
use gleed::turns::{
    Answer, Message, Piece, Role, Thinking, ToolCall, ToolFormat, ToolResult, ToolTurns, TurnFormat, Turns,
};
use serde_json::Value;

/// Time at which the script made the hashes: 2025-03-09 07:05.
const NOW: u64 = 1_741_503_900;

/// Titles of the conversations, in the order of the hashes.
const TITLES: [&str; 14] = [
    "user",
    "system",
    "turns",
    "no system",
    "thought",
    "reasoning",
    "thinking",
    "not thinking",
    "end",
    "tools",
    "tools, no system",
    "result",
    "results",
    "after",
];
const WITH_CALLS: [&str; 3] = ["result", "results", "after"];

/// The formats of a template, and the conversations of which they deliberately write something else. In all other
/// conversations they write the text of the template.
struct Known {
    template: &'static str,
    turns: &'static str,
    tools: Option<&'static str>,
    different: &'static [&'static str],
}

const fn same(template: &'static str, turns: &'static str, tools: &'static str) -> Known {
    Known { template, turns, tools: Some(tools), different: &[] }
}

const fn but(
    template: &'static str,
    turns: &'static str,
    tools: &'static str,
    different: &'static [&'static str],
) -> Known {
    Known { different, ..same(template, turns, tools) }
}

const fn plain(template: &'static str, turns: &'static str, different: &'static [&'static str]) -> Known {
    Known { template, turns, tools: None, different }
}

/// The known templates. All others need the feature `jinja`.
const KNOWN: &[Known] = &[
    // The template adds a system message with today's date, and states in the turn after it whether the model may
    // think.
    plain("Apertus-8B-Instruct", "apertus", &["user", "no system", "end"]),
    // The template writes a thought in another way, and checks the wrong neighbours of results.
    but("Bielik-11B-v3.0-Instruct", "bielik", "bielik", &["thought", "results", "after"]),
    plain("ByteDance-Seed-OSS", "seed-oss", &[]),
    // The template repeats the setting in the user's message.
    but("GLM-4.6", "glm4.5", "glm4.5", &["not thinking"]),
    same("GLM-4.7-Flash", "glm4.7", "glm4.7"),
    plain("HuggingFaceTB-SmolLM3-3B", "smollm3", &[]),
    same("Kimi-K2-Instruct", "kimi-k2", "kimi-k2"),
    same("Kimi-K2-Thinking", "kimi-k2-thinking", "kimi-k2"),
    // The templates write no calls.
    but("LFM2-8B-A1B", "lfm2", "lfm2", &WITH_CALLS),
    but("LFM2.5-8B-A1B", "lfm2.5-a1b", "lfm2.5-a1b", &WITH_CALLS),
    but("LFM2.5-Instruct", "lfm2.5", "lfm2.5", &WITH_CALLS),
    same("MiMo-VL", "mimo", "qwen2.5"),
    // The template adds a system message with today's date, moves the list of tools, and leaves out the text beside
    // calls.
    but(
        "Mistral-Small-3.2-24B-Instruct-2506",
        "mistral-v7-tekken",
        "mistral-v11",
        &["user", "no system", "end", "tools, no system", "results", "after"],
    ),
    same("NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "nemotron3", "nemotron3"),
    // The template puts the setting in the system message, and opens a thought in the last turn.
    but("NVIDIA-Nemotron-Nano-v2", "nemotron-nano-v2", "nemotron-nano-v2", &["not thinking", "end"]),
    // The templates leave out the text beside calls, and write a line end after a result that is not the last message.
    but("NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use", "hermes", "hermes-pro", &["results", "after"]),
    but("NousResearch-Hermes-3-Llama-3.1-8B-tool_use", "hermes", "hermes-pro", &["results", "after"]),
    same("Qwen-Qwen2.5-7B-Instruct", "qwen2.5", "qwen2.5"),
    // The templates write an empty thought into the last turn.
    but("Qwen-Qwen3-0.6B", "qwen3", "qwen3", &["end"]),
    but("Qwen3.5-4B", "qwen3.5", "qwen3.5", &["end", "result", "results"]),
    same("Qwen3-Coder", "qwen3-coder", "qwen3-coder"),
    same("Spark2.5", "spark2.5", "spark2.5"),
    // The template lists no tools.
    but(
        "deepseek-ai-DeepSeek-R1-Distill-Llama-8B",
        "deepseek-r1",
        "deepseek-r1",
        &["tools", "tools, no system", "result", "results", "after"],
    ),
    plain("google-gemma-2-2b-it", "gemma", &[]),
    // The template leaves out the text beside calls.
    but("google-gemma-4-31B-it", "gemma4", "gemma4", &["results"]),
    plain("google-gemma-4-31B-it-interleaved", "gemma4", &[]),
    // The template adds a system message with today's date, and writes no calls.
    but(
        "ibm-granite-granite-3.3-2B-Instruct",
        "granite3.3",
        "granite3.3",
        &["user", "no system", "end", "tools, no system", "result", "results", "after"],
    ),
    same("ibm-granite-granite-4.0", "granite4", "granite4"),
    same("ibm-granite-granite-4.1", "granite", "granite4.1"),
    same("meta-llama-Llama-3.1-8B-Instruct", "llama3.1", "llama3.1"),
    // The template writes today's date.
    but("meta-llama-Llama-3.2-3B-Instruct", "llama3.1", "llama3.1", &TITLES),
    same("meta-llama-Llama-3.3-70B-Instruct", "llama3.1", "llama3.1"),
    plain("microsoft-Phi-3.5-mini-instruct", "phi3", &[]),
    same("mistralai-Ministral-3-14B-Reasoning-2512", "ministral3-reasoning", "mistral-v13"),
    // The template moves the system message and the list of tools, and writes the texts of the list without escapes.
    but(
        "mistralai-Mistral-Nemo-Instruct-2407",
        "mistral-v3-tekken",
        "mistral-v3-tekken",
        &["turns", "thought", "tools", "tools, no system", "result", "results", "after"],
    ),
    // The template writes today's date.
    but("openai-gpt-oss-120b", "harmony", "harmony", &TITLES),
    // The template opens the thought only if it is told to.
    plain("openbmb-MiniCPM5-1B", "minicpm5", &["thinking"]),
];

/// Returns the FNV-1a hash of a text.
fn hash(text: &str) -> String {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    format!("{:016x}", text.bytes().fold(0xcbf2_9ce4_8422_2325, step))
}

/// Returns the folder of templates, and the hashes.
fn data() -> (PathBuf, Value) {
    let folder = std::env::var("GLEED_TEMPLATES").expect("GLEED_TEMPLATES names a folder");
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/templates/published.json");
    let data: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    assert!(TITLES.iter().all(|title| data["conversations"][title].is_string()));
    (folder.into(), data)
}

/// Returns name, source and hashes of each template.
fn templates<'d>(folder: &Path, data: &'d Value) -> Vec<(&'d str, String, Vec<Option<&'d str>>)> {
    let templates = data["templates"].as_object().unwrap().iter().map(|(name, of)| {
        let source = std::fs::read_to_string(folder.join(format!("{name}.jinja"))).unwrap();
        assert_eq!(hash(&source), of["source"].as_str().unwrap(), "{name} is another version");
        (name.as_str(), source, of["texts"].as_array().unwrap().iter().map(Value::as_str).collect())
    });
    templates.collect()
}

#[test]
#[ignore = "needs a folder that GLEED_TEMPLATES names"]
fn jinja_renders_what_python_does() {
    let (folder, data) = data();
    let (mut count, mut wrong) = (0, Vec::new());
    for (name, source, hashes) in templates(&folder, &data) {
        let template = ChatTemplate::new(&source, "<s>", "</s>").unwrap();
        for (title, expected) in TITLES.iter().zip(hashes) {
            // Python refuses some conversations that Gleed renders: here `for` goes through `none` as through an empty
            // list.
            let Some(expected) = expected else { continue };
            let options = RenderOptions {
                variables: data["conversations"][title].as_str(),
                now: Some(UNIX_EPOCH + Duration::from_secs(NOW)),
                ..RenderOptions::default()
            };
            let rendered = template.render(&[], &options);
            if rendered.as_ref().map(|text| hash(text)).as_deref() != Ok(expected) {
                wrong.push(format!("{name}, {title}:\n{rendered:?}"));
            }
            count += 1;
        }
    }
    assert!(wrong.is_empty() && count > 900, "{} of {count}\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
#[ignore = "needs a folder that GLEED_TEMPLATES names"]
fn templates_are_taken_for_a_format_that_writes_the_same() {
    let (folder, data) = data();
    let mut wrong = Vec::new();
    for (name, source, hashes) in templates(&folder, &data) {
        let known = KNOWN.iter().find(|known| known.template == name);
        let format = TurnFormat::of_template(&source);
        let tools = format.and_then(|format| ToolFormat::of(format, Some(&source)));
        assert_eq!(format.map(TurnFormat::name), known.map(|known| known.turns), "{name}");
        assert_eq!(tools.map(ToolFormat::name), known.and_then(|known| known.tools), "{name}");
        let (Some(format), Some(known)) = (format, known) else { continue };
        for (title, expected) in TITLES.iter().zip(hashes) {
            // Here a message has no separate thought.
            let Some(expected) = expected.filter(|_| *title != "reasoning") else { continue };
            let Some(text) = written(format, tools, data["conversations"][title].as_str().unwrap()) else { continue };
            if (hash(&text) == expected) == known.different.contains(title) {
                wrong.push(format!("{name}, {title}:\n{text:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}\n{}", wrong.len(), wrong.join("\n"));
}

/// Returns the text that the formats write for a conversation, if they can.
fn written(format: &'static TurnFormat, tools: Option<&'static ToolFormat>, json: &str) -> Option<String> {
    let conversation: Value = serde_json::from_str(json).unwrap();
    let mut text = String::new();
    let mut put = |piece: Piece<'_>| {
        text.push_str(piece.text("<s>", "</s>"));
        Ok::<(), std::fmt::Error>(())
    };
    let messages = conversation["messages"].as_array().unwrap();
    if conversation["tools"].is_null() {
        write_turns(format, &conversation, messages, &mut put)?;
    } else {
        let (_, list) = json.split_once("\"tools\": [").unwrap();
        let (list, _) = list.split_once(", \"documents\"").unwrap();
        write_tools(format, tools?, &format!("[{list}"), messages, &mut put);
    }
    Some(text)
}

/// A function that takes pieces.
type Put<'p> = &'p mut dyn FnMut(Piece<'_>) -> std::fmt::Result;

fn role(message: &Value) -> Role {
    match message["role"].as_str().unwrap() {
        "system" => Role::System,
        "user" => Role::User,
        _ => Role::Assistant,
    }
}

fn write_turns(format: &'static TurnFormat, conversation: &Value, messages: &[Value], put: Put<'_>) -> Option<()> {
    let mut turns = Turns::new(format);
    for message in messages {
        let message = Message { role: role(message), text: message["content"].as_str().unwrap() };
        turns.add(message).try_for_each(&mut *put).unwrap();
    }
    if conversation["add_generation_prompt"] == false {
        turns.end().try_for_each(put).unwrap();
        return Some(());
    }
    let pieces = match conversation["enable_thinking"].as_bool() {
        None => turns.reply(),
        Some(think) => {
            let thinking = Thinking::of(format)?;
            // The model must be able to get this setting. If it is not the default, the format must open its turn
            // accordingly.
            if !thinking.can(think) || (think != thinking.is_on() && thinking.can(!think) && !opens(thinking, format)) {
                return None;
            }
            turns.reply_thinking(thinking, think)
        }
    };
    let mut pieces = pieces;
    pieces.try_for_each(put).unwrap();
    Some(())
}

/// Returns whether a turn can be opened in two ways.
fn opens(thinking: &Thinking, format: &'static TurnFormat) -> bool {
    let open = |think| Turns::after_message(format, Role::User).reply_thinking(thinking, think).collect::<Vec<_>>();
    open(true) != open(false)
}

fn write_tools(
    format: &'static TurnFormat,
    tools: &'static ToolFormat,
    list: &str,
    messages: &[Value],
    mut put: Put<'_>,
) {
    let mut turns = ToolTurns::new(format, tools, Tools::new(list).unwrap());
    // Kimi's template makes its own identifiers.
    let id = |id: &str| match (tools.name(), id) {
        ("kimi-k2", "call00001") => "functions.roll:0".to_owned(),
        ("kimi-k2", _) => "functions.now:1".to_owned(),
        _ => id.to_owned(),
    };
    for message in messages {
        let text = message["content"].as_str().unwrap();
        if message["role"] == "tool" {
            let id = id(message["tool_call_id"].as_str().unwrap());
            let name = if message["tool_call_id"] == "call00001" { "roll" } else { "now" };
            turns.result(ToolResult { name, id: Some(&id), text }, &mut put).unwrap();
        } else if message["role"] == "assistant" {
            let calls: Vec<(&str, String)> = message["tool_calls"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|call| (call["function"]["name"].as_str().unwrap(), id(call["id"].as_str().unwrap())))
                .collect();
            let calls: Vec<ToolCall<'_>> = calls
                .iter()
                .map(|(name, id)| {
                    let arguments = if *name == "roll" { r#"{"sides": 6, "how": "it's"}"# } else { "{}" };
                    ToolCall { name, id: Some(id), arguments }
                })
                .collect();
            turns.answer(Answer { text, calls: &calls, ..Answer::default() }, &mut put).unwrap();
        } else {
            turns.add(Message { role: role(message), text }, &mut put).unwrap();
        }
    }
    turns.reply(None, &mut put).unwrap();
}
