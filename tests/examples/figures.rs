//! Figures and traces of the engine's work from `generate`, `chat` and `bench`.

use std::collections::{BTreeMap, BTreeSet};

use gleed::{Limits, Model, Plan};
use serde_json::Value;

use crate::{DEMO, refused, run, run_with_input, scratch};
use common::fixtures::parse_json;

/// Tolerance in microseconds. Times are whole nanoseconds.
const ROUNDING: f64 = 1e-4;

fn json(name: &str) -> Value {
    parse_json(&std::fs::read(scratch(name)).unwrap())
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// A complete event of a trace.
#[derive(Debug)]
struct Event {
    name: String,
    kind: String,
    thread: u64,
    begin: f64,
    end: f64,
    units: Option<u64>,
    rows: Option<u64>,
}

/// Returns the events of a trace, and the names of its timelines.
fn events(trace: &Value) -> (Vec<Event>, BTreeMap<u64, String>) {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let (mut events, mut threads) = (Vec::new(), BTreeMap::new());
    for event in trace.as_array().unwrap() {
        let thread = event["tid"].as_u64().unwrap();
        assert_eq!(event["pid"], 1);
        if event["ph"] == "M" {
            assert_eq!(event["name"], "thread_name");
            threads.insert(thread, text(&event["args"]["name"]));
            continue;
        }
        assert_eq!(event["ph"], "X", "{event}");
        let (begin, took) = (number(&event["ts"]), number(&event["dur"]));
        assert!(begin >= 0.0 && took >= 0.0, "{event}");
        let (name, kind) = (text(&event["name"]), text(&event["cat"]));
        let [units, rows] = ["units", "rows"].map(|name| event["args"][name].as_u64());
        events.push(Event { name, kind, thread, begin, end: begin + took, units, rows });
    }
    (events, threads)
}

/// Checks that events of a timeline follow each other or contain each other, in the order of `kinds`.
fn assert_nested(events: &[Event], thread: u64, kinds: &[&str]) {
    let depth = |event: &Event| kinds.iter().position(|kind| *kind == event.kind).unwrap();
    let mut own: Vec<&Event> = events.iter().filter(|event| event.thread == thread).collect();
    own.sort_by(|a, b| a.begin.total_cmp(&b.begin).then(depth(a).cmp(&depth(b))));
    let mut open: Vec<&Event> = Vec::new();
    for event in own {
        let is_over = |last: &Event| last.end <= event.begin + ROUNDING;
        while let Some(last) = open.pop_if(|last| is_over(last) || depth(last) >= depth(event)) {
            assert!(is_over(last), "{last:?} {event:?}");
        }
        if let Some(outer) = open.last() {
            assert!(outer.begin <= event.begin + ROUNDING && event.end <= outer.end + ROUNDING, "{outer:?} {event:?}");
        }
        open.push(event);
    }
}

/// Returns the names of the demo model's operations, and its number of layers.
fn program() -> (BTreeSet<&'static str>, usize) {
    let model = Model::open(DEMO).unwrap();
    let plan = Plan::new(&model, &Limits { context: 64, ..Limits::default() }).unwrap();
    let mut names = BTreeSet::new();
    plan.for_each_step(&model, &mut |step| _ = names.insert(step.operation)).unwrap();
    (names, model.config().layers)
}

/// Checks a trace. Returns the phases and rows of its passes.
fn assert_trace(trace: &Value, workers: u64) -> Vec<(String, u64)> {
    let ((events, threads), (names, layers)) = (events(trace), program());
    assert_eq!(threads.keys().copied().collect::<Vec<_>>(), (0..=workers).collect::<Vec<_>>());
    assert_eq!((threads[&0].as_str(), threads[&1].as_str()), ("engine", "worker 0"));
    assert_nested(&events, 0, &["pass", "layer", "operation"]);
    (1..=workers).for_each(|worker| assert_nested(&events, worker, &["worker", "unit"]));
    assert!(events.iter().all(|event| event.thread <= workers));

    let of = |kind: &'static str| events.iter().filter(move |event| event.kind == kind);
    assert_eq!(of("layer").count(), of("pass").count() * layers);
    assert!(of("layer").all(|event| event.name.starts_with("layer ")));
    let found: BTreeSet<&str> = of("operation").map(|event| event.name.as_str()).collect();
    assert_eq!(found, names);
    // A worker's time lies within its operation's time, and all units of the operation are done.
    let mut workers_seen = 0;
    for operation in of("operation") {
        let inside =
            |event: &&Event| operation.begin <= event.begin + ROUNDING && event.end <= operation.end + ROUNDING;
        assert!(of("worker").filter(inside).all(|event| event.name == operation.name), "{operation:?}");
        workers_seen += of("worker").filter(inside).count();
        let units = of("unit").filter(inside).count() as u64;
        assert_eq!(Some(units), operation.units, "{operation:?}");
    }
    assert_eq!(workers_seen, of("worker").count());
    of("pass").map(|event| (event.name.clone(), event.rows.unwrap())).collect()
}

#[test]
fn generate_traces_what_it_computes() {
    let plain = run("generate", &["--temp", "0", "-n", "3", "Once upon a time"]).ok();
    for threads in ["1", "2"] {
        let file = scratch(&format!("generate-{threads}.trace"));
        let flags = ["--temp", "0", "-n", "3", "--threads", threads, "--trace", file.to_str().unwrap()];
        assert_eq!(run("generate", &[&flags[..], &["Once upon a time"]].concat()).ok(), plain);
        let passes = assert_trace(&json(&format!("generate-{threads}.trace")), threads.parse().unwrap());
        let [prefill, decode] = ["prefill", "decode"].map(str::to_owned);
        assert_eq!(passes, [(prefill, 5), (decode.clone(), 1), (decode, 1)]);
    }
    refused("generate", &["--trace", "/nowhere/at/all", "Once"], "/nowhere/at/all: ");
}

#[test]
fn chat_and_bench_trace_too() {
    let path = |name: &str| scratch(name).to_str().unwrap().to_owned();
    let flags = ["--temp", "0", "-n", "2", "--trace", &path("chat.trace")];
    run_with_input("chat", &flags, b"Once upon a time\nThe end.\n").ok();
    let passes = assert_trace(&json("chat.trace"), 1);
    assert_eq!(passes.iter().filter(|(phase, _)| phase == "prefill").count(), 2);
    let flags = ["--prompt", "20", "--gen", "6", "--repeat", "1", "--threads", "1,2", "--trace", &path("bench.trace")];
    run("bench", &[&flags[..], &["--json", &path("figures.json")]].concat()).ok();
    let passes = assert_trace(&json("bench.trace"), 2);
    assert_eq!((passes.len(), passes[0].1), (5, 20));
    let bench = json("figures.json");
    let (prefill, decode) = (&bench["runs"][0]["prefill"]["metrics"], &bench["runs"][0]["decode"]["metrics"]);
    assert_eq!((&prefill["prefill"]["rows"], &decode["decode"]["count"]), (&20.into(), &6.into()));
    assert_eq!((&decode["decode_tokens"], &decode["prefill"]["count"]), (&6.into(), &0.into()));
    let ms = &decode["decode"]["ms"];
    assert!(number(&ms["min"]) > 0.0 && number(&ms["min"]) <= number(&ms["p50"]), "{decode}");
    assert!(number(&ms["p50"]) <= number(&ms["p99"]) && number(&ms["p99"]) <= number(&ms["max"]), "{decode}");
}

#[test]
fn figures_of_a_text_and_of_turns() {
    let file = scratch("figures-of-a-text.json");
    let flags = ["--temp", "0", "-n", "4", "--json", file.to_str().unwrap(), "Once upon a time"];
    let out = run("generate", &flags);
    assert!(out.err.contains("\nengine: 3 decode passes of 3 rows, p50 "), "{}", out.err);
    let metrics = &json("figures-of-a-text.json")["metrics"];
    assert_eq!((&metrics["prefill"]["rows"], &metrics["decode"]["count"]), (&5.into(), &3.into()));
    assert!(number(&metrics["tokens_s"]) > 0.0 && metrics["first_token_ms"]["count"] == 1, "{metrics}");

    // The second turn reads only its own tokens.
    let flags = ["--temp", "0", "-n", "3", "--metrics", "--template", "none"];
    let out = run_with_input("chat", &flags, b"Once upon a time\nmore\n/regenerate\n").ok();
    let figures: Vec<Vec<u64>> = out
        .lines()
        .filter(|line| line.starts_with("[first token ") && line.ends_with(" saved]"))
        .map(|line| {
            let parts: Vec<&str> = line.split(", ").collect();
            assert!(parts[0].ends_with(" ms") && parts[1].ends_with(" tokens/s"), "{line}");
            [parts[2], parts[3]].map(|part| part.split(' ').next().unwrap().parse().unwrap()).to_vec()
        })
        .collect();
    assert_eq!(figures.len(), 3, "{out}");
    assert_eq!(figures[0], [5, 0]);
    assert!(figures[1][0] < 10 && figures[1][1] >= 7, "{out}");
    // Logits are not kept, so one token is read again. The rest of the conversation is kept.
    assert_eq!(figures[2][0] + figures[2][1], figures[1][0] + figures[1][1]);
    let quiet = run_with_input("chat", &["--temp", "0", "-n", "3"], b"Once upon a time\n").ok();
    assert!(!quiet.contains("first token"), "{quiet}");
}
