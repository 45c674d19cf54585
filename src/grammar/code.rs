//! The one form that all kinds of grammars are brought into: rules of instructions, while they are compiled.

use super::ast::{Ast, Expr, OPEN, expr, has_counter, is_counted, link};
use super::class;
use super::dfa::{self, Dfa};
use super::scratch::{Result, Scratch};

/// An instruction, by the number of its record.
pub(super) type Code = u32;
/// A rule, likewise.
pub(super) type Rule = u32;

/// How characters are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Codec {
    /// As they are.
    Raw = 0,
    /// In a string of JSON, with short escapes.
    Short = 1,
    /// Likewise, and `\u00xx` of control characters.
    Control = 2,
    /// Likewise, and `\uXXXX` of any character.
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
/// A fifth number, which few operations have.
pub(super) const EXTRA: u32 = 9;

// Operations, here and in a finished grammar.
/// The rule ends.
pub(super) const RETURN: u32 = 0;
/// A text of the automaton `A`, written as `B` says; then `C`.
pub(super) const TEXT: u32 = 1;
/// A name of the automaton `A` whose number is at least `C`; then what the table `B` has for the number.
pub(super) const NAME: u32 = 2;
/// `A` or `B`.
pub(super) const SPLIT: u32 = 3;
/// The code `C` `A` to `B` times, then `D`.
pub(super) const LOOP: u32 = 4;
/// The end of the code of the loop `A`.
pub(super) const COUNT: u32 = 5;
/// The rule `A`, then `B`.
pub(super) const CALL: u32 = 6;
/// The token `A`, or any but that if `B` is 1; then `C`.
pub(super) const TOKEN: u32 = 7;

/// Any bytes, in which the automaton `A` finds texts by their numbers, then what the table `B` has for the number. Wherever none is
/// being found, also `C`. `D` is the state in which nothing of a text was found. `EXTRA` is 1: tokens without bytes may stand here, too.
pub(super) const FREE: u32 = 9;
/// As [`TEXT`], of at least `D` and at most `EXTRA` characters. No loop is around it in its rule.
pub(super) const COUNTED: u32 = 8;

// The fields of a rule.
const START: u32 = 0;
const RULE_AT: u32 = 1;
/// The rule found after this one.
pub(super) const RULE_LINK: u32 = 2;
/// The rules with which it can begin: a list.
pub(super) const BEGINS: u32 = 3;
/// Whether it was found, and whether it is known that it does not begin with itself.
pub(super) const FOUND: u32 = 4;
pub(super) const SOUND: u32 = 5;
/// The rule of white space and this one.
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

    /// Returns the code of a text with so many characters.
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

    /// Returns the code of free text in which an automaton finds texts. What the table has for their numbers, and what may stand beside
    /// it, is set later.
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

    /// Returns the code of one or the other. 0 is no code.
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

    /// Returns the code of a loop that goes on at `then`, and the code at which its body has to end. The body is given to
    /// [`Program::close_loop`]. The upper bound is not 0.
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

    /// Returns the code of an expression that goes on at `then`.
    pub(super) fn expression(&mut self, scratch: &mut Scratch<'_>, ast: Ast, then: Code) -> Result<Code> {
        match expr(scratch, ast) {
            Expr::Sequence(first) => self.sequence(scratch, first, then),
            Expr::Choice(first) => {
                let (mut code, mut child) = (0, first);
                while child != 0 {
                    let other = self.expression(scratch, child, then)?;
                    code = self.either(scratch, code, other)?;
                    child = link(scratch, child);
                }
                Ok(code)
            }
            Expr::Class(set) => {
                let dfa = one_of(scratch, set, 0)?;
                self.text(scratch, dfa, Codec::Raw, then)
            }
            Expr::Repeat(inner, min, max) if is_counted(min, max) => self.counted(scratch, inner, (min, max), then),
            Expr::Repeat(inner, min, max) => self.uncounted(scratch, inner, (min, max), then),
            Expr::Rule(rule) => self.call(scratch, rule, then),
            Expr::Token(id, negated) => self.push(scratch, TOKEN, id, u32::from(negated), then, 0),
            // Only in patterns, which are automata.
            Expr::Begin | Expr::End => Ok(then),
        }
    }

    fn sequence(&mut self, scratch: &mut Scratch<'_>, first: Ast, then: Code) -> Result<Code> {
        let list = scratch.mark() as u32;
        let (mut count, mut child) = (0, first);
        while child != 0 {
            scratch.record([child])?;
            count += 1;
            child = link(scratch, child);
        }
        let mut code = then;
        // The automaton of the characters that follow at once, to which one more can be added in front.
        let mut run = 0;
        for index in (0..count).rev() {
            let child = scratch.get(list, index);
            let Expr::Class(set) = expr(scratch, child) else {
                code = self.expression(scratch, child, code)?;
                run = 0;
                continue;
            };
            let following = if run == 0 { 0 } else { scratch.get(run, A) };
            let dfa = one_of(scratch, set, following)?;
            if run == 0 {
                run = self.text(scratch, dfa, Codec::Raw, code)?;
                code = run;
            } else {
                scratch.set(run, A, dfa);
            }
        }
        Ok(code)
    }

    fn uncounted(&mut self, scratch: &mut Scratch<'_>, inner: Ast, (min, max): (u32, u32), then: Code) -> Result<Code> {
        if max == 0 {
            return Ok(then);
        }
        if max != OPEN {
            let code = self.expression(scratch, inner, then)?;
            return if min == 1 { Ok(code) } else { self.either(scratch, code, then) };
        }
        let split = self.push(scratch, SPLIT, then, then, 0, 0)?;
        let body = self.expression(scratch, inner, split)?;
        scratch.set(split, A, body);
        Ok(if min == 1 { body } else { split })
    }

    /// A loop with a counter. One inside of another becomes a rule, since an item has one counter.
    fn counted(&mut self, scratch: &mut Scratch<'_>, inner: Ast, bounds: (u32, u32), then: Code) -> Result<Code> {
        let rule = match has_counter(scratch, inner) {
            false => 0,
            true => {
                let end = self.end(scratch)?;
                let start = self.expression(scratch, inner, end)?;
                {
                    let rule = self::rule(scratch, 0)?;
                    set_start(scratch, rule, start);
                    rule
                }
            }
        };
        if bounds.1 == 0 {
            return Ok(then);
        }
        let (code, end) = self.open_loop(scratch, bounds, then)?;
        let body = match rule {
            0 => self.expression(scratch, inner, end)?,
            rule => self.call(scratch, rule, end)?,
        };
        self.close_loop(scratch, code, body);
        Ok(code)
    }
}

/// Returns the automaton of one character of a class, then what follows, if that is not 0.
fn one_of(scratch: &mut Scratch<'_>, set: u32, following: Dfa) -> Result<Dfa> {
    let target = if following == 0 { dfa::state(scratch, 1, 0)? } else { following };
    let start = dfa::state(scratch, 0, target)?;
    let (mut last, mut range) = (0, set);
    while let Some((low, high, next)) = class::range_of(scratch, range) {
        last = dfa::append(scratch, start, last, low, high, target)?;
        range = next;
    }
    Ok(start)
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

/// Returns the rule of white space and this one, or 0.
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
