//! Calls in the turns of the assistant, and results after them.

use super::super::pieces::{At, Frame};
use super::super::{Piece, Thinking};
use super::list::frame;
use super::{Answer, Body, Put, ToolCall, ToolFormat, ToolResult, ToolTurns, gemma, python, spaced};
use crate::tools::CallFormat;
use crate::tools::json;

impl ToolTurns<'_> {
    pub(super) fn write_answer<E>(&mut self, answer: Answer<'_>, put: Put<'_, E>) -> Result<(), E> {
        if !self.is_offered {
            self.offer_without_system(put)?;
        }
        let goes_on = self.in_results && self.format.results.is_inside;
        let is_unmarked = self.in_results && self.format.results.is_unmarked;
        self.close_inside(put)?;
        let is_harmony = self.format.calls == CallFormat::Harmony;
        if is_harmony && !(answer.calls.is_empty() && answer.thought.is_empty()) {
            return self.harmony(answer, put);
        }
        let format = self.turns.format();
        let text = format.assistant.trim.apply(answer.text);
        let is_open = goes_on || self.turns.at() == At::Reply;
        if !is_open {
            self.turns.close().try_for_each(&mut *put)?;
        }
        let thinking = Thinking::of(format).filter(|_| !answer.thought.is_empty());
        match thinking.and_then(|thinking| Some((thinking, thinking.around?))) {
            Some((thinking, (open, before, after))) => {
                frame(if is_open || is_unmarked { "" } else { open }, put)?;
                frame(if is_open && thinking.opens_thought(None) { "" } else { before }, put)?;
                put(Piece::Text(answer.thought))?;
                frame(after, put)?;
            }
            // The blank separates the frame from text, and there is no text.
            None if text.is_empty() && format.assistant.before == " " => {}
            None => frame(if is_open || is_unmarked { "" } else { format.assistant.before }, put)?,
        }
        put(Piece::Text(text))?;
        let joint = match (text.is_empty(), answer.thought.is_empty()) {
            (false, _) => self.format.joint,
            (true, true) => self.format.lone,
            (true, false) => "",
        };
        self.calls(answer.calls, joint, put)?;
        if self.format.results.is_inside && !answer.calls.is_empty() {
            self.turns.stands(At::Reply);
        } else {
            frame(format.assistant.after, put)?;
            self.turns.stands(At::Assistant);
        }
        Ok(())
    }

    /// Writes an answer in harmony, in which thoughts and calls are messages of their own.
    fn harmony<E>(&mut self, answer: Answer<'_>, put: Put<'_, E>) -> Result<(), E> {
        let mut head = if self.turns.at() == At::Reply { "" } else { "<|start|>assistant" };
        if !answer.thought.is_empty() {
            put(Piece::Frame(head))?;
            put(Piece::Frame("<|channel|>analysis<|message|>"))?;
            put(Piece::Text(answer.thought))?;
            put(Piece::Frame("<|end|>"))?;
            head = "<|start|>assistant";
        }
        if !answer.text.is_empty() || answer.calls.is_empty() {
            put(Piece::Frame(head))?;
            let is_final = answer.calls.is_empty();
            put(Piece::Frame(if is_final {
                "<|channel|>final<|message|>"
            } else {
                "<|channel|>commentary<|message|>"
            }))?;
            put(Piece::Text(answer.text))?;
            put(Piece::Frame("<|end|>"))?;
            head = "<|start|>assistant";
        }
        for call in answer.calls {
            put(Piece::Frame(head))?;
            put(Piece::Text(" to=functions."))?;
            put(Piece::Text(call.name))?;
            put(Piece::Frame("<|channel|>commentary json<|message|>"))?;
            spaced::json(call.arguments, put)?;
            put(Piece::Frame("<|call|>"))?;
            head = "<|start|>assistant";
        }
        self.turns.stands(At::User);
        Ok(())
    }

    fn calls<E>(&mut self, calls: &[ToolCall<'_>], joint: Frame, put: Put<'_, E>) -> Result<(), E> {
        if calls.is_empty() {
            return Ok(());
        }
        frame(joint, put)?;
        let (open, between, close) = around(self.format.calls, self.format.is_tight);
        put(Piece::Frame(self.format.open_calls.unwrap_or(open)))?;
        for (index, call) in calls.iter().enumerate() {
            put(Piece::Frame(if index == 0 { "" } else { between }))?;
            write_call(self.format, call, self.calls, put)?;
            self.calls = self.calls.saturating_add(1);
        }
        put(Piece::Frame(close))?;
        put(Piece::Frame(self.format.close_calls))
    }

    /// Closes results that are in the model's own turn.
    pub(super) fn close_inside<E>(&mut self, put: Put<'_, E>) -> Result<(), E> {
        let is_inside = core::mem::take(&mut self.in_results) && self.format.results.is_inside;
        frame(if is_inside { self.format.results.close } else { "" }, put)
    }

    pub(super) fn write_result<E>(&mut self, result: ToolResult<'_>, put: Put<'_, E>) -> Result<(), E> {
        let results = &self.format.results;
        if self.in_results {
            // The frame that closes the turn of the results is written when this turn ends.
            frame(results.between, put)?;
        } else {
            match (results.close_call, self.turns.at()) {
                (Some(close), At::Reply) => frame(close, put)?,
                _ if results.is_inside => {}
                _ => self.turns.close().try_for_each(&mut *put)?,
            }
            frame(results.open, put)?;
        }
        body(results.body, &result, put)?;
        self.in_results = true;
        if !results.is_inside {
            self.turns.stands(At::Results(results.close));
        }
        Ok(())
    }
}

/// Returns the text before the first call, between two calls, and after the last call.
fn around(calls: CallFormat, is_tight: bool) -> (&'static str, &'static str, &'static str) {
    match calls {
        CallFormat::Glm4_5 if is_tight => ("", "", ""),
        CallFormat::Hermes | CallFormat::Qwen3_5 | CallFormat::Glm4_5 | CallFormat::SeedOss | CallFormat::MiniCpm5 => {
            ("", "\n", "")
        }
        CallFormat::MistralV3 => ("[TOOL_CALLS][", ", ", "]"),
        CallFormat::Apertus => ("<|tools_prefix|>[", ", ", "]<|tools_suffix|>"),
        CallFormat::Lfm2 => ("<|tool_call_start|>[", ", ", "]<|tool_call_end|>"),
        CallFormat::Granite3 => ("<|tool_call|>[", ", ", "]"),
        CallFormat::Phi4Mini => ("<|tool_call|>[", ", ", "]<|/tool_call|>"),
        CallFormat::KimiK2 => ("<|tool_calls_section_begin|>", "", "<|tool_calls_section_end|>"),
        CallFormat::Nemotron => ("<TOOLCALL>[", ", ", "]</TOOLCALL>"),
        CallFormat::DeepSeek if is_tight => ("<｜tool▁calls▁begin｜>", "", "<｜tool▁calls▁end｜>"),
        CallFormat::DeepSeek => ("<｜tool▁calls▁begin｜>", "\n", "<｜tool▁calls▁end｜>"),
        CallFormat::Llama3 => ("", "; ", ""),
        _ => ("", "", ""),
    }
}

/// Writes one call. `number` is the number of calls before it.
fn write_call<E>(format: &ToolFormat, call: &ToolCall<'_>, number: usize, put: Put<'_, E>) -> Result<(), E> {
    let (id, line) = (Id { call, number }, Piece::Text(if format.is_tight { "" } else { "\n" }));
    match format.calls {
        CallFormat::Hermes => {
            put(Piece::Frame("<tool_call>"))?;
            put(line)?;
            object(call, "arguments", put)?;
            put(Piece::Text("}"))?;
            put(line)?;
            put(Piece::Frame("</tool_call>"))
        }
        CallFormat::Llama3 => {
            object(call, "parameters", put)?;
            put(Piece::Text("}"))
        }
        CallFormat::MistralV3 => {
            object(call, "arguments", put)?;
            put(Piece::Text(", \"id\": \""))?;
            id.nine(put)?;
            put(Piece::Text("\"}"))
        }
        CallFormat::MistralV11 | CallFormat::MistralV13 => {
            put(Piece::Frame("[TOOL_CALLS]"))?;
            put(Piece::Text(call.name))?;
            if format.calls == CallFormat::MistralV11 {
                put(Piece::Frame("[CALL_ID]"))?;
                id.nine(put)?;
            }
            put(Piece::Frame("[ARGS]"))?;
            spaced::json(call.arguments, put)
        }
        CallFormat::Lfm2 => arguments_of_python(call, put),
        CallFormat::Gemma4 => gemma::GEMMA4.call(call, put),
        CallFormat::FunctionGemma => gemma::FUNCTION.call(call, put),
        CallFormat::DeepSeek => deep_seek(call, format.is_tight, put),
        CallFormat::Qwen3_5 => parameters(call, put),
        CallFormat::SeedOss => seed_oss(call, put),
        CallFormat::MiniCpm5 => quoted(call, put),
        CallFormat::Apertus => {
            for part in ["{\"", call.name, "\": "] {
                put(Piece::Text(part))?;
            }
            spaced::json(call.arguments, put)?;
            put(Piece::Text("}"))
        }
        CallFormat::Glm4_5 => keys_and_values(call, line, put),
        CallFormat::KimiK2 => {
            put(Piece::Frame("<|tool_call_begin|>"))?;
            id.kimi(put)?;
            put(Piece::Frame("<|tool_call_argument_begin|>"))?;
            spaced::json(call.arguments, put)?;
            put(Piece::Frame("<|tool_call_end|>"))
        }
        _ => {
            object(call, "arguments", put)?;
            put(Piece::Text("}"))
        }
    }
}

/// Writes `{"name": N, "arguments": {...}`, without the end of the object.
fn object<E>(call: &ToolCall<'_>, arguments: &'static str, put: Put<'_, E>) -> Result<(), E> {
    for part in ["{\"name\": \"", call.name, "\", \"", arguments, "\": "] {
        put(Piece::Text(part))?;
    }
    spaced::json(call.arguments, put)
}

/// Writes `function<｜tool▁sep｜>N` and the arguments in a block of Markdown, or `N<｜tool▁sep｜>{...}` if `is_tight`.
fn deep_seek<E>(call: &ToolCall<'_>, is_tight: bool, put: Put<'_, E>) -> Result<(), E> {
    put(Piece::Frame("<｜tool▁call▁begin｜>"))?;
    put(Piece::Text(if is_tight { call.name } else { "function" }))?;
    put(Piece::Frame("<｜tool▁sep｜>"))?;
    put(Piece::Text(if is_tight { "" } else { call.name }))?;
    put(Piece::Text(if is_tight { "" } else { "\n```json\n" }))?;
    spaced::json(call.arguments, put)?;
    put(Piece::Text(if is_tight { "" } else { "\n```" }))?;
    put(Piece::Frame("<｜tool▁call▁end｜>"))
}

/// Writes `N(k="v", b=True)`.
fn arguments_of_python<E>(call: &ToolCall<'_>, put: Put<'_, E>) -> Result<(), E> {
    put(Piece::Text(call.name))?;
    put(Piece::Text("("))?;
    for (index, (name, value, _)) in json::members(call.arguments).enumerate() {
        put(Piece::Text(if index == 0 { "" } else { ", " }))?;
        spaced::plain(name, put)?;
        put(Piece::Text("="))?;
        spaced::python(value, put)?;
    }
    put(Piece::Text(")"))
}

/// Writes `<tool_call>\n<function=N>\n<parameter=k>\nv\n</parameter>\n</function>\n</tool_call>`.
fn parameters<E>(call: &ToolCall<'_>, put: Put<'_, E>) -> Result<(), E> {
    put(Piece::Frame("<tool_call>"))?;
    for part in ["\n<function=", call.name, ">\n"] {
        put(Piece::Text(part))?;
    }
    for (name, value, _) in json::members(call.arguments) {
        put(Piece::Text("<parameter="))?;
        spaced::plain(name, put)?;
        put(Piece::Text(">\n"))?;
        text_or_json(value, put)?;
        put(Piece::Text("\n</parameter>\n"))?;
    }
    put(Piece::Text("</function>\n"))?;
    put(Piece::Frame("</tool_call>"))
}

/// Writes `<seed:tool_call>\n<function=N>\n<parameter=k>v</parameter>\n</function>\n</seed:tool_call>`, with values as
/// Python prints them.
fn seed_oss<E>(call: &ToolCall<'_>, put: Put<'_, E>) -> Result<(), E> {
    put(Piece::Frame("<seed:tool_call>"))?;
    for part in ["\n<function=", call.name, ">\n"] {
        put(Piece::Text(part))?;
    }
    for (name, value, _) in json::members(call.arguments) {
        put(Piece::Text("<parameter="))?;
        spaced::plain(name, put)?;
        put(Piece::Text(">"))?;
        python::string(value, put)?;
        put(Piece::Text("</parameter>\n"))?;
    }
    put(Piece::Text("</function>\n"))?;
    put(Piece::Frame("</seed:tool_call>"))
}

/// Writes `<function name="N"><param name="k">v</param></function>`, with values as Python prints them. The beginnings
/// of the tags are tokens.
fn quoted<E>(call: &ToolCall<'_>, put: Put<'_, E>) -> Result<(), E> {
    put(Piece::Frame("<function"))?;
    for part in [" name=\"", call.name, "\">"] {
        put(Piece::Text(part))?;
    }
    for (name, value, _) in json::members(call.arguments) {
        put(Piece::Frame("<param"))?;
        put(Piece::Text(" name=\""))?;
        spaced::plain(name, put)?;
        put(Piece::Text("\">"))?;
        let is_data = json::string(value).is_some_and(|text| json::chars(text).any(|c| matches!(c, '<' | '&' | '\n')));
        put(Piece::Text(if is_data { "<![CDATA[" } else { "" }))?;
        python::string(value, put)?;
        put(Piece::Text(if is_data { "]]>" } else { "" }))?;
        put(Piece::Frame("</param>"))?;
    }
    put(Piece::Frame("</function>"))
}

/// Writes `<tool_call>N\n<arg_key>k</arg_key>\n<arg_value>v</arg_value>\n</tool_call>`, with `line` in place of each
/// line end.
fn keys_and_values<E>(call: &ToolCall<'_>, line: Piece<'_>, put: Put<'_, E>) -> Result<(), E> {
    put(Piece::Frame("<tool_call>"))?;
    put(Piece::Text(call.name))?;
    put(line)?;
    for (name, value, _) in json::members(call.arguments) {
        put(Piece::Frame("<arg_key>"))?;
        spaced::plain(name, put)?;
        put(Piece::Frame("</arg_key>"))?;
        put(line)?;
        put(Piece::Frame("<arg_value>"))?;
        text_or_json(value, put)?;
        put(Piece::Frame("</arg_value>"))?;
        put(line)?;
    }
    put(Piece::Frame("</tool_call>"))
}

fn text_or_json<E>(value: &str, put: Put<'_, E>) -> Result<(), E> {
    match json::string(value) {
        Some(inside) => spaced::plain(inside, put),
        None => spaced::json(value, put),
    }
}

/// The identifier of a call: its own, or one made of the call's number.
struct Id<'c> {
    call: &'c ToolCall<'c>,
    number: usize,
}

impl Id<'_> {
    /// Writes the call's own identifier, or its number with nine digits.
    fn nine<E>(&self, put: Put<'_, E>) -> Result<(), E> {
        match self.call.id {
            Some(id) => put(Piece::Text(id)),
            None => put(Piece::Text(digits(self.number, &mut [b'0'; 9]))),
        }
    }

    /// Writes the call's own identifier, or `functions.NAME:NUMBER`.
    fn kimi<E>(&self, put: Put<'_, E>) -> Result<(), E> {
        if let Some(id) = self.call.id {
            return put(Piece::Text(id));
        }
        put(Piece::Text("functions."))?;
        put(Piece::Text(self.call.name))?;
        put(Piece::Text(":"))?;
        let mut buffer = [b'0'; 9];
        let number = digits(self.number, &mut buffer).trim_start_matches('0');
        put(Piece::Text(if number.is_empty() { "0" } else { number }))
    }
}

/// Returns a number with leading zeros.
fn digits(number: usize, buffer: &mut [u8; 9]) -> &str {
    let mut rest = number;
    for place in buffer.iter_mut().rev() {
        *place = b'0' + u8::try_from(rest % 10).unwrap_or(0);
        rest /= 10;
    }
    core::str::from_utf8(buffer).unwrap_or_default()
}

fn body<E>(body: Body, result: &ToolResult<'_>, put: Put<'_, E>) -> Result<(), E> {
    let id = result.id.unwrap_or(result.name);
    match body {
        Body::Plain(before, after) => {
            frame(before, put)?;
            put(Piece::Text(result.text))?;
            frame(after, put)
        }
        Body::Quoted(before, after) => {
            frame(before, put)?;
            spaced::quoted(result.text, put)?;
            frame(after, put)
        }
        Body::WithId(before, after) => {
            frame(before, put)?;
            put(Piece::Text("{\"content\": "))?;
            put(Piece::Text(result.text))?;
            put(Piece::Text(", \"call_id\": \""))?;
            put(Piece::Text(id))?;
            put(Piece::Text("\"}"))?;
            frame(after, put)
        }
        Body::AfterId(before, between, after) => {
            frame(before, put)?;
            put(Piece::Text(id))?;
            frame(between, put)?;
            put(Piece::Text(result.text))?;
            frame(after, put)
        }
        Body::Recipient => {
            put(Piece::Frame("<|start|>"))?;
            put(Piece::Text("functions."))?;
            put(Piece::Text(result.name))?;
            put(Piece::Text(" to=assistant"))?;
            put(Piece::Frame("<|channel|>commentary<|message|>"))?;
            spaced::quoted(result.text, put)?;
            put(Piece::Frame("<|end|>"))
        }
        Body::Gemma(marks) => marks.result(result, put),
    }
}
