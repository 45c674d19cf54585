//! Builds answers in JSON.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::ask::Called;

/// The fields that all parts of an answer share.
pub(crate) struct Answer {
    pub(crate) is_chat: bool,
    pub(crate) number: usize,
    pub(crate) model: String,
    pub(crate) created: u64,
}

/// The parts of an answer so far.
#[derive(Default)]
pub(crate) struct Said {
    pub(crate) text: String,
    pub(crate) thought: String,
    pub(crate) calls: Vec<Called>,
}

/// Token counts of a request.
#[derive(Clone, Copy, Default)]
pub(crate) struct Usage {
    pub(crate) prompt: usize,
    pub(crate) reused: usize,
    pub(crate) answer: usize,
}

impl Answer {
    pub(crate) fn new(is_chat: bool, number: usize, model: &str) -> Self {
        Self { is_chat, number, model: model.to_owned(), created: now() }
    }

    /// Returns the whole answer.
    pub(crate) fn whole(&self, said: Said, reason: &str, usage: Usage) -> Value {
        let choice = match self.is_chat {
            false => json!({"index": 0, "text": said.text, "logprobs": null, "finish_reason": reason}),
            true => {
                let text = if said.text.is_empty() && !said.calls.is_empty() { Value::Null } else { said.text.into() };
                let mut message = json!({"role": "assistant", "content": text});
                if !said.thought.is_empty() {
                    message["reasoning_content"] = said.thought.into();
                }
                if !said.calls.is_empty() {
                    message["tool_calls"] = said.calls.iter().map(call).collect();
                }
                json!({"index": 0, "message": message, "logprobs": null, "finish_reason": reason})
            }
        };
        let mut answer = self.part(choice, if self.is_chat { "chat.completion" } else { "text_completion" });
        answer["usage"] = usage.json();
        answer
    }

    /// Returns an event with a part of the text.
    pub(crate) fn text(&self, text: &str) -> Value {
        if self.is_chat { self.delta(json!({"content": text}), None) } else { self.piece(text, None) }
    }

    pub(crate) fn thought(&self, text: &str) -> Value {
        self.delta(json!({"reasoning_content": text}), None)
    }

    pub(crate) fn call(&self, index: usize, called: &Called) -> Value {
        let mut called = call(called);
        called["index"] = index.into();
        self.delta(json!({"tool_calls": [called]}), None)
    }

    /// Returns the event that begins a stream, if there is one.
    pub(crate) fn role(&self) -> Option<Value> {
        self.is_chat.then(|| self.delta(json!({"role": "assistant", "content": ""}), None))
    }

    pub(crate) fn end(&self, reason: &str) -> Value {
        if self.is_chat { self.delta(json!({}), Some(reason)) } else { self.piece("", Some(reason)) }
    }

    /// Returns the event that counts tokens. It has no text.
    pub(crate) fn usage(&self, usage: Usage) -> Value {
        let mut part = self.part(Value::Null, self.kind());
        (part["choices"], part["usage"]) = (json!([]), usage.json());
        part
    }

    fn delta(&self, delta: Value, reason: Option<&str>) -> Value {
        self.part(json!({"index": 0, "delta": delta, "logprobs": null, "finish_reason": reason}), self.kind())
    }

    fn piece(&self, text: &str, reason: Option<&str>) -> Value {
        self.part(json!({"index": 0, "text": text, "logprobs": null, "finish_reason": reason}), self.kind())
    }

    fn kind(&self) -> &'static str {
        if self.is_chat { "chat.completion.chunk" } else { "text_completion" }
    }

    fn part(&self, choice: Value, kind: &str) -> Value {
        let prefix = if self.is_chat { "chatcmpl" } else { "cmpl" };
        let id = format!("{prefix}-{}", self.number);
        json!({"id": id, "object": kind, "created": self.created, "model": self.model, "choices": [choice]})
    }
}

impl Usage {
    fn json(self) -> Value {
        let Self { prompt, reused, answer } = self;
        json!({"prompt_tokens": prompt, "completion_tokens": answer, "total_tokens": prompt + answer,
            "prompt_tokens_details": {"cached_tokens": reused}})
    }
}

fn call(called: &Called) -> Value {
    let Called { id, name, arguments } = called;
    json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}})
}

pub(crate) fn models(model: &str) -> Value {
    json!({"object": "list", "data": [self::model(model)]})
}

pub(crate) fn model(name: &str) -> Value {
    json!({"id": name, "object": "model", "created": 0, "owned_by": "gleed"})
}

pub(crate) fn error(status: u16, code: &str, words: &str) -> Value {
    let kind = match status {
        429 => "rate_limit_error",
        500.. => "server_error",
        _ => "invalid_request_error",
    };
    json!({"error": {"message": words, "type": kind, "param": null, "code": code}})
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}
