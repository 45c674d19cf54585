//! Replies with tool calls. In each format, an allowed reply is read back as calls with valid arguments.

use gleed::grammar::{
    Calls, ErrorKind, Grammar, Limits, Mark, Matcher, Options, Source, TokenTrie, ToolChoice, Vocabulary, Whitespace,
};
use gleed::tools::{CallFormat, Part, Reader, ThoughtMarks, Tools};

use super::Compiled;
use super::generated::as_validated;
use super::masks::mask_of;
use common::Memory;
use common::random::Rng;

const LISTS: &[&str] = &[
    r#"[{"name": "roll", "description": "Rolls dice", "parameters": {"type": "object",
        "properties": {"sides": {"type": "integer", "minimum": 2, "maximum": 1000}}, "required": ["sides"]}}]"#,
    r#"[{"type": "function", "function": {"name": "now"}}, {"type": "function", "function": {"name": "now_in", "parameters":
        {"type": "object", "properties": {"zone": {"type": "string", "minLength": 1, "maxLength": 12}, "utc": {"type": "boolean"}},
         "required": ["zone"], "additionalProperties": false}}}]"#,
    r#"[{"name": "send.mail-2", "parameters": {"type": "object", "properties": {
        "to": {"type": "array", "items": {"type": "string", "enum": ["Ann", "Bob \"B\"", "Zoë"]}, "minItems": 1, "maxItems": 3},
        "body": {"type": "string"}, "mode": {"type": "string", "enum": ["plain", "rich text"]},
        "at": {"anyOf": [{"type": "null"}, {"type": "string", "format": "date"}]}}, "required": ["to", "body"]}}]"#,
    r##"[{"name": "tree", "parameters": {"type": "object", "$defs": {"node": {"type": "object", "properties": {"v": {"type": "number"},
        "next": {"$ref": "#/$defs/node"}}, "required": ["v"], "additionalProperties": false}}, "properties": {"größe": {"type": "integer"},
        "root": {"$ref": "#/$defs/node"}, "名前": {"const": "x"}}, "required": ["root", "größe"], "additionalProperties": false}},
        {"name": "empty", "parameters": {"type": "object", "properties": {}}}]"##,
    r#"[{"name": "f", "parameters": {"type": "object", "properties": {"any": {}, "code": {"type": "string", "pattern": "^[A-Z]{2}\\d+$"},
        "o": {"type": "object", "properties": {"k": {"type": ["string", "null"]}}}}, "required": ["code"]}}]"#,
];

fn names_of(tools: &Tools<'_>) -> Vec<String> {
    tools.iter().map(|tool| tool.name().to_owned()).collect()
}

/// A vocabulary of bytes, pieces of texts, and tokens that are no text.
struct Pieces {
    texts: Vec<Vec<u8>>,
    /// Names of the tokens without bytes, whose ids follow those of the texts.
    silent: Vec<&'static str>,
}

impl Pieces {
    fn new(random: &mut Rng, texts: &[String], silent: &[&'static str]) -> Self {
        let mut all: Vec<Vec<u8>> = (0..=255).map(|byte| vec![byte]).collect();
        for _ in 0..200 {
            let text = texts[random.below(texts.len())].as_bytes();
            let begin = random.below(text.len());
            all.push(text[begin..(begin + 2 + random.below(9)).min(text.len())].to_vec());
        }
        Self { texts: all, silent: silent.to_vec() }
    }

    fn id_of(&self, name: &str) -> Option<u32> {
        let place = self.silent.iter().position(|silent| *silent == name)?;
        Some((self.texts.len() + place) as u32)
    }

    /// Returns the text of a token, or the name of a token that is no text.
    fn text(&self, id: u32) -> &[u8] {
        let id = id as usize;
        self.texts.get(id).map(Vec::as_slice).unwrap_or_else(|| self.silent[id - self.texts.len()].as_bytes())
    }
}

impl Vocabulary for Pieces {
    fn tokens(&self) -> u32 {
        (self.texts.len() + self.silent.len()) as u32
    }

    fn each_byte(&self, id: u32, f: &mut dyn FnMut(u8)) {
        self.texts.get(id as usize).into_iter().flatten().for_each(|byte| f(*byte));
    }
}

/// Returns texts whose pieces become tokens.
fn samples(format: CallFormat) -> Vec<String> {
    let mut samples: Vec<String> = [
        "{\"name\": \"roll\", \"arguments\": {\"sides\": 6}}\n", "{\"name\": \"now_in\", \"parameters\": {\"zone\": \"a\"}}; {",
        "<think>\nWell.\n</think>\n\nLet me see, then. to=functions.roll json {\"type\": \"function\", \"name\": \"f\"}",
        "call:roll{sides:6,k:<|\"|>v<|\"|>}<tool_call|>x", "[roll(sides=6, zone=\"v\", utc=True)]",
        "<tool_call>\n<function=roll>\n<parameter=sides>\n6\n</parameter>\n</function>\n</tool_call>",
        "<arg_key>sides</arg_key>\n<arg_value>6</arg_value>\n", "roll\"><param name=\"sides\"><![CDATA[<6>]]></param>",
        "\n<function=roll>\n<parameter=sides>6</parameter>\n</function>\n", "functions.roll:0", "functools[{\"name\"", "function\n```json\n{}\n```",
    ]
    .map(str::to_owned)
    .into();
    samples.extend(marks_of(format).into_iter().map(|mark| format!("a{mark}\n{{")));
    samples
}

/// Returns the marks that open calls.
fn opens_of(format: CallFormat) -> &'static [&'static str] {
    match format {
        CallFormat::Hermes | CallFormat::Qwen3_5 | CallFormat::Glm4_5 => &["<tool_call>"],
        CallFormat::Llama3 => &["<|python_tag|>", "{\"name\"", " {\n \"type\": \"function\", \"name\""],
        CallFormat::MistralV3 | CallFormat::MistralV11 | CallFormat::MistralV13 => &["[TOOL_CALLS]"],
        CallFormat::Lfm2 => &["<|tool_call_start|>"],
        CallFormat::Granite3 => &["<|tool_call|>", "<tool_call>"],
        CallFormat::Gemma4 => &["<|tool_call>"],
        CallFormat::FunctionGemma => &["<start_function_call>"],
        CallFormat::Phi4Mini => &["<|tool_call|>", "functools"],
        CallFormat::Harmony => &["<|channel|>commentary to=", " to="],
        CallFormat::KimiK2 => &["<|tool_call_begin|>", "<|tool_calls_section_begin|><|tool_call_begin|>"],
        CallFormat::Nemotron => &["<TOOLCALL>"],
        CallFormat::DeepSeek => &["<｜tool▁call▁begin｜>"],
        CallFormat::SeedOss => &["<seed:tool_call>"],
        CallFormat::MiniCpm5 => &["<function name=\""],
        CallFormat::Apertus => &["<|tools_prefix|>"],
        _ => unreachable!("a new format"),
    }
}

fn marks_of(format: CallFormat) -> Vec<&'static str> {
    let more: &[&str] = match format {
        CallFormat::Hermes | CallFormat::Qwen3_5 => &["</tool_call>"],
        CallFormat::Glm4_5 => &["</tool_call>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"],
        CallFormat::MistralV11 | CallFormat::MistralV13 => &["[CALL_ID]", "[ARGS]"],
        CallFormat::Lfm2 => &["<|tool_call_end|>"],
        CallFormat::Gemma4 => &["<tool_call|>", "<|\"|>"],
        CallFormat::FunctionGemma => &["<end_function_call>", "<escape>"],
        CallFormat::Phi4Mini => &["<|/tool_call|>"],
        CallFormat::Harmony => &["<|channel|>", "<|message|>", "<|constrain|>", "<|start|>", "<|end|>"],
        CallFormat::KimiK2 => &["<|tool_call_argument_begin|>", "<|tool_call_end|>", "<|tool_calls_section_end|>"],
        CallFormat::Nemotron => &["</TOOLCALL>"],
        CallFormat::DeepSeek => &["<｜tool▁call▁end｜>", "<｜tool▁sep｜>"],
        CallFormat::SeedOss => &["</seed:tool_call>"],
        CallFormat::MiniCpm5 => &["</function>"],
        CallFormat::Apertus => &["<|tools_suffix|>"],
        _ => &[],
    };
    let is_mark = |open: &&&str| {
        !open.contains('"') && !open.contains("to=") && open.matches("<").count() < 2 && !open.starts_with("func")
    };
    let opens = opens_of(format).iter().filter(is_mark);
    opens.chain(more).copied().collect()
}

/// A random reply.
struct Case<'c> {
    pieces: &'c Pieces,
    trie: &'c TokenTrie<'c>,
    calls: Calls<'c>,
    random: &'c mut Rng,
}

impl Case<'_> {
    fn write(&mut self, grammar: &Grammar<'_>) -> String {
        let limits = Limits::default();
        let (mut memory, mut other) =
            (Memory::new(Matcher::plan(limits).unwrap()), Memory::new(Matcher::plan(limits).unwrap()));
        let mut matcher = Matcher::new(grammar, limits, memory.bytes()).unwrap();
        let mut mask = vec![0; self.trie.mask_len()];
        let mut text = Vec::new();
        for step in 0..600_usize {
            let left = 300_usize.saturating_sub(step).max(1);
            if matcher.is_complete() || matcher.may_end() && (step > 250 || self.random.below(12) == 0) {
                break;
            }
            if matcher.is_free() && self.random.below(3) == 0 {
                self.spell(&mut matcher, &mut text);
                continue;
            }
            let one = mask_of(&mut matcher, self.trie, usize::MAX);
            assert_eq!(mask_of(&mut matcher, self.trie, 1), one);
            assert!(matcher.mask_within(self.trie, left, usize::MAX, &mut mask).unwrap());
            self.compare(&mut matcher, &one, other.bytes());
            let allowed: Vec<u32> = (0..self.pieces.tokens())
                .filter(|id| mask[*id as usize / 32] >> (id % 32) & 1 == 1 && self.suits(&matcher, *id))
                .collect();
            if allowed.is_empty() && matcher.may_end() {
                // Another call could not end in time.
                break;
            }
            assert!(!allowed.is_empty(), "{:?}: {}", self.calls.format, String::from_utf8_lossy(&text));
            // Longer tokens are tried more often.
            let pick = |random: &mut Rng| allowed[random.below(allowed.len())];
            let id = [pick(self.random), pick(self.random)].into_iter().max_by_key(|id| self.pieces.text(*id).len());
            let id = id.unwrap();
            assert_eq!(matcher.accept(self.pieces, id), Ok(true), "{:?}", self.pieces.text(id));
            text.extend(self.pieces.text(id));
        }
        assert!(matcher.may_end(), "{:?}: no end: {}", self.calls.format, String::from_utf8_lossy(&text));
        String::from_utf8(text).expect("UTF-8")
    }

    /// Compares a mask with single tokens, and checks the state after a copy, a rewind and a restore.
    fn compare(&mut self, matcher: &mut Matcher<'_, '_>, mask: &[u32], other: &mut [u8]) {
        let saved = |matcher: &Matcher<'_, '_>| {
            let mut bytes = vec![0; matcher.snapshot_len()];
            matcher.snapshot(&mut bytes).map(|_| bytes).unwrap()
        };
        let before = saved(matcher);
        let mut copy = matcher.fork(other).unwrap();
        for _ in 0..6 {
            let id = self.random.below(self.pieces.tokens() as usize) as u32;
            let allowed = mask[id as usize / 32] >> (id % 32) & 1 == 1;
            assert_eq!(matcher.accept(self.pieces, id), Ok(allowed), "{:?}", self.pieces.text(id));
            assert_eq!(copy.accept(self.pieces, id), Ok(allowed));
            assert_eq!(saved(matcher), saved(&copy));
            if allowed {
                matcher.rewind(1).unwrap();
                copy.restore(&before).unwrap();
            }
            assert_eq!(saved(matcher), before);
            assert_eq!(saved(&copy), before);
        }
    }

    /// Returns whether a token keeps the text readable in places where any text is allowed.
    fn suits(&self, matcher: &Matcher<'_, '_>, id: u32) -> bool {
        !matcher.is_free() || std::str::from_utf8(self.pieces.text(id)).is_ok()
    }

    /// Writes the mark that opens a call with any tokens, as far as the matcher allows it.
    fn spell(&mut self, matcher: &mut Matcher<'_, '_>, text: &mut Vec<u8>) {
        let opens = opens_of(self.calls.format);
        let mut rest = opens[self.random.below(opens.len())].as_bytes();
        while !rest.is_empty() {
            let fits = |id: &u32| rest.starts_with(self.pieces.text(*id));
            let ids: Vec<u32> = (0..self.pieces.tokens()).filter(fits).collect();
            let id = ids[self.random.below(ids.len())];
            if !matcher.accept(self.pieces, id).unwrap() {
                return;
            }
            text.extend(self.pieces.text(id));
            rest = &rest[self.pieces.text(id).len()..];
        }
    }
}

/// Reads a reply, and checks that each call is valid. Returns the number of calls.
pub(super) fn read(text: &str, calls: &Calls<'_>) -> usize {
    let list = std::str::from_utf8(calls.tools).unwrap();
    let shown = Calls { tools: b"", ..*calls };
    let tools = Tools::new(list).unwrap();
    let mut reader = Reader::new(Some(calls.format), calls.thoughts, calls.is_thinking);
    let mut count = 0;
    while let Some(part) = reader.next(text, true, Some(&tools)) {
        let Part::Call(call) = part.unwrap_or_else(|error| panic!("{shown:?}: {text:?}: {error}")) else { continue };
        count += 1;
        let (tool, mut json) = (tools.find(call.name).unwrap(), String::new());
        call.arguments.write_json(Some(&tool), &mut json).unwrap();
        let mut value = match serde_json::from_str(&json) {
            Ok(value) => value,
            // The reader of JSON has numbers of 64 bits.
            Err(error) if error.to_string().starts_with("number out of range") => continue,
            Err(error) => panic!("{shown:?}: {text:?}: {json}: {error}"),
        };
        as_validated(&mut value);
        if let ToolChoice::Named(name) = calls.choice {
            assert_eq!(call.name, name);
        }
        let schema: serde_json::Value = tool
            .parameters()
            .map_or(serde_json::json!({"maxProperties": 0}), |json| serde_json::from_str(json).unwrap());
        let validator = jsonschema::options().should_validate_formats(true).build(&schema).unwrap();
        if let Err(error) = validator.validate(&value) {
            panic!("{shown:?}: {text:?}: {json}: {error}");
        }
    }
    count
}

/// Returns the lists of tools that the format supports. Some schemas are not supported if arguments are no JSON.
pub(super) fn lists(format: CallFormat) -> impl Iterator<Item = &'static str> {
    LISTS.iter().copied().filter(move |list| compiles(list, format))
}

fn compiles(list: &str, format: CallFormat) -> bool {
    Compiled::new(Source::Tools(Calls::new(list.as_bytes(), format)), &Options::default()).is_ok()
}

#[test]
fn replies_at_random_are_read_back() {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(6);
    let seed = std::env::var("RANDOM_SEED").ok().and_then(|seed| seed.parse().ok());
    let now = std::time::SystemTime::now().duration_since(std::time::SystemTime::UNIX_EPOCH).unwrap().as_nanos() as u64;
    let seed = seed.unwrap_or(now);
    println!("RANDOM_SEED={seed}");
    let mut random = Rng::new(seed);
    let mut found = [0; 2];
    for &format in CallFormat::ALL {
        for list in lists(format) {
            for _ in 0..cases {
                let [replies, calls] = reply(list, format, &mut random);
                found = [found[0] + replies, found[1] + calls];
            }
        }
    }
    println!("{} replies, {} calls", found[0], found[1]);
    assert!(found[1] * 2 > found[0]);
}

/// Writes one reply. Returns 1 and the number of its calls.
fn reply(list: &'static str, format: CallFormat, random: &mut Rng) -> [usize; 2] {
    let marks = marks_of(format);
    let thoughts = (format != CallFormat::Harmony && random.below(3) == 0).then_some(ThoughtMarks::THINK);
    let has_tokens = random.below(2) == 0;
    let mut silent: Vec<&'static str> = if has_tokens { marks } else { vec![] };
    if random.below(2) == 0 {
        silent.extend(["<think>", "</think>", "<other>"]);
    }
    let pieces = Pieces::new(random, &samples(format), &silent);
    let list_of_marks: Vec<Mark> = silent
        .iter()
        .filter(|name| **name != "<other>")
        .map(|text| Mark { text, token: pieces.id_of(text).unwrap() })
        .collect();
    let tools = Tools::new(list).unwrap();
    let names = names_of(&tools);
    let choice = match random.below(4) {
        0 => ToolChoice::Required,
        1 => ToolChoice::Named(&names[random.below(names.len())]),
        _ => ToolChoice::Auto,
    };
    let calls = Calls {
        choice,
        parallel: random.below(2) == 0,
        thoughts,
        is_thinking: thoughts.is_some() && random.below(3) == 0,
        marks: &list_of_marks,
        ..Calls::new(list.as_bytes(), format)
    };
    let whitespace = [Whitespace::Bounded, Whitespace::Compact, Whitespace::Spaced][random.below(3)];
    let options = Options { whitespace, close: true, closed: random.below(2) == 0, ..Options::default() };
    let mut compiled =
        Compiled::new(Source::Tools(calls), &options).unwrap_or_else(|error| panic!("{calls:?}: {error}"));
    let mut scratch = vec![0; TokenTrie::scratch_len(&pieces)];
    let mut nodes = Memory::new(TokenTrie::plan(&pieces, &mut scratch).unwrap());
    let trie = TokenTrie::new(&pieces, &mut scratch, nodes.bytes()).unwrap();
    let mut case = Case { pieces: &pieces, trie: &trie, calls, random };
    let written = compiled.with(Source::Tools(calls), &options, |grammar| case.write(grammar));
    let count = read(&written, &calls);
    assert!(choice == ToolChoice::Auto || count > 0, "{calls:?}: {}", written);
    assert!(calls.parallel || count <= 1, "{calls:?}: {}", written);
    [1, count]
}

#[test]
fn wrong_replies_are_refused_where_they_are_wrong() {
    let list = LISTS[0].as_bytes();
    let hermes = Calls { parallel: false, ..Calls::new(list, CallFormat::Hermes) };
    let text = "Hm. <tool_call>\n{\"name\": \"roll\", \"arguments\": {\"sides\": 6}}\n</tool_call>";
    assert_eq!(prefix(hermes, text), (text.len(), true));
    let refused_at = |calls, begin: &str, rest: &str| {
        assert_eq!(prefix(calls, &format!("{begin}{rest}")), (begin.len(), false), "{begin}");
    };
    refused_at(hermes, "<tool_call>\n{\"name\": \"", "walk\"");
    refused_at(hermes, "<tool_call>\n{\"name\": \"roll\", \"arguments\": {\"sides\": ", "\"6\"}}");
    refused_at(hermes, "<tool_call>\n{\"name\": \"roll\", \"arguments\": {\"sides\": 6}}", "}");
    assert_eq!(prefix(hermes, &format!("{text} more")).0, text.len());
    let free = Calls::new(list, CallFormat::Hermes);
    let twice = format!("{text}\n{text} and more <tool");
    assert_eq!(prefix(free, &twice), (twice.len(), true));
    let required = Calls { choice: ToolChoice::Required, ..free };
    assert_eq!(prefix(required, "Hm."), (0, false));
    assert_eq!(prefix(required, &text[4..]), (text.len() - 4, true));
    let thinks = Calls { thoughts: Some(ThoughtMarks::THINK), ..required };
    let thought = format!("<think>\n<tool_call> or not?</think>\n\n{}", &text[4..]);
    assert_eq!(prefix(thinks, &thought), (thought.len(), true));
    assert_eq!(prefix(thinks, "<think>\n<tool_call>"), (19, false));
    assert_eq!(prefix(Calls { is_thinking: true, ..thinks }, &thought[7..]), (thought.len() - 7, true));
    // A text that begins like a mark and contains another mark.
    refused_at(free, "<<tool_call<tool_call>", "x");
}

/// Returns how many bytes of a reply can be continued, and whether it may end.
fn prefix(calls: Calls<'_>, text: &str) -> (usize, bool) {
    let source = Source::Tools(calls);
    super::check(source, &Options { whitespace: Whitespace::Spaced, ..Options::default() }, &[text]).unwrap()[0]
}

#[test]
fn what_cannot_be_compiled_is_named() {
    let error = |list: &str, calls: fn(Calls<'_>) -> Calls<'_>| {
        let calls = calls(Calls::new(list.as_bytes(), CallFormat::Hermes));
        let error = Compiled::new(Source::Tools(calls), &Options::default()).err().expect("refused");
        (error.kind, calls.tool_at(error.at).map(str::to_owned))
    };
    let two = r#"[{"name":"a"},{"name":"b","parameters":{"properties":{"x":{"not":{}}}}},{"name":"c"}]"#;
    assert_eq!(error(two, |calls| calls), (ErrorKind::Unsupported("not"), Some("b".into())));
    let never = r#"[{"name":"a"},{"name":"b","parameters":{"type":"array"}}]"#;
    assert_eq!(error(never, |calls| calls), (ErrorKind::Empty, Some("b".into())));
    assert_eq!(
        error(two, |calls| Calls { choice: ToolChoice::Named("z"), ..calls }).0,
        ErrorKind::Value("tool_choice")
    );
    assert_eq!(error("[]", |calls| calls).0, ErrorKind::Empty);
    assert!(matches!(error("[1]", |calls| calls).0, ErrorKind::Syntax(_)));
    let python = Calls::new(br#"[{"name":"a","parameters":{"properties":{"a-b":{}}}}]"#, CallFormat::Lfm2);
    let error = Compiled::new(Source::Tools(python), &Options::default()).err().expect("refused");
    assert_eq!(error.kind, ErrorKind::Unsupported("properties"));
}
