//! Checks texts against grammars: JSON lines in, JSON lines out.
//!
//! `{"kind":"schema","grammar":{"type":"integer"},"texts":["12","1x"]}` gives
//! `{"ok":true,"results":[{"accepted":true,"prefix":2},{"accepted":false,"prefix":1}]}`, where `prefix` is the bytes of
//! the longest begin that can still be continued. A grammar that is refused gives
//! `{"ok":false,"error":"…","at":9,"keyword":"not"}`. `docs/structured.md` has the other members.

#[allow(dead_code)]
#[path = "common/raw_member.rs"]
mod raw_member;

use std::io::{BufRead, Write};
use std::time::Instant;

use gleed::grammar::{
    ErrorKind, Escapes, Grammar, GrammarError, Limits, MatchError, Matcher, Options, Source, Whitespace,
};
use gleed::mem::ALIGN;
use serde_json::{Value, json};

/// The most 32-bit words of scratch that are tried.
const MOST_SCRATCH: usize = 1 << 26;

fn main() -> std::io::Result<()> {
    let time = match std::env::args().nth(1).as_deref() {
        None => false,
        Some("--time") => true,
        Some("--help") => {
            println!("Checks texts against grammars: JSON lines in, JSON lines out (docs/structured.md).\n");
            println!("Usage: constrain [--time]\n\n  --time  Adds the microseconds of each compilation and text");
            return Ok(());
        }
        Some(other) => return Err(std::io::Error::other(format!("unknown argument {other}"))),
    };
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        if line.trim().is_empty() {
            continue;
        }
        let answer = answer(&line, time).unwrap_or_else(|error| json!({"ok": false, "error": error}));
        writeln!(out, "{answer}")?;
    }
    Ok(())
}

/// Returns the answer to one line.
fn answer(line: &str, time: bool) -> Result<Value, String> {
    let request: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
    let text = grammar_text(line, &request)?;
    let source = match request["kind"].as_str() {
        Some("schema") => Source::Schema(&text),
        Some("gbnf") => Source::Gbnf(&text),
        Some("regex") => Source::Regex(&text),
        other => return Err(format!("kind {other:?}: schema, gbnf or regex was expected")),
    };
    let ignore: Vec<&str> =
        request["options"]["ignore"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let options = options(&request, &ignore)?;
    let begin = Instant::now();
    let mut memory = Memory::default();
    let grammar = match compile(source, &options, text.len(), &mut memory) {
        Ok(grammar) => grammar,
        Err(error) => {
            return Ok(json!({"ok": false, "error": error.to_string(), "at": error.at, "keyword": error.keyword()}));
        }
    };
    let compiled = begin.elapsed();
    let mut results = Vec::new();
    for text in request["texts"].as_array().into_iter().flatten() {
        results.push(result(&grammar, limits(&request), text, time)?);
    }
    let mut answer = json!({"ok": true, "results": results});
    if time {
        answer["compile_us"] = json!(compiled.as_secs_f64() * 1e6);
        answer["bytes"] = json!(memory.bytes);
    }
    Ok(answer)
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

fn options<'o>(request: &Value, ignore: &'o [&'o str]) -> Result<Options<'o>, String> {
    let named = |name: &str| request[name].as_str().or(request["options"][name].as_str()).map(str::to_owned);
    let whitespace = match named("whitespace").as_deref() {
        None | Some("bounded") => Whitespace::Bounded,
        Some("compact") => Whitespace::Compact,
        Some("spaced") => Whitespace::Spaced,
        Some("any") => Whitespace::Any,
        Some(other) => return Err(format!("whitespace {other}: bounded, compact, spaced or any was expected")),
    };
    let escapes = match named("escapes").as_deref() {
        None | Some("short") => Escapes::Short,
        Some("all") => Escapes::All,
        Some(other) => return Err(format!("escapes {other}: short or all was expected")),
    };
    let flag = |name: &str| request["options"][name].as_bool().unwrap_or(false);
    let states = request["options"]["states"].as_u64().map_or(Options::default().states, |states| states as u32);
    Ok(Options {
        whitespace,
        escapes,
        closed: flag("closed"),
        one_of_as_any_of: flag("one_of_as_any_of"),
        ignore,
        states,
    })
}

fn limits(request: &Value) -> Limits {
    let limits = Limits::default();
    let number = |name: &str, other: usize| request["options"][name].as_u64().map_or(other, |number| number as usize);
    Limits {
        items: number("items", limits.items),
        nodes: number("nodes", limits.nodes),
        depth: number("depth", limits.depth),
    }
}

/// Memory of a grammar or matcher, aligned.
#[derive(Default)]
struct Memory {
    memory: Vec<u8>,
    bytes: usize,
}

impl Memory {
    fn of(&mut self, bytes: usize) -> &mut [u8] {
        self.memory = vec![0; bytes + ALIGN];
        self.bytes = bytes;
        let start = self.memory.as_ptr().align_offset(ALIGN);
        &mut self.memory[start..start + bytes]
    }
}

/// Compiles a grammar with as much scratch as it takes.
fn compile<'m>(
    source: Source<'_>,
    options: &Options<'_>,
    length: usize,
    memory: &'m mut Memory,
) -> Result<Grammar<'m>, GrammarError> {
    let mut scratch = vec![0; Grammar::scratch_len(length)];
    let bytes = loop {
        match Grammar::plan(source, options, &mut scratch) {
            Err(GrammarError { kind: ErrorKind::ScratchTooSmall { given }, .. }) if given < MOST_SCRATCH => {
                scratch = vec![0; given * 4];
            }
            planned => break planned?,
        }
    };
    Grammar::new(source, options, &mut scratch, memory.of(bytes))
}

/// Returns what a matcher says of a text: a string, or a list of strings and ids of tokens.
fn result(grammar: &Grammar<'_>, limits: Limits, text: &Value, time: bool) -> Result<Value, String> {
    let mut memory = Memory::default();
    let run = |memory: &mut Memory| -> Result<(bool, usize, f64), MatchError> {
        let bytes = Matcher::plan(limits)?;
        let mut matcher = Matcher::new(grammar, limits, memory.of(bytes))?;
        let begin = Instant::now();
        let mut prefix = 0;
        let parts = text.as_array().map_or(std::slice::from_ref(text), Vec::as_slice);
        let mut whole = true;
        for part in parts {
            let taken = match part {
                Value::String(text) => {
                    let taken = matcher.take_all(text.as_bytes())?;
                    prefix += taken;
                    taken == text.len()
                }
                other => matcher.take_token(other.as_u64().map_or(u32::MAX, |id| id as u32))?,
            };
            whole &= taken;
            if !whole {
                break;
            }
        }
        Ok((whole && matcher.may_end(), prefix, begin.elapsed().as_secs_f64() * 1e6))
    };
    Ok(match run(&mut memory) {
        Ok((accepted, prefix, _)) if !time => json!({"accepted": accepted, "prefix": prefix}),
        Ok((accepted, prefix, us)) => json!({"accepted": accepted, "prefix": prefix, "us": us}),
        Err(error) => json!({"accepted": false, "error": error.to_string()}),
    })
}
