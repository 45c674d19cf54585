//! The clients: each has a thread, which reads requests and writes what the engine's thread answers.

use std::io;
use std::net::TcpListener;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use gleed::sample::SamplerParams;
use gleed::token::StopStrings;
use serde_json::Value;

use crate::answer::{self, Answer, Said, Usage};
use crate::ask::{Ask, Called};
use crate::http::{Connection, Request};
use crate::work::{Event, Job};

/// How often a client that waits is looked after.
const LOOK: Duration = Duration::from_millis(100);

pub(crate) struct Server {
    pub(crate) model: String,
    pub(crate) jobs: Sender<Job>,
    /// Requests that are not answered yet, and connections.
    pub(crate) open: AtomicUsize,
    pub(crate) connections: Arc<AtomicUsize>,
    pub(crate) most_open: usize,
    pub(crate) most_connections: usize,
    /// Of the next answer.
    pub(crate) number: AtomicUsize,
    pub(crate) sampling: SamplerParams,
}

/// One more of something, until it is dropped.
struct Counted<C: Deref<Target = AtomicUsize>>(C);

impl<C: Deref<Target = AtomicUsize>> Counted<C> {
    /// `None`: there are so many already.
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

/// How a request ends for its client.
enum End {
    /// With an answer that is written. Whether the client may ask again.
    Done(bool),
    Refused(u16, &'static str, String),
}

impl Server {
    pub(crate) fn listen(self: Arc<Self>, listener: &TcpListener) {
        for stream in listener.incoming().flatten() {
            let server = Arc::clone(&self);
            // Here, so that who comes first has the place.
            let place = Counted::new(Arc::clone(&self.connections), self.most_connections);
            // A client whose connection breaks is gone.
            std::thread::spawn(move || Connection::new(stream).and_then(|connection| server.serve(connection, place)));
        }
    }

    fn serve(&self, mut connection: Connection, place: Option<Counted<Arc<AtomicUsize>>>) -> io::Result<()> {
        while let Some(request) = connection.read()? {
            let (end, stays) = match request {
                _ if place.is_none() => {
                    let words = format!("{} connections are open, which is the limit", self.most_connections);
                    (End::Refused(503, "too_many_connections", words), false)
                }
                Err((status, words)) => (End::Refused(status, "invalid_request", words), false),
                Ok(request) => (self.respond(&request, &mut connection)?, request.stays),
            };
            let stays = match end {
                End::Done(may_stay) => stays && may_stay,
                End::Refused(status, code, words) => {
                    connection.answer(status, &answer::error(status, code, &words), stays)?;
                    stays
                }
            };
            if !stays {
                return Ok(());
            }
        }
        Ok(())
    }

    fn respond(&self, request: &Request, connection: &mut Connection) -> io::Result<End> {
        let (method, path) = (&*request.method, &*request.path);
        let is_chat = path == "/v1/chat/completions";
        match (method, path) {
            ("GET", "/v1/models") => {
                connection.answer(200, &answer::models(&self.model), request.stays)?;
                Ok(End::Done(true))
            }
            ("GET", path) if path.strip_prefix("/v1/models/") == Some(&*self.model) => {
                connection.answer(200, &answer::model(&self.model), request.stays)?;
                Ok(End::Done(true))
            }
            ("POST", "/v1/completions" | "/v1/chat/completions") => {
                let parsed = serde_json::from_slice::<Value>(&request.body)
                    .map_err(|error| format!("the body is no JSON: {error}"));
                let make = if is_chat { Ask::chat } else { Ask::completion };
                match parsed.and_then(|json| make(&json, self.sampling)) {
                    Ok(ask) => self.ask(ask, is_chat, request.stays, connection),
                    Err(words) => Ok(End::Refused(400, "invalid_request", words)),
                }
            }
            (_, "/v1/models" | "/v1/completions" | "/v1/chat/completions") => {
                Ok(End::Refused(405, "method_not_allowed", format!("{path} does not take {method}")))
            }
            _ => Ok(End::Refused(404, "not_found", format!("there is no {path}"))),
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
        let answer = Answer::new(is_chat, self.number.fetch_add(1, Ordering::Relaxed), &self.model);
        let (streams, counts) = (ask.streams, ask.counts);
        let (events, heard) = channel();
        let gone = Arc::new(AtomicBool::new(false));
        let job = Job { ask, events, gone: Arc::clone(&gone) };
        if self.jobs.send(job).is_err() {
            return Ok(End::Refused(503, "stopped", "the engine has stopped".into()));
        }
        let mut hearing = Hearing { answer, streams, stops, said: Said::default(), usage: Usage::default() };
        let end = hearing.hear(&heard, place, counts, stays, connection);
        // Whatever has happened: nobody waits any more.
        gone.store(true, Ordering::Relaxed);
        end
    }
}

/// What a client has heard of its answer.
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
            // Pieces may come faster than a client is looked after.
            if looked.elapsed() >= LOOK {
                looked = Instant::now();
                if connection.is_gone() {
                    return Err(io::ErrorKind::ConnectionAborted.into());
                }
            }
        }
        // Who reads the end of an answer can ask again at once.
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
