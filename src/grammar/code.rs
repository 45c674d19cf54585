//! Rules of instructions: the one form to which all kinds of grammars are compiled, before it is packed.

use super::dfa::Dfa;
use super::scratch::{Result, Scratch};

/// An instruction, by the number of its record.
pub(super) type Code = u32;
/// A rule, by the number of its record.
pub(super) type Rule = u32;

/// How characters are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Codec {
    /// As they are.
    Raw = 0,
    /// In a string of JSON, with short escapes.
    Short = 1,
    /// In a string of JSON, with short escapes, and with `\u00xx` of control characters.
    Control = 2,
    /// In a string of JSON, with short escapes, and with `\uXXXX` of any character.
    All = 3,
}

// The fields of an instruction. The first is its operation.
const LINK: u32 = 1;
const PLACE: u32 = 2;
pub(super) const A: u32 = 3;
pub(super) const B: u32 = 4;
pub(super) const C: u32 = 5;
pub(super) const D: u32 = 6;
pub(super) const ALIVE: u32 = 7;
pub(super) const EMPTY: u32 = 8;
/// A fifth operand, which few operations have.
pub(super) const EXTRA: u32 = 9;

// Operations, in a compilation and in a finished grammar.
/// The rule ends.
pub(super) const RETURN: u32 = 0;
/// A text of the automaton `A`, written in the codec `B`; then the code `C`.
pub(super) const TEXT: u32 = 1;
/// A name of the automaton `A` whose number is at least `C`; then the code that the table `B` has for this number.
pub(super) const NAME: u32 = 2;
/// The code `A` or the code `B`.
pub(super) const SPLIT: u32 = 3;
/// A loop: the code `C`, `A` to `B` times; then the code `D`.
pub(super) const LOOP: u32 = 4;
/// The end of the body of the loop `A`.
pub(super) const COUNT: u32 = 5;
/// A call of the rule `A`; then the code `B`.
pub(super) const CALL: u32 = 6;
/// The token with the id `A` or, if `B` is 1, any token but that one; then the code `C`.
pub(super) const TOKEN: u32 = 7;

/// Free text: any bytes, in which the automaton `A` finds texts. Behind a text that it has found, the code follows that
/// the table `B` has for the text's number. At every other place the code `C` may follow, unless it is 0. `D` is the
/// state in which no part of a text was found. If `EXTRA` is 1, tokens without bytes may stand in free text, too.
pub(super) const FREE: u32 = 9;
/// As [`TEXT`], but of at least `D` and at most `EXTRA` characters. In its rule there is no loop around it.
pub(super) const COUNTED: u32 = 8;

// The fields of a rule.
const START: u32 = 0;
const RULE_AT: u32 = 1;
/// The rule found after this one.
pub(super) const RULE_LINK: u32 = 2;
/// The rules with which the rule can begin, as a list.
pub(super) const BEGINS: u32 = 3;
/// Whether the rule was found.
pub(super) const FOUND: u32 = 4;
/// Whether it is known that the rule does not begin with itself.
pub(super) const SOUND: u32 = 5;
/// The rule of white space followed by this rule, or 0.
const SPACED: u32 = 6;

/// The instructions of all rules, in the order in which they were made.
#[derive(Default)]
pub(super) struct Program {
    pub(super) first: Code,
    last: Code,
    ends: Code,
}

impl Program {
    pub(super) fn push(&mut self, scratch: &mut Scratch<'_>, op: u32, a: u32, b: u32, c: u32, d: u32) -> Result<Code> {
        let code = scratch.record([op, 0, 0, a, b, c, d, 0, 0, 0])?;
        match self.last {
            0 => self.first = code,
            last => scratch.set(last, LINK, code),
        }
        self.last = code;
        Ok(code)
    }

    /// Returns the instruction that ends a rule. All rules share it.
    pub(super) fn end(&mut self, scratch: &mut Scratch<'_>) -> Result<Code> {
        if self.ends == 0 {
            self.ends = self.push(scratch, RETURN, 0, 0, 0, 0)?;
        }
        Ok(self.ends)
    }

    pub(super) fn text(&mut self, scratch: &mut Scratch<'_>, dfa: Dfa, codec: Codec, then: Code) -> Result<Code> {
        self.push(scratch, TEXT, dfa, codec as u32, then, 0)
    }

    /// Returns the code of a text of `min` to `max` characters.
    pub(super) fn counted_text(
        &mut self,
        scratch: &mut Scratch<'_>,
        (dfa, codec): (Dfa, Codec),
        (min, max): (u32, u32),
        then: Code,
    ) -> Result<Code> {
        let code = self.push(scratch, COUNTED, dfa, codec as u32, then, min)?;
        scratch.set(code, EXTRA, max);
        Ok(code)
    }

    /// Returns the code of free text in which an automaton finds texts. The entries of the table, and the code that may
    /// follow at every other place, are set later.
    pub(super) fn free(
        &mut self,
        scratch: &mut Scratch<'_>,
        (dfa, nothing): (Dfa, Dfa),
        table: u32,
        is_open: bool,
    ) -> Result<Code> {
        let code = self.push(scratch, FREE, dfa, table, 0, nothing)?;
        scratch.set(code, EXTRA, u32::from(is_open));
        Ok(code)
    }

    /// Returns code that goes on at the one or at the other code. 0 stands for no code.
    pub(super) fn either(&mut self, scratch: &mut Scratch<'_>, one: Code, other: Code) -> Result<Code> {
        match (one, other) {
            (0, code) | (code, 0) => Ok(code),
            _ => self.push(scratch, SPLIT, one, other, 0, 0),
        }
    }

    /// Returns the code of a call.
    pub(super) fn call(&mut self, scratch: &mut Scratch<'_>, rule: Rule, then: Code) -> Result<Code> {
        self.push(scratch, CALL, rule, then, 0, 0)
    }

    /// Returns the code of a loop that goes on at `then`, and the code at which its body has to end. The body is given
    /// to [`Program::close_loop`]. The upper bound is not 0.
    pub(super) fn open_loop(
        &mut self,
        scratch: &mut Scratch<'_>,
        (min, max): (u32, u32),
        then: Code,
    ) -> Result<(Code, Code)> {
        let code = self.push(scratch, LOOP, min, max, 0, then)?;
        let end = self.push(scratch, COUNT, code, 0, 0, 0)?;
        Ok((code, end))
    }

    pub(super) fn close_loop(&mut self, scratch: &mut Scratch<'_>, code: Code, body: Code) {
        scratch.set(code, C, body);
    }
}

/// Returns a rule without code.
pub(super) fn rule(scratch: &mut Scratch<'_>, at: usize) -> Result<Rule> {
    scratch.record([0, at as u32, 0, 0, 0, 0, 0])
}

pub(super) fn set_start(scratch: &mut Scratch<'_>, rule: Rule, start: Code) {
    scratch.set(rule, START, start);
}

pub(super) fn start(scratch: &Scratch<'_>, rule: Rule) -> Code {
    scratch.get(rule, START)
}

/// Returns the rule of white space followed by this rule, or 0.
pub(super) fn spaced(scratch: &Scratch<'_>, rule: Rule) -> Rule {
    scratch.get(rule, SPACED)
}

pub(super) fn set_spaced(scratch: &mut Scratch<'_>, rule: Rule, spaced: Rule) {
    scratch.set(rule, SPACED, spaced);
}

/// Returns where a rule is defined.
pub(super) fn rule_at(scratch: &Scratch<'_>, rule: Rule) -> usize {
    scratch.get(rule, RULE_AT) as usize
}

/// Returns the operation of an instruction.
pub(super) fn op(scratch: &Scratch<'_>, code: Code) -> u32 {
    scratch.get(code, 0)
}

/// Returns the instruction made after this one, or 0.
pub(super) fn following(scratch: &Scratch<'_>, code: Code) -> Code {
    scratch.get(code, LINK)
}

pub(super) fn place(scratch: &Scratch<'_>, code: Code) -> u32 {
    scratch.get(code, PLACE)
}

pub(super) fn set_place(scratch: &mut Scratch<'_>, code: Code, place: u32) {
    scratch.set(code, PLACE, place);
}
