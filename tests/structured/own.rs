//! A small set of Gleed's own, for a checkout without the reference data.

use gleed::grammar::{ErrorKind, Escapes, Options, Source, Whitespace};

use super::check;

/// A schema, texts that are accepted, and texts that are not.
type Row = (&'static str, &'static [&'static str], &'static [&'static str]);

fn assert_rows(options: &Options<'_>, rows: &[Row]) {
    for (schema, accept, refuse) in rows {
        let texts = [*accept, *refuse].concat();
        let found = check(Source::Schema(schema.as_bytes()), options, &texts)
            .unwrap_or_else(|error| panic!("{schema}: {error}"));
        for (index, (text, (_, accepted))) in texts.iter().zip(found).enumerate() {
            assert_eq!(accepted, index < accept.len(), "{schema}: {text}");
        }
    }
}

#[test]
fn values_of_each_type() {
    let compact = Options { whitespace: Whitespace::Compact, ..Options::default() };
    assert_rows(
        &compact,
        &[
            (r#"{"type":"null"}"#, &["null"], &["", "nul", "true"]),
            (r#"{"type":"boolean"}"#, &["true", "false"], &["True", "0"]),
            (r#"{"type":"integer"}"#, &["0", "-0", "12"], &["01", "1.0", "1e1", "-"]),
            (r#"{"type":"number"}"#, &["-0.50", "1e-7"], &["1.", ".5", "+1"]),
            (
                r#"{"minimum":0.5,"maximum":2,"type":"number"}"#,
                &["0.5", "0.50", "1.999", "2.0"],
                &["0.49", "2.001", "-1"],
            ),
            (r#"{"type":"integer","multipleOf":7}"#, &["0", "-14", "70"], &["1", "-13"]),
            (
                r#"{"type":"string","minLength":1,"maxLength":2}"#,
                &["\"é\"", "\"\\n😀\""],
                &["\"\"", "\"abc\"", "\"\u{7f}\""],
            ),
            // A counted and an uncounted member side by side.
            (
                r#"{"type":"object","properties":{"a":{"type":"string","maxLength":2},"b":{"type":"string"}}}"#,
                &["{\"a\":\"xy\"}", "{\"b\":\"xyz\"}"],
                &["{\"a\":\"xyz\"}"],
            ),
            (r#"{"type":"string","pattern":"^a+$"}"#, &["\"aa\""], &["\"\"", "\"ab\""]),
            // A counted pattern bounds the number of characters, together with the bounds of other keywords.
            (
                r#"{"type":"string","pattern":"^[ab]{2,300}$"}"#,
                &["\"ab\"", "\"abababababababababababababababababababab\""],
                &["\"\"", "\"a\"", "\"abc\""],
            ),
            (
                r#"{"type":"string","pattern":"^x[0-9]{3}(?:[a-f]){0,9}$"}"#,
                &["\"x123\"", "\"x123abcdefabc\""],
                &["\"x12\"", "\"x12a\"", "\"x123abcdefabca\"", "\"x1234\""],
            ),
            (
                r#"{"type":"string","pattern":"^\\w{2,20}$","minLength":3,"maxLength":4}"#,
                &["\"abc\"", "\"abcd\""],
                &["\"ab\"", "\"abcde\"", "\"a-c\""],
            ),
            (
                r#"{"allOf":[{"pattern":"^[a-m]{2,12}$"},{"pattern":"^[g-z]{1,10}$"},{"type":"string","minLength":9}]}"#,
                &["\"ggggggggg\"", "\"mmmmmmmmmm\""],
                &["\"gggggggg\"", "\"ggggggggggg\"", "\"ggggggggga\""],
            ),
            (
                r#"{"pattern":"^[a-z]{2,9}$","enum":["a","ab","abcdefghij",1]}"#,
                &["\"ab\"", "1"],
                &["\"a\"", "\"abcdefghij\""],
            ),
            (
                r#"{"type":"string","pattern":"^[0-9T:Z-]{1,20}$","format":"date-time"}"#,
                &["\"2024-01-02T03:04:05Z\""],
                &["\"2024-01-02T03:04:05.6Z\""],
            ),
            (
                r#"{"oneOf":[{"type":"string","pattern":"^[a-z]{1,20}$"},{"type":"string","pattern":"^[0-9]{1,20}$"}]}"#,
                &["\"a\"", "\"1\""],
                &["\"\"", "\"a1\"", "\"012345678901234567890\""],
            ),
            (r#"{"type":"string","pattern":"^a|[0-9]{0,9}$"}"#, &["\"ab\"", "\"x0123456789\""], &[]),
            (r#"{"type":"string","pattern":"a|^[0-9]{2,9}$"}"#, &["\"bab\"", "\"0123\""], &["\"0\"", "\"0123456789\""]),
            (r#"{"type":"string","pattern":"a^b|x"}"#, &["\"axb\""], &["\"ab\"", "\"a^b\""]),
            (
                r#"{"type":"string","format":"ipv6"}"#,
                &["\"::1\"", "\"1:2:3:4:5:6:7:8\""],
                &["\"1::2::3\"", "\"12345::\""],
            ),
            (r#"{"enum":[1.0,"a",[1,{"b":null}]]}"#, &["1", "\"a\"", "[1,{\"b\":null}]"], &["1.0", "[1]"]),
            (
                r#"{"type":"array","items":{"type":"null"},"minItems":1,"maxItems":2}"#,
                &["[null]", "[null,null]"],
                &["[]", "[null,]"],
            ),
            (r#"{"type":"array","prefixItems":[{"const":1}],"items":false}"#, &["[]", "[1]"], &["[2]", "[1,1]"]),
            ("{}", &["{\"a\":[{}]}", "\"\""], &["", "{a:1}"]),
        ],
    );
}

#[test]
fn members_have_an_order() {
    let compact = Options { whitespace: Whitespace::Compact, ..Options::default() };
    let integer = r#"{"type":"integer"}"#;
    let schema = format!(
        r#"{{"type":"object","properties":{{"a":{integer},"ab":{integer},"b":false}},"required":["ab","z"],"additionalProperties":{{"type":"boolean"}}}}"#
    );
    let texts = [
        (r#"{"a":1,"ab":2,"z":true}"#, true),
        (r#"{"ab":2,"z":true,"y":false,"y":true}"#, true),
        (r#"{"ab":2,"a":1,"z":true}"#, false),
        (r#"{"ab":2}"#, false),
        (r#"{"ab":2,"z":true,"b":true}"#, false),
        (r#"{"ab":2,"z":true,"a":true}"#, false),
    ];
    let found = check(Source::Schema(schema.as_bytes()), &compact, &texts.map(|(text, _)| text)).unwrap();
    for ((text, expected), (_, accepted)) in texts.iter().zip(found) {
        assert_eq!(accepted, *expected, "{text}");
    }
    assert_rows(
        &Options { closed: true, ..compact },
        &[(r#"{"properties":{"a":{}},"type":"object"}"#, &["{}", "{\"a\":1}"], &["{\"b\":1}"])],
    );
    assert_rows(
        &compact,
        &[
            (
                r#"{"type":"object","patternProperties":{"^i":{"type":"integer"}},"additionalProperties":false}"#,
                &["{\"i1\":2}"],
                &["{\"x\":2}", "{\"i\":true}"],
            ),
            (
                r##"{"type":"object","properties":{"n":{"$ref":"#"}},"additionalProperties":false}"##,
                &["{\"n\":{\"n\":{}}}"],
                &["{\"n\":1}"],
            ),
            (
                r#"{"allOf":[{"type":"object","properties":{"a":{"minimum":1}}},{"properties":{"a":{"type":"integer"}},"required":["a"]}]}"#,
                &["{\"a\":1}"],
                &["{\"a\":0}", "{}"],
            ),
            (
                r#"{"type":"object","maxProperties":1,"additionalProperties":{"type":"null"}}"#,
                &["{}", "{\"a\":null}"],
                &["{\"a\":null,\"b\":null}"],
            ),
            (
                r#"{"type":"object","properties":{"a":{}},"required":["a"],"minProperties":2}"#,
                &["{\"a\":1,\"b\":2}"],
                &["{\"a\":1}", "{\"a\":1,\"a\":2}"],
            ),
            (
                r#"{"type":"object","required":["a","b"],"minProperties":2}"#,
                &["{\"a\":1,\"b\":2}", "{\"a\":1,\"b\":2,\"c\":3}"],
                &["{\"a\":1,\"a\":2}"],
            ),
            (r#"{"type":"object","minProperties":1}"#, &["{\"a\":1}"], &["{}"]),
        ],
    );
}

#[test]
fn white_space_and_escapes_are_options() {
    let schema = r#"{"type":"array","items":{"type":"string"}}"#;
    let found = |whitespace, escapes, text: &str| {
        check(Source::Schema(schema.as_bytes()), &Options { whitespace, escapes, ..Options::default() }, &[text])
            .unwrap()[0]
            .1
    };
    assert!(found(Whitespace::Bounded, Escapes::Short, "[\n  \"a\" ,\"b\"]"));
    assert!(
        !found(Whitespace::Bounded, Escapes::Short, "[  \"a\"]") && !found(Whitespace::Bounded, Escapes::Short, "[] ")
    );
    assert!(
        found(Whitespace::Spaced, Escapes::Short, "[\"a\", \"b\"]")
            && !found(Whitespace::Spaced, Escapes::Short, "[\"a\",\"b\"]")
    );
    assert!(found(Whitespace::Any, Escapes::Short, "[  \r\n ]") && !found(Whitespace::Compact, Escapes::Short, "[ ]"));
    assert!(found(Whitespace::Any, Escapes::All, r#"["\u00e9\ud83d\ude00\u0000"]"#));
    assert!(
        !found(Whitespace::Any, Escapes::All, r#"["\ud83d"]"#)
            && !found(Whitespace::Any, Escapes::Short, r#"["\u00e9"]"#)
    );
}

#[test]
fn what_is_not_understood_is_refused_by_name() {
    let refused: &[(&str, ErrorKind, usize)] = &[
        (r#"{"type":"string","not":{}}"#, ErrorKind::Unsupported("not"), 17),
        (r#"{"uniqueItems":false}"#, ErrorKind::Unsupported("uniqueItems"), 1),
        (r#"{"if":{},"then":{}}"#, ErrorKind::Unsupported("if"), 1),
        (r#"{"format":"colour"}"#, ErrorKind::Unsupported("format"), 1),
        // Two members can have the same name, which a matcher does not notice.
        (r#"{"type":"object","minProperties":2}"#, ErrorKind::Unsupported("minProperties"), 17),
        (r#"{"required":["a"],"minProperties":3,"maxProperties":9}"#, ErrorKind::Unsupported("minProperties"), 18),
        (r#"{"oneOf":[{"minimum":1},{"maximum":2}]}"#, ErrorKind::Unsupported("oneOf"), 1),
        (r##"{"$ref":"#"}"##, ErrorKind::Unsupported("$ref"), 0),
        (r##"{"anyOf":[{"$ref":"#"},{"type":"null"}]}"##, ErrorKind::Unsupported("$ref"), 0),
        (r##"{"type":["null","integer"],"anyOf":[{"$ref":"#"},{"type":"null"}]}"##, ErrorKind::Unsupported("$ref"), 0),
        (r##"{"anyOf":[{"$ref":"#/a"}],"a":{"type":"integer","anyOf":[{"$ref":"#"}]}}"##, ErrorKind::Empty, 0),
        (r#"{"$ref":"other.json"}"#, ErrorKind::Unsupported("$ref"), 1),
        (r#"{"pattern":"(?=a)"}"#, ErrorKind::Unsupported("look-around"), 12),
        (r#"{"type":"text"}"#, ErrorKind::Value("type"), 9),
        (r#"{"enum":[]}"#, ErrorKind::Value("enum"), 8),
        (r#"{"minimum":12345678901234567890123456789012345}"#, ErrorKind::Value("minimum"), 11),
        (r#"{"exclusiveMinimum":true}"#, ErrorKind::Unsupported("exclusiveMinimum"), 1),
        ("false", ErrorKind::Empty, 0),
        (r#"{"type":"object","properties":{"a":false},"required":["a"]}"#, ErrorKind::Empty, 0),
        (r#"{"a":1,"\u0061":2}"#, ErrorKind::Syntax("a name that is there already"), 8),
        (r#"{"a":1"#, ErrorKind::Syntax("expected , or }"), 6),
    ];
    for (schema, kind, at) in refused {
        let error = check::<&str>(Source::Schema(schema.as_bytes()), &Options::default(), &[]).expect_err(schema);
        assert_eq!((error.kind, error.at), (*kind, *at), "{schema}");
    }
    let options = Options { ignore: &["not", "format"], one_of_as_any_of: true, ..Options::default() };
    let schema = r#"{"not":{},"format":"colour","oneOf":[{"minimum":1},{"maximum":2}]}"#;
    assert!(check(Source::Schema(schema.as_bytes()), &options, &["1"]).unwrap()[0].1);
}

#[test]
fn expressions_are_anchored_and_take_flags() {
    let found = |expression: &str, text: &str| {
        check(Source::Regex(expression.as_bytes()), &Options::default(), &[text]).unwrap()[0]
    };
    assert_eq!(found("(?i)[a-c]+x{2,3}?", "aBXx"), (4, true));
    assert_eq!(found("a.c", "a\nc"), (1, false));
    assert_eq!(found("(?s)a.c", "a\nc"), (3, true));
    assert_eq!(found(r"\w{3}\s\D", "é"), (0, false));
    assert_eq!(found(r"[\u{10000}-\u{10ffff}]", "\u{10437}"), (4, true));
    for (expression, at) in [("a)", 1), ("(a", 2), ("[a", 1), ("a**", 2), (r"a\q", 2), ("b{3,2}", 1), ("[z-a]", 1)] {
        let error =
            check::<&str>(Source::Regex(expression.as_bytes()), &Options::default(), &[]).expect_err(expression);
        assert_eq!(error.at, at, "{expression}: {error}");
    }
}

#[test]
fn forced_bytes_are_those_without_a_choice() {
    let source = Source::Schema(br#"{"type":"object","properties":{"name":{"type":"integer"}},"required":["name"],"additionalProperties":false}"#);
    let options = Options { whitespace: Whitespace::Compact, ..Options::default() };
    super::Compiled::new(source, &options).unwrap().with(source, &options, |grammar| {
        let limits = gleed::grammar::Limits::default();
        let mut memory = common::Memory::new(gleed::grammar::Matcher::plan(limits).unwrap());
        let mut matcher = gleed::grammar::Matcher::new(grammar, limits, memory.bytes()).unwrap();
        let mut forced = [0; 64];
        let count = matcher.forced(&mut forced).unwrap();
        assert_eq!(&forced[..count], b"{\"name\":");
        assert!(matcher.take(b'{').unwrap() && !matcher.take(b'{').unwrap());
        let count = matcher.forced(&mut forced).unwrap();
        assert_eq!(&forced[..count], b"\"name\":");
        assert_eq!(matcher.take_all(b"\"name\":10}").unwrap(), 10);
        assert!(matcher.may_end() && matcher.forced(&mut forced).unwrap() == 0);
        assert_eq!(matcher.next_bytes(), [0; 4]);
    });
}

/// A grammar that is an expression must match the whole text. An anchor elsewhere matches nothing, and is refused.
#[test]
fn anchors_stand_at_the_ends_of_a_whole_text() {
    let of = |text: &str| check(Source::Regex(text.as_bytes()), &Options::default(), &["a", "ab", "b"]);
    for (text, [a, ab, b]) in [
        ("^ab$", [false, true, false]),
        ("(^a|^b)b?", [true, true, true]),
        ("a(b|$)|^^b$$", [true, true, true]),
        ("(^a)?b", [false, true, true]),
        ("(?i)^(?:A(?:B$)?$)", [true, true, false]),
    ] {
        let accepted: Vec<bool> = of(text).unwrap().iter().map(|(_, accepted)| *accepted).collect();
        assert_eq!(accepted, [a, ab, b], "{text}");
    }
    for (text, at) in [
        ("a^b", 1),
        ("a$b", 2),
        ("(a$|b)c", 6),
        ("(^a)+b", 4),
        ("(a$){2}", 4),
        ("a*^b", 2),
        ("a|(b|(b^))", 7),
        ("^*a", 1),
    ] {
        let error = of(text).unwrap_err();
        assert_eq!((error.kind, error.at), (ErrorKind::Unsupported("an anchor within the text"), at), "{text}");
    }
}
