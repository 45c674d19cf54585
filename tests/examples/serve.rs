//! `serve`: a server on a free port, and simple clients of its HTTP.

#[path = "serve_http.rs"]
mod http;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Child;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::chat::chain;
use crate::{greedy_story, run, scratch_with, start};

/// A server that ends with the test.
struct Server {
    child: Child,
    address: String,
}

impl Server {
    fn start(flags: &[&str]) -> Self {
        let mut child = start("serve", &[&["--port", "0"], flags].concat());
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on http://").unwrap_or_else(|| panic!("{line}")).to_owned();
        Self { child, address }
    }

    /// Sends a request. The caller reads the answer.
    fn send(&self, method: &str, path: &str, body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
        let len = body.len();
        let head = format!("{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len}\r\nConnection: close\r\n\r\n");
        stream.write_all((head + body).as_bytes()).unwrap();
        stream
    }

    /// Sends a request. Returns the status and the body of the answer.
    fn ask(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        let mut answer = String::new();
        self.send(method, path, body).read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    fn post(&self, path: &str, body: &Value) -> Value {
        let (status, answer) = self.ask("POST", path, &body.to_string());
        assert_eq!(status, 200, "{answer}");
        serde_json::from_str(&answer).unwrap()
    }

    /// Returns the events of an answer, and checks that the answer is complete.
    fn events(&self, path: &str, body: &Value) -> Vec<Value> {
        let (status, answer) = self.ask("POST", path, &body.to_string());
        assert_eq!(status, 200, "{answer}");
        let mut events: Vec<&str> = answer
            .split("\n\n")
            .filter(|event| !event.is_empty())
            .map(|event| event.strip_prefix("data: ").unwrap())
            .collect();
        assert_eq!(events.pop(), Some("[DONE]"));
        events.into_iter().map(|event| serde_json::from_str(event).unwrap()).collect()
    }

    /// Checks that a request is refused, and returns the error.
    fn refused(&self, status: u16, path: &str, body: &str) -> Value {
        let (found, answer) = self.ask("POST", path, body);
        assert_eq!(found, status, "{answer}");
        serde_json::from_str::<Value>(&answer).unwrap()["error"].clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().and_then(|()| self.child.wait()).unwrap();
    }
}

const TEXT: &str = "/v1/completions";
const CHAT: &str = "/v1/chat/completions";

#[test]
fn serve_gives_the_text_of_generate() {
    let server = Server::start(&["--sequences", "2"]);
    let told = |flags: &[&str]| {
        let text = run("generate", &[&["-n", "40", "Once upon a time"], flags].concat()).ok();
        text.strip_suffix('\n').unwrap().to_owned()
    };
    for (flags, temperature) in [(["--temp", "0", "--seed", "0"], 0.0), (["--temp", "0.8", "--seed", "3"], 0.8)] {
        let seed: u64 = flags[3].parse().unwrap();
        let ask = json!({"prompt": "Once upon a time", "max_tokens": 40, "temperature": temperature, "seed": seed,
            "stream_options": {"include_usage": true}});
        let whole = server.post(TEXT, &ask);
        assert_eq!(whole["choices"][0]["text"], told(&flags));
        assert_eq!(whole["choices"][0]["finish_reason"], "length");
        assert_eq!(whole["usage"]["prompt_tokens"], 5);
        assert_eq!(whole["usage"]["completion_tokens"], 40);

        let mut events = ask.clone();
        events["stream"] = true.into();
        let mut events = server.events(TEXT, &events);
        assert_eq!(events.pop().unwrap()["usage"]["total_tokens"], 45);
        assert_eq!(events.last().unwrap()["choices"][0]["finish_reason"], "length");
        let text: String = events.iter().map(|event| event["choices"][0]["text"].as_str().unwrap()).collect();
        assert!(text == told(&flags) && events.len() > 20, "{text}");
    }
    // A prompt of tokens, a stop string, and the chat of a model without turns.
    let plain = json!({"prompt": [1, 414, 435, 261, 385], "max_tokens": 40, "temperature": 0});
    let text = server.post(TEXT, &plain)["choices"][0]["text"].as_str().unwrap().to_owned();
    assert_eq!(text, told(&["--temp", "0"]));
    let mut stopped = plain.clone();
    stopped["stop"] = json!(["zebra", "girl"]);
    let stopped = server.post(TEXT, &stopped);
    assert_eq!(stopped["choices"][0]["text"], text[..text.find("girl").unwrap()]);
    assert_eq!(stopped["choices"][0]["finish_reason"], "stop");
    // The first token of the text comes always, or never.
    let first = greedy_story("Once upon a time", 2).1[0].to_string();
    let mut biased = plain.clone();
    biased["logit_bias"] = json!({ &*first: 100 });
    let always = server.post(TEXT, &biased)["choices"][0]["text"].as_str().unwrap().to_owned();
    let piece = &always[..always.len() / 40];
    assert!(text.starts_with(piece) && always == piece.repeat(40), "{always}");
    biased["logit_bias"] = json!({ &*first: -100 });
    assert_ne!(server.post(TEXT, &biased)["choices"][0]["text"], text);
    let chat =
        json!({"messages": [{"role": "user", "content": "Once upon a time"}], "max_tokens": 40, "temperature": 0});
    assert_eq!(server.post(CHAT, &chat)["choices"][0]["message"]["content"], text);
    let (status, models) = server.ask("GET", "/v1/models", "");
    assert_eq!(
        (status, &serde_json::from_str::<Value>(&models).unwrap()["data"][0]["id"]),
        (200, &json!("gleed-tales"))
    );
}

/// The bits do not depend on the batch or on earlier requests.
#[test]
fn clients_of_serve_do_not_change_each_other() {
    let server = Server::start(&["--sequences", "3", "--threads", "2"]);
    let opening = "Once upon a time there was a little girl named Lily. She had a red ball and a brown dog. ";
    let asks: Vec<Value> = ["One day", "The dog", "Her mom", "It was", "They"]
        .iter()
        .zip(1_u64..)
        .map(|(text, seed)| json!({"prompt": format!("{opening}{text}"), "max_tokens": 60, "temperature": 0.9, "seed": seed}))
        .collect();
    let text = |answer: Value| answer["choices"][0]["text"].as_str().unwrap().to_owned();
    let alone: Vec<String> = asks.iter().map(|ask| text(server.post(TEXT, ask))).collect();
    let together: Vec<Value> = std::thread::scope(|scope| {
        let clients: Vec<_> = asks.iter().map(|ask| scope.spawn(|| server.post(TEXT, ask))).collect();
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    });
    // The common beginning is computed only once.
    assert!(
        together.iter().all(|answer| answer["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64() >= Some(16))
    );
    assert_eq!(together.into_iter().map(text).collect::<Vec<_>>(), alone);
}

#[test]
fn serve_says_what_is_wrong() {
    let server = Server::start(&["--context", "64"]);
    let words = |path: &str, body: &str, words: &str| {
        let error = server.refused(400, path, body);
        assert!(error["message"].as_str().unwrap().contains(words), "{error}");
        assert_eq!(error["type"], "invalid_request_error");
        error["code"].as_str().unwrap().to_owned()
    };
    words(TEXT, "{\"prompt\": ", "the body is no JSON: EOF");
    words(TEXT, "[]", "the body must be a JSON object");
    words(TEXT, "{}", "prompt is missing");
    words(TEXT, r#"{"prompt": ""}"#, "the prompt is empty");
    words(TEXT, r#"{"prompt": [99999]}"#, "99999");
    words(TEXT, r#"{"prompt": "a", "n": 2}"#, "n is 2, it must be 1");
    words(TEXT, r#"{"prompt": "a", "max_tokens": 0}"#, "max_tokens is 0, it must be a whole number from 1 on");
    words(TEXT, r#"{"prompt": "a", "temperature": "hot"}"#, "temperature is \"hot\", it must be a number");
    words(TEXT, r#"{"prompt": "a", "temperature": -1}"#, "temperature");
    words(TEXT, r#"{"prompt": "a", "stop": [""]}"#, "stop: stop string 0 has 0 bytes");
    words(TEXT, r#"{"prompt": "a", "logprobs": 3}"#, "logprobs is not supported");
    words(TEXT, r#"{"prompt": "a", "logit_bias": {"dog": -1}}"#, "logit_bias: \"dog\" is no token");
    words(TEXT, r#"{"prompt": "a", "logit_bias": {"99999": -1}}"#, "logit_bias: the token is 99999, it must be 0 to");
    words(CHAT, r#"{"messages": []}"#, "messages must be a list");
    words(CHAT, r#"{"messages": [{"role": "user"}]}"#, "messages[0].content must be a text");
    words(CHAT, r#"{"messages": [{"role": "king", "content": "a"}]}"#, "messages[0].role must be");
    let tools = r#"{"messages": [{"role": "user", "content": "a"}], "tools": [{"name": "dice"}]}"#;
    words(CHAT, tools, "offers no tools");
    let none = r#"{"messages": [{"role": "user", "content": "a"}], "tool_choice": "required"}"#;
    words(CHAT, none, "tool_choice asks for a call, but there are no tools");
    let schema = |schema: &str| {
        format!(
            r#"{{"prompt": "a", "response_format": {{"type": "json_schema", "json_schema": {{"schema": {schema}}}}}}}"#
        )
    };
    words(TEXT, &schema(r#"{"not": {}}"#), "response_format: not at byte 1 is not supported");
    words(TEXT, r#"{"prompt": "a", "response_format": {"type": "xml"}}"#, "response_format.type must be");
    let long = json!({"prompt": "a dog ".repeat(100)}).to_string();
    assert_eq!(words(TEXT, &long, "the context is 64"), "context_length_exceeded");

    assert_eq!(server.refused(404, "/v1/images", "{}")["message"], "there is no /v1/images");
    assert_eq!(server.ask("GET", TEXT, "").0, 405);
    assert_eq!(server.ask("BREW", "/", "").0, 404);
    // After all of this the server still works.
    assert_eq!(server.ask("GET", "/v1/models/gleed-tales", "").0, 200);
    assert_eq!(server.ask("GET", "/v1/models/other", "").0, 404);
    let answer = server.post(TEXT, &json!({"prompt": "Once upon a time", "max_tokens": 100}));
    assert_eq!(answer["usage"]["total_tokens"], 64);
}

#[test]
fn a_client_that_goes_away_frees_its_sequence() {
    // Without a cache, and with a text that must be long, an answer takes minutes.
    let server = Server::start(&["--sequences", "1", "--queue", "0", "--kv", "off", "--context", "4096"]);
    let endless = json!({"prompt": "Once", "stream": true, "response_format":
        {"type": "json_schema", "json_schema": {"schema": {"type": "string", "minLength": 4000}}}});
    let short = json!({"prompt": "Once upon a time", "max_tokens": 5}).to_string();
    for reads in [true, false] {
        let mut body = endless.clone();
        body["stream"] = reads.into();
        let mut client = server.send("POST", TEXT, &body.to_string());
        let begun = Instant::now();
        if reads {
            client.read_exact(&mut [0; 200]).unwrap();
        }
        while server.ask("POST", TEXT, &short).0 != 429 {
            assert!(!reads && begun.elapsed() < Duration::from_secs(60), "the endless text has ended");
            // The short request came first.
            client = server.send("POST", TEXT, &body.to_string());
            std::thread::sleep(Duration::from_millis(100));
        }
        assert_eq!(server.refused(429, TEXT, &short)["type"], "rate_limit_error");
        drop(client);
        let left = Instant::now();
        while server.ask("POST", TEXT, &short).0 != 200 {
            assert!(left.elapsed() < Duration::from_secs(60), "the sequence is not free");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

#[test]
fn serve_limits_its_connections() {
    let server = Server::start(&["--connections", "1"]);
    let held = TcpStream::connect(&server.address).unwrap();
    let (until, mut status) = (Instant::now() + Duration::from_secs(25), 0);
    while status != 503 && Instant::now() < until {
        status = server.ask("GET", "/v1/models", "").0;
    }
    assert_eq!(status, 503);
    drop(held);
    while status != 200 && Instant::now() < until {
        status = server.ask("GET", "/v1/models", "").0;
    }
    assert_eq!(status, 200);
}

#[test]
fn serve_follows_schemas() {
    let server = Server::start(&[]);
    let schema = json!({"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
        "required": ["name", "age"], "additionalProperties": false});
    for stream in [false, true] {
        let ask = json!({"messages": [{"role": "user", "content": "Who is there?"}], "max_tokens": 60, "stream": stream,
            "response_format": {"type": "json_schema", "json_schema": {"name": "who", "schema": schema}}});
        let text: String = match stream {
            false => server.post(CHAT, &ask)["choices"][0]["message"]["content"].as_str().unwrap().to_owned(),
            true => server
                .events(CHAT, &ask)
                .iter()
                .filter_map(|event| event["choices"][0]["delta"]["content"].as_str())
                .collect(),
        };
        let value: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
        assert!(value["name"].is_string() && value["age"].is_i64(), "{text}");
    }
}

#[test]
fn serve_calls_tools() {
    let call = r#"{"name": "dice", "arguments": {"count": 2, "sides": 6}}"#;
    let model = chain(&["<0x0A>", "Hm. ", "<tool_call>", call, "</tool_call>", "<|im_end|>"]);
    let model = scratch_with("serve-calls.gguf", &model);
    let server = Server::start(&["--model", &model, "--template", "qwen3", "--temp", "0"]);
    let tools = json!([{"type": "function", "function": {"name": "dice", "parameters": {"type": "object", "properties":
        {"count": {"enum": [2]}, "sides": {"enum": [6]}}, "required": ["count", "sides"]}}}]);
    let ask = json!({"messages": [{"role": "user", "content": "Roll."}], "tools": tools, "max_tokens": 100,
        "parallel_tool_calls": false});
    let answer = server.post(CHAT, &ask);
    let choice = &answer["choices"][0];
    assert_eq!(
        (&choice["finish_reason"], &choice["message"]["content"]),
        (&json!("tool_calls"), &json!("Hm. ")),
        "{answer}"
    );
    let called = &choice["message"]["tool_calls"][0];
    assert_eq!(called["function"]["name"], "dice");
    let arguments: Value = serde_json::from_str(called["function"]["arguments"].as_str().unwrap()).unwrap();
    assert_eq!(arguments, json!({"count": 2, "sides": 6}));

    let mut events = ask.clone();
    events["stream"] = true.into();
    let events = server.events(CHAT, &events);
    let calls: Vec<&Value> =
        events.iter().filter_map(|event| event["choices"][0]["delta"]["tool_calls"].get(0)).collect();
    assert_eq!((calls.len(), &calls[0]["function"], &calls[0]["index"]), (1, &called["function"], &json!(0)));

    // The result becomes a turn of the conversation. A result of an unknown call and a choice of an unknown tool are
    // refused.
    let mut next = ask.clone();
    let messages = next["messages"].as_array_mut().unwrap();
    messages.push(choice["message"].clone());
    messages.push(json!({"role": "tool", "tool_call_id": called["id"], "content": "3, 4"}));
    let more = server.post(CHAT, &next);
    assert!(more["usage"]["prompt_tokens"].as_u64() > answer["usage"]["prompt_tokens"].as_u64(), "{more}");
    next["messages"][2]["tool_call_id"] = "other".into();
    let error = server.refused(400, CHAT, &next.to_string());
    assert_eq!(error["message"], "messages[2].tool_call_id is of no call before it");
    let mut named = ask.clone();
    named["tool_choice"] = json!({"type": "function", "function": {"name": "cards"}});
    let error = server.refused(400, CHAT, &named.to_string());
    assert!(error["message"].as_str().unwrap().starts_with("tools: "), "{error}");
    // Of several tools, only the allowed ones are offered.
    let mut some = ask.clone();
    some["tools"].as_array_mut().unwrap().push(json!({"type": "function", "function": {"name": "cards"}}));
    let allowed = |name: &str| {
        let tools = json!([{"type": "function", "function": {"name": name}}]);
        json!({"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": tools}})
    };
    some["tool_choice"] = allowed("dice");
    let chosen = server.post(CHAT, &some);
    assert_eq!(chosen["choices"][0]["message"]["tool_calls"][0]["function"], called["function"], "{chosen}");
    assert_eq!(chosen["usage"]["prompt_tokens"], answer["usage"]["prompt_tokens"]);
    some["tool_choice"] = allowed("chess");
    let error = server.refused(400, CHAT, &some.to_string());
    assert_eq!(error["message"], "tool_choice.allowed_tools.tools: no tool has the name chess");
    // If a tool must be called, the call is complete in an answer of few tokens, even if the model has not begun it.
    let slow = chain(&["<0x0A>", "Hm. ", "Hm. ", "Hm. ", "Hm. "]);
    let slow =
        Server::start(&["--model", &scratch_with("serve-slow.gguf", &slow), "--template", "qwen3", "--temp", "0"]);
    let mut hurried = ask.clone();
    hurried["tool_choice"] = "required".into();
    for stream in [false, true] {
        hurried["stream"] = stream.into();
        let function = match stream {
            false => {
                let answer = slow.post(CHAT, &hurried);
                assert_eq!(answer["choices"][0]["finish_reason"], "tool_calls", "{answer}");
                answer["choices"][0]["message"]["tool_calls"][0]["function"].clone()
            }
            true => {
                let events = slow.events(CHAT, &hurried);
                let mut calls = events.iter().map(|event| &event["choices"][0]["delta"]["tool_calls"][0]["function"]);
                calls.find(|function| function.is_object()).unwrap().clone()
            }
        };
        let arguments: Value = serde_json::from_str(function["arguments"].as_str().unwrap()).unwrap();
        assert_eq!((&function["name"], arguments), (&json!("dice"), json!({"count": 2, "sides": 6})));
    }
    // If no tool may be called, none is offered, and everything that the model writes is text.
    let mut none = ask;
    none["tool_choice"] = "none".into();
    let answer = server.post(CHAT, &none);
    assert!(
        answer["choices"][0]["message"]["tool_calls"].is_null() && answer["choices"][0]["finish_reason"] == "stop",
        "{answer}"
    );
}
