//! The longest beginning of a text that can be continued, and whether the whole text is accepted.

use gleed::grammar::{ErrorKind, Options, Source};

use super::{check, escapes, lines, whitespace};

#[derive(Default)]
struct Case {
    name: String,
    kind: String,
    whitespace: String,
    escapes: String,
    grammar: String,
    texts: Vec<(Vec<u8>, usize, bool)>,
}

fn cases(lines: &[String]) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for line in lines.iter().filter(|line| !line.starts_with('#')) {
        let Some((key, value)) = line.split_once(' ') else { continue };
        if key == "case" {
            cases.push(Case { name: value.into(), ..Case::default() });
            continue;
        }
        let case = cases.last_mut().expect("a case comes first");
        match key {
            "kind" => case.kind = value.into(),
            "ws" => case.whitespace = value.into(),
            "escapes" => case.escapes = value.into(),
            "text" => case.grammar = value.into(),
            "t" => case.texts.push(text(value)),
            other => panic!("{other}"),
        }
    }
    cases
}

fn text(line: &str) -> (Vec<u8>, usize, bool) {
    let fields: Vec<&str> = line.split(' ').collect();
    let hex = if fields[0] == "-" { "" } else { fields[0] };
    let bytes = (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect();
    (bytes, fields[1].parse().unwrap(), fields[2] == "1")
}

/// Returns whether the reference reads an escaped quote as a character of `[^\\\\"/]`, which excludes quotes. Neither
/// accepts the text, but the reference continues behind the quote.
fn is_quirk(case: &str, text: &[u8], prefix: usize) -> bool {
    case == "pattern-escape" && text.get(prefix.saturating_sub(1)..=prefix) == Some(b"\\\"")
}

/// Returns whether the reference counts a repeated name as two members for `minProperties`. Gleed refuses such names.
pub(super) fn counts_names_twice(case: &str) -> bool {
    case == "pattern-props" || case.starts_with("pattern-props.")
}

#[test]
fn prefixes_and_ends_are_exact() {
    let Some(lines) = lines("language.txt") else { return };
    let (mut count, mut quirks, mut wrong) = (0, 0, Vec::new());
    for case in cases(&lines) {
        let options =
            Options { whitespace: whitespace(&case.whitespace), escapes: escapes(&case.escapes), ..Options::default() };
        let source = match case.kind.as_str() {
            "schema" => Source::Schema(case.grammar.as_bytes()),
            _ => Source::Regex(case.grammar.as_bytes()),
        };
        let texts: Vec<&[u8]> = case.texts.iter().map(|(text, ..)| text.as_slice()).collect();
        if counts_names_twice(&case.name) {
            let refused = check(source, &options, &texts).map_err(|error| error.kind);
            assert_eq!(refused, Err(ErrorKind::Unsupported("minProperties")));
            continue;
        }
        let found = check(source, &options, &texts).unwrap_or_else(|error| panic!("{}: {error}", case.name));
        for ((text, prefix, accepted), found) in case.texts.iter().zip(found) {
            count += 1;
            if is_quirk(&case.name, text, found.0) {
                quirks += 1;
                continue;
            }
            if found != (*prefix, *accepted) {
                wrong.push(format!("{}: {}: {found:?}, not {prefix} {accepted}", case.name, text.escape_ascii()));
            }
        }
    }
    println!("{count} texts, {quirks} of which hit a quirk of the reference");
    assert!(count > 1400 && wrong.is_empty(), "{} of {count} texts:\n{}", wrong.len(), wrong.join("\n"));
}
