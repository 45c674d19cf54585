//! Requests to `serve` that its other tests do not send.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{CHAT, Server, TEXT};
use crate::{DEMO, refused, scratch_with};

impl Server {
    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream
    }

    /// Sends bytes, and returns everything that comes back until the connection ends.
    fn raw(&self, bytes: &[u8]) -> String {
        let (mut stream, mut answer) = (self.connect(), String::new());
        stream.write_all(bytes).unwrap();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }
}

fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or(answer)
}

#[test]
fn serve_turns_away_who_has_no_place() {
    let server = Server::start(&["--connections", "2"]);
    let held = [server.connect(), server.connect()];
    // These clients send nothing, and may keep their connections.
    let turned: Vec<TcpStream> = (0..20)
        .map(|_| {
            let (mut stream, mut answer) = (server.connect(), String::new());
            stream.read_to_string(&mut answer).unwrap();
            assert!(answer.starts_with("HTTP/1.1 503 ") && answer.contains("Connection: close\r\n"), "{answer}");
            assert!(answer.contains("2 connections are open, which is the limit"), "{answer}");
            stream
        })
        .collect();
    #[cfg(target_os = "linux")]
    {
        let threads = std::fs::read_dir(format!("/proc/{}/task", server.child.id())).unwrap().count();
        // The main thread, the listening one, the one that refuses clients, and two for clients.
        assert!(threads <= 5, "{threads} threads");
    }
    drop((held, turned));
    let until = Instant::now() + Duration::from_secs(25);
    while server.ask("GET", "/v1/models", "").0 != 200 {
        assert!(Instant::now() < until, "no place is free");
    }
}

#[test]
fn serve_takes_large_limits() {
    let most = usize::MAX.to_string();
    let server = Server::start(&["--queue", &most, "--connections", &most, "--sequences", "257", "--context", "32"]);
    let answer = server.post(TEXT, &json!({"prompt": "Once upon a time", "max_tokens": 3}));
    assert_eq!(answer["usage"]["completion_tokens"], 3);
    refused("serve", &["--sequences", "1025"], "--sequences is 1025, it must be 1 to 1024");
}

/// Requests whose end another server might see at another place are refused.
#[test]
fn serve_refuses_ambiguous_requests() {
    let server = Server::start(&[]);
    let refused = |wanted: &str, head: &str| {
        let hidden = "GET /v1/models HTTP/1.1\r\n\r\n";
        let answer = server.raw(format!("{head}\r\n\r\n{hidden}").as_bytes());
        assert!(status(&answer) == wanted && answer.contains("Connection: close\r\n"), "{head:?}: {answer}");
        assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{head:?}: {answer}");
    };
    let post = |line: &str| format!("POST {TEXT} HTTP/1.1\r\nHost: x\r\n{line}");
    for line in ["nothing", "X: y\r\n folded", "X : y", ": y", "X: y\rContent-Length: 1"] {
        refused("400", &post(line));
    }
    for len in ["+5", "-5", "5, 5", "0x5", "", "5 5", "five"] {
        refused("400", &post(&format!("Content-Length: {len}")));
    }
    refused("400", &post("Content-Length: 5\r\nContent-Length: 6"));
    refused("400", &post("Content-Length: 5\r\nTransfer-Encoding: chunked"));
    refused("413", &post("Content-Length: 99999999999999999999999"));
    refused("501", &post("Transfer-Encoding: gzip, chunked"));
    refused("501", &post("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked"));
    refused("400", &format!("POST {TEXT}"));
    refused("400", &format!("POST {TEXT} HTTP/2.0"));
    for chunk in ["+2\r\n{}", "", "x", "2\r\n{}}", "fffffffffffffffff"] {
        refused("400", &post(&format!("Transfer-Encoding: chunked\r\n\r\n{chunk}")));
    }
    refused("413", &post("Transfer-Encoding: chunked\r\n\r\nffffffff"));
    let head = [b"GET /v1/models HTTP/1.1\r\nX: \xff\r\n\r\n".as_slice(), b"GET / HTTP/1.1\r\n\r\n"].concat();
    assert_eq!(status(&server.raw(&head)), "400");
    refused("431", &post(&format!("X: {}", "y".repeat(16 << 10))));
    // A client that sends too much sees the reason.
    let len = 24 << 20;
    let (status, answer) = server.ask("POST", TEXT, &" ".repeat(len));
    assert!(status == 413 && answer.contains("more than 4194304 bytes"), "{answer}");
}

#[test]
fn serve_takes_what_http_allows() {
    let server = Server::start(&[]);
    // Several requests on one connection. The list in the header decides, in any case of letters.
    let get = |lines: &str| format!("GET /v1/models HTTP/1.1\r\nHost: x\r\n{lines}\r\n");
    let both = format!("\r\n{}\r\n{}", get("Connection: TE\r\nTE: trailers\r\n"), get("connection: TE, Close\r\n"));
    let answer = server.raw(format!("{both}{}", get("")).as_bytes());
    assert_eq!(answer.matches("HTTP/1.1 200 OK").count(), 2, "{answer}");
    assert_eq!(answer.matches("Connection: close").count(), 1, "{answer}");
    // An answer to HEAD states the length of the body that it leaves out.
    let ask = |method: &str, path: &str| {
        let head = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n\r\n");
        let answer = server.raw(head.as_bytes());
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let len = head.split("Content-Length: ").nth(1).and_then(|rest| rest.lines().next()).unwrap().to_owned();
        (status(head).to_owned(), len, body.to_owned(), head.to_owned())
    };
    for path in ["/v1/models", "/v1/models/gleed%2Dt%61les", "/v1/models/gleed-tales%", TEXT, "/v1"] {
        let head = ask("HEAD", path);
        assert_eq!(head.2, "", "{path}");
        let get = ask("GET", path);
        assert_eq!(get.0, head.0);
        assert!(path == TEXT || get.1 == head.1, "{path}");
        assert_eq!(get.1, get.2.len().to_string());
    }
    assert_eq!(ask("GET", "/v1/models/gleed%2Dt%61les").0, "200");
    assert_eq!(ask("GET", "/v1/models/gleed-tales%").0, "404");
    for (method, path, allowed) in
        [("GET", TEXT, "POST"), ("PUT", CHAT, "POST"), ("POST", "/v1/models/gleed-tales", "GET, HEAD")]
    {
        let (status, _, _, head) = ask(method, path);
        assert!(status == "405" && head.contains(&format!("\r\nAllow: {allowed}\r\n")), "{head}");
    }
    // A body in chunks.
    let body = json!({"prompt": "Once upon a time", "max_tokens": 5}).to_string();
    let (first, second) = body.split_at(20);
    let chunks = format!(
        "14;name=x\r\n{first}\r\n{:X}\r\n{second}\r\n0\r\nX-Sum: 1\r\n\r\n{}",
        second.len(),
        get("Connection: close\r\n")
    );
    let answer = server.raw(format!("POST {TEXT} HTTP/1.1\r\nTransfer-Encoding: Chunked\r\n\r\n{chunks}").as_bytes());
    assert_eq!(answer.matches("HTTP/1.1 200 OK").count(), 2, "{answer}");
    let whole = server.post(TEXT, &serde_json::from_str(&body).unwrap());
    assert!(answer.contains(&whole["choices"][0]["text"].to_string()), "{answer}");
    // A client that ends in the middle of a head gets an answer.
    let (mut stream, mut answer) = (server.connect(), String::new());
    stream.write_all(b"GET / HTTP/1.1\r\nHost").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    stream.read_to_string(&mut answer).unwrap();
    assert_eq!(status(&answer), "400");
}

#[test]
fn serve_names_members_of_wrong_types() {
    let server = Server::start(&[]);
    let words = |path: &str, name: &str, value: Value, words: &str| {
        let mut body = json!({"messages": [{"role": "user", "content": "a"}], "prompt": "a", "max_tokens": 1});
        body[name] = value;
        let message = server.refused(400, path, &body.to_string())["message"].clone();
        assert_eq!(message, words);
    };
    words(TEXT, "stream", "yes".into(), "stream is \"yes\", it must be true or false");
    words(CHAT, "stream", 1.into(), "stream is 1, it must be true or false");
    words(CHAT, "stream_options", true.into(), "stream_options is true, it must be an object");
    let options = json!({"include_usage": 1});
    words(CHAT, "stream_options", options, "stream_options.include_usage is 1, it must be true or false");
    words(CHAT, "parallel_tool_calls", "no".into(), "parallel_tool_calls is \"no\", it must be true or false");
    words(CHAT, "tools", json!({"type": "function"}), "tools is an object, it must be a list");
    words(CHAT, "response_format", "json".into(), "response_format is \"json\", it must be an object");
    words(TEXT, "temperature", "9".repeat(99).into(), "temperature is a text, it must be a number");
    words(TEXT, "n", json!([1]), "n is a list, it must be 1");
    for value in [json!(-1), json!(0), json!(1.5)] {
        let wrong = format!("max_tokens is {value}, it must be a whole number from 1 on");
        words(TEXT, "max_tokens", value, &wrong);
    }
    words(TEXT, "seed", (-1).into(), "seed is -1, it must be a whole number from 0 on");
    words(CHAT, "messages", json!(["a"]), "messages[0] is \"a\", it must be an object");
    let message = json!([{"role": "assistant", "content": "a", "tool_calls": "b"}]);
    words(CHAT, "messages", message, "messages[0].tool_calls is \"b\", it must be a list");
    let message = json!([{"role": "tool", "content": "a", "tool_call_id": 1}]);
    words(CHAT, "messages", message, "messages[0].tool_call_id is 1, it must be a text");
    words(CHAT, "messages", json!([{"role": "user", "content": null}]), "messages[0].content must be a text");
    // Clients send back the message that they got, and it may have no text.
    for calls in [Value::Null, json!([])] {
        let silent = json!({"role": "assistant", "content": null, "tool_calls": calls});
        let ask = json!({"messages": [{"role": "user", "content": "Once"}, silent], "max_tokens": 1});
        assert_eq!(server.post(CHAT, &ask)["usage"]["completion_tokens"], 1);
    }
}

/// Returns the demo model as an encoder. It has two more entries, which together keep the alignment of the data behind
/// them.
fn encoder() -> Vec<u8> {
    const COUNT: std::ops::Range<usize> = 16..24;
    let text = |text: &str| [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat();
    let causal = [text("llama.attention.causal"), 7_u32.to_le_bytes().to_vec(), vec![0]].concat();
    let note = [text("general.note"), 8_u32.to_le_bytes().to_vec(), text(&" ".repeat(29))].concat();
    let mut file = DEMO.to_vec();
    let count = u64::from_le_bytes(file[COUNT].try_into().unwrap()) + 2;
    file.splice(COUNT, [&count.to_le_bytes(), &*causal, &*note].concat());
    file
}

#[test]
fn serve_takes_no_encoder() {
    let model = scratch_with("serve-encoder.gguf", &encoder());
    refused("serve", &["--model", &model], "the model is an encoder: it makes vectors of texts and predicts no tokens");
}
