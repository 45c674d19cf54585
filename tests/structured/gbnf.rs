//! Grammars in llama.cpp's notation, and the schemas of its tests.

use gleed::grammar::{Options, Source};
use serde_json::Value;

use super::{check, lines};

/// Schemas that allow other texts in llama.cpp: at most 16 digits, and types that are inferred from keywords.
const OTHER_LANGUAGE: &[(&str, &str)] = &[("min 2", "12345678900000000"), ("min+max items", "1")];

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

fn strings(row: &Value, list: &str) -> Vec<String> {
    row[list].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

#[test]
fn grammars_accept_refuse_or_are_refused() {
    let Some(lines) = lines("gbnf.jsonl") else { return };
    let (mut texts, mut errors, mut wrong) = (0, 0, Vec::new());
    for line in &lines {
        let row: Value = serde_json::from_str(line).unwrap();
        let text = match row["grammar_hex"].as_str() {
            Some(hex) => bytes(hex),
            None => row["grammar"].as_str().unwrap().as_bytes().to_vec(),
        };
        let source = if row["kind"] == "schema" { Source::Schema(&text) } else { Source::Gbnf(&text) };
        let (accept, refuse) = (strings(&row, "accept"), strings(&row, "refuse"));
        let name = row["name"].as_str().unwrap();
        match check(source, &Options::default(), &[&accept[..], &refuse[..]].concat()) {
            Err(error) if row["error"].is_string() => {
                errors += 1;
                let place = |index: usize, other| row["at"][index].as_u64().map_or(other, |at| at as usize);
                if !(place(0, 0)..=place(1, usize::MAX)).contains(&error.at) {
                    wrong.push(format!("{name}: {error}, not at {}", row["at"]));
                }
            }
            Err(error) => wrong.push(format!("{name}: {error}")),
            Ok(_) if row["error"].is_string() => wrong.push(format!("{name} is not refused")),
            Ok(found) => {
                for (index, (text, (_, accepted))) in accept.iter().chain(&refuse).zip(found).enumerate() {
                    texts += 1;
                    if accepted != (index < accept.len()) && !OTHER_LANGUAGE.contains(&(name, text)) {
                        wrong.push(format!("{name}: {text}: accepted {accepted}"));
                    }
                }
            }
        }
    }
    println!("{texts} texts, {errors} errors");
    assert!(texts > 200 && errors > 15 && wrong.is_empty(), "{}", wrong.join("\n"));
}
