//! Serves the clients. Each has a thread, which reads requests and writes the answers of the engine's thread.

use std::io;
use std::net::{TcpListener, TcpStream};
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use gleed::sample::SamplerParams;
use gleed::token::StopStrings;
use serde_json::Value;

use crate::answer::{self, Answer, Said, Usage};
use crate::ask::{Ask, Called};
use crate::head::decoded;
use crate::http::{Connection, Fault, Request};
use crate::rules::Rules;
use crate::work::{Event, Job};

/// Time between two checks whether a waiting client is still there.
const LOOK: Duration = Duration::from_millis(100);
/// Time that a refused client has to read the reason. `SHORT_FAREWELL` is for clients without a thread.
const FAREWELL: Duration = Duration::from_secs(5);
const SHORT_FAREWELL: Duration = Duration::from_secs(1);
/// Most refused clients without a thread that get this time. Further ones are dropped at once.
const TURNED_AWAY: usize = 32;

pub(crate) struct Server {
    pub(crate) model: String,
    pub(crate) jobs: Sender<Job>,
    /// Number of requests that are not answered yet. `connections` is the number of open connections.
    pub(crate) open: AtomicUsize,
    pub(crate) connections: Arc<AtomicUsize>,
    pub(crate) most_open: usize,
    pub(crate) most_connections: usize,
    /// Number of the next answer.
    pub(crate) number: AtomicUsize,
    pub(crate) sampling: SamplerParams,
    pub(crate) rules: Rules,
}

/// Raises a count by 1 until it is dropped.
struct Counted<C: Deref<Target = AtomicUsize>>(C);

impl<C: Deref<Target = AtomicUsize>> Counted<C> {
    /// Returns `None` if the count is already `most`.
    fn new(count: C, most: usize) -> Option<Self> {
        let before = count.fetch_add(1, Ordering::Relaxed);
        let counted = Self(count);
        (before < most).then_some(counted)
    }
}

impl<C: Deref<Target = AtomicUsize>> Drop for Counted<C> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The end of a request.
enum End {
    /// An answer was written. The value says whether the client may send another request.
    Done(bool),
    Refused(u16, &'static str, String),
}

/// The resource that a path names.
#[derive(Clone, Copy)]
enum Place {
    Models,
    Model,
    Completions,
    Chat,
}

impl Place {
    fn methods(self) -> &'static str {
        match self {
            Self::Models | Self::Model => "GET, HEAD",
            Self::Completions | Self::Chat => "POST",
        }
    }
}

impl Server {
    pub(crate) fn listen(self: Arc<Self>, listener: &TcpListener) {
        let (turned, away) = sync_channel::<Connection>(TURNED_AWAY);
        let see_off = move || away.iter().for_each(|connection| drop(connection.finish(SHORT_FAREWELL)));
        // If this thread cannot start, refused clients are dropped at once.
        let _ = thread::Builder::new().spawn(see_off);
        for stream in listener.incoming() {
            match stream {
                Ok(stream) => self.welcome(stream, &turned),
                // If the system has no room for another connection, the next call would fail, too. So wait.
                Err(_) => thread::sleep(LOOK),
            }
        }
    }

    /// Gives a client a thread, or refuses it if there are too many connections.
    fn welcome(self: &Arc<Self>, stream: TcpStream, turned: &SyncSender<Connection>) {
        let Ok(mut connection) = Connection::new(stream) else { return };
        let Some(place) = Counted::new(Arc::clone(&self.connections), self.most_connections) else {
            let words = format!("{} connections are open, which is the limit", self.most_connections);
            if connection.turn_away(503, &answer::error(503, "too_many_connections", &words)).is_ok() {
                // If too many refused clients are still reading, this one is dropped.
                let _ = turned.try_send(connection);
            }
            return;
        };
        let server = Arc::clone(self);
        let serve = move || {
            // An error means that the connection broke. There is nobody to tell.
            let _ = server.serve(connection);
            drop(place);
        };
        // If the system cannot start another thread, the connection is dropped with the closure.
        let _ = thread::Builder::new().spawn(serve);
    }

    fn serve(&self, mut connection: Connection) -> io::Result<()> {
        loop {
            let request = match connection.read() {
                Ok(Some(request)) => request,
                Ok(None) => return Ok(()),
                Err(Fault::Broken(error)) => return Err(error),
                Err(Fault::Refused(status, words)) => {
                    connection.answer(status, &answer::error(status, "invalid_request", &words), false)?;
                    return connection.finish(FAREWELL);
                }
            };
            let stays = match self.respond(&request, &mut connection)? {
                End::Done(may_stay) => request.stays && may_stay,
                End::Refused(status, code, words) => {
                    connection.answer(status, &answer::error(status, code, &words), request.stays)?;
                    request.stays
                }
            };
            if !stays {
                return Ok(());
            }
        }
    }

    fn place(&self, path: &str) -> Option<Place> {
        match path {
            "/v1/models" => Some(Place::Models),
            "/v1/completions" => Some(Place::Completions),
            "/v1/chat/completions" => Some(Place::Chat),
            _ => {
                let name = path.strip_prefix("/v1/models/").map(decoded);
                name.filter(|name| *name == self.model.as_bytes()).map(|_| Place::Model)
            }
        }
    }

    fn respond(&self, request: &Request, connection: &mut Connection) -> io::Result<End> {
        let (method, path) = (&*request.method, &*request.path);
        let Some(place) = self.place(path) else {
            return Ok(End::Refused(404, "not_found", format!("there is no {path}")));
        };
        match (method, place) {
            ("GET" | "HEAD", Place::Models) => {
                connection.answer(200, &answer::models(&self.model), request.stays)?;
                Ok(End::Done(true))
            }
            ("GET" | "HEAD", Place::Model) => {
                connection.answer(200, &answer::model(&self.model), request.stays)?;
                Ok(End::Done(true))
            }
            ("POST", Place::Completions) => self.parse(request, false, connection),
            ("POST", Place::Chat) => self.parse(request, true, connection),
            _ => {
                let words = format!("{path} does not take {method}");
                let allow = format!("Allow: {}\r\n", place.methods());
                let error = answer::error(405, "method_not_allowed", &words);
                connection.answer_with(&allow, 405, &error, request.stays)?;
                Ok(End::Done(true))
            }
        }
    }

    fn parse(&self, request: &Request, is_chat: bool, connection: &mut Connection) -> io::Result<End> {
        let json =
            serde_json::from_slice::<Value>(&request.body).map_err(|error| format!("the body is no JSON: {error}"));
        let make = if is_chat { Ask::chat } else { Ask::completion };
        match json.and_then(|json| make(&json, self.sampling)) {
            Ok(ask) => self.ask(ask, is_chat, request.stays, connection),
            Err(words) => Ok(End::Refused(400, "invalid_request", words)),
        }
    }

    fn ask(&self, ask: Ask, is_chat: bool, stays: bool, connection: &mut Connection) -> io::Result<End> {
        let Some(place) = Counted::new(&self.open, self.most_open) else {
            let words = format!("{} requests are being answered or wait, which is the limit", self.most_open);
            return Ok(End::Refused(429, "too_many_requests", words));
        };
        let strings = ask.stops.clone();
        let strings: Vec<&str> = strings.iter().map(String::as_str).collect();
        let stops = match StopStrings::new(&strings) {
            Ok(stops) => stops,
            Err(error) => return Ok(End::Refused(400, "invalid_request", format!("stop: {error}"))),
        };
        let matcher = match self.rules.matcher(&ask) {
            Ok(matcher) => matcher,
            Err(words) => return Ok(End::Refused(400, "invalid_request", words)),
        };
        let answer = Answer::new(is_chat, self.number.fetch_add(1, Ordering::Relaxed), &self.model);
        let (streams, counts) = (ask.streams, ask.counts);
        let (events, heard) = channel();
        let gone = Arc::new(AtomicBool::new(false));
        let job = Job { ask, matcher, events, gone: Arc::clone(&gone) };
        if self.jobs.send(job).is_err() {
            return Ok(End::Refused(503, "stopped", "the engine has stopped".into()));
        }
        let mut hearing = Hearing { answer, streams, stops, said: Said::default(), usage: Usage::default() };
        let end = hearing.hear(&heard, place, counts, stays, connection);
        // Nobody waits for the answer any more, however it ended.
        gone.store(true, Ordering::Relaxed);
        end
    }
}

/// The answer that is being sent to a client.
struct Hearing<'s> {
    answer: Answer,
    streams: bool,
    stops: StopStrings<'s>,
    said: Said,
    usage: Usage,
}

impl Hearing<'_> {
    fn hear(
        &mut self,
        heard: &Receiver<Event>,
        place: Counted<&AtomicUsize>,
        counts: bool,
        stays: bool,
        connection: &mut Connection,
    ) -> io::Result<End> {
        let (mut has_begun, mut reason, mut looked) = (false, None, Instant::now());
        while reason.is_none() {
            let event = match heard.recv_timeout(LOOK) {
                Ok(event) => event,
                Err(RecvTimeoutError::Timeout) if connection.is_gone() => {
                    return Err(io::ErrorKind::ConnectionAborted.into());
                }
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => {
                    return Ok(End::Refused(503, "stopped", "the engine has stopped".into()));
                }
            };
            match event {
                Event::Refused(status, code, words) if has_begun && self.streams => {
                    connection.event(&answer::error(status, code, &words).to_string())?;
                    return Ok(End::Done(false));
                }
                Event::Refused(status, code, words) => return Ok(End::Refused(status, code, words)),
                Event::Begun { prompt, reused } => {
                    (self.usage.prompt, self.usage.reused, has_begun) = (prompt, reused, true);
                    if self.streams {
                        connection.begin_events()?;
                        self.answer.role().map_or(Ok(()), |role| connection.event(&role.to_string()))?;
                    }
                }
                Event::Text(text, tokens) => {
                    self.usage.answer = tokens;
                    let shown = self.stops.push(&text);
                    let (text, stop) = (shown.held.to_owned() + shown.text, shown.stop);
                    self.text(text, connection)?;
                    reason = stop.map(|_| "stop");
                }
                Event::Thought(text, tokens) => {
                    self.usage.answer = tokens;
                    if self.streams {
                        connection.event(&self.answer.thought(&text).to_string())?;
                    }
                    self.said.thought.push_str(&text);
                }
                Event::Call(name, arguments, tokens) => {
                    self.usage.answer = tokens;
                    self.call(name, arguments, connection)?;
                }
                Event::End(end, tokens) => {
                    self.usage.answer = tokens;
                    let rest = self.stops.finish().to_owned();
                    self.text(rest, connection)?;
                    reason = Some(end);
                }
            }
            // Events may come so fast that `recv_timeout` never times out, so check the client here, too.
            if looked.elapsed() >= LOOK {
                looked = Instant::now();
                if connection.is_gone() {
                    return Err(io::ErrorKind::ConnectionAborted.into());
                }
            }
        }
        // The place is free before the answer ends, so that the client can send its next request at once.
        drop(place);
        let reason = reason.unwrap_or("stop");
        if !self.streams {
            let whole = self.answer.whole(std::mem::take(&mut self.said), reason, self.usage);
            connection.answer(200, &whole, stays)?;
            return Ok(End::Done(true));
        }
        connection.event(&self.answer.end(reason).to_string())?;
        if counts {
            connection.event(&self.answer.usage(self.usage).to_string())?;
        }
        connection.event("[DONE]")?;
        Ok(End::Done(false))
    }

    fn text(&mut self, text: String, connection: &mut Connection) -> io::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        if self.streams {
            connection.event(&self.answer.text(&text).to_string())?;
        }
        self.said.text.push_str(&text);
        Ok(())
    }

    fn call(&mut self, name: String, arguments: String, connection: &mut Connection) -> io::Result<()> {
        let index = self.said.calls.len();
        let called = Called { id: format!("call-{}-{index}", self.answer.number), name, arguments };
        if self.streams {
            connection.event(&self.answer.call(index, &called).to_string())?;
        }
        self.said.calls.push(called);
        Ok(())
    }
}
