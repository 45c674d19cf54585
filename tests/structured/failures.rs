//! Mistakes that are likely at the borders of tokens, texts, names and values. Each mask is compared with single
//! tokens.

use gleed::grammar::{Escapes, Grammar, Limits, Matcher, Options, Source, TokenTrie, Vocabulary, Whitespace};
use gleed::sample::{Sampler, SamplerParams, scratch_len};

use super::masks::{allows, mask_of};
use super::{Compiled, check};
use common::Memory;

const COMPACT: Options<'static> = Options {
    whitespace: Whitespace::Compact,
    escapes: Escapes::Short,
    closed: false,
    one_of_as_any_of: false,
    ignore: &[],
    states: 4096,
    close: false,
};

/// A vocabulary of all bytes, then these words, then a token without bytes that ends a text.
struct Words(&'static [&'static [u8]]);

impl Words {
    fn end(&self) -> u32 {
        self.tokens() - 1
    }
}

impl Vocabulary for Words {
    fn tokens(&self) -> u32 {
        257 + self.0.len() as u32
    }

    fn each_byte(&self, id: u32, f: &mut dyn FnMut(u8)) {
        match id.checked_sub(256) {
            None => f(id as u8),
            Some(word) => self.0.get(word as usize).copied().unwrap_or_default().iter().copied().for_each(f),
        }
    }
}

fn with<T>(source: Source<'_>, options: &Options<'_>, run: impl FnOnce(&Grammar<'_>) -> T) -> T {
    Compiled::new(source, options).unwrap().with(source, options, run)
}

fn matcher<'g, 'm>(grammar: &Grammar<'g>, memory: &'m mut Memory) -> Matcher<'g, 'm> {
    Matcher::new(grammar, Limits::default(), memory.bytes()).unwrap()
}

fn memory() -> Memory {
    Memory::new(Matcher::plan(Limits::default()).unwrap())
}

/// Returns the bytes and the words that may follow a text. Checks the mask by trying each of them alone.
fn following(grammar: &Grammar<'_>, words: &Words, text: &[u8]) -> (Vec<u8>, Vec<&'static [u8]>) {
    let mut scratch = vec![0; TokenTrie::scratch_len(words)];
    let mut nodes = Memory::new(TokenTrie::plan(words, &mut scratch).unwrap());
    let trie = TokenTrie::new(words, &mut scratch, nodes.bytes()).unwrap();
    let mut room = memory();
    let mut matcher = matcher(grammar, &mut room);
    assert_eq!(matcher.take_all(text), Ok(text.len()), "{:?}", String::from_utf8_lossy(text));
    let mask = mask_of(&mut matcher, &trie, usize::MAX);
    for id in 0..words.tokens() {
        let accepted = matcher.accept(words, id).unwrap();
        assert_eq!(accepted, allows(&mask, id), "{:?}, token {id}", String::from_utf8_lossy(text));
        if accepted {
            matcher.rewind(1).unwrap();
        }
    }
    let bytes = (0..=255).filter(|byte| allows(&mask, u32::from(*byte))).collect();
    let of_words = words.0.iter().zip(256..).filter(|(_, id)| allows(&mask, *id)).map(|(word, _)| *word);
    (bytes, of_words.collect())
}

/// Only the host can bound such a string: the state does not grow, and the text may not end.
#[test]
fn a_string_without_an_end_takes_no_memory() {
    with(Source::Schema(br#"{"type":"string"}"#), &COMPACT, |grammar| {
        let mut room = memory();
        let mut matcher = matcher(grammar, &mut room);
        assert_eq!(matcher.take_all(b"\"a"), Ok(2));
        let bytes = matcher.snapshot_len();
        for _ in 0..100_000 {
            assert_eq!(matcher.take_all("aé\\n".as_bytes()), Ok(5));
            assert!(!matcher.may_end());
        }
        assert_eq!(matcher.snapshot_len(), bytes);
        assert_eq!(matcher.take(b'"'), Ok(true));
        assert!(matcher.is_complete() && matcher.may_end());
    });
}

#[test]
fn palindromes() {
    let source = Source::Gbnf(br#"root ::= "a" root "a" | "b" root "b" | "a" | "b" | """#);
    let half = "abbabaabab".repeat(5);
    let even = half.clone() + &half.chars().rev().collect::<String>();
    let other = format!("{}b", &even[..99]);
    assert_eq!(check(source, &COMPACT, &[&even, &other]).unwrap(), [(100, true), (100, false)]);
}

#[test]
fn characters_are_cut_at_every_border() {
    let words = Words(&[b"\xF0\x9F", b"\x9F\x98", b"\x98\x80", b"\xF0\x9F\x98", b"\x9F\x98\x80", b"\xF0\x9F\x98\x80"]);
    let emoji = "\u{1F600}".as_bytes();
    for (source, begin) in [
        (Source::Schema("{\"type\":\"string\",\"pattern\":\"^[\u{1F600}-\u{1F602}]+$\"}".as_bytes()), &b"\""[..]),
        (Source::Schema(br#"{"type":"string","maxLength":1}"#), b"\""),
        (Source::Regex("[\u{1F600}-\u{1F602}]+".as_bytes()), b""),
    ] {
        with(source, &COMPACT, |grammar| {
            // If bit n is set, the text is cut behind byte n.
            for cuts in 0..8_u32 {
                let mut text = begin.to_vec();
                let mut left = emoji;
                while !left.is_empty() {
                    let behind = (emoji.len() - left.len()) as u32;
                    let length = (cuts >> behind).trailing_zeros().saturating_add(1).min(left.len() as u32) as usize;
                    let (piece, rest) = left.split_at(length);
                    let (bytes, of_words) = following(grammar, &words, &text);
                    let found = of_words.contains(&piece) || matches!(piece, [byte] if bytes.contains(byte));
                    assert!(found, "{source:?}: {piece:?} behind {text:?}");
                    text.extend(piece);
                    left = rest;
                }
            }
        });
    }
    let last = Source::Regex("[\u{1F600}-\u{1F602}]+".as_bytes());
    with(last, &COMPACT, |grammar| {
        assert_eq!(following(grammar, &words, b"\xF0\x9F\x98").0, [0x80, 0x81, 0x82]);
        assert_eq!(following(grammar, &words, b"\xF0\x9F"), (vec![0x98], vec![&b"\x98\x80"[..]]));
    });
}

#[test]
fn tokens_end_a_string_and_go_on() {
    let words = Words(&[
        b"\"}",
        b"\"},",
        b"\"}]",
        b"\":\"",
        b"\",\"",
        b"\",\"b\":\"",
        b"\",\"c\":\"",
        b"x\",\"b\":\"y\"}",
        b"\\\"}",
    ]);
    let item = r#"{"properties":{"a":{"type":"string"},"b":{"type":"string"}},"required":["a","b"],"additionalProperties":false,"type":"object"}"#;
    let schema = format!(r#"{{"type":"array","items":{item}}}"#);
    with(Source::Schema(schema.as_bytes()), &COMPACT, |grammar| {
        let of = |text: &str| following(grammar, &words, text.as_bytes()).1;
        assert_eq!(of(r#"[{"a"#), [&b"\":\""[..]]);
        assert_eq!(of(r#"[{"a":"x"#), [&b"\",\""[..], b"\",\"b\":\"", b"x\",\"b\":\"y\"}", b"\\\"}"]);
        assert_eq!(of(r#"[{"a":"x","b":"y"#), [&b"\"}"[..], b"\"},", b"\"}]", b"\\\"}"]);
        assert_eq!(of(r#"[{"a":"x","b":"y\"#), [&b"\"}"[..], b"\"},", b"\"}]", b"\":\"", b"\",\"", b"\\\"}"]);
    });
}

#[test]
fn escapes_are_cut_anywhere() {
    let words =
        Words(&[b"\\u", b"\\ud83d", b"\\ude00", b"\\ud83d\\ude00", b"\\ud83d\"", b"\\ud83dx", b"3d\\", b"00\""]);
    let all = Options { escapes: Escapes::All, ..COMPACT };
    let source = Source::Schema(br#"{"type":"string"}"#);
    with(source, &all, |grammar| {
        let of = |text: &str| following(grammar, &words, text.as_bytes());
        assert_eq!(of("\"").1, [&b"\\u"[..], b"\\ud83d", b"\\ud83d\\ude00", b"3d\\", b"00\""]);
        assert_eq!(of("\"\\").0, b"\"\\bfnrtu");
        assert_eq!(of("\"\\u").0, b"0123456789ABCDEFabcdef");
        // The low half of a pair cannot come first.
        assert_eq!(of("\"\\ud").0, b"0123456789ABab");
        assert_eq!(of("\"\\ud8").1, [&b"3d\\"[..]]);
        assert_eq!(of("\"\\ud83d"), (b"\\".to_vec(), vec![&b"\\u"[..], b"\\ude00"]));
        assert_eq!(of("\"\\ud83d\\"), (b"u".to_vec(), vec![]));
        assert_eq!(of("\"\\ud83d\\u").0, b"Dd");
        assert_eq!(of("\"\\ud83d\\ud").0, b"CDEFcdef");
        assert_eq!(of("\"\\ud83d\\ude").1, [&b"3d\\"[..], b"00\""]);
    });
    with(source, &COMPACT, |grammar| {
        assert_eq!(following(grammar, &words, b"\"\\").0, b"\"\\bfnrt");
    });
}

#[test]
fn names_begin_as_others() {
    let schema = r#"{"type":"object","properties":{"a":{"const":1},"ab":{"const":2},"abc":{"const":3}},"additionalProperties":{"const":4}}"#;
    let cases = [
        (r#"{"a":1,"ab":2,"abc":3}"#, 22, true),
        (r#"{"abc":3,"abcd":4,"b":4,"":4}"#, 29, true),
        (r#"{"ab":4}"#, 6, false),
        // A declared name comes before the names of its schema that follow, and only once.
        (r#"{"ab":2,"a":1}"#, 10, false),
        (r#"{"ab":2,"ac":4}"#, 15, true),
        (r#"{"abcd":3}"#, 8, false),
        (r#"{"x":4,"abc":3}"#, 11, false),
        (r#"{"x":4,"abcd":4}"#, 16, true),
    ];
    let found = check(Source::Schema(schema.as_bytes()), &COMPACT, &cases.map(|(text, ..)| text)).unwrap();
    for ((text, prefix, accepted), found) in cases.into_iter().zip(found) {
        assert_eq!(found, (prefix, accepted), "{text}");
    }
    let words = Words(&[b"b\":2", b"bc\":3", b"bc\":4", b"bcd\":4", b"c\":3"]);
    with(Source::Schema(schema.as_bytes()), &COMPACT, |grammar| {
        let all = [&b"b\":2"[..], b"bc\":3", b"bcd\":4"];
        assert_eq!(following(grammar, &words, br#"{"a"#).1, all);
        assert_eq!(following(grammar, &words, br#"{"a":1,"ab":2,"a"#).1, all[1..]);
    });
}

#[test]
fn values_begin_as_others() {
    let source = Source::Schema(br#"{"enum":["a","ab","abc",1,12,123,[1],[1,2]]}"#);
    let texts = ["\"a\"", "\"ab\"", "\"abc\"", "\"abcd\"", "1", "12", "123", "1234", "[1]", "[1,2]", "[1,2,3]"];
    let found = check(source, &COMPACT, &texts).unwrap();
    let wrong = [("\"abcd\"", 4), ("1234", 3), ("[1,2,3]", 4)];
    for (text, found) in texts.into_iter().zip(found) {
        let wrong = wrong.iter().find(|(other, _)| *other == text);
        assert_eq!(found, wrong.map_or((text.len(), true), |(_, prefix)| (*prefix, false)), "{text}");
    }
}

#[test]
fn a_number_may_end_in_its_middle() {
    with(Source::Schema(br#"{"type":"number"}"#), &COMPACT, |grammar| {
        let mut room = memory();
        let mut matcher = matcher(grammar, &mut room);
        let ends = b"-10.50e+31".map(|byte| {
            assert_eq!(matcher.take(byte), Ok(true));
            assert!(!matcher.is_complete());
            matcher.may_end()
        });
        assert_eq!(ends, [false, true, true, false, true, true, false, false, true, true]);
    });
}

/// An end that comes too soon is in no mask, is not accepted, and is not sampled however likely it is.
#[test]
fn a_token_that_ends_a_text_comes_too_soon() {
    let words = Words(&[b"12"]);
    let mut scratch = vec![0; TokenTrie::scratch_len(&words)];
    let mut nodes = Memory::new(TokenTrie::plan(&words, &mut scratch).unwrap());
    let trie = TokenTrie::new(&words, &mut scratch, nodes.bytes()).unwrap();
    with(Source::Schema(br#"{"type":"array","items":{"type":"integer"}}"#), &COMPACT, |grammar| {
        let mut room = memory();
        let mut matcher = matcher(grammar, &mut room);
        assert_eq!(matcher.take_all(b"[1"), Ok(2));
        let mut before = vec![0; matcher.snapshot_len()];
        matcher.snapshot(&mut before).unwrap();
        assert_eq!((matcher.may_end(), matcher.accept(&words, words.end())), (false, Ok(false)));
        let mut after = vec![0; matcher.snapshot_len()];
        matcher.snapshot(&mut after).unwrap();
        assert_eq!(before, after);
        let mask = mask_of(&mut matcher, &trie, usize::MAX);
        assert!(!allows(&mask, words.end()));
        let mut logits = vec![0.0; words.tokens() as usize];
        logits[words.end() as usize] = 1000.0;
        for temperature in [0.0, 1.0] {
            let mut sampler = Sampler::new(SamplerParams { temperature, ..SamplerParams::default() }).unwrap();
            let mut scratch = vec![0; scratch_len(logits.len())];
            let token = sampler.sample_masked(&logits, &mask, &mut scratch).unwrap().token;
            assert!(allows(&mask, token));
        }
    });
}

#[test]
fn a_fork_outlives_its_parent() {
    let source = Source::Schema(br#"{"properties":{"a":{"type":"array","items":{"type":"integer"}}},"type":"object"}"#);
    with(source, &COMPACT, |grammar| {
        let mut other = memory();
        let mut fork = {
            let mut room = memory();
            let mut parent = matcher(grammar, &mut room);
            assert_eq!(parent.take_all(br#"{"a":[1,"#), Ok(8));
            let fork = parent.fork(other.bytes()).unwrap();
            // The copy does not depend on the parent or its memory.
            assert_eq!(parent.take_all(b"-7"), Ok(2));
            room.bytes().fill(0xFF);
            fork
        };
        assert_eq!(fork.take_all(b"23]}"), Ok(4));
        assert!(fork.may_end());
    });
}

#[test]
fn hostile_patterns_are_automata() {
    for (pattern, text, accepted) in [
        ("(a|aa)+$", "a".repeat(3000), true),
        ("^(a|aa)+$", format!("{}b", "a".repeat(3000)), false),
        ("(.*){20}", "a".repeat(3000), true),
        ("[^x]{0,9999}y", format!("{}y", "a".repeat(30_000)), true),
        // A counted pattern has a state for each character.
        ("^[^x]{0,99}y$", format!("{}y", "a".repeat(99)), true),
        ("^[^x]{0,99}y$", format!("{}y", "a".repeat(100)), false),
    ] {
        let schema = format!(r#"{{"type":"string","pattern":"{pattern}"}}"#);
        let found = check(Source::Schema(schema.as_bytes()), &COMPACT, &[format!("\"{text}\"")]).unwrap();
        assert_eq!(found[0].1, accepted, "{pattern}");
    }
}
