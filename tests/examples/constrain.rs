//! The example `constrain`: texts, walks, and wrong lines.

use serde_json::{Value, json};

use super::{run, run_with_input, scratch_with, shared_path};

/// Returns the answers to lines.
fn answers(flags: &[&str], lines: &[Value]) -> Vec<Value> {
    let input: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let out = run_with_input("constrain", flags, input.as_bytes()).ok();
    out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn constrain_checks_texts() {
    let found = answers(
        &[],
        &[
            json!({"kind": "schema", "grammar": {"type": "integer", "minimum": 3}, "texts": ["12", "1x", ""]}),
            json!({"kind": "gbnf", "grammar": "root ::= \"a\" <[5]> \"b\"", "texts": [["a", 5, "b"], "ab"]}),
            json!({"kind": "regex", "grammar": "(?i)[a-c]+", "options": {"close": true}, "texts": ["aB"]}),
            json!({"kind": "schema", "grammar": {"items": {"not": {}}}, "texts": []}),
        ],
    );
    let text = |accepted: bool, prefix: usize| json!({"accepted": accepted, "prefix": prefix});
    assert_eq!(found[0], json!({"ok": true, "results": [text(true, 2), text(false, 1), text(false, 0)]}));
    assert_eq!(found[1], json!({"ok": true, "results": [text(true, 2), text(false, 1)]}));
    let closed = json!({"accepted": true, "prefix": 2, "bytes_to_end": 0});
    assert_eq!(found[2], json!({"ok": true, "results": [closed]}));
    assert_eq!((&found[3]["ok"], &found[3]["keyword"], &found[3]["at"]), (&json!(false), &json!("not"), &json!(10)));
    assert_eq!(found[3]["pointer"], "/items/not");
}

#[test]
fn constrain_walks_over_tokens() {
    let Some(model) = shared_path("fixtures/tokenizers/vocab/ggml-vocab-qwen2.gguf") else { return };
    let line = json!({"kind": "schema", "grammar": {"type": "integer"}, "walks": [[16, 17], [0]]});
    let found = answers(&["--model", &model, "--time"], &[line]);
    assert!(found[0]["compile_us"].as_f64().unwrap() > 0.0 && found[0]["bytes"].as_u64().unwrap() > 0);
    let walks = &found[0]["results"];
    let states = |walk: &Value| -> Vec<(bool, u64)> {
        let states = walk.as_array().unwrap().iter().filter(|state| state["us"].is_number());
        states.map(|state| (state["accept"] == true, state["count"].as_u64().unwrap())).collect()
    };
    assert_eq!(states(&walks[0]), [(false, 11), (true, 10), (true, 10)]);
    assert_eq!(walks[0][0]["hash"], "fc1739519d8f5814");
    assert_eq!(walks[1][1]["error"], "token 0 is not allowed");
}

/// A wrong line gives a line that names the mistake, and the next line is read.
#[test]
fn constrain_names_what_is_wrong() {
    for (line, words) in [
        (json!({"kind": "schemas", "grammar": {}}), "kind schemas: schema, gbnf, regex or tools"),
        (json!({"grammar": {}}), "no kind"),
        (json!({"kind": "schema"}), "no grammar"),
        (json!({"kind": "schema", "grammar": {}, "texts": "x"}), "texts is not a list"),
        (json!({"kind": "schema", "grammar": {}, "walks": [[1]]}), "walks need --model FILE"),
        (json!({"kind": "schema", "grammar": {}, "whitespace": "wide"}), "whitespace wide: bounded, compact"),
        (json!({"kind": "schema", "grammar": {}, "options": {"clse": true}}), "option clse is none of: whitespace"),
        (json!({"kind": "schema", "grammar": {}, "options": {"close": 1}}), "option close is true or false"),
        (json!({"kind": "schema", "grammar": {}, "options": {"ignore": [1]}}), "ignore is a list of keywords"),
        (json!({"kind": "schema", "grammar": {}, "options": ["close"]}), "options is not an object"),
        (
            json!({"kind": "schema", "grammar": {}, "options": {"states": "9"}}),
            "option states is a number up to 1048576",
        ),
        (json!({"kind": "schema", "grammar": {}, "options": {"items": 1_u64 << 40}}), "option items is a number up to"),
        (json!({"kind": "schema", "grammar": {}, "options": {"depth": -1}}), "option depth is a number up to"),
        (json!({"kind": "schema", "grammar": {}, "whitespace": 1}), "whitespace is not a string"),
        (json!({"kind": "schema", "grammar": {}, "options": {"escapes": []}}), "escapes is not a string"),
        (json!({"kind": "tools", "grammar": [], "options": {"format": 1}}), "format is not a string"),
        (json!({"kind": "tools", "grammar": []}), "tools need options.format"),
        (
            json!({"kind": "tools", "grammar": [], "options": {"format": "hermes", "parallel": 0}}),
            "parallel is true or",
        ),
        (json!({"kind": "schema", "grammar": {}, "texts": [5]}), "a text is a string, or a list of strings and ids"),
        (json!({"kind": "schema", "grammar": {}, "texts": [["a", -5]]}), "a text is a string, or a list of strings"),
        (json!({"kind": "regex", "grammar": "(a"}), "expected ) at byte 2"),
        (json!({"kind": "gbnf", "grammar": "root ::= root \"a\" | \"b\""}), "left recursion at byte 0"),
        (json!([1]), "no grammar"),
    ] {
        let after = json!({"kind": "regex", "grammar": "a", "texts": []});
        let found = answers(&[], &[line.clone(), after]);
        assert!(found[0]["ok"] == false && found[0]["error"].as_str().unwrap().contains(words), "{line}: {}", found[0]);
        assert_eq!(found[1], json!({"ok": true, "results": []}), "{line}");
    }
    let found = run_with_input("constrain", &[], b"{\"kind\"\n").ok();
    assert!(found.contains("the line is not JSON: "), "{found}");
    let file = scratch_with("constrain.txt", b"[package]");
    for (flags, words) in [
        (&["--model", "nowhere.gguf"][..], "error: nowhere.gguf: "),
        (&["--model", &file], "not a GGUF file"),
        (&["--model"], "error: --model needs a file"),
        (&["--times"], "error: unknown argument --times"),
    ] {
        let found = run("constrain", flags);
        assert_eq!((found.code, found.err.lines().count()), (Some(1), 1), "{}", found.err);
        assert!(found.err.contains(words), "{}", found.err);
    }
}
