//! The part of HTTP/1.1 that the server needs.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::head::{Body, Head};

/// Most bytes of a request's head. `BODY` is the most bytes of its body.
const HEAD: u64 = 16 << 10;
pub(crate) const BODY: usize = 4 << 20;
/// Most bytes of a line between chunks. `TRAILERS` is the most lines after the last chunk.
const LINE: u64 = 4 << 10;
const TRAILERS: usize = 16;
/// Time that a client has to begin a request, to send all of it, and to take a part of its answer, each.
const PATIENCE: Duration = Duration::from_secs(30);
/// Most bytes that are read and dropped from a refused client.
const DROPPED: u64 = 64 << 20;

pub(crate) struct Request {
    pub(crate) method: String,
    /// Path without the query after a question mark.
    pub(crate) path: String,
    pub(crate) body: Vec<u8>,
    /// Whether the client may send another request.
    pub(crate) stays: bool,
}

/// Why there is no request.
pub(crate) enum Fault {
    Broken(io::Error),
    /// A status and the reason.
    Refused(u16, String),
}

impl Fault {
    pub(crate) fn bad(words: &str) -> Self {
        Self::Refused(400, words.to_owned())
    }

    pub(crate) fn too_large() -> Self {
        Self::Refused(413, format!("the body has more than {BODY} bytes"))
    }
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Self::Broken(error)
    }
}

/// A stream with a deadline for all reads together, however few bytes each read gets.
struct Timed {
    stream: TcpStream,
    until: Instant,
}

impl Read for Timed {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(Some(left))?;
        self.stream.read(bytes)
    }
}

pub(crate) struct Connection {
    reader: BufReader<Timed>,
    /// Whether the method is HEAD, so that the answer has no body.
    wants_head: bool,
}

impl Connection {
    pub(crate) fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        Ok(Self { reader: BufReader::new(Timed { stream, until: Instant::now() }), wants_head: false })
    }

    fn stream(&self) -> &TcpStream {
        &self.reader.get_ref().stream
    }

    fn wait(&mut self, patience: Duration) {
        self.reader.get_mut().until = Instant::now() + patience;
    }

    /// Reads the next request. Returns `None` if the client has closed the connection.
    pub(crate) fn read(&mut self) -> Result<Option<Request>, Fault> {
        self.wants_head = false;
        self.wait(PATIENCE);
        if self.reader.fill_buf()?.is_empty() {
            return Ok(None);
        }
        self.wait(PATIENCE);
        let Head { method, path, stays, waits, body } = Head::parse(&self.head()?)?;
        self.wants_head = method == "HEAD";
        if waits && body != Body::Len(0) {
            self.stream().write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
        }
        let body = match body {
            Body::Len(len) => self.bytes(len)?,
            Body::Chunks => self.chunks()?,
        };
        Ok(Some(Request { method, path, body, stays }))
    }

    /// Reads a head, without the empty lines before it and the one after it.
    fn head(&mut self) -> Result<String, Fault> {
        let (mut rest, mut head) = ((&mut self.reader).take(HEAD), Vec::new());
        loop {
            let start = head.len();
            rest.read_until(b'\n', &mut head)?;
            match head.get(start..) {
                Some(b"\r\n" | b"\n") => {
                    head.truncate(start);
                    if start > 0 {
                        break;
                    }
                }
                Some([.., b'\n']) => {}
                _ if rest.limit() == 0 => {
                    return Err(Fault::Refused(431, format!("the head has more than {HEAD} bytes")));
                }
                _ => return Err(Fault::bad("the head has no end")),
            }
        }
        String::from_utf8(head).map_err(|_| Fault::bad("the head is no UTF-8"))
    }

    fn bytes(&mut self, len: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; len];
        self.reader.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    /// Reads a body in chunks. Each chunk follows a line with its length, and the last one is empty.
    fn chunks(&mut self) -> Result<Vec<u8>, Fault> {
        let mut body = Vec::new();
        loop {
            let line = self.line()?;
            let digits = line.split(';').next().unwrap_or_default().trim_end();
            // Check the digits, because `from_str_radix` would accept a sign.
            let len = Some(digits).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
            let len = len.and_then(|digits| usize::from_str_radix(digits, 16).ok());
            match len.ok_or_else(|| Fault::bad("the length of a chunk is no hexadecimal number"))? {
                0 => break,
                len if len > BODY - body.len() => return Err(Fault::too_large()),
                len => body.append(&mut self.bytes(len)?),
            }
            if !self.line()?.is_empty() {
                return Err(Fault::bad("a chunk is longer than it says"));
            }
        }
        for _ in 0..TRAILERS {
            if self.line()?.is_empty() {
                return Ok(body);
            }
        }
        Err(Fault::Refused(431, format!("there are {TRAILERS} lines behind the body")))
    }

    /// Reads a line between chunks, without its end.
    fn line(&mut self) -> Result<String, Fault> {
        let mut line = Vec::new();
        (&mut self.reader).take(LINE).read_until(b'\n', &mut line)?;
        let line = line.strip_suffix(b"\n").ok_or_else(|| Fault::bad("a line between chunks has no end"))?;
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        String::from_utf8(line.to_vec()).map_err(|_| Fault::bad("a line between chunks is no UTF-8"))
    }

    /// Answers with JSON.
    pub(crate) fn answer(&mut self, status: u16, json: &Value, stays: bool) -> io::Result<()> {
        self.answer_with("", status, json, stays)
    }

    /// Answers with JSON and additional lines in the head, each with its line end.
    pub(crate) fn answer_with(&mut self, lines: &str, status: u16, json: &Value, stays: bool) -> io::Result<()> {
        let body = json.to_string();
        let (reason, len) = (reason(status), body.len());
        let connection = if stays { "keep-alive" } else { "close" };
        let again = if status == 429 || status == 503 { "Retry-After: 1\r\n" } else { "" };
        let head = format!(
            "HTTP/1.1 {status} {reason}\r\nContent-Type: application/json\r\nContent-Length: {len}\r\n\
            {again}{lines}Connection: {connection}\r\n\r\n"
        );
        let body = if self.wants_head { "" } else { &*body };
        self.stream().write_all((head + body).as_bytes())
    }

    /// Answers a client from which nothing was read. Never waits.
    pub(crate) fn turn_away(&mut self, status: u16, json: &Value) -> io::Result<()> {
        self.stream().set_nonblocking(true)?;
        self.answer(status, json, false)?;
        self.stream().set_nonblocking(false)
    }

    /// Ends the connection, after reading and dropping what the client still sends, for at most `patience`. Otherwise
    /// the connection would be reset, and the client could lose the answer.
    pub(crate) fn finish(mut self, patience: Duration) -> io::Result<()> {
        self.stream().shutdown(Shutdown::Write)?;
        self.wait(patience);
        io::copy(&mut self.reader.get_mut().take(DROPPED), &mut io::sink()).map(|_| ())
    }

    /// Begins an answer of events. The connection is closed after it.
    pub(crate) fn begin_events(&mut self) -> io::Result<()> {
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\nConnection: close\r\n\r\n";
        self.stream().write_all(head.as_bytes())
    }

    pub(crate) fn event(&mut self, data: &str) -> io::Result<()> {
        self.stream().write_all(format!("data: {data}\n\n").as_bytes())
    }

    /// Returns whether the client has gone away. A client that has only closed its sending half looks the same. Bytes
    /// that it sends stay unread.
    pub(crate) fn is_gone(&self) -> bool {
        if !self.reader.buffer().is_empty() {
            return false;
        }
        let found = self.stream().set_nonblocking(true).and_then(|()| self.stream().peek(&mut [0]));
        let restored = self.stream().set_nonblocking(false);
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
        413 => "Content Too Large",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        501 => "Not Implemented",
        503 => "Service Unavailable",
        _ => "Internal Server Error",
    }
}
