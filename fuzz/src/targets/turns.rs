//! Turns of any messages in every format, written and encoded; replies of a model in every call format, whole and in
//! pieces; and lists of tools.

use std::sync::LazyLock;

use gleed::tools::{Call, CallError, CallFormat, Part, Reader, ThoughtMarks, Tools};
use gleed::turns::{Message, Piece, Role, TurnFormat, TurnText, TurnTextError, Turns};
use serde_json::Value;

use super::tokenizer::TOKENIZERS;
use crate::support::{Bytes, each_part, forbidden, tried};

/// A reply from the tests' data, its tools, and its format.
struct Reply {
    text: String,
    tools: String,
    format: CallFormat,
}

static REPLIES: LazyLock<Vec<Reply>> = LazyLock::new(|| {
    let reply = |line: &str| {
        let row: Value = serde_json::from_str(line).expect("a line of JSON");
        let text = |key: &str| row[key].as_str().expect("a string").to_owned();
        let format = CallFormat::named(&text("format")).expect("a format of calls");
        Reply { text: text("text"), tools: text("tools"), format }
    };
    include_str!("../../../tests/data/tools/calls.jsonl").lines().map(reply).collect()
});

/// Marks that formats write around calls and thoughts: the replies of the tests, split behind blanks, line ends, `>`,
/// `"` and `:`.
static MARKS: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
    let mut marks: Vec<&str> =
        REPLIES.iter().flat_map(|reply| reply.text.split_inclusive([' ', '>', '\n', '"', ':'])).collect();
    marks.sort_unstable();
    marks.dedup();
    marks
});

pub fn run(data: &[u8]) {
    one(data);
    each_part::<16>(data, |_| {}, one);
}

fn one(data: &[u8]) {
    tried();
    let mut bytes = Bytes::new(data);
    match bytes.u8() % 8 {
        0..3 => write(&mut bytes),
        3 => list(&mut bytes),
        _ => read_reply(&mut bytes),
    }
}

/// Writes messages until some memory is full, and encodes them.
fn write(bytes: &mut Bytes<'_>) {
    let tokenizer = bytes.pick(&TOKENIZERS);
    let format = bytes.pick(TurnFormat::ALL);
    let room = [bytes.below(1024), bytes.below(32), bytes.below(8192), bytes.below(600)];
    let add_end = bytes.bool();
    let texts: Vec<(Role, String)> = (0..bytes.below(6))
        .map(|_| {
            let role = [Role::System, Role::User, Role::Assistant][bytes.below(3)];
            (role, String::from_utf8_lossy(&bytes.some(24)).into_owned())
        })
        .collect();
    let (mut text, mut plain) = (vec![0; room[0]].into_boxed_slice(), vec![0..0; room[1]].into_boxed_slice());
    let (mut scratch, mut out) = (vec![0; room[2]].into_boxed_slice(), vec![0; room[3]].into_boxed_slice());
    forbidden(|| {
        let (mut written, mut turns) = (TurnText::new(&mut text, &mut plain), Turns::new(format));
        let mut put = |piece: Piece<'_>| written.push(tokenizer, piece);
        let mut all = || -> Result<(), TurnTextError> {
            for (role, text) in &texts {
                turns.add(Message { role: *role, text }).try_for_each(&mut put)?;
            }
            turns.reply().try_for_each(&mut put)?;
            if add_end { turns.end().try_for_each(&mut put) } else { Ok(()) }
        };
        if all().is_err() {
            return;
        }
        let len = written.as_str().len();
        assert!(written.plain().iter().all(|range| range.start <= range.end && range.end <= len));
        let _any = written.encode(tokenizer, &mut scratch, &mut out);
    });
}

/// Any text as a list of tools, or a list of the tests with changes.
fn list(bytes: &mut Bytes<'_>) {
    let text = if bytes.bool() {
        any(bytes)
    } else {
        let reply = bytes.pick(&REPLIES[..]);
        changed(&reply.tools, bytes)
    };
    let Ok(tools) = forbidden(|| Tools::new(&text)) else { return };
    assert!(serde_json::from_str::<Value>(&text).is_ok_and(|list| list.is_array()), "a list that is none: {text}");
    for tool in tools.iter() {
        assert!(forbidden(|| tools.find(tool.name())).is_some(), "a tool is found by its name");
        if let Err(error) = forbidden(|| tool.check("{\"a\": [1, \"b\"], \"sides\": 6}")) {
            assert!(!error.to_string().is_empty());
        }
    }
}

/// Reads a reply as a whole and in pieces. If neither has an error, both have the same parts.
fn read_reply(bytes: &mut Bytes<'_>) {
    let reply = bytes.pick(&REPLIES[..]);
    let is_any = bytes.bool();
    let format = if is_any { *bytes.pick(CallFormat::ALL) } else { reply.format };
    let marks = [None, Some(ThoughtMarks::THINK), Some(ThoughtMarks::CHANNEL), Some(ThoughtMarks::BRACKETS)];
    let reader = Reader::new(Some(format), *bytes.pick(&marks), bytes.once_in(8));
    let (has_tools, step) = (bytes.bool(), 1 + bytes.below(8));
    let text = if is_any { any(bytes) } else { changed(&reply.text, bytes) };
    let tools = Tools::new(&reply.tools).expect("a list of the tests");
    let tools = has_tools.then_some(&tools);
    let whole = read(reader, &text, tools, usize::MAX);
    let pieces = read(reader, &text, tools, step.max(text.len() / 64));
    if whole.errors + pieces.errors == 0 {
        assert_eq!(whole, pieces, "{format} {text:?}");
    }
}

/// The parts of a reply: text, thoughts, and calls with their arguments in JSON.
#[derive(Debug, Default, PartialEq)]
struct Read {
    content: String,
    thoughts: String,
    calls: Vec<[String; 2]>,
    errors: usize,
}

/// Reads a text to its end, while it becomes longer by `step` bytes at a time.
fn read(mut reader: Reader, text: &str, tools: Option<&Tools<'_>>, step: usize) -> Read {
    let mut found = Read::default();
    let mut end = 0;
    loop {
        let is_whole = end == text.len();
        let before = reader.at();
        while let Some(part) = forbidden(|| reader.next(&text[..end], is_whole, tools)) {
            found.add(part, tools, text);
        }
        assert!(before <= reader.at() && reader.at() <= end, "the reader is behind what is written");
        if is_whole {
            assert_eq!(reader.at(), text.len(), "{text:?} is read to its end");
            return found;
        }
        end = text.ceil_char_boundary(end.saturating_add(step).min(text.len()));
    }
}

impl Read {
    fn add(&mut self, part: Result<Part<'_>, CallError<'_>>, tools: Option<&Tools<'_>>, text: &str) {
        match part {
            Ok(Part::Text(part)) => self.content += part,
            Ok(Part::Thought(part)) => self.thoughts += part,
            Ok(Part::Call(Call { name, arguments, range, .. })) => {
                assert!(text.get(range).is_some_and(
                    |call| call.contains(name) && call.contains(arguments.text()) || arguments.text() == "{}"
                ));
                let tool = tools.and_then(|tools| tools.find(name));
                assert!(tools.is_none() || tool.is_some(), "a call of a tool that is not listed");
                let mut json = String::new();
                arguments.write_json(tool.as_ref(), &mut json).expect("a string takes all");
                // Only the check of the arguments looks into the strings of the JSON.
                let is_checked = tool.is_some_and(|tool| tool.check(&json).is_ok());
                assert!(
                    !is_checked || serde_json::from_str::<Value>(&json).is_ok_and(|json| json.is_object()),
                    "{json}"
                );
                self.calls.push([name.to_owned(), json]);
            }
            Err(error) => {
                assert!(error.at <= text.len() && !error.to_string().is_empty());
                self.errors += 1;
            }
        }
    }
}

/// Returns the bytes that are left as a text: as they are, or each of them as a mark.
fn any(bytes: &mut Bytes<'_>) -> String {
    let is_marks = bytes.bool();
    let raw = bytes.rest();
    if is_marks {
        return raw.iter().take(64).map(|&byte| MARKS[usize::from(byte) * 37 % MARKS.len()]).collect();
    }
    String::from_utf8_lossy(raw).into_owned()
}

/// Returns a text with up to three changes: a part left out, a mark or a character inserted, or an earlier end.
fn changed(text: &str, bytes: &mut Bytes<'_>) -> String {
    let mut text = text.to_owned();
    for _ in 0..bytes.below(4) {
        let at = text.floor_char_boundary(usize::from(bytes.u16()) % (text.len() + 1));
        let end = text.ceil_char_boundary((at + bytes.below(16)).min(text.len()));
        match bytes.u8() % 4 {
            0 => drop(text.drain(at..end)),
            1 => text.insert_str(at, MARKS[bytes.below(MARKS.len())]),
            2 => text.insert(at, char::from(bytes.u8())),
            _ => text.truncate(if bytes.once_in(4) { at } else { text.len() }),
        }
    }
    text
}
