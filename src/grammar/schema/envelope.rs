//! The code of what stands around the arguments of calls, made from the back to the front.

use super::Schemas;
use crate::grammar::check::TABLE_WORDS;
use crate::grammar::code::{Code, Codec, NAME, Rule, SPLIT, TOKEN};
use crate::grammar::dfa::{self, Trie};
use crate::grammar::json::Chars;
use crate::grammar::scratch::Result;
use crate::grammar::search::{Sought, search};

/// Tools: their names and the rules of their arguments.
#[derive(Clone, Copy, Default)]
pub(super) struct Callable {
    /// A record with three words for each tool: where its name begins and ends in the text, and the rule of its
    /// arguments.
    pub(super) list: u32,
    pub(super) count: u32,
}

/// Free text.
#[derive(Clone, Copy)]
pub(super) struct Free {
    pub(super) code: Code,
    table: u32,
}

impl Schemas<'_, '_, '_, '_> {
    /// Returns the code of a text, then `then`.
    pub(super) fn literal(&mut self, text: &str, then: Code) -> Result<Code> {
        if text.is_empty() {
            return Ok(then);
        }
        let dfa = dfa::literal(self.scratch, text.chars().map(u32::from))?;
        self.program.text(self.scratch, dfa, Codec::Raw, then)
    }

    /// Returns the code of a mark, then `then`: a token, a token and the rest of the text, or the text.
    pub(super) fn sign(&mut self, text: &str, then: Code) -> Result<Code> {
        let found = self.marks.iter().find_map(|mark| Some((mark.token, text.strip_prefix(mark.text)?)));
        let Some((token, rest)) = found else { return self.literal(text, then) };
        let rest = self.literal(rest, then)?;
        self.program.push(self.scratch, TOKEN, token, 0, rest, 0)
    }

    /// Returns the code of what a built-in expression matches, then `then`.
    pub(super) fn matched(&mut self, expression: &'static [u8], then: Code) -> Result<Code> {
        let dfa = self.expression(expression, 0, true)?;
        self.program.text(self.scratch, dfa, Codec::Raw, then)
    }

    /// Returns the code of a line end or none, then `then`.
    pub(super) fn line(&mut self, then: Code) -> Result<Code> {
        self.matched(b"\\n?", then)
    }

    /// Returns code that goes on at `code`, which itself ends at `then`, or directly at `then`.
    pub(super) fn maybe(&mut self, code: Code, then: Code) -> Result<Code> {
        self.program.either(self.scratch, code, then)
    }

    /// Returns the code of the name of a tool, with quotes or without, then what `entry` makes of the rule of its
    /// arguments.
    pub(super) fn tool_name(
        &mut self,
        tools: Callable,
        is_quoted: bool,
        mut entry: impl FnMut(&mut Self, Rule) -> Result<Code>,
    ) -> Result<Code> {
        let table = self.scratch.zeroed(tools.count as usize + TABLE_WORDS)?;
        self.scratch.set(table, 0, tools.count);
        let mut names = Trie::new(self.scratch)?;
        for number in 0..tools.count {
            let [from, to, rule] =
                [0, 1, 2].map(|field| self.scratch.get(tools.list, number.wrapping_mul(3).wrapping_add(field)));
            let name = self.dom.text.get(from as usize..to as usize).unwrap_or_default();
            match is_quoted {
                true => names.add(self.scratch, Self::spelled(name), number)?,
                false => names.add(self.scratch, Chars(name), number)?,
            }
            let code = entry(self, rule)?;
            self.scratch.set(table, number + 1, code);
        }
        self.program.push(self.scratch, NAME, names.dfa(), table, 0, 0)
    }

    /// Returns the code of `{"name": N, "arguments": {...}}`, and the code behind its `"name"`. `arguments` is the name
    /// of the member with the arguments. With `has_id` the object may have an identifier.
    pub(super) fn object_call(
        &mut self,
        tools: Callable,
        arguments: &str,
        has_id: bool,
        then: Code,
    ) -> Result<(Code, Code)> {
        let close = self.mark(b'}', then)?;
        let close = self.space(close)?;
        let mut tail = close;
        if has_id {
            let id = self.matched(b"\"[A-Za-z0-9]{9}\"", close)?;
            let id = self.space(id)?;
            let id = self.colon(id)?;
            let id = self.literal("\"id\"", id)?;
            let id = self.separated(id)?;
            tail = self.maybe(id, close)?;
        }
        let name = self.tool_name(tools, true, |schemas, rule| {
            let value = schemas.spaced_call(rule, tail)?;
            let value = schemas.colon(value)?;
            let value = schemas.literal("\"", value)?;
            let value = schemas.literal(arguments, value)?;
            let value = schemas.literal("\"", value)?;
            schemas.separated(value)
        })?;
        let name = self.space(name)?;
        let behind_key = self.colon(name)?;
        let key = self.literal("\"name\"", behind_key)?;
        let key = self.space(key)?;
        Ok((self.mark(b'{', key)?, behind_key))
    }

    /// Returns the code of a list in brackets: what `one` makes, once or, where several calls are allowed, more often.
    pub(super) fn call_list(
        &mut self,
        parallel: bool,
        then: Code,
        one: impl FnOnce(&mut Self, Code) -> Result<Code>,
    ) -> Result<Code> {
        let close = self.mark(b']', then)?;
        let close = self.space(close)?;
        let behind = self.program.push(self.scratch, SPLIT, close, close, 0, 0)?;
        let first = one(self, behind)?;
        if parallel {
            let more = self.separated(first)?;
            self.scratch.set(behind, crate::grammar::code::B, more);
        }
        let first = self.space(first)?;
        self.mark(b'[', first)
    }

    /// Returns free text in which some texts are sought. It may end anywhere if `may_end`.
    pub(super) fn free(&mut self, sought: &[Sought], may_end: bool) -> Result<Free> {
        let automaton = search(self.scratch, sought)?;
        let table = self.scratch.zeroed(sought.len() + TABLE_WORDS)?;
        self.scratch.set(table, 0, sought.len() as u32);
        let code = self.program.free(self.scratch, automaton, table, may_end)?;
        let end = if may_end { self.program.end(self.scratch)? } else { 0 };
        self.scratch.set(code, crate::grammar::code::C, end);
        Ok(Free { code, table })
    }

    /// Sets the code that follows the sought text with this number. The text's mark may be a token.
    pub(super) fn found(&mut self, free: Free, number: u32, text: &str, then: Code) -> Result<()> {
        self.scratch.set(free.table, number.wrapping_add(1), then);
        // A token that is only the beginning of the text counts as the whole text.
        let token = self.marks.iter().find(|mark| text.starts_with(mark.text));
        let Some(mark) = token else { return Ok(()) };
        let beside = self.scratch.get(free.code, crate::grammar::code::C);
        let token = self.program.push(self.scratch, TOKEN, mark.token, 0, then, 0)?;
        let beside = self.program.either(self.scratch, token, beside)?;
        self.scratch.set(free.code, crate::grammar::code::C, beside);
        Ok(())
    }
}
