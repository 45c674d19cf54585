//! Schemas that people have written.

use gleed::grammar::{Escapes, Options, Source, Whitespace};

use super::raw_member::{member, members, parts};
use super::{check, lines};

/// Returns a value without white space, with strings in Gleed's only notation. Names keep their order.
fn canonical(value: &str) -> String {
    match value.as_bytes()[0] {
        b'{' => {
            let written = members(value)
                .map(|(name, value)| format!("{}:{}", canonical(&format!("\"{name}\"")), canonical(value)));
            format!("{{{}}}", written.collect::<Vec<_>>().join(","))
        }
        b'[' => format!("[{}]", parts(value).into_iter().map(canonical).collect::<Vec<_>>().join(",")),
        b'"' => serde_json::to_string(&serde_json::from_str::<String>(value).unwrap()).unwrap(),
        _ => value.to_owned(),
    }
}

#[test]
fn real_schemas_are_right_or_refused() {
    let Some(lines) = lines("maskbench.jsonl") else { return };
    let options = Options { whitespace: Whitespace::Any, escapes: Escapes::All, ..Options::default() };
    let (mut right, mut refused, mut rejected, mut bytes, mut wrong) = (0, 0, 0, 0, Vec::new());
    for line in &lines {
        let schema = member(line, "schema").unwrap();
        let tests = parts(member(line, "tests").unwrap());
        let texts: Vec<String> = tests.iter().map(|test| canonical(member(test, "data").unwrap())).collect();
        let Ok(found) = check(Source::Schema(schema.as_bytes()), &options, &texts) else {
            refused += 1;
            continue;
        };
        let mut all = true;
        for (test, (_, accepted)) in tests.iter().zip(found) {
            let valid = member(test, "valid") == Some("true");
            all &= valid == accepted;
            rejected += usize::from(valid && !accepted);
            if accepted && !valid {
                wrong.push(format!("{}: {test}", member(line, "name").unwrap()));
            }
        }
        right += usize::from(all);
        bytes += super::Compiled::new(Source::Schema(schema.as_bytes()), &options).unwrap().bytes;
    }
    let mean = bytes / (lines.len() - refused);
    println!(
        "{right} of {} right, {refused} refused, {rejected} valid instances rejected, {} wrongly accepted; {mean} bytes a grammar",
        lines.len(),
        wrong.len()
    );
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(right >= 955, "{right} right");
}
