//! The thread that has the engine. It generates all answers, in batches.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError};

use common::{Result, text};
use gleed::conversation::Script;
use gleed::grammar::{TokenTrie, Vocabulary};
use gleed::host::OwnedMatcher;
use gleed::sample::{Sampler, scratch_len};
use gleed::token::Tokenizer;
use gleed::tools::{Part, Reader, Tools};
use gleed::{Engine, Logits, Plan, SeqId, Step};

use crate::ask::Ask;
use crate::prompt::Writer;
use crate::rules::Rules;

/// A request from a client's thread.
pub(crate) struct Job {
    pub(crate) ask: Ask,
    /// Matcher that the answer has to follow, if there is one.
    pub(crate) matcher: Option<OwnedMatcher>,
    pub(crate) events: Sender<Event>,
    /// Set when nobody waits for the answer any more.
    pub(crate) gone: Arc<AtomicBool>,
}

/// An event of a request, in the order in which they are sent.
pub(crate) enum Event {
    /// The request is refused or ends with an error: HTTP status, name of the problem, and message.
    Refused(u16, &'static str, String),
    /// The prompt is queued: number of its tokens, and how many of them the prefix cache had.
    Begun {
        prompt: usize,
        reused: usize,
    },
    /// A piece of the text, and the number of tokens of the answer so far, as in the following variants.
    Text(String, usize),
    Thought(String, usize),
    /// A call of a tool: its name and arguments.
    Call(String, String, usize),
    End(&'static str, usize),
}

pub(crate) struct Worker<'t> {
    engine: Engine<'t, 't>,
    writer: Writer<'t>,
    rules: Rules,
    trie: &'t TokenTrie<'t>,
    sequences: usize,
    context: usize,
    /// Units that a step computes before the worker looks for new requests.
    units: usize,
    /// Ids of tokens that end an answer.
    ends: Vec<u32>,
    waiting: VecDeque<Job>,
    running: Vec<Running<'t>>,
    masses: Vec<u64>,
    mask: Vec<u32>,
}

/// An answer in progress.
struct Running<'t> {
    job: Job,
    seq: SeqId,
    sampler: Sampler,
    stream: text::Stream<'t, 't, 't>,
    /// Finds thoughts and calls.
    reader: Option<Reader>,
    /// Text of the answer so far, if there is a reader for it.
    text: String,
    matcher: Option<OwnedMatcher>,
    /// Whether the mask brings the answer to its end within `most` tokens.
    closes: bool,
    tokens: usize,
    most: usize,
    has_called: bool,
}

impl<'t> Worker<'t> {
    pub(crate) fn new(
        engine: Engine<'t, 't>,
        plan: &Plan,
        tokenizer: &'t Tokenizer<'t, 't>,
        script: &'t Script<'t>,
        rules: Rules,
        trie: &'t TokenTrie<'t>,
    ) -> Self {
        let names = script.format.map_or(&[][..], |format| format.stops()).iter();
        let stops = names.chain(rules.tools.map_or(&[][..], |tools| tools.stops()));
        let stops = stops.filter_map(|name| tokenizer.find(name.as_bytes()));
        let ends = (0..tokenizer.tokens()).filter(|&id| tokenizer.is_end(id)).chain(stops).collect();
        let masses = vec![0; scratch_len(engine.model().config().vocab)];
        let limits = plan.limits();
        Self {
            engine,
            writer: Writer { tokenizer, script, tools: rules.tools },
            rules,
            trie,
            sequences: limits.sequences,
            context: limits.context,
            units: plan.units_per_token(),
            ends,
            waiting: VecDeque::new(),
            running: Vec::new(),
            masses,
            mask: vec![0; trie.mask_len()],
        }
    }

    /// Works until no more requests can come.
    pub(crate) fn run(mut self, jobs: &Receiver<Job>) -> Result<()> {
        loop {
            loop {
                let is_idle = self.running.is_empty() && self.waiting.is_empty();
                let job = if is_idle { jobs.recv().map_err(|_| TryRecvError::Disconnected) } else { jobs.try_recv() };
                match job {
                    Ok(job) => self.waiting.push_back(job),
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => return Ok(()),
                }
            }
            self.let_go()?;
            while self.running.len() < self.sequences
                && let Some(job) = self.waiting.pop_front()
            {
                self.begin(job)?;
            }
            match self.engine.step(self.units) {
                Ok(Step::Ready) => self.go_on()?,
                Ok(_) => {}
                // An error, such as logits that are not finite, ends all running answers.
                Err(error) => {
                    for running in std::mem::take(&mut self.running) {
                        self.end(running, Event::Refused(500, "engine", error.to_string()))?;
                    }
                }
            }
        }
    }

    /// Ends the answers that nobody waits for.
    fn let_go(&mut self) -> Result<()> {
        let is_gone = |job: &Job| job.gone.load(Ordering::Relaxed);
        self.waiting.retain(|job| !is_gone(job));
        while let Some(index) = self.running.iter().position(|running| is_gone(&running.job)) {
            let running = self.running.swap_remove(index);
            self.end(running, Event::End("cancelled", 0))?;
        }
        Ok(())
    }

    fn end(&mut self, running: Running<'_>, event: Event) -> Result<()> {
        self.engine.cancel(running.seq)?;
        self.engine.close(running.seq)?;
        // Sending fails if the client is gone.
        let _ = running.job.events.send(event);
        Ok(())
    }

    /// Begins a request, or refuses it.
    fn begin(&mut self, job: Job) -> Result<()> {
        let seq = self.engine.open()?;
        match self.prepare(&job, seq) {
            Ok((begun, make)) => {
                let _ = job.events.send(begun);
                self.running.push(make(job));
            }
            Err((name, words)) => {
                self.engine.close(seq)?;
                let _ = job.events.send(Event::Refused(400, name, words));
            }
        }
        Ok(())
    }

    /// Queues the prompt of a request. Returns the event for its client, and a function that makes the running answer
    /// of the job.
    fn prepare(
        &mut self,
        job: &Job,
        seq: SeqId,
    ) -> std::result::Result<(Event, impl FnOnce(Job) -> Running<'t> + use<'t>), (&'static str, String)> {
        let wrong = |error: &dyn std::fmt::Display| ("invalid_request", error.to_string());
        let (ask, thoughts) = (&job.ask, self.rules.thoughts(&job.ask));
        let tokens = self.writer.tokens(&ask.begin, self.rules.think(ask)).map_err(|error| wrong(&error))?;
        let (prompt, room) = (tokens.len(), self.context);
        if prompt >= room {
            let words = format!("the request has {prompt} tokens, the context is {room}");
            return Err(("context_length_exceeded", words));
        }
        let mut sampler = Sampler::new(ask.sampling).map_err(|error| wrong(&error))?;
        let vocab = self.engine.model().config().vocab;
        if let Some((token, _)) = ask.biases.iter().find(|(token, _)| *token as usize >= vocab) {
            let words = format!("logit_bias: the token is {token}, it must be 0 to {}", vocab - 1);
            return Err(("invalid_request", words));
        }
        sampler.set_biases(&ask.biases).map_err(|error| wrong(&format!("logit_bias: {error}")))?;
        let calls = ask.offered().and(self.rules.tools).map(|tools| tools.calls());
        let reader = (calls.is_some() || thoughts.is_some()).then(|| {
            Reader::new(calls, thoughts.map(|(marks, _)| marks), thoughts.is_some_and(|(_, is_open)| is_open))
        });
        let reused = self.engine.reuse(seq, &tokens).map_err(|error| wrong(&error))?;
        let rest = tokens.get(reused..).unwrap_or_default();
        self.engine.queue(seq, reused, rest, Logits::Last).map_err(|error| wrong(&error))?;
        tokens.iter().for_each(|&token| sampler.accept(token));
        let stream = text::Stream::rendering(self.writer.tokenizer, reader.is_some());
        let (closes, most) = (ask.has_an_end(), ask.most.unwrap_or(usize::MAX).min(room - prompt));
        let make = move |mut job: Job| {
            let (matcher, text, tokens, has_called) = (job.matcher.take(), String::new(), 0, false);
            Running { job, seq, sampler, stream, reader, text, matcher, closes, tokens, most, has_called }
        };
        Ok((Event::Begun { prompt, reused }, make))
    }

    /// Continues the answers whose logits are ready.
    fn go_on(&mut self) -> Result<()> {
        let ready: Vec<SeqId> = self.engine.results().map(|(seq, ..)| seq).collect();
        for seq in ready {
            let Some(index) = self.running.iter().position(|running| running.seq == seq) else { continue };
            let mut running = self.running.swap_remove(index);
            match self.write(&mut running) {
                Ok(None) => self.running.push(running),
                Ok(Some(event)) => self.end(running, event)?,
                Err(error) => self.end(running, Event::Refused(500, "engine", error.to_string()))?,
            }
        }
        Ok(())
    }

    /// Chooses the next token of an answer that is not complete. Returns the last event if the answer ends with it.
    fn write(&mut self, running: &mut Running<'_>) -> Result<Option<Event>> {
        let token = self.choose(running)?;
        if self.ends.contains(&token) {
            running.say("", true);
            let reason = if running.has_called { "tool_calls" } else { "stop" };
            return Ok(Some(Event::End(reason, running.tokens)));
        }
        running.tokens += 1;
        running.sampler.accept(token);
        let piece = running.stream.push(token).to_owned();
        running.say(&piece, false);
        let is_complete = running.matcher.as_mut().is_some_and(|matcher| matcher.with(|matcher| matcher.is_complete()));
        if is_complete || running.tokens == running.most {
            running.say("", true);
            let reason = match is_complete {
                // The required call was complete with the last token.
                _ if running.has_called && (is_complete || running.may_end()) => "tool_calls",
                true => "stop",
                false => "length",
            };
            return Ok(Some(Event::End(reason, running.tokens)));
        }
        let position = self.engine.seq_len(running.seq)?;
        self.engine.queue(running.seq, position, &[token], Logits::Last)?;
        Ok(None)
    }

    fn choose(&mut self, running: &mut Running<'_>) -> Result<u32> {
        let logits = self.engine.logits(running.seq).unwrap_or_default();
        let Running { sampler, matcher, closes, tokens, most, .. } = running;
        let Some(matcher) = matcher else { return Ok(sampler.sample(logits, &mut self.masses)?.token) };
        let (tokenizer, trie, ends) = (self.writer.tokenizer, self.trie, &self.ends);
        let (mask, masses) = (&mut self.mask, &mut self.masses);
        matcher.with(|matcher| {
            if matcher.is_free() && !*closes {
                let token = sampler.sample(logits, masses)?.token;
                let is_end = ends.contains(&token);
                if if is_end { matcher.may_end() } else { matcher.accept(tokenizer, token)? } {
                    return Ok(token);
                }
            }
            match *closes {
                true => matcher.mask_within(trie, *most - *tokens, usize::MAX, mask)?,
                false => matcher.mask(trie, usize::MAX, mask)?,
            };
            for &id in ends {
                let Some(word) = mask.get_mut(id as usize / 32) else { continue };
                let bit = 1 << (id % 32);
                *word = if matcher.may_end() { *word | bit } else { *word & !bit };
            }
            let token = sampler.sample_masked(logits, mask, masses)?.token;
            if !ends.contains(&token) {
                matcher.accept(tokenizer, token)?;
            }
            Ok(token)
        })
    }
}

impl Running<'_> {
    /// Returns whether an answer that must be complete may end here.
    fn may_end(&mut self) -> bool {
        self.closes && self.matcher.as_mut().is_some_and(|matcher| matcher.with(|matcher| matcher.may_end()))
    }

    /// Sends the new part of the text. If `is_whole`, sends the part that was held back, too.
    fn say(&mut self, piece: &str, is_whole: bool) {
        let rest = if is_whole { self.stream.finish() } else { "" };
        let Some(mut reader) = self.reader else {
            if !piece.is_empty() || !rest.is_empty() {
                let _ = self.job.events.send(Event::Text(format!("{piece}{rest}"), self.tokens));
            }
            return;
        };
        self.text.push_str(piece);
        self.text.push_str(rest);
        let list = self.job.ask.offered().and_then(|offered| Tools::new(&offered.list).ok());
        while let Some(part) = reader.next(&self.text, is_whole, list.as_ref()) {
            let event = match part {
                Ok(Part::Text(text)) => Event::Text(text.to_owned(), self.tokens),
                Ok(Part::Thought(text)) => Event::Thought(text.to_owned(), self.tokens),
                Ok(Part::Call(call)) => {
                    let (tool, mut json) = (list.and_then(|list| list.find(call.name)), String::new());
                    // Writing to a string cannot fail.
                    let _ = call.arguments.write_json(tool.as_ref(), &mut json);
                    self.has_called = true;
                    Event::Call(call.name.to_owned(), json, self.tokens)
                }
                // The call was cut off.
                Err(_) => continue,
            };
            let _ = self.job.events.send(event);
        }
        self.reader = Some(reader);
    }
}
