//! As much of HTTP/1.1 as it takes.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// The most bytes of a request's head, and of its body.
const HEAD: u64 = 16 << 10;
const BODY: usize = 4 << 20;
/// How long a client may take to send its request, and to take its answer.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct Request {
    pub(crate) method: String,
    /// Without what comes behind a question mark.
    pub(crate) path: String,
    pub(crate) body: Vec<u8>,
    /// Whether the client may send another one.
    pub(crate) stays: bool,
}

/// What is refused: a status and the reason.
pub(crate) type Refusal = (u16, String);

pub(crate) struct Connection {
    stream: TcpStream,
    reader: BufReader<TcpStream>,
}

impl Connection {
    pub(crate) fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        Ok(Self { reader: BufReader::new(stream.try_clone()?), stream })
    }

    /// Reads the next request. `None`: there is none any more.
    pub(crate) fn read(&mut self) -> io::Result<Option<Result<Request, Refusal>>> {
        let mut head = (&mut self.reader).take(HEAD);
        let mut line = String::new();
        if head.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let mut words = line.split_ascii_whitespace();
        let (Some(method), Some(path), Some(version)) = (words.next(), words.next(), words.next()) else {
            return Ok(Some(Err((400, "the first line is no request of HTTP/1.1".into()))));
        };
        let path = path.split('?').next().unwrap_or_default().to_owned();
        let (method, mut stays) = (method.to_owned(), version == "HTTP/1.1");
        let (mut len, mut waits, mut chunked) = (None, false, false);
        loop {
            let mut line = String::new();
            if head.read_line(&mut line)? == 0 {
                return Ok(Some(Err((431, format!("the head has more than {HEAD} bytes, or no end")))));
            }
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            let value = value.trim();
            match &*name.to_ascii_lowercase() {
                "content-length" => len = Some(value.parse::<usize>().unwrap_or(usize::MAX)),
                "transfer-encoding" => chunked = true,
                "connection" => stays &= !value.eq_ignore_ascii_case("close"),
                "expect" => waits = value.eq_ignore_ascii_case("100-continue"),
                _ => {}
            }
        }
        let len = match len {
            _ if chunked => return Ok(Some(Err((411, "a body needs a Content-Length".into())))),
            Some(len) if len > BODY => return Ok(Some(Err((413, format!("the body has more than {BODY} bytes"))))),
            len => len.unwrap_or(0),
        };
        if waits {
            self.stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
        }
        let mut body = vec![0; len];
        self.reader.read_exact(&mut body)?;
        Ok(Some(Ok(Request { method, path, body, stays })))
    }

    /// Answers with JSON.
    pub(crate) fn answer(&mut self, status: u16, json: &serde_json::Value, stays: bool) -> io::Result<()> {
        let body = json.to_string();
        let (reason, len) = (reason(status), body.len());
        let connection = if stays { "keep-alive" } else { "close" };
        let again = if status == 429 || status == 503 { "Retry-After: 1\r\n" } else { "" };
        let head = format!(
            "HTTP/1.1 {status} {reason}\r\nContent-Type: application/json\r\nContent-Length: {len}\r\n\
            {again}Connection: {connection}\r\n\r\n"
        );
        self.stream.write_all((head + &body).as_bytes())
    }

    /// Begins an answer of events. The connection ends with it.
    pub(crate) fn begin_events(&mut self) -> io::Result<()> {
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\nConnection: close\r\n\r\n";
        self.stream.write_all(head.as_bytes())
    }

    pub(crate) fn event(&mut self, data: &str) -> io::Result<()> {
        self.stream.write_all(format!("data: {data}\n\n").as_bytes())
    }

    /// Whether the client has gone away. What it sends meanwhile stays to be read.
    pub(crate) fn is_gone(&self) -> bool {
        if !self.reader.buffer().is_empty() {
            return false;
        }
        let found = self.stream.set_nonblocking(true).and_then(|()| self.stream.peek(&mut [0]));
        let restored = self.stream.set_nonblocking(false);
        match found {
            Ok(count) => count == 0 || restored.is_err(),
            Err(error) => error.kind() != io::ErrorKind::WouldBlock || restored.is_err(),
        }
    }
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        404 => "Not Found",
        405 => "Method Not Allowed",
        411 => "Length Required",
        413 => "Content Too Large",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        503 => "Service Unavailable",
        _ => "Internal Server Error",
    }
}
