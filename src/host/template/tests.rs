//! The texts that templates write, and the errors of templates that fail.

use super::*;

fn render(source: &str) -> Result<String, TemplateError> {
    ChatTemplate::new(source, "<s>", "").and_then(|template| template.render(&[], &RenderOptions::default()))
}

#[test]
fn errors_have_lines() {
    let error = |source| render(source).unwrap_err().to_string();
    assert_eq!(error("\n{% if %}"), "chat template, line 2: unexpected end of block");
    assert_eq!(error("a\n\n{{ raise_exception('No.') }}"), "chat template, line 3: No.");
    assert_eq!(error("\n{{ messages[0].content }}"), "chat template, line 2: undefined value");
    let endless = "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}";
    assert_eq!(error(endless), "chat template, line 1: more than 2000000 instructions");
    let template = ChatTemplate::new("", "", "").unwrap();
    let options = RenderOptions { variables: Some("[]"), ..RenderOptions::default() };
    assert!(template.render(&[], &options).unwrap_err().to_string().contains("no JSON object"));
}

#[test]
fn values_are_what_they_are_in_python() {
    let cases = [
        ("{{ none is iterable }}{{ 'a' is iterable }}{{ x is iterable }}{{ 1 is iterable }}", "FalseTrueTrueFalse"),
        ("{{ 'a' is sequence }}{{ {} is sequence }}{{ [] is sequence }}{{ none is sequence }}", "TrueTrueTrueFalse"),
        ("{{ true is number }}{{ 1.5 is number }}{{ '1' is number }}", "TrueTrueFalse"),
        (
            "{{ 'a\n\nb\n'|indent(2) }}|{{ 'a\n'|indent(2, first=true) }}|{{ 'a\n\nb'|indent('> ', blank=true) }}",
            "a\n\n  b\n|  a\n|a\n> \n> b",
        ),
        (
            "{{ {'b': 'ü😀', 'a': 1}|tojson(ensure_ascii=true, sort_keys=true) }}",
            r#"{"a": 1, "b": "\u00fc\ud83d\ude00"}"#,
        ),
        (
            "{{ '<'|safe + '<' }}{{ '<' + '<' }}{{ '<'|safe ~ '<' }}{{ 1 + 2 }}{{ 1 + 0.5 }}{{ [1] + [2] }}",
            "<&lt;<<<<31.5[1, 2]",
        ),
    ];
    for (source, expected) in cases {
        assert_eq!(render(source).as_deref(), Ok(expected), "{source}");
    }
    assert!(render("{{ 'a' + 1 }}").unwrap_err().to_string().contains("operator"));
}

#[test]
fn generation_blocks_are_blocks() {
    let source = "a {%- generation -%} b {% endgeneration +%}\n{% if x %}{% generation";
    let expected = "a {%- if true -%} b {% endif +%}\n{% if x %}{% generation";
    assert_eq!(without_generation(source), expected);
}

#[test]
fn names_in_messages_are_marked() {
    let names = |text: &str| text.find("<s>").map(|at| at..at + 3);
    let template = ChatTemplate::new("{{ bos_token }}{{ messages[0].content[1:]|trim }}", "<s>", "").unwrap();
    let frame = |text| {
        let messages = [Message { role: Role::User, text }];
        let (text, ranges) = template.render_marked(&messages, &RenderOptions::default(), names).unwrap();
        (text, ranges.into_iter().map(|range| (range.start, range.end)).collect::<Vec<_>>())
    };
    assert_eq!(frame(" a<s>b<s>"), ("<s>a<s>b<s>".to_owned(), [(4, 7), (8, 11)].to_vec()));
    assert_eq!(frame("\u{f8fe}\u{f8ff}.a\u{f8ff}").0, "<s>a");
    assert_eq!(frame("\u{f8fe} <\u{f8fe}s>"), ("<s><s>".to_owned(), [(3, 6)].to_vec()));
}

/// The results are those of Jinja 3.1 with the settings of transformers.
#[test]
fn constructs_give_what_jinja_gives() {
    let cases = [
        ("{{ e[::-1] }}", ""),
        ("{{ messages[::-1] }}", "[]"),
        ("{{ 'abc'[1:5:-1] }}", ""),
        ("{{ 'abc'[2:0:-1] }}", "cb"),
        ("{{ 'abc'[-1:-3:-1] }}", "cb"),
        ("{{ 'abc'[-5::-1] }}", ""),
        ("a\r\n{% if true %}\r\nb\r\n{% endif %}\r\nc", "a\nb\nc"),
        ("{{ 'a\r\nb' }}", "a\nb"),
        ("{{ x16|tojson }} {{ x5|tojson }} {{ x5 }}", "1e+16 1e-05 1e-05"),
        ("{% macro f(a, b=a) %}{{ a }}{{ b }}{% endmacro %}{{ f(1) }}", "11"),
        ("{{ {1: 2} }}", "{1: 2}"),
        ("{{ {1: 2}|tojson }}", "{\"1\": 2}"),
        ("{% for c in s %}{{ c }}{{ ',' if not loop.last }}{% endfor %}", "a,b,c"),
        ("{{ nothing|length }}", "0"),
        ("{{ messages|first }}{{ nothing|first }}|", "|"),
        ("{% set ns = namespace(v=1) %}{% macro f() %}{% set ns.v = 2 %}{% endmacro %}{{ f() }}{{ ns.v }}", "2"),
        ("{{ '\\/ \\U0001F600 \\a' }}", "\\/ 😀 \u{7}"),
        ("{{ \"it's \\\"q\\\" a/b\"|e }}", "it&#39;s &#34;q&#34; a/b"),
        ("{{ 'x'|int }}", "0"),
        ("{{ ' 42 '|int }}", "42"),
        ("{{ 'a-b-c'.rsplit('-', 1) }}", "['a-b', 'c']"),
        ("{{ 'abc'.removeprefix('a') }}", "bc"),
        ("{{ 'a,b'.split(',', maxsplit=1) }}", "['a', 'b']"),
        ("{{ 'abc'.index('b') }}", "1"),
        ("{{ '7'.zfill(3) }}", "007"),
        ("{{ [1,2].index(2) }}", "1"),
        ("{{ d.copy() }}", "{'b': 1, 'a': None}"),
        ("{{ 'aaa'|replace('a','b',1) }}", "baa"),
        ("{{ {1: 2, none: 4, 1.5: 5, 'a': 6} }}", "{1: 2, None: 4, 1.5: 5, 'a': 6}"),
        (
            "{{ 1e16 }} {{ 1e15 }} {{ 1.5e-7 }} {{ 0.0001 }} {{ 123456789.123 }} {{ 1e22 ~ '' }} {{ 2.0 }} {{ [1e16, 1e-5] }} {{ nl|join(',') }} {{ nl }} {{ nl|tojson }}",
            "1e+16 1000000000000000.0 1.5e-07 0.0001 123456789.123 1e+22 2.0 [1e+16, 1e-05] True,None,1.5,1e+16 [True, None, 1.5, 1e+16] [true, null, 1.5, 1e+16]",
        ),
        (
            "{{ zz|length }}{{ zz|count }}{{ zz|first }}{{ zz|last }}{{ zz|list }}{{ zz|join }}{{ zz|string }}{{ zz|upper }}{{ zz|trim }}{{ zz|replace('a','b') }}{{ zz|lower }}{{ zz|title }}{{ zz|capitalize }}{{ zz|e }}",
            "00[]",
        ),
        (
            "{{ '42.7'|int }} {{ ' 42 '|int }} {{ 'x'|int(5) }} {{ 'x'|int(default=none) }} {{ none|int }} {{ [1]|int }} {{ true|int }} {{ 3.9|int }} {{ -3.9|int }} {{ 'ff'|int(0, 16) }} {{ '0xff'|int(base=16) }} {{ '1_000'|int }} {{ '1e3'|int }} {{ 'nan'|int }} {{ 'inf'|int }} {{ '5'|int(base=99) }} {{ '+5'|int }} {{ '- 5'|int }} {{ ''|int }}",
            "42 42 5 None 0 0 1 3 -3 255 255 1000 1000 0 0 5 5 0 0",
        ),
        (
            "{{ 'x'|float }} {{ ' 1.5 '|float }} {{ '1e20'|float }} {{ none|float }} {{ true|float }} {{ 3|float }} {{ 'x'|float(2) }} {{ [1]|float }}",
            "0.0 1.5 1e+20 0.0 1.0 3.0 2 0.0",
        ),
        (
            "{{ 'aaa'|replace('a','b',1) }} {{ 'aaa'|replace('a','b',count=2) }} {{ 'aaa'|replace('a','b',0) }} {{ 'aaa'|replace('a','b',-1) }} {{ 'ab'|replace('','-') }} {{ 'ab'|replace('','-',2) }} {{ 121|replace(1,'x') }} {{ none|replace('N','n') }} {{ 'aaa'.replace('a','b',1) }} {{ 'aaa'.replace('a', '') }}",
            "baa bba aaa bbb -a-b- -a-b x2x none baa ",
        ),
        (
            "{% for c in s %}{{ loop.index }}{{ loop.last }}{{ loop.length }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.nextitem }}{{ loop.previtem }};{% endfor %}",
            "1False332b;2False321ca;3True310b;",
        ),
        (
            "{% for c in u %}{{ c }}{{ loop.last }}{{ loop.length }}{% endfor %}{% for c in e %}x{% else %}none{% endfor %}{% for c in s if c != 'b' %}{{ c }}{{ loop.length }}{% endfor %}",
            "äFalse3😀False3bTrue3nonea2c2",
        ),
        (
            "{% for x in ['ab', 'c'] recursive %}{{ x }}{{ loop.last }}{% if x|length > 1 %}({{ loop(x) }}){% endif %}{% endfor %}",
            "abFalse(aFalsebTrue)cTrue",
        ),
        (
            "{% macro f(a, b=a, c=b ~ a) %}{{ a }}{{ b }}{{ c }};{% endmacro %}{{ f(1) }}{{ f(1, 2) }}{{ f(1, c=3) }}{{ f(1, b=none) }}{{ f(a=4) }}",
            "1111;1221;113;1NoneNone1;4444;",
        ),
        (
            "{% macro f(a, b=a|upper, c=[a], d={'k': a}, e=-1) %}{{ a }}{{ b }}{{ c }}{{ d }}{{ e }}{% endmacro %}{{ f('x') }}{{ f('x', e=2, c=5) }}",
            "xX['x']{'k': 'x'}-1xX5{'k': 'x'}2",
        ),
        (
            "{% set g = 3 %}{% macro f(a=g, b=a) %}{{ a }}{{ b }}{{ caller() if caller else '' }}{% endmacro %}{{ f() }}{% call f(7) %}x{% endcall %}",
            "3377x",
        ),
        ("{% macro f() %}{{ caller(1) }}{% endmacro %}{% call(a, b=a) f() %}{{ a }}{{ b }}{% endcall %}", "11"),
        (
            "{{ 'a-b-c'.rsplit('-', 1) }}{{ 'a-b-c'.split('-', 1) }}{{ 'a-b-c'.rsplit('-') }}{{ ' a b  c '.split() }}{{ ' a b  c '.split(none, 1) }}{{ ' a b  c '.rsplit(maxsplit=1) }}{{ 'a,b,c'.split(sep=',') }}{{ 'a,b,c'.split(sep=',', maxsplit=1) }}{{ 'a,b'.split(',', -1) }}{{ 'a,b'.split(',', 0) }}{{ ''.split() }}{{ ''.split(',') }}{{ 'a'.split('b') }}{{ 'aXXbXX'.split('XX') }}{{ 'aaa'.rsplit('aa') }}",
            "['a-b', 'c']['a', 'b-c']['a', 'b', 'c']['a', 'b', 'c']['a', 'b  c '][' a b', 'c']['a', 'b', 'c']['a', 'b,c']['a', 'b']['a,b'][]['']['a']['a', 'b', '']['a', '']",
        ),
        (
            "{{ 'a:b:c'.partition(':')|list }}{{ 'a:b:c'.rpartition(':')|list }}{{ 'abc'.partition(':')|list }}{{ 'abc'.rpartition(':')|list }}{{ 'a:b'.partition(':')[2] }}",
            "['a', ':', 'b:c']['a:b', ':', 'c']['abc', '', '']['', '', 'abc']b",
        ),
        (
            "{{ 'abc'.removeprefix('ab') }}{{ 'abc'.removeprefix('x') }}{{ 'abc'.removesuffix('bc') }}{{ 'abc'.removesuffix('') }}",
            "cabcaabc",
        ),
        (
            "{{ 'abcabc'.index('b') }}{{ 'abcabc'.rindex('b') }}{{ 'abcabc'.find('b', 2) }}{{ 'abcabc'.find('b', -2) }}{{ 'abcabc'.find('b', 2, 4) }}{{ 'abcabc'.rfind('b', 0, 4) }}{{ 'ä😀b'.find('b') }}{{ 'abc'.find('', 3) }}{{ 'abc'.find('', 4) }}{{ 'abc'.count('') }}{{ 'abcabc'.count('b', 2) }}{{ 'abc'.find('c', none, none) }}",
            "1444-1123-1412",
        ),
        (
            "{{ '7'.zfill(3) }}{{ '-7'.zfill(4) }}{{ '+7'.zfill(1) }}{{ 'ä'.zfill(3) }}|{{ 'a'.center(4) }}|{{ 'ab'.center(5, '*') }}|{{ 'a'.center(5,'*') }}|{{ 'abc'.center(6,'*') }}|{{ 'a'.ljust(3) }}|{{ 'a'.rjust(3, '.') }}|{{ 'abc'.ljust(-1) }}",
            "007-007+700ä| a  |**ab*|**a**|*abc**|a  |..a|abc",
        ),
        (
            "{{ 'abc'.startswith('b', 1) }}{{ 'abc'.startswith('b', 1, 1) }}{{ 'abc'.startswith(('x', 'a')) }}{{ 'abc'.endswith('b', 0, 2) }}{{ 'abc'.endswith(('x','c')) }}{{ 'abc'.endswith('abc', -2) }}{{ ''.startswith('', 1) }}{{ 'abc'.startswith('') }}",
            "TrueFalseTrueTrueTrueFalseFalseTrue",
        ),
        (
            "{{ [1,2,3,2].index(2) }}{{ [1,2,3,2].index(2, 2) }}{{ [1,2,3,2].index(2, -1) }}{{ l.copy() }}{{ d.copy() }}{{ l.count(2) }}{{ l.index('x') }}",
            "133[1, 2, 3, 'x']{'b': 1, 'a': None}13",
        ),
        ("{% set a = [1, 2] %}{{ a.index(2) }}{{ a.copy() }}", "1[1, 2]"),
        (
            "{{ \"it's \\\"q\\\" a/b <&>\"|e }}{{ none|e }}{{ 5|e }}{{ '<'|safe|e }}{{ '<'|e|e }}{{ '<'|escape }}",
            "it&#39;s &#34;q&#34; a/b &lt;&amp;&gt;None5<&lt;&lt;",
        ),
        (
            "{{ '\\x1ca\\x1f'.strip()|length }}{{ 'a\\x1db'.split() }}{{ '\\x1ca\\x1f'|trim|length }}{{ 'xxaxx'.strip('x') }}{{ 'xxaxx'.lstrip('x') }}{{ 'xxaxx'.rstrip('xa') }}{{ '\\x1e'.isspace() }}{{ '\\xa0a\\u2003'|trim }}{{ 'xax'|trim('x') }}{{ 'xax'|trim(chars='x') }}{{ 'abc'.strip(none) }}{{ 5|trim }}",
            "1['a', 'b']1aaxxTrueaaaabc5",
        ),
        ("{{ '\\/ \\a \\v \\U0001F600 \\U00000041 \\\nx \\q \\\\/ \\\\a' }}", "\\/ \u{7} \u{b} 😀 A x \\q \\/ \\a"),
        (
            "{{ \"\\U00000022\\U0000005c\\\"\" }}{{ 'a\\101\\x41\\u0041' }}{{ '\\\n' }}|{{ \"\\b\\f\" }}",
            "\"\\\"aAAA|\u{8}\u{c}",
        ),
        (
            "{{ 'a\\nb\\r\\nc\\x0bd'.splitlines() }}{{ 'a\\nb'.splitlines(true) }}{{ 'a\\n'.splitlines() }}{{ ''.splitlines() }}",
            "['a', 'b', 'c', 'd']['a\\n', 'b']['a'][]",
        ),
        ("{{ 6 is divisibleby 3 }}{{ 7 is divisibleby(3) }}{{ 7.5 is divisibleby(2.5) }}", "TrueFalseTrue"),
        ("{{ true ~ none ~ 1.5 ~ 1e16 ~ [1, 'a'] }}", "TrueNone1.51e+16[1, 'a']"),
        (
            "{{ [true, none, 1.5]|join(', ') }}{{ [{'a': true}]|join(',', attribute='a') }}{{ 'abc'|join('-') }}{{ [[1], 'x']|join(d='|') }}",
            "True, None, 1.5Truea-b-c[1]|x",
        ),
        ("a\n\n{{ 'x' }}\n\nb{% if true %}\n\nc\n{% endif %}\n\nd", "a\n\nx\n\nb\nc\n\nd"),
        ("{{ 'a' 'b' }}", "ab"),
        (
            "{{ d|tojson(indent=2) }}{{ {1: {2: 3}}|tojson(indent=1) }}{{ {2: 1, 1: 2}|tojson(sort_keys=true) }}",
            "{\n  \"b\": 1,\n  \"a\": null\n}{\n \"1\": {\n  \"2\": 3\n }\n}{\"1\": 2, \"2\": 1}",
        ),
        (
            "{{ 'Hello World'.title() }}{{ \"it's\".title() }}{{ 'abc'.upper() }}{{ 'x'.join(['a','b']) }}{{ d.get('b') }}{{ d.get('z') }}{{ d.get('z', 3) }}{{ d.keys()|list }}",
            "Hello WorldIt'SABCaxb1None3['b', 'a']",
        ),
        ("{{ 'abc'|first }}{{ 'abc'|last }}{{ []|last }}|{{ d|first }}", "ac|b"),
        ("{{ 9223372036854775807 + 1 }} {{ 2 ** 70 }}", "9223372036854775808 1180591620717411303424"),
        (
            "{{ (1,2,3)[::-1]|list }}{{ range(5)[::-1]|list }}{{ range(10)[2:8:3]|list }}",
            "[3, 2, 1][4, 3, 2, 1, 0][2, 5]",
        ),
        ("{{ 1.0|tojson }} {{ 100|tojson }} {{ 1e100|tojson }} {{ -0.0 }}", "1.0 100 1e+100 -0.0"),
        ("{{ 2.5|round }} {{ 2.567|round(2) }} {{ 3.7|round(method='floor') }} {{ 5|round }}\n", "2.0 2.57 3.0 5"),
        ("{{ ' ' * (n - 9) }}|{{ [1] * -5 }}", "|[]"),
    ];
    let variables = r#"{"messages": [], "s": "abc", "e": "", "d": {"b": 1, "a": null}, "x16": 1e16, "x5": 1e-5, "n": 7,
        "l": [1, 2, 3, "x"], "u": "ä😀b", "nl": [true, null, 1.5, 1e16]}"#;
    for (source, expected) in cases {
        let options = RenderOptions { variables: Some(variables), ..RenderOptions::default() };
        let rendered = ChatTemplate::new(source, "", "").and_then(|template| template.render(&[], &options));
        assert_eq!(rendered.as_deref(), Ok(expected), "{source}");
    }
}

#[test]
fn what_jinja_refuses_is_an_error() {
    let cases = [
        ("{{ 'abc'[::0] }}", "a slice's step is 0"),
        ("{{ x[1:] }}", "undefined value"),
        ("{{ 'abc'.index('x') }}", "the text is not there"),
        ("{{ [1].index(2) }}", "the value is not in the list"),
        ("{{ 'a'.split('') }}", "an empty text"),
        ("{{ 'a'.split(',', 1, 2) }}", "too many arguments"),
        ("{{ 'a'.split(separator=',') }}", "unexpected argument `separator`"),
        ("{{ 'a'.center(5, 'ab') }}", "fills with one character"),
        ("{{ x|int }}", "undefined value"),
        ("{{ 5 is divisibleby 0 }}", "division by zero"),
        ("{% for i in [1] %}{{ loop.cycle() }}{% endfor %}", "at least one value"),
        ("{% for i in [1] %}{% do loop.cycle(*[]) %}{% endfor %}", "at least one value"),
        ("{{ {(1, 2): 3}|tojson }}", "cannot be written as JSON"),
    ];
    for (source, expected) in cases {
        let error = render(source).unwrap_err().to_string();
        assert!(error.contains(expected), "{source}: {error}");
    }
    // The engine counts arguments in 16 bits.
    let many = format!("{{{{ f({}) }}}}", "1,".repeat(70_000));
    assert!(render(&many).unwrap_err().to_string().contains("more than 60000 values"));
}
