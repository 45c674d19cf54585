//! The recipes of `docs/structured.md`. The last text of each line is refused, and the others are accepted.

use gleed::grammar::{Calls, Options, Source, ToolChoice, Whitespace};
use gleed::tools::CallFormat;
use serde_json::Value;

use super::check;
use super::raw_member::member;

#[test]
fn recipes_are_right() {
    let doc = std::fs::read_to_string("docs/structured.md").unwrap();
    let recipes = doc.split("## Recipes").nth(1).unwrap().split("\n## ").next().unwrap();
    let lines: Vec<&str> = recipes.lines().filter(|line| line.starts_with('{')).collect();
    assert!(lines.len() >= 20, "{} recipes", lines.len());
    lines.into_iter().for_each(recipe);
}

fn recipe(line: &str) {
    let row: Value = serde_json::from_str(line).unwrap();
    let string = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let whitespace = match row["whitespace"].as_str() {
        None => Whitespace::Bounded,
        Some("compact") => Whitespace::Compact,
        Some("spaced") => Whitespace::Spaced,
        Some(other) => panic!("{other}"),
    };
    let strings = |value: &Value| value.as_array().into_iter().flatten().map(string).collect::<Vec<_>>();
    let ignore = strings(&row["options"]["ignore"]);
    let ignore: Vec<&str> = ignore.iter().map(String::as_str).collect();
    let options = Options { whitespace, ignore: &ignore, ..Options::default() };
    let (raw, text) = (member(line, "grammar").unwrap(), string(&row["grammar"]));
    let source = match row["kind"].as_str() {
        Some("schema") => Source::Schema(raw.as_bytes()),
        Some("regex") => Source::Regex(text.as_bytes()),
        Some("gbnf") => Source::Gbnf(text.as_bytes()),
        Some("tools") => {
            assert_eq!([&row["options"]["format"], &row["options"]["tool_choice"]], ["hermes", "required"]);
            Source::Tools(Calls { choice: ToolChoice::Required, ..Calls::new(raw.as_bytes(), CallFormat::Hermes) })
        }
        other => panic!("{other:?}"),
    };
    let texts = strings(&row["texts"]);
    let found = check(source, &options, &texts).unwrap_or_else(|error| panic!("{line}: {error}"));
    for (at, (text, (_, accepted))) in texts.iter().zip(found).enumerate() {
        assert_eq!(accepted, at + 1 < texts.len(), "{line}: {text}");
    }
}
