//! Grammars that are compiled in pieces.

use gleed::grammar::{
    Calls, ErrorKind, Escapes, Grammar, GrammarBuild, GrammarError, Options, Planned, Source, ToolChoice, Whitespace,
};
use gleed::tools::CallFormat;

use super::lines;
use super::raw_member::member;
use common::Memory;

/// The work of a usual unit.
const UNIT: u64 = 4096;
/// Most work that a unit may do. The largest unit of these tests does 30,448.
const MOST: u64 = 40_000;

/// Compiles a grammar in steps of `units` units. Returns its bytes, and the work of the largest step.
pub(super) fn made(source: Source<'_>, options: &Options<'_>, units: usize) -> Result<(Vec<u8>, u64), GrammarError> {
    let mut scratch = Vec::new();
    while let Planned::Scratch(words) = Grammar::plan(source, options, &mut scratch)? {
        scratch.resize(words, 7);
    }
    let mut memory: Memory;
    let mut build = GrammarBuild::new(source, *options, &mut scratch);
    let mut largest = 0;
    let unfinished = GrammarError { kind: ErrorKind::Unfinished, at: 0 };
    assert_eq!(build.bytes(), Err(unfinished));
    step(&mut build, units, &mut largest)?;
    memory = Memory::new(build.bytes()?);
    build.place(memory.bytes())?;
    step(&mut build, units, &mut largest)?;
    build.finish()?;
    assert_eq!(build.finish().err(), Some(unfinished));
    drop(build);
    Ok((memory.bytes().to_vec(), largest))
}

/// Makes steps until the build needs something or is done.
fn step(build: &mut GrammarBuild<'_, '_>, units: usize, largest: &mut u64) -> Result<(), GrammarError> {
    loop {
        let before = build.work();
        let is_done = build.step(units)?;
        *largest = build.work().saturating_sub(before).max(*largest);
        if is_done {
            return Ok(());
        }
        assert!(build.finish().is_err());
    }
}

/// Compares a grammar compiled at once with grammars compiled in steps of some sizes. Returns the work of the largest
/// unit.
fn compare(source: Source<'_>, options: &Options<'_>) -> u64 {
    let whole = made(source, options, usize::MAX);
    let mut largest = 0;
    for units in [1, 2, 7] {
        match (&whole, made(source, options, units)) {
            (Ok((whole, _)), Ok((pieces, unit))) => {
                assert!(*whole == pieces, "steps of {units} units: other bytes");
                largest = if units == 1 { unit } else { largest };
            }
            (Err(whole), Err(pieces)) => assert_eq!(*whole, pieces, "steps of {units} units"),
            (whole, pieces) => panic!("{:?} at once, {:?} in steps of {units}", whole.is_ok(), pieces.is_ok()),
        }
    }
    largest
}

/// Returns objects, lists of values and choices with very many parts.
fn large_schemas() -> Vec<String> {
    let members = |count: usize| {
        let members: Vec<String> =
            (0..count).map(|at| format!(r#""name{at}":{{"type":"string","maxLength":{at}}}"#)).collect();
        format!(r#"{{"properties":{{{}}}}}"#, members.join(","))
    };
    let values: Vec<String> = (0..10_000).map(|at| format!("\"value {at}\"")).collect();
    let branches: Vec<String> =
        (0..60).map(|at| format!(r#"{{"properties":{{"kind":{{"const":"k{at}"}}}},"required":["kind"]}}"#)).collect();
    let choice = format!(r#"{{"oneOf":[{}]}}"#, branches.join(","));
    vec![members(1000), format!(r#"{{"enum":[{}]}}"#, values.join(",")), choice]
}

fn schemas() -> Vec<String> {
    let texts = [
        r#"{"type":"object","properties":{"a":{"type":"integer","minimum":-12.5,"maximum":99999},"b":{"format":"uri"}}}"#,
        r##"{"$defs":{"tree":{"properties":{"next":{"$ref":"#/$defs/tree"}}}},"$ref":"#/$defs/tree"}"##,
        r#"{"patternProperties":{"^a":{"type":"null"},"b$":true,"c+":{"format":"date-time"}},"properties":{"ab":{}}}"#,
        r#"{"type":"string","pattern":"^(([a-z]+[0-9]{2,9})*|[^x]{0,900}y)$","maxLength":40,"minLength":3}"#,
        r#"{"pattern":"^(aa)*$","maxLength":300}"#,
        r#"{"type":"number","multipleOf":0.37,"minimum":1.25}"#,
        r#"{"type":"array","prefixItems":[{"const":{"a":[1,2]}}],"items":{"enum":[1,"x",null]},"maxItems":1000}"#,
        r#"{"not":{}}"#,
        r#"{"properties":{"a":{"pattern":"(a|b"}}}"#,
        r#"{"type":"string","pattern":"(.*a){30}"}"#,
        r#"{"oneOf":[{"type":"integer"},{"minimum":5}]}"#,
        r##"{"anyOf":[{"$ref":"#"}]}"##,
    ];
    texts.map(str::to_owned).into()
}

#[test]
fn pieces_of_any_size_make_the_same_grammar() {
    let mut largest = 0;
    for (escapes, close) in [(Escapes::Short, true), (Escapes::All, false)] {
        let options = Options { whitespace: Whitespace::Any, escapes, close, ..Options::default() };
        for schema in &schemas() {
            largest = largest.max(compare(Source::Schema(schema.as_bytes()), &options));
        }
    }
    for schema in &large_schemas() {
        largest = largest.max(compare(Source::Schema(schema.as_bytes()), &Options::default()));
    }
    println!("largest unit of schemas: {largest}");
    let expressions = ["(a|aa)+$", "(.*){20}", "[^x]{0,9999}y", "((a{9}){9}b){9,}", "(", "a{2}{3}", "[\\w-]+@(?i)x|y"];
    for text in expressions.map(str::to_owned).into_iter().chain([format!("{}a{}", "(".repeat(99), ")*".repeat(99))]) {
        largest = largest.max(compare(Source::Regex(text.as_bytes()), &Options::default()));
    }
    let rules: String =
        (0..2000).map(|at| format!("r{at} ::= \"x{at}\" (r{} | [a-f]{{2,9}})*\n", (at + 1) % 2000)).collect();
    for text in
        [format!("root ::= r0\n{rules}"), rules, "root ::= root \"a\" | \"b\"".to_owned(), "root ::= a".to_owned()]
    {
        largest = largest.max(compare(Source::Gbnf(text.as_bytes()), &Options::default()));
    }
    println!("largest unit: {largest}");
    assert!((UNIT..MOST).contains(&largest), "a unit of {largest}");
}

#[test]
fn pieces_of_tools() {
    let tools = br#"[{"name":"roll","parameters":{"type":"object","properties":{"sides":{"type":"integer","minimum":2},
        "note":{"type":"string","pattern":"^[a-z ]{0,300}x","maxLength":200}},"required":["sides"]}},
        {"type":"function","function":{"name":"look","parameters":{"type":"object","properties":{"at":{"format":"date-time"}}}}},
        {"name":"wait"}]"#;
    let options = Options { whitespace: Whitespace::Spaced, ..Options::default() };
    for &format in CallFormat::ALL {
        for choice in [ToolChoice::Auto, ToolChoice::Required, ToolChoice::Named("look"), ToolChoice::Named("none")] {
            let unit = compare(Source::Tools(Calls { choice, ..Calls::new(tools, format) }), &options);
            assert!(unit < MOST, "{format:?}: a unit of {unit}");
        }
    }
}

#[test]
fn real_schemas_in_pieces() {
    let Some(lines) = lines("maskbench.jsonl") else { return };
    let options = Options { whitespace: Whitespace::Any, escapes: Escapes::All, ..Options::default() };
    let (mut units, mut count) = (Vec::new(), 0);
    for line in &lines {
        let source = Source::Schema(member(line, "schema").unwrap().as_bytes());
        let (whole, pieces) = (made(source, &options, usize::MAX), made(source, &options, 1));
        if let (Ok((whole, work)), Ok((pieces, unit))) = (&whole, &pieces) {
            assert!(whole == pieces);
            (count, units) = (count + work.div_ceil(UNIT), [units, vec![*unit]].concat());
        } else {
            assert_eq!(whole.err(), pieces.err());
        }
    }
    units.sort_unstable();
    let of = |share: usize| units[(units.len() - 1) * share / 1000];
    println!(
        "{} schemas, {count} units; the largest unit of each: median {}, 99.9 % {}, most {}",
        units.len(),
        of(500),
        of(999),
        of(1000)
    );
    assert!(of(1000) < 8 * UNIT, "a unit of {}", of(1000));
}
