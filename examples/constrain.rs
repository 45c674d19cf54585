//! Checks texts against grammars: JSON lines in, JSON lines out.
//!
//! `{"kind":"schema","grammar":{"type":"integer"},"texts":["12","1x"]}` gives
//! `{"ok":true,"results":[{"accepted":true,"prefix":2},{"accepted":false,"prefix":1}]}`. `prefix` is the length in
//! bytes of the longest beginning of the text that the grammar can continue. A grammar that is refused gives
//! `{"ok":false,"error":"…","at":9,"keyword":"not","pointer":"/items/not"}`. With `--model FILE` a line may have
//! `"walks":[[ids]]` instead of texts. For each state of a walk the answer says whether the text may end there, how
//! many tokens may follow, and the hash of their ids. `docs/structured.md` has the other members.

use std::error::Error;
use std::io::{BufRead, Write};
use std::process::ExitCode;
use std::time::Instant;

use common::compile::compile;
use common::raw_member;
use gguf_rs_lite::Gguf;
use gleed::grammar::{
    Calls, Escapes, Grammar, JsonPointer, Limits, Marks, MatchError, Matcher, Options, Source, TokenTrie, ToolChoice,
    Vocabulary, Whitespace,
};
use gleed::host::AlignedBytes;
use gleed::token::Tokenizer;
use gleed::tools::{CallFormat, ThoughtMarks};
use serde_json::{Value, json};

const USAGE: &str = "Checks texts against grammars: JSON lines in, JSON lines out (docs/structured.md).

Usage: constrain [--time] [--model FILE]

  --time        Adds the microseconds of each compilation, text and mask
  --model FILE  Reads the vocabulary of this GGUF file, for lines with walks
  -V, --version Print version

Examples:
  echo '{\"kind\":\"regex\",\"grammar\":\"[a-z]+!\",\"texts\":[\"dog!\",\"dog\"]}' | cargo run --release --example constrain
  cargo run --release --example constrain -- --time < questions.jsonl";

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let (mut time, mut model) = (false, None);
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--time" => time = true,
            "--model" => model = Some(args.next().ok_or("--model needs a file")?),
            "--help" | "-h" => {
                println!("{USAGE}");
                return Ok(());
            }
            "--version" | "-V" => {
                println!("constrain {}", common::version());
                return Ok(());
            }
            other => return Err(format!("unknown argument {other}; --help lists them").into()),
        }
    }
    let Some(path) = model else { return answers(time, None) };
    let file = std::fs::read(&path).map_err(|error| format!("{path}: {error}"))?;
    let gguf = Gguf::parse(&file).map_err(|error| format!("{path}: {error}"))?;
    let mut tables = AlignedBytes::new(Tokenizer::plan(&gguf).map_err(|error| format!("{path}: {error}"))?);
    let tokenizer = Tokenizer::new(&gguf, tables.bytes()).map_err(|error| format!("{path}: {error}"))?;
    let mut scratch = vec![0; TokenTrie::scratch_len(&tokenizer)];
    let mut nodes = AlignedBytes::new(TokenTrie::plan(&tokenizer, &mut scratch)?);
    let trie = TokenTrie::new(&tokenizer, &mut scratch, nodes.bytes())?;
    answers(time, Some((&tokenizer, &trie)))
}

/// The tokens of a model.
type Tokens<'t> = Option<(&'t Tokenizer<'t, 't>, &'t TokenTrie<'t>)>;

fn answers(time: bool, tokens: Tokens<'_>) -> Result<(), Box<dyn Error>> {
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        if line.trim().is_empty() {
            continue;
        }
        let answer = answer(&line, time, tokens).unwrap_or_else(|error| json!({"ok": false, "error": error}));
        writeln!(out, "{answer}")?;
    }
    Ok(())
}

/// Returns the answer to one line.
fn answer(line: &str, time: bool, tokens: Tokens<'_>) -> Result<Value, String> {
    let request: Value = serde_json::from_str(line).map_err(|error| format!("the line is not JSON: {error}"))?;
    let text = grammar_text(line, &request)?;
    let marks = marks(&request, tokens)?;
    let source = match request["kind"].as_str() {
        Some("schema") => Source::Schema(&text),
        Some("gbnf") => Source::Gbnf(&text),
        Some("regex") => Source::Regex(&text),
        Some("tools") => Source::Tools(calls(&request, &text, &marks)?),
        Some(other) => return Err(format!("kind {other}: schema, gbnf, regex or tools was expected")),
        None => return Err("no kind: schema, gbnf, regex or tools was expected".into()),
    };
    let ignore: Option<Vec<&str>> = list(&request["options"], "ignore")?.iter().map(Value::as_str).collect();
    let ignore = ignore.ok_or("ignore is a list of keywords")?;
    let options = options(&request, &ignore)?;
    let begin = Instant::now();
    let mut memory = AlignedBytes::new(0);
    let grammar = match compile(source, &options, &mut memory) {
        Ok(grammar) => grammar,
        Err(error) => {
            let pointer = match source {
                Source::Gbnf(_) | Source::Regex(_) => None,
                source => Some(JsonPointer::new(source.text(), error.at).to_string()),
            };
            let tool = if let Source::Tools(calls) = source { calls.tool_at(error.at) } else { None };
            let keyword = error.keyword();
            return Ok(
                json!({"ok": false, "error": error.to_string(), "at": error.at, "keyword": keyword, "pointer": pointer, "tool": tool}),
            );
        }
    };
    let compiled = begin.elapsed();
    let mut results = Vec::new();
    let limits = limits(&request)?;
    for text in list(&request, "texts")? {
        results.push(result(&grammar, limits, text, (time, options.close))?);
    }
    for ids in list(&request, "walks")? {
        let tokens = tokens.ok_or("walks need --model FILE")?;
        results.push(walk(&grammar, limits, ids, time, tokens)?);
    }
    let mut answer = json!({"ok": true, "results": results});
    if time {
        answer["compile_us"] = json!(compiled.as_secs_f64() * 1e6);
        answer["bytes"] = json!(memory.bytes().len());
    }
    Ok(answer)
}

/// Returns the elements of a member that is a list, or no elements if the member is absent.
fn list<'r>(request: &'r Value, name: &str) -> Result<&'r [Value], String> {
    match &request[name] {
        Value::Null => Ok(&[]),
        Value::Array(elements) => Ok(elements),
        _ => Err(format!("{name} is not a list")),
    }
}

/// Returns a member that is a string, or `None` if it is absent.
fn text<'r>(members: &'r Value, name: &str) -> Result<Option<&'r str>, String> {
    match &members[name] {
        Value::Null => Ok(None),
        Value::String(text) => Ok(Some(text)),
        _ => Err(format!("{name} is not a string")),
    }
}

/// Returns the value of an option that is a number, or `absent` if the option is absent.
fn number(request: &Value, name: &str, absent: usize) -> Result<usize, String> {
    /// Largest number that is accepted: more than any grammar takes, and few enough that the memory fits a machine.
    const MOST: u64 = 1 << 20;
    match &request["options"][name] {
        Value::Null => Ok(absent),
        other => match other.as_u64() {
            Some(number) if number <= MOST => Ok(number as usize),
            _ => Err(format!("option {name} is a number up to {MOST}")),
        },
    }
}

/// Returns the value of an option that is true or false, or `absent` if the option is absent.
fn flag(request: &Value, name: &str, absent: bool) -> Result<bool, String> {
    match &request["options"][name] {
        Value::Null => Ok(absent),
        other => other.as_bool().ok_or_else(|| format!("option {name} is true or false")),
    }
}

/// Returns the id of a token. An id that exceeds `u32` becomes `u32::MAX`, which no vocabulary has.
fn token_id(value: &Value) -> Option<u32> {
    value.as_u64().map(|id| u32::try_from(id).unwrap_or(u32::MAX))
}

/// Returns the format of tool calls that a request names.
fn format(request: &Value) -> Result<CallFormat, String> {
    let name = text(&request["options"], "format")?.ok_or("tools need options.format")?;
    CallFormat::named(name).ok_or_else(|| format!("no format of calls is named {name}"))
}

fn thoughts(request: &Value) -> Result<Option<ThoughtMarks>, String> {
    match text(&request["options"], "thoughts")? {
        None => Ok(None),
        Some("think") => Ok(Some(ThoughtMarks::THINK)),
        Some("channel") => Ok(Some(ThoughtMarks::CHANNEL)),
        Some("brackets") => Ok(Some(ThoughtMarks::BRACKETS)),
        Some("seed") => Ok(Some(ThoughtMarks::SEED)),
        Some(other) => Err(format!("thoughts {other}: think, channel, brackets or seed was expected")),
    }
}

/// Returns the marks of calls and thoughts that are single tokens of the model.
fn marks(request: &Value, tokens: Tokens<'_>) -> Result<Marks, String> {
    match tokens.filter(|_| request["kind"] == "tools") {
        Some((tokenizer, _)) => Ok(Marks::of(format(request)?, thoughts(request)?, tokenizer)),
        None => Ok(Marks::default()),
    }
}

fn calls<'t>(request: &'t Value, tools: &'t [u8], marks: &'t Marks) -> Result<Calls<'t>, String> {
    let options = &request["options"];
    let choice = match text(options, "tool_choice")? {
        None | Some("auto") => ToolChoice::Auto,
        Some("required") => ToolChoice::Required,
        Some(name) => ToolChoice::Named(name),
    };
    Ok(Calls {
        choice,
        parallel: flag(request, "parallel", true)?,
        thoughts: thoughts(request)?,
        is_thinking: flag(request, "thinking", false)?,
        marks: marks.as_slice(),
        ..Calls::new(tools, format(request)?)
    })
}

/// Returns which tokens are allowed in each state of a walk: before each token of the walk, and after the last one.
fn walk(
    grammar: &Grammar<'_>,
    limits: Limits,
    ids: &Value,
    time: bool,
    (tokenizer, trie): (&Tokenizer<'_, '_>, &TokenTrie<'_>),
) -> Result<Value, String> {
    let told = |error: MatchError| error.to_string();
    let ids: Option<Vec<u32>> = ids.as_array().and_then(|ids| ids.iter().map(token_id).collect());
    let ids = ids.ok_or("a walk is a list of ids")?;
    let mut memory = AlignedBytes::new(Matcher::plan(limits).map_err(told)?);
    let mut matcher = Matcher::new(grammar, limits, memory.bytes()).map_err(told)?;
    let (mut mask, mut states) = (vec![0; trie.mask_len()], Vec::new());
    for id in ids.iter().map(Some).chain([None]) {
        let begin = Instant::now();
        matcher.mask(trie, usize::MAX, &mut mask).map_err(told)?;
        let us = begin.elapsed().as_secs_f64() * 1e6;
        let allowed = |id: u32| mask.get(id as usize / 32).is_some_and(|word| word >> (id % 32) & 1 == 1);
        let hash = (0..tokenizer.tokens()).filter(|&id| allowed(id)).map(finalized).fold(0_u64, u64::wrapping_add);
        let count: u32 = mask.iter().map(|word| word.count_ones()).sum();
        states.push(json!({"accept": matcher.may_end(), "count": count, "hash": format!("{hash:016x}")}));
        if time {
            states.last_mut().into_iter().for_each(|state| state["us"] = json!(us));
        }
        let Some(&id) = id else { break };
        if !allowed(id) {
            states.push(json!({"error": format!("token {id} is not allowed")}));
            break;
        }
        if !matcher.accept(tokenizer, id).map_err(told)? {
            states.push(json!({"error": format!("token {id} was not taken")}));
            break;
        }
    }
    Ok(json!(states))
}

/// Returns the finalizer of SplitMix64, applied to an id.
fn finalized(id: u32) -> u64 {
    let mut z = (u64::from(id) + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ z >> 31
}

/// Returns the grammar as bytes: the content of a string, or the text of a schema that stands in the line itself.
fn grammar_text(line: &str, request: &Value) -> Result<Vec<u8>, String> {
    if let Some(hex) = request["grammar_hex"].as_str() {
        let pairs = hex
            .as_bytes()
            .chunks(2)
            .map(|pair| std::str::from_utf8(pair).ok().and_then(|pair| u8::from_str_radix(pair, 16).ok()));
        return pairs.collect::<Option<_>>().ok_or_else(|| "grammar_hex is not hexadecimal".into());
    }
    match &request["grammar"] {
        Value::String(text) => Ok(text.as_bytes().to_vec()),
        Value::Null => Err("no grammar".into()),
        _ => {
            raw_member::member(line, "grammar").map(|text| text.as_bytes().to_vec()).ok_or_else(|| "no grammar".into())
        }
    }
}

/// Names of all options. The names in the second line belong to the kind `tools`.
const OPTIONS: &str = "whitespace escapes closed one_of_as_any_of close ignore states items nodes depth \
    format tool_choice parallel thoughts thinking";

fn options<'o>(request: &Value, ignore: &'o [&'o str]) -> Result<Options<'o>, String> {
    if !matches!(request["options"], Value::Null | Value::Object(_)) {
        return Err("options is not an object".into());
    }
    let names = request["options"].as_object().into_iter().flatten().map(|(name, _)| name);
    if let Some(name) = names.into_iter().find(|name| !OPTIONS.split(' ').any(|option| option == *name)) {
        return Err(format!("option {name} is none of: {OPTIONS}"));
    }
    let named = |name: &str| {
        text(request, name).and_then(|found| found.map_or(text(&request["options"], name), |text| Ok(Some(text))))
    };
    let whitespace = match named("whitespace")? {
        None | Some("bounded") => Whitespace::Bounded,
        Some("compact") => Whitespace::Compact,
        Some("spaced") => Whitespace::Spaced,
        Some("any") => Whitespace::Any,
        Some(other) => return Err(format!("whitespace {other}: bounded, compact, spaced or any was expected")),
    };
    let escapes = match named("escapes")? {
        None | Some("short") => Escapes::Short,
        Some("all") => Escapes::All,
        Some(other) => return Err(format!("escapes {other}: short or all was expected")),
    };
    Ok(Options {
        whitespace,
        escapes,
        closed: flag(request, "closed", false)?,
        one_of_as_any_of: flag(request, "one_of_as_any_of", false)?,
        ignore,
        states: number(request, "states", Options::default().states as usize)? as u32,
        close: flag(request, "close", false)?,
    })
}

fn limits(request: &Value) -> Result<Limits, String> {
    let limits = Limits::default();
    Ok(Limits {
        items: number(request, "items", limits.items)?,
        nodes: number(request, "nodes", limits.nodes)?,
        depth: number(request, "depth", limits.depth)?,
        ..limits
    })
}

/// Returns what a matcher says of a text: a string, or a list of strings and ids of tokens.
fn result(grammar: &Grammar<'_>, limits: Limits, text: &Value, (time, close): (bool, bool)) -> Result<Value, String> {
    let parts = match text {
        Value::String(_) => std::slice::from_ref(text),
        Value::Array(parts) if parts.iter().all(|part| part.is_string() || part.is_u64()) => parts.as_slice(),
        _ => return Err("a text is a string, or a list of strings and ids of tokens".into()),
    };
    let run = || -> Result<Value, MatchError> {
        let mut memory = AlignedBytes::new(Matcher::plan(limits)?);
        let mut matcher = Matcher::new(grammar, limits, memory.bytes())?;
        let begin = Instant::now();
        let mut prefix = 0;
        let mut whole = true;
        for part in parts {
            let taken = match part {
                Value::String(text) => {
                    let taken = matcher.take_all(text.as_bytes())?;
                    prefix += taken;
                    taken == text.len()
                }
                other => matcher.take_token(token_id(other).unwrap_or(u32::MAX))?,
            };
            whole &= taken;
            if !whole {
                break;
            }
        }
        let us = begin.elapsed().as_secs_f64() * 1e6;
        let mut result = json!({"accepted": whole && matcher.may_end(), "prefix": prefix});
        if time {
            result["us"] = json!(us);
        }
        if close {
            result["bytes_to_end"] = json!(matcher.bytes_to_end()?);
        }
        Ok(result)
    };
    Ok(run().unwrap_or_else(|error| json!({"accepted": false, "error": error.to_string()})))
}
