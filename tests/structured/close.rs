//! Texts that end in time.

use gleed::grammar::{Escapes, Grammar, Limits, MatchError, Matcher, Options, Source, Vocabulary, Whitespace};

use super::Compiled;
use super::masks::{allows, mask_of, with_tokens};
use common::Memory;
use common::random::Rng;

fn with(source: Source<'_>, options: &Options<'_>, run: impl FnOnce(&Grammar<'_>)) {
    let options = Options { close: true, ..*options };
    Compiled::new(source, &options).unwrap().with(source, &options, run);
}

const COMPACT: Options<'static> = Options {
    whitespace: Whitespace::Compact,
    escapes: Escapes::Short,
    closed: true,
    one_of_as_any_of: false,
    ignore: &[],
    states: 4096,
    close: true,
};

/// The beginning of a text, and the number of bytes of its shortest end.
type Row = (&'static [u8], usize);

#[test]
fn the_bytes_to_the_end_are_those_of_the_shortest() {
    let cases: &[(Source<'_>, &[Row])] = &[
        (Source::Regex(b"(foo|fo|foooo)x?|bar"), &[(b"", 2), (b"f", 1), (b"fo", 0), (b"fooo", 1), (b"b", 2)]),
        (Source::Regex("a{3,9}b|\u{e9}{2}|\u{20ac}".as_bytes()), &[(b"", 3), (b"aa", 2), (b"aaaaa", 1), (b"\xc3", 3), (b"\xe2", 2)]),
        (Source::Schema(br#"{"type":"string"}"#), &[(b"", 2), (b"\"ab", 1), (b"\"\\", 2), (b"\"\xf0\x9f", 3)]),
        (Source::Schema(br#"{"type":"string","minLength":3,"maxLength":4}"#), &[(b"", 5), (b"\"\xc3", 4), (b"\"a\\", 3), (b"\"abcd", 1)]),
        (Source::Schema(br#"{"type":"integer","minimum":100}"#), &[(b"", 3), (b"2", 2), (b"123", 0)]),
        (Source::Schema(br#"{"type":"array","items":{"const":true},"minItems":3}"#), &[(b"", 16), (b"[tr", 13), (b"[true,true", 6), (b"[true,true,true,t", 4)]),
        (
            Source::Schema(br#"{"type":"object","properties":{"a":{"type":"integer"},"bb":{"type":"string"},"c":{}},"required":["a","bb"]}"#),
            &[(b"", 15), (b"{\"a", 12), (b"{\"a\":7", 9), (b"{\"a\":7,\"bb\":\"", 2), (b"{\"a\":7,\"bb\":\"\",\"c", 4)],
        ),
        (Source::Schema(br##"{"type":"object","properties":{"n":{"$ref":"#"}}}"##), &[(b"", 2), (b"{", 1), (b"{\"n\":{\"n\":", 4)]),
        (Source::Schema(br#"{"type":"object","properties":{"alpha":{"type":"integer"},"beta":{"const":"long value"}}}"#), &[(b"{\"al", 7), (b"{\"b", 18)]),
        (Source::Gbnf(b"root ::= (\"(\" [a-z]{2} x{1,2} \")\"){2,3} \"!\"?\nx ::= \"1\" | \"22\"{3}"), &[(b"", 10), (b"(a", 8), (b"(ab22", 10), (b"(ab1)", 5)]),
        (Source::Gbnf(b"root ::= <[7]> \"ab\" | \"(\" root \")\""), &[(b"", 3), (b"((", 5)]),
    ];
    for (source, rows) in cases {
        with(*source, &COMPACT, |grammar| {
            let mut memory = Memory::new(Matcher::plan(Limits::default()).unwrap());
            for (text, bytes) in *rows {
                let mut matcher = Matcher::new(grammar, Limits::default(), memory.bytes()).unwrap();
                assert_eq!(matcher.take_all(text), Ok(text.len()));
                assert_eq!(
                    matcher.bytes_to_end(),
                    Ok(*bytes),
                    "{source:?} after {:?}",
                    text.escape_ascii().to_string()
                );
            }
        });
    }
    let source = Source::Regex(b"a");
    Compiled::new(source, &Options::default()).unwrap().with(source, &Options::default(), |grammar| {
        let mut memory = Memory::new(Matcher::plan(Limits::default()).unwrap());
        let mut matcher = Matcher::new(grammar, Limits::default(), memory.bytes()).unwrap();
        assert_eq!(matcher.bytes_to_end(), Err(MatchError::NoEnds));
    });
}

/// A schema, the beginning of a text with escapes of all kinds, and the number of bytes of its shortest end.
const ESCAPED: [(&str, &str, usize); 17] = [
    (r#"{"type":"string","pattern":"\\\\"}"#, r#"""#, 3),
    (r#"{"type":"string","pattern":"\\\\"}"#, r#""\"#, 2),
    (r#"{"type":"string","pattern":"\\\\"}"#, r#""\u"#, 7),
    (r#"{"type":"string","pattern":"\\\\"}"#, r#""\u007"#, 4),
    (r#"{"type":"string","pattern":"\\\\"}"#, r#""\u001"#, 4),
    (r#"{"type":"string","pattern":"ab"}"#, r#""\"#, 4),
    (r#"{"type":"string","pattern":"ab"}"#, r#""\u00"#, 5),
    (r#"{"type":"string","pattern":"ab"}"#, r#""\u007"#, 4),
    (r#"{"type":"string","pattern":"^[\\x00-\\x06\\x7f]"}"#, r#"""#, 7),
    (r#"{"type":"string","pattern":"^[\\x01-\\x06]{2}"}"#, r#""\"#, 12),
    (r#"{"type":"string"}"#, r#""\u0"#, 4),
    (r#"{"type":"string"}"#, r#""\ud"#, 4),
    (r#"{"type":"string"}"#, r#""\ud8"#, 9),
    (r#"{"type":"string"}"#, r#""\ud83d"#, 7),
    (r#"{"type":"string"}"#, r#""\ud83d\"#, 6),
    (r#"{"type":"string"}"#, r#""\ud83d\ud"#, 4),
    (r#"{"type":"string","minLength":3}"#, r#""\ud83d\udc0"#, 4),
];

#[test]
fn the_bytes_to_the_end_of_escapes_are_those_that_can_come() {
    let options = Options { escapes: Escapes::All, ..COMPACT };
    for (schema, text, bytes) in ESCAPED {
        with(Source::Schema(schema.as_bytes()), &options, |grammar| {
            let mut memory = Memory::new(Matcher::plan(Limits::default()).unwrap());
            let mut matcher = Matcher::new(grammar, Limits::default(), memory.bytes()).unwrap();
            assert_eq!(matcher.take_all(text.as_bytes()), Ok(text.len()), "{schema}: {text}");
            assert_eq!(matcher.bytes_to_end(), Ok(bytes), "{schema}: {text}");
        });
    }
}

/// After each possible beginning of an escape, some byte brings the text nearer to its end.
#[test]
fn escapes_lead_to_the_end() {
    let digits = ["", "0", "1", "2", "7", "8", "b", "c", "d", "e", "f"];
    let begins = digits.iter().flat_map(|first| digits.iter().map(move |second| format!("{first}{second}")));
    let begins: Vec<String> =
        begins.flat_map(|begin| digits.iter().map(move |third| format!("\"\\u{begin}{third}"))).collect();
    let schemas = [
        r#"{"type":"string"}"#,
        r#"{"type":"string","pattern":"\\\\"}"#,
        r#"{"type":"string","pattern":"^[^\\x00-\\x1f]"}"#,
        r#"{"type":"string","pattern":"^[\\x1e\\x7f]{2}$"}"#,
        r#"{"type":"string","pattern":"\\u{1f600}|\\ud7ff"}"#,
        r#"{"type":"string","minLength":2}"#,
    ];
    let (options, mut states) = (Options { escapes: Escapes::All, ..COMPACT }, 0);
    for schema in schemas {
        with(Source::Schema(schema.as_bytes()), &options, |grammar| {
            let bytes = Matcher::plan(Limits::default()).unwrap();
            let (mut memory, mut other) = (Memory::new(bytes), Memory::new(bytes));
            let mut matcher = Matcher::new(grammar, Limits::default(), memory.bytes()).unwrap();
            for begin in &begins {
                matcher.reset().unwrap();
                if matcher.take_all(begin.as_bytes()) != Ok(begin.len()) {
                    continue;
                }
                states += 1;
                let left = matcher.bytes_to_end().unwrap();
                let least = (0..=255).filter_map(|byte| {
                    let mut fork = matcher.fork(other.bytes()).unwrap();
                    (fork.take(byte) == Ok(true)).then(|| fork.bytes_to_end().unwrap())
                });
                assert_eq!(least.min().map(|least| least + 1), Some(left), "{schema}: {begin}");
            }
        });
    }
    assert!(states > 1000, "{states}");
}

fn schemas() -> Vec<String> {
    std::fs::read_to_string("tests/data/structured/schemas.jsonl").unwrap().lines().map(str::to_owned).collect()
}

/// In every state of a text, some byte brings it nearer to its end.
#[test]
fn there_is_always_a_byte_that_leads_to_the_end() {
    let mut random = Rng::new(17);
    let modes = [Whitespace::Compact, Whitespace::Spaced, Whitespace::Bounded, Whitespace::Any];
    let mut states = 0;
    for (index, schema) in schemas().iter().enumerate() {
        let escapes = if index % 3 == 0 { Escapes::All } else { Escapes::Short };
        let options = Options { whitespace: modes[index % 4], escapes, ..Options::default() };
        with(Source::Schema(schema.as_bytes()), &options, |grammar| {
            let bytes = Matcher::plan(Limits::default()).unwrap();
            let (mut memory, mut other) = (Memory::new(bytes), Memory::new(bytes));
            let mut matcher = Matcher::new(grammar, Limits::default(), memory.bytes()).unwrap();
            let mut text = Vec::new();
            for _ in 0..60 {
                let left = matcher.bytes_to_end().unwrap();
                let next = matcher.next_bytes();
                let next: Vec<u8> =
                    (0..=255).filter(|byte| next[usize::from(byte / 64)] >> (byte % 64) & 1 == 1).collect();
                let nearer = next.iter().any(|&byte| {
                    let mut fork = matcher.fork(other.bytes()).unwrap();
                    assert_eq!(fork.take(byte), Ok(true));
                    fork.bytes_to_end().unwrap() < left
                });
                assert!(nearer || left == 0, "{schema}: {} after {left}", text.escape_ascii());
                assert_eq!(left == 0, matcher.may_end(), "{schema}: {}", text.escape_ascii());
                states += 1;
                if next.is_empty() {
                    break;
                }
                let byte = next[random.below(next.len())];
                assert_eq!(matcher.take(byte), Ok(true));
                text.push(byte);
            }
        });
    }
    println!("{states} states");
}

/// Random tokens end the text within any number of tokens that suffices for its bytes. If the number does not suffice,
/// they bring the text nearer to its end. Masks are made in one call or in small steps.
#[test]
fn texts_end_within_their_tokens() {
    let file = std::fs::read("examples/assets/gleed-tales-q8_0.gguf").unwrap();
    let mut random = Rng::new(23);
    with_tokens(&file, |tokenizer, trie| {
        for schema in schemas().iter().step_by(3) {
            with(Source::Schema(schema.as_bytes()), &COMPACT, |grammar| {
                let mut memory = Memory::new(Matcher::plan(Limits::default()).unwrap());
                let mut matcher = Matcher::new(grammar, Limits::default(), memory.bytes()).unwrap();
                let first = matcher.bytes_to_end().unwrap();
                for tokens in [first, first + 1, first + 20, first / 2, 1] {
                    matcher.reset().unwrap();
                    let (mut mask, mut left) = (vec![0; trie.mask_len()], tokens);
                    while left > 0 && !matcher.is_complete() {
                        let bytes = matcher.bytes_to_end().unwrap();
                        let units = if random.below(2) == 0 { usize::MAX } else { 1 };
                        while !matcher.mask_within(trie, left, units, &mut mask).unwrap() {}
                        let allowed: Vec<u32> = (0..tokenizer.tokens()).filter(|&id| allows(&mask, id)).collect();
                        let Some(id) = allowed.get(random.below(allowed.len().max(1))) else {
                            assert!(matcher.may_end());
                            break;
                        };
                        let all = mask_of(&mut matcher, trie, usize::MAX);
                        assert!(allowed.iter().all(|&id| allows(&all, id)), "{schema}");
                        assert_eq!(matcher.accept(tokenizer, *id), Ok(true));
                        left -= 1;
                        let behind = matcher.bytes_to_end().unwrap();
                        assert!(
                            behind <= left || behind < bytes,
                            "{schema}: {bytes}, then {behind}, {left} tokens left"
                        );
                    }
                    assert!(matcher.may_end() || tokens < first, "{schema}: {tokens} tokens, {first} bytes");
                }
                // Far from the limit, the mask is the usual one.
                matcher.reset().unwrap();
                let mut mask = vec![0; trie.mask_len()];
                while !matcher.mask_within(trie, 1 << 30, 1, &mut mask).unwrap() {}
                assert_eq!(mask, mask_of(&mut matcher, trie, usize::MAX));
            });
        }
    });
}

/// A named token counts like a byte, and may come too late.
#[test]
fn named_tokens_are_in_time_or_not() {
    let file = std::fs::read("examples/assets/gleed-tales-q8_0.gguf").unwrap();
    with_tokens(&file, |_, trie| {
        let source = Source::Gbnf(b"root ::= <[300]> \"abcdefgh\" | <[301]> \"a\" | \"bcde\"");
        with(source, &COMPACT, |grammar| {
            let mut memory = Memory::new(Matcher::plan(Limits::default()).unwrap());
            let mut matcher = Matcher::new(grammar, Limits::default(), memory.bytes()).unwrap();
            for (tokens, first, second) in [(9, true, true), (8, false, true), (2, false, true), (1, false, true)] {
                let mut mask = vec![0; trie.mask_len()];
                assert_eq!(matcher.mask_within(trie, tokens, usize::MAX, &mut mask), Ok(true));
                assert_eq!((allows(&mask, 300), allows(&mask, 301)), (first, second), "{tokens}");
            }
        });
    });
}
