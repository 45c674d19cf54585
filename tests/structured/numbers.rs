//! Bounds of numbers are exact.

use gleed::grammar::{Options, Source};
use serde_json::Value;

use super::raw_member::member;
use super::{check, lines};

#[test]
fn decimals_are_in_range_or_not() {
    let Some(lines) = lines("numbers.jsonl") else { return };
    let mut count = 0;
    for line in &lines {
        let schema = member(line, "schema").unwrap();
        let row: Value = serde_json::from_str(line).unwrap();
        for (list, expected) in [("accept", true), ("refuse", false)] {
            let texts: Vec<&str> = row[list].as_array().unwrap().iter().filter_map(Value::as_str).collect();
            let found = check(Source::Schema(schema.as_bytes()), &Options::default(), &texts).unwrap();
            for (text, (_, accepted)) in texts.iter().zip(found) {
                // If integers have a lower bound below 0, `-0` is allowed: `language.txt` has it.
                if *text == "-0" && schema.contains("integer") && schema.contains("\"minimum\": -") {
                    assert!(accepted);
                    continue;
                }
                assert_eq!(accepted, expected, "{schema}: {text}");
                count += 1;
            }
        }
    }
    println!("{count} decimals");
    assert!(count > 2400);
}
