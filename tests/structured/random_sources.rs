//! Random grammars, expressions and schemas, and options to compile them with.

use gleed::grammar::{Escapes, Options, Whitespace};

use common::random::Rng;

fn pick<'t>(random: &mut Rng, of: &[&'t str]) -> &'t str {
    of[random.below(of.len())]
}

pub(super) fn letter(random: &mut Rng) -> &'static str {
    pick(
        random,
        &[
            "a",
            "b",
            "c",
            "\u{e9}",
            "\u{20ac}",
            "\u{1f600}",
            "\"",
            "\\",
            "\n",
            " ",
            "1",
            "0",
            "-",
            ".",
            ",",
            ":",
            "{",
            "}",
            "[",
            "]",
            "true",
            "e",
        ],
    )
}

fn join(random: &mut Rng, most: usize, between: &str, mut part: impl FnMut(&mut Rng) -> String) -> String {
    let parts: Vec<String> = (0..1 + random.below(most)).map(|_| part(random)).collect();
    parts.join(between)
}

fn repeated(random: &mut Rng) -> &'static str {
    pick(random, &["", "", "", "*", "+", "?", "{2}", "{1,3}", "{0,2}", "{2,}"])
}

pub(super) fn gbnf(random: &mut Rng) -> String {
    fn part(random: &mut Rng, depth: usize) -> String {
        let item = match random.below(if depth == 0 { 4 } else { 6 }) {
            0 => format!("\"{}\"", pick(random, &["a", "b", "ab", "\u{e9}", "\\n", "\\\"", "\u{20ac}c", ""])),
            1 => pick(random, &["[a-c]", "[^a]", "[\u{e0}-\u{ff}]", "[^\\n\"]", "[0-9]", "[ab\\]]"]).to_owned(),
            2 => pick(random, &["a", "b", "c"]).to_owned(),
            3 => {
                pick(random, &["\"a\"", "\"b\"", "<[97]>", "!<[98]>", ".", "<[256]>", "!<[300]>", "<[320]>", "<[322]>"])
                    .to_owned()
            }
            _ => {
                format!("({})", join(random, 3, " | ", |random| join(random, 2, " ", |random| part(random, depth - 1))))
            }
        };
        item + repeated(random)
    }
    let rule = |name: &str| {
        let body = join(random, 3, " | ", |random| join(random, 3, " ", |random| part(random, 2)));
        format!("{name} ::= {body}\n")
    };
    ["root", "a", "b", "c"].map(rule).concat()
}

pub(super) fn expression(random: &mut Rng, depth: usize) -> String {
    let parts = |random: &mut Rng| {
        let item = match random.below(if depth == 0 { 3 } else { 5 }) {
            0 => pick(random, &["a", "b", "ab", "\u{e9}", "\u{1f600}", "\\n", "\\u0041", "1"]).to_owned(),
            1 => pick(random, &["[a-c]", "[^a]", ".", "\\d", "\\w", "\\s", "[\u{e0}-\u{20ac}]", "\\D"]).to_owned(),
            2 => pick(random, &["^", "$", "x", "y", "", "(?:a|b)"]).to_owned(),
            _ => format!("({})", expression(random, depth - 1)),
        };
        item + repeated(random)
    };
    join(random, 3, "|", |random| join(random, 4, "", parts))
}

/// Returns an expression with letters in place of its anchors.
pub(super) fn unanchored(text: &str) -> String {
    let parts = text.split("[^").map(|part| part.replace(['^', '$'], "x"));
    parts.collect::<Vec<_>>().join("[^")
}

/// Returns an expression of characters, of which the last is repeated up to a bound.
pub(super) fn bounded(random: &mut Rng) -> String {
    let class =
        |random: &mut Rng| pick(random, &["[a-c]", "[^a]", ".", "\\d", "\\w", "\u{e9}", "(b)", "(?:[ab\u{e9}])"]);
    let fixed: String =
        (0..random.below(3)).map(|_| class(random).to_owned() + pick(random, &["", "{1}", "{2}", "{3,3}"])).collect();
    let min = random.below(4);
    format!("^{fixed}{}{{{min},{}}}$", class(random), min + random.below(12))
}

pub(super) fn schema(random: &mut Rng, depth: usize) -> String {
    let inner = |random: &mut Rng| schema(random, depth.saturating_sub(1));
    let number = |random: &mut Rng| format!("{}", random.below(12) as i32 - 4);
    let mut keywords: Vec<String> = Vec::new();
    for _ in 0..1 + random.below(3) {
        let keyword = match random.below(if depth == 0 { 11 } else { 20 }) {
            0 => format!(
                "\"type\":\"{}\"",
                pick(random, &["string", "integer", "number", "boolean", "null", "array", "object"])
            ),
            1 => format!("\"enum\":[{}]", join(random, 4, ",", |random| value(random).to_owned())),
            2 => format!("\"const\":{}", value(random)),
            3 => {
                format!("\"{}\":{}", pick(random, &["minLength", "maxLength", "minItems", "maxItems"]), random.below(5))
            }
            4 => {
                let pattern = if random.below(4) == 0 { bounded(random) } else { expression(random, 1) };
                format!("\"pattern\":{}", serde_json::Value::from(pattern))
            }
            5 => format!(
                "\"{}\":{}",
                pick(random, &["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"]),
                number(random)
            ),
            6 => format!("\"multipleOf\":{}", pick(random, &["1", "2", "0.5", "3", "0.25"])),
            7 => format!(
                "\"format\":\"{}\"",
                pick(random, &["date", "time", "uuid", "ipv4", "email", "duration", "what"])
            ),
            8 => format!("\"type\":[\"{}\",\"null\"]", pick(random, &["string", "integer", "array", "object"])),
            9 => format!(
                "\"required\":[{}]",
                join(random, 2, ",", |random| pick(random, &["\"a\"", "\"b\"", "\"ab\"", "\"z\""]).into())
            ),
            10 => format!("\"{}\":{}", pick(random, &["minProperties", "maxProperties"]), random.below(3)),
            11 => format!("\"properties\":{{{}}}", members(random, depth)),
            12 => format!("\"items\":{}", inner(random)),
            13 => format!("\"prefixItems\":[{}]", join(random, 2, ",", inner)),
            14 => format!("\"additionalProperties\":{}", inner(random)),
            15 => format!("\"patternProperties\":{{\"^{}\":{}}}", pick(random, &["a", "b", "x"]), inner(random)),
            16 => format!("\"anyOf\":[{}]", join(random, 3, ",", inner)),
            17 => format!("\"oneOf\":[{}]", join(random, 2, ",", inner)),
            18 => format!("\"allOf\":[{}]", join(random, 2, ",", inner)),
            _ => "\"$ref\":\"#\"".to_owned(),
        };
        let name = keyword.split_once(':').expect("a keyword").0.to_owned();
        if !keywords.iter().any(|other| other.starts_with(&name)) {
            keywords.push(keyword);
        }
    }
    match random.below(24) {
        0 => "true".to_owned(),
        1 => "false".to_owned(),
        _ => format!("{{{}}}", keywords.join(",")),
    }
}

fn members(random: &mut Rng, depth: usize) -> String {
    let names = ["\"a\"", "\"b\"", "\"ab\"", "\"\u{e9}\"", "\"a\\n\""];
    let chosen: Vec<&str> = names.into_iter().filter(|_| random.below(2) == 0).collect();
    let members: Vec<String> = chosen.iter().map(|name| format!("{name}:{}", schema(random, depth - 1))).collect();
    members.join(",")
}

fn value(random: &mut Rng) -> &'static str {
    pick(
        random,
        &["1", "-0.50", "\"a\"", "\"ab\"", "\"\u{e9}\\n\"", "null", "true", "[1,\"a\"]", "{\"a\":1}", "{}", "1e2"],
    )
}

pub(super) fn options(random: &mut Rng) -> Options<'static> {
    let modes = [Whitespace::Bounded, Whitespace::Compact, Whitespace::Spaced, Whitespace::Any];
    Options {
        whitespace: modes[random.below(4)],
        escapes: [Escapes::Short, Escapes::All][random.below(2)],
        closed: random.below(2) == 0,
        one_of_as_any_of: random.below(2) == 0,
        ignore: &[],
        states: 256,
        close: random.below(2) == 0,
    }
}
