//! Problems of practice: endless blanks, counters at their bounds, ambiguity, depth, hostile texts.

use std::time::{Duration, Instant};

use gleed::grammar::{ErrorKind, Grammar, GrammarBuild, Limits, MatchError, Options, Source, Whitespace};

use super::{Compiled, check, read};

const COMPACT: Options<'static> = Options {
    whitespace: Whitespace::Compact,
    escapes: gleed::grammar::Escapes::Short,
    closed: false,
    one_of_as_any_of: false,
    ignore: &[],
    states: 4096,
    close: false,
};

fn with<T>(source: Source<'_>, run: impl FnOnce(&Grammar<'_>) -> T) -> T {
    Compiled::new(source, &COMPACT).unwrap().with(source, &COMPACT, run)
}

#[test]
fn blanks_end() {
    let source = Source::Schema(br#"{"type":"array"}"#);
    let text = format!("[\n{}]", " ".repeat(41));
    assert_eq!(check(source, &Options::default(), &[&text]).unwrap(), [(42, false)]);
}

#[test]
fn counters_are_exact_at_their_bounds() {
    let texts = |letter: &str| [10_000, 10_001].map(|count| letter.repeat(count));
    assert_eq!(
        check(Source::Gbnf(br#"root ::= "a"{0,10000}"#), &COMPACT, &texts("a")).unwrap(),
        [(10_000, true), (10_000, false)]
    );
    assert_eq!(check(Source::Regex(b"[^x]{0,9999}y"), &COMPACT, &texts("a")).unwrap(), [(9999, false), (9999, false)]);
    let strings = texts("é").map(|text| format!("\"{text}\""));
    let found =
        check(Source::Schema(br#"{"type":"string","minLength":10000,"maxLength":10000}"#), &COMPACT, &strings).unwrap();
    assert_eq!(found, [(20_002, true), (20_001, false)]);
    let arrays = [1000, 1001].map(|count| format!("[{}]", vec!["1"; count].join(",")));
    let found =
        check(Source::Schema(br#"{"type":"array","items":{"const":1},"maxItems":1000}"#), &COMPACT, &arrays).unwrap();
    assert_eq!(found, [(2001, true), (2000, false)]);
    // The greatest lower bound.
    let repeated = |bounds: &str| {
        let grammar = format!("root ::= \"a\"{{{bounds}}}");
        check(Source::Gbnf(grammar.as_bytes()), &COMPACT, &["a".repeat(2000)]).map_err(|error| error.to_string())
    };
    for bounds in ["2000", "2000,", "2000,65535"] {
        assert_eq!(repeated(bounds), Ok(vec![(2000, true)]), "{bounds}");
    }
    for bounds in ["2001", "2001,", "2001,65535"] {
        let error = repeated(bounds).unwrap_err();
        assert!(error.contains("number too large"), "{bounds}: {error}");
    }
}

#[test]
fn ambiguous_texts_stay_small_or_are_refused() {
    let catalan = Source::Gbnf(br#"root ::= "a" root root | """#);
    assert_eq!(check(catalan, &COMPACT, &["a".repeat(40)]).unwrap(), [(40, true)]);
    // Each position of the text returns to all positions before it.
    let limits = Limits::default();
    let error = with(catalan, |grammar| read(grammar, limits, "a".repeat(400).as_bytes()).unwrap_err());
    assert_eq!(error, MatchError::TooDeep { limit: limits.nodes });
    let stacks = Source::Gbnf(br#"root ::= "a" root "b" | "a" root "c" | """#);
    assert_eq!(check(stacks, &COMPACT, &[format!("{}{}", "a".repeat(100), "bc".repeat(50))]).unwrap(), [(200, true)]);
    let loops = Source::Gbnf(br#"root ::= ("a" | "a" "a" | "aaa")+ "b""#);
    assert_eq!(check(loops, &COMPACT, &[format!("{}b", "a".repeat(1000))]).unwrap(), [(1001, true)]);
    for pattern in ["(a|aa)+$", "(.*){20}"] {
        assert_eq!(check(Source::Regex(pattern.as_bytes()), &COMPACT, &["a".repeat(500)]).unwrap(), [(500, true)]);
    }
    // Each number of rounds is a reading of its own.
    let counted = Source::Regex(b"(a|aa){0,9999}");
    let error = with(counted, |grammar| read(grammar, limits, "a".repeat(2000).as_bytes()).unwrap_err());
    assert_eq!(error, MatchError::TooAmbiguous { limit: limits.items });
}

#[test]
fn depth_is_bounded_and_length_is_not() {
    let nested = Source::Gbnf(br#"root ::= "(" root ")" | """#);
    let limits = Limits::default();
    let text = |depth: usize| format!("{}{}", "(".repeat(depth), ")".repeat(depth));
    with(nested, |grammar| {
        assert_eq!(read(grammar, limits, text(limits.depth).as_bytes()), Ok((2 * limits.depth, true)));
        let error = read(grammar, limits, text(limits.depth + 1).as_bytes());
        assert_eq!(error, Err(MatchError::TooDeep { limit: limits.depth }));
    });
    // Calls at the end of a rule do not nest, and calls that have ended are dropped.
    let list = Source::Gbnf(
        br#"root ::= item | item "," root
item ::= "[" word "]"
word ::= [a-z]+ pair?
pair ::= "(" word ")""#,
    );
    let text = vec!["[ab(c(d))]"; 5000].join(",");
    assert_eq!(check(list, &COMPACT, &[&text]).unwrap(), [(text.len(), true)]);
    let objects = vec![r#"{"a":[1,{"b":2}]}"#; 3000].join(",");
    assert_eq!(
        check(Source::Schema(b"{}"), &COMPACT, &[format!("[{objects}]")]).unwrap()[0],
        (objects.len() + 2, true)
    );
}

#[test]
fn large_schemas_take_time_and_memory_in_proportion() {
    let enumeration = |count: usize| {
        let values: Vec<String> = (0..count).map(|value| format!("\"value {}\"", value * 7919 % 100_003)).collect();
        format!(r#"{{"enum":[{}]}}"#, values.join(","))
    };
    let optional = |count: usize| {
        let members: Vec<String> = (0..count).map(|index| format!(r#""field {index}":{{"type":"integer"}}"#)).collect();
        format!(r#"{{"type":"object","properties":{{{}}},"additionalProperties":false}}"#, members.join(","))
    };
    for (name, small, large) in [
        ("enum", enumeration(1000), enumeration(10_000)),
        ("optional members", optional(1000), optional(10_000)),
        ("1 MB", enumeration(7_000), enumeration(70_000)),
    ] {
        let (few, little, _) = measured(&small);
        let (many, much, time) = measured(&large);
        println!("{name}: {} bytes of schema, {many} bytes, work {much}, {time:?}", large.len());
        assert!(many < 12 * few && time < Duration::from_secs(20), "{name}: {few} to {many} bytes, {time:?}");
        assert!(much < 14 * little, "{name}: work {little} to {much}");
    }
    let last = with(Source::Schema(optional(1000).as_bytes()), |grammar| {
        read(grammar, Limits::default(), br#"{"field 3":1,"field 998":2,"field 999":3}"#).unwrap()
    });
    assert_eq!(last, (41, true));
}

/// Returns the bytes of a grammar, the work to make it, which does not depend on the machine, and the time.
fn measured(schema: &str) -> (usize, u64, Duration) {
    let (source, begin) = (Source::Schema(schema.as_bytes()), Instant::now());
    let mut compiled = Compiled::new(source, &COMPACT).unwrap();
    let time = begin.elapsed();
    let mut build = GrammarBuild::new(source, COMPACT, &mut compiled.scratch);
    assert_eq!(build.step(usize::MAX), Ok(true));
    (compiled.bytes, build.work(), time)
}

#[test]
fn hostile_sources_are_refused() {
    let deep = "{\"a\":".repeat(10_000);
    let error = |source| Compiled::new(source, &COMPACT).err().map(|error| error.kind);
    assert_eq!(error(Source::Schema(deep.as_bytes())), Some(ErrorKind::Syntax("nested too deeply")));
    let deep = "(".repeat(10_000);
    assert_eq!(error(Source::Regex(deep.as_bytes())), Some(ErrorKind::Syntax("groups nested too deeply")));
    let deep = format!("root ::= {deep}");
    assert_eq!(error(Source::Gbnf(deep.as_bytes())), Some(ErrorKind::Syntax("groups nested too deeply")));
    let states = Some(ErrorKind::TooManyStates { limit: 4096 });
    assert_eq!(error(Source::Schema(br#"{"pattern":"((((x{0,99}){0,99}){0,99}){0,99}){0,99}$"}"#)), states);
    assert_eq!(error(Source::Schema(br#"{"pattern":"(a|b)*a(a|b){20}$"}"#)), states);
    assert_eq!(error(Source::Schema(br#"{"multipleOf":1234567}"#)), states);
    // An empty match, four thousand million times.
    assert_eq!(error(Source::Schema(br#"{"pattern":"((){65535}){65535}"}"#)), states);
    assert_eq!(error(Source::Gbnf(b"root ::= e root \"a\" | \"b\"\ne ::= \"x\"?")), Some(ErrorKind::LeftRecursion));
    assert_eq!(error(Source::Gbnf(b"root ::= \"a\" root")), Some(ErrorKind::Empty));
}

/// Any bytes as sources and as texts give a result or an error, and never a panic.
#[test]
fn any_bytes_have_an_answer() {
    let seeds: &[&[u8]] = &[
        br##"{"type":"object","properties":{"a":{"$ref":"#/$defs/b"},"c\n":{"enum":[1,"x",[true]]}},"required":["a"],"$defs":{"b":{"oneOf":[{"type":"string","pattern":"^[a-c]{2,3}$"},{"multipleOf":0.5,"minimum":-2}]}}}"##,
        br#"root ::= ("a" | [b-d]{2,3} x)* # end
x ::= "\u0041" <[7]> | """#,
        br"(?i)([^a-z]\d{2,4}|x+?)*\u{1f600}[\w-]?",
    ];
    let mut random = common::random::Rng::new(7);
    let (mut compiled, mut refused) = (0, 0);
    for round in 0..6000_u32 {
        let mut text = seeds[round as usize % seeds.len()].to_vec();
        for _ in 0..1 + random.u64() % 4 {
            let at = random.below(text.len());
            match random.u64() % 3 {
                0 => text[at] = random.u64() as u8,
                1 => drop(text.remove(at)),
                _ => text.insert(at, b"{}[]()\"\\,:*?|$^0aZ\xff"[random.below(19)]),
            }
        }
        let source = match round as usize % seeds.len() {
            0 => Source::Schema(&text),
            1 => Source::Gbnf(&text),
            _ => Source::Regex(&text),
        };
        match Compiled::new(source, &COMPACT) {
            Err(_) => refused += 1,
            Ok(mut grammar) => {
                compiled += 1;
                let noise: Vec<u8> = (0..50).map(|_| random.u64() as u8).collect();
                let _answer = grammar.with(source, &COMPACT, |grammar| read(grammar, Limits::default(), &noise));
            }
        }
    }
    println!("{compiled} compiled, {refused} refused");
    assert!(compiled > 500 && refused > 500);
}

/// Each schema refers to the next one four times, so there are 4^25 ways to the last one.
#[test]
fn schemas_that_many_ways_lead_to_are_read_once() {
    let all = |level: u32| vec![format!("{{\"$ref\":\"#/$defs/a{}\"}}", level + 1); 4].join(",");
    let levels: String = (0..25).map(|level| format!("\"a{level}\":{{\"allOf\":[{}]}},", all(level))).collect();
    let text = format!("{{\"$ref\":\"#/$defs/a0\",\"$defs\":{{{levels}\"a25\":{{\"type\":\"boolean\"}}}}}}");
    let source = Source::Schema(text.as_bytes());
    assert_eq!(check(source, &COMPACT, &["true", "1"]).unwrap(), [(4, true), (0, false)]);
}

/// The search for the target of a reference is counted as work.
#[test]
fn units_stay_short_with_many_references() {
    let unit = |count: usize| {
        let members: Vec<_> = (0..count).map(|n| format!("\"p{n}\":{{\"$ref\":\"#/$defs/a\"}}")).collect();
        let other = r#""b":{"$id":"http://example.com/b"},"a":{"type":"string"}"#;
        let text = format!("{{\"$defs\":{{{other}}},\"type\":\"object\",\"properties\":{{{}}}}}", members.join(","));
        let mut scratch = vec![0; 1 << 22];
        let mut build = GrammarBuild::new(Source::Schema(text.as_bytes()), Options::default(), &mut scratch);
        while !build.step(1).unwrap() {}
        build.work() / count as u64
    };
    // Each reference looks at all objects of the document.
    let (few, many) = (unit(100), unit(1000));
    assert!(many > few + 700, "{few} {many}");
}
