//! The test suite of JSON Schema: invalid instances are not accepted.

use gleed::grammar::{Escapes, Options, Source, Whitespace};
use serde_json::Value;

use super::raw_member::member;
use super::{check, lines};

/// The files of the suite.
const FILES: &[&str] = &[
    "additionalProperties",
    "allOf",
    "anchor",
    "anyOf",
    "boolean_schema",
    "const",
    "contains",
    "content",
    "dependentRequired",
    "dependentSchemas",
    "dynamicRef",
    "enum",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "if-then-else",
    "items",
    "maxContains",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minContains",
    "minItems",
    "minLength",
    "minProperties",
    "multipleOf",
    "not",
    "oneOf",
    "optional--anchor",
    "optional--bignum",
    "optional--ecmascript-regex",
    "optional--float-overflow",
    "optional--format--date",
    "optional--format--ecmascript-regex",
    "optional--format--idn-hostname",
    "optional--format--iri-reference",
    "optional--format--iri",
    "optional--format--time",
    "optional--format-assertion",
    "optional--id",
    "optional--no-schema",
    "optional--non-bmp-regex",
    "optional--refOfUnknownKeyword",
    "pattern",
    "patternProperties",
    "prefixItems",
    "properties",
    "propertyNames",
    "ref",
    "refRemote",
    "required",
    "type",
    "unevaluatedItems",
    "unevaluatedProperties",
    "uniqueItems",
    "vocabulary",
];

/// Returns whether Gleed accepts more on purpose: second 60 at any time, 29 February in any year, and white space of
/// Unicode without U+FEFF.
fn is_larger(file: &str, row: &Value) -> bool {
    matches!(file, "optional--format--date" | "optional--format--time")
        || row["test"] == "zero-width whitespace does not match"
}

#[test]
fn invalid_instances_are_not_accepted() {
    let options = Options { whitespace: Whitespace::Compact, escapes: Escapes::All, ..Options::default() };
    let (mut right, mut refused, mut rejected, mut wrong) = (0, 0, 0, Vec::new());
    for file in FILES {
        let Some(lines) = lines(&format!("suite/{file}.jsonl")) else { return };
        for line in &lines {
            let row: Value = serde_json::from_str(line).unwrap();
            let schema = member(line, "schema").unwrap();
            match check(Source::Schema(schema.as_bytes()), &options, &[row["text"].as_str().unwrap()]) {
                Err(_) => refused += 1,
                Ok(found) => match (row["valid"] == true, found[0].1) {
                    (valid, accepted) if valid == accepted => right += 1,
                    (true, _) => rejected += 1,
                    (false, _) if is_larger(file, &row) => {}
                    _ => wrong.push(format!("{file}: {}", row["test"])),
                },
            }
        }
    }
    println!("{right} right, {refused} refused, {rejected} valid ones rejected, {} wrongly accepted", wrong.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(right >= 393 && rejected <= 12, "{right} right, {rejected} rejected");
}
