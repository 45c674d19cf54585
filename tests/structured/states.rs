//! States of matchers: copied, taken back, and saved as bytes.

use gleed::grammar::{Grammar, Limits, MatchError, Matcher, Options, Source, Vocabulary};

use super::Compiled;
use common::Memory;
use common::random::Rng;

/// Returns the bytes of a snapshot. They are equal if two matchers are in the same state.
fn saved(matcher: &Matcher<'_, '_>) -> Vec<u8> {
    let mut bytes = vec![0; matcher.snapshot_len()];
    assert_eq!(matcher.snapshot(&mut bytes), Ok(bytes.len()));
    bytes
}

/// A vocabulary of tokens with one or two letters.
struct Letters;

impl Vocabulary for Letters {
    fn tokens(&self) -> u32 {
        256 + 65_536
    }

    fn each_byte(&self, id: u32, f: &mut dyn FnMut(u8)) {
        match id.checked_sub(256) {
            None => f(id as u8),
            Some(pair) => [(pair >> 8) as u8, pair as u8].into_iter().for_each(f),
        }
    }
}

/// The grammars of these tests, and a text of each.
const CASES: [(Source<'_>, &str); 6] = [
    (
        Source::Schema(br##"{"properties":{"s":{"type":"string"},"l":{"type":"array","items":{"$ref":"#"}}}}"##),
        r#"{"s":"a \n b","l":[{"s":"x"},{"l":[{"l":[]},{"z":[1,{"q":null}]}]}]}"#,
    ),
    (Source::Schema(br#"{"type":"string","minLength":3,"maxLength":9}"#), "\"h\u{e9}\u{20ac}\u{1f600}\\n \""),
    (Source::Schema(br#"{"enum":["the dog","the cat","th"]}"#), r#""the cat""#),
    (Source::Regex(b"(Once|One) [a-z ]{3,9}(\\.|!)+"), "Once upon a.!"),
    (Source::Gbnf(b"root ::= \"a\" root \"b\" | \"a\" root \"c\" | \" the\"+"), "aaaa the thebcbc"),
    (Source::Gbnf(b"root ::= <[97]> \"b\" root | \"a\" (\"b\" | \"cd\"){1,5} | \"\""), "ababcdbcd"),
];

fn with(source: Source<'_>, run: impl FnOnce(&Grammar<'_>)) {
    let options = Options::default();
    Compiled::new(source, &options).unwrap().with(source, &options, run);
}

const LIMITS: Limits = Limits { items: 64, nodes: 128, depth: 32, past: 300 };

/// Compares each state of a text by its snapshot, with tokens of one or two bytes.
#[test]
fn states_are_copied_taken_back_and_restored() {
    let mut random = Rng::new(11);
    for (source, text) in CASES {
        with(source, |grammar| {
            let bytes = Matcher::plan(LIMITS).unwrap();
            let (mut memory, mut other) = (Memory::new(bytes), Memory::new(bytes));
            let mut matcher = Matcher::new(grammar, LIMITS, memory.bytes()).unwrap();
            let tokens: Vec<u32> = text.bytes().map(u32::from).collect();
            let mut states = vec![saved(&matcher)];
            for &token in &tokens {
                assert_eq!(matcher.accept(&Letters, token), Ok(true), "{text}");
                states.push(saved(&matcher));
            }
            assert!(matcher.may_end(), "{text}");
            let mut at = tokens.len();
            for _ in 0..400 {
                match random.below(4) {
                    0 => {
                        let back = random.below(matcher.rewindable() + 1);
                        matcher.rewind(back).unwrap();
                        at -= back;
                    }
                    1 => {
                        at = random.below(states.len());
                        matcher.restore(&states[at]).unwrap();
                        assert_eq!(matcher.rewindable(), 0);
                    }
                    2 => {
                        let kept = matcher.rewindable();
                        let mut fork = matcher.fork(other.bytes()).unwrap();
                        assert_eq!((saved(&fork), fork.rewindable()), (states[at].clone(), kept));
                        let more = random.below(tokens.len() - at + 1);
                        tokens[at..at + more].iter().for_each(|&id| assert_eq!(fork.accept(&Letters, id), Ok(true)));
                        assert_eq!(saved(&fork), states[at + more]);
                    }
                    _ if at < tokens.len() => {
                        assert_eq!(matcher.accept(&Letters, 0), Ok(false));
                        assert_eq!(matcher.accept(&Letters, tokens[at]), Ok(true));
                        at += 1;
                    }
                    _ => {}
                }
                assert_eq!(saved(&matcher), states[at], "{text} at {at}");
            }
            let kept = matcher.rewindable();
            assert_eq!(matcher.rewind(kept + 1), Err(MatchError::NotKept { given: kept + 1, kept }));
            assert_eq!(saved(&matcher), states[at]);
        });
    }
}

/// Exactly as many states are kept as fit into the memory.
#[test]
fn the_past_is_as_long_as_its_memory() {
    with(Source::Regex(b"[a-z]*"), |grammar| {
        // A state with one item takes 4 + 5 words, and one for their number.
        for (past, most) in [(0, 0), (9, 0), (10, 1), (29, 2), (85, 8)] {
            let limits = Limits { past, ..LIMITS };
            let mut memory = Memory::new(Matcher::plan(limits).unwrap());
            let mut matcher = Matcher::new(grammar, limits, memory.bytes()).unwrap();
            for count in 1..30 {
                assert_eq!(matcher.accept(&Letters, u32::from(b'a')), Ok(true));
                assert_eq!(matcher.rewindable(), most.min(count));
            }
        }
    });
}

/// If the grammar names a token and also allows its bytes, both readings go on.
#[test]
fn a_token_is_taken_by_name_and_by_bytes() {
    let (source, _) = CASES[5];
    with(source, |grammar| {
        let mut memory = Memory::new(Matcher::plan(LIMITS).unwrap());
        for text in ["abab", "abcd"] {
            let mut matcher = Matcher::new(grammar, LIMITS, memory.bytes()).unwrap();
            for byte in text.bytes() {
                assert_eq!(matcher.accept(&Letters, u32::from(byte)), Ok(true), "{text}");
            }
            assert!(matcher.may_end());
        }
        // The first letter is not the token with that name, so only the reading as bytes goes on.
        let mut matcher = Matcher::new(grammar, LIMITS, memory.bytes()).unwrap();
        assert_eq!(matcher.accept(&Letters, 256 + u32::from_be_bytes([0, 0, b'a', b'b'])), Ok(true));
        assert_eq!(matcher.accept(&Letters, u32::from(b'a')), Ok(false));
        assert_eq!(matcher.accept(&Letters, u32::from(b'c')), Ok(true));
    });
}

/// A rule that is called behind a token and one that was called within its bytes return to their own callers.
#[test]
fn a_rule_within_the_bytes_is_another_call() {
    let source = Source::Gbnf(b"root ::= \"a\" x \"1\" | <[25186]> x \"2\"\nx ::= \"bc\" | \"d\"");
    with(source, |grammar| {
        let mut memory = Memory::new(Matcher::plan(LIMITS).unwrap());
        for (text, taken) in [("c1", 2), ("c2", 1), ("d2", 2), ("d1", 1), ("bc2", 3), ("bc1", 2)] {
            let mut matcher = Matcher::new(grammar, LIMITS, memory.bytes()).unwrap();
            assert_eq!(matcher.accept(&Letters, 256 + u32::from_be_bytes([0, 0, b'a', b'b'])), Ok(true));
            assert_eq!(matcher.take_all(text.as_bytes()), Ok(taken), "{text}");
        }
    });
}

#[test]
fn snapshots_of_others_are_refused() {
    let schema = Source::Schema(br#"{"type":"integer"}"#);
    let mut texts: Vec<Vec<u8>> = Vec::new();
    let options = [Options::default(), Options { closed: true, ..Options::default() }];
    for (source, options) in [
        (schema, options[0]),
        (schema, options[1]),
        (Source::Schema(br#"{"type":"integer"} "#), options[0]),
        (Source::Regex(b"-?(0|[1-9][0-9]*)"), options[0]),
    ] {
        Compiled::new(source, &options).unwrap().with(source, &options, |grammar| {
            let mut memory = Memory::new(Matcher::plan(LIMITS).unwrap());
            let mut matcher = Matcher::new(grammar, LIMITS, memory.bytes()).unwrap();
            matcher.take_all(b"-1").unwrap();
            let own = saved(&matcher);
            for other in &texts {
                assert_eq!(matcher.restore(other), Err(MatchError::OtherGrammar));
            }
            let mut later = own.clone();
            later[8] = 2;
            assert_eq!(matcher.restore(&later), Err(MatchError::Version { given: 2, known: 1 }));
            assert_eq!(matcher.restore(b"gleed"), Err(MatchError::NoSnapshot));
            assert_eq!(saved(&matcher), own);
            let needed = own.len();
            let short = matcher.snapshot(&mut vec![0; needed - 1]);
            assert_eq!(short, Err(MatchError::Buffer { needed, given: needed - 1 }));
            texts.push(own);
        });
    }
}

/// Snapshots with more items, nodes or depth than a matcher has room for.
#[test]
fn snapshots_that_do_not_fit_are_refused() {
    let (source, text) = CASES[0];
    with(source, |grammar| {
        let mut memory = Memory::new(Matcher::plan(LIMITS).unwrap());
        let mut matcher = Matcher::new(grammar, LIMITS, memory.bytes()).unwrap();
        matcher.take_all(&text.as_bytes()[..50]).unwrap();
        let bytes = saved(&matcher);
        for (limits, error) in [
            (Limits { items: 1, ..LIMITS }, None),
            (Limits { nodes: 4, ..LIMITS }, Some(MatchError::TooDeep { limit: 4 })),
            (Limits { depth: 2, ..LIMITS }, Some(MatchError::TooDeep { limit: 2 })),
        ] {
            let mut memory = Memory::new(Matcher::plan(limits).unwrap());
            let Ok(mut small) = Matcher::new(grammar, limits, memory.bytes()) else { continue };
            let before = saved(&small);
            let refused = small.restore(&bytes);
            assert!(refused.is_err() && error.is_none_or(|error| refused == Err(error)), "{limits:?}: {refused:?}");
            assert_eq!(saved(&small), before);
        }
    });
}

/// Corrects the checksum, so that a test reaches the checks behind it.
fn summed(bytes: &mut [u8]) {
    let body = bytes.len() - 8;
    let sum = gleed::num::Xxh64::hash(&bytes[..body]);
    bytes[body..].copy_from_slice(&sum.to_le_bytes());
}

/// Each word is set to many values, with a correct checksum. Either the state is refused and nothing changes, or the
/// matcher saves the state as it was read, and takes any bytes.
#[test]
fn damaged_snapshots_change_nothing() {
    let mut random = Rng::new(5);
    let (mut refused, mut taken) = (0, 0);
    for (source, text) in CASES {
        with(source, |grammar| {
            let mut memory = Memory::new(Matcher::plan(LIMITS).unwrap());
            let mut matcher = Matcher::new(grammar, LIMITS, memory.bytes()).unwrap();
            for end in 0..=text.len() {
                matcher.reset().unwrap();
                matcher.take_all(&text.as_bytes()[..end]).unwrap();
                let own = saved(&matcher);
                for cut in 0..own.len() {
                    assert!(matcher.restore(&own[..cut]).is_err());
                }
                for word in 3..own.len() / 4 - 2 {
                    let value = u32::from_le_bytes(own[4 * word..][..4].try_into().unwrap());
                    let tries = [
                        0,
                        1,
                        2,
                        value + 1,
                        value.wrapping_sub(1),
                        u32::MAX,
                        random.u64() as u32,
                        value ^ 1 << random.below(32),
                    ];
                    for changed in tries.into_iter().filter(|changed| *changed != value) {
                        let mut bytes = own.clone();
                        bytes[4 * word..][..4].copy_from_slice(&changed.to_le_bytes());
                        assert!(matches!(matcher.restore(&bytes), Err(MatchError::Damaged { .. })));
                        summed(&mut bytes);
                        match matcher.restore(&bytes) {
                            Err(_) => {
                                refused += 1;
                                assert_eq!(saved(&matcher), own);
                            }
                            Ok(()) => {
                                taken += 1;
                                assert_eq!(saved(&matcher), bytes);
                                for byte in 0..=255 {
                                    let _any = matcher.take(byte);
                                }
                                matcher.restore(&own).unwrap();
                            }
                        }
                    }
                }
            }
        });
    }
    println!("{refused} refused, {taken} taken");
    assert!(refused > 10_000);
}
