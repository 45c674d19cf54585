//! Replies with calls, in each format.

use heapless::Vec;

use super::Schemas;
use super::envelope::Callable;
use crate::grammar::calls::{Calls, ToolChoice};
use crate::grammar::code::Code;
use crate::grammar::scratch::Result;
use crate::grammar::search::Sought;
use crate::tools::CallFormat;

/// The most texts that are sought at once.
const SOUGHT: usize = 8;

/// How a call without a mark begins, at the beginning of a reply. A blank stands for any white space.
const BARE: [&str; 2] = ["{ \"name\"", "{ \"type\" : \"function\" , \"name\""];

impl Schemas<'_, '_, '_, '_> {
    /// Returns the code of a whole reply.
    pub(super) fn reply(&mut self, calls: &Calls<'_>, tools: Callable) -> Result<Code> {
        if calls.format == CallFormat::Harmony {
            return self.harmony(calls, tools);
        }
        let (format, opens, end) = (calls.format, calls.format.opens(), self.program.end(self.scratch)?);
        let is_bare = format == CallFormat::Llama3;
        let (thought, bare) = (opens.len() as u32, opens.len() as u32 + u32::from(calls.thoughts.is_some()));
        let firsts = BARE.into_iter().filter(|_| is_bare).map(|text| Sought { text, is_first: true });
        let open = calls.thoughts.map(|thoughts| anywhere(thoughts.open));
        let free = self.free(&all(opens.iter().copied().map(anywhere).chain(open).chain(firsts)), true)?;
        let then = match (calls.parallel && !is_bare, section(format)) {
            (true, _) => free.code,
            (false, None) => end,
            (false, Some((_, close))) => {
                let close = self.sign(close, end)?;
                self.maybe(close, end)?
            }
        };
        let mut first = 0;
        for (number, open) in (0..).zip(opens.iter().copied()) {
            let call = self.call(calls, tools, open, then)?;
            self.found(free, number, open, call)?;
            if number == 0 {
                first = self.sign(open, call)?;
            }
        }
        if is_bare {
            let (object, behind_key) = self.objects_of_llama(calls.parallel, tools, end)?;
            (0..BARE.len() as u32).try_for_each(|number| self.found(free, bare + number, "", behind_key))?;
            first = self.program.either(self.scratch, first, object)?;
        }
        if let Some((open, _)) = section(format) {
            let opened = self.sign(open, first)?;
            first = self.maybe(opened, first)?;
        }
        let is_free = calls.choice == ToolChoice::Auto;
        let begin = if is_free { free.code } else { first };
        let Some(thoughts) = calls.thoughts else { return Ok(begin) };
        let thinking = self.free(&[anywhere(thoughts.close)], is_free)?;
        let behind = if is_free { begin } else { self.matched(b"\\n{0,2}", begin)? };
        self.found(thinking, 0, thoughts.close, behind)?;
        self.found(free, thought, thoughts.open, thinking.code)?;
        if calls.is_thinking {
            return Ok(thinking.code);
        }
        if is_free {
            return Ok(begin);
        }
        let opened = self.sign(thoughts.open, thinking.code)?;
        self.maybe(opened, begin)
    }

    /// Returns the code of a call, or of several in a list, behind the mark that opens them.
    fn call(&mut self, calls: &Calls<'_>, tools: Callable, open: &str, then: Code) -> Result<Code> {
        let (format, parallel) = (calls.format, calls.parallel);
        let end = match format.close() {
            // Behind this word the list may have the mark at its end or not.
            Some(close) if open == "functools" => {
                let close = self.sign(close, then)?;
                self.maybe(close, then)?
            }
            Some(close) => self.sign(close, then)?,
            None => then,
        };
        match format {
            CallFormat::Hermes => {
                let end = self.line(end)?;
                let (object, _) = self.object_call(tools, "arguments", false, end)?;
                self.line(object)
            }
            CallFormat::Llama3 => Ok(self.objects_of_llama(parallel, tools, end)?.0),
            CallFormat::MistralV3 => {
                let list = self.object_list(tools, parallel, true, end)?;
                self.matched(b" ?", list)
            }
            CallFormat::MistralV11 | CallFormat::MistralV13 => self.mistral(tools, format, end),
            CallFormat::Lfm2 => self.call_list(parallel, end, |schemas, then| {
                schemas.tool_name(tools, false, |schemas, rule| {
                    let close = schemas.literal(")", then)?;
                    let arguments = schemas.program.call(schemas.scratch, rule, close)?;
                    schemas.literal("(", arguments)
                })
            }),
            CallFormat::Gemma4 | CallFormat::FunctionGemma => {
                let name =
                    self.tool_name(tools, false, |schemas, rule| schemas.program.call(schemas.scratch, rule, end))?;
                self.literal("call:", name)
            }
            CallFormat::Qwen3_5 | CallFormat::SeedOss => self.function(tools, end),
            CallFormat::MiniCpm5 => self.tool_name(tools, false, |schemas, rule| {
                let arguments = schemas.program.call(schemas.scratch, rule, end)?;
                schemas.literal("\">", arguments)
            }),
            CallFormat::Glm4_5 => self.tool_name(tools, false, |schemas, rule| {
                let arguments = schemas.program.call(schemas.scratch, rule, end)?;
                schemas.line(arguments)
            }),
            CallFormat::Apertus => self.call_list(parallel, end, |schemas, then| {
                let close = schemas.literal("}", then)?;
                let name = schemas.tool_name(tools, false, |schemas, rule| {
                    let arguments = schemas.program.call(schemas.scratch, rule, close)?;
                    schemas.literal("\": ", arguments)
                })?;
                schemas.literal("{\"", name)
            }),
            CallFormat::KimiK2 => self.kimi(tools, end),
            CallFormat::DeepSeek => self.deep_seek(tools, end),
            _ => self.object_list(tools, parallel, false, end),
        }
    }

    /// `[{"name": N, "arguments": {...}}, ...]`.
    fn object_list(&mut self, tools: Callable, parallel: bool, has_id: bool, then: Code) -> Result<Code> {
        self.call_list(parallel, then, |schemas, then| Ok(schemas.object_call(tools, "arguments", has_id, then)?.0))
    }

    /// `{"name": N, "parameters": {...}}; ...`. Returns its code, and the code behind the first `"name"`.
    fn objects_of_llama(&mut self, parallel: bool, tools: Callable, end: Code) -> Result<(Code, Code)> {
        if !parallel {
            return self.object_call(tools, "parameters", false, end);
        }
        let behind = self.program.push(self.scratch, crate::grammar::code::SPLIT, end, end, 0, 0)?;
        let (object, behind_key) = self.object_call(tools, "parameters", false, behind)?;
        let more = self.literal("; ", object)?;
        self.scratch.set(behind, crate::grammar::code::B, more);
        Ok((object, behind_key))
    }

    /// `N[CALL_ID]id[ARGS]{...}`.
    fn mistral(&mut self, tools: Callable, format: CallFormat, end: Code) -> Result<Code> {
        self.tool_name(tools, false, |schemas, rule| {
            let arguments = schemas.program.call(schemas.scratch, rule, end)?;
            let arguments = schemas.sign("[ARGS]", arguments)?;
            if format == CallFormat::MistralV13 {
                return Ok(arguments);
            }
            let id = schemas.matched(b"[A-Za-z0-9]{9}", arguments)?;
            schemas.sign("[CALL_ID]", id)
        })
    }

    /// `<function=N>` and the parameters.
    fn function(&mut self, tools: Callable, end: Code) -> Result<Code> {
        let end = self.line(end)?;
        let end = self.literal("</function>", end)?;
        let name = self.tool_name(tools, false, |schemas, rule| {
            let arguments = schemas.program.call(schemas.scratch, rule, end)?;
            schemas.literal(">\n", arguments)
        })?;
        let name = self.literal("<function=", name)?;
        self.line(name)
    }

    /// `functions.N:0<|tool_call_argument_begin|>{...}`.
    fn kimi(&mut self, tools: Callable, end: Code) -> Result<Code> {
        let name = self.tool_name(tools, false, |schemas, rule| {
            let arguments = schemas.program.call(schemas.scratch, rule, end)?;
            let arguments = schemas.sign("<|tool_call_argument_begin|>", arguments)?;
            schemas.matched(b":[0-9]{1,4}", arguments)
        })?;
        self.literal("functions.", name)
    }

    /// `function<｜tool▁sep｜>N` and a block of Markdown, or `N<｜tool▁sep｜>{...}`.
    fn deep_seek(&mut self, tools: Callable, end: Code) -> Result<Code> {
        let fence = self.literal("\n```", end)?;
        let name = self.tool_name(tools, false, |schemas, rule| {
            let arguments = schemas.program.call(schemas.scratch, rule, fence)?;
            schemas.literal("\n```json\n", arguments)
        })?;
        let name = self.sign("<｜tool▁sep｜>", name)?;
        let block = self.literal("function", name)?;
        let bare = self.tool_name(tools, false, |schemas, rule| {
            let arguments = schemas.program.call(schemas.scratch, rule, end)?;
            schemas.sign("<｜tool▁sep｜>", arguments)
        })?;
        self.program.either(self.scratch, block, bare)
    }

    /// Returns the code of messages with headers. A header names the tool that is called.
    fn harmony(&mut self, calls: &Calls<'_>, tools: Callable) -> Result<Code> {
        let end = self.program.end(self.scratch)?;
        let call = self.tool_name(tools, false, |schemas, rule| {
            let arguments = schemas.program.call(schemas.scratch, rule, end)?;
            schemas.rest_of_header(arguments)
        })?;
        let call = self.literal("functions.", call)?;
        if calls.choice != ToolChoice::Auto {
            return self.required_harmony(call);
        }
        let header = self.free(&["to=", "<|message|>"].map(anywhere), true)?;
        let ends = all(CallFormat::Harmony.message_ends().iter().copied().map(anywhere));
        let message = self.free(&ends, true)?;
        self.found(header, 0, "", call)?;
        self.found(header, 1, "<|message|>", message.code)?;
        for (number, end) in (0..).zip(&ends) {
            self.found(message, number, end.text, header.code)?;
        }
        Ok(header.code)
    }

    /// Returns the code of a header behind the name: the channel, where it did not come before, and the kind of
    /// content.
    fn rest_of_header(&mut self, content: Code) -> Result<Code> {
        let message = self.sign("<|message|>", content)?;
        let json = self.literal("json", message)?;
        let constrained = self.sign("<|constrain|>", json)?;
        let constrained = self.matched(b" ?", constrained)?;
        // The blank ends the name before it.
        let json = self.literal(" ", json)?;
        let json = self.program.either(self.scratch, json, constrained)?;
        let kind = self.program.either(self.scratch, json, message)?;
        let channel = self.literal("commentary", kind)?;
        let channel = self.sign("<|channel|>", channel)?;
        let channel = self.matched(b" ?", channel)?;
        self.program.either(self.scratch, channel, kind)
    }

    fn required_harmony(&mut self, call: Code) -> Result<Code> {
        let in_role = self.literal(" to=", call)?;
        let in_channel = self.literal("commentary to=", call)?;
        let in_channel = self.sign("<|channel|>", in_channel)?;
        let begin = self.program.either(self.scratch, in_role, in_channel)?;
        let again = self.literal("assistant", begin)?;
        let again = self.sign("<|start|>", again)?;
        let thought = self.free(&[anywhere("<|end|>")], false)?;
        self.found(thought, 0, "<|end|>", again)?;
        let thinks = self.sign("<|message|>", thought.code)?;
        let thinks = self.literal("analysis", thinks)?;
        let thinks = self.sign("<|channel|>", thinks)?;
        self.program.either(self.scratch, thinks, begin)
    }
}

/// Returns a list of these texts, of which there are few.
fn all(texts: impl Iterator<Item = Sought>) -> Vec<Sought, SOUGHT> {
    let mut list = Vec::new();
    for sought in texts {
        let _fits = list.push(sought);
    }
    list
}

fn anywhere(text: &'static str) -> Sought {
    Sought { text, is_first: false }
}

/// Returns the marks around all calls, where a format has them.
fn section(format: CallFormat) -> Option<(&'static str, &'static str)> {
    if let [open, close] = format.fillers() { Some((open, close)) } else { None }
}
