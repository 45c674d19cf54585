//! Jinja templates that were made to exhaust the stack, the memory or the time of a host
//! (`src/host/template/bounds.rs`).
//!
//! Each is rendered in a process of its own, on a thread with a small stack.
#![cfg(target_os = "linux")]

use std::process::{Command, Output};

use gleed::host::{ChatTemplate, RenderOptions};
use gleed::turns::{Message, Role};

/// Bytes of stack of the rendering thread, as many as Rust's threads have by default.
const STACK: usize = 2 << 20;
/// Address space of the child, in KiB.
const MEMORY: usize = 256 << 10;
/// Processor time of the child, in seconds.
const SECONDS: usize = 2;
/// Environment variable with the number of the child's case.
const CASE: &str = "GLEED_HOSTILE_TEMPLATE";

#[test]
fn hostile_templates_end_within_bounds() {
    let failed: Vec<String> = cases()
        .iter()
        .enumerate()
        .filter_map(|(index, case)| {
            let output = in_child(index);
            let text = String::from_utf8_lossy(&output.stdout);
            let answer = text.lines().find_map(|line| line.split_once("answer: ")).map(|(_, answer)| answer);
            let is_right = output.status.success() && answer.is_some_and(|answer| answer.contains(case.expected));
            (!is_right).then(|| format!("{}: {}, {answer:?}", case.name, output.status))
        })
        .collect();
    assert!(failed.is_empty(), "{failed:#?}");
}

fn in_child(index: usize) -> Output {
    let limits = format!("ulimit -v {MEMORY} && ulimit -t {SECONDS} && ulimit -c 0 && exec \"$0\" \"$@\"");
    let mut child = Command::new("sh");
    child.args(["-c", &limits]).arg(std::env::current_exe().unwrap());
    child.args(["--exact", "one_case", "--nocapture", "--test-threads=1"]);
    child.env(CASE, index.to_string()).env("MALLOC_ARENA_MAX", "1").output().unwrap()
}

/// Runs a case in the child. Does nothing if the variable has no number.
#[test]
fn one_case() {
    let Some(index) = std::env::var(CASE).ok().and_then(|index| index.parse::<usize>().ok()) else { return };
    let source = cases().swap_remove(index).source;
    let rendering = std::thread::Builder::new().stack_size(STACK).spawn(move || render(&source));
    println!("\nanswer: {}", rendering.unwrap().join().unwrap());
}

fn render(source: &str) -> String {
    let messages = [Message { role: Role::User, text: "hi" }];
    let template = ChatTemplate::new(source, "", "");
    match template.and_then(|template| template.render(&messages, &RenderOptions::default())) {
        Ok(text) => format!("{} bytes: {}", text.len(), text.chars().take(80).collect::<String>()),
        Err(error) => error.to_string().replace('\n', " "),
    }
}

/// A template just within a bound is rendered. One just beyond it is refused by this bound and by no other.
#[test]
fn each_bound_is_met_alone() {
    let failed: Vec<String> = bounds()
        .iter()
        .filter_map(|bound| {
            let [within, beyond] = [bound.most, bound.most + 1].map(|n| render(&(bound.source)(n)));
            let is_right = !within.starts_with("chat template") && beyond.contains(bound.refusal);
            (!is_right).then(|| format!("{}: {within:?}, {beyond:?}", bound.name))
        })
        .collect();
    assert!(failed.is_empty(), "{failed:#?}");
}

struct Bound {
    name: &'static str,
    /// Returns a template that uses this amount of the bounded resource.
    source: fn(usize) -> String,
    most: usize,
    refusal: &'static str,
}

fn bounds() -> [Bound; 15] {
    let bound = |name, source, most, refusal| Bound { name, source, most, refusal };
    [
        bound("source", |n| "x".repeat(n), 262_144, "262145 bytes, and at most 262144 are allowed"),
        bound("blocks", |n| "{% if 1 %}".repeat(n) + &"{% endif %}".repeat(n), 100, "more than 100 deep"),
        bound("operators", |n| format!("{{{{ {}1 }}}}", "not ".repeat(n)), 100, "more than 100 deep"),
        bound("text", |n| format!("{{{{ ('a' * {} ~ 'a')|length }}}}", n - 1), 16_777_216, "a text: 16777217 bytes"),
        bound(
            "repeated text",
            |n| format!("{{{{ ('a' * {n})|length }}}}"),
            16_777_216,
            "a repeated text: 16777217 bytes",
        ),
        bound("output", |n| format!("{{{{ 'a' * {} }}}}a", n - 1), 16_777_216, "text that is written: 16777217 bytes"),
        bound("instructions", |n| LOOP.replace("N", &n.to_string()), 6_493, "more than 2000000 instructions"),
        bound("calls", |n| MACRO.replace("N", &n.to_string()), 32, "more than 200 deep"),
        bound("items", |n| format!("{{{{ ([1] * {n})|length }}}}"), 1_000_000, "a repeated list: 1000001 items"),
        bound("characters", |n| format!("{{{{ ('a' * {n})|first }}}}"), 1_000_000, "by characters: 1000001 bytes"),
        bound(
            "weight",
            |n| format!("{{% set x=['a' * 999936] * {n} %}}{{% set y=[x] %}}"),
            67,
            "all that is in a value",
        ),
        bound("depth", |n| DEEPER.replace("N", &n.to_string()), 64, "65 levels, and at most 64"),
        bound("made", |n| MAKE.replace("N", &n.to_string()), 100, "texts and lists that are made: 101006464 bytes"),
        bound("gone through", |n| READ.replace("N", &n.to_string()), 268, "that are gone through: 269280784 bytes"),
        bound("date", |n| format!("{{{{ strftime_now('a' * {n}) }}}}"), 1024, "a format of a date: 1025 bytes"),
    ]
}

const LOOP: &str = "{% for i in range(N) %}{% for i in range(100) %}{% endfor %}{% endfor %}";
const MACRO: &str = "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(N) }}";
const DEEPER: &str = "{% set ns=namespace(x=[]) %}{% for i in range(N) %}{% set ns.x=[ns.x] %}{% endfor %}";
const MAKE: &str = "{% for i in range(N) %}{% set x='a' * 1000000 %}{% endfor %}";
const READ: &str = "{% set x='a' * 1000000 %}{% for i in range(N) %}{% set y=x|length %}{% endfor %}";

struct Case {
    name: &'static str,
    source: String,
    /// A part of the answer: a bound, or the text.
    expected: &'static str,
}

/// A template that writes X ten million times.
const LOOPS: &str = "{% for i in range(99999) %}{% for j in range(99) %}X{% endfor %}{% endfor %}";

fn cases() -> Vec<Case> {
    let deep = |n: usize, a: &str, m: &str, b: &str| format!("{{{{ {}{m}{} }}}}", a.repeat(n), b.repeat(n));
    let cases: Vec<(&str, String, &str)> = vec![
        ("doubling a string 45 times", "{% set ns=namespace(s='aaaaaaaaaaaaaaaa') %}{% for i in range(45) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}{{ ns.s|length }}".into(), "a text: 33554432 bytes, and at most 16777216"),
        ("'a' * 10**11", "{{ ('a' * 100000000000)|length }}".into(), "a repeated text: 100000000000 bytes"),
        ("[1] * 10**10", "{{ ([1] * 10000000000)|length }}".into(), "a repeated list: 10000000000 items, and at most 1000000"),
        ("indent(10**10)", "{{ 'a\\nb'|indent(10000000000)|length }}".into(), "an indented text: 30000000000 bytes"),
        ("tojson(indent=10**10)", "{{ messages|tojson(indent=10000000000)|length }}".into(), "a text: 10000000001 bytes"),
        ("nested lists of 300000 levels, dropped", "{% set ns=namespace(x=[]) %}{% for i in range(100000) %}{% set ns.x=[[[ns.x]]] %}{% endfor %}ok".into(), "in one another: 65 levels, and at most 64"),
        ("nested lists of 20000 levels, printed", "{% set ns=namespace(x=[]) %}{% for i in range(20000) %}{% set ns.x=[ns.x] %}{% endfor %}{{ ns.x }}".into(), "65 levels"),
        ("nested lists of 20000 levels, tojson", "{% set ns=namespace(x=[]) %}{% for i in range(20000) %}{% set ns.x=[ns.x] %}{% endfor %}{{ ns.x|tojson|length }}".into(), "65 levels"),
        ("nested lists compared", "{% set ns=namespace(x=[],y=[]) %}{% for i in range(20000) %}{% set ns.x=[ns.x] %}{% set ns.y=[ns.y] %}{% endfor %}{{ ns.x == ns.y }}".into(), "65 levels"),
        ("macro that calls itself", "{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}".into(), "more than 200 deep"),
        ("recursive loop", "{% for x in [[1]] recursive %}{{ loop([[1]]) }}{% endfor %}".into(), "more than 200 deep"),
        ("100000 parentheses", deep(100000, "(", "1", ")"), "nested more than 100 deep"),
        ("100000 brackets", deep(100000, "[", "1", "]"), "nested more than 100 deep"),
        ("100000 nots", format!("{{{{ {}1 }}}}", "not ".repeat(100000)), "400007 bytes, and at most 262144"),
        ("100000 minus", format!("{{{{ {}1 }}}}", "-".repeat(100000)), "nested more than 100"),
        ("100000 filters", format!("{{{{ 1{} }}}}", "|string".repeat(100000)), "700007 bytes"),
        ("100000 additions", format!("{{{{ 1{} }}}}", "+1".repeat(100000)), "nested more than 100"),
        ("100000 powers", format!("{{{{ 1{} }}}}", "**1".repeat(100000)), ""),
        ("100000 attributes", format!("{{{{ x{} }}}}", ".a".repeat(100000)), "nested more than 100"),
        ("20000 nested ifs", format!("{}1{}", "{% if 1 %}".repeat(20000), "{% endif %}".repeat(20000)), "420001 bytes"),
        ("100000 elifs", format!("{{% if 0 %}}{}{{% endif %}}", "{% elif 0 %}".repeat(100000)), ""),
        ("100000 ternaries", format!("{{{{ {}1 }}}}", "1 if 0 else ".repeat(100000)), ""),
        ("100000 ands", format!("{{{{ 1{} }}}}", " and 1".repeat(100000)), "600007 bytes"),
        ("100000 concatenations", format!("{{{{ 1{} }}}}", "~1".repeat(100000)), "nested more than 100"),
        ("100000 comparisons", format!("{{{{ 1{} }}}}", "<1".repeat(100000)), "nested more than 100"),
        ("100000 calls", format!("{{{{ x{} }}}}", "()".repeat(100000)), "nested more than 100"),
        ("replace '' 30 times", "{% set ns=namespace(s='aaaaaaaaaaaaaaaa') %}{% for i in range(30) %}{% set ns.s = ns.s.replace('a','aaaa') %}{% endfor %}{{ ns.s|length }}".into(), ""),
        ("output 20 M", "{% set s='a'*1000000 %}{% for i in range(20000) %}{{ s }}{% endfor %}".into(), "text that is written: 17000000 bytes, and at most 16777216"),
        ("strftime widths", "{{ strftime_now('%1000000000d %-99999999999999999999Y %Q %') }}".into(), "%1000000000d"),
        ("slices", "{{ 'abc'[::-9223372036854775808] }}{{ [1,2][9223372036854775807:-9223372036854775808:3] }}{{ 'abc'[-99999999999999999999:] }}".into(), "6 bytes: c[]abc"),
        ("slices of nothing", "{{ ''[::-1] }}{{ [][::-1] }}{{ ()[5:-5:-1] }}{{ 'abc'[1:5:-1] }}{{ ('a'*1000000)[::-1]|length }}".into(), "11 bytes: [][]1000000"),
        ("a long text turned", "{% set s='a'*16000000 %}{% for i in range(99999) %}{% set t=s[::-1] %}{% endfor %}".into(), "are made: "),
        ("a list turned", "{% set x=[1]*1000000 %}{% for i in range(99999) %}{% set t=x[::-1] %}{% endfor %}".into(), "are made: "),
        ("a long text in a loop", "{% for c in 'a'*16000000 %}{% endfor %}".into(), "gone through by characters: 16000000 bytes"),
        ("ranges", "{{ range(10, 0, -9223372036854775808)|list }}{{ range(9223372036854775807, -9223372036854775808, -1) }}".into(), "range() of 18446744073709551615 numbers"),
        ("a cycle of nothing", "{% for i in [1] %}{{ loop.cycle(*[]) }}{% endfor %}".into(), "cycle() takes at least one value"),
        ("divisible by 0", "{{ 5 is divisibleby(0) }}".into(), "division by zero"),
        ("a base", "{{ '5'|int(0, 99) }}{{ '5'|int(base=-1) }}{{ 'x'|int(base=1) }}".into(), "3 bytes: 550"),
        ("70000 arguments", format!("{{{{ f({}) }}}}", "1,".repeat(70_000)), "more than 60000 values in one tag"),
        ("padded", "{{ 'a'.center(100000000000) }}".into(), "a padded text: 4294967296 bytes"),
        ("many lines in a text", "{{ ('\\r'*16000000)|indent|length }}{{ ('\\r'*16000000).splitlines() }}".into(), "parts of a text: "),
        ("lines that end otherwise", "{{ ('\\ra'*8000000)|indent(1000)|length }}".into(), "an indented text: "),
        ("indented by a text", "{{ ('\\na'*80000)|indent('a'*80000)|length }}".into(), "an indented text: "),
        ("many parts", "{{ ('a,'*8000000).rsplit(sep=',')|length }}".into(), "parts of a text: "),
        ("stripped of many", "{{ ('a'*16000000).strip('b'*1000000 ~ 'a')|length }}".into(), "by characters: 1000001 bytes"),
        ("an escaped text", "{{ (\"'\"*16000000)|e|length }}".into(), "an escaped text: 80000000 bytes"),
        ("a long list searched", "{% set x=['a'*1000000]*60 %}{% for i in range(999) %}{% set y=x.index('a'*999999) %}{% endfor %}".into(), "not in the list"),
        ("integers", "{{ 9223372036854775807 + 1 }}{{ -9223372036854775808 // -1 }}{{ 2 ** 100000 }}{{ 1 // 0 }}{{ 1 % 0 }}{{ (-170141183460469231731687303715884105728) // -1 }}".into(), ""),
        ("divide min", "{{ (-9223372036854775807 - 1) // -1 }} {{ (-9223372036854775807 - 1) % -1 }}{{ (-9223372036854775807-1)|abs }}".into(), ""),
        ("batch, slice", "{{ [1,2]|batch(0)|list }}{{ [1,2]|slice(0)|list }}{{ [1]|batch(10000000000,'x')|list|length }}".into(), ""),
        ("slice filter 10**9", "{{ [1]|slice(1000000000)|list|length }}".into(), "parts of a list: 1000000000 items"),
        ("range step", "{{ range(0, 9223372036854775807, 1000000000)|list|length }}{{ range(5, 0, 0)|list }}".into(), ""),
        ("center", "{{ 'a'.center(100000000000) }}{{ 'a'.zfill(100000000000) }}{{ 'a'.ljust(100000000000) }}{{ 'a'|center(100000000000) }}".into(), ""),
        ("format", "{{ '%100000000000d' % 1 }}{{ '%100000000000s'|format('x') }}{{ '{:>100000000000}'.format(1) }}".into(), ""),
        ("round", "{{ 1.5|round(400) }}{{ 1.5|round(-400) }}{{ 1.5|round(99999999999) }}".into(), ""),
        ("include itself", "{% include 'chat' %}".into(), "it cannot include"),
        ("extends itself", "{% extends 'chat' %}".into(), "it cannot include"),
        ("block calls itself", "{% block a %}{{ self.a() }}{% endblock %}".into(), ""),
        ("import itself", "{% import 'chat' as x %}{{ x }}".into(), "it cannot include"),
        ("a long source", "{% if 1 %}a{% endif %}".repeat(20_000), "bytes, and at most 262144"),
        ("10000 filters", deep(1, "", &format!("1{}", "|abs".repeat(10_000)), ""), "nested more than 100 deep"),
        ("99 filters", deep(1, "", &format!("1{}", "|abs".repeat(99)), ""), "1 bytes: 1"),
        ("50 brackets", deep(50, "[", "1", "]"), "101 bytes"),
        ("50 parentheses", deep(50, "(", "1", ")"), "1 bytes: 1"),
        ("51 parentheses", deep(51, "(", "1", ")"), "nested more than 100 deep"),
        ("9000 nested ifs", format!("{}1{}", "{% if 1 %}".repeat(9000), "{% endif %}".repeat(9000)), "nested more than 100"),
        ("20000 nots", deep(20_000, "not ", "1", ""), "nested more than 100 deep"),
        ("99 nots", deep(99, "not ", "1", ""), "5 bytes: False"),
        ("99 ifs", format!("{}1{}", "{% if 1 %}".repeat(99), "{% endif %}".repeat(99)), "1 bytes: 1"),
        ("98 branches", format!("{{% if 0 %}}{}{{% endif %}}", "{% elif 0 %}".repeat(98)), "0 bytes"),
        ("3000 branches", format!("{{% if 0 %}}{}{{% endif %}}", "{% elif 0 %}".repeat(3000)), "nested more than 100"),
        ("3000 set blocks", "{% set x %}".repeat(3000), "nested more than 100"),
        ("3000 subscripts", deep(3000, "x[", "1", "]"), "nested more than 100"),
        ("many lines", "\n".repeat(200_000) + "{{ 1 // 0 }}", "line 65535"),
        ("constants that double", format!("{{{{ ({})|length }}}}", ["('a' * 10000000)"; 30].join("~")), "a text: 20000000 bytes"),
        ("a repeated tuple", "{{ ((1, 2) * 90000000)|length }}".into(), "a repeated list: 180000000 items"),
        ("a list that doubles", "{% set ns=namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x=ns.x+ns.x %}{% endfor %}".into(), "a list: 1000001 items"),
        ("a tree that doubles", "{% set ns=namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x=[ns.x, ns.x] %}{% endfor %}{{ ns.x == ns.x }}".into(), "all that is in a value"),
        ("batches in batches", "{% set ns=namespace(x=[1]) %}{% for i in range(99999) %}{% set ns.x=ns.x|batch(1) %}{% endfor %}".into(), "65 levels"),
        ("maps in maps", "{% set ns=namespace(x=1) %}{% for i in range(99999) %}{% set ns.x=dict(x=ns.x) %}{% endfor %}".into(), "65 levels"),
        ("a namespace in itself", "{% set ns=namespace() %}{% set ns.x = ns %}{{ ns == ns }}".into(), "cannot be kept"),
        ("namespaces in namespaces", "{% set a=namespace() %}{% set b=namespace(a=a) %}".into(), "cannot be kept"),
        ("loops in loops", "{% set ns=namespace(x=0) %}{% for i in range(9) %}{% for y in [ns.x] %}{% set ns.x=loop %}{% endfor %}{% endfor %}".into(), "cannot be kept"),
        ("endless loops", "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}".into(), "more than 2000000 instructions"),
        ("a long text looked at", "{% set s='a'*16000000 %}{% for i in range(99999) %}{% if s[9000000] == s[-1] %}{% endif %}{% endfor %}".into(), "gone through: "),
        ("a long text sliced", "{% set s='a'*16000000 %}{% for i in range(99999) %}{% set t=s[15999999:] %}{% endfor %}".into(), "gone through: "),
        ("a long text searched", "{% set s='a'*16000000 %}{% for i in range(99999) %}{% if 'b' in s or s.startswith('b') %}{% endif %}{% endfor %}".into(), "gone through: "),
        ("a long text as letters", "{{ ('a'*16000000)|list|length }}".into(), "gone through by characters: 16000000 bytes"),
        ("a long text as words", "{{ ('a '*8000000).split()|length }}".into(), "parts of a text: 8000000 items"),
        ("many lists", "{% set ns=namespace(x=[]) %}{% for i in range(99999) %}{% set ns.x=ns.x+[range(99)|list] %}{% endfor %}".into(), "are made: "),
        ("many texts", "{% set s='a'*100000 %}{% set ns=namespace(x=[]) %}{% for i in range(99999) %}{% set ns.x=ns.x+[s~i] %}{% endfor %}".into(), "are made: "),
        ("captured text", "{% set x %}{% for i in range(99999) %}{% for j in range(99) %}aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa{% endfor %}{% endfor %}{% endset %}".into(), "text that is written"),
        ("a long separator", "{{ range(9999)|join('a'*100000)|length }}".into(), "a joined text"),
        ("indented by a map", "{{ (['a\\nb']|map('indent', 10000000000)|list)[0]|length }}".into(), "an indented text"),
        ("sorted texts", "{% set s='a'*10000 %}{% for i in range(999) %}{% set x=([s]*1000)|sort %}{% endfor %}".into(), "gone through: "),
        ("summed texts", "{{ ([['a']]*10000)|sum(start=[])|length }}".into(), "gone through: "),
        ("a format of formats", "{{ ('%9999d'*900)|format(1)|length }}{{ '%*d'|format(1000000000, 1) }}".into(), "a format: 5400 bytes"),
        ("a width from outside", "{{ '%*d'|format(1000000000, 1) }}{{ '{:{}}'.format(1, 1000000000) }}".into(), "a width in a format: 1000000000"),
        ("many macros", LOOPS.replace("X", "{% set x=j %}{% macro f() %}{{ x }}{% endmacro %}"), "more than 2000000"),
        ("many small lists", LOOPS.replace("X", "{% set x=[i, [j, {'a': i}]] %}"), "more than 2000000"),
        ("many products", LOOPS.replace("X", "{% set x=2.5*i*j %}"), "more than 2000000"),
        ("many filters", LOOPS.replace("X", "{% set x=i|abs|string|upper|length %}"), "gone through: "),
        ("many formats", LOOPS.replace("X", "{% set x='%s %d'|format(i, j) %}"), "gone through: "),
        ("many methods", LOOPS.replace("X", "{% set x='a b'.split()[0].upper() %}"), "gone through: "),
        ("many comparisons", LOOPS.replace("X", "{% set x=[i]==[j] and i<j %}"), "more than 2000000"),
        ("many namespaces", LOOPS.replace("X", "{% set x=namespace(a=i) %}{% set x.b=j %}"), "more than 2000000"),
        ("many calls", "{% macro f(x) %}{{ x }}{% endmacro %}".to_owned() + &LOOPS.replace("X", "{% set x=f(i) %}"), "more than 2000000"),
        ("letters of many texts", "{{ ([('a'*999999)]*999999)|select('lower')|list|length }}".into(), "gone through: "),
    ];
    cases.into_iter().map(|(name, source, expected)| Case { name, source, expected }).collect()
}
